// Parameters of the kernels, mirrored field by field in src/backend/cuda/module.rs; both sides assert the sizes.
#pragma once

#include "common.cuh"
#include "quant.cuh"

// A key-value cache of one sequence, [layer][kv head][position][stride], stride = head_dim rounded up. A layer keeps
// `capacity` positions, or the newest `ring` ones with position p in row p % ring.
struct DeviceKv {
    u8* k;
    u8* v;
    u16* k_scales;  // Q8_0: one a 32 values, same order
    u16* v_scales;
    u32 capacity;
    u32 ring;
    u32 stride;
    u32 k_type;
    u32 v_type;
    u32 pad;
};
static_assert(sizeof(DeviceKv) == 56, "mirrored in module.rs");

// A layer's place in a cache, independent of the capacity: the number of layers of either kind before it, and its own kind.
struct KvPlace {
    u32 whole;
    u32 rings;
    u32 is_ring;
    u32 pad;
};
static_assert(sizeof(KvPlace) == 16, "mirrored in module.rs");

// Number of rows of one head of a layer.
DEVICE u32 kept(const DeviceKv& kv, const KvPlace& layer) { return layer.is_ring ? kv.ring : kv.capacity; }
// The row of a head's first position.
DEVICE u64 first_row(const DeviceKv& kv, const KvPlace& layer, u32 kv_heads, u32 kv_head) {
    return ((u64)layer.whole * kv.capacity + (u64)layer.rings * kv.ring) * kv_heads + (u64)kv_head * kept(kv, layer);
}

// Tokens of one sequence that share a tile of attention.
struct DeviceTile {
    u32 first;
    u32 count;
    u32 slot;
    u32 pad;
};

// Inputs of a step, arrays in device memory that are replaced before each step.
struct StepArgs {
    const u32* ids;        // [n]
    const u32* positions;  // [n]
    const u32* slots;      // [n]
    const u32* outputs;    // [n_outputs]
    const DeviceTile* tiles;  // [n_tiles]
    const DeviceKv* kvs;     // [n_slots]
    u32 n;
    u32 n_outputs;
    u32 n_tiles;
    u32 pad;
};
static_assert(sizeof(StepArgs) == 64, "mirrored in module.rs");

constexpr u32 kFollowing = 0xffffffffu;

struct EmbedArgs {
    DeviceMatrix table;
    const u32* rows;       // [n], row of each token
    const u32* following;  // the row that kFollowing stands for
    float* x;         // [n, width]
    u32 width;
    u32 accumulate;  // add to x rather than replace it
    float scale;
    u32 pad;
};
static_assert(sizeof(EmbedArgs) == 88, "mirrored in module.rs");

// Copies some rows of two activations to the front of two others.
struct KeepRowsArgs {
    const float* from[2];
    float* to[2];
    const u32* rows;
    u32 widths[2];
};
static_assert(sizeof(KeepRowsArgs) == 48, "mirrored in module.rs");

struct NormArgs {
    DeviceNorm norm;
    float* x;            // added to where there is a delta
    const float* delta;  // or null
    float* out;          // or null: only add
    u32 group;
    float scale;  // of delta
};
static_assert(sizeof(NormArgs) == 56, "mirrored in module.rs");

struct Segment {
    DeviceMatrix w;
    float* out;
    const float* bias;  // or null
};
static_assert(sizeof(Segment) == 64, "mirrored in module.rs");

enum Epilogue : u32 {
    kStore = 0,  // out = y
    kAdd = 1,    // out += scale * y
    kGlu = 2,    // out of segment 0 = activation(y of segment 0) * y of segment 1
    kCap = 3,    // out = softcap * tanh(scale * y / softcap), or scale * y
};

