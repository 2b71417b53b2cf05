// Matrix times vector, for single tokens.
//
// Time is bound by reading the weights. So every block prepares the input for itself (norm, and quantisation to signed bytes
// with a scale for each 32) while its first weights are being loaded, and the operation on the result (bias, residual, gated
// activation, softcap) is part of the kernel. A warp takes two rows and strides over their columns with loads of 16 bytes, at
// least four in flight a lane; one launch serves matrices of different types that share an input.
#include "args.cuh"

// Rows of a warp: enough to use each load of the input twice, few enough that small matrices fill the device.
constexpr u32 kRows = 2;
// Columns that a warp prepares at once; the input in shared memory is padded to them.
constexpr u32 kInputStep = 4 * kWarp;

// Four values of a lane; 8 neighbouring lanes make a group.
DEVICE void quantise(float4 v, u32 col, i8* quants, Group* groups) {
    float peak = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
    UNROLL for (u32 lanes = 1; lanes < 8; lanes *= 2) peak = fmaxf(peak, shuffle_xor(peak, lanes));
    const float inverse = peak > 0.f ? 127.f / peak : 0.f;
    const u32 word = ((u32)(i32)rintf(v.x * inverse) & 255u) | ((u32)(i32)rintf(v.y * inverse) & 255u) << 8 |
                     ((u32)(i32)rintf(v.z * inverse) & 255u) << 16 | ((u32)(i32)rintf(v.w * inverse) & 255u) << 24;
    i32 sum = dot4(word, 0x01010101u, 0);
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    store(quants + col, word);
    if (col % 16 == 0) store((u8*)&groups[col / 32].sums + col % 32 / 8, (i16)sum);
    if (col % 32 == 0) groups[col / 32].scale = peak / 127.f;
}

// Prepares input row `x` in shared memory with the whole block.
DEVICE Input prepare(const ProjectArgs& a, const float* x, u8* shared) {
    const u32 padded = ceil_div(a.segments[0].w.cols, kInputStep) * kInputStep;
    float* scratch = (float*)shared;
    float* values = scratch + kWarp;
    Group* groups = (Group*)(values + (a.forms & 1 ? padded : 0));
    i8* quants = (i8*)(groups + (a.forms & 2 ? padded / 32 : 0));
    const bool aligned = a.cols % 4 == 0 && a.x_stride % 4 == 0;
    const Moments m = moments(x, a.cols, a.norm, scratch);
    for (u32 col = 4 * threadIdx.x; col < padded; col += 4 * blockDim.x) {
        float4 v = {0.f, 0.f, 0.f, 0.f};
        if (aligned && col < a.cols) v = load<float4>(x + col);
        else if (col < a.cols) {
            v.x = x[col];
            if (col + 1 < a.cols) v.y = x[col + 1];
            if (col + 2 < a.cols) v.z = x[col + 2];
            if (col + 3 < a.cols) v.w = x[col + 3];
        }
        if (a.norm.kind != kNoNorm) {
            if (col < a.cols) v.x = normalised(v.x, col, m, a.norm);
            if (col + 1 < a.cols) v.y = normalised(v.y, col + 1, m, a.norm);
            if (col + 2 < a.cols) v.z = normalised(v.z, col + 2, m, a.norm);
            if (col + 3 < a.cols) v.w = normalised(v.w, col + 3, m, a.norm);
        }
        if (a.forms & 1) store(values + col, v);
        if (a.forms & 2) quantise(v, col, quants, groups);
    }
    sync_block();
    return {values, quants, groups};
}

// A pair of rows: of one matrix, or of gate and up.
struct Pair {
    u32 segments[kRows];
    u64 rows[kRows];
};

