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

// Threads of a warp.
constexpr u32 kWarp = 32;

constexpr u32 kChosenBefore = 4294967295;  // In place of a token: the one that the step before has chosen.

constexpr u32 kMediaRow = 4294967294;  // The id that stands for a row of media instead of a token.

constexpr u32 kNotANumber = 4294967293;  // The answer instead of a token if a logit is NaN or infinite.

// Rows of a warp of attention: queries of the same KV head, whose tokens are of one tile.
constexpr u32 kAttendRows = 16;

constexpr u32 kAttendWarps = 4;  // Warps of a block of attention for few tokens.

constexpr u32 kPromptRows = 128;  // Rows of a block of attention for prompts; half as many for heads longer than 128.

constexpr u32 kPromptTokens = 128;  // Tokens of a tile of a prompt, whose rows are those of several blocks.

constexpr u32 kSelectKeys = 256;  // Keys whose scores a block of `choose_keys` has at once, and threads of one.

constexpr u32 kSelectDim = 256;  // Numbers of the longest key of `choose_keys`.

constexpr u32 kSampleThreads = 256;  // Threads of a block of `sample.cu`.

constexpr u32 kBins = 512;  // Bins of logits, by their distance from the largest.

constexpr u32 kListed = 2048;  // Tokens that a block sorts, at most.

// The number in place of an expert for rows of padding, which have none; larger than that of any.
constexpr u32 kNoExpert = 4294967295;

// Columns that a warp prepares at once; prepared rows of input are padded to a multiple.
constexpr u32 kInputStep = 256;

constexpr u32 kMaxSegments = 4;  // Matrices that one launch takes.

constexpr u32 kGemvThreads = 384;  // Threads of a block of matrix times vector (`gemv.cu`).

constexpr u32 kGemvRows = 8;  // Rows of input that share each weight that `gemv.cu` reads, of matrices without blocks.

constexpr u32 kSmallBatchRows = 64;  // Rows of input of a block of `small_batch.cu`, at most.

constexpr u32 kSmallBatchTurn = 128;  // Columns of a turn of `small_batch.cu`.

// Tokens of a block of `project_heads` and of `adapt`, for which it expands the weights once.
constexpr u32 kHeadTokens = 8;

constexpr u32 kScanColumns = 16;  // Columns of the matrix of a head that a block of `recurrent.cu` has.

constexpr u32 kChunkSize = 32;  // Tokens of a chunk of `recurrent_chunks.cu`, and columns of a block.

constexpr u32 kChunkThreads = 256;  // Threads of a block of `recurrent_chunks.cu`.

constexpr u32 kNgram = 8;  // Numbers of a hash of ids, at most.

constexpr u32 kNgramHeads = 16;  // Heads that one launch embeds.

// Types of matrices and caches, by GGML's numbers.
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
    kGelu = 1,  // By its tanh approximation.
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
    // limit * tanh(gate / limit) * sigmoid(gate) * up_limit * tanh(up / up_limit), whose last factor is up for an
    // up_limit of 0
    kTanhSwiglu = 14,
};

// A change of the values of an activation.
enum Modification : u32 {
    kScale = 0,  // x *= factor
    kLimit = 1,  // x = min(max(x, slope), factor)
    kByColumn = 2,  // x *= by[column]
    kByPosition = 3,  // x *= 1 + factor * ln(floor((position + offset) / length) + 1)
    kBySigmoid = 4,  // x *= sigmoid(by[row, column / length])
    kByGate = 5,  // x *= by[row, column / length]
    kXielu = 6,  // x = factor * x^2 + slope * x for x > 0, else fall * (e^min(x, eps) - 1 - x) + slope * x
    kAddMedia = 7,  // x += by[row, column] for rows of media, with `length` columns
    kSoftcap = 8,  // x = eps * tanh(factor * x / eps), or factor * x where eps is 0
};

// The operation on the result y of a product.
enum Epilogue : u32 {
    kStore = 0,  // out = y
    kAdd = 1,  // out += scale * y
    kGlu = 2,  // out of segment 0 = activation(y of segment 0) * y of segment 1
    kCap = 3,  // out = softcap * tanh(scale * y / softcap), or scale * y where softcap is 0
};

// Orders of the columns of an input in binary16: that of the operands of the kernel that reads them.
enum ColumnOrder : u32 {
    kAsTheyAre = 0,
    kForSmallBatch = 1,  // For `small_batch.cu`.
    kForGroups = 2,  // For `wgmma.cu`.
};

