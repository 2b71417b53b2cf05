"""realizar: language models inside your own process.

    import realizar
    conversation = realizar.Conversation(realizar.Model("model.gguf"))
    for piece in conversation.say("What is the capital of Japan?"):
        print(piece, end="", flush=True)

Calls give the interpreter's lock up while they compute. A Model may be used by any number of threads at once, a Conversation or
Session by one at a time: a second one gets `Busy` at once. Everything with `close` is a context manager, and is freed when it is
forgotten, too. Ctrl-C, and whatever else a signal's handler raises, ends what the main thread computes within a tenth of a second;
conversations, sessions and jobs go on afterwards.
"""

import ctypes
import errno
import io
import json
import math
import os
import reprlib
import time
from contextlib import ExitStack, contextmanager, suppress
from ctypes import Array, byref, c_uint32, c_void_p
from typing import (
    TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union,
)  # fmt: skip

import numpy as np

from . import _header as _c
from . import _hub
from . import _options as _o
from ._header import choice as _named
from ._header import real as _real
from ._header import switch as _switch
from ._header import whole as _whole
from ._errors import (
    BufferTooSmall, Busy, Cancelled, Closed, ContextFull, DeadlineExceeded, DeviceLost, DeviceOutOfMemory, DeviceUnavailable,
    Error, FileError, FormatError, InvalidArgument, Limit, Mismatch, NotFound, NotReady, OutOfMemory, Panic, Poisoned,
    ResourcesRefused, Unsupported, VersionError,
)  # fmt: skip
from ._errors import error_of as _error_of
from ._library import callbacks as _callbacks
from ._library import Handle, interruptible, library, new, sized, status
from ._options import ElementType, Pooling, Reasoning, Sampling

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

__all__ = [
    "Adapter", "Cancel", "ChatParser", "Conversation", "ConversationInfo", "Device", "Encoder", "EncoderInfo", "EncoderOptions", "EncoderPlan",
    "Grammar", "Job", "JobOptions", "LoadOptions", "Media", "MediaInfo", "Members", "Model", "ModelInfo", "Part", "Phase", "Placement", "Plan",
    "PlanDevice", "Prompt", "ReadOptions", "ReplyOptions", "Runtime", "RuntimeInfo", "Sampler", "Sampling", "Session", "Store",
    "StoreInfo", "TextStream", "TokenLogprobs", "Work", "decode_batch", "devices", "fetch", "plan", "step_conversations", "step_jobs",
    "BufferTooSmall", "Busy", "Cancelled", "Closed", "ContextFull", "DeadlineExceeded", "DeviceLost", "DeviceOutOfMemory",
    "DeviceUnavailable", "Error", "FileError", "FormatError", "InvalidArgument", "Limit", "Mismatch", "NotFound", "NotReady",
    "OutOfMemory", "Panic", "Poisoned", "ResourcesRefused", "Unsupported", "VersionError",
]  # fmt: skip

__version__ = library.rz_version().decode()

Tokens = Union[Sequence[int], "np.ndarray"]
Message = Mapping[str, Any]
Messages = Union[str, Sequence[Message]]


def _ids(tokens: Tokens, name: str = "tokens") -> "np.ndarray":
    ids = np.asarray(tokens)
    if ids.ndim != 1:
        raise InvalidArgument(f"{name} are {reprlib.repr(tokens)}; they must be a list of whole numbers")
    if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() > 0xFFFFFFFF):
        raise InvalidArgument(f"{name} are {reprlib.repr(tokens)}; they must be whole numbers from 0 to 4294967295")
    return np.ascontiguousarray(ids, dtype=np.uint32)


def _at(ids: "np.ndarray"):  # type: ignore[no-untyped-def]
    return ids.ctypes.data_as(ctypes.POINTER(c_uint32))


def _ids_of(call: Callable[[Any, int, Any], int], capacity: int) -> List[int]:
    """Token ids that a function writes to an array, which is made again where it is too small."""
    while True:
        ids, n = np.empty(max(capacity, 1), dtype=np.uint32), ctypes.c_size_t()
        try:
            call(ids.ctypes.data, len(ids), byref(n))
            return ids[: n.value].tolist()
        except BufferTooSmall:
            capacity = n.value


def _microseconds(seconds: Optional[float]) -> int:
    """A time as the library takes one, of which a begun microsecond counts as a whole."""
    if seconds is None:
        return _c.RZ_NO_LIMIT
    if math.isnan(_real(seconds, "a time in seconds")):
        raise InvalidArgument("a time in seconds is nan; it must be a number")
    return math.ceil(min(max(seconds, 0.0), 1e12) * 1e6)


def _list(value: Any, name: str) -> List[Any]:
    """A list of what a value gives once; a text is refused, though it can be iterated over."""
    if isinstance(value, (str, bytes)):
        raise InvalidArgument(f"{name} is a text; it must be a list")
    if not isinstance(value, Iterable):
        raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a list")
    return list(value)


def _all(values: Any, kind: Any, name: str) -> List[Any]:
    """A list of objects of one class."""
    found = _list(values, name)
    for value in found:
        if not isinstance(value, kind):
            raise InvalidArgument(f"{name} has {reprlib.repr(value)}; it must be a list of {kind.__name__}")
    return found


def _check_options(options: Iterable[str], kind: Any, *others: str) -> None:
    """Refuses names of options that there are not. `others` are parameters of the call."""
    known = [*kind.__annotations__, *others]
    for name in options:
        if name not in known:
            raise TypeError(f"the option {name} is unknown{_c.nearest(name, known)}")


def _numbers(group: str) -> Dict[str, int]:
    """The constants of a group of the header by the ends of their names: {"mmap": 2, ...} of "RZ_MODEL_"."""
    return {name[len(group) :].lower(): value for name, value in vars(_c).items() if name.startswith(group)}


def _flag(value: Any, name: str, bit: int) -> int:
    """The bit of a switch, or 0."""
    return bit if _switch(value, name) else 0


