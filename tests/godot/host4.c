/* The part of Godot 4 that a GDExtension with a node meets, for a machine without that engine: it registers the class, makes an
 * instance, calls its methods both ways and `_process` each frame, and counts strings that are left.  host4 library.so */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char *text; } string;
typedef struct { const char *text; } name;
typedef struct { int64_t kind; union { int64_t integer; double real; string string; name name; } is; uint64_t rest[3]; } variant;
struct call_error { int error, argument, expected; };
typedef void (*virtual_call)(void *node, const void *const *arguments, void *result);

struct class_info { /* GDExtensionClassCreationInfo2 */
  uint8_t flags[3];
  void (*first[11])(void);
  void *(*create)(void *data);
  void (*free)(void *data, void *node);
  void *recreate;
  virtual_call (*get_virtual)(void *data, const name *name);
  void *last[3], *data;
};
struct property { int kind; name *name, *class_name; uint32_t hint; string *hint_string; uint32_t usage; };
struct method { /* GDExtensionClassMethodInfo */
  name *name;
  void *data;
  void (*call)(void *, void *, const variant *const *, int64_t, variant *, struct call_error *);
  void (*call_typed)(void *, void *, const void *const *, void *);
  uint32_t flags;
  uint8_t has_result;
  struct property *result;
  int result_metadata;
  uint32_t n_arguments;
  struct property *arguments;
  int *metadata;
  uint32_t n_defaults;
  variant **defaults;
};
struct initialization { int level; void *data; void (*initialize)(void *, int), (*deinitialize)(void *, int); };

