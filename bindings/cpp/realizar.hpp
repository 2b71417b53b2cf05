// The C++17 face of realizar.h: owning, move-only handles and exceptions. Everything is inline, nothing is hidden:
// `get()` gives the C handle, parameters and constants are those of the C header, and its rules on threads hold here.
//
//     realizar::Model model("model.gguf");
//     realizar::Cache cache(model);
//     cache.prefill(model.tokenize("Once upon a time"));
//     for (uint32_t token = cache.sample(); !model.is_end(token); token = cache.decode(token)) ...
//
// Functions that run often have a second form that ends with `rz_error &`: it does not throw and returns the status.
#ifndef REALIZAR_HPP
#define REALIZAR_HPP

#include <realizar.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace realizar {

/// A failed call. `code()` is one of RZ_ERR_*, `what()` says what failed and where.
class Error : public std::runtime_error {
public:
    Error(rz_status code, const rz_error &error)
        : std::runtime_error(error.message), code_(code), system_code_(error.system_code) {}
    rz_status code() const noexcept { return code_; }
    /// `errno` of the call that failed, or 0.
    int32_t system_code() const noexcept { return system_code_; }

private:
    rz_status code_;
    int32_t system_code_;
};

/// Zeroed parameters, which are the defaults, with their size filled in.
template <class P> P params() noexcept {
    P p{};
    p.struct_size = sizeof p;
    return p;
}

namespace detail {

inline rz_status check(rz_status status, const rz_error &error) {
    if (status < 0) throw Error(status, error);
    return status;
}

template <auto Free> struct Deleter {
    template <class T> void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, auto Free> using Handle = std::unique_ptr<T, Deleter<Free>>;

/// Sizing in two calls: `call(out, capacity, &needed, &error)` into a container that grows once.
template <class Container, class Call> Container sized(Container out, Call call) {
    rz_error error;
    size_t n = 0;
    rz_status status;
    while ((status = call(out.data(), out.size(), &n, &error)) == RZ_ERR_BUFFER_TOO_SMALL) out.resize(n);
    check(status, error);
    out.resize(n);
    return out;
}

template <class T> auto raw(T *wrapper) noexcept { return wrapper ? wrapper->get() : nullptr; }

template <class Info, class Handle> Info info(rz_status (*get)(Handle, Info *, rz_error *), Handle handle) {
    rz_error error;
    Info info = params<Info>();
    check(get(handle, &info, &error), error);
    return info;
}

} // namespace detail

/// A view of token ids: of a vector, an array, a std::span, whatever has data() and size(). Owns nothing.
class Tokens {
public:
    Tokens(const uint32_t *data, size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class Data = decltype(std::declval<const C &>().data()),
              class = std::enable_if_t<std::is_convertible_v<Data, const uint32_t *>>>
    Tokens(const C &container) noexcept : data_(container.data()), size_(container.size()) {}
    const uint32_t *data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

private:
    const uint32_t *data_;
    size_t size_;
};

/// What there is to compute on; devices()[0] has index 1, the CPU.
inline std::vector<rz_device_info> devices() {
    std::vector<rz_device_info> all(rz_device_count(), params<rz_device_info>());
    rz_error error;
    for (uint32_t i = 0; i < all.size(); i++) detail::check(rz_device_info_get(i + 1, &all[i], &error), error);
    return all;
}

struct Message {
    std::string role, content;
};

/// Stops calls that were given it. `fire` may be called from any thread and from a signal handler.
class Cancel {
public:
    Cancel() {
        rz_error error;
        rz_cancel *cancel;
        detail::check(rz_cancel_new(&cancel, &error), error);
        handle_.reset(cancel);
    }
    void fire() noexcept { rz_cancel_fire(get()); }
    void reset() noexcept { rz_cancel_reset(get()); }
    rz_cancel *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_cancel, rz_cancel_free> handle_;
};

/// Worker threads, log and limits, for several models to share.
class Runtime {
public:
    explicit Runtime(const rz_runtime_params &params = realizar::params<rz_runtime_params>()) {
        rz_error error;
        rz_runtime *runtime;
        detail::check(rz_runtime_new(&params, &runtime, &error), error);
        handle_.reset(runtime);
    }
    rz_runtime *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_runtime, rz_runtime_free> handle_;
};

/// Weights, tokenizer and chat template of one model. Immutable: every member may be called from many threads at once.
class Model {
public:
    explicit Model(const std::string &path, const rz_model_params &params = realizar::params<rz_model_params>()) {
        rz_error error;
        rz_model *model;
        detail::check(rz_model_load(path.c_str(), &params, &model, &error), error);
        handle_.reset(model);
    }
    rz_model_info info() const { return detail::info<rz_model_info, const rz_model *>(rz_model_info_get, get()); }
    rz_metrics metrics() const { return detail::info<rz_metrics, const rz_model *>(rz_metrics_get, get()); }
    /// A metadata value of the file as text.
    std::string meta(const std::string &key) const {
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_model_meta_into(get(), key.c_str(), out, capacity, n, error);
        });
    }
    /// `flags`: RZ_TOKENIZE_*
    std::vector<uint32_t> tokenize(std::string_view text, uint32_t flags = RZ_TOKENIZE_ADD_SPECIAL) const {
        std::vector<uint32_t> tokens(text.size() + 2);
        return detail::sized(std::move(tokens), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_tokenize_into(get(), text.data(), text.size(), flags, out, capacity, n, error);
        });
    }
    /// `flags`: RZ_DETOKENIZE_*
    std::string detokenize(Tokens tokens, uint32_t flags = 0) const {
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_detokenize_into(get(), tokens.data(), tokens.size(), flags, out, capacity, n, error);
        });
    }
    /// The conversation in the words of the model's own template; tokenize it with RZ_TOKENIZE_PARSE_SPECIAL.
    std::string render_chat(const std::vector<Message> &messages,
                            uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        std::vector<rz_chat_message> raw;
        raw.reserve(messages.size());
        for (const Message &message : messages) raw.push_back({message.role.c_str(), message.content.c_str()});
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_chat_render_into(get(), raw.data(), raw.size(), flags, out, capacity, n, error);
        });
    }
    /// Whether the token ends a turn or a text.
    bool is_end(uint32_t token) const noexcept { return rz_token_is_end(get(), token) != 0; }
    rz_model *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_model, rz_model_free> handle_;
};

