// Merges the parts of each head in order. An attention sink is one more score without a value.
struct P { parts: u32, splits: u32, out: u32, out_row: u32, heads: u32, width: u32, sinks: u32, zero: u32 }
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let size = 2u + p.width;
    let start = p.parts + (wg.y * p.heads + wg.x) * p.splits * size;
    var peak = -3.0e38;
    for (var s = 0u; s < p.splits; s++) { peak = max(peak, value(start + s * size)); }
    var sum = 0.0;
    if (p.sinks != NONE) {
        peak = max(peak, vectors[p.sinks + wg.x]);
        sum = exp_of(vectors[p.sinks + wg.x] - peak);
    }
    for (var s = 0u; s < p.splits; s++) {
        sum += exp_of(value(start + s * size) - peak) * value(start + s * size + 1u);
    }
    for (var i = l; i < p.width; i += 64u) {
        var v = 0.0;
        for (var s = 0u; s < p.splits; s++) {
            v += exp_of(value(start + s * size) - peak) * value(start + s * size + 2u + i);
        }
        set_value(p.out + wg.y * p.out_row + wg.x * p.width + i, select(v / sum, 0.0, sum == 0.0));
    }
}
