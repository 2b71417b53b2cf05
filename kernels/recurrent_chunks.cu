// Recurrences of many tokens with one decay per head, in chunks of tokens: matrix products instead of one step per
// token.
//
// In a chunk, let g_i be the sum of the base-2 logarithms of decays up to token i, and d_j the update that token j adds
// for its key k_j:
//
//     S after token i = 2^g_i S + sum of 2^(g_i - g_j) k_j d_j^T over j <= i;  out_i = S^T q_i
//     scan (arXiv 2405.21060, section 6):        d_j = dt_j x_j
//     delta rule (arXiv 2412.06464, section 3.3): d_i = beta_i (v_i - 2^g_i S^T k_i) - sum of a_ij d_j over j < i,
//                                                a_ij = beta_i 2^(g_i - g_j) (k_i k_j), solved by substitution
//
//     for each chunk of 32 tokens: A, P = K K^T, Q K^T with decays; D as above; out = Q S + P D; S = decay S + K^T D
//
// Optimizations:
//  1. A block processes 32 columns of a head's S through the sequence; S stays in registers, in f32.
//  2. Products are `mma` m16n8k8 on tf32, which has the range of f32; the substitution is in f32.
//  3. Substitution works on halves of 16 tokens; the effect of the first half on the second is a product of all warps.
//  4. The inputs of the next chunk are copied during this one if shared memory can hold two.
//
// Invariants: unlike in `recurrent.cu`, results depend on how a prompt is split.
//
// Shapes: see `DeltaArgs`, `ScanArgs`. Grid: (heads * groups of 32 columns, sequences).
#include "common.cuh"

constexpr u32 kChunkTokens = kChunkSize, kChunkColumns = kChunkSize, kChunkWarps = kChunkThreads / kWarp;
// Strides of rows in shared memory, padded so that operands of a warp are in different banks.
constexpr u32 kColumnStride = kChunkColumns + 8, kTokenStride = kChunkTokens + 4;
// Base-2 logarithm of a decay that is 0 in f32.
constexpr float kNoDecay = -150.f;

// Some columns of a head, from the first token of a sequence on.
struct HeadColumns {
    const float* keys;  // [tokens, .., dim]
    const float* queries;
    u64 key_stride;
    const float* values;  // [tokens, .., columns]
    float* out;
    u64 value_stride;
    const float* dt;  // [tokens, heads]
    const float* beta;  // or null for a scan
    u32 heads;
    float rate;
    float skip;
    u32 dim;
    u32 columns;
    u32 tokens;
    const float* from;  // rows of S, or null for zeros
    float* to;
    u64 row_stride;
};

// Shared memory, in floats. `dim`: width of keys, padded to 16.
struct ChunkMemory {
    float* s;     // [dim][columns]
    float* a;     // [j][i]: a_ij
    float* p;     // [i][j]: 2^(g_i - g_j) (q_i k_j)
    float* d;     // [tokens][columns]
    float* g;     // [warps][tokens]
    float* keys;  // of the first stage: [tokens][dim + 4]
    u32 key_stride;
    DEVICE_MEMBER ChunkMemory(float* shared, u32 dim) : key_stride(dim + 4) {
        s = shared;
        a = s + dim * kColumnStride;
        p = a + kChunkTokens * kTokenStride;
        d = p + kChunkTokens * kTokenStride;
        g = d + kChunkTokens * kColumnStride;
        keys = g + kChunkWarps * kChunkTokens;
    }
    DEVICE_MEMBER u32 stage_size() const { return 2 * kChunkTokens * key_stride + kChunkTokens * (kColumnStride + 2); }
};

// The inputs of a chunk.
struct ChunkStage {
    float *keys, *queries, *values, *dt, *beta;
    DEVICE_MEMBER ChunkStage(const ChunkMemory& m, u32 stage) {
        keys = m.keys + stage * m.stage_size();
        queries = keys + kChunkTokens * m.key_stride;
        values = queries + kChunkTokens * m.key_stride;
        dt = values + kChunkTokens * kColumnStride;
        beta = dt + kChunkTokens;
    }
};

// Copies four numbers, or stores zeros if there are none.
DEVICE void copy_four(float* to, const float* from, bool has) {
    if (has) copy_async16(to, from);
    else store(to, float4{0.f, 0.f, 0.f, 0.f});
}

