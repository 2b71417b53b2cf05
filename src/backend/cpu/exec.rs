//! The verbs on the CPU. Owns the activations and all other memory of a step, so that no verb allocates.
//! Verbs with little to do run on the caller alone: a fork costs more than they do.
#![allow(unsafe_code)]

use std::cmp::Ordering;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::CpuBackend;
use super::attention::{self, AttentionScratch, Heads, LayerSource, Scoring};
use super::disjoint::DisjointSlice;
use super::kernels::{Isa, PANEL_ROWS, elementwise};
use super::kv::{CpuKv, Part};
use super::matmul;
use super::matmul_plan::{MatmulJob, MatmulWorkspace};
use super::matrix::WeightMatrix;
use super::memory::Floats;
use super::pool::Team;
use crate::backend::{
    Act, Activation, Attention, Batch, Exec, Experts, Norm, NormKind, Projection, Rope, RopePairs, RopeTable, Routing,
    Vector, Weight, Widths,
};
use crate::error::{Error, Result, try_filled, try_vec};

/// Values below which a verb is done before another thread has noticed it.
const SMALL: usize = 16 * 1024;

const ACTS: usize = 10;

pub struct CpuExec {
    backend: Arc<CpuBackend>,
    /// From `begin` to `end`.
    team: Option<Team>,
    heads: Heads,
    max_tokens: usize,
    max_outputs: usize,
    acts: Acts,
    /// Of the tokens that the activations have rows for.
    positions: Vec<u32>,
    slots: Vec<u32>,
    /// Whether those are the batch's outputs alone.
    kept_outputs: bool,
    turns: Vec<Turns>,
    products: MatmulWorkspace,
    attention: AttentionScratch,
    /// `[max_outputs, hidden]`, `[max_outputs, vocab]`
    selected: Floats,
    logits: Floats,
    vocab: usize,
    /// Of the last step.
    outputs: usize,
    experts: ExpertScratch,
}

/// The activations, by `Act`.
struct Acts {
    /// `[max_tokens, width]`
    buffers: [Floats; ACTS],
    max_widths: [usize; ACTS],
    /// Widths as the last verb left them: a layer may be narrower than the widest.
    widths: [usize; ACTS],
    /// Tokens of the step.
    n: usize,
}

/// `[n, width]` and the width.
type Rows<'a> = (&'a mut [f32], usize);

impl Acts {
    fn width(&self, act: Act) -> usize {
        self.widths[act as usize]
    }

    fn get(&mut self, act: Act) -> Rows<'_> {
        let width = self.width(act);
        (&mut self.buffers[act as usize][..self.n * width], width)
    }

    /// Two that must differ.
    fn pair(&mut self, a: Act, b: Act) -> Result<[Rows<'_>; 2]> {
        let [wa, wb] = [a, b].map(|act| self.width(act));
        match self.buffers.get_disjoint_mut([a as usize, b as usize]) {
            Ok([x, y]) => Ok([(&mut x[..self.n * wa], wa), (&mut y[..self.n * wb], wb)]),
            Err(_) => Err(Error::invalid(format!("{a:?} twice in one verb"))),
        }
    }

    /// Sets the width of an activation that is about to be written.
    fn narrow(&mut self, act: Act, width: usize) -> Result<()> {
        let max = self.max_widths[act as usize];
        if width > max {
            return mismatch(|| format!("{width} values for {act:?}, which is {max} wide"));
        }
        self.widths[act as usize] = width;
        Ok(())
    }
}

/// Sines and cosines of a rotary table for the positions of a step, made when first asked for.
struct Turns {
    /// `[max_tokens, width]`
    cos: Floats,
    sin: Floats,
    width: usize,
    made: bool,
}

struct ExpertScratch {
    /// `[n, n_used]`: expert and weight, in the order of experts.
    chosen: Vec<(u32, f32)>,
    n_used: usize,
    /// Scores of one token in the order of preference.
    ranking: Vec<(u32, f32)>,
    /// Tokens that chose the expert at hand, and its weight for them.
    members: Vec<(u32, f32)>,
    /// `[max_tokens, hidden]`
    input: Floats,
    /// `[max_tokens, expert_ffn]`, and room for the rows that share a group of 16 with them.
    gate: Floats,
    up: Floats,
    /// The same for `hidden`.
    down: Floats,
}

