// GEMM of a quantized matrix with many rows of quantized activations: 64 rows by 64 tokens per workgroup, four by four
// per thread, 32 columns per iteration. The bits of a result do not depend on other rows or tokens.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, quants: u32, groups: u32, y: u32,
    y_row: u32, bias: u32
}
var<immediate> p: P;
// Two words of 16 bytes per row or token, and an unused word after every four rows, so that neighbors are in different
// banks.
var<workgroup> w_quants: array<vec4u, 144>;
var<workgroup> x_quants: array<vec4u, 144>;
var<workgroup> w_scales: array<vec3f, 64>;
var<workgroup> x_groups: array<vec2f, 64>;

fn place(i: u32) -> u32 { return 2u * i + i / 4u; }

@compute @workgroup_size(256) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let chunks = p.cols / 32u;
    let block = wg.z * 32768u + wg.x;
    let mine = l & 63u;
    // Each of the threads 0 to 63 loads a row of weights, and each of the next 64 threads a token.
    let row = min(block * 64u + mine, p.rows - 1u);
    let token = min(wg.y * 64u + mine, p.n - 1u) * chunks;
    let r0 = l / 16u;
    let t0 = l % 16u;
    var sums: array<vec4f, 4>;
    for (var j = 0u; j < 4u; j++) { sums[j] = vec4f(0.0); }
    for (var c = 0u; c < chunks; c++) {
        if (l < 64u) {
            let w = chunk_at(row, c);
            w_quants[place(mine)] = w.low;
            w_quants[place(mine) + 1u] = w.high;
            w_scales[mine] = vec3f(w.scale, w.minimum);
        } else if (l < 128u) {
            x_quants[place(mine)] = four_words(p.quants / 4u + 2u * (token + c));
            x_quants[place(mine) + 1u] = four_words(p.quants / 4u + 2u * (token + c) + 1u);
            x_groups[mine] = group_at(p.groups + 2u * (token + c));
        }
        workgroupBarrier();
        for (var j = 0u; j < 4u; j++) {
            let t = t0 + 16u * j;
            let low = x_quants[place(t)];
            let high = x_quants[place(t) + 1u];
            let group = x_groups[t];
            for (var i = 0u; i < 4u; i++) {
                let r = r0 + 16u * i;
                let s = w_scales[r];
                let w = Chunk(w_quants[place(r)], w_quants[place(r) + 1u], s.xy, s.z);
                sums[j][i] += product(w, low, high, group);
            }
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < 4u; j++) {
        let t = wg.y * 64u + t0 + 16u * j;
        for (var i = 0u; i < 4u; i++) {
            let r = block * 64u + r0 + 16u * i;
            if (t < p.n && r < p.rows) {
                var v = sums[j][i];
                if (p.bias != NONE) { v += vectors[p.bias + r]; }
                set_value(p.y + t * p.y_row + r, v);
            }
        }
    }
}
