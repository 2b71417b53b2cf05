/* The functions that JavaScript calls. The build writes this file: make header. */

#include "internal.h"

static napi_value value_rz_device_info(napi_env env, const void *at) {
    const rz_device_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "index", number_value(env, from->index));
    set_member(env, object, "id", string_value(env, from->id, NAPI_AUTO_LENGTH));
    set_member(env, object, "name", string_value(env, from->name, NAPI_AUTO_LENGTH));
    set_member(env, object, "kind", string_value(env, choice_name(RZ_DEVICE_NAMES, (uint32_t)from->kind),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "available", bool_value(env, from->available));
    set_member(env, object, "isa", string_value(env, from->isa, NAPI_AUTO_LENGTH));
    set_member(env, object, "memoryTotal", number_value(env, from->memory_total));
    set_member(env, object, "memoryFree", number_value(env, from->memory_free));
    set_member(env, object, "unavailable", string_value(env, from->unavailable, NAPI_AUTO_LENGTH));
    return object;
}

static napi_value value_rz_model_sampling(napi_env env, const void *at) {
    const rz_model_sampling *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "advised", names_value(env, RZ_SAMPLING_NAMES, from->advised));
    set_member(env, object, "temperature", number_value(env, from->temperature));
    set_member(env, object, "topK", number_value(env, from->top_k));
    set_member(env, object, "topP", number_value(env, from->top_p));
    set_member(env, object, "minP", number_value(env, from->min_p));
    set_member(env, object, "repeatPenalty", number_value(env, from->repeat_penalty));
    set_member(env, object, "penaltyWindow", number_value(env, from->penalty_window));
    return object;
}

static napi_value value_rz_model_info(napi_env env, const void *at) {
    const rz_model_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "architecture", string_value(env, from->architecture, NAPI_AUTO_LENGTH));
    set_member(env, object, "name", string_value(env, from->name, NAPI_AUTO_LENGTH));
    set_member(env, object, "nLayers", number_value(env, from->n_layers));
    set_member(env, object, "hiddenDim", number_value(env, from->hidden_dim));
    set_member(env, object, "ffnDim", number_value(env, from->ffn_dim));
    set_member(env, object, "nHeads", number_value(env, from->n_heads));
    set_member(env, object, "nKvHeads", number_value(env, from->n_kv_heads));
    set_member(env, object, "headDim", number_value(env, from->head_dim));
    set_member(env, object, "vocabSize", number_value(env, from->vocab_size));
    set_member(env, object, "contextLength", number_value(env, from->context_length));
    set_member(env, object, "device", number_value(env, from->device));
    if (from->bos_token != RZ_TOKEN_NONE) set_member(env, object, "bosToken", number_value(env, from->bos_token));
    if (from->eos_token != RZ_TOKEN_NONE) set_member(env, object, "eosToken", number_value(env, from->eos_token));
    set_member(env, object, "nParams", number_value(env, from->n_params));
    set_member(env, object, "weightBytes", number_value(env, from->weight_bytes));
    set_member(env, object, "gpuLayers", number_value(env, from->gpu_layers));
    set_member(env, object, "chatTemplate", bool_value(env, from->chat_template & RZ_TEMPLATE_PRESENT));
    set_member(env, object, "templateWritesBos", bool_value(env, from->chat_template & RZ_TEMPLATE_WRITES_BOS));
    set_member(env, object, "nUnknown", number_value(env, from->n_unknown));
    set_member(env, object, "expertsHostFirst", number_value(env, from->experts_host_first));
    set_member(env, object, "expertsHost", number_value(env, from->experts_host));
    set_member(env, object, "expertsDevice", number_value(env, from->experts_device));
    set_member(env, object, "expertsHostLayers", number_value(env, from->experts_host_layers));
    set_member(env, object, "readsSource", bool_value(env, from->reads_source));
    set_member(env, object, "isa", string_value(env, from->isa, NAPI_AUTO_LENGTH));
    if (from->experts_copied_from != RZ_NONE) set_member(env, object, "expertsCopiedFrom", number_value(env,
        from->experts_copied_from));
    set_member(env, object, "capabilities", names_value(env, RZ_CAN_NAMES, from->capabilities));
    set_member(env, object, "embeddingDim", number_value(env, from->embedding_dim));
    if (from->pooling != RZ_POOLING_MODEL) set_member(env, object, "pooling", string_value(env,
        choice_name(RZ_POOLING_NAMES, (uint32_t)from->pooling), NAPI_AUTO_LENGTH));
    set_member(env, object, "nScores", number_value(env, from->n_scores));
    set_member(env, object, "nDevices", number_value(env, from->n_devices));
    return object;
}

static napi_value value_rz_model_device(napi_env env, const void *at) {
    const rz_model_device *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "device", number_value(env, from->device));
    set_member(env, object, "nLayers", number_value(env, from->n_layers));
    return object;
}

static napi_value value_rz_model_plan(napi_env env, const void *at) {
    const rz_model_plan *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "gpuLayers", number_value(env, from->gpu_layers));
    set_member(env, object, "weightsHost", number_value(env, from->weights_host));
    set_member(env, object, "weightsDevice", number_value(env, from->weights_device));
    set_member(env, object, "cacheHost", number_value(env, from->cache_host));
    set_member(env, object, "cacheDevice", number_value(env, from->cache_device));
    set_member(env, object, "cacheToken", number_value(env, from->cache_token));
    set_member(env, object, "scratchHost", number_value(env, from->scratch_host));
    set_member(env, object, "scratchDevice", number_value(env, from->scratch_device));
    set_member(env, object, "loadPeakHost", number_value(env, from->load_peak_host));
    set_member(env, object, "totalHost", number_value(env, from->total_host));
    set_member(env, object, "totalDevice", number_value(env, from->total_device));
    set_member(env, object, "expertsHostFirst", number_value(env, from->experts_host_first));
    set_member(env, object, "expertsHostLayers", number_value(env, from->experts_host_layers));
    set_member(env, object, "expertsHost", number_value(env, from->experts_host));
    set_member(env, object, "expertsDevice", number_value(env, from->experts_device));
    return object;
}

static napi_value value_rz_model_plan_device(napi_env env, const void *at) {
    const rz_model_plan_device *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "device", number_value(env, from->device));
    set_member(env, object, "nLayers", number_value(env, from->n_layers));
    set_member(env, object, "weights", number_value(env, from->weights));
    set_member(env, object, "cache", number_value(env, from->cache));
    set_member(env, object, "scratch", number_value(env, from->scratch));
    set_member(env, object, "total", number_value(env, from->total));
    return object;
}

static napi_value value_rz_media_info(napi_env env, const void *at) {
    const rz_media_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "kind", string_value(env, choice_name(RZ_MEDIA_NAMES, (uint32_t)from->kind),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "nRows", number_value(env, from->n_rows));
    set_member(env, object, "nTokens", number_value(env, from->n_tokens));
    set_member(env, object, "rowDim", number_value(env, from->row_dim));
    set_member(env, object, "columns", number_value(env, from->columns));
    set_member(env, object, "lines", number_value(env, from->lines));
    set_member(env, object, "tileColumns", number_value(env, from->tile_columns));
    set_member(env, object, "tileLines", number_value(env, from->tile_lines));
    set_member(env, object, "hasOverview", bool_value(env, from->has_overview));
    set_member(env, object, "width", number_value(env, from->width));
    set_member(env, object, "height", number_value(env, from->height));
    set_member(env, object, "seenWidth", number_value(env, from->seen_width));
    set_member(env, object, "seenHeight", number_value(env, from->seen_height));
    set_member(env, object, "bytes", number_value(env, from->bytes));
    set_member(env, object, "encodeNs", number_value(env, from->encode_ns));
    set_member(env, object, "hash", bytes_value(env, from->hash, sizeof from->hash));
    set_member(env, object, "pairs", number_value(env, from->pairs));
    return object;
}

static napi_value value_rz_encoder_info(napi_env env, const void *at) {
    const rz_encoder_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "isMutual", bool_value(env, from->is_mutual));
    set_member(env, object, "projector", string_value(env, from->projector, NAPI_AUTO_LENGTH));
    set_member(env, object, "rowDim", number_value(env, from->row_dim));
    set_member(env, object, "nLayers", number_value(env, from->n_layers));
    set_member(env, object, "tileSide", number_value(env, from->tile_side));
    set_member(env, object, "grain", number_value(env, from->grain));
    set_member(env, object, "minRows", number_value(env, from->min_rows));
    set_member(env, object, "maxRows", number_value(env, from->max_rows));
    set_member(env, object, "weightBytes", number_value(env, from->weight_bytes));
    set_member(env, object, "scratchBytes", number_value(env, from->scratch_bytes));
    set_member(env, object, "kinds", names_value(env, RZ_MEDIA_NAMES, from->kinds));
    set_member(env, object, "sampleRate", number_value(env, from->sample_rate));
    set_member(env, object, "device", number_value(env, from->device));
    return object;
}

static napi_value value_rz_encoder_plan(napi_env env, const void *at) {
    const rz_encoder_plan *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "maxRows", number_value(env, from->max_rows));
    set_member(env, object, "weightsHost", number_value(env, from->weights_host));
    set_member(env, object, "scratchHost", number_value(env, from->scratch_host));
    set_member(env, object, "row", number_value(env, from->row));
    set_member(env, object, "weightsDevice", number_value(env, from->weights_device));
    set_member(env, object, "scratchDevice", number_value(env, from->scratch_device));
    set_member(env, object, "device", number_value(env, from->device));
    return object;
}

