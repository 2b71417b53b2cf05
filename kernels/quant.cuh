// Layouts of weights in device memory, and the readers of a lane.
//
// A matrix is up to four planes of bytes. Plane p holds, row after row and block after block, one field of the file's
// blocks, listed in `backend/cuda/weights.rs`. Blocks whose size is a multiple of 16 bytes (Q4_K, Q5_K) stay whole
// in plane 0; the others are split so that every plane can be read in aligned words.
//
// A type has two readers. `load`/`dot`: the share of one lane in a row times an activation of signed bytes, 16 bytes of quants
// a load, for unit `unit + ahead`, of which the latter is a multiple of a warp that the compiler knows. A dot product has no sum
// that the compiler may or may not fuse with a product, so that every kernel gets the same bits. `load8`/`decode8`: eight values
// of a row, for tiles and look-ups, by the formula in src/quant.
#pragma once

#include "common.cuh"

struct DeviceMatrix {
    const u8* planes[4];
    u32 type;  // GGML's number
    u32 rows;
    u32 cols;  // a multiple of 32; values behind the model's own are 0
    u32 pad;
};
static_assert(sizeof(DeviceMatrix) == 48, "mirrored in module.rs");

enum Type : u32 {
    kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ4_K = 12, kQ5_K = 13, kQ6_K = 14, kBF16 = 30,
};

// Per 32 activations: x = scale * q, and the sums of x over the first and the last 16.
struct alignas(16) Group {
    float scale;
    float sums[2];
    float pad;
};
static_assert(sizeof(Group) == 16, "sized by the launch");
DEVICE float half_sum(const Group& g, u32 half) { return half ? g.sums[1] : g.sums[0]; }

// A row of the input of a matrix-vector product, in the forms that its matrices read.
struct Input {
    float* values;  // for types without blocks
    i8* quants;
    Group* groups;
};

// Eight values of a row before they are expanded.
struct Raw8 {
    u32 q[4];
    u32 h[4];
};

DEVICE i32 dot16(const uint4& a, const uint4& b, i32 c) { return dot4(a.x, b.x, dot4(a.y, b.y, dot4(a.z, b.z, dot4(a.w, b.w, c)))); }
// A whole number below 2^22 as a float, from its sum with the bits of 1.5 * 2^23: a conversion would take longer.
constexpr i32 kWholeBits = 0x4b400000;
constexpr float kWhole = 12582912.f;
DEVICE float whole(i32 sum) { return bits_to_float((u32)sum) - kWhole; }
DEVICE uint4 masked(const uint4& q, u32 mask) { return {q.x & mask, q.y & mask, q.z & mask, q.w & mask}; }
DEVICE uint4 nibbles(const uint4& q, u32 shift) {
    return masked({q.x >> shift, q.y >> shift, q.z >> shift, q.w >> shift}, 0x0f0f0f0fu);
}
// The dot product with high nibbles that stay where they are, 16 times as large.
DEVICE i32 dot16_high(const uint4& q, const uint4& b, i32 c) {
    const uint4 a = masked(q, 0xf0f0f0f0u);
    return dot4_unsigned(a.x, b.x, dot4_unsigned(a.y, b.y, dot4_unsigned(a.z, b.z, dot4_unsigned(a.w, b.w, c))));
}
// `q` with bit `bit` of each byte of `h` (and with `mask` 0x03.. the one above) moved to bit 4 and up.
DEVICE uint4 with_high_bits(const uint4& q, const uint4& h, u32 bit, u32 mask) {
    return {q.x | ((h.x >> bit) & mask) << 4, q.y | ((h.y >> bit) & mask) << 4, q.z | ((h.z >> bit) & mask) << 4,
            q.w | ((h.w >> bit) & mask) << 4};
}
// Bits 0-3 to bit 4 of the four bytes: the product puts a copy of the bits seven higher for each byte.
DEVICE u32 spread4(u32 bits) { return (((bits & 15u) * 0x00204081u) & 0x01010101u) << 4; }
DEVICE uint4 with_bit_mask(const uint4& q, u32 bits) {
    return {q.x | spread4(bits), q.y | spread4(bits >> 4), q.z | spread4(bits >> 8), q.w | spread4(bits >> 12)};
}
DEVICE float byte_at(u32 w, u32 i) { return (float)((w >> (8 * i)) & 255u); }
DEVICE Group group_at(const Input& x, u32 i) { return load<Group>(x.groups + i); }
DEVICE uint4 quants16(const Input& x, u32 col) { return load<uint4>(x.quants + col); }

