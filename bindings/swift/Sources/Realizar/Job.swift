import CRealizar

/// A generation that works when it is told to, by one call at a time. Its session is busy until the job is gone, which may be at
/// any moment; the session keeps the tokens that are complete.
public final class Job: Sendable {
    /// The reason why a text has ended.
    public enum End: UInt32, Sendable { case token = 1, length, stop, context, grammar }

    let handle: Handle
    private let cancelling: Cancel
    private let session: Session

    init(_ session: Session, _ prompt: [UInt32], _ options: Options) throws {
        let cancelling = try Cancel()
        // Without a sampler a GPU need not bring logits back.
        let sampler = options.sampling.isGreedy ? nil : try options.sampling.sampler()
        var params = sizedStruct(rz_job_params(), \.struct_size)
        params.max_tokens = options.maxTokens
        params.n_tokens = prompt.count
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
                                params.sampler = sampler
                                params.grammar = grammar
                                params.draft_model = draftModel
                                params.cancel = cancel
                                params.tokens = prompt.baseAddress
                                params.stops = stops.baseAddress
                                params.n_stops = stops.count
                                return try Handle(free: { rz_job_free($0) }) { out, error in
                                    session.handle.use { rz_job_new($0, &params, out, error) }
                                }
                            }
                        }
                    }
                }
            }
        }
        self.cancelling = cancelling
        self.session = session
    }

    /// Works for about so many microseconds, of which a negative number is none, with nil until it has made a token. True: there is
    /// more to do.
    public func step(microseconds: Int64? = nil) throws -> Bool {
        try handle.use { job in try call { rz_job_step(job, limit(microseconds), $0) } } != RZ_DONE
    }

    /// Steps several jobs of one model in common passes over the weights. True: there is more to do.
    public static func step(_ jobs: [Job], microseconds: Int64? = nil) throws -> Bool {
        try withExtendedLifetime(jobs) {
            let handles: [OpaquePointer?] = jobs.map { $0.handle.use { $0 } }
            return try call { rz_jobs_step(handles, handles.count, limit(microseconds), $0) } != RZ_DONE
        }
    }

    /// A time as the library takes one, RZ_NO_LIMIT without one.
    private static func limit(_ microseconds: Int64?) -> UInt64 { microseconds.map { UInt64(max($0, 0)) } ?? .max }
    private func limit(_ microseconds: Int64?) -> UInt64 { Job.limit(microseconds) }

    /// Text that is new since the last call: whole characters, stop strings cut out.
    public func text() throws -> String {
        try handle.use { job in try sizedText { rz_job_text_into(job, $0, $1, $2, $3) } }
    }

    /// Tokens that are new since the last call.
    public func tokens() throws -> [UInt32] {
        try handle.use { job in try sized(64) { rz_job_tokens_into(job, $0, $1, $2, $3) } }
    }

    /// Works on another thread until there is new text, and gives it; nil once the job has ended. When the task is cancelled it
    /// throws CancellationError, and the job goes on with the next call.
    public func next() async throws -> String? {
        cancelling.reset()
        return try await detached(cancelling) {
            var going = true
            while going {
                going = try self.step()
                let piece = try self.text()
                if !piece.isEmpty { return piece }
            }
            return nil
        }
    }

    /// Has a running step end with the code `.cancelled`, and all later ones.
    public func cancel() { cancelling.fire() }

    /// The reason why the generation has ended; nil where it has not.
    public var end: End? { get throws { End(rawValue: try info().end) } }

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
