//! Kernel fusion, decided once per program.
//!
//! The ops that read a norm's result apply the norm. The preceding product computes a residual sum or a gated
//! activation. The norms of heads, RoPE and the KV store are one kernel, which also computes attention if no sequence
//! has two tokens in the step. An activation that a fused kernel does not write must have no later reader and must not
//! be kept for the host.

use std::ops::Range;

use crate::graph::op::{Activation, Attend, Index, KvLayerId, Norm, Op, Projection, RopeChoice, TensorId};
use crate::graph::program::Program;

/// Ops that are executed together; the first op names the fusion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fusion {
    /// One op.
    Unfused,
    /// A norm that products apply to their input.
    Delayed,
    /// Embedding lookup, and its sum with an activation.
    EmbedSum,
    SumNorm,
    /// A norm, and its sum with an activation.
    NormSum,
    /// A product, and its sum with an activation.
    ProductSum,
    /// Experts, and their sum with an activation.
    ExpertsSum,
    /// The products of gate and up, and the gated activation.
    ProductGate,
    /// Norms of heads, RoPE and KV store; the value is the number of these ops.
    Heads(usize),
    /// The `heads` ops of `Heads`, and the attention op that follows them, in one kernel; used only if no sequence has
    /// two tokens in the step. `ops`: number of all ops, including a `KeepOutputs` between them.
    Attention {
        heads: usize,
        ops: usize,
    },
}

impl Fusion {
    pub fn ops(self) -> usize {
        match self {
            Fusion::Unfused | Fusion::Delayed => 1,
            Fusion::EmbedSum
            | Fusion::SumNorm
            | Fusion::NormSum
            | Fusion::ProductSum
            | Fusion::ExpertsSum
            | Fusion::ProductGate => 2,
            Fusion::Heads(n) | Fusion::Attention { ops: n, .. } => n,
        }
    }
}

/// True if the products of gate and up can apply the activation. An activation with two limits needs too many
/// registers.
pub fn is_of_products(activation: Activation) -> bool {
    !matches!(activation, Activation::TanhSwiglu(_))
}

/// The fusions of a program.
pub struct Fusions {
    /// The fusion that begins at each op.
    first: Vec<Fusion>,
    /// Per `TensorId`: if the activation is the result of a norm that products apply themselves, the norm and its
    /// input.
    delayed: Vec<Option<(Norm, TensorId)>>,
}

impl Fusions {
    /// Returns no fusions, for a part of a program whose results other ops may read.
    pub fn none(program: &Program) -> Fusions {
        Fusions { first: vec![Fusion::Unfused; program.ops.len()], delayed: vec![None; program.tensors.len()] }
    }

    /// Finds all possible fusions. `is_gate`: true if a gated activation can be fused with two products. `is_of_heads`:
    /// true if attention can be fused with the ops on heads.
    pub fn all(
        program: &Program,
        is_gate: impl Fn(&Projection, &Projection) -> bool,
        is_of_heads: impl Fn(&Attend) -> bool,
    ) -> Fusions {
        let (of_media, named, fusions) = (program.of_media(), program.ops_of_tensors(), Fusions::none(program));
        let mut chooser = Chooser { program, of_media, named, fusions };
        let mut at = 0;
        while at < program.ops.len() {
            let fusion = chooser.choose(at, &is_gate, &is_of_heads);
            chooser.fusions.first[at] = fusion;
            at += fusion.ops();
        }
        chooser.fusions
    }

    /// Returns the fusion that begins at the first of `ops`. `single_tokens`: no sequence has two tokens in the step.
    pub fn at(&self, ops: Range<usize>, single_tokens: bool) -> Fusion {
        match self.first[ops.start] {
            Fusion::Attention { heads, ops: n } if !single_tokens || n > ops.len() => Fusion::Heads(heads),
            fusion => fusion,
        }
    }

    /// Returns the groups of ops that are executed together, in order. Each group begins with the norms that it applies
    /// to its input.
    pub fn groups(&self, program: &Program) -> Vec<Vec<usize>> {
        let mut groups = Vec::new();
        let mut at = 0;
        while at < program.ops.len() {
            let ops = at..at + self.first[at].ops();
            if self.first[at] != Fusion::Delayed {
                let is_norm =
                    |tensor: TensorId, op: &Op| matches!(op, Op::Norm { x, out, .. } if *out == tensor && x != out);
                let mut group = Vec::new();
                for op in &program.ops[ops.clone()] {
                    op.for_each_tensor(|tensor| {
                        let norm =
                            self.delayed(tensor).and_then(|_| program.ops.iter().position(|op| is_norm(tensor, op)));
                        group.extend(norm.filter(|norm| !group.contains(norm)));
                    });
                }
                group.extend(ops.clone());
                groups.push(group);
            }
            at = ops.end;
        }
        groups
    }

