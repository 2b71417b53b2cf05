import CRealizar

/// A generation that works when it is told to, by one call at a time. Its session is busy until the job is gone, which
/// may be at any moment; the session keeps the tokens that are complete.
public final class Job: Sendable {
    /// The reason why a text has ended.
    public enum End: UInt32, Sendable { case token = 1, length, stop, context, grammar, failed, cancelled }

    let handle: Handle
    private let cancelling: Cancel
    private let session: Session
    private let row: Int

    /// A job of tokens, or of a prompt with media from its token number `first` on.
    init(_ session: Session, _ prompt: [UInt32], _ options: Options, _ media: Prompt? = nil, first: Int = 0) throws {
        let cancelling = try Cancel()
        // Without a sampler a GPU need not bring logits back.
        let sampler = try options.sampling.flatMap { $0.isDefault ? nil : try $0.sampler() }
        let grammar = try options.grammar.map { try $0.handle ?? session.model.grammar($0) }
        var params = sizedStruct(rz_job_params(), \.struct_size)
        params.max_tokens = try whole(options.maxTokens, "maxTokens")
        params.n_tokens = prompt.count
        params.draft_max = try whole(options.draftMax, "draftMax")
        params.logprobs = try orNone(options.logprobs, "logprobs")
        params.priority = try priority(options.priority)
        params.draft = options.draft.number
        params.prompt_first = first
        self.handle = try withPins { pins in
            params.sampler = pins.of(sampler)
            params.grammar = pins.of(grammar)
            params.draft_model = pins.of(options.draft.model?.handle)
            params.cancel = pins.of(cancelling.handle)
            params.prompt = pins.of(media?.handle)
            params.tokens = pins.of(prompt)
            params.stops = try pins.of(options.stops, "stops")
            params.n_stops = options.stops.count
            return try Handle(free: { rz_job_free($0) }) { out, error in session.handle.use { rz_job_new($0, &params, out, error) } }
        }
        self.cancelling = cancelling
        self.session = session
        row = min(options.logprobs ?? 0, session.model.info.vocabSize) + 1
    }

    /// Works for about so many microseconds, of which a negative number is none, with nil until it has made a token.
    /// True: there is more to do.
    public func step(microseconds: Int64? = nil) throws -> Bool {
        try handle.use { job in try call { rz_job_step(job, limit(microseconds), $0) } } != RZ_DONE.rawValue
    }

    /// Steps several jobs of one model as a batch. True: there is more to do. One that fails ends without the others:
    /// `error` tells why. Cancels and deadlines throw nothing here: such a job pauses without the others, and `stopped`
    /// tells why.
    public static func step(_ jobs: [Job], microseconds: Int64? = nil) throws -> Bool {
        try stepAll(jobs.map(\.handle)) { rz_jobs_step($0, $1, limit(microseconds), $2) }
    }

    /// Text that is new since the last call: whole characters, stop strings cut out.
    public func text() throws -> String {
        try handle.use { job in try sizedText { rz_job_text_into(job, $0, $1, $2, $3) } }
    }

    /// Tokens that are new since the last call.
    public func tokens() throws -> [UInt32] {
        try handle.use { job in try sized(64) { rz_job_tokens_into(job, $0, $1, $2, $3) } }
    }

    /// Tokens that are new since the last call with their probabilities, of `Options.logprobs`.
    public func logprobs() throws -> [Logprobs] {
        try handle.use { job in try takeLogprobs(row) { rz_job_logprobs_into(job, $0, $1, $2, $3, $4) } }
    }

    /// Works on another thread until there is new text, and gives it; nil once the job has ended. When the task is
    /// cancelled it throws CancellationError, and the job goes on with the next call.
    public func next() async throws -> String? {
        defer { session.stop.reset() }
        return try await detached(session.stop) {
            var going = true
            while going {
                going = try self.step()
                let piece = try self.text()
                if !piece.isEmpty { return piece }
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

    /// `.cancelled` or `.deadline` while steps fail because of a cancel or a deadline, else nil.
    public var stopped: RealizarError.Code? { get throws { .init(stopped: try info().stopped) } }

    /// The reason why the generation has ended; nil where it has not.
    public var end: End? { get throws { End(rawValue: try info().end_reason) } }

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
