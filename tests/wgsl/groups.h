// Runs a kernel's groups. The threads of a group are fibers that take turns at barriers, in one of three orders.
// Threadgroup memory is NaN before each group.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <ucontext.h>
#include <vector>
#include <metal_stdlib>

constexpr uint MOST = 256;
constexpr size_t STACK = 256 << 10;

// The buffers of a launch: weights, vectors, inputs, scratch, cache.
struct Buffers {
    void* at[5];
    uint64_t bytes[5];
    const uint* words;
};

struct Kernel {
    uint threads;
    void (*group)(const Buffers&, metal::uint3);
};
inline std::map<std::string, Kernel> kernels;

inline ucontext_t home, fibers[MOST];
inline std::vector<char> stacks[MOST];
inline bool ended[MOST];
inline uint turns[MOST], current;
inline metal::uint3 current_group;
inline const char* current_kernel;
inline std::string message;
inline std::function<void(uint)> body;

inline void barrier() { swapcontext(&fibers[current], &home); }

inline std::string place() {
    char text[160];
    snprintf(text, sizeof text, "%s, thread %u of group %u,%u,%u", current_kernel, current, current_group.x,
             current_group.y, current_group.z);
    return text;
}

inline void fault(const char* what, uint64_t index, uint64_t size) {
    if (message.empty()) message = place() + ": index " + std::to_string(index) + " of " + what + ", which has " + std::to_string(size);
}

inline void start() {
    body(current);
    ended[current] = true;
    for (;;) barrier();
}

inline void arrange(uint n, uint order) {
    for (uint i = 0; i < n; i++) turns[i] = i;
    if (order == 1) std::reverse(turns, turns + n);
    if (order == 2)
        for (uint i = n - 1, seed = 1; i > 0; i--) seed = seed * 1664525 + 1013904223, std::swap(turns[i], turns[(seed >> 8) % (i + 1)]);
}

inline void run_group(uint n, std::function<void(uint)> f) {
    body = std::move(f);
    for (uint i = 0; i < n; i++) {
        stacks[i].resize(STACK);
        ended[i] = false;
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i].data();
        fibers[i].uc_stack.ss_size = STACK;
        makecontext(&fibers[i], start, 0);
    }
    for (uint left = n; left > 0;) {
        left = 0;
        for (uint i = 0; i < n; i++) {
            current = turns[i];
            if (ended[current]) continue;
            swapcontext(&home, &fibers[current]);
            left += !ended[current];
        }
        if (left > 0 && left < n && message.empty())
            message = place() + ": " + std::to_string(n - left) + " of " + std::to_string(n) + " threads ended before a barrier";
        if (!message.empty()) return;
    }
}

template <class T> inline T bind(const Buffers& from, int i) {
    static const char* names[] = {"weights", "vectors", "inputs", "scratch", "the cache"};
    typedef std::remove_reference_t<decltype(T{}[0])> Item;
    return T{(Item*)from.at[i], from.bytes[i] / sizeof(Item), names[i]};
}
