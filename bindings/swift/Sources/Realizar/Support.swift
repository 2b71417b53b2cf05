// Calls of the C API: errors, handles, texts, and arrays that grow to the required size.
import CRealizar

/// A failed call of the library.
public struct RealizarError: Error, Sendable, CustomStringConvertible {
    /// A status of the library.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: Int32
        public init(rawValue: Int32) { self.rawValue = rawValue }
        /// The code of a field for the reason that a handle is stopped; nil: it is not.
        init?(stopped: Int32) {
            if stopped == 0 { return nil }
            rawValue = stopped
        }
        /// The name in the header, such as "RZ_ERR_FORMAT".
        public var description: String { String(cString: rz_status_name(rawValue)) }
    }

    public let code: Code
    /// `errno` of the call that failed, or 0.
    public let systemCode: Int32
    /// For `.contextFull`, the context length in tokens that would suffice; else 0.
    public let needed: UInt64
    public let message: String
    public var description: String { "\(code): \(message)" }

    init(_ error: rz_error) {
        code = Code(rawValue: error.code)
        systemCode = error.system_code
        needed = error.needed
        message = named(text(error.message))
    }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
        systemCode = 0
        needed = 0
    }
}

/// The library that the program runs with.
public enum Library {
    /// Its version, such as "0.1.0".
    public static var version: String { String(cString: rz_version()) }

    /// The first handle rejects a library whose ABI differs from the header's, or that lacks a struct or has another
    /// size for a fixed struct.
    static let problem: RealizarError? = {
        guard rz_abi_version() == UInt32(RZ_ABI_VERSION) else {
            return RealizarError(.version, "librealizar \(version) has the interface \(rz_abi_version()), \(RZ_ABI_VERSION) is needed")
        }
        var missing: Set = ["rz_error", "rz_model_params", "rz_model_info", "rz_sampler_params", "rz_cache_params", "rz_job_params",
            "rz_job_info", "rz_embed_params", "rz_runtime_params", "rz_model_sampling", "rz_source", "rz_model_plan", "rz_metrics",
            "rz_conversation_params", "rz_reply_params", "rz_conversation_info", "rz_store_params", "rz_store_info",
            "rz_encoder_params", "rz_encoder_info", "rz_encoder_plan", "rz_media_params", "rz_media_info", "rz_pixels"]
        var layout = sizedStruct(rz_layout())
        var index: UInt32 = 0
        while rz_layout_get(index, &layout, nil) == RZ_OK.rawValue {
            index += 1
            let name = text(layout.struct_name)
            guard text(layout.field_name).isEmpty, missing.remove(name) != nil else { continue }
            if name == "rz_error" && Int(layout.size) != MemoryLayout<rz_error>.size {
                return RealizarError(.version, "librealizar \(version) has \(layout.size) bytes for rz_error")
            }
        }
        return missing.isEmpty ? nil : RealizarError(.version, "librealizar \(version) lacks \(missing.sorted())")
    }()
}

/// A handle of the library, freed with its last reference.
final class Handle: @unchecked Sendable {
    private let pointer: OpaquePointer
    private let free: @Sendable (OpaquePointer?) -> Void

    init(
        free: @escaping @Sendable (OpaquePointer?) -> Void,
        make: (UnsafeMutablePointer<OpaquePointer?>, UnsafeMutablePointer<rz_error>) throws -> rz_status
    ) throws {
        if let problem = Library.problem { throw problem }
        var made: OpaquePointer?
        try Realizar.call { try make(&made, $0) }
        self.pointer = made!
        self.free = free
    }

    deinit { free(pointer) }

    /// A handle that is made from another one.
    convenience init(
        of other: Handle, free: @escaping @Sendable (OpaquePointer?) -> Void,
        make: (OpaquePointer, UnsafeMutablePointer<OpaquePointer?>, UnsafeMutablePointer<rz_error>) throws -> rz_status
    ) throws {
        try self.init(free: free) { out, error in try other.use { try make($0, out, error) } }
    }

    /// Makes a call with the pointer.
    @discardableResult
    func call(_ function: (OpaquePointer, UnsafeMutablePointer<rz_error>) throws -> rz_status) throws -> rz_status {
        try use { pointer in try Realizar.call { try function(pointer, $0) } }
    }

    /// Makes a call with the pointer and that of another handle, if there is one.
    @discardableResult
    func call(
        with other: Handle?, _ function: (OpaquePointer, OpaquePointer?, UnsafeMutablePointer<rz_error>) throws -> rz_status
    ) throws -> rz_status {
        try Realizar.use(other) { other in try call { try function($0, other, $1) } }
    }

