import CRealizar

/// A part of a reply.
public struct ReplyPart: Sendable, Hashable {
    /// A tool call is a whole id, a whole name, and arguments in pieces of a JSON object. The message has the same id.
    public enum Kind: UInt32, Sendable { case reasoning = 1, content, toolName, toolArguments, end, toolID }

    public let kind: Kind
    /// Index of the tool call that an id, a name or arguments belong to.
    public let call: Int
    public let text: String
    /// True for content that begins like a tool call but is none, and for the end of a reply with such content or with
    /// an incomplete tool call.
    public let unparsed: Bool
}

/// Parses the reply to a conversation token by token: reasoning, content, tool calls. One call at a time.
public final class ChatParser: Sendable {
    private let handle: Handle

    /// `conversation`: the JSON whose tokens were the prompt.
    public init(_ model: Model, conversation: String) throws {
        handle = try Handle(free: { rz_chat_parser_free($0) }) { out, error in
            model.handle.use { model in withText(conversation) { rz_chat_parser_new(model, $0, $1, nil, out, error) } }
        }
    }

    /// Adds a token and returns the parts that it completes, often none.
    public func push(_ token: UInt32) throws -> [ReplyPart] {
        try handle.call { rz_chat_parser_push($0, token, $1) }
        return try parts()
    }

    /// Ends the reply and returns the rest.
    public func end() throws -> [ReplyPart] {
        try handle.call { rz_chat_parser_end($0, $1) }
        return try parts()
    }

    private func parts() throws -> [ReplyPart] { try handle.use { parser in try takeParts { rz_chat_parser_next_into(parser, $0, $1, $2, $3, $4, $5, $6) } } }
}

/// Returns the pending parts of a function.
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
        guard let known = ReplyPart.Kind(rawValue: kind) else { continue } // a kind of a newer library
        parts.append(ReplyPart(kind: known, call: Int(index), text: text, unparsed: flags & UInt32(RZ_CHAT_EVENT_FLAG_UNPARSED) != 0))
    }
}
