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
//
// Invariants: results are batch-invariant.
//
// Shapes: see `ProjectArgs`, `PrepareArgs`. Grid: (input rows, in ones, twos or eights; blocks that divide the rows of
// the matrices).
#include "row_loader.cuh"
#include "epilogue.cuh"

// A thread's loads before a wait; next, columns per block.
typedef RowLoader<kGemvThreads, 3> Inputs;
constexpr u32 kSpan = Inputs::kSpan;

// Quantizes eight values of a row to bytes; 4 adjacent lanes form a group. A NaN value makes the scale of its group
// NaN.
DEVICE void quantize(const Values8& x, u32 col, const Input& to) {
    float peak = 0.f;
    UNROLL for (u32 i = 0; i < 8; i++) peak = max_magnitude(peak, x.v[i]);
    peak = max_magnitude(peak, shuffle_xor(peak, 1));
    peak = max_magnitude(peak, shuffle_xor(peak, 2));
    const float scale = peak * (1.f / 127.f), inverse = peak > 0.f ? reciprocal_approx(scale) : 0.f;
    // The nearest integers, in the lowest bits.
    u32 whole[8], words[2];
    UNROLL for (u32 i = 0; i < 8; i++) whole[i] = float_to_bits(fmaf(x.v[i], inverse, kWhole));
    UNROLL for (u32 i = 0; i < 2; i++)
        words[i] = permute(permute(whole[4 * i], whole[4 * i + 1], 0x0040),
                           permute(whole[4 * i + 2], whole[4 * i + 3], 0x0040), 0x5410);
    i32 sum = dot4(words[0], 0x01010101u, dot4(words[1], 0x01010101u, 0));
    sum += shuffle_xor(sum, 1);
    const i32 second = shuffle_xor(sum, 2);
    store(to.quants + col, uint2{words[0], words[1]});
    if (col % 32 == 0) store(to.groups + col / 32, Group{scale, scale * (float)(sum + second), {sum, second}});
}
DEVICE void put(const Values8& x, u32 col, u32 forms, const Input& to) {
    if (forms & 1) UNROLL for (u32 i = 0; i < 8; i += 4)
        store(to.values + col + i, float4{x.v[i], x.v[i + 1], x.v[i + 2], x.v[i + 3]});
    if (forms & 2) quantize(x, col, to);
}

// Loads norm weights, which may be read before the wait for the previous kernel.
DEVICE void load_weights(Inputs& to, u32 first, u32 cols, const DeviceNorm& norm) {
    to.load_fours(norm.weight, first, norm.weight ? cols : 0,
                  [](const float* at) { return load_shared_weights<float4>(at); });
}
DEVICE void load_inputs(Inputs& to, u32 first, u32 cols, const float* x) {
    to.load_fours(x, first, cols, [](const float* at) { return load<float4>(at); });
}

// Stores the block's columns from `first` on.
DEVICE void put_all(const Inputs& x, u32 first, u32 padded, u32 forms, const Input& to) {
    UNROLL for (u32 i = 0; i < Inputs::kGroups; i++) {
        // The bound is the same for all lanes of a warp.
        if (x.column(first, i) >= padded) break;
        put(x.of[i], x.column(first, i), forms, to);
    }
}

// Prepares rows of `cols` columns (a multiple of four), padded to `padded`, with the whole block. The norm must have
// neither a mean nor a bias. Row c is stored to `to(c)`. `weights`: norm weights of the first columns.
template <u32 kCols, class To>
DEVICE void prepare_rows(const float* const (&x)[kCols], u32 cols, u32 padded, const DeviceNorm& norm, u32 forms,
                         Inputs& weights, To&& to, float* scratch) {
    const bool none = norm.kind == kNoNorm;
    Inputs values[kCols];
    UNROLL for (u32 c = 0; c < kCols; c++) load_inputs(values[c], 0, cols, x[c]);
    float sums[kCols] = {};
    if (!none) {
        UNROLL for (u32 c = 0; c < kCols; c++) sums[c] = values[c].squares(0.f);
        for (u32 first = kSpan; first < cols; first += kSpan) UNROLL for (u32 c = 0; c < kCols; c++) {
            Inputs more;
            load_inputs(more, first, cols, x[c]);
            sums[c] = more.squares(sums[c]);
        }
        block_sums(sums, scratch);
    }
    UNROLL_BY(1) for (u32 first = 0; first < padded; first += kSpan) {
        // Without a norm, the next columns of a single row are loaded in advance instead of norm weights.
        if (first > 0) {
            if (kCols == 1 && none) values[0] = weights;
            else UNROLL for (u32 c = 0; c < kCols; c++) load_inputs(values[c], first, cols, x[c]);
            if (!none) load_weights(weights, first, cols, norm);
        }
        if (kCols == 1 && none) load_inputs(weights, first + kSpan, cols, x[0]);
        UNROLL for (u32 c = 0; c < kCols; c++) {
            const float inverse = 1.f / sqrtf(sums[c] / (float)cols + norm.eps);
            if (!none) UNROLL for (u32 i = 0; i < Inputs::kGroups; i++) UNROLL for (u32 j = 0; j < 8; j++) {
                values[c].of[i].v[j] *= inverse;
                if (norm.weight) values[c].of[i].v[j] *= weights.of[i].v[j];
            }
            put_all(values[c], first, padded, forms, to(c));
        }
    }
}

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

