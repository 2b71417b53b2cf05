// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

// The constants, structs and functions have the names of the header, by which the library is asked for them; constants
// begin with a small letter, which keeps them inside of the package.
const (
	rz_NONE                       = 0xFFFFFFFF
	rz_OK                         = 0
	rz_AGAIN                      = 1
	rz_DONE                       = 2
	rz_ERR_INVALID_ARGUMENT       = -1
	rz_ERR_BUSY                   = -2
	rz_ERR_OUT_OF_MEMORY          = -3
	rz_ERR_DEVICE_OUT_OF_MEMORY   = -4
	rz_ERR_LIMIT                  = -5
	rz_ERR_IO                     = -6
	rz_ERR_FORMAT                 = -7
	rz_ERR_UNSUPPORTED            = -8
	rz_ERR_VERSION                = -9
	rz_ERR_CANCELLED              = -10
	rz_ERR_DEADLINE               = -11
	rz_ERR_CONTEXT_FULL           = -12
	rz_ERR_BUFFER_TOO_SMALL       = -13
	rz_ERR_DEVICE_UNAVAILABLE     = -14
	rz_ERR_DEVICE_LOST            = -15
	rz_ERR_MISMATCH               = -16
	rz_ERR_PANIC                  = -17
	rz_ERR_POISONED               = -18
	rz_ERR_NOT_FOUND              = -19
	rz_ERR_NOT_READY              = -20
	rz_ERR_RESOURCES              = -21
	rz_ABI_VERSION                = 1
	rz_FEATURE_GPU                = 1
	rz_FEATURE_IMAGES             = 2
	rz_FEATURE_SOUNDS             = 4
	rz_FEATURE_THREADS            = 8
	rz_DEVICE_CPU                 = 1
	rz_DEVICE_GPU                 = 2
	rz_LOG_ERROR                  = 1
	rz_LOG_WARNING                = 2
	rz_LOG_INFO                   = 3
	rz_THREAD_COMPUTE             = 1
	rz_THREAD_LOAD                = 2
	rz_THREAD_TEMPLATE            = 3
	rz_THREAD_STORE               = 4
	rz_NO_LIMIT                   = 0xFFFFFFFFFFFFFFFF
	rz_TYPE_DEFAULT               = 0
	rz_TYPE_F32                   = 256
	rz_TYPE_F16                   = 1
	rz_TYPE_BF16                  = 30
	rz_TYPE_F8_E4M3               = 257
	rz_TYPE_Q4_0                  = 2
	rz_TYPE_Q4_1                  = 3
	rz_TYPE_Q5_0                  = 6
	rz_TYPE_Q5_1                  = 7
	rz_TYPE_Q8_0                  = 8
	rz_TYPE_Q2_K                  = 10
	rz_TYPE_Q3_K                  = 11
	rz_TYPE_Q4_K                  = 12
	rz_TYPE_Q5_K                  = 13
	rz_TYPE_Q6_K                  = 14
	rz_TYPE_IQ1_S                 = 19
	rz_TYPE_IQ1_M                 = 29
	rz_TYPE_IQ2_XXS               = 16
	rz_TYPE_IQ2_XS                = 17
	rz_TYPE_IQ2_S                 = 22
	rz_TYPE_IQ3_XXS               = 18
	rz_TYPE_IQ3_S                 = 21
	rz_TYPE_IQ4_NL                = 20
	rz_TYPE_IQ4_XS                = 23
	rz_TYPE_TQ1_0                 = 34
	rz_TYPE_TQ2_0                 = 35
	rz_TYPE_MXFP4                 = 39
	rz_TYPE_NVFP4                 = 40
	rz_TYPE_Q1_0                  = 41
	rz_TYPE_Q2_0                  = 42
	rz_TYPE_PQ2_0                 = 142
	rz_TYPE_PTQ1_0                = 143
	rz_PLACED_EXPERTS             = 1
	rz_PLACE_AUTO                 = 0
	rz_PLACE_CPU                  = 1
	rz_PLACE_GPU                  = 2
	rz_MODEL_DETERMINISTIC        = 1
	rz_MODEL_MMAP                 = 2
	rz_MODEL_TEXT_ONLY            = 4
	rz_MODEL_PROFILE              = 8
	rz_MODEL_MTP                  = 16
	rz_MODEL_ALLOW_UNKNOWN        = 32
	rz_MODEL_BF16_PRODUCTS        = 64
	rz_DEVICES_MAX                = 16
	rz_TOKEN_NONE                 = 0xFFFFFFFF
	rz_SAMPLING_TEMPERATURE       = 1
	rz_SAMPLING_TOP_K             = 2
	rz_SAMPLING_TOP_P             = 4
	rz_SAMPLING_MIN_P             = 8
	rz_SAMPLING_REPEAT_PENALTY    = 16
	rz_SAMPLING_PENALTY_WINDOW    = 32
	rz_TEMPLATE_PRESENT           = 1
	rz_TEMPLATE_WRITES_BOS        = 2
	rz_CAN_GENERATE               = 1
	rz_CAN_SYSTEM                 = 2
	rz_CAN_TOOLS                  = 4
	rz_CAN_REASON                 = 8
	rz_CAN_SWITCH_REASONING       = 16
	rz_CAN_IMAGES                 = 32
	rz_CAN_AUDIO                  = 64
	rz_CAN_VIDEO                  = 128
	rz_SOURCE_MEMORY              = 1
	rz_SOURCE_FD                  = 2
	rz_SOURCE_READER              = 3
	rz_TOKENIZE_ADD_SPECIAL       = 1
	rz_TOKENIZE_PARSE_SPECIAL     = 2
	rz_DETOKENIZE_SPECIAL         = 1
	rz_ATTR_NORMAL                = 1
	rz_ATTR_CONTROL               = 2
	rz_ATTR_USER                  = 4
	rz_ATTR_BYTE                  = 8
	rz_ATTR_END                   = 16
	rz_CHAT_ADD_GENERATION_PROMPT = 1
	rz_CHAT_EVENT_REASONING       = 1
	rz_CHAT_EVENT_CONTENT         = 2
	rz_CHAT_EVENT_TOOL_NAME       = 3
	rz_CHAT_EVENT_TOOL_ARGUMENTS  = 4
	rz_CHAT_EVENT_END             = 5
	rz_CHAT_EVENT_TOOL_ID         = 6
	rz_CHAT_EVENT_FLAG_UNPARSED   = 1
	rz_FILTER_TOP_N_SIGMA         = 1
	rz_FILTER_TOP_K               = 2
	rz_FILTER_TYPICAL_P           = 3
	rz_FILTER_TOP_P               = 4
	rz_FILTER_MIN_P               = 5
	rz_FILTER_XTC                 = 6
	rz_FILTER_TEMPERATURE         = 7
	rz_SAMPLER_TEMPERATURE_FIRST  = 1
	rz_GRAMMAR_JSON_SCHEMA        = 1
	rz_GRAMMAR_REGEX              = 2
	rz_GRAMMAR_LARK               = 3
	rz_GRAMMAR_GBNF               = 4
	rz_GRAMMAR_JSON               = 5
	rz_GRAMMAR_CHOICES            = 6
	rz_GRAMMAR_TOOLS              = 7
	rz_GRAMMAR_FLAG_WHITESPACE    = 1
	rz_GRAMMAR_FLAG_BEST_EFFORT   = 2
	rz_MEDIA_IMAGE                = 1
	rz_MEDIA_AUDIO                = 2
	rz_MEDIA_TEXT                 = 4
	rz_MEDIA_VECTOR               = 8
	rz_MEDIA_VIDEO                = 16
	rz_TOKEN_MEDIA                = 0xFFFFFFFE
	rz_ENCODER_IMAGE              = 1
	rz_ENCODER_AUDIO              = 2
	rz_PIXELS_RGB8                = 1
	rz_PIXELS_RGBA8               = 2
	rz_PIXELS_BGRA8               = 3
	rz_PIXELS_GRAY8               = 4
	rz_ENCODE_STEPS               = 1
	rz_PROMPT_BARE                = 1
	rz_DRAFT_NONE                 = 0
	rz_DRAFT_LOOKUP               = 1
	rz_DRAFT_MODEL                = 2
	rz_DRAFT_MTP                  = 3
	rz_STATE_PROMPT               = 1
	rz_STATE_TOKENS               = 2
	rz_STATE_ENDED                = 3
	rz_END_TOKEN                  = 1
	rz_END_LENGTH                 = 2
	rz_END_STOP                   = 3
	rz_END_CONTEXT                = 4
	rz_END_GRAMMAR                = 5
	rz_END_FAILED                 = 6
	rz_END_CANCELLED              = 7
	rz_OVERFLOW_FAIL              = 0
	rz_OVERFLOW_FORGET            = 1
	rz_REASONING_MODEL            = 0
	rz_REASONING_OFF              = 1
	rz_REASONING_ON               = 2
	rz_REPLY_KEEP                 = 1
	rz_REPLY_CONTINUE             = 2
	rz_POOLING_MODEL              = 0
	rz_POOLING_NONE               = 1
	rz_POOLING_MEAN               = 2
	rz_POOLING_CLS                = 3
	rz_POOLING_LAST               = 4
	rz_POOLING_RANK               = 5
	rz_EMBED_RAW                  = 1
)

