package realizar;

/** The constants, structs and functions of realizar.h under its names. The build writes this file: make header. */
final class Header {
    static final int RZ_NONE = 0xFFFFFFFF;
    static final int RZ_OK = 0;
    static final int RZ_AGAIN = 1;
    static final int RZ_DONE = 2;
    static final int RZ_ERR_INVALID_ARGUMENT = -1;
    static final int RZ_ERR_BUSY = -2;
    static final int RZ_ERR_OUT_OF_MEMORY = -3;
    static final int RZ_ERR_DEVICE_OUT_OF_MEMORY = -4;
    static final int RZ_ERR_LIMIT = -5;
    static final int RZ_ERR_IO = -6;
    static final int RZ_ERR_FORMAT = -7;
    static final int RZ_ERR_UNSUPPORTED = -8;
    static final int RZ_ERR_VERSION = -9;
    static final int RZ_ERR_CANCELLED = -10;
    static final int RZ_ERR_DEADLINE = -11;
    static final int RZ_ERR_CONTEXT_FULL = -12;
    static final int RZ_ERR_BUFFER_TOO_SMALL = -13;
    static final int RZ_ERR_DEVICE_UNAVAILABLE = -14;
    static final int RZ_ERR_DEVICE_LOST = -15;
    static final int RZ_ERR_MISMATCH = -16;
    static final int RZ_ERR_PANIC = -17;
    static final int RZ_ERR_POISONED = -18;
    static final int RZ_ERR_NOT_FOUND = -19;
    static final int RZ_ERR_NOT_READY = -20;
    static final int RZ_ERR_RESOURCES = -21;
    static final int RZ_ABI_VERSION = 1;
    static final int RZ_FEATURE_GPU = 1;
    static final int RZ_FEATURE_IMAGES = 2;
    static final int RZ_FEATURE_SOUNDS = 4;
    static final int RZ_FEATURE_THREADS = 8;
    static final int RZ_FEATURE_WGPU = 16;
    static final int RZ_DEVICE_CPU = 1;
    static final int RZ_DEVICE_GPU = 2;
    static final int RZ_LOG_ERROR = 1;
    static final int RZ_LOG_WARNING = 2;
    static final int RZ_LOG_INFO = 3;
    static final int RZ_THREAD_COMPUTE = 1;
    static final int RZ_THREAD_LOAD = 2;
    static final int RZ_THREAD_TEMPLATE = 3;
    static final int RZ_THREAD_STORE = 4;
    static final long RZ_NO_LIMIT = 0xFFFFFFFFFFFFFFFFL;
    static final int RZ_TYPE_DEFAULT = 0;
    static final int RZ_TYPE_F32 = 256;
    static final int RZ_TYPE_F16 = 1;
    static final int RZ_TYPE_BF16 = 30;
    static final int RZ_TYPE_F8_E4M3 = 257;
    static final int RZ_TYPE_Q4_0 = 2;
    static final int RZ_TYPE_Q4_1 = 3;
    static final int RZ_TYPE_Q5_0 = 6;
    static final int RZ_TYPE_Q5_1 = 7;
    static final int RZ_TYPE_Q8_0 = 8;
    static final int RZ_TYPE_Q2_K = 10;
    static final int RZ_TYPE_Q3_K = 11;
    static final int RZ_TYPE_Q4_K = 12;
    static final int RZ_TYPE_Q5_K = 13;
    static final int RZ_TYPE_Q6_K = 14;
    static final int RZ_TYPE_IQ1_S = 19;
    static final int RZ_TYPE_IQ1_M = 29;
    static final int RZ_TYPE_IQ2_XXS = 16;
    static final int RZ_TYPE_IQ2_XS = 17;
    static final int RZ_TYPE_IQ2_S = 22;
    static final int RZ_TYPE_IQ3_XXS = 18;
    static final int RZ_TYPE_IQ3_S = 21;
    static final int RZ_TYPE_IQ4_NL = 20;
    static final int RZ_TYPE_IQ4_XS = 23;
    static final int RZ_TYPE_TQ1_0 = 34;
    static final int RZ_TYPE_TQ2_0 = 35;
    static final int RZ_TYPE_MXFP4 = 39;
    static final int RZ_TYPE_NVFP4 = 40;
    static final int RZ_TYPE_Q1_0 = 41;
    static final int RZ_TYPE_Q2_0 = 42;
    static final int RZ_TYPE_PQ2_0 = 142;
    static final int RZ_TYPE_PTQ1_0 = 143;
    static final int RZ_PLACED_EXPERTS = 1;
    static final int RZ_PLACE_AUTO = 0;
    static final int RZ_PLACE_CPU = 1;
    static final int RZ_PLACE_GPU = 2;
    static final int RZ_MODEL_DETERMINISTIC = 1;
    static final int RZ_MODEL_MMAP = 2;
    static final int RZ_MODEL_TEXT_ONLY = 4;
    static final int RZ_MODEL_PROFILE = 8;
    static final int RZ_MODEL_MTP = 16;
    static final int RZ_MODEL_ALLOW_UNKNOWN = 32;
    static final int RZ_MODEL_BF16_PRODUCTS = 64;
    static final int RZ_DEVICES_MAX = 16;
    static final int RZ_TOKEN_NONE = 0xFFFFFFFF;
    static final int RZ_SAMPLING_TEMPERATURE = 1;
    static final int RZ_SAMPLING_TOP_K = 2;
    static final int RZ_SAMPLING_TOP_P = 4;
    static final int RZ_SAMPLING_MIN_P = 8;
    static final int RZ_SAMPLING_REPEAT_PENALTY = 16;
    static final int RZ_SAMPLING_PENALTY_WINDOW = 32;
    static final int RZ_TEMPLATE_PRESENT = 1;
    static final int RZ_TEMPLATE_WRITES_BOS = 2;
    static final int RZ_CAN_GENERATE = 1;
    static final int RZ_CAN_SYSTEM = 2;
    static final int RZ_CAN_TOOLS = 4;
    static final int RZ_CAN_REASON = 8;
    static final int RZ_CAN_SWITCH_REASONING = 16;
    static final int RZ_CAN_IMAGES = 32;
    static final int RZ_CAN_AUDIO = 64;
    static final int RZ_CAN_VIDEO = 128;
    static final int RZ_SOURCE_MEMORY = 1;
    static final int RZ_SOURCE_FD = 2;
    static final int RZ_SOURCE_READER = 3;
    static final int RZ_HUB_CACHED = 1;
    static final int RZ_TOKENIZE_ADD_SPECIAL = 1;
    static final int RZ_TOKENIZE_PARSE_SPECIAL = 2;
    static final int RZ_DETOKENIZE_SPECIAL = 1;
    static final int RZ_ATTR_NORMAL = 1;
    static final int RZ_ATTR_CONTROL = 2;
    static final int RZ_ATTR_USER = 4;
    static final int RZ_ATTR_BYTE = 8;
    static final int RZ_ATTR_END = 16;
    static final int RZ_CHAT_ADD_GENERATION_PROMPT = 1;
    static final int RZ_CHAT_EVENT_REASONING = 1;
    static final int RZ_CHAT_EVENT_CONTENT = 2;
    static final int RZ_CHAT_EVENT_TOOL_NAME = 3;
    static final int RZ_CHAT_EVENT_TOOL_ARGUMENTS = 4;
    static final int RZ_CHAT_EVENT_END = 5;
    static final int RZ_CHAT_EVENT_TOOL_ID = 6;
    static final int RZ_CHAT_EVENT_FLAG_UNPARSED = 1;
    static final int RZ_FILTER_TOP_N_SIGMA = 1;
    static final int RZ_FILTER_TOP_K = 2;
    static final int RZ_FILTER_TYPICAL_P = 3;
    static final int RZ_FILTER_TOP_P = 4;
    static final int RZ_FILTER_MIN_P = 5;
    static final int RZ_FILTER_XTC = 6;
    static final int RZ_FILTER_TEMPERATURE = 7;
    static final int RZ_SAMPLER_TEMPERATURE_FIRST = 1;
    static final int RZ_GRAMMAR_JSON_SCHEMA = 1;
    static final int RZ_GRAMMAR_REGEX = 2;
    static final int RZ_GRAMMAR_LARK = 3;
    static final int RZ_GRAMMAR_GBNF = 4;
    static final int RZ_GRAMMAR_JSON = 5;
    static final int RZ_GRAMMAR_CHOICES = 6;
    static final int RZ_GRAMMAR_TOOLS = 7;
    static final int RZ_GRAMMAR_FLAG_WHITESPACE = 1;
    static final int RZ_GRAMMAR_FLAG_BEST_EFFORT = 2;
    static final int RZ_MEDIA_IMAGE = 1;
    static final int RZ_MEDIA_AUDIO = 2;
    static final int RZ_MEDIA_TEXT = 4;
    static final int RZ_MEDIA_VECTOR = 8;
    static final int RZ_MEDIA_VIDEO = 16;
    static final int RZ_TOKEN_MEDIA = 0xFFFFFFFE;
    static final int RZ_ENCODER_IMAGE = 1;
    static final int RZ_ENCODER_AUDIO = 2;
    static final int RZ_PIXELS_RGB8 = 1;
    static final int RZ_PIXELS_RGBA8 = 2;
    static final int RZ_PIXELS_BGRA8 = 3;
    static final int RZ_PIXELS_GRAY8 = 4;
    static final int RZ_ENCODE_STEPS = 1;
    static final int RZ_PROMPT_BARE = 1;
    static final int RZ_DRAFT_NONE = 0;
    static final int RZ_DRAFT_LOOKUP = 1;
    static final int RZ_DRAFT_MODEL = 2;
    static final int RZ_DRAFT_MTP = 3;
    static final int RZ_STATE_PROMPT = 1;
    static final int RZ_STATE_TOKENS = 2;
    static final int RZ_STATE_ENDED = 3;
    static final int RZ_END_TOKEN = 1;
    static final int RZ_END_LENGTH = 2;
    static final int RZ_END_STOP = 3;
    static final int RZ_END_CONTEXT = 4;
    static final int RZ_END_GRAMMAR = 5;
    static final int RZ_END_FAILED = 6;
    static final int RZ_END_CANCELLED = 7;
    static final int RZ_OVERFLOW_FAIL = 0;
    static final int RZ_OVERFLOW_FORGET = 1;
    static final int RZ_REASONING_MODEL = 0;
    static final int RZ_REASONING_OFF = 1;
    static final int RZ_REASONING_ON = 2;
    static final int RZ_REPLY_KEEP = 1;
    static final int RZ_REPLY_CONTINUE = 2;
    static final int RZ_POOLING_MODEL = 0;
    static final int RZ_POOLING_NONE = 1;
    static final int RZ_POOLING_MEAN = 2;
    static final int RZ_POOLING_CLS = 3;
    static final int RZ_POOLING_LAST = 4;
    static final int RZ_POOLING_RANK = 5;
    static final int RZ_EMBED_RAW = 1;

