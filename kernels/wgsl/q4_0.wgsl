// Q4_0: nibbles minus 8, and a scale per 32 columns.
fn chunk_at(row: u32, c: u32) -> Chunk {
    let at = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + at];
    let d = half(weight_half(p.plane1, 2u * at));
    let low = centered(low_nibbles(q), 0x08080808u, 30u);
    return Chunk(low, centered(high_nibbles(q), 0x08080808u, 30u), vec2f(d), 0.0);
}