static int failures, live, n_methods, n_signals, pieces;
#define EXPECT(condition) \
  if (!(condition)) failures++, printf("FAILED: line %d: %s\n", __LINE__, #condition)

static struct class_info class;
static struct method methods[16];
static name method_names[16];
static char answer[4096], reasoning[4096], ended[512] = "not";
static const char *next_question, *asks_at; /* A receiver of the signal `asks_at` asks once. */
static const char *frees_at; /* A receiver of this signal, or of a "piece" of either kind, frees the node. */
static const char *call(const char *wanted, int n, const char *text, variant number);
static struct { void *node; } object;

static void name_new(name *out, const char *text, uint8_t is_static) {
  static const char *all[64];
  int i = 0;
  EXPECT(is_static);
  while (all[i] && strcmp(all[i], text)) i++;
  if (!all[i]) all[i] = text;
  out->text = all[i];
}
static void string_new(string *out, const char *text, int64_t n) {
  out->text = calloc(1, (size_t)n + 1);
  memcpy(out->text, text, (size_t)n);
  live++;
}
static int64_t string_to(const string *s, char *out, int64_t capacity) {
  const int64_t n = (int64_t)strlen(s->text);
  if (out) memcpy(out, s->text, (size_t)(n < capacity ? n : capacity));
  return n;
}
static void string_free(string *s) {
  free(s->text);
  s->text = NULL;
  live--;
}
static void variant_nil(variant *v) { v->kind = 0; }
static void variant_free(variant *v) {
  if (v->kind == 4) string_free(&v->is.string);
}
static int variant_kind(const variant *v) { return (int)v->kind; }
static void from_string(variant *v, string *s) { v->kind = 4, string_new(&v->is.string, s->text, (int64_t)strlen(s->text)); }
static void from_name(variant *v, name *n) { v->kind = 21, v->is.name = *n; }
static void from_bool(variant *v, uint8_t *is) { v->kind = 1, v->is.integer = *is; }
static void to_string(string *out, variant *v) { string_new(out, v->is.string.text, (int64_t)strlen(v->is.string.text)); }
static void to_int(int64_t *out, variant *v) { *out = v->is.integer; }
static void to_real(double *out, variant *v) { *out = v->is.real; }
static void *from(int kind) { return kind == 4 ? (void *)from_string : kind == 21 ? (void *)from_name : (void *)from_bool; }
static void *to(int kind) { return kind == 4 ? (void *)to_string : kind == 2 ? (void *)to_int : (void *)to_real; }
static void *destructor(int kind) { return kind == 4 ? (void *)string_free : NULL; }
static void *construct(const name *parent) {
  EXPECT(!strcmp(parent->text, "Node"));
  return &object;
}
static void set_instance(void *o, const name *class_name, void *node) {
  EXPECT(o == &object && !strcmp(class_name->text, "RealizarChat"));
  object.node = node;
}
static void *method_of(const name *class_name, const name *method, int64_t hash) {
  EXPECT(!strcmp(class_name->text, "Object") && !strcmp(method->text, "emit_signal") && hash == 4047867050);
  return &object;
}
static void call_method(void *method, void *o, const variant *const *arguments, int64_t n, variant *result, struct call_error *error) {
  EXPECT(object.node); /* Nothing comes from a node that was freed. */
  EXPECT(method == &object && o == &object && n == 2 && arguments[0]->kind == 21 && arguments[1]->kind == 4);
  const char *text = arguments[1]->is.string.text;
  const char *signal = arguments[0]->is.name.text, *question = next_question;
  if (!strcmp(signal, "text")) pieces++, strncat(answer, text, sizeof answer - strlen(answer) - 1);
  if (!strcmp(signal, "reasoning")) strncat(reasoning, text, sizeof reasoning - strlen(reasoning) - 1);
  if (!strcmp(signal, "ended")) snprintf(ended, sizeof ended, "%s", text);
  if (question && !strcmp(signal, asks_at)) {
    next_question = NULL;
    EXPECT(!*call("ask", 1, question, (variant){0}));
  }
  const int is_piece = !strcmp(signal, "text") || !strcmp(signal, "reasoning");
  if (frees_at && (!strcmp(signal, frees_at) || (is_piece && !strcmp(frees_at, "piece")))) {
    frees_at = NULL;
    class.free(class.data, object.node);
    object.node = NULL;
  }
  error->error = 0;
  variant_nil(result);
}
static void register_class(void *library, const name *n, const name *parent, const struct class_info *info) {
  EXPECT(library == &object && !strcmp(n->text, "RealizarChat") && !strcmp(parent->text, "Node"));
  class = *info;
}
static void register_method(void *library, const name *n, const struct method *info) {
  EXPECT(library == &object && n && info->flags == 1 && info->n_arguments <= 2);
  for (uint32_t i = 0; i < info->n_arguments; i++) EXPECT(*info->arguments[i].name->text && info->arguments[i].kind);
  method_names[n_methods] = *info->name;
  methods[n_methods++] = *info;
}
static void register_signal(void *library, const name *n, const name *signal, const struct property *arguments, int64_t count) {
  EXPECT(library == &object && n && *signal->text && count == 1 && arguments->kind == 4);
  n_signals++;
}
static void unregister_class(void *library, const name *n) { EXPECT(library == &object && n); }
static void print_error(const char *text, const char *function, const char *file, int32_t line, uint8_t notify) {
  (void)file, (void)line, (void)notify;
  printf("%s: %s\n", text, function);
}

static int lacking;
static void *get(const char *asked) {
  static const struct { const char *name; void *function; } all[] = {
      {"print_error", (void *)print_error}, {"string_name_new_with_latin1_chars", (void *)name_new},
      {"string_new_with_utf8_chars_and_len", (void *)string_new}, {"string_to_utf8_chars", (void *)string_to},
      {"variant_destroy", (void *)variant_free}, {"variant_get_type", (void *)variant_kind}, {"variant_new_nil", (void *)variant_nil},
      {"get_variant_from_type_constructor", (void *)from}, {"get_variant_to_type_constructor", (void *)to},
      {"variant_get_ptr_destructor", (void *)destructor}, {"classdb_construct_object", (void *)construct},
      {"object_set_instance", (void *)set_instance}, {"classdb_get_method_bind", (void *)method_of},
      {"object_method_bind_call", (void *)call_method}, {"classdb_register_extension_class2", (void *)register_class},
      {"classdb_register_extension_class_method", (void *)register_method},
      {"classdb_register_extension_class_signal", (void *)register_signal},
      {"classdb_unregister_extension_class", (void *)unregister_class},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, asked)) return lacking && !strcmp(asked, "variant_destroy") ? NULL : all[i].function;
  return NULL;
}

static const struct method *find(const char *wanted) {
  for (int i = 0; i < n_methods; i++)
    if (!strcmp(method_names[i].text, wanted)) return &methods[i];
  printf("FAILED: no method %s\n", wanted);
  exit(1);
}

/* Calls a method with variants: a text and a number. The text of the result, or its error. */
static const char *call(const char *wanted, int n, const char *text, variant number) {
  static char result[512];
  const struct method *method = find(wanted);
  variant first = {0}, out;
  struct call_error error = {9, 9, 9};
  const variant *arguments[] = {&first, &number};
  first.kind = 4;
  string_new(&first.is.string, text, (int64_t)strlen(text));
  method->call(method->data, object.node, arguments, n, &out, &error);
  if (error.error) snprintf(result, sizeof result, "error %d of %d", error.error, error.argument);
  else snprintf(result, sizeof result, "%s", out.kind == 4 ? out.is.string.text : out.kind == 1 && out.is.integer ? "true" : "");
  if (!error.error) variant_free(&out);
  variant_free(&first);
  return result;
}

