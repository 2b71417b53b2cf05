// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.
#ifndef REALIZAR_HPP
#include "realizar.hpp" // which includes this file
#elif !defined(REALIZAR_TYPES_HPP)
#define REALIZAR_TYPES_HPP

namespace realizar {

/// RZ_ERR_INVALID_ARGUMENT: An argument is NULL, out of range, not UTF-8, or otherwise never valid.
struct InvalidArgumentError : Error {
    using Error::Error;
};

/// RZ_ERR_BUSY: Another call is using the handle.
struct BusyError : Error {
    using Error::Error;
};

/// RZ_ERR_OUT_OF_MEMORY: Host memory is exhausted.
struct OutOfMemoryError : Error {
    using Error::Error;
};

/// RZ_ERR_DEVICE_OUT_OF_MEMORY: Device memory is exhausted.
struct DeviceOutOfMemoryError : Error {
    using Error::Error;
};

/// RZ_ERR_LIMIT: The call would exceed a limit set by the caller, or a bound of this library.
struct LimitError : Error {
    using Error::Error;
};

/// RZ_ERR_IO: A file could not be read or written.
struct IoError : Error {
    using Error::Error;
};

/// RZ_ERR_FORMAT: A file is damaged, or the weights of a model make a result NaN or infinite.
struct FormatError : Error {
    using Error::Error;
};

/// RZ_ERR_UNSUPPORTED: The request is valid, but this library does not implement it.
struct UnsupportedError : Error {
    using Error::Error;
};

/// RZ_ERR_VERSION: A field or a flag needs a newer library.
struct VersionError : Error {
    using Error::Error;
};

/// RZ_ERR_CANCELLED: An `rz_cancel` was fired, or a callback asked to stop.
struct CancelledError : Error {
    using Error::Error;
};

/// RZ_ERR_DEADLINE: The deadline has passed.
struct DeadlineError : Error {
    using Error::Error;
};

/// RZ_ERR_CONTEXT_FULL: The tokens do not fit into the context window (the capacity of the cache).
struct ContextFullError : Error {
    using Error::Error;
};

/// RZ_ERR_BUFFER_TOO_SMALL: The buffer is too small; the needed count was written.
struct BufferTooSmallError : Error {
    using Error::Error;
};

/// RZ_ERR_DEVICE_UNAVAILABLE: The device cannot be used; the message says why.
struct DeviceUnavailableError : Error {
    using Error::Error;
};

/// RZ_ERR_DEVICE_LOST: The device failed, or did not answer for 60 seconds; its work is lost. The model is
/// unusable, including its layers on other devices. The CPU and other models continue to work, on the same device
/// too, because each model has its own context. According to NVIDIA's documentation some kernel faults, such as
/// error 700 (illegal address), make CUDA unusable in the whole process: then every model on a GPU returns this
/// status, and only a new process can use the devices again.
struct DeviceLostError : Error {
    using Error::Error;
};

/// RZ_ERR_MISMATCH: One call combines objects of different models.
struct MismatchError : Error {
    using Error::Error;
};

/// RZ_ERR_PANIC: Caught bug of this library. Please report the message.
struct PanicError : Error {
    using Error::Error;
};

/// RZ_ERR_POISONED: An earlier call on this handle ended with RZ_ERR_PANIC, whose message this error repeats. Free
/// the handle.
struct PoisonedError : Error {
    using Error::Error;
};

/// RZ_ERR_NOT_FOUND: Not found: a key, a device, an image, audio or video of a conversation, or an index beyond
/// the last entry.
struct NotFoundError : Error {
    using Error::Error;
};

/// RZ_ERR_NOT_READY: Another call must come first: there are no logits before a prefill, and no rows of media
/// before their encoding is done.
struct NotReadyError : Error {
    using Error::Error;
};

/// RZ_ERR_RESOURCES: The system cannot create a thread or another resource; the same call may succeed later.
struct ResourcesError : Error {
    using Error::Error;
};

namespace detail {

/// Throws the exception of a status. Ends the process where the program is compiled without exceptions.
[[noreturn]] inline void fail(const rz_error &error) {
    switch (error.code) {
    case RZ_ERR_INVALID_ARGUMENT: raise(InvalidArgumentError(error));
    case RZ_ERR_BUSY: raise(BusyError(error));
    case RZ_ERR_OUT_OF_MEMORY: raise(OutOfMemoryError(error));
    case RZ_ERR_DEVICE_OUT_OF_MEMORY: raise(DeviceOutOfMemoryError(error));
    case RZ_ERR_LIMIT: raise(LimitError(error));
    case RZ_ERR_IO: raise(IoError(error));
    case RZ_ERR_FORMAT: raise(FormatError(error));
    case RZ_ERR_UNSUPPORTED: raise(UnsupportedError(error));
    case RZ_ERR_VERSION: raise(VersionError(error));
    case RZ_ERR_CANCELLED: raise(CancelledError(error));
    case RZ_ERR_DEADLINE: raise(DeadlineError(error));
    case RZ_ERR_CONTEXT_FULL: raise(ContextFullError(error));
    case RZ_ERR_BUFFER_TOO_SMALL: raise(BufferTooSmallError(error));
    case RZ_ERR_DEVICE_UNAVAILABLE: raise(DeviceUnavailableError(error));
    case RZ_ERR_DEVICE_LOST: raise(DeviceLostError(error));
    case RZ_ERR_MISMATCH: raise(MismatchError(error));
    case RZ_ERR_PANIC: raise(PanicError(error));
    case RZ_ERR_POISONED: raise(PoisonedError(error));
    case RZ_ERR_NOT_FOUND: raise(NotFoundError(error));
    case RZ_ERR_NOT_READY: raise(NotReadyError(error));
    case RZ_ERR_RESOURCES: raise(ResourcesError(error));
    default: raise(Error(error));
    }
}

[[noreturn]] inline void refuse(const std::string &message) {
    rz_error error{RZ_ERR_INVALID_ARGUMENT, 0, 0, {}};
    std::snprintf(error.message, sizeof error.message, "%s", message.c_str());
    fail(error);
}

/// Writes a number to a field that has room for it, or throws an InvalidArgumentError that names the field.
template <class Field, class Number> void assign(Field &field, Number value, const char *name) {
    if constexpr (std::is_enum_v<Number>) {
        assign(field, static_cast<std::underlying_type_t<Number>>(value), name);
    } else {
        static_assert(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>, "the field takes a number");
        static_assert(std::is_floating_point_v<Field> || std::is_integral_v<Number>, "the field takes a whole number");
        const auto converted = static_cast<Field>(value);
        if constexpr (std::is_integral_v<Field>) {
            if (static_cast<Number>(converted) != value || (converted < Field(0)) != (value < Number(0))) {
                using Limits = std::numeric_limits<Field>;
                refuse(std::string(name) + " is " + std::to_string(value) + "; it must be a whole number from " +
                       std::to_string((Limits::min)()) + " to " + std::to_string((Limits::max)()));
            }
        } else if (converted - converted != Field(0) && value - value == Number(0)) {
            refuse(std::string(name) + " is " + std::to_string(value) + "; it must fit into 32 bits");
        }
        field = converted;
    }
}

/// Keeps a text without a NUL for a field that ends with one.
inline void keep(std::string &kept, std::string_view text, const char *name) {
    if (text.find('\0') != text.npos) refuse(std::string(name) + " has a NUL; it must have none");
    kept = text;
}

inline void set_flag(uint32_t &flags, uint32_t flag, bool on) noexcept { flags = on ? flags | flag : flags & ~flag; }

} // namespace detail

/// An rz_runtime_params whose numbers are checked and whose texts are kept: `RuntimeOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class RuntimeOptions {
public:
    /// Number of compute threads: the calling thread and `threads` - 1 workers; 1 creates no worker. 0: one per
    /// processor that the process may use (hardware threads of a core count separately), or one per fast core if
    /// cores differ. At most 1024.
    template <class Number> RuntimeOptions &threads(Number value) { return detail::assign(raw_.threads, value, "rz_runtime_params.threads"), *this; }
    /// Maximum bytes of host memory for weights, KV caches and scratch memory (GPU memory does not count); 0: no
    /// limit. Calls that would exceed the limit fail with RZ_ERR_LIMIT: a load, a new cache, a first step.
    /// rz_runtime_memory_limit_set changes it.
    template <class Number> RuntimeOptions &memory_limit(Number value) { return detail::assign(raw_.memory_limit, value, "rz_runtime_params.memory_limit"), *this; }
    rz_runtime_params *operator->() noexcept { return &raw_; }
    operator const rz_runtime_params &() const {
        return raw_;
    }

private:
    mutable rz_runtime_params raw_ = params<rz_runtime_params>();
};

