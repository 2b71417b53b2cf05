// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

//go:build !cgo

package realizar

// functions is every function of the library.
type functions struct {
	rz_abi_version                func() uint32
	rz_version                    func() string
	rz_version_number             func() uint32
	rz_features                   func() uint32
	rz_status_name                func(status int32) string
	rz_device_count               func() uint32
	rz_device_info_get            func(index uint32, out *rz_device_info, err *rz_error) int32
	rz_runtime_new                func(params *rz_runtime_params, out **rz_runtime, err *rz_error) int32
	rz_runtime_free               func(runtime *rz_runtime)
	rz_runtime_threads_set        func(runtime *rz_runtime, threads uint32, err *rz_error) int32
	rz_runtime_memory_limit_set   func(runtime *rz_runtime, memory_limit uint64, err *rz_error) int32
	rz_runtime_info_get           func(runtime *rz_runtime, out *rz_runtime_info, err *rz_error) int32
	rz_cancel_new                 func(out **rz_cancel, err *rz_error) int32
	rz_cancel_free                func(cancel *rz_cancel)
	rz_cancel_fire                func(cancel *rz_cancel)
	rz_cancel_deadline            func(cancel *rz_cancel, us_from_now uint64, err *rz_error) int32
	rz_cancel_reset               func(cancel *rz_cancel)
	rz_cancel_is_fired            func(cancel *rz_cancel) int32
	rz_model_load                 func(path *byte, params *rz_model_params, out **rz_model, err *rz_error) int32
	rz_model_free                 func(model *rz_model)
	rz_model_sampling_get         func(model *rz_model, out *rz_model_sampling, err *rz_error) int32
	rz_model_meta_into            func(model *rz_model, key *byte, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_model_meta_key_into        func(model *rz_model, index uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_model_meta_element_into    func(model *rz_model, key *byte, index uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_model_info_get             func(model *rz_model, out *rz_model_info, err *rz_error) int32
	rz_model_device_get           func(model *rz_model, index uint32, out *rz_model_device, err *rz_error) int32
	rz_model_load_from            func(sources *rz_source, n uintptr, params *rz_model_params, out **rz_model, err *rz_error) int32
	rz_hub_choose_into            func(model *byte, model_len uintptr, listing *byte, listing_len uintptr, memory uint64, flags uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_tokenize_into              func(model *rz_model, text *byte, text_len uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_detokenize_into            func(model *rz_model, tokens *uint32, n uintptr, flags uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_token_is_end               func(model *rz_model, token uint32) int32
	rz_token_bytes_into           func(model *rz_model, token uint32, out *byte, capacity uintptr, len *uintptr, attributes *uint32, err *rz_error) int32
	rz_textstream_new             func(model *rz_model, out **rz_textstream, err *rz_error) int32
	rz_textstream_follow          func(stream *rz_textstream, tokens *uint32, n uintptr, err *rz_error) int32
	rz_textstream_push_into       func(stream *rz_textstream, token uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_textstream_flush_into      func(stream *rz_textstream, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_textstream_free            func(stream *rz_textstream)
	rz_chat_render_into           func(model *rz_model, json *byte, json_len uintptr, flags uint32, out *byte, capacity uintptr, len *uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_chat_tokenize_into         func(model *rz_model, json *byte, json_len uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_chat_parser_new            func(model *rz_model, json *byte, json_len uintptr, cancel *rz_cancel, out **rz_chat_parser, err *rz_error) int32
	rz_chat_parser_push           func(parser *rz_chat_parser, token uint32, err *rz_error) int32
	rz_chat_parser_end            func(parser *rz_chat_parser, err *rz_error) int32
	rz_chat_parser_next_into      func(parser *rz_chat_parser, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_chat_parser_free           func(parser *rz_chat_parser)
	rz_sampler_new                func(params *rz_sampler_params, out **rz_sampler, err *rz_error) int32
	rz_sampler_free               func(sampler *rz_sampler)
	rz_grammar_new                func(model *rz_model, kind uint32, flags uint32, text *byte, len uintptr, cancel *rz_cancel, out **rz_grammar, err *rz_error) int32
	rz_grammar_free               func(grammar *rz_grammar)
	rz_sampler_grammar_set        func(sampler *rz_sampler, grammar *rz_grammar, err *rz_error) int32
	rz_cache_new                  func(model *rz_model, params *rz_cache_params, out **rz_cache, err *rz_error) int32
	rz_cache_free                 func(cache *rz_cache)
	rz_cache_len                  func(cache *rz_cache) uint32
	rz_cache_capacity             func(cache *rz_cache) uint32
	rz_cache_truncate             func(cache *rz_cache, len uint32, err *rz_error) int32
	rz_cache_cancel_set           func(cache *rz_cache, cancel *rz_cancel, err *rz_error) int32
	rz_cache_fork                 func(cache *rz_cache, out **rz_cache, err *rz_error) int32
	rz_cache_match                func(cache *rz_cache, tokens *uint32, n uintptr, common *uint32, err *rz_error) int32
	rz_cache_tokens_into          func(cache *rz_cache, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_cache_shift                func(cache *rz_cache, keep uint32, drop uint32, err *rz_error) int32
	rz_cache_release              func(cache *rz_cache, err *rz_error) int32
	rz_adapter_load               func(model *rz_model, path *byte, params *rz_adapter_params, out **rz_adapter, err *rz_error) int32
	rz_adapter_load_from          func(model *rz_model, sources *rz_source, n uintptr, params *rz_adapter_params, out **rz_adapter, err *rz_error) int32
	rz_adapter_free               func(adapter *rz_adapter)
	rz_cache_adapters_set         func(cache *rz_cache, adapters **rz_adapter, scales *float32, n uintptr, err *rz_error) int32
	rz_cache_save                 func(cache *rz_cache, write uintptr, user uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_cache_load                 func(model *rz_model, params *rz_cache_params, read uintptr, user uintptr, cancel *rz_cancel, out **rz_cache, err *rz_error) int32
	rz_model_plan_get             func(path *byte, sources *rz_source, n uintptr, params *rz_model_params, cache_params *rz_cache_params, n_caches uint32, out *rz_model_plan, devices *rz_model_plan_device, capacity uintptr, n_devices *uintptr, err *rz_error) int32
	rz_prefill                    func(cache *rz_cache, tokens *uint32, n uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_decode_token               func(cache *rz_cache, token uint32, sampler *rz_sampler, next *uint32, err *rz_error) int32
	rz_generate_into              func(cache *rz_cache, token uint32, sampler *rz_sampler, out *uint32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_decode_batch               func(caches **rz_cache, tokens *uint32, n uintptr, samplers **rz_sampler, next *uint32, err *rz_error) int32
	rz_logits_into                func(cache *rz_cache, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_sample                     func(cache *rz_cache, sampler *rz_sampler, token *uint32, err *rz_error) int32
	rz_media_from_rows            func(model *rz_model, kind uint32, rows *float32, n_rows uintptr, row_dim uint32, columns uint32, lines uint32, out **rz_media, err *rz_error) int32
	rz_media_from_tokens          func(model *rz_model, tokens *uint32, n uintptr, cancel *rz_cancel, out **rz_media, err *rz_error) int32
	rz_media_info_get             func(media *rz_media, out *rz_media_info, err *rz_error) int32
	rz_media_rows_into            func(media *rz_media, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_media_save                 func(media *rz_media, write uintptr, user uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_media_load                 func(model *rz_model, read uintptr, user uintptr, cancel *rz_cancel, out **rz_media, err *rz_error) int32
	rz_media_free                 func(media *rz_media)
	rz_encoder_load               func(model *rz_model, path *byte, params *rz_encoder_params, out **rz_encoder, err *rz_error) int32
	rz_encoder_load_from          func(model *rz_model, sources *rz_source, n uintptr, params *rz_encoder_params, out **rz_encoder, err *rz_error) int32
	rz_encoder_free               func(encoder *rz_encoder)
	rz_encoder_info_get           func(encoder *rz_encoder, out *rz_encoder_info, err *rz_error) int32
	rz_encoder_plan_get           func(model *rz_model, path *byte, sources *rz_source, n uintptr, params *rz_encoder_params, out *rz_encoder_plan, err *rz_error) int32
	rz_media_from_pixels          func(encoder *rz_encoder, pixels *rz_pixels, params *rz_media_params, out **rz_media, err *rz_error) int32
	rz_media_from_image           func(encoder *rz_encoder, data *byte, size uintptr, params *rz_media_params, out **rz_media, err *rz_error) int32
	rz_media_measure              func(encoder *rz_encoder, width uint32, height uint32, params *rz_media_params, out *rz_media_info, err *rz_error) int32
	rz_media_from_samples         func(encoder *rz_encoder, samples *float32, n uintptr, channels uint32, rate uint32, params *rz_media_params, out **rz_media, err *rz_error) int32
	rz_media_from_audio           func(encoder *rz_encoder, data *byte, size uintptr, params *rz_media_params, out **rz_media, err *rz_error) int32
	rz_media_from_frames          func(encoder *rz_encoder, frames *rz_pixels, times *float64, n uintptr, params *rz_media_params, out **rz_media, err *rz_error) int32
	rz_media_step                 func(media *rz_media, budget_us uint64, err *rz_error) int32
	rz_prompt_new                 func(model *rz_model, parts *rz_part, n uintptr, flags uint32, out **rz_prompt, err *rz_error) int32
	rz_prompt_from_chat           func(model *rz_model, json *byte, json_len uintptr, flags uint32, media **rz_media, n_media uintptr, cancel *rz_cancel, out **rz_prompt, err *rz_error) int32
	rz_prompt_free                func(prompt *rz_prompt)
	rz_prompt_len                 func(prompt *rz_prompt) uintptr
	rz_prompt_tokens_into         func(prompt *rz_prompt, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_cache_match_prompt         func(cache *rz_cache, prompt *rz_prompt, common *uint32, err *rz_error) int32
	rz_prefill_prompt             func(cache *rz_cache, prompt *rz_prompt, first uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_job_new                    func(cache *rz_cache, params *rz_job_params, out **rz_job, err *rz_error) int32
	rz_job_step                   func(job *rz_job, budget_us uint64, err *rz_error) int32
	rz_jobs_step                  func(jobs **rz_job, n uintptr, budget_us uint64, err *rz_error) int32
	rz_job_error                  func(job *rz_job, err *rz_error) int32
	rz_job_text_into              func(job *rz_job, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_job_next_into              func(job *rz_job, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_job_tokens_into            func(job *rz_job, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_job_logprobs_into          func(job *rz_job, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_job_info_get               func(job *rz_job, out *rz_job_info, err *rz_error) int32
	rz_job_free                   func(job *rz_job)
	rz_store_new                  func(model *rz_model, params *rz_store_params, out **rz_store, err *rz_error) int32
	rz_store_take                 func(store *rz_store, tokens *uint32, n uintptr, params *rz_cache_params, cancel *rz_cancel, out **rz_cache, common *uint32, err *rz_error) int32
	rz_store_take_prompt          func(store *rz_store, prompt *rz_prompt, params *rz_cache_params, cancel *rz_cancel, out **rz_cache, common *uint32, err *rz_error) int32
	rz_store_put                  func(store *rz_store, cache *rz_cache, err *rz_error) int32
	rz_store_clear                func(store *rz_store, err *rz_error) int32
	rz_store_info_get             func(store *rz_store, out *rz_store_info, err *rz_error) int32
	rz_store_free                 func(store *rz_store)
	rz_conversation_new           func(model *rz_model, params *rz_conversation_params, out **rz_conversation, err *rz_error) int32
	rz_conversation_add           func(conversation *rz_conversation, json *byte, len uintptr, media **rz_media, n_media uintptr, err *rz_error) int32
	rz_conversation_add_text      func(conversation *rz_conversation, role *byte, text *byte, len uintptr, err *rz_error) int32
	rz_conversation_reply         func(conversation *rz_conversation, params *rz_reply_params, err *rz_error) int32
	rz_conversation_step          func(conversation *rz_conversation, budget_us uint64, err *rz_error) int32
	rz_conversations_step         func(conversations **rz_conversation, n uintptr, budget_us uint64, err *rz_error) int32
	rz_conversation_next_into     func(conversation *rz_conversation, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_conversation_stop          func(conversation *rz_conversation, err *rz_error) int32
	rz_conversation_error         func(conversation *rz_conversation, err *rz_error) int32
	rz_conversation_logprobs_into func(conversation *rz_conversation, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_conversation_json_into     func(conversation *rz_conversation, first uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_conversation_rewind        func(conversation *rz_conversation, n_messages uint32, err *rz_error) int32
	rz_conversation_fork          func(conversation *rz_conversation, out **rz_conversation, err *rz_error) int32
	rz_conversation_info_get      func(conversation *rz_conversation, out *rz_conversation_info, err *rz_error) int32
	rz_conversation_free          func(conversation *rz_conversation)
	rz_conversation_say           func(conversation *rz_conversation, text *byte, params *rz_reply_params, on_text uintptr, user uintptr, err *rz_error) int32
	rz_conversation_read          func(conversation *rz_conversation, params *rz_reply_params, err *rz_error) int32
	rz_conversation_release       func(conversation *rz_conversation, err *rz_error) int32
	rz_conversation_capacity_set  func(conversation *rz_conversation, capacity uint32, err *rz_error) int32
	rz_conversation_overflow_set  func(conversation *rz_conversation, mode uint32, err *rz_error) int32
	rz_conversation_cancel_set    func(conversation *rz_conversation, cancel *rz_cancel, err *rz_error) int32
	rz_conversation_adapters_set  func(conversation *rz_conversation, adapters **rz_adapter, scales *float32, n_adapters uintptr, err *rz_error) int32
	rz_conversation_store_set     func(conversation *rz_conversation, store *rz_store, err *rz_error) int32
	rz_conversation_save          func(conversation *rz_conversation, write uintptr, user uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_conversation_load          func(model *rz_model, params *rz_conversation_params, read uintptr, user uintptr, out **rz_conversation, err *rz_error) int32
	rz_conversation_media         func(conversation *rz_conversation, number uint32, out **rz_media, err *rz_error) int32
	rz_top_logprobs               func(cache *rz_cache, k uint32, tokens *uint32, logprobs *float32, n *uintptr, err *rz_error) int32
	rz_score                      func(cache *rz_cache, tokens *uint32, n uintptr, logprobs *float32, cancel *rz_cancel, err *rz_error) int32
	rz_embed_into                 func(model *rz_model, params *rz_embed_params, tokens **uint32, lengths *uintptr, n_texts uintptr, out *float32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_embed_prompts_into         func(model *rz_model, params *rz_embed_params, prompts **rz_prompt, n_prompts uintptr, out *float32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32
	rz_metrics_get                func(model *rz_model, out *rz_metrics, err *rz_error) int32
	rz_backend_metrics_get        func(model *rz_model, device_kind uint32, out *rz_backend_metrics, err *rz_error) int32
	rz_metrics_reset              func(model *rz_model)
	rz_layout_get                 func(index uint32, out *rz_layout, err *rz_error) int32
}
