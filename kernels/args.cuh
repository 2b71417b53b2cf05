// Parameters of the kernels, mirrored field by field in src/cuda/module.rs; both sides assert the sizes.
#pragma once

#include "common.cuh"
#include "quant.cuh"

// What one sequence remembers. Keys and values lie [layer][kv head][position][stride], stride = width rounded up to 32.
// A layer keeps `capacity` positions, or the newest `ring` ones with position p in row p % ring.
struct DeviceKv {
    u8* k;
    u8* v;
    u16* k_scales;  // Q8_0: one a 32 values, same order
    u16* v_scales;
    const float* from;  // recurrent memories ahead of the step; null: all are 0
    float* to;          // and after it
    u32 capacity;
    u32 ring;
    u32 k_type;
    u32 v_type;
};
static_assert(sizeof(DeviceKv) == 64, "mirrored in module.rs");

// Values a position of the layers before one, of those that keep all positions and of those that keep a ring.
struct ValuesBefore {
    u32 whole;
    u32 rings;
};

// A layer's place in a cache, independent of the capacity.
struct KvPlace {
    ValuesBefore k;
    ValuesBefore v;
    u32 k_stride;
    u32 v_stride;
    u32 is_ring;
    u32 is_latent;  // values are the first numbers of their keys
};
static_assert(sizeof(KvPlace) == 32, "mirrored in module.rs");

// Number of rows of one head of a layer.
DEVICE u32 kept(const DeviceKv& kv, const KvPlace& layer) { return layer.is_ring ? kv.ring : kv.capacity; }
// Place of a head's first position, in values.
DEVICE u64 first_value(const DeviceKv& kv, const KvPlace& layer, const ValuesBefore& before, u32 stride, u32 kv_head) {
    return (u64)before.whole * kv.capacity + (u64)before.rings * kv.ring + (u64)kv_head * kept(kv, layer) * stride;
}

// Tokens of one sequence that share a tile of attention, or all of its tokens.
struct DeviceTile {
    u32 first;
    u32 count;
    u32 slot;
    u32 last;  // the sequence's last token in the step
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
    const u32* rows;       // [n], row of each token, or null for the first
    const u32* following;  // the rows that kFollowing stands for
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
    u32 own;      // consecutive groups with weights of their own
    float scale;  // of delta
    u32 of_delta;  // x += scale * norm(delta), and no more
};
static_assert(sizeof(NormArgs) == 64, "mirrored in module.rs");

struct Segment {
    DeviceMatrix w;
    float* out;
    const float* bias;  // or null
};
static_assert(sizeof(Segment) == 64, "mirrored in module.rs");

// Columns that a warp prepares at once; a prepared row of input is padded to them.
constexpr u32 kInputStep = 8 * kWarp;

enum Epilogue : u32 {
    kStore = 0,  // out = y
    kAdd = 1,    // out += scale * y
    kGlu = 2,    // out of segment 0 = gated(y of segment 0, y of segment 1)
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
    // Matrix times one row or two, one column of the grid for each input row or both, which are simple (see
    // PrepareArgs).
    u32 forms;  // of the input: 1 f32, 2 signed bytes
    const float* x;
    u32 x_stride;
    u32 x_divisor;       // input row of y is y / x_divisor
    const u32* experts;  // where not null, the matrices are those of expert experts[y] in a stack
    DeviceNorm norm;     // of the input
    // Matrix without blocks times few rows: these as `prepare` left them. A column of the grid has 8 of them.
    const float* prepared;
    u32 turns;  // rows or pairs of rows of a matrix, or pairs of gate and up
    u32 warps;  // that share them
    // Matrix times matrix.
    const u16* halves;        // [n, padded cols]
    const float* row_scales;  // [n]
    // Unless null, the matrices are those of expert z = blockIdx.z, for the output rows order[starts[z]..starts[z +
    // 1]], whose input rows are these divided by x_divisor.
    const u32* order;
    const u32* starts;
    // Without an order, of the tiles, those of all rows for some tokens one after another, `whole` have a block each,
    // and each of the rest `splits`, which have a share of the columns each; the last of them joins their sums in
    // order.
    float* parts;   // [rest, split, 128 rows times tokens]
    u32* counters;  // [rest], zero between launches
    u32 splits;
    u32 types;  // of the matrices, bit n for type n
    u32 whole;
    u32 tiles;  // of rows
};
static_assert(sizeof(ProjectArgs) == 416, "mirrored in module.rs");