/* Calls a method with one number. */
static const char *call_number(const char *wanted, double number) {
  static char result[512];
  const struct method *method = find(wanted);
  const variant given = {3, {.real = number}, {0}};
  variant out;
  struct call_error error = {9, 9, 9};
  const variant *arguments[] = {&given};
  method->call(method->data, object.node, arguments, 1, &out, &error);
  EXPECT(!error.error && out.kind == 4);
  snprintf(result, sizeof result, "%s", out.is.string.text);
  variant_free(&out);
  return result;
}

/* Calls a method with two texts. */
static const char *call_two(const char *wanted, const char *text, const char *second) {
  variant other = {0};
  other.kind = 4;
  string_new(&other.is.string, second, (int64_t)strlen(second));
  const char *const result = call(wanted, 2, text, other);
  variant_free(&other);
  return result;
}

static virtual_call each_frame;

/* Frames until the answer has ended, or `n` pieces of its text are there; the number of frames. */
static int run(int n) {
  const double delta = 1.0 / 60;
  const void *const frame[] = {&delta};
  int frames = 0;
  pieces = 0;
  *answer = *reasoning = 0;
  strcpy(ended, "not");
  for (; strcmp(ended, "not") == 0 && pieces < n && frames < 100000; frames++) each_frame(object.node, frame, NULL);
  return frames;
}

static const char *ask(const char *question) { return call("ask", 1, question, (variant){0}); }

/* Conversations of several questions to the tiny model, which makes `story` of `question`. */
static void talk(const char *question, const char *story) {
  const variant none = {0};
  char said[4096];

  /* What was said of an answer that is stopped stays: the next one goes on with it. */
  EXPECT(!*call("begin", 1, "", none) && !*ask(question));
  run(3);
  strcpy(said, answer);
  EXPECT(!*call("stop", 0, "", none) && !strcmp(ended, "stopped") && !*call("is_answering", 0, "", none));
  EXPECT(pieces == 3 && !*ask(""));
  run(1 << 30);
  strcat(said, answer);
  EXPECT(!*ended && pieces > 3 && !strncmp(said, story, strlen(story)));

  /* A question of whose answer nothing was said is taken back. */
  EXPECT(!*call("begin", 1, "", none) && !*ask("The dog") && !*ask(question) && !strcmp(ended, "another question was asked"));
  run(1 << 30);
  EXPECT(!*ended && !strcmp(answer, story));

  /* The receiver of the end asks, and the one who ended it is told. */
  EXPECT(!*call("begin", 1, "", none) && !*ask("The dog"));
  next_question = question, asks_at = "ended";
  EXPECT(!strcmp(ask("The cat"), "another question was asked"));
  run(1 << 30);
  EXPECT(!*ended && !strcmp(answer, story));

  /* The receiver of the last piece asks: the end of the answer before is not that of the one that it asked for. */
  EXPECT(!*call("set_option", 2, "budget", (variant){3, {.real = 1e8}, {0}}));
  EXPECT(!*call("begin", 1, "", none) && !*ask("The dog"));
  next_question = question, asks_at = "text";
  EXPECT(run(1 << 30) == 1 && !strcmp(ended, "another question was asked"));
  EXPECT(run(1 << 30) == 1 && !*ended);

  /* An answer obeys a schema, until none is wanted. */
  EXPECT(strstr(call("set_schema", 1, "{\"type\": \"none\"}", none), "none"));
  EXPECT(!*call("set_schema", 1, "{\"enum\": [\"yes\", \"no\"]}", none) && !*call("begin", 1, "", none) && !*ask(question));
  run(1 << 30);
  EXPECT(!*ended && (!strcmp(answer, "\"yes\"") || !strcmp(answer, "\"no\"")));
  EXPECT(!*call("set_schema", 1, "", none) && !*call("begin", 1, "", none) && !*ask(question));
  run(1 << 30);
  EXPECT(!*ended && !strcmp(answer, story));

  /* Questions about a picture, whose encoding takes frames of its own; the first of them is stopped in these. */
  const char *const encoder = getenv("ENCODER"), *const picture = getenv("PICTURE");
  if (encoder && picture) {
    char about[4096] = "";
    EXPECT(!strcmp(call_two("ask_about", question, picture), "no encoder of pictures is loaded"));
    EXPECT(strstr(call("load_encoder", 1, "no such file.gguf", none), "no such file.gguf"));
    EXPECT(!*call("set_option", 2, "budget", (variant){3, {.real = 1}, {0}}));
    EXPECT(!*call("load_encoder", 1, encoder, none) && !*call("begin", 1, "", none));
    EXPECT(*call_two("ask_about", question, "bm9uZQ==") && !*call("is_answering", 0, "", none));
    EXPECT(strstr(call_two("ask_about", question, "bm9u\nZQ=="), "not of base64") && !*call("is_answering", 0, "", none));
    EXPECT(!*call_two("ask_about", "\"x\\", picture));
    EXPECT(!*call("stop", 0, "", none) && !strcmp(ended, "stopped"));
    for (int i = 0; i < 2; i++) {
      EXPECT(!*call("begin", 1, "", none) && !*call_two("ask_about", question, picture));
      EXPECT(run(1) > 2 && pieces == 1);
      strcpy(said, answer);
      run(1 << 30);
      strcat(said, answer);
      EXPECT(!*ended && *answer && strcmp(said, story) && (i == 0 || !strcmp(said, about)));
      strcpy(about, said);
    }
    EXPECT(!*ask("Then"));
    run(1 << 30);
    EXPECT(!*ended && *answer);
    EXPECT(!*call("set_option", 2, "budget", (variant){3, {.real = 1e8}, {0}}) && !*call("begin", 1, "", none));
    EXPECT(!*ask(question));
    run(1 << 30);
    EXPECT(!strcmp(answer, story));
  }

  /* Old turns are forgotten where the context has no room for them. */
  for (int i = 0; i < 20; i++) {
    EXPECT(!*ask(question));
    run(1 << 30);
    EXPECT(!*ended && *answer);
  }
}