// Starts copying the chunk from token `first` on; zeros after the last token.
DEVICE void fetch_chunk(const HeadColumns& h, u32 first, u32 dim, const ChunkStage& to, u32 key_stride) {
    const u32 lane = threadIdx.x % kWarp;
    for (u32 token = threadIdx.x / kWarp; token < kChunkTokens; token += kChunkWarps) {
        const u64 row = (first + token) * h.key_stride;
        for (u32 i = 4 * lane; i < dim; i += 4 * kWarp) {
            const bool has = first + token < h.tokens && i < h.dim;
            copy_four(to.keys + token * key_stride + i, h.keys + row + i, has);
            copy_four(to.queries + token * key_stride + i, h.queries + row + i, has);
        }
    }
    const u32 token = threadIdx.x / 8, col = threadIdx.x % 8 * 4;
    copy_four(to.values + token * kColumnStride + col, h.values + (first + token) * h.value_stride + col,
              first + token < h.tokens && col < h.columns);
    if (threadIdx.x < kChunkTokens) {
        const u32 own = first + threadIdx.x;
        if (own < h.tokens) {
            copy_async4(to.dt + threadIdx.x, h.dt + (u64)own * h.heads);
            if (h.beta) copy_async4(to.beta + threadIdx.x, h.beta + (u64)own * h.heads);
        } else {
            to.dt[threadIdx.x] = to.beta[threadIdx.x] = 0.f;
        }
    }
}

// A lane's operands of `mma16x8x8`, from its first element at `at`; rows are `stride` apart.
DEVICE uint4 left_operand(const float* at, u32 stride) {
    return {to_tf32(at[0]), to_tf32(at[8 * stride]), to_tf32(at[4]), to_tf32(at[8 * stride + 4])};
}
DEVICE uint4 left_transposed(const float* at, u32 stride) {
    return {to_tf32(at[0]), to_tf32(at[8]), to_tf32(at[4 * stride]), to_tf32(at[4 * stride + 8])};
}

// Subtracts from d the mutual effects of rows `first` to `first + 15`; one column per lane.
DEVICE void substitute(const ChunkMemory& m, u32 first) {
    const u32 lane = threadIdx.x % kWarp;
    float d[16];
    UNROLL for (u32 i = 0; i < 16; i++) d[i] = m.d[(first + i) * kColumnStride + lane];
    UNROLL for (u32 j = 0; j < 16; j++) UNROLL for (u32 i = j / 4 * 4; i < 16; i += 4) {
        const float4 a = load<float4>(m.a + (first + j) * kTokenStride + first + i);
        const float of[4] = {a.x, a.y, a.z, a.w};
        UNROLL for (u32 k = 0; k < 4; k++)
            if (i + k > j) d[i + k] = fmaf(-of[k], d[j], d[i + k]);
    }
    UNROLL for (u32 i = 0; i < 16; i++) m.d[(first + i) * kColumnStride + lane] = d[i];
}

