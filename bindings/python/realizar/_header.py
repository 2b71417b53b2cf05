"""The constants, structs and functions of realizar.h under its names. The build writes this file: `make header`."""

import reprlib
from contextlib import suppress
from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p, sizeof
from difflib import get_close_matches
from math import isinf
from numbers import Real
from operator import index
from sys import float_info
from typing import Any, Dict, Iterable, Mapping, Set

from numpy import bool_


# The least and the greatest of numbers that have a bound.
RANGES = {c_uint8: (0, 0xFF), c_uint32: (0, 0xFFFFFFFF), c_uint64: (0, 0xFFFFFFFFFFFFFFFF), c_int32: (-0x80000000, 0x7FFFFFFF)}
RANGES[c_size_t] = RANGES[c_uint64 if sizeof(c_size_t) == 8 else c_uint32]
LARGEST = {c_float: 3.4028234663852886e38, c_double: float_info.max}


def whole(value: Any, name: str, kind: Any = c_uint32) -> int:
    """A whole number that fits into a type of C, which would drop the upper bits of another one. A bool is not taken as 0 or 1."""
    least, most = RANGES[kind]
    with suppress(TypeError):
        if not isinstance(value, bool) and least <= index(value) <= most:
            return index(value)
    from ._errors import InvalidArgument

    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a whole number from {least} to {most}")


def real(value: Any, name: str, kind: Any = c_double) -> float:
    """A number that may have a fraction, and that does not become infinite in a type of C. A bool is not taken as 0 or 1."""
    from ._errors import InvalidArgument

    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if isinf(number) or abs(number) <= LARGEST[kind]:  # False for NaN
                return number
            if number == number:
                raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be at most {LARGEST[kind]:.7g}")
    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a number")


def unknown_option(name: str, known: Iterable[str]) -> TypeError:
    """The error for a name of an option that there is not, with the name that is most like it."""
    from ._failures import UnknownOption

    found = get_close_matches(name, known, 1)
    return UnknownOption(f"the option {name} is unknown{f'; the nearest is {found[0]}' if found else ''}")


def switch(value: Any, name: str) -> bool:
    """True or False, also numpy's. Texts such as "no" are refused, which would be true."""
    if isinstance(value, (bool, bool_)):
        return bool(value)
    from ._errors import InvalidArgument

    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be True or False")


def choice(value: Any, name: str, numbers: Mapping[str, int]) -> int:
    """The number of a name."""
    if isinstance(value, str) and value in numbers:
        return numbers[value]
    from ._errors import InvalidArgument

    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be one of {', '.join(numbers)}")


class Sized(Structure):
    """A struct that begins with its size. Unknown fields and switches, and values that do not fit, are refused."""

    # The switches that are bits of the field `flags`, the names that fields are given as, and the fields whose 0 is
    # written as RZ_NONE.
    _flags_: "Dict[str, int]" = {}
    _choices_: "Dict[str, Dict[str, int]]" = {}
    _or_none_: "Set[str]" = set()

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=sizeof(type(self)), **fields)

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = {field: kind for field, kind, *_ in self._fields_}
        if name in self._flags_:
            bit = self._flags_[name]
            name, value = "flags", self.flags | bit if switch(value, name) else self.flags & ~bit
        if name not in kinds:
            known = [*self._flags_, *(field for field in kinds if field != "struct_size" and not field.startswith("reserved"))]
            raise unknown_option(name, known)
        kind = kinds[name]
        if name in self._choices_:
            value = choice(value, name, self._choices_[name])
        elif name in self._or_none_ and value is None:
            value = 0
        elif kind in RANGES:
            value = whole(value, name, kind)
            value = RZ_NONE if name in self._or_none_ and value == 0 else value
        elif kind in LARGEST:
            value = real(value, name, kind)
        super().__setattr__(name, value)


