// Q4_1. Planes: 16 bytes of nibbles, a binary16 scale and offset.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let s = weight_word(p.plane1 + block);
    return Chunk(low_nibbles(q), high_nibbles(q), vec2f(half(s & 0xffffu)), -half(s >> 16u));
}
