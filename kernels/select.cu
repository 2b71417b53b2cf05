// Selection of the keys that a token attends to (sparse attention): the lightning indexer of DeepSeek V3.2.
//
//     score of a key = sum over heads of weight * max(q . k, 0); out = the groups with the best keys
//
// Algorithm: each block has every splits-th 256 keys, or every splits-th group if groups are larger. Scores are rows of
// a matrix product, 16 keys per warp, summed over heads in registers. Groups better than the worst of the best so far
// are appended to a list in shared memory; whenever it is full, it is sorted and truncated. The last of the
// `splits` blocks merges all lists and sorts the result by position.
//
// Invariants: groups are totally ordered, by score and then by position, so that the selection depends neither on
// timing nor on the number of splits.
//
// Shapes: see `SelectArgs`. Shared memory: the list of `room` groups, queries in binary16 with rows of `row_bytes`,
// weights, scores and two words. Grid: tokens * splits.
#include "attention.cuh"

// The best groups of a block so far, as ranks in shared memory; 0: none.
struct Chosen {
    u64* list;
    u32* filled;
    u32 room;
    u32 most;   // groups to select
    u64 limit;  // only larger ranks are added

    // Sorts the list and keeps the best.
    DEVICE_MEMBER void sort() {
        sync_block();
        for (u32 i = *filled + threadIdx.x; i < room; i += blockDim.x) list[i] = 0;
        sync_block();
        for (u32 run = 2; run <= room; run *= 2) for (u32 far = run / 2; far > 0; far /= 2) {
            for (u32 i = threadIdx.x; i < room; i += blockDim.x) {
                if ((i ^ far) < i) continue;  // the other thread's
                const u64 a = list[i], b = list[i ^ far];
                if ((a < b) == !(i & run)) list[i] = b, list[i ^ far] = a;
            }
            sync_block();
        }
        limit = list[most - 1];
        if (threadIdx.x == 0) *filled = min_u32(*filled, most);
        sync_block();
    }
    // Makes room for one more group from each thread.
    DEVICE_MEMBER void make_room() {
        sync_block();
        const bool is_full = *filled + blockDim.x > room;
        sync_block();
        if (is_full) sort();
    }
    DEVICE_MEMBER void add(u64 rank) {
        if (rank > limit) list[fetch_add_shared(filled, 1)] = rank;
    }
};

// Bytes of a query in shared memory; `select_shared` in `src/cuda/scratch.rs` counts the same.
DEVICE u32 row_bytes(u32 dim) { return 64 * ceil_div(dim, 32) + 32; }

// Computes the scores of the `kSelectKeys` keys from `k0` on; each warp has 16 adjacent keys at a time.
DEVICE void score_keys(const SelectArgs& a, const DeviceKv& kv, const u8* queries, const float* weights, u32 k0,
                       u32 keys, float* scores) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, chunks = ceil_div(a.dim, 32);
    for (u32 first = threadIdx.x / kWarp * 16; first < kSelectKeys; first += blockDim.x / kWarp * 16) {
        if (k0 + first >= keys) break;
        uint4 low[kSelectDim / 32], high[kSelectDim / 32];
        UNROLL for (u32 c = 0; c < kSelectDim / 32; c++) {
            if (c >= chunks) break;
            auto load_key = [&](u32 i) {
                const u64 row = min_u32(k0 + first + i, keys - 1);
                return load_cached8<false>(kv.k, kv.k_scales, row * a.layer.k_stride + 32 * c + 8 * t, kv.k_type);
            };
            low[c] = load_key(g), high[c] = load_key(g + 8);
        }
        float sums[2] = {};
        for (u32 head = 0; head < a.heads; head += 8) {
            float d[4] = {};
            UNROLL for (u32 c = 0; c < kSelectDim / 32; c++) {
                if (c >= chunks) break;
                const uint4 q = load<uint4>(queries + (head + g) * row_bytes(a.dim) + 64 * c + 16 * t);
                mma16x8x16(d, {low[c].x, high[c].x, low[c].y, high[c].y}, q.x, q.y);
                mma16x8x16(d, {low[c].z, high[c].z, low[c].w, high[c].w}, q.z, q.w);
            }
            UNROLL for (u32 i = 0; i < 4; i++)
                sums[i / 2] = fmaf(weights[head + 2 * t + i % 2], fmaxf(d[i], 0.f), sums[i / 2]);
        }
        UNROLL for (u32 i = 0; i < 2; i++) {
            sums[i] += shuffle_xor(sums[i], 1);
            sums[i] += shuffle_xor(sums[i], 2);
            if (t == 0) scores[first + g + 8 * i] = sums[i];
        }
    }
}

