// Sampling of a token for each row of logits.
//
//     adjust:  logits += biases; penalties for recent tokens
//     argmax:  the largest allowed logit; ends sampling if there is no draw
//     weigh:   draws by ids: weights = exp((logit - peak) / temperature) in fixed point; the first token at which the
//              sum of weights exceeds random * total
//              draws by rank: bins of logits with counts and weights; the bin that top_k or top_p ends in
//     keep:    draws by rank: the tokens up to that bin, sorted; cut by top_k, then top_p; a draw among the rest
//
// Optimizations:
//  1. Weights are integers in a fixed unit, so that sums over threads and blocks, by atomics, are deterministic.
//  2. Bins of logits leave few tokens to sort. If more than `kListed` remain, a search over the bytes of the rank finds
//     the cut without a list.
//  3. The last block of a row finishes `argmax`, `weigh` and `keep`, so that their results need no further launch.
//
// Invariants: samples the same token as src/sampling from the same logits: the same operations, each rounded
// individually. The lowest index wins a tie. If a logit is NaN, or infinite before biases and penalties, the result is
// `kNotANumber` instead of a token.
//
// Shapes: see `ChooseArgs`. Grid: (blocks that share a row, rows).
#include "common.cuh"

constexpr float kBinsPerUnit = 16.f;

struct Best {
    float value;
    u32 where;
};
// The better of two; NaN is better than all numbers.
DEVICE Best better(Best a, Best b) {
    return b.value > a.value || b.value != b.value || (b.value == a.value && b.where < a.where) ? b : a;
}

// The best of the block; valid in thread 0.
DEVICE Best block_best(Best best, float* values, u32* wheres) {
    UNROLL for (u32 lanes = 16; lanes > 0; lanes /= 2)
        best = better(best, {shuffle_xor(best.value, lanes), shuffle_xor(best.where, lanes)});
    const u32 warp = threadIdx.x / kWarp;
    sync_block();
    if (threadIdx.x % kWarp == 0) values[warp] = best.value, wheres[warp] = best.where;
    sync_block();
    if (threadIdx.x == 0)
        for (u32 w = 1; w < blockDim.x / kWarp; w++) best = better(best, {values[w], wheres[w]});
    return best;
}

// Stores the token of a row, and prepares the row for the next step. Must be called by one thread, when no other thread
// reads the rule's state.
DEVICE void finish(const ChooseArgs& a, u32 row, u32 token, bool drawn) {
    const DeviceRule& rule = a.rules[row];
    RuleState& state = a.states[row];
    a.sampled[(u64)state.slot * a.stride + row] = token;
    a.tokens[row] = token == kNotANumber ? kChosenBefore : token;
    state.slot = state.slot + 1 < a.slots ? state.slot + 1 : 0;
    if (drawn) state.random += 0x9E3779B97F4A7C15ull;
    if (rule.window) {
        rule.recent[state.next] = token;
        state.next = state.next + 1 < rule.window ? state.next + 1 : 0;
        state.n_recent = min_u32(state.n_recent + 1, rule.window);
    }
    a.ids[row] = kChosenBefore, a.positions[row]++;
}

// ---- biases and penalties

