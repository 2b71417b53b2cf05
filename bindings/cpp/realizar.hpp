// C++17 binding of realizar.h: header-only, owning, move-only handles (RAII). `get()` returns the C handle; parameters,
// constants and thread rules are the C header's.
//
//     realizar::Model model("model.gguf");
//     realizar::Cache cache(model);
//     cache.prefill(model.tokenize("Once upon a time"));
//     for (uint32_t token = cache.sample(); !model.is_end(token); token = cache.decode(token)) ...
//
// Constructors and members throw realizar::Error. Each has a variant that returns a realizar::Result (`Model::load`,
// `Cache::make`, `try_prefill`, ...), for use with -fno-exceptions.
#ifndef REALIZAR_HPP
#define REALIZAR_HPP

#include <realizar.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace realizar {

/// A failed call. `code()` is one of RZ_ERR_*, `what()` the message. Each code has its own class, such as IoError and
/// CancelledError.
class Error : public std::runtime_error {
public:
    explicit Error(const rz_error &error)
        : std::runtime_error(error.message), code_(error.code), system_code_(error.system_code), needed_(error.needed) {}
    rz_status code() const noexcept { return code_; }
    /// Name of the code, such as "RZ_ERR_FORMAT".
    const char *name() const noexcept { return rz_status_name(code_); }
    /// `errno` of the call that failed, or 0.
    int32_t system_code() const noexcept { return system_code_; }
    /// Context length in tokens that would suffice, for RZ_ERR_CONTEXT_FULL; 0 for other errors.
    uint64_t needed() const noexcept { return needed_; }

private:
    rz_status code_;
    int32_t system_code_;
    uint64_t needed_;
};

/// A generation that failed: has the tokens generated before; all but the last are in the KV cache.
class GenerateError : public Error {
public:
    GenerateError(const rz_error &error, std::vector<uint32_t> tokens) : Error(error), tokens_(std::move(tokens)) {}
    const std::vector<uint32_t> &tokens() const noexcept { return tokens_; }

private:
    std::vector<uint32_t> tokens_;
};

/// Returns the default parameters: `struct_size` is set, all other fields are zero.
template <class P> P params() noexcept {
    P p{};
    p.struct_size = sizeof p;
    return p;
}

namespace detail {

/// Throws an exception, or terminates the process if the program is compiled without exceptions.
template <class E> [[noreturn]] void raise(const E &error) {
#ifdef __cpp_exceptions
    throw error;
#else
    (void)error;
    std::terminate();
#endif
}

} // namespace detail

} // namespace realizar

#include "realizar_types.hpp"

namespace realizar {

/// The value that a call returns, or the error of the call.
template <class T> class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}
    Result(const rz_error &error) : error_(error) {}
    explicit operator bool() const noexcept { return value_.has_value(); }
    /// RZ_OK, or one of RZ_ERR_*.
    rz_status status() const noexcept { return error_.code; }
    const rz_error &error() const noexcept { return error_; }
    /// Returns the value, or throws the error.
    T &value() & { return *check(); }
    T &&value() && { return std::move(*check()); }
    /// The value. Undefined if the call failed.
    T &operator*() noexcept { return *value_; }
    T *operator->() noexcept { return &*value_; }
    const T &operator*() const noexcept { return *value_; }
    const T *operator->() const noexcept { return &*value_; }

private:
    std::optional<T> &check() {
        if (!value_) detail::fail(error_);
        return value_;
    }

    std::optional<T> value_;
    rz_error error_{};
};

/// The tokens of a generation; if it failed, the tokens before the error.
struct [[nodiscard]] Generated {
    std::vector<uint32_t> tokens;
    /// RZ_DONE: the last token ends a turn or the text. Negative: `error` is the reason for the end.
    rz_status status;
    rz_error error;
};

namespace detail {

template <auto Free> struct Deleter {
    template <class T> void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, auto Free> using Handle = std::unique_ptr<T, Deleter<Free>>;

/// Rejects a library whose ABI differs from the header's; a loader may find one under the same name.
inline rz_status check_interface(rz_error *error) noexcept {
    if (rz_abi_version() == RZ_ABI_VERSION) return RZ_OK;
    error->code = RZ_ERR_VERSION;
    error->system_code = 0;
    error->needed = 0;
    std::snprintf(error->message, sizeof error->message, "librealizar %s has the interface %u, %u is needed", rz_version(),
                  static_cast<unsigned>(rz_abi_version()), static_cast<unsigned>(RZ_ABI_VERSION));
    return error->code;
}

/// Returns a `Value` made from the handle that `call(out, error)` writes.
template <class Value, class Out = Value, class Call> Result<Value> called(Call call, Out out = Out()) {
    rz_error error;
    if (call(&out, &error) < 0) return error;
    return Value(std::move(out));
}

/// Calls `call(out, capacity, &needed, &error)` with a container, and again with the needed size.
template <class Container, class Call> Result<Container> sized(Container out, Call call) {
    rz_error error;
    size_t n = 0;
    rz_status status;
    // An empty container may have no memory; NULL asks for the size.
    while ((status = call(out.data(), out.size(), &n, &error)) == RZ_ERR_BUFFER_TOO_SMALL || (status >= 0 && n > out.size()))
        out.resize(n);
    if (status < 0) return error;
    out.resize(n);
    return out;
}

/// Returns the text that `call(out, capacity, &needed, &error)` writes to a reused buffer, which grows on demand.
template <class Call> Result<std::string_view> read(std::string &buffer, Call call) {
    rz_error error;
    size_t n = 0;
    rz_status status;
    while ((status = call(buffer.data(), buffer.size(), &n, &error)) == RZ_ERR_BUFFER_TOO_SMALL) buffer.resize(n);
    if (status < 0) return error;
    return std::string_view(buffer).substr(0, n);
}

/// Returns an argument error that the library cannot detect, because it gets only a part of the argument.
inline rz_status refuse(rz_error *error, const char *what) noexcept {
    error->code = RZ_ERR_INVALID_ARGUMENT;
    error->system_code = 0;
    error->needed = 0;
    std::snprintf(error->message, sizeof error->message, "%s has a NUL; it must have none", what);
    return error->code;
}

/// A callback. An exception that it throws ends the call; `rethrow` then rethrows it.
template <class Function> class Callback {
public:
    explicit Callback(Function &function) noexcept : function_(&function) {}
    /// Returns the result of `call(function)`, or `failure` if it throws.
    template <class Call> int32_t run(int32_t failure, Call call) noexcept {
#ifdef __cpp_exceptions
        try {
            return call(*function_);
        } catch (...) {
            thrown_ = std::current_exception();
            return failure;
        }
#else
        (void)failure;
        return call(*function_);
#endif
    }
    /// Returns the result of the call, or rethrows the exception of the callback.
    template <class Made> Made rethrow(Made made) {
#ifdef __cpp_exceptions
        if (thrown_) std::rethrow_exception(thrown_);
#endif
        return made;
    }
    /// The C function of a reading or writing callback, which is its `user`.
    template <class Data> static int32_t move(Data data, size_t n, void *user) noexcept {
        return static_cast<Callback *>(user)->run(EIO, [&](Function &function) -> int32_t { return function(data, n); });
    }

private:
    Function *function_;
    std::exception_ptr thrown_;
};

/// Returns the status of `call(error)`, or its error.
template <class Call> Result<rz_status> done(Call call) {
    rz_error error;
    const rz_status status = call(&error);
    if (status < 0) return error;
    return status;
}

/// Appends a text as a JSON string.
inline void quote(std::string &json, std::string_view text) {
    json += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') json += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) {
            json += c;
        } else {
            json += {'\\', 'u', '0', '0', static_cast<char>('0' + (c >> 4)), "0123456789abcdef"[c & 15]};
        }
    }
    json += '"';
}

/// Passes the parts of a reply, from `next(&kind, &index, out, capacity, &needed, &error)`, to `each(kind, index,
/// text)`.
template <class Next, class Each> Result<rz_status> parts(std::string &buffer, Next next, Each &each) {
    for (;;) {
        uint32_t kind = 0, flags = 0, index = 0;
        auto text = read(buffer, [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return next(&kind, &flags, &index, out, capacity, n, error);
        });
        if (!text) return text.error();
        if (kind == 0) return RZ_OK;
        each(kind, flags, index, *text);
    }
}

/// The handle of a moved-from object: NULL, which the library rejects by name.
alignas(64) inline unsigned char moved_from[64];

/// Returns the handle of an argument; NULL for a null pointer.
template <class T> auto raw(T *wrapper) noexcept -> decltype(wrapper->get()) {
    using Pointer = decltype(wrapper->get());
    if (!wrapper || wrapper->get()) return wrapper ? wrapper->get() : nullptr;
    return reinterpret_cast<Pointer>(moved_from);
}

/// Returns the handles of a list. A null pointer is rejected like a moved-from object.
template <class T> auto all_raw(const std::vector<T *> &list) {
    std::vector<decltype(list[0]->get())> handles;
    handles.reserve(list.size());
    for (T *one : list) handles.push_back(one ? raw(one) : reinterpret_cast<decltype(one->get())>(moved_from));
    return handles;
}

} // namespace detail

/// Non-owning view of token ids: a vector, an array, a std::span, anything with data() and size(), or a braced list,
/// which lives until the end of the call.
class Tokens {
public:
    Tokens(const uint32_t *data, size_t size) noexcept : data_(data), size_(size) {}
    Tokens(std::initializer_list<uint32_t> list) noexcept : Tokens(list.begin(), list.size()) {}
    template <class C, class Data = decltype(std::declval<const C &>().data()),
              class = std::enable_if_t<std::is_convertible_v<Data, const uint32_t *>>>
    Tokens(const C &container) noexcept : Tokens(container.data(), container.size()) {}
    const uint32_t *data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

private:
    const uint32_t *data_;
    size_t size_;
};

/// NUL-terminated text: a view of a literal or a std::string, a copy of a std::string_view or a std::filesystem::path.
/// Calls reject a text that contains a NUL.
class Text {
public:
    Text(const char *text) : view_(text ? text : ""), is_null_(!text) {}
    Text(const std::string &text) noexcept : view_(text) {}
    Text(std::string_view text) : copy_(text), view_(copy_) {}
    template <class Path, class = decltype(std::declval<const Path &>().u8string())> Text(const Path &path) {
        for (const auto byte : path.u8string()) copy_ += static_cast<char>(byte);
        view_ = copy_;
    }
    Text(const Text &) = delete;
    Text &operator=(const Text &) = delete;
    const char *c_str() const noexcept { return view_.data(); }
    /// Rejects a text that C would truncate; `what` names it.
    rz_status check(rz_error *error, const char *what) const noexcept {
        if (!is_null_) return view_.find('\0') == view_.npos ? RZ_OK : detail::refuse(error, what);
        detail::refuse(error, what);
        std::snprintf(error->message, sizeof error->message, "%s is null; it must be set", what);
        return error->code;
    }

private:
    std::string copy_;
    std::string_view view_;
    bool is_null_ = false;
};

