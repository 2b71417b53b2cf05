// A CUDA driver without devices, of which it shows one, two or three: the functions of libcuda that realizar calls,
// over the library's own kernels compiled as C++, or with PTX defined over what tests/ptx made of nvcc's. The real
// backend runs on it from end to end.
//
// Stricter than a device where that finds mistakes: device memory starts as NaN and has guarded ends, work in a stream
// runs only when somebody waits for it (so memory that is reused too early is seen), every thread of a kernel must wait
// for the kernel ahead, and any call can be made to fail. A launch that goes wrong poisons its context, as on a device:
// from then on its calls fail, and only the end of the context frees its memory. Handles and addresses serve in their
// own context alone; what a stream waits for in another one runs when the wait is reached. A call can be made to answer
// nonsense; handles that no call gave are refused.

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#ifdef PTX
#include "../ptx/memory.h"
#else
#include "../../kernels/realizar.cu"
// Hooks of the checker of accesses, which needs PTX.
namespace ptx {
inline void allocated(uint64_t, size_t) {}
inline void freed(uint64_t) {}
inline void overwritten(uint64_t, size_t) {}
inline void begin_grid() {}
inline void begin_block(size_t) {}
}  // namespace ptx
#endif

namespace shim {

State state;

// ---- binary16, rounded to nearest even

static const float* half_table() {
    static const std::vector<float> table = [] {
        std::vector<float> t(65536);
        for (int h = 0; h < 65536; h++) {
            const int exponent = h >> 10 & 31, fraction = h & 1023;
            float v = exponent == 31 ? (fraction ? NAN : INFINITY)
                      : exponent ? ldexpf(1024.f + fraction, exponent - 25) : ldexpf((float)fraction, -24);
            t[h] = h & 0x8000 ? -v : v;
        }
        return t;
    }();
    return table.data();
}
static const float* const halves = half_table();
float half_value(uint16_t h) { return halves[h]; }

uint16_t half_bits(float f) {
    uint32_t w;
    memcpy(&w, &f, 4);
    const uint16_t sign = w >> 16 & 0x8000;
    w &= 0x7fffffff;
    if (w > 0x7f800000) return sign | 0x7e00;
    if (w >= 0x477ff000) return sign | 0x7c00;
    // Below the normal range the sum with 0.5 drops the right bits, rounded.
    if (w < 0x38800000) {
        float v;
        memcpy(&v, &w, 4);
        v += 0.5f;
        memcpy(&w, &v, 4);
        return sign | (uint16_t)(w - 0x3f000000);
    }
    return sign | (uint16_t)((w + 0xfff + (w >> 13 & 1) - 0x38000000) >> 13);
}

// Rounds once: what is no float is taken for the one beside it whose last bit is set, which no rounding to binary16
// mistakes for a number between two.
uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c) {
    const double exact = (double)halves[a] * halves[b] + halves[c];
    const float f = (float)exact;
    uint32_t w;
    memcpy(&w, &f, 4);
    if (std::isfinite(f) && f != exact && w % 2 == 0) w += fabs(exact) > fabs(f) ? 1 : -1;
    float odd;
    memcpy(&odd, &w, 4);
    return half_bits(odd);
}

// ---- threads of a block as fibers

// Saves the registers that a call keeps and the stack pointer to `*from`, and goes on where `to` was saved: by a jump,
// because processors expect a return to lead to the last call.
extern "C" void shim_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
shim_switch:
    push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
    pop %rcx
    jmp *%rcx
)");
constexpr int kSaved = 6, kEntry = 6;
#elif defined(__aarch64__)
asm(R"(
.text
shim_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]
    add sp, sp, #160
    br x30
)");
constexpr int kSaved = 20, kEntry = 11;
#else
#error "the shim switches stacks on x86-64 and AArch64"
#endif

struct Copy { void* to; const void* from; size_t bytes; };
// Of a lane: its sums for `n` times 8 columns, the words of its left operand and the descriptor of the right one.
struct Product { float (*sums)[4]; uint32_t n; const uint32_t* left; uint64_t right; };
struct Fiber {
    void* at;
    Fiber* next;  // in the chosen order of the warp's lanes, whose last is followed by the first
    Index thread;
    enum { kReady, kLane, kBarrier, kDone } wait;
    uint32_t wait_round;
    // Groups, the last of which is still open.
    std::vector<std::vector<Copy>> copies;
    std::vector<std::vector<Product>> products;
};
struct Warp {
    uint32_t arrived, round;
    char what;
    // Two of each, so that a lane may begin the next exchange while others still read this one.
    uint32_t given[2][32][8];
    float product[2][32][4];
    float wide[2][16][256];
};
struct Block {
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    Fiber* running;
    void* scheduler;
    const char* fault;
    void (*run)(const void*);
    const void* args;
    uint32_t done;  // threads that have ended
};
static Block* block;
static size_t shared_bytes;  // of the block

// Goes on with a fiber; returns when the caller's is resumed, whose place is saved in `from`.
static void resume(void** from, Fiber& f) {
    block->running = &f;
    state.thread = f.thread;
    shim_switch(from, f.at);
}

static bool is_ready(Fiber& f, const Warp& w) {
    if (f.wait == Fiber::kLane && f.wait_round != w.round) f.wait = Fiber::kReady;
    return f.wait == Fiber::kReady;
}

// Leaves the running fiber: to the next lane of its warp that can go on, or to the scheduler if none can.
static void pause(Fiber& f) {
    const Warp& w = block->warps[f.thread.x / 32];
    for (Fiber* next = f.next; next != &f; next = next->next)
        if (is_ready(*next, w)) return resume(&f.at, *next);
    shim_switch(&f.at, block->scheduler);
}

