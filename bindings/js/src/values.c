/* Conversions between values of JavaScript and of C. A missing value is zero, the default of the library. A value of
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

napi_value member_of(task *t, napi_value object, const char *name) {
    napi_value value = NULL;
    if (t->status < 0 || !is_given(t->env, object)) return NULL;
    if (napi_get_named_property(t->env, object, name, &value) != napi_ok)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s cannot be read", name);
    return is_given(t->env, value) ? value : NULL;
}

/* A number as JavaScript writes it; of any other value the type, because texts may be private. */
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
    if (t->status >= 0 && (!value || napi_get_value_double(t->env, value, &number) != napi_ok))
        fail_value(t, value, name, wanted);
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

uint64_t uint_member(task *t, napi_value object, const char *name, uint64_t most) {
    napi_value value = member_of(t, object, name);
    return value ? uint_of(t, value, name, most) : 0;
}

/* A number, with RZ_NONE for 0. Absent: the default. */
uint32_t or_none_member(task *t, napi_value object, const char *name) {
    napi_value value = member_of(t, object, name);
    uint32_t number = value ? (uint32_t)uint_of(t, value, name, UINT32_MAX) : 0;
    return value && number == 0 ? RZ_NONE : number;
}

int32_t int_member(task *t, napi_value object, const char *name) {
    napi_value value = member_of(t, object, name);
    const char *wanted = "a whole number from -2147483648 to 2147483647";
    double number = value ? double_of(t, value, name, wanted) : 0;
    if (number >= INT32_MIN && number <= INT32_MAX && floor(number) == number) return (int32_t)number;
    fail_value(t, value, name, wanted);
    return 0;
}

float float_of(task *t, napi_value value, const char *name) {
    double number = double_of(t, value, name, "a number");
    if (isnan(number)) fail_value(t, value, name, "a number");
    if (isfinite(number) && fabs(number) > FLT_MAX) fail_value(t, value, name, "at most 3.402823e+38");
    return (float)number;
}

float float_member(task *t, napi_value object, const char *name) {
    napi_value value = member_of(t, object, name);
    return value ? float_of(t, value, name) : 0;
}