/// The devices to compute on; devices()[0] has index 1, the CPU.
inline Result<std::vector<rz_device_info>> try_devices() {
    std::vector<rz_device_info> all(rz_device_count(), params<rz_device_info>());
    for (uint32_t i = 0; i < all.size(); i++) {
        rz_error error;
        if (rz_device_info_get(i + 1, &all[i], &error) < 0) return error;
    }
    return all;
}
inline std::vector<rz_device_info> devices() { return try_devices().value(); }

/// Returns the files of a model of the Hugging Face Hub, as the JSON of rz_hub_choose_into. `model`: "hf:owner/name" or
/// "hf:owner/name:quantization"; `listing`: the Hub's response; `memory`: free bytes, 0: unknown; `flags`: RZ_HUB_*.
inline Result<std::string> try_hub_choose(std::string_view model, std::string_view listing, uint64_t memory = 0, uint32_t flags = 0) {
    return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
        const char *at = listing.data() ? listing.data() : "";
        return rz_hub_choose_into(model.data(), model.size(), at, listing.size(), memory, flags, out, capacity, n, error);
    });
}
inline std::string hub_choose(std::string_view model, std::string_view listing, uint64_t memory = 0, uint32_t flags = 0) {
    return try_hub_choose(model, listing, memory, flags).value();
}

struct Message {
    std::string role, content;
};

/// Returns messages as the JSON of a conversation.
inline std::string conversation(const std::vector<Message> &messages) {
    std::string json = "{\"messages\": [";
    for (const Message &message : messages) {
        json += json.back() == '[' ? "{\"role\": " : ", {\"role\": ";
        detail::quote(json, message.role);
        json += ", \"content\": ";
        detail::quote(json, message.content);
        json += '}';
    }
    return json += "]}";
}

/// A time from now: any duration (negative: 0), or `no_limit`.
class Limit {
public:
    constexpr Limit() noexcept = default;
    template <class Rep, class Period>
    constexpr Limit(std::chrono::duration<Rep, Period> time) noexcept : us_(microseconds(time)) {}
    constexpr uint64_t us() const noexcept { return us_; }

private:
    template <class Rep, class Period>
    static constexpr uint64_t microseconds(std::chrono::duration<Rep, Period> time) noexcept {
        const double us = std::chrono::duration<double, std::micro>(time).count();
        if (!(us > 0)) return 0;
        if (us >= 18446744073709551615.0) return RZ_NO_LIMIT - 1;
        const auto whole = static_cast<uint64_t>(us);
        return whole + (static_cast<double>(whole) < us);
    }

    uint64_t us_ = RZ_NO_LIMIT;
};
inline constexpr Limit no_limit;

/// Stops the calls that use it. `fire` may be called from any thread and from a signal handler.
class Cancel {
public:
    Cancel() : Cancel(make().value()) {}
    explicit Cancel(rz_cancel *owned) noexcept : handle_(owned) {}
    static Result<Cancel> make() { return detail::called<Cancel, rz_cancel *>(rz_cancel_new); }
    void fire() noexcept { rz_cancel_fire(get()); }
    void reset() noexcept { rz_cancel_reset(get()); }
    /// True if it was fired or its deadline has passed.
    bool is_fired() const noexcept { return rz_cancel_is_fired(get()) != 0; }
    /// Sets a deadline, after which calls fail with RZ_ERR_DEADLINE; at once if not positive. `no_limit` removes it.
    void deadline(Limit from_now) { try_deadline(from_now).value(); }
    Result<rz_status> try_deadline(Limit from_now) {
        return detail::done([&](rz_error *error) { return rz_cancel_deadline(get(), from_now.us(), error); });
    }
    rz_cancel *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_cancel, rz_cancel_free> handle_;
};

/// Replaces the worker threads by `parallel(n, share)`, which must call `share(i)` for each i below n, in any order and
/// concurrency, and return when all have returned. It is not copied, must not throw, and must outlive the runtime and
/// its models.
template <class Parallel> void set_parallel(rz_runtime_params &params, Parallel &parallel) noexcept {
    params.parallel_user = &parallel;
    params.parallel = [](uint32_t n, rz_chunk_callback share, void *context, void *user) noexcept -> int32_t {
        (*static_cast<Parallel *>(user))(n, [=](uint32_t i) { share(i, context); });
        return 0;
    };
}

/// Worker threads, log and limits that several models may share.
class Runtime {
public:
    explicit Runtime(const rz_runtime_params &params = realizar::params<rz_runtime_params>())
        : Runtime(make(params).value()) {}
    explicit Runtime(rz_runtime *owned) noexcept : handle_(owned) {}
    static Result<Runtime> make(const rz_runtime_params &params = realizar::params<rz_runtime_params>()) {
        return detail::called<Runtime, rz_runtime *>(
            [&](rz_runtime **out, rz_error *error) {
                const rz_status status = detail::check_interface(error);
                return status < 0 ? status : rz_runtime_new(&params, out, error);
            });
    }
    /// Sets the number of compute threads, from the next step on; 0: as in rz_runtime_params.
    void set_threads(uint32_t threads) { try_set_threads(threads).value(); }
    Result<rz_status> try_set_threads(uint32_t threads) {
        return detail::done([&](rz_error *error) { return rz_runtime_threads_set(get(), threads, error); });
    }
    /// Sets the memory limit in bytes, which may be below current use; 0: none.
    void set_memory_limit(uint64_t bytes) { try_set_memory_limit(bytes).value(); }
    Result<rz_status> try_set_memory_limit(uint64_t bytes) {
        return detail::done([&](rz_error *error) { return rz_runtime_memory_limit_set(get(), bytes, error); });
    }
    /// Returns the number of threads and the memory in use.
    rz_runtime_info info() const {
        auto out = params<rz_runtime_info>();
        detail::done([&](rz_error *error) { return rz_runtime_info_get(get(), &out, error); }).value();
        return out;
    }
    rz_runtime *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_runtime, rz_runtime_free> handle_;
};

/// Makes the library allocate from `allocator`; must precede every other call.
inline Result<rz_status> set_allocator(const rz_allocator &allocator) {
    return detail::done([&](rz_error *error) { return rz_allocator_set(&allocator, error); });
}

/// Sources of Model::load_from. A view: bytes, names and functions must live until the call returns.
inline rz_source memory_source(const void *data, size_t size, const char *name = nullptr) noexcept {
    auto source = params<rz_source>();
    source.kind = RZ_SOURCE_MEMORY, source.data = data, source.size = size, source.name = name;
    return source;
}
/// `size` 0: up to the end of the file.
inline rz_source fd_source(int32_t fd, uint64_t offset = 0, uint64_t size = 0, const char *name = nullptr) noexcept {
    auto source = params<rz_source>();
    source.kind = RZ_SOURCE_FD, source.fd = fd, source.offset = offset, source.size = size, source.name = name;
    return source;
}
/// Creates a source that calls `read(offset, out, n)`, from several threads at once. `read` must fill all `n` bytes and
/// return 0; RZ_ERR_FORMAT if the file is shorter, or an errno. An exception counts as EIO.
template <class Read> rz_source reader_source(Read &read, uint64_t size, const char *name = nullptr) noexcept {
    auto source = params<rz_source>();
    source.kind = RZ_SOURCE_READER, source.size = size, source.name = name, source.user = &read;
    source.read = [](uint64_t offset, void *out, size_t n, void *user) noexcept -> int32_t {
        return detail::Callback<Read>(*static_cast<Read *>(user)).run(EIO, [&](Read &function) -> int32_t { return function(offset, out, n); });
    };
    return source;
}

/// Weights, tokenizer and chat template of one model. Immutable: every member may be called from many threads at once.
class Model {
public:
    explicit Model(const Text &path, const rz_model_params &params = realizar::params<rz_model_params>())
        : Model(load(path, params).value()) {}
    explicit Model(rz_model *owned) noexcept : handle_(owned) {}
    static Result<Model> load(const Text &path,
                              const rz_model_params &params = realizar::params<rz_model_params>()) {
        return detail::called<Model, rz_model *>(
            [&](rz_model **out, rz_error *error) {
                if (detail::check_interface(error) < 0 || path.check(error, "path") < 0) return error->code;
                return rz_model_load(path.c_str(), &params, out, error);
            });
    }
    /// Loads a model from bytes of the caller, each under its file name.
    static Result<Model> load_from(const rz_source *sources, size_t n,
                                   const rz_model_params &params = realizar::params<rz_model_params>()) {
        return detail::called<Model, rz_model *>(
            [&](rz_model **out, rz_error *error) {
                const rz_status status = detail::check_interface(error);
                return status < 0 ? status : rz_model_load_from(sources, n, &params, out, error);
            });
    }

    /// Returns the memory that the model and `n` caches will take, before a weight is read.
    static rz_model_plan plan(const Text &path, const rz_model_params &params = realizar::params<rz_model_params>(),
                              const rz_cache_params &cache_params = realizar::params<rz_cache_params>(),
                              uint32_t n_caches = 1) {
        rz_error error;
        if (path.check(&error, "path") < 0) detail::fail(error);
        return try_plan(path.c_str(), nullptr, 0, params, cache_params, n_caches).value();
    }
    /// The same for a path, or for `n` sources with a null path. `devices` receives the memory of each GPU that has
    /// layers.
    static Result<rz_model_plan> try_plan(const char *path, const rz_source *sources, size_t n,
                                          const rz_model_params &params = realizar::params<rz_model_params>(),
                                          const rz_cache_params &cache_params = realizar::params<rz_cache_params>(),
                                          uint32_t n_caches = 1, std::vector<rz_model_plan_device> *devices = nullptr) {
        std::vector<rz_model_plan_device> parts(devices ? RZ_DEVICES_MAX : 0, realizar::params<rz_model_plan_device>());
        size_t n_parts = 0;
        Result<rz_model_plan> plan = detail::called<rz_model_plan>(
            [&](rz_model_plan *out, rz_error *error) {
                const rz_status status = detail::check_interface(error);
                return status < 0 ? status
                                  : rz_model_plan_get(path, sources, n, &params, &cache_params, n_caches, out, parts.data(),
                                                      parts.size(), &n_parts, error);
            },
            realizar::params<rz_model_plan>());
        if (devices && plan) {
            parts.resize(n_parts);
            *devices = std::move(parts);
        }
        return plan;
    }