// Matrices that share an input: row y of the output is the matrix times input row y.
struct ProjectArgs {
    Segment segments[4];
    u32 n_segments;
    u32 cols;  // of the input, without padding
    u32 epilogue;
    u32 activation;
    float scale;
    float softcap;
    u32 n;  // input rows
    // Matrix times vector, one row of the grid for each input row.
    u32 forms;  // of the input: 1 f32, 2 signed bytes
    const float* x;
    u32 x_stride;
    u32 x_divisor;       // input row of y is y / x_divisor
    const u32* experts;  // where not null, the matrices are those of expert experts[y] in a stack
    DeviceNorm norm;     // of the input
    // Matrix times matrix.
    const u16* halves;        // [n, padded cols]
    const float* row_scales;  // [n]
    // Unless null, the matrices are those of expert z = blockIdx.z, for the output rows order[starts[z]..starts[z + 1]],
    // whose input rows are these divided by x_divisor.
    const u32* order;
    const u32* starts;
};
static_assert(sizeof(ProjectArgs) == 368, "mirrored in module.rs");

// Converts the input of a matrix product to binary16, each row divided by its own power of two.
struct HalvesArgs {
    const float* x;
    u16* halves;        // [rows, padded]
    float* row_scales;
    DeviceNorm norm;
    u32 cols;
    u32 padded;
    u32 x_stride;
    u32 pad;
};
static_assert(sizeof(HalvesArgs) == 64, "mirrored in module.rs");

// Queries and keys between their projection and attention: norm, rotation, and keys and values into the cache.
struct HeadsArgs {
    StepArgs step;
    float* q;
    float* k;
    const float* v;
    DeviceNorm q_norm;
    DeviceNorm k_norm;
    const double* inv_freq;  // or null: no rotation
    u32 n_pairs;
    u32 adjacent;  // pairs are 2i and 2i+1 rather than i and i + n_pairs
    float magnitude;
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 store;  // write k and v to the cache
    KvPlace layer;
};
static_assert(sizeof(HeadsArgs) == 192, "mirrored in module.rs");

struct AttendArgs {
    StepArgs step;
    const float* q;
    float* out;
    float* partials;  // [tile, kv head, split, rows, 2 + head_dim]
    u32* counters;    // [tile, kv head], zero between launches
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 window;  // 0: all
    u32 splits;  // 0: a warp a tile; else a block works on each of `splits` shares of a tile's positions
    float scale;
    float softcap;
    u32 first_tile;  // of this launch
    KvPlace layer;
};
static_assert(sizeof(AttendArgs) == 144, "mirrored in module.rs");

struct GluArgs {
    float* gate;
    const float* up;  // or null
    u64 n;
    u32 activation;
    u32 pad;
};
static_assert(sizeof(GluArgs) == 32, "mirrored in module.rs");

struct ScaleArgs {
    float* x;
    u64 n;
    float factor;
    u32 pad;
};
static_assert(sizeof(ScaleArgs) == 24, "mirrored in module.rs");

struct RouteArgs {
    const float* scores;  // [n, n_experts]
    u32* experts;         // [n, n_used]
    float* weights;       // [n, n_used]
    u32 n_experts;
    u32 n_used;
    u32 softmax_first;
    u32 renormalise;
};
static_assert(sizeof(RouteArgs) == 40, "mirrored in module.rs");

// Sorts picks by expert and keeps the order within an expert.
struct GroupArgs {
    const u32* experts;  // [picks]
    u32* order;          // [picks], numbers of picks
    u32* starts;         // [n_experts + 1], where those of an expert begin
    u32 picks;
    u32 pad;
};
static_assert(sizeof(GroupArgs) == 32, "mirrored in module.rs");

struct CombineArgs {
    const float* parts;    // [n, n_used, width]
    const float* weights;  // [n, n_used]
    float* out;            // [n, width]
    u32 width;
    u32 n_used;
};
static_assert(sizeof(CombineArgs) == 32, "mirrored in module.rs");

struct ArgmaxArgs {
    const float* values;  // [rows, width]
    float* best;          // [rows, blocks]
    u32* where;           // [rows, blocks]
    u32* counters;        // [rows], zero between launches
    u32* const* answers;  // address of the host's copy of the step: [rows]
    u32* tokens;          // [rows], for the step behind
    u32 width;
    u32 pad;
};
static_assert(sizeof(ArgmaxArgs) == 56, "mirrored in module.rs");
