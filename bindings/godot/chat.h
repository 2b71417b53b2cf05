/* The node RealizarChat without its engine: a conversation within a frame budget. godot3.c and godot4.c register it
 * with the engines by its table of methods. */
#ifndef REALIZAR_GODOT_CHAT_H
#define REALIZAR_GODOT_CHAT_H

#include <realizar.h>

/* Kinds of a value, the numbers of Godot 4; those of Godot 3 are the same. */
enum kind { KIND_NONE = 0, KIND_BOOL = 1, KIND_INT = 2, KIND_TEXT = 4 };
#define KIND_REAL 3

/* An argument or a result. A text ends with a NUL; it lives until the call returns, a result's until the next call. */
struct value {
  const char *text;
  double number;
};

struct node;

struct method {
  const char *name;
  int n_arguments;
  int arguments[2]; /* KIND_..., of which Godot 3 and 4 have the same numbers up to KIND_TEXT. */
  const char *names[2];
  int result;
  void (*call)(struct node *node, const struct value *arguments, struct value *result);
};

extern const struct method methods[];
extern const int n_methods;

/* The signals, each with one text: "text": a piece of the answer; "ended": an empty text or the error; "reasoning": a
 * piece of reasoning before the answer. */
enum { SIGNAL_TEXT, SIGNAL_ENDED, SIGNAL_REASONING, N_SIGNALS };
extern const char *const signals[N_SIGNALS];
extern const char *const signal_arguments[N_SIGNALS];

/* Creates a node whose signals go to `emit`; NULL if memory is exhausted. */
struct node *node_new(void (*emit)(void *object, int signal, const char *text, size_t len), void *object);

/* Computes the answer, if there is one, for the frame budget. */
void node_process(struct node *node);

/* Must enclose a call of a method and the use of its result: a receiver of a signal may free the node meanwhile. */
void node_enter(struct node *node);
void node_leave(struct node *node);

/* Frees the node, once no call uses it. */
void node_free(struct node *node);

#endif
