// Common parts of attention: query rows, their visible positions, the online softmax (arXiv 2205.14135), and the merge
// of partial results.
//
// A row is a (token, query head) pair. Rows of one KV head and tile are the rows of one matrix product, 16 per warp,
// so that each cached row is read once for all of them. Peaks are base-2 logarithms.
#pragma once

#include "common.cuh"

// Eight values of a cached row, in binary16. If `kHalves`, the whole cache is in binary16, and no load depends on a
// branch.
template <bool kHalves> DEVICE uint4 load_cached8(const u8* plane, const u16* scales, u64 at, u32 type) {
    if (kHalves || type == kF16) return load<uint4>(plane + 2 * at);
    if (type == kF32) {
        const float4 a = load<float4>(plane + 4 * at), b = load<float4>(plane + 4 * at + 16);
        return {pack_halves(a.x, a.y), pack_halves(a.z, a.w), pack_halves(b.x, b.y), pack_halves(b.z, b.w)};
    }
    const float d = half_to_float(scales[at / 32]);
    u32 words[4];
    if (type == kQ4_0) {
        const u32 q = load<u32>(plane + at / 2);
        UNROLL for (u32 i = 0; i < 4; i++)
            words[i] = pack_halves(d * (float)((i32)(q >> (8 * i) & 15) - 8), d * (float)((i32)(q >> (8 * i + 4) & 15) - 8));
        return {words[0], words[1], words[2], words[3]};
    }
    const uint2 q = load<uint2>(plane + at);
    UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 two = (i < 2 ? q.x : q.y) >> (16 * (i % 2));
        words[i] = pack_halves(d * (float)(i8)two, d * (float)(i8)(two >> 8));
    }
    return {words[0], words[1], words[2], words[3]};
}

// The partial result of a warp: for rows g and g + 8 of lane 4g + t the peak, the sum of weights, and the weighted
// values.
template <u32 kDim> struct Part {
    float peak[2];
    float sum[2];
    float values[kDim / 8][4];
};

// Rows of a tile: (token, query head) pairs.
struct Rows {
    u32 tokens;      // of the tile
    u32 heads;       // query heads per token
    u32 first_token;
    u32 first_head;
    u32 last_token;  // of the sequence in the step
    u32 first;       // row of the warp
    DEVICE_MEMBER u32 used() const { return tokens * heads; }
    // Row g + 8i of the warp, of lane 4g + t.
    DEVICE_MEMBER u32 row(u32 i) const { return first + threadIdx.x % kWarp / 4 + 8 * i; }
    // Token and query head of row r; any valid ones for unused rows.
    DEVICE_MEMBER u32 token(u32 r) const { return first_token + (r < used() ? r / heads : 0); }
    DEVICE_MEMBER u32 head(u32 r) const { return r < used() ? first_head + r % heads : 0; }
};

// Queries of a warp as the left operand, 16 dimensions per chunk, in registers; in shared memory for heads so wide that
// the values nearly fill the registers. `take`: uses queries shared by all warps, 16 bytes per lane and chunk.
template <u32 kDim, bool kShared = (kDim > 128)> struct Queries {
    u32 words[kDim / 16][4];
    DEVICE_MEMBER Queries(u8*) {}
    DEVICE_MEMBER void set(u32 chunk, u32 i, u32 w) { words[chunk][i] = w; }
    DEVICE_MEMBER void take(const u8* block) {
        UNROLL for (u32 chunk = 0; chunk < kDim / 16; chunk++) {
            const uint4 w = load<uint4>(block + 512 * chunk + threadIdx.x % kWarp * 16);
            words[chunk][0] = w.x, words[chunk][1] = w.y, words[chunk][2] = w.z, words[chunk][3] = w.w;
        }
    }
    DEVICE_MEMBER uint4 get(u32 chunk) const {
        return {words[chunk][0], words[chunk][1], words[chunk][2], words[chunk][3]};
    }
};
template <u32 kDim> struct Queries<kDim, true> {
    u8* mine;
    DEVICE_MEMBER Queries(u8* shared)
        : mine(shared + threadIdx.x / kWarp * (kDim / 16 * 512) + threadIdx.x % kWarp * 16) {}
    DEVICE_MEMBER void set(u32 chunk, u32 i, u32 w) { store(mine + 512 * chunk + 4 * i, w); }
    DEVICE_MEMBER void take(u8* block) { mine = block + threadIdx.x % kWarp * 16; }
    DEVICE_MEMBER uint4 get(u32 chunk) const { return load<uint4>(mine + 512 * chunk); }
};
// Bytes of shared memory per warp.
template <u32 kDim> constexpr u32 kQueryBytes = kDim > 128 ? kDim / 16 * 512 : 0;

