// Checks every access to memory by the order that the PTX memory model gives, whatever order the threads really ran in.
//
// A *segment* is what a thread does between two points of synchronization. Each byte of global and of shared memory
// knows the segment that wrote it last and those that have read it since. A write has to be ordered behind all of
// these, a read behind the write; else it is a race, which is a fault. One access is ordered behind another
// - of the same thread;
// - of the same block, if a `bar.sync` lies between, or of the same warp, if a `bar.warp.sync` does (a shuffle or a
//   matrix product orders no memory);
// - of another block, if that one, or who had synchronized with it by a barrier, then made a fence and an atomic
//   operation behind it, and the thread here an atomic operation on the same address, later, and a fence behind it; or
//   who made these and then a barrier with the thread here (release and acquire);
// - of an earlier kernel, if the thread has waited for it. Ahead of `griddepcontrol.wait` only memory may be read that
//   no kernel ever wrote.
// A copy in the background may read and write at any time until its thread waits for it: nothing is ordered against it
// before. Products in the background (wgmma) may read shared memory and registers at any time until their thread waits
// for them: neither may change before. What they read has to be written by threads that made a `fence.proxy.async`
// behind it and then a barrier with them; and a `wgmma.fence` has to be the first of a group of them. Memory that
// `ld.global.nc` reads may not be written by the same kernel at all.
//
// Not seen: kernels in two streams at once, what the host reads, and paths that no test takes. Reported although it is
// right: order that `fence.sc` alone gives, because every fence is taken for `fence.acq_rel`; a write behind readers in
// several blocks of one kernel, however they were waited for. Blocks run one after another, so a block that waits for a
// later one, as by spinning on a flag, would not end.
#include "memory.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

static const float* half_table() {
    static float table[65536];
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t w = h;
        _Float16 v;
        memcpy(&v, &w, 2);
        table[h] = v;
    }
    return table;
}
const float* const half_values = half_table();

[[noreturn]] void fault(At at, const char* why) {
    static std::string text;
    text = std::string(at) + ": " + why;
    shim::fault(text.c_str());
    abort();
}

// ---- segments and their order

struct Segment {
    // Several: of a warp or a block in the same epoch, or of a grid.
    enum { kThread, kAtomic, kCopy, kWarp, kBlock, kGrid } kind;
    uint32_t block, thread, epoch, warp_epoch, fences;
};
using Id = uint32_t;  // 0: the host
static std::vector<Segment> segments;  // of this grid, from id `grid_base` on
static Id next_id = 1, grid_base = 1, block_base = 1, grid_readers;

static Id new_segment(const Segment& s) {
    segments.push_back(s);
    return next_id++;
}
static const Segment& segment(Id id) { return segments[id - grid_base]; }

// The accesses known to be behind one: of each block all before an epoch, and some of one thread and its warp in that
// epoch.
using Clock = std::map<uint32_t, Segment>;
using Known = std::shared_ptr<const Clock>;

static void join(Known& to, const Known& from) {
    if (!from || to == from) return;
    if (!to) {
        to = from;
        return;
    }
    auto both = std::make_shared<Clock>(*to);
    for (const auto& [block, s] : *from) {
        const auto [it, fresh] = both->emplace(block, s);
        if (!fresh && it->second.epoch <= s.epoch) it->second = s;
    }
    to = both;
}

