/* Names of numbers, and structs out of objects. The build writes this file: make header. */

#include "internal.h"

const choice RZ_CACHE_TYPE_NAMES[] = {
    {"default", RZ_TYPE_DEFAULT},
    {"f32", RZ_TYPE_F32},
    {"f16", RZ_TYPE_F16},
    {"q4_0", RZ_TYPE_Q4_0},
    {"q8_0", RZ_TYPE_Q8_0},
    {NULL, 0},
};

const choice RZ_CAN_NAMES[] = {
    {"generate", RZ_CAN_GENERATE},
    {"system", RZ_CAN_SYSTEM},
    {"tools", RZ_CAN_TOOLS},
    {"reason", RZ_CAN_REASON},
    {"switchReasoning", RZ_CAN_SWITCH_REASONING},
    {"images", RZ_CAN_IMAGES},
    {"audio", RZ_CAN_AUDIO},
    {"video", RZ_CAN_VIDEO},
    {NULL, 0},
};

const choice RZ_CHAT_EVENT_NAMES[] = {
    {"reasoning", RZ_CHAT_EVENT_REASONING},
    {"content", RZ_CHAT_EVENT_CONTENT},
    {"toolName", RZ_CHAT_EVENT_TOOL_NAME},
    {"toolArguments", RZ_CHAT_EVENT_TOOL_ARGUMENTS},
    {"end", RZ_CHAT_EVENT_END},
    {"toolId", RZ_CHAT_EVENT_TOOL_ID},
    {NULL, 0},
};

const choice RZ_CHAT_EVENT_FLAG_NAMES[] = {
    {"unparsed", RZ_CHAT_EVENT_FLAG_UNPARSED},
    {NULL, 0},
};

const choice RZ_DEVICE_NAMES[] = {
    {"cpu", RZ_DEVICE_CPU},
    {"gpu", RZ_DEVICE_GPU},
    {NULL, 0},
};

const choice RZ_DRAFT_NAMES[] = {
    {"none", RZ_DRAFT_NONE},
    {"lookup", RZ_DRAFT_LOOKUP},
    {"model", RZ_DRAFT_MODEL},
    {"mtp", RZ_DRAFT_MTP},
    {NULL, 0},
};

const choice RZ_ENCODER_NAMES[] = {
    {"image", RZ_ENCODER_IMAGE},
    {"audio", RZ_ENCODER_AUDIO},
    {NULL, 0},
};

const choice RZ_END_NAMES[] = {
    {"end", RZ_END_TOKEN},
    {"length", RZ_END_LENGTH},
    {"stop", RZ_END_STOP},
    {"context", RZ_END_CONTEXT},
    {"grammar", RZ_END_GRAMMAR},
    {"failed", RZ_END_FAILED},
    {"cancelled", RZ_END_CANCELLED},
    {NULL, 0},
};

const choice RZ_ERR_NAMES[] = {
    {"cancelled", RZ_ERR_CANCELLED},
    {"deadline", RZ_ERR_DEADLINE},
    {NULL, 0},
};

const choice RZ_FILTER_NAMES[] = {
    {"topNSigma", RZ_FILTER_TOP_N_SIGMA},
    {"topK", RZ_FILTER_TOP_K},
    {"typicalP", RZ_FILTER_TYPICAL_P},
    {"topP", RZ_FILTER_TOP_P},
    {"minP", RZ_FILTER_MIN_P},
    {"xtc", RZ_FILTER_XTC},
    {"temperature", RZ_FILTER_TEMPERATURE},
    {NULL, 0},
};

const choice RZ_GRAMMAR_NAMES[] = {
    {"jsonSchema", RZ_GRAMMAR_JSON_SCHEMA},
    {"regex", RZ_GRAMMAR_REGEX},
    {"lark", RZ_GRAMMAR_LARK},
    {"gbnf", RZ_GRAMMAR_GBNF},
    {"json", RZ_GRAMMAR_JSON},
    {"choices", RZ_GRAMMAR_CHOICES},
    {"tools", RZ_GRAMMAR_TOOLS},
    {NULL, 0},
};

