// Matrix times matrix, for prompts.
//
// A block expands weights to binary16 once for all its tokens, 32 columns a turn: into shared memory, from where its warps read
// them and the tokens, which asynchronous copies bring, as operands of `mma`. The weights of the next turn are on their way
// meanwhile. Each input row is divided by a power of two, which keeps large activations in the range of binary16. Where there are
// few blocks, several share the columns of a tile.
#include "args.cuh"

// Converts input rows to binary16, one block a row.
KERNEL(to_halves, HalvesArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    float* scratch = (float*)shared;
    const u32 row = blockIdx.x;
    const float* x = a.x + (u64)row * a.x_stride;
    const Moments m = moments(x, a.cols, a.norm, scratch);
    float peak = 0.f;
    for (u32 i = threadIdx.x; i < a.cols; i += blockDim.x) peak = fmaxf(peak, fabsf(normalised(x[i], i, m, a.norm)));
    peak = block_max(peak, scratch);
    // The power of two below the peak, by its exponent bits; values then lie below 2. Denormal and infinite peaks keep 1.
    const u32 exponent = float_to_bits(peak) & 0x7f800000u;
    const bool usual = exponent > 0x01000000u && exponent < 0x7e000000u;
    const float scale = usual ? bits_to_float(exponent) : 1.f;
    const float inverse = usual ? bits_to_float(0x7f000000u - exponent) : 1.f;
    for (u32 i = threadIdx.x; i < a.padded; i += blockDim.x) {
        const float v = i < a.cols ? normalised(x[i], i, m, a.norm) : 0.f;
        a.halves[(u64)row * a.padded + i] = float_to_half(v * inverse);
    }
    if (threadIdx.x == 0) a.row_scales[row] = scale;
}

constexpr u32 kTileRows = 128;
constexpr u32 kChunk = 32;  // columns of a turn
constexpr u32 kStages = 4;  // turns of tokens in shared memory; there are two of weights

// How the warps of a block divide a tile, and the parts of 16 rows and 8 tokens of each.
template <u32 kTokens> struct Division {
    static constexpr u32 kWarps = kTokens > 64 ? 16 : 8, kThreads = kWarps * kWarp;
    static constexpr u32 kWarpTokens = kTokens < 32 ? kTokens : 32;
    static constexpr u32 kAcross = kTokens / kWarpTokens;  // warps with the same rows
    static constexpr u32 kWarpRows = kTileRows * kAcross / kWarps;
    static constexpr u32 kM = kWarpRows / 16, kN = kWarpTokens / 8;
};

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

