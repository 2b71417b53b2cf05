// Sums of several residual streams, dot products, and rescaling of rows.
//
//     mix:       out[row, first + j] = factor * sum over k of by[row, j, k] * x[row, k], or out += that
//     mix_by_score: out = sum over k of softmax(x[k] . by / sqrt(mean(x[k]^2) + eps)) x[k]
//     sinkhorn:  x = softmax(x) + eps; columns, then alternately rows and columns, divided by their sums; transposed
//     dot:       out[head] = x[head] . y[head]
//     rescale:   x *= sqrt(mean(like^2) / max(mean(x^2), 1e-5)), or x = max(x - mean - deviations * sqrt(var), 0)
//
// Sums have a fixed order. Shapes: see `MixArgs`, `MixByScoreArgs`, `SinkhornArgs`, `DotArgs`, `RescaleArgs`. Grid:
// `mix` (rows, parts of a row); `dot` (heads, rows), one warp per head; `rescale` one block per part of a row; the
// others one block per row.
#include "common.cuh"

KERNEL(mix, MixArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u64 row = blockIdx.x;
    const float* x = a.x + row * a.from * a.width;
    const float* by = a.by ? a.by + row * a.from * a.to : nullptr;
    float* out = a.out + row * a.out_width + a.first;
    for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < a.to * a.width; i += gridDim.y * blockDim.x) {
        const u32 j = i / a.width, at = i % a.width;
        float sum = a.adds ? out[i] : 0.f;
        for (u32 k = 0; k < a.from; k++) sum = fmaf(by ? by[j * a.from + k] : 1.f, x[(u64)k * a.width + at], sum);
        out[i] = a.factor * sum;
    }
}

KERNEL(mix_by_score, MixByScoreArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const float* x = a.x + (u64)blockIdx.x * a.streams * a.width;
    float* out = a.out + (u64)blockIdx.x * a.width;
    // Online softmax over the streams: the sum so far is relative to the largest score so far.
    float peak = kNegativeInfinity, sum = 0.f;
    for (u32 k = 0; k < a.streams; k++, x += a.width) {
        float sums[2] = {0.f, 0.f};
        for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) {
            sums[0] = fmaf(x[i], x[i], sums[0]);
            sums[1] = fmaf(x[i], a.by[i], sums[1]);
        }
        block_sums(sums, (float*)shared);
        const float score = sums[1] / sqrtf(sums[0] / (float)a.width + a.eps), most = fmaxf(peak, score);
        const float before = expf(peak - most), weight = expf(score - most);
        for (u32 i = threadIdx.x; i < a.width; i += blockDim.x)
            out[i] = k == 0 ? x[i] : fmaf(weight, x[i], before * out[i]);
        peak = most, sum = fmaf(sum, before, weight);
    }
    for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) out[i] /= sum;
}

// One thread per element of the matrix.
KERNEL(sinkhorn, SinkhornArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    float* values = (float*)shared;
    const u32 n = a.size, at = threadIdx.x < n * n ? threadIdx.x : 0, row = at / n, column = at % n;
    float* x = a.x + (u64)blockIdx.x * n * n;
    float v = x[at];
    auto share = [&] {
        sync_block();
        values[threadIdx.x] = v;
        sync_block();
    };
    auto sum_of = [&](u32 first, u32 stride) {
        share();
        float sum = 0.f;
        for (u32 i = 0; i < n; i++) sum += values[first + i * stride];
        return sum;
    };
    share();
    float peak = kNegativeInfinity;
    for (u32 i = 0; i < n; i++) peak = fmaxf(peak, values[row * n + i]);
    v = expf(v - peak);
    v = v / sum_of(row * n, 1) + a.eps;
    for (u32 round = 0; round < a.rounds; round++) {
        if (round > 0) v /= sum_of(row * n, 1) + a.eps;
        v /= sum_of(column, n) + a.eps;
    }
    if (threadIdx.x < n * n) x[column * n + row] = v;
}

KERNEL(dot, DotArgs, 128, 1) {
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, head = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    if (head >= a.heads) return;
    const u64 first = ((u64)blockIdx.y * a.heads + head) * a.dim;
    float sum = 0.f;
    for (u32 i = lane; i < a.dim; i += kWarp) sum = fmaf(a.x[first + i], a.y[first + i], sum);
    sum = warp_sum(sum);
    if (lane == 0) a.out[(u64)blockIdx.y * a.heads + head] = sum;
}

KERNEL(rescale, RescaleArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    float* x = a.x + (u64)blockIdx.x * a.width;
    if (a.like) {
        const float* like = a.like + (u64)(blockIdx.x / a.parts) * a.width;
        float squares[2] = {0.f, 0.f};
        for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) {
            squares[0] = fmaf(x[i], x[i], squares[0]);
            squares[1] = fmaf(like[i], like[i], squares[1]);
        }
        block_sums(squares, (float*)shared);
        const float factor = sqrtf(squares[1] / (float)a.width / fmaxf(squares[0] / (float)a.width, 1e-5f));
        for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) x[i] *= factor;
        return;
    }
    float sum = 0.f, squares = 0.f;
    for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) sum += x[i];
    const float mean = block_sum(sum, (float*)shared) / (float)a.width;
    for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    const float least = a.deviations * sqrtf(block_sum(squares, (float*)shared) / (float)a.width);
    for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) x[i] = within(x[i] - mean - least, 0.f, -kNegativeInfinity);
}
