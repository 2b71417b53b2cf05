// The options of calls. The build writes this file: make header.
import CRealizar

/// Options; zero and nil mean the defaults.
public struct LoadOptions: Sendable {
    /// Index of a device; 0: chosen by the library.
    public var device = 0
    /// Deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was
    /// split into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs
    /// speed, mostly in prefill. Results still differ between devices, and depend on the number of layers on each
    /// device.
    public var deterministic = false
    /// Uses the weights in place in the memory-mapped file; token generation is several times slower. The process
    /// dies if the file is truncated while it is mapped.
    public var mmap = false
    /// Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can be created.
    public var textOnly = false
    /// Measures the parts of each step on GPUs, which slows it down.
    public var profile = false
    /// Also loads the multi-token prediction (MTP) head, for speculative decoding.
    public var mtp = false
    /// Ignores unknown keys and tensors, and counts them.
    public var allowUnknown = false
    /// Computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with
    /// AMX-BF16. The first load with the flag in a process times a matrix product; the flag takes effect only if
    /// BF16 is faster than the default arithmetic with exact integer sums.
    public var bf16Products = false
    /// Number of layers on GPUs; 0: none; nil: as many as fit.
    public var gpuLayers: Int?
    /// Element type to which float matrices are quantized during the load.
    public var quantize = ElementType.default
    /// Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to first token
    /// and raises the inter-token latency.
    public var mixedPrefillTokens = 0
    /// Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and computed there;
    /// 0: no step; nil: measured by the load.
    public var expertsCopiedFrom: Int?
    /// Shared runtime; nil: its own.
    public var runtime: Runtime?
    /// GPUs that share the layers, in this order; none: `device`.
    public var devices: [Int] = []
    /// Relative shares of `devices`; none: by free memory.
    public var shares: [Float] = []
    /// Expert offload; none: experts are where their layer is.
    public var placements: [Placement] = []
    /// Gets bytes done and in total, on the loading thread; false stops the load.
    public var progress: (@Sendable (UInt64, UInt64) -> Bool)?
    /// File of packed weights, created by the first load and mapped by later loads.
    public var packedPath: String?
    /// File that records passed GPU self-tests, so that later processes skip them.
    public var testedPath: String?
    /// Jinja chat template; nil: the model's own.
    public var chatTemplate: String?

    public init(runtime: Runtime? = nil) { self.runtime = runtime }

    /// The numbers as the library takes them.
    func numbers() throws -> rz_model_params {
        var params = sizedStruct(rz_model_params())
        params.device = try whole(device, "device")
        if deterministic { params.flags |= UInt32(RZ_MODEL_DETERMINISTIC) }
        if mmap { params.flags |= UInt32(RZ_MODEL_MMAP) }
        if textOnly { params.flags |= UInt32(RZ_MODEL_TEXT_ONLY) }
        if profile { params.flags |= UInt32(RZ_MODEL_PROFILE) }
        if mtp { params.flags |= UInt32(RZ_MODEL_MTP) }
        if allowUnknown { params.flags |= UInt32(RZ_MODEL_ALLOW_UNKNOWN) }
        if bf16Products { params.flags |= UInt32(RZ_MODEL_BF16_PRODUCTS) }
        params.gpu_layers = try orNone(gpuLayers, "gpuLayers")
        params.quantize = quantize.rawValue
        params.mixed_prefill_tokens = try whole(mixedPrefillTokens, "mixedPrefillTokens")
        params.experts_copied_from = try orNone(expertsCopiedFrom, "expertsCopiedFrom")
        return params
    }
}

/// Options; zero and nil mean the defaults.
public struct EncoderOptions: Sendable {
    /// Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the CPU.
    public var device = 0
    /// Element type to which float matrices are quantized during the load.
    public var quantize = ElementType.default
    /// Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096.
    public var maxRows = 0
    /// The encoder of a file that has several; nil: vision, else audio.
    public var kind: MediaKind?
    /// Ignores unknown keys and tensors.
    public var allowUnknown = false
    /// Gets bytes done and in total, on the loading thread; false stops the load.
    public var progress: (@Sendable (UInt64, UInt64) -> Bool)?

    public init() {}

    /// The numbers as the library takes them.
    func numbers() throws -> rz_encoder_params {
        var params = sizedStruct(rz_encoder_params())
        params.device = try whole(device, "device")
        params.quantize = quantize.rawValue
        params.max_rows = try whole(maxRows, "maxRows")
        return params
    }
}

/// Options; zero and nil mean the defaults.
public struct MediaOptions: Sendable {
    /// Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the
    /// model's.
    public var minRows = 0
    /// Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's.
    public var maxRows = 0
    /// Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image.
    public var maxTiles = 0
    /// Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million.
    public var maxPixels = 0
    /// Background color of transparent pixels, 0xffRRGGBB; 0: white.
    public var background: UInt32 = 0
    /// Gets tiles done and in total; false stops the call.
    public var progress: (@Sendable (UInt64, UInt64) -> Bool)?
    /// True: `Media.step` encodes in time slices, without `progress`.
    public var inSteps = false

