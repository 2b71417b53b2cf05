// Q5_K. Planes: nibbles, 16 bytes of scales for each 256 columns, fifth bits.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let s = scales_of_k(weights[p.plane1 / 4u + block / 8u], c & 7u);
    let h = weight_word(p.plane2 + block);
    return Chunk(low_nibbles(q) | fifth_bits(h, 0u), high_nibbles(q) | fifth_bits(h, 4u), vec2f(s.x), s.y);
}
