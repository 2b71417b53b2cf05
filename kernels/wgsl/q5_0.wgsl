// Q5_0. Planes: 16 bytes of nibbles, a binary16 scale, fifth bits.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let d = half(weight_half(4u * p.plane1 + 2u * block));
    let h = weight_word(p.plane2 + block);
    return Chunk(low_nibbles(q) | fifth_bits(h, 0u), high_nibbles(q) | fifth_bits(h, 4u), vec2f(d), 16.0 * d);
}
