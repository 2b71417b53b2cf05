// Q6_K. Planes: low nibbles, a signed byte of scale for each 16 columns, upper two bits, a binary16 scale of scales.
const HALVES = true;

// 16 columns less 32: two upper bits from bit 2i of byte k belong to column 4i + k.
fn columns_of_6(nibbles: vec4u, bits: u32) -> vec4u {
    let upper = ((vec4u(bits) >> vec4u(0u, 2u, 4u, 6u)) & vec4u(0x03030303u)) << vec4u(4u);
    // No byte borrows from the next one while its top bit is set.
    return ((nibbles | upper | vec4u(0x80808080u)) - vec4u(0x20202020u)) ^ vec4u(0x80808080u);
}

fn chunk_at(row: u32, c: u32) -> Chunk {
    let block = row * (p.cols / 32u) + c;
    let q = weights[p.plane0 / 4u + block];
    let s = weight_half(4u * p.plane1 + 2u * block);
    let low = columns_of_6(low_nibbles(q), weight_word(p.plane2 + 2u * block));
    let high = columns_of_6(high_nibbles(q), weight_word(p.plane2 + 2u * block + 1u));
    let d = half(weight_half(4u * p.plane3 + 2u * (block / 8u)));
    let factors = vec2i(extractBits(i32(s), 0u, 8u), extractBits(i32(s), 8u, 8u));
    return Chunk(low, high, d * vec2f(factors), 0.0);
}