const choice RZ_MEDIA_NAMES[] = {
    {"image", RZ_MEDIA_IMAGE},
    {"audio", RZ_MEDIA_AUDIO},
    {"text", RZ_MEDIA_TEXT},
    {"vector", RZ_MEDIA_VECTOR},
    {"video", RZ_MEDIA_VIDEO},
    {NULL, 0},
};

const choice RZ_OVERFLOW_NAMES[] = {
    {"fail", RZ_OVERFLOW_FAIL},
    {"forget", RZ_OVERFLOW_FORGET},
    {NULL, 0},
};

const choice RZ_PIXELS_NAMES[] = {
    {"rgb8", RZ_PIXELS_RGB8},
    {"rgba8", RZ_PIXELS_RGBA8},
    {"bgra8", RZ_PIXELS_BGRA8},
    {"gray8", RZ_PIXELS_GRAY8},
    {NULL, 0},
};

const choice RZ_PLACE_NAMES[] = {
    {"auto", RZ_PLACE_AUTO},
    {"cpu", RZ_PLACE_CPU},
    {"gpu", RZ_PLACE_GPU},
    {NULL, 0},
};

const choice RZ_POOLING_NAMES[] = {
    {"model", RZ_POOLING_MODEL},
    {"none", RZ_POOLING_NONE},
    {"mean", RZ_POOLING_MEAN},
    {"cls", RZ_POOLING_CLS},
    {"last", RZ_POOLING_LAST},
    {"rank", RZ_POOLING_RANK},
    {NULL, 0},
};

const choice RZ_REASONING_NAMES[] = {
    {"model", RZ_REASONING_MODEL},
    {"off", RZ_REASONING_OFF},
    {"on", RZ_REASONING_ON},
    {NULL, 0},
};

const choice RZ_SAMPLING_NAMES[] = {
    {"temperature", RZ_SAMPLING_TEMPERATURE},
    {"topK", RZ_SAMPLING_TOP_K},
    {"topP", RZ_SAMPLING_TOP_P},
    {"minP", RZ_SAMPLING_MIN_P},
    {"repeatPenalty", RZ_SAMPLING_REPEAT_PENALTY},
    {"penaltyWindow", RZ_SAMPLING_PENALTY_WINDOW},
    {NULL, 0},
};

const choice RZ_STATE_NAMES[] = {
    {"prompt", RZ_STATE_PROMPT},
    {"tokens", RZ_STATE_TOKENS},
    {"ended", RZ_STATE_ENDED},
    {NULL, 0},
};

const choice RZ_TYPE_NAMES[] = {
    {"default", RZ_TYPE_DEFAULT},
    {"f32", RZ_TYPE_F32},
    {"f16", RZ_TYPE_F16},
    {"bf16", RZ_TYPE_BF16},
    {"q4_0", RZ_TYPE_Q4_0},
    {"q4_1", RZ_TYPE_Q4_1},
    {"q5_0", RZ_TYPE_Q5_0},
    {"q5_1", RZ_TYPE_Q5_1},
    {"q8_0", RZ_TYPE_Q8_0},
    {"q4_k", RZ_TYPE_Q4_K},
    {"q5_k", RZ_TYPE_Q5_K},
    {"q6_k", RZ_TYPE_Q6_K},
    {NULL, 0},
};

void set_rz_runtime_params(task *t, napi_value options, void *at) {
    rz_runtime_params *params = at;
    params->struct_size = sizeof *params;
    params->threads = (uint32_t)uint_member(t, options, "threads", UINT32_MAX);
    params->memory_limit = uint_member(t, options, "memoryLimit", MOST);
}

void set_rz_placement(task *t, napi_value options, void *at) {
    rz_placement *params = at;
    params->struct_size = sizeof *params;
    params->what = RZ_PLACED_EXPERTS;
    params->place = choice_member(t, options, "place", RZ_PLACE_NAMES);
    params->first_layer = (uint32_t)uint_member(t, options, "firstLayer", UINT32_MAX);
    params->n_layers = (uint32_t)uint_member(t, options, "layers", UINT32_MAX);
    params->bytes = uint_member(t, options, "bytes", MOST);
}

