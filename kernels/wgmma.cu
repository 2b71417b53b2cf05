// GEMM by the matrix instructions of sm_90a (wgmma), which are executed by groups of four warps and run asynchronously.
//
// Algorithm: as in `gemm.cu`, on tiles of 128 rows of a matrix, 16 per warp, and 256 tokens:
//
//     for each chunk of 32 columns: start its products; dequantize the next weights; wait for the previous chunk
//
// Optimizations:
//  1. Weights are dequantized into registers, as the left operand: a lane has eight adjacent columns of two rows,
//     because `to_halves` stores the columns of tokens in the order of the lanes' operands (`store8`).
//  2. Tokens are the right operand, which the instruction reads from swizzled shared memory (`rows_of_64_bytes`).
//  3. Two sets of registers for operands: products read one while the other is filled.
//  4. Tokens are copied `kRingAhead` chunks before their use; products may still read two further stages.
//
// Shapes: see `ProjectArgs`. Shared memory: [stage][token][32] at a multiple of 512 bytes.
#include "gemm.cuh"

#ifdef HAS_WGMMA

// Division of a tile among a block of two groups.
struct Groups {
    static constexpr u32 kRows = 128, kTokens = 256, kThreads = 256;
    static constexpr u32 kWarpRows = 16, kWarpTokens = kTokens, kAcross = 1;
    static constexpr u32 kM = 1, kN = kTokens / 8;
};

// Stages of tokens in shared memory; next, chunks copied in advance: products may still read two other stages.
constexpr u32 kRing = 8, kRingAhead = kRing - 2;
constexpr u32 kChunkHalves = Groups::kTokens * kChunk;

// Returns the descriptor for `multiply_async` of rows of 64 bytes at a multiple of 512 bytes of shared memory, with
// 16-byte parts in the order of `place` (PTX ISA, "Matrix Descriptor Format": address, offset of 8 columns, unused in
// this layout, offset of 8 rows, all in units of 16 bytes; 64-byte swizzling).
DEVICE u64 rows_of_64_bytes(const u16* rows) {
    return (shared_address(rows) & 0x3ffffu) >> 4 | 1ull << 16 | (u64)(8 * 64 >> 4) << 32 | 2ull << 62;
}

// Sums of the warp's part of a tile. Shared memory: [chunk][token][32 halves].
template <class T>
DEVICE void multiply_by_groups(const ProjectArgs& a, u32 segment, const Share& work, u16* tokens,
                               float (&sums)[Groups::kN][4]) {
    const u32 lane = threadIdx.x % kWarp, t = lane % 4, chunks = a.segments[0].w.cols / kChunk;
    const u32 begin = chunks * work.split / work.splits, end = chunks * (work.split + 1) / work.splits;
    const Copies<Groups> copies(work, chunks);
    auto fetch = [&](u32 chunk) {
        if (chunk < end) copies.start(a.halves, chunk, tokens + chunk % kRing * kChunkHalves);
        copy_async_commit();
    };
    UNROLL for (u32 c = 0; c < kRingAhead; c++) fetch(begin + c);

    // Rows g and g + 8 of the warp.
    const u32 row0 = threadIdx.x / kWarp * Groups::kWarpRows + lane / 4;
    const TileRow rows[2] = {tile_row(a, segment, work, row0), tile_row(a, segment, work, row0 + 8)};
    Raw8 raw[2];
    auto load_chunk = [&](u32 chunk) {
        UNROLL for (u32 i = 0; i < 2; i++) raw[i] = T::load8(rows[i].w, rows[i].row, chunk, t);
    };
    // Operands of a chunk: the first and the last 16 columns.
    struct Left {
        uint4 halves[2];
    };
    auto expand = [&](u32 chunk) {
        float y[2][8];
        UNROLL for (u32 i = 0; i < 2; i++) T::decode8(raw[i], chunk, t, y[i]);
        Left left;
        UNROLL for (u32 k = 0; k < 2; k++)
            left.halves[k] = {pack_halves(y[0][4 * k], y[0][4 * k + 1]), pack_halves(y[1][4 * k], y[1][4 * k + 1]),
                              pack_halves(y[0][4 * k + 2], y[0][4 * k + 3]),
                              pack_halves(y[1][4 * k + 2], y[1][4 * k + 3])};
        return left;
    };
    // Multiplies the operands of a chunk, and dequantizes the next chunk's.
    auto multiply_chunk = [&](u32 chunk, const Left& now, Left& next) {
        copy_async_wait<kRingAhead - 1>();
        fence_async();
        sync_block();
        // After the barrier: all warps have then finished the products of two chunks ago, whose tokens are overwritten.
        fetch(chunk + kRingAhead);
        const u64 right = rows_of_64_bytes(tokens + chunk % kRing * kChunkHalves);
        begin_products();
        // The last 16 columns are 32 bytes later.
        UNROLL for (u32 k = 0; k < 2; k++) multiply_async(sums, now.halves[k], right + 2 * k);
        commit_products();
        // Waits for the products of the previous chunk, whose operands are replaced.
        wait_products<1>();
        if (chunk + 1 < end) next = expand(chunk + 1);
        if (chunk + 2 < end) load_chunk(chunk + 2);
        if (chunk % 4 == 0 && chunk + 8 < end)
            UNROLL for (u32 i = 0; i < 2; i++) prefetch_ahead<T>(rows[i].w, rows[i].row, chunk + 8);
    };
    load_chunk(begin);
    // Two, because products use the registers of one until the wait of the next chunk.
    Left even = expand(begin), odd = even;
    if (begin + 1 < end) load_chunk(begin + 1);
    UNROLL_BY(1) for (u32 chunk = begin; chunk < end; chunk += 2) {
        multiply_chunk(chunk, even, odd);
        if (chunk + 1 < end) multiply_chunk(chunk + 1, odd, even);
    }
    end_products(sums);
}

KERNEL(wgmma_256, ProjectArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    u16* tokens = (u16*)(shared + (0u - shared_address(shared)) % 512);
    gemm<Groups>(a, shared, [&](auto type, u32 segment, const Share& work, float (&sums)[1][Groups::kN][4]) {
        multiply_by_groups<decltype(type)>(a, segment, work, tokens, sums[0]);
    });
}

#endif
