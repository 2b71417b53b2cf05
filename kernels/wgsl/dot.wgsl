// Dot products of signed bytes by integers.
alias Dot = i32;

fn dot16(w: vec4u, x: vec4u) -> Dot {
    return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}