// Prepares input rows for matrices without blocks times few of them.
struct PrepareArgs {
    const float* x;
    float* rows;  // each padded to a multiple of 256 columns
    DeviceNorm norm;
    u32 cols;
    u32 padded;
    u32 simple;  // columns come in groups of four, and the norm has neither a mean nor a bias
    u32 pad;
};
static_assert(sizeof(PrepareArgs) == 56, "mirrored in module.rs");

// Orders of columns of an input in binary16: as they are, for `small_batch.cu`, for `wgmma.cu`.
enum Order : u32 { kAsTheyAre = 0, kForFew = 1, kForGroups = 2 };

// Converts the input of a matrix product to binary16, each row divided by its own power of two.
struct HalvesArgs {
    const float* x;
    u16* halves;        // [rows, padded]
    float* row_scales;
    DeviceNorm norm;
    u32 cols;
    u32 padded;
    u32 x_stride;
    u32 order;          // of columns
};
static_assert(sizeof(HalvesArgs) == 64, "mirrored in module.rs");

// Queries and keys between their projection and attention: norm, rotation, and keys and values into the cache.
struct HeadsArgs {
    StepArgs step;
    float* q;
    float* k;
    const float* v;  // or null
    DeviceNorm q_norm;
    DeviceNorm k_norm;
    const double* inv_freq;  // or null: no rotation
    u32 n_pairs;
    u32 adjacent;  // pairs are 2i and 2i+1 rather than i and i + n_pairs
    float magnitude;
    u32 first;  // value of a head that the first pair begins with
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 value_dim;
    u32 store;      // write k and v to the cache
    u32 own_norms;  // each head has norm weights of its own: 1 those of q, 2 those of k
    KvPlace layer;
};
static_assert(sizeof(HeadsArgs) == 216, "mirrored in module.rs");

enum Mask : u32 {
    kBehind = 0,    // the newest `window` positions up to a token's own; 0: all
    kOwnChunk = 1,  // those from the last multiple of `window` on
    kAround = 2,    // those of the step that are at most `window` away
};

struct AttendArgs {
    StepArgs step;
    const float* q;
    float* out;
    float* partials;  // [rows of a block, split, row, 2 + value_dim]
    u32* counters;    // [rows of a block], zero between launches
    const float* slopes;  // [heads] or null: taken from a score times the distance
    const float* sinks;   // [heads] or null: one more score, without a value
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 value_dim;
    u32 mask;
    u32 window;
    u32 splits;  // shares of the positions, each of which has a block
    float scale;
    float softcap;
    u32 first_tile;  // of this launch; all where they are tiles of prompts
    KvPlace layer;
};
static_assert(sizeof(AttendArgs) == 184, "mirrored in module.rs");

// What `heads` and attention do with tokens that are alone of their sequences in a step.
struct AttendAloneArgs {
    AttendArgs attend;
    HeadsArgs heads;
};
static_assert(sizeof(AttendAloneArgs) == 400, "mirrored in module.rs");

struct GluArgs {
    float* gate;
    const float* up;  // or null
    u64 n;
    u32 activation;
    u32 pad;
};
static_assert(sizeof(GluArgs) == 32, "mirrored in module.rs");

enum Modification : u32 {
    kScale = 0,       // x *= factor
    kLimit = 1,       // x = min(max(x, -factor), factor)
    kByColumn = 2,    // x *= by[column]
    kByPosition = 3,  // x *= 1 + factor * ln(floor((position + offset) / length) + 1)
    kBySigmoid = 4,   // x *= sigmoid(by[row, column / length])
};