/// An rz_model_params whose numbers are checked and whose texts are kept: `LoadOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class LoadOptions {
public:
    /// Index of a device; 0: automatic choice, which rz_model_info.device reports. The automatic choice is the
    /// CPU, unless the whole model and a cache of default capacity fit on a GPU, and the GPU would generate tokens
    /// faster. To estimate that, the library measures the memory bandwidth of both once per process (tens of
    /// milliseconds), and halves the bandwidth of the GPU to be safe. If the model does not fit on one GPU, all
    /// GPUs together count as one. The choice never considers a GPU for weights below 256 MiB, for a model without
    /// logits, or with `packed_path`, `gpu_layers`, `placements` or RZ_MODEL_MMAP. It skips a GPU that fails.
    /// Layers without GPU kernels stay on the CPU. Any GPU, named or chosen, is self-tested first: each kind of
    /// operation that the model needs runs on the GPU and on the CPU, once per process (see `tested_path`), within
    /// milliseconds. If a result differs, the device is unavailable from then on: loads fail with
    /// RZ_ERR_DEVICE_UNAVAILABLE and a message that names the operation.
    template <class Number> LoadOptions &device(Number value) { return detail::assign(raw_.device, value, "rz_model_params.device"), *this; }
    /// Load flag: deterministic, batch-invariant results: they do not depend on the number of threads, on how a
    /// prompt was split into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the
    /// flag costs speed, mostly in prefill. Results still differ between devices, and depend on the number of
    /// layers on each device.
    LoadOptions &deterministic(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_DETERMINISTIC, on), *this; }
    /// Load flag: map the weights (mmap) and use them in place instead of reading them into memory. The load is
    /// immediate and takes no memory, but token generation is several times slower, because weights are repacked
    /// for each token. With rz_model_params.packed_path, loads after the first one are short too, and token
    /// generation is not slower. If another program truncates the mapped file while it is in use, the process dies
    /// of SIGBUS; therefore the flag is never a default.
    LoadOptions &mmap(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_MMAP, on), *this; }
    /// Load flag: metadata, tokenizer and chat template only. The file needs no weights, and no cache can be
    /// created.
    LoadOptions &text_only(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_TEXT_ONLY, on), *this; }
    /// Load flag: measure the parts of each step on a GPU, for rz_metrics_get. Steps take longer, and no step
    /// begins before the previous one has ended.
    LoadOptions &profile(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_PROFILE, on), *this; }
    /// Load flag: also load the multi-token prediction (MTP) head (arXiv 2412.19437, section 2.2), for speculative
    /// decoding by jobs with RZ_DRAFT_MTP. If the file has several heads, only the first is loaded. Its weights
    /// count as weights of the model, prefill computes all positions of the last layer, and saved caches are not
    /// interchangeable with saved caches of a model without the flag. With several devices the head is on the last
    /// device. RZ_ERR_UNSUPPORTED for a file without MTP heads, or for an architecture whose heads are not
    /// supported. Supported models: GLM 4.5 to 4.7, DeepSeek V3 and its derivatives, Qwen 3.5, Qwen 3 Next, and
    /// Hunyuan 3 in GGUF files.
    LoadOptions &mtp(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_MTP, on), *this; }
    /// Load flag: ignore unknown keys in the model's configuration or metadata and unknown tensors, instead of
    /// RZ_ERR_UNSUPPORTED. The log has a warning for the first ignored item, and rz_model_info.n_unknown has the
    /// number of ignored items. Results are only correct if the ignored items do not matter. A known key with an
    /// unsupported value is still rejected.
    LoadOptions &allow_unknown(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_ALLOW_UNKNOWN, on), *this; }
    /// Load flag: computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor
    /// with AMX-BF16. The first load with the flag in a process times a matrix product; the flag takes effect only
    /// if BF16 is faster than the default arithmetic with exact integer sums. In this case rz_model_info.isa is
    /// "amx-bf16"; otherwise, and for layers on GPUs, the flag has no effect.
    LoadOptions &bf16_products(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_MODEL_BF16_PRODUCTS, on), *this; }
    /// Number of layers to offload to GPUs, if `device` is a GPU or `devices` are set: the last layers, together
    /// with the output matrix. The CPU computes the other layers and holds their part of each KV cache. 0: as many
    /// layers as fit into the free memory of the devices, in addition to a cache of default capacity and the
    /// scratch memory of a step. A number above the layer count means all layers. RZ_NONE: none; the whole model
    /// is on the CPU, whatever `device` and `devices` are.
    template <class Number> LoadOptions &gpu_layers(Number value) { return detail::assign(raw_.gpu_layers, value, "rz_model_params.gpu_layers"), *this; }
    /// Element type to which float matrices are quantized during the load: RZ_TYPE_F32, _F16, _BF16, _Q4_0, _Q4_1,
    /// _Q5_0, _Q5_1, _Q8_0, _Q4_K, _Q5_K or _Q6_K; RZ_TYPE_DEFAULT: the matrices keep the types of the file.
    template <class Number> LoadOptions &quantize(Number value) { return detail::assign(raw_.quantize, value, "rz_model_params.quantize"), *this; }
    /// Maximum number of prompt tokens that a batch step of rz_jobs_step or rz_conversations_step computes
    /// together with tokens of jobs that are past their prompt (mixed prefill and decode); 0: 64. A larger number
    /// shortens the time to first token of new requests and lengthens the inter-token latency of all other
    /// requests, because a step with more tokens takes longer. The limit never exceeds the size of a step, and
    /// does not apply to steps that have only prompt tokens. On a CPU results do not depend on it.
    template <class Number> LoadOptions &mixed_prefill_tokens(Number value) { return detail::assign(raw_.mixed_prefill_tokens, value, "rz_model_params.mixed_prefill_tokens"), *this; }
    /// Path of a file for packed weights, NUL-terminated; NULL: weights are packed into memory.
    LoadOptions &packed_path(std::string_view text) { return detail::keep(packed_path_.emplace(), text, "rz_model_params.packed_path"), *this; }
    /// Path of a file that records passed GPU self-tests of the model and of its encoders, NUL-terminated; NULL:
    /// the record lasts as long as the process.
    LoadOptions &tested_path(std::string_view text) { return detail::keep(tested_path_.emplace(), text, "rz_model_params.tested_path"), *this; }
    /// Chat template in Jinja, `chat_template_len` bytes, that replaces the model's own in all conversations and
    /// rz_chat_* functions: for a base model, which has none, or for a model whose template uses unsupported
    /// features. It gets the variables of Hugging Face's chat templates (`messages`, `tools`,
    /// `add_generation_prompt`, `bos_token` ...). Reasoning and tool calls in replies are parsed in the format
    /// that this template writes. NULL: the model's own. Copied. If the template does not compile, the load fails
    /// with RZ_ERR_INVALID_ARGUMENT before weights are read, and the message names the line; for a model without a
    /// tokenizer it fails with RZ_ERR_UNSUPPORTED. rz_model_meta_into still returns the model's own template.
    LoadOptions &chat_template(std::string_view text) { return chat_template_ = text, *this; }
    /// Steps of at least this number of tokens, such as prefill steps, copy the experts from the CPU to the GPU, a
    /// few at a time, and multiply there. 0: the smallest number for which this takes less time than computing on
    /// the CPU, as measured by the load; RZ_NONE: no step copies. rz_model_info.experts_copied_from has the number
    /// in effect.
    template <class Number> LoadOptions &experts_copied_from(Number value) { return detail::assign(raw_.experts_copied_from, value, "rz_model_params.experts_copied_from"), *this; }
    rz_model_params *operator->() noexcept { return &raw_; }
    operator const rz_model_params &() const {
        if (packed_path_) raw_.packed_path = packed_path_->c_str();
        if (tested_path_) raw_.tested_path = tested_path_->c_str();
        if (chat_template_) raw_.chat_template = chat_template_->data(), raw_.chat_template_len = chat_template_->size();
        return raw_;
    }