RZ_NONE = 0xFFFFFFFF
RZ_OK = 0
RZ_AGAIN = 1
RZ_DONE = 2
RZ_ERR_INVALID_ARGUMENT = -1
RZ_ERR_BUSY = -2
RZ_ERR_OUT_OF_MEMORY = -3
RZ_ERR_DEVICE_OUT_OF_MEMORY = -4
RZ_ERR_LIMIT = -5
RZ_ERR_IO = -6
RZ_ERR_FORMAT = -7
RZ_ERR_UNSUPPORTED = -8
RZ_ERR_VERSION = -9
RZ_ERR_CANCELLED = -10
RZ_ERR_DEADLINE = -11
RZ_ERR_CONTEXT_FULL = -12
RZ_ERR_BUFFER_TOO_SMALL = -13
RZ_ERR_DEVICE_UNAVAILABLE = -14
RZ_ERR_DEVICE_LOST = -15
RZ_ERR_MISMATCH = -16
RZ_ERR_PANIC = -17
RZ_ERR_POISONED = -18
RZ_ERR_NOT_FOUND = -19
RZ_ERR_NOT_READY = -20
RZ_ERR_RESOURCES = -21
RZ_ABI_VERSION = 1
RZ_FEATURE_GPU = 1
RZ_FEATURE_IMAGES = 2
RZ_FEATURE_SOUNDS = 4
RZ_FEATURE_THREADS = 8
RZ_FEATURE_WGPU = 16
RZ_DEVICE_CPU = 1
RZ_DEVICE_GPU = 2
RZ_LOG_ERROR = 1
RZ_LOG_WARNING = 2
RZ_LOG_INFO = 3
RZ_THREAD_COMPUTE = 1
RZ_THREAD_LOAD = 2
RZ_THREAD_TEMPLATE = 3
RZ_THREAD_STORE = 4
RZ_NO_LIMIT = 0xFFFFFFFFFFFFFFFF
RZ_TYPE_DEFAULT = 0
RZ_TYPE_F32 = 256
RZ_TYPE_F16 = 1
RZ_TYPE_BF16 = 30
RZ_TYPE_F8_E4M3 = 257
RZ_TYPE_Q4_0 = 2
RZ_TYPE_Q4_1 = 3
RZ_TYPE_Q5_0 = 6
RZ_TYPE_Q5_1 = 7
RZ_TYPE_Q8_0 = 8
RZ_TYPE_Q2_K = 10
RZ_TYPE_Q3_K = 11
RZ_TYPE_Q4_K = 12
RZ_TYPE_Q5_K = 13
RZ_TYPE_Q6_K = 14
RZ_TYPE_IQ1_S = 19
RZ_TYPE_IQ1_M = 29
RZ_TYPE_IQ2_XXS = 16
RZ_TYPE_IQ2_XS = 17
RZ_TYPE_IQ2_S = 22
RZ_TYPE_IQ3_XXS = 18
RZ_TYPE_IQ3_S = 21
RZ_TYPE_IQ4_NL = 20
RZ_TYPE_IQ4_XS = 23
RZ_TYPE_TQ1_0 = 34
RZ_TYPE_TQ2_0 = 35
RZ_TYPE_MXFP4 = 39
RZ_TYPE_NVFP4 = 40
RZ_TYPE_Q1_0 = 41
RZ_TYPE_Q2_0 = 42
RZ_TYPE_PQ2_0 = 142
RZ_TYPE_PTQ1_0 = 143
RZ_PLACED_EXPERTS = 1
RZ_PLACE_AUTO = 0
RZ_PLACE_CPU = 1
RZ_PLACE_GPU = 2
RZ_MODEL_DETERMINISTIC = 1
RZ_MODEL_MMAP = 2
RZ_MODEL_TEXT_ONLY = 4
RZ_MODEL_PROFILE = 8
RZ_MODEL_MTP = 16
RZ_MODEL_ALLOW_UNKNOWN = 32
RZ_MODEL_BF16_PRODUCTS = 64
RZ_DEVICES_MAX = 16
RZ_TOKEN_NONE = 0xFFFFFFFF
RZ_SAMPLING_TEMPERATURE = 1
RZ_SAMPLING_TOP_K = 2
RZ_SAMPLING_TOP_P = 4
RZ_SAMPLING_MIN_P = 8
RZ_SAMPLING_REPEAT_PENALTY = 16
RZ_SAMPLING_PENALTY_WINDOW = 32
RZ_TEMPLATE_PRESENT = 1
RZ_TEMPLATE_WRITES_BOS = 2
RZ_CAN_GENERATE = 1
RZ_CAN_SYSTEM = 2
RZ_CAN_TOOLS = 4
RZ_CAN_REASON = 8
RZ_CAN_SWITCH_REASONING = 16
RZ_CAN_IMAGES = 32
RZ_CAN_AUDIO = 64
RZ_CAN_VIDEO = 128
RZ_SOURCE_MEMORY = 1
RZ_SOURCE_FD = 2
RZ_SOURCE_READER = 3
RZ_HUB_CACHED = 1
RZ_TOKENIZE_ADD_SPECIAL = 1
RZ_TOKENIZE_PARSE_SPECIAL = 2
RZ_DETOKENIZE_SPECIAL = 1
RZ_ATTR_NORMAL = 1
RZ_ATTR_CONTROL = 2
RZ_ATTR_USER = 4
RZ_ATTR_BYTE = 8
RZ_ATTR_END = 16
RZ_CHAT_ADD_GENERATION_PROMPT = 1
RZ_CHAT_EVENT_REASONING = 1
RZ_CHAT_EVENT_CONTENT = 2
RZ_CHAT_EVENT_TOOL_NAME = 3
RZ_CHAT_EVENT_TOOL_ARGUMENTS = 4
RZ_CHAT_EVENT_END = 5
RZ_CHAT_EVENT_TOOL_ID = 6
RZ_CHAT_EVENT_FLAG_UNPARSED = 1
RZ_FILTER_TOP_N_SIGMA = 1
RZ_FILTER_TOP_K = 2
RZ_FILTER_TYPICAL_P = 3
RZ_FILTER_TOP_P = 4
RZ_FILTER_MIN_P = 5
RZ_FILTER_XTC = 6
RZ_FILTER_TEMPERATURE = 7
RZ_SAMPLER_TEMPERATURE_FIRST = 1
RZ_GRAMMAR_JSON_SCHEMA = 1
RZ_GRAMMAR_REGEX = 2
RZ_GRAMMAR_LARK = 3
RZ_GRAMMAR_GBNF = 4
RZ_GRAMMAR_JSON = 5
RZ_GRAMMAR_CHOICES = 6
RZ_GRAMMAR_TOOLS = 7
RZ_GRAMMAR_FLAG_WHITESPACE = 1
RZ_GRAMMAR_FLAG_BEST_EFFORT = 2
RZ_MEDIA_IMAGE = 1
RZ_MEDIA_AUDIO = 2
RZ_MEDIA_TEXT = 4
RZ_MEDIA_VECTOR = 8
RZ_MEDIA_VIDEO = 16
RZ_TOKEN_MEDIA = 0xFFFFFFFE
RZ_ENCODER_IMAGE = 1
RZ_ENCODER_AUDIO = 2
RZ_PIXELS_RGB8 = 1
RZ_PIXELS_RGBA8 = 2
RZ_PIXELS_BGRA8 = 3
RZ_PIXELS_GRAY8 = 4
RZ_ENCODE_STEPS = 1
RZ_PROMPT_BARE = 1
RZ_DRAFT_NONE = 0
RZ_DRAFT_LOOKUP = 1
RZ_DRAFT_MODEL = 2
RZ_DRAFT_MTP = 3
RZ_STATE_PROMPT = 1
RZ_STATE_TOKENS = 2
RZ_STATE_ENDED = 3
RZ_END_TOKEN = 1
RZ_END_LENGTH = 2
RZ_END_STOP = 3
RZ_END_CONTEXT = 4
RZ_END_GRAMMAR = 5
RZ_END_FAILED = 6
RZ_END_CANCELLED = 7
RZ_OVERFLOW_FAIL = 0
RZ_OVERFLOW_FORGET = 1
RZ_REASONING_MODEL = 0
RZ_REASONING_OFF = 1
RZ_REASONING_ON = 2
RZ_REPLY_KEEP = 1
RZ_REPLY_CONTINUE = 2
RZ_POOLING_MODEL = 0
RZ_POOLING_NONE = 1
RZ_POOLING_MEAN = 2
RZ_POOLING_CLS = 3
RZ_POOLING_LAST = 4
RZ_POOLING_RANK = 5
RZ_EMBED_RAW = 1

