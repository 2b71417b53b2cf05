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
#include "common.cuh"

constexpr float kLargest = 3.40282347e38f;

// Selects experts, one warp per token, in descending order of the selection score; among equals the lower number comes
// first.
KERNEL(route, RouteArgs, 32, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x, token = blockIdx.x, group_size = a.n_experts / a.groups;
    if (a.kvs && !a.kvs[a.slots[token]].capacity) {
        for (u32 i = lane; i < a.n_used; i += kWarp)
            a.experts[token * a.n_used + i] = kNoExpert, a.weights[token * a.n_used + i] = 0.f;
        return;
    }
    const float* scores = a.scores + (u64)token * a.n_experts;
    float* left = (float*)shared;
    float* two_best = left + a.n_experts;  // [groups]
    float peak = kNegativeInfinity;
    for (u32 e = lane; e < a.n_experts; e += kWarp) peak = fmaxf(peak, scores[e]);
    peak = warp_max(peak);
    float all = 1.f;
    if (a.score == kSoftmax) {
        all = 0.f;
        for (u32 e = lane; e < a.n_experts; e += kWarp) all += expf(scores[e] - peak);
        all = warp_sum(all);
    }
    // Weights of `kSoftmaxOfChosen` are divided by their sum at the end.
    auto weight_of = [&](u32 e) {
        if (a.score == kSparseMixer) {
            // Sums over the expert and the experts after it in the order of scores.
            float sum = 0.f;
            for (u32 other = 0; other < a.n_experts; other++) {
                const float s = scores[other], far = (scores[e] - s) / fmaxf(fabsf(s), scores[e]);
                const bool is_left = s < scores[e] || (s == scores[e] && other >= e);
                // `far` is NaN if all scores are 0; then the comparison is false.
                if (is_left && !(far > 0.02f)) sum += expf(s - scores[e]);
            }
            return 1.f / sum;
        }
        if (a.score == kRootOfSoftplus) return sqrtf(activate(scores[e], kSoftplus));
        return a.score == kSigmoidOfScore ? 1.f / (1.f + expf(-scores[e])) : expf(scores[e] - peak) / all;
    };
    // Scores have the same order as weights, and differ even if the weights round to the same number.
    const bool by_scores = !a.bias && a.groups == 1;
    bool is_nan = false;
    for (u32 e = lane; e < a.n_experts; e += kWarp) {
        is_nan |= scores[e] != scores[e];
        const float by = by_scores ? scores[e] : weight_of(e) + (a.bias ? a.bias[e] : 0.f);
        // Negative infinity marks experts that are no longer selectable; NaN and negative infinity scores come last.
        left[e] = by > -kLargest ? by : -kLargest;
    }
    // An expert with a NaN score may not be selected, and the results of the selected experts would hide the NaN.
    is_nan = warp_max(is_nan ? 1.f : 0.f) > 0.f;
    sync_warp();
    if (a.groups > 1) {
        for (u32 g = lane; g < a.groups; g += kWarp) {
            float best = kNegativeInfinity, second = kNegativeInfinity;
            for (u32 i = 0; i < group_size; i++) {
                const float v = left[g * group_size + i];
                second = fmaxf(second, fminf(best, v));
                best = fmaxf(best, v);
            }
            two_best[g] = group_size > 1 ? best + second : best;
        }
        sync_warp();
        for (u32 g = lane; g < a.groups; g += kWarp) {
            u32 better = 0;
            for (u32 other = 0; other < a.groups; other++)
                better += two_best[other] > two_best[g] || (two_best[other] == two_best[g] && other < g);
            if (better < a.groups_used) continue;
            for (u32 i = 0; i < group_size; i++) left[g * group_size + i] = kNegativeInfinity;
        }
        sync_warp();
    }

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
        if (a.by_id) {
            u32 id = a.ids[token];
            if (id == kChosenBefore) id = a.following[token];
            // The id is still the marker if no token could be sampled; results of such rows are not used.
            if (id == kChosenBefore) id = 0;
            where = (u32)a.by_id[(u64)id * a.n_used + i];
        }
        const float weight = is_nan ? kNan : weight_of(where);
        chosen += weight;
        sync_warp();
        if (lane == 0) {
            left[where] = kNegativeInfinity;
            a.experts[token * a.n_used + i] = where / a.sharing;
            a.weights[token * a.n_used + i] = weight;
        }
        sync_warp();
    }
    // The divisor of renormalized weights is at least the smallest normal binary16 number.
    const float sum = a.score == kSoftmaxOfChosen ? chosen : a.renormalize ? fmaxf(chosen, 6.1035156e-5f) : 1.f;
    for (u32 i = lane; i < a.n_used; i += kWarp) {
        float& weight = a.weights[token * a.n_used + i];
        weight = weight / sum * a.scale;
    }
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
