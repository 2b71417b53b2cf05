package realizar;

/** The functions by functions.c. The build writes this file: make header. */
final class JniFunctions implements Functions {
    @Override
    public native int rz_abi_version();
    @Override
    public native long rz_version();
    @Override
    public native int rz_version_number();
    @Override
    public native int rz_features();
    @Override
    public native long rz_status_name(int status);
    @Override
    public native int rz_device_count();
    @Override
    public native int rz_device_info_get(int index, long out, long err);
    @Override
    public native int rz_runtime_new(long params, long out, long err);
    @Override
    public native void rz_runtime_free(long runtime);
    @Override
    public native int rz_runtime_threads_set(long runtime, int threads, long err);
    @Override
    public native int rz_runtime_memory_limit_set(long runtime, long memory_limit, long err);
    @Override
    public native int rz_runtime_info_get(long runtime, long out, long err);
    @Override
    public native int rz_cancel_new(long out, long err);
    @Override
    public native void rz_cancel_free(long cancel);
    @Override
    public native void rz_cancel_fire(long cancel);
    @Override
    public native int rz_cancel_deadline(long cancel, long us_from_now, long err);
    @Override
    public native void rz_cancel_reset(long cancel);
    @Override
    public native int rz_cancel_is_fired(long cancel);
    @Override
    public native int rz_model_load(long path, long params, long out, long err);
    @Override
    public native void rz_model_free(long model);
    @Override
    public native int rz_model_sampling_get(long model, long out, long err);
    @Override
    public native int rz_model_meta_into(long model, long key, long out, long capacity, long len, long err);
    @Override
    public native int rz_model_meta_key_into(long model, long index, long out, long capacity, long len, long err);
    @Override
    public native int rz_model_meta_element_into(long model, long key, long index, long out, long capacity, long len, long err);
    @Override
    public native int rz_model_info_get(long model, long out, long err);
    @Override
    public native int rz_model_device_get(long model, int index, long out, long err);
    @Override
    public native int rz_model_load_from(long sources, long n, long params, long out, long err);
    @Override
    public native int rz_hub_choose_into(long model, long model_len, long listing, long listing_len, long memory, int flags, long out, long capacity, long len, long err);
    @Override
    public native int rz_tokenize_into(long model, long text, long text_len, int flags, long out, long capacity, long n, long cancel, long err);
    @Override
    public native int rz_detokenize_into(long model, long tokens, long n, int flags, long out, long capacity, long len, long err);
    @Override
    public native int rz_token_is_end(long model, int token);
    @Override
    public native int rz_token_bytes_into(long model, int token, long out, long capacity, long len, long attributes, long err);
    @Override
    public native int rz_textstream_new(long model, long out, long err);
    @Override
    public native int rz_textstream_follow(long stream, long tokens, long n, long err);
    @Override
    public native int rz_textstream_push_into(long stream, int token, long out, long capacity, long len, long err);
    @Override
    public native int rz_textstream_flush_into(long stream, long out, long capacity, long len, long err);
    @Override
    public native void rz_textstream_free(long stream);
    @Override
    public native int rz_chat_render_into(long model, long json, long json_len, int flags, long out, long capacity, long len, long cancel, long err);
    @Override
    public native int rz_chat_tokenize_into(long model, long json, long json_len, int flags, long out, long capacity, long n, long cancel, long err);
    @Override
    public native int rz_chat_parser_new(long model, long json, long json_len, long cancel, long out, long err);
    @Override
    public native int rz_chat_parser_push(long parser, int token, long err);
    @Override
    public native int rz_chat_parser_end(long parser, long err);
    @Override
    public native int rz_chat_parser_next_into(long parser, long kind, long flags, long index, long out, long capacity, long len, long err);
    @Override
    public native void rz_chat_parser_free(long parser);
    @Override
    public native int rz_sampler_new(long params, long out, long err);
    @Override
    public native void rz_sampler_free(long sampler);
    @Override
    public native int rz_grammar_new(long model, int kind, int flags, long text, long len, long cancel, long out, long err);
    @Override
    public native void rz_grammar_free(long grammar);
    @Override
    public native int rz_sampler_grammar_set(long sampler, long grammar, long err);
    @Override
    public native int rz_cache_new(long model, long params, long out, long err);
    @Override
    public native void rz_cache_free(long cache);
    @Override
    public native int rz_cache_len(long cache);
    @Override
    public native int rz_cache_capacity(long cache);
    @Override
    public native int rz_cache_truncate(long cache, int len, long err);
    @Override
    public native int rz_cache_cancel_set(long cache, long cancel, long err);
    @Override
    public native int rz_cache_fork(long cache, long out, long err);
    @Override
    public native int rz_cache_match(long cache, long tokens, long n, long common, long err);
    @Override
    public native int rz_cache_tokens_into(long cache, long out, long capacity, long n, long err);
    @Override
    public native int rz_cache_shift(long cache, int keep, int drop, long err);
    @Override
    public native int rz_cache_release(long cache, long err);
    @Override
    public native int rz_adapter_load(long model, long path, long params, long out, long err);
    @Override
    public native int rz_adapter_load_from(long model, long sources, long n, long params, long out, long err);
    @Override
    public native void rz_adapter_free(long adapter);
    @Override
    public native int rz_cache_adapters_set(long cache, long adapters, long scales, long n, long err);
    @Override
    public native int rz_cache_save(long cache, long write, long user, long cancel, long err);
    @Override
    public native int rz_cache_load(long model, long params, long read, long user, long cancel, long out, long err);
    @Override
    public native int rz_model_plan_get(long path, long sources, long n, long params, long cache_params, int n_caches, long out, long devices, long capacity, long n_devices, long err);
    @Override
    public native int rz_prefill(long cache, long tokens, long n, long cancel, long err);
    @Override
    public native int rz_decode_token(long cache, int token, long sampler, long next, long err);
    @Override
    public native int rz_generate_into(long cache, int token, long sampler, long out, long capacity, long n, long cancel, long err);
    @Override
    public native int rz_decode_batch(long caches, long tokens, long n, long samplers, long next, long err);
    @Override
    public native int rz_logits_into(long cache, long out, long capacity, long n, long err);
    @Override
    public native int rz_sample(long cache, long sampler, long token, long err);
    @Override
    public native int rz_media_from_rows(long model, int kind, long rows, long n_rows, int row_dim, int columns, int lines, long out, long err);
    @Override
    public native int rz_media_from_tokens(long model, long tokens, long n, long cancel, long out, long err);
    @Override
    public native int rz_media_info_get(long media, long out, long err);
    @Override
    public native int rz_media_rows_into(long media, long out, long capacity, long n, long err);
    @Override
    public native int rz_media_save(long media, long write, long user, long cancel, long err);
    @Override
    public native int rz_media_load(long model, long read, long user, long cancel, long out, long err);
    @Override
    public native void rz_media_free(long media);
    @Override
    public native int rz_encoder_load(long model, long path, long params, long out, long err);
    @Override
    public native int rz_encoder_load_from(long model, long sources, long n, long params, long out, long err);
    @Override
    public native void rz_encoder_free(long encoder);
    @Override
    public native int rz_encoder_info_get(long encoder, long out, long err);
    @Override
    public native int rz_encoder_plan_get(long model, long path, long sources, long n, long params, long out, long err);
    @Override
    public native int rz_media_from_pixels(long encoder, long pixels, long params, long out, long err);
    @Override
    public native int rz_media_from_image(long encoder, long data, long size, long params, long out, long err);
    @Override
    public native int rz_media_measure(long encoder, int width, int height, long params, long out, long err);
    @Override
    public native int rz_media_from_samples(long encoder, long samples, long n, int channels, int rate, long params, long out, long err);
    @Override
    public native int rz_media_from_audio(long encoder, long data, long size, long params, long out, long err);
    @Override
    public native int rz_media_from_frames(long encoder, long frames, long times, long n, long params, long out, long err);
    @Override
    public native int rz_media_step(long media, long budget_us, long err);
    @Override
    public native int rz_prompt_new(long model, long parts, long n, int flags, long out, long err);
    @Override
    public native int rz_prompt_from_chat(long model, long json, long json_len, int flags, long media, long n_media, long cancel, long out, long err);
    @Override
    public native void rz_prompt_free(long prompt);
    @Override
    public native long rz_prompt_len(long prompt);
    @Override
    public native int rz_prompt_tokens_into(long prompt, long out, long capacity, long n, long err);
    @Override
    public native int rz_cache_match_prompt(long cache, long prompt, long common, long err);
    @Override
    public native int rz_prefill_prompt(long cache, long prompt, long first, long cancel, long err);
    @Override
    public native int rz_job_new(long cache, long params, long out, long err);
    @Override
    public native int rz_job_step(long job, long budget_us, long err);
    @Override
    public native int rz_jobs_step(long jobs, long n, long budget_us, long err);
    @Override
    public native int rz_job_error(long job, long err);
    @Override
    public native int rz_job_text_into(long job, long out, long capacity, long len, long err);
    @Override
    public native int rz_job_next_into(long job, long kind, long flags, long index, long out, long capacity, long len, long err);
    @Override
    public native int rz_job_tokens_into(long job, long out, long capacity, long n, long err);
    @Override
    public native int rz_job_logprobs_into(long job, long tokens, long logprobs, long capacity, long n, long err);
    @Override
    public native int rz_job_info_get(long job, long out, long err);
    @Override
    public native void rz_job_free(long job);
    @Override
    public native int rz_store_new(long model, long params, long out, long err);
    @Override
    public native int rz_store_take(long store, long tokens, long n, long params, long cancel, long out, long common, long err);
    @Override
    public native int rz_store_take_prompt(long store, long prompt, long params, long cancel, long out, long common, long err);
    @Override
    public native int rz_store_put(long store, long cache, long err);
    @Override
    public native int rz_store_clear(long store, long err);
    @Override
    public native int rz_store_info_get(long store, long out, long err);
    @Override
    public native void rz_store_free(long store);
    @Override
    public native int rz_conversation_new(long model, long params, long out, long err);
    @Override
    public native int rz_conversation_add(long conversation, long json, long len, long media, long n_media, long err);
    @Override
    public native int rz_conversation_add_text(long conversation, long role, long text, long len, long err);
    @Override
    public native int rz_conversation_reply(long conversation, long params, long err);
    @Override
    public native int rz_conversation_step(long conversation, long budget_us, long err);
    @Override
    public native int rz_conversations_step(long conversations, long n, long budget_us, long err);
    @Override
    public native int rz_conversation_next_into(long conversation, long kind, long flags, long index, long out, long capacity, long len, long err);
    @Override
    public native int rz_conversation_stop(long conversation, long err);
    @Override
    public native int rz_conversation_error(long conversation, long err);
    @Override
    public native int rz_conversation_logprobs_into(long conversation, long tokens, long logprobs, long capacity, long n, long err);
    @Override
    public native int rz_conversation_json_into(long conversation, int first, long out, long capacity, long len, long err);
    @Override
    public native int rz_conversation_rewind(long conversation, int n_messages, long err);
    @Override
    public native int rz_conversation_fork(long conversation, long out, long err);
    @Override
    public native int rz_conversation_info_get(long conversation, long out, long err);
    @Override
    public native void rz_conversation_free(long conversation);
    @Override
    public native int rz_conversation_say(long conversation, long text, long params, long on_text, long user, long err);
    @Override
    public native int rz_conversation_read(long conversation, long params, long err);
    @Override
    public native int rz_conversation_release(long conversation, long err);
    @Override
    public native int rz_conversation_capacity_set(long conversation, int capacity, long err);
    @Override
    public native int rz_conversation_overflow_set(long conversation, int mode, long err);
    @Override
    public native int rz_conversation_cancel_set(long conversation, long cancel, long err);
    @Override
    public native int rz_conversation_adapters_set(long conversation, long adapters, long scales, long n_adapters, long err);
    @Override
    public native int rz_conversation_store_set(long conversation, long store, long err);
    @Override
    public native int rz_conversation_save(long conversation, long write, long user, long cancel, long err);
    @Override
    public native int rz_conversation_load(long model, long params, long read, long user, long out, long err);
    @Override
    public native int rz_conversation_media(long conversation, int number, long out, long err);
    @Override
    public native int rz_top_logprobs(long cache, int k, long tokens, long logprobs, long n, long err);
    @Override
    public native int rz_score(long cache, long tokens, long n, long logprobs, long cancel, long err);
    @Override
    public native int rz_embed_into(long model, long params, long tokens, long lengths, long n_texts, long out, long capacity, long n, long cancel, long err);
    @Override
    public native int rz_embed_prompts_into(long model, long params, long prompts, long n_prompts, long out, long capacity, long n, long cancel, long err);
    @Override
    public native int rz_metrics_get(long model, long out, long err);
    @Override
    public native int rz_backend_metrics_get(long model, int device_kind, long out, long err);
    @Override
    public native void rz_metrics_reset(long model);
    @Override
    public native int rz_layout_get(int index, long out, long err);
}
