// Attention over the KV cache for few tokens per sequence, and for heads of any width.
//
// Algorithm (flash decoding: the online softmax of arXiv 2205.14135, split over the positions):
//
//     rows = (token, query head) pairs of one tile and one KV head, 16 per block
//     each warp, for every 4 * splits-th group of 16 positions:
//         S = scale * Q K^T, softcap, bias and mask
//         new peak = max(peak, S); weights = 2^(S - new peak)
//         sum = sum * 2^(peak - new peak) + sum of weights;  O = O * 2^(peak - new peak) + weights V
//     merge (peak, sum, O) of the four warps, then of the `splits` blocks; out = O / sum
//
// Optimizations:
//  1. Both products are `mma` m16n8k16. Operands are loaded from the cache by 16-byte loads, without shared memory. The
//     terms of a dot product may have any order, so each lane of a quad takes 8 adjacent dimensions of 32 instead of
//     the scattered dimensions of the instruction's layout; the columns of the output are permuted likewise.
//  2. Query heads of one KV head are rows of one product, so that each cached row is read once for all of them.
//     In the plain case (a cache in binary16, and neither a softcap nor a bias), keys and values of the next steps are
//     copied to shared memory meanwhile (`KvRing`).
//  3. Groups of positions are assigned to blocks first, then to warps, so that a short context occupies all blocks.
//  4. If every token is the only one of its sequence (`attend_single`), a block normalizes and rotates its own queries;
//     the block whose positions include the token's own stores key and value. That saves a launch. The first keys and
//     values are copied during this.
//  5. Heads wider than 256 (`attend_wide`): the warps of a block process the same positions. Each warp has every fourth
//     group of 32 dimensions of the keys, and a quarter of the values.
//
// Invariants: a position's warp and block depend only on the position. The last block to finish merges the parts in the
// order of their indices. Results are therefore deterministic.
//
// If few keys are selected, positions share keys, or keys of two layers share a softmax, a tile has one token, and its
// block processes the list of the token's keys as for wide heads (`attend_among`).
//
// Shapes: see `AttendArgs`. Grid: (tiles * splits, KV heads * groups of 16 query heads); 4 warps per block.
#include "attention.cuh"
#include "rope.cuh"

DEVICE u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// The steps of 16 positions of one of `units` units (warps or blocks).
struct Walk {
    u32 begin;  // of the first step
    u32 first;  // position visible to any row
    u32 end;
    u32 stride;  // between the steps of a unit
    u32 k_last;  // first of the last eight dimensions
    u32 v_last;
    Range by_all;  // positions visible to every row; empty if tokens have spans
    Seen seen;
    DEVICE_MEMBER Walk(const AttendArgs& a, const Rows& rows, u32 unit, u32 units)
        : seen(a, rows, a.step.positions[rows.last_token]) {
        const u32 newest = a.step.positions[rows.last_token];
        const Range any = seen_by_any(a, rows.first_token, rows.first_token + rows.tokens, newest);
        first = any.first, end = any.last + 1;
        by_all = {first_seen(a, newest), last_seen(a, a.step.positions[rows.first_token], newest)};
        if (a.step.spans || rows.tokens == 0) by_all = {1, 0};
        const u32 start = first / kAttendRows;
        // The unit of a position depends only on the position, not on the tile.
        begin = kAttendRows * (start + (unit + units - start % units) % units);
        stride = kAttendRows * units;
        k_last = ceil_div(a.head_dim, 8) * 8 - 8;
        v_last = ceil_div(a.value_dim, 8) * 8 - 8;
    }
    // For a tile of one token: iterates over keys instead of positions. Returns the list of selected keys, or null if
    // all keys are used because there are no more than can be selected.
    DEVICE_MEMBER const float* take_chosen(const AttendArgs& a, const Rows& rows, u32 unit) {
        const u32 keys = keys_up_to(a.layer, a.step.positions[rows.first_token]);
        const float* list = a.among && keys > a.top ? a.among + (u64)rows.first_token * a.top : nullptr;
        if (!list && a.layer.pool <= 1) return nullptr;
        u32 n = list ? 0 : keys;
        // The end of the list's keys, which are followed by padding.
        for (u32 left = list ? a.top : 0; left > 0;) {
            const float at = list[n + left / 2];
            if (at >= 0.f && at < (float)keys) n += left / 2 + 1, left -= left / 2 + 1;
            else left /= 2;
        }
        begin = kAttendRows * unit, first = 0, end = n;
        UNROLL for (u32 i = 0; i < 2; i++) {
            const bool sees = rows.row(i) < rows.used() && n > 0;
            seen.first[i] = sees ? 0 : 1, seen.last[i] = sees ? n - 1 : 0;
        }
        return list;
    }
    // True if every row sees all positions of the step that begins at `p0`.
    DEVICE_MEMBER bool all_see(u32 p0) const { return p0 >= by_all.first && p0 + kAttendRows <= by_all.last + 1; }
    // The index to read for index `i` of the step that begins at position `p0`. Positions that no row sees may hold
    // arbitrary bits; the nearest visible position is read instead, with weight 0.
    DEVICE_MEMBER u32 inside(u32 p0, u32 i) const {
        return max_u32(first > p0 ? first - p0 : 0, min_u32(i, end - 1 - p0));
    }
};

