// What calls return. The build writes this file: make header.
using System;
using System.Collections.Generic;

namespace Realizar
{
    /// <summary>A device.</summary>
    public sealed partial class Device
    {
        /// <summary>Index of the device; it may differ between processes.</summary>
        public int Index { get; internal set; }
        /// <summary>Identifier, equal in every process on this machine: "cpu", or the UUID of a GPU, such as
        /// "8d4f7a0e-2c31-4b7e-9d55-0f6e1a2b3c4d", which NVIDIA's tools print after "GPU-" or "MIG-"; empty if
        /// unknown. Two GPUs of the same model have different ids.</summary>
        public string Id { get; internal set; } = null!;
        /// <summary>Name, such as "cuda:0 NVIDIA H200".</summary>
        public string Name { get; internal set; } = null!;
        /// <summary>True for a GPU.</summary>
        public bool IsGpu { get; internal set; }
        /// <summary>True if models can be loaded onto the device.</summary>
        public bool IsAvailable { get; internal set; }
        /// <summary>Instruction set or compute capability, such as "avx512vnni" or "sm_90".</summary>
        public string InstructionSet { get; internal set; } = null!;
        /// <summary>Total memory in bytes; 0 if unknown.</summary>
        public ulong MemoryTotal { get; internal set; }
        /// <summary>Free memory in bytes; 0 if unknown.</summary>
        public ulong MemoryFree { get; internal set; }
        /// <summary>Reason why the device cannot be used; empty if it can.</summary>
        public string Unavailable { get; internal set; } = null!;

        internal static unsafe Device Of(rz_device_info* c) => new Device {
            Index = (int)c->index,
            Id = Native.Text(c->id),
            Name = Native.Text(c->name),
            IsGpu = c->kind == Native.RZ_DEVICE_GPU,
            IsAvailable = c->available != 0,
            InstructionSet = Native.Text(c->isa),
            MemoryTotal = c->memory_total,
            MemoryFree = c->memory_free,
            Unavailable = Native.Text(c->unavailable),
        };

