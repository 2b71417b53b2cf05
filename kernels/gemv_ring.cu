// GEMV: each block multiplies one input row. Each warp has a ring in shared memory, through which its weights go.
//
//     each warp: start copying its first pieces, which depend on no other kernel; wait for the previous kernel
//     block: h = norm(x), quantized to signed bytes with a scale per 32 columns
//     each warp, for its pieces of two rows by kRingColumns columns: wait for the piece; start copying the piece
//         that is kStages - 1 positions ahead; sums += piece * h; at the end of a pair of rows: out = epilogue(sums)
//
// Bound by the bandwidth of reading weights.
//
// Optimizations:
//  1. Asynchronous copies occupy no registers, so that a warp has kStages - 1 pieces in flight at any time, also while
//     it computes. Two blocks with their rings fit on an SM, so that the next kernel requests its first weights before
//     this kernel has ended.
//  2. A block computes consecutive pairs of rows. The pieces of these pairs are divided evenly among the warps, so that
//     several warps may share a pair; the sums of its parts are added in order.
//
// Invariants: results are deterministic for a given number of blocks per input row. Another number cuts pairs at other
// places, so that results may differ in the last bits.
//
// Shapes: see `ProjectArgs`; the number of columns is a multiple of 256. Shared memory: [warp][stage][row][plane], then
// scratch, then the input. Grid: (input rows, blocks that divide the rows of the matrices). In `ring_mixed` consecutive
// blocks have one matrix, as many as `ProjectArgs::ring_blocks` says.
#include "gemv.cuh"

typedef RowLoader<kRingThreads, 2> RingInputs;
constexpr u32 kRingWarps = kRingThreads / kWarp;

// A stage of the ring, which holds a piece: all planes of its two rows. Sizes and offsets are in bytes of one row.
template <class T> struct RingStage {
    static constexpr u32 kUnits = kRingColumns / T::kValues;
    // Bytes of plane p per 256 columns.
    static DEVICE_MEMBER constexpr u32 per_block(u32 p) { return (T::kPlanes >> (8 * p) & 255u) * 256 / T::kBlock; }
    // True if rows of the plane are aligned to 2 bytes only. Such a plane is copied in words of 4 bytes.
    static DEVICE_MEMBER constexpr bool is_fine(u32 p) { return per_block(p) % 16 != 0; }
    static DEVICE_MEMBER constexpr u32 size(u32 p) { return per_block(p) * (kRingColumns / 256) + (is_fine(p) ? 16 : 0); }
    static DEVICE_MEMBER constexpr u32 offset(u32 p) { return p == 0 ? 0 : offset(p - 1) + size(p - 1); }
    static constexpr u32 kRow = size(0) + size(1) + size(2) + size(3), kBytes = 2 * kRow;
    // Number of stages per warp, at least two: as many as fit in the kRingBytes of a block.
    static constexpr u32 kStages = max_u32(2, kRingBytes / (kRingWarps * kBytes));
};

// The addresses of a row in all planes.
template <class T> struct RowPlanes {
    const u8* planes[4];
    DEVICE_MEMBER void set(const DeviceMatrix& w, u32 row) {
        UNROLL for (u32 p = 0; p < 4; p++)
            planes[p] = w.planes[p] + (u64)row * (w.cols / 256 * RingStage<T>::per_block(p));
    }
    // Starts copying the first `n` columns of piece `piece`.
    DEVICE_MEMBER void copy(u8* to, u32 piece, u32 n, u32 lane) const {
        typedef RingStage<T> S;
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u8* from = planes[p] + piece * (kRingColumns / 256) * S::per_block(p);
            const u32 bytes = n / 256 * S::per_block(p);
            if (S::is_fine(p)) {
                const u32 shift = (u32)(u64)from % 4;
                if (4 * lane < shift + bytes) copy_async4(to + S::offset(p) + 4 * lane, from - shift + 4 * lane);
            } else {
                UNROLL for (u32 i = 0; i < (S::size(p) + 511) / 512; i++) {
                    const u32 at = 16 * (lane + kWarp * i);
                    if (at < bytes) copy_async16(to + S::offset(p) + at, from + at);
                }
            }
        }
    }
    DEVICE_MEMBER Staged staged(const u8* at) const {
        typedef RingStage<T> S;
        Staged s;
        // All pieces of a row have the same shift (see `copy`), because a plane has 8 * per_block bytes per piece, a
        // multiple of 4.
        UNROLL for (u32 p = 0; p < 4; p++)
            s.planes[p] = at + S::offset(p) + (S::is_fine(p) ? (u32)(u64)planes[p] % 4 : 0);
        return s;
    }
};

