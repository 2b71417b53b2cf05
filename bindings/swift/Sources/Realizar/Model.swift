import CRealizar
import Dispatch

/// The level of a log message.
public enum LogLevel: Int32, Sendable { case error = 1, warning, info }

/// Where experts are. `auto`: as many as fit on GPUs, starting with the last layer. `gpu`: on GPUs, starting with the
/// last layer, up to `bytes` in total.
public enum Place: UInt32, Sendable { case auto = 0, cpu, gpu }

/// Places the MoE experts of layers that are on GPUs (expert offload).
public struct Placement: Sendable {
    public var place: Place
    /// With `.cpu`: first layer concerned.
    public var firstLayer: Int
    /// With `.cpu`: number of layers with experts; 0: all.
    public var layers: Int
    /// With `.gpu`: bytes of experts on all GPUs together.
    public var bytes: UInt64

    public init(_ place: Place = .auto, firstLayer: Int = 0, layers: Int = 0, bytes: UInt64 = 0) {
        (self.place, self.firstLayer, self.layers, self.bytes) = (place, firstLayer, layers, bytes)
    }
}

/// A reference to a value, to pass to C.
final class Box<Value> {
    let value: Value
    init(_ value: Value) { self.value = value }
}

/// Worker threads, a log and a memory limit that models may share.
public final class Runtime: Sendable {
    let handle: Handle

    /// `threads`: number of compute threads, including the calling thread; 0: one per processor, or one per fast core
    /// if cores differ. `memoryLimit`: bytes of weights and caches; 0: none.
    /// `processors`: CPUs that threads are pinned to; none: not pinned. `log` is called on any thread.
    public init(
        threads: Int = 0, memoryLimit: UInt64 = 0, processors: [Int] = [], log: (@Sendable (LogLevel, String) -> Void)? = nil
    ) throws {
        var params = sizedStruct(rz_runtime_params())
        params.threads = try whole(threads, "threads")
        params.memory_limit = memoryLimit
        if let log {
            // Never freed, because models may log until the process ends.
            params.log_user = Unmanaged.passRetained(Box(log)).toOpaque()
            params.log = { level, message, length, user in
                guard let user, let level = LogLevel(rawValue: level) else { return }
                let log = Unmanaged<Box<@Sendable (LogLevel, String) -> Void>>.fromOpaque(user).takeUnretainedValue()
                log.value(level, String(decoding: UnsafeRawBufferPointer(start: message, count: length), as: UTF8.self))
            }
        }
        handle = try wholes(processors, "processors").withUnsafeBufferPointer { processors in
            params.cpus = processors.isEmpty ? nil : processors.baseAddress
            params.n_cpus = processors.count
            return try Handle(free: { rz_runtime_free($0) }) { rz_runtime_new(&params, $0, $1) }
        }
    }

    /// Sets the number of compute threads, from the next step on; 0: as for a new runtime.
    public func setThreads(_ threads: Int) throws {
        let threads = try whole(threads, "threads")
        try handle.call { rz_runtime_threads_set($0, threads, $1) }
    }
}

/// Stops the calls that use it, from any thread.
public final class Cancel: Sendable {
    let handle: Handle

    public init() throws { handle = try Handle(free: { rz_cancel_free($0) }) { rz_cancel_new($0, $1) } }

    /// Stops the calls within milliseconds, and later calls at once.
    public func fire() { handle.use { rz_cancel_fire($0) } }
    /// Sets a deadline, at once if it is not positive; calls then end with the code `.deadline`. Nil removes it.
    public func deadline(microseconds: Int64?) throws {
        try handle.call { rz_cancel_deadline($0, limit(microseconds), $1) }
    }
    /// Resets it for reuse, without a deadline.
    public func reset() { handle.use { rz_cancel_reset($0) } }
}