// The first and the last position visible to a token without a span. `newest`: last position of the sequence in the
// step. Both are monotonic in `position`.
DEVICE u32 first_seen(const AttendArgs& a, u32 position) {
    if (a.mask == kAround) return position > a.window ? position - a.window : 0;
    if (a.mask == kOwnChunk) return position - position % a.window;
    return a.window && position >= a.window ? position - a.window + 1 : 0;
}
DEVICE u32 last_seen(const AttendArgs& a, u32 position, u32 newest) {
    return a.mask == kAround ? position + min_u32(a.window, newest - position) : a.mask == kSpans ? newest : position;
}

// A range of positions, both ends included.
struct Range {
    u32 first;
    u32 last;
};

// Returns the range of positions that a token sees.
DEVICE Range seen_by(const AttendArgs& a, u32 token, u32 newest) {
    const u32 position = a.step.positions[token];
    const Range plain = {first_seen(a, position), last_seen(a, position, newest)};
    if (!a.step.spans) return plain;
    const u32 start = a.step.spans[2 * token], end = a.step.spans[2 * token + 1];
    if (a.mask == kNewest) return {plain.first, max_u32(plain.last + 1, end) - 1};
    if (a.mask == kAfterSpan) return {min_u32(end, position), position};
    return start < end ? Range{start, end - 1} : plain;
}

// Returns the range from the first to the last position visible to any of the tokens `token..end`, whose positions must
// ascend. All lanes of a warp must call it together.
DEVICE Range seen_by_any(const AttendArgs& a, u32 token, u32 end, u32 newest) {
    if (!a.step.spans)
        return {first_seen(a, a.step.positions[token]), last_seen(a, a.step.positions[end - 1], newest)};
    Range seen = {newest, 0};
    for (u32 t = token + threadIdx.x % kWarp; t < end; t += kWarp) {
        const Range one = seen_by(a, t, newest);
        seen = {min_u32(seen.first, one.first), max_u32(seen.last, one.last)};
    }
    UNROLL for (u32 lanes = kWarp / 2; lanes > 0; lanes /= 2)
        seen = {min_u32(seen.first, shuffle_xor(seen.first, lanes)), max_u32(seen.last, shuffle_xor(seen.last, lanes))};
    return seen;
}

// The positions visible to the rows of a lane; none for unused rows.
struct Seen {
    u32 first[2];
    u32 last[2];
    DEVICE_MEMBER Seen(const AttendArgs& a, const Rows& rows, u32 newest) {
        UNROLL for (u32 i = 0; i < 2; i++) {
            const bool used = rows.row(i) < rows.used();
            const Range seen = used ? seen_by(a, rows.token(rows.row(i)), newest) : Range{1, 0};
            first[i] = seen.first, last[i] = seen.last;
        }
    }
};