    public init() {}

    /// The numbers as the library takes them.
    func numbers() throws -> rz_media_params {
        var params = sizedStruct(rz_media_params())
        params.min_rows = try whole(minRows, "minRows")
        params.max_rows = try whole(maxRows, "maxRows")
        params.max_tiles = try whole(maxTiles, "maxTiles")
        params.max_pixels = try whole(maxPixels, "maxPixels")
        params.background = background
        return params
    }
}

extension Options {
    /// The numbers as the library takes them.
    func jobNumbers() throws -> rz_job_params {
        var params = sizedStruct(rz_job_params())
        params.max_tokens = try whole(maxTokens, "maxTokens")
        params.draft_max = try whole(draftMax, "draftMax")
        params.logprobs = try orNone(logprobs, "logprobs")
        params.priority = try signed(priority, "priority")
        return params
    }
}

/// Options; zero and nil mean the defaults.
public struct StoreOptions: Sendable {
    /// Minimum length in tokens of prefixes to keep and to look up; 0: 64.
    public var minTokens = 0
    /// Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that
    /// a prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take
    /// additional memory: up to a quarter of the limit, or one larger prefix.
    public var memoryLimit: UInt64 = 0
    /// Maximum number of prefixes in memory; 0: 1,024.
    public var maxEntries = 0
    /// Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of
    /// the free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that
    /// are being written.
    public var diskLimit: UInt64 = 0
    /// A folder of files that outlive the process, created if it is missing; nil: none.
    public var path: String?

    public init(minTokens: Int = 0, path: String? = nil) {
        self.minTokens = minTokens
        self.path = path
    }

    /// The numbers as the library takes them.
    func numbers() throws -> rz_store_params {
        var params = sizedStruct(rz_store_params())
        params.min_tokens = try whole(minTokens, "minTokens")
        params.memory_limit = memoryLimit
        params.max_entries = Int(try whole(maxEntries, "maxEntries"))
        params.disk_limit = diskLimit
        return params
    }
}

/// Options of a generation or a reply; zero and nil mean the defaults.
public struct Options: Sendable {
    /// Maximum number of tokens to generate, including reasoning; 0: until the cache is full.
    public var maxTokens = 0
    /// Keeps the text of an abandoned reply as a message; otherwise the text is removed.
    public var keeps = false
    /// Continues the last message, which must be a reply with the "finish_reason" "length", "context" or
    /// "cancelled".
    public var continues = false
    /// Whether a reply begins with reasoning; `.model`: as the chat template decides.
    public var reasoning = Reasoning.model
    /// Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
    /// tokens that complete a character, the library inserts the end of reasoning, and the model continues with
    /// its answer. Ignored for a model that does not reason, and if maxTokens leaves no tokens for an answer.
    public var reasoningTokens = 0
    /// Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32.
    public var draftMax = 0
    /// Number of most likely tokens to return with each token, at most 32; 0: only the log probability of the
    /// token itself; nil: none.
    public var logprobs: Int?
    /// Scheduling priority: higher first, may be negative; 0: normal.
    public var priority = 0
    /// Nil: the recommended sampling parameters for a reply, greedy for other text.
    public var sampling: Sampling?
    /// Stop sequences: the text, or a reply's content, ends before the first one.
    public var stops: [String]
    public var grammar: Grammar?
    public var draft: Draft
    /// Tools, the choice among them and variables of one reply: "tools", "tool_choice", "parallel_tool_calls",
    /// "variables". Tools replace the conversation's ([]: none), variables are set in addition to its own. Nil:
    /// all as the conversation has it.
    public var members: JSON?

    public init(
        sampling: Sampling? = nil, maxTokens: Int = 0, stops: [String] = [], grammar: Grammar? = nil, draft: Draft = .none
    ) {
        self.sampling = sampling
        self.maxTokens = maxTokens
        self.stops = stops
        self.grammar = grammar
        self.draft = draft
    }

    /// The numbers as the library takes them.
    func numbers() throws -> rz_reply_params {
        var params = sizedStruct(rz_reply_params())
        params.max_tokens = try whole(maxTokens, "maxTokens")
        if keeps { params.flags |= UInt32(RZ_REPLY_KEEP) }
        if continues { params.flags |= UInt32(RZ_REPLY_CONTINUE) }
        params.reasoning = reasoning.rawValue
        params.reasoning_tokens = try whole(reasoningTokens, "reasoningTokens")
        params.draft_max = try whole(draftMax, "draftMax")
        params.logprobs = try orNone(logprobs, "logprobs")
        params.priority = try signed(priority, "priority")
        return params
    }
}