// Keys and values of the next steps of a warp, which are copied from a cache in binary16 to shared memory. Each lane
// reads only the 16 bytes of each piece that it has copied itself, so that no barrier is needed.
template <u32 kDim> struct KvRing {
    // A slot holds the keys of a step, kPieces of 512 bytes, then its values.
    static constexpr u32 kPieces = kDim / 16, kSlot = 2 * kPieces * 512, kSlots = kKvRingBytes / (kAttendWarps * kSlot);
    u8* own;
    DEVICE_MEMBER KvRing(u8* shared)
        : own(shared + threadIdx.x / kWarp * kSlots * kSlot + threadIdx.x % kWarp * 16) {}
    // Eight dimensions of a key, and of a value, of the step in a slot. The arguments are the indices of the copies.
    DEVICE_MEMBER u8* key(u32 slot, u32 h, u32 c) const { return own + slot * kSlot + 512 * (kDim / 32 * h + c); }
    DEVICE_MEMBER u8* value(u32 slot, u32 e, u32 i) const { return own + slot * kSlot + 512 * (kPieces + 4 * e + i); }
    // Start copying the keys, or the values, of the step that begins at position `p0`, if there is one.
    DEVICE_MEMBER void ask_keys(const AttendArgs& a, const DeviceKv& kv, const Walk& walk, u32 p0, u32 slot) const {
        const u32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
        if (p0 < walk.end) UNROLL for (u32 h = 0; h < 2; h++) {
            // After the head's dimensions the last ones are read; the query is 0 there and the output is dropped.
            const u64 row = (u64)(row_of(a, kv, p0) + walk.inside(p0, 8 * h + g)) * a.layer.k_stride;
            UNROLL for (u32 c = 0; c < kDim / 32; c++)
                copy_async16(key(slot, h, c), kv.k + 2 * (row + min_u32(32 * c + 8 * t, walk.k_last)));
        }
        copy_async_commit();
    }
    DEVICE_MEMBER void ask_values(const AttendArgs& a, const DeviceKv& kv, const Walk& walk, u32 p0, u32 slot) const {
        const u32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
        if (p0 < walk.end) UNROLL for (u32 i = 0; i < 4; i++) {
            const u64 row = (u64)(row_of(a, kv, p0) + walk.inside(p0, 2 * t + i % 2 + 8 * (i / 2))) * a.layer.v_stride;
            UNROLL for (u32 e = 0; e < kDim / 64; e++)
                copy_async16(value(slot, e, i), kv.v + 2 * (row + min_u32(64 * e + 8 * g, walk.v_last)));
        }
        copy_async_commit();
    }
    // Starts copying the first steps: 2 * kSlots groups of copies.
    DEVICE_MEMBER void begin(const AttendArgs& a, const DeviceKv& kv, const Walk& walk) const {
        UNROLL_BY(1) for (u32 s = 0; s < kSlots; s++) {
            ask_keys(a, kv, walk, walk.begin + s * walk.stride, s);
            ask_values(a, kv, walk, walk.begin + s * walk.stride, s);
        }
    }
    // Waits for the oldest copies, of keys and values in turn.
    DEVICE_MEMBER void wait() const { copy_async_wait<2 * kSlots - 1>(); }
};

