// Layouts of weights in device memory, and their readers, per lane.
//
// A matrix is up to four planes of bytes, read in aligned words: plane 0 has quants, plane 1 scales, planes 2 and 3 the
// remaining fields of a type, row by row and block by block, as written by `gpu/planes.rs`. Types of 4 to 6 bits share
// one layout of quants, 16 bytes per 32 columns (`Packed`), whatever the blocks of their files.
//
// A type has three readers. `load`/`dot`: one lane's share of a row times signed-byte activations, 16 bytes of quants
// per load, for unit `unit + ahead`; `ahead` is a compile-time multiple of the warp size. `load32`/`pair`: 32 columns
// of a row in binary16 (or `bytes16`, in signed bytes). `load8`/`decode8`: eight values of a row, for tiles and
// look-ups, by the formula in src/quant.
#pragma once

#include "common.cuh"

// 32 activations, x = scale * q: the scale, the sum of all x, and the sums of the first and the last 16 q.
struct alignas(16) Group {
    float scale;
    float sum;
    i32 halves[2];
};
static_assert(sizeof(Group) == 16, "sized by the launch");

// An input row of a GEMV, in the forms that its matrices read.
struct Input {
    float* values;  // for types without blocks
    i8* quants;
    Group* groups;
};

// Planes of some columns of a row in shared memory.
struct Staged {
    const u8* planes[4];
};

// Eight values of a row before dequantization.
struct Raw8 {
    u32 q[4];
    u32 h[4];
};

DEVICE i32 dot16(const uint4& a, const uint4& b, i32 c) {
    return dot4(a.x, b.x, dot4(a.y, b.y, dot4(a.z, b.z, dot4(a.w, b.w, c))));
}
// Converts an integer below 2^22 from its sum with the bits of 1.5 * 2^23, which is faster than a conversion.
constexpr i32 kWholeBits = 0x4b400000;
constexpr float kWhole = 12582912.f;
DEVICE float whole(i32 sum) { return bits_to_float((u32)sum) - kWhole; }
// Converts an integer to a sixteenth of it, from its sum with the bits of 1.5 * 2^19.
constexpr i32 kSixteenthBits = kWholeBits - (4 << 23);
DEVICE float sixteenth(i32 sum) { return bits_to_float((u32)sum) - kWhole / 16.f; }
// Byte i of a word minus `offset`, converted by the bits of 2^23.
DEVICE float byte_less(u32 word, u32 i, u32 offset) {
    return bits_to_float(permute(word, 0x4b000000u, 0x7440 + i)) - (8388608.f + (float)offset);
}
DEVICE uint4 masked(const uint4& q, u32 mask) { return {q.x & mask, q.y & mask, q.z & mask, q.w & mask}; }
DEVICE uint4 nibbles(const uint4& q, u32 shift) {
    return masked({q.x >> shift, q.y >> shift, q.z >> shift, q.w >> shift}, 0x0f0f0f0fu);
}
// The dot product with unshifted high nibbles, 16 times as large.
DEVICE i32 dot16_high(const uint4& q, const uint4& b, i32 c) {
    const uint4 a = masked(q, 0xf0f0f0f0u);
    return dot4_unsigned(a.x, b.x, dot4_unsigned(a.y, b.y, dot4_unsigned(a.z, b.z, dot4_unsigned(a.w, b.w, c))));
}
DEVICE Group group_at(const Input& x, u32 i) { return load<Group>(x.groups + i); }
DEVICE uint4 quants16(const Input& x, u32 col) { return load<uint4>(x.quants + col); }

// Scales of 32 columns: scale d and minimum m; integer factors of the two halves, if any.
struct Scales {
    float d;
    float m;
    i32 halves[2];
};

// Scales of the first and the last 16 of 32 columns in binary16, each twice in a word. A quant in the form of `tiny`
// times `scale` plus `offset` is the value times the matrix's factor times 2^-24.
struct HalfScales {
    u32 scale[2];
    u32 offset[2];
};
// Sets the scales for values d * (q - less) + m in a half whose quants are multiplied by 2^-24 * `kTimes`.
template <u32 kTimes> DEVICE void half_scales(HalfScales& to, u32 half, float d, i32 less, float m) {
    to.scale[half] = pack_halves(d * (1.f / kTimes), d * (1.f / kTimes));
    const float offset = fmaf((float)-less, d, m) * (1.f / 16777216.f);
    to.offset[half] = pack_halves(offset, offset);
}

