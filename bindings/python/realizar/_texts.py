"""Messages, grammars and reply parsers."""

from ctypes import byref, c_uint32
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union

from . import _header as _c
from ._header import choice, switch, whole
from ._library import Handle, sized
from ._values import Tokens, check_options, flag_of, json_of, listed, numbers_of, pointer_to, text_of, token_ids, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Unpack

Message = Mapping[str, Any]
Messages = Union[str, Sequence[Message]]
GrammarKind = Literal["json_schema", "regex", "lark", "gbnf", "json", "choices", "tools"]


class Members(TypedDict, total=False):
    """Members of a request in addition to its messages."""

    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]
    response_format: Any


def checked(members: Mapping[str, Any]) -> Dict[str, Any]:
    """The given members, with checked types."""
    given = {name: value for name, value in members.items() if value is not None}
    for i, tool in enumerate(listed(given.get("tools", ()), "tools", "tools")):
        if not isinstance(tool, Mapping):
            raise wrong_type(tool, f"tools[{i}]", "a dict")
    for name, kinds, wanted in _TYPES:
        if not isinstance(given.get(name, kinds[0]()), kinds):
            raise wrong_type(given[name], name, wanted)
    switch(given.get("parallel_tool_calls", False), "parallel_tool_calls")
    return given


_TYPES: Sequence[Tuple[str, Tuple[Any, ...], str]] = (
    ("tool_choice", (str, Mapping), 'a str ("auto", "none", "required") or a dict that names a function'),
    ("variables", (dict, Mapping), "a dict"),
    ("response_format", (dict, Mapping), "a dict"),
)


def messages_of(messages: Any, or_text: bool = True) -> List[Any]:
    """A list of messages. `or_text`: a text is one message of the user."""
    if or_text and isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if isinstance(messages, (str, bytes, bytearray, Mapping)) or not isinstance(messages, Iterable):
        raise wrong_type(messages, "messages", f"{'a str or ' * or_text}a list of dicts with role and content")
    found = list(messages)
    for i, message in enumerate(found):
        if not isinstance(message, Mapping):
            raise wrong_type(message, f"messages[{i}]", "a dict with role and content")
    return found


def request_of(messages: Messages, members: Mapping[str, Any]) -> bytes:
    """Returns the JSON of messages and other members of a request."""
    check_options(members, Members)
    return json_of({"messages": messages_of(messages), **checked(members)}, "the conversation")


def set_members(params: Any, **members: "Unpack[Members]") -> None:
    """Tools and variables of one reply; None: those of the conversation."""
    given = checked(members)
    if given:
        params.json = json_of(given, "the reply")
        params.json_len = len(params.json)


_GRAMMARS = numbers_of("RZ_GRAMMAR_")
_WHITESPACE = _GRAMMARS.pop("flag_whitespace")
del _GRAMMARS["flag_best_effort"]


def grammar_of(kind: str, text: Any = "", whitespace: bool = False) -> Tuple[int, int, bytes]:
    """The kind, the flags and the text of a grammar."""
    number = choice(kind, "the kind of grammar", _GRAMMARS)
    if kind in ("regex", "lark", "gbnf") and not isinstance(text, str):
        raise wrong_type(text, "grammar", f"a str, because its kind is {kind}")
    if kind == "choices" and not isinstance(text, str):
        text = [text_of(one, f"grammar[{i}]").decode() for i, one in enumerate(listed(text, "grammar", "str"))]
    data = text_of(text, "grammar") if isinstance(text, str) else json_of(text, "grammar")
    return number, flag_of(whitespace, "whitespace", _WHITESPACE), data


class Grammar(Handle):
    """A compiled grammar. Immutable: any number of jobs and replies may use it at once."""

    _free = "rz_grammar_free"


class TextStream(Handle):
    """Converts tokens to text as they are generated; holds back the bytes of an incomplete character."""

    _free = "rz_textstream_free"

    def follow(self, tokens: Tokens) -> None:
        """Sets the tokens before the next ones, such as a prompt, without returning their text."""
        ids = token_ids(tokens)
        self._call("rz_textstream_follow", pointer_to(ids), len(ids))

    def push(self, token: int) -> str:
        """Adds a token and returns the text that it completes, often empty."""
        return sized(lambda *out: self._call("rz_textstream_push_into", whole(token, "token"), *out)).decode()

    def flush(self) -> str:
        """Ends the text and returns the rest."""
        return sized(lambda *out: self._call("rz_textstream_flush_into", *out)).decode()
_EVENTS = {value: name for name, value in numbers_of("RZ_CHAT_EVENT_").items() if not name.startswith("flag_")}


class Part(NamedTuple):
    """A piece of a reply."""

    kind: str
    """ "reasoning", "content", "tool_id" (which the message has too), "tool_name", "tool_arguments" (a piece of a JSON
    object), or "end". A call begins with its id."""
    call: int
    """Index of the tool call that an id, a name or arguments belong to."""
    text: str
    unparsed: bool
    """True for content that begins like a tool call but is none; with "end": there was some, or an incomplete call."""


class ChatParser(Handle):
    """Parses a reply token by token: reasoning, content, tool calls."""

    _free = "rz_chat_parser_free"

    def push(self, token: int) -> List[Part]:
        """Adds a token and returns the parts that it completes, often none."""
        self._call("rz_chat_parser_push", whole(token, "token"))
        return read_parts("rz_chat_parser_next_into", self)

    def end(self) -> List[Part]:
        """Ends the reply and returns the rest."""
        self._call("rz_chat_parser_end")
        return read_parts("rz_chat_parser_next_into", self)


def read_parts(next_into: str, handle: Handle) -> List[Part]:
    """The pending parts of a parser or a job."""
    parts: List[Part] = []
    kind, flags, index = c_uint32(), c_uint32(), c_uint32()
    while True:
        kind.value = 0
        text = sized(lambda *out: handle._call(next_into, byref(kind), byref(flags), byref(index), *out))
        if kind.value == 0:
            return parts
        unparsed = flags.value & _c.RZ_CHAT_EVENT_FLAG_UNPARSED != 0
        parts.append(Part(_EVENTS[kind.value], index.value, text.decode(), unparsed))
