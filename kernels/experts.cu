// Mixture of experts: routes tokens, sorts picks, applies the gate, sums the results. A pick is one selected expert of
// a token. The matrix products are in `gemv.cu`, `small_batch.cu`, `gemm.cu` and `wgmma.cu`.
//
//     route:       weight = softmax, sigmoid or root of a score, or softmax over scores near it; keep the best groups;
//                  n_used times: the best expert left, or the next of the token's id; scale the weights, divided by
//                  their sum where asked
//     group:       counting sort of the picks by expert, stable
//     order_inputs: out = the input of each pick in the order of its expert
//     expert_glu:  gate = activation(gate * factor + bias) * (up * factor + bias)
//     combine:     out = sum over the picks of a token of weight * (part * factor + bias), in the order of the choice
//
// Optimizations:
//  1. `route` has one warp per token, and scores in shared memory.
//  2. `group` has one block per expert. Each thread counts consecutive picks, so that one pass after the counts writes
//     them in order without atomics.
//
// Invariants: among equal experts the lower number comes first. Any scores, including NaN, select `n_used` different
// experts.
//
// Shapes: see `RouteArgs`, `GroupArgs`, `OrderArgs`, `ExpertGluArgs`, `CombineArgs`.
#include "router.cuh"

// Selects the experts of a token, one warp per token.
KERNEL(route, RouteArgs, 32, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const Selection selection = selection_in(a, shared);
    rate(a, blockIdx.x, selection);
    select(a, blockIdx.x, selection);
    store_selection(a, blockIdx.x, selection);
}

// Sorts picks, one block per expert. `kNoExpert` is larger than any expert, so its picks are omitted. Each thread takes
// consecutive picks, so that the order is stable.
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

// out = inputs of selected experts, each in the column order of its matrix.
KERNEL(order_inputs, OrderArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (u64)gridDim.x * blockDim.x) {
        const u32 pick = (u32)(i / a.width), col = (u32)(i % a.width), expert = a.experts[pick];
        if (expert == kNoExpert) continue;
        const u32 from = a.order ? (u32)a.order[(u64)expert * a.width + col] : col;
        a.out[i] = a.x[(u64)(pick / a.divisor) * a.x_stride + from];
    }
}

// gate = activation(gate) * up of selected experts, after each product's factors and bias.
KERNEL(expert_glu, ExpertGluArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (u64)gridDim.x * blockDim.x) {
        const u32 pick = (u32)(i / a.ffn), col = (u32)(i % a.ffn), expert = a.experts[pick];
        if (expert == kNoExpert) continue;
        const u64 at = (u64)pick * a.stride + col;
        auto product = [&](float y, u32 which) {
            if (a.weights) y *= a.weights[pick];
            if (a.factors[which]) y *= a.factors[which][expert];
            return a.biases[which] ? y + a.biases[which][(u64)expert * a.ffn + col] : y;
        };
        const float up = a.up ? product(a.up[at], 1) : no_up(a.activation);
        a.gate[at] = any_gated(product(a.gate[at], 0), up, a.activation, a.limit, a.up_limit);
    }
}

// out = sum of weight * (factor * part + bias), in the order of selection; or out += scale * sum.
KERNEL(combine, CombineArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u64 token = blockIdx.y;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.width) return;
    float sum = 0.f;
    for (u32 e = 0; e < a.n_used; e++) {
        const u64 pick = token * a.n_used + e;
        const u32 expert = a.experts[pick];
        if (expert == kNoExpert) return;
        float part = a.parts[pick * a.width + i];
        if (a.factors) part *= a.factors[expert];
        if (a.biases) part += a.biases[(u64)expert * a.width + i];
        sum += (a.weights ? a.weights[pick] : 1.f) * part;
    }
    float& out = a.out[token * a.width + i];
    out = a.accumulate ? fmaf(a.scale, sum, out) : sum;
}
