"""Converts Python values for the library. A value out of range is an InvalidArgument that names the argument."""

import ctypes
import json
import math
import os
import reprlib
from ctypes import byref, c_float, c_uint32
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar, Union

import numpy as np

from . import _header as _c
from ._errors import BufferTooSmall, InvalidArgument
from ._failures import WrongType
from ._header import real, switch, unknown_option

Tokens = Union[Sequence[int], "np.ndarray"]
_Told = TypeVar("_Told")


def shown(value: Any) -> str:
    """A value for an error message: a number as given, otherwise only the type, because texts may be private."""
    if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
        return reprlib.repr(value)
    return "bytes" if isinstance(value, bytes) else an(type(value).__name__)


def an(kind: str) -> str:
    """The name of a class with its article."""
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"


def wrong_type(value: Any, name: str, wanted: str) -> WrongType:
    """The error for an argument of another type than it must be."""
    return WrongType(f"{name} is {shown(value)}; it must be {wanted}")


def token_ids(tokens: Tokens, name: str = "tokens") -> "np.ndarray":
    """Tokens as an array. Rejects bytes and booleans, which numpy accepts as numbers."""
    is_bytes = isinstance(tokens, (str, bytes, bytearray)) or isinstance(tokens, memoryview) and tokens.format in ("B", "b", "c")
    ids = np.asarray(None if is_bytes or isinstance(tokens, np.ma.MaskedArray) else tokens)
    if ids.ndim != 1:
        raise wrong_type(tokens, name, "a list of whole numbers")
    is_switch = isinstance(tokens, (list, tuple)) and not {bool, np.bool_}.isdisjoint(map(type, tokens))
    if ids.size and (ids.dtype.kind not in "iu" or is_switch or ids.min() < 0 or ids.max() > 0xFFFFFFFF):
        raise InvalidArgument(f"{name} has {reprlib.repr(tokens)}; it must be a list of whole numbers from 0 to 4294967295")
    return np.ascontiguousarray(ids, dtype=np.uint32)


def pointer_to(ids: "np.ndarray") -> Any:
    return ids.ctypes.data_as(ctypes.POINTER(c_uint32))


def read_ids(call: Callable[[Any, int, Any], int], capacity: int) -> List[int]:
    """Token ids that a function writes to an array, which is reallocated if it is too small."""
    while True:
        ids, n = np.empty(max(capacity, 1), dtype=np.uint32), ctypes.c_size_t()
        try:
            call(ids.ctypes.data, len(ids), byref(n))
            return list(ids[: n.value].tolist())
        except BufferTooSmall:
            capacity = n.value


def microseconds(seconds: Optional[float], name: str = "seconds") -> int:
    """A time in microseconds, rounded up; None: no limit."""
    return _c.RZ_NO_LIMIT if seconds is None else math.ceil(min(max(real(seconds, name), 0.0), 1e12) * 1e6)


def listed(value: Any, name: str, of: str = "") -> List[Any]:
    """A list of the elements of an iterable. Rejects texts and dicts."""
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        raise wrong_type(value, name, f"a list{of and ' of '}{of}")
    return list(value)


def all_of(values: Any, kind: type, name: str) -> List[Any]:
    """A list of objects of one class."""
    found = listed(values, name, kind.__name__)
    for i, value in enumerate(found):
        if not isinstance(value, kind):
            raise wrong_type(value, f"{name}[{i}]", an(kind.__name__))
    return found


def check_options(options: Iterable[str], kind: Any, *others: str) -> None:
    """Rejects unknown option names. `others` are parameters of the call."""
    known = [*kind.__annotations__, *others]
    for name in options:
        if name not in known:
            raise unknown_option(name, known)


def numbers_of(group: str) -> Dict[str, int]:
    """The constants with a prefix, by the rest of their names: {"mmap": 2, ...} for "RZ_MODEL_"."""
    return {name[len(group) :].lower(): value for name, value in vars(_c).items() if name.startswith(group)}


def told(kind: Callable[..., _Told], struct: Any, /, **own: Any) -> _Told:
    """A named tuple of the fields of a struct; `own`: members that differ from the struct's."""
    values = {}
    for name in kind._fields:  # type: ignore[attr-defined]
        value = own[name] if name in own else getattr(struct, name)
        values[name] = value.decode() if isinstance(value, bytes) and name not in own else value
    return kind(**values)


def flag_of(value: Any, name: str, bit: int) -> int:
    """The bit of a boolean option, or 0."""
    return bit if switch(value, name) else 0


def text_of(text: str, name: str) -> bytes:
    """The bytes of a text."""
    if not isinstance(text, str):
        raise wrong_type(text, name, "a str")
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise InvalidArgument(f"{name} has half of a surrogate pair at {e.start}; it must be a text of Unicode") from None


def string_of(text: str, name: str) -> bytes:
    """The bytes of a text that ends with a NUL in C."""
    data = text_of(text, name)
    if b"\0" in data:
        raise InvalidArgument(f"{name} has a NUL at {data.index(0)}; it must be a text without one")
    return data


def path_of(path: "Union[str, os.PathLike[str]]", name: str = "path", wanted: str = "a str or an os.PathLike") -> bytes:
    """The bytes of a path."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise wrong_type(path, name, wanted)
    data = os.fsencode(path)
    if b"\0" in data:
        raise InvalidArgument(f"{name} has a NUL at {data.index(0)}; it must be a path without one")
    return data


def floats_of(values: Iterable[Any], name: str) -> Any:
    numbers = [real(value, f"{name}[{i}]", c_float) for i, value in enumerate(values)]
    return (c_float * len(numbers))(*numbers)


def function_of(value: Any, name: str, of: str) -> Any:
    """A function of the caller, or None."""
    if value is not None and not callable(value):
        raise wrong_type(value, name, f"a function of {of}")
    return value


def json_of(value: Any, name: str, default: Optional[Callable[[Any], Any]] = None) -> bytes:
    """A value as JSON. `default` converts values that JSON lacks."""

    def other(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, np.generic):
            return value.item()
        if default is not None:
            return default(value)
        raise TypeError(f"{shown(value)} has no JSON")

    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=other).encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} has half of a surrogate pair; it must be a text of Unicode") from None
    except TypeError as e:
        raise WrongType(f"{name} has a value that is not of JSON: {e}; it must be a value of JSON") from None
    except RecursionError:
        raise InvalidArgument(f"{name} is nested too deeply; it must be a value of JSON") from None
    except ValueError as e:
        what = "itself" if "ircular" in str(e) else "NaN or an infinity"
        raise InvalidArgument(f"{name} has {what} as a value; it must be a value of JSON") from None
