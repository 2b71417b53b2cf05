"""Vision and audio encoders, their media, and prompts with media."""

import ctypes
import os
from ctypes import byref, c_void_p
from typing import (
    TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Iterable, List, Literal, Mapping, Optional, Sequence, Tuple, Union,
)  # fmt: skip

import numpy as np

from . import _header as _c
from . import _options as _o
from ._errors import InvalidArgument
from ._handles import reading, use, use_all, writing
from ._header import choice, real, whole
from ._library import Handle, interruptible, library, new, status
from ._loading import OF_HUB, Progress, Source, Watch, fetch, sources_of
from ._results import EncoderInfo, EncoderPlan, MediaInfo
from ._runtime import Cancel
from ._texts import Members, Messages, checked, messages_of
from ._values import Tokens, check_options, flag_of, listed, microseconds, json_of, numbers_of, path_of, pointer_to, read_ids, shown, token_ids, told

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._models import Model


_PIXELS = numbers_of("RZ_PIXELS_")
_MEDIA = numbers_of("RZ_MEDIA_")
_ENCODERS = numbers_of("RZ_ENCODER_")


def _media_info(info: Any) -> MediaInfo:
    kind = {number: name for name, number in _MEDIA.items()}[info.kind]
    return told(MediaInfo, info, kind=kind, has_overview=bool(info.has_overview), hash=bytes(info.hash))


def _pixels(image: Any, format: Optional[str]) -> Tuple[Any, Any]:
    """Pixels as the library takes them, and the object that must stay alive meanwhile."""
    if hasattr(image, "convert") and hasattr(image, "getbands"):
        image = _of_pillow(image)
    data = np.asarray(image)
    depth = data.shape[2] if data.ndim == 3 else 1 if data.ndim == 2 else 0
    names = {1: ("gray8",), 3: ("rgb8",), 4: ("rgba8", "bgra8")}.get(depth, ())
    if data.dtype != np.uint8 or not names or format is not None and format not in names:
        shape = f"{data.dtype} {list(data.shape)}{f' as {format}' if format else ''}"
        raise InvalidArgument(f"the pixels are {shape}; they must be uint8 [height][width] with nothing, 1, 3 or 4 bytes each")
    if data.strides[1] != depth or data.ndim == 3 and data.strides[2] != 1 or data.strides[0] < data.shape[1] * depth:
        data = np.ascontiguousarray(data)
    pixels = _c.rz_pixels(format=_PIXELS[format or names[0]], width=data.shape[1], height=data.shape[0], stride=data.strides[0])
    pixels.data = data.ctypes.data
    return pixels, data


# Pillow's transposition for each EXIF orientation from 2 on, which turns an image upright.
_UPRIGHT = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}


