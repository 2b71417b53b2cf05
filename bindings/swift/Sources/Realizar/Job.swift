import CRealizar

/// A generation that advances in steps, one call at a time. Its session is busy until the job is freed, at any time;
/// the session keeps the completed tokens.
public final class Job: Sendable {
    /// The reason why a text has ended.
    public enum End: UInt32, Sendable { case token = 1, length, stop, context, grammar, failed, cancelled }

    let handle: Handle
    private let cancelling: Cancel
    private let session: Session
    private let row: Int

    /// Creates a job of tokens, or of a prompt with media from token index `first` on.
    init(_ session: Session, _ prompt: [UInt32], _ options: Options, _ media: Prompt? = nil, first: Int = 0) throws {
        let cancelling = try Cancel()
        // Without a sampler, a GPU need not copy logits to the host.
        let sampler = try options.sampling.flatMap { $0.isDefault ? nil : try $0.sampler() }
        let grammar = try options.grammar.map { try $0.handle ?? session.model.grammar($0) }
        var params = try options.jobNumbers()
        params.n_tokens = prompt.count
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
            return try Handle(of: session.handle, free: { rz_job_free($0) }) { rz_job_new($0, &params, $1, $2) }
        }
        self.cancelling = cancelling
        self.session = session
        row = min(options.logprobs ?? 0, session.model.info.vocabSize) + 1
    }

    /// Computes for about this many microseconds (negative: 0); nil: until it has generated a token. True: work
    /// remains.
    public func step(microseconds: Int64? = nil) throws -> Bool {
        try handle.call { rz_job_step($0, limit(microseconds), $1) } != RZ_DONE.rawValue
    }

    /// Steps several jobs of one model (continuous batching). True: work remains. A failed job does not affect others:
    /// `error` is its error. A cancel or a deadline pauses its job, without an error: `stopped` is the reason.
    public static func step(_ jobs: [Job], microseconds: Int64? = nil) throws -> Bool {
        try stepAll(jobs.map(\.handle)) { rz_jobs_step($0, $1, limit(microseconds), $2) }
    }

    /// Returns the text since the last call, in whole characters, without stop sequences.
    public func text() throws -> String {
        try handle.use { job in try sizedText { rz_job_text_into(job, $0, $1, $2, $3) } }
    }

    /// Returns the tokens since the last call.
    public func tokens() throws -> [UInt32] {
        try handle.use { job in try sized(64) { rz_job_tokens_into(job, $0, $1, $2, $3) } }
    }

    /// Returns the tokens since the last call with log probabilities, for `Options.logprobs`.
    public func logprobs() throws -> [Logprobs] {
        try handle.use { job in try takeLogprobs(row) { rz_job_logprobs_into(job, $0, $1, $2, $3, $4) } }
    }

    /// Computes on another thread until there is new text and returns it; nil once the job has ended. If the task is
    /// cancelled, throws CancellationError; the next call continues the job.
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

    /// Ends the running step and all later ones with the code `.cancelled`, until `resume`.
    public func cancel() { cancelling.fire() }

    /// Ends steps with the code `.deadline` after this time, at once if it is not positive; nil removes the deadline.
    public func deadline(microseconds: Int64?) throws { try cancelling.deadline(microseconds: microseconds) }

    /// Removes a cancel or a deadline; the next step continues the job.
    public func resume() { cancelling.reset() }

    /// `.cancelled` or `.deadline` while steps fail because of a cancel or a deadline; else nil.
    public var stopped: RealizarError.Code? { get throws { .init(stopped: try info().stopped) } }

    /// The end reason; nil if the generation has not ended.
    public var end: End? { get throws { End(rawValue: try info().end_reason) } }

    /// The error of a job that ended as `.failed`; `step` of several jobs does not throw it. Nil for any other job.
    public var error: RealizarError? {
        get throws {
            guard try end == .failed else { return nil }
            do {
                try handle.call { rz_job_error($0, $1) }
                return nil
            } catch let error as RealizarError {
                return error
            }
        }
    }

    /// Number of generated tokens, and of prompt tokens that were not in the KV cache.
    public var counts: (made: Int, prompt: Int) {
        get throws {
            let info = try info()
            return (Int(info.n_tokens), Int(info.prompt_total))
        }
    }

    /// Draft tokens that were verified, and accepted ones.
    public var drafts: (drafted: Int, accepted: Int) {
        get throws {
            let info = try info()
            return (Int(info.drafted), Int(info.accepted))
        }
    }

    private func info() throws -> rz_job_info {
        try handle.filled(rz_job_info()) { rz_job_info_get($0, $1, $2) }
    }
}