// Never returns: the block is given up, and its stacks with it.
void fault(const char* why) {
    block->fault = why;
    shim_switch(&block->running->at, block->scheduler);
    abort();
}

void block_barrier() {
    Fiber& f = *block->running;
    f.wait = Fiber::kBarrier;
    pause(f);
}

// Multiplies matrices with `kDepth` columns on the left and rows on the right.
template <int kDepth> static void multiply(Warp& w, uint32_t round, const float (&a)[16][kDepth], const float (&b)[kDepth][8]) {
    for (uint32_t row = 0; row < 16; row++) {
        float sums[8] = {};
        for (uint32_t k = 0; k < kDepth; k++)
            for (uint32_t col = 0; col < 8; col++) sums[col] += a[row][k] * b[k][col];
        for (uint32_t col = 0; col < 8; col++) w.product[round][row % 8 * 4 + col / 2][row / 8 * 2 + col % 2] = sums[col];
    }
}

static void multiply_halves(Warp& w, uint32_t round) {
    float a[16][16], b[16][8];
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t g = lane / 4, t = lane % 4;
        const uint32_t* v = w.given[round][lane];
        for (uint32_t j = 0; j < 2; j++) {
            auto half = [&](uint32_t i) { return halves[v[i] >> (16 * j) & 0xffff]; };
            a[g][2 * t + j] = half(0), a[g + 8][2 * t + j] = half(1);
            a[g][2 * t + 8 + j] = half(2), a[g + 8][2 * t + 8 + j] = half(3);
            b[2 * t + j][g] = half(4), b[2 * t + 8 + j][g] = half(5);
        }
    }
    multiply(w, round, a, b);
}

static void multiply_floats(Warp& w, uint32_t round) {
    float a[16][8], b[8][8];
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t i = 0; i < 6; i++) {
            const uint32_t word = w.given[round][lane][i];
            if (word << 19) fault("an operand has more bits than tf32");
            memcpy(i < 4 ? &a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] : &b[lane % 4 + i % 4 * 4][lane / 4], &word, 4);
        }
    }
    multiply(w, round, a, b);
}

#ifndef PTX
// The products of the left operand of a warp, 16x16, with columns that a descriptor tells, each of which has rows of 64
// or 128 bytes: it has the address, the distance of 8 rows, and 2 or 1 for the swizzling of 64 or 128 bytes, by which
// bits 7 to 9 of an address change bits 4 to 6, or the first two of these.
static void multiply_wide(Warp& w, uint32_t round) {
    float a[16][16], b[16][256];
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t g = lane / 4, t = lane % 4;
        const uint32_t* v = w.given[round][lane];
        if (v[4] != w.given[round][0][4] || v[5] != w.given[round][0][5]) fault("the lanes of a warp give different descriptors");
        for (uint32_t i = 0; i < 8; i++) a[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] = halves[v[i / 2] >> (16 * (i % 2)) & 0xffff];
    }
    const uint64_t descriptor = (uint64_t)w.given[round][0][5] << 32 | w.given[round][0][4];
    const uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    const uint32_t columns = 8 * w.given[round][0][6], swizzling = descriptor >> 62, row_bytes = swizzling == 1 ? 128 : 64;
    if ((swizzling != 1 && swizzling != 2) || start % (8 * row_bytes) >= row_bytes || stride % (8 * row_bytes) ||
        start - start % row_bytes - kSharedBase + (columns / 8 - 1) * stride + 8 * row_bytes > shared_bytes)
        fault("a descriptor of no tile");
    for (uint32_t col = 0; col < columns; col++) {
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t at = start + col / 8 * stride + col % 8 * row_bytes + 2 * k;
            uint16_t h;
            memcpy(&h, state.shared + ((at ^ (at >> 7 & (row_bytes / 16 - 1)) << 4) - kSharedBase), 2);
            b[k][col] = halves[h];
        }
    }
    memset(w.wide[round], 0, sizeof w.wide[round]);
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t col = 0; col < columns; col++) w.wide[round][row][col] += a[row][k] * b[k][col];
}
#endif

// Puts in the place of each lane's word the sum or the maximum over the lanes.
static void reduce(Warp& w, uint32_t round, bool is_sum) {
    float v[32], next[32];
    for (uint32_t lane = 0; lane < 32; lane++) memcpy(&v[lane], w.given[round][lane], 4);
    for (uint32_t lanes = 16; lanes > 0; lanes /= 2) {
        for (uint32_t lane = 0; lane < 32; lane++) next[lane] = is_sum ? v[lane] + v[lane ^ lanes] : fmaxf(v[lane], v[lane ^ lanes]);
        memcpy(v, next, sizeof v);
    }
    for (uint32_t lane = 0; lane < 32; lane++) memcpy(w.given[round][lane], &v[lane], 4);
}

Exchange exchange(char what, const uint32_t* give, int n) {
    Fiber& f = *block->running;
    Warp& w = block->warps[f.thread.x / 32];
    const uint32_t round = w.round;
    if (w.arrived == 0) w.what = what;
    else if (w.what != what) fault("the lanes of a warp wait for different things");
    for (int i = 0; i < n; i++) w.given[round % 2][f.thread.x % 32][i] = give[i];
    if (++w.arrived == 32) {
        if (what == 'm') multiply_halves(w, round % 2);
        if (what == 'f') multiply_floats(w, round % 2);
        if (what == '+' || what == '>') reduce(w, round % 2, what == '+');
#ifndef PTX
        if (what == 'g') multiply_wide(w, round % 2);
#endif
        w.arrived = 0;
        w.round++;
    } else {
        f.wait = Fiber::kLane;
        f.wait_round = round;
        pause(f);
    }
    return {w.given[round % 2], w.product[round % 2], w.wide[round % 2]};
}

