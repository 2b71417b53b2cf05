"""realizar: language models inside your own process.

import realizar conversation = realizar.Conversation(realizar.Model("model.gguf")) for piece in conversation.say("What
is the capital of Japan?"): print(piece, end="", flush=True)

Calls give the interpreter's lock up while they compute. A Model may be used by any number of threads at once, a
Conversation or Session by one at a time: a second one gets `Busy` at once. Everything with `close` is a context
manager, and is freed when it is forgotten, too. Ctrl-C, and whatever else a signal's handler raises, ends what the main
thread computes within a tenth of a second; conversations, sessions and jobs go on afterwards."""

from ._conversations import Conversation, ReadOptions, ReplyOptions, step_conversations
from . import _errors
from ._errors import *  # noqa: F403 - each status has an exception
from ._failures import Closed
from ._library import library
from ._loading import LoadOptions, Placement, Progress, Source, fetch, plan
from ._media import Encoder, EncoderOptions, Media, Prompt
from ._models import Capability, Model
from ._options import CacheType, Filter, Pooling, Reasoning, Sampling, ElementType
from ._results import ConversationInfo, Device, EncoderInfo, EncoderPlan, MediaInfo, ModelInfo, Phase, Plan, PlanDevice, RuntimeInfo, StoreInfo, Work
from ._runtime import Cancel, Runtime, devices
from ._sessions import (
    Adapter, Adapters, Draft, Job, JobOptions, Sampler, Session, Store, TokenLogprobs, decode_batch,
    step_jobs,
)  # fmt: skip
from ._texts import ChatParser, Grammar, GrammarKind, Members, Message, Messages, Part, TextStream
from ._values import Tokens

__all__ = [
    "Adapter", "Cancel", "ChatParser", "Conversation", "ConversationInfo", "Device", "Encoder", "EncoderInfo", "EncoderOptions", "EncoderPlan",
    "Grammar", "Job", "JobOptions", "LoadOptions", "Media", "MediaInfo", "Members", "Model", "ModelInfo", "Part", "Phase", "Placement", "Plan",
    "PlanDevice", "Prompt", "ReadOptions", "ReplyOptions", "Runtime", "RuntimeInfo", "Sampler", "Sampling", "Session", "Store",
    "StoreInfo", "TextStream", "TokenLogprobs", "Work", "decode_batch", "devices", "fetch", "plan", "step_conversations", "step_jobs",
    "Closed", "Adapters", "CacheType", "Capability", "Draft", "Filter", "GrammarKind", "Message", "Messages", "Pooling", "Progress", "Reasoning", "Source", "Tokens",
    "ElementType",
]  # fmt: skip
__all__ += _errors.__all__

__version__ = library.rz_version().decode()
