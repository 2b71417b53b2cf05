"""Model loads: options, files, memory estimates, and downloads from the Hub."""

import ctypes
import io
import os
from contextlib import suppress
from ctypes import byref
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _header as _c
from . import _options as _o
from ._errors import Cancelled, InvalidArgument
from ._failures import error_of
from ._handles import use
from ._header import choice, whole
from ._library import Handle, callbacks, interruptible, status
from ._options import CacheType
from ._results import Plan, PlanDevice
from ._runtime import Cancel, Runtime, devices
from ._values import all_of, check_options, floats_of, function_of, listed, numbers_of, path_of, pointer_to, string_of, text_of, token_ids, told, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Unpack

# A model file in memory, or an open file.
Source = Union[bytes, bytearray, memoryview, "np.ndarray", BinaryIO]
Progress = Callable[[int, int], Optional[bool]]


class Watch:
    """The callbacks of a long call: its progress callback, and the cancel that stops it."""

    def __init__(self, progress: Optional[Progress], cancel: Optional[Cancel], handle: Optional[Handle] = None) -> None:
        """`handle`: ends the call when it is closed."""
        self.handle, self.progress_of = handle, function_of(progress, "progress", "numbers done and in all")
        self.raised: List[BaseException] = []

        def forward(done, total, _user):  # type: ignore[no-untyped-def]
            if callbacks.has_ended:
                return 1
            try:
                return int(self.progress_of(done, total) is False)
            except BaseException as e:  # noqa: BLE001 - goes on where the call ends
                self.raised.append(e)
                return 1

        self.progress = _c.rz_progress_callback(forward) if progress is not None else _c.rz_progress_callback()
        if cancel is not None and not isinstance(cancel, Cancel):
            raise wrong_type(cancel, "cancel", "a Cancel")
        self.cancel = cancel if cancel is not None else Cancel()

    def run(self, params: Any, call: Callable[[Any], Any]) -> Any:
        """Makes a call with parameters that contain both callbacks."""
        params.progress = self.progress

        def made() -> Any:
            with callbacks.during(self.cancel._interrupt), self.cancel._use() as params.cancel:
                return call(byref(params))

        try:
            return interruptible(made, (self.cancel, self.handle))
        except Cancelled:
            if self.raised:
                raise self.raised[0]
            raise
_PLACES = numbers_of("RZ_PLACE_")


# Prefix of model names of the Hub.
OF_HUB = "hf:"


class Placement(NamedTuple):
    """Places the MoE experts of layers that are on GPUs (expert offload): "auto" (as many as fit on GPUs, starting with
    the last layer), "cpu" (the experts of `layers` layers, 0: all, from `first_layer` on), or "gpu" (starting with the
    last layer, up to `bytes` in total)."""

    place: str = "auto"
    first_layer: int = 0
    layers: int = 0
    bytes: int = 0


def _placed(placement: Placement, name: str) -> Any:
    return _c.rz_placement(
        what=_c.RZ_PLACED_EXPERTS, place=choice(placement.place, f"{name}.place", _PLACES),
        first_layer=whole(placement.first_layer, f"{name}.first_layer"), n_layers=whole(placement.layers, f"{name}.layers"),
        bytes=whole(placement.bytes, f"{name}.bytes", ctypes.c_uint64),
    )  # fmt: skip


class LoadOptions(_o.LoadOptions, total=False):
    """Options of a load, as for `Model`."""

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


class Loading:
    """Parameters of a load, and the memory that they point to."""

    def __init__(self, options: LoadOptions) -> None:
        check_options(options, LoadOptions)
        fields: Dict[str, Any] = dict(options)
        take = fields.pop
        threads, runtime, placements = take("threads", 0), take("runtime", None), all_of(take("placements", ()), Placement, "placements")
        devices, shares, chat_template = take("devices", ()), listed(take("shares", ()), "shares"), take("chat_template", None)
        packed_path, tested_path = take("packed_path", None), take("tested_path", None)
        self.watch = Watch(take("progress", None), take("cancel", None))
        self.params = _c.rz_model_params(**fields)
        if runtime is not None and not isinstance(runtime, Runtime):
            raise wrong_type(runtime, "runtime", "a Runtime")
        self.is_own = runtime is None
        self.runtime = runtime if runtime is not None else Runtime(threads=threads)
        self.devices = token_ids(devices, "devices")
        if len(self.devices):
            self.params.devices, self.params.n_devices = pointer_to(self.devices), len(self.devices)
        self.shares = floats_of(shares, "shares")
        if len(self.shares):
            if len(self.shares) != len(self.devices):
                raise InvalidArgument(f"shares has {len(self.shares)} numbers; it must have one for each of {len(self.devices)} devices")
            self.params.device_split = self.shares
        self.placements = (_c.rz_placement * len(placements))(*(_placed(placement, f"placements[{i}]") for i, placement in enumerate(placements)))
        if len(self.placements):
            self.params.placements, self.params.n_placements = self.placements, len(self.placements)
        self.params.packed_path = path_of(packed_path, "packed_path") if packed_path is not None else None
        self.params.tested_path = path_of(tested_path, "tested_path") if tested_path is not None else None
        if chat_template is not None:
            template = text_of(chat_template, "chat_template")
            self.params.chat_template, self.params.chat_template_len = template, len(template)

    def run(self, call: Callable[[Any], Any]) -> Any:
        """Makes a call with the parameters."""

        def made(params: Any) -> Any:
            with use(self.runtime, "Runtime") as self.params.runtime:
                return call(params)

        try:
            return self.watch.run(self.params, made)
        finally:
            if self.is_own:
                self.runtime.close()  # a model keeps it alive