// The positions that a token sees.
enum Mask : u32 {
    kNewest = 0,  // The newest `window` positions up to its own, 0: all of them; and those after it that its span has.
    kOwnChunk = 1,  // Those from the last multiple of `window` up to its own.
    kAround = 2,  // Those of the sequence at most `window` away on either side.
    kSpans = 3,  // Those of the token's span, or of the sequence where that is empty.
    kSource = 4,  // The positions of the token's span, or those up to its own where the span is empty.
    kBehind = 5,  // The positions behind its span, up to its own.
};

// The groups of keys that are chosen as one.
enum GroupKind : u32 {
    kPools = 0,  // Ranked by the last of their keys; after them all keys of an unfinished one.
    kBlocks = 1,  // Ranked by the best of their keys.
};

// How scores of experts become weights.
enum RouterScore : u32 {
    kSoftmax = 0,
    kSoftmaxOfChosen = 1,
    kSigmoidOfScore = 2,
    kRootOfSoftplus = 3,  // sqrt(ln(1 + e^x))
    kSparseMixer = 4,  // Softmax over those left, in the order of their scores, that lie within a fiftieth.
};

// How the token after a row of logits is chosen.
enum RuleKind : u32 {
    kLikeliest = 0,  // The largest logit.
    kInOrder = 1,  // A draw among tokens in the order of their ids.
    kByRank = 2,  // A draw among the tokens that `top_k` and `top_p` leave, the likeliest first.
};

// A matrix in up to four planes, row after row and block after block; `quant.cuh` reads them.
struct DeviceMatrix {
    ConstPtr<u8> planes[4];
    u32 dtype;  // `Type`.
    u32 rows;
    u32 cols;  // A multiple of 32; columns after the model's own are zero.
    float factor;  // A power of two that scales of blocks are multiplied by to become normal numbers of binary16.
};

// The normalisation of a vector of `n` values.
struct DeviceNorm {
    ConstPtr<float> weight;  // `[n]`, or null for ones.
    ConstPtr<float> bias;  // `[n]`, or null for zeros.
    float eps;
    u32 kind;  // `NormKind`.
};

// The cache of one sequence. Keys and values are `[layer, kv head, position, stride]`, the stride being the width of a
// head rounded up to 32. A layer keeps `capacity` positions, or the newest `ring` ones with position p in row p %
// ring.
struct DeviceKv {
    Ptr<u8> k;
    Ptr<u8> v;
    Ptr<u16> k_scales;  // Scales of Q8_0 and Q4_0: one binary16 for each 32 keys, in their order.
    Ptr<u16> v_scales;
    ConstPtr<float> from;  // Recurrent memories before the step; null: all are zero.
    Ptr<float> to;  // Recurrent memories after the step.
    u32 capacity;  // Positions; 0 for rows of padding, which write neither keys and values nor states.
    u32 ring;  // Positions that a layer with a window keeps.
    u32 k_type;  // `Type`: F32, F16, Q8_0 or Q4_0. Rows of the last are turned, `turn.cu`.
    u32 v_type;
};

// Values a position of all layers before one.
struct ValuesBefore {
    u32 whole;  // Those of layers that keep all positions.
    u32 rings;  // Those of layers that keep a ring of the newest positions.
};

// The place of a layer in a cache, counted in values a position, so that a recorded launch serves caches of every
// capacity.
struct KvPlace {
    ValuesBefore k;
    ValuesBefore v;
    u32 k_stride;
    u32 v_stride;
    u32 is_ring;  // Boolean.
    u32 is_latent;  // Boolean: values are the first numbers of their keys, whose place `v` repeats.
    u32 pool;  // Positions that share a key, which their last one stores.
    u32 pad;
};

// Consecutive tokens of one sequence: those of a tile of attention, or all of the step.
struct DeviceTile {
    u32 first;  // Index of the first token in the step.
    u32 count;  // Number of tokens.
    u32 slot;  // Index of the sequence in `StepArgs::kvs`.
    u32 last;  // Index of the sequence's last token in the step.
};

