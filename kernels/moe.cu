// Mixture of experts: the choice of experts, the picks sorted by expert, and the weighted sum of the results.
#include "args.cuh"

// Chooses experts, one warp a token, in the order of their scores; of equal ones the lower number comes first.
KERNEL(route, RouteArgs, 32, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x, token = blockIdx.x;
    const float* scores = a.scores + (u64)token * a.n_experts;
    float* left = (float*)shared;
    float peak = kNegativeInfinity;
    for (u32 e = lane; e < a.n_experts; e += kWarp) {
        left[e] = scores[e];
        peak = fmaxf(peak, scores[e]);
    }
    peak = warp_max(peak);
    float all = 0.f;
    for (u32 e = lane; e < a.n_experts; e += kWarp) all += expf(scores[e] - peak);
    all = warp_sum(all);
    sync_warp();

    float chosen = 0.f;
    for (u32 i = 0; i < a.n_used; i++) {
        float best = kNegativeInfinity;
        u32 where = 0xffffffffu;
        for (u32 e = lane; e < a.n_experts; e += kWarp) {
            if (left[e] > best) best = left[e], where = e;
        }
        UNROLL for (u32 lanes = 16; lanes > 0; lanes /= 2) {
            const float other = shuffle_xor(best, lanes);
            const u32 there = shuffle_xor(where, lanes);
            if (other > best || (other == best && there < where)) best = other, where = there;
        }
        // NaN scores still choose an expert that exists.
        if (where >= a.n_experts) where = i;
        const float weight = expf(scores[where] - peak);
        chosen += weight;
        sync_warp();
        if (lane == 0) {
            left[where] = kNegativeInfinity;
            a.experts[token * a.n_used + i] = where;
            a.weights[token * a.n_used + i] = weight;
        }
        sync_warp();
    }
    // Softmax over all: e / all. Over the chosen: e / chosen, which is what making the former sum to 1 gives as well.
    const float sum = a.softmax_first && !a.renormalise ? all : chosen;
    for (u32 i = lane; i < a.n_used; i += kWarp) a.weights[token * a.n_used + i] /= sum;
}

// Sorts picks, one block an expert. A thread takes consecutive picks, so that those of all threads stay in order.
KERNEL(group, GroupArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    u32* counts = (u32*)shared;
    const u32 expert = blockIdx.x, thread = threadIdx.x, share = ceil_div(a.picks, blockDim.x);
    const u32 first = min_u32(thread * share, a.picks), end = min_u32(first + share, a.picks);
    u32 less = 0, equal = 0;
    for (u32 i = first; i < end; i++) {
        less += a.experts[i] < expert;
        equal += a.experts[i] == expert;
    }
    counts[thread] = less;
    counts[blockDim.x + thread] = equal;
    sync_block();
    u32 start = 0, before = 0, all = 0;
    for (u32 i = 0; i < blockDim.x; i++) {
        start += counts[i];
        const u32 n = counts[blockDim.x + i];
        all += n;
        if (i < thread) before += n;
    }
    u32 at = start + before;
    for (u32 i = first; i < end; i++)
        if (a.experts[i] == expert) a.order[at++] = i;
    if (thread == 0) {
        a.starts[expert] = start;
        if (expert == gridDim.x - 1) a.starts[expert + 1] = start + all;
    }
}

// out = sum of weight * part, in the order of the choice.
KERNEL(combine, CombineArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u64 token = blockIdx.y;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.width) return;
    float sum = 0.f;
    for (u32 e = 0; e < a.n_used; e++)
        sum += a.weights[token * a.n_used + e] * a.parts[(token * a.n_used + e) * a.width + i];
    a.out[token * a.width + i] = sum;
}
