// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

//go:build cgo

package realizar

/*
#cgo pkg-config: realizar
#include <realizar.h>

static rz_status go_rz_cache_save(rz_cache *cache, uintptr_t write, uintptr_t user, rz_cancel *cancel, rz_error *err) {
	return rz_cache_save(cache, (rz_write_callback)write, (void *)user, cancel, err);
}

static rz_status go_rz_cache_load(rz_model *model, rz_cache_params *params, uintptr_t read, uintptr_t user, rz_cancel *cancel, rz_cache **out, rz_error *err) {
	return rz_cache_load(model, params, (rz_read_callback)read, (void *)user, cancel, out, err);
}

static rz_status go_rz_media_save(rz_media *media, uintptr_t write, uintptr_t user, rz_cancel *cancel, rz_error *err) {
	return rz_media_save(media, (rz_write_callback)write, (void *)user, cancel, err);
}

static rz_status go_rz_media_load(rz_model *model, uintptr_t read, uintptr_t user, rz_cancel *cancel, rz_media **out, rz_error *err) {
	return rz_media_load(model, (rz_read_callback)read, (void *)user, cancel, out, err);
}

static rz_status go_rz_conversation_say(rz_conversation *conversation, char *text, rz_reply_params *params, uintptr_t on_text, uintptr_t user, rz_error *err) {
	return rz_conversation_say(conversation, text, params, (rz_text_callback)on_text, (void *)user, err);
}

static rz_status go_rz_conversation_save(rz_conversation *conversation, uintptr_t write, uintptr_t user, rz_cancel *cancel, rz_error *err) {
	return rz_conversation_save(conversation, (rz_write_callback)write, (void *)user, cancel, err);
}

static rz_status go_rz_conversation_load(rz_model *model, rz_conversation_params *params, uintptr_t read, uintptr_t user, rz_conversation **out, rz_error *err) {
	return rz_conversation_load(model, params, (rz_read_callback)read, (void *)user, out, err);
}
*/
import "C"

import "unsafe"

// functions is every function of the library.
type functions struct{}

func (functions) rz_abi_version() uint32 {
	return uint32(C.rz_abi_version())
}

func (functions) rz_version() string {
	return C.GoString(C.rz_version())
}

func (functions) rz_version_number() uint32 {
	return uint32(C.rz_version_number())
}

func (functions) rz_features() uint32 {
	return uint32(C.rz_features())
}

func (functions) rz_status_name(status int32) string {
	return C.GoString(C.rz_status_name(C.rz_status(status)))
}

func (functions) rz_device_count() uint32 {
	return uint32(C.rz_device_count())
}