// Inputs of a step, arrays that are replaced before each step.
struct StepArgs {
    ConstPtr<u32> ids;  // `[n]`, tokens.
    ConstPtr<u32> positions;  // `[n]`
    ConstPtr<u32> slots;  // `[n]`, indices into `kvs`.
    ConstPtr<u32> outputs;  // `[n_outputs]`, indices of the tokens that need logits.
    ConstPtr<DeviceTile> tiles;  // `[n_tiles]`
    ConstPtr<DeviceKv> kvs;  // One for each sequence of the step.
    ConstPtr<float> media;  // `[n, media_width]`, the numbers of tokens that are rows of media, or null: none is.
    // `[n, 3]`, what time, row and column of each token are ahead of its position, or null: nothing.
    ConstPtr<u32> turns;
    // `[n, 2]`, the first position of each token's span and the one behind its last, or null: no token has one.
    ConstPtr<u32> spans;
    u32 n;  // Tokens.
    u32 n_outputs;
    u32 n_tiles;
    u32 media_width;
};

// x = scale * row of a table, or x += that. For `MEDIA_ROW` x = the first numbers of the row of media, or row 0 of the
// table counts.
struct EmbedArgs {
    DeviceMatrix table;
    ConstPtr<u32> rows;  // `[n]`, the row of each token, or null for row 0.
    ConstPtr<u32> following;  // `[n]`, the rows that `CHOSEN_BEFORE` stands for.
    ConstPtr<float> media;  // `[n, media_width]`, or null.
    Ptr<float> x;  // `[n, width]`
    u32 width;
    u32 accumulate;  // Boolean: adds to x instead of replacing it.
    float scale;
    u32 media_width;
};

// A head of an embedding of n-grams.
struct NgramHead {
    u64 first;  // Its first row of the table.
    u64 rows;  // Number of its rows.
    u32 n;  // Number of ids in a hash.
    u32 pad;
};

// out = rows of a table side by side, by hashes of a token's id and of those before it.
struct NgramArgs {
    StepArgs step;
    DeviceMatrix table;
    ConstPtr<u32> following;  // `[n]`, the ids that `CHOSEN_BEFORE` stands for.
    Ptr<float> out;  // `[n, stride]`, from the first head on.
    u64 memory;  // Place of the memory, `[kept]`: one more than the ids of the last tokens, 0 where there are none.
    u64 multipliers[kNgram];
    NgramHead heads[kNgramHeads];
    u32 width;  // Numbers of a row of the table.
    u32 stride;
    u32 kept;
    u32 end;  // The id that ends what is hashed.
    u32 keeps;  // Boolean: keeps the ids for the next step.
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
    Ptr<float> x;  // `[groups, group]`, changed only where there is a delta.
    ConstPtr<float> delta;  // `[groups, group]`, or null: x stays.
    Ptr<float> out;  // `[groups, group]`, or null: only the addition.
    u32 group;
    u32 own;  // Number of consecutive groups with weights of their own; the norm has `[own, group]` of them.
    float scale;  // Factor on delta.
    u32 of_delta;  // Boolean: x += scale * norm(delta), and no more.
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

// Changes rows of `width` values in place.
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
    ConstPtr<float> by;  // `[part]`, the place in `x` of each value, or null: in order.
};

// Sums of streams of a row, each times a factor of the row's.
struct MixArgs {
    ConstPtr<float> x;  // `[n, from, width]`
    ConstPtr<float> by;  // `[n, to, from]`, or null for ones.
    Ptr<float> out;  // `[n, out_width]`
    u32 width;  // Values of a stream.
    u32 from;  // Streams of `x`, and sums.
    u32 to;
    u32 first;  // Value of a row of `out` that its first sum begins with.
    u32 out_width;
    u32 adds;  // Boolean: what `out` holds is a part of the sum.
    float factor;  // Factor on the sums.
    u32 pad;
};

// Scales parts of rows to the size of a row of another activation, or leaves of rows what is far above their mean.
struct RescaleArgs {
    Ptr<float> x;  // `[n, parts, width]`
    ConstPtr<float> like;  // `[n, width]`, or null.
    u32 width;
    u32 parts;
    float deviations;  // Deviations above the mean that a value has to have, without `like`.
    u32 pad;
};

// The sum of streams, weighted by a softmax of the product of each, over its root mean square, with a vector.
struct MixByScoreArgs {
    ConstPtr<float> x;  // `[n, streams, width]`
    ConstPtr<float> by;  // `[width]`
    Ptr<float> out;  // `[n, width]`
    u32 width;
    u32 streams;
    float eps;
    u32 pad;
};

