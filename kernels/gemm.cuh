// Tiles of matrix times matrix: which part of a product a block has, its tokens in shared memory, and where its sums go.
//
// A type `D` says how the warps of a block divide a tile:
//   kRows, kTokens             rows of the matrix and tokens of the tile
//   kThreads                   of the block
//   kWarpRows, kWarpTokens     of the part of a warp
//   kAcross                    warps with the same rows
//   kM, kN                     parts of 16 rows and of 8 tokens of a warp
// Sums of a warp are [kM][kN][4], each as `mma16x8x16` has them.
#pragma once

#include "product.cuh"

constexpr u32 kChunk = 32;  // columns of a turn

// Place of 8 columns of a row in a turn: rows that `load_matrices` reads together lie in different banks.
DEVICE u32 place(u32 row, u32 part) { return row * kChunk + (part ^ (row / 2 % 4)) * 8; }

// Work of a block: some rows of a matrix times some tokens, consecutive ones or the picks of an expert.
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

// Copies of the tokens of a turn that a thread makes, into [tokens][32 halves].
template <class D> struct Copies {
    static constexpr u32 kParts = D::kTokens * 4, kTurns = (kParts + D::kThreads - 1) / D::kThreads;
    u32 from[kTurns];  // chunks ahead of the row of a token
    DEVICE_MEMBER Copies(const Share& work, u32 chunks) {
        UNROLL for (u32 i = 0; i < kTurns; i++)
            from[i] = work.input(min_u32(work.token0 + (i * D::kThreads + threadIdx.x) / 4, work.tokens - 1)) * chunks;
    }
    DEVICE_MEMBER void start(const u16* halves, u32 chunk, u16* stage) const {
        UNROLL for (u32 i = 0; i < kTurns; i++) {
            const u32 copy = i * D::kThreads + threadIdx.x;
            const u16* part = halves + (u64)(from[i] + chunk) * kChunk + copy % 4 * 8;
            if (copy < kParts) copy_async16(stage + place(copy / 4, copy % 4), part);
        }
    }
};

// Leaves the sums of the block's share of the columns of a tile in memory, at `own`; true in the last block of `shares`, with the sums
// of all, joined in order. `part(s)` is where share s is.
template <class D, class Part>
DEVICE bool join(float* own, u32* counter, u32 shares, u8* shared, float (&sums)[D::kM][D::kN][4], Part&& part) {
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
        const float4 sum = {sums[m][n][0], sums[m][n][1], sums[m][n][2], sums[m][n][3]};
        store(own + ((m * D::kN + n) * D::kThreads + threadIdx.x) * 4, sum);
    }
    if (!last_block(counter, shares, (u32*)shared)) return false;
    // Those of this block come back with the others, so that no register holds them until then.
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

// Rows of a matrix in a tile, which has as many of a gate as of the product beside it.
template <class D> DEVICE u32 rows_of(const ProjectArgs& a) { return unknown(a.epilogue) == kGlu ? D::kRows / 2 : D::kRows; }

// The share of tile `x`, and its matrix.
template <class D> DEVICE Share share_of(const ProjectArgs& a, u32 x, u32& segment) {
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
            unknown(blockIdx.y) * D::kTokens,
            a.order ? a.starts[expert + 1] - first : a.n,
            a.order ? a.order + first : nullptr,
            a.x_divisor,
            a.order ? 0 : blockIdx.z,
            a.splits};
}

// A row of a tile, and the matrix that has it: in a gate's tile eight rows of the gate stand ahead of those of the product beside it.
struct TileRow {
    const DeviceMatrix& w;
    u32 row;  // behind the end of the matrix its last one
};
DEVICE TileRow tile_row(const ProjectArgs& a, u32 segment, const Share& work, u32 r) {
    const bool gate = unknown(a.epilogue) == kGlu;
    const DeviceMatrix& w = a.segments[gate ? r / 8 % 2 : segment].w;
    return {w, work.first_row + min_u32(work.row0 + (gate ? r / 16 * 8 + r % 8 : r), w.rows - 1)};
}

