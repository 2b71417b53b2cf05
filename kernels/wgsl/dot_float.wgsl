// Dot products of signed bytes by floats, for devices without an instruction for integers. The sums are exact.
alias Dot = f32;

fn dot4(w: u32, x: u32) -> f32 { return dot(vec4f(unpack4xI8(w)), vec4f(unpack4xI8(x))); }
fn dot16(w: vec4u, x: vec4u) -> Dot { return dot4(w.x, x.x) + dot4(w.y, x.y) + dot4(w.z, x.z) + dot4(w.w, x.w); }
