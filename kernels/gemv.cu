// Matrix times vector, for single tokens, and for up to 8 rows at a time of types without blocks.
//
// Time is bound by reading the weights. So for one row every block prepares the input for itself (norm, and quantisation to
// signed bytes with a scale for each 32) while its first weights are on their way, and the operation on the result (bias,
// residual, gated activation, softcap) is part of the kernel. A warp takes two rows of a matrix and strides over their columns
// with loads of 16 bytes, several of them in flight. Several rows of input are prepared once, by a kernel of their own, for
// the kernels here and those of few.cu, where each weight that was read is used for all of them. What is computed of a row is
// the same, to the bit, whatever their number.
#include "product.cuh"

// Rows of a warp: enough to use each load of the input twice, few enough that small matrices fill the device.
constexpr u32 kRows = 2;
// Rows of input that share the weights that were read.
constexpr u32 kColumns = 8;
constexpr u32 kThreads = 256;
// Groups of eight columns that a thread loads before it waits for one, and the columns of a block.
constexpr u32 kEights = 2;
constexpr u32 kSpan = 8 * kThreads * kEights;

// Eight neighbouring values of a lane.
struct Eight {
    float v[8];
};

// A row of those that `PrepareArgs` tells of.
struct RowOf32 {
    float* values;
    i8* quants;
    Group* groups;
};
// Writes bytes of the columns `col`.. and `col` + 4.., and tells the place of the group of 32 columns.
DEVICE void store_bytes(const Input& to, u32 col, u32 low, u32 high) { store(to.quants + col, uint2{low, high}); }
DEVICE void store_bytes(const RowOf32& to, u32 col, u32 low, u32 high) {
    i8* at = to.quants + col / 32 * 1024 + col % 16 * 2 + col % 32 / 16 * 4;
    store(at, low), store(at + 8, high);
}
DEVICE Group* group_of(const Input& to, u32 col) { return to.groups + col / 32; }
DEVICE Group* group_of(const RowOf32& to, u32 col) { return to.groups + col / 32 * 32; }

// Writes eight values of a row as bytes; 4 neighbouring lanes make a group. A value that is no number makes the scale of its
// group none.
template <class To> DEVICE void quantise(const Eight& x, u32 col, u32 padded, const To& to) {
    float peak = 0.f;
    UNROLL for (u32 i = 0; i < 8; i++) peak = max_magnitude(peak, x.v[i]);
    peak = max_magnitude(peak, shuffle_xor(peak, 1));
    peak = max_magnitude(peak, shuffle_xor(peak, 2));
    const float scale = peak * (1.f / 127.f), inverse = peak > 0.f ? reciprocal_approx(scale) : 0.f;
    // The nearest whole numbers, in the lowest bits.
    u32 whole[8], words[2];
    UNROLL for (u32 i = 0; i < 8; i++) whole[i] = float_to_bits(fmaf(x.v[i], inverse, kWhole));
    UNROLL for (u32 i = 0; i < 2; i++)
        words[i] = permute(permute(whole[4 * i], whole[4 * i + 1], 0x0040), permute(whole[4 * i + 2], whole[4 * i + 3], 0x0040), 0x5410);
    i32 sum = dot4(words[0], 0x01010101u, dot4(words[1], 0x01010101u, 0));
    sum += shuffle_xor(sum, 1);
    const i32 second = shuffle_xor(sum, 2);
    if (col >= padded) return;
    store_bytes(to, col, words[0], words[1]);
    if (col % 32 == 0) store(group_of(to, col), Group{scale, scale * (float)(sum + second), {sum, second}});
}
template <class To> DEVICE void put(const Eight& x, u32 col, u32 padded, u32 forms, const To& to) {
    if (forms & 1 && col < padded) UNROLL for (u32 i = 0; i < 8; i += 4)
        store(to.values + col + i, float4{x.v[i], x.v[i + 1], x.v[i + 2], x.v[i + 3]});
    if (forms & 2) quantise(x, col, padded, to);
}

