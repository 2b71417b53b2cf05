// GEMV of a float matrix with T rows of activations. A thread computes every 64th group of four columns of 4 matrix
// rows.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, x: u32, x_row: u32, y: u32,
    y_row: u32, bias: u32, width: u32
}
var<immediate> p: P;
const ROWS = 4u;
var<workgroup> parts: array<vec4f, 64u * T>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let first = (wg.z * 32768u + wg.x) * ROWS;
    if (first >= p.rows) { return; }
    var sums: array<vec4f, T>;
    for (var t = 0u; t < T; t++) { sums[t] = vec4f(0.0); }
    for (var i = l; i < (p.width + 3u) / 4u; i += 64u) {
        var x: array<vec4f, T>;
        for (var t = 0u; t < T; t++) { x[t] = four_of_x(min(wg.y * T + t, p.n - 1u), i); }
        for (var r = 0u; r < ROWS; r++) {
            let w = four_at(min(first + r, p.rows - 1u), i);
            for (var t = 0u; t < T; t++) { sums[t][r] += dot(w, x[t]); }
        }
    }
    for (var t = 0u; t < T; t++) { parts[t * 64u + l] = sums[t]; }
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) {
            for (var t = 0u; t < T; t++) { parts[t * 64u + l] += parts[t * 64u + l + step]; }
        }
        workgroupBarrier();
    }
    let t = l / ROWS;
    let row = first + l % ROWS;
    let token = wg.y * T + t;
    if (t < T && row < p.rows && token < p.n) {
        var v = parts[t * 64u][l % ROWS];
        if (p.bias != NONE) { v += vectors[p.bias + row]; }
        set_value(p.y + token * p.y_row + row, v);
    }
}
