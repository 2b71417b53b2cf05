// Q5_1. Planes: 16 bytes of nibbles, a binary16 scale and offset, fifth bits.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let s = weight_word(p.plane1 + block);
    let h = weight_word(p.plane2 + block);
    let low = low_nibbles(q) | fifth_bits(h, 0u);
    return Chunk(low, high_nibbles(q) | fifth_bits(h, 4u), vec2f(half(s & 0xffffu)), -half(s >> 16u));
}
