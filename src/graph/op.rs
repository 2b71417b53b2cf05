//! The ops that a network is made of: the one list of what a device can compute.
//!
//! An op names its operands by typed handles and holds everything that does not change from step to step; what does is
//! in `StepInputs`. The CPU executor is the specification of each formula.

/// A matrix `[rows, cols]`: its place in `Weights::matrices`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(pub u32);

/// An f32 vector, such as norm weights or a bias: its place in `Weights::vectors`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector(pub u32);

/// A table of rotary frequencies: its place in `Weights::ropes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RopeTable(pub u32);

/// An activation, `[n, width]` in f32 for the `n` rows of a step: its place in `Program::tensors`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TensorId(pub u32);

/// The keys and values of one layer: their place in `Program::kv_layers`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KvLayerId(pub u32);

/// A recurrent state of a sequence: its place in `Program::recurrent`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecurrentId(pub u32);

/// A step of a network. The rows of an activation are the tokens of the batch, after `KeepOutputs` its outputs.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `out = scale * table[index]`; table `[rows, width]`. For `MEDIA_ROW` the first numbers of its row of media, or
    /// by `Index::Token` row 0 of the table.
    Embed { table: Weight, rows: usize, index: Index, scale: f32, out: TensorId },
    /// `out = ` rows of a table side by side, by hashes of a token and of those before it.
    EmbedNgrams(Box<EmbedNgrams>),
    /// `out = norm(x)`, group by group; in place where both are the same.
    Norm { norm: Norm, x: TensorId, out: TensorId },
    /// `x += scale * delta`.
    Add { x: TensorId, delta: TensorId, scale: f32 },
    /// `x *= factor`.
    Scale { x: TensorId, factor: f32 },
    /// `x *= by`, which is `[width]`.
    ScaleColumns { x: TensorId, by: Vector },
    /// `x *= 1 + slope * ln(floor((position + offset) / length) + 1)`.
    ScaleByPosition { x: TensorId, slope: f32, length: u32, offset: u32 },
    /// `x += row[part * width(x)..]` for tokens that are rows of media.
    AddMedia { x: TensorId, part: usize },
    /// The next `ops` ops count for rows of media alone: a step without any passes them over, and a step of nothing
    /// else that has no outputs ends behind them.
    OfMedia { ops: usize },
    /// `x = min(max(x, low), high)`.
    Clamp { x: TensorId, low: f32, high: f32 },
    /// `out = the mean of the groups of x`, which lie one after the other.
    Mean { x: TensorId, groups: usize, out: TensorId },
    /// `x = curve(x)`.
    Xielu { x: TensorId, curve: Xielu },
    /// `x = max(x - mean(x) - deviations * sqrt(var(x)), 0)`.
    Threshold { x: TensorId, deviations: f32 },
    /// `x *= sqrt(mean(like^2) / max(mean(x^2), 1e-5))`, for each part of `x` that is as wide as `like`.
    Rescale { x: TensorId, like: TensorId },
    /// `out[j] = sum over k of by[j, k] * x[k]` for streams of some width side by side, in `out` from some value on.
    Mix(Mix),
    /// `out = weight * x + bias` for each of the projections that share the input.
    Project { x: TensorId, projections: Box<[Projection]> },
    /// `out[h] = [weight[h] * x[h][..cols] | x[h][cols..]]`, head by head; weight `[heads * rows, cols]`.
    ProjectHeads { x: TensorId, weight: Weight, heads: usize, out: TensorId },
    /// `out[h] = [x[h] | tail]`, head by head.
    JoinHeads { x: TensorId, tail: TensorId, heads: usize, out: TensorId },
    /// `out = sum over i of softmax(x[i] / rms(x[i]) . by) x[i]` for streams as wide as `out` side by side.
    MixByScore { x: TensorId, by: Vector, eps: f32, out: TensorId },
    /// Makes the logits of a square matrix, `[from, to]`, one that divides each stream among others, `[to, from]`: its
    /// softmax over `to` plus `eps`, whose sums over `from` and over `to` are made 1 in turns, `rounds` times over
    /// `from`.
    Sinkhorn { x: TensorId, eps: f32, rounds: u32 },
    /// `out[h] = x[h] . y[h]`, head by head.
    Dot { x: TensorId, y: TensorId, out: TensorId },
    /// `out = x[first..first + width]`.
    Slice { x: TensorId, first: usize, out: TensorId },
    /// `out[i] = x[by[i]]`.
    Gather { x: TensorId, by: Vector, out: TensorId },
    /// Rotates the heads of `q` and `k`, from value `first` of each on, by their turns, or else by their positions.
    Rope { rope: RopeChoice, head_dim: usize, first: usize, q: TensorId, k: Option<TensorId> },
    /// Writes `k` and `v`, `[n, n_kv_heads * head_dim]` and `[n, n_kv_heads * value_dim]`, to the batch's positions of
    /// a layer; no `v` where values are parts of keys.
    StoreKv { layer: KvLayerId, k: TensorId, v: Option<TensorId> },
    /// Goes on with the rows of the batch's outputs alone, copied from the first of each pair to the second. A step
    /// without outputs ends here.
    KeepOutputs { moves: Box<[[TensorId; 2]]> },
    /// `out = softmax(scale * q k^T) v` over the positions of each token's own sequence that it sees.
    Attend(Attend),
    /// The positions that tokens attend to, as numbers.
    Select(Select),
    /// `x[t] = sum over j of kernel[j] * x[t - taps + 1 + j] + bias`, channel by channel, over each token's own
    /// sequence, or the SiLU of it; inputs before the first token are 0.
    Conv(Conv),
    /// `out = sum over i of softmax(gate[i] + bias[i]) x[i]`, channel by channel, over the tokens of the group of
    /// `size` positions that a token ends; 0 for others.
    Pool(Pool),
    /// `S = exp(rate dt) S; S += k (beta (v - S^T k))^T; out = S^T q`, head by head, token after token.
    DeltaRule(DeltaRule),
    /// `h = exp(rate dt) h + dt x b^T; out = h c + skip x`, head by head, token after token.
    Scan(Scan),
    /// `S = diag(w) S + b (S^T a)^T + k v^T; out = S^T r`, head by head, token after token.
    Wkv(Wkv),
    /// `gate = activation(gate) * up`, or `activation(gate)` without `up`.
    Glu { gate: TensorId, up: Option<TensorId>, activation: Activation },
    /// `x *= gate`, or its sigmoid; each value of `gate` is the factor of `width(x) / width(gate)` values.
    Gate { x: TensorId, gate: TensorId, sigmoid: bool },
    /// `out = sum of weight * down(activation(gate x) * (up x))` over the experts chosen by `scores`, `[n, n_experts]`.
    Experts(Experts),
    /// Hands the inputs of experts to the host, which multiplies by its experts number `experts` meanwhile.
    ToHost { x: TensorId, scores: TensorId, experts: usize },
    /// The place of these experts in the program of a device, to which a step may copy their matrices.
    OnHost(OnHost),
    /// `out = ` what the host has made of them.
    FromHost { out: TensorId, experts: usize },
    /// Logits of the batch's outputs, `cap * tanh(y / cap)` for `y = scale * (head x + bias)`; without a cap where it
    /// is 0.
    Logits { x: TensorId, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32 },
}

