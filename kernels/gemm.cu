// GEMM for prefill, and the conversion of its input to binary16.
//
//     to_halves, each row: h = norm(x); s = the power of two below the largest |h|; halves = h / s; row_scales = s
//         (or h in signed bytes with a scale per 32 columns, and row_scales = 1)
//     gemm, each tile of 128 rows of the matrix and 256 tokens:
//         for each chunk of 32 columns: expand the weights of the chunk to binary16; sums += weights * tokens
//         out = epilogue(sums * row_scales)
//
// Optimizations:
//  1. A block dequantizes each weight once for all its tokens, into shared memory, from which `ldmatrix` reads it.
//  2. Tokens are copied asynchronously, `kStages` chunks deep. While a chunk is multiplied, the weights of the next
//     chunk are loaded into registers, and the weights of a later chunk are prefetched into the L2 cache.
//  3. Rows are divided by a power of two, which costs no precision and keeps large activations in the range of
//     binary16.
//  4. If there are few tiles, several blocks divide the columns of one tile (`Place`).
//  5. `to_halves` loads a whole row at once (norm weights before the wait) and keeps up to 8192 columns in registers.
//     A few rows do not fill the device; `to_halves_wide` converts each with four times the threads, so that a step of
//     few tokens waits less for it. It sums squares in another order.
//
// Shapes: see `HalvesArgs`, `ProjectArgs`. Shared memory: [stage][token][32] of tokens and [2][row][32] of
// weights.
#include "bytes.cuh"
#include "gemm.cuh"

// Stores eight columns of a row from `col` on, in a `ColumnOrder`.
DEVICE void store8(u16* row, u32 col, u32 order, const Values8& x) {
    auto pair = [&](u32 i, u32 j) { return pack_halves(x.v[i], x.v[j]); };
    if (order == kForOperands) {
        // Each lane of a quad has 32 adjacent columns of 128. Columns i and i + 2 are adjacent, as in `tiny` of
        // quant.cuh; pairs of odd columns are 8 elements later; each 16 elements have four columns of each lane.
        u16* to = row + col / 128 * 128 + col / 4 % 4 * 32 + col / 16 % 2 * 16 + col / 32 % 4 * 2;
        UNROLL for (u32 i = 0; i < 4; i++)
            store(to + i / 2 * 32 + i % 2 * 8, pair(i / 2 * 4 + i % 2, i / 2 * 4 + i % 2 + 2));
    } else {
        store(row + col, uint4{pair(0, 1), pair(2, 3), pair(4, 5), pair(6, 7)});
    }
}