// Sums of the warp's part of a tile. Shared memory: [turn][row][32 halves] of tokens, then of weights.
template <class T, u32 kTokens>
DEVICE void multiply(const ProjectArgs& a, const DeviceMatrix& w, const Share& work, u16* tokens,
                     float (&sums)[Division<kTokens>::kM][Division<kTokens>::kN][4]) {
    typedef Division<kTokens> D;
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, chunks = w.cols / kChunk;
    const u32 begin = chunks * work.split / work.splits, end = chunks * (work.split + 1) / work.splits;
    u16* weights = tokens + kStages * kTokens * kChunk;
    constexpr u32 kCopies = kTokens * 4, kTurns = (kCopies + D::kThreads - 1) / D::kThreads;
    u32 from[kTurns];
    UNROLL for (u32 i = 0; i < kTurns; i++)
        from[i] = work.input(min_u32(work.token0 + (i * D::kThreads + threadIdx.x) / 4, work.tokens - 1)) * chunks;
    auto fetch = [&](u32 chunk) {
        UNROLL for (u32 i = 0; i < kTurns; i++) {
            const u32 copy = i * D::kThreads + threadIdx.x;
            const u16* halves = a.halves + (u64)(from[i] + chunk) * kChunk + copy % 4 * 8;
            if (copy < kCopies) copy_async16(tokens + chunk % kStages * kTokens * kChunk + place(copy / 4, copy % 4), halves);
        }
    };
    UNROLL for (u32 c = 0; c + 1 < kStages; c++) {
        if (begin + c < end) fetch(begin + c);
        copy_async_commit();
    }

    // A thread expands a part of a row of a turn; behind the end the last row is read again.
    constexpr u32 kParts = kTileRows * 4 / D::kThreads;
    const u32 own = threadIdx.x / (4 / kParts), part = threadIdx.x % (4 / kParts) * kParts;
    const u32 row = work.first_row + min_u32(work.row0 + own, w.rows - 1);
    Raw8 raw[kParts];
    UNROLL for (u32 i = 0; i < kParts; i++) raw[i] = T::load8(w, row, begin, part + i);
    // Rows and parts of 8 columns that the lane gives the addresses of, of weights and of tokens.
    const u32 left_row = warp / D::kAcross * D::kWarpRows + lane % 16, left_part = lane / 16;
    const u32 right_row = warp % D::kAcross * D::kWarpTokens + lane / 16 * 8 + lane % 8, right_part = lane / 8 % 2;
    // The warp has tokens.
    const bool has_work = work.token0 + warp % D::kAcross * D::kWarpTokens < work.tokens;
    for (u32 chunk = begin; chunk < end; chunk++) {
        u16* expanded = weights + chunk % 2 * kTileRows * kChunk;
        UNROLL for (u32 i = 0; i < kParts; i++) {
            float y[8];
            T::decode8(raw[i], chunk, part + i, y);
            u32 words[4];
            UNROLL for (u32 j = 0; j < 4; j++) words[j] = pack_halves(y[2 * j], y[2 * j + 1]);
            store(expanded + place(own, part + i), uint4{words[0], words[1], words[2], words[3]});
        }
        if (chunk + 1 < end) {
            UNROLL for (u32 i = 0; i < kParts; i++) raw[i] = T::load8(w, row, chunk + 1, part + i);
            if (chunk % 4 == 0 && chunk + 8 < end) prefetch_ahead<T>(w, row, chunk + 8);
        }
        copy_async_wait<kStages - 2>();
        sync_block();
        // After the barrier, because it overwrites the stage that the turn before has read.
        if (chunk + kStages - 1 < end) fetch(chunk + kStages - 1);
        copy_async_commit();
        if (!has_work) continue;
        const u16* stage = tokens + chunk % kStages * kTokens * kChunk;
        auto matrices = [](const u16* row) {
            u32 words[4];
            load_matrices<false>(words, row);
            return uint4{words[0], words[1], words[2], words[3]};
        };
        UNROLL for (u32 k = 0; k < 2; k++) {
            uint4 right[D::kN / 2];
            // Sixteen rows further on the place is in the same banks.
            const u16* right_at = stage + place(right_row, 2 * k + right_part);
            const u16* left_at = expanded + place(left_row, 2 * k + left_part);
            UNROLL for (u32 n = 0; n < D::kN / 2; n++) right[n] = matrices(right_at + 16 * n * kChunk);
            UNROLL for (u32 m = 0; m < D::kM; m++) {
                const uint4 left = matrices(left_at + 16 * m * kChunk);
                UNROLL for (u32 n = 0; n < D::kN / 2; n++) {
                    mma16x8x16(sums[m][2 * n], left, right[n].x, right[n].y);
                    mma16x8x16(sums[m][2 * n + 1], left, right[n].z, right[n].w);
                }
            }
        }
    }
}

// Leaves the sums of the block's share of columns in memory; true in the last block of a tile, with the sums of all, joined in
// order.
template <u32 kTokens>
DEVICE bool join(const ProjectArgs& a, u32 split, u8* shared, float (&sums)[Division<kTokens>::kM][Division<kTokens>::kN][4]) {
    typedef Division<kTokens> D;
    constexpr u32 kPart = kTokens * kTileRows;
    const u32 tile = blockIdx.y * gridDim.x + blockIdx.x;
    float* parts = a.parts + (u64)tile * a.splits * kPart + 4 * threadIdx.x;
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
        const float4 sum = {sums[m][n][0], sums[m][n][1], sums[m][n][2], sums[m][n][3]};
        store(parts + split * kPart + (m * D::kN + n) * 4 * D::kThreads, sum);
    }
    if (!last_block(a.counters + tile, a.splits, (u32*)shared)) return false;
    // Those of this block come back with the others, so that no register holds them until then.
    UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
        UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] = 0.f;
    }
    for (u32 s = 0; s < a.splits; s++) {
        UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 n = 0; n < D::kN; n++) {
            const float4 sum = load<float4>(parts + s * kPart + (m * D::kN + n) * 4 * D::kThreads);
            const float v[4] = {sum.x, sum.y, sum.z, sum.w};
            UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] += v[i];
        }
    }
    return true;
}

