import CRealizar

/// Converts tokens to text; holds back the bytes of an incomplete character. One call at a time.
public final class TextStream: Sendable {
    private let handle: Handle

    public init(_ model: Model) throws {
        handle = try Handle(of: model.handle, free: { rz_textstream_free($0) }) { rz_textstream_new($0, $1, $2) }
    }

    /// Sets the tokens before the next ones, such as a prompt, without returning their text.
    public func follow(_ tokens: [UInt32]) throws {
        try handle.call { rz_textstream_follow($0, tokens, tokens.count, $1) }
    }

    /// Adds a token and returns the text that it completes, often empty.
    public func push(_ token: UInt32) throws -> String {
        try handle.use { stream in try sizedText { rz_textstream_push_into(stream, token, $0, $1, $2, $3) } }
    }

    /// Ends the text and returns the rest.
    public func flush() throws -> String {
        try handle.use { stream in try sizedText { rz_textstream_flush_into(stream, $0, $1, $2, $3) } }
    }
}