impl CpuExec {
    pub fn new(
        backend: Arc<CpuBackend>,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<CpuExec> {
        let w = widths;
        let divides = |width: usize| head_dim > 0 && width > 0 && width.is_multiple_of(head_dim);
        if !divides(w.q) || !divides(w.kv) || w.hidden == 0 || max_tokens == 0 || w.n_experts_used > w.n_experts {
            return Err(Error::invalid(format!("{w:?} with heads of {head_dim} for {max_tokens} tokens")));
        }
        let heads = Heads { queries: w.q / head_dim, kv: w.kv / head_dim, dim: head_dim };
        let threads = backend.pool.threads();
        let [h, q, kv, f] = [w.hidden, w.q, w.kv, w.ffn];
        // In the order of `Act`.
        let max_widths = [h, h, q, kv, kv, q, h, f, f, w.n_experts];
        let activation = |width| Floats::new("activations", max_tokens, width);
        let [x0, x1, x2, x3, x4, x5, x6, x7, x8, x9] = max_widths.map(activation);
        let mut turns = try_vec("rotary tables", backend.ropes.len())?;
        for rope in &backend.ropes {
            let pairs = rope.inv_freq.len();
            if pairs > head_dim / 2 {
                return Err(Error::invalid(format!("a rotary table of {pairs} pairs for heads of {head_dim}")));
            }
            let width = match rope.pairs {
                RopePairs::Halves => pairs,
                RopePairs::Adjacent => 2 * pairs,
            };
            let table = || Floats::new("rotary tables", max_tokens, width);
            turns.push(Turns { cos: table()?, sin: table()?, width, made: false });
        }
        let moe = if w.n_experts_used > 0 { max_tokens } else { 0 };
        let experts = ExpertScratch {
            chosen: try_filled("routing", moe.saturating_mul(w.n_experts_used), (0, 0.0))?,
            n_used: 0,
            ranking: try_vec("routing", w.n_experts)?,
            members: try_vec("routing", moe)?,
            input: Floats::new("activations", moe, h)?,
            gate: Floats::new("activations", moe, w.expert_ffn + 2 * PANEL_ROWS)?,
            up: Floats::new("activations", moe, w.expert_ffn + 2 * PANEL_ROWS)?,
            down: Floats::new("activations", moe, h + 2 * PANEL_ROWS)?,
        };
        let widest = [h, q, f, w.expert_ffn].into_iter().max().unwrap_or(0);
        Ok(CpuExec {
            team: None,
            heads,
            max_tokens,
            max_outputs,
            acts: Acts {
                buffers: [x0?, x1?, x2?, x3?, x4?, x5?, x6?, x7?, x8?, x9?],
                max_widths,
                widths: max_widths,
                n: 0,
            },
            positions: try_vec("positions", max_tokens)?,
            slots: try_vec("slots", max_tokens)?,
            kept_outputs: false,
            turns,
            products: MatmulWorkspace::new(threads, max_tokens.max(max_outputs), widest)?,
            attention: AttentionScratch::new(heads, max_tokens, threads, false)?,
            selected: Floats::new("activations", max_outputs, h)?,
            logits: Floats::new("logits", max_outputs, w.vocab)?,
            vocab: w.vocab,
            outputs: 0,
            experts,
            backend,
        })
    }
}

/// The team of the open step in the hands of a verb. A panic gives the pool back, for whoever else works with it.
struct InVerb<'a>(&'a mut Option<Team>);

fn team(open: &mut Option<Team>) -> Result<InVerb<'_>> {
    match open {
        Some(_) => Ok(InVerb(open)),
        None => Err(Error::invalid("no step is open")),
    }
}

impl Deref for InVerb<'_> {
    type Target = Team;

    fn deref(&self) -> &Team {
        self.0.as_ref().expect("`team` has looked")
    }
}

impl Drop for InVerb<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0 = None;
        }
    }
}

fn mismatch<T>(what: impl FnOnce() -> String) -> Result<T> {
    Err(Error::Mismatch(what()))
}

