/* RealizarChat as a class of Godot 4.2 and newer, through GDExtension. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

#if defined _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* The part of Godot's interface that is used here. A variant has 24 bytes, or 40 in a build with double precision. */
typedef struct { uint64_t words[5]; } variant;
typedef struct { void *data; } string;
typedef struct { void *data; } name; /* The same for equal texts. */
typedef void (*function)(void);
typedef function (*get_function)(const char *name);
typedef void (*virtual_call)(void *node, const void *const *arguments, void *result);
struct call_error { int error, argument, expected; };

struct class_info {
  uint8_t is_virtual, is_abstract, is_exposed;
  function properties[7], notification, to_string, reference, unreference;
  void *(*create)(void *data);
  void (*free)(void *data, void *node);
  void *(*recreate)(void *data, void *object);
  virtual_call (*get_virtual)(void *data, const name *name);
  function virtual_data[2], get_rid;
  void *data;
};

struct property { int kind; name *name, *class_name; uint32_t hint; string *hint_string; uint32_t usage; };

struct method_info {
  name *name;
  void *data;
  void (*call)(void *data, void *node, const variant *const *arguments, int64_t n, variant *result, struct call_error *error);
  void (*call_typed)(void *data, void *node, const void *const *arguments, void *result);
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

struct initialization {
  int minimum_level;
  void *data;
  void (*initialize)(void *data, int level);
  void (*deinitialize)(void *data, int level);
};

enum { KIND_NAME = 21, SCENE = 2, INVALID_ARGUMENT = 2, TOO_MANY_ARGUMENTS = 3, TOO_FEW_ARGUMENTS = 4, INSTANCE_IS_NULL = 5 };

static struct {
  void (*name_new)(name *out, const char *text, uint8_t is_static);
  void (*string_new)(string *out, const char *text, int64_t len);
  int64_t (*string_to)(const string *string, char *out, int64_t capacity);
  void (*variant_free)(variant *variant);
  int (*variant_kind)(const variant *variant);
  void (*variant_nil)(variant *out);
  void (*(*from)(int kind))(variant *out, void *value);
  void (*(*to)(int kind))(void *out, variant *variant);
  void (*(*destructor)(int kind))(void *value);
  void *(*construct)(const name *class_name);
  void (*set_instance)(void *object, const name *class_name, void *node);
  void *(*method)(const name *class_name, const name *method, int64_t hash);
  void (*call)(void *method, void *object, const variant *const *arguments, int64_t n, variant *result, struct call_error *error);
  void (*register_class)(void *library, const name *class_name, const name *parent, const struct class_info *info);
  void (*register_method)(void *library, const name *class_name, const struct method_info *info);
  void (*register_signal)(void *library, const name *class_name, const name *signal, const struct property *arguments, int64_t n);
  void (*unregister_class)(void *library, const name *class_name);
  void (*print_error)(const char *text, const char *function, const char *file, int32_t line, uint8_t notify);
} godot;

static void *library;
static void *emit_signal;
static name class_name, parent_name, process_name, signal_names[N_SIGNALS];
static void (*variant_of_string)(variant *out, void *value), (*variant_of_name)(variant *out, void *value);
static void (*variant_of_bool)(variant *out, void *value);
static void (*variant_to_string)(void *out, variant *variant), (*variant_to_int)(void *out, variant *variant);
static void (*variant_to_real)(void *out, variant *variant);
static void (*string_free)(void *string);

static void emit(void *object, int signal, const char *text, size_t len) {
  struct call_error error;
  variant name, argument, result;
  string s;
  godot.string_new(&s, text, (int64_t)len);
  variant_of_string(&argument, &s);
  string_free(&s);
  variant_of_name(&name, &signal_names[signal]);
  const variant *const arguments[] = {&name, &argument};
  godot.call(emit_signal, object, arguments, 2, &result, &error);
  godot.variant_free(&result);
  godot.variant_free(&name);
  godot.variant_free(&argument);
}

static void *create(void *data) {
  void *const object = godot.construct(&parent_name);
  struct node *const node = node_new(emit, object);
  (void)data;
  if (!node) return NULL;
  godot.set_instance(object, &class_name, node);
  return object;
}

static void destroy(void *data, void *node) {
  (void)data;
  node_free(node);
}

static void process(void *node, const void *const *arguments, void *result) {
  (void)arguments, (void)result;
  node_process(node);
}

static virtual_call get_virtual(void *data, const name *asked) {
  (void)data;
  return asked->data == process_name.data ? process : NULL;
}

/* The text of a string, in memory that is freed by free(). */
static char *text_of(const string *s) {
  const int64_t n = godot.string_to(s, NULL, 0);
  char *const text = malloc((size_t)n + 1);
  if (text) {
    godot.string_to(s, text, n);
    text[n] = 0;
  }
  return text;
}

/* Calls a method with strings in `strings` and numbers in `values`; the result lies in `*result`. */
static void run(const struct method *method, void *node, const string *const *strings, struct value *values, struct value *result) {
  char *texts[2] = {NULL, NULL};
  int fine = 1;
  for (int i = 0; i < method->n_arguments; i++)
    if (method->arguments[i] == KIND_TEXT) fine = fine && (values[i].text = texts[i] = text_of(strings[i])) != NULL;
  result->text = "there is no memory for the arguments";
  result->number = 0;
  if (fine) method->call(node, values, result);
  free(texts[0]);
  free(texts[1]);
}

static void call(void *data, void *node, const variant *const *arguments, int64_t n, variant *out, struct call_error *error) {
  const struct method *const method = data;
  struct value values[2] = {{NULL, 0}, {NULL, 0}}, result;
  string strings[2] = {{NULL}, {NULL}};
  const string *const given[2] = {&strings[0], &strings[1]};
  error->error = !node ? INSTANCE_IS_NULL : n < method->n_arguments ? TOO_FEW_ARGUMENTS : n > method->n_arguments ? TOO_MANY_ARGUMENTS : 0;
  error->argument = error->expected = method->n_arguments;
  for (int i = 0; i < n && !error->error; i++) {
    const int kind = godot.variant_kind(arguments[i]), wanted = method->arguments[i];
    if (kind != wanted && (wanted == KIND_TEXT || (kind != KIND_INT && kind != KIND_REAL))) {
      error->error = INVALID_ARGUMENT;
      error->argument = i;
      error->expected = wanted;
    }
  }
  godot.variant_nil(out);
  if (error->error) return;
  for (int i = 0; i < n; i++) {
    variant *const argument = (variant *)arguments[i]; /* It is only read. */
    int64_t integer;
    if (method->arguments[i] == KIND_TEXT) {
      variant_to_string(&strings[i], argument);
    } else if (godot.variant_kind(argument) == KIND_INT) {
      variant_to_int(&integer, argument);
      values[i].number = (double)integer;
    } else {
      variant_to_real(&values[i].number, argument);
    }
  }
  node_enter(node);
  run(method, node, given, values, &result);
  for (int i = 0; i < n; i++)
    if (method->arguments[i] == KIND_TEXT) string_free(&strings[i]);
  if (method->result == KIND_TEXT) {
    string s;
    godot.string_new(&s, result.text, (int64_t)strlen(result.text));
    variant_of_string(out, &s);
    string_free(&s);
  } else if (method->result == KIND_BOOL) {
    uint8_t is = result.number != 0;
    variant_of_bool(out, &is);
  }
  node_leave(node);
}

static void call_typed(void *data, void *node, const void *const *arguments, void *out) {
  const struct method *const method = data;
  struct value values[2] = {{NULL, 0}, {NULL, 0}}, result;
  const string *strings[2] = {NULL, NULL};
  for (int i = 0; i < method->n_arguments; i++) {
    if (method->arguments[i] == KIND_TEXT) strings[i] = arguments[i];
    if (method->arguments[i] == KIND_INT) values[i].number = (double)*(const int64_t *)arguments[i];
    if (method->arguments[i] == KIND_REAL) values[i].number = *(const double *)arguments[i];
  }
  node_enter(node);
  run(method, node, strings, values, &result);
  if (method->result == KIND_BOOL) *(uint8_t *)out = result.number != 0;
  if (method->result == KIND_TEXT) {
    string_free(out); /* It holds an empty string. */
    godot.string_new(out, result.text, (int64_t)strlen(result.text));
  }
  node_leave(node);
}

static void initialize(void *data, int level) {
  name empty_name, names[2];
  string empty;
  struct class_info info = {0};
  (void)data;
  if (level != SCENE) return;
  godot.name_new(&class_name, "RealizarChat", 1);
  godot.name_new(&parent_name, "Node", 1);
  godot.name_new(&process_name, "_process", 1);
  godot.name_new(&empty_name, "", 1);
  godot.name_new(&names[0], "Object", 1);
  godot.name_new(&names[1], "emit_signal", 1);
  godot.string_new(&empty, "", 0);
  variant_of_string = godot.from(KIND_TEXT);
  variant_of_name = godot.from(KIND_NAME);
  variant_of_bool = godot.from(KIND_BOOL);
  variant_to_string = godot.to(KIND_TEXT);
  variant_to_int = godot.to(KIND_INT);
  variant_to_real = godot.to(KIND_REAL);
  string_free = godot.destructor(KIND_TEXT);
  emit_signal = godot.method(&names[0], &names[1], 4047867050);
  info.is_exposed = 1;
  info.create = create;
  info.free = destroy;
  info.get_virtual = get_virtual;
  godot.register_class(library, &class_name, &parent_name, &info);
  for (int i = 0; i < n_methods; i++) {
    const struct method *const method = &methods[i];
    struct property properties[3];
    int metadata[2] = {0, 0};
    name method_name;
    struct method_info made = {0};
    for (int j = 0; j < 3; j++) {
      struct property one = {j < 2 ? method->arguments[j] : method->result, &empty_name, &empty_name, 0, &empty, 6};
      if (j < method->n_arguments) godot.name_new(&names[j], method->names[j], 1), one.name = &names[j];
      properties[j] = one;
    }
    godot.name_new(&method_name, method->name, 1);
    made.name = &method_name;
    made.data = (void *)method;
    made.call = call;
    made.call_typed = call_typed;
    made.flags = 1;
    made.has_result = method->result != KIND_NONE;
    made.result = &properties[2];
    made.n_arguments = (uint32_t)method->n_arguments;
    made.arguments = properties;
    made.metadata = metadata;
    godot.register_method(library, &class_name, &made);
  }
  for (int i = 0; i < N_SIGNALS; i++) {
    name argument;
    struct property property = {KIND_TEXT, &argument, &empty_name, 0, &empty, 6};
    godot.name_new(&argument, signal_arguments[i], 1);
    godot.name_new(&signal_names[i], signals[i], 1);
    godot.register_signal(library, &class_name, &signal_names[i], &property, 1);
  }
  string_free(&empty);
}

static void deinitialize(void *data, int level) {
  (void)data;
  if (level == SCENE) godot.unregister_class(library, &class_name);
}

EXPORT uint8_t realizar_godot4_init(get_function get, void *handle, struct initialization *out) {
  const struct { const char *theirs; void *ours; } functions[] = {
      {"print_error", &godot.print_error},
      {"string_name_new_with_latin1_chars", &godot.name_new},
      {"string_new_with_utf8_chars_and_len", &godot.string_new},
      {"string_to_utf8_chars", &godot.string_to},
      {"variant_destroy", &godot.variant_free},
      {"variant_get_type", &godot.variant_kind},
      {"variant_new_nil", &godot.variant_nil},
      {"get_variant_from_type_constructor", &godot.from},
      {"get_variant_to_type_constructor", &godot.to},
      {"variant_get_ptr_destructor", &godot.destructor},
      {"classdb_construct_object", &godot.construct},
      {"object_set_instance", &godot.set_instance},
      {"classdb_get_method_bind", &godot.method},
      {"object_method_bind_call", &godot.call},
      {"classdb_register_extension_class2", &godot.register_class},
      {"classdb_register_extension_class_method", &godot.register_method},
      {"classdb_register_extension_class_signal", &godot.register_signal},
      {"classdb_unregister_extension_class", &godot.unregister_class},
  };
  library = handle;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const function found = get(functions[i].theirs);
    memcpy(functions[i].ours, &found, sizeof found);
    if (found) continue;
    if (godot.print_error) godot.print_error("this Godot lacks a function that RealizarChat needs", functions[i].theirs, __FILE__, __LINE__, 0);
    return 0;
  }
  out->minimum_level = SCENE;
  out->initialize = initialize;
  out->deinitialize = deinitialize;
  return 1;
}