template <class T> DEVICE void dot_rows(const ProjectArgs& a, const Pair& p, const Input& x, float (&sums)[kRows]) {
    const u32 units = a.segments[0].w.cols / T::kValues;
    for (u32 first = threadIdx.x % kWarp; first < units; first += kWarp * T::kUnroll) {
        typename T::Raw raw[T::kUnroll][kRows];
        UNROLL for (int u = 0; u < T::kUnroll; u++) {
            // Behind the end the first unit is read again, so that no load depends on a branch.
            const u32 unit = first + u * kWarp < units ? first + u * kWarp : first;
            UNROLL for (u32 r = 0; r < kRows; r++) raw[u][r] = T::load(a.segments[p.segments[r]].w, p.rows[r], unit);
        }
        UNROLL for (int u = 0; u < T::kUnroll; u++) {
            const u32 unit = first + u * kWarp;
            if (unit < units) UNROLL for (u32 r = 0; r < kRows; r++) sums[r] += T::dot(raw[u][r], x, unit);
        }
    }
}

// The pair that a warp works on in turn `g`.
DEVICE Pair pair_at(const ProjectArgs& a, u32 g, u32 expert) {
    if (a.epilogue == kGlu) {
        const u64 row = (u64)expert * a.segments[0].w.rows + g;
        return {{0, 1}, {row, row}};
    }
    u32 segment = 0, row = kRows * g;
    while (segment + 1 < a.n_segments && row >= ceil_div(a.segments[segment].w.rows, kRows) * kRows) {
        row -= ceil_div(a.segments[segment].w.rows, kRows) * kRows;
        segment++;
    }
    const u32 rows = a.segments[segment].w.rows;
    const u64 first = (u64)expert * rows;
    // Behind the end the last row is read again; its sum is dropped.
    return {{segment, segment}, {first + row, first + min_u32(row + 1, rows - 1)}};
}

DEVICE void finish(const ProjectArgs& a, u32 segment, u32 row, u32 y, float sum) {
    const Segment& s = a.segments[segment];
    if (s.bias) sum += s.bias[row];
    float* out = s.out + (u64)y * s.w.rows + row;
    switch (a.epilogue) {
        case kAdd: *out += a.scale * sum; break;
        case kCap: *out = a.softcap > 0.f ? a.softcap * tanhf(a.scale * sum / a.softcap) : a.scale * sum; break;
        default: *out = sum;
    }
}

KERNEL(gemv, ProjectArgs, 256, 2) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    const u32 lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp, y = blockIdx.y;
    u32 turns = 0;
    if (a.epilogue == kGlu) turns = a.segments[0].w.rows;
    else for (u32 s = 0; s < a.n_segments; s++) turns += ceil_div(a.segments[s].w.rows, kRows);
    const u32 first = blockIdx.x * warps + threadIdx.x / kWarp;

    // The choice of experts can be read only after the wait.
    if (!a.experts && first < turns) {
        const Pair p = pair_at(a, first, 0);
        UNROLL for (u32 r = 0; r < kRows; r++) prefetch_row(a.segments[p.segments[r]].w, p.rows[r], lane);
    }
    wait_for_previous();

    const u32 expert = a.experts ? a.experts[y] : 0;
    const Input x = prepare(a, a.x + (u64)(y / a.x_divisor) * a.x_stride, shared);

    for (u32 g = first; g < turns; g += gridDim.x * warps) {
        const Pair p = pair_at(a, g, expert);
        float sums[kRows] = {};
        with_type(a.segments[p.segments[0]].w.type, [&](auto type) { dot_rows<decltype(type)>(a, p, x, sums); });
        UNROLL for (u32 r = 0; r < kRows; r++) sums[r] = warp_sum(sums[r]);
        if (lane != 0) continue;
        if (a.epilogue == kGlu) {
            const u32 row = g;
            const float gate = sums[0] + (a.segments[0].bias ? a.segments[0].bias[row] : 0.f);
            const float up = sums[1] + (a.segments[1].bias ? a.segments[1].bias[row] : 0.f);
            a.segments[0].out[(u64)y * a.segments[0].w.rows + row] = activate(gate, a.activation) * up;
        } else {
            const u32 rows = a.segments[p.segments[0]].w.rows;
            UNROLL for (u32 r = 0; r < kRows; r++) {
                const u32 row = (u32)(p.rows[0] - (u64)expert * rows) + r;
                if (row < rows) finish(a, p.segments[0], row, y, sums[r]);
            }
        }
    }
}
