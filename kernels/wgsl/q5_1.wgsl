// Q5_1: nibbles with a fifth bit, and a scale and a minimum per 32 columns.
fn chunk_at(row: u32, c: u32) -> Chunk {
    let at = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + at];
    let s = weight_word(p.plane1 + at);
    let bits = weight_word(p.plane2 + at);
    let low = low_nibbles(q) | fifth_bits(bits, 0u);
    let high = high_nibbles(q) | fifth_bits(bits, 4u);
    return Chunk(low, high, vec2f(half(s & 0xffffu)), -half(s >> 16u));
}
