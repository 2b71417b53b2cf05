// Columns 4i to 4i + 3 of a row of activations; 0 beyond its width.
fn four_of_x(row: u32, i: u32) -> vec4f {
    let at = p.x + row * p.x_row + 4u * i;
    if (4u * i + 3u < p.width && (at & 3u) == 0u) { return bitcast<vec4f>(four_words(at / 4u)); }
    var v = vec4f(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (4u * i + j < p.width) { v[j] = value(at + j); }
    }
    return v;
}
