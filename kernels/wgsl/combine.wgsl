// Sums the results of a token's picks, multiplied by their routing weights.
struct P {
    width: u32, used: u32, x: u32, x_row: u32, weights: u32, out: u32, out_row: u32, adds: u32, scale: f32
}
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= p.width) { return; }
    var sum = 0.0;
    for (var j = 0u; j < p.used; j++) {
        let pick = id.y * p.used + j;
        var v = value(p.x + pick * p.x_row + id.x);
        if (p.weights != NONE) { v *= value(p.weights + pick); }
        sum += v;
    }
    let at = p.out + id.y * p.out_row + id.x;
    var out = sum * p.scale;
    if (p.adds != 0u) { out += value(at); }
    set_value(at, out);
}
