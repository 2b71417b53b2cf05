/* What the addon uses of realizar.h, for macros. The build writes this file: make header. */

#define FUNCTIONS(FUNCTION) \
    FUNCTION(rz_abi_version) \
    FUNCTION(rz_adapter_free) \
    FUNCTION(rz_adapter_load) \
    FUNCTION(rz_cache_adapters_set) \
    FUNCTION(rz_cache_capacity) \
    FUNCTION(rz_cache_fork) \
    FUNCTION(rz_cache_free) \
    FUNCTION(rz_cache_len) \
    FUNCTION(rz_cache_load) \
    FUNCTION(rz_cache_match) \
    FUNCTION(rz_cache_match_prompt) \
    FUNCTION(rz_cache_new) \
    FUNCTION(rz_cache_save) \
    FUNCTION(rz_cache_tokens_into) \
    FUNCTION(rz_cache_truncate) \
    FUNCTION(rz_cancel_fire) \
    FUNCTION(rz_cancel_free) \
    FUNCTION(rz_cancel_new) \
    FUNCTION(rz_conversation_adapters_set) \
    FUNCTION(rz_conversation_add) \
    FUNCTION(rz_conversation_add_text) \
    FUNCTION(rz_conversation_capacity_set) \
    FUNCTION(rz_conversation_fork) \
    FUNCTION(rz_conversation_free) \
    FUNCTION(rz_conversation_info_get) \
    FUNCTION(rz_conversation_json_into) \
    FUNCTION(rz_conversation_load) \
    FUNCTION(rz_conversation_logprobs_into) \
    FUNCTION(rz_conversation_media) \
    FUNCTION(rz_conversation_new) \
    FUNCTION(rz_conversation_next_into) \
    FUNCTION(rz_conversation_overflow_set) \
    FUNCTION(rz_conversation_read) \
    FUNCTION(rz_conversation_release) \
    FUNCTION(rz_conversation_reply) \
    FUNCTION(rz_conversation_rewind) \
    FUNCTION(rz_conversation_save) \
    FUNCTION(rz_conversation_step) \
    FUNCTION(rz_conversation_store_set) \
    FUNCTION(rz_conversations_step) \
    FUNCTION(rz_detokenize_into) \
    FUNCTION(rz_device_count) \
    FUNCTION(rz_device_info_get) \
    FUNCTION(rz_embed_into) \
    FUNCTION(rz_embed_prompts_into) \
    FUNCTION(rz_encoder_free) \
    FUNCTION(rz_encoder_info_get) \
    FUNCTION(rz_encoder_load) \
    FUNCTION(rz_encoder_load_from) \
    FUNCTION(rz_encoder_plan_get) \
    FUNCTION(rz_grammar_free) \
    FUNCTION(rz_grammar_new) \
    FUNCTION(rz_hub_choose_into) \
    FUNCTION(rz_job_free) \
    FUNCTION(rz_job_info_get) \
    FUNCTION(rz_job_new) \
    FUNCTION(rz_job_step) \
    FUNCTION(rz_job_text_into) \
    FUNCTION(rz_layout_get) \
    FUNCTION(rz_media_free) \
    FUNCTION(rz_media_from_audio) \
    FUNCTION(rz_media_from_frames) \
    FUNCTION(rz_media_from_image) \
    FUNCTION(rz_media_from_pixels) \
    FUNCTION(rz_media_from_rows) \
    FUNCTION(rz_media_from_samples) \
    FUNCTION(rz_media_info_get) \
    FUNCTION(rz_media_load) \
    FUNCTION(rz_media_measure) \
    FUNCTION(rz_media_rows_into) \
    FUNCTION(rz_media_save) \
    FUNCTION(rz_media_step) \
    FUNCTION(rz_model_device_get) \
    FUNCTION(rz_model_free) \
    FUNCTION(rz_model_info_get) \
    FUNCTION(rz_model_load) \
    FUNCTION(rz_model_load_from) \
    FUNCTION(rz_model_meta_into) \
    FUNCTION(rz_model_plan_get) \
    FUNCTION(rz_model_sampling_get) \
    FUNCTION(rz_prompt_free) \
    FUNCTION(rz_prompt_from_chat) \
    FUNCTION(rz_prompt_len) \
    FUNCTION(rz_prompt_new) \
    FUNCTION(rz_prompt_tokens_into) \
    FUNCTION(rz_runtime_free) \
    FUNCTION(rz_runtime_new) \
    FUNCTION(rz_sampler_free) \
    FUNCTION(rz_sampler_new) \
    FUNCTION(rz_status_name) \
    FUNCTION(rz_store_clear) \
    FUNCTION(rz_store_free) \
    FUNCTION(rz_store_info_get) \
    FUNCTION(rz_store_new) \
    FUNCTION(rz_tokenize_into) \
    FUNCTION(rz_version)
