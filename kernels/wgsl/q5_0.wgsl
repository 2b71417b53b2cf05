// Q5_0: nibbles with a fifth bit, minus 16, and a scale per 32 columns.
fn chunk_at(row: u32, c: u32) -> Chunk {
    let at = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + at];
    let d = half(weight_half(p.plane1, 2u * at));
    let bits = weight_word(p.plane2 + at);
    let low = low_nibbles(q) | fifth_bits(bits, 0u);
    let high = high_nibbles(q) | fifth_bits(bits, 4u);
    return Chunk(centered(low, 0x10101010u, 14u), centered(high, 0x10101010u, 14u), vec2f(d), 0.0);
}
