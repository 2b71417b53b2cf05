//! The ops of networks: everything that a device can compute.
//!
//! An op names its operands by typed handles and holds everything that is constant over steps; `StepInputs` has the
//! rest. The CPU executor is the specification of each formula.

/// A matrix `[rows, cols]`: index into `Weights::matrices`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(pub u32);

/// An f32 vector, such as norm weights or a bias: index into `Weights::vectors`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector(pub u32);

/// A RoPE frequency table: index into `Weights::ropes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RopeTable(pub u32);

/// An activation, `[n, width]` in f32 for the `n` rows of a step: index into `Program::tensors`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TensorId(pub u32);

/// The keys and values of one layer: index into `Program::kv_layers`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KvLayerId(pub u32);

/// A recurrent state of a sequence: index into `Program::recurrent`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecurrentId(pub u32);

/// An operation of a network. Rows of activations are the tokens of the batch, after `KeepOutputs` its outputs.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `out = scale * table[index]`; table `[rows, width]`. For `MEDIA_ROW`: the first values of its media row, or with
    /// `Index::Token` row 0 of the table.
    Embed { table: Weight, rows: usize, index: Index, scale: f32, out: TensorId },
    /// `out = ` concatenated rows of a table, selected by hashes of a token and its predecessors.
    EmbedNgrams(Box<EmbedNgrams>),
    /// `out = norm(x)`, per group; in place if both are the same.
    Norm { norm: Norm, x: TensorId, out: TensorId },
    /// `x += scale * delta`.
    Add { x: TensorId, delta: TensorId, scale: f32 },
    /// `x *= factor`.
    Scale { x: TensorId, factor: f32 },
    /// `x *= by`, `by` is `[width]`.
    ScaleColumns { x: TensorId, by: Vector },
    /// `x *= 1 + slope * ln(floor((position + offset) / length) + 1)`.
    ScaleByPosition { x: TensorId, slope: f32, length: u32, offset: u32 },
    /// `x += row[part * width(x)..]` for tokens that are media rows.
    AddMedia { x: TensorId, part: usize },
    /// The next `ops` ops apply only to media rows: steps without media rows skip them, and a step with nothing else
    /// and no outputs ends after them.
    OfMedia { ops: usize },
    /// `x = min(max(x, low), high)`.
    Clamp { x: TensorId, low: f32, high: f32 },
    /// `out = ` the mean of the groups of `x`, which are contiguous.
    Mean { x: TensorId, groups: usize, out: TensorId },
    /// `x = curve(x)`.
    Xielu { x: TensorId, curve: Xielu },
    /// `x = max(x - mean(x) - deviations * sqrt(var(x)), 0)`.
    Threshold { x: TensorId, deviations: f32 },
    /// `x *= sqrt(mean(like^2) / max(mean(x^2), 1e-5))`, for each part of `x` as wide as `like`.
    Rescale { x: TensorId, like: TensorId },
    /// `out[j] = sum over k of by[j, k] * x[k]` for concatenated streams, in `out` from a given value on.
    Mix(Mix),
    /// `out = weight * x + bias` for each of several projections of one input.
    Project { x: TensorId, projections: Box<[Projection]> },
    /// `out[h] = [weight[h] * x[h][..cols] | x[h][cols..]]`, per head; weight `[heads * rows, cols]`.
    ProjectHeads { x: TensorId, weight: Weight, heads: usize, out: TensorId },
    /// `out[h] = [x[h] | tail]`, per head.
    JoinHeads { x: TensorId, tail: TensorId, heads: usize, out: TensorId },
    /// `out = sum over i of softmax(x[i] / rms(x[i]) . by) x[i]` for concatenated streams as wide as `out`.
    MixByScore { x: TensorId, by: Vector, eps: f32, out: TensorId },
    /// Sinkhorn normalization of square logits `[from, to]` to mixing weights `[to, from]`: softmax over `to` plus
    /// `eps`, then alternating normalization over `from` and `to`, `rounds` times over `from`.
    Sinkhorn { x: TensorId, eps: f32, rounds: u32 },
    /// `out[h] = x[h] . y[h]`, per head.
    Dot { x: TensorId, y: TensorId, out: TensorId },
    /// `out = x[first..first + width]`.
    Slice { x: TensorId, first: usize, out: TensorId },
    /// `out[i] = x[by[i]]`.
    Gather { x: TensorId, by: Vector, out: TensorId },
    /// RoPE of the heads of `q` and `k`, from value `first` of each on, by M-RoPE positions if the step has any,
    /// otherwise by positions.
    Rope { rope: RopeChoice, head_dim: usize, first: usize, q: TensorId, k: Option<TensorId> },
    /// Writes `k` and `v`, `[n, n_kv_heads * head_dim]` and `[n, n_kv_heads * value_dim]`, to the KV cache of a layer;
    /// no `v` if values are parts of keys.
    StoreKv { layer: KvLayerId, k: TensorId, v: Option<TensorId> },
    /// Continues with only the output rows, copied from the first of each pair to the second. A step without outputs
    /// ends here.
    KeepOutputs { moves: Box<[[TensorId; 2]]> },
    /// `out = softmax(scale * q k^T) v` over the positions of each token's own sequence that its mask allows.
    Attend(Attend),
    /// Selects the positions that tokens attend to (sparse attention).
    Select(Select),
    /// `x[t] = sum over j of kernel[j] * x[t - taps + 1 + j] + bias`, or its SiLU, per channel over each token's own
    /// sequence; inputs before the first token are 0.
    Conv(Conv),
    /// `out = sum over i of softmax(gate[i] + bias[i]) x[i]`, per channel over each group of `size` positions, for the
    /// last token of a group; 0 for the others.
    Pool(Pool),
    /// `S = exp(rate dt) S; S += k (beta (v - S^T k))^T; out = S^T q`, per head, token after token.
    DeltaRule(DeltaRule),
    /// `h = exp(rate dt) h + dt x b^T; out = h c + skip x`, per head, token after token.
    Scan(Scan),
    /// `S = diag(w) S + b (S^T a)^T + k v^T; out = S^T r`, per head, token after token.
    Wkv(Wkv),
    /// `gate = activation(gate) * up`, or `activation(gate)` without `up`.
    Glu { gate: TensorId, up: Option<TensorId>, activation: Activation },
    /// `x *= gate`, or its sigmoid; each value of `gate` scales `width(x) / width(gate)` values.
    Gate { x: TensorId, gate: TensorId, sigmoid: bool },
    /// `out = sum of weight * down(activation(gate x) * (up x))` over the experts selected by `scores`, `[n,
    /// n_experts]`.
    Experts(Experts),
    /// Sends the experts' inputs to the host, which computes its expert op number `experts` meanwhile.
    ToHost { x: TensorId, scores: TensorId, experts: usize },
    /// The same experts in a device's program, for steps that copy their matrices to the device.
    OnHost(OnHost),
    /// Receives the experts' result from the host.
    FromHost { out: TensorId, experts: usize },
    /// Logits of the outputs: `cap * tanh(y / cap)` for `y = scale * (head x + bias)`; a cap of 0 means none.
    Logits { x: TensorId, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32 },
}

