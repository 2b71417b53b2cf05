// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

// The statuses that a call can fail with.
const (
	// An argument is missing, out of range, not UTF-8, or otherwise never valid.
	ErrInvalidArgument Code = rz_ERR_INVALID_ARGUMENT
	// Another call is using the handle.
	ErrBusy Code = rz_ERR_BUSY
	// Host memory is exhausted.
	ErrOutOfMemory Code = rz_ERR_OUT_OF_MEMORY
	// Device memory is exhausted.
	ErrDeviceOutOfMemory Code = rz_ERR_DEVICE_OUT_OF_MEMORY
	// The call would exceed a limit set by the caller, or a bound of this library.
	ErrLimit Code = rz_ERR_LIMIT
	// A file could not be read or written.
	ErrIO Code = rz_ERR_IO
	// A file is damaged, or the weights of a model make a result NaN or infinite.
	ErrFormat Code = rz_ERR_FORMAT
	// The request is valid, but this library does not implement it.
	ErrUnsupported Code = rz_ERR_UNSUPPORTED
	// A field or a flag needs a newer library.
	ErrVersion Code = rz_ERR_VERSION
	// A cancel was fired, or a callback asked to stop.
	ErrCancelled Code = rz_ERR_CANCELLED
	// The deadline has passed.
	ErrDeadline Code = rz_ERR_DEADLINE
	// The tokens do not fit into the context window (the capacity of the cache).
	ErrContextFull Code = rz_ERR_CONTEXT_FULL
	// The buffer is too small.
	ErrBufferTooSmall Code = rz_ERR_BUFFER_TOO_SMALL
	// The device cannot be used; the message says why.
	ErrDeviceUnavailable Code = rz_ERR_DEVICE_UNAVAILABLE
	// The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable, including its
	// layers on other devices. The CPU and other models continue to work, on the same device too, because each model
	// has its own context. According to NVIDIA's documentation some kernel faults, such as error 700 (illegal
	// address), make CUDA unusable in the whole process: then every model on a GPU returns this status, and only a
	// new process can use the devices again.
	ErrDeviceLost Code = rz_ERR_DEVICE_LOST
	// One call combines objects of different models.
	ErrMismatch Code = rz_ERR_MISMATCH
	// Caught bug of this library. Please report the message.
	ErrPanic Code = rz_ERR_PANIC
	// An earlier call on this object ended with an internal error, whose message this error repeats. Close the
	// object.
	ErrPoisoned Code = rz_ERR_POISONED
	// Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the last entry.
	ErrNotFound Code = rz_ERR_NOT_FOUND
	// Another call must come first: there are no logits before a prefill, and no rows of media before their encoding
	// is done.
	ErrNotReady Code = rz_ERR_NOT_READY
	// The system cannot create a thread or another resource; the same call may succeed later.
	ErrResources Code = rz_ERR_RESOURCES
)