private:
    mutable rz_model_params raw_ = params<rz_model_params>();
    std::optional<std::string> packed_path_;
    std::optional<std::string> tested_path_;
    std::optional<std::string> chat_template_;
};

/// An rz_sampler_params whose numbers are checked and whose texts are kept: `SamplingOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class SamplingOptions {
public:
    /// Divides the logits; 0: always the most likely token.
    template <class Number> SamplingOptions &temperature(Number value) { return detail::assign(raw_.temperature, value, "rz_sampler_params.temperature"), *this; }
    /// Keeps the k most likely tokens.
    template <class Number> SamplingOptions &top_k(Number value) { return detail::assign(raw_.top_k, value, "rz_sampler_params.top_k"), *this; }
    /// Keeps the most likely tokens that together reach this probability.
    template <class Number> SamplingOptions &top_p(Number value) { return detail::assign(raw_.top_p, value, "rz_sampler_params.top_p"), *this; }
    /// Drops tokens whose probability is below this fraction of the most likely token's.
    template <class Number> SamplingOptions &min_p(Number value) { return detail::assign(raw_.min_p, value, "rz_sampler_params.min_p"), *this; }
    /// Divides positive logits of recent tokens, multiplies negative ones.
    template <class Number> SamplingOptions &repeat_penalty(Number value) { return detail::assign(raw_.repeat_penalty, value, "rz_sampler_params.repeat_penalty"), *this; }
    /// Subtracted from the logit of every recent token.
    template <class Number> SamplingOptions &presence_penalty(Number value) { return detail::assign(raw_.presence_penalty, value, "rz_sampler_params.presence_penalty"), *this; }
    /// Subtracted from the logit of a recent token once per occurrence.
    template <class Number> SamplingOptions &frequency_penalty(Number value) { return detail::assign(raw_.frequency_penalty, value, "rz_sampler_params.frequency_penalty"), *this; }
    /// Number of the last tokens, including tokens of the prompt, that count as recent; 0: all.
    template <class Number> SamplingOptions &penalty_window(Number value) { return detail::assign(raw_.penalty_window, value, "rz_sampler_params.penalty_window"), *this; }
    /// Flag of a sampler: the temperature comes before the filters, which keep their default order.
    /// Recommendations of models' authors, and sampling in transformers, use this order. Not together with
    /// `order`.
    SamplingOptions &temperature_first(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_SAMPLER_TEMPERATURE_FIRST, on), *this; }
    /// Seed of the random number generator; 0 is a seed like any other.
    template <class Number> SamplingOptions &seed(Number value) { return detail::assign(raw_.seed, value, "rz_sampler_params.seed"), *this; }
    /// Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
    /// reach this probability; 1: off.
    template <class Number> SamplingOptions &typical_p(Number value) { return detail::assign(raw_.typical_p, value, "rz_sampler_params.typical_p"), *this; }
    /// Drops logits more than this number of standard deviations (of the remaining logits) below the largest.
    template <class Number> SamplingOptions &top_n_sigma(Number value) { return detail::assign(raw_.top_n_sigma, value, "rz_sampler_params.top_n_sigma"), *this; }
    /// XTC: probability of a cut. A cut drops all tokens whose probability is at least xtc_threshold, except the
    /// least likely one of them.
    template <class Number> SamplingOptions &xtc_probability(Number value) { return detail::assign(raw_.xtc_probability, value, "rz_sampler_params.xtc_probability"), *this; }
    /// XTC: probability from which a cut drops tokens; 0 means the default, 0.1. At most one token reaches a
    /// threshold above 0.5, so XTC then drops none.
    template <class Number> SamplingOptions &xtc_threshold(Number value) { return detail::assign(raw_.xtc_threshold, value, "rz_sampler_params.xtc_threshold"), *this; }
    /// Dynamic temperature: the temperature rises from `temperature` - `temperature_range` (at least 0) to
    /// `temperature` + `temperature_range` with the entropy of the distribution, relative to the entropy of the
    /// uniform distribution.
    template <class Number> SamplingOptions &temperature_range(Number value) { return detail::assign(raw_.temperature_range, value, "rz_sampler_params.temperature_range"), *this; }
    /// Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1.
    template <class Number> SamplingOptions &temperature_exponent(Number value) { return detail::assign(raw_.temperature_exponent, value, "rz_sampler_params.temperature_exponent"), *this; }
    /// Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
    /// bound, which begins at twice this value and is corrected after each draw. Filters that are on apply before
    /// Mirostat; llama.cpp applies no filters with Mirostat.
    template <class Number> SamplingOptions &mirostat_tau(Number value) { return detail::assign(raw_.mirostat_tau, value, "rz_sampler_params.mirostat_tau"), *this; }
    /// Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1.
    template <class Number> SamplingOptions &mirostat_eta(Number value) { return detail::assign(raw_.mirostat_eta, value, "rz_sampler_params.mirostat_eta"), *this; }
    /// DRY: if the last n tokens occurred before (with the largest such n, at least dry_allowed_length), the logit
    /// of the token that followed the earlier occurrence is reduced by dry_multiplier * dry_base ^ (n -
    /// dry_allowed_length). n above 4096 counts as 4096.
    template <class Number> SamplingOptions &dry_multiplier(Number value) { return detail::assign(raw_.dry_multiplier, value, "rz_sampler_params.dry_multiplier"), *this; }
    /// At least 1; 0 means the default, 1.75.
    template <class Number> SamplingOptions &dry_base(Number value) { return detail::assign(raw_.dry_base, value, "rz_sampler_params.dry_base"), *this; }
    /// Minimum number of repeated tokens that DRY penalizes; 0 means the default, 2.
    template <class Number> SamplingOptions &dry_allowed_length(Number value) { return detail::assign(raw_.dry_allowed_length, value, "rz_sampler_params.dry_allowed_length"), *this; }
    /// Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all.
    template <class Number> SamplingOptions &dry_window(Number value) { return detail::assign(raw_.dry_window, value, "rz_sampler_params.dry_window"), *this; }
    /// No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token
    /// that would complete such a repetition is not chosen. At most 4096.
    template <class Number> SamplingOptions &no_repeat_ngram_size(Number value) { return detail::assign(raw_.no_repeat_ngram_size, value, "rz_sampler_params.no_repeat_ngram_size"), *this; }
    rz_sampler_params *operator->() noexcept { return &raw_; }
    operator const rz_sampler_params &() const {
        return raw_;
    }