// Converts input rows to binary16, one block per row. `kSimple`: the number of columns is a multiple of four, and the
// norm has neither a mean nor a bias. `Kept`, a `RowLoader`: the columns that a block keeps in registers.
template <bool kSimple, class Kept> DEVICE void convert(const HalvesArgs& a, float* scratch) {
    let_next_start();
    const u32 row = blockIdx.x, cols = a.cols;
    const float* x = a.x + (u64)row * a.x_stride;
    const bool has_norm = a.norm.kind != kNoNorm, has_mean = !kSimple && a.norm.kind == kLayer;
    auto load_weights_of = [&](Kept& to, u32 first) {
        const u32 n = has_norm && a.norm.weight ? cols : 0;
        if (kSimple)
            to.load_fours(a.norm.weight, first, n, [](const float* at) { return load_shared_weights<float4>(at); });
        else
            to.each(first, n,
                    [&](float& v, u32 col) { v = col < n ? load_shared_weights<float>(a.norm.weight + col) : 0.f; });
    };
    auto load_inputs_of = [&](Kept& to, u32 first) {
        if (kSimple) to.load_fours(x, first, cols, [](const float* at) { return load<float4>(at); });
        else to.each(first, a.padded, [&](float& v, u32 col) { v = col < cols ? x[col] : 0.f; });
    };
    float mean = 0.f, inverse = 1.f;
    auto center = [&](Kept& part, u32 first) {
        if (has_mean) part.each(first, cols, [&](float& v, u32 col) { v = col < cols ? v - mean : 0.f; });
    };
    // All loads are in flight at once; norm weights are loaded before the wait.
    Kept kept, weights;
    load_weights_of(weights, 0);
    wait_for_previous();
    load_inputs_of(kept, 0);
    // Calls `f` with all columns; columns that are not kept in registers are loaded again.
    auto each_part = [&](auto&& f) {
        f(kept, 0);
        UNROLL_BY(1) for (u32 first = Kept::kSpan; first < a.padded; first += Kept::kSpan) {
            Kept more;
            load_inputs_of(more, first);
            center(more, first);
            f(more, first);
        }
    };
    if (has_mean) {
        float sum = 0.f;
        each_part([&](Kept& part, u32 first) { part.each(first, cols, [&](float v, u32) { sum += v; }); });
        mean = block_sum(sum, scratch) / (float)cols;
        center(kept, 0);
    }
    if (has_norm) {
        float sum = 0.f;
        each_part([&](Kept& part, u32 first) { part.each(first, cols, [&](float v, u32) { sum = fmaf(v, v, sum); }); });
        inverse = 1.f / sqrtf(block_sum(sum, scratch) / (float)cols + a.norm.eps);
    }
    auto normalize = [&](Kept& part, u32 first) {
        if (!has_norm) return;
        if (first > 0) load_weights_of(weights, first);
        if (!kSimple) part.each(first, cols, [&](float& v, u32) { v *= inverse; });
        if (a.norm.weight) part.with(weights, first, cols, [](float& v, float weight) { v *= weight; });
        if (!kSimple && a.norm.bias)
            part.each(first, cols, [&](float& v, u32 col) { v += col < cols ? a.norm.bias[col] : 0.f; });
    };
    float peak = 0.f;
    each_part([&](Kept& part, u32 first) {
        normalize(part, first);
        part.each(first, cols, [&](float v, u32) { peak = fmaxf(peak, fabsf(v)); });
    });
    // Without a bias, the scale includes the inverse RMS of the row.
    if (!kSimple) inverse = 1.f;
    if (a.order == kBytes) {
        u8* row_bytes = (u8*)a.halves + (u64)row * (a.padded / 4 * 5);
        each_part([&](Kept& part, u32 first) {
            if (first > 0) normalize(part, first);
            part.each(first, cols, [&](float& v, u32) { v *= inverse; });
            UNROLL for (u32 i = 0; i < Kept::kGroups; i++) {
                const u32 col = part.column(first, i);
                if (first + 8 * blockDim.x * i >= a.padded) break;
                const Bytes8 bytes = to_bytes(part.of[i]);
                if (col >= a.padded) continue;
                store(row_bytes + col, bytes.words);
                const TokenScale scale = {bytes.group.scale, bytes.group.sum};
                if (col % 32 == 0) store(row_bytes + a.padded + col / 4, scale);
            }
        });
        if (threadIdx.x == 0) a.row_scales[row] = 1.f;
        return;
    }
    peak = block_max(peak, scratch) * inverse;
    // The power of two below the peak, from its exponent bits, so that values are below 2; 1 for denormal and infinite
    // peaks.
    const u32 exponent = float_to_bits(peak) & 0x7f800000u;
    const bool usual = exponent > 0x01000000u && exponent < 0x7e000000u;
    const float scale = usual ? bits_to_float(exponent) : 1.f;
    const float by = (usual ? bits_to_float(0x7f000000u - exponent) : 1.f) * inverse;
    u16* halves = a.halves + (u64)row * a.padded;
    each_part([&](Kept& part, u32 first) {
        if (first > 0) normalize(part, first);
        part.each(first, cols, [&](float& v, u32) { v *= by; });
        UNROLL for (u32 i = 0; i < Kept::kGroups; i++) {
            const u32 col = part.column(first, i);
            if (col < a.padded) store8(halves, col, a.order, part.of[i]);
        }
    });
    if (threadIdx.x == 0) a.row_scales[row] = scale;
}

KERNEL(to_halves, HalvesArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    convert<true, RowLoader<128, 8>>(a, (float*)shared);
}
KERNEL(to_halves_any, HalvesArgs, 128, 2) {
    DYNAMIC_SHARED(shared);
    convert<false, RowLoader<128, 8>>(a, (float*)shared);
}
KERNEL(to_halves_wide, HalvesArgs, 512, 1) {
    DYNAMIC_SHARED(shared);
    convert<true, RowLoader<512, 4>>(a, (float*)shared);
}

constexpr u32 kStages = 4;  // chunks of tokens in shared memory; there are two of weights

struct Division {
    static constexpr u32 kRows = 128, kTokens = 256, kThreads = 512;
    static constexpr u32 kWarpRows = 64, kWarpTokens = 32, kAcross = kTokens / kWarpTokens;
    static constexpr u32 kM = kWarpRows / 16, kN = kWarpTokens / 8;
};

