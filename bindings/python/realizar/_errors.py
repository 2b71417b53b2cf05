"""Exceptions: one for each status, derived from the exception that Python has for it where there is one. The build writes
this file: `make header`."""

from typing import Dict, Type

from . import _header as _c


class Error(Exception):
    """A call failed. `code` is its status, and `name` the name of the status, such as "RZ_ERR_FORMAT"; an error that Python finds ahead of
    the call has both too. `system_code` is the `errno` of a FileError, else 0. `needed` is the capacity in tokens that would have been
    enough, of a ContextFull; else 0."""

    code = 0
    name = ""
    system_code = 0
    needed = 0


class InvalidArgument(Error, ValueError):
    """An argument is missing, out of range, not UTF-8, or otherwise never valid."""


class Busy(Error):
    """Another call is using the handle."""


class OutOfMemory(Error, MemoryError):
    """Host memory is exhausted."""


class DeviceOutOfMemory(Error, MemoryError):
    """Device memory is exhausted."""


class Limit(Error):
    """The call would exceed a limit set by the caller, or a bound of this library."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class FormatError(Error, ValueError):
    """A file is damaged, or the weights of a model make a result NaN or infinite."""


class Unsupported(Error, NotImplementedError):
    """The request is valid, but this library does not implement it."""


class VersionError(Error):
    """A field or a flag needs a newer library."""


class Cancelled(Error):
    """A cancel was fired, or a callback asked to stop."""


class DeadlineExceeded(Error, TimeoutError):
    """The deadline has passed."""


class ContextFull(Error):
    """The tokens do not fit into the context window (the capacity of the cache)."""


class BufferTooSmall(Error):
    """The buffer is too small."""


class DeviceUnavailable(Error):
    """The device cannot be used; the message says why."""


class DeviceLost(Error):
    """The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable, including its
    layers on other devices. The CPU and other models continue to work, on the same device too, because each model
    has its own context. According to NVIDIA's documentation some kernel faults, such as error 700 (illegal
    address), make CUDA unusable in the whole process: then every model on a GPU returns this status, and only a
    new process can use the devices again."""


class Mismatch(Error, ValueError):
    """One call combines objects of different models."""


class Panic(Error):
    """Caught bug of this library. Please report the message."""


class Poisoned(Error):
    """An earlier call on this object ended with an internal error, whose message this error repeats. Close the
    object."""


class NotFound(Error, LookupError):
    """Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the last entry."""


class NotReady(Error):
    """Another call must come first: there are no logits before a prefill, and no rows of media before their encoding
    is done."""


class ResourcesRefused(Error, OSError):
    """The system cannot create a thread or another resource; the same call may succeed later."""


BY_CODE: Dict[int, Type[Error]] = {
    _c.RZ_ERR_INVALID_ARGUMENT: InvalidArgument,
    _c.RZ_ERR_BUSY: Busy,
    _c.RZ_ERR_OUT_OF_MEMORY: OutOfMemory,
    _c.RZ_ERR_DEVICE_OUT_OF_MEMORY: DeviceOutOfMemory,
    _c.RZ_ERR_LIMIT: Limit,
    _c.RZ_ERR_IO: FileError,
    _c.RZ_ERR_FORMAT: FormatError,
    _c.RZ_ERR_UNSUPPORTED: Unsupported,
    _c.RZ_ERR_VERSION: VersionError,
    _c.RZ_ERR_CANCELLED: Cancelled,
    _c.RZ_ERR_DEADLINE: DeadlineExceeded,
    _c.RZ_ERR_CONTEXT_FULL: ContextFull,
    _c.RZ_ERR_BUFFER_TOO_SMALL: BufferTooSmall,
    _c.RZ_ERR_DEVICE_UNAVAILABLE: DeviceUnavailable,
    _c.RZ_ERR_DEVICE_LOST: DeviceLost,
    _c.RZ_ERR_MISMATCH: Mismatch,
    _c.RZ_ERR_PANIC: Panic,
    _c.RZ_ERR_POISONED: Poisoned,
    _c.RZ_ERR_NOT_FOUND: NotFound,
    _c.RZ_ERR_NOT_READY: NotReady,
    _c.RZ_ERR_RESOURCES: ResourcesRefused,
}

__all__ = [
    "Error",
    "InvalidArgument",
    "Busy",
    "OutOfMemory",
    "DeviceOutOfMemory",
    "Limit",
    "FileError",
    "FormatError",
    "Unsupported",
    "VersionError",
    "Cancelled",
    "DeadlineExceeded",
    "ContextFull",
    "BufferTooSmall",
    "DeviceUnavailable",
    "DeviceLost",
    "Mismatch",
    "Panic",
    "Poisoned",
    "NotFound",
    "NotReady",
    "ResourcesRefused",
]

for _name, _code in vars(_c).items():
    if _name.startswith("RZ_ERR_"):
        BY_CODE[_code].code, BY_CODE[_code].name = _code, _name
