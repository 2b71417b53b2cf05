// Matrix product for few tokens and weights without blocks: 4 rows by T tokens a workgroup. A thread takes every 64th
// four columns.
//
// The input is in f32: `width` values at word `quants`, rows `groups` words apart. The result of a token depends on no
// other token. Grid: row blocks of 4 in x and z, tokens / T in y.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32,
    quants: u32, groups: u32, y: u32, y_stride: u32, bias: u32, epilogue: u32, scale: f32, width: u32,
}
var<immediate> p: P;
var<workgroup> parts: array<vec4f, 64u * T>;

fn add_four(sum: f32, w: vec4f, x: vec4f) -> f32 {
    return fma(w.w, x.w, fma(w.z, x.z, fma(w.y, x.y, fma(w.x, x.x, sum))));
}

// Writes a result (epilogue 0), or adds it times a scale (epilogue 1).
fn store(token: u32, row: u32, sum: f32) {
    if (token >= p.n || row >= p.rows) { return; }
    var result = sum;
    if (p.bias != NONE) { result += vectors[p.bias + row]; }
    let to = p.y + token * p.y_stride + row;
    if (p.epilogue == 1u) { result = fma(p.scale, result, value(to)); }
    set_value(to, result);
}

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let first = 4u * (wg.z * 32768u + wg.x);
    let last = p.rows - 1u;
    let fours = select(0u, p.cols / 4u, first < p.rows);
    var sums: array<vec4f, T>;
    for (var i = l; i < fours; i += 64u) {
        let w0 = four_at(first, i);
        let w1 = four_at(min(first + 1u, last), i);
        let w2 = four_at(min(first + 2u, last), i);
        let w3 = four_at(min(first + 3u, last), i);
        for (var t = 0u; t < T; t++) {
            let x = four_values(p.quants + min(wg.y * T + t, p.n - 1u) * p.groups, i, p.width);
            let s = sums[t];
            sums[t] = vec4f(add_four(s.x, w0, x), add_four(s.y, w1, x), add_four(s.z, w2, x), add_four(s.w, w3, x));
        }
    }
    for (var t = 0u; t < T; t++) { parts[64u * t + l] = sums[t]; }
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) {
            for (var t = 0u; t < T; t++) { parts[64u * t + l] += parts[64u * t + l + step]; }
        }
        workgroupBarrier();
    }
    if (l < 4u * T) { store(wg.y * T + l / 4u, first + l % 4u, parts[64u * (l / 4u)][l % 4u]); }
}
