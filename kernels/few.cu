// Matrix times few rows of input, up to 32, of types of blocks.
//
// Time is bound by reading the weights, so each is read once, unpacked to bytes in registers as the left operand of `mma`, and
// used for all rows of input, which `prepare` rounded to bytes with a scale for each 32. A block has 16 rows of the matrix, its
// warps share the columns: warp w takes, of every 32 units, those with which lanes 2w, 2w + 1, 16 + 2w and 17 + 2w of gemv.cu
// begin, has a sum for each of these lanes, and the sums are joined in the order of that kernel. Products of bytes sum up
// exactly. So a row has the bits that it has alone, whatever the rows beside it.
#include "product.cuh"

constexpr u32 kFewWarps = 8;
constexpr u32 kFewRows = 16;

// Turns of the warp that are loaded before one is waited for.
template <class T, u32 kTiles> DEVICE constexpr u32 few_trip() {
    return kTiles > 1 || T::kUpper == 2 ? 1 : T::kUpper || (T::kReady == 1 && T::kPair > 1) ? 2 : 4;
}

// What a lane reads of the first tile of 8 rows of input, as an operand and for its sums.
struct Right {
    const i8* quants;
    const Group* groups;
};

// Adds products of a block of 32 columns that begins at unit `unit + ahead`. Rows from n on are read as well, and their sums are
// dropped.
template <class T, u32 kTiles>
DEVICE void add_block(const uint4& left, const Scales (&scales)[2], const Right& right, u32 n, u32 unit, u32 ahead,
                      float (&first)[kTiles][4], float (&second)[kTiles][4]) {
    UNROLL for (u32 c = 0; c < kTiles; c++) {
        if (c > 0 && 8 * c >= n) break;
        const uint2 b = load<uint2>(right.quants + 32 * T::kValues * unit + 32 * T::kValues * ahead + 32 * 8 * c);
        const Group* groups = right.groups + T::kValues * unit + T::kValues * ahead + 8 * c;
        const Group g[2] = {load<Group>(groups), load<Group>(groups + 1)};
        i32 low[4], high[4];
        UNROLL for (u32 i = 0; i < 4; i++) low[i] = T::kStart + T::start(g[i % 2], 0), high[i] = T::kStart + T::start(g[i % 2], 1);
        if (T::kHalves) {
            mma16x8x32(low, {left.x, left.y, 0, 0}, b.x, b.y);
            mma16x8x32(high, {0, 0, left.z, left.w}, b.x, b.y);
        } else {
            mma16x8x32(low, left, b.x, b.y);
        }
        UNROLL for (u32 i = 0; i < 4; i++) T::add_sums(scales[i / 2], g[i % 2], low[i], high[i], first[c][i], second[c][i]);
    }
}

// What a lane reads of a matrix: rows g and g + 8 of the block, which may be of two matrices, and the scales of one of them, for
// one of the blocks of a pair. `unit` is one of those of the warp.
template <class T> struct Left {
    typename T::Row rows[2];
    typename T::ScaleRow scales;
    u32 unit;  // whose scales
    DEVICE_MEMBER Left(const DeviceMatrix (&w)[2], const u32 (&of)[2], u32 unit, u32 blocks) : unit(unit) {
        const u32 t = threadIdx.x % 4, r = t / 2, second = min_u32(t % 2, blocks - 1);
        UNROLL for (u32 i = 0; i < 2; i++) rows[i] = T::row(w[i], of[i], t);
        scales = r ? T::scale_row(w[1], of[1], unit, second) : T::scale_row(w[0], of[0], unit, second);
        this->unit += second;
    }
};

// Adds products of the pairs of units that begin at `unit`, `unit + 32` and so on, `kTrip` of them, with `blocks` blocks each.
template <class T, u32 kTiles, u32 kTrip>
DEVICE void add_units(const Left<T>& left, const Right& right, u32 n, u32 unit, u32 blocks, float (&first)[kTiles][4],
                      float (&second)[kTiles][4]) {
    const u32 t = threadIdx.x % 4, quad = threadIdx.x % kWarp - t;
    typename T::Piece pieces[kTrip][T::kPair][2];
    typename T::Words words[kTrip];
    UNROLL for (u32 i = 0; i < kTrip; i++) {
        words[i] = T::words(left.scales, unit, kWarp * i);
        UNROLL for (u32 j = 0; j < T::kPair; j++) {
            UNROLL for (u32 r = 0; r < 2; r++) if (j < blocks) pieces[i][j][r] = T::piece(left.rows[r], unit, kWarp * i + j);
        }
    }
    UNROLL for (u32 i = 0; i < kTrip; i++) {
        const uint2 mine = T::ready(words[i], left.unit);
        UNROLL for (u32 j = 0; j < T::kPair; j++) {
            if (j >= blocks) break;
            Scales scales[2];
            uint2 words[2];
            UNROLL for (u32 r = 0; r < 2; r++) {
                const u32 lane = quad + 2 * r + j;
                scales[r] = T::given({shuffle_from(mine.x, lane), T::kReady > 1 ? shuffle_from(mine.y, lane) : 0});
                words[r] = T::operand(pieces[i][j][r], t);
            }
            const uint4 operand = {words[0].x, words[1].x, words[0].y, words[1].y};
            if (j == 0) add_block<T, kTiles>(operand, scales, right, n, unit, kWarp * i, first, second);
            else add_block<T, kTiles>(operand, scales, right, n, unit, kWarp * i + j, second, first);
        }
    }
}

