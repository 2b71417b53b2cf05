/* The functions for JniFunctions.java. The build writes this file: make header. */
#include <jni.h>
#include <realizar.h>

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1abi_1version(JNIEnv *env, jobject self) {
    return rz_abi_version();
}

JNIEXPORT jlong JNICALL Java_realizar_JniFunctions_rz_1version(JNIEnv *env, jobject self) {
    return (intptr_t)rz_version();
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1version_1number(JNIEnv *env, jobject self) {
    return rz_version_number();
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1features(JNIEnv *env, jobject self) {
    return rz_features();
}

JNIEXPORT jlong JNICALL Java_realizar_JniFunctions_rz_1status_1name(JNIEnv *env, jobject self, jint status) {
    return (intptr_t)rz_status_name(status);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1device_1count(JNIEnv *env, jobject self) {
    return rz_device_count();
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1device_1info_1get(JNIEnv *env, jobject self, jint index, jlong out, jlong err) {
    return rz_device_info_get(index, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1runtime_1new(JNIEnv *env, jobject self, jlong params, jlong out, jlong err) {
    return rz_runtime_new((void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1runtime_1free(JNIEnv *env, jobject self, jlong runtime) {
    rz_runtime_free((void *)(intptr_t)runtime);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1runtime_1threads_1set(JNIEnv *env, jobject self, jlong runtime, jint threads, jlong err) {
    return rz_runtime_threads_set((void *)(intptr_t)runtime, threads, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1runtime_1memory_1limit_1set(JNIEnv *env, jobject self, jlong runtime, jlong memory_limit, jlong err) {
    return rz_runtime_memory_limit_set((void *)(intptr_t)runtime, memory_limit, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1runtime_1info_1get(JNIEnv *env, jobject self, jlong runtime, jlong out, jlong err) {
    return rz_runtime_info_get((void *)(intptr_t)runtime, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cancel_1new(JNIEnv *env, jobject self, jlong out, jlong err) {
    return rz_cancel_new((void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1cancel_1free(JNIEnv *env, jobject self, jlong cancel) {
    rz_cancel_free((void *)(intptr_t)cancel);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1cancel_1fire(JNIEnv *env, jobject self, jlong cancel) {
    rz_cancel_fire((void *)(intptr_t)cancel);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cancel_1deadline(JNIEnv *env, jobject self, jlong cancel, jlong us_from_now, jlong err) {
    return rz_cancel_deadline((void *)(intptr_t)cancel, us_from_now, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1cancel_1reset(JNIEnv *env, jobject self, jlong cancel) {
    rz_cancel_reset((void *)(intptr_t)cancel);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cancel_1is_1fired(JNIEnv *env, jobject self, jlong cancel) {
    return rz_cancel_is_fired((void *)(intptr_t)cancel);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1load(JNIEnv *env, jobject self, jlong path, jlong params, jlong out, jlong err) {
    return rz_model_load((void *)(intptr_t)path, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1model_1free(JNIEnv *env, jobject self, jlong model) {
    rz_model_free((void *)(intptr_t)model);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1sampling_1get(JNIEnv *env, jobject self, jlong model, jlong out, jlong err) {
    return rz_model_sampling_get((void *)(intptr_t)model, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1meta_1into(JNIEnv *env, jobject self, jlong model, jlong key, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_model_meta_into((void *)(intptr_t)model, (void *)(intptr_t)key, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1meta_1key_1into(JNIEnv *env, jobject self, jlong model, jlong index, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_model_meta_key_into((void *)(intptr_t)model, index, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1meta_1element_1into(JNIEnv *env, jobject self, jlong model, jlong key, jlong index, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_model_meta_element_into((void *)(intptr_t)model, (void *)(intptr_t)key, index, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1info_1get(JNIEnv *env, jobject self, jlong model, jlong out, jlong err) {
    return rz_model_info_get((void *)(intptr_t)model, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1device_1get(JNIEnv *env, jobject self, jlong model, jint index, jlong out, jlong err) {
    return rz_model_device_get((void *)(intptr_t)model, index, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1load_1from(JNIEnv *env, jobject self, jlong sources, jlong n, jlong params, jlong out, jlong err) {
    return rz_model_load_from((void *)(intptr_t)sources, n, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1hub_1choose_1into(JNIEnv *env, jobject self, jlong model, jlong model_len, jlong listing, jlong listing_len, jlong memory, jint flags, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_hub_choose_into((void *)(intptr_t)model, model_len, (void *)(intptr_t)listing, listing_len, memory, flags, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1tokenize_1into(JNIEnv *env, jobject self, jlong model, jlong text, jlong text_len, jint flags, jlong out, jlong capacity, jlong n, jlong cancel, jlong err) {
    return rz_tokenize_into((void *)(intptr_t)model, (void *)(intptr_t)text, text_len, flags, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1detokenize_1into(JNIEnv *env, jobject self, jlong model, jlong tokens, jlong n, jint flags, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_detokenize_into((void *)(intptr_t)model, (void *)(intptr_t)tokens, n, flags, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1token_1is_1end(JNIEnv *env, jobject self, jlong model, jint token) {
    return rz_token_is_end((void *)(intptr_t)model, token);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1token_1bytes_1into(JNIEnv *env, jobject self, jlong model, jint token, jlong out, jlong capacity, jlong len, jlong attributes, jlong err) {
    return rz_token_bytes_into((void *)(intptr_t)model, token, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)attributes, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1textstream_1new(JNIEnv *env, jobject self, jlong model, jlong out, jlong err) {
    return rz_textstream_new((void *)(intptr_t)model, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1textstream_1follow(JNIEnv *env, jobject self, jlong stream, jlong tokens, jlong n, jlong err) {
    return rz_textstream_follow((void *)(intptr_t)stream, (void *)(intptr_t)tokens, n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1textstream_1push_1into(JNIEnv *env, jobject self, jlong stream, jint token, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_textstream_push_into((void *)(intptr_t)stream, token, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1textstream_1flush_1into(JNIEnv *env, jobject self, jlong stream, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_textstream_flush_into((void *)(intptr_t)stream, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1textstream_1free(JNIEnv *env, jobject self, jlong stream) {
    rz_textstream_free((void *)(intptr_t)stream);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1chat_1render_1into(JNIEnv *env, jobject self, jlong model, jlong json, jlong json_len, jint flags, jlong out, jlong capacity, jlong len, jlong cancel, jlong err) {
    return rz_chat_render_into((void *)(intptr_t)model, (void *)(intptr_t)json, json_len, flags, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1chat_1tokenize_1into(JNIEnv *env, jobject self, jlong model, jlong json, jlong json_len, jint flags, jlong out, jlong capacity, jlong n, jlong cancel, jlong err) {
    return rz_chat_tokenize_into((void *)(intptr_t)model, (void *)(intptr_t)json, json_len, flags, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1chat_1parser_1new(JNIEnv *env, jobject self, jlong model, jlong json, jlong json_len, jlong cancel, jlong out, jlong err) {
    return rz_chat_parser_new((void *)(intptr_t)model, (void *)(intptr_t)json, json_len, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1chat_1parser_1push(JNIEnv *env, jobject self, jlong parser, jint token, jlong err) {
    return rz_chat_parser_push((void *)(intptr_t)parser, token, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1chat_1parser_1end(JNIEnv *env, jobject self, jlong parser, jlong err) {
    return rz_chat_parser_end((void *)(intptr_t)parser, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1chat_1parser_1next_1into(JNIEnv *env, jobject self, jlong parser, jlong kind, jlong flags, jlong index, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_chat_parser_next_into((void *)(intptr_t)parser, (void *)(intptr_t)kind, (void *)(intptr_t)flags, (void *)(intptr_t)index, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1chat_1parser_1free(JNIEnv *env, jobject self, jlong parser) {
    rz_chat_parser_free((void *)(intptr_t)parser);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1sampler_1new(JNIEnv *env, jobject self, jlong params, jlong out, jlong err) {
    return rz_sampler_new((void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1sampler_1free(JNIEnv *env, jobject self, jlong sampler) {
    rz_sampler_free((void *)(intptr_t)sampler);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1grammar_1new(JNIEnv *env, jobject self, jlong model, jint kind, jint flags, jlong text, jlong len, jlong cancel, jlong out, jlong err) {
    return rz_grammar_new((void *)(intptr_t)model, kind, flags, (void *)(intptr_t)text, len, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1grammar_1free(JNIEnv *env, jobject self, jlong grammar) {
    rz_grammar_free((void *)(intptr_t)grammar);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1sampler_1grammar_1set(JNIEnv *env, jobject self, jlong sampler, jlong grammar, jlong err) {
    return rz_sampler_grammar_set((void *)(intptr_t)sampler, (void *)(intptr_t)grammar, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1new(JNIEnv *env, jobject self, jlong model, jlong params, jlong out, jlong err) {
    return rz_cache_new((void *)(intptr_t)model, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1cache_1free(JNIEnv *env, jobject self, jlong cache) {
    rz_cache_free((void *)(intptr_t)cache);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1len(JNIEnv *env, jobject self, jlong cache) {
    return rz_cache_len((void *)(intptr_t)cache);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1capacity(JNIEnv *env, jobject self, jlong cache) {
    return rz_cache_capacity((void *)(intptr_t)cache);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1truncate(JNIEnv *env, jobject self, jlong cache, jint len, jlong err) {
    return rz_cache_truncate((void *)(intptr_t)cache, len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1cancel_1set(JNIEnv *env, jobject self, jlong cache, jlong cancel, jlong err) {
    return rz_cache_cancel_set((void *)(intptr_t)cache, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1fork(JNIEnv *env, jobject self, jlong cache, jlong out, jlong err) {
    return rz_cache_fork((void *)(intptr_t)cache, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1match(JNIEnv *env, jobject self, jlong cache, jlong tokens, jlong n, jlong common, jlong err) {
    return rz_cache_match((void *)(intptr_t)cache, (void *)(intptr_t)tokens, n, (void *)(intptr_t)common, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1tokens_1into(JNIEnv *env, jobject self, jlong cache, jlong out, jlong capacity, jlong n, jlong err) {
    return rz_cache_tokens_into((void *)(intptr_t)cache, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1shift(JNIEnv *env, jobject self, jlong cache, jint keep, jint drop, jlong err) {
    return rz_cache_shift((void *)(intptr_t)cache, keep, drop, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1release(JNIEnv *env, jobject self, jlong cache, jlong err) {
    return rz_cache_release((void *)(intptr_t)cache, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1adapter_1load(JNIEnv *env, jobject self, jlong model, jlong path, jlong params, jlong out, jlong err) {
    return rz_adapter_load((void *)(intptr_t)model, (void *)(intptr_t)path, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1adapter_1load_1from(JNIEnv *env, jobject self, jlong model, jlong sources, jlong n, jlong params, jlong out, jlong err) {
    return rz_adapter_load_from((void *)(intptr_t)model, (void *)(intptr_t)sources, n, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1adapter_1free(JNIEnv *env, jobject self, jlong adapter) {
    rz_adapter_free((void *)(intptr_t)adapter);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1adapters_1set(JNIEnv *env, jobject self, jlong cache, jlong adapters, jlong scales, jlong n, jlong err) {
    return rz_cache_adapters_set((void *)(intptr_t)cache, (void *)(intptr_t)adapters, (void *)(intptr_t)scales, n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1save(JNIEnv *env, jobject self, jlong cache, jlong write, jlong user, jlong cancel, jlong err) {
    return rz_cache_save((void *)(intptr_t)cache, (rz_write_callback)(intptr_t)write, (void *)(intptr_t)user, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1load(JNIEnv *env, jobject self, jlong model, jlong params, jlong read, jlong user, jlong cancel, jlong out, jlong err) {
    return rz_cache_load((void *)(intptr_t)model, (void *)(intptr_t)params, (rz_read_callback)(intptr_t)read, (void *)(intptr_t)user, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1model_1plan_1get(JNIEnv *env, jobject self, jlong path, jlong sources, jlong n, jlong params, jlong cache_params, jint n_caches, jlong out, jlong devices, jlong capacity, jlong n_devices, jlong err) {
    return rz_model_plan_get((void *)(intptr_t)path, (void *)(intptr_t)sources, n, (void *)(intptr_t)params, (void *)(intptr_t)cache_params, n_caches, (void *)(intptr_t)out, (void *)(intptr_t)devices, capacity, (void *)(intptr_t)n_devices, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1prefill(JNIEnv *env, jobject self, jlong cache, jlong tokens, jlong n, jlong cancel, jlong err) {
    return rz_prefill((void *)(intptr_t)cache, (void *)(intptr_t)tokens, n, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1decode_1token(JNIEnv *env, jobject self, jlong cache, jint token, jlong sampler, jlong next, jlong err) {
    return rz_decode_token((void *)(intptr_t)cache, token, (void *)(intptr_t)sampler, (void *)(intptr_t)next, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1generate_1into(JNIEnv *env, jobject self, jlong cache, jint token, jlong sampler, jlong out, jlong capacity, jlong n, jlong cancel, jlong err) {
    return rz_generate_into((void *)(intptr_t)cache, token, (void *)(intptr_t)sampler, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1decode_1batch(JNIEnv *env, jobject self, jlong caches, jlong tokens, jlong n, jlong samplers, jlong next, jlong err) {
    return rz_decode_batch((void *)(intptr_t)caches, (void *)(intptr_t)tokens, n, (void *)(intptr_t)samplers, (void *)(intptr_t)next, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1logits_1into(JNIEnv *env, jobject self, jlong cache, jlong out, jlong capacity, jlong n, jlong err) {
    return rz_logits_into((void *)(intptr_t)cache, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1sample(JNIEnv *env, jobject self, jlong cache, jlong sampler, jlong token, jlong err) {
    return rz_sample((void *)(intptr_t)cache, (void *)(intptr_t)sampler, (void *)(intptr_t)token, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1rows(JNIEnv *env, jobject self, jlong model, jint kind, jlong rows, jlong n_rows, jint row_dim, jint columns, jint lines, jlong out, jlong err) {
    return rz_media_from_rows((void *)(intptr_t)model, kind, (void *)(intptr_t)rows, n_rows, row_dim, columns, lines, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1tokens(JNIEnv *env, jobject self, jlong model, jlong tokens, jlong n, jlong cancel, jlong out, jlong err) {
    return rz_media_from_tokens((void *)(intptr_t)model, (void *)(intptr_t)tokens, n, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1info_1get(JNIEnv *env, jobject self, jlong media, jlong out, jlong err) {
    return rz_media_info_get((void *)(intptr_t)media, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1rows_1into(JNIEnv *env, jobject self, jlong media, jlong out, jlong capacity, jlong n, jlong err) {
    return rz_media_rows_into((void *)(intptr_t)media, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1save(JNIEnv *env, jobject self, jlong media, jlong write, jlong user, jlong cancel, jlong err) {
    return rz_media_save((void *)(intptr_t)media, (rz_write_callback)(intptr_t)write, (void *)(intptr_t)user, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1load(JNIEnv *env, jobject self, jlong model, jlong read, jlong user, jlong cancel, jlong out, jlong err) {
    return rz_media_load((void *)(intptr_t)model, (rz_read_callback)(intptr_t)read, (void *)(intptr_t)user, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1media_1free(JNIEnv *env, jobject self, jlong media) {
    rz_media_free((void *)(intptr_t)media);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1encoder_1load(JNIEnv *env, jobject self, jlong model, jlong path, jlong params, jlong out, jlong err) {
    return rz_encoder_load((void *)(intptr_t)model, (void *)(intptr_t)path, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1encoder_1load_1from(JNIEnv *env, jobject self, jlong model, jlong sources, jlong n, jlong params, jlong out, jlong err) {
    return rz_encoder_load_from((void *)(intptr_t)model, (void *)(intptr_t)sources, n, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1encoder_1free(JNIEnv *env, jobject self, jlong encoder) {
    rz_encoder_free((void *)(intptr_t)encoder);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1encoder_1info_1get(JNIEnv *env, jobject self, jlong encoder, jlong out, jlong err) {
    return rz_encoder_info_get((void *)(intptr_t)encoder, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1encoder_1plan_1get(JNIEnv *env, jobject self, jlong model, jlong path, jlong sources, jlong n, jlong params, jlong out, jlong err) {
    return rz_encoder_plan_get((void *)(intptr_t)model, (void *)(intptr_t)path, (void *)(intptr_t)sources, n, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1pixels(JNIEnv *env, jobject self, jlong encoder, jlong pixels, jlong params, jlong out, jlong err) {
    return rz_media_from_pixels((void *)(intptr_t)encoder, (void *)(intptr_t)pixels, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1image(JNIEnv *env, jobject self, jlong encoder, jlong data, jlong size, jlong params, jlong out, jlong err) {
    return rz_media_from_image((void *)(intptr_t)encoder, (void *)(intptr_t)data, size, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1measure(JNIEnv *env, jobject self, jlong encoder, jint width, jint height, jlong params, jlong out, jlong err) {
    return rz_media_measure((void *)(intptr_t)encoder, width, height, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1samples(JNIEnv *env, jobject self, jlong encoder, jlong samples, jlong n, jint channels, jint rate, jlong params, jlong out, jlong err) {
    return rz_media_from_samples((void *)(intptr_t)encoder, (void *)(intptr_t)samples, n, channels, rate, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1audio(JNIEnv *env, jobject self, jlong encoder, jlong data, jlong size, jlong params, jlong out, jlong err) {
    return rz_media_from_audio((void *)(intptr_t)encoder, (void *)(intptr_t)data, size, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1from_1frames(JNIEnv *env, jobject self, jlong encoder, jlong frames, jlong times, jlong n, jlong params, jlong out, jlong err) {
    return rz_media_from_frames((void *)(intptr_t)encoder, (void *)(intptr_t)frames, (void *)(intptr_t)times, n, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1media_1step(JNIEnv *env, jobject self, jlong media, jlong budget_us, jlong err) {
    return rz_media_step((void *)(intptr_t)media, budget_us, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1prompt_1new(JNIEnv *env, jobject self, jlong model, jlong parts, jlong n, jint flags, jlong out, jlong err) {
    return rz_prompt_new((void *)(intptr_t)model, (void *)(intptr_t)parts, n, flags, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1prompt_1from_1chat(JNIEnv *env, jobject self, jlong model, jlong json, jlong json_len, jint flags, jlong media, jlong n_media, jlong cancel, jlong out, jlong err) {
    return rz_prompt_from_chat((void *)(intptr_t)model, (void *)(intptr_t)json, json_len, flags, (void *)(intptr_t)media, n_media, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1prompt_1free(JNIEnv *env, jobject self, jlong prompt) {
    rz_prompt_free((void *)(intptr_t)prompt);
}

JNIEXPORT jlong JNICALL Java_realizar_JniFunctions_rz_1prompt_1len(JNIEnv *env, jobject self, jlong prompt) {
    return rz_prompt_len((void *)(intptr_t)prompt);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1prompt_1tokens_1into(JNIEnv *env, jobject self, jlong prompt, jlong out, jlong capacity, jlong n, jlong err) {
    return rz_prompt_tokens_into((void *)(intptr_t)prompt, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1cache_1match_1prompt(JNIEnv *env, jobject self, jlong cache, jlong prompt, jlong common, jlong err) {
    return rz_cache_match_prompt((void *)(intptr_t)cache, (void *)(intptr_t)prompt, (void *)(intptr_t)common, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1prefill_1prompt(JNIEnv *env, jobject self, jlong cache, jlong prompt, jlong first, jlong cancel, jlong err) {
    return rz_prefill_prompt((void *)(intptr_t)cache, (void *)(intptr_t)prompt, first, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1new(JNIEnv *env, jobject self, jlong cache, jlong params, jlong out, jlong err) {
    return rz_job_new((void *)(intptr_t)cache, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1step(JNIEnv *env, jobject self, jlong job, jlong budget_us, jlong err) {
    return rz_job_step((void *)(intptr_t)job, budget_us, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1jobs_1step(JNIEnv *env, jobject self, jlong jobs, jlong n, jlong budget_us, jlong err) {
    return rz_jobs_step((void *)(intptr_t)jobs, n, budget_us, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1error(JNIEnv *env, jobject self, jlong job, jlong err) {
    return rz_job_error((void *)(intptr_t)job, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1text_1into(JNIEnv *env, jobject self, jlong job, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_job_text_into((void *)(intptr_t)job, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1next_1into(JNIEnv *env, jobject self, jlong job, jlong kind, jlong flags, jlong index, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_job_next_into((void *)(intptr_t)job, (void *)(intptr_t)kind, (void *)(intptr_t)flags, (void *)(intptr_t)index, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1tokens_1into(JNIEnv *env, jobject self, jlong job, jlong out, jlong capacity, jlong n, jlong err) {
    return rz_job_tokens_into((void *)(intptr_t)job, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1logprobs_1into(JNIEnv *env, jobject self, jlong job, jlong tokens, jlong logprobs, jlong capacity, jlong n, jlong err) {
    return rz_job_logprobs_into((void *)(intptr_t)job, (void *)(intptr_t)tokens, (void *)(intptr_t)logprobs, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1job_1info_1get(JNIEnv *env, jobject self, jlong job, jlong out, jlong err) {
    return rz_job_info_get((void *)(intptr_t)job, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1job_1free(JNIEnv *env, jobject self, jlong job) {
    rz_job_free((void *)(intptr_t)job);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1store_1new(JNIEnv *env, jobject self, jlong model, jlong params, jlong out, jlong err) {
    return rz_store_new((void *)(intptr_t)model, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1store_1take(JNIEnv *env, jobject self, jlong store, jlong tokens, jlong n, jlong params, jlong cancel, jlong out, jlong common, jlong err) {
    return rz_store_take((void *)(intptr_t)store, (void *)(intptr_t)tokens, n, (void *)(intptr_t)params, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)common, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1store_1take_1prompt(JNIEnv *env, jobject self, jlong store, jlong prompt, jlong params, jlong cancel, jlong out, jlong common, jlong err) {
    return rz_store_take_prompt((void *)(intptr_t)store, (void *)(intptr_t)prompt, (void *)(intptr_t)params, (void *)(intptr_t)cancel, (void *)(intptr_t)out, (void *)(intptr_t)common, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1store_1put(JNIEnv *env, jobject self, jlong store, jlong cache, jlong err) {
    return rz_store_put((void *)(intptr_t)store, (void *)(intptr_t)cache, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1store_1clear(JNIEnv *env, jobject self, jlong store, jlong err) {
    return rz_store_clear((void *)(intptr_t)store, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1store_1info_1get(JNIEnv *env, jobject self, jlong store, jlong out, jlong err) {
    return rz_store_info_get((void *)(intptr_t)store, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1store_1free(JNIEnv *env, jobject self, jlong store) {
    rz_store_free((void *)(intptr_t)store);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1new(JNIEnv *env, jobject self, jlong model, jlong params, jlong out, jlong err) {
    return rz_conversation_new((void *)(intptr_t)model, (void *)(intptr_t)params, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1add(JNIEnv *env, jobject self, jlong conversation, jlong json, jlong len, jlong media, jlong n_media, jlong err) {
    return rz_conversation_add((void *)(intptr_t)conversation, (void *)(intptr_t)json, len, (void *)(intptr_t)media, n_media, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1add_1text(JNIEnv *env, jobject self, jlong conversation, jlong role, jlong text, jlong len, jlong err) {
    return rz_conversation_add_text((void *)(intptr_t)conversation, (void *)(intptr_t)role, (void *)(intptr_t)text, len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1reply(JNIEnv *env, jobject self, jlong conversation, jlong params, jlong err) {
    return rz_conversation_reply((void *)(intptr_t)conversation, (void *)(intptr_t)params, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1step(JNIEnv *env, jobject self, jlong conversation, jlong budget_us, jlong err) {
    return rz_conversation_step((void *)(intptr_t)conversation, budget_us, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversations_1step(JNIEnv *env, jobject self, jlong conversations, jlong n, jlong budget_us, jlong err) {
    return rz_conversations_step((void *)(intptr_t)conversations, n, budget_us, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1next_1into(JNIEnv *env, jobject self, jlong conversation, jlong kind, jlong flags, jlong index, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_conversation_next_into((void *)(intptr_t)conversation, (void *)(intptr_t)kind, (void *)(intptr_t)flags, (void *)(intptr_t)index, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1stop(JNIEnv *env, jobject self, jlong conversation, jlong err) {
    return rz_conversation_stop((void *)(intptr_t)conversation, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1error(JNIEnv *env, jobject self, jlong conversation, jlong err) {
    return rz_conversation_error((void *)(intptr_t)conversation, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1logprobs_1into(JNIEnv *env, jobject self, jlong conversation, jlong tokens, jlong logprobs, jlong capacity, jlong n, jlong err) {
    return rz_conversation_logprobs_into((void *)(intptr_t)conversation, (void *)(intptr_t)tokens, (void *)(intptr_t)logprobs, capacity, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1json_1into(JNIEnv *env, jobject self, jlong conversation, jint first, jlong out, jlong capacity, jlong len, jlong err) {
    return rz_conversation_json_into((void *)(intptr_t)conversation, first, (void *)(intptr_t)out, capacity, (void *)(intptr_t)len, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1rewind(JNIEnv *env, jobject self, jlong conversation, jint n_messages, jlong err) {
    return rz_conversation_rewind((void *)(intptr_t)conversation, n_messages, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1fork(JNIEnv *env, jobject self, jlong conversation, jlong out, jlong err) {
    return rz_conversation_fork((void *)(intptr_t)conversation, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1info_1get(JNIEnv *env, jobject self, jlong conversation, jlong out, jlong err) {
    return rz_conversation_info_get((void *)(intptr_t)conversation, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1conversation_1free(JNIEnv *env, jobject self, jlong conversation) {
    rz_conversation_free((void *)(intptr_t)conversation);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1say(JNIEnv *env, jobject self, jlong conversation, jlong text, jlong params, jlong on_text, jlong user, jlong err) {
    return rz_conversation_say((void *)(intptr_t)conversation, (void *)(intptr_t)text, (void *)(intptr_t)params, (rz_text_callback)(intptr_t)on_text, (void *)(intptr_t)user, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1read(JNIEnv *env, jobject self, jlong conversation, jlong params, jlong err) {
    return rz_conversation_read((void *)(intptr_t)conversation, (void *)(intptr_t)params, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1release(JNIEnv *env, jobject self, jlong conversation, jlong err) {
    return rz_conversation_release((void *)(intptr_t)conversation, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1capacity_1set(JNIEnv *env, jobject self, jlong conversation, jint capacity, jlong err) {
    return rz_conversation_capacity_set((void *)(intptr_t)conversation, capacity, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1overflow_1set(JNIEnv *env, jobject self, jlong conversation, jint mode, jlong err) {
    return rz_conversation_overflow_set((void *)(intptr_t)conversation, mode, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1cancel_1set(JNIEnv *env, jobject self, jlong conversation, jlong cancel, jlong err) {
    return rz_conversation_cancel_set((void *)(intptr_t)conversation, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1adapters_1set(JNIEnv *env, jobject self, jlong conversation, jlong adapters, jlong scales, jlong n_adapters, jlong err) {
    return rz_conversation_adapters_set((void *)(intptr_t)conversation, (void *)(intptr_t)adapters, (void *)(intptr_t)scales, n_adapters, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1store_1set(JNIEnv *env, jobject self, jlong conversation, jlong store, jlong err) {
    return rz_conversation_store_set((void *)(intptr_t)conversation, (void *)(intptr_t)store, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1save(JNIEnv *env, jobject self, jlong conversation, jlong write, jlong user, jlong cancel, jlong err) {
    return rz_conversation_save((void *)(intptr_t)conversation, (rz_write_callback)(intptr_t)write, (void *)(intptr_t)user, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1load(JNIEnv *env, jobject self, jlong model, jlong params, jlong read, jlong user, jlong out, jlong err) {
    return rz_conversation_load((void *)(intptr_t)model, (void *)(intptr_t)params, (rz_read_callback)(intptr_t)read, (void *)(intptr_t)user, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1conversation_1media(JNIEnv *env, jobject self, jlong conversation, jint number, jlong out, jlong err) {
    return rz_conversation_media((void *)(intptr_t)conversation, number, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1top_1logprobs(JNIEnv *env, jobject self, jlong cache, jint k, jlong tokens, jlong logprobs, jlong n, jlong err) {
    return rz_top_logprobs((void *)(intptr_t)cache, k, (void *)(intptr_t)tokens, (void *)(intptr_t)logprobs, (void *)(intptr_t)n, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1score(JNIEnv *env, jobject self, jlong cache, jlong tokens, jlong n, jlong logprobs, jlong cancel, jlong err) {
    return rz_score((void *)(intptr_t)cache, (void *)(intptr_t)tokens, n, (void *)(intptr_t)logprobs, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1embed_1into(JNIEnv *env, jobject self, jlong model, jlong params, jlong tokens, jlong lengths, jlong n_texts, jlong out, jlong capacity, jlong n, jlong cancel, jlong err) {
    return rz_embed_into((void *)(intptr_t)model, (void *)(intptr_t)params, (void *)(intptr_t)tokens, (void *)(intptr_t)lengths, n_texts, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1embed_1prompts_1into(JNIEnv *env, jobject self, jlong model, jlong params, jlong prompts, jlong n_prompts, jlong out, jlong capacity, jlong n, jlong cancel, jlong err) {
    return rz_embed_prompts_into((void *)(intptr_t)model, (void *)(intptr_t)params, (void *)(intptr_t)prompts, n_prompts, (void *)(intptr_t)out, capacity, (void *)(intptr_t)n, (void *)(intptr_t)cancel, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1metrics_1get(JNIEnv *env, jobject self, jlong model, jlong out, jlong err) {
    return rz_metrics_get((void *)(intptr_t)model, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1backend_1metrics_1get(JNIEnv *env, jobject self, jlong model, jint device_kind, jlong out, jlong err) {
    return rz_backend_metrics_get((void *)(intptr_t)model, device_kind, (void *)(intptr_t)out, (void *)(intptr_t)err);
}

JNIEXPORT void JNICALL Java_realizar_JniFunctions_rz_1metrics_1reset(JNIEnv *env, jobject self, jlong model) {
    rz_metrics_reset((void *)(intptr_t)model);
}

JNIEXPORT jint JNICALL Java_realizar_JniFunctions_rz_1layout_1get(JNIEnv *env, jobject self, jint index, jlong out, jlong err) {
    return rz_layout_get(index, (void *)(intptr_t)out, (void *)(intptr_t)err);
}