private:
    mutable rz_sampler_params raw_ = params<rz_sampler_params>();
};

/// An rz_cache_params whose numbers are checked and whose texts are kept: `CacheOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class CacheOptions {
public:
    /// Capacity (context window) in tokens; 0: the model's context_length, but at most 8192. A capacity above the
    /// model's context_length is logged as a warning.
    template <class Number> CacheOptions &capacity(Number value) { return detail::assign(raw_.capacity, value, "rz_cache_params.capacity"), *this; }
    /// Element type of the keys (KV cache quantization): RZ_TYPE_F16, RZ_TYPE_Q8_0, RZ_TYPE_Q4_0 or RZ_TYPE_F32;
    /// RZ_TYPE_DEFAULT: RZ_TYPE_F16.
    template <class Number> CacheOptions &k_type(Number value) { return detail::assign(raw_.k_type, value, "rz_cache_params.k_type"), *this; }
    /// Element type of the values; the same types as for `k_type`.
    template <class Number> CacheOptions &v_type(Number value) { return detail::assign(raw_.v_type, value, "rz_cache_params.v_type"), *this; }
    rz_cache_params *operator->() noexcept { return &raw_; }
    operator const rz_cache_params &() const {
        return raw_;
    }

private:
    mutable rz_cache_params raw_ = params<rz_cache_params>();
};

