package realizar;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.invoke.MethodHandle;

/** The functions by the foreign functions of Java. The build writes this file: make header. */
final class FfmFunctions implements Functions {
    private static final MethodHandle rz_abi_version = Ffm.function("rz_abi_version", FunctionDescriptor.of(JAVA_INT));
    private static final MethodHandle rz_version = Ffm.function("rz_version", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle rz_version_number = Ffm.function("rz_version_number", FunctionDescriptor.of(JAVA_INT));
    private static final MethodHandle rz_features = Ffm.function("rz_features", FunctionDescriptor.of(JAVA_INT));
    private static final MethodHandle rz_status_name = Ffm.function("rz_status_name", FunctionDescriptor.of(JAVA_LONG, JAVA_INT));
    private static final MethodHandle rz_device_count = Ffm.function("rz_device_count", FunctionDescriptor.of(JAVA_INT));
    private static final MethodHandle rz_device_info_get = Ffm.function("rz_device_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_runtime_new = Ffm.function("rz_runtime_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_runtime_free = Ffm.function("rz_runtime_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_runtime_threads_set = Ffm.function("rz_runtime_threads_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_runtime_memory_limit_set = Ffm.function("rz_runtime_memory_limit_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_runtime_info_get = Ffm.function("rz_runtime_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cancel_new = Ffm.function("rz_cancel_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cancel_free = Ffm.function("rz_cancel_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_cancel_fire = Ffm.function("rz_cancel_fire", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_cancel_deadline = Ffm.function("rz_cancel_deadline", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cancel_reset = Ffm.function("rz_cancel_reset", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_cancel_is_fired = Ffm.function("rz_cancel_is_fired", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_model_load = Ffm.function("rz_model_load", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_free = Ffm.function("rz_model_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_model_sampling_get = Ffm.function("rz_model_sampling_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_meta_into = Ffm.function("rz_model_meta_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_meta_key_into = Ffm.function("rz_model_meta_key_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_meta_element_into = Ffm.function("rz_model_meta_element_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_info_get = Ffm.function("rz_model_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_device_get = Ffm.function("rz_model_device_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_load_from = Ffm.function("rz_model_load_from", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_hub_choose_into = Ffm.function("rz_hub_choose_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_tokenize_into = Ffm.function("rz_tokenize_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_detokenize_into = Ffm.function("rz_detokenize_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_token_is_end = Ffm.function("rz_token_is_end", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT));
    private static final MethodHandle rz_token_bytes_into = Ffm.function("rz_token_bytes_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_textstream_new = Ffm.function("rz_textstream_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_textstream_follow = Ffm.function("rz_textstream_follow", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_textstream_push_into = Ffm.function("rz_textstream_push_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_textstream_flush_into = Ffm.function("rz_textstream_flush_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_textstream_free = Ffm.function("rz_textstream_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_chat_render_into = Ffm.function("rz_chat_render_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_chat_tokenize_into = Ffm.function("rz_chat_tokenize_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_chat_parser_new = Ffm.function("rz_chat_parser_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_chat_parser_push = Ffm.function("rz_chat_parser_push", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_chat_parser_end = Ffm.function("rz_chat_parser_end", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_chat_parser_next_into = Ffm.function("rz_chat_parser_next_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_chat_parser_free = Ffm.function("rz_chat_parser_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_sampler_new = Ffm.function("rz_sampler_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_sampler_free = Ffm.function("rz_sampler_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_grammar_new = Ffm.function("rz_grammar_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_grammar_free = Ffm.function("rz_grammar_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_sampler_grammar_set = Ffm.function("rz_sampler_grammar_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_new = Ffm.function("rz_cache_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_free = Ffm.function("rz_cache_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_cache_len = Ffm.function("rz_cache_len", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_cache_capacity = Ffm.function("rz_cache_capacity", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_cache_truncate = Ffm.function("rz_cache_truncate", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_cache_cancel_set = Ffm.function("rz_cache_cancel_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_fork = Ffm.function("rz_cache_fork", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_match = Ffm.function("rz_cache_match", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_tokens_into = Ffm.function("rz_cache_tokens_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_shift = Ffm.function("rz_cache_shift", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_cache_release = Ffm.function("rz_cache_release", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_adapter_load = Ffm.function("rz_adapter_load", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_adapter_load_from = Ffm.function("rz_adapter_load_from", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_adapter_free = Ffm.function("rz_adapter_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_cache_adapters_set = Ffm.function("rz_cache_adapters_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_save = Ffm.function("rz_cache_save", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_load = Ffm.function("rz_cache_load", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_model_plan_get = Ffm.function("rz_model_plan_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_prefill = Ffm.function("rz_prefill", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_decode_token = Ffm.function("rz_decode_token", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_generate_into = Ffm.function("rz_generate_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_decode_batch = Ffm.function("rz_decode_batch", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_logits_into = Ffm.function("rz_logits_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_sample = Ffm.function("rz_sample", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_rows = Ffm.function("rz_media_from_rows", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_tokens = Ffm.function("rz_media_from_tokens", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_info_get = Ffm.function("rz_media_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_rows_into = Ffm.function("rz_media_rows_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_save = Ffm.function("rz_media_save", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_load = Ffm.function("rz_media_load", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_free = Ffm.function("rz_media_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_encoder_load = Ffm.function("rz_encoder_load", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_encoder_load_from = Ffm.function("rz_encoder_load_from", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_encoder_free = Ffm.function("rz_encoder_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_encoder_info_get = Ffm.function("rz_encoder_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_encoder_plan_get = Ffm.function("rz_encoder_plan_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_pixels = Ffm.function("rz_media_from_pixels", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_image = Ffm.function("rz_media_from_image", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_measure = Ffm.function("rz_media_measure", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_samples = Ffm.function("rz_media_from_samples", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_audio = Ffm.function("rz_media_from_audio", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_from_frames = Ffm.function("rz_media_from_frames", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_media_step = Ffm.function("rz_media_step", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_prompt_new = Ffm.function("rz_prompt_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_prompt_from_chat = Ffm.function("rz_prompt_from_chat", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_prompt_free = Ffm.function("rz_prompt_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_prompt_len = Ffm.function("rz_prompt_len", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_prompt_tokens_into = Ffm.function("rz_prompt_tokens_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_cache_match_prompt = Ffm.function("rz_cache_match_prompt", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_prefill_prompt = Ffm.function("rz_prefill_prompt", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_new = Ffm.function("rz_job_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_step = Ffm.function("rz_job_step", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_jobs_step = Ffm.function("rz_jobs_step", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_error = Ffm.function("rz_job_error", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_text_into = Ffm.function("rz_job_text_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_next_into = Ffm.function("rz_job_next_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_tokens_into = Ffm.function("rz_job_tokens_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_logprobs_into = Ffm.function("rz_job_logprobs_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_info_get = Ffm.function("rz_job_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_job_free = Ffm.function("rz_job_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_store_new = Ffm.function("rz_store_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_store_take = Ffm.function("rz_store_take", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_store_take_prompt = Ffm.function("rz_store_take_prompt", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_store_put = Ffm.function("rz_store_put", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_store_clear = Ffm.function("rz_store_clear", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_store_info_get = Ffm.function("rz_store_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_store_free = Ffm.function("rz_store_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_conversation_new = Ffm.function("rz_conversation_new", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_add = Ffm.function("rz_conversation_add", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_add_text = Ffm.function("rz_conversation_add_text", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_reply = Ffm.function("rz_conversation_reply", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_step = Ffm.function("rz_conversation_step", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversations_step = Ffm.function("rz_conversations_step", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_next_into = Ffm.function("rz_conversation_next_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_stop = Ffm.function("rz_conversation_stop", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_error = Ffm.function("rz_conversation_error", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_logprobs_into = Ffm.function("rz_conversation_logprobs_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_json_into = Ffm.function("rz_conversation_json_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_rewind = Ffm.function("rz_conversation_rewind", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_conversation_fork = Ffm.function("rz_conversation_fork", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_info_get = Ffm.function("rz_conversation_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_free = Ffm.function("rz_conversation_free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_conversation_say = Ffm.function("rz_conversation_say", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_read = Ffm.function("rz_conversation_read", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_release = Ffm.function("rz_conversation_release", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_capacity_set = Ffm.function("rz_conversation_capacity_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_conversation_overflow_set = Ffm.function("rz_conversation_overflow_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));
    private static final MethodHandle rz_conversation_cancel_set = Ffm.function("rz_conversation_cancel_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_adapters_set = Ffm.function("rz_conversation_adapters_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_store_set = Ffm.function("rz_conversation_store_set", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_save = Ffm.function("rz_conversation_save", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_load = Ffm.function("rz_conversation_load", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_conversation_media = Ffm.function("rz_conversation_media", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_top_logprobs = Ffm.function("rz_top_logprobs", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_score = Ffm.function("rz_score", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_embed_into = Ffm.function("rz_embed_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_embed_prompts_into = Ffm.function("rz_embed_prompts_into", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_metrics_get = Ffm.function("rz_metrics_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_backend_metrics_get = Ffm.function("rz_backend_metrics_get", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle rz_metrics_reset = Ffm.function("rz_metrics_reset", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle rz_layout_get = Ffm.function("rz_layout_get", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG));

    @Override
    public int rz_abi_version() {
        try {
            return (int) rz_abi_version.invokeExact();
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public long rz_version() {
        try {
            return (long) rz_version.invokeExact();
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_version_number() {
        try {
            return (int) rz_version_number.invokeExact();
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_features() {
        try {
            return (int) rz_features.invokeExact();
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public long rz_status_name(int status) {
        try {
            return (long) rz_status_name.invokeExact(status);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_device_count() {
        try {
            return (int) rz_device_count.invokeExact();
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_device_info_get(int index, long out, long err) {
        try {
            return (int) rz_device_info_get.invokeExact(index, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_runtime_new(long params, long out, long err) {
        try {
            return (int) rz_runtime_new.invokeExact(params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_runtime_free(long runtime) {
        try {
            rz_runtime_free.invokeExact(runtime);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_runtime_threads_set(long runtime, int threads, long err) {
        try {
            return (int) rz_runtime_threads_set.invokeExact(runtime, threads, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_runtime_memory_limit_set(long runtime, long memory_limit, long err) {
        try {
            return (int) rz_runtime_memory_limit_set.invokeExact(runtime, memory_limit, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_runtime_info_get(long runtime, long out, long err) {
        try {
            return (int) rz_runtime_info_get.invokeExact(runtime, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cancel_new(long out, long err) {
        try {
            return (int) rz_cancel_new.invokeExact(out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_cancel_free(long cancel) {
        try {
            rz_cancel_free.invokeExact(cancel);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_cancel_fire(long cancel) {
        try {
            rz_cancel_fire.invokeExact(cancel);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cancel_deadline(long cancel, long us_from_now, long err) {
        try {
            return (int) rz_cancel_deadline.invokeExact(cancel, us_from_now, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_cancel_reset(long cancel) {
        try {
            rz_cancel_reset.invokeExact(cancel);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cancel_is_fired(long cancel) {
        try {
            return (int) rz_cancel_is_fired.invokeExact(cancel);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_load(long path, long params, long out, long err) {
        try {
            return (int) rz_model_load.invokeExact(path, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_model_free(long model) {
        try {
            rz_model_free.invokeExact(model);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_sampling_get(long model, long out, long err) {
        try {
            return (int) rz_model_sampling_get.invokeExact(model, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_meta_into(long model, long key, long out, long capacity, long len, long err) {
        try {
            return (int) rz_model_meta_into.invokeExact(model, key, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_meta_key_into(long model, long index, long out, long capacity, long len, long err) {
        try {
            return (int) rz_model_meta_key_into.invokeExact(model, index, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_meta_element_into(long model, long key, long index, long out, long capacity, long len, long err) {
        try {
            return (int) rz_model_meta_element_into.invokeExact(model, key, index, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_info_get(long model, long out, long err) {
        try {
            return (int) rz_model_info_get.invokeExact(model, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_device_get(long model, int index, long out, long err) {
        try {
            return (int) rz_model_device_get.invokeExact(model, index, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_load_from(long sources, long n, long params, long out, long err) {
        try {
            return (int) rz_model_load_from.invokeExact(sources, n, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_hub_choose_into(long model, long model_len, long listing, long listing_len, long memory, int flags, long out, long capacity, long len, long err) {
        try {
            return (int) rz_hub_choose_into.invokeExact(model, model_len, listing, listing_len, memory, flags, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_tokenize_into(long model, long text, long text_len, int flags, long out, long capacity, long n, long cancel, long err) {
        try {
            return (int) rz_tokenize_into.invokeExact(model, text, text_len, flags, out, capacity, n, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_detokenize_into(long model, long tokens, long n, int flags, long out, long capacity, long len, long err) {
        try {
            return (int) rz_detokenize_into.invokeExact(model, tokens, n, flags, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_token_is_end(long model, int token) {
        try {
            return (int) rz_token_is_end.invokeExact(model, token);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_token_bytes_into(long model, int token, long out, long capacity, long len, long attributes, long err) {
        try {
            return (int) rz_token_bytes_into.invokeExact(model, token, out, capacity, len, attributes, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_textstream_new(long model, long out, long err) {
        try {
            return (int) rz_textstream_new.invokeExact(model, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_textstream_follow(long stream, long tokens, long n, long err) {
        try {
            return (int) rz_textstream_follow.invokeExact(stream, tokens, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_textstream_push_into(long stream, int token, long out, long capacity, long len, long err) {
        try {
            return (int) rz_textstream_push_into.invokeExact(stream, token, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_textstream_flush_into(long stream, long out, long capacity, long len, long err) {
        try {
            return (int) rz_textstream_flush_into.invokeExact(stream, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_textstream_free(long stream) {
        try {
            rz_textstream_free.invokeExact(stream);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_chat_render_into(long model, long json, long json_len, int flags, long out, long capacity, long len, long cancel, long err) {
        try {
            return (int) rz_chat_render_into.invokeExact(model, json, json_len, flags, out, capacity, len, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_chat_tokenize_into(long model, long json, long json_len, int flags, long out, long capacity, long n, long cancel, long err) {
        try {
            return (int) rz_chat_tokenize_into.invokeExact(model, json, json_len, flags, out, capacity, n, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_chat_parser_new(long model, long json, long json_len, long cancel, long out, long err) {
        try {
            return (int) rz_chat_parser_new.invokeExact(model, json, json_len, cancel, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_chat_parser_push(long parser, int token, long err) {
        try {
            return (int) rz_chat_parser_push.invokeExact(parser, token, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_chat_parser_end(long parser, long err) {
        try {
            return (int) rz_chat_parser_end.invokeExact(parser, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_chat_parser_next_into(long parser, long kind, long flags, long index, long out, long capacity, long len, long err) {
        try {
            return (int) rz_chat_parser_next_into.invokeExact(parser, kind, flags, index, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_chat_parser_free(long parser) {
        try {
            rz_chat_parser_free.invokeExact(parser);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_sampler_new(long params, long out, long err) {
        try {
            return (int) rz_sampler_new.invokeExact(params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_sampler_free(long sampler) {
        try {
            rz_sampler_free.invokeExact(sampler);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_grammar_new(long model, int kind, int flags, long text, long len, long cancel, long out, long err) {
        try {
            return (int) rz_grammar_new.invokeExact(model, kind, flags, text, len, cancel, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_grammar_free(long grammar) {
        try {
            rz_grammar_free.invokeExact(grammar);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_sampler_grammar_set(long sampler, long grammar, long err) {
        try {
            return (int) rz_sampler_grammar_set.invokeExact(sampler, grammar, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_new(long model, long params, long out, long err) {
        try {
            return (int) rz_cache_new.invokeExact(model, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_cache_free(long cache) {
        try {
            rz_cache_free.invokeExact(cache);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_len(long cache) {
        try {
            return (int) rz_cache_len.invokeExact(cache);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_capacity(long cache) {
        try {
            return (int) rz_cache_capacity.invokeExact(cache);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_truncate(long cache, int len, long err) {
        try {
            return (int) rz_cache_truncate.invokeExact(cache, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_cancel_set(long cache, long cancel, long err) {
        try {
            return (int) rz_cache_cancel_set.invokeExact(cache, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_fork(long cache, long out, long err) {
        try {
            return (int) rz_cache_fork.invokeExact(cache, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_match(long cache, long tokens, long n, long common, long err) {
        try {
            return (int) rz_cache_match.invokeExact(cache, tokens, n, common, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_tokens_into(long cache, long out, long capacity, long n, long err) {
        try {
            return (int) rz_cache_tokens_into.invokeExact(cache, out, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_shift(long cache, int keep, int drop, long err) {
        try {
            return (int) rz_cache_shift.invokeExact(cache, keep, drop, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_release(long cache, long err) {
        try {
            return (int) rz_cache_release.invokeExact(cache, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_adapter_load(long model, long path, long params, long out, long err) {
        try {
            return (int) rz_adapter_load.invokeExact(model, path, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_adapter_load_from(long model, long sources, long n, long params, long out, long err) {
        try {
            return (int) rz_adapter_load_from.invokeExact(model, sources, n, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_adapter_free(long adapter) {
        try {
            rz_adapter_free.invokeExact(adapter);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_adapters_set(long cache, long adapters, long scales, long n, long err) {
        try {
            return (int) rz_cache_adapters_set.invokeExact(cache, adapters, scales, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_save(long cache, long write, long user, long cancel, long err) {
        try {
            return (int) rz_cache_save.invokeExact(cache, write, user, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_load(long model, long params, long read, long user, long cancel, long out, long err) {
        try {
            return (int) rz_cache_load.invokeExact(model, params, read, user, cancel, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_model_plan_get(long path, long sources, long n, long params, long cache_params, int n_caches, long out, long devices, long capacity, long n_devices, long err) {
        try {
            return (int) rz_model_plan_get.invokeExact(path, sources, n, params, cache_params, n_caches, out, devices, capacity, n_devices, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_prefill(long cache, long tokens, long n, long cancel, long err) {
        try {
            return (int) rz_prefill.invokeExact(cache, tokens, n, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_decode_token(long cache, int token, long sampler, long next, long err) {
        try {
            return (int) rz_decode_token.invokeExact(cache, token, sampler, next, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_generate_into(long cache, int token, long sampler, long out, long capacity, long n, long cancel, long err) {
        try {
            return (int) rz_generate_into.invokeExact(cache, token, sampler, out, capacity, n, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_decode_batch(long caches, long tokens, long n, long samplers, long next, long err) {
        try {
            return (int) rz_decode_batch.invokeExact(caches, tokens, n, samplers, next, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_logits_into(long cache, long out, long capacity, long n, long err) {
        try {
            return (int) rz_logits_into.invokeExact(cache, out, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_sample(long cache, long sampler, long token, long err) {
        try {
            return (int) rz_sample.invokeExact(cache, sampler, token, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_rows(long model, int kind, long rows, long n_rows, int row_dim, int columns, int lines, long out, long err) {
        try {
            return (int) rz_media_from_rows.invokeExact(model, kind, rows, n_rows, row_dim, columns, lines, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_tokens(long model, long tokens, long n, long cancel, long out, long err) {
        try {
            return (int) rz_media_from_tokens.invokeExact(model, tokens, n, cancel, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_info_get(long media, long out, long err) {
        try {
            return (int) rz_media_info_get.invokeExact(media, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_rows_into(long media, long out, long capacity, long n, long err) {
        try {
            return (int) rz_media_rows_into.invokeExact(media, out, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_save(long media, long write, long user, long cancel, long err) {
        try {
            return (int) rz_media_save.invokeExact(media, write, user, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_load(long model, long read, long user, long cancel, long out, long err) {
        try {
            return (int) rz_media_load.invokeExact(model, read, user, cancel, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_media_free(long media) {
        try {
            rz_media_free.invokeExact(media);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_encoder_load(long model, long path, long params, long out, long err) {
        try {
            return (int) rz_encoder_load.invokeExact(model, path, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_encoder_load_from(long model, long sources, long n, long params, long out, long err) {
        try {
            return (int) rz_encoder_load_from.invokeExact(model, sources, n, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_encoder_free(long encoder) {
        try {
            rz_encoder_free.invokeExact(encoder);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_encoder_info_get(long encoder, long out, long err) {
        try {
            return (int) rz_encoder_info_get.invokeExact(encoder, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_encoder_plan_get(long model, long path, long sources, long n, long params, long out, long err) {
        try {
            return (int) rz_encoder_plan_get.invokeExact(model, path, sources, n, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_pixels(long encoder, long pixels, long params, long out, long err) {
        try {
            return (int) rz_media_from_pixels.invokeExact(encoder, pixels, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_image(long encoder, long data, long size, long params, long out, long err) {
        try {
            return (int) rz_media_from_image.invokeExact(encoder, data, size, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_measure(long encoder, int width, int height, long params, long out, long err) {
        try {
            return (int) rz_media_measure.invokeExact(encoder, width, height, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_samples(long encoder, long samples, long n, int channels, int rate, long params, long out, long err) {
        try {
            return (int) rz_media_from_samples.invokeExact(encoder, samples, n, channels, rate, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_audio(long encoder, long data, long size, long params, long out, long err) {
        try {
            return (int) rz_media_from_audio.invokeExact(encoder, data, size, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_from_frames(long encoder, long frames, long times, long n, long params, long out, long err) {
        try {
            return (int) rz_media_from_frames.invokeExact(encoder, frames, times, n, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_media_step(long media, long budget_us, long err) {
        try {
            return (int) rz_media_step.invokeExact(media, budget_us, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_prompt_new(long model, long parts, long n, int flags, long out, long err) {
        try {
            return (int) rz_prompt_new.invokeExact(model, parts, n, flags, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_prompt_from_chat(long model, long json, long json_len, int flags, long media, long n_media, long cancel, long out, long err) {
        try {
            return (int) rz_prompt_from_chat.invokeExact(model, json, json_len, flags, media, n_media, cancel, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_prompt_free(long prompt) {
        try {
            rz_prompt_free.invokeExact(prompt);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public long rz_prompt_len(long prompt) {
        try {
            return (long) rz_prompt_len.invokeExact(prompt);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_prompt_tokens_into(long prompt, long out, long capacity, long n, long err) {
        try {
            return (int) rz_prompt_tokens_into.invokeExact(prompt, out, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_cache_match_prompt(long cache, long prompt, long common, long err) {
        try {
            return (int) rz_cache_match_prompt.invokeExact(cache, prompt, common, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_prefill_prompt(long cache, long prompt, long first, long cancel, long err) {
        try {
            return (int) rz_prefill_prompt.invokeExact(cache, prompt, first, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_new(long cache, long params, long out, long err) {
        try {
            return (int) rz_job_new.invokeExact(cache, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_step(long job, long budget_us, long err) {
        try {
            return (int) rz_job_step.invokeExact(job, budget_us, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_jobs_step(long jobs, long n, long budget_us, long err) {
        try {
            return (int) rz_jobs_step.invokeExact(jobs, n, budget_us, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_error(long job, long err) {
        try {
            return (int) rz_job_error.invokeExact(job, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_text_into(long job, long out, long capacity, long len, long err) {
        try {
            return (int) rz_job_text_into.invokeExact(job, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_next_into(long job, long kind, long flags, long index, long out, long capacity, long len, long err) {
        try {
            return (int) rz_job_next_into.invokeExact(job, kind, flags, index, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_tokens_into(long job, long out, long capacity, long n, long err) {
        try {
            return (int) rz_job_tokens_into.invokeExact(job, out, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_logprobs_into(long job, long tokens, long logprobs, long capacity, long n, long err) {
        try {
            return (int) rz_job_logprobs_into.invokeExact(job, tokens, logprobs, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_job_info_get(long job, long out, long err) {
        try {
            return (int) rz_job_info_get.invokeExact(job, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_job_free(long job) {
        try {
            rz_job_free.invokeExact(job);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_store_new(long model, long params, long out, long err) {
        try {
            return (int) rz_store_new.invokeExact(model, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_store_take(long store, long tokens, long n, long params, long cancel, long out, long common, long err) {
        try {
            return (int) rz_store_take.invokeExact(store, tokens, n, params, cancel, out, common, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_store_take_prompt(long store, long prompt, long params, long cancel, long out, long common, long err) {
        try {
            return (int) rz_store_take_prompt.invokeExact(store, prompt, params, cancel, out, common, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_store_put(long store, long cache, long err) {
        try {
            return (int) rz_store_put.invokeExact(store, cache, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_store_clear(long store, long err) {
        try {
            return (int) rz_store_clear.invokeExact(store, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_store_info_get(long store, long out, long err) {
        try {
            return (int) rz_store_info_get.invokeExact(store, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_store_free(long store) {
        try {
            rz_store_free.invokeExact(store);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_new(long model, long params, long out, long err) {
        try {
            return (int) rz_conversation_new.invokeExact(model, params, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_add(long conversation, long json, long len, long media, long n_media, long err) {
        try {
            return (int) rz_conversation_add.invokeExact(conversation, json, len, media, n_media, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_add_text(long conversation, long role, long text, long len, long err) {
        try {
            return (int) rz_conversation_add_text.invokeExact(conversation, role, text, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_reply(long conversation, long params, long err) {
        try {
            return (int) rz_conversation_reply.invokeExact(conversation, params, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_step(long conversation, long budget_us, long err) {
        try {
            return (int) rz_conversation_step.invokeExact(conversation, budget_us, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversations_step(long conversations, long n, long budget_us, long err) {
        try {
            return (int) rz_conversations_step.invokeExact(conversations, n, budget_us, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_next_into(long conversation, long kind, long flags, long index, long out, long capacity, long len, long err) {
        try {
            return (int) rz_conversation_next_into.invokeExact(conversation, kind, flags, index, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_stop(long conversation, long err) {
        try {
            return (int) rz_conversation_stop.invokeExact(conversation, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_error(long conversation, long err) {
        try {
            return (int) rz_conversation_error.invokeExact(conversation, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_logprobs_into(long conversation, long tokens, long logprobs, long capacity, long n, long err) {
        try {
            return (int) rz_conversation_logprobs_into.invokeExact(conversation, tokens, logprobs, capacity, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_json_into(long conversation, int first, long out, long capacity, long len, long err) {
        try {
            return (int) rz_conversation_json_into.invokeExact(conversation, first, out, capacity, len, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_rewind(long conversation, int n_messages, long err) {
        try {
            return (int) rz_conversation_rewind.invokeExact(conversation, n_messages, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_fork(long conversation, long out, long err) {
        try {
            return (int) rz_conversation_fork.invokeExact(conversation, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_info_get(long conversation, long out, long err) {
        try {
            return (int) rz_conversation_info_get.invokeExact(conversation, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_conversation_free(long conversation) {
        try {
            rz_conversation_free.invokeExact(conversation);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_say(long conversation, long text, long params, long on_text, long user, long err) {
        try {
            return (int) rz_conversation_say.invokeExact(conversation, text, params, on_text, user, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_read(long conversation, long params, long err) {
        try {
            return (int) rz_conversation_read.invokeExact(conversation, params, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_release(long conversation, long err) {
        try {
            return (int) rz_conversation_release.invokeExact(conversation, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_capacity_set(long conversation, int capacity, long err) {
        try {
            return (int) rz_conversation_capacity_set.invokeExact(conversation, capacity, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_overflow_set(long conversation, int mode, long err) {
        try {
            return (int) rz_conversation_overflow_set.invokeExact(conversation, mode, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_cancel_set(long conversation, long cancel, long err) {
        try {
            return (int) rz_conversation_cancel_set.invokeExact(conversation, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_adapters_set(long conversation, long adapters, long scales, long n_adapters, long err) {
        try {
            return (int) rz_conversation_adapters_set.invokeExact(conversation, adapters, scales, n_adapters, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_store_set(long conversation, long store, long err) {
        try {
            return (int) rz_conversation_store_set.invokeExact(conversation, store, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_save(long conversation, long write, long user, long cancel, long err) {
        try {
            return (int) rz_conversation_save.invokeExact(conversation, write, user, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_load(long model, long params, long read, long user, long out, long err) {
        try {
            return (int) rz_conversation_load.invokeExact(model, params, read, user, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_conversation_media(long conversation, int number, long out, long err) {
        try {
            return (int) rz_conversation_media.invokeExact(conversation, number, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_top_logprobs(long cache, int k, long tokens, long logprobs, long n, long err) {
        try {
            return (int) rz_top_logprobs.invokeExact(cache, k, tokens, logprobs, n, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_score(long cache, long tokens, long n, long logprobs, long cancel, long err) {
        try {
            return (int) rz_score.invokeExact(cache, tokens, n, logprobs, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_embed_into(long model, long params, long tokens, long lengths, long n_texts, long out, long capacity, long n, long cancel, long err) {
        try {
            return (int) rz_embed_into.invokeExact(model, params, tokens, lengths, n_texts, out, capacity, n, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_embed_prompts_into(long model, long params, long prompts, long n_prompts, long out, long capacity, long n, long cancel, long err) {
        try {
            return (int) rz_embed_prompts_into.invokeExact(model, params, prompts, n_prompts, out, capacity, n, cancel, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_metrics_get(long model, long out, long err) {
        try {
            return (int) rz_metrics_get.invokeExact(model, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_backend_metrics_get(long model, int device_kind, long out, long err) {
        try {
            return (int) rz_backend_metrics_get.invokeExact(model, device_kind, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void rz_metrics_reset(long model) {
        try {
            rz_metrics_reset.invokeExact(model);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public int rz_layout_get(int index, long out, long err) {
        try {
            return (int) rz_layout_get.invokeExact(index, out, err);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }
}
