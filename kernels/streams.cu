// Sums of several residual streams, and rows that are measured by themselves or by another.
//
//     mix:      out[row, first + j] = factor * sum over k of by[row, j, k] * x[row, k], or out += that
//     rescale:  x *= sqrt(mean(like^2) / max(mean(x^2), 1e-5)), or x = max(x - mean - deviations * sqrt(var), 0)
//
// Sums have one order. Shapes: those of `MixArgs`, `RescaleArgs`. Grid: `mix` (rows, shares of a row), `rescale` a
// block for each part of a row.
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
    for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) x[i] = fmaxf(x[i] - mean - least, 0.f);
}
