// What the host and the kernels share: the parameters of kernels, what they point to, and constants. The build writes
// this file from src/cuda/args/.
#pragma once

#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;

template <class T> using ConstPtr = const T*;
template <class T> using Ptr = T*;

// Threads per warp.
constexpr u32 kWarp = 32;

constexpr u32 kChosenBefore = 4294967295;  // Token id that stands for the token that the previous step sampled.

constexpr u32 kMediaRow = 4294967294;  // The id of a media row.

constexpr u32 kNotANumber = 4294967293;  // The result if a logit is NaN or infinite.

constexpr u32 kAttendRows = 16;  // Query rows per warp of attention, all of one KV head and one tile.

// Bytes of keys and values in the ring of a block of attention for few tokens.
constexpr u32 kKvRingBytes = (64 << 10);

constexpr u32 kAttendWarps = 4;  // Warps per block of attention for few tokens.

constexpr u32 kPromptRows = 128;  // Rows per block of attention for prompts; half as many for heads wider than 128.

constexpr u32 kPromptTokens = 128;  // Tokens per prompt tile, whose rows several blocks share.

constexpr u32 kSelectKeys = 256;  // Keys whose scores a block of `choose_keys` holds at once, and threads per block.

constexpr u32 kSelectDim = 256;  // Maximum width of a key of `choose_keys`.

constexpr u32 kSampleThreads = 256;  // Threads per block of `sample.cu`.

constexpr u32 kBins = 512;  // Number of bins of logits, by their distance from the largest.

constexpr u32 kListed = 2048;  // Maximum number of tokens that a block sorts.

constexpr u32 kPickParts = 1024;  // Sums of parts of rows that a block of `gemv_picks.cu` holds at once.

constexpr u32 kNoExpert = 4294967295;  // Expert number of padding rows, larger than any expert's.

// Columns that a warp prepares at once; prepared input rows are padded to a multiple of it.
constexpr u32 kInputStep = 256;

constexpr u32 kMaxSegments = 4;  // Maximum number of matrices per launch.

constexpr u32 kGemvThreads = 384;  // Threads per block of `gemv.cu`.

// Threads per block of `gemv_ring.cu`, columns of a piece of a row, and bytes of a block's ring.
constexpr u32 kRingThreads = 256;

constexpr u32 kRingColumns = 2048;

constexpr u32 kRingBytes = (80 << 10);

constexpr u32 kGemvRows = 8;  // Maximum number of input rows per weight load of `gemv.cu`, for non-block matrices.

constexpr u32 kSmallBatchRows = 64;  // Maximum number of input rows per block of `small_batch.cu`.

constexpr u32 kSmallBatchChunk = 128;  // Columns per stage of `small_batch.cu`.

constexpr u32 kGroupStages = 3;  // Stages of input in shared memory of `wgmma.cu`, of `SMALL_BATCH_CHUNK` columns each.

constexpr u32 kByteChunk = 64;  // Columns per stage of `gemm_int8.cu`.

constexpr u32 kByteStages = 3;  // Stages of input in shared memory of `gemm_int8.cu`.

constexpr u32 kHeadTokens = 8;  // Tokens per block of `project_heads` and `adapt`, which dequantize the weights once.

constexpr u32 kScanColumns = 16;  // Columns of a head's matrix per block of `recurrent.cu`.

constexpr u32 kChunkSize = 32;  // Tokens per chunk of `recurrent_chunks.cu`, and columns per block.

constexpr u32 kChunkThreads = 256;  // Threads per block of `recurrent_chunks.cu`.

constexpr u32 kNgram = 8;  // Maximum number of ids in a hash.

constexpr u32 kNgramHeads = 16;  // Number of heads per launch.

// Element types of matrices and caches, by GGML's numbers.
enum Type : u32 {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kBF16 = 30,
};

enum NormKind : u32 {
    kNoNorm = 0,
    kRms = 1,  // x / sqrt(mean of squares + eps)
    kLayer = 2,  // (x - mean) / sqrt(variance + eps)
};

enum Activation : u32 {
    kSilu = 0,
    kGelu = 1,  // The tanh approximation.
    kGeluErf = 2,
    kRelu = 3,
    kRelu2 = 4,  // relu(x)^2
    kClampedSwiglu = 5,  // The activation of gpt-oss.
    kIdentity = 6,
    kSigmoid = 7,
    kSoftplus = 8,
    kSwigluOfClamped = 9,  // silu(min(gate, limit)) * min(max(up, -limit), limit)
    kSwigluThenClamped = 10,  // min(silu(gate), limit) * min(max(up, -limit), limit)
    kTanh = 11,
    kQuickGelu = 12,  // x * sigmoid(1.702 x)
    kSignedRoot = 13,  // sqrt(max(|x|, 1e-6)) with the sign of x
    // limit * tanh(gate / limit) * sigmoid(gate) * up_limit * tanh(up / up_limit); if up_limit is 0, the last factor
    // is up
    kTanhSwiglu = 14,
};

