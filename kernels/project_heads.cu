// Products per head: MLA projects queries into the latent space of the KV cache, and results out of it.
//
//     out[token, head] = w[head] * x[token, head][..cols], then x[token, head][cols..]
//
// Optimizations:
//  1. A block dequantizes weights once for `kHeadTokens` tokens.
//  2. As many lanes share a row of the matrix as it has groups of eight columns, so that narrow rows leave no lane
//     idle.
//
// Shapes: see `ProjectHeadsArgs`. Grid: (rows of a head, heads, groups of tokens).
#include "quant.cuh"

// One head per block of the second dimension. Lanes share a row, as many as its columns can occupy.
KERNEL(project_heads, ProjectHeadsArgs, 128, 2) {
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, head = blockIdx.y, units = a.w.cols / 8;
    u32 lanes = 4;
    while (lanes < units && lanes < kWarp) lanes *= 2;
    const u32 row = (blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp) * (kWarp / lanes) + lane / lanes;
    const u32 token0 = blockIdx.z * kHeadTokens, tokens = min_u32(a.n - token0, kHeadTokens);
    const float* x = a.x + ((u64)token0 * a.heads + head) * a.from;
    float* out = a.out + ((u64)token0 * a.heads + head) * a.to;
    const u64 x_stride = (u64)a.heads * a.from, out_stride = (u64)a.heads * a.to;
    float sums[kHeadTokens] = {};
    for (u32 unit = lane % lanes; row < a.rows && unit < units; unit += lanes) {
        float w[8];
        decode8(a.w, load8(a.w, head * a.rows + row, unit / 4, unit % 4), unit / 4, unit % 4, w);
        UNROLL for (u32 i = 0; i < kHeadTokens; i++) {
            if (i < tokens) UNROLL for (u32 j = 0; j < 8; j++) {
                if (8 * unit + j < a.cols) sums[i] += w[j] * x[i * x_stride + 8 * unit + j];
            }
        }
    }
    UNROLL for (u32 i = 0; i < kHeadTokens; i++) {
        for (u32 l = lanes / 2; l > 0; l /= 2) sums[i] += shuffle_xor(sums[i], l);
        if (lane % lanes == 0 && row < a.rows && i < tokens) out[i * out_stride + row] = sums[i];
    }
    if (blockIdx.x > 0) return;
    for (u32 i = 0; i < tokens; i++)
        for (u32 j = a.cols + threadIdx.x; j < a.from; j += blockDim.x)
            out[i * out_stride + a.rows + j - a.cols] = x[i * x_stride + j];
}