rz_log_callback = CFUNCTYPE(None, c_int32, POINTER(c_char), c_size_t, c_void_p)
rz_chunk_callback = CFUNCTYPE(None, c_uint32, c_void_p)
rz_parallel_callback = CFUNCTYPE(c_int32, c_uint32, rz_chunk_callback, c_void_p, c_void_p)
rz_thread_callback = CFUNCTYPE(None, c_uint32, c_uint32, c_int32, c_void_p)
rz_progress_callback = CFUNCTYPE(c_int32, c_uint64, c_uint64, c_void_p)
rz_source_callback = CFUNCTYPE(c_int32, c_uint64, c_void_p, c_size_t, c_void_p)
rz_logits_callback = CFUNCTYPE(c_int32, POINTER(c_float), c_size_t, POINTER(c_uint32), c_size_t, c_void_p)
rz_write_callback = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_void_p)
rz_read_callback = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_void_p)
rz_text_callback = CFUNCTYPE(c_int32, POINTER(c_char), c_size_t, c_void_p)


class rz_error(Structure):
    _fields_ = [
        ("code", c_int32),
        ("system_code", c_int32),
        ("needed", c_uint64),
        ("message", c_char * 496),
    ]


class rz_device_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("index", c_uint32),
        ("id", c_char * 64),
        ("name", c_char * 64),
        ("kind", c_uint32),
        ("available", c_uint32),
        ("isa", c_char * 32),
        ("memory_total", c_uint64),
        ("memory_free", c_uint64),
        ("unavailable", c_char * 256),
    ]


class rz_runtime_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("threads", c_uint32),
        ("memory_limit", c_uint64),
        ("cpus", POINTER(c_uint32)),
        ("n_cpus", c_size_t),
        ("log", rz_log_callback),
        ("log_user", c_void_p),
        ("parallel", rz_parallel_callback),
        ("parallel_user", c_void_p),
        ("on_thread", rz_thread_callback),
        ("on_thread_user", c_void_p),
    ]


class rz_runtime_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("threads", c_uint32),
        ("template_threads", c_uint32),
        ("reserved", c_uint32),
        ("memory_used", c_uint64),
        ("memory_peak", c_uint64),
        ("memory_limit", c_uint64),
    ]


class rz_placement(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("what", c_uint32),
        ("place", c_uint32),
        ("first_layer", c_uint32),
        ("n_layers", c_uint32),
        ("reserved", c_uint32),
        ("bytes", c_uint64),
    ]


class rz_model_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_uint32),
        ("runtime", c_void_p),
        ("flags", c_uint32),
        ("gpu_layers", c_uint32),
        ("quantize", c_uint32),
        ("mixed_prefill_tokens", c_uint32),
        ("progress", rz_progress_callback),
        ("progress_user", c_void_p),
        ("cancel", c_void_p),
        ("packed_path", c_char_p),
        ("devices", POINTER(c_uint32)),
        ("n_devices", c_size_t),
        ("device_split", POINTER(c_float)),
        ("placements", POINTER(rz_placement)),
        ("n_placements", c_size_t),
        ("tested_path", c_char_p),
        ("chat_template", c_char_p),
        ("chat_template_len", c_size_t),
        ("experts_copied_from", c_uint32),
        ("reserved", c_uint32),
    ]


