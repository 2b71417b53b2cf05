// Matrix times matrix, for prompts.
//
// Weights are expanded to binary16 in registers, in the order of the `mma` operand, each once a block: the warps of a block
// divide the rows and share the tokens, which asynchronous copies bring into shared memory. As in attention a lane of a quad
// takes 8 neighbouring columns of 32 for two `mma` of 16, on both sides, so that every load has 16 bytes. Each input row is
// divided by a power of two, which keeps large activations in the range of binary16. Where there are few blocks, several share
// the columns of a tile.
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

constexpr u32 kWarpRows = 32;
constexpr u32 kGemmWarps = 4;
constexpr u32 kChunk = 32;  // columns of a turn
constexpr u32 kStages = 4;

// Eight values of the lane's row as four words of the left operand.
template <class T> DEVICE void to_operand(const Raw8& raw, u32 chunk, u32 t, u32 (&words)[4]) {
    float y[8];
    T::decode8(raw, chunk, t, y);
    UNROLL for (u32 i = 0; i < 4; i++) words[i] = pack_halves(y[2 * i], y[2 * i + 1]);
}

// Work of a block: some rows of a matrix times some tokens, consecutive ones or the picks of an expert.
struct Share {
    u32 first_row;  // of the expert
    u32 row0;       // of the warp
    u32 token0;
    u32 tokens;        // in all
    const u32* order;  // or null
    u32 divisor;
    u32 split;  // of the columns
    u32 splits;
    DEVICE_MEMBER u32 output(u32 token) const { return order ? order[token] : token; }
    DEVICE_MEMBER u32 input(u32 token) const { return order ? order[token] / divisor : token; }
};

// Sums of the warp's rows and the block's tokens.
template <class T, u32 kTokens>
DEVICE void multiply(const ProjectArgs& a, const DeviceMatrix& w, const Share& work, u16* tokens, float (&sums)[2][kTokens / 8][4]) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, chunks = w.cols / kChunk;
    const u32 begin = chunks * work.split / work.splits, end = chunks * (work.split + 1) / work.splits;
    // Tokens of a turn: [stage][token][32 halves].
    constexpr u32 kCopies = kTokens * 4, kThreads = kGemmWarps * kWarp, kTurns = (kCopies + kThreads - 1) / kThreads;
    u32 from[kTurns];
    UNROLL for (u32 i = 0; i < kTurns; i++)
        from[i] = work.input(min_u32(work.token0 + (i * kThreads + threadIdx.x) / 4, work.tokens - 1)) * chunks;
    auto fetch = [&](u32 chunk) {
        UNROLL for (u32 i = 0; i < kTurns; i++) {
            const u32 copy = i * kThreads + threadIdx.x;
            const u16* halves = a.halves + (u64)(from[i] + chunk) * kChunk + threadIdx.x % 4 * 8;
            if (copy < kCopies) copy_async16(tokens + (chunk % kStages * kCopies + copy) * 8, halves);
        }
    };
    UNROLL for (u32 c = 0; c + 1 < kStages; c++) {
        if (begin + c < end) fetch(begin + c);
        copy_async_commit();
    }

    // Rows g and g + 8 of two tiles of 16; behind the end the last row is read again.
    u32 rows[4];
    UNROLL for (u32 i = 0; i < 4; i++) rows[i] = work.first_row + min_u32(work.row0 + 8 * i + g, w.rows - 1);
    Raw8 raw[4];
    UNROLL for (u32 i = 0; i < 4; i++) raw[i] = T::load8(w, rows[i], begin, t);
    for (u32 chunk = begin; chunk < end; chunk++) {
        u32 left[4][4];
        UNROLL for (u32 i = 0; i < 4; i++) to_operand<T>(raw[i], chunk, t, left[i]);
        if (chunk + 1 < end) {
            UNROLL for (u32 i = 0; i < 4; i++) raw[i] = T::load8(w, rows[i], chunk + 1, t);
        }
        copy_async_wait<kStages - 2>();
        sync_block();
        // After the barrier, because it overwrites the stage that the turn before has read.
        if (chunk + kStages - 1 < end) fetch(chunk + kStages - 1);
        copy_async_commit();
        const u16* stage = tokens + chunk % kStages * kTokens * 32;
        UNROLL for (u32 n = 0; n < kTokens / 8; n++) {
            const uint4 right = load<uint4>(stage + (8 * n + g) * 32 + 8 * t);
            UNROLL for (u32 m = 0; m < 2; m++) {
                const uint4 first = {left[2 * m][0], left[2 * m + 1][0], left[2 * m][1], left[2 * m + 1][1]};
                const uint4 second = {left[2 * m][2], left[2 * m + 1][2], left[2 * m][3], left[2 * m + 1][3]};
                mma16x8x16(sums[m][n], first, right.x, right.y);
                mma16x8x16(sums[m][n], second, right.z, right.w);
            }
        }
    }
}