    static final Struct rz_error = new Struct("rz_error")
        .field("code", 4)
        .field("system_code", 4)
        .field("needed", 8)
        .field("message", 1 * 496);

    static final Struct rz_device_info = new Struct("rz_device_info")
        .field("struct_size", 4)
        .field("index", 4)
        .field("id", 1 * 64)
        .field("name", 1 * 64)
        .field("kind", 4)
        .field("available", 4)
        .field("isa", 1 * 32)
        .field("memory_total", 8)
        .field("memory_free", 8)
        .field("unavailable", 1 * 256);

    static final Struct rz_runtime_params = new Struct("rz_runtime_params")
        .field("struct_size", 4)
        .field("threads", 4)
        .field("memory_limit", 8)
        .field("cpus", 8)
        .field("n_cpus", 8)
        .field("log", 8)
        .field("log_user", 8)
        .field("parallel", 8)
        .field("parallel_user", 8)
        .field("on_thread", 8)
        .field("on_thread_user", 8);

    static final Struct rz_runtime_info = new Struct("rz_runtime_info")
        .field("struct_size", 4)
        .field("threads", 4)
        .field("template_threads", 4)
        .field("reserved", 4)
        .field("memory_used", 8)
        .field("memory_peak", 8)
        .field("memory_limit", 8);

    static final Struct rz_placement = new Struct("rz_placement")
        .field("struct_size", 4)
        .field("what", 4)
        .field("place", 4)
        .field("first_layer", 4)
        .field("n_layers", 4)
        .field("reserved", 4)
        .field("bytes", 8);

    static final Struct rz_model_params = new Struct("rz_model_params")
        .field("struct_size", 4)
        .field("device", 4)
        .field("runtime", 8)
        .field("flags", 4)
        .field("gpu_layers", 4)
        .field("quantize", 4)
        .field("mixed_prefill_tokens", 4)
        .field("progress", 8)
        .field("progress_user", 8)
        .field("cancel", 8)
        .field("packed_path", 8)
        .field("devices", 8)
        .field("n_devices", 8)
        .field("device_split", 8)
        .field("placements", 8)
        .field("n_placements", 8)
        .field("tested_path", 8)
        .field("chat_template", 8)
        .field("chat_template_len", 8)
        .field("experts_copied_from", 4)
        .field("reserved", 4);

