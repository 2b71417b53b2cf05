"""Sessions, jobs, samplers and prefix caches."""

import ctypes
import os
from ctypes import Array, byref, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any, BinaryIO, Iterator, List, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _header as _c
from . import _options as _o
from ._errors import Error, InvalidArgument
from ._handles import use, use_all, use_or_none, writing
from ._header import choice, real, whole
from ._library import Handle, interruptible, is_a, library, new, sized, status
from ._media import Prompt
from ._options import CacheType, Sampling
from ._results import StoreInfo
from ._runtime import Cancel
from ._texts import Grammar
from ._values import Tokens, all_of, floats_of, listed, microseconds, numbers_of, path_of, pointer_to, read_ids, shown, string_of, token_ids, told, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._models import Model

_FILTERS = numbers_of("RZ_FILTER_")


def _sequences(all: Sequence[Sequence[int]]) -> "Array[_c.rz_token_sequence]":
    tokens: List[Any] = [(c_uint32 * len(one))(*one.tolist()) for one in map(token_ids, all)]
    return (_c.rz_token_sequence * len(tokens))(*(_c.rz_token_sequence(one, len(one)) for one in tokens))


class Sampler(Handle):
    """Samples tokens, with its own random number generator: equal seeds give equal tokens."""

    _free = "rz_sampler_free"

    def __init__(self, sampling: Sampling = Sampling()) -> None:
        super().__init__(new("rz_sampler_new", byref(sampler_params(sampling))))

    def set_grammar(self, grammar: "Optional[Grammar]") -> None:
        """Constrains the sampled text to a grammar, from its start; None: no constraint."""
        with self._use() as sampler, use_or_none(grammar, "Grammar") as form:
            status("rz_sampler_grammar_set", sampler, form)


def sampler_params(sampling: Sampling) -> _c.rz_sampler_params:
    if not isinstance(sampling, Sampling):
        raise wrong_type(sampling, "sampling", "a Sampling")
    order, breakers, banned = (listed(getattr(sampling, name), name) for name in ("order", "dry_breakers", "banned_sequences"))
    if not isinstance(sampling.logit_bias, Mapping):
        raise wrong_type(sampling.logit_bias, "logit_bias", "a dict of tokens and biases")
    pairs = sampling.logit_bias.items()
    checked = [(whole(token, "a token of logit_bias"), real(bias, "a bias of logit_bias", ctypes.c_float)) for token, bias in pairs]
    biases = (_c.rz_logit_bias * len(pairs))(*(_c.rz_logit_bias(*pair) for pair in checked))
    scalars = {name: value for name, value in vars(sampling).items() if name not in ("logit_bias", "dry_breakers", "banned_sequences", "order")}
    params = _c.rz_sampler_params(
        **scalars, n_biases=len(biases), n_dry_breakers=len(breakers), n_banned_sequences=len(banned),
        n_order=len(order),
    )
    params.dry_breakers, params.banned_sequences = _sequences(breakers), _sequences(banned)
    params.order = (c_uint32 * len(order))(*(choice(name, f"order[{i}]", _FILTERS) for i, name in enumerate(order)))
    if len(biases):
        params.biases = biases
    return params


class Adapter(Handle):
    """A LoRA adapter of a model. Immutable: any number of sessions may use it at once."""

    _free = "rz_adapter_free"


Adapters = Union[Sequence[Adapter], Mapping[Adapter, float]]


def scales_of(adapters: Adapters) -> Any:
    """Adapters with scales; each adapter is checked when it is used."""
    scales = adapters.values() if isinstance(adapters, Mapping) else [1.0] * len(listed(adapters, "adapters", "Adapter"))
    return floats_of(scales, "the scale of adapters")


# Kinds of speculative decoding; none changes results.
Draft = Union[None, Literal["lookup", "mtp"], "Model"]


def set_stops(params: Any, stops: Sequence[str]) -> None:
    texts = [string_of(stop, f"stops[{i}]") for i, stop in enumerate(listed(stops, "stops", "str"))]
    params.n_stops = len(texts)
    if texts:
        params.stops = (ctypes.c_char_p * len(texts))(*texts)