// Consecutive pairs of rows.
struct Pairs {
    u32 first;
    u32 count;
};
// The part of block `block` of `blocks`.
DEVICE Pairs part_of(const Pairs& all, u32 block, u32 blocks) {
    const u32 begin = (u32)((u64)all.count * block / blocks), end = (u32)((u64)all.count * (block + 1) / blocks);
    return {all.first + begin, end - begin};
}

template <class T> DEVICE void gemv_ring(const ProjectArgs& a, const Pairs& of_block, u8* shared) {
    typedef RingStage<T> S;
    const u32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, y = blockIdx.x;
    const u32 cols = a.segments[0].w.cols, pieces = ceil_div(cols, kRingColumns);
    const u32 first_pair = of_block.first, all = of_block.count * pieces;
    auto first_piece = [&](u32 warp) { return all * warp / kRingWarps; };
    const u32 begin = first_piece(warp), end = first_piece(warp + 1);

    u8* const ring = shared + warp * S::kStages * S::kBytes;
    float* const scratch = (float*)(shared + kRingWarps * S::kStages * S::kBytes);
    // [warp][first, last pair][row]: sums of parts of pairs.
    float* const parts = scratch + kWarp;
    Group* const groups = (Group*)(parts + 4 * kRingWarps);
    const Input input = {nullptr, (i8*)(groups + cols / 32), groups};

    // The next piece to copy.
    u32 asked = begin, asked_pair = first_pair + begin / pieces, asked_piece = begin % pieces, asked_stage = 0;
    RowPlanes<T> sources[2];
    auto ask = [&] {
        if (asked < end) {
            if (asked == begin || asked_piece == 0) {
                const RowGroup<2> p = row_group_at<2>(a, asked_pair, 0);
                UNROLL for (u32 r = 0; r < 2; r++) sources[r].set(a.segments[p.segments[r]].w, p.rows[r]);
            }
            const u32 n = min_u32(kRingColumns, cols - asked_piece * kRingColumns);
            UNROLL for (u32 r = 0; r < 2; r++)
                sources[r].copy(ring + asked_stage * S::kBytes + r * S::kRow, asked_piece, n, lane);
            if (++asked_piece == pieces) asked_piece = 0, asked_pair++;
            if (++asked_stage == S::kStages) asked_stage = 0;
            asked++;
        }
        copy_async_commit();
    };
    UNROLL for (u32 s = 0; s + 1 < S::kStages; s++) ask();
    let_next_start();
    RingInputs weights;
    load_weights(weights, 0, a.cols, a.norm);
    wait_for_previous();
    const float* const x[1] = {a.x + (u64)(y / a.x_divisor) * a.x_stride};
    prepare_rows<1>(x, a.cols, cols, a.norm, 2, weights, [&](u32) { return input; }, scratch);
    sync_block();

    const bool gate = a.epilogue == kGlu;
    auto finish_pair = [&](u32 pair, const RowGroup<2>& p, float sum0, float sum1) {
        if (gate) return finish_gate(a, pair, p.rows[0], y, sum0, sum1);
        finish(a, p.segments[0], p.rows[0], y, sum0, addend(a, p.segments[0], p.rows[0], y));
        if (p.rows[1] != p.rows[0])
            finish(a, p.segments[0], p.rows[1], y, sum1, addend(a, p.segments[0], p.rows[1], y));
    };
    float sums[2] = {};
    RowGroup<2> rows = {};
    RowPlanes<T> planes[2];
    u32 pair = first_pair + begin / pieces, piece = begin % pieces, stage = 0;
    // True if the pair began in an earlier warp.
    bool is_part = piece > 0;
    UNROLL_BY(1) for (u32 i = begin; i < end; i++) {
        if (i == begin || piece == 0) {
            rows = row_group_at<2>(a, pair, 0);
            UNROLL for (u32 r = 0; r < 2; r++) planes[r].set(a.segments[rows.segments[r]].w, rows.rows[r]);
        }
        copy_async_wait<S::kStages - 2>();
        // Copies of other lanes have ended too, and all lanes have read the stage that is overwritten next.
        sync_warp();
        ask();
        const u32 n = min_u32(kRingColumns, cols - piece * kRingColumns);
        UNROLL for (u32 r = 0; r < 2; r++) {
            const Staged s = planes[r].staged(ring + stage * S::kBytes + r * S::kRow);
            UNROLL for (u32 u = 0; u < S::kUnits / kWarp; u++) {
                const u32 unit = lane + u * kWarp;
                if (unit * T::kValues < n)
                    sums[r] = T::dot(T::load_staged(s, unit), input, piece * S::kUnits + unit, 0, sums[r]);
            }
        }
        if (++stage == S::kStages) stage = 0;
        const bool ends = piece + 1 == pieces;
        if (ends || i + 1 == end) {
            UNROLL for (u32 r = 0; r < 2; r++) sums[r] = warp_sum(sums[r]);
            if (lane == 0) {
                if (ends && !is_part) {
                    finish_pair(pair, rows, sums[0], sums[1]);
                } else {
                    float* const part = parts + 4 * warp + (is_part ? 0 : 2);
                    part[0] = sums[0], part[1] = sums[1];
                }
            }
            sums[0] = sums[1] = 0.f, is_part = false;
        }
        if (ends) piece = 0, pair++;
        else piece++;
    }
    sync_block();
    // The first lane of the warp in which a pair begins adds the parts of the pair.
    if (lane > 0 || begin == end || end % pieces == 0) return;
    const u32 start = end / pieces * pieces;
    if (start < begin) return;
    float sum0 = parts[4 * warp + 2], sum1 = parts[4 * warp + 3];
    for (u32 w = warp + 1; w < kRingWarps && first_piece(w) < start + pieces; w++) {
        if (first_piece(w) == first_piece(w + 1)) continue;
        sum0 += parts[4 * w], sum1 += parts[4 * w + 1];
    }
    finish_pair(pair, rows, sum0, sum1);
}