    static final Struct rz_model_sampling = new Struct("rz_model_sampling")
        .field("struct_size", 4)
        .field("advised", 4)
        .field("temperature", 4)
        .field("top_k", 4)
        .field("top_p", 4)
        .field("min_p", 4)
        .field("repeat_penalty", 4)
        .field("penalty_window", 4);

    static final Struct rz_model_info = new Struct("rz_model_info")
        .field("struct_size", 4)
        .field("architecture", 1 * 32)
        .field("name", 1 * 64)
        .field("n_layers", 4)
        .field("hidden_dim", 4)
        .field("ffn_dim", 4)
        .field("n_heads", 4)
        .field("n_kv_heads", 4)
        .field("head_dim", 4)
        .field("vocab_size", 4)
        .field("context_length", 4)
        .field("device", 4)
        .field("bos_token", 4)
        .field("eos_token", 4)
        .field("n_params", 8)
        .field("weight_bytes", 8)
        .field("gpu_layers", 4)
        .field("chat_template", 4)
        .field("n_unknown", 4)
        .field("experts_host_first", 4)
        .field("experts_host", 8)
        .field("experts_device", 8)
        .field("experts_host_layers", 4)
        .field("reads_source", 4)
        .field("isa", 1 * 32)
        .field("experts_copied_from", 4)
        .field("capabilities", 4)
        .field("embedding_dim", 4)
        .field("pooling", 4)
        .field("n_scores", 4)
        .field("n_devices", 4);

    static final Struct rz_model_device = new Struct("rz_model_device")
        .field("struct_size", 4)
        .field("device", 4)
        .field("n_layers", 4);

    static final Struct rz_source = new Struct("rz_source")
        .field("struct_size", 4)
        .field("kind", 4)
        .field("name", 8)
        .field("data", 8)
        .field("size", 8)
        .field("fd", 4)
        .field("reserved", 4)
        .field("offset", 8)
        .field("read", 8)
        .field("user", 8);

    static final Struct rz_logit_bias = new Struct("rz_logit_bias")
        .field("token", 4)
        .field("bias", 4);

    static final Struct rz_token_sequence = new Struct("rz_token_sequence")
        .field("tokens", 8)
        .field("n_tokens", 8);

    static final Struct rz_sampler_params = new Struct("rz_sampler_params")
        .field("struct_size", 4)
        .field("temperature", 4)
        .field("top_k", 4)
        .field("top_p", 4)
        .field("min_p", 4)
        .field("repeat_penalty", 4)
        .field("presence_penalty", 4)
        .field("frequency_penalty", 4)
        .field("penalty_window", 4)
        .field("flags", 4)
        .field("seed", 8)
        .field("biases", 8)
        .field("n_biases", 8)
        .field("typical_p", 4)
        .field("top_n_sigma", 4)
        .field("xtc_probability", 4)
        .field("xtc_threshold", 4)
        .field("temperature_range", 4)
        .field("temperature_exponent", 4)
        .field("mirostat_tau", 4)
        .field("mirostat_eta", 4)
        .field("dry_multiplier", 4)
        .field("dry_base", 4)
        .field("dry_allowed_length", 4)
        .field("dry_window", 4)
        .field("no_repeat_ngram_size", 4)
        .field("reserved", 4)
        .field("dry_breakers", 8)
        .field("n_dry_breakers", 8)
        .field("banned_sequences", 8)
        .field("n_banned_sequences", 8)
        .field("order", 8)
        .field("n_order", 8)
        .field("edit_logits", 8)
        .field("edit_logits_user", 8);

    static final Struct rz_cache_params = new Struct("rz_cache_params")
        .field("struct_size", 4)
        .field("capacity", 4)
        .field("k_type", 4)
        .field("v_type", 4);

    static final Struct rz_adapter_params = new Struct("rz_adapter_params")
        .field("struct_size", 4)
        .field("flags", 4)
        .field("cancel", 8);

    static final Struct rz_model_plan = new Struct("rz_model_plan")
        .field("struct_size", 4)
        .field("gpu_layers", 4)
        .field("weights_host", 8)
        .field("weights_device", 8)
        .field("cache_host", 8)
        .field("cache_device", 8)
        .field("cache_token", 8)
        .field("scratch_host", 8)
        .field("scratch_device", 8)
        .field("load_peak_host", 8)
        .field("total_host", 8)
        .field("total_device", 8)
        .field("experts_host_first", 4)
        .field("experts_host_layers", 4)
        .field("experts_host", 8)
        .field("experts_device", 8);

    static final Struct rz_model_plan_device = new Struct("rz_model_plan_device")
        .field("struct_size", 4)
        .field("device", 4)
        .field("n_layers", 4)
        .field("reserved", 4)
        .field("weights", 8)
        .field("cache", 8)
        .field("scratch", 8)
        .field("total", 8);

    static final Struct rz_media_info = new Struct("rz_media_info")
        .field("struct_size", 4)
        .field("kind", 4)
        .field("n_rows", 4)
        .field("n_tokens", 4)
        .field("row_dim", 4)
        .field("columns", 4)
        .field("lines", 4)
        .field("tile_columns", 4)
        .field("tile_lines", 4)
        .field("has_overview", 4)
        .field("width", 4)
        .field("height", 4)
        .field("seen_width", 4)
        .field("seen_height", 4)
        .field("bytes", 8)
        .field("encode_ns", 8)
        .field("hash", 1 * 32)
        .field("pairs", 4)
        .field("reserved", 4);

    static final Struct rz_encoder_params = new Struct("rz_encoder_params")
        .field("struct_size", 4)
        .field("flags", 4)
        .field("device", 4)
        .field("quantize", 4)
        .field("max_rows", 4)
        .field("reserved", 4)
        .field("progress", 8)
        .field("progress_user", 8)
        .field("cancel", 8);

    static final Struct rz_encoder_info = new Struct("rz_encoder_info")
        .field("struct_size", 4)
        .field("is_mutual", 4)
        .field("projector", 1 * 32)
        .field("row_dim", 4)
        .field("n_layers", 4)
        .field("tile_side", 4)
        .field("grain", 4)
        .field("min_rows", 4)
        .field("max_rows", 4)
        .field("weight_bytes", 8)
        .field("scratch_bytes", 8)
        .field("kinds", 4)
        .field("sample_rate", 4)
        .field("device", 4)
        .field("reserved", 4);

    static final Struct rz_encoder_plan = new Struct("rz_encoder_plan")
        .field("struct_size", 4)
        .field("max_rows", 4)
        .field("weights_host", 8)
        .field("scratch_host", 8)
        .field("row", 8)
        .field("weights_device", 8)
        .field("scratch_device", 8)
        .field("device", 4)
        .field("reserved", 4);