    rz_model_info info() const { return try_info().value(); }
    Result<rz_model_info> try_info() const {
        return detail::called<rz_model_info>(
            [&](rz_model_info *out, rz_error *error) { return rz_model_info_get(get(), out, error); },
            params<rz_model_info>());
    }
    /// Returns the GPUs that have layers, in layer order.
    std::vector<rz_model_device> devices() const { return try_devices().value(); }
    Result<std::vector<rz_model_device>> try_devices() const {
        Result<rz_model_info> info = try_info();
        if (!info) return info.error();
        std::vector<rz_model_device> all(info.value().n_devices, params<rz_model_device>());
        for (uint32_t i = 0; i < all.size(); i++) {
            rz_error error;
            if (rz_model_device_get(get(), i, &all[i], &error) < 0) return error;
        }
        return all;
    }
    /// Returns the recommended sampling parameters, which have no effect by themselves.
    rz_model_sampling sampling() const { return try_sampling().value(); }
    Result<rz_model_sampling> try_sampling() const {
        return detail::called<rz_model_sampling>(
            [&](rz_model_sampling *out, rz_error *error) { return rz_model_sampling_get(get(), out, error); },
            params<rz_model_sampling>());
    }
    rz_metrics metrics() const { return try_metrics().value(); }
    Result<rz_metrics> try_metrics() const {
        return detail::called<rz_metrics>(
            [&](rz_metrics *out, rz_error *error) { return rz_metrics_get(get(), out, error); }, params<rz_metrics>());
    }
    /// `device_kind`: RZ_DEVICE_*
    rz_backend_metrics metrics(uint32_t device_kind) const { return try_metrics(device_kind).value(); }
    Result<rz_backend_metrics> try_metrics(uint32_t device_kind) const {
        return detail::called<rz_backend_metrics>(
            [&](rz_backend_metrics *out, rz_error *error) {
                return rz_backend_metrics_get(get(), device_kind, out, error);
            },
            params<rz_backend_metrics>());
    }

    void reset_metrics() const noexcept { rz_metrics_reset(get()); }

    /// Returns a metadata value of the file as text.
    std::string meta(const Text &key) const { return try_meta(key).value(); }
    Result<std::string> try_meta(const Text &key) const {
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            if (key.check(error, "key") < 0) return error->code;
            return rz_model_meta_into(get(), key.c_str(), out, capacity, n, error);
        });
    }
    /// Returns all keys of the metadata, in alphabetical order.
    std::vector<std::string> meta_keys() const { return try_meta_keys().value(); }
    Result<std::vector<std::string>> try_meta_keys() const {
        std::vector<std::string> keys;
        for (;;) {
            auto key = detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
                return rz_model_meta_key_into(get(), keys.size(), out, capacity, n, error);
            });
            if (key.status() == RZ_ERR_NOT_FOUND) return keys; // beyond the last
            if (!key) return key.error();
            keys.push_back(std::move(*key));
        }
    }

    /// Returns the elements of a metadata array as texts.
    std::vector<std::string> meta_list(const Text &key) const { return try_meta_list(key).value(); }
    Result<std::vector<std::string>> try_meta_list(const Text &key) const {
        std::vector<std::string> elements;
        const auto whole = try_meta(key); // so that a missing key is not an empty list
        if (!whole) return whole.error();
        for (;;) {
            auto element = detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
                return rz_model_meta_element_into(get(), key.c_str(), elements.size(), out, capacity, n, error);
            });
            if (element.status() == RZ_ERR_NOT_FOUND) return elements; // beyond the last
            if (!element) return element.error();
            elements.push_back(std::move(*element));
        }
    }

    /// `flags`: RZ_TOKENIZE_*
    std::vector<uint32_t> tokenize(std::string_view text, uint32_t flags = RZ_TOKENIZE_ADD_SPECIAL) const {
        return try_tokenize(text, flags).value();
    }
    Result<std::vector<uint32_t>> try_tokenize(std::string_view text,
                                               uint32_t flags = RZ_TOKENIZE_ADD_SPECIAL) const {
        std::vector<uint32_t> tokens(text.size() + 2);
        return detail::sized(std::move(tokens), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_tokenize_into(get(), text.data(), text.size(), flags, out, capacity, n, nullptr, error);
        });
    }
    /// `flags`: RZ_DETOKENIZE_*
    std::string detokenize(Tokens tokens, uint32_t flags = 0) const { return try_detokenize(tokens, flags).value(); }
    Result<std::string> try_detokenize(Tokens tokens, uint32_t flags = 0) const {
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_detokenize_into(get(), tokens.data(), tokens.size(), flags, out, capacity, n, error);
        });
    }
    /// Returns the bytes of a token, which may be a part of a character. `attributes`: RZ_ATTR_* bits.
    std::string token_bytes(uint32_t token, uint32_t *attributes = nullptr) const {
        return try_token_bytes(token, attributes).value();
    }
    Result<std::string> try_token_bytes(uint32_t token, uint32_t *attributes = nullptr) const {
        return detail::sized(std::string(16, '\0'), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_token_bytes_into(get(), token, out, capacity, n, attributes, error);
        });
    }
    /// Renders messages with the model's chat template, for people to read; tokenize_messages() returns the tokens for
    /// the model.
    std::string render_chat(const std::vector<Message> &messages,
                            uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return try_render_chat(messages, flags).value();
    }
    Result<std::string> try_render_chat(const std::vector<Message> &messages,
                                        uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return try_render_chat_json(conversation(messages), flags);
    }
    /// `render_chat` for a whole conversation in JSON, with tools and variables.
    std::string render_chat_json(std::string_view json, uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return try_render_chat_json(json, flags).value();
    }
    Result<std::string> try_render_chat_json(std::string_view json, uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_chat_render_into(get(), json.data(), json.size(), flags, out, capacity, n, nullptr, error);
        });
    }
    /// Returns the tokens of a conversation in JSON; its text never becomes a special token.
    std::vector<uint32_t> tokenize_chat(std::string_view json, uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return try_tokenize_chat(json, flags).value();
    }
    Result<std::vector<uint32_t>> try_tokenize_chat(std::string_view json,
                                                    uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return detail::sized(std::vector<uint32_t>(), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_chat_tokenize_into(get(), json.data(), json.size(), flags, out, capacity, n, nullptr, error);
        });
    }
    /// `tokenize_chat` for plain messages, up to the beginning of the reply.
    std::vector<uint32_t> tokenize_messages(const std::vector<Message> &messages,
                                            uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return try_tokenize_messages(messages, flags).value();
    }
    Result<std::vector<uint32_t>> try_tokenize_messages(const std::vector<Message> &messages,
                                                        uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) const {
        return try_tokenize_chat(conversation(messages), flags);
    }
    /// Returns the RZ_TOKENIZE_* flags for a rendered chat, so that BOS is added once, by template or tokenizer.
    uint32_t chat_flags() const {
        const bool begun = info().chat_template & RZ_TEMPLATE_WRITES_BOS;
        return RZ_TOKENIZE_PARSE_SPECIAL | (begun ? 0 : RZ_TOKENIZE_ADD_SPECIAL);
    }
    /// Returns concatenated embeddings of texts, `result.size() / texts.size()` values each; with RZ_POOLING_NONE a
    /// vector per token.
    std::vector<float> embed(const std::vector<std::vector<uint32_t>> &texts,
                             const rz_embed_params &params = realizar::params<rz_embed_params>(),
                             const rz_cancel *cancel = nullptr) const {
        return try_embed(texts, params, cancel).value();
    }
    Result<std::vector<float>> try_embed(const std::vector<std::vector<uint32_t>> &texts,
                                         const rz_embed_params &params = realizar::params<rz_embed_params>(),
                                         const rz_cancel *cancel = nullptr) const {
        std::vector<const uint32_t *> tokens;
        std::vector<size_t> lengths;
        tokens.reserve(texts.size());
        lengths.reserve(texts.size());
        for (const std::vector<uint32_t> &text : texts) {
            tokens.push_back(text.data());
            lengths.push_back(text.size());
        }
        return detail::sized(std::vector<float>(), [&](float *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_embed_into(get(), &params, tokens.data(), lengths.data(), texts.size(), out, capacity, n, cancel,
                                 error);
        });
    }
    /// `embed` for texts, with BOS and EOS as the model defines.
    std::vector<float> embed_texts(const std::vector<std::string> &texts,
                                   const rz_embed_params &params = realizar::params<rz_embed_params>(),
                                   const rz_cancel *cancel = nullptr) const {
        return try_embed_texts(texts, params, cancel).value();
    }
    Result<std::vector<float>> try_embed_texts(const std::vector<std::string> &texts,
                                               const rz_embed_params &params = realizar::params<rz_embed_params>(),
                                               const rz_cancel *cancel = nullptr) const {
        std::vector<std::vector<uint32_t>> tokens;
        for (const std::string &text : texts) {
            auto one = try_tokenize(text);
            if (!one) return one.error();
            tokens.push_back(std::move(*one));
        }
        return try_embed(tokens, params, cancel);
    }
    /// True for a token that ends a turn or a text (EOS, EOT).
    bool is_end(uint32_t token) const noexcept { return rz_token_is_end(get(), token) != 0; }
    rz_model *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_model, rz_model_free> handle_;
};

/// A grammar for generated text. Immutable, for any number of samplers.
class Grammar {
public:
    /// `kind` is RZ_GRAMMAR_..., `flags` RZ_GRAMMAR_FLAG_...
    Grammar(const Model &model, uint32_t kind, std::string_view text = {}, uint32_t flags = 0)
        : Grammar(make(model, kind, text, flags).value()) {}
    explicit Grammar(rz_grammar *owned) noexcept : handle_(owned) {}
    static Result<Grammar> make(const Model &model, uint32_t kind, std::string_view text = {}, uint32_t flags = 0) {
        return detail::called<Grammar, rz_grammar *>([&](rz_grammar **out, rz_error *error) {
            return rz_grammar_new(model.get(), kind, flags, text.data(), text.size(), nullptr, out, error);
        });
    }
    rz_grammar *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_grammar, rz_grammar_free> handle_;
};