void set_rz_model_params(task *t, napi_value options, void *at) {
    rz_model_params *params = at;
    params->struct_size = sizeof *params;
    params->device = (uint32_t)uint_member(t, options, "device", UINT32_MAX);
    params->runtime = task_use_optional(t, member_of(t, options, "runtime"), RUNTIME);
    if (bool_member(t, options, "deterministic")) params->flags |= RZ_MODEL_DETERMINISTIC;
    if (bool_member(t, options, "mmap")) params->flags |= RZ_MODEL_MMAP;
    if (bool_member(t, options, "textOnly")) params->flags |= RZ_MODEL_TEXT_ONLY;
    if (bool_member(t, options, "mtp")) params->flags |= RZ_MODEL_MTP;
    if (bool_member(t, options, "allowUnknown")) params->flags |= RZ_MODEL_ALLOW_UNKNOWN;
    if (bool_member(t, options, "bf16Products")) params->flags |= RZ_MODEL_BF16_PRODUCTS;
    params->gpu_layers = or_none_member(t, options, "gpuLayers");
    params->quantize = choice_member(t, options, "quantize", RZ_TYPE_NAMES);
    params->mixed_prefill_tokens = (uint32_t)uint_member(t, options, "mixedPrefillTokens", UINT32_MAX);
    params->cancel = task_use_optional(t, member_of(t, options, "cancel"), CANCEL);
    params->progress_user = params->cancel ? t->uses[t->n_uses - 1].handle : NULL;
    params->progress = params->cancel ? on_progress : NULL;
    params->packed_path = terminated_member(t, options, "packedPath");
    params->devices = tokens_of(t, member_of(t, options, "devices"), "devices", &params->n_devices);
    size_t n_device_split = 0;
    params->device_split = floats_of(t, member_of(t, options, "shares"), "shares", &n_device_split);
    check_count(t, params->device_split, "shares", n_device_split, params->n_devices, "devices");
    params->placements = structs_of(t, member_of(t, options, "placements"), "placements", sizeof(rz_placement),
        set_rz_placement, &params->n_placements);
    params->tested_path = terminated_member(t, options, "testedPath");
    params->chat_template = string_member(t, options, "chatTemplate", &params->chat_template_len);
    params->experts_copied_from = or_none_member(t, options, "expertsCopiedFrom");
}

void set_rz_sampler_params(task *t, napi_value options, void *at) {
    rz_sampler_params *params = at;
    params->struct_size = sizeof *params;
    params->temperature = float_member(t, options, "temperature");
    params->top_k = (uint32_t)uint_member(t, options, "topK", UINT32_MAX);
    params->top_p = float_member(t, options, "topP");
    params->min_p = float_member(t, options, "minP");
    params->repeat_penalty = float_member(t, options, "repeatPenalty");
    params->presence_penalty = float_member(t, options, "presencePenalty");
    params->frequency_penalty = float_member(t, options, "frequencyPenalty");
    params->penalty_window = (uint32_t)uint_member(t, options, "penaltyWindow", UINT32_MAX);
    if (bool_member(t, options, "temperatureFirst")) params->flags |= RZ_SAMPLER_TEMPERATURE_FIRST;
    params->seed = uint_member(t, options, "seed", MOST);
    params->biases = structs_of(t, member_of(t, options, "biases"), "biases", sizeof(rz_logit_bias),
        set_rz_logit_bias, &params->n_biases);
    params->typical_p = float_member(t, options, "typicalP");
    params->top_n_sigma = float_member(t, options, "topNSigma");
    params->xtc_probability = float_member(t, options, "xtcProbability");
    params->xtc_threshold = float_member(t, options, "xtcThreshold");
    params->temperature_range = float_member(t, options, "temperatureRange");
    params->temperature_exponent = float_member(t, options, "temperatureExponent");
    params->mirostat_tau = float_member(t, options, "mirostatTau");
    params->mirostat_eta = float_member(t, options, "mirostatEta");
    params->dry_multiplier = float_member(t, options, "dryMultiplier");
    params->dry_base = float_member(t, options, "dryBase");
    params->dry_allowed_length = (uint32_t)uint_member(t, options, "dryAllowedLength", UINT32_MAX);
    params->dry_window = (uint32_t)uint_member(t, options, "dryWindow", UINT32_MAX);
    params->no_repeat_ngram_size = (uint32_t)uint_member(t, options, "noRepeatNgramSize", UINT32_MAX);
    params->dry_breakers = structs_of(t, member_of(t, options, "dryBreakers"), "dryBreakers",
        sizeof(rz_token_sequence), set_rz_token_sequence, &params->n_dry_breakers);
    params->banned_sequences = structs_of(t, member_of(t, options, "bannedSequences"), "bannedSequences",
        sizeof(rz_token_sequence), set_rz_token_sequence, &params->n_banned_sequences);
    params->order = choices_of(t, member_of(t, options, "order"), "order", RZ_FILTER_NAMES, &params->n_order);
}