def set_draft(params: Any, draft: "Draft") -> "Optional[Model]":
    """Sets the kind of draft; returns the draft model."""
    if is_a(draft, "Model"):
        params.draft = _c.RZ_DRAFT_MODEL
        return draft  # type: ignore[return-value]
    drafts = {None: _c.RZ_DRAFT_NONE, "lookup": _c.RZ_DRAFT_LOOKUP, "mtp": _c.RZ_DRAFT_MTP}
    if not isinstance(draft, (str, type(None))) or draft not in drafts:
        raise InvalidArgument(f'draft is {repr(draft) if isinstance(draft, str) else shown(draft)}; it must be None, "lookup", "mtp" or a Model')
    params.draft = drafts[draft]
    return None


class TokenLogprobs(NamedTuple):
    """A generated token and the most likely alternatives."""

    token: int
    """The generated token, and its log probability."""
    logprob: float
    likeliest: List[Tuple[int, float]]
    """The most likely alternatives, in descending order."""


def read_logprobs(function: str, handle: Handle, row: int) -> List[TokenLogprobs]:
    """The pending rows of a job or a conversation."""
    values = np.empty(0, dtype=np.float32)

    def call(ids: int, capacity: int, n: Any) -> int:
        nonlocal values
        values = np.empty(capacity, dtype=np.float32)
        tokens = ctypes.cast(ids, ctypes.POINTER(c_uint32))
        return handle._call(function, tokens, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), capacity, n)

    tokens = read_ids(call, 64)
    pairs = list(zip(tokens, values.tolist()))
    return [TokenLogprobs(*pairs[at], pairs[at + 1 : at + row]) for at in range(0, len(tokens), row)]


class JobOptions(_o.JobOptions, total=False):
    """Options of a generation, as for `Session.job`."""

    stops: Sequence[str]
    grammar: Optional[Grammar]
    cancel: Optional[Cancel]
    draft: Draft


