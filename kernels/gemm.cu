// Matrix times matrix, for prompts.
//
// A block expands weights to binary16 once for all its tokens, 32 columns a turn: into shared memory, from where its warps read
// them and the tokens, which asynchronous copies bring, as operands of `mma`. The weights of the next turn are on their way
// meanwhile. Each input row is divided by a power of two, which keeps large activations in the range of binary16. Where there are
// few blocks, several share the columns of a tile.
#include "gemm.cuh"

// Place of a column among 32 where the lanes of a quad have 8 neighbouring columns of the left operand each: 2t and 2t + 1, then 8
// further on, of the first 16 places and of the last.
DEVICE u32 ordered_place(u32 col) { return col / 4 % 2 * 16 + col / 2 % 2 * 8 + col / 8 % 4 * 2 + col % 2; }
// Place of a column among 128 where the lanes of a quad have 32 neighbouring columns each: a column and that two further on are
// neighbours, as `tiny` of quant.cuh has them, those of an odd column 8 places on, and each 16 places have four columns of each lane.
DEVICE u32 few_place(u32 col) { return col / 4 % 4 * 32 + col / 16 % 2 * 16 + col % 2 * 8 + col / 32 % 4 * 2 + col / 2 % 2; }
DEVICE u32 place_of(u32 col, u32 order) {
    if (order == kForFew) return col / 128 * 128 + few_place(col);
    return order == kForGroups ? col / 32 * 32 + ordered_place(col) : col;
}

constexpr u32 kHalvesThreads = 512;
// Columns that a thread of `to_halves` keeps.
constexpr u32 kKept = 32;

// Calls `f` with each column of the thread and its value, which may be changed where it is kept.
template <class F> DEVICE void each_column(float (&kept)[kKept], const float* x, u32 cols, F&& f) {
    UNROLL for (u32 i = 0; i < kKept; i++) {
        if (kHalvesThreads * i >= cols) break;
        const u32 col = kHalvesThreads * i + threadIdx.x;
        if (col < cols) f(col, i, kept[i]);
    }
    for (u32 col = kHalvesThreads * kKept + threadIdx.x; col < cols; col += kHalvesThreads) {
        float value = x[col];
        f(col, kKept, value);
    }
}

// Converts input rows to binary16, one block a row.
KERNEL(to_halves, HalvesArgs, 512, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    float* scratch = (float*)shared;
    const u32 row = blockIdx.x;
    const float* x = a.x + (u64)row * a.x_stride;
    // All loads are on their way at once, those of weights ahead of the wait.
    float kept[kKept], weights[kKept];
    each_column(weights, a.norm.weight, a.norm.kind != kNoNorm && a.norm.weight ? min_u32(a.cols, kHalvesThreads * kKept) : 0,
                [&](u32 col, u32, float& weight) { weight = load_shared_weights<float>(a.norm.weight + col); });
    wait_for_previous();
    each_column(kept, x, min_u32(a.cols, kHalvesThreads * kKept), [&](u32 col, u32, float& value) { value = x[col]; });
    Moments m = {0.f, 1.f};
    if (a.norm.kind == kLayer) {
        float sum = 0.f;
        each_column(kept, x, a.cols, [&](u32, u32, float value) { sum += value; });
        m.mean = block_sum(sum, scratch) / (float)a.cols;
    }
    if (a.norm.kind != kNoNorm) {
        float squares = 0.f;
        each_column(kept, x, a.cols, [&](u32, u32, float value) { squares = fmaf(value - m.mean, value - m.mean, squares); });
        m.inverse = 1.f / sqrtf(block_sum(squares, scratch) / (float)a.cols + a.norm.eps);
    }
    auto result = [&](u32 col, u32 i, float value) {
        if (a.norm.kind == kNoNorm) return value;
        const float y = (value - m.mean) * m.inverse, weight = !a.norm.weight ? 1.f : i < kKept ? weights[i] : a.norm.weight[col];
        return a.norm.bias ? fmaf(y, weight, a.norm.bias[col]) : y * weight;
    };
    float peak = 0.f;
    each_column(kept, x, a.cols, [&](u32 col, u32 i, float& value) {
        value = result(col, i, value);
        peak = fmaxf(peak, fabsf(value));
    });
    peak = block_max(peak, scratch);
    // The power of two below the peak, by its exponent bits; values then lie below 2. Denormal and infinite peaks keep 1.
    const u32 exponent = float_to_bits(peak) & 0x7f800000u;
    const bool usual = exponent > 0x01000000u && exponent < 0x7e000000u;
    const float scale = usual ? bits_to_float(exponent) : 1.f;
    const float inverse = usual ? bits_to_float(0x7f000000u - exponent) : 1.f;
    u16* halves = a.halves + (u64)row * a.padded;
    each_column(kept, x, a.cols, [&](u32 col, u32 i, float value) {
        halves[place_of(col, a.order)] = float_to_half((i < kKept ? value : result(col, i, value)) * inverse);
    });
    for (u32 col = a.cols + threadIdx.x; col < a.padded; col += kHalvesThreads) halves[place_of(col, a.order)] = 0;
    if (threadIdx.x == 0) a.row_scales[row] = scale;
}

