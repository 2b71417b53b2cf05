// The meaning of PTX instructions, from the PTX ISA and not from the kernels' twins for the host. What reaches memory
// or other threads is in memory.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "memory.h"

using namespace ptx;

template <class T, class F> static inline T bits(F from) {
    static_assert(sizeof(T) == sizeof(F), "a register of another size");
    T to;
    memcpy(&to, &from, sizeof(T));
    return to;
}
template <class T> static inline T get(const uint8_t* p, int i) {
    T v;
    memcpy(&v, p + i * sizeof(T), sizeof(T));
    return v;
}
template <class T> static inline void put(uint8_t* p, int i, T v) { memcpy(p + i * sizeof(T), &v, sizeof(T)); }

static inline const uint8_t* parameter_at(uint64_t address, uint64_t size, uint64_t parameter, uint64_t bytes, At at) {
    if (address - parameter > bytes - size) fault(at, "outside of the parameter");
    if ((address - parameter) % size) fault(at, "a parameter that is not aligned to its size");
    return (const uint8_t*)address;
}

// Shifts by the width and more give 0, or the sign.
template <class T> static inline T shl(T v, uint32_t n) { return n >= 8 * sizeof(T) ? 0 : (T)((uint64_t)v << n); }
template <class T> static inline T shr(T v, uint32_t n) { return n >= 8 * sizeof(T) ? (T)(v < 0 ? -1 : 0) : (T)(v >> n); }
// Division by 0 is not defined; this is what devices give.
template <class T> static inline T div(T a, T b) { return b ? a / b : (T)-1; }
template <class T> static inline T rem(T a, T b) { return b ? a % b : a; }

static inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; }
template <class T> static inline bool unordered(T a, T b) { return std::isnan(a) || std::isnan(b); }
static inline float rcp_rn(float x) { return 1.f / x; }
static inline float rcp_approx_ftz(float x) { return flushed(1.f / flushed(x)); }
static inline float ex2_approx(float x) { return exp2f(x); }
static inline float ex2_approx_ftz(float x) { return flushed(exp2f(flushed(x))); }
static inline float sqrt_rn(float x) { return sqrtf(x); }
static inline float abs(float x) { return std::fabs(x); }
static inline float neg(float x) { return -x; }
// The magnitude of the second with the sign of the first.
static inline float copysign(float sign, float x) { return std::copysign(x, sign); }
// A NaN gives way to a number; -0 is less than +0.
template <class T> static inline T min(T a, T b) { return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b); }
template <class T> static inline T max(T a, T b) { return a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b); }
static inline float max_NaN(float a, float b) { return unordered(a, b) ? NAN : max(a, b); }
// Rounded towards minus infinity: the product is exact in double, and the error of the sum decides.
static inline float fma_rm(float a, float b, float c) {
    const double p = (double)a * b, s = p + c, v = s - p, error = (p - (s - v)) + (c - v);
    const float f = (float)s;
    return (double)f > s || ((double)f == s && error < 0) ? std::nextafter(f, -INFINITY) : f;
}

static inline float cvt_rn_f32_f64(double x) { return (float)x; }
static inline double cvt_f64_f32(float x) { return x; }
static inline float cvt_rni_f32_f32(float x) { return std::nearbyint(x); }
static inline double cvt_rni_f64_f64(double x) { return std::nearbyint(x); }
static inline float cvt_rzi_f32_f32(float x) { return std::trunc(x); }
static inline float cvt_sat_f32_f32(float x) { return std::isnan(x) || x <= 0.f ? 0.f : std::min(x, 1.f); }
static inline int32_t cvt_rzi_s32_f32(float x) {
    return std::isnan(x) ? 0 : x >= 2147483648.f ? INT32_MAX : x < -2147483648.f ? INT32_MIN : (int32_t)x;
}
static inline uint32_t cvt_rzi_u32_f32(float x) {
    return std::isnan(x) || x <= 0.f ? 0 : x >= 4294967296.f ? UINT32_MAX : (uint32_t)x;
}
static inline uint64_t cvt_rzi_u64_f64(double x) {
    return std::isnan(x) || x <= 0. ? 0 : x >= 18446744073709551616. ? UINT64_MAX : (uint64_t)x;
}
// To the nearest number of 11 bits, away from zero from the middle between two.
static inline uint32_t to_tf32(float x) { return std::isnan(x) ? 0x7fffe000 : (bits<uint32_t>(x) + 0x1000) & 0xffffe000; }
static inline uint16_t to_half(float x) { return std::isnan(x) ? 0x7fff : bits<uint16_t>((_Float16)x); }
static inline float from_half(uint16_t h) { return half_values[h]; }
// Sums of products of binary16 that a double cannot hold are no nearer to the middle between two than it shows.
static inline uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c) {
    const double sum = std::fma((double)from_half(a), (double)from_half(b), (double)from_half(c));
    return std::isnan(sum) ? 0x7fff : bits<uint16_t>((_Float16)sum);
}
static inline uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
    return (uint32_t)fma_half(a >> 16, b >> 16, c >> 16) << 16 | fma_half(a, b, c);
}
static inline uint64_t mul_hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }

// Bytes 0 to 3 are of a, 4 to 7 of b; the top bit of a selector repeats the sign.
static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selectors) {
    const uint64_t all = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t selector = selectors >> 4 * i & 15;
        uint32_t byte = (uint32_t)(all >> 8 * (selector & 7)) & 255;
        if (selector & 8) byte = byte & 128 ? 255 : 0;
        d |= byte << 8 * i;
    }
    return d;
}
// b:a shifted by n mod 32: the upper word to the left, the lower one to the right.
static inline uint32_t shf_l(uint32_t a, uint32_t b, uint32_t n) { return (uint32_t)((((uint64_t)b << 32 | a) << n % 32) >> 32); }
static inline uint32_t shf_r(uint32_t a, uint32_t b, uint32_t n) { return (uint32_t)(((uint64_t)b << 32 | a) >> n % 32); }
template <class T> static inline T bfi(T a, T b, uint32_t position, uint32_t length) {
    position &= 255, length &= 255;
    for (uint32_t i = 0; i < length && position + i < 8 * sizeof(T); i++)
        b = (b & ~((T)1 << (position + i))) | (a >> i & 1) << (position + i);
    return b;
}
// The bytes of a are of a type, those of b are signed.
template <class A> static inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; i++) c += (uint32_t)((A)(a >> 8 * i) * (int8_t)(b >> 8 * i));
    return c;
}