def _text(text: str, name: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidArgument(f"{name} is of type {type(text).__name__}; it must be a str")
    return text.encode()


def _floats(values: Iterable[Any], name: str) -> Any:
    numbers = [_real(value, name) for value in values]
    return (ctypes.c_float * len(numbers))(*numbers)


def _string(text: str, name: str) -> bytes:
    data = _text(text, name)
    if b"\0" in data:
        raise InvalidArgument(f"{name} contains a NUL")
    return data


class Device(NamedTuple):
    index: int
    name: str
    kind: str
    isa: str
    memory_total: int
    memory_free: int
    unavailable: str
    """The reason why the device cannot be used; empty for one that can."""
    id: str
    """What names the device in every process on this machine: "cpu", or the UUID of a GPU; empty if unknown."""


def devices() -> List[Device]:
    """All devices, those that cannot be used too."""
    found = []
    for index in range(1, library.rz_device_count() + 1):
        info = _c.rz_device_info()
        status("rz_device_info_get", index, byref(info))
        kind = {number: name for name, number in _DEVICES.items()}.get(info.kind, str(info.kind))
        found.append(
            Device(info.index, info.name.decode(), kind, info.isa.decode(), info.memory_total, info.memory_free,
                   info.unavailable.decode(), info.id.decode())
        )  # fmt: skip
    return found


class Cancel(Handle):
    """Stops the calls that it was given to, from any thread or at a set time."""

    def __init__(self) -> None:
        super().__init__(new("rz_cancel_new"), "rz_cancel_free")
        self._fired, self._until = False, math.inf

    def fire(self) -> None:
        """Asks the calls to stop; they raise Cancelled within milliseconds, later ones at once."""
        self._fired = True
        self._interrupt()

    def deadline(self, seconds: Optional[float]) -> None:
        """Has it fire by itself after so long, at once where that is zero or less; calls raise DeadlineExceeded then. None takes that
        back."""
        us = _microseconds(seconds)
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
                status("rz_cancel_deadline", cancel, _microseconds(self._until - time.monotonic()))
            if self._fired:
                library.rz_cancel_fire(cancel)


_logs: List[Any] = []
"""The callbacks of logs, for as long as the process: what a model has made, such as an encoder, may outlive the model and log."""


class RuntimeInfo(NamedTuple):
    """The state of a runtime."""

    threads: int
    """Threads that compute, the calling one among them."""
    memory_used: int
    """Bytes of weights, caches and scratch memory, and the most that they were."""
    memory_peak: int
    memory_limit: int
    """The ceiling on them; 0: none."""


class Runtime(Handle):
    """Threads, a log and a ceiling on memory, shared by models. `threads`: number of threads that compute, the calling one
    included; 0: one per processor, or one per fast core if cores differ. `log` gets a level (1 error, 2 warning, 3 info)
    and a text, on any thread."""

    def __init__(
        self, threads: int = 0, memory_limit: int = 0, cpus: Sequence[int] = (), log: Optional[Callable[[int, str], None]] = None
    ) -> None:
        def forward(level, message, length, _user):  # type: ignore[no-untyped-def]
            assert log is not None
            log(level, ctypes.string_at(message, length).decode("utf-8", "replace"))

        self._log = _c.rz_log_callback(forward) if log is not None else _c.rz_log_callback()
        _logs.append(self._log)
        if log is not None and not callable(log):
            raise InvalidArgument(f"log is {reprlib.repr(log)}; it must be a function of a level and a text")
        ids = _ids(cpus, "cpus")
        params = _c.rz_runtime_params(threads=threads, memory_limit=memory_limit, n_cpus=len(ids), log=self._log)
        if len(ids):
            params.cpus = _at(ids)
        super().__init__(new("rz_runtime_new", byref(params)), "rz_runtime_free")

    def set_threads(self, threads: int) -> None:
        """Changes the number of threads that compute, from the next step on; 0: as `Runtime` has it."""
        self._call("rz_runtime_threads_set", _whole(threads, "threads"))

    def set_memory_limit(self, memory_limit: int) -> None:
        """Changes the ceiling on memory in bytes; 0: none. It may be below what is in use, which stays."""
        self._call("rz_runtime_memory_limit_set", _whole(memory_limit, "memory_limit", ctypes.c_uint64))

    @property
    def info(self) -> RuntimeInfo:
        out = _c.rz_runtime_info(struct_size=ctypes.sizeof(_c.rz_runtime_info))
        self._call("rz_runtime_info_get", byref(out))
        return RuntimeInfo(out.threads, out.memory_used, out.memory_peak, out.memory_limit)


_FILTERS = _numbers("RZ_FILTER_")


def _sequences(all: Sequence[Sequence[int]]) -> "Array[_c.rz_token_sequence]":
    tokens = [(c_uint32 * len(one))(*one.tolist()) for one in map(_ids, all)]
    return (_c.rz_token_sequence * len(tokens))(*((one, len(one)) for one in tokens))


class Sampler(Handle):
    """Chooses tokens; it has random numbers of its own, so that a seed repeats itself."""

    def __init__(self, sampling: Sampling = Sampling()) -> None:
        super().__init__(new("rz_sampler_new", byref(_sampler_params(sampling))), "rz_sampler_free")

    def set_grammar(self, grammar: "Optional[Grammar]") -> None:
        """Lets it choose only what continues a text of the grammar, from its start; None: anything."""
        with self._use() as sampler, _use(grammar) as form:
            status("rz_sampler_grammar_set", sampler, form)


def _sampler_params(sampling: Sampling) -> _c.rz_sampler_params:
    if not isinstance(sampling, Sampling):
        raise InvalidArgument(f"sampling is {reprlib.repr(sampling)}; it must be a Sampling")
    order, breakers, banned = (_list(getattr(sampling, name), name) for name in ("order", "dry_breakers", "banned_sequences"))
    if not isinstance(sampling.logit_bias, Mapping):
        raise InvalidArgument(f"logit_bias is {reprlib.repr(sampling.logit_bias)}; it must be a dict of tokens and biases")
    pairs = sampling.logit_bias.items()
    biases = (_c.rz_logit_bias * len(pairs))(*((_whole(token, "a token of logit_bias"), _real(bias, "a bias of logit_bias")) for token, bias in pairs))
    scalars = {name: value for name, value in vars(sampling).items() if name not in ("logit_bias", "dry_breakers", "banned_sequences", "order")}
    params = _c.rz_sampler_params(
        **scalars, n_biases=len(biases), n_dry_breakers=len(breakers), n_banned_sequences=len(banned), n_order=len(order)
    )
    params.dry_breakers, params.banned_sequences = _sequences(breakers), _sequences(banned)
    params.order = (c_uint32 * len(order))(*(_named(name, "a filter", _FILTERS) for name in order))
    if len(biases):
        params.biases = biases
    return params


class ModelInfo(NamedTuple):
    architecture: str
    name: str
    n_layers: int
    hidden_dim: int
    ffn_dim: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    device: int
    bos_token: Optional[int]
    eos_token: Optional[int]
    n_params: int
    weight_bytes: int
    gpu_layers: int
    devices: Tuple[int, ...]
    device_layers: Tuple[int, ...]
    has_chat_template: bool
    template_writes_bos: bool
    n_unknown: int
    """Keys and tensors that `allow_unknown` passed over."""
    reads_source: bool
    """It writes a text of another one, with which its sessions begin: `Media.from_tokens`."""
    isa: str
    """Instruction set of products on the CPU, such as "avx2" or "amx-bf16"; empty where it has none."""


class Phase(NamedTuple):
    count: int
    sum_ns: int


class Work(NamedTuple):
    """What one kind of device has done; times are in nanoseconds."""

    dispatches: int
    bytes: int
    latency_sum_ns: int
    latency_min_ns: int
    latency_max_ns: int
    latency_mean_ns: float
    latency_variance_ns2: float
    latency_histogram: Tuple[int, ...]
    """Latencies under 1 microsecond, from 1 to below 2, from 2 to below 4, and so on."""


_DEVICES = _numbers("RZ_DEVICE_")
_PLACES = _numbers("RZ_PLACE_")


# A file of a model in memory, or open on the disk.
Source = Union[bytes, bytearray, memoryview, "np.ndarray", BinaryIO]


Progress = Callable[[int, int], Optional[bool]]


class _Watch:
    """The callbacks of a long call: progress, and the cancel that stops it."""

    def __init__(self, progress: Optional[Progress], cancel: Optional[Cancel]) -> None:
        self.raised: List[BaseException] = []

        def forward(done, total, _user):  # type: ignore[no-untyped-def]
            assert progress is not None
            if _callbacks.has_ended:
                return 1
            try:
                return int(progress(done, total) is False)
            except BaseException as e:  # noqa: BLE001 - goes on where the call ends
                self.raised.append(e)
                return 1

        self.progress = _c.rz_progress_callback(forward) if progress else _c.rz_progress_callback()
        if cancel is not None and not isinstance(cancel, Cancel):
            raise InvalidArgument(f"cancel is {reprlib.repr(cancel)}; it must be a Cancel")
        self.cancel = cancel if cancel is not None else Cancel()

    def run(self, params: Any, call: Callable[[Any], Any]) -> Any:
        """Makes a call with parameters that both belong to."""
        params.progress = self.progress

        def made() -> Any:
            with _callbacks.during(self.cancel._interrupt), self.cancel._use() as params.cancel:
                return call(byref(params))

        try:
            return interruptible(made, self.cancel)
        except Cancelled:
            if self.raised:
                raise self.raised[0]
            raise


class Placement(NamedTuple):
    """A place for the experts (MoE) of layers that are on GPUs: "auto" (on GPUs as many as fit, from the last layer
    on), "cpu" (the experts of `layers` layers that have experts, 0 being all, from `first_layer` on), or "gpu" (in
    the last layers, as many as take at most `bytes` together)."""

    place: str = "auto"
    first_layer: int = 0
    layers: int = 0
    bytes: int = 0


def _placed(placement: Placement) -> Any:
    if not isinstance(placement, Placement):
        raise InvalidArgument(f"a placement is of type {type(placement).__name__}; it must be a Placement")
    return _c.rz_placement(
        what=_c.RZ_PLACED_EXPERTS, place=_named(placement.place, "place", _PLACES), first_layer=placement.first_layer,
        n_layers=placement.layers, bytes=placement.bytes,
    )  # fmt: skip


class LoadOptions(_o.LoadOptions, total=False):
    """Options of a load, as of `Model`."""

    threads: int
    runtime: Optional[Runtime]
    devices: Sequence[int]
    shares: Sequence[float]
    placements: Sequence[Placement]
    packed_path: "Union[str, os.PathLike[str], None]"
    tested_path: "Union[str, os.PathLike[str], None]"
    chat_template: Optional[str]
    progress: Optional[Progress]
    cancel: Optional[Cancel]


class _Loading:
    """Parameters of a load, and what they point to."""

    def __init__(self, options: LoadOptions) -> None:
        _check_options(options, LoadOptions)
        fields: Dict[str, Any] = dict(options)
        take = fields.pop
        threads, runtime, placements = take("threads", 0), take("runtime", None), _list(take("placements", ()), "placements")
        devices, shares, chat_template = take("devices", ()), _list(take("shares", ()), "shares"), take("chat_template", None)
        packed_path, tested_path = take("packed_path", None), take("tested_path", None)
        self.watch = _Watch(take("progress", None), take("cancel", None))
        self.params = _c.rz_model_params(**fields)
        if runtime is not None and not isinstance(runtime, Runtime):
            raise InvalidArgument(f"runtime is {reprlib.repr(runtime)}; it must be a Runtime")
        self.is_own = runtime is None
        self.runtime = runtime if runtime is not None else Runtime(threads=threads)
        self.devices = _ids(devices, "devices")
        if len(self.devices):
            self.params.devices, self.params.n_devices = _at(self.devices), len(self.devices)
        self.shares = _floats(shares, "a share")
        if len(self.shares):
            if len(self.shares) != len(self.devices):
                raise InvalidArgument(f"{len(self.shares)} shares for {len(self.devices)} devices")
            self.params.device_split = self.shares
        self.placements = (_c.rz_placement * len(placements))(*(_placed(placement) for placement in placements))
        if len(self.placements):
            self.params.placements, self.params.n_placements = self.placements, len(self.placements)
        self.params.packed_path = _path(packed_path) if packed_path is not None else None
        self.params.tested_path = _path(tested_path) if tested_path is not None else None
        if chat_template is not None:
            template = _text(chat_template, "chat_template")
            self.params.chat_template, self.params.chat_template_len = template, len(template)

    def run(self, call: Callable[[Any], Any]) -> Any:
        """Makes a call with the parameters."""

        def made(params: Any) -> Any:
            with _use(self.runtime) as self.params.runtime:
                return call(params)

        try:
            return self.watch.run(self.params, made)
        finally:
            if self.is_own:
                self.runtime.close()  # a model keeps it alive


def _path(path: Union[str, "os.PathLike[str]"]) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgument("a path contains a NUL")
    return name


def _sources(files: Union[Source, Mapping[str, Source]]) -> Tuple[Any, List[Any]]:
    """Files of a model as the library takes them, and what has to stay meanwhile."""
    named: Mapping[Optional[str], Source] = files if isinstance(files, Mapping) else {None: files}  # type: ignore[assignment]
    sources, kept = (_c.rz_source * len(named))(), []  # type: Any, List[Any]
    for source, (name, file) in zip(sources, named.items()):
        source.struct_size = ctypes.sizeof(_c.rz_source)
        source.name = _string(name, "the name of a file") if name is not None else None
        if hasattr(file, "fileno"):
            source.kind, source.fd = _c.RZ_SOURCE_FD, file.fileno()
            kept.append(file)
            continue
        data = np.frombuffer(file, dtype=np.uint8)
        source.kind, source.data, source.size = _c.RZ_SOURCE_MEMORY, data.ctypes.data, data.size
        kept.append(data)
    return sources, kept


class PlanDevice(NamedTuple):
    """The part of a plan that is on one GPU, in bytes."""

    device: int
    n_layers: int
    weights: int
    cache: int
    scratch: int
    total: int


class Plan(NamedTuple):
    """Memory that a model and its sessions take, in bytes."""

    gpu_layers: int
    weights_host: int
    weights_device: int
    cache_host: int
    cache_device: int
    cache_token: int
    """What one more token of capacity adds to a session."""
    scratch_host: int
    scratch_device: int
    load_peak_host: int
    total_host: int
    total_device: int
    devices: Tuple[PlanDevice, ...]
    """What lies on each GPU that has layers."""
    experts_host_first: int
    """The first layer on a GPU whose experts are on the CPU, and the number of them up to the last."""
    experts_host_layers: int
    experts_host: int
    experts_device: int


def plan(
    model: Union[str, "os.PathLike[str]", Source, Mapping[str, Source]], *, sessions: int = 1, capacity: int = 0, k_type: ElementType = "f16",
    v_type: ElementType = "f16", **options: "Unpack[LoadOptions]",
) -> Plan:  # fmt: skip
    """What a model, a path or files as of Model.from_files, will take with so many sessions, before a weight is read. `options` as of
    Model."""
    _check_options(options, LoadOptions, "sessions", "capacity", "k_type", "v_type")
    is_path = isinstance(model, (str, os.PathLike))
    path = _path(model) if is_path else None  # type: ignore[arg-type]
    sources, kept = (None, None) if is_path else _sources(model)  # type: ignore[arg-type]
    cache = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
    found = _c.rz_model_plan()
    n = 0 if sources is None else len(sources)
    loading, n_sessions = _Loading(options), _whole(sessions, "sessions")
    parts, n_parts = (_c.rz_model_plan_device * _c.RZ_DEVICES_MAX)(*(_c.rz_model_plan_device() for _ in range(_c.RZ_DEVICES_MAX))), ctypes.c_size_t()
    out = (byref(found), parts, len(parts), byref(n_parts))
    loading.run(lambda params: status("rz_model_plan_get", path, sources, n, params, byref(cache), n_sessions, *out))
    del kept
    on = tuple(PlanDevice(*(getattr(part, name) for name in PlanDevice._fields)) for part in parts[: n_parts.value])
    return Plan(*(on if name == "devices" else getattr(found, name) for name in Plan._fields))


def fetch(model: str, *, progress: Optional[Callable[[int, int], Optional[bool]]] = None, cancel: Optional[Cancel] = None) -> str:
    """The path of a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", in the cache of the
    Hub's own client.

    A model that is complete there takes no connection. Else it is fetched, by the largest quantization of at most 8 bits
    that fits into the free memory where none is named; what has come is kept where a connection ends. `progress` gets
    bytes done and in all; the fetch stops with Cancelled where it returns False or raises, or where `cancel` fires.
    HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment are heeded."""
    raised: List[BaseException] = []

    def told(done: int, total: int) -> None:
        stopped = cancel is not None and cancel._has_fired()
        if progress is not None and total and not stopped:
            try:
                stopped = progress(done, total) is False
            except BaseException as e:  # noqa: BLE001 - goes on behind the fetch
                raised.append(e)
                stopped = True
        if stopped:
            raise _error_of(_c.RZ_ERR_CANCELLED, "RZ_ERR_CANCELLED", "the fetch was cancelled", 0)

    try:
        return _hub.fetch(model, max(device.memory_free for device in devices() if not device.unavailable), told)
    except Cancelled:
        if raised:
            raise raised[0]
        raise


class Model(Handle):
    """A loaded model: a .gguf file, a .safetensors file, a folder with a config.json, or one of the Hub, as `fetch` has
    it."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], **options: "Unpack[LoadOptions]") -> None:
        """Options, all of which may be left out:

        `threads`, as `Runtime` has them, or a `runtime` that is shared with other models; `device`, its index, or `devices`, GPUs over which the
        layers are divided in this order, with `shares`, the sizes of their parts in relation to one another (else in proportion to
        free memory); `gpu_layers` (0: none; else as many as fit); `placements`, the places of parts of the model, and `experts_copied_from`: steps of so
        many tokens copy experts on the CPU to the GPU (0: no step; else those for which this takes less time, as measured); `quantize`, the type to which matrices of floats are converted, such as "q8_0"; `mixed_prefill_tokens`, how many
        tokens of prompts a pass computes at most beside single tokens (64; more bring first tokens sooner and others later).

        `deterministic`, `mmap`, `text_only`, `profile`, `mtp`, `allow_unknown`, `bf16_products`: the flags RZ_MODEL_... of the library.

        `packed_path` names a file of packed weights, which the first load makes and later ones map, as fast as its vocabulary is read;
        processes share its memory. `tested_path` names a file of the tests that GPUs have passed, which later processes
        need not make again. `chat_template` is a template in Jinja in place of the model's own.

        `progress` gets bytes done and in all, on the thread that loads, which another one than the main thread is; the load stops with
        Cancelled where it returns False or raises. `cancel` stops the load. A fetch ahead of it has both too.
        """
        if isinstance(path, str) and path.startswith("hf:"):
            path = fetch(path, progress=options.get("progress"), cancel=options.get("cancel"))
        name = _path(path)
        self._load(_Loading(options), lambda params: new("rz_model_load", name, params))

    @classmethod
    def from_files(cls, files: Union[Source, Mapping[str, Source]], **options: "Unpack[LoadOptions]") -> "Model":
        """A model whose files are bytes in memory, or open binary files: one file, or those of a folder or a split set by their names.
        Nothing of them is needed afterwards."""
        self = cls.__new__(cls)
        sources, kept = _sources(files)
        self._load(_Loading(options), lambda params: new("rz_model_load_from", sources, len(sources), params))
        del kept
        return self

    def _load(self, loading: _Loading, load: Callable[[Any], c_void_p]) -> None:
        super().__init__(loading.run(load), "rz_model_free")
        info = _c.rz_model_info()
        self._call("rz_model_info_get", byref(info))
        parts = [_c.rz_model_device() for _ in range(info.n_devices)]
        for i, part in enumerate(parts):
            self._call("rz_model_device_get", i, byref(part))
        token = lambda id: None if id == _c.RZ_TOKEN_NONE else id
        self.info = ModelInfo(
            info.architecture.decode(), info.name.decode(), info.n_layers, info.hidden_dim, info.ffn_dim, info.n_heads,
            info.n_kv_heads, info.head_dim, info.vocab_size, info.context_length, info.device, token(info.bos_token),
            token(info.eos_token), info.n_params, info.weight_bytes, info.gpu_layers,
            tuple(part.device for part in parts), tuple(part.n_layers for part in parts),
            bool(info.chat_template & _c.RZ_TEMPLATE_PRESENT), bool(info.chat_template & _c.RZ_TEMPLATE_WRITES_BOS), info.n_unknown,
            bool(info.reads_source), info.isa.decode(),
        )  # fmt: skip

    def advised_sampling(self) -> Optional[Sampling]:
        """What the makers of the model advise for sampling, None where they do not. Only replies without `sampling`
        follow it."""
        advice = _c.rz_model_sampling()
        self._call("rz_model_sampling_get", byref(advice))
        if not advice.advised:
            return None
        names = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "penalty_window")
        # They advise it for transformers.
        return Sampling(**{name: getattr(advice, name) for name in names}, temperature_first=True)

    def meta(self, key: str) -> str:
        """A value of the file's metadata as text."""
        name = _string(key, "key")
        return sized(lambda *out: self._call("rz_model_meta_into", name, *out)).decode()

    def meta_keys(self) -> List[str]:
        """The keys of the metadata, in alphabetical order."""
        keys: List[str] = []
        while True:
            try:
                keys.append(sized(lambda *out: self._call("rz_model_meta_key_into", len(keys), *out)).decode())
            except NotFound:
                return keys

    def meta_list(self, key: str) -> List[str]:
        """The elements of an array of the metadata as texts."""
        name, elements = _string(key, "key"), []  # type: bytes, List[str]
        self.meta(key)  # so that a missing key is not an empty list
        while True:
            try:
                at = len(elements)
                elements.append(sized(lambda *out: self._call("rz_model_meta_element_into", name, at, *out)).decode())
            except NotFound:
                return elements

    def tokenize(self, text: str, *, special: bool = True, parse: bool = False) -> List[int]:
        """Token ids of a text. `special`: with those that begin and end a text, as the model asks. `parse`: names of control
        tokens in the text become these tokens; not for text that users typed."""
        data = _text(text, "text")
        flags = _flag(special, "special", _c.RZ_TOKENIZE_ADD_SPECIAL) | _flag(parse, "parse", _c.RZ_TOKENIZE_PARSE_SPECIAL)
        return _ids_of(lambda *out: self._call("rz_tokenize_into", data, len(data), flags, *out, None), len(data) + 8)

    def detokenize(self, tokens: Tokens, *, special: bool = False) -> str:
        """The text of tokens, with control tokens where `special`."""
        ids = _ids(tokens)
        flags = _flag(special, "special", _c.RZ_DETOKENIZE_SPECIAL)
        return sized(lambda *out: self._call("rz_detokenize_into", _at(ids), len(ids), flags, *out)).decode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, which may be a part of a character."""
        return sized(lambda *out: self._call("rz_token_bytes_into", _whole(token, "token"), *out, None))

    def text_stream(self) -> "TextStream":
        """Turns tokens into text as they come."""
        with self._use() as model:
            return TextStream(new("rz_textstream_new", model), "rz_textstream_free")

    def is_end(self, token: int) -> bool:
        """True for a token that ends a turn or a text."""
        with self._use() as model:
            return bool(library.rz_token_is_end(model, _whole(token, "token")))

    def render(self, messages: Messages, *, add_generation_prompt: bool = True, **members: "Unpack[Members]") -> str:
        """Messages as the text that the model was trained on, by the template in its file. `members`: others of the request, such as
        tools=[...] and variables={"enable_thinking": False}."""
        request = _request(messages, members)
        flags = _flag(add_generation_prompt, "add_generation_prompt", _c.RZ_CHAT_ADD_GENERATION_PROMPT)
        return sized(lambda *out: self._call("rz_chat_render_into", request, len(request), flags, *out, None), 4096).decode()

    def tokenize_chat(self, messages: Messages, **members: "Unpack[Members]") -> List[int]:
        """Messages as tokens, up to where the answer begins; no text in them becomes a control token."""
        request, flags = _request(messages, members), _c.RZ_CHAT_ADD_GENERATION_PROMPT
        return _ids_of(lambda *out: self._call("rz_chat_tokenize_into", request, len(request), flags, *out, None), len(request) + 64)

    def grammar(self, kind: str, text: Any = "", *, whitespace: bool = False) -> "Grammar":
        """A grammar for what is written: of a "json_schema", "regex", "lark", "gbnf", "json", "choices" (a list of texts), "tools" (a
        conversation). What is no text is written as JSON. `whitespace`: JSON may have some between its parts."""
        number, flags, data = _grammar(kind, text, whitespace)
        with self._use() as model:
            return Grammar(new("rz_grammar_new", model, number, flags, data, len(data), None), "rz_grammar_free")

    def chat_parser(self, messages: Messages, **members: "Unpack[Members]") -> "ChatParser":
        """A parser for the reply to a conversation, whose tokens (`tokenize_chat` with the same arguments) were the prompt."""
        request = _request(messages, members)
        with self._use() as model:
            return ChatParser(new("rz_chat_parser_new", model, request, len(request), None), "rz_chat_parser_free")

    def adapter(self, path: Union[str, "os.PathLike[str]"]) -> "Adapter":
        """A low-rank adapter: a GGUF file or a folder of PEFT."""
        name = _path(path)
        with self._use() as model:
            return Adapter(new("rz_adapter_load", model, name, None), "rz_adapter_free")

    def session(self, capacity: int = 0, *, k_type: ElementType = "f16", v_type: ElementType = "f16") -> "Session":
        """An empty session with room for `capacity` tokens; 0: as many as the model was made for, at most 8192."""
        params = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
        with self._use() as model:
            return Session(self, new("rz_cache_new", model, byref(params)))

    def restore(self, file: BinaryIO) -> "Session":
        """The session that `Session.save` has written."""
        with self._use() as model, _reading(file) as callback:
            return Session(self, new("rz_cache_load", model, None, callback, None, None))

    def embed(
        self, texts: "Sequence[Union[str, Tokens, Prompt]]", *, pooling: Pooling = "model", normalize: bool = True,
        cancel: Optional[Cancel] = None,
    ) -> "np.ndarray":  # fmt: skip
        """Embeddings of texts, of lists of tokens, or of prompts with pictures: an array [texts][dims] of float32,
        which the library writes itself. With pooling "none" there is a row for each token, with "rank" one of scores
        for each text."""
        texts = _list(texts, "texts")
        prompts: Any = [text for text in texts if isinstance(text, Prompt)]
        ids: List[Any] = [text if isinstance(text, Prompt) else _ids(self.tokenize(text) if isinstance(text, str) else text) for text in texts]
        if prompts:
            ids = prompts = [text if isinstance(text, Prompt) else Prompt(self, [text]) for text in ids]
        else:
            lists = (ctypes.POINTER(c_uint32) * len(ids))(*map(_at, ids))
            lengths = (ctypes.c_size_t * len(ids))(*map(len, ids))
        params = _c.rz_embed_params(pooling=pooling, raw=not _switch(normalize, "normalize"))
        rows = sum(map(len, ids)) if pooling == "none" else len(ids)
        if not ids:
            return np.empty((0, self.info.hidden_dim), dtype=np.float32)
        out = np.empty(rows * self.info.hidden_dim, dtype=np.float32)
        n = ctypes.c_size_t()
        stop = cancel if cancel is not None else Cancel()

        def call(out: "np.ndarray") -> "np.ndarray":
            with self._use() as model, _use(stop) as flag, _use_all(prompts) as pointers:
                room = (out.ctypes.data, out.size, byref(n), flag)
                if prompts:
                    status("rz_embed_prompts_into", model, byref(params), pointers, len(ids), *room)
                else:
                    status("rz_embed_into", model, byref(params), lists, lengths, len(ids), *room)
            return out[: n.value].reshape(rows, -1)

        while True:
            try:
                return interruptible(lambda: call(out), stop)
            except BufferTooSmall:
                out = np.empty(n.value, dtype=np.float32)

    def metrics(self) -> Dict[str, Phase]:
        """Number and time of the calls of each kind since the model was loaded."""
        metrics = _c.rz_metrics()
        self._call("rz_metrics_get", byref(metrics))
        return {name: Phase(getattr(metrics, name).count, getattr(metrics, name).sum_ns) for name, kind in metrics._fields_ if kind is _c.rz_phase_metrics}

    def work(self, kind: str = "cpu") -> Work:
        """The work of one kind of device, "cpu" or "gpu", since the model was loaded."""
        metrics = _c.rz_backend_metrics()
        self._call("rz_backend_metrics_get", _named(kind, "kind", _DEVICES), byref(metrics))
        found = [getattr(metrics, name) for name in Work._fields[:-1]]
        return Work(*found, tuple(metrics.latency_histogram))

    def reset_metrics(self) -> None:
        """Sets the counters to zero."""
        with self._use() as model:
            library.rz_metrics_reset(model)


class _use:
    """The pointer of a handle that may be None."""

    def __init__(self, handle: Optional[Handle]) -> None:
        if handle is not None and not isinstance(handle, Handle):
            raise InvalidArgument(f"an argument is {reprlib.repr(handle)}; it must be an object of realizar")
        self._used = handle._use() if handle is not None else None

    def __enter__(self) -> Optional[int]:
        return self._used.__enter__() if self._used else None

    def __exit__(self, *exception) -> None:  # type: ignore[no-untyped-def]
        if self._used:
            self._used.__exit__(*exception)


@contextmanager
def _use_all(handles: Iterable[Optional[Handle]]) -> Iterator[Any]:
    """The pointers of handles, each of which may be None."""
    with ExitStack() as stack:
        pointers = [stack.enter_context(_use(handle)) for handle in handles]
        yield (c_void_p * len(pointers))(*pointers)


class _transfer:
    """A callback that moves bytes; what it raises goes on where the call ends."""

    def __init__(self, kind: Any, move: Callable[[int, int], Any]) -> None:
        self.raised: Optional[BaseException] = None

        def call(data, n, _user):  # type: ignore[no-untyped-def]
            if _callbacks.has_ended:
                return errno.ECANCELED
            try:
                move(data, n)
                return 0
            except BaseException as e:  # noqa: BLE001
                self.raised = e
                return errno.EIO

        self.callback, self.during = kind(call), _callbacks.during()

    def __enter__(self):  # type: ignore[no-untyped-def]
        self.during.__enter__()
        return self.callback

    def __exit__(self, *exception) -> None:  # type: ignore[no-untyped-def]
        self.during.__exit__(None, None, None)
        if self.raised is not None:
            raise self.raised


def _reading(file: BinaryIO) -> _transfer:
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

    return _transfer(_c.rz_read_callback, fill)


def _writing(file: BinaryIO) -> _transfer:
    def drain(data: int, n: int) -> None:
        rest = ctypes.string_at(data, n)
        while rest:  # a raw file takes what it can
            taken = file.write(rest)
            if taken is None and isinstance(file, io.RawIOBase):
                raise BlockingIOError(errno.EAGAIN, "the file takes no bytes now")
            if taken is not None and not 0 < taken <= len(rest):
                raise OSError(errno.EIO, f"the file took {taken} bytes; write must take from 1 to {len(rest)}")
            rest = rest[len(rest) if taken is None else taken :]

    return _transfer(_c.rz_write_callback, drain)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Members(TypedDict, total=False):
    """Members of a request beside its messages."""

    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]
    response_format: Any


def _request(messages: Messages, members: Mapping[str, Any]) -> bytes:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    _check_options(members, Members)
    return _json({"messages": _list(messages, "messages"), **members}).encode()


def _set_members(params: Any, **members: "Unpack[Members]") -> None:
    """Tools and variables of one reply; None: those of the conversation."""
    given = {name: value for name, value in members.items() if value is not None}
    if given:
        params.json = _json(given).encode()
        params.json_len = len(params.json)


_GRAMMARS = _numbers("RZ_GRAMMAR_")
_WHITESPACE = _GRAMMARS.pop("flag_whitespace")
del _GRAMMARS["flag_best_effort"]
_EVENTS = {value: name for name, value in _numbers("RZ_CHAT_EVENT_").items() if not name.startswith("flag_")}
_ENDS = {value: "end" if name == "token" else name for name, value in _numbers("RZ_END_").items()}


def _grammar(kind: str, text: Any = "", whitespace: bool = False) -> Tuple[int, int, bytes]:
    number = _named(kind, "the kind of a grammar", _GRAMMARS)
    if kind in ("regex", "lark", "gbnf") and not isinstance(text, str):
        raise InvalidArgument(f"the grammar is {reprlib.repr(text)}; it must be a text, because its kind is {kind}")
    return number, _flag(whitespace, "whitespace", _WHITESPACE), (text if isinstance(text, str) else _json(text)).encode()


_OVERFLOWS = _numbers("RZ_OVERFLOW_")


class Grammar(Handle):
    """What may be written. Immutable: any number of jobs and replies may use it at once."""


class Adapter(Handle):
    """A low-rank adapter of a model. Immutable: any number of sessions may use it at once."""


Adapters = Union[Sequence[Adapter], Mapping[Adapter, float]]


def _scales(adapters: Adapters) -> Any:
    return _floats(adapters.values() if isinstance(adapters, Mapping) else [1.0] * len(adapters), "the scale of an adapter")


class EncoderInfo(NamedTuple):
    projector: str
    is_mutual: bool
    """The rows of a picture see each other, so that one step of the model computes them."""
    row_dim: int
    n_layers: int
    tile_side: int
    """Pixels of the side of a tile; 0: a picture is one tile of any size."""
    grain: int
    """Pixels of which the sides of tiles are multiples."""
    min_rows: int
    max_rows: int
    weight_bytes: int
    scratch_bytes: int
    kinds: Tuple[str, ...]
    """The kinds of media that it makes: "image", "audio", "vector" or "video"."""
    sample_rate: int
    """Samples a second that sound is brought to; 0 of pictures."""


class EncoderPlan(NamedTuple):
    """Memory that an encoder takes beside that of its model, in bytes."""

    max_rows: int
    """Rows of the largest picture."""
    weights_host: int
    scratch_host: int
    row: int


class MediaInfo(NamedTuple):
    kind: str
    """ "image", "audio" or "video"."""
    n_rows: int
    """Rows, each of which takes the place of a token in a session."""
    n_tokens: int
    """Tokens of a prompt that it takes: its rows, and the model's tokens around and between them."""
    row_dim: int
    columns: int
    """Rows of a line and number of lines, of the whole picture where it is one tile, else of a tile."""
    lines: int
    tile_columns: int
    """Tiles beside and above one another; 0 where the picture is one tile."""
    tile_lines: int
    has_overview: bool
    width: int
    """Pixels of the picture, turned upright; of a sound its samples and 0; 0 for rows of the caller."""
    height: int
    seen_width: int
    """Pixels of all tiles together as the model sees them, by which places that it names are mapped back."""
    seen_height: int
    bytes: int
    encode_ns: int
    hash: bytes
    """The same for the same pixels, parameters and encoder, whatever the format of the file was."""
    pairs: int
    """Pairs of frames of a video, each of which has `lines` lines of `columns` rows."""


_PIXELS = _numbers("RZ_PIXELS_")
_MEDIA = _numbers("RZ_MEDIA_")
_ENCODERS = _numbers("RZ_ENCODER_")


def _media_info(info: Any) -> MediaInfo:
    kind = {number: name for name, number in _MEDIA.items()}[info.kind]
    told = {"kind": kind, "has_overview": bool(info.has_overview), "hash": bytes(info.hash)}
    return MediaInfo(*(told[name] if name in told else getattr(info, name) for name in MediaInfo._fields))


def _pixels(image: Any, format: Optional[str]) -> Tuple[Any, Any]:
    """Pixels as the library takes them, and what has to stay meanwhile."""
    if hasattr(image, "convert") and hasattr(image, "getbands"):
        image = _of_pillow(image)
    data = np.asarray(image)
    depth = data.shape[2] if data.ndim == 3 else 1 if data.ndim == 2 else 0
    names = {1: ("gray8",), 3: ("rgb8",), 4: ("rgba8", "bgra8")}.get(depth, ())
    if data.dtype != np.uint8 or not names or format is not None and format not in names:
        raise InvalidArgument(f"pixels {data.shape} of {data.dtype}{f' as {format}' if format else ''} are no [height][width][1, 3 or 4] of uint8")
    if data.strides[1] != depth or data.ndim == 3 and data.strides[2] != 1 or data.strides[0] < data.shape[1] * depth:
        data = np.ascontiguousarray(data)
    pixels = _c.rz_pixels(format=_PIXELS[format or names[0]], width=data.shape[1], height=data.shape[0], stride=data.strides[0])
    pixels.data = data.ctypes.data
    return pixels, data


# Pillow's transposition for each orientation from 2 on, by which a picture comes upright.
_UPRIGHT = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}