class Session(Handle):
    """Tokens with their KV cache. A prompt with the same prefix as the previous one computes only its new end."""

    _free = "rz_cache_free"

    def __init__(self, model: "Model", owned: c_void_p) -> None:
        super().__init__(owned, model)
        self.model = model
        # Ends calls on the session that a signal interrupts.
        self._stop = Cancel()
        with self._use() as cache, self._stop._use() as stop:
            status("rz_cache_cancel_set", cache, stop)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        with self._use() as cache:
            return int(library.rz_cache_len(cache))

    @property
    def capacity(self) -> int:
        """Context length in tokens."""
        with self._use() as cache:
            return int(library.rz_cache_capacity(cache))

    @property
    def tokens(self) -> List[int]:
        """The tokens of the session."""
        return read_ids(lambda *out: self._call("rz_cache_tokens_into", *out), len(self))

    def truncate(self, n: int) -> None:
        """Rewinds to the first `n` tokens."""
        self._call("rz_cache_truncate", whole(n, "n"))

    def shift(self, keep: int, drop: int) -> None:
        """Removes `drop` tokens after the first `keep` (context shift). The next call that needs them computes the
        later tokens again."""
        self._call("rz_cache_shift", whole(keep, "keep"), whole(drop, "drop"))

    def release(self) -> None:
        """Frees the KV cache and keeps the tokens; the next call that needs it computes it again."""
        self._call("rz_cache_release")

    def fork(self) -> "Session":
        """Returns a copy of the session, which shares the KV cache copy-on-write."""
        with self._use() as cache:
            return Session(self.model, new("rz_cache_fork", cache))

    def set_adapters(self, adapters: Adapters) -> None:
        """Sets the LoRA adapters (with scales), or none; clears the session."""
        scales = scales_of(adapters)
        with self._use() as cache, use_all(adapters, "Adapter", "adapters") as pointers:
            status("rz_cache_adapters_set", cache, pointers, scales, len(scales))

    def save(self, file: BinaryIO) -> None:
        """Writes the session; `Model.restore` reads it."""
        with self._use() as cache, writing(file) as callback:
            status("rz_cache_save", cache, callback, None, None)

    def match(self, prompt: Union[Tokens, Prompt]) -> int:
        """Returns the length of the prompt's prefix that is already in the KV cache."""
        common = c_uint32()
        if isinstance(prompt, Prompt):
            with self._use() as cache, prompt._use() as pointer:
                status("rz_cache_match_prompt", cache, pointer, byref(common))
        else:
            ids = token_ids(prompt)
            self._call("rz_cache_match", pointer_to(ids), len(ids), byref(common))
        return common.value

    def prefill(self, tokens: Union[Tokens, Prompt], *, first: int = 0, cancel: Optional[Cancel] = None) -> None:
        """Appends tokens, from index `first` on, at least one; `logits` are then of the last one."""
        first = whole(first, "first")
        given = tokens if isinstance(tokens, Prompt) else token_ids(tokens)[first:]

        def call() -> None:
            with self._use() as cache, use_or_none(cancel, "Cancel") as flag:
                if isinstance(given, Prompt):
                    with given._use() as prompt:
                        status("rz_prefill_prompt", cache, prompt, first, flag)
                else:
                    status("rz_prefill", cache, pointer_to(given), len(given), flag)

        interruptible(call, (self._stop, self))

    def score(self, tokens: Tokens, *, cancel: Optional[Cancel] = None) -> "np.ndarray":
        """Appends tokens, as `prefill` does, and returns the log probability of each, given all tokens before."""
        ids = token_ids(tokens)
        out = np.empty(len(ids), dtype=np.float32)

        def call() -> None:
            with self._use() as cache, use_or_none(cancel, "Cancel") as flag:
                at = out.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
                status("rz_score", cache, pointer_to(ids), len(ids), at, flag)

        interruptible(call, (self._stop, self))
        return out

    def sample(self, sampler: Optional[Sampler] = None) -> int:
        """Samples a token from the logits; without a sampler, greedily."""
        token = c_uint32()
        with self._use() as cache, use_or_none(sampler, "Sampler") as chooser:
            status("rz_sample", cache, chooser, byref(token))
        return token.value

    def decode(self, token: int, sampler: Optional[Sampler] = None) -> int:
        """Appends a token and samples the next one."""
        following, token = c_uint32(), whole(token, "token")

        def call() -> int:
            with self._use() as cache, use_or_none(sampler, "Sampler") as chooser:
                status("rz_decode_token", cache, token, chooser, byref(following))
            return following.value

        return int(interruptible(call, (self._stop, self)))

    def logprobs(self, k: int) -> List[Tuple[int, float]]:
        """Returns the `k` most likely next tokens with their log probabilities, in descending order."""
        k = min(whole(k, "k"), self.model.info.vocab_size)
        tokens, logprobs, n = (c_uint32 * k)(), (ctypes.c_float * k)(), ctypes.c_size_t()
        self._call("rz_top_logprobs", k, tokens, logprobs, byref(n))
        return list(zip(tokens, logprobs))[: n.value]

    def logits(self, out: Optional["np.ndarray"] = None) -> "np.ndarray":
        """Returns the logits after the last token, one per vocabulary entry, in `out` or a new float32 array."""
        if out is None:
            out = np.empty(self.model.info.vocab_size, dtype=np.float32)
        if not isinstance(out, np.ndarray) or out.dtype != np.float32 or not out.flags.c_contiguous or not out.flags.writeable:
            raise wrong_type(out, "out", "a contiguous array of float32 that can be written")
        n = ctypes.c_size_t()
        self._call("rz_logits_into", out.ctypes.data, out.size, byref(n))
        return out

    def job(
        self, prompt: Union[str, Tokens, Prompt], sampling: Sampling = Sampling(), *, max_tokens: Optional[int] = None,
        stops: Sequence[str] = (), grammar: Optional[Grammar] = None, cancel: Optional[Cancel] = None,
        draft: "Draft" = None, draft_max: int = 0, logprobs: Optional[int] = None, priority: int = 0,
    ) -> "Job":  # fmt: skip
        """Continues a text, tokens or a prompt in a job that advances in steps. A prefix that the session already holds
        is not computed again. The session is busy until the job is closed. `draft`: speculative decoding, with an
        unchanged result: "lookup" (n-grams of the text), "mtp" (the model's MTP head, loaded with `mtp`), or a small
        model with the same vocabulary; `draft_max`: maximum draft tokens. `logprobs`: alternatives for `Job.logprobs`
        (0: only the chosen tokens). `priority` among the jobs of a step; higher first."""
        whole = prompt if isinstance(prompt, Prompt) else token_ids(self.model.tokenize(prompt) if isinstance(prompt, str) else prompt)
        kept, n = self.match(whole), len(whole)
        # The last token of a prompt is always computed, because generation starts from its logits. Media rows at the
        # end are computed together, because they may attend to each other.
        if kept == n and n:
            ids, kept = whole.tokens if isinstance(whole, Prompt) else whole, n - 1
            while kept and ids[kept] == Prompt.MEDIA_TOKEN:
                kept -= 1
        self.truncate(kept)
        return Job(self, whole, kept, sampling, max_tokens, stops, grammar, cancel, draft, draft_max, logprobs, priority)

    def generate(self, prompt: Union[str, Tokens, Prompt], sampling: Sampling = Sampling(), **options: "Unpack[JobOptions]") -> Iterator[str]:
        """Continues a text, tokens or a prompt and yields pieces of whole characters. `options` as for `job`."""
        if options.get("max_tokens") == 0:
            return
        with self.job(prompt, sampling, **options) as job:
            yield from job
