// Attention over the cache, one kernel for single tokens and for prompts.
//
// Query heads that share a key-value head, and the tokens of a tile, are the 16 rows of a matrix product, so each cached
// row is read once for all of them. A warp takes 16 positions at a time with an online softmax (arXiv 2205.14135):
// scores by `mma`, then values by `mma`. Operands are read from the cache by 16-byte loads, without shared memory: the order of
// the terms of a dot product is free, so each lane of a quad takes 8 neighbouring dimensions of 32 in place of the
// scattered ones of the instruction's layout, and the columns of the output are permuted in the same way.
//
// With few tiles (decoding), the positions of a tile are divided among `splits` blocks of four warps; the last block to end
// joins the parts in the order of the splits, so that the result does not depend on which block is last.
#include "args.cuh"

constexpr u32 kTile = 16;  // rows of a tile, and positions of a step
constexpr u32 kWarps = 4;

// Eight values of a cached row, in binary16. With `kHalves`, all of a cache is in binary16 and no load depends on a branch.
template <bool kHalves> DEVICE uint4 load_cached8(const u8* plane, const u16* scales, u64 at, u32 type) {
    if (kHalves || type == kF16) return load<uint4>(plane + 2 * at);
    if (type == kF32) {
        const float4 a = load<float4>(plane + 4 * at), b = load<float4>(plane + 4 * at + 16);
        return {pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w)};
    }
    const uint2 q = load<uint2>(plane + at);
    const float d = half_to_float(scales[at / 32]);
    u32 words[4];
    UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 two = (i < 2 ? q.x : q.y) >> (16 * (i % 2));
        words[i] = pack_halves(d * (float)(i8)two, d * (float)(i8)(two >> 8));
    }
    return {words[0], words[1], words[2], words[3]};
}

