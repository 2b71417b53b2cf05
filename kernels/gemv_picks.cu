// GEMV of the last matrices of a token's experts, and the sum of their products.
//
//     prepare the input: the rows of the token's picks, one after another, each times its weight
//     each warp, for its chunks of 32 units: part = chunk of a row of the picks' matrices, one after another, * input
//     out = sum of the parts of a row + sum over the picks of weight * bias; or out += scale * that
//
// Bound by the bandwidth of reading weights.
//
// Optimizations:
//  1. Rows of experts are short. A row of the result has one row of each pick, and their units fill all lanes. A warp
//     loads several chunks at a time, of different rows.
//  2. A block computes consecutive rows, and its warps divide their chunks, so that few rows also fill the device.
//  3. The first weights of a warp are prefetched before the input is prepared.
//
// Invariants: results are batch-invariant; chunks depend on the number of columns alone, and their parts are added in
// order.
//
// Shapes: see `SumPicksArgs`. Shared memory: the input, then the place of each of its units, then kPickParts parts.
// Grid: (tokens, blocks that divide the rows).
#include "gemv.cuh"

typedef RowLoader<kGemvThreads, 3> PickInputs;
constexpr u32 kPickWarps = kGemvThreads / kWarp;

// The place of a unit of the input in the stack of matrices, for row 0 of the result.
struct PickUnit {
    u32 row;
    u32 unit;
};

// Loads the columns of all picks, each of which has `cols` columns with padding, times their factors.
DEVICE void load_picks(const SumPicksArgs& a, PickInputs& to, u32 first, const float* x, const u32* experts,
                       const float* weights) {
    const u32 cols = a.w.cols;
    float factors[PickInputs::kGroups];
    UNROLL for (u32 i = 0; i < PickInputs::kGroups; i++) {
        const u32 column = PickInputs::column(first, i), pick = column / cols, col = column % cols;
        const bool inside = pick < a.n_used;
        factors[i] = inside && weights ? weights[pick] : 1.f;
        if (inside && a.factors) factors[i] *= a.factors[experts[pick]];
        UNROLL for (u32 half = 0; half < 2; half++) {
            float4 four = {0.f, 0.f, 0.f, 0.f};
            if (inside && col + 4 * half < a.cols) four = load<float4>(x + (u64)pick * a.x_stride + col + 4 * half);
            float* v = to.of[i].v + 4 * half;
            v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        }
    }
    UNROLL for (u32 i = 0; i < PickInputs::kGroups; i++) UNROLL for (u32 j = 0; j < 8; j++) to.of[i].v[j] *= factors[i];
}

template <class T> DEVICE void sum_picks(const SumPicksArgs& a, u8* shared) {
    constexpr u32 kTrip = trip<T, 1, 1>();
    let_next_start();
    wait_for_previous();
    const u32 token = blockIdx.x, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const u32* experts = a.experts + (u64)token * a.n_used;
    const float* weights = a.weights ? a.weights + (u64)token * a.n_used : nullptr;
    // Rows of padding have no picks.
    if (experts[0] == kNoExpert) return;
    const u32 units = a.w.cols / T::kValues, all = a.n_used * units, chunks = ceil_div(all, kWarp);
    const u32 begin = (u32)((u64)a.w.rows * blockIdx.y / gridDim.y);
    const u32 end = (u32)((u64)a.w.rows * (blockIdx.y + 1) / gridDim.y);
    auto place = [&](u32 unit) -> PickUnit {
        const u32 pick = unit / units;
        return {experts[pick] * a.w.rows, unit - pick * units};
    };
    UNROLL for (u32 t = 0; t < kTrip; t++) {
        const u32 item = warp + t * kPickWarps, row = begin + item / chunks, unit = item % chunks * kWarp + lane;
        if (row >= end || unit >= all) continue;
        const PickUnit p = place(unit);
        prefetch_ahead<T>(a.w, p.row + row, p.unit * T::kValues / 32);
    }

    const u32 columns = a.n_used * a.w.cols, padded = ceil_div(columns, kInputStep) * kInputStep;
    constexpr u32 kForms = T::kFloat ? 1 : 2;
    float* values = (float*)shared;
    Group* groups = (Group*)(values + (T::kFloat ? padded : 0));
    i8* quants = (i8*)(groups + (T::kFloat ? 0 : padded / 32));
    PickUnit* places = (PickUnit*)(quants + (T::kFloat ? 0 : padded));
    float* parts = (float*)(places + all);
    const Input input = {values, quants, groups};
    for (u32 unit = threadIdx.x; unit < all; unit += kGemvThreads) places[unit] = place(unit);
    UNROLL_BY(1) for (u32 first = 0; first < padded; first += PickInputs::kSpan) {
        PickInputs x;
        load_picks(a, x, first, a.x + (u64)token * a.n_used * a.x_stride, experts, weights);
        put_all(x, first, padded, kForms, input);
    }

    // Each thread finishes one row at most.
    const u32 at_once = min_u32(max_u32(kPickParts / chunks, 1), kGemvThreads);
    UNROLL_BY(1) for (u32 row0 = begin; row0 < end; row0 += at_once) {
        const u32 rows = min_u32(at_once, end - row0), items = rows * chunks, own = row0 + threadIdx.x;
        float* const out = a.out + (u64)token * a.w.rows + own;
        float before = 0.f, sum = 0.f;
        if (threadIdx.x < rows) {
            if (a.accumulate) before = *out;
            if (a.biases) for (u32 i = 0; i < a.n_used; i++)
                sum = fmaf(weights ? weights[i] : 1.f, a.biases[(u64)experts[i] * a.w.rows + own], sum);
        }
        // The input is complete, and the parts of the rows before have been added.
        sync_block();
        UNROLL_BY(1) for (u32 first = warp; first < items; first += kTrip * kPickWarps) {
            // Chunks and units after the end are those of the last ones, so that no load depends on a branch.
            typename T::Raw raw[kTrip];
            UNROLL for (u32 t = 0; t < kTrip; t++) {
                const u32 item = min_u32(first + t * kPickWarps, items - 1), row = row0 + item / chunks;
                const PickUnit p = places[min_u32(item % chunks * kWarp + lane, all - 1)];
                raw[t] = T::load(a.w, p.row + row, p.unit, 0);
            }
            UNROLL for (u32 t = 0; t < kTrip; t++) {
                const u32 item = first + t * kPickWarps, unit = item % chunks * kWarp + lane;
                if (item >= items) break;
                const float part = warp_sum(unit < all ? T::dot(raw[t], input, unit, 0, 0.f) : 0.f);
                if (lane == 0) parts[item] = part;
            }
        }
        sync_block();
        if (threadIdx.x >= rows) continue;
        for (u32 i = 0; i < chunks; i++) sum += parts[threadIdx.x * chunks + i];
        *out = a.accumulate ? fmaf(a.scale, sum, before) : sum;
    }
}

#define SUM_PICKS(T, name)                                     \
    KERNEL(sum_picks_##name, SumPicksArgs, kGemvThreads, 2) { \
        DYNAMIC_SHARED(shared);                                \
        sum_picks<T>(a, shared);                               \
    }
EACH_PLAIN_TYPE(SUM_PICKS)
EACH_BLOCK_TYPE(SUM_PICKS)