/// An rz_encoder_params whose numbers are checked and whose texts are kept: `EncoderOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class EncoderOptions {
public:
    /// RZ_ENCODER_... and RZ_MODEL_ALLOW_UNKNOWN, combined with |. Without RZ_ENCODER_... the vision encoder is
    /// loaded, or the audio encoder if there is no vision encoder.
    template <class Number> EncoderOptions &flags(Number value) { return detail::assign(raw_.flags, value, "rz_encoder_params.flags"), *this; }
    /// Index of a device: the CPU or a GPU, which need not be a device of the model; 0: automatic choice, which
    /// rz_encoder_info.device reports. The automatic choice is the model's first GPU if the encoder, an image or
    /// audio clip of `max_rows` rows, and a cache of default capacity and a step of the model fit into its free
    /// memory; otherwise, and if the GPU fails in any way, the CPU. On a GPU that is named here, a lack of memory
    /// fails the load, or later the call that encodes, with RZ_ERR_DEVICE_OUT_OF_MEMORY. An encoder without GPU
    /// kernels stays on the CPU in either case, and the log has the reason.
    template <class Number> EncoderOptions &device(Number value) { return detail::assign(raw_.device, value, "rz_encoder_params.device"), *this; }
    /// Element type to which float matrices are quantized, as rz_model_params.quantize; RZ_TYPE_DEFAULT: the
    /// matrices keep the types of the file.
    template <class Number> EncoderOptions &quantize(Number value) { return detail::assign(raw_.quantize, value, "rz_encoder_params.quantize"), *this; }
    /// Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096.
    template <class Number> EncoderOptions &max_rows(Number value) { return detail::assign(raw_.max_rows, value, "rz_encoder_params.max_rows"), *this; }
    rz_encoder_params *operator->() noexcept { return &raw_; }
    operator const rz_encoder_params &() const {
        return raw_;
    }