// Quants of 4 + `kHigh` bits, in blocks of 32 columns. Byte j of 16 has the low bits of columns j and 16 + j. Byte k of
// a word of upper bits has the upper bits of columns 4i + k: of all i from 0 to 7, or, if there are two bits, of four i
// per word.
template <u32 kHigh> struct Packed {
    static DEVICE_MEMBER uint2 load_high(const DeviceMatrix& m, u64 block) {
        if (kHigh == 1) return {load_shared_weights<u32>(m.planes[2] + 4 * block), 0};
        if (kHigh == 2) return load_shared_weights<uint2>(m.planes[2] + 8 * block);
        return {0, 0};
    }
    static DEVICE_MEMBER uint2 staged_high(const Staged& s, u32 block) {
        if (kHigh == 1) return {::load<u32>(s.planes[2] + 4 * block), 0};
        if (kHigh == 2) return ::load<uint2>(s.planes[2] + 8 * block);
        return {0, 0};
    }
    // Upper bits of columns 4i.., shifted to their position in quants.
    static DEVICE_MEMBER u32 upper(const uint2& high, u32 i) {
        if (kHigh == 0) return 0;
        if (kHigh == 1) return rotate(high.x, i + 28) & 0x10101010u;
        return rotate(i < 4 ? high.x : high.y, 2 * (i % 4) + 28) & 0x30303030u;
    }
    // Quants of columns 4i.. (`first`) and 16 + 4i.. (`second`), from word i of the low bits.
    static DEVICE_MEMBER u32 first(u32 word, const uint2& high, u32 i) { return (word & 0x0f0f0f0fu) | upper(high, i); }
    static DEVICE_MEMBER u32 second(u32 word, const uint2& high, u32 i) {
        return ((word >> 4) & 0x0f0f0f0fu) | upper(high, 4 + i);
    }
    static DEVICE_MEMBER uint4 first16(const uint4& q, const uint2& h) {
        return {first(q.x, h, 0), first(q.y, h, 1), first(q.z, h, 2), first(q.w, h, 3)};
    }
    static DEVICE_MEMBER uint4 second16(const uint4& q, const uint2& h) {
        return {second(q.x, h, 0), second(q.y, h, 1), second(q.z, h, 2), second(q.w, h, 3)};
    }
    // Quants of column 16 * half + 4i + odd and of the column two later, as denormal binary16: the lowest bit is 2^-24,
    // or 2^-20 in the last half.
    static DEVICE_MEMBER u32 tiny(u32 word, const uint2& high, u32 i, u32 half, u32 odd) {
        const u32 low = (odd ? word >> 8 : word) & (half ? 0x00f000f0u : 0x000f000fu);
        if (kHigh == 0) return low;
        const u32 bits = kHigh == 1 ? rotate(high.x, i + 28 + 8 * odd)
                                    : rotate(half ? high.y : high.x, 2 * i + 28 + 8 * odd - 4 * half);
        return low | (bits & ((kHigh == 1 ? 0x00100010u : 0x00300030u) << 4 * half));
    }
    // `start` plus the dot product of 32 columns with activations.
    static DEVICE_MEMBER float dot32(const uint4& q, const uint2& h, const Input& x, u32 col, i32 start) {
        const uint4 x0 = quants16(x, col), x1 = quants16(x, col + 16);
        if (kHigh == 0) return sixteenth(16 * dot16(nibbles(q, 0), x0, start) + dot16_high(q, x1, kSixteenthBits));
        return whole(dot16(first16(q, h), x0, dot16(second16(q, h), x1, kWholeBits + start)));
    }
    // Loads columns 8t.. of a block.
    static DEVICE_MEMBER void load8(const DeviceMatrix& m, u64 block, u32 t, Raw8& r) {
        const uint2 q = load_shared_weights<uint2>(m.planes[0] + 16 * block + 8 * (t % 2)), high = load_high(m, block);
        r.q[0] = q.x, r.q[1] = q.y, r.q[2] = high.x, r.q[3] = high.y;
    }
    // Quant i of `load8` minus `offset`.
    static DEVICE_MEMBER float value8(const Raw8& r, u32 t, u32 i, u32 offset) {
        return byte_less(((r.q[i / 4] >> (4 * (t / 2))) & 0x0f0f0f0fu) | upper({r.q[2], r.q[3]}, 2 * t + i / 4), i % 4,
                         offset);
    }
};