ENDS = {value: "end" if name == "token" else name for name, value in numbers_of("RZ_END_").items()}


class Job(Handle):
    """A generation that advances by `step`, or by iteration over its pieces of text. `close` ends it at any time; its
    session keeps the completed tokens."""

    _free = "rz_job_free"

    def __init__(
        self, session: Session, whole: Union["np.ndarray", Prompt], first: int, sampling: Sampling, max_tokens: Optional[int], stops: Sequence[str],
        grammar: Optional[Grammar], cancel: Optional[Cancel], draft: "Draft", draft_max: int, logprobs: Optional[int],
        priority: int,
    ) -> None:  # fmt: skip
        params = _c.rz_job_params(max_tokens=0 if max_tokens is None else max_tokens, draft_max=draft_max, logprobs=logprobs, priority=priority)
        prompt = whole if isinstance(whole, Prompt) else None
        if isinstance(whole, Prompt):
            params.prompt_first = first
        else:
            tokens = whole[first:]
            params.tokens, params.n_tokens = pointer_to(tokens), len(tokens)
        set_stops(params, stops)
        chooser = None if isinstance(sampling, Sampling) and sampling == Sampling(seed=sampling.seed) else Sampler(sampling)
        with use(session, "Session") as cache, use_or_none(chooser, "Sampler") as params.sampler, \
                use_or_none(grammar, "Grammar") as params.grammar, use_or_none(cancel, "Cancel") as params.cancel, \
                use_or_none(set_draft(params, draft), "Model") as params.draft_model, use_or_none(prompt, "Prompt") as params.prompt:  # fmt: skip
            super().__init__(new("rz_job_new", cache, byref(params)), session)
        self.session = session
        self._row = min(logprobs or 0, session.model.info.vocab_size) + 1

    def step(self, seconds: Optional[float] = None) -> bool:
        """Computes for about this many seconds (negative: 0); None: until it has generated a token. True: work remains."""
        us = microseconds(seconds)

        def call() -> bool:
            return self._call("rz_job_step", us) != _c.RZ_DONE

        return bool(interruptible(call, (self.session._stop, self)))

    def text(self) -> str:
        """Returns the text since the last call, in whole characters, without stop sequences."""
        return sized(lambda *out: self._call("rz_job_text_into", *out)).decode()

    def logprobs(self) -> List[TokenLogprobs]:
        """Returns the tokens since the last call with their log probabilities, for a job with `logprobs`."""
        return read_logprobs("rz_job_logprobs_into", self, self._row)

    def tokens(self) -> List[int]:
        """Returns the tokens since the last call."""
        return read_ids(lambda *out: self._call("rz_job_tokens_into", *out), 64)

    def __iter__(self) -> Iterator[str]:
        going = True
        while going:
            going = self.step()
            piece = self.text()
            if piece:
                yield piece

    @property
    def end(self) -> Optional[str]:
        """The end reason: "end" (end token), "length", "stop", "context", "grammar", "failed"; None if it has not
        ended."""
        return ENDS.get(self._info().end_reason)

    @property
    def error(self) -> Optional[Error]:
        """The error of a job that ended as "failed"; `step` raises it, `step_jobs` does not. None for any other job."""
        if self.end != "failed":
            return None
        try:
            self._call("rz_job_error")
        except Error as error:
            return error
        return None

    @property
    def drafts(self) -> Tuple[int, int]:
        """Draft tokens that were verified, and accepted ones."""
        info = self._info()
        return info.drafted, info.accepted

    def _info(self) -> _c.rz_job_info:
        info = _c.rz_job_info()
        self._call("rz_job_info_get", byref(info))
        return info


