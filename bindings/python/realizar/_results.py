"""The results of calls. The build writes this file: `make header`."""

import builtins
from typing import TYPE_CHECKING, FrozenSet, NamedTuple, Optional, Tuple

from ._options import Pooling

if TYPE_CHECKING:
    from ._models import Capability


class Device(NamedTuple):
    """What models can be loaded to."""

    index: int  # type: ignore[assignment]
    """Index of the device, for loads; the CPU is 1. It may differ between processes."""
    name: str
    """Name, such as "cuda:0 NVIDIA H200"."""
    kind: str
    """ "cpu" or "gpu"."""
    isa: str
    """Instruction set or compute capability, such as "avx512vnni" or "sm_90"."""
    memory_total: int
    """Total memory in bytes; 0 if unknown."""
    memory_free: int
    """Free memory in bytes; 0 if unknown."""
    unavailable: str
    """Reason why the device cannot be used; empty if it can."""
    id: str
    """Identifier that is equal in every process on this machine: "cpu", or the UUID of a GPU; empty if unknown."""
    available: bool
    """True if models can be loaded onto the device."""


class RuntimeInfo(NamedTuple):
    """The state of a runtime."""

    threads: int
    """Number of compute threads from the next step on, including the calling thread."""
    memory_used: int
    """Bytes of host memory that count against the limit now: weights, KV caches, scratch memory."""
    memory_peak: int
    """Peak of memory_used since the runtime was created."""
    memory_limit: int
    """Memory limit in bytes; 0: no limit."""


class ModelInfo(NamedTuple):
    """Description of a model: what its file contains, and where it was loaded."""

    architecture: str
    """Family of the network, such as "llama" or "qwen3"."""
    name: str
    """Name of the model; empty if the file has none."""
    n_layers: int
    """Transformer layers."""
    hidden_dim: int
    """Width of the residual stream, in values."""
    ffn_dim: int
    """Width of the feed-forward block, in values."""
    n_heads: int
    """Query heads."""
    n_kv_heads: int
    """Key and value heads."""
    head_dim: int
    """Values per head."""
    vocab_size: int
    """Number of token ids, which run from 0 to vocab_size - 1; also the number of logits."""
    context_length: int
    """Context length in tokens that the model was trained for, as declared in the file."""
    device: int
    """Index of the device that the model was loaded to; with several GPUs the first."""
    bos_token: Optional[int]
    """The token that begins a text; None if there is none."""
    eos_token: Optional[int]
    """The token that ends a text; None if there is none."""
    n_params: int
    """Number of parameters."""
    weight_bytes: int
    """Bytes of weights in memory; 0 if no weights were loaded."""
    gpu_layers: int
    """Number of layers on GPUs; the CPU computes the other layers, which come first."""
    devices: Tuple[int, ...]
    """GPUs that have layers, in the order of the layers."""
    device_layers: Tuple[int, ...]
    """Number of layers on each of `devices`."""
    has_chat_template: bool
    """True if there is a chat template."""
    template_writes_bos: bool
    """True if the chat template writes BOS."""
    n_unknown: int
    """Number of keys and tensors that `allow_unknown` ignored."""
    reads_source: bool
    """True for an encoder-decoder model, whose sessions begin with `Media.from_tokens`."""
    isa: str
    """Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if it has none."""
    capabilities: "FrozenSet[Capability]"
    """Features: "system", "tools", "reason", "switch_reasoning", "images", "audio", "video", "generate"."""
    embedding_dim: int
    """Embedding dimension (`Model.embed`); 0: not an embedding model."""
    pooling: Optional[Pooling]
    """The default pooling; None: the file names none, and `Model.embed` needs one."""
    n_scores: int
    """Classifier outputs (pooling "rank"); 0: no classifier."""
    experts_host_first: int
    """First GPU layer whose experts are on the CPU, from 0."""
    experts_host_layers: int
    """Number of layers from `experts_host_first` to the last layer whose experts are on the CPU; 0: none."""
    experts_host: int
    """Bytes of experts on the host that belong to layers on GPUs."""
    experts_device: int
    """Bytes of experts on GPUs."""
    experts_copied_from: Optional[int]
    """Minimum tokens of a step that copies experts from the CPU to the GPU; None: never."""


