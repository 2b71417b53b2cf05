// The KV cache and recurrent states of a sequence. Rows of the KV cache consist of blocks of 32 values: F32 (type 0),
// F16 (type 1), or integers with an f32 scale per block in a separate array: signed bytes (type 8), or 4 bits plus 8
// (type 4), of rows that the Hadamard transform has rotated unless they are latent.
@group(1) @binding(0) var<storage, read_write> cache: array<array<u32, 4>>;

// Words 4i to 4i + 3.
fn four_of_cache(i: u32) -> vec4u {
    let four = cache[i];
    return vec4u(four[0], four[1], four[2], four[3]);
}

fn set_cache(at: u32, word: u32) { cache[at / 4u][at % 4u] = word; }

// A value of a recurrent state.
fn state(at: u32) -> f32 { return bitcast<f32>(cache[at / 4u][at % 4u]); }
fn set_state(at: u32, v: f32) { cache[at / 4u][at % 4u] = bitcast<u32>(v); }

struct Eight { a: vec4f, b: vec4f }

// Values 8i to 8i + 7 of a row.
fn eight(kind: u32, row: u32, scales: u32, i: u32) -> Eight {
    if (kind == 0u) {
        let at = row / 4u + 2u * i;
        return Eight(bitcast<vec4f>(four_of_cache(at)), bitcast<vec4f>(four_of_cache(at + 1u)));
    }
    if (kind == 1u) {
        let w = four_of_cache(row / 4u + i);
        let a = vec4f(unpack2x16float(w.x), unpack2x16float(w.y));
        return Eight(a, vec4f(unpack2x16float(w.z), unpack2x16float(w.w)));
    }
    let at = scales + i / 4u;
    let scale = bitcast<f32>(cache[at / 4u][at % 4u]);
    if (kind == 4u) {
        let word = vec4u(cache[(row + i) / 4u][(row + i) % 4u]);
        let a = vec4f((word >> vec4u(0u, 4u, 8u, 12u)) & vec4u(15u)) - 8.0;
        return Eight(scale * a, scale * (vec4f((word >> vec4u(16u, 20u, 24u, 28u)) & vec4u(15u)) - 8.0));
    }
    let w = four_of_cache(row / 4u + i / 2u);
    let two = select(w.xy, w.zw, (i & 1u) != 0u);
    return Eight(scale * vec4f(unpack4xI8(two.x)), scale * vec4f(unpack4xI8(two.y)));
}

// Values 2i and 2i + 1 of a row.
fn two(kind: u32, row: u32, scales: u32, i: u32) -> vec2f {
    if (kind == 0u) {
        let at = row + 2u * i;
        let w = four_of_cache(at / 4u);
        return bitcast<vec2f>(select(w.xy, w.zw, (i & 1u) != 0u));
    }
    if (kind == 1u) {
        let at = row + i;
        return unpack2x16float(cache[at / 4u][at % 4u]);
    }
    let place = scales + i / 16u;
    let scale = bitcast<f32>(cache[place / 4u][place % 4u]);
    if (kind == 4u) {
        let at = row + i / 4u;
        let pair = vec2u(cache[at / 4u][at % 4u]) >> (vec2u(8u * (i % 4u)) + vec2u(0u, 4u));
        return scale * (vec2f(pair & vec2u(15u)) - 8.0);
    }
    let at = row + i / 2u;
    let bytes = vec4f(unpack4xI8(cache[at / 4u][at % 4u]));
    return scale * select(bytes.xy, bytes.zw, (i & 1u) != 0u);
}