    /// Returns the norm that products apply instead of reading an activation, and the norm's input.
    pub fn delayed(&self, tensor: TensorId) -> Option<(Norm, TensorId)> {
        self.delayed[tensor.0 as usize]
    }
}

struct Chooser<'a> {
    program: &'a Program,
    /// Ops for media rows, which are skipped together; no fusion crosses their end.
    of_media: Range<usize>,
    /// The ops that name each `TensorId`.
    named: Vec<Vec<usize>>,
    fusions: Fusions,
}

impl Chooser<'_> {
    fn choose(
        &mut self,
        at: usize,
        is_gate: impl Fn(&Projection, &Projection) -> bool,
        is_of_heads: impl Fn(&Attend) -> bool,
    ) -> Fusion {
        let end = if self.of_media.contains(&at) { self.of_media.end } else { self.program.ops.len() };
        match &self.program.ops[at..end] {
            [Op::Norm { norm, x, out }, ..] if self.is_delayable(at, norm, *x, *out) => {
                self.fusions.delayed[out.0 as usize] = Some((*norm, *x));
                Fusion::Delayed
            }
            // Media rows are not scaled.
            [Op::Embed { scale, index, out, .. }, Op::Add { delta, scale: factor, .. }, ..]
                if out == delta
                    && *index != Index::Id
                    && self.ends(*out, at + 1)
                    && (*scale == 1.0 || *factor == 1.0) =>
            {
                Fusion::EmbedSum
            }
            [Op::Add { x, .. }, Op::Norm { x: input, out, .. }, ..] if x == input && out != x => Fusion::SumNorm,
            [Op::Norm { out, .. }, Op::Add { x, delta, .. }, ..]
                if out == delta && x != out && self.ends(*out, at + 1) =>
            {
                Fusion::NormSum
            }
            [Op::Experts(e), Op::Add { x, delta, .. }, ..]
                if e.out == *delta && *x != e.out && self.ends(e.out, at + 1) =>
            {
                Fusion::ExpertsSum
            }
            // Needs separate buffers: a fused kernel writes some rows while it still reads the input of others.
            [Op::Project { x: input, projections }, Op::Add { x, delta, .. }, ..]
                if projections.len() == 1
                    && projections[0].out == *delta
                    && self.ends(*delta, at + 1)
                    && self.buffer(self.source(*input)) != self.buffer(*x) =>
            {
                Fusion::ProductSum
            }
            [Op::Project { projections, .. }, Op::Glu { gate, up: Some(up), activation }, ..] => match **projections {
                [a, b]
                    if (a.out, b.out) == (*gate, *up)
                        && self.ends(*up, at + 1)
                        && is_gate(&a, &b)
                        && is_of_products(*activation) =>
                {
                    Fusion::ProductGate
                }
                _ => Fusion::Unfused,
            },
            ops => HeadOps::new(self.program, ops).map_or(Fusion::Unfused, |heads| {
                let attention = self.attention(at, end, &heads, is_of_heads);
                attention.unwrap_or(Fusion::Heads(heads.taken))
            }),
        }
    }

    /// Returns the fusion of the head ops that begin at `at` with the attention op that follows them, if that op is
    /// before `end`. No other op may read the queries and keys, because the fused kernel does not write them back.
    fn attention(
        &self,
        at: usize,
        end: usize,
        heads: &HeadOps,
        is_of_heads: impl Fn(&Attend) -> bool,
    ) -> Option<Fusion> {
        let later = &self.program.ops[at + heads.taken..end];
        let (attend, moves, between) = match later {
            [Op::Attend(attend), ..] => (attend, &[][..], 0),
            [Op::KeepOutputs { moves }, Op::Attend(attend), ..] => (attend, &moves[..], 1),
            _ => return None,
        };
        let ops = heads.taken + between + 1;
        let end = at + ops;
        let is_query = |tensor: TensorId| tensor == attend.q || moves.contains(&[tensor, attend.q]);
        let is_last = |tensor: TensorId| self.named[tensor.0 as usize].last().is_none_or(|last| *last < end);
        let is_unread = |tensor: TensorId| is_last(tensor) && !self.program.kept.contains(&tensor);
        // Needs separate buffers: the kernel writes some heads while it still reads keys and values of others.
        let is_separate = |tensor: TensorId| self.buffer(tensor) != self.buffer(attend.out);
        let stored = heads.store.map(|(layer, _)| layer);
        let values = heads.store.and_then(|(_, v)| v);
        let fits = heads.q.is_none_or(|q| is_query(q) && is_unread(q))
            && is_unread(attend.q)
            && stored.is_none_or(|layer| layer == attend.layer)
            && heads.k.is_none_or(|k| stored.is_some() && is_unread(k) && is_separate(k))
            && values.is_none_or(is_separate)
            && heads.head_dim == self.program.kv_layers[attend.layer.0 as usize].head_dim
            && is_of_heads(attend);
        fits.then_some(Fusion::Attention { heads: heads.taken, ops })
    }

    fn buffer(&self, tensor: TensorId) -> usize {
        self.program.tensors[tensor.0 as usize].buffer
    }

    /// Returns the activation that a product with the input `tensor` actually reads.
    fn source(&self, tensor: TensorId) -> TensorId {
        self.fusions.delayed(tensor).map_or(tensor, |(_, x)| x)
    }

    /// True if nothing reads an activation after op `at`.
    fn ends(&self, tensor: TensorId, at: usize) -> bool {
        !self.program.kept.contains(&tensor) && self.named[tensor.0 as usize].last() == Some(&at)
    }

    /// True if only products read the result of a norm of whole rows, and the norm's input stays unchanged until the
    /// last of these products.
    fn is_delayable(&self, at: usize, norm: &Norm, x: TensorId, out: TensorId) -> bool {
        let [first, readers @ ..] = &self.named[out.0 as usize][..] else { return false };
        let is_product = |op: &Op| match op {
            Op::Project { .. } | Op::Logits { .. } => true,
            Op::Experts(e) => e.scores != out && e.orders == [None; 3],
            _ => false,
        };
        let last = readers.last().unwrap_or(first);
        let lasts = |op: &Op| {
            let mut lasts = true;
            op.for_each_written(|tensor| lasts &= self.buffer(tensor) != self.buffer(x));
            lasts
        };
        *first == at
            && x != out
            && norm.group == self.program.width(x)
            && self.ends(out, *last)
            && readers.iter().all(|&i| is_product(&self.program.ops[i]))
            && self.program.ops[at + 1..=*last].iter().all(lasts)
    }
}