// A register and what it has to hold.
struct Held {
    uint32_t* place;
    uint32_t value;
    Held(void* p) : place((uint32_t*)p) { memcpy(&value, p, 4); }
    void check(At at) const {
        uint32_t now;
        memcpy(&now, place, 4);
        if (now != value) fault(at, "a register was changed that products in the background have");
    }
};
// Rows of shared memory that products of a warp read.
struct Rows { uint32_t first, bytes; };
struct Products { std::vector<Held> left; std::vector<Rows> rows; };
struct Copy { uint8_t* to; const uint8_t* from; uint32_t bytes, shared; uint64_t global; Id source_writers[16]; };
struct Group { Id segment = 0; std::vector<Copy> copies; };
struct Thread {
    Id id;  // of its segment, 0: to be made
    uint32_t epoch, warp_epoch, fences, products;
    bool waited;
    Known known, observed, released;  // ordered before now; once there is a fence; before the last fence
    std::vector<Group> groups;        // the last is open
    std::vector<Products> background; // groups, the last of which is open
    std::vector<Held> sums;           // of these
    bool fenced;                      // the open group
    // Segments below these are behind a `fence.proxy.async`: for the thread, and for others behind its last barrier.
    Id proxied, proxied_at_barrier;
};
struct Warp {
    Id readers;
    uint32_t readers_epoch, products;
    uint32_t barrier_epoch;
    At barrier_at;
    Known joined[2];
    float product[2][16][8];
    float wide[2][16][256];
    std::vector<Rows> read;  // by products in the background
};
static std::vector<Thread> threads;
static std::vector<Warp> warps;
static Id block_readers;
static uint32_t block_readers_epoch, block_number;
static Known joined[2];
static std::map<uint64_t, Known> released_at;  // by the atomic operations on an address

static Thread& me() { return threads[shim::state.thread.x]; }
static Warp& my_warp() { return warps[shim::state.thread.x / 32]; }

static Segment describe(decltype(Segment::kind) kind) {
    const Thread& t = me();
    return {kind, block_number, shim::state.thread.x, t.epoch, t.warp_epoch, t.fences};
}
static Id my_segment() {
    Thread& t = me();
    if (!t.id) t.id = new_segment(describe(Segment::kThread));
    return t.id;
}

static bool ordered(Id id) {
    const Segment& s = segment(id);
    const Thread& t = me();
    const uint32_t thread = shim::state.thread.x;
    if (s.kind == Segment::kCopy || s.kind == Segment::kGrid) return false;
    if (s.block == block_number) {
        if (s.epoch < t.epoch) return true;
        if (s.kind == Segment::kBlock) return false;
        return (s.thread == thread && s.kind != Segment::kWarp) || (s.thread / 32 == thread / 32 && s.warp_epoch < t.warp_epoch);
    }
    if (!t.known) return false;
    const auto it = t.known->find(s.block);
    if (it == t.known->end()) return false;
    const Segment& k = it->second;
    if (s.epoch != k.epoch) return s.epoch < k.epoch;
    if (s.kind == Segment::kBlock) return false;
    return (s.thread == k.thread && s.kind != Segment::kWarp && s.fences < k.fences) ||
           (s.thread / 32 == k.thread / 32 && s.warp_epoch < k.warp_epoch);
}

[[noreturn]] static void race(At at, const char* does, const char* did, Id id) {
    const Segment& s = segment(id);
    auto thread = [](const Segment& s) {
        const uint32_t warp = s.thread / 32;
        return "block " + std::to_string(s.block) +
               (s.kind == Segment::kBlock ? "" : s.kind == Segment::kWarp ? " warp " + std::to_string(warp) : " thread " + std::to_string(s.thread));
    };
    const std::string who = s.kind == Segment::kGrid ? "several blocks" : thread(s);
    const std::string text = "a race: " + thread(describe(Segment::kThread)) + " " + does + " what " + who +
                             (s.kind == Segment::kCopy ? "'s copy, not yet waited for," : "") + " " + did;
    fault(at, text.c_str());
}

// The id that stands for the readers of a byte, `old` and the running thread.
static Id with_me(Id old) {
    const Segment& s = segment(old);
    if (s.kind == Segment::kGrid) return old;
    if (ordered(old)) return my_segment();
    if (s.block != block_number) return grid_readers;
    const Thread& t = me();
    if (s.kind != Segment::kBlock && s.thread / 32 == shim::state.thread.x / 32) {
        Warp& w = my_warp();
        if (!w.readers || w.readers_epoch != t.warp_epoch) {
            w.readers = new_segment(describe(Segment::kWarp));
            w.readers_epoch = t.warp_epoch;
        }
        return w.readers;
    }
    if (!block_readers || block_readers_epoch != t.epoch) {
        block_readers = new_segment(describe(Segment::kBlock));
        block_readers_epoch = t.epoch;
    }
    return block_readers;
}