// The order of threads and blocks: forward, reverse, scrambled, forward. Copies in the background end when they are
// waited for, in the last order at once; products too, in the first order at once.
static int order;
constexpr int kEarlyProducts = 0, kEarlyCopies = 3;

// Adds to the last group.
template <class T> static void add_to_group(std::vector<std::vector<T>>& groups, const T& of) {
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back(of);
}
template <class T> static void end_group(std::vector<std::vector<T>>& groups) {
    if (groups.empty()) groups.emplace_back();
    groups.emplace_back();
}
template <class T> static bool is_pending(const std::vector<std::vector<T>>& groups) {
    for (const auto& group : groups)
        if (!group.empty()) return true;
    return false;
}
// Ends all groups but the last `left`.
template <class T, class End> static void end_groups(std::vector<std::vector<T>>& groups, int left, End&& end) {
    while ((int)groups.size() - 1 > left) {
        for (const T& of : groups.front()) end(of);
        groups.erase(groups.begin());
    }
}

void copy_later(void* to, const void* from, size_t bytes) {
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes) fault("a copy is not aligned to its size");
    if (order == kEarlyCopies) memcpy(to, from, bytes);
    else add_to_group(block->running->copies, {to, from, bytes});
}
void copy_commit() { end_group(block->running->copies); }
void copy_wait(int left) {
    end_groups(block->running->copies, left, [](const Copy& c) { memcpy(c.to, c.from, c.bytes); });
}

#ifndef PTX
static void multiply_now(const Product& of) {
    const uint32_t* a = of.left;
    const uint32_t words[7] = {a[0], a[1], a[2], a[3], (uint32_t)of.right, (uint32_t)(of.right >> 32), of.n};
    const float(*product)[256] = exchange('g', words, 7).wide;
    const uint32_t g = state.thread.x % 32 / 4, t = state.thread.x % 4;
    for (uint32_t n = 0; n < of.n; n++)
        for (uint32_t i = 0; i < 4; i++) of.sums[n][i] += product[g + i / 2 * 8][8 * n + 2 * t + i % 2];
}
void multiply_later(float (*sums)[4], uint32_t n, const uint32_t* left, uint64_t right) {
    if (order == kEarlyProducts) multiply_now({sums, n, left, right});
    else add_to_group(block->running->products, {sums, n, left, right});
}
void products_commit() { end_group(block->running->products); }
void products_wait(int left) { end_groups(block->running->products, left, multiply_now); }
#endif

#ifdef PTX
constexpr size_t kStack = 512 << 10;  // a local variable for each register
#else
constexpr size_t kStack = 64 << 10;
#endif
// Apart by no power of two, because caches have few lines for addresses that are.
constexpr size_t kApart = kStack + 5 * 64;

static void enter() {
    block->run(block->args);
    // They would write to memory of the next block.
    if (is_pending(block->running->copies) || is_pending(block->running->products)) fault("a thread ends before its copies or products");
    block->running->wait = Fiber::kDone;
    block->done++;
    pause(*block->running);
}

static void prepare(Fiber& f, uint8_t* stack) {
    // As if `shim_switch` had been called at the head of `enter`; one word more keeps the stack aligned.
    void** frame = (void**)(stack + kStack) - kSaved - 2;
    memset(frame, 0, (kSaved + 2) * sizeof(void*));
    frame[kEntry] = (void*)enter;
    f.at = frame;
}

// Thread or block `i` of `n` in the chosen order: forward, reverse, scrambled.
static uint32_t chosen(uint32_t i, uint32_t n) {
    if (order == 0 || order == 3) return i;
    if (order == 1) return n - 1 - i;
    // 7919 is prime; where it divides n, one step is as good.
    return (uint32_t)(((uint64_t)i * (n % 7919 ? 7919 : 1) + n / 3) % n);
}

static void run_block(uint32_t threads) {
    static uint8_t* const stacks = (uint8_t*)malloc(1024 * kApart);
    block->fibers.resize(threads);
    block->warps.resize(threads / 32);
    for (uint32_t i = 0; i < threads; i++) {
        Fiber& f = block->fibers[i];
        f.thread = {i, 0, 0};
        f.wait = Fiber::kReady;
        f.copies.clear();
        f.products.clear();
        prepare(f, stacks + i * kApart);
    }
    for (uint32_t i = 0; i < threads; i++) {
        Fiber* lanes = &block->fibers[i / 32 * 32];
        lanes[chosen(i % 32, 32)].next = &lanes[chosen((i + 1) % 32, 32)];
    }
    for (Warp& w : block->warps) w.arrived = 0;
    for (block->done = 0; block->done < threads;) {
        for (uint32_t i = 0; i < threads / 32; i++) {
            const uint32_t warp = chosen(i, threads / 32);
            for (bool moved = true; moved;) {
                moved = false;
                for (uint32_t j = 0; j < 32; j++) {
                    Fiber& f = block->fibers[warp * 32 + chosen(j, 32)];
                    if (!is_ready(f, block->warps[warp])) continue;
                    resume(&block->scheduler, f);
                    if (block->fault) return;
                    moved = true;
                }
            }
        }
        // Whoever has not ended now waits: for the barrier all together, or for a lane that will never come.
        for (Fiber& f : block->fibers) {
            if (f.wait == Fiber::kLane) {
                block->fault = "a lane waits for others of its warp that have ended or wait elsewhere";
                return;
            }
            if (f.wait == Fiber::kBarrier) f.wait = Fiber::kReady;
        }
    }
}