// Makes a matrix of logits one whose rows and columns have the sum 1, and transposes it.
struct SinkhornArgs {
    Ptr<float> x;  // `[n, size, size]`
    u32 size;
    u32 rounds;
    float eps;
    u32 pad;
};

// The dot products of heads of two activations.
struct DotArgs {
    ConstPtr<float> x;  // `[n, heads, dim]`
    ConstPtr<float> y;  // `[n, heads, dim]`
    Ptr<float> out;  // `[n, heads]`
    u32 heads;
    u32 dim;
};

// One of the matrices of a product.
struct Segment {
    DeviceMatrix w;
    Ptr<float> out;  // `[n, w.rows]`
    ConstPtr<float> bias;  // `[w.rows]`, or null.
};

// Products of matrices that share an input: row y of the output is the matrix times row y of the input.
struct ProjectArgs {
    Segment segments[4];
    u32 n_segments;
    u32 cols;  // Columns of the input, without padding.
    u32 epilogue;
    u32 activation;  // `Activation` of the epilogue `Glu`.
    float scale;  // Factor of the epilogues `Add` and `Cap`.
    float softcap;  // Bound of the epilogue `Cap`; `GluArgs::limit` of the epilogue `Glu`.
    u32 n;  // Rows of the output.
    // For one row or two (`gemv.cu`), here to `norm`. Bits: the block prepares the input as f32 (1), as signed bytes
    // (2).
    u32 forms;
    ConstPtr<float> x;  // `[rows, x_stride]`, rows that satisfy `PrepareArgs::simple`.
    u32 x_stride;
    u32 x_divisor;  // Row y of the output is of input row y / x_divisor.
    ConstPtr<u32> experts;  // `[n]`, or null. Matrices are stacks, of which row y uses matrix experts[y].
    DeviceNorm norm;  // Of the input.
    // For up to 8 rows of a matrix without blocks: `[n, padded cols]`, what `prepare` has left.
    ConstPtr<float> prepared;
    // For `gemv.cu`: rows of all matrices, pairs of rows, or pairs of gate and up, one for a turn of a warp.
    u32 turns;
    u32 warps;  // Warps that share the turns.
    // For tiles (`small_batch.cu`, `gemm.cu`, `wgmma.cu`), here to the end. `[rows, padded cols]`, binary16.
    ConstPtr<u16> halves;
    ConstPtr<float> row_scales;  // `[rows]`, what `halves` was divided by.
    // `[n]`, or null. Rows of the output sorted by expert: expert z = blockIdx.z has order[starts[z]..starts[z + 1]],
    // which are of input rows order[i] / x_divisor.
    ConstPtr<u32> order;
    ConstPtr<u32> starts;  // `[experts + 1]`
    Ptr<float> parts;  // `[tiles with splits, splits, rows of a tile * tokens]`, partial sums.
    Ptr<u32> counters;  // One for each tile, zero between launches.
    // Blocks that share the columns of each tile after the first `whole`; the last of them adds their sums in order.
    u32 splits;
    u32 types;  // Bit n: a matrix is of type n.
    u32 whole;  // Tiles that have one block each, counted by rows first and tokens second.
    u32 tiles;  // Tiles along the rows of the matrices.
};

// Normalises rows of input for matrices without blocks times few of them.
struct PrepareArgs {
    ConstPtr<float> x;  // `[rows, cols]`
    Ptr<float> rows;  // `[rows, padded]`, zero from `cols` on.
    DeviceNorm norm;
    u32 cols;
    u32 padded;  // A multiple of `INPUT_STEP`.
    u32 simple;  // Boolean: `cols` is a multiple of four, and the norm has neither a mean nor a bias.
    u32 pad;
};

// halves = norm(x) / row_scales in binary16, each row divided by its own power of two.
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

// out[row, head] = w[head] * x[row, head][..cols], then x[row, head][cols..].
struct ProjectHeadsArgs {
    DeviceMatrix w;  // `[heads * rows, cols]`
    ConstPtr<float> x;  // `[n, heads, from]`
    Ptr<float> out;  // `[n, heads, to]`
    u32 n;
    u32 heads;
    u32 rows;  // Of the matrix of one head.
    u32 cols;
    u32 from;
    u32 to;
};

