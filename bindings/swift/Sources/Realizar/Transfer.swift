import CRealizar

/// The reader or writer of saved data during a call, and its error.
final class Transfer {
    private let move: (UnsafeMutableRawBufferPointer) throws -> Void
    private var met: (any Error)?

    init(_ move: @escaping (UnsafeMutableRawBufferPointer) throws -> Void) { self.move = move }

    /// Makes a call with the transfer, whose error takes precedence over the library's.
    @discardableResult
    func call<R>(_ body: (UnsafeMutableRawPointer) throws -> R) throws -> R {
        do {
            return try withExtendedLifetime(self) { try body(Unmanaged.passUnretained(self).toOpaque()) }
        } catch {
            throw met ?? error
        }
    }

    /// Moves bytes for the library.
    static func move(_ bytes: UnsafeMutableRawPointer?, _ n: Int, _ user: UnsafeMutableRawPointer?) -> Int32 {
        let inputOutputError: Int32 = 5  // EIO
        guard let user else { return inputOutputError }
        let transfer = Unmanaged<Transfer>.fromOpaque(user).takeUnretainedValue()
        do {
            try transfer.move(UnsafeMutableRawBufferPointer(start: bytes, count: n))
            return 0
        } catch {
            transfer.met = error
            return inputOutputError
        }
    }
}

extension Handle {
    /// Makes a call whose callback passes bytes to `write`.
    func save(
        _ write: @escaping (UnsafeRawBufferPointer) throws -> Void,
        _ function: (OpaquePointer, rz_write_callback, UnsafeMutableRawPointer, UnsafeMutablePointer<rz_error>) -> rz_status
    ) throws {
        try Transfer { try write(UnsafeRawBufferPointer($0)) }.call { user in
            try call { function($0, { Transfer.move(UnsafeMutableRawPointer(mutating: $0), $1, $2) }, user, $1) }
        }
    }
}

extension Session {
    /// Passes the session to `write`, piece by piece; `Model.restore` reads it. An error of `write` ends the call.
    public func save(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) throws {
        try handle.save(write) { rz_cache_save($0, $1, $2, nil, $3) }
    }
}

extension Model {
    /// Loads the session that `Session.save` wrote: `read` must fill each buffer completely, or throw.
    public func restore(_ read: @escaping (UnsafeMutableRawBufferPointer) throws -> Void) throws -> Session {
        try Transfer(read).call { user in
            try Session(self, Handle(of: handle, free: { rz_cache_free($0) }) {
                rz_cache_load($0, nil, { Transfer.move($0, $1, $2) }, user, nil, $1, $2)
            })
        }
    }
}

extension Conversation {
    /// Passes the conversation to `write`, as `Session.save` does.
    public func save(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) throws {
        try handle.save(write) { rz_conversation_save($0, $1, $2, nil, $3) }
    }

    /// Loads the conversation that `save` wrote. `options` must have no adapters; the saved overflow applies.
    public static func load(
        _ model: Model, options: ConversationOptions = ConversationOptions(),
        read: @escaping (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws -> Conversation {
        try Transfer(read).call { user in
            try options.with(nil) { params in
                Conversation(model, try Handle(of: model.handle, free: { rz_conversation_free($0) }) {
                    rz_conversation_load($0, params, { Transfer.move($0, $1, $2) }, user, $1, $2)
                })
            }
        }
    }
}