// Common parts of types of 4 to 6 bits. `T` loads and decodes the scales of a block.
template <class T, class W, u32 kHigh> struct Blocks {
    typedef W Words;
    static constexpr u32 kValues = 32;
    static constexpr bool kFloat = false;
    static constexpr bool kHalves = false;  // true if the halves of a block have separate scales
    static constexpr bool kMinima = false;
    typedef Packed<kHigh> Quants;
    struct Raw {
        uint4 q;
        uint2 high;
        Words scales;
    };
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 block = row * (m.cols / 32) + unit + ahead;
        return {load_weights16(m.planes[0] + 16 * block), Quants::load_high(m, block),
                T::load_scales(m, row, unit, ahead)};
    }
    static DEVICE_MEMBER Raw load_staged(const Staged& s, u32 unit) {
        return {::load<uint4>(s.planes[0] + 16 * unit), Quants::staged_high(s, unit), T::staged_scales(s, unit)};
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const Scales s = T::scales(r.scales, unit);
        const Group g = group_at(x, unit + ahead);
        return T::add(s, g, Quants::dot32(r.q, r.high, x, 32 * (unit + ahead), T::start(g, 0)), sum);
    }
    typedef Raw Raw32;
    static constexpr u32 kPieces = 1;
    static DEVICE_MEMBER Raw32 load32(const DeviceMatrix& m, u64 row, u32 chunk, u32) { return load(m, row, chunk, 0); }
    static DEVICE_MEMBER HalfScales scales32(const Raw32& r, u32 chunk, float factor) {
        const Scales s = T::scales(r.scales, chunk);
        const float d = s.d * factor;
        HalfScales h;
        half_scales<1>(h, 0, T::kHalves ? d * (float)s.halves[0] : d, T::kOffset, s.m * factor);
        half_scales<16>(h, 1, T::kHalves ? d * (float)s.halves[1] : d, T::kOffset, s.m * factor);
        return h;
    }
    static DEVICE_MEMBER u32 tiny(const Raw32& r, u32 i, u32 half, u32 odd) {
        const u32 words[4] = {r.q.x, r.q.y, r.q.z, r.q.w};
        return Quants::tiny(words[i], r.high, i, half, odd);
    }
    // Column 16 * half + 4i + odd and the column two later.
    static DEVICE_MEMBER u32 pair(const Raw32& r, const HalfScales& h, u32 i, u32 half, u32 odd) {
        return fma_halves(tiny(r, i, half, odd), h.scale[half], h.offset[half]);
    }
    static DEVICE_MEMBER Scales scales_of(const Raw32& r, u32 unit) { return T::scales(r.scales, unit); }
    // The quants as signed bytes, `half` of the columns.
    static DEVICE_MEMBER uint4 bytes16(const Raw32& r, u32 half) {
        // Adds 128 minus the offset, below which no byte carries; changing the highest bit subtracts 128.
        auto less = [](u32 w) { return T::kOffset ? (w + (128 - T::kOffset) * 0x01010101u) ^ 0x80808080u : w; };
        const uint4 q = half ? Quants::second16(r.q, r.high) : Quants::first16(r.q, r.high);
        return {less(q.x), less(q.y), less(q.z), less(q.w)};
    }
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        Raw8 r = {};
        Quants::load8(m, row * (m.cols / 32) + chunk, t, r);
        T::put(T::load_scales(m, row, chunk, 0), r.h);
        return r;
    }
};