// Loads a lane's values of 16 positions and 64 dimensions from `dim` on. `place`: start of a position in the cache.
template <bool kHalves, class F>
DEVICE void load_values(const DeviceKv& kv, u32 dim, u32 last, F&& place, uint4 (&v)[4]) {
    const u32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    UNROLL for (u32 i = 0; i < 4; i++)
        v[i] = load_cached8<kHalves>(kv.v, kv.v_scales,
                                     place(2 * t + i % 2 + 8 * (i / 2)) + min_u32(dim + 8 * g, last), kv.v_type);
}
// Adds the weighted values to the accumulators of their dimensions.
DEVICE void add_values(const uint4 (&v)[4], const uint4& weights, float (*sums)[4]) {
    UNROLL for (u32 j = 0; j < 8; j++) {
        const u32 halves = j % 2 ? 0x7632 : 0x5410;
        mma16x8x16(sums[j], weights, permute(word(v[0], j / 2), word(v[1], j / 2), halves),
                   permute(word(v[2], j / 2), word(v[3], j / 2), halves));
    }
}

// If `kPlain`, keys and values come through `ring`, which has begun.
template <u32 kDim, bool kPlain>
DEVICE void take_steps(const AttendArgs& a, const Rows& rows, const DeviceKv& kv, const Walk& walk,
                       const KvRing<kDim>& ring, Queries<kDim>& q, Part<kDim>& part) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    u32 slot = 0;
    UNROLL_BY(1) for (u32 p0 = walk.begin; p0 < walk.end; p0 += walk.stride) {
        const u64 row0 = row_of(a, kv, p0);
        auto value_at = [&](u32 i) { return row0 * a.layer.v_stride + walk.inside(p0, i) * a.layer.v_stride; };
        float scores[2][4] = {};
        // If registers suffice, values are loaded together with the keys.
        constexpr bool kEarly = !kPlain && kDim <= 128;
        uint4 v[kDim / 64][4];
        auto load_values_of = [&](u32 e) {
            if (kPlain) UNROLL for (u32 i = 0; i < 4; i++) v[e][i] = load<uint4>(ring.value(slot, e, i));
            else load_values<false>(kv, 64 * e, walk.v_last, value_at, v[e]);
        };
        if (kEarly) UNROLL for (u32 e = 0; e < kDim / 64; e++) load_values_of(e);
        if (kPlain) ring.wait();
        UNROLL for (u32 h = 0; h < 2; h++) {
            // After the head's dimensions the last ones are read; the query is 0 there and the output is dropped.
            const u64 row = (row0 + walk.inside(p0, 8 * h + g)) * a.layer.k_stride;
            // With queries in shared memory registers are short, so the loop is not unrolled and keeps few keys at a
            // time.
            UNROLL_BY(kDim > 128 ? 2 : kDim / 32) for (u32 c = 0; c < kDim / 32; c++) {
                const uint4 k = kPlain ? load<uint4>(ring.key(slot, h, c))
                                       : load_cached8<false>(kv.k, kv.k_scales,
                                                             row + min_u32(32 * c + 8 * t, walk.k_last), kv.k_type);
                mma16x8x16(scores[h], q.get(2 * c), k.x, k.y);
                mma16x8x16(scores[h], q.get(2 * c + 1), k.z, k.w);
            }
        }
        const u32 next = p0 + KvRing<kDim>::kSlots * walk.stride;
        if (kPlain) ring.ask_keys(a, kv, walk, next, slot);
        uint4 weights[1];
        weigh<kDim, 1, kPlain>(a, rows, walk.seen, p0, walk.all_see(p0), scores, part, weights);
        if (kPlain) ring.wait();
        UNROLL for (u32 e = 0; e < kDim / 64; e++) {
            if (!kEarly) load_values_of(e);
            add_values(v[e], weights[0], part.values + 8 * e);
        }
        if (kPlain) ring.ask_values(a, kv, walk, next, slot);
        slot = (slot + 1) % KvRing<kDim>::kSlots;
    }
    sum_quads(part);
    // The results of other warps overwrite the ring.
    if (kPlain) sync_block();
}