// Changes rows of `width` values in place.
struct ModifyArgs {
    float* x;
    const float* by;
    const u32* positions;
    u32 width;
    u32 kind;
    float factor;
    u32 length;
    u32 offset;
    u32 pad;
};
static_assert(sizeof(ModifyArgs) == 48, "mirrored in module.rs");

// out[head] = [x[head][..part] | tail[row]], with `heads` heads a row.
struct JoinArgs {
    const float* x;
    const float* tail;
    float* out;
    u32 heads;
    u32 part;
    u32 x_stride;  // between heads
    u32 tail_width;
};
static_assert(sizeof(JoinArgs) == 40, "mirrored in module.rs");

// out[h] = [w[h] * x[h][..cols] | x[h][cols..]], head by head; w is [heads * rows, cols].
struct ProjectHeadsArgs {
    DeviceMatrix w;
    const float* x;
    float* out;
    u32 n;
    u32 heads;
    u32 rows;
    u32 cols;
    u32 from;  // values of a head of x
    u32 to;    // and of out
};
static_assert(sizeof(ProjectHeadsArgs) == 88, "mirrored in module.rs");

enum RouterScore : u32 { kSoftmax = 0, kSoftmaxOfChosen = 1, kSigmoid = 2 };

struct RouteArgs {
    const float* scores;  // [n, n_experts]
    u32* experts;         // [n, n_used]
    float* weights;       // [n, n_used]
    const float* bias;    // [n_experts] or null: added for the choice
    u32 n_experts;
    u32 n_used;
    u32 score;
    u32 renormalise;
    u32 groups;  // experts are chosen from the `groups_used` groups whose two best are the best together
    u32 groups_used;
    float scale;
    u32 pad;
};
static_assert(sizeof(RouteArgs) == 64, "mirrored in module.rs");

// Sorts picks by expert and keeps the order within an expert.
struct GroupArgs {
    const u32* experts;  // [picks]
    u32* order;          // [picks], numbers of picks
    u32* starts;         // [n_experts + 1], where those of an expert begin
    u32 picks;
    u32 pad;
};
static_assert(sizeof(GroupArgs) == 32, "mirrored in module.rs");

// What follows the products of chosen experts with gate and up, [picks, stride] each.
struct ExpertGluArgs {
    float* gate;       // the result
    const float* up;   // or null: activation(gate)
    const u32* experts;    // [picks]
    const float* weights;  // [picks] or null: factors on the input of the products
    const float* factors[2];  // [n_experts] or null: on the products with gate and up
    const float* biases[2];   // [n_experts, ffn] or null
    u64 n;  // picks * ffn
    u32 ffn;
    u32 stride;
    u32 activation;
    u32 pad;
};
static_assert(sizeof(ExpertGluArgs) == 88, "mirrored in module.rs");

struct CombineArgs {
    const float* parts;    // [n, n_used, width]
    const float* weights;  // [n, n_used], or null for ones
    const u32* experts;    // [n, n_used]
    const float* factors;  // [n_experts] or null: on the parts
    const float* biases;   // [n_experts, width] or null
    float* out;            // [n, width]
    u32 width;
    u32 n_used;
    u32 accumulate;  // add `scale` times the sum to out rather than replace it
    float scale;
};
static_assert(sizeof(CombineArgs) == 64, "mirrored in module.rs");

// Recurrences. A tile of the step is all tokens of one sequence; `memory` is the place of the memory, in values.
struct ConvArgs {
    StepArgs step;
    float* x;             // [n, width]
    const float* kernel;  // [taps, width], the oldest input first
    const float* bias;    // or null
    u64 memory;           // [taps - 1, width]
    u32 width;
    u32 taps;
    u32 silu;
    u32 pad;
};
static_assert(sizeof(ConvArgs) == 112, "mirrored in module.rs");