    static final Struct rz_pixels = new Struct("rz_pixels")
        .field("struct_size", 4)
        .field("format", 4)
        .field("width", 4)
        .field("height", 4)
        .field("stride", 8)
        .field("data", 8);

    static final Struct rz_media_params = new Struct("rz_media_params")
        .field("struct_size", 4)
        .field("min_rows", 4)
        .field("max_rows", 4)
        .field("max_tiles", 4)
        .field("max_pixels", 4)
        .field("flags", 4)
        .field("progress", 8)
        .field("progress_user", 8)
        .field("cancel", 8)
        .field("background", 4)
        .field("reserved", 4);

    static final Struct rz_part = new Struct("rz_part")
        .field("tokens", 8)
        .field("n_tokens", 8)
        .field("media", 8);

    static final Struct rz_job_params = new Struct("rz_job_params")
        .field("struct_size", 4)
        .field("max_tokens", 4)
        .field("tokens", 8)
        .field("n_tokens", 8)
        .field("sampler", 8)
        .field("grammar", 8)
        .field("stops", 8)
        .field("n_stops", 8)
        .field("cancel", 8)
        .field("flags", 4)
        .field("reserved", 4)
        .field("draft", 4)
        .field("draft_max", 4)
        .field("draft_model", 8)
        .field("logprobs", 4)
        .field("priority", 4)
        .field("chat", 8)
        .field("chat_len", 8)
        .field("prompt", 8)
        .field("prompt_first", 8);

    static final Struct rz_job_info = new Struct("rz_job_info")
        .field("struct_size", 4)
        .field("state", 4)
        .field("end_reason", 4)
        .field("stopped", 4)
        .field("prompt_total", 4)
        .field("prompt_done", 4)
        .field("n_tokens", 4)
        .field("cache_len", 4)
        .field("prompt_ns", 8)
        .field("tokens_ns", 8)
        .field("first_token_ns", 8)
        .field("drafted", 4)
        .field("accepted", 4);

    static final Struct rz_store_params = new Struct("rz_store_params")
        .field("struct_size", 4)
        .field("min_tokens", 4)
        .field("memory_limit", 8)
        .field("path", 8)
        .field("max_entries", 8)
        .field("disk_limit", 8);

    static final Struct rz_store_info = new Struct("rz_store_info")
        .field("struct_size", 4)
        .field("n_entries", 4)
        .field("n_files", 4)
        .field("n_unwritten", 4)
        .field("memory_bytes", 8)
        .field("disk_bytes", 8)
        .field("hits", 8)
        .field("misses", 8)
        .field("reused_tokens", 8)
        .field("memory_limit", 8)
        .field("disk_limit", 8);

    static final Struct rz_conversation_params = new Struct("rz_conversation_params")
        .field("struct_size", 4)
        .field("overflow", 4)
        .field("json", 8)
        .field("json_len", 8)
        .field("cache", 8)
        .field("adapters", 8)
        .field("scales", 8)
        .field("n_adapters", 8)
        .field("cancel", 8)
        .field("store", 8);

    static final Struct rz_reply_params = new Struct("rz_reply_params")
        .field("struct_size", 4)
        .field("max_tokens", 4)
        .field("sampler", 8)
        .field("grammar_kind", 4)
        .field("grammar_flags", 4)
        .field("flags", 4)
        .field("reserved", 4)
        .field("grammar", 8)
        .field("grammar_len", 8)
        .field("compiled_grammar", 8)
        .field("stops", 8)
        .field("n_stops", 8)
        .field("reasoning", 4)
        .field("reasoning_tokens", 4)
        .field("draft", 4)
        .field("draft_max", 4)
        .field("draft_model", 8)
        .field("logprobs", 4)
        .field("priority", 4)
        .field("cancel", 8)
        .field("json", 8)
        .field("json_len", 8);

    static final Struct rz_conversation_info = new Struct("rz_conversation_info")
        .field("struct_size", 4)
        .field("n_messages", 4)
        .field("first_in_prompt", 4)
        .field("state", 4)
        .field("end_reason", 4)
        .field("stopped", 4)
        .field("prompt_tokens", 4)
        .field("reused_tokens", 4)
        .field("prompt_done", 4)
        .field("n_tokens", 4)
        .field("reasoning_tokens", 4)
        .field("drafted", 4)
        .field("accepted", 4)
        .field("cache_len", 4)
        .field("cache_capacity", 4)
        .field("n_media", 4)
        .field("prompt_ns", 8)
        .field("tokens_ns", 8)
        .field("first_token_ns", 8);

    static final Struct rz_embed_params = new Struct("rz_embed_params")
        .field("struct_size", 4)
        .field("pooling", 4)
        .field("flags", 4)
        .field("reserved", 4);

    static final Struct rz_phase_metrics = new Struct("rz_phase_metrics")
        .field("count", 8)
        .field("sum_ns", 8);

    static final Struct rz_metrics = new Struct("rz_metrics")
        .field("struct_size", 4)
        .field("reserved", 4)
        .field("load", rz_phase_metrics.size)
        .field("tokenize", rz_phase_metrics.size)
        .field("prefill", rz_phase_metrics.size)
        .field("decode", rz_phase_metrics.size)
        .field("sample", rz_phase_metrics.size)
        .field("detokenize", rz_phase_metrics.size)
        .field("gpu_products", rz_phase_metrics.size)
        .field("gpu_attention", rz_phase_metrics.size)
        .field("gpu_experts", rz_phase_metrics.size)
        .field("gpu_head", rz_phase_metrics.size)
        .field("gpu_other", rz_phase_metrics.size)
        .field("encode", rz_phase_metrics.size);

    static final Struct rz_backend_metrics = new Struct("rz_backend_metrics")
        .field("struct_size", 4)
        .field("device_kind", 4)
        .field("dispatches", 8)
        .field("bytes", 8)
        .field("latency_sum_ns", 8)
        .field("latency_min_ns", 8)
        .field("latency_max_ns", 8)
        .field("latency_mean_ns", 8)
        .field("latency_variance_ns2", 8)
        .field("latency_histogram", 8 * 32);

    static final Struct rz_layout = new Struct("rz_layout")
        .field("struct_size", 4)
        .field("offset", 4)
        .field("size", 4)
        .field("struct_name", 1 * 32)
        .field("field_name", 1 * 32);

