import CRealizar

/// Limits of a store; zero stands for the default.
public struct StoreOptions: Sendable {
    /// Prefixes of fewer tokens are neither kept nor looked for; 0: 64.
    public var minTokens = 0
    /// Bytes and number of prefixes in memory; 0: a tenth of what is free, at most 1 GiB, and 1024.
    public var memoryLimit: UInt64 = 0
    public var maxEntries = 0
    /// A folder of files that outlive the process, created if it is missing; nil: none.
    public var path: String?
    /// Bytes of files in the folder; 0: a tenth of what is free, at most 16 GiB.
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
    /// Times that a prefix was found, and was not.
    public let hits, misses: UInt64
    /// Tokens that were not computed because of it.
    public let reusedTokens: UInt64
    /// Prefixes that were forgotten because they could not be written, as on a full disk.
    public let unwritten: Int
}

/// Remembers what prompts left behind, for sessions and conversations of one model that begin with the same tokens.
/// With a folder it does so for other processes too. Any number of tasks may use it at once.
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

    /// A session for a prompt, which holds so many of its first tokens as the store knows, but never the last one:
    /// those from `session.count` on are to be appended. `capacity` and types as of `Model.session`.
    public func take(_ tokens: [UInt32], capacity: Int = 0, keys: CacheType = .f16, values: CacheType = .f16) throws -> Session {
        var params = try Model.cacheParams(capacity, keys, values)
        var common: UInt32 = 0
        return try Session(model, Handle(free: { rz_cache_free($0) }) { out, error in
            handle.use { rz_store_take($0, tokens, tokens.count, &params, nil, out, &common, error) }
        })
    }

    /// The same for a prompt, the rest of which is appended from token `session.count` on.
    public func take(_ prompt: Prompt, capacity: Int = 0, keys: CacheType = .f16, values: CacheType = .f16) throws -> Session {
        var params = try Model.cacheParams(capacity, keys, values)
        var common: UInt32 = 0
        return try Session(model, Handle(free: { rz_cache_free($0) }) { out, error in
            handle.use { store in prompt.handle.use { rz_store_take_prompt(store, $0, &params, nil, out, &common, error) } }
        })
    }

    /// Remembers the tokens that a session holds, which goes on by itself.
    public func put(_ session: Session) throws {
        try handle.use { store in try session.handle.use { cache in try call { rz_store_put(store, cache, $0) } } }
    }

    /// Forgets all prefixes, and removes the files of the model from the folder.
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
