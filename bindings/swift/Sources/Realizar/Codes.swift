// The statuses that a call can fail with. The build writes this file: make header.
import CRealizar

extension RealizarError.Code {
    /// An argument is missing, out of range, not UTF-8, or otherwise never valid.
    public static let invalidArgument = Self(rawValue: RZ_ERR_INVALID_ARGUMENT.rawValue)
    /// Another call is using the handle.
    public static let busy = Self(rawValue: RZ_ERR_BUSY.rawValue)
    /// Host memory is exhausted.
    public static let outOfMemory = Self(rawValue: RZ_ERR_OUT_OF_MEMORY.rawValue)
    /// Device memory is exhausted.
    public static let deviceOutOfMemory = Self(rawValue: RZ_ERR_DEVICE_OUT_OF_MEMORY.rawValue)
    /// The call would exceed a limit set by the caller, or a bound of this library.
    public static let limit = Self(rawValue: RZ_ERR_LIMIT.rawValue)
    /// A file could not be read or written.
    public static let io = Self(rawValue: RZ_ERR_IO.rawValue)
    /// A file is damaged, or the weights of a model make a result NaN or infinite.
    public static let format = Self(rawValue: RZ_ERR_FORMAT.rawValue)
    /// The request is valid, but this library does not implement it.
    public static let unsupported = Self(rawValue: RZ_ERR_UNSUPPORTED.rawValue)
    /// A field or a flag needs a newer library.
    public static let version = Self(rawValue: RZ_ERR_VERSION.rawValue)
    /// A cancel was fired, or a callback asked to stop.
    public static let cancelled = Self(rawValue: RZ_ERR_CANCELLED.rawValue)
    /// The deadline has passed.
    public static let deadline = Self(rawValue: RZ_ERR_DEADLINE.rawValue)
    /// The tokens do not fit into the context window (the capacity of the cache).
    public static let contextFull = Self(rawValue: RZ_ERR_CONTEXT_FULL.rawValue)
    /// The buffer is too small.
    public static let bufferTooSmall = Self(rawValue: RZ_ERR_BUFFER_TOO_SMALL.rawValue)
    /// The device cannot be used; the message says why.
    public static let deviceUnavailable = Self(rawValue: RZ_ERR_DEVICE_UNAVAILABLE.rawValue)
    /// The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable, including its
    /// layers on other devices. The CPU and other models continue to work, on the same device too, because each
    /// model has its own context. According to NVIDIA's documentation some kernel faults, such as error 700
    /// (illegal address), make CUDA unusable in the whole process: then every model on a GPU returns this status,
    /// and only a new process can use the devices again.
    public static let deviceLost = Self(rawValue: RZ_ERR_DEVICE_LOST.rawValue)
    /// One call combines objects of different models.
    public static let mismatch = Self(rawValue: RZ_ERR_MISMATCH.rawValue)
    /// Caught bug of this library. Please report the message.
    public static let panic = Self(rawValue: RZ_ERR_PANIC.rawValue)
    /// An earlier call on this object ended with an internal error, whose message this error repeats. Close the
    /// object.
    public static let poisoned = Self(rawValue: RZ_ERR_POISONED.rawValue)
    /// Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the last entry.
    public static let notFound = Self(rawValue: RZ_ERR_NOT_FOUND.rawValue)
    /// Another call must come first: there are no logits before a prefill, and no rows of media before their
    /// encoding is done.
    public static let notReady = Self(rawValue: RZ_ERR_NOT_READY.rawValue)
    /// The system cannot create a thread or another resource; the same call may succeed later.
    public static let resources = Self(rawValue: RZ_ERR_RESOURCES.rawValue)
}