    static final Struct[] STRUCTS = {
        rz_error,
        rz_device_info,
        rz_runtime_params,
        rz_runtime_info,
        rz_placement,
        rz_model_params,
        rz_model_sampling,
        rz_model_info,
        rz_model_device,
        rz_source,
        rz_logit_bias,
        rz_token_sequence,
        rz_sampler_params,
        rz_cache_params,
        rz_adapter_params,
        rz_model_plan,
        rz_model_plan_device,
        rz_media_info,
        rz_encoder_params,
        rz_encoder_info,
        rz_encoder_plan,
        rz_pixels,
        rz_media_params,
        rz_part,
        rz_job_params,
        rz_job_info,
        rz_store_params,
        rz_store_info,
        rz_conversation_params,
        rz_reply_params,
        rz_conversation_info,
        rz_embed_params,
        rz_phase_metrics,
        rz_metrics,
        rz_backend_metrics,
        rz_layout};

    static int rz_abi_version() {
        return Native.LIBRARY.rz_abi_version();
    }

    static long rz_version() {
        return Native.LIBRARY.rz_version();
    }

    static int rz_version_number() {
        return Native.LIBRARY.rz_version_number();
    }

    static int rz_features() {
        return Native.LIBRARY.rz_features();
    }

    static long rz_status_name(int status) {
        return Native.LIBRARY.rz_status_name(status);
    }

    static int rz_device_count() {
        return Native.LIBRARY.rz_device_count();
    }

    static int rz_device_info_get(int index, Memory out, Memory err) {
        return Native.LIBRARY.rz_device_info_get(index, out.address, err.address);
    }

    static int rz_runtime_new(Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_runtime_new(params.address, out.address, err.address);
    }

    static void rz_runtime_free(Memory runtime) {
        Native.LIBRARY.rz_runtime_free(runtime.address);
    }

    static int rz_runtime_threads_set(Memory runtime, int threads, Memory err) {
        return Native.LIBRARY.rz_runtime_threads_set(runtime.address, threads, err.address);
    }

    static int rz_runtime_memory_limit_set(Memory runtime, long memory_limit, Memory err) {
        return Native.LIBRARY.rz_runtime_memory_limit_set(runtime.address, memory_limit, err.address);
    }

    static int rz_runtime_info_get(Memory runtime, Memory out, Memory err) {
        return Native.LIBRARY.rz_runtime_info_get(runtime.address, out.address, err.address);
    }

    static int rz_cancel_new(Memory out, Memory err) {
        return Native.LIBRARY.rz_cancel_new(out.address, err.address);
    }

    static void rz_cancel_free(Memory cancel) {
        Native.LIBRARY.rz_cancel_free(cancel.address);
    }

    static void rz_cancel_fire(Memory cancel) {
        Native.LIBRARY.rz_cancel_fire(cancel.address);
    }

    static int rz_cancel_deadline(Memory cancel, long us_from_now, Memory err) {
        return Native.LIBRARY.rz_cancel_deadline(cancel.address, us_from_now, err.address);
    }

    static void rz_cancel_reset(Memory cancel) {
        Native.LIBRARY.rz_cancel_reset(cancel.address);
    }

    static int rz_cancel_is_fired(Memory cancel) {
        return Native.LIBRARY.rz_cancel_is_fired(cancel.address);
    }

    static int rz_model_load(Memory path, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_model_load(path.address, params.address, out.address, err.address);
    }

    static void rz_model_free(Memory model) {
        Native.LIBRARY.rz_model_free(model.address);
    }

    static int rz_model_sampling_get(Memory model, Memory out, Memory err) {
        return Native.LIBRARY.rz_model_sampling_get(model.address, out.address, err.address);
    }

    static int rz_model_meta_into(Memory model, Memory key, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_model_meta_into(model.address, key.address, out.address, capacity, len.address, err.address);
    }

    static int rz_model_meta_key_into(Memory model, long index, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_model_meta_key_into(model.address, index, out.address, capacity, len.address, err.address);
    }

    static int rz_model_meta_element_into(Memory model, Memory key, long index, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_model_meta_element_into(model.address, key.address, index, out.address, capacity, len.address, err.address);
    }

    static int rz_model_info_get(Memory model, Memory out, Memory err) {
        return Native.LIBRARY.rz_model_info_get(model.address, out.address, err.address);
    }

    static int rz_model_device_get(Memory model, int index, Memory out, Memory err) {
        return Native.LIBRARY.rz_model_device_get(model.address, index, out.address, err.address);
    }

    static int rz_model_load_from(Memory sources, long n, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_model_load_from(sources.address, n, params.address, out.address, err.address);
    }

    static int rz_hub_choose_into(Memory model, long model_len, Memory listing, long listing_len, long memory, int flags, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_hub_choose_into(model.address, model_len, listing.address, listing_len, memory, flags, out.address, capacity, len.address, err.address);
    }

    static int rz_tokenize_into(Memory model, Memory text, long text_len, int flags, Memory out, long capacity, Memory n, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_tokenize_into(model.address, text.address, text_len, flags, out.address, capacity, n.address, cancel.address, err.address);
    }

    static int rz_detokenize_into(Memory model, Memory tokens, long n, int flags, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_detokenize_into(model.address, tokens.address, n, flags, out.address, capacity, len.address, err.address);
    }

    static int rz_token_is_end(Memory model, int token) {
        return Native.LIBRARY.rz_token_is_end(model.address, token);
    }

    static int rz_token_bytes_into(Memory model, int token, Memory out, long capacity, Memory len, Memory attributes, Memory err) {
        return Native.LIBRARY.rz_token_bytes_into(model.address, token, out.address, capacity, len.address, attributes.address, err.address);
    }

    static int rz_textstream_new(Memory model, Memory out, Memory err) {
        return Native.LIBRARY.rz_textstream_new(model.address, out.address, err.address);
    }

    static int rz_textstream_follow(Memory stream, Memory tokens, long n, Memory err) {
        return Native.LIBRARY.rz_textstream_follow(stream.address, tokens.address, n, err.address);
    }

    static int rz_textstream_push_into(Memory stream, int token, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_textstream_push_into(stream.address, token, out.address, capacity, len.address, err.address);
    }

    static int rz_textstream_flush_into(Memory stream, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_textstream_flush_into(stream.address, out.address, capacity, len.address, err.address);
    }

    static void rz_textstream_free(Memory stream) {
        Native.LIBRARY.rz_textstream_free(stream.address);
    }

    static int rz_chat_render_into(Memory model, Memory json, long json_len, int flags, Memory out, long capacity, Memory len, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_chat_render_into(model.address, json.address, json_len, flags, out.address, capacity, len.address, cancel.address, err.address);
    }

    static int rz_chat_tokenize_into(Memory model, Memory json, long json_len, int flags, Memory out, long capacity, Memory n, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_chat_tokenize_into(model.address, json.address, json_len, flags, out.address, capacity, n.address, cancel.address, err.address);
    }