def _of_pillow(image: Any) -> Any:
    """A Pillow image, upright, in RGB, or in RGBA if it has transparency."""
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
    """A vision or audio encoder with its projector. Immutable: any number of threads may use it at once."""

    _free = "rz_encoder_free"

    def __init__(
        self, model: "Model", path: Union[str, "os.PathLike[str]"], *, progress: Optional[Progress] = None,
        cancel: Optional[Cancel] = None, **options: "Unpack[EncoderOptions]",
    ) -> None:  # fmt: skip
        """`path`: the .gguf file with the projector ("mmproj-..."), a folder with a config.json (the model's own if it
        contains both), or "hf:owner/name" of the Hub. `quantize`, `device`, `progress`, `cancel`, `allow_unknown` as
        for `Model`. `max_rows`: maximum rows of an image or of audio. `kind`: "image" or "audio", for a file with both
        encoders."""
        name = path_of(_encoder_of(path, progress, cancel))
        self._load(model, options, progress, cancel, lambda pointer, params: new("rz_encoder_load", pointer, name, params))

    @classmethod
    def from_files(
        cls, model: "Model", files: Union[Source, Mapping[str, Source]], *, progress: Optional[Progress] = None,
        cancel: Optional[Cancel] = None, **options: "Unpack[EncoderOptions]",
    ) -> "Encoder":  # fmt: skip
        """Loads an encoder from bytes or open files, as `Model.from_files` does."""
        self, (sources, kept) = cls.__new__(cls), sources_of(files)
        self._load(
            model, options, progress, cancel,
            lambda pointer, params: new("rz_encoder_load_from", pointer, sources, len(sources), params),
        )  # fmt: skip
        del kept
        return self

    def _load(
        self, model: "Model", options: EncoderOptions, progress: Optional[Progress], cancel: Optional[Cancel],
        make: Callable[[Any, Any], c_void_p],
    ) -> None:  # fmt: skip
        params = encoder_params(options)

        def load(params: Any) -> c_void_p:
            with use(model, "Model") as pointer:
                return make(pointer, params)

        super().__init__(Watch(progress, cancel, model).run(params, load), model)
        info = _c.rz_encoder_info()
        self._call("rz_encoder_info_get", byref(info))
        kinds = tuple(name for name, number in _MEDIA.items() if info.kinds & number)
        self.info = told(EncoderInfo, info, is_mutual=bool(info.is_mutual), kinds=kinds)

    @staticmethod
    def plan(model: "Model", path: Union[str, "os.PathLike[str]"], **options: "Unpack[EncoderOptions]") -> EncoderPlan:
        """Returns the memory that an encoder will take, before a weight is read."""
        found = _c.rz_encoder_plan()
        model._call("rz_encoder_plan_get", path_of(_encoder_of(path)), None, 0, byref(encoder_params(options)), byref(found))
        return told(EncoderPlan, found)

    def encode(
        self, image: Any, *, format: Optional[str] = None, progress: Optional[Progress] = None, cancel: Optional[Cancel] = None,
        **options: "Unpack[_o.MediaOptions]",
    ) -> "Media":  # fmt: skip
        """Encodes an image: the bytes of a PNG, JPEG, WebP, GIF or BMP file, an open binary file, or pixels, an array
        of uint8 [height][width] or [height][width][channels] with 1 (gray), 3 (RGB) or 4 channels (RGBA, or BGRA with
        `format="bgra8"`), such as a Pillow image or an object with the buffer protocol.

        `min_rows`, `max_rows`: bounds to which images are resized; `max_tiles`; `max_pixels` of a file; `background`:
        color of transparent pixels, 0xffRRGGBB, default white. `progress` gets tiles done and in total, `cancel` stops
        it."""
        return self._encode(image, format, progress, cancel, _media_params(options))

    def begin(self, image: Any, *, format: Optional[str] = None, cancel: Optional[Cancel] = None, **options: "Unpack[_o.MediaOptions]") -> "Media":
        """`encode` in time slices: `Media.step` does the work. Until it is done, prompts reject the media."""
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
        """Encodes a video: at least two frames of one size, as `encode` takes pixels, and the time of each in seconds
        from its beginning.

        `min_rows`, `max_rows`: bounds for all frames together. `progress` gets pairs of frames done and in total,
        `cancel` stops it."""
        frames, times = listed(frames, "frames"), [real(time, f"times[{i}]") for i, time in enumerate(listed(times, "times"))]
        if len(frames) != len(times):
            raise InvalidArgument(f"times has {len(times)} numbers; it must have one for each of {len(frames)} frames")
        made = [_pixels(frame, format) for frame in frames]
        list_, at = (_c.rz_pixels * len(made))(*(pixels for pixels, _ in made)), (ctypes.c_double * len(times))(*times)
        return self._made("rz_media_from_frames", (list_, at, len(made)), _media_params(options), progress, cancel, made)

    def encode_sound(
        self, sound: Any, rate: int = 0, *, max_rows: int = 0, progress: Optional[Progress] = None, cancel: Optional[Cancel] = None
    ) -> "Media":
        """Encodes audio: the bytes of a WAV, MP3, FLAC or Ogg file, an open binary file, or samples, an array of floats
        [samples] or [samples][channels] from -1 to 1, `rate` per channel and second. Several channels are averaged.

        `progress` gets parts done and in total, `cancel` stops it."""
        if hasattr(sound, "read"):
            sound = sound.read()
        if isinstance(sound, (bytes, bytearray, memoryview)):
            data = np.frombuffer(sound, dtype=np.uint8)
            function, arguments = "rz_media_from_audio", (c_void_p(data.ctypes.data), data.size)  # type: str, Tuple[Any, ...]
        else:
            data = np.asarray(sound)
            if data.ndim not in (1, 2) or not np.issubdtype(data.dtype, np.floating):
                raise InvalidArgument(f"the samples are {data.dtype} {list(data.shape)}; they must be floats [samples] or [samples][channels]")
            data = np.ascontiguousarray(data, dtype=np.float32)
            channels = data.shape[1] if data.ndim == 2 else 1
            at = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            function, arguments = "rz_media_from_samples", (at, data.size, channels, whole(rate, "rate"))
        return self._made(function, arguments, _c.rz_media_params(max_rows=max_rows), progress, cancel, data)

    def _made(
        self, function: str, arguments: Tuple[Any, ...], params: Any, progress: Optional[Progress], cancel: Optional[Cancel], data: Any
    ) -> "Media":
        """Creates media from `data`, which stays alive until then."""

        def call(params: Any) -> c_void_p:
            with self._use() as encoder:
                return new(function, encoder, *arguments, params)

        watch = Watch(progress, cancel, self)
        made = watch.run(params, call)
        del data
        return Media(made, watch.cancel)

    def measure(self, width: int, height: int = 0, **options: "Unpack[_o.MediaOptions]") -> MediaInfo:
        """Returns the `Media.info` of an image of this size, or of audio with `width` samples per channel at the
        encoder's rate, without encoding; time and hash are zero."""
        info = _c.rz_media_info()
        self._call("rz_media_measure", whole(width, "width"), whole(height, "height"), byref(_media_params(options)), byref(info))
        return _media_info(info)


