// GEMV: one or two input rows; for types without blocks also up to 8 rows at a time.
//
//     prepare the input: h = norm(x), for block types quantized to signed bytes with a scale per 32 columns
//     each warp, for its rows: sums = row of the matrix (or the same row of gate and up) * h; out = epilogue(sums)
//
// Bound by the bandwidth of reading weights.
//
// Optimizations:
//  1. For one or two rows, every block prepares the input itself while its first weights are loaded, and the epilogue
//     is part of the kernel: no other launch reads or writes the activations.
//  2. For one row an SM has two blocks, although each prepares the whole input: with the warps of one block it would
//     stall on memory. The first weights of gates are prefetched before the wait for the previous launch; in launches
//     with fewer rows prefetching costs more than it saves.
//  3. A warp strides over the columns with 16-byte loads, several of them in flight. For a single row, the values to
//     which sums are added are read before the products.
//  4. Byte products use `dp4a`; zero points of quants are subtracted by the sums in `Group`.
//  5. More rows are prepared once, by `prepare`, and each weight is read once for all of them.
//  6. The blocks of experts select their expert themselves while they prepare the input, all of them in the same way,
//     so that no launch between the router and its experts does. The first block of a token stores the selection.
//
// Invariants: results are batch-invariant.
//
// Shapes: see `ProjectArgs`, `PrepareArgs`. Shared memory: scratch, then the input rows, then a `Selection`. Grid:
// (input rows, in ones, twos or eights; blocks that divide the rows of the matrices).
#include "gemv.cuh"
#include "router.cuh"

// A thread's loads before a wait.
typedef RowLoader<kGemvThreads, 3> Inputs;

// Prepares rows for kernels of several rows, one block per row; `simple` rows are prepared like single rows.
KERNEL(prepare, PrepareArgs, kGemvThreads, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    float* scratch = (float*)shared;
    const u64 row = blockIdx.x;
    const float* const x[1] = {a.x + row * a.cols};
    const Input to = {a.rows + row * a.padded, nullptr, nullptr};
    if (a.simple) {
        Inputs weights;
        load_weights(weights, 0, a.cols, a.norm);
        wait_for_previous();
        return prepare_rows<1>(x, a.cols, a.padded, a.norm, 1, weights, [&](u32) { return to; }, scratch);
    }
    wait_for_previous();
    const Moments m = moments(x[0], a.cols, a.norm, scratch);
    for (u32 col = Inputs::column(0, 0); col < a.padded; col += 8 * kGemvThreads) {
        Values8 e;
        UNROLL for (u32 i = 0; i < 8; i++)
            e.v[i] = col + i < a.cols ? normalized(x[0][col + i], col + i, m, a.norm) : 0.f;
        put(e, col, 1, to);
    }
}

// Adds the products of the units from `first + lane` on. `kTail`: true if they may end within the trip.
template <class T, u32 kCols, bool kTail, u32 kRows, class Row>
DEVICE void dot_units(const DeviceMatrix (&w)[kRows], const RowGroup<kRows>& p, u32 n, Row&& row, u32 first, u32 units,
                      u32 lane, float (&sums)[kCols][kRows]) {
    constexpr u32 kTrip = trip<T, kCols, kRows>();
    typename T::Raw raw[kTrip][kRows];
    UNROLL for (u32 u = 0; u < kTrip; u++) {
        const u32 unit = first + lane, ahead = u * kWarp;
        // Units after the end are read from the beginning instead, so that no load depends on a branch.
        const bool inside = !kTail || unit + ahead < units;
        UNROLL for (u32 r = 0; r < kRows; r++) {
            raw[u][r] =
                kTail ? T::load(w[r], p.rows[r], inside ? unit + ahead : 0, 0) : T::load(w[r], p.rows[r], unit, ahead);
        }
    }
    UNROLL for (u32 u = 0; u < kTrip; u++) {
        const u32 unit = first + lane, ahead = u * kWarp;
        if (kTail && unit + ahead >= units) continue;
        UNROLL for (u32 c = 0; c < kCols; c++) {
            if (c >= n) break;
            const Input x = row(c);
            UNROLL for (u32 r = 0; r < kRows; r++) sums[c][r] = T::dot(raw[u][r], x, unit, ahead, sums[c][r]);
        }
    }
}

