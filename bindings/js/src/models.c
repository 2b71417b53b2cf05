/* Devices, models, adapters, stores and embeddings. */

#include "internal.h"
#include <stdlib.h>
#include <string.h>

static const choice PLACES[] = {{"auto", RZ_PLACE_AUTO}, {"cpu", RZ_PLACE_CPU}, {"gpu", RZ_PLACE_GPU}, {NULL, 0}};
static const choice STATES[] = {
    {"prompt", RZ_STATE_PROMPT}, {"tokens", RZ_STATE_TOKENS}, {"ended", RZ_STATE_ENDED}, {NULL, 0}};
static const choice ENDS[] = {{"end", RZ_END_TOKEN},
                              {"length", RZ_END_LENGTH},
                              {"stop", RZ_END_STOP},
                              {"context", RZ_END_CONTEXT},
                              {"grammar", RZ_END_GRAMMAR},
                              {"failed", RZ_END_FAILED},
                              {"cancelled", RZ_END_CANCELLED},
                              {NULL, 0}};
static const choice CAPABILITIES[] = {{"generate", RZ_CAN_GENERATE},
                                      {"system", RZ_CAN_SYSTEM},
                                      {"tools", RZ_CAN_TOOLS},
                                      {"reason", RZ_CAN_REASON},
                                      {"switchReasoning", RZ_CAN_SWITCH_REASONING},
                                      {"images", RZ_CAN_IMAGES},
                                      {"audio", RZ_CAN_AUDIO},
                                      {"video", RZ_CAN_VIDEO},
                                      {NULL, 0}};
static const choice DEVICES[] = {{"cpu", RZ_DEVICE_CPU}, {"gpu", RZ_DEVICE_GPU}, {NULL, 0}};

/* devices(): what there is to compute on. */
static napi_value call_devices(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], list = NULL;
    task t = task_begin(env, info, arguments);
    uint32_t n = t.status < 0 ? 0 : t.lib->rz_device_count();
    napi_create_array(env, &list);
    for (uint32_t i = 1; i <= n && t.status >= 0; i++) {
        rz_device_info device = {.struct_size = sizeof device};
        t.status = t.lib->rz_device_info_get(i, &device, &t.error);
        if (t.status < 0) break;
        napi_value object = fields_value(env, NULL, "rz_device_info", &device);
        set_member(env, object, "kind", string_value(env, choice_name(DEVICES, device.kind), NAPI_AUTO_LENGTH));
        set_member(env, object, "available", bool_value(env, device.available));
        napi_set_element(env, list, i - 1, object);
    }
    return task_return(&t, list);
}

/* cancel(): what stops calls. */
static napi_value call_cancel(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_cancel *cancel = NULL;
    if (t.status >= 0) t.status = t.lib->rz_cancel_new(&cancel, &t.error);
    t.made = cancel;
    t.made_kind = CANCEL;
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

static napi_value call_fire(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_cancel *cancel = task_use(&t, arguments[0], CANCEL);
    if (t.status >= 0) t.lib->rz_cancel_fire(cancel);
    return task_return(&t, NULL);
}

/* fireAll(): ends all calls of the environment. */
static napi_value call_fire_all(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    for (handle *h = t.instance->first; h; h = h->next)
        if (h->kind == CANCEL && h->pointer) t.lib->rz_cancel_fire(h->pointer);
    return task_return(&t, NULL);
}

/* progress(cancel): the load's bytes that are done, and all of them. */
static napi_value call_progress(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], pair = NULL;
    task t = task_begin(env, info, arguments);
    if (task_use(&t, arguments[0], CANCEL) && napi_create_array(env, &pair) == napi_ok) {
        napi_set_element(env, pair, 0, number_value(env, (double)atomic_load(&t.uses[0].handle->done)));
        napi_set_element(env, pair, 1, number_value(env, (double)atomic_load(&t.uses[0].handle->total)));
    }
    return task_return(&t, pair);
}

/* Arguments of a load or of a plan. */
typedef struct load {
    const char *path;
    rz_source source;
    bool from_bytes;
    rz_runtime_params runtime;
    rz_model_params params;
    rz_cache_params cache;
    uint32_t n_caches;
    rz_model_plan plan;
    rz_model_plan_device parts[RZ_DEVICES_MAX];
    size_t n_parts;
} load;

