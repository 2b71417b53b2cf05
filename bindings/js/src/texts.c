/* Tokens, samplers, grammars, sessions, and jobs, which go on with a text. */

#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const choice DRAFTS[] = {
    {"none", RZ_DRAFT_NONE}, {"lookup", RZ_DRAFT_LOOKUP}, {"model", RZ_DRAFT_MODEL}, {"mtp", RZ_DRAFT_MTP}, {NULL, 0}};
static const choice GRAMMARS[] = {{"json_schema", RZ_GRAMMAR_JSON_SCHEMA},
                                  {"regex", RZ_GRAMMAR_REGEX},
                                  {"lark", RZ_GRAMMAR_LARK},
                                  {"gbnf", RZ_GRAMMAR_GBNF},
                                  {"json", RZ_GRAMMAR_JSON},
                                  {"choices", RZ_GRAMMAR_CHOICES},
                                  {"tools", RZ_GRAMMAR_TOOLS},
                                  {NULL, 0}};
uint32_t *tokenize(task *t, const rz_model *model, const char *text, size_t len, uint32_t flags, size_t *n) {
    uint32_t *tokens;
    size_t capacity = len / 2 + 16;
    do {
        tokens = task_alloc(t, capacity * sizeof *tokens);
        if (t->status >= 0)
            t->status = t->lib->rz_tokenize_into(model, text, len, flags, tokens, capacity, n, NULL, &t->error);
    } while (task_repeats(t, &capacity, *n));
    return tokens;
}

/* tokenize(model, text, {special, parse}): a Uint32Array. */
static napi_value call_tokenize(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    size_t len, n = 0;
    char *text = string_of(&t, arguments[1], "text", &len);
    uint32_t flags = bool_member(&t, arguments[2], "special") ? RZ_TOKENIZE_ADD_SPECIAL : 0;
    if (bool_member(&t, arguments[2], "parse")) flags |= RZ_TOKENIZE_PARSE_SPECIAL;
    uint32_t *tokens = tokenize(&t, model, text, len, flags, &n);
    return task_return(&t, t.status < 0 ? NULL : tokens_value(env, tokens, n));
}

/* detokenize(model, tokens, {special}): a string. */
static napi_value call_detokenize(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    size_t n, len = 0;
    uint32_t *tokens = tokens_of(&t, arguments[1], "tokens", &n);
    uint32_t flags = bool_member(&t, arguments[2], "special") ? RZ_DETOKENIZE_SPECIAL : 0;
    char *text;
    size_t capacity = n * 8 + 16;
    do {
        text = task_alloc(&t, capacity);
        if (t.status >= 0)
            t.status = t.lib->rz_detokenize_into(model, tokens, n, flags, text, capacity, &len, &t.error);
    } while (task_repeats(&t, &capacity, len));
    return task_return(&t, t.status < 0 ? NULL : string_value(env, text, len));
}

static const rz_token_sequence *sequences(task *t, napi_value sampling, const char *field, size_t *n) {
    napi_value list = member_of(t, sampling, field);
    char name[40];
    snprintf(name, sizeof name, "%.39s", t->name);
    *n = count_of(t, list, name);
    rz_token_sequence *sequences = *n ? task_alloc(t, *n * sizeof *sequences) : NULL;
    for (uint32_t i = 0; sequences && i < *n && t->status >= 0; i++)
        sequences[i].tokens = tokens_of(t, element_of(t, list, i), element_name(t, name, i), &sequences[i].n_tokens);
    return sequences;
}

static void sampler_lists(task *t, napi_value sampling, rz_sampler_params *params) {
    napi_value biases = member_of(t, sampling, "biases"), order = member_of(t, sampling, "order");
    params->n_biases = count_of(t, biases, "biases");
    rz_logit_bias *copy = params->n_biases ? task_alloc(t, params->n_biases * sizeof *copy) : NULL;
    for (uint32_t i = 0; copy && i < params->n_biases && t->status >= 0; i++) {
        napi_value pair = element_of(t, biases, i);
        copy[i].token = (uint32_t)uint_of(t, element_of(t, pair, 0), "a token of biases", UINT32_MAX);
        copy[i].bias = float_of(t, element_of(t, pair, 1), "a bias of biases");
    }
    params->biases = copy;
    params->n_order = count_of(t, order, "order");
    uint32_t *filters = params->n_order ? task_alloc(t, params->n_order * sizeof *filters) : NULL;
    for (uint32_t i = 0; i < params->n_order && t->status >= 0; i++)
        filters[i] = choice_of(t, element_of(t, order, i), element_name(t, "order", i), RZ_FILTER_NAMES);
    params->order = filters;
    params->dry_breakers = sequences(t, sampling, "dry_breakers", &params->n_dry_breakers);
    params->banned_sequences = sequences(t, sampling, "banned_sequences", &params->n_banned_sequences);
}

