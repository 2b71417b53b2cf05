// Copies the logits of some tokens of a row.
struct P { x: u32, ids: u32, n: u32, out: u32 }
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < p.n) { set_word(p.out + id.x, word(p.x + inputs[p.ids + id.x])); }
}
