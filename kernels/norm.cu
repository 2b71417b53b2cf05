// Additions to the residual stream and norms that are not part of a product.
//
//     x += scale * delta;  out = norm(x)        or        x += scale * norm(delta)
//
// One block per group of values; sums have a fixed order. Shapes: see `NormArgs`.
#include "common.cuh"

// x += scale * delta; out = norm(x). Or x += scale * norm(delta).
KERNEL(add_norm, NormArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u64 first = (u64)blockIdx.x * a.group;
    // Not in y: a batch may have more groups than the second grid dimension allows.
    float* x = a.x + first;
    const u32 weights = blockIdx.x % a.own * a.group;
    if (a.of_delta) {
        const float* delta = a.delta + first;
        const Moments m = moments(delta, a.group, a.norm, (float*)shared);
        for (u32 i = threadIdx.x; i < a.group; i += blockDim.x)
            x[i] += a.scale * normalized(delta[i], weights + i, m, a.norm);
        return;
    }
    if (a.delta) {
        for (u32 i = threadIdx.x; i < a.group; i += blockDim.x) x[i] += a.scale * a.delta[first + i];
    }
    if (!a.out) return;
    const Moments m = moments(x, a.group, a.norm, (float*)shared);
    for (u32 i = threadIdx.x; i < a.group; i += blockDim.x) a.out[first + i] = normalized(x[i], weights + i, m, a.norm);
}
