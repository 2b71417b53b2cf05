// The options of calls. The build writes this file: make header.
using System;
using System.Collections.Generic;

namespace Realizar
{
    /// <summary>Sampling parameters. Zero switches a parameter off; all zeros choose the most likely token.</summary>
    public sealed partial class Sampling
    {
        /// <summary>Divides the logits; 0: always the most likely token.</summary>
        public float Temperature;
        /// <summary>Keeps the k most likely tokens.</summary>
        public int TopK;
        /// <summary>Keeps the most likely tokens that together reach this probability.</summary>
        public float TopP;
        /// <summary>Drops tokens whose probability is below this fraction of the most likely token's.</summary>
        public float MinP;
        /// <summary>Divides positive logits of recent tokens, multiplies negative ones.</summary>
        public float RepeatPenalty;
        /// <summary>Subtracted from the logit of every recent token.</summary>
        public float PresencePenalty;
        /// <summary>Subtracted from the logit of a recent token once per occurrence.</summary>
        public float FrequencyPenalty;
        /// <summary>Number of the last tokens, including tokens of the prompt, that count as recent; 0:
        /// all.</summary>
        public int PenaltyWindow;
        /// <summary>The temperature comes before the filters, which keep their default order. Recommendations of
        /// models' authors, and sampling in transformers, use this order. Not together with order.</summary>
        public bool TemperatureFirst;
        /// <summary>Seed of the random number generator; 0 is a seed like any other.</summary>
        public ulong Seed;
        /// <summary>Added to the logits of tokens; negative infinity forbids a token.</summary>
        public IReadOnlyDictionary<uint, float> LogitBias = new Dictionary<uint, float>();
        /// <summary>Locally typical sampling: keeps the tokens whose information is closest to the entropy, until
        /// they together reach this probability; 1: off.</summary>
        public float TypicalP;
        /// <summary>Drops logits more than this number of standard deviations (of the remaining logits) below the
        /// largest.</summary>
        public float TopNSigma;
        /// <summary>XTC: probability of a cut. A cut drops all tokens whose probability is at least XtcThreshold,
        /// except the least likely one of them.</summary>
        public float XtcProbability;
        /// <summary>Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no
        /// token.</summary>
        public float XtcThreshold;
        /// <summary>Dynamic temperature: the temperature rises from temperature - TemperatureRange (at least 0) to
        /// temperature + TemperatureRange with the entropy of the distribution, relative to the entropy of the
        /// uniform distribution.</summary>
        public float TemperatureRange;
        /// <summary>Exponent of the relative entropy for the dynamic temperature; 0 means the default,
        /// 1.</summary>
        public float TemperatureExponent;
        /// <summary>Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise
        /// is at most a bound, which begins at twice this value and is corrected after each draw.</summary>
        public float MirostatTau;
        /// <summary>Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the
        /// default, 0.1.</summary>
        public float MirostatEta;
        /// <summary>DRY: if the last n tokens occurred before (with the largest such n, at least
        /// DryAllowedLength), the logit of the token that followed the earlier occurrence is reduced by
        /// DryMultiplier * DryBase ^ (n - DryAllowedLength). n above 4096 counts as 4096.</summary>
        public float DryMultiplier;
        /// <summary>Base of the DRY penalty, at least 1; 0: 1.75.</summary>
        public float DryBase;
        /// <summary>Minimum length of repetitions that DRY penalizes; 0: 2.</summary>
        public int DryAllowedLength;
        /// <summary>Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0:
        /// all.</summary>
        public int DryWindow;
        /// <summary>No sequence of this number of tokens occurs twice in the tokens of a cache, including the
        /// prompt: the token that would complete such a repetition is not chosen. At most 4096.</summary>
        public int NoRepeatNgramSize;
        /// <summary>Sequences of tokens across which DRY does not look for repetitions.</summary>
        public IReadOnlyList<uint[]> DryBreakers = new uint[0][];
        /// <summary>Token sequences that are never generated: the last token of a sequence is not sampled after
        /// the other tokens.</summary>
        public IReadOnlyList<uint[]> BannedSequences = new uint[0][];
        /// <summary>The order of the filters and the temperature; empty: the default order.</summary>
        public IReadOnlyList<Filter> Order = new Filter[0];

