// GEMM by the matrix instructions of sm_90a (wgmma), which are executed by groups of four warps and run asynchronously.
//
// Algorithm: as in `gemm.cu`, on tiles of 128 rows of a matrix, 16 per warp, and 256 tokens:
//
//     for each chunk of 128 columns: for each 16 of them: start their products; dequantize the next 16 columns
//
// Optimizations:
//  1. Weights are dequantized into registers, as the left operand, two at a time (`pair` of `quant.cuh`): per chunk, a
//     lane has one block of 32 columns of two rows, because `to_halves` stores the columns of tokens in the order of
//     the lanes' operands (`store8`).
//  2. Tokens are the right operand, which the instruction reads from swizzled shared memory (`swizzled_rows`).
//  3. Two sets of registers for operands: products read one while the other is filled. The first operand of a chunk is
//     dequantized before the barrier, so that the matrix units are busy meanwhile.
//  4. Weights of the next chunk are loaded right after the barrier, almost a chunk before the next fence, which waits
//     for them. Tokens are copied almost two chunks before their use.
//
// Shapes: see `ProjectArgs`. Shared memory: [stage][part of 32 columns][token][32] at a multiple of 512 bytes, then
// [token] the offsets of input rows.
#include "gemm.cuh"

#ifdef HAS_WGMMA

// Division of a tile among a block of two groups.
struct Groups {
    static constexpr u32 kRows = 128, kTokens = 256, kThreads = 256;
    static constexpr u32 kWarpRows = 16, kWarpTokens = kTokens, kAcross = 1;
    static constexpr u32 kM = 1, kN = kTokens / 8;
};

constexpr u32 kPartHalves = Groups::kTokens * kChunk, kStageHalves = kSmallBatchChunk / kChunk * kPartHalves;

