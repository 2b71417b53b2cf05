// Products with the factors of low-rank adapters, for the rows of sequences that have an adapter.
//
//     out[token] = w * x[token]        or        out[token] += factor * (w * x[token])
//
// Optimizations as in `project_heads`. Sums have a fixed order; rows are batch-invariant.
//
// Shapes: see `AdaptArgs`. Grid: (rows of a matrix, matrices, groups of tokens).
#include "quant.cuh"

// One matrix per block of the second dimension. Lanes share a row, as many as its columns can occupy.
KERNEL(adapt, AdaptArgs, 128, 2) {
    let_next_start();
    wait_for_previous();
    const AdaptSegment& s = a.segments[blockIdx.y];
    const u32 lane = threadIdx.x % kWarp, units = s.w.cols / 8;
    const u32 token0 = blockIdx.z * kHeadTokens, tokens = min_u32(a.n - token0, kHeadTokens);
    float factors[kHeadTokens], sums[kHeadTokens] = {};
    bool has_any = false;
    UNROLL for (u32 i = 0; i < kHeadTokens; i++) {
        factors[i] = i < tokens ? a.factors[a.slots[token0 + i]] : 0.f;
        has_any |= factors[i] != 0.f;
    }
    if (!has_any) return;
    u32 lanes = 4;
    while (lanes < units && lanes < kWarp) lanes *= 2;
    const u32 row = (blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp) * (kWarp / lanes) + lane / lanes;
    const float* x = s.x + (u64)token0 * s.cols;
    for (u32 unit = lane % lanes; row < s.w.rows && unit < units; unit += lanes) {
        float w[8];
        decode8(s.w, load8(s.w, row, unit / 4, unit % 4), unit / 4, unit % 4, w);
        UNROLL for (u32 i = 0; i < kHeadTokens; i++) {
            if (factors[i] != 0.f) UNROLL for (u32 j = 0; j < 8; j++) {
                if (8 * unit + j < s.cols) sums[i] += w[j] * x[(u64)i * s.cols + 8 * unit + j];
            }
        }
    }
    UNROLL for (u32 i = 0; i < kHeadTokens; i++) {
        for (u32 l = lanes / 2; l > 0; l /= 2) sums[i] += shuffle_xor(sums[i], l);
        if (lane % lanes != 0 || row >= s.w.rows || factors[i] == 0.f) continue;
        float* out = s.out + (u64)(token0 + i) * s.w.rows + row;
        *out = a.adds ? fmaf(factors[i] * s.factor, sums[i], *out) : sums[i];
    }
}