rz_sampler_params *sampler_params(task *t, napi_value sampling) {
    rz_sampler_params *params = is_given(t->env, sampling) ? task_alloc(t, sizeof *params) : NULL;
    if (!params) return NULL;
    set_rz_sampler_params(t, sampling, params);
    sampler_lists(t, sampling, params);
    return params;
}

/* A grammar is {jsonSchema: text} or another kind, with {whitespace: true}. */
uint32_t grammar_params(task *t, napi_value grammar, uint32_t *flags, const char **text, size_t *len) {
    if (!is_given(t->env, grammar)) return 0;
    uint32_t number = 0;
    for (const choice *one = GRAMMARS; one->name; one++) {
        napi_value value = member_of(t, grammar, one->name);
        if (!value) continue;
        if (number) task_fail(t, RZ_ERR_INVALID_ARGUMENT, "grammar is of several kinds; it must be of one");
        *text = string_of(t, value, t->name, len);
        number = one->number;
    }
    if (!number) task_fail(t, RZ_ERR_INVALID_ARGUMENT, "grammar is of no kind; it must be of one of jsonSchema, regex, lark, gbnf, json, choices, tools");
    *flags = bool_member(t, grammar, "whitespace") ? RZ_GRAMMAR_FLAG_WHITESPACE : 0;
    return number;
}

const char *const *stop_params(task *t, napi_value options, size_t *n) {
    napi_value list = member_of(t, options, "stops");
    *n = count_of(t, list, "stops");
    const char **stops = task_alloc(t, *n * sizeof *stops);
    for (uint32_t i = 0; i < *n && t->status >= 0; i++) stops[i] = terminated_of(t, element_of(t, list, i), element_name(t, "stops", i));
    return stops;
}

rz_adapter *const *adapter_params(task *t, napi_value options, const float **scales, size_t *n) {
    napi_value list = member_of(t, options, "adapters");
    uint32_t count = count_of(t, list, "adapters");
    rz_adapter **adapters = task_alloc(t, count * sizeof *adapters);
    for (uint32_t i = 0; i < count && t->status >= 0; i++)
        adapters[i] = task_use(t, element_of(t, list, i), ADAPTER);
    *scales = floats_of(t, member_of(t, options, "scales"), "the scale of adapters", count);
    *n = count;
    return adapters;
}

