//! The operands of an op: activations that it reads and writes, matrices, vectors, KV layers and recurrent states.

use super::op::{Half, Index, KvLayerId, OnHost, Op, RecurrentId, Routing, TensorId, Vector, Weight};

/// The ops on activations and vectors only, without matrix, cache or state.
macro_rules! plain_op {
    () => {
        Op::Norm { .. }
            | Op::Scale { .. }
            | Op::ScaleColumns { .. }
            | Op::ScaleByPosition { .. }
            | Op::AddMedia { .. }
            | Op::OfMedia { .. }
            | Op::Clamp { .. }
            | Op::Mean { .. }
            | Op::Xielu { .. }
            | Op::Threshold { .. }
            | Op::Rescale { .. }
            | Op::Mix(_)
            | Op::JoinHeads { .. }
            | Op::MixByScore { .. }
            | Op::Sinkhorn { .. }
            | Op::Dot { .. }
            | Op::Slice { .. }
            | Op::Gather { .. }
            | Op::Rope { .. }
            | Op::KeepOutputs { .. }
            | Op::Glu { .. }
            | Op::Gate { .. }
            | Op::ToHost { .. }
            | Op::FromHost { .. }
    };
}

/// The ops without a matrix.
macro_rules! without_matrix {
    () => {
        $crate::graph::plain_op!()
            | Op::Add { .. }
            | Op::StoreKv { .. }
            | Op::Attend(_)
            | Op::Select(_)
            | Op::Conv(_)
            | Op::Pool(_)
            | Op::DeltaRule(_)
            | Op::Scan(_)
            | Op::Wkv(_)
            | Op::OnHost(_)
    };
}

pub(crate) use plain_op;
pub(crate) use without_matrix;

impl Op {
    /// Calls `f` with every activation of the op.
    pub fn for_each_tensor(&self, mut f: impl FnMut(TensorId)) {
        // The clone is small, and this runs only at load.
        self.clone().map_tensors(|tensor| {
            f(tensor);
            tensor
        });
    }

    /// True if the op reads or writes an activation.
    pub fn names(&self, tensor: TensorId) -> bool {
        let mut names = false;
        self.for_each_tensor(|named| names |= named == tensor);
        names
    }

    /// Replaces every activation of the op.
    pub fn map_tensors(&mut self, mut f: impl FnMut(TensorId) -> TensorId) {
        let mut on = |tensor: &mut TensorId| *tensor = f(*tensor);
        match self {
            Op::Embed { out, .. } => on(out),
            Op::EmbedNgrams(e) => on(&mut e.out),
            Op::Scale { x, .. }
            | Op::ScaleColumns { x, .. }
            | Op::ScaleByPosition { x, .. }
            | Op::AddMedia { x, .. }
            | Op::Clamp { x, .. }
            | Op::Xielu { x, .. }
            | Op::Threshold { x, .. }
            | Op::Sinkhorn { x, .. }
            | Op::Logits { x, .. } => on(x),
            Op::Norm { x, out, .. } => [x, out].into_iter().for_each(on),
            Op::Add { x, delta, .. } => [x, delta].into_iter().for_each(on),
            Op::Rescale { x, like } => [x, like].into_iter().for_each(on),
            Op::Dot { x, y, out } => [x, y, out].into_iter().for_each(on),
            Op::Mix(m) => [&mut m.x, &mut m.out].into_iter().chain(&mut m.by).for_each(on),
            Op::Project { x, projections } => {
                on(x);
                projections.iter_mut().for_each(|p| on(&mut p.out));
            }
            Op::ProjectHeads { x, out, .. }
            | Op::Slice { x, out, .. }
            | Op::Gather { x, out, .. }
            | Op::Mean { x, out, .. }
            | Op::MixByScore { x, out, .. } => {
                [x, out].into_iter().for_each(on);
            }
            Op::JoinHeads { x, tail, out, .. } => [x, tail, out].into_iter().for_each(on),
            Op::Rope { q, k, .. } => {
                on(q);
                k.iter_mut().for_each(on);
            }
            Op::StoreKv { k, v, .. } => {
                on(k);
                v.iter_mut().for_each(on);
            }
            Op::KeepOutputs { moves } => moves.iter_mut().flatten().for_each(on),
            Op::Attend(a) => {
                let half = a.half.as_mut().map(Half::sums_mut);
                [&mut a.q, &mut a.out].into_iter().chain(&mut a.among).chain(half).for_each(on);
            }
            Op::Select(s) => [&mut s.q, &mut s.weights, &mut s.out].into_iter().for_each(on),
            Op::Conv(c) => on(&mut c.x),
            Op::Pool(p) => [&mut p.gate, &mut p.x, &mut p.out].into_iter().for_each(on),
            Op::DeltaRule(d) => {
                [&mut d.q, &mut d.k, &mut d.v, &mut d.dt, &mut d.beta, &mut d.out].into_iter().for_each(on);
            }
            Op::Scan(s) => [&mut s.x, &mut s.dt, &mut s.b, &mut s.c, &mut s.out].into_iter().for_each(on),
            Op::Wkv(w) => {
                let always = [&mut w.r, &mut w.k, &mut w.v, &mut w.dt, &mut w.out];
                always.into_iter().chain(w.moved.iter_mut().flatten()).for_each(on);
            }
            Op::Glu { gate, up, .. } => {
                on(gate);
                up.iter_mut().for_each(on);
            }
            Op::Gate { x, gate, .. } => [x, gate].into_iter().for_each(on),
            Op::Experts(e) | Op::OnHost(OnHost { experts: e, .. }) => {
                [&mut e.x, &mut e.scores, &mut e.out].into_iter().for_each(on);
            }
            Op::ToHost { x, scores, .. } => [x, scores].into_iter().for_each(on),
            Op::FromHost { out, .. } => on(out),
            Op::OfMedia { .. } => {}
        }
    }