        internal unsafe rz_sampler_params Numbers() => new rz_sampler_params {
            struct_size = (uint)sizeof(rz_sampler_params),
            temperature = Native.NotNegative(Temperature, nameof(Temperature)),
            top_k = Native.Whole(TopK, nameof(TopK)),
            top_p = Native.NotNegative(TopP, nameof(TopP)),
            min_p = Native.NotNegative(MinP, nameof(MinP)),
            repeat_penalty = Native.NotNegative(RepeatPenalty, nameof(RepeatPenalty)),
            presence_penalty = Native.Real(PresencePenalty, nameof(PresencePenalty)),
            frequency_penalty = Native.Real(FrequencyPenalty, nameof(FrequencyPenalty)),
            penalty_window = Native.Whole(PenaltyWindow, nameof(PenaltyWindow)),
            seed = Seed,
            typical_p = Native.NotNegative(TypicalP, nameof(TypicalP)),
            top_n_sigma = Native.NotNegative(TopNSigma, nameof(TopNSigma)),
            xtc_probability = Native.NotNegative(XtcProbability, nameof(XtcProbability)),
            xtc_threshold = Native.NotNegative(XtcThreshold, nameof(XtcThreshold)),
            temperature_range = Native.NotNegative(TemperatureRange, nameof(TemperatureRange)),
            temperature_exponent = Native.NotNegative(TemperatureExponent, nameof(TemperatureExponent)),
            mirostat_tau = Native.NotNegative(MirostatTau, nameof(MirostatTau)),
            mirostat_eta = Native.NotNegative(MirostatEta, nameof(MirostatEta)),
            dry_multiplier = Native.NotNegative(DryMultiplier, nameof(DryMultiplier)),
            dry_base = Native.NotNegative(DryBase, nameof(DryBase)),
            dry_allowed_length = Native.Whole(DryAllowedLength, nameof(DryAllowedLength)),
            dry_window = Native.Whole(DryWindow, nameof(DryWindow)),
            no_repeat_ngram_size = Native.Whole(NoRepeatNgramSize, nameof(NoRepeatNgramSize)),
            flags = (TemperatureFirst ? Native.RZ_SAMPLER_TEMPERATURE_FIRST : 0u),
        };
    }

    public sealed partial class LoadOptions
    {
        /// <summary>Index of a device; 0: chosen by the library.</summary>
        public int Device;
        /// <summary>Deterministic, batch-invariant results: they do not depend on the number of threads, on how a
        /// prompt was split into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU
        /// the flag costs speed, mostly in prefill. Results still differ between devices, and depend on the number
        /// of layers on each device.</summary>
        public bool Deterministic;
        /// <summary>Uses the weights in place in the memory-mapped file; token generation is several times slower.
        /// The process dies if the file is truncated while it is mapped.</summary>
        public bool Mmap;
        /// <summary>Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can
        /// be created.</summary>
        public bool TextOnly;
        /// <summary>Measures the parts of each step on GPUs, which slows it down.</summary>
        public bool Profile;
        /// <summary>Also loads the multi-token prediction (MTP) head, for speculative decoding.</summary>
        public bool Mtp;
        /// <summary>Ignores unknown keys and tensors, and counts them.</summary>
        public bool AllowUnknown;
        /// <summary>Computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a
        /// processor with AMX-BF16. The first load with the flag in a process times a matrix product; the flag
        /// takes effect only if BF16 is faster than the default arithmetic with exact integer sums.</summary>
        public bool Bf16Products;
        /// <summary>Number of layers on GPUs; 0: none; null: as many as fit.</summary>
        public int? GpuLayers;
        /// <summary>Element type to which float matrices are quantized during the load.</summary>
        public ElementType Quantize;
        /// <summary>Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to
        /// first token and raises the inter-token latency.</summary>
        public int MixedPrefillTokens;
        /// <summary>Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and
        /// computed there; 0: no step; null: measured by the load.</summary>
        public int? ExpertsCopiedFrom;
        /// <summary>The runtime (threads, log, memory limit), which several models may share. May be
        /// null.</summary>
        public Runtime? Runtime;
        /// <summary>File of packed weights, made by the first load and mapped by later ones. May be
        /// null.</summary>
        public string? PackedPath;
        /// <summary>File that records the self-tests that GPUs have passed, so that later processes skip them. May
        /// be null.</summary>
        public string? TestedPath;
        /// <summary>Chat template in Jinja, in place of the model's own. May be null.</summary>
        public string? ChatTemplate;
        /// <summary>Receives the number of bytes loaded so far and in total, on the thread that loads. An
        /// exception ends the load, which rethrows it. May be null.</summary>
        public Action<ulong, ulong>? Progress;