type rz_error struct {
	code        int32
	system_code int32
	needed      uint64
	message     [496]byte
}

type rz_device_info struct {
	struct_size  uint32
	index        uint32
	id           [64]byte
	name         [64]byte
	kind         uint32
	available    uint32
	isa          [32]byte
	memory_total uint64
	memory_free  uint64
	unavailable  [256]byte
}

type rz_runtime_params struct {
	struct_size    uint32
	threads        uint32
	memory_limit   uint64
	cpus           *uint32
	n_cpus         uintptr
	log            uintptr
	log_user       uintptr
	parallel       uintptr
	parallel_user  uintptr
	on_thread      uintptr
	on_thread_user uintptr
}

type rz_runtime_info struct {
	struct_size      uint32
	threads          uint32
	template_threads uint32
	reserved         uint32
	memory_used      uint64
	memory_peak      uint64
	memory_limit     uint64
}

type rz_placement struct {
	struct_size uint32
	what        uint32
	place       uint32
	first_layer uint32
	n_layers    uint32
	reserved    uint32
	bytes       uint64
}

type rz_model_params struct {
	struct_size          uint32
	device               uint32
	runtime              uintptr
	flags                uint32
	gpu_layers           uint32
	quantize             uint32
	mixed_prefill_tokens uint32
	progress             uintptr
	progress_user        uintptr
	cancel               uintptr
	packed_path          *byte
	devices              *uint32
	n_devices            uintptr
	device_split         *float32
	placements           *rz_placement
	n_placements         uintptr
	tested_path          *byte
	chat_template        *byte
	chat_template_len    uintptr
	experts_copied_from  uint32
	reserved             uint32
}