// An operation on the values of an activation.
enum Modification : u32 {
    kScale = 0,  // x *= factor
    kLimit = 1,  // x = min(max(x, slope), factor)
    kByColumn = 2,  // x *= by[column]
    kByPosition = 3,  // x *= 1 + factor * ln(floor((position + offset) / length) + 1)
    kBySigmoid = 4,  // x *= sigmoid(by[row, column / length])
    kByGate = 5,  // x *= by[row, column / length]
    kXielu = 6,  // x = factor * x^2 + slope * x for x > 0, else fall * (e^min(x, eps) - 1 - x) + slope * x
    kAddMedia = 7,  // x += by[row, column] for rows of media, with `length` columns
    kSoftcap = 8,  // x = eps * tanh(factor * x / eps), or factor * x if eps is 0
};

// Conversion of router scores to weights.
enum RouterScore : u32 {
    kSoftmax = 0,
    kSoftmaxOfChosen = 1,
    kSigmoidOfScore = 2,
    kRootOfSoftplus = 3,  // sqrt(ln(1 + e^x))
    kSparseMixer = 4,  // Softmax over an expert's own score and the smaller ones within 2 % of it.
};

// The operation on the result y of a product.
enum Epilogue : u32 {
    kStore = 0,  // out = y
    kAdd = 1,  // out += scale * y
    kGlu = 2,  // out of segment 0 = activation(y of segment 0) * y of segment 1
    kCap = 3,  // out = softcap * tanh(scale * y / softcap), or scale * y if softcap is 0
};

// Forms of an input: orders of the columns in binary16, each for the operands of some kernels, or bytes.
enum ColumnOrder : u32 {
    kAsTheyAre = 0,
    kForOperands = 1,  // For operands in registers (`small_batch.cu`, `wgmma.cu`).
    // For `gemm_int8.cu`: `padded` signed bytes of a row, then a scale and a sum in f32 for each 32 of them.
    kBytes = 2,
};

// The positions that are visible to a token.
enum Mask : u32 {
    kNewest = 0,  // The newest `window` positions up to the token's own (0: all), and later positions of its span.
    kOwnChunk = 1,  // Positions from the last multiple of `window` up to the token's own.
    kAround = 2,  // Positions of the sequence at most `window` away from the token's.
    kSpans = 3,  // Positions of the token's span, or all of the sequence if the span is empty.
    kSource = 4,  // Positions of the token's span, or all up to its own if the span is empty.
    kAfterSpan = 5,  // Positions after the end of the token's span, up to its own.
};

// The groups in which keys are selected.
enum GroupKind : u32 {
    kPools = 0,  // Ranks groups by their last key; always adds all keys of the unfinished group.
    kBlocks = 1,  // Ranks groups by their best key.
};

// Sampling method for the token after a row of logits.
enum RuleKind : u32 {
    kLikeliest = 0,  // Greedy: the largest logit.
    kInOrder = 1,  // A draw among all tokens in the order of their ids.
    kByRank = 2,  // A draw among the tokens that `top_k` and `top_p` keep, most likely first.
};

// A matrix in up to four planes, row by row and block by block; read by `quant.cuh`.
struct DeviceMatrix {
    ConstPtr<u8> planes[4];
    u32 dtype;  // `Type`.
    u32 rows;
    u32 cols;  // A multiple of 32; padding columns are zero.
    float factor;  // The power of two that brings block scales into the normal range of binary16.
};

// The normalization of a vector of `n` values.
struct DeviceNorm {
    ConstPtr<float> weight;  // `[n]`, or null for ones.
    ConstPtr<float> bias;  // `[n]`, or null for zeros.
    float eps;
    u32 kind;  // `NormKind`.
};

// The KV cache of one sequence. Keys and values are `[layer, kv head, position, stride]`, the stride being the width
// of a head rounded up to 32. A layer keeps `capacity` positions, or the newest `ring` ones with position p in row p %
// ring.
struct DeviceKv {
    Ptr<u8> k;
    Ptr<u8> v;
    Ptr<u16> k_scales;  // Scales of Q8_0 and Q4_0: one binary16 per 32 keys, in their order.
    Ptr<u16> v_scales;
    ConstPtr<float> from;  // Recurrent states before the step; null: all are zero.
    Ptr<float> to;  // Recurrent states after the step.
    u32 capacity;  // Number of positions; 0 for padding rows, which write neither keys, values nor states.
    u32 ring;  // Number of positions that a layer with a window keeps.
    u32 k_type;  // `Type`: F32, F16, Q8_0 or Q4_0. Q4_0 rows are rotated, see `hadamard.cu`.
    u32 v_type;
};

