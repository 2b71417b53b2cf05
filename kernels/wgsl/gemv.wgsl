// Matrix product for few tokens: 4 rows by T tokens a workgroup. A thread takes every 64th chunk of 32 columns.
//
// The result of a token depends on no other token. Grid: row blocks of 4 in x and z, tokens / T in y.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32,
    quants: u32, groups: u32, y: u32, y_stride: u32, bias: u32, epilogue: u32, scale: f32,
}
var<immediate> p: P;
var<workgroup> parts: array<vec4f, 64u * T>;

fn add_chunk(sum: f32, w: Chunk, a: vec4u, b: vec4u, g: vec2f) -> f32 {
    let rest = fma(-w.minimum, g.y, sum);
    let low = dot16(w.low, a);
    let high = dot16(w.high, b);
    if (HALVES) { return fma(w.scale.x * g.x, f32(low), fma(w.scale.y * g.x, f32(high), rest)); }
    return fma(w.scale.x * g.x, f32(low + high), rest);
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
    let chunks = select(0u, p.cols / 32u, first < p.rows);
    var sums: array<vec4f, T>;
    for (var c = l; c < chunks; c += 64u) {
        let w0 = chunk_at(first, c);
        let w1 = chunk_at(min(first + 1u, last), c);
        let w2 = chunk_at(min(first + 2u, last), c);
        let w3 = chunk_at(min(first + 3u, last), c);
        for (var t = 0u; t < T; t++) {
            let x = min(wg.y * T + t, p.n - 1u) * (p.cols / 32u) + c;
            let a = four_words(p.quants / 4u + 2u * x);
            let b = four_words(p.quants / 4u + 2u * x + 1u);
            let g = vec2f(value(p.groups + 2u * x), value(p.groups + 2u * x + 1u));
            let s = sums[t];
            sums[t] = vec4f(add_chunk(s.x, w0, a, b, g), add_chunk(s.y, w1, a, b, g),
                            add_chunk(s.z, w2, a, b, g), add_chunk(s.w, w3, a, b, g));
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