func (functions) rz_device_info_get(index uint32, out *rz_device_info, err *rz_error) int32 {
	return int32(C.rz_device_info_get(C.uint32_t(index), (*C.rz_device_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_runtime_new(params *rz_runtime_params, out **rz_runtime, err *rz_error) int32 {
	return int32(C.rz_runtime_new((*C.rz_runtime_params)(unsafe.Pointer(params)), (**C.rz_runtime)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_runtime_free(runtime *rz_runtime) {
	C.rz_runtime_free((*C.rz_runtime)(unsafe.Pointer(runtime)))
}

func (functions) rz_runtime_threads_set(runtime *rz_runtime, threads uint32, err *rz_error) int32 {
	return int32(C.rz_runtime_threads_set((*C.rz_runtime)(unsafe.Pointer(runtime)), C.uint32_t(threads), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_runtime_memory_limit_set(runtime *rz_runtime, memory_limit uint64, err *rz_error) int32 {
	return int32(C.rz_runtime_memory_limit_set((*C.rz_runtime)(unsafe.Pointer(runtime)), C.uint64_t(memory_limit), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_runtime_info_get(runtime *rz_runtime, out *rz_runtime_info, err *rz_error) int32 {
	return int32(C.rz_runtime_info_get((*C.rz_runtime)(unsafe.Pointer(runtime)), (*C.rz_runtime_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cancel_new(out **rz_cancel, err *rz_error) int32 {
	return int32(C.rz_cancel_new((**C.rz_cancel)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cancel_free(cancel *rz_cancel) {
	C.rz_cancel_free((*C.rz_cancel)(unsafe.Pointer(cancel)))
}

func (functions) rz_cancel_fire(cancel *rz_cancel) {
	C.rz_cancel_fire((*C.rz_cancel)(unsafe.Pointer(cancel)))
}

func (functions) rz_cancel_deadline(cancel *rz_cancel, us_from_now uint64, err *rz_error) int32 {
	return int32(C.rz_cancel_deadline((*C.rz_cancel)(unsafe.Pointer(cancel)), C.uint64_t(us_from_now), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cancel_reset(cancel *rz_cancel) {
	C.rz_cancel_reset((*C.rz_cancel)(unsafe.Pointer(cancel)))
}

func (functions) rz_cancel_is_fired(cancel *rz_cancel) int32 {
	return int32(C.rz_cancel_is_fired((*C.rz_cancel)(unsafe.Pointer(cancel))))
}

func (functions) rz_model_load(path *byte, params *rz_model_params, out **rz_model, err *rz_error) int32 {
	return int32(C.rz_model_load((*C.char)(unsafe.Pointer(path)), (*C.rz_model_params)(unsafe.Pointer(params)), (**C.rz_model)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_free(model *rz_model) {
	C.rz_model_free((*C.rz_model)(unsafe.Pointer(model)))
}

func (functions) rz_model_sampling_get(model *rz_model, out *rz_model_sampling, err *rz_error) int32 {
	return int32(C.rz_model_sampling_get((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_model_sampling)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_meta_into(model *rz_model, key *byte, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_model_meta_into((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(key)), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_meta_key_into(model *rz_model, index uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_model_meta_key_into((*C.rz_model)(unsafe.Pointer(model)), C.size_t(index), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_meta_element_into(model *rz_model, key *byte, index uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_model_meta_element_into((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(key)), C.size_t(index), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_info_get(model *rz_model, out *rz_model_info, err *rz_error) int32 {
	return int32(C.rz_model_info_get((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_model_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_device_get(model *rz_model, index uint32, out *rz_model_device, err *rz_error) int32 {
	return int32(C.rz_model_device_get((*C.rz_model)(unsafe.Pointer(model)), C.uint32_t(index), (*C.rz_model_device)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_load_from(sources *rz_source, n uintptr, params *rz_model_params, out **rz_model, err *rz_error) int32 {
	return int32(C.rz_model_load_from((*C.rz_source)(unsafe.Pointer(sources)), C.size_t(n), (*C.rz_model_params)(unsafe.Pointer(params)), (**C.rz_model)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_hub_choose_into(model *byte, model_len uintptr, listing *byte, listing_len uintptr, memory uint64, flags uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_hub_choose_into((*C.char)(unsafe.Pointer(model)), C.size_t(model_len), (*C.char)(unsafe.Pointer(listing)), C.size_t(listing_len), C.uint64_t(memory), C.uint32_t(flags), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_tokenize_into(model *rz_model, text *byte, text_len uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_tokenize_into((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(text)), C.size_t(text_len), C.uint32_t(flags), (*C.uint32_t)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_detokenize_into(model *rz_model, tokens *uint32, n uintptr, flags uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_detokenize_into((*C.rz_model)(unsafe.Pointer(model)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), C.uint32_t(flags), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_token_is_end(model *rz_model, token uint32) int32 {
	return int32(C.rz_token_is_end((*C.rz_model)(unsafe.Pointer(model)), C.uint32_t(token)))
}

func (functions) rz_token_bytes_into(model *rz_model, token uint32, out *byte, capacity uintptr, len *uintptr, attributes *uint32, err *rz_error) int32 {
	return int32(C.rz_token_bytes_into((*C.rz_model)(unsafe.Pointer(model)), C.uint32_t(token), unsafe.Pointer(out), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.uint32_t)(unsafe.Pointer(attributes)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_textstream_new(model *rz_model, out **rz_textstream, err *rz_error) int32 {
	return int32(C.rz_textstream_new((*C.rz_model)(unsafe.Pointer(model)), (**C.rz_textstream)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_textstream_follow(stream *rz_textstream, tokens *uint32, n uintptr, err *rz_error) int32 {
	return int32(C.rz_textstream_follow((*C.rz_textstream)(unsafe.Pointer(stream)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_textstream_push_into(stream *rz_textstream, token uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_textstream_push_into((*C.rz_textstream)(unsafe.Pointer(stream)), C.uint32_t(token), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_textstream_flush_into(stream *rz_textstream, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_textstream_flush_into((*C.rz_textstream)(unsafe.Pointer(stream)), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_textstream_free(stream *rz_textstream) {
	C.rz_textstream_free((*C.rz_textstream)(unsafe.Pointer(stream)))
}

func (functions) rz_chat_render_into(model *rz_model, json *byte, json_len uintptr, flags uint32, out *byte, capacity uintptr, len *uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_chat_render_into((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(json)), C.size_t(json_len), C.uint32_t(flags), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_chat_tokenize_into(model *rz_model, json *byte, json_len uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_chat_tokenize_into((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(json)), C.size_t(json_len), C.uint32_t(flags), (*C.uint32_t)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_chat_parser_new(model *rz_model, json *byte, json_len uintptr, cancel *rz_cancel, out **rz_chat_parser, err *rz_error) int32 {
	return int32(C.rz_chat_parser_new((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(json)), C.size_t(json_len), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_chat_parser)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_chat_parser_push(parser *rz_chat_parser, token uint32, err *rz_error) int32 {
	return int32(C.rz_chat_parser_push((*C.rz_chat_parser)(unsafe.Pointer(parser)), C.uint32_t(token), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_chat_parser_end(parser *rz_chat_parser, err *rz_error) int32 {
	return int32(C.rz_chat_parser_end((*C.rz_chat_parser)(unsafe.Pointer(parser)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_chat_parser_next_into(parser *rz_chat_parser, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_chat_parser_next_into((*C.rz_chat_parser)(unsafe.Pointer(parser)), (*C.uint32_t)(unsafe.Pointer(kind)), (*C.uint32_t)(unsafe.Pointer(flags)), (*C.uint32_t)(unsafe.Pointer(index)), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_chat_parser_free(parser *rz_chat_parser) {
	C.rz_chat_parser_free((*C.rz_chat_parser)(unsafe.Pointer(parser)))
}

func (functions) rz_sampler_new(params *rz_sampler_params, out **rz_sampler, err *rz_error) int32 {
	return int32(C.rz_sampler_new((*C.rz_sampler_params)(unsafe.Pointer(params)), (**C.rz_sampler)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_sampler_free(sampler *rz_sampler) {
	C.rz_sampler_free((*C.rz_sampler)(unsafe.Pointer(sampler)))
}

func (functions) rz_grammar_new(model *rz_model, kind uint32, flags uint32, text *byte, len uintptr, cancel *rz_cancel, out **rz_grammar, err *rz_error) int32 {
	return int32(C.rz_grammar_new((*C.rz_model)(unsafe.Pointer(model)), C.uint32_t(kind), C.uint32_t(flags), (*C.char)(unsafe.Pointer(text)), C.size_t(len), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_grammar)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_grammar_free(grammar *rz_grammar) {
	C.rz_grammar_free((*C.rz_grammar)(unsafe.Pointer(grammar)))
}

func (functions) rz_sampler_grammar_set(sampler *rz_sampler, grammar *rz_grammar, err *rz_error) int32 {
	return int32(C.rz_sampler_grammar_set((*C.rz_sampler)(unsafe.Pointer(sampler)), (*C.rz_grammar)(unsafe.Pointer(grammar)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_new(model *rz_model, params *rz_cache_params, out **rz_cache, err *rz_error) int32 {
	return int32(C.rz_cache_new((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_cache_params)(unsafe.Pointer(params)), (**C.rz_cache)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_free(cache *rz_cache) {
	C.rz_cache_free((*C.rz_cache)(unsafe.Pointer(cache)))
}

func (functions) rz_cache_len(cache *rz_cache) uint32 {
	return uint32(C.rz_cache_len((*C.rz_cache)(unsafe.Pointer(cache))))
}

func (functions) rz_cache_capacity(cache *rz_cache) uint32 {
	return uint32(C.rz_cache_capacity((*C.rz_cache)(unsafe.Pointer(cache))))
}

func (functions) rz_cache_truncate(cache *rz_cache, len uint32, err *rz_error) int32 {
	return int32(C.rz_cache_truncate((*C.rz_cache)(unsafe.Pointer(cache)), C.uint32_t(len), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_cancel_set(cache *rz_cache, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_cache_cancel_set((*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_fork(cache *rz_cache, out **rz_cache, err *rz_error) int32 {
	return int32(C.rz_cache_fork((*C.rz_cache)(unsafe.Pointer(cache)), (**C.rz_cache)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_match(cache *rz_cache, tokens *uint32, n uintptr, common *uint32, err *rz_error) int32 {
	return int32(C.rz_cache_match((*C.rz_cache)(unsafe.Pointer(cache)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (*C.uint32_t)(unsafe.Pointer(common)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_tokens_into(cache *rz_cache, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_cache_tokens_into((*C.rz_cache)(unsafe.Pointer(cache)), (*C.uint32_t)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_shift(cache *rz_cache, keep uint32, drop uint32, err *rz_error) int32 {
	return int32(C.rz_cache_shift((*C.rz_cache)(unsafe.Pointer(cache)), C.uint32_t(keep), C.uint32_t(drop), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_release(cache *rz_cache, err *rz_error) int32 {
	return int32(C.rz_cache_release((*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_adapter_load(model *rz_model, path *byte, params *rz_adapter_params, out **rz_adapter, err *rz_error) int32 {
	return int32(C.rz_adapter_load((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(path)), (*C.rz_adapter_params)(unsafe.Pointer(params)), (**C.rz_adapter)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_adapter_load_from(model *rz_model, sources *rz_source, n uintptr, params *rz_adapter_params, out **rz_adapter, err *rz_error) int32 {
	return int32(C.rz_adapter_load_from((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_source)(unsafe.Pointer(sources)), C.size_t(n), (*C.rz_adapter_params)(unsafe.Pointer(params)), (**C.rz_adapter)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_adapter_free(adapter *rz_adapter) {
	C.rz_adapter_free((*C.rz_adapter)(unsafe.Pointer(adapter)))
}

func (functions) rz_cache_adapters_set(cache *rz_cache, adapters **rz_adapter, scales *float32, n uintptr, err *rz_error) int32 {
	return int32(C.rz_cache_adapters_set((*C.rz_cache)(unsafe.Pointer(cache)), (**C.rz_adapter)(unsafe.Pointer(adapters)), (*C.float)(unsafe.Pointer(scales)), C.size_t(n), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_save(cache *rz_cache, write uintptr, user uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.go_rz_cache_save((*C.rz_cache)(unsafe.Pointer(cache)), C.uintptr_t(write), C.uintptr_t(user), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_load(model *rz_model, params *rz_cache_params, read uintptr, user uintptr, cancel *rz_cancel, out **rz_cache, err *rz_error) int32 {
	return int32(C.go_rz_cache_load((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_cache_params)(unsafe.Pointer(params)), C.uintptr_t(read), C.uintptr_t(user), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_cache)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_model_plan_get(path *byte, sources *rz_source, n uintptr, params *rz_model_params, cache_params *rz_cache_params, n_caches uint32, out *rz_model_plan, devices *rz_model_plan_device, capacity uintptr, n_devices *uintptr, err *rz_error) int32 {
	return int32(C.rz_model_plan_get((*C.char)(unsafe.Pointer(path)), (*C.rz_source)(unsafe.Pointer(sources)), C.size_t(n), (*C.rz_model_params)(unsafe.Pointer(params)), (*C.rz_cache_params)(unsafe.Pointer(cache_params)), C.uint32_t(n_caches), (*C.rz_model_plan)(unsafe.Pointer(out)), (*C.rz_model_plan_device)(unsafe.Pointer(devices)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n_devices)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_prefill(cache *rz_cache, tokens *uint32, n uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_prefill((*C.rz_cache)(unsafe.Pointer(cache)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_decode_token(cache *rz_cache, token uint32, sampler *rz_sampler, next *uint32, err *rz_error) int32 {
	return int32(C.rz_decode_token((*C.rz_cache)(unsafe.Pointer(cache)), C.uint32_t(token), (*C.rz_sampler)(unsafe.Pointer(sampler)), (*C.uint32_t)(unsafe.Pointer(next)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_generate_into(cache *rz_cache, token uint32, sampler *rz_sampler, out *uint32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_generate_into((*C.rz_cache)(unsafe.Pointer(cache)), C.uint32_t(token), (*C.rz_sampler)(unsafe.Pointer(sampler)), (*C.uint32_t)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_decode_batch(caches **rz_cache, tokens *uint32, n uintptr, samplers **rz_sampler, next *uint32, err *rz_error) int32 {
	return int32(C.rz_decode_batch((**C.rz_cache)(unsafe.Pointer(caches)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (**C.rz_sampler)(unsafe.Pointer(samplers)), (*C.uint32_t)(unsafe.Pointer(next)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_logits_into(cache *rz_cache, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_logits_into((*C.rz_cache)(unsafe.Pointer(cache)), (*C.float)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_sample(cache *rz_cache, sampler *rz_sampler, token *uint32, err *rz_error) int32 {
	return int32(C.rz_sample((*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_sampler)(unsafe.Pointer(sampler)), (*C.uint32_t)(unsafe.Pointer(token)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_rows(model *rz_model, kind uint32, rows *float32, n_rows uintptr, row_dim uint32, columns uint32, lines uint32, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_rows((*C.rz_model)(unsafe.Pointer(model)), C.uint32_t(kind), (*C.float)(unsafe.Pointer(rows)), C.size_t(n_rows), C.uint32_t(row_dim), C.uint32_t(columns), C.uint32_t(lines), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_tokens(model *rz_model, tokens *uint32, n uintptr, cancel *rz_cancel, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_tokens((*C.rz_model)(unsafe.Pointer(model)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_info_get(media *rz_media, out *rz_media_info, err *rz_error) int32 {
	return int32(C.rz_media_info_get((*C.rz_media)(unsafe.Pointer(media)), (*C.rz_media_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_rows_into(media *rz_media, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_media_rows_into((*C.rz_media)(unsafe.Pointer(media)), (*C.float)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_save(media *rz_media, write uintptr, user uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.go_rz_media_save((*C.rz_media)(unsafe.Pointer(media)), C.uintptr_t(write), C.uintptr_t(user), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_load(model *rz_model, read uintptr, user uintptr, cancel *rz_cancel, out **rz_media, err *rz_error) int32 {
	return int32(C.go_rz_media_load((*C.rz_model)(unsafe.Pointer(model)), C.uintptr_t(read), C.uintptr_t(user), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_free(media *rz_media) {
	C.rz_media_free((*C.rz_media)(unsafe.Pointer(media)))
}

func (functions) rz_encoder_load(model *rz_model, path *byte, params *rz_encoder_params, out **rz_encoder, err *rz_error) int32 {
	return int32(C.rz_encoder_load((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(path)), (*C.rz_encoder_params)(unsafe.Pointer(params)), (**C.rz_encoder)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_encoder_load_from(model *rz_model, sources *rz_source, n uintptr, params *rz_encoder_params, out **rz_encoder, err *rz_error) int32 {
	return int32(C.rz_encoder_load_from((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_source)(unsafe.Pointer(sources)), C.size_t(n), (*C.rz_encoder_params)(unsafe.Pointer(params)), (**C.rz_encoder)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_encoder_free(encoder *rz_encoder) {
	C.rz_encoder_free((*C.rz_encoder)(unsafe.Pointer(encoder)))
}

func (functions) rz_encoder_info_get(encoder *rz_encoder, out *rz_encoder_info, err *rz_error) int32 {
	return int32(C.rz_encoder_info_get((*C.rz_encoder)(unsafe.Pointer(encoder)), (*C.rz_encoder_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_encoder_plan_get(model *rz_model, path *byte, sources *rz_source, n uintptr, params *rz_encoder_params, out *rz_encoder_plan, err *rz_error) int32 {
	return int32(C.rz_encoder_plan_get((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(path)), (*C.rz_source)(unsafe.Pointer(sources)), C.size_t(n), (*C.rz_encoder_params)(unsafe.Pointer(params)), (*C.rz_encoder_plan)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_pixels(encoder *rz_encoder, pixels *rz_pixels, params *rz_media_params, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_pixels((*C.rz_encoder)(unsafe.Pointer(encoder)), (*C.rz_pixels)(unsafe.Pointer(pixels)), (*C.rz_media_params)(unsafe.Pointer(params)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_image(encoder *rz_encoder, data *byte, size uintptr, params *rz_media_params, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_image((*C.rz_encoder)(unsafe.Pointer(encoder)), unsafe.Pointer(data), C.size_t(size), (*C.rz_media_params)(unsafe.Pointer(params)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_measure(encoder *rz_encoder, width uint32, height uint32, params *rz_media_params, out *rz_media_info, err *rz_error) int32 {
	return int32(C.rz_media_measure((*C.rz_encoder)(unsafe.Pointer(encoder)), C.uint32_t(width), C.uint32_t(height), (*C.rz_media_params)(unsafe.Pointer(params)), (*C.rz_media_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_samples(encoder *rz_encoder, samples *float32, n uintptr, channels uint32, rate uint32, params *rz_media_params, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_samples((*C.rz_encoder)(unsafe.Pointer(encoder)), (*C.float)(unsafe.Pointer(samples)), C.size_t(n), C.uint32_t(channels), C.uint32_t(rate), (*C.rz_media_params)(unsafe.Pointer(params)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_audio(encoder *rz_encoder, data *byte, size uintptr, params *rz_media_params, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_audio((*C.rz_encoder)(unsafe.Pointer(encoder)), unsafe.Pointer(data), C.size_t(size), (*C.rz_media_params)(unsafe.Pointer(params)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_from_frames(encoder *rz_encoder, frames *rz_pixels, times *float64, n uintptr, params *rz_media_params, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_media_from_frames((*C.rz_encoder)(unsafe.Pointer(encoder)), (*C.rz_pixels)(unsafe.Pointer(frames)), (*C.double)(unsafe.Pointer(times)), C.size_t(n), (*C.rz_media_params)(unsafe.Pointer(params)), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_media_step(media *rz_media, budget_us uint64, err *rz_error) int32 {
	return int32(C.rz_media_step((*C.rz_media)(unsafe.Pointer(media)), C.uint64_t(budget_us), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_prompt_new(model *rz_model, parts *rz_part, n uintptr, flags uint32, out **rz_prompt, err *rz_error) int32 {
	return int32(C.rz_prompt_new((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_part)(unsafe.Pointer(parts)), C.size_t(n), C.uint32_t(flags), (**C.rz_prompt)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_prompt_from_chat(model *rz_model, json *byte, json_len uintptr, flags uint32, media **rz_media, n_media uintptr, cancel *rz_cancel, out **rz_prompt, err *rz_error) int32 {
	return int32(C.rz_prompt_from_chat((*C.rz_model)(unsafe.Pointer(model)), (*C.char)(unsafe.Pointer(json)), C.size_t(json_len), C.uint32_t(flags), (**C.rz_media)(unsafe.Pointer(media)), C.size_t(n_media), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_prompt)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_prompt_free(prompt *rz_prompt) {
	C.rz_prompt_free((*C.rz_prompt)(unsafe.Pointer(prompt)))
}

func (functions) rz_prompt_len(prompt *rz_prompt) uintptr {
	return uintptr(C.rz_prompt_len((*C.rz_prompt)(unsafe.Pointer(prompt))))
}

func (functions) rz_prompt_tokens_into(prompt *rz_prompt, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_prompt_tokens_into((*C.rz_prompt)(unsafe.Pointer(prompt)), (*C.uint32_t)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_cache_match_prompt(cache *rz_cache, prompt *rz_prompt, common *uint32, err *rz_error) int32 {
	return int32(C.rz_cache_match_prompt((*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_prompt)(unsafe.Pointer(prompt)), (*C.uint32_t)(unsafe.Pointer(common)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_prefill_prompt(cache *rz_cache, prompt *rz_prompt, first uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_prefill_prompt((*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_prompt)(unsafe.Pointer(prompt)), C.size_t(first), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_new(cache *rz_cache, params *rz_job_params, out **rz_job, err *rz_error) int32 {
	return int32(C.rz_job_new((*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_job_params)(unsafe.Pointer(params)), (**C.rz_job)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_step(job *rz_job, budget_us uint64, err *rz_error) int32 {
	return int32(C.rz_job_step((*C.rz_job)(unsafe.Pointer(job)), C.uint64_t(budget_us), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_jobs_step(jobs **rz_job, n uintptr, budget_us uint64, err *rz_error) int32 {
	return int32(C.rz_jobs_step((**C.rz_job)(unsafe.Pointer(jobs)), C.size_t(n), C.uint64_t(budget_us), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_error(job *rz_job, err *rz_error) int32 {
	return int32(C.rz_job_error((*C.rz_job)(unsafe.Pointer(job)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_text_into(job *rz_job, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_job_text_into((*C.rz_job)(unsafe.Pointer(job)), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_next_into(job *rz_job, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_job_next_into((*C.rz_job)(unsafe.Pointer(job)), (*C.uint32_t)(unsafe.Pointer(kind)), (*C.uint32_t)(unsafe.Pointer(flags)), (*C.uint32_t)(unsafe.Pointer(index)), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_tokens_into(job *rz_job, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_job_tokens_into((*C.rz_job)(unsafe.Pointer(job)), (*C.uint32_t)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_logprobs_into(job *rz_job, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_job_logprobs_into((*C.rz_job)(unsafe.Pointer(job)), (*C.uint32_t)(unsafe.Pointer(tokens)), (*C.float)(unsafe.Pointer(logprobs)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_info_get(job *rz_job, out *rz_job_info, err *rz_error) int32 {
	return int32(C.rz_job_info_get((*C.rz_job)(unsafe.Pointer(job)), (*C.rz_job_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_job_free(job *rz_job) {
	C.rz_job_free((*C.rz_job)(unsafe.Pointer(job)))
}

func (functions) rz_store_new(model *rz_model, params *rz_store_params, out **rz_store, err *rz_error) int32 {
	return int32(C.rz_store_new((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_store_params)(unsafe.Pointer(params)), (**C.rz_store)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_store_take(store *rz_store, tokens *uint32, n uintptr, params *rz_cache_params, cancel *rz_cancel, out **rz_cache, common *uint32, err *rz_error) int32 {
	return int32(C.rz_store_take((*C.rz_store)(unsafe.Pointer(store)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (*C.rz_cache_params)(unsafe.Pointer(params)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_cache)(unsafe.Pointer(out)), (*C.uint32_t)(unsafe.Pointer(common)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_store_take_prompt(store *rz_store, prompt *rz_prompt, params *rz_cache_params, cancel *rz_cancel, out **rz_cache, common *uint32, err *rz_error) int32 {
	return int32(C.rz_store_take_prompt((*C.rz_store)(unsafe.Pointer(store)), (*C.rz_prompt)(unsafe.Pointer(prompt)), (*C.rz_cache_params)(unsafe.Pointer(params)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (**C.rz_cache)(unsafe.Pointer(out)), (*C.uint32_t)(unsafe.Pointer(common)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_store_put(store *rz_store, cache *rz_cache, err *rz_error) int32 {
	return int32(C.rz_store_put((*C.rz_store)(unsafe.Pointer(store)), (*C.rz_cache)(unsafe.Pointer(cache)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_store_clear(store *rz_store, err *rz_error) int32 {
	return int32(C.rz_store_clear((*C.rz_store)(unsafe.Pointer(store)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_store_info_get(store *rz_store, out *rz_store_info, err *rz_error) int32 {
	return int32(C.rz_store_info_get((*C.rz_store)(unsafe.Pointer(store)), (*C.rz_store_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_store_free(store *rz_store) {
	C.rz_store_free((*C.rz_store)(unsafe.Pointer(store)))
}

func (functions) rz_conversation_new(model *rz_model, params *rz_conversation_params, out **rz_conversation, err *rz_error) int32 {
	return int32(C.rz_conversation_new((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_conversation_params)(unsafe.Pointer(params)), (**C.rz_conversation)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_add(conversation *rz_conversation, json *byte, len uintptr, media **rz_media, n_media uintptr, err *rz_error) int32 {
	return int32(C.rz_conversation_add((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.char)(unsafe.Pointer(json)), C.size_t(len), (**C.rz_media)(unsafe.Pointer(media)), C.size_t(n_media), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_add_text(conversation *rz_conversation, role *byte, text *byte, len uintptr, err *rz_error) int32 {
	return int32(C.rz_conversation_add_text((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.char)(unsafe.Pointer(role)), (*C.char)(unsafe.Pointer(text)), C.size_t(len), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_reply(conversation *rz_conversation, params *rz_reply_params, err *rz_error) int32 {
	return int32(C.rz_conversation_reply((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_reply_params)(unsafe.Pointer(params)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_step(conversation *rz_conversation, budget_us uint64, err *rz_error) int32 {
	return int32(C.rz_conversation_step((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uint64_t(budget_us), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversations_step(conversations **rz_conversation, n uintptr, budget_us uint64, err *rz_error) int32 {
	return int32(C.rz_conversations_step((**C.rz_conversation)(unsafe.Pointer(conversations)), C.size_t(n), C.uint64_t(budget_us), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_next_into(conversation *rz_conversation, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_conversation_next_into((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.uint32_t)(unsafe.Pointer(kind)), (*C.uint32_t)(unsafe.Pointer(flags)), (*C.uint32_t)(unsafe.Pointer(index)), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_stop(conversation *rz_conversation, err *rz_error) int32 {
	return int32(C.rz_conversation_stop((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_error(conversation *rz_conversation, err *rz_error) int32 {
	return int32(C.rz_conversation_error((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_logprobs_into(conversation *rz_conversation, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_conversation_logprobs_into((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.uint32_t)(unsafe.Pointer(tokens)), (*C.float)(unsafe.Pointer(logprobs)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_json_into(conversation *rz_conversation, first uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32 {
	return int32(C.rz_conversation_json_into((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uint32_t(first), (*C.char)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(len)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_rewind(conversation *rz_conversation, n_messages uint32, err *rz_error) int32 {
	return int32(C.rz_conversation_rewind((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uint32_t(n_messages), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_fork(conversation *rz_conversation, out **rz_conversation, err *rz_error) int32 {
	return int32(C.rz_conversation_fork((*C.rz_conversation)(unsafe.Pointer(conversation)), (**C.rz_conversation)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_info_get(conversation *rz_conversation, out *rz_conversation_info, err *rz_error) int32 {
	return int32(C.rz_conversation_info_get((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_conversation_info)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_free(conversation *rz_conversation) {
	C.rz_conversation_free((*C.rz_conversation)(unsafe.Pointer(conversation)))
}

func (functions) rz_conversation_say(conversation *rz_conversation, text *byte, params *rz_reply_params, on_text uintptr, user uintptr, err *rz_error) int32 {
	return int32(C.go_rz_conversation_say((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.char)(unsafe.Pointer(text)), (*C.rz_reply_params)(unsafe.Pointer(params)), C.uintptr_t(on_text), C.uintptr_t(user), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_read(conversation *rz_conversation, params *rz_reply_params, err *rz_error) int32 {
	return int32(C.rz_conversation_read((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_reply_params)(unsafe.Pointer(params)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_release(conversation *rz_conversation, err *rz_error) int32 {
	return int32(C.rz_conversation_release((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_capacity_set(conversation *rz_conversation, capacity uint32, err *rz_error) int32 {
	return int32(C.rz_conversation_capacity_set((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uint32_t(capacity), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_overflow_set(conversation *rz_conversation, mode uint32, err *rz_error) int32 {
	return int32(C.rz_conversation_overflow_set((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uint32_t(mode), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_cancel_set(conversation *rz_conversation, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_conversation_cancel_set((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_adapters_set(conversation *rz_conversation, adapters **rz_adapter, scales *float32, n_adapters uintptr, err *rz_error) int32 {
	return int32(C.rz_conversation_adapters_set((*C.rz_conversation)(unsafe.Pointer(conversation)), (**C.rz_adapter)(unsafe.Pointer(adapters)), (*C.float)(unsafe.Pointer(scales)), C.size_t(n_adapters), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_store_set(conversation *rz_conversation, store *rz_store, err *rz_error) int32 {
	return int32(C.rz_conversation_store_set((*C.rz_conversation)(unsafe.Pointer(conversation)), (*C.rz_store)(unsafe.Pointer(store)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_save(conversation *rz_conversation, write uintptr, user uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.go_rz_conversation_save((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uintptr_t(write), C.uintptr_t(user), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_load(model *rz_model, params *rz_conversation_params, read uintptr, user uintptr, out **rz_conversation, err *rz_error) int32 {
	return int32(C.go_rz_conversation_load((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_conversation_params)(unsafe.Pointer(params)), C.uintptr_t(read), C.uintptr_t(user), (**C.rz_conversation)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_conversation_media(conversation *rz_conversation, number uint32, out **rz_media, err *rz_error) int32 {
	return int32(C.rz_conversation_media((*C.rz_conversation)(unsafe.Pointer(conversation)), C.uint32_t(number), (**C.rz_media)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_top_logprobs(cache *rz_cache, k uint32, tokens *uint32, logprobs *float32, n *uintptr, err *rz_error) int32 {
	return int32(C.rz_top_logprobs((*C.rz_cache)(unsafe.Pointer(cache)), C.uint32_t(k), (*C.uint32_t)(unsafe.Pointer(tokens)), (*C.float)(unsafe.Pointer(logprobs)), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_score(cache *rz_cache, tokens *uint32, n uintptr, logprobs *float32, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_score((*C.rz_cache)(unsafe.Pointer(cache)), (*C.uint32_t)(unsafe.Pointer(tokens)), C.size_t(n), (*C.float)(unsafe.Pointer(logprobs)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_embed_into(model *rz_model, params *rz_embed_params, tokens **uint32, lengths *uintptr, n_texts uintptr, out *float32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_embed_into((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_embed_params)(unsafe.Pointer(params)), (**C.uint32_t)(unsafe.Pointer(tokens)), (*C.size_t)(unsafe.Pointer(lengths)), C.size_t(n_texts), (*C.float)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_embed_prompts_into(model *rz_model, params *rz_embed_params, prompts **rz_prompt, n_prompts uintptr, out *float32, capacity uintptr, n *uintptr, cancel *rz_cancel, err *rz_error) int32 {
	return int32(C.rz_embed_prompts_into((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_embed_params)(unsafe.Pointer(params)), (**C.rz_prompt)(unsafe.Pointer(prompts)), C.size_t(n_prompts), (*C.float)(unsafe.Pointer(out)), C.size_t(capacity), (*C.size_t)(unsafe.Pointer(n)), (*C.rz_cancel)(unsafe.Pointer(cancel)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_metrics_get(model *rz_model, out *rz_metrics, err *rz_error) int32 {
	return int32(C.rz_metrics_get((*C.rz_model)(unsafe.Pointer(model)), (*C.rz_metrics)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_backend_metrics_get(model *rz_model, device_kind uint32, out *rz_backend_metrics, err *rz_error) int32 {
	return int32(C.rz_backend_metrics_get((*C.rz_model)(unsafe.Pointer(model)), C.uint32_t(device_kind), (*C.rz_backend_metrics)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}

func (functions) rz_metrics_reset(model *rz_model) {
	C.rz_metrics_reset((*C.rz_model)(unsafe.Pointer(model)))
}

func (functions) rz_layout_get(index uint32, out *rz_layout, err *rz_error) int32 {
	return int32(C.rz_layout_get(C.uint32_t(index), (*C.rz_layout)(unsafe.Pointer(out)), (*C.rz_error)(unsafe.Pointer(err))))
}
