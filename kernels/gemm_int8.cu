// GEMM for prefill by products of signed bytes, for types with blocks, on GPUs where `HAS_FAST_BYTES`.
//
// Algorithm: as in `gemm.cu`, on input that `to_halves` rounds to signed bytes as `gemv.cu` does, with a scale per 32
// columns (`ColumnOrder::Bytes`):
//
//     for each chunk of 64 columns, for each 32 of them:
//         sums += (weights * tokens, in integers) * scale of the row * scale of the token + minimum of the row * sum of
//                 the token
//
// Optimizations, beyond those of `gemm.cu`:
//  1. Quants are the operands themselves: a thread expands 32 of them by a few operations on words.
//  2. Integer products begin with the bits of 1.5 * 2^23, so that their results are floats that need no conversion: a
//     multiply-add with the row's scale removes this number exactly, a second one multiplies with the token's scale.
//
// Shapes: see `ProjectArgs`. Shared memory: [stage] of tokens, each [token][64] bytes and [token][2] `TokenScale`; then
// [2] of weights, each [row][64] bytes and [2][row] `RowScale`; then [token] the offsets of input rows.
#include "gemm.cuh"

#ifdef HAS_FAST_BYTES

// Of 32 columns of a row: scales of the first and of the last 16, or their scale and minimum.
struct alignas(16) RowScale {
    float scale;
    float less;  // -1.5 * 2^23 * scale
    float second;  // scale, or minimum
    float second_less;
};

// Division of a tile among a block.
struct ByteDivision {
    static constexpr u32 kRows = 128, kTokens = 256, kThreads = 256;
    static constexpr u32 kWarpRows = 128, kWarpTokens = 32, kAcross = kTokens / kWarpTokens;
    static constexpr u32 kM = kWarpRows / 16, kN = kWarpTokens / 8;
};

constexpr u32 kTokenBytes = ByteDivision::kTokens * kByteChunk, kTokenStage = kTokenBytes + ByteDivision::kTokens * 16;
constexpr u32 kWeightBytes = ByteDivision::kRows * kByteChunk, kWeightStage = kWeightBytes + ByteDivision::kRows * 32;

// The byte of 16 columns of a row in a chunk.
DEVICE u32 place_of_bytes(u32 row, u32 part) { return 2 * place(row, part); }

