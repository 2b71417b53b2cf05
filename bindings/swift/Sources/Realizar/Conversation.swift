import CRealizar
import Foundation

/// What happens if messages and a reply do not fit: an error with the code `.contextFull`, or the oldest turns are left
/// out of the prompt.
public enum Overflow: UInt32, Sendable { case fail = 0, forget }

/// Options of a conversation.
public struct ConversationOptions: Sendable {
    /// Context length in tokens; 0: the model's, at most 8192.
    public var capacity = 0
    /// The KV cache types.
    public var keys = CacheType.f16
    public var values = CacheType.f16
    public var overflow = Overflow.fail
    /// LoRA adapters of every reply, each with a scale.
    public var adapters: [(Adapter, scale: Float)] = []
    /// Prefix cache, also for forks.
    public var store: Store?
    /// Stops every computing call, also of forks.
    public var cancel: Cancel?

    public init(capacity: Int = 0, overflow: Overflow = .fail) {
        self.capacity = capacity
        self.overflow = overflow
    }

    /// Calls `body` with the parameters of a conversation that begins with this JSON.
    func with<R>(_ json: String?, _ body: (UnsafePointer<rz_conversation_params>) throws -> R) throws -> R {
        var params = sizedStruct(rz_conversation_params())
        params.overflow = overflow.rawValue
        params.n_adapters = adapters.count
        return try withPins { pins in
            (params.json, params.json_len) = pins.sized(json)
            params.cache = pins.of([try Model.cacheParams(capacity, keys, values)])
            params.adapters = pins.of(adapters.map { pins.of($0.0.handle) })
            params.scales = pins.of(adapters.map(\.scale))
            (params.cancel, params.store) = (pins.of(cancel?.handle), pins.of(store?.handle))
            return try body(&params)
        }
    }
}

extension ConversationInfo {
    /// `none`: no reply yet, or it was discarded.
    public enum State: UInt32, Sendable { case none = 0, prompt, tokens, ended }
}

/// Messages with a model, their KV cache, and the current reply. A reply computes only what is new since the last one.
/// It serves one call at a time: a second call fails with `.busy`.
public final class Conversation: @unchecked Sendable {
    public let model: Model
    let handle: Handle
    /// Held by a change of the messages, which may take seconds; other calls fail instead of waiting.
    private let changing = NSLock()
    /// Guards `turn`, the number of the last change, which identifies the current reply, and the number of loops over
    /// that reply.
    private let lock = NSLock()
    private var turn = 0
    private var loops = 0

    init(_ model: Model, _ handle: Handle) {
        self.model = model
        self.handle = handle
    }

    /// Begins with JSON of messages, tools and variables, in OpenAI's format.
    public convenience init(_ model: Model, json: String, options: ConversationOptions = ConversationOptions()) throws {
        let handle = try options.with(json) { params in
            try Handle(of: model.handle, free: { rz_conversation_free($0) }) { rz_conversation_new($0, params, $1, $2) }
        }
        self.init(model, handle)
    }

    /// Begins with values: "messages", "tools", "tool_choice", "variables".
    public convenience init(
        _ model: Model, _ begun: JSON = [:], options: ConversationOptions = ConversationOptions()
    ) throws {
        try self.init(model, json: begun.text, options: options)
    }

    /// Begins with a system message.
    public convenience init(
        _ model: Model, system: String, options: ConversationOptions = ConversationOptions()
    ) throws {
        try self.init(model, ["messages": [["role": "system", "content": .string(system)]]], options: options)
    }

    /// Appends a text of a role, such as "user" or "system"; computes nothing. This and every other call that changes
    /// the conversation gives an unfinished reply up.
    public func add(_ role: String, _ text: String) throws {
        let role = try terminated(role, "role")
        try withText(text) { text, length in try change { rz_conversation_add_text($0, role, text, length, $1) } }
    }

