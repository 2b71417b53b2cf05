// The operation on the result of a product, which is part of the product's kernel: bias, then `Epilogue`.
#pragma once

#include "quant.cuh"

DEVICE float with_bias(const Segment& s, u32 row, float sum) { return s.bias ? sum + s.bias[row] : sum; }
DEVICE void finish(const ProjectArgs& a, u32 segment, u32 row, u64 y, float sum) {
    const Segment& s = a.segments[segment];
    sum = with_bias(s, row, sum);
    float* out = s.out + y * s.w.rows + row;
    switch (a.epilogue) {
        case kAdd: *out = fmaf(a.scale, sum, *out); break;
        case kCap: *out = a.softcap > 0.f ? a.softcap * tanhf(a.scale * sum / a.softcap) : a.scale * sum; break;
        default: *out = sum;
    }
}
// `stacked`: the row among those of all experts, as stacked as whose matrices their biases are.
DEVICE void finish_gate(const ProjectArgs& a, u32 row, u32 stacked, u64 y, float gate, float up) {
    const Segment& s = a.segments[0];
    up = with_bias(a.segments[1], stacked, up);
    s.out[y * s.w.rows + row] = gated(with_bias(s, stacked, gate), up, a.activation, a.softcap);
}