    /// A struct that a call fills in.
    func filled<S>(
        _ empty: S, _ get: (OpaquePointer, UnsafeMutablePointer<S>, UnsafeMutablePointer<rz_error>) throws -> rz_status
    ) throws -> S {
        var filled = sizedStruct(empty)
        try call { try get($0, &filled, $1) }
        return filled
    }

    /// The pointer, which stays valid meanwhile.
    @discardableResult
    func use<R>(_ body: (OpaquePointer) throws -> R) rethrows -> R {
        try withExtendedLifetime(self) { try body(pointer) }
    }
}

/// The pointer of a handle that may be absent.
@discardableResult
func use<R>(_ handle: Handle?, _ body: (OpaquePointer?) throws -> R) rethrows -> R {
    guard let handle else { return try body(nil) }
    return try handle.use { try body($0) }
}

@discardableResult
func call(_ function: (UnsafeMutablePointer<rz_error>) throws -> rz_status) throws -> rz_status {
    var error = rz_error()
    let status = try function(&error)
    if status < 0 { throw RealizarError(error) }
    return status
}

/// Values that a function writes to a buffer, which is reallocated if it is too small.
func sized<T>(
    _ capacity: Int,
    _ function: (UnsafeMutablePointer<T>?, Int, UnsafeMutablePointer<Int>, UnsafeMutablePointer<rz_error>) -> rz_status
) throws -> [T] {
    // An empty buffer may have no pointer; NULL asks for the size.
    var capacity = max(capacity, 1)
    while true {
        var n = 0
        var error = rz_error()
        var status = RZ_OK.rawValue
        let values = [T](unsafeUninitializedCapacity: capacity) { buffer, count in
            status = function(buffer.baseAddress, capacity, &n, &error)
            count = status < 0 ? 0 : n
        }
        if status >= 0 { return values }
        if status != RZ_ERR_BUFFER_TOO_SMALL.rawValue { throw RealizarError(error) }
        capacity = n
    }
}

func sizedText(
    _ capacity: Int = 256,
    _ function: (UnsafeMutablePointer<CChar>?, Int, UnsafeMutablePointer<Int>, UnsafeMutablePointer<rz_error>) -> rz_status
) throws -> String {
    let bytes = try sized(capacity, function)
    return bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
}

/// A text with its length, as the library takes it.
@discardableResult
func withText<R>(_ text: String, _ body: (UnsafePointer<CChar>?, Int) throws -> R) rethrows -> R {
    var text = text
    return try text.withUTF8 { bytes in
        try bytes.withMemoryRebound(to: CChar.self) { try body($0.baseAddress, $0.count) }
    }
}

/// A text that ends with a NUL, and has none in it.
func terminated(_ text: String, _ name: String) throws -> [CChar] {
    if text.utf8.contains(0) { throw RealizarError(.invalidArgument, "\(name) has a NUL; it must have none") }
    return Array(text.utf8CString)
}

/// Holds copies of the data and the handles that parameters point to, until it is released.
final class Pins {
    private var memory: [UnsafeMutableRawPointer] = []
    private var handles: [Handle] = []

    deinit { for each in memory { each.deallocate() } }

    /// The address of a copy of numbers or structs; nil: there are none.
    func of<T>(_ values: [T]) -> UnsafePointer<T>? {
        if values.isEmpty { return nil }
        let copy = UnsafeMutablePointer<T>.allocate(capacity: values.count)
        copy.initialize(from: values, count: values.count)
        memory.append(UnsafeMutableRawPointer(copy))
        return UnsafePointer(copy)
    }

    /// The address of a copy of a text that ends with a NUL, and has no other.
    func of(_ text: String?, _ name: String) throws -> UnsafePointer<CChar>? {
        try text.flatMap { of(try terminated($0, name)) }
    }

    /// The addresses of such copies.
    func of(_ texts: [String], _ name: String) throws -> UnsafePointer<UnsafePointer<CChar>?>? {
        of(try texts.enumerated().map { try of($1, "\(name)[\($0)]") })
    }

    /// The address of a copy of a text, and its length.
    func sized(_ text: String?) -> (UnsafePointer<CChar>?, Int) {
        guard let copy = text.flatMap({ of(Array($0.utf8CString)) }) else { return (nil, 0) }
        return (copy, text?.utf8.count ?? 0)
    }

