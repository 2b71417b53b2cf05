// Q6_K: nibbles with two more bits, minus 32, a scale per 256 columns and a byte scale per 16.
fn upper_bits(bits: u32) -> vec4u {
    return ((vec4u(bits) >> vec4u(0u, 2u, 4u, 6u)) & vec4u(0x03030303u)) << vec4u(4u);
}

fn chunk_at(row: u32, c: u32) -> Chunk {
    let at = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + at];
    let s = bitcast<i32>(weight_word(p.plane1 + at / 2u));
    let shift = 16u * (at & 1u);
    let scales = vec2f(f32((s << (24u - shift)) >> 24u), f32((s << (16u - shift)) >> 24u));
    let low = low_nibbles(q) | upper_bits(weight_word(p.plane2 + 2u * at));
    let high = high_nibbles(q) | upper_bits(weight_word(p.plane2 + 2u * at + 1u));
    let d = half(weight_half(p.plane3, 2u * (row * (p.cols / 256u) + c / 8u)));
    return Chunk(centered(low, 0x20202020u, 6u), centered(high, 0x20202020u, 6u), d * scales, 0.0);
}
