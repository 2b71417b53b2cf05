"""Values of Python as the library takes them. What does not fit is an InvalidArgument that names the argument."""

import ctypes
import json
import math
import os
import reprlib
from ctypes import byref, c_uint32
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

import numpy as np

from . import _header as _c
from ._errors import BufferTooSmall, InvalidArgument
from ._header import real, switch

Tokens = Union[Sequence[int], "np.ndarray"]


def token_ids(tokens: Tokens, name: str = "tokens") -> "np.ndarray":
    ids = np.asarray(tokens)
    if ids.ndim != 1:
        raise InvalidArgument(f"{name} are {reprlib.repr(tokens)}; they must be a list of whole numbers")
    if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() > 0xFFFFFFFF):
        raise InvalidArgument(f"{name} are {reprlib.repr(tokens)}; they must be whole numbers from 0 to 4294967295")
    return np.ascontiguousarray(ids, dtype=np.uint32)


def pointer_to(ids: "np.ndarray"):  # type: ignore[no-untyped-def]
    return ids.ctypes.data_as(ctypes.POINTER(c_uint32))


def read_ids(call: Callable[[Any, int, Any], int], capacity: int) -> List[int]:
    """Token ids that a function writes to an array, which is made again where it is too small."""
    while True:
        ids, n = np.empty(max(capacity, 1), dtype=np.uint32), ctypes.c_size_t()
        try:
            call(ids.ctypes.data, len(ids), byref(n))
            return ids[: n.value].tolist()
        except BufferTooSmall:
            capacity = n.value


def microseconds(seconds: Optional[float]) -> int:
    """A time as the library takes one, of which a begun microsecond counts as a whole."""
    if seconds is None:
        return _c.RZ_NO_LIMIT
    if math.isnan(real(seconds, "a time in seconds")):
        raise InvalidArgument("a time in seconds is nan; it must be a number")
    return math.ceil(min(max(seconds, 0.0), 1e12) * 1e6)


def listed(value: Any, name: str) -> List[Any]:
    """A list of what a value gives once; a text is refused, though it can be iterated over."""
    if isinstance(value, (str, bytes)):
        raise InvalidArgument(f"{name} is a text; it must be a list")
    if not isinstance(value, Iterable):
        raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a list")
    return list(value)


def all_of(values: Any, kind: Any, name: str) -> List[Any]:
    """A list of objects of one class."""
    found = listed(values, name)
    for value in found:
        if not isinstance(value, kind):
            raise InvalidArgument(f"{name} has {reprlib.repr(value)}; it must be a list of {kind.__name__}")
    return found


def check_options(options: Iterable[str], kind: Any, *others: str) -> None:
    """Refuses names of options that there are not. `others` are parameters of the call."""
    known = [*kind.__annotations__, *others]
    for name in options:
        if name not in known:
            raise TypeError(f"the option {name} is unknown{_c.nearest(name, known)}")


def numbers_of(group: str) -> Dict[str, int]:
    """The constants of a group of the header by the ends of their names: {"mmap": 2, ...} of "RZ_MODEL_"."""
    return {name[len(group) :].lower(): value for name, value in vars(_c).items() if name.startswith(group)}


def flag_of(value: Any, name: str, bit: int) -> int:
    """The bit of a switch, or 0."""
    return bit if switch(value, name) else 0


def text_of(text: str, name: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidArgument(f"{name} is of type {type(text).__name__}; it must be a str")
    return text.encode()


def floats_of(values: Iterable[Any], name: str) -> Any:
    numbers = [real(value, name) for value in values]
    return (ctypes.c_float * len(numbers))(*numbers)


def string_of(text: str, name: str) -> bytes:
    data = text_of(text, name)
    if b"\0" in data:
        raise InvalidArgument(f"{name} contains a NUL")
    return data


def path_of(path: Union[str, "os.PathLike[str]"]) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgument("a path contains a NUL")
    return name


def json_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