/// Features of a model.
public struct Capabilities: OptionSet, Sendable, Hashable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// It generates tokens; embedding models do not.
    public static let generate = Capabilities(rawValue: UInt32(RZ_CAN_GENERATE))
    /// The chat template supports system messages; otherwise their text is merged into user messages.
    public static let system = Capabilities(rawValue: UInt32(RZ_CAN_SYSTEM))
    /// Tool calling (function calling).
    public static let tools = Capabilities(rawValue: UInt32(RZ_CAN_TOOLS))
    /// Replies may begin with reasoning.
    public static let reason = Capabilities(rawValue: UInt32(RZ_CAN_REASON))
    /// `Reasoning.on` and `Reasoning.off` have an effect.
    public static let switchReasoning = Capabilities(rawValue: UInt32(RZ_CAN_SWITCH_REASONING))
    /// The chat template supports images, which need an encoder.
    public static let images = Capabilities(rawValue: UInt32(RZ_CAN_IMAGES))
    /// The same for audio.
    public static let audio = Capabilities(rawValue: UInt32(RZ_CAN_AUDIO))
    /// The same for video.
    public static let video = Capabilities(rawValue: UInt32(RZ_CAN_VIDEO))
}

/// How the vectors of a text's tokens become one embedding.
/// `none`: a vector for each token of all texts; `rank`: the scores of a reranker.
public enum Pooling: UInt32, Sendable { case model = 0, none, mean, cls, last, rank }

/// A loaded model: a .gguf file, a .safetensors file, or a folder with a config.json. Any number of threads may use it
/// at once.
public final class Model: Sendable {
    let handle: Handle
    public let info: ModelInfo

    /// Blocks until the file is read; `load` does not block.
    public convenience init(_ path: String, options: LoadOptions = LoadOptions(), cancel: Cancel? = nil) throws {
        let name = try terminated(path, "path")
        try self.init(
            Model.with(options, cancel) { params in
                try Handle(free: { rz_model_free($0) }) { rz_model_load(name, params, $0, $1) }
            })
    }

    /// Loads files that are bytes in memory, each under its name. The bytes are not needed afterwards.
    public convenience init(files: [String: [UInt8]], options: LoadOptions = LoadOptions(), cancel: Cancel? = nil) throws {
        try self.init(
            Model.with(options, cancel) { params in
                try Model.withSources(Array(files)[...]) { sources in
                    try Handle(free: { rz_model_free($0) }) { rz_model_load_from(sources, sources.count, params, $0, $1) }
                }
            })
    }

    /// Returns the memory that a load and `sessions` sessions will take, before a weight is read.
    public static func plan(
        _ path: String, options: LoadOptions = LoadOptions(), sessions: Int = 1, capacity: Int = 0, keys: CacheType = .f16,
        values: CacheType = .f16
    ) throws -> Plan {
        let name = try terminated(path, "path")
        let sessions = try whole(sessions, "sessions")
        return try plan(options, capacity, keys, values) { params, cache, out, error in
            rz_model_plan_get(name, nil, 0, params, cache, sessions, out.plan, out.devices, Int(RZ_DEVICES_MAX.rawValue), out.count, error)
        }
    }

    /// The same for a model whose files are bytes in memory.
    public static func plan(
        files: [String: [UInt8]], options: LoadOptions = LoadOptions(), sessions: Int = 1, capacity: Int = 0, keys: CacheType = .f16,
        values: CacheType = .f16
    ) throws -> Plan {
        let sessions = try whole(sessions, "sessions")
        return try withSources(Array(files)[...]) { sources in
            try plan(options, capacity, keys, values) { params, cache, out, error in
                rz_model_plan_get(nil, sources, sources.count, params, cache, sessions, out.plan, out.devices, Int(RZ_DEVICES_MAX.rawValue), out.count, error)
            }
        }
    }

    private static func plan(
        _ options: LoadOptions, _ capacity: Int, _ keys: CacheType, _ values: CacheType,
        _ body: (
            UnsafeMutablePointer<rz_model_params>, UnsafeMutablePointer<rz_cache_params>,
            (plan: UnsafeMutablePointer<rz_model_plan>, devices: UnsafeMutablePointer<rz_model_plan_device>, count: UnsafeMutablePointer<Int>),
            UnsafeMutablePointer<rz_error>
        ) -> rz_status
    ) throws -> Plan {
        var cache = try cacheParams(capacity, keys, values)
        var out = sizedStruct(rz_model_plan())
        var parts = Array(repeating: sizedStruct(rz_model_plan_device()), count: Int(RZ_DEVICES_MAX.rawValue))
        var count = 0
        if let problem = Library.problem { throw problem }
        _ = try with(options, nil) { params in
            try parts.withUnsafeMutableBufferPointer { parts in
                try withUnsafeMutablePointer(to: &out) { out in
                    try withUnsafeMutablePointer(to: &count) { count in
                        guard let devices = parts.baseAddress else { return }
                        try call { body(params, &cache, (out, devices, count), $0) }
                    }
                }
            }
        }
        return Plan(out, parts[..<count])
    }

