import CRealizar
import Dispatch

/// Worker threads and a ceiling on memory, shared by models.
public final class Runtime: Sendable {
    let handle: Handle

    /// `threads`, 0: one a processor core. `memoryLimit`: bytes of weights and caches; 0: none.
    public init(threads: Int = 0, memoryLimit: UInt64 = 0) throws {
        var params = sizedStruct(rz_runtime_params(), \.struct_size)
        params.threads = UInt32(clamping: threads)
        params.memory_limit = memoryLimit
        handle = try Handle(free: { rz_runtime_free($0) }) { rz_runtime_new(&params, $0, $1) }
    }

    /// Changes the number of threads, from the next step on.
    public func setThreads(_ threads: Int) throws {
        try handle.use { runtime in try call { rz_runtime_threads_set(runtime, UInt32(clamping: threads), $0) } }
    }
}

/// Stops the calls that it was given to, from any thread.
public final class Cancel: Sendable {
    let handle: Handle

    public init() throws { handle = try Handle(free: { rz_cancel_free($0) }) { rz_cancel_new($0, $1) } }

    /// Asks the calls to stop, which they do within milliseconds; later ones do at once.
    public func fire() { handle.use { rz_cancel_fire($0) } }
    /// Makes it fit for use again.
    public func reset() { handle.use { rz_cancel_reset($0) } }
}

/// One message of a conversation.
public struct Message: Sendable, Hashable {
    /// "system", "user" or "assistant".
    public var role: String
    public var content: String

    public init(_ role: String, _ content: String) {
        self.role = role
        self.content = content
    }
}

/// Choices for a load.
public struct LoadOptions: Sendable {
    /// Threads and limits to share; nil: its own.
    public var runtime: Runtime?
    /// Index of a device; 0: the best one.
    public var device: UInt32 = 0
    /// GPUs over which the layers are divided in this order; none: `device` alone counts.
    public var devices: [UInt32] = []
    /// Sizes of the parts of `devices` in relation to one another; none: in proportion to free memory.
    public var shares: [Float] = []
    /// Layers on a GPU; 0: as many as fit.
    public var gpuLayers = 0
    /// On a GPU too, the same bits however a prompt was cut into pieces.
    public var deterministic = false
    /// Use the file in place, which is several times slower.
    public var mmap = false
    /// Tokenizer and template only.
    public var textOnly = false
    /// File of packed weights, made by the first load and mapped by later ones.
    public var packedPath: String?

    public init(runtime: Runtime? = nil) { self.runtime = runtime }
}

/// The description of a model.
public struct ModelInfo: Sendable {
    public let architecture, name: String
    public let layers, hiddenDim, vocabSize, contextLength: Int
    public let parameters, weightBytes: UInt64
    public let bosToken, eosToken: UInt32?
    public let hasChatTemplate: Bool
    /// The device of the model; of several GPUs the first.
    public let device: UInt32
    /// GPUs that have layers, in the order of these.
    public let devices: [UInt32]
    /// Layers on each of `devices`.
    public let deviceLayers: [Int]
}

/// The way from the vectors of a text's tokens to one vector.
public enum Pooling: UInt32, Sendable { case model = 0, mean = 2, cls, last, rank }

/// A loaded model: a .gguf file, a .safetensors file, or a folder with a config.json. Any number of threads may use it at once.
public final class Model: Sendable {
    let handle: Handle
    public let info: ModelInfo