// Finishes the rows of a gate's tile. A warp's sums go through shared memory, so that the loop over results holds none.
template <class D> DEVICE void finish_gates(const ProjectArgs& a, const Share& work, u8* shared, const float (&sums)[D::kM][D::kN][4]) {
    constexpr u32 kAtOnce = min_u32(8, D::kN), kStride = 16 + 1;
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
    float* values = (float*)shared + warp * 8 * kAtOnce * kStride;
    // Other warps still read what was multiplied.
    sync_block();
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 first = 0; first < D::kN; first += kAtOnce) {
        sync_warp();
        UNROLL for (u32 n = 0; n < kAtOnce; n++) UNROLL for (u32 i = 0; i < 4; i++)
            values[(8 * n + 2 * t + i % 2) * kStride + i / 2 * 8 + g] = sums[m][first + n][i];
        sync_warp();
        const u32 row = work.row0 + warp / D::kAcross * (D::kWarpRows / 2) + 8 * m + lane % 8;
        const u32 token0 = work.token0 + warp % D::kAcross * D::kWarpTokens + 8 * first;
        if (row < a.segments[0].w.rows) UNROLL_BY(1) for (u32 i = lane / 8; i < 8 * kAtOnce; i += 4) {
            const u32 token = token0 + i;
            if (token >= work.tokens) break;
            const float* of = values + i * kStride + lane % 8;
            const float scale = a.row_scales[work.input(token)];
            finish_gate(a, row, row, work.output(token), of[0] * scale, of[8] * scale);
        }
    }
}

// `multiply` adds up the products of a matrix of a type with the columns of the share.
template <class D, class Multiply> DEVICE void gemm(const ProjectArgs& a, u8* shared, Multiply&& multiply) {
    let_next_start();
    wait_for_previous();
    float sums[D::kM][D::kN][4] = {};
    {
        u32 segment;
        const Share work = share_of<D>(a, blockIdx.x, segment);
        if (work.token0 >= work.tokens) return;
        // One loop for each type, so that no load depends on a branch.
        with_type(a.segments[segment].w.type, [&](auto type) { multiply(type, segment, work, sums); });
    }
    if (a.splits > 1) {
        constexpr u32 kPart = D::kTokens * D::kRows;
        const u32 tile = blockIdx.y * gridDim.x + blockIdx.x;
        float* parts = a.parts + (u64)tile * a.splits * kPart;
        if (!join<D>(parts + blockIdx.z * kPart, a.counters + tile, a.splits, shared, sums, [&](u32 s) { return parts + s * kPart; })) return;
    }
    // Found anew, so that no register has it meanwhile.
    u32 segment;
    const Share work = share_of<D>(a, unknown(blockIdx.x), segment);
    if (unknown(a.epilogue) == kGlu) return finish_gates<D>(a, work, shared, sums);
    const Segment& s = a.segments[segment];
    const DeviceMatrix& w = s.w;
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
    const u32 row0 = work.row0 + warp / D::kAcross * D::kWarpRows + g;
    const u32 token0 = work.token0 + warp % D::kAcross * D::kWarpTokens + 2 * t;
    float bias[D::kM][2];
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 row = row0 + 16 * m + 8 * i;
        bias[m][i] = s.bias && row < w.rows ? s.bias[row] : 0.f;
    }
    const float factor = a.epilogue == kAdd || a.epilogue == kCap ? a.scale : 1.f;
    // Some at a time, so that what is read does not wait for what is written.
    constexpr u32 kAtOnce = max_u32(1, 4 / D::kM);
    UNROLL for (u32 first = 0; first < D::kN; first += kAtOnce) {
        float scales[2 * kAtOnce], before[2 * kAtOnce][D::kM][2];
        UNROLL for (u32 n = 0; n < 2 * kAtOnce; n++) {
            const u32 token = token0 + 8 * (first + n / 2) + n % 2;
            const bool has = token < work.tokens;
            scales[n] = has ? a.row_scales[work.input(token)] : 0.f;
            const float* out = s.out + (u64)work.output(has ? token : work.token0) * w.rows;
            UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 i = 0; i < 2; i++) {
                const u32 row = row0 + 16 * m + 8 * i;
                before[n][m][i] = a.epilogue == kAdd && has && row < w.rows ? out[row] : 0.f;
            }
        }
        UNROLL for (u32 n = 0; n < 2 * kAtOnce; n++) {
            const u32 token = token0 + 8 * (first + n / 2) + n % 2;
            if (token >= work.tokens) continue;
            float* out = s.out + (u64)work.output(token) * w.rows;
            UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 i = 0; i < 2; i++) {
                const u32 row = row0 + 16 * m + 8 * i;
                const float sum = fmaf(sums[m][first + n / 2][2 * i + n % 2], scales[n], bias[m][i]);
                if (row < w.rows) out[row] = fmaf(factor, sum, before[n][m][i]);
            }
        }
    }
    if (a.epilogue != kCap || a.softcap <= 0.f) return;
    // What the thread has written, in loops that hold no sums.
    UNROLL_BY(1) for (u32 i = 0; i < 2 * D::kN; i++) {
        const u32 token = token0 + i / 2 * 8 + i % 2;
        UNROLL_BY(1) for (u32 row = row0; token < work.tokens && row < min_u32(row0 + D::kWarpRows, w.rows); row += 8) {
            float& out = s.out[(u64)work.output(token) * w.rows + row];
            out = a.softcap * tanhf(out / a.softcap);
        }
    }
}
