// Looks up rows of a quantized table by token id, 32 columns per thread. Ids outside the rows of this part belong to
// another launch.
struct P {
    rows: u32, cols: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, first_row: u32, width: u32,
    n: u32, ids: u32,
    out: u32, scale: f32
}
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3u) {
    let id = inputs[p.ids + at.y] - p.first_row;
    if (32u * at.x >= p.width || id >= p.rows) { return; }
    let w = chunk_at(id, at.x);
    let out = p.out + at.y * p.width + 32u * at.x;
    for (var i = 0u; i < 16u; i++) {
        let low = f32(unpack4xI8(w.low[i / 4u])[i % 4u]) * w.scale.x - w.minimum;
        let high = f32(unpack4xI8(w.high[i / 4u])[i % 4u]) * w.scale.y - w.minimum;
        if (32u * at.x + i < p.width) { set_value(out + i, low * p.scale); }
        if (32u * at.x + 16u + i < p.width) { set_value(out + 16u + i, high * p.scale); }
    }
}