/// The property of a token that selects a table row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    Id,
    /// The token id, 0 for media rows.
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
    /// `[group]`, or `[width]` if each group has its own; `None`: 1.
    pub weight: Option<Vector>,
    /// As long as the weight; `[group]` without one.
    pub bias: Option<Vector>,
    pub eps: f32,
    /// Number of values normalized together: the width of the activation or of a head.
    pub group: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Projection {
    pub weight: Weight,
    /// `[rows]`
    pub bias: Option<Vector>,
    pub out: TensorId,
}

/// RoPE frequencies, which may depend on the context length (LongRoPE).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeChoice {
    pub table: RopeTable,
    /// Table for context lengths above the number.
    pub long: Option<(usize, RopeTable)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attend {
    pub layer: KvLayerId,
    /// `[n, n_heads * head_dim]`; query head `i` reads KV head `i * n_kv_heads / n_heads`.
    pub q: TensorId,
    /// `[n, n_heads * value_dim]`
    pub out: TensorId,
    /// Scale of `q . k`.
    pub scale: f32,
    /// `cap * tanh(score / cap)` if not 0.
    pub softcap: f32,
    pub mask: Mask,
    /// `[n_heads]`; slope times distance is subtracted from scores: ALiBi (arXiv 2108.12409).
    pub slopes: Option<Vector>,
    /// `[n_heads, 2 * reach + 1]`, added to scores by key position minus query position, clamped to ±`reach` (T5).
    pub distances: Option<Vector>,
    /// `[n_heads]`, attention sinks: one more score in the softmax's sum, without a value.
    pub sinks: Option<Vector>,
    /// `[n, top]`, output of `Select`: a token with more than `top` positions attends only to these.
    pub among: Option<TensorId>,
    pub half: Option<Half>,
}