        internal unsafe rz_model_params Numbers() => new rz_model_params {
            struct_size = (uint)sizeof(rz_model_params),
            device = Native.Whole(Device, nameof(Device)),
            gpu_layers = Native.OrNone(GpuLayers, nameof(GpuLayers)),
            quantize = Native.Choice(Quantize, nameof(Quantize)),
            mixed_prefill_tokens = Native.Whole(MixedPrefillTokens, nameof(MixedPrefillTokens)),
            experts_copied_from = Native.OrNone(ExpertsCopiedFrom, nameof(ExpertsCopiedFrom)),
            flags = (Deterministic ? Native.RZ_MODEL_DETERMINISTIC : 0u) | (Mmap ? Native.RZ_MODEL_MMAP : 0u) | (TextOnly ? Native.RZ_MODEL_TEXT_ONLY : 0u) | (Profile ? Native.RZ_MODEL_PROFILE : 0u) | (Mtp ? Native.RZ_MODEL_MTP : 0u) | (AllowUnknown ? Native.RZ_MODEL_ALLOW_UNKNOWN : 0u) | (Bf16Products ? Native.RZ_MODEL_BF16_PRODUCTS : 0u),
        };
    }

    public sealed partial class EncoderOptions
    {
        /// <summary>Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the
        /// CPU.</summary>
        public int Device;
        /// <summary>Element type to which float matrices are quantized during the load.</summary>
        public ElementType Quantize;
        /// <summary>Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most
        /// 4096.</summary>
        public int MaxRows;
        /// <summary>Receives the number of bytes loaded so far and in total, on the thread that loads. An
        /// exception ends the load, which rethrows it. May be null.</summary>
        public Action<ulong, ulong>? Progress;

        internal unsafe rz_encoder_params Numbers() => new rz_encoder_params {
            struct_size = (uint)sizeof(rz_encoder_params),
            device = Native.Whole(Device, nameof(Device)),
            quantize = Native.Choice(Quantize, nameof(Quantize)),
            max_rows = Native.Whole(MaxRows, nameof(MaxRows)),
        };
    }

    public sealed partial class MediaOptions
    {
        /// <summary>Minimum number of rows, for models that accept images of any size: smaller images are
        /// enlarged; 0: the model's.</summary>
        public int MinRows;
        /// <summary>Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the
        /// encoder's.</summary>
        public int MaxRows;
        /// <summary>Maximum number of tiles, without an overview; 0: the model's; 1: only the whole
        /// image.</summary>
        public int MaxTiles;
        /// <summary>Maximum number of pixels of an image file, checked by its header before memory is allocated;
        /// 0: 64 million.</summary>
        public int MaxPixels;
        /// <summary>Background color of transparent pixels, 0xffRRGGBB; 0: white.</summary>
        public uint Background;
        /// <summary>Receives the number of tiles encoded so far and in total. An exception ends the call, which
        /// rethrows it. May be null.</summary>
        public Action<ulong, ulong>? Progress;