// Values per position in all preceding layers.
struct ValuesBefore {
    u32 whole;  // Values of layers that keep all positions.
    u32 rings;  // Values of layers that keep a ring buffer of the newest positions.
};

// The location of a layer in a KV cache, counted in values per position, so that a captured launch serves caches of
// every capacity.
struct KvPlace {
    ValuesBefore k;
    ValuesBefore v;
    u32 k_stride;
    u32 v_stride;
    u32 is_ring;  // Boolean.
    u32 is_latent;  // Boolean (MLA): each value is the start of its key; `v` repeats the location of the keys.
    u32 pool;  // Number of positions per shared key; the last of them stores the key.
    u32 pad;
};

// Consecutive tokens of one sequence: of an attention tile, or all tokens of the sequence in the step.
struct DeviceTile {
    u32 first;  // Index of the first token in the step.
    u32 count;  // Number of tokens.
    u32 slot;  // Index of the sequence in `StepArgs::kvs`.
    u32 last;  // Index of the sequence's last token in the step.
};

// Inputs of a step, in arrays that are replaced before each step.
struct StepArgs {
    ConstPtr<u32> ids;  // `[n]`, tokens.
    ConstPtr<u32> positions;  // `[n]`
    ConstPtr<u32> slots;  // `[n]`, indices into `kvs`.
    ConstPtr<u32> outputs;  // `[n_outputs]`, indices of the tokens that need logits.
    ConstPtr<DeviceTile> tiles;  // `[n_tiles]`
    ConstPtr<DeviceKv> kvs;  // One per sequence of the step.
    ConstPtr<float> media;  // `[n, media_width]`, media rows, or null: no token is a media row.
    // `[n, 3]`, M-RoPE positions (time, row, column) of each token minus its position, or null: zeros.
    ConstPtr<u32> rope_offsets;
    // `[n, 2]`, the first position of each token's span and the position after its last, or null: no spans.
    ConstPtr<u32> spans;
    u32 n;  // Number of tokens.
    u32 n_outputs;
    u32 n_tiles;
    u32 media_width;
};

// x = scale * row of a table, or x += scale * row. For `MEDIA_ROW`, x = the start of the media row, or table row 0.
struct EmbedArgs {
    DeviceMatrix table;
    ConstPtr<u32> rows;  // `[n]`, the row of each token, or null for row 0.
    ConstPtr<u32> following;  // `[n]`, the rows that replace `CHOSEN_BEFORE`.
    ConstPtr<float> media;  // `[n, media_width]`, or null.
    Ptr<float> x;  // `[n, width]`
    u32 width;
    u32 accumulate;  // Boolean: adds to x instead of replacing it.
    float scale;
    u32 media_width;
};

// A head of an n-gram embedding.
struct NgramHead {
    u64 first;  // First row of the head in the table.
    u64 rows;  // Number of rows of the head.
    u32 n;  // Number of ids in a hash.
    u32 pad;
};

// out = adjacent rows of a table, by hashes of a token's id and the preceding ids.
struct NgramArgs {
    StepArgs step;
    DeviceMatrix table;
    ConstPtr<u32> following;  // `[n]`, the ids that replace `CHOSEN_BEFORE`.
    Ptr<float> out;  // `[n, stride]`, starting at the first head.
    u64 recurrent;  // Offset of the state, `[kept]`: ids of the last tokens plus one, 0 if there are none.
    u64 multipliers[kNgram];
    NgramHead heads[kNgramHeads];
    u32 width;  // Width of a table row.
    u32 stride;
    u32 kept;
    u32 end;  // The id at which hashing stops.
    u32 keeps;  // Boolean: saves the ids for the next step.
    u32 pad;
};

// Copies rows of two activations: to[i][r] = from[i][rows[r]].
struct KeepRowsArgs {
    ConstPtr<float> from[2];  // `[rows of the step, widths[i]]` each.
    Ptr<float> to[2];  // `[kept rows, widths[i]]` each.
    ConstPtr<u32> rows;  // `[kept rows]`
    u32 widths[2];
};

// x += scale * delta, then out = norm(x), in groups of `group` values.
struct NormArgs {
    DeviceNorm norm;
    Ptr<float> x;  // `[groups, group]`, changed only if there is a delta.
    ConstPtr<float> delta;  // `[groups, group]`, or null: x is unchanged.
    Ptr<float> out;  // `[groups, group]`, or null: only the addition.
    u32 group;
    u32 own;  // Number of consecutive groups with their own weights; the norm has `[own, group]` weights.
    float scale;  // Factor on delta.
    u32 of_delta;  // Boolean: only x += scale * norm(delta).
};

// gate = activation(gate) * up
struct GluArgs {
    Ptr<float> gate;  // `[n]`
    ConstPtr<float> up;  // `[n]`, or null: gate = activation(gate).
    u64 n;
    u32 activation;  // `Activation`.
    float limit;  // Limit of the activation.
    float up_limit;  // Limit of `up` in the activation `TanhSwiglu`.
    u32 pad;
};

