// The buffers of a step. Offsets are in words of 4 bytes.
@group(0) @binding(0) var<storage, read> weights: array<vec4u>;
@group(0) @binding(1) var<storage, read> vectors: array<f32>;
@group(0) @binding(2) var<storage, read> inputs: array<u32>;
@group(0) @binding(3) var<storage, read_write> scratch: array<vec4u>;

fn word(at: u32) -> u32 { return scratch[at / 4u][at % 4u]; }
fn value(at: u32) -> f32 { return bitcast<f32>(scratch[at / 4u][at % 4u]); }
fn set_word(at: u32, w: u32) { scratch[at / 4u][at % 4u] = w; }
fn set_value(at: u32, v: f32) { scratch[at / 4u][at % 4u] = bitcast<u32>(v); }

fn weight_word(at: u32) -> u32 { return weights[at / 4u][at % 4u]; }
// The 16 bits at an even byte offset behind a word offset.
fn weight_half(at: u32, bytes: u32) -> u32 { return (weight_word(at + bytes / 4u) >> (8u * (bytes & 2u))) & 0xffffu; }
