// 16 products of signed bytes.
fn dot16(w: vec4u, x: vec4u) -> f32 {
    return f32(dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w));
}

// The product of 32 columns of weights and activations. `group`: scale and scaled sum of the activations.
fn product(w: Chunk, low: vec4u, high: vec4u, group: vec2f) -> f32 {
    return group.x * (w.scale.x * dot16(w.low, low) + w.scale.y * dot16(w.high, high)) - w.minimum * group.y;
}

fn group_at(at: u32) -> vec2f {
    let w = four_words(at / 4u);
    return bitcast<vec2f>(select(w.xy, w.zw, (at & 2u) != 0u));
}