// The share of block `x`, and its matrix.
template <u32 kTokens> DEVICE Share share_of(const ProjectArgs& a, u32 x, u32& segment) {
    u32 tile = x;
    segment = 0;
    while (segment + 1 < a.n_segments && tile >= ceil_div(a.segments[segment].w.rows, kTileRows)) {
        tile -= ceil_div(a.segments[segment].w.rows, kTileRows);
        segment++;
    }
    const u32 expert = a.order ? blockIdx.z : 0, first = a.order ? a.starts[expert] : 0;
    return {expert * a.segments[segment].w.rows,
            tile * kTileRows,
            blockIdx.y * kTokens,
            a.order ? a.starts[expert + 1] - first : a.n,
            a.order ? a.order + first : nullptr,
            a.x_divisor,
            a.order ? 0 : blockIdx.z,
            a.splits};
}

template <u32 kTokens> DEVICE void gemm(const ProjectArgs& a, u8* shared) {
    typedef Division<kTokens> D;
    let_next_start();
    wait_for_previous();
    float sums[D::kM][D::kN][4] = {};
    {
        u32 segment;
        const Share work = share_of<kTokens>(a, blockIdx.x, segment);
        if (work.token0 >= work.tokens) return;
        const DeviceMatrix& w = a.segments[segment].w;
        // One loop for each type, so that no load depends on a branch.
        with_type(w.type, [&](auto type) { multiply<decltype(type), kTokens>(a, w, work, (u16*)shared, sums); });
    }
    if (a.splits > 1 && !join<kTokens>(a, blockIdx.z, shared, sums)) return;
    // Found anew, so that no register has it meanwhile.
    u32 segment;
    const Share work = share_of<kTokens>(a, unknown(blockIdx.x), segment);
    const Segment& s = a.segments[segment];
    const DeviceMatrix& w = s.w;
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
    const u32 row0 = work.row0 + warp / D::kAcross * D::kWarpRows + g;
    const u32 token0 = work.token0 + warp % D::kAcross * D::kWarpTokens + 2 * t;
    UNROLL for (u32 n = 0; n < D::kN; n++) UNROLL for (u32 j = 0; j < 2; j++) {
        const u32 token = token0 + 8 * n + j;
        if (token >= work.tokens) continue;
        const float scale = a.row_scales[work.input(token)];
        float* out = s.out + (u64)work.output(token) * w.rows;
        UNROLL for (u32 m = 0; m < D::kM; m++) UNROLL for (u32 i = 0; i < 2; i++) {
            const u32 row = row0 + 16 * m + 8 * i;
            if (row >= w.rows) continue;
            const float sum = sums[m][n][2 * i + j] * scale + (s.bias ? s.bias[row] : 0.f);
            switch (a.epilogue) {
                case kAdd: out[row] += a.scale * sum; break;
                case kCap: out[row] = a.scale * sum; break;
                default: out[row] = sum;
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

KERNEL(gemm_16, ProjectArgs, 256, 3) {
    DYNAMIC_SHARED(shared);
    gemm<16>(a, shared);
}
KERNEL(gemm_64, ProjectArgs, 256, 2) {
    DYNAMIC_SHARED(shared);
    gemm<64>(a, shared);
}
KERNEL(gemm_256, ProjectArgs, 512, 1) {
    DYNAMIC_SHARED(shared);
    gemm<256>(a, shared);
}