// Blocks of 32 with a scale: Q4_0, Q4_1, Q5_0, Q5_1. Planes: quants, scale (and minimum), fifth bits.
template <bool kFive, bool kMinimum> struct Legacy {
    static constexpr u32 kValues = 32;
    static constexpr int kUnroll = 2;
    static constexpr bool kFloat = false;
    static constexpr u32 kBlock = 32;
    static constexpr u32 kPlanes = 16 | (kMinimum ? 4 : 2) << 8 | (kFive ? 4 : 0) << 16;
    static constexpr i32 kOffset = kMinimum ? 0 : kFive ? 16 : 8;
    struct Raw {
        uint4 q;
        u32 high;
        u32 scales;
    };
    static DEVICE_MEMBER u32 load_scales(const DeviceMatrix& m, u64 block) {
        return kMinimum ? load_shared_weights<u32>(m.planes[1] + 4 * block) : load_shared_weights<u16>(m.planes[1] + 2 * block);
    }
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 block = row * (m.cols / 32) + unit + ahead;
        Raw r;
        r.q = load_weights16(m.planes[0] + 16 * block);
        r.high = kFive ? load_shared_weights<u32>(m.planes[2] + 4 * block) : 0;
        r.scales = load_scales(m, block);
        return r;
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const Group g = group_at(x, unit + ahead);
        const uint4 x0 = quants16(x, 32 * (unit + ahead)), x1 = quants16(x, 32 * (unit + ahead) + 16);
        const float d = low_half(r.scales), m = kMinimum ? high_half(r.scales) : d * (float)-kOffset;
        sum = fmaf(m, g.sums[0] + g.sums[1], sum);
        const uint4 low = nibbles(r.q, 0);
        if (!kFive) return fmaf(d / 16.f * g.scale, whole(16 * dot16(low, x0, 0) + dot16_high(r.q, x1, kWholeBits)), sum);
        const uint4 high = with_bit_mask(nibbles(r.q, 4), r.high >> 16);
        return fmaf(d * g.scale, whole(dot16(with_bit_mask(low, r.high), x0, dot16(high, x1, kWholeBits))), sum);
    }
    // Values 8t.. of a block lie in one half of its nibbles.
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        const u64 block = row * (m.cols / 32) + chunk;
        const uint2 q = load_shared_weights<uint2>(m.planes[0] + 16 * block + 8 * (t % 2));
        Raw8 r = {{q.x, q.y, 0, 0}, {load_scales(m, block), 0, 0, 0}};
        if (kFive) r.h[1] = load_shared_weights<u32>(m.planes[2] + 4 * block);
        return r;
    }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32, u32 t, float (&y)[8]) {
        const float d = low_half(r.h[0]), m = kMinimum ? high_half(r.h[0]) : 0.f;
        const u32 bits = r.h[1] >> (8 * t);
        UNROLL for (u32 i = 0; i < 8; i++) {
            u32 q = (r.q[i / 4] >> (8 * (i % 4) + 4 * (t / 2))) & 15u;
            if (kFive) q |= ((bits >> i) & 1u) << 4;
            y[i] = d * (float)((i32)q - kOffset) + m;
        }
    }
};
using Q4_0 = Legacy<false, false>;
using Q4_1 = Legacy<false, true>;
using Q5_0 = Legacy<true, false>;
using Q5_1 = Legacy<true, true>;

