// Processing of heads between projection and attention: norm, RoPE, and writes to the KV cache, one warp per head.
//
//     angle = rope_position * inv_freq;  (x0, x1) = (x0 cos - x1 sin, x0 sin + x1 cos), times the magnitude
//
// Angles are in f64, because an f32 product is off by a hundredth of a revolution at position 100,000. Products and
// sums are fused or rounded as written here, so that all kernels are bit-identical.
#pragma once

#include "common.cuh"

// The two dimensions of pair `i`.
DEVICE u32 pair_low(const HeadsArgs& a, u32 i) { return a.first + (a.adjacent ? 2 * i : i); }
DEVICE u32 pair_high(const HeadsArgs& a, u32 i) { return a.first + (a.adjacent ? 2 * i + 1 : i + a.n_pairs); }

// Computes sine and cosine of a pair at a rotary position, times the magnitude.
DEVICE void angle(const HeadsArgs& a, u32 position, double inv_freq, float& sine, float& cosine) {
    const double revolutions = (double)position * inv_freq * 0.15915494309189535;
    sincos_pi((float)(2. * (revolutions - rint(revolutions))), sine, cosine);
    sine *= a.magnitude, cosine *= a.magnitude;
}
// The rotary position of pair `i` of a token.
DEVICE u32 rope_position(const HeadsArgs& a, u32 token, u32 position, u32 i) {
    const u32 rope =
        a.step.rope_offsets ? position + a.step.rope_offsets[3 * token + (a.axes ? a.axes[i] : 0)] : position;
    return rope - min_u32(rope, a.position_offset);
}
DEVICE u32 rotated_pairs(const HeadsArgs& a) { return a.inv_freq ? a.n_pairs : 0; }

// Normalizes one head (with norm weights from `own` on) and rotates it in place. `angle_of(i, sine, cosine)` sets the
// angle of pair `i`.
template <class F>
DEVICE void apply_rope(const HeadsArgs& a, float* x, const DeviceNorm& norm, u32 own, u32 lane, F&& angle_of) {
    const u32 d = a.head_dim;
    Moments m = {0.f, 1.f};
    if (norm.kind == kLayer) {
        float sum = 0.f;
        for (u32 i = lane; i < d; i += kWarp) sum += x[i];
        m.mean = warp_sum(sum) / (float)d;
    }
    if (norm.kind != kNoNorm) {
        float squares = 0.f;
        for (u32 i = lane; i < d; i += kWarp) squares = fmaf(x[i] - m.mean, x[i] - m.mean, squares);
        m.inverse = 1.f / sqrtf(warp_sum(squares) / (float)d + norm.eps);
    }
    // Other lanes have read values that are overwritten now, and shuffles do not order memory.
    sync_warp();
    const u32 pairs = rotated_pairs(a);
    for (u32 i = lane; i < pairs; i += kWarp) {
        float sine, cosine;
        angle_of(i, sine, cosine);
        const u32 l = pair_low(a, i), h = pair_high(a, i);
        const float x0 = normalized(x[l], own + l, m, norm), x1 = normalized(x[h], own + h, m, norm);
        x[l] = fmaf(x0, cosine, -rounded_mul(x1, sine));
        x[h] = fmaf(x0, sine, rounded_mul(x1, cosine));
    }
    for (u32 i = lane; i < d - 2 * pairs; i += kWarp) {
        const u32 still = i < a.first ? i : i + 2 * pairs;
        x[still] = normalized(x[still], own + still, m, norm);
    }
    sync_warp();
}

// The normalized Hadamard transform of the values of a warp, one per lane. It is its own inverse, spreads outliers, and
// preserves dot products.
DEVICE float hadamard(float v, u32 lane) {
    UNROLL for (u32 far = 1; far < kWarp; far *= 2) {
        const float other = shuffle_xor(v, far);
        v = lane & far ? other - v : v + other;
    }
    return v * 0.17677669529663687f;
}

// Writes one head to a cache plane from value `first` on, padded with zeros. `transforms`: true to apply the
// Hadamard transform to each whole 32 values in 4-bit caches.
DEVICE void store_head(const float* x, u32 d, u8* plane, u16* scales, u64 first, u32 stride, u32 type, bool transforms,
                       u32 lane) {
    for (u32 i = lane; i < stride; i += kWarp) {
        float v = i < d ? x[i] : 0.f;
        const u64 at = first + i;
        // Quants are integers, so NaN must be stored in the scale.
        const bool is_nan = (type == kQ4_0 || type == kQ8_0) && warp_max(v != v ? 1.f : 0.f) > 0.f;
        if (is_nan) v = 0.f;
        if (type == kQ4_0) {
            // A warp holds one group per iteration. The number of largest magnitude becomes -8.
            if (transforms && i - lane + kWarp <= d) v = hadamard(v, lane);
            const float high = warp_max(v), low = -warp_max(-v), scale = (high > -low ? high : low) / -8.f;
            const u32 q = min_u32((u32)(i32)(rintf(scale != 0.f ? v / scale : 0.f) + 8.f), 15);
            const u32 next = shuffle_xor(q, 1);
            if (lane % 2 == 0) plane[at / 2] = (u8)(q | next << 4);
            if (lane == 0) scales[at / 32] = float_to_half(is_nan ? kNan : scale);
        } else if (type == kQ8_0) {
            // A warp holds one group per iteration; the stride is a multiple of a group.
            const float scale = warp_max(fabsf(v)) / 127.f;
            plane[at] = (u8)(i32)rintf(scale > 0.f ? v / scale : 0.f);
            if (lane == 0) scales[at / 32] = float_to_half(is_nan ? kNan : scale);
        } else if (type == kF16) {
            store(plane + 2 * at, float_to_half(v));
        } else {
            store(plane + 4 * at, v);
        }
    }
}

// Writes the key, or the value, of a token and KV head. If positions share a key, the last one stores it.
DEVICE void store_key(const HeadsArgs& a, const DeviceKv& kv, u32 position, u32 kv_head, const float* x, u32 lane) {
    if (keys_up_to(a.layer, position) == keys_up_to(a.layer, position - 1)) return;
    const u64 row = (keys_up_to(a.layer, position) - 1) % kept(kv, a.layer),
              first = first_value(kv, a.layer, a.layer.k, a.layer.k_stride, kv_head);
    store_head(x, a.head_dim, kv.k, kv.k_scales, first + row * a.layer.k_stride, a.layer.k_stride, kv.k_type,
               !a.layer.is_latent, lane);
}
DEVICE void store_value(const HeadsArgs& a, const DeviceKv& kv, u32 position, u32 kv_head, const float* x, u32 lane) {
    const u64 row = position % kept(kv, a.layer),
              first = first_value(kv, a.layer, a.layer.v, a.layer.v_stride, kv_head);
    store_head(x, a.value_dim, kv.v, kv.v_scales, first + row * a.layer.v_stride, a.layer.v_stride, kv.v_type, true,
               lane);
}