// Modifies rows of `width` values in place.
struct ModifyArgs {
    Ptr<float> x;  // `[rows, width]`
    ConstPtr<float> by;  // `[width]`, `[rows, width / length]`, or `[rows, length]`.
    ConstPtr<u32> ids;  // `[rows]`
    ConstPtr<u32> positions;  // `[rows]`
    u32 width;
    u32 kind;  // `Modification`.
    float factor;
    u32 length;
    u32 offset;
    float fall;
    float slope;
    float eps;
};

// out[row, head] = x[row, head][..part], or x[row, head][by], then tail[row].
struct JoinArgs {
    ConstPtr<float> x;  // `[rows, heads, x_stride]`
    ConstPtr<float> tail;  // `[rows, tail_width]`
    Ptr<float> out;  // `[rows, heads, part + tail_width]`
    u32 heads;
    u32 part;
    u32 x_stride;
    u32 tail_width;
    ConstPtr<float> by;  // `[part]`, the index in `x` of each value, or null: in order.
};

// Sums of the residual streams of a row, with factors per row.
struct MixArgs {
    ConstPtr<float> x;  // `[n, from, width]`
    ConstPtr<float> by;  // `[n, to, from]`, or null for ones.
    Ptr<float> out;  // `[n, out_width]`
    u32 width;  // Width of a stream.
    u32 from;  // Number of input streams, and of sums.
    u32 to;
    u32 first;  // Column of `out` where the first sum begins.
    u32 out_width;
    u32 adds;  // Boolean: adds to `out` instead of replacing it.
    float factor;  // Factor on the sums.
    u32 pad;
};

// Scales parts of rows to the RMS of a row of another activation, or thresholds rows above their mean.
struct RescaleArgs {
    Ptr<float> x;  // `[n, parts, width]`
    ConstPtr<float> like;  // `[n, width]`, or null.
    u32 width;
    u32 parts;
    float deviations;  // Threshold in standard deviations above the mean, without `like`.
    u32 pad;
};

// The sum of streams, weighted by a softmax of each stream's product with a vector, divided by the stream's RMS.
struct MixByScoreArgs {
    ConstPtr<float> x;  // `[n, streams, width]`
    ConstPtr<float> by;  // `[width]`
    Ptr<float> out;  // `[n, width]`
    u32 width;
    u32 streams;
    float eps;
    u32 pad;
};

// Sinkhorn normalization of a matrix of logits (rows and columns then sum to 1), followed by transposition.
struct SinkhornArgs {
    Ptr<float> x;  // `[n, size, size]`
    u32 size;
    u32 rounds;
    float eps;
    u32 pad;
};

// Dot products of heads of two activations.
struct DotArgs {
    ConstPtr<float> x;  // `[n, heads, dim]`
    ConstPtr<float> y;  // `[n, heads, dim]`
    Ptr<float> out;  // `[n, heads]`
    u32 heads;
    u32 dim;
};

// Selects experts by scores.
struct RouteArgs {
    ConstPtr<float> scores;  // `[n, n_experts]`
    Ptr<u32> experts;  // `[n, n_used]`
    Ptr<float> weights;  // `[n, n_used]`
    ConstPtr<float> bias;  // `[n_experts]`, or null: bias for the selection only, not for the weights.
    ConstPtr<u32> slots;  // `[n]`, `StepArgs::slots`.
    ConstPtr<DeviceKv> kvs;  // `StepArgs::kvs`, or null if no row is padding.
    ConstPtr<float> by_id;  // `[ids, n_used]`, or null: the experts by token id.
    ConstPtr<u32> ids;  // `[n]`, `StepArgs::ids`.
    ConstPtr<u32> following;  // `[n]`, the ids that replace `CHOSEN_BEFORE`.
    u32 n_experts;
    u32 n_used;
    u32 score;  // `RouterScore`.
    u32 renormalize;  // Boolean: weights are divided by their sum.
    u32 groups;  // Number of equally large groups of experts.
    u32 groups_used;  // Number of selected groups: those with the largest sums of their two best scores.
    float scale;  // Factor on the weights.
    u32 sharing;  // Number of experts that share matrices; `experts` gets the index of the matrices.
};

// Sorts picks by expert, in stable order. A pick is one selected expert of a token.
struct GroupArgs {
    ConstPtr<u32> experts;  // `[picks]`
    Ptr<u32> order;  // `[picks]`, indices of picks.
    Ptr<u32> starts;  // `[n_experts + 1]`, the start of each expert's picks in `order`.
    u32 picks;
    u32 pad;
};