def _of_pillow(image: Any) -> Any:
    """A picture of Pillow, upright, in RGB, or RGBA where it is transparent somewhere."""
    turned = _UPRIGHT.get(image.getexif().get(0x112)) if hasattr(image, "getexif") else None
    is_clear = "A" in image.getbands() or "a" in image.getbands() or image.info.get("transparency") is not None
    if image.mode not in ("RGB", "RGBA", "L") or is_clear and image.mode != "RGBA":
        image = image.convert("RGBA" if is_clear else "RGB")
    return image if turned is None else image.transpose(turned)


class EncoderOptions(_o.EncoderOptions, total=False):
    """Options of an encoder, as of `Encoder`."""

    kind: "Optional[Literal['image', 'audio']]"
    allow_unknown: bool


class Encoder(Handle):
    """The encoder of a model that sees or hears. Immutable: any number of threads may use it at once."""

    def __init__(
        self, model: Model, path: Union[str, "os.PathLike[str]"], *, progress: Optional[Progress] = None,
        cancel: Optional[Cancel] = None, **options: "Unpack[EncoderOptions]",
    ) -> None:  # fmt: skip
        """`path`: the .gguf file with the projector ("mmproj-..."), or a folder with a config.json: that of the model,
        where it has both; or "hf:owner/name", the encoder of a model of the Hub. `quantize`, `device`, `progress`,
        `cancel`, `allow_unknown` as of `Model`. `max_rows`: the most that a picture or a sound may have. `kind`: "image"
        or "audio", of a file that has both encoders."""
        name = _path(_encoder_of(path, progress, cancel))
        self._load(model, options, progress, cancel, lambda pointer, params: new("rz_encoder_load", pointer, name, params))

    @classmethod
    def from_files(
        cls, model: Model, files: Union[Source, Mapping[str, Source]], *, progress: Optional[Progress] = None,
        cancel: Optional[Cancel] = None, **options: "Unpack[EncoderOptions]",
    ) -> "Encoder":  # fmt: skip
        """An encoder whose files are as `Model.from_files` takes them."""
        self, (sources, kept) = cls.__new__(cls), _sources(files)
        self._load(
            model, options, progress, cancel,
            lambda pointer, params: new("rz_encoder_load_from", pointer, sources, len(sources), params),
        )  # fmt: skip
        del kept
        return self

    def _load(
        self, model: Model, options: EncoderOptions, progress: Optional[Progress], cancel: Optional[Cancel],
        make: Callable[[Any, Any], c_void_p],
    ) -> None:  # fmt: skip
        params = _encoder_params(options)

        def load(params: Any) -> c_void_p:
            with _use(model) as pointer:
                return make(pointer, params)

        super().__init__(_Watch(progress, cancel).run(params, load), "rz_encoder_free")
        info = _c.rz_encoder_info()
        self._call("rz_encoder_info_get", byref(info))
        told = {"projector": info.projector.decode(), "is_mutual": bool(info.is_mutual)}  # type: Dict[str, Any]
        told["kinds"] = tuple(name for name, number in _MEDIA.items() if info.kinds & number)
        self.info = EncoderInfo(*(told[name] if name in told else getattr(info, name) for name in EncoderInfo._fields))

    @staticmethod
    def plan(model: Model, path: Union[str, "os.PathLike[str]"], **options: "Unpack[EncoderOptions]") -> EncoderPlan:
        """The memory that an encoder will take, before a weight is read."""
        found = _c.rz_encoder_plan()
        model._call("rz_encoder_plan_get", _path(_encoder_of(path)), None, 0, byref(_encoder_params(options)), byref(found))
        return EncoderPlan(*(getattr(found, name) for name in EncoderPlan._fields))

    def encode(
        self, image: Any, *, format: Optional[str] = None, progress: Optional[Progress] = None, cancel: Optional[Cancel] = None,
        **options: "Unpack[_o.MediaOptions]",
    ) -> "Media":  # fmt: skip
        """Encodes a picture: the bytes of a PNG, JPEG, WebP, GIF or BMP file, an open binary file, or pixels, an
        array of uint8 [height][width] with nothing, 1 (gray), 3 (RGB) or 4 bytes each (RGBA, or BGRA with
        `format="bgra8"`), such as a picture of Pillow or what has the buffer protocol.

        `min_rows`, `max_rows`: smaller pictures are enlarged and larger ones shrunk; `max_tiles`; `max_pixels` of a file;
        `background`, the colour behind transparent pixels, 0xffRRGGBB, white where it is left out. `progress` gets tiles
        done and in all, `cancel` stops it."""
        return self._encode(image, format, progress, cancel, _media_params(options))

    def begin(self, image: Any, *, format: Optional[str] = None, cancel: Optional[Cancel] = None, **options: "Unpack[_o.MediaOptions]") -> "Media":
        """`encode` without the work, which `Media.step` does in slices of time; until it is done prompts refuse the
        medium."""
        return self._encode(image, format, None, cancel, _media_params(options, _c.RZ_ENCODE_STEPS))

    def _encode(
        self, image: Any, format: Optional[str], progress: Optional[Progress], cancel: Optional[Cancel], params: Any
    ) -> "Media":
        if hasattr(image, "read"):
            image = image.read()
        is_file = False
        if not hasattr(image, "convert"):
            data = np.frombuffer(image, dtype=np.uint8) if isinstance(image, (bytes, bytearray)) else np.asarray(image)
            is_file = data.ndim == 1 and data.dtype == np.uint8
        if is_file:
            data = np.ascontiguousarray(data)
            function, arguments = "rz_media_from_image", (c_void_p(data.ctypes.data), data.size)  # type: str, Tuple[Any, ...]
        else:
            pixels, data = _pixels(image, format)
            function, arguments = "rz_media_from_pixels", (byref(pixels),)
        return self._made(function, arguments, params, progress, cancel, data)

    def encode_video(
        self, frames: Sequence[Any], times: Sequence[float], *, format: Optional[str] = None, progress: Optional[Progress] = None,
        cancel: Optional[Cancel] = None, **options: "Unpack[_o.MediaOptions]",
    ) -> "Media":  # fmt: skip
        """Encodes a video: at least two frames of one size, as `encode` takes pixels, and the time of each in seconds from
        its beginning.

        `min_rows`, `max_rows`: bounds on all frames together. `progress` gets pairs of frames done and in all, `cancel`
        stops it."""
        if len(frames) != len(times):
            raise InvalidArgument(f"{len(frames)} frames have {len(times)} times")
        made = [_pixels(frame, format) for frame in frames]
        list_, at = (_c.rz_pixels * len(made))(*(pixels for pixels, _ in made)), (ctypes.c_double * len(times))(*times)
        return self._made("rz_media_from_frames", (list_, at, len(made)), _media_params(options), progress, cancel, made)

    def encode_sound(
        self, sound: Any, rate: int = 0, *, max_rows: int = 0, progress: Optional[Progress] = None, cancel: Optional[Cancel] = None
    ) -> "Media":
        """Encodes a sound: the bytes of a WAV, MP3, FLAC or Ogg file, an open binary file, or samples, an array of floats [samples] or
        [samples][channels] from -1 to 1, `rate` of each channel a second. Several channels become their mean.

        `progress` gets parts done and in all, `cancel` stops it."""
        if hasattr(sound, "read"):
            sound = sound.read()
        if isinstance(sound, (bytes, bytearray, memoryview)):
            data = np.frombuffer(sound, dtype=np.uint8)
            function, arguments = "rz_media_from_audio", (c_void_p(data.ctypes.data), data.size)  # type: str, Tuple[Any, ...]
        else:
            data = np.asarray(sound)
            if data.ndim not in (1, 2) or not np.issubdtype(data.dtype, np.floating):
                raise InvalidArgument(f"samples {data.shape} of {data.dtype} are no floats of some channels")
            data = np.ascontiguousarray(data, dtype=np.float32)
            channels = data.shape[1] if data.ndim == 2 else 1
            at = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            function, arguments = "rz_media_from_samples", (at, data.size, channels, _whole(rate, "rate"))
        return self._made(function, arguments, _c.rz_media_params(max_rows=max_rows), progress, cancel, data)

    def _made(
        self, function: str, arguments: Tuple[Any, ...], params: Any, progress: Optional[Progress], cancel: Optional[Cancel], data: Any
    ) -> "Media":
        """A medium of `data`, which stays until it is made."""

        def call(params: Any) -> c_void_p:
            with self._use() as encoder:
                return new(function, encoder, *arguments, params)

        made = _Watch(progress, cancel).run(params, call)
        del data
        return Media(made)

    def measure(self, width: int, height: int = 0, **options: "Unpack[_o.MediaOptions]") -> MediaInfo:
        """The `Media.info` that a picture of so many pixels would have, or a sound of `width` samples of a channel at
        the rate of the encoder, without one; time and hash are zero."""
        info = _c.rz_media_info()
        self._call("rz_media_measure", _whole(width, "width"), _whole(height, "height"), byref(_media_params(options)), byref(info))
        return _media_info(info)