// Sums of the warp's part of a tile.
template <class T, class D>
DEVICE void multiply_bytes(const ProjectArgs& a, u32 segment, const Share& work, u8* tokens,
                           float (&sums)[D::kM][D::kN][4]) {
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const u32 blocks = a.segments[0].w.cols / 32, chunks = ceil_div(blocks, 2);
    const u32 begin = chunks * work.split / work.splits, end = chunks * (work.split + 1) / work.splits;
    u8* weights = tokens + kByteStages * kTokenStage;
    // The offsets of input rows, in 16 bytes. A thread copies parts of tokens that are 64 apart, whose offsets are
    // adjacent, and the scales of one token.
    u32* offsets = (u32*)(weights + 2 * kWeightStage);
    auto own_token = [&](u32 thread) { return offsets + thread % 64 * 4 + thread / 64; };
    const u32 input = work.input(min_u32(work.token0 + threadIdx.x, work.tokens - 1));
    *own_token(threadIdx.x) = input * chunks * (kByteChunk / 16 + 1);
    sync_block();
    auto fetch = [&](u32 chunk) {
        if (chunk < end) {
            u8* stage = tokens + chunk % kByteStages * kTokenStage;
            const u8* bytes = (const u8*)a.halves;
            // Computed anew for each chunk, because products leave no registers.
            const u32 thread = unknown(threadIdx.x), first = thread / 4, part = thread % 4;
            const uint4 at = load<uint4>(offsets + first * 4);
            const u32 rows[4] = {at.x, at.y, at.z, at.w};
            UNROLL for (u32 i = 0; i < 4; i++) {
                const u64 from = rows[i] + 4 * chunk + part;
                copy_async16(stage + place_of_bytes(i * 64 + first, part), bytes + from * 16);
            }
            // Scales follow the row.
            const u64 from = *own_token(thread) + 4 * chunks + chunk;
            copy_async16(stage + kTokenBytes + 16 * thread, bytes + from * 16);
        }
        copy_async_commit();
    };
    UNROLL for (u32 c = 0; c + 1 < kByteStages; c++) fetch(begin + c);

    // Each thread expands a block of a row of a chunk. After the end of a row, its last block is read again and
    // multiplied with zeros.
    const u32 block = threadIdx.x % 2;
    const TileRow tile = tile_row(a, segment, work, threadIdx.x / 2);
    const DeviceMatrix& w = tile.w;
    const u32 row = tile.row;
    auto load_chunk = [&](u32 chunk) { return T::load32(w, row, min_u32(2 * chunk + block, blocks - 1), 0); };
    typename T::Raw32 raw = load_chunk(begin);
    // Row and group of 16 columns whose address this lane passes, for weights and for tokens.
    const u32 left_row = warp / D::kAcross * D::kWarpRows + lane % 16, left_part = lane / 16;
    const u32 right_row = warp % D::kAcross * D::kWarpTokens + lane / 16 * 8 + lane % 8, right_part = lane / 8 % 2;
    // The first row and the first token of this lane's sums.
    const u32 sum_row = warp / D::kAcross * D::kWarpRows + lane / 4;
    const u32 sum_token = warp % D::kAcross * D::kWarpTokens + lane % 4 * 2;
    // True if the warp has tokens.
    const bool has_work = work.token0 + warp % D::kAcross * D::kWarpTokens < work.tokens;
    UNROLL_BY(1) for (u32 chunk = begin; chunk < end; chunk++) {
        u8* expanded = weights + chunk % 2 * kWeightStage;
        const u32 own = unknown(threadIdx.x) / 2;
        UNROLL for (u32 i = 0; i < 2; i++) store(expanded + place_of_bytes(own, 2 * block + i), T::bytes16(raw, i));
        const Scales s = T::scales_of(raw, 2 * chunk + block);
        RowScale to = {s.d, -kWhole * s.d, s.m, 0.f};
        if (T::kHalves) {
            const float d[2] = {s.d * (float)s.halves[0], s.d * (float)s.halves[1]};
            to = {d[0], -kWhole * d[0], d[1], -kWhole * d[1]};
        }
        store(expanded + kWeightBytes + (block * D::kRows + own) * 16, to);
        if (chunk + 1 < end) {
            raw = load_chunk(chunk + 1);
            if (chunk % 2 == 0 && chunk + 4 < end) prefetch_ahead<T>(w, row, 2 * chunk + 8);
        }
        copy_async_wait<kByteStages - 2>();
        sync_block();
        // After the barrier, because it overwrites the stage that the previous chunk has read.
        fetch(chunk + kByteStages - 1);
        if (!has_work) continue;
        const u8* stage = tokens + chunk % kByteStages * kTokenStage;
        auto matrices = [](const u8* row) {
            u32 words[4];
            load_matrices<false>(words, row);
            return uint4{words[0], words[1], words[2], words[3]};
        };
        UNROLL_BY(1) for (u32 k = 0; k < 2; k++) {
            uint4 right[D::kN / 2];
            TokenScale by[D::kN][2];
            const u8* right_at = stage + place_of_bytes(right_row, 2 * k + right_part);
            const u8* left_at = expanded + place_of_bytes(left_row, 2 * k + left_part);
            UNROLL for (u32 n = 0; n < D::kN / 2; n++) right[n] = matrices(right_at + 16 * n * kByteChunk);
            UNROLL for (u32 n = 0; n < D::kN; n++) UNROLL for (u32 i = 0; i < 2; i++)
                by[n][i] = load<TokenScale>(stage + kTokenBytes + (sum_token + 8 * n + i) * 16 + 8 * k);
            UNROLL for (u32 m = 0; m < D::kM; m++) {
                if (T::kMinima) keep_order_of_loads();
                const uint4 left = matrices(left_at + 16 * m * kByteChunk);
                RowScale rows[2];
                UNROLL for (u32 r = 0; r < 2; r++)
                    rows[r] = load<RowScale>(expanded + kWeightBytes + (k * D::kRows + sum_row + 16 * m + 8 * r) * 16);
                UNROLL for (u32 n = 0; n < D::kN; n++) {
                    const uint4& pair = right[n / 2];
                    const u32 b0 = n % 2 ? pair.z : pair.x, b1 = n % 2 ? pair.w : pair.y;
                    i32 first[4], last[4];
                    if (T::kHalves) {
                        mma16x8x16(first, left.x, left.y, b0, kWholeBits);
                        mma16x8x16(last, left.z, left.w, b1, kWholeBits);
                    } else {
                        mma16x8x32(first, left, b0, b1, kWholeBits);
                    }
                    UNROLL for (u32 i = 0; i < 4; i++) {
                        const RowScale& s = rows[i / 2];
                        const TokenScale& x = by[n][i % 2];
                        float& sum = sums[m][n][i];
                        float scaled = fmaf(bits_to_float((u32)first[i]), s.scale, s.less);
                        if (T::kHalves) scaled += fmaf(bits_to_float((u32)last[i]), s.second, s.second_less);
                        sum = fmaf(scaled, x.scale, sum);
                        if (T::kMinima) sum = fmaf(s.second, x.sum, sum);
                    }
                }
            }
        }
    }
}

KERNEL(gemm_int8, ProjectArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    gemm<ByteDivision>(
        a, shared,
        [&](auto type, u32 segment, const Share& work, float (&sums)[ByteDivision::kM][ByteDivision::kN][4]) {
            // The host launches this kernel only for types with blocks.
            if constexpr (!decltype(type)::kFloat)
                multiply_bytes<decltype(type), ByteDivision>(a, segment, work, shared, sums);
        },
        [](const DeviceMatrix&) { return 1.f; });
}

#endif