// Blocks of 32 with a scale: Q4_0, Q4_1, Q5_0, Q5_1. Planes: quants, scale (and minimum), fifth bits.
template <bool kFive, bool kMinimum> struct Legacy : Blocks<Legacy<kFive, kMinimum>, u32, kFive ? 1 : 0> {
    typedef Packed<kFive ? 1 : 0> Quants;
    static constexpr int kUnroll = 2;
    static constexpr u32 kType = kFive ? kMinimum ? kQ5_1 : kQ5_0 : kMinimum ? kQ4_1 : kQ4_0;
    static constexpr u32 kBlock = 32;
    static constexpr u32 kPlanes = 16 | (kMinimum ? 4 : 2) << 8 | (kFive ? 4 : 0) << 16;
    static constexpr i32 kOffset = kMinimum ? 0 : kFive ? 16 : 8;
    static constexpr bool kMinima = kMinimum;
    static DEVICE_MEMBER u32 load_scales(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 block = row * (m.cols / 32) + unit + ahead;
        return kMinimum ? load_shared_weights<u32>(m.planes[1] + 4 * block)
                        : load_shared_weights<u16>(m.planes[1] + 2 * block);
    }
    static DEVICE_MEMBER u32 staged_scales(const Staged& s, u32 unit) {
        return kMinimum ? ::load<u32>(s.planes[1] + 4 * unit) : ::load<u16>(s.planes[1] + 2 * unit);
    }
    static DEVICE_MEMBER Scales scales(u32 w, u32) { return {low_half(w), kMinimum ? high_half(w) : 0.f, {0, 0}}; }
    // The zero-point correction: minus the zero point times the sum of the activations.
    static DEVICE_MEMBER i32 start(const Group& g, u32) { return -kOffset * (g.halves[0] + g.halves[1]); }
    static DEVICE_MEMBER float add(const Scales& s, const Group& g, float dot, float sum) {
        if (kMinimum) sum = fmaf(s.m, g.sum, sum);
        return fmaf(s.d * g.scale, dot, sum);
    }
    static DEVICE_MEMBER void put(u32 w, u32 (&h)[4]) { h[0] = w; }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32, u32 t, float (&y)[8]) {
        const float d = low_half(r.h[0]), m = kMinimum ? high_half(r.h[0]) : 0.f;
        UNROLL for (u32 i = 0; i < 8; i++) y[i] = d * Quants::value8(r, t, i, kOffset) + m;
    }
};
using Q4_0 = Legacy<false, false>;
using Q4_1 = Legacy<false, true>;
using Q5_0 = Legacy<true, false>;
using Q5_1 = Legacy<true, true>;

// Blocks of 32 signed bytes with a scale; a unit is half a block. Planes: quants, scale.
struct Q8_0 {
    static constexpr u32 kType = kQ8_0;
    static constexpr u32 kBlock = 32, kPlanes = 32 | 2 << 8;
    static constexpr u32 kValues = 16;
    static constexpr int kUnroll = 2;
    static constexpr bool kFloat = false;
    struct Raw {
        uint4 q;
        u32 scale;
    };
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 half_block = row * (m.cols / 16) + unit + ahead;
        return {load_weights16(m.planes[0] + 16 * half_block),
                load_shared_weights<u16>(m.planes[1] + half_block / 2 * 2)};
    }
    static DEVICE_MEMBER Raw load_staged(const Staged& s, u32 unit) {
        return {::load<uint4>(s.planes[0] + 16 * unit), ::load<u16>(s.planes[1] + unit / 2 * 2)};
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const float dot = whole(dot16(r.q, quants16(x, 16 * (unit + ahead)), kWholeBits));
        return add(scales(r.scale, 0), group_at(x, unit / 2 + ahead / 2), dot, sum);
    }
    static DEVICE_MEMBER Scales scales(u32 w, u32) { return {low_half(w), 0.f, {0, 0}}; }
    static DEVICE_MEMBER i32 start(const Group&, u32) { return 0; }
    static DEVICE_MEMBER float add(const Scales& s, const Group& g, float dot, float sum) {
        return fmaf(s.d * g.scale, dot, sum);
    }
    // Through the L1 cache, which keeps the other half of each loaded sector.
    struct Raw32 {
        uint4 q[2];
        u32 scale;
    };
    static constexpr u32 kPieces = 1;
    static DEVICE_MEMBER Raw32 load32(const DeviceMatrix& m, u64 row, u32 chunk, u32) {
        const u64 block = row * (m.cols / 32) + chunk;
        const u8* q = m.planes[0] + 32 * block;
        return {{load_shared_weights<uint4>(q), load_shared_weights<uint4>(q + 16)},
                load_shared_weights<u16>(m.planes[1] + 2 * block)};
    }
    static DEVICE_MEMBER HalfScales scales32(const Raw32& r, u32, float factor) {
        HalfScales h;
        UNROLL for (u32 half = 0; half < 2; half++) half_scales<1>(h, half, low_half(r.scale) * factor, 128, 0.f);
        return h;
    }
    static DEVICE_MEMBER u32 pair(const Raw32& r, const HalfScales& h, u32 i, u32 half, u32 odd) {
        const u32 words[4] = {r.q[half].x, r.q[half].y, r.q[half].z, r.q[half].w},
                  word = odd ? words[i] >> 8 : words[i];
        return fma_halves((word & 0x00ff00ffu) ^ 0x00800080u, h.scale[half], h.offset[half]);
    }
    static constexpr bool kHalves = false, kMinima = false;
    static DEVICE_MEMBER Scales scales_of(const Raw32& r, u32) { return scales(r.scale, 0); }
    static DEVICE_MEMBER uint4 bytes16(const Raw32& r, u32 half) { return r.q[half]; }
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        const u64 block = row * (m.cols / 32) + chunk;
        const uint2 q = load_shared_weights<uint2>(m.planes[0] + 32 * block + 8 * t);
        return {{q.x, q.y, 0, 0}, {load_shared_weights<u16>(m.planes[1] + 2 * block), 0, 0, 0}};
    }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32, u32, float (&y)[8]) {
        const float d = low_half(r.h[0]);
        UNROLL for (u32 i = 0; i < 8; i++) y[i] = d * byte_less(r.q[i / 4] ^ 0x80808080u, i % 4, 128);
    }
};