// Computes products with `n` input rows from `y` on; `row(c)` returns row c. `with` calls a function with an object of
// a matrix's type.
template <u32 kCols, u32 kRows, class With, class Row>
DEVICE void products(const ProjectArgs& a, u32 expert, u32 y, u32 n, With&& with, Row&& row) {
    for (u32 g = blockIdx.y * (kGemvThreads / kWarp) + threadIdx.x / kWarp; g < a.row_groups; g += a.warps) {
        // Hidden, so that addresses that depend on `lane` are recomputed each iteration: they would occupy too many
        // registers.
        const u32 lane = unknown(threadIdx.x % kWarp);
        const RowGroup<kRows> p = row_group_at<kRows>(a, g, expert);
        // The value to which the sum of a single row is added is loaded during the product; for two rows it would
        // occupy registers.
        const u32 rows = a.segments[p.segments[0]].w.rows;
        const float before =
            kRows == 1 && lane < n ? addend(a, p.segments[0], p.rows[0] - expert * rows, y + lane) : 0.f;
        float sums[kCols][kRows] = {};
        with(a.segments[p.segments[0]].w.dtype, [&](auto type) {
            using T = decltype(type);
            DeviceMatrix w[kRows];
            UNROLL for (u32 r = 0; r < kRows; r++) w[r] = a.segments[p.segments[r]].w;
            const u32 units = a.segments[0].w.cols / T::kValues;
            constexpr u32 kTrip = kWarp * trip<T, kCols, kRows>();
            u32 first = 0;
            if (kCols <= 2 && kTrip > kWarp) {
                UNROLL_BY(1) for (; first + kTrip <= units; first += kTrip)
                    dot_units<T, kCols, false>(w, p, n, row, first, units, lane, sums);
            }
            UNROLL_BY(1) for (; first < units; first += kTrip)
                dot_units<T, kCols, true>(w, p, n, row, first, units, lane, sums);
        });
        // Every lane has all sums; each finishes one.
        float mine[kRows] = {};
        UNROLL for (u32 c = 0; c < kCols; c++) {
            if (c >= n) break;
            UNROLL for (u32 r = 0; r < kRows; r++) {
                const float sum = warp_sum(sums[c][r]);
                if (lane / kRows == c) mine[r] = sum;
            }
        }
        const u32 c = lane / kRows, r = lane % kRows;
        if (c >= n) continue;
        if (kRows == 2 && a.epilogue == kGlu) {
            if (r == 0) finish_gate(a, g, p.rows[0], y + c, mine[0], mine[kRows - 1]);
        } else {
            const u32 at = p.rows[0] - expert * rows + r;
            if (at < rows)
                finish(a, p.segments[0], at, y + c, r == 0 ? mine[0] : mine[kRows - 1],
                       kRows == 1 ? before : addend(a, p.segments[0], at, y + c));
        }
    }
}

// Prefetches the beginning of the first two rows of a warp; not for experts, whose selection is readable only after the
// wait.
template <class With> DEVICE void prefetch_first(const ProjectArgs& a, With&& with) {
    const u32 first = blockIdx.y * (kGemvThreads / kWarp) + threadIdx.x / kWarp;
    if (a.experts || first >= a.row_groups) return;
    const RowGroup<2> p = row_group_at<2>(a, first, 0);
    with(a.segments[p.segments[0]].w.dtype, [&](auto type) {
        UNROLL for (u32 r = 0; r < 2; r++)
            prefetch_row<decltype(type)>(a.segments[p.segments[r]].w, p.rows[r], threadIdx.x % kWarp);
    });
}

