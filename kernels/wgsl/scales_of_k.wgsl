// Scale and minimum of sub-block c of Q4_K and Q5_K. A block has two binary16 numbers, and 12 bytes of packed 6-bit
// numbers.
fn scales_of_k(row: u32, c: u32) -> vec2f {
    let s = weights[p.plane1 / 4u + row * (p.cols / 256u) + c / 8u];
    let shift = 8u * (c & 3u);
    let a = s.y >> shift;
    let b = s.z >> shift;
    let d = s.w >> shift;
    let above = (c & 4u) != 0u;
    let scale = select(a & 63u, (d & 15u) | ((a >> 2u) & 48u), above);
    let minimum = select(b & 63u, ((d >> 4u) & 15u) | ((b >> 2u) & 48u), above);
    return vec2f(half(s.x & 0xffffu) * f32(scale), half(s.x >> 16u) * f32(minimum));
}