int main(int argc, char **argv) {
  const char *model = getenv("MODEL"), *question = getenv("QUESTION"), *budget = getenv("BUDGET");
  if (argc != 2 || !model || !question || !budget || !getenv("SYSTEM") || !getenv("OPTIONS")) return 2;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return printf("FAILED: %s\n", dlerror()), 1;
  uint8_t (*entry)(void *(*)(const char *), void *, struct initialization *) =
      (uint8_t (*)(void *(*)(const char *), void *, struct initialization *))dlsym(library, "realizar_godot4_init");
  struct initialization steps = {0};
  lacking = 1;
  EXPECT(!entry(get, &object, &steps));
  lacking = 0;
  EXPECT(entry(get, &object, &steps) && steps.level == 2);
  for (int level = 0; level < 4; level++) steps.initialize(steps.data, level);
  EXPECT(n_methods == 10 && n_signals == 3 && class.flags[2] && !class.flags[0] && live == 0);

  EXPECT(class.create(class.data) == &object && object.node);
  name process, other;
  name_new(&process, "_process", 1), name_new(&other, "_ready", 1);
  each_frame = class.get_virtual(class.data, &process);
  EXPECT(each_frame && !class.get_virtual(class.data, &other));
  EXPECT(run(1) == 100000);

  if (getenv("ONLY_LOAD")) return puts(call("load_model", 2, model, (variant){2, {2}, {0}})), 0;
  const variant two = {2, {2}, {0}}, sixty = {3, {.real = 60.0}, {0}};
  EXPECT(!strcmp(call("set_schema", 1, "{}", two), "no model is loaded"));
  EXPECT(!strcmp(ask("x"), "no model is loaded") && !strcmp(call("begin", 1, "x", two), "no model is loaded"));
  EXPECT(!strcmp(call("ask", 0, "x", two), "error 4 of 1") && !strcmp(call("ask", 2, "x", two), "error 3 of 1"));
  variant text = {4, {0}, {0}};
  EXPECT(!strcmp(call("load_model", 2, "x", text), "error 2 of 1"));
  EXPECT(strstr(call("load_model", 2, "no such file.gguf", two), "no such file.gguf"));
  EXPECT(!strcmp(call("load_model", 2, model, two), "") && !strcmp(call("set_option", 2, "max_tokens", sixty), ""));
  const struct { const char *name, *said; double value; } wrong[] = {
      {"none", "option is \"none\"; it must be budget, device, max_tokens,", 1},
      {"max_tokens", "max_tokens is -1; it must be a whole number from 0 to 4294967295", -1},
      {"max_tokens", "max_tokens is 2.5; it must be a whole number", 2.5},
      {"device", "device is -1; it must be a whole number from 0 to 4294967295", -1},
      {"seed", "seed is 4294967296; it must be a whole number", 4294967296.0},
      {"top_k", "top_k is nan; it must be a whole number", strtod("nan", NULL)},
      {"budget", "budget is 0; it must be a whole number from 1 to 4294967295", 0},
      {"temperature", "temperature is -1; it must be finite and not negative", -1},
      {"top_p", "top_p is inf; it must be finite and not negative", strtod("inf", NULL)},
      {"min_p", "min_p is nan; it must be finite and not negative", strtod("nan", NULL)},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    EXPECT(strstr(call("set_option", 2, wrong[i].name, (variant){3, {.real = wrong[i].value}, {0}}), wrong[i].said));
  EXPECT(!strcmp(call("set_option", 2, "budget", text), "error 2 of 1"));
  for (int i = 0; i < 3; i++) {
    const double threads[] = {-1, 1.5, 1e12};
    EXPECT(!strncmp(call("load_model", 2, model, (variant){3, {.real = threads[i]}, {0}}), "threads is ", 11));
  }
  /* A device that does not exist is named, and the model that is loaded stays. Device 1 is the CPU. */
  string shown;
  string_new(&shown, "", 0);
  const int64_t first_device = 1;
  const void *const device_arguments[] = {&first_device};
  find("device_name")->call_typed(find("device_name")->data, object.node, device_arguments, &shown);
  EXPECT(*shown.text);
  string_free(&shown);
  EXPECT(!*call_number("device_name", 0) && !*call_number("device_name", 99) && !*call_number("device_name", 1.5));
  EXPECT(!*call("set_option", 2, "device", (variant){2, {99}, {0}}));
  EXPECT(strstr(call("load_model", 2, model, two), "device 99"));
  EXPECT(!*call("begin", 1, "", two));
  EXPECT(!*call("set_option", 2, "device", (variant){2, {1}, {0}}) && !*call("load_model", 2, model, two));
  const variant microseconds = {2, {atoi(budget)}, {0}};
  EXPECT(*call("set_option", 2, "none", sixty) && !*call("set_option", 2, "budget", microseconds));
  for (char *option = strtok(getenv("OPTIONS"), "= "); option; option = strtok(NULL, "= "))
    EXPECT(!*call("set_option", 2, option, (variant){3, {.real = atof(strtok(NULL, "= "))}, {0}}));
  EXPECT(!strcmp(call("is_answering", 0, "", two), "") && !*call("begin", 1, getenv("SYSTEM"), two));

  /* As the engine calls a method whose types it knows. */
  string asked, said;
  string_new(&asked, question, (int64_t)strlen(question));
  string_new(&said, "", 0);
  const void *const arguments[] = {&asked};
  find("ask")->call_typed(find("ask")->data, object.node, arguments, &said);
  EXPECT(!*said.text);
  string_free(&asked), string_free(&said);
  uint8_t answering = 0;
  find("is_answering")->call_typed(find("is_answering")->data, object.node, NULL, &answering);
  EXPECT(answering && !strcmp(call("is_answering", 0, "", two), "true"));
  const int frames = run(1 << 30);
  EXPECT(!*ended && pieces > 1 && frames >= pieces);
  printf("answer: \"%s\"\nreasoning: \"%s\"\n", answer, reasoning);
  char story[4096];
  strcpy(story, answer);
  if (getenv("TALK")) talk(question, story);
  EXPECT(!*ask(question));
  run(1);
  class.free(class.data, object.node);
  /* Receivers that free the node: of its text, of an end that a frame finds, and of one that a method makes. */
  for (int i = 0; i < 3; i++) {
    const double delta = 1.0 / 60;
    const void *const frame[] = {&delta};
    EXPECT(class.create(class.data) == &object && !*call("load_model", 2, model, two) && !*call("set_option", 2, "max_tokens", (variant){2, {3}, {0}}));
    EXPECT(!*ask(question));
    frees_at = i == 0 ? "piece" : "ended";
    if (i < 2)
      for (int frames = 0; object.node && frames < 100000; frames++) each_frame(object.node, frame, NULL);
    else EXPECT(!strcmp(ask("x"), "the node was freed"));
    EXPECT(!object.node && !frees_at);
  }
  for (int level = 3; level >= 0; level--) steps.deinitialize(steps.data, level);
  EXPECT(live == 0);
  return failures != 0;
}