static void load_placements(task *t, napi_value options, rz_model_params *params) {
    napi_value list = member_of(t, options, "placements");
    uint32_t n = count_of(t, list, "placements");
    rz_placement *placements = n ? task_alloc(t, n * sizeof *placements) : NULL;
    for (uint32_t i = 0; placements && i < n; i++) {
        napi_value element = element_of(t, list, i);
        napi_valuetype type = napi_undefined;
        if (element) napi_typeof(t->env, element, &type);
        if (type != napi_object) fail_value(t, element, element_name(t, "placements", i), "an object");
        placements[i] = (rz_placement){.struct_size = sizeof *placements, .what = RZ_PLACED_EXPERTS};
        placements[i].place = choice_member(t, element, "place", PLACES);
        placements[i].first_layer = (uint32_t)uint_member(t, element, "first_layer", UINT32_MAX);
        placements[i].n_layers = (uint32_t)uint_member(t, element, "layers", UINT32_MAX);
        placements[i].bytes = uint_member(t, element, "bytes", (1ull << 53) - 1);
    }
    params->placements = placements;
    params->n_placements = placements ? n : 0;
}

static load *load_arguments(task *t, napi_value source, napi_value options) {
    load *l = task_alloc(t, sizeof *l);
    if (!l) return NULL;
    napi_valuetype type = napi_undefined;
    napi_typeof(t->env, source, &type);
    l->from_bytes = type != napi_string;
    if (l->from_bytes) {
        size_t n;
        l->source = (rz_source){.struct_size = sizeof l->source, .kind = RZ_SOURCE_MEMORY};
        l->source.data = bytes_of(t, source, "source", &n);
        l->source.size = n;
    } else {
        l->path = terminated_of(t, source, "source");
    }
    rz_model_params *params = &l->params;
    set_rz_model_params(t, options, params);
    params->packed_path = terminated_member(t, options, "packed_path");
    load_placements(t, options, params);
    params->tested_path = terminated_member(t, options, "tested_path");
    params->chat_template = string_member(t, options, "chat_template", &params->chat_template_len);
    napi_value devices = member_of(t, options, "devices");
    if (devices) params->devices = tokens_of(t, devices, "devices", &params->n_devices);
    napi_value shares = member_of(t, options, "shares");
    uint32_t n_shares = count_of(t, shares, "shares");
    if (shares && n_shares != params->n_devices)
        task_fail(t, RZ_ERR_INVALID_ARGUMENT, "shares has %u numbers; it must have one for each of %zu devices", n_shares, params->n_devices);
    if (shares) params->device_split = floats_of(t, shares, "shares", n_shares);
    set_rz_runtime_params(t, options, &l->runtime);
    l->cache = cache_params(t, options);
    l->n_caches = (uint32_t)uint_member(t, options, "sessions", UINT32_MAX);
    return l;
}

static void run_load(task *t) {
    load *l = t->data;
    const library *lib = t->lib;
    rz_runtime *runtime = NULL;
    rz_model *model = NULL;
    if (l->runtime.threads || l->runtime.memory_limit)
        t->status = lib->rz_runtime_new(&l->runtime, &runtime, &t->error);
    if (t->status < 0) return;
    l->params.runtime = runtime;
    t->status = l->from_bytes ? lib->rz_model_load_from(&l->source, 1, &l->params, &model, &t->error)
                              : lib->rz_model_load(l->path, &l->params, &model, &t->error);
    lib->rz_runtime_free(runtime);
    t->made = t->status < 0 ? NULL : model;
    t->made_kind = MODEL;
}

/* load(path or bytes, options, cancel): a promise of a model. */
static napi_value call_load(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    load *l = load_arguments(&t, arguments[0], arguments[1]);
    if (l) l->params.cancel = task_use(&t, arguments[2], CANCEL);
    if (l && t.status >= 0) {
        l->params.progress = on_progress;
        l->params.progress_user = t.uses[t.n_uses - 1].handle;
    }
    t.data = l;
    return task_start(&t, run_load, task_made);
}

static void run_plan(task *t) {
    load *l = t->data;
    l->plan.struct_size = sizeof l->plan;
    for (uint32_t i = 0; i < RZ_DEVICES_MAX; i++) l->parts[i].struct_size = sizeof l->parts[i];
    t->status = t->lib->rz_model_plan_get(l->path, l->from_bytes ? &l->source : NULL, l->from_bytes, &l->params, &l->cache,
                                      l->n_caches, &l->plan, l->parts, RZ_DEVICES_MAX, &l->n_parts, &t->error);
}