/// `row(t, a[t], b[t])` for every row of two arrays, on all threads where that is worth it.
fn each_row(team: &Team, (a, width_a): Rows, (b, width_b): Rows, row: impl Fn(usize, &mut [f32], &mut [f32]) + Sync) {
    let n = a.len().checked_div(width_a).unwrap_or(0);
    assert!(a.len() == n * width_a && b.len() == n * width_b);
    let small = a.len() + b.len() <= SMALL;
    let (a, b) = (DisjointSlice::new(a), DisjointSlice::new(b));
    let rows = |rows: Range<usize>| {
        for t in rows {
            // SAFETY: ranges of rows do not overlap.
            let (a, b) =
                unsafe { (a.slice_mut(t * width_a..(t + 1) * width_a), b.slice_mut(t * width_b..(t + 1) * width_b)) };
            row(t, a, b);
        }
    };
    if small {
        return rows(0..n);
    }
    let partition = team.partition(n, 1);
    team.run(|share| rows(partition.range(share)));
}

/// `each_row` for one array.
fn each(team: &Team, rows: Rows, row: impl Fn(usize, &mut [f32]) + Sync) {
    each_row(team, rows, (&mut [], 0), |t, x, _| row(t, x));
}

/// A norm with its weights.
struct Weighted<'a> {
    isa: Isa,
    norm: Norm,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> Weighted<'a> {
    /// Its weights are `group` long and groups make up a row of `width`.
    fn new(backend: &'a CpuBackend, norm: &Norm, width: usize) -> Result<Self> {
        let weight = backend.vector(norm.weight)?;
        let bias = norm.bias.map(|bias| backend.vector(bias)).transpose()?;
        let fits = norm.group > 0 && width.is_multiple_of(norm.group) && weight.len() == norm.group;
        if !fits || bias.is_some_and(|bias| bias.len() != norm.group) {
            return mismatch(|| format!("{norm:?} of {} weights over rows of {width}", weight.len()));
        }
        Ok(Weighted { isa: backend.isa, norm: *norm, weight, bias })
    }

    fn apply(&self, row: &mut [f32]) {
        for x in row.chunks_exact_mut(self.norm.group) {
            match self.norm.kind {
                NormKind::Rms => {
                    elementwise::rms_norm(self.isa, x, self.weight, self.norm.eps);
                    if let Some(bias) = self.bias {
                        elementwise::add_scaled(self.isa, x, bias, 1.0);
                    }
                }
                NormKind::Layer => elementwise::layer_norm(self.isa, x, self.weight, self.bias, self.norm.eps),
            }
        }
    }
}

/// Where a batch fits neither itself nor the exec.
fn check_batch(exec: &CpuExec, batch: &Batch) -> Result<()> {
    let n = batch.ids.len();
    if n == 0 || n > exec.max_tokens || batch.outputs.len() > exec.max_outputs {
        let (tokens, outputs) = (exec.max_tokens, exec.max_outputs);
        return Err(Error::invalid(format!(
            "a step of {n} tokens and {} outputs; 1 to {tokens} and 0 to {outputs} fit",
            batch.outputs.len()
        )));
    }
    if batch.positions.len() != n || batch.slots.len() != n {
        return Err(Error::invalid(format!(
            "{n} ids, {} positions, {} slots",
            batch.positions.len(),
            batch.slots.len()
        )));
    }
    if !batch.outputs.is_sorted_by(|a, b| a < b) || batch.outputs.last().is_some_and(|&last| last as usize >= n) {
        return Err(Error::invalid(format!("outputs {:?} of {n} tokens", batch.outputs)));
    }
    LayerSource::new(exec.heads, batch.kvs, 0)?;
    for (&position, &slot) in batch.positions.iter().zip(batch.slots) {
        let Some(kv) = batch.kvs.get(slot as usize) else {
            return Err(Error::invalid(format!("slot {slot} of {} caches", batch.kvs.len())));
        };
        let capacity = kv.spec().capacity;
        if position as usize >= capacity {
            return Err(Error::ContextFull { len: position as usize, capacity, more: 1 });
        }
    }
    Ok(())
}

/// A table of embeddings fits the residual stream and holds these rows.
fn check_table(matrix: &WeightMatrix, rows: &[u32], n: usize, width: usize) -> Result<()> {
    if matrix.cols() != width || rows.len() != n {
        return mismatch(|| format!("{} rows of {} values for {n} tokens of {width}", rows.len(), matrix.cols()));
    }
    match rows.iter().find(|&&row| row as usize >= matrix.rows) {
        Some(row) => Err(Error::invalid(format!("row {row} of an embedding with {}", matrix.rows))),
        None => Ok(()),
    }
}

