// Q4_K: nibbles, and a scale and a minimum per 32 columns.
fn chunk_at(row: u32, c: u32) -> Chunk {
    let q = weights[p.plane0 / 4u + row * (p.cols / 32u) + c];
    let s = scales_of_k(row, c);
    return Chunk(low_nibbles(q), high_nibbles(q), vec2f(s.x), s.y);
}