// Modifies logits in place, one block per row.
KERNEL(adjust, ChooseArgs, kSampleThreads, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u32 row = blockIdx.x;
    const DeviceRule& rule = a.rules[row];
    const u32 biases = rule.n_biases, n = biases + (rule.window ? a.states[row].n_recent : 0);
    u32* ids = (u32*)shared;
    float* values = (float*)shared + n;
    for (u32 i = threadIdx.x; i < n; i += kSampleThreads) {
        ids[i] = i < biases ? rule.biases[i].id : rule.recent[i - biases];
        values[i] = i < biases ? rule.biases[i].value : 0.f;
    }
    sync_block();
    // The thread of a token's first entry applies all entries of the token.
    for (u32 i = threadIdx.x; i < n; i += kSampleThreads) {
        const u32 id = ids[i];
        bool first = id < a.width;
        for (u32 j = 0; j < i && first; j++) first = ids[j] != id;
        if (!first) continue;
        float* logit = a.logits + (u64)row * a.width + id;
        float value = *logit;
        u32 count = 0;
        for (u32 j = i; j < n; j++) {
            if (ids[j] != id) continue;
            if (j < biases) value = rounded_add(value, values[j]);
            else count++;
        }
        if (count > 0) {
            if (rule.repeat > 0.f)
                value = value > 0.f ? rounded_div(value, rule.repeat) : rounded_mul(value, rule.repeat);
            value = rounded_add(value, -rounded_add(rule.presence, rounded_mul((float)count, rule.frequency)));
        }
        // A logit that becomes NaN by biases is never sampled.
        *logit = value == value || *logit != *logit ? value : kNegativeInfinity;
    }
}

// ---- the likeliest token

DEVICE bool is_allowed(const u32* allowed, u32 id) { return !allowed || (allowed[id / 32] >> (id % 32) & 1); }

KERNEL(argmax, ChooseArgs, kSampleThreads, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    float* values = (float*)shared;
    u32* wheres = (u32*)shared + kWarp;
    u32* flag = (u32*)shared + 2 * kWarp;
    const u32 row = blockIdx.y, blocks = gridDim.x;
    const u32 kind = a.rules[row].kind;
    const u32* allowed = a.rules[row].allowed;
    const float* x = a.logits + (u64)row * a.width;
    const Best none = {kNegativeInfinity, 0xffffffffu};
    const bool changed = a.rules[row].n_biases > 0 || a.rules[row].window > 0;

    Best best = none;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < a.width; i += blocks * blockDim.x)
        if (x[i] != x[i] || (x[i] == -kNegativeInfinity && !changed)) best = better(best, {kNan, i});
        else if (is_allowed(allowed, i)) best = better(best, {x[i], i});
    best = block_best(best, values, wheres);
    if (threadIdx.x == 0) {
        a.best[row * blocks + blockIdx.x] = best.value;
        a.at[row * blocks + blockIdx.x] = best.where;
    }
    if (!last_block(a.counters + row, blocks, flag)) return;
    best = none;
    for (u32 b = threadIdx.x; b < blocks; b += blockDim.x)
        best = better(best, {a.best[row * blocks + b], a.at[row * blocks + b]});
    best = block_best(best, values, wheres);
    Draw& draw = a.draws[row];
    if (kind == kByRank)
        for (u32 i = threadIdx.x; i < kBins; i += kSampleThreads) draw.sums[i] = 0, draw.counts[i] = 0;
    if (threadIdx.x > 0) return;
    const bool possible = best.value > kNegativeInfinity;
    const u32 failure = best.value != best.value ? kNotANumber : a.rules[row].none;
    draw.peak = possible ? fminf(best.value, 3.40282347e38f) : kNegativeInfinity;
    draw.listed = 0;
    if (kind == kLikeliest || !possible) finish(a, row, possible ? best.where : failure, false);
}

// ---- weights of tokens

// e^x for x <= 0, bit-identical to `exp` of src/sampling/arithmetic.rs.
DEVICE double exponential(double x) {
    constexpr double kInverseFactorials[14] = {
        1. / 6227020800., 1. / 479001600., 1. / 39916800., 1. / 3628800., 1. / 362880., 1. / 40320., 1. / 5040.,
        1. / 720., 1. / 120., 1. / 24., 1. / 6., 1. / 2., 1., 1.};
    constexpr double kShift = 6755399441055744.;
    x = x > -700. ? x : -700.;
    const double shifted = rounded_add(rounded_mul(x, 1.4426950408889634), kShift), k = rounded_add(shifted, -kShift);
    const double high = bits_to_double(0x3FE62E42FEE00000ull), low = bits_to_double(0x3DEA39EF35793C76ull);
    const double r = rounded_add(rounded_add(x, -rounded_mul(k, high)), -rounded_mul(k, low));
    double power = 0.;
    UNROLL for (u32 i = 0; i < 14; i++) power = rounded_add(rounded_mul(power, r), kInverseFactorials[i]);
    return bits_to_double(double_to_bits(power) + (double_to_bits(shifted) << 52));
}
DEVICE u64 fixed(double x, double unit) {
    constexpr double kShift = 4503599627370496.;
    return double_to_bits(rounded_add(rounded_mul(x, unit), kShift)) - double_to_bits(kShift);
}