        internal static unsafe Device Get(uint index)
        {
            var c = new rz_device_info { struct_size = (uint)sizeof(rz_device_info) };
            rz_error err;
            RealizarException.Check(Native.rz_device_info_get(index, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>Description of a model.</summary>
    public sealed partial class ModelInfo
    {
        /// <summary>Family of the network, such as "llama" or "qwen3".</summary>
        public string Architecture { get; internal set; } = null!;
        /// <summary>Name of the model; empty if the file has none.</summary>
        public string Name { get; internal set; } = null!;
        /// <summary>Transformer layers.</summary>
        public int Layers { get; internal set; }
        /// <summary>Width of the residual stream, in values.</summary>
        public int HiddenDim { get; internal set; }
        /// <summary>Width of the feed-forward block, in values.</summary>
        public int FfnDim { get; internal set; }
        /// <summary>Query heads.</summary>
        public int Heads { get; internal set; }
        /// <summary>Key and value heads.</summary>
        public int KvHeads { get; internal set; }
        /// <summary>Values per head.</summary>
        public int HeadDim { get; internal set; }
        /// <summary>Number of token ids, which run from 0 to VocabSize - 1; also the number of logits.</summary>
        public int VocabSize { get; internal set; }
        /// <summary>Context length in tokens that the model was trained for, as declared in the file.</summary>
        public int ContextLength { get; internal set; }
        /// <summary>Index of the device that the model was loaded to; with several GPUs the first.</summary>
        public int Device { get; internal set; }
        /// <summary>Token that begins a text, or null.</summary>
        public uint? BosToken { get; internal set; }
        /// <summary>Token that ends a text, or null.</summary>
        public uint? EosToken { get; internal set; }
        /// <summary>Number of parameters.</summary>
        public ulong Parameters { get; internal set; }
        /// <summary>Bytes of weights in memory; 0 for a model loaded with LoadOptions.TextOnly.</summary>
        public ulong WeightBytes { get; internal set; }
        /// <summary>Number of layers on GPUs; the CPU computes the other layers, which come first.</summary>
        public int GpuLayers { get; internal set; }
        /// <summary>The model has a chat template that works.</summary>
        public bool HasChatTemplate { get; internal set; }
        /// <summary>The chat template writes the token that begins a text.</summary>
        public bool TemplateWritesBos { get; internal set; }
        /// <summary>Number of keys and tensors that LoadOptions.AllowUnknown ignored.</summary>
        public int Unknown { get; internal set; }
        /// <summary>First GPU layer whose experts are on the CPU, from 0.</summary>
        public int FirstExpertsHost { get; internal set; }
        /// <summary>Bytes of experts on the host that belong to layers on GPUs.</summary>
        public ulong ExpertsHost { get; internal set; }
        /// <summary>Bytes of experts on GPUs.</summary>
        public ulong ExpertsDevice { get; internal set; }
        /// <summary>Number of layers from FirstExpertsHost to the last layer whose experts are on the CPU; 0:
        /// none.</summary>
        public int NExpertsHost { get; internal set; }
        /// <summary>Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if no
        /// product is computed there.</summary>
        public string Isa { get; internal set; } = null!;
        /// <summary>Minimum number of tokens of a step that copies the experts from the CPU to the GPU; null: no
        /// step copies.</summary>
        public int? ExpertsCopiedFrom { get; internal set; }
        /// <summary>What the model and its conversations can do.</summary>
        public Capabilities Capabilities { get; internal set; }
        /// <summary>Number of floats in the embedding of a text; 0: the model computes none.</summary>
        public int EmbeddingDim { get; internal set; }
        /// <summary>Pooling of embeddings; Pooling.Model: the file declares none, so that the caller must
        /// choose.</summary>
        public Pooling Pooling { get; internal set; }
        /// <summary>Number of scores of the model's classifier (Pooling.Rank, reranking); 0: it has no
        /// classifier.</summary>
        public int Scores { get; internal set; }
        /// <summary>Number of GPUs that have layers.</summary>
        public int NDevices { get; internal set; }

        internal static unsafe ModelInfo Of(rz_model_info* c) => new ModelInfo {
            Architecture = Native.Text(c->architecture),
            Name = Native.Text(c->name),
            Layers = (int)c->n_layers,
            HiddenDim = (int)c->hidden_dim,
            FfnDim = (int)c->ffn_dim,
            Heads = (int)c->n_heads,
            KvHeads = (int)c->n_kv_heads,
            HeadDim = (int)c->head_dim,
            VocabSize = (int)c->vocab_size,
            ContextLength = (int)c->context_length,
            Device = (int)c->device,
            BosToken = c->bos_token == Native.RZ_TOKEN_NONE ? (uint?)null : c->bos_token,
            EosToken = c->eos_token == Native.RZ_TOKEN_NONE ? (uint?)null : c->eos_token,
            Parameters = c->n_params,
            WeightBytes = c->weight_bytes,
            GpuLayers = (int)c->gpu_layers,
            HasChatTemplate = (c->chat_template & Native.RZ_TEMPLATE_PRESENT) != 0,
            TemplateWritesBos = (c->chat_template & Native.RZ_TEMPLATE_WRITES_BOS) != 0,
            Unknown = (int)c->n_unknown,
            FirstExpertsHost = (int)c->experts_host_first,
            ExpertsHost = c->experts_host,
            ExpertsDevice = c->experts_device,
            NExpertsHost = (int)c->experts_host_layers,
            Isa = Native.Text(c->isa),
            ExpertsCopiedFrom = c->experts_copied_from == Native.RZ_NONE ? (int?)null : (int)c->experts_copied_from,
            Capabilities = (Capabilities)c->capabilities,
            EmbeddingDim = (int)c->embedding_dim,
            Pooling = (Pooling)c->pooling,
            Scores = (int)c->n_scores,
            NDevices = (int)c->n_devices,
        };

        internal static unsafe ModelInfo Get(ModelHandle model)
        {
            var c = new rz_model_info { struct_size = (uint)sizeof(rz_model_info) };
            rz_error err;
            RealizarException.Check(Native.rz_model_info_get(model, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>A GPU that has layers of a model.</summary>
    internal struct ModelDevice
    {
        /// <summary>Index of the device.</summary>
        public int Device { get; internal set; }
        /// <summary>Number of layers on the GPU.</summary>
        public int Layers { get; internal set; }

        internal static unsafe ModelDevice Of(rz_model_device* c) => new ModelDevice {
            Device = (int)c->device,
            Layers = (int)c->n_layers,
        };

        internal static unsafe ModelDevice Get(ModelHandle model, uint index)
        {
            var c = new rz_model_device { struct_size = (uint)sizeof(rz_model_device) };
            rz_error err;
            RealizarException.Check(Native.rz_model_device_get(model, index, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>Memory that a model and its caches take, in bytes.</summary>
    public sealed partial class Plan
    {
        /// <summary>Number of layers on GPUs.</summary>
        public int GpuLayers { get; internal set; }
        /// <summary>Weights in host memory, as they are packed.</summary>
        public ulong WeightsHost { get; internal set; }
        /// <summary>Weights on GPUs.</summary>
        public ulong WeightsDevice { get; internal set; }
        /// <summary>Host memory of one KV cache at full capacity: keys, values, tokens and logits.</summary>
        public ulong CacheHost { get; internal set; }
        /// <summary>GPU memory of one KV cache at full capacity.</summary>
        public ulong CacheDevice { get; internal set; }
        /// <summary>Bytes that one more token of capacity adds to a cache.</summary>
        public ulong CacheToken { get; internal set; }
        /// <summary>Scratch memory of one full-size step. With several threads, a model runs one such step at a
        /// time; up to eight concurrent steps of at most 16 tokens take less in addition. In a runtime with one
        /// thread, each concurrent step takes this much.</summary>
        public ulong ScratchHost { get; internal set; }
        /// <summary>Scratch memory on GPUs.</summary>
        public ulong ScratchDevice { get; internal set; }
        /// <summary>Peak host memory during the load.</summary>
        public ulong LoadPeakHost { get; internal set; }
        /// <summary>Total host memory: the model, its tokenizer, scratch memory and all caches.</summary>
        public ulong TotalHost { get; internal set; }
        /// <summary>Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates
        /// when it records repeated steps of one token (CUDA graphs).</summary>
        public ulong TotalDevice { get; internal set; }
        /// <summary>First GPU layer whose experts are on the CPU, from 0.</summary>
        public int FirstExpertsHost { get; internal set; }
        /// <summary>Number of layers from FirstExpertsHost to the last layer whose experts are on the CPU; 0:
        /// none.</summary>
        public int NExpertsHost { get; internal set; }
        /// <summary>Part of WeightsHost: experts of layers on GPUs.</summary>
        public ulong ExpertsHost { get; internal set; }
        /// <summary>Part of WeightsDevice: experts.</summary>
        public ulong ExpertsDevice { get; internal set; }

        internal static unsafe Plan Of(rz_model_plan* c) => new Plan {
            GpuLayers = (int)c->gpu_layers,
            WeightsHost = c->weights_host,
            WeightsDevice = c->weights_device,
            CacheHost = c->cache_host,
            CacheDevice = c->cache_device,
            CacheToken = c->cache_token,
            ScratchHost = c->scratch_host,
            ScratchDevice = c->scratch_device,
            LoadPeakHost = c->load_peak_host,
            TotalHost = c->total_host,
            TotalDevice = c->total_device,
            FirstExpertsHost = (int)c->experts_host_first,
            NExpertsHost = (int)c->experts_host_layers,
            ExpertsHost = c->experts_host,
            ExpertsDevice = c->experts_device,
        };
    }

    public sealed partial class Plan
    {
        /// <summary>Part of a plan on one GPU, in bytes.</summary>
        public struct OnDevice
        {
            /// <summary>Index of the device.</summary>
            public int Device { get; internal set; }
            /// <summary>Number of layers on the GPU.</summary>
            public int Layers { get; internal set; }
            /// <summary>Part of Plan.WeightsDevice.</summary>
            public ulong Weights { get; internal set; }
            /// <summary>Part of Plan.CacheDevice.</summary>
            public ulong Cache { get; internal set; }
            /// <summary>Part of Plan.ScratchDevice.</summary>
            public ulong Scratch { get; internal set; }
            /// <summary>Part of Plan.TotalDevice.</summary>
            public ulong Total { get; internal set; }

            internal static unsafe OnDevice Of(rz_model_plan_device* c) => new OnDevice {
                Device = (int)c->device,
                Layers = (int)c->n_layers,
                Weights = c->weights,
                Cache = c->cache,
                Scratch = c->scratch,
                Total = c->total,
            };
        }
    }

    /// <summary>Description of an encoder.</summary>
    public sealed partial class EncoderInfo
    {
        /// <summary>True: the rows of an image attend to each other (bidirectional attention), so one step of the
        /// model must compute all of them.</summary>
        public bool IsMutual { get; internal set; }
        /// <summary>Kind of the projector, such as "qwen3vl_merger" or "voxtral".</summary>
        public string Projector { get; internal set; } = null!;
        /// <summary>Number of floats per row.</summary>
        public int RowDim { get; internal set; }
        /// <summary>Layers of the encoder.</summary>
        public int Layers { get; internal set; }
        /// <summary>Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an
        /// audio encoder.</summary>
        public int TileSide { get; internal set; }
        /// <summary>The sides of tiles are multiples of this number of pixels; 0 for audio.</summary>
        public int Grain { get; internal set; }
        /// <summary>Minimum number of rows of an image or an audio clip.</summary>
        public int MinRows { get; internal set; }
        /// <summary>Maximum number of rows of an image or an audio clip.</summary>
        public int MaxRows { get; internal set; }
        /// <summary>Bytes of weights in memory, on the CPU or the GPU.</summary>
        public ulong WeightBytes { get; internal set; }
        /// <summary>Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio
        /// clip.</summary>
        public ulong ScratchBytes { get; internal set; }
        /// <summary>The kinds of media that the encoder accepts.</summary>
        public IReadOnlyList<MediaKind> Kinds { get; internal set; } = null!;
        /// <summary>Sample rate in Hz to which audio is resampled; 0 for images.</summary>
        public int SampleRate { get; internal set; }
        /// <summary>Index of the device that the encoder was loaded to.</summary>
        public int Device { get; internal set; }

        internal static unsafe EncoderInfo Of(rz_encoder_info* c) => new EncoderInfo {
            IsMutual = c->is_mutual != 0,
            Projector = Native.Text(c->projector),
            RowDim = (int)c->row_dim,
            Layers = (int)c->n_layers,
            TileSide = (int)c->tile_side,
            Grain = (int)c->grain,
            MinRows = (int)c->min_rows,
            MaxRows = (int)c->max_rows,
            WeightBytes = c->weight_bytes,
            ScratchBytes = c->scratch_bytes,
            Kinds = Native.Kinds(c->kinds),
            SampleRate = (int)c->sample_rate,
            Device = (int)c->device,
        };

        internal static unsafe EncoderInfo Get(EncoderHandle encoder)
        {
            var c = new rz_encoder_info { struct_size = (uint)sizeof(rz_encoder_info) };
            rz_error err;
            RealizarException.Check(Native.rz_encoder_info_get(encoder, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>Memory that an encoder takes in addition to its model, in bytes.</summary>
    public sealed partial class EncoderPlan
    {
        /// <summary>Number of rows of the largest image, or of the longest audio clip.</summary>
        public int MaxRows { get; internal set; }
        /// <summary>Weights in host memory, as they are packed.</summary>
        public ulong WeightsHost { get; internal set; }
        /// <summary>Maximum scratch memory of a call that encodes an image or an audio clip.</summary>
        public ulong ScratchHost { get; internal set; }
        /// <summary>One row of a media item.</summary>
        public ulong Row { get; internal set; }
        /// <summary>Weights on a GPU.</summary>
        public ulong WeightsDevice { get; internal set; }
        /// <summary>Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder
        /// keeps the scratch memory of one call for the next one; calls at the same time take this much
        /// each.</summary>
        public ulong ScratchDevice { get; internal set; }
        /// <summary>Index of the device that the load would choose.</summary>
        public int Device { get; internal set; }

        internal static unsafe EncoderPlan Of(rz_encoder_plan* c) => new EncoderPlan {
            MaxRows = (int)c->max_rows,
            WeightsHost = c->weights_host,
            ScratchHost = c->scratch_host,
            Row = c->row,
            WeightsDevice = c->weights_device,
            ScratchDevice = c->scratch_device,
            Device = (int)c->device,
        };
    }

    /// <summary>Description of a media item.</summary>
    public sealed partial class MediaInfo
    {
        /// <summary>The kind of the media item.</summary>
        public MediaKind Kind { get; internal set; }
        /// <summary>Number of rows, each of which takes the place of a token in a cache.</summary>
        public int Rows { get; internal set; }
        /// <summary>Number of prompt tokens that the media item takes: its rows, and the model's tokens around and
        /// between the rows.</summary>
        public int Tokens { get; internal set; }
        /// <summary>Number of floats per row.</summary>
        public int RowDim { get; internal set; }
        /// <summary>Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of
        /// video frames.</summary>
        public int Columns { get; internal set; }
        /// <summary>Number of lines of a tile.</summary>
        public int Lines { get; internal set; }
        /// <summary>Number of tiles horizontally; 0 if the image is one tile.</summary>
        public int TileColumns { get; internal set; }
        /// <summary>Number of tiles vertically; 0 if the image is one tile.</summary>
        public int TileLines { get; internal set; }
        /// <summary>True if an additional tile shows the whole image.</summary>
        public bool HasOverview { get; internal set; }
        /// <summary>Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a
        /// media item that was created from rows.</summary>
        public int Width { get; internal set; }
        /// <summary>Height in pixels; 0 for audio and for a media item that was created from rows.</summary>
        public int Height { get; internal set; }
        /// <summary>Width in pixels of all tiles together, as the model sees them. Programs need it to convert
        /// coordinates in the model's output to pixels of the image. For audio the number of samples at the rate
        /// of the encoder.</summary>
        public int SeenWidth { get; internal set; }
        /// <summary>Height in pixels of all tiles together; 0 for audio.</summary>
        public int SeenHeight { get; internal set; }
        /// <summary>Bytes of memory.</summary>
        public ulong Bytes { get; internal set; }
        /// <summary>Time of the encoding in nanoseconds.</summary>
        public ulong EncodeNanoseconds { get; internal set; }
        /// <summary>Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may
        /// use it as a cache key.</summary>
        public byte[] Hash { get; internal set; } = null!;
        /// <summary>Number of frame pairs of a video, each of which has Lines lines of Columns rows; 0 for other
        /// media.</summary>
        public int Pairs { get; internal set; }

        internal static unsafe MediaInfo Of(rz_media_info* c) => new MediaInfo {
            Kind = (MediaKind)c->kind,
            Rows = (int)c->n_rows,
            Tokens = (int)c->n_tokens,
            RowDim = (int)c->row_dim,
            Columns = (int)c->columns,
            Lines = (int)c->lines,
            TileColumns = (int)c->tile_columns,
            TileLines = (int)c->tile_lines,
            HasOverview = c->has_overview != 0,
            Width = (int)c->width,
            Height = (int)c->height,
            SeenWidth = (int)c->seen_width,
            SeenHeight = (int)c->seen_height,
            Bytes = c->bytes,
            EncodeNanoseconds = c->encode_ns,
            Hash = new ReadOnlySpan<byte>(c->hash, 32).ToArray(),
            Pairs = (int)c->pairs,
        };

        internal static unsafe MediaInfo Get(MediaHandle media)
        {
            var c = new rz_media_info { struct_size = (uint)sizeof(rz_media_info) };
            rz_error err;
            RealizarException.Check(Native.rz_media_info_get(media, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>State of a store.</summary>
    public sealed partial class StoreInfo
    {
        /// <summary>Number of prefixes in memory.</summary>
        public int Entries { get; internal set; }
        /// <summary>Number of prefixes in files of the model.</summary>
        public int Files { get; internal set; }
        /// <summary>Number of prefixes dropped because they could not be written (on a full disk, for example),
        /// since the store was created. The log has the reason.</summary>
        public int Unwritten { get; internal set; }
        /// <summary>Bytes in memory.</summary>
        public ulong MemoryBytes { get; internal set; }
        /// <summary>Bytes in files.</summary>
        public ulong DiskBytes { get; internal set; }
        /// <summary>Number of lookups that found a prefix, since the store was created.</summary>
        public ulong Hits { get; internal set; }
        /// <summary>Number of lookups that found no prefix.</summary>
        public ulong Misses { get; internal set; }
        /// <summary>Number of tokens that needed no prefill because of hits.</summary>
        public ulong ReusedTokens { get; internal set; }
        /// <summary>Limit of MemoryBytes in effect.</summary>
        public ulong MemoryLimit { get; internal set; }
        /// <summary>Limit of DiskBytes in effect; 0 without a folder.</summary>
        public ulong DiskLimit { get; internal set; }

        internal static unsafe StoreInfo Of(rz_store_info* c) => new StoreInfo {
            Entries = (int)c->n_entries,
            Files = (int)c->n_files,
            Unwritten = (int)c->n_unwritten,
            MemoryBytes = c->memory_bytes,
            DiskBytes = c->disk_bytes,
            Hits = c->hits,
            Misses = c->misses,
            ReusedTokens = c->reused_tokens,
            MemoryLimit = c->memory_limit,
            DiskLimit = c->disk_limit,
        };

        internal static unsafe StoreInfo Get(StoreHandle store)
        {
            var c = new rz_store_info { struct_size = (uint)sizeof(rz_store_info) };
            rz_error err;
            RealizarException.Check(Native.rz_store_info_get(store, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>State of a conversation and of its last reply.</summary>
    public sealed partial class ConversationInfo
    {
        /// <summary>Number of messages.</summary>
        public int Messages { get; internal set; }
        /// <summary>Index of the first message of the oldest turn in prompts; 0 unless turns were left out
        /// (Overflow.Forget).</summary>
        public int FirstInPrompt { get; internal set; }
        /// <summary>The state of the reply.</summary>
        public ReplyState State { get; internal set; }
        /// <summary>Why the reply has ended.</summary>
        public JobEnd End { get; internal set; }
        /// <summary>Status.Cancelled or Status.Deadline if steps fail because of a cancel or a deadline; else
        /// null.</summary>
        public Status? Stopped { get; internal set; }
        /// <summary>Number of tokens of the reply's prompt.</summary>
        public int PromptTokens { get; internal set; }
        /// <summary>Number of prompt tokens that the cache already held (cached tokens).</summary>
        public int ReusedTokens { get; internal set; }
        /// <summary>Number of prompt tokens that had to be computed and are in the cache by now.</summary>
        public int PromptDone { get; internal set; }
        /// <summary>Number of generated tokens, including a token that ends the reply.</summary>
        public int Tokens { get; internal set; }
        /// <summary>Number of reasoning tokens among the generated tokens.</summary>
        public int ReasoningTokens { get; internal set; }
        /// <summary>Number of draft tokens verified.</summary>
        public int Drafted { get; internal set; }
        /// <summary>Number of draft tokens accepted.</summary>
        public int Accepted { get; internal set; }
        /// <summary>Number of tokens in the cache.</summary>
        public int CacheLength { get; internal set; }
        /// <summary>Capacity of the cache in tokens.</summary>
        public int CacheCapacity { get; internal set; }
        /// <summary>Number of media in the messages.</summary>
        public int Media { get; internal set; }
        /// <summary>Total time in nanoseconds of the reply's prefill steps.</summary>
        public ulong PromptTime { get; internal set; }
        /// <summary>Total time in nanoseconds of the reply's decode steps.</summary>
        public ulong TokensTime { get; internal set; }
        /// <summary>Time to first token (TTFT) in nanoseconds; 0 before the first token.</summary>
        public ulong FirstTokenTime { get; internal set; }

        internal static unsafe ConversationInfo Of(rz_conversation_info* c) => new ConversationInfo {
            Messages = (int)c->n_messages,
            FirstInPrompt = (int)c->first_in_prompt,
            State = (ReplyState)c->state,
            End = (JobEnd)c->end_reason,
            Stopped = c->stopped == 0 ? (Status?)null : (Status)c->stopped,
            PromptTokens = (int)c->prompt_tokens,
            ReusedTokens = (int)c->reused_tokens,
            PromptDone = (int)c->prompt_done,
            Tokens = (int)c->n_tokens,
            ReasoningTokens = (int)c->reasoning_tokens,
            Drafted = (int)c->drafted,
            Accepted = (int)c->accepted,
            CacheLength = (int)c->cache_len,
            CacheCapacity = (int)c->cache_capacity,
            Media = (int)c->n_media,
            PromptTime = c->prompt_ns,
            TokensTime = c->tokens_ns,
            FirstTokenTime = c->first_token_ns,
        };

        internal static unsafe ConversationInfo Get(ConversationHandle conversation)
        {
            var c = new rz_conversation_info { struct_size = (uint)sizeof(rz_conversation_info) };
            rz_error err;
            RealizarException.Check(Native.rz_conversation_info_get(conversation, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>Number and time of the calls of one kind.</summary>
    public struct Phase
    {
        /// <summary>Number of calls.</summary>
        public ulong Count { get; internal set; }
        /// <summary>Total time in nanoseconds.</summary>
        public ulong Nanoseconds { get; internal set; }

        internal static unsafe Phase Of(rz_phase_metrics* c) => new Phase {
            Count = c->count,
            Nanoseconds = c->sum_ns,
        };
    }

    /// <summary>Number and time of the calls of a model, by kind.</summary>
    public sealed partial class Metrics
    {
        /// <summary>Load.</summary>
        public Phase Load { get; internal set; }
        /// <summary>Tokenization.</summary>
        public Phase Tokenize { get; internal set; }
        /// <summary>Prefill.</summary>
        public Phase Prefill { get; internal set; }
        /// <summary>Decode: one token at a time, including sampling of the next one.</summary>
        public Phase Decode { get; internal set; }
        /// <summary>Sampling.</summary>
        public Phase Sample { get; internal set; }
        /// <summary>Detokenization.</summary>
        public Phase Detokenize { get; internal set; }
        /// <summary>Matrix products of layers on the GPU, with adjacent norms and sums; all phases of GPUs are
        /// counted only with LoadOptions.Profile.</summary>
        public Phase GpuProducts { get; internal set; }
        /// <summary>Rotary positions, KV cache and attention.</summary>
        public Phase GpuAttention { get; internal set; }
        /// <summary>Routing, and experts.</summary>
        public Phase GpuExperts { get; internal set; }
        /// <summary>Logits and the most likely token.</summary>
        public Phase GpuHead { get; internal set; }
        /// <summary>Embeddings, and separate norms, sums and gates.</summary>
        public Phase GpuOther { get; internal set; }
        /// <summary>Encoding of images, from their pixels to the rows of a media item.</summary>
        public Phase Encode { get; internal set; }

        internal static unsafe Metrics Of(rz_metrics* c) => new Metrics {
            Load = Phase.Of(&c->load),
            Tokenize = Phase.Of(&c->tokenize),
            Prefill = Phase.Of(&c->prefill),
            Decode = Phase.Of(&c->decode),
            Sample = Phase.Of(&c->sample),
            Detokenize = Phase.Of(&c->detokenize),
            GpuProducts = Phase.Of(&c->gpu_products),
            GpuAttention = Phase.Of(&c->gpu_attention),
            GpuExperts = Phase.Of(&c->gpu_experts),
            GpuHead = Phase.Of(&c->gpu_head),
            GpuOther = Phase.Of(&c->gpu_other),
            Encode = Phase.Of(&c->encode),
        };

        internal static unsafe Metrics Get(ModelHandle model)
        {
            var c = new rz_metrics { struct_size = (uint)sizeof(rz_metrics) };
            rz_error err;
            RealizarException.Check(Native.rz_metrics_get(model, &c, &err), &err);
            return Of(&c);
        }
    }

    /// <summary>Work of one kind of device; times are in nanoseconds.</summary>
    public sealed partial class Work
    {
        /// <summary>Number of dispatches; if 0, all values below are 0.</summary>
        public ulong Dispatches { get; internal set; }
        /// <summary>Bytes read and written by dispatches.</summary>
        public ulong Bytes { get; internal set; }
        /// <summary>Total latency in nanoseconds.</summary>
        public ulong LatencySum { get; internal set; }
        /// <summary>Minimum latency in nanoseconds.</summary>
        public ulong LatencyMin { get; internal set; }
        /// <summary>Maximum latency in nanoseconds.</summary>
        public ulong LatencyMax { get; internal set; }
        /// <summary>Mean latency in nanoseconds.</summary>
        public double LatencyMean { get; internal set; }
        /// <summary>Variance of the latency in square nanoseconds.</summary>
        public double LatencyVariance { get; internal set; }
        /// <summary>Entry 0 counts latencies under 1 microsecond, entry i counts latencies from 2^(i-1) to below
        /// 2^i microseconds, and the last entry counts all longer latencies.</summary>
        public ulong[] LatencyHistogram { get; internal set; } = null!;

        internal static unsafe Work Of(rz_backend_metrics* c) => new Work {
            Dispatches = c->dispatches,
            Bytes = c->bytes,
            LatencySum = c->latency_sum_ns,
            LatencyMin = c->latency_min_ns,
            LatencyMax = c->latency_max_ns,
            LatencyMean = c->latency_mean_ns,
            LatencyVariance = c->latency_variance_ns2,
            LatencyHistogram = new ReadOnlySpan<ulong>(c->latency_histogram, 32).ToArray(),
        };

        internal static unsafe Work Get(ModelHandle model, uint device_kind)
        {
            var c = new rz_backend_metrics { struct_size = (uint)sizeof(rz_backend_metrics) };
            rz_error err;
            RealizarException.Check(Native.rz_backend_metrics_get(model, device_kind, &c, &err), &err);
            return Of(&c);
        }
    }
}