// Blocks of 32 signed bytes with a scale. Planes: quants, scale.
struct Q8_0 {
    static constexpr u32 kBlock = 32, kPlanes = 32 | 2 << 8;
    static constexpr u32 kValues = 16;
    static constexpr int kUnroll = 4;
    static constexpr bool kFloat = false;
    struct Raw {
        uint4 q;
        u32 scale;
    };
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 half_block = row * (m.cols / 16) + unit + ahead;
        return {load_weights16(m.planes[0] + 16 * half_block), load_shared_weights<u16>(m.planes[1] + half_block / 2 * 2)};
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const float dot = whole(dot16(r.q, quants16(x, 16 * (unit + ahead)), kWholeBits));
        return fmaf(x.groups[unit / 2 + ahead / 2].scale * low_half(r.scale), dot, sum);
    }
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        const u64 block = row * (m.cols / 32) + chunk;
        const uint2 q = load_shared_weights<uint2>(m.planes[0] + 32 * block + 8 * t);
        return {{q.x, q.y, 0, 0}, {load_shared_weights<u16>(m.planes[1] + 2 * block), 0, 0, 0}};
    }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32, u32, float (&y)[8]) {
        const float d = low_half(r.h[0]);
        UNROLL for (u32 i = 0; i < 8; i++) y[i] = d * (float)(i8)(r.q[i / 4] >> (8 * (i % 4)));
    }
};

// Scale and minimum of sub-blocks 2 * pair and 2 * pair + 1 of Q4_K and Q5_K, one in each lower byte of the two words.
DEVICE void scale_pair(const uint4& head, u32 pair, u32& scales, u32& minima) {
    const u32 shift = 16 * (pair % 2);
    const u32 s = head.y >> shift, m = head.z >> shift, low = head.w >> shift;
    scales = pair < 2 ? s & 0x3f3fu : (low & 0x0f0fu) | ((s >> 2) & 0x3030u);
    minima = pair < 2 ? m & 0x3f3fu : ((low >> 4) & 0x0f0fu) | ((m >> 2) & 0x3030u);
}