// out = the input of each selected expert, permuted to the column order of the expert's matrix.
struct OrderArgs {
    ConstPtr<float> x;  // `[picks / divisor, x_stride]`
    ConstPtr<float> order;  // `[n_experts, width]`, the index in a row of `x` of each input, or null: unchanged order.
    ConstPtr<u32> experts;  // `[picks]`
    Ptr<float> out;  // `[picks, width]`
    u64 n;  // picks * width
    u32 width;
    u32 x_stride;
    u32 divisor;  // Picks per row of `x`.
    u32 pad;
};

// gate = activation(gate) * up for selected experts, after factors and biases on both products.
struct ExpertGluArgs {
    Ptr<float> gate;  // `[picks, stride]`
    ConstPtr<float> up;  // `[picks, stride]`, or null: gate = activation(gate).
    ConstPtr<u32> experts;  // `[picks]`
    ConstPtr<float> weights;  // `[picks]`, or null: factors on the input of the products.
    ConstPtr<float> factors[2];  // `[n_experts]` each, or null: factors on gate and up.
    ConstPtr<float> biases[2];  // `[n_experts, ffn]` each, or null.
    u64 n;  // picks * ffn
    u32 ffn;
    u32 stride;
    u32 activation;  // `Activation`.
    float limit;  // `GluArgs::limit`.
    float up_limit;  // `GluArgs::up_limit`.
    u32 pad;
};

// out = the weighted sum of the results of a token's experts.
struct CombineArgs {
    ConstPtr<float> parts;  // `[n, n_used, width]`
    ConstPtr<float> weights;  // `[n, n_used]`, or null for ones.
    ConstPtr<u32> experts;  // `[n, n_used]`
    ConstPtr<float> factors;  // `[n_experts]`, or null: factors on the parts.
    ConstPtr<float> biases;  // `[n_experts, width]`, or null.
    Ptr<float> out;  // `[n, width]`
    u32 width;
    u32 n_used;
    u32 accumulate;  // Boolean: adds `scale` times the sum to out instead of replacing it.
    float scale;
};

// out = the weighted sum of the products of a token's experts with their inputs.
struct SumPicksArgs {
    DeviceMatrix w;  // `[n_experts * w.rows, w.cols]`, the stack of all experts; `rows` counts those of one.
    ConstPtr<float> x;  // `[n, n_used, x_stride]`
    ConstPtr<float> weights;  // `[n, n_used]`, or null for ones.
    ConstPtr<u32> experts;  // `[n, n_used]`
    ConstPtr<float> factors;  // `[n_experts]`, or null: factors on the products.
    ConstPtr<float> biases;  // `[n_experts, w.rows]`, or null.
    Ptr<float> out;  // `[n, w.rows]`
    u32 cols;  // Number of input columns, without padding; a multiple of four.
    u32 x_stride;
    u32 n_used;
    u32 accumulate;  // Boolean: adds `scale` times the sum to out instead of replacing it.
    float scale;
    u32 pad;
};

// One of the matrices of a product.
struct Segment {
    DeviceMatrix w;
    Ptr<float> out;  // `[n, w.rows]`
    ConstPtr<float> bias;  // `[w.rows]`, or null.
};

// Products of matrices with the same input: row y of the output is the matrix times row y of the input.
struct ProjectArgs {
    Segment segments[4];
    u32 n_segments;
    u32 cols;  // Number of input columns, without padding.
    u32 epilogue;
    u32 activation;  // `Activation` of the epilogue `Glu`.
    float scale;  // Factor of the epilogues `Add` and `Cap`.
    float softcap;  // Bound of the epilogue `Cap`; `GluArgs::limit` of the epilogue `Glu`.
    u32 n;  // Number of output rows.
    // Fields up to `norm` are for one or two rows (`gemv.cu`). Bits: blocks prepare the input as f32 (1), as i8 (2).
    u32 forms;
    ConstPtr<float> x;  // `[rows, x_stride]`, rows that satisfy `PrepareArgs::simple`.
    u32 x_stride;
    u32 x_divisor;  // Row y of the output uses input row y / x_divisor.
    ConstPtr<u32> experts;  // `[n]`, or null. For stacked matrices: row y uses matrix experts[y].
    // For one row of experts (`gemv.cu`): selects `experts` and writes them to memory. Null `scores`: they are there.
    RouteArgs route;
    DeviceNorm norm;  // Norm of the input.
    ConstPtr<float> prepared;  // For up to 8 rows of a non-block matrix: `[n, padded cols]`, the result of `prepare`.
    // For `gemv.cu`: number of row groups (a matrix row, a pair of rows, or a gate row with its up row).
    u32 row_groups;
    u32 warps;  // Number of warps; each handles one of `row_groups` at a time.
    // From here on for tiles (`small_batch.cu`, `gemm.cu`, `gemm_int8.cu`, `wgmma.cu`). `[rows, padded cols]`, in
    // binary16 or bytes (`ColumnOrder`).
    ConstPtr<u16> halves;
    ConstPtr<float> row_scales;  // `[rows]`, divisors of `halves`.
    // `[n]`, or null: output rows sorted by expert. Expert z = blockIdx.z has order[starts[z]..starts[z + 1]]; output
    // row order[i] uses input row order[i] / x_divisor.
    ConstPtr<u32> order;
    ConstPtr<u32> starts;  // `[experts + 1]`
    Ptr<float> parts;  // `[tiles with splits, splits, rows per tile * tokens]`, partial sums.
    Ptr<u32> counters;  // One per tile, zero between launches.
    // Split-K factor of the tiles after the first `whole`; the last block of a tile adds the partial sums in order.
    u32 splits;
    u32 types;  // Bit n: some matrix has type n.
    // Number of unsplit tiles, which come first; tiles are counted along matrix rows first, then along tokens.
    u32 whole;
    u32 tiles;  // Number of tiles along the rows of the matrices.
    u32 ring_blocks[4];  // For `ring_mixed`: number of blocks of each matrix.
};

