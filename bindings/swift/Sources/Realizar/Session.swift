import CRealizar

extension Sampling {
    /// A filter of tokens, or the temperature.
    public enum Filter: UInt32, Sendable { case topNSigma = 1, topK, typicalP, topP, minP, xtc, temperature }

    /// True if only a seed is set, which greedy decoding does not need.
    var isDefault: Bool {
        var plain = Sampling()
        plain.seed = seed
        return self == plain
    }

    /// The options as the library takes them.
    func params(_ pins: Pins) throws -> rz_sampler_params {
        var params = try numbers()
        func sequences(_ all: [[UInt32]]) -> UnsafePointer<rz_token_sequence>? {
            pins.of(all.map { rz_token_sequence(tokens: pins.of($0), n_tokens: $0.count) })
        }
        (params.dry_breakers, params.n_dry_breakers) = (sequences(dryBreakers), dryBreakers.count)
        (params.banned_sequences, params.n_banned_sequences) = (sequences(bannedSequences), bannedSequences.count)
        (params.order, params.n_order) = (pins.of(order.map(\.rawValue)), order.count)
        (params.biases, params.n_biases) = (pins.of(logitBias.map { rz_logit_bias(token: $0, bias: $1) }), logitBias.count)
        return params
    }

    func sampler() throws -> Handle {
        try withPins { pins in
            var params = try self.params(pins)
            return try Handle(free: { rz_sampler_free($0) }) { rz_sampler_new(&params, $0, $1) }
        }
    }
}

/// A sampler with its own random number generator. One call at a time.
public final class Sampler: Sendable {
    let handle: Handle
    public init(_ sampling: Sampling = Sampling()) throws { handle = try sampling.sampler() }

    /// Constrains sampling to a grammar, from its start; nil: no constraint.
    public func setGrammar(_ grammar: Grammar?) throws {
        if let grammar, grammar.handle == nil { throw RealizarError(.invalidArgument, "a sampler takes a grammar of Model.grammar") }
        try handle.use { sampler in try use(grammar?.handle) { grammar in try call { rz_sampler_grammar_set(sampler, grammar, $0) } } }
    }
}

/// A token and its log probability.
public struct Logprob: Sendable, Hashable {
    public let token: UInt32
    public let logprob: Float
}

/// A generated token and the most likely alternatives, in descending order.
public struct Logprobs: Sendable, Hashable {
    public let made: Logprob
    public let likeliest: [Logprob]
}

/// Returns the pending rows of a function, of `width` tokens each.
func takeLogprobs(
    _ row: Int,
    _ take: (
        UnsafeMutablePointer<UInt32>?, UnsafeMutablePointer<Float>?, Int, UnsafeMutablePointer<Int>, UnsafeMutablePointer<rz_error>
    ) -> rz_status
) throws -> [Logprobs] {
    var values: [Float] = []
    let tokens: [UInt32] = try sized(64) { tokens, capacity, n, error in
        values = [Float](repeating: 0, count: capacity)
        return values.withUnsafeMutableBufferPointer { take(tokens, $0.baseAddress, capacity, n, error) }
    }
    let all = tokens.indices.map { Logprob(token: tokens[$0], logprob: values[$0]) }
    return stride(from: 0, to: all.count, by: row).map { Logprobs(made: all[$0], likeliest: Array(all[($0 + 1)..<($0 + row)])) }
}

/// The source of draft tokens for speculative decoding, which does not change results.
public enum Draft: Sendable {
    /// Only tokens that a grammar forces.
    case none
    /// Prompt lookup (n-grams of the text).
    case lookup
    /// A draft model with the same vocabulary.
    case model(Model)
    /// The model's MTP head, loaded with `LoadOptions.mtp`.
    case mtp

    var number: UInt32 {
        switch self {
        case .none: UInt32(RZ_DRAFT_NONE)
        case .lookup: UInt32(RZ_DRAFT_LOOKUP)
        case .model: UInt32(RZ_DRAFT_MODEL)
        case .mtp: UInt32(RZ_DRAFT_MTP)
        }
    }

    var model: Model? {
        if case .model(let model) = self { return model }
        return nil
    }
}

/// Reasoning of a reply. `model`: the default of the chat template.
public enum Reasoning: UInt32, Sendable { case model = 0, off, on }

/// Tokens with their KV cache. A prompt with the same prefix as the previous one computes only its new end. One call at
/// a time.
public final class Session: Sendable {
    public let model: Model
    let handle: Handle
    /// Ends the call that a cancelled task waits for.
    let stop: Cancel

    init(_ model: Model, _ handle: Handle) throws {
        let stop = try Cancel()
        try handle.use { cache in try stop.handle.call { rz_cache_cancel_set(cache, $0, $1) } }
        self.model = model
        self.handle = handle
        self.stop = stop
    }

    /// Number of tokens in the session.
    public var count: Int { handle.use { Int(rz_cache_len($0)) } }
    /// Context length in tokens.
    public var capacity: Int { handle.use { Int(rz_cache_capacity($0)) } }

    /// Continues a text and returns pieces.
    public func generate(_ prompt: String, _ options: Options = Options()) throws -> Pieces {
        Pieces(session: self, prompt: try model.tokenize(prompt), options: options)
    }

    /// Creates a job that continues tokens. A prefix that is already in the KV cache is not computed again. The session
    /// is busy until the job is freed.
    public func job(_ prompt: [UInt32], _ options: Options = Options()) throws -> Job {
        // The last token of a prompt is always computed, because generation starts from its logits.
        let kept = min(try match(prompt), max(prompt.count - 1, 0))
        try truncate(kept)
        return try Job(self, Array(prompt[kept...]), options)
    }