// The work of a block. If `kSingle`, each tile is one token, the only one of its sequence, and is not read from memory.
template <bool kSingle = false> DEVICE AttendWork<kAttendRows> work_of(const AttendArgs& a) {
    // Several blocks per KV head if there are more query heads than rows.
    const u32 chunks = ceil_div(ceil_div(a.heads, a.kv_heads), kAttendRows), kv_head = blockIdx.y / chunks;
    const u32 tile = blockIdx.x / a.splits, token = a.first_tile + tile;
    AttendWork<kAttendRows> work = {tile * gridDim.y + blockIdx.y, blockIdx.x % a.splits, 0, kv_head, 0, {}};
    if (token >= a.step.n_tiles) return work;
    const u32 first_head = first_head_of(a, kv_head) + blockIdx.y % chunks * kAttendRows,
              end_head = first_head_of(a, kv_head + 1);
    const DeviceTile at = kSingle ? DeviceTile{token, 1, token, token} : a.step.tiles[token];
    const u32 heads = first_head < end_head ? min_u32(end_head - first_head, kAttendRows) : 0;
    work.slot = at.slot;
    work.rows = {at.count, heads, at.first, first_head, at.last, 0};
    return work;
}

// Dimension of value `j` of a pair in accumulator `n`: [8e + i] holds dimensions 64e + 16t + i and 64e + 16t + 8 + i.
DEVICE u32 permuted(u32 n, u32 j) { return n / 8 * 64 + 16 * (threadIdx.x % 4) + 8 * j + n % 8; }

// Merges the results of the warps of a block; the last block to finish merges all splits. `parts`: in shared memory.
template <u32 kDim>
DEVICE void join_warps(const AttendArgs& a, const AttendWork<kAttendRows>& work, const Part<kDim>& part, float* parts) {
    const Rows& rows = work.rows;
    const u32 used = rows.used(), d = a.value_dim, row_size = 2 + d;
    float* mine = parts + threadIdx.x / kWarp * used * row_size;
    auto dim = [](u32 n, u32 j) { return permuted(n, j); };
    write_sums<kDim>(part, rows, used, [&](u32 row) { return mine + row * row_size; });
    write_rows<kDim>(part, rows, used, d, {1.f, 1.f}, dim, [&](u32 row) { return mine + row * row_size + 2; });
    sync_block();
    // Merges the parts of the four warps, one warp per row.
    const u32 lane = threadIdx.x % kWarp, stride = used * row_size;
    const bool whole = a.splits == 1;
    for (u32 row = threadIdx.x / kWarp; row < used; row += kAttendWarps) {
        const float* from = parts + row * row_size;
        float peak = kNegativeInfinity, sum = 0.f, weights[kAttendWarps];
        UNROLL for (u32 w = 0; w < kAttendWarps; w++) peak = fmaxf(peak, from[w * stride]);
        UNROLL for (u32 w = 0; w < kAttendWarps; w++) {
            // A warp without positions has weight 0, and no peak.
            weights[w] = from[w * stride + 1] != 0.f ? exp2_approx(from[w * stride] - peak) : 0.f;
            sum = fmaf(weights[w], from[w * stride + 1], sum);
        }
        float* to = whole ? work.out(a, row) : work.part(a, row) + 2;
        if (!whole && lane == 0) to[-2] = peak, to[-1] = sum;
        const float factor = whole ? 1.f / sum : 1.f;
        UNROLL for (u32 at = lane; at < kDim; at += kWarp) {
            float value = 0.f;
            if (at >= d) break;
            UNROLL for (u32 w = 0; w < kAttendWarps; w++) value = fmaf(weights[w], from[w * stride + 2 + at], value);
            to[at] = value * factor;
        }
    }
    if (whole) return;
    work.join<kDim>(a, (u8*)(parts + kAttendWarps * used * row_size));
}

