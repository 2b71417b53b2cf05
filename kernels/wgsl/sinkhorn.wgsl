// Sinkhorn normalization of square matrices, transposed: softmax of rows plus eps; then columns and rows are divided in
// turn by their sums. A workgroup has one matrix of at most 16 by 16 values.
struct P { x: u32, size: u32, rounds: u32, eps: f32, zero: u32 }
var<immediate> p: P;
var<workgroup> values: array<f32, 256>;
var<workgroup> totals: array<f32, 16>;

// Divides rows, or columns, by their sums plus eps. Threads below `size` have one each.
fn divide(l: u32, stride: u32, step: u32, eps: f32) {
    if (l < p.size) {
        var sum = eps;
        for (var i = 0u; i < p.size; i++) { sum += values[l * stride + i * step]; }
        for (var i = 0u; i < p.size; i++) { values[l * stride + i * step] /= sum; }
    }
    workgroupBarrier();
}

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let n = p.size * p.size;
    let x = p.x + wg.x * n;
    for (var i = l; i < n; i += 64u) { values[i] = value(x + i); }
    workgroupBarrier();
    if (l < p.size) {
        var peak = values[l * p.size];
        for (var i = 1u; i < p.size; i++) { peak = max(peak, values[l * p.size + i]); }
        totals[l] = peak;
    }
    workgroupBarrier();
    for (var i = l; i < n; i += 64u) { values[i] = exp_any(values[i] - totals[i / p.size]); }
    workgroupBarrier();
    divide(l, p.size, 1u, 0.0);
    for (var i = l; i < n; i += 64u) { values[i] += p.eps; }
    workgroupBarrier();
    for (var round = 0u; round < p.rounds; round++) {
        if (round > 0u) { divide(l, p.size, 1u, p.eps); }
        divide(l, 1u, p.size, p.eps);
    }
    for (var i = l; i < n; i += 64u) { set_value(x + i % p.size * p.size + i / p.size, values[i]); }
}