impl Turns {
    fn make(&mut self, rope: &Rope, positions: &[u32]) {
        let tokens = self.cos.chunks_exact_mut(self.width).zip(self.sin.chunks_exact_mut(self.width));
        for ((cos, sin), &position) in tokens.zip(positions) {
            for (i, &inv_freq) in rope.inv_freq.iter().enumerate() {
                let (s, c) = (f64::from(position) * inv_freq).sin_cos();
                let (s, c) = ((s * f64::from(rope.magnitude)) as f32, (c * f64::from(rope.magnitude)) as f32);
                match rope.pairs {
                    RopePairs::Halves => (cos[i], sin[i]) = (c, s),
                    RopePairs::Adjacent => {
                        cos[2 * i..2 * i + 2].copy_from_slice(&[c, c]);
                        sin[2 * i..2 * i + 2].copy_from_slice(&[-s, s]);
                    }
                }
            }
        }
        self.made = true;
    }
}

impl CpuExec {
    /// `project` for `N` projections.
    fn project_each<const N: usize>(&mut self, input: Act, projections: &[Projection; N]) -> Result<()> {
        let CpuExec { backend, team: open, acts, products, .. } = self;
        let (n, cols) = (acts.n, acts.width(input));
        let mut weights = [None; N];
        for (i, (p, weight)) in projections.iter().zip(&mut weights).enumerate() {
            let (matrix, bytes) = backend.matrix(p.weight)?;
            let bias = p.bias.map(|bias| backend.vector(bias)).transpose()?;
            if matrix.cols() != cols || bias.is_some_and(|bias| bias.len() != matrix.rows) {
                let (rows, of) = (matrix.rows, matrix.cols());
                return mismatch(|| format!("{p:?} is {rows} by {of}, {input:?} is {cols} wide"));
            }
            if p.out == input || projections[..i].iter().any(|other| other.out == p.out) {
                return Err(Error::invalid(format!("{:?} twice in one verb", p.out)));
            }
            acts.narrow(p.out, matrix.rows)?;
            *weight = Some((matrix, bytes, bias));
        }
        let mut buffers = acts.buffers.each_mut().map(|buffer| Some(&mut **buffer));
        let mut take = |act: Act| buffers[act as usize].take().expect("activations differ");
        let x = take(input);
        let mut jobs = std::array::from_fn::<_, N, _>(|i| {
            let (matrix, bytes, bias) = weights[i].expect("all are set above");
            MatmulJob::new(matrix, bytes, bias, &mut take(projections[i].out)[..n * matrix.rows])
        });
        matmul::multiply(&*team(open)?, backend.isa, products, &x[..n * cols], n, &mut jobs);
        Ok(())
    }
}

impl Exec for CpuExec {
    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn begin(&mut self, batch: &Batch) -> Result<()> {
        self.team = None;
        self.outputs = 0;
        check_batch(self, batch)?;
        self.acts.n = batch.ids.len();
        self.acts.widths = self.acts.max_widths;
        self.positions.clear();
        self.positions.extend_from_slice(batch.positions);
        self.slots.clear();
        self.slots.extend_from_slice(batch.slots);
        self.kept_outputs = false;
        self.turns.iter_mut().for_each(|turns| turns.made = false);
        self.team = Some(self.backend.pool.enter());
        Ok(())
    }

    fn embed(&mut self, batch: &Batch, table: Weight, scale: f32) -> Result<()> {
        let (matrix, bytes) = self.backend.matrix(table)?;
        check_table(&matrix, batch.ids, self.acts.n, self.acts.width(Act::X))?;
        let isa = self.backend.isa;
        each(&*team(&mut self.team)?, self.acts.get(Act::X), |t, x| {
            matrix.decode_row(bytes, batch.ids[t] as usize, x);
            if scale != 1.0 {
                elementwise::scale(isa, x, scale);
            }
        });
        Ok(())
    }

    fn embed_positions(&mut self, batch: &Batch, table: Weight) -> Result<()> {
        let (matrix, bytes) = self.backend.matrix(table)?;
        check_table(&matrix, batch.positions, self.acts.n, self.acts.width(Act::X))?;
        let isa = self.backend.isa;
        // `O` is free before the first block.
        let [x, row] = self.acts.pair(Act::X, Act::O)?;
        each_row(&*team(&mut self.team)?, x, row, |t, x, row| {
            matrix.decode_row(bytes, batch.positions[t] as usize, row);
            elementwise::add_scaled(isa, x, row, 1.0);
        });
        Ok(())
    }