// The unit of a warp among the warps of all splits.
DEVICE Walk walk_of(const AttendArgs& a, const AttendWork<kAttendRows>& work) {
    return Walk(a, work.rows, work.split + threadIdx.x / kWarp * a.splits, kAttendWarps * a.splits);
}

template <u32 kDim, bool kPlain> DEVICE void attend(const AttendArgs& a, u8* shared) {
    let_next_start();
    wait_for_previous();
    const AttendWork<kAttendRows> work = work_of(a);
    if (work.rows.used() == 0) return;
    const DeviceKv kv = cache_of(a, a.step.kvs[work.slot], work.kv_head);
    if (!kv.capacity) return;
    const Walk walk = walk_of(a, work);
    u8* const after_queries = shared + kAttendWarps * kQueryBytes<kDim>;
    const KvRing<kDim> ring(after_queries);
    if (kPlain) ring.begin(a, kv, walk);
    // Words 0 and 2 of an operand belong to row g, words 1 and 3 to row g + 8.
    Queries<kDim> q(shared);
    UNROLL for (u32 i = 0; i < 2; i++) {
        const float* from = query(a, work.rows, i);
        UNROLL_BY(kDim > 128 ? 2 : kDim / 32) for (u32 c = 0; c < kDim / 32; c++) UNROLL for (u32 w = 0; w < 4; w++)
            q.set(2 * c + w / 2, i + 2 * (w % 2), query_word(a, from, 32 * c + 8 * (threadIdx.x % 4) + 2 * w));
    }
    Part<kDim> part;
    clear(a, work.rows, work.split == 0 && threadIdx.x < kWarp, part);
    take_steps<kDim, kPlain>(a, work.rows, kv, walk, ring, q, part);
    join_warps(a, work, part, (float*)after_queries);
}

// Starts copying `n` floats to shared memory by all threads of a block; `in_fours`: both are aligned to 16 bytes, and n
// is a multiple of four.
DEVICE void copy_floats(float* to, const float* from, u32 n, bool in_fours) {
    if (in_fours)
        for (u32 i = 4 * threadIdx.x; i < n; i += 4 * blockDim.x) copy_async16(to + i, from + i);
    else
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) copy_async4(to + i, from + i);
}

