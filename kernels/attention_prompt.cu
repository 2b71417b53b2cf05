// Attention over the KV cache for prefill.
//
// Algorithm: as in `attention.cu`, with up to 128 rows per block, 16 per warp, which share keys and values:
//
//     for every splits-th step of 64 positions (32 for heads wider than 128) that any row of the block sees:
//         wait for the keys and values of this step; start copying the next step's
//         each warp: S = Q K^T, online softmax, O += weights V, for its 16 rows
//
// Optimizations:
//  1. Keys and values of a step are copied to shared memory asynchronously, once for all warps, in two stages.
//  2. `ldmatrix` loads both in operand order. Within a row of shared memory, groups of eight values are permuted by the
//     position, to avoid bank conflicts.
//  3. A warp skips steps that none of its rows sees, and masks only steps that some of its rows see in part.
//  4. The last rows of a prompt see the most positions, so their blocks have the lowest indices and start first.
//  5. If there are few blocks, `splits` blocks share the positions of one tile.
//
// Invariants: positions ascend within a tile. Each row sees one contiguous range of positions.
//
// Shapes: see `AttendArgs`. Shared memory: queries of heads wider than 128, then [stage][keys, values][position][kDim]
// in binary16. Grid: (tiles * blocks per tile * splits, KV heads).
#include "attention.cuh"

// Warps per block; next, positions per step. Fewer for wide heads, whose values fill registers, and keys shared memory.
template <u32 kDim> constexpr u32 kRowWarps = (kDim > 128 ? kPromptRows / 2 : kPromptRows) / kAttendRows;
template <u32 kDim> constexpr u32 kStep = kDim > 128 ? 32 : 64;

// Asynchronous copies of keys and values to shared memory, [stage][keys, values][position of a step][kDim] in binary16.
template <u32 kDim, bool kHalves> struct Feed {
    static constexpr u32 kRow = 2 * kDim, kPlane = kStep<kDim> * kRow, kUnits = kDim / 8;
    const DeviceKv& kv;
    const KvPlace& layer;
    u8* planes;
    Range seen;  // visible to any row of the block
    u32 k_units;  // of 8 dimensions
    u32 v_units;

    // Offset in a plane of the dimensions of a position from 8 * unit on.
    DEVICE_MEMBER static u32 place(u32 position, u32 unit) { return position * kRow + 16 * (unit ^ position % 8); }
    DEVICE_MEMBER u8* keys(u32 stage) const { return planes + 2 * stage * kPlane; }
    DEVICE_MEMBER u8* values(u32 stage) const { return keys(stage) + kPlane; }

    DEVICE_MEMBER static void bring(u8* to, const u8* plane, const u16* scales, u64 at, u32 type) {
        if (kHalves) copy_async16(to, plane + 2 * at);
        else store(to, load_cached8<false>(plane, scales, at, type));
    }
    // Starts copying the positions of a step. Positions that no row sees have weight 0, but must not be NaN.
    DEVICE_MEMBER void fetch(u32 p0, u32 stage) const {
        constexpr u32 kThreads = kRowWarps<kDim> * kWarp;
        const u32 unit = threadIdx.x % kUnits;
        UNROLL for (u32 i = 0; i < kStep<kDim> * kUnits / kThreads; i++) {
            const u32 position = (i * kThreads + threadIdx.x) / kUnits,
                      p = max_u32(seen.first, min_u32(p0 + position, seen.last));
            const u64 row = layer.is_ring ? p % kv.ring : p;
            if (unit < k_units)
                bring(keys(stage) + place(position, unit), kv.k, kv.k_scales, row * layer.k_stride + 8 * unit,
                      kv.k_type);
            if (unit < v_units)
                bring(values(stage) + place(position, unit), kv.v, kv.v_scales, row * layer.v_stride + 8 * unit,
                      kv.v_type);
        }
    }
};

