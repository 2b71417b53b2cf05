//! Multi-head latent attention (MLA; DeepSeek V2, arXiv 2405.04434): keys and values of all heads are projections of
//! one latent vector per token; the KV cache holds this vector and a part of the key with RoPE that all heads share.
//!
//! The key projection is absorbed into the query, and the value projection follows attention. Older files have both
//! projections in one tensor; then keys and values of all heads are computed and stored.
//!
//! A lightning indexer (DeepSeek V3.2) selects the positions to attend to: a narrow attention without values, whose
//! keys are a KV layer of their own.

use std::ops::Range;

use super::{Attention, Builder};
use crate::error::{Error, Result};
use crate::graph::op::{Attend, Groups, KvLayerId, Mask, Norm, NormKind, Op, Pool, RopeChoice, Select, TensorId};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::{Rope, RopePairs};
use crate::model::hyper::HeadShape;
use crate::model::rope::{self, RopeScaling};
use crate::model::tensors::RowRuns;

/// Parameters of latent attention.
#[derive(Clone, Copy)]
pub struct Latent {
    heads: HeadShape,
    /// Rank of the latent vectors of keys and values, and of queries.
    rank: usize,
    query_rank: usize,
    /// Number of key values with RoPE, the last ones.
    rope_dims: usize,
    rope: Option<RopeChoice>,
    scale: f32,
    /// Epsilon of the norms of latent vectors.
    eps: f32,
    /// Factor of the logarithm of the position, in units of `period`, that scales queries.
    growth: f32,
    period: usize,
    /// A token attends to itself and the `window - 1` tokens before it; 0: to all.
    window: usize,
}

/// Parameters of a lightning indexer.
#[derive(Clone, Copy)]
pub struct Indexer {
    heads: usize,
    /// Width of a query and of a key.
    width: usize,
    /// Number of positions that a token attends to.
    top: usize,
    /// RoPE of queries and keys, and the index of the first rotated value.
    rope: Option<(RopeChoice, usize)>,
    /// Epsilon of the norm of keys.
    eps: f32,
    /// Number of positions that share a key and are selected together.
    pool: usize,
}

/// Maximum number of positions that a token selects.
const MOST_CHOSEN: usize = 1 << 16;

/// Tensors of an indexer.
const INDEXER: [&str; 5] = ["attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"];

/// YaRN's scale of angles and scores for a stretch `factor`.
fn growth(multiplier: f32, factor: f32) -> f32 {
    1.0 + 0.1 * multiplier * libm::logf(factor.max(1.0))
}

impl Latent {
    /// Returns the same attention without RoPE.
    pub fn without_rotation(self) -> Latent {
        Latent { rope: None, ..self }
    }

    /// Returns the same attention, with the common epsilon for latent vectors.
    pub fn with_common_epsilon(self, b: &Builder) -> Latent {
        Latent { eps: b.rms_eps, ..self }
    }

    /// Returns the same attention with `n_heads` heads and a window (0: none).
    pub fn of_layer(self, n_heads: usize, window: usize) -> Latent {
        Latent { heads: HeadShape { n_heads, n_kv_heads: n_heads, ..self.heads }, window, ..self }
    }
}

