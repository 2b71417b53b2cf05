//! Validates the operand shapes of every op of a program, so that executors need not: one function per kind of op.

use super::op::{
    Attend, Conv, DeltaRule, EmbedNgrams, Experts, Groups, Half, KvLayerId, Mask, Mix, NgramHead, Norm, Op, Pool,
    Projection, RecurrentId, RopeChoice, Scan, Select, TensorId, Vector, Weight, Wkv,
};
use super::program::{MAX_KEY_DIM, MAX_STREAMS, MAX_TAPS, Program, STATE_ALIGN};
use super::sequence_spec::KvLayer;
use super::weights::{Rope, Weights};
use crate::error::{Error, Result};

impl Program {
    /// Fails with `Mismatch` naming the first op that does not fit.
    pub fn check(&self, weights: &Weights) -> Result<()> {
        let mut kept = false;
        let mut advanced = vec![false; self.recurrent.len()];
        let mut stored = vec![0; self.kv_layers.len()];
        for op in &self.ops {
            let checked = Checked { program: self, weights, op };
            if let Some(state) = op.clone().recurrent_mut() {
                checked.recurrent(*state)?;
                let before = std::mem::replace(&mut advanced[state.0 as usize], true);
                checked.expect(!before, || format!("{state:?} advanced twice"))?;
            }
            if let Op::StoreKv { layer, .. } = op {
                checked.layer(*layer)?;
                stored[layer.0 as usize] += 1;
            }
            // After `KeepOutputs` rows are outputs, so ops that depend on tokens are invalid.
            let by_token = op.is_by_token() || matches!(op, Op::KeepOutputs { .. });
            checked.expect(!(kept && by_token), || "tokens for rows that are outputs".to_owned())?;
            let is_logits = matches!(op, Op::Logits { .. });
            checked.expect(kept || !is_logits, || "logits for rows that are no outputs".to_owned())?;
            kept |= matches!(op, Op::KeepOutputs { .. });
            let mut known = true;
            op.for_each_tensor(|tensor| known &= self.width(tensor) > 0);
            checked.expect(known, || "an activation without a width".to_owned())?;
            checked.check()?;
        }
        // A second store would replace the first one's keys from earlier steps, which causal tokens attend to.
        for op in &self.ops {
            let layer = match op {
                Op::Attend(a) if a.mask.is_causal() => a.layer,
                Op::Select(s) => s.layer,
                _ => continue,
            };
            let once = stored[layer.0 as usize] < 2;
            Checked { program: self, weights, op }.expect(once, || format!("{layer:?} stored twice"))?;
        }
        Ok(())
    }
}

/// An op, and the program and weights to check its operands against.
struct Checked<'a> {
    program: &'a Program,
    weights: &'a Weights<'a>,
    op: &'a Op,
}

