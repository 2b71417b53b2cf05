/* Handles of the library as objects of JavaScript, and tasks: calls with their arguments, here or on the thread pool.
 *
 * Closing or collecting an object frees its handle, but not while a task uses it: a task holds references to its
 * objects. Handles that may take long to free are freed on the pool. */

#include "internal.h"
#include <stdlib.h>
#include <string.h>

static const napi_type_tag TAG = {0x8f1d5c2ab77e4f10, 0xa3c4d09be1276855};

void instance_release(instance *instance) {
    if (--instance->users == 0) free(instance);
}

/* Something to be freed on the pool. */
typedef struct freeing {
    library lib;
    kind kind;
    void *pointer;
    napi_async_work work;
} freeing;

static void run_freeing(napi_env env, void *data) {
    (void)env;
    freeing *f = data;
    free_pointer(&f->lib, f->kind, f->pointer);
    f->pointer = NULL;
}

static void end_freeing(napi_env env, napi_status status, void *data) {
    (void)status;
    freeing *f = data;
    run_freeing(env, f); /* Does nothing unless the work was cancelled. */
    napi_delete_async_work(env, f->work);
    free(f);
}

/* Frees the pointer of a handle: on the pool if that may take long, as for the weights of a model or for a store that
 * writes its files. */
static void handle_free(napi_env env, handle *h) {
    if (!h->pointer) return;
    void *pointer = h->pointer;
    h->pointer = NULL;
    int64_t now;
    if (h->external && !h->instance->ending) napi_adjust_external_memory(env, -h->external, &now);
    h->external = 0;
    bool is_quick = h->kind == CANCEL || h->kind == JOB || h->kind == PROMPT || h->kind == SAMPLER;
    freeing *f = is_quick || h->instance->ending ? NULL : calloc(1, sizeof *f);
    napi_value name;
    if (f) {
        *f = (freeing){.lib = h->instance->lib, .kind = h->kind, .pointer = pointer};
        if (napi_create_string_utf8(env, "realizar.free", NAPI_AUTO_LENGTH, &name) == napi_ok &&
            napi_create_async_work(env, NULL, name, run_freeing, end_freeing, f, &f->work) == napi_ok) {
            if (napi_queue_async_work(env, f->work) == napi_ok) return;
            napi_delete_async_work(env, f->work);
        }
        free(f);
    }
    free_pointer(&h->instance->lib, h->kind, pointer);
}

static void handle_release(napi_env env, handle *h) {
    if (--h->users > 0) return;
    handle_free(env, h);
    *(h->previous ? &h->previous->next : &h->instance->first) = h->next;
    if (h->next) h->next->previous = h->previous;
    instance_release(h->instance);
    free(h);
}

static void finalize_handle(napi_env env, void *data, void *hint) {
    (void)hint;
    handle_release(env, data);
}

static handle *handle_of(napi_env env, napi_value value) {
    bool is_ours = false;
    void *h = NULL;
    napi_valuetype type;
    if (napi_typeof(env, value, &type) != napi_ok || type != napi_object) return NULL;
    if (napi_check_object_type_tag(env, value, &TAG, &is_ours) != napi_ok || !is_ours) return NULL;
    return napi_unwrap(env, value, &h) == napi_ok ? h : NULL;
}

void *task_use(task *t, napi_value value, kind wanted) {
    handle *h = handle_of(t->env, value);
    if (!h || h->kind != wanted) {
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "an argument is no %s", kind_name(wanted));
        return NULL;
    }
    if (h->closed || !h->pointer) {
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "the %s is closed", kind_name(h->kind));
        return NULL;
    }
    /* Otherwise a call on this thread could make a call on the pool fail. */
    if (h->tasks > 0 && (h->kind == CONVERSATION || h->kind == CACHE || h->kind == JOB)) {
        task_fail(t, RZ_ERR_BUSY, "the %s is in use by another call", kind_name(h->kind));
        return NULL;
    }
    if (t->n_uses == t->room) {
        size_t room = t->room ? 4 * t->room : 4;
        use *grown = task_alloc(t, room * sizeof *grown);
        if (!grown) return NULL;
        if (t->n_uses) memcpy(grown, t->uses, t->n_uses * sizeof *grown);
        t->uses = grown;
        t->room = room;
    }
    if (napi_create_reference(t->env, value, 1, &t->uses[t->n_uses].ref) != napi_ok) {
        task_fail(t, RZ_ERR_OUT_OF_MEMORY, "there is no memory for a reference");
        return NULL;
    }
    t->uses[t->n_uses++].handle = h;
    h->users++;
    h->tasks++;
    return h->pointer;
}