def _encoder_of(path: Any, progress: Optional[Progress] = None, cancel: Optional[Cancel] = None) -> Any:
    """A path; for the encoder of a model of the Hub, the path of the downloaded file."""
    if not isinstance(path, str) or not path.startswith(OF_HUB):
        return path
    from . import _hub

    return fetch(_hub.encoder_name(path), progress=progress, cancel=cancel)


def encoder_params(options: EncoderOptions) -> Any:
    check_options(options, EncoderOptions)
    fields: Dict[str, Any] = dict(options)
    kind, allow_unknown = fields.pop("kind", None), fields.pop("allow_unknown", False)
    flags = 0 if kind is None else choice(kind, "kind", _ENCODERS)
    return _c.rz_encoder_params(**fields, flags=flags | flag_of(allow_unknown, "allow_unknown", _c.RZ_MODEL_ALLOW_UNKNOWN))


def _media_params(options: _o.MediaOptions, flags: int = 0) -> Any:
    check_options(options, _o.MediaOptions)
    return _c.rz_media_params(**options, flags=flags)


class Media(Handle):
    """Embeddings of an image, a video, audio or a source text, one row per token position, for any number of prompts.
    Immutable: any number of threads may use it at once."""

    _free = "rz_media_free"

    def __init__(self, owned: c_void_p, stop: Optional[Cancel] = None) -> None:
        super().__init__(owned)
        self._stop = stop if stop is not None else Cancel()  # ends its steps
        info = _c.rz_media_info()
        self._call("rz_media_info_get", byref(info))
        self.info = _media_info(info)

    @classmethod
    def from_rows(cls, model: "Model", rows: Any, *, kind: str = "image", columns: int = 0, lines: int = 0) -> "Media":
        """Creates media from embeddings of the caller's own encoder, an array [rows][row_dim], converted to float32.
        `columns` * `lines` must be the number of rows, for models with M-RoPE positions."""
        given = np.asarray(rows)
        if given.ndim != 2 or given.dtype.kind not in "fiu":
            raise InvalidArgument(f"rows are {given.dtype} {list(given.shape)}; they must be numbers [rows][row_dim]")
        data = np.ascontiguousarray(given, dtype=np.float32)
        at, number = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), choice(kind, "kind", _MEDIA)
        with use(model, "Model") as pointer:
            shape = (*data.shape, whole(columns, "columns"), whole(lines, "lines"))
            return cls(new("rz_media_from_rows", pointer, number, at, *shape))

    @classmethod
    def from_tokens(cls, model: "Model", tokens: Tokens, *, cancel: Optional[Cancel] = None) -> "Media":
        """Encodes the source text of an encoder-decoder model (`ModelInfo.reads_source`), with the token that the
        decoder starts from. `generate` needs a prompt of only these media."""
        ids, stop = token_ids(tokens), cancel if cancel is not None else Cancel()

        def made() -> c_void_p:
            with use(model, "Model") as pointer, use(stop, "Cancel", "cancel") as flag:
                return new("rz_media_from_tokens", pointer, pointer_to(ids), len(ids), flag)

        return cls(interruptible(made, (stop, model)))

    @classmethod
    def load(cls, model: "Model", file: BinaryIO) -> "Media":
        """Loads media that `save` wrote; needs no encoder."""
        with use(model, "Model") as pointer, reading(file) as callback:
            return cls(new("rz_media_load", pointer, callback, None, None))

    def save(self, file: BinaryIO) -> None:
        """Writes the media; `load` reads them."""
        with self._use() as media, writing(file) as callback:
            status("rz_media_save", media, callback, None, None)

    def step(self, seconds: Optional[float] = None) -> bool:
        """Encodes media of `Encoder.begin` for about this many seconds; None: to the end. True: work remains."""
        us = microseconds(seconds)
        more = bool(interruptible(lambda: self._call("rz_media_step", us) != _c.RZ_DONE, (self._stop, self)))
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
        """32 bytes, equal for equal pixels, parameters and encoder: a cache key."""
        return self.info.hash

    def __len__(self) -> int:
        return self.info.n_rows