    fn norm(&mut self, norm: &Norm, input: Act, out: Act) -> Result<()> {
        let width = self.acts.width(input);
        let norm = Weighted::new(&self.backend, norm, width)?;
        if input == out {
            each(&*team(&mut self.team)?, self.acts.get(out), |_, x| norm.apply(x));
            return Ok(());
        }
        self.acts.narrow(out, width)?;
        let [input, out] = self.acts.pair(input, out)?;
        each_row(&*team(&mut self.team)?, input, out, |_, input, out| {
            out.copy_from_slice(input);
            norm.apply(out);
        });
        Ok(())
    }

    fn add(&mut self, x: Act, delta: Act, scale: f32) -> Result<()> {
        let isa = self.backend.isa;
        let [x, delta] = self.acts.pair(x, delta)?;
        if x.1 != delta.1 {
            return mismatch(|| format!("a sum of rows of {} and {}", x.1, delta.1));
        }
        each_row(&*team(&mut self.team)?, x, delta, |_, x, delta| elementwise::add_scaled(isa, x, delta, scale));
        Ok(())
    }

    fn add_norm(&mut self, x: Act, delta: Act, scale: f32, norm: &Norm, out: Act) -> Result<()> {
        let isa = self.backend.isa;
        let [width, width_delta] = [x, delta].map(|act| self.acts.width(act));
        if x == delta || delta == out || x == out || width != width_delta {
            // Not the shape of a network; correct all the same.
            self.add(x, delta, scale)?;
            return self.norm(norm, x, out);
        }
        let norm = Weighted::new(&self.backend, norm, width)?;
        self.acts.narrow(out, width)?;
        let n = self.acts.n * width;
        let Ok([x, delta, out]) = self.acts.buffers.get_disjoint_mut([x as usize, delta as usize, out as usize]) else {
            return Err(Error::invalid("an activation twice in one verb"));
        };
        let delta = &delta[..n];
        each_row(&*team(&mut self.team)?, (&mut x[..n], width), (&mut out[..n], width), |t, x, out| {
            elementwise::add_scaled(isa, x, &delta[t * width..(t + 1) * width], scale);
            out.copy_from_slice(x);
            norm.apply(out);
        });
        Ok(())
    }

