// Tiles of a GEMM: the part of a product that a block computes, its tokens in shared memory, and its output.
//
// A type `D` defines how the warps of a block divide a tile:
//   kRows, kTokens             rows of the matrix and tokens of the tile
//   kThreads                   of the block
//   kWarpRows, kWarpTokens     of the part of a warp
//   kAcross                    warps with the same rows
//   kM, kN                     parts of 16 rows and of 8 tokens of a warp
// Sums of a warp are [kM][kN][4], each as in `mma16x8x16`.
#pragma once

#include "epilogue.cuh"

constexpr u32 kChunk = 32;  // columns per iteration

// Of 32 columns of a token in bytes: their scale, and their sum.
struct alignas(8) TokenScale {
    float scale;
    float sum;
};

// Offset of 8 columns of a row in a chunk. Rows that `load_matrices` reads together are in different banks.
DEVICE u32 place(u32 row, u32 part) { return row * kChunk + (part ^ (row / 2 % 4)) * 8; }

#ifdef HAS_WGMMA
// Returns the descriptor for `multiply_async` of 16 columns that begin `bytes` after `rows`. Rows have 64 or 128 bytes
// and begin at a multiple of 8 rows in shared memory; their 16-byte parts are exchanged by the lower bits of the row
// (of half of the row, for 64 bytes). PTX ISA, "Matrix Descriptor Format": address, offset of 8 columns, unused in this
// layout, offset of 8 rows, all in units of 16 bytes; swizzling.
template <u32 kRowBytes> DEVICE u64 swizzled_rows(const u16* rows, u32 bytes) {
    constexpr u32 kHigh = 8 * kRowBytes >> 4 | (kRowBytes == 128 ? 1u : 2u) << 30;
    return (u64)kHigh << 32 | (((shared_address(rows) & 0x3ffffu) >> 4 | 1u << 16) + bytes / 16);
}
#endif

// The work of a block: some rows of a matrix times some tokens, either consecutive tokens or the picks of an expert.
struct Share {
    u32 first_row;  // of the expert
    u32 row0;
    u32 token0;
    u32 tokens;        // in all
    const u32* order;  // or null
    u32 divisor;
    u32 split;  // of the columns
    u32 splits;
    DEVICE_MEMBER u32 output(u32 token) const { return order ? order[token] : token; }
    DEVICE_MEMBER u32 input(u32 token) const { return order ? order[token] / divisor : token; }
};

// The copies by one thread of the tokens of a chunk, to [tokens][32 halves].
template <class D> struct Copies {
    static constexpr u32 kParts = D::kTokens * 4, kPerThread = (kParts + D::kThreads - 1) / D::kThreads;
    u32 from[kPerThread];  // chunks before the row of a token
    DEVICE_MEMBER Copies(const Share& work, u32 chunks) {
        UNROLL for (u32 i = 0; i < kPerThread; i++)
            from[i] = work.input(min_u32(work.token0 + (i * D::kThreads + threadIdx.x) / 4, work.tokens - 1)) * chunks;
    }
    DEVICE_MEMBER void start(const u16* halves, u32 chunk, u16* stage) const {
        UNROLL for (u32 i = 0; i < kPerThread; i++) {
            const u32 copy = i * D::kThreads + threadIdx.x;
            const u16* part = halves + (u64)(from[i] + chunk) * kChunk + copy % 4 * 8;
            if (copy < kParts) copy_async16(stage + place(copy / 4, copy % 4), part);
        }
    }
};

// Stores the sums of this block's share of a tile's columns at `own`. Returns true in the last of `shares` blocks, with
// the sums of all shares, added in order. `part(s)`: the stored sums of share s.
template <class D, class Part>
DEVICE bool join(float* own, u32* counter, u32 shares, u8* shared, float (&sums)[D::kM][D::kN][4], Part&& part) {
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
        const float4 sum = {sums[m][n][0], sums[m][n][1], sums[m][n][2], sums[m][n][3]};
        store(own + ((m * D::kN + n) * D::kThreads + threadIdx.x) * 4, sum);
    }
    if (!last_block(counter, shares, (u32*)shared)) return false;
    // This block's own sums are read back too, so that they occupy no registers until then.
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
        UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] = 0.f;
    }
    UNROLL_BY(D::kM * D::kN <= 2 ? 4 : D::kM * D::kN <= 4 ? 2 : 1) for (u32 s = 0; s < shares; s++) {
        const float* from = part(s);
        UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
            const float4 sum = load<float4>(from + ((m * D::kN + n) * D::kThreads + threadIdx.x) * 4);
            const float v[4] = {sum.x, sum.y, sum.z, sum.w};
            UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] += v[i];
        }
    }
    return true;
}