type rz_model_sampling struct {
	struct_size    uint32
	advised        uint32
	temperature    float32
	top_k          uint32
	top_p          float32
	min_p          float32
	repeat_penalty float32
	penalty_window uint32
}

type rz_model_info struct {
	struct_size         uint32
	architecture        [32]byte
	name                [64]byte
	n_layers            uint32
	hidden_dim          uint32
	ffn_dim             uint32
	n_heads             uint32
	n_kv_heads          uint32
	head_dim            uint32
	vocab_size          uint32
	context_length      uint32
	device              uint32
	bos_token           uint32
	eos_token           uint32
	n_params            uint64
	weight_bytes        uint64
	gpu_layers          uint32
	chat_template       uint32
	n_unknown           uint32
	experts_host_first  uint32
	experts_host        uint64
	experts_device      uint64
	experts_host_layers uint32
	reads_source        uint32
	isa                 [32]byte
	experts_copied_from uint32
	capabilities        uint32
	embedding_dim       uint32
	pooling             uint32
	n_scores            uint32
	n_devices           uint32
}

type rz_model_device struct {
	struct_size uint32
	device      uint32
	n_layers    uint32
}

type rz_source struct {
	struct_size uint32
	kind        uint32
	name        *byte
	data        *byte
	size        uint64
	fd          int32
	reserved    uint32
	offset      uint64
	read        uintptr
	user        uintptr
}

type rz_logit_bias struct {
	token uint32
	bias  float32
}

type rz_token_sequence struct {
	tokens   *uint32
	n_tokens uintptr
}

type rz_sampler_params struct {
	struct_size          uint32
	temperature          float32
	top_k                uint32
	top_p                float32
	min_p                float32
	repeat_penalty       float32
	presence_penalty     float32
	frequency_penalty    float32
	penalty_window       uint32
	flags                uint32
	seed                 uint64
	biases               *rz_logit_bias
	n_biases             uintptr
	typical_p            float32
	top_n_sigma          float32
	xtc_probability      float32
	xtc_threshold        float32
	temperature_range    float32
	temperature_exponent float32
	mirostat_tau         float32
	mirostat_eta         float32
	dry_multiplier       float32
	dry_base             float32
	dry_allowed_length   uint32
	dry_window           uint32
	no_repeat_ngram_size uint32
	reserved             uint32
	dry_breakers         *rz_token_sequence
	n_dry_breakers       uintptr
	banned_sequences     *rz_token_sequence
	n_banned_sequences   uintptr
	order                *uint32
	n_order              uintptr
	edit_logits          uintptr
	edit_logits_user     uintptr
}

type rz_cache_params struct {
	struct_size uint32
	capacity    uint32
	k_type      uint32
	v_type      uint32
}

