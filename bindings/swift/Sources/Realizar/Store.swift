import CRealizar

/// A prefix cache for sessions and conversations of one model. With a folder, other processes use it too. Any number of
/// tasks may use it at once.
public final class Store: Sendable {
    public let model: Model
    let handle: Handle

    public init(_ model: Model, options: StoreOptions = StoreOptions()) throws {
        var params = try options.numbers()
        self.model = model
        handle = try withPins { pins in
            params.path = try pins.of(options.path, "path")
            return try Handle(of: model.handle, free: { rz_store_free($0) }) { rz_store_new($0, &params, $1, $2) }
        }
    }

    /// Returns a session with the longest stored prefix of the prompt, never the whole prompt: append the tokens from
    /// `session.count` on. `capacity` and types as for `Model.session`.
    public func take(_ tokens: [UInt32], capacity: Int = 0, keys: CacheType = .f16, values: CacheType = .f16) throws -> Session {
        var params = try Model.cacheParams(capacity, keys, values)
        var common: UInt32 = 0
        return try Session(model, Handle(of: handle, free: { rz_cache_free($0) }) { rz_store_take($0, tokens, tokens.count, &params, nil, $1, &common, $2) })
    }

    /// The same for a prompt with media: append the rest from token `session.count` on.
    public func take(_ prompt: Prompt, capacity: Int = 0, keys: CacheType = .f16, values: CacheType = .f16) throws -> Session {
        var params = try Model.cacheParams(capacity, keys, values)
        var common: UInt32 = 0
        return try Session(model, Handle(free: { rz_cache_free($0) }) { out, error in
            handle.use { store in prompt.handle.use { rz_store_take_prompt(store, $0, &params, nil, out, &common, error) } }
        })
    }

    /// Stores the session's tokens and KV cache as a prefix; the session remains usable.
    public func put(_ session: Session) throws {
        try handle.use { store in try session.handle.call { rz_store_put(store, $0, $1) } }
    }

    /// Removes all prefixes, and the files of the model from the folder.
    public func clear() throws { try handle.call { rz_store_clear($0, $1) } }

    public func info() throws -> StoreInfo { StoreInfo(try handle.filled(rz_store_info()) { rz_store_info_get($0, $1, $2) }) }
}