    fn project(&mut self, input: Act, projections: &[Projection]) -> Result<()> {
        // By number, because the jobs of a product live on the stack.
        for projections in projections.chunks(3) {
            match projections {
                [a] => self.project_each(input, &[*a])?,
                [a, b] => self.project_each(input, &[*a, *b])?,
                [a, b, c] => self.project_each(input, &[*a, *b, *c])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn rope(&mut self, table: RopeTable) -> Result<()> {
        let CpuExec { backend, team: open, acts, turns, positions, heads, .. } = self;
        let index = table.0 as usize;
        let (Some(turns), Some(rope)) = (turns.get_mut(index), backend.ropes.get(index)) else {
            return Err(Error::invalid(format!("{table:?} was not uploaded before this exec was made")));
        };
        if turns.width == 0 {
            return Ok(());
        }
        if !turns.made {
            turns.make(rope, positions);
        }
        let (isa, dim, turns) = (backend.isa, heads.dim, &*turns);
        let [q, k] = acts.pair(Act::Q, Act::K)?;
        each_row(&*team(open)?, q, k, |t, q, k| {
            let row = t * turns.width..(t + 1) * turns.width;
            let (cos, sin) = (&turns.cos[row.clone()], &turns.sin[row]);
            for head in q.chunks_exact_mut(dim).chain(k.chunks_exact_mut(dim)) {
                match rope.pairs {
                    RopePairs::Halves => elementwise::rope_halves(isa, head, cos, sin),
                    RopePairs::Adjacent => elementwise::rope_adjacent(isa, head, cos, sin),
                }
            }
        });
        Ok(())
    }

    fn kv_write(&mut self, batch: &mut Batch, layer: usize) -> Result<()> {
        let CpuExec { backend, team: open, acts, heads, .. } = self;
        LayerSource::new(*heads, batch.kvs, layer)?;
        let (isa, team, kv, dim) = (backend.isa, team(open)?, heads.kv, heads.dim);
        let [(keys, width), (values, _)] = acts.pair(Act::K, Act::V)?;
        if keys.len() != values.len() || width != kv * dim || batch.positions.len() * width != keys.len() {
            return mismatch(|| format!("{} keys and {} values for {heads:?}", keys.len(), values.len()));
        }
        let (mut first, n) = (0, batch.slots.len());
        while first < n {
            let slot = batch.slots[first];
            let tokens = first..first + batch.slots[first..].iter().take_while(|&&s| s == slot).count();
            first = tokens.end;
            let Some(cache) = batch.kvs.get_mut(slot as usize).and_then(|kv| kv.own_mut::<CpuKv>()) else {
                return Err(Error::invalid(format!("slot {slot} of {n}")));
            };
            let positions = &batch.positions[tokens.clone()];
            let rows = tokens.start * width..tokens.end * width;
            let (keys, values) = (&keys[rows.clone()], &values[rows]);
            if keys.len() <= SMALL / 8 {
                for ((&position, key), value) in positions.iter().zip(keys.chunks(width)).zip(values.chunks(width)) {
                    cache.write(isa, layer, position as usize, key, value);
                }
                continue;
            }
            let writer = cache.writer();
            team.for_each(2 * kv, |i| {
                let (head, part, rows) = [(i / 2, Part::Keys, keys), (i / 2, Part::Values, values)][i % 2];
                for (&position, row) in positions.iter().zip(rows.chunks(width)) {
                    let row = &row[head * dim..][..dim];
                    // SAFETY: a part of a head is one item, and items go to one thread each.
                    unsafe { writer.write(isa, layer, head, part, position as usize, row) };
                }
            });
        }
        Ok(())
    }

    fn keep_outputs(&mut self, batch: &Batch) -> Result<()> {
        let (n, m) = (self.acts.n, batch.outputs.len());
        if self.kept_outputs || m >= n || batch.outputs.iter().any(|&t| t as usize >= n) {
            return Ok(());
        }
        for (to, &from) in batch.outputs.iter().enumerate() {
            let from = from as usize;
            for act in [Act::X, Act::Q] {
                let (rows, width) = self.acts.get(act);
                rows.copy_within(from * width..(from + 1) * width, to * width);
            }
            self.positions[to] = self.positions[from];
            self.slots[to] = self.slots[from];
        }
        self.positions.truncate(m);
        self.slots.truncate(m);
        self.turns.iter_mut().for_each(|turns| turns.made = false);
        self.acts.n = m;
        self.kept_outputs = true;
        Ok(())
    }

    fn attend(&mut self, batch: &Batch, attention: &Attention) -> Result<()> {
        let CpuExec { backend, team: open, acts, heads, attention: scratch, positions, slots, .. } = self;
        let source = LayerSource::new(*heads, batch.kvs, attention.layer)?;
        let holds = |(&position, &slot): (&u32, &u32)| {
            batch.kvs.get(slot as usize).is_some_and(|kv| (position as usize) < kv.spec().capacity)
        };
        let width = heads.queries * heads.dim;
        if acts.width(Act::Q) != width || !positions.iter().zip(&*slots).all(holds) {
            return mismatch(|| format!("queries of {} values for {heads:?}", acts.width(Act::Q)));
        }
        acts.narrow(Act::A, width)?;
        let scoring = Scoring { scale: attention.scale, softcap: attention.softcap, window: attention.window };
        let [(q, _), (out, _)] = acts.pair(Act::Q, Act::A)?;
        attention::attend(&*team(open)?, backend.isa, &scoring, positions, slots, &source, q, out, scratch);
        Ok(())
    }

    fn glu(&mut self, activation: Activation, gated: bool) -> Result<()> {
        let isa = self.backend.isa;
        if !gated {
            each(&*team(&mut self.team)?, self.acts.get(Act::G), |_, g| elementwise::activate(isa, activation, g));
            return Ok(());
        }
        let [g, u] = self.acts.pair(Act::G, Act::U)?;
        if g.1 != u.1 {
            return mismatch(|| format!("a gate of {} for {} values", g.1, u.1));
        }
        each_row(&*team(&mut self.team)?, g, u, |_, g, u| elementwise::glu(isa, activation, g, u));
        Ok(())
    }

    fn route(&mut self, routing: &Routing) -> Result<()> {
        let (scores, n_experts) = self.acts.get(Act::R);
        let ExpertScratch { chosen, n_used, ranking, .. } = &mut self.experts;
        let n = scores.len() / n_experts.max(1);
        *n_used = routing.n_used;
        if routing.n_used == 0 || routing.n_used > n_experts || n * routing.n_used > chosen.len() {
            return mismatch(|| format!("{routing:?} with {n_experts} experts"));
        }
        for (scores, chosen) in scores.chunks_exact(n_experts).zip(chosen.chunks_exact_mut(routing.n_used)) {
            ranking.clear();
            ranking.extend((0..).zip(scores.iter().copied()));
            // The lower number wins a tie. Equal elements do not occur, so that an unstable sort is as good.
            ranking.sort_unstable_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0)));
            let considered = if routing.softmax_first { &ranking[..] } else { &ranking[..routing.n_used] };
            let peak = ranking[0].1;
            let sum: f32 = considered.iter().map(|(_, score)| (score - peak).exp()).sum();
            for (chosen, (expert, score)) in chosen.iter_mut().zip(&*ranking) {
                *chosen = (*expert, (score - peak).exp() / sum);
            }
            if routing.renormalise {
                let sum: f32 = chosen.iter().map(|(_, weight)| weight).sum();
                chosen.iter_mut().for_each(|(_, weight)| *weight /= sum);
            }
            chosen.sort_unstable_by_key(|(expert, _)| *expert);
        }
        Ok(())
    }