/// A LoRA adapter of a model. Immutable, for any number of caches.
class Adapter {
public:
    /// Loads a GGUF file or a PEFT folder.
    Adapter(const Model &model, const Text &path, const rz_adapter_params &params = realizar::params<rz_adapter_params>())
        : Adapter(make(model, path, params).value()) {}
    explicit Adapter(rz_adapter *owned) noexcept : handle_(owned) {}
    static Result<Adapter> make(const Model &model, const Text &path,
                                const rz_adapter_params &params = realizar::params<rz_adapter_params>()) {
        return detail::called<Adapter, rz_adapter *>([&](rz_adapter **out, rz_error *error) {
            return path.check(error, "path") < 0 ? error->code : rz_adapter_load(model.get(), path.c_str(), &params, out, error);
        });
    }
    /// Loads an adapter from bytes of the caller, as Model::load_from does.
    static Result<Adapter> load_from(const Model &model, const rz_source *sources, size_t n,
                                     const rz_adapter_params &params = realizar::params<rz_adapter_params>()) {
        return detail::called<Adapter, rz_adapter *>([&](rz_adapter **out, rz_error *error) {
            return rz_adapter_load_from(model.get(), sources, n, &params, out, error);
        });
    }
    rz_adapter *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_adapter, rz_adapter_free> handle_;
};

/// Embeddings of an image, a video or audio, one row per token position. Immutable: any number of calls may use it at
/// once.
class Media {
public:
    explicit Media(rz_media *owned) noexcept : handle_(owned) {}
    /// Creates media from `n` embeddings of `row_dim` numbers of the caller's own encoder. `columns` * `lines` must be
    /// `n`, for models with M-RoPE positions; 0 for both: one line.
    static Result<Media> from_rows(const Model &model, uint32_t kind, const float *rows, size_t n, uint32_t row_dim, uint32_t columns = 0,
                                   uint32_t lines = 0) {
        return detail::called<Media, rz_media *>([&](rz_media **out, rz_error *error) {
            return rz_media_from_rows(model.get(), kind, rows, n, row_dim, columns, lines, out, error);
        });
    }
    /// Encodes the source text of an encoder-decoder model (rz_model_info.reads_source), with the token that the
    /// decoder starts from.
    static Result<Media> from_tokens(const Model &model, const std::vector<uint32_t> &tokens, const rz_cancel *cancel = nullptr) {
        return detail::called<Media, rz_media *>([&](rz_media **out, rz_error *error) {
            return rz_media_from_tokens(model.get(), tokens.data(), tokens.size(), cancel, out, error);
        });
    }
    /// Encodes media of RZ_ENCODE_STEPS for about `budget_us` microseconds. Returns RZ_AGAIN, or RZ_DONE when the media
    /// can be used.
    rz_status step(uint64_t budget_us = RZ_NO_LIMIT) { return try_step(budget_us).value(); }
    Result<rz_status> try_step(uint64_t budget_us = RZ_NO_LIMIT) {
        return detail::done([&](rz_error *error) { return rz_media_step(get(), budget_us, error); });
    }
    rz_media_info info() const { return try_info().value(); }
    Result<rz_media_info> try_info() const {
        return detail::called<rz_media_info>([&](rz_media_info *out, rz_error *error) { return rz_media_info_get(get(), out, error); },
                                             params<rz_media_info>());
    }
    /// Returns the rows, concatenated.
    std::vector<float> rows() const { return try_rows().value(); }
    Result<std::vector<float>> try_rows() const {
        return detail::sized(std::vector<float>(), [&](float *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_media_rows_into(get(), out, capacity, n, error);
        });
    }
    /// Passes the media to `write(data, n)`, which returns 0 or an errno. Exceptions of `write` are rethrown.
    template <class Write> void save(Write &&write) const { try_save(write).value(); }
    template <class Write> Result<rz_status> try_save(Write &&write) const {
        using Callback = detail::Callback<std::remove_reference_t<Write>>;
        Callback callback(write);
        return callback.rethrow(
            detail::done([&](rz_error *error) { return rz_media_save(get(), Callback::template move<const void *>, &callback, nullptr, error); }));
    }
    /// Loads saved media. `read(out, n)` must fill all `n` bytes and return 0. At the end of the file it returns
    /// RZ_ERR_FORMAT, if it cannot be read an errno. Exceptions of `read` are rethrown.
    template <class Read> static Result<Media> load(const Model &model, Read &&read) {
        using Callback = detail::Callback<std::remove_reference_t<Read>>;
        Callback callback(read);
        return callback.rethrow(detail::called<Media, rz_media *>([&](rz_media **out, rz_error *error) {
            return rz_media_load(model.get(), Callback::template move<void *>, &callback, nullptr, out, error);
        }));
    }
    rz_media *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_media, rz_media_free> handle_;
};

/// A vision or audio encoder with its projector. Immutable: any number of calls may use it at once.
class Encoder {
public:
    /// Loads a .gguf file with the projector ("mmproj-..."), or a folder with a config.json (the model's own if it
    /// contains both).
    Encoder(const Model &model, const Text &path, const rz_encoder_params &params = realizar::params<rz_encoder_params>())
        : Encoder(make(model, path, params).value()) {}
    explicit Encoder(rz_encoder *owned) noexcept : handle_(owned) {}
    static Result<Encoder> make(const Model &model, const Text &path,
                                const rz_encoder_params &params = realizar::params<rz_encoder_params>()) {
        return detail::called<Encoder, rz_encoder *>(
            [&](rz_encoder **out, rz_error *error) { return path.check(error, "path") < 0 ? error->code : rz_encoder_load(model.get(), path.c_str(), &params, out, error); });
    }
    /// Loads an encoder from `n` sources, as Model::load_from does.
    static Result<Encoder> load_from(const Model &model, const rz_source *sources, size_t n,
                                     const rz_encoder_params &params = realizar::params<rz_encoder_params>()) {
        return detail::called<Encoder, rz_encoder *>([&](rz_encoder **out, rz_error *error) {
            return rz_encoder_load_from(model.get(), sources, n, &params, out, error);
        });
    }
    /// Returns the memory that an encoder will take, before a weight is read.
    static Result<rz_encoder_plan> plan(const Model &model, const Text &path,
                                        const rz_encoder_params &params = realizar::params<rz_encoder_params>()) {
        return detail::called<rz_encoder_plan>(
            [&](rz_encoder_plan *out, rz_error *error) { return path.check(error, "path") < 0 ? error->code : rz_encoder_plan_get(model.get(), path.c_str(), nullptr, 0, &params, out, error); },
            realizar::params<rz_encoder_plan>());
    }
    rz_encoder_info info() const { return try_info().value(); }
    Result<rz_encoder_info> try_info() const {
        return detail::called<rz_encoder_info>(
            [&](rz_encoder_info *out, rz_error *error) { return rz_encoder_info_get(get(), out, error); }, params<rz_encoder_info>());
    }
    /// Encodes an image in memory.
    Media encode(const rz_pixels &pixels, const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return try_encode(pixels, params).value();
    }
    Result<Media> try_encode(const rz_pixels &pixels, const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return detail::called<Media, rz_media *>(
            [&](rz_media **out, rz_error *error) { return rz_media_from_pixels(get(), &pixels, &params, out, error); });
    }
    /// Encodes an image from `size` bytes of a PNG, JPEG, WebP, GIF or BMP file.
    Media encode(const void *file, size_t size, const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return try_encode(file, size, params).value();
    }
    Result<Media> try_encode(const void *file, size_t size,
                             const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return detail::called<Media, rz_media *>(
            [&](rz_media **out, rz_error *error) { return rz_media_from_image(get(), file, size, &params, out, error); });
    }
    /// Encodes a video: `n` frames of one size, at least two, and the time of each in seconds from its beginning.
    Media encode_frames(const rz_pixels *frames, const double *times, size_t n,
                        const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return try_encode_frames(frames, times, n, params).value();
    }
    Result<Media> try_encode_frames(const rz_pixels *frames, const double *times, size_t n,
                                    const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return detail::called<Media, rz_media *>(
            [&](rz_media **out, rz_error *error) { return rz_media_from_frames(get(), frames, times, n, &params, out, error); });
    }
    /// Encodes audio: `n` interleaved samples of all `channels`, from -1 to 1, `rate` per channel and second. Several
    /// channels are averaged.
    Media encode_samples(const float *samples, size_t n, uint32_t channels, uint32_t rate,
                         const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return try_encode_samples(samples, n, channels, rate, params).value();
    }
    Result<Media> try_encode_samples(const float *samples, size_t n, uint32_t channels, uint32_t rate,
                                     const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return detail::called<Media, rz_media *>([&](rz_media **out, rz_error *error) {
            return rz_media_from_samples(get(), samples, n, channels, rate, &params, out, error);
        });
    }
    /// Encodes audio from `size` bytes of a WAV, MP3, FLAC or Ogg file.
    Media encode_audio(const void *file, size_t size, const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return try_encode_audio(file, size, params).value();
    }
    Result<Media> try_encode_audio(const void *file, size_t size,
                                   const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return detail::called<Media, rz_media *>(
            [&](rz_media **out, rz_error *error) { return rz_media_from_audio(get(), file, size, &params, out, error); });
    }
    /// Returns the info of an image of this size, or of audio with `width` samples per channel at the encoder's rate
    /// and height 0, without encoding.
    rz_media_info measure(uint32_t width, uint32_t height,
                          const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return try_measure(width, height, params).value();
    }
    Result<rz_media_info> try_measure(uint32_t width, uint32_t height,
                                      const rz_media_params &params = realizar::params<rz_media_params>()) const {
        return detail::called<rz_media_info>(
            [&](rz_media_info *out, rz_error *error) { return rz_media_measure(get(), width, height, &params, out, error); },
            realizar::params<rz_media_info>());
    }
    rz_encoder *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_encoder, rz_encoder_free> handle_;
};

/// Parts of a prompt. Views: tokens and media live until the prompt is made.
inline rz_part part(Tokens tokens) noexcept { return {tokens.data(), tokens.size(), nullptr}; }
inline rz_part part(const Media &media) noexcept { return {nullptr, 0, media.get()}; }

