// Dequantization shared by the readers of weight types.

// 32 columns of a row as signed bytes in column order: value = scale * byte - minimum. `scale` is the scale of `low`
// and of `high`; they are equal unless the reader declares `HALVES`.
struct Chunk { low: vec4u, high: vec4u, scale: vec2f, minimum: f32 }

// Converts binary16 exactly. unpack2x16float may flush subnormal numbers.
fn half(h: u32) -> f32 {
    let small = f32(h & 0x3ffu) * 5.9604644775390625e-8;
    let bias = select(112u << 23u, 224u << 23u, (h & 0x7c00u) == 0x7c00u);
    let normal = bitcast<f32>(((h & 0x7fffu) << 13u) + bias);
    let v = select(normal, small, (h & 0x7c00u) == 0u);
    return select(v, -v, (h & 0x8000u) != 0u);
}

// Low and high nibbles of 16 bytes.
fn low_nibbles(q: vec4u) -> vec4u { return q & vec4u(0x0f0f0f0fu); }
fn high_nibbles(q: vec4u) -> vec4u { return (q >> vec4u(4u)) & vec4u(0x0f0f0f0fu); }

// Fifth bits of 16 columns, in place: bit `first + i` of byte k belongs to column 4i + k.
fn fifth_bits(bits: u32, first: u32) -> vec4u {
    return ((vec4u(bits >> first) >> vec4u(0u, 1u, 2u, 3u)) & vec4u(0x01010101u)) << vec4u(4u);
}

// Scale and minimum of sub-block n of Q4_K and Q5_K, from the 16 bytes of a block's scales.
fn scales_of_k(s: vec4u, n: u32) -> vec2f {
    let shift = 8u * (n & 3u);
    let a = s.y >> shift;
    let b = s.z >> shift;
    let d = s.w >> shift;
    let is_last = n >= 4u;
    let scale = select(a & 63u, (d & 15u) | ((a >> 2u) & 48u), is_last);
    let minimum = select(b & 63u, ((d >> 4u) & 15u) | ((b >> 2u) & 48u), is_last);
    return vec2f(half(s.x & 0xffffu) * f32(scale), half(s.x >> 16u) * f32(minimum));
}