type rz_adapter_params struct {
	struct_size uint32
	flags       uint32
	cancel      uintptr
}

type rz_model_plan struct {
	struct_size         uint32
	gpu_layers          uint32
	weights_host        uint64
	weights_device      uint64
	cache_host          uint64
	cache_device        uint64
	cache_token         uint64
	scratch_host        uint64
	scratch_device      uint64
	load_peak_host      uint64
	total_host          uint64
	total_device        uint64
	experts_host_first  uint32
	experts_host_layers uint32
	experts_host        uint64
	experts_device      uint64
}

type rz_model_plan_device struct {
	struct_size uint32
	device      uint32
	n_layers    uint32
	reserved    uint32
	weights     uint64
	cache       uint64
	scratch     uint64
	total       uint64
}

type rz_media_info struct {
	struct_size  uint32
	kind         uint32
	n_rows       uint32
	n_tokens     uint32
	row_dim      uint32
	columns      uint32
	lines        uint32
	tile_columns uint32
	tile_lines   uint32
	has_overview uint32
	width        uint32
	height       uint32
	seen_width   uint32
	seen_height  uint32
	bytes        uint64
	encode_ns    uint64
	hash         [32]byte
	pairs        uint32
	reserved     uint32
}

type rz_encoder_params struct {
	struct_size   uint32
	flags         uint32
	device        uint32
	quantize      uint32
	max_rows      uint32
	reserved      uint32
	progress      uintptr
	progress_user uintptr
	cancel        uintptr
}

type rz_encoder_info struct {
	struct_size   uint32
	is_mutual     uint32
	projector     [32]byte
	row_dim       uint32
	n_layers      uint32
	tile_side     uint32
	grain         uint32
	min_rows      uint32
	max_rows      uint32
	weight_bytes  uint64
	scratch_bytes uint64
	kinds         uint32
	sample_rate   uint32
}

type rz_encoder_plan struct {
	struct_size  uint32
	max_rows     uint32
	weights_host uint64
	scratch_host uint64
	row          uint64
}

type rz_pixels struct {
	struct_size uint32
	format      uint32
	width       uint32
	height      uint32
	stride      uintptr
	data        *byte
}

type rz_media_params struct {
	struct_size   uint32
	min_rows      uint32
	max_rows      uint32
	max_tiles     uint32
	max_pixels    uint32
	flags         uint32
	progress      uintptr
	progress_user uintptr
	cancel        uintptr
	background    uint32
	reserved      uint32
}

type rz_part struct {
	tokens   *uint32
	n_tokens uintptr
	media    uintptr
}

type rz_job_params struct {
	struct_size  uint32
	max_tokens   uint32
	tokens       *uint32
	n_tokens     uintptr
	sampler      uintptr
	grammar      uintptr
	stops        **byte
	n_stops      uintptr
	cancel       uintptr
	flags        uint32
	reserved     uint32
	draft        uint32
	draft_max    uint32
	draft_model  uintptr
	logprobs     uint32
	priority     int32
	chat         *byte
	chat_len     uintptr
	prompt       uintptr
	prompt_first uintptr
}

type rz_job_info struct {
	struct_size    uint32
	state          uint32
	end_reason     uint32
	stopped        int32
	prompt_total   uint32
	prompt_done    uint32
	n_tokens       uint32
	cache_len      uint32
	prompt_ns      uint64
	tokens_ns      uint64
	first_token_ns uint64
	drafted        uint32
	accepted       uint32
}

type rz_store_params struct {
	struct_size  uint32
	min_tokens   uint32
	memory_limit uint64
	path         *byte
	max_entries  uintptr
	disk_limit   uint64
}

type rz_store_info struct {
	struct_size   uint32
	n_entries     uint32
	n_files       uint32
	n_unwritten   uint32
	memory_bytes  uint64
	disk_bytes    uint64
	hits          uint64
	misses        uint64
	reused_tokens uint64
	memory_limit  uint64
	disk_limit    uint64
}

type rz_conversation_params struct {
	struct_size uint32
	overflow    uint32
	json        *byte
	json_len    uintptr
	cache       *rz_cache_params
	adapters    *uintptr
	scales      *float32
	n_adapters  uintptr
	cancel      uintptr
	store       uintptr
}

type rz_reply_params struct {
	struct_size      uint32
	max_tokens       uint32
	sampler          *rz_sampler_params
	grammar_kind     uint32
	grammar_flags    uint32
	flags            uint32
	reserved         uint32
	grammar          *byte
	grammar_len      uintptr
	compiled_grammar uintptr
	stops            **byte
	n_stops          uintptr
	reasoning        uint32
	reasoning_tokens uint32
	draft            uint32
	draft_max        uint32
	draft_model      uintptr
	logprobs         uint32
	priority         int32
	cancel           uintptr
	json             *byte
	json_len         uintptr
}