/// A sequence of tokens and media. Immutable: any number of calls may use it at once.
class Prompt {
public:
    /// `flags`: RZ_PROMPT_BARE, or 0.
    Prompt(const Model &model, const std::vector<rz_part> &parts, uint32_t flags = 0) : Prompt(make(model, parts, flags).value()) {}
    explicit Prompt(rz_prompt *owned) noexcept : handle_(owned) {}
    static Result<Prompt> make(const Model &model, const std::vector<rz_part> &parts, uint32_t flags = 0) {
        return detail::called<Prompt, rz_prompt *>([&](rz_prompt **out, rz_error *error) {
            return rz_prompt_new(model.get(), parts.data(), parts.size(), flags, out, error);
        });
    }
    /// Creates a prompt of a conversation in JSON, whose content parts name media by index.
    static Result<Prompt> of_chat(const Model &model, std::string_view json, const std::vector<const Media *> &media,
                                  uint32_t flags = RZ_CHAT_ADD_GENERATION_PROMPT) {
        const auto raw = detail::all_raw(media);
        return detail::called<Prompt, rz_prompt *>([&](rz_prompt **out, rz_error *error) {
            return rz_prompt_from_chat(model.get(), json.data(), json.size(), flags, raw.data(), raw.size(), nullptr, out, error);
        });
    }
    /// Returns embeddings of prompts, as Model::embed does.
    static Result<std::vector<float>> embed(const Model &model, const std::vector<const Prompt *> &prompts,
                                            const rz_embed_params &params = realizar::params<rz_embed_params>(),
                                            const rz_cancel *cancel = nullptr) {
        const auto raw = detail::all_raw(prompts);
        return detail::sized(std::vector<float>(), [&](float *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_embed_prompts_into(model.get(), &params, raw.data(), raw.size(), out, capacity, n, cancel, error);
        });
    }
    size_t size() const noexcept { return rz_prompt_len(get()); }
    /// Returns the tokens, with RZ_TOKEN_MEDIA for each row of media.
    std::vector<uint32_t> tokens() const { return try_tokens().value(); }
    Result<std::vector<uint32_t>> try_tokens() const {
        return detail::sized(std::vector<uint32_t>(size()), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_prompt_tokens_into(get(), out, capacity, n, error);
        });
    }
    rz_prompt *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_prompt, rz_prompt_free> handle_;
};

/// Returns sampler parameters with a model's recommended values, in the order of transformers.
inline rz_sampler_params sampler_params(const rz_model_sampling &advice) noexcept {
    auto sampling = params<rz_sampler_params>();
    sampling.temperature = advice.temperature, sampling.top_k = advice.top_k, sampling.top_p = advice.top_p;
    sampling.min_p = advice.min_p, sampling.repeat_penalty = advice.repeat_penalty;
    sampling.penalty_window = advice.penalty_window, sampling.flags = RZ_SAMPLER_TEMPERATURE_FIRST;
    return sampling;
}

/// Adds a logits processor to `params`: `edit(float *logits, size_t n_logits, const uint32_t *tokens, size_t n_tokens)`
/// edits the logits before each sampled token. It returns 0; another number or an exception fails the call (see
/// rz_logits_callback). `edit` must outlive the sampler and all jobs and replies with it.
template <class Edit> void edit_logits(rz_sampler_params &params, Edit &edit) noexcept {
    params.edit_logits_user = &edit;
    params.edit_logits = [](float *logits, size_t n_logits, const uint32_t *tokens, size_t n_tokens,
                            void *user) -> int32_t {
        return detail::Callback<Edit>(*static_cast<Edit *>(user)).run(-1, [&](Edit &function) -> int32_t {
            return function(logits, n_logits, tokens, n_tokens);
        });
    };
}

namespace detail {

/// The handles and scales of adapters.
inline std::pair<std::vector<rz_adapter *>, std::vector<float>> scaled(const std::vector<std::pair<const Adapter *, float>> &adapters) {
    std::vector<const Adapter *> list;
    std::vector<float> scales;
    for (const auto &[adapter, scale] : adapters) list.push_back(adapter), scales.push_back(scale);
    return {all_raw(list), std::move(scales)};
}

} // namespace detail

/// A sampler. A null `Sampler *` means greedy decoding.
class Sampler {
public:
    explicit Sampler(const rz_sampler_params &params = realizar::params<rz_sampler_params>())
        : Sampler(make(params).value()) {}
    explicit Sampler(rz_sampler *owned) noexcept : handle_(owned) {}
    static Result<Sampler> make(const rz_sampler_params &params = realizar::params<rz_sampler_params>()) {
        return detail::called<Sampler, rz_sampler *>(
            [&](rz_sampler **out, rz_error *error) { return rz_sampler_new(&params, out, error); });
    }
    /// Constrains sampling to a grammar, from its start; nullptr: no constraint.
    void set_grammar(const Grammar *grammar) { try_set_grammar(grammar).value(); }
    Result<rz_status> try_set_grammar(const Grammar *grammar) {
        return detail::done([&](rz_error *error) { return rz_sampler_grammar_set(get(), detail::raw(grammar), error); });
    }
    rz_sampler *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_sampler, rz_sampler_free> handle_;
};

/// Tokens with their KV cache. Keeps its model alive.
class Cache {
public:
    explicit Cache(const Model &model, const rz_cache_params &params = realizar::params<rz_cache_params>())
        : Cache(make(model, params).value()) {}
    explicit Cache(rz_cache *owned) noexcept : handle_(owned) {}
    static Result<Cache> make(const Model &model,
                              const rz_cache_params &params = realizar::params<rz_cache_params>()) {
        return detail::called<Cache, rz_cache *>(
            [&](rz_cache **out, rz_error *error) { return rz_cache_new(model.get(), &params, out, error); });
    }
    uint32_t size() const noexcept { return rz_cache_len(get()); }
    uint32_t capacity() const noexcept { return rz_cache_capacity(get()); }

    /// Truncates to the first `len` tokens.
    void truncate(uint32_t len) { try_truncate(len).value(); }
    Result<rz_status> try_truncate(uint32_t len) {
        return detail::done([&](rz_error *error) { return rz_cache_truncate(get(), len, error); });
    }
    /// Returns a copy, which shares the KV cache copy-on-write.
    Cache fork() const { return try_fork().value(); }
    Result<Cache> try_fork() const {
        return detail::called<Cache, rz_cache *>(
            [&](rz_cache **out, rz_error *error) { return rz_cache_fork(get(), out, error); });
    }
    /// Passes the cache to `write(data, n)`, which returns 0 or an errno. Exceptions of `write` are rethrown.
    template <class Write> void save(Write &&write) const { try_save(write).value(); }
    template <class Write> Result<rz_status> try_save(Write &&write) const {
        using Callback = detail::Callback<std::remove_reference_t<Write>>;
        Callback callback(write);
        return callback.rethrow(
            detail::done([&](rz_error *error) { return rz_cache_save(get(), Callback::template move<const void *>, &callback, nullptr, error); }));
    }
    /// Loads a saved cache. `read(out, n)` must fill all `n` bytes and return 0. At the end of the file it returns
    /// RZ_ERR_FORMAT, if it cannot be read an errno. Exceptions of `read` are rethrown.
    template <class Read>
    static Result<Cache> load(const Model &model, Read &&read,
                              const rz_cache_params &params = realizar::params<rz_cache_params>()) {
        using Callback = detail::Callback<std::remove_reference_t<Read>>;
        Callback callback(read);
        return callback.rethrow(detail::called<Cache, rz_cache *>([&](rz_cache **out, rz_error *error) {
            return rz_cache_load(model.get(), &params, Callback::template move<void *>, &callback, nullptr, out, error);
        }));
    }
    /// Returns the length of the prefix of `tokens` that is already in the KV cache.
    uint32_t match(Tokens tokens) const { return try_match(tokens).value(); }
    Result<uint32_t> try_match(Tokens tokens) const {
        return detail::called<uint32_t>([&](uint32_t *common, rz_error *error) {
            return rz_cache_match(get(), tokens.data(), tokens.size(), common, error);
        });
    }
    uint32_t match_prompt(const Prompt &prompt) const { return try_match_prompt(prompt).value(); }
    Result<uint32_t> try_match_prompt(const Prompt &prompt) const {
        return detail::called<uint32_t>(
            [&](uint32_t *common, rz_error *error) { return rz_cache_match_prompt(get(), prompt.get(), common, error); });
    }
    /// Appends the prompt's tokens from index `first` on, at least one. `first` is 0, or the result of `match_prompt`
    /// after truncating the cache to it.
    void prefill_prompt(const Prompt &prompt, size_t first = 0, const Cancel *cancel = nullptr) {
        try_prefill_prompt(prompt, first, cancel).value();
    }
    Result<rz_status> try_prefill_prompt(const Prompt &prompt, size_t first = 0, const Cancel *cancel = nullptr) {
        return detail::done(
            [&](rz_error *error) { return rz_prefill_prompt(get(), prompt.get(), first, detail::raw(cancel), error); });
    }
    std::vector<uint32_t> tokens() const { return try_tokens().value(); }
    Result<std::vector<uint32_t>> try_tokens() const {
        return detail::sized(std::vector<uint32_t>(size()), [&](uint32_t *out, size_t room, size_t *n, rz_error *error) {
            return rz_cache_tokens_into(get(), out, room, n, error);
        });
    }
    /// Removes `drop` tokens after the first `keep` (context shift).
    void shift(uint32_t keep, uint32_t drop) { try_shift(keep, drop).value(); }
    Result<rz_status> try_shift(uint32_t keep, uint32_t drop) {
        return detail::done([&](rz_error *error) { return rz_cache_shift(get(), keep, drop, error); });
    }
    /// Frees the keys and values and keeps the tokens.
    void release() { try_release().value(); }
    Result<rz_status> try_release() {
        return detail::done([&](rz_error *error) { return rz_cache_release(get(), error); });
    }
    /// Sets the cancel for all later calls on this cache; null: none.
    void set_cancel(const Cancel *cancel) { try_set_cancel(cancel).value(); }
    Result<rz_status> try_set_cancel(const Cancel *cancel) {
        return detail::done([&](rz_error *error) { return rz_cache_cancel_set(get(), detail::raw(cancel), error); });
    }

    /// Sets the LoRA adapters (with scales), or none; clears the cache.
    void set_adapters(const std::vector<std::pair<const Adapter *, float>> &adapters) {
        try_set_adapters(adapters).value();
    }
    Result<rz_status> try_set_adapters(const std::vector<std::pair<const Adapter *, float>> &adapters) {
        const auto scaled = detail::scaled(adapters);
        return detail::done([&](rz_error *error) {
            return rz_cache_adapters_set(get(), scaled.first.data(), scaled.second.data(), adapters.size(), error);
        });
    }

    /// Appends tokens; `logits` are then of the last one.
    void prefill(Tokens tokens, const Cancel *cancel = nullptr) { try_prefill(tokens, cancel).value(); }
    Result<rz_status> try_prefill(Tokens tokens, const Cancel *cancel = nullptr) {
        return detail::done([&](rz_error *error) {
            return rz_prefill(get(), tokens.data(), tokens.size(), detail::raw(cancel), error);
        });
    }

    /// Samples a token from the current logits.
    uint32_t sample(Sampler *sampler = nullptr) { return try_sample(sampler).value(); }
    Result<uint32_t> try_sample(Sampler *sampler = nullptr) {
        return detail::called<uint32_t>(
            [&](uint32_t *token, rz_error *error) { return rz_sample(get(), detail::raw(sampler), token, error); });
    }