#define RING(T, name)                                  \
    KERNEL(ring_##name, ProjectArgs, kRingThreads, 2) { \
        DYNAMIC_SHARED(shared);                        \
        gemv_ring<T>(a, part_of({0, a.row_groups}, blockIdx.y, gridDim.y), shared); \
    }
EACH_BLOCK_TYPE(RING)

// Matrices of different types that share an input; each block computes rows of one of them.
KERNEL(ring_mixed, ProjectArgs, kRingThreads, 2) {
    DYNAMIC_SHARED(shared);
    u32 segment = 0, block = blockIdx.y;
    Pairs pairs = {0, ceil_div(a.segments[0].w.rows, 2)};
    while (block >= a.ring_blocks[segment]) {
        block -= a.ring_blocks[segment++];
        pairs = {pairs.first + pairs.count, ceil_div(a.segments[segment].w.rows, 2)};
    }
    pairs = part_of(pairs, block, a.ring_blocks[segment]);
    switch (a.segments[segment].w.dtype) {
        case kQ8_0: return gemv_ring<Q8_0>(a, pairs, shared);
        case kQ4_K: return gemv_ring<Q4_K>(a, pairs, shared);
        case kQ5_K: return gemv_ring<Q5_K>(a, pairs, shared);
        case kQ6_K: return gemv_ring<Q6_K>(a, pairs, shared);
    }
}
