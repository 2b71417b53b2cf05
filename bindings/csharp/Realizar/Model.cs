using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Realizar
{
    /// <summary>Options of a load. Zero stands for the default.</summary>
    public sealed partial class LoadOptions
    {
        /// <summary>Number of threads that compute, if Runtime is null; 0: as for a new Runtime.</summary>
        public int Threads;
        /// <summary>GPUs among which the layers are divided, in this order; null: Device applies.</summary>
        public int[]? Devices;
        /// <summary>Relative sizes of the parts of Devices; null: in proportion to free memory.</summary>
        public float[]? Shares;
        /// <summary>Places of parts of the model; null or none: everything is where its layer is.</summary>
        public IReadOnlyList<Placement>? Placements;
    }

    public sealed partial class ModelInfo
    {
        /// <summary>GPUs that have layers, in the order of the layers.</summary>
        public IReadOnlyList<int> Devices { get; internal set; } = new int[0];
        /// <summary>Number of layers on each of Devices.</summary>
        public IReadOnlyList<int> DeviceLayers { get; internal set; } = new int[0];
    }

    /// <summary>A place for the experts (MoE) of layers that are on GPUs.</summary>
    public sealed class Placement
    {
        /// <summary>The place of the experts.</summary>
        public Place Place;
        /// <summary>With Place.Cpu: layers before this one are not meant.</summary>
        public int FirstLayer;
        /// <summary>With Place.Cpu: so many layers that have experts; 0: all.</summary>
        public int Layers;
        /// <summary>With Place.Gpu: bytes of experts on all GPUs together.</summary>
        public ulong Bytes;
    }

    /// <summary>A loaded model. Any number of threads may use it at once.</summary>
    public sealed partial class Model
    {
        /// <summary>Description of the model.</summary>
        public ModelInfo Info { get; private set; } = null!; // Describe sets it

        private Model() { }

        /// <summary>Loads a .gguf file, a .safetensors file, a folder with a config.json, or a model of the Hub as of
        /// <see cref="Fetch"/>.</summary>
        public static unsafe Model Load(string path, LoadOptions? options = null, CancellationToken cancellationToken = default)
        {
            if (Native.Given(path, nameof(path)).StartsWith(Hub.Prefix, StringComparison.Ordinal)) path = Fetch(path, options?.Progress, cancellationToken);
            var name = Native.Terminated(path, nameof(path));
            return Made(options, cancellationToken, (p, pointer, err) => {
                fixed (byte* at = name) return Native.rz_model_load(at, p, pointer, err);
            });
        }

        /// <summary>Load, on a thread of the pool.</summary>
        public static Task<Model> LoadAsync(string path, LoadOptions? options = null, CancellationToken cancellationToken = default)
        {
            Native.Terminated(path, nameof(path));
            return Task.Run(() => Load(path, options, cancellationToken), cancellationToken);
        }

        /// <summary>The path of a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", in
        /// the cache of the Hub's own client, which is fetched where it is not complete there: by the largest
        /// quantization of at most 8 bits that fits into the free memory where none is named. A later call continues a
        /// fetch that was interrupted. HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of
        /// the environment are heeded.</summary>
        /// <param name="progress">Receives the number of bytes fetched so far and in total. An exception ends the
        /// fetch.</param>
        public static string Fetch(string name, Action<ulong, ulong>? progress = null, CancellationToken cancellationToken = default) =>
            Hub.Fetch(name, Device.All().Where(device => device.Unavailable == "").Max(device => device.MemoryFree), progress, cancellationToken);

        /// <summary>A model whose files are bytes in memory, each under its name. The bytes are not needed after the
        /// load.</summary>
        public static unsafe Model Load(IReadOnlyDictionary<string, byte[]> files, LoadOptions? options = null, CancellationToken cancellationToken = default) =>
            Made(options, cancellationToken, (p, pointer, err) => WithSources(files, (sources, n) => Native.rz_model_load_from((rz_source*)sources, n, p, pointer, err)));

        /// <summary>The memory that a load and a number of sessions will take. Reads no weights.</summary>
        public static unsafe Plan Plan(string path, LoadOptions? options = null, int sessions = 1, int capacity = 0, CacheType keys = CacheType.F16, CacheType values = CacheType.F16)
        {
            var name = Native.Terminated(path, nameof(path));
            return Planned(options, capacity, keys, values, (p, cache, plan, parts, nParts, err) => {
                fixed (byte* at = name) return Native.rz_model_plan_get(at, null, UIntPtr.Zero, p, cache, Native.Whole(sessions, nameof(sessions)), plan, parts, (UIntPtr)Native.RZ_DEVICES_MAX, nParts, err);
            });
        }

        /// <summary>The same for a model whose files are bytes in memory.</summary>
        public static unsafe Plan Plan(IReadOnlyDictionary<string, byte[]> files, LoadOptions? options = null, int sessions = 1, int capacity = 0, CacheType keys = CacheType.F16, CacheType values = CacheType.F16) =>
            Planned(options, capacity, keys, values, (p, cache, plan, parts, nParts, err) => WithSources(files, (sources, n) =>
                Native.rz_model_plan_get(null, (rz_source*)sources, n, p, cache, Native.Whole(sessions, nameof(sessions)), plan, parts, (UIntPtr)Native.RZ_DEVICES_MAX, nParts, err)));

        private unsafe delegate int Loading(rz_model_params* p, rz_error* err);
        private unsafe delegate int Making(rz_model_params* p, IntPtr* pointer, rz_error* err);
        private unsafe delegate int Planning(rz_model_params* p, rz_cache_params* cache, rz_model_plan* plan, rz_model_plan_device* parts, UIntPtr* nParts, rz_error* err);

        private static unsafe Model Made(LoadOptions? options, CancellationToken cancellationToken, Making call)
        {
            var model = new Model();
            var pointer = new IntPtr[1];
            With(options, cancellationToken, (p, err) => {
                fixed (IntPtr* at = pointer) return call(p, at, err);
            });
            model.Handle.Take(pointer[0]);
            model.Describe();
            return model;
        }

        private static unsafe Plan Planned(LoadOptions? options, int capacity, CacheType keys, CacheType values, Planning call)
        {
            var plan = new rz_model_plan[1];
            var parts = new rz_model_plan_device[Native.RZ_DEVICES_MAX];
            var n = new UIntPtr[1];
            for (var i = 0; i < parts.Length; i++) parts[i].struct_size = (uint)sizeof(rz_model_plan_device);
            With(options, default, (p, err) => {
                var cache = Session.Parameters(capacity, keys, values);
                fixed (rz_model_plan* at = plan)
                fixed (rz_model_plan_device* devices = parts)
                fixed (UIntPtr* count = n)
                {
                    at->struct_size = (uint)sizeof(rz_model_plan);
                    return call(p, &cache, at, devices, count, err);
                }
            });
            fixed (rz_model_plan* at = plan)
            fixed (rz_model_plan_device* each = parts)
            {
                var (first, made) = ((IntPtr)each, Realizar.Plan.Of(at));
                made.Devices = Enumerable.Range(0, (int)n[0]).Select(i => Realizar.Plan.OnDevice.Of((rz_model_plan_device*)first + i)).ToArray();
                return made;
            }
        }

        /// <summary>Calls with the files as the library takes them.</summary>
        internal static unsafe int WithSources(IReadOnlyDictionary<string, byte[]> files, Func<IntPtr, UIntPtr, int> call)
        {
            foreach (var file in Native.Given(files, nameof(files)))
                if (file.Value == null) throw new ArgumentNullException(nameof(files), $"files[\"{file.Key}\"] is null");
            using (var pins = new Pins())
                return call(pins.Of(files.Select(file => new rz_source {
                    struct_size = (uint)sizeof(rz_source), kind = Native.RZ_SOURCE_MEMORY, name = pins.Of(file.Key, nameof(files)),
                    data = pins.Of(file.Value), size = (ulong)file.Value.LongLength,
                }).ToArray()), (UIntPtr)files.Count);
        }

        /// <summary>Makes a call with the parameters of a load.</summary>
        private static unsafe void With(LoadOptions? options, CancellationToken cancellationToken, Loading call)
        {
            Native.Initialize();
            options = options ?? new LoadOptions();
            var devices = Native.Wholes(options.Devices, nameof(options.Devices));
            var shares = options.Shares ?? new float[0];
            for (var i = 0; i < shares.Length; i++) Native.Real(shares[i], $"Shares[{i}]");
            if (shares.Length > 0 && shares.Length != devices.Length) // the library looks for a share of each
                throw new ArgumentException($"Shares has {shares.Length} elements; it must have one for each of the {devices.Length} devices", nameof(options.Shares));
            if (options.Runtime != null && options.Threads != 0)
                throw new ArgumentException("Threads and Runtime are both set; set one", nameof(options.Threads));
            Native.Whole(options.Threads, nameof(options.Threads));
            var p = options.Numbers();
            using (var pins = new Pins())
            using (var cancelling = new Cancelling(cancellationToken))
            using (var progressing = new Progressing(options.Progress))
            using (var own = options.Runtime == null && options.Threads != 0 ? new Runtime(options.Threads) : null) // the model keeps it alive
            {
                p.runtime = pins.Of((options.Runtime ?? own)?.Handle);
                p.cancel = pins.Of(cancelling.Handle);
                (p.progress, p.progress_user) = (progressing.Callback, progressing.User);
                var placements = Native.GivenAll(options.Placements ?? new Placement[0], nameof(options.Placements)).Select(place => new rz_placement {
                    struct_size = (uint)sizeof(rz_placement), what = Native.RZ_PLACED_EXPERTS, place = Native.Choice(place.Place, nameof(place.Place)),
                    first_layer = Native.Whole(place.FirstLayer, nameof(place.FirstLayer)), n_layers = Native.Whole(place.Layers, nameof(place.Layers)),
                    bytes = place.Bytes,
                }).ToArray();
                (p.placements, p.n_placements) = (pins.Of(placements), (UIntPtr)placements.Length);
                p.packed_path = pins.Of(options.PackedPath, nameof(options.PackedPath));
                p.tested_path = pins.Of(options.TestedPath, nameof(options.TestedPath));
                (p.chat_template, p.chat_template_len) = pins.Sized(options.ChatTemplate, nameof(options.ChatTemplate));
                (p.devices, p.n_devices, p.device_split) = (pins.Of(devices), (UIntPtr)devices.Length, shares.Length > 0 ? pins.Of(shares) : IntPtr.Zero);
                rz_error err;
                progressing.Check(call(&p, &err), &err, cancellationToken);
            }
        }

        private void Describe()
        {
            Info = ModelInfo.Get(Handle);
            var devices = Enumerable.Range(0, Info.NDevices).Select(i => ModelDevice.Get(Handle, (uint)i)).ToArray();
            Info.Devices = devices.Select(device => device.Device).ToArray();
            Info.DeviceLayers = devices.Select(device => device.Layers).ToArray();
        }

        /// <summary>A value of the file's metadata as text.</summary>
        public unsafe string Meta(string key) =>
            Native.Pinned(Native.Terminated(key, nameof(key)), (at, len) => Native.SizedText(256, (text, capacity, n, err) =>
                Native.rz_model_meta_into(Handle, at, (byte*)text, capacity, n, err)));

        /// <summary>The keys of the metadata, in alphabetical order.</summary>
        public unsafe IReadOnlyList<string> MetaKeys() => Listed(i => Native.SizedText(256, (text, capacity, n, err) =>
            Native.rz_model_meta_key_into(Handle, (UIntPtr)i, (byte*)text, capacity, n, err)));

        /// <summary>The elements of an array of the metadata as texts.</summary>
        public unsafe IReadOnlyList<string> MetaList(string key)
        {
            Meta(key); // so that a missing key is not an empty list
            return Native.Pinned(Native.Terminated(key, nameof(key)), (at, len) => Listed(i => Native.SizedText(256,
                (text, capacity, n, err) => Native.rz_model_meta_element_into(Handle, at, (UIntPtr)i, (byte*)text, capacity, n, err))));
        }

        /// <summary>Entries up to the one that there is not.</summary>
        private static IReadOnlyList<string> Listed(Func<int, string> entry)
        {
            var all = new List<string>();
            try
            {
                for (;;) all.Add(entry(all.Count));
            }
            catch (RealizarException e) when (e.Status == Status.NotFound) { return all; }
        }

        /// <summary>The sampling parameters that the model recommends, or null. A Session does not apply it by
        /// itself.</summary>
        public unsafe Sampling? AdvisedSampling()
        {
            rz_error err;
            rz_model_sampling s;
            s.struct_size = (uint)sizeof(rz_model_sampling);
            RealizarException.Check(Native.rz_model_sampling_get(Handle, &s, &err), &err);
            if (s.advised == 0) return null;
            return new Sampling {
                Temperature = s.temperature, TopK = (int)s.top_k, TopP = s.top_p, MinP = s.min_p, RepeatPenalty = s.repeat_penalty,
                PenaltyWindow = (int)s.penalty_window, TemperatureFirst = true, // they advise it for transformers
            };
        }

        /// <summary>Token ids of a text.</summary> <param name="special">Adds the tokens that begin and end a text, as
        /// the model asks.</param> <param name="parse">Names of control tokens in the text become these tokens; not for
        /// text that users typed.</param>
        public unsafe uint[] Tokenize(string text, bool special = true, bool parse = false)
        {
            var bytes = Native.Encoded(text, nameof(text));
            var flags = (special ? Native.RZ_TOKENIZE_ADD_SPECIAL : 0u) | (parse ? Native.RZ_TOKENIZE_PARSE_SPECIAL : 0u);
            return Native.Pinned(bytes, (at, len) => Native.Sized<uint>(bytes.Length + 8, (tokens, capacity, n, err) =>
                Native.rz_tokenize_into(Handle, at, len, flags, (uint*)tokens, capacity, n, CancelHandle.None, err)));
        }

        /// <summary>The text of tokens; <paramref name="special"/>: with control tokens.</summary>
        public unsafe string Detokenize(uint[] tokens, bool special = false)
        {
            fixed (uint* t = Native.Given(tokens, nameof(tokens)))
            {
                var at = t;
                return Native.SizedText(tokens.Length * 8, (text, capacity, n, err) =>
                    Native.rz_detokenize_into(Handle, at, (UIntPtr)tokens.Length, special ? Native.RZ_DETOKENIZE_SPECIAL : 0u, (byte*)text, capacity, n, err));
            }
        }

        /// <summary>The bytes of one token, which may be a part of a character.</summary>
        public unsafe byte[] TokenBytes(uint token) =>
            Native.Sized<byte>(64, (bytes, capacity, n, err) => Native.rz_token_bytes_into(Handle, token, (byte*)bytes, capacity, n, null, err));

        /// <summary>True for a token that ends a turn or a text.</summary>
        public bool IsEnd(uint token) => Native.rz_token_is_end(Handle, token) != 0;

        /// <summary>The text of a conversation by the model's chat template. The conversation is JSON: {"messages":
        /// [...], "tools": [...], "variables": {...}}.</summary>
        public unsafe string Render(string json, bool addGenerationPrompt = true)
        {
            var bytes = Native.Encoded(json, nameof(json));
            var flags = addGenerationPrompt ? Native.RZ_CHAT_ADD_GENERATION_PROMPT : 0u;
            return Native.Pinned(bytes, (at, len) => Native.SizedText(4096, (text, capacity, n, err) =>
                Native.rz_chat_render_into(Handle, at, len, flags, (byte*)text, capacity, n, CancelHandle.None, err)));
        }

        /// <summary>The tokens of a conversation in JSON, up to where the reply begins. No text in it becomes a control
        /// token.</summary>
        public unsafe uint[] TokenizeChat(string json)
        {
            var bytes = Native.Encoded(json, nameof(json));
            return Native.Pinned(bytes, (at, len) => Native.Sized<uint>(bytes.Length + 64, (tokens, capacity, n, err) =>
                Native.rz_chat_tokenize_into(Handle, at, len, Native.RZ_CHAT_ADD_GENERATION_PROMPT, (uint*)tokens, capacity, n, CancelHandle.None, err)));
        }

        /// <summary>Turns tokens into text as they come.</summary>
        public unsafe TextStream NewTextStream() =>
            new TextStream(Native.Made((stream, err) => Native.rz_textstream_new(Handle, stream, err)));

        /// <summary>A parser for the reply to a conversation, if the prompt was TokenizeChat of the same
        /// JSON.</summary>
        public unsafe ChatParser NewChatParser(string json) =>
            new ChatParser(Native.Pinned(Native.Encoded(json, nameof(json)), (at, len) =>
                Native.Made((parser, err) => Native.rz_chat_parser_new(Handle, at, len, CancelHandle.None, parser, err))));

        /// <summary>Loads a LoRA adapter: a GGUF file or a folder of PEFT.</summary>
        public unsafe Adapter LoadAdapter(string path) =>
            new Adapter(Native.Pinned(Native.Terminated(path, nameof(path)), (at, len) =>
                Native.Made((adapter, err) => Native.rz_adapter_load(Handle, at, null, adapter, err))));

        /// <summary>Compiles a grammar for constrained decoding.</summary>
        /// <param name="whitespace">JSON may have white space between its parts.</param>
        public unsafe Grammar NewGrammar(GrammarKind kind, string text, bool whitespace = false)
        {
            var flags = whitespace ? Native.RZ_GRAMMAR_FLAG_WHITESPACE : 0u;
            return new Grammar(Native.Pinned(Native.Encoded(text, nameof(text)), (at, len) =>
                Native.Made((grammar, err) => Native.rz_grammar_new(Handle, Native.Choice(kind, nameof(kind)), flags, at, len, CancelHandle.None, grammar, err))));
        }

        /// <summary>An empty session with a context of <paramref name="capacity"/> tokens; 0: the context length of the
        /// model, at most 8192.</summary>
        /// <param name="keys">Element type of the keys in the KV cache.</param>
        public unsafe Session NewSession(int capacity = 0, CacheType keys = CacheType.F16, CacheType values = CacheType.F16)
        {
            using (var pins = new Pins())
            {
                var p = pins.Of(Session.Parameters(capacity, keys, values));
                return new Session(this, Native.Made((cache, err) => Native.rz_cache_new(Handle, (rz_cache_params*)p, cache, err)));
            }
        }

        /// <summary>The session that Session.Save has written.</summary>
        public unsafe Session Restore(System.IO.Stream stream) => new Session(this, Transfer.Load(stream, (read, user, pointer, err) =>
            Native.rz_cache_load(Handle, null, read, user, CancelHandle.None, pointer, err)));

        /// <summary>Embeddings of texts: a vector for each text; with Pooling.None a vector for each token, with
        /// Pooling.Rank the scores of each text.</summary>
        public float[][] Embed(IReadOnlyList<string> texts, Pooling pooling = Pooling.Model, bool normalize = true, CancellationToken cancellationToken = default)
        {
            var tokens = new uint[Native.GivenAll(texts, nameof(texts)).Count][];
            for (var i = 0; i < tokens.Length; i++) tokens[i] = Tokenize(texts[i]);
            return Embed(tokens, pooling, normalize, cancellationToken);
        }

        /// <summary>The same for texts as tokens.</summary>
        public unsafe float[][] Embed(uint[][] tokens, Pooling pooling = Pooling.Model, bool normalize = true, CancellationToken cancellationToken = default)
        {
            Native.GivenAll(tokens, nameof(tokens));
            var rows = pooling == Pooling.None ? tokens.Sum(text => text.Length) : tokens.Length;
            return Embedded(tokens.Length, rows, pooling, normalize, cancellationToken, (pins, p, cancel, vectors, capacity, n, err) => {
                var lists = pins.Of(tokens.Select(text => pins.Of(text)).ToArray());
                var lengths = pins.Of(tokens.Select(text => (UIntPtr)text.Length).ToArray());
                return Native.rz_embed_into(Handle, (rz_embed_params*)p, (uint**)lists, (UIntPtr*)lengths, (UIntPtr)tokens.Length, (float*)vectors,
                    capacity, n, cancel, err);
            });
        }

        internal unsafe delegate int Embedding(Pins pins, IntPtr p, CancelHandle cancel, void* vectors, UIntPtr capacity, UIntPtr* n, rz_error* err);

        /// <summary>The vectors that a call gives, so many rows of so many texts.</summary>
        internal unsafe float[][] Embedded(int texts, int rows, Pooling pooling, bool normalize, CancellationToken cancellationToken, Embedding call)
        {
            if (texts == 0) return new float[0][];
            var p = new rz_embed_params { struct_size = (uint)sizeof(rz_embed_params), pooling = Native.Choice(pooling, nameof(pooling)), flags = normalize ? 0u : Native.RZ_EMBED_RAW };
            float[] all;
            using (var pins = new Pins())
            using (var cancelling = new Cancelling(cancellationToken))
            {
                var at = (IntPtr)(&p);
                all = Native.Sized<float>(rows * Info.HiddenDim, (vectors, capacity, n, err) => call(pins, at, cancelling.Handle, vectors, capacity, n, err), cancellationToken);
            }
            var result = new float[rows][];
            for (var i = 0; i < rows; i++)
                Array.Copy(all, i * (all.Length / rows), result[i] = new float[all.Length / rows], 0, all.Length / rows);
            return result;
        }

        /// <summary>Counters of the calls since the model was loaded.</summary>
        public Metrics GetMetrics() => Metrics.Get(Handle);

        /// <summary>The work of the CPU, or with <paramref name="isGpu"/> of the GPUs, since the model was
        /// loaded.</summary>
        public Work GetWork(bool isGpu = false) => Work.Get(Handle, (uint)(isGpu ? Native.RZ_DEVICE_GPU : Native.RZ_DEVICE_CPU));

        /// <summary>Sets the counters to zero.</summary>
        public void ResetMetrics() { Native.rz_metrics_reset(Handle); }
    }
}