DEVICE u32 word(const uint4& v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Result of a warp over its positions: for rows g and g + 8 of lane 4g + t the peak, the sum of weights and the weighted
// values. Accumulator [8e + j] holds dimensions 64e + 16t + j and 64e + 16t + 8 + j.
template <u32 kDim> struct Part {
    float peak[2];
    float sum[2];
    float values[kDim / 8][4];
};

// The rows of a tile: (token, query head) pairs.
struct Rows {
    u32 tokens;      // of the tile
    u32 heads;       // query heads a token that are rows here
    u32 first_token;
    u32 first_head;
    u32 last_token;  // of the sequence in the step
    DEVICE_MEMBER u32 used() const { return tokens * heads; }
    // Token and query head of row r; behind the used ones any that exist.
    DEVICE_MEMBER u32 token(u32 r) const { return first_token + (r < used() ? r / heads : 0); }
    DEVICE_MEMBER u32 head(u32 r) const { return r < used() ? first_head + r % heads : 0; }
};

// Queries of a warp as the left operand, 16 dimensions a turn, in registers, or in shared memory for heads so long that the
// values alone nearly fill the registers.
template <u32 kDim, bool kShared = (kDim > 128)> struct Queries {
    u32 words[kDim / 16][4];
    DEVICE_MEMBER Queries(u8*) {}
    DEVICE_MEMBER void set(u32 turn, u32 i, u32 w) { words[turn][i] = w; }
    DEVICE_MEMBER uint4 get(u32 turn) const { return {words[turn][0], words[turn][1], words[turn][2], words[turn][3]}; }
};
template <u32 kDim> struct Queries<kDim, true> {
    u8* mine;
    DEVICE_MEMBER Queries(u8* shared) : mine(shared + threadIdx.x / kWarp * (kDim / 16 * 512) + threadIdx.x % kWarp * 16) {}
    DEVICE_MEMBER void set(u32 turn, u32 i, u32 w) { store(mine + 512 * turn + 4 * i, w); }
    DEVICE_MEMBER uint4 get(u32 turn) const { return load<uint4>(mine + 512 * turn); }
};
template <u32 kDim> constexpr u32 kQueryBytes = kDim > 128 ? kWarps * kDim / 16 * 512 : 0;

// The first and the last position that a token sees, at `position` of a sequence whose last one in the step is `newest`.
DEVICE u32 first_seen(const AttendArgs& a, u32 position) {
    if (a.mask == kAround) return position > a.window ? position - a.window : 0;
    if (a.mask == kOwnChunk) return position - position % a.window;
    return a.window && position >= a.window ? position - a.window + 1 : 0;
}
DEVICE u32 last_seen(const AttendArgs& a, u32 position, u32 newest) {
    return a.mask == kAround ? position + min_u32(a.window, newest - position) : position;
}

// What the rows g and g + 8 of a tile see, and the steps of 16 positions that one of `units` takes.
struct Walk {
    u32 first[2];
    u32 last[2];
    u32 begin;  // first position
    u32 end;
    u32 stride;  // between the steps of a unit
    u32 k_last;  // first of the last eight dimensions
    u32 v_last;
    DEVICE_MEMBER Walk(const AttendArgs& a, const Rows& rows, u32 unit, u32 units) {
        const u32 g = threadIdx.x % kWarp / 4, newest = a.step.positions[rows.last_token];
        UNROLL for (u32 i = 0; i < 2; i++) {
            const bool used = g + 8 * i < rows.used();
            const u32 position = a.step.positions[rows.token(g + 8 * i)];
            last[i] = used ? last_seen(a, position, newest) : 0;
            first[i] = used ? first_seen(a, position) : 1;
        }
        // Positions ascend within a tile.
        end = last_seen(a, a.step.positions[rows.first_token + rows.tokens - 1], newest) + 1;
        const u32 start = first_seen(a, a.step.positions[rows.first_token]) / kTile;
        // The unit of a position depends on its place in the sequence alone, not on the tile.
        begin = kTile * (start + (unit + units - start % units) % units);
        stride = kTile * units;
        k_last = ceil_div(a.head_dim, 8) * 8 - 8;
        v_last = ceil_div(a.value_dim, 8) * 8 - 8;
    }
};

// Begins a part: with no position seen, and in one unit of all with the sinks.
template <u32 kDim> DEVICE void clear(const AttendArgs& a, const Rows& rows, bool has_sinks, Part<kDim>& part) {
    const u32 lane = threadIdx.x % kWarp;
    UNROLL for (u32 i = 0; i < 2; i++) {
        part.peak[i] = kNegativeInfinity, part.sum[i] = 0.f;
        if (has_sinks && a.sinks) {
            part.peak[i] = kLog2e * a.sinks[rows.head(lane / 4 + 8 * i)];
            // The lanes of a quad are summed at the end.
            if (lane % 4 == 0) part.sum[i] = 1.f;
        }
    }
    UNROLL for (u32 i = 0; i < kDim / 8; i++) UNROLL for (u32 j = 0; j < 4; j++) part.values[i][j] = 0.f;
}

// The query of row g + 8i, or null.
DEVICE const float* query(const AttendArgs& a, const Rows& rows, u32 i) {
    const u32 r = threadIdx.x % kWarp / 4 + 8 * i;
    return r < rows.used() ? a.q + ((u64)rows.token(r) * a.heads + rows.head(r)) * a.head_dim : nullptr;
}
// Dimensions 32c + 8t + 2w and the next of a query, times the scale, as a word of the left operand.
DEVICE u32 query_word(const AttendArgs& a, const float* query, u32 c, u32 w) {
    const u32 dim = 32 * c + 8 * (threadIdx.x % 4) + 2 * w;
    const float low = query && dim < a.head_dim ? a.scale * query[dim] : 0.f;
    const float high = query && dim + 1 < a.head_dim ? a.scale * query[dim + 1] : 0.f;
    return pack_halves(low, high);
}

// Makes weights of the scores of 16 positions, relative to the peak so far, by which what the part holds shrinks.
template <u32 kDim>
DEVICE uint4 weigh(const AttendArgs& a, const Rows& rows, const Walk& walk, u32 p0, float (&scores)[2][4], Part<kDim>& part) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    u32 w[4];
    UNROLL for (u32 i = 0; i < 2; i++) {
        float slope = 0.f, position = 0.f;
        if (a.slopes) {
            slope = a.slopes[rows.head(g + 8 * i)];
            position = (float)a.step.positions[rows.token(g + 8 * i)];
        }
        float peak = part.peak[i];
        UNROLL for (u32 h = 0; h < 2; h++) UNROLL for (u32 j = 0; j < 2; j++) {
            float& s = scores[h][2 * i + j];
            const u32 p = p0 + 8 * h + 2 * t + j;
            if (a.softcap > 0.f) s = a.softcap * tanhf(s / a.softcap);
            if (a.slopes) s -= slope * fabsf(position - (float)p);
            s = p <= walk.last[i] && p >= walk.first[i] ? s * kLog2e : kNegativeInfinity;
            peak = fmaxf(peak, s);
        }
        peak = fmaxf(peak, shuffle_xor(peak, 1));
        peak = fmaxf(peak, shuffle_xor(peak, 2));
        // The peak of a row without positions is minus infinity, which must not be subtracted from itself.
        const float base = peak == kNegativeInfinity ? 0.f : peak;
        const float shrink = exp2_approx(part.peak[i] - base);
        part.peak[i] = peak;
        part.sum[i] *= shrink;
        UNROLL for (u32 n = 0; n < kDim / 8; n++) part.values[n][2 * i] *= shrink, part.values[n][2 * i + 1] *= shrink;
        UNROLL for (u32 h = 0; h < 2; h++) {
            const float w0 = exp2_approx(scores[h][2 * i] - base), w1 = exp2_approx(scores[h][2 * i + 1] - base);
            part.sum[i] += w0 + w1;
            w[i + 2 * h] = pack_halves(w0, w1);
        }
    }
    return {w[0], w[1], w[2], w[3]};
}

