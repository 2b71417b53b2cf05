// Q4_1: nibbles, and a scale and a minimum per 32 columns.
fn chunk_at(row: u32, c: u32) -> Chunk {
    let at = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + at];
    let s = weight_word(p.plane1 + at);
    return Chunk(low_nibbles(q), high_nibbles(q), vec2f(half(s & 0xffffu)), -half(s >> 16u));
}