def _encoder_of(path: Any, progress: Optional[Progress] = None, cancel: Optional[Cancel] = None) -> Any:
    """A path, of the encoder of a model of the Hub that of its file."""
    of_hub = isinstance(path, str) and path.startswith(_hub.PREFIX)
    return fetch(_hub.encoder_name(path), progress=progress, cancel=cancel) if of_hub else path


def _encoder_params(options: EncoderOptions) -> Any:
    _check_options(options, EncoderOptions)
    fields: Dict[str, Any] = dict(options)
    kind, allow_unknown = fields.pop("kind", None), fields.pop("allow_unknown", False)
    flags = 0 if kind is None else _named(kind, "kind", _ENCODERS)
    return _c.rz_encoder_params(**fields, flags=flags | _flag(allow_unknown, "allow_unknown", _c.RZ_MODEL_ALLOW_UNKNOWN))


def _media_params(options: _o.MediaOptions, flags: int = 0) -> Any:
    _check_options(options, _o.MediaOptions)
    return _c.rz_media_params(**options, flags=flags)


class Media(Handle):
    """The rows of a picture, a sound or a source text, which a model takes among its tokens, in any number of prompts.
    Immutable: any number of threads may use it at once."""

    def __init__(self, owned: c_void_p) -> None:
        super().__init__(owned, "rz_media_free")
        info = _c.rz_media_info()
        self._call("rz_media_info_get", byref(info))
        self.info = _media_info(info)

    @classmethod
    def from_rows(cls, model: Model, rows: Any, *, kind: str = "image", columns: int = 0, lines: int = 0) -> "Media":
        """A medium of rows that an encoder of the caller gave, an array [rows][row_dim] that becomes one of float32.
        `columns` times `lines` is the number of rows, for models whose positions go by both."""
        given = np.asarray(rows)
        if given.ndim != 2 or given.dtype.kind not in "fiu":
            raise InvalidArgument(f"rows {given.shape} of {given.dtype} are no numbers [rows][row_dim]")
        data = np.ascontiguousarray(given, dtype=np.float32)
        at, number = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), _named(kind, "kind", _MEDIA)
        with _use(model) as pointer:
            shape = (*data.shape, _whole(columns, "columns"), _whole(lines, "lines"))
            return cls(new("rz_media_from_rows", pointer, number, at, *shape))

    @classmethod
    def from_tokens(cls, model: Model, tokens: Tokens, *, cancel: Optional[Cancel] = None) -> "Media":
        """The source of a model with an encoder and a decoder (`ModelInfo.reads_source`): what its encoder makes of a
        text, and the token that the decoder starts from. A prompt of it is all that `generate` needs."""
        ids, stop = _ids(tokens), cancel if cancel is not None else Cancel()

        def made() -> c_void_p:
            with _use(model) as pointer, _use(stop) as flag:
                return new("rz_media_from_tokens", pointer, _at(ids), len(ids), flag)

        return cls(interruptible(made, stop))

    @classmethod
    def load(cls, model: Model, file: BinaryIO) -> "Media":
        """The medium that `save` has written; no encoder is needed."""
        with _use(model) as pointer, _reading(file) as callback:
            return cls(new("rz_media_load", pointer, callback, None, None))

    def save(self, file: BinaryIO) -> None:
        """Writes the medium; `load` reads it."""
        with self._use() as media, _writing(file) as callback:
            status("rz_media_save", media, callback, None, None)

    def step(self, seconds: Optional[float] = None) -> bool:
        """Works for about so long on a medium of `Encoder.begin`; None: to its end. True while there is more to do."""
        with self._use() as media:
            more = status("rz_media_step", media, _microseconds(seconds)) != _c.RZ_DONE
        info = _c.rz_media_info()
        self._call("rz_media_info_get", byref(info))
        self.info = _media_info(info)
        return more

    def rows(self) -> "np.ndarray":
        """The rows, an array [rows][row_dim] of float32."""
        out, n = np.empty((self.info.n_rows, self.info.row_dim), dtype=np.float32), ctypes.c_size_t()
        self._call("rz_media_rows_into", out.ctypes.data, out.size, byref(n))
        return out

    @property
    def hash(self) -> bytes:
        """32 bytes, the same for the same pixels, parameters and encoder: a key for tables."""
        return self.info.hash

    def __len__(self) -> int:
        return self.info.n_rows