// Resets a part to no positions. Exactly one unit must start with the attention sinks (`has_sinks`).
template <u32 kDim> DEVICE void clear(const AttendArgs& a, const Rows& rows, bool has_sinks, Part<kDim>& part) {
    const u32 lane = threadIdx.x % kWarp;
    UNROLL for (u32 i = 0; i < 2; i++) {
        part.peak[i] = kNegativeInfinity, part.sum[i] = 0.f;
        if (has_sinks && a.sinks) {
            part.peak[i] = kLog2e * a.sinks[rows.head(rows.row(i))];
            // Only one lane, because the lanes of a quad are summed at the end.
            if (lane % 4 == 0) part.sum[i] = 1.f;
        }
    }
    UNROLL for (u32 i = 0; i < kDim / 8; i++) UNROLL for (u32 j = 0; j < 4; j++) part.values[i][j] = 0.f;
}

// The query of row g + 8i of the warp, or null.
DEVICE const float* query(const AttendArgs& a, const Rows& rows, u32 i) {
    const u32 r = rows.row(i);
    return r < rows.used() ? a.q + ((u64)rows.token(r) * a.heads + rows.head(r)) * a.head_dim : nullptr;
}
// Dimension `dim` of a query and the next, times the scale, as a word of the left operand.
DEVICE u32 word_of(const AttendArgs& a, const float* query, u32 dim) {
    const float low = dim < a.head_dim ? a.scale * query[dim] : 0.f;
    const float high = dim + 1 < a.head_dim ? a.scale * query[dim + 1] : 0.f;
    return pack_halves(low, high);
}
// `word_of`, or 0 without a query.
DEVICE u32 query_word(const AttendArgs& a, const float* query, u32 dim) { return query ? word_of(a, query, dim) : 0; }

// Converts the scores of 16 * kGroups positions from `p0` on to weights relative to the new peak, and rescales the part
// to that peak. `inside`: true if every row sees all of these positions. `kPlain`: neither a softcap nor a bias.
template <u32 kDim, u32 kGroups, bool kPlain = false>
DEVICE void weigh(const AttendArgs& a, const Rows& rows, const Seen& seen, u32 p0, bool inside,
                  float (&scores)[2 * kGroups][4], Part<kDim>& part, uint4 (&weights)[kGroups]) {
    const u32 p = p0 + 2 * (threadIdx.x % 4);
    u32 w[kGroups][4];
    UNROLL for (u32 i = 0; i < 2; i++) {
        auto for_each_score = [&](auto&& f) {
            UNROLL for (u32 n = 0; n < 2 * kGroups; n++)
                UNROLL for (u32 j = 0; j < 2; j++) f(scores[n][2 * i + j], p + 8 * n + j);
        };
        if (!kPlain && a.softcap > 0.f) for_each_score([&](float& s, u32) { s = a.softcap * tanhf(s / a.softcap); });
        if (!kPlain && a.slopes) {
            const float slope = a.slopes[rows.head(rows.row(i))],
                        position = (float)a.step.positions[rows.token(rows.row(i))];
            for_each_score([&](float& s, u32 p) { s -= slope * fabsf(position - (float)p); });
        }
        if (!kPlain && a.distances) {
            const i32 reach = (i32)a.distance_reach, position = (i32)a.step.positions[rows.token(rows.row(i))];
            const float* table = a.distances + (u64)rows.head(rows.row(i)) * (2 * reach + 1) + reach;
            for_each_score([&](float& s, u32 p) {
                const i32 distance = (i32)p - position;
                s += table[distance < -reach ? -reach : distance > reach ? reach : distance];
            });
        }
        if (!inside)
            for_each_score(
                [&](float& s, u32 p) { s = p <= seen.last[i] && p >= seen.first[i] ? s : kNegativeInfinity; });
        float peak = kNegativeInfinity;
        for_each_score([&](float& s, u32) { peak = fmaxf(peak, s); });
        peak = fmaxf(peak, shuffle_xor(peak, 1));
        peak = fmaxf(peak, shuffle_xor(peak, 2));
        peak = fmaxf(part.peak[i], kLog2e * peak);
        // The peak of a row without positions is minus infinity, which must not be subtracted from itself.
        const float base = peak == kNegativeInfinity ? 0.f : peak;
        const float shrink = exp2_approx(part.peak[i] - base);
        part.peak[i] = peak;
        part.sum[i] *= shrink;
        UNROLL for (u32 n = 0; n < kDim / 8; n++) part.values[n][2 * i] *= shrink, part.values[n][2 * i + 1] *= shrink;
        UNROLL for (u32 n = 0; n < 2 * kGroups; n++) {
            const float w0 = exp2_approx(fmaf(scores[n][2 * i], kLog2e, -base));
            const float w1 = exp2_approx(fmaf(scores[n][2 * i + 1], kLog2e, -base));
            part.sum[i] += w0 + w1;
            w[n / 2][i + 2 * (n % 2)] = pack_halves(w0, w1);
        }
    }
    UNROLL for (u32 n = 0; n < kGroups; n++) weights[n] = {w[n][0], w[n][1], w[n][2], w[n][3]};
}

