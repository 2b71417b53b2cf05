// Chooses the experts of a token by their scores, and computes their weights, one token per workgroup. `Routing` in
// src/graph/op.rs has the formulas.
struct P {
    scores: u32, scores_row: u32, experts: u32, used: u32, picks: u32, weights: u32, score: u32, bias: u32, groups: u32,
    groups_used: u32, renormalize: u32, scale: f32, sharing: u32, by_id: u32, ids: u32, zero: u32
}
var<immediate> p: P;

const SOFTMAX = 0u;
const SOFTMAX_OF_CHOSEN = 1u;
const SIGMOID = 2u;
const SPARSE_MIXER = 4u;
const LOW = -3.4e38;

var<workgroup> weight_of: array<f32, 1024>;
// The numbers by which experts are chosen; LOW for experts that must not be chosen.
var<workgroup> rank_of: array<f32, 1024>;
var<workgroup> group_of: array<f32, 64>;
var<workgroup> best: array<f32, 64>;
var<workgroup> places: array<u32, 64>;
var<workgroup> is_wrong: atomic<u32>;

// The index of the largest number of `rank_of`; the lowest index among equal numbers.
fn first_of(l: u32) -> u32 {
    var at = NONE;
    var most = LOW;
    for (var e = l; e < p.experts; e += 64u) {
        if (rank_of[e] > most) {
            most = rank_of[e];
            at = e;
        }
    }
    best[l] = most;
    places[l] = at;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) {
            let other = l + step;
            if (best[other] > best[l] || (best[other] == best[l] && places[other] < places[l])) {
                best[l] = best[other];
                places[l] = places[other];
            }
        }
        workgroupBarrier();
    }
    let found = min(places[0], p.experts - 1u);
    workgroupBarrier();
    return found;
}

fn sum_all(l: u32, mine: f32) -> f32 {
    best[l] = mine;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) { best[l] += best[l + step]; }
        workgroupBarrier();
    }
    let total = best[0];
    workgroupBarrier();
    return total;
}

// The softmax weight of expert `e` among itself and the experts with lower scores, at most 2 % below its score.
fn sparse_mixer(scores: u32, e: u32) -> f32 {
    let own = value(scores + e);
    var sum = 0.0;
    for (var other = 0u; other < p.experts; other++) {
        let s = value(scores + other);
        let size = max(abs(s), own);
        let is_left = s < own || (s == own && other >= e);
        if (is_left && !(own - s > 0.02 * size)) { sum += exp_of(s - own); }
    }
    return 1.0 / sum;
}

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let scores = p.scores + wg.x * p.scores_row;
    let picks = p.picks + wg.x * p.used;
    let weights_at = p.weights + wg.x * p.used;
    if (l == 0u) { atomicStore(&is_wrong, 0u); }
    workgroupBarrier();
    for (var e = l; e < p.experts; e += 64u) {
        let score = value(scores + e);
        if (is_nan(score)) { atomicStore(&is_wrong, 1u); }
        rank_of[e] = select(max(score, -3.3e38), 0.0, is_nan(score));
    }
    workgroupBarrier();
    let wrong = atomicLoad(&is_wrong) != 0u;
    let peak = value(scores + first_of(l));
    var sum = 1.0;
    if (p.score == SOFTMAX) {
        var mine = 0.0;
        for (var e = l; e < p.experts; e += 64u) { mine += exp_of(value(scores + e) - peak); }
        sum = sum_all(l, mine);
    } else if (p.score == SOFTMAX_OF_CHOSEN) {
        sum = 0.0;
        for (var i = 0u; i < p.used; i++) {
            let e = first_of(l);
            sum += exp_of(value(scores + e) - peak);
            if (l == 0u) { rank_of[e] = LOW; }
            workgroupBarrier();
        }
    }
    for (var e = l; e < p.experts; e += 64u) {
        let score = value(scores + e);
        var w = 0.0;
        if (p.score == SIGMOID) {
            w = sigmoid(score);
        } else if (p.score == SPARSE_MIXER) {
            w = sparse_mixer(scores, e);
        } else if (p.score == SOFTMAX || p.score == SOFTMAX_OF_CHOSEN) {
            w = exp_of(score - peak) / sum;
        } else {
            w = sqrt(softplus(score));
        }
        weight_of[e] = w;
        var rank = max(score, -3.3e38);
        if (p.bias != NONE) { rank = w + vectors[p.bias + e]; } else if (p.groups > 1u) { rank = w; }
        rank_of[e] = select(rank, 0.0, wrong);
    }
    workgroupBarrier();
    if (p.groups > 1u) {
        let size = p.experts / p.groups;
        if (l < p.groups) {
            var first = LOW;
            var second = LOW;
            for (var i = 0u; i < size; i++) {
                let v = rank_of[l * size + i];
                if (v > first) {
                    second = first;
                    first = v;
                } else {
                    second = max(second, v);
                }
            }
            group_of[l] = select(first + second, first, size == 1u);
        }
        workgroupBarrier();
        if (l < p.groups) {
            // Number of groups that rank before this one.
            var ahead = 0u;
            for (var g = 0u; g < p.groups; g++) {
                if (group_of[g] > group_of[l] || (group_of[g] == group_of[l] && g < l)) { ahead++; }
            }
            if (ahead >= p.groups_used) {
                for (var i = 0u; i < size; i++) { rank_of[l * size + i] = LOW; }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < p.used; i++) {
        var e = first_of(l);
        if (p.by_id != NONE) { e = u32(vectors[p.by_id + inputs[p.ids + wg.x] * p.used + i]); }
        if (l == 0u) {
            set_word(picks + i, e / p.sharing);
            set_value(weights_at + i, weight_of[e]);
            rank_of[e] = LOW;
        }
        workgroupBarrier();
    }
    if (l == 0u) {
        var factor = p.scale;
        if (p.renormalize != 0u) {
            var total = 0.0;
            for (var i = 0u; i < p.used; i++) { total += value(weights_at + i); }
            // The divisor is at least the smallest normal binary16 number.
            factor /= max(total, 6.1035156e-5);
        }
        for (var i = 0u; i < p.used; i++) {
            let w = value(weights_at + i) * factor;
            set_value(weights_at + i, select(w, nan(), wrong));
        }
    }
}