    fn experts(&mut self, experts: &Experts) -> Result<()> {
        let CpuExec { backend, team: open, acts, products, experts: scratch, .. } = self;
        let (team, isa) = (team(open)?, backend.isa);
        let [gate, up, down] = [experts.gate, experts.up, experts.down].map(|weight| backend.matrix(weight));
        let (gate, up, down) = (gate?, up?, down?);
        let (n, hidden, ffn) = (acts.n, acts.width(Act::H), down.0.cols());
        let ExpertScratch { chosen, n_used, members, input, gate: gates, up: ups, down: downs, .. } = scratch;
        let fits = |matrix: &WeightMatrix, rows: usize, cols: usize| {
            Some(matrix.rows) == experts.n_experts.checked_mul(rows) && matrix.cols() == cols
        };
        if !fits(&gate.0, ffn, hidden)
            || !fits(&up.0, ffn, hidden)
            || !fits(&down.0, hidden, ffn)
            || ffn + 2 * PANEL_ROWS > gates.len() / n.max(1)
            || n * *n_used > chosen.len()
        {
            return mismatch(|| format!("{experts:?} for {hidden} values"));
        }
        let chosen = &chosen[..n * *n_used];
        acts.narrow(Act::O, hidden)?;
        let [(h, _), (o, _)] = acts.pair(Act::H, Act::O)?;
        o.fill(0.0);
        for expert in 0..experts.n_experts {
            members.clear();
            let tokens = chosen.chunks_exact(*n_used).enumerate().filter_map(|(t, chosen)| {
                chosen.iter().find(|(e, _)| *e as usize == expert).map(|(_, weight)| (t as u32, *weight))
            });
            members.extend(tokens);
            let m = members.len();
            if m == 0 {
                continue;
            }
            for ((t, _), row) in members.iter().zip(input.chunks_exact_mut(hidden)) {
                row.copy_from_slice(&h[*t as usize * hidden..][..hidden]);
            }
            let rows = Slab::new(expert, ffn, &gate.0);
            let mut jobs = [rows.job(gate, m, gates), rows.job(up, m, ups)];
            matmul::multiply(&team, isa, products, &input[..m * hidden], m, &mut jobs);
            rows.compact(m, gates);
            rows.compact(m, ups);
            each_row(&team, (&mut gates[..m * ffn], ffn), (&mut ups[..m * ffn], ffn), |_, g, u| {
                elementwise::glu(isa, experts.activation, g, u);
            });
            let rows = Slab::new(expert, hidden, &down.0);
            matmul::multiply(&team, isa, products, &gates[..m * ffn], m, &mut [rows.job(down, m, downs)]);
            rows.compact(m, downs);
            for ((t, weight), row) in members.iter().zip(downs.chunks_exact(hidden)) {
                elementwise::add_scaled(isa, &mut o[*t as usize * hidden..][..hidden], row, *weight);
            }
        }
        Ok(())
    }