    /// The pointer of a handle; nil: there is none.
    func of(_ handle: Handle?) -> OpaquePointer? {
        guard let handle else { return nil }
        handles.append(handle)
        return handle.use { $0 }
    }
}

/// Makes a call with parameters that point to what is held for its time.
func withPins<R>(_ body: (Pins) throws -> R) rethrows -> R {
    let pins = Pins()
    return try withExtendedLifetime(pins) { try body(pins) }
}

/// The text in an array of a struct, up to its NUL.
func text<Characters>(_ characters: Characters) -> String {
    withUnsafeBytes(of: characters) { bytes in String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
}

/// The numbers in an array of a struct.
func numbers<Numbers, Number>(_ array: Numbers, _ type: Number.Type = UInt32.self) -> [Number] {
    withUnsafeBytes(of: array) { Array($0.bindMemory(to: type)) }
}

/// The pointers of several handles, absent ones among them, which stay valid meanwhile.
@discardableResult
func useAll<R>(_ handles: [Handle?], _ body: ([OpaquePointer?]) throws -> R) rethrows -> R {
    try withExtendedLifetime(handles) { try body(handles.map { handle in use(handle) { $0 } }) }
}

/// A time as the library takes it: nil: RZ_NO_LIMIT; negative: 0.
func limit(_ microseconds: Int64?) -> UInt64 { microseconds.map { UInt64(max($0, 0)) } ?? .max }

/// A number, with 0 as RZ_NONE; nil: the default.
func orNone(_ value: Int?, _ name: String) throws -> UInt32 {
    guard let value else { return 0 }
    return value == 0 ? UInt32.max : try whole(value, name)
}

/// Converts a number to the library's type. Throws if it is negative or too large.
func whole(_ value: Int, _ name: String) throws -> UInt32 {
    guard let number = UInt32(exactly: value) else {
        throw RealizarError(.invalidArgument, "\(name) is \(value); it must be a whole number from 0 to \(UInt32.max)")
    }
    return number
}

/// The numbers of a list. Errors name the element.
func wholes(_ values: [Int], _ name: String) throws -> [UInt32] {
    try values.enumerated().map { try whole($1, "\(name)[\($0)]") }
}

/// A number that may have a fraction. Throws for NaN and infinity.
func real(_ value: Float, _ name: String) throws -> Float {
    if !value.isFinite { throw RealizarError(.invalidArgument, "\(name) is \(value); it must be a finite number") }
    return value
}

/// Makes a step of a batch. False if nothing is left to do, also because the rest was cancelled or has reached its
/// deadline.
func stepAll(
    _ handles: [Handle], _ step: (UnsafePointer<OpaquePointer?>, Int, UnsafeMutablePointer<rz_error>) -> rz_status
) throws -> Bool {
    do {
        return try useAll(handles) { all in try call { step(all, all.count, $0) } } != RZ_DONE.rawValue
    } catch let error as RealizarError where error.code == .cancelled || error.code == .deadline {
        return false
    }
}

/// A number that may be negative.
func signed(_ value: Int, _ name: String) throws -> Int32 {
    guard let number = Int32(exactly: value) else {
        throw RealizarError(.invalidArgument, "\(name) is \(value); it must be a whole number from \(Int32.min) to \(Int32.max)")
    }
    return number
}

/// The struct with its size filled in, with which it begins.
func sizedStruct<S>(_ value: S) -> S {
    var value = value
    withUnsafeMutableBytes(of: &value) { $0.storeBytes(of: UInt32(MemoryLayout<S>.size), as: UInt32.self) }
    return value
}

/// Constants of C's enums as the fields and parameters take them. Their raw values have a sign on Windows.
extension UInt32 {
    init<Constant: RawRepresentable>(_ constant: Constant) where Constant.RawValue == UInt32 { self = constant.rawValue }
    init<Constant: RawRepresentable>(_ constant: Constant) where Constant.RawValue == Int32 { self.init(constant.rawValue) }
}

/// A message of the library, in which fields of its structs ("rz_reply_params.json_len") have the names of options.
func named(_ message: String) -> String {
    let words = message.split(separator: " ", omittingEmptySubsequences: false).map { word -> String in
        guard word.hasPrefix("rz_"), let dot = word.firstIndex(of: "."), word[..<dot].hasSuffix("_params") else { return String(word) }
        let parts = word[word.index(after: dot)...].split(separator: "_", omittingEmptySubsequences: false)
        return parts.dropFirst().reduce(String(parts[0])) { $0 + $1.prefix(1).uppercased() + String($1.dropFirst()) }
    }
    return words.joined(separator: " ")
}
