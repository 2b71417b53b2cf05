/* A lock on a file between processes, which Node has no function for. */

#define _DARWIN_C_SOURCE /* flock */
#include "internal.h"

#ifdef _WIN32
#include <uv.h>
#include <windows.h>
/* Tries to lock the first byte of an open file until it is closed. */
static bool lock(int32_t fd) { return LockFile((HANDLE)uv_get_osfhandle(fd), 0, 0, 1, 0); }
#else
#include <errno.h>
#include <sys/file.h>
/* Tries to lock an open file until it is closed; true too where the file system has no locks. */
static bool lock(int32_t fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR); }
#endif

/* lock(fd): tells whether the file is locked now. */
static napi_value call_lock(napi_env env, napi_callback_info info) {
    size_t n = 1;
    int32_t fd = -1;
    napi_value argument, result = NULL;
    napi_get_cb_info(env, info, &n, &argument, NULL, NULL);
    if (napi_get_value_int32(env, argument, &fd) == napi_ok) napi_get_boolean(env, lock(fd), &result);
    return result;
}

void export_lock(napi_env env, napi_value exports) { export_function(env, exports, "lock", call_lock); }
