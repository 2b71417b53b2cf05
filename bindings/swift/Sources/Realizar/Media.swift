import CRealizar

/// Placeholder for a row of media in the tokens of sessions and prompts.
public let mediaToken = UInt32.max - 1

extension EncoderOptions {
    /// The choices as the library takes them, for the time of a call.
    func with<R>(_ path: String, _ cancel: Cancel?, _ body: ([CChar], UnsafePointer<rz_encoder_params>) throws -> R) throws -> R {
        let name = try terminated(path, "path")
        var params = try numbers()
        params.flags = allowUnknown ? UInt32(RZ_MODEL_ALLOW_UNKNOWN) : 0
        if let kind, kind != .image && kind != .audio {
            throw RealizarError(.invalidArgument, "kind is \(kind); it must be image or audio")
        }
        params.flags |= kind == .image ? UInt32(RZ_ENCODER_IMAGE) : kind == .audio ? UInt32(RZ_ENCODER_AUDIO) : 0
        return try withProgress(progress) { callback, user in
            try use(cancel?.handle) { cancel in
                params.progress = callback
                params.progress_user = user
                params.cancel = cancel
                return try body(name, &params)
            }
        }
    }
}

extension MediaOptions {
    /// The choices as the library takes them, for the time of a call.
    func with<R>(_ cancel: Cancel?, _ body: (UnsafePointer<rz_media_params>) throws -> R) throws -> R {
        var params = try numbers()
        params.flags = inSteps ? UInt32(RZ_ENCODE_STEPS) : 0
        return try withProgress(inSteps ? nil : progress) { callback, user in
            try use(cancel?.handle) { cancel in
                params.progress = callback
                params.progress_user = user
                params.cancel = cancel
                return try body(&params)
            }
        }
    }
}

/// The C progress callback and its user data, during the call.
func withProgress<R>(
    _ progress: (@Sendable (UInt64, UInt64) -> Bool)?, _ body: (rz_progress_callback?, UnsafeMutableRawPointer?) throws -> R
) rethrows -> R {
    guard let progress else { return try body(nil, nil) }
    let box = Box(progress)
    let callback: rz_progress_callback = { done, total, user in
        guard let user else { return 1 }
        let progress = Unmanaged<Box<@Sendable (UInt64, UInt64) -> Bool>>.fromOpaque(user).takeUnretainedValue()
        return progress.value(done, total) ? 0 : 1
    }
    return try withExtendedLifetime(box) { try body(callback, Unmanaged.passUnretained(box).toOpaque()) }
}

/// The order of the bytes of a pixel; the fourth of four is alpha.
public enum PixelFormat: UInt32, Sendable {
    case rgb8 = 1, rgba8, bgra8, gray8

    var bytes: Int {
        switch self {
        case .rgb8: 3
        case .rgba8, .bgra8: 4
        case .gray8: 1
        }
    }
}

/// A side of an image, in pixels.
private func side(_ value: Int, _ name: String) throws -> Int {
    guard 1...65535 ~= value else { throw RealizarError(.invalidArgument, "\(name) is \(value); it must be from 1 to 65535") }
    return value
}

/// A vision or audio encoder with its projector. Any number of threads may use it at once.
public final class Encoder: Sendable {
    let handle: Handle
    public let info: EncoderInfo

    /// Loads a model's encoder: the .gguf file with the projector ("mmproj-..."), or a folder with a config.json (the
    /// model's own if it contains both). Blocks until the file is read.
    public convenience init(
        _ model: Model, _ path: String, options: EncoderOptions = EncoderOptions(), cancel: Cancel? = nil
    ) throws {
        try self.init(
            options.with(path, cancel) { name, params in
                try Handle(of: model.handle, free: { rz_encoder_free($0) }) { rz_encoder_load($0, name, params, $1, $2) }
            })
    }

