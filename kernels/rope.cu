// Queries and keys between projection and attention: norm of each head, rotation, and writing to the cache, one warp a head.
//
// Angles are position * inv_freq in f64, because an f32 product is off by a hundredth of a turn at position 100,000.
#include "args.cuh"

// Dimensions of pair `i`.
DEVICE u32 pair_low(const HeadsArgs& a, u32 i) { return a.first + (a.adjacent ? 2 * i : i); }
DEVICE u32 pair_high(const HeadsArgs& a, u32 i) { return a.first + (a.adjacent ? 2 * i + 1 : i + a.n_pairs); }

// Normalises, by weights from `own` on, and turns one head in place.
DEVICE void turn(const HeadsArgs& a, float* x, const DeviceNorm& norm, u32 own, u32 position, u32 lane) {
    const u32 d = a.head_dim;
    Moments m = {0.f, 1.f};
    if (norm.kind == kLayer) {
        float sum = 0.f;
        for (u32 i = lane; i < d; i += kWarp) sum += x[i];
        m.mean = warp_sum(sum) / (float)d;
    }
    if (norm.kind != kNoNorm) {
        float squares = 0.f;
        for (u32 i = lane; i < d; i += kWarp) squares += (x[i] - m.mean) * (x[i] - m.mean);
        m.inverse = 1.f / sqrtf(warp_sum(squares) / (float)d + norm.eps);
    }
    // Values that other lanes have read are overwritten, and shuffles order no memory.
    sync_warp();
    const u32 pairs = a.inv_freq ? a.n_pairs : 0;
    for (u32 i = lane; i < pairs; i += kWarp) {
        const double turns = (double)position * a.inv_freq[i] * 0.15915494309189535;
        float sine, cosine;
        sincos_half_turns((float)(2. * (turns - rint(turns))), sine, cosine);
        sine *= a.magnitude, cosine *= a.magnitude;
        const u32 l = pair_low(a, i), h = pair_high(a, i);
        const float x0 = normalised(x[l], own + l, m, norm), x1 = normalised(x[h], own + h, m, norm);
        x[l] = x0 * cosine - x1 * sine;
        x[h] = x0 * sine + x1 * cosine;
    }
    for (u32 i = lane; i < d - 2 * pairs; i += kWarp) {
        const u32 still = i < a.first ? i : i + 2 * pairs;
        x[still] = normalised(x[still], own + still, m, norm);
    }
    sync_warp();
}

// Writes one head to a cache plane from value `first` on; the dimensions behind the head's are 0.
DEVICE void store_head(const float* x, u32 d, u8* plane, u16* scales, u64 first, u32 stride, u32 type, u32 lane) {
    for (u32 i = lane; i < stride; i += kWarp) {
        const float v = i < d ? x[i] : 0.f;
        const u64 at = first + i;
        if (type == kQ8_0) {
            // A group is what a warp holds in one turn; the stride is a multiple of it.
            const float scale = warp_max(fabsf(v)) / 127.f;
            plane[at] = (u8)(i32)rintf(scale > 0.f ? v / scale : 0.f);
            if (lane == 0) scales[at / 32] = float_to_half(scale);
        } else if (type == kF16) {
            store(plane + 2 * at, float_to_half(v));
        } else {
            store(plane + 4 * at, v);
        }
    }
}

KERNEL(heads, HeadsArgs, 128, 1) {
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, head = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    const u32 token = blockIdx.y, d = a.head_dim;
    if (head >= a.heads + (a.v ? 2 : 1) * a.kv_heads) return;
    const u32 position = a.step.positions[token];
    if (head < a.heads) {
        turn(a, a.q + ((u64)token * a.heads + head) * d, a.q_norm, a.own_norms & 1 ? head * d : 0, position, lane);
        return;
    }
    const bool is_key = head < a.heads + a.kv_heads;
    const u32 kv_head = head - a.heads - (is_key ? 0 : a.kv_heads);
    const u64 at = (u64)token * a.kv_heads + kv_head;
    if (is_key) turn(a, a.k + at * d, a.k_norm, a.own_norms & 2 ? kv_head * d : 0, position, lane);
    if (!a.store) return;
    const DeviceKv kv = a.step.kvs[a.step.slots[token]];
    const u64 row = position % kept(kv, a.layer);
    const u32 k_stride = a.layer.k_stride, v_stride = a.layer.v_stride;
    if (is_key) {
        const u64 to = first_value(kv, a.layer, a.layer.k, k_stride, kv_head) + row * k_stride;
        store_head(a.k + at * d, d, kv.k, kv.k_scales, to, k_stride, kv.k_type, lane);
    } else {
        const u64 to = first_value(kv, a.layer, a.layer.v, v_stride, kv_head) + row * v_stride;
        store_head(a.v + at * a.value_dim, a.value_dim, kv.v, kv.v_scales, to, v_stride, kv.v_type, lane);
    }
}