    /// Appends a token and samples the next one.
    uint32_t decode(uint32_t token, Sampler *sampler = nullptr) { return try_decode(token, sampler).value(); }
    Result<uint32_t> try_decode(uint32_t token, Sampler *sampler = nullptr) {
        return detail::called<uint32_t>([&](uint32_t *next, rz_error *error) {
            return rz_decode_token(get(), token, detail::raw(sampler), next, error);
        });
    }

    /// `decode` for several caches of one model as one batch. `samplers`: one per cache, each may be null; empty: all
    /// null.
    static std::vector<uint32_t> decode(const std::vector<Cache *> &caches, Tokens tokens,
                                        const std::vector<Sampler *> &samplers = {}) {
        return try_decode(caches, tokens, samplers).value();
    }
    static Result<std::vector<uint32_t>> try_decode(const std::vector<Cache *> &caches, Tokens tokens,
                                                    const std::vector<Sampler *> &samplers = {}) {
        if (tokens.size() != caches.size() || (!samplers.empty() && samplers.size() != caches.size()))
            return rz_error{RZ_ERR_INVALID_ARGUMENT, 0, 0, "a batch has as many tokens and samplers as caches"};
        const auto raw = detail::all_raw(caches);
        std::vector<rz_sampler *> choosers(caches.size());
        for (size_t i = 0; i < samplers.size(); i++) choosers[i] = detail::raw(samplers[i]);
        return detail::called<std::vector<uint32_t>>(
            [&](std::vector<uint32_t> *next, rz_error *error) {
                return rz_decode_batch(raw.data(), tokens.data(), raw.size(), choosers.data(), next->data(), error);
            },
            std::vector<uint32_t>(caches.size()));
    }

    /// Appends a token and generates up to `max_tokens`, fewer if the last one is an end token. A failure throws a
    /// GenerateError, which has the tokens generated before.
    std::vector<uint32_t> generate(uint32_t token, size_t max_tokens, Sampler *sampler = nullptr,
                                   const Cancel *cancel = nullptr) {
        Generated made = try_generate(token, max_tokens, sampler, cancel);
        if (made.status < 0) detail::raise(GenerateError(made.error, std::move(made.tokens)));
        return std::move(made.tokens);
    }
    Generated try_generate(uint32_t token, size_t max_tokens, Sampler *sampler = nullptr,
                           const Cancel *cancel = nullptr) {
        const size_t room = (std::min)(max_tokens, size_t(capacity()) + 1); // more than the cache has room for
        Generated made{std::vector<uint32_t>(room), RZ_OK, {}};
        size_t n = 0;
        made.status = rz_generate_into(get(), token, detail::raw(sampler), made.tokens.data(), room, &n,
                                       detail::raw(cancel), &made.error);
        made.tokens.resize(n);
        return made;
    }

    /// Returns the logits after the last token, one per vocabulary entry.
    std::vector<float> logits() const { return try_logits().value(); }
    Result<std::vector<float>> try_logits() const {
        return detail::sized(std::vector<float>(), [&](float *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_logits_into(get(), out, capacity, n, error);
        });
    }
    /// Returns the most likely tokens and their log probabilities, in descending order.
    std::vector<std::pair<uint32_t, float>> logprobs(uint32_t k) const { return try_logprobs(k).value(); }
    Result<std::vector<std::pair<uint32_t, float>>> try_logprobs(uint32_t k) const {
        rz_error error;
        size_t vocabulary = 0;
        if (rz_logits_into(get(), nullptr, 0, &vocabulary, &error) < 0) return error;
        k = (std::min)(k, static_cast<uint32_t>(vocabulary)); // not the macro of windows.h
        std::vector<uint32_t> tokens(k);
        std::vector<float> values(k);
        auto n = detail::called<size_t>([&](size_t *found, rz_error *failure) {
            return rz_top_logprobs(get(), k, tokens.data(), values.data(), found, failure);
        });
        if (!n) return n.error();
        std::vector<std::pair<uint32_t, float>> pairs;
        pairs.reserve(*n);
        for (size_t i = 0; i < *n; i++) pairs.emplace_back(tokens[i], values[i]);
        return pairs;
    }
    /// Appends tokens and returns the log probability of each, given all tokens before.
    std::vector<float> score(Tokens tokens, const Cancel *cancel = nullptr) { return try_score(tokens, cancel).value(); }
    Result<std::vector<float>> try_score(Tokens tokens, const Cancel *cancel = nullptr) {
        return detail::called<std::vector<float>>(
            [&](std::vector<float> *out, rz_error *error) {
                return rz_score(get(), tokens.data(), tokens.size(), out->data(), detail::raw(cancel), error);
            },
            std::vector<float>(tokens.size()));
    }
    rz_cache *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_cache, rz_cache_free> handle_;
};

/// A generated token with its log probability, and the most likely alternatives, in descending order.
struct TokenLogprobs {
    uint32_t token;
    float logprob;
    std::vector<std::pair<uint32_t, float>> likeliest;
};

namespace detail {

/// Splits log probabilities into rows of `width` entries.
inline std::vector<TokenLogprobs> rows(const std::vector<uint32_t> &tokens, const std::vector<float> &values, size_t width) {
    std::vector<TokenLogprobs> rows;
    for (size_t i = 0; i < tokens.size(); i++) {
        if (i % width == 0) rows.push_back({tokens[i], values[i], {}});
        else rows.back().likeliest.emplace_back(tokens[i], values[i]);
    }
    return rows;
}

} // namespace detail

/// A generation that advances in steps. It occupies its cache until it is destroyed.
class Job {
public:
    /// `params`: `tokens` and `n_tokens` are set from `prompt`.
    Job(Cache &cache, Tokens prompt, const rz_job_params &params = realizar::params<rz_job_params>())
        : Job(make(cache, prompt, params).value()) {}
    /// The same for a prompt with media, from token index `first` on, as in Cache::prefill_prompt.
    Job(Cache &cache, const Prompt &prompt, size_t first, const rz_job_params &params = realizar::params<rz_job_params>())
        : Job(make(cache, prompt, first, params).value()) {}
    explicit Job(rz_job *owned) noexcept : handle_(owned) {}
    static Result<Job> make(Cache &cache, const Prompt &prompt, size_t first,
                            rz_job_params params = realizar::params<rz_job_params>()) {
        params.prompt = prompt.get();
        params.prompt_first = first;
        return detail::called<Job, rz_job *>(
            [&](rz_job **out, rz_error *error) { return rz_job_new(cache.get(), &params, out, error); });
    }
    static Result<Job> make(Cache &cache, Tokens prompt, rz_job_params params = realizar::params<rz_job_params>()) {
        params.tokens = prompt.data();
        params.n_tokens = prompt.size();
        return detail::called<Job, rz_job *>(
            [&](rz_job **out, rz_error *error) { return rz_job_new(cache.get(), &params, out, error); });
    }
    /// Works for about a budget of time, without a limit until it has made a token. True: work remains.
    bool step(Limit budget = no_limit) { return try_step(budget).value() == RZ_AGAIN; }
    /// RZ_AGAIN: there is more to do; RZ_DONE: it has ended.
    Result<rz_status> try_step(Limit budget = no_limit) {
        return detail::done([&](rz_error *error) { return rz_job_step(get(), budget.us(), error); });
    }
    /// `step` for several jobs of one model (continuous batching). False once all have ended, and for an empty list. A
    /// failed job does not affect others. A cancelled job is skipped (info().stopped); if all unfinished jobs are, the
    /// call throws CancelledError or DeadlineError.
    static bool step(const std::vector<Job *> &jobs, Limit budget = no_limit) {
        return try_step(jobs, budget).value() == RZ_AGAIN;
    }
    static bool step(std::vector<Job> &jobs, Limit budget = no_limit) { return try_step(jobs, budget).value() == RZ_AGAIN; }
    static Result<rz_status> try_step(std::vector<Job> &jobs, Limit budget = no_limit) {
        std::vector<Job *> pointers;
        for (Job &one : jobs) pointers.push_back(&one);
        return try_step(pointers, budget);
    }
    static Result<rz_status> try_step(const std::vector<Job *> &jobs, Limit budget = no_limit) {
        const auto raw = detail::all_raw(jobs);
        return detail::done([&](rz_error *error) { return rz_jobs_step(raw.data(), raw.size(), budget.us(), error); });
    }
    /// Returns the text since the last call, in whole characters, without stop sequences. Valid until the next call.
    std::string_view text() { return try_text().value(); }
    Result<std::string_view> try_text() {
        return detail::read(text_, [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_job_text_into(get(), out, capacity, n, error);
        });
    }
    /// Computes until there is new text and returns it; nullopt once the job has ended. Valid until the next call.
    std::optional<std::string_view> next() { return try_next().value(); }
    Result<std::optional<std::string_view>> try_next() {
        for (;;) {
            auto stepped = try_step();
            if (!stepped) return stepped.error();
            auto piece = try_text();
            if (!piece) return piece.error();
            if (!piece->empty()) return std::optional(*piece);
            if (*stepped == RZ_DONE) return std::optional<std::string_view>();
        }
    }
    /// Iterates over the pieces of text from `next`: `for (std::string_view piece : job) ...`.
    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = std::string_view;
        using difference_type = std::ptrdiff_t;
        using pointer = const std::string_view *;
        using reference = const std::string_view &;
        Iterator() noexcept = default;
        explicit Iterator(Job &job) : job_(&job) { ++*this; }
        reference operator*() const noexcept { return *piece_; }
        pointer operator->() const noexcept { return &*piece_; }
        Iterator &operator++() {
            if (!(piece_ = job_->next())) job_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const Iterator &a, const Iterator &b) noexcept { return a.job_ == b.job_; }
        friend bool operator!=(const Iterator &a, const Iterator &b) noexcept { return a.job_ != b.job_; }