constexpr u32 kStages = 4;  // turns of tokens in shared memory; there are two of weights

struct Division {
    static constexpr u32 kRows = 128, kTokens = 256, kThreads = 512;
    static constexpr u32 kWarpRows = 64, kWarpTokens = 32, kAcross = kTokens / kWarpTokens;
    static constexpr u32 kM = kWarpRows / 16, kN = kWarpTokens / 8;
};

// Sums of the warp's part of a tile. Shared memory: [turn][row][32 halves] of tokens, then of weights.
template <class T, class D>
DEVICE void multiply(const ProjectArgs& a, u32 segment, const Share& work, u16* tokens, float (&sums)[D::kM][D::kN][4]) {
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, chunks = a.segments[0].w.cols / kChunk;
    const u32 begin = chunks * work.split / work.splits, end = chunks * (work.split + 1) / work.splits;
    u16* weights = tokens + kStages * D::kTokens * kChunk;
    const Copies<D> copies(work, chunks);
    auto fetch = [&](u32 chunk) { copies.start(a.halves, chunk, tokens + chunk % kStages * D::kTokens * kChunk); };
    UNROLL for (u32 c = 0; c + 1 < kStages; c++) {
        if (begin + c < end) fetch(begin + c);
        copy_async_commit();
    }

    // A thread expands a part of a row of a turn.
    constexpr u32 kParts = D::kRows * 4 / D::kThreads;
    const u32 own = threadIdx.x / (4 / kParts), part = threadIdx.x % (4 / kParts) * kParts;
    const TileRow tile = tile_row(a, segment, work, own);
    const DeviceMatrix& w = tile.w;
    const u32 row = tile.row;
    Raw8 raw[kParts];
    UNROLL for (u32 i = 0; i < kParts; i++) raw[i] = T::load8(w, row, begin, part + i);
    // Rows and parts of 8 columns that the lane gives the addresses of, of weights and of tokens.
    const u32 left_row = warp / D::kAcross * D::kWarpRows + lane % 16, left_part = lane / 16;
    const u32 right_row = warp % D::kAcross * D::kWarpTokens + lane / 16 * 8 + lane % 8, right_part = lane / 8 % 2;
    // The warp has tokens.
    const bool has_work = work.token0 + warp % D::kAcross * D::kWarpTokens < work.tokens;
    for (u32 chunk = begin; chunk < end; chunk++) {
        u16* expanded = weights + chunk % 2 * D::kRows * kChunk;
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
        const u16* stage = tokens + chunk % kStages * D::kTokens * kChunk;
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

KERNEL(gemm_256, ProjectArgs, 512, 1) {
    DYNAMIC_SHARED(shared);
    typedef Division D;
    gemm<D>(a, shared, [&](auto type, u32 segment, const Share& work, float (&sums)[D::kM][D::kN][4]) {
        multiply<decltype(type), D>(a, segment, work, (u16*)shared, sums);
    });
}
