// The input rows, the row groups and the trips of a GEMV.
//
// `Inputs` is a `RowLoader` for the threads of a block.
#pragma once

#include "bytes.cuh"
#include "epilogue.cuh"

// Quantizes eight values of a row to bytes.
DEVICE void quantize(const Values8& x, u32 col, const Input& to) {
    const Bytes8 bytes = to_bytes(x);
    store(to.quants + col, bytes.words);
    if (col % 32 == 0) store(to.groups + col / 32, bytes.group);
}
DEVICE void put(const Values8& x, u32 col, u32 forms, const Input& to) {
    if (forms & 1) UNROLL for (u32 i = 0; i < 8; i += 4)
        store(to.values + col + i, float4{x.v[i], x.v[i + 1], x.v[i + 2], x.v[i + 3]});
    if (forms & 2) quantize(x, col, to);
}

// Loads norm weights, which may be read before the wait for the previous kernel.
template <class Inputs> DEVICE void load_weights(Inputs& to, u32 first, u32 cols, const DeviceNorm& norm) {
    to.load_fours(norm.weight, first, norm.weight ? cols : 0,
                  [](const float* at) { return load_shared_weights<float4>(at); });
}
template <class Inputs> DEVICE void load_inputs(Inputs& to, u32 first, u32 cols, const float* x) {
    to.load_fours(x, first, cols, [](const float* at) { return load<float4>(at); });
}

// Stores the block's columns from `first` on.
template <class Inputs>
DEVICE void put_all(const Inputs& x, u32 first, u32 padded, u32 forms, const Input& to) {
    UNROLL for (u32 i = 0; i < Inputs::kGroups; i++) {
        // The bound is the same for all lanes of a warp.
        if (x.column(first, i) >= padded) break;
        put(x.of[i], x.column(first, i), forms, to);
    }
}

// Prepares rows of `cols` columns (a multiple of four), padded to `padded`, with the whole block. The norm must have
// neither a mean nor a bias. Row c is stored to `to(c)`. `weights`: norm weights of the first columns.
template <u32 kCols, class Inputs, class To>
DEVICE void prepare_rows(const float* const (&x)[kCols], u32 cols, u32 padded, const DeviceNorm& norm, u32 forms,
                         Inputs& weights, To&& to, float* scratch) {
    const bool none = norm.kind == kNoNorm;
    Inputs values[kCols];
    UNROLL for (u32 c = 0; c < kCols; c++) load_inputs(values[c], 0, cols, x[c]);
    float sums[kCols] = {};
    if (!none) {
        UNROLL for (u32 c = 0; c < kCols; c++) sums[c] = values[c].squares(0.f);
        for (u32 first = Inputs::kSpan; first < cols; first += Inputs::kSpan) UNROLL for (u32 c = 0; c < kCols; c++) {
            Inputs more;
            load_inputs(more, first, cols, x[c]);
            sums[c] = more.squares(sums[c]);
        }
        block_sums(sums, scratch);
    }
    UNROLL_BY(1) for (u32 first = 0; first < padded; first += Inputs::kSpan) {
        // Without a norm, the next columns of a single row are loaded in advance instead of norm weights.
        if (first > 0) {
            if (kCols == 1 && none) values[0] = weights;
            else UNROLL for (u32 c = 0; c < kCols; c++) load_inputs(values[c], first, cols, x[c]);
            if (!none) load_weights(weights, first, cols, norm);
        }
        if (kCols == 1 && none) load_inputs(weights, first + Inputs::kSpan, cols, x[0]);
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

// Rows that a warp multiplies at a time: of one matrix, or of gate and up.
template <u32 kRows> struct RowGroup {
    u32 segments[kRows];
    u32 rows[kRows];  // in the stack, if there are experts
};

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

// Units per lane, row and trip; fewer if each weight is multiplied with many rows.
template <class T, u32 kCols, u32 kRows> DEVICE constexpr u32 trip() {
    return kCols > 2 ? (T::kUnroll + 1) / 2 : T::kUnroll * 2 / kRows;
}