// Blocks of 256 as in the file: 16 bytes of scales, for Q5_K 32 bytes of fifth bits, 128 bytes of nibbles.
template <bool kFive> struct K45 {
    static constexpr u32 kValues = 32;
    static constexpr int kUnroll = kFive ? 1 : 2;
    static constexpr bool kFloat = false;
    static constexpr u32 kBlock = 256, kPlanes = kFive ? 176 : 144;
    static constexpr u32 kQuants = kFive ? 48 : 16;
    struct Raw {
        uint4 q, head, high;
    };
    // Unit r of a block: 16 bytes, whose low nibbles belong to sub-block 2 * (r / 2) and whose high ones to the next.
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u8* block = m.planes[0] + (row * (m.cols / 256) + unit / 8) * kPlanes + ahead / 8 * kPlanes;
        Raw r;
        r.head = load_shared_weights<uint4>(block);
        r.q = load_weights16(block + kQuants + 16 * (unit % 8));
        if (kFive) r.high = load_shared_weights<uint4>(block + 16 + 16 * (unit % 2));
        return r;
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const u32 pair = unit % 8 / 2, half = unit % 2;
        uint4 low = nibbles(r.q, 0), high = nibbles(r.q, 4);
        if (kFive) {
            low = with_high_bits(low, r.high, 2 * pair, 0x01010101u);
            high = with_high_bits(high, r.high, 2 * pair + 1, 0x01010101u);
        }
        const u32 group = unit / 8 * 8 + 2 * pair + ahead, col = 32 * (unit / 8 * 8 + 2 * pair) + 16 * half + 32 * ahead;
        const Group g0 = group_at(x, group), g1 = group_at(x, group + 1);
        const float dot0 = whole(dot16(low, quants16(x, col), kWholeBits));
        const uint4 x1 = quants16(x, col + 32);
        const float dot1 = whole(kFive ? dot16(high, x1, kWholeBits) : dot16_high(r.q, x1, kWholeBits));
        u32 scales, minima;
        scale_pair(r.head, pair, scales, minima);
        const float d = low_half(r.head.x), m = -high_half(r.head.x);
        const float d0 = d * (float)(scales & 63u), d1 = (kFive ? d : d / 16.f) * (float)(scales >> 8);
        const float m0 = m * (float)(minima & 63u), m1 = m * (float)(minima >> 8);
        sum = fmaf(m1, half_sum(g1, half), fmaf(m0, half_sum(g0, half), sum));
        return fmaf(d1 * g1.scale, dot1, fmaf(d0 * g0.scale, dot0, sum));
    }
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        const u8* block = m.planes[0] + (row * (m.cols / 256) + chunk / 8) * kPlanes;
        const uint4 head = load_shared_weights<uint4>(block);
        const uint2 q = load_shared_weights<uint2>(block + kQuants + 32 * (chunk % 8 / 2) + 8 * t);
        Raw8 r = {{q.x, q.y, 0, 0}, {head.x, head.y, head.z, head.w}};
        if (kFive) {
            const uint2 high = load_shared_weights<uint2>(block + 16 + 8 * t);
            r.q[2] = high.x, r.q[3] = high.y;
        }
        return r;
    }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32 chunk, u32, float (&y)[8]) {
        const u32 n = chunk % 8, shift = 8 * (n % 2);
        u32 scales, minima;
        scale_pair({r.h[0], r.h[1], r.h[2], r.h[3]}, n / 2, scales, minima);
        const float d = low_half(r.h[0]) * (float)((scales >> shift) & 63u);
        const float m = high_half(r.h[0]) * (float)((minima >> shift) & 63u);
        UNROLL for (u32 i = 0; i < 8; i++) {
            u32 q = (r.q[i / 4] >> (8 * (i % 4) + 4 * (n % 2))) & 15u;
            if (kFive) q |= ((r.q[2 + i / 4] >> (8 * (i % 4) + n)) & 1u) << 4;
            y[i] = d * (float)q - m;
        }
    }
};
using Q4_K = K45<false>;
using Q5_K = K45<true>;

