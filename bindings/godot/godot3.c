/* RealizarChat as a NativeScript of Godot 3.1 and newer, through GDNative. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

#if defined _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* The part of Godot's interface that is used here: its tables of functions, and the places of functions in them. */
typedef struct { uint8_t bytes[24]; } variant;
typedef struct { uint8_t bytes[sizeof(void *)]; } string;
typedef void (*function)(void);

struct table {
  unsigned type;
  unsigned major, minor;
  const struct table *next;
};

struct core {
  struct table table;
  unsigned n_extensions;
  const struct table **extensions;
  function functions[744];
};

struct native_script {
  struct table table;
  function functions[6];
};

struct options {
  uint8_t in_editor;
  uint64_t hashes[3];
  function report[2];
  void *library;
  const struct core *core;
  const string *path;
};

struct create { void *(*create)(void *object, void *data); void *data; void (*free)(void *data); };
struct destroy { void (*destroy)(void *object, void *data, void *user); void *data; void (*free)(void *data); };
struct call { variant (*call)(void *object, void *data, void *user, int n, variant **arguments); void *data; void (*free)(void *data); };
struct argument { string name; int type, hint; string hint_string; int usage; variant fallback; };
struct signal { string name; int n; struct argument *arguments; int n_fallbacks; variant *fallbacks; };

static const struct core *core;
static const struct native_script *script;
static void *emit_signal;

/* A function of the table, by its place and its type. */
#define CORE(place, result, ...) ((result(*)(__VA_ARGS__))core->functions[place])
#define SCRIPT(place, ...) ((void (*)(__VA_ARGS__))script->functions[place])
#define variant_kind CORE(507, int, const variant *)
#define variant_of_nothing CORE(509, void, variant *)
#define variant_of_bool CORE(510, void, variant *, uint8_t)
#define variant_of_string CORE(514, void, variant *, const string *)
#define variant_to_int CORE(539, int64_t, const variant *)
#define variant_to_real CORE(540, double, const variant *)
#define variant_to_string CORE(541, string, const variant *)
#define variant_free CORE(570, void, variant *)
#define bytes_data CORE(572, const char *, const string *)
#define bytes_free CORE(573, void, string *)
#define string_of_nothing CORE(574, void, string *)
#define string_to_bytes CORE(678, string, const string *)
#define string_parse CORE(680, uint8_t, string *, const char *, int)
#define string_free CORE(721, void, string *)
#define bound_method CORE(732, void *, const char *, const char *)
#define bound_call CORE(734, variant, void *, void *, const variant **, int, void *)

static string string_of(const char *text, size_t len) {
  string s;
  string_of_nothing(&s);
  string_parse(&s, text, (int)len);
  return s;
}

static variant variant_of(const char *text, size_t len) {
  variant v;
  string s = string_of(text, len);
  variant_of_string(&v, &s);
  string_free(&s);
  return v;
}

static void emit(void *object, int signal, const char *text, size_t len) {
  int error[3];
  variant name = variant_of(signals[signal], strlen(signals[signal]));
  variant argument = variant_of(text, len);
  const variant *arguments[] = {&name, &argument};
  variant result = bound_call(emit_signal, object, arguments, 2, error);
  variant_free(&result);
  variant_free(&argument);
  variant_free(&name);
}

static void *create(void *object, void *data) {
  (void)data;
  return node_new(emit, object);
}

static void destroy(void *object, void *data, void *user) {
  (void)object, (void)data;
  node_free(user);
}

static variant process(void *object, void *data, void *user, int n, variant **arguments) {
  variant nothing;
  (void)object, (void)data, (void)n, (void)arguments;
  if (user) node_process(user);
  variant_of_nothing(&nothing);
  return nothing;
}

static variant call(void *object, void *data, void *user, int n, variant **arguments) {
  const struct method *method = data;
  struct value values[2] = {{"", 0}, {"", 0}}, result = {"", 0};
  string bytes[2];
  int n_bytes = 0;
  const char *wrong = !user ? "there is no memory for a node" : n != method->n_arguments ? "there are too few or too many arguments" : "";
  variant out;
  (void)object;
  for (int i = 0; i < n && !*wrong; i++) {
    const int kind = variant_kind(arguments[i]);
    const int number = kind == KIND_INT || kind == KIND_REAL;
    if (method->arguments[i] == KIND_TEXT && kind == KIND_TEXT) {
      string s = variant_to_string(arguments[i]);
      bytes[n_bytes] = string_to_bytes(&s);
      string_free(&s);
      values[i].text = bytes_data(&bytes[n_bytes++]);
    } else if (method->arguments[i] != KIND_TEXT && number) {
      values[i].number = kind == KIND_INT ? (double)variant_to_int(arguments[i]) : variant_to_real(arguments[i]);
    } else {
      wrong = "an argument has the wrong type";
    }
  }
  if (user) node_enter(user);
  if (!*wrong) method->call(user, values, &result);
  while (n_bytes > 0) bytes_free(&bytes[--n_bytes]);
  if (*wrong || method->result == KIND_TEXT) {
    const char *text = *wrong ? wrong : result.text;
    out = variant_of(text, strlen(text));
  } else if (method->result == KIND_BOOL) {
    variant_of_bool(&out, result.number != 0);
  } else {
    variant_of_nothing(&out);
  }
  if (user) node_leave(user);
  return out;
}

EXPORT void godot_gdnative_init(struct options *options) {
  core = options->core;
  emit_signal = bound_method("Object", "emit_signal");
  for (unsigned i = 0; i < core->n_extensions; i++)
    if (core->extensions[i]->type == 1) script = (const struct native_script *)core->extensions[i];
}

EXPORT void godot_gdnative_terminate(void *options) { (void)options; }

EXPORT void godot_nativescript_init(void *handle) {
  const char *const class = "RealizarChat";
  struct create make = {create, NULL, NULL};
  struct destroy unmake = {destroy, NULL, NULL};
  struct call each_frame = {process, NULL, NULL};
  if (!script) return;
  SCRIPT(0, void *, const char *, const char *, struct create, struct destroy)(handle, class, "Node", make, unmake);
  SCRIPT(2, void *, const char *, const char *, int, struct call)(handle, class, "_process", 0, each_frame);
  for (int i = 0; i < n_methods; i++) {
    struct call one = {call, (void *)&methods[i], NULL};
    SCRIPT(2, void *, const char *, const char *, int, struct call)(handle, class, methods[i].name, 0, one);
  }
  for (int i = 0; i < N_SIGNALS; i++) {
    struct argument argument = {string_of(signal_arguments[i], strlen(signal_arguments[i])), KIND_TEXT, 0, string_of("", 0), 7, {{0}}};
    struct signal signal = {string_of(signals[i], strlen(signals[i])), 1, &argument, 0, NULL};
    variant_of_nothing(&argument.fallback);
    SCRIPT(4, void *, const char *, const struct signal *)(handle, class, &signal);
    variant_free(&argument.fallback);
    string_free(&argument.name);
    string_free(&argument.hint_string);
    string_free(&signal.name);
  }
}