/// Half of a softmax over the keys of two layers. The tensor, `[n, n_heads]`, has base-2 logarithms of the sums of
/// exponentials so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// Writes the sums.
    First(TensorId),
    /// Continues from the sums and from the first half's `out`.
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
    /// Causal attention without bias terms.
    pub fn new(layer: KvLayerId, q: TensorId, out: TensorId, scale: f32) -> Attend {
        let (slopes, distances, sinks, among, half) = (None, None, None, None, None);
        Attend { layer, q, out, scale, softcap: 0.0, mask: Mask::Causal, slopes, distances, sinks, among, half }
    }
}

/// The lightning indexer (DeepSeek V3.2): selects the groups of positions, up to the token's own, with the largest `sum
/// over heads of weight * max(q . k, 0)` (ties: the first); outputs their positions in ascending order. Shorter rows
/// end with -1. If positions share keys, keys are counted and selected instead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Select {
    /// KV layer with one head of keys.
    pub layer: KvLayerId,
    /// `[n, heads * head_dim]`
    pub q: TensorId,
    /// `[n, heads]`
    pub weights: TensorId,
    /// `[n, top]`
    pub out: TensorId,
    pub groups: Groups,
}

/// The groups of positions that are selected together; a group starts at a multiple of its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Groups {
    /// `top` single positions.
    One,
    /// `top / n` groups of `n`, by the key of their last position; in addition all positions of the incomplete group.
    Pools(u32),
    /// `top / size` groups, by the best of their keys, always including the last `local` ones.
    Blocks { size: u32, local: u32 },
}

impl Groups {
    /// Returns the number of positions of a group.
    pub fn size(self) -> usize {
        match self {
            Groups::One => 1,
            Groups::Pools(size) | Groups::Blocks { size, .. } => size as usize,
        }
    }
}

/// The attention mask of a token. Spans of a step affect all masks except `Past`, `Chunk`, `All` and `Around`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// Positions up to the token's own, and later positions within its span.
    Causal,
    /// Positions up to the token's own.
    Past,
    /// The token's own position, the `n - 1` before it, and later positions within its span; `n > 0`.
    Window(u32),
    /// Positions from the last multiple of `n` up to the token's own; `n > 0`.
    Chunk(u32),
    /// All positions of the sequence, whose tokens must all be in the step.
    All,
    /// Positions of `All` at most `n` away.
    Around(u32),
    /// Positions of the token's span, or of `All` if the span is empty.
    Spans,
    /// Positions of the token's span, or of `Past` if the span is empty: cross-attention to the rows of a source.
    Source,
    /// Positions of `Past` after the token's span, and the token's own: self-attention of a decoder.
    AfterSpan,
}

impl Mask {
    /// `Window`, or `Causal` for 0.
    pub fn window(n: usize) -> Mask {
        if n == 0 { Mask::Causal } else { Mask::Window(n as u32) }
    }

    /// `Around` for a window centered at the token, or `All` for 0.
    pub fn around(window: usize) -> Mask {
        if window == 0 { Mask::All } else { Mask::Around(window as u32 / 2) }
    }

    /// True if a token without a span attends to no later position.
    pub fn is_causal(self) -> bool {
        !matches!(self, Mask::All | Mask::Around(_) | Mask::Spans)
    }

    /// True if spans affect the mask.
    pub fn heeds_spans(self) -> bool {
        !matches!(self, Mask::Past | Mask::Chunk(_) | Mask::All | Mask::Around(_))
    }