    private:
        Job *job_ = nullptr;
        std::optional<std::string_view> piece_;
    };
    Iterator begin() { return Iterator(*this); }
    Iterator end() noexcept { return {}; }
    /// Returns the tokens since the last call, including one that ends the text.
    std::vector<uint32_t> tokens() { return try_tokens().value(); }
    Result<std::vector<uint32_t>> try_tokens() {
        return detail::sized(std::vector<uint32_t>(), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_job_tokens_into(get(), out, capacity, n, error);
        });
    }
    /// Passes the parts of the reply since the last call to `each(kind, flags, index, text)`, as a ChatParser does; for
    /// a job with rz_job_params.chat.
    template <class Each> void parts(Each &&each) { try_parts(each).value(); }
    template <class Each> Result<rz_status> try_parts(Each &&each) {
        return detail::parts(
            text_,
            [&](uint32_t *kind, uint32_t *flags, uint32_t *index, char *out, size_t capacity, size_t *n, rz_error *error) {
                return rz_job_next_into(get(), kind, flags, index, out, capacity, n, error);
            },
            each);
    }
    /// Returns the tokens since the last call with log probabilities and alternatives, for a job with
    /// rz_job_params.logprobs.
    std::vector<TokenLogprobs> logprobs() { return try_logprobs().value(); }
    Result<std::vector<TokenLogprobs>> try_logprobs() {
        std::vector<float> values;
        const auto tokens = detail::sized(std::vector<uint32_t>(), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            values.resize(capacity);
            return rz_job_logprobs_into(get(), out, values.data(), capacity, n, error);
        });
        if (!tokens) return tokens.error();
        const auto made = try_info();
        if (!made) return made.error();
        std::vector<TokenLogprobs> rows;
        const size_t n = made->n_tokens - rows_read_; // of which each has as many entries
        if (n) rows = detail::rows(*tokens, values, tokens->size() / n);
        rows_read_ = made->n_tokens;
        return rows;
    }
    /// Throws the error of a job that failed in `step` of several jobs (RZ_END_FAILED).
    void check() const { try_check().value(); }
    Result<rz_status> try_check() const {
        return detail::done([&](rz_error *error) { return rz_job_error(get(), error); });
    }
    rz_job_info info() const { return try_info().value(); }
    Result<rz_job_info> try_info() const {
        return detail::called<rz_job_info>(
            [&](rz_job_info *out, rz_error *error) { return rz_job_info_get(get(), out, error); },
            params<rz_job_info>());
    }
    rz_job *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_job, rz_job_free> handle_;
    uint32_t rows_read_ = 0; // of logprobs
    std::string text_ = std::string(256, '\0');
};

/// A prefix cache for caches and conversations of one model. Every member may be called from many threads at once. A
/// conversation uses it as rz_conversation_params.store.
class Store {
public:
    explicit Store(const Model &model, const rz_store_params &params = realizar::params<rz_store_params>())
        : Store(make(model, params).value()) {}
    explicit Store(rz_store *owned) noexcept : handle_(owned) {}
    static Result<Store> make(const Model &model, const rz_store_params &params = realizar::params<rz_store_params>()) {
        return detail::called<Store, rz_store *>(
            [&](rz_store **out, rz_error *error) { return rz_store_new(model.get(), &params, out, error); });
    }
    /// Returns a cache with the longest stored prefix of the prompt, never the whole prompt: append the tokens from
    /// `cache.size()` on.
    Cache take(Tokens tokens, const rz_cache_params &params = realizar::params<rz_cache_params>()) const {
        return try_take(tokens, params).value();
    }
    Result<Cache> try_take(Tokens tokens, const rz_cache_params &params = realizar::params<rz_cache_params>()) const {
        return detail::called<Cache, rz_cache *>([&](rz_cache **out, rz_error *error) {
            uint32_t common;
            return rz_store_take(get(), tokens.data(), tokens.size(), &params, nullptr, out, &common, error);
        });
    }
    /// The same for a prompt with media: Cache::prefill_prompt appends the rest, from token `cache.size()` on.
    Cache take(const Prompt &prompt, const rz_cache_params &params = realizar::params<rz_cache_params>()) const {
        return try_take(prompt, params).value();
    }
    Result<Cache> try_take(const Prompt &prompt, const rz_cache_params &params = realizar::params<rz_cache_params>()) const {
        return detail::called<Cache, rz_cache *>([&](rz_cache **out, rz_error *error) {
            uint32_t common;
            return rz_store_take_prompt(get(), prompt.get(), &params, nullptr, out, &common, error);
        });
    }
    /// Stores the cache's tokens with their keys and values as a prefix; the cache remains usable.
    void put(const Cache &cache) const { try_put(cache).value(); }
    Result<rz_status> try_put(const Cache &cache) const {
        return detail::done([&](rz_error *error) { return rz_store_put(get(), cache.get(), error); });
    }
    /// Removes all prefixes, and the files of the model from the folder.
    void clear() const { try_clear().value(); }
    Result<rz_status> try_clear() const {
        return detail::done([&](rz_error *error) { return rz_store_clear(get(), error); });
    }
    rz_store_info info() const { return try_info().value(); }
    Result<rz_store_info> try_info() const {
        return detail::called<rz_store_info>(
            [&](rz_store_info *out, rz_error *error) { return rz_store_info_get(get(), out, error); },
            params<rz_store_info>());
    }
    rz_store *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_store, rz_store_free> handle_;
};

