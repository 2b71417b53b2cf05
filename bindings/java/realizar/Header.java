package realizar;

import static java.lang.foreign.MemoryLayout.sequenceLayout;
import static java.lang.foreign.MemoryLayout.structLayout;
import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;

/** The constants, structs and functions of realizar.h under its names. The build writes this file: make header. */
final class Header {
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
    static final int RZ_ABI_VERSION = 1;
    static final int RZ_DEVICE_CPU = 1;
    static final int RZ_DEVICE_CUDA = 2;
    static final int RZ_LOG_ERROR = 1;
    static final int RZ_LOG_WARNING = 2;
    static final int RZ_LOG_INFO = 3;
    static final long RZ_NO_LIMIT = -1;
    static final int RZ_MODEL_DETERMINISTIC = 1;
    static final int RZ_MODEL_MMAP = 2;
    static final int RZ_MODEL_TEXT_ONLY = 4;
    static final int RZ_MODEL_PROFILE = 8;
    static final int RZ_MODEL_MTP = 16;
    static final int RZ_MODEL_ALLOW_UNKNOWN = 32;
    static final int RZ_DEVICES_MAX = 16;
    static final int RZ_TEMPLATE_PRESENT = 1;
    static final int RZ_TEMPLATE_WRITES_BOS = 2;
    static final int RZ_TOKEN_NONE = -1;
    static final int RZ_SAMPLING_TEMPERATURE = 1;
    static final int RZ_SAMPLING_TOP_K = 2;
    static final int RZ_SAMPLING_TOP_P = 4;
    static final int RZ_SAMPLING_MIN_P = 8;
    static final int RZ_SAMPLING_REPEAT_PENALTY = 16;
    static final int RZ_SAMPLING_PENALTY_WINDOW = 32;
    static final int RZ_SOURCE_MEMORY = 1;
    static final int RZ_SOURCE_FD = 2;
    static final int RZ_SOURCE_READER = 3;
    static final int RZ_TOKENIZE_ADD_SPECIAL = 1;
    static final int RZ_TOKENIZE_PARSE_SPECIAL = 2;
    static final int RZ_DETOKENIZE_SPECIAL = 1;
    static final int RZ_TOKEN_NORMAL = 1;
    static final int RZ_TOKEN_CONTROL = 2;
    static final int RZ_TOKEN_USER = 4;
    static final int RZ_TOKEN_BYTE = 8;
    static final int RZ_TOKEN_END = 16;
    static final int RZ_CHAT_ADD_GENERATION_PROMPT = 1;
    static final int RZ_CHAT_EVENT_REASONING = 1;
    static final int RZ_CHAT_EVENT_CONTENT = 2;
    static final int RZ_CHAT_EVENT_TOOL_NAME = 3;
    static final int RZ_CHAT_EVENT_TOOL_ARGUMENTS = 4;
    static final int RZ_CHAT_EVENT_END = 5;
    static final int RZ_CHAT_EVENT_UNPARSED = 256;
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
    static final int RZ_GRAMMAR_WHITESPACE = 256;
    static final int RZ_CACHE_TYPE_F16 = 1;
    static final int RZ_CACHE_TYPE_Q8_0 = 8;
    static final int RZ_CACHE_TYPE_Q4_0 = 2;
    static final int RZ_CACHE_TYPE_F32 = 256;
    static final int RZ_DRAFT_NONE = 0;
    static final int RZ_DRAFT_LOOKUP = 1;
    static final int RZ_DRAFT_MODEL = 2;
    static final int RZ_DRAFT_MTP = 3;
    static final int RZ_JOB_STATE_PROMPT = 1;
    static final int RZ_JOB_STATE_TOKENS = 2;
    static final int RZ_JOB_STATE_ENDED = 3;
    static final int RZ_JOB_END = 1;
    static final int RZ_JOB_LENGTH = 2;
    static final int RZ_JOB_STOP = 3;
    static final int RZ_JOB_CONTEXT = 4;
    static final int RZ_JOB_GRAMMAR = 5;
    static final int RZ_JOB_FAILED = 6;
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