type rz_conversation_info struct {
	struct_size      uint32
	n_messages       uint32
	first_in_prompt  uint32
	state            uint32
	end_reason       uint32
	stopped          int32
	prompt_tokens    uint32
	reused_tokens    uint32
	prompt_done      uint32
	n_tokens         uint32
	reasoning_tokens uint32
	drafted          uint32
	accepted         uint32
	cache_len        uint32
	cache_capacity   uint32
	n_media          uint32
	prompt_ns        uint64
	tokens_ns        uint64
	first_token_ns   uint64
}

type rz_embed_params struct {
	struct_size uint32
	pooling     uint32
	flags       uint32
	reserved    uint32
}

type rz_phase_metrics struct {
	count  uint64
	sum_ns uint64
}

type rz_metrics struct {
	struct_size   uint32
	reserved      uint32
	load          rz_phase_metrics
	tokenize      rz_phase_metrics
	prefill       rz_phase_metrics
	decode        rz_phase_metrics
	sample        rz_phase_metrics
	detokenize    rz_phase_metrics
	gpu_products  rz_phase_metrics
	gpu_attention rz_phase_metrics
	gpu_experts   rz_phase_metrics
	gpu_head      rz_phase_metrics
	gpu_other     rz_phase_metrics
	encode        rz_phase_metrics
}

type rz_backend_metrics struct {
	struct_size          uint32
	device_kind          uint32
	dispatches           uint64
	bytes                uint64
	latency_sum_ns       uint64
	latency_min_ns       uint64
	latency_max_ns       uint64
	latency_mean_ns      float64
	latency_variance_ns2 float64
	latency_histogram    [32]uint64
}

type rz_layout struct {
	struct_size uint32
	offset      uint32
	size        uint32
	struct_name [32]byte
	field_name  [32]byte
}

// structs is one of each struct.
var structs = []any{
	rz_error{},
	rz_device_info{},
	rz_runtime_params{},
	rz_runtime_info{},
	rz_placement{},
	rz_model_params{},
	rz_model_sampling{},
	rz_model_info{},
	rz_model_device{},
	rz_source{},
	rz_logit_bias{},
	rz_token_sequence{},
	rz_sampler_params{},
	rz_cache_params{},
	rz_adapter_params{},
	rz_model_plan{},
	rz_model_plan_device{},
	rz_media_info{},
	rz_encoder_params{},
	rz_encoder_info{},
	rz_encoder_plan{},
	rz_pixels{},
	rz_media_params{},
	rz_part{},
	rz_job_params{},
	rz_job_info{},
	rz_store_params{},
	rz_store_info{},
	rz_conversation_params{},
	rz_reply_params{},
	rz_conversation_info{},
	rz_embed_params{},
	rz_phase_metrics{},
	rz_metrics{},
	rz_backend_metrics{},
	rz_layout{},
}