// Sums the weights of a row over the lanes of a quad.
template <u32 kDim> DEVICE void sum_quads(Part<kDim>& part) {
    UNROLL for (u32 i = 0; i < 2; i++) {
        part.sum[i] += shuffle_xor(part.sum[i], 1);
        part.sum[i] += shuffle_xor(part.sum[i], 2);
    }
}

// Bytes of `n` cached values; `n` must be a multiple of 32.
DEVICE u64 cached_bytes(u64 n, u32 type) {
    return type == kF32 ? 4 * n : type == kF16 ? 2 * n : type == kQ8_0 ? n : n / 2;
}

// The KV cache of a sequence, with planes that begin at the first key and value of a head.
DEVICE DeviceKv cache_of(const AttendArgs& a, DeviceKv kv, u32 kv_head) {
    const u64 k = first_value(kv, a.layer, a.layer.k, a.layer.k_stride, kv_head);
    const u64 v = first_value(kv, a.layer, a.layer.v, a.layer.v_stride, kv_head);
    if (a.layer.is_latent) kv.v = kv.k, kv.v_scales = kv.k_scales, kv.v_type = kv.k_type;
    kv.k = in_global(kv.k + cached_bytes(k, kv.k_type)), kv.k_scales += k / 32;
    kv.v = in_global(kv.v + cached_bytes(v, kv.v_type)), kv.v_scales += v / 32;
    return kv;
}

// The row of a position. The positions of a step never wrap around the end of a ring buffer.
DEVICE u32 row_of(const AttendArgs& a, const DeviceKv& kv, u32 p0) { return a.layer.is_ring ? p0 % kv.ring : p0; }

// The element of a row in an array of softmax sums.
template <class T> DEVICE T* sum_of(const AttendArgs& a, const Rows& rows, u32 row, T* sums) {
    return sums + (u64)rows.token(row) * a.heads + rows.head(row);
}

// Writes a lane's values of rows below `end`, times `factor[i]`, to `place(row)`; `dim(n, j)` is a value's dimension.
template <u32 kDim, class Dim, class F>
DEVICE void write_rows(const Part<kDim>& part, const Rows& rows, u32 end, u32 d, const float (&factor)[2], Dim&& dim,
                       F&& place) {
    UNROLL for (u32 i = 0; i < 2; i++) {
        if (rows.row(i) >= end) continue;
        float* to = place(rows.row(i));
        UNROLL for (u32 n = 0; n < kDim / 8; n++) UNROLL for (u32 j = 0; j < 2; j++)
            if (dim(n, j) < d) to[dim(n, j)] = part.values[n][2 * i + j] * factor[i];
    }
}

// Writes the peak and the sum of a lane's rows below `end` to `place(row)`.
template <u32 kDim, class F> DEVICE void write_sums(const Part<kDim>& part, const Rows& rows, u32 end, F&& place) {
    if (threadIdx.x % 4 == 0) UNROLL for (u32 i = 0; i < 2; i++)
        if (rows.row(i) < end) place(rows.row(i))[0] = part.peak[i], place(rows.row(i))[1] = part.sum[i];
}

