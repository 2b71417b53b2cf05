// Rotates each whole block of 32 values of heads, for 4-bit KV caches: queries before and after attention, and results
// after it. A thread rotates a block.
struct P { x: u32, x_row: u32, heads: u32, dim: u32 }
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    let blocks = p.dim / 32u;
    if (id.x >= p.heads * blocks) { return; }
    let at = p.x + id.y * p.x_row + id.x / blocks * p.dim + id.x % blocks * 32u;
    var values: array<f32, 32>;
    for (var i = 0u; i < 32u; i++) { values[i] = value(at + i); }
    hadamard(&values);
    for (var i = 0u; i < 32u; i++) { set_value(at + i, values[i]); }
}
