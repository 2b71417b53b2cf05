/* Declarations that the files of the addon share: the functions of the library, handles as objects of JavaScript, and
 * calls here or on the thread pool.
 *
 * Only the run function of a task may run on the thread pool. Everything else runs on the thread of its environment, so
 * that no lock is needed. */

#ifndef REALIZAR_JS_INTERNAL_H
#define REALIZAR_JS_INTERNAL_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <realizar.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "interface.h"

/* The functions of the library, which is opened at run time. */
typedef struct library {
#define FUNCTION(name) __typeof__(&name) name;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
} library;

/* Opens the library at a path and compares its interface with the header. On failure `why` says what is wrong. The file
 * stays open. */
bool library_open(library *lib, const char *path, char *why, size_t capacity);

/* The state of the addon in an environment: the main thread and each worker have one. */
typedef struct instance {
    library lib;
    napi_ref make_error;  /* Function (code, status, message, systemCode) that makes an error. */
    size_t users;         /* The environment itself, and its handles. */
    struct handle *first; /* All handles. */
    bool opened;
    bool ending; /* The environment ends: no work can be queued any more. */
} instance;

/* What messages call handles of a kind. */
const char *kind_name(kind k);
void free_pointer(const library *lib, kind k, void *pointer);

/* The handle of the library that a JavaScript object stands for. */
typedef struct handle {
    instance *instance;
    struct handle *next, *previous; /* In the list of the instance. */
    kind kind;
    void *pointer;                /* NULL once it is freed. */
    size_t users;                 /* The object, and tasks. */
    bool closed;                  /* To be freed with the last task. */
    size_t tasks;                 /* Tasks that use it. */
    int64_t external;             /* Bytes that the garbage collector was told of. */
    _Atomic uint64_t done, total; /* Progress of the load that a CANCEL stops. */
} handle;

/* A handle that a task uses, and its object. */
typedef struct use {
    handle *handle;
    napi_ref ref;
} use;

typedef struct block {
    struct block *next;
    max_align_t data[];
} block;

/* A call: copies of its arguments, and its result. A call on the environment's thread is on its stack. */
typedef struct task {
    napi_env env;
    instance *instance;
    const library *lib;
    block *blocks;
    rz_status status;
    rz_error error;
    use *uses; /* In a block. */
    size_t n_uses, room;
    napi_async_work work;
    napi_deferred deferred;
    void (*run)(struct task *);
    napi_value (*finish)(struct task *);
    void *data; /* Arguments and results of the C function. */
    void *made; /* The handle that the call created. */
    kind made_kind;
    char name[64]; /* Of the element that was read last, "stops[1]". */
} task;

/* Releases the environment's or a handle's use of the instance, which is freed with the last. */
void instance_release(instance *instance);

/* Zeroed memory that lasts as long as the task. Fails the task if there is none. */
void *task_alloc(task *t, size_t bytes);
void task_fail(task *t, rz_status status, const char *format, ...);
/* True if the buffer of a call was too small: the call must be repeated with a capacity of `needed`. */
bool task_repeats(task *t, size_t *capacity, size_t needed);

/* The pointer of an object of this kind, which is kept until the task ends. Fails the task if the object is of another
 * kind, is closed, or serves one call at a time and another task uses it. */
void *task_use(task *t, napi_value value, kind wanted);
/* NULL if no object is given. */
void *task_use_optional(task *t, napi_value value, kind wanted);

/* Ends a call on this thread: its result, or an exception. */
napi_value task_return(task *t, napi_value result);
/* Runs the task on this thread. */
napi_value task_now(task *t, void (*run)(task *), napi_value (*finish)(task *));
/* Runs a copy of the task on a thread of the pool: the result is a promise. */
napi_value task_start(task *t, void (*run)(task *), napi_value (*finish)(task *));
/* An object for t->made. */
napi_value task_made(task *t);

/* Values of JavaScript. A member that is undefined or null is zero, the default of the library. A value of another type
 * or out of range fails the task. */
bool is_given(napi_env env, napi_value value);
/* NULL unless the member is given. */
napi_value member_of(task *t, napi_value object, const char *name);
uint64_t uint_of(task *t, napi_value value, const char *name, uint64_t most);
uint64_t uint_member(task *t, napi_value object, const char *name, uint64_t most);
uint32_t or_none_member(task *t, napi_value object, const char *name);
int32_t int_member(task *t, napi_value object, const char *name);
float float_of(task *t, napi_value value, const char *name);
float float_member(task *t, napi_value object, const char *name);
bool bool_member(task *t, napi_value object, const char *name);
char *string_of(task *t, napi_value value, const char *name, size_t *len);
char *string_member(task *t, napi_value object, const char *name, size_t *len);
/* A string that contains no NUL. */
char *terminated_of(task *t, napi_value value, const char *name);
char *terminated_member(task *t, napi_value object, const char *name);