// Attention of tokens that are the only ones of their sequences in a step; queries and keys are unmodified projections.
template <u32 kDim, bool kPlain> DEVICE void attend_single(const AttendSingleArgs& args, u8* shared) {
    let_next_start();
    const AttendArgs& a = args.attend;
    const HeadsArgs& h = args.heads;
    // At most as many pairs as threads.
    const u32 pairs = rotated_pairs(h);
    const double inv_freq = threadIdx.x < pairs ? h.inv_freq[threadIdx.x] : 0.;
    wait_for_previous();
    const AttendWork<kAttendRows> work = work_of<true>(a);
    const u32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, d = a.head_dim;
    const u32 used = work.rows.used(), first_head = work.rows.first_head, kv_head = work.kv_head,
              token = work.rows.first_token;
    const DeviceKv kv = a.step.kvs[work.slot];
    if (!kv.capacity) return;
    const u32 position = a.step.positions[token];
    // True if the token's own position belongs to this block: see `Walk`.
    const bool stores = h.store && position / kAttendRows % a.splits == work.split;

    // Shared memory: queries as the left operand, [chunk][lane][word]; the ring; unmodified heads and angles. Parts
    // overwrite all but the queries.
    u8* const after_queries = shared + 32 * kDim;
    float* heads = (float*)(after_queries + (kPlain ? kKvRingBytes : 0));
    float *key = heads + used * d, *angles = key + d;
    const u64 own = (u64)token * a.kv_heads + kv_head;
    // Every block copies the key, so that no copy waits for the position.
    copy_floats(heads, a.q + ((u64)token * a.heads + first_head) * d, used * d, d % 4 == 0);
    if (h.store) copy_floats(key, h.k + own * d, d, d % 4 == 0);
    copy_async_commit();
    const Walk walk = walk_of(a, work);
    const KvRing<kDim> ring(after_queries);
    const DeviceKv cache = cache_of(a, kv, kv_head);
    // The token's own key and value are readable only after the barrier below.
    bool is_early = used > 0;
    UNROLL for (u32 s = 0; s < KvRing<kDim>::kSlots; s++)
        if (walk.begin + s * walk.stride == position / kAttendRows * kAttendRows) is_early = false;
    is_early = kPlain && is_early;
    if (is_early) ring.begin(a, cache, walk);
    // Rows without a head are 0.
    for (u32 i = threadIdx.x; i < 2 * kDim; i += blockDim.x) store(shared + 16 * i, uint4{0, 0, 0, 0});
    if (threadIdx.x < pairs)
        angle(h, rope_position(h, token, position, threadIdx.x), inv_freq, angles[2 * threadIdx.x],
              angles[2 * threadIdx.x + 1]);
    // Not for the keys and values of the ring.
    if (is_early) copy_async_wait<2 * KvRing<kDim>::kSlots>();
    else copy_async_wait<0>();
    sync_block();
    auto angle_of = [&](u32 i, float& sine, float& cosine) { sine = angles[2 * i], cosine = angles[2 * i + 1]; };
    for (u32 row = warp; row < used; row += kAttendWarps) {
        float* x = heads + row * d;
        apply_rope(h, x, h.q_norm, h.own_norms & 1 ? (first_head + row) * d : 0, lane, angle_of);
        for (u32 i = lane; i < kDim / 2; i += kWarp) {
            // The same order as in `attend`.
            const u32 c = i / 16, t = i / 4 % 4, w = i % 4, operand = row / 8 + 2 * (w % 2);
            store(shared + 512 * (2 * c + w / 2) + 16 * (4 * (row % 8) + t) + 4 * operand,
                  word_of(a, x, 2 * i));
        }
    }
    if (stores) {
        if (warp == used % kAttendWarps) {
            apply_rope(h, key, h.k_norm, h.own_norms & 2 ? kv_head * d : 0, lane, angle_of);
            store_key(h, kv, position, kv_head, key, lane);
        }
        if (h.v && warp == (used + 1) % kAttendWarps)
            store_value(h, kv, position, kv_head, h.v + own * h.value_dim, lane);
    }
    sync_block();
    if (used == 0) return;
    if (kPlain && !is_early) ring.begin(a, cache, walk);
    Queries<kDim> q(shared);
    q.take(shared);
    Part<kDim> part;
    clear(a, work.rows, work.split == 0 && warp == 0, part);
    take_steps<kDim, kPlain>(a, work.rows, cache, walk, ring, q, part);
    join_warps(a, work, part, (float*)after_queries);
}

// Continues the softmax of the first half of the keys: its log-sum becomes the peak of one weight, its result a value.
template <u32 kDim, class Dim>
DEVICE void go_on(const AttendArgs& a, const AttendWork<kAttendRows>& work, Dim&& dim, Part<kDim>& part) {
    UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 row = work.rows.row(i);
        if (row >= work.rows.used()) continue;
        part.peak[i] = *sum_of(a, work.rows, row, a.sums_before);
        part.sum[i] = threadIdx.x % 4 == 0 ? 1.f : 0.f;
        const float* out = work.out(a, row);
        UNROLL for (u32 n = 0; n < kDim / 8; n++) UNROLL for (u32 j = 0; j < 2; j++)
            part.values[n][2 * i + j] = dim(n, j) < a.value_dim ? out[dim(n, j)] : 0.f;
    }
}