// The work of a block: `kRows` rows of a tile, one KV head, and one split of the positions.
template <u32 kRows> struct AttendWork {
    u32 number;  // of the rows, the same in all splits
    u32 split;
    u32 slot;
    u32 kv_head;
    u32 first_row;
    Rows rows;  // none without a tile
    // End of the block's rows.
    DEVICE_MEMBER u32 end() const { return min_u32(first_row + kRows, rows.used()); }
    DEVICE_MEMBER float* out(const AttendArgs& a, u32 row) const {
        return a.out + ((u64)rows.token(row) * a.heads + rows.head(row)) * a.value_dim;
    }
    // A row of this split's part.
    DEVICE_MEMBER float* part(const AttendArgs& a, u32 row) const {
        return a.partials + (((u64)number * a.splits + split) * kRows + row - first_row) * (2 + a.value_dim);
    }
    // Merges the parts of all splits, one warp per row, if this block is the last to finish.
    template <u32 kDim> DEVICE_MEMBER void join(const AttendArgs& a, u8* flag) const {
        if (!last_block(a.counters + number, a.splits, (u32*)flag)) return;
        // Values of the first parts are loaded together with the peaks, as many as fit in registers.
        constexpr u32 kHeld = kRows > kAttendRows ? 0 : min_u32(8, 2048 / kDim);
        const u32 lane = threadIdx.x % kWarp, d = a.value_dim, n = a.splits;
        const u64 stride = (u64)kRows * (2 + d);
        for (u32 row = first_row + threadIdx.x / kWarp; row < end(); row += blockDim.x / kWarp) {
            const float* parts = a.partials + ((u64)number * n * kRows + row - first_row) * (2 + d);
            float held[kHeld + 1][kDim / kWarp] = {};
            if constexpr (kHeld > 0)
                UNROLL for (u32 s = 0; s < kHeld; s++)
                    UNROLL for (u32 i = 0; i < kDim / kWarp; i++)
                        if (s < n && lane + kWarp * i < d) held[s][i] = parts[s * stride + 2 + lane + kWarp * i];
            float peak = kNegativeInfinity, sum = 0.f, values[kDim / kWarp] = {};
            for (u32 s = lane; s < n; s += kWarp) peak = fmaxf(peak, parts[s * stride]);
            peak = warp_max(peak);
            for (u32 first = 0; first < n; first += kWarp) {
                float weight = 0.f;
                if (first + lane < n) {
                    const float* part = parts + (first + lane) * stride;
                    // A split without positions has weight 0, and no peak.
                    if (part[1] != 0.f) weight = exp2_approx(part[0] - peak), sum += weight * part[1];
                }
                u32 s = 0;
                if constexpr (kHeld > 0) if (first == 0) UNROLL for (; s < kHeld; s++) {
                    const float w = shuffle_from(weight, s);
                    UNROLL for (u32 i = 0; i < kDim / kWarp; i++) values[i] = fmaf(w, held[s][i], values[i]);
                }
                const u32 end = min_u32(kWarp, n - first);
                UNROLL_BY(8) for (; s < end; s++) {
                    const float* part = parts + (first + s) * stride + 2;
                    const float w = shuffle_from(weight, s);
                    UNROLL for (u32 i = 0; i < kDim / kWarp; i++)
                        if (lane + kWarp * i < d) values[i] = fmaf(w, part[lane + kWarp * i], values[i]);
                }
            }
            sum = warp_sum(sum);
            if (a.sums && lane == 0) *sum_of(a, rows, row, a.sums) = peak + log2f(sum);
            const float inverse = 1.f / sum;
            UNROLL for (u32 i = 0; i < kDim / kWarp; i++)
                if (lane + kWarp * i < d) out(a, row)[lane + kWarp * i] = values[i] * inverse;
        }
    }
};

// The first query head that reads KV head `kv_head`: query head i reads KV head i * kv_heads / heads.
DEVICE u32 first_head_of(const AttendArgs& a, u32 kv_head) { return ceil_div(kv_head * a.heads, a.kv_heads); }
