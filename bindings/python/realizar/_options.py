"""The options of calls: their names, types and meanings. The build writes this file: `make header`."""

from dataclasses import dataclass, field
from typing import Literal, Mapping, Optional, Sequence, TypedDict

from . import _header as _c

ElementType = Literal["default", "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"]
CacheType = Literal["default", "f32", "f16", "q4_0", "q8_0"]
Reasoning = Literal["model", "off", "on"]
Pooling = Literal["model", "none", "mean", "cls", "last", "rank"]
Filter = Literal["top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature"]

# The switches and names that fields of structs are given as.
_c.rz_runtime_params._choices_ = {}
_c.rz_runtime_params._flags_ = {}
_c.rz_runtime_params._or_none_ = set()
_c.rz_model_params._choices_ = {"quantize": {"default": _c.RZ_TYPE_DEFAULT, "f32": _c.RZ_TYPE_F32, "f16": _c.RZ_TYPE_F16, "bf16": _c.RZ_TYPE_BF16, "q4_0": _c.RZ_TYPE_Q4_0, "q4_1": _c.RZ_TYPE_Q4_1, "q5_0": _c.RZ_TYPE_Q5_0, "q5_1": _c.RZ_TYPE_Q5_1, "q8_0": _c.RZ_TYPE_Q8_0, "q4_k": _c.RZ_TYPE_Q4_K, "q5_k": _c.RZ_TYPE_Q5_K, "q6_k": _c.RZ_TYPE_Q6_K}}
_c.rz_model_params._flags_ = {"deterministic": _c.RZ_MODEL_DETERMINISTIC, "mmap": _c.RZ_MODEL_MMAP, "text_only": _c.RZ_MODEL_TEXT_ONLY, "profile": _c.RZ_MODEL_PROFILE, "mtp": _c.RZ_MODEL_MTP, "allow_unknown": _c.RZ_MODEL_ALLOW_UNKNOWN, "bf16_products": _c.RZ_MODEL_BF16_PRODUCTS}
_c.rz_model_params._or_none_ = {"gpu_layers", "experts_copied_from"}
_c.rz_sampler_params._choices_ = {}
_c.rz_sampler_params._flags_ = {"temperature_first": _c.RZ_SAMPLER_TEMPERATURE_FIRST}
_c.rz_sampler_params._or_none_ = set()
_c.rz_cache_params._choices_ = {"k_type": {"default": _c.RZ_TYPE_DEFAULT, "f32": _c.RZ_TYPE_F32, "f16": _c.RZ_TYPE_F16, "q4_0": _c.RZ_TYPE_Q4_0, "q8_0": _c.RZ_TYPE_Q8_0}, "v_type": {"default": _c.RZ_TYPE_DEFAULT, "f32": _c.RZ_TYPE_F32, "f16": _c.RZ_TYPE_F16, "q4_0": _c.RZ_TYPE_Q4_0, "q8_0": _c.RZ_TYPE_Q8_0}}
_c.rz_cache_params._flags_ = {}
_c.rz_cache_params._or_none_ = set()
_c.rz_encoder_params._choices_ = {"quantize": {"default": _c.RZ_TYPE_DEFAULT, "f32": _c.RZ_TYPE_F32, "f16": _c.RZ_TYPE_F16, "bf16": _c.RZ_TYPE_BF16, "q4_0": _c.RZ_TYPE_Q4_0, "q4_1": _c.RZ_TYPE_Q4_1, "q5_0": _c.RZ_TYPE_Q5_0, "q5_1": _c.RZ_TYPE_Q5_1, "q8_0": _c.RZ_TYPE_Q8_0, "q4_k": _c.RZ_TYPE_Q4_K, "q5_k": _c.RZ_TYPE_Q5_K, "q6_k": _c.RZ_TYPE_Q6_K}}
_c.rz_encoder_params._flags_ = {}
_c.rz_encoder_params._or_none_ = set()
_c.rz_media_params._choices_ = {}
_c.rz_media_params._flags_ = {}
_c.rz_media_params._or_none_ = set()
_c.rz_job_params._choices_ = {}
_c.rz_job_params._flags_ = {}
_c.rz_job_params._or_none_ = {"logprobs"}
_c.rz_store_params._choices_ = {}
_c.rz_store_params._flags_ = {}
_c.rz_store_params._or_none_ = set()
_c.rz_reply_params._choices_ = {"reasoning": {"model": _c.RZ_REASONING_MODEL, "off": _c.RZ_REASONING_OFF, "on": _c.RZ_REASONING_ON}}
_c.rz_reply_params._flags_ = {"keep": _c.RZ_REPLY_KEEP, "resume": _c.RZ_REPLY_CONTINUE}
_c.rz_reply_params._or_none_ = {"logprobs"}
_c.rz_embed_params._choices_ = {"pooling": {"model": _c.RZ_POOLING_MODEL, "none": _c.RZ_POOLING_NONE, "mean": _c.RZ_POOLING_MEAN, "cls": _c.RZ_POOLING_CLS, "last": _c.RZ_POOLING_LAST, "rank": _c.RZ_POOLING_RANK}}
_c.rz_embed_params._flags_ = {"raw": _c.RZ_EMBED_RAW}
_c.rz_embed_params._or_none_ = set()