// A product with a factor of an adapter.
struct AdaptSegment {
    DeviceMatrix w;
    ConstPtr<float> x;  // `[n, cols]`
    Ptr<float> out;  // `[n, rows of w]`
    u32 cols;  // Columns of the input, without padding.
    float factor;  // Factor on the result where that is added.
};

// Products with factors of an adapter, for rows of sequences that have it.
struct AdaptArgs {
    AdaptSegment segments[4];
    ConstPtr<u32> slots;  // `[n]`, `StepArgs::slots`.
    ConstPtr<float> factors;  // The factor on the adapter for each sequence of the step; 0: it has not the adapter.
    u32 n;
    u32 adds;  // Boolean: results are added, times both factors.
};

// Queries and keys between their projection and attention: norm, rotation, then keys and values into the cache.
struct HeadsArgs {
    StepArgs step;
    Ptr<float> q;  // `[n, heads, head_dim]`
    Ptr<float> k;  // `[n, kv_heads, head_dim]`
    ConstPtr<float> v;  // `[n, kv_heads, value_dim]`, or null.
    DeviceNorm q_norm;
    DeviceNorm k_norm;
    ConstPtr<double> inv_freq;  // `[n_pairs]`, radians a position, or null: no rotation.
    ConstPtr<u8> axes;  // `[n_pairs]`, the turn of each pair, or null: 0 for all.
    u32 n_pairs;
    u32 adjacent;  // Boolean: pair i has values 2i and 2i + 1, else i and i + n_pairs; all after `first`.
    float magnitude;  // Factor on sine and cosine.
    u32 first;  // Value of a head that the first pair begins with.
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 value_dim;
    u32 store;  // Boolean: writes k and v to the cache.
    u32 own_norms;  // Bits: each head has norm weights of its own, of q (1), of k (2).
    u32 behind;  // Less than a turn counts, down to 0.
    u32 pad;
    KvPlace layer;
};

// out = softmax(scale * q k^T + bias) v, head by head, over the cache.
struct AttendArgs {
    StepArgs step;
    ConstPtr<float> q;  // `[n, heads, head_dim]`
    Ptr<float> out;  // `[n, heads, value_dim]`
    // `[blocks of rows, splits, rows of a block, 2 + value_dim]`: maximum and sum of the weights, then the weighted
    // values.
    Ptr<float> partials;
    Ptr<u32> counters;  // `[blocks of rows]`, zero between launches.
    ConstPtr<float> slopes;  // `[heads]`, or null: times the distance, subtracted from a score.
    ConstPtr<float> sinks;  // `[heads]`, or null: one more score, without a value.
    // `[heads, 2 * distance_reach + 1]`, or null: added to a score by the distance of the position behind the token's.
    ConstPtr<float> distances;
    // `[n, top]`, or null: the positions that a token with more than `top` keys sees, in ascending order, -1 behind
    // them.
    ConstPtr<float> among;
    // `[n, heads]`, or null: logarithms, to base 2, of sums of weights that a softmax goes on from, and from what
    // `out` holds.
    ConstPtr<float> sums_before;
    Ptr<float> sums;  // `[n, heads]`, or null: those that it ends with.
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 value_dim;
    u32 mask;
    u32 window;  // Positions.
    u32 splits;  // Blocks that share the positions of a tile.
    float scale;
    float softcap;  // Scores become softcap * tanh(score / softcap); 0: they stay.
    u32 first_tile;  // Tile of the first block of this launch.
    u32 distance_reach;  // Greatest distance in `distances`.
    u32 top;
    KvPlace layer;
};

// out = the keys with the greatest sums over heads of weight * max(q . k, 0), of equal ones the first.
struct SelectArgs {
    StepArgs step;
    ConstPtr<float> q;  // `[n, heads, dim]`
    ConstPtr<float> weights;  // `[n, heads]`
    Ptr<float> out;  // `[n, top]`, in ascending order, -1 behind them.
    Ptr<u64> found;  // `[n, splits, groups]`, what each share of the keys has found.
    Ptr<u32> counters;  // `[n]`, zero between launches.
    u32 heads;
    u32 dim;
    u32 top;
    u32 groups;  // Number of groups to choose.
    u32 size;  // Keys of a group.
    u32 kind;  // `GroupKind`.
    u32 local;  // Last groups that are always chosen.
    u32 splits;  // Blocks that share the keys of a token.
    u32 room;  // Groups that a block keeps, a power of two.
    u32 pad;
    KvPlace layer;
};

