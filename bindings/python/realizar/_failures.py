"""The errors of calls: errors of the library, in Python's terms, and errors found before a call."""

import errno
import re

from . import _header as _c
from ._errors import BY_CODE, Error, FileError, InvalidArgument


class WrongType(InvalidArgument, TypeError):
    """An argument is of another type than it must be."""


class UnknownOption(InvalidArgument, TypeError):
    """There is no option of this name."""


class Closed(InvalidArgument):
    """Something was used after `close`, or was made of a model that is closed."""


class MissingFile(FileError, FileNotFoundError):
    """There is no file of this name."""


def error_of(code: int, name: str, message: str, system_code: int = 0, needed: int = 0) -> Error:
    """The exception for a status."""
    is_missing = code == _c.RZ_ERR_IO and system_code == errno.ENOENT
    error = (MissingFile if is_missing else BY_CODE.get(code, Error))(_in_python(message))
    error.code, error.name, error.system_code, error.needed = code, name, system_code, needed
    if isinstance(error, OSError) and system_code:
        error.errno = system_code
    return error


# What the library's messages name by other words than options and methods do.
_NAMES = {
    "grammar_kind": "grammar", "grammar_flags": "whitespace", "compiled_grammar": "grammar", "biases": "logit_bias",
    "device_split": "shares", "continue": "resume", "rz_sampler_params": "Sampling", "rz_media_step": "Media.step",
    "rz_embed_into": "Model.embed", "rz_cache_truncate": "Session.truncate", "rz_media_from_tokens": "Media.from_tokens",
    "rz_conversation_add": "Conversation.add",
}  # fmt: skip
_SWITCH = re.compile(r"\bRZ_(?:MODEL|SAMPLER|REPLY|GRAMMAR_FLAG)_([A-Z]\w*)")
_CHOICE = re.compile(r"\bRZ_(?:TYPE|GRAMMAR|PLACE|MEDIA|DEVICE|DRAFT|POOLING|REASONING|OVERFLOW)_([A-Z]\w*)")
_OPTION = re.compile(r"\brz_\w+\.(\w+)|\brz_\w+")


def _in_python(message: str) -> str:
    """A message of the library that names options and their values as Python has them."""

    def option(found: "re.Match[str]") -> str:
        name = found[1] or found[0]
        return _NAMES.get(name, "the options" if name.endswith("_params") else name)

    message = _SWITCH.sub(lambda found: _NAMES.get(found[1].lower(), found[1].lower()), message)
    message = _CHOICE.sub(lambda found: f'"{found[1].lower()}"', message)
    return _OPTION.sub(option, message)
