// CUDA C++ for a host compiler: every CUDA thread is a fiber that runs until it waits for others.
//
// A block's threads run one after another in an order that the test chooses, each until it waits: at a barrier of the
// block, or for the other lanes of its warp (shuffles, mma, sync_warp). What depends on threads running in step, on a
// barrier that is not there, or on memory that nobody wrote gives other results in another order. Shared memory starts
// as NaN; copies and products in the background end when they are waited for, or at once. `driver.cpp` runs the blocks.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "threads.h"

struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };

namespace shim {

void copy_later(void* to, const void* from, size_t bytes);
void copy_commit();
void copy_wait(int left);
void multiply_later(float (*sums)[4], uint32_t n, const uint32_t* left, uint64_t right);
void products_commit();
void products_wait(int left);
float half_value(uint16_t h);
uint16_t half_bits(float f);
uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c);

inline uint32_t lane() { return state.thread.x % 32; }
template <class T> T shuffle(T v, uint32_t from) {
    uint32_t w;
    memcpy(&w, &v, 4);
    const Exchange e = exchange('s', &w, 1);
    memcpy(&v, e.given[from], 4);
    return v;
}
inline float reduce(char what, float v) {
    uint32_t w;
    memcpy(&w, &v, 4);
    const Exchange e = exchange(what, &w, 1);
    memcpy(&v, e.given[lane()], 4);
    return v;
}

}  // namespace shim

#define threadIdx (shim::state.thread)
#define blockIdx (shim::state.block)
#define blockDim (shim::state.threads)
#define gridDim (shim::state.blocks)

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define DYNAMIC_SHARED(name) u8* name = shim::state.shared
#define KERNEL(name, Args, max_threads, blocks)                                                                  \
    static void name(const Args& a);                                                                             \
    static shim::Register register_##name(#name, sizeof(Args), max_threads, [](const void* p) { name(*(const Args*)p); }); \
    static void name(const Args& a)

