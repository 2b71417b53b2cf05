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
	rz_FEATURE_WGPU               = 16
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
	rz_HUB_CACHED                 = 1
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

// Handles are objects of the library, known by pointers alone.
type (
	rz_adapter      struct{ _ byte }
	rz_cache        struct{ _ byte }
	rz_cancel       struct{ _ byte }
	rz_chat_parser  struct{ _ byte }
	rz_conversation struct{ _ byte }
	rz_encoder      struct{ _ byte }
	rz_grammar      struct{ _ byte }
	rz_job          struct{ _ byte }
	rz_media        struct{ _ byte }
	rz_model        struct{ _ byte }
	rz_prompt       struct{ _ byte }
	rz_runtime      struct{ _ byte }
	rz_sampler      struct{ _ byte }
	rz_store        struct{ _ byte }
	rz_textstream   struct{ _ byte }
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
	runtime              *rz_runtime
	flags                uint32
	gpu_layers           uint32
	quantize             uint32
	mixed_prefill_tokens uint32
	progress             uintptr
	progress_user        uintptr
	cancel               *rz_cancel
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
	cancel      *rz_cancel
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
	cancel        *rz_cancel
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
	device        uint32
	reserved      uint32
}

type rz_encoder_plan struct {
	struct_size    uint32
	max_rows       uint32
	weights_host   uint64
	scratch_host   uint64
	row            uint64
	weights_device uint64
	scratch_device uint64
	device         uint32
	reserved       uint32
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
	cancel        *rz_cancel
	background    uint32
	reserved      uint32
}

type rz_part struct {
	tokens   *uint32
	n_tokens uintptr
	media    *rz_media
}

type rz_job_params struct {
	struct_size  uint32
	max_tokens   uint32
	tokens       *uint32
	n_tokens     uintptr
	sampler      *rz_sampler
	grammar      *rz_grammar
	stops        **byte
	n_stops      uintptr
	cancel       *rz_cancel
	flags        uint32
	reserved     uint32
	draft        uint32
	draft_max    uint32
	draft_model  *rz_model
	logprobs     uint32
	priority     int32
	chat         *byte
	chat_len     uintptr
	prompt       *rz_prompt
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
	adapters    **rz_adapter
	scales      *float32
	n_adapters  uintptr
	cancel      *rz_cancel
	store       *rz_store
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
	compiled_grammar *rz_grammar
	stops            **byte
	n_stops          uintptr
	reasoning        uint32
	reasoning_tokens uint32
	draft            uint32
	draft_max        uint32
	draft_model      *rz_model
	logprobs         uint32
	priority         int32
	cancel           *rz_cancel
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

func (o *Adapter) held() *owned[*rz_adapter] {
	if o == nil {
		return nil
	}
	return o.adapter
}

func (o *Session) held() *owned[*rz_cache] {
	if o == nil {
		return nil
	}
	return o.cache
}

func (o *ChatParser) held() *owned[*rz_chat_parser] {
	if o == nil {
		return nil
	}
	return o.parser
}

func (o *Conversation) held() *owned[*rz_conversation] {
	if o == nil {
		return nil
	}
	return o.conversation
}

func (o *Encoder) held() *owned[*rz_encoder] {
	if o == nil {
		return nil
	}
	return o.encoder
}

func (o *Grammar) held() *owned[*rz_grammar] {
	if o == nil {
		return nil
	}
	return o.grammar
}

func (o *Job) held() *owned[*rz_job] {
	if o == nil {
		return nil
	}
	return o.job
}

func (o *Media) held() *owned[*rz_media] {
	if o == nil {
		return nil
	}
	return o.media
}

func (o *Model) held() *owned[*rz_model] {
	if o == nil {
		return nil
	}
	return o.model
}

func (o *Prompt) held() *owned[*rz_prompt] {
	if o == nil {
		return nil
	}
	return o.prompt
}

func (o *Runtime) held() *owned[*rz_runtime] {
	if o == nil {
		return nil
	}
	return o.runtime
}

func (o *Sampler) held() *owned[*rz_sampler] {
	if o == nil {
		return nil
	}
	return o.sampler
}

func (o *Store) held() *owned[*rz_store] {
	if o == nil {
		return nil
	}
	return o.store
}

func (o *TextStream) held() *owned[*rz_textstream] {
	if o == nil {
		return nil
	}
	return o.stream
}
