// Copies values between rows.
struct P {
    mode: u32, width: u32, x: u32, x_row: u32, y: u32, y_row: u32, out: u32, out_row: u32, first: u32, each: u32,
    vector: u32, rows: u32, scale: f32
}
var<immediate> p: P;

const SLICE = 0u;
const JOIN_HEADS = 1u;
const GATHER = 2u;
const KEEP_ROWS = 3u;
const MEAN = 4u;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    let t = id.y;
    if (i >= p.width) { return; }
    let x = p.x + t * p.x_row;
    var v = 0.0;
    switch p.mode {
        case SLICE: { v = value(x + p.first + i); }
        // Each head consists of `first` values of x, then the tail `y`.
        case JOIN_HEADS: {
            let head = i / p.each;
            let j = i % p.each;
            if (j < p.first) { v = value(x + head * p.first + j); } else { v = value(p.y + t * p.y_row + j - p.first); }
        }
        case GATHER: { v = value(x + u32(vectors[p.vector + i])); }
        case KEEP_ROWS: { v = value(p.x + inputs[p.rows + t] * p.x_row + i); }
        case MEAN: {
            for (var g = 0u; g < p.each; g++) { v += value(x + g * p.width + i); }
            v *= p.scale;
        }
        default: {}
    }
    set_value(p.out + t * p.out_row + i, v);
}
