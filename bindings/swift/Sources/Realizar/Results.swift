// What the library fills in. The build writes this file: make header.
import CRealizar

/// A CPU or GPU.
public struct Device: Sendable, Hashable {
    /// Index of the device; it may differ between processes.
    public let index: Int
    /// Identifier, equal in every process on this machine: "cpu", or the UUID of a GPU, such as
    /// "8d4f7a0e-2c31-4b7e-9d55-0f6e1a2b3c4d", which NVIDIA's tools print after "GPU-" or "MIG-"; empty if
    /// unknown. Two GPUs of the same model have different ids.
    public let id: String
    /// Name, such as "cuda:0 NVIDIA H200".
    public let name: String
    /// Kind of the device.
    public let kind: Kind?
    /// True if models can be loaded onto the device.
    public let isAvailable: Bool
    /// Instruction set or compute capability, such as "avx512vnni" or "sm_90".
    public let isa: String
    /// Total memory in bytes; 0 if unknown.
    public let memoryTotal: UInt64
    /// Free memory in bytes; 0 if unknown.
    public let memoryFree: UInt64
    /// Reason why the device cannot be used; empty if it can.
    public let unavailable: String

    init(_ c: rz_device_info) {
        index = Int(c.index)
        id = text(c.id)
        name = text(c.name)
        kind = Kind(rawValue: c.kind)
        isAvailable = c.available != 0
        isa = text(c.isa)
        memoryTotal = c.memory_total
        memoryFree = c.memory_free
        unavailable = text(c.unavailable)
    }
}

/// The description of a model.
public struct ModelInfo: Sendable, Hashable {
    /// Family of the network, such as "llama" or "qwen3".
    public let architecture: String
    /// Name of the model; empty if the file has none.
    public let name: String
    /// Transformer layers.
    public let layers: Int
    /// Width of the residual stream, in values.
    public let hiddenDim: Int
    /// Number of token ids, which run from 0 to vocabSize - 1; also the number of logits.
    public let vocabSize: Int
    /// Context length in tokens that the model was trained for, as declared in the file.
    public let contextLength: Int
    /// Index of the device that the model was loaded to; with several GPUs the first.
    public let device: Int
    /// Token that begins a text (BOS); nil: none.
    public let bosToken: UInt32?
    /// Token that ends a text (EOS); nil: none. There may be more.
    public let eosToken: UInt32?
    /// Number of parameters.
    public let parameters: UInt64
    /// Bytes of weights in memory; 0 if no weights were loaded.
    public let weightBytes: UInt64
    /// True if the model has a usable chat template.
    public let hasChatTemplate: Bool
    /// Number of unknown keys and tensors that the load ignored.
    public let unknown: Int
    /// What the model and its conversations support.
    public let capabilities: Capabilities
    /// Number of floats in a text embedding; 0: the model computes no embeddings.
    public let embeddingDim: Int
    /// Pooling of embeddings; the zero value: the file declares none, so that the caller must choose.
    public let pooling: Pooling
    /// Number of scores of the model's classifier (reranking); 0: it has no classifier.
    public let scores: Int
    /// GPUs that have layers, in layer order.
    public internal(set) var devices: [Int] = []
    /// Number of layers on each of `devices`.
    public internal(set) var deviceLayers: [Int] = []

    init(_ c: rz_model_info) {
        architecture = text(c.architecture)
        name = text(c.name)
        layers = Int(c.n_layers)
        hiddenDim = Int(c.hidden_dim)
        vocabSize = Int(c.vocab_size)
        contextLength = Int(c.context_length)
        device = Int(c.device)
        bosToken = c.bos_token == .max ? nil : c.bos_token
        eosToken = c.eos_token == .max ? nil : c.eos_token
        parameters = c.n_params
        weightBytes = c.weight_bytes
        hasChatTemplate = c.chat_template & UInt32(RZ_TEMPLATE_PRESENT) != 0
        unknown = Int(c.n_unknown)
        capabilities = Capabilities(rawValue: c.capabilities)
        embeddingDim = Int(c.embedding_dim)
        pooling = Pooling(rawValue: c.pooling) ?? .model
        scores = Int(c.n_scores)
    }
}