    /// Calls `f` with every activation that the op writes.
    pub fn for_each_written(&self, mut f: impl FnMut(TensorId)) {
        match self {
            Op::Embed { out, .. }
            | Op::Norm { out, .. }
            | Op::Slice { out, .. }
            | Op::Gather { out, .. }
            | Op::Mean { out, .. }
            | Op::Dot { out, .. }
            | Op::MixByScore { out, .. }
            | Op::ProjectHeads { out, .. }
            | Op::JoinHeads { out, .. } => f(*out),
            Op::Add { x, .. }
            | Op::Scale { x, .. }
            | Op::ScaleColumns { x, .. }
            | Op::ScaleByPosition { x, .. }
            | Op::AddMedia { x, .. }
            | Op::Clamp { x, .. }
            | Op::Xielu { x, .. }
            | Op::Threshold { x, .. }
            | Op::Sinkhorn { x, .. }
            | Op::Rescale { x, .. }
            | Op::Gate { x, .. } => f(*x),
            Op::Project { projections, .. } => projections.iter().for_each(|p| f(p.out)),
            Op::Rope { q, k, .. } => [Some(*q), *k].into_iter().flatten().for_each(f),
            Op::KeepOutputs { moves } => moves.iter().for_each(|[_, to]| f(*to)),
            Op::EmbedNgrams(e) => f(e.out),
            Op::Attend(a) => {
                f(a.out);
                if let Some(Half::First(sums)) = a.half {
                    f(sums);
                }
            }
            Op::Select(s) => f(s.out),
            Op::Glu { gate, .. } => f(*gate),
            Op::Conv(c) => f(c.x),
            Op::DeltaRule(d) => f(d.out),
            Op::Scan(s) => f(s.out),
            Op::Wkv(w) => f(w.out),
            Op::Pool(p) => f(p.out),
            Op::Experts(e) | Op::OnHost(OnHost { experts: e, .. }) => f(e.out),
            Op::Mix(m) => f(m.out),
            Op::FromHost { out, .. } => f(*out),
            Op::StoreKv { .. } | Op::ToHost { .. } | Op::Logits { .. } | Op::OfMedia { .. } => {}
        }
    }

    /// Replaces every matrix of the op.
    pub fn map_weights(&mut self, mut f: impl FnMut(Weight) -> Weight) {
        let mut on = |weight: &mut Weight| *weight = f(*weight);
        match self {
            Op::Embed { table: weight, .. } | Op::ProjectHeads { weight, .. } => on(weight),
            Op::EmbedNgrams(e) => on(&mut e.table),
            Op::Project { projections, .. } => projections.iter_mut().for_each(|p| on(&mut p.weight)),
            Op::Experts(e) => e.gate.iter_mut().chain([&mut e.up, &mut e.down]).for_each(on),
            Op::Logits { head, .. } => on(head),
            without_matrix!() => {}
        }
    }