template <class T> static inline const T& aligned(const void* p) {
    if ((uintptr_t)p % sizeof(T)) shim::fault("a load or store is not aligned to its size");
    return *(const T*)p;
}
template <class T> static inline T load(const void* p) { return aligned<T>(p); }
template <class T> static inline void store(void* p, T v) { const_cast<T&>(aligned<T>(p)) = v; }
DEVICE void sync_block() { shim::block_barrier(); }
DEVICE void sync_warp() { shim::exchange('w', nullptr, 0); }
DEVICE void keep_order_of_loads() {}
// In the order of five shuffles, by one wait.
DEVICE float warp_sum(float v) { return shim::reduce('+', v); }
DEVICE float warp_max(float v) { return shim::reduce('>', v); }
DEVICE u32 warp_max(u32 v) {
    const shim::Exchange e = shim::exchange('s', &v, 1);
    for (u32 lane = 0; lane < 32; lane++) v = v > e.given[lane][0] ? v : e.given[lane][0];
    return v;
}
DEVICE u32 warp_min(u32 v) { return ~warp_max(~v); }
DEVICE float shuffle_xor(float v, u32 lanes) { return shim::shuffle(v, shim::lane() ^ lanes); }
DEVICE i32 shuffle_xor(i32 v, u32 lanes) { return shim::shuffle(v, shim::lane() ^ lanes); }
DEVICE u32 shuffle_xor(u32 v, u32 lanes) { return shim::shuffle(v, shim::lane() ^ lanes); }
DEVICE float shuffle_from(float v, u32 lane) { return shim::shuffle(v, lane); }
DEVICE u32 shuffle_from(u32 v, u32 lane) { return shim::shuffle(v, lane); }
DEVICE u32 atomic_add(u32* p, u32 v) {
    const u32 old = *p;
    *p += v;
    return old;
}
DEVICE u32 fetch_add_shared(u32* p, u32 v) { return atomic_add(p, v); }
template <class T> static inline void add_to(T* p, T v) { *p += v; }
template <class T> static inline void add_to_shared(T* p, T v) { *p += v; }
// Compiled without contraction.
template <class T> static inline T rounded_add(T a, T b) { return a + b; }
template <class T> static inline T rounded_mul(T a, T b) { return a * b; }
DEVICE float rounded_div(float a, float b) { return a / b; }
DEVICE u64 double_to_bits(double x) {
    u64 w;
    memcpy(&w, &x, 8);
    return w;
}
DEVICE double bits_to_double(u64 w) {
    double x;
    memcpy(&x, &w, 8);
    return x;
}
DEVICE u64 mul_high(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
DEVICE i32 dot4(u32 a, u32 b, i32 c) {
    for (u32 i = 0; i < 4; i++) c += (i8)(a >> (8 * i)) * (i8)(b >> (8 * i));
    return c;
}
DEVICE i32 dot4_unsigned(u32 a, u32 b, i32 c) {
    for (u32 i = 0; i < 4; i++) c += (u8)(a >> (8 * i)) * (i8)(b >> (8 * i));
    return c;
}
DEVICE u32 permute(u32 a, u32 b, u32 selector) {
    const u64 bytes = (u64)b << 32 | a;
    u32 w = 0;
    for (u32 i = 0; i < 4; i++) w |= (u32)(bytes >> (8 * ((selector >> (4 * i)) & 7)) & 255) << (8 * i);
    return w;
}
DEVICE float half_to_float(u16 h) { return shim::half_value(h); }
DEVICE u16 float_to_half(float f) { return shim::half_bits(f); }
DEVICE u32 pack_halves(float low, float high) { return (u32)shim::half_bits(high) << 16 | shim::half_bits(low); }
DEVICE u32 fma_halves(u32 a, u32 b, u32 c) {
    return (u32)shim::fma_half((u16)(a >> 16), (u16)(b >> 16), (u16)(c >> 16)) << 16 | shim::fma_half((u16)a, (u16)b, (u16)c);
}
DEVICE float max_magnitude(float a, float b) { return std::isnan(a) ? a : std::isnan(b) ? b : fmaxf(fabsf(a), fabsf(b)); }
DEVICE void sincos_pi(float x, float& sine, float& cosine) {
    sine = (float)sin(M_PI * x);
    cosine = (float)cos(M_PI * x);
}
DEVICE float exp2_approx(float x) { return exp2f(x); }
DEVICE float reciprocal_approx(float x) { return 1.f / (fabsf(x) < FLT_MIN ? copysignf(0.f, x) : x); }
DEVICE uint4 load_weights16(const void* p) { return load<uint4>(p); }
template <class T> static inline T load_shared_weights(const void* p) { return load<T>(p); }
template <class T> static inline T* in_global(T* p) { return p; }
DEVICE u32 unknown(u32 v) { return v; }
DEVICE void prefetch_l2(const void*) {}
DEVICE void mma16x8x16(float (&d)[4], const uint4& a, u32 b0, u32 b1) {
    const u32 words[6] = {a.x, a.y, a.z, a.w, b0, b1};
    const shim::Exchange e = shim::exchange('m', words, 6);
    for (u32 i = 0; i < 4; i++) d[i] += e.product[shim::lane()][i];
}
// In words of four bytes: the first `parts` of two of each row of the left operand and column of the right one.
static inline void multiply_bytes(char what, i32 (&d)[4], const uint4& a, u32 b0, u32 b1, i32 c, u32 parts) {
    const u32 words[6] = {a.x, a.y, a.z, a.w, b0, b1}, g = shim::lane() / 4, t = shim::lane() % 4;
    const shim::Exchange e = shim::exchange(what, words, 6);
    for (u32 i = 0; i < 4; i++) {
        d[i] = c;
        for (u32 k = 0; k < 4 * parts; k++)
            d[i] = dot4(e.given[4 * g + k % 4][i / 2 + k / 4 * 2], e.given[4 * (2 * t + i % 2) + k % 4][4 + k / 4], d[i]);
    }
}
DEVICE void mma16x8x32(i32 (&d)[4], const uint4& a, u32 b0, u32 b1, i32 c) { multiply_bytes('b', d, a, b0, b1, c, 2); }
DEVICE void mma16x8x16(i32 (&d)[4], u32 a0, u32 a1, u32 b, i32 c) { multiply_bytes('h', d, {a0, a1, 0, 0}, b, 0, c, 1); }
DEVICE u32 to_tf32(float f) {
    u32 w;
    memcpy(&w, &f, 4);
    return f != f ? w : (w + 0x1000) & ~0x1fffu;
}
DEVICE void mma16x8x8(float (&d)[4], const uint4& a, u32 b0, u32 b1) {
    const u32 words[6] = {a.x, a.y, a.z, a.w, b0, b1};
    const shim::Exchange e = shim::exchange('f', words, 6);
    for (u32 i = 0; i < 4; i++) d[i] += e.product[shim::lane()][i];
}
template <bool kTransposed> static inline void load_matrices(u32 (&d)[4], const void* row) {
    u32 address[2];
    memcpy(address, &row, sizeof(row));
    const shim::Exchange e = shim::exchange(kTransposed ? 't' : 'l', address, 2);
    const u32 g = shim::lane() / 4, t = shim::lane() % 4;
    for (u32 i = 0; i < 4; i++) {
        u16 halves[2];
        for (u32 j = 0; j < 2; j++) {
            const u16* from;
            memcpy(&from, e.given[8 * i + (kTransposed ? 2 * t + j : g)], sizeof(from));
            if ((uintptr_t)from % 16) shim::fault("a row of a matrix is not aligned to its size");
            halves[j] = from[kTransposed ? g : 2 * t + j];
        }
        d[i] = (u32)halves[1] << 16 | halves[0];
    }
}
#define HAS_WGMMA
#define HAS_FAST_BYTES
DEVICE u32 shared_address(const void* p) { return shim::kSharedBase + (u32)((const u8*)p - shim::state.shared); }
DEVICE void fence_async() {}
DEVICE void begin_products() {}
// Reads its operands, as a device may, when the product ends.
template <u32 N> static inline void multiply_async(float (&d)[N][4], const uint4& a, u64 b) { shim::multiply_later(d, N, &a.x, b); }
DEVICE void commit_products() { shim::products_commit(); }
template <int N> static inline void wait_products() { shim::products_wait(N); }
template <u32 N> static inline void end_products(float (&)[N][4]) { shim::products_wait(0); }
DEVICE void copy_async16(void* shared, const void* global) { shim::copy_later(shared, global, 16); }
DEVICE void copy_async4(void* shared, const void* global) { shim::copy_later(shared, global, 4); }
DEVICE void copy_async_commit() { shim::copy_commit(); }
template <int N> static inline void copy_async_wait() { shim::copy_wait(N); }
DEVICE void wait_for_previous() { shim::state.waited++; }
DEVICE void let_next_start() {}
