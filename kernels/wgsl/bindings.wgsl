// The one bind group of all kernels, and access to it by words of 32 bits.

// Planes of weight matrices (`src/gpu/planes.rs`).
@group(0) @binding(0) var<storage, read> weights: array<vec4u>;
// All vectors of the model: norm weights, biases, scales.
@group(0) @binding(1) var<storage, read> vectors: array<f32>;
// Token ids, positions and other inputs of a step.
@group(0) @binding(2) var<storage, read> inputs: array<u32>;
// Activations in f32, quantized rows, results. Not vectors: on Metal, a store to a component writes the whole vector,
// also the components that belong to other threads.
@group(0) @binding(3) var<storage, read_write> scratch: array<array<u32, 4>>;
// The KV cache. Kernels write whole vectors.
@group(0) @binding(4) var<storage, read_write> cache: array<vec4u>;

// The offset of a vector that is absent.
const NONE = 0xffffffffu;

fn word(i: u32) -> u32 { return scratch[i >> 2u][i & 3u]; }
fn value(i: u32) -> f32 { return bitcast<f32>(word(i)); }
fn set_word(i: u32, w: u32) { scratch[i >> 2u][i & 3u] = w; }
fn set_value(i: u32, v: f32) { set_word(i, bitcast<u32>(v)); }
// Words 4i.. of scratch.
fn four_words(i: u32) -> vec4u {
    let four = scratch[i];
    return vec4u(four[0], four[1], four[2], four[3]);
}

// Values 4i.. of the row of `width` values that starts at word `start`; 0 after its end.
fn four_values(start: u32, i: u32, width: u32) -> vec4f {
    let at = start + 4u * i;
    if ((start & 3u) == 0u && 4u * i + 4u <= width) { return bitcast<vec4f>(four_words(at >> 2u)); }
    var four = vec4f(0.0);
    if (4u * i < width) { four.x = value(at); }
    if (4u * i + 1u < width) { four.y = value(at + 1u); }
    if (4u * i + 2u < width) { four.z = value(at + 2u); }
    if (4u * i + 3u < width) { four.w = value(at + 3u); }
    return four;
}

fn weight_word(i: u32) -> u32 { return weights[i >> 2u][i & 3u]; }
// The 16 bits at an even byte offset.
fn weight_half(byte: u32) -> u32 { return (weight_word(byte >> 2u) >> (8u * (byte & 2u))) & 0xffffu; }
