//! A network as a list of ops: built once a model, immutable after it, the same for every device.
//!
//! While a program is built each activation is a value of its own. `finish` then decides which of them share a buffer,
//! from the first op to the last that names each, and where the rows of a prompt that no output needs are dropped.

use std::cmp::Reverse;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::graph::op::{Index, KvLayerId, Mask, Op, RecurrentId, TensorId, Vector, Weight};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::Weights;

/// Bounds of recurrent ops, within which kernels keep what they need of a token on the stack.
pub const MAX_TAPS: usize = 16;
pub const MAX_KEY_DIM: usize = 256;

/// The widths of recurrent matrices are multiples of this, so that devices read whole vectors.
pub const STATE_ALIGN: usize = 16;

/// Width of an activation, and the buffer it lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    pub width: usize,
    pub buffer: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub ops: Vec<Op>,
    /// The ops of each layer; embeddings stand before the first, the head after the last.
    pub layers: Vec<Range<usize>>,
    /// Widths of the activations, by `TensorId`.
    pub acts: Vec<TensorSpec>,
    /// Width of each buffer, that of the widest activation in it.
    pub buffers: Vec<usize>,
    /// Keys and values of a sequence, by `KvLayerId`.
    pub kv_layers: Vec<KvLayer>,
    /// Number of values of each recurrent state of a sequence, by `RecurrentId`.
    pub recurrent: Vec<usize>,
    /// Width of the logits; 0 in a program without a head.
    pub vocab: usize,
    /// Token ids and positions below these have a row in every table that they are looked up in.
    pub max_ids: usize,
    pub max_positions: usize,
    /// Activations that the caller reads, or reads and writes.
    pub kept: Vec<TensorId>,
}

/// Collects the ops of a program.
#[derive(Clone, Default)]
pub struct ProgramBuilder {
    ops: Vec<Op>,
    layers: Vec<Range<usize>>,
    widths: Vec<usize>,
    kv_layers: Vec<KvLayer>,
    recurrent: Vec<usize>,
    inputs: Vec<TensorId>,
    results: Vec<TensorId>,
}

impl ProgramBuilder {
    /// A new activation.
    pub fn act(&mut self, width: usize) -> TensorId {
        self.widths.push(width);
        TensorId(self.widths.len() as u32 - 1)
    }

    /// Has the caller write an activation, and no more.
    pub fn input(&mut self, act: TensorId) {
        self.inputs.push(act);
    }

    /// Has the caller read an activation of the rows that are left at the end.
    pub fn result(&mut self, act: TensorId) {
        self.results.push(act);
    }

    pub fn width(&self, act: TensorId) -> usize {
        self.widths[act.0 as usize]
    }

    /// A layer of keys and values.
    pub fn kv_layer(&mut self, layer: KvLayer) -> KvLayerId {
        self.kv_layers.push(layer);
        KvLayerId(self.kv_layers.len() as u32 - 1)
    }

    /// A recurrent state of so many values.
    pub fn recurrent(&mut self, values: usize) -> RecurrentId {
        self.recurrent.push(values);
        RecurrentId(self.recurrent.len() as u32 - 1)
    }

    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Takes the last op back if it is the head.
    pub fn drop_head(&mut self) {
        self.ops.pop_if(|op| matches!(op, Op::Logits { .. }));
    }

    /// The last op if it is the head.
    pub fn head(&self) -> Option<&Op> {
        self.ops.last().filter(|op| matches!(op, Op::Logits { .. }))
    }

    /// Counts the ops pushed since `start_layer` as a layer.
    pub fn end_layer(&mut self, start: usize) {
        self.layers.push(start..self.ops.len());
    }

    /// Has all rows go as far as the head.
    pub fn keep_rows(&mut self) {
        let Some(mut head) = self.head().cloned() else { return };
        self.drop_head();
        let mut moves = Vec::new();
        head.map_acts(|x| {
            let output = self.act(self.width(x));
            moves.push([x, output]);
            output
        });
        self.push(Op::KeepOutputs { moves: moves.into() });
        self.push(head);
    }

    /// The number of ops so far.
    pub fn position(&self) -> usize {
        self.ops.len()
    }

