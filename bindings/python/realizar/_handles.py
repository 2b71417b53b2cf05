"""Handles as arguments of calls, and files that calls write to or read from."""

import ctypes
import errno
import io
from contextlib import ExitStack, contextmanager, nullcontext
from ctypes import c_void_p
from typing import Any, BinaryIO, Callable, ContextManager, Iterable, Iterator, List, Optional, Union

from . import _header as _c
from ._errors import Error
from ._library import Handle, callbacks, is_a
from ._values import an, wrong_type


class use:
    """The pointer of a handle of a class; `name`: of the argument."""

    def __init__(self, handle: Optional[Handle], kind: str, name: str = "") -> None:
        if not is_a(handle, kind):
            raise wrong_type(handle, name or kind.lower(), an(kind))
        assert handle is not None
        self._used = handle._use()

    def __enter__(self) -> Optional[int]:
        return self._used.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._used.__exit__(*exception)


def use_or_none(handle: Optional[Handle], kind: str, name: str = "") -> "Union[use, nullcontext[None]]":
    """`use` of a handle that may be None."""
    return nullcontext() if handle is None else use(handle, kind, name)


@contextmanager
def use_all(handles: Iterable[Optional[Handle]], kind: str, name: str) -> Iterator[Any]:
    """The pointers of handles of a class, each of which may be None."""
    with ExitStack() as stack:
        pointers = [stack.enter_context(use_or_none(handle, kind, f"{name}[{i}]")) for i, handle in enumerate(handles)]
        yield (c_void_p * len(pointers))(*pointers)


@contextmanager
def _moving(kind: Callable[[Any], Any], move: Callable[[int, int], Any]) -> Iterator[Any]:
    """The time of a call, for which it has a callback that moves bytes; what that raises goes on where the call ends."""
    raised: List[BaseException] = []

    def call(data, n, _user):  # type: ignore[no-untyped-def]
        if callbacks.has_ended:
            return errno.ECANCELED
        try:
            move(data, n)
            return 0
        except BaseException as e:  # noqa: BLE001
            raised.append(e)
            return errno.EIO

    with callbacks.during():
        try:
            yield kind(call)
        except Error:
            if raised:
                raise raised[0]
            raise


def _check_file(file: Any, method: str) -> None:
    if not hasattr(file, method) or isinstance(file, io.TextIOBase):
        raise wrong_type(file, "file", f"a binary file, which has {method}")


def reading(file: BinaryIO) -> ContextManager[Any]:
    _check_file(file, "read")

    def fill(out: int, n: int) -> None:
        at = 0
        while at < n:  # a raw file gives what it has
            read = file.read(n - at)
            if read is None:
                raise BlockingIOError(errno.EAGAIN, "the file gives no bytes now")
            piece = bytes(memoryview(read))  # a str is refused
            if not piece:
                raise OSError(errno.EIO, "what was saved has no more bytes")
            if len(piece) > n - at:
                raise OSError(errno.EIO, f"the file gave {len(piece)} bytes; read({n - at}) must give at most as many as it is asked for")
            ctypes.memmove(out + at, piece, len(piece))
            at += len(piece)

    return _moving(_c.rz_read_callback, fill)


def writing(file: BinaryIO) -> ContextManager[Any]:
    _check_file(file, "write")

    def drain(data: int, n: int) -> None:
        rest = ctypes.string_at(data, n)
        while rest:  # a raw file takes what it can
            taken = file.write(rest)
            if taken is None and isinstance(file, io.RawIOBase):
                raise BlockingIOError(errno.EAGAIN, "the file takes no bytes now")
            if taken is not None and not 0 < taken <= len(rest):
                raise OSError(errno.EIO, f"the file took {taken} bytes; write must take from 1 to {len(rest)}")
            rest = rest[len(rest) if taken is None else taken :]

    return _moving(_c.rz_write_callback, drain)