struct Function { std::string name; uint32_t bytes, max_threads; void (*run)(const void*); uint32_t max_shared; long launches; };
static std::map<std::string, Function>& functions() {
    static std::map<std::string, Function> all;
    return all;
}
Register::Register(const char* name, uint32_t bytes, uint32_t max_threads, void (*run)(const void*)) {
    functions()[name] = {name, bytes, max_threads, run, 48 << 10, 0};
}

static std::string last_fault;
struct alignas(16) Aligned { uint8_t bytes[16]; };

// Runs every block of a grid; false where one went wrong.
static bool run_grid(const Function& function, const uint32_t (&blocks)[3], uint32_t threads, uint32_t shared, const void* args) {
    static Block own;
    block = &own;
    block->run = function.run;
    block->args = args;
    block->fault = nullptr;
    // NaN before and behind, in whatever width it is read.
    std::vector<Aligned> memory(shared / 16 + 3);
    ptx::begin_grid();
    shared_bytes = shared;
    state.blocks = {blocks[0], blocks[1], blocks[2]};
    state.threads = {threads, 1, 1};
    const uint32_t n = blocks[0] * blocks[1] * blocks[2];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t b = chosen(i, n);
        state.block = {b % blocks[0], b / blocks[0] % blocks[1], b / blocks[0] / blocks[1]};
        memset(memory.data(), 0xff, memory.size() * 16);
        state.shared = (uint8_t*)(memory.data() + 1);
        state.waited = 0;
        ptx::begin_block(shared);
        run_block(threads);
        if (!block->fault && state.waited != threads) block->fault = "not every thread waits for the kernel ahead";
        for (uint32_t j = 0; j < 16 && !block->fault; j++) {
            if (((uint8_t*)memory.data())[j] != 0xff || state.shared[(shared + 15) / 16 * 16 + j] != 0xff)
                block->fault = "a write outside of shared memory";
        }
        if (block->fault) {
            last_fault = function.name + ": " + block->fault;
            fprintf(stderr, "fault: %s\n", last_fault.c_str());
            return false;
        }
    }
    return true;
}

// ---- the driver

enum { kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kInvalidDevice = 101, kInvalidContext = 201,
       kPeerAccessUnsupported = 217, kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kIllegalAddress = 700,
       kPeerAccessAlreadyEnabled = 704, kLaunchFailed = 719, kNotSupported = 801, kCaptureUnsupported = 900, kCaptureInvalid = 901 };

constexpr size_t kGuard = 64;

constexpr int kDevices = 3;
struct Device { size_t limit = size_t(1) << 30, used = 0; };
// `reached`: contexts from whose memory it may copy.
struct Context { int device, sticky = 0; std::set<Context*> reached = {}; };
struct Allocation { size_t bytes; Context* context; };
using Work = std::function<int()>;
struct Stream { Context* context; std::deque<Work> queue = {}; bool capturing = false, spoiled = false; std::deque<Work> captured = {}; };
struct Graph { std::deque<Work> work; };
// `recorded` and `ended`: how many times.
struct Event { Context* context; bool timed; Stream* stream = nullptr; long recorded = 0, ended = 0, time = 0; };

static std::recursive_mutex mutex;
static bool started;
static std::set<Context*> contexts;
static std::map<uint64_t, Allocation> allocations;
struct Pinned { Context* context; size_t bytes; };
static std::map<void*, Pinned> pinned;
static std::set<Stream*> streams;
static std::set<Event*> events;
static std::set<Graph*> graphs;
// State of a record that another thread makes, and the effect of calls of the library on it.
static std::set<std::string> absent;
static bool recording_elsewhere, spoiled_elsewhere;
static thread_local unsigned capture_mode;
static Device devices[kDevices];
static int n_devices = 1;
static bool peers = true;
static thread_local std::vector<Context*> current;
static std::string failing;
static int failing_after, failing_with;
// An answer that is a lie: one that is not written, or has no bit, all bits, or all but the highest of an int.
enum { kNothing, kZeros, kOnes, kLargestInt };
static std::string lying;
static int lying_after, lying_how;
// A fault is one of the whole process.
static bool poisonous;
static int poison;
// A device that works on for ever.
static bool hanging;
static int most_shared = 232448;  // bytes a block
// A kernel that is given wrong arguments: `spoiled_by` is added to the word at `spoiled_at` of its parameter, or the
// address there becomes null (INT32_MIN).
static std::string spoiled;
static size_t spoiled_at;
static int spoiled_by;
static size_t pinned_used;
static long launches, replays, grids, peer_copies, copies_in, copies_out, bytes_in, bytes_out;

static std::vector<Context*>& stack() { return current; }

// Begins a call: returns the failure that a test asked for, else that of the context.
static int begin(const char* name) {
    if ((failing == name || failing == "*") && failing_after-- == 0) {
        failing.clear();
        const int status = failing_with;
        // Errors of a kernel end the context; others do not.
        if (status / 100 == 7 && !stack().empty()) stack().back()->sticky = status;
        return status;
    }
    if (!started) return kNotInitialized;
    if (poison) return poison;
    if (stack().empty()) return strcmp(name, "cuInit") && strcmp(name, "cuCtxCreate_v2") ? kInvalidContext : 0;
    return stack().back()->sticky;
}
#define BEGIN                                              \
    std::lock_guard<std::recursive_mutex> lock(mutex);      \
    if (const int status = begin(__func__)) return status
// Begins a call that is not allowed while another thread records.
#define BEGIN_UNSAFE                               \
    BEGIN;                                         \
    if (recording_elsewhere && capture_mode != 2) return spoiled_elsewhere = true, kCaptureUnsupported