// Blocks of 256 in sub-blocks of 32. Planes: quants, 16 bytes with all scales, fifth bits.
template <bool kFive> struct K45 : Blocks<K45<kFive>, uint4, kFive ? 1 : 0> {
    typedef Packed<kFive ? 1 : 0> Quants;
    static constexpr int kUnroll = kFive ? 1 : 2;
    static constexpr u32 kType = kFive ? kQ5_K : kQ4_K;
    static constexpr u32 kBlock = 256, kPlanes = 128 | 16 << 8 | (kFive ? 32 : 0) << 16;
    static constexpr i32 kOffset = 0;
    static constexpr bool kMinima = true;
    static DEVICE_MEMBER uint4 load_scales(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        return load_shared_weights<uint4>(m.planes[1] + 16 * (row * (m.cols / 256) + unit / 8 + ahead / 8));
    }
    static DEVICE_MEMBER uint4 staged_scales(const Staged& s, u32 unit) {
        return ::load<uint4>(s.planes[1] + 16 * (unit / 8));
    }
    static DEVICE_MEMBER Scales scales(const uint4& head, u32 unit) {
        const u32 n = unit % 8, shift = 8 * (n % 4);
        const u32 s = head.y >> shift, m = head.z >> shift, low = head.w >> shift;
        const u32 scale = n < 4 ? s & 63u : (low & 15u) | ((s >> 2) & 48u);
        const u32 minimum = n < 4 ? m & 63u : ((low >> 4) & 15u) | ((m >> 2) & 48u);
        return {low_half(head.x) * (float)scale, -high_half(head.x) * (float)minimum, {0, 0}};
    }
    static DEVICE_MEMBER i32 start(const Group&, u32) { return 0; }
    static DEVICE_MEMBER float add(const Scales& s, const Group& g, float dot, float sum) {
        return fmaf(s.d * g.scale, dot, fmaf(s.m, g.sum, sum));
    }
    static DEVICE_MEMBER void put(const uint4& w, u32 (&h)[4]) { h[0] = w.x, h[1] = w.y, h[2] = w.z, h[3] = w.w; }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32 chunk, u32 t, float (&y)[8]) {
        const Scales s = scales({r.h[0], r.h[1], r.h[2], r.h[3]}, chunk);
        UNROLL for (u32 i = 0; i < 8; i++) y[i] = s.d * Quants::value8(r, t, i, 0) + s.m;
    }
};
using Q4_K = K45<false>;
using Q5_K = K45<true>;

