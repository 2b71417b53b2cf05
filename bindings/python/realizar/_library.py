"""The shared library, loaded, and a check that its structs and functions are those that this package was written
for."""

import atexit
import ctypes
import os
import queue
import sys
import threading
import weakref
from contextlib import ExitStack, contextmanager, suppress
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, TypeVar

from ._errors import BufferTooSmall, Cancelled, DeadlineExceeded, Error
from ._failures import Closed, error_of
from ._header import FUNCTIONS, RZ_ABI_VERSION, STRUCTS, rz_error, rz_layout


def _load() -> ctypes.CDLL:
    names = {"win32": "realizar.dll", "darwin": "librealizar.dylib"}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), names.get(sys.platform, "librealizar.so"))
    try:
        # A CDLL gives the interpreter's lock up for the time of each call.
        library = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"the library {path} cannot be loaded: {e}") from None
    try:
        # This one first, because another interface may have other functions.
        if library.rz_abi_version() != RZ_ABI_VERSION:
            raise ImportError(f"the library {path} has the interface {library.rz_abi_version()}, {RZ_ABI_VERSION} is needed")
        for name, (result, parameters) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, parameters
    except AttributeError as e:
        raise ImportError(f"the library {path} lacks a function: {e}") from None
    return library


library = _load()


def status(name: str, *arguments: Any) -> int:
    """Calls a function; what is negative becomes an exception."""
    error = rz_error()
    code = int(getattr(library, name)(*arguments, byref(error)))
    if code < 0:
        message = error.message.decode("utf-8", "replace")
        raise error_of(code, library.rz_status_name(code).decode(), message, error.system_code, error.needed)
    return code


def _check_layouts() -> None:
    mine = {}
    for struct in STRUCTS:
        mine[struct.__name__, ""] = (0, ctypes.sizeof(struct))
        for field, *_ in struct._fields_:
            descriptor = getattr(struct, field)
            mine[struct.__name__, field] = (descriptor.offset, descriptor.size)
    layout, index = rz_layout(), 0
    while library.rz_layout_get(index, byref(layout), None) == 0:
        name = (layout.struct_name.decode(), layout.field_name.decode())
        found = (layout.offset, layout.size)
        # A struct of a newer library may be longer; its size tells the library what this package knows of it.
        grown = name[1] == "" and found[1] > mine.get(name, (0, found[1]))[1]
        if not grown and mine.pop(name, found) != found:
            raise ImportError(f"the library {library._name} has {'.'.join(filter(None, name))} at offset and size {found}")
        mine.pop(name, None)
        index += 1
    if mine:
        raise ImportError(f"the library {library._name} lacks {sorted(mine)}")


_check_layouts()