    /// The program. `kept`: activations that the caller writes, or reads of all rows, which share no buffer.
    pub fn finish(mut self, vocab: usize, kept: &[TensorId]) -> Program {
        self.drop_rows(&[kept, &self.inputs].concat());
        let kept = [kept, &self.results].concat();
        let lives = self.lives(&[&kept[..], &self.inputs].concat());
        let (acts, buffers) = self.assign(&lives);
        let (mut max_ids, mut max_positions) = (usize::MAX, usize::MAX);
        for op in &self.ops {
            match op {
                Op::Embed { rows, index: Index::Id, .. } => max_ids = max_ids.min(*rows),
                Op::Embed { rows, index: Index::Position, .. } => max_positions = max_positions.min(*rows),
                _ => {}
            }
        }
        let ProgramBuilder { ops, layers, kv_layers, recurrent, .. } = self;
        Program { ops, layers, acts, buffers, kv_layers, recurrent, vocab, max_ids, max_positions, kept }
    }

    /// The range from the first to the last op that names each activation; empty for those that none does. Keys and
    /// values last until the attention after them, which a device may execute together with their storing.
    fn lives(&self, kept: &[TensorId]) -> Vec<Range<usize>> {
        let mut lives = vec![0..0; self.widths.len()];
        for (i, op) in self.ops.iter().enumerate() {
            op.for_each_act(|act| {
                let life = &mut lives[act.0 as usize];
                *life = if life.end == 0 { i..i + 1 } else { life.start..i + 1 };
            });
        }
        for (i, op) in self.ops.iter().enumerate() {
            let Op::StoreKv { k, v, .. } = op else { continue };
            let attends = |op: &Op| matches!(op, Op::Attend(_));
            let Some(ahead) = self.ops[i + 1..].iter().take(2).position(attends) else { continue };
            for act in [Some(*k), *v].into_iter().flatten() {
                let life = &mut lives[act.0 as usize];
                life.end = life.end.max(i + ahead + 2);
            }
        }
        kept.iter().for_each(|act| lives[act.0 as usize] = 0..self.ops.len());
        lives
    }

    /// Puts `KeepOutputs`, unless it is there, after the last op that writes what a sequence remembers: later ops of
    /// other tokens have no effect.
    fn drop_rows(&mut self, kept: &[TensorId]) {
        let head = self.ops.len().saturating_sub(1);
        let is_kept = self.ops.iter().any(|op| matches!(op, Op::KeepOutputs { .. }));
        if is_kept || !matches!(self.ops.get(head), Some(Op::Logits { .. })) {
            return;
        }
        let at = self.ops.iter().rposition(Op::writes_state).map_or(head, |last| last + 1);
        let (before, behind) = (named(&self.ops[..at]), named(&self.ops[at..]));
        let mut moves = Vec::new();
        for from in behind.into_iter().filter(|act| before.contains(act) || kept.contains(act)) {
            moves.push([from, self.act(self.width(from))]);
        }
        let moved = |act| moves.iter().find(|[from, _]| *from == act).map_or(act, |[_, to]| *to);
        self.ops[at..].iter_mut().for_each(|op| op.map_acts(moved));
        self.ops.insert(at, Op::KeepOutputs { moves: moves.into() });
        for layer in &mut self.layers {
            layer.start += usize::from(layer.start >= at);
            layer.end += usize::from(layer.end >= at);
        }
    }

    /// Gives each activation the free buffer that is widened least, in the order of their first ops.
    fn assign(&self, lives: &[Range<usize>]) -> (Vec<TensorSpec>, Vec<usize>) {
        let mut acts = vec![TensorSpec { width: 0, buffer: 0 }; lives.len()];
        // Width of each buffer, and the op from which on it is free.
        let mut buffers: Vec<(usize, usize)> = Vec::new();
        let mut order: Vec<usize> = (0..lives.len()).filter(|&i| lives[i].end > 0).collect();
        order.sort_by_key(|&i| lives[i].start);
        for i in order {
            let (width, life) = (self.widths[i], &lives[i]);
            let free = (0..buffers.len()).filter(|&b| buffers[b].1 <= life.start);
            // Among those that are wide enough the narrowest, else the widest; of these the one in use last, which the
            // processor still has in its cache.
            let buffer = free.min_by_key(|&b| {
                let (have, since) = buffers[b];
                let fit = if have >= width { (0, have - width) } else { (1, width - have) };
                (fit, Reverse(since))
            });
            let buffer = buffer.unwrap_or_else(|| {
                buffers.push((0, 0));
                buffers.len() - 1
            });
            buffers[buffer] = (buffers[buffer].0.max(width), life.end);
            acts[i] = TensorSpec { width, buffer };
        }
        (acts, buffers.into_iter().map(|(width, _)| width).collect())
    }
}