    static int rz_chat_parser_new(Memory model, Memory json, long json_len, Memory cancel, Memory out, Memory err) {
        return Native.LIBRARY.rz_chat_parser_new(model.address, json.address, json_len, cancel.address, out.address, err.address);
    }

    static int rz_chat_parser_push(Memory parser, int token, Memory err) {
        return Native.LIBRARY.rz_chat_parser_push(parser.address, token, err.address);
    }

    static int rz_chat_parser_end(Memory parser, Memory err) {
        return Native.LIBRARY.rz_chat_parser_end(parser.address, err.address);
    }

    static int rz_chat_parser_next_into(Memory parser, Memory kind, Memory flags, Memory index, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_chat_parser_next_into(parser.address, kind.address, flags.address, index.address, out.address, capacity, len.address, err.address);
    }

    static void rz_chat_parser_free(Memory parser) {
        Native.LIBRARY.rz_chat_parser_free(parser.address);
    }

    static int rz_sampler_new(Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_sampler_new(params.address, out.address, err.address);
    }

    static void rz_sampler_free(Memory sampler) {
        Native.LIBRARY.rz_sampler_free(sampler.address);
    }

    static int rz_grammar_new(Memory model, int kind, int flags, Memory text, long len, Memory cancel, Memory out, Memory err) {
        return Native.LIBRARY.rz_grammar_new(model.address, kind, flags, text.address, len, cancel.address, out.address, err.address);
    }

    static void rz_grammar_free(Memory grammar) {
        Native.LIBRARY.rz_grammar_free(grammar.address);
    }

    static int rz_sampler_grammar_set(Memory sampler, Memory grammar, Memory err) {
        return Native.LIBRARY.rz_sampler_grammar_set(sampler.address, grammar.address, err.address);
    }

    static int rz_cache_new(Memory model, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_cache_new(model.address, params.address, out.address, err.address);
    }

    static void rz_cache_free(Memory cache) {
        Native.LIBRARY.rz_cache_free(cache.address);
    }

    static int rz_cache_len(Memory cache) {
        return Native.LIBRARY.rz_cache_len(cache.address);
    }

    static int rz_cache_capacity(Memory cache) {
        return Native.LIBRARY.rz_cache_capacity(cache.address);
    }

    static int rz_cache_truncate(Memory cache, int len, Memory err) {
        return Native.LIBRARY.rz_cache_truncate(cache.address, len, err.address);
    }

    static int rz_cache_cancel_set(Memory cache, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_cache_cancel_set(cache.address, cancel.address, err.address);
    }

    static int rz_cache_fork(Memory cache, Memory out, Memory err) {
        return Native.LIBRARY.rz_cache_fork(cache.address, out.address, err.address);
    }

    static int rz_cache_match(Memory cache, Memory tokens, long n, Memory common, Memory err) {
        return Native.LIBRARY.rz_cache_match(cache.address, tokens.address, n, common.address, err.address);
    }

    static int rz_cache_tokens_into(Memory cache, Memory out, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_cache_tokens_into(cache.address, out.address, capacity, n.address, err.address);
    }

    static int rz_cache_shift(Memory cache, int keep, int drop, Memory err) {
        return Native.LIBRARY.rz_cache_shift(cache.address, keep, drop, err.address);
    }

    static int rz_cache_release(Memory cache, Memory err) {
        return Native.LIBRARY.rz_cache_release(cache.address, err.address);
    }

    static int rz_adapter_load(Memory model, Memory path, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_adapter_load(model.address, path.address, params.address, out.address, err.address);
    }

    static int rz_adapter_load_from(Memory model, Memory sources, long n, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_adapter_load_from(model.address, sources.address, n, params.address, out.address, err.address);
    }

    static void rz_adapter_free(Memory adapter) {
        Native.LIBRARY.rz_adapter_free(adapter.address);
    }

    static int rz_cache_adapters_set(Memory cache, Memory adapters, Memory scales, long n, Memory err) {
        return Native.LIBRARY.rz_cache_adapters_set(cache.address, adapters.address, scales.address, n, err.address);
    }

    static int rz_cache_save(Memory cache, Memory write, Memory user, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_cache_save(cache.address, write.address, user.address, cancel.address, err.address);
    }

    static int rz_cache_load(Memory model, Memory params, Memory read, Memory user, Memory cancel, Memory out, Memory err) {
        return Native.LIBRARY.rz_cache_load(model.address, params.address, read.address, user.address, cancel.address, out.address, err.address);
    }

    static int rz_model_plan_get(Memory path, Memory sources, long n, Memory params, Memory cache_params, int n_caches, Memory out, Memory devices, long capacity, Memory n_devices, Memory err) {
        return Native.LIBRARY.rz_model_plan_get(path.address, sources.address, n, params.address, cache_params.address, n_caches, out.address, devices.address, capacity, n_devices.address, err.address);
    }

    static int rz_prefill(Memory cache, Memory tokens, long n, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_prefill(cache.address, tokens.address, n, cancel.address, err.address);
    }

    static int rz_decode_token(Memory cache, int token, Memory sampler, Memory next, Memory err) {
        return Native.LIBRARY.rz_decode_token(cache.address, token, sampler.address, next.address, err.address);
    }

    static int rz_generate_into(Memory cache, int token, Memory sampler, Memory out, long capacity, Memory n, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_generate_into(cache.address, token, sampler.address, out.address, capacity, n.address, cancel.address, err.address);
    }

    static int rz_decode_batch(Memory caches, Memory tokens, long n, Memory samplers, Memory next, Memory err) {
        return Native.LIBRARY.rz_decode_batch(caches.address, tokens.address, n, samplers.address, next.address, err.address);
    }

    static int rz_logits_into(Memory cache, Memory out, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_logits_into(cache.address, out.address, capacity, n.address, err.address);
    }

    static int rz_sample(Memory cache, Memory sampler, Memory token, Memory err) {
        return Native.LIBRARY.rz_sample(cache.address, sampler.address, token.address, err.address);
    }

    static int rz_media_from_rows(Memory model, int kind, Memory rows, long n_rows, int row_dim, int columns, int lines, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_rows(model.address, kind, rows.address, n_rows, row_dim, columns, lines, out.address, err.address);
    }

    static int rz_media_from_tokens(Memory model, Memory tokens, long n, Memory cancel, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_tokens(model.address, tokens.address, n, cancel.address, out.address, err.address);
    }

    static int rz_media_info_get(Memory media, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_info_get(media.address, out.address, err.address);
    }

    static int rz_media_rows_into(Memory media, Memory out, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_media_rows_into(media.address, out.address, capacity, n.address, err.address);
    }