// Groups of eight columns of a thread.
struct Eights {
    Eight of[kEights];
};
DEVICE u32 column(u32 first, u32 i) { return first + 8 * (kThreads * i + threadIdx.x); }
// Columns come in groups of four.
template <class Load> DEVICE void load_eights(Eights& to, u32 first, u32 cols, Load&& four_at) {
    UNROLL for (u32 i = 0; i < kEights; i++) UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 col = column(first, i) + 4 * half;
        float4 four = {0.f, 0.f, 0.f, 0.f};
        if (col < cols) four = four_at(col);
        float* v = to.of[i].v + 4 * half;
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    }
}
// Weights of a norm, which may be read ahead of the wait for the kernel before.
DEVICE void load_weights(Eights& to, u32 first, u32 cols, const DeviceNorm& norm) {
    load_eights(to, first, norm.weight ? cols : 0, [&](u32 col) { return load_shared_weights<float4>(norm.weight + col); });
}
DEVICE void load_inputs(Eights& to, u32 first, u32 cols, const float* x) {
    load_eights(to, first, cols, [&](u32 col) { return load<float4>(x + col); });
}
DEVICE float squares(const Eights& x, float sum) {
    UNROLL for (u32 i = 0; i < kEights; i++) UNROLL for (u32 j = 0; j < 8; j++) sum = fmaf(x.of[i].v[j], x.of[i].v[j], sum);
    return sum;
}

// Puts the columns of the block from `first` on.
template <class To> DEVICE void put_all(const Eights& x, u32 first, u32 padded, u32 forms, const To& to) {
    UNROLL for (u32 i = 0; i < kEights; i++) {
        if (first + 8 * kThreads * i >= padded) break;
        put(x.of[i], column(first, i), padded, forms, to);
    }
}

// Prepares the row `x` of `cols` columns, which come in groups of four, padded to `padded`, with the whole block; its norm has
// neither a mean nor a bias. `weights` are those of the norm for the first columns.
template <class To>
DEVICE void prepare_row(const float* x, u32 cols, u32 padded, const DeviceNorm& norm, u32 forms, Eights& weights, const To& to,
                        float* scratch) {
    Eights values;
    load_inputs(values, 0, cols, x);
    if (norm.kind == kNoNorm) {
        // As many columns again are loaded in place of weights.
        for (u32 first = 0; first < padded; first += 2 * kSpan) {
            if (first > 0) load_inputs(values, first, cols, x);
            load_inputs(weights, first + kSpan, cols, x);
            put_all(values, first, padded, forms, to);
            put_all(weights, first + kSpan, padded, forms, to);
        }
        return;
    }
    float sum = squares(values, 0.f);
    for (u32 first = kSpan; first < cols; first += kSpan) {
        Eights more;
        load_inputs(more, first, cols, x);
        sum = squares(more, sum);
    }
    const float inverse = 1.f / sqrtf(block_sum(sum, scratch) / (float)cols + norm.eps);
    for (u32 first = 0; first < padded; first += kSpan) {
        if (first > 0) {
            load_inputs(values, first, cols, x);
            load_weights(weights, first, cols, norm);
        }
        UNROLL for (u32 i = 0; i < kEights; i++) UNROLL for (u32 j = 0; j < 8; j++) {
            values.of[i].v[j] *= inverse;
            if (norm.weight) values.of[i].v[j] *= weights.of[i].v[j];
        }
        put_all(values, first, padded, forms, to);
    }
}

// Prepares rows for the kernels that take several, one block a row; `simple` ones are prepared as for single rows.
KERNEL(prepare, PrepareArgs, 256, 2) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    float* scratch = (float*)shared;
    const u64 row = blockIdx.x;
    const float* x = a.x + row * a.cols;
    const u64 first = row / 32 * 32, among = row % 32;
    const RowOf32 to = {a.rows.values + row * a.padded, a.rows.quants + first * a.padded + 32 * among,
                        a.rows.groups + first * (a.padded / 32) + among};
    if (a.simple) {
        Eights weights;
        load_weights(weights, 0, a.cols, a.norm);
        wait_for_previous();
        return prepare_row(x, a.cols, a.padded, a.norm, a.forms, weights, to, scratch);
    }
    wait_for_previous();
    const Moments m = moments(x, a.cols, a.norm, scratch);
    for (u32 first = 0; first < a.padded; first += 8 * kThreads) {
        const u32 col = column(first, 0);
        Eight e;
        UNROLL for (u32 i = 0; i < 8; i++) e.v[i] = col + i < a.cols ? normalised(x[col + i], col + i, m, a.norm) : 0.f;
        put(e, col, a.padded, a.forms, to);
    }
}