// Heads too wide for the registers of a warp. The warps of a block process the same positions: each multiplies every
// fourth group of 32 dimensions of the keys, products are summed in the order of the warps, and each warp has a quarter
// of the values.
template <bool kHalves, bool kAmong = false> DEVICE void attend_wide(const AttendArgs& a, u8* shared) {
    constexpr u32 kDim = 128;  // values of a warp
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, warp = threadIdx.x / kWarp;
    const AttendWork<kAttendRows> work = work_of(a);
    const Rows& rows = work.rows;
    if (rows.used() == 0) return;
    const DeviceKv kv = cache_of(a, a.step.kvs[work.slot], work.kv_head);
    if (!kv.capacity) return;
    Part<kDim> part;
    clear(a, rows, work.split == 0, part);
    auto dim = [&](u32 n, u32 j) { return kDim * warp + permuted(n, j); };
    if (kAmong && a.sums_before && work.split == 0) go_on<kDim>(a, work, dim, part);

    // Queries: [chunk of 32 dimensions][half][lane]; each lane reads only its own operands. Scores: [step % 2][warp]
    // [lane], so that one barrier per step is enough.
    const u32 chunks = ceil_div(a.head_dim, 32);
    u8* queries = shared + 16 * lane;
    u8* scores_of = shared + chunks * 1024;
    u8* flag = scores_of + 2 * kAttendWarps * 1024;
    const float *low = query(a, rows, 0), *high = query(a, rows, 1);
    for (u32 c = warp; c < chunks; c += kAttendWarps) UNROLL for (u32 h = 0; h < 2; h++) {
        const u32 dim = 32 * c + 8 * t + 4 * h;
        const uint4 words = {query_word(a, low, dim), query_word(a, high, dim), query_word(a, low, dim + 2),
                             query_word(a, high, dim + 2)};
        store(queries + 1024 * c + 512 * h, words);
    }

    Walk walk(a, rows, work.split, a.splits);
    const float* list = kAmong ? walk.take_chosen(a, rows, work.split) : nullptr;
    u32 iteration = 0;
    for (u32 p0 = walk.begin; p0 < walk.end; p0 += walk.stride, iteration++) {
        const u64 row0 = row_of(a, kv, p0);
        auto row_at = [&](u32 i) {
            return kAmong && list ? (u32)list[p0 + walk.inside(p0, i)] : row0 + walk.inside(p0, i);
        };
        auto value_at = [&](u32 i) { return row_at(i) * a.layer.v_stride; };
        float scores[2][4] = {};
        for (u32 c = warp; c < chunks; c += kAttendWarps) {
            const uint4 q0 = load<uint4>(queries + 1024 * c), q1 = load<uint4>(queries + 1024 * c + 512);
            UNROLL for (u32 h = 0; h < 2; h++) {
                const u64 row = row_at(8 * h + g) * a.layer.k_stride;
                const uint4 k =
                    load_cached8<kHalves>(kv.k, kv.k_scales, row + min_u32(32 * c + 8 * t, walk.k_last), kv.k_type);
                mma16x8x16(scores[h], q0, k.x, k.y);
                mma16x8x16(scores[h], q1, k.z, k.w);
            }
        }
        u8* products = scores_of + iteration % 2 * kAttendWarps * 1024;
        UNROLL for (u32 h = 0; h < 2; h++)
            store(products + 1024 * warp + 512 * h + 16 * lane,
                  float4{scores[h][0], scores[h][1], scores[h][2], scores[h][3]});
        sync_block();
        UNROLL for (u32 h = 0; h < 2; h++) {
            UNROLL for (u32 i = 0; i < 4; i++) scores[h][i] = 0.f;
            UNROLL for (u32 w = 0; w < kAttendWarps; w++) {
                const float4 s = load<float4>(products + 1024 * w + 512 * h + 16 * lane);
                scores[h][0] += s.x, scores[h][1] += s.y, scores[h][2] += s.z, scores[h][3] += s.w;
            }
        }
        uint4 weights[1];
        weigh<kDim, 1>(a, rows, walk.seen, p0, false, scores, part, weights);
        UNROLL for (u32 e = 0; e < kDim / 64; e++) {
            uint4 v[4];
            load_values<kHalves>(kv, kDim * warp + 64 * e, walk.v_last, value_at, v);
            add_values(v, weights[0], part.values + 8 * e);
        }
    }
    sum_quads(part);

    const u32 used = rows.used();
    if (a.splits == 1) {
        if (kAmong && a.sums && warp == 0 && t == 0) UNROLL for (u32 i = 0; i < 2; i++)
            if (rows.row(i) < used) *sum_of(a, rows, rows.row(i), a.sums) = part.peak[i] + log2f(part.sum[i]);
        write_rows<kDim>(part, rows, used, a.value_dim, {1.f / part.sum[0], 1.f / part.sum[1]}, dim,
                         [&](u32 row) { return work.out(a, row); });
        return;
    }
    if (warp == 0) write_sums<kDim>(part, rows, used, [&](u32 row) { return work.part(a, row); });
    write_rows<kDim>(part, rows, used, a.value_dim, {1.f, 1.f}, dim, [&](u32 row) { return work.part(a, row) + 2; });
    work.join<kAttendWarps * kDim>(a, flag);
}