// Normalizes input rows for products with few rows and non-block matrices.
struct PrepareArgs {
    ConstPtr<float> x;  // `[rows, cols]`
    Ptr<float> rows;  // `[rows, padded]`, zero from `cols` on.
    DeviceNorm norm;
    u32 cols;
    u32 padded;  // Padded number of columns, a multiple of `INPUT_STEP`.
    u32 simple;  // Boolean: `cols` is a multiple of four, and the norm has neither a mean nor a bias.
    u32 pad;
};

// halves = norm(x) / row_scales in binary16, each row divided by its own power of two; or norm(x) in bytes.
struct HalvesArgs {
    ConstPtr<float> x;  // `[rows, x_stride]`, `cols` values of each.
    Ptr<u16> halves;  // `[rows, padded]`, zero after the last column.
    Ptr<float> row_scales;  // `[rows]`
    DeviceNorm norm;
    u32 cols;
    u32 padded;
    u32 x_stride;
    u32 order;  // `ColumnOrder`.
};

// out[row, head] = concat(w[head] * x[row, head][..cols], x[row, head][cols..]).
struct ProjectHeadsArgs {
    DeviceMatrix w;  // `[heads * rows, cols]`
    ConstPtr<float> x;  // `[n, heads, from]`
    Ptr<float> out;  // `[n, heads, to]`
    u32 n;
    u32 heads;
    u32 rows;  // Number of rows of one head's matrix.
    u32 cols;
    u32 from;
    u32 to;
};

// A product with matrix A or B of a LoRA adapter.
struct AdaptSegment {
    DeviceMatrix w;
    ConstPtr<float> x;  // `[n, cols]`
    Ptr<float> out;  // `[n, rows of w]`
    u32 cols;  // Number of input columns, without padding.
    float factor;  // Scale of the result, if it is added.
};

// Products with matrix A or B of a LoRA adapter, for rows of sequences that use it.
struct AdaptArgs {
    AdaptSegment segments[4];
    ConstPtr<u32> slots;  // `[n]`, `StepArgs::slots`.
    // The adapter's scale for each sequence of the step; 0: the sequence does not use the adapter.
    ConstPtr<float> factors;
    u32 n;
    u32 adds;  // Boolean: adds the results, times both scales, instead of storing them.
};

// Queries and keys between projection and attention: norm, RoPE, then keys and values into the KV cache.
struct HeadsArgs {
    StepArgs step;
    Ptr<float> q;  // `[n, heads, head_dim]`
    Ptr<float> k;  // `[n, kv_heads, head_dim]`
    ConstPtr<float> v;  // `[n, kv_heads, value_dim]`, or null.
    DeviceNorm q_norm;
    DeviceNorm k_norm;
    ConstPtr<double> inv_freq;  // `[n_pairs]`, radians per position, or null: no RoPE.
    ConstPtr<u8> axes;  // `[n_pairs]`, the M-RoPE axis of each pair, or null: axis 0 for all.
    u32 n_pairs;
    u32 adjacent;  // Boolean: rotates values 2i and 2i + 1 together, else i and i + n_pairs; i counts from `first`.
    float magnitude;  // Factor on sine and cosine.
    u32 first;  // First value of a head that is rotated.
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 value_dim;
    u32 store;  // Boolean: writes k and v to the KV cache.
    u32 own_norms;  // Bits: norm weights differ by head, for q (1), for k (2).
    u32 position_offset;  // Subtracted from each rotary position, down to 0.
    u32 pad;
    KvPlace layer;
};