/// The number of a token by which a row of a table is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    Id,
    /// The id of a token, 0 where it is a row of media.
    Token,
    Position,
    /// The first row, for every token.
    Zero,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps) * weight + bias`.
    Rms,
    /// `(x - mean) / sqrt(var + eps) * weight + bias`.
    Layer,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Norm {
    pub kind: NormKind,
    /// `[group]`, or `[width]` where each group has its own; all 1 where absent.
    pub weight: Option<Vector>,
    /// As long as the weight; `[group]` without one.
    pub bias: Option<Vector>,
    pub eps: f32,
    /// Number of values normalised together: the width of the activation or of a head.
    pub group: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Projection {
    pub weight: Weight,
    /// `[rows]`
    pub bias: Option<Vector>,
    pub out: TensorId,
}

/// The frequencies of a rotation, which may depend on the room of the batch's caches (LongRoPE).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeChoice {
    pub table: RopeTable,
    /// For caches of more positions than the first number.
    pub long: Option<(usize, RopeTable)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attend {
    pub layer: KvLayerId,
    /// `[n, n_heads * head_dim]`; query head `i` reads key-value head `i * n_kv_heads / n_heads`.
    pub q: TensorId,
    /// `[n, n_heads * value_dim]`
    pub out: TensorId,
    /// Factor on `q . k`.
    pub scale: f32,
    /// `cap * tanh(score / cap)` where not 0.
    pub softcap: f32,
    pub mask: Mask,
    /// `[n_heads]`, taken from the score of a key times its distance: ALiBi (arXiv 2108.12409).
    pub slopes: Option<Vector>,
    /// `[n_heads, 2 * reach + 1]`, added to the score of a key by its position less that of the query, from `-reach`
    /// on; what is further away counts as at the reach.
    pub distances: Option<Vector>,
    /// `[n_heads]`, one more score in the sum of the softmax, which has no value.
    pub sinks: Option<Vector>,
    /// `[n, top]`, what `Select` has left: a token with more than `top` positions sees those alone.
    pub among: Option<TensorId>,
    pub half: Option<Half>,
}

/// One softmax over the keys of two layers, an op for each. `[n, n_heads]`: logarithms, to base 2, of the sums of
/// exponentials so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// Writes the sums.
    First(TensorId),
    /// Reads the sums and goes on from them and from what the first half has left in `out`.
    Second(TensorId),
}

impl Half {
    pub fn sums(self) -> TensorId {
        match self {
            Half::First(sums) | Half::Second(sums) => sums,
        }
    }

    pub(super) fn sums_mut(&mut self) -> &mut TensorId {
        match self {
            Half::First(sums) | Half::Second(sums) => sums,
        }
    }
}

impl Attend {
    /// All earlier tokens, by their products with the query alone.
    pub fn new(layer: KvLayerId, q: TensorId, out: TensorId, scale: f32) -> Attend {
        let (slopes, distances, sinks, among, half) = (None, None, None, None, None);
        Attend { layer, q, out, scale, softcap: 0.0, mask: Mask::Causal, slopes, distances, sinks, among, half }
    }
}

/// The lightning indexer (DeepSeek V3.2): of the groups of positions up to a token's own, those with the greatest
/// `sum over heads of weight * max(q . k, 0)`, of equal ones the first; their positions in ascending order. A row of
/// fewer ends with -1. Where positions share keys, keys are counted and chosen instead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Select {
    /// One head of keys.
    pub layer: KvLayerId,
    /// `[n, heads * head_dim]`
    pub q: TensorId,
    /// `[n, heads]`
    pub weights: TensorId,
    /// `[n, top]`
    pub out: TensorId,
    pub groups: Groups,
}

/// The groups of positions that are chosen as one, which begin at multiples of their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Groups {
    /// `top` single positions.
    One,
    /// `top / n` of so many, by the key of their last one; of an unfinished one all positions beside them.
    Pools(u32),
    /// `top / size`, by the best of their keys, among them always the last `local` ones.
    Blocks { size: u32, local: u32 },
}

impl Groups {
    /// Number of positions of a group.
    pub fn size(self) -> usize {
        match self {
            Groups::One => 1,
            Groups::Pools(size) | Groups::Blocks { size, .. } => size as usize,
        }
    }
}

/// The positions that a token sees. Spans of a step have an effect on `Causal`, `Window` and `Spans`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// All up to its own, and those after it that its span has.
    Causal,
    /// All up to its own.
    Past,
    /// Its own, the `n - 1` before it, and those after it that its span has; `n > 0`.
    Window(u32),
    /// From the last multiple of `n` up to its own; `n > 0`.
    Chunk(u32),
    /// All of its sequence, of which the step has every token.
    All,
    /// The positions of `All` that are at most `n` away.
    Around(u32),
    /// The positions of its span, or those of `All` where that is empty.
    Spans,
    /// The positions of its span, or those of `Past` where that is empty: the rows of a source.
    Source,
    /// The positions of `Past` that are behind its span, and its own.
    Behind,
}

impl Mask {
    /// `Window`, or `Causal` for 0.
    pub fn window(n: usize) -> Mask {
        if n == 0 { Mask::Causal } else { Mask::Window(n as u32) }
    }

    /// `Around` for a window that reaches as far to both sides, or `All` for 0.
    pub fn around(window: usize) -> Mask {
        if window == 0 { Mask::All } else { Mask::Around(window as u32 / 2) }
    }

    /// True where a token without a span sees none after it.
    pub fn is_causal(self) -> bool {
        !matches!(self, Mask::All | Mask::Around(_) | Mask::Spans)
    }

    /// True where a token with a span sees other positions than without.
    pub fn heeds_spans(self) -> bool {
        !matches!(self, Mask::Past | Mask::Chunk(_) | Mask::All | Mask::Around(_))
    }

    /// Number of positions up to its own that a token sees, at most; 0: all, or some after it too.
    pub fn span(self) -> usize {
        match self {
            Mask::Causal | Mask::Past | Mask::All | Mask::Around(_) | Mask::Spans | Mask::Source | Mask::Behind => 0,
            Mask::Window(n) | Mask::Chunk(n) => n as usize,
        }
    }
}

/// The embedding of n-grams by hashes: the ids of a token and of those before it, each times the multiplier of its
/// distance modulo 2^64, are `xor`ed, and the result is taken modulo the rows of a head. From the last `end` before the
/// token backwards, and before the sequence, all ids count as `end`.
#[derive(Clone, PartialEq, Debug)]
pub struct EmbedNgrams {
    /// `[multipliers.len() - 1]`: one more than the ids of the last tokens, 0 where there are none.
    pub recurrent: RecurrentId,
    /// `[rows, width]`
    pub table: Weight,
    /// `[n, heads.len() * width]`
    pub out: TensorId,
    pub multipliers: Box<[u64]>,
    pub heads: Box<[NgramHead]>,
    pub end: u32,
}

/// A head of an embedding of n-grams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NgramHead {
    /// Number of ids in a hash.
    pub n: usize,
    /// Its first row of the table.
    pub first: u64,
    /// Number of its rows.
    pub rows: u64,
}

/// A causal depthwise convolution, in place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conv {
    /// `[taps - 1, width]`: the inputs of the last tokens.
    pub recurrent: RecurrentId,
    pub x: TensorId,
    /// `[taps, width]`, the oldest input first.
    pub kernel: Vector,
    /// `[width]`
    pub bias: Option<Vector>,
    pub taps: usize,
    /// Ends with SiLU.
    pub silu: bool,
}

/// Sums of groups of positions, each counted from position 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pool {
    /// `[size - 1, 2 * width]`, or `[2 * size - 1, 2 * width]` where groups overlap: gates and values of the last
    /// tokens.
    pub recurrent: RecurrentId,
    /// As wide as `out`, or twice as wide where groups overlap: sums have the first halves of rows of the group before
    /// and the second halves of its own.
    pub gate: TensorId,
    pub x: TensorId,
    /// `[size, width]`
    pub bias: Vector,
    pub out: TensorId,
    pub size: usize,
}

/// The gated delta rule (arXiv 2412.06464), `heads` value heads with a matrix each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeltaRule {
    /// The matrices S, `[heads, key_dim, value_dim]`, in the device's order.
    pub recurrent: RecurrentId,
    /// `[n, key_heads * key_dim]`
    pub q: TensorId,
    pub k: TensorId,
    /// `[n, heads * value_dim]`
    pub v: TensorId,
    /// `[n, heads]`, or `[n, heads * key_dim]`, a decay for each row of S.
    pub dt: TensorId,
    /// `[n, heads]`
    pub beta: TensorId,
    /// `[n, heads * value_dim]`
    pub out: TensorId,
    /// `[heads]`
    pub rate: Vector,
    pub key_dim: usize,
    /// Head `h` reads key head `h % key_heads` rather than `h * key_heads / heads`.
    pub tiled: bool,
}

/// The selective scan of Mamba, with a decay for each head (arXiv 2405.21060), or for each channel and state
/// (arXiv 2312.00752).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scan {
    /// The matrices h, `[heads, state, head_dim]`, in the device's order.
    pub recurrent: RecurrentId,
    /// `[n, heads * head_dim]`
    pub x: TensorId,
    /// `[n, heads]`
    pub dt: TensorId,
    /// `[n, groups * state]`; head `i` reads group `i * groups / heads`.
    pub b: TensorId,
    pub c: TensorId,
    /// `[n, heads * head_dim]`
    pub out: TensorId,
    /// `[heads]`, or `[state, heads]` where heads are single channels.
    pub rate: Vector,
    /// `[heads]`
    pub skip: Vector,
    pub state: usize,
}

/// The recurrence of RWKV 6 and 7 (arXiv 2404.05892, 2503.14456), a matrix a head, whose rows decay by a factor each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wkv {
    /// The matrices S, `[heads, dim, dim]`, in the device's order.
    pub recurrent: RecurrentId,
    /// `[n, heads * dim]`
    pub r: TensorId,
    /// `[n, key_heads * dim]`; head `h` reads key head `h * key_heads / heads`.
    pub k: TensorId,
    pub v: TensorId,
    /// `[n, heads * dim]`: a row decays by `w = exp(rate * dt)`, or by `exp(-exp(dt))` without a rate.
    pub dt: TensorId,
    pub rate: Option<f32>,
    /// `a` and `b`, `[n, heads * dim]`: what the matrix holds under `a` ahead of the token is added under `b`.
    pub moved: Option<[TensorId; 2]>,
    /// `[n, heads * dim]`
    pub out: TensorId,
    pub dim: usize,
    /// `out` is of the matrix ahead of the token.
    pub before: bool,
    /// `k` counts `1 - w` times.
    pub fades: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Activation {
    Identity,
    Sigmoid,
    /// `sqrt(max(|x|, 1e-6))` with the sign of `x`, 0 for 0.
    SignedRoot,
    /// `ln(1 + e^x)`
    Softplus,
    Tanh,
    Silu,
    /// The tanh approximation.
    Gelu,
    GeluErf,
    /// `x * sigmoid(1.702 x)`.
    QuickGelu,
    Relu,
    /// `max(x, 0)^2`.
    Relu2,
    /// `g * sigmoid(1.702 g) * (u + 1)` for `g = min(gate, 7)` and `u = min(max(up, -7), 7)`, 0 without `up`.
    ClampedSwiglu,
    /// `silu(min(gate, n)) * min(max(up, -n), n)`, 1 for an `up` that is not there.
    SwigluOfClamped(f32),
    /// `min(silu(gate), n) * min(max(up, -n), n)`, the same.
    SwigluThenClamped(f32),
    /// `m tanh(gate / m) sigmoid(gate) * n tanh(up / n)`, whose last factor is `up` for an `n` of 0; 1 for an `up` that
    /// is not there.
    TanhSwiglu([f32; 2]),
}

/// Sums of streams, each times a factor of the token's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    pub x: TensorId,
    /// `[n, streams of out * streams of x]`, all 1 where absent.
    pub by: Option<TensorId>,
    pub out: TensorId,
    /// Number of values of a stream.
    pub width: usize,
    /// Value of `out` that its first stream begins with.
    pub first: usize,
    /// Adds the sums to what `out` holds.
    pub adds: bool,
}

/// The activation of arXiv 2411.13010: `rise * x^2 + slope * x` for `x > 0`, else
/// `fall * (e^min(x, eps) - 1 - x) + slope * x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Xielu {
    pub rise: f32,
    pub fall: f32,
    pub slope: f32,
    /// Largest `x` of the exponential, at most 0.
    pub eps: f32,
}