private:
    mutable rz_encoder_params raw_ = params<rz_encoder_params>();
};

/// An rz_media_params whose numbers are checked and whose texts are kept: `MediaOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class MediaOptions {
public:
    /// Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the
    /// model's.
    template <class Number> MediaOptions &min_rows(Number value) { return detail::assign(raw_.min_rows, value, "rz_media_params.min_rows"), *this; }
    /// Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's.
    template <class Number> MediaOptions &max_rows(Number value) { return detail::assign(raw_.max_rows, value, "rz_media_params.max_rows"), *this; }
    /// Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image.
    template <class Number> MediaOptions &max_tiles(Number value) { return detail::assign(raw_.max_tiles, value, "rz_media_params.max_tiles"), *this; }
    /// Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million.
    template <class Number> MediaOptions &max_pixels(Number value) { return detail::assign(raw_.max_pixels, value, "rz_media_params.max_pixels"), *this; }
    /// RZ_ENCODE_STEPS, or 0.
    template <class Number> MediaOptions &flags(Number value) { return detail::assign(raw_.flags, value, "rz_media_params.flags"), *this; }
    /// Background color of transparent pixels, 0xffRRGGBB; 0: white.
    template <class Number> MediaOptions &background(Number value) { return detail::assign(raw_.background, value, "rz_media_params.background"), *this; }
    rz_media_params *operator->() noexcept { return &raw_; }
    operator const rz_media_params &() const {
        return raw_;
    }

private:
    mutable rz_media_params raw_ = params<rz_media_params>();
};

/// An rz_job_params whose numbers are checked and whose texts are kept: `JobOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class JobOptions {
public:
    /// Maximum number of tokens to generate; 0: until the cache is full.
    template <class Number> JobOptions &max_tokens(Number value) { return detail::assign(raw_.max_tokens, value, "rz_job_params.max_tokens"), *this; }
    /// Stop sequences: strings that end the text, UTF-8 and NUL-terminated, not empty. Copied. The text ends
    /// before the first complete stop sequence, independent of token boundaries. If two stop sequences end at the
    /// same character, the text ends before the longer stop sequence.
    JobOptions &stops(const std::vector<std::string> &texts) {
        stops_.resize(texts.size());
        for (size_t i = 0; i < texts.size(); i++) detail::keep(stops_[i], texts[i], "rz_job_params.stops");
        return *this;
    }
    /// 0.
    template <class Number> JobOptions &flags(Number value) { return detail::assign(raw_.flags, value, "rz_job_params.flags"), *this; }
    /// Source of draft tokens for speculative decoding, RZ_DRAFT_...
    template <class Number> JobOptions &draft(Number value) { return detail::assign(raw_.draft, value, "rz_job_params.draft"), *this; }
    /// Maximum number of draft tokens per step; values above 32 count as 32; 0: 16.
    template <class Number> JobOptions &draft_max(Number value) { return detail::assign(raw_.draft_max, value, "rz_job_params.draft_max"), *this; }
    /// Number of most likely tokens to keep with each generated token, for rz_job_logprobs_into, at most 32;
    /// RZ_NONE: only the log probability of the token itself; 0: none.
    template <class Number> JobOptions &logprobs(Number value) { return detail::assign(raw_.logprobs, value, "rz_job_params.logprobs"), *this; }
    /// Scheduling priority among the jobs of rz_jobs_step: higher first; may be negative; 0: normal.
    template <class Number> JobOptions &priority(Number value) { return detail::assign(raw_.priority, value, "rz_job_params.priority"), *this; }
    /// Conversation whose reply the job generates, as the JSON of rz_chat_tokenize_into (`chat_len` bytes). The
    /// prompt must end with the tokens of this conversation. The job returns its reply in parts, with
    /// rz_job_next_into instead of rz_job_text_into, and `stops` apply only to the content of the reply, not to
    /// reasoning, tool calls and tags. NULL: the job returns a text.
    JobOptions &chat(std::string_view text) { return chat_ = text, *this; }
    /// Index of the first token of `prompt` to append, as `first` of rz_prefill_prompt.
    template <class Number> JobOptions &prompt_first(Number value) { return detail::assign(raw_.prompt_first, value, "rz_job_params.prompt_first"), *this; }
    rz_job_params *operator->() noexcept { return &raw_; }
    operator const rz_job_params &() const {
        if (!stops_.empty()) {
            stops_list_.clear();
            for (const std::string &text : stops_) stops_list_.push_back(text.c_str());
            raw_.stops = stops_list_.data(), raw_.n_stops = stops_.size();
        }
        if (chat_) raw_.chat = chat_->data(), raw_.chat_len = chat_->size();
        return raw_;
    }

