// Rotates pairs of values of heads by the angles that the host has computed: cosine and sine, per token and pair.
struct P { x: u32, x_row: u32, heads: u32, dim: u32, first: u32, pairs: u32, is_adjacent: u32, angles: u32 }
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= p.heads * p.pairs) { return; }
    let pair = id.x % p.pairs;
    let head = p.x + id.y * p.x_row + id.x / p.pairs * p.dim + p.first;
    let a = head + select(pair, 2u * pair, p.is_adjacent != 0u);
    let b = a + select(p.pairs, 1u, p.is_adjacent != 0u);
    let angle = p.angles + 2u * (id.y * p.pairs + pair);
    let c = bitcast<f32>(inputs[angle]);
    let s = bitcast<f32>(inputs[angle + 1u]);
    let x = value(a);
    let y = value(b);
    set_value(a, x * c - y * s);
    set_value(b, x * s + y * c);
}
