//! A network as a list of ops: built once per model, immutable, equal for all devices.
//!
//! While a program is built, each activation is separate. `finish` assigns buffers by live range (from the first to the
//! last op that names an activation), and inserts the point where prompt rows without outputs are dropped.

use std::cmp::Reverse;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::graph::op::{Index, KvLayerId, Mask, OnHost, Op, RecurrentId, TensorId, Weight};
use crate::graph::sequence_spec::KvLayer;

/// Bounds of recurrent ops, so that kernels can keep a token's data on the stack.
pub const MAX_TAPS: usize = 16;
pub const MAX_KEY_DIM: usize = 256;

/// Maximum number of streams mixed by a matrix per token.
pub const MAX_STREAMS: usize = 16;

/// Widths of recurrent matrices are multiples of this, so that devices read whole vectors.
pub const STATE_ALIGN: usize = 16;

/// Width of an activation, and its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    pub width: usize,
    pub buffer: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub ops: Vec<Op>,
    /// The ops of each layer; embeddings precede the first, the head follows the last.
    pub layers: Vec<Range<usize>>,
    /// The activations, by `TensorId`.
    pub tensors: Vec<TensorSpec>,
    /// Width of each buffer, equal to its widest activation.
    pub buffers: Vec<usize>,
    /// The KV cache layers of a sequence, by `KvLayerId`.
    pub kv_layers: Vec<KvLayer>,
    /// Number of values of each recurrent state of a sequence, by `RecurrentId`.
    pub recurrent: Vec<usize>,
    /// Width of the logits; 0 without a head.
    pub vocab: usize,
    /// Exclusive bounds of token ids and of positions, from the rows of the lookup tables.
    pub max_ids: usize,
    pub max_positions: usize,
    /// Activations that the host reads, or reads and writes.
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
    pub fn tensor(&mut self, width: usize) -> TensorId {
        self.widths.push(width);
        TensorId(self.widths.len() as u32 - 1)
    }

    /// Marks an activation as written by the host.
    pub fn input(&mut self, tensor: TensorId) {
        self.inputs.push(tensor);
    }

    /// Marks an activation as read by the host, in the rows that remain at the end.
    pub fn result(&mut self, tensor: TensorId) {
        self.results.push(tensor);
    }

    pub fn width(&self, tensor: TensorId) -> usize {
        self.widths[tensor.0 as usize]
    }

    /// Adds a KV cache layer.
    pub fn kv_layer(&mut self, layer: KvLayer) -> KvLayerId {
        self.kv_layers.push(layer);
        KvLayerId(self.kv_layers.len() as u32 - 1)
    }

    /// Adds a recurrent state of `values` values.
    pub fn recurrent(&mut self, values: usize) -> RecurrentId {
        self.recurrent.push(values);
        RecurrentId(self.recurrent.len() as u32 - 1)
    }

    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Makes the ops from `start` on apply only to media rows.
    pub fn end_of_media(&mut self, start: usize) {
        self.ops.insert(start, Op::OfMedia { ops: self.ops.len() - start });
    }

    /// Removes the last op if it is the head.
    pub fn drop_head(&mut self) {
        self.ops.pop_if(|op| matches!(op, Op::Logits { .. }));
    }

    /// Returns the last op if it is the head.
    pub fn head(&self) -> Option<&Op> {
        self.ops.last().filter(|op| matches!(op, Op::Logits { .. }))
    }

    /// Makes the ops since `start` a layer.
    pub fn end_layer(&mut self, start: usize) {
        self.layers.push(start..self.ops.len());
    }

    /// Keeps all rows up to the head.
    pub fn keep_rows(&mut self) {
        let Some(mut head) = self.head().cloned() else { return };
        self.drop_head();
        let mut moves = Vec::new();
        head.map_tensors(|x| {
            let output = self.tensor(self.width(x));
            moves.push([x, output]);
            output
        });
        self.push(Op::KeepOutputs { moves: moves.into() });
        self.push(head);
    }

    /// Returns the number of ops so far.
    pub fn position(&self) -> usize {
        self.ops.len()
    }

    /// Builds the program. `kept`: activations that the host writes, or reads in all rows; they share no buffer.
    pub fn finish(mut self, vocab: usize, kept: &[TensorId]) -> Program {
        self.drop_rows(&[kept, &self.inputs].concat());
        let kept = [kept, &self.results].concat();
        let lives = self.lives(&[&kept[..], &self.inputs].concat());
        let (tensors, buffers) = self.assign(&lives);
        let (mut max_ids, mut max_positions) = (usize::MAX, usize::MAX);
        for op in &self.ops {
            let Op::Embed { rows, index, .. } = op else { continue };
            match index {
                Index::Id | Index::Token => max_ids = max_ids.min(*rows),
                Index::Position => max_positions = max_positions.min(*rows),
                Index::Zero => {}
            }
        }
        let ProgramBuilder { ops, layers, kv_layers, recurrent, .. } = self;
        Program { ops, layers, tensors, buffers, kv_layers, recurrent, vocab, max_ids, max_positions, kept }
    }

    /// Returns the range from the first to the last op that names each activation; empty if none does. Keys and values
    /// live until the attention after them, because a device may fuse both.
    fn lives(&self, kept: &[TensorId]) -> Vec<Range<usize>> {
        let mut lives = vec![0..0; self.widths.len()];
        for (i, op) in self.ops.iter().enumerate() {
            op.for_each_tensor(|tensor| {
                let life = &mut lives[tensor.0 as usize];
                *life = if life.end == 0 { i..i + 1 } else { life.start..i + 1 };
            });
        }
        for (i, op) in self.ops.iter().enumerate() {
            let Op::StoreKv { k, v, .. } = op else { continue };
            let attends = |op: &Op| matches!(op, Op::Attend(_));
            let Some(ahead) = self.ops[i + 1..].iter().take(2).position(attends) else { continue };
            for tensor in [Some(*k), *v].into_iter().flatten() {
                let life = &mut lives[tensor.0 as usize];
                life.end = life.end.max(i + ahead + 2);
            }
        }
        kept.iter().for_each(|tensor| lives[tensor.0 as usize] = 0..self.ops.len());
        lives
    }

    /// Inserts `KeepOutputs`, unless present, after the last op that depends on tokens: later ops affect only their own
    /// row.
    fn drop_rows(&mut self, kept: &[TensorId]) {
        let head = self.ops.len().saturating_sub(1);
        let is_kept = self.ops.iter().any(|op| matches!(op, Op::KeepOutputs { .. }));
        if is_kept || !matches!(self.ops.get(head), Some(Op::Logits { .. })) {
            return;
        }
        let at = self.ops.iter().rposition(Op::is_by_token).map_or(head, |last| last + 1);
        let (before, later) = (named(&self.ops[..at]), named(&self.ops[at..]));
        let mut moves = Vec::new();
        for from in later.into_iter().filter(|tensor| before.contains(tensor) || kept.contains(tensor)) {
            moves.push([from, self.tensor(self.width(from))]);
        }
        let moved = |tensor| moves.iter().find(|[from, _]| *from == tensor).map_or(tensor, |[_, to]| *to);
        self.ops[at..].iter_mut().for_each(|op| op.map_tensors(moved));
        self.ops.insert(at, Op::KeepOutputs { moves: moves.into() });
        for layer in &mut self.layers {
            layer.start += usize::from(layer.start >= at);
            layer.end += usize::from(layer.end >= at);
        }
    }

    /// Assigns each activation, in the order of first use, the free buffer that needs the least widening.
    fn assign(&self, lives: &[Range<usize>]) -> (Vec<TensorSpec>, Vec<usize>) {
        let mut tensors = vec![TensorSpec { width: 0, buffer: 0 }; lives.len()];
        // Width of each buffer, and the op after which it is free.
        let mut buffers: Vec<(usize, usize)> = Vec::new();
        let mut order: Vec<usize> = (0..lives.len()).filter(|&i| lives[i].end > 0).collect();
        order.sort_by_key(|&i| lives[i].start);
        for i in order {
            let (width, life) = (self.widths[i], &lives[i]);
            let free = (0..buffers.len()).filter(|&b| buffers[b].1 <= life.start);
            // The narrowest buffer that is wide enough, otherwise the widest; ties: the most recently used one, which
            // is still in the CPU's cache.
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
            tensors[i] = TensorSpec { width, buffer };
        }
        (tensors, buffers.into_iter().map(|(width, _)| width).collect())
    }
}

