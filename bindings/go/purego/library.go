package realizar

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

const (
	abiVersion  = 1
	statusAgain = 1
)

// The structs and functions have the names of the header, by which they are looked up in the library.
type rz_error struct {
	code, system_code int32
	message           [504]byte
}

type rz_runtime_params struct {
	struct_size, threads    uint32
	memory_limit            uint64
	cpus                    *uint32
	n_cpus                  uintptr
	log, log_user           uintptr
	parallel, parallel_user uintptr
}

type rz_model_params struct {
	struct_size, device                   uint32
	runtime                               uintptr
	flags, gpu_layers, quantize, reserved uint32
	progress, progress_user, cancel       uintptr
	packed_path                           *byte
	devices                               *uint32
	n_devices                             uintptr
	shares                                *float32
}

type rz_model_info struct {
	struct_size                                                  uint32
	architecture                                                 [32]byte
	name                                                         [64]byte
	n_layers, hidden_dim, ffn_dim, n_heads, n_kv_heads, head_dim uint32
	vocab_size, context_length, device, bos_token, eos_token     uint32
	n_params, weight_bytes                                       uint64
	gpu_layers, chat_template                                    uint32
	devices, device_layers                                       [16]uint32
	n_unknown, reserved                                          uint32
}

type rz_model_sampling struct {
	struct_size, told            uint32
	temperature                  float32
	top_k                        uint32
	top_p, min_p, repeat_penalty float32
	penalty_window               uint32
}

type rz_source struct {
	struct_size, kind uint32
	name              *byte
	data              *byte
	size              uint64
	fd                int32
	reserved          uint32
	offset            uint64
	read, user        uintptr
}

type rz_plan struct {
	struct_size, gpu_layers                                    uint32
	weights_host, weights_device, cache_host, cache_device     uint64
	cache_token, scratch_host, scratch_device, load_peak_host  uint64
	total_host, total_device                                   uint64
	devices, device_layers                                     [16]uint32
	device_weights, device_cache, device_scratch, device_total [16]uint64
}

type rz_device_info struct {
	struct_size, index        uint32
	name                      [64]byte
	kind, available           uint32
	isa                       [32]byte
	memory_total, memory_free uint64
	unavailable               [256]byte
}

type rz_phase_metrics struct{ count, sum_ns uint64 }

type rz_metrics struct {
	struct_size, reserved                                         uint32
	load, tokenize, prefill, decode, sample, detokenize           rz_phase_metrics
	gpu_products, gpu_attention, gpu_experts, gpu_head, gpu_other rz_phase_metrics
}

type rz_backend_metrics struct {
	struct_size, device_kind                       uint32
	dispatches, bytes                              uint64
	latency_sum_ns, latency_min_ns, latency_max_ns uint64
	latency_mean_ns, latency_variance_ns2          float64
	latency_histogram                              [32]uint64
}

type rz_logit_bias struct {
	token uint32
	bias  float32
}

type rz_sampler_params struct {
	struct_size                                                       uint32
	temperature                                                       float32
	top_k                                                             uint32
	top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty float32
	penalty_window, flags                                             uint32
	seed                                                              uint64
	biases                                                            *rz_logit_bias
	n_biases                                                          uintptr
}

type rz_cache_params struct{ struct_size, capacity, k_type, v_type uint32 }

type rz_job_params struct {
	struct_size, max_tokens           uint32
	tokens                            *uint32
	n_tokens                          uintptr
	sampler, grammar                  uintptr
	stops                             **byte
	n_stops                           uintptr
	cancel                            uintptr
	flags, reserved, draft, draft_max uint32
	draft_model                       uintptr
	logprobs, reserved_1              uint32
	chat                              *byte
	chat_len                          uintptr
}

type rz_job_info struct {
	struct_size, state, end              uint32
	stopped                              int32
	prompt_total, prompt_done, n_tokens  uint32
	cache_len                            uint32
	prompt_ns, tokens_ns, first_token_ns uint64
	drafted, accepted                    uint32
}

type rz_embed_params struct{ struct_size, pooling, flags, reserved uint32 }

type rz_layout struct {
	struct_size, offset, size uint32
	struct_name, field_name   [32]byte
}

