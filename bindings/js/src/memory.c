/* Memory that calls read and write: files, pixels, rows, and the bytes of saved objects. */

#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *source_of(task *t, napi_value value, const char *name, size_t *n) {
    rz_source *source = is_given(t->env, value) ? task_alloc(t, sizeof *source) : NULL;
    if (!source) return NULL;
    size_t size;
    *source = (rz_source){.struct_size = sizeof *source, .kind = RZ_SOURCE_MEMORY};
    source->data = bytes_of(t, value, name, &size);
    source->size = size;
    *n = 1;
    return source;
}

/* The library cannot see where the bytes end. */
void check_pixels(task *t, const rz_pixels *pixels, size_t n) {
    uint64_t width = pixels->width, height = pixels->height;
    uint64_t row = width * (pixels->format == RZ_PIXELS_RGB8 ? 3 : pixels->format == RZ_PIXELS_GRAY8 ? 1 : 4);
    uint64_t stride = pixels->stride ? pixels->stride : row;
    bool fits = width && height && stride >= row && n >= row && (height - 1) <= (n - row) / stride;
    if (!fits)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%zu bytes are no %u x %u pixels", n, pixels->width, pixels->height);
}

size_t rows_of(task *t, size_t n, uint32_t dim) {
    if (dim && n % dim == 0) return n / dim;
    task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%zu numbers are no rows of %u", n, dim);
    return 0;
}

int32_t on_read(void *out, size_t n, void *user) {
    reader *r = user;
    if (n > r->len - r->at) return RZ_ERR_FORMAT;
    memcpy(out, r->bytes + r->at, n);
    r->at += n;
    return 0;
}

int32_t on_write(const void *data, size_t n, void *user) {
    writer *w = user;
    if (n > w->capacity - w->len) {
        size_t capacity = (w->len + n) * 2;
        char *grown = realloc(w->data, capacity);
        if (!grown) return ENOMEM;
        w->data = grown;
        w->capacity = capacity;
    }
    memcpy(w->data + w->len, data, n);
    w->len += n;
    return 0;
}

void writer_free(writer *w) {
    free(w->data);
    w->data = NULL;
}

static void free_bytes(napi_env env, void *data, void *hint) {
    (void)env, (void)hint;
    free(data);
}

napi_value writer_value(napi_env env, writer *w) {
    napi_value buffer, array = NULL;
    napi_status status = napi_create_external_arraybuffer(env, w->data, w->len, free_bytes, NULL, &buffer);
    if (status == napi_ok) {
        napi_create_typedarray(env, napi_uint8_array, w->len, buffer, 0, &array);
    } else if (status != napi_generic_failure) {
        /* Some hosts, such as Electron, allow no memory of others in their arrays. After a generic failure Node throws,
         * because an array cannot be so long, and calls free_bytes. */
        array = bytes_value(env, w->data, w->len);
        free(w->data);
    }
    return array;
}
