//! A model on two devices: the first layers on one, the others on the other.
//!
//! Owns where each weight, cache and verb goes. The second device takes the last layers and the head, because logits and
//! their arg-max are then where they are wanted, while the first only looks a few rows of the embedding up. The keys
//! and values of a layer live with the layer; the residual stream crosses once a step, ahead of the first product that the
//! first device has no weights for. Refuses to know what the devices are.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    Act, Activation, Attention, Backend, Batch, DeviceInfo, Exec, Experts, Kv, KvSpec, MatrixSource, Needs, Norm,
    Progress, Projection, Rope, RopeTable, Routing, Times, Vector, Weight, Widths,
};
use crate::error::{Error, Result, try_filled, try_vec};

/// What a driver takes for itself beside what it is asked for: kernels, streams, recorded steps.
const RESERVE: u64 = 256 << 20;

/// What a placement goes by.
pub struct Plan {
    /// Of the model.
    pub layers: usize,
    /// Layers of the second device; `None`: as many as fit beside `needs`.
    pub second: Option<usize>,
    pub needs: Needs,
}

/// Two backends that perform one model.
pub struct Split {
    parts: [Arc<dyn Backend>; 2],
    plan: Plan,
    /// Layers of the first part; known once the weights are there.
    first: usize,
    /// For each weight its handle in either part.
    weights: Vec<[Option<Weight>; 2]>,
}

impl Split {
    pub fn new(first: Box<dyn Backend>, second: Box<dyn Backend>, plan: Plan) -> Split {
        Split { parts: [first.into(), second.into()], first: 0, plan, weights: Vec::new() }
    }

    /// What performs the model, and how many layers the second device has: a part by itself where it has all.
    pub fn finish(self) -> (Arc<dyn Backend>, usize) {
        let second = self.plan.layers - self.first;
        let [front, back] = &self.parts;
        match (self.first, second) {
            (0, _) => (back.clone(), second),
            (_, 0) => (front.clone(), 0),
            _ => (Arc::new(self), second),
        }
    }

    /// Layers of the first part.
    fn place(&self, sources: &[&dyn MatrixSource]) -> Result<usize> {
        let n = self.plan.layers;
        if let Some(second) = self.plan.second {
            return Ok(n - second.min(n));
        }
        let free = self.parts[1].device().memory_free.saturating_sub(RESERVE);
        for first in 0..n {
            let kv = part(&self.plan.needs.kv, first..n);
            let needs = Needs { kv, ..self.plan.needs.clone() };
            let weights = self.parts[1].upload_bytes(&of_part(sources, 1, first))?;
            if weights.saturating_add(self.parts[1].working_bytes(&needs)?) <= free {
                return Ok(first);
            }
        }
        Ok(n)
    }

    fn weight(&self, weight: Weight, at: usize) -> Option<Weight> {
        self.weights.get(weight.0 as usize).and_then(|handles| handles[at])
    }

    /// Before anything shares the parts.
    fn loading(&mut self, at: usize) -> Result<&mut dyn Backend> {
        match Arc::get_mut(&mut self.parts[at]) {
            Some(part) => Ok(part),
            None => Err(Error::invalid("weights come before performers")),
        }
    }
}

/// Whether a matrix belongs to a part, the first one having `first` layers.
fn belongs(source: &dyn MatrixSource, at: usize, first: usize) -> bool {
    let layers = source.layers();
    if at == 0 { layers.start < first } else { layers.end > first }
}

fn of_part<'a>(sources: &[&'a dyn MatrixSource], at: usize, first: usize) -> Vec<&'a dyn MatrixSource> {
    sources.iter().copied().filter(|s| belongs(*s, at, first)).collect()
}

/// The shape of a cache for some of its layers.
fn part(spec: &KvSpec, layers: Range<usize>) -> KvSpec {
    let rings = spec.rings.get(layers.clone()).unwrap_or_default().to_vec();
    KvSpec { layers: layers.len(), rings, ..spec.clone() }
}

impl Backend for Split {
    fn device(&self) -> &DeviceInfo {
        self.parts[1].device()
    }

    fn upload_bytes(&self, sources: &[&dyn MatrixSource]) -> Result<u64> {
        let first = self.place(sources)?;
        let bytes = |at: usize| self.parts[at].upload_bytes(&of_part(sources, at, first));
        Ok(bytes(0)?.saturating_add(bytes(1)?))
    }