// Sums of the warp's units for the rows g and g + 8 of the block, into [tile][4 sums][lane].
template <class T, u32 kTiles>
DEVICE void multiply_few(const DeviceMatrix (&w)[2], const u32 (&rows)[2], const Right& right, u32 n, float* sums) {
    const u32 units = w[0].cols / T::kValues;
    constexpr u32 kTrip = few_trip<T, kTiles>();
    UNROLL_BY(1) for (u32 pass = 0; pass < 2; pass++) {
        float first[kTiles][4] = {}, second[kTiles][4] = {};
        u32 unit = 16 * pass + 2 * (threadIdx.x / kWarp);
        const Left<T> left(w, rows, unit, T::kPair);
        UNROLL_BY(1) for (; unit + kWarp * (kTrip - 1) + 1 < units; unit += kWarp * kTrip)
            add_units<T, kTiles, kTrip>(left, right, n, unit, T::kPair, first, second);
        if (kTrip > 1) {
            UNROLL_BY(1) for (; unit + 1 < units; unit += kWarp)
                add_units<T, kTiles, 1>(left, right, n, unit, T::kPair, first, second);
        }
        // Of a pair, the first block alone.
        if (T::kPair > 1 && T::kBlock == 32 && unit < units)
            add_units<T, kTiles, 1>(Left<T>(w, rows, unit, 1), right, n, unit, 1, first, second);
        UNROLL for (u32 c = 0; c < kTiles; c++) UNROLL for (u32 i = 0; i < 4; i++) {
            const float sum = first[c][i] + second[c][i];
            float* to = sums + (4 * c + i) * kWarp + threadIdx.x % kWarp;
            *to = pass == 0 ? sum : *to + sum;
        }
    }
}

template <class T, u32 kTiles> DEVICE void few(const ProjectArgs& a, float* shared) {
    const u32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, warp = threadIdx.x / kWarp;
    let_next_start();
    // Blocks with the same rows of a matrix are neighbours.
    const u32 shares = ceil_div(a.n, 8 * kTiles), token0 = blockIdx.x % shares * 8 * kTiles, n = min_u32(a.n - token0, 8 * kTiles);
    const bool gate = a.epilogue == kGlu;
    const u32 block_rows = gate ? kFewRows / 2 : kFewRows;
    u32 segment = 0, tile = blockIdx.x / shares;
    while (!gate && segment + 1 < a.n_segments && tile >= ceil_div(a.segments[segment].w.rows, block_rows)) {
        tile -= ceil_div(a.segments[segment].w.rows, block_rows);
        segment++;
    }
    const DeviceMatrix w[2] = {a.segments[segment].w, a.segments[gate ? 1 : segment].w};
    // Behind the end the last row is read again; its sums are dropped.
    const u32 row0 = tile * block_rows, last = w[0].rows - 1;
    const u32 rows[2] = {min_u32(row0 + g, last), min_u32(row0 + (gate ? g : g + 8), last)};
    UNROLL for (u32 r = 0; r < 2; r++) {
        const u32 row = kFewWarps * r + warp;
        prefetch_row<T>(w[r], min_u32(row0 + (gate ? warp : row), last), lane);
    }
    wait_for_previous();
    const u32 padded = ceil_div(w[0].cols, kInputStep) * kInputStep;
    // `token0` is a multiple of 32: blocks with 8 rows of input are launched for no more than these.
    const Right right = {a.prepared.quants + (u64)token0 * padded + 32 * g + 8 * t, a.prepared.groups + (u64)token0 * (padded / 32) + 2 * t};
    multiply_few<T, kTiles>(w, rows, right, n, shared + warp * kTiles * 4 * kWarp);
    sync_block();
    // A thread finishes a token of the rows g and g + 8.
    if (warp >= 2 * kTiles) return;
    const u32 c = warp / 2, j = warp % 2, token = 8 * c + 2 * t + j;
    if (token >= n) return;
    float v[2];
    UNROLL for (u32 h = 0; h < 2; h++) {
        auto part = [&](u32 w) { return shared[((w * kTiles + c) * 4 + 2 * h + j) * kWarp + lane]; };
        v[h] = ((part(0) + part(4)) + (part(2) + part(6))) + ((part(1) + part(5)) + (part(3) + part(7)));
    }
    const u32 row = row0 + g;
    if (gate) {
        if (row < w[0].rows) finish_gate(a, row, row, token0 + token, v[0], v[1]);
        return;
    }
    if (row < w[0].rows) finish(a, segment, row, token0 + token, v[0]);
    if (row + 8 < w[0].rows) finish(a, segment, row + 8, token0 + token, v[1]);
}

#define FEW_8(T, name)                             \
    KERNEL(few_##name##_8, ProjectArgs, 256, 2) {  \
        DYNAMIC_SHARED(shared);                    \
        few<T, 1>(a, (float*)shared);              \
    }
#define FEW(T, name)                               \
    FEW_8(T, name)                                 \
    KERNEL(few_##name##_32, ProjectArgs, 256, 2) { \
        DYNAMIC_SHARED(shared);                    \
        few<T, 4>(a, (float*)shared);              \
    }
FEW(Q4_0, q4_0)
FEW(Q4_1, q4_1)
FEW(Q5_0, q5_0)
FEW(Q5_1, q5_1)
FEW(Q8_0, q8_0)
FEW(Q4_K, q4_k)
FEW(Q5_K, q5_k)
#if __CUDA_ARCH__ >= 1200  // Spills where two blocks share the registers.
FEW_8(Q6_K, q6_k)
KERNEL(few_q6_k_32, ProjectArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    few<Q6_K, 4>(a, (float*)shared);
}
#else
FEW(Q6_K, q6_k)
#endif