    /// Returns the maximum number of positions up to its own that a token attends to; 0: unbounded, or later ones too.
    pub fn span(self) -> usize {
        match self {
            Mask::Causal | Mask::Past | Mask::All | Mask::Around(_) | Mask::Spans | Mask::Source | Mask::AfterSpan => 0,
            Mask::Window(n) | Mask::Chunk(n) => n as usize,
        }
    }
}

/// N-gram hash embedding: the ids of a token and its predecessors, each multiplied by the multiplier of its distance
/// modulo 2^64, are XORed; the result modulo a head's rows selects its row. At and before the last preceding `end`, and
/// before the sequence, ids count as `end`.
#[derive(Clone, PartialEq, Debug)]
pub struct EmbedNgrams {
    /// `[multipliers.len() - 1]`: the last token ids plus 1; 0: none.
    pub recurrent: RecurrentId,
    /// `[rows, width]`
    pub table: Weight,
    /// `[n, heads.len() * width]`
    pub out: TensorId,
    pub multipliers: Box<[u64]>,
    pub heads: Box<[NgramHead]>,
    pub end: u32,
}

/// A head of an n-gram embedding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NgramHead {
    /// Number of ids in a hash.
    pub n: usize,
    /// The head's first row in the table.
    pub first: u64,
    /// Number of the head's rows in the table.
    pub rows: u64,
}

/// A causal depthwise convolution, in place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conv {
    /// `[taps - 1, width]`: the last inputs.
    pub recurrent: RecurrentId,
    pub x: TensorId,
    /// `[taps, width]`, oldest input first.
    pub kernel: Vector,
    /// `[width]`
    pub bias: Option<Vector>,
    pub taps: usize,
    /// True to apply SiLU to the result.
    pub silu: bool,
}

/// Gated pooling of groups of positions, counted from position 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pool {
    /// Gates and values of the last tokens: `[size - 1, 2 * width]`, or `[2 * size - 1, 2 * width]` if groups overlap.
    pub recurrent: RecurrentId,
    /// As wide as `out`, or twice as wide if groups overlap: each sum then reads the first half of the previous group's
    /// rows, and the second half of its own group's rows.
    pub gate: TensorId,
    pub x: TensorId,
    /// `[size, width]`
    pub bias: Vector,
    pub out: TensorId,
    pub size: usize,
}

/// The gated delta rule (arXiv 2412.06464); each of `heads` value heads has a matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeltaRule {
    /// The matrices S, `[heads, key_dim, value_dim]`, in the device's order.
    pub recurrent: RecurrentId,
    /// `[n, key_heads * key_dim]`
    pub q: TensorId,
    pub k: TensorId,
    /// `[n, heads * value_dim]`
    pub v: TensorId,
    /// `[n, heads]`, or `[n, heads * key_dim]` with a decay for each row of S.
    pub dt: TensorId,
    /// `[n, heads]`
    pub beta: TensorId,
    /// `[n, heads * value_dim]`
    pub out: TensorId,
    /// `[heads]`
    pub rate: Vector,
    pub key_dim: usize,
    /// True if head `h` reads key head `h % key_heads`, false if `h * key_heads / heads`.
    pub tiled: bool,
}

/// The selective scan of Mamba, with a decay per head (arXiv 2405.21060), or per channel and state (arXiv 2312.00752).
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
    /// `[heads]`, or `[state, heads]` if heads are single channels.
    pub rate: Vector,
    /// `[heads]`
    pub skip: Vector,
    pub state: usize,
}

/// The recurrence of RWKV 6 and 7 (arXiv 2404.05892, 2503.14456): a matrix per head, with a decay per row.
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
    /// `a` and `b`, `[n, heads * dim]`: adds `b (S^T a)^T` for the S before the token.
    pub moved: Option<[TensorId; 2]>,
    /// `[n, heads * dim]`
    pub out: TensorId,
    pub dim: usize,
    /// True if `out` uses the S before the token.
    pub before: bool,
    /// True to scale `k` by `1 - w`.
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
    /// `silu(min(gate, n)) * min(max(up, -n), n)`; without `up` the factor is 1.
    SwigluOfClamped(f32),
    /// `min(silu(gate), n) * min(max(up, -n), n)`; without `up` the factor is 1.
    SwigluThenClamped(f32),
    /// `m tanh(gate / m) sigmoid(gate) * n tanh(up / n)`, with `up` as the last factor for an `n` of 0; without `up`
    /// the factor is 1.
    TanhSwiglu([f32; 2]),
}