/// The activations of some ops, sorted.
fn named(ops: &[Op]) -> Vec<TensorId> {
    let mut tensors = Vec::new();
    ops.iter().for_each(|op| op.for_each_tensor(|tensor| tensors.push(tensor)));
    tensors.sort_unstable();
    tensors.dedup();
    tensors
}

impl Program {
    pub fn width(&self, tensor: TensorId) -> usize {
        self.tensors.get(tensor.0 as usize).map_or(0, |spec| spec.width)
    }

    /// Returns the ops that name each activation.
    pub fn ops_of_tensors(&self) -> Vec<Vec<usize>> {
        let mut ops = vec![Vec::new(); self.tensors.len()];
        for (i, op) in self.ops.iter().enumerate() {
            op.for_each_tensor(|tensor| ops[tensor.0 as usize].push(i));
        }
        ops
    }

    /// Activations named both before op `at` and from it on.
    pub fn live(&self, at: usize) -> Vec<TensorId> {
        let later = named(&self.ops[at..]);
        named(&self.ops[..at]).into_iter().filter(|tensor| later.binary_search(tensor).is_ok()).collect()
    }

    /// True for a matrix that is only looked up, never multiplied.
    pub fn is_table(&self, weight: Weight) -> bool {
        let mut product = false;
        self.ops.iter().for_each(|op| op.for_each_product(|w| product |= w == weight));
        !product
    }

