"""realizar: language models inside your own process.

    import realizar
    with realizar.Model("model.gguf") as model:
        for piece in model.chat("What is the capital of Japan?"):
            print(piece, end="", flush=True)

Calls give the interpreter's lock up while they compute. A Model may be used by any number of threads at once, a Session by
one at a time: a second one gets `Busy` at once. Everything with `close` is a context manager, and is freed when it is
forgotten, too.
"""

import ctypes
import errno
import json
import math
import os
from ctypes import byref, c_uint32, c_void_p
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _library as _lib
from ._errors import (
    BufferTooSmall, Busy, Cancelled, Closed, ContextFull, DeadlineExceeded, DeviceLost, DeviceOutOfMemory, DeviceUnavailable,
    Error, FileError, FormatError, InvalidArgument, Limit, Mismatch, OutOfMemory, Panic, Poisoned, Unsupported, VersionError,
)  # fmt: skip
from ._library import Handle, library, new, sized, status

__version__ = library.rz_version().decode()

Tokens = Union[Sequence[int], "np.ndarray"]
Message = Mapping[str, Any]
Messages = Union[str, Sequence[Message]]


def _ids(tokens: Tokens) -> "np.ndarray":
    ids = np.asarray(tokens)
    if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() > 0xFFFFFFFF):
        raise InvalidArgument("tokens are whole numbers from 0 to 2^32 - 1")
    return np.ascontiguousarray(ids, dtype=np.uint32)


def _at(ids: "np.ndarray"):  # type: ignore[no-untyped-def]
    return ids.ctypes.data_as(ctypes.POINTER(c_uint32))


def _ids_of(call: Callable[[Any, int, Any], int], capacity: int) -> List[int]:
    """Token ids that a function writes to an array, which is made again where it is too small."""
    while True:
        ids, n = np.empty(capacity, dtype=np.uint32), ctypes.c_size_t()
        try:
            call(ids.ctypes.data, len(ids), byref(n))
            return ids[: n.value].tolist()
        except BufferTooSmall:
            capacity = n.value


def _microseconds(seconds: Optional[float]) -> int:
    """A time as the library takes one, of which a begun microsecond counts as a whole."""
    if seconds is None:
        return _lib.NO_LIMIT
    if math.isnan(seconds):
        raise InvalidArgument("a time is a number of seconds")
    return math.ceil(min(max(seconds, 0.0), 1e12) * 1e6)


def _string(text: str, name: str) -> bytes:
    data = text.encode()
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


def devices() -> List[Device]:
    """All devices, those that cannot be used too."""
    found = []
    for index in range(1, library.rz_device_count() + 1):
        info = _lib.rz_device_info()
        status("rz_device_info_get", index, byref(info))
        kind = {1: "cpu", 2: "cuda"}.get(info.kind, str(info.kind))
        found.append(
            Device(info.index, info.name.decode(), kind, info.isa.decode(), info.memory_total, info.memory_free,
                   info.unavailable.decode())
        )  # fmt: skip
    return found


class Cancel(Handle):
    """Stops the calls that it was given to, from any thread."""

    def __init__(self) -> None:
        super().__init__(new("rz_cancel_new"), "rz_cancel_free")

    def fire(self) -> None:
        """Asks the calls to stop; they raise Cancelled within milliseconds, later ones at once."""
        with self._use() as cancel:
            library.rz_cancel_fire(cancel)

    def reset(self) -> None:
        """Makes it fit for use again."""
        with self._use() as cancel:
            library.rz_cancel_reset(cancel)