    /// Appends a message or an array of messages, such as a tool result: "role", "tool_call_id", "content". Content
    /// parts name `media` by index, {"type": "image", "media": 0}; the conversation keeps the media alive.
    public func add(_ message: JSON, media: [Media] = []) throws {
        try withText(message.text) { json, length in
            try useAll(media.map { $0.handle }) { media in
                try change { rz_conversation_add($0, json, length, media, media.count, $1) }
            }
        }
    }

    /// Returns media by index in content parts, below `info().media`.
    public func media(_ number: Int) throws -> Media {
        let number = try whole(number, "number")
        return try Media.made(of: handle) { rz_conversation_media($0, number, $1, $2) }
    }

    /// Removes the messages after the first `count`.
    public func rewind(_ count: Int) throws {
        let count = try whole(count, "count")
        try change { rz_conversation_rewind($0, count, $1) }
    }

    @discardableResult
    private func change(_ body: (OpaquePointer, UnsafeMutablePointer<rz_error>) throws -> rz_status) throws -> Int {
        guard changing.try() else { throw RealizarError(.busy, "the conversation is in use by another call") }
        defer { changing.unlock() }
        try handle.call { try body($0, $1) }
        return passed()
    }

    /// Counts a change.
    @discardableResult
    private func passed() -> Int {
        lock.lock()
        defer { lock.unlock() }
        turn += 1
        loops = 0
        return turn
    }

    /// Counts loops over the reply of a turn.
    func count(loops change: Int, _ turn: Int) {
        lock.lock()
        defer { lock.unlock() }
        if turn == self.turn { loops += change }
    }

    /// Rejects another reply while a loop reads an unfinished one.
    private func notReading() throws {
        lock.lock()
        let isReading = loops > 0
        lock.unlock()
        if try isReading && info().state != .ended {
            throw RealizarError(.busy, "a reply of the conversation is being read; leave that loop first, or stop the reply")
        }
    }

