"""Conversations: their messages, KV cache and current reply."""

import ctypes
import json
from contextlib import suppress
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from . import _header as _c
from . import _options as _o
from ._errors import Busy, Cancelled, DeadlineExceeded, Error, InvalidArgument
from ._failures import Closed
from ._handles import reading, use, use_all, use_or_none, writing
from ._header import choice, whole
from ._library import Handle, interruptible, new, sized, status
from ._media import Media, numbered
from ._options import CacheType, Reasoning, Sampling
from ._results import ConversationInfo
from ._runtime import Cancel
from ._sessions import ENDS, Adapters, Draft, TokenLogprobs, read_logprobs, sampler_params, scales_of, set_draft, set_stops
from ._sessions import Store
from ._texts import Grammar, GrammarKind, Members, Message, Part, grammar_of, messages_of, read_parts, request_of, set_members
from ._values import all_of, check_options, microseconds, numbers_of, string_of, text_of, told, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._models import Model

_OVERFLOWS = numbers_of("RZ_OVERFLOW_")


_STATES = {value: name for name, value in numbers_of("RZ_STATE_").items()}
_STOPPED = {_c.RZ_ERR_CANCELLED: "cancelled", _c.RZ_ERR_DEADLINE: "deadline"}


class ReadOptions(TypedDict, total=False):
    """Options of `Conversation.read`."""

    reasoning: Reasoning
    priority: int
    cancel: Optional[Cancel]
    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]


class ReplyOptions(_o.ReplyOptions, total=False):
    """Options of a reply, as for `Conversation.begin`."""

    grammar: Union[None, Grammar, Tuple[GrammarKind, Any]]
    whitespace: bool
    stops: Sequence[str]
    draft: Draft
    cancel: Optional[Cancel]
    tools: Optional[Sequence[Any]]
    tool_choice: Any
    parallel_tool_calls: Optional[bool]
    variables: Optional[Mapping[str, Any]]
class _GivenUp(InvalidArgument):
    """A change of the messages gave the reply up; the messages must not be restored."""