// Answers a call that succeeds, with the truth or what a test has asked for.
template <class T> static int answer(const char* name, T* to, T truth) {
    if (lying != name || lying_after-- > 0) return *to = truth, 0;
    lying.clear();
    if (lying_how == kNothing) return 0;
    const int most = INT32_MAX;
    memset((void*)to, lying_how == kOnes ? 0xff : 0, sizeof(T));
    if (lying_how == kLargestInt) memcpy((void*)to, &most, sizeof most);
    return 0;
}
#define ANSWER(to, truth) answer(__func__, to, truth)

static void check_guards(uint64_t address, const Allocation& a) {
    const uint8_t* p = (const uint8_t*)address;
    for (size_t i = 1; i <= kGuard; i++)
        if (p[-(ptrdiff_t)i] != 0xa5 || p[a.bytes + i - 1] != 0xa5) {
            last_fault = "a write outside of an allocation";
            a.context->sticky = kIllegalAddress;
        }
}

// Runs the work of a stream, up to some record of an event or all.
static int drain(Stream* s, const Event* until = nullptr, long record = 0) {
    while (!s->queue.empty() && !s->context->sticky && !(until && until->ended >= record)) {
        // Taken out first, because work may wait for other streams, and these for this one.
        const Work work = std::move(s->queue.front());
        s->queue.pop_front();
        if (const int status = work()) {
            s->context->sticky = status;
            if (poisonous) poison = kIllegalAddress;
        }
    }
    if (s->context->sticky) s->queue.clear();
    for (auto& [address, a] : allocations) check_guards(address, a);
    return s->context->sticky;
}
static int enqueue(void* stream, Work work) {
    Stream* s = (Stream*)stream;
    if (!streams.count(s) || s->context != stack().back()) return kInvalidHandle;
    (s->capturing ? s->captured : s->queue).push_back(std::move(work));
    return 0;
}
// The allocation that an address lies in.
static const Allocation* allocation(uint64_t address, size_t bytes = 1) {
    auto it = allocations.upper_bound(address);
    if (it == allocations.begin()) return nullptr;
    --it;
    const uint64_t at = address - it->first, all = it->second.bytes;
    return at <= all && bytes <= all - at ? &it->second : nullptr;
}
// True if `bytes` from `address` on lie in one allocation of a context.
static bool inside(uint64_t address, size_t bytes, const Context* context = nullptr) {
    const Allocation* a = allocation(address, bytes);
    return a && a->context == (context ? context : stack().back());
}
// Faults where a word is an address in another context.
static int check_words(const char* what, const void* from, size_t bytes) {
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, (const uint8_t*)from + at, 8);
        const Allocation* a = allocation(word);
        if (!a || a->context == stack().back()) continue;
        last_fault = std::string(what) + ": memory of another context";
        fprintf(stderr, "fault: %s\n", last_fault.c_str());
        return stack().back()->sticky = kIllegalAddress;
    }
    return 0;
}
static void give_back(std::map<uint64_t, Allocation>::iterator it) {
    devices[it->second.context->device].used -= it->second.bytes;
    ptx::freed(it->first);
    free((uint8_t*)it->first - 256);
    allocations.erase(it);
}
static int copy(void* stream, void* to, const void* from, size_t bytes) {
    return enqueue(stream, [=] {
        memcpy(to, from, bytes);
        ptx::overwritten((uint64_t)to, bytes);
        return 0;
    });
}
static void free_pinned(std::map<void*, Pinned>::iterator it) {
    pinned_used -= it->second.bytes;
    ptx::freed((uint64_t)it->first);
    free(it->first);
    pinned.erase(it);
}

}  // namespace shim

using namespace shim;

#define EXPORT extern "C" __attribute__((visibility("default")))

// ---- functions for tests

EXPORT void shim_order(int which) { order = which; }
EXPORT void shim_devices(int n) { n_devices = n; }
EXPORT void shim_peers(bool on) { peers = on; }
EXPORT void shim_memory(size_t bytes) { devices[0].limit = bytes; }
EXPORT void shim_device_memory(int device, size_t bytes) { devices[device].limit = bytes; }
EXPORT size_t shim_device_memory_used(int device) { return devices[device].used; }
// The call `after` calls to `name` from now returns `status`; "*" stands for every name.
EXPORT void shim_fail(const char* name, int after, int status) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    failing = name, failing_after = after, failing_with = status;
}
// The answer `after` answers to `name` from now is a lie.
EXPORT void shim_lie(const char* name, int after, int how) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    lying = name, lying_after = after, lying_how = how;
}
EXPORT size_t shim_lie_pending() { return !lying.empty(); }
// From now on a fault has every call in every context fail, until this is set anew.
EXPORT void shim_poison(bool on) { poisonous = on, poison = 0; }
// From now on images lack the kernels whose names begin so, too; none if the name is empty.
EXPORT void shim_absent(const char* name) { if (*name) absent.insert(name); else absent.clear(); }
EXPORT void shim_shared(int bytes) { most_shared = bytes; }
EXPORT void shim_hang(bool on) { hanging = on; }
EXPORT void shim_spoil(const char* kernel, size_t at, int by) { spoiled = kernel, spoiled_at = at, spoiled_by = by; }
EXPORT size_t shim_pinned_used() { return pinned_used; }
EXPORT size_t shim_failure_pending() { return !failing.empty(); }
EXPORT const char* shim_last_fault() { return last_fault.c_str(); }
EXPORT long shim_launches() { return launches; }
// Launches of a kernel.
EXPORT long shim_launches_of(const char* name) {
    const auto it = functions().find(name);
    return it == functions().end() ? 0 : it->second.launches;
}
EXPORT long shim_replays() { return replays; }
EXPORT size_t shim_memory_used() {
    size_t sum = 0;
    for (const Device& device : devices) sum += device.used;
    return sum;
}
EXPORT long shim_peer_copies() { return peer_copies; }
EXPORT long shim_copies_in() { return copies_in; }
EXPORT long shim_copies_out() { return copies_out; }
EXPORT long shim_bytes_in() { return bytes_in; }
EXPORT long shim_bytes_out() { return bytes_out; }
EXPORT size_t shim_contexts() { return contexts.size(); }
// Another thread begins or ends to record; whether a call of ours has spoiled what it recorded.
EXPORT bool shim_record_elsewhere(bool on) { return recording_elsewhere = on, std::exchange(spoiled_elsewhere, false); }
// Bytes of a kernel's parameter; 0 where there is no such kernel.
EXPORT unsigned shim_parameter_bytes(const char* name) {
    const auto it = functions().find(name);
    return it == functions().end() ? 0 : it->second.bytes;
}

