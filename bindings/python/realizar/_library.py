"""The shared library: its structs, its functions, and a check that both are those that this package was written for."""

import ctypes
import os
import queue
import sys
import threading
import weakref
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_char_p, c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Iterator, List, Optional

from ._errors import Closed, error_of

ABI_VERSION = 1
TOKEN_NONE = 0xFFFFFFFF
NO_LIMIT = 0xFFFFFFFFFFFFFFFF

LOG = CFUNCTYPE(None, c_int32, POINTER(c_char), c_size_t, c_void_p)
PROGRESS = CFUNCTYPE(c_int32, c_uint64, c_uint64, c_void_p)
# To write and to read what is saved.
TRANSFER = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)


class rz_error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("system_code", c_int32), ("message", c_char * 504)]


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class rz_device_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("index", c_uint32), ("name", c_char * 64), ("kind", c_uint32), ("available", c_uint32),
        ("isa", c_char * 32), ("memory_total", c_uint64), ("memory_free", c_uint64), ("unavailable", c_char * 256),
    ]  # fmt: skip


class rz_runtime_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("threads", c_uint32), ("memory_limit", c_uint64), ("cpus", POINTER(c_uint32)),
        ("n_cpus", c_size_t), ("log", LOG), ("log_user", c_void_p),
    ]  # fmt: skip


class rz_model_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("device", c_uint32), ("runtime", c_void_p), ("flags", c_uint32), ("gpu_layers", c_uint32),
        ("quantize", c_uint32), ("reserved", c_uint32), ("progress", PROGRESS), ("progress_user", c_void_p), ("cancel", c_void_p),
        ("packed_path", c_char_p), ("devices", POINTER(c_uint32)), ("n_devices", c_size_t), ("shares", POINTER(c_float)),
    ]  # fmt: skip


class rz_model_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("architecture", c_char * 32), ("name", c_char * 64), ("n_layers", c_uint32),
        ("hidden_dim", c_uint32), ("ffn_dim", c_uint32), ("n_heads", c_uint32), ("n_kv_heads", c_uint32), ("head_dim", c_uint32),
        ("vocab_size", c_uint32), ("context_length", c_uint32), ("device", c_uint32), ("bos_token", c_uint32),
        ("eos_token", c_uint32), ("n_params", c_uint64), ("weight_bytes", c_uint64), ("gpu_layers", c_uint32),
        ("chat_template", c_uint32), ("devices", c_uint32 * 16), ("device_layers", c_uint32 * 16), ("n_unknown", c_uint32),
        ("reserved", c_uint32),
    ]  # fmt: skip


class rz_model_sampling(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("told", c_uint32), ("temperature", c_float), ("top_k", c_uint32), ("top_p", c_float),
        ("min_p", c_float), ("repeat_penalty", c_float), ("penalty_window", c_uint32),
    ]  # fmt: skip


class rz_source(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("kind", c_uint32), ("name", c_char_p), ("data", c_void_p), ("size", c_uint64), ("fd", c_int32),
        ("reserved", c_uint32), ("offset", c_uint64), ("read", c_void_p), ("user", c_void_p),
    ]  # fmt: skip


class rz_plan(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("gpu_layers", c_uint32), ("weights_host", c_uint64), ("weights_device", c_uint64),
        ("cache_host", c_uint64), ("cache_device", c_uint64), ("cache_token", c_uint64), ("scratch_host", c_uint64),
        ("scratch_device", c_uint64), ("load_peak_host", c_uint64), ("total_host", c_uint64), ("total_device", c_uint64),
        ("devices", c_uint32 * 16), ("device_layers", c_uint32 * 16), ("device_weights", c_uint64 * 16),
        ("device_cache", c_uint64 * 16), ("device_scratch", c_uint64 * 16), ("device_total", c_uint64 * 16),
    ]  # fmt: skip


class rz_logit_bias(ctypes.Structure):
    _fields_ = [("token", c_uint32), ("bias", c_float)]