    /// Loads an encoder from bytes in memory, as `Model` does.
    public convenience init(
        _ model: Model, files: [String: [UInt8]], options: EncoderOptions = EncoderOptions(), cancel: Cancel? = nil
    ) throws {
        try self.init(
            options.with("", cancel) { _, params in
                try Model.withSources(Array(files)[...]) { sources in
                    try Handle(of: model.handle, free: { rz_encoder_free($0) }) { rz_encoder_load_from($0, sources, sources.count, params, $1, $2) }
                }
            })
    }

    private init(_ handle: Handle) throws {
        self.handle = handle
        info = EncoderInfo(try handle.filled(rz_encoder_info()) { rz_encoder_info_get($0, $1, $2) })
    }

    /// Returns the memory that an encoder will take, before a weight is read.
    public static func plan(_ model: Model, _ path: String, options: EncoderOptions = EncoderOptions()) throws -> EncoderPlan {
        try options.with(path, nil) { name, params in
            EncoderPlan(try model.handle.filled(rz_encoder_plan()) { rz_encoder_plan_get($0, name, nil, 0, params, $1, $2) })
        }
    }

    /// Encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file.
    public func encode(file: [UInt8], options: MediaOptions = MediaOptions(), cancel: Cancel? = nil) throws -> Media {
        try made(options, cancel) { rz_media_from_image($0, file, file.count, $1, $2, $3) }
    }

    private func made(
        _ options: MediaOptions, _ cancel: Cancel?,
        _ make: (OpaquePointer, UnsafePointer<rz_media_params>, UnsafeMutablePointer<OpaquePointer?>, UnsafeMutablePointer<rz_error>) throws -> rz_status
    ) throws -> Media {
        try options.with(cancel) { params in try Media.made(of: handle) { try make($0, params, $1, $2) } }
    }

    /// Encodes an image in memory, row by row from the top. `stride`: bytes from one row to the next; 0: contiguous.
    public func encode(
        pixels: [UInt8], format: PixelFormat, width: Int, height: Int, stride: Int = 0, options: MediaOptions = MediaOptions(),
        cancel: Cancel? = nil
    ) throws -> Media {
        let row = try format.bytes * side(width, "width")
        let step = stride == 0 ? row : Int(try whole(stride, "stride"))
        if step < row { throw RealizarError(.invalidArgument, "stride is \(stride); it must be at least \(row), the bytes of a row") }
        // The library cannot see where the array ends.
        guard try step * (side(height, "height") - 1) + row <= pixels.count else {
            throw RealizarError(.invalidArgument, "\(pixels.count) bytes are no \(width) x \(height) pixels")
        }
        return try pixels.withUnsafeBytes { data in
            var picture = sizedStruct(rz_pixels())
            picture.format = format.rawValue
            picture.width = UInt32(width)
            picture.height = UInt32(height)
            picture.stride = step
            picture.data = data.baseAddress
            return try made(options, cancel) { rz_media_from_pixels($0, &picture, $1, $2, $3) }
        }
    }

    /// Encodes a video: at least two frames of one size, contiguous, and the time of each in seconds from its
    /// beginning. The options `maxRows` and `minRows` are bounds for all frames together.
    public func encode(
        frames: [UInt8], times: [Double], format: PixelFormat, width: Int, height: Int, options: MediaOptions = MediaOptions(),
        cancel: Cancel? = nil
    ) throws -> Media {
        let size = try format.bytes * side(width, "width") * side(height, "height")
        // The library cannot see where the array ends.
        guard size * times.count == frames.count else {
            throw RealizarError(.invalidArgument, "\(frames.count) bytes are no \(times.count) frames of \(width) x \(height)")
        }
        return try frames.withUnsafeBytes { data in
            let list = times.indices.map { i in
                var frame = sizedStruct(rz_pixels())
                frame.format = format.rawValue
                frame.width = UInt32(width)
                frame.height = UInt32(height)
                frame.data = data.baseAddress.map { $0 + size * i }
                return frame
            }
            return try made(options, cancel) { rz_media_from_frames($0, list, times, times.count, $1, $2, $3) }
        }
    }