// ---- libcuda

// True if a thread that is started now would run handlers of the host.
EXPORT bool shim_hears_signals() {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return !sigismember(&blocked, SIGINT) || !sigismember(&blocked, SIGPROF);
}

EXPORT int cuInit(unsigned) {
    // A driver starts threads here, and with each context.
    if (shim_hears_signals()) return kNotSupported;
    started = true;
    BEGIN;
    return 0;
}
EXPORT int cuDriverGetVersion(int* version) { return ANSWER(version, 13000); }
EXPORT int cuGetErrorName(int status, const char** name) {
    switch (status) {
        case kOutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
        case kIllegalAddress: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
        case kLaunchFailed: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
        default: *name = nullptr; return kInvalidValue;
    }
}
static bool is_device(int device) { return device >= 0 && device < n_devices; }
EXPORT int cuDeviceGetCount(int* n) { return ANSWER(n, n_devices); }
EXPORT int cuDeviceGet(int* device, int ordinal) { return is_device(ordinal) ? ANSWER(device, ordinal) : kInvalidDevice; }
EXPORT int cuDeviceGetName(char* name, int n, int device) {
    struct Name { char text[256] = "shim"; };
    if (!is_device(device)) return kInvalidDevice;
    return n < (int)sizeof(Name) ? kInvalidValue : ANSWER((Name*)name, Name());
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (!is_device(device)) return kInvalidDevice;
    // Few processors, so that small grids are dealt out to several turns.
    const char* processors = getenv("SHIM_PROCESSORS");
    return ANSWER(value, attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? atoi(processors ? processors : "3") : attribute == 97 ? most_shared : 0);
}
EXPORT int cuDeviceGetUuid_v2(char* uuid, int device) {
    if (!is_device(device)) return kInvalidDevice;
    memset(uuid, 1 + device, 16);
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) { return is_device(device) ? ANSWER(bytes, devices[device].limit) : kInvalidDevice; }
EXPORT int cuDeviceCanAccessPeer(int* can, int device, int peer) {
    return is_device(device) && is_device(peer) ? ANSWER(can, int(peers && device != peer)) : kInvalidDevice;
}
EXPORT int cuCtxCreate_v2(void** context, unsigned, int device) {
    BEGIN_UNSAFE;
    if (shim_hears_signals()) return kNotSupported;
    if (!is_device(device)) return kInvalidDevice;
    Context* c = new Context{device};
    contexts.insert(c);
    stack().push_back(c);
    return ANSWER(context, (void*)c);
}
EXPORT int cuCtxDestroy_v2(void* context) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    if (recording_elsewhere && capture_mode != 2) return spoiled_elsewhere = true, kCaptureUnsupported;
    if (poison) return poison;
    Context* c = (Context*)context;
    if (!contexts.erase(c)) return kInvalidContext;
    for (Context* other : contexts) other->reached.erase(c);
    for (auto it = streams.begin(); it != streams.end();) it = (*it)->context == c ? streams.erase(it) : std::next(it);
    for (auto it = allocations.begin(); it != allocations.end();) {
        const auto next = std::next(it);
        if (it->second.context == c) give_back(it);
        it = next;
    }
    for (auto it = pinned.begin(); it != pinned.end();) {
        const auto next = std::next(it);
        if (it->second.context == c) free_pinned(it);
        it = next;
    }
    return 0;
}
EXPORT int cuCtxEnablePeerAccess(void* context, unsigned) {
    BEGIN;
    Context *c = (Context*)context, *own = stack().back();
    if (!contexts.count(c)) return kInvalidContext;
    if (!peers || c->device == own->device) return kPeerAccessUnsupported;
    return own->reached.insert(c).second ? 0 : kPeerAccessAlreadyEnabled;
}
EXPORT int cuCtxPushCurrent_v2(void* context) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    if (poison) return poison;
    if (!contexts.count((Context*)context)) return kInvalidContext;
    stack().push_back((Context*)context);
    return 0;
}
EXPORT int cuCtxPopCurrent_v2(void** context) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    if (stack().empty()) return kInvalidValue;
    ANSWER(context, (void*)stack().back());
    stack().pop_back();
    return 0;
}
EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
    BEGIN;
    const Device& d = devices[stack().back()->device];
    return ANSWER(free, d.limit - d.used), ANSWER(total, d.limit);
}
EXPORT int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    BEGIN_UNSAFE;
    if (bytes == 0) return kInvalidValue;
    Device& d = devices[stack().back()->device];
    if (bytes > d.limit - d.used) return kOutOfMemory;
    uint8_t* p = (uint8_t*)aligned_alloc(256, (bytes + 256 + kGuard + 255) / 256 * 256);
    memset(p, 0xa5, 256);
    memset(p + 256, 0xff, bytes);
    memset(p + 256 + bytes, 0xa5, kGuard);
    d.used += bytes;
    ptx::allocated((uint64_t)(p + 256), bytes);
    allocations[(uint64_t)(p + 256)] = {bytes, stack().back()};
    return ANSWER(address, (uint64_t)(p + 256));
}
EXPORT int cuMemFree_v2(uint64_t address) {
    BEGIN_UNSAFE;
    const auto it = allocations.find(address);
    if (it == allocations.end()) return kInvalidValue;
    for (Stream* s : streams) drain(s);
    return give_back(it), 0;
}
EXPORT int cuMemHostAlloc(void** p, size_t bytes, unsigned) {
    BEGIN_UNSAFE;
    if (bytes == 0) return kInvalidValue;
    void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    pinned[memory] = {stack().back(), bytes};
    pinned_used += bytes;
    ptx::allocated((uint64_t)memory, bytes);
    return ANSWER(p, memory);
}
EXPORT int cuMemFreeHost(void* p) {
    BEGIN_UNSAFE;
    const auto it = pinned.find(p);
    if (it == pinned.end()) return kInvalidValue;
    for (Stream* s : streams) drain(s);
    return free_pinned(it), 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    BEGIN;
    // Inputs of a step have addresses among them, weights are not looked at.
    if (const int fault = check_words("an upload", from, bytes <= 65536 ? bytes : 0)) return fault;
    copies_in++, bytes_in += bytes;
    return inside(to, bytes) ? copy(stream, (void*)to, from, bytes) : kInvalidValue;
}
EXPORT int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
    BEGIN;
    copies_out++, bytes_out += bytes;
    return inside(from, bytes) ? copy(stream, to, (const void*)from, bytes) : kInvalidValue;
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    BEGIN;
    return inside(to, bytes) && inside(from, bytes) ? copy(stream, (void*)to, (const void*)from, bytes) : kInvalidValue;
}
// Stricter than a device, which would go by way of the host where `to` does not reach `from`.
EXPORT int cuMemcpyPeerAsync(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t bytes, void* stream) {
    BEGIN;
    Context *target = (Context*)to_context, *source = (Context*)from_context;
    if (!contexts.count(target) || !contexts.count(source)) return kInvalidContext;
    if (!target->reached.count(source)) return kPeerAccessUnsupported;
    if (!inside(to, bytes, target) || !inside(from, bytes, source)) return kInvalidValue;
    peer_copies++;
    return copy(stream, (void*)to, (const void*)from, bytes);
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream) {
    BEGIN;
    if (!inside(to, bytes)) return kInvalidValue;
    return enqueue(stream, [=] { return memset((void*)to, value, bytes), ptx::overwritten(to, bytes), 0; });
}
EXPORT int cuStreamCreate(void** stream, unsigned) {
    BEGIN;
    Stream* s = new Stream{stack().back()};
    streams.insert(s);
    return ANSWER(stream, (void*)s);
}
EXPORT int cuStreamDestroy_v2(void* stream) {
    BEGIN;
    Stream* s = (Stream*)stream;
    if (!streams.erase(s)) return kInvalidHandle;
    // A device would go on with it, in memory that is freed next.
    if (!s->queue.empty()) last_fault = "a stream ends ahead of its work", s->context->sticky = kIllegalAddress;
    return delete s, 0;
}
// Work runs when it is asked for.
EXPORT int cuStreamQuery(void* stream) {
    BEGIN;
    Stream* s = (Stream*)stream;
    if (!streams.count(s)) return kInvalidHandle;
    if (s->capturing) return s->spoiled = true, kCaptureUnsupported;
    return hanging ? kNotReady : drain(s);
}
EXPORT int cuEventCreate(void** event, unsigned flags) {
    BEGIN;
    Event* e = new Event{stack().back(), !(flags & 2)};
    events.insert(e);
    return ANSWER(event, (void*)e);
}
EXPORT int cuEventDestroy_v2(void* event) {
    BEGIN;
    if (!events.erase((Event*)event)) return kInvalidHandle;
    for (Stream* s : streams) drain(s);
    return delete (Event*)event, 0;
}
EXPORT int cuEventRecord(void* event, void* stream) {
    BEGIN;
    Event* e = (Event*)event;
    if (!events.count(e) || !streams.count((Stream*)stream) || e->context != ((Stream*)stream)->context) return kInvalidHandle;
    e->stream = (Stream*)stream;
    return enqueue(stream, [e, n = ++e->recorded] { return e->ended = n, e->time = grids, 0; });
}
// The event may be of another context. What a fault there keeps from running is not waited for.
EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    BEGIN;
    const Event* e = (const Event*)event;
    if (!events.count((Event*)event)) return kInvalidHandle;
    return enqueue(stream, [e, n = e->recorded] {
        if (e->ended < n && streams.count(e->stream)) drain(e->stream, e, n);
        return 0;
    });
}
EXPORT int cuEventQuery(void* event) {
    BEGIN;
    const Event* e = (const Event*)event;
    if (!events.count((Event*)event)) return kInvalidHandle;
    return hanging ? kNotReady : e->stream ? drain(e->stream, e, e->recorded) : 0;
}
// The time is that of the grids that ran, a millisecond each.
EXPORT int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
    BEGIN;
    for (Event* e : {(Event*)from, (Event*)to}) {
        if (!events.count(e) || !e->timed || !e->stream) return kInvalidHandle;
        if (e->ended < e->recorded) return kNotReady;
    }
    return ANSWER(milliseconds, (float)(((Event*)to)->time - ((Event*)from)->time));
}
EXPORT int cuThreadExchangeStreamCaptureMode(unsigned* mode) {
    const unsigned wanted = *mode;
    if (wanted > 2) return kInvalidValue;
    return ANSWER(mode, std::exchange(capture_mode, wanted));
}
EXPORT int cuStreamBeginCapture_v2(void* stream, unsigned) {
    BEGIN;
    Stream* s = (Stream*)stream;
    if (!streams.count(s)) return kInvalidHandle;
    if (s->capturing) return kCaptureInvalid;
    s->capturing = true, s->spoiled = false;
    s->captured.clear();
    return 0;
}
EXPORT int cuStreamEndCapture(void* stream, void** graph) {
    Stream* s = (Stream*)stream;
    const bool capturing = s->capturing;
    s->capturing = false;
    BEGIN;
    if (!capturing || s->spoiled) return kCaptureInvalid;
    return ANSWER(graph, (void*)*graphs.insert(new Graph{std::move(s->captured)}).first);
}
EXPORT int cuGraphInstantiateWithFlags(void** exec, void* graph, uint64_t) {
    BEGIN;
    if (!graphs.count((Graph*)graph)) return kInvalidHandle;
    return ANSWER(exec, (void*)*graphs.insert(new Graph(*(Graph*)graph)).first);
}
EXPORT int cuGraphLaunch(void* exec, void* stream) {
    BEGIN;
    if (!graphs.count((Graph*)exec)) return kInvalidHandle;
    replays++;
    for (const Work& work : ((Graph*)exec)->work) enqueue(stream, work);
    return 0;
}
static int destroy(void* graph) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    if (!graphs.erase((Graph*)graph)) return kInvalidHandle;
    return delete (Graph*)graph, 0;
}
EXPORT int cuGraphExecDestroy(void* exec) { return destroy(exec); }
EXPORT int cuGraphDestroy(void* graph) { return destroy(graph); }
EXPORT int cuModuleLoadData(void** module, const void*) {
    BEGIN;
    return ANSWER(module, (void*)&functions());
}
EXPORT int cuModuleUnload(void*) { return 0; }
// The function of a handle, or none.
static Function* function_of(void* handle) {
    static const std::set<Function*> all = [] {
        std::set<Function*> all;
        for (auto& [name, function] : functions()) all.insert(&function);
        return all;
    }();
    return all.count((Function*)handle) ? (Function*)handle : nullptr;
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
    BEGIN;
    if (module != &functions()) return kInvalidHandle;
    const auto it = functions().find(name);
    bool lacks = it == functions().end();
    for (const std::string& prefix : absent) lacks |= std::string(name).compare(0, prefix.size(), prefix) == 0;
    if (lacks) return kNotFound;
    return ANSWER(function, (void*)&it->second);
}
EXPORT int cuFuncGetAttribute(int* value, int attribute, void* function) {
    BEGIN;
    return function_of(function) ? ANSWER(value, attribute == 5 || attribute == 6 ? 90 : 0) : kInvalidHandle;
}
EXPORT int cuFuncGetParamInfo(void* function, size_t i, size_t* offset, size_t* bytes) {
    BEGIN;
    if (!function_of(function)) return kInvalidHandle;
    return i > 0 ? kInvalidValue : (*offset = 0, ANSWER(bytes, (size_t)function_of(function)->bytes));
}
EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
    BEGIN;
    if (!function_of(function)) return kInvalidHandle;
    // The share of the memory of a processor that blocks may share, in percent.
    if (attribute == 9) return value < 0 || value > 100 ? kInvalidValue : 0;
    if (attribute != 8 || value < 0 || value > most_shared) return kInvalidValue;
    ((Function*)function)->max_shared = value;
    return 0;
}

