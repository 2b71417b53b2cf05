// Quantizes rows of activations to signed bytes. Each 32 columns get a scale and the sum of their values; both are NaN
// if a value is NaN or infinite. Eight threads share a group, four columns each.
//
// quants: [n][cols / 4] words; groups: [n][cols / 32][2] f32. Grid: cols / 256 rounded up, n.
struct P { cols: u32, x: u32, x_stride: u32, quants: u32, groups: u32, width: u32 }
var<immediate> p: P;
var<workgroup> peaks: array<u32, 64>;
var<workgroup> sums: array<i32, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let fours = p.cols / 4u;
    let i = wg.x * 64u + l;
    let at = wg.y * fours + i;
    let v = four_values(p.x + wg.y * p.x_stride, i, p.width);
    // Magnitudes have the order of their bits; NaN and infinity come last.
    let bits = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
    peaks[l] = max(max(bits.x, bits.y), max(bits.z, bits.w));
    workgroupBarrier();
    var peak = 0u;
    for (var j = 0u; j < 8u; j++) { peak = max(peak, peaks[(l & 56u) + j]); }
    let is_finite = peak < 0x7f800000u;
    // Below 2^-100, the inverse of the scale might be infinite: the columns count as 0.
    let is_large = is_finite && peak >= 0x0d800000u;
    let scale = select(0.0, bitcast<f32>(peak) * (1.0 / 127.0), is_large);
    var r = vec4i(0);
    if (is_large) { r = vec4i(round(v * (1.0 / scale))); }
    sums[l] = r.x + r.y + r.z + r.w;
    workgroupBarrier();
    if (i >= fours) { return; }
    let bytes = bitcast<vec4u>(r) & vec4u(255u);
    set_word(p.quants + at, bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u));
    if ((l & 7u) == 0u) {
        var sum = 0;
        for (var j = 0u; j < 8u; j++) { sum += sums[l + j]; }
        let to = p.groups + at / 4u;
        set_word(to, select(0x7fc00000u, bitcast<u32>(scale), is_finite));
        set_word(to + 1u, select(0x7fc00000u, bitcast<u32>(scale * f32(sum)), is_finite));
    }
}