// Adds the weighted values of 16 positions, dimensions `first_dim`.., whose first value is `at`.
template <u32 kDim, bool kHalves>
DEVICE void add_values(const DeviceKv& kv, u64 at, u32 stride, u32 first_dim, u32 last, u32 valid, const uint4& weights,
                       Part<kDim>& part) {
    const u32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    UNROLL for (u32 e = 0; e < kDim / 64; e++) {
        uint4 v[4];
        UNROLL for (u32 i = 0; i < 4; i++) {
            const u64 row = at + min_u32(2 * t + i % 2 + 8 * (i / 2), valid) * stride;
            v[i] = load_cached8<kHalves>(kv.v, kv.v_scales, row + min_u32(first_dim + 64 * e + 8 * g, last), kv.v_type);
        }
        UNROLL for (u32 j = 0; j < 8; j++) {
            const u32 halves = j % 2 ? 0x7632 : 0x5410;
            mma16x8x16(part.values[8 * e + j], weights, permute(word(v[0], j / 2), word(v[1], j / 2), halves),
                       permute(word(v[2], j / 2), word(v[3], j / 2), halves));
        }
    }
}

// Sums what the lanes of a quad have seen of the positions of a row.
template <u32 kDim> DEVICE void sum_quads(Part<kDim>& part) {
    UNROLL for (u32 i = 0; i < 2; i++) {
        part.sum[i] += shuffle_xor(part.sum[i], 1);
        part.sum[i] += shuffle_xor(part.sum[i], 2);
    }
}

DEVICE u32 value_bytes(u32 type) { return type == kF32 ? 4 : type == kF16 ? 2 : 1; }

// The cache of a sequence with planes that begin at the first key and value of a head.
DEVICE DeviceKv cache_of(const AttendArgs& a, u32 slot, u32 kv_head) {
    DeviceKv kv = a.step.kvs[slot];
    const u64 k = first_value(kv, a.layer, a.layer.k, a.layer.k_stride, kv_head);
    const u64 v = first_value(kv, a.layer, a.layer.v, a.layer.v_stride, kv_head);
    if (a.layer.is_latent) kv.v = kv.k, kv.v_scales = kv.k_scales, kv.v_type = kv.k_type;
    kv.k = in_global(kv.k + k * value_bytes(kv.k_type)), kv.k_scales += k / 32;
    kv.v = in_global(kv.v + v * value_bytes(kv.v_type)), kv.v_scales += v / 32;
    return kv;
}

// The row of a position; those of a step never wrap around the end of a ring.
DEVICE u32 row_of(const AttendArgs& a, const DeviceKv& kv, u32 p0) { return a.layer.is_ring ? p0 % kv.ring : p0; }

