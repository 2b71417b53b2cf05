// Q4_0. Planes: 16 bytes of nibbles, a binary16 scale.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let d = half(weight_half(4u * p.plane1 + 2u * block));
    return Chunk(low_nibbles(q), high_nibbles(q), vec2f(d), 8.0 * d);
}
