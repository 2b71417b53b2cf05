// Finds the `count` largest logits of a part of a row; of equal logits, those with the lowest ids. A workgroup has one
// part. Selects byte by byte, by a key of six bytes: four of the logit, then two of the inverted index.
struct P { x: u32, width: u32, span: u32, count: u32, out: u32, out_row: u32, allowed: u32 }
var<immediate> p: P;
const THREADS = 256u;
var<workgroup> counts: array<atomic<u32>, 256>;
// The bytes of the last selected key so far, and how many keys are missing.
var<workgroup> high: u32;
var<workgroup> low: u32;
var<workgroup> missing: u32;
var<workgroup> filled: atomic<u32>;

// Bits in the order of floats.
fn key_of(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn is_allowed(id: u32) -> bool {
    if (p.allowed == NONE) { return true; }
    return ((inputs[p.allowed + id / 32u] >> (id % 32u)) & 1u) != 0u;
}

@compute @workgroup_size(256) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let first = wg.x * p.span;
    let n = min(p.span, p.width - first);
    let x = p.x + first;
    if (l == 0u) {
        high = 0u;
        low = 0u;
        missing = p.count;
        atomicStore(&filled, 0u);
    }
    for (var byte = 0u; byte < 6u; byte++) {
        atomicStore(&counts[l], 0u);
        workgroupBarrier();
        for (var i = l; i < n; i += THREADS) {
            if (!is_allowed(first + i)) { continue; }
            let key = key_of(value(x + i));
            let index = 0xffffu - i;
            if (byte < 4u) {
                let place = 24u - 8u * byte;
                // Shifts by 32 bits are not defined.
                let is_like = byte == 0u || (key >> (place + 8u) % 32u) == (high >> (place + 8u) % 32u);
                if (is_like) { atomicAdd(&counts[(key >> place) & 255u], 1u); }
            } else if (key == high) {
                let place = 40u - 8u * byte;
                let is_like = byte == 4u || (index >> 8u) == (low >> 8u);
                if (is_like) { atomicAdd(&counts[(index >> place) & 255u], 1u); }
            }
        }
        workgroupBarrier();
        if (l == 0u) {
            var at = 255u;
            var before = 0u;
            for (; at > 0u; at--) {
                let more = before + atomicLoad(&counts[at]);
                if (more >= missing) { break; }
                before = more;
            }
            missing -= min(before, missing);
            if (byte < 4u) { high |= at << (24u - 8u * byte); } else { low |= at << (40u - 8u * byte); }
        }
        workgroupBarrier();
    }
    let out = p.out + wg.x * p.out_row;
    for (var i = l; i < n; i += THREADS) {
        let v = value(x + i);
        let key = key_of(v);
        if (is_allowed(first + i) && (key > high || (key == high && 0xffffu - i >= low))) {
            let at = atomicAdd(&filled, 1u);
            if (at < p.count) {
                set_word(out + 1u + 2u * at, first + i);
                set_value(out + 2u + 2u * at, v);
            }
        }
    }
    workgroupBarrier();
    if (l == 0u) { set_word(out, min(atomicLoad(&filled), p.count)); }
}