void set_rz_cache_params(task *t, napi_value options, void *at) {
    rz_cache_params *params = at;
    params->struct_size = sizeof *params;
    params->capacity = (uint32_t)uint_member(t, options, "capacity", UINT32_MAX);
    params->k_type = choice_member(t, options, "kType", RZ_CACHE_TYPE_NAMES);
    params->v_type = choice_member(t, options, "vType", RZ_CACHE_TYPE_NAMES);
}

void set_rz_encoder_params(task *t, napi_value options, void *at) {
    rz_encoder_params *params = at;
    params->struct_size = sizeof *params;
    if (member_of(t, options, "kind")) params->flags |= choice_member(t, options, "kind", RZ_ENCODER_NAMES);
    if (bool_member(t, options, "allowUnknown")) params->flags |= RZ_MODEL_ALLOW_UNKNOWN;
    params->device = (uint32_t)uint_member(t, options, "device", UINT32_MAX);
    params->quantize = choice_member(t, options, "quantize", RZ_TYPE_NAMES);
    params->max_rows = (uint32_t)uint_member(t, options, "maxRows", UINT32_MAX);
    params->cancel = task_use_optional(t, member_of(t, options, "cancel"), CANCEL);
    params->progress_user = params->cancel ? t->uses[t->n_uses - 1].handle : NULL;
    params->progress = params->cancel ? on_progress : NULL;
}

void set_rz_pixels(task *t, napi_value options, void *at) {
    rz_pixels *params = at;
    params->struct_size = sizeof *params;
    params->format = choice_member(t, options, "format", RZ_PIXELS_NAMES);
    params->width = (uint32_t)uint_member(t, options, "width", UINT32_MAX);
    params->height = (uint32_t)uint_member(t, options, "height", UINT32_MAX);
    params->stride = uint_member(t, options, "stride", MOST);
    size_t n_data = 0;
    params->data = bytes_of(t, member_of(t, options, "data"), "data", &n_data);
    check_pixels(t, params, n_data);
}

void set_rz_media_params(task *t, napi_value options, void *at) {
    rz_media_params *params = at;
    params->struct_size = sizeof *params;
    params->min_rows = (uint32_t)uint_member(t, options, "minRows", UINT32_MAX);
    params->max_rows = (uint32_t)uint_member(t, options, "maxRows", UINT32_MAX);
    params->max_tiles = (uint32_t)uint_member(t, options, "maxTiles", UINT32_MAX);
    params->max_pixels = (uint32_t)uint_member(t, options, "maxPixels", UINT32_MAX);
    if (bool_member(t, options, "inSteps")) params->flags |= RZ_ENCODE_STEPS;
    params->cancel = task_use_optional(t, member_of(t, options, "cancel"), CANCEL);
    params->progress_user = params->cancel ? t->uses[t->n_uses - 1].handle : NULL;
    params->progress = params->cancel ? on_progress : NULL;
    params->background = (uint32_t)uint_member(t, options, "background", UINT32_MAX);
}

void set_rz_part(task *t, napi_value options, void *at) {
    rz_part *params = at;
    params->tokens = tokens_of(t, member_of(t, options, "tokens"), "tokens", &params->n_tokens);
    params->media = task_use_optional(t, member_of(t, options, "media"), MEDIA);
}