impl Checked<'_> {
    fn check(&self) -> Result<()> {
        match self.op {
            Op::Embed { table, rows, out, .. } => self.embed(*table, *rows, *out),
            Op::EmbedNgrams(op) => self.embed_ngrams(op),
            Op::Norm { norm, x, out } => self.norm(norm, *x, *out),
            Op::Add { x, delta, .. } => self.add(*x, *delta),
            Op::Scale { .. } | Op::AddMedia { .. } | Op::Xielu { .. } | Op::Threshold { .. } => Ok(()),
            Op::Clamp { low, high, .. } => self.expect(low <= high, || format!("limits {low} and {high}")),
            Op::Mean { x, groups, out } => {
                let [n, each] = [*x, *out].map(|tensor| self.width(tensor));
                self.expect(groups.checked_mul(each) == Some(n) && x != out, || format!("groups of {each} in {n}"))
            }
            Op::ScaleColumns { x, by } => {
                let n = self.width(*x);
                self.expect(self.vector(*by, n)?, || format!("factors for {n} values"))
            }
            Op::Rescale { x, like } => {
                let [n, part] = [*x, *like].map(|tensor| self.width(tensor));
                self.expect(n.is_multiple_of(part) && x != like, || format!("a size of {part} values for {n}"))
            }
            Op::MixByScore { x, by, out, .. } => {
                let [n, each] = [*x, *out].map(|tensor| self.width(tensor));
                let fits = n.is_multiple_of(each) && x != out && self.vector(*by, each)?;
                self.expect(fits, || format!("streams of {each} values in {n}"))
            }
            Op::Sinkhorn { x, rounds, .. } => {
                let n = self.width(*x);
                let fits = n.isqrt() <= MAX_STREAMS && n.isqrt().pow(2) == n && *rounds > 0;
                self.expect(fits, || format!("a square matrix of {n} values"))
            }
            Op::Dot { x, y, out } => {
                let [n, other, heads] = [*x, *y, *out].map(|tensor| self.width(tensor));
                let fits = n == other && n.is_multiple_of(heads) && x != y && ![x, y].contains(&out);
                self.expect(fits, || format!("{heads} products of rows of {n} and {other}"))
            }
            Op::Mix(op) => self.mix(op),
            Op::ScaleByPosition { length, .. } => self.expect(*length > 0, || "a length of 0".to_owned()),
            Op::Project { x, projections } => self.project(*x, projections),
            Op::ProjectHeads { x, weight, heads, out } => self.project_heads(*x, *weight, *heads, *out),
            Op::JoinHeads { x, tail, heads, out } => self.join_heads(*x, *tail, *heads, *out),
            Op::Slice { x, first, out } => self.slice(*x, *first, *out),
            Op::Gather { x, by, out } => {
                let [n, part] = [*x, *out].map(|tensor| self.width(tensor));
                self.expect(x != out && self.places(Some(*by), n, part)?, || format!("places of {part} values in {n}"))
            }
            Op::Rope { rope, head_dim, first, q, k } => self.rope(rope, *head_dim, *first, [Some(*q), *k]),
            Op::StoreKv { layer, k, v } => self.store_kv(*layer, *k, *v),
            Op::KeepOutputs { moves } => {
                let fits = moves.iter().all(|[from, to]| self.width(*from) == self.width(*to) && from != to);
                self.expect(fits, || "rows of different widths".to_owned())
            }
            Op::Attend(op) => self.attend(op),
            Op::Select(op) => self.select(op),
            Op::Conv(op) => self.conv(op),
            Op::Pool(op) => self.pool(op),
            Op::DeltaRule(op) => self.delta_rule(op),
            Op::Scan(op) => self.scan(op),
            Op::Wkv(op) => self.wkv(op),
            Op::Glu { gate, up, .. } => {
                let n = self.width(*gate);
                let fits = up.is_none_or(|up| self.width(up) == n && up != *gate);
                self.expect(fits, || format!("a gate of {n} values"))
            }
            Op::Gate { x, gate, .. } => {
                let [n, gates] = [*x, *gate].map(|tensor| self.width(tensor));
                self.expect(n.is_multiple_of(gates) && x != gate, || format!("a gate of {gates} values for {n}"))
            }
            Op::Experts(op) => self.experts(op),
            Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. } | Op::OfMedia { .. } => Ok(()),
            Op::Logits { x, head, bias, .. } => self.logits(*x, *head, *bias),
        }
    }

    /// Fails with `Mismatch`, naming `what` and the op, unless `fits`.
    fn expect(&self, fits: bool, what: impl FnOnce() -> String) -> Result<()> {
        if fits { Ok(()) } else { Err(Error::Mismatch(format!("{}: {:?}", what(), self.op))) }
    }

    fn width(&self, tensor: TensorId) -> usize {
        self.program.width(tensor)
    }

    fn vector(&self, vector: Vector, len: usize) -> Result<bool> {
        Ok(self.weights.vector(vector)?.len() == len)
    }

    fn bias(&self, vector: Option<Vector>, len: usize) -> Result<bool> {
        vector.map_or(Ok(true), |vector| self.vector(vector, len))
    }

    fn layer(&self, layer: KvLayerId) -> Result<KvLayer> {
        let all = &self.program.kv_layers;
        let found = all.get(layer.0 as usize).copied();
        found.ok_or_else(|| {
            Error::Mismatch(format!("{layer:?} does not exist, the program has {}: {:?}", all.len(), self.op))
        })
    }

    /// Returns the number of values of a recurrent state.
    fn recurrent(&self, state: RecurrentId) -> Result<usize> {
        let all = &self.program.recurrent;
        let values = all.get(state.0 as usize).copied();
        values.ok_or_else(|| {
            Error::Mismatch(format!("{state:?} does not exist, the program has {}: {:?}", all.len(), self.op))
        })
    }

    fn embed(&self, table: Weight, rows: usize, out: TensorId) -> Result<()> {
        let shape = self.weights.shape(table)?;
        self.expect(rows > 0 && shape == (rows, self.width(out)), || format!("a table of {shape:?}"))
    }

    fn embed_ngrams(&self, e: &EmbedNgrams) -> Result<()> {
        let (rows, width) = self.weights.shape(e.table)?;
        let fits = |head: &NgramHead| {
            let end = head.first.checked_add(head.rows);
            (1..=e.multipliers.len()).contains(&head.n) && head.rows > 0 && end.is_some_and(|end| end <= rows as u64)
        };
        let fits = e.multipliers.len() > 1
            && e.heads.iter().all(fits)
            && e.heads.len().checked_mul(width) == Some(self.width(e.out))
            && self.recurrent(e.recurrent)? == e.multipliers.len() - 1;
        self.expect(fits, || format!("{} rows of {width} a token", e.heads.len()))
    }

    fn norm(&self, norm: &Norm, x: TensorId, out: TensorId) -> Result<()> {
        let (group, n) = (norm.group, self.width(x));
        let wide = |v: Option<Vector>| Ok::<_, Error>(self.bias(v, group)? || self.bias(v, n)?);
        let fits = group > 0 && n.is_multiple_of(group) && n == self.width(out);
        let fits = fits && wide(norm.weight)? && wide(norm.bias)?;
        self.expect(fits, || format!("a norm of rows of {n}"))
    }

    fn add(&self, x: TensorId, delta: TensorId) -> Result<()> {
        let [a, b] = [x, delta].map(|tensor| self.width(tensor));
        self.expect(a == b && x != delta, || format!("a sum of rows of {a} and {b}"))
    }

    fn mix(&self, m: &Mix) -> Result<()> {
        let (from, to) = (self.width(m.x), self.width(m.out).saturating_sub(m.first));
        let fits = heads_fit(&[from, to], m.width)
            && to > 0
            && m.by.is_none_or(|by| self.width(by) == (from / m.width) * (to / m.width) && ![m.x, m.out].contains(&by))
            && m.x != m.out;
        self.expect(fits, || format!("streams of {} values from {from} to {to}", m.width))
    }

    fn project(&self, x: TensorId, projections: &[Projection]) -> Result<()> {
        for (i, p) in projections.iter().enumerate() {
            let (rows, cols) = self.weights.shape(p.weight)?;
            let [from, to] = [x, p.out].map(|tensor| self.width(tensor));
            let fits = cols == from && rows == to && self.bias(p.bias, rows)?;
            self.expect(fits, || format!("{rows} by {cols} for {from} to {to}"))?;
            let alone = p.out != x && projections[..i].iter().all(|other| other.out != p.out);
            self.expect(alone, || format!("{:?} twice in one op", p.out))?;
        }
        Ok(())
    }

    fn project_heads(&self, x: TensorId, weight: Weight, heads: usize, out: TensorId) -> Result<()> {
        let (rows, cols) = self.weights.shape(weight)?;
        let [from, to] = [x, out].map(|tensor| self.width(tensor).checked_div(heads).unwrap_or(0));
        let fits = heads_fit(&[self.width(x), self.width(out), rows], heads)
            && from >= cols
            && to == rows / heads + from - cols
            && x != out;
        self.expect(fits, || format!("{rows} by {cols} for heads of {from} to {to}"))
    }

    fn join_heads(&self, x: TensorId, tail: TensorId, heads: usize, out: TensorId) -> Result<()> {
        let [n, last, all] = [x, tail, out].map(|tensor| self.width(tensor));
        let fits = heads_fit(&[n, all], heads) && all / heads == n / heads + last && ![x, tail].contains(&out);
        self.expect(fits, || format!("{heads} heads of {n} and {last}"))
    }

    fn slice(&self, x: TensorId, first: usize, out: TensorId) -> Result<()> {
        let [n, part] = [x, out].map(|tensor| self.width(tensor));
        let fits = first.checked_add(part).is_some_and(|end| end <= n) && x != out;
        self.expect(fits, || format!("{part} values of {n}"))
    }

    fn rope(&self, rope: &RopeChoice, head_dim: usize, first: usize, [q, k]: [Option<TensorId>; 2]) -> Result<()> {
        let tables = [Some(rope.table), rope.long.map(|(_, table)| table)];
        for table in tables.into_iter().flatten() {
            let Rope { inv_freq, axes, .. } = self.weights.rope(table)?;
            let pairs = inv_freq.len();
            let fits = first.checked_add(2 * pairs).is_some_and(|end| end <= head_dim);
            self.expect(fits, || format!("{pairs} pairs for heads of {head_dim}"))?;
            let known = (axes.is_empty() || axes.len() == pairs) && axes.iter().all(|axis| *axis < 3);
            self.expect(known, || format!("axes {axes:?} of {pairs} pairs"))?;
        }
        let fits = |tensor: TensorId| head_dim > 0 && self.width(tensor).is_multiple_of(head_dim);
        self.expect(q.is_none_or(fits) && k.is_none_or(fits) && q != k, || "heads of a rotation".to_owned())
    }

    fn store_kv(&self, layer: KvLayerId, k: TensorId, v: Option<TensorId>) -> Result<()> {
        let layer = self.layer(layer)?;
        let values = if layer.is_latent { None } else { Some(layer.value_width()) };
        let keys = self.width(k);
        let fits = (keys, v.map(|v| self.width(v))) == (layer.key_width(), values) && Some(k) != v;
        self.expect(fits, || format!("keys of {keys} for a cache of {}", layer.key_width()))
    }

    fn attend(&self, a: &Attend) -> Result<()> {
        let KvLayer { n_kv_heads, head_dim, value_dim, window, is_latent, pool } = self.layer(a.layer)?;
        let n = self.width(a.q);
        let (sums, goes_on) = (a.half.map(Half::sums), matches!(a.half, Some(Half::Second(_))));
        let distances = a.distances.map_or(Ok(1), |v| self.weights.vector(v).map(|values| values.len()))?;
        let heads = n / head_dim.max(1);
        let fits = (a.distances.is_none() || heads_fit(&[distances], heads) && distances / heads % 2 == 1)
            && (a.mask.is_causal() || window == 0)
            && n.is_multiple_of(head_dim)
            && n >= n_kv_heads * head_dim
            && self.width(a.out) == n / head_dim * value_dim
            && a.q != a.out
            && (window == 0 || (1..=window).contains(&a.mask.span()))
            && !matches!(a.mask, Mask::Window(0) | Mask::Chunk(0))
            && self.bias(a.slopes, n / head_dim)?
            && self.bias(a.sinks, n / head_dim)?
            && a.among.is_none_or(|among| a.mask == Mask::Causal && ![a.q, a.out].contains(&among))
            && sums.is_none_or(|sums| self.width(sums) == n / head_dim && ![a.q, a.out].contains(&sums))
            // A second half needs a latent layer, whose results are unrotated like the first half's. Only a second half
            // may use shared keys, because a token may have none yet.
            && !(goes_on && (a.sinks.is_some() || !is_latent))
            && (pool == 1 || pool > 1 && goes_on && a.mask == Mask::Causal);
        self.expect(fits, || format!("queries of {n} values"))
    }

    fn select(&self, s: &Select) -> Result<()> {
        let KvLayer { n_kv_heads, head_dim, window, .. } = self.layer(s.layer)?;
        let n = self.width(s.q);
        let fits = n_kv_heads == 1 && window == 0 && n == self.width(s.weights).saturating_mul(head_dim);
        let fits = fits && ![s.q, s.weights].contains(&s.out) && s.q != s.weights;
        let (size, top) = (s.groups.size(), self.width(s.out));
        let fits = fits
            && match s.groups {
                Groups::One => true,
                Groups::Pools(_) => size > 0 && top >= size && top % size == size - 1,
                Groups::Blocks { local, .. } => size > 0 && top > 0 && top.is_multiple_of(size) && local > 0,
            };
        self.expect(fits, || format!("a choice by queries of {n} values"))
    }

    fn conv(&self, c: &Conv) -> Result<()> {
        let wide = self.width(c.x);
        let fits = (2..=MAX_TAPS).contains(&c.taps)
            && self.recurrent(c.recurrent)? == (c.taps - 1) * wide
            && self.vector(c.kernel, c.taps * wide)?
            && self.bias(c.bias, wide)?;
        self.expect(fits, || format!("a convolution of {} taps over {wide}", c.taps))
    }

    fn pool(&self, p: &Pool) -> Result<()> {
        let [wide, gates, out] = [p.x, p.gate, p.out].map(|tensor| self.width(tensor));
        let groups = wide / out;
        let fits = p.size > 1
            && gates == wide
            && (1..=2).contains(&groups)
            && wide == groups * out
            && p.x != p.gate
            && ![p.x, p.gate].contains(&p.out)
            && self.recurrent(p.recurrent)? == p.size.saturating_mul(groups).saturating_sub(1).saturating_mul(2 * wide)
            && self.vector(p.bias, p.size.saturating_mul(wide))?;
        self.expect(fits, || format!("groups of {} rows of {wide}", p.size))
    }

    fn delta_rule(&self, d: &DeltaRule) -> Result<()> {
        let [heads, keys, values] = [d.beta, d.k, d.v].map(|tensor| self.width(tensor));
        let dim = d.key_dim;
        let fits = (1..=MAX_KEY_DIM).contains(&dim)
            && keys.is_multiple_of(dim)
            && heads.is_multiple_of(keys / dim)
            && values.is_multiple_of(heads * STATE_ALIGN)
            && (self.width(d.q), self.width(d.out)) == (keys, values)
            && [heads, heads * dim].contains(&self.width(d.dt))
            && ![d.q, d.k, d.v, d.dt, d.beta].contains(&d.out)
            && self.recurrent(d.recurrent)? == values.saturating_mul(dim)
            && self.vector(d.rate, heads)?;
        self.expect(fits, || format!("a delta rule of {heads} heads over {values} values"))
    }

    fn scan(&self, s: &Scan) -> Result<()> {
        let [heads, wide, b] = [s.dt, s.x, s.b].map(|tensor| self.width(tensor));
        let groups = b / s.state.max(1);
        let per_channel = heads == wide && self.vector(s.rate, heads.saturating_mul(s.state))?;
        let fits = groups > 0
            && b == groups * s.state
            && heads.is_multiple_of(groups)
            && wide.is_multiple_of(heads)
            && wide.is_multiple_of(groups * STATE_ALIGN)
            && (self.width(s.c), self.width(s.out)) == (b, wide)
            && ![s.x, s.dt, s.b, s.c].contains(&s.out)
            && self.recurrent(s.recurrent)? == wide.saturating_mul(s.state)
            && (per_channel || self.vector(s.rate, heads)?)
            && self.vector(s.skip, heads)?;
        self.expect(fits, || format!("a scan of {heads} heads over {wide} values"))
    }

    fn wkv(&self, w: &Wkv) -> Result<()> {
        let [wide, keys] = [w.r, w.k].map(|tensor| self.width(tensor));
        let dim = w.dim;
        let read: Vec<TensorId> = [w.r, w.k, w.v, w.dt].into_iter().chain(w.moved.into_iter().flatten()).collect();
        let fits = (1..=MAX_KEY_DIM).contains(&dim)
            && dim.is_multiple_of(STATE_ALIGN)
            && wide.is_multiple_of(dim)
            && keys.is_multiple_of(dim)
            && (wide / dim).is_multiple_of(keys / dim)
            && self.width(w.v) == keys
            && [w.dt, w.out].into_iter().chain(w.moved.into_iter().flatten()).all(|t| self.width(t) == wide)
            && (1..read.len()).all(|i| !read[i..].contains(&read[i - 1]) && read[i] != w.out)
            && w.r != w.out
            && self.recurrent(w.recurrent)? == wide.saturating_mul(dim);
        self.expect(fits, || format!("heads of {dim} over {wide} values"))
    }

    fn experts(&self, e: &Experts) -> Result<()> {
        let (n, hidden, ffn, r) = (e.n_experts, self.width(e.x), e.ffn, &e.routing);
        let sharing = r.sharing;
        self.expect(sharing > 0 && n.is_multiple_of(sharing), || format!("{n} experts, {sharing} of them alike"))?;
        let (inner, outer) = (e.stack().saturating_mul(ffn), e.stack().saturating_mul(hidden));
        let both = if e.gate == Some(e.up) { 2 } else { 1 };
        let gate = self.weights.shape(e.gate.unwrap_or(e.up))?;
        let fits = [gate, self.weights.shape(e.up)?] == [(inner.saturating_mul(both), hidden); 2]
            && self.weights.shape(e.down)? == (outer, ffn)
            && (self.width(e.scores), self.width(e.out)) == (n, hidden)
            && (1..=n).contains(&r.n_used)
            && self.bias(r.bias, n)?
            && r.by_id.map_or(Ok(true), |v| self.by_id(v, n, r.n_used))?
            && (r.groups > 0 && n.is_multiple_of(r.groups) && (1..=r.groups).contains(&r.groups_used))
            && r.n_used <= n / r.groups * r.groups_used
            && self.bias(e.biases[0], inner)?
            && self.bias(e.biases[1], inner)?
            && self.bias(e.biases[2], outer)?
            && e.scales.iter().try_fold(true, |fits, s| Ok::<_, Error>(fits && self.bias(*s, e.stack())?))?
            && self.places(e.orders[0], hidden, outer)?
            && self.places(e.orders[1], hidden, outer)?
            && self.places(e.orders[2], ffn, inner)?
            && !(r.on_input && sharing > 1)
            && e.x != e.out;
        self.expect(fits, || format!("experts of {ffn} values over {hidden}"))
    }

    /// True if an optional vector has `len` valid indices into rows of `n` values.
    fn places(&self, vector: Option<Vector>, n: usize, len: usize) -> Result<bool> {
        let Some(vector) = vector else { return Ok(true) };
        let places = self.weights.vector(vector)?;
        Ok(places.len() == len && places.iter().all(|x| *x >= 0.0 && *x < n as f32))
    }

    /// True if a table has valid experts for every id.
    fn by_id(&self, table: Vector, n_experts: usize, n_used: usize) -> Result<bool> {
        let table = self.weights.vector(table)?;
        let is_expert = |x: &f32| *x >= 0.0 && *x < n_experts as f32;
        Ok(table.len() / n_used.max(1) >= self.program.max_ids && table.iter().all(is_expert))
    }

    fn logits(&self, x: TensorId, head: Weight, bias: Option<Vector>) -> Result<()> {
        let (vocab, n) = (self.program.vocab, self.width(x));
        let fits = self.weights.shape(head)? == (vocab, n) && self.bias(bias, vocab)?;
        self.expect(fits, || format!("a head for {vocab} logits of {n}"))
    }
}

/// True if rows of such widths are whole numbers of heads.
fn heads_fit(widths: &[usize], heads: usize) -> bool {
    heads > 0 && widths.iter().all(|width| width.is_multiple_of(heads))
}