class rz_sampler_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("temperature", c_float), ("top_k", c_uint32), ("top_p", c_float), ("min_p", c_float),
        ("repeat_penalty", c_float), ("presence_penalty", c_float), ("frequency_penalty", c_float), ("penalty_window", c_uint32),
        ("flags", c_uint32), ("seed", c_uint64), ("biases", POINTER(rz_logit_bias)), ("n_biases", c_size_t),
    ]  # fmt: skip


class rz_cache_params(Sized):
    _fields_ = [("struct_size", c_uint32), ("capacity", c_uint32), ("k_type", c_uint32), ("v_type", c_uint32)]


class rz_job_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("max_tokens", c_uint32), ("tokens", POINTER(c_uint32)), ("n_tokens", c_size_t),
        ("sampler", c_void_p), ("grammar", c_void_p), ("stops", POINTER(c_char_p)), ("n_stops", c_size_t), ("cancel", c_void_p),
        ("flags", c_uint32), ("reserved", c_uint32), ("draft", c_uint32), ("draft_max", c_uint32), ("draft_model", c_void_p),
        ("logprobs", c_uint32), ("reserved_1", c_uint32), ("chat", c_char_p), ("chat_len", c_size_t),
    ]  # fmt: skip


class rz_job_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("state", c_uint32), ("end", c_uint32), ("stopped", c_int32), ("prompt_total", c_uint32),
        ("prompt_done", c_uint32), ("n_tokens", c_uint32), ("cache_len", c_uint32), ("prompt_ns", c_uint64),
        ("tokens_ns", c_uint64), ("first_token_ns", c_uint64), ("drafted", c_uint32), ("accepted", c_uint32),
    ]  # fmt: skip


class rz_embed_params(Sized):
    _fields_ = [("struct_size", c_uint32), ("pooling", c_uint32), ("flags", c_uint32), ("reserved", c_uint32)]


class rz_phase_metrics(ctypes.Structure):
    _fields_ = [("count", c_uint64), ("sum_ns", c_uint64)]


PHASES = (
    "load", "tokenize", "prefill", "decode", "sample", "detokenize",
    "gpu_products", "gpu_attention", "gpu_experts", "gpu_head", "gpu_other",
)  # fmt: skip


class rz_metrics(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32)] + [(phase, rz_phase_metrics) for phase in PHASES]


class rz_backend_metrics(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("device_kind", c_uint32), ("dispatches", c_uint64), ("bytes", c_uint64),
        ("latency_sum_ns", c_uint64), ("latency_min_ns", c_uint64), ("latency_max_ns", c_uint64), ("latency_mean_ns", c_double),
        ("latency_variance_ns2", c_double), ("latency_histogram", c_uint64 * 32),
    ]  # fmt: skip


class rz_layout(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("offset", c_uint32), ("size", c_uint32), ("struct_name", c_char * 32),
        ("field_name", c_char * 32),
    ]  # fmt: skip


STRUCTS = (
    rz_error, rz_device_info, rz_runtime_params, rz_model_params, rz_model_info, rz_model_sampling, rz_source, rz_plan, rz_logit_bias,
    rz_sampler_params, rz_cache_params, rz_job_params, rz_job_info, rz_embed_params, rz_phase_metrics, rz_metrics, rz_backend_metrics, rz_layout,
)  # fmt: skip

_text = [c_char_p, c_size_t]
_into = [c_void_p, c_size_t, POINTER(c_size_t)]
_out = [POINTER(c_void_p)]
_tokens = [POINTER(c_uint32), c_size_t]