// Checks an access against the last ones to its bytes, which are older than `base` or in this grid, and notes it.
static void note(Id* writers, Id* readers, uint32_t size, Kind kind, Id base, At at) {
    const Id mine = my_segment();
    Id writer = ~0u, reader = ~0u, read_by = 0;
    for (uint32_t i = 0; i < size; i++) {
        // Neighboring bytes mostly have the same history.
        if (writers[i] != writer || readers[i] != reader) {
            writer = writers[i], reader = readers[i];
            if (writer >= base && writer != mine && !ordered(writer)) race(at, kind == kWrite ? "writes" : "reads", "wrote", writer);
            if (kind == kWrite && reader >= base && reader != mine && !ordered(reader)) race(at, "writes", "read", reader);
            if (kind == kReadConstant && writer >= base) race(at, "reads as a constant", "wrote", writer);
            read_by = kind == kWrite ? 0 : kind == kReadConstant ? grid_readers : reader >= base && reader != mine ? with_me(reader) : mine;
        }
        if (kind == kWrite) writers[i] = mine;
        readers[i] = read_by;
    }
}

// ---- global memory

struct Range { uint64_t low, high; Id *writers, *readers; };
static std::map<uint64_t, Range> ranges;
static Range recent[8];
static uint32_t next_recent;