    fn logits(&mut self, batch: &Batch, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()> {
        let CpuExec {
            backend,
            team: open,
            acts,
            products,
            selected,
            logits,
            vocab,
            outputs,
            max_outputs,
            kept_outputs,
            ..
        } = self;
        let (team, isa, vocab) = (team(open)?, backend.isa, *vocab);
        let (matrix, bytes) = backend.matrix(head)?;
        let bias = bias.map(|bias| backend.vector(bias)).transpose()?;
        let (h, hidden) = acts.get(Act::H);
        let m = batch.outputs.len();
        if matrix.rows != vocab
            || matrix.cols() != hidden
            || bias.is_some_and(|bias| bias.len() != vocab)
            || m > *max_outputs
        {
            return mismatch(|| {
                format!("a head of {} by {}, {vocab} by {hidden} expected", matrix.rows, matrix.cols())
            });
        }
        for ((i, &t), row) in batch.outputs.iter().enumerate().zip(selected.chunks_exact_mut(hidden)) {
            let t = if *kept_outputs { i } else { t as usize };
            let Some(h) = h.chunks_exact(hidden).nth(t) else {
                return Err(Error::invalid(format!("output {t} of {} tokens", h.len() / hidden)));
            };
            row.copy_from_slice(h);
        }
        let logits = &mut logits[..m * vocab];
        let mut jobs = [MatmulJob::new(matrix, bytes, bias, logits)];
        matmul::multiply(&team, isa, products, &selected[..m * hidden], m, &mut jobs);
        if softcap != 0.0 {
            team.chunks_mut(logits, SMALL, |_, x| elementwise::softcap(isa, x, scale, softcap));
        } else if scale != 1.0 {
            team.chunks_mut(logits, SMALL, |_, x| elementwise::scale(isa, x, scale));
        }
        *outputs = m;
        Ok(())
    }

    fn argmax(&mut self, i: usize) -> Result<u32> {
        Ok(elementwise::argmax(self.backend.isa, self.output(i)?) as u32)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        let logits = self.output(i)?;
        if out.len() != logits.len() {
            return Err(Error::BufferTooSmall { needed: logits.len(), capacity: out.len() });
        }
        out.copy_from_slice(logits);
        Ok(())
    }

    fn write(&mut self, act: Act, values: &[f32]) -> Result<()> {
        let (to, _) = self.acts.get(act);
        if to.len() != values.len() {
            return Err(Error::invalid(format!("{} values for the {} of {act:?}", values.len(), to.len())));
        }
        to.copy_from_slice(values);
        Ok(())
    }

    fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        let (from, _) = self.acts.get(act);
        if from.len() != out.len() {
            return Err(Error::BufferTooSmall { needed: from.len(), capacity: out.len() });
        }
        out.copy_from_slice(from);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.team = None;
        Ok(())
    }
}

impl CpuExec {
    /// Logits of output `i` of the last step.
    fn output(&self, i: usize) -> Result<&[f32]> {
        if i >= self.outputs {
            return Err(Error::invalid(format!("output {i} of {}", self.outputs)));
        }
        Ok(&self.logits[i * self.vocab..(i + 1) * self.vocab])
    }
}

/// The rows of one expert in a stack, widened to whole groups of 16.
struct Slab {
    wanted: Range<usize>,
    whole: Range<usize>,
}

impl Slab {
    fn new(expert: usize, rows: usize, matrix: &WeightMatrix) -> Slab {
        let wanted = expert * rows..(expert + 1) * rows;
        let whole = wanted.start / PANEL_ROWS * PANEL_ROWS..wanted.end.next_multiple_of(PANEL_ROWS).min(matrix.rows);
        Slab { wanted, whole }
    }

    /// The product of `tokens` tokens with these rows, `[tokens, whole]`.
    fn job<'a>(&self, (matrix, bytes): (WeightMatrix, &'a [u8]), tokens: usize, out: &'a mut [f32]) -> MatmulJob<'a> {
        let (part, bytes) = matrix.part(bytes, self.whole.clone());
        MatmulJob::new(part, bytes, None, &mut out[..tokens * part.rows])
    }

    /// Drops the rows of other experts from the product.
    fn compact(&self, tokens: usize, out: &mut [f32]) {
        let (offset, n) = (self.wanted.start - self.whole.start, self.wanted.len());
        if self.whole.len() != n {
            for t in 0..tokens {
                let start = t * self.whole.len() + offset;
                out.copy_within(start..start + n, t * n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::pool::Pool;
    use super::*;

    #[test]
    fn a_panic_in_a_verb_gives_the_pool_back() {
        let pool = Arc::new(Pool::new(2).unwrap());
        let mut open = Some(pool.enter());
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let team = team(&mut open).unwrap();
            team.run(|share| assert_eq!(share, 0));
        }));
        assert!(panic.is_err() && team(&mut open).is_err());
        pool.enter().run(|_| ());
    }
}
