// The statuses that a call can fail with. The build writes this file: make header.

/** Names of statuses.
 *
 * - RZ_ERR_INVALID_ARGUMENT: An argument is missing, out of range, not UTF-8, or otherwise never valid.
 * - RZ_ERR_BUSY: Another call is using the handle.
 * - RZ_ERR_OUT_OF_MEMORY: Host memory is exhausted.
 * - RZ_ERR_DEVICE_OUT_OF_MEMORY: Device memory is exhausted.
 * - RZ_ERR_LIMIT: The call would exceed a limit set by the caller, or a bound of this library.
 * - RZ_ERR_IO: A file could not be read or written.
 * - RZ_ERR_FORMAT: A file is damaged, or the weights of a model make a result NaN or infinite.
 * - RZ_ERR_UNSUPPORTED: The request is valid, but this library does not implement it.
 * - RZ_ERR_VERSION: A field or a flag needs a newer library.
 * - RZ_ERR_CANCELLED: A cancel was fired, or a callback asked to stop.
 * - RZ_ERR_DEADLINE: The deadline has passed.
 * - RZ_ERR_CONTEXT_FULL: The tokens do not fit into the context window (the capacity of the cache).
 * - RZ_ERR_BUFFER_TOO_SMALL: The buffer is too small.
 * - RZ_ERR_DEVICE_UNAVAILABLE: The device cannot be used; the message says why.
 * - RZ_ERR_DEVICE_LOST: The device failed, or did not answer for 60 seconds; its work is lost. The model is
 * unusable, including its layers on other devices. The CPU and other models continue to work, on the same device
 * too, because each model has its own context. According to NVIDIA's documentation some kernel faults, such as
 * error 700 (illegal address), make CUDA unusable in the whole process: then every model on a GPU returns this
 * status, and only a new process can use the devices again.
 * - RZ_ERR_MISMATCH: One call combines objects of different models.
 * - RZ_ERR_PANIC: Caught bug of this library. Please report the message.
 * - RZ_ERR_POISONED: An earlier call on this object ended with an internal error, whose message this error
 * repeats. Close the object.
 * - RZ_ERR_NOT_FOUND: Not found: a key, a device, an image, audio or video of a conversation, or an index beyond
 * the last entry.
 * - RZ_ERR_NOT_READY: Another call must come first: there are no logits before a prefill, and no rows of media
 * before their encoding is done.
 * - RZ_ERR_RESOURCES: The system cannot create a thread or another resource; the same call may succeed later.
 */
export type StatusName =
  | "RZ_ERR_INVALID_ARGUMENT"
  | "RZ_ERR_BUSY"
  | "RZ_ERR_OUT_OF_MEMORY"
  | "RZ_ERR_DEVICE_OUT_OF_MEMORY"
  | "RZ_ERR_LIMIT"
  | "RZ_ERR_IO"
  | "RZ_ERR_FORMAT"
  | "RZ_ERR_UNSUPPORTED"
  | "RZ_ERR_VERSION"
  | "RZ_ERR_CANCELLED"
  | "RZ_ERR_DEADLINE"
  | "RZ_ERR_CONTEXT_FULL"
  | "RZ_ERR_BUFFER_TOO_SMALL"
  | "RZ_ERR_DEVICE_UNAVAILABLE"
  | "RZ_ERR_DEVICE_LOST"
  | "RZ_ERR_MISMATCH"
  | "RZ_ERR_PANIC"
  | "RZ_ERR_POISONED"
  | "RZ_ERR_NOT_FOUND"
  | "RZ_ERR_NOT_READY"
  | "RZ_ERR_RESOURCES"
  | "RZ_UNKNOWN";