/// The activations of some ops, sorted.
fn named(ops: &[Op]) -> Vec<TensorId> {
    let mut acts = Vec::new();
    ops.iter().for_each(|op| op.for_each_act(|act| acts.push(act)));
    acts.sort_unstable();
    acts.dedup();
    acts
}

/// True where rows of such widths are whole numbers of heads.
fn heads_fit(widths: &[usize], heads: usize) -> bool {
    heads > 0 && widths.iter().all(|width| width.is_multiple_of(heads))
}

/// Refuses with a message about an op that does not fit its operands.
fn expect(holds: bool, op: &Op, what: impl FnOnce() -> String) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::Mismatch(format!("{}: {op:?}", what()))),
    }
}

impl Program {
    pub fn width(&self, act: TensorId) -> usize {
        self.acts.get(act.0 as usize).map_or(0, |spec| spec.width)
    }

    /// Activations that ops before `at` and ops from there on name.
    pub fn live(&self, at: usize) -> Vec<TensorId> {
        let behind = named(&self.ops[at..]);
        named(&self.ops[..at]).into_iter().filter(|act| behind.binary_search(act).is_ok()).collect()
    }

    /// True for a matrix whose rows are looked up and by which nothing is multiplied.
    pub fn is_table(&self, weight: Weight) -> bool {
        let mut product = false;
        self.ops.iter().for_each(|op| op.for_each_product(|w| product |= w == weight));
        !product
    }

    /// True where some ops read or write what a sequence remembers.
    pub fn remembers(&self, ops: Range<usize>) -> bool {
        let remembers = |mut op: Op| op.layer_mut().is_some() || op.recurrent_mut().is_some();
        self.ops[ops].iter().any(|op| remembers(op.clone()))
    }

    /// Some ops as a program of their own, with the same activations, and the matrices that it needs, in the order of
    /// its handles. Refused where its ops share keys and values with those before or after.
    pub fn part(&self, ops: Range<usize>) -> Result<(Program, Vec<Weight>)> {
        let stored = |ops: &mut [Op]| {
            let mut used: Vec<KvLayerId> = ops.iter_mut().filter_map(|op| op.layer_mut().copied()).collect();
            used.sort_unstable();
            used.dedup();
            used
        };
        let mut part = self.clone();
        let mine = stored(&mut part.ops[ops.clone()]);
        let others = [stored(&mut part.ops[..ops.start]), stored(&mut part.ops[ops.end..])].concat();
        if mine.iter().any(|layer| others.contains(layer)) {
            return Err(Error::unsupported("the layers share keys and values, and cannot be divided"));
        }
        part.ops = part.ops.drain(ops).collect();
        let mut weights = Vec::new();
        for op in &mut part.ops {
            op.map_weights(|weight| {
                let known = weights.iter().position(|&w| w == weight);
                Weight(known.unwrap_or_else(|| {
                    weights.push(weight);
                    weights.len() - 1
                }) as u32)
            });
            if let Some(layer) = op.layer_mut() {
                layer.0 = mine.binary_search(layer).unwrap_or_default() as u32;
            }
        }
        part.kv_layers = mine.iter().map(|layer| self.kv_layers[layer.0 as usize]).collect();
        let mut used: Vec<RecurrentId> = part.ops.iter_mut().filter_map(|op| op.recurrent_mut().copied()).collect();
        used.sort_unstable();
        for recurrent in part.ops.iter_mut().filter_map(Op::recurrent_mut) {
            recurrent.0 = used.binary_search(recurrent).unwrap_or_default() as u32;
        }
        part.recurrent = used.iter().map(|state| self.recurrent[state.0 as usize]).collect();
        part.layers = Vec::new();
        if !part.ops.iter().any(|op| matches!(op, Op::Logits { .. })) {
            part.vocab = 0;
        }
        Ok((part, weights))
    }

