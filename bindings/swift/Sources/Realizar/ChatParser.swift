import CRealizar

/// A part of a reply.
public struct ReplyPart: Sendable, Hashable {
    /// A call is its id and its name, which are whole, and arguments, pieces of a JSON object. The message has the same
    /// id.
    public enum Kind: UInt32, Sendable { case reasoning = 1, content, toolName, toolArguments, end, toolID }

    public let kind: Kind
    /// The number of the call that an id, a name or arguments belong to.
    public let call: Int
    public let text: String
    /// Content that begins like a call and is none; at the end: there was such, or a call broke off.
    public let unparsed: Bool
}

/// Takes the reply to a conversation apart while its tokens come: reasoning, content, calls of tools. One call at a
/// time.
public final class ChatParser: Sendable {
    private let handle: Handle

    /// `conversation`: the JSON whose tokens were the prompt.
    public init(_ model: Model, conversation: String) throws {
        handle = try Handle(free: { rz_chat_parser_free($0) }) { out, error in
            model.handle.use { model in withText(conversation) { rz_chat_parser_new(model, $0, $1, nil, out, error) } }
        }
    }

    /// Adds a token, and gives the parts that it completes, often none.
    public func push(_ token: UInt32) throws -> [ReplyPart] {
        try handle.use { parser in try call { rz_chat_parser_push(parser, token, $0) } }
        return try parts()
    }

    /// Ends the reply, and gives the rest of it.
    public func end() throws -> [ReplyPart] {
        try handle.use { parser in try call { rz_chat_parser_end(parser, $0) } }
        return try parts()
    }

    private func parts() throws -> [ReplyPart] { try handle.use { parser in try takeParts { rz_chat_parser_next_into(parser, $0, $1, $2, $3, $4, $5, $6) } } }
}

/// The parts that a function has ready.
func takeParts(
    _ next: (
        UnsafeMutablePointer<UInt32>, UnsafeMutablePointer<UInt32>, UnsafeMutablePointer<UInt32>, UnsafeMutablePointer<CChar>?, Int,
        UnsafeMutablePointer<Int>, UnsafeMutablePointer<rz_error>
    ) -> rz_status
) throws -> [ReplyPart] {
    var parts: [ReplyPart] = []
    while true {
        var kind: UInt32 = 0
        var flags: UInt32 = 0
        var index: UInt32 = 0
        let text = try sizedText { next(&kind, &flags, &index, $0, $1, $2, $3) }
        if kind == 0 { return parts }
        guard let known = ReplyPart.Kind(rawValue: kind) else { continue } // of a newer library
        parts.append(ReplyPart(kind: known, call: Int(index), text: text, unparsed: flags & UInt32(RZ_CHAT_EVENT_FLAG_UNPARSED) != 0))
    }
}