class RuntimeOptions(TypedDict, total=False):
    threads: int
    """Number of compute threads: the calling thread and threads - 1 workers; 1 creates no worker. 0: one per
    processor that the process may use (hardware threads of a core count separately), or one per fast core if cores
    differ. At most 1024."""
    memory_limit: int
    """Maximum bytes of host memory for weights, KV caches and scratch memory (GPU memory does not count); 0: no
    limit."""


class LoadOptions(TypedDict, total=False):
    device: int
    """Index of a device; 0: chosen by the library."""
    deterministic: bool
    """Deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was split
    into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs speed,
    mostly in prefill. Results still differ between devices, and depend on the number of layers on each device."""
    mmap: bool
    """Uses the weights in place in the memory-mapped file; token generation is several times slower. The process dies
    if the file is truncated while it is mapped."""
    text_only: bool
    """Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can be created."""
    profile: bool
    """Measures the parts of each step on GPUs, which slows it down."""
    mtp: bool
    """Also loads the multi-token prediction (MTP) head, for speculative decoding."""
    allow_unknown: bool
    """Ignores unknown keys and tensors, and counts them."""
    bf16_products: bool
    """Computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with AMX-BF16.
    The first load with the flag in a process times a matrix product; the flag takes effect only if BF16 is faster
    than the default arithmetic with exact integer sums."""
    gpu_layers: Optional[int]
    """Number of layers on GPUs; 0: none; None: as many as fit."""
    quantize: ElementType
    """Element type to which float matrices are quantized during the load."""
    mixed_prefill_tokens: int
    """Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to first token and
    raises the inter-token latency."""
    experts_copied_from: Optional[int]
    """Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and computed there; 0:
    no step; None: measured by the load."""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters. Zero turns a feature off; all zeros choose the most likely token (greedy decoding)."""

    temperature: float = 0.0
    """Divides the logits; 0: always the most likely token."""
    top_k: int = 0
    """Keeps the k most likely tokens."""
    top_p: float = 0.0
    """Keeps the most likely tokens that together reach this probability."""
    min_p: float = 0.0
    """Drops tokens whose probability is below this fraction of the most likely token's."""
    repeat_penalty: float = 0.0
    """Divides positive logits of recent tokens, multiplies negative ones."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of every recent token."""
    frequency_penalty: float = 0.0
    """Subtracted from the logit of a recent token once per occurrence."""
    penalty_window: int = 0
    """Number of the last tokens, including tokens of the prompt, that count as recent; 0: all."""
    temperature_first: bool = False
    """The temperature comes before the filters, which keep their default order. Recommendations of models' authors,
    and sampling in transformers, use this order. Not together with order."""
    seed: int = 0
    """Seed of the random number generator; 0 is a seed like any other."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of tokens; negative infinity forbids a token."""
    typical_p: float = 0.0
    """Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
    reach this probability; 1: off."""
    top_n_sigma: float = 0.0
    """Drops logits more than this number of standard deviations (of the remaining logits) below the largest."""
    xtc_probability: float = 0.0
    """XTC: probability of a cut. A cut drops all tokens whose probability is at least xtc_threshold, except the least
    likely one of them."""
    xtc_threshold: float = 0.0
    """Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no token."""
    temperature_range: float = 0.0
    """Dynamic temperature: the temperature rises from temperature - temperature_range (at least 0) to temperature +
    temperature_range with the entropy of the distribution, relative to the entropy of the uniform distribution."""
    temperature_exponent: float = 0.0
    """Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1."""
    mirostat_tau: float = 0.0
    """Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
    bound, which begins at twice this value and is corrected after each draw."""
    mirostat_eta: float = 0.0
    """Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1."""
    dry_multiplier: float = 0.0
    """DRY: if the last n tokens occurred before (with the largest such n, at least dry_allowed_length), the logit of
    the token that followed the earlier occurrence is reduced by dry_multiplier * dry_base ^ (n -
    dry_allowed_length). n above 4096 counts as 4096."""
    dry_base: float = 0.0
    """Base of the DRY penalty, at least 1; 0: 1.75."""
    dry_allowed_length: int = 0
    """Minimum length of repetitions that DRY penalizes; 0: 2."""
    dry_window: int = 0
    """Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all."""
    no_repeat_ngram_size: int = 0
    """No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token
    that would complete such a repetition is not chosen. At most 4096."""
    dry_breakers: Sequence[Sequence[int]] = ()
    """Sequences of tokens across which DRY does not look for repetitions."""
    banned_sequences: Sequence[Sequence[int]] = ()
    """Token sequences that are never generated: the last token of a sequence is not sampled after the other tokens."""
    order: Sequence[Filter] = ()
    """The order of the filters and the temperature; empty: the default order."""


