// The constants, structs, handles and functions of realizar.h under its names. The build writes this file: make header.
using System;
using System.Runtime.InteropServices;

namespace Realizar
{
    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_error
    {
        public int code;
        public int system_code;
        public ulong needed;
        public fixed byte message[496];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_device_info
    {
        public uint struct_size;
        public uint index;
        public fixed byte id[64];
        public fixed byte name[64];
        public uint kind;
        public uint available;
        public fixed byte isa[32];
        public ulong memory_total;
        public ulong memory_free;
        public fixed byte unavailable[256];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_runtime_params
    {
        public uint struct_size;
        public uint threads;
        public ulong memory_limit;
        public IntPtr cpus;
        public UIntPtr n_cpus;
        public IntPtr log;
        public IntPtr log_user;
        public IntPtr parallel;
        public IntPtr parallel_user;
        public IntPtr on_thread;
        public IntPtr on_thread_user;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_runtime_info
    {
        public uint struct_size;
        public uint threads;
        public uint template_threads;
        public uint reserved;
        public ulong memory_used;
        public ulong memory_peak;
        public ulong memory_limit;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_placement
    {
        public uint struct_size;
        public uint what;
        public uint place;
        public uint first_layer;
        public uint n_layers;
        public uint reserved;
        public ulong bytes;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_params
    {
        public uint struct_size;
        public uint device;
        public IntPtr runtime;
        public uint flags;
        public uint gpu_layers;
        public uint quantize;
        public uint mixed_prefill_tokens;
        public IntPtr progress;
        public IntPtr progress_user;
        public IntPtr cancel;
        public IntPtr packed_path;
        public IntPtr devices;
        public UIntPtr n_devices;
        public IntPtr device_split;
        public IntPtr placements;
        public UIntPtr n_placements;
        public IntPtr tested_path;
        public IntPtr chat_template;
        public UIntPtr chat_template_len;
        public uint experts_copied_from;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_sampling
    {
        public uint struct_size;
        public uint advised;
        public float temperature;
        public uint top_k;
        public float top_p;
        public float min_p;
        public float repeat_penalty;
        public uint penalty_window;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_model_info
    {
        public uint struct_size;
        public fixed byte architecture[32];
        public fixed byte name[64];
        public uint n_layers;
        public uint hidden_dim;
        public uint ffn_dim;
        public uint n_heads;
        public uint n_kv_heads;
        public uint head_dim;
        public uint vocab_size;
        public uint context_length;
        public uint device;
        public uint bos_token;
        public uint eos_token;
        public ulong n_params;
        public ulong weight_bytes;
        public uint gpu_layers;
        public uint chat_template;
        public uint n_unknown;
        public uint experts_host_first;
        public ulong experts_host;
        public ulong experts_device;
        public uint experts_host_layers;
        public uint reads_source;
        public fixed byte isa[32];
        public uint experts_copied_from;
        public uint capabilities;
        public uint embedding_dim;
        public uint pooling;
        public uint n_scores;
        public uint n_devices;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_device
    {
        public uint struct_size;
        public uint device;
        public uint n_layers;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_source
    {
        public uint struct_size;
        public uint kind;
        public IntPtr name;
        public IntPtr data;
        public ulong size;
        public int fd;
        public uint reserved;
        public ulong offset;
        public IntPtr read;
        public IntPtr user;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_logit_bias
    {
        public uint token;
        public float bias;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_token_sequence
    {
        public IntPtr tokens;
        public UIntPtr n_tokens;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_sampler_params
    {
        public uint struct_size;
        public float temperature;
        public uint top_k;
        public float top_p;
        public float min_p;
        public float repeat_penalty;
        public float presence_penalty;
        public float frequency_penalty;
        public uint penalty_window;
        public uint flags;
        public ulong seed;
        public IntPtr biases;
        public UIntPtr n_biases;
        public float typical_p;
        public float top_n_sigma;
        public float xtc_probability;
        public float xtc_threshold;
        public float temperature_range;
        public float temperature_exponent;
        public float mirostat_tau;
        public float mirostat_eta;
        public float dry_multiplier;
        public float dry_base;
        public uint dry_allowed_length;
        public uint dry_window;
        public uint no_repeat_ngram_size;
        public uint reserved;
        public IntPtr dry_breakers;
        public UIntPtr n_dry_breakers;
        public IntPtr banned_sequences;
        public UIntPtr n_banned_sequences;
        public IntPtr order;
        public UIntPtr n_order;
        public IntPtr edit_logits;
        public IntPtr edit_logits_user;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_cache_params
    {
        public uint struct_size;
        public uint capacity;
        public uint k_type;
        public uint v_type;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_adapter_params
    {
        public uint struct_size;
        public uint flags;
        public IntPtr cancel;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_plan
    {
        public uint struct_size;
        public uint gpu_layers;
        public ulong weights_host;
        public ulong weights_device;
        public ulong cache_host;
        public ulong cache_device;
        public ulong cache_token;
        public ulong scratch_host;
        public ulong scratch_device;
        public ulong load_peak_host;
        public ulong total_host;
        public ulong total_device;
        public uint experts_host_first;
        public uint experts_host_layers;
        public ulong experts_host;
        public ulong experts_device;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_plan_device
    {
        public uint struct_size;
        public uint device;
        public uint n_layers;
        public uint reserved;
        public ulong weights;
        public ulong cache;
        public ulong scratch;
        public ulong total;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_media_info
    {
        public uint struct_size;
        public uint kind;
        public uint n_rows;
        public uint n_tokens;
        public uint row_dim;
        public uint columns;
        public uint lines;
        public uint tile_columns;
        public uint tile_lines;
        public uint has_overview;
        public uint width;
        public uint height;
        public uint seen_width;
        public uint seen_height;
        public ulong bytes;
        public ulong encode_ns;
        public fixed byte hash[32];
        public uint pairs;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_encoder_params
    {
        public uint struct_size;
        public uint flags;
        public uint device;
        public uint quantize;
        public uint max_rows;
        public uint reserved;
        public IntPtr progress;
        public IntPtr progress_user;
        public IntPtr cancel;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_encoder_info
    {
        public uint struct_size;
        public uint is_mutual;
        public fixed byte projector[32];
        public uint row_dim;
        public uint n_layers;
        public uint tile_side;
        public uint grain;
        public uint min_rows;
        public uint max_rows;
        public ulong weight_bytes;
        public ulong scratch_bytes;
        public uint kinds;
        public uint sample_rate;
        public uint device;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_encoder_plan
    {
        public uint struct_size;
        public uint max_rows;
        public ulong weights_host;
        public ulong scratch_host;
        public ulong row;
        public ulong weights_device;
        public ulong scratch_device;
        public uint device;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_pixels
    {
        public uint struct_size;
        public uint format;
        public uint width;
        public uint height;
        public UIntPtr stride;
        public IntPtr data;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_media_params
    {
        public uint struct_size;
        public uint min_rows;
        public uint max_rows;
        public uint max_tiles;
        public uint max_pixels;
        public uint flags;
        public IntPtr progress;
        public IntPtr progress_user;
        public IntPtr cancel;
        public uint background;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_part
    {
        public IntPtr tokens;
        public UIntPtr n_tokens;
        public IntPtr media;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_job_params
    {
        public uint struct_size;
        public uint max_tokens;
        public IntPtr tokens;
        public UIntPtr n_tokens;
        public IntPtr sampler;
        public IntPtr grammar;
        public IntPtr stops;
        public UIntPtr n_stops;
        public IntPtr cancel;
        public uint flags;
        public uint reserved;
        public uint draft;
        public uint draft_max;
        public IntPtr draft_model;
        public uint logprobs;
        public int priority;
        public IntPtr chat;
        public UIntPtr chat_len;
        public IntPtr prompt;
        public UIntPtr prompt_first;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_job_info
    {
        public uint struct_size;
        public uint state;
        public uint end_reason;
        public int stopped;
        public uint prompt_total;
        public uint prompt_done;
        public uint n_tokens;
        public uint cache_len;
        public ulong prompt_ns;
        public ulong tokens_ns;
        public ulong first_token_ns;
        public uint drafted;
        public uint accepted;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_store_params
    {
        public uint struct_size;
        public uint min_tokens;
        public ulong memory_limit;
        public IntPtr path;
        public UIntPtr max_entries;
        public ulong disk_limit;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_store_info
    {
        public uint struct_size;
        public uint n_entries;
        public uint n_files;
        public uint n_unwritten;
        public ulong memory_bytes;
        public ulong disk_bytes;
        public ulong hits;
        public ulong misses;
        public ulong reused_tokens;
        public ulong memory_limit;
        public ulong disk_limit;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_conversation_params
    {
        public uint struct_size;
        public uint overflow;
        public IntPtr json;
        public UIntPtr json_len;
        public IntPtr cache;
        public IntPtr adapters;
        public IntPtr scales;
        public UIntPtr n_adapters;
        public IntPtr cancel;
        public IntPtr store;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_reply_params
    {
        public uint struct_size;
        public uint max_tokens;
        public IntPtr sampler;
        public uint grammar_kind;
        public uint grammar_flags;
        public uint flags;
        public uint reserved;
        public IntPtr grammar;
        public UIntPtr grammar_len;
        public IntPtr compiled_grammar;
        public IntPtr stops;
        public UIntPtr n_stops;
        public uint reasoning;
        public uint reasoning_tokens;
        public uint draft;
        public uint draft_max;
        public IntPtr draft_model;
        public uint logprobs;
        public int priority;
        public IntPtr cancel;
        public IntPtr json;
        public UIntPtr json_len;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_conversation_info
    {
        public uint struct_size;
        public uint n_messages;
        public uint first_in_prompt;
        public uint state;
        public uint end_reason;
        public int stopped;
        public uint prompt_tokens;
        public uint reused_tokens;
        public uint prompt_done;
        public uint n_tokens;
        public uint reasoning_tokens;
        public uint drafted;
        public uint accepted;
        public uint cache_len;
        public uint cache_capacity;
        public uint n_media;
        public ulong prompt_ns;
        public ulong tokens_ns;
        public ulong first_token_ns;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_embed_params
    {
        public uint struct_size;
        public uint pooling;
        public uint flags;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_phase_metrics
    {
        public ulong count;
        public ulong sum_ns;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_metrics
    {
        public uint struct_size;
        public uint reserved;
        public rz_phase_metrics load;
        public rz_phase_metrics tokenize;
        public rz_phase_metrics prefill;
        public rz_phase_metrics decode;
        public rz_phase_metrics sample;
        public rz_phase_metrics detokenize;
        public rz_phase_metrics gpu_products;
        public rz_phase_metrics gpu_attention;
        public rz_phase_metrics gpu_experts;
        public rz_phase_metrics gpu_head;
        public rz_phase_metrics gpu_other;
        public rz_phase_metrics encode;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_backend_metrics
    {
        public uint struct_size;
        public uint device_kind;
        public ulong dispatches;
        public ulong bytes;
        public ulong latency_sum_ns;
        public ulong latency_min_ns;
        public ulong latency_max_ns;
        public double latency_mean_ns;
        public double latency_variance_ns2;
        public fixed ulong latency_histogram[32];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_layout
    {
        public uint struct_size;
        public uint offset;
        public uint size;
        public fixed byte struct_name[32];
        public fixed byte field_name[32];
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate void rz_log_callback(int level, IntPtr message, UIntPtr len, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate void rz_chunk_callback(uint i, IntPtr context);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_parallel_callback(uint n, IntPtr chunk, IntPtr context, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate void rz_thread_callback(uint role, uint index, int starts, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_progress_callback(ulong done, ulong total, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_source_callback(ulong offset, IntPtr @out, UIntPtr n, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_logits_callback(IntPtr logits, UIntPtr n_logits, IntPtr tokens, UIntPtr n_tokens, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_write_callback(IntPtr data, UIntPtr n, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_read_callback(IntPtr @out, UIntPtr n, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int rz_text_callback(IntPtr text, UIntPtr len, IntPtr user);

    internal sealed class AdapterHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly AdapterHandle None = new AdapterHandle();
        protected override bool ReleaseHandle() { Native.rz_adapter_free(handle); return true; }
    }

    internal sealed class CacheHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly CacheHandle None = new CacheHandle();
        protected override bool ReleaseHandle() { Native.rz_cache_free(handle); return true; }
    }

    internal sealed class CancelHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly CancelHandle None = new CancelHandle();
        protected override bool ReleaseHandle() { Native.rz_cancel_free(handle); return true; }
    }

    internal sealed class ChatParserHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly ChatParserHandle None = new ChatParserHandle();
        protected override bool ReleaseHandle() { Native.rz_chat_parser_free(handle); return true; }
    }

    internal sealed class ConversationHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly ConversationHandle None = new ConversationHandle();
        protected override bool ReleaseHandle() { Native.rz_conversation_free(handle); return true; }
    }

    internal sealed class EncoderHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly EncoderHandle None = new EncoderHandle();
        protected override bool ReleaseHandle() { Native.rz_encoder_free(handle); return true; }
    }

    internal sealed class GrammarHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly GrammarHandle None = new GrammarHandle();
        protected override bool ReleaseHandle() { Native.rz_grammar_free(handle); return true; }
    }

    internal sealed class JobHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly JobHandle None = new JobHandle();
        protected override bool ReleaseHandle() { Native.rz_job_free(handle); return true; }
    }

    internal sealed class MediaHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly MediaHandle None = new MediaHandle();
        protected override bool ReleaseHandle() { Native.rz_media_free(handle); return true; }
    }

    internal sealed class ModelHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly ModelHandle None = new ModelHandle();
        protected override bool ReleaseHandle() { Native.rz_model_free(handle); return true; }
    }

    internal sealed class PromptHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly PromptHandle None = new PromptHandle();
        protected override bool ReleaseHandle() { Native.rz_prompt_free(handle); return true; }
    }

    internal sealed class RuntimeHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly RuntimeHandle None = new RuntimeHandle();
        protected override bool ReleaseHandle() { Native.rz_runtime_free(handle); return true; }
    }

    internal sealed class SamplerHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly SamplerHandle None = new SamplerHandle();
        protected override bool ReleaseHandle() { Native.rz_sampler_free(handle); return true; }
    }

    internal sealed class StoreHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly StoreHandle None = new StoreHandle();
        protected override bool ReleaseHandle() { Native.rz_store_free(handle); return true; }
    }

    internal sealed class TextstreamHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        internal static readonly TextstreamHandle None = new TextstreamHandle();
        protected override bool ReleaseHandle() { Native.rz_textstream_free(handle); return true; }
    }

    internal static unsafe partial class Native
    {
        internal const uint RZ_NONE = 0xFFFFFFFF;
        internal const int RZ_OK = 0;
        internal const int RZ_AGAIN = 1;
        internal const int RZ_DONE = 2;
        internal const int RZ_ERR_INVALID_ARGUMENT = -1;
        internal const int RZ_ERR_BUSY = -2;
        internal const int RZ_ERR_OUT_OF_MEMORY = -3;
        internal const int RZ_ERR_DEVICE_OUT_OF_MEMORY = -4;
        internal const int RZ_ERR_LIMIT = -5;
        internal const int RZ_ERR_IO = -6;
        internal const int RZ_ERR_FORMAT = -7;
        internal const int RZ_ERR_UNSUPPORTED = -8;
        internal const int RZ_ERR_VERSION = -9;
        internal const int RZ_ERR_CANCELLED = -10;
        internal const int RZ_ERR_DEADLINE = -11;
        internal const int RZ_ERR_CONTEXT_FULL = -12;
        internal const int RZ_ERR_BUFFER_TOO_SMALL = -13;
        internal const int RZ_ERR_DEVICE_UNAVAILABLE = -14;
        internal const int RZ_ERR_DEVICE_LOST = -15;
        internal const int RZ_ERR_MISMATCH = -16;
        internal const int RZ_ERR_PANIC = -17;
        internal const int RZ_ERR_POISONED = -18;
        internal const int RZ_ERR_NOT_FOUND = -19;
        internal const int RZ_ERR_NOT_READY = -20;
        internal const int RZ_ERR_RESOURCES = -21;
        internal const int RZ_ABI_VERSION = 1;
        internal const int RZ_FEATURE_GPU = 1;
        internal const int RZ_FEATURE_IMAGES = 2;
        internal const int RZ_FEATURE_SOUNDS = 4;
        internal const int RZ_FEATURE_THREADS = 8;
        internal const int RZ_FEATURE_WGPU = 16;
        internal const int RZ_DEVICE_CPU = 1;
        internal const int RZ_DEVICE_GPU = 2;
        internal const int RZ_LOG_ERROR = 1;
        internal const int RZ_LOG_WARNING = 2;
        internal const int RZ_LOG_INFO = 3;
        internal const int RZ_THREAD_COMPUTE = 1;
        internal const int RZ_THREAD_LOAD = 2;
        internal const int RZ_THREAD_TEMPLATE = 3;
        internal const int RZ_THREAD_STORE = 4;
        internal const ulong RZ_NO_LIMIT = 0xFFFFFFFFFFFFFFFF;
        internal const int RZ_TYPE_DEFAULT = 0;
        internal const int RZ_TYPE_F32 = 256;
        internal const int RZ_TYPE_F16 = 1;
        internal const int RZ_TYPE_BF16 = 30;
        internal const int RZ_TYPE_F8_E4M3 = 257;
        internal const int RZ_TYPE_Q4_0 = 2;
        internal const int RZ_TYPE_Q4_1 = 3;
        internal const int RZ_TYPE_Q5_0 = 6;
        internal const int RZ_TYPE_Q5_1 = 7;
        internal const int RZ_TYPE_Q8_0 = 8;
        internal const int RZ_TYPE_Q2_K = 10;
        internal const int RZ_TYPE_Q3_K = 11;
        internal const int RZ_TYPE_Q4_K = 12;
        internal const int RZ_TYPE_Q5_K = 13;
        internal const int RZ_TYPE_Q6_K = 14;
        internal const int RZ_TYPE_IQ1_S = 19;
        internal const int RZ_TYPE_IQ1_M = 29;
        internal const int RZ_TYPE_IQ2_XXS = 16;
        internal const int RZ_TYPE_IQ2_XS = 17;
        internal const int RZ_TYPE_IQ2_S = 22;
        internal const int RZ_TYPE_IQ3_XXS = 18;
        internal const int RZ_TYPE_IQ3_S = 21;
        internal const int RZ_TYPE_IQ4_NL = 20;
        internal const int RZ_TYPE_IQ4_XS = 23;
        internal const int RZ_TYPE_TQ1_0 = 34;
        internal const int RZ_TYPE_TQ2_0 = 35;
        internal const int RZ_TYPE_MXFP4 = 39;
        internal const int RZ_TYPE_NVFP4 = 40;
        internal const int RZ_TYPE_Q1_0 = 41;
        internal const int RZ_TYPE_Q2_0 = 42;
        internal const int RZ_TYPE_PQ2_0 = 142;
        internal const int RZ_TYPE_PTQ1_0 = 143;
        internal const int RZ_PLACED_EXPERTS = 1;
        internal const int RZ_PLACE_AUTO = 0;
        internal const int RZ_PLACE_CPU = 1;
        internal const int RZ_PLACE_GPU = 2;
        internal const int RZ_MODEL_DETERMINISTIC = 1;
        internal const int RZ_MODEL_MMAP = 2;
        internal const int RZ_MODEL_TEXT_ONLY = 4;
        internal const int RZ_MODEL_PROFILE = 8;
        internal const int RZ_MODEL_MTP = 16;
        internal const int RZ_MODEL_ALLOW_UNKNOWN = 32;
        internal const int RZ_MODEL_BF16_PRODUCTS = 64;
        internal const int RZ_DEVICES_MAX = 16;
        internal const uint RZ_TOKEN_NONE = 0xFFFFFFFF;
        internal const int RZ_SAMPLING_TEMPERATURE = 1;
        internal const int RZ_SAMPLING_TOP_K = 2;
        internal const int RZ_SAMPLING_TOP_P = 4;
        internal const int RZ_SAMPLING_MIN_P = 8;
        internal const int RZ_SAMPLING_REPEAT_PENALTY = 16;
        internal const int RZ_SAMPLING_PENALTY_WINDOW = 32;
        internal const int RZ_TEMPLATE_PRESENT = 1;
        internal const int RZ_TEMPLATE_WRITES_BOS = 2;
        internal const int RZ_CAN_GENERATE = 1;
        internal const int RZ_CAN_SYSTEM = 2;
        internal const int RZ_CAN_TOOLS = 4;
        internal const int RZ_CAN_REASON = 8;
        internal const int RZ_CAN_SWITCH_REASONING = 16;
        internal const int RZ_CAN_IMAGES = 32;
        internal const int RZ_CAN_AUDIO = 64;
        internal const int RZ_CAN_VIDEO = 128;
        internal const int RZ_SOURCE_MEMORY = 1;
        internal const int RZ_SOURCE_FD = 2;
        internal const int RZ_SOURCE_READER = 3;
        internal const int RZ_HUB_CACHED = 1;
        internal const int RZ_TOKENIZE_ADD_SPECIAL = 1;
        internal const int RZ_TOKENIZE_PARSE_SPECIAL = 2;
        internal const int RZ_DETOKENIZE_SPECIAL = 1;
        internal const int RZ_ATTR_NORMAL = 1;
        internal const int RZ_ATTR_CONTROL = 2;
        internal const int RZ_ATTR_USER = 4;
        internal const int RZ_ATTR_BYTE = 8;
        internal const int RZ_ATTR_END = 16;
        internal const int RZ_CHAT_ADD_GENERATION_PROMPT = 1;
        internal const int RZ_CHAT_EVENT_REASONING = 1;
        internal const int RZ_CHAT_EVENT_CONTENT = 2;
        internal const int RZ_CHAT_EVENT_TOOL_NAME = 3;
        internal const int RZ_CHAT_EVENT_TOOL_ARGUMENTS = 4;
        internal const int RZ_CHAT_EVENT_END = 5;
        internal const int RZ_CHAT_EVENT_TOOL_ID = 6;
        internal const int RZ_CHAT_EVENT_FLAG_UNPARSED = 1;
        internal const int RZ_FILTER_TOP_N_SIGMA = 1;
        internal const int RZ_FILTER_TOP_K = 2;
        internal const int RZ_FILTER_TYPICAL_P = 3;
        internal const int RZ_FILTER_TOP_P = 4;
        internal const int RZ_FILTER_MIN_P = 5;
        internal const int RZ_FILTER_XTC = 6;
        internal const int RZ_FILTER_TEMPERATURE = 7;
        internal const int RZ_SAMPLER_TEMPERATURE_FIRST = 1;
        internal const int RZ_GRAMMAR_JSON_SCHEMA = 1;
        internal const int RZ_GRAMMAR_REGEX = 2;
        internal const int RZ_GRAMMAR_LARK = 3;
        internal const int RZ_GRAMMAR_GBNF = 4;
        internal const int RZ_GRAMMAR_JSON = 5;
        internal const int RZ_GRAMMAR_CHOICES = 6;
        internal const int RZ_GRAMMAR_TOOLS = 7;
        internal const int RZ_GRAMMAR_FLAG_WHITESPACE = 1;
        internal const int RZ_GRAMMAR_FLAG_BEST_EFFORT = 2;
        internal const int RZ_MEDIA_IMAGE = 1;
        internal const int RZ_MEDIA_AUDIO = 2;
        internal const int RZ_MEDIA_TEXT = 4;
        internal const int RZ_MEDIA_VECTOR = 8;
        internal const int RZ_MEDIA_VIDEO = 16;
        internal const uint RZ_TOKEN_MEDIA = 0xFFFFFFFE;
        internal const int RZ_ENCODER_IMAGE = 1;
        internal const int RZ_ENCODER_AUDIO = 2;
        internal const int RZ_PIXELS_RGB8 = 1;
        internal const int RZ_PIXELS_RGBA8 = 2;
        internal const int RZ_PIXELS_BGRA8 = 3;
        internal const int RZ_PIXELS_GRAY8 = 4;
        internal const int RZ_ENCODE_STEPS = 1;
        internal const int RZ_PROMPT_BARE = 1;
        internal const int RZ_DRAFT_NONE = 0;
        internal const int RZ_DRAFT_LOOKUP = 1;
        internal const int RZ_DRAFT_MODEL = 2;
        internal const int RZ_DRAFT_MTP = 3;
        internal const int RZ_STATE_PROMPT = 1;
        internal const int RZ_STATE_TOKENS = 2;
        internal const int RZ_STATE_ENDED = 3;
        internal const int RZ_END_TOKEN = 1;
        internal const int RZ_END_LENGTH = 2;
        internal const int RZ_END_STOP = 3;
        internal const int RZ_END_CONTEXT = 4;
        internal const int RZ_END_GRAMMAR = 5;
        internal const int RZ_END_FAILED = 6;
        internal const int RZ_END_CANCELLED = 7;
        internal const int RZ_OVERFLOW_FAIL = 0;
        internal const int RZ_OVERFLOW_FORGET = 1;
        internal const int RZ_REASONING_MODEL = 0;
        internal const int RZ_REASONING_OFF = 1;
        internal const int RZ_REASONING_ON = 2;
        internal const int RZ_REPLY_KEEP = 1;
        internal const int RZ_REPLY_CONTINUE = 2;
        internal const int RZ_POOLING_MODEL = 0;
        internal const int RZ_POOLING_NONE = 1;
        internal const int RZ_POOLING_MEAN = 2;
        internal const int RZ_POOLING_CLS = 3;
        internal const int RZ_POOLING_LAST = 4;
        internal const int RZ_POOLING_RANK = 5;
        internal const int RZ_EMBED_RAW = 1;

        private static readonly Type[] Structs = {
            typeof(rz_error),
            typeof(rz_device_info),
            typeof(rz_runtime_params),
            typeof(rz_runtime_info),
            typeof(rz_placement),
            typeof(rz_model_params),
            typeof(rz_model_sampling),
            typeof(rz_model_info),
            typeof(rz_model_device),
            typeof(rz_source),
            typeof(rz_logit_bias),
            typeof(rz_token_sequence),
            typeof(rz_sampler_params),
            typeof(rz_cache_params),
            typeof(rz_adapter_params),
            typeof(rz_model_plan),
            typeof(rz_model_plan_device),
            typeof(rz_media_info),
            typeof(rz_encoder_params),
            typeof(rz_encoder_info),
            typeof(rz_encoder_plan),
            typeof(rz_pixels),
            typeof(rz_media_params),
            typeof(rz_part),
            typeof(rz_job_params),
            typeof(rz_job_info),
            typeof(rz_store_params),
            typeof(rz_store_info),
            typeof(rz_conversation_params),
            typeof(rz_reply_params),
            typeof(rz_conversation_info),
            typeof(rz_embed_params),
            typeof(rz_phase_metrics),
            typeof(rz_metrics),
            typeof(rz_backend_metrics),
            typeof(rz_layout),
        };

        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_abi_version();
        [DllImport(Library, CallingConvention = C)] internal static extern byte* rz_version();
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_version_number();
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_features();
        [DllImport(Library, CallingConvention = C)] internal static extern byte* rz_status_name(int status);
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_device_count();
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_device_info_get(uint index, rz_device_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_runtime_new(rz_runtime_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_runtime_free(IntPtr runtime);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_runtime_threads_set(RuntimeHandle runtime, uint threads, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_runtime_memory_limit_set(RuntimeHandle runtime, ulong memory_limit, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_runtime_info_get(RuntimeHandle runtime, rz_runtime_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cancel_new(IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cancel_free(IntPtr cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cancel_fire(CancelHandle cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cancel_deadline(CancelHandle cancel, ulong us_from_now, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cancel_reset(CancelHandle cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cancel_is_fired(CancelHandle cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_load(byte* path, rz_model_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_model_free(IntPtr model);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_sampling_get(ModelHandle model, rz_model_sampling* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_meta_into(ModelHandle model, byte* key, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_meta_key_into(ModelHandle model, UIntPtr index, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_meta_element_into(ModelHandle model, byte* key, UIntPtr index, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_info_get(ModelHandle model, rz_model_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_device_get(ModelHandle model, uint index, rz_model_device* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_load_from(rz_source* sources, UIntPtr n, rz_model_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_hub_choose_into(byte* model, UIntPtr model_len, byte* listing, UIntPtr listing_len, ulong memory, uint flags, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_tokenize_into(ModelHandle model, byte* text, UIntPtr text_len, uint flags, uint* @out, UIntPtr capacity, UIntPtr* n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_detokenize_into(ModelHandle model, uint* tokens, UIntPtr n, uint flags, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_token_is_end(ModelHandle model, uint token);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_token_bytes_into(ModelHandle model, uint token, void* @out, UIntPtr capacity, UIntPtr* len, uint* attributes, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_new(ModelHandle model, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_follow(TextstreamHandle stream, uint* tokens, UIntPtr n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_push_into(TextstreamHandle stream, uint token, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_flush_into(TextstreamHandle stream, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_textstream_free(IntPtr stream);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_render_into(ModelHandle model, byte* json, UIntPtr json_len, uint flags, byte* @out, UIntPtr capacity, UIntPtr* len, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_tokenize_into(ModelHandle model, byte* json, UIntPtr json_len, uint flags, uint* @out, UIntPtr capacity, UIntPtr* n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_new(ModelHandle model, byte* json, UIntPtr json_len, CancelHandle cancel, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_push(ChatParserHandle parser, uint token, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_end(ChatParserHandle parser, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_next_into(ChatParserHandle parser, uint* kind, uint* flags, uint* index, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_chat_parser_free(IntPtr parser);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_sampler_new(rz_sampler_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_sampler_free(IntPtr sampler);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_grammar_new(ModelHandle model, uint kind, uint flags, byte* text, UIntPtr len, CancelHandle cancel, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_grammar_free(IntPtr grammar);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_sampler_grammar_set(SamplerHandle sampler, GrammarHandle grammar, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_new(ModelHandle model, rz_cache_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cache_free(IntPtr cache);
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_cache_len(CacheHandle cache);
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_cache_capacity(CacheHandle cache);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_truncate(CacheHandle cache, uint len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_cancel_set(CacheHandle cache, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_fork(CacheHandle cache, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_match(CacheHandle cache, uint* tokens, UIntPtr n, uint* common, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_tokens_into(CacheHandle cache, uint* @out, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_shift(CacheHandle cache, uint keep, uint drop, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_release(CacheHandle cache, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_adapter_load(ModelHandle model, byte* path, rz_adapter_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_adapter_load_from(ModelHandle model, rz_source* sources, UIntPtr n, rz_adapter_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_adapter_free(IntPtr adapter);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_adapters_set(CacheHandle cache, IntPtr* adapters, float* scales, UIntPtr n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_save(CacheHandle cache, IntPtr write, IntPtr user, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_load(ModelHandle model, rz_cache_params* @params, IntPtr read, IntPtr user, CancelHandle cancel, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_plan_get(byte* path, rz_source* sources, UIntPtr n, rz_model_params* @params, rz_cache_params* cache_params, uint n_caches, rz_model_plan* @out, rz_model_plan_device* devices, UIntPtr capacity, UIntPtr* n_devices, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_prefill(CacheHandle cache, uint* tokens, UIntPtr n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_decode_token(CacheHandle cache, uint token, SamplerHandle sampler, uint* next, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_generate_into(CacheHandle cache, uint token, SamplerHandle sampler, uint* @out, UIntPtr capacity, UIntPtr* n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_decode_batch(IntPtr* caches, uint* tokens, UIntPtr n, IntPtr* samplers, uint* next, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_logits_into(CacheHandle cache, float* @out, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_sample(CacheHandle cache, SamplerHandle sampler, uint* token, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_rows(ModelHandle model, uint kind, float* rows, UIntPtr n_rows, uint row_dim, uint columns, uint lines, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_tokens(ModelHandle model, uint* tokens, UIntPtr n, CancelHandle cancel, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_info_get(MediaHandle media, rz_media_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_rows_into(MediaHandle media, float* @out, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_save(MediaHandle media, IntPtr write, IntPtr user, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_load(ModelHandle model, IntPtr read, IntPtr user, CancelHandle cancel, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_media_free(IntPtr media);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_encoder_load(ModelHandle model, byte* path, rz_encoder_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_encoder_load_from(ModelHandle model, rz_source* sources, UIntPtr n, rz_encoder_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_encoder_free(IntPtr encoder);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_encoder_info_get(EncoderHandle encoder, rz_encoder_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_encoder_plan_get(ModelHandle model, byte* path, rz_source* sources, UIntPtr n, rz_encoder_params* @params, rz_encoder_plan* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_pixels(EncoderHandle encoder, rz_pixels* pixels, rz_media_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_image(EncoderHandle encoder, void* data, UIntPtr size, rz_media_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_measure(EncoderHandle encoder, uint width, uint height, rz_media_params* @params, rz_media_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_samples(EncoderHandle encoder, float* samples, UIntPtr n, uint channels, uint rate, rz_media_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_audio(EncoderHandle encoder, void* data, UIntPtr size, rz_media_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_from_frames(EncoderHandle encoder, rz_pixels* frames, double* times, UIntPtr n, rz_media_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_media_step(MediaHandle media, ulong budget_us, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_prompt_new(ModelHandle model, rz_part* parts, UIntPtr n, uint flags, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_prompt_from_chat(ModelHandle model, byte* json, UIntPtr json_len, uint flags, IntPtr* media, UIntPtr n_media, CancelHandle cancel, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_prompt_free(IntPtr prompt);
        [DllImport(Library, CallingConvention = C)] internal static extern UIntPtr rz_prompt_len(PromptHandle prompt);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_prompt_tokens_into(PromptHandle prompt, uint* @out, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_match_prompt(CacheHandle cache, PromptHandle prompt, uint* common, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_prefill_prompt(CacheHandle cache, PromptHandle prompt, UIntPtr first, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_new(CacheHandle cache, rz_job_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_step(JobHandle job, ulong budget_us, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_jobs_step(IntPtr* jobs, UIntPtr n, ulong budget_us, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_error(JobHandle job, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_text_into(JobHandle job, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_next_into(JobHandle job, uint* kind, uint* flags, uint* index, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_tokens_into(JobHandle job, uint* @out, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_logprobs_into(JobHandle job, uint* tokens, float* logprobs, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_info_get(JobHandle job, rz_job_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_job_free(IntPtr job);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_store_new(ModelHandle model, rz_store_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_store_take(StoreHandle store, uint* tokens, UIntPtr n, rz_cache_params* @params, CancelHandle cancel, IntPtr* @out, uint* common, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_store_take_prompt(StoreHandle store, PromptHandle prompt, rz_cache_params* @params, CancelHandle cancel, IntPtr* @out, uint* common, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_store_put(StoreHandle store, CacheHandle cache, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_store_clear(StoreHandle store, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_store_info_get(StoreHandle store, rz_store_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_store_free(IntPtr store);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_new(ModelHandle model, rz_conversation_params* @params, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_add(ConversationHandle conversation, byte* json, UIntPtr len, IntPtr* media, UIntPtr n_media, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_add_text(ConversationHandle conversation, byte* role, byte* text, UIntPtr len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_reply(ConversationHandle conversation, rz_reply_params* @params, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_step(ConversationHandle conversation, ulong budget_us, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversations_step(IntPtr* conversations, UIntPtr n, ulong budget_us, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_next_into(ConversationHandle conversation, uint* kind, uint* flags, uint* index, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_stop(ConversationHandle conversation, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_error(ConversationHandle conversation, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_logprobs_into(ConversationHandle conversation, uint* tokens, float* logprobs, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_json_into(ConversationHandle conversation, uint first, byte* @out, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_rewind(ConversationHandle conversation, uint n_messages, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_fork(ConversationHandle conversation, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_info_get(ConversationHandle conversation, rz_conversation_info* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_conversation_free(IntPtr conversation);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_say(ConversationHandle conversation, byte* text, rz_reply_params* @params, IntPtr on_text, IntPtr user, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_read(ConversationHandle conversation, rz_reply_params* @params, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_release(ConversationHandle conversation, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_capacity_set(ConversationHandle conversation, uint capacity, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_overflow_set(ConversationHandle conversation, uint mode, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_cancel_set(ConversationHandle conversation, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_adapters_set(ConversationHandle conversation, IntPtr* adapters, float* scales, UIntPtr n_adapters, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_store_set(ConversationHandle conversation, StoreHandle store, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_save(ConversationHandle conversation, IntPtr write, IntPtr user, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_load(ModelHandle model, rz_conversation_params* @params, IntPtr read, IntPtr user, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_conversation_media(ConversationHandle conversation, uint number, IntPtr* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_top_logprobs(CacheHandle cache, uint k, uint* tokens, float* logprobs, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_score(CacheHandle cache, uint* tokens, UIntPtr n, float* logprobs, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_embed_into(ModelHandle model, rz_embed_params* @params, uint** tokens, UIntPtr* lengths, UIntPtr n_texts, float* @out, UIntPtr capacity, UIntPtr* n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_embed_prompts_into(ModelHandle model, rz_embed_params* @params, IntPtr* prompts, UIntPtr n_prompts, float* @out, UIntPtr capacity, UIntPtr* n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_metrics_get(ModelHandle model, rz_metrics* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_backend_metrics_get(ModelHandle model, uint device_kind, rz_backend_metrics* @out, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_metrics_reset(ModelHandle model);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_layout_get(uint index, rz_layout* @out, rz_error* err);
    }
}