private:
    mutable rz_job_params raw_ = params<rz_job_params>();
    std::vector<std::string> stops_;
    mutable std::vector<const char *> stops_list_;
    std::optional<std::string> chat_;
};

/// An rz_store_params whose numbers are checked and whose texts are kept: `StoreOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class StoreOptions {
public:
    /// Minimum length in tokens of prefixes to keep and to look up; 0: 64.
    template <class Number> StoreOptions &min_tokens(Number value) { return detail::assign(raw_.min_tokens, value, "rz_store_params.min_tokens"), *this; }
    /// Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that
    /// a prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take
    /// additional memory: up to a quarter of the limit, or one larger prefix.
    template <class Number> StoreOptions &memory_limit(Number value) { return detail::assign(raw_.memory_limit, value, "rz_store_params.memory_limit"), *this; }
    /// Path of a folder for files, NUL-terminated. A missing folder is created, accessible by this user only.
    /// NULL: prefixes that do not fit in memory are dropped. Each prefix is written about two seconds after it was
    /// stored, so that it survives a crash and other processes see it. The file of a longer prefix replaces the
    /// file of a shorter prefix that it contains; other processes then find the shorter prefix in the longer file.
    /// A prefix that cannot be written stays in memory, with a line in the log. Several stores and processes of
    /// one user may share the folder, also for different models. Files in the folder influence answers: on Unix a
    /// folder is rejected if another user owns it, or if its group or others may write to it. A store with a
    /// folder has its own writer thread, whatever the number of threads of the runtime, so rz_store_put and steps
    /// do not wait until a prefix is written. Lookups (rz_store_take, the start of a reply) read files, and
    /// rz_store_free writes the prefixes that are left. In a child made with fork(), which lacks that thread,
    /// rz_store_put and steps of conversations write the prefixes themselves, unless a prefix was written less
    /// than two seconds ago.
    StoreOptions &path(std::string_view text) { return detail::keep(path_.emplace(), text, "rz_store_params.path"), *this; }
    /// Maximum number of prefixes in memory; 0: 1,024.
    template <class Number> StoreOptions &max_entries(Number value) { return detail::assign(raw_.max_entries, value, "rz_store_params.max_entries"), *this; }
    /// Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of
    /// the free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that
    /// are being written.
    template <class Number> StoreOptions &disk_limit(Number value) { return detail::assign(raw_.disk_limit, value, "rz_store_params.disk_limit"), *this; }
    rz_store_params *operator->() noexcept { return &raw_; }
    operator const rz_store_params &() const {
        if (path_) raw_.path = path_->c_str();
        return raw_;
    }

private:
    mutable rz_store_params raw_ = params<rz_store_params>();
    std::optional<std::string> path_;
};