    /// Encodes audio: interleaved samples of the channels, from -1 to 1, `rate` per channel and second. Several
    /// channels are averaged. Of the options, `maxRows` and `progress` (in parts) have an effect.
    public func encode(
        samples: [Float], channels: Int = 1, rate: Int, options: MediaOptions = MediaOptions(), cancel: Cancel? = nil
    ) throws -> Media {
        let (channels, rate) = (try whole(channels, "channels"), try whole(rate, "rate"))
        return try made(options, cancel) { rz_media_from_samples($0, samples, samples.count, channels, rate, $1, $2, $3) }
    }

    /// Encodes audio from the bytes of a WAV, MP3, FLAC or Ogg file.
    public func encode(audio: [UInt8], options: MediaOptions = MediaOptions(), cancel: Cancel? = nil) throws -> Media {
        try made(options, cancel) { rz_media_from_audio($0, audio, audio.count, $1, $2, $3) }
    }

    /// Returns the info of an image of this size, or of audio with `width` samples per channel at the encoder's rate
    /// and height 0, without encoding; time and hash are zero.
    public func measure(width: Int, height: Int, options: MediaOptions = MediaOptions()) throws -> MediaInfo {
        let (width, height) = (try whole(width, "width"), try whole(height, "height"))
        return try options.with(nil) { params in
            MediaInfo(try handle.filled(rz_media_info()) { rz_media_measure($0, width, height, params, $1, $2) })
        }
    }
}

/// The kind of media that rows represent.
public enum MediaKind: UInt32, Sendable, CaseIterable { case image = 1, audio, vector = 8, video = 16 }

/// Embeddings of an image, a video or audio, one row per token position, for any number of prompts. Any number of
/// threads may use them at once.
public final class Media: Sendable {
    let handle: Handle
    public let info: MediaInfo
    /// The key of `info`.
    public var hash: [UInt8] { info.hash }

    private init(_ handle: Handle) throws {
        self.handle = handle
        info = MediaInfo(try handle.filled(rz_media_info()) { rz_media_info_get($0, $1, $2) })
    }

    static func made(
        of handle: Handle, _ make: (OpaquePointer, UnsafeMutablePointer<OpaquePointer?>, UnsafeMutablePointer<rz_error>) throws -> rz_status
    ) throws -> Media {
        try Media(Handle(of: handle, free: { rz_media_free($0) }, make: make))
    }

    /// Creates media from concatenated embeddings of the caller's own encoder. `columns` * `lines` must be the number
    /// of rows, for models with M-RoPE positions; 0 for both: one line.
    public convenience init(
        _ model: Model, rows: [Float], rowDim: Int, kind: MediaKind = .image, columns: Int = 0, lines: Int = 0
    ) throws {
        let width = try whole(rowDim, "rowDim")
        guard rowDim > 0 && rows.count % rowDim == 0 else {
            throw RealizarError(.invalidArgument, "\(rows.count) numbers are no rows of \(rowDim)")
        }
        let (columns, lines) = (try whole(columns, "columns"), try whole(lines, "lines"))
        try self.init(
            Handle(of: model.handle, free: { rz_media_free($0) }) { rz_media_from_rows($0, kind.rawValue, rows, rows.count / rowDim, width, columns, lines, $1, $2) })
    }

    /// Loads media that `save` wrote: `read` must fill each buffer completely, or throw. Needs no encoder.
    public static func load(_ model: Model, read: @escaping (UnsafeMutableRawBufferPointer) throws -> Void) throws -> Media {
        try Transfer(read).call { user in
            try made(of: model.handle) { rz_media_load($0, { Transfer.move($0, $1, $2) }, user, nil, $1, $2) }
        }
    }

    /// Passes the media to `write`, as `Session.save` does.
    public func save(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) throws {
        try handle.save(write) { rz_media_save($0, $1, $2, nil, $3) }
    }

    /// Encodes media of `MediaOptions.inSteps` for about this many microseconds; negative: 0; nil: to the end. Returns
    /// true while there is more to do; until then, prompts reject the media.
    public func step(microseconds: Int64? = nil) throws -> Bool {
        try handle.call { rz_media_step($0, limit(microseconds), $1) } == RZ_AGAIN.rawValue
    }

