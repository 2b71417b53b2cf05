"""Loaded models: tokens, grammars, sessions and embeddings."""

import ctypes
import os
from ctypes import byref, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Union

import numpy as np

from . import _header as _c
from ._errors import BufferTooSmall, NotFound
from ._handles import reading, use, use_all
from ._header import choice, switch, whole
from ._library import Handle, interruptible, library, new, sized, status
from ._loading import OF_HUB, Loading, LoadOptions, Source, fetch, sources_of
from ._media import Prompt
from ._options import CacheType, Pooling, Sampling
from ._results import ModelInfo, Phase, Work
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
    """A number of the library, or None for the value that means none."""
    return None if number == _c.RZ_NONE else number


class Model(Handle):
    """A loaded model: a .gguf file, a .safetensors file, a folder with a config.json, or a model of the Hub
    (`fetch`)."""

    _free = "rz_model_free"

    def __init__(self, path: Union[str, "os.PathLike[str]"], **options: "Unpack[LoadOptions]") -> None:
        """All options are optional.

        `threads`, as for `Runtime`, or a shared `runtime`. `device`: a device index; `devices`: GPUs that share the
        layers, in this order; `shares`: their relative shares (default: by free memory). `gpu_layers`: layers to
        offload (default: as many as fit; 0: none). `placements`: expert offload. `experts_copied_from`: minimum tokens
        of a step that copies experts from the CPU to the GPU and computes there (default: measured; 0: never).
        `quantize`: type that float matrices are quantized to, such as "q8_0". `mixed_prefill_tokens`: maximum prefill
        tokens in a batch that also decodes (64; a larger value lowers time to first token and raises inter-token
        latency).

        `deterministic`, `mmap`, `text_only`, `profile`, `mtp`, `allow_unknown`, `bf16_products`: the flags RZ_MODEL_...
        of the library.

        `packed_path`: file of packed weights, which the first load creates and later loads map; processes share its
        memory. `tested_path`: file that records passed GPU self-tests for later processes. `chat_template`: Jinja
        template that replaces the model's own.

        `progress` gets bytes done and in total, on the loading thread, which is not the main thread; if it returns
        False or raises, the load stops with Cancelled. `cancel` stops the load. Both also apply to a download before
        the load."""
        if isinstance(path, str) and path.startswith(OF_HUB):
            path = fetch(path, progress=options.get("progress"), cancel=options.get("cancel"))
        name = path_of(path, "path", "a str, such as \"model.gguf\" or \"hf:owner/name\", or an os.PathLike")
        self._load(Loading(options), lambda params: new("rz_model_load", name, params))

    @classmethod
    def from_files(cls, files: Union[Source, Mapping[str, Source]], **options: "Unpack[LoadOptions]") -> "Model":
        """Loads a model from bytes or open binary files: one file, or the files of a folder or a split set by name.
        They may be closed afterwards."""
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
        """Returns the model's recommended sampling parameters, or None. Only replies without `sampling` use them by
        default."""
        advice = _c.rz_model_sampling()
        self._call("rz_model_sampling_get", byref(advice))
        if not advice.advised:
            return None
        names = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "penalty_window")
        # Recommended for transformers, with its order.
        return Sampling(**{name: getattr(advice, name) for name in names}, temperature_first=True)

    def meta(self, key: str) -> str:
        """Returns a metadata value of the file as text."""
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
        self.meta(key)  # a missing key must be an error, not an empty list
        while True:
            try:
                at = len(elements)
                elements.append(sized(lambda *out: self._call("rz_model_meta_element_into", name, at, *out)).decode())
            except NotFound:
                return elements

    def tokenize(self, text: str, *, special: bool = True, parse: bool = False) -> List[int]:
        """Returns the token ids of a text. `special`: add BOS and EOS as the model defines. `parse`: names of special
        tokens in the text become these tokens; do not use it for text of users."""
        data = text_of(text, "text")
        flags = flag_of(special, "special", _c.RZ_TOKENIZE_ADD_SPECIAL) | flag_of(parse, "parse", _c.RZ_TOKENIZE_PARSE_SPECIAL)
        return read_ids(lambda *out: self._call("rz_tokenize_into", data, len(data), flags, *out, None), len(data) + 8)

    def detokenize(self, tokens: Tokens, *, special: bool = False) -> str:
        """Returns the text of tokens; `special`: with special tokens."""
        ids = token_ids(tokens)
        flags = flag_of(special, "special", _c.RZ_DETOKENIZE_SPECIAL)
        return sized(lambda *out: self._call("rz_detokenize_into", pointer_to(ids), len(ids), flags, *out)).decode()

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes of a token, which may be a part of a character."""
        return sized(lambda *out: self._call("rz_token_bytes_into", whole(token, "token"), *out, None))

    def text_stream(self) -> "TextStream":
        """Returns a stream that converts tokens to text as they are generated."""
        with self._use() as model:
            return TextStream(new("rz_textstream_new", model))

    def is_end(self, token: int) -> bool:
        """True for a token that ends a turn or a text (EOS, EOT)."""
        with self._use() as model:
            return bool(library.rz_token_is_end(model, whole(token, "token")))

    def render(self, messages: Messages, *, add_generation_prompt: bool = True, **members: "Unpack[Members]") -> str:
        """Renders messages with the model's chat template. `members`: other members of the request, such as tools=[...]
        and variables={"enable_thinking": False}."""
        request = request_of(messages, members)
        flags = flag_of(add_generation_prompt, "add_generation_prompt", _c.RZ_CHAT_ADD_GENERATION_PROMPT)
        return sized(lambda *out: self._call("rz_chat_render_into", request, len(request), flags, *out, None), 4096).decode()

    def tokenize_chat(self, messages: Messages, **members: "Unpack[Members]") -> List[int]:
        """Returns messages as tokens, up to the beginning of the reply; their text never becomes a special token."""
        request, flags = request_of(messages, members), _c.RZ_CHAT_ADD_GENERATION_PROMPT
        return read_ids(lambda *out: self._call("rz_chat_tokenize_into", request, len(request), flags, *out, None), len(request) + 64)

    def grammar(self, kind: GrammarKind, text: Any = "", *, whitespace: bool = False) -> "Grammar":
        """Compiles a grammar of kind "json_schema", "regex", "lark", "gbnf", "json", "choices" (a list of texts) or
        "tools" (a conversation). Values that are not text are converted to JSON. `whitespace`: generated JSON may
        contain whitespace."""
        number, flags, data = grammar_of(kind, text, whitespace)
        with self._use() as model:
            return Grammar(new("rz_grammar_new", model, number, flags, data, len(data), None))

    def chat_parser(self, messages: Messages, **members: "Unpack[Members]") -> "ChatParser":
        """Returns a parser for the reply to a prompt made by `tokenize_chat` with the same arguments."""
        request = request_of(messages, members)
        with self._use() as model:
            return ChatParser(new("rz_chat_parser_new", model, request, len(request), None))

    def adapter(self, path: Union[str, "os.PathLike[str]"]) -> "Adapter":
        """Loads a LoRA adapter: a GGUF file or a PEFT folder."""
        name = path_of(path)
        with self._use() as model:
            return Adapter(new("rz_adapter_load", model, name, None), self)

    def session(self, capacity: int = 0, *, k_type: CacheType = "f16", v_type: CacheType = "f16") -> "Session":
        """Returns an empty session with a context of `capacity` tokens; 0: the model's context length, at most 8192."""
        params = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
        with self._use() as model:
            return Session(self, new("rz_cache_new", model, byref(params)))

    def restore(self, file: BinaryIO) -> "Session":
        """Loads the session that `Session.save` wrote."""
        with self._use() as model, reading(file) as callback:
            return Session(self, new("rz_cache_load", model, None, callback, None, None))

    def embed(
        self, texts: "Sequence[Union[str, Tokens, Prompt]]", *, pooling: Pooling = "model", normalize: bool = True,
        cancel: Optional[Cancel] = None,
    ) -> "np.ndarray":  # fmt: skip
        """Returns embeddings of texts, lists of tokens, or prompts with images: a float32 array [texts][dims]. With
        pooling "none" there is a row per token, with "rank" a row of scores per text."""
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
        """Returns the number and time of calls of each kind since the model was loaded."""
        metrics = _c.rz_metrics()
        self._call("rz_metrics_get", byref(metrics))
        phases = [name for name, kind, *_ in metrics._fields_ if kind is _c.rz_phase_metrics]
        return {name: told(Phase, getattr(metrics, name)) for name in phases}

    def work(self, kind: str = "cpu") -> Work:
        """Returns the counters of one kind of device, "cpu" or "gpu", since the model was loaded."""
        metrics = _c.rz_backend_metrics()
        self._call("rz_backend_metrics_get", choice(kind, "kind", DEVICES), byref(metrics))
        return told(Work, metrics, latency_histogram=tuple(metrics.latency_histogram))

    def reset_metrics(self) -> None:
        """Sets the counters to zero."""
        with self._use() as model:
            library.rz_metrics_reset(model)