    /// The largest room of caches at which a rotation still uses its first table.
    pub fn long_rope_above(&self) -> Option<usize> {
        self.ops.iter().find_map(|op| match op {
            Op::Rope { rope, .. } => rope.long.map(|(above, _)| above),
            _ => None,
        })
    }

    /// True where no token sees one after it.
    pub fn is_causal(&self) -> bool {
        self.ops.iter().all(|op| !matches!(op, Op::Attend(a) if !a.mask.is_causal()))
    }

    /// Values of scratch that a token takes.
    pub fn scratch_width(&self) -> usize {
        let experts = self.ops.iter().map(|op| match op {
            Op::Experts(e) => 2 * (self.width(e.x) + e.ffn),
            _ => 0,
        });
        self.buffers.iter().sum::<usize>() + experts.max().unwrap_or(0)
    }

    /// Width of the widest input of a product.
    pub fn widest_input(&self) -> usize {
        let width = |op: &Op| match op {
            Op::Project { x, .. } | Op::Logits { x, .. } => self.width(*x),
            Op::Experts(e) => self.width(e.x).max(e.ffn),
            _ => 0,
        };
        self.ops.iter().map(width).max().unwrap_or(0)
    }

    /// Compares every op with the shapes of its operands, so that executors need not.
    pub fn check(&self, weights: &Weights) -> Result<()> {
        let width = |act: TensorId| self.width(act);
        let vector = |v, len: usize| weights.vector(v).map(|values| values.len() == len);
        let bias = |v: Option<_>, len| v.map_or(Ok(true), |v| vector(v, len));
        let mut kept = false;
        let mut advanced = vec![false; self.recurrent.len()];
        for op in &self.ops {
            if let Some(state) = op.clone().recurrent_mut() {
                self.recurrent(*state, op)?;
                let before = std::mem::replace(&mut advanced[state.0 as usize], true);
                expect(!before, op, || format!("{state:?} advanced twice"))?;
            }
            // Rows are tokens until outputs are kept: these ops read or write what belongs to a token.
            let by_token = op.writes_state() || matches!(op, Op::Embed { .. } | Op::KeepOutputs { .. });
            expect(!(kept && by_token), op, || "tokens for rows that are outputs".to_owned())?;
            expect(kept || !matches!(op, Op::Logits { .. }), op, || "logits for rows that are no outputs".to_owned())?;
            kept |= matches!(op, Op::KeepOutputs { .. });
            let mut known = true;
            op.for_each_act(|act| known &= width(act) > 0);
            expect(known, op, || "an activation without a width".to_owned())?;
            match op {
                Op::Embed { table, rows, out: x, .. } => {
                    let shape = weights.shape(*table)?;
                    expect(*rows > 0 && shape == (*rows, width(*x)), op, || format!("a table of {shape:?}"))?;
                }
                Op::Norm { norm, x, out } => {
                    let group = norm.group;
                    let fits = group > 0 && width(*x).is_multiple_of(group) && width(*x) == width(*out);
                    let wide = |v: Option<Vector>| Ok::<_, Error>(bias(v, group)? || bias(v, width(*x))?);
                    let fits = fits && wide(norm.weight)? && wide(norm.bias)?;
                    expect(fits, op, || format!("a norm of rows of {}", width(*x)))?;
                }
                Op::Add { x, delta, .. } => {
                    let fits = width(*x) == width(*delta) && x != delta;
                    expect(fits, op, || format!("a sum of rows of {} and {}", width(*x), width(*delta)))?;
                }
                Op::Scale { .. } | Op::Clamp { .. } => {}
                Op::ScaleColumns { x, by } => {
                    expect(vector(*by, width(*x))?, op, || format!("factors for {} values", width(*x)))?;
                }
                Op::ScaleByPosition { length, .. } => expect(*length > 0, op, || "a length of 0".to_owned())?,
                Op::Project { x, projections } => {
                    for (i, p) in projections.iter().enumerate() {
                        let (rows, cols) = weights.shape(p.weight)?;
                        let fits = cols == width(*x) && rows == width(p.out) && bias(p.bias, rows)?;
                        expect(fits, op, || format!("{rows} by {cols} for {} to {}", width(*x), width(p.out)))?;
                        let alone = p.out != *x && projections[..i].iter().all(|other| other.out != p.out);
                        expect(alone, op, || format!("{:?} twice in one op", p.out))?;
                    }
                }
                Op::ProjectHeads { x, weight, heads, out } => {
                    let (rows, cols) = weights.shape(*weight)?;
                    let [from, to] = [*x, *out].map(|act| width(act).checked_div(*heads).unwrap_or(0));
                    let fits = heads_fit(&[width(*x), width(*out), rows], *heads)
                        && from >= cols
                        && to == rows / heads + from - cols
                        && x != out;
                    expect(fits, op, || format!("{rows} by {cols} for heads of {from} to {to}"))?;
                }
                Op::JoinHeads { x, tail, heads, out } => {
                    let fits = heads_fit(&[width(*x), width(*out)], *heads)
                        && width(*out) / heads == width(*x) / heads + width(*tail)
                        && ![x, tail].contains(&out);
                    expect(fits, op, || format!("{heads} heads of {} and {}", width(*x), width(*tail)))?;
                }
                Op::Slice { x, first, out } => {
                    let fits = first.checked_add(width(*out)).is_some_and(|end| end <= width(*x)) && x != out;
                    expect(fits, op, || format!("{} values of {}", width(*out), width(*x)))?;
                }
                Op::Rope { rope, head_dim, first, q, k } => {
                    let tables = [Some(rope.table), rope.long.map(|(_, table)| table)];
                    for table in tables.into_iter().flatten() {
                        let pairs = weights.rope(table)?.inv_freq.len();
                        let fits = first.checked_add(2 * pairs).is_some_and(|end| end <= *head_dim);
                        expect(fits, op, || format!("{pairs} pairs for heads of {head_dim}"))?;
                    }
                    let fits = |act: TensorId| *head_dim > 0 && width(act).is_multiple_of(*head_dim);
                    expect(fits(*q) && k.is_none_or(|k| fits(k) && k != *q), op, || "heads of a rotation".to_owned())?;
                }
                Op::StoreKv { layer, k, v } => {
                    let layer = self.layer(*layer, op)?;
                    let values = if layer.is_latent { None } else { Some(layer.value_width()) };
                    let fits = (width(*k), v.map(width)) == (layer.key_width(), values) && Some(*k) != *v;
                    expect(fits, op, || format!("keys of {} for a cache of {}", width(*k), layer.key_width()))?;
                }
                Op::KeepOutputs { moves } => {
                    let fits = moves.iter().all(|[from, to]| width(*from) == width(*to) && from != to);
                    expect(fits, op, || "rows of different widths".to_owned())?;
                }
                Op::Attend(a) => {
                    let KvLayer { n_kv_heads, head_dim, value_dim, window, .. } = self.layer(a.layer, op)?;
                    let fits = (a.mask.is_causal() || window == 0)
                        && width(a.q).is_multiple_of(head_dim)
                        && width(a.q) >= n_kv_heads * head_dim
                        && width(a.out) == width(a.q) / head_dim * value_dim
                        && a.q != a.out
                        && (window == 0 || (1..=window).contains(&a.mask.span()))
                        && !matches!(a.mask, Mask::Window(0) | Mask::Chunk(0))
                        && bias(a.slopes, width(a.q) / head_dim)?
                        && bias(a.sinks, width(a.q) / head_dim)?;
                    expect(fits, op, || format!("queries of {} values", width(a.q)))?;
                }
                Op::Conv(c) => {
                    let wide = width(c.x);
                    let fits = (2..=MAX_TAPS).contains(&c.taps)
                        && self.recurrent(c.recurrent, op)? == (c.taps - 1) * wide
                        && vector(c.kernel, c.taps * wide)?
                        && bias(c.bias, wide)?;
                    expect(fits, op, || format!("a convolution of {} taps over {wide}", c.taps))?;
                }
                Op::DeltaRule(d) => {
                    let (heads, keys, values, dim) = (width(d.beta), width(d.k), width(d.v), d.key_dim);
                    let fits = (1..=MAX_KEY_DIM).contains(&dim)
                        && keys.is_multiple_of(dim)
                        && heads.is_multiple_of(keys / dim)
                        && values.is_multiple_of(heads * STATE_ALIGN)
                        && (width(d.q), width(d.out)) == (keys, values)
                        && [heads, heads * dim].contains(&width(d.dt))
                        && ![d.q, d.k, d.v, d.dt, d.beta].contains(&d.out)
                        && self.recurrent(d.recurrent, op)? == values.saturating_mul(dim)
                        && vector(d.rate, heads)?;
                    expect(fits, op, || format!("a delta rule of {heads} heads over {values} values"))?;
                }
                Op::Scan(s) => {
                    let (heads, wide, groups) = (width(s.dt), width(s.x), width(s.b) / s.state.max(1));
                    let per_channel = heads == wide && vector(s.rate, heads.saturating_mul(s.state))?;
                    let fits = groups > 0
                        && width(s.b) == groups * s.state
                        && heads.is_multiple_of(groups)
                        && wide.is_multiple_of(heads)
                        && wide.is_multiple_of(groups * STATE_ALIGN)
                        && (width(s.c), width(s.out)) == (width(s.b), wide)
                        && ![s.x, s.dt, s.b, s.c].contains(&s.out)
                        && self.recurrent(s.recurrent, op)? == wide.saturating_mul(s.state)
                        && (per_channel || vector(s.rate, heads)?)
                        && vector(s.skip, heads)?;
                    expect(fits, op, || format!("a scan of {heads} heads over {wide} values"))?;
                }
                Op::Glu { gate, up, .. } => {
                    let fits = up.is_none_or(|up| width(up) == width(*gate) && up != *gate);
                    expect(fits, op, || format!("a gate of {} values", width(*gate)))?;
                }
                Op::Gate { x, gate } => {
                    let fits = width(*x).is_multiple_of(width(*gate)) && x != gate;
                    expect(fits, op, || format!("a gate of {} values for {}", width(*gate), width(*x)))?;
                }
                Op::Experts(e) => {
                    let (n, hidden, ffn, r) = (e.n_experts, width(e.x), e.ffn, &e.routing);
                    let (inner, outer) = (n.saturating_mul(ffn), n.saturating_mul(hidden));
                    let both = if e.gate == Some(e.up) { 2 } else { 1 };
                    let gate = weights.shape(e.gate.unwrap_or(e.up))?;
                    let fits = [gate, weights.shape(e.up)?] == [(inner.saturating_mul(both), hidden); 2]
                        && weights.shape(e.down)? == (outer, ffn)
                        && (width(e.scores), width(e.out)) == (n, hidden)
                        && (1..=n).contains(&r.n_used)
                        && bias(r.bias, n)?
                        && (r.groups > 0 && n.is_multiple_of(r.groups) && (1..=r.groups).contains(&r.groups_used))
                        && r.n_used <= n / r.groups * r.groups_used
                        && bias(e.biases[0], inner)?
                        && bias(e.biases[1], inner)?
                        && bias(e.biases[2], outer)?
                        && e.scales.iter().try_fold(true, |fits, s| Ok::<_, Error>(fits && bias(*s, n)?))?
                        && e.x != e.out;
                    expect(fits, op, || format!("experts of {ffn} values over {hidden}"))?;
                }
                Op::Logits { x, head, bias: b, .. } => {
                    let fits = weights.shape(*head)? == (self.vocab, width(*x)) && bias(*b, self.vocab)?;
                    expect(fits, op, || format!("a head for {} logits of {}", self.vocab, width(*x)))?;
                }
            }
        }
        Ok(())
    }