static napi_value value_rz_job_info(napi_env env, const void *at) {
    const rz_job_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "state", string_value(env, choice_name(RZ_STATE_NAMES, (uint32_t)from->state),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "end", string_value(env, choice_name(RZ_END_NAMES, (uint32_t)from->end_reason),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "stopped", string_value(env, choice_name(RZ_ERR_NAMES, (uint32_t)from->stopped),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "promptTotal", number_value(env, from->prompt_total));
    set_member(env, object, "promptDone", number_value(env, from->prompt_done));
    set_member(env, object, "nTokens", number_value(env, from->n_tokens));
    set_member(env, object, "cacheLen", number_value(env, from->cache_len));
    set_member(env, object, "promptNs", number_value(env, from->prompt_ns));
    set_member(env, object, "tokensNs", number_value(env, from->tokens_ns));
    set_member(env, object, "firstTokenNs", number_value(env, from->first_token_ns));
    set_member(env, object, "drafted", number_value(env, from->drafted));
    set_member(env, object, "accepted", number_value(env, from->accepted));
    return object;
}

static napi_value value_rz_store_info(napi_env env, const void *at) {
    const rz_store_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "nEntries", number_value(env, from->n_entries));
    set_member(env, object, "nFiles", number_value(env, from->n_files));
    set_member(env, object, "nUnwritten", number_value(env, from->n_unwritten));
    set_member(env, object, "memoryBytes", number_value(env, from->memory_bytes));
    set_member(env, object, "diskBytes", number_value(env, from->disk_bytes));
    set_member(env, object, "hits", number_value(env, from->hits));
    set_member(env, object, "misses", number_value(env, from->misses));
    set_member(env, object, "reusedTokens", number_value(env, from->reused_tokens));
    set_member(env, object, "memoryLimit", number_value(env, from->memory_limit));
    set_member(env, object, "diskLimit", number_value(env, from->disk_limit));
    return object;
}

static napi_value value_rz_conversation_info(napi_env env, const void *at) {
    const rz_conversation_info *from = at;
    napi_value object = object_value(env);
    set_member(env, object, "nMessages", number_value(env, from->n_messages));
    set_member(env, object, "firstInPrompt", number_value(env, from->first_in_prompt));
    set_member(env, object, "state", string_value(env, choice_name(RZ_STATE_NAMES, (uint32_t)from->state),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "end", string_value(env, choice_name(RZ_END_NAMES, (uint32_t)from->end_reason),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "stopped", string_value(env, choice_name(RZ_ERR_NAMES, (uint32_t)from->stopped),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "promptTokens", number_value(env, from->prompt_tokens));
    set_member(env, object, "reusedTokens", number_value(env, from->reused_tokens));
    set_member(env, object, "promptDone", number_value(env, from->prompt_done));
    set_member(env, object, "nTokens", number_value(env, from->n_tokens));
    set_member(env, object, "reasoningTokens", number_value(env, from->reasoning_tokens));
    set_member(env, object, "drafted", number_value(env, from->drafted));
    set_member(env, object, "accepted", number_value(env, from->accepted));
    set_member(env, object, "cacheLen", number_value(env, from->cache_len));
    set_member(env, object, "cacheCapacity", number_value(env, from->cache_capacity));
    set_member(env, object, "nMedia", number_value(env, from->n_media));
    set_member(env, object, "promptNs", number_value(env, from->prompt_ns));
    set_member(env, object, "tokensNs", number_value(env, from->tokens_ns));
    set_member(env, object, "firstTokenNs", number_value(env, from->first_token_ns));
    return object;
}

/* cacheAdaptersSet(cache, adapters, scales). */
typedef struct cache_adapters_set {
    rz_cache *cache;
    rz_adapter *const *adapters;
    size_t n;
    const float *scales;
} cache_adapters_set;

static void run_cache_adapters_set(task *t) {
    cache_adapters_set *c = t->data;
    t->status = t->lib->rz_cache_adapters_set(c->cache, c->adapters, c->scales, c->n, &t->error);
}

static napi_value finish_cache_adapters_set(task *t) {
    return undefined_value(t->env);
}

static napi_value call_cache_adapters_set(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_adapters_set *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    c->adapters = handles_of(t, arguments[1], "adapters", ADAPTER, &c->n);
    size_t n_scales = 0;
    c->scales = floats_of(t, arguments[2], "scales", &n_scales);
    check_count(t, c->scales, "scales", n_scales, c->n, "adapters");
    return task_now(t, run_cache_adapters_set, finish_cache_adapters_set);
}

/* cacheCapacity(cache). */
typedef struct cache_capacity {
    const rz_cache *cache;
    uint32_t result;
} cache_capacity;

static void run_cache_capacity(task *t) {
    cache_capacity *c = t->data;
    c->result = t->lib->rz_cache_capacity(c->cache);
}

static napi_value finish_cache_capacity(task *t) {
    cache_capacity *c = t->data;
    napi_env env = t->env;
    return number_value(env, c->result);
}

static napi_value call_cache_capacity(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_capacity *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    return task_now(t, run_cache_capacity, finish_cache_capacity);
}

/* cacheFork(cache). */
typedef struct cache_fork {
    const rz_cache *cache;
    rz_cache *out;
} cache_fork;

static void run_cache_fork(task *t) {
    cache_fork *c = t->data;
    t->status = t->lib->rz_cache_fork(c->cache, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CACHE;
}

static napi_value finish_cache_fork(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_cache_fork(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_fork *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    return task_now(t, run_cache_fork, finish_cache_fork);
}

/* cacheLen(cache). */
typedef struct cache_len {
    const rz_cache *cache;
    uint32_t result;
} cache_len;

static void run_cache_len(task *t) {
    cache_len *c = t->data;
    c->result = t->lib->rz_cache_len(c->cache);
}

static napi_value finish_cache_len(task *t) {
    cache_len *c = t->data;
    napi_env env = t->env;
    return number_value(env, c->result);
}

static napi_value call_cache_len(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_len *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    return task_now(t, run_cache_len, finish_cache_len);
}

/* cacheMatch(cache, tokens). */
typedef struct cache_match {
    const rz_cache *cache;
    const uint32_t *tokens;
    size_t n;
    uint32_t common;
} cache_match;

static void run_cache_match(task *t) {
    cache_match *c = t->data;
    t->status = t->lib->rz_cache_match(c->cache, c->tokens, c->n, &c->common, &t->error);
}

static napi_value finish_cache_match(task *t) {
    cache_match *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return number_value(env, c->common);
}

static napi_value call_cache_match(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_match *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    c->tokens = tokens_of(t, arguments[1], "tokens", &c->n);
    return task_now(t, run_cache_match, finish_cache_match);
}

/* cacheMatchPrompt(cache, prompt). */
typedef struct cache_match_prompt {
    const rz_cache *cache;
    const rz_prompt *prompt;
    uint32_t common;
} cache_match_prompt;

static void run_cache_match_prompt(task *t) {
    cache_match_prompt *c = t->data;
    t->status = t->lib->rz_cache_match_prompt(c->cache, c->prompt, &c->common, &t->error);
}

static napi_value finish_cache_match_prompt(task *t) {
    cache_match_prompt *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return number_value(env, c->common);
}

static napi_value call_cache_match_prompt(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_match_prompt *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    c->prompt = task_use(t, arguments[1], PROMPT);
    return task_now(t, run_cache_match_prompt, finish_cache_match_prompt);
}

/* cacheNew(model, params). */
typedef struct cache_new {
    const rz_model *model;
    rz_cache_params params;
    rz_cache *out;
} cache_new;

static void run_cache_new(task *t) {
    cache_new *c = t->data;
    t->status = t->lib->rz_cache_new(c->model, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CACHE;
}

static napi_value finish_cache_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_cache_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_cache_params(t, arguments[1], &c->params);
    return task_now(t, run_cache_new, finish_cache_new);
}

/* cacheTokens(cache). */
typedef struct cache_tokens_into {
    const rz_cache *cache;
    uint32_t *out;
    size_t capacity;
    size_t n;
} cache_tokens_into;

static void run_cache_tokens_into(task *t) {
    cache_tokens_into *c = t->data;
    c->capacity = 256;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_cache_tokens_into(c->cache, c->out, c->capacity, &c->n, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_cache_tokens_into(task *t) {
    cache_tokens_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return tokens_value(env, c->out, c->n);
}

static napi_value call_cache_tokens_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_tokens_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    return task_now(t, run_cache_tokens_into, finish_cache_tokens_into);
}

/* cacheTruncate(cache, length). */
typedef struct cache_truncate {
    rz_cache *cache;
    uint32_t len;
} cache_truncate;

static void run_cache_truncate(task *t) {
    cache_truncate *c = t->data;
    t->status = t->lib->rz_cache_truncate(c->cache, c->len, &t->error);
}

static napi_value finish_cache_truncate(task *t) {
    return undefined_value(t->env);
}

static napi_value call_cache_truncate(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_truncate *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    c->len = (uint32_t)uint_of(t, arguments[1], "length", UINT32_MAX);
    return task_now(t, run_cache_truncate, finish_cache_truncate);
}

/* cancelFire(cancel). */
typedef struct cancel_fire {
    rz_cancel *cancel;
} cancel_fire;

static void run_cancel_fire(task *t) {
    cancel_fire *c = t->data;
    t->lib->rz_cancel_fire(c->cancel);
}

static napi_value finish_cancel_fire(task *t) {
    return undefined_value(t->env);
}

static napi_value call_cancel_fire(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cancel_fire *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cancel = task_use_optional(t, arguments[0], CANCEL);
    return task_now(t, run_cancel_fire, finish_cancel_fire);
}

/* cancelNew(). */
typedef struct cancel_new {
    rz_cancel *out;
} cancel_new;

static void run_cancel_new(task *t) {
    cancel_new *c = t->data;
    t->status = t->lib->rz_cancel_new(&c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CANCEL;
}

static napi_value finish_cancel_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_cancel_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cancel_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    return task_now(t, run_cancel_new, finish_cancel_new);
}

/* conversationAdaptersSet(conversation, adapters, scales). */
typedef struct conversation_adapters_set {
    rz_conversation *conversation;
    rz_adapter *const *adapters;
    size_t n_adapters;
    const float *scales;
} conversation_adapters_set;

static void run_conversation_adapters_set(task *t) {
    conversation_adapters_set *c = t->data;
    t->status = t->lib->rz_conversation_adapters_set(c->conversation, c->adapters, c->scales, c->n_adapters, &t->error);
}

static napi_value finish_conversation_adapters_set(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_adapters_set(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_adapters_set *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->adapters = handles_of(t, arguments[1], "adapters", ADAPTER, &c->n_adapters);
    size_t n_scales = 0;
    c->scales = floats_of(t, arguments[2], "scales", &n_scales);
    check_count(t, c->scales, "scales", n_scales, c->n_adapters, "adapters");
    return task_now(t, run_conversation_adapters_set, finish_conversation_adapters_set);
}

/* conversationAdd(conversation, messages, media). */
typedef struct conversation_add {
    rz_conversation *conversation;
    const char *json;
    size_t len;
    rz_media *const *media;
    size_t n_media;
} conversation_add;

static void run_conversation_add(task *t) {
    conversation_add *c = t->data;
    t->status = t->lib->rz_conversation_add(c->conversation, c->json, c->len, c->media, c->n_media, &t->error);
}

static napi_value finish_conversation_add(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_add(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_add *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->json = string_of(t, arguments[1], "messages", &c->len);
    c->media = handles_of(t, arguments[2], "media", MEDIA, &c->n_media);
    return task_now(t, run_conversation_add, finish_conversation_add);
}

/* conversationAddText(conversation, role, text). */
typedef struct conversation_add_text {
    rz_conversation *conversation;
    const char *role;
    const char *text;
    size_t len;
} conversation_add_text;

static void run_conversation_add_text(task *t) {
    conversation_add_text *c = t->data;
    t->status = t->lib->rz_conversation_add_text(c->conversation, c->role, c->text, c->len, &t->error);
}

static napi_value finish_conversation_add_text(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_add_text(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_add_text *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->role = terminated_of(t, arguments[1], "role");
    c->text = string_of(t, arguments[2], "text", &c->len);
    return task_now(t, run_conversation_add_text, finish_conversation_add_text);
}

/* conversationCapacitySet(conversation, tokens). */
typedef struct conversation_capacity_set {
    rz_conversation *conversation;
    uint32_t capacity;
} conversation_capacity_set;

static void run_conversation_capacity_set(task *t) {
    conversation_capacity_set *c = t->data;
    t->status = t->lib->rz_conversation_capacity_set(c->conversation, c->capacity, &t->error);
}

static napi_value finish_conversation_capacity_set(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_capacity_set(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_capacity_set *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->capacity = (uint32_t)uint_of(t, arguments[1], "tokens", UINT32_MAX);
    return task_now(t, run_conversation_capacity_set, finish_conversation_capacity_set);
}

/* conversationFork(conversation). */
typedef struct conversation_fork {
    const rz_conversation *conversation;
    rz_conversation *out;
} conversation_fork;

static void run_conversation_fork(task *t) {
    conversation_fork *c = t->data;
    t->status = t->lib->rz_conversation_fork(c->conversation, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CONVERSATION;
}

static napi_value finish_conversation_fork(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_conversation_fork(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_fork *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    return task_now(t, run_conversation_fork, finish_conversation_fork);
}

/* conversationInfo(conversation). */
typedef struct conversation_info_get {
    const rz_conversation *conversation;
    rz_conversation_info out;
} conversation_info_get;

static void run_conversation_info_get(task *t) {
    conversation_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_conversation_info_get(c->conversation, &c->out, &t->error);
}

static napi_value finish_conversation_info_get(task *t) {
    conversation_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_conversation_info(env, &c->out);
}

static napi_value call_conversation_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    return task_now(t, run_conversation_info_get, finish_conversation_info_get);
}

/* conversationJson(conversation, first). */
typedef struct conversation_json_into {
    const rz_conversation *conversation;
    uint32_t first;
    char *out;
    size_t capacity;
    size_t len;
} conversation_json_into;

static void run_conversation_json_into(task *t) {
    conversation_json_into *c = t->data;
    c->capacity = 4096;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_conversation_json_into(c->conversation, c->first, c->out,
            c->capacity, &c->len, &t->error);
    } while (task_repeats(t, &c->capacity, c->len));
}

static napi_value finish_conversation_json_into(task *t) {
    conversation_json_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return string_value(env, c->out, c->len);
}

static napi_value call_conversation_json_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_json_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->first = (uint32_t)uint_of(t, arguments[1], "first", UINT32_MAX);
    return task_now(t, run_conversation_json_into, finish_conversation_json_into);
}

/* conversationLogprobs(conversation). */
typedef struct conversation_logprobs_into {
    rz_conversation *conversation;
    uint32_t *tokens;
    float *logprobs;
    size_t capacity;
    size_t n;
} conversation_logprobs_into;

static void run_conversation_logprobs_into(task *t) {
    conversation_logprobs_into *c = t->data;
    c->capacity = 256;
    do {
        c->tokens = task_alloc(t, c->capacity * sizeof *c->tokens);
        c->logprobs = task_alloc(t, c->capacity * sizeof *c->logprobs);
        if (t->status >= 0) t->status = t->lib->rz_conversation_logprobs_into(c->conversation, c->tokens,
            c->logprobs, c->capacity, &c->n, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_conversation_logprobs_into(task *t) {
    conversation_logprobs_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    napi_value object = object_value(env);
    set_member(env, object, "tokens", tokens_value(env, c->tokens, c->n));
    set_member(env, object, "logprobs", floats_value(env, c->logprobs, c->n));
    return object;
}

static napi_value call_conversation_logprobs_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_logprobs_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    return task_now(t, run_conversation_logprobs_into, finish_conversation_logprobs_into);
}

/* conversationMedia(conversation, number). */
typedef struct conversation_media {
    const rz_conversation *conversation;
    uint32_t number;
    rz_media *out;
} conversation_media;

static void run_conversation_media(task *t) {
    conversation_media *c = t->data;
    t->status = t->lib->rz_conversation_media(c->conversation, c->number, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_conversation_media(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_conversation_media(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_media *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->number = (uint32_t)uint_of(t, arguments[1], "number", UINT32_MAX);
    return task_now(t, run_conversation_media, finish_conversation_media);
}

/* conversationNew(model, params). */
typedef struct conversation_new {
    const rz_model *model;
    rz_conversation_params params;
    rz_conversation *out;
} conversation_new;

static void run_conversation_new(task *t) {
    conversation_new *c = t->data;
    t->status = t->lib->rz_conversation_new(c->model, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CONVERSATION;
}

static napi_value finish_conversation_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_conversation_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_conversation_params(t, arguments[1], &c->params);
    return task_now(t, run_conversation_new, finish_conversation_new);
}

/* conversationNext(conversation). */
typedef struct conversation_next_into {
    rz_conversation *conversation;
    uint32_t kind;
    uint32_t flags;
    uint32_t index;
    char *out;
    size_t capacity;
    size_t len;
} conversation_next_into;

static void run_conversation_next_into(task *t) {
    conversation_next_into *c = t->data;
    c->capacity = 4096;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_conversation_next_into(c->conversation, &c->kind, &c->flags,
            &c->index, c->out, c->capacity, &c->len, &t->error);
    } while (task_repeats(t, &c->capacity, c->len));
}

static napi_value finish_conversation_next_into(task *t) {
    conversation_next_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    napi_value object = object_value(env);
    set_member(env, object, "kind", string_value(env, choice_name(RZ_CHAT_EVENT_NAMES, (uint32_t)c->kind),
        NAPI_AUTO_LENGTH));
    set_member(env, object, "flags", names_value(env, RZ_CHAT_EVENT_FLAG_NAMES, c->flags));
    set_member(env, object, "index", number_value(env, c->index));
    set_member(env, object, "out", string_value(env, c->out, c->len));
    return object;
}

static napi_value call_conversation_next_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_next_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    return task_now(t, run_conversation_next_into, finish_conversation_next_into);
}

/* conversationOverflowSet(conversation, mode). */
typedef struct conversation_overflow_set {
    rz_conversation *conversation;
    uint32_t mode;
} conversation_overflow_set;

static void run_conversation_overflow_set(task *t) {
    conversation_overflow_set *c = t->data;
    t->status = t->lib->rz_conversation_overflow_set(c->conversation, c->mode, &t->error);
}

static napi_value finish_conversation_overflow_set(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_overflow_set(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_overflow_set *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->mode = choice_of(t, arguments[1], "mode", RZ_OVERFLOW_NAMES);
    return task_now(t, run_conversation_overflow_set, finish_conversation_overflow_set);
}

/* conversationRelease(conversation). */
typedef struct conversation_release {
    rz_conversation *conversation;
} conversation_release;

static void run_conversation_release(task *t) {
    conversation_release *c = t->data;
    t->status = t->lib->rz_conversation_release(c->conversation, &t->error);
}

static napi_value finish_conversation_release(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_release(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_release *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    return task_now(t, run_conversation_release, finish_conversation_release);
}

/* conversationRewind(conversation, count). */
typedef struct conversation_rewind {
    rz_conversation *conversation;
    uint32_t n_messages;
} conversation_rewind;

static void run_conversation_rewind(task *t) {
    conversation_rewind *c = t->data;
    t->status = t->lib->rz_conversation_rewind(c->conversation, c->n_messages, &t->error);
}

static napi_value finish_conversation_rewind(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_rewind(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_rewind *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->n_messages = (uint32_t)uint_of(t, arguments[1], "count", UINT32_MAX);
    return task_now(t, run_conversation_rewind, finish_conversation_rewind);
}

/* conversationStoreSet(conversation, store). */
typedef struct conversation_store_set {
    rz_conversation *conversation;
    const rz_store *store;
} conversation_store_set;

static void run_conversation_store_set(task *t) {
    conversation_store_set *c = t->data;
    t->status = t->lib->rz_conversation_store_set(c->conversation, c->store, &t->error);
}

static napi_value finish_conversation_store_set(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_store_set(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_store_set *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->store = task_use_optional(t, arguments[1], STORE);
    return task_now(t, run_conversation_store_set, finish_conversation_store_set);
}

/* detokenize(model, tokens, flags). */
typedef struct detokenize_into {
    const rz_model *model;
    const uint32_t *tokens;
    size_t n;
    uint32_t flags;
    char *out;
    size_t capacity;
    size_t len;
} detokenize_into;

static void run_detokenize_into(task *t) {
    detokenize_into *c = t->data;
    c->capacity = 4096 + 8 * c->n;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_detokenize_into(c->model, c->tokens, c->n, c->flags, c->out,
            c->capacity, &c->len, &t->error);
    } while (task_repeats(t, &c->capacity, c->len));
}

static napi_value finish_detokenize_into(task *t) {
    detokenize_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return string_value(env, c->out, c->len);
}

static napi_value call_detokenize_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    detokenize_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->tokens = tokens_of(t, arguments[1], "tokens", &c->n);
    if (bool_member(t, arguments[2], "special")) c->flags |= RZ_DETOKENIZE_SPECIAL;
    return task_now(t, run_detokenize_into, finish_detokenize_into);
}

/* deviceCount(). */
typedef struct device_count {
    uint32_t result;
} device_count;

static void run_device_count(task *t) {
    device_count *c = t->data;
    c->result = t->lib->rz_device_count();
}

static napi_value finish_device_count(task *t) {
    device_count *c = t->data;
    napi_env env = t->env;
    return number_value(env, c->result);
}

static napi_value call_device_count(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    device_count *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    return task_now(t, run_device_count, finish_device_count);
}

/* deviceInfo(index). */
typedef struct device_info_get {
    uint32_t index;
    rz_device_info out;
} device_info_get;

static void run_device_info_get(task *t) {
    device_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_device_info_get(c->index, &c->out, &t->error);
}

static napi_value finish_device_info_get(task *t) {
    device_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_device_info(env, &c->out);
}

static napi_value call_device_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    device_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->index = (uint32_t)uint_of(t, arguments[0], "index", UINT32_MAX);
    return task_now(t, run_device_info_get, finish_device_info_get);
}

/* encoderInfo(encoder). */
typedef struct encoder_info_get {
    const rz_encoder *encoder;
    rz_encoder_info out;
} encoder_info_get;

static void run_encoder_info_get(task *t) {
    encoder_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_encoder_info_get(c->encoder, &c->out, &t->error);
}

static napi_value finish_encoder_info_get(task *t) {
    encoder_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_encoder_info(env, &c->out);
}

static napi_value call_encoder_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    encoder_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    return task_now(t, run_encoder_info_get, finish_encoder_info_get);
}

/* hubChoose(model, listing, memory, flags). */
typedef struct hub_choose_into {
    const char *model;
    size_t model_len;
    const char *listing;
    size_t listing_len;
    uint64_t memory;
    uint32_t flags;
    char *out;
    size_t capacity;
    size_t len;
} hub_choose_into;

static void run_hub_choose_into(task *t) {
    hub_choose_into *c = t->data;
    c->capacity = 4096 + 8 * c->model_len;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_hub_choose_into(c->model, c->model_len, c->listing,
            c->listing_len, c->memory, c->flags, c->out, c->capacity, &c->len, &t->error);
    } while (task_repeats(t, &c->capacity, c->len));
}

static napi_value finish_hub_choose_into(task *t) {
    hub_choose_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return string_value(env, c->out, c->len);
}

static napi_value call_hub_choose_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    hub_choose_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = string_of(t, arguments[0], "model", &c->model_len);
    c->listing = is_given(env, arguments[1]) ? string_of(t, arguments[1], "listing", &c->listing_len) : NULL;
    c->memory = uint_of(t, arguments[2], "memory", MOST);
    if (bool_member(t, arguments[3], "isCached")) c->flags |= RZ_HUB_CACHED;
    return task_now(t, run_hub_choose_into, finish_hub_choose_into);
}

/* jobInfo(job). */
typedef struct job_info_get {
    const rz_job *job;
    rz_job_info out;
} job_info_get;

static void run_job_info_get(task *t) {
    job_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_job_info_get(c->job, &c->out, &t->error);
}

static napi_value finish_job_info_get(task *t) {
    job_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_job_info(env, &c->out);
}

static napi_value call_job_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    job_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->job = task_use(t, arguments[0], JOB);
    return task_now(t, run_job_info_get, finish_job_info_get);
}

/* jobText(job). */
typedef struct job_text_into {
    rz_job *job;
    char *out;
    size_t capacity;
    size_t len;
} job_text_into;

static void run_job_text_into(task *t) {
    job_text_into *c = t->data;
    c->capacity = 4096;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_job_text_into(c->job, c->out, c->capacity, &c->len, &t->error);
    } while (task_repeats(t, &c->capacity, c->len));
}

static napi_value finish_job_text_into(task *t) {
    job_text_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return string_value(env, c->out, c->len);
}

static napi_value call_job_text_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    job_text_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->job = task_use(t, arguments[0], JOB);
    return task_now(t, run_job_text_into, finish_job_text_into);
}

/* mediaFromRows(model, kind, rows, rowDim, columns, lines). */
typedef struct media_from_rows {
    const rz_model *model;
    uint32_t kind;
    const float *rows;
    size_t n_rows;
    uint32_t row_dim;
    uint32_t columns;
    uint32_t lines;
    rz_media *out;
} media_from_rows;

static void run_media_from_rows(task *t) {
    media_from_rows *c = t->data;
    t->status = t->lib->rz_media_from_rows(c->model, c->kind, c->rows, c->n_rows, c->row_dim, c->columns,
        c->lines, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_from_rows(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_from_rows(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_from_rows *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->kind = choice_of(t, arguments[1], "kind", RZ_MEDIA_NAMES);
    c->rows = floats_of(t, arguments[2], "rows", &c->n_rows);
    c->row_dim = (uint32_t)uint_of(t, arguments[3], "rowDim", UINT32_MAX);
    c->columns = (uint32_t)uint_of(t, arguments[4], "columns", UINT32_MAX);
    c->lines = (uint32_t)uint_of(t, arguments[5], "lines", UINT32_MAX);
    c->n_rows = rows_of(t, c->n_rows, c->row_dim);
    return task_now(t, run_media_from_rows, finish_media_from_rows);
}

/* mediaInfo(media). */
typedef struct media_info_get {
    const rz_media *media;
    rz_media_info out;
} media_info_get;

static void run_media_info_get(task *t) {
    media_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_media_info_get(c->media, &c->out, &t->error);
}

static napi_value finish_media_info_get(task *t) {
    media_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_media_info(env, &c->out);
}

static napi_value call_media_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->media = task_use(t, arguments[0], MEDIA);
    return task_now(t, run_media_info_get, finish_media_info_get);
}

/* mediaMeasure(encoder, width, height, params). */
typedef struct media_measure {
    const rz_encoder *encoder;
    uint32_t width;
    uint32_t height;
    rz_media_params params;
    rz_media_info out;
} media_measure;

static void run_media_measure(task *t) {
    media_measure *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_media_measure(c->encoder, c->width, c->height, &c->params, &c->out, &t->error);
}

static napi_value finish_media_measure(task *t) {
    media_measure *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_media_info(env, &c->out);
}

static napi_value call_media_measure(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_measure *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    c->width = (uint32_t)uint_of(t, arguments[1], "width", UINT32_MAX);
    c->height = (uint32_t)uint_of(t, arguments[2], "height", UINT32_MAX);
    set_rz_media_params(t, arguments[3], &c->params);
    return task_now(t, run_media_measure, finish_media_measure);
}

/* mediaRows(media). */
typedef struct media_rows_into {
    const rz_media *media;
    float *out;
    size_t capacity;
    size_t n;
} media_rows_into;

static void run_media_rows_into(task *t) {
    media_rows_into *c = t->data;
    c->capacity = 256;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_media_rows_into(c->media, c->out, c->capacity, &c->n, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_media_rows_into(task *t) {
    media_rows_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return floats_value(env, c->out, c->n);
}

static napi_value call_media_rows_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_rows_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->media = task_use(t, arguments[0], MEDIA);
    return task_now(t, run_media_rows_into, finish_media_rows_into);
}

/* modelDevice(model, index). */
typedef struct model_device_get {
    const rz_model *model;
    uint32_t index;
    rz_model_device out;
} model_device_get;

static void run_model_device_get(task *t) {
    model_device_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_model_device_get(c->model, c->index, &c->out, &t->error);
}

static napi_value finish_model_device_get(task *t) {
    model_device_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_model_device(env, &c->out);
}

static napi_value call_model_device_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_device_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->index = (uint32_t)uint_of(t, arguments[1], "index", UINT32_MAX);
    return task_now(t, run_model_device_get, finish_model_device_get);
}

/* modelInfo(model). */
typedef struct model_info_get {
    const rz_model *model;
    rz_model_info out;
} model_info_get;

static void run_model_info_get(task *t) {
    model_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_model_info_get(c->model, &c->out, &t->error);
}

static napi_value finish_model_info_get(task *t) {
    model_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_model_info(env, &c->out);
}

static napi_value call_model_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    return task_now(t, run_model_info_get, finish_model_info_get);
}

/* modelMeta(model, key). */
typedef struct model_meta_into {
    const rz_model *model;
    const char *key;
    char *out;
    size_t capacity;
    size_t len;
} model_meta_into;

static void run_model_meta_into(task *t) {
    model_meta_into *c = t->data;
    c->capacity = 4096;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_model_meta_into(c->model, c->key, c->out, c->capacity,
            &c->len, &t->error);
    } while (task_repeats(t, &c->capacity, c->len));
}

static napi_value finish_model_meta_into(task *t) {
    model_meta_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return string_value(env, c->out, c->len);
}

static napi_value call_model_meta_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_meta_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->key = terminated_of(t, arguments[1], "key");
    return task_now(t, run_model_meta_into, finish_model_meta_into);
}

/* modelSampling(model). */
typedef struct model_sampling_get {
    const rz_model *model;
    rz_model_sampling out;
} model_sampling_get;

static void run_model_sampling_get(task *t) {
    model_sampling_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_model_sampling_get(c->model, &c->out, &t->error);
}

static napi_value finish_model_sampling_get(task *t) {
    model_sampling_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_model_sampling(env, &c->out);
}

static napi_value call_model_sampling_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_sampling_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    return task_now(t, run_model_sampling_get, finish_model_sampling_get);
}

/* promptFromChat(model, json, media, cancel). */
typedef struct prompt_from_chat {
    const rz_model *model;
    const char *json;
    size_t json_len;
    rz_media *const *media;
    size_t n_media;
    const rz_cancel *cancel;
    rz_prompt *out;
} prompt_from_chat;

static void run_prompt_from_chat(task *t) {
    prompt_from_chat *c = t->data;
    t->status = t->lib->rz_prompt_from_chat(c->model, c->json, c->json_len, RZ_CHAT_ADD_GENERATION_PROMPT,
        c->media, c->n_media, c->cancel, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = PROMPT;
}

static napi_value finish_prompt_from_chat(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_prompt_from_chat(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    prompt_from_chat *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->json = string_of(t, arguments[1], "json", &c->json_len);
    c->media = handles_of(t, arguments[2], "media", MEDIA, &c->n_media);
    c->cancel = task_use_optional(t, arguments[3], CANCEL);
    return task_now(t, run_prompt_from_chat, finish_prompt_from_chat);
}

/* promptLen(prompt). */
typedef struct prompt_len {
    const rz_prompt *prompt;
    size_t result;
} prompt_len;

static void run_prompt_len(task *t) {
    prompt_len *c = t->data;
    c->result = t->lib->rz_prompt_len(c->prompt);
}

static napi_value finish_prompt_len(task *t) {
    prompt_len *c = t->data;
    napi_env env = t->env;
    return number_value(env, c->result);
}

static napi_value call_prompt_len(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    prompt_len *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->prompt = task_use(t, arguments[0], PROMPT);
    return task_now(t, run_prompt_len, finish_prompt_len);
}

/* promptNew(model, parts, flags). */
typedef struct prompt_new {
    const rz_model *model;
    const rz_part *parts;
    size_t n;
    uint32_t flags;
    rz_prompt *out;
} prompt_new;

static void run_prompt_new(task *t) {
    prompt_new *c = t->data;
    t->status = t->lib->rz_prompt_new(c->model, c->parts, c->n, c->flags, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = PROMPT;
}

static napi_value finish_prompt_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_prompt_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    prompt_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->parts = structs_of(t, arguments[1], "parts", sizeof(rz_part), set_rz_part, &c->n);
    if (bool_member(t, arguments[2], "bare")) c->flags |= RZ_PROMPT_BARE;
    return task_now(t, run_prompt_new, finish_prompt_new);
}

/* promptTokens(prompt). */
typedef struct prompt_tokens_into {
    const rz_prompt *prompt;
    uint32_t *out;
    size_t capacity;
    size_t n;
} prompt_tokens_into;

static void run_prompt_tokens_into(task *t) {
    prompt_tokens_into *c = t->data;
    c->capacity = 256;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_prompt_tokens_into(c->prompt, c->out, c->capacity, &c->n, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_prompt_tokens_into(task *t) {
    prompt_tokens_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return tokens_value(env, c->out, c->n);
}

static napi_value call_prompt_tokens_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    prompt_tokens_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->prompt = task_use(t, arguments[0], PROMPT);
    return task_now(t, run_prompt_tokens_into, finish_prompt_tokens_into);
}

/* runtimeNew(params). */
typedef struct runtime_new {
    rz_runtime_params params;
    rz_runtime *out;
} runtime_new;

static void run_runtime_new(task *t) {
    runtime_new *c = t->data;
    t->status = t->lib->rz_runtime_new(&c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = RUNTIME;
}

static napi_value finish_runtime_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_runtime_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    runtime_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    set_rz_runtime_params(t, arguments[0], &c->params);
    return task_now(t, run_runtime_new, finish_runtime_new);
}

/* samplerNew(params). */
typedef struct sampler_new {
    rz_sampler_params params;
    rz_sampler *out;
} sampler_new;

static void run_sampler_new(task *t) {
    sampler_new *c = t->data;
    t->status = t->lib->rz_sampler_new(&c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = SAMPLER;
}

static napi_value finish_sampler_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_sampler_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    sampler_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    set_rz_sampler_params(t, arguments[0], &c->params);
    return task_now(t, run_sampler_new, finish_sampler_new);
}

/* storeInfo(store). */
typedef struct store_info_get {
    const rz_store *store;
    rz_store_info out;
} store_info_get;

static void run_store_info_get(task *t) {
    store_info_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_store_info_get(c->store, &c->out, &t->error);
}

static napi_value finish_store_info_get(task *t) {
    store_info_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_store_info(env, &c->out);
}

static napi_value call_store_info_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    store_info_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->store = task_use(t, arguments[0], STORE);
    return task_now(t, run_store_info_get, finish_store_info_get);
}

/* tokenize(model, text, flags). */
typedef struct tokenize_into {
    const rz_model *model;
    const char *text;
    size_t text_len;
    uint32_t flags;
    uint32_t *out;
    size_t capacity;
    size_t n;
} tokenize_into;

static void run_tokenize_into(task *t) {
    tokenize_into *c = t->data;
    c->capacity = 256 + c->text_len;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_tokenize_into(c->model, c->text, c->text_len, c->flags,
            c->out, c->capacity, &c->n, NULL, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_tokenize_into(task *t) {
    tokenize_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return tokens_value(env, c->out, c->n);
}

static napi_value call_tokenize_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    tokenize_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->text = string_of(t, arguments[1], "text", &c->text_len);
    if (bool_member(t, arguments[2], "special")) c->flags |= RZ_TOKENIZE_ADD_SPECIAL;
    if (bool_member(t, arguments[2], "parse")) c->flags |= RZ_TOKENIZE_PARSE_SPECIAL;
    return task_now(t, run_tokenize_into, finish_tokenize_into);
}

/* adapterLoad(model, file). */
typedef struct adapter_load {
    const rz_model *model;
    const char *path;
    rz_adapter *out;
} adapter_load;

static void run_adapter_load(task *t) {
    adapter_load *c = t->data;
    t->status = t->lib->rz_adapter_load(c->model, c->path, NULL, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = ADAPTER;
}

static napi_value finish_adapter_load(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_adapter_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    adapter_load *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->path = terminated_of(t, arguments[1], "file");
    return task_start(t, run_adapter_load, finish_adapter_load);
}

/* cacheLoad(model, params, bytes, cancel). */
typedef struct cache_load {
    const rz_model *model;
    rz_cache_params params;
    reader read;
    const rz_cancel *cancel;
    rz_cache *out;
} cache_load;

static void run_cache_load(task *t) {
    cache_load *c = t->data;
    t->status = t->lib->rz_cache_load(c->model, &c->params, on_read, &c->read, c->cancel, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CACHE;
}

static napi_value finish_cache_load(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_cache_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_load *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_cache_params(t, arguments[1], &c->params);
    c->read.bytes = bytes_of(t, arguments[2], "bytes", &c->read.len);
    c->cancel = task_use_optional(t, arguments[3], CANCEL);
    return task_start(t, run_cache_load, finish_cache_load);
}

/* cacheSave(cache, cancel). */
typedef struct cache_save {
    const rz_cache *cache;
    writer write;
    const rz_cancel *cancel;
} cache_save;

static void run_cache_save(task *t) {
    cache_save *c = t->data;
    t->status = t->lib->rz_cache_save(c->cache, on_write, &c->write, c->cancel, &t->error);
    if (t->status < 0) writer_free(&c->write);
}

static napi_value finish_cache_save(task *t) {
    cache_save *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return writer_value(env, &c->write);
}

static napi_value call_cache_save(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    cache_save *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    c->cancel = task_use_optional(t, arguments[1], CANCEL);
    return task_start(t, run_cache_save, finish_cache_save);
}

/* conversationLoad(model, params, bytes). */
typedef struct conversation_load {
    const rz_model *model;
    rz_conversation_params params;
    reader read;
    rz_conversation *out;
} conversation_load;

static void run_conversation_load(task *t) {
    conversation_load *c = t->data;
    t->status = t->lib->rz_conversation_load(c->model, &c->params, on_read, &c->read, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = CONVERSATION;
}

static napi_value finish_conversation_load(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_conversation_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_load *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_conversation_params(t, arguments[1], &c->params);
    c->read.bytes = bytes_of(t, arguments[2], "bytes", &c->read.len);
    return task_start(t, run_conversation_load, finish_conversation_load);
}

/* conversationRead(conversation, params). */
typedef struct conversation_read {
    rz_conversation *conversation;
    rz_reply_params params;
} conversation_read;

static void run_conversation_read(task *t) {
    conversation_read *c = t->data;
    t->status = t->lib->rz_conversation_read(c->conversation, &c->params, &t->error);
}

static napi_value finish_conversation_read(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_read(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_read *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    set_rz_reply_params(t, arguments[1], &c->params);
    return task_start(t, run_conversation_read, finish_conversation_read);
}

/* conversationReply(conversation, params). */
typedef struct conversation_reply {
    rz_conversation *conversation;
    rz_reply_params params;
} conversation_reply;

static void run_conversation_reply(task *t) {
    conversation_reply *c = t->data;
    t->status = t->lib->rz_conversation_reply(c->conversation, &c->params, &t->error);
}

static napi_value finish_conversation_reply(task *t) {
    return undefined_value(t->env);
}

static napi_value call_conversation_reply(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_reply *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    set_rz_reply_params(t, arguments[1], &c->params);
    return task_start(t, run_conversation_reply, finish_conversation_reply);
}

/* conversationSave(conversation, cancel). */
typedef struct conversation_save {
    const rz_conversation *conversation;
    writer write;
    const rz_cancel *cancel;
} conversation_save;

static void run_conversation_save(task *t) {
    conversation_save *c = t->data;
    t->status = t->lib->rz_conversation_save(c->conversation, on_write, &c->write, c->cancel, &t->error);
    if (t->status < 0) writer_free(&c->write);
}

static napi_value finish_conversation_save(task *t) {
    conversation_save *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return writer_value(env, &c->write);
}

static napi_value call_conversation_save(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_save *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->cancel = task_use_optional(t, arguments[1], CANCEL);
    return task_start(t, run_conversation_save, finish_conversation_save);
}

/* conversationStep(conversation, budgetUs). */
typedef struct conversation_step {
    rz_conversation *conversation;
    uint64_t budget_us;
} conversation_step;

static void run_conversation_step(task *t) {
    conversation_step *c = t->data;
    t->status = t->lib->rz_conversation_step(c->conversation, c->budget_us, &t->error);
}

static napi_value finish_conversation_step(task *t) {
    return number_value(t->env, t->status);
}

static napi_value call_conversation_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversation_step *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversation = task_use(t, arguments[0], CONVERSATION);
    c->budget_us = is_given(env, arguments[1]) ? uint_of(t, arguments[1], "the budget", MOST) : RZ_NO_LIMIT;
    return task_start(t, run_conversation_step, finish_conversation_step);
}

/* conversationsStep(conversations, budgetUs). */
typedef struct conversations_step {
    rz_conversation *const *conversations;
    size_t n;
    uint64_t budget_us;
} conversations_step;

static void run_conversations_step(task *t) {
    conversations_step *c = t->data;
    t->status = t->lib->rz_conversations_step(c->conversations, c->n, c->budget_us, &t->error);
}

static napi_value finish_conversations_step(task *t) {
    return number_value(t->env, t->status);
}

static napi_value call_conversations_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    conversations_step *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->conversations = handles_of(t, arguments[0], "conversations", CONVERSATION, &c->n);
    c->budget_us = is_given(env, arguments[1]) ? uint_of(t, arguments[1], "the budget", MOST) : RZ_NO_LIMIT;
    return task_start(t, run_conversations_step, finish_conversations_step);
}

/* embed(model, params, texts, cancel). */
typedef struct embed_into {
    const rz_model *model;
    rz_embed_params params;
    const uint32_t *const *tokens;
    const size_t *lengths;
    size_t n_texts;
    float *out;
    size_t capacity;
    size_t n;
    const rz_cancel *cancel;
} embed_into;

static void run_embed_into(task *t) {
    embed_into *c = t->data;
    c->capacity = 256;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_embed_into(c->model, &c->params, c->tokens, c->lengths,
            c->n_texts, c->out, c->capacity, &c->n, c->cancel, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_embed_into(task *t) {
    embed_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return floats_value(env, c->out, c->n);
}

static napi_value call_embed_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    embed_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_embed_params(t, arguments[1], &c->params);
    c->tokens = token_lists_of(t, arguments[2], "texts", &c->lengths, &c->n_texts);
    c->cancel = task_use_optional(t, arguments[3], CANCEL);
    return task_start(t, run_embed_into, finish_embed_into);
}

/* embedPrompts(model, params, prompts, cancel). */
typedef struct embed_prompts_into {
    const rz_model *model;
    rz_embed_params params;
    rz_prompt *const *prompts;
    size_t n_prompts;
    float *out;
    size_t capacity;
    size_t n;
    const rz_cancel *cancel;
} embed_prompts_into;

static void run_embed_prompts_into(task *t) {
    embed_prompts_into *c = t->data;
    c->capacity = 256 + c->n_prompts;
    do {
        c->out = task_alloc(t, c->capacity * sizeof *c->out);
        if (t->status >= 0) t->status = t->lib->rz_embed_prompts_into(c->model, &c->params, c->prompts,
            c->n_prompts, c->out, c->capacity, &c->n, c->cancel, &t->error);
    } while (task_repeats(t, &c->capacity, c->n));
}

static napi_value finish_embed_prompts_into(task *t) {
    embed_prompts_into *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return floats_value(env, c->out, c->n);
}

static napi_value call_embed_prompts_into(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    embed_prompts_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_embed_params(t, arguments[1], &c->params);
    c->prompts = handles_of(t, arguments[2], "prompts", PROMPT, &c->n_prompts);
    c->cancel = task_use_optional(t, arguments[3], CANCEL);
    return task_start(t, run_embed_prompts_into, finish_embed_prompts_into);
}

/* encoderLoad(model, file, params). */
typedef struct encoder_load {
    const rz_model *model;
    const char *path;
    rz_encoder_params params;
    rz_encoder *out;
} encoder_load;

static void run_encoder_load(task *t) {
    encoder_load *c = t->data;
    t->status = t->lib->rz_encoder_load(c->model, c->path, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = ENCODER;
}

static napi_value finish_encoder_load(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_encoder_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    encoder_load *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->path = terminated_of(t, arguments[1], "file");
    set_rz_encoder_params(t, arguments[2], &c->params);
    return task_start(t, run_encoder_load, finish_encoder_load);
}

/* encoderLoadFrom(model, file, params). */
typedef struct encoder_load_from {
    const rz_model *model;
    const rz_source *sources;
    size_t n;
    rz_encoder_params params;
    rz_encoder *out;
} encoder_load_from;

static void run_encoder_load_from(task *t) {
    encoder_load_from *c = t->data;
    t->status = t->lib->rz_encoder_load_from(c->model, c->sources, c->n, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = ENCODER;
}

static napi_value finish_encoder_load_from(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_encoder_load_from(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    encoder_load_from *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->sources = source_of(t, arguments[1], "file", &c->n);
    set_rz_encoder_params(t, arguments[2], &c->params);
    return task_start(t, run_encoder_load_from, finish_encoder_load_from);
}

/* encoderPlan(model, file, file, params). */
typedef struct encoder_plan_get {
    const rz_model *model;
    const char *path;
    const rz_source *sources;
    size_t n;
    rz_encoder_params params;
    rz_encoder_plan out;
} encoder_plan_get;

static void run_encoder_plan_get(task *t) {
    encoder_plan_get *c = t->data;
    c->out.struct_size = sizeof c->out;
    t->status = t->lib->rz_encoder_plan_get(c->model, c->path, c->sources, c->n, &c->params, &c->out, &t->error);
}

static napi_value finish_encoder_plan_get(task *t) {
    encoder_plan_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return value_rz_encoder_plan(env, &c->out);
}

static napi_value call_encoder_plan_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    encoder_plan_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->path = is_given(env, arguments[1]) ? terminated_of(t, arguments[1], "file") : NULL;
    c->sources = source_of(t, arguments[2], "file", &c->n);
    set_rz_encoder_params(t, arguments[3], &c->params);
    return task_start(t, run_encoder_plan_get, finish_encoder_plan_get);
}

/* grammarNew(model, kind, flags, text, cancel). */
typedef struct grammar_new {
    const rz_model *model;
    uint32_t kind;
    uint32_t flags;
    const char *text;
    size_t len;
    const rz_cancel *cancel;
    rz_grammar *out;
} grammar_new;

static void run_grammar_new(task *t) {
    grammar_new *c = t->data;
    t->status = t->lib->rz_grammar_new(c->model, c->kind, c->flags, c->text, c->len, c->cancel, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = GRAMMAR;
}

static napi_value finish_grammar_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_grammar_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    grammar_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->kind = choice_of(t, arguments[1], "kind", RZ_GRAMMAR_NAMES);
    if (bool_member(t, arguments[2], "whitespace")) c->flags |= RZ_GRAMMAR_FLAG_WHITESPACE;
    c->text = string_of(t, arguments[3], "text", &c->len);
    c->cancel = task_use_optional(t, arguments[4], CANCEL);
    return task_start(t, run_grammar_new, finish_grammar_new);
}

/* jobNew(cache, params). */
typedef struct job_new {
    rz_cache *cache;
    rz_job_params params;
    rz_job *out;
} job_new;

static void run_job_new(task *t) {
    job_new *c = t->data;
    t->status = t->lib->rz_job_new(c->cache, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = JOB;
}

static napi_value finish_job_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_job_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    job_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->cache = task_use(t, arguments[0], CACHE);
    set_rz_job_params(t, arguments[1], &c->params);
    return task_start(t, run_job_new, finish_job_new);
}

/* jobStep(job, budgetUs). */
typedef struct job_step {
    rz_job *job;
    uint64_t budget_us;
} job_step;

static void run_job_step(task *t) {
    job_step *c = t->data;
    t->status = t->lib->rz_job_step(c->job, c->budget_us, &t->error);
}

static napi_value finish_job_step(task *t) {
    return number_value(t->env, t->status);
}

static napi_value call_job_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    job_step *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->job = task_use(t, arguments[0], JOB);
    c->budget_us = is_given(env, arguments[1]) ? uint_of(t, arguments[1], "the budget", MOST) : RZ_NO_LIMIT;
    return task_start(t, run_job_step, finish_job_step);
}

/* mediaFromAudio(encoder, data, params). */
typedef struct media_from_audio {
    const rz_encoder *encoder;
    const void *data;
    size_t size;
    rz_media_params params;
    rz_media *out;
} media_from_audio;

static void run_media_from_audio(task *t) {
    media_from_audio *c = t->data;
    t->status = t->lib->rz_media_from_audio(c->encoder, c->data, c->size, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_from_audio(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_from_audio(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_from_audio *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    c->data = bytes_of(t, arguments[1], "data", &c->size);
    set_rz_media_params(t, arguments[2], &c->params);
    return task_start(t, run_media_from_audio, finish_media_from_audio);
}

/* mediaFromFrames(encoder, frames, times, params). */
typedef struct media_from_frames {
    const rz_encoder *encoder;
    const rz_pixels *frames;
    size_t n;
    const double *times;
    rz_media_params params;
    rz_media *out;
} media_from_frames;

static void run_media_from_frames(task *t) {
    media_from_frames *c = t->data;
    t->status = t->lib->rz_media_from_frames(c->encoder, c->frames, c->times, c->n, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_from_frames(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_from_frames(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_from_frames *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    c->frames = structs_of(t, arguments[1], "frames", sizeof(rz_pixels), set_rz_pixels, &c->n);
    size_t n_times = 0;
    c->times = doubles_of(t, arguments[2], "times", &n_times);
    check_count(t, c->times, "times", n_times, c->n, "frames");
    set_rz_media_params(t, arguments[3], &c->params);
    return task_start(t, run_media_from_frames, finish_media_from_frames);
}

/* mediaFromImage(encoder, data, params). */
typedef struct media_from_image {
    const rz_encoder *encoder;
    const void *data;
    size_t size;
    rz_media_params params;
    rz_media *out;
} media_from_image;

static void run_media_from_image(task *t) {
    media_from_image *c = t->data;
    t->status = t->lib->rz_media_from_image(c->encoder, c->data, c->size, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_from_image(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_from_image(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_from_image *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    c->data = bytes_of(t, arguments[1], "data", &c->size);
    set_rz_media_params(t, arguments[2], &c->params);
    return task_start(t, run_media_from_image, finish_media_from_image);
}

/* mediaFromPixels(encoder, pixels, params). */
typedef struct media_from_pixels {
    const rz_encoder *encoder;
    rz_pixels pixels;
    rz_media_params params;
    rz_media *out;
} media_from_pixels;

static void run_media_from_pixels(task *t) {
    media_from_pixels *c = t->data;
    t->status = t->lib->rz_media_from_pixels(c->encoder, &c->pixels, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_from_pixels(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_from_pixels(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_from_pixels *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    set_rz_pixels(t, arguments[1], &c->pixels);
    set_rz_media_params(t, arguments[2], &c->params);
    return task_start(t, run_media_from_pixels, finish_media_from_pixels);
}

/* mediaFromSamples(encoder, samples, channels, rate, params). */
typedef struct media_from_samples {
    const rz_encoder *encoder;
    const float *samples;
    size_t n;
    uint32_t channels;
    uint32_t rate;
    rz_media_params params;
    rz_media *out;
} media_from_samples;

static void run_media_from_samples(task *t) {
    media_from_samples *c = t->data;
    t->status = t->lib->rz_media_from_samples(c->encoder, c->samples, c->n, c->channels, c->rate, &c->params,
        &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_from_samples(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_from_samples(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_from_samples *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->encoder = task_use(t, arguments[0], ENCODER);
    c->samples = floats_of(t, arguments[1], "samples", &c->n);
    c->channels = (uint32_t)uint_of(t, arguments[2], "channels", UINT32_MAX);
    c->rate = (uint32_t)uint_of(t, arguments[3], "rate", UINT32_MAX);
    set_rz_media_params(t, arguments[4], &c->params);
    return task_start(t, run_media_from_samples, finish_media_from_samples);
}

/* mediaLoad(model, bytes). */
typedef struct media_load {
    const rz_model *model;
    reader read;
    rz_media *out;
} media_load;

static void run_media_load(task *t) {
    media_load *c = t->data;
    t->status = t->lib->rz_media_load(c->model, on_read, &c->read, NULL, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MEDIA;
}

static napi_value finish_media_load(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_media_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_load *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->read.bytes = bytes_of(t, arguments[1], "bytes", &c->read.len);
    return task_start(t, run_media_load, finish_media_load);
}

/* mediaSave(media, cancel). */
typedef struct media_save {
    const rz_media *media;
    writer write;
    const rz_cancel *cancel;
} media_save;

static void run_media_save(task *t) {
    media_save *c = t->data;
    t->status = t->lib->rz_media_save(c->media, on_write, &c->write, c->cancel, &t->error);
    if (t->status < 0) writer_free(&c->write);
}

static napi_value finish_media_save(task *t) {
    media_save *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    return writer_value(env, &c->write);
}

static napi_value call_media_save(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_save *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->media = task_use(t, arguments[0], MEDIA);
    c->cancel = task_use_optional(t, arguments[1], CANCEL);
    return task_start(t, run_media_save, finish_media_save);
}

/* mediaStep(media, budgetUs). */
typedef struct media_step {
    rz_media *media;
    uint64_t budget_us;
} media_step;

static void run_media_step(task *t) {
    media_step *c = t->data;
    t->status = t->lib->rz_media_step(c->media, c->budget_us, &t->error);
}

static napi_value finish_media_step(task *t) {
    return number_value(t->env, t->status);
}

static napi_value call_media_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    media_step *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->media = task_use(t, arguments[0], MEDIA);
    c->budget_us = is_given(env, arguments[1]) ? uint_of(t, arguments[1], "the budget", MOST) : RZ_NO_LIMIT;
    return task_start(t, run_media_step, finish_media_step);
}

/* modelLoad(source, params). */
typedef struct model_load {
    const char *path;
    rz_model_params params;
    rz_model *out;
} model_load;

static void run_model_load(task *t) {
    model_load *c = t->data;
    t->status = t->lib->rz_model_load(c->path, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MODEL;
}

static napi_value finish_model_load(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_model_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_load *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->path = terminated_of(t, arguments[0], "source");
    set_rz_model_params(t, arguments[1], &c->params);
    return task_start(t, run_model_load, finish_model_load);
}

/* modelLoadFrom(source, params). */
typedef struct model_load_from {
    const rz_source *sources;
    size_t n;
    rz_model_params params;
    rz_model *out;
} model_load_from;

static void run_model_load_from(task *t) {
    model_load_from *c = t->data;
    t->status = t->lib->rz_model_load_from(c->sources, c->n, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = MODEL;
}

static napi_value finish_model_load_from(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_model_load_from(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_load_from *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->sources = source_of(t, arguments[0], "source", &c->n);
    set_rz_model_params(t, arguments[1], &c->params);
    return task_start(t, run_model_load_from, finish_model_load_from);
}

/* modelPlan(source, source, params, cacheParams, sessions). */
typedef struct model_plan_get {
    const char *path;
    const rz_source *sources;
    size_t n;
    rz_model_params params;
    rz_cache_params cache_params;
    uint32_t n_caches;
    rz_model_plan out;
    rz_model_plan_device *devices;
    size_t capacity;
    size_t n_devices;
} model_plan_get;

static void run_model_plan_get(task *t) {
    model_plan_get *c = t->data;
    c->capacity = RZ_DEVICES_MAX;
    do {
        c->out.struct_size = sizeof c->out;
        c->devices = task_alloc(t, c->capacity * sizeof *c->devices);
        for (size_t i = 0; c->devices && i < c->capacity; i++) c->devices[i].struct_size = sizeof *c->devices;
        if (t->status >= 0) t->status = t->lib->rz_model_plan_get(c->path, c->sources, c->n, &c->params,
            &c->cache_params, c->n_caches, &c->out, c->devices, c->capacity, &c->n_devices, &t->error);
    } while (task_repeats(t, &c->capacity, c->n_devices));
}

static napi_value finish_model_plan_get(task *t) {
    model_plan_get *c = t->data;
    napi_env env = t->env;
    if (t->status > 0) return undefined_value(t->env);
    napi_value object = value_rz_model_plan(env, &c->out);
    set_member(env, object, "devices", list_value(env, c->devices, c->n_devices, sizeof *c->devices,
        value_rz_model_plan_device));
    return object;
}

static napi_value call_model_plan_get(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    model_plan_get *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->path = is_given(env, arguments[0]) ? terminated_of(t, arguments[0], "source") : NULL;
    c->sources = source_of(t, arguments[1], "source", &c->n);
    set_rz_model_params(t, arguments[2], &c->params);
    set_rz_cache_params(t, arguments[3], &c->cache_params);
    c->n_caches = (uint32_t)uint_of(t, arguments[4], "sessions", UINT32_MAX);
    return task_start(t, run_model_plan_get, finish_model_plan_get);
}

/* storeClear(store). */
typedef struct store_clear {
    rz_store *store;
} store_clear;

static void run_store_clear(task *t) {
    store_clear *c = t->data;
    t->status = t->lib->rz_store_clear(c->store, &t->error);
}

static napi_value finish_store_clear(task *t) {
    return undefined_value(t->env);
}

static napi_value call_store_clear(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    store_clear *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->store = task_use(t, arguments[0], STORE);
    return task_start(t, run_store_clear, finish_store_clear);
}

/* storeNew(model, params). */
typedef struct store_new {
    const rz_model *model;
    rz_store_params params;
    rz_store *out;
} store_new;

static void run_store_new(task *t) {
    store_new *c = t->data;
    t->status = t->lib->rz_store_new(c->model, &c->params, &c->out, &t->error);
    t->made = t->status < 0 ? NULL : c->out;
    t->made_kind = STORE;
}

static napi_value finish_store_new(task *t) {
    if (t->status > 0) return undefined_value(t->env);
    return task_made(t);
}

static napi_value call_store_new(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    store_new *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    set_rz_store_params(t, arguments[1], &c->params);
    return task_start(t, run_store_new, finish_store_new);
}

static napi_value call_tokenize_into_later(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task begun = task_begin(env, info, arguments), *t = &begun;
    tokenize_into *c = t->data = task_alloc(t, sizeof *c);
    if (!c) return task_return(t, NULL);
    c->model = task_use(t, arguments[0], MODEL);
    c->text = string_of(t, arguments[1], "text", &c->text_len);
    if (bool_member(t, arguments[2], "special")) c->flags |= RZ_TOKENIZE_ADD_SPECIAL;
    if (bool_member(t, arguments[2], "parse")) c->flags |= RZ_TOKENIZE_PARSE_SPECIAL;
    return task_start(t, run_tokenize_into, finish_tokenize_into);
}

void export_calls(napi_env env, napi_value exports) {
    export_function(env, exports, "cacheAdaptersSet", call_cache_adapters_set);
    export_function(env, exports, "cacheCapacity", call_cache_capacity);
    export_function(env, exports, "cacheFork", call_cache_fork);
    export_function(env, exports, "cacheLen", call_cache_len);
    export_function(env, exports, "cacheMatch", call_cache_match);
    export_function(env, exports, "cacheMatchPrompt", call_cache_match_prompt);
    export_function(env, exports, "cacheNew", call_cache_new);
    export_function(env, exports, "cacheTokens", call_cache_tokens_into);
    export_function(env, exports, "cacheTruncate", call_cache_truncate);
    export_function(env, exports, "cancelFire", call_cancel_fire);
    export_function(env, exports, "cancelNew", call_cancel_new);
    export_function(env, exports, "conversationAdaptersSet", call_conversation_adapters_set);
    export_function(env, exports, "conversationAdd", call_conversation_add);
    export_function(env, exports, "conversationAddText", call_conversation_add_text);
    export_function(env, exports, "conversationCapacitySet", call_conversation_capacity_set);
    export_function(env, exports, "conversationFork", call_conversation_fork);
    export_function(env, exports, "conversationInfo", call_conversation_info_get);
    export_function(env, exports, "conversationJson", call_conversation_json_into);
    export_function(env, exports, "conversationLogprobs", call_conversation_logprobs_into);
    export_function(env, exports, "conversationMedia", call_conversation_media);
    export_function(env, exports, "conversationNew", call_conversation_new);
    export_function(env, exports, "conversationNext", call_conversation_next_into);
    export_function(env, exports, "conversationOverflowSet", call_conversation_overflow_set);
    export_function(env, exports, "conversationRelease", call_conversation_release);
    export_function(env, exports, "conversationRewind", call_conversation_rewind);
    export_function(env, exports, "conversationStoreSet", call_conversation_store_set);
    export_function(env, exports, "detokenize", call_detokenize_into);
    export_function(env, exports, "deviceCount", call_device_count);
    export_function(env, exports, "deviceInfo", call_device_info_get);
    export_function(env, exports, "encoderInfo", call_encoder_info_get);
    export_function(env, exports, "hubChoose", call_hub_choose_into);
    export_function(env, exports, "jobInfo", call_job_info_get);
    export_function(env, exports, "jobText", call_job_text_into);
    export_function(env, exports, "mediaFromRows", call_media_from_rows);
    export_function(env, exports, "mediaInfo", call_media_info_get);
    export_function(env, exports, "mediaMeasure", call_media_measure);
    export_function(env, exports, "mediaRows", call_media_rows_into);
    export_function(env, exports, "modelDevice", call_model_device_get);
    export_function(env, exports, "modelInfo", call_model_info_get);
    export_function(env, exports, "modelMeta", call_model_meta_into);
    export_function(env, exports, "modelSampling", call_model_sampling_get);
    export_function(env, exports, "promptFromChat", call_prompt_from_chat);
    export_function(env, exports, "promptLen", call_prompt_len);
    export_function(env, exports, "promptNew", call_prompt_new);
    export_function(env, exports, "promptTokens", call_prompt_tokens_into);
    export_function(env, exports, "runtimeNew", call_runtime_new);
    export_function(env, exports, "samplerNew", call_sampler_new);
    export_function(env, exports, "storeInfo", call_store_info_get);
    export_function(env, exports, "tokenize", call_tokenize_into);
    export_function(env, exports, "adapterLoad", call_adapter_load);
    export_function(env, exports, "cacheLoad", call_cache_load);
    export_function(env, exports, "cacheSave", call_cache_save);
    export_function(env, exports, "conversationLoad", call_conversation_load);
    export_function(env, exports, "conversationRead", call_conversation_read);
    export_function(env, exports, "conversationReply", call_conversation_reply);
    export_function(env, exports, "conversationSave", call_conversation_save);
    export_function(env, exports, "conversationStep", call_conversation_step);
    export_function(env, exports, "conversationsStep", call_conversations_step);
    export_function(env, exports, "embed", call_embed_into);
    export_function(env, exports, "embedPrompts", call_embed_prompts_into);
    export_function(env, exports, "encoderLoad", call_encoder_load);
    export_function(env, exports, "encoderLoadFrom", call_encoder_load_from);
    export_function(env, exports, "encoderPlan", call_encoder_plan_get);
    export_function(env, exports, "grammarNew", call_grammar_new);
    export_function(env, exports, "jobNew", call_job_new);
    export_function(env, exports, "jobStep", call_job_step);
    export_function(env, exports, "mediaFromAudio", call_media_from_audio);
    export_function(env, exports, "mediaFromFrames", call_media_from_frames);
    export_function(env, exports, "mediaFromImage", call_media_from_image);
    export_function(env, exports, "mediaFromPixels", call_media_from_pixels);
    export_function(env, exports, "mediaFromSamples", call_media_from_samples);
    export_function(env, exports, "mediaLoad", call_media_load);
    export_function(env, exports, "mediaSave", call_media_save);
    export_function(env, exports, "mediaStep", call_media_step);
    export_function(env, exports, "modelLoad", call_model_load);
    export_function(env, exports, "modelLoadFrom", call_model_load_from);
    export_function(env, exports, "modelPlan", call_model_plan_get);
    export_function(env, exports, "storeClear", call_store_clear);
    export_function(env, exports, "storeNew", call_store_new);
    export_function(env, exports, "tokenizeLater", call_tokenize_into_later);
}
