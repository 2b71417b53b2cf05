// F32. Plane 0: the values.
fn four_at(row: u32, i: u32) -> vec4f { return bitcast<vec4f>(weights[(p.plane0 + row * p.cols) / 4u + i]); }
