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

/// The state of a store.
public struct StoreInfo: Sendable {
    /// Prefixes in memory, and in files of the model.
    public let entries, files: Int
    /// Bytes of both.
    public let memoryBytes, diskBytes: UInt64
    /// Lookups with and without a result.
    public let hits, misses: UInt64
    /// Tokens reused from prefixes.
    public let reusedTokens: UInt64
    /// Prefixes dropped because they could not be written, as on a full disk.
    public let unwritten: Int
}

/// A prefix cache for sessions and conversations of one model. With a folder, other processes use it too. Any number of
/// tasks may use it at once.
public final class Store: Sendable {
    public let model: Model
    let handle: Handle

    public init(_ model: Model, options: StoreOptions = StoreOptions()) throws {
        var params = sizedStruct(rz_store_params(), \.struct_size)
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
        return try Session(model, Handle(free: { rz_cache_free($0) }) { out, error in
            handle.use { rz_store_take($0, tokens, tokens.count, &params, nil, out, &common, error) }
        })
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
        try handle.use { store in try session.handle.use { cache in try call { rz_store_put(store, cache, $0) } } }
    }

    /// Removes all prefixes, and the files of the model from the folder.
    public func clear() throws { try handle.use { store in try call { rz_store_clear(store, $0) } } }

    public func info() throws -> StoreInfo {
        var c = sizedStruct(rz_store_info(), \.struct_size)
        try handle.use { store in try call { rz_store_info_get(store, &c, $0) } }
        return StoreInfo(
            entries: Int(c.n_entries), files: Int(c.n_files), memoryBytes: c.memory_bytes, diskBytes: c.disk_bytes,
            hits: c.hits, misses: c.misses, reusedTokens: c.reused_tokens,
            unwritten: Int(c.n_unwritten))
    }
}