    static func cacheParams(_ capacity: Int, _ keys: CacheType, _ values: CacheType) throws -> rz_cache_params {
        var params = sizedStruct(rz_cache_params())
        params.capacity = try whole(capacity, "capacity")
        params.k_type = keys.rawValue
        params.v_type = values.rawValue
        return params
    }

    /// The files as the library takes them.
    static func withSources<R>(
        _ files: ArraySlice<(key: String, value: [UInt8])>, _ sources: [rz_source] = [], _ body: ([rz_source]) throws -> R
    ) throws -> R {
        guard let file = files.first else { return try body(sources) }
        return try terminated(file.key, "files").withUnsafeBufferPointer { name in
            try file.value.withUnsafeBytes { data in
                var source = sizedStruct(rz_source())
                source.kind = UInt32(RZ_SOURCE_MEMORY)
                source.name = name.baseAddress
                source.data = data.baseAddress
                source.size = UInt64(data.count)
                return try withSources(files.dropFirst(), sources + [source], body)
            }
        }
    }

    /// Calls a function with the load parameters.
    private static func with<R>(_ options: LoadOptions, _ cancel: Cancel?, _ body: (UnsafeMutablePointer<rz_model_params>) throws -> R) throws -> R {
        var params = try options.numbers()
        let numbers = try wholes(options.devices, "devices")
        for (i, share) in options.shares.enumerated() { _ = try real(share, "shares[\(i)]") }
        // The library reads a share per device.
        if !options.shares.isEmpty && options.shares.count != options.devices.count {
            throw RealizarError(.invalidArgument, "shares has \(options.shares.count) elements; it must have one for each of the \(options.devices.count) devices")
        }
        let placements = try options.placements.map { part in
            var c = sizedStruct(rz_placement())
            c.what = UInt32(RZ_PLACED_EXPERTS)
            c.place = part.place.rawValue
            c.first_layer = try whole(part.firstLayer, "firstLayer")
            c.n_layers = try whole(part.layers, "layers")
            c.bytes = part.bytes
            return c
        }
        return try withPins { pins in
            params.runtime = pins.of(options.runtime?.handle)
            params.cancel = pins.of(cancel?.handle)
            params.packed_path = try pins.of(options.packedPath, "packedPath")
            params.tested_path = try pins.of(options.testedPath, "testedPath")
            (params.chat_template, params.chat_template_len) = pins.sized(options.chatTemplate)
            (params.placements, params.n_placements) = (pins.of(placements), placements.count)
            (params.devices, params.n_devices) = (pins.of(numbers), numbers.count)
            params.device_split = pins.of(options.shares)
            return try withProgress(options.progress) { callback, user in
                (params.progress, params.progress_user) = (callback, user)
                return try body(&params)
            }
        }
    }

    private init(_ handle: Handle) throws {
        self.handle = handle
        let c = try handle.filled(rz_model_info()) { rz_model_info_get($0, $1, $2) }
        let devices = try (0..<c.n_devices).map { i in
            try handle.filled(rz_model_device()) { rz_model_device_get($0, i, $1, $2) }
        }
        var info = ModelInfo(c)
        info.devices = devices.map { Int($0.device) }
        info.deviceLayers = devices.map { Int($0.n_layers) }
        self.info = info
    }

    /// Loads a model on another thread; cancelling the task stops the load.
    public static func load(_ path: String, options: LoadOptions = LoadOptions()) async throws -> Model {
        let cancel = try Cancel()
        return try await detached(cancel) { try Model(path, options: options, cancel: cancel) }
    }

    /// Returns a metadata value of the file as text.
    public func metadata(_ key: String) throws -> String {
        let key = try terminated(key, "key")
        return try handle.use { model in try sizedText { rz_model_meta_into(model, key, $0, $1, $2, $3) } }
    }

    /// The keys of the metadata, in alphabetical order.
    public func metadataKeys() throws -> [String] {
        try listed { i in try handle.use { model in try sizedText { rz_model_meta_key_into(model, i, $0, $1, $2, $3) } } }
    }