/// Sampling parameters. Zero turns a feature off; all zeros choose the most likely token (greedy decoding).
public struct Sampling: Sendable, Equatable {
    /// Divides the logits; 0: always the most likely token.
    public var temperature: Float = 0
    /// Keeps the k most likely tokens.
    public var topK = 0
    /// Keeps the most likely tokens that together reach this probability.
    public var topP: Float = 0
    /// Drops tokens whose probability is below this fraction of the most likely token's.
    public var minP: Float = 0
    /// Divides positive logits of recent tokens, multiplies negative ones.
    public var repeatPenalty: Float = 0
    /// Subtracted from the logit of every recent token.
    public var presencePenalty: Float = 0
    /// Subtracted from the logit of a recent token once per occurrence.
    public var frequencyPenalty: Float = 0
    /// Number of the last tokens, including tokens of the prompt, that count as recent; 0: all.
    public var penaltyWindow = 0
    /// The temperature comes before the filters, which keep their default order. Recommendations of models'
    /// authors, and sampling in transformers, use this order. Not together with order.
    public var temperatureFirst = false
    /// Seed of the random number generator; 0 is a seed like any other.
    public var seed: UInt64 = 0
    /// Added to the logits of tokens; negative infinity forbids a token.
    public var logitBias: [UInt32: Float] = [:]
    /// Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
    /// reach this probability; 1: off.
    public var typicalP: Float = 0
    /// Drops logits more than this number of standard deviations (of the remaining logits) below the largest.
    public var topNSigma: Float = 0
    /// XTC: probability of a cut. A cut drops all tokens whose probability is at least xtcThreshold, except the
    /// least likely one of them.
    public var xtcProbability: Float = 0
    /// Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no token.
    public var xtcThreshold: Float = 0
    /// Dynamic temperature: the temperature rises from temperature - temperatureRange (at least 0) to temperature
    /// + temperatureRange with the entropy of the distribution, relative to the entropy of the uniform
    /// distribution.
    public var temperatureRange: Float = 0
    /// Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1.
    public var temperatureExponent: Float = 0
    /// Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
    /// bound, which begins at twice this value and is corrected after each draw.
    public var mirostatTau: Float = 0
    /// Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1.
    public var mirostatEta: Float = 0
    /// DRY: if the last n tokens occurred before (with the largest such n, at least dryAllowedLength), the logit
    /// of the token that followed the earlier occurrence is reduced by dryMultiplier * dryBase ^ (n -
    /// dryAllowedLength). n above 4096 counts as 4096.
    public var dryMultiplier: Float = 0
    /// Base of the DRY penalty, at least 1; 0: 1.75.
    public var dryBase: Float = 0
    /// Minimum length of repetitions that DRY penalizes; 0: 2.
    public var dryAllowedLength = 0
    /// Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all.
    public var dryWindow = 0
    /// No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token
    /// that would complete such a repetition is not chosen. At most 4096.
    public var noRepeatNgramSize = 0
    /// Sequences of tokens across which DRY does not look for repetitions.
    public var dryBreakers: [[UInt32]] = []
    /// Token sequences that are never generated: the last token of a sequence is not sampled after the other
    /// tokens.
    public var bannedSequences: [[UInt32]] = []
    /// The order of the filters and the temperature; empty: the default order.
    public var order: [Filter] = []

    public init(temperature: Float = 0, topP: Float = 0, seed: UInt64 = 0) {
        self.temperature = temperature
        self.topP = topP
        self.seed = seed
    }

    /// The numbers as the library takes them.
    func numbers() throws -> rz_sampler_params {
        var params = sizedStruct(rz_sampler_params())
        params.temperature = try real(temperature, "temperature")
        params.top_k = try whole(topK, "topK")
        params.top_p = try real(topP, "topP")
        params.min_p = try real(minP, "minP")
        params.repeat_penalty = try real(repeatPenalty, "repeatPenalty")
        params.presence_penalty = try real(presencePenalty, "presencePenalty")
        params.frequency_penalty = try real(frequencyPenalty, "frequencyPenalty")
        params.penalty_window = try whole(penaltyWindow, "penaltyWindow")
        if temperatureFirst { params.flags |= UInt32(RZ_SAMPLER_TEMPERATURE_FIRST) }
        params.seed = seed
        params.typical_p = try real(typicalP, "typicalP")
        params.top_n_sigma = try real(topNSigma, "topNSigma")
        params.xtc_probability = try real(xtcProbability, "xtcProbability")
        params.xtc_threshold = try real(xtcThreshold, "xtcThreshold")
        params.temperature_range = try real(temperatureRange, "temperatureRange")
        params.temperature_exponent = try real(temperatureExponent, "temperatureExponent")
        params.mirostat_tau = try real(mirostatTau, "mirostatTau")
        params.mirostat_eta = try real(mirostatEta, "mirostatEta")
        params.dry_multiplier = try real(dryMultiplier, "dryMultiplier")
        params.dry_base = try real(dryBase, "dryBase")
        params.dry_allowed_length = try whole(dryAllowedLength, "dryAllowedLength")
        params.dry_window = try whole(dryWindow, "dryWindow")
        params.no_repeat_ngram_size = try whole(noRepeatNgramSize, "noRepeatNgramSize")
        return params
    }
}
