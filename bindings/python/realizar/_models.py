"""A loaded model: its texts, grammars, sessions and embeddings."""

import ctypes
import os
from ctypes import byref, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, FrozenSet, List, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _header as _c
from ._errors import BufferTooSmall, NotFound
from ._handles import reading, use, use_all
from ._header import choice, switch, whole
from ._library import Handle, interruptible, library, new, sized, status
from ._loading import OF_HUB, Loading, LoadOptions, Source, fetch, sources_of
from ._media import Prompt
from ._options import CacheType, Pooling, Sampling
from ._runtime import DEVICES, Cancel
from ._sessions import Adapter, Session
from ._texts import ChatParser, Grammar, GrammarKind, Members, Messages, TextStream, grammar_of, request_of
from ._values import Tokens, flag_of, listed, numbers_of, path_of, pointer_to, read_ids, string_of, text_of, token_ids, told

if TYPE_CHECKING:
    from typing_extensions import Unpack


Capability = Literal["generate", "system", "tools", "reason", "switch_reasoning", "images", "audio", "video"]
_CAPABILITIES = numbers_of("RZ_CAN_")
_POOLINGS = numbers_of("RZ_POOLING_")


def _given(number: int) -> Optional[int]:
    """A number of the library, or None for the one that stands for none."""
    return None if number == _c.RZ_NONE else number


class ModelInfo(NamedTuple):
    """What a model is, as its file says, and where it was loaded to."""

    architecture: str
    """Family of the network, such as "llama" or "qwen3"."""
    name: str
    """The model's own name; empty if the file gives none."""
    n_layers: int
    """Transformer layers."""
    hidden_dim: int
    """Width of the residual stream, and of the feed-forward blocks, in values."""
    ffn_dim: int
    n_heads: int
    """Query heads, heads of keys and values, and the values of a head."""
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    """Number of token ids, which begin at 0, and of logits."""
    context_length: int
    """Tokens that the model was made for."""
    device: int
    """Index of the device; of several GPUs the first."""
    bos_token: Optional[int]
    """The token that begins a text, and one that ends it; None if there is none."""
    eos_token: Optional[int]
    n_params: int
    """Parameters, and bytes of weights in memory."""
    weight_bytes: int
    gpu_layers: int
    """Layers on GPUs."""
    devices: Tuple[int, ...]
    """GPUs that have layers, in the order of the layers, and the number of layers on each."""
    device_layers: Tuple[int, ...]
    has_chat_template: bool
    """There is a template for messages, and it writes the token that begins a text by itself."""
    template_writes_bos: bool
    n_unknown: int
    """Keys and tensors that `allow_unknown` passed over."""
    reads_source: bool
    """It writes a text of another one, with which its sessions begin: `Media.from_tokens`."""
    isa: str
    """Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if it has none."""
    capabilities: "FrozenSet[Capability]"
    """What conversations may have ("system", "tools", "reason", "switch_reasoning", "images", "audio", "video"), and "generate"."""
    embedding_dim: int
    """Floats of the embedding of a text (`Model.embed`); 0: the model makes none."""
    pooling: Optional[Pooling]
    """The pooling of its embeddings; None: the file names none, so that `Model.embed` has to be told one."""
    n_scores: int
    """Scores of its classifier (pooling "rank"); 0: it has none."""
    experts_host_first: int
    """The first layer on a GPU whose experts (MoE) are on the CPU, and the number of layers up to the last one."""
    experts_host_layers: int
    experts_host: int
    """Bytes of experts on the CPU, and on GPUs."""
    experts_device: int
    experts_copied_from: Optional[int]
    """Steps of so many tokens or more copy the experts on the CPU to the GPU; None: no step does."""


class Phase(NamedTuple):
    """Calls of one kind."""

    count: int  # type: ignore[assignment]
    sum_ns: int
    """Nanoseconds that all of them took together."""


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


