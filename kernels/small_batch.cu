// GEMM with few input rows, up to 64, in tiles of 128 rows of a matrix.
//
//     for each tile of the block, or part of one: for each chunk of 128 columns:
//         expand the weights of the chunk in registers; sums += weights * tokens
//     join the parts of a tile in order; out = epilogue(sums * row_scales)
//
// Bound by the bandwidth of reading weights.
//
// Optimizations:
//  1. Each weight is read once, dequantized in registers as the left operand of `mma` or `wgmma`, and used for all
//     input rows. A warp has 16 rows of a matrix, or 8 rows each of gate and up. Per chunk, a lane dequantizes one
//     block of 32 columns of two rows, because `to_halves` stores the columns of tokens in the order of the lanes'
//     operands (`store8`).
//  2. Tokens are copied to shared memory asynchronously, `kChunkStages` chunks deep.
//  3. Weights are prefetched into the L2 cache some chunks before their use, and loaded one chunk before.
//  4. The columns of all tiles are divided evenly among the blocks (`Deal`): a block has parts of several tiles, and a
//     tile is divided among several blocks.
//  5. Quants are extracted as denormal binary16, two at a time; one fused multiply-add converts them to two weights
//     (`pair` of `quant.cuh`).
//
//  6. On sm_90a, `wgmma` reads tokens from shared memory itself and multiplies 32 or 64 of them by one instruction per
//     16 columns, while the warp dequantizes the next columns. For 16 tokens, its descriptors and fences take more
//     instructions than it saves.
//
// Invariants: results of the kernels with `mma` are batch-invariant.
//
// Shapes: see `ProjectArgs`. Shared memory: [stage][half of 64 columns][token][64], for `wgmma` at a multiple of 1,024
// bytes. Grid: (blocks, groups of tokens, experts).
#include "gemm.cuh"

constexpr u32 kChunkStages = 4;      // chunks of tokens in shared memory
constexpr u32 kSwizzledBytes = 1024;  // 8 rows of 128 bytes, at a multiple of which tokens lie for `wgmma`

// `P`: the instruction that multiplies, `Mma` or `Wgmma`.
template <u32 kBlockTokens, template <class> class P> struct SmallBatchTile {
    static constexpr u32 kRows = 128, kTokens = kBlockTokens, kThreads = 256;
    static constexpr u32 kWarpRows = 16, kWarpTokens = kTokens, kAcross = 1;
    static constexpr u32 kM = 1, kN = kTokens / 8;
    static constexpr u32 kStage = kTokens * kSmallBatchChunk;
    typedef P<SmallBatchTile> Products;
};

// Offset of 8 columns of a token in a stage. Rows that `load_matrices` reads together are in different banks; the order
// is also the 128-byte swizzling of `wgmma`.
template <class D> DEVICE u32 place_in_stage(u32 token, u32 part) {
    return (part / 8 * D::kTokens + token) * 64 + (part % 8 ^ token % 8) * 8;
}

// Products of a warp, of operands with 16 columns each: those at `Columns::place` of a stage.
struct Columns {
    u32 part, half;  // of four parts of 32 columns, the first or the last half
    DEVICE_MEMBER u32 place() const { return 2 * (part % 2) + half; }  // among 64 columns
};
template <class D> struct Mma {
    static constexpr u32 kAhead = kChunkStages - 1;  // chunks of tokens that are copied in advance
    static constexpr u32 kGroup = 1, kSets = 1;      // operands that are multiplied together; sets of them
    static constexpr u32 kMostWords = 16;            // size of a row's part that is loaded in advance
    uint4 left[kSets][kGroup];
    u32 place0;  // of the first columns whose address this lane passes; offsets of others differ in some bits
    DEVICE_MEMBER Mma(u32 lane) : place0(place_in_stage<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2)) {}
    // Between the end of copies and the barrier.
    DEVICE_MEMBER void order_copies() const {}
    template <class Of>
    DEVICE_MEMBER void multiply(float (&sums)[D::kN][4], u32, const u16* stage, Of&& columns) const {
        const Columns c = columns(0);
        const u16* at = stage + (place0 ^ c.place() * 16) + c.part / 2 * D::kTokens * 64;
        UNROLL for (u32 n = 0; n < D::kN / 2; n++) {
            u32 right[4];
            load_matrices<false>(right, at + 16 * n * 64);
            mma16x8x16(sums[2 * n], left[0][0], right[0], right[1]);
            mma16x8x16(sums[2 * n + 1], left[0][0], right[2], right[3]);
        }
    }
    DEVICE_MEMBER void end(float (&)[D::kN][4]) const {}
};