// For keys of up to 128 * kTiles numbers. `stages`: chunks that fit in shared memory.
template <bool kErases, u32 kTiles> DEVICE void advance_chunks(const HeadColumns& h, u32 stages, float* shared) {
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
    const u32 dim = ceil_div(h.dim, 16) * 16;
    const ChunkMemory memory(shared, dim);
    const u32 stride = memory.key_stride;
    fetch_chunk(h, 0, dim, ChunkStage(memory, 0), stride);
    copy_async_commit();

    // Rows and columns of a lane's part of S: a warp has 16 rows of each tile.
    float s[kTiles][4][4];
    auto each = [&](auto&& f) {
        UNROLL for (u32 m = 0; m < kTiles; m++) UNROLL for (u32 n = 0; n < 4; n++) UNROLL for (u32 i = 0; i < 4; i++)
            f(s[m][n][i], 16 * (warp + kChunkWarps * m) + g + i / 2 * 8, 8 * n + 2 * t + i % 2);
    };
    auto keep = [&](float& value, u32 row, u32 col) {
        if (row < dim) memory.s[row * kColumnStride + col] = value;
    };
    each([&](float& value, u32 row, u32 col) {
        value = h.from && row < h.dim && col < h.columns ? h.from[row * h.row_stride + col] : 0.f;
        keep(value, row, col);
    });

    float* const gates = memory.g + warp * kChunkTokens;
    for (u32 first = 0; first < h.tokens; first += kChunkTokens) {
        const u32 stage = first / kChunkTokens % stages;
        const ChunkStage in(memory, stage);
        if (stages > 1) {
            if (first + kChunkTokens < h.tokens)
                fetch_chunk(h, first + kChunkTokens, dim, ChunkStage(memory, (first / kChunkTokens + 1) % stages),
                            stride);
            copy_async_commit();
            copy_async_wait<1>();
        } else {
            copy_async_wait<0>();
        }
        sync_block();
        float gate = h.rate * in.dt[lane] * kLog2e;
        gate = gate < kNoDecay ? kNoDecay : gate;
        UNROLL for (u32 apart = 1; apart < kWarp; apart *= 2) {
            const float before = shuffle_from(gate, (lane + kWarp - apart) % kWarp);
            if (lane >= apart) gate += before;
        }
        gates[lane] = gate;
        sync_warp();

        // Each warp multiplies 16 rows of keys or queries with 16 tokens of the keys, and with 16 columns of S.
        const bool is_query = warp >= kChunkWarps / 2;
        const u32 row0 = warp % 2 * 16, col0 = warp / 2 % 2 * 16;
        float seen[2][4] = {}, of_state[2][4] = {};
        if (kErases || is_query) {
            const float* left = (is_query ? in.queries : in.keys) + (row0 + g) * stride + t;
            const float* right = in.keys + (col0 + g) * stride + t;
            const float* state = memory.s + t * kColumnStride + col0 + g;
            UNROLL_BY(2) for (u32 k = 0; k < dim; k += 8) {
                const uint4 a = left_operand(left + k, stride);
                UNROLL for (u32 n = 0; n < 2; n++) {
                    const float* key = right + 8 * n * stride + k;
                    mma16x8x8(seen[n], a, to_tf32(key[0]), to_tf32(key[4]));
                    const float* at = state + k * kColumnStride + 8 * n;
                    mma16x8x8(of_state[n], a, to_tf32(at[0]), to_tf32(at[4 * kColumnStride]));
                }
            }
        }
        UNROLL for (u32 n = 0; n < 2; n++) UNROLL for (u32 i = 0; i < 4; i++) {
            const u32 row = row0 + g + i / 2 * 8, col = col0 + 8 * n + 2 * t + i % 2;
            const float decay = exp2_approx(gates[row]), between = exp2_approx(gates[row] - gates[col]);
            if (is_query) {
                memory.p[row * kTokenStride + col] = col <= row ? seen[n][i] * between : 0.f;
                of_state[n][i] *= decay;
            } else if (kErases) {
                memory.a[col * kTokenStride + row] = col < row ? in.beta[row] * seen[n][i] * between : 0.f;
                memory.d[row * kColumnStride + col] =
                    in.beta[row] * (in.values[row * kColumnStride + col] - decay * of_state[n][i]);
            } else {
                memory.d[row * kColumnStride + col] = in.dt[row] * in.values[row * kColumnStride + col];
            }
        }
        sync_block();
        if (kErases) {
            if (warp == 0) substitute(memory, 0);
            sync_block();
            UNROLL for (u32 i = 0; i < 2; i++) {
                const u32 row = 16 + 2 * warp + i;
                float& d = memory.d[row * kColumnStride + lane];
                float sum = d;
                UNROLL for (u32 j = 0; j < 16; j++)
                    sum = fmaf(-memory.a[j * kTokenStride + row], memory.d[j * kColumnStride + lane], sum);
                d = sum;
            }
            sync_block();
            if (warp == 0) substitute(memory, 16);
            sync_block();
        }
        if (is_query) {
            UNROLL_BY(1) for (u32 k = 0; k < row0 + 16; k += 8) {
                const uint4 a = left_operand(memory.p + (row0 + g) * kTokenStride + k + t, kTokenStride);
                UNROLL for (u32 n = 0; n < 2; n++) {
                    const float* at = memory.d + (k + t) * kColumnStride + col0 + 8 * n + g;
                    mma16x8x8(of_state[n], a, to_tf32(at[0]), to_tf32(at[4 * kColumnStride]));
                }
            }
            UNROLL for (u32 n = 0; n < 2; n++) UNROLL for (u32 i = 0; i < 4; i++) {
                const u32 row = row0 + g + i / 2 * 8, col = col0 + 8 * n + 2 * t + i % 2;
                if (first + row < h.tokens && col < h.columns)
                    h.out[(first + row) * h.value_stride + col] =
                        fmaf(h.skip, in.values[row * kColumnStride + col], of_state[n][i]);
            }
        }
        // Products of eight tokens at a time, with their decay to the end of the chunk.
        const float last = gates[kChunkTokens - 1], decay = exp2_approx(last);
        each([&](float& value, u32, u32) { value *= decay; });
        UNROLL for (u32 k = 0; k < kChunkTokens; k += 8) {
            const float low = exp2_approx(last - gates[k + t]), high = exp2_approx(last - gates[k + t + 4]);
            const float* at = memory.d + (k + t) * kColumnStride + g;
            u32 right[4][2];
            UNROLL for (u32 n = 0; n < 4; n++)
                right[n][0] = to_tf32(low * at[8 * n]), right[n][1] = to_tf32(high * at[4 * kColumnStride + 8 * n]);
            UNROLL for (u32 m = 0; m < kTiles; m++) {
                const u32 row = 16 * (warp + kChunkWarps * m);
                if (row >= dim) continue;
                const uint4 a = left_transposed(in.keys + (k + t) * stride + row + g, stride);
                UNROLL for (u32 n = 0; n < 4; n++) mma16x8x8(s[m][n], a, right[n][0], right[n][1]);
            }
        }
        each(keep);
        sync_block();
        if (stages == 1) {
            if (first + kChunkTokens < h.tokens) fetch_chunk(h, first + kChunkTokens, dim, in, stride);
            copy_async_commit();
        }
    }
    each([&](float& value, u32 row, u32 col) {
        if (row < h.dim && col < h.columns) h.to[row * h.row_stride + col] = value;
    });
}