class Prompt(Handle):
    """Tokens and media in their order. Immutable: any number of threads may use it at once."""

    MEDIA_TOKEN: int = _c.RZ_TOKEN_MEDIA
    """Instead of a token id in the tokens of sessions and prompts: a row of a medium."""

    def __init__(self, model: Model, parts: "Iterable[Union[str, Tokens, Media]]", *, bare: bool = False) -> None:
        """`parts`: media; lists of tokens; and texts, which become tokens as `Model.tokenize` makes them, those that
        begin a text ahead of a first part alone. `bare`: the rows of media alone, without the model's tokens around and
        between them."""
        taken: List[Tuple[Optional["np.ndarray"], Optional[Media]]] = []
        for part in _list(parts, "parts"):
            if isinstance(part, str):
                part = model.tokenize(part, special=not taken)
            taken.append((None, part) if isinstance(part, Media) else (_ids(part), None))
        array = (_c.rz_part * len(taken))()
        with _use(model) as pointer, _use_all(media for _, media in taken) as media:
            for part, (ids, _), medium in zip(array, taken, media):
                part.media = medium
                if ids is not None:
                    part.tokens, part.n_tokens = _at(ids), len(ids)
            made = new("rz_prompt_new", pointer, array, len(taken), _flag(bare, "bare", _c.RZ_PROMPT_BARE))
        super().__init__(made, "rz_prompt_free")

    @classmethod
    def of_chat(cls, model: Model, messages: Messages, **members: "Unpack[Members]") -> "Prompt":
        """A prompt of messages, up to where the answer begins, whose content may have parts with media: [{"type":
        "image", "media": medium}, {"type": "text", "text": "What is this?"}]. `members` as of `Model.render`."""
        _check_options(members, Members)
        listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else _list(messages, "messages")
        request, found = _numbered({"messages": listed, **members})
        self = cls.__new__(cls)
        with _use(model) as pointer, _use_all(found) as media:
            flags = _c.RZ_CHAT_ADD_GENERATION_PROMPT
            made = new("rz_prompt_from_chat", pointer, request, len(request), flags, media, len(found), None)
        super(Prompt, self).__init__(made, "rz_prompt_free")
        return self

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        with self._use() as prompt:
            return int(library.rz_prompt_len(prompt))

    @property
    def tokens(self) -> List[int]:
        """The tokens of the prompt, with MEDIA_TOKEN for each row of a medium."""
        return _ids_of(lambda *out: self._call("rz_prompt_tokens_into", *out), len(self))