class rz_model_sampling(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("advised", c_uint32),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repeat_penalty", c_float),
        ("penalty_window", c_uint32),
    ]


class rz_model_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("architecture", c_char * 32),
        ("name", c_char * 64),
        ("n_layers", c_uint32),
        ("hidden_dim", c_uint32),
        ("ffn_dim", c_uint32),
        ("n_heads", c_uint32),
        ("n_kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("vocab_size", c_uint32),
        ("context_length", c_uint32),
        ("device", c_uint32),
        ("bos_token", c_uint32),
        ("eos_token", c_uint32),
        ("n_params", c_uint64),
        ("weight_bytes", c_uint64),
        ("gpu_layers", c_uint32),
        ("chat_template", c_uint32),
        ("n_unknown", c_uint32),
        ("experts_host_first", c_uint32),
        ("experts_host", c_uint64),
        ("experts_device", c_uint64),
        ("experts_host_layers", c_uint32),
        ("reads_source", c_uint32),
        ("isa", c_char * 32),
        ("experts_copied_from", c_uint32),
        ("capabilities", c_uint32),
        ("embedding_dim", c_uint32),
        ("pooling", c_uint32),
        ("n_scores", c_uint32),
        ("n_devices", c_uint32),
    ]


class rz_model_device(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_uint32),
        ("n_layers", c_uint32),
    ]


class rz_source(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_uint32),
        ("name", c_char_p),
        ("data", c_void_p),
        ("size", c_uint64),
        ("fd", c_int32),
        ("reserved", c_uint32),
        ("offset", c_uint64),
        ("read", rz_source_callback),
        ("user", c_void_p),
    ]


class rz_logit_bias(Structure):
    _fields_ = [
        ("token", c_uint32),
        ("bias", c_float),
    ]


class rz_token_sequence(Structure):
    _fields_ = [
        ("tokens", POINTER(c_uint32)),
        ("n_tokens", c_size_t),
    ]


class rz_sampler_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repeat_penalty", c_float),
        ("presence_penalty", c_float),
        ("frequency_penalty", c_float),
        ("penalty_window", c_uint32),
        ("flags", c_uint32),
        ("seed", c_uint64),
        ("biases", POINTER(rz_logit_bias)),
        ("n_biases", c_size_t),
        ("typical_p", c_float),
        ("top_n_sigma", c_float),
        ("xtc_probability", c_float),
        ("xtc_threshold", c_float),
        ("temperature_range", c_float),
        ("temperature_exponent", c_float),
        ("mirostat_tau", c_float),
        ("mirostat_eta", c_float),
        ("dry_multiplier", c_float),
        ("dry_base", c_float),
        ("dry_allowed_length", c_uint32),
        ("dry_window", c_uint32),
        ("no_repeat_ngram_size", c_uint32),
        ("reserved", c_uint32),
        ("dry_breakers", POINTER(rz_token_sequence)),
        ("n_dry_breakers", c_size_t),
        ("banned_sequences", POINTER(rz_token_sequence)),
        ("n_banned_sequences", c_size_t),
        ("order", POINTER(c_uint32)),
        ("n_order", c_size_t),
        ("edit_logits", rz_logits_callback),
        ("edit_logits_user", c_void_p),
    ]


class rz_cache_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("capacity", c_uint32),
        ("k_type", c_uint32),
        ("v_type", c_uint32),
    ]


class rz_adapter_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("cancel", c_void_p),
    ]


class rz_model_plan(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("gpu_layers", c_uint32),
        ("weights_host", c_uint64),
        ("weights_device", c_uint64),
        ("cache_host", c_uint64),
        ("cache_device", c_uint64),
        ("cache_token", c_uint64),
        ("scratch_host", c_uint64),
        ("scratch_device", c_uint64),
        ("load_peak_host", c_uint64),
        ("total_host", c_uint64),
        ("total_device", c_uint64),
        ("experts_host_first", c_uint32),
        ("experts_host_layers", c_uint32),
        ("experts_host", c_uint64),
        ("experts_device", c_uint64),
    ]


class rz_model_plan_device(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_uint32),
        ("n_layers", c_uint32),
        ("reserved", c_uint32),
        ("weights", c_uint64),
        ("cache", c_uint64),
        ("scratch", c_uint64),
        ("total", c_uint64),
    ]


class rz_media_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_uint32),
        ("n_rows", c_uint32),
        ("n_tokens", c_uint32),
        ("row_dim", c_uint32),
        ("columns", c_uint32),
        ("lines", c_uint32),
        ("tile_columns", c_uint32),
        ("tile_lines", c_uint32),
        ("has_overview", c_uint32),
        ("width", c_uint32),
        ("height", c_uint32),
        ("seen_width", c_uint32),
        ("seen_height", c_uint32),
        ("bytes", c_uint64),
        ("encode_ns", c_uint64),
        ("hash", c_uint8 * 32),
        ("pairs", c_uint32),
        ("reserved", c_uint32),
    ]


class rz_encoder_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_uint32),
        ("quantize", c_uint32),
        ("max_rows", c_uint32),
        ("reserved", c_uint32),
        ("progress", rz_progress_callback),
        ("progress_user", c_void_p),
        ("cancel", c_void_p),
    ]


