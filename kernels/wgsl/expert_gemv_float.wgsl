// GEMV of each pick's expert with float activations, 4 rows of the expert's matrix per workgroup.
struct P {
    rows: u32, cols: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, first_row: u32, part_rows: u32,
    picks: u32,
    divisor: u32, x: u32, x_row: u32, y: u32, y_row: u32, bias: u32, scales: u32, factor: u32, width: u32
}
var<immediate> p: P;
const ROWS = 4u;
var<workgroup> parts: array<vec4f, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let first = (wg.z * 32768u + wg.x) * ROWS;
    if (first >= p.rows) { return; }
    let expert = word(p.picks + wg.y);
    // Index of the first row within this part of the matrix. Rows of other parts wrap around to large numbers.
    let base = expert * p.rows + first - p.first_row;
    var sums = vec4f(0.0);
    for (var i = l; i < (p.width + 3u) / 4u; i += 64u) {
        let x = four_of_x(wg.y / p.divisor, i);
        for (var r = 0u; r < ROWS; r++) {
            if (base + r < p.part_rows && first + r < p.rows) { sums[r] += dot(four_at(base + r, i), x); }
        }
    }
    parts[l] = sums;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step /= 2u) {
        if (l < step) { parts[l] += parts[l + step]; }
        workgroupBarrier();
    }
    if (l < ROWS && first + l < p.rows && base + l < p.part_rows) {
        var v = parts[0][l];
        if (p.scales != NONE) { v *= vectors[p.scales + expert]; }
        if (p.factor != NONE) { v *= value(p.factor + wg.y); }
        if (p.bias != NONE) { v += vectors[p.bias + expert * p.rows + first + l]; }
        set_value(p.y + wg.y * p.y_row + first + l, v);
    }
}