class _Callbacks:
    """The calls that call Python back. The end of the interpreter waits for them, because up to Python 3.13 a thread
    that calls back afterwards is ended there and then, below functions of the library that cannot be left in this
    way."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.stops: "List[Callable[[], None]]" = []
        self.has_ended = False
        # Exit functions run from the last to the first: `end` before the finalizers of handles.
        weakref.finalize(self, int)
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            # Calls of other threads stay with the parent.
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self.changed, self.stops = threading.Condition(), []

    @contextmanager
    def during(self, stop: Callable[[], None] = lambda: None) -> Iterator[None]:
        """The time of such a call, which `stop` has end sooner."""
        with self.changed:
            if self.has_ended:
                raise SystemExit
            self.stops.append(stop)
        try:
            yield
        except Error:
            if self.has_ended:
                raise SystemExit from None
            raise
        finally:
            with self.changed:
                self.stops.remove(stop)
                self.changed.notify_all()

    def end(self) -> None:
        """Has callbacks end their calls from now on, and waits for those, but not for ever for one that is stuck in a
        callback."""
        with self.changed:
            self.has_ended = True
            for stop in self.stops:
                with suppress(Closed, SystemExit):
                    stop()
            self.changed.wait_for(lambda: not self.stops, timeout=10)


callbacks = _Callbacks()


_Handle = TypeVar("_Handle", bound="Handle")


class Handle:
    """A handle of the library that is freed once: by `close`, after the calls that are using it, or when it is
    forgotten."""

    # The function that frees it, and what it was made of, which closes it too.
    _free: str
    _owner: "Optional[Handle]" = None

    def __init__(self, pointer: c_void_p, owner: "Optional[Handle]" = None) -> None:
        self._owner = owner
        self._state = _State(pointer.value, getattr(library, self._free))
        self._finalizer = weakref.finalize(self, self._state.close)

    def __init_subclass__(cls) -> None:
        _kinds.setdefault(cls._free, cls.__name__)

    def close(self) -> None:
        """Ends calls that use it, which raise Closed within milliseconds, and frees what it stands for. Later calls of
        this object, and of what computes with it, such as the conversations of a model, raise Closed. Closing twice is
        fine."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        """True after `close`, and after `close` of what it was made of."""
        return self._state.closed or self._owner is not None and self._owner.closed

    def _check_open(self) -> None:
        """Raises Closed if it is closed, with the name of what is."""
        if self._state.closed:
            raise _closed(f"the {type(self).__name__} is closed")
        if self._owner is not None and self._owner.closed:
            raise _closed(f"the {type(self._owner).__name__} of the {type(self).__name__} is closed")

    @contextmanager
    def _use(self) -> Iterator[int]:
        """The pointer, which stays valid meanwhile."""
        self._check_open()
        pointer = self._state.acquire()
        if pointer is None:
            raise _closed(f"the {type(self).__name__} is closed")
        try:
            yield pointer
        finally:
            self._state.release()

    @contextmanager
    def _ended_by_close(self, stop: Any) -> Iterator[None]:
        """The time of a call that `stop` ends when this is closed, or what it was made of."""
        handles: "List[Handle]" = [self]
        while handles[-1]._owner is not None:
            handles.append(handles[-1]._owner)
        end = _End(stop)
        for handle in handles:
            handle._state.ends.append(end)
        try:
            self._check_open()
            yield
        except (Cancelled, DeadlineExceeded):
            if end.was_called:
                self._check_open()
            raise
        finally:
            for handle in handles:
                handle._state.ends.remove(end)
            end.finish()

    def _call(self, name: str, *arguments: Any) -> int:
        """`status` with the pointer as the first argument."""
        with self._use() as pointer:
            return status(name, pointer, *arguments)

    def __enter__(self: _Handle) -> _Handle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _closed(message: str) -> BaseException:
    """What is raised of something closed. The end of the interpreter closes everything, and ends threads that go on
    without a word."""
    return SystemExit() if callbacks.has_ended else Closed(message)


# The class of the handles that a function frees.
_kinds: Dict[str, str] = {}


def is_a(value: Any, kind: str) -> bool:
    """Whether a value is a handle of a class, which a module below the class's own cannot import."""
    return isinstance(value, Handle) and _kinds[value._free] == kind


class _End:
    """Ends a call from another thread, and takes that back after the call, because what stops it may be the
    caller's."""

    def __init__(self, stop: Any) -> None:
        self.stop, self.lock, self.was_called, self.is_over = stop, threading.Lock(), False, False

    def __call__(self) -> None:
        with self.lock, suppress(Closed, SystemExit):
            if not self.is_over:
                self.was_called = True
                self.stop._interrupt()

    def finish(self) -> None:
        with self.lock, suppress(Closed, SystemExit):
            self.is_over = True
            if self.was_called:
                self.stop._resume()


