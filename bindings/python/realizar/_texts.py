"""Messages, the grammars of what is written, and replies taken apart."""

import json
import reprlib
from ctypes import byref, c_uint32
from typing import TYPE_CHECKING, Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union

from . import _header as _c
from ._errors import InvalidArgument
from ._header import choice, whole
from ._library import Handle, sized
from ._values import Tokens, check_options, flag_of, json_of, listed, numbers_of, pointer_to, token_ids

if TYPE_CHECKING:
    from typing_extensions import Unpack

Message = Mapping[str, Any]
Messages = Union[str, Sequence[Message]]


class Members(TypedDict, total=False):
    """Members of a request beside its messages."""

    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]
    response_format: Any


def request_of(messages: Messages, members: Mapping[str, Any]) -> bytes:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    check_options(members, Members)
    return json_of({"messages": listed(messages, "messages"), **members}).encode()


def set_members(params: Any, **members: "Unpack[Members]") -> None:
    """Tools and variables of one reply; None: those of the conversation."""
    given = {name: value for name, value in members.items() if value is not None}
    if given:
        params.json = json_of(given).encode()
        params.json_len = len(params.json)
_GRAMMARS = numbers_of("RZ_GRAMMAR_")
_WHITESPACE = _GRAMMARS.pop("flag_whitespace")
del _GRAMMARS["flag_best_effort"]


def grammar_of(kind: str, text: Any = "", whitespace: bool = False) -> Tuple[int, int, bytes]:
    number = choice(kind, "the kind of a grammar", _GRAMMARS)
    if kind in ("regex", "lark", "gbnf") and not isinstance(text, str):
        raise InvalidArgument(f"the grammar is {reprlib.repr(text)}; it must be a text, because its kind is {kind}")
    return number, flag_of(whitespace, "whitespace", _WHITESPACE), (text if isinstance(text, str) else json_of(text)).encode()


class Grammar(Handle):
    """What may be written. Immutable: any number of jobs and replies may use it at once."""

    _free = "rz_grammar_free"


class TextStream(Handle):
    """Turns tokens into text as they come, holding back the bytes of an unfinished character."""

    _free = "rz_textstream_free"

    def follow(self, tokens: Tokens) -> None:
        """Puts tokens ahead of those to come, such as a prompt, without their text."""
        ids = token_ids(tokens)
        self._call("rz_textstream_follow", pointer_to(ids), len(ids))

    def push(self, token: int) -> str:
        """Adds a token, and gives the text that is complete with it, often none."""
        return sized(lambda *out: self._call("rz_textstream_push_into", whole(token, "token"), *out)).decode()

    def flush(self) -> str:
        """Ends the text, and gives the rest of it."""
        return sized(lambda *out: self._call("rz_textstream_flush_into", *out)).decode()
_EVENTS = {value: name for name, value in numbers_of("RZ_CHAT_EVENT_").items() if not name.startswith("flag_")}


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

    _free = "rz_chat_parser_free"

    def push(self, token: int) -> List[Part]:
        """Adds a token, and gives the parts that it completes, often none."""
        self._call("rz_chat_parser_push", whole(token, "token"))
        return read_parts("rz_chat_parser_next_into", self)

    def end(self) -> List[Part]:
        """Ends the reply, and gives the rest of it."""
        self._call("rz_chat_parser_end")
        return read_parts("rz_chat_parser_next_into", self)


def read_parts(next_into: str, handle: Handle) -> List[Part]:
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