/// Heads that one kernel normalizes, rotates and stores, in this order.
pub struct HeadOps<'a> {
    pub head_dim: usize,
    /// Heads that are only normalized and rotated.
    pub q: Option<TensorId>,
    /// Heads that are also stored if `store` is set.
    pub k: Option<TensorId>,
    pub q_norm: Option<&'a Norm>,
    pub k_norm: Option<&'a Norm>,
    pub rope: Option<RopeChoice>,
    /// Index of the first rotated value of a head.
    pub first: usize,
    /// The KV layer, and the values to store (inner `None`: the values are part of the keys). `None` without a KV
    /// store.
    pub store: Option<(KvLayerId, Option<TensorId>)>,
    pub taken: usize,
}

impl<'a> HeadOps<'a> {
    /// Takes the first ops of a list: norms of heads in place, RoPE and KV store. RoPE or the KV store must be present.
    pub fn new(program: &Program, ops: &'a [Op]) -> Option<HeadOps<'a>> {
        let in_place = |op: &&Op| matches!(op, Op::Norm { x, out, .. } if x == out);
        let (norms, rest) = ops.split_at(ops.iter().take(2).take_while(in_place).count());
        let dim = |layer: KvLayerId| program.kv_layers[layer.0 as usize].head_dim;
        let (q_norm, k_norm) = (None, None);
        let none =
            HeadOps { head_dim: 0, q: None, k: None, q_norm, k_norm, rope: None, first: 0, store: None, taken: 0 };
        let mut heads = match *rest {
            [Op::Rope { rope, head_dim, first, q, k }, Op::StoreKv { layer, k: keys, v }, ..]
                if k == Some(keys) && head_dim == dim(layer) && v != Some(q) =>
            {
                let store = Some((layer, v));
                HeadOps { head_dim, q: Some(q), k, rope: Some(rope), first, store, taken: 2, ..none }
            }
            [Op::Rope { rope, head_dim, first, q, k }, ..] => {
                HeadOps { head_dim, q: Some(q), k, rope: Some(rope), first, taken: 1, ..none }
            }
            [Op::StoreKv { layer, k, v }, ..] => {
                HeadOps { head_dim: dim(layer), k: Some(k), store: Some((layer, v)), taken: 1, ..none }
            }
            _ => return None,
        };
        heads.taken += norms.len();
        for op in norms {
            let Op::Norm { norm, x, .. } = op else { return None };
            let stored = heads.store.is_some_and(|(_, v)| v == Some(*x));
            let place = match Some(*x) {
                x if x == heads.k => &mut heads.k_norm,
                x if heads.q.is_none() || x == heads.q => {
                    heads.q = x;
                    &mut heads.q_norm
                }
                _ => return None,
            };
            if stored || norm.group != heads.head_dim || place.replace(norm).is_some() {
                return None;
            }
        }
        Some(heads)
    }
}