// out = softmax(scale * q k^T + bias) v, head by head, over the KV cache.
struct AttendArgs {
    StepArgs step;
    ConstPtr<float> q;  // `[n, heads, head_dim]`
    Ptr<float> out;  // `[n, heads, value_dim]`
    // `[blocks of rows, splits, rows per block, 2 + value_dim]`: softmax maximum, softmax sum, weighted values.
    Ptr<float> partials;
    Ptr<u32> counters;  // `[blocks of rows]`, zero between launches.
    ConstPtr<float> slopes;  // `[heads]`, or null: ALiBi slopes; slope times distance is subtracted from a score.
    ConstPtr<float> sinks;  // `[heads]`, or null: attention sinks, scores without a value.
    // `[heads, 2 * distance_reach + 1]`, or null: biases of scores by key position minus query position.
    ConstPtr<float> distances;
    // `[n, top]`, or null: visible positions of tokens that have more than `top`; ascending, padded with -1.
    ConstPtr<float> among;
    // `[n, heads]`, or null: log2 of the softmax denominators of the attention that this launch continues in `out`.
    ConstPtr<float> sums_before;
    Ptr<float> sums;  // `[n, heads]`, or null: log2 of the final softmax denominators.
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 value_dim;
    u32 mask;
    u32 window;  // Parameter of the mask, in positions.
    u32 splits;  // Number of blocks among which the positions of a tile are split.
    float scale;
    float softcap;  // Scores become softcap * tanh(score / softcap); 0: unchanged.
    u32 first_tile;  // First tile of this launch.
    u32 distance_reach;  // Largest distance in `distances`.
    u32 top;
    KvPlace layer;
};

// out = the keys with the largest sums over heads of weight * max(q . k, 0); of equal keys, the first.
struct SelectArgs {
    StepArgs step;
    ConstPtr<float> q;  // `[n, heads, dim]`
    ConstPtr<float> weights;  // `[n, heads]`
    Ptr<float> out;  // `[n, top]`, in ascending order, padded with -1.
    Ptr<u64> found;  // `[n, splits, groups]`, the groups selected in each split of the keys.
    Ptr<u32> counters;  // `[n]`, zero between launches.
    u32 heads;
    u32 dim;
    u32 top;
    u32 groups;  // Number of groups to select.
    u32 size;  // Keys per group.
    u32 kind;  // `GroupKind`.
    u32 local;  // Number of newest groups that are always selected.
    u32 splits;  // Number of blocks among which the keys of a token are split.
    u32 room;  // Number of groups that a block keeps, a power of two.
    u32 pad;
    KvPlace layer;
};

// `heads` and attention in one launch, for steps with one token per sequence.
struct AttendSingleArgs {
    AttendArgs attend;
    HeadsArgs heads;
};

// Rotates heads for 4-bit caches: the Hadamard transform of every 32 values over sqrt(32), its own inverse.
struct HadamardArgs {
    Ptr<float> x;  // `[n, heads, dim]`
    ConstPtr<u32> slots;  // `[n]`, `StepArgs::slots`.
    ConstPtr<DeviceKv> kvs;  // `StepArgs::kvs`.
    u32 heads;
    u32 dim;  // Width of a head; values after the last whole 32 are unchanged.
    u32 by_values;  // Boolean: applies if values (instead of keys) are in 4 bits.
    u32 pad;
};

// A causal convolution of each channel. In all recurrent ops, a tile holds all of a sequence's tokens in the step, and
// `recurrent` is the offset, in values, of the op's state in the sequence's recurrent states.
struct ConvArgs {
    StepArgs step;
    Ptr<float> x;  // `[n, width]`, replaced by the result.
    ConstPtr<float> kernel;  // `[taps, width]`, the oldest input first.
    ConstPtr<float> bias;  // `[width]`, or null.
    u64 recurrent;  // The state is `[taps - 1, width]`.
    u32 width;
    u32 taps;
    u32 silu;  // Boolean: applies SiLU to the result.
    u32 pad;
};

// Sums of groups of positions, weighted per channel.
struct PoolArgs {
    StepArgs step;
    ConstPtr<float> gate;  // `[n, width]`
    ConstPtr<float> x;  // `[n, width]`
    ConstPtr<float> bias;  // `[size, width]`
    Ptr<float> out;  // `[n, out_width]`
    u64 recurrent;  // The state is `[members - 1, 2, width]`: gates and values of the last tokens.
    u32 width;
    u32 out_width;
    u32 size;
    u32 pad;
};

// The gated delta rule.
struct DeltaArgs {
    StepArgs step;
    ConstPtr<float> q;  // `[n, key_heads, key_dim]`
    ConstPtr<float> k;  // `[n, key_heads, key_dim]`
    ConstPtr<float> v;  // `[n, heads, value_dim]`
    ConstPtr<float> dt;  // `[n, heads]`, or `[n, heads, key_dim]` if `by_row`.
    ConstPtr<float> beta;  // `[n, heads]`
    ConstPtr<float> rate;  // `[heads]`
    Ptr<float> out;  // `[n, heads, value_dim]`
    u64 recurrent;  // The state is `[heads, key_dim, value_dim]`.
    u32 heads;
    u32 key_heads;
    u32 key_dim;
    u32 value_dim;
    u32 by_row;  // Boolean: rows of the state have separate decays.
    u32 tiled;  // Boolean: head h reads key head h % key_heads, else h * key_heads / heads.
    u32 stages;  // Number of input chunks that fit in shared memory, in `recurrent_chunks.cu`.
    u32 pad;
};