def _numbered(value: Any) -> Tuple[bytes, List[Media]]:
    """JSON, with a number for each medium, and the media."""
    found: List[Media] = []

    def number(value: Any) -> int:
        if not isinstance(value, Media):
            raise TypeError(f"{type(value).__name__} is no JSON and no medium")
        found.append(value)
        return len(found) - 1

    return json.dumps(value, ensure_ascii=False, default=number).encode(), found


class TextStream(Handle):
    """Turns tokens into text as they come, holding back the bytes of an unfinished character."""

    def follow(self, tokens: Tokens) -> None:
        """Puts tokens ahead of those to come, such as a prompt, without their text."""
        ids = _ids(tokens)
        self._call("rz_textstream_follow", _at(ids), len(ids))

    def push(self, token: int) -> str:
        """Adds a token, and gives the text that is complete with it, often none."""
        return sized(lambda *out: self._call("rz_textstream_push_into", _whole(token, "token"), *out)).decode()

    def flush(self) -> str:
        """Ends the text, and gives the rest of it."""
        return sized(lambda *out: self._call("rz_textstream_flush_into", *out)).decode()


class Part(NamedTuple):
    kind: str
    """ "reasoning", "content", "tool_id" (which the message has too), "tool_name", "tool_arguments" (a piece of a JSON
    object), or "end". A call begins with its id."""
    call: int
    """The number of the call that an id, a name or arguments belong to."""
    text: str
    unparsed: bool
    """Content that begins like a call and is none; with "end": there was such, or a call broke off."""


class ChatParser(Handle):
    """Takes a reply apart while its tokens come: reasoning, content, and calls of tools."""

    def push(self, token: int) -> List[Part]:
        """Adds a token, and gives the parts that it completes, often none."""
        self._call("rz_chat_parser_push", _whole(token, "token"))
        return _parts("rz_chat_parser_next_into", self)

    def end(self) -> List[Part]:
        """Ends the reply, and gives the rest of it."""
        self._call("rz_chat_parser_end")
        return _parts("rz_chat_parser_next_into", self)


def _parts(next_into: str, handle: Handle) -> List[Part]:
    """The parts that a parser or a job has ready."""
    parts: List[Part] = []
    kind, flags, index = c_uint32(), c_uint32(), c_uint32()
    while True:
        kind.value = 0
        text = sized(lambda *out: handle._call(next_into, byref(kind), byref(flags), byref(index), *out))
        if kind.value == 0:
            return parts
        unparsed = flags.value & _c.RZ_CHAT_EVENT_FLAG_UNPARSED != 0
        parts.append(Part(_EVENTS[kind.value], index.value, text.decode(), unparsed))


# How next tokens are guessed, which changes nothing but the time.
Draft = Union[None, "Literal['lookup', 'mtp']", Model]


class JobOptions(_o.JobOptions, total=False):
    """Options of a generation, as of `Session.job`."""

    stops: Sequence[str]
    grammar: Optional[Grammar]
    cancel: Optional[Cancel]
    draft: Draft


class Session(Handle):
    """A line of tokens. It keeps what it has computed: a prompt that begins like the one before costs only its new end."""

    def __init__(self, model: Model, owned: c_void_p) -> None:
        super().__init__(owned, "rz_cache_free")
        self.model = model
        # Ends calls on the session when a signal interrupts them.
        self._stop = Cancel()
        with self._use() as cache, self._stop._use() as stop:
            status("rz_cache_cancel_set", cache, stop)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        with self._use() as cache:
            return int(library.rz_cache_len(cache))

    @property
    def capacity(self) -> int:
        """Tokens that there is room for."""
        with self._use() as cache:
            return int(library.rz_cache_capacity(cache))

    @property
    def tokens(self) -> List[int]:
        """The tokens of the session."""
        return _ids_of(lambda *out: self._call("rz_cache_tokens_into", *out), len(self))

    def truncate(self, n: int) -> None:
        """Rewinds to the first `n` tokens."""
        self._call("rz_cache_truncate", _whole(n, "n"))

    def shift(self, keep: int, drop: int) -> None:
        """Forgets `drop` tokens behind the first `keep`, to make room; those behind them move up, and are computed again by the next call
        that needs them."""
        self._call("rz_cache_shift", _whole(keep, "keep"), _whole(drop, "drop"))

    def release(self) -> None:
        """Gives the memory of keys and values back; the next call that needs them computes them again."""
        self._call("rz_cache_release")

    def fork(self) -> "Session":
        """A second session with the same past."""
        with self._use() as cache:
            return Session(self.model, new("rz_cache_fork", cache))

    def set_adapters(self, adapters: Adapters) -> None:
        """Has the session use some adapters, or adapters with their scales, or none; empties it."""
        scales = _scales(adapters)
        with self._use() as cache, _use_all(adapters) as pointers:
            status("rz_cache_adapters_set", cache, pointers, scales, len(scales))

    def save(self, file: BinaryIO) -> None:
        """Writes the session, so that it outlives the process; `Model.restore` reads it."""
        with self._use() as cache, _writing(file) as callback:
            status("rz_cache_save", cache, callback, None, None)

    def match(self, prompt: Union[Tokens, Prompt]) -> int:
        """The number of the first tokens of a prompt that the session need not compute again."""
        common = c_uint32()
        if isinstance(prompt, Prompt):
            with self._use() as cache, prompt._use() as pointer:
                status("rz_cache_match_prompt", cache, pointer, byref(common))
        else:
            ids = _ids(prompt)
            self._call("rz_cache_match", _at(ids), len(ids), byref(common))
        return common.value

    def prefill(self, tokens: Union[Tokens, Prompt], *, first: int = 0, cancel: Optional[Cancel] = None) -> None:
        """Appends tokens, from number `first` on, at least one; afterwards there are logits of the last one."""
        first = _whole(first, "first")
        ids = None if isinstance(tokens, Prompt) else _ids(tokens)[first:]

        def call() -> None:
            with self._use() as cache, _use(cancel) as flag:
                if isinstance(tokens, Prompt):
                    with tokens._use() as prompt:
                        status("rz_prefill_prompt", cache, prompt, first, flag)
                else:
                    status("rz_prefill", cache, _at(ids), len(ids), flag)

        interruptible(call, self._stop)

    def score(self, tokens: Tokens, *, cancel: Optional[Cancel] = None) -> "np.ndarray":
        """Appends tokens, as `prefill` does, and gives the logarithm of the probability of each after all before it."""
        ids = _ids(tokens)
        out = np.empty(len(ids), dtype=np.float32)

        def call() -> None:
            with self._use() as cache, _use(cancel) as flag:
                at = out.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
                status("rz_score", cache, _at(ids), len(ids), at, flag)

        interruptible(call, self._stop)
        return out

    def sample(self, sampler: Optional[Sampler] = None) -> int:
        """Chooses a token from the logits, the most likely one without a sampler."""
        token = c_uint32()
        with self._use() as cache, _use(sampler) as chooser:
            status("rz_sample", cache, chooser, byref(token))
        return token.value

    def decode(self, token: int, sampler: Optional[Sampler] = None) -> int:
        """Appends a token and chooses the next one."""
        following, token = c_uint32(), _whole(token, "token")

        def call() -> int:
            with self._use() as cache, _use(sampler) as chooser:
                status("rz_decode_token", cache, token, chooser, byref(following))
            return following.value

        return int(interruptible(call, self._stop))

    def logprobs(self, k: int) -> List[Tuple[int, float]]:
        """The `k` likeliest tokens after the last one with the logarithms of their probabilities, the likeliest first."""
        k = min(_whole(k, "k"), self.model.info.vocab_size)
        tokens, logprobs, n = (c_uint32 * k)(), (ctypes.c_float * k)(), ctypes.c_size_t()
        self._call("rz_top_logprobs", k, tokens, logprobs, byref(n))
        return list(zip(tokens, logprobs))[: n.value]

    def logits(self, out: Optional["np.ndarray"] = None) -> "np.ndarray":
        """Logits after the last token, one for each entry of the vocabulary, written to `out` or to a new array of float32."""
        if out is None:
            out = np.empty(self.model.info.vocab_size, dtype=np.float32)
        if not isinstance(out, np.ndarray) or out.dtype != np.float32 or not out.flags.c_contiguous or not out.flags.writeable:
            raise InvalidArgument("out is no contiguous array of float32 that can be written")
        n = ctypes.c_size_t()
        self._call("rz_logits_into", out.ctypes.data, out.size, byref(n))
        return out

    def job(
        self, prompt: Union[str, Tokens, Prompt], sampling: Sampling = Sampling(), *, max_tokens: Optional[int] = None,
        stops: Sequence[str] = (), grammar: Optional[Grammar] = None, cancel: Optional[Cancel] = None,
        draft: "Draft" = None, draft_max: int = 0, logprobs: Optional[int] = None, priority: int = 0,
    ) -> "Job":  # fmt: skip
        """Continues a text, tokens or a prompt in a job that works when it is told to. What the session holds of them
        from its start is not computed again. The session is busy until the job is closed. `draft`: how next tokens are
        guessed, which changes nothing but the time: "lookup" out of the text, "mtp" by a layer of the model itself
        (loaded with `mtp`), or by a small model of the same vocabulary, up to `draft_max` at a time. `logprobs`: how
        many of the likeliest tokens `Job.logprobs` tells with each (0: the tokens alone). `priority`: among the jobs of a step the higher go
        first."""
        whole = prompt if isinstance(prompt, Prompt) else _ids(self.model.tokenize(prompt) if isinstance(prompt, str) else prompt)
        kept, n = self.match(whole), len(whole)
        # The last token of a prompt is always computed, because the answer starts from its logits; rows at its end are,
        # as a whole, because they may see each other.
        if kept == n and n:
            ids, kept = whole.tokens if isinstance(whole, Prompt) else whole, n - 1
            while kept and ids[kept] == Prompt.MEDIA_TOKEN:
                kept -= 1
        self.truncate(kept)
        return Job(self, whole, kept, sampling, max_tokens, stops, grammar, cancel, draft, draft_max, logprobs, priority)

    def generate(self, prompt: Union[str, Tokens, Prompt], sampling: Sampling = Sampling(), **options: "Unpack[JobOptions]") -> Iterator[str]:
        """Continues a text, tokens or a prompt piece by piece; each piece is whole characters. `options` as of
        `job`."""
        if options.get("max_tokens") == 0:
            return
        with self.job(prompt, sampling, **options) as job:
            yield from job


class TokenLogprobs(NamedTuple):
    token: int
    """The token that was made, and the logarithm of its probability."""
    logprob: float
    likeliest: List[Tuple[int, float]]
    """The likeliest tokens in its place, the likeliest first."""


def _token_logprobs(function: str, handle: Handle, row: int) -> List[TokenLogprobs]:
    """The rows that a job or a conversation has ready."""
    values = np.empty(0, dtype=np.float32)

    def call(ids: int, capacity: int, n: Any) -> int:
        nonlocal values
        values = np.empty(capacity, dtype=np.float32)
        tokens = ctypes.cast(ids, ctypes.POINTER(c_uint32))
        return handle._call(function, tokens, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), capacity, n)

    tokens = _ids_of(call, 64)
    pairs = list(zip(tokens, values.tolist()))
    return [TokenLogprobs(*pairs[at], pairs[at + 1 : at + row]) for at in range(0, len(tokens), row)]


def _set_stops(params: Any, stops: Sequence[str]) -> None:
    texts = [_string(stop, "a stop string") for stop in _list(stops, "stops")]
    params.n_stops = len(texts)
    if texts:
        params.stops = (ctypes.c_char_p * len(texts))(*texts)