    fn upload_host_bytes(&self, sources: &[&dyn MatrixSource]) -> Result<u64> {
        let first = self.place(sources)?;
        let bytes = |at: usize| self.parts[at].upload_host_bytes(&of_part(sources, at, first));
        Ok(bytes(0)?.saturating_add(bytes(1)?))
    }

    fn upload(&mut self, sources: &[&dyn MatrixSource], progress: &mut Progress) -> Result<Vec<Weight>> {
        let first = self.place(sources)?;
        self.first = first;
        let lists = [0, 1].map(|at| of_part(sources, at, first));
        let bytes = [self.parts[0].upload_bytes(&lists[0])?, self.parts[1].upload_bytes(&lists[1])?];
        let total = bytes[0].saturating_add(bytes[1]);
        self.weights = try_vec("the list of weights", sources.len())?;
        self.weights.resize(sources.len(), [None; 2]);
        for at in [0, 1] {
            let before = if at == 0 { 0 } else { bytes[0] };
            let mut report = |done: u64, _| progress(before.saturating_add(done).min(total), total);
            let handles = self.loading(at)?.upload(&lists[at], &mut report)?;
            let mut handles = handles.into_iter();
            for (_, weight) in sources.iter().zip(&mut self.weights).filter(|(s, _)| belongs(**s, at, first)) {
                weight[at] = handles.next();
            }
        }
        Ok((0..sources.len() as u32).map(Weight).collect())
    }

    fn upload_vector(&mut self, values: &[f32]) -> Result<Vector> {
        // Both number what they are given in the same order.
        self.loading(0)?.upload_vector(values)?;
        self.loading(1)?.upload_vector(values)
    }

    fn upload_rope(&mut self, rope: &Rope) -> Result<RopeTable> {
        self.loading(0)?.upload_rope(rope)?;
        self.loading(1)?.upload_rope(rope)
    }

    fn new_kv(&self, spec: &KvSpec) -> Result<Box<dyn Kv>> {
        if spec.layers != self.plan.layers {
            return Err(Error::invalid(format!("a cache of {} layers for {}", spec.layers, self.plan.layers)));
        }
        let front = self.parts[0].new_kv(&part(spec, 0..self.first))?;
        let back = self.parts[1].new_kv(&part(spec, self.first..spec.layers))?;
        Ok(Box::new(SplitKv { spec: spec.clone(), parts: [front, back] }))
    }

    fn new_exec(
        self: Arc<Self>,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<Box<dyn Exec>> {
        let new = |at: usize| self.parts[at].clone().new_exec(widths, head_dim, max_tokens, max_outputs);
        let room = max_tokens.saturating_mul(widths.hidden);
        let (parts, crossing) = ([new(0)?, new(1)?], try_filled("activations", room, 0f32)?);
        let (begun, first_share) = (Instant::now(), Duration::ZERO);
        let (at, values, hidden) = (0, 0, widths.hidden);
        Ok(Box::new(SplitExec { parts, at, begun, first_share, values, hidden, crossing, split: self }))
    }

    fn weight_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.weight_bytes()).sum()
    }

    fn parts(&self) -> &[Arc<dyn Backend>] {
        &self.parts
    }
}

struct SplitKv {
    spec: KvSpec,
    parts: [Box<dyn Kv>; 2],
}