class rz_encoder_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("is_mutual", c_uint32),
        ("projector", c_char * 32),
        ("row_dim", c_uint32),
        ("n_layers", c_uint32),
        ("tile_side", c_uint32),
        ("grain", c_uint32),
        ("min_rows", c_uint32),
        ("max_rows", c_uint32),
        ("weight_bytes", c_uint64),
        ("scratch_bytes", c_uint64),
        ("kinds", c_uint32),
        ("sample_rate", c_uint32),
        ("device", c_uint32),
        ("reserved", c_uint32),
    ]


class rz_encoder_plan(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_rows", c_uint32),
        ("weights_host", c_uint64),
        ("scratch_host", c_uint64),
        ("row", c_uint64),
        ("weights_device", c_uint64),
        ("scratch_device", c_uint64),
        ("device", c_uint32),
        ("reserved", c_uint32),
    ]


class rz_pixels(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("format", c_uint32),
        ("width", c_uint32),
        ("height", c_uint32),
        ("stride", c_size_t),
        ("data", c_void_p),
    ]


class rz_media_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("min_rows", c_uint32),
        ("max_rows", c_uint32),
        ("max_tiles", c_uint32),
        ("max_pixels", c_uint32),
        ("flags", c_uint32),
        ("progress", rz_progress_callback),
        ("progress_user", c_void_p),
        ("cancel", c_void_p),
        ("background", c_uint32),
        ("reserved", c_uint32),
    ]


class rz_part(Structure):
    _fields_ = [
        ("tokens", POINTER(c_uint32)),
        ("n_tokens", c_size_t),
        ("media", c_void_p),
    ]


class rz_job_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_tokens", c_uint32),
        ("tokens", POINTER(c_uint32)),
        ("n_tokens", c_size_t),
        ("sampler", c_void_p),
        ("grammar", c_void_p),
        ("stops", POINTER(c_char_p)),
        ("n_stops", c_size_t),
        ("cancel", c_void_p),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("draft", c_uint32),
        ("draft_max", c_uint32),
        ("draft_model", c_void_p),
        ("logprobs", c_uint32),
        ("priority", c_int32),
        ("chat", c_char_p),
        ("chat_len", c_size_t),
        ("prompt", c_void_p),
        ("prompt_first", c_size_t),
    ]


class rz_job_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("state", c_uint32),
        ("end_reason", c_uint32),
        ("stopped", c_int32),
        ("prompt_total", c_uint32),
        ("prompt_done", c_uint32),
        ("n_tokens", c_uint32),
        ("cache_len", c_uint32),
        ("prompt_ns", c_uint64),
        ("tokens_ns", c_uint64),
        ("first_token_ns", c_uint64),
        ("drafted", c_uint32),
        ("accepted", c_uint32),
    ]


class rz_store_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("min_tokens", c_uint32),
        ("memory_limit", c_uint64),
        ("path", c_char_p),
        ("max_entries", c_size_t),
        ("disk_limit", c_uint64),
    ]


class rz_store_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_entries", c_uint32),
        ("n_files", c_uint32),
        ("n_unwritten", c_uint32),
        ("memory_bytes", c_uint64),
        ("disk_bytes", c_uint64),
        ("hits", c_uint64),
        ("misses", c_uint64),
        ("reused_tokens", c_uint64),
        ("memory_limit", c_uint64),
        ("disk_limit", c_uint64),
    ]


class rz_conversation_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("overflow", c_uint32),
        ("json", c_char_p),
        ("json_len", c_size_t),
        ("cache", POINTER(rz_cache_params)),
        ("adapters", POINTER(c_void_p)),
        ("scales", POINTER(c_float)),
        ("n_adapters", c_size_t),
        ("cancel", c_void_p),
        ("store", c_void_p),
    ]


class rz_reply_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_tokens", c_uint32),
        ("sampler", POINTER(rz_sampler_params)),
        ("grammar_kind", c_uint32),
        ("grammar_flags", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("grammar", c_char_p),
        ("grammar_len", c_size_t),
        ("compiled_grammar", c_void_p),
        ("stops", POINTER(c_char_p)),
        ("n_stops", c_size_t),
        ("reasoning", c_uint32),
        ("reasoning_tokens", c_uint32),
        ("draft", c_uint32),
        ("draft_max", c_uint32),
        ("draft_model", c_void_p),
        ("logprobs", c_uint32),
        ("priority", c_int32),
        ("cancel", c_void_p),
        ("json", c_char_p),
        ("json_len", c_size_t),
    ]


class rz_conversation_info(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("n_messages", c_uint32),
        ("first_in_prompt", c_uint32),
        ("state", c_uint32),
        ("end_reason", c_uint32),
        ("stopped", c_int32),
        ("prompt_tokens", c_uint32),
        ("reused_tokens", c_uint32),
        ("prompt_done", c_uint32),
        ("n_tokens", c_uint32),
        ("reasoning_tokens", c_uint32),
        ("drafted", c_uint32),
        ("accepted", c_uint32),
        ("cache_len", c_uint32),
        ("cache_capacity", c_uint32),
        ("n_media", c_uint32),
        ("prompt_ns", c_uint64),
        ("tokens_ns", c_uint64),
        ("first_token_ns", c_uint64),
    ]


