// Writes keys or values of tokens to a KV cache, 32 values of a head per thread.
struct P {
    x: u32, x_row: u32, n: u32, heads: u32, dim: u32, positions: u32, kept: u32, rows: u32, row_words: u32, scales: u32,
    blocks: u32, rotates: u32, zero: u32
}
var<immediate> p: P;

// The nearest binary16 number, ties to even.
fn to_half(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) { return sign | 0x7e00u; }
    if (size >= 0x477ff000u) { return sign | 0x7c00u; }
    if (size < 0x38800000u) {
        // Subnormal: a multiple of 2^-24.
        return sign | u32(round(bitcast<f32>(size) * 16777216.0));
    }
    let rounded = size + 0xfffu + ((size >> 13u) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13u);
}

// Writes values as signed bytes; returns their scale.
fn store_8_bits(to: u32, values: ptr<function, array<f32, 32>>) -> f32 {
    var peak = 0.0;
    for (var i = 0u; i < 32u; i++) { peak = max(peak, abs((*values)[i])); }
    let factor = select(0.0, 127.0 / peak, peak > 0.0);
    for (var i = 0u; i < 8u; i++) {
        let four = vec4f((*values)[4u * i], (*values)[4u * i + 1u], (*values)[4u * i + 2u], (*values)[4u * i + 3u]);
        set_cache(to + i, pack4xI8Clamp(vec4i(round(four * factor))));
    }
    return peak / 127.0;
}

// Writes values as 4 bits plus 8; returns their scale. The value of largest magnitude becomes -8.
fn store_4_bits(to: u32, values: ptr<function, array<f32, 32>>) -> f32 {
    var low = 0.0;
    var high = 0.0;
    for (var i = 0u; i < 32u; i++) {
        low = min(low, (*values)[i]);
        high = max(high, (*values)[i]);
    }
    let peak = select(low, high, high > -low);
    let factor = select(0.0, -8.0 / peak, peak != 0.0);
    for (var i = 0u; i < 4u; i++) {
        var word = 0u;
        for (var j = 0u; j < 8u; j++) {
            let quant = clamp(round((*values)[8u * i + j] * factor) + 8.0, 0.0, 15.0);
            word |= min(u32(quant), 15u) << (4u * j);
        }
        set_cache(to + i, word);
    }
    return peak / -8.0;
}

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= p.heads * p.blocks) { return; }
    let head = id.x / p.blocks;
    let block = id.x % p.blocks;
    let position = inputs[p.positions + id.y] % p.kept;
    let source = p.x + id.y * p.x_row + head * p.dim + 32u * block;
    let n = min(p.dim - 32u * block, 32u);
    let row = head * p.kept + position;
    let to = p.rows + row * p.row_words;
    var values: array<f32, 32>;
    for (var i = 0u; i < 32u; i++) { values[i] = 0.0; }
    for (var i = 0u; i < n; i++) { values[i] = value(source + i); }
    if (TYPE == 0u) {
        for (var i = 0u; i < 32u; i++) { set_cache(to + 32u * block + i, bitcast<u32>(values[i])); }
    } else if (TYPE == 1u) {
        for (var i = 0u; i < 16u; i++) {
            set_cache(to + 16u * block + i, to_half(values[2u * i]) | (to_half(values[2u * i + 1u]) << 16u));
        }
    } else {
        var is_wrong = false;
        for (var i = 0u; i < 32u; i++) {
            is_wrong = is_wrong || (bitcast<u32>(values[i]) & 0x7f800000u) == 0x7f800000u;
        }
        if (p.rotates != 0u && n == 32u) { hadamard(&values); }
        var scale = 0.0;
        if (TYPE == 4u) {
            scale = store_4_bits(to + 4u * block, &values);
        } else {
            scale = store_8_bits(to + 8u * block, &values);
        }
        // The scale is rounded to binary16, as on the CPU.
        let rounded = bitcast<u32>(half(to_half(scale)));
        set_cache(p.scales + row * p.blocks + block, select(rounded, 0x7fc00000u, is_wrong));
    }
}
