/* The options of structs of realizar.h. The build writes this file: make header. */

#include "internal.h"

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

const choice RZ_CACHE_TYPE_NAMES[] = {
    {"default", RZ_TYPE_DEFAULT},
    {"f32", RZ_TYPE_F32},
    {"f16", RZ_TYPE_F16},
    {"q4_0", RZ_TYPE_Q4_0},
    {"q8_0", RZ_TYPE_Q8_0},
    {NULL, 0},
};

const choice RZ_REASONING_NAMES[] = {
    {"model", RZ_REASONING_MODEL},
    {"off", RZ_REASONING_OFF},
    {"on", RZ_REASONING_ON},
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

void set_rz_runtime_params(task *t, napi_value options, rz_runtime_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, threads);
    U64(t, options, params, memory_limit);
}

void set_rz_model_params(task *t, napi_value options, rz_model_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, device);
    if (bool_member(t, options, "deterministic")) params->flags |= RZ_MODEL_DETERMINISTIC;
    if (bool_member(t, options, "mmap")) params->flags |= RZ_MODEL_MMAP;
    if (bool_member(t, options, "text_only")) params->flags |= RZ_MODEL_TEXT_ONLY;
    if (bool_member(t, options, "mtp")) params->flags |= RZ_MODEL_MTP;
    if (bool_member(t, options, "allow_unknown")) params->flags |= RZ_MODEL_ALLOW_UNKNOWN;
    if (bool_member(t, options, "bf16_products")) params->flags |= RZ_MODEL_BF16_PRODUCTS;
    params->gpu_layers = or_none_member(t, options, "gpu_layers");
    params->quantize = choice_member(t, options, "quantize", RZ_TYPE_NAMES);
    U32(t, options, params, mixed_prefill_tokens);
    params->experts_copied_from = or_none_member(t, options, "experts_copied_from");
}

void set_rz_sampler_params(task *t, napi_value options, rz_sampler_params *params) {
    params->struct_size = sizeof *params;
    F32(t, options, params, temperature);
    U32(t, options, params, top_k);
    F32(t, options, params, top_p);
    F32(t, options, params, min_p);
    F32(t, options, params, repeat_penalty);
    F32(t, options, params, presence_penalty);
    F32(t, options, params, frequency_penalty);
    U32(t, options, params, penalty_window);
    if (bool_member(t, options, "temperature_first")) params->flags |= RZ_SAMPLER_TEMPERATURE_FIRST;
    U64(t, options, params, seed);
    F32(t, options, params, typical_p);
    F32(t, options, params, top_n_sigma);
    F32(t, options, params, xtc_probability);
    F32(t, options, params, xtc_threshold);
    F32(t, options, params, temperature_range);
    F32(t, options, params, temperature_exponent);
    F32(t, options, params, mirostat_tau);
    F32(t, options, params, mirostat_eta);
    F32(t, options, params, dry_multiplier);
    F32(t, options, params, dry_base);
    U32(t, options, params, dry_allowed_length);
    U32(t, options, params, dry_window);
    U32(t, options, params, no_repeat_ngram_size);
}

void set_rz_cache_params(task *t, napi_value options, rz_cache_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, capacity);
    params->k_type = choice_member(t, options, "k_type", RZ_CACHE_TYPE_NAMES);
    params->v_type = choice_member(t, options, "v_type", RZ_CACHE_TYPE_NAMES);
}

void set_rz_encoder_params(task *t, napi_value options, rz_encoder_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, device);
    params->quantize = choice_member(t, options, "quantize", RZ_TYPE_NAMES);
    U32(t, options, params, max_rows);
}

void set_rz_media_params(task *t, napi_value options, rz_media_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, min_rows);
    U32(t, options, params, max_rows);
    U32(t, options, params, max_tiles);
    U32(t, options, params, max_pixels);
    U32(t, options, params, background);
}

void set_rz_job_params(task *t, napi_value options, rz_job_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, max_tokens);
    U32(t, options, params, draft_max);
    params->priority = int_member(t, options, "priority");
}

void set_rz_store_params(task *t, napi_value options, rz_store_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, min_tokens);
    U64(t, options, params, memory_limit);
    U64(t, options, params, max_entries);
    U64(t, options, params, disk_limit);
}

void set_rz_reply_params(task *t, napi_value options, rz_reply_params *params) {
    params->struct_size = sizeof *params;
    U32(t, options, params, max_tokens);
    if (bool_member(t, options, "keep")) params->flags |= RZ_REPLY_KEEP;
    if (bool_member(t, options, "continue")) params->flags |= RZ_REPLY_CONTINUE;
    params->reasoning = choice_member(t, options, "reasoning", RZ_REASONING_NAMES);
    U32(t, options, params, reasoning_tokens);
    U32(t, options, params, draft_max);
    params->logprobs = or_none_member(t, options, "logprobs");
    params->priority = int_member(t, options, "priority");
}

void set_rz_embed_params(task *t, napi_value options, rz_embed_params *params) {
    params->struct_size = sizeof *params;
    params->pooling = choice_member(t, options, "pooling", RZ_POOLING_NAMES);
    if (bool_member(t, options, "raw")) params->flags |= RZ_EMBED_RAW;
}