def step_jobs(jobs: Sequence[Job], seconds: Optional[float] = None) -> bool:
    """`Job.step` for several jobs of one model (continuous batching). A failed job does not affect
    others; `Job.error` is its error."""
    us, jobs = microseconds(seconds), all_of(jobs, Job, "jobs")

    def call() -> bool:
        with use_all(jobs, "Job", "jobs") as pointers:
            return status("rz_jobs_step", pointers, len(jobs), us) != _c.RZ_DONE

    return bool(interruptible(call, *((job.session._stop, job) for job in jobs)))


def decode_batch(
    sessions: Sequence[Session], tokens: Tokens, samplers: Optional[Sequence[Optional[Sampler]]] = None
) -> List[int]:
    """`Session.decode` for several sessions of one model, as one batch."""
    ids, sessions = token_ids(tokens), all_of(sessions, Session, "sessions")
    choosers = listed(samplers, "samplers", "Sampler") if samplers is not None else [None] * len(sessions)
    if not len(sessions) == len(ids) == len(choosers):
        raise InvalidArgument(f"tokens are {len(ids)}, and samplers {len(choosers)}; they must be as many as sessions, {len(sessions)}")
    following = np.empty(len(ids), dtype=np.uint32)

    def call() -> None:
        with use_all(sessions, "Session", "sessions") as caches, use_all(choosers, "Sampler", "samplers") as chosen:
            status("rz_decode_batch", caches, pointer_to(ids), len(ids), chosen, pointer_to(following))

    interruptible(call, *((session._stop, session) for session in sessions))
    return list(following.tolist())


class Store(Handle):
    """A prefix cache for sessions and conversations of one model. With a folder, other processes use it too. Any number
    of threads may use it at once."""

    _free = "rz_store_free"

    def __init__(
        self, model: "Model", path: Union[str, "os.PathLike[str]", None] = None, *, min_tokens: int = 0, memory_limit: int = 0,
        max_entries: int = 0, disk_limit: int = 0,
    ) -> None:  # fmt: skip
        """`path`: a folder of files that outlive the process, created if missing; None: prefixes that do not fit into
        memory are dropped. `min_tokens`: minimum length of a prefix; 0: 64. `memory_limit` and `max_entries`: bytes and
        number of prefixes in memory; 0: a tenth of free memory, at most 1 GiB, and 1,024. `disk_limit`: bytes of files;
        0: a tenth of the free space, at most 16 GiB."""
        params = _c.rz_store_params(min_tokens=min_tokens, memory_limit=memory_limit, max_entries=max_entries, disk_limit=disk_limit)
        params.path = None if path is None else path_of(path)
        with use(model, "Model") as pointer:
            super().__init__(new("rz_store_new", pointer, byref(params)), model)
        self.model = model

    def take(self, tokens: Union[Tokens, Prompt], capacity: int = 0, *, k_type: CacheType = "f16", v_type: CacheType = "f16") -> Session:
        """Returns a session with the longest stored prefix of the prompt, never the whole prompt: append
        `tokens[len(session):]`. `capacity` and types as for `Model.session`."""
        common = c_uint32()
        params, pointer = _c.rz_cache_params(capacity=capacity, k_type=k_type, v_type=v_type), c_void_p()
        if isinstance(tokens, Prompt):
            with tokens._use() as prompt:
                self._call("rz_store_take_prompt", prompt, byref(params), None, byref(pointer), byref(common))
            return Session(self.model, pointer)
        ids = token_ids(tokens)
        self._call("rz_store_take", pointer_to(ids), len(ids), byref(params), None, byref(pointer), byref(common))
        return Session(self.model, pointer)

    def put(self, session: Session) -> None:
        """Stores the session's tokens and KV cache as a prefix; the session remains usable."""
        with self._use() as store, use(session, "Session") as cache:
            status("rz_store_put", store, cache)

    def clear(self) -> None:
        """Removes all prefixes, and the files of the model from the folder."""
        self._call("rz_store_clear")

    @property
    def info(self) -> StoreInfo:
        """The store's size and hit counts."""
        info = _c.rz_store_info()
        self._call("rz_store_info_get", byref(info))
        return told(StoreInfo, info)