bool bool_member(task *t, napi_value object, const char *name) {
    napi_value value = member_of(t, object, name);
    bool is_set = false;
    if (value && napi_get_value_bool(t->env, value, &is_set) != napi_ok)
        fail_value(t, value, name, "true or false");
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
            task_fail(t, RZ_ERR_INVALID_ARGUMENT,
                      "%s has half of a surrogate pair at %zu; it must be a text of Unicode", name, i);
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

char *string_member(task *t, napi_value object, const char *name, size_t *len) {
    napi_value value = member_of(t, object, name);
    *len = 0;
    return value ? string_of(t, value, name, len) : NULL;
}

char *terminated_of(task *t, napi_value value, const char *name) {
    size_t len;
    char *text = string_of(t, value, name, &len);
    if (text && strlen(text) != len)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s has a NUL at %zu; it must be a text without one", name, strlen(text));
    return text;
}

char *terminated_member(task *t, napi_value object, const char *name) {
    napi_value value = member_of(t, object, name);
    return value ? terminated_of(t, value, name) : NULL;
}

uint32_t count_of(task *t, napi_value array, const char *name) {
    uint32_t n = 0;
    if (is_given(t->env, array) && t->status >= 0 && napi_get_array_length(t->env, array, &n) != napi_ok)
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

/* Returns true if a value is a typed array of this type, and copies it: its owner may change or transfer it during the
 * call. */
static bool is_copied(task *t, napi_value value, napi_typedarray_type wanted, size_t width, void **copy, size_t *n) {
    bool is_typed = false;
    napi_typedarray_type type;
    void *data;
    if (!value || napi_is_typedarray(t->env, value, &is_typed) != napi_ok || !is_typed ||
        napi_get_typedarray_info(t->env, value, &type, n, &data, NULL, NULL) != napi_ok || type != wanted) {
        *n = 0;
        return false;
    }
    *copy = task_alloc(t, *n * width);
    if (*copy && *n) memcpy(*copy, data, *n * width);
    return true;
}

/* Reads an array whose elements take `width` bytes each: `read` sets one. */
typedef void element_reader(task *t, napi_value element, const char *name, const void *with, void *at);
static void *array_of(task *t, napi_value array, const char *name, size_t width, element_reader *read,
                      const void *with, size_t *n) {
    char list[40];
    snprintf(list, sizeof list, "%.39s", name); /* `name` may be t->name, which changes. */
    uint32_t count = count_of(t, array, list);
    *n = count;
    char *elements = is_given(t->env, array) ? task_alloc(t, count * width) : NULL;
    for (uint32_t i = 0; elements && i < count; i++) {
        napi_value element = element_of(t, array, i);
        if (t->status < 0) break;
        read(t, element, element_name(t, list, i), with, elements + i * width);
    }
    return elements;
}

static void read_token(task *t, napi_value element, const char *name, const void *with, void *at) {
    (void)with;
    *(uint32_t *)at = (uint32_t)uint_of(t, element, name, UINT32_MAX);
}

void *tokens_of(task *t, napi_value value, const char *name, size_t *n) {
    void *copy = NULL;
    if (t->status >= 0 && is_copied(t, value, napi_uint32_array, sizeof(uint32_t), &copy, n)) return copy;
    return array_of(t, value, name, sizeof(uint32_t), read_token, NULL, n);
}

static void read_float(task *t, napi_value element, const char *name, const void *with, void *at) {
    (void)with;
    *(float *)at = float_of(t, element, name);
}

void *floats_of(task *t, napi_value value, const char *name, size_t *n) {
    void *copy = NULL;
    if (t->status >= 0 && is_copied(t, value, napi_float32_array, sizeof(float), &copy, n)) return copy;
    return array_of(t, value, name, sizeof(float), read_float, NULL, n);
}

static void read_choice(task *t, napi_value element, const char *name, const void *with, void *at) {
    *(uint32_t *)at = choice_of(t, element, name, with);
}

void *choices_of(task *t, napi_value value, const char *name, const choice *choices, size_t *n) {
    return array_of(t, value, name, sizeof(uint32_t), read_choice, choices, n);
}

static void read_text(task *t, napi_value element, const char *name, const void *with, void *at) {
    (void)with;
    *(char **)at = terminated_of(t, element, name);
}

void *texts_of(task *t, napi_value value, const char *name, size_t *n) {
    return array_of(t, value, name, sizeof(char *), read_text, NULL, n);
}

void set_rz_token_sequence(task *t, napi_value value, void *at) {
    rz_token_sequence *sequence = at;
    sequence->tokens = tokens_of(t, value, t->name, &sequence->n_tokens);
}

static void read_sequence(task *t, napi_value element, const char *name, const void *with, void *at) {
    (void)with;
    if (!is_given(t->env, element)) fail_value(t, element, name, "an array");
    set_rz_token_sequence(t, element, at);
}

void *token_lists_of(task *t, napi_value value, const char *name, const size_t **lengths, size_t *n) {
    rz_token_sequence *sequences = array_of(t, value, name, sizeof *sequences, read_sequence, NULL, n);
    const uint32_t **lists = task_alloc(t, *n * sizeof *lists);
    size_t *counts = task_alloc(t, *n * sizeof *counts);
    for (size_t i = 0; sequences && lists && counts && i < *n; i++) {
        lists[i] = sequences[i].tokens;
        counts[i] = sequences[i].n_tokens;
    }
    *lengths = counts;
    return lists;
}

void set_rz_logit_bias(task *t, napi_value pair, void *at) {
    rz_logit_bias *bias = at;
    bias->token = (uint32_t)uint_of(t, element_of(t, pair, 0), "a token of biases", UINT32_MAX);
    bias->bias = float_of(t, element_of(t, pair, 1), "a bias of biases");
}

void *struct_of(task *t, napi_value value, size_t size, setter *set) {
    void *at = is_given(t->env, value) ? task_alloc(t, size) : NULL;
    if (at) set(t, value, at);
    return at;
}

static void read_struct(task *t, napi_value element, const char *name, const void *with, void *at) {
    setter *set = *(setter *const *)with;
    bool is_list = set == set_rz_token_sequence || set == set_rz_logit_bias;
    napi_valuetype type = napi_undefined;
    napi_typeof(t->env, element, &type);
    if (type != napi_object) fail_value(t, element, name, is_list ? "an array" : "an object");
    else set(t, element, at);
}

void *structs_of(task *t, napi_value value, const char *name, size_t size, setter *set, size_t *n) {
    return array_of(t, value, name, size, read_struct, &set, n);
}

void check_count(task *t, const void *list, const char *name, size_t n, size_t wanted, const char *other) {
    if (list && n != wanted)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "%s has %zu numbers; it must have one for each of %zu %s", name, n,
                  wanted, other);
}

void *bytes_of(task *t, napi_value value, const char *name, size_t *n) {
    void *copy = NULL;
    *n = 0;
    if (t->status >= 0 && !is_copied(t, value, napi_uint8_array, 1, &copy, n))
        fail_value(t, value, name, "a Uint8Array");
    return copy;
}

void *doubles_of(task *t, napi_value value, const char *name, size_t *n) {
    void *copy = NULL;
    *n = 0;
    if (t->status >= 0 && !is_copied(t, value, napi_float64_array, sizeof(double), &copy, n))
        fail_value(t, value, name, "a Float64Array");
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

uint32_t choice_member(task *t, napi_value object, const char *name, const choice *choices) {
    napi_value value = member_of(t, object, name);
    return value ? choice_of(t, value, name, choices) : 0;
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

napi_value bytes_value(napi_env env, const void *bytes, size_t n) {
    napi_value value = NULL;
    napi_create_buffer_copy(env, n, bytes, NULL, &value);
    return value;
}

napi_value bool_value(napi_env env, bool is_it) {
    napi_value value = NULL;
    napi_get_boolean(env, is_it, &value);
    return value;
}

napi_value undefined_value(napi_env env) {
    napi_value value = NULL;
    napi_get_undefined(env, &value);
    return value;
}

napi_value names_value(napi_env env, const choice *choices, uint32_t bits) {
    napi_value list = NULL;
    uint32_t n = 0;
    if (napi_create_array(env, &list) != napi_ok) return NULL;
    for (; choices->name; choices++)
        if (choices->number & bits)
            napi_set_element(env, list, n++, string_value(env, choices->name, NAPI_AUTO_LENGTH));
    return list;
}

napi_value list_value(napi_env env, const void *structs, size_t n, size_t size,
                      napi_value (*value)(napi_env env, const void *at)) {
    napi_value list = NULL;
    if (napi_create_array(env, &list) != napi_ok) return NULL;
    for (size_t i = 0; i < n; i++)
        napi_set_element(env, list, (uint32_t)i, value(env, (const char *)structs + i * size));
    return list;
}

napi_value object_value(napi_env env) {
    napi_value object = NULL;
    napi_create_object(env, &object);
    return object;
}

void set_member(napi_env env, napi_value object, const char *name, napi_value value) {
    if (object && value) napi_set_named_property(env, object, name, value);
}
