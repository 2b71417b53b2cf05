// Q8_0. Planes: 32 bytes, a binary16 scale.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = p.plane0 / 4u + 2u * block;
    return Chunk(weights[q], weights[q + 1u], vec2f(half(weight_half(4u * p.plane1 + 2u * block))), 0.0);
}