class Conversation(Handle):
    """Messages with a model, their KV cache, and the current reply."""

    _free = "rz_conversation_free"

    def __init__(
        self, model: "Model", system: Optional[str] = None, *, messages: Sequence[Message] = (), capacity: int = 0, k_type: CacheType = "f16",
        v_type: CacheType = "f16", overflow: "Literal['fail', 'forget']" = "fail", adapters: Adapters = (), store: Optional[Store] = None, cancel: Optional[Cancel] = None,
        **members: "Unpack[Members]",
    ) -> None:  # fmt: skip
        """Begins with a system message and other messages. `capacity` and types as for `Model.session`. `overflow`: if
        messages do not fit, a reply fails with ContextFull ("fail") or drops the oldest turns ("forget"). `adapters`:
        LoRA adapters, a list or a dict with scales. `store`: prefix cache. `cancel` stops all computation. `members`:
        tools=[...], tool_choice="required", parallel_tool_calls=False, variables={...} of the chat template."""
        others = ("system", "messages", "capacity", "k_type", "v_type", "overflow", "adapters", "store", "cancel")
        check_options(members, Members, *others)
        first = [] if system is None else [{"role": "system", "content": text_of(system, "system").decode()}]
        request, scales = request_of([*first, *messages_of(messages, or_text=False)], members), scales_of(adapters)
        params = _c.rz_conversation_params(overflow=choice(overflow, "overflow", _OVERFLOWS), n_adapters=len(scales))
        params.json, params.json_len = request, len(request)
        with use_all(adapters, "Adapter", "adapters") as pointers:
            if len(scales):
                params.adapters, params.scales = pointers, scales
            self._make("rz_conversation_new", model, params, capacity, k_type, v_type, store, cancel)

    @classmethod
    def load(
        cls, model: "Model", file: BinaryIO, *, capacity: int = 0, k_type: CacheType = "f16", v_type: CacheType = "f16",
        store: Optional[Store] = None, cancel: Optional[Cancel] = None,
    ) -> "Conversation":  # fmt: skip
        """Loads the conversation that `save` wrote; it continues as the saved one would have."""
        self = cls.__new__(cls)
        with reading(file) as callback:
            self._make("rz_conversation_load", model, _c.rz_conversation_params(), capacity, k_type, v_type, store, cancel, callback, None)
        return self

    def _make(
        self, function: str, model: "Model", params: Any, capacity: int, k_type: CacheType, v_type: CacheType, store: Optional[Store],
        cancel: Optional[Cancel], *arguments: Any,
    ) -> None:  # fmt: skip
        cache = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type)
        params.cache = ctypes.pointer(cache)
        with use(model, "Model") as pointer, use_or_none(store, "Store") as params.store, use_or_none(cancel, "Cancel") as params.cancel:
            self._own(model, new(function, pointer, byref(params), *arguments))

    def _own(self, model: "Model", pointer: c_void_p) -> None:
        super().__init__(pointer, model)
        self.model = model
        # Ends steps that a signal interrupts.
        self._stop, self._row, self._reply = Cancel(), 1, 0

    def add(self, messages: Union[str, Message, Sequence[Message]], role: str = "user") -> None:
        """Appends a text of a role, a message, or a list of messages; computes nothing. Content may have parts with
        media, as in `Prompt.of_chat`. The reply fails if the chat template leaves out an image."""
        if isinstance(messages, str):
            text = text_of(messages, "messages")
            self._change("rz_conversation_add_text", string_of(role, "role"), text, len(text))
        else:
            data, found = numbered(messages if isinstance(messages, Mapping) else messages_of(messages))
            with use_all(found, "Media", "media") as media:
                self._change("rz_conversation_add", data, len(data), media, len(found))

    def _change(self, name: str, *arguments: Any) -> None:
        """Makes a call that gives an unfinished reply up, and notifies an iteration over it."""
        self._call(name, *arguments)
        self._reply += 1

    @property
    def media(self) -> List[Media]:
        """The media of the messages, by the index in content parts."""
        with self._use() as conversation:
            return [Media(new("rz_conversation_media", conversation, i)) for i in range(self.info.n_media)]

    def begin(
        self, sampling: Optional[Sampling] = None, *, max_tokens: int = 0, grammar: Union[None, "Grammar", Tuple[GrammarKind, Any]] = None,
        whitespace: bool = False, stops: Sequence[str] = (), reasoning: Reasoning = "model", reasoning_tokens: int = 0,
        draft: "Draft" = None, draft_max: int = 0, logprobs: Optional[int] = None, keep: bool = False, resume: bool = False,
        priority: int = 0, cancel: Optional[Cancel] = None, tools: Optional[Sequence[Any]] = None, tool_choice: Any = None,
        parallel_tool_calls: Optional[bool] = None, variables: Optional[Mapping[str, Any]] = None,
    ) -> None:  # fmt: skip
        """Begins a reply, which `step` computes. An unfinished one is discarded.

        `sampling`: None: the recommended sampling parameters, or else greedy. `max_tokens` includes reasoning; 0: what
        fits into the KV cache. `grammar`: a kind and a text for the content, as for `Model.grammar`: ("json_schema",
        {...}), or a compiled Grammar; a "tools" grammar is for the whole reply. `reasoning`: "off", "on", or the
        template's default ("model"); `reasoning_tokens`: its maximum. `draft`, `draft_max`, `logprobs`, `priority` as
        for `Session.job`.

        `keep`: if the reply is given up, its text becomes a message. `resume` continues the last message, a truncated
        reply; parts are only the new ones. `cancel` pauses the steps of this reply. `tools`, `tool_choice`,
        `parallel_tool_calls` replace the conversation's for this reply ([]: no tools); `variables` of the chat template
        are added to the conversation's."""
        params = _c.rz_reply_params(max_tokens=max_tokens, keep=keep, resume=resume, reasoning=reasoning, reasoning_tokens=reasoning_tokens,
                                    draft_max=draft_max, logprobs=logprobs, priority=priority)  # fmt: skip
        if sampling is not None:
            params.sampler = ctypes.pointer(sampler_params(sampling))
        compiled = grammar if isinstance(grammar, Grammar) else None
        if grammar is not None and not isinstance(grammar, Grammar):
            if not isinstance(grammar, (tuple, list)) or len(grammar) != 2:
                raise wrong_type(grammar, "grammar", "a Grammar, or a pair of a kind and a text")
            params.grammar_kind, params.grammar_flags, params.grammar = grammar_of(*grammar, whitespace=whitespace)
            params.grammar_len = len(params.grammar)
        set_stops(params, stops)
        set_members(params, tools=tools, tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, variables=variables)
        stop = cancel if cancel is not None else Cancel()
        with use(stop, "Cancel") as params.cancel, use_or_none(set_draft(params, draft), "Model") as params.draft_model, \
                use_or_none(compiled, "Grammar") as params.compiled_grammar:  # fmt: skip
            self._call("rz_conversation_reply", byref(params))
        self._stop, self._row, self._reply = stop, min(logprobs or 0, self.model.info.vocab_size) + 1, self._reply + 1

    def begin_read(
        self, *, reasoning: Reasoning = "model", priority: int = 0, cancel: Optional[Cancel] = None, tools: Optional[Sequence[Any]] = None,
        tool_choice: Any = None, parallel_tool_calls: Optional[bool] = None, variables: Optional[Mapping[str, Any]] = None,
    ) -> None:  # fmt: skip
        """Begins a prefill of the messages, which lowers the next reply's time to first token. `step` does the work; no
        message is added. Pass the options of the next reply, as for `begin`."""
        params = _c.rz_reply_params(reasoning=reasoning, priority=priority)
        set_members(params, tools=tools, tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, variables=variables)
        stop = cancel if cancel is not None else Cancel()
        with use(stop, "Cancel") as params.cancel:
            self._call("rz_conversation_read", byref(params))
        self._stop, self._row, self._reply = stop, 1, self._reply + 1

    def read(self, **options: "Unpack[ReadOptions]") -> None:
        """Prefills all messages; options as for `begin_read`."""
        self.begin_read(**options)
        try:
            while self.step():
                pass
        except BaseException:
            with suppress(Error):  # another call may be at work, or the conversation is closed
                self.add([])
            raise

    def step(self, seconds: Optional[float] = None) -> bool:
        """Computes the reply for about this many seconds; None: until it has generated a token. True: work remains."""
        us = microseconds(seconds)
        return bool(interruptible(lambda: self._call("rz_conversation_step", us) != _c.RZ_DONE, (self._stop, self)))

    def parts(self) -> List[Part]:
        """Returns the parts of the reply since the last call."""
        return read_parts("rz_conversation_next_into", self)

    def reply(self, sampling: Optional[Sampling] = None, **options: "Unpack[ReplyOptions]") -> Iterator[Part]:
        """Yields the parts of a reply to the messages: reasoning, content, tool calls, the end. Options as for `begin`.
        An iteration that ends early gives the reply up."""
        self.begin(sampling, **options)
        return self._made(self._reply)

    def _made(self, reply: int) -> Iterator[Part]:
        going = True
        try:
            while going:
                if reply != self._reply:
                    raise _GivenUp("the reply is given up; the conversation has gone on without it")
                going = self.step()
                yield from self.parts()
        except BaseException:
            with suppress(Error):  # another call may be at work, or the conversation is closed
                if reply == self._reply:
                    self.add([])  # gives it up
            raise

    def stop(self) -> None:
        """Ends an unfinished reply at once; its text becomes a message, with or without `keep`."""
        self._call("rz_conversation_stop")

    def say(self, text: str, sampling: Optional[Sampling] = None, **options: "Unpack[ReplyOptions]") -> Iterator[str]:
        """Adds a user message and yields the content of the reply, piece by piece; options as for `begin`. If the
        iteration ends early or is cancelled, the text so far stays (`keep`); any other failure restores the
        messages."""
        text_of(text, "text")
        self.add([])  # gives an unfinished reply up
        n = self.info.n_messages
        self.add(text)
        try:
            kept: ReplyOptions = {"keep": True}
            kept.update(options)
            parts = self.reply(sampling, **kept)
        except BaseException:
            self.rewind(n)
            raise
        return self._content(parts, n)

    def _content(self, parts: Iterator[Part], n: int) -> Iterator[str]:
        try:
            for part in parts:
                if part.kind == "content":
                    yield part.text
        except (Cancelled, DeadlineExceeded, Busy, Closed, _GivenUp):
            raise
        except Error:
            self.rewind(n)
            raise

    def logprobs(self) -> List[TokenLogprobs]:
        """Returns the content tokens since the last call with their log probabilities, for a reply with `logprobs`."""
        return read_logprobs("rz_conversation_logprobs_into", self, self._row)

    def messages(self, first: int = 0) -> List[Dict[str, Any]]:
        """Returns the messages from index `first` on, including finished replies."""
        text = sized(lambda *out: self._call("rz_conversation_json_into", whole(first, "first"), *out), 4096)
        return json.loads(text)  # type: ignore[no-any-return]

    def rewind(self, n_messages: int) -> None:
        """Removes the messages after the first `n`, to edit or to reply again."""
        self._change("rz_conversation_rewind", whole(n_messages, "n_messages"))

    def release(self) -> None:
        """Frees the KV cache, as for a program in the background; the next reply computes it again."""
        self._call("rz_conversation_release")

    def set_capacity(self, capacity: int) -> None:
        """Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes all again."""
        self._call("rz_conversation_capacity_set", whole(capacity, "capacity"))

    def set_overflow(self, overflow: "Literal['fail', 'forget']") -> None:
        """Sets what later replies do if messages do not fit: "fail" or "forget"."""
        self._call("rz_conversation_overflow_set", choice(overflow, "overflow", _OVERFLOWS))

    def set_adapters(self, adapters: Adapters) -> None:
        """Sets the LoRA adapters (with scales) for later replies, or none; clears the KV cache."""
        scales = scales_of(adapters)
        with use_all(adapters, "Adapter", "adapters") as pointers:
            self._call("rz_conversation_adapters_set", pointers, scales, len(scales))

    def set_store(self, store: Optional[Store]) -> None:
        """Sets the prefix cache for later replies, or none."""
        with use_or_none(store, "Store") as pointer:
            self._call("rz_conversation_store_set", pointer)

    def set_cancel(self, cancel: Optional[Cancel]) -> None:
        """Sets the `Cancel` for all later computation, instead of the conversation's; None: none."""
        with use_or_none(cancel, "Cancel") as pointer:
            self._call("rz_conversation_cancel_set", pointer)

    def fork(self) -> "Conversation":
        """Returns a copy of the conversation, which shares the KV cache copy-on-write."""
        other = type(self).__new__(type(self))
        with self._use() as conversation:
            other._own(self.model, new("rz_conversation_fork", conversation))
        return other

    def save(self, file: BinaryIO) -> None:
        """Writes the conversation with its KV cache; `load` reads it."""
        with self._use() as conversation, writing(file) as callback:
            status("rz_conversation_save", conversation, callback, None, None)

    @property
    def info(self) -> ConversationInfo:
        """Messages, the state of the last reply, tokens and times."""
        info = _c.rz_conversation_info()
        self._call("rz_conversation_info_get", byref(info))
        own = {"state": _STATES.get(info.state), "end": ENDS.get(info.end_reason), "stopped": _STOPPED.get(info.stopped)}
        return told(ConversationInfo, info, **own)

    @property
    def error(self) -> Optional[Error]:
        """The error of a reply that ended as "failed"; `step` raises it, `step_conversations` does not."""
        try:
            self._call("rz_conversation_error")
        except Error as error:
            return error
        return None


def step_conversations(conversations: Sequence[Conversation], seconds: Optional[float] = None) -> bool:
    """`Conversation.step` for several conversations of one model (continuous batching). A failed reply does
    not affect others; `Conversation.error` is its error."""
    us, conversations = microseconds(seconds), all_of(conversations, Conversation, "conversations")

    def call() -> bool:
        with use_all(conversations, "Conversation", "conversations") as pointers:
            return status("rz_conversations_step", pointers, len(conversations), us) != _c.RZ_DONE

    return bool(interruptible(call, *((conversation._stop, conversation) for conversation in conversations)))