KERNEL(choose_keys, SelectArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    const u32 token = blockIdx.x / a.splits, split = blockIdx.x % a.splits, thread = threadIdx.x;
    DeviceKv kv = a.step.kvs[a.step.slots[token]];
    if (!kv.capacity) return;
    const u32 keys = keys_up_to(a.layer, a.step.positions[token]);
    float* out = a.out + (u64)token * a.top;
    if (keys <= a.top) {
        if (split == 0)
            for (u32 i = thread; i < a.top; i += blockDim.x) out[i] = i < keys ? (float)i : -1.f;
        return;
    }
    const u64 first = first_value(kv, a.layer, a.layer.k, a.layer.k_stride, 0);
    kv.k = in_global(kv.k + cached_bytes(first, kv.k_type)), kv.k_scales += first / 32;

    const u32 heads = ceil_div(a.heads, 8) * 8, words = row_bytes(a.dim) / 4;
    u8* queries = shared + 8 * a.room;
    float* weights = (float*)(queries + heads * row_bytes(a.dim));
    float* scores = weights + heads;
    u32* filled = (u32*)(scores + kSelectKeys);
    for (u32 i = thread; i < heads * words; i += blockDim.x) {
        const u32 head = i / words, dim = 2 * (i % words);
        const float* q = a.q + ((u64)token * a.heads + head) * a.dim;
        auto value = [&](u32 dim) { return head < a.heads && dim < a.dim ? q[dim] : 0.f; };
        store(queries + 4 * i, pack_halves(value(dim), value(dim + 1)));
    }
    for (u32 i = thread; i < heads; i += blockDim.x)
        weights[i] = i < a.heads ? a.weights[(u64)token * a.heads + i] : 0.f;
    if (thread == 0) *filled = 0;
    Chosen best = {(u64*)shared, filled, a.room, a.groups, 0};

    // Whole groups of keys.
    const bool is_long = a.size > kSelectKeys;
    const u32 stride = is_long ? a.size : kSelectKeys / a.size * a.size, newest = (keys - 1) / a.size;
    for (u32 k0 = split * stride; k0 < keys; k0 += a.splits * stride) {
        best.make_room();
        if (is_long) {
            // Keys of one group; each thread finds its best.
            const u32 end = min_u32(k0 + a.size, keys);
            float score = kNegativeInfinity;
            for (u32 at = k0; at < end; at += kSelectKeys) {
                score_keys(a, kv, queries, weights, at, end, scores);
                sync_block();
                const u32 key = at + thread;
                if (key < end && (a.kind == kBlocks || key == k0 + a.size - 1)) score = fmaxf(score, scores[thread]);
                sync_block();
            }
            score = block_max(score, scores);
            const u32 group = k0 / a.size;
            if (a.kind == kBlocks && group + a.local > newest) score = -kNegativeInfinity;
            if (thread == 0 && (a.kind == kBlocks || end == k0 + a.size)) best.add(rank_of(score + 0.f, group));
            continue;
        }
        score_keys(a, kv, queries, weights, k0, keys, scores);
        sync_block();
        const u32 from = thread * a.size, end = min_u32(from + a.size, keys - k0), group = k0 / a.size + thread;
        if (from + a.size > stride || from >= end || (a.kind == kPools && end < from + a.size)) continue;
        float score = scores[end - 1];
        if (a.kind == kBlocks) {
            for (u32 i = from; i < end; i++) score = fmaxf(score, scores[i]);
            if (group + a.local > newest) score = -kNegativeInfinity;
        }
        best.add(rank_of(score + 0.f, group));  // Turns -0 into 0.
    }
    best.sort();
    if (a.splits > 1) {
        u64* found = a.found + (u64)token * a.splits * a.groups;
        for (u32 i = thread; i < a.groups; i += blockDim.x)
            found[split * a.groups + i] = i < *filled ? best.list[i] : 0;
        if (!last_block(a.counters + token, a.splits, filled + 1)) return;
        if (thread == 0) *filled = 0;
        best.limit = 0;
        for (u32 i0 = 0; i0 < a.splits * a.groups; i0 += blockDim.x) {
            best.make_room();
            if (i0 + thread < a.splits * a.groups) best.add(found[i0 + thread]);
        }
        best.sort();
    }
    // Sorts by position.
    const u32 n = *filled;
    for (u32 i = thread; i < n; i += blockDim.x) best.list[i] = rank_of(0.f, id_of(best.list[i]));
    best.sort();
    for (u32 i = thread; i < a.top; i += blockDim.x) {
        const u32 key = i < n * a.size ? id_of(best.list[i / a.size]) * a.size + i % a.size
                        : a.kind == kPools ? keys / a.size * a.size + i - n * a.size : keys;
        out[i] = key < keys ? (float)key : -1.f;
    }
}
