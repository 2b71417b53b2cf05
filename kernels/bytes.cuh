// Rounding of activations to signed bytes.
#pragma once

#include "quant.cuh"
#include "row_loader.cuh"

// Eight values in signed bytes, and the group of 32 to which they belong; in lane 4i, `group.halves` is in order.
struct Bytes8 {
    uint2 words;
    Group group;
};

// Rounds eight values of each lane; 4 adjacent lanes form a group. A NaN value makes the scale of its group NaN.
DEVICE Bytes8 to_bytes(const Values8& x) {
    float peak = 0.f;
    UNROLL for (u32 i = 0; i < 8; i++) peak = max_magnitude(peak, x.v[i]);
    peak = max_magnitude(peak, shuffle_xor(peak, 1));
    peak = max_magnitude(peak, shuffle_xor(peak, 2));
    const float scale = peak * (1.f / 127.f), inverse = peak > 0.f ? reciprocal_approx(scale) : 0.f;
    // The nearest integers, in the lowest bits.
    u32 whole[8], words[2];
    UNROLL for (u32 i = 0; i < 8; i++) whole[i] = float_to_bits(fmaf(x.v[i], inverse, kWhole));
    UNROLL for (u32 i = 0; i < 2; i++)
        words[i] = permute(permute(whole[4 * i], whole[4 * i + 1], 0x0040),
                           permute(whole[4 * i + 2], whole[4 * i + 3], 0x0040), 0x5410);
    i32 sum = dot4(words[0], 0x01010101u, dot4(words[1], 0x01010101u, 0));
    sum += shuffle_xor(sum, 1);
    const i32 second = shuffle_xor(sum, 2);
    return {{words[0], words[1]}, {scale, scale * (float)(sum + second), {sum, second}}};
}