    /// True if some ops use the KV cache or recurrent states.
    pub fn remembers(&self, ops: Range<usize>) -> bool {
        let remembers = |mut op: Op| op.layer_mut().is_some() || op.recurrent_mut().is_some();
        self.ops[ops].iter().any(|op| remembers(op.clone()))
    }

    /// Returns a program of only these ops, with the same activations, and the matrices that it needs, in handle order.
    /// Fails if the ops share a KV cache with other ops.
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

    /// Returns the same network, which also keeps the inputs of some layers, `width` values each, in the order of
    /// `layers`. The result for a list is a prefix of the result for a longer one. A layer number equal to the number
    /// of layers means the input of the head, in output rows only.
    pub fn observing(&self, layers: &[usize], width: usize) -> Result<(Program, Vec<TensorId>)> {
        let mut program = self.clone();
        let (mut kept, mut copies) = (Vec::new(), Vec::new());
        for &layer in layers {
            if let Some(Op::Logits { x, .. }) = self.ops.last().filter(|_| layer == self.layers.len()) {
                kept.push(*x);
                continue;
            }
            let Some(Range { start: at, .. }) = self.layers.get(layer).cloned() else {
                return Err(Error::unsupported(format!(
                    "the input of layer {layer} of {} does not exist",
                    self.layers.len()
                )));
            };
            let mut states = self.live(at).into_iter().filter(|tensor| self.width(*tensor) == width);
            let spans = |(i, op): (usize, &Op)| matches!(op, Op::OfMedia { ops } if i + ops >= at);
            let is_whole = !self.ops[..at].iter().any(|op| matches!(op, Op::KeepOutputs { .. }));
            let (Some(x), None, true, false) =
                (states.next(), states.next(), is_whole, self.ops[..at].iter().enumerate().any(spans))
            else {
                let what = format!("the input of layer {layer} of this network, as hidden states of {width} values");
                return Err(Error::unsupported(what));
            };
            let out = TensorId(program.tensors.len() as u32);
            program.tensors.push(TensorSpec { width, buffer: program.buffers.len() });
            program.buffers.push(width);
            kept.push(out);
            copies.push((at, Op::Slice { x, first: 0, out }));
        }
        program.kept.extend(&kept);
        // Descending, so that indices stay valid.
        copies.sort_by_key(|(at, _)| Reverse(*at));
        for (at, copy) in copies {
            program.ops.insert(at, copy);
            for layer in &mut program.layers {
                layer.start += usize::from(layer.start > at);
                layer.end += usize::from(layer.end > at);
            }
        }
        Ok((program, kept))
    }

    /// Returns a copy of this program that reads the KV cache of `other`: its sliding-window layers read the last
    /// sliding-window layer of `other`, its full-attention layers the last full-attention layer.
    pub fn with_kv_of(&self, other: &Program) -> Result<Program> {
        let mut program = self.clone();
        let mut places = Vec::new();
        for layer in &self.kv_layers {
            let last = other.kv_layers.iter().rposition(|of| (of.window > 0) == (layer.window > 0));
            let found = last.map(|last| other.kv_layers[last]);
            if found != Some(*layer) {
                let describe = |KvLayer { n_kv_heads, head_dim, window, .. }| {
                    format!("{n_kv_heads} heads of {head_dim} values and a window of {window}")
                };
                let found = found.map_or("none".to_owned(), describe);
                let what =
                    format!("keys and values of {} are read, the last of such layers has {found}", describe(*layer));
                return Err(Error::Mismatch(what));
            }
            places.extend(last.map(|last| KvLayerId(last as u32)));
        }
        for layer in program.ops.iter_mut().filter_map(Op::layer_mut) {
            *layer = places[layer.0 as usize];
        }
        (program.kv_layers, program.recurrent) = (other.kv_layers.clone(), other.recurrent.clone());
        Ok(program)
    }

