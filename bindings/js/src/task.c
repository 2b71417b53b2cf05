/* What a task has until it ends: memory, and its first failure. */

#include "internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *task_alloc(task *t, size_t bytes) {
    block *made = bytes < SIZE_MAX - sizeof *made ? calloc(1, sizeof *made + bytes) : NULL;
    if (!made) {
        task_fail(t, RZ_ERR_OUT_OF_MEMORY, "there is no memory for %zu bytes", bytes);
        return NULL;
    }
    made->next = t->blocks;
    t->blocks = made;
    return made->data;
}

/* The first failure counts. */
void task_fail(task *t, rz_status status, const char *format, ...) {
    if (t->status < 0) return;
    t->status = t->error.code = status;
    t->error.system_code = 0;
    t->error.needed = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error.message, sizeof t->error.message, format, arguments);
    va_end(arguments);
}

bool task_repeats(task *t, size_t *capacity, size_t needed) {
    if (t->status != RZ_ERR_BUFFER_TOO_SMALL) return false;
    t->status = RZ_OK;
    *capacity = needed;
    return true;
}