// The random number after a state of SplitMix64.
DEVICE u64 random_after(u64 state) {
    u64 z = state + 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

// A row of logits from which a token is drawn.
struct Row {
    const float* logits;
    const u32* allowed;
    double peak;
    double inverse;
    double min_p;
    double unit;

    // The logit of a token; negative infinity if the token cannot be sampled.
    DEVICE_MEMBER float logit(u32 id) const {
        const float x = logits[id];
        return x > kNegativeInfinity && is_allowed(allowed, id) ? fminf(x, 3.40282347e38f) : kNegativeInfinity;
    }
    // Probability relative to the most likely token.
    DEVICE_MEMBER double share(float logit) const { return exponential(rounded_add((double)logit, -peak)); }
    DEVICE_MEMBER u64 plain(float logit) const { return fixed(share(logit), unit); }
    // Weight at the temperature; 0 for tokens dropped by min_p.
    DEVICE_MEMBER u64 weight(float logit) const {
        if (min_p > 0. && !(share(logit) >= min_p)) return 0;
        return fixed(exponential(rounded_mul(rounded_add((double)logit, -peak), inverse)), unit);
    }
};
DEVICE Row row_of(const ChooseArgs& a, u32 row) {
    const DeviceRule& rule = a.rules[row];
    return {a.logits + (u64)row * a.width,
            rule.allowed,
            (double)a.draws[row].peak,
            rule.inverse,
            (double)rule.min_p,
            a.unit};
}

// Returns the sum over all preceding threads. Until the next barrier, sums[kSampleThreads - 1] is the sum over all
// threads.
DEVICE u64 sum_before(u64 v, u64* sums) {
    sync_block();
    sums[threadIdx.x] = v;
    sync_block();
    for (u32 step = 1; step < kSampleThreads; step *= 2) {
        const u64 other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        sync_block();
        sums[threadIdx.x] += other;
        sync_block();
    }
    return sums[threadIdx.x] - v;
}

// `share` times a sum, rounded up to an integer.
DEVICE u64 ceil_share(float share, u64 sum) {
    const double x = rounded_mul((double)share, (double)sum);
    const u64 whole = (u64)x;
    return whole + ((double)whole < x ? 1 : 0);
}

// ---- draws in the order of ids

// Draws a token with all blocks of a row, each of which has a span of tokens.
DEVICE void draw_in_order(const ChooseArgs& a, u8* shared) {
    const u32 id = blockIdx.y, blocks = gridDim.x, span = ceil_div(a.width, blocks);
    const Row row = row_of(a, id);
    Draw& draw = a.draws[id];
    u64* sums = (u64*)shared;
    u64* left = sums + kSampleThreads;
    u32* place = (u32*)(left + 1);
    u64 sum = 0;
    const u32 end = min_u32(blockIdx.x * span + span, a.width);
    for (u32 i = blockIdx.x * span + threadIdx.x; i < end; i += kSampleThreads) {
        const float logit = row.logit(i);
        if (logit > kNegativeInfinity) sum += row.weight(logit);
    }
    sum_before(sum, sums);
    if (threadIdx.x == 0) draw.sums[blockIdx.x] = sums[kSampleThreads - 1];
    if (!last_block(a.counters + id, blocks, place)) return;
    // Finds the block whose span has the token, then the thread, then the token.
    sum = threadIdx.x < blocks ? draw.sums[threadIdx.x] : 0;
    u64 before = sum_before(sum, sums);
    const u64 drawn = mul_high(random_after(a.states[id].random), sums[kSampleThreads - 1]);
    if (before <= drawn && drawn < before + sum) *left = drawn - before, *place = threadIdx.x;
    sync_block();
    const u32 first = *place * span, last = min_u32(first + span, a.width), share = ceil_div(span, kSampleThreads);
    const u64 wanted = *left;
    const u32 from = min_u32(first + threadIdx.x * share, last), to = min_u32(from + share, last);
    sum = 0;
    for (u32 i = from; i < to; i++) {
        const float logit = row.logit(i);
        if (logit > kNegativeInfinity) sum += row.weight(logit);
    }
    before = sum_before(sum, sums);
    if (wanted < before || wanted >= before + sum) return;
    for (u32 i = from; i < to; i++) {
        const float logit = row.logit(i);
        before += logit > kNegativeInfinity ? row.weight(logit) : 0;
        if (wanted < before) return finish(a, id, i, true);
    }
}

// ---- top_k and top_p

DEVICE u32 bin_of(const Row& row, float logit) {
    const float x = rounded_mul(rounded_add((float)row.peak, -logit), kBinsPerUnit);
    return x < (float)(kBins - 1) ? (u32)x : kBins - 1;
}

// Counts and weighs tokens by bins with all blocks of a row, and finds the last bin that may contain tokens to keep.
DEVICE void weigh_bins(const ChooseArgs& a, u8* shared) {
    const u32 id = blockIdx.y;
    const Row row = row_of(a, id);
    const u32 top_k = a.rules[id].top_k;
    const float top_p = a.rules[id].top_p;
    Draw& draw = a.draws[id];
    u64* sums = (u64*)shared;
    u32* counts = (u32*)(sums + kBins);
    for (u32 i = threadIdx.x; i < kBins; i += kSampleThreads) sums[i] = 0, counts[i] = 0;
    sync_block();
    for (u32 i = blockIdx.x * kSampleThreads + threadIdx.x; i < a.width; i += gridDim.x * kSampleThreads) {
        const float logit = row.logit(i);
        if (!(logit > kNegativeInfinity)) continue;
        const u32 bin = bin_of(row, logit);
        add_to_shared(counts + bin, 1u);
        const u64 weight = top_p > 0.f ? row.plain(logit) : 0;
        if (weight > 0) add_to_shared(sums + bin, weight);
    }
    sync_block();
    for (u32 i = threadIdx.x; i < kBins; i += kSampleThreads) {
        if (counts[i] > 0) add_to(draw.counts + i, counts[i]);
        if (sums[i] > 0) add_to(draw.sums + i, sums[i]);
    }
    u32* place = counts + kBins;
    if (!last_block(a.counters + id, gridDim.x, place)) return;
    // Thread t has bins 2t and 2t + 1.
    const u32 bin = 2 * threadIdx.x;
    const u64 n[2] = {draw.counts[bin], draw.counts[bin + 1]}, weights[2] = {draw.sums[bin], draw.sums[bin + 1]};
    const u64 n_before = sum_before(n[0] + n[1], sums), candidates = sums[kSampleThreads - 1];
    const u64 weight_before = sum_before(weights[0] + weights[1], sums), total = sums[kSampleThreads - 1];
    // If both are set, top_p selects among the tokens that top_k keeps.
    const bool by_count = top_k > 0;
    const u64 wanted = by_count ? (top_k < candidates ? top_k : candidates) : ceil_share(top_p, total);
    u64 before = by_count ? n_before : weight_before, filled = n_before;
    UNROLL for (u32 i = 0; i < 2; i++) {
        const u64 more = by_count ? n[i] : weights[i];
        filled += n[i];
        if (before < wanted && wanted <= before + more)
            draw.limit = bin + i, draw.filled = (u32)filled, draw.total = total;
        before += more;
    }
    // If rounding leaves a remainder, all are kept.
    if (!by_count && wanted > total && threadIdx.x == 0)
        draw.limit = kBins - 1, draw.filled = (u32)candidates, draw.total = total;
}

KERNEL(weigh, ChooseArgs, kSampleThreads, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u32 kind = a.rules[blockIdx.y].kind;
    if (kind == kLikeliest || !(a.draws[blockIdx.y].peak > kNegativeInfinity)) return;
    if (kind == kInOrder) draw_in_order(a, shared);
    else weigh_bins(a, shared);
}

DEVICE float logit_of(u64 rank) {
    const u32 key = (u32)(rank >> 32);
    return bits_to_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

enum Measure : u32 { kCount, kPlain, kWeight };
DEVICE u64 measured(const Row& row, u64 rank, u32 measure) {
    return measure == kCount ? 1 : measure == kPlain ? row.plain(logit_of(rank)) : row.weight(logit_of(rank));
}

// Sorts `n` ranks in descending order; `n` must be a power of two.
DEVICE void sort(u64* ranks, u32 n) {
    for (u32 size = 2; size <= n; size *= 2) {
        for (u32 apart = size / 2; apart > 0; apart /= 2) {
            sync_block();
            for (u32 i = threadIdx.x; i < n / 2; i += kSampleThreads) {
                const u32 low = 2 * i - (i & (apart - 1)), high = low + apart;
                const u64 x = ranks[low], y = ranks[high];
                if ((x < y) == ((low & size) == 0)) ranks[low] = y, ranks[high] = x;
            }
        }
    }
    sync_block();
}

// Number of leading tokens of `n` sorted ones whose measure reaches `wanted`, or `n`; in every thread.
DEVICE u32 reach(const Row& row, const u64* ranks, u32 n, u32 measure, u64 wanted, u64* sums, u32* place) {
    const u32 share = ceil_div(n, kSampleThreads), from = min_u32(threadIdx.x * share, n),
              to = min_u32(from + share, n);
    u64 sum = 0;
    for (u32 i = from; i < to; i++) sum += measured(row, ranks[i], measure);
    u64 before = sum_before(sum, sums);
    if (threadIdx.x == 0 && wanted > sums[kSampleThreads - 1]) *place = n;
    if (before < wanted && wanted <= before + sum) {
        u32 i = from;
        while ((before += measured(row, ranks[i], measure)) < wanted) i++;
        *place = i + 1;
    }
    sync_block();
    return *place;
}

// Total measure of the first `n` sorted tokens.
DEVICE u64 sum_of(const Row& row, const u64* ranks, u32 n, u32 measure, u64* sums) {
    u64 sum = 0;
    for (u32 i = threadIdx.x; i < n; i += kSampleThreads) sum += measured(row, ranks[i], measure);
    sum_before(sum, sums);
    return sums[kSampleThreads - 1];
}

// Total measure of all tokens with a rank of at least `lowest`, without a list.
DEVICE u64 sum_from(const Row& row, u32 width, u64 lowest, u32 measure, u64* sums) {
    u64 sum = 0;
    for (u32 i = threadIdx.x; i < width; i += kSampleThreads) {
        const float logit = row.logit(i);
        const u64 rank = rank_of(logit, i);
        if (logit > kNegativeInfinity && rank >= lowest) sum += measured(row, rank, measure);
    }
    sum_before(sum, sums);
    return sums[kSampleThreads - 1];
}

// The rank at which tokens in descending order reach the measure `wanted`; `lowest` if they never do. Found by bytes.
DEVICE u64 descend(const Row& row, u32 width, u64 lowest, u32 measure, u64 wanted, u64* sums, u64* bytes, u64* found) {
    u64 prefix = 0;
    for (i32 shift = 56; shift >= 0; shift -= 8) {
        bytes[threadIdx.x] = 0;
        sync_block();
        for (u32 i = threadIdx.x; i < width; i += kSampleThreads) {
            const float logit = row.logit(i);
            const u64 rank = rank_of(logit, i);
            if (!(logit > kNegativeInfinity) || rank < lowest || (shift < 56 && rank >> (shift + 8) != prefix))
                continue;
            add_to_shared(bytes + (u32)(rank >> shift & 255), measured(row, rank, measure));
        }
        sync_block();
        const u32 byte = 255 - threadIdx.x;
        const u64 sum = bytes[byte], before = sum_before(sum, sums);
        if (wanted > sums[kSampleThreads - 1]) return lowest;
        if (before < wanted && wanted <= before + sum) found[0] = prefix << 8 | byte, found[1] = wanted - before;
        sync_block();
        prefix = found[0], wanted = found[1];
    }
    return prefix;
}

// Draws among the tokens that top_k and top_p keep. All blocks of a row list candidates; the last block draws.
KERNEL(keep, ChooseArgs, kSampleThreads, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u32 id = blockIdx.y;
    const DeviceRule& rule = a.rules[id];
    Draw& draw = a.draws[id];
    if (rule.kind != kByRank || !(draw.peak > kNegativeInfinity)) return;
    const Row row = row_of(a, id);
    const u32 top_k = rule.top_k, limit = draw.limit, filled = draw.filled;
    const float top_p = rule.top_p;
    u64* ranks = (u64*)shared;
    u64* sums = ranks + kListed;
    u64* found = sums + kSampleThreads;
    u32* place = (u32*)(found + 2);
    if (filled <= kListed) {
        u32 n = 0;
        for (u32 i = blockIdx.x * kSampleThreads + threadIdx.x; i < a.width; i += gridDim.x * kSampleThreads) {
            const float logit = row.logit(i);
            n += logit > kNegativeInfinity && bin_of(row, logit) <= limit;
        }
        u32 at = (u32)sum_before(n, sums);
        if (threadIdx.x == 0) *place = atomic_add(&draw.listed, (u32)sums[kSampleThreads - 1]);
        sync_block();
        at += *place;
        for (u32 i = blockIdx.x * kSampleThreads + threadIdx.x; i < a.width && n > 0; i += gridDim.x * kSampleThreads) {
            const float logit = row.logit(i);
            if (logit > kNegativeInfinity && bin_of(row, logit) <= limit) draw.list[at++] = i;
        }
    }
    if (!last_block(a.counters + id, gridDim.x, place)) return;
    const u64 random = random_after(a.states[id].random);
    if (filled > kListed) {
        u64 lowest = top_k > 0 ? descend(row, a.width, 0, kCount, top_k, sums, ranks, found) : 0;
        if (top_p > 0.f) {
            const u64 wanted = ceil_share(top_p, top_k > 0 ? sum_from(row, a.width, lowest, kPlain, sums) : draw.total);
            lowest = descend(row, a.width, lowest, kPlain, wanted, sums, ranks, found);
        }
        const u64 drawn = mul_high(random, sum_from(row, a.width, lowest, kWeight, sums));
        const u64 chosen = descend(row, a.width, lowest, kWeight, drawn + 1, sums, ranks, found);
        if (threadIdx.x == 0) finish(a, id, id_of(chosen), true);
        return;
    }
    u32 padded = 2;
    while (padded < filled) padded *= 2;
    for (u32 i = threadIdx.x; i < padded; i += kSampleThreads) {
        const u32 token = i < filled ? draw.list[i] : 0;
        ranks[i] = i < filled ? rank_of(row.logit(token), token) : 0;
    }
    sort(ranks, padded);
    u32 n = top_k > 0 ? min_u32(filled, top_k) : filled;
    if (top_p > 0.f) {
        const u64 wanted = ceil_share(top_p, top_k > 0 ? sum_of(row, ranks, n, kPlain, sums) : draw.total);
        n = reach(row, ranks, n, kPlain, wanted, sums, place);
    }
    const u64 drawn = mul_high(random, sum_of(row, ranks, n, kWeight, sums));
    n = reach(row, ranks, n, kWeight, drawn + 1, sums, place);
    if (threadIdx.x == 0) finish(a, id, id_of(ranks[n - 1]), true);
}
