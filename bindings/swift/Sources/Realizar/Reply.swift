import CRealizar

/// The reply of a conversation, part by part: `for try await part in try chat.reply()`. Parts are made when they are
/// asked for, on another thread; a task that is cancelled ends with CancellationError. At its end the reply is a
/// message. A reply that is released before its end is removed; with `Options.keeps` its text becomes a message.
public final class Reply: AsyncSequence, Sendable {
    public typealias Element = ReplyPart
    let conversation: Conversation
    private let turn: Int
    private let cancelling: Cancel
    private let row: Int

    init(_ conversation: Conversation, _ turn: Int, _ cancelling: Cancel, _ options: Options) {
        self.conversation = conversation
        self.turn = turn
        self.cancelling = cancelling
        row = Swift.min(options.logprobs ?? 0, conversation.model.info.vocabSize) + 1
    }

    deinit { conversation.giveUp(turn) }

    public func makeAsyncIterator() -> Iterator { Iterator(reply: self, reading: Reading(self)) }

    /// A loop over the reply, from its beginning until it is left.
    final class Reading: Sendable {
        private let reply: Reply
        init(_ reply: Reply) {
            self.reply = reply
            reply.conversation.count(loops: 1, reply.turn)
        }
        deinit { reply.conversation.count(loops: -1, reply.turn) }
    }

    public struct Iterator: AsyncIteratorProtocol {
        let reply: Reply
        let reading: Reading
        var ready: ArraySlice<ReplyPart> = []
        var hasEnded = false

        public mutating func next() async throws -> ReplyPart? {
            if ready.isEmpty && !hasEnded { ready = try await reply.nextParts()[...] }
            let part = ready.popFirst()
            hasEnded = part?.kind == .end
            return part
        }
    }

    /// Works on another thread until there are new parts, and gives them; none once the reply has ended. When the task
    /// is cancelled it throws CancellationError, and the next call resumes the reply.
    public func nextParts() async throws -> [ReplyPart] {
        defer { if Task.isCancelled { resume() } }
        return try await detached(cancelling) {
            while true {
                let going = try self.step()
                let parts = try self.parts()
                if !going || !parts.isEmpty { return parts }
            }
        }
    }

    /// Works for about so many microseconds, of which a negative number is none, with nil until it has made a token.
    /// True: work remains.
    public func step(microseconds: Int64? = nil) throws -> Bool {
        try conversation.use(turn) { conversation in
            try call { rz_conversation_step(conversation, limit(microseconds), $0) } != RZ_DONE.rawValue
        }
    }

    /// Steps several replies of one model as a batch. True: work remains. One that fails ends without the
    /// others: `error` has the reason. Cancels and deadlines throw nothing here: they pause only their reply, and
    /// `stopped` has the reason.
    public static func step(_ replies: [Reply], microseconds: Int64? = nil) throws -> Bool {
        let handles = try replies.map { reply in
            try reply.conversation.use(reply.turn) { _ in reply.conversation.handle }
        }
        return try stepAll(handles) { rz_conversations_step($0, $1, limit(microseconds), $2) }
    }

    /// Parts that are new since the last call, without any work.
    public func parts() throws -> [ReplyPart] {
        try conversation.use(turn) { conversation in
            try takeParts { rz_conversation_next_into(conversation, $0, $1, $2, $3, $4, $5, $6) }
        }
    }

    /// Tokens of content that are new since the last call with their probabilities, of `Options.logprobs`.
    public func logprobs() throws -> [Logprobs] {
        try conversation.use(turn) { conversation in
            try takeLogprobs(row) { rz_conversation_logprobs_into(conversation, $0, $1, $2, $3, $4) }
        }
    }

    /// Ends the reply at once: its text so far becomes a message, with `Options.keeps` or without.
    public func stop() throws {
        try conversation.use(turn) { conversation in try call { rz_conversation_stop(conversation, $0) } }
    }

    /// Has a running step end with the code `.cancelled`, and all later ones, until `resume`.
    public func cancel() { cancelling.fire() }

    /// Has steps end with the code `.deadline` after so long, at once where that has passed; nil takes that back.
    public func deadline(microseconds: Int64?) throws { try cancelling.deadline(microseconds: microseconds) }

    /// Resets a cancel or a deadline: the next step resumes the reply.
    public func resume() { cancelling.reset() }

    /// `.cancelled` or `.deadline` while steps fail because of a cancel or a deadline, else nil.
    public var stopped: RealizarError.Code? { get throws { try conversation.use(turn) { _ in try conversation.info().stopped } } }

    /// The reason why it has ended; nil where it has not.
    public var end: Job.End? { get throws { try conversation.use(turn) { _ in try conversation.info().end } } }

    /// The error by which it has ended (`.failed`), which `step` of several replies does not throw; nil for any other.
    public var error: RealizarError? {
        get throws {
            do {
                try conversation.use(turn) { conversation in try call { rz_conversation_error(conversation, $0) } }
                return nil
            } catch let error as RealizarError {
                return error
            }
        }
    }
}

extension Options {
    /// The parameters of a reply, for the time of a call.
    func with<R>(_ cancel: Cancel, _ body: (UnsafePointer<rz_reply_params>) throws -> R) throws -> R {
        var params = try numbers()
        // A compiled grammar has no text for the reply.
        let text = grammar?.handle == nil ? grammar : nil
        params.grammar_kind = text?.kind.rawValue ?? 0
        params.grammar_flags = text?.flags ?? 0
        params.draft = draft.number
        return try withPins { pins in
            params.stops = try pins.of(stops, "stops")
            params.n_stops = stops.count
            (params.grammar, params.grammar_len) = pins.sized(text?.text)
            (params.json, params.json_len) = pins.sized(try members?.text)
            params.draft_model = pins.of(draft.model?.handle)
            params.cancel = pins.of(cancel.handle)
            params.compiled_grammar = pins.of(grammar?.handle)
            params.sampler = pins.of(try sampling.map { [try $0.params(pins)] } ?? [])
            return try body(&params)
        }
    }
}