/// Weighted sums of streams, with weights per token.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    pub x: TensorId,
    /// `[n, streams of out * streams of x]`; `None`: all 1.
    pub by: Option<TensorId>,
    pub out: TensorId,
    /// Number of values of a stream.
    pub width: usize,
    /// Index of the first value written in `out`.
    pub first: usize,
    /// True to add the sums to `out`.
    pub adds: bool,
}

/// xIELU (arXiv 2411.13010): `rise * x^2 + slope * x` for `x > 0`, otherwise `fall * (e^min(x, eps) - 1 - x) + slope *
/// x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Xielu {
    pub rise: f32,
    pub fall: f32,
    pub slope: f32,
    /// Maximum `x` of the exponential, at most 0.
    pub eps: f32,
}

/// The function from router scores to weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouterScore {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the selected experts.
    SoftmaxOfChosen,
    Sigmoid,
    /// `sqrt(ln(1 + e^x))`
    RootOfSoftplus,
    /// SparseMixer (arXiv 2409.12136): for each selection in turn, softmax over the remaining experts whose score
    /// differs from the best by at most 0.02 times the larger magnitude of both.
    SparseMixer,
}

/// MoE routing: from router scores to weights of the selected experts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Routing {
    pub score: RouterScore,
    /// Number of experts per token.
    pub n_used: usize,
    /// `[n_experts]`, added to the weights only for the selection.
    pub bias: Option<Vector>,
    /// `[ids, n_used]`: experts selected by token id instead of scores.
    pub by_id: Option<Vector>,
    /// Group-limited routing: experts are selected from the `groups_used` groups with the largest sums of their two
    /// best weights.
    pub groups: usize,
    pub groups_used: usize,
    /// True to divide the selected weights by their sum.
    pub renormalize: bool,
    /// Scale of the weights.
    pub scale: f32,
    /// True if weights multiply the input of an expert, not its output.
    pub on_input: bool,
    /// Number of experts with the same matrices: expert `i` has matrix `i / sharing`.
    pub sharing: usize,
}

impl Routing {
    /// Routing to the `n_used` best experts, optionally with weights renormalized to sum 1.
    pub fn new(score: RouterScore, n_used: usize, renormalize: bool) -> Routing {
        let (bias, by_id, groups, groups_used, scale, on_input, sharing) = (None, None, 1, 1, 1.0, false, 1);
        Routing { score, n_used, bias, by_id, groups, groups_used, renormalize, scale, on_input, sharing }
    }
}

/// Stacked experts: `gate` and `up` are `[stack * ffn, hidden]`, `down` is `[stack * hidden, ffn]`. If `gate` and `up`
/// are one matrix, `[stack * 2 * ffn, hidden]`, the gate rows of an expert precede its up rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Experts {
    pub x: TensorId,
    pub scores: TensorId,
    pub out: TensorId,
    /// `None`: an expert is `down(activation(up x))`.
    pub gate: Option<Weight>,
    pub up: Weight,
    pub down: Weight,
    /// `[stack * ffn]` of gate and up, `[stack * hidden]` of down.
    pub biases: [Option<Vector>; 3],
    /// `[stack]` of gate, up and down: scales of the products, applied before the bias.
    pub scales: [Option<Vector>; 3],
    /// `[stack * hidden]` of gate and up, `[stack * ffn]` of down: column order of an expert's matrix, as indices into
    /// its input (`by` of `Op::Gather`).
    pub orders: [Option<Vector>; 3],
    pub n_experts: usize,
    pub ffn: usize,
    pub routing: Routing,
    pub activation: Activation,
}

/// Experts on the host, with the device's activations; the weights are indices in the host's program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnHost {
    pub experts: Experts,
    /// Index of the expert op on the host.
    pub number: usize,
    /// Size in bytes of the pieces copied to the device.
    pub piece: usize,
}

impl Experts {
    /// Returns the number of experts with matrices of their own.
    pub fn stack(&self) -> usize {
        self.n_experts / self.routing.sharing
    }
}
