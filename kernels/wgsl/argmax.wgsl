// The index of the largest logit of a row; of equal logits, the lowest index. NOT_A_NUMBER if a logit is NaN or
// infinite.
struct P { x: u32, width: u32, out: u32 }
var<immediate> p: P;
const NOT_A_NUMBER = 0xfffffffdu;
var<workgroup> best: array<f32, 256>;
var<workgroup> places: array<u32, 256>;

@compute @workgroup_size(256) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    var at = 0u;
    var most = -3.4e38;
    var is_wrong = false;
    for (var i = l; i < p.width; i += 256u) {
        let v = value(p.x + wg.y * p.width + i);
        is_wrong = is_wrong || (bitcast<u32>(v) & 0x7f800000u) == 0x7f800000u;
        if (i == l || v > most) {
            most = v;
            at = i;
        }
    }
    best[l] = select(most, -3.4e38, l >= p.width);
    places[l] = select(select(at, NONE, l >= p.width), NOT_A_NUMBER, is_wrong);
    workgroupBarrier();
    for (var step = 128u; step > 0u; step /= 2u) {
        if (l < step) {
            let other = l + step;
            let is_better = best[other] > best[l] || (best[other] == best[l] && places[other] < places[l]);
            if (places[l] != NOT_A_NUMBER && (places[other] == NOT_A_NUMBER || (is_better && places[other] != NONE))) {
                best[l] = best[other];
                places[l] = places[other];
            }
        }
        workgroupBarrier();
    }
    if (l == 0u) { set_word(p.out + wg.y, places[0]); }
}
