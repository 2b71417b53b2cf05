//! Multi-head latent attention (DeepSeek V2, arXiv 2405.04434): keys and values of all heads are products of one narrow
//! vector a token, which is what the cache keeps, beside a part of the key that turns and that all heads share.
//!
//! The product of keys is absorbed into the query, and that of values follows attention. Files from before that keep
//! both products in one tensor, by which keys and values of all heads are computed and kept.

use std::ops::Range;

use super::{Attention, Builder};
use crate::error::{Error, Result};
use crate::graph::op::{Attend, Op, RopeChoice, TensorId};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::RopePairs;
use crate::model::hyper::HeadShape;
use crate::model::rope::{self, RopeScaling};
use crate::model::tensors::RowRuns;

/// The choices of latent attention.
#[derive(Clone, Copy)]
pub struct Latent {
    heads: HeadShape,
    /// Width of the narrow vectors of keys and values, and of queries.
    rank: usize,
    query_rank: usize,
    /// Numbers of a key that turn, the last ones.
    turning: usize,
    rope: Option<RopeChoice>,
    scale: f32,
    /// Queries grow with the logarithm of their position in periods of some length.
    growth: f32,
    period: usize,
}

/// The growth of angles and scores by YaRN for a factor of its logarithm.
fn growth(multiplier: f32, factor: f32) -> f32 {
    1.0 + 0.1 * multiplier * libm::logf(factor.max(1.0))
}

impl Latent {
    /// The same attention without positions.
    pub fn without_rotation(self) -> Latent {
        Latent { rope: None, ..self }
    }
}

impl Builder<'_> {
    /// The latent attention that a file tells, with its common rotation unless another is given.
    pub fn latent(&mut self, pairs: RopePairs, rope: Option<RopeChoice>) -> Result<Latent> {
        let keys = &self.keys;
        let common = self.hyper.heads;
        let head_dim = keys.size("attention.key_length_mla")?.unwrap_or(common.head_dim);
        let value_dim = keys.size("attention.value_length_mla")?.unwrap_or(common.value_dim);
        let rank = keys.require_size("attention.kv_lora_rank")?;
        let query_rank = keys.size("attention.q_lora_rank")?.unwrap_or(0);
        let growth_of_queries = keys.float("attention.temperature_scale")?.unwrap_or(0.0);
        let period = keys.size("attention.temperature_length")?.unwrap_or(1);
        let mut config = rope::config(keys, head_dim, self.hyper.context_length, pairs)?;
        let mut factor = config.magnitude;
        // The converter stores a tenth of the multiplier.
        let multiplier = keys.float("rope.scaling.yarn_log_multiplier")?.map_or(0.0, |m| m / 0.1);
        if let RopeScaling::Yarn { factor: stretch, .. } = config.scaling {
            // The table grows by `growth(1)`, which a multiplier replaces.
            if multiplier != 0.0 {
                let plain = self.hyper.traits.plain_yarn && multiplier != 1.0;
                config.magnitude /= growth(if plain { 1.0 } else { multiplier }, stretch);
            }
            factor = config.magnitude * growth(1.0, stretch) * growth(multiplier, stretch);
        }
        let turning = config.n_dims;
        if turning >= head_dim || rank > 1 << 16 || head_dim.max(value_dim) > 1 << 12 || query_rank > 1 << 20 {
            let what = format!("latent attention of rank {rank} with keys of {head_dim}, of which {turning} turn");
            return Err(Error::unsupported(what));
        }
        let scale = factor * factor / (head_dim as f32).sqrt();
        let heads = HeadShape { n_heads: common.n_heads, n_kv_heads: common.n_heads, head_dim, value_dim };
        let rope = match rope {
            Some(rope) => Some(rope),
            None => Some(self.rope(&config)?),
        };
        Ok(Latent { heads, rank, query_rank, turning, rope, scale, growth: growth_of_queries, period })
    }

    /// An attention from its input to its output projection.
    pub fn latent_attention(&mut self, x: TensorId, latent: Latent) -> Result<TensorId> {
        let Latent { heads, rank, query_rank, turning, rope, scale, growth, period } = latent;
        let HeadShape { n_heads, head_dim, value_dim, .. } = heads;
        let still = head_dim - turning;
        // That of GGUF files is the one of all norms, that of checkpoints a constant.
        let eps = if self.is_folder() { 1e-6 } else { self.rms_eps };
        let q = if self.has("attn_q_a.weight") {
            let narrow = self.project(x, "attn_q_a", query_rank)?;
            self.rms_norm_with_eps(narrow, "attn_q_a_norm", eps)?;
            self.project(narrow, "attn_q_b", n_heads * head_dim)?
        } else {
            self.project(x, "attn_q", n_heads * head_dim)?
        };
        let mut part = |rows| self.part("attn_kv_a_mqa", rank + turning, rows, x);
        let parts = [part(0..rank)?, part(rank..rank + turning)?];
        let [narrow, turned] = self.push_projections(x, parts);
        self.rms_norm_with_eps(narrow, "attn_kv_a_norm", eps)?;
        if let Some(rope) = rope {
            self.program.push(Op::Rope { rope, head_dim, first: still, q, k: None });
            self.program.push(Op::Rope { rope, head_dim: turning, first: 0, q: turned, k: None });
        }
        self.scale_by_position(q, growth, period, 0);
        let out = if self.has("attn_kv_b.weight") {
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
            let keys = self.program.tensor(n_heads * head_dim);
            self.program.push(Op::JoinHeads { x: k, tail: turned, heads: n_heads, out: keys });
            self.attend([q, keys, v], Attention { scale, ..Attention::new(heads) })?
        } else {
            let key = self.program.tensor(rank + turning);
            self.program.push(Op::JoinHeads { x: narrow, tail: turned, heads: 1, out: key });
            let head_dim = rank + turning;
            let layer = KvLayer { n_kv_heads: 1, head_dim, value_dim: rank, is_latent: true, window: 0 };
            let layer = self.program.kv_layer(layer);
            self.program.push(Op::StoreKv { layer, k: key, v: None });
            let weight = self.matrix("attn_k_b.weight", n_heads * rank, still)?;
            let [absorbed, seen, out] = [head_dim, rank, value_dim].map(|width| self.program.tensor(n_heads * width));
            self.program.push(Op::ProjectHeads { x: q, weight, heads: n_heads, out: absorbed });
            self.program.push(Op::Attend(Attend::new(layer, absorbed, seen, scale)));
            let weight = self.matrix("attn_v_b.weight", n_heads * value_dim, rank)?;
            self.program.push(Op::ProjectHeads { x: seen, weight, heads: n_heads, out });
            out
        };
        self.project(out, "attn_output", self.hyper.hidden)
    }
}