def sources_of(files: Union[Source, Mapping[str, Source]]) -> Tuple[Any, List[Any]]:
    """Files of a model as the library takes them, and the objects that must stay alive meanwhile."""
    named: Mapping[Optional[str], Source] = files if isinstance(files, Mapping) else {None: files}  # type: ignore[assignment]
    sources, kept = (_c.rz_source * len(named))(), []  # type: Any, List[Any]
    for source, (name, file) in zip(sources, named.items()):
        source.struct_size = ctypes.sizeof(_c.rz_source)
        source.name = string_of(name, "the name of a file") if name is not None else None
        with suppress(AttributeError, io.UnsupportedOperation):
            source.kind, source.fd = _c.RZ_SOURCE_FD, file.fileno()  # type: ignore[union-attr]
            kept.append(file)
            continue
        try:
            data = np.frombuffer(file.read() if hasattr(file, "read") else file, dtype=np.uint8)
        except TypeError:
            raise wrong_type(file, f"files[{name!r}]" if name else "files", "bytes, or an open binary file, or a dict of such") from None
        source.kind, source.data, source.size = _c.RZ_SOURCE_MEMORY, data.ctypes.data, data.size
        kept.append(data)
    return sources, kept


def plan(
    model: Union[str, "os.PathLike[str]", Source, Mapping[str, Source]], *, sessions: int = 1, capacity: int = 0, k_type: CacheType = "f16",
    v_type: CacheType = "f16", **options: "Unpack[LoadOptions]",
) -> Plan:  # fmt: skip
    """Returns the memory that a model (a path, or files as for `Model.from_files`) and `sessions` sessions will take,
    before a weight is read. `options` as for `Model`."""
    check_options(options, LoadOptions, "sessions", "capacity", "k_type", "v_type")
    is_path = isinstance(model, (str, os.PathLike))
    path = path_of(model, "model") if is_path else None  # type: ignore[arg-type]
    sources, kept = (None, None) if is_path else sources_of(model)  # type: ignore[arg-type]
    cache = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
    found = _c.rz_model_plan()
    n = 0 if sources is None else len(sources)
    loading, n_sessions = Loading(options), whole(sessions, "sessions")
    parts, n_parts = (_c.rz_model_plan_device * _c.RZ_DEVICES_MAX)(*(_c.rz_model_plan_device() for _ in range(_c.RZ_DEVICES_MAX))), ctypes.c_size_t()
    out = (byref(found), parts, len(parts), byref(n_parts))
    loading.run(lambda params: status("rz_model_plan_get", path, sources, n, params, byref(cache), n_sessions, *out))
    del kept
    return told(Plan, found, devices=tuple(told(PlanDevice, part) for part in parts[: n_parts.value]))


def fetch(model: str, *, progress: Optional[Callable[[int, int], Optional[bool]]] = None, cancel: Optional[Cancel] = None) -> str:
    """Downloads a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", to the cache of the
    Hub's own client and returns its path.

    A model that is complete in the cache needs no connection. Without a quantization, the largest one of at most 8 bits
    that fits into free memory is chosen. Interrupted downloads resume. `progress` gets bytes done and in total; if it
    returns False or raises, or if `cancel` fires, the download stops with Cancelled. HF_HOME, HF_HUB_CACHE, HF_TOKEN,
    HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment apply."""
    if not isinstance(model, str):
        raise wrong_type(model, "model", 'a str, such as "hf:owner/name"')
    if cancel is not None and not isinstance(cancel, Cancel):
        raise wrong_type(cancel, "cancel", "a Cancel")
    function_of(progress, "progress", "numbers done and in all")
    from . import _hub  # clients of HTTP are half of the time that an import takes

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
            raise error_of(_c.RZ_ERR_CANCELLED, "RZ_ERR_CANCELLED", "the fetch was cancelled", 0)

    try:
        return _hub.fetch(model, max(device.memory_free for device in devices() if not device.unavailable), told)
    except Cancelled:
        if raised:
            raise raised[0]
        raise
