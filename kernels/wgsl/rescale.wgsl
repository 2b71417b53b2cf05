// Scales parts of rows to the mean square of another row (`like`), or thresholds rows at a number of standard
// deviations above their mean. A workgroup has one part.
struct P { x: u32, x_row: u32, width: u32, like: u32, deviations: f32, zero: u32 }
var<immediate> p: P;
var<workgroup> sums: array<vec2f, 64>;

fn sum_all(l: u32, mine: vec2f) -> vec2f {
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
    let x = p.x + wg.y * p.x_row + wg.x * p.width;
    let n = f32(p.width);
    if (p.like != NONE) {
        let like = p.like + wg.y * p.width;
        var squares = vec2f(0.0);
        for (var i = l; i < p.width; i += 64u) {
            let v = vec2f(value(x + i), value(like + i));
            squares += v * v;
        }
        let means = sum_all(l, squares) / n;
        let factor = sqrt(means.y / max(means.x, 1e-5));
        for (var i = l; i < p.width; i += 64u) { set_value(x + i, value(x + i) * factor); }
        return;
    }
    var sum = vec2f(0.0);
    for (var i = l; i < p.width; i += 64u) { sum.x += value(x + i); }
    let mean = sum_all(l, sum).x / n;
    sum = vec2f(0.0);
    for (var i = l; i < p.width; i += 64u) {
        let v = value(x + i) - mean;
        sum.x += v * v;
    }
    let least = p.deviations * sqrt(sum_all(l, sum).x / n);
    for (var i = l; i < p.width; i += 64u) {
        let v = value(x + i) - mean - least;
        set_value(x + i, select(max(v, 0.0), v, is_nan(v)));
    }
}
