// F16: columns 4i to 4i + 3 of a row.
fn four_at(row: u32, i: u32) -> vec4f {
    let at = p.plane0 + row * (p.cols / 2u) + 2u * i;
    let w = weights[at / 4u];
    let two = select(w.xy, w.zw, (at & 2u) != 0u);
    return vec4f(half(two.x & 0xffffu), half(two.x >> 16u), half(two.y & 0xffffu), half(two.y >> 16u));
}
