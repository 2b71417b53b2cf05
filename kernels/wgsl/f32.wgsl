// F32: columns 4i to 4i + 3 of a row.
fn four_at(row: u32, i: u32) -> vec4f { return bitcast<vec4f>(weights[p.plane0 / 4u + row * (p.cols / 4u) + i]); }