/// How the next token is chosen. Where a `Sampler *` may be null, null means the most likely token.
class Sampler {
public:
    explicit Sampler(const rz_sampler_params &params = realizar::params<rz_sampler_params>()) {
        rz_error error;
        rz_sampler *sampler;
        detail::check(rz_sampler_new(&params, &sampler, &error), error);
        handle_.reset(sampler);
    }
    rz_sampler *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_sampler, rz_sampler_free> handle_;
};

/// One timeline of tokens with its keys and values. It keeps its model alive.
class Cache {
public:
    explicit Cache(const Model &model, const rz_cache_params &params = realizar::params<rz_cache_params>()) {
        rz_error error;
        rz_cache *cache;
        detail::check(rz_cache_new(model.get(), &params, &cache, &error), error);
        handle_.reset(cache);
    }
    uint32_t size() const noexcept { return rz_cache_len(get()); }
    uint32_t capacity() const noexcept { return rz_cache_capacity(get()); }
    /// Goes back to the first `len` tokens.
    void truncate(uint32_t len) {
        rz_error error;
        detail::check(rz_cache_truncate(get(), len, &error), error);
    }
    /// A second timeline with the same past.
    Cache fork() const {
        rz_error error;
        rz_cache *cache;
        detail::check(rz_cache_fork(get(), &cache, &error), error);
        return Cache(cache);
    }