// functions is every function of the library that this package calls.
type functions struct {
	rz_abi_version             func() uint32
	rz_version                 func() string
	rz_status_name             func(status int32) string
	rz_layout_get              func(index uint32, out *rz_layout, err *rz_error) int32
	rz_runtime_new             func(params *rz_runtime_params, out *uintptr, err *rz_error) int32
	rz_runtime_free            func(runtime uintptr)
	rz_cancel_new              func(out *uintptr, err *rz_error) int32
	rz_cancel_free             func(cancel uintptr)
	rz_cancel_fire             func(cancel uintptr)
	rz_cancel_reset            func(cancel uintptr)
	rz_model_load              func(path *byte, params *rz_model_params, out *uintptr, err *rz_error) int32
	rz_model_free              func(model uintptr)
	rz_runtime_threads_set     func(runtime uintptr, threads uint32, err *rz_error) int32
	rz_device_count            func() uint32
	rz_device_info_get         func(index uint32, out *rz_device_info, err *rz_error) int32
	rz_cancel_deadline         func(cancel uintptr, us uint64, err *rz_error) int32
	rz_model_load_from         func(sources *rz_source, n uintptr, params *rz_model_params, out *uintptr, err *rz_error) int32
	rz_model_plan              func(path *byte, sources *rz_source, n uintptr, params *rz_model_params, cache *rz_cache_params, caches uint32, out *rz_plan, err *rz_error) int32
	rz_model_sampling_get      func(model uintptr, out *rz_model_sampling, err *rz_error) int32
	rz_model_meta_into         func(model uintptr, key *byte, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_model_meta_key_into     func(model, index uintptr, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_model_meta_element_into func(model uintptr, key *byte, index uintptr, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_token_is_end            func(model uintptr, token uint32) int32
	rz_token_bytes_into        func(model uintptr, token uint32, out *byte, capacity uintptr, length *uintptr, attributes *uint32, err *rz_error) int32
	rz_chat_render_json_into   func(model uintptr, json *byte, length uintptr, flags uint32, out *byte, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_textstream_new          func(model uintptr, out *uintptr, err *rz_error) int32
	rz_textstream_follow       func(stream uintptr, tokens *uint32, n uintptr, err *rz_error) int32
	rz_textstream_push_into    func(stream uintptr, token uint32, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_textstream_flush_into   func(stream uintptr, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_textstream_free         func(stream uintptr)
	rz_sampler_grammar_set     func(sampler, grammar uintptr, err *rz_error) int32
	rz_adapter_load            func(model uintptr, path *byte, out *uintptr, err *rz_error) int32
	rz_adapter_free            func(adapter uintptr)
	rz_cache_adapters_set      func(cache uintptr, adapters *uintptr, scales *float32, n uintptr, err *rz_error) int32
	rz_cache_capacity          func(cache uintptr) uint32
	rz_cache_tokens_into       func(cache uintptr, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_cache_shift             func(cache uintptr, keep, drop uint32, err *rz_error) int32
	rz_cache_release           func(cache uintptr, err *rz_error) int32
	rz_cache_save              func(cache, write, user uintptr, err *rz_error) int32
	rz_cache_load              func(model uintptr, params *rz_cache_params, read, user uintptr, out *uintptr, err *rz_error) int32
	rz_prefill                 func(cache uintptr, tokens *uint32, n, cancel uintptr, err *rz_error) int32
	rz_sample                  func(cache, sampler uintptr, token *uint32, err *rz_error) int32
	rz_decode_token            func(cache uintptr, token uint32, sampler uintptr, next *uint32, err *rz_error) int32
	rz_decode_batch            func(caches *uintptr, tokens *uint32, n uintptr, samplers *uintptr, next *uint32, err *rz_error) int32
	rz_logits_into             func(cache uintptr, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_logprobs_into           func(cache uintptr, k uint32, tokens *uint32, logprobs *float32, n *uintptr, err *rz_error) int32
	rz_score_into              func(cache uintptr, tokens *uint32, n uintptr, logprobs *float32, cancel uintptr, err *rz_error) int32
	rz_job_error               func(job uintptr, err *rz_error) int32
	rz_job_next_into           func(job uintptr, kind, index *uint32, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_job_logprobs_into       func(job uintptr, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_metrics_get             func(model uintptr, out *rz_metrics, err *rz_error) int32
	rz_metrics_reset           func(model uintptr)
	rz_backend_metrics_get     func(model uintptr, kind uint32, out *rz_backend_metrics, err *rz_error) int32
	rz_model_info_get          func(model uintptr, out *rz_model_info, err *rz_error) int32
	rz_tokenize_into           func(model uintptr, text *byte, length uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_detokenize_into         func(model uintptr, tokens *uint32, n uintptr, flags uint32, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_chat_tokenize_into      func(model uintptr, json *byte, length uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_grammar_new             func(model uintptr, kind uint32, text *byte, length uintptr, out *uintptr, err *rz_error) int32
	rz_grammar_free            func(grammar uintptr)
	rz_sampler_new             func(params *rz_sampler_params, out *uintptr, err *rz_error) int32
	rz_sampler_free            func(sampler uintptr)
	rz_cache_new               func(model uintptr, params *rz_cache_params, out *uintptr, err *rz_error) int32
	rz_cache_free              func(cache uintptr)
	rz_cache_fork              func(cache uintptr, out *uintptr, err *rz_error) int32
	rz_cache_len               func(cache uintptr) uint32
	rz_cache_truncate          func(cache uintptr, length uint32, err *rz_error) int32
	rz_cache_match             func(cache uintptr, tokens *uint32, n uintptr, common *uint32, err *rz_error) int32
	rz_job_new                 func(cache uintptr, params *rz_job_params, out *uintptr, err *rz_error) int32
	rz_job_step                func(job uintptr, budget uint64, err *rz_error) int32
	rz_jobs_step               func(jobs *uintptr, n uintptr, budget uint64, err *rz_error) int32
	rz_job_text_into           func(job uintptr, out *byte, capacity uintptr, length *uintptr, err *rz_error) int32
	rz_job_tokens_into         func(job uintptr, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_job_info_get            func(job uintptr, out *rz_job_info, err *rz_error) int32
	rz_job_free                func(job uintptr)
	rz_embed_into              func(model uintptr, params *rz_embed_params, tokens **uint32, lengths *uintptr, n uintptr, out *float32, capacity uintptr, written *uintptr, cancel uintptr, err *rz_error) int32
}

// c is the loaded library.
var (
	c      functions
	opened string
	mutex  sync.Mutex
)

// Open loads the library from a file, once; "" has the system look for it under the name that it is installed with. Without a
// call [Load] does so. The error names the file and what is wrong with it.
func Open(path string) error {
	mutex.Lock()
	defer mutex.Unlock()
	if path == "" {
		path = map[string]string{"darwin": "librealizar.1.dylib", "ios": "librealizar.1.dylib", "windows": "realizar.dll"}[runtime.GOOS]
		if path == "" {
			path = "librealizar.so.1"
		}
		if opened != "" {
			return nil
		}
	}
	if opened == path {
		return nil
	} else if opened != "" {
		return fmt.Errorf("realizar: the library %s cannot be loaded beside %s", path, opened)
	}
	handle, err := openLibrary(path)
	if err != nil {
		return fmt.Errorf("realizar: the library %s cannot be loaded: %w", path, err)
	}
	var loaded functions
	table := reflect.ValueOf(&loaded).Elem()
	for i := range table.NumField() {
		name := table.Type().Field(i).Name
		symbol, err := lookUp(handle, name)
		if err != nil {
			return fmt.Errorf("realizar: the library %s has no function %s", path, name)
		}
		purego.RegisterFunc(reflect.NewAt(table.Field(i).Type(), table.Field(i).Addr().UnsafePointer()).Interface(), symbol)
		if name == "rz_abi_version" && loaded.rz_abi_version() != abiVersion {
			return fmt.Errorf("realizar: the library %s has the interface %d, %d is needed", path, loaded.rz_abi_version(), abiVersion)
		}
	}
	if err := checkLayouts(&loaded); err != nil {
		return fmt.Errorf("realizar: the library %s %w", path, err)
	}
	c, opened = loaded, path
	return nil
}

// checkLayouts compares the structs above with those of the library.
func checkLayouts(loaded *functions) error {
	type place struct{ offset, size uintptr }
	mine := map[string]place{}
	for _, value := range []any{rz_error{}, rz_runtime_params{}, rz_model_params{}, rz_model_info{}, rz_logit_bias{},
		rz_sampler_params{}, rz_cache_params{}, rz_job_params{}, rz_job_info{}, rz_embed_params{}, rz_layout{},
		rz_model_sampling{}, rz_source{}, rz_plan{}, rz_device_info{}, rz_phase_metrics{}, rz_metrics{}, rz_backend_metrics{}} {
		t := reflect.TypeOf(value)
		for i := range t.NumField() {
			field := t.Field(i)
			mine[t.Name()+"."+field.Name] = place{field.Offset, field.Type.Size()}
		}
	}
	layout := rz_layout{struct_size: uint32(unsafe.Sizeof(rz_layout{}))}
	for i := uint32(0); loaded.rz_layout_get(i, &layout, nil) == 0; i++ {
		name := text(layout.struct_name[:]) + "." + text(layout.field_name[:])
		found := place{uintptr(layout.offset), uintptr(layout.size)}
		if expected, known := mine[name]; known && expected != found {
			return fmt.Errorf("has %s at %d with %d bytes, expected at %d with %d",
				name, found.offset, found.size, expected.offset, expected.size)
		}
		delete(mine, name)
	}
	for name := range mine {
		return fmt.Errorf("lacks %s", name)
	}
	return nil
}

// text is a text of C that ends with a NUL, or with its array.
func text(bytes []byte) string {
	for i, b := range bytes {
		if b == 0 {
			return string(bytes[:i])
		}
	}
	return string(bytes)
}