// Computes products with `kCols` input rows, which the block prepares in the `forms` that the types read. `kGate`: true
// if a product may be a gate.
template <u32 kCols, bool kGate, class With>
DEVICE void own_rows(const ProjectArgs& a, u32 forms, u8* shared, With&& with) {
    let_next_start();
    const u32 padded = ceil_div(a.segments[0].w.cols, kInputStep) * kInputStep, y = kCols * blockIdx.x;
    const bool gate = kGate && a.epilogue == kGlu;
    if (gate) prefetch_first(a, with);
    Inputs weights;
    load_weights(weights, 0, a.cols, a.norm);
    wait_for_previous();
    float* scratch = (float*)shared;
    const u32 size = (forms & 1 ? 4 * padded : 0) + (forms & 2 ? padded + padded / 32 * sizeof(Group) : 0);
    auto row = [&](u32 c) -> Input {
        float* values = (float*)(shared + 4 * kWarp + c * size);
        Group* groups = (Group*)(values + (forms & 1 ? padded : 0));
        return {values, (i8*)(groups + (forms & 2 ? padded / 32 : 0)), groups};
    };
    // The last warp, which has the fewest columns to prepare, selects the experts.
    const bool routes = kCols == 1 && kGate && a.route.scores;
    const bool is_router = routes && threadIdx.x >= kGemvThreads - kWarp;
    const u32 token = routes ? y / a.route.n_used : 0, pick = routes ? y % a.route.n_used : 0;
    const Selection selection = selection_in(a.route, shared + 4 * kWarp + kCols * size);
    if (is_router) rate(a.route, token, selection);
    // If there are several rows, outputs do not share inputs.
    const float* const first = a.x + (u64)(y / a.x_divisor) * a.x_stride;
    const float* x[kCols];
    UNROLL for (u32 c = 0; c < kCols; c++) x[c] = first + c * a.x_stride;
    prepare_rows<kCols>(x, a.cols, padded, a.norm, forms, weights, row, scratch);
    if (is_router) select(a.route, token, selection);
    sync_block();
    const u32 expert = routes ? expert_at(a.route, selection, pick) : a.experts ? a.experts[y] : 0;
    if (is_router && pick == 0 && blockIdx.y == 0) store_selection(a.route, token, selection);
    if (expert == kNoExpert) return;
    if (gate) products<kCols, 2>(a, expert, y, kCols, with, row);
    else products<kCols, 1>(a, expert, y, kCols, with, row);
}

template <class With> DEVICE void several_rows(const ProjectArgs& a, With&& with) {
    let_next_start();
    const u32 padded = ceil_div(a.segments[0].w.cols, kInputStep) * kInputStep, y = kGemvRows * blockIdx.x;
    prefetch_first(a, with);
    wait_for_previous();
    float* values = (float*)a.prepared + (u64)y * padded;
    products<kGemvRows, 2>(a, 0, y, min_u32(a.n - y, kGemvRows), with, [&](u32 c) -> Input {
        return {values + c * padded, nullptr, nullptr};
    });
}

// Kernels for one type each, so that none needs the registers of another.
template <class T, u32 kCols> DEVICE void own_rows_of(const ProjectArgs& a, u8* shared) {
    own_rows<kCols, true>(a, T::kFloat ? 1 : 2, shared, [&](u32, auto&& f) { f(T()); });
}
#define GEMV(T, name)                              \
    KERNEL(gemv_##name, ProjectArgs, kGemvThreads, 2) {     \
        DYNAMIC_SHARED(shared);                    \
        own_rows_of<T, 1>(a, shared);              \
    }                                              \
    KERNEL(gemv_##name##_2, ProjectArgs, kGemvThreads, 1) { \
        DYNAMIC_SHARED(shared);                    \
        own_rows_of<T, 2>(a, shared);              \
    }
#define GEMV_ROWS(T, name) \
    GEMV(T, name)          \
    KERNEL(gemv_##name##_rows, ProjectArgs, kGemvThreads, 1) { several_rows(a, [&](u32, auto&& f) { f(T()); }); }
EACH_PLAIN_TYPE(GEMV_ROWS)
EACH_BLOCK_TYPE(GEMV)

// Matrices of different types that share an input.
KERNEL(gemv_mixed, ProjectArgs, kGemvThreads, 2) {
    DYNAMIC_SHARED(shared);
    own_rows<1, false>(a, a.forms, shared, [&](u32 type, auto&& f) { with_type(type, f); });
}
KERNEL(gemv_mixed_2, ProjectArgs, kGemvThreads, 1) {
    DYNAMIC_SHARED(shared);
    own_rows<2, false>(a, a.forms, shared, [&](u32 type, auto&& f) { with_type(type, f); });
}