/// The memory that a model and its sessions take, in bytes.
public struct Plan: Sendable, Hashable {
    /// Number of layers on GPUs.
    public let gpuLayers: Int
    /// Weights in host memory, as they are packed.
    public let weightsHost: UInt64
    /// Weights on GPUs.
    public let weightsDevice: UInt64
    /// Host memory of one KV cache at full capacity: keys, values, tokens and logits.
    public let cacheHost: UInt64
    /// GPU memory of one KV cache at full capacity.
    public let cacheDevice: UInt64
    /// Bytes that one more token of capacity adds to a cache.
    public let cacheToken: UInt64
    /// Scratch memory of one full-size step. With several threads, a model runs one such step at a time; up to
    /// eight concurrent steps of at most 16 tokens take less in addition. In a runtime with one thread, each
    /// concurrent step takes this much.
    public let scratchHost: UInt64
    /// Scratch memory on GPUs.
    public let scratchDevice: UInt64
    /// Peak host memory during the load.
    public let loadPeakHost: UInt64
    /// Total host memory: the model, its tokenizer, scratch memory and all caches.
    public let totalHost: UInt64
    /// Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates when it
    /// records repeated steps of one token (CUDA graphs).
    public let totalDevice: UInt64
    /// Part of weightsHost: experts of layers on GPUs.
    public let expertsHost: UInt64
    /// Part of weightsDevice: experts.
    public let expertsDevice: UInt64
    /// Range from the first to the last GPU layer whose experts are on the CPU.
    public internal(set) var expertLayersHost = 0..<0
    /// Memory on each GPU that has layers.
    public internal(set) var devices: [OnDevice] = []

    init(_ c: rz_model_plan) {
        gpuLayers = Int(c.gpu_layers)
        weightsHost = c.weights_host
        weightsDevice = c.weights_device
        cacheHost = c.cache_host
        cacheDevice = c.cache_device
        cacheToken = c.cache_token
        scratchHost = c.scratch_host
        scratchDevice = c.scratch_device
        loadPeakHost = c.load_peak_host
        totalHost = c.total_host
        totalDevice = c.total_device
        expertsHost = c.experts_host
        expertsDevice = c.experts_device
    }
}

/// The description of an encoder.
public struct EncoderInfo: Sendable, Hashable {
    /// True if the rows of an image attend to each other (bidirectional attention), so one step of the model must
    /// compute all of them.
    public let isMutual: Bool
    /// Kind of the projector, such as "qwen3vl_merger" or "voxtral".
    public let projector: String
    /// Number of floats per row.
    public let rowDim: Int
    /// Layers of the encoder.
    public let layers: Int
    /// Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an audio encoder.
    public let tileSide: Int
    /// The sides of tiles are multiples of this number of pixels; 0 for audio.
    public let grain: Int
    /// Minimum number of rows of an image or an audio clip.
    public let minRows: Int
    /// Maximum number of rows of an image or an audio clip.
    public let maxRows: Int
    /// Bytes of weights in memory, on the CPU or the GPU.
    public let weightBytes: UInt64
    /// Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio clip.
    public let scratchBytes: UInt64
    /// Kinds of media that the encoder accepts.
    public let kinds: [MediaKind]
    /// Sample rate in Hz to which audio is resampled; 0 for images.
    public let sampleRate: Int
    /// Index of the device that the encoder was loaded to.
    public let device: Int

    init(_ c: rz_encoder_info) {
        isMutual = c.is_mutual != 0
        projector = text(c.projector)
        rowDim = Int(c.row_dim)
        layers = Int(c.n_layers)
        tileSide = Int(c.tile_side)
        grain = Int(c.grain)
        minRows = Int(c.min_rows)
        maxRows = Int(c.max_rows)
        weightBytes = c.weight_bytes
        scratchBytes = c.scratch_bytes
        kinds = MediaKind.allCases.filter { c.kinds & $0.rawValue != 0 }
        sampleRate = Int(c.sample_rate)
        device = Int(c.device)
    }
}

/// The memory that an encoder takes in addition to its model's, in bytes.
public struct EncoderPlan: Sendable, Hashable {
    /// Number of rows of the largest image, or of the longest audio clip.
    public let maxRows: Int
    /// Weights in host memory, as they are packed.
    public let weightsHost: UInt64
    /// Maximum scratch memory of a call that encodes an image or an audio clip.
    public let scratchHost: UInt64
    /// One row of a media item.
    public let row: UInt64
    /// Weights on a GPU.
    public let weightsDevice: UInt64
    /// Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder keeps the
    /// scratch memory of one call for the next one; calls at the same time take this much each.
    public let scratchDevice: UInt64
    /// Index of the device that the load would choose.
    public let device: Int

    init(_ c: rz_encoder_plan) {
        maxRows = Int(c.max_rows)
        weightsHost = c.weights_host
        scratchHost = c.scratch_host
        row = c.row
        weightsDevice = c.weights_device
        scratchDevice = c.scratch_device
        device = Int(c.device)
    }
}

