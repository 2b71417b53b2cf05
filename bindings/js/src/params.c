/* Options that calls of several groups have. */

#include "internal.h"

rz_cache_params cache_params(task *t, napi_value options) {
    rz_cache_params params = {0};
    set_rz_cache_params(t, options, &params);
    return params;
}

int32_t on_progress(uint64_t done, uint64_t total, void *user) {
    handle *cancel = user;
    atomic_store(&cancel->done, done);
    atomic_store(&cancel->total, total);
    return 0;
}