    static int rz_media_save(Memory media, Memory write, Memory user, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_media_save(media.address, write.address, user.address, cancel.address, err.address);
    }

    static int rz_media_load(Memory model, Memory read, Memory user, Memory cancel, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_load(model.address, read.address, user.address, cancel.address, out.address, err.address);
    }

    static void rz_media_free(Memory media) {
        Native.LIBRARY.rz_media_free(media.address);
    }

    static int rz_encoder_load(Memory model, Memory path, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_encoder_load(model.address, path.address, params.address, out.address, err.address);
    }

    static int rz_encoder_load_from(Memory model, Memory sources, long n, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_encoder_load_from(model.address, sources.address, n, params.address, out.address, err.address);
    }

    static void rz_encoder_free(Memory encoder) {
        Native.LIBRARY.rz_encoder_free(encoder.address);
    }

    static int rz_encoder_info_get(Memory encoder, Memory out, Memory err) {
        return Native.LIBRARY.rz_encoder_info_get(encoder.address, out.address, err.address);
    }

    static int rz_encoder_plan_get(Memory model, Memory path, Memory sources, long n, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_encoder_plan_get(model.address, path.address, sources.address, n, params.address, out.address, err.address);
    }

    static int rz_media_from_pixels(Memory encoder, Memory pixels, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_pixels(encoder.address, pixels.address, params.address, out.address, err.address);
    }

    static int rz_media_from_image(Memory encoder, Memory data, long size, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_image(encoder.address, data.address, size, params.address, out.address, err.address);
    }

    static int rz_media_measure(Memory encoder, int width, int height, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_measure(encoder.address, width, height, params.address, out.address, err.address);
    }

    static int rz_media_from_samples(Memory encoder, Memory samples, long n, int channels, int rate, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_samples(encoder.address, samples.address, n, channels, rate, params.address, out.address, err.address);
    }

    static int rz_media_from_audio(Memory encoder, Memory data, long size, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_audio(encoder.address, data.address, size, params.address, out.address, err.address);
    }

    static int rz_media_from_frames(Memory encoder, Memory frames, Memory times, long n, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_media_from_frames(encoder.address, frames.address, times.address, n, params.address, out.address, err.address);
    }

    static int rz_media_step(Memory media, long budget_us, Memory err) {
        return Native.LIBRARY.rz_media_step(media.address, budget_us, err.address);
    }

    static int rz_prompt_new(Memory model, Memory parts, long n, int flags, Memory out, Memory err) {
        return Native.LIBRARY.rz_prompt_new(model.address, parts.address, n, flags, out.address, err.address);
    }

    static int rz_prompt_from_chat(Memory model, Memory json, long json_len, int flags, Memory media, long n_media, Memory cancel, Memory out, Memory err) {
        return Native.LIBRARY.rz_prompt_from_chat(model.address, json.address, json_len, flags, media.address, n_media, cancel.address, out.address, err.address);
    }

    static void rz_prompt_free(Memory prompt) {
        Native.LIBRARY.rz_prompt_free(prompt.address);
    }

    static long rz_prompt_len(Memory prompt) {
        return Native.LIBRARY.rz_prompt_len(prompt.address);
    }

    static int rz_prompt_tokens_into(Memory prompt, Memory out, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_prompt_tokens_into(prompt.address, out.address, capacity, n.address, err.address);
    }

    static int rz_cache_match_prompt(Memory cache, Memory prompt, Memory common, Memory err) {
        return Native.LIBRARY.rz_cache_match_prompt(cache.address, prompt.address, common.address, err.address);
    }

    static int rz_prefill_prompt(Memory cache, Memory prompt, long first, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_prefill_prompt(cache.address, prompt.address, first, cancel.address, err.address);
    }

    static int rz_job_new(Memory cache, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_job_new(cache.address, params.address, out.address, err.address);
    }

    static int rz_job_step(Memory job, long budget_us, Memory err) {
        return Native.LIBRARY.rz_job_step(job.address, budget_us, err.address);
    }

    static int rz_jobs_step(Memory jobs, long n, long budget_us, Memory err) {
        return Native.LIBRARY.rz_jobs_step(jobs.address, n, budget_us, err.address);
    }

    static int rz_job_error(Memory job, Memory err) {
        return Native.LIBRARY.rz_job_error(job.address, err.address);
    }

    static int rz_job_text_into(Memory job, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_job_text_into(job.address, out.address, capacity, len.address, err.address);
    }

    static int rz_job_next_into(Memory job, Memory kind, Memory flags, Memory index, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_job_next_into(job.address, kind.address, flags.address, index.address, out.address, capacity, len.address, err.address);
    }

    static int rz_job_tokens_into(Memory job, Memory out, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_job_tokens_into(job.address, out.address, capacity, n.address, err.address);
    }

    static int rz_job_logprobs_into(Memory job, Memory tokens, Memory logprobs, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_job_logprobs_into(job.address, tokens.address, logprobs.address, capacity, n.address, err.address);
    }

    static int rz_job_info_get(Memory job, Memory out, Memory err) {
        return Native.LIBRARY.rz_job_info_get(job.address, out.address, err.address);
    }

    static void rz_job_free(Memory job) {
        Native.LIBRARY.rz_job_free(job.address);
    }

    static int rz_store_new(Memory model, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_store_new(model.address, params.address, out.address, err.address);
    }

    static int rz_store_take(Memory store, Memory tokens, long n, Memory params, Memory cancel, Memory out, Memory common, Memory err) {
        return Native.LIBRARY.rz_store_take(store.address, tokens.address, n, params.address, cancel.address, out.address, common.address, err.address);
    }

    static int rz_store_take_prompt(Memory store, Memory prompt, Memory params, Memory cancel, Memory out, Memory common, Memory err) {
        return Native.LIBRARY.rz_store_take_prompt(store.address, prompt.address, params.address, cancel.address, out.address, common.address, err.address);
    }

    static int rz_store_put(Memory store, Memory cache, Memory err) {
        return Native.LIBRARY.rz_store_put(store.address, cache.address, err.address);
    }

    static int rz_store_clear(Memory store, Memory err) {
        return Native.LIBRARY.rz_store_clear(store.address, err.address);
    }

    static int rz_store_info_get(Memory store, Memory out, Memory err) {
        return Native.LIBRARY.rz_store_info_get(store.address, out.address, err.address);
    }

    static void rz_store_free(Memory store) {
        Native.LIBRARY.rz_store_free(store.address);
    }

    static int rz_conversation_new(Memory model, Memory params, Memory out, Memory err) {
        return Native.LIBRARY.rz_conversation_new(model.address, params.address, out.address, err.address);
    }

