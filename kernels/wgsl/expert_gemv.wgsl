// GEMV of MoE experts: multiplies 8-bit input rows by the matrices of the experts picked for them. A workgroup computes
// 4 rows of one expert's matrix.
struct P {
    rows: u32, cols: u32, plane0: u32, plane1: u32, plane2: u32, plane3: u32, first_row: u32, part_rows: u32,
    picks: u32,
    divisor: u32, quants: u32, groups: u32, y: u32, y_row: u32, bias: u32, scales: u32, factor: u32
}
var<immediate> p: P;
const ROWS = 4u;
var<workgroup> parts: array<vec4f, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let first = (wg.z * 32768u + wg.x) * ROWS;
    if (first >= p.rows) { return; }
    let expert = word(p.picks + wg.y);
    let chunks = p.cols / 32u;
    // Index of the first row within this part of the matrix. For rows before the part the subtraction wraps around to a
    // large number, which fails the comparison with `part_rows`.
    let base = expert * p.rows + first - p.first_row;
    var sums = vec4f(0.0);
    for (var c = l; c < chunks; c += 64u) {
        let at = wg.y / p.divisor * chunks + c;
        let low = four_words(p.quants / 4u + 2u * at);
        let high = four_words(p.quants / 4u + 2u * at + 1u);
        let group = group_at(p.groups + 2u * at);
        for (var r = 0u; r < ROWS; r++) {
            if (base + r < p.part_rows && first + r < p.rows) {
                sums[r] += product(chunk_at(base + r, c), low, high, group);
            }
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