static napi_value finish_plan(task *t) {
    load *l = t->data;
    napi_value object = fields_value(t->env, NULL, "rz_model_plan", &l->plan), list;
    if (napi_create_array(t->env, &list) != napi_ok) return NULL;
    for (uint32_t i = 0; i < l->n_parts; i++)
        napi_set_element(t->env, list, i, fields_value(t->env, NULL, "rz_model_plan_device", &l->parts[i]));
    set_member(t->env, object, "devices", list);
    return object;
}

/* plan(path or bytes, options): a promise of the bytes that a load will take. */
static napi_value call_plan(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    t.data = load_arguments(&t, arguments[0], arguments[1]);
    return task_start(&t, run_plan, finish_plan);
}

static void model_members(task *t, napi_value object, const void *model) {
    rz_model_info info = {.struct_size = sizeof info};
    napi_env env = t->env;
    t->status = t->lib->rz_model_info_get(model, &info, &t->error);
    if (t->status < 0) return;
    fields_value(env, object, "rz_model_info", &info);
    napi_value list;
    napi_create_array(env, &list);
    for (uint32_t i = 0; i < info.n_devices && t->status >= 0; i++) {
        rz_model_device device = {.struct_size = sizeof device};
        t->status = t->lib->rz_model_device_get(model, i, &device, &t->error);
        napi_set_element(env, list, i, fields_value(env, NULL, "rz_model_device", &device));
    }
    set_member(env, object, "devices", list);
    drop_member(env, object, "n_devices");
    if (info.bos_token == RZ_TOKEN_NONE) drop_member(env, object, "bos_token");
    if (info.eos_token == RZ_TOKEN_NONE) drop_member(env, object, "eos_token");
    if (info.experts_copied_from == RZ_NONE) drop_member(env, object, "experts_copied_from");
    set_member(env, object, "chat_template", bool_value(env, info.chat_template & RZ_TEMPLATE_PRESENT));
    set_member(env, object, "template_writes_bos", bool_value(env, info.chat_template & RZ_TEMPLATE_WRITES_BOS));
    set_member(env, object, "reads_source", bool_value(env, info.reads_source));
    set_member(env, object, "capabilities", names_value(env, CAPABILITIES, info.capabilities));
    if (info.pooling == RZ_POOLING_MODEL) drop_member(env, object, "pooling");
    else set_member(env, object, "pooling", string_value(env, choice_name(RZ_POOLING_NAMES, info.pooling), NAPI_AUTO_LENGTH));
}

static void store_members(task *t, napi_value object, const void *store) {
    rz_store_info info = {.struct_size = sizeof info};
    t->status = t->lib->rz_store_info_get(store, &info, &t->error);
    if (t->status >= 0) fields_value(t->env, object, "rz_store_info", &info);
}

static void conversation_members(task *t, napi_value object, const void *conversation) {
    rz_conversation_info info = {.struct_size = sizeof info};
    napi_env env = t->env;
    t->status = t->lib->rz_conversation_info_get(conversation, &info, &t->error);
    if (t->status < 0) return;
    fields_value(env, object, "rz_conversation_info", &info);
    drop_member(env, object, "end_reason");
    const char *stopped = info.stopped == RZ_ERR_CANCELLED ? "cancelled" : info.stopped == RZ_ERR_DEADLINE ? "deadline" : NULL;
    set_member(env, object, "stopped", string_value(env, stopped, NAPI_AUTO_LENGTH));
    set_member(env, object, "state", string_value(env, choice_name(STATES, info.state), NAPI_AUTO_LENGTH));
    set_member(env, object, "end", string_value(env, choice_name(ENDS, info.end_reason), NAPI_AUTO_LENGTH));
}

/* info(handle): the state of a model, store, conversation or session. */
static napi_value call_info(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], object = NULL;
    task t = task_begin(env, info, arguments);
    const void *pointer = task_use(&t, arguments[0], NONE);
    if (!pointer || napi_create_object(env, &object) != napi_ok) return task_return(&t, NULL);
    switch (t.uses[0].handle->kind) {
    case MODEL: model_members(&t, object, pointer); break;
    case STORE: store_members(&t, object, pointer); break;
    case CONVERSATION: conversation_members(&t, object, pointer); break;
    case SESSION:
        set_member(env, object, "len", number_value(env, t.lib->rz_cache_len(pointer)));
        set_member(env, object, "capacity", number_value(env, t.lib->rz_cache_capacity(pointer)));
        break;
    case ENCODER: encoder_info(&t, object, pointer); break;
    case MEDIA: media_info(&t, object, pointer); break;
    default: break;
    }
    return task_return(&t, object);
}

