// BF16. Plane 0: the values.
fn four_at(row: u32, i: u32) -> vec4f {
    let at = p.plane0 + row * (p.cols / 2u) + 2u * i;
    let w = weights[at >> 2u];
    let two = select(w.xy, w.zw, (at & 2u) != 0u);
    return bitcast<vec4f>(vec4u(two.x << 16u, two.x & 0xffff0000u, two.y << 16u, two.y & 0xffff0000u));
}