// Rows of one matrix in a tile; a tile of gate and up has half of its rows from each.
template <class D> DEVICE u32 rows_of(const ProjectArgs& a) {
    return unknown(a.epilogue) == kGlu ? D::kRows / 2 : D::kRows;
}

// The share with all columns of row tile `x` and token tile `y`, and its matrix (`segment`).
template <class D> DEVICE Share share_of(const ProjectArgs& a, u32 x, u32 y, u32& segment) {
    u32 tile = x;
    segment = 0;
    const bool gate = a.epilogue == kGlu;
    const u32 rows = rows_of<D>(a);
    UNROLL_BY(1) while (!gate && segment + 1 < a.n_segments && tile >= ceil_div(a.segments[segment].w.rows, rows)) {
        tile -= ceil_div(a.segments[segment].w.rows, rows);
        segment++;
    }
    const u32 expert = a.order ? unknown(blockIdx.z) : 0, first = a.order ? a.starts[expert] : 0;
    return {expert * a.segments[segment].w.rows,
            tile * rows,
            y * D::kTokens,
            a.order ? a.starts[expert + 1] - first : a.n,
            a.order ? a.order + first : nullptr,
            a.x_divisor,
            0,
            1};
}

// The tile of a block of `gemm`, by the block's index, and its share of the columns: blocks from `whole` on share the
// remaining tiles.
struct Place {
    u32 tile;
    u32 split;
    u32 splits;
    DEVICE_MEMBER static Place of(const ProjectArgs& a) {
        const u32 block = unknown(blockIdx.x), after = block - a.whole;
        if (a.order || block < a.whole) return {block, 0, 1};
        return {a.whole + after / a.splits, after % a.splits, a.splits};
    }
    template <class D> DEVICE_MEMBER Share share(const ProjectArgs& a, u32& segment) const {
        Share work = a.order ? share_of<D>(a, tile, unknown(blockIdx.y), segment)
                             : share_of<D>(a, tile % a.tiles, tile / a.tiles, segment);
        work.split = split, work.splits = splits;
        return work;
    }
};

// A row of a tile, and its matrix. In a tile of gate and up, eight rows of the gate alternate with eight rows of up.
struct TileRow {
    const DeviceMatrix& w;
    u32 row;  // the last row of the matrix after its end
};
DEVICE TileRow tile_row(const ProjectArgs& a, u32 segment, const Share& work, u32 r) {
    const bool gate = unknown(a.epilogue) == kGlu;
    const DeviceMatrix& w = a.segments[gate ? r / 8 % 2 : segment].w;
    return {w, work.first_row + min_u32(work.row0 + (gate ? r / 16 * 8 + r % 8 : r), w.rows - 1)};
}

// A row as a matrix of one row.
template <class T> DEVICE DeviceMatrix row_of(const DeviceMatrix& m, u32 row) {
    DeviceMatrix own = m;
    UNROLL for (u32 p = 0; p < 4; p++)
        own.planes[p] += (u64)row * (m.cols / T::kBlock * (T::kPlanes >> (8 * p) & 255u));
    return own;
}

// The rows of a tile that a lane dequantizes.
template <class T> struct LaneRows {
    DeviceMatrix of[2];
    DEVICE_MEMBER LaneRows(const ProjectArgs& a, const Share& work, u32 segment, u32 thread) {
        UNROLL for (u32 r = 0; r < 2; r++) {
            const TileRow own = tile_row(a, segment, work, thread / kWarp * 16 + 8 * r + thread % kWarp / 4);
            of[r] = row_of<T>(own.w, own.row);
        }
    }
};

// The scale of a token's input, and the row of its results.
struct alignas(8) TokenResults {
    float scale;
    u32 row;
};