    /// Takes as long as reading the file does: `load` does so without blocking.
    public init(_ path: String, options: LoadOptions = LoadOptions(), cancel: Cancel? = nil) throws {
        var params = sizedStruct(rz_model_params(), \.struct_size)
        params.device = options.device
        params.gpu_layers = UInt32(clamping: options.gpuLayers)
        for (flag, set) in [
            (RZ_MODEL_DETERMINISTIC, options.deterministic), (RZ_MODEL_MMAP, options.mmap), (RZ_MODEL_TEXT_ONLY, options.textOnly),
        ] where set {
            params.flags |= UInt32(flag)
        }
        // The library looks for a share of each.
        if !options.shares.isEmpty && options.shares.count != options.devices.count {
            throw RealizarError(.invalidArgument, "\(options.shares.count) shares for \(options.devices.count) devices")
        }
        let name = try terminated(path, "the path")
        let packed = try options.packedPath.map { try terminated($0, "packedPath") }
        let handle = try use(options.runtime?.handle) { runtime in
            try use(cancel?.handle) { cancel in
                try (packed ?? []).withUnsafeBufferPointer { packed in
                    try options.devices.withUnsafeBufferPointer { devices in
                        try options.shares.withUnsafeBufferPointer { shares in
                            params.runtime = runtime
                            params.cancel = cancel
                            params.packed_path = packed.isEmpty ? nil : packed.baseAddress
                            params.devices = devices.isEmpty ? nil : devices.baseAddress
                            params.n_devices = devices.count
                            params.shares = shares.isEmpty ? nil : shares.baseAddress
                            return try Handle(free: { rz_model_free($0) }) { rz_model_load(name, &params, $0, $1) }
                        }
                    }
                }
            }
        }
        self.handle = handle
        var c = sizedStruct(rz_model_info(), \.struct_size)
        try handle.use { model in try call { rz_model_info_get(model, &c, $0) } }
        let token = { (id: UInt32) in id == UInt32.max ? nil : id }
        let devices = numbers(c.devices).prefix { $0 != 0 }
        info = ModelInfo(
            architecture: text(c.architecture), name: text(c.name), layers: Int(c.n_layers), hiddenDim: Int(c.hidden_dim),
            vocabSize: Int(c.vocab_size), contextLength: Int(c.context_length), parameters: c.n_params, weightBytes: c.weight_bytes,
            bosToken: token(c.bos_token), eosToken: token(c.eos_token),
            hasChatTemplate: c.chat_template & UInt32(RZ_TEMPLATE_PRESENT) != 0, device: c.device, devices: Array(devices),
            deviceLayers: numbers(c.device_layers).prefix(devices.count).map { Int($0) })
    }

    /// Loads a model on another thread. It stops when the task is cancelled.
    public static func load(_ path: String, options: LoadOptions = LoadOptions()) async throws -> Model {
        let cancel = try Cancel()
        return try await detached(cancel) { try Model(path, options: options, cancel: cancel) }
    }

    /// A value of the file's metadata as text.
    public func metadata(_ key: String) throws -> String {
        let key = try terminated(key, "the key")
        return try handle.use { model in try sizedText { rz_model_meta_into(model, key, $0, $1, $2, $3) } }
    }

    /// The tokens of a text. `special`: with those that begin and end a text, as the model asks. `parse`: names of control tokens
    /// become these tokens; not for text that users typed.
    public func tokenize(_ text: String, special: Bool = true, parse: Bool = false) throws -> [UInt32] {
        let flags = (special ? UInt32(RZ_TOKENIZE_ADD_SPECIAL) : 0) | (parse ? UInt32(RZ_TOKENIZE_PARSE_SPECIAL) : 0)
        return try handle.use { model in
            try withText(text) { text, length in
                try sized(length + 2) { rz_tokenize_into(model, text, length, flags, $0, $1, $2, $3) }
            }
        }
    }

    /// The text of tokens, with control tokens where `special`.
    public func detokenize(_ tokens: [UInt32], special: Bool = false) throws -> String {
        try handle.use { model in
            try sizedText(8 * tokens.count) {
                rz_detokenize_into(model, tokens, tokens.count, special ? UInt32(RZ_DETOKENIZE_SPECIAL) : 0, $0, $1, $2, $3)
            }
        }
    }

    /// True for a token that ends a turn or a text.
    public func isEnd(_ token: UInt32) -> Bool { handle.use { rz_token_is_end($0, token) != 0 } }

    /// A conversation as tokens, up to where the answer begins; no text in it becomes a control token.
    public func tokenize(_ messages: [Message]) throws -> [UInt32] { try tokenize(conversation: conversation(messages)) }

    /// The tokens of a conversation in JSON, as servers take it, with tools and variables.
    public func tokenize(conversation json: String) throws -> [UInt32] {
        try handle.use { model in
            try withText(json) { json, length in
                try sized(length) {
                    rz_chat_tokenize_into(model, json, length, UInt32(RZ_CHAT_ADD_GENERATION_PROMPT), $0, $1, $2, $3)
                }
            }
        }
    }