#ifdef HAS_WGMMA
template <class D> struct Wgmma {
    // Products of the previous chunk may still read its stage.
    static constexpr u32 kAhead = kChunkStages - 2;
    // Products read one set while the other is filled.
    static constexpr u32 kGroup = D::kTokens == 64 ? 2 : 4, kSets = 2;
    static constexpr u32 kMostWords = 12;  // all types but F32, so that 128 registers suffice
    uint4 left[kSets][kGroup];
    DEVICE_MEMBER Wgmma(u32) {}
    DEVICE_MEMBER void order_copies() const { fence_async(); }
    template <class Of>
    DEVICE_MEMBER void multiply(float (&sums)[D::kN][4], u32 set, const u16* stage, Of&& columns) const {
        begin_products();
        UNROLL for (u32 j = 0; j < kGroup; j++) {
            const Columns c = columns(j);
            const u64 right = swizzled_rows<128>(stage, c.part / 2 * D::kTokens * 128 + c.place() * 32);
            multiply_async(sums, left[set][j], right);
        }
        commit_products();
        // Waits for the previous group, whose operands are replaced.
        wait_products<1>();
    }
    DEVICE_MEMBER void end(float (&sums)[D::kN][4]) const { end_products(sums); }
};
#endif

// Prefetches the rows of a warp into the L2 cache. A quad has two rows; each lane prefetches 128 of 256 bytes of one.
template <class T> struct Ahead {
    // Bytes of plane p per chunk; next, the prefetch distance in bytes.
    static DEVICE_MEMBER constexpr u32 bytes(u32 p) {
        return (T::kPlanes >> (8 * p) & 255u) * kSmallBatchChunk / T::kBlock;
    }
    static DEVICE_MEMBER constexpr u32 distance(u32 p) {
        return p == 0 ? 1024 : max_u32(256, 1024 * bytes(p) / bytes(0));
    }
    static DEVICE_MEMBER void ask(u32 t, const DeviceMatrix (&rows)[2], u32 p, u32 at, u32 end) {
        const u32 own = at + t / 2 * 128;
        if (own < min_u32(end * 4, rows[0].cols / 32) * bytes(p) / 4)
            prefetch_l2((t % 2 ? rows[1].planes[p] : rows[0].planes[p]) + own);
    }
    static DEVICE_MEMBER void first(u32 t, const DeviceMatrix (&rows)[2], u32 begin, u32 end) {
        UNROLL for (u32 p = 0; p < 4; p++) {
            if (bytes(p) > 0)
                UNROLL_BY(1) for (u32 at = 0; at <= distance(p); at += 256)
                    ask(t, rows, p, begin * bytes(p) / 256 * 256 + at, end);
        }
    }
    // Prefetches for the chunk that begins, `chunk`.
    static DEVICE_MEMBER void next(u32 t, const DeviceMatrix (&rows)[2], u32 chunk, u32 end) {
        UNROLL for (u32 p = 0; p < 4; p++) {
            if (bytes(p) == 0 || chunk * bytes(p) % 256 != 0) continue;
            UNROLL for (u32 at = 0; at < max_u32(256, bytes(p)); at += 256)
                ask(t, rows, p, chunk * bytes(p) + distance(p) + at, end);
        }
    }
};

