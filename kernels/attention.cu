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

template <u32 kDim, bool kHalves>
DEVICE void walk(const AttendArgs& a, const Rows& rows, const DeviceKv& kv, u64 kv_row, u32 unit, u32 units, u8* shared,
                 Part<kDim>& part) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, d = a.head_dim;
    UNROLL for (u32 i = 0; i < 2; i++) part.peak[i] = kNegativeInfinity, part.sum[i] = 0.f;
    UNROLL for (u32 i = 0; i < kDim / 8; i++) UNROLL for (u32 j = 0; j < 4; j++) part.values[i][j] = 0.f;

    // Words 0 and 2 of an operand belong to row g, words 1 and 3 to row g + 8.
    Queries<kDim> q(shared);
    u32 last[2], first[2];
    UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 r = g + 8 * i;
        const bool used = r < rows.tokens * rows.heads;
        const u32 token = rows.first_token + (used ? r / rows.heads : 0);
        const float* from = a.q + ((u64)token * a.heads + rows.first_head + (used ? r % rows.heads : 0)) * d;
        UNROLL_BY(kDim > 128 ? 2 : kDim / 32) for (u32 c = 0; c < kDim / 32; c++) UNROLL for (u32 w = 0; w < 4; w++) {
            const u32 dim = 32 * c + 8 * t + 2 * w;
            const float low = used && dim < d ? a.scale * from[dim] : 0.f;
            const float high = used && dim + 1 < d ? a.scale * from[dim + 1] : 0.f;
            q.set(2 * c + w / 2, i + 2 * (w % 2), pack_halves(low, high));
        }
        const u32 position = a.step.positions[token];
        last[i] = used ? position : 0;
        first[i] = !used ? 1 : a.window && position >= a.window ? position - a.window + 1 : 0;
    }

    // Positions ascend within a tile.
    const u32 end = a.step.positions[rows.first_token + rows.tokens - 1] + 1;
    const u32 oldest = a.step.positions[rows.first_token];
    const u32 start = a.window && oldest >= a.window ? (oldest - a.window + 1) / kTile : 0;
    // The unit of a position depends on its place in the sequence alone, not on the tile.
    const u32 first_step = start + (unit + units - start % units) % units;
    const u32 rows_kept = kept(kv, a.layer);
    for (u32 p0 = kTile * first_step; p0 < end; p0 += kTile * units) {
        // The positions of a step never wrap around the end of a ring.
        const u64 row0 = kv_row + (a.layer.is_ring ? p0 % rows_kept : p0);
        const u32 valid = end - 1 - p0;
        float scores[2][4] = {};
        UNROLL for (u32 h = 0; h < 2; h++) {
            // Positions not yet written hold arbitrary bits: the last valid one is read in their place, with weight 0. Behind
            // the head's dimensions the last ones are read; the query is 0 there and the output is dropped.
            const u64 row = (row0 + min_u32(8 * h + g, valid)) * kv.stride;
            // With queries in shared memory registers are short, so the loop is not unrolled and keeps few keys at a time.
            UNROLL_BY(kDim > 128 ? 2 : kDim / 32) for (u32 c = 0; c < kDim / 32; c++) {
                const uint4 k = load_cached8<kHalves>(kv.k, kv.k_scales, row + min_u32(32 * c + 8 * t, kv.stride - 8), kv.k_type);
                mma16x8x16(scores[h], q.get(2 * c), k.x, k.y);
                mma16x8x16(scores[h], q.get(2 * c + 1), k.z, k.w);
            }
        }
        u32 w[4];
        UNROLL for (u32 i = 0; i < 2; i++) {
            float peak = part.peak[i];
            UNROLL for (u32 h = 0; h < 2; h++) UNROLL for (u32 j = 0; j < 2; j++) {
                float& s = scores[h][2 * i + j];
                const u32 p = p0 + 8 * h + 2 * t + j;
                if (a.softcap > 0.f) s = a.softcap * tanhf(s / a.softcap);
                s = p <= last[i] && p >= first[i] ? s * kLog2e : kNegativeInfinity;
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
        const uint4 weights = {w[0], w[1], w[2], w[3]};
        UNROLL for (u32 e = 0; e < kDim / 64; e++) {
            uint4 v[4];
            UNROLL for (u32 i = 0; i < 4; i++) {
                const u64 row = (row0 + min_u32(2 * t + i % 2 + 8 * (i / 2), valid)) * kv.stride;
                v[i] = load_cached8<kHalves>(kv.v, kv.v_scales, row + min_u32(64 * e + 8 * g, kv.stride - 8), kv.v_type);
            }
            UNROLL for (u32 j = 0; j < 8; j++) {
                const u32 halves = j % 2 ? 0x7632 : 0x5410;
                mma16x8x16(part.values[8 * e + j], weights, permute(word(v[0], j / 2), word(v[1], j / 2), halves),
                           permute(word(v[2], j / 2), word(v[3], j / 2), halves));
            }
        }
    }
    UNROLL for (u32 i = 0; i < 2; i++) {
        part.sum[i] += shuffle_xor(part.sum[i], 1);
        part.sum[i] += shuffle_xor(part.sum[i], 2);
    }
}

// Writes a lane's values of the first `used` rows, times `factor[i]`, to `place(row)`.
template <u32 kDim, class F> DEVICE void write_rows(const Part<kDim>& part, u32 d, u32 used, const float (&factor)[2], F&& place) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    UNROLL for (u32 i = 0; i < 2; i++) {
        if (g + 8 * i >= used) continue;
        float* to = place(g + 8 * i);
        UNROLL for (u32 n = 0; n < kDim / 8; n++) UNROLL for (u32 j = 0; j < 2; j++) {
            const u32 dim = n / 8 * 64 + 16 * t + 8 * j + n % 8;
            if (dim < d) to[dim] = part.values[n][2 * i + j] * factor[i];
        }
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

template <u32 kDim, bool kHalves> DEVICE void attend(const AttendArgs& a, u8* shared) {
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, d = a.head_dim;
    // Query head i reads cached head i * kv_heads / heads. More query heads than rows take several blocks.
    const u32 chunks = ceil_div(ceil_div(a.heads, a.kv_heads), kTile);
    const u32 kv_head = blockIdx.y / chunks;
    const u32 first_head = ceil_div(kv_head * a.heads, a.kv_heads) + blockIdx.y % chunks * kTile;
    const u32 end_head = ceil_div((kv_head + 1) * a.heads, a.kv_heads);
    const u32 tile = a.splits ? blockIdx.x / a.splits : blockIdx.x * kWarps + warp;
    if (a.first_tile + tile >= a.step.n_tiles) return;
    const DeviceTile at = a.step.tiles[a.first_tile + tile];
    DeviceKv kv = a.step.kvs[at.slot];
    kv.k = in_global(kv.k), kv.v = in_global(kv.v);
    const u64 kv_row = first_row(kv, a.layer, a.kv_heads, kv_head);
    const Rows rows = {at.count, first_head < end_head ? min_u32(end_head - first_head, kTile) : 0, at.first, first_head};
    const u32 used = rows.tokens * rows.heads;
    auto out = [&](u32 row) -> float* {
        return a.out + ((u64)(rows.first_token + row / rows.heads) * a.heads + rows.first_head + row % rows.heads) * d;
    };

    Part<kDim> part;
    if (!a.splits) {
        walk<kDim, kHalves>(a, rows, kv, kv_row, 0, 1, shared, part);
        write_rows<kDim>(part, d, used, {1.f / part.sum[0], 1.f / part.sum[1]}, out);
        return;
    }

    // Groups of positions are dealt to blocks first and then to warps, so that a short context occupies all blocks.
    const u32 split = blockIdx.x % a.splits;
    walk<kDim, kHalves>(a, rows, kv, kv_row, split + warp * a.splits, kWarps * a.splits, shared, part);
    const u32 row_size = 2 + d;
    float* parts = (float*)(shared + kQueryBytes<kDim>);
    float* mine = parts + warp * used * row_size;
    if (lane % 4 == 0) UNROLL for (u32 i = 0; i < 2; i++) {
        const u32 row = lane / 4 + 8 * i;
        if (row < used) mine[row * row_size] = part.peak[i], mine[row * row_size + 1] = part.sum[i];
    }
    write_rows<kDim>(part, d, used, {1.f, 1.f}, [&](u32 row) { return mine + row * row_size + 2; });
    sync_block();

    // Joins the parts of the four warps to that of the block.
    const u32 place = (tile * gridDim.y + blockIdx.y) * a.splits;
    float* block_part = a.partials + ((u64)place + split) * kTile * row_size;
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
        block_part[row * row_size + field] = v;
    }
    u32* flag = (u32*)(parts + kWarps * used * row_size);
    if (!last_block(a.counters + tile * gridDim.y + blockIdx.y, a.splits, flag)) return;
    const float* all = a.partials + (u64)place * kTile * row_size;
    for (u32 i = threadIdx.x; i < used * d; i += blockDim.x)
        out(i / d)[i % d] = merged(all, a.splits, row_size, kTile, i / d, i % d);
}

KERNEL(attend_64, AttendArgs, 128, 4) {
    DYNAMIC_SHARED(shared);
    attend<64, true>(a, shared);
}
KERNEL(attend_64_any, AttendArgs, 128, 4) {
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