def _set_draft(params: Any, draft: "Draft") -> Optional[Model]:
    """Sets the kind of drafts; the result is the model that makes them."""
    if isinstance(draft, Model):
        params.draft = _c.RZ_DRAFT_MODEL
        return draft
    drafts = {None: _c.RZ_DRAFT_NONE, "lookup": _c.RZ_DRAFT_LOOKUP, "mtp": _c.RZ_DRAFT_MTP}
    if draft not in drafts:
        raise InvalidArgument(f'draft is None, "lookup", "mtp" or a model, not {draft!r}')
    params.draft = drafts[draft]
    return None


class Job(Handle):
    """A generation that works when it is told to: `step`, or iteration over its pieces of text. Closing it ends it at any moment; its
    session keeps the tokens that are complete."""

    def __init__(
        self, session: Session, whole: Union["np.ndarray", Prompt], first: int, sampling: Sampling, max_tokens: Optional[int], stops: Sequence[str],
        grammar: Optional[Grammar], cancel: Optional[Cancel], draft: "Draft", draft_max: int, logprobs: Optional[int],
        priority: int,
    ) -> None:  # fmt: skip
        params = _c.rz_job_params(max_tokens=0 if max_tokens is None else max_tokens, draft_max=draft_max, logprobs=logprobs, priority=priority)
        prompt = whole if isinstance(whole, Prompt) else None
        if isinstance(whole, Prompt):
            params.prompt_first = first
        else:
            tokens = whole[first:]
            params.tokens, params.n_tokens = _at(tokens), len(tokens)
        _set_stops(params, stops)
        chooser = None if isinstance(sampling, Sampling) and sampling == Sampling(seed=sampling.seed) else Sampler(sampling)
        with _use(session) as cache, _use(chooser) as params.sampler, _use(grammar) as params.grammar, \
                _use(cancel) as params.cancel, _use(_set_draft(params, draft)) as params.draft_model, _use(prompt) as params.prompt:  # fmt: skip
            super().__init__(new("rz_job_new", cache, byref(params)), "rz_job_free")
        self.session = session
        self._row = min(logprobs or 0, session.model.info.vocab_size) + 1

    def step(self, seconds: Optional[float] = None) -> bool:
        """Works for about so long, of which less than nothing is nothing, without a limit until it has made a token; True: there is more to
        do."""
        us = _microseconds(seconds)

        def call() -> bool:
            return self._call("rz_job_step", us) != _c.RZ_DONE

        return bool(interruptible(call, self.session._stop))

    def text(self) -> str:
        """Text that has come since this was asked last, in whole characters, stop strings cut out."""
        return sized(lambda *out: self._call("rz_job_text_into", *out)).decode()

    def logprobs(self) -> List[TokenLogprobs]:
        """Tokens that have come since this was asked last with the logarithms of their probabilities, of a job with `logprobs`."""
        return _token_logprobs("rz_job_logprobs_into", self, self._row)

    def tokens(self) -> List[int]:
        """Tokens that have come since this was asked last."""
        return _ids_of(lambda *out: self._call("rz_job_tokens_into", *out), 64)

    def __iter__(self) -> Iterator[str]:
        going = True
        while going:
            going = self.step()
            piece = self.text()
            if piece:
                yield piece

    @property
    def end(self) -> Optional[str]:
        """Why it has ended: "end" (a token that ends a text), "length", "stop", "context", "grammar", "failed"; None where it has not."""
        return _ENDS.get(self._info().end_reason)

    @property
    def error(self) -> Optional[Error]:
        """The error by which it has ended "failed", which `step` raises and `step_jobs` does not; None for any other job."""
        if self.end != "failed":
            return None
        try:
            self._call("rz_job_error")
        except Error as error:
            return error
        return None

    @property
    def drafts(self) -> Tuple[int, int]:
        """Tokens of drafts that were computed, and those of them that were right."""
        info = self._info()
        return info.drafted, info.accepted

    def _info(self) -> _c.rz_job_info:
        info = _c.rz_job_info()
        self._call("rz_job_info_get", byref(info))
        return info


def step_jobs(jobs: Sequence[Job], seconds: Optional[float] = None) -> bool:
    """`Job.step` for several jobs of one model, prompts and single tokens together, in common passes over the weights. One that fails
    ends alone: `Job.error` tells why."""
    us, jobs = _microseconds(seconds), _all(jobs, Job, "jobs")

    def call() -> bool:
        with _use_all(jobs) as pointers:
            return status("rz_jobs_step", pointers, len(jobs), us) != _c.RZ_DONE

    return bool(interruptible(call, *(job.session._stop for job in jobs)))


def decode_batch(
    sessions: Sequence[Session], tokens: Tokens, samplers: Optional[Sequence[Optional[Sampler]]] = None
) -> List[int]:
    """`Session.decode` for several sessions of one model, in one pass over the weights."""
    ids, sessions = _ids(tokens), _all(sessions, Session, "sessions")
    choosers = list(samplers) if samplers is not None else [None] * len(sessions)
    if not len(sessions) == len(ids) == len(choosers):
        raise InvalidArgument("a batch has as many tokens and samplers as sessions")
    following = np.empty(len(ids), dtype=np.uint32)

    def call() -> None:
        with _use_all(sessions) as caches, _use_all(choosers) as chosen:
            status("rz_decode_batch", caches, _at(ids), len(ids), chosen, _at(following))

    interruptible(call, *(session._stop for session in sessions))
    return list(following.tolist())


class StoreInfo(NamedTuple):
    """The state of a store."""

    n_entries: int
    n_files: int
    memory_bytes: int
    disk_bytes: int
    hits: int
    misses: int
    reused_tokens: int
    """Tokens that were not computed because of it."""
    n_unwritten: int
    """Prefixes that were forgotten because they could not be written, as on a full disk."""


class Store(Handle):
    """Remembers what prompts left behind, for sessions and conversations of one model that begin with the same tokens.
    With a folder it does so for other processes too. Any number of threads may use it at once."""

    def __init__(
        self, model: Model, path: Union[str, "os.PathLike[str]", None] = None, *, min_tokens: int = 0, memory_limit: int = 0,
        max_entries: int = 0, disk_limit: int = 0,
    ) -> None:  # fmt: skip
        """`path`: a folder of files that outlive the process, made where it is missing; None: what has no room in
        memory is forgotten.
        `min_tokens`: shorter prefixes are neither kept nor looked for; 0: 64. `memory_limit` and `max_entries`: bytes and
        number of prefixes in memory; 0: a tenth of what is free, at most 1 GiB, and 1,024. `disk_limit`: bytes of files;
        0: a tenth of what is free, at most 16 GiB."""
        params = _c.rz_store_params(min_tokens=min_tokens, memory_limit=memory_limit, max_entries=max_entries, disk_limit=disk_limit)
        params.path = None if path is None else _path(path)
        with _use(model) as pointer:
            super().__init__(new("rz_store_new", pointer, byref(params)), "rz_store_free")
        self.model = model

    def take(self, tokens: Union[Tokens, Prompt], capacity: int = 0, *, k_type: ElementType = "f16", v_type: ElementType = "f16") -> Session:
        """A session for a prompt, which holds so many of its first tokens as the store knows, but never the last one:
        `tokens[len(session):]` are to be appended. `capacity` and types as of `Model.session`."""
        common = c_uint32()
        params, pointer = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type), c_void_p()
        if isinstance(tokens, Prompt):
            with tokens._use() as prompt:
                self._call("rz_store_take_prompt", prompt, byref(params), None, byref(pointer), byref(common))
            return Session(self.model, pointer)
        ids = _ids(tokens)
        self._call("rz_store_take", _at(ids), len(ids), byref(params), None, byref(pointer), byref(common))
        return Session(self.model, pointer)

    def put(self, session: Session) -> None:
        """Remembers the tokens that a session holds, which goes on by itself."""
        with self._use() as store, _use(session) as cache:
            status("rz_store_put", store, cache)

    def clear(self) -> None:
        """Forgets all prefixes, and removes the files of the model from the folder."""
        self._call("rz_store_clear")

    @property
    def info(self) -> StoreInfo:
        info = _c.rz_store_info()
        self._call("rz_store_info_get", byref(info))
        return StoreInfo(*(getattr(info, name) for name in StoreInfo._fields))


class ConversationInfo(NamedTuple):
    """The state of a conversation and of its last reply."""

    n_messages: int
    first_in_prompt: int
    """The first message of a turn that is in prompts: not 0 where turns were left out (overflow "forget")."""
    state: Optional[str]
    """Of the reply: "prompt", "tokens", "ended"; None before the first one and after one without a message."""
    end: Optional[str]
    """Why it has ended, as `Job.end`."""
    stopped: Optional[str]
    """Why its steps end now though it has not: "cancelled" or "deadline"."""
    prompt_tokens: int
    reused_tokens: int
    """Tokens of the prompt that were not computed again."""
    prompt_done: int
    n_tokens: int
    reasoning_tokens: int
    drafted: int
    accepted: int
    cache_len: int
    cache_capacity: int
    n_media: int
    """Media that messages name."""
    prompt_ns: int
    tokens_ns: int
    first_token_ns: int


_STATES = {value: name for name, value in _numbers("RZ_STATE_").items()}
_STOPPED = {_c.RZ_ERR_CANCELLED: "cancelled", _c.RZ_ERR_DEADLINE: "deadline"}


class ReadOptions(TypedDict, total=False):
    """Options of `Conversation.read`."""

    reasoning: Reasoning
    priority: int
    cancel: Optional[Cancel]
    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]


class ReplyOptions(_o.ReplyOptions, total=False):
    """Options of a reply, as of `Conversation.begin`."""

    grammar: Union[None, Grammar, Tuple[str, Any]]
    whitespace: bool
    stops: Sequence[str]
    draft: Draft
    cancel: Optional[Cancel]
    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]


_KEEP: ReplyOptions = {"keep": True}


class _GivenUp(InvalidArgument):
    """A reply was given up by a change of the messages, which are to stay as they are."""