    fn layer(&self, layer: KvLayerId, op: &Op) -> Result<KvLayer> {
        let found = self.kv_layers.get(layer.0 as usize).copied();
        found.ok_or_else(|| Error::Mismatch(format!("{layer:?} of {}: {op:?}", self.kv_layers.len())))
    }

    /// Number of values of a recurrent state.
    fn recurrent(&self, state: RecurrentId, op: &Op) -> Result<usize> {
        let values = self.recurrent.get(state.0 as usize).copied();
        values.ok_or_else(|| Error::Mismatch(format!("{state:?} of {}: {op:?}", self.recurrent.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::op::{Attend, Norm, NormKind, Projection};

    fn project(x: TensorId, outs: &[TensorId]) -> Op {
        Op::Project {
            x,
            projections: outs.iter().map(|&out| Projection { weight: Weight(1), bias: None, out }).collect(),
        }
    }

    /// One layer of attention over 8 values, a feed-forward block of 32, a head.
    fn network() -> Program {
        let mut b = ProgramBuilder::default();
        let x = b.act(8);
        let norm = |x, out| Op::Norm {
            norm: Norm { kind: NormKind::Rms, weight: Some(Vector(0)), bias: None, eps: 1e-5, group: 8 },
            x,
            out,
        };
        b.push(Op::Embed { table: Weight(0), rows: 10, index: Index::Id, scale: 1.0, out: x });
        let start = b.position();
        let [h, q, k, v, a, o] = [8, 8, 4, 4, 8, 8].map(|w| b.act(w));
        let layer = b.kv_layer(KvLayer::new(1, 4, 0));
        b.push(norm(x, h));
        b.push(project(h, &[q, k, v]));
        b.push(Op::StoreKv { layer, k, v: Some(v) });
        b.push(Op::Attend(Attend::new(layer, q, a, 1.0)));
        b.push(project(a, &[o]));
        b.push(Op::Add { x, delta: o, scale: 1.0 });
        let [h, g, o] = [8, 32, 8].map(|w| b.act(w));
        b.push(norm(x, h));
        b.push(project(h, &[g]));
        b.push(project(g, &[o]));
        b.push(Op::Add { x, delta: o, scale: 1.0 });
        b.end_layer(start);
        b.push(Op::Logits { x, head: Weight(0), bias: None, scale: 1.0, softcap: 0.0 });
        b.finish(10, &[])
    }

    #[test]
    fn rows_are_dropped_behind_the_last_write_of_a_cache() {
        let p = network();
        let at = p.ops.iter().position(|op| matches!(op, Op::KeepOutputs { .. })).unwrap();
        assert!(matches!(p.ops[at - 1], Op::StoreKv { .. }));
        let Op::KeepOutputs { moves } = &p.ops[at] else { unreachable!() };
        // The residual stream and the queries.
        assert_eq!(moves.iter().map(|[from, _]| p.width(*from)).collect::<Vec<_>>(), [8, 8]);
        for op in &p.ops[at + 1..] {
            op.for_each_act(|act| assert!(moves.iter().all(|[from, _]| *from != act), "{op:?}"));
        }
        assert_eq!((p.layers.len(), p.layers[0].clone()), (1, 1..p.ops.len() - 1));
    }

    #[test]
    fn activations_that_live_together_lie_apart() {
        let p = network();
        let mut lives = vec![(usize::MAX, 0); p.acts.len()];
        for (i, op) in p.ops.iter().enumerate() {
            op.for_each_act(|act| {
                let (first, last) = lives[act.0 as usize];
                lives[act.0 as usize] = (first.min(i), last.max(i));
            });
        }
        for a in 0..lives.len() {
            for b in 0..a {
                let together = lives[a].0 <= lives[b].1 && lives[b].0 <= lives[a].1;
                assert!(!together || p.acts[a].buffer != p.acts[b].buffer, "{a} and {b}");
            }
            assert!(p.buffers[p.acts[a].buffer] >= p.acts[a].width);
        }
        assert!(p.buffers.len() < p.acts.len());
    }

    #[test]
    fn the_residual_stream_alone_crosses_between_layers() {
        let p = network();
        assert_eq!(p.live(p.layers[0].start).len(), 1);
        assert!(!p.is_table(Weight(0)));
        let (middle, weights) = p.part(p.layers[0].clone()).unwrap();
        assert_eq!((weights, middle.kv_layers.len()), (vec![Weight(1)], 1));
        assert!(p.part(1..5).is_err());
    }
}