class Prompt(Handle):
    """A sequence of tokens and media. Immutable: any number of threads may use it at once."""

    _free = "rz_prompt_free"

    MEDIA_TOKEN: int = _c.RZ_TOKEN_MEDIA
    """Placeholder for a row of media in the tokens of sessions and prompts."""

    def __init__(self, model: "Model", parts: "Iterable[Union[str, Tokens, Media]]", *, bare: bool = False) -> None:
        """`parts`: media, lists of tokens, and texts, which `Model.tokenize` converts; only the first part gets BOS.
        `bare`: omits the model's tokens around and between the rows of media."""
        taken: List[Tuple[Optional["np.ndarray"], Optional[Media]]] = []
        for part in listed(parts, "parts"):
            if isinstance(part, str):
                part = model.tokenize(part, special=not taken)
            taken.append((None, part) if isinstance(part, Media) else (token_ids(part), None))
        array = (_c.rz_part * len(taken))()
        with use(model, "Model") as pointer, use_all((media for _, media in taken), "Media", "parts") as media:
            for part, (ids, _), item in zip(array, taken, media):
                part.media = item
                if ids is not None:
                    part.tokens, part.n_tokens = pointer_to(ids), len(ids)
            made = new("rz_prompt_new", pointer, array, len(taken), flag_of(bare, "bare", _c.RZ_PROMPT_BARE))
        super().__init__(made)

    @classmethod
    def of_chat(cls, model: "Model", messages: Messages, **members: "Unpack[Members]") -> "Prompt":
        """Returns a prompt of messages, up to the beginning of the reply. Content may have parts with media: [{"type":
        "image", "media": media}, {"type": "text", "text": "What is this?"}]. `members` as for `Model.render`."""
        check_options(members, Members)
        request, found = numbered({"messages": messages_of(messages), **checked(members)})
        self = cls.__new__(cls)
        with use(model, "Model") as pointer, use_all(found, "Media", "media") as media:
            flags = _c.RZ_CHAT_ADD_GENERATION_PROMPT
            made = new("rz_prompt_from_chat", pointer, request, len(request), flags, media, len(found), None)
        super(Prompt, self).__init__(made)
        return self

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        with self._use() as prompt:
            return int(library.rz_prompt_len(prompt))

    @property
    def tokens(self) -> List[int]:
        """The tokens of the prompt, with MEDIA_TOKEN for each row of media."""
        return read_ids(lambda *out: self._call("rz_prompt_tokens_into", *out), len(self))


def numbered(value: Any) -> Tuple[bytes, List[Media]]:
    """JSON with an index for each media object, and the list of media."""
    found: List[Media] = []

    def number(value: Any) -> int:
        if not isinstance(value, Media):
            raise TypeError(f"{shown(value)} has no JSON and is no Media")
        found.append(value)
        return len(found) - 1

    return json_of(value, "the conversation", number), found
