// GEMM of a float matrix with many rows of activations: 64 rows by 64 tokens per workgroup, four by four per thread, 16
// columns per iteration.
struct P {
    rows: u32, cols: u32, n: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, x: u32, x_row: u32, y: u32,
    y_row: u32, bias: u32, width: u32
}
var<immediate> p: P;
// [row][16 columns], with an unused word of 16 bytes after each row.
var<workgroup> w_tile: array<vec4f, 320>;
var<workgroup> x_tile: array<vec4f, 320>;

@compute @workgroup_size(256) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let block = wg.z * 32768u + wg.x;
    let mine = l / 4u;
    let row = min(block * 64u + mine, p.rows - 1u);
    let token = min(wg.y * 64u + mine, p.n - 1u);
    let r0 = l / 16u;
    let t0 = l % 16u;
    var sums: array<vec4f, 4>;
    for (var j = 0u; j < 4u; j++) { sums[j] = vec4f(0.0); }
    // Columns are padded with zero weights to a multiple of 32.
    for (var c = 0u; c < p.cols / 16u; c++) {
        w_tile[5u * mine + (l & 3u)] = four_at(row, 4u * c + (l & 3u));
        x_tile[5u * mine + (l & 3u)] = four_of_x(token, 4u * c + (l & 3u));
        workgroupBarrier();
        for (var k = 0u; k < 4u; k++) {
            for (var j = 0u; j < 4u; j++) {
                let x = x_tile[5u * (t0 + 16u * j) + k];
                for (var i = 0u; i < 4u; i++) { sums[j][i] += dot(w_tile[5u * (r0 + 16u * i) + k], x); }
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