/// The function that makes weights of a router's scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouterScore {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen experts.
    SoftmaxOfChosen,
    Sigmoid,
    /// `sqrt(ln(1 + e^x))`
    RootOfSoftplus,
    /// SparseMixer (arXiv 2409.12136): of each choice in turn the softmax over those experts left whose score differs
    /// from the best of them by no more than 0.02 of the larger of the best score and their own magnitude.
    SparseMixer,
}

/// The rule by which scores of a router become weights of the chosen experts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Routing {
    pub score: RouterScore,
    /// Number of experts chosen for a token.
    pub n_used: usize,
    /// `[n_experts]`, added to the weights for the choice alone.
    pub bias: Option<Vector>,
    /// `[ids, n_used]`: the experts that each token chooses by its id rather than by scores.
    pub by_id: Option<Vector>,
    /// Experts are chosen from the `groups_used` groups whose two best are the best together.
    pub groups: usize,
    pub groups_used: usize,
    /// Divides the chosen weights by their sum.
    pub renormalise: bool,
    /// Factor on the weights.
    pub scale: f32,
    /// Weights multiply the input of an expert rather than its output.
    pub on_input: bool,
    /// Number of experts with the same matrices: expert `i` has the `i / sharing`th.
    pub sharing: usize,
}

impl Routing {
    /// The `n_used` best of all experts, with weights as they are or made to sum to 1.
    pub fn new(score: RouterScore, n_used: usize, renormalise: bool) -> Routing {
        let (bias, by_id, groups, groups_used, scale, on_input, sharing) = (None, None, 1, 1, 1.0, false, 1);
        Routing { score, n_used, bias, by_id, groups, groups_used, renormalise, scale, on_input, sharing }
    }
}