template <u32 kTiles> DEVICE void delta_chunks(const DeltaArgs& a, u8* shared) {
    let_next_start();
    wait_for_previous();
    const u32 blocks = ceil_div(a.value_dim, kChunkColumns);
    const u32 head = blockIdx.x / blocks, col = blockIdx.x % blocks * kChunkColumns;
    const u32 key_head = a.tiled ? head % a.key_heads : head * a.key_heads / a.heads;
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    const u64 token = run.first, key = (token * a.key_heads + key_head) * a.key_dim;
    const u64 value = (token * a.heads + head) * a.value_dim + col, gate = token * a.heads + head;
    const u64 place = a.recurrent + (u64)head * a.key_dim * a.value_dim + col;
    const HeadColumns h = {
        a.k + key,
        a.q + key,
        (u64)a.key_heads * a.key_dim,
        a.v + value,
        a.out + value,
        (u64)a.heads * a.value_dim,
        a.dt + gate,
        a.beta + gate,
        a.heads,
        a.rate[head],
        0.f,
        a.key_dim,
        min_u32(kChunkColumns, a.value_dim - col),
        run.count,
        kv.from ? kv.from + place : nullptr,
        kv.to + place,
        a.value_dim,
    };
    advance_chunks<true, kTiles>(h, a.stages, (float*)shared);
}

template <u32 kTiles> DEVICE void scan_chunks(const ScanArgs& a, u8* shared) {
    let_next_start();
    wait_for_previous();
    const u32 blocks = ceil_div(a.head_dim, kChunkColumns);
    const u32 head = blockIdx.x / blocks, col = blockIdx.x % blocks * kChunkColumns, width = a.heads * a.head_dim;
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    const u64 token = run.first, key = (token * a.groups + head * a.groups / a.heads) * a.state;
    const u64 value = token * width + head * a.head_dim + col, gate = token * a.heads + head;
    const u64 place = a.recurrent + head * a.head_dim + col;
    const HeadColumns h = {
        a.b + key,
        a.c + key,
        (u64)a.groups * a.state,
        a.x + value,
        a.out + value,
        width,
        a.dt + gate,
        nullptr,
        a.heads,
        a.rate[head],
        a.skip[head],
        a.state,
        min_u32(kChunkColumns, a.head_dim - col),
        run.count,
        kv.from ? kv.from + place : nullptr,
        kv.to + place,
        width,
    };
    advance_chunks<false, kTiles>(h, a.stages, (float*)shared);
}

KERNEL(delta_chunks_128, DeltaArgs, kChunkThreads, 2) { DYNAMIC_SHARED(shared); delta_chunks<1>(a, shared); }
KERNEL(delta_chunks_256, DeltaArgs, kChunkThreads, 1) { DYNAMIC_SHARED(shared); delta_chunks<2>(a, shared); }
KERNEL(scan_chunks_128, ScanArgs, kChunkThreads, 2) { DYNAMIC_SHARED(shared); scan_chunks<1>(a, shared); }
KERNEL(scan_chunks_256, ScanArgs, kChunkThreads, 1) { DYNAMIC_SHARED(shared); scan_chunks<2>(a, shared); }