// Blocks of 256 in sub-blocks of 16. Planes: low nibbles (128 bytes), upper two bits (64), scales (16), scale of scales (2).
struct Q6_K {
    static constexpr u32 kBlock = 256, kPlanes = 128 | 64 << 8 | 16 << 16 | 2 << 24;
    static constexpr u32 kValues = 32;
    static constexpr int kUnroll = 1;
    static constexpr bool kFloat = false;
    struct Raw {
        uint4 low, high;
        uint2 scales;
        u32 d;
    };
    // Unit r of a block: 16 bytes of nibbles of half r / 4, whose low nibbles are values 16 * (r % 4).. of that half and
    // whose high ones those 64 further on.
    static DEVICE_MEMBER Raw load(const DeviceMatrix& m, u64 row, u32 unit, u32 ahead) {
        const u64 block = row * (m.cols / 256) + unit / 8 + ahead / 8;
        const u32 half = unit % 8 / 4;
        Raw r;
        r.low = load_weights16(m.planes[0] + 128 * block + 16 * (unit % 8));
        r.high = load_shared_weights<uint4>(m.planes[1] + 64 * block + 32 * half + 16 * (unit % 2));
        r.scales = load_shared_weights<uint2>(m.planes[2] + 16 * block + 8 * half);
        r.d = load_shared_weights<u16>(m.planes[3] + 2 * block);
        return r;
    }
    static DEVICE_MEMBER float dot(const Raw& r, const Input& x, u32 unit, u32 ahead, float sum) {
        const u32 quarter = unit % 4, bit = quarter / 2 * 2;
        const uint4 low = with_high_bits(nibbles(r.low, 0), r.high, bit, 0x03030303u);
        const uint4 high = with_high_bits(nibbles(r.low, 4), r.high, bit + 4, 0x03030303u);
        const u32 col = unit / 4 * 128 + 16 * quarter + 32 * ahead;
        const Group g0 = group_at(x, col / 32), g1 = group_at(x, col / 32 + 2);
        const float dot0 = whole(dot16(low, quants16(x, col), kWholeBits));
        const float dot1 = whole(dot16(high, quants16(x, col + 64), kWholeBits));
        const float d = low_half(r.d);
        const float d0 = d * (float)(i8)(r.scales.x >> (8 * quarter)), d1 = d * (float)(i8)(r.scales.y >> (8 * quarter));
        sum = fmaf(d1 * -32.f, half_sum(g1, unit % 2), fmaf(d0 * -32.f, half_sum(g0, unit % 2), sum));
        return fmaf(d1 * g1.scale, dot1, fmaf(d0 * g0.scale, dot0, sum));
    }
    static DEVICE_MEMBER Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
        const u64 block = row * (m.cols / 256) + chunk / 8;
        const u32 half = chunk % 8 / 4, n = chunk % 4;
        const uint2 low = load_shared_weights<uint2>(m.planes[0] + 128 * block + 64 * half + 32 * (n % 2) + 8 * t);
        const uint2 high = load_shared_weights<uint2>(m.planes[1] + 64 * block + 32 * half + 8 * t);
        const i32 scale = (i8)load_shared_weights<u8>(m.planes[2] + 16 * block + 8 * half + 2 * n + t / 2);
        return {{low.x, low.y, high.x, high.y}, {load_shared_weights<u16>(m.planes[3] + 2 * block), (u32)scale, 0, 0}};
    }
    static DEVICE_MEMBER void decode8(const Raw8& r, u32 chunk, u32, float (&y)[8]) {
        const u32 n = chunk % 4;
        const float d = low_half(r.h[0]) * (float)(i32)r.h[1];
        UNROLL for (u32 i = 0; i < 8; i++) {
            const u32 low = (r.q[i / 4] >> (8 * (i % 4) + 4 * (n / 2))) & 15u;
            const u32 high = (r.q[2 + i / 4] >> (8 * (i % 4) + 2 * n)) & 3u;
            y[i] = d * ((float)(low | high << 4) - 32.f);
        }
    }
};

// Types without blocks, multiplied with activations in f32. Plane 0: the values.
template <u32 kType> struct Plain {
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

// Prefetches the head of a row of each plane into the second-level cache, as much as it holds for all warps of a device.
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

// Calls `f` with an object of the matrix's type.
template <class F> DEVICE void with_type(u32 type, F&& f) {
    switch (type) {
        case kF32: return f(Plain<kF32>());
        case kF16: return f(Plain<kF16>());
        case kBF16: return f(Plain<kBF16>());
        case kQ4_0: return f(Q4_0());
        case kQ4_1: return f(Q4_1());
        case kQ5_0: return f(Q5_0());
        case kQ5_1: return f(Q5_1());
        case kQ8_0: return f(Q8_0());
        case kQ4_K: return f(Q4_K());
        case kQ5_K: return f(Q5_K());
        case kQ6_K: return f(Q6_K());
    }
}

// Values 32 * chunk + 8 * t.. of a row.
DEVICE Raw8 load8(const DeviceMatrix& m, u64 row, u32 chunk, u32 t) {
    Raw8 r = {};
    with_type(m.type, [&](auto type) { r = decltype(type)::load8(m, row, chunk, t); });
    return r;
}
DEVICE void decode8(const DeviceMatrix& m, const Raw8& r, u32 chunk, u32 t, float (&y)[8]) {
    with_type(m.type, [&](auto type) { decltype(type)::decode8(r, chunk, t, y); });
}
