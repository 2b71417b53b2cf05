// The statuses that a call can fail with. The build writes this file: make header.
namespace Realizar
{
    /// <summary>Outcomes of calls that failed.</summary>
    public enum Status
    {
        /// <summary>An argument is missing, out of range, not UTF-8, or otherwise never valid.</summary>
        InvalidArgument = Native.RZ_ERR_INVALID_ARGUMENT,
        /// <summary>Another call is using the handle.</summary>
        Busy = Native.RZ_ERR_BUSY,
        /// <summary>Host memory is exhausted.</summary>
        OutOfMemory = Native.RZ_ERR_OUT_OF_MEMORY,
        /// <summary>Device memory is exhausted.</summary>
        DeviceOutOfMemory = Native.RZ_ERR_DEVICE_OUT_OF_MEMORY,
        /// <summary>The call would exceed a limit set by the caller, or a bound of this library.</summary>
        Limit = Native.RZ_ERR_LIMIT,
        /// <summary>A file could not be read or written.</summary>
        IO = Native.RZ_ERR_IO,
        /// <summary>A file is damaged, or the weights of a model make a result NaN or infinite.</summary>
        Format = Native.RZ_ERR_FORMAT,
        /// <summary>The request is valid, but this library does not implement it.</summary>
        Unsupported = Native.RZ_ERR_UNSUPPORTED,
        /// <summary>A field or a flag needs a newer library.</summary>
        Version = Native.RZ_ERR_VERSION,
        /// <summary>A cancel was fired, or a callback asked to stop.</summary>
        Cancelled = Native.RZ_ERR_CANCELLED,
        /// <summary>The deadline has passed.</summary>
        Deadline = Native.RZ_ERR_DEADLINE,
        /// <summary>The tokens do not fit into the context window (the capacity of the cache).</summary>
        ContextFull = Native.RZ_ERR_CONTEXT_FULL,
        /// <summary>The buffer is too small.</summary>
        BufferTooSmall = Native.RZ_ERR_BUFFER_TOO_SMALL,
        /// <summary>The device cannot be used; the message says why.</summary>
        DeviceUnavailable = Native.RZ_ERR_DEVICE_UNAVAILABLE,
        /// <summary>The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable,
        /// including its layers on other devices. The CPU and other models continue to work, on the same device
        /// too, because each model has its own context. According to NVIDIA's documentation some kernel faults,
        /// such as error 700 (illegal address), make CUDA unusable in the whole process: then every model on a GPU
        /// returns this status, and only a new process can use the devices again.</summary>
        DeviceLost = Native.RZ_ERR_DEVICE_LOST,
        /// <summary>One call combines objects of different models.</summary>
        Mismatch = Native.RZ_ERR_MISMATCH,
        /// <summary>Caught bug of this library. Please report the message.</summary>
        Panic = Native.RZ_ERR_PANIC,
        /// <summary>An earlier call on this object ended with an internal error, whose message this error repeats.
        /// Close the object.</summary>
        Poisoned = Native.RZ_ERR_POISONED,
        /// <summary>Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the
        /// last entry.</summary>
        NotFound = Native.RZ_ERR_NOT_FOUND,
        /// <summary>Another call must come first: there are no logits before a prefill, and no rows of media
        /// before their encoding is done.</summary>
        NotReady = Native.RZ_ERR_NOT_READY,
        /// <summary>The system cannot create a thread or another resource; the same call may succeed
        /// later.</summary>
        Resources = Native.RZ_ERR_RESOURCES,
    }
}