    /// True if RoPE uses the long-context table for this context length.
    pub fn is_long(&self, capacity: usize) -> bool {
        self.ops
            .iter()
            .any(|op| matches!(op, Op::Rope { rope, .. } if rope.long.is_some_and(|(above, _)| capacity > above)))
    }

    /// True if no token attends to a later one.
    pub fn is_causal(&self) -> bool {
        self.ops.iter().all(|op| !matches!(op, Op::Attend(a) if !a.mask.is_causal()))
    }

    /// Returns the ops that apply only to media rows, after `OfMedia`; empty if there are none.
    pub fn of_media(&self) -> Range<usize> {
        let range = |(at, op): (usize, &Op)| match op {
            Op::OfMedia { ops } => Some(at + 1..at + 1 + ops),
            _ => None,
        };
        self.ops.iter().enumerate().find_map(range).unwrap_or_default()
    }

    /// True if tokens attend to the rows of a source.
    pub fn reads_source(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Attend(a) if a.mask == Mask::Source))
    }

    /// True if ops read token ids, which media rows do not have.
    pub fn reads_ids(&self) -> bool {
        self.ops.iter().any(Op::reads_ids)
    }

    /// Returns the minimum number of values of a media row.
    pub fn media_width(&self) -> usize {
        self.ops.iter().map(|op| op.media_width(|tensor| self.width(tensor))).max().unwrap_or(0)
    }

    /// Returns the number of scratch values per token.
    pub fn scratch_width(&self) -> usize {
        let experts = self.ops.iter().map(|op| match op {
            Op::Experts(e) => 2 * (self.width(e.x) + e.ffn),
            _ => 0,
        });
        self.buffers.iter().sum::<usize>() + experts.max().unwrap_or(0)
    }

    /// Returns the width of the widest input of a matrix product.
    pub fn widest_input(&self) -> usize {
        let width = |op: &Op| match op {
            Op::Project { x, .. } | Op::Logits { x, .. } => self.width(*x),
            Op::Experts(e) | Op::OnHost(OnHost { experts: e, .. }) => self.width(e.x).max(e.ffn),
            _ => 0,
        };
        self.ops.iter().map(width).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::op::{Attend, Norm, NormKind, Projection, Vector};

    fn project(x: TensorId, outs: &[TensorId]) -> Op {
        Op::Project {
            x,
            projections: outs.iter().map(|&out| Projection { weight: Weight(1), bias: None, out }).collect(),
        }
    }

    /// Returns one attention layer of width 8, a feed-forward block of width 32, a head.
    fn network() -> Program {
        let mut b = ProgramBuilder::default();
        let x = b.tensor(8);
        let norm = |x, out| Op::Norm {
            norm: Norm { kind: NormKind::Rms, weight: Some(Vector(0)), bias: None, eps: 1e-5, group: 8 },
            x,
            out,
        };
        b.push(Op::Embed { table: Weight(0), rows: 10, index: Index::Id, scale: 1.0, out: x });
        let start = b.position();
        let [h, q, k, v, a, o] = [8, 8, 4, 4, 8, 8].map(|w| b.tensor(w));
        let layer = b.kv_layer(KvLayer::new(1, 4, 0));
        b.push(norm(x, h));
        b.push(project(h, &[q, k, v]));
        b.push(Op::StoreKv { layer, k, v: Some(v) });
        b.push(Op::Attend(Attend::new(layer, q, a, 1.0)));
        b.push(project(a, &[o]));
        b.push(Op::Add { x, delta: o, scale: 1.0 });
        let [h, g, o] = [8, 32, 8].map(|w| b.tensor(w));
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
            op.for_each_tensor(|tensor| assert!(moves.iter().all(|[from, _]| *from != tensor), "{op:?}"));
        }
        assert_eq!((p.layers.len(), p.layers[0].clone()), (1, 1..p.ops.len() - 1));
    }

    #[test]
    fn activations_that_live_together_lie_apart() {
        let p = network();
        let mut lives = vec![(usize::MAX, 0); p.tensors.len()];
        for (i, op) in p.ops.iter().enumerate() {
            op.for_each_tensor(|tensor| {
                let (first, last) = lives[tensor.0 as usize];
                lives[tensor.0 as usize] = (first.min(i), last.max(i));
            });
        }
        for a in 0..lives.len() {
            for b in 0..a {
                let together = lives[a].0 <= lives[b].1 && lives[b].0 <= lives[a].1;
                assert!(!together || p.tensors[a].buffer != p.tensors[b].buffer, "{a} and {b}");
            }
            assert!(p.buffers[p.tensors[a].buffer] >= p.tensors[a].width);
        }
        assert!(p.buffers.len() < p.tensors.len());
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
