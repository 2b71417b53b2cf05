// Q8_0: bytes, and a scale per 32 columns.
fn chunk_at(row: u32, c: u32) -> Chunk {
    let chunks = p.cols / 32u;
    let q = (p.plane0 / 4u) + 2u * (row * chunks + c);
    let d = half(weight_half(p.plane1, 2u * (row * chunks + c)));
    return Chunk(weights[q], weights[q + 1u], vec2f(d), 0.0);
}
