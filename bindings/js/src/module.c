/* The addon itself: what an environment gets when it loads it, and the function that opens the library. */

#include "internal.h"
#include <stdlib.h>

/* open(path, makeError): opens the library, once; its version. */
static napi_value call_open(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    instance *instance = t.instance;
    t.status = RZ_OK;
    char *path = terminated_of(&t, arguments[0], "the path of the library");
    if (t.status >= 0 && !instance->make_error) napi_create_reference(env, arguments[1], 1, &instance->make_error);
    if (t.status >= 0 && !instance->opened) {
        char why[sizeof t.error.message];
        if (library_open(&instance->lib, path, why, sizeof why)) instance->opened = true;
        else task_fail(&t, RZ_ERR_IO, "%s", why);
    }
    return task_return(&t, t.status < 0 ? NULL : string_value(env, t.lib->rz_version(), NAPI_AUTO_LENGTH));
}

static void end_environment(void *data) { ((instance *)data)->ending = true; }

static void finalize_instance(napi_env env, void *data, void *hint) {
    (void)hint;
    instance *ended = data;
    if (ended->make_error) napi_delete_reference(env, ended->make_error);
    ended->make_error = NULL;
    instance_release(ended);
}

NAPI_MODULE_INIT() {
    instance *made = calloc(1, sizeof *made);
    if (!made || napi_set_instance_data(env, made, finalize_instance, NULL) != napi_ok) {
        free(made);
        napi_throw_error(env, NULL, "there is no memory for the addon");
        return NULL;
    }
    made->users = 1;
    napi_add_env_cleanup_hook(env, end_environment, made);
    export_function(env, exports, "open", call_open);
    export_calls(env, exports);
    export_handles(env, exports);
    export_lock(env, exports);
    return exports;
}