impl Builder<'_> {
    /// Returns the file's latent attention, with the common RoPE unless another is given.
    pub fn latent(&mut self, pairs: RopePairs, rope: Option<RopeChoice>) -> Result<Latent> {
        self.latent_of("", pairs, rope, true)
    }

    /// Returns the file's latent attention without RoPE; keys need no shared RoPE part.
    pub fn still_latent(&mut self) -> Result<Latent> {
        self.latent_of("", RopePairs::Adjacent, None, false)
    }

    /// Returns the latent attention of sliding-window layers, with widths and a RoPE base of its own.
    pub fn windowed_latent(&mut self, pairs: RopePairs) -> Result<Latent> {
        self.latent_of("_swa", pairs, None, true)
    }

    fn latent_of(&mut self, suffix: &str, pairs: RopePairs, rope: Option<RopeChoice>, rotates: bool) -> Result<Latent> {
        let keys = &self.keys;
        let common = self.hyper.heads;
        let head_dim = keys.size(&format!("attention.key_length_mla{suffix}"))?.unwrap_or(common.head_dim);
        let value_dim = keys.size(&format!("attention.value_length_mla{suffix}"))?.unwrap_or(common.value_dim);
        let rank = keys.require_size(&format!("attention.kv_lora_rank{suffix}"))?;
        let query_rank = keys.size("attention.q_lora_rank")?.unwrap_or(0);
        let growth_of_queries = keys.float("attention.temperature_scale")?.unwrap_or(0.0);
        let period = keys.size("attention.temperature_length")?.unwrap_or(1);
        let mut config = rope::config(keys, head_dim, self.hyper.context_length, pairs)?;
        config.base = keys.float(&format!("rope.freq_base{suffix}"))?.unwrap_or(config.base);
        let mut factor = config.magnitude;
        // Converters store a tenth of the multiplier.
        let multiplier = keys.float("rope.scaling.yarn_log_multiplier")?.map_or(0.0, |m| m / 0.1);
        if let RopeScaling::Yarn { factor: stretch, .. } = config.scaling {
            // The table is scaled by `growth(1)`, which a multiplier replaces.
            if multiplier != 0.0 {
                let plain = self.hyper.traits.plain_yarn && multiplier != 1.0;
                config.magnitude /= growth(if plain { 1.0 } else { multiplier }, stretch);
            }
            factor = config.magnitude * growth(1.0, stretch) * growth(multiplier, stretch);
        }
        let rope_dims = if rotates { config.n_dims } else { keys.size("rope.dimension_count")?.unwrap_or(0) };
        if rope_dims >= head_dim || rank > 1 << 16 || head_dim.max(value_dim) > 1 << 12 || query_rank > 1 << 20 {
            let what =
                format!("latent attention of rank {rank} with keys of {head_dim}, of which {rope_dims} have RoPE");
            return Err(Error::unsupported(what));
        }
        let scale = factor * factor / (head_dim as f32).sqrt();
        let heads = HeadShape { n_heads: common.n_heads, n_kv_heads: common.n_heads, head_dim, value_dim };
        let rope = match rope {
            Some(rope) => Some(rope),
            None if rotates => Some(self.rope(&config)?),
            None => None,
        };
        // GGUF files use the common norm epsilon, most checkpoints a constant.
        let eps = if self.is_folder() { 1e-6 } else { self.rms_eps };
        Ok(Latent {
            heads,
            rank,
            query_rank,
            rope_dims,
            rope,
            scale,
            eps,
            growth: growth_of_queries,
            period,
            window: 0,
        })
    }

    /// Heads, width and number of selected positions of the file's indexer; `rope_dims` values of its keys have RoPE.
    pub fn indexer_sizes(&self, rope_dims: usize) -> Result<[usize; 3]> {
        let heads = self.keys.require_size("attention.indexer.head_count")?;
        let width = self.keys.require_size("attention.indexer.key_length")?;
        let top = self.keys.require_size("attention.indexer.top_k")?;
        match self.most_groups(top, 1).filter(|_| heads <= 1024 && (rope_dims..=1024).contains(&width)) {
            Some(top) => Ok([heads, width, top]),
            None => {
                let what = format!("an indexer of {heads} heads of {width} that chooses {top} positions");
                Err(Error::unsupported(what))
            }
        }
    }

    /// Returns the number of groups of `size` positions to select for `top` positions, which may exceed the context
    /// length; `None` if too many.
    pub fn most_groups(&self, top: usize, size: usize) -> Option<usize> {
        let most = MOST_CHOSEN.checked_div(size)?;
        let context = (self.hyper.context_length as usize).div_ceil(size);
        (top.min(context) <= most).then(|| top.min(most))
    }

    /// Returns zero sizes, for a network without indexers; ignores the file's keys.
    pub fn without_indexer(&self) -> [usize; 3] {
        self.keys.ignore("attention.indexer.");
        [0; 3]
    }

    /// Returns the file's lightning indexer, with the RoPE of latent attention but its own order of pairs.
    pub fn indexer(&mut self, latent: Latent, pairs: RopePairs) -> Result<Indexer> {
        let [heads, width, top] = self.indexer_sizes(latent.rope_dims)?;
        let rope = latent.rope.map(|rope| {
            let rope = self.ropes[rope.table.0 as usize].clone();
            (self.add_rope(Rope { pairs, ..rope }), 0)
        });
        Ok(Indexer { heads, width, top, rope, eps: 1e-6, pool: 1 })
    }

    /// Like `indexer`, with RoPE on the last values, and the common epsilon.
    pub fn indexer_of_last(&mut self, latent: Latent, pairs: RopePairs) -> Result<Indexer> {
        let indexer = self.indexer(latent, pairs)?;
        let rope = indexer.rope.map(|(rope, _)| (rope, indexer.width - latent.rope_dims));
        Ok(Indexer { rope, eps: self.rms_eps, ..indexer })
    }

    /// Like `indexer`, without RoPE, with keys for `attention.indexer.kpool` positions each.
    pub fn pooled_indexer(&mut self, latent: Latent) -> Result<Indexer> {
        let indexer = self.indexer(latent.without_rotation(), RopePairs::Adjacent)?;
        let (key, tail) = ("attention.indexer.kpool", "attention.indexer.kpool_select_tail");
        let pool = self.width(key)?;
        if !(2..=1024).contains(&pool) || indexer.top < pool {
            return Err(self.keys.unsupported(key));
        }
        if self.keys.flag(tail)? == Some(false) {
            return Err(self.keys.unsupported(tail));
        }
        Ok(Indexer { eps: self.layer_eps, pool, ..indexer })
    }

    /// Marks the tensors of an indexer as used in a layer with full attention.
    pub fn ignore_indexer(&mut self) {
        INDEXER.iter().for_each(|part| self.ignore(&format!("indexer.{part}")));
    }

    /// Stores the keys of an indexer; returns the selection op, to be emitted after all stores. `narrow`: input of the
    /// queries.
    fn index(&mut self, x: TensorId, narrow: TensorId, indexer: Indexer) -> Result<Select> {
        let Indexer { heads, width, top, rope, eps, pool } = indexer;
        let q = self.project(narrow, "indexer.attn_q_b", heads * width)?;
        let parts = [self.part("indexer.attn_k", width, 0..width, x)?, self.part("indexer.proj", heads, 0..heads, x)?];
        let [mut k, weights] = self.push_projections(x, parts);
        let norm = self.norm(NormKind::Layer, "indexer.k_norm", 1, width)?;
        self.program.push(Op::Norm { norm: Norm { eps, ..norm }, x: k, out: k });
        if let Some((rope, first)) = rope {
            self.program.push(Op::Rope { rope, head_dim: width, first, q, k: Some(k) });
        }
        if pool > 1 {
            k = self.pooled_keys(x, k, pool)?;
        }
        let layer = self.store_index(k);
        let (groups, top) = match pool {
            1 => (Groups::One, top),
            _ => (Groups::Pools(pool as u32), top / pool * pool + pool - 1),
        };
        let out = self.program.tensor(top);
        Ok(Select { layer, q, weights, out, groups })
    }

    /// Stores keys for selection.
    pub fn store_index(&mut self, k: TensorId) -> KvLayerId {
        self.store_shared(k, self.program.width(k), 0, 1)
    }

    /// Stores keys that all heads share, one per `pool` positions; their first `value_dim` values are the values.
    pub(super) fn store_shared(&mut self, k: TensorId, value_dim: usize, window: usize, pool: usize) -> KvLayerId {
        let head_dim = self.program.width(k);
        let layer = KvLayer { n_kv_heads: 1, head_dim, value_dim, is_latent: true, window, pool };
        let layer = self.program.kv_layer(layer);
        self.program.push(Op::StoreKv { layer, k, v: None });
        layer
    }

    /// Selects `top` positions by their dot product with one query, as ReLU(q · k) - ReLU(-q · k).
    pub fn choose_by_product(&mut self, layer: KvLayerId, q: TensorId, groups: Groups, top: usize) -> TensorId {
        let opposite = self.copy(q, self.program.width(q));
        self.scale(opposite, -1.0);
        let weights = self.copy(q, 2);
        self.fill(weights, vec![1.0, -1.0]);
        let q = self.with_tails(q, Some(opposite), 1);
        let out = self.program.tensor(top);
        self.program.push(Op::Select(Select { layer, q, weights, out, groups }));
        out
    }

    /// Attention to selected positions.
    pub fn attend_among(
        &mut self,
        q: TensorId,
        layer: KvLayerId,
        Attention { heads, scale, .. }: Attention,
        among: TensorId,
    ) -> TensorId {
        let out = self.program.tensor(heads.n_heads * heads.value_dim);
        self.program.push(Op::Attend(Attend { among: Some(among), ..Attend::new(layer, q, out, scale) }));
        out
    }

    /// Weighted sums of keys per pool, with weights by a projection.
    fn pooled_keys(&mut self, x: TensorId, k: TensorId, size: usize) -> Result<TensorId> {
        let width = self.program.width(k);
        let gate = self.project(x, "indexer_compressor_gate", width)?;
        let bias = self.all_values("indexer_compressor_ape.weight", size * width)?;
        Ok(self.pool([gate, k], bias, size, 1))
    }

    /// Gated sums over groups of `size` positions; with `groups` of 2 also over the previous group, whose parts
    /// alternate in the rows.
    pub fn pool(&mut self, [gate, x]: [TensorId; 2], bias: Vec<f32>, size: usize, groups: usize) -> TensorId {
        let (wide, bias) = (self.program.width(x), self.vector(bias));
        let recurrent = self.program.recurrent((groups * size - 1) * 2 * wide);
        let out = self.program.tensor(wide / groups);
        self.program.push(Op::Pool(Pool { recurrent, gate, x, bias, out, size }));
        out
    }

    /// Heads of `x`, each followed by `tail` if given.
    pub fn with_tails(&mut self, x: TensorId, tail: Option<TensorId>, heads: usize) -> TensorId {
        let Some(tail) = tail else { return x };
        let out = self.program.tensor(self.program.width(x) + heads * self.program.width(tail));
        self.program.push(Op::JoinHeads { x, tail, heads, out });
        out
    }

    /// Attention from its input to its output projection.
    pub fn latent_attention(&mut self, x: TensorId, latent: Latent) -> Result<TensorId> {
        self.latent_attention_among(x, latent, None, &mut None)
    }

    /// Like `latent_attention`, restricted to the selection `among` if set; a layer's indexer makes a new selection.
    pub fn latent_attention_among(
        &mut self,
        x: TensorId,
        latent: Latent,
        indexer: Option<Indexer>,
        among: &mut Option<TensorId>,
    ) -> Result<TensorId> {
        let Latent { heads, rank, query_rank, rope_dims, rope, scale, eps, growth, period, window } = latent;
        let HeadShape { n_heads, head_dim, value_dim, .. } = heads;
        let still = head_dim - rope_dims;
        let mut input = x;
        let q = if self.has("attn_q_a.weight") {
            input = self.project(x, "attn_q_a", query_rank)?;
            self.rms_norm_with_eps(input, "attn_q_a_norm", eps)?;
            self.project(input, "attn_q_b", n_heads * head_dim)?
        } else {
            self.project(x, "attn_q", n_heads * head_dim)?
        };
        let select = indexer.map(|indexer| self.index(x, input, indexer)).transpose()?;
        let mut part = |rows| self.part("attn_kv_a_mqa", rank + rope_dims, rows, x);
        let (narrow, rotated) = if rope_dims > 0 {
            let parts = [part(0..rank)?, part(rank..rank + rope_dims)?];
            let [narrow, rotated] = self.push_projections(x, parts);
            (narrow, Some(rotated))
        } else {
            let parts = [part(0..rank)?];
            (self.push_projections(x, parts)[0], None)
        };
        self.rms_norm_with_eps(narrow, "attn_kv_a_norm", eps)?;
        if let Some(rotated) = rotated {
            if self.has("attn_k_norm.weight") {
                self.rms_norm_groups(rotated, "attn_k_norm", rope_dims)?;
            }
            if let Some(rope) = rope {
                self.program.push(Op::Rope { rope, head_dim, first: still, q, k: None });
                self.program.push(Op::Rope { rope, head_dim: rope_dims, first: 0, q: rotated, k: None });
            }
        }
        self.scale_by_position(q, growth, period, 0);
        let out = if self.has("attn_kv_b.weight") {
            if select.is_some() || among.is_some() || window > 0 {
                let what = "an indexer or a window beside keys and values that are computed for all heads";
                return Err(Error::unsupported(what));
            }
            let mut product = |rows: Range<usize>| {
                let name = self.name("attn_kv_b.weight");
                let matrix = {
                    let (first, run, stride) = (rows.start, rows.len(), still + value_dim);
                    let runs = RowRuns { first, run, stride, count: n_heads };
                    self.tensors.matrix(&name, n_heads * stride, runs, rank)?
                };
                let weight = self.add_matrix(matrix);
                Ok::<_, Error>(self.product(narrow, weight))
            };
            let (k, v) = (product(0..still)?, product(still..still + value_dim)?);
            let keys = self.with_tails(k, rotated, n_heads);
            self.attend([q, keys, v], Attention { scale, ..Attention::new(heads) })?
        } else {
            let key = self.with_tails(narrow, rotated, 1);
            let head_dim = rank + rope_dims;
            let layer = self.store_shared(key, rank, window, 1);
            if let Some(select) = select {
                self.program.push(Op::Select(select));
                *among = Some(select.out);
            }
            let weight = self.matrix("attn_k_b.weight", n_heads * rank, still)?;
            let [absorbed, seen, out] = [head_dim, rank, value_dim].map(|width| self.program.tensor(n_heads * width));
            self.program.push(Op::ProjectHeads { x: q, weight, heads: n_heads, out: absorbed });
            let (among, mask) = (among.filter(|_| window == 0), Mask::window(window));
            let sinks = self.name("attn_sinks.weight");
            let sinks = self.tensors.vector_if_present(&sinks, n_heads)?.map(|sinks| self.vector(sinks));
            self.program.push(Op::Attend(Attend { among, mask, sinks, ..Attend::new(layer, absorbed, seen, scale) }));
            let weight = self.matrix("attn_v_b.weight", n_heads * value_dim, rank)?;
            self.program.push(Op::ProjectHeads { x: seen, weight, heads: n_heads, out });
            out
        };
        if self.has("attn_gate.weight") {
            // One per head, or one per value of a head.
            let rows = self.rows("attn_gate.weight")?;
            if rows != n_heads && rows != n_heads * value_dim {
                return Err(self
                    .tensors
                    .damaged(format!("a gate has {rows} rows; {n_heads} heads of {value_dim} need others")));
            }
            let gate = self.project(x, "attn_gate", rows)?;
            self.gate_by_sigmoid(out, gate);
        }
        self.project(out, "attn_output", self.hyper.hidden)
    }
}
