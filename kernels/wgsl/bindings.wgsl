// The buffers of a step. Offsets are in words of 4 bytes.
@group(0) @binding(0) var<storage, read> weights: array<vec4u>;
@group(0) @binding(1) var<storage, read> vectors: array<f32>;
@group(0) @binding(2) var<storage, read> inputs: array<u32>;
// Arrays instead of vectors: on Metal, a store to a component of a vector may write the components of other threads
// too.
@group(0) @binding(3) var<storage, read_write> scratch: array<array<u32, 4>>;

fn word(at: u32) -> u32 { return scratch[at / 4u][at % 4u]; }
fn value(at: u32) -> f32 { return bitcast<f32>(scratch[at / 4u][at % 4u]); }
// Words 4i to 4i + 3.
fn four_words(i: u32) -> vec4u {
    let four = scratch[i];
    return vec4u(four[0], four[1], four[2], four[3]);
}
fn set_word(at: u32, w: u32) { scratch[at / 4u][at % 4u] = w; }
fn set_value(at: u32, v: f32) { scratch[at / 4u][at % 4u] = bitcast<u32>(v); }

fn weight_word(at: u32) -> u32 { return weights[at / 4u][at % 4u]; }
// The 16 bits at word offset `at` plus an even number of bytes.
fn weight_half(at: u32, bytes: u32) -> u32 { return (weight_word(at + bytes / 4u) >> (8u * (bytes & 2u))) & 0xffffu; }