    static final StructLayout rz_error = structLayout(
        JAVA_INT.withName("code"),
        JAVA_INT.withName("system_code"),
        sequenceLayout(504, JAVA_BYTE).withName("message")).withName("rz_error");

    static final StructLayout rz_device_info = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("index"),
        sequenceLayout(64, JAVA_BYTE).withName("name"),
        JAVA_INT.withName("kind"),
        JAVA_INT.withName("available"),
        sequenceLayout(32, JAVA_BYTE).withName("isa"),
        JAVA_LONG.withName("memory_total"),
        JAVA_LONG.withName("memory_free"),
        sequenceLayout(256, JAVA_BYTE).withName("unavailable")).withName("rz_device_info");

    static final StructLayout rz_runtime_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("threads"),
        JAVA_LONG.withName("memory_limit"),
        ADDRESS.withName("cpus"),
        JAVA_LONG.withName("n_cpus"),
        ADDRESS.withName("log"),
        ADDRESS.withName("log_user"),
        ADDRESS.withName("parallel"),
        ADDRESS.withName("parallel_user")).withName("rz_runtime_params");

    static final StructLayout rz_model_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("device"),
        ADDRESS.withName("runtime"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("gpu_layers"),
        JAVA_INT.withName("quantize"),
        JAVA_INT.withName("prompt_tokens_beside"),
        ADDRESS.withName("progress"),
        ADDRESS.withName("progress_user"),
        ADDRESS.withName("cancel"),
        ADDRESS.withName("packed_path"),
        ADDRESS.withName("devices"),
        JAVA_LONG.withName("n_devices"),
        ADDRESS.withName("shares")).withName("rz_model_params");

    static final StructLayout rz_model_info = structLayout(
        JAVA_INT.withName("struct_size"),
        sequenceLayout(32, JAVA_BYTE).withName("architecture"),
        sequenceLayout(64, JAVA_BYTE).withName("name"),
        JAVA_INT.withName("n_layers"),
        JAVA_INT.withName("hidden_dim"),
        JAVA_INT.withName("ffn_dim"),
        JAVA_INT.withName("n_heads"),
        JAVA_INT.withName("n_kv_heads"),
        JAVA_INT.withName("head_dim"),
        JAVA_INT.withName("vocab_size"),
        JAVA_INT.withName("context_length"),
        JAVA_INT.withName("device"),
        JAVA_INT.withName("bos_token"),
        JAVA_INT.withName("eos_token"),
        JAVA_LONG.withName("n_params"),
        JAVA_LONG.withName("weight_bytes"),
        JAVA_INT.withName("gpu_layers"),
        JAVA_INT.withName("chat_template"),
        sequenceLayout(16, JAVA_INT).withName("devices"),
        sequenceLayout(16, JAVA_INT).withName("device_layers"),
        JAVA_INT.withName("n_unknown"),
        JAVA_INT.withName("reserved")).withName("rz_model_info");

    static final StructLayout rz_model_sampling = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("told"),
        JAVA_FLOAT.withName("temperature"),
        JAVA_INT.withName("top_k"),
        JAVA_FLOAT.withName("top_p"),
        JAVA_FLOAT.withName("min_p"),
        JAVA_FLOAT.withName("repeat_penalty"),
        JAVA_INT.withName("penalty_window")).withName("rz_model_sampling");

    static final StructLayout rz_source = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("kind"),
        ADDRESS.withName("name"),
        ADDRESS.withName("data"),
        JAVA_LONG.withName("size"),
        JAVA_INT.withName("fd"),
        JAVA_INT.withName("reserved"),
        JAVA_LONG.withName("offset"),
        ADDRESS.withName("read"),
        ADDRESS.withName("user")).withName("rz_source");

    static final StructLayout rz_chat_message = structLayout(
        ADDRESS.withName("role"),
        ADDRESS.withName("content")).withName("rz_chat_message");

    static final StructLayout rz_logit_bias = structLayout(
        JAVA_INT.withName("token"),
        JAVA_FLOAT.withName("bias")).withName("rz_logit_bias");

    static final StructLayout rz_token_sequence = structLayout(
        ADDRESS.withName("tokens"),
        JAVA_LONG.withName("n_tokens")).withName("rz_token_sequence");

    static final StructLayout rz_sampler_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_FLOAT.withName("temperature"),
        JAVA_INT.withName("top_k"),
        JAVA_FLOAT.withName("top_p"),
        JAVA_FLOAT.withName("min_p"),
        JAVA_FLOAT.withName("repeat_penalty"),
        JAVA_FLOAT.withName("presence_penalty"),
        JAVA_FLOAT.withName("frequency_penalty"),
        JAVA_INT.withName("penalty_window"),
        JAVA_INT.withName("flags"),
        JAVA_LONG.withName("seed"),
        ADDRESS.withName("biases"),
        JAVA_LONG.withName("n_biases"),
        JAVA_FLOAT.withName("typical_p"),
        JAVA_FLOAT.withName("top_n_sigma"),
        JAVA_FLOAT.withName("xtc_probability"),
        JAVA_FLOAT.withName("xtc_threshold"),
        JAVA_FLOAT.withName("temperature_range"),
        JAVA_FLOAT.withName("temperature_exponent"),
        JAVA_FLOAT.withName("mirostat_tau"),
        JAVA_FLOAT.withName("mirostat_eta"),
        JAVA_FLOAT.withName("dry_multiplier"),
        JAVA_FLOAT.withName("dry_base"),
        JAVA_INT.withName("dry_allowed_length"),
        JAVA_INT.withName("dry_window"),
        JAVA_INT.withName("no_repeat_ngram_size"),
        JAVA_INT.withName("reserved"),
        ADDRESS.withName("dry_breakers"),
        JAVA_LONG.withName("n_dry_breakers"),
        ADDRESS.withName("banned_sequences"),
        JAVA_LONG.withName("n_banned_sequences"),
        ADDRESS.withName("order"),
        JAVA_LONG.withName("n_order")).withName("rz_sampler_params");

    static final StructLayout rz_cache_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("capacity"),
        JAVA_INT.withName("k_type"),
        JAVA_INT.withName("v_type")).withName("rz_cache_params");

    static final StructLayout rz_plan = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("gpu_layers"),
        JAVA_LONG.withName("weights_host"),
        JAVA_LONG.withName("weights_device"),
        JAVA_LONG.withName("cache_host"),
        JAVA_LONG.withName("cache_device"),
        JAVA_LONG.withName("cache_token"),
        JAVA_LONG.withName("scratch_host"),
        JAVA_LONG.withName("scratch_device"),
        JAVA_LONG.withName("load_peak_host"),
        JAVA_LONG.withName("total_host"),
        JAVA_LONG.withName("total_device"),
        sequenceLayout(16, JAVA_INT).withName("devices"),
        sequenceLayout(16, JAVA_INT).withName("device_layers"),
        sequenceLayout(16, JAVA_LONG).withName("device_weights"),
        sequenceLayout(16, JAVA_LONG).withName("device_cache"),
        sequenceLayout(16, JAVA_LONG).withName("device_scratch"),
        sequenceLayout(16, JAVA_LONG).withName("device_total")).withName("rz_plan");

    static final StructLayout rz_job_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("max_tokens"),
        ADDRESS.withName("tokens"),
        JAVA_LONG.withName("n_tokens"),
        ADDRESS.withName("sampler"),
        ADDRESS.withName("grammar"),
        ADDRESS.withName("stops"),
        JAVA_LONG.withName("n_stops"),
        ADDRESS.withName("cancel"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("reserved"),
        JAVA_INT.withName("draft"),
        JAVA_INT.withName("draft_max"),
        ADDRESS.withName("draft_model"),
        JAVA_INT.withName("logprobs"),
        JAVA_INT.withName("priority"),
        ADDRESS.withName("chat"),
        JAVA_LONG.withName("chat_len")).withName("rz_job_params");

    static final StructLayout rz_job_info = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("state"),
        JAVA_INT.withName("end"),
        JAVA_INT.withName("stopped"),
        JAVA_INT.withName("prompt_total"),
        JAVA_INT.withName("prompt_done"),
        JAVA_INT.withName("n_tokens"),
        JAVA_INT.withName("cache_len"),
        JAVA_LONG.withName("prompt_ns"),
        JAVA_LONG.withName("tokens_ns"),
        JAVA_LONG.withName("first_token_ns"),
        JAVA_INT.withName("drafted"),
        JAVA_INT.withName("accepted")).withName("rz_job_info");

    static final StructLayout rz_store_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("min_tokens"),
        JAVA_LONG.withName("memory_limit"),
        ADDRESS.withName("path"),
        JAVA_LONG.withName("max_entries"),
        JAVA_LONG.withName("disk_limit")).withName("rz_store_params");

    static final StructLayout rz_store_info = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("n_entries"),
        JAVA_INT.withName("n_files"),
        JAVA_INT.withName("n_unwritten"),
        JAVA_LONG.withName("memory_bytes"),
        JAVA_LONG.withName("disk_bytes"),
        JAVA_LONG.withName("hits"),
        JAVA_LONG.withName("misses"),
        JAVA_LONG.withName("reused_tokens")).withName("rz_store_info");

    static final StructLayout rz_conversation_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("overflow"),
        ADDRESS.withName("json"),
        JAVA_LONG.withName("json_len"),
        ADDRESS.withName("cache"),
        ADDRESS.withName("adapters"),
        ADDRESS.withName("scales"),
        JAVA_LONG.withName("n_adapters"),
        ADDRESS.withName("cancel"),
        ADDRESS.withName("store")).withName("rz_conversation_params");

    static final StructLayout rz_reply_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("max_tokens"),
        ADDRESS.withName("sampler"),
        JAVA_INT.withName("grammar_kind"),
        JAVA_INT.withName("flags"),
        ADDRESS.withName("grammar"),
        JAVA_LONG.withName("grammar_len"),
        ADDRESS.withName("stops"),
        JAVA_LONG.withName("n_stops"),
        JAVA_INT.withName("reasoning"),
        JAVA_INT.withName("reasoning_tokens"),
        JAVA_INT.withName("draft"),
        JAVA_INT.withName("draft_max"),
        ADDRESS.withName("draft_model"),
        JAVA_INT.withName("logprobs"),
        JAVA_INT.withName("priority"),
        ADDRESS.withName("cancel")).withName("rz_reply_params");

    static final StructLayout rz_conversation_info = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("n_messages"),
        JAVA_INT.withName("first_in_prompt"),
        JAVA_INT.withName("state"),
        JAVA_INT.withName("end"),
        JAVA_INT.withName("stopped"),
        JAVA_INT.withName("prompt_tokens"),
        JAVA_INT.withName("reused_tokens"),
        JAVA_INT.withName("prompt_done"),
        JAVA_INT.withName("n_tokens"),
        JAVA_INT.withName("reasoning_tokens"),
        JAVA_INT.withName("drafted"),
        JAVA_INT.withName("accepted"),
        JAVA_INT.withName("cache_len"),
        JAVA_INT.withName("cache_capacity"),
        JAVA_INT.withName("reserved"),
        JAVA_LONG.withName("prompt_ns"),
        JAVA_LONG.withName("tokens_ns"),
        JAVA_LONG.withName("first_token_ns")).withName("rz_conversation_info");

    static final StructLayout rz_embed_params = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("pooling"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("reserved")).withName("rz_embed_params");

    static final StructLayout rz_phase_metrics = structLayout(
        JAVA_LONG.withName("count"),
        JAVA_LONG.withName("sum_ns")).withName("rz_phase_metrics");

    static final StructLayout rz_metrics = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("reserved"),
        rz_phase_metrics.withName("load"),
        rz_phase_metrics.withName("tokenize"),
        rz_phase_metrics.withName("prefill"),
        rz_phase_metrics.withName("decode"),
        rz_phase_metrics.withName("sample"),
        rz_phase_metrics.withName("detokenize"),
        rz_phase_metrics.withName("gpu_products"),
        rz_phase_metrics.withName("gpu_attention"),
        rz_phase_metrics.withName("gpu_experts"),
        rz_phase_metrics.withName("gpu_head"),
        rz_phase_metrics.withName("gpu_other")).withName("rz_metrics");

    static final StructLayout rz_backend_metrics = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("device_kind"),
        JAVA_LONG.withName("dispatches"),
        JAVA_LONG.withName("bytes"),
        JAVA_LONG.withName("latency_sum_ns"),
        JAVA_LONG.withName("latency_min_ns"),
        JAVA_LONG.withName("latency_max_ns"),
        JAVA_DOUBLE.withName("latency_mean_ns"),
        JAVA_DOUBLE.withName("latency_variance_ns2"),
        sequenceLayout(32, JAVA_LONG).withName("latency_histogram")).withName("rz_backend_metrics");

    static final StructLayout rz_layout = structLayout(
        JAVA_INT.withName("struct_size"),
        JAVA_INT.withName("offset"),
        JAVA_INT.withName("size"),
        sequenceLayout(32, JAVA_BYTE).withName("struct_name"),
        sequenceLayout(32, JAVA_BYTE).withName("field_name")).withName("rz_layout");

    static final StructLayout[] STRUCTS = {
        rz_error,
        rz_device_info,
        rz_runtime_params,
        rz_model_params,
        rz_model_info,
        rz_model_sampling,
        rz_source,
        rz_chat_message,
        rz_logit_bias,
        rz_token_sequence,
        rz_sampler_params,
        rz_cache_params,
        rz_plan,
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

    static final FunctionDescriptor rz_log_callback = FunctionDescriptor.ofVoid(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final FunctionDescriptor rz_share_callback = FunctionDescriptor.ofVoid(ADDRESS, JAVA_INT);
    static final FunctionDescriptor rz_parallel_callback = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final FunctionDescriptor rz_progress_callback = FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, ADDRESS);
    static final FunctionDescriptor rz_source_callback = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG);
    static final FunctionDescriptor rz_write_callback = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG);
    static final FunctionDescriptor rz_read_callback = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG);
    static final FunctionDescriptor rz_text_callback = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);

    static final MethodHandle rz_abi_version = Native.function("rz_abi_version", FunctionDescriptor.of(JAVA_INT));
    static final MethodHandle rz_version = Native.function("rz_version", FunctionDescriptor.of(ADDRESS));
    static final MethodHandle rz_status_name = Native.function("rz_status_name", FunctionDescriptor.of(ADDRESS, JAVA_INT));
    static final MethodHandle rz_device_count = Native.function("rz_device_count", FunctionDescriptor.of(JAVA_INT));
    static final MethodHandle rz_device_info_get = Native.function("rz_device_info_get", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_runtime_new = Native.function("rz_runtime_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_runtime_free = Native.function("rz_runtime_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_runtime_threads_set = Native.function("rz_runtime_threads_set", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS));
    static final MethodHandle rz_cancel_new = Native.function("rz_cancel_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_cancel_free = Native.function("rz_cancel_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_cancel_fire = Native.function("rz_cancel_fire", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_cancel_deadline = Native.function("rz_cancel_deadline", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_cancel_reset = Native.function("rz_cancel_reset", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_model_load = Native.function("rz_model_load", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_free = Native.function("rz_model_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_model_info_get = Native.function("rz_model_info_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_sampling_get = Native.function("rz_model_sampling_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_meta_into = Native.function("rz_model_meta_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_meta_key_into = Native.function("rz_model_meta_key_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_meta_element_into = Native.function("rz_model_meta_element_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_load_from = Native.function("rz_model_load_from", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_tokenize_into = Native.function("rz_tokenize_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_detokenize_into = Native.function("rz_detokenize_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_token_is_end = Native.function("rz_token_is_end", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
    static final MethodHandle rz_token_bytes_into = Native.function("rz_token_bytes_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_textstream_new = Native.function("rz_textstream_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_textstream_follow = Native.function("rz_textstream_follow", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_textstream_push_into = Native.function("rz_textstream_push_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_textstream_flush_into = Native.function("rz_textstream_flush_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_textstream_free = Native.function("rz_textstream_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_chat_render_into = Native.function("rz_chat_render_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_chat_render_json_into = Native.function("rz_chat_render_json_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_chat_tokenize_into = Native.function("rz_chat_tokenize_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_chat_parser_new = Native.function("rz_chat_parser_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_chat_parser_push = Native.function("rz_chat_parser_push", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS));
    static final MethodHandle rz_chat_parser_end = Native.function("rz_chat_parser_end", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_chat_parser_next_into = Native.function("rz_chat_parser_next_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_chat_parser_free = Native.function("rz_chat_parser_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_sampler_new = Native.function("rz_sampler_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_sampler_free = Native.function("rz_sampler_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_grammar_new = Native.function("rz_grammar_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_grammar_free = Native.function("rz_grammar_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_sampler_grammar_set = Native.function("rz_sampler_grammar_set", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_new = Native.function("rz_cache_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_free = Native.function("rz_cache_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_cache_len = Native.function("rz_cache_len", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    static final MethodHandle rz_cache_capacity = Native.function("rz_cache_capacity", FunctionDescriptor.of(JAVA_INT, ADDRESS));
    static final MethodHandle rz_cache_truncate = Native.function("rz_cache_truncate", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS));
    static final MethodHandle rz_cache_cancel_set = Native.function("rz_cache_cancel_set", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_fork = Native.function("rz_cache_fork", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_match = Native.function("rz_cache_match", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_tokens_into = Native.function("rz_cache_tokens_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_shift = Native.function("rz_cache_shift", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT, ADDRESS));
    static final MethodHandle rz_cache_release = Native.function("rz_cache_release", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_adapter_load = Native.function("rz_adapter_load", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_adapter_free = Native.function("rz_adapter_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_cache_adapters_set = Native.function("rz_cache_adapters_set", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_cache_save = Native.function("rz_cache_save", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_cache_load = Native.function("rz_cache_load", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_model_plan = Native.function("rz_model_plan", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_prefill = Native.function("rz_prefill", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_decode_token = Native.function("rz_decode_token", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_generate_into = Native.function("rz_generate_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_decode_batch = Native.function("rz_decode_batch", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_logits_into = Native.function("rz_logits_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_sample = Native.function("rz_sample", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_new = Native.function("rz_job_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_step = Native.function("rz_job_step", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_jobs_step = Native.function("rz_jobs_step", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_job_error = Native.function("rz_job_error", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_text_into = Native.function("rz_job_text_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_next_into = Native.function("rz_job_next_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_tokens_into = Native.function("rz_job_tokens_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_logprobs_into = Native.function("rz_job_logprobs_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_info_get = Native.function("rz_job_info_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_job_free = Native.function("rz_job_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_store_new = Native.function("rz_store_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_store_take = Native.function("rz_store_take", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_store_put = Native.function("rz_store_put", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_store_clear = Native.function("rz_store_clear", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_store_info_get = Native.function("rz_store_info_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_store_free = Native.function("rz_store_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_conversation_new = Native.function("rz_conversation_new", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_add = Native.function("rz_conversation_add", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_conversation_add_text = Native.function("rz_conversation_add_text", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_conversation_reply = Native.function("rz_conversation_reply", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_step = Native.function("rz_conversation_step", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_conversations_step = Native.function("rz_conversations_step", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS));
    static final MethodHandle rz_conversation_next_into = Native.function("rz_conversation_next_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_logprobs_into = Native.function("rz_conversation_logprobs_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_say = Native.function("rz_conversation_say", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_json_into = Native.function("rz_conversation_json_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_rewind = Native.function("rz_conversation_rewind", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS));
    static final MethodHandle rz_conversation_fork = Native.function("rz_conversation_fork", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_save = Native.function("rz_conversation_save", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_load = Native.function("rz_conversation_load", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_info_get = Native.function("rz_conversation_info_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_conversation_free = Native.function("rz_conversation_free", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_logprobs_into = Native.function("rz_logprobs_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_score_into = Native.function("rz_score_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_embed_into = Native.function("rz_embed_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_metrics_get = Native.function("rz_metrics_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    static final MethodHandle rz_backend_metrics_get = Native.function("rz_backend_metrics_get", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS));
    static final MethodHandle rz_metrics_reset = Native.function("rz_metrics_reset", FunctionDescriptor.ofVoid(ADDRESS));
    static final MethodHandle rz_layout_get = Native.function("rz_layout_get", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS));

    static {
        Native.checkLayouts();
    }

    private Header() {}
}
