// The KV cache of a sequence. Rows have blocks of 32 values: F32 (type 0), F16 (type 1), or bytes with an f32 scale per
// block in an array of their own (type 8).
@group(1) @binding(0) var<storage, read_write> cache: array<vec4u>;

struct Eight { a: vec4f, b: vec4f }

// Values 8i to 8i + 7 of a row.
fn eight(kind: u32, row: u32, scales: u32, i: u32) -> Eight {
    if (kind == 0u) {
        return Eight(bitcast<vec4f>(cache[row / 4u + 2u * i]), bitcast<vec4f>(cache[row / 4u + 2u * i + 1u]));
    }
    if (kind == 1u) {
        let w = cache[row / 4u + i];
        return Eight(vec4f(unpack2x16float(w.x), unpack2x16float(w.y)), vec4f(unpack2x16float(w.z), unpack2x16float(w.w)));
    }
    let w = cache[row / 4u + i / 2u];
    let at = scales + i / 4u;
    let scale = bitcast<f32>(cache[at / 4u][at % 4u]);
    let two = select(w.xy, w.zw, (i & 1u) != 0u);
    return Eight(scale * vec4f(unpack4xI8(two.x)), scale * vec4f(unpack4xI8(two.y)));
}

// Values 2i and 2i + 1 of a row.
fn two(kind: u32, row: u32, scales: u32, i: u32) -> vec2f {
    if (kind == 0u) {
        let at = row + 2u * i;
        let w = cache[at / 4u];
        return bitcast<vec2f>(select(w.xy, w.zw, (i & 1u) != 0u));
    }
    if (kind == 1u) {
        let at = row + i;
        return unpack2x16float(cache[at / 4u][at % 4u]);
    }
    let at = row + i / 2u;
    let place = scales + i / 16u;
    let bytes = vec4f(unpack4xI8(cache[at / 4u][at % 4u]));
    return bitcast<f32>(cache[place / 4u][place % 4u]) * select(bytes.xy, bytes.zw, (i & 1u) != 0u);
}