class Runtime(Handle):
    """Threads, a log and a ceiling on memory, shared by models. `log` gets a level (1 error, 2 warning, 3 info) and a text, on
    any thread."""

    def __init__(
        self, threads: int = 0, memory_limit: int = 0, cpus: Sequence[int] = (), log: Optional[Callable[[int, str], None]] = None
    ) -> None:
        def forward(level, message, length, _user):  # type: ignore[no-untyped-def]
            assert log is not None
            log(level, ctypes.string_at(message, length).decode("utf-8", "replace"))

        self._log = _lib.LOG(forward) if log else _lib.LOG()
        ids = _ids(cpus)
        params = _lib.rz_runtime_params(threads=threads, memory_limit=memory_limit, n_cpus=len(ids), log=self._log)
        if len(ids):
            params.cpus = _at(ids)
        super().__init__(new("rz_runtime_new", byref(params)), "rz_runtime_free")


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; zero switches a part off, so that all zeros choose the most likely token."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    repeat_penalty: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 0
    seed: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict)


class Sampler(Handle):
    """Chooses tokens; it has random numbers of its own, so that a seed repeats itself."""

    def __init__(self, sampling: Sampling = Sampling()) -> None:
        biases = (_lib.rz_logit_bias * len(sampling.logit_bias))(*sampling.logit_bias.items())
        params = _lib.rz_sampler_params(n_biases=len(biases))
        for name, *_ in params._fields_:
            if name in Sampling.__dataclass_fields__:
                setattr(params, name, getattr(sampling, name))
        if len(biases):
            params.biases = biases
        super().__init__(new("rz_sampler_new", byref(params)), "rz_sampler_free")


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


class Phase(NamedTuple):
    count: int
    sum_ns: int


_FLAGS = {"deterministic": 1, "mmap": 2, "text_only": 4, "profile": 8}
_POOLING = {"model": 0, "none": 1, "mean": 2, "cls": 3, "last": 4, "rank": 5}
_CACHE_TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8, "f32": 256}


