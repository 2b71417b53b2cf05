// Q4_K. Planes: nibbles, 16 bytes of scales for each 256 columns.
const HALVES = false;

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let s = scales_of_k(weights[p.plane1 / 4u + block / 8u], c & 7u);
    return Chunk(low_nibbles(q), high_nibbles(q), vec2f(s.x), s.y);
}