// Rows that a warp multiplies at a time: of one matrix, or of gate and up.
template <u32 kRows> struct RowGroup {
    u32 segments[kRows];
    u32 rows[kRows];  // in the stack, if there are experts
};

// Units per lane, row and trip; fewer if each weight is multiplied with many rows.
template <class T, u32 kCols, u32 kRows> DEVICE constexpr u32 trip() {
    return kCols > 2 ? (T::kUnroll + 1) / 2 : T::kUnroll * 2 / kRows;
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

// Row group `g`.
template <u32 kRows> DEVICE RowGroup<kRows> row_group_at(const ProjectArgs& a, u32 g, u32 expert) {
    RowGroup<kRows> p;
    u32 segment = 0, row = kRows * g;
    const bool gate = a.epilogue == kGlu;
    while (!gate && segment + 1 < a.n_segments && row >= ceil_div(a.segments[segment].w.rows, kRows) * kRows) {
        row -= ceil_div(a.segments[segment].w.rows, kRows) * kRows;
        segment++;
    }
    const u32 rows = a.segments[segment].w.rows;
    UNROLL for (u32 r = 0; r < kRows; r++) {
        p.segments[r] = gate ? r : segment;
        // After the end, the last row is read again and its sum dropped.
        p.rows[r] = expert * rows + (gate ? g : min_u32(row + r, rows - 1));
    }
    return p;
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
    auto row = [&](u32 c) -> Input {
        const u32 size = (forms & 1 ? 4 * padded : 0) + (forms & 2 ? padded + padded / 32 * sizeof(Group) : 0);
        float* values = (float*)(shared + 4 * kWarp + c * size);
        Group* groups = (Group*)(values + (forms & 1 ? padded : 0));
        return {values, (i8*)(groups + (forms & 2 ? padded / 32 : 0)), groups};
    };
    // If there are several rows, outputs do not share inputs.
    const float* const first = a.x + (u64)(y / a.x_divisor) * a.x_stride;
    const float* x[kCols];
    UNROLL for (u32 c = 0; c < kCols; c++) x[c] = first + c * a.x_stride;
    prepare_rows<kCols>(x, a.cols, padded, a.norm, forms, weights, row, scratch);
    sync_block();
    const u32 expert = a.experts ? a.experts[y] : 0;
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
GEMV_ROWS(Plain<kF32>, f32)
GEMV_ROWS(Plain<kF16>, f16)
GEMV_ROWS(Plain<kBF16>, bf16)
GEMV(Q4_0, q4_0)
GEMV(Q4_1, q4_1)
GEMV(Q5_0, q5_0)
GEMV(Q5_1, q5_1)
GEMV(Q8_0, q8_0)
GEMV(Q4_K, q4_k)
GEMV(Q5_K, q5_k)
GEMV(Q6_K, q6_k)

// Matrices of different types that share an input.
KERNEL(gemv_mixed, ProjectArgs, kGemvThreads, 2) {
    DYNAMIC_SHARED(shared);
    own_rows<1, false>(a, a.forms, shared, [&](u32 type, auto&& f) { with_type(type, f); });
}
KERNEL(gemv_mixed_2, ProjectArgs, kGemvThreads, 1) {
    DYNAMIC_SHARED(shared);
    own_rows<2, false>(a, a.forms, shared, [&](u32 type, auto&& f) { with_type(type, f); });
}