template <u32 kDim, bool kHalves>
DEVICE void walk(const AttendArgs& a, const Rows& rows, const DeviceKv& kv, u32 unit, u32 units, u8* shared,
                 Part<kDim>& part) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    clear(a, rows, unit == 0, part);
    // Words 0 and 2 of an operand belong to row g, words 1 and 3 to row g + 8.
    Queries<kDim> q(shared);
    UNROLL for (u32 i = 0; i < 2; i++) {
        const float* from = query(a, rows, i);
        UNROLL_BY(kDim > 128 ? 2 : kDim / 32) for (u32 c = 0; c < kDim / 32; c++) UNROLL for (u32 w = 0; w < 4; w++)
            q.set(2 * c + w / 2, i + 2 * (w % 2), query_word(a, from, c, w));
    }

    const Walk walk(a, rows, unit, units);
    for (u32 p0 = walk.begin; p0 < walk.end; p0 += walk.stride) {
        const u64 row0 = row_of(a, kv, p0);
        const u32 valid = walk.end - 1 - p0;
        float scores[2][4] = {};
        UNROLL for (u32 h = 0; h < 2; h++) {
            // Positions not yet written hold arbitrary bits: the last valid one is read in their place, with weight 0. Behind
            // the head's dimensions the last ones are read; the query is 0 there and the output is dropped.
            const u64 row = (row0 + min_u32(8 * h + g, valid)) * a.layer.k_stride;
            // With queries in shared memory registers are short, so the loop is not unrolled and keeps few keys at a time.
            UNROLL_BY(kDim > 128 ? 2 : kDim / 32) for (u32 c = 0; c < kDim / 32; c++) {
                const uint4 k = load_cached8<kHalves>(kv.k, kv.k_scales, row + min_u32(32 * c + 8 * t, walk.k_last), kv.k_type);
                mma16x8x16(scores[h], q.get(2 * c), k.x, k.y);
                mma16x8x16(scores[h], q.get(2 * c + 1), k.z, k.w);
            }
        }
        const uint4 weights = weigh(a, rows, walk, p0, scores, part);
        add_values<kDim, kHalves>(kv, row0 * a.layer.v_stride, a.layer.v_stride, 0, walk.v_last, valid, weights, part);
    }
    sum_quads(part);
}

// Writes a lane's values of the first `used` rows, dimensions `first_dim`.. of `d`, times `factor[i]`, to `place(row)`.
template <u32 kDim, class F>
DEVICE void write_rows(const Part<kDim>& part, u32 first_dim, u32 d, u32 used, const float (&factor)[2], F&& place) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    UNROLL for (u32 i = 0; i < 2; i++) {
        if (g + 8 * i >= used) continue;
        float* to = place(g + 8 * i);
        UNROLL for (u32 n = 0; n < kDim / 8; n++) UNROLL for (u32 j = 0; j < 2; j++) {
            const u32 dim = first_dim + n / 8 * 64 + 16 * t + 8 * j + n % 8;
            if (dim < d) to[dim] = part.values[n][2 * i + j] * factor[i];
        }
    }
}

// Writes the peak and the sum of a lane's rows to `place(row)`.
template <u32 kDim, class F> DEVICE void write_sums(const Part<kDim>& part, u32 used, F&& place) {
    const u32 lane = threadIdx.x % kWarp;
    if (lane % 4 == 0) UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 row = lane / 4 + 8 * i;
        if (row < used) place(row)[0] = part.peak[i], place(row)[1] = part.sum[i];
    }
}

// Joins the parts of a row, [part][row][peak, sum, values], to softmax-weighted values.
DEVICE float merged(const float* parts, u32 n, u32 row_size, u32 rows, u32 row, u32 dim) {
    float peak = kNegativeInfinity;
    for (u32 p = 0; p < n; p++) peak = fmaxf(peak, parts[(p * rows + row) * row_size]);
    float sum = 0.f, value = 0.f;
    for (u32 p = 0; p < n; p++) {
        const float* part = parts + (p * rows + row) * row_size;
        if (part[1] == 0.f) continue;
        const float w = exp2_approx(part[0] - peak);
        sum += w * part[1];
        value += w * part[2 + dim];
    }
    return value / sum;
}