/// The description of media.
public struct MediaInfo: Sendable, Hashable {
    /// Kind of the media.
    public let kind: MediaKind
    /// Number of rows, each of which takes the place of a token in a cache.
    public let rows: Int
    /// Number of prompt tokens that the media item takes: its rows, and the model's tokens around and between the
    /// rows.
    public let tokens: Int
    /// Number of floats per row.
    public let rowDim: Int
    /// Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of video frames.
    public let columns: Int
    /// Number of lines of a tile.
    public let lines: Int
    /// Number of tiles horizontally; 0 if the image is one tile.
    public let tileColumns: Int
    /// Number of tiles vertically; 0 if the image is one tile.
    public let tileLines: Int
    /// True if an additional tile shows the whole image.
    public let hasOverview: Bool
    /// Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a media item
    /// that was created from rows.
    public let width: Int
    /// Height in pixels; 0 for audio and for a media item that was created from rows.
    public let height: Int
    /// Width in pixels of all tiles together, as the model sees them. Programs need it to convert coordinates in
    /// the model's output to pixels of the image. For audio the number of samples at the rate of the encoder.
    public let seenWidth: Int
    /// Height in pixels of all tiles together; 0 for audio.
    public let seenHeight: Int
    /// Bytes of memory.
    public let bytes: UInt64
    /// Time of the encoding in nanoseconds.
    public let encodeNanoseconds: UInt64
    /// Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may use it as a
    /// cache key.
    public let hash: [UInt8]
    /// Number of frame pairs of a video, each of which has `lines` lines of `columns` rows; 0 for other media.
    public let pairs: Int

    init(_ c: rz_media_info) {
        kind = MediaKind(rawValue: c.kind) ?? .image
        rows = Int(c.n_rows)
        tokens = Int(c.n_tokens)
        rowDim = Int(c.row_dim)
        columns = Int(c.columns)
        lines = Int(c.lines)
        tileColumns = Int(c.tile_columns)
        tileLines = Int(c.tile_lines)
        hasOverview = c.has_overview != 0
        width = Int(c.width)
        height = Int(c.height)
        seenWidth = Int(c.seen_width)
        seenHeight = Int(c.seen_height)
        bytes = c.bytes
        encodeNanoseconds = c.encode_ns
        hash = numbers(c.hash, UInt8.self)
        pairs = Int(c.pairs)
    }
}

/// The state of a store.
public struct StoreInfo: Sendable, Hashable {
    /// Number of prefixes in memory.
    public let entries: Int
    /// Number of prefixes in files of the model.
    public let files: Int
    /// Number of prefixes dropped because they could not be written (on a full disk, for example), since the store
    /// was created. The log has the reason.
    public let unwritten: Int
    /// Bytes in memory.
    public let memoryBytes: UInt64
    /// Bytes in files.
    public let diskBytes: UInt64
    /// Number of lookups that found a prefix, since the store was created.
    public let hits: UInt64
    /// Number of lookups that found no prefix.
    public let misses: UInt64
    /// Number of tokens that needed no prefill because of hits.
    public let reusedTokens: UInt64

    init(_ c: rz_store_info) {
        entries = Int(c.n_entries)
        files = Int(c.n_files)
        unwritten = Int(c.n_unwritten)
        memoryBytes = c.memory_bytes
        diskBytes = c.disk_bytes
        hits = c.hits
        misses = c.misses
        reusedTokens = c.reused_tokens
    }
}

/// The state of a conversation and of its last reply.
public struct ConversationInfo: Sendable, Hashable {
    /// Number of messages.
    public let messages: Int
    /// Index of the first message in prompts; 0 unless turns were left out.
    public let firstInPrompt: Int
    /// State of the reply.
    public let state: State
    /// Why the text has ended, once it has.
    public let end: Job.End?
    /// Cancelled or deadline, if one of them stopped the reply.
    public let stopped: RealizarError.Code?
    /// Number of tokens of the reply's prompt.
    public let promptTokens: Int
    /// Number of prompt tokens that the cache already held (cached tokens).
    public let reusedTokens: Int
    /// Number of prompt tokens that had to be computed and are in the cache by now.
    public let promptDone: Int
    /// Number of generated tokens, including a token that ends the reply.
    public let tokens: Int
    /// Number of reasoning tokens among the generated tokens.
    public let reasoningTokens: Int
    /// Number of draft tokens verified.
    public let drafted: Int
    /// Number of draft tokens accepted.
    public let accepted: Int
    /// Number of tokens in the cache.
    public let cacheCount: Int
    /// Capacity of the cache in tokens.
    public let cacheCapacity: Int
    /// Number of media in the messages.
    public let media: Int
    /// Total time in nanoseconds of the reply's prefill steps.
    public let promptTime: UInt64
    /// Total time in nanoseconds of the reply's decode steps.
    public let tokensTime: UInt64
    /// Time to first token (TTFT) in nanoseconds; 0 before the first token.
    public let firstToken: UInt64