struct DeltaArgs {
    StepArgs step;
    const float* q;     // [n, key_heads, key_dim]
    const float* k;
    const float* v;     // [n, heads, value_dim]
    const float* dt;    // [n, heads], or [n, heads, key_dim]
    const float* beta;  // [n, heads]
    const float* rate;  // [heads]
    float* out;         // [n, heads, value_dim]
    u64 memory;         // [heads, key_dim, value_dim]
    u32 heads;
    u32 key_heads;
    u32 key_dim;
    u32 value_dim;
    u32 by_row;  // decays
    u32 tiled;   // head h reads key head h % key_heads
    u32 stages;  // chunks that `chunks.cu` has room for
    u32 pad;
};
static_assert(sizeof(DeltaArgs) == 160, "mirrored in module.rs");

struct ScanArgs {
    StepArgs step;
    const float* x;     // [n, heads, head_dim]
    const float* dt;    // [n, heads]
    const float* b;     // [n, groups, state]
    const float* c;
    const float* rate;  // [heads], or [state, heads]
    const float* skip;  // [heads]
    float* out;         // [n, heads, head_dim]
    u64 memory;         // [state, heads, head_dim]
    u32 heads;
    u32 head_dim;
    u32 groups;
    u32 state;
    u32 by_state;  // decays
    u32 stages;    // as for the delta rule
};
static_assert(sizeof(ScanArgs) == 152, "mirrored in module.rs");

enum RuleKind : u32 { kLikeliest = 0, kInOrder = 1, kByRank = 2 };

struct Bias {
    u32 id;
    float value;
};

// The way in which the token after a row of logits is chosen: that of src/sampling, to the bit.
struct Rule {
    double inverse;       // of the temperature
    const Bias* biases;   // [n_biases], several of one id in their order
    u32* recent;          // [window], the newest tokens in any order
    const u32* allowed;   // a bit a token, or null: all
    // kInOrder draws among tokens by their ids, kByRank among those that top_k and top_p leave, the likeliest first
    u32 kind;
    u32 n_biases;
    u32 window;
    u32 none;  // chosen where no token can be
    float repeat;
    float presence;
    float frequency;
    u32 top_k;  // 0: off
    float top_p;  // 0: off
    float min_p;  // 0: off
};
static_assert(sizeof(Rule) == 72, "mirrored in module.rs");

// Moves on with each choice.
struct RuleState {
    u64 random;    // of SplitMix64
    u32 n_recent;  // tokens in `recent`
    u32 next;      // place of the next one
    u32 slot;      // of the step among those in flight
    u32 pad;
};
static_assert(sizeof(RuleState) == 24, "mirrored in module.rs");

constexpr u32 kBins = 512;     // of logits, by their distance from the largest
constexpr u32 kListed = 2048;  // tokens that a block sorts

// What the kernels of a choice hand on.
struct Draw {
    u64 sums[kBins];    // of weights, by bin or by block
    u32 counts[kBins];  // of tokens
    u32 list[kListed];  // the tokens of the bins up to `limit`, in any order
    u64 total;          // of all weights
    float peak;         // the largest logit
    u32 limit;          // the last bin that may have tokens which are kept
    u32 filled;         // number of tokens up to there
    u32 listed;
};
static_assert(sizeof(Draw) == 14360, "mirrored in module.rs");

struct ChooseArgs {
    float* logits;     // [rows, width]
    const Rule* rules;  // [rows]
    RuleState* states;  // [rows]
    Draw* draws;       // [rows]
    float* best;       // [rows, blocks]
    u32* where;        // [rows, blocks]
    u32* counters;     // [rows], zero between launches
    u32* answers;      // [slots, stride], the host's copies
    u32* tokens;       // [rows], for the step after
    u32* ids;          // [rows] of the step, where all of its tokens have logits: moved on for the step after
    u32* positions;    // likewise
    double unit;       // of weights
    u32 width;
    u32 slots;
    u32 stride;
    u32 pad;
};
static_assert(sizeof(ChooseArgs) == 112, "mirrored in module.rs");