/* session(model, options): an empty one. */
static napi_value call_session(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    rz_cache_params params = cache_params(&t, arguments[1]);
    t.made_bytes = (int64_t)uint_member(&t, arguments[1], "bytes", 1ull << 53);
    const float *scales;
    size_t n;
    rz_adapter *const *adapters = adapter_params(&t, arguments[1], &scales, &n);
    rz_cache *cache = NULL;
    if (t.status >= 0) t.status = t.lib->rz_cache_new(model, &params, &cache, &t.error);
    t.made = cache;
    t.made_kind = SESSION;
    if (t.status >= 0 && n) t.status = t.lib->rz_cache_adapters_set(cache, adapters, scales, n, &t.error);
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

/* tokens(session): a Uint32Array of those it holds. */
static napi_value call_tokens(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_cache *cache = task_use(&t, arguments[0], SESSION);
    size_t n = cache ? t.lib->rz_cache_len(cache) : 0;
    uint32_t *tokens = task_alloc(&t, n * sizeof *tokens);
    if (t.status >= 0) t.status = t.lib->rz_cache_tokens_into(cache, tokens, n, &n, &t.error);
    return task_return(&t, t.status < 0 ? NULL : tokens_value(env, tokens, n));
}

/* match(session, tokens): how many of the first need not be computed again. */
static napi_value call_match(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_cache *cache = task_use(&t, arguments[0], SESSION);
    size_t n;
    uint32_t common = 0, *tokens = tokens_of(&t, arguments[1], "tokens", &n);
    if (t.status >= 0) t.status = t.lib->rz_cache_match(cache, tokens, n, &common, &t.error);
    return task_return(&t, number_value(env, common));
}

static napi_value call_truncate(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_cache *cache = task_use(&t, arguments[0], SESSION);
    uint32_t len = (uint32_t)uint_of(&t, arguments[1], "length", UINT32_MAX);
    if (t.status >= 0) t.status = t.lib->rz_cache_truncate(cache, len, &t.error);
    return task_return(&t, NULL);
}

/* fork(session or conversation). */
static napi_value call_fork(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const void *pointer = task_use(&t, arguments[0], NONE);
    rz_conversation *conversation = NULL;
    rz_cache *cache = NULL;
    if (pointer) {
        t.made_kind = t.uses[0].handle->kind;
        t.made_bytes = t.uses[0].handle->external;
        if (t.made_kind == CONVERSATION) t.status = t.lib->rz_conversation_fork(pointer, &conversation, &t.error);
        else if (t.made_kind == SESSION) t.status = t.lib->rz_cache_fork(pointer, &cache, &t.error);
        else task_fail(&t, RZ_ERR_INVALID_ARGUMENT, "an object is forked; it must be a session or a conversation");
        t.made = conversation ? (void *)conversation : (void *)cache;
    }
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

/* Bytes that are written. */
typedef struct saved {
    const void *pointer;
    kind kind;
    char *data;
    size_t len, capacity;
} saved;

static int32_t on_write(const void *data, size_t n, void *user) {
    saved *s = user;
    if (n > s->capacity - s->len) {
        size_t capacity = (s->len + n) * 2;
        char *grown = realloc(s->data, capacity);
        if (!grown) return ENOMEM;
        s->data = grown;
        s->capacity = capacity;
    }
    memcpy(s->data + s->len, data, n);
    s->len += n;
    return 0;
}

static void run_save(task *t) {
    saved *s = t->data;
    switch (s->kind) {
    case CONVERSATION: t->status = t->lib->rz_conversation_save(s->pointer, on_write, s, NULL, &t->error); break;
    case MEDIA: t->status = t->lib->rz_media_save(s->pointer, on_write, s, NULL, &t->error); break;
    default: t->status = t->lib->rz_cache_save(s->pointer, on_write, s, NULL, &t->error);
    }
    if (t->status < 0) {
        free(s->data);
        s->data = NULL;
    }
}

static void free_bytes(napi_env env, void *data, void *hint) {
    (void)env, (void)hint;
    free(data);
}

static napi_value finish_save(task *t) {
    saved *s = t->data;
    napi_value buffer, array = NULL;
    napi_status status = napi_create_external_arraybuffer(t->env, s->data, s->len, free_bytes, NULL, &buffer);
    if (status == napi_ok) {
        napi_create_typedarray(t->env, napi_uint8_array, s->len, buffer, 0, &array);
    } else if (status != napi_generic_failure) {
        /* Some hosts, such as Electron, have no memory of others in theirs. With a generic failure Node throws, as an
         * array cannot be so long, and calls free_bytes. */
        napi_create_buffer_copy(t->env, s->len, s->data, NULL, &array);
        free(s->data);
    }
    return array;
}

/* save(session, conversation or medium): a promise of a Uint8Array. */
static napi_value call_save(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    saved *s = t.data = task_alloc(&t, sizeof *s);
    if (s && (s->pointer = task_use(&t, arguments[0], NONE))) s->kind = t.uses[0].handle->kind;
    if (s && s->kind != CONVERSATION && s->kind != SESSION && s->kind != MEDIA)
        task_fail(&t, RZ_ERR_INVALID_ARGUMENT, "an object is saved; it must be a session, a conversation or a medium");
    return task_start(&t, run_save, finish_save);
}

/* Arguments of a job. */
typedef struct generation {
    rz_cache *cache;
    const rz_model *model;
    rz_job_params params;
    rz_sampler_params *sampling;
    uint32_t grammar_kind, grammar_flags;
    const char *grammar;
    size_t grammar_len;
} generation;

static void run_job(task *t) {
    generation *g = t->data;
    rz_grammar *grammar = NULL;
    rz_sampler *sampler = NULL;
    rz_job *job = NULL;
    if (g->grammar_kind)
        t->status = t->lib->rz_grammar_new(g->model, g->grammar_kind, g->grammar_flags, g->grammar, g->grammar_len, NULL,
                                           &grammar, &t->error);
    if (t->status >= 0 && g->sampling) t->status = t->lib->rz_sampler_new(g->sampling, &sampler, &t->error);
    g->params.grammar = grammar;
    g->params.sampler = sampler;
    if (t->status >= 0) t->status = t->lib->rz_job_new(g->cache, &g->params, &job, &t->error);
    t->lib->rz_sampler_free(sampler);
    t->lib->rz_grammar_free(grammar);
    t->made = job;
    t->made_kind = JOB;
}

/* job(session, model, tokens, options, cancel): a promise of a job. In place of tokens, which are undefined then,
 * options have a prompt, and the number of its first token. */
static napi_value call_job(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    generation *g = t.data = task_alloc(&t, sizeof *g);
    if (!g) return task_return(&t, NULL);
    napi_value options = arguments[3];
    rz_job_params *params = &g->params;
    g->cache = task_use(&t, arguments[0], SESSION);
    g->model = task_use(&t, arguments[1], MODEL);
    set_rz_job_params(&t, options, params);
    params->prompt = task_use_optional(&t, member_of(&t, options, "prompt"), PROMPT);
    params->prompt_first = uint_member(&t, options, "prompt_first", UINT32_MAX);
    if (!params->prompt) params->tokens = tokens_of(&t, arguments[2], "tokens", &params->n_tokens);
    params->cancel = task_use(&t, arguments[4], CANCEL);
    params->draft = choice_member(&t, options, "draft", DRAFTS);
    params->draft_model = task_use_optional(&t, member_of(&t, options, "draft_model"), MODEL);
    g->sampling = sampler_params(&t, member_of(&t, options, "sampling"));
    g->grammar_kind =
        grammar_params(&t, member_of(&t, options, "grammar"), &g->grammar_flags, &g->grammar, &g->grammar_len);
    params->stops = stop_params(&t, options, &params->n_stops);
    return task_start(&t, run_job, task_made);
}

/* A step of a job, and the text that came of it. */
typedef struct job_step {
    rz_job *job;
    uint64_t budget_us;
    rz_status stepped;
    rz_error error;
    char *text;
    size_t len;
} job_step;

static void run_job_step(task *t) {
    job_step *s = t->data;
    /* A budget would be filled with tokens, which are to come one by one. */
    rz_job_info info = {.struct_size = sizeof info};
    t->status = t->lib->rz_job_info_get(s->job, &info, &t->error);
    if (t->status < 0) return;
    uint64_t budget_us = info.state == RZ_STATE_TOKENS ? RZ_NO_LIMIT : s->budget_us;
    s->stepped = t->lib->rz_job_step(s->job, budget_us, &s->error);
    size_t capacity = 256;
    do {
        s->text = task_alloc(t, capacity);
        if (s->text) t->status = t->lib->rz_job_text_into(s->job, s->text, capacity, &s->len, &t->error);
    } while (task_repeats(t, &capacity, s->len));
    /* Text that came ahead of a failure is given first: the next step fails again. */
    if (s->stepped < 0 && (t->status < 0 || !s->len)) {
        t->status = s->stepped;
        t->error = s->error;
    }
}

static napi_value finish_job_step(task *t) {
    job_step *s = t->data;
    napi_value object, more;
    if (napi_create_object(t->env, &object) != napi_ok) return NULL;
    napi_get_boolean(t->env, s->stepped != RZ_DONE, &more);
    set_member(t->env, object, "more", more);
    set_member(t->env, object, "text", string_value(t->env, s->text, s->len));
    return object;
}

/* jobStep(job, microseconds): a promise of {more, text}, after so long a time of the prompt, or a token. */
static napi_value call_job_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    job_step *s = t.data = task_alloc(&t, sizeof *s);
    if (s && (s->job = task_use(&t, arguments[0], JOB)))
        s->budget_us = uint_of(&t, arguments[1], "the budget", 1ull << 53);
    return task_start(&t, run_job_step, finish_job_step);
}

void export_texts(napi_env env, napi_value exports) {
    export_function(env, exports, "tokenize", call_tokenize);
    export_function(env, exports, "detokenize", call_detokenize);
    export_function(env, exports, "session", call_session);
    export_function(env, exports, "tokens", call_tokens);
    export_function(env, exports, "match", call_match);
    export_function(env, exports, "truncate", call_truncate);
    export_function(env, exports, "fork", call_fork);
    export_function(env, exports, "save", call_save);
    export_function(env, exports, "job", call_job);
    export_function(env, exports, "jobStep", call_job_step);
}
