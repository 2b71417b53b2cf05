// Memory and threads of kernels that were translated from PTX, with every access checked: its bounds, its alignment,
// and that it is ordered against the others to the same bytes (memory.cpp says how).
#pragma once

#include <cstddef>
#include <cstdint>

#include "../cuda_shim/threads.h"

namespace ptx {

// Position of an instruction, for messages: that in the source and that in the PTX.
using At = const char*;
// Ends the launch.
[[noreturn]] void fault(At at, const char* why);

extern const float* const half_values;  // of all binary16

// ---- what the driver tells

void allocated(uint64_t address, size_t bytes);
void freed(uint64_t address);
// Bytes were written in the stream, but by no kernel.
void overwritten(uint64_t address, size_t bytes);
void begin_grid();
void begin_block(size_t shared_bytes);

// ---- memory

using shim::kSharedBase;
enum Kind { kRead, kReadConstant, kWrite };
// Memory behind an address, once the running thread may use it so.
uint8_t* global_at(uint64_t address, uint32_t size, Kind kind, At at);
uint8_t* shared_at(uint32_t address, uint32_t size, Kind kind, At at);
void prefetch(uint64_t address, At at);
void copy_async(uint32_t shared, uint64_t global, uint32_t bytes, At at);
void copy_commit();
void copy_wait(size_t left, At at);

// ---- threads

void grid_wait();
void block_barrier(At at);
void warp_barrier(uint32_t lanes, At at);
void fence();
enum Order { k_relaxed, k_acquire = 1, k_release = 2, k_acq_rel = 3 };
uint32_t atomic_add(uint64_t address, uint32_t v, Order order, At at);
// Without an order; the former without what was there before.
template <class T> void reduce_add(uint64_t address, T v, At at);
template <class T> T shared_add(uint32_t address, T v, At at);

struct Shuffled { uint32_t word; bool inside; };
enum Shuffle { kShuffle_bfly, kShuffle_idx, kShuffle_up, kShuffle_down };
Shuffled shuffle(Shuffle mode, uint32_t word, uint32_t b, uint32_t c, uint32_t lanes, At at);
// d += a * b; `words` are the four of a and the two of b.
void mma(const uint32_t (&words)[6], float (&d)[4], At at);
template <int kDepth> void mma_bytes(const uint32_t (&words)[kDepth / 8 + kDepth / 16], int32_t (&d)[4], At at);
void mma_tf32(const uint32_t (&words)[6], float (&d)[4], At at);
void load_matrices(uint32_t row, uint32_t n, bool transposed, uint32_t (&d)[4], At at);
// The instructions wgmma of m64nNk16 and halves, N `columns`: d += a * b, with 16 rows for each warp. Registers are
// given by their places, because they may not change until the wait; d has half as many as columns.
void products_fence(At at);
void products_start(float* const* d, uint32_t columns, uint32_t* const (&a)[4], uint64_t descriptor, At at);
void products_commit_group(At at);
void products_wait(size_t left, At at);
// A thread may end.
void products_none(At at);
void fence_async();

}  // namespace ptx