// Computes the sums of the warp's part of a tile, two rows per lane.
template <class T, class D>
DEVICE void multiply_small_batch(u32 thread, const ProjectArgs& a, const DeviceMatrix (&rows)[2], const Share& work,
                                 u32 begin, u32 end, u16* tokens, float (&sums)[D::kN][4]) {
    typedef typename D::Products Products;
    const u32 t = thread % 4, blocks = rows[0].cols / 32;
    // Number of lanes that copy a token together, at least a line of 128 bytes.
    constexpr u32 kLanes = max_u32(8, D::kThreads / D::kTokens), kCopies = 16 / kLanes, kAtOnce = D::kThreads / kLanes;
    u32 from[D::kTokens / kAtOnce];  // chunks before the token
    UNROLL for (u32 i = 0; i < D::kTokens / kAtOnce; i++) {
        const u32 token = min_u32(work.token0 + i * kAtOnce + thread / kLanes, work.tokens - 1);
        from[i] = work.input(token) * ceil_div(blocks, 4);
    }
    auto fetch = [&](u32 chunk) {
        if (chunk < end)
            UNROLL for (u32 i = 0; i < D::kTokens / kAtOnce; i++) UNROLL for (u32 c = 0; c < kCopies; c++) {
                const u32 token = i * kAtOnce + thread / kLanes, part = c * kLanes + thread % kLanes;
                copy_async16(tokens + chunk % kChunkStages * D::kStage + place_in_stage<D>(token, part),
                             a.halves + (u64)(from[i] + chunk) * kSmallBatchChunk + part * 8);
            }
        copy_async_commit();
    };
    UNROLL for (u32 i = 0; i < Products::kAhead; i++) fetch(begin + i);

    struct Raw {
        typename T::Raw32 of[2];
    };
    // Pieces of a chunk, loaded one by one. After the end of a row its last columns are read again and multiplied with
    // zeros.
    constexpr u32 kPieces = T::kPieces;
    auto load_piece = [&](Raw& raw, u32 piece) {
        const u32 block = min_u32(piece / kPieces * 4 + t, blocks - 1);
        UNROLL for (u32 r = 0; r < 2; r++) raw.of[r] = T::load32(rows[r], 0, block, piece % kPieces);
    };
    Products products(thread % kWarp);
    constexpr bool kInAdvance = sizeof(typename T::Raw32) <= 4 * Products::kMostWords;
    // `place`: 0 or 1, the index of the piece in a pair: of chunks in 256 columns, or of pieces in a chunk.
    auto step = [&](u32 piece, u32 place, Raw& raw, Raw& next) {
        const u32 chunk = piece / kPieces;
        if (piece % kPieces == 0) {
            copy_async_wait<Products::kAhead - 1>();
            products.order_copies();
            sync_block();
        }
        // After the barrier, so that no load is pending at the next `order_copies`.
        if (!kInAdvance) load_piece(raw, piece);
        else if (piece + 1 < end * kPieces) load_piece(next, piece + 1);
        if (piece % kPieces == 0) {
            Ahead<T>::next(t, rows, chunk, end);
            // Overwrites a stage that all warps have read.
            fetch(chunk + Products::kAhead);
        }
        const u16* stage = tokens + chunk % kChunkStages * D::kStage;
        HalfScales scales[2];
        UNROLL for (u32 r = 0; r < 2; r++) scales[r] = T::scales32(raw.of[r], 4 * place + t, rows[r].factor);
        auto columns = [&](u32 k) { return kPieces == 1 ? Columns{k / 2, k % 2} : Columns{k, place}; };
        UNROLL for (u32 k = 0; k < 8 / kPieces; k += Products::kGroup) {
            const u32 set = ((kPieces == 1 ? 0 : 4 * place) + k) / Products::kGroup % Products::kSets;
            UNROLL for (u32 j = 0; j < Products::kGroup; j++) {
                const Columns c = columns(k + j);
                auto pair = [&](u32 r, u32 odd) { return T::pair(raw.of[r], scales[r], c.part, c.half, odd); };
                products.left[set][j] = {pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)};
            }
            products.multiply(sums, set, stage, [&](u32 j) { return columns(k + j); });
        }
    };
    // Two, so that one is loaded while the other is dequantized.
    Raw even, odd;
    if (kInAdvance && begin < end) load_piece(even, begin * kPieces);
    UNROLL_BY(1) for (u32 piece = begin * kPieces; piece < end * kPieces; piece += 2) {
        step(piece, 0, even, odd);
        if (piece + 1 < end * kPieces) step(piece + 1, 1, odd, even);
    }
    products.end(sums);
}

