/* Values of JavaScript to those of C and back. A value that is missing is zero, the default of the library; one of
 * another type or out of range fails the task. */

#include "internal.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
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
    napi_value value = NULL;
    camel(field, t->name);
    if (t->status < 0 || !is_given(t->env, object)) return NULL;
    if (napi_get_named_property(t->env, object, t->name, &value) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s cannot be read", t->name);
    return is_given(t->env, value) ? value : NULL;
}

/* What a value is: a number as JavaScript writes it, and of another one its type, because texts may be private. */
static const char *shown(napi_env env, napi_value value, char text[32]) {
    napi_valuetype type = napi_undefined;
    bool is_it = false;
    double number = 0;
    if (value) napi_typeof(env, value, &type);
    switch (type) {
    case napi_undefined: return "undefined";
    case napi_null: return "null";
    case napi_boolean: return napi_get_value_bool(env, value, &is_it) == napi_ok && is_it ? "true" : "false";
    case napi_string: return "a string";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_bigint: return "a bigint";
    case napi_number:
        napi_get_value_double(env, value, &number);
        if (isnan(number)) return "NaN";
        if (isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
        snprintf(text, 32, "%.15g", number);
        return text;
    default: break;
    }
    if (napi_is_array(env, value, &is_it) == napi_ok && is_it) return "an array";
    return "an object";
}

void fail_value(task *t, napi_value value, const char *name, const char *wanted) {
    char text[32];
    task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is %s; it must be %s", name, shown(t->env, value, text), wanted);
}

static double double_of(task *t, napi_value value, const char *name, const char *wanted) {
    double number = 0;
    if (t->status >= 0 && (!value || napi_get_value_double(t->env, value, &number) != napi_ok)) fail_value(t, value, name, wanted);
    return number;
}

uint64_t uint_of(task *t, napi_value value, const char *name, uint64_t most) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a whole number from 0 to %llu", (unsigned long long)most);
    double number = double_of(t, value, name, wanted);
    if (t->status < 0) return 0;
    if (number >= 0 && number <= (double)most && floor(number) == number) return (uint64_t)number;
    fail_value(t, value, name, wanted);
    return 0;
}

uint64_t uint_member(task *t, napi_value object, const char *field, uint64_t most) {
    napi_value value = member_of(t, object, field);
    return value ? uint_of(t, value, t->name, most) : 0;
}

/* A number, 0 said as RZ_NONE; absent: the default. */
uint32_t or_none_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    uint32_t number = value ? (uint32_t)uint_of(t, value, t->name, UINT32_MAX) : 0;
    return value && number == 0 ? RZ_NONE : number;
}

int32_t int_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    const char *wanted = "a whole number from -2147483648 to 2147483647";
    double number = value ? double_of(t, value, t->name, wanted) : 0;
    if (number >= INT32_MIN && number <= INT32_MAX && floor(number) == number) return (int32_t)number;
    fail_value(t, value, t->name, wanted);
    return 0;
}

float float_of(task *t, napi_value value, const char *name) {
    double number = double_of(t, value, name, "a number");
    if (isnan(number)) fail_value(t, value, name, "a number");
    if (isfinite(number) && fabs(number) > FLT_MAX) fail_value(t, value, name, "at most 3.402823e+38");
    return (float)number;
}

float float_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    return value ? float_of(t, value, t->name) : 0;
}

bool bool_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    bool is_set = false;
    if (value && napi_get_value_bool(t->env, value, &is_set) != napi_ok)
        fail_value(t, value, t->name, "true or false");
    return is_set;
}

/* Fails for half of a surrogate pair, which Node turns into U+FFFD. `text` is the string as Node has made it. */
static void check_surrogates(task *t, napi_value value, const char *name, const char *text, size_t len) {
    size_t at = 0, n = 0;
    while (at + 3 <= len && memcmp(text + at, "\xef\xbf\xbd", 3) != 0) at++;
    if (at + 3 > len || napi_get_value_string_utf16(t->env, value, NULL, 0, &n) != napi_ok) return;
    char16_t *units = task_alloc(t, (n + 1) * sizeof *units);
    if (!units || napi_get_value_string_utf16(t->env, value, units, n + 1, &n) != napi_ok) return;
    for (size_t i = 0; i < n; i++) {
        bool is_first = units[i] >= 0xd800 && units[i] < 0xdc00, is_second = units[i] >= 0xdc00 && units[i] < 0xe000;
        bool is_pair = is_first && i + 1 < n && units[i + 1] >= 0xdc00 && units[i + 1] < 0xe000;
        if (is_pair) i++;
        else if (is_first || is_second)
            task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s has half of a surrogate pair at %zu; it must be a text of Unicode", name, i);
    }
}

char *string_of(task *t, napi_value value, const char *name, size_t *len) {
    size_t n = 0;
    *len = 0;
    if (t->status < 0) return NULL;
    if (!value || napi_get_value_string_utf8(t->env, value, NULL, 0, &n) != napi_ok) {
        fail_value(t, value, name, "a string");
        return NULL;
    }
    char *text = task_alloc(t, n + 1);
    if (text && napi_get_value_string_utf8(t->env, value, text, n + 1, len) == napi_ok)
        check_surrogates(t, value, name, text, *len);
    return text;
}

