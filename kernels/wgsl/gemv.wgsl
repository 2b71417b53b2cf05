// GEMV of a quantized matrix with T rows of quantized activations. A thread computes every 64th group of 32 columns of
// 4 matrix rows. A row's bits do not depend on other rows.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, quants: u32, groups: u32, y: u32,
    y_row: u32, bias: u32
}
var<immediate> p: P;
const ROWS = 4u;
var<workgroup> parts: array<vec4f, 64u * T>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let first = (wg.z * 32768u + wg.x) * ROWS;
    if (first >= p.rows) { return; }
    let chunks = p.cols / 32u;
    var sums: array<vec4f, T>;
    for (var t = 0u; t < T; t++) { sums[t] = vec4f(0.0); }
    for (var c = l; c < chunks; c += 64u) {
        var low: array<vec4u, T>;
        var high: array<vec4u, T>;
        var group: array<vec2f, T>;
        for (var t = 0u; t < T; t++) {
            let at = min(wg.y * T + t, p.n - 1u) * chunks + c;
            low[t] = four_words(p.quants / 4u + 2u * at);
            high[t] = four_words(p.quants / 4u + 2u * at + 1u);
            group[t] = group_at(p.groups + 2u * at);
        }
        for (var r = 0u; r < ROWS; r++) {
            let w = chunk_at(min(first + r, p.rows - 1u), c);
            for (var t = 0u; t < T; t++) { sums[t][r] += product(w, low[t], high[t], group[t]); }
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