    static int rz_conversation_add(Memory conversation, Memory json, long len, Memory media, long n_media, Memory err) {
        return Native.LIBRARY.rz_conversation_add(conversation.address, json.address, len, media.address, n_media, err.address);
    }

    static int rz_conversation_add_text(Memory conversation, Memory role, Memory text, long len, Memory err) {
        return Native.LIBRARY.rz_conversation_add_text(conversation.address, role.address, text.address, len, err.address);
    }

    static int rz_conversation_reply(Memory conversation, Memory params, Memory err) {
        return Native.LIBRARY.rz_conversation_reply(conversation.address, params.address, err.address);
    }

    static int rz_conversation_step(Memory conversation, long budget_us, Memory err) {
        return Native.LIBRARY.rz_conversation_step(conversation.address, budget_us, err.address);
    }

    static int rz_conversations_step(Memory conversations, long n, long budget_us, Memory err) {
        return Native.LIBRARY.rz_conversations_step(conversations.address, n, budget_us, err.address);
    }

    static int rz_conversation_next_into(Memory conversation, Memory kind, Memory flags, Memory index, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_conversation_next_into(conversation.address, kind.address, flags.address, index.address, out.address, capacity, len.address, err.address);
    }

    static int rz_conversation_stop(Memory conversation, Memory err) {
        return Native.LIBRARY.rz_conversation_stop(conversation.address, err.address);
    }

    static int rz_conversation_error(Memory conversation, Memory err) {
        return Native.LIBRARY.rz_conversation_error(conversation.address, err.address);
    }

    static int rz_conversation_logprobs_into(Memory conversation, Memory tokens, Memory logprobs, long capacity, Memory n, Memory err) {
        return Native.LIBRARY.rz_conversation_logprobs_into(conversation.address, tokens.address, logprobs.address, capacity, n.address, err.address);
    }

    static int rz_conversation_json_into(Memory conversation, int first, Memory out, long capacity, Memory len, Memory err) {
        return Native.LIBRARY.rz_conversation_json_into(conversation.address, first, out.address, capacity, len.address, err.address);
    }

    static int rz_conversation_rewind(Memory conversation, int n_messages, Memory err) {
        return Native.LIBRARY.rz_conversation_rewind(conversation.address, n_messages, err.address);
    }

    static int rz_conversation_fork(Memory conversation, Memory out, Memory err) {
        return Native.LIBRARY.rz_conversation_fork(conversation.address, out.address, err.address);
    }

    static int rz_conversation_info_get(Memory conversation, Memory out, Memory err) {
        return Native.LIBRARY.rz_conversation_info_get(conversation.address, out.address, err.address);
    }

    static void rz_conversation_free(Memory conversation) {
        Native.LIBRARY.rz_conversation_free(conversation.address);
    }

    static int rz_conversation_say(Memory conversation, Memory text, Memory params, Memory on_text, Memory user, Memory err) {
        return Native.LIBRARY.rz_conversation_say(conversation.address, text.address, params.address, on_text.address, user.address, err.address);
    }

    static int rz_conversation_read(Memory conversation, Memory params, Memory err) {
        return Native.LIBRARY.rz_conversation_read(conversation.address, params.address, err.address);
    }

    static int rz_conversation_release(Memory conversation, Memory err) {
        return Native.LIBRARY.rz_conversation_release(conversation.address, err.address);
    }

    static int rz_conversation_capacity_set(Memory conversation, int capacity, Memory err) {
        return Native.LIBRARY.rz_conversation_capacity_set(conversation.address, capacity, err.address);
    }

    static int rz_conversation_overflow_set(Memory conversation, int mode, Memory err) {
        return Native.LIBRARY.rz_conversation_overflow_set(conversation.address, mode, err.address);
    }

    static int rz_conversation_cancel_set(Memory conversation, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_conversation_cancel_set(conversation.address, cancel.address, err.address);
    }

    static int rz_conversation_adapters_set(Memory conversation, Memory adapters, Memory scales, long n_adapters, Memory err) {
        return Native.LIBRARY.rz_conversation_adapters_set(conversation.address, adapters.address, scales.address, n_adapters, err.address);
    }

    static int rz_conversation_store_set(Memory conversation, Memory store, Memory err) {
        return Native.LIBRARY.rz_conversation_store_set(conversation.address, store.address, err.address);
    }

    static int rz_conversation_save(Memory conversation, Memory write, Memory user, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_conversation_save(conversation.address, write.address, user.address, cancel.address, err.address);
    }

    static int rz_conversation_load(Memory model, Memory params, Memory read, Memory user, Memory out, Memory err) {
        return Native.LIBRARY.rz_conversation_load(model.address, params.address, read.address, user.address, out.address, err.address);
    }

    static int rz_conversation_media(Memory conversation, int number, Memory out, Memory err) {
        return Native.LIBRARY.rz_conversation_media(conversation.address, number, out.address, err.address);
    }

    static int rz_top_logprobs(Memory cache, int k, Memory tokens, Memory logprobs, Memory n, Memory err) {
        return Native.LIBRARY.rz_top_logprobs(cache.address, k, tokens.address, logprobs.address, n.address, err.address);
    }

    static int rz_score(Memory cache, Memory tokens, long n, Memory logprobs, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_score(cache.address, tokens.address, n, logprobs.address, cancel.address, err.address);
    }

    static int rz_embed_into(Memory model, Memory params, Memory tokens, Memory lengths, long n_texts, Memory out, long capacity, Memory n, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_embed_into(model.address, params.address, tokens.address, lengths.address, n_texts, out.address, capacity, n.address, cancel.address, err.address);
    }

    static int rz_embed_prompts_into(Memory model, Memory params, Memory prompts, long n_prompts, Memory out, long capacity, Memory n, Memory cancel, Memory err) {
        return Native.LIBRARY.rz_embed_prompts_into(model.address, params.address, prompts.address, n_prompts, out.address, capacity, n.address, cancel.address, err.address);
    }

    static int rz_metrics_get(Memory model, Memory out, Memory err) {
        return Native.LIBRARY.rz_metrics_get(model.address, out.address, err.address);
    }

    static int rz_backend_metrics_get(Memory model, int device_kind, Memory out, Memory err) {
        return Native.LIBRARY.rz_backend_metrics_get(model.address, device_kind, out.address, err.address);
    }

    static void rz_metrics_reset(Memory model) {
        Native.LIBRARY.rz_metrics_reset(model.address);
    }

    static int rz_layout_get(int index, Memory out, Memory err) {
        return Native.LIBRARY.rz_layout_get(index, out.address, err.address);
    }

    private Header() {}
}