/* Fails the task: "NAME is VALUE; it must be WANTED". */
void fail_value(task *t, napi_value value, const char *name, const char *wanted);
/* The greatest whole number that JavaScript can tell from the next one. */
#define MOST ((1ull << 53) - 1)

typedef struct choice {
    const char *name;
    uint32_t number;
} choice;
uint32_t choice_of(task *t, napi_value value, const char *name, const choice *choices);
uint32_t choice_member(task *t, napi_value object, const char *name, const choice *choices);
const char *choice_name(const choice *choices, uint32_t number);

uint32_t count_of(task *t, napi_value array, const char *name);
/* The name of an element in messages, "stops[1]". */
const char *element_name(task *t, const char *name, uint32_t i);
napi_value element_of(task *t, napi_value array, uint32_t i);
/* Arrays, which are copied: NULL with `*n` 0 if they are not given. A Uint32Array serves for an array of token ids, and
 * a Float32Array for an array of floats. */
void *tokens_of(task *t, napi_value value, const char *name, size_t *n);
void *floats_of(task *t, napi_value value, const char *name, size_t *n);
void *choices_of(task *t, napi_value value, const char *name, const choice *choices, size_t *n);
void *texts_of(task *t, napi_value value, const char *name, size_t *n);
void *handles_of(task *t, napi_value value, const char *name, kind wanted, size_t *n);
/* The bytes of a Uint8Array, and the numbers of a Float64Array. */
void *bytes_of(task *t, napi_value value, const char *name, size_t *n);
void *doubles_of(task *t, napi_value value, const char *name, size_t *n);
/* Lists of token ids, and the length of each. */
void *token_lists_of(task *t, napi_value value, const char *name, const size_t **lengths, size_t *n);
/* Structs out of objects: one, and those of an array. */
typedef void setter(task *t, napi_value options, void *at);
void *struct_of(task *t, napi_value value, size_t size, setter *set);
void *structs_of(task *t, napi_value value, const char *name, size_t size, setter *set, size_t *n);
setter set_rz_logit_bias, set_rz_token_sequence;
#include "options.h"
/* Fails the task if a list that is given has not one element for each of another list. */
void check_count(task *t, const void *list, const char *name, size_t n, size_t wanted, const char *other);

/* A file in memory, from a Uint8Array; NULL with `*n` 0 if it is not given. */
void *source_of(task *t, napi_value value, const char *name, size_t *n);
/* Fails the task unless `n` bytes suffice for the pixels. */
void check_pixels(task *t, const rz_pixels *pixels, size_t n);
/* The number of rows of `dim` that `n` numbers are. */
size_t rows_of(task *t, size_t n, uint32_t dim);

/* Results. */
napi_value undefined_value(napi_env env);
napi_value number_value(napi_env env, double number);
napi_value bool_value(napi_env env, bool is_it);
/* null if `text` is NULL. */
napi_value string_value(napi_env env, const char *text, size_t len);
napi_value tokens_value(napi_env env, const uint32_t *tokens, size_t n);
napi_value floats_value(napi_env env, const float *floats, size_t n);
napi_value bytes_value(napi_env env, const void *bytes, size_t n);
/* The names of the bits that are set. */
napi_value names_value(napi_env env, const choice *choices, uint32_t bits);
napi_value list_value(napi_env env, const void *structs, size_t n, size_t size,
                      napi_value (*value)(napi_env env, const void *at));
napi_value object_value(napi_env env);
void set_member(napi_env env, napi_value object, const char *name, napi_value value);

/* What callbacks of the library read and write. */
typedef struct reader {
    const char *bytes;
    size_t len, at;
} reader;
typedef struct writer {
    char *data;
    size_t len, capacity;
} writer;
int32_t on_read(void *out, size_t n, void *user);
int32_t on_write(const void *data, size_t n, void *user);
void writer_free(writer *w);
/* A Uint8Array of what was written, which takes over the memory. */
napi_value writer_value(napi_env env, writer *w);
/* Stores the progress of a call in the handle of its cancel, `user`. */
int32_t on_progress(uint64_t done, uint64_t total, void *user);

/* The functions that JavaScript calls. */
void export_calls(napi_env env, napi_value exports);
void export_handles(napi_env env, napi_value exports);
void export_lock(napi_env env, napi_value exports);
void export_function(napi_env env, napi_value exports, const char *name, napi_callback function);

/* Begins a function: its task, and its arguments, undefined where they are absent. */
#define MAX_ARGUMENTS 6
task task_begin(napi_env env, napi_callback_info info, napi_value arguments[MAX_ARGUMENTS]);

#endif