// Blocks of 256 in sub-blocks of 16. Planes: low nibbles, scales (16 bytes), upper two bits, scale of scales (2 bytes).
struct Q6_K : Blocks<Q6_K, u32, 2> {
    typedef Packed<2> Quants;
    static constexpr u32 kType = kQ6_K;
    static constexpr u32 kBlock = 256, kPlanes = 128 | 16 << 8 | 64 << 16 | 2 << 24;
    static constexpr int kUnroll = 1;
    static constexpr bool kHalves = true;
    static constexpr i32 kOffset = 32;
    // Both scales in the low half, the scale of scales in the high half.
    static DEVICE_MEMBER u32 load_scales(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 block = row * (m.cols / 32) + unit + ahead;
        return load_shared_weights<u16>(m.planes[1] + 2 * block) |
               (u32)load_shared_weights<u16>(m.planes[3] + block / 8 * 2) << 16;
    }
    static DEVICE_MEMBER u32 staged_scales(const Staged& s, u32 unit) {
        return ::load<u16>(s.planes[1] + 2 * unit) | (u32)::load<u16>(s.planes[3] + unit / 8 * 2) << 16;
    }
    static DEVICE_MEMBER Scales scales(u32 w, u32) { return {high_half(w), 0.f, {(i8)w, (i8)(w >> 8)}}; }
    static DEVICE_MEMBER i32 start(const Group& g, u32 half) { return -32 * g.halves[half]; }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const Group g = group_at(x, unit + ahead);
        const u32 col = 32 * (unit + ahead);
        const i32 a = dot16(Quants::first16(r.q, r.high), quants16(x, col), start(g, 0));
        const i32 b = dot16(Quants::second16(r.q, r.high), quants16(x, col + 16), start(g, 1));
        const Scales s = scales(r.scales, 0);
        // The sum of 32 products times their scales is below 2^24.
        return fmaf(s.d * g.scale, (float)(s.halves[0] * a + s.halves[1] * b), sum);
    }
    static DEVICE_MEMBER void put(u32 w, u32 (&h)[4]) { h[0] = w; }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32, u32 t, float (&y)[8]) {
        const Scales s = scales(r.h[0], 0);
        const float d = s.d * (float)(t < 2 ? s.halves[0] : s.halves[1]);
        UNROLL for (u32 i = 0; i < 8; i++) y[i] = d * Quants::value8(r, t, i, 32);
    }
};

// Types without blocks, multiplied with activations in f32. Plane 0: the values.
template <u32 kNumber> struct Plain {
    static constexpr u32 kType = kNumber;
    static constexpr u32 kBytes = kType == kF32 ? 4 : 2;
    static constexpr u32 kBlock = 1, kPlanes = kBytes;
    static constexpr u32 kValues = 16 / kBytes;
    static constexpr int kUnroll = 4;
    static constexpr bool kFloat = true;
    typedef uint4 Raw;
    static DEVICE_MEMBER void expand(const uint4& r, float (&y)[kValues]) {
        const u32 w[4] = {r.x, r.y, r.z, r.w};
        UNROLL for (u32 i = 0; i < kValues; i++) {
            if (kType == kF32) y[i] = bits_to_float(w[i % 4]);
            else if (kType == kF16) y[i] = i % 2 ? high_half(w[i / 2 % 4]) : low_half(w[i / 2 % 4]);
            else y[i] = bits_to_float(i % 2 ? w[i / 2 % 4] & 0xffff0000u : w[i / 2 % 4] << 16);
        }
    }
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        return load_weights16(m.planes[0] + row * m.cols * kBytes + 16 * unit + 16 * ahead);
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        float y[kValues];
        expand(r, y);
        UNROLL for (u32 i = 0; i < kValues; i += 4) {
            const float4 v = ::load<float4>(x.values + kValues * (unit + ahead) + i);
            sum = fmaf(y[i + 3], v.w, fmaf(y[i + 2], v.z, fmaf(y[i + 1], v.y, fmaf(y[i], v.x, sum))));
        }
        return sum;
    }
    // Half by half, and through the L1 cache as for Q8_0.
    static constexpr u32 kPieces = 2;
    struct Raw32 {
        uint4 q[kBytes];
    };
    static DEVICE_MEMBER Raw32 load32(const DeviceMatrix& m, u64 row, u32 chunk, u32 piece) {
        const u8* p = m.planes[0] + (row * m.cols + 32 * chunk + 16 * piece) * kBytes;
        Raw32 r;
        UNROLL for (u32 i = 0; i < kBytes; i++) r.q[i] = load_shared_weights<uint4>(p + 16 * i);
        return r;
    }
    static DEVICE_MEMBER HalfScales scales32(const Raw32&, u32, float) { return {}; }
    static DEVICE_MEMBER u32 pair(const Raw32& r, const HalfScales&, u32 i, u32, u32 odd) {
        if (kType == kF32) {
            float y[kValues];
            expand(r.q[i], y);
            return pack_halves(y[odd], y[(2 + odd) % kValues]);
        }
        const uint4& q = r.q[i / 2];
        const u32 first = i % 2 ? q.z : q.x, second = i % 2 ? q.w : q.y;
        if (kType == kF16) return permute(first, second, odd ? 0x7632 : 0x5410);
        return odd ? pack_halves(bits_to_float(first & 0xffff0000u), bits_to_float(second & 0xffff0000u))
                   : pack_halves(bits_to_float(first << 16), bits_to_float(second << 16));
    }
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        const u8* p = m.planes[0] + (row * m.cols + 32 * chunk + 8 * t) * kBytes;
        const uint4 a = load_shared_weights<uint4>(p);
        const uint4 b = kBytes == 4 ? load_shared_weights<uint4>(p + 16) : a;
        return {{a.x, a.y, a.z, a.w}, {b.x, b.y, b.z, b.w}};
    }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32, u32, float (&y)[8]) {
        float part[kValues];
        expand({r.q[0], r.q[1], r.q[2], r.q[3]}, part);
        UNROLL for (u32 i = 0; i < kValues; i++) y[i] = part[i];
        if (kBytes == 4) {
            expand({r.h[0], r.h[1], r.h[2], r.h[3]}, part);
            UNROLL for (u32 i = 0; i < kValues; i++) y[(4 + i) % 8] = part[i];
        }
    }
};