// A tile and a head of the cache.
struct TileWork {
    u32 tile;
    u32 split;
    u32 slot;
    u32 kv_head;
    Rows rows;  // none without a tile
    DEVICE_MEMBER TileWork(const AttendArgs& a, u32 place, u32 splits) : tile(place / splits), split(place % splits), slot(0), rows() {
        // Query head i reads cached head i * kv_heads / heads. More query heads than rows take several blocks.
        const u32 chunks = ceil_div(ceil_div(a.heads, a.kv_heads), kTile);
        kv_head = blockIdx.y / chunks;
        if (a.first_tile + tile >= a.step.n_tiles) return;
        const u32 first_head = ceil_div(kv_head * a.heads, a.kv_heads) + blockIdx.y % chunks * kTile;
        const u32 end_head = ceil_div((kv_head + 1) * a.heads, a.kv_heads);
        const DeviceTile at = a.step.tiles[a.first_tile + tile];
        slot = at.slot;
        const u32 heads = first_head < end_head ? min_u32(end_head - first_head, kTile) : 0;
        rows = {at.count, heads, at.first, first_head, at.last};
    }
    DEVICE_MEMBER float* out(const AttendArgs& a, u32 row) const {
        return a.out + ((u64)rows.token(row) * a.heads + rows.head(row)) * a.value_dim;
    }
    // Number of the tile's first part, and a row of one of them.
    DEVICE_MEMBER u64 place(const AttendArgs& a) const { return (u64)(tile * gridDim.y + blockIdx.y) * a.splits; }
    DEVICE_MEMBER float* part(const AttendArgs& a, u32 row) const {
        return a.partials + ((place(a) + split) * kTile + row) * (2 + a.value_dim);
    }
    // Joins the parts of all splits where this is the last of them to be written.
    DEVICE_MEMBER void join(const AttendArgs& a, u8* flag) const {
        if (!last_block(a.counters + tile * gridDim.y + blockIdx.y, a.splits, (u32*)flag)) return;
        const u32 d = a.value_dim;
        const float* all = a.partials + place(a) * kTile * (2 + d);
        for (u32 i = threadIdx.x; i < rows.used() * d; i += blockDim.x)
            out(a, i / d)[i % d] = merged(all, a.splits, 2 + d, kTile, i / d, i % d);
    }
};

template <u32 kDim, bool kHalves> DEVICE void attend(const AttendArgs& a, u8* shared) {
    let_next_start();
    wait_for_previous();
    const u32 warp = threadIdx.x / kWarp, d = a.value_dim;
    const TileWork work(a, a.splits ? blockIdx.x : blockIdx.x * kWarps + warp, max_u32(a.splits, 1));
    const Rows& rows = work.rows;
    if (rows.tokens == 0) return;
    const u32 used = rows.used();
    const DeviceKv kv = cache_of(a, work.slot, work.kv_head);

    Part<kDim> part;
    if (!a.splits) {
        walk<kDim, kHalves>(a, rows, kv, 0, 1, shared, part);
        write_rows<kDim>(part, 0, d, used, {1.f / part.sum[0], 1.f / part.sum[1]}, [&](u32 row) { return work.out(a, row); });
        return;
    }

    // Groups of positions are dealt to blocks first and then to warps, so that a short context occupies all blocks.
    walk<kDim, kHalves>(a, rows, kv, work.split + warp * a.splits, kWarps * a.splits, shared, part);
    const u32 row_size = 2 + d;
    float* parts = (float*)(shared + kQueryBytes<kDim>);
    float* mine = parts + warp * used * row_size;
    write_sums<kDim>(part, used, [&](u32 row) { return mine + row * row_size; });
    write_rows<kDim>(part, 0, d, used, {1.f, 1.f}, [&](u32 row) { return mine + row * row_size + 2; });
    sync_block();

    // Joins the parts of the four warps to that of the block.
    for (u32 i = threadIdx.x; i < used * row_size; i += blockDim.x) {
        const u32 row = i / row_size, field = i % row_size;
        float peak = kNegativeInfinity;
        for (u32 w = 0; w < kWarps; w++) peak = fmaxf(peak, parts[(w * used + row) * row_size]);
        float v = peak;
        if (field > 0) {
            v = 0.f;
            for (u32 w = 0; w < kWarps; w++) {
                const float* from = parts + (w * used + row) * row_size;
                if (from[1] != 0.f) v += exp2_approx(from[0] - peak) * from[field];
            }
        }
        work.part(a, row)[field] = v;
    }
    work.join(a, (u8*)(parts + kWarps * used * row_size));
}

