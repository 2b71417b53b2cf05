// Selection of the experts of a token by its router scores, by one warp.
//
// The phases of a selection follow each other in the same warp: `rate`, `select`, and `store_selection` where the
// selection is needed in memory. `expert_at` is for all threads after a barrier.
#pragma once

#include "common.cuh"

constexpr float kLargest = 3.40282347e38f;

// The selection of one token, in shared memory: `route_shared` in `src/cuda/scratch.rs` counts the same.
struct Selection {
    float* left;      // [n_experts], scores of the selection; negative infinity: no longer selectable
    float* two_best;  // [groups]
    u32* chosen;      // [n_used], experts before `sharing`
    float* weights;   // [n_used]
};
DEVICE Selection selection_in(const RouteArgs& a, u8* shared) {
    float* left = (float*)shared;
    u32* chosen = (u32*)(left + a.n_experts + a.groups);
    return {left, left + a.n_experts, chosen, (float*)(chosen + a.n_used)};
}

DEVICE const float* scores_of(const RouteArgs& a, u32 token) { return a.scores + (u64)token * a.n_experts; }
DEVICE bool is_padding(const RouteArgs& a, u32 token) { return a.kvs && !a.kvs[a.slots[token]].capacity; }

// Weights of experts before normalization.
struct ExpertWeights {
    const float* scores;
    float peak;
    float all;  // sum of the softmax
    DEVICE_MEMBER float of(const RouteArgs& a, u32 e) const {
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
    }
};
DEVICE ExpertWeights expert_weights(const RouteArgs& a, u32 token) {
    ExpertWeights w = {scores_of(a, token), kNegativeInfinity, 1.f};
    const u32 lane = threadIdx.x % kWarp;
    for (u32 e = lane; e < a.n_experts; e += kWarp) w.peak = fmaxf(w.peak, w.scores[e]);
    w.peak = warp_max(w.peak);
    // Weights of `kSoftmaxOfChosen` are divided by their sum at the end.
    if (a.score == kSoftmax) {
        w.all = 0.f;
        for (u32 e = lane; e < a.n_experts; e += kWarp) w.all += expf(w.scores[e] - w.peak);
        w.all = warp_sum(w.all);
    }
    return w;
}

// Writes the scores of the selection.
DEVICE void rate(const RouteArgs& a, u32 token, const Selection& s) {
    if (a.by_id || is_padding(a, token)) return;
    const u32 lane = threadIdx.x % kWarp;
    const float* scores = scores_of(a, token);
    // Negative infinity marks experts that are no longer selectable; NaN and negative infinity scores come last. The
    // sum turns -0 into 0.
    auto put = [&](u32 e, float by) { s.left[e] = by > -kLargest ? by + 0.f : -kLargest; };
    // Scores have the same order as weights, and differ even if the weights round to the same number.
    if (!a.bias && a.groups == 1) {
        for (u32 e = lane; e < a.n_experts; e += kWarp) put(e, scores[e]);
        return;
    }
    const ExpertWeights weights = expert_weights(a, token);
    for (u32 e = lane; e < a.n_experts; e += kWarp) put(e, weights.of(a, e) + (a.bias ? a.bias[e] : 0.f));
    if (a.groups == 1) return;
    const u32 group_size = a.n_experts / a.groups;
    sync_warp();
    for (u32 g = lane; g < a.groups; g += kWarp) {
        float best = kNegativeInfinity, second = kNegativeInfinity;
        for (u32 i = 0; i < group_size; i++) {
            const float v = s.left[g * group_size + i];
            second = fmaxf(second, fminf(best, v));
            best = fmaxf(best, v);
        }
        s.two_best[g] = group_size > 1 ? best + second : best;
    }
    sync_warp();
    for (u32 g = lane; g < a.groups; g += kWarp) {
        u32 better = 0;
        for (u32 other = 0; other < a.groups; other++)
            better += s.two_best[other] > s.two_best[g] || (s.two_best[other] == s.two_best[g] && other < g);
        if (better < a.groups_used) continue;
        for (u32 i = 0; i < group_size; i++) s.left[g * group_size + i] = kNegativeInfinity;
    }
    sync_warp();
}

// Selects `n_used` experts, in descending order of the rated scores; among equals the lower number comes first.
DEVICE void select(const RouteArgs& a, u32 token, const Selection& s) {
    const u32 lane = threadIdx.x % kWarp;
    if (is_padding(a, token)) {
        for (u32 i = lane; i < a.n_used; i += kWarp) s.chosen[i] = kNoExpert;
    } else if (a.by_id) {
        u32 id = a.ids[token];
        if (id == kChosenBefore) id = a.following[token];
        // The id is still the marker if no token could be sampled; results of such rows are not used.
        if (id == kChosenBefore) id = 0;
        for (u32 i = lane; i < a.n_used; i += kWarp) s.chosen[i] = (u32)a.by_id[(u64)id * a.n_used + i];
    } else {
        for (u32 i = 0; i < a.n_used; i++) {
            // Each lane reads and marks every 32nd expert, so that lanes need not wait for each other.
            float best = kNegativeInfinity;
            u32 where = 0xffffffffu;
            for (u32 e = lane; e < a.n_experts; e += kWarp)
                if (s.left[e] > best) best = s.left[e], where = e;
            const u32 key = ordered_bits(best);
            where = warp_min(key == warp_max(key) ? where : 0xffffffffu);
            if (where % kWarp == lane) s.left[where] = kNegativeInfinity, s.chosen[i] = where;
        }
    }
    sync_warp();
}

// The matrices of the pick, or `kNoExpert`.
DEVICE u32 expert_at(const RouteArgs& a, const Selection& s, u32 pick) {
    return s.chosen[pick] == kNoExpert ? kNoExpert : s.chosen[pick] / a.sharing;
}

// Writes the selected experts and their weights to memory.
DEVICE void store_selection(const RouteArgs& a, u32 token, const Selection& s) {
    const u32 lane = threadIdx.x % kWarp;
    u32* experts = a.experts + (u64)token * a.n_used;
    float* to = a.weights + (u64)token * a.n_used;
    if (is_padding(a, token)) {
        for (u32 i = lane; i < a.n_used; i += kWarp) experts[i] = kNoExpert, to[i] = 0.f;
        return;
    }
    const ExpertWeights weights = expert_weights(a, token);
    // An expert with a NaN score may not be selected, and the results of the selected experts would hide the NaN.
    bool is_nan = false;
    for (u32 e = lane; e < a.n_experts; e += kWarp) is_nan |= weights.scores[e] != weights.scores[e];
    is_nan = warp_max(is_nan ? 1.f : 0.f) > 0.f;
    for (u32 i = lane; i < a.n_used; i += kWarp) s.weights[i] = is_nan ? kNan : weights.of(a, s.chosen[i]);
    sync_warp();
    float chosen = 0.f;
    for (u32 i = 0; i < a.n_used; i++) chosen += s.weights[i];
    // The divisor of renormalized weights is at least the smallest normal binary16 number.
    const float sum = a.score == kSoftmaxOfChosen ? chosen : a.renormalize ? fmaxf(chosen, 6.1035156e-5f) : 1.f;
    for (u32 i = lane; i < a.n_used; i += kWarp) {
        experts[i] = expert_at(a, s, i);
        to[i] = s.weights[i] / sum * a.scale;
    }
}