/// Stacked experts: `gate`, `up` are `[stack * ffn, hidden]`, `down` is `[stack * hidden, ffn]`. Where `gate` and `up`
/// are one matrix, `[stack * 2 * ffn, hidden]`, the rows of an expert's gate stand before those of its `up`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Experts {
    pub x: TensorId,
    pub scores: TensorId,
    pub out: TensorId,
    /// Without it, an expert is `down(activation(up x))`.
    pub gate: Option<Weight>,
    pub up: Weight,
    pub down: Weight,
    /// `[stack * ffn]` of gate and of up, `[stack * hidden]` of down.
    pub biases: [Option<Vector>; 3],
    /// `[stack]` of gate, up and down: factors on the products, before the bias.
    pub scales: [Option<Vector>; 3],
    /// `[stack * hidden]` of gate and of up, `[stack * ffn]` of down: the place in its input of each input of an
    /// expert's matrix, as `by` of `Op::Gather`.
    pub orders: [Option<Vector>; 3],
    pub n_experts: usize,
    pub ffn: usize,
    pub routing: Routing,
    pub activation: Activation,
}

/// Experts that the host has, with the activations of a device; their matrices are those of the host's program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnHost {
    pub experts: Experts,
    /// Number of the experts on the host.
    pub number: usize,
    /// Bytes of the device that matrices are copied to at a time.
    pub piece: usize,
}

impl Experts {
    /// Number of experts that have matrices of their own.
    pub fn stack(&self) -> usize {
        self.n_experts / self.routing.sharing
    }
}