/* advised(model): what the makers advise for sampling. */
static napi_value call_advised(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], object = NULL;
    task t = task_begin(env, info, arguments);
    rz_model_sampling told = {.struct_size = sizeof told};
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    if (t.status >= 0) t.status = t.lib->rz_model_sampling_get(model, &told, &t.error);
    if (t.status >= 0 && told.advised) {
        static const choice fields[] = {{"temperature", RZ_SAMPLING_TEMPERATURE}, {"top_k", RZ_SAMPLING_TOP_K},
                                        {"top_p", RZ_SAMPLING_TOP_P},             {"min_p", RZ_SAMPLING_MIN_P},
                                        {"repeat_penalty", RZ_SAMPLING_REPEAT_PENALTY},
                                        {"penalty_window", RZ_SAMPLING_PENALTY_WINDOW}, {NULL, 0}};
        object = fields_value(env, NULL, "rz_model_sampling", &told);
        drop_member(env, object, "advised");
        for (const choice *one = fields; one->name; one++)
            if (!(told.advised & one->number)) drop_member(env, object, one->name);
    }
    return task_return(&t, object);
}

/* meta(model, key): a value of the metadata as text. */
static napi_value call_meta(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    char *key = terminated_of(&t, arguments[1], "key"), *text;
    size_t capacity = 64, len = 0;
    do {
        text = task_alloc(&t, capacity);
        if (t.status >= 0) t.status = t.lib->rz_model_meta_into(model, key, text, capacity, &len, &t.error);
    } while (task_repeats(&t, &capacity, len));
    return task_return(&t, t.status < 0 ? NULL : string_value(env, text, len));
}

/* hubChoose(model, listing, free, isCached): what a model's name stands for and, by a listing, its files, in JSON. */
static napi_value call_hub_choose(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    size_t model_len, listing_len = 0, capacity = 4096, len = 0;
    char *model = string_of(&t, arguments[0], "model", &model_len), *listing = NULL, *text;
    if (is_given(env, arguments[1])) listing = string_of(&t, arguments[1], "listing", &listing_len);
    uint64_t memory = uint_of(&t, arguments[2], "free", (1ull << 53) - 1);
    bool is_cached = false;
    napi_get_value_bool(env, arguments[3], &is_cached);
    do {
        text = task_alloc(&t, capacity);
        if (t.status >= 0)
            t.status = t.lib->rz_hub_choose_into(model, model_len, listing, listing_len, memory,
                                                 is_cached ? RZ_HUB_CACHED : 0, text, capacity, &len, &t.error);
    } while (task_repeats(&t, &capacity, len));
    return task_return(&t, t.status < 0 ? NULL : string_value(env, text, len));
}

static void run_adapter(task *t) {
    rz_adapter *adapter = NULL;
    load *l = t->data;
    t->status = t->lib->rz_adapter_load(t->uses[0].handle->pointer, l->path, NULL, &adapter, &t->error);
    t->made = adapter;
    t->made_kind = ADAPTER;
}

/* adapter(model, path): a promise of an adapter. */
static napi_value call_adapter(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    load *l = t.data = task_alloc(&t, sizeof *l);
    if (l && task_use(&t, arguments[0], MODEL)) l->path = terminated_of(&t, arguments[1], "file");
    return task_start(&t, run_adapter, task_made);
}

static void run_store(task *t) {
    rz_store *store = NULL;
    t->status = t->lib->rz_store_new(t->uses[0].handle->pointer, t->data, &store, &t->error);
    t->made = store;
    t->made_kind = STORE;
}

/* store(model, options): a promise of a store. */
static napi_value call_store(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_store_params *params = t.data = task_alloc(&t, sizeof *params);
    if (params && task_use(&t, arguments[0], MODEL)) {
        set_rz_store_params(&t, arguments[1], params);
        params->path = terminated_member(&t, arguments[1], "path");
    }
    return task_start(&t, run_store, task_made);
}

static void run_clear(task *t) { t->status = t->lib->rz_store_clear(t->uses[0].handle->pointer, &t->error); }

static napi_value call_clear(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    task_use(&t, arguments[0], STORE);
    return task_start(&t, run_clear, NULL);
}

/* Texts to be embedded, and their vectors. */
typedef struct embedding {
    const rz_model *model;
    rz_embed_params params;
    uint32_t n;
    char **texts; /* NULL where the tokens are given. */
    size_t *text_lens;
    uint32_t **tokens;
    rz_prompt **prompts; /* In place of all of these where it is not NULL. */
    size_t *lengths;
    float *out;
    size_t written;
    const rz_cancel *cancel;
} embedding;