    /// Appends tokens; afterwards the logits of the last one are there.
    void prefill(Tokens tokens, const Cancel *cancel = nullptr) {
        rz_error error;
        detail::check(prefill(tokens, cancel, error), error);
    }
    rz_status prefill(Tokens tokens, const Cancel *cancel, rz_error &error) noexcept {
        return rz_prefill(get(), tokens.data(), tokens.size(), detail::raw(cancel), &error);
    }

    /// Chooses a token from the current logits.
    uint32_t sample(Sampler *sampler = nullptr) {
        rz_error error;
        uint32_t token = 0;
        detail::check(sample(sampler, token, error), error);
        return token;
    }
    rz_status sample(Sampler *sampler, uint32_t &token, rz_error &error) noexcept {
        return rz_sample(detail::raw(sampler), get(), &token, &error);
    }

    /// Appends a token and chooses the next one.
    uint32_t decode(uint32_t token, Sampler *sampler = nullptr) {
        rz_error error;
        uint32_t next = 0;
        detail::check(decode(token, sampler, next, error), error);
        return next;
    }
    rz_status decode(uint32_t token, Sampler *sampler, uint32_t &next, rz_error &error) noexcept {
        return rz_decode_token(get(), token, detail::raw(sampler), &next, &error);
    }

    /// Appends a token and goes on for up to `max_tokens`; fewer came where the last one is an end token.
    std::vector<uint32_t> generate(uint32_t token, size_t max_tokens, Sampler *sampler = nullptr,
                                   const Cancel *cancel = nullptr) {
        rz_error error;
        std::vector<uint32_t> out(max_tokens);
        size_t n = 0;
        detail::check(generate(token, sampler, out.data(), out.size(), n, cancel, error), error);
        out.resize(n);
        return out;
    }
    /// RZ_DONE: the last of the `n` tokens in `out` is an end token.
    rz_status generate(uint32_t token, Sampler *sampler, uint32_t *out, size_t capacity, size_t &n,
                       const Cancel *cancel, rz_error &error) noexcept {
        return rz_generate_into(get(), token, detail::raw(sampler), out, capacity, &n, detail::raw(cancel), &error);
    }

    /// One value a token of the vocabulary, after the last token.
    std::vector<float> logits() const {
        return detail::sized(std::vector<float>(), [&](float *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_logits_into(get(), out, capacity, n, error);
        });
    }
    rz_cache *get() const noexcept { return handle_.get(); }

private:
    explicit Cache(rz_cache *cache) noexcept : handle_(cache) {}

    detail::Handle<rz_cache, rz_cache_free> handle_;
};

/// Turns tokens into text, holding back bytes until they are whole UTF-8 characters.
class TextStream {
public:
    explicit TextStream(const Model &model) {
        rz_error error;
        rz_textstream *stream;
        detail::check(rz_textstream_new(model.get(), &stream, &error), error);
        handle_.reset(stream);
    }
    /// The text that the token completes, often empty for a part of a character. Valid until the next call.
    std::string_view push(uint32_t token) {
        return piece([&](size_t *n, rz_error *error) {
            return rz_textstream_push_into(get(), token, piece_.data(), piece_.size(), n, error);
        });
    }
    /// What was held back, at the end of a text. Valid until the next call.
    std::string_view flush() {
        return piece([&](size_t *n, rz_error *error) {
            return rz_textstream_flush_into(get(), piece_.data(), piece_.size(), n, error);
        });
    }
    rz_textstream *get() const noexcept { return handle_.get(); }

private:
    template <class Call> std::string_view piece(Call call) {
        rz_error error;
        size_t n = 0;
        rz_status status;
        while ((status = call(&n, &error)) == RZ_ERR_BUFFER_TOO_SMALL) piece_.resize(n);
        detail::check(status, error);
        return std::string_view(piece_).substr(0, n);
    }

    detail::Handle<rz_textstream, rz_textstream_free> handle_;
    std::string piece_ = std::string(64, '\0');
};

} // namespace realizar

#endif