    /// Returns the length of the prefix that is already in the KV cache.
    public func match(_ tokens: [UInt32]) throws -> Int {
        var common: UInt32 = 0
        try handle.call { rz_cache_match($0, tokens, tokens.count, &common, $1) }
        return Int(common)
    }

    /// The tokens of the session.
    public func tokens() throws -> [UInt32] {
        try handle.use { cache in try sized(count) { rz_cache_tokens_into(cache, $0, $1, $2, $3) } }
    }

    /// Removes `drop` tokens after the first `keep` (context shift). The next call that needs the later tokens computes
    /// them again.
    public func shift(keep: Int, drop: Int) throws {
        let (keep, drop) = (try whole(keep, "keep"), try whole(drop, "drop"))
        try handle.call { rz_cache_shift($0, keep, drop, $1) }
    }

    /// Frees the KV cache and keeps the tokens; the next call that needs it computes it again.
    public func release() throws {
        try handle.call { rz_cache_release($0, $1) }
    }

    /// Appends tokens, as `prefill` does, and returns the log probability of each, given all tokens before.
    public func score(_ tokens: [UInt32], cancel: Cancel? = nil) throws -> [Float] {
        var scores = [Float](repeating: 0, count: tokens.count)
        try handle.call(with: cancel?.handle) { rz_score($0, tokens, tokens.count, &scores, $1, $2) }
        return scores
    }

    /// Returns the `k` most likely next tokens, in descending order.
    public func logprobs(_ k: Int) throws -> [Logprob] {
        let k = min(Int(try whole(k, "k")), model.info.vocabSize)
        var tokens = [UInt32](repeating: 0, count: k)
        var values = [Float](repeating: 0, count: k)
        var n = 0
        try handle.call { rz_top_logprobs($0, UInt32(k), &tokens, &values, &n, $1) }
        return (0..<n).map { Logprob(token: tokens[$0], logprob: values[$0]) }
    }

    /// `decode` for several sessions of one model, as one batch. `samplers`: one per session, or none.
    public static func decode(_ sessions: [Session], _ tokens: [UInt32], _ samplers: [Sampler?] = []) throws -> [UInt32] {
        guard tokens.count == sessions.count && (samplers.isEmpty || samplers.count == sessions.count) else {
            throw RealizarError(.invalidArgument, "a batch has as many tokens and samplers as sessions")
        }
        let choosers = samplers.isEmpty ? [Handle?](repeating: nil, count: sessions.count) : samplers.map { $0?.handle }
        var next = [UInt32](repeating: 0, count: tokens.count)
        try useAll(sessions.map(\.handle)) { caches in
            try useAll(choosers) { choosers in
                try call { rz_decode_batch(caches, tokens, tokens.count, choosers, &next, $0) }
            }
        }
        return next
    }

    /// Appends tokens; `logits` are then of the last one.
    public func prefill(_ tokens: [UInt32], cancel: Cancel? = nil) throws {
        try handle.call(with: cancel?.handle) { rz_prefill($0, tokens, tokens.count, $1, $2) }
    }

    /// Samples a token from the logits; without a sampler, greedily.
    public func sample(_ sampler: Sampler? = nil) throws -> UInt32 {
        var token: UInt32 = 0
        try handle.call(with: sampler?.handle) { rz_sample($0, $1, &token, $2) }
        return token
    }

    /// Appends a token and samples the next one.
    public func decode(_ token: UInt32, _ sampler: Sampler? = nil) throws -> UInt32 {
        var next: UInt32 = 0
        try handle.call(with: sampler?.handle) { rz_decode_token($0, token, $1, &next, $2) }
        return next
    }

    /// Logits after the last token.
    public func logits() throws -> [Float] {
        try handle.use { cache in try sized(model.info.vocabSize) { rz_logits_into(cache, $0, $1, $2, $3) } }
    }

    /// Rewinds to the first `count` tokens.
    public func truncate(_ count: Int) throws {
        let count = try whole(count, "count")
        try handle.call { rz_cache_truncate($0, count, $1) }
    }

    /// Returns a copy of the session, which shares the KV cache copy-on-write.
    public func fork() throws -> Session {
        try Session(model, Handle(of: handle, free: { rz_cache_free($0) }) { rz_cache_fork($0, $1, $2) })
    }

    /// Sets the LoRA adapters (with scales), or none; clears the session.
    public func setAdapters(_ adapters: [(Adapter, scale: Float)]) throws {
        let scales = adapters.map(\.scale)
        try useAll(adapters.map { $0.0.handle }) { handles in
            try handle.call { rz_cache_adapters_set($0, handles, scales, handles.count, $1) }
        }
    }
}

/// Generated text in pieces of whole characters: `for try await piece in session.generate(prompt)`. Another thread
/// computes each piece on demand; a cancelled task throws CancellationError. The session is busy from the first piece
/// to the last, or until the loop is left.
public struct Pieces: AsyncSequence, Sendable {
    public typealias Element = String
    let session: Session
    let prompt: [UInt32]
    let options: Options

    public func makeAsyncIterator() -> Iterator { Iterator(pieces: self) }

    public struct Iterator: AsyncIteratorProtocol {
        let pieces: Pieces
        private var job: Job?
        private var ended = false

        init(pieces: Pieces) { self.pieces = pieces }

        public mutating func next() async throws -> String? {
            if ended { return nil }
            ended = true // if this throws
            let job = try job ?? pieces.session.job(pieces.prompt, pieces.options)
            self.job = nil
            guard let piece = try await job.next() else { return nil }
            self.job = job
            ended = false
            return piece
        }
    }
}