class _State:
    def __init__(self, pointer: Optional[int], free: Callable[[int], None]) -> None:
        self.pointer, self.free = pointer, free
        # Its owner may be forgotten at any moment, also inside of a method here.
        self.lock, self.users, self.closed = threading.RLock(), 0, False
        self.ends: List[_End] = []

    def acquire(self) -> Optional[int]:
        with self.lock:
            if not self.closed and self.pointer is not None:
                self.users += 1
                return self.pointer
        return None

    def release(self) -> None:
        with self.lock:
            self.users -= 1
            self._free_if_unused()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._free_if_unused()
        for end in list(self.ends):
            end()

    def _free_if_unused(self) -> None:
        if self.closed and self.users == 0 and self.pointer is not None:
            pointer, self.pointer = self.pointer, None
            self.free(pointer)


def new(name: str, *arguments: Any) -> c_void_p:
    """Calls a function whose last argument before the error receives a handle."""
    pointer = c_void_p()
    status(name, *arguments, byref(pointer))
    return pointer


def sized(call: Callable[[Any, int, Any], int], capacity: int = 256) -> bytes:
    """Bytes that a function writes to a buffer, which is made again where it is too small."""
    while True:
        buffer, n = ctypes.create_string_buffer(capacity), c_size_t()
        try:
            call(buffer, capacity, byref(n))
            return buffer.raw[: n.value]
        except BufferTooSmall:
            capacity = max(n.value, capacity + 1)


class _Task:
    """A call on another thread, and what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.result: Any = None
        self.error: Optional[BaseException] = None
        self.claimed, self.changed, self.ended = threading.Lock(), threading.Lock(), False
        self.changed.acquire()

    def claim(self) -> bool:
        """True for the first that asks: the thread that makes the call, or the one that no longer wants it made."""
        return self.claimed.acquire(blocking=False)

    def run(self) -> None:
        if self.claim():
            try:
                self.result = self.call()
            except BaseException as e:  # noqa: BLE001 - goes on where it is waited for
                self.error = e
            self.ended = True
            self.changed.release()

    def wait(self) -> None:
        # A signal may have come to another thread of the process, which wakes nobody.
        while not self.ended:
            self.changed.acquire(timeout=0.02)


_idle: "List[queue.SimpleQueue[_Task]]" = []
if hasattr(os, "register_at_fork"):
    # Threads stay with the parent.
    os.register_at_fork(after_in_child=_idle.clear)


def _work(tasks: "queue.SimpleQueue[_Task]") -> None:
    while True:
        tasks.get().run()
        _idle.append(tasks)


def _start(task: _Task) -> None:
    try:
        tasks = _idle.pop()
    except IndexError:
        tasks = queue.SimpleQueue()
        threading.Thread(target=_work, args=(tasks,), name="realizar", daemon=True).start()
    tasks.put(task)


def interruptible(call: Callable[[], Any], *stops: "Tuple[Any, Optional[Handle]]") -> Any:
    """The result of a long call of the library. `stops`: what ends it, each with the handle that does so when it is
    closed. The main thread, the only one that hears signals and that only between steps of the interpreter, has another
    thread make it: what a signal's handler raises, such as KeyboardInterrupt, ends the call and then goes on. The call
    takes its handles by itself, because it may outlast this function."""
    with ExitStack() as stack:
        for stop, handle in stops:
            if handle is not None:
                stack.enter_context(handle._ended_by_close(stop))
        return _interruptible(call, [stop for stop, _ in stops])


def _interruptible(call: Callable[[], Any], stops: Iterable[Any]) -> Any:
    if threading.current_thread() is not threading.main_thread():
        return call()
    task = _Task(call)
    try:
        _start(task)
        task.wait()
    except BaseException:
        if not task.claim():
            for stop in stops:
                stop._interrupt()
            _wait_for_end(task)
            for stop in stops:
                stop._resume()
        raise
    if task.error is None:
        return task.result
    try:
        raise task.error
    finally:
        del task  # which its own error's traceback holds


def _wait_for_end(task: _Task) -> None:
    """Waits, whatever further signals raise."""
    while True:
        try:
            return task.wait()
        except BaseException:  # noqa: BLE001 - one is going on already
            pass