static Id* shadow(size_t bytes) {
    void* p = mmap(nullptr, bytes * sizeof(Id), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    return (Id*)p;
}
void allocated(uint64_t address, size_t bytes) {
    ranges[address] = {address, address + bytes, shadow(bytes), shadow(bytes)};
}
void freed(uint64_t address) {
    const Range r = ranges.at(address);
    munmap(r.writers, (r.high - r.low) * sizeof(Id));
    munmap(r.readers, (r.high - r.low) * sizeof(Id));
    ranges.erase(address);
    for (Range& r : recent) r = {};
}
static const Range* find(uint64_t address) {
    for (const Range& r : recent)
        if (address - r.low < r.high - r.low) return &r;
    auto it = ranges.upper_bound(address);
    if (it == ranges.begin() || (--it)->second.high <= address) return nullptr;
    return &(recent[next_recent++ % 8] = it->second);
}
void overwritten(uint64_t address, size_t bytes) {
    const Range* r = find(address);
    if (r) memset(r->writers + (address - r->low), 0, bytes * sizeof(Id));
}

static const Range& range_of(uint64_t address, uint32_t size, Kind kind, At at) {
    if (address % size) fault(at, "global memory that is not aligned to the size of the access");
    const Range* r = find(address);
    if (!r || r->high - address < size) fault(at, kind == kWrite ? "a write outside of any allocation" : "a read outside of any allocation");
    return *r;
}
uint8_t* global_at(uint64_t address, uint32_t size, Kind kind, At at) {
    const Range& r = range_of(address, size, kind, at);
    const uint64_t i = address - r.low;
    if (!me().waited) {
        if (kind == kWrite) fault(at, "a write ahead of griddepcontrol.wait");
        for (uint32_t j = 0; j < size; j++)
            if (r.writers[i + j]) fault(at, "reads ahead of griddepcontrol.wait what a kernel wrote");
    }
    note(r.writers + i, r.readers + i, size, kind, grid_base, at);
    return (uint8_t*)address;
}
void prefetch(uint64_t address, At at) {
    if (!find(address)) fault(at, "a prefetch outside of any allocation");
}

void begin_grid() {
    if (next_id > 3u << 30) {
        for (auto& [address, r] : ranges)
            for (uint64_t i = 0; i < r.high - r.low; i++) r.writers[i] = r.writers[i] != 0, r.readers[i] = 0;
        next_id = 2;
    }
    segments.clear();
    grid_base = next_id;
    grid_readers = new_segment({Segment::kGrid, 0, 0, 0, 0, 0});
    released_at.clear();
}

// ---- shared memory

static size_t shared_bytes;
static std::vector<Id> shared_writers, shared_readers;

void begin_block(size_t bytes) {
    const shim::State& s = shim::state;
    block_number = s.block.x + s.blocks.x * (s.block.y + s.blocks.y * s.block.z);
    block_base = next_id;
    shared_bytes = bytes;
    if (shared_writers.size() < bytes) shared_writers.resize(bytes), shared_readers.resize(bytes);
    threads.assign(s.threads.x, {});
    warps.assign(s.threads.x / 32, {});
    block_readers = 0;
    joined[0] = joined[1] = nullptr;
}

static uint32_t shared_offset(uint32_t address, uint32_t size, At at) {
    if (address % size) fault(at, "shared memory that is not aligned to the size of the access");
    const uint32_t i = address - kSharedBase;
    if (address < kSharedBase || i + (size_t)size > shared_bytes) fault(at, "outside of shared memory");
    return i;
}
// Memory that products read may not be written.
static void check_unread(uint32_t i, uint32_t size, At at) {
    for (const Warp& w : warps)
        for (const Rows& r : w.read)
            if (i + size > r.first && i < r.first + r.bytes) fault(at, "writes what products in the background read");
}
uint8_t* shared_at(uint32_t address, uint32_t size, Kind kind, At at) {
    const uint32_t i = shared_offset(address, size, at);
    if (kind == kWrite) check_unread(i, size, at);
    for (uint32_t j = 0; j < size && kind != kWrite; j++)
        if (shared_writers[i + j] < block_base) fault(at, "reads shared memory that nobody wrote");
    note(&shared_writers[i], &shared_readers[i], size, kind, block_base, at);
    return shim::state.shared + i;
}

// ---- copies in the background

void copy_async(uint32_t shared, uint64_t global, uint32_t bytes, At at) {
    const uint8_t* from = global_at(global, bytes, kRead, at);
    uint8_t* to = shared_at(shared, bytes, kWrite, at);
    Thread& t = me();
    if (t.groups.empty()) t.groups.emplace_back();
    Group& g = t.groups.back();
    if (!g.segment) g.segment = new_segment(describe(Segment::kCopy));
    const uint32_t i = shared - kSharedBase;
    for (uint32_t j = 0; j < bytes; j++) shared_writers[i + j] = g.segment;
    const Range& r = *find(global);
    g.copies.push_back({to, from, bytes, i, global, {}});
    for (uint32_t j = 0; j < bytes; j++) g.copies.back().source_writers[j] = r.writers[global + j - r.low];
}
void copy_commit() {
    Thread& t = me();
    if (t.groups.empty()) t.groups.emplace_back();
    t.groups.emplace_back();
}
void copy_wait(size_t left, At at) {
    Thread& t = me();
    while (t.groups.size() > left + 1) {
        for (const Copy& c : t.groups.front().copies) {
            const Range& r = *find(c.global);
            for (uint32_t j = 0; j < c.bytes; j++) {
                if (r.writers[c.global + j - r.low] >= grid_base && r.writers[c.global + j - r.low] != c.source_writers[j])
                    fault(at, "a copy whose source was written meanwhile");
                shared_writers[c.shared + j] = my_segment();
            }
            memcpy(c.to, c.from, c.bytes);
        }
        t.groups.erase(t.groups.begin());
    }
}

// ---- threads

void grid_wait() {
    shim::state.waited++;
    me().waited = true;
}

void block_barrier(At at) {
    Thread& t = me();
    Warp& w = my_warp();
    if (w.barrier_epoch != t.epoch || !w.barrier_at) w.barrier_epoch = t.epoch, w.barrier_at = at;
    else if (w.barrier_at != at) fault(at, "the lanes of a warp wait at different barriers");
    // Two in alternation, because a thread may come to the next barrier before another has left this one.
    t.proxied_at_barrier = t.proxied;
    const uint32_t here = t.epoch % 2;
    join(joined[here], t.known);
    shim::block_barrier();
    t.epoch++;
    t.id = 0;
    join(t.known, joined[here]);
}
void warp_barrier(uint32_t lanes, At at) {
    if (lanes != 0xffffffffu) fault(at, "a barrier of a part of a warp");
    Thread& t = me();
    Known& joined = my_warp().joined[t.warp_epoch % 2];
    join(joined, t.known);
    shim::exchange('w', nullptr, 0);
    t.warp_epoch++;
    t.id = 0;
    join(t.known, joined);
}

void fence() {
    Thread& t = me();
    join(t.known, t.observed);
    t.fences++;
    t.id = 0;
    t.released = t.known;
    join(t.released, std::make_shared<Clock>(Clock{{block_number, describe(Segment::kThread)}}));
}
// Checks and notes an atomic operation; these are ordered among themselves.
static void note_atomic(Id* writers, Id* readers, uint32_t size, Id base, At at) {
    Thread& t = me();
    t.id = new_segment(describe(Segment::kAtomic));
    for (uint32_t j = 0; j < size; j++) {
        const Id writer = writers[j], reader = readers[j];
        if (writer >= base && segment(writer).kind != Segment::kAtomic && !ordered(writer)) race(at, "adds to", "wrote", writer);
        if (reader >= base && !ordered(reader)) race(at, "adds to", "read", reader);
        writers[j] = t.id;
        readers[j] = 0;
    }
    t.id = 0;
}
static void note_global_atomic(uint64_t address, uint32_t size, At at) {
    const Range& r = range_of(address, size, kWrite, at);
    if (!me().waited) fault(at, "an atomic operation ahead of griddepcontrol.wait");
    note_atomic(r.writers + (address - r.low), r.readers + (address - r.low), size, grid_base, at);
}
template <class T> static T add_at(uint8_t* p, T v) {
    T old;
    memcpy(&old, p, sizeof(T));
    v += old;
    memcpy(p, &v, sizeof(T));
    return old;
}
template <class T> void reduce_add(uint64_t address, T v, At at) {
    note_global_atomic(address, sizeof(T), at);
    add_at((uint8_t*)address, v);
}
template <class T> T shared_add(uint32_t address, T v, At at) {
    const uint32_t i = shared_offset(address, sizeof(T), at);
    check_unread(i, sizeof(T), at);
    for (uint32_t j = 0; j < sizeof(T); j++)
        if (shared_writers[i + j] < block_base) fault(at, "adds to shared memory that nobody wrote");
    note_atomic(&shared_writers[i], &shared_readers[i], sizeof(T), block_base, at);
    return add_at(shim::state.shared + i, v);
}
template void reduce_add(uint64_t, uint32_t, At);
template void reduce_add(uint64_t, uint64_t, At);
template uint32_t shared_add(uint32_t, uint32_t, At);
template uint64_t shared_add(uint32_t, uint64_t, At);

uint32_t atomic_add(uint64_t address, uint32_t v, Order order, At at) {
    Thread& t = me();
    if (order & k_release) fence();
    note_global_atomic(address, 4, at);
    Known& there = released_at[address];
    join(t.observed, there);
    join(there, t.released);
    if (order & k_acquire) join(t.known, t.observed);
    uint32_t old, sum;
    memcpy(&old, (void*)address, 4);
    sum = old + v;
    memcpy((void*)address, &sum, 4);
    return old;
}

Shuffled shuffle(Shuffle mode, uint32_t word, uint32_t b, uint32_t c, uint32_t lanes, At at) {
    if (lanes != 0xffffffffu) fault(at, "a shuffle of a part of a warp");
    const uint32_t given[] = {word, (uint32_t)mode};
    const shim::Exchange e = shim::exchange('s', given, 2);
    const int lane = shim::state.thread.x % 32, low = b & 31, mask = c >> 8 & 31, last = (lane & mask) | (c & 31 & ~mask);
    const int from = mode == kShuffle_bfly ? lane ^ low : mode == kShuffle_up ? lane - low
                     : mode == kShuffle_down ? lane + low : (lane & mask) | (low & ~mask);
    const bool inside = mode == kShuffle_up ? from >= last : from <= last;
    const uint32_t(&other)[8] = e.given[inside ? from : lane];
    if (other[1] != (uint32_t)mode) fault(at, "the lanes of a warp shuffle differently");
    return {other[0], inside};
}

// Hands words to the warp in an instruction that all its lanes have to execute.
static shim::Exchange aligned(const uint32_t* words, uint32_t n, At at) {
    uint32_t given[8];
    memcpy(given, words, 4 * n);
    given[n] = (uint32_t)(uintptr_t)at;
    const shim::Exchange e = shim::exchange('x', given, n + 1);
    if (e.given[0][n] != given[n]) fault(at, "the lanes of a warp execute different instructions");
    return e;
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", groupID and threadID_in_group being lane / 4
// and lane % 4:
//   a_i: row groupID (+ 8 for i = 2, 3, 6, 7), column 2 * threadID_in_group + i % 2 (+ 8 for i >= 4)
//   b_i: row 2 * threadID_in_group + i % 2 (+ 8 for i >= 2), column groupID
//   c_i: row groupID (+ 8 for i >= 2), column 2 * threadID_in_group + i % 2
// `place` puts the operands of a lane into the matrices.
template <int kDepth, class Place> static void mma(const uint32_t (&words)[6], float (&d)[4], At at, Place&& place) {
    const shim::Exchange e = aligned(words, 6, at);
    Warp& w = my_warp();
    const uint32_t buffer = me().products++ % 2, lane = shim::state.thread.x % 32;
    if (w.products < me().products) {
        w.products = me().products;
        float a[16][kDepth], b[kDepth][8];
        for (uint32_t l = 0; l < 32; l++) place(e.given[l], l, a, b);
        for (uint32_t row = 0; row < 16; row++) {
            double sums[8] = {};
            for (uint32_t k = 0; k < kDepth; k++)
                for (uint32_t col = 0; col < 8; col++) sums[col] += (double)a[row][k] * b[k][col];
            for (uint32_t col = 0; col < 8; col++) w.product[buffer][row][col] = (float)sums[col];
        }
    }
    for (uint32_t i = 0; i < 4; i++) d[i] += w.product[buffer][lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}
void mma(const uint32_t (&words)[6], float (&d)[4], At at) {
    mma<16>(words, d, at, [](const uint32_t* given, uint32_t l, auto& a, auto& b) {
        auto half = [&](uint32_t i) { return half_values[given[i / 2] >> 16 * (i % 2) & 0xffff]; };
        for (uint32_t i = 0; i < 8; i++) a[l / 4 + (i / 2 % 2) * 8][2 * (l % 4) + i % 2 + i / 4 * 8] = half(i);
        for (uint32_t i = 0; i < 4; i++) b[2 * (l % 4) + i % 2 + i / 2 * 8][l / 4] = half(8 + i);
    });
}
// PTX ISA, "Matrix Fragments for mma.m16n8k32" and "mma.m16n8k16" for 8-bit integers:
//   a_i: row groupID (+ 8 for i in 4..7 and 12..15), column 4 * threadID_in_group + i % 4 (+ 16 for i >= 8)
//   b_i: row 4 * threadID_in_group + i % 4 (+ 16 for i >= 4), column groupID
//   c_i: as above
template <int kDepth> void mma_bytes(const uint32_t (&words)[kDepth / 8 + kDepth / 16], int32_t (&d)[4], At at) {
    const shim::Exchange e = aligned(words, kDepth / 8 + kDepth / 16, at);
    const uint32_t lane = shim::state.thread.x % 32;
    auto byte = [](const uint32_t* words, uint32_t i) { return (int32_t)(int8_t)(words[i / 4] >> 8 * (i % 4)); };
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = lane / 4 + i / 2 * 8, col = 2 * (lane % 4) + i % 2;
        uint32_t sum = (uint32_t)d[i];
        for (uint32_t k = 0; k < kDepth; k++) {
            const uint32_t *a = e.given[row % 8 * 4 + k % 16 / 4], *b = e.given[col * 4 + k % 16 / 4] + kDepth / 8;
            sum += (uint32_t)(byte(a, k % 4 + row / 8 * 4 + k / 16 * 8) * byte(b, k % 4 + k / 16 * 4));
        }
        d[i] = (int32_t)sum;
    }
}
template void mma_bytes<16>(const uint32_t (&)[3], int32_t (&)[4], At);
template void mma_bytes<32>(const uint32_t (&)[6], int32_t (&)[4], At);

// PTX ISA, "Matrix Fragments for mma.m16n8k8", type tf32:
//   a_i: row groupID (+ 8 for i = 1, 3), column threadID_in_group (+ 4 for i >= 2)
//   b_i: row threadID_in_group (+ 4 for i = 1), column groupID
//   c_i: as above
// The lower 13 bits of a register have no defined effect.
void mma_tf32(const uint32_t (&words)[6], float (&d)[4], At at) {
    for (const uint32_t word : words)
        if (word & 0x1fff) fault(at, "an operand that was not rounded to tf32");
    mma<8>(words, d, at, [](const uint32_t* given, uint32_t l, auto& a, auto& b) {
        auto value = [&](uint32_t i) {
            float v;
            memcpy(&v, given + i, 4);
            return v;
        };
        for (uint32_t i = 0; i < 4; i++) a[l / 4 + i % 2 * 8][l % 4 + i / 2 * 4] = value(i);
        for (uint32_t i = 0; i < 2; i++) b[l % 4 + i * 4][l / 4] = value(4 + i);
    });
}

// Lanes 8i to 8i + 7 give the rows of matrix i, 16 bytes each; lane l gets elements 2 * (l % 4) and the next of row l /
// 4, or of the column where the matrix is transposed.
void load_matrices(uint32_t row, uint32_t n, bool transposed, uint32_t (&d)[4], At at) {
    const uint32_t lane = shim::state.thread.x % 32, given[] = {row, n, transposed};
    const shim::Exchange e = aligned(given, 3, at);
    for (uint32_t i = 0; i < n; i++) {
        d[i] = 0;
        for (uint32_t j = 0; j < 2; j++) {
            const uint32_t r = transposed ? 2 * (lane % 4) + j : lane / 4, col = transposed ? lane / 4 : 2 * (lane % 4) + j;
            if (e.given[8 * i + r][0] % 16) fault(at, "a row of a matrix that is not aligned to 16 bytes");
            uint16_t h;
            memcpy(&h, shared_at(e.given[8 * i + r][0] + 2 * col, 2, kRead, at), 2);
            d[i] |= (uint32_t)h << 16 * j;
        }
    }
}

// ---- products in the background

void fence_async() {
    Thread& t = me();
    t.id = 0;
    t.proxied = next_id;
}
void products_fence(At at) {
    const uint32_t none = 0;
    aligned(&none, 0, at);
    me().fenced = true;
}
void products_commit_group(At) {
    Thread& t = me();
    if (t.background.empty()) t.background.emplace_back();
    t.background.emplace_back();
    t.fenced = false;
}
void products_wait(size_t left, At at) {
    Thread& t = me();
    while (t.background.size() > left + 1) {
        const Products& ended = t.background.front();
        for (const Held& h : ended.left) h.check(at);
        if (shim::state.thread.x % 32 == 0) {
            // They have read now.
            auto& read = my_warp().read;
            read.erase(read.begin(), read.begin() + ended.rows.size());
            for (const Rows& r : ended.rows)
                for (uint32_t i = 0; i < r.bytes; i += 16) shared_at(kSharedBase + r.first + i, 16, kRead, at);
        }
        t.background.erase(t.background.begin());
    }
    for (const Held& h : t.sums) h.check(at);
    if (left == 0) t.sums.clear();
}
void products_none(At at) {
    for (const Products& p : me().background)
        if (!p.left.empty()) fault(at, "a thread ends ahead of its products");
}

// PTX ISA, "Matrix Descriptor Format", of an operand whose columns lie one behind another: bits 0 to 13 the address, 32
// to 45 the distance of 8 columns, both by 16; 49 to 51 a base offset; 62 and 63 the swizzling, 2 for 64 bytes, 1 for
// 128. Swizzling exchanges parts of 16 bytes in rows of 64 or 128, by bits 7 and 8, or 7 to 9, of the address.
// "Register Fragments" of wgmma: a warp has 16 rows of a and d, in which lanes have what they have in `mma.m16n8k16`,
// of each 8 columns of d.
void products_start(float* const* d, uint32_t columns, uint32_t* const (&a)[4], uint64_t descriptor, At at) {
    Thread& t = me();
    if (!t.fenced) fault(at, "products without a wgmma.fence ahead of them");
    for (const Held& h : t.sums) h.check(at);
    const uint32_t words[6] = {*a[0], *a[1], *a[2], *a[3], (uint32_t)descriptor, (uint32_t)(descriptor >> 32)};
    const shim::Exchange e = aligned(words, 6, at);
    Warp& w = my_warp();
    const uint32_t buffer = me().products++ % 2, lane = shim::state.thread.x % 32;
    const uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    const uint32_t swizzling = descriptor >> 62, row_bytes = swizzling == 1 ? 128 : 64;
    const Rows rows = {shared_offset(start / row_bytes * row_bytes, row_bytes, at), (columns / 8 - 1) * stride + 8 * row_bytes};
    if (w.products < me().products) {
        w.products = me().products;
        for (uint32_t l = 1; l < 32; l++)
            if (e.given[l][4] != words[4] || e.given[l][5] != words[5]) fault(at, "the lanes of a warp give different descriptors");
        if ((swizzling != 1 && swizzling != 2) || (descriptor >> 46 & 0xffff) != 0) fault(at, "a descriptor of an unknown layout");
        if (start % (8 * row_bytes) >= row_bytes || stride % (8 * row_bytes)) fault(at, "a descriptor of rows that do not begin with their pattern");
        if (rows.first + (size_t)rows.bytes > shared_bytes) fault(at, "products outside of shared memory");
        for (uint32_t i = rows.first; i < rows.first + rows.bytes; i++) {
            const Id writer = shared_writers[i];
            if (writer < block_base) fault(at, "products with shared memory that nobody wrote");
            if (!ordered(writer)) race(at, "multiplies", "wrote", writer);
            const Thread& by = threads[segment(writer).thread];
            if (writer >= (&by == &me() ? by.proxied : by.proxied_at_barrier)) fault(at, "products with what was written without a fence.proxy.async");
        }
        float left[16][16], right[16][256];
        for (uint32_t l = 0; l < 32; l++)
            for (uint32_t i = 0; i < 8; i++)
                left[l / 4 + i / 2 % 2 * 8][2 * (l % 4) + i % 2 + i / 4 * 8] = half_values[e.given[l][i / 2] >> 16 * (i % 2) & 0xffff];
        for (uint32_t col = 0; col < columns; col++)
            for (uint32_t k = 0; k < 16; k++) {
                const uint32_t plain = start + col / 8 * stride + col % 8 * row_bytes + 2 * k;
                const uint32_t place = plain ^ (plain >> 7 & (row_bytes / 16 - 1)) << 4;
                uint16_t h;
                memcpy(&h, shim::state.shared + (place - kSharedBase), 2);
                right[k][col] = half_values[h];
            }
        for (uint32_t row = 0; row < 16; row++) {
            double sums[256] = {};
            for (uint32_t k = 0; k < 16; k++)
                for (uint32_t col = 0; col < columns; col++) sums[col] += (double)left[row][k] * right[k][col];
            for (uint32_t col = 0; col < columns; col++) w.wide[buffer][row][col] = (float)sums[col];
        }
        w.read.push_back(rows);
    }
    if (t.background.empty()) t.background.emplace_back();
    Products& open = t.background.back();
    open.rows.push_back(rows);
    for (uint32_t* p : a) open.left.emplace_back(p);
    t.sums.clear();
    for (uint32_t i = 0; i < columns / 2; i++) {
        *d[i] += w.wide[buffer][lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + 2 * (lane % 4) + i % 2];
        t.sums.emplace_back(d[i]);
    }
}

}  // namespace ptx