class rz_embed_params(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("pooling", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class rz_phase_metrics(Structure):
    _fields_ = [
        ("count", c_uint64),
        ("sum_ns", c_uint64),
    ]


class rz_metrics(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("load", rz_phase_metrics),
        ("tokenize", rz_phase_metrics),
        ("prefill", rz_phase_metrics),
        ("decode", rz_phase_metrics),
        ("sample", rz_phase_metrics),
        ("detokenize", rz_phase_metrics),
        ("gpu_products", rz_phase_metrics),
        ("gpu_attention", rz_phase_metrics),
        ("gpu_experts", rz_phase_metrics),
        ("gpu_head", rz_phase_metrics),
        ("gpu_other", rz_phase_metrics),
        ("encode", rz_phase_metrics),
    ]


class rz_backend_metrics(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("device_kind", c_uint32),
        ("dispatches", c_uint64),
        ("bytes", c_uint64),
        ("latency_sum_ns", c_uint64),
        ("latency_min_ns", c_uint64),
        ("latency_max_ns", c_uint64),
        ("latency_mean_ns", c_double),
        ("latency_variance_ns2", c_double),
        ("latency_histogram", c_uint64 * 32),
    ]


class rz_layout(Sized):
    _fields_ = [
        ("struct_size", c_uint32),
        ("offset", c_uint32),
        ("size", c_uint32),
        ("struct_name", c_char * 32),
        ("field_name", c_char * 32),
    ]


STRUCTS = (
    rz_error,
    rz_device_info,
    rz_runtime_params,
    rz_runtime_info,
    rz_placement,
    rz_model_params,
    rz_model_sampling,
    rz_model_info,
    rz_model_device,
    rz_source,
    rz_logit_bias,
    rz_token_sequence,
    rz_sampler_params,
    rz_cache_params,
    rz_adapter_params,
    rz_model_plan,
    rz_model_plan_device,
    rz_media_info,
    rz_encoder_params,
    rz_encoder_info,
    rz_encoder_plan,
    rz_pixels,
    rz_media_params,
    rz_part,
    rz_job_params,
    rz_job_info,
    rz_store_params,
    rz_store_info,
    rz_conversation_params,
    rz_reply_params,
    rz_conversation_info,
    rz_embed_params,
    rz_phase_metrics,
    rz_metrics,
    rz_backend_metrics,
    rz_layout,
)

# Results and parameters.
FUNCTIONS = {
    "rz_abi_version": (c_uint32, []),
    "rz_version": (c_char_p, []),
    "rz_version_number": (c_uint32, []),
    "rz_features": (c_uint32, []),
    "rz_status_name": (c_char_p, [c_int32]),
    "rz_device_count": (c_uint32, []),
    "rz_device_info_get": (c_int32, [c_uint32, POINTER(rz_device_info), POINTER(rz_error)]),
    "rz_runtime_new": (c_int32, [POINTER(rz_runtime_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_runtime_free": (None, [c_void_p]),
    "rz_runtime_threads_set": (c_int32, [c_void_p, c_uint32, POINTER(rz_error)]),
    "rz_runtime_memory_limit_set": (c_int32, [c_void_p, c_uint64, POINTER(rz_error)]),
    "rz_runtime_info_get": (c_int32, [c_void_p, POINTER(rz_runtime_info), POINTER(rz_error)]),
    "rz_cancel_new": (c_int32, [POINTER(c_void_p), POINTER(rz_error)]),
    "rz_cancel_free": (None, [c_void_p]),
    "rz_cancel_fire": (None, [c_void_p]),
    "rz_cancel_deadline": (c_int32, [c_void_p, c_uint64, POINTER(rz_error)]),
    "rz_cancel_reset": (None, [c_void_p]),
    "rz_cancel_is_fired": (c_int32, [c_void_p]),
    "rz_model_load": (c_int32, [c_char_p, POINTER(rz_model_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_model_free": (None, [c_void_p]),
    "rz_model_sampling_get": (c_int32, [c_void_p, POINTER(rz_model_sampling), POINTER(rz_error)]),
    "rz_model_meta_into": (c_int32, [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_model_meta_key_into": (c_int32, [c_void_p, c_size_t, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_model_meta_element_into": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_model_info_get": (c_int32, [c_void_p, POINTER(rz_model_info), POINTER(rz_error)]),
    "rz_model_device_get": (c_int32, [c_void_p, c_uint32, POINTER(rz_model_device), POINTER(rz_error)]),
    "rz_model_load_from": (c_int32, [POINTER(rz_source), c_size_t, POINTER(rz_model_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_hub_choose_into": (c_int32, [c_char_p, c_size_t, c_char_p, c_size_t, c_uint64, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_tokenize_into": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, POINTER(rz_error)]),
    "rz_detokenize_into": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_token_is_end": (c_int32, [c_void_p, c_uint32]),
    "rz_token_bytes_into": (c_int32, [c_void_p, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_uint32), POINTER(rz_error)]),
    "rz_textstream_new": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_textstream_follow": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(rz_error)]),
    "rz_textstream_push_into": (c_int32, [c_void_p, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_textstream_flush_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_textstream_free": (None, [c_void_p]),
    "rz_chat_render_into": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, POINTER(rz_error)]),
    "rz_chat_tokenize_into": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, POINTER(rz_error)]),
    "rz_chat_parser_new": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_chat_parser_push": (c_int32, [c_void_p, c_uint32, POINTER(rz_error)]),
    "rz_chat_parser_end": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_chat_parser_next_into": (c_int32, [c_void_p, POINTER(c_uint32), POINTER(c_uint32), POINTER(c_uint32), c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_chat_parser_free": (None, [c_void_p]),
    "rz_sampler_new": (c_int32, [POINTER(rz_sampler_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_sampler_free": (None, [c_void_p]),
    "rz_grammar_new": (c_int32, [c_void_p, c_uint32, c_uint32, c_char_p, c_size_t, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_grammar_free": (None, [c_void_p]),
    "rz_sampler_grammar_set": (c_int32, [c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_cache_new": (c_int32, [c_void_p, POINTER(rz_cache_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_cache_free": (None, [c_void_p]),
    "rz_cache_len": (c_uint32, [c_void_p]),
    "rz_cache_capacity": (c_uint32, [c_void_p]),
    "rz_cache_truncate": (c_int32, [c_void_p, c_uint32, POINTER(rz_error)]),
    "rz_cache_cancel_set": (c_int32, [c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_cache_fork": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_cache_match": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(c_uint32), POINTER(rz_error)]),
    "rz_cache_tokens_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_cache_shift": (c_int32, [c_void_p, c_uint32, c_uint32, POINTER(rz_error)]),
    "rz_cache_release": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_adapter_load": (c_int32, [c_void_p, c_char_p, POINTER(rz_adapter_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_adapter_load_from": (c_int32, [c_void_p, POINTER(rz_source), c_size_t, POINTER(rz_adapter_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_adapter_free": (None, [c_void_p]),
    "rz_cache_adapters_set": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(c_float), c_size_t, POINTER(rz_error)]),
    "rz_cache_save": (c_int32, [c_void_p, rz_write_callback, c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_cache_load": (c_int32, [c_void_p, POINTER(rz_cache_params), rz_read_callback, c_void_p, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_model_plan_get": (c_int32, [c_char_p, POINTER(rz_source), c_size_t, POINTER(rz_model_params), POINTER(rz_cache_params), c_uint32, POINTER(rz_model_plan), c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_prefill": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, c_void_p, POINTER(rz_error)]),
    "rz_decode_token": (c_int32, [c_void_p, c_uint32, c_void_p, POINTER(c_uint32), POINTER(rz_error)]),
    "rz_generate_into": (c_int32, [c_void_p, c_uint32, c_void_p, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, POINTER(rz_error)]),
    "rz_decode_batch": (c_int32, [POINTER(c_void_p), POINTER(c_uint32), c_size_t, POINTER(c_void_p), POINTER(c_uint32), POINTER(rz_error)]),
    "rz_logits_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_sample": (c_int32, [c_void_p, c_void_p, POINTER(c_uint32), POINTER(rz_error)]),
    "rz_media_from_rows": (c_int32, [c_void_p, c_uint32, POINTER(c_float), c_size_t, c_uint32, c_uint32, c_uint32, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_from_tokens": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_info_get": (c_int32, [c_void_p, POINTER(rz_media_info), POINTER(rz_error)]),
    "rz_media_rows_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_media_save": (c_int32, [c_void_p, rz_write_callback, c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_media_load": (c_int32, [c_void_p, rz_read_callback, c_void_p, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_free": (None, [c_void_p]),
    "rz_encoder_load": (c_int32, [c_void_p, c_char_p, POINTER(rz_encoder_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_encoder_load_from": (c_int32, [c_void_p, POINTER(rz_source), c_size_t, POINTER(rz_encoder_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_encoder_free": (None, [c_void_p]),
    "rz_encoder_info_get": (c_int32, [c_void_p, POINTER(rz_encoder_info), POINTER(rz_error)]),
    "rz_encoder_plan_get": (c_int32, [c_void_p, c_char_p, POINTER(rz_source), c_size_t, POINTER(rz_encoder_params), POINTER(rz_encoder_plan), POINTER(rz_error)]),
    "rz_media_from_pixels": (c_int32, [c_void_p, POINTER(rz_pixels), POINTER(rz_media_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_from_image": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(rz_media_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_measure": (c_int32, [c_void_p, c_uint32, c_uint32, POINTER(rz_media_params), POINTER(rz_media_info), POINTER(rz_error)]),
    "rz_media_from_samples": (c_int32, [c_void_p, POINTER(c_float), c_size_t, c_uint32, c_uint32, POINTER(rz_media_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_from_audio": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(rz_media_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_from_frames": (c_int32, [c_void_p, POINTER(rz_pixels), POINTER(c_double), c_size_t, POINTER(rz_media_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_media_step": (c_int32, [c_void_p, c_uint64, POINTER(rz_error)]),
    "rz_prompt_new": (c_int32, [c_void_p, POINTER(rz_part), c_size_t, c_uint32, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_prompt_from_chat": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, POINTER(c_void_p), c_size_t, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_prompt_free": (None, [c_void_p]),
    "rz_prompt_len": (c_size_t, [c_void_p]),
    "rz_prompt_tokens_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_cache_match_prompt": (c_int32, [c_void_p, c_void_p, POINTER(c_uint32), POINTER(rz_error)]),
    "rz_prefill_prompt": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, POINTER(rz_error)]),
    "rz_job_new": (c_int32, [c_void_p, POINTER(rz_job_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_job_step": (c_int32, [c_void_p, c_uint64, POINTER(rz_error)]),
    "rz_jobs_step": (c_int32, [POINTER(c_void_p), c_size_t, c_uint64, POINTER(rz_error)]),
    "rz_job_error": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_job_text_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_job_next_into": (c_int32, [c_void_p, POINTER(c_uint32), POINTER(c_uint32), POINTER(c_uint32), c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_job_tokens_into": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_job_logprobs_into": (c_int32, [c_void_p, POINTER(c_uint32), c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_job_info_get": (c_int32, [c_void_p, POINTER(rz_job_info), POINTER(rz_error)]),
    "rz_job_free": (None, [c_void_p]),
    "rz_store_new": (c_int32, [c_void_p, POINTER(rz_store_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_store_take": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(rz_cache_params), c_void_p, POINTER(c_void_p), POINTER(c_uint32), POINTER(rz_error)]),
    "rz_store_take_prompt": (c_int32, [c_void_p, c_void_p, POINTER(rz_cache_params), c_void_p, POINTER(c_void_p), POINTER(c_uint32), POINTER(rz_error)]),
    "rz_store_put": (c_int32, [c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_store_clear": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_store_info_get": (c_int32, [c_void_p, POINTER(rz_store_info), POINTER(rz_error)]),
    "rz_store_free": (None, [c_void_p]),
    "rz_conversation_new": (c_int32, [c_void_p, POINTER(rz_conversation_params), POINTER(c_void_p), POINTER(rz_error)]),
    "rz_conversation_add": (c_int32, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p), c_size_t, POINTER(rz_error)]),
    "rz_conversation_add_text": (c_int32, [c_void_p, c_char_p, c_char_p, c_size_t, POINTER(rz_error)]),
    "rz_conversation_reply": (c_int32, [c_void_p, POINTER(rz_reply_params), POINTER(rz_error)]),
    "rz_conversation_step": (c_int32, [c_void_p, c_uint64, POINTER(rz_error)]),
    "rz_conversations_step": (c_int32, [POINTER(c_void_p), c_size_t, c_uint64, POINTER(rz_error)]),
    "rz_conversation_next_into": (c_int32, [c_void_p, POINTER(c_uint32), POINTER(c_uint32), POINTER(c_uint32), c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_conversation_stop": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_conversation_error": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_conversation_logprobs_into": (c_int32, [c_void_p, POINTER(c_uint32), c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_conversation_json_into": (c_int32, [c_void_p, c_uint32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(rz_error)]),
    "rz_conversation_rewind": (c_int32, [c_void_p, c_uint32, POINTER(rz_error)]),
    "rz_conversation_fork": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_conversation_info_get": (c_int32, [c_void_p, POINTER(rz_conversation_info), POINTER(rz_error)]),
    "rz_conversation_free": (None, [c_void_p]),
    "rz_conversation_say": (c_int32, [c_void_p, c_char_p, POINTER(rz_reply_params), rz_text_callback, c_void_p, POINTER(rz_error)]),
    "rz_conversation_read": (c_int32, [c_void_p, POINTER(rz_reply_params), POINTER(rz_error)]),
    "rz_conversation_release": (c_int32, [c_void_p, POINTER(rz_error)]),
    "rz_conversation_capacity_set": (c_int32, [c_void_p, c_uint32, POINTER(rz_error)]),
    "rz_conversation_overflow_set": (c_int32, [c_void_p, c_uint32, POINTER(rz_error)]),
    "rz_conversation_cancel_set": (c_int32, [c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_conversation_adapters_set": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(c_float), c_size_t, POINTER(rz_error)]),
    "rz_conversation_store_set": (c_int32, [c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_conversation_save": (c_int32, [c_void_p, rz_write_callback, c_void_p, c_void_p, POINTER(rz_error)]),
    "rz_conversation_load": (c_int32, [c_void_p, POINTER(rz_conversation_params), rz_read_callback, c_void_p, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_conversation_media": (c_int32, [c_void_p, c_uint32, POINTER(c_void_p), POINTER(rz_error)]),
    "rz_top_logprobs": (c_int32, [c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_float), POINTER(c_size_t), POINTER(rz_error)]),
    "rz_score": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(c_float), c_void_p, POINTER(rz_error)]),
    "rz_embed_into": (c_int32, [c_void_p, POINTER(rz_embed_params), POINTER(POINTER(c_uint32)), POINTER(c_size_t), c_size_t, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, POINTER(rz_error)]),
    "rz_embed_prompts_into": (c_int32, [c_void_p, POINTER(rz_embed_params), POINTER(c_void_p), c_size_t, c_void_p, c_size_t, POINTER(c_size_t), c_void_p, POINTER(rz_error)]),
    "rz_metrics_get": (c_int32, [c_void_p, POINTER(rz_metrics), POINTER(rz_error)]),
    "rz_backend_metrics_get": (c_int32, [c_void_p, c_uint32, POINTER(rz_backend_metrics), POINTER(rz_error)]),
    "rz_metrics_reset": (None, [c_void_p]),
    "rz_layout_get": (c_int32, [c_uint32, POINTER(rz_layout), POINTER(rz_error)]),
}