/// Messages with a model, their KV cache, and the current reply. One call at a time.
class Conversation {
public:
    explicit Conversation(const Model &model, const rz_conversation_params &params = realizar::params<rz_conversation_params>())
        : Conversation(make(model, params).value()) {}
    /// A conversation that begins with messages, tools and variables in JSON.
    Conversation(const Model &model, std::string_view json) : Conversation(model, begun(json)) {}
    explicit Conversation(rz_conversation *owned) noexcept : handle_(owned) {}
    static Result<Conversation> make(const Model &model,
                                     const rz_conversation_params &params = realizar::params<rz_conversation_params>()) {
        return detail::called<Conversation, rz_conversation *>([&](rz_conversation **out, rz_error *error) {
            return rz_conversation_new(model.get(), &params, out, error);
        });
    }
    /// Loads a saved conversation. `read(out, n)` must fill all `n` bytes and return 0. At the end of the file it
    /// returns RZ_ERR_FORMAT, if it cannot be read an errno. Exceptions of `read` are rethrown.
    template <class Read>
    static Result<Conversation> load(const Model &model, Read &&read,
                                     const rz_conversation_params &params = realizar::params<rz_conversation_params>()) {
        using Callback = detail::Callback<std::remove_reference_t<Read>>;
        Callback callback(read);
        return callback.rethrow(detail::called<Conversation, rz_conversation *>([&](rz_conversation **out, rz_error *error) {
            return rz_conversation_load(model.get(), &params, Callback::template move<void *>, &callback, out, error);
        }));
    }
    /// Returns parameters with this JSON, which must live until the conversation is created.
    static rz_conversation_params begun(std::string_view json) {
        auto params = realizar::params<rz_conversation_params>();
        params.json = json.data(), params.json_len = json.size();
        return params;
    }
    /// Passes the conversation to `write(data, n)`, which returns 0 or an errno. Exceptions of `write` are rethrown.
    template <class Write> void save(Write &&write) const { try_save(write).value(); }
    template <class Write> Result<rz_status> try_save(Write &&write) const {
        using Callback = detail::Callback<std::remove_reference_t<Write>>;
        Callback callback(write);
        return callback.rethrow(
            detail::done([&](rz_error *error) { return rz_conversation_save(get(), Callback::template move<const void *>, &callback, nullptr, error); }));
    }
    /// Appends a message, or a list of messages, in JSON.
    ///
    /// Content parts name `media` by index; the conversation keeps them alive.
    void add_json(std::string_view json, const std::vector<const Media *> &media = {}) {
        try_add_json(json, media).value();
    }
    Result<rz_status> try_add_json(std::string_view json, const std::vector<const Media *> &media = {}) {
        const auto raw = detail::all_raw(media);
        return detail::done([&](rz_error *error) {
            return rz_conversation_add(get(), json.data(), json.size(), raw.data(), raw.size(), error);
        });
    }
    /// Returns media by index in content parts, below info().n_media.
    Media media(uint32_t number) const { return try_media(number).value(); }
    Result<Media> try_media(uint32_t number) const {
        return detail::called<Media, rz_media *>(
            [&](rz_media **out, rz_error *error) { return rz_conversation_media(get(), number, out, error); });
    }
    void add(const Message &message) { try_add(message).value(); }
    Result<rz_status> try_add(const Message &message) {
        const Text role(message.role);
        return detail::done([&](rz_error *error) {
            if (role.check(error, "role") < 0) return error->code;
            return rz_conversation_add_text(get(), role.c_str(), message.content.data(), message.content.size(), error);
        });
    }
    /// Adds a user message and computes the whole reply; `each(text)` gets its content piece by piece. If it returns
    /// false or throws, the reply ends and its text so far becomes a message; the exception is rethrown.
    template <class Each>
    void say(const Text &text, Each &&each, const rz_reply_params &params = realizar::params<rz_reply_params>()) {
        try_say(text, each, params).value();
    }
    template <class Each>
    Result<rz_status> try_say(const Text &text, Each &&each,
                              const rz_reply_params &params = realizar::params<rz_reply_params>()) {
        using Callback = detail::Callback<std::remove_reference_t<Each>>;
        Callback callback(each);
        auto call = [](const char *piece, size_t n, void *user) noexcept -> int32_t {
            return static_cast<Callback *>(user)->run(1, [&](auto &function) -> int32_t {
                if constexpr (std::is_same_v<decltype(function(std::string_view())), void>) {
                    function(std::string_view(piece, n));
                    return 0;
                } else {
                    return !function(std::string_view(piece, n));
                }
            });
        };
        const auto said = detail::done([&](rz_error *error) {
            if (text.check(error, "text") < 0) return error->code;
            return rz_conversation_say(get(), text.c_str(), &params, call, &callback, error);
        });
        if (said) logprobs_ = params.logprobs;
        return callback.rethrow(said);
    }
    /// Begins a reply, which `step` computes.
    void reply(const rz_reply_params &params = realizar::params<rz_reply_params>()) { try_reply(params).value(); }
    Result<rz_status> try_reply(const rz_reply_params &params = realizar::params<rz_reply_params>()) {
        const auto begun = detail::done([&](rz_error *error) { return rz_conversation_reply(get(), &params, error); });
        if (begun) logprobs_ = params.logprobs;
        return begun;
    }
    /// Begins a prefill of the messages, which lowers the next reply's time to first token; `step` computes. The
    /// parameters `json`, `reasoning`, `priority` and `cancel` have an effect.
    void read(const rz_reply_params &params = realizar::params<rz_reply_params>()) { try_read(params).value(); }
    Result<rz_status> try_read(const rz_reply_params &params = realizar::params<rz_reply_params>()) {
        return detail::done([&](rz_error *error) { return rz_conversation_read(get(), &params, error); });
    }
    /// Works for about a budget of time, without a limit until it has made a token. True: work remains.
    bool step(Limit budget = no_limit) { return try_step(budget).value() == RZ_AGAIN; }
    Result<rz_status> try_step(Limit budget = no_limit) {
        return detail::done([&](rz_error *error) { return rz_conversation_step(get(), budget.us(), error); });
    }
    /// Ends an unfinished reply at once; its text becomes a message.
    void stop() { try_stop().value(); }
    Result<rz_status> try_stop() {
        return detail::done([&](rz_error *error) { return rz_conversation_stop(get(), error); });
    }
    /// Throws the error of a reply that failed in `step` of several conversations.
    void check() const { try_check().value(); }
    Result<rz_status> try_check() const {
        return detail::done([&](rz_error *error) { return rz_conversation_error(get(), error); });
    }
    /// `step` for several conversations of one model (continuous batching). A failed reply does not affect others. A
    /// cancelled reply is skipped (info().stopped); if all unfinished replies are, the call throws CancelledError or
    /// DeadlineError.
    static bool step(const std::vector<Conversation *> &all, Limit budget = no_limit) {
        return try_step(all, budget).value() == RZ_AGAIN;
    }
    static bool step(std::vector<Conversation> &all, Limit budget = no_limit) { return try_step(all, budget).value() == RZ_AGAIN; }
    static Result<rz_status> try_step(std::vector<Conversation> &all, Limit budget = no_limit) {
        std::vector<Conversation *> pointers;
        for (Conversation &one : all) pointers.push_back(&one);
        return try_step(pointers, budget);
    }
    static Result<rz_status> try_step(const std::vector<Conversation *> &all, Limit budget = no_limit) {
        const auto raw = detail::all_raw(all);
        return detail::done([&](rz_error *error) { return rz_conversations_step(raw.data(), raw.size(), budget.us(), error); });
    }
    /// Passes the parts of the reply since the last call to `each(kind, flags, index, text)`, as a ChatParser does.
    template <class Each> void parts(Each &&each) { try_parts(each).value(); }
    template <class Each> Result<rz_status> try_parts(Each &&each) {
        return detail::parts(
            text_,
            [&](uint32_t *kind, uint32_t *flags, uint32_t *index, char *out, size_t capacity, size_t *n, rz_error *error) {
                return rz_conversation_next_into(get(), kind, flags, index, out, capacity, n, error);
            },
            each);
    }
    /// Computes to the end of the reply, and passes on each part as it is generated.
    template <class Each> void run(Each &&each) { try_run(each).value(); }
    template <class Each> Result<rz_status> try_run(Each &&each) {
        for (;;) {
            auto stepped = try_step();
            if (!stepped) return stepped;
            auto handed = try_parts(each);
            if (!handed || *stepped == RZ_DONE) return handed;
        }
    }
    /// Returns new content tokens with `k` alternatives each, for a reply with rz_reply_params.logprobs = k.
    std::vector<TokenLogprobs> logprobs(uint32_t k) { return try_logprobs(k).value(); }
    Result<std::vector<TokenLogprobs>> try_logprobs(uint32_t k) {
        // Rows of another width would be split at wrong positions.
        if (logprobs_ && *logprobs_ != k)
            return rz_error{RZ_ERR_INVALID_ARGUMENT, 0, 0, "k is not rz_reply_params.logprobs of the reply; it must be the same"};
        std::vector<float> values;
        const auto tokens = detail::sized(std::vector<uint32_t>(), [&](uint32_t *out, size_t capacity, size_t *n, rz_error *error) {
            values.resize(capacity);
            return rz_conversation_logprobs_into(get(), out, values.data(), capacity, n, error);
        });
        if (!tokens) return tokens.error();
        return detail::rows(*tokens, values, size_t(k) + 1);
    }
    /// Returns the messages from index `first` on, as a JSON array.
    std::string messages(uint32_t first = 0) const { return try_messages(first).value(); }
    Result<std::string> try_messages(uint32_t first = 0) const {
        return detail::sized(std::string(), [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_conversation_json_into(get(), first, out, capacity, n, error);
        });
    }
    /// Removes the messages after the first `n`.
    void rewind(uint32_t n) { try_rewind(n).value(); }
    Result<rz_status> try_rewind(uint32_t n) {
        return detail::done([&](rz_error *error) { return rz_conversation_rewind(get(), n, error); });
    }
    /// Frees the KV cache and keeps the messages.
    void release() { try_release().value(); }
    Result<rz_status> try_release() {
        return detail::done([&](rz_error *error) { return rz_conversation_release(get(), error); });
    }
    /// Sets the context length in tokens; 0: the default of rz_cache_params. Clears the KV cache.
    void set_capacity(uint32_t capacity) { try_set_capacity(capacity).value(); }
    Result<rz_status> try_set_capacity(uint32_t capacity) {
        return detail::done([&](rz_error *error) { return rz_conversation_capacity_set(get(), capacity, error); });
    }
    /// Sets what later replies do if messages do not fit: RZ_OVERFLOW_...
    void set_overflow(uint32_t mode) { try_set_overflow(mode).value(); }
    Result<rz_status> try_set_overflow(uint32_t mode) {
        return detail::done([&](rz_error *error) { return rz_conversation_overflow_set(get(), mode, error); });
    }
    /// Sets the cancel for all later calls on this conversation; null: none.
    void set_cancel(const Cancel *cancel) { try_set_cancel(cancel).value(); }
    Result<rz_status> try_set_cancel(const Cancel *cancel) {
        return detail::done([&](rz_error *error) { return rz_conversation_cancel_set(get(), detail::raw(cancel), error); });
    }
    /// Sets the LoRA adapters (with scales) for later replies, or none; clears the KV cache.
    void set_adapters(const std::vector<std::pair<const Adapter *, float>> &adapters) {
        try_set_adapters(adapters).value();
    }
    Result<rz_status> try_set_adapters(const std::vector<std::pair<const Adapter *, float>> &adapters) {
        const auto scaled = detail::scaled(adapters);
        return detail::done([&](rz_error *error) {
            return rz_conversation_adapters_set(get(), scaled.first.data(), scaled.second.data(), adapters.size(), error);
        });
    }
    /// Sets the prefix cache for later replies; null: none.
    void set_store(const Store *store) { try_set_store(store).value(); }
    Result<rz_status> try_set_store(const Store *store) {
        return detail::done([&](rz_error *error) { return rz_conversation_store_set(get(), detail::raw(store), error); });
    }
    /// Returns a copy of the conversation, which shares the KV cache copy-on-write.
    Conversation fork() const { return try_fork().value(); }
    Result<Conversation> try_fork() const {
        return detail::called<Conversation, rz_conversation *>(
            [&](rz_conversation **out, rz_error *error) { return rz_conversation_fork(get(), out, error); });
    }
    rz_conversation_info info() const { return try_info().value(); }
    Result<rz_conversation_info> try_info() const {
        return detail::called<rz_conversation_info>(
            [&](rz_conversation_info *out, rz_error *error) { return rz_conversation_info_get(get(), out, error); },
            params<rz_conversation_info>());
    }
    rz_conversation *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_conversation, rz_conversation_free> handle_;
    std::optional<uint32_t> logprobs_; // of the reply that was begun here
    std::string text_ = std::string(256, '\0');
};

/// Converts tokens to text; holds back the bytes of an incomplete UTF-8 character.
class TextStream {
public:
    explicit TextStream(const Model &model) : TextStream(make(model).value()) {}
    explicit TextStream(rz_textstream *owned) noexcept : handle_(owned) {}
    static Result<TextStream> make(const Model &model) {
        return detail::called<TextStream, rz_textstream *>(
            [&](rz_textstream **out, rz_error *error) { return rz_textstream_new(model.get(), out, error); });
    }
    /// Sets the tokens before the next ones, such as a prompt, without returning their text.
    void follow(Tokens tokens) { try_follow(tokens).value(); }
    Result<rz_status> try_follow(Tokens tokens) {
        return detail::done(
            [&](rz_error *error) { return rz_textstream_follow(get(), tokens.data(), tokens.size(), error); });
    }
    /// Returns the text that the token completes, empty for a part of a character. Valid until the next call.
    std::string_view push(uint32_t token) { return try_push(token).value(); }
    Result<std::string_view> try_push(uint32_t token) {
        return detail::read(piece_, [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_textstream_push_into(get(), token, out, capacity, n, error);
        });
    }
    /// Ends the text and returns the bytes held back. Valid until the next call.
    std::string_view flush() { return try_flush().value(); }
    Result<std::string_view> try_flush() {
        return detail::read(piece_, [&](char *out, size_t capacity, size_t *n, rz_error *error) {
            return rz_textstream_flush_into(get(), out, capacity, n, error);
        });
    }
    rz_textstream *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<rz_textstream, rz_textstream_free> handle_;
    std::string piece_ = std::string(64, '\0');
};

/// Parses the reply to a conversation token by token. Parts go to `each(kind, flags, index, text)`:
/// RZ_CHAT_EVENT_..., the index of the tool call, and a std::string_view that is valid during the call.
class ChatParser {
public:
    /// `json`: the conversation whose tokens were the prompt.
    ChatParser(const Model &model, std::string_view json) : ChatParser(make(model, json).value()) {}
    explicit ChatParser(rz_chat_parser *owned) noexcept : handle_(owned) {}
    static Result<ChatParser> make(const Model &model, std::string_view json) {
        return detail::called<ChatParser, rz_chat_parser *>([&](rz_chat_parser **out, rz_error *error) {
            return rz_chat_parser_new(model.get(), json.data(), json.size(), nullptr, out, error);
        });
    }
    /// Adds a token, and passes on the parts that it completes.
    template <class Each> void push(uint32_t token, Each &&each) { try_push(token, each).value(); }
    template <class Each> Result<rz_status> try_push(uint32_t token, Each &&each) {
        const auto pushed = detail::done([&](rz_error *error) { return rz_chat_parser_push(get(), token, error); });
        return pushed ? rest(each) : pushed;
    }
    /// Ends the reply, and passes on the rest.
    template <class Each> void end(Each &&each) { try_end(each).value(); }
    template <class Each> Result<rz_status> try_end(Each &&each) {
        const auto ended = detail::done([&](rz_error *error) { return rz_chat_parser_end(get(), error); });
        return ended ? rest(each) : ended;
    }
    rz_chat_parser *get() const noexcept { return handle_.get(); }

private:
    template <class Each> Result<rz_status> rest(Each &each) {
        return detail::parts(
            piece_,
            [&](uint32_t *kind, uint32_t *flags, uint32_t *index, char *out, size_t capacity, size_t *n, rz_error *error) {
                return rz_chat_parser_next_into(get(), kind, flags, index, out, capacity, n, error);
            },
            each);
    }

    detail::Handle<rz_chat_parser, rz_chat_parser_free> handle_;
    std::string piece_ = std::string(64, '\0');
};

} // namespace realizar

#endif