# Arguments of the functions that can fail, but for the error at their end.
FALLIBLE = {
    "rz_device_info_get": [c_uint32, POINTER(rz_device_info)],
    "rz_layout_get": [c_uint32, POINTER(rz_layout)],
    "rz_runtime_new": [POINTER(rz_runtime_params)] + _out,
    "rz_runtime_threads_set": [c_void_p, c_uint32],
    "rz_cancel_new": _out,
    "rz_cancel_deadline": [c_void_p, c_uint64],
    "rz_model_load": [c_char_p, POINTER(rz_model_params)] + _out,
    "rz_model_load_from": [POINTER(rz_source), c_size_t, POINTER(rz_model_params)] + _out,
    "rz_model_plan": [
        c_char_p, POINTER(rz_source), c_size_t, POINTER(rz_model_params), POINTER(rz_cache_params), c_uint32, POINTER(rz_plan),
    ],
    "rz_model_info_get": [c_void_p, POINTER(rz_model_info)],
    "rz_model_sampling_get": [c_void_p, POINTER(rz_model_sampling)],
    "rz_model_meta_into": [c_void_p, c_char_p] + _into,
    "rz_model_meta_key_into": [c_void_p, c_size_t] + _into,
    "rz_model_meta_element_into": [c_void_p, c_char_p, c_size_t] + _into,
    "rz_tokenize_into": [c_void_p] + _text + [c_uint32] + _into,
    "rz_detokenize_into": [c_void_p] + _tokens + [c_uint32] + _into,
    "rz_token_bytes_into": [c_void_p, c_uint32] + _into + [POINTER(c_uint32)],
    "rz_textstream_new": [c_void_p] + _out,
    "rz_textstream_follow": [c_void_p] + _tokens,
    "rz_textstream_push_into": [c_void_p, c_uint32] + _into,
    "rz_textstream_flush_into": [c_void_p] + _into,
    "rz_chat_render_json_into": [c_void_p] + _text + [c_uint32] + _into,
    "rz_chat_tokenize_into": [c_void_p] + _text + [c_uint32] + _into,
    "rz_grammar_new": [c_void_p, c_uint32] + _text + _out,
    "rz_chat_parser_new": [c_void_p] + _text + _out,
    "rz_chat_parser_push": [c_void_p, c_uint32],
    "rz_chat_parser_end": [c_void_p],
    "rz_chat_parser_next_into": [c_void_p, POINTER(c_uint32), POINTER(c_uint32)] + _into,
    "rz_adapter_load": [c_void_p, c_char_p] + _out,
    "rz_sampler_new": [POINTER(rz_sampler_params)] + _out,
    "rz_sampler_grammar_set": [c_void_p, c_void_p],
    "rz_cache_new": [c_void_p, POINTER(rz_cache_params)] + _out,
    "rz_cache_fork": [c_void_p] + _out,
    "rz_cache_adapters_set": [c_void_p, POINTER(c_void_p), POINTER(c_float), c_size_t],
    "rz_cache_truncate": [c_void_p, c_uint32],
    "rz_cache_cancel_set": [c_void_p, c_void_p],
    "rz_cache_shift": [c_void_p, c_uint32, c_uint32],
    "rz_cache_release": [c_void_p],
    "rz_cache_tokens_into": [c_void_p] + _into,
    "rz_cache_match": [c_void_p] + _tokens + [POINTER(c_uint32)],
    "rz_cache_save": [c_void_p, TRANSFER, c_void_p],
    "rz_cache_load": [c_void_p, POINTER(rz_cache_params), TRANSFER, c_void_p] + _out,
    "rz_prefill": [c_void_p] + _tokens + [c_void_p],
    "rz_decode_token": [c_void_p, c_uint32, c_void_p, POINTER(c_uint32)],
    "rz_decode_batch": [POINTER(c_void_p), POINTER(c_uint32), c_size_t, POINTER(c_void_p), POINTER(c_uint32)],
    "rz_logits_into": [c_void_p] + _into,
    "rz_logprobs_into": [c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_float), POINTER(c_size_t)],
    "rz_score_into": [c_void_p] + _tokens + [POINTER(c_float), c_void_p],
    "rz_job_new": [c_void_p, POINTER(rz_job_params)] + _out,
    "rz_job_step": [c_void_p, c_uint64],
    "rz_jobs_step": [POINTER(c_void_p), c_size_t, c_uint64],
    "rz_job_text_into": [c_void_p] + _into,
    "rz_job_tokens_into": [c_void_p] + _into,
    "rz_job_next_into": [c_void_p, POINTER(c_uint32), POINTER(c_uint32)] + _into,
    "rz_job_logprobs_into": [c_void_p, POINTER(c_uint32), POINTER(c_float), c_size_t, POINTER(c_size_t)],
    "rz_job_error": [c_void_p],
    "rz_job_info_get": [c_void_p, POINTER(rz_job_info)],
    "rz_sample": [c_void_p, c_void_p, POINTER(c_uint32)],
    "rz_embed_into": [c_void_p, POINTER(rz_embed_params), POINTER(c_void_p), POINTER(c_size_t), c_size_t] + _into + [c_void_p],
    "rz_metrics_get": [c_void_p, POINTER(rz_metrics)],
    "rz_backend_metrics_get": [c_void_p, c_uint32, POINTER(rz_backend_metrics)],
}