    init(_ c: rz_conversation_info) {
        messages = Int(c.n_messages)
        firstInPrompt = Int(c.first_in_prompt)
        state = State(rawValue: c.state) ?? .none
        end = Job.End(rawValue: c.end_reason)
        stopped = RealizarError.Code(stopped: c.stopped)
        promptTokens = Int(c.prompt_tokens)
        reusedTokens = Int(c.reused_tokens)
        promptDone = Int(c.prompt_done)
        tokens = Int(c.n_tokens)
        reasoningTokens = Int(c.reasoning_tokens)
        drafted = Int(c.drafted)
        accepted = Int(c.accepted)
        cacheCount = Int(c.cache_len)
        cacheCapacity = Int(c.cache_capacity)
        media = Int(c.n_media)
        promptTime = c.prompt_ns
        tokensTime = c.tokens_ns
        firstToken = c.first_token_ns
    }
}

/// The number and the total time of the calls of one kind.
public struct Phase: Sendable, Hashable {
    /// Number of calls.
    public let count: UInt64
    /// Total time in nanoseconds.
    public let nanoseconds: UInt64

    init(_ c: rz_phase_metrics) {
        count = c.count
        nanoseconds = c.sum_ns
    }
}

/// A model's work by phases, since it was loaded or its metrics were reset.
public struct Metrics: Sendable, Hashable {
    /// Load.
    public let load: Phase
    /// Tokenization.
    public let tokenize: Phase
    /// Prefill.
    public let prefill: Phase
    /// Decode: one token at a time, including sampling of the next one.
    public let decode: Phase
    /// Sampling.
    public let sample: Phase
    /// Detokenization.
    public let detokenize: Phase
    /// Matrix products of layers on the GPU, with adjacent norms and sums; all phases of GPUs are counted only if
    /// the load asked for a profile.
    public let gpuProducts: Phase
    /// Rotary positions, KV cache and attention.
    public let gpuAttention: Phase
    /// Routing, and experts.
    public let gpuExperts: Phase
    /// Logits and the most likely token.
    public let gpuHead: Phase
    /// Embeddings, and separate norms, sums and gates.
    public let gpuOther: Phase
    /// Encoding of images, from their pixels to the rows of a media item.
    public let encode: Phase

    init(_ c: rz_metrics) {
        load = Phase(c.load)
        tokenize = Phase(c.tokenize)
        prefill = Phase(c.prefill)
        decode = Phase(c.decode)
        sample = Phase(c.sample)
        detokenize = Phase(c.detokenize)
        gpuProducts = Phase(c.gpu_products)
        gpuAttention = Phase(c.gpu_attention)
        gpuExperts = Phase(c.gpu_experts)
        gpuHead = Phase(c.gpu_head)
        gpuOther = Phase(c.gpu_other)
        encode = Phase(c.encode)
    }
}

/// The work of one kind of device, in dispatches: passes of tokens through its layers.
public struct Work: Sendable, Hashable {
    /// Number of dispatches; if 0, all values below are 0.
    public let dispatches: UInt64
    /// Bytes read and written by dispatches.
    public let bytes: UInt64
    /// Total latency in nanoseconds.
    public let latencySum: UInt64
    /// Minimum latency in nanoseconds.
    public let latencyMin: UInt64
    /// Maximum latency in nanoseconds.
    public let latencyMax: UInt64
    /// Mean latency in nanoseconds.
    public let latencyMean: Double
    /// Variance of the latency in square nanoseconds.
    public let latencyVariance: Double
    /// Entry 0 counts latencies under 1 microsecond, entry i counts latencies from 2^(i-1) to below 2^i
    /// microseconds, and the last entry counts all longer latencies.
    public let latencyHistogram: [UInt64]

    init(_ c: rz_backend_metrics) {
        dispatches = c.dispatches
        bytes = c.bytes
        latencySum = c.latency_sum_ns
        latencyMin = c.latency_min_ns
        latencyMax = c.latency_max_ns
        latencyMean = c.latency_mean_ns
        latencyVariance = c.latency_variance_ns2
        latencyHistogram = numbers(c.latency_histogram, UInt64.self)
    }
}
