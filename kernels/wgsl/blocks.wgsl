// 32 columns of a row as signed bytes: columns 0 to 15 in `low`, 16 to 31 in `high`. A value is its byte times
// `scale.x` (low) or `scale.y` (high), minus `minimum`.
struct Chunk { low: vec4u, high: vec4u, scale: vec2f, minimum: f32 }

// Converts bytes of unsigned numbers to signed bytes by subtracting half of the range: flips the highest bit, `sign`,
// and extends it with `above`.
fn centered(q: vec4u, sign: u32, above: u32) -> vec4u {
    let t = q ^ vec4u(sign);
    return t | ((t & vec4u(sign)) * above);
}

// Low and high nibbles of 16 bytes: columns 0 to 15, and 16 to 31.
fn low_nibbles(q: vec4u) -> vec4u { return q & vec4u(0x0f0f0f0fu); }
fn high_nibbles(q: vec4u) -> vec4u { return (q >> vec4u(4u)) & vec4u(0x0f0f0f0fu); }

// Byte k of `bits` has the fifth bits of columns 4i + k. Moves the bits of columns 4 * (first + j) + k to bit 4 of byte
// k of word j.
fn fifth_bits(bits: u32, first: u32) -> vec4u {
    let b = (vec4u(bits) >> (vec4u(0u, 1u, 2u, 3u) + vec4u(first))) & vec4u(0x01010101u);
    return b << vec4u(4u);
}