// `heads` and attention in one launch, for tokens that are the only ones of their sequences in a step.
struct AttendAloneArgs {
    AttendArgs attend;
    HeadsArgs heads;
};

// Turns heads of sequences whose cache holds them in 4 bits: the Hadamard transform of each 32 values, divided by the
// root of 32, which is its own inverse.
struct TurnArgs {
    Ptr<float> x;  // `[n, heads, dim]`
    ConstPtr<u32> slots;  // `[n]`, `StepArgs::slots`.
    ConstPtr<DeviceKv> kvs;  // `StepArgs::kvs`.
    u32 heads;
    u32 dim;  // Values after the last whole 32 stay as they are.
    u32 by_values;  // Boolean: where values are in 4 bits, and not keys.
    u32 pad;
};

// Chooses experts by scores.
struct RouteArgs {
    ConstPtr<float> scores;  // `[n, n_experts]`
    Ptr<u32> experts;  // `[n, n_used]`
    Ptr<float> weights;  // `[n, n_used]`
    ConstPtr<float> bias;  // `[n_experts]`, or null: added for the choice, not to the weights.
    ConstPtr<u32> slots;  // `[n]`, `StepArgs::slots`.
    ConstPtr<DeviceKv> kvs;  // `StepArgs::kvs`, or null where no row is padding.
    ConstPtr<float> by_id;  // `[ids, n_used]`, or null: the experts of each token by its id.
    ConstPtr<u32> ids;  // `[n]`, `StepArgs::ids`.
    ConstPtr<u32> following;  // `[n]`, the ids that `CHOSEN_BEFORE` stands for.
    u32 n_experts;
    u32 n_used;
    u32 score;  // `RouterScore`.
    u32 renormalise;  // Boolean: weights are divided by their sum.
    u32 groups;  // Groups of equally many experts.
    u32 groups_used;  // Groups that are chosen from: those with the largest sums of their two best.
    float scale;  // Factor on the weights.
    u32 sharing;  // Experts that have the same matrices, of which `experts` gets the numbers.
};

// Sorts picks by expert and keeps their order within an expert. A pick is one chosen expert of a token.
struct GroupArgs {
    ConstPtr<u32> experts;  // `[picks]`
    Ptr<u32> order;  // `[picks]`, indices of picks.
    Ptr<u32> starts;  // `[n_experts + 1]`, where those of an expert begin in `order`.
    u32 picks;
    u32 pad;
};

// out = the input of each chosen expert in the order of its matrix.
struct OrderArgs {
    ConstPtr<float> x;  // `[picks / divisor, x_stride]`
    ConstPtr<float> order;  // `[n_experts, width]`, the place in a row of `x` of each input, or null: its own.
    ConstPtr<u32> experts;  // `[picks]`
    Ptr<float> out;  // `[picks, width]`
    u64 n;  // picks * width
    u32 width;
    u32 x_stride;
    u32 divisor;  // Picks of a row of `x`.
    u32 pad;
};

// gate = activation(gate) * up for chosen experts, after factors and biases on both products.
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

// A causal convolution of each channel. In all recurrences a tile of the step has all tokens of one sequence, and
// `memory` is the place of an op's memory in that of the sequence, in values.
struct ConvArgs {
    StepArgs step;
    Ptr<float> x;  // `[n, width]`, replaced by the result.
    ConstPtr<float> kernel;  // `[taps, width]`, the oldest input first.
    ConstPtr<float> bias;  // `[width]`, or null.
    u64 memory;  // The memory is `[taps - 1, width]`.
    u32 width;
    u32 taps;
    u32 silu;  // Boolean: the result goes through SiLU.
    u32 pad;
};

// Sums of groups of positions, weighted channel by channel.
struct PoolArgs {
    StepArgs step;
    ConstPtr<float> gate;  // `[n, width]`
    ConstPtr<float> x;  // `[n, width]`
    ConstPtr<float> bias;  // `[size, width]`
    Ptr<float> out;  // `[n, out_width]`
    u64 memory;  // The memory is `[members - 1, 2, width]`: gates and values of the last tokens.
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
    ConstPtr<float> dt;  // `[n, heads]`, or `[n, heads, key_dim]` where `by_row`.
    ConstPtr<float> beta;  // `[n, heads]`
    ConstPtr<float> rate;  // `[heads]`
    Ptr<float> out;  // `[n, heads, value_dim]`
    u64 memory;  // The memory is `[heads, key_dim, value_dim]`.
    u32 heads;
    u32 key_heads;
    u32 key_dim;
    u32 value_dim;
    u32 by_row;  // Boolean: rows of the memory decay by steps of their own.
    u32 tiled;  // Boolean: head h reads key head h % key_heads, else h * key_heads / heads.
    u32 stages;  // Chunks of inputs that shared memory has room for, in `recurrent_chunks.cu`.
    u32 pad;
};