    /// Replaces every vector of the op.
    pub fn map_vectors(&mut self, mut f: impl FnMut(Vector) -> Vector) {
        let mut on = |vector: &mut Vector| *vector = f(*vector);
        match self {
            Op::ScaleColumns { by, .. } | Op::MixByScore { by, .. } | Op::Gather { by, .. } => on(by),
            Op::Pool(p) => on(&mut p.bias),
            Op::Norm { norm, .. } => norm.weight.iter_mut().chain(&mut norm.bias).for_each(on),
            Op::Project { projections, .. } => projections.iter_mut().flat_map(|p| &mut p.bias).for_each(on),
            Op::Attend(a) => a.slopes.iter_mut().chain(&mut a.distances).chain(&mut a.sinks).for_each(on),
            Op::Conv(c) => [&mut c.kernel].into_iter().chain(&mut c.bias).for_each(on),
            Op::DeltaRule(d) => on(&mut d.rate),
            Op::Scan(s) => [&mut s.rate, &mut s.skip].into_iter().for_each(on),
            Op::Experts(e) => {
                let Routing { bias, by_id, .. } = &mut e.routing;
                let of_products = e.biases.iter_mut().chain(&mut e.scales).chain(&mut e.orders).flatten();
                bias.iter_mut().chain(by_id).chain(of_products).for_each(on);
            }
            Op::Logits { bias, .. } => bias.iter_mut().for_each(on),
            Op::Embed { .. }
            | Op::EmbedNgrams(_)
            | Op::Add { .. }
            | Op::Scale { .. }
            | Op::ScaleByPosition { .. }
            | Op::AddMedia { .. }
            | Op::OfMedia { .. }
            | Op::Clamp { .. }
            | Op::Mean { .. }
            | Op::Xielu { .. }
            | Op::Threshold { .. }
            | Op::Rescale { .. }
            | Op::Mix(_)
            | Op::ProjectHeads { .. }
            | Op::JoinHeads { .. }
            | Op::Sinkhorn { .. }
            | Op::Dot { .. }
            | Op::Slice { .. }
            | Op::Rope { .. }
            | Op::StoreKv { .. }
            | Op::KeepOutputs { .. }
            | Op::Select(_)
            | Op::Wkv(_)
            | Op::Glu { .. }
            | Op::Gate { .. }
            | Op::ToHost { .. }
            | Op::OnHost(_)
            | Op::FromHost { .. } => {}
        }
    }

    /// Calls `f` with every matrix that the op multiplies by.
    pub fn for_each_product(&self, mut f: impl FnMut(Weight)) {
        match self {
            Op::Project { projections, .. } => projections.iter().for_each(|p| f(p.weight)),
            Op::ProjectHeads { weight, .. } => f(*weight),
            Op::Experts(e) => e.gate.into_iter().chain([e.up, e.down]).for_each(f),
            Op::Logits { head, .. } => f(*head),
            Op::Embed { .. } | Op::EmbedNgrams(_) | without_matrix!() => {}
        }
    }

    /// Returns the KV layer that the op reads or writes.
    pub fn layer_mut(&mut self) -> Option<&mut KvLayerId> {
        match self {
            Op::StoreKv { layer, .. } => Some(layer),
            Op::Attend(a) => Some(&mut a.layer),
            Op::Select(s) => Some(&mut s.layer),
            _ => None,
        }
    }

    /// Returns the recurrent state that the op advances.
    pub fn recurrent_mut(&mut self) -> Option<&mut RecurrentId> {
        match self {
            Op::EmbedNgrams(e) => Some(&mut e.recurrent),
            Op::Conv(c) => Some(&mut c.recurrent),
            Op::Pool(p) => Some(&mut p.recurrent),
            Op::DeltaRule(d) => Some(&mut d.recurrent),
            Op::Scan(s) => Some(&mut s.recurrent),
            Op::Wkv(w) => Some(&mut w.recurrent),
            _ => None,
        }
    }

    /// Returns the number of values of a media row that the op reads.
    pub fn media_width(&self, width: impl Fn(TensorId) -> usize) -> usize {
        match self {
            Op::Embed { index: Index::Id, out, .. } => width(*out),
            Op::AddMedia { x, part } => part.saturating_add(1).saturating_mul(width(*x)),
            _ => 0,
        }
    }

    /// True if the op reads token ids other than for lookup.
    pub fn reads_ids(&self) -> bool {
        match self {
            Op::EmbedNgrams(_) => true,
            Op::Experts(e) => e.routing.by_id.is_some(),
            _ => false,
        }
    }

    /// True if the op reads or writes data of the token (id, media row, KV cache, recurrent state), or sees all tokens
    /// of the step.
    pub fn is_by_token(&self) -> bool {
        match self {
            Op::Embed { .. } | Op::AddMedia { .. } | Op::OfMedia { .. } | Op::StoreKv { .. } => true,
            Op::Attend(a) => !a.mask.is_causal(),
            _ => self.reads_ids() || self.clone().recurrent_mut().is_some(),
        }
    }
}