class CacheOptions(TypedDict, total=False):
    capacity: int
    """Context length in tokens; 0: the model's, at most 8192."""
    k_type: CacheType
    """Element type of the keys."""
    v_type: CacheType
    """Element type of the values."""


class EncoderOptions(TypedDict, total=False):
    device: int
    """Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the CPU."""
    quantize: ElementType
    """Element type to which float matrices are quantized during the load."""
    max_rows: int
    """Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096."""


class MediaOptions(TypedDict, total=False):
    min_rows: int
    """Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the model's."""
    max_rows: int
    """Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's."""
    max_tiles: int
    """Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image."""
    max_pixels: int
    """Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million."""
    background: int
    """Background color of transparent pixels, 0xffRRGGBB; 0: white."""


class JobOptions(TypedDict, total=False):
    max_tokens: int
    """Maximum number of tokens to generate; 0: until the cache is full."""
    draft_max: int
    """Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32."""
    logprobs: Optional[int]
    """Number of most likely tokens to return with each token, at most 32; 0: only the log probability of the token
    itself; None: none."""
    priority: int
    """Scheduling priority: higher first, may be negative; 0: normal."""


class StoreOptions(TypedDict, total=False):
    min_tokens: int
    """Minimum length in tokens of prefixes to keep and to look up; 0: 64."""
    memory_limit: int
    """Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that a
    prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take additional
    memory: up to a quarter of the limit, or one larger prefix."""
    max_entries: int
    """Maximum number of prefixes in memory; 0: 1,024."""
    disk_limit: int
    """Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of the
    free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that are being
    written."""


class ReplyOptions(TypedDict, total=False):
    max_tokens: int
    """Maximum number of tokens to generate, including reasoning; 0: until the cache is full."""
    keep: bool
    """Keeps the text of an abandoned reply as a message; otherwise the text is removed."""
    resume: bool
    """Continues the last message, which must be a reply with the "finish_reason" "length", "context" or "cancelled"."""
    reasoning: Reasoning
    """Whether a reply begins with reasoning; "model": as the chat template decides."""
    reasoning_tokens: int
    """Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
    tokens that complete a character, the library inserts the end of reasoning, and the model continues with its
    answer. Ignored for a model that does not reason, and if max_tokens leaves no tokens for an answer."""
    draft_max: int
    """Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32."""
    logprobs: Optional[int]
    """Number of most likely tokens to return with each token, at most 32; 0: only the log probability of the token
    itself; None: none."""
    priority: int
    """Scheduling priority: higher first, may be negative; 0: normal."""


class EmbedOptions(TypedDict, total=False):
    pooling: Pooling
    """How the vectors of a text's tokens become one embedding."""
    raw: bool
    """Keeps the length of embeddings; otherwise they are normalized to length 1."""
