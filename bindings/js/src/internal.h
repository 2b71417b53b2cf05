/* The declarations that the files of the addon share: the library's functions, handles as JavaScript has them, and
 * calls on other threads.
 *
 * All but the run function of a task is executed by the thread of its environment, so that nothing here has a lock. */

#ifndef REALIZAR_JS_INTERNAL_H
#define REALIZAR_JS_INTERNAL_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <realizar.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The functions of the library, which is opened at run time. */
typedef struct library {
#define FUNCTION(name) __typeof__(&name) name;
#include "functions.inc"
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

typedef enum kind { NONE, MODEL, CANCEL, STORE, ADAPTER, CONVERSATION, SESSION, JOB, ENCODER, MEDIA, PROMPT } kind;

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

/* A call: its arguments, which are copied, and what came of it. One on the environment's thread is on its stack. */
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
    void *data; /* Of the function that made it. */
    void *made; /* Handle of the library that came of it. */
    kind made_kind;
    int64_t made_bytes;
    char name[64]; /* Of the member that was read last. */
} task;

/* Releases the environment's or a handle's use of the instance, which is freed with the last. */
void instance_release(instance *instance);
/* Frees what an object stands for: now, or with the last task that uses it. */
void handle_close(napi_env env, napi_value value);

/* Memory that lasts as long as the task, zeroed; NULL fails the task. */
void *task_alloc(task *t, size_t bytes);
void task_fail(task *t, rz_status status, const char *format, ...);
/* Whether the buffer of a call was too small: it is to be made again, with a capacity of `needed`. */
bool task_repeats(task *t, size_t *capacity, size_t needed);

/* The pointer of an object of this kind, which is kept until the task ends. Another object fails the task, and so does
 * one of a call at a time that another task uses. */
void *task_use(task *t, napi_value value, kind wanted);
/* task_use where there is an object, else NULL. */
void *task_use_optional(task *t, napi_value value, kind wanted);

napi_value error_value(task *t, rz_status status, const rz_error *error);
/* Ends a call on this thread: its result, or an exception. */
napi_value task_return(task *t, napi_value result);
/* Has another thread run the task, a copy of which lasts until then: the result is a promise. */
napi_value task_start(task *t, void (*run)(task *), napi_value (*finish)(task *));
/* An object for t->made. */
napi_value task_made(task *t);

/* Values of JavaScript. Members have the names of fields, "maxTokens" of max_tokens; what is wrong fails the task. */
bool is_given(napi_env env, napi_value value);
napi_value member_of(task *t, napi_value object, const char *field);
/* Fails the task: "NAME is VALUE; it must be WANTED". */
void fail_value(task *t, napi_value value, const char *name, const char *wanted);
uint64_t uint_of(task *t, napi_value value, const char *name, uint64_t most);
uint64_t uint_member(task *t, napi_value object, const char *field, uint64_t most);
uint32_t or_none_member(task *t, napi_value object, const char *field);
int32_t int_member(task *t, napi_value object, const char *field);
float float_of(task *t, napi_value value, const char *name);
float float_member(task *t, napi_value object, const char *field);
bool bool_member(task *t, napi_value object, const char *field);
char *string_of(task *t, napi_value value, const char *name, size_t *len);
char *string_member(task *t, napi_value object, const char *field, size_t *len);
/* A string without a NUL in it. */
char *terminated_of(task *t, napi_value value, const char *name);
char *terminated_member(task *t, napi_value object, const char *field);
uint32_t count_of(task *t, napi_value array, const char *name);
/* The name of an element in messages, "stops[1]". */
const char *element_name(task *t, const char *name, uint32_t i);
napi_value element_of(task *t, napi_value array, uint32_t i);
/* The numbers of a Uint32Array, or of an array. */
uint32_t *tokens_of(task *t, napi_value value, const char *name, size_t *n);
/* The first `n` numbers of an array. */
float *floats_of(task *t, napi_value array, const char *name, uint32_t n);
/* The bytes of a Uint8Array. */
void *bytes_of(task *t, napi_value value, const char *name, size_t *n);

typedef struct choice {
    const char *name;
    uint32_t number;
} choice;
uint32_t choice_of(task *t, napi_value value, const char *name, const choice *choices);
/* The number of the name that a member has; 0 where it is absent. */
uint32_t choice_member(task *t, napi_value object, const char *field, const choice *choices);
const char *choice_name(const choice *choices, uint32_t number);

#define U32(t, object, params, field) (params)->field = (uint32_t)uint_member(t, object, #field, UINT32_MAX)
#define U64(t, object, params, field) (params)->field = uint_member(t, object, #field, (1ull << 53) - 1)
#define F32(t, object, params, field) (params)->field = float_member(t, object, #field)

napi_value number_value(napi_env env, double number);
napi_value string_value(napi_env env, const char *text, size_t len);
napi_value tokens_value(napi_env env, const uint32_t *tokens, size_t n);
napi_value floats_value(napi_env env, const float *floats, size_t n);
void set_member(napi_env env, napi_value object, const char *field, napi_value value);
void drop_member(napi_env env, napi_value object, const char *field);
napi_value bool_value(napi_env env, bool is_it);
/* The names of the bits that are set. */
napi_value names_value(napi_env env, const choice *choices, uint32_t bits);
/* Adds the numbers and texts of a struct to an object, or to a new one where it is NULL. */
napi_value fields_value(napi_env env, napi_value object, const char *structure, const void *data);

/* Parameters out of options. */
rz_cache_params cache_params(task *t, napi_value options);
/* NULL where nothing is given. */
rz_sampler_params *sampler_params(task *t, napi_value sampling);
uint32_t grammar_params(task *t, napi_value grammar, uint32_t *flags, const char **text, size_t *len);
const char *const *stop_params(task *t, napi_value options, size_t *n);
/* Adapters, which the task uses, and the scale of each. */
rz_adapter *const *adapter_params(task *t, napi_value options, const float **scales, size_t *n);
extern const choice DRAFTS[];
#include "options.h"

uint32_t *tokenize(task *t, const rz_model *model, const char *text, size_t len, uint32_t flags, size_t *n);

/* Tells a cancel, a handle, how far a call is. */
int32_t on_progress(uint64_t done, uint64_t total, void *cancel);

/* The members that describe an object. */
void encoder_info(task *t, napi_value object, const void *encoder);
void media_info(task *t, napi_value object, const void *media);

/* The functions that JavaScript calls, by groups. */
void export_models(napi_env env, napi_value exports);
void export_texts(napi_env env, napi_value exports);
void export_conversations(napi_env env, napi_value exports);
void export_media(napi_env env, napi_value exports);
void export_lock(napi_env env, napi_value exports);
void export_function(napi_env env, napi_value exports, const char *name, napi_callback function);

/* Begins a function: its task, and its arguments, undefined where they are absent. */
#define MAX_ARGUMENTS 6
task task_begin(napi_env env, napi_callback_info info, napi_value arguments[MAX_ARGUMENTS]);

#endif