impl Kv for SplitKv {
    fn spec(&self) -> &KvSpec {
        &self.spec
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes()).sum()
    }

    fn host_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.host_bytes()).sum()
    }

    fn fork(&self, len: usize) -> Result<Box<dyn Kv>> {
        let parts = [self.parts[0].fork(len)?, self.parts[1].fork(len)?];
        Ok(Box::new(SplitKv { spec: self.spec.clone(), parts }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn parts(&self) -> &[Box<dyn Kv>] {
        &self.parts
    }

    fn parts_mut(&mut self) -> &mut [Box<dyn Kv>] {
        &mut self.parts
    }
}

struct SplitExec {
    split: Arc<Split>,
    parts: [Box<dyn Exec>; 2],
    /// Which of them performs the step's verbs now.
    at: usize,
    begun: Instant,
    first_share: Duration,
    /// Values of the residual stream in the open step.
    values: usize,
    hidden: usize,
    /// `[max_tokens, hidden]`
    crossing: Vec<f32>,
}

impl SplitExec {
    fn here(&mut self) -> &mut dyn Exec {
        self.parts[self.at].as_mut()
    }

    fn weight(&self, weight: Weight) -> Result<Weight> {
        let held = self.split.weight(weight, self.at);
        held.ok_or_else(|| Error::invalid(format!("{weight:?} was not uploaded to part {}", self.at)))
    }

    /// A layer as the part that performs it counts.
    fn layer(&self, layer: usize) -> Result<usize> {
        let before = if self.at == 0 { 0 } else { self.split.first };
        layer.checked_sub(before).ok_or_else(|| Error::invalid(format!("layer {layer} behind layer {before}")))
    }

    /// From here on the second part performs: the residual stream and its norm go over.
    fn cross(&mut self) -> Result<()> {
        let [front, back] = &mut self.parts;
        let values = &mut self.crossing[..self.values];
        for act in [Act::X, Act::H] {
            front.read(act, values)?;
            back.write(act, values)?;
        }
        self.at = 1;
        // Gives its threads back to others.
        front.end()?;
        self.first_share = self.begun.elapsed();
        Ok(())
    }
}

impl Exec for SplitExec {
    fn max_tokens(&self) -> usize {
        self.parts[0].max_tokens().min(self.parts[1].max_tokens())
    }

    fn begin(&mut self, batch: &Batch) -> Result<()> {
        (self.at, self.begun) = (0, Instant::now());
        self.values = batch.ids.len().saturating_mul(self.hidden);
        self.parts[0].begin(batch)?;
        self.parts[1].begin(batch)
    }

    fn embed(&mut self, batch: &Batch, table: Weight, scale: f32) -> Result<()> {
        let table = self.weight(table)?;
        self.here().embed(batch, table, scale)
    }

    fn embed_positions(&mut self, batch: &Batch, table: Weight) -> Result<()> {
        let table = self.weight(table)?;
        self.here().embed_positions(batch, table)
    }

    fn norm(&mut self, norm: &Norm, input: Act, out: Act) -> Result<()> {
        self.here().norm(norm, input, out)
    }

    fn add(&mut self, x: Act, delta: Act, scale: f32) -> Result<()> {
        self.here().add(x, delta, scale)
    }

    fn add_norm(&mut self, x: Act, delta: Act, scale: f32, norm: &Norm, out: Act) -> Result<()> {
        self.here().add_norm(x, delta, scale, norm, out)
    }

    fn project(&mut self, input: Act, projections: &[Projection]) -> Result<()> {
        let is_front = |p: &Projection| self.split.weight(p.weight, 0).is_some();
        if self.at == 0 && !projections.iter().all(is_front) {
            self.cross()?;
        }
        // More than any layer has of one input; on the stack.
        for projections in projections.chunks(4) {
            let mut own = [projections[0]; 4];
            for (own, p) in own.iter_mut().zip(projections) {
                *own = Projection { weight: self.weight(p.weight)?, ..*p };
            }
            self.here().project(input, &own[..projections.len()])?;
        }
        Ok(())
    }

    fn rope(&mut self, table: RopeTable) -> Result<()> {
        self.here().rope(table)
    }

    fn kv_write(&mut self, batch: &mut Batch, layer: usize) -> Result<()> {
        let layer = self.layer(layer)?;
        self.here().kv_write(batch, layer)
    }

    fn keep_outputs(&mut self, batch: &Batch) -> Result<()> {
        self.here().keep_outputs(batch)
    }

    fn attend(&mut self, batch: &Batch, attention: &Attention) -> Result<()> {
        let attention = Attention { layer: self.layer(attention.layer)?, ..*attention };
        self.here().attend(batch, &attention)
    }

    fn glu(&mut self, activation: Activation, gated: bool) -> Result<()> {
        self.here().glu(activation, gated)
    }

    fn route(&mut self, routing: &Routing) -> Result<()> {
        self.here().route(routing)
    }

    fn experts(&mut self, experts: &Experts) -> Result<()> {
        let [gate, up, down] = [experts.gate, experts.up, experts.down].map(|w| self.weight(w));
        let own = Experts { gate: gate?, up: up?, down: down?, ..*experts };
        self.here().experts(&own)
    }

    fn logits(&mut self, batch: &Batch, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()> {
        let head = self.weight(head)?;
        self.here().logits(batch, head, bias, scale, softcap)
    }

    fn argmax(&mut self, i: usize) -> Result<u32> {
        self.here().argmax(i)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.here().read_logits(i, out)
    }

    fn write(&mut self, act: Act, values: &[f32]) -> Result<()> {
        self.here().write(act, values)
    }

    fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        self.here().read(act, out)
    }

    fn first_share(&self) -> Duration {
        self.first_share
    }

    fn times(&mut self) -> Times {
        self.parts[1].times()
    }

    fn end(&mut self) -> Result<()> {
        let [front, back] = &mut self.parts;
        front.end().and(back.end())
    }
}