// Sums of the warp's part of a tile. Shared memory: [chunk][row][32 halves] of tokens, then of weights.
template <class T, class D>
DEVICE void multiply(const ProjectArgs& a, u32 segment, const Share& work, u16* tokens,
                     float (&sums)[D::kM][D::kN][4]) {
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, chunks = a.segments[0].w.cols / kChunk;
    const u32 begin = chunks * work.split / work.splits, end = chunks * (work.split + 1) / work.splits;
    u16* weights = tokens + kStages * D::kTokens * kChunk;
    const Copies<D> copies(work, chunks);
    auto fetch = [&](u32 chunk) { copies.start(a.halves, chunk, tokens + chunk % kStages * D::kTokens * kChunk); };
    UNROLL for (u32 c = 0; c + 1 < kStages; c++) {
        if (begin + c < end) fetch(begin + c);
        copy_async_commit();
    }

    // Each thread dequantizes a part of a row of a chunk.
    constexpr u32 kParts = D::kRows * 4 / D::kThreads;
    const u32 own = threadIdx.x / (4 / kParts), part = threadIdx.x % (4 / kParts) * kParts;
    const TileRow tile = tile_row(a, segment, work, own);
    const DeviceMatrix& w = tile.w;
    const u32 row = tile.row;
    Raw8 raw[kParts];
    UNROLL for (u32 i = 0; i < kParts; i++) raw[i] = T::load8(w, row, begin, part + i);
    // Row and group of 8 columns whose address this lane passes, for weights and for tokens.
    const u32 left_row = warp / D::kAcross * D::kWarpRows + lane % 16, left_part = lane / 16;
    const u32 right_row = warp % D::kAcross * D::kWarpTokens + lane / 16 * 8 + lane % 8, right_part = lane / 8 % 2;
    // True if the warp has tokens.
    const bool has_work = work.token0 + warp % D::kAcross * D::kWarpTokens < work.tokens;
    for (u32 chunk = begin; chunk < end; chunk++) {
        u16* expanded = weights + chunk % 2 * D::kRows * kChunk;
        UNROLL for (u32 i = 0; i < kParts; i++) {
            float y[8];
            T::decode8(raw[i], chunk, part + i, y);
            u32 words[4];
            UNROLL for (u32 j = 0; j < 4; j++) words[j] = pack_halves(y[2 * j], y[2 * j + 1]);
            store(expanded + place(own, part + i), uint4{words[0], words[1], words[2], words[3]});
        }
        if (chunk + 1 < end) {
            UNROLL for (u32 i = 0; i < kParts; i++) raw[i] = T::load8(w, row, chunk + 1, part + i);
            if (chunk % 4 == 0 && chunk + 8 < end) prefetch_ahead<T>(w, row, chunk + 8);
        }
        copy_async_wait<kStages - 2>();
        sync_block();
        // After the barrier, because it overwrites the stage that the previous chunk has read.
        if (chunk + kStages - 1 < end) fetch(chunk + kStages - 1);
        copy_async_commit();
        if (!has_work) continue;
        const u16* stage = tokens + chunk % kStages * D::kTokens * kChunk;
        auto matrices = [](const u16* row) {
            u32 words[4];
            load_matrices<false>(words, row);
            return uint4{words[0], words[1], words[2], words[3]};
        };
        UNROLL for (u32 k = 0; k < 2; k++) {
            uint4 right[D::kN / 2];
            // Rows 16 apart are in the same banks.
            const u16* right_at = stage + place(right_row, 2 * k + right_part);
            const u16* left_at = expanded + place(left_row, 2 * k + left_part);
            UNROLL for (u32 n = 0; n < D::kN / 2; n++) right[n] = matrices(right_at + 16 * n * kChunk);
            UNROLL for (u32 m = 0; m < D::kM; m++) {
                const uint4 left = matrices(left_at + 16 * m * kChunk);
                UNROLL for (u32 n = 0; n < D::kN / 2; n++) {
                    mma16x8x16(sums[m][2 * n], left, right[n].x, right[n].y);
                    mma16x8x16(sums[m][2 * n + 1], left, right[n].z, right[n].w);
                }
            }
        }
    }
}

KERNEL(gemm_256, ProjectArgs, 512, 1) {
    DYNAMIC_SHARED(shared);
    typedef Division D;
    gemm<D>(
        a, shared,
        [&](auto type, u32 segment, const Share& work, float (&sums)[D::kM][D::kN][4]) {
            multiply<decltype(type), D>(a, segment, work, (u16*)shared, sums);
        },
        [](const DeviceMatrix&) { return 1.f; });
}