#define STRUCTS(STRUCT, FIELD) \
    STRUCT(rz_error) \
    FIELD(rz_error, code) \
    FIELD(rz_error, system_code) \
    FIELD(rz_error, needed) \
    FIELD(rz_error, message) \
    STRUCT(rz_device_info) \
    FIELD(rz_device_info, struct_size) \
    FIELD(rz_device_info, index) \
    FIELD(rz_device_info, id) \
    FIELD(rz_device_info, name) \
    FIELD(rz_device_info, kind) \
    FIELD(rz_device_info, available) \
    FIELD(rz_device_info, isa) \
    FIELD(rz_device_info, memory_total) \
    FIELD(rz_device_info, memory_free) \
    FIELD(rz_device_info, unavailable) \
    STRUCT(rz_runtime_params) \
    FIELD(rz_runtime_params, struct_size) \
    FIELD(rz_runtime_params, threads) \
    FIELD(rz_runtime_params, memory_limit) \
    FIELD(rz_runtime_params, cpus) \
    FIELD(rz_runtime_params, n_cpus) \
    FIELD(rz_runtime_params, log) \
    FIELD(rz_runtime_params, log_user) \
    FIELD(rz_runtime_params, parallel) \
    FIELD(rz_runtime_params, parallel_user) \
    FIELD(rz_runtime_params, on_thread) \
    FIELD(rz_runtime_params, on_thread_user) \
    STRUCT(rz_runtime_info) \
    FIELD(rz_runtime_info, struct_size) \
    FIELD(rz_runtime_info, threads) \
    FIELD(rz_runtime_info, template_threads) \
    FIELD(rz_runtime_info, reserved) \
    FIELD(rz_runtime_info, memory_used) \
    FIELD(rz_runtime_info, memory_peak) \
    FIELD(rz_runtime_info, memory_limit) \
    STRUCT(rz_placement) \
    FIELD(rz_placement, struct_size) \
    FIELD(rz_placement, what) \
    FIELD(rz_placement, place) \
    FIELD(rz_placement, first_layer) \
    FIELD(rz_placement, n_layers) \
    FIELD(rz_placement, reserved) \
    FIELD(rz_placement, bytes) \
    STRUCT(rz_model_params) \
    FIELD(rz_model_params, struct_size) \
    FIELD(rz_model_params, device) \
    FIELD(rz_model_params, runtime) \
    FIELD(rz_model_params, flags) \
    FIELD(rz_model_params, gpu_layers) \
    FIELD(rz_model_params, quantize) \
    FIELD(rz_model_params, mixed_prefill_tokens) \
    FIELD(rz_model_params, progress) \
    FIELD(rz_model_params, progress_user) \
    FIELD(rz_model_params, cancel) \
    FIELD(rz_model_params, packed_path) \
    FIELD(rz_model_params, devices) \
    FIELD(rz_model_params, n_devices) \
    FIELD(rz_model_params, device_split) \
    FIELD(rz_model_params, placements) \
    FIELD(rz_model_params, n_placements) \
    FIELD(rz_model_params, tested_path) \
    FIELD(rz_model_params, chat_template) \
    FIELD(rz_model_params, chat_template_len) \
    FIELD(rz_model_params, experts_copied_from) \
    FIELD(rz_model_params, reserved) \
    STRUCT(rz_model_sampling) \
    FIELD(rz_model_sampling, struct_size) \
    FIELD(rz_model_sampling, advised) \
    FIELD(rz_model_sampling, temperature) \
    FIELD(rz_model_sampling, top_k) \
    FIELD(rz_model_sampling, top_p) \
    FIELD(rz_model_sampling, min_p) \
    FIELD(rz_model_sampling, repeat_penalty) \
    FIELD(rz_model_sampling, penalty_window) \
    STRUCT(rz_model_info) \
    FIELD(rz_model_info, struct_size) \
    FIELD(rz_model_info, architecture) \
    FIELD(rz_model_info, name) \
    FIELD(rz_model_info, n_layers) \
    FIELD(rz_model_info, hidden_dim) \
    FIELD(rz_model_info, ffn_dim) \
    FIELD(rz_model_info, n_heads) \
    FIELD(rz_model_info, n_kv_heads) \
    FIELD(rz_model_info, head_dim) \
    FIELD(rz_model_info, vocab_size) \
    FIELD(rz_model_info, context_length) \
    FIELD(rz_model_info, device) \
    FIELD(rz_model_info, bos_token) \
    FIELD(rz_model_info, eos_token) \
    FIELD(rz_model_info, n_params) \
    FIELD(rz_model_info, weight_bytes) \
    FIELD(rz_model_info, gpu_layers) \
    FIELD(rz_model_info, chat_template) \
    FIELD(rz_model_info, n_unknown) \
    FIELD(rz_model_info, experts_host_first) \
    FIELD(rz_model_info, experts_host) \
    FIELD(rz_model_info, experts_device) \
    FIELD(rz_model_info, experts_host_layers) \
    FIELD(rz_model_info, reads_source) \
    FIELD(rz_model_info, isa) \
    FIELD(rz_model_info, experts_copied_from) \
    FIELD(rz_model_info, capabilities) \
    FIELD(rz_model_info, embedding_dim) \
    FIELD(rz_model_info, pooling) \
    FIELD(rz_model_info, n_scores) \
    FIELD(rz_model_info, n_devices) \
    STRUCT(rz_model_device) \
    FIELD(rz_model_device, struct_size) \
    FIELD(rz_model_device, device) \
    FIELD(rz_model_device, n_layers) \
    STRUCT(rz_source) \
    FIELD(rz_source, struct_size) \
    FIELD(rz_source, kind) \
    FIELD(rz_source, name) \
    FIELD(rz_source, data) \
    FIELD(rz_source, size) \
    FIELD(rz_source, fd) \
    FIELD(rz_source, reserved) \
    FIELD(rz_source, offset) \
    FIELD(rz_source, read) \
    FIELD(rz_source, user) \
    STRUCT(rz_logit_bias) \
    FIELD(rz_logit_bias, token) \
    FIELD(rz_logit_bias, bias) \
    STRUCT(rz_token_sequence) \
    FIELD(rz_token_sequence, tokens) \
    FIELD(rz_token_sequence, n_tokens) \
    STRUCT(rz_sampler_params) \
    FIELD(rz_sampler_params, struct_size) \
    FIELD(rz_sampler_params, temperature) \
    FIELD(rz_sampler_params, top_k) \
    FIELD(rz_sampler_params, top_p) \
    FIELD(rz_sampler_params, min_p) \
    FIELD(rz_sampler_params, repeat_penalty) \
    FIELD(rz_sampler_params, presence_penalty) \
    FIELD(rz_sampler_params, frequency_penalty) \
    FIELD(rz_sampler_params, penalty_window) \
    FIELD(rz_sampler_params, flags) \
    FIELD(rz_sampler_params, seed) \
    FIELD(rz_sampler_params, biases) \
    FIELD(rz_sampler_params, n_biases) \
    FIELD(rz_sampler_params, typical_p) \
    FIELD(rz_sampler_params, top_n_sigma) \
    FIELD(rz_sampler_params, xtc_probability) \
    FIELD(rz_sampler_params, xtc_threshold) \
    FIELD(rz_sampler_params, temperature_range) \
    FIELD(rz_sampler_params, temperature_exponent) \
    FIELD(rz_sampler_params, mirostat_tau) \
    FIELD(rz_sampler_params, mirostat_eta) \
    FIELD(rz_sampler_params, dry_multiplier) \
    FIELD(rz_sampler_params, dry_base) \
    FIELD(rz_sampler_params, dry_allowed_length) \
    FIELD(rz_sampler_params, dry_window) \
    FIELD(rz_sampler_params, no_repeat_ngram_size) \
    FIELD(rz_sampler_params, reserved) \
    FIELD(rz_sampler_params, dry_breakers) \
    FIELD(rz_sampler_params, n_dry_breakers) \
    FIELD(rz_sampler_params, banned_sequences) \
    FIELD(rz_sampler_params, n_banned_sequences) \
    FIELD(rz_sampler_params, order) \
    FIELD(rz_sampler_params, n_order) \
    FIELD(rz_sampler_params, edit_logits) \
    FIELD(rz_sampler_params, edit_logits_user) \
    STRUCT(rz_cache_params) \
    FIELD(rz_cache_params, struct_size) \
    FIELD(rz_cache_params, capacity) \
    FIELD(rz_cache_params, k_type) \
    FIELD(rz_cache_params, v_type) \
    STRUCT(rz_adapter_params) \
    FIELD(rz_adapter_params, struct_size) \
    FIELD(rz_adapter_params, flags) \
    FIELD(rz_adapter_params, cancel) \
    STRUCT(rz_model_plan) \
    FIELD(rz_model_plan, struct_size) \
    FIELD(rz_model_plan, gpu_layers) \
    FIELD(rz_model_plan, weights_host) \
    FIELD(rz_model_plan, weights_device) \
    FIELD(rz_model_plan, cache_host) \
    FIELD(rz_model_plan, cache_device) \
    FIELD(rz_model_plan, cache_token) \
    FIELD(rz_model_plan, scratch_host) \
    FIELD(rz_model_plan, scratch_device) \
    FIELD(rz_model_plan, load_peak_host) \
    FIELD(rz_model_plan, total_host) \
    FIELD(rz_model_plan, total_device) \
    FIELD(rz_model_plan, experts_host_first) \
    FIELD(rz_model_plan, experts_host_layers) \
    FIELD(rz_model_plan, experts_host) \
    FIELD(rz_model_plan, experts_device) \
    STRUCT(rz_model_plan_device) \
    FIELD(rz_model_plan_device, struct_size) \
    FIELD(rz_model_plan_device, device) \
    FIELD(rz_model_plan_device, n_layers) \
    FIELD(rz_model_plan_device, reserved) \
    FIELD(rz_model_plan_device, weights) \
    FIELD(rz_model_plan_device, cache) \
    FIELD(rz_model_plan_device, scratch) \
    FIELD(rz_model_plan_device, total) \
    STRUCT(rz_media_info) \
    FIELD(rz_media_info, struct_size) \
    FIELD(rz_media_info, kind) \
    FIELD(rz_media_info, n_rows) \
    FIELD(rz_media_info, n_tokens) \
    FIELD(rz_media_info, row_dim) \
    FIELD(rz_media_info, columns) \
    FIELD(rz_media_info, lines) \
    FIELD(rz_media_info, tile_columns) \
    FIELD(rz_media_info, tile_lines) \
    FIELD(rz_media_info, has_overview) \
    FIELD(rz_media_info, width) \
    FIELD(rz_media_info, height) \
    FIELD(rz_media_info, seen_width) \
    FIELD(rz_media_info, seen_height) \
    FIELD(rz_media_info, bytes) \
    FIELD(rz_media_info, encode_ns) \
    FIELD(rz_media_info, hash) \
    FIELD(rz_media_info, pairs) \
    FIELD(rz_media_info, reserved) \
    STRUCT(rz_encoder_params) \
    FIELD(rz_encoder_params, struct_size) \
    FIELD(rz_encoder_params, flags) \
    FIELD(rz_encoder_params, device) \
    FIELD(rz_encoder_params, quantize) \
    FIELD(rz_encoder_params, max_rows) \
    FIELD(rz_encoder_params, reserved) \
    FIELD(rz_encoder_params, progress) \
    FIELD(rz_encoder_params, progress_user) \
    FIELD(rz_encoder_params, cancel) \
    STRUCT(rz_encoder_info) \
    FIELD(rz_encoder_info, struct_size) \
    FIELD(rz_encoder_info, is_mutual) \
    FIELD(rz_encoder_info, projector) \
    FIELD(rz_encoder_info, row_dim) \
    FIELD(rz_encoder_info, n_layers) \
    FIELD(rz_encoder_info, tile_side) \
    FIELD(rz_encoder_info, grain) \
    FIELD(rz_encoder_info, min_rows) \
    FIELD(rz_encoder_info, max_rows) \
    FIELD(rz_encoder_info, weight_bytes) \
    FIELD(rz_encoder_info, scratch_bytes) \
    FIELD(rz_encoder_info, kinds) \
    FIELD(rz_encoder_info, sample_rate) \
    FIELD(rz_encoder_info, device) \
    FIELD(rz_encoder_info, reserved) \
    STRUCT(rz_encoder_plan) \
    FIELD(rz_encoder_plan, struct_size) \
    FIELD(rz_encoder_plan, max_rows) \
    FIELD(rz_encoder_plan, weights_host) \
    FIELD(rz_encoder_plan, scratch_host) \
    FIELD(rz_encoder_plan, row) \
    FIELD(rz_encoder_plan, weights_device) \
    FIELD(rz_encoder_plan, scratch_device) \
    FIELD(rz_encoder_plan, device) \
    FIELD(rz_encoder_plan, reserved) \
    STRUCT(rz_pixels) \
    FIELD(rz_pixels, struct_size) \
    FIELD(rz_pixels, format) \
    FIELD(rz_pixels, width) \
    FIELD(rz_pixels, height) \
    FIELD(rz_pixels, stride) \
    FIELD(rz_pixels, data) \
    STRUCT(rz_media_params) \
    FIELD(rz_media_params, struct_size) \
    FIELD(rz_media_params, min_rows) \
    FIELD(rz_media_params, max_rows) \
    FIELD(rz_media_params, max_tiles) \
    FIELD(rz_media_params, max_pixels) \
    FIELD(rz_media_params, flags) \
    FIELD(rz_media_params, progress) \
    FIELD(rz_media_params, progress_user) \
    FIELD(rz_media_params, cancel) \
    FIELD(rz_media_params, background) \
    FIELD(rz_media_params, reserved) \
    STRUCT(rz_part) \
    FIELD(rz_part, tokens) \
    FIELD(rz_part, n_tokens) \
    FIELD(rz_part, media) \
    STRUCT(rz_job_params) \
    FIELD(rz_job_params, struct_size) \
    FIELD(rz_job_params, max_tokens) \
    FIELD(rz_job_params, tokens) \
    FIELD(rz_job_params, n_tokens) \
    FIELD(rz_job_params, sampler) \
    FIELD(rz_job_params, grammar) \
    FIELD(rz_job_params, stops) \
    FIELD(rz_job_params, n_stops) \
    FIELD(rz_job_params, cancel) \
    FIELD(rz_job_params, flags) \
    FIELD(rz_job_params, reserved) \
    FIELD(rz_job_params, draft) \
    FIELD(rz_job_params, draft_max) \
    FIELD(rz_job_params, draft_model) \
    FIELD(rz_job_params, logprobs) \
    FIELD(rz_job_params, priority) \
    FIELD(rz_job_params, chat) \
    FIELD(rz_job_params, chat_len) \
    FIELD(rz_job_params, prompt) \
    FIELD(rz_job_params, prompt_first) \
    STRUCT(rz_job_info) \
    FIELD(rz_job_info, struct_size) \
    FIELD(rz_job_info, state) \
    FIELD(rz_job_info, end_reason) \
    FIELD(rz_job_info, stopped) \
    FIELD(rz_job_info, prompt_total) \
    FIELD(rz_job_info, prompt_done) \
    FIELD(rz_job_info, n_tokens) \
    FIELD(rz_job_info, cache_len) \
    FIELD(rz_job_info, prompt_ns) \
    FIELD(rz_job_info, tokens_ns) \
    FIELD(rz_job_info, first_token_ns) \
    FIELD(rz_job_info, drafted) \
    FIELD(rz_job_info, accepted) \
    STRUCT(rz_store_params) \
    FIELD(rz_store_params, struct_size) \
    FIELD(rz_store_params, min_tokens) \
    FIELD(rz_store_params, memory_limit) \
    FIELD(rz_store_params, path) \
    FIELD(rz_store_params, max_entries) \
    FIELD(rz_store_params, disk_limit) \
    STRUCT(rz_store_info) \
    FIELD(rz_store_info, struct_size) \
    FIELD(rz_store_info, n_entries) \
    FIELD(rz_store_info, n_files) \
    FIELD(rz_store_info, n_unwritten) \
    FIELD(rz_store_info, memory_bytes) \
    FIELD(rz_store_info, disk_bytes) \
    FIELD(rz_store_info, hits) \
    FIELD(rz_store_info, misses) \
    FIELD(rz_store_info, reused_tokens) \
    FIELD(rz_store_info, memory_limit) \
    FIELD(rz_store_info, disk_limit) \
    STRUCT(rz_conversation_params) \
    FIELD(rz_conversation_params, struct_size) \
    FIELD(rz_conversation_params, overflow) \
    FIELD(rz_conversation_params, json) \
    FIELD(rz_conversation_params, json_len) \
    FIELD(rz_conversation_params, cache) \
    FIELD(rz_conversation_params, adapters) \
    FIELD(rz_conversation_params, scales) \
    FIELD(rz_conversation_params, n_adapters) \
    FIELD(rz_conversation_params, cancel) \
    FIELD(rz_conversation_params, store) \
    STRUCT(rz_reply_params) \
    FIELD(rz_reply_params, struct_size) \
    FIELD(rz_reply_params, max_tokens) \
    FIELD(rz_reply_params, sampler) \
    FIELD(rz_reply_params, grammar_kind) \
    FIELD(rz_reply_params, grammar_flags) \
    FIELD(rz_reply_params, flags) \
    FIELD(rz_reply_params, reserved) \
    FIELD(rz_reply_params, grammar) \
    FIELD(rz_reply_params, grammar_len) \
    FIELD(rz_reply_params, compiled_grammar) \
    FIELD(rz_reply_params, stops) \
    FIELD(rz_reply_params, n_stops) \
    FIELD(rz_reply_params, reasoning) \
    FIELD(rz_reply_params, reasoning_tokens) \
    FIELD(rz_reply_params, draft) \
    FIELD(rz_reply_params, draft_max) \
    FIELD(rz_reply_params, draft_model) \
    FIELD(rz_reply_params, logprobs) \
    FIELD(rz_reply_params, priority) \
    FIELD(rz_reply_params, cancel) \
    FIELD(rz_reply_params, json) \
    FIELD(rz_reply_params, json_len) \
    STRUCT(rz_conversation_info) \
    FIELD(rz_conversation_info, struct_size) \
    FIELD(rz_conversation_info, n_messages) \
    FIELD(rz_conversation_info, first_in_prompt) \
    FIELD(rz_conversation_info, state) \
    FIELD(rz_conversation_info, end_reason) \
    FIELD(rz_conversation_info, stopped) \
    FIELD(rz_conversation_info, prompt_tokens) \
    FIELD(rz_conversation_info, reused_tokens) \
    FIELD(rz_conversation_info, prompt_done) \
    FIELD(rz_conversation_info, n_tokens) \
    FIELD(rz_conversation_info, reasoning_tokens) \
    FIELD(rz_conversation_info, drafted) \
    FIELD(rz_conversation_info, accepted) \
    FIELD(rz_conversation_info, cache_len) \
    FIELD(rz_conversation_info, cache_capacity) \
    FIELD(rz_conversation_info, n_media) \
    FIELD(rz_conversation_info, prompt_ns) \
    FIELD(rz_conversation_info, tokens_ns) \
    FIELD(rz_conversation_info, first_token_ns) \
    STRUCT(rz_embed_params) \
    FIELD(rz_embed_params, struct_size) \
    FIELD(rz_embed_params, pooling) \
    FIELD(rz_embed_params, flags) \
    FIELD(rz_embed_params, reserved) \
    STRUCT(rz_phase_metrics) \
    FIELD(rz_phase_metrics, count) \
    FIELD(rz_phase_metrics, sum_ns) \
    STRUCT(rz_metrics) \
    FIELD(rz_metrics, struct_size) \
    FIELD(rz_metrics, reserved) \
    FIELD(rz_metrics, load) \
    FIELD(rz_metrics, tokenize) \
    FIELD(rz_metrics, prefill) \
    FIELD(rz_metrics, decode) \
    FIELD(rz_metrics, sample) \
    FIELD(rz_metrics, detokenize) \
    FIELD(rz_metrics, gpu_products) \
    FIELD(rz_metrics, gpu_attention) \
    FIELD(rz_metrics, gpu_experts) \
    FIELD(rz_metrics, gpu_head) \
    FIELD(rz_metrics, gpu_other) \
    FIELD(rz_metrics, encode) \
    STRUCT(rz_backend_metrics) \
    FIELD(rz_backend_metrics, struct_size) \
    FIELD(rz_backend_metrics, device_kind) \
    FIELD(rz_backend_metrics, dispatches) \
    FIELD(rz_backend_metrics, bytes) \
    FIELD(rz_backend_metrics, latency_sum_ns) \
    FIELD(rz_backend_metrics, latency_min_ns) \
    FIELD(rz_backend_metrics, latency_max_ns) \
    FIELD(rz_backend_metrics, latency_mean_ns) \
    FIELD(rz_backend_metrics, latency_variance_ns2) \
    FIELD(rz_backend_metrics, latency_histogram) \
    STRUCT(rz_layout) \
    FIELD(rz_layout, struct_size) \
    FIELD(rz_layout, offset) \
    FIELD(rz_layout, size) \
    FIELD(rz_layout, struct_name) \
    FIELD(rz_layout, field_name)

typedef enum kind { MODEL, CANCEL, STORE, ADAPTER, CONVERSATION, CACHE, JOB, ENCODER, MEDIA, PROMPT, RUNTIME, GRAMMAR, SAMPLER } kind;
