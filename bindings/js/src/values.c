/* Values of JavaScript to those of C and back. What is missing is zero, the default of the library; what is of another
 * type or out of range fails the task. */

#include "internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool is_given(napi_env env, napi_value value) {
    napi_valuetype type = napi_undefined;
    return value && napi_typeof(env, value, &type) == napi_ok && type != napi_undefined && type != napi_null;
}

/* "max_tokens" as "maxTokens". */
static void camel(const char *field, char name[64]) {
    size_t n = 0;
    for (; *field && n < 63; field++) {
        if (*field != '_') {
            name[n++] = *field;
        } else if (field[1]) {
            field++;
            name[n++] = (char)(*field >= 'a' && *field <= 'z' ? *field - 'a' + 'A' : *field);
        }
    }
    name[n] = 0;
}

napi_value member_of(task *t, napi_value object, const char *field) {
    char name[64];
    napi_value value = NULL;
    camel(field, name);
    if (t->status < 0 || !is_given(t->env, object)) return NULL;
    if (napi_get_named_property(t->env, object, name, &value) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s cannot be read", name);
    return is_given(t->env, value) ? value : NULL;
}

static double double_of(task *t, napi_value value, const char *name) {
    double number = 0;
    if (t->status >= 0 && napi_get_value_double(t->env, value, &number) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is no number", name);
    return number;
}

uint64_t uint_of(task *t, napi_value value, const char *name, uint64_t most) {
    double number = double_of(t, value, name);
    if (t->status < 0) return 0;
    if (!(number >= 0 && number <= (double)most) || floor(number) != number) {
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is %g, no whole number from 0 to %llu", name, number,
                  (unsigned long long)most);
        return 0;
    }
    return (uint64_t)number;
}

uint64_t uint_member(task *t, napi_value object, const char *field, uint64_t most) {
    char name[64];
    camel(field, name);
    napi_value value = member_of(t, object, field);
    return value ? uint_of(t, value, name, most) : 0;
}

int32_t int_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    double number = value ? double_of(t, value, field) : 0;
    if (number >= INT32_MIN && number <= INT32_MAX && floor(number) == number) return (int32_t)number;
    task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is %g, no whole number of 32 bits", field, number);
    return 0;
}

float float_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    return value ? (float)double_of(t, value, field) : 0;
}

bool bool_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    bool is_set = false;
    if (value && napi_get_value_bool(t->env, value, &is_set) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is neither true nor false", field);
    return is_set;
}

char *string_of(task *t, napi_value value, const char *name, size_t *len) {
    size_t n = 0;
    *len = 0;
    if (t->status < 0) return NULL;
    if (napi_get_value_string_utf8(t->env, value, NULL, 0, &n) != napi_ok) {
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is no string", name);
        return NULL;
    }
    char *text = task_alloc(t, n + 1);
    if (text) napi_get_value_string_utf8(t->env, value, text, n + 1, len);
    return text;
}

char *string_member(task *t, napi_value object, const char *field, size_t *len) {
    napi_value value = member_of(t, object, field);
    *len = 0;
    return value ? string_of(t, value, field, len) : NULL;
}

char *terminated_of(task *t, napi_value value, const char *name) {
    size_t len;
    char *text = string_of(t, value, name, &len);
    if (text && strlen(text) != len) task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s holds a NUL", name);
    return text;
}

char *terminated_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    return value ? terminated_of(t, value, field) : NULL;
}

uint32_t count_of(task *t, napi_value array, const char *name) {
    uint32_t n = 0;
    if (array && t->status >= 0 && napi_get_array_length(t->env, array, &n) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is no array", name);
    return n;
}

napi_value element_of(task *t, napi_value array, uint32_t i) {
    napi_value value = NULL;
    if (t->status >= 0 && napi_get_element(t->env, array, i, &value) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "an element cannot be read");
    return value;
}

uint32_t *tokens_of(task *t, napi_value value, const char *name, size_t *n) {
    bool is_typed = false;
    napi_typedarray_type type;
    void *data;
    *n = 0;
    if (t->status < 0) return NULL;
    if (napi_is_typedarray(t->env, value, &is_typed) == napi_ok && is_typed &&
        napi_get_typedarray_info(t->env, value, &type, n, &data, NULL, NULL) == napi_ok && type == napi_uint32_array) {
        uint32_t *copy = task_alloc(t, *n * sizeof *copy);
        if (copy && *n) memcpy(copy, data, *n * sizeof *copy);
        return copy;
    }
    *n = count_of(t, value, name);
    uint32_t *tokens = task_alloc(t, *n * sizeof *tokens);
    for (uint32_t i = 0; tokens && i < *n; i++) {
        napi_value element = element_of(t, value, i);
        if (t->status < 0) break;
        tokens[i] = (uint32_t)uint_of(t, element, name, UINT32_MAX);
    }
    return tokens;
}

void *bytes_of(task *t, napi_value value, const char *name, size_t *n) {
    bool is_typed = false;
    napi_typedarray_type type;
    void *data;
    *n = 0;
    if (t->status < 0) return NULL;
    if (napi_is_typedarray(t->env, value, &is_typed) != napi_ok || !is_typed ||
        napi_get_typedarray_info(t->env, value, &type, n, &data, NULL, NULL) != napi_ok || type != napi_uint8_array) {
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is no Uint8Array", name);
        return NULL;
    }
    /* Copied, because its owner may change or transfer it meanwhile. */
    void *copy = task_alloc(t, *n);
    if (copy && *n) memcpy(copy, data, *n);
    return copy;
}

uint32_t choice_member(task *t, napi_value object, const char *field, const choice *choices) {
    char *name = terminated_member(t, object, field);
    if (!name) return 0;
    for (const choice *one = choices; one->name; one++)
        if (strcmp(one->name, name) == 0) return one->number;
    task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is not \"%.40s\"", field, name);
    return 0;
}

const char *choice_name(const choice *choices, uint32_t number) {
    for (; choices->name; choices++)
        if (choices->number == number) return choices->name;
    return NULL;
}

napi_value number_value(napi_env env, double number) {
    napi_value value = NULL;
    napi_create_double(env, number, &value);
    return value;
}

napi_value string_value(napi_env env, const char *text, size_t len) {
    napi_value value = NULL;
    if (text) napi_create_string_utf8(env, text, len, &value);
    else napi_get_null(env, &value);
    return value;
}

static napi_value array_value(napi_env env, napi_typedarray_type type, const void *data, size_t n) {
    napi_value buffer, value = NULL;
    void *place;
    if (napi_create_arraybuffer(env, n * 4, &place, &buffer) != napi_ok) return NULL;
    if (n) memcpy(place, data, n * 4);
    napi_create_typedarray(env, type, n, buffer, 0, &value);
    return value;
}

napi_value tokens_value(napi_env env, const uint32_t *tokens, size_t n) {
    return array_value(env, napi_uint32_array, tokens, n);
}

napi_value floats_value(napi_env env, const float *floats, size_t n) {
    return array_value(env, napi_float32_array, floats, n);
}

void set_member(napi_env env, napi_value object, const char *field, napi_value value) {
    char name[64];
    camel(field, name);
    if (object && value) napi_set_named_property(env, object, name, value);
}