        internal unsafe rz_media_params Numbers() => new rz_media_params {
            struct_size = (uint)sizeof(rz_media_params),
            min_rows = Native.Whole(MinRows, nameof(MinRows)),
            max_rows = Native.Whole(MaxRows, nameof(MaxRows)),
            max_tiles = Native.Whole(MaxTiles, nameof(MaxTiles)),
            max_pixels = Native.Whole(MaxPixels, nameof(MaxPixels)),
            background = Background,
        };
    }

    /// <summary>Limits of a store. Zero stands for the default.</summary>
    public sealed partial class StoreOptions
    {
        /// <summary>Minimum length in tokens of prefixes to keep and to look up; 0: 64.</summary>
        public int MinTokens;
        /// <summary>Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB.
        /// Memory that a prefix shares with a shorter one counts once. Prefixes that wait to be written to the
        /// folder take additional memory: up to a quarter of the limit, or one larger prefix.</summary>
        public ulong MemoryLimit;
        /// <summary>Maximum number of prefixes in memory; 0: 1,024.</summary>
        public int MaxEntries;
        /// <summary>Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0:
        /// a tenth of the free disk space (the folder's own files count as free), at most 16 GiB. The limit
        /// includes files that are being written.</summary>
        public ulong DiskLimit;
        /// <summary>Folder for files that outlive the process; it is created if it is missing. May be
        /// null.</summary>
        public string? Path;

        internal unsafe rz_store_params Numbers() => new rz_store_params {
            struct_size = (uint)sizeof(rz_store_params),
            min_tokens = Native.Whole(MinTokens, nameof(MinTokens)),
            memory_limit = MemoryLimit,
            max_entries = (UIntPtr)Native.Whole(MaxEntries, nameof(MaxEntries)),
            disk_limit = DiskLimit,
        };
    }

    public abstract partial class TextOptions
    {
        /// <summary>Maximum number of tokens to generate; 0: until the cache is full.</summary>
        public int MaxTokens;
        /// <summary>Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32.</summary>
        public int DraftMax;
        /// <summary>Number of most likely tokens to return with each token, at most 32; 0: only the log
        /// probability of the token itself; null: none.</summary>
        public int? Logprobs;
        /// <summary>Scheduling priority: higher first, may be negative; 0: normal.</summary>
        public int Priority;
    }

    public sealed partial class JobOptions
    {
        internal unsafe rz_job_params Numbers() => new rz_job_params {
            struct_size = (uint)sizeof(rz_job_params),
            max_tokens = Native.Whole(MaxTokens, nameof(MaxTokens)),
            draft_max = Native.Whole(DraftMax, nameof(DraftMax)),
            logprobs = Native.OrNone(Logprobs, nameof(Logprobs)),
            priority = Priority,
        };
    }

    public sealed partial class ReplyOptions
    {
        /// <summary>Keeps the text of an abandoned reply as a message; otherwise the text is removed.</summary>
        public bool Keep;
        /// <summary>Continues the last message, which must be a reply with the "finish_reason" "length", "context"
        /// or "cancelled".</summary>
        public bool Continue;
        /// <summary>Whether a reply begins with reasoning; Model: as the chat template decides.</summary>
        public Reasoning Reasoning;
        /// <summary>Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up
        /// to three more tokens that complete a character, the library inserts the end of reasoning, and the model
        /// continues with its answer. Ignored for a model that does not reason, and if MaxTokens leaves no tokens
        /// for an answer.</summary>
        public int ReasoningTokens;

        internal unsafe rz_reply_params Numbers() => new rz_reply_params {
            struct_size = (uint)sizeof(rz_reply_params),
            max_tokens = Native.Whole(MaxTokens, nameof(MaxTokens)),
            reasoning = Native.Choice(Reasoning, nameof(Reasoning)),
            reasoning_tokens = Native.Whole(ReasoningTokens, nameof(ReasoningTokens)),
            draft_max = Native.Whole(DraftMax, nameof(DraftMax)),
            logprobs = Native.OrNone(Logprobs, nameof(Logprobs)),
            priority = Priority,
            flags = (Keep ? Native.RZ_REPLY_KEEP : 0u) | (Continue ? Native.RZ_REPLY_CONTINUE : 0u),
        };
    }
}