    /// Vectors of texts, of length 1 where `normalize`; with `.rank` the scores of a reranker.
    public func embed(_ texts: [String], pooling: Pooling = .model, normalize: Bool = true, cancel: Cancel? = nil) throws -> [[Float]] {
        let tokens = try texts.map { try tokenize($0) }
        if tokens.isEmpty { return [] }
        let lengths = tokens.map(\.count)
        var params = sizedStruct(rz_embed_params(), \.struct_size)
        params.pooling = pooling.rawValue
        params.flags = normalize ? 0 : UInt32(RZ_EMBED_RAW)
        let values: [Float] = try tokens.flatMap { $0 }.withUnsafeBufferPointer { all in
            var lists: [UnsafePointer<UInt32>?] = []
            var at = 0
            for length in lengths {
                lists.append(all.baseAddress.map { $0 + at })
                at += length
            }
            return try handle.use { model in
                try use(cancel?.handle) { cancel in
                    try sized(0) { rz_embed_into(model, &params, lists, lengths, lengths.count, $0, $1, $2, cancel, $3) }
                }
            }
        }
        let width = values.count / tokens.count
        return tokens.indices.map { Array(values[$0 * width..<($0 + 1) * width]) }
    }

    /// A grammar for what is written.
    public func grammar(_ kind: Grammar.Kind, _ text: String = "") throws -> Grammar {
        try Grammar(Handle(free: { rz_grammar_free($0) }) { out, error in
            handle.use { model in withText(text) { rz_grammar_new(model, kind.rawValue, $0, $1, out, error) } }
        })
    }

    /// A low-rank adapter: a GGUF file or a folder of PEFT.
    public func adapter(_ path: String) throws -> Adapter {
        let path = try terminated(path, "the path")
        return try Adapter(Handle(free: { rz_adapter_free($0) }) { out, error in
            handle.use { model in rz_adapter_load(model, path, out, error) }
        })
    }

    /// An empty session with room for so many tokens; 0: as many as the model was made for, at most 8192.
    public func session(capacity: Int = 0) throws -> Session {
        var params = sizedStruct(rz_cache_params(), \.struct_size)
        params.capacity = UInt32(clamping: capacity)
        return try Session(self, Handle(free: { rz_cache_free($0) }) { out, error in
            handle.use { model in rz_cache_new(model, &params, out, error) }
        })
    }
}

/// A grammar for text that is written. Immutable, for any number of jobs.
public final class Grammar: Sendable {
    /// The language of a grammar. `choices`: a JSON array of strings; `tools`: the JSON of a conversation.
    public enum Kind: UInt32, Sendable { case jsonSchema = 1, regex, lark, gbnf, json, choices, tools }

    let handle: Handle
    init(_ handle: Handle) { self.handle = handle }
}

/// A low-rank adapter of a model. Immutable, for any number of sessions.
public final class Adapter: Sendable {
    let handle: Handle
    init(_ handle: Handle) { self.handle = handle }
}

/// A conversation as JSON.
func conversation(_ messages: [Message]) -> String {
    func quoted(_ text: String) -> String {
        var out = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { out += "\\" }
            if scalar.value >= 0x20 {
                out.unicodeScalars.append(scalar)
            } else {
                let hex = String(scalar.value, radix: 16)
                out += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            }
        }
        return out + "\""
    }
    let all = messages.map { "{\"role\": \(quoted($0.role)), \"content\": \(quoted($0.content))}" }
    return "{\"messages\": [\(all.joined(separator: ", "))]}"
}

/// Works on a thread that may wait, and has the task's cancel stop it.
func detached<R: Sendable>(_ cancel: Cancel, _ work: @escaping @Sendable () throws -> R) async throws -> R {
    try Task.checkCancellation()
    do {
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let once = Once(work)
                DispatchQueue.global().async { continuation.resume(with: once.run()) }
            }
        } onCancel: {
            cancel.fire()
        }
    } catch let error as RealizarError where error.code == .cancelled && Task.isCancelled {
        throw CancellationError()
    }
}

/// Work that is let go of when it is done, so that what it uses is not kept by the thread that did it.
private final class Once<R>: @unchecked Sendable {
    private var work: (() throws -> R)?
    init(_ work: @escaping () throws -> R) { self.work = work }

    func run() -> Result<R, any Error> {
        defer { work = nil }
        return Result(catching: work!)
    }
}