// functions is every function of the library.
type functions struct {
	rz_abi_version                func() uint32
	rz_version                    func() string
	rz_version_number             func() uint32
	rz_features                   func() uint32
	rz_status_name                func(status int32) string
	rz_device_count               func() uint32
	rz_device_info_get            func(index uint32, out *rz_device_info, err *rz_error) int32
	rz_runtime_new                func(params *rz_runtime_params, out *uintptr, err *rz_error) int32
	rz_runtime_free               func(runtime uintptr)
	rz_runtime_threads_set        func(runtime uintptr, threads uint32, err *rz_error) int32
	rz_runtime_memory_limit_set   func(runtime uintptr, memory_limit uint64, err *rz_error) int32
	rz_runtime_info_get           func(runtime uintptr, out *rz_runtime_info, err *rz_error) int32
	rz_cancel_new                 func(out *uintptr, err *rz_error) int32
	rz_cancel_free                func(cancel uintptr)
	rz_cancel_fire                func(cancel uintptr)
	rz_cancel_deadline            func(cancel uintptr, us_from_now uint64, err *rz_error) int32
	rz_cancel_reset               func(cancel uintptr)
	rz_cancel_is_fired            func(cancel uintptr) int32
	rz_model_load                 func(path *byte, params *rz_model_params, out *uintptr, err *rz_error) int32
	rz_model_free                 func(model uintptr)
	rz_model_sampling_get         func(model uintptr, out *rz_model_sampling, err *rz_error) int32
	rz_model_meta_into            func(model uintptr, key *byte, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_model_meta_key_into        func(model uintptr, index uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_model_meta_element_into    func(model uintptr, key *byte, index uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_model_info_get             func(model uintptr, out *rz_model_info, err *rz_error) int32
	rz_model_device_get           func(model uintptr, index uint32, out *rz_model_device, err *rz_error) int32
	rz_model_load_from            func(sources *rz_source, n uintptr, params *rz_model_params, out *uintptr, err *rz_error) int32
	rz_tokenize_into              func(model uintptr, text *byte, text_len uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, cancel uintptr, err *rz_error) int32
	rz_detokenize_into            func(model uintptr, tokens *uint32, n uintptr, flags uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_token_is_end               func(model uintptr, token uint32) int32
	rz_token_bytes_into           func(model uintptr, token uint32, out *byte, capacity uintptr, len *uintptr, attributes *uint32, err *rz_error) int32
	rz_textstream_new             func(model uintptr, out *uintptr, err *rz_error) int32
	rz_textstream_follow          func(stream uintptr, tokens *uint32, n uintptr, err *rz_error) int32
	rz_textstream_push_into       func(stream uintptr, token uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_textstream_flush_into      func(stream uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_textstream_free            func(stream uintptr)
	rz_chat_render_into           func(model uintptr, json *byte, json_len uintptr, flags uint32, out *byte, capacity uintptr, len *uintptr, cancel uintptr, err *rz_error) int32
	rz_chat_tokenize_into         func(model uintptr, json *byte, json_len uintptr, flags uint32, out *uint32, capacity uintptr, n *uintptr, cancel uintptr, err *rz_error) int32
	rz_chat_parser_new            func(model uintptr, json *byte, json_len uintptr, cancel uintptr, out *uintptr, err *rz_error) int32
	rz_chat_parser_push           func(parser uintptr, token uint32, err *rz_error) int32
	rz_chat_parser_end            func(parser uintptr, err *rz_error) int32
	rz_chat_parser_next_into      func(parser uintptr, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_chat_parser_free           func(parser uintptr)
	rz_sampler_new                func(params *rz_sampler_params, out *uintptr, err *rz_error) int32
	rz_sampler_free               func(sampler uintptr)
	rz_grammar_new                func(model uintptr, kind uint32, flags uint32, text *byte, len uintptr, cancel uintptr, out *uintptr, err *rz_error) int32
	rz_grammar_free               func(grammar uintptr)
	rz_sampler_grammar_set        func(sampler uintptr, grammar uintptr, err *rz_error) int32
	rz_cache_new                  func(model uintptr, params *rz_cache_params, out *uintptr, err *rz_error) int32
	rz_cache_free                 func(cache uintptr)
	rz_cache_len                  func(cache uintptr) uint32
	rz_cache_capacity             func(cache uintptr) uint32
	rz_cache_truncate             func(cache uintptr, len uint32, err *rz_error) int32
	rz_cache_cancel_set           func(cache uintptr, cancel uintptr, err *rz_error) int32
	rz_cache_fork                 func(cache uintptr, out *uintptr, err *rz_error) int32
	rz_cache_match                func(cache uintptr, tokens *uint32, n uintptr, common *uint32, err *rz_error) int32
	rz_cache_tokens_into          func(cache uintptr, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_cache_shift                func(cache uintptr, keep uint32, drop uint32, err *rz_error) int32
	rz_cache_release              func(cache uintptr, err *rz_error) int32
	rz_adapter_load               func(model uintptr, path *byte, params *rz_adapter_params, out *uintptr, err *rz_error) int32
	rz_adapter_load_from          func(model uintptr, sources *rz_source, n uintptr, params *rz_adapter_params, out *uintptr, err *rz_error) int32
	rz_adapter_free               func(adapter uintptr)
	rz_cache_adapters_set         func(cache uintptr, adapters *uintptr, scales *float32, n uintptr, err *rz_error) int32
	rz_cache_save                 func(cache uintptr, write uintptr, user uintptr, cancel uintptr, err *rz_error) int32
	rz_cache_load                 func(model uintptr, params *rz_cache_params, read uintptr, user uintptr, cancel uintptr, out *uintptr, err *rz_error) int32
	rz_model_plan_get             func(path *byte, sources *rz_source, n uintptr, params *rz_model_params, cache_params *rz_cache_params, n_caches uint32, out *rz_model_plan, devices *rz_model_plan_device, capacity uintptr, n_devices *uintptr, err *rz_error) int32
	rz_prefill                    func(cache uintptr, tokens *uint32, n uintptr, cancel uintptr, err *rz_error) int32
	rz_decode_token               func(cache uintptr, token uint32, sampler uintptr, next *uint32, err *rz_error) int32
	rz_generate_into              func(cache uintptr, token uint32, sampler uintptr, out *uint32, capacity uintptr, n *uintptr, cancel uintptr, err *rz_error) int32
	rz_decode_batch               func(caches *uintptr, tokens *uint32, n uintptr, samplers *uintptr, next *uint32, err *rz_error) int32
	rz_logits_into                func(cache uintptr, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_sample                     func(cache uintptr, sampler uintptr, token *uint32, err *rz_error) int32
	rz_media_from_rows            func(model uintptr, kind uint32, rows *float32, n_rows uintptr, row_dim uint32, columns uint32, lines uint32, out *uintptr, err *rz_error) int32
	rz_media_from_tokens          func(model uintptr, tokens *uint32, n uintptr, cancel uintptr, out *uintptr, err *rz_error) int32
	rz_media_info_get             func(media uintptr, out *rz_media_info, err *rz_error) int32
	rz_media_rows_into            func(media uintptr, out *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_media_save                 func(media uintptr, write uintptr, user uintptr, cancel uintptr, err *rz_error) int32
	rz_media_load                 func(model uintptr, read uintptr, user uintptr, cancel uintptr, out *uintptr, err *rz_error) int32
	rz_media_free                 func(media uintptr)
	rz_encoder_load               func(model uintptr, path *byte, params *rz_encoder_params, out *uintptr, err *rz_error) int32
	rz_encoder_load_from          func(model uintptr, sources *rz_source, n uintptr, params *rz_encoder_params, out *uintptr, err *rz_error) int32
	rz_encoder_free               func(encoder uintptr)
	rz_encoder_info_get           func(encoder uintptr, out *rz_encoder_info, err *rz_error) int32
	rz_encoder_plan_get           func(model uintptr, path *byte, sources *rz_source, n uintptr, params *rz_encoder_params, out *rz_encoder_plan, err *rz_error) int32
	rz_media_from_pixels          func(encoder uintptr, pixels *rz_pixels, params *rz_media_params, out *uintptr, err *rz_error) int32
	rz_media_from_image           func(encoder uintptr, data *byte, size uintptr, params *rz_media_params, out *uintptr, err *rz_error) int32
	rz_media_measure              func(encoder uintptr, width uint32, height uint32, params *rz_media_params, out *rz_media_info, err *rz_error) int32
	rz_media_from_samples         func(encoder uintptr, samples *float32, n uintptr, channels uint32, rate uint32, params *rz_media_params, out *uintptr, err *rz_error) int32
	rz_media_from_audio           func(encoder uintptr, data *byte, size uintptr, params *rz_media_params, out *uintptr, err *rz_error) int32
	rz_media_from_frames          func(encoder uintptr, frames *rz_pixels, times *float64, n uintptr, params *rz_media_params, out *uintptr, err *rz_error) int32
	rz_media_step                 func(media uintptr, budget_us uint64, err *rz_error) int32
	rz_prompt_new                 func(model uintptr, parts *rz_part, n uintptr, flags uint32, out *uintptr, err *rz_error) int32
	rz_prompt_from_chat           func(model uintptr, json *byte, json_len uintptr, flags uint32, media *uintptr, n_media uintptr, cancel uintptr, out *uintptr, err *rz_error) int32
	rz_prompt_free                func(prompt uintptr)
	rz_prompt_len                 func(prompt uintptr) uintptr
	rz_prompt_tokens_into         func(prompt uintptr, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_cache_match_prompt         func(cache uintptr, prompt uintptr, common *uint32, err *rz_error) int32
	rz_prefill_prompt             func(cache uintptr, prompt uintptr, first uintptr, cancel uintptr, err *rz_error) int32
	rz_job_new                    func(cache uintptr, params *rz_job_params, out *uintptr, err *rz_error) int32
	rz_job_step                   func(job uintptr, budget_us uint64, err *rz_error) int32
	rz_jobs_step                  func(jobs *uintptr, n uintptr, budget_us uint64, err *rz_error) int32
	rz_job_error                  func(job uintptr, err *rz_error) int32
	rz_job_text_into              func(job uintptr, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_job_next_into              func(job uintptr, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_job_tokens_into            func(job uintptr, out *uint32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_job_logprobs_into          func(job uintptr, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_job_info_get               func(job uintptr, out *rz_job_info, err *rz_error) int32
	rz_job_free                   func(job uintptr)
	rz_store_new                  func(model uintptr, params *rz_store_params, out *uintptr, err *rz_error) int32
	rz_store_take                 func(store uintptr, tokens *uint32, n uintptr, params *rz_cache_params, cancel uintptr, out *uintptr, common *uint32, err *rz_error) int32
	rz_store_take_prompt          func(store uintptr, prompt uintptr, params *rz_cache_params, cancel uintptr, out *uintptr, common *uint32, err *rz_error) int32
	rz_store_put                  func(store uintptr, cache uintptr, err *rz_error) int32
	rz_store_clear                func(store uintptr, err *rz_error) int32
	rz_store_info_get             func(store uintptr, out *rz_store_info, err *rz_error) int32
	rz_store_free                 func(store uintptr)
	rz_conversation_new           func(model uintptr, params *rz_conversation_params, out *uintptr, err *rz_error) int32
	rz_conversation_add           func(conversation uintptr, json *byte, len uintptr, media *uintptr, n_media uintptr, err *rz_error) int32
	rz_conversation_add_text      func(conversation uintptr, role *byte, text *byte, len uintptr, err *rz_error) int32
	rz_conversation_reply         func(conversation uintptr, params *rz_reply_params, err *rz_error) int32
	rz_conversation_step          func(conversation uintptr, budget_us uint64, err *rz_error) int32
	rz_conversations_step         func(conversations *uintptr, n uintptr, budget_us uint64, err *rz_error) int32
	rz_conversation_next_into     func(conversation uintptr, kind *uint32, flags *uint32, index *uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_conversation_stop          func(conversation uintptr, err *rz_error) int32
	rz_conversation_error         func(conversation uintptr, err *rz_error) int32
	rz_conversation_logprobs_into func(conversation uintptr, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, err *rz_error) int32
	rz_conversation_json_into     func(conversation uintptr, first uint32, out *byte, capacity uintptr, len *uintptr, err *rz_error) int32
	rz_conversation_rewind        func(conversation uintptr, n_messages uint32, err *rz_error) int32
	rz_conversation_fork          func(conversation uintptr, out *uintptr, err *rz_error) int32
	rz_conversation_info_get      func(conversation uintptr, out *rz_conversation_info, err *rz_error) int32
	rz_conversation_free          func(conversation uintptr)
	rz_conversation_say           func(conversation uintptr, text *byte, params *rz_reply_params, on_text uintptr, user uintptr, err *rz_error) int32
	rz_conversation_read          func(conversation uintptr, params *rz_reply_params, err *rz_error) int32
	rz_conversation_release       func(conversation uintptr, err *rz_error) int32
	rz_conversation_capacity_set  func(conversation uintptr, capacity uint32, err *rz_error) int32
	rz_conversation_overflow_set  func(conversation uintptr, mode uint32, err *rz_error) int32
	rz_conversation_cancel_set    func(conversation uintptr, cancel uintptr, err *rz_error) int32
	rz_conversation_adapters_set  func(conversation uintptr, adapters *uintptr, scales *float32, n_adapters uintptr, err *rz_error) int32
	rz_conversation_store_set     func(conversation uintptr, store uintptr, err *rz_error) int32
	rz_conversation_save          func(conversation uintptr, write uintptr, user uintptr, cancel uintptr, err *rz_error) int32
	rz_conversation_load          func(model uintptr, params *rz_conversation_params, read uintptr, user uintptr, out *uintptr, err *rz_error) int32
	rz_conversation_media         func(conversation uintptr, number uint32, out *uintptr, err *rz_error) int32
	rz_top_logprobs               func(cache uintptr, k uint32, tokens *uint32, logprobs *float32, n *uintptr, err *rz_error) int32
	rz_score                      func(cache uintptr, tokens *uint32, n uintptr, logprobs *float32, cancel uintptr, err *rz_error) int32
	rz_embed_into                 func(model uintptr, params *rz_embed_params, tokens **uint32, lengths *uintptr, n_texts uintptr, out *float32, capacity uintptr, n *uintptr, cancel uintptr, err *rz_error) int32
	rz_embed_prompts_into         func(model uintptr, params *rz_embed_params, prompts *uintptr, n_prompts uintptr, out *float32, capacity uintptr, n *uintptr, cancel uintptr, err *rz_error) int32
	rz_metrics_get                func(model uintptr, out *rz_metrics, err *rz_error) int32
	rz_backend_metrics_get        func(model uintptr, device_kind uint32, out *rz_backend_metrics, err *rz_error) int32
	rz_metrics_reset              func(model uintptr)
	rz_layout_get                 func(index uint32, out *rz_layout, err *rz_error) int32
}