void *task_use_optional(task *t, napi_value value, kind wanted) {
    return is_given(t->env, value) ? task_use(t, value, wanted) : NULL;
}

void *handles_of(task *t, napi_value value, const char *name, kind wanted, size_t *n) {
    uint32_t count = count_of(t, value, name);
    void **pointers = task_alloc(t, count * sizeof *pointers);
    for (uint32_t i = 0; pointers && i < count && t->status >= 0; i++)
        pointers[i] = task_use(t, element_of(t, value, i), wanted);
    *n = count;
    return pointers;
}

static void task_end(task *t) {
    if (t->made) free_pointer(t->lib, t->made_kind, t->made);
    t->made = NULL;
    for (size_t i = 0; i < t->n_uses; i++) {
        handle *h = t->uses[i].handle;
        h->tasks--;
        if (h->closed && h->tasks == 0) handle_free(t->env, h);
        handle_release(t->env, h);
        napi_delete_reference(t->env, t->uses[i].ref);
    }
    t->n_uses = 0;
    while (t->blocks) {
        block *next = t->blocks->next;
        free(t->blocks);
        t->blocks = next;
    }
}

static napi_value error_value(task *t, rz_status status, const rz_error *told) {
    const char *code = t->instance->opened ? t->lib->rz_status_name(status) : "RZ_ERR_IO";
    napi_env env = t->env;
    napi_value make, undefined, error;
    napi_value arguments[] = {string_value(env, code, NAPI_AUTO_LENGTH), number_value(env, status),
                              string_value(env, told->message, NAPI_AUTO_LENGTH), number_value(env, told->system_code),
                              number_value(env, (double)told->needed)};
    if (napi_get_undefined(env, &undefined) == napi_ok &&
        napi_get_reference_value(env, t->instance->make_error, &make) == napi_ok &&
        napi_call_function(env, undefined, make, 5, arguments, &error) == napi_ok)
        return error;
    return arguments[2];
}

napi_value task_return(task *t, napi_value result) {
    if (t->status < 0) {
        bool is_pending = false;
        napi_is_exception_pending(t->env, &is_pending);
        if (!is_pending) napi_throw(t->env, error_value(t, t->status, &t->error));
        result = NULL;
    }
    task_end(t);
    return result;
}

napi_value task_now(task *t, void (*run)(task *), napi_value (*finish)(task *)) {
    if (t->status >= 0) run(t);
    return task_return(t, t->status < 0 ? NULL : finish(t));
}

static void run_task(napi_env env, void *data) {
    (void)env;
    task *t = data;
    t->run(t);
}

static void end_task(napi_env env, napi_status status, void *data) {
    task *t = data;
    if (status == napi_cancelled) task_fail(t, RZ_ERR_CANCELLED, "the call was cancelled");
    napi_value result = NULL;
    if (t->status >= 0) result = t->finish(t);
    /* Without a result an exception is pending: there was no memory, or the environment ends. */
    napi_value exception;
    bool is_pending = false;
    napi_is_exception_pending(env, &is_pending);
    if (is_pending && napi_get_and_clear_last_exception(env, &exception) == napi_ok) {
        napi_reject_deferred(env, t->deferred, exception);
    } else if (t->status < 0 || !result) {
        task_fail(t, RZ_ERR_OUT_OF_MEMORY, "there is no memory for the result");
        napi_reject_deferred(env, t->deferred, error_value(t, t->status, &t->error));
    } else {
        napi_resolve_deferred(env, t->deferred, result);
    }
    napi_delete_async_work(env, t->work);
    task_end(t);
    free(t);
}