// Finishes the results of some tokens of a tile, whose sums are in shared memory, [token][row].
template <class D, u32 kStride>
DEVICE void finish_values(const ProjectArgs& a, u32 segment, const Share& work, u32 tokens, const TokenResults* results,
                          const float* values, float by0, float by1) {
    const u32 thread = unknown(threadIdx.x), rows = a.segments[segment].w.rows;
    if (unknown(a.epilogue) == kGlu) {
        // A warp had 8 rows of each matrix.
        const u32 row = work.row0 + thread % 64;
        const float* from = values + thread % 64 / 8 * 16 + thread % 8;
        if (row < rows) UNROLL_BY(1) for (u32 token = thread / 64; token < tokens; token += D::kThreads / 64) {
            const float* of = from + token * kStride;
            const TokenResults to = load<TokenResults>(results + token);
            finish_gate(a, row, row, to.row, of[0] * (to.scale * by0), of[8] * (to.scale * by1));
        }
        return;
    }
    const u32 row = work.row0 + thread % D::kRows, start = thread / D::kRows;
    if (row >= rows) return;
    const float* from = values + thread % D::kRows;
    constexpr u32 kAtOnce = 8, kNext = D::kThreads / D::kRows;
    if (a.epilogue == kCap) {
        UNROLL_BY(1) for (u32 token = start; token < tokens; token += kNext) {
            const TokenResults to = load<TokenResults>(results + token);
            finish(a, segment, row, to.row, from[token * kStride] * (to.scale * by0), 0.f);
        }
        return;
    }
    const Segment& s = a.segments[segment];
    const float bias = with_bias(s, row, 0.f);
    UNROLL_BY(1) for (u32 token = start; token < tokens; token += kAtOnce * kNext) {
        float* out[kAtOnce];
        float scales[kAtOnce], before[kAtOnce] = {};
        UNROLL for (u32 i = 0; i < kAtOnce; i++) {
            const TokenResults to = load<TokenResults>(results + min_u32(token + kNext * i, tokens - 1));
            scales[i] = to.scale * by0;
            out[i] = s.out + (u64)to.row * rows + row;
            if (a.epilogue == kAdd && token + kNext * i < tokens) before[i] = *out[i];
        }
        UNROLL for (u32 i = 0; i < kAtOnce; i++) {
            if (token + kNext * i >= tokens) break;
            const float sum = fmaf(from[(token + kNext * i) * kStride], scales[i], bias);
            *out[i] = a.epilogue == kAdd ? fmaf(a.scale, sum, before[i]) : sum;
        }
    }
}

// Finishes a tile. Its sums go through shared memory, some tokens at a time, so that adjacent threads have adjacent
// rows, and the sums occupy no registers in loops over results. `by0`, `by1`: factors on the sums of the matrix or the
// gate, and of up.
template <class D>
DEVICE void finish_tile(const ProjectArgs& a, u32 segment, const Share& work, u8* shared,
                        const float (&sums)[D::kM][D::kN][4], float by0, float by1) {
    constexpr u32 kStride = D::kRows + 4, kMost = min_u32(64, D::kTokens);
    const u32 thread = unknown(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
    TokenResults* results = (TokenResults*)shared;
    float* values = (float*)(results + kMost);
    UNROLL for (u32 first = 0; first < D::kTokens; first += kMost) {
        const u32 token0 = work.token0 + first;
        if (token0 >= work.tokens) break;
        const u32 tokens = min_u32(kMost, work.tokens - token0);
        sync_block();
        if (thread < tokens)
            results[thread] = {a.row_scales[work.input(token0 + thread)], work.output(token0 + thread)};
        UNROLL for (u32 n = 0; n < D::kN; n++) {
            const u32 token = warp % D::kAcross * D::kWarpTokens + 8 * n;
            if (token / kMost * kMost != first) continue;
            float* to =
                values + (token - first + 2 * (lane % 4)) * kStride + warp / D::kAcross * D::kWarpRows + lane / 4;
            UNROLL for (u32 m = 0; m < D::kM; m++)
                UNROLL for (u32 i = 0; i < 4; i++) to[i % 2 * kStride + 16 * m + i / 2 * 8] = sums[m][n][i];
        }
        sync_block();
        finish_values<D, kStride>(a, segment, work, tokens, results, values, by0, by1);
    }
}

// Computes a GEMM. `multiply` sums the products of a matrix of one type over the columns of the share; `by(w)` is the
// factor on the sums of matrix w.
template <class D, class Multiply, class By>
DEVICE void gemm(const ProjectArgs& a, u8* shared, Multiply&& multiply, By&& by) {
    let_next_start();
    wait_for_previous();
    float sums[D::kM][D::kN][4] = {};
    {
        u32 segment;
        const Share work = Place::of(a).share<D>(a, segment);
        if (work.token0 >= work.tokens) return;
        // One loop per type, so that no load depends on a branch.
        with_type(a.segments[segment].w.dtype, [&](auto type) { multiply(type, segment, work, sums); });
    }
    if (const Place place = Place::of(a); place.splits > 1) {
        constexpr u32 kPart = D::kTokens * D::kRows;
        const u32 tile = place.tile - a.whole;
        float* parts = a.parts + (u64)tile * place.splits * kPart;
        if (!join<D>(parts + place.split * kPart, a.counters + tile, place.splits, shared, sums,
                     [&](u32 s) { return parts + s * kPart; }))
            return;
    }
    // Recomputed, so that it occupied no registers in between.
    u32 segment;
    const Share work = Place::of(a).share<D>(a, segment);
    const bool gate = unknown(a.epilogue) == kGlu;
    finish_tile<D>(a, segment, work, shared, sums, by(a.segments[segment].w), by(a.segments[gate ? 1 : segment].w));
}