class Model(Handle):
    """A loaded model: a .gguf file, a .safetensors file, or a folder with a config.json."""

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        threads: int = 0,
        runtime: Optional[Runtime] = None,
        device: int = 0,
        devices: Sequence[int] = (),
        shares: Sequence[float] = (),
        gpu_layers: int = 0,
        quantize: int = 0,
        deterministic: bool = False,
        mmap: bool = False,
        text_only: bool = False,
        profile: bool = False,
        packed_path: Union[str, "os.PathLike[str]", None] = None,
        progress: Optional[Callable[[int, int], Optional[bool]]] = None,
        cancel: Optional[Cancel] = None,
    ) -> None:
        """`progress` gets bytes done and in all; the load stops with Cancelled where it returns False or raises.

        `devices` are GPUs over which the layers are divided in this order, `shares` the sizes of their parts in relation to one another; none:
        in proportion to free memory.

        `packed_path` names a file of packed weights, which the first load makes and later ones map, as fast as its vocabulary is read; processes
        share its memory.
        """
        raised: List[BaseException] = []

        def forward(done, total, _user):  # type: ignore[no-untyped-def]
            assert progress is not None
            try:
                return int(progress(done, total) is False)
            except BaseException as e:  # noqa: BLE001 - goes on where the call ends
                raised.append(e)
                return 1

        callback = _lib.PROGRESS(forward) if progress else _lib.PROGRESS()
        flags = {"deterministic": deterministic, "mmap": mmap, "text_only": text_only, "profile": profile}
        own = runtime if runtime is not None else Runtime(threads=threads)
        params = _lib.rz_model_params(
            device=device, gpu_layers=gpu_layers, quantize=quantize, progress=callback,
            flags=sum(_FLAGS[name] for name, wanted in flags.items() if wanted),
        )  # fmt: skip
        ids = _ids(devices)
        if len(ids):
            params.devices, params.n_devices = _at(ids), len(ids)
        parts = (ctypes.c_float * len(shares))(*shares)
        if len(parts):
            if len(parts) != len(ids):
                raise InvalidArgument(f"{len(parts)} shares for {len(ids)} devices")
            params.shares = parts
        name = os.fsencode(path)
        packed = os.fsencode(packed_path) if packed_path is not None else None
        if b"\0" in name + (packed or b""):
            raise InvalidArgument("a path contains a NUL")
        params.packed_path = packed
        try:
            with own._use() as params.runtime, _use(cancel) as params.cancel:
                super().__init__(new("rz_model_load", name, byref(params)), "rz_model_free")
        except Cancelled:
            if raised:
                raise raised[0]
            raise
        finally:
            if runtime is None:
                own.close()  # the model keeps it alive
        self._runtime = own  # and its log's callback
        info = _lib.rz_model_info()
        with self._use() as model:
            status("rz_model_info_get", model, byref(info))
        used = tuple(device for device in info.devices if device)
        token = lambda id: None if id == _lib.TOKEN_NONE else id
        self.info = ModelInfo(
            info.architecture.decode(), info.name.decode(), info.n_layers, info.hidden_dim, info.ffn_dim, info.n_heads,
            info.n_kv_heads, info.head_dim, info.vocab_size, info.context_length, info.device, token(info.bos_token),
            token(info.eos_token), info.n_params, info.weight_bytes, info.gpu_layers, used, tuple(info.device_layers)[: len(used)],
            bool(info.chat_template & 1), bool(info.chat_template & 2),
        )  # fmt: skip

    def meta(self, key: str) -> str:
        """A value of the file's metadata as text."""
        name = _string(key, "key")
        with self._use() as model:
            return sized(lambda *out: status("rz_model_meta_into", model, name, *out)).decode()

    def meta_keys(self) -> List[str]:
        """The keys of the metadata, in alphabetical order."""
        keys: List[str] = []
        with self._use() as model:
            while True:
                try:
                    keys.append(sized(lambda *out: status("rz_model_meta_key_into", model, len(keys), *out)).decode())
                except InvalidArgument:
                    return keys

    def tokenize(self, text: str, *, special: bool = True, parse: bool = False) -> List[int]:
        """Token ids of a text. `special`: with those that begin and end a text, as the model asks. `parse`: names of control
        tokens in the text become these tokens; not for text that users typed."""
        data = text.encode()
        flags = special | parse << 1
        with self._use() as model:
            return _ids_of(lambda *out: status("rz_tokenize_into", model, data, len(data), flags, *out), len(data) + 8)

    def detokenize(self, tokens: Tokens, *, special: bool = False) -> str:
        """The text of tokens, with control tokens where `special`."""
        ids = _ids(tokens)
        with self._use() as model:
            return sized(lambda *out: status("rz_detokenize_into", model, _at(ids), len(ids), special, *out)).decode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, which may be a part of a character."""
        with self._use() as model:
            return sized(lambda *out: status("rz_token_bytes_into", model, token, *out, None))

    def is_end(self, token: int) -> bool:
        """True for a token that ends a turn or a text."""
        with self._use() as model:
            return bool(library.rz_token_is_end(model, token))

    def render(self, messages: Messages, *, add_generation_prompt: bool = True, **members: Any) -> str:
        """Messages as the text that the model was trained on, by the template in its file. `members`: others of the request, such as
        tools=[...] and variables={"enable_thinking": False}."""
        request = _request(messages, members)
        with self._use() as model:
            flags = int(add_generation_prompt)
            return sized(lambda *out: status("rz_chat_render_json_into", model, request, len(request), flags, *out), 4096).decode()

    def tokenize_chat(self, messages: Messages, **members: Any) -> List[int]:
        """Messages as tokens, up to where the answer begins; no text in them becomes a control token."""
        request = _request(messages, members)
        with self._use() as model:
            return _ids_of(lambda *out: status("rz_chat_tokenize_into", model, request, len(request), 1, *out), len(request) + 64)

    def grammar(self, kind: str, text: str = "") -> "Grammar":
        """A grammar for what is written: of a "json_schema", "regex", "lark", "gbnf", "json", "choices" (a JSON array)."""
        data = text.encode()
        with self._use() as model:
            return Grammar(new("rz_grammar_new", model, _GRAMMARS[kind], data, len(data)), "rz_grammar_free")

    def chat_parser(self, messages: Messages, **members: Any) -> "ChatParser":
        """A parser for the reply to a conversation, whose tokens (`tokenize_chat` with the same arguments) were the prompt."""
        request = _request(messages, members)
        with self._use() as model:
            return ChatParser(new("rz_chat_parser_new", model, request, len(request)), "rz_chat_parser_free")

    def adapter(self, path: Union[str, "os.PathLike[str]"]) -> "Adapter":
        """A low-rank adapter: a GGUF file or a folder of PEFT."""
        name = os.fsencode(path)
        if b"\0" in name:
            raise InvalidArgument("a path contains a NUL")
        with self._use() as model:
            return Adapter(new("rz_adapter_load", model, name), "rz_adapter_free")

    def session(self, capacity: int = 0, *, k_type: str = "f16", v_type: str = "f16") -> "Session":
        """An empty session with room for `capacity` tokens; 0: as many as the model was made for, at most 8192."""
        params = _lib.rz_cache_params(capacity=capacity, k_type=_CACHE_TYPES[k_type], v_type=_CACHE_TYPES[v_type])
        with self._use() as model:
            return Session(self, new("rz_cache_new", model, byref(params)))

    def restore(self, file: BinaryIO) -> "Session":
        """The session that `Session.save` has written."""

        def fill(out: int, n: int) -> None:
            piece = file.read(n)
            if len(piece) != n:
                raise OSError(errno.EIO, "the saved session has no more bytes")
            ctypes.memmove(out, piece, n)

        with self._use() as model, _transfer(fill) as callback:
            return Session(self, new("rz_cache_load", model, None, callback, None))

    def chat(self, messages: Messages, sampling: Sampling = Sampling(), **options: Any) -> Iterator[str]:
        """Answers a conversation, or a question, piece by piece, in a session that lasts as long; `options` as of Session.chat."""
        with self.session() as session:
            yield from session.chat(messages, sampling, **options)

    def embed(
        self, texts: Sequence[Union[str, Tokens]], *, pooling: str = "model", normalize: bool = True,
        cancel: Optional[Cancel] = None,
    ) -> "np.ndarray":  # fmt: skip
        """Embeddings of texts, or of lists of tokens: an array [texts][dims] of float32, which the library writes itself. With
        pooling "none" there is a row for each token, with "rank" one of scores for each text."""
        ids = [_ids(self.tokenize(text) if isinstance(text, str) else text) for text in texts]
        lists = (c_void_p * len(ids))(*(i.ctypes.data for i in ids))
        lengths = (ctypes.c_size_t * len(ids))(*map(len, ids))
        params = _lib.rz_embed_params(pooling=_POOLING[pooling], flags=0 if normalize else 1)
        rows = sum(map(len, ids)) if pooling == "none" else len(ids)
        out = np.empty(rows * self.info.hidden_dim, dtype=np.float32)
        n = ctypes.c_size_t()
        with self._use() as model, _use(cancel) as flag:
            while True:
                try:
                    status("rz_embed_into", model, byref(params), lists, lengths, len(ids), out.ctypes.data, out.size, byref(n), flag)
                    return out[: n.value].reshape(rows, -1)
                except BufferTooSmall:
                    out = np.empty(n.value, dtype=np.float32)

    def metrics(self) -> Dict[str, Phase]:
        """Number and time of the calls of each kind since the model was loaded."""
        metrics = _lib.rz_metrics()
        with self._use() as model:
            status("rz_metrics_get", model, byref(metrics))
        return {name: Phase(getattr(metrics, name).count, getattr(metrics, name).sum_ns) for name in _lib.PHASES}


class _use:
    """The pointer of a handle that may be None."""

    def __init__(self, handle: Optional[Handle]) -> None:
        self._used = handle._use() if handle is not None else None

    def __enter__(self) -> Optional[int]:
        return self._used.__enter__() if self._used else None

    def __exit__(self, *exception) -> None:  # type: ignore[no-untyped-def]
        if self._used:
            self._used.__exit__(*exception)


class _transfer:
    """A callback that moves bytes; what it raises goes on where the call ends."""

    def __init__(self, move: Callable[[int, int], None]) -> None:
        self.raised: Optional[BaseException] = None

        def call(_user, data, n):  # type: ignore[no-untyped-def]
            try:
                move(data, n)
                return 0
            except BaseException as e:  # noqa: BLE001
                self.raised = e
                return errno.EIO

        self.callback = _lib.TRANSFER(call)

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self.callback

    def __exit__(self, *exception) -> None:  # type: ignore[no-untyped-def]
        if self.raised is not None:
            raise self.raised


def _request(messages: Messages, members: Mapping[str, Any]) -> bytes:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return json.dumps({"messages": list(messages), **members}, ensure_ascii=False).encode()


_GRAMMARS = {"json_schema": 1, "regex": 2, "lark": 3, "gbnf": 4, "json": 5, "choices": 6, "tools": 7}


class Grammar(Handle):
    """What may be written. Immutable: any number of jobs may use it at once."""


class Adapter(Handle):
    """A low-rank adapter of a model. Immutable: any number of sessions may use it at once."""


class Part(NamedTuple):
    kind: str
    """ "reasoning", "content", "tool_name", "tool_arguments" (a piece of a JSON object), or "end"."""
    call: int
    """The number of the call that a name or arguments belong to."""
    text: str
    unparsed: bool
    """Content that begins like a call and is none; with "end": there was such, or a call broke off."""


class ChatParser(Handle):
    """Takes a reply apart while its tokens come: reasoning, content, and calls of tools."""

    def push(self, token: int) -> List[Part]:
        """Adds a token, and gives the parts that it completes, often none."""
        with self._use() as parser:
            status("rz_chat_parser_push", parser, token)
            return self._parts(parser)

    def end(self) -> List[Part]:
        """Ends the reply, and gives the rest of it."""
        with self._use() as parser:
            status("rz_chat_parser_end", parser)
            return self._parts(parser)

    def _parts(self, parser: int) -> List[Part]:
        parts: List[Part] = []
        kind, index = c_uint32(), c_uint32()
        while True:
            kind.value = 0
            text = sized(lambda *out: status("rz_chat_parser_next_into", parser, byref(kind), byref(index), *out))
            if kind.value == 0:
                return parts
            name = ("reasoning", "content", "tool_name", "tool_arguments", "end")[(kind.value & 255) - 1]
            parts.append(Part(name, index.value, text.decode(), bool(kind.value & 256)))


class Session(Handle):
    """One line of conversation. It keeps what it has computed: a prompt that begins like the one before, as that of the next turn
    does, costs only its new end."""

    def __init__(self, model: Model, cache: c_void_p) -> None:
        super().__init__(cache, "rz_cache_free")
        self.model = model

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
        with self._use() as cache:
            return _ids_of(lambda *out: status("rz_cache_tokens_into", cache, *out), library.rz_cache_len(cache))

    def truncate(self, n: int) -> None:
        """Rewinds to the first `n` tokens."""
        with self._use() as cache:
            status("rz_cache_truncate", cache, n)

    def fork(self) -> "Session":
        """A second session with the same past."""
        with self._use() as cache:
            return Session(self.model, new("rz_cache_fork", cache))

    def set_adapters(self, adapters: Union[Sequence[Adapter], Mapping[Adapter, float]]) -> None:
        """Has the session use some adapters, or adapters with their scales, or none; empties it."""
        from contextlib import ExitStack

        scales = list(adapters.values()) if isinstance(adapters, Mapping) else [1.0] * len(adapters)
        with self._use() as cache, ExitStack() as stack:
            pointers = (c_void_p * len(scales))(*(stack.enter_context(adapter._use()) for adapter in adapters))
            status("rz_cache_adapters_set", cache, pointers, (ctypes.c_float * len(scales))(*scales), len(scales))

    def save(self, file: BinaryIO) -> None:
        """Writes the session, so that it outlives the process; `Model.restore` reads it."""
        with self._use() as cache, _transfer(lambda data, n: file.write(ctypes.string_at(data, n)) and None) as callback:
            status("rz_cache_save", cache, callback, None)

    def prefill(self, tokens: Tokens, *, cancel: Optional[Cancel] = None) -> None:
        """Appends tokens; afterwards there are logits of the last one."""
        ids = _ids(tokens)
        with self._use() as cache, _use(cancel) as flag:
            status("rz_prefill", cache, _at(ids), len(ids), flag)

    def sample(self, sampler: Optional[Sampler] = None) -> int:
        """Chooses a token from the logits, the most likely one without a sampler."""
        token = c_uint32()
        with self._use() as cache, _use(sampler) as chooser:
            status("rz_sample", cache, chooser, byref(token))
        return token.value

    def decode(self, token: int, sampler: Optional[Sampler] = None) -> int:
        """Appends a token and chooses the next one."""
        following = c_uint32()
        with self._use() as cache, _use(sampler) as chooser:
            status("rz_decode_token", cache, token, chooser, byref(following))
        return following.value

    def logits(self, out: Optional["np.ndarray"] = None) -> "np.ndarray":
        """Logits after the last token, one for each entry of the vocabulary, written to `out` or to a new array of float32."""
        if out is None:
            out = np.empty(self.model.info.vocab_size, dtype=np.float32)
        if out.dtype != np.float32 or not out.flags.c_contiguous or not out.flags.writeable:
            raise InvalidArgument("out is no contiguous array of float32 that can be written")
        n = ctypes.c_size_t()
        with self._use() as cache:
            status("rz_logits_into", cache, out.ctypes.data, out.size, byref(n))
        return out

    def job(
        self, prompt: Union[str, Tokens], sampling: Sampling = Sampling(), *, max_tokens: Optional[int] = None,
        stops: Sequence[str] = (), grammar: Optional[Grammar] = None, cancel: Optional[Cancel] = None,
        draft: Union[None, str, Model] = None, draft_max: int = 0,
    ) -> "Job":  # fmt: skip
        """Continues a text, or tokens, in a job that works when it is told to. What the session holds of them from its start is not
        computed again. The session is busy until the job is closed. `draft`: how next tokens are guessed, which changes nothing but
        the time: "lookup" out of the text, or by a small model of the same vocabulary, up to `draft_max` at a time."""
        ids = _ids(self.model.tokenize(prompt) if isinstance(prompt, str) else prompt)
        common = c_uint32()
        with self._use() as cache:
            status("rz_cache_match", cache, _at(ids), len(ids), byref(common))
        # The last token of a prompt is always computed, because the answer starts from its logits.
        kept = min(common.value, max(len(ids) - 1, 0))
        self.truncate(kept)
        return Job(self, ids[kept:], sampling, max_tokens, stops, grammar, cancel, draft, draft_max)

    def generate(self, prompt: Union[str, Tokens], sampling: Sampling = Sampling(), **options: Any) -> Iterator[str]:
        """Continues a text, or tokens, piece by piece; each piece is whole characters. `options` as of `job`."""
        if options.get("max_tokens") == 0:
            return
        with self.job(prompt, sampling, **options) as job:
            yield from job

    def chat(
        self, messages: Messages, sampling: Sampling = Sampling(), *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
        variables: Optional[Mapping[str, Any]] = None, **options: Any,
    ) -> Iterator[str]:  # fmt: skip
        """Answers a conversation, given as a whole, or a question, piece by piece. `options` as of `job`."""
        members = {"tools": tools, "variables": variables}
        tokens = self.model.tokenize_chat(messages, **{name: value for name, value in members.items() if value is not None})
        return self.generate(tokens, sampling, **options)


class Job(Handle):
    """A generation that works when it is told to: `step`, or iteration over its pieces of text. Closing it ends it at any moment; its
    session keeps the tokens that are complete."""

    def __init__(
        self, session: Session, tokens: "np.ndarray", sampling: Sampling, max_tokens: Optional[int], stops: Sequence[str],
        grammar: Optional[Grammar], cancel: Optional[Cancel], draft: Union[None, str, Model], draft_max: int,
    ) -> None:  # fmt: skip
        ends = (ctypes.c_char_p * len(stops))(*(_string(stop, "a stop string") for stop in stops))
        params = _lib.rz_job_params(max_tokens=max_tokens or 0, n_tokens=len(tokens), n_stops=len(stops), draft_max=draft_max)
        draft_model = draft if isinstance(draft, Model) else None
        if draft not in (None, "lookup") and draft_model is None:
            raise InvalidArgument(f'draft is None, "lookup" or a model, not {draft!r}')
        params.draft = 2 if draft_model else int(draft == "lookup")
        params.tokens = _at(tokens)
        if stops:
            params.stops = ends
        chooser = None if sampling == Sampling(seed=sampling.seed) else Sampler(sampling)
        with session._use() as cache, _use(chooser) as params.sampler, _use(grammar) as params.grammar, \
                _use(cancel) as params.cancel, _use(draft_model) as params.draft_model:  # fmt: skip
            super().__init__(new("rz_job_new", cache, byref(params)), "rz_job_free")
        self.session = session

    def step(self, seconds: Optional[float] = None) -> bool:
        """Works for about so long, of which less than nothing is nothing, without a limit until it has made a token; True: there is more to
        do."""
        with self._use() as job:
            return status("rz_job_step", job, _microseconds(seconds)) != _DONE

    def text(self) -> str:
        """Text that has come since this was asked last, in whole characters, stop strings cut out."""
        with self._use() as job:
            return sized(lambda *out: status("rz_job_text_into", job, *out)).decode()

    def tokens(self) -> List[int]:
        """Tokens that have come since this was asked last."""
        with self._use() as job:
            return _ids_of(lambda *out: status("rz_job_tokens_into", job, *out), 64)

    def __iter__(self) -> Iterator[str]:
        going = True
        while going:
            going = self.step()
            piece = self.text()
            if piece:
                yield piece

    @property
    def end(self) -> Optional[str]:
        """Why it has ended: "end" (a token that ends a text), "length", "stop", "context", "grammar"; None where it has not."""
        return (None, "end", "length", "stop", "context", "grammar")[self._info().end]

    @property
    def drafts(self) -> Tuple[int, int]:
        """Tokens of drafts that were computed, and those of them that were right."""
        info = self._info()
        return info.drafted, info.accepted

    def _info(self) -> _lib.rz_job_info:
        info = _lib.rz_job_info()
        with self._use() as job:
            status("rz_job_info_get", job, byref(info))
        return info


_DONE = 2


def step_jobs(jobs: Sequence[Job], seconds: Optional[float] = None) -> bool:
    """`Job.step` for several jobs of one model, prompts and single tokens together, in common passes over the weights."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        pointers = (c_void_p * len(jobs))(*(stack.enter_context(job._use()) for job in jobs))
        return status("rz_jobs_step", pointers, len(jobs), _microseconds(seconds)) != _DONE


def decode_batch(
    sessions: Sequence[Session], tokens: Tokens, samplers: Optional[Sequence[Optional[Sampler]]] = None
) -> List[int]:
    """`Session.decode` for several sessions of one model, in one pass over the weights."""
    from contextlib import ExitStack

    ids = _ids(tokens)
    choosers = list(samplers) if samplers is not None else [None] * len(sessions)
    if not len(sessions) == len(ids) == len(choosers):
        raise InvalidArgument("a batch has as many tokens and samplers as sessions")
    following = np.empty(len(ids), dtype=np.uint32)
    with ExitStack() as stack:
        caches = (c_void_p * len(ids))(*(stack.enter_context(s._use()) for s in sessions))
        chosen = (c_void_p * len(ids))(*(stack.enter_context(_use(s)) for s in choosers))
        status("rz_decode_batch", caches, _at(ids), len(ids), chosen, _at(following))
    return following.tolist()