// The selective scan.
struct ScanArgs {
    StepArgs step;
    ConstPtr<float> x;  // `[n, heads, head_dim]`
    ConstPtr<float> dt;  // `[n, heads]`
    ConstPtr<float> b;  // `[n, groups, state]`
    ConstPtr<float> c;  // `[n, groups, state]`
    ConstPtr<float> rate;  // `[heads]`, or `[state, heads]` if `by_state`.
    ConstPtr<float> skip;  // `[heads]`
    Ptr<float> out;  // `[n, heads, head_dim]`
    u64 recurrent;  // The state is `[state, heads, head_dim]`.
    u32 heads;
    u32 head_dim;
    u32 groups;
    u32 state;
    u32 by_state;  // Boolean: rows of the state have separate decay rates.
    u32 stages;  // As in `DeltaArgs`.
};

// The recurrence of RWKV.
struct WkvArgs {
    StepArgs step;
    ConstPtr<float> r;  // `[n, heads, dim]`
    ConstPtr<float> k;  // `[n, key_heads, dim]`
    ConstPtr<float> v;  // `[n, key_heads, dim]`
    ConstPtr<float> dt;  // `[n, heads, dim]`
    ConstPtr<float> moved[2];  // `a` and `b`, `[n, heads, dim]` each, or null.
    Ptr<float> out;  // `[n, heads, dim]`
    u64 recurrent;  // The state is `[heads, dim, dim]`.
    u32 heads;
    u32 key_heads;
    u32 dim;
    u32 by_rate;  // Boolean: rows decay by exp(rate * dt), else by exp(-exp(dt)).
    float rate;
    u32 before;  // Boolean: results use the state before the token.
    u32 fades;  // Boolean: keys are multiplied by 1 minus the decay.
    u32 pad;
};

// Value to add to the logit of a token.
struct Bias {
    u32 id;
    float value;
};

// A sampling rule; results are bit-identical to src/sampling.
struct DeviceRule {
    double inverse;  // 1 / temperature
    ConstPtr<Bias> biases;  // `[n_biases]`; biases of the same token in order.
    Ptr<u32> recent;  // `[window]`, the newest tokens, in any order.
    ConstPtr<u32> allowed;  // One bit per token, or null: all are allowed.
    u32 kind;  // `RuleKind`.
    u32 n_biases;
    u32 window;
    u32 none;  // Result if no token can be chosen.
    float repeat;
    float presence;
    float frequency;
    u32 top_k;  // 0: off.
    float top_p;  // 0: off.
    float min_p;  // 0: off.
};

// The mutable part of a rule.
struct RuleState {
    u64 random;  // State of SplitMix64.
    u32 n_recent;  // Number of tokens in `recent`.
    u32 next;  // Index in `recent` of the next token.
    u32 slot;  // Slot of the step in flight.
    u32 pad;
};

// Intermediate results of the sampling kernels.
struct Draw {
    u64 sums[kBins];  // Sums of weights, by bin or by block.
    u32 counts[kBins];  // Number of tokens, by bin.
    u32 list[kListed];  // The tokens of the bins up to `limit`, in any order.
    u64 total;  // Sum of all weights.
    float peak;  // Largest logit.
    u32 limit;  // Last bin that may have tokens to keep.
    u32 filled;  // Number of tokens in the bins up to `limit`.
    u32 listed;  // Number of tokens in `list`.
};

// Samples a token for each row of logits.
struct ChooseArgs {
    Ptr<float> logits;  // `[rows, width]`
    ConstPtr<DeviceRule> rules;  // `[rows]`
    Ptr<RuleState> states;  // `[rows]`
    Ptr<Draw> draws;  // `[rows]`
    Ptr<float> best;  // `[rows, blocks]`, the largest logit of each block.
    Ptr<u32> at;  // `[rows, blocks]`, the token of the largest logit.
    Ptr<u32> counters;  // `[rows]`, zero between launches.
    Ptr<u32> sampled;  // `[slots, stride]`, in host memory.
    Ptr<u32> tokens;  // `[rows]`, the sampled tokens, for the next step.
    // `[rows]`, `StepArgs::ids`, updated for the next step, which may follow if all tokens of this step have logits.
    Ptr<u32> ids;
    Ptr<u32> positions;  // `[rows]`, `StepArgs::positions`, updated likewise.
    double unit;  // Integer weight of the largest logit.
    u32 width;
    u32 slots;
    u32 stride;
    u32 pad;
};