OTHERS = {
    "rz_abi_version": (c_uint32, []),
    "rz_version": (c_char_p, []),
    "rz_status_name": (c_char_p, [c_int32]),
    "rz_device_count": (c_uint32, []),
    "rz_token_is_end": (c_int32, [c_void_p, c_uint32]),
    "rz_cache_len": (c_uint32, [c_void_p]),
    "rz_cache_capacity": (c_uint32, [c_void_p]),
    "rz_metrics_reset": (None, [c_void_p]),
    "rz_cancel_fire": (None, [c_void_p]),
    "rz_cancel_reset": (None, [c_void_p]),
    "rz_runtime_free": (None, [c_void_p]),
    "rz_cancel_free": (None, [c_void_p]),
    "rz_model_free": (None, [c_void_p]),
    "rz_grammar_free": (None, [c_void_p]),
    "rz_chat_parser_free": (None, [c_void_p]),
    "rz_adapter_free": (None, [c_void_p]),
    "rz_job_free": (None, [c_void_p]),
    "rz_sampler_free": (None, [c_void_p]),
    "rz_textstream_free": (None, [c_void_p]),
    "rz_cache_free": (None, [c_void_p]),
}


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
        if library.rz_abi_version() != ABI_VERSION:
            raise ImportError(f"the library {path} has the interface {library.rz_abi_version()}, {ABI_VERSION} is needed")
        for name, (result, arguments) in OTHERS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        for name, arguments in FALLIBLE.items():
            function = getattr(library, name)
            function.restype, function.argtypes = c_int32, arguments + [POINTER(rz_error)]
    except AttributeError as e:
        raise ImportError(f"the library {path} lacks a function: {e}") from None
    return library


library = _load()


def status(name: str, *arguments: Any) -> int:
    """Calls a function; what is negative becomes an exception."""
    error = rz_error()
    code = getattr(library, name)(*arguments, byref(error))
    if code < 0:
        raise error_of(code, library.rz_status_name(code).decode(), error.message.decode("utf-8", "replace"), error.system_code)
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


class Handle:
    """A handle of the library that is freed once: by `close`, after the calls that are using it, or when it is forgotten."""

    def __init__(self, pointer: c_void_p, free: str) -> None:
        self._state = _State(pointer.value, getattr(library, free))
        self._finalizer = weakref.finalize(self, self._state.close)

    def close(self) -> None:
        """Frees what this stands for; later calls raise Closed. Closing twice is fine."""
        self._finalizer()

    @contextmanager
    def _use(self) -> Iterator[int]:
        """The pointer, which stays valid meanwhile."""
        pointer = self._state.acquire(type(self).__name__)
        try:
            yield pointer
        finally:
            self._state.release()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _State:
    def __init__(self, pointer: Optional[int], free: Callable[[int], None]) -> None:
        self.pointer, self.free = pointer, free
        # Its owner may be forgotten at any moment, also inside of a method here.
        self.lock, self.users, self.closed = threading.RLock(), 0, False

    def acquire(self, name: str) -> int:
        with self.lock:
            if self.closed or self.pointer is None:
                raise Closed(f"the {name} is closed")
            self.users += 1
            return self.pointer

    def release(self) -> None:
        with self.lock:
            self.users -= 1
            self._free_if_unused()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._free_if_unused()

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
    from ._errors import BufferTooSmall

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
        self.call, self.result, self.error = call, None, None
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


def interruptible(call: Callable[[], Any], *stops: Any) -> Any:
    """The result of a long call of the library that `stops` end. The main thread, the only one that hears signals and that only
    between steps of the interpreter, has another thread make it: what a signal's handler raises, such as KeyboardInterrupt, ends the
    call and then goes on. The call takes its handles by itself, because it may outlast this function."""
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