static void run_embed(task *t) {
    embedding *e = t->data;
    for (uint32_t i = 0; i < e->n && t->status >= 0 && !e->prompts; i++)
        if (e->texts[i])
            e->tokens[i] =
                tokenize(t, e->model, e->texts[i], e->text_lens[i], RZ_TOKENIZE_ADD_SPECIAL, &e->lengths[i]);
    size_t capacity = 0;
    do {
        e->out = task_alloc(t, capacity * sizeof *e->out);
        if (t->status >= 0 && e->prompts)
            t->status = t->lib->rz_embed_prompts_into(e->model, &e->params, e->prompts, e->n, e->out, capacity,
                                                      &e->written, e->cancel, &t->error);
        else if (t->status >= 0)
            t->status = t->lib->rz_embed_into(e->model, &e->params, (const uint32_t *const *)e->tokens, e->lengths,
                                              e->n, e->out, capacity, &e->written, e->cancel, &t->error);
    } while (task_repeats(t, &capacity, e->written));
}

static napi_value finish_embed(task *t) {
    embedding *e = t->data;
    napi_value list;
    size_t units = 0, at = 0;
    for (uint32_t i = 0; i < e->n; i++) units += e->params.pooling == RZ_POOLING_NONE ? e->lengths[i] : 1;
    if (napi_create_array_with_length(t->env, e->n, &list) != napi_ok) return NULL;
    for (uint32_t i = 0; i < e->n; i++) {
        size_t n = e->written / units * (e->params.pooling == RZ_POOLING_NONE ? e->lengths[i] : 1);
        napi_value vector = floats_value(t->env, e->out + at, n);
        if (!vector) return NULL;
        napi_set_element(t->env, list, i, vector);
        at += n;
    }
    return list;
}

/* embed(model, texts or lists of tokens, options, cancel, prompts): a promise of a vector each; of prompts alone where
 * some are given. */
static napi_value call_embed(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    embedding *e = t.data = task_alloc(&t, sizeof *e);
    if (!e) return task_return(&t, NULL);
    e->model = task_use(&t, arguments[0], MODEL);
    e->cancel = task_use(&t, arguments[3], CANCEL);
    set_rz_embed_params(&t, arguments[2], &e->params);
    if (is_given(env, arguments[4])) {
        e->n = count_of(&t, arguments[4], "prompts");
        e->prompts = task_alloc(&t, e->n * sizeof *e->prompts);
        e->lengths = task_alloc(&t, e->n * sizeof *e->lengths);
        for (uint32_t i = 0; i < e->n && t.status >= 0; i++) {
            e->prompts[i] = task_use(&t, element_of(&t, arguments[4], i), PROMPT);
            e->lengths[i] = t.lib->rz_prompt_len(e->prompts[i]);
        }
        return task_start(&t, run_embed, finish_embed);
    }
    e->n = count_of(&t, arguments[1], "texts");
    e->texts = task_alloc(&t, e->n * sizeof *e->texts);
    e->text_lens = task_alloc(&t, e->n * sizeof *e->text_lens);
    e->tokens = task_alloc(&t, e->n * sizeof *e->tokens);
    e->lengths = task_alloc(&t, e->n * sizeof *e->lengths);
    for (uint32_t i = 0; i < e->n && t.status >= 0; i++) {
        napi_valuetype type = napi_undefined;
        napi_value text = element_of(&t, arguments[1], i);
        if (text) napi_typeof(env, text, &type);
        if (type == napi_string) e->texts[i] = string_of(&t, text, element_name(&t, "texts", i), &e->text_lens[i]);
        else e->tokens[i] = tokens_of(&t, text, element_name(&t, "texts", i), &e->lengths[i]);
    }
    return task_start(&t, run_embed, finish_embed);
}

void export_models(napi_env env, napi_value exports) {
    export_function(env, exports, "devices", call_devices);
    export_function(env, exports, "cancel", call_cancel);
    export_function(env, exports, "fire", call_fire);
    export_function(env, exports, "fireAll", call_fire_all);
    export_function(env, exports, "progress", call_progress);
    export_function(env, exports, "load", call_load);
    export_function(env, exports, "plan", call_plan);
    export_function(env, exports, "info", call_info);
    export_function(env, exports, "advised", call_advised);
    export_function(env, exports, "meta", call_meta);
    export_function(env, exports, "hubChoose", call_hub_choose);
    export_function(env, exports, "adapter", call_adapter);
    export_function(env, exports, "store", call_store);
    export_function(env, exports, "clear", call_clear);
    export_function(env, exports, "embed", call_embed);
}