class Phase(NamedTuple):
    """Calls of one kind."""

    count: int  # type: ignore[assignment]
    """Number of calls."""
    sum_ns: int
    """Total time in nanoseconds."""


class Work(NamedTuple):
    """Counters of one kind of device; times in nanoseconds."""

    dispatches: int
    """Number of dispatches; if 0, all values below are 0."""
    bytes: int
    """Bytes read and written by dispatches."""
    latency_sum_ns: int
    """Total latency in nanoseconds."""
    latency_min_ns: int
    """Minimum latency in nanoseconds."""
    latency_max_ns: int
    """Maximum latency in nanoseconds."""
    latency_mean_ns: float
    """Mean latency in nanoseconds."""
    latency_variance_ns2: float
    """Variance of the latency in square nanoseconds."""
    latency_histogram: Tuple[int, ...]
    """Latencies under 1 microsecond, from 1 to below 2, from 2 to below 4, and so on."""


class PlanDevice(NamedTuple):
    """Memory on one GPU, in bytes."""

    device: int
    """Index of the device."""
    n_layers: int
    """Number of layers on the GPU."""
    weights: int
    """Weights."""
    cache: int
    """Part of one KV cache."""
    scratch: int
    """Scratch memory."""
    total: int
    """Total GPU memory."""


class Plan(NamedTuple):
    """Memory that a model and its sessions take, in bytes."""

    gpu_layers: int
    """Number of layers on GPUs."""
    weights_host: int
    """Weights in host memory, as they are packed."""
    weights_device: int
    """Weights on GPUs."""
    cache_host: int
    """Host memory of one KV cache at full capacity: keys, values, tokens and logits."""
    cache_device: int
    """GPU memory of one KV cache at full capacity."""
    cache_token: int
    """Bytes that one more token of capacity adds to a cache."""
    scratch_host: int
    """Scratch memory of one full-size step. With several threads, a model runs one such step at a time; up to
    eight concurrent steps of at most 16 tokens take less in addition. In a runtime with one thread, each
    concurrent step takes this much."""
    scratch_device: int
    """Scratch memory on GPUs."""
    load_peak_host: int
    """Peak host memory during the load."""
    total_host: int
    """Total host memory: the model, its tokenizer, scratch memory and all caches."""
    total_device: int
    """Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates when it records
    repeated steps of one token (CUDA graphs)."""
    devices: Tuple[PlanDevice, ...]
    """Memory on each GPU that has layers."""
    experts_host_first: int
    """First GPU layer whose experts are on the CPU, from 0."""
    experts_host_layers: int
    """Number of layers from `experts_host_first` to the last layer whose experts are on the CPU; 0: none."""
    experts_host: int
    """Part of weights_host: experts of layers on GPUs."""
    experts_device: int
    """Part of weights_device: experts."""


class EncoderInfo(NamedTuple):
    """What an encoder is."""

    projector: str
    """Kind of the projector, such as "qwen3vl_merger" or "voxtral"."""
    is_mutual: bool
    """True if the rows of an image attend to each other (bidirectional attention), so one step of the model must
    compute all of them."""
    row_dim: int
    """Number of floats per row."""
    n_layers: int
    """Layers of the encoder."""
    tile_side: int
    """Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an audio encoder."""
    grain: int
    """The sides of tiles are multiples of this number of pixels; 0 for audio."""
    min_rows: int
    """Minimum number of rows of an image or an audio clip."""
    max_rows: int
    """Maximum number of rows of an image or an audio clip."""
    weight_bytes: int
    """Bytes of weights in memory, on the CPU or the GPU."""
    scratch_bytes: int
    """Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio clip."""
    kinds: Tuple[str, ...]
    """The kinds of media that it encodes: "image", "audio", "vector" or "video"."""
    sample_rate: int
    """Sample rate in Hz to which audio is resampled; 0 for images."""
    device: int
    """Index of the device that the encoder was loaded to."""