// Heads too wide for the registers of a warp. The warps of a block take the same positions: each multiplies every fourth 32
// dimensions of the keys, the products are summed in the order of the warps, and each has a quarter of the values.
template <bool kHalves> DEVICE void attend_wide(const AttendArgs& a, u8* shared) {
    constexpr u32 kDim = 128;  // values of a warp
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, warp = threadIdx.x / kWarp;
    const TileWork work(a, blockIdx.x, a.splits);
    const Rows& rows = work.rows;
    if (rows.tokens == 0) return;
    const DeviceKv kv = cache_of(a, work.slot, work.kv_head);
    Part<kDim> part;
    clear(a, rows, work.split == 0, part);

    // Queries: what a lane multiplies, [chunk of 32 dimensions][half][lane], which no other lane reads. Scores:
    // [turn % 2][warp][lane], so that a barrier a turn is enough.
    const u32 chunks = ceil_div(a.head_dim, 32);
    u8* queries = shared + 16 * lane;
    u8* scores_of = shared + chunks * 1024;
    u8* flag = scores_of + 2 * kWarps * 1024;
    const float *low = query(a, rows, 0), *high = query(a, rows, 1);
    for (u32 c = warp; c < chunks; c += kWarps) UNROLL for (u32 h = 0; h < 2; h++) {
        const uint4 words = {query_word(a, low, c, 2 * h), query_word(a, high, c, 2 * h),
                             query_word(a, low, c, 2 * h + 1), query_word(a, high, c, 2 * h + 1)};
        store(queries + 1024 * c + 512 * h, words);
    }

    const Walk walk(a, rows, work.split, a.splits);
    u32 turn = 0;
    for (u32 p0 = walk.begin; p0 < walk.end; p0 += walk.stride, turn++) {
        const u64 row0 = row_of(a, kv, p0);
        const u32 valid = walk.end - 1 - p0;
        float scores[2][4] = {};
        for (u32 c = warp; c < chunks; c += kWarps) {
            const uint4 q0 = load<uint4>(queries + 1024 * c), q1 = load<uint4>(queries + 1024 * c + 512);
            UNROLL for (u32 h = 0; h < 2; h++) {
                const u64 row = (row0 + min_u32(8 * h + g, valid)) * a.layer.k_stride;
                const uint4 k = load_cached8<kHalves>(kv.k, kv.k_scales, row + min_u32(32 * c + 8 * t, walk.k_last), kv.k_type);
                mma16x8x16(scores[h], q0, k.x, k.y);
                mma16x8x16(scores[h], q1, k.z, k.w);
            }
        }
        u8* products = scores_of + turn % 2 * kWarps * 1024;
        UNROLL for (u32 h = 0; h < 2; h++)
            store(products + 1024 * warp + 512 * h + 16 * lane, float4{scores[h][0], scores[h][1], scores[h][2], scores[h][3]});
        sync_block();
        UNROLL for (u32 h = 0; h < 2; h++) {
            UNROLL for (u32 i = 0; i < 4; i++) scores[h][i] = 0.f;
            UNROLL for (u32 w = 0; w < kWarps; w++) {
                const float4 s = load<float4>(products + 1024 * w + 512 * h + 16 * lane);
                scores[h][0] += s.x, scores[h][1] += s.y, scores[h][2] += s.z, scores[h][3] += s.w;
            }
        }
        const uint4 weights = weigh(a, rows, walk, p0, scores, part);
        add_values<kDim, kHalves>(kv, row0 * a.layer.v_stride, a.layer.v_stride, kDim * warp, walk.v_last, valid, weights,
                                  part);
    }
    sum_quads(part);

    const u32 used = rows.used();
    if (a.splits == 1) {
        write_rows<kDim>(part, kDim * warp, a.value_dim, used, {1.f / part.sum[0], 1.f / part.sum[1]},
                         [&](u32 row) { return work.out(a, row); });
        return;
    }
    if (warp == 0) write_sums<kDim>(part, used, [&](u32 row) { return work.part(a, row); });
    write_rows<kDim>(part, kDim * warp, a.value_dim, used, {1.f, 1.f}, [&](u32 row) { return work.part(a, row) + 2; });
    work.join(a, flag);
}

KERNEL(attend_64, AttendArgs, 128, 4) {
    DYNAMIC_SHARED(shared);
    attend<64, true>(a, shared);
}
KERNEL(attend_64_any, AttendArgs, 128, 3) {
    DYNAMIC_SHARED(shared);
    attend<64, false>(a, shared);
}
KERNEL(attend_128, AttendArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    attend<128, true>(a, shared);
}
KERNEL(attend_128_any, AttendArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    attend<128, false>(a, shared);
}
KERNEL(attend_256, AttendArgs, 128, 1) {
    DYNAMIC_SHARED(shared);
    attend<256, true>(a, shared);
}
KERNEL(attend_256_any, AttendArgs, 128, 1) {
    DYNAMIC_SHARED(shared);
    attend<256, false>(a, shared);
}
KERNEL(attend_wide, AttendArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    attend_wide<true>(a, shared);
}
KERNEL(attend_wide_any, AttendArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    attend_wide<false>(a, shared);
}