    /// Returns the elements of a metadata array as texts.
    public func metadataList(_ key: String) throws -> [String] {
        _ = try metadata(key) // a missing key must be an error, not an empty list
        let key = try terminated(key, "key")
        return try listed { i in
            try handle.use { model in try sizedText { rz_model_meta_element_into(model, key, i, $0, $1, $2, $3) } }
        }
    }

    /// Returns the entries up to the first missing one.
    private func listed(_ entry: (Int) throws -> String) throws -> [String] {
        var all: [String] = []
        do {
            while true { all.append(try entry(all.count)) }
        } catch let error as RealizarError where error.code == .notFound {
            return all
        }
    }

    /// Returns the recommended sampling parameters, or nil. Only replies without `sampling` use them by default.
    public func advisedSampling() throws -> Sampling? {
        var c = sizedStruct(rz_model_sampling())
        try handle.call { rz_model_sampling_get($0, &c, $1) }
        if c.advised == 0 { return nil }
        var sampling = Sampling(temperature: c.temperature, topP: c.top_p)
        sampling.topK = Int(c.top_k)
        sampling.minP = c.min_p
        sampling.repeatPenalty = c.repeat_penalty
        sampling.penaltyWindow = Int(c.penalty_window)
        sampling.temperatureFirst = true // recommended for transformers, with its order
        return sampling
    }

    /// Returns the bytes of a token, which may be a part of a character.
    public func bytes(of token: UInt32) throws -> [UInt8] {
        try handle.use { model in try sized(64) { rz_token_bytes_into(model, token, $0, $1, $2, nil, $3) } }
    }

    /// Renders a conversation in JSON with the model's chat template.
    public func render(conversation json: String, addGenerationPrompt: Bool = true) throws -> String {
        let flags = addGenerationPrompt ? UInt32(RZ_CHAT_ADD_GENERATION_PROMPT) : 0
        return try handle.use { model in
            try withText(json) { json, length in
                try sizedText(4096) { rz_chat_render_into(model, json, length, flags, $0, $1, $2, nil, $3) }
            }
        }
    }

    /// Returns the tokens of a text. `special`: adds BOS and EOS as the model defines. `parse`: names of special tokens
    /// become these tokens; do not use it for text of users.
    public func tokenize(_ text: String, special: Bool = true, parse: Bool = false) throws -> [UInt32] {
        let flags = (special ? UInt32(RZ_TOKENIZE_ADD_SPECIAL) : 0) | (parse ? UInt32(RZ_TOKENIZE_PARSE_SPECIAL) : 0)
        return try handle.use { model in
            try withText(text) { text, length in
                try sized(length + 2) { rz_tokenize_into(model, text, length, flags, $0, $1, $2, nil, $3) }
            }
        }
    }

    /// Returns the text of tokens; `special`: with special tokens.
    public func detokenize(_ tokens: [UInt32], special: Bool = false) throws -> String {
        try handle.use { model in
            try sizedText(8 * tokens.count) {
                rz_detokenize_into(model, tokens, tokens.count, special ? UInt32(RZ_DETOKENIZE_SPECIAL) : 0, $0, $1, $2, $3)
            }
        }
    }

    /// True for a token that ends a turn or a text (EOS, EOT).
    public func isEnd(_ token: UInt32) -> Bool { handle.use { rz_token_is_end($0, token) != 0 } }

    /// Returns the tokens of a conversation in JSON, in OpenAI's format, with tools and variables, up to the beginning
    /// of the reply. Its text never becomes a special token.
    public func tokenize(conversation json: String) throws -> [UInt32] {
        try handle.use { model in
            try withText(json) { json, length in
                try sized(length) {
                    rz_chat_tokenize_into(model, json, length, UInt32(RZ_CHAT_ADD_GENERATION_PROMPT), $0, $1, $2, nil, $3)
                }
            }
        }
    }

    /// Returns embeddings of texts, of length 1 if `normalize`; with `.rank` the scores of a reranker.
    public func embed(_ texts: [String], pooling: Pooling = .model, normalize: Bool = true, cancel: Cancel? = nil) throws -> [[Float]] {
        let tokens = try texts.map { try tokenize($0) }
        if tokens.isEmpty { return [] }
        let lengths = tokens.map(\.count)
        let all = tokens.flatMap { $0 }
        var end = 0
        let starts = lengths.map { length in
            defer { end += length }
            return end
        }
        return try all.withUnsafeBufferPointer { all in
            let lists = starts.map { start in all.baseAddress.map { $0 + start } }
            return try embed(pooling, normalize, lengths, cancel) {
                rz_embed_into($0, $1, lists, lengths, lengths.count, $2, $3, $4, $5, $6)
            }
        }
    }