    /// The concatenated rows, each of `info.rowDim` numbers.
    public func rows() throws -> [Float] {
        try handle.use { media in try sized(info.rows * info.rowDim) { rz_media_rows_into(media, $0, $1, $2, $3) } }
    }
}

/// A sequence of tokens and media. Any number of threads may use it at once.
public final class Prompt: Sendable {
    public enum Part: Sendable { case tokens([UInt32]), media(Media) }

    let handle: Handle

    /// Creates a prompt of parts and keeps their media alive. `bare`: omits the model's tokens around and between the
    /// rows of media.
    public init(_ model: Model, _ parts: [Part], bare: Bool = false) throws {
        // All tokens in one array, so that only one must be pinned.
        let lists = parts.map { part -> [UInt32] in
            if case .tokens(let tokens) = part { return tokens }
            return []
        }
        let media = parts.map { part -> Handle? in
            if case .media(let media) = part { return media.handle }
            return nil
        }
        let flags = bare ? UInt32(RZ_PROMPT_BARE) : 0
        handle = try useAll(media) { media in
            try lists.flatMap { $0 }.withUnsafeBufferPointer { tokens in
                var next = tokens.baseAddress
                let raw = zip(lists, media).map { list, item in
                    defer { next = next.map { $0 + list.count } }
                    return rz_part(tokens: list.isEmpty ? nil : next, n_tokens: list.count, media: item)
                }
                return try Handle(of: model.handle, free: { rz_prompt_free($0) }) { rz_prompt_new($0, raw, raw.count, flags, $1, $2) }
            }
        }
    }

    /// Creates a prompt of a conversation in JSON, up to the beginning of the reply. Content parts name media by index:
    /// {"type": "image", "media": 0}.
    public init(_ model: Model, conversation json: String, media: [Media] = []) throws {
        handle = try useAll(media.map(\.handle)) { media in
            try withText(json) { json, length in
                try Handle(free: { rz_prompt_free($0) }) { out, error in
                    model.handle.use {
                        rz_prompt_from_chat($0, json, length, UInt32(RZ_CHAT_ADD_GENERATION_PROMPT), media, media.count, nil, out, error)
                    }
                }
            }
        }
    }

    /// Number of tokens, including one per row of media.
    public var count: Int { handle.use { rz_prompt_len($0) } }

    /// The tokens, with `mediaToken` for each row of media.
    public func tokens() throws -> [UInt32] {
        try handle.use { prompt in try sized(count) { rz_prompt_tokens_into(prompt, $0, $1, $2, $3) } }
    }
}

extension Session {
    /// Returns the length of the prompt's prefix that is already in the KV cache.
    public func match(_ prompt: Prompt) throws -> Int {
        var common: UInt32 = 0
        try prompt.handle.use { prompt in try handle.call { rz_cache_match_prompt($0, prompt, &common, $1) } }
        return Int(common)
    }

    /// Appends the prompt's tokens from index `first` on, at least one. `first` is 0, or the result of `match` after
    /// truncating the session to it.
    public func prefill(_ prompt: Prompt, first: Int = 0, cancel: Cancel? = nil) throws {
        let first = Int(try whole(first, "first"))
        try prompt.handle.use { prompt in
            try handle.call(with: cancel?.handle) { rz_prefill_prompt($0, prompt, first, $1, $2) }
        }
    }

    /// Creates a job that continues a prompt with media.
    public func job(_ prompt: Prompt, _ options: Options = Options()) throws -> Job {
        let tokens = try prompt.tokens()
        var kept = try match(prompt)
        // Rows at its end are computed together, because they may attend to each other.
        if kept > 0 && kept == tokens.count {
            repeat { kept -= 1 } while kept > 0 && tokens[kept] == mediaToken
        }
        try truncate(kept)
        return try Job(self, [], options, prompt, first: kept)
    }
}