napi_value task_start(task *t, void (*run)(task *), napi_value (*finish)(task *)) {
    napi_value promise = NULL, name;
    task *copy = t->status < 0 ? NULL : malloc(sizeof *copy);
    if (!copy) {
        task_fail(t, RZ_ERR_OUT_OF_MEMORY, "there is no memory for a call");
        return task_return(t, NULL);
    }
    *copy = *t;
    copy->run = run;
    copy->finish = finish;
    napi_env env = t->env;
    if (napi_create_string_utf8(env, "realizar", NAPI_AUTO_LENGTH, &name) == napi_ok &&
        napi_create_async_work(env, NULL, name, run_task, end_task, copy, &copy->work) == napi_ok) {
        if (napi_create_promise(env, &copy->deferred, &promise) == napi_ok &&
            napi_queue_async_work(env, copy->work) == napi_ok)
            return promise;
        napi_delete_async_work(env, copy->work);
    }
    free(copy);
    task_fail(t, RZ_ERR_OUT_OF_MEMORY, "the call cannot be queued");
    return task_return(t, NULL);
}

napi_value task_made(task *t) {
    handle *h = calloc(1, sizeof *h);
    napi_value object;
    if (!h || napi_create_object(t->env, &object) != napi_ok ||
        napi_wrap(t->env, object, h, finalize_handle, NULL, NULL) != napi_ok) {
        free(h);
        task_fail(t, RZ_ERR_OUT_OF_MEMORY, "there is no memory for an object");
        return NULL;
    }
    h->instance = t->instance;
    h->instance->users++;
    h->next = h->instance->first;
    if (h->next) h->next->previous = h;
    h->instance->first = h;
    h->kind = t->made_kind;
    h->pointer = t->made;
    h->users = 1;
    t->made = NULL;
    napi_type_tag_object(t->env, object, &TAG);
    return object;
}

task task_begin(napi_env env, napi_callback_info info, napi_value arguments[MAX_ARGUMENTS]) {
    task t = {.env = env};
    size_t n = MAX_ARGUMENTS;
    void *data = NULL;
    napi_get_cb_info(env, info, &n, arguments, NULL, NULL);
    napi_get_instance_data(env, &data);
    t.instance = data;
    t.lib = &t.instance->lib;
    if (!t.instance->opened) task_fail(&t, RZ_ERR_IO, "the library is not open");
    return t;
}

void export_function(napi_env env, napi_value exports, const char *name, napi_callback function) {
    napi_value value;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, function, NULL, &value) == napi_ok)
        napi_set_named_property(env, exports, name, value);
}

/* close(handle): frees it now, or with the last task that uses it. */
static napi_value call_close(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    handle *h = handle_of(env, arguments[0]);
    if (h && !h->closed) {
        h->closed = true;
        if (h->tasks == 0) handle_free(env, h);
    }
    return task_return(&t, NULL);
}

/* weigh(handle, bytes): tells the garbage collector how much memory it keeps. */
static napi_value call_weigh(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    handle *h = handle_of(env, arguments[0]);
    int64_t bytes = (int64_t)uint_of(&t, arguments[1], "bytes", MOST), now;
    if (h && h->pointer && t.status >= 0 && napi_adjust_external_memory(env, bytes - h->external, &now) == napi_ok)
        h->external = bytes;
    return task_return(&t, NULL);
}

/* fireAll(): ends all calls of the environment. */
static napi_value call_fire_all(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    for (handle *h = t.instance->first; h; h = h->next)
        if (h->kind == CANCEL && h->pointer) t.lib->rz_cancel_fire(h->pointer);
    return task_return(&t, NULL);
}

int32_t on_progress(uint64_t done, uint64_t total, void *user) {
    handle *cancel = user;
    atomic_store(&cancel->done, done);
    atomic_store(&cancel->total, total);
    return 0;
}

/* progress(cancel): how much of its load is done, and all of it, in bytes. */
static napi_value call_progress(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], pair = NULL;
    task t = task_begin(env, info, arguments);
    if (task_use(&t, arguments[0], CANCEL) && napi_create_array(env, &pair) == napi_ok) {
        napi_set_element(env, pair, 0, number_value(env, (double)atomic_load(&t.uses[0].handle->done)));
        napi_set_element(env, pair, 1, number_value(env, (double)atomic_load(&t.uses[0].handle->total)));
    }
    return task_return(&t, pair);
}

void export_handles(napi_env env, napi_value exports) {
    export_function(env, exports, "close", call_close);
    export_function(env, exports, "weigh", call_weigh);
    export_function(env, exports, "fireAll", call_fire_all);
    export_function(env, exports, "progress", call_progress);
}
