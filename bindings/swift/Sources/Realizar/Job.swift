import CRealizar

/// A generation that works when it is told to, by one call at a time. Its session is busy until the job is gone, which may be at
/// any moment; the session keeps the tokens that are complete.
public final class Job: Sendable {
    /// The reason why a text has ended.
    public enum End: UInt32, Sendable { case token = 1, length, stop, context, grammar, failed }

    /// A token that was made, and the likeliest ones in its place, the likeliest first.
    public struct Logprobs: Sendable, Hashable {
        public let made: Logprob
        public let likeliest: [Logprob]
    }

    let handle: Handle
    private let cancelling: Cancel
    private let session: Session
    private let isReply: Bool
    private let row: Int

    init(_ session: Session, _ prompt: [UInt32], _ conversation: String?, _ options: Options) throws {
        let cancelling = try Cancel()
        // Without a sampler a GPU need not bring logits back.
        let sampler = options.sampling.isGreedy ? nil : try options.sampling.sampler()
        var params = sizedStruct(rz_job_params(), \.struct_size)
        params.max_tokens = options.maxTokens
        params.n_tokens = prompt.count
        params.draft_max = options.draftMax
        params.logprobs = options.logprobs
        let stops: [UnsafePointer<CChar>?] = try options.stops.map { stop in
            let text = try terminated(stop, "a stop string")
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.count)
            copy.initialize(from: text, count: text.count)
            return UnsafePointer(copy)
        }
        defer { stops.forEach { $0?.deallocate() } }
        var draftModel: Handle?
        switch options.draft {
        case .none: params.draft = UInt32(RZ_DRAFT_NONE)
        case .lookup: params.draft = UInt32(RZ_DRAFT_LOOKUP)
        case .mtp: params.draft = UInt32(RZ_DRAFT_MTP)
        case .model(let model):
            params.draft = UInt32(RZ_DRAFT_MODEL)
            draftModel = model.handle
        }
        self.handle = try use(sampler) { sampler in
            try use(options.grammar?.handle) { grammar in
                try use(draftModel) { draftModel in
                    try cancelling.handle.use { cancel in
                        try prompt.withUnsafeBufferPointer { prompt in
                            try stops.withUnsafeBufferPointer { stops in
                                try withText(conversation ?? "") { chat, length in
                                    params.sampler = sampler
                                    params.grammar = grammar
                                    params.draft_model = draftModel
                                    params.cancel = cancel
                                    params.tokens = prompt.baseAddress
                                    params.stops = stops.baseAddress
                                    params.n_stops = stops.count
                                    params.chat = conversation == nil ? nil : chat
                                    params.chat_len = length
                                    return try Handle(free: { rz_job_free($0) }) { out, error in
                                        session.handle.use { rz_job_new($0, &params, out, error) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        self.cancelling = cancelling
        self.session = session
        isReply = conversation != nil
        row = min(Int(options.logprobs), session.model.info.vocabSize) + 1
    }

    /// Works for about so many microseconds, of which a negative number is none, with nil until it has made a token. True: there is
    /// more to do.
    public func step(microseconds: Int64? = nil) throws -> Bool {
        try handle.use { job in try call { rz_job_step(job, limit(microseconds), $0) } } != RZ_DONE
    }

    /// Steps several jobs of one model in common passes over the weights. True: there is more to do. One that fails
    /// ends alone: `error` tells why.
    public static func step(_ jobs: [Job], microseconds: Int64? = nil) throws -> Bool {
        try useAll(jobs.map(\.handle)) { handles in try call { rz_jobs_step(handles, handles.count, limit(microseconds), $0) } } != RZ_DONE
    }

    /// Text that is new since the last call: whole characters, stop strings cut out; of a reply its content, in place
    /// of `parts`.
    public func text() throws -> String {
        if isReply { return try parts().filter { $0.kind == .content || $0.kind == .end }.map(\.text).joined() }
        return try handle.use { job in try sizedText { rz_job_text_into(job, $0, $1, $2, $3) } }
    }

    /// Parts of a reply, of a job by `Session.job(conversation:)`, that are new since the last call.
    public func parts() throws -> [ReplyPart] {
        try handle.use { job in try takeParts { rz_job_next_into(job, $0, $1, $2, $3, $4, $5) } }
    }

    /// Tokens that are new since the last call.
    public func tokens() throws -> [UInt32] {
        try handle.use { job in try sized(64) { rz_job_tokens_into(job, $0, $1, $2, $3) } }
    }

    /// Tokens that are new since the last call with their probabilities, of `Options.logprobs`.
    public func logprobs() throws -> [Logprobs] {
        var values: [Float] = []
        let tokens: [UInt32] = try handle.use { job in
            try sized(64) { tokens, capacity, n, error in
                values = [Float](repeating: 0, count: capacity)
                return values.withUnsafeMutableBufferPointer { rz_job_logprobs_into(job, tokens, $0.baseAddress, capacity, n, error) }
            }
        }
        let all = tokens.indices.map { Logprob(token: tokens[$0], logprob: values[$0]) }
        return stride(from: 0, to: all.count, by: row).map { Logprobs(made: all[$0], likeliest: Array(all[($0 + 1)..<($0 + row)])) }
    }

    /// Works on another thread until there is new text, and gives it; nil once the job has ended. When the task is cancelled it
    /// throws CancellationError, and the job goes on with the next call.
    public func next() async throws -> String? {
        try await advance {
            let piece = try self.text()
            return piece.isEmpty ? nil : piece
        }
    }

    /// The same for the parts of a reply.
    public func nextParts() async throws -> [ReplyPart]? {
        try await advance {
            let made = try self.parts()
            return made.isEmpty ? nil : made
        }
    }

    private func advance<R: Sendable>(_ take: @escaping @Sendable () throws -> R?) async throws -> R? {
        defer { session.stop.reset() }
        return try await detached(session.stop) {
            var going = true
            while going {
                going = try self.step()
                if let made = try take() { return made }
            }
            return nil
        }
    }

    /// Has a running step end with the code `.cancelled`, and all later ones, until `resume`.
    public func cancel() { cancelling.fire() }

    /// Has steps end with the code `.deadline` after so long, at once where that has passed; nil takes that back.
    public func deadline(microseconds: Int64?) throws { try cancelling.deadline(microseconds: microseconds) }

    /// Takes a cancel or a deadline back: the job goes on with the next step.
    public func resume() { cancelling.reset() }

    /// The reason why the generation has ended; nil where it has not.
    public var end: End? { get throws { End(rawValue: try info().end) } }

    /// The error by which it has ended (`.failed`), which `step` of several jobs does not throw; nil for any other job.
    public var error: RealizarError? {
        get throws {
            guard try end == .failed else { return nil }
            do {
                try handle.use { job in try call { rz_job_error(job, $0) } }
                return nil
            } catch let error as RealizarError {
                return error
            }
        }
    }

    /// Number of tokens made, and of those of the prompt that the session did not hold.
    public var counts: (made: Int, prompt: Int) {
        get throws {
            let info = try info()
            return (Int(info.n_tokens), Int(info.prompt_total))
        }
    }

    /// Tokens of drafts that were computed, and those of them that were right.
    public var drafts: (drafted: Int, accepted: Int) {
        get throws {
            let info = try info()
            return (Int(info.drafted), Int(info.accepted))
        }
    }

    private func info() throws -> rz_job_info {
        var info = sizedStruct(rz_job_info(), \.struct_size)
        try handle.use { job in try call { rz_job_info_get(job, &info, $0) } }
        return info
    }
}