    private func isCurrent(_ turn: Int) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        return turn == self.turn
    }

    /// Begins a reply to the messages; its parts are computed on demand.
    public func reply(_ options: Options = Options()) throws -> Reply {
        try begin(options) { rz_conversation_reply($0, $1, $2) }
    }

    /// Begins a prefill of the messages, which lowers the next reply's time to first token. Step the result; it has no
    /// parts and adds no message. Pass the options of the next reply: `members`, `reasoning` and `priority` have an
    /// effect.
    public func read(_ options: Options = Options()) throws -> Reply {
        try begin(options) { rz_conversation_read($0, $1, $2) }
    }

    private func begin(
        _ options: Options,
        _ function: (OpaquePointer, UnsafePointer<rz_reply_params>, UnsafeMutablePointer<rz_error>) -> rz_status
    ) throws -> Reply {
        try notReading()
        let cancel = try Cancel()
        let turn = try change { conversation, error in
            try options.with(cancel) { function(conversation, $0, error) }
        }
        return Reply(self, turn, cancel, options)
    }

    /// Frees the KV cache and keeps the messages; the next reply computes it again. Fails with `.busy` while a reply is
    /// unfinished, as do `setCapacity`, `setAdapters` and `setCancel`.
    public func release() throws {
        try handle.call { rz_conversation_release($0, $1) }
    }

    /// Sets the context length in tokens; 0: the model's, at most 8192. Clears the KV cache.
    public func setCapacity(_ capacity: Int) throws {
        let capacity = try whole(capacity, "capacity")
        try handle.call { rz_conversation_capacity_set($0, capacity, $1) }
    }

    /// Sets what later replies do if messages do not fit.
    public func setOverflow(_ overflow: Overflow) throws {
        try handle.call { rz_conversation_overflow_set($0, overflow.rawValue, $1) }
    }

    /// Sets the LoRA adapters (with scales) for later replies, or none. Clears the KV cache.
    public func setAdapters(_ adapters: [(Adapter, scale: Float)]) throws {
        let scales = adapters.map(\.scale)
        try useAll(adapters.map { $0.0.handle }) { adapters in
            try handle.call { rz_conversation_adapters_set($0, adapters, scales, adapters.count, $1) }
        }
    }

    /// Sets the prefix cache for later replies; nil: none.
    public func setStore(_ store: Store?) throws {
        try handle.call(with: store?.handle) { rz_conversation_store_set($0, $1, $2) }
    }

    /// Sets the `Cancel` for later computing calls, instead of `ConversationOptions.cancel`; nil: none.
    public func setCancel(_ cancel: Cancel?) throws {
        try handle.call(with: cancel?.handle) { rz_conversation_cancel_set($0, $1, $2) }
    }

    /// Returns the handle for a reply, which must be the current one.
    @discardableResult
    func use<R>(_ turn: Int, _ body: (OpaquePointer) throws -> R) throws -> R {
        guard isCurrent(turn) else {
            throw RealizarError(.invalidArgument, "the conversation has gone on without this reply")
        }
        return try handle.use(body)
    }

    /// Ends an unfinished reply; its text becomes a message that can be continued.
    func giveUp(_ turn: Int) {
        guard changing.try() else { return }
        defer { changing.unlock() }
        guard isCurrent(turn), let info = try? info(), info.state != .ended else { return }
        if handle.use({ rz_conversation_add($0, "[]", 2, nil, 0, nil) }) == RZ_OK.rawValue { passed() }
    }

    /// Adds a user message and returns the content of the reply, piece by piece, computed on demand. If the loop is
    /// left, the conversation keeps the text so far.
    public func say(_ text: String, _ options: Options = Options()) throws -> AsyncCompactMapSequence<Reply, String> {
        try notReading()
        try add("user", text)
        do {
            var options = options
            options.keeps = true
            return try reply(options).compactMap { $0.kind == .content ? $0.text : nil }
        } catch {
            try rewind(info().messages - 1)
            throw error
        }
    }

    /// Adds a user message and computes the whole reply on this thread; `onText` gets the pieces. If it returns false
    /// or throws, the reply ends and the conversation keeps the text so far. Any other failure restores the messages.
    public func say(_ text: String, _ options: Options = Options(), _ onText: (String) throws -> Bool) throws {
        try notReading()
        var options = options
        options.keeps = true
        let before = try info().messages
        try add("user", text)
        let reply: Reply
        do { reply = try self.reply(options) } catch {
            try rewind(before)
            throw error
        }
        guard changing.try() else { throw RealizarError(.busy, "the conversation is in use by another call") }
        defer { changing.unlock() }
        do {
            var going = true
            while going {
                going = try reply.step()
                for part in try reply.parts() where part.kind == .content {
                    do {
                        if try onText(part.text) { continue }
                    } catch {
                        try reply.stop()
                        throw Met(error: error)
                    }
                    return try reply.stop()
                }
            }
        } catch let met as Met {
            throw met.error
        } catch let error as RealizarError where error.code == .cancelled || error.code == .deadline {
            try reply.stop()
            throw error
        } catch let error as RealizarError {
            try handle.call { rz_conversation_rewind($0, UInt32(before), $1) }
            passed()
            throw error
        }
    }

    /// An error that a callback threw.
    private struct Met: Error { let error: any Error }

    /// Returns the messages from index `first` on, in JSON; replies have "reasoning_content", "tool_calls" and
    /// "finish_reason". An unfinished reply is not included.
    public func json(from first: Int = 0) throws -> String {
        let first = try whole(first, "first")
        return try handle.use { conversation in
            try sizedText(4096) { rz_conversation_json_into(conversation, first, $0, $1, $2, $3) }
        }
    }

    /// Returns the messages from index `first` on as values.
    public func messages(from first: Int = 0) throws -> [JSON] {
        guard case .array(let messages) = try JSON(json(from: first)) else { return [] }
        return messages
    }

    /// Returns a copy of the conversation, which shares the KV cache copy-on-write.
    public func fork() throws -> Conversation {
        Conversation(model, try Handle(of: handle, free: { rz_conversation_free($0) }) { rz_conversation_fork($0, $1, $2) })
    }

    public func info() throws -> ConversationInfo {
        ConversationInfo(try handle.filled(rz_conversation_info()) { rz_conversation_info_get($0, $1, $2) })
    }
}
