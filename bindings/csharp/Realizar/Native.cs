// The C interface: structs, functions, handles, and a check that the library has the layouts that are written down here.
// Nothing is marshalled but integers, pointers and SafeHandles, so that it works in IL2CPP and other ahead-of-time compilers.
using System;
using System.Collections.Generic;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;

namespace Realizar
{
    // Structs have the names of the header, by which they are looked up in the library's table of layouts.
    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_error { public int code, system_code; public fixed byte message[504]; }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_device_info
    {
        public uint struct_size, index; public fixed byte name[64]; public uint kind, available; public fixed byte isa[32];
        public ulong memory_total, memory_free; public fixed byte unavailable[256];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_runtime_params
    {
        public uint struct_size, threads; public ulong memory_limit; public IntPtr cpus; public UIntPtr n_cpus;
        public IntPtr log, log_user, parallel, parallel_user;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_params
    {
        public uint struct_size, device; public IntPtr runtime; public uint flags, gpu_layers, quantize, reserved;
        public IntPtr progress, progress_user, cancel, packed_path, devices; public UIntPtr n_devices; public IntPtr shares;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_model_info
    {
        public uint struct_size; public fixed byte architecture[32]; public fixed byte name[64];
        public uint n_layers, hidden_dim, ffn_dim, n_heads, n_kv_heads, head_dim, vocab_size, context_length, device;
        public uint bos_token, eos_token; public ulong n_params, weight_bytes; public uint gpu_layers, chat_template;
        public fixed uint devices[16]; public fixed uint device_layers[16]; public uint n_unknown, reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_model_sampling
    {
        public uint struct_size, told; public float temperature; public uint top_k; public float top_p, min_p, repeat_penalty;
        public uint penalty_window;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_source
    {
        public uint struct_size, kind; public IntPtr name, data; public ulong size; public int fd; public uint reserved;
        public ulong offset; public IntPtr read, user;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_plan
    {
        public uint struct_size, gpu_layers; public ulong weights_host, weights_device, cache_host, cache_device, cache_token;
        public ulong scratch_host, scratch_device, load_peak_host, total_host, total_device;
        public fixed uint devices[16]; public fixed uint device_layers[16]; public fixed ulong device_weights[16];
        public fixed ulong device_cache[16]; public fixed ulong device_scratch[16]; public fixed ulong device_total[16];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_logit_bias { public uint token; public float bias; }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_sampler_params
    {
        public uint struct_size; public float temperature; public uint top_k; public float top_p, min_p, repeat_penalty;
        public float presence_penalty, frequency_penalty; public uint penalty_window, flags; public ulong seed;
        public IntPtr biases; public UIntPtr n_biases;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_cache_params { public uint struct_size, capacity, k_type, v_type; }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_job_params
    {
        public uint struct_size, max_tokens; public IntPtr tokens; public UIntPtr n_tokens; public IntPtr sampler, grammar, stops;
        public UIntPtr n_stops; public IntPtr cancel; public uint flags, reserved, draft, draft_max; public IntPtr draft_model;
        public uint logprobs, reserved_1; public IntPtr chat; public UIntPtr chat_len;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_job_info
    {
        public uint struct_size, state, end; public int stopped; public uint prompt_total, prompt_done, n_tokens, cache_len;
        public ulong prompt_ns, tokens_ns, first_token_ns; public uint drafted, accepted;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_embed_params { public uint struct_size, pooling, flags, reserved; }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_phase_metrics { public ulong count, sum_ns; }

    [StructLayout(LayoutKind.Sequential)]
    internal struct rz_metrics
    {
        public uint struct_size, reserved; public rz_phase_metrics load, tokenize, prefill, decode, sample, detokenize;
        public rz_phase_metrics gpu_products, gpu_attention, gpu_experts, gpu_head, gpu_other;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_backend_metrics
    {
        public uint struct_size, device_kind; public ulong dispatches, bytes, latency_sum_ns, latency_min_ns, latency_max_ns;
        public double latency_mean_ns, latency_variance_ns2; public fixed ulong latency_histogram[32];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct rz_layout
    {
        public uint struct_size, offset, size; public fixed byte struct_name[32]; public fixed byte field_name[32];
    }

    /// <summary>A handle of the library, freed once, after the calls that use it.</summary>
    internal abstract class Handle : SafeHandle
    {
        protected Handle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        public void Take(IntPtr pointer) { SetHandle(pointer); }
    }

    internal sealed class RuntimeHandle : Handle
    {
        /// <summary>Stands for NULL.</summary>
        public static readonly RuntimeHandle None = new RuntimeHandle();
        protected override bool ReleaseHandle() { Native.rz_runtime_free(handle); return true; }
    }
    internal sealed class CancelHandle : Handle
    {
        public static readonly CancelHandle None = new CancelHandle();
        protected override bool ReleaseHandle() { Native.rz_cancel_free(handle); return true; }
    }
    internal sealed class ModelHandle : Handle
    {
        public static readonly ModelHandle None = new ModelHandle();
        protected override bool ReleaseHandle() { Native.rz_model_free(handle); return true; }
    }
    internal sealed class CacheHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.rz_cache_free(handle); return true; }
    }
    internal sealed class SamplerHandle : Handle
    {
        public static readonly SamplerHandle None = new SamplerHandle();
        protected override bool ReleaseHandle() { Native.rz_sampler_free(handle); return true; }
    }
    internal sealed class GrammarHandle : Handle
    {
        public static readonly GrammarHandle None = new GrammarHandle();
        protected override bool ReleaseHandle() { Native.rz_grammar_free(handle); return true; }
    }
    internal sealed class AdapterHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.rz_adapter_free(handle); return true; }
    }
    internal sealed class ChatParserHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.rz_chat_parser_free(handle); return true; }
    }
    internal sealed class TextStreamHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.rz_textstream_free(handle); return true; }
    }
    internal sealed class JobHandle : Handle
    {
        protected override bool ReleaseHandle() { Native.rz_job_free(handle); return true; }
    }

    /// <summary>Tells ahead-of-time compilers that native code calls a method. IL2CPP looks for the name alone.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class MonoPInvokeCallbackAttribute : Attribute
    {
        public MonoPInvokeCallbackAttribute(Type type) { }
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void LogCallback(int level, byte* message, UIntPtr length, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int ProgressCallback(ulong done, ulong total, IntPtr user);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal delegate int TransferCallback(IntPtr user, IntPtr data, UIntPtr n);

    internal static unsafe class Native
    {
#if UNITY_IOS && !UNITY_EDITOR
        private const string Library = "__Internal";
#else
        private const string Library = "realizar";
#endif
        private const CallingConvention C = CallingConvention.Cdecl;
        internal const int AbiVersion = 1;
        internal const uint NoToken = uint.MaxValue;
        internal const int Done = 2;
        internal const ulong NoLimit = ulong.MaxValue;

        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_abi_version();
        [DllImport(Library, CallingConvention = C)] internal static extern byte* rz_version();
        [DllImport(Library, CallingConvention = C)] internal static extern byte* rz_status_name(int status);
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_device_count();
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_device_info_get(uint index, rz_device_info* info, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_runtime_threads_set(RuntimeHandle runtime, uint threads, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_layout_get(uint index, rz_layout* layout, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_runtime_new(rz_runtime_params* p, IntPtr* runtime, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_runtime_free(IntPtr runtime);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cancel_new(IntPtr* cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cancel_free(IntPtr cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cancel_fire(CancelHandle cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cancel_reset(CancelHandle cancel);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cancel_deadline(CancelHandle cancel, ulong us_from_now, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_load(byte* path, rz_model_params* p, IntPtr* model, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_load_from(rz_source* sources, UIntPtr n, rz_model_params* p, IntPtr* model, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_plan(byte* path, rz_source* sources, UIntPtr n, rz_model_params* p, rz_cache_params* cache, uint n_caches, rz_plan* plan, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_model_free(IntPtr model);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_sampling_get(ModelHandle model, rz_model_sampling* sampling, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_meta_key_into(ModelHandle model, UIntPtr index, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_meta_element_into(ModelHandle model, byte* key, UIntPtr index, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_info_get(ModelHandle model, rz_model_info* info, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_model_meta_into(ModelHandle model, byte* key, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_tokenize_into(ModelHandle model, byte* text, UIntPtr len, uint flags, uint* tokens, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_detokenize_into(ModelHandle model, uint* tokens, UIntPtr n, uint flags, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_token_is_end(ModelHandle model, uint token);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_token_bytes_into(ModelHandle model, uint token, byte* bytes, UIntPtr capacity, UIntPtr* len, uint* attributes, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_new(ModelHandle model, IntPtr* stream, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_follow(TextStreamHandle stream, uint* tokens, UIntPtr n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_push_into(TextStreamHandle stream, uint token, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_textstream_flush_into(TextStreamHandle stream, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_textstream_free(IntPtr stream);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_render_json_into(ModelHandle model, byte* json, UIntPtr len, uint flags, byte* text, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_tokenize_into(ModelHandle model, byte* json, UIntPtr len, uint flags, uint* tokens, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_grammar_new(ModelHandle model, uint kind, byte* text, UIntPtr len, IntPtr* grammar, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_grammar_free(IntPtr grammar);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_new(ModelHandle model, byte* json, UIntPtr len, IntPtr* parser, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_push(ChatParserHandle parser, uint token, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_end(ChatParserHandle parser, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_chat_parser_next_into(ChatParserHandle parser, uint* kind, uint* index, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_chat_parser_free(IntPtr parser);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_adapter_load(ModelHandle model, byte* path, IntPtr* adapter, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_adapter_free(IntPtr adapter);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_adapters_set(CacheHandle cache, IntPtr* adapters, float* scales, UIntPtr n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_sampler_new(rz_sampler_params* p, IntPtr* sampler, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_sampler_free(IntPtr sampler);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_sampler_grammar_set(SamplerHandle sampler, GrammarHandle grammar, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_new(ModelHandle model, rz_cache_params* p, IntPtr* cache, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_cache_free(IntPtr cache);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_fork(CacheHandle cache, IntPtr* fork, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_cache_len(CacheHandle cache);
        [DllImport(Library, CallingConvention = C)] internal static extern uint rz_cache_capacity(CacheHandle cache);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_truncate(CacheHandle cache, uint len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_tokens_into(CacheHandle cache, uint* tokens, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_shift(CacheHandle cache, uint keep, uint drop, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_release(CacheHandle cache, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_save(CacheHandle cache, IntPtr write, IntPtr user, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_load(ModelHandle model, rz_cache_params* p, IntPtr read, IntPtr user, IntPtr* cache, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_decode_batch(IntPtr* caches, uint* tokens, UIntPtr n, IntPtr* samplers, uint* next, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_logprobs_into(CacheHandle cache, uint k, uint* tokens, float* logprobs, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_score_into(CacheHandle cache, uint* tokens, UIntPtr n, float* logprobs, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_prefill(CacheHandle cache, uint* tokens, UIntPtr n, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_sample(CacheHandle cache, SamplerHandle sampler, uint* token, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_decode_token(CacheHandle cache, uint token, SamplerHandle sampler, uint* next, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_cache_match(CacheHandle cache, uint* tokens, UIntPtr n, uint* common, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_new(CacheHandle cache, rz_job_params* p, IntPtr* job, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_job_free(IntPtr job);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_step(JobHandle job, ulong budget, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_jobs_step(IntPtr* jobs, UIntPtr n, ulong budget, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_text_into(JobHandle job, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_error(JobHandle job, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_next_into(JobHandle job, uint* kind, uint* index, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_tokens_into(JobHandle job, uint* tokens, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_logprobs_into(JobHandle job, uint* tokens, float* logprobs, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_job_info_get(JobHandle job, rz_job_info* info, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_logits_into(CacheHandle cache, float* logits, UIntPtr capacity, UIntPtr* n, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_embed_into(ModelHandle model, rz_embed_params* p, uint** tokens, UIntPtr* lengths, UIntPtr n, float* vectors, UIntPtr capacity, UIntPtr* written, CancelHandle cancel, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_metrics_get(ModelHandle model, rz_metrics* metrics, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern int rz_backend_metrics_get(ModelHandle model, uint kind, rz_backend_metrics* metrics, rz_error* err);
        [DllImport(Library, CallingConvention = C)] internal static extern void rz_metrics_reset(ModelHandle model);

        private static readonly string Problem = Check();

        /// <summary>Refuses a library that is missing or another one, in front of the first handle.</summary>
        internal static void Initialize()
        {
            if (Problem != null) throw new NotSupportedException($"the library {Library} {Problem}");
        }

        private static string Check()
        {
            try
            {
                return rz_abi_version() == AbiVersion ? CheckLayouts() : $"has the interface {rz_abi_version()}, {AbiVersion} is needed";
            }
            catch (DllNotFoundException e) { return "cannot be loaded: " + e.Message; }
            catch (BadImageFormatException e) { return "cannot be loaded: " + e.Message; }
            catch (EntryPointNotFoundException e) { return "lacks a function: " + e.Message; }
        }

        private static string CheckLayouts()
        {
            var mine = new Dictionary<string, uint>();
            foreach (var type in new[] {
                typeof(rz_error), typeof(rz_device_info), typeof(rz_runtime_params), typeof(rz_model_params), typeof(rz_model_info),
                typeof(rz_model_sampling), typeof(rz_source), typeof(rz_plan), typeof(rz_backend_metrics),
                typeof(rz_logit_bias), typeof(rz_sampler_params), typeof(rz_cache_params), typeof(rz_job_params), typeof(rz_job_info),
                typeof(rz_embed_params), typeof(rz_phase_metrics), typeof(rz_metrics), typeof(rz_layout) })
                foreach (var field in type.GetFields(BindingFlags.Instance | BindingFlags.Public))
                    mine[type.Name + "." + field.Name] = (uint)Marshal.OffsetOf(type, field.Name).ToInt32();
            rz_layout layout;
            layout.struct_size = (uint)sizeof(rz_layout);
            for (uint i = 0; rz_layout_get(i, &layout, null) == 0; i++)
            {
                var name = Text(layout.struct_name) + "." + Text(layout.field_name);
                uint offset;
                if (mine.TryGetValue(name, out offset) && offset != layout.offset)
                    return $"has {name} at {layout.offset}, {offset} is expected";
                mine.Remove(name);
            }
            foreach (var name in mine.Keys) return "lacks " + name;
            return null;
        }

        internal static string Text(byte* text)
        {
            var n = 0;
            while (text[n] != 0) n++;
            return Encoding.UTF8.GetString(text, n);
        }

        /// <summary>Refuses half of a surrogate pair, which has no UTF-8.</summary>
        internal static readonly Encoding Utf8 = new UTF8Encoding(false, true);

        /// <summary>A string as UTF-8 that ends with a NUL.</summary>
        internal static byte[] Terminated(string text, string name)
        {
            if (text == null) throw new ArgumentNullException(name);
            if (text.IndexOf('\0') >= 0) throw new ArgumentException("contains a NUL", name);
            return Utf8.GetBytes(text + "\0");
        }

        /// <summary>Holds handles, or what stands for NULL, in an array that is never empty, for the time of a
        /// call.</summary>
        internal static T Held<T>(IReadOnlyList<SafeHandle> handles, Func<IntPtr[], T> call)
        {
            var held = 0;
            var pointers = new IntPtr[handles.Count + 1];
            try
            {
                for (; held < handles.Count; held++)
                {
                    var added = false;
                    handles[held].DangerousAddRef(ref added);
                    pointers[held] = handles[held].DangerousGetHandle();
                }
                return call(pointers);
            }
            finally { while (held-- > 0) handles[held].DangerousRelease(); }
        }

        internal delegate int Into(void* buffer, UIntPtr capacity, UIntPtr* n, rz_error* err);

        /// <summary>What a function writes to a buffer, which is made again where it is too small.</summary>
        internal static T[] Sized<T>(int capacity, Into call) where T : struct
        {
            for (;;)
            {
                var buffer = new T[Math.Max(capacity, 1)];
                UIntPtr n;
                rz_error err;
                int status;
                var pinned = GCHandle.Alloc(buffer, GCHandleType.Pinned);
                try { status = call((void*)pinned.AddrOfPinnedObject(), (UIntPtr)buffer.Length, &n, &err); }
                finally { pinned.Free(); }
                if (status == (int)Status.BufferTooSmall) { capacity = checked((int)n); continue; }
                RealizarException.Check(status, &err);
                Array.Resize(ref buffer, checked((int)n));
                return buffer;
            }
        }

        internal static string SizedText(int capacity, Into call) => Encoding.UTF8.GetString(Sized<byte>(capacity, call));
    }
}