template <u32 kDim, bool kHalves> DEVICE void attend_prompt(const AttendArgs& a, u8* shared) {
    constexpr u32 kRows = kAttendRows * kRowWarps<kDim>, kGroups = kStep<kDim> / 16;
    using Planes = Feed<kDim, kHalves>;
    let_next_start();
    wait_for_previous();
    const u32 block = gridDim.x - 1 - blockIdx.x, blocks = gridDim.x / (a.splits * a.step.n_tiles),
              kv_head = blockIdx.y;
    const DeviceTile tile = a.step.tiles[block / a.splits / blocks];
    const u32 first_head = first_head_of(a, kv_head), first_row = block / a.splits % blocks * kRows;
    const Rows rows = {tile.count, first_head_of(a, kv_head + 1) - first_head, tile.first, first_head, tile.last,
                       first_row + threadIdx.x / kWarp * kAttendRows};
    const AttendWork<kRows> work = {
        block / a.splits * gridDim.y + blockIdx.y, block % a.splits, tile.slot, kv_head, first_row, rows};
    if (first_row >= rows.used()) return;
    const DeviceKv kv = cache_of(a, a.step.kvs[tile.slot], kv_head);
    if (!kv.capacity) return;
    Part<kDim> part;
    clear(a, rows, work.split == 0, part);

    const u32 lane = threadIdx.x % kWarp, t = lane % 4;
    u8* planes = shared + kRowWarps<kDim> * kQueryBytes<kDim>;
    Queries<kDim> q(shared);
    UNROLL for (u32 i = 0; i < 2; i++) {
        const float* from = query(a, rows, i);
        UNROLL_BY(kDim > 128 ? 2 : kDim / 16) for (u32 c = 0; c < kDim / 16; c++) UNROLL for (u32 h = 0; h < 2; h++)
            q.set(c, i + 2 * h, query_word(a, from, 16 * c + 8 * h + 2 * t));
    }

    // Positions visible to any row of the block (`all`), to any row of the warp, and to all rows of the warp.
    const u32 newest = a.step.positions[rows.last_token];
    const Range all = seen_by_any(a, rows.token(first_row), rows.token(work.end() - 1) + 1, newest);
    const Seen seen(a, rows, newest);
    const bool has_rows = rows.first < rows.used();
    const u32 low = rows.token(min_u32(rows.first, rows.used() - 1)),
              high = rows.token(min_u32(rows.first + kAttendRows, rows.used()) - 1);
    const Range any = seen_by_any(a, low, high + 1, newest);
    // Spans may begin and end anywhere, so each row must be checked.
    const bool is_open = a.step.spans && a.mask != kNewest;
    const u32 all_first = is_open ? newest + 1 : first_seen(a, a.step.positions[high]),
              all_last = last_seen(a, a.step.positions[low], newest);

    const Planes feed = {kv, a.layer, planes, all, 2 * ceil_div(a.head_dim, 16), 2 * ceil_div(a.value_dim, 16)};
    const u32 step = all.first / kStep<kDim>, stride = kStep<kDim> * a.splits;
    const u32 begin = kStep<kDim> * (step + (work.split + a.splits - step % a.splits) % a.splits);
    // Lane 8m + r reads row r of matrix m. Matrices of keys: the halves of 16 dimensions, then the next positions;
    // matrices of values: positions first, then dimensions.
    const u32 m = lane / 8, r = lane % 8;
    const u32 of_keys = Planes::place(m / 2 * 8 + r, m % 2), of_values = Planes::place(m % 2 * 8 + r, m / 2);
    if (begin <= all.last) feed.fetch(begin, 0);
    copy_async_commit();
    u32 stage = 0;
    for (u32 p0 = begin; p0 <= all.last; p0 += stride, stage ^= 1) {
        copy_async_wait<0>();
        sync_block();
        // After the barrier, because it overwrites the stage that the previous step has read.
        if (p0 + stride <= all.last) feed.fetch(p0 + stride, stage ^ 1);
        copy_async_commit();
        if (!has_rows || p0 > any.last || p0 + kStep<kDim> <= any.first) continue;
        const u8 *keys = feed.keys(stage), *values = feed.values(stage);
        float scores[2 * kGroups][4] = {};
        UNROLL for (u32 c = 0; c < kDim / 16; c++) {
            if (16 * c >= a.head_dim) break;
            const uint4 left = q.get(c);
            UNROLL for (u32 n = 0; n < kGroups; n++) {
                u32 k[4];
                load_matrices<false>(k, keys + 16 * n * Planes::kRow + (of_keys ^ 32 * c));
                mma16x8x16(scores[2 * n], left, k[0], k[1]);
                mma16x8x16(scores[2 * n + 1], left, k[2], k[3]);
            }
        }
        uint4 weights[kGroups];
        const bool inside = p0 >= all_first && p0 + kStep<kDim> - 1 <= all_last;
        weigh<kDim, kGroups>(a, rows, seen, p0, inside, scores, part, weights);
        UNROLL for (u32 e = 0; e < kDim / 16; e++) {
            if (16 * e >= a.value_dim) break;
            UNROLL for (u32 n = 0; n < kGroups; n++) {
                u32 v[4];
                load_matrices<true>(v, values + 16 * n * Planes::kRow + (of_values ^ 32 * e));
                mma16x8x16(part.values[2 * e], weights[n], v[0], v[1]);
                mma16x8x16(part.values[2 * e + 1], weights[n], v[2], v[3]);
            }
        }
    }
    sum_quads(part);

    auto dim = [&](u32 n, u32 j) { return 8 * n + 2 * t + j; };
    if (a.splits == 1) {
        write_rows<kDim>(part, rows, work.end(), a.value_dim, {1.f / part.sum[0], 1.f / part.sum[1]}, dim,
                         [&](u32 row) { return work.out(a, row); });
        return;
    }
    write_sums<kDim>(part, rows, work.end(), [&](u32 row) { return work.part(a, row); });
    write_rows<kDim>(part, rows, work.end(), a.value_dim, {1.f, 1.f}, dim,
                     [&](u32 row) { return work.part(a, row) + 2; });
    work.template join<kDim>(a, planes + 4 * Planes::kPlane);
}

#if __CUDA_ARCH__ >= 1000  // Spills where two blocks share the registers.
KERNEL(attend_prompt_64, AttendArgs, 256, 1) {
#else
KERNEL(attend_prompt_64, AttendArgs, 256, 2) {
#endif
    DYNAMIC_SHARED(shared);
    attend_prompt<64, true>(a, shared);
}
KERNEL(attend_prompt_64_any, AttendArgs, 256, 1) { DYNAMIC_SHARED(shared); attend_prompt<64, false>(a, shared); }
KERNEL(attend_prompt_128, AttendArgs, 256, 1) { DYNAMIC_SHARED(shared); attend_prompt<128, true>(a, shared); }
KERNEL(attend_prompt_128_any, AttendArgs, 256, 1) { DYNAMIC_SHARED(shared); attend_prompt<128, false>(a, shared); }
KERNEL(attend_prompt_256, AttendArgs, 128, 1) { DYNAMIC_SHARED(shared); attend_prompt<256, true>(a, shared); }
KERNEL(attend_prompt_256_any, AttendArgs, 128, 1) { DYNAMIC_SHARED(shared); attend_prompt<256, false>(a, shared); }