class Model(Handle):
    """A loaded model: a .gguf file, a .safetensors file, a folder with a config.json, or one of the Hub, as `fetch` has
    it."""

    _free = "rz_model_free"

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
        if isinstance(path, str) and path.startswith(OF_HUB):
            path = fetch(path, progress=options.get("progress"), cancel=options.get("cancel"))
        name = path_of(path, "path", "a str, such as \"model.gguf\" or \"hf:owner/name\", or an os.PathLike")
        self._load(Loading(options), lambda params: new("rz_model_load", name, params))

    @classmethod
    def from_files(cls, files: Union[Source, Mapping[str, Source]], **options: "Unpack[LoadOptions]") -> "Model":
        """A model whose files are bytes in memory, or open binary files: one file, or those of a folder or a split set by their names.
        Nothing of them is needed afterwards."""
        self = cls.__new__(cls)
        sources, kept = sources_of(files)
        self._load(Loading(options), lambda params: new("rz_model_load_from", sources, len(sources), params))
        del kept
        return self

    def _load(self, loading: Loading, load: Callable[[Any], c_void_p]) -> None:
        super().__init__(loading.run(load))
        info = _c.rz_model_info()
        self._call("rz_model_info_get", byref(info))
        parts = [_c.rz_model_device() for _ in range(info.n_devices)]
        for i, part in enumerate(parts):
            self._call("rz_model_device_get", i, byref(part))
        own: Dict[str, Any] = {
            "bos_token": _given(info.bos_token), "eos_token": _given(info.eos_token),
            "devices": tuple(part.device for part in parts), "device_layers": tuple(part.n_layers for part in parts),
            "has_chat_template": bool(info.chat_template & _c.RZ_TEMPLATE_PRESENT),
            "template_writes_bos": bool(info.chat_template & _c.RZ_TEMPLATE_WRITES_BOS), "reads_source": bool(info.reads_source),
            "capabilities": frozenset(name for name, bit in _CAPABILITIES.items() if info.capabilities & bit),
            "pooling": {number: name for name, number in _POOLINGS.items() if name != "model"}.get(info.pooling),
            "experts_copied_from": _given(info.experts_copied_from),
        }  # fmt: skip
        self.info = told(ModelInfo, info, **own)

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
        name = string_of(key, "key")
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
        name, elements = string_of(key, "key"), []  # type: bytes, List[str]
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
        data = text_of(text, "text")
        flags = flag_of(special, "special", _c.RZ_TOKENIZE_ADD_SPECIAL) | flag_of(parse, "parse", _c.RZ_TOKENIZE_PARSE_SPECIAL)
        return read_ids(lambda *out: self._call("rz_tokenize_into", data, len(data), flags, *out, None), len(data) + 8)

    def detokenize(self, tokens: Tokens, *, special: bool = False) -> str:
        """The text of tokens, with control tokens where `special`."""
        ids = token_ids(tokens)
        flags = flag_of(special, "special", _c.RZ_DETOKENIZE_SPECIAL)
        return sized(lambda *out: self._call("rz_detokenize_into", pointer_to(ids), len(ids), flags, *out)).decode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, which may be a part of a character."""
        return sized(lambda *out: self._call("rz_token_bytes_into", whole(token, "token"), *out, None))

    def text_stream(self) -> "TextStream":
        """Turns tokens into text as they come."""
        with self._use() as model:
            return TextStream(new("rz_textstream_new", model))

    def is_end(self, token: int) -> bool:
        """True for a token that ends a turn or a text."""
        with self._use() as model:
            return bool(library.rz_token_is_end(model, whole(token, "token")))

    def render(self, messages: Messages, *, add_generation_prompt: bool = True, **members: "Unpack[Members]") -> str:
        """Messages as the text that the model was trained on, by the template in its file. `members`: others of the request, such as
        tools=[...] and variables={"enable_thinking": False}."""
        request = request_of(messages, members)
        flags = flag_of(add_generation_prompt, "add_generation_prompt", _c.RZ_CHAT_ADD_GENERATION_PROMPT)
        return sized(lambda *out: self._call("rz_chat_render_into", request, len(request), flags, *out, None), 4096).decode()

    def tokenize_chat(self, messages: Messages, **members: "Unpack[Members]") -> List[int]:
        """Messages as tokens, up to where the answer begins; no text in them becomes a control token."""
        request, flags = request_of(messages, members), _c.RZ_CHAT_ADD_GENERATION_PROMPT
        return read_ids(lambda *out: self._call("rz_chat_tokenize_into", request, len(request), flags, *out, None), len(request) + 64)

    def grammar(self, kind: GrammarKind, text: Any = "", *, whitespace: bool = False) -> "Grammar":
        """A grammar for what is written: of a "json_schema", "regex", "lark", "gbnf", "json", "choices" (a list of texts), "tools" (a
        conversation). What is no text is written as JSON. `whitespace`: JSON may have some between its parts."""
        number, flags, data = grammar_of(kind, text, whitespace)
        with self._use() as model:
            return Grammar(new("rz_grammar_new", model, number, flags, data, len(data), None))

    def chat_parser(self, messages: Messages, **members: "Unpack[Members]") -> "ChatParser":
        """A parser for the reply to a conversation, whose tokens (`tokenize_chat` with the same arguments) were the prompt."""
        request = request_of(messages, members)
        with self._use() as model:
            return ChatParser(new("rz_chat_parser_new", model, request, len(request), None))

    def adapter(self, path: Union[str, "os.PathLike[str]"]) -> "Adapter":
        """A low-rank adapter: a GGUF file or a folder of PEFT."""
        name = path_of(path)
        with self._use() as model:
            return Adapter(new("rz_adapter_load", model, name, None), self)

    def session(self, capacity: int = 0, *, k_type: CacheType = "f16", v_type: CacheType = "f16") -> "Session":
        """An empty session with room for `capacity` tokens; 0: as many as the model was made for, at most 8192."""
        params = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
        with self._use() as model:
            return Session(self, new("rz_cache_new", model, byref(params)))

    def restore(self, file: BinaryIO) -> "Session":
        """The session that `Session.save` has written."""
        with self._use() as model, reading(file) as callback:
            return Session(self, new("rz_cache_load", model, None, callback, None, None))

    def embed(
        self, texts: "Sequence[Union[str, Tokens, Prompt]]", *, pooling: Pooling = "model", normalize: bool = True,
        cancel: Optional[Cancel] = None,
    ) -> "np.ndarray":  # fmt: skip
        """Embeddings of texts, of lists of tokens, or of prompts with pictures: an array [texts][dims] of float32,
        which the library writes itself. With pooling "none" there is a row for each token, with "rank" one of scores
        for each text."""
        texts = listed(texts, "texts")
        prompts: Any = [text for text in texts if isinstance(text, Prompt)]
        ids: List[Any] = [text if isinstance(text, Prompt) else token_ids(self.tokenize(text) if isinstance(text, str) else text, f"texts[{i}]") for i, text in enumerate(texts)]
        if prompts:
            ids = prompts = [text if isinstance(text, Prompt) else Prompt(self, [text]) for text in ids]
        else:
            lists = (ctypes.POINTER(c_uint32) * len(ids))(*map(pointer_to, ids))
            lengths = (ctypes.c_size_t * len(ids))(*map(len, ids))
        params = _c.rz_embed_params(pooling=pooling, raw=not switch(normalize, "normalize"))
        rows = sum(map(len, ids)) if pooling == "none" else len(ids)
        if not ids:
            return np.empty((0, self.info.embedding_dim or self.info.hidden_dim), dtype=np.float32)
        out = np.empty(rows * self.info.hidden_dim, dtype=np.float32)
        n = ctypes.c_size_t()
        stop = cancel if cancel is not None else Cancel()

        def call(out: "np.ndarray") -> "np.ndarray":
            with self._use() as model, use(stop, "Cancel", "cancel") as flag, use_all(prompts, "Prompt", "texts") as pointers:
                room = (out.ctypes.data, out.size, byref(n), flag)
                if prompts:
                    status("rz_embed_prompts_into", model, byref(params), pointers, len(ids), *room)
                else:
                    status("rz_embed_into", model, byref(params), lists, lengths, len(ids), *room)
            return out[: n.value].reshape(rows, -1)

        while True:
            try:
                found: "np.ndarray" = interruptible(lambda: call(out), (stop, self))
                return found
            except BufferTooSmall:
                out = np.empty(n.value, dtype=np.float32)

    def metrics(self) -> Dict[str, Phase]:
        """Number and time of the calls of each kind since the model was loaded."""
        metrics = _c.rz_metrics()
        self._call("rz_metrics_get", byref(metrics))
        phases = [name for name, kind, *_ in metrics._fields_ if kind is _c.rz_phase_metrics]
        return {name: told(Phase, getattr(metrics, name)) for name in phases}

    def work(self, kind: str = "cpu") -> Work:
        """The work of one kind of device, "cpu" or "gpu", since the model was loaded."""
        metrics = _c.rz_backend_metrics()
        self._call("rz_backend_metrics_get", choice(kind, "kind", DEVICES), byref(metrics))
        return told(Work, metrics, latency_histogram=tuple(metrics.latency_histogram))

    def reset_metrics(self) -> None:
        """Sets the counters to zero."""
        with self._use() as model:
            library.rz_metrics_reset(model)