// The pairs of chunks of all tiles, in order, divided evenly among the blocks of a grid row. Recomputed for each use,
// so that it occupies no registers in between.
struct Deal {
    u32 pairs;  // of a tile
    u32 total;  // of all tiles; times the number of blocks below 2^32
    template <class D> DEVICE_MEMBER static Deal of(const ProjectArgs& a) {
        u32 tiles = 0;
        const u32 segments = unknown(a.epilogue == kGlu ? 1 : a.n_segments);
        UNROLL_BY(1) for (u32 s = 0; s < segments; s++) tiles += ceil_div(a.segments[s].w.rows, rows_of<D>(a));
        const u32 pairs = ceil_div(unknown(a.segments[0].w.cols), 2 * kSmallBatchChunk);
        return {pairs, tiles * pairs};
    }
    // The first pair of a block; next, the block of a pair.
    DEVICE_MEMBER u32 first(u32 block) const { return total * block / gridDim.x; }
    DEVICE_MEMBER u32 block_of(u32 pair) const { return ((pair + 1) * gridDim.x - 1) / total; }
};

// Prefetches the first weights of the next tile of a block.
template <class T, class D> DEVICE void ask_for_tile(const ProjectArgs& a, u32 tile, u32 last) {
    const u32 thread = unknown(threadIdx.x);
    u32 segment;
    const Share work = share_of<D>(a, tile, unknown(blockIdx.y), segment);
    const LaneRows<T> rows(a, work, segment, thread);
    if (rows.of[0].dtype == T::kType)
        Ahead<T>::first(thread % 4, rows.of, 0, min_u32(2 * last, ceil_div(rows.of[0].cols, kSmallBatchChunk)));
}

// Sums pairs `first..last` of a tile. `starts`: true if the previous kernel has not been waited for.
template <class T, class D>
DEVICE void multiply_tile(const ProjectArgs& a, u32 tile, u32 first, u32 last, bool starts, u16* tokens,
                          float (&sums)[D::kN][4]) {
    // Hidden, so that nothing derived from it is kept in registers from tile to tile.
    const u32 thread = unknown(threadIdx.x);
    u32 segment;
    const Share work = share_of<D>(a, tile, unknown(blockIdx.y), segment);
    const LaneRows<T> rows(a, work, segment, thread);
    const u32 begin = 2 * first, end = min_u32(2 * last, ceil_div(rows.of[0].cols, kSmallBatchChunk));
    if (starts) Ahead<T>::first(thread % 4, rows.of, begin, end);
    if (starts) wait_for_previous();
    multiply_small_batch<T, D>(thread, a, rows.of, work, begin, end, tokens, sums);
}