class Conversation(Handle):
    """Messages with a model, which remembers what it has computed of them, and the reply that is being made."""

    def __init__(
        self, model: Model, system: Optional[str] = None, *, messages: Sequence[Message] = (), capacity: int = 0, k_type: ElementType = "f16",
        v_type: ElementType = "f16", overflow: "Literal['fail', 'forget']" = "fail", adapters: Adapters = (), store: Optional[Store] = None, cancel: Optional[Cancel] = None,
        **members: "Unpack[Members]",
    ) -> None:  # fmt: skip
        """Begins with a message of the system, and others. `capacity` and types as of `Model.session`. `overflow`: where messages have no
        room a reply fails with ContextFull ("fail"), or leaves the oldest turns out of its prompt ("forget"). `adapters`: some of them,
        or adapters with their scales. `store`: where prompts are looked up, and where they and replies are left. `cancel`
        stops all that is computed. `members`: tools=[...], tool_choice="required", parallel_tool_calls=False,
        variables={...} of the template."""
        others = ("system", "messages", "capacity", "k_type", "v_type", "overflow", "adapters", "store", "cancel")
        _check_options(members, Members, *others)
        first = [] if system is None else [{"role": "system", "content": system}]
        request, scales = _request([*first, *_list(messages, "messages")], members), _scales(adapters)
        params = _c.rz_conversation_params(overflow=_named(overflow, "overflow", _OVERFLOWS), n_adapters=len(scales))
        params.json, params.json_len = request, len(request)
        with _use_all(adapters) as pointers:
            if len(scales):
                params.adapters, params.scales = pointers, scales
            self._make("rz_conversation_new", model, params, capacity, k_type, v_type, store, cancel)

    @classmethod
    def load(
        cls, model: Model, file: BinaryIO, *, capacity: int = 0, k_type: ElementType = "f16", v_type: ElementType = "f16",
        store: Optional[Store] = None, cancel: Optional[Cancel] = None,
    ) -> "Conversation":  # fmt: skip
        """The conversation that `save` has written; it goes on as the saved one would have."""
        self = cls.__new__(cls)
        with _reading(file) as callback:
            self._make("rz_conversation_load", model, _c.rz_conversation_params(), capacity, k_type, v_type, store, cancel, callback, None)
        return self

    def _make(
        self, function: str, model: Model, params: Any, capacity: int, k_type: ElementType, v_type: ElementType, store: Optional[Store],
        cancel: Optional[Cancel], *arguments: Any,
    ) -> None:  # fmt: skip
        cache = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
        params.cache = ctypes.pointer(cache)
        with _use(model) as pointer, _use(store) as params.store, _use(cancel) as params.cancel:
            self._own(model, new(function, pointer, byref(params), *arguments))

    def _own(self, model: Model, pointer: c_void_p) -> None:
        super().__init__(pointer, "rz_conversation_free")
        self.model = model
        # Ends steps when a signal interrupts them.
        self._stop, self._row, self._reply = Cancel(), 1, 0

    def add(self, messages: Union[str, Message, Sequence[Message]], role: str = "user") -> None:
        """Appends a text of this role, a message, or a list of them, whose contents may have parts with media as
        `Prompt.of_chat` takes them; nothing is computed. A picture that the template leaves out is refused by the reply."""
        if isinstance(messages, str):
            text = messages.encode()
            self._change("rz_conversation_add_text", _string(role, "a role"), text, len(text))
        else:
            data, found = _numbered(messages if isinstance(messages, Mapping) else _list(messages, "messages"))
            with _use_all(found) as media:
                self._change("rz_conversation_add", data, len(data), media, len(found))

    def _change(self, name: str, *arguments: Any) -> None:
        """Makes a call that gives an unfinished reply up, which an iteration over it is to notice."""
        self._call(name, *arguments)
        self._reply += 1

    @property
    def media(self) -> List[Media]:
        """The media that messages name, by the numbers in their parts."""
        with self._use() as conversation:
            return [Media(new("rz_conversation_media", conversation, i)) for i in range(self.info.n_media)]

    def begin(
        self, sampling: Optional[Sampling] = None, *, max_tokens: int = 0, grammar: Union[None, "Grammar", Tuple[str, Any]] = None,
        whitespace: bool = False, stops: Sequence[str] = (), reasoning: Reasoning = "model", reasoning_tokens: int = 0,
        draft: "Draft" = None, draft_max: int = 0, logprobs: Optional[int] = None, keep: bool = False, resume: bool = False,
        priority: int = 0, cancel: Optional[Cancel] = None, tools: Optional[Sequence[Any]] = None, tool_choice: Any = None,
        parallel_tool_calls: Optional[bool] = None, variables: Optional[Mapping[str, Any]] = None,
    ) -> None:  # fmt: skip
        """Begins a reply, which `step` works on; of an unfinished one nothing more comes.

        `sampling`: None is what the makers advise, else the most likely token. `max_tokens`, reasoning included; 0: as many as there is
        room for. `grammar`: a kind and a text of the content, as of `Model.grammar`: ("json_schema", {...}), or a Grammar, with which this call compiles
        nothing; of "tools" for the whole reply. `reasoning`: "off", "on",
        or as the template has it ("model"), `reasoning_tokens` of it at most. `draft`, `draft_max`, `logprobs`, `priority` as of
        `Session.job`.
        `keep`: what was said of a reply that is given up becomes a message. `resume`: goes on with the last message, a reply that was
        cut; its parts are those that come after it. `cancel` pauses the steps of this reply. `tools`, `tool_choice`,
        `parallel_tool_calls`: of this reply, in place of the conversation's ([]: no tools); `variables` of the template: in addition to
        the conversation's."""
        params = _c.rz_reply_params(max_tokens=max_tokens, keep=keep, resume=resume, reasoning=reasoning, reasoning_tokens=reasoning_tokens,
                                    draft_max=draft_max, logprobs=logprobs, priority=priority)  # fmt: skip
        if sampling is not None:
            params.sampler = ctypes.pointer(_sampler_params(sampling))
        compiled = grammar if isinstance(grammar, Grammar) else None
        if grammar is not None and not isinstance(grammar, Grammar):
            if not isinstance(grammar, (tuple, list)) or len(grammar) != 2:
                raise InvalidArgument(f"grammar is {reprlib.repr(grammar)}; it must be a Grammar, or a pair of a kind and a text")
            params.grammar_kind, params.grammar_flags, params.grammar = _grammar(*grammar, whitespace=whitespace)
            params.grammar_len = len(params.grammar)
        _set_stops(params, stops)
        _set_members(params, tools=tools, tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, variables=variables)
        stop = cancel if cancel is not None else Cancel()
        with _use(stop) as params.cancel, _use(_set_draft(params, draft)) as params.draft_model, _use(compiled) as params.compiled_grammar:
            self._call("rz_conversation_reply", byref(params))
        self._stop, self._row, self._reply = stop, min(logprobs or 0, self.model.info.vocab_size) + 1, self._reply + 1

    def begin_read(
        self, *, reasoning: Reasoning = "model", priority: int = 0, cancel: Optional[Cancel] = None, tools: Optional[Sequence[Any]] = None,
        tool_choice: Any = None, parallel_tool_calls: Optional[bool] = None, variables: Optional[Mapping[str, Any]] = None,
    ) -> None:  # fmt: skip
        """Begins to read the messages, so that the next reply begins sooner: a long document, the world of a game.
        `step` does the work; no message is added. The options are the options of the next reply, as of `begin`."""
        params = _c.rz_reply_params(reasoning=reasoning, priority=priority)
        _set_members(params, tools=tools, tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, variables=variables)
        stop = cancel if cancel is not None else Cancel()
        with _use(stop) as params.cancel:
            self._call("rz_conversation_read", byref(params))
        self._stop, self._row, self._reply = stop, 1, self._reply + 1

    def read(self, **options: "Unpack[ReadOptions]") -> None:
        """Reads the messages to their end; options as of `begin_read`."""
        self.begin_read(**options)
        try:
            while self.step():
                pass
        except BaseException:
            with suppress(Error):  # another call may be at work, or the conversation is closed
                self.add([])
            raise

    def step(self, seconds: Optional[float] = None) -> bool:
        """Works on the reply for about so long, without a limit until it has made a token; True: there is more to do."""
        us = _microseconds(seconds)
        return bool(interruptible(lambda: self._call("rz_conversation_step", us) != _c.RZ_DONE, self._stop))

    def parts(self) -> List[Part]:
        """Parts of the reply that have come since this was asked last."""
        return _parts("rz_conversation_next_into", self)

    def reply(self, sampling: Optional[Sampling] = None, **options: "Unpack[ReplyOptions]") -> Iterator[Part]:
        """Replies to the messages: what the model thinks, content, calls of tools, and the end, as they come. Options as of `begin`. An
        iteration that ends early gives the reply up."""
        self.begin(sampling, **options)
        return self._made(self._reply)

    def _made(self, reply: int) -> Iterator[Part]:
        going = True
        try:
            while going:
                if reply != self._reply:
                    raise _GivenUp("the reply is given up; the conversation has gone on without it")
                going = self.step()
                yield from self.parts()
        except BaseException:
            with suppress(Error):  # another call may be at work, or the conversation is closed
                if reply == self._reply:
                    self.add([])  # gives it up
            raise

    def stop(self) -> None:
        """Ends an unfinished reply at once: what was said of it becomes a message, with `keep` or without."""
        self._call("rz_conversation_stop")

    def say(self, text: str, sampling: Optional[Sampling] = None, **options: "Unpack[ReplyOptions]") -> Iterator[str]:
        """A message of the user, and the content of the reply to it, piece by piece; options as of `begin`. What was said stays where
        the iteration ends early or is cancelled (`keep`); any other failure leaves the messages as they were."""
        self.add([])  # gives an unfinished reply up
        n = self.info.n_messages
        self.add(text)
        try:
            parts = self.reply(sampling, **{**_KEEP, **options})
        except BaseException:
            self.rewind(n)
            raise
        return self._content(parts, n)

    def _content(self, parts: Iterator[Part], n: int) -> Iterator[str]:
        try:
            for part in parts:
                if part.kind == "content":
                    yield part.text
        except (Cancelled, DeadlineExceeded, Busy, Closed, _GivenUp):
            raise
        except Error:
            self.rewind(n)
            raise

    def logprobs(self) -> List[TokenLogprobs]:
        """Tokens of content that have come since this was asked last with the logarithms of their probabilities, of a reply with
        `logprobs`."""
        return _token_logprobs("rz_conversation_logprobs_into", self, self._row)

    def messages(self, first: int = 0) -> List[Dict[str, Any]]:
        """The messages from number `first` on, as they were added, and the replies; an unfinished one is not among them."""
        text = sized(lambda *out: self._call("rz_conversation_json_into", _whole(first, "first"), *out), 4096)
        return json.loads(text)  # type: ignore[no-any-return]

    def rewind(self, n_messages: int) -> None:
        """Forgets the messages after the first so many, to edit or to answer anew."""
        self._change("rz_conversation_rewind", _whole(n_messages, "n_messages"))

    def release(self) -> None:
        """Frees the KV cache, as for a program in the background; the next reply computes it again."""
        self._call("rz_conversation_release")

    def set_capacity(self, capacity: int) -> None:
        """Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes all again."""
        self._call("rz_conversation_capacity_set", _whole(capacity, "capacity"))

    def set_overflow(self, overflow: "Literal['fail', 'forget']") -> None:
        """What later replies do where messages have no room: "fail" or "forget"."""
        self._call("rz_conversation_overflow_set", _named(overflow, "overflow", _OVERFLOWS))

    def set_adapters(self, adapters: Adapters) -> None:
        """Has later replies use some adapters, or adapters with their scales, or none; they compute all again."""
        scales = _scales(adapters)
        with _use_all(adapters) as pointers:
            self._call("rz_conversation_adapters_set", pointers, scales, len(scales))

    def set_store(self, store: Optional[Store]) -> None:
        """The store of later replies, or none."""
        with _use(store) as pointer:
            self._call("rz_conversation_store_set", pointer)

    def set_cancel(self, cancel: Optional[Cancel]) -> None:
        """What stops all that is computed from now on, in place of the conversation's `cancel`; None: nothing."""
        with _use(cancel) as pointer:
            self._call("rz_conversation_cancel_set", pointer)

    def fork(self) -> "Conversation":
        """A second conversation with the same past."""
        other = type(self).__new__(type(self))
        with self._use() as conversation:
            other._own(self.model, new("rz_conversation_fork", conversation))
        return other

    def save(self, file: BinaryIO) -> None:
        """Writes the conversation and what is computed of it; `load` reads it."""
        with self._use() as conversation, _writing(file) as callback:
            status("rz_conversation_save", conversation, callback, None, None)

    @property
    def info(self) -> ConversationInfo:
        info = _c.rz_conversation_info()
        self._call("rz_conversation_info_get", byref(info))
        told = {"state": _STATES.get(info.state), "end": _ENDS.get(info.end_reason), "stopped": _STOPPED.get(info.stopped)}
        return ConversationInfo(*(told[name] if name in told else getattr(info, name) for name in ConversationInfo._fields))

    @property
    def error(self) -> Optional[Error]:
        """The error by which the reply has ended "failed", which `step` raises and `step_conversations` does not."""
        try:
            self._call("rz_conversation_error")
        except Error as error:
            return error
        return None


def step_conversations(conversations: Sequence[Conversation], seconds: Optional[float] = None) -> bool:
    """`Conversation.step` for several of one model, in common passes over the weights. A reply that fails ends alone:
    `Conversation.error` tells why."""
    us, conversations = _microseconds(seconds), _all(conversations, Conversation, "conversations")

    def call() -> bool:
        with _use_all(conversations) as pointers:
            return status("rz_conversations_step", pointers, len(conversations), us) != _c.RZ_DONE

    return bool(interruptible(call, *(conversation._stop for conversation in conversations)))
