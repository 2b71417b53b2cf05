// Weighted sums of streams: out[first + j] = sum over k of by[j, k] x[k], or out += that. Without `by`, all weights are
// one.
struct P {
    x: u32, x_row: u32, by: u32, by_row: u32, out: u32, out_row: u32, width: u32, streams: u32, values: u32, adds: u32
}
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= p.values) { return; }
    let j = id.x / p.width;
    let x = p.x + id.y * p.x_row + id.x % p.width;
    let by = p.by + id.y * p.by_row + j * p.streams;
    let at = p.out + id.y * p.out_row + id.x;
    var sum = 0.0;
    if (p.adds != 0u) { sum = value(at); }
    for (var k = 0u; k < p.streams; k++) {
        var weight = 1.0;
        if (p.by != NONE) { weight = value(by + k); }
        sum += weight * value(x + k * p.width);
    }
    set_value(at, sum);
}
