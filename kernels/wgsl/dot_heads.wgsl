// Dot products of the heads of two activations, one head per workgroup.
struct P { x: u32, x_row: u32, y: u32, y_row: u32, out: u32, out_row: u32, heads: u32, width: u32 }
var<immediate> p: P;
var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let x = p.x + wg.y * p.x_row + wg.x * p.width;
    let y = p.y + wg.y * p.y_row + wg.x * p.width;
    var sum = 0.0;
    for (var i = l; i < p.width; i += 64u) { sum += value(x + i) * value(y + i); }
    sums[l] = sum;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) { sums[l] += sums[l + step]; }
        workgroupBarrier();
    }
    if (l == 0u) { set_value(p.out + wg.y * p.out_row + wg.x, sums[0]); }
}