// Prefetches the beginning of a row of each plane into the L2 cache, as much as it can hold for all warps of a device.
template <class T> DEVICE void prefetch_row(const DeviceMatrix& m, u64 row, u32 lane) {
    constexpr u32 kLine = 128;
    UNROLL for (u32 p = 0; p < 4; p++) {
        const u32 bytes = m.cols / T::kBlock * (T::kPlanes >> (8 * p) & 255u);
        UNROLL for (u32 i = 0; i < 2; i++) {
            const u32 at = kLine * (i * kWarp + lane);
            if (at < bytes) prefetch_l2(m.planes[p] + row * bytes + at);
        }
    }
}

// Prefetches the quants of 32 columns of a row.
template <class T> DEVICE void prefetch_ahead(const DeviceMatrix& m, u64 row, u32 chunk) {
    prefetch_l2(m.planes[0] + (row * (m.cols / 32) + chunk) * (32 * (T::kPlanes & 255u) / T::kBlock));
}

// Calls a macro with each type and its name in kernels.
#define EACH_BLOCK_TYPE(of) \
    of(Q4_0, q4_0)          \
    of(Q4_1, q4_1)          \
    of(Q5_0, q5_0)          \
    of(Q5_1, q5_1)          \
    of(Q8_0, q8_0)          \
    of(Q4_K, q4_k)          \
    of(Q5_K, q5_k)          \
    of(Q6_K, q6_k)
#define EACH_PLAIN_TYPE(of) \
    of(Plain<kF32>, f32)    \
    of(Plain<kF16>, f16)    \
    of(Plain<kBF16>, bf16)

// Calls `f` with an object of each type.
template <class F> DEVICE void for_types(F&& f) {
#define CALL(T, name) f(T());
    EACH_PLAIN_TYPE(CALL)
    EACH_BLOCK_TYPE(CALL)
#undef CALL
}

// Calls `f` with an object of the matrix's type.
template <class F> DEVICE void with_type(u32 type, F&& f) {
    switch (type) {
#define CASE(T, name) case T::kType: return f(T());
        EACH_PLAIN_TYPE(CASE)
        EACH_BLOCK_TYPE(CASE)
#undef CASE
    }
}

// Values 32 * chunk + 8 * t.. of a row.
DEVICE Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
    Raw8 r = {};
    with_type(m.dtype, [&](auto type) { r = decltype(type)::load8(m, row, chunk, t); });
    return r;
}
DEVICE void decode8(const DeviceMatrix& m, const Raw8& r, u32 chunk, u32 t, float (&y)[8]) {
    with_type(m.dtype, [&](auto type) { decltype(type)::decode8(r, chunk, t, y); });
}
