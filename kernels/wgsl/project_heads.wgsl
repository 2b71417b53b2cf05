// Products of matrices with rows of floats, one matrix per head of a row:
//     out[head] = factor * (w[head] * x[head][..width]), then x[head][width..]; or out[head] += ...
// A workgroup has 8 rows of a matrix and 4 tokens; 8 threads share a row.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, first_row: u32, part_rows: u32,
    x: u32, x_head: u32, out: u32, out_head: u32, heads: u32, width: u32, factor: f32, adds: u32
}
var<immediate> p: P;
const T = 4u;
var<workgroup> parts: array<f32, 256>;

// Columns 4i to 4i + 3 of a head, 0 from `width` on.
fn four_of(head: u32, i: u32) -> vec4f {
    let at = head + 4u * i;
    if (4u * i + 3u < p.width && (at & 3u) == 0u) { return bitcast<vec4f>(four_words(at / 4u)); }
    var v = vec4f(0.0);
    for (var j = 0u; j < 4u; j++) {
        if (4u * i + j < p.width) { v[j] = value(at + j); }
    }
    return v;
}

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let head = wg.y;
    let row = wg.x * 8u + l / 8u;
    // Rows of other parts wrap around to large numbers.
    let index = head * p.rows + row - p.first_row;
    let is_here = row < p.rows && index < p.part_rows;
    var sums = vec4f(0.0);
    if (is_here) {
        for (var c = l % 8u; c < p.cols / 32u; c += 8u) {
            let w = columns_at(index, c);
            for (var t = 0u; t < T; t++) {
                let token = min(wg.z * T + t, p.n - 1u);
                let x = p.x + (token * p.heads + head) * p.x_head;
                for (var i = 0u; i < 8u; i++) { sums[t] += dot(w[i], four_of(x, 8u * c + i)); }
            }
        }
    }
    for (var t = 0u; t < T; t++) { parts[64u * t + l] = sums[t]; }
    workgroupBarrier();
    // Threads 4 to 7 of a row have nothing left to do: the first four have a token each.
    let t = l % 8u;
    let token = wg.z * T + t;
    if (is_here && t < T && token < p.n) {
        var sum = 0.0;
        for (var j = 0u; j < 8u; j++) { sum += parts[64u * t + l / 8u * 8u + j]; }
        let at = p.out + (token * p.heads + head) * p.out_head + row;
        sum *= p.factor;
        if (p.adds != 0u) { sum += value(at); }
        set_value(at, sum);
    }
    if (wg.x != 0u || p.first_row != 0u || p.adds != 0u) { return; }
    for (var i = 0u; i < T && wg.z * T + i < p.n; i++) {
        let at = (wg.z * T + i) * p.heads + head;
        for (var j = p.width + l; j < p.x_head; j += 64u) {
            set_value(p.out + at * p.out_head + p.rows + j - p.width, value(p.x + at * p.x_head + j));
        }
    }
}
