"""What models share: devices, threads, a ceiling on memory, and what stops calls."""

import ctypes
import math
import time
from ctypes import byref
from typing import Any, Callable, List, Optional, Sequence

from . import _header as _c
from ._header import whole
from ._library import Handle, library, new, status
from ._results import Device, RuntimeInfo
from ._values import function_of, microseconds, numbers_of, pointer_to, token_ids

DEVICES = numbers_of("RZ_DEVICE_")


def devices() -> List[Device]:
    """All devices, those that cannot be used too."""
    found = []
    for index in range(1, library.rz_device_count() + 1):
        info = _c.rz_device_info()
        status("rz_device_info_get", index, byref(info))
        kind = {number: name for name, number in DEVICES.items()}.get(info.kind, str(info.kind))
        found.append(
            Device(info.index, info.name.decode(), kind, info.isa.decode(), info.memory_total, info.memory_free,
                   info.unavailable.decode(), info.id.decode(), info.available != 0)
        )  # fmt: skip
    return found


class Cancel(Handle):
    """Stops the calls that it was given to, from any thread or at a set time."""

    _free = "rz_cancel_free"

    def __init__(self) -> None:
        super().__init__(new("rz_cancel_new"))
        self._fired, self._until = False, math.inf

    def fire(self) -> None:
        """Asks the calls to stop; they raise Cancelled within milliseconds, later ones at once."""
        self._fired = True
        self._interrupt()

    def deadline(self, seconds: Optional[float]) -> None:
        """Has it fire by itself after so long, at once where that is zero or less; calls raise DeadlineExceeded then.
        None takes that back."""
        us = microseconds(seconds)
        self._until = math.inf if seconds is None else time.monotonic() + seconds
        self._call("rz_cancel_deadline", us)

    def reset(self) -> None:
        """Makes it fit for use again, and takes its deadline back."""
        self._fired, self._until = False, math.inf
        with self._use() as cancel:
            library.rz_cancel_reset(cancel)

    def _has_fired(self) -> bool:
        return self._fired or time.monotonic() >= self._until

    def _interrupt(self) -> None:
        with self._use() as cancel:
            library.rz_cancel_fire(cancel)

    def _resume(self) -> None:
        """Takes an interruption back, but for what its owner asked for."""
        with self._use() as cancel:
            library.rz_cancel_reset(cancel)
            if self._until < math.inf:
                status("rz_cancel_deadline", cancel, microseconds(self._until - time.monotonic()))
            if self._fired:
                library.rz_cancel_fire(cancel)
_logs: List[Any] = []
"""The callbacks of logs, for as long as the process: what a model has made, such as an encoder, may outlive the model and log."""


class Runtime(Handle):
    """Threads, a log and a ceiling on memory, shared by models. `threads`: number of threads that compute, the calling
    one included; 0: one per processor, or one per fast core if cores differ. `log` gets a level (1 error, 2 warning, 3
    info) and a text, on any thread."""

    _free = "rz_runtime_free"

    def __init__(
        self, threads: int = 0, memory_limit: int = 0, cpus: Sequence[int] = (), log: Optional[Callable[[int, str], None]] = None
    ) -> None:
        function_of(log, "log", "a level and a text")

        def forward(level: int, message: Any, length: int, _user: Any) -> None:
            assert log is not None
            log(level, ctypes.string_at(message, length).decode("utf-8", "replace"))

        self._log = _c.rz_log_callback(forward) if log is not None else _c.rz_log_callback()
        _logs.append(self._log)
        ids = token_ids(cpus, "cpus")
        params = _c.rz_runtime_params(threads=threads, memory_limit=memory_limit, n_cpus=len(ids), log=self._log)
        if len(ids):
            params.cpus = pointer_to(ids)
        super().__init__(new("rz_runtime_new", byref(params)))

    def set_threads(self, threads: int) -> None:
        """Changes the number of threads that compute, from the next step on; 0: as `Runtime` has it."""
        self._call("rz_runtime_threads_set", whole(threads, "threads"))

    def set_memory_limit(self, memory_limit: int) -> None:
        """Changes the ceiling on memory in bytes; 0: none. It may be below what is in use, which stays."""
        self._call("rz_runtime_memory_limit_set", whole(memory_limit, "memory_limit", ctypes.c_uint64))

    @property
    def info(self) -> RuntimeInfo:
        """Threads, and bytes of memory in use."""
        out = _c.rz_runtime_info(struct_size=ctypes.sizeof(_c.rz_runtime_info))
        self._call("rz_runtime_info_get", byref(out))
        return RuntimeInfo(out.threads, out.memory_used, out.memory_peak, out.memory_limit)