// A pair of rows: of one matrix, or of gate and up.
struct Pair {
    u32 segments[kRows];
    u32 rows[kRows];  // in a stack of experts as well
};

// Units of a lane in a trip: where a weight has many products, fewer are on their way.
template <class T, u32 kCols> DEVICE constexpr u32 trip() { return kCols == 1 ? T::kUnroll : (T::kUnroll + 1) / 2; }

// Sum over a warp, in the order that the kernels of several rows have: of the lanes of a pair, of those 16 further on, and so on.
DEVICE float lanes_sum(float v) {
    v += shuffle_xor(v, 1);
    UNROLL for (u32 lanes = 16; lanes > 1; lanes /= 2) v += shuffle_xor(v, lanes);
    return v;
}

// Adds products of units `first + lane` and so on, which may end before a whole trip where `kTail`.
template <class T, u32 kCols, bool kTail, class Row>
DEVICE void dot_units(const DeviceMatrix (&w)[kRows], const Pair& p, u32 n, Row&& row, u32 first, u32 units,
                      float (&sums)[kCols][kRows]) {
    const u32 lane = threadIdx.x % kWarp;
    constexpr u32 kTrip = trip<T, kCols>();
    typename T::Raw raw[kTrip][kRows];
    UNROLL for (u32 u = 0; u < kTrip; u++) {
        const u32 unit = first + lane, ahead = u * kWarp;
        // What is behind the end is read from the beginning again, so that no load depends on a branch.
        const bool inside = !kTail || unit + ahead < units;
        UNROLL for (u32 r = 0; r < kRows; r++) {
            raw[u][r] = kTail ? T::load(w[r], p.rows[r], inside ? unit + ahead : 0, 0) : T::load(w[r], p.rows[r], unit, ahead);
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

// The pair that a warp works on in turn `g`.
DEVICE Pair pair_at(const ProjectArgs& a, u32 g, u32 expert) {
    if (a.epilogue == kGlu) {
        const u32 row = expert * a.segments[0].w.rows + g;
        return {{0, 1}, {row, row}};
    }
    u32 segment = 0, row = kRows * g;
    while (segment + 1 < a.n_segments && row >= ceil_div(a.segments[segment].w.rows, kRows) * kRows) {
        row -= ceil_div(a.segments[segment].w.rows, kRows) * kRows;
        segment++;
    }
    const u32 rows = a.segments[segment].w.rows;
    const u32 first = expert * rows;
    // Behind the end the last row is read again; its sum is dropped.
    return {{segment, segment}, {first + row, first + min_u32(row + 1, rows - 1)}};
}

// Products with `n` rows of input, the first of which is `y`; `row` gives them. `with` calls a function with an object of a type.
template <u32 kCols, class With, class Row>
DEVICE void products(const ProjectArgs& a, u32 expert, u32 y, u32 n, With&& with, Row&& row) {
    const u32 lane = threadIdx.x % kWarp;
    for (u32 g = blockIdx.y * (kThreads / kWarp) + threadIdx.x / kWarp; g < a.turns; g += a.warps) {
        const Pair p = pair_at(a, g, expert);
        float sums[kCols][kRows] = {};
        with(a.segments[p.segments[0]].w.type, [&](auto type) {
            using T = decltype(type);
            const DeviceMatrix w[kRows] = {a.segments[p.segments[0]].w, a.segments[p.segments[1]].w};
            const u32 units = a.segments[0].w.cols / T::kValues;
            constexpr u32 kTrip = kWarp * trip<T, kCols>();
            u32 first = 0;
            if (kCols == 1 && T::kUnroll > 1) {
                UNROLL_BY(1) for (; first + kTrip <= units; first += kTrip) dot_units<T, kCols, false>(w, p, n, row, first, units, sums);
            }
            UNROLL_BY(1) for (; first < units; first += kTrip) dot_units<T, kCols, true>(w, p, n, row, first, units, sums);
        });
        // Every lane has all sums; each finishes one.
        float mine[kRows] = {};
        UNROLL for (u32 c = 0; c < kCols; c++) {
            if (c >= n) break;
            UNROLL for (u32 r = 0; r < kRows; r++) {
                const float sum = lanes_sum(sums[c][r]);
                if (lane / kRows == c) mine[r] = sum;
            }
        }
        const u32 c = lane / kRows, r = lane % kRows;
        if (c >= n) continue;
        if (a.epilogue == kGlu) {
            if (r == 0) finish_gate(a, g, p.rows[0], y + c, mine[0], mine[1]);
        } else {
            const u32 rows = a.segments[p.segments[0]].w.rows, at = p.rows[0] - expert * rows + r;
            if (at < rows) finish(a, p.segments[0], at, y + c, r == 0 ? mine[0] : mine[1]);
        }
    }
}

// The choice of experts can be read only after the wait.
template <class With> DEVICE void prefetch_first(const ProjectArgs& a, With&& with) {
    const u32 first = blockIdx.y * (kThreads / kWarp) + threadIdx.x / kWarp;
    if (a.experts || first >= a.turns) return;
    const Pair p = pair_at(a, first, 0);
    with(a.segments[p.segments[0]].w.type, [&](auto type) {
        UNROLL for (u32 r = 0; r < kRows; r++)
            prefetch_row<decltype(type)>(a.segments[p.segments[r]].w, p.rows[r], threadIdx.x % kWarp);
    });
}

// `forms` are those of the input that the types read.
template <class With> DEVICE void one_row(const ProjectArgs& a, u32 forms, u8* shared, With&& with) {
    let_next_start();
    const u32 padded = ceil_div(a.segments[0].w.cols, kInputStep) * kInputStep, y = blockIdx.x;
    prefetch_first(a, with);
    Eights weights;
    load_weights(weights, 0, a.cols, a.norm);
    wait_for_previous();
    float* scratch = (float*)shared;
    float* values = scratch + kWarp;
    Group* groups = (Group*)(values + (forms & 1 ? padded : 0));
    const Input x = {values, (i8*)(groups + (forms & 2 ? padded / 32 : 0)), groups};
    prepare_row(a.x + (u64)(y / a.x_divisor) * a.x_stride, a.cols, padded, a.norm, forms, weights, x, scratch);
    sync_block();
    products<1>(a, a.experts ? a.experts[y] : 0, y, 1, with, [&](u32) { return x; });
}

template <class With> DEVICE void several_rows(const ProjectArgs& a, With&& with) {
    let_next_start();
    const u32 padded = ceil_div(a.segments[0].w.cols, kInputStep) * kInputStep, y = kColumns * blockIdx.x;
    prefetch_first(a, with);
    wait_for_previous();
    float* values = a.prepared.values + (u64)y * padded;
    products<kColumns>(a, 0, y, min_u32(a.n - y, kColumns), with, [&](u32 c) -> Input {
        return {values + c * padded, nullptr, nullptr};
    });
}

// Kernels of one type, so that none pays for the registers of another.
#define GEMV(T, name)                                                          \
    KERNEL(gemv_##name, ProjectArgs, 256, 3) {                                 \
        DYNAMIC_SHARED(shared);                                                \
        one_row(a, T::kFloat ? 1 : 2, shared, [&](u32, auto&& f) { f(T()); }); \
    }
#define GEMV_ROWS(T, name) \
    GEMV(T, name)          \
    KERNEL(gemv_##name##_rows, ProjectArgs, 256, 2) { several_rows(a, [&](u32, auto&& f) { f(T()); }); }
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
KERNEL(gemv_mixed, ProjectArgs, 256, 2) {
    DYNAMIC_SHARED(shared);
    one_row(a, a.forms, shared, [&](u32 type, auto&& f) { with_type(type, f); });
}