// Multiplies the block's tiles of one type. `starts`: true if the previous kernel has not been waited for.
template <class T, class D> DEVICE void tiles_of_type(const ProjectArgs& a, bool& starts, u8* shared, u16* tokens) {
    constexpr u32 kPart = D::kTokens * D::kRows;
    u32 at = Deal::of<D>(a).first(blockIdx.x);
    UNROLL_BY(1) while (true) {
        u32 last;
        float sums[1][D::kN][4] = {};
        {
            const Deal deal = Deal::of<D>(a);
            const u32 tile = at / deal.pairs, start = tile * deal.pairs;
            last = min_u32(start + deal.pairs, deal.first(blockIdx.x + 1));
            u32 segment;
            share_of<D>(a, tile, unknown(blockIdx.y), segment);
            if (a.segments[segment].w.dtype != T::kType) {
                if (last == deal.first(blockIdx.x + 1)) return;
                at = last;
                continue;
            }
            multiply_tile<T, D>(a, tile, at - start, last - start, starts, tokens, sums[0]);
        }
        const Deal deal = Deal::of<D>(a);
        const u32 tile = unknown(at) / deal.pairs, start = tile * deal.pairs;
        last = min_u32(start + deal.pairs, deal.first(blockIdx.x + 1));
        starts = false;
        if (last != deal.first(blockIdx.x + 1))
            ask_for_tile<T, D>(a, tile + 1, min_u32(deal.pairs, deal.first(blockIdx.x + 1) - last));
        bool all = true;
        if (last - at < deal.pairs) {
            // A block may have parts of its first and its last tile; the second part is for a tile that continues in
            // the next block.
            const u32 first = deal.block_of(start), shares = deal.block_of(start + deal.pairs - 1) + 1 - first;
            auto part = [&](u32 s) {
                return a.parts + (u64)(2 * (first + s) + (deal.first(first + s) < start ? 1 : 0)) * kPart;
            };
            all = join<D>(part(blockIdx.x - first), a.counters + first, shares, shared, sums, part);
        }
        if (all) {
            u32 segment;
            const Share work = share_of<D>(a, tile, unknown(blockIdx.y), segment);
            // Values of a matrix are multiplied by 2^-24 times its factor.
            auto scale = [&](u32 s) { return 16777216.f / a.segments[s].w.factor; };
            const bool gate = unknown(a.epilogue) == kGlu;
            finish_tile<D>(a, segment, work, shared, sums, scale(segment), scale(gate ? 1 : segment));
        }
        if (last == deal.first(blockIdx.x + 1)) return;
        at = last;
        // Before tokens of the next tile overwrite data that other threads read.
        sync_block();
    }
}

// `tokens`: the stages, in `shared`.
template <class D> DEVICE void small_batch(const ProjectArgs& a, u8* shared, u16* tokens) {
    let_next_start();
    bool starts = true;
    if (a.order) {
        // The picks of experts are readable only after the wait.
        wait_for_previous();
        starts = false;
        u32 segment;
        const Share work = share_of<D>(a, 0, blockIdx.y, segment);
        if (work.token0 >= work.tokens) return;
    }
    // One loop per type, so that no load depends on a branch; a loop around all types would need the registers of all.
    for_types([&](auto type) {
        typedef decltype(type) T;
        if (a.types >> T::kType & 1) tiles_of_type<T, D>(a, starts, shared, tokens);
    });
}

#define SMALL_BATCH(n, blocks)                                             \
    KERNEL(small_batch_##n, ProjectArgs, 256, blocks) {                    \
        DYNAMIC_SHARED(shared);                                            \
        small_batch<SmallBatchTile<n, Mma>>(a, shared, (u16*)shared);      \
    }
SMALL_BATCH(16, 2)
SMALL_BATCH(32, 2)
// With more registers per thread, because its sums need as many as everything else.
SMALL_BATCH(64, 1)

#ifdef HAS_WGMMA
#define SMALL_WGMMA(n)                                                                  \
    KERNEL(wgmma_##n, ProjectArgs, 256, 2) {                                            \
        DYNAMIC_SHARED(shared);                                                         \
        u16* tokens = (u16*)(shared + (0u - shared_address(shared)) % kSwizzledBytes);  \
        small_batch<SmallBatchTile<n, Wgmma>>(a, shared, tokens);                       \
    }
SMALL_WGMMA(32)
SMALL_WGMMA(64)
#endif
