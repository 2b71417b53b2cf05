// Elementwise ops on activations that are not part of a product.
//
//     glu:     gate = activation(gate) * up
//     modify:  x = x changed by a factor, limit, vector, position or gate (`Modification`), row by row
//     join:    out[row, head] = x[row, head][..part], or x[row, head][by], then tail[row]
//
// Shapes: see `GluArgs`, `ModifyArgs`, `JoinArgs`. `glu` takes any grid. The others have one row, or head, per block of
// the grid's first dimension; the blocks of the second dimension divide its values.
#include "common.cuh"

// gate = activation(gate) * up
KERNEL(glu, GluArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (u64)gridDim.x * blockDim.x)
        a.gate[i] = any_gated(a.gate[i], a.up ? a.up[i] : no_up(a.activation), a.activation, a.limit, a.up_limit);
}

DEVICE float xielu(float x, const ModifyArgs& a) {
    const float bent = x > 0.f ? a.factor * x * x : a.fall * (expm1f(fminf(x, a.eps)) - x);
    return fmaf(a.slope, x, bent);
}

// Modifies rows in place, one row per block of the first dimension.
KERNEL(modify, ModifyArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u32 row = blockIdx.x;
    float* x = a.x + (u64)row * a.width;
    float factor = a.factor;
    if (a.kind == kByPosition)
        factor = 1.f + a.factor * logf((float)(((u64)a.positions[row] + a.offset) / a.length + 1));
    const float* gate = a.kind == kBySigmoid || a.kind == kByGate ? a.by + (u64)row * (a.width / a.length) : nullptr;
    for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < a.width; i += gridDim.y * blockDim.x) {
        switch (a.kind) {
            case kLimit: x[i] = within(x[i], a.slope, factor); break;
            case kByColumn: x[i] *= a.by[i]; break;
            case kBySigmoid: x[i] *= sigmoid(gate[i / a.length]); break;
            case kByGate: x[i] *= gate[i / a.length]; break;
            case kXielu: x[i] = xielu(x[i], a); break;
            case kAddMedia:
                if (a.ids[row] == kMediaRow) x[i] += a.by[(u64)row * a.length + i];
                break;
            case kSoftcap: x[i] = a.eps > 0.f ? a.eps * tanhf(factor * x[i] / a.eps) : factor * x[i]; break;
            default: x[i] *= factor;
        }
    }
}

// Copies heads, in order or permuted, each followed by the tail; one head per block of the first dimension.
KERNEL(join, JoinArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u32 width = a.part + a.tail_width;
    const float* x = a.x + (u64)blockIdx.x * a.x_stride;
    const float* tail = a.tail + (u64)(blockIdx.x / a.heads) * a.tail_width;
    float* out = a.out + (u64)blockIdx.x * width;
    for (u32 i = blockIdx.y * blockDim.x + threadIdx.x; i < width; i += gridDim.y * blockDim.x)
        out[i] = i < a.part ? x[a.by ? (u32)a.by[i] : i] : tail[i - a.part];
}