// The kernels without `_any` are for the plain case.
KERNEL(attend_64, AttendArgs, 128, 4) { DYNAMIC_SHARED(shared); attend<64, true>(a, shared); }
KERNEL(attend_64_any, AttendArgs, 128, 3) { DYNAMIC_SHARED(shared); attend<64, false>(a, shared); }
KERNEL(attend_128, AttendArgs, 128, 2) { DYNAMIC_SHARED(shared); attend<128, true>(a, shared); }
KERNEL(attend_128_any, AttendArgs, 128, 2) { DYNAMIC_SHARED(shared); attend<128, false>(a, shared); }
KERNEL(attend_256, AttendArgs, 128, 1) { DYNAMIC_SHARED(shared); attend<256, true>(a, shared); }
KERNEL(attend_256_any, AttendArgs, 128, 1) { DYNAMIC_SHARED(shared); attend<256, false>(a, shared); }
KERNEL(attend_64_single, AttendSingleArgs, 128, 4) { DYNAMIC_SHARED(shared); attend_single<64, true>(a, shared); }
KERNEL(attend_64_single_any, AttendSingleArgs, 128, 3) { DYNAMIC_SHARED(shared); attend_single<64, false>(a, shared); }
KERNEL(attend_128_single, AttendSingleArgs, 128, 2) { DYNAMIC_SHARED(shared); attend_single<128, true>(a, shared); }
KERNEL(attend_128_single_any, AttendSingleArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    attend_single<128, false>(a, shared);
}
KERNEL(attend_256_single, AttendSingleArgs, 128, 1) { DYNAMIC_SHARED(shared); attend_single<256, true>(a, shared); }
KERNEL(attend_256_single_any, AttendSingleArgs, 128, 1) {
    DYNAMIC_SHARED(shared);
    attend_single<256, false>(a, shared);
}
KERNEL(attend_wide, AttendArgs, 128, 2) { DYNAMIC_SHARED(shared); attend_wide<true>(a, shared); }
KERNEL(attend_wide_any, AttendArgs, 128, 2) { DYNAMIC_SHARED(shared); attend_wide<false>(a, shared); }
KERNEL(attend_among, AttendArgs, 128, 2) { DYNAMIC_SHARED(shared); attend_wide<false, true>(a, shared); }