class EncoderPlan(NamedTuple):
    """Memory that an encoder takes in addition to its model's, in bytes."""

    max_rows: int
    """Number of rows of the largest image, or of the longest audio clip."""
    weights_host: int
    """Weights in host memory, as they are packed."""
    scratch_host: int
    """Maximum scratch memory of a call that encodes an image or an audio clip."""
    row: int
    """One row of a media item."""
    weights_device: int
    """Weights on a GPU."""
    scratch_device: int
    """Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder keeps the
    scratch memory of one call for the next one; calls at the same time take this much each."""
    device: int
    """Index of the device that the load would choose."""


class MediaInfo(NamedTuple):
    """Description of an encoded image, video or audio."""

    kind: str
    """ "image", "audio" or "video"."""
    n_rows: int
    """Number of rows, each of which takes the place of a token in a cache."""
    n_tokens: int
    """Number of prompt tokens that the media item takes: its rows, and the model's tokens around and between the
    rows."""
    row_dim: int
    """Number of floats per row."""
    columns: int
    """Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of video frames."""
    lines: int
    """Number of lines of a tile."""
    tile_columns: int
    """Number of tiles horizontally; 0 if the image is one tile."""
    tile_lines: int
    """Number of tiles vertically; 0 if the image is one tile."""
    has_overview: bool
    """True if an additional tile shows the whole image."""
    width: int
    """Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a media item
    that was created from rows."""
    height: int
    """Height in pixels; 0 for audio and for a media item that was created from rows."""
    seen_width: int
    """Width in pixels of all tiles together, as the model sees them. Programs need it to convert coordinates in
    the model's output to pixels of the image. For audio the number of samples at the rate of the encoder."""
    seen_height: int
    """Height in pixels of all tiles together; 0 for audio."""
    bytes: int
    """Bytes of memory."""
    encode_ns: int
    """Time of the encoding in nanoseconds."""
    hash: "builtins.bytes"
    """Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may use it as a
    cache key."""
    pairs: int
    """Number of frame pairs of a video, each of which has `lines` lines of `columns` rows; 0 for other media."""


class StoreInfo(NamedTuple):
    """The state of a store."""

    n_entries: int
    """Number of prefixes in memory."""
    n_files: int
    """Number of prefixes in files of the model."""
    memory_bytes: int
    """Bytes in memory."""
    disk_bytes: int
    """Bytes in files."""
    hits: int
    """Number of lookups that found a prefix, since the store was created."""
    misses: int
    """Number of lookups that found no prefix."""
    reused_tokens: int
    """Number of tokens that needed no prefill because of hits."""
    n_unwritten: int
    """Number of prefixes dropped because they could not be written (on a full disk, for example), since the store
    was created. The log has the reason."""
    memory_limit: int
    """Limit of memory_bytes in effect."""
    disk_limit: int
    """Limit of disk_bytes in effect; 0 without a folder."""


class ConversationInfo(NamedTuple):
    """The state of a conversation and of its last reply."""

    n_messages: int
    """Number of messages."""
    first_in_prompt: int
    """Index of the first message in prompts; 0 unless turns were left out."""
    state: Optional[str]
    """Phase of the reply: "prompt", "tokens", "ended"; None before the first one and after one without a
    message."""
    end: Optional[str]
    """End reason of the reply, as `Job.end`."""
    stopped: Optional[str]
    """The reason why its steps are stopped: "cancelled" or "deadline"."""
    prompt_tokens: int
    """Number of tokens of the reply's prompt."""
    reused_tokens: int
    """Number of prompt tokens that the cache already held (cached tokens)."""
    prompt_done: int
    """Number of prompt tokens that had to be computed and are in the cache by now."""
    n_tokens: int
    """Number of generated tokens, including a token that ends the reply."""
    reasoning_tokens: int
    """Number of reasoning tokens among the generated tokens."""
    drafted: int
    """Number of draft tokens verified."""
    accepted: int
    """Number of draft tokens accepted."""
    cache_len: int
    """Number of tokens in the cache."""
    cache_capacity: int
    """Capacity of the cache in tokens."""
    n_media: int
    """Number of media in the messages."""
    prompt_ns: int
    """Total time in nanoseconds of the reply's prefill steps."""
    tokens_ns: int
    """Total time in nanoseconds of the reply's decode steps."""
    first_token_ns: int
    """Time to first token (TTFT) in nanoseconds; 0 before the first token."""