// The selective scan.
struct ScanArgs {
    StepArgs step;
    ConstPtr<float> x;  // `[n, heads, head_dim]`
    ConstPtr<float> dt;  // `[n, heads]`
    ConstPtr<float> b;  // `[n, groups, state]`
    ConstPtr<float> c;  // `[n, groups, state]`
    ConstPtr<float> rate;  // `[heads]`, or `[state, heads]` where `by_state`.
    ConstPtr<float> skip;  // `[heads]`
    Ptr<float> out;  // `[n, heads, head_dim]`
    u64 memory;  // The memory is `[state, heads, head_dim]`.
    u32 heads;
    u32 head_dim;
    u32 groups;
    u32 state;
    u32 by_state;  // Boolean: rows of the memory decay by rates of their own.
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
    u64 memory;  // The memory is `[heads, dim, dim]`.
    u32 heads;
    u32 key_heads;
    u32 dim;
    u32 by_rate;  // Boolean: rows decay by exp(rate * dt), else by exp(-exp(dt)).
    float rate;
    u32 before;  // Boolean: results are of the memory ahead of the token.
    u32 fades;  // Boolean: keys count 1 less the decay times.
    u32 pad;
};

// Added to the logit of a token.
struct Bias {
    u32 id;
    float value;
};

// A rule by which a token is chosen; the results are those of src/sample, to the bit.
struct DeviceRule {
    double inverse;  // 1 / temperature
    ConstPtr<Bias> biases;  // `[n_biases]`, those of the same token in their order.
    Ptr<u32> recent;  // `[window]`, the newest tokens in any order.
    ConstPtr<u32> allowed;  // One bit for each token, or null: all are allowed.
    u32 kind;  // `RuleKind`.
    u32 n_biases;
    u32 window;
    u32 none;  // Chosen where no token can be.
    float repeat;
    float presence;
    float frequency;
    u32 top_k;  // 0: off.
    float top_p;  // 0: off.
    float min_p;  // 0: off.
};

// The part of a rule that each choice changes.
struct RuleState {
    u64 random;  // State of SplitMix64.
    u32 n_recent;  // Tokens in `recent`.
    u32 next;  // Index in `recent` of the next one.
    u32 slot;  // Slot of the step among those in flight.
    u32 pad;
};

// Intermediate results of the kernels that choose a token.
struct Draw {
    u64 sums[kBins];  // Sums of weights, by bin or by block.
    u32 counts[kBins];  // Numbers of tokens, by bin.
    u32 list[kListed];  // The tokens of the bins up to `limit`, in any order.
    u64 total;  // Sum of all weights.
    float peak;  // The largest logit.
    u32 limit;  // The last bin that may have tokens which are kept.
    u32 filled;  // Number of tokens in the bins up to `limit`.
    u32 listed;  // Number of tokens in `list`.
};

// Chooses a token for each row of logits.
struct ChooseArgs {
    Ptr<float> logits;  // `[rows, width]`
    ConstPtr<DeviceRule> rules;  // `[rows]`
    Ptr<RuleState> states;  // `[rows]`
    Ptr<Draw> draws;  // `[rows]`
    Ptr<float> best;  // `[rows, blocks]`, the largest logit of each block.
    Ptr<u32> at;  // `[rows, blocks]`, its token.
    Ptr<u32> counters;  // `[rows]`, zero between launches.
    Ptr<u32> answers;  // `[slots, stride]`, in memory of the host.
    Ptr<u32> tokens;  // `[rows]`, the chosen tokens, for the next step.
    // `[rows]`, `StepArgs::ids`: becomes that of the next step, which may follow where all tokens of this one have
    // logits.
    Ptr<u32> ids;
    Ptr<u32> positions;  // `[rows]`, `StepArgs::positions`: likewise.
    double unit;  // Integer weight of the largest logit.
    u32 width;
    u32 slots;
    u32 stride;
    u32 pad;
};
