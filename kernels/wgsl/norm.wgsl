// RMS norm (kind 0) or layer norm (kind 1) of the groups of a row, one group per workgroup.
struct P {
    x: u32, x_row: u32, out: u32, out_row: u32, group: u32,
    weight: u32, weight_step: u32, bias: u32, bias_step: u32, kind: u32, eps: f32
}
var<immediate> p: P;
var<workgroup> sums: array<f32, 64>;

fn sum_all(l: u32, mine: f32) -> f32 {
    sums[l] = mine;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) { sums[l] += sums[l + step]; }
        workgroupBarrier();
    }
    let total = sums[0];
    workgroupBarrier();
    return total;
}

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let x = p.x + wg.y * p.x_row + wg.x * p.group;
    let out = p.out + wg.y * p.out_row + wg.x * p.group;
    var mean = 0.0;
    if (p.kind == 1u) {
        var sum = 0.0;
        for (var i = l; i < p.group; i += 64u) { sum += value(x + i); }
        mean = sum_all(l, sum) / f32(p.group);
    }
    var squares = 0.0;
    for (var i = l; i < p.group; i += 64u) {
        let v = value(x + i) - mean;
        squares += v * v;
    }
    let factor = 1.0 / sqrt(sum_all(l, squares) / f32(p.group) + p.eps);
    for (var i = l; i < p.group; i += 64u) {
        var v = (value(x + i) - mean) * factor;
        if (p.weight != NONE) { v *= vectors[p.weight + wg.x * p.weight_step + i]; }
        if (p.bias != NONE) { v += vectors[p.bias + wg.x * p.bias_step + i]; }
        set_value(out + i, v);
    }
}