// Sums of the warp's part of a tile.
template <class T>
DEVICE void multiply_by_groups(const ProjectArgs& a, u32 segment, const Share& work, u16* tokens,
                               float (&sums)[Groups::kN][4]) {
    const u32 thread = threadIdx.x, t = thread % 4, blocks = a.segments[0].w.cols / 32, chunks = ceil_div(blocks, 4);
    // Columns are divided in pairs of chunks, so that the position of a chunk in a block of 256 columns is known.
    const u32 pairs = ceil_div(chunks, 2), begin = 2 * (pairs * work.split / work.splits),
              end = min_u32(2 * (pairs * (work.split + 1) / work.splits), chunks);
    // A warp copies the chunk of two tokens at a time, eight lanes 64 bytes of both, which are in different banks. A
    // thread's tokens are 16 apart, and the offsets of their rows are adjacent.
    const u32 part = thread / 8 % 4, place_in_part = thread % 4, first = thread / kWarp * 2 + thread / 4 % 2;
    u32* inputs = (u32*)(tokens + kGroupStages * kStageHalves);
    inputs[thread % 16 * 16 + thread / 16] = work.input(min_u32(work.token0 + thread, work.tokens - 1)) * chunks;
    sync_block();
    auto fetch = [&](u32 chunk) {
        if (chunk < end) {
            u16* to = tokens + chunk % kGroupStages * kStageHalves + part * kPartHalves;
            UNROLL for (u32 c = 0; c < Groups::kTokens / 16; c += 4) {
                const uint4 rows = load<uint4>(inputs + first * 16 + c);
                const u32 from[4] = {rows.x, rows.y, rows.z, rows.w};
                UNROLL for (u32 i = 0; i < 4; i++)
                    copy_async16(to + place((c + i) * 16 + first, place_in_part),
                                 a.halves + (u64)(from[i] + chunk) * kSmallBatchChunk + part * kChunk + place_in_part * 8);
            }
        }
        copy_async_commit();
    };
    UNROLL for (u32 i = 0; i + 1 < kGroupStages; i++) fetch(begin + i);

    struct Weights {
        typename T::Raw32 of[2];
    };
    const LaneRows<T> rows(a, work, segment, thread);
    // Pieces of a chunk, loaded one by one. After the end of a row its last columns are read again and multiplied with
    // zeros.
    constexpr u32 kPieces = T::kPieces, kProducts = 8 / kPieces;
    auto load_piece = [&](Weights& to, u32 piece) {
        const u32 block = min_u32(piece / kPieces * 4 + t, blocks - 1);
        UNROLL for (u32 r = 0; r < 2; r++) to.of[r] = T::load32(rows.of[r], 0, block, piece % kPieces);
    };
    HalfScales scales[2];
    auto set_scales = [&](const Weights& of, u32 place) {
        UNROLL for (u32 r = 0; r < 2; r++) scales[r] = T::scales32(of.of[r], 4 * place + t, rows.of[r].factor);
    };
    // The columns of product `k` of a piece: of 32 in each part of a chunk, those of index `part` and `half`.
    struct Columns {
        u32 part, half;
    };
    auto columns = [&](u32 k, u32 place) { return kPieces == 1 ? Columns{k / 2, k % 2} : Columns{k, place}; };
    auto operand = [&](const Weights& of, u32 k, u32 place) {
        const Columns c = columns(k, place);
        auto pair = [&](u32 r, u32 odd) { return T::pair(of.of[r], scales[r], c.part, c.half, odd); };
        return uint4{pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)};
    };
    uint4 left[2];
    // Multiplies a piece, whose first operand is in `left[0]`, and dequantizes the first operand of the next. `place`:
    // 0 or 1, the index of the piece in a pair: of chunks in 256 columns, or of pieces in a chunk.
    auto step = [&](u32 piece, u32 place, const Weights& now, Weights& next) {
        const u32 chunk = piece / kPieces;
        const bool begins = kPieces == 1 || place == 0, has_next = piece + 1 < end * kPieces;
        if (begins) {
            copy_async_wait<kGroupStages - 2>();
            fence_async();
            sync_block();
        }
        if (has_next) load_piece(next, piece + 1);
        const u16* stage = tokens + chunk % kGroupStages * kStageHalves;
        UNROLL for (u32 k = 0; k < kProducts; k++) {
            const Columns c = columns(k, place);
            begin_products();
            // The last 16 of 32 columns are 32 bytes later.
            multiply_async(sums, left[k % 2], swizzled_rows<64>(stage + c.part * kPartHalves, 32 * c.half));
            commit_products();
            // Waits for the previous products, whose operands are replaced.
            wait_products<1>();
            if (begins && k == 1) {
                // All warps have finished the products of the previous chunk, whose stage is overwritten.
                sync_block();
                fetch(chunk + kGroupStages - 1);
            }
            if (k + 1 < kProducts) {
                left[(k + 1) % 2] = operand(now, k + 1, place);
            } else if (has_next) {
                set_scales(next, 1 - place);
                left[0] = operand(next, 0, 1 - place);
            }
        }
    };
    Weights even, odd;
    load_piece(even, begin * kPieces);
    set_scales(even, 0);
    left[0] = operand(even, 0, 0);
    UNROLL_BY(1) for (u32 piece = begin * kPieces; piece < end * kPieces; piece += 2) {
        step(piece, 0, even, odd);
        if (piece + 1 < end * kPieces) step(piece + 1, 1, odd, even);
    }
    end_products(sums);
}

KERNEL(wgmma_256, ProjectArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    u16* tokens = (u16*)(shared + (0u - shared_address(shared)) % 512);
    gemm<Groups>(
        a, shared,
        [&](auto type, u32 segment, const Share& work, float (&sums)[1][Groups::kN][4]) {
            multiply_by_groups<decltype(type)>(a, segment, work, tokens, sums[0]);
        },
        // Values of a matrix are multiplied by 2^-24 times its factor.
        [](const DeviceMatrix& w) { return 16777216.f / w.factor; });
}

#endif