// Leaves the sums of the block's share of columns in memory; true in the last block of a tile, with the sums of all, joined in
// order.
template <u32 kTokens> DEVICE bool join(const ProjectArgs& a, u32 split, u8* shared, float (&sums)[2][kTokens / 8][4]) {
    constexpr u32 kThreads = kGemmWarps * kWarp, kPart = kTokens * kWarpRows * kGemmWarps;
    const u32 tile = blockIdx.y * gridDim.x + blockIdx.x;
    float* parts = a.parts + (u64)tile * a.splits * kPart + 4 * threadIdx.x;
    UNROLL for (u32 m = 0; m < 2; m++) UNROLL for (u32 n = 0; n < kTokens / 8; n++) {
        const float4 sum = {sums[m][n][0], sums[m][n][1], sums[m][n][2], sums[m][n][3]};
        store(parts + split * kPart + (m * (kTokens / 8) + n) * 4 * kThreads, sum);
    }
    if (!last_block(a.counters + tile, a.splits, (u32*)shared)) return false;
    for (u32 s = 0; s < a.splits; s++) {
        UNROLL for (u32 m = 0; m < 2; m++) UNROLL for (u32 n = 0; n < kTokens / 8; n++) {
            const float4 sum = load<float4>(parts + s * kPart + (m * (kTokens / 8) + n) * 4 * kThreads);
            const float v[4] = {sum.x, sum.y, sum.z, sum.w};
            UNROLL for (u32 i = 0; i < 4; i++) sums[m][n][i] = s == 0 ? v[i] : sums[m][n][i] + v[i];
        }
    }
    return true;
}

template <u32 kTokens> DEVICE void gemm(const ProjectArgs& a, u8* shared) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    let_next_start();
    u32 segment = 0, tile = blockIdx.x;
    while (segment + 1 < a.n_segments && tile >= ceil_div(a.segments[segment].w.rows, kWarpRows * kGemmWarps)) {
        tile -= ceil_div(a.segments[segment].w.rows, kWarpRows * kGemmWarps);
        segment++;
    }
    const Segment& s = a.segments[segment];
    const DeviceMatrix& w = s.w;
    wait_for_previous();
    const u32 expert = a.order ? blockIdx.z : 0, first = a.order ? a.starts[expert] : 0;
    const Share work = {expert * w.rows,
                       (tile * kGemmWarps + threadIdx.x / kWarp) * kWarpRows,
                       blockIdx.y * kTokens,
                       a.order ? a.starts[expert + 1] - first : a.n,
                       a.order ? a.order + first : nullptr,
                       a.x_divisor,
                       a.order ? 0 : blockIdx.z,
                       a.splits};
    if (work.token0 >= work.tokens) return;
    float sums[2][kTokens / 8][4] = {};
    // One loop for each type, so that no load depends on a branch.
    with_type(w.type, [&](auto type) { multiply<decltype(type), kTokens>(a, w, work, (u16*)shared, sums); });

    // The largest tiles are taken where there are enough.
    if (kTokens <= 64 && a.splits > 1 && !join<kTokens>(a, work.split, shared, sums)) return;

    UNROLL for (u32 n = 0; n < kTokens / 8; n++) UNROLL for (u32 j = 0; j < 2; j++) {
        const u32 token = work.token0 + 8 * n + 2 * t + j;
        if (token >= work.tokens) continue;
        const float scale = a.row_scales[work.input(token)];
        float* out = s.out + (u64)work.output(token) * w.rows;
        UNROLL for (u32 m = 0; m < 2; m++) UNROLL for (u32 i = 0; i < 2; i++) {
            const u32 row = work.row0 + 16 * m + g + 8 * i;
            if (row >= w.rows) continue;
            const float sum = sums[m][n][2 * i + j] * scale + (s.bias ? s.bias[row] : 0.f);
            switch (a.epilogue) {
                case kAdd: out[row] += a.scale * sum; break;
                case kCap: out[row] = a.softcap > 0.f ? a.softcap * tanhf(a.scale * sum / a.softcap) : a.scale * sum; break;
                default: out[row] = sum;
            }
        }
    }
}

KERNEL(gemm_16, ProjectArgs, 128, 3) {
    DYNAMIC_SHARED(shared);
    gemm<16>(a, shared);
}
KERNEL(gemm_64, ProjectArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    gemm<64>(a, shared);
}
KERNEL(gemm_128, ProjectArgs, 128, 1) {
    DYNAMIC_SHARED(shared);
    gemm<128>(a, shared);
}