struct LaunchConfig {
    uint32_t blocks[3], threads[3], shared;
    void* stream;
    void* attributes;
    uint32_t n_attributes;
};
EXPORT int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** parameters, void**) {
    BEGIN;
    const LaunchConfig c = *config;
    const Function* f = function_of(function);
    if (!f) return kInvalidHandle;
    const uint64_t blocks = (uint64_t)c.blocks[0] * c.blocks[1] * c.blocks[2];
    // An early start (6) is the only attribute in use.
    if (blocks == 0 || c.blocks[0] > INT32_MAX || c.blocks[1] > 65535 || c.blocks[2] > 65535 || c.threads[0] == 0 ||
        c.threads[0] % 32 || c.threads[0] > f->max_threads || c.threads[1] != 1 || c.threads[2] != 1 ||
        c.shared > f->max_shared || c.n_attributes > 1 || (c.n_attributes && *(const uint32_t*)c.attributes != 6))
        return kInvalidValue;
    if (const int fault = check_words(f->name.c_str(), parameters[0], f->bytes)) return fault;
    launches++;
    ((Function*)function)->launches++;
    auto args = std::make_shared<std::vector<Aligned>>(f->bytes / 16 + 1);
    memcpy(args->data(), parameters[0], f->bytes);
    if (f->name == spoiled) {
        uint8_t* at = (uint8_t*)args->data() + spoiled_at;
        if (spoiled_by == INT32_MIN) *(uint64_t*)at = 0;
        else *(uint32_t*)at += spoiled_by;
    }
    return enqueue(c.stream, [=] { return grids++, run_grid(*f, c.blocks, c.threads[0], c.shared, args->data()) ? 0 : kLaunchFailed; });
}