void set_rz_job_params(task *t, napi_value options, void *at) {
    rz_job_params *params = at;
    params->struct_size = sizeof *params;
    params->max_tokens = (uint32_t)uint_member(t, options, "maxTokens", UINT32_MAX);
    params->tokens = tokens_of(t, member_of(t, options, "tokens"), "tokens", &params->n_tokens);
    params->sampler = task_use_optional(t, member_of(t, options, "sampler"), SAMPLER);
    params->grammar = task_use_optional(t, member_of(t, options, "grammar"), GRAMMAR);
    params->stops = texts_of(t, member_of(t, options, "stops"), "stops", &params->n_stops);
    params->cancel = task_use_optional(t, member_of(t, options, "cancel"), CANCEL);
    params->draft = choice_member(t, options, "draft", RZ_DRAFT_NAMES);
    params->draft_max = (uint32_t)uint_member(t, options, "draftMax", UINT32_MAX);
    params->draft_model = task_use_optional(t, member_of(t, options, "draftModel"), MODEL);
    params->priority = int_member(t, options, "priority");
    params->prompt = task_use_optional(t, member_of(t, options, "prompt"), PROMPT);
    params->prompt_first = uint_member(t, options, "promptFirst", MOST);
}

void set_rz_store_params(task *t, napi_value options, void *at) {
    rz_store_params *params = at;
    params->struct_size = sizeof *params;
    params->min_tokens = (uint32_t)uint_member(t, options, "minTokens", UINT32_MAX);
    params->memory_limit = uint_member(t, options, "memoryLimit", MOST);
    params->path = terminated_member(t, options, "path");
    params->max_entries = uint_member(t, options, "maxEntries", MOST);
    params->disk_limit = uint_member(t, options, "diskLimit", MOST);
}

void set_rz_conversation_params(task *t, napi_value options, void *at) {
    rz_conversation_params *params = at;
    params->struct_size = sizeof *params;
    params->overflow = choice_member(t, options, "overflow", RZ_OVERFLOW_NAMES);
    params->json = string_member(t, options, "json", &params->json_len);
    params->cache = struct_of(t, member_of(t, options, "cache"), sizeof(rz_cache_params), set_rz_cache_params);
    params->adapters = handles_of(t, member_of(t, options, "adapters"), "adapters", ADAPTER, &params->n_adapters);
    size_t n_scales = 0;
    params->scales = floats_of(t, member_of(t, options, "scales"), "scales", &n_scales);
    check_count(t, params->scales, "scales", n_scales, params->n_adapters, "adapters");
    params->store = task_use_optional(t, member_of(t, options, "store"), STORE);
}

void set_rz_reply_params(task *t, napi_value options, void *at) {
    rz_reply_params *params = at;
    params->struct_size = sizeof *params;
    params->max_tokens = (uint32_t)uint_member(t, options, "maxTokens", UINT32_MAX);
    params->sampler = struct_of(t, member_of(t, options, "sampling"), sizeof(rz_sampler_params), set_rz_sampler_params);
    params->grammar_kind = choice_member(t, options, "grammarKind", RZ_GRAMMAR_NAMES);
    if (bool_member(t, options, "whitespace")) params->grammar_flags |= RZ_GRAMMAR_FLAG_WHITESPACE;
    if (bool_member(t, options, "keep")) params->flags |= RZ_REPLY_KEEP;
    if (bool_member(t, options, "continue")) params->flags |= RZ_REPLY_CONTINUE;
    params->grammar = string_member(t, options, "grammar", &params->grammar_len);
    params->stops = texts_of(t, member_of(t, options, "stops"), "stops", &params->n_stops);
    params->reasoning = choice_member(t, options, "reasoning", RZ_REASONING_NAMES);
    params->reasoning_tokens = (uint32_t)uint_member(t, options, "reasoningTokens", UINT32_MAX);
    params->draft = choice_member(t, options, "draft", RZ_DRAFT_NAMES);
    params->draft_max = (uint32_t)uint_member(t, options, "draftMax", UINT32_MAX);
    params->draft_model = task_use_optional(t, member_of(t, options, "draftModel"), MODEL);
    params->logprobs = or_none_member(t, options, "logprobs");
    params->priority = int_member(t, options, "priority");
    params->cancel = task_use_optional(t, member_of(t, options, "cancel"), CANCEL);
    params->json = string_member(t, options, "json", &params->json_len);
}

void set_rz_embed_params(task *t, napi_value options, void *at) {
    rz_embed_params *params = at;
    params->struct_size = sizeof *params;
    params->pooling = choice_member(t, options, "pooling", RZ_POOLING_NAMES);
    if (bool_member(t, options, "raw")) params->flags |= RZ_EMBED_RAW;
}
