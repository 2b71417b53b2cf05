// Sums of streams, weighted by a softmax of their scores: x[k] . by / sqrt(mean(x[k]^2) + eps). A workgroup has one
// row. The sum so far is relative to the largest score so far.
struct P { x: u32, by: u32, out: u32, width: u32, streams: u32, eps: f32, zero: u32 }
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
    let out = p.out + wg.x * p.width;
    var peak = 0.0;
    var sum = 0.0;
    for (var k = 0u; k < p.streams; k++) {
        let x = p.x + (wg.x * p.streams + k) * p.width;
        var mine = vec2f(0.0);
        for (var i = l; i < p.width; i += 64u) {
            let v = value(x + i);
            mine += vec2f(v * v, v * vectors[p.by + i]);
        }
        let both = sum_all(l, mine);
        let score = both.y / sqrt(both.x / f32(p.width) + p.eps);
        let most = select(max(peak, score), score, k == 0u);
        let before = select(exp_any(peak - most), 0.0, k == 0u);
        let weight = exp_any(score - most);
        for (var i = l; i < p.width; i += 64u) {
            var held = 0.0;
            if (k > 0u) { held = before * value(out + i); }
            set_value(out + i, held + weight * value(x + i));
        }
        peak = most;
        sum = sum * before + weight;
    }
    for (var i = l; i < p.width; i += 64u) { set_value(out + i, value(out + i) / sum); }
}
