// The operation on the result of a product, which is part of the product's kernel: bias, then `Epilogue`.
#pragma once

#include "quant.cuh"

DEVICE float with_bias(const Segment& s, u32 row, float sum) { return s.bias ? sum + s.bias[row] : sum; }
DEVICE float* place_of(const ProjectArgs& a, u32 segment, u32 row, u64 y) {
    const Segment& s = a.segments[segment];
    return s.out + y * s.w.rows + row;
}
// The value to which a result is added; 0 if the result replaces it.
DEVICE float addend(const ProjectArgs& a, u32 segment, u32 row, u64 y) {
    return a.epilogue == kAdd ? *place_of(a, segment, row, y) : 0.f;
}
DEVICE void finish(const ProjectArgs& a, u32 segment, u32 row, u64 y, float sum, float addend) {
    sum = with_bias(a.segments[segment], row, sum);
    float* out = place_of(a, segment, row, y);
    switch (a.epilogue) {
        case kAdd: *out = fmaf(a.scale, sum, addend); break;
        case kCap: *out = a.softcap > 0.f ? a.softcap * tanhf(a.scale * sum / a.softcap) : a.scale * sum; break;
        default: *out = sum;
    }
}
// `stacked`: index of the row in the stack of all experts, in which biases are stacked too.
DEVICE void finish_gate(const ProjectArgs& a, u32 row, u32 stacked, u64 y, float gate, float up) {
    const Segment& s = a.segments[0];
    up = with_bias(a.segments[1], stacked, up);
    s.out[y * s.w.rows + row] = gated(with_bias(s, stacked, gate), up, a.activation, a.softcap);
}
