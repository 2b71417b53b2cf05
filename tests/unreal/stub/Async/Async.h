#pragma once

#include <chrono>
#include <future>

enum class EAsyncExecution { Thread };

template <class T> class TFuture {
public:
    TFuture() = default;
    TFuture(std::future<T> future) : future_(future.share()) {}
    bool IsValid() const { return future_.valid(); }
    bool IsReady() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    void Wait() const { future_.wait(); }
    T Get() const { return future_.get(); }

private:
    std::shared_future<T> future_;
};

template <class F> auto Async(EAsyncExecution, F f) -> TFuture<decltype(f())> { return std::async(std::launch::async, f); }
