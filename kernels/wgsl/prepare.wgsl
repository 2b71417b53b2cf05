// Quantizes rows to signed bytes, with a scale and a scaled sum per group of 32 columns, which eight threads compute.
// If a value is not finite, the scale is NaN.
struct P { width: u32, cols: u32, x: u32, x_row: u32, quants: u32, groups: u32, zero: u32 }
var<immediate> p: P;
var<workgroup> peaks: array<f32, 64>;
var<workgroup> sums: array<i32, 64>;
var<workgroup> wrong: array<u32, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let i = wg.x * 64u + l;
    var v = vec4f(0.0);
    var is_wrong = 0u;
    for (var j = 0u; j < 4u; j++) {
        if (4u * i + j < p.width) {
            v[j] = value(p.x + wg.y * p.x_row + 4u * i + j);
            if ((bitcast<u32>(v[j]) & 0x7f800000u) == 0x7f800000u) {
                is_wrong = 1u;
                v[j] = 0.0;
            }
        }
    }
    let a = abs(v);
    peaks[l] = max(max(a.x, a.y), max(a.z, a.w));
    wrong[l] = is_wrong;
    workgroupBarrier();
    var peak = 0.0;
    for (var j = 0u; j < 8u; j++) {
        peak = max(peak, peaks[(l & 56u) + j]);
        is_wrong |= wrong[(l & 56u) + j];
    }
    let scale = peak * (1.0 / 127.0);
    let r = vec4i(round(v * select(0.0, 127.0 / peak, peak > 1e-36)));
    sums[l] = r.x + r.y + r.z + r.w;
    workgroupBarrier();
    if (4u * i >= p.cols) { return; }
    set_word(p.quants + wg.y * (p.cols / 4u) + i, pack4xI8Clamp(r));
    if ((l & 7u) == 0u) {
        var sum = 0;
        for (var j = 0u; j < 8u; j++) { sum += sums[l + j]; }
        let at = p.groups + 2u * (wg.y * (p.cols / 32u) + i / 8u);
        let bits = select(bitcast<u32>(scale), 0x7fc00000u, is_wrong != 0u);
        set_word(at, bits);
        set_value(at + 1u, scale * f32(sum));
    }
}
