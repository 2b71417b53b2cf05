// Definitions for every kernel.
const NONE = 0xffffffffu;

// Converts a binary16 number exactly; unpack2x16float may flush subnormal numbers to 0.
fn half(h: u32) -> f32 {
    let small = f32(h & 0x3ffu) * 5.9604644775390625e-8;
    let normal = bitcast<f32>(((h & 0x7fffu) << 13u) + (112u << 23u));
    // Infinity and NaN.
    let large = bitcast<f32>(((h & 0x7fffu) << 13u) + (224u << 23u));
    var v = select(normal, small, (h & 0x7c00u) == 0u);
    v = select(v, large, (h & 0x7c00u) == 0x7c00u);
    return select(v, -v, (h & 0x8000u) != 0u);
}
