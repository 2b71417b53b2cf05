import CRealizar

/// Options of a prefix cache; zero means the default.
public struct StoreOptions: Sendable {
    /// Minimum tokens of a prefix; 0: 64.
    public var minTokens = 0
    /// Bytes and number of prefixes in memory; 0: a tenth of free memory, at most 1 GiB, and 1024.
    public var memoryLimit: UInt64 = 0
    public var maxEntries = 0
    /// A folder of files that outlive the process, created if it is missing; nil: none.
    public var path: String?
    /// Bytes of files in the folder; 0: a tenth of the free space, at most 16 GiB.
    public var diskLimit: UInt64 = 0

    public init(minTokens: Int = 0, path: String? = nil) {
        self.minTokens = minTokens
        self.path = path
    }
}

/// A prefix cache for sessions and conversations of one model. With a folder, other processes use it too. Any number of
/// tasks may use it at once.
public final class Store: Sendable {
    public let model: Model
    let handle: Handle

    public init(_ model: Model, options: StoreOptions = StoreOptions()) throws {
        var params = sizedStruct(rz_store_params())
        params.min_tokens = try whole(options.minTokens, "minTokens")
        params.memory_limit = options.memoryLimit
        params.max_entries = Int(try whole(options.maxEntries, "maxEntries"))
        params.disk_limit = options.diskLimit
        let path = try options.path.map { try terminated($0, "path") }
        self.model = model
        handle = try Handle(free: { rz_store_free($0) }) { out, error in
            model.handle.use { model in
                (path ?? []).withUnsafeBufferPointer { bytes in
                    params.path = path == nil ? nil : bytes.baseAddress
                    return rz_store_new(model, &params, out, error)
                }
            }
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