    /// The same of prompts, which may have pictures.
    public func embed(_ prompts: [Prompt], pooling: Pooling = .model, normalize: Bool = true, cancel: Cancel? = nil) throws -> [[Float]] {
        if prompts.isEmpty { return [] }
        return try useAll(prompts.map { $0.handle }) { handles in
            try embed(pooling, normalize, prompts.map(\.count), cancel) {
                rz_embed_prompts_into($0, $1, handles, handles.count, $2, $3, $4, $5, $6)
            }
        }
    }

    /// The embeddings of texts with these numbers of tokens.
    private func embed(
        _ pooling: Pooling, _ normalize: Bool, _ lengths: [Int], _ cancel: Cancel?,
        _ function: (
            OpaquePointer, UnsafePointer<rz_embed_params>, UnsafeMutablePointer<Float>?, Int, UnsafeMutablePointer<Int>, OpaquePointer?,
            UnsafeMutablePointer<rz_error>
        ) -> rz_status
    ) throws -> [[Float]] {
        var params = sizedStruct(rz_embed_params())
        params.pooling = pooling.rawValue
        params.flags = normalize ? 0 : UInt32(RZ_EMBED_RAW)
        let values: [Float] = try handle.use { model in
            try use(cancel?.handle) { cancel in try sized(0) { function(model, &params, $0, $1, $2, cancel, $3) } }
        }
        let rows = pooling == .none ? lengths.reduce(0, +) : lengths.count
        let width = values.count / rows
        return (0..<rows).map { Array(values[$0 * width..<($0 + 1) * width]) }
    }

    /// A grammar that is compiled, for any number of texts. `whitespace`: JSON may have some between its parts.
    public func grammar(_ kind: Grammar.Kind, _ text: String = "", whitespace: Bool = false) throws -> Grammar {
        let grammar = Grammar(kind, text, whitespace: whitespace)
        return Grammar(kind, text, grammar.flags, try self.grammar(grammar))
    }

    func grammar(_ grammar: Grammar) throws -> Handle {
        try Handle(free: { rz_grammar_free($0) }) { out, error in
            handle.use { model in withText(grammar.text) { rz_grammar_new(model, grammar.kind.rawValue, grammar.flags, $0, $1, nil, out, error) } }
        }
    }

    /// A low-rank adapter: a GGUF file or a folder of PEFT.
    public func adapter(_ path: String) throws -> Adapter {
        let path = try terminated(path, "path")
        return try Adapter(Handle(of: handle, free: { rz_adapter_free($0) }) { rz_adapter_load($0, path, nil, $1, $2) })
    }

    /// An empty session with room for so many tokens; 0: as many as the model was made for, at most 8192. `keys` and
    /// `values`: the types of what it remembers.
    public func session(capacity: Int = 0, keys: CacheType = .f16, values: CacheType = .f16) throws -> Session {
        var params = try Model.cacheParams(capacity, keys, values)
        return try Session(self, Handle(of: handle, free: { rz_cache_free($0) }) { rz_cache_new($0, &params, $1, $2) })
    }
}

/// A grammar for text that is written. Immutable, for any number of jobs and replies.
public final class Grammar: Sendable {
    /// The language of a grammar. `choices`: a JSON array of strings; `tools`: the JSON of a conversation.
    public enum Kind: UInt32, Sendable { case jsonSchema = 1, regex, lark, gbnf, json, choices, tools }

    let kind: Kind
    let text: String
    let flags: UInt32
    let handle: Handle?

    init(_ kind: Kind, _ text: String, _ flags: UInt32, _ handle: Handle?) {
        self.kind = kind
        self.text = text
        self.flags = flags
        self.handle = handle
    }

    /// A grammar that is compiled by what uses it. `whitespace`: JSON may have some between its parts.
    public convenience init(_ kind: Kind, _ text: String = "", whitespace: Bool = false) {
        self.init(kind, text, whitespace ? UInt32(RZ_GRAMMAR_FLAG_WHITESPACE) : 0, nil)
    }
}

/// A low-rank adapter of a model. Immutable, for any number of sessions.
public final class Adapter: Sendable {
    let handle: Handle
    init(_ handle: Handle) { self.handle = handle }
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