/// An rz_reply_params whose numbers are checked and whose texts are kept: `ReplyOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class ReplyOptions {
public:
    /// Maximum number of tokens to generate, including reasoning; 0: until the cache is full.
    template <class Number> ReplyOptions &max_tokens(Number value) { return detail::assign(raw_.max_tokens, value, "rz_reply_params.max_tokens"), *this; }
    /// Sampler. NULL: the recommendation of the model's authors (rz_model_sampling_get), with the temperature
    /// before the filters and the number of the reply as seed; greedy if the authors recommend nothing.
    ReplyOptions &sampler(const SamplingOptions &options) { return sampler_ = options, *this; }
    /// Kind of the grammar for the content, which comes after the reasoning: RZ_GRAMMAR_..., except
    /// RZ_GRAMMAR_TOOLS; 0: any text. The first grammar of a model takes tens of milliseconds more than later
    /// grammars (rz_grammar_new). If the conversation has tools and its "tool_choice" is not "none", tool calls
    /// follow the grammar of RZ_GRAMMAR_TOOLS. With a grammar for the content too, the reply is either tool calls
    /// or that content; "required" and a named tool allow only tool calls.
    template <class Number> ReplyOptions &grammar_kind(Number value) { return detail::assign(raw_.grammar_kind, value, "rz_reply_params.grammar_kind"), *this; }
    /// Flags of the grammar: RZ_GRAMMAR_FLAG_... bits, combined with |.
    template <class Number> ReplyOptions &grammar_flags(Number value) { return detail::assign(raw_.grammar_flags, value, "rz_reply_params.grammar_flags"), *this; }
    /// Flag of a reply: if the reply is abandoned, its tokens so far become a message with "finish_reason":
    /// "cancelled"; a reply without tokens leaves no message. Without the flag, an abandoned reply leaves no
    /// message. rz_conversation_stop does not need the flag.
    ReplyOptions &keep(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_REPLY_KEEP, on), *this; }
    /// Flag of a reply: continues the last message, which must be a reply with the "finish_reason" "length",
    /// "context" or "cancelled". rz_conversation_next_into returns only the new parts. If that reply broke off
    /// within a tool call, the call is completed.
    ReplyOptions &go_on(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_REPLY_CONTINUE, on), *this; }
    /// Text of the grammar, `grammar_len` bytes.
    ReplyOptions &grammar(std::string_view text) { return grammar_ = text, *this; }
    /// Stop sequences that end the content, UTF-8 and NUL-terminated, as in rz_job_params.
    ReplyOptions &stops(const std::vector<std::string> &texts) {
        stops_.resize(texts.size());
        for (size_t i = 0; i < texts.size(); i++) detail::keep(stops_[i], texts[i], "rz_reply_params.stops");
        return *this;
    }
    /// RZ_REASONING_...
    template <class Number> ReplyOptions &reasoning(Number value) { return detail::assign(raw_.reasoning, value, "rz_reply_params.reasoning"), *this; }
    /// Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
    /// tokens that complete a character, the library inserts the end of reasoning, and the model continues with
    /// its answer. Ignored for a model that does not reason, and if `max_tokens` leaves no tokens for an answer.
    template <class Number> ReplyOptions &reasoning_tokens(Number value) { return detail::assign(raw_.reasoning_tokens, value, "rz_reply_params.reasoning_tokens"), *this; }
    /// Speculative decoding, as in rz_job_params.
    template <class Number> ReplyOptions &draft(Number value) { return detail::assign(raw_.draft, value, "rz_reply_params.draft"), *this; }
    template <class Number> ReplyOptions &draft_max(Number value) { return detail::assign(raw_.draft_max, value, "rz_reply_params.draft_max"), *this; }
    /// Number of most likely tokens to keep with each token of content, for rz_conversation_logprobs_into, at most
    /// 32; RZ_NONE: only the log probability of the token itself; 0: none.
    template <class Number> ReplyOptions &logprobs(Number value) { return detail::assign(raw_.logprobs, value, "rz_reply_params.logprobs"), *this; }
    /// Scheduling priority among the replies of rz_conversations_step, as in rz_job_params.
    template <class Number> ReplyOptions &priority(Number value) { return detail::assign(raw_.priority, value, "rz_reply_params.priority"), *this; }
    /// Tools and template variables for this reply only: a JSON object of `json_len` bytes with the members that
    /// rz_chat_tokenize_into takes, except "messages". "tools" replaces the tools of the conversation; [] means no
    /// tools, and then "tool_choice" must be set too if the conversation's is "required" or names a tool.
    /// "tool_choice" and "parallel_tool_calls" replace the conversation's. "variables" are set in addition to the
    /// conversation's. NULL: as in the conversation.
    ReplyOptions &json(std::string_view text) { return json_ = text, *this; }
    rz_reply_params *operator->() noexcept { return &raw_; }
    operator const rz_reply_params &() const {
        if (sampler_) raw_.sampler = &static_cast<const rz_sampler_params &>(*sampler_);
        if (grammar_) raw_.grammar = grammar_->data(), raw_.grammar_len = grammar_->size();
        if (!stops_.empty()) {
            stops_list_.clear();
            for (const std::string &text : stops_) stops_list_.push_back(text.c_str());
            raw_.stops = stops_list_.data(), raw_.n_stops = stops_.size();
        }
        if (json_) raw_.json = json_->data(), raw_.json_len = json_->size();
        return raw_;
    }

private:
    mutable rz_reply_params raw_ = params<rz_reply_params>();
    std::optional<SamplingOptions> sampler_;
    std::optional<std::string> grammar_;
    std::vector<std::string> stops_;
    mutable std::vector<const char *> stops_list_;
    std::optional<std::string> json_;
};

/// An rz_embed_params whose numbers are checked and whose texts are kept: `EmbedOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class EmbedOptions {
public:
    /// RZ_POOLING_...; 0: the model's.
    template <class Number> EmbedOptions &pooling(Number value) { return detail::assign(raw_.pooling, value, "rz_embed_params.pooling"), *this; }
    /// Flag of rz_embed_params: embeddings keep their length, instead of L2 normalization to length 1.
    EmbedOptions &raw(bool on = true) noexcept { return detail::set_flag(raw_.flags, RZ_EMBED_RAW, on), *this; }
    rz_embed_params *operator->() noexcept { return &raw_; }
    operator const rz_embed_params &() const {
        return raw_;
    }

private:
    mutable rz_embed_params raw_ = params<rz_embed_params>();
};

/// An rz_conversation_params whose numbers are checked and whose texts are kept: `ConversationOptions()` with what
/// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.
class ConversationOptions {
public:
    /// RZ_OVERFLOW_...
    template <class Number> ConversationOptions &overflow(Number value) { return detail::assign(raw_.overflow, value, "rz_conversation_params.overflow"), *this; }
    /// Initial state: the JSON of rz_chat_tokenize_into, `json_len` bytes; "messages" may be absent. NULL: empty.
    ConversationOptions &json(std::string_view text) { return json_ = text, *this; }
    /// Parameters of the cache; NULL: the defaults.
    ConversationOptions &cache(const CacheOptions &options) { return cache_ = options, *this; }
    rz_conversation_params *operator->() noexcept { return &raw_; }
    operator const rz_conversation_params &() const {
        if (json_) raw_.json = json_->data(), raw_.json_len = json_->size();
        if (cache_) raw_.cache = &static_cast<const rz_cache_params &>(*cache_);
        return raw_;
    }

private:
    mutable rz_conversation_params raw_ = params<rz_conversation_params>();
    std::optional<std::string> json_;
    std::optional<CacheOptions> cache_;
};

} // namespace realizar

#endif