char *string_member(task *t, napi_value object, const char *field, size_t *len) {
    napi_value value = member_of(t, object, field);
    *len = 0;
    return value ? string_of(t, value, t->name, len) : NULL;
}

char *terminated_of(task *t, napi_value value, const char *name) {
    size_t len;
    char *text = string_of(t, value, name, &len);
    if (text && strlen(text) != len)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s has a NUL at %zu; it must be a text without one", name, strlen(text));
    return text;
}

char *terminated_member(task *t, napi_value object, const char *field) {
    napi_value value = member_of(t, object, field);
    return value ? terminated_of(t, value, t->name) : NULL;
}

uint32_t count_of(task *t, napi_value array, const char *name) {
    uint32_t n = 0;
    if (array && t->status >= 0 && napi_get_array_length(t->env, array, &n) != napi_ok)
        fail_value(t, array, name, "an array");
    return n;
}

const char *element_name(task *t, const char *name, uint32_t i) {
    char text[sizeof t->name];
    snprintf(text, sizeof text, "%.40s[%u]", name, i);
    return strcpy(t->name, text);
}

napi_value element_of(task *t, napi_value array, uint32_t i) {
    napi_value value = NULL;
    if (t->status >= 0 && napi_get_element(t->env, array, i, &value) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "an element cannot be read");
    return value;
}

/* Whether a value is a typed array of this type, which is copied: its owner may change or transfer it meanwhile. */
static bool is_copied(task *t, napi_value value, napi_typedarray_type wanted, size_t width, void **copy, size_t *n) {
    bool is_typed = false;
    napi_typedarray_type type;
    void *data;
    if (napi_is_typedarray(t->env, value, &is_typed) != napi_ok || !is_typed ||
        napi_get_typedarray_info(t->env, value, &type, n, &data, NULL, NULL) != napi_ok || type != wanted)
        return false;
    *copy = task_alloc(t, *n * width);
    if (*copy && *n) memcpy(*copy, data, *n * width);
    return true;
}

uint32_t *tokens_of(task *t, napi_value value, const char *name, size_t *n) {
    void *copy = NULL;
    *n = 0;
    if (t->status < 0 || is_copied(t, value, napi_uint32_array, sizeof(uint32_t), &copy, n)) return copy;
    char list[40];
    snprintf(list, sizeof list, "%.39s", name); /* `name` may be that of the member that is read. */
    *n = count_of(t, value, name);
    uint32_t *tokens = task_alloc(t, *n * sizeof *tokens);
    for (uint32_t i = 0; tokens && i < *n; i++) {
        napi_value element = element_of(t, value, i);
        if (t->status < 0) break;
        tokens[i] = (uint32_t)uint_of(t, element, element_name(t, list, i), UINT32_MAX);
    }
    return tokens;
}

float *floats_of(task *t, napi_value array, const char *name, uint32_t n) {
    float *floats = task_alloc(t, n * sizeof *floats);
    for (uint32_t i = 0; i < n && t->status >= 0; i++) floats[i] = float_of(t, element_of(t, array, i), element_name(t, name, i));
    return floats;
}

void *bytes_of(task *t, napi_value value, const char *name, size_t *n) {
    void *copy = NULL;
    *n = 0;
    if (t->status >= 0 && !is_copied(t, value, napi_uint8_array, 1, &copy, n))
        fail_value(t, value, name, "a Uint8Array");
    return copy;
}

uint32_t choice_of(task *t, napi_value value, const char *name, const choice *choices) {
    char all[256] = "one of", chosen[64] = "";
    size_t len = 0;
    for (const choice *one = choices; one->name; one++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s %s", one == choices ? "" : ",", one->name);
    if (t->status < 0) return 0;
    if (!value || napi_get_value_string_utf8(t->env, value, chosen, sizeof chosen, &len) != napi_ok) {
        fail_value(t, value, name, all);
        return 0;
    }
    for (; choices->name; choices++)
        if (strlen(chosen) == len && strcmp(choices->name, chosen) == 0) return choices->number;
    task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s is \"%.40s\"; it must be %s", name, chosen, all);
    return 0;
}

uint32_t choice_member(task *t, napi_value object, const char *field, const choice *choices) {
    napi_value value = member_of(t, object, field);
    return value ? choice_of(t, value, t->name, choices) : 0;
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

napi_value bool_value(napi_env env, bool is_it) {
    napi_value value = NULL;
    napi_get_boolean(env, is_it, &value);
    return value;
}

napi_value names_value(napi_env env, const choice *choices, uint32_t bits) {
    napi_value list = NULL;
    uint32_t n = 0;
    if (napi_create_array(env, &list) != napi_ok) return NULL;
    for (; choices->name; choices++)
        if (choices->number & bits) napi_set_element(env, list, n++, string_value(env, choices->name, NAPI_AUTO_LENGTH));
    return list;
}

void drop_member(napi_env env, napi_value object, const char *field) {
    char name[64];
    napi_value key;
    camel(field, name);
    if (napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &key) == napi_ok) napi_delete_property(env, object, key, NULL);
}

void set_member(napi_env env, napi_value object, const char *field, napi_value value) {
    char name[64];
    camel(field, name);
    if (object && value) napi_set_named_property(env, object, name, value);
}
