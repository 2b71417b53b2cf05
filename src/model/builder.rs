//! Helpers for defining networks: each finds the tensors that it names, checks their exact shapes, and emits ops.
//!
//! Inside `layers` a name means `blk.N.name`, after `Builder::stack`. Optional tensors (biases, and `.scale`, a scale
//! of a product) are used if present; `finish` fails with the names of tensors that no helper used.

mod compressed;
mod embeddings;
mod ends;
mod experts;
mod latent;
mod ngrams;
mod per_layer;
mod predictor;
mod streams;
mod wkv;

use std::collections::BTreeMap;

pub use self::experts::Moe;
pub use self::per_layer::SharedKeys;
pub use self::predictor::{OtherNetwork, Predictor, PredictorOf, SharedKvNetwork};
pub use self::wkv::Heads;
pub use super::hyper::Traits;
use super::hyper::{HeadShape, Hyper};
use super::keys::Keys;
use super::pooling::EmbeddingHead;
use super::rope::{self, RopeConfig, RopeScaling};
use super::tensors::{FileMatrix, RowRuns, Tensors};
use crate::error::{Error, Result, check_memory};
use crate::format::{FileFormat, Passed, Source};
use crate::graph::op::{
    Activation, Attend, Index, KvLayerId, Mask, Norm, NormKind, Op, Projection, RopeChoice, RopeTable, TensorId,
    Vector, Weight,
};
use crate::graph::program::{Program, ProgramBuilder};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::{MatrixSource, Rope, RopePairs, Weights};
use crate::tensor::DType;

/// A network and its weights in a file, of which only vectors have been read.
pub struct Network<'a> {
    pub hyper: Hyper,
    pub program: Program,
    /// The network without its head: it keeps only the hidden states of all tokens. Of an encoder-decoder network, the
    /// encoder. Weight handles are those of `program`.
    pub states: Program,
    /// The MTP layer, with the same weight handles, if requested; for a draft head, the network itself.
    pub predictor: Option<Predictor>,
    pub embeddings: EmbeddingHead,
    /// Keys and tensors that the network does not use.
    pub passed: Passed,
    /// Order of RoPE pairs in the architecture's GGUF files; `None` without common RoPE.
    pub(super) gguf_pairs: Option<RopePairs>,
    /// Matrices whose products are scaled by the file.
    pub(super) scaled: Vec<Weight>,
    pub(super) matrices: Vec<FileMatrix<'a>>,
    vectors: Vec<Vec<f32>>,
    pub(super) ropes: Vec<Rope>,
}

impl Network<'_> {
    pub fn weights(&self) -> Weights<'_> {
        Weights {
            matrices: self.matrices.iter().map(|m| m as &dyn MatrixSource).collect(),
            vectors: self.vectors.clone(),
            ropes: self.ropes.clone(),
        }
    }
}

/// Parameters of attention.
#[derive(Clone, Copy)]
pub struct Attention {
    pub heads: HeadShape,
    pub scale: f32,
    pub softcap: f32,
    pub mask: Mask,
    /// Largest slope of ALiBi as a power of two: slopes start at `2^(-max/n)`; 0: none.
    pub max_alibi: f32,
    /// `Attend::distances`.
    pub distances: Option<Vector>,
}

impl Attention {
    /// Causal, scaled by the inverse square root of the head width.
    pub fn new(heads: HeadShape) -> Attention {
        let scale = 1.0 / (heads.head_dim as f32).sqrt();
        Attention { heads, scale, softcap: 0.0, mask: Mask::Causal, max_alibi: 0.0, distances: None }
    }

    /// Like `new`, with a sliding window if not 0.
    pub fn windowed(heads: HeadShape, window: usize) -> Attention {
        Attention { mask: Mask::window(window), ..Attention::new(heads) }
    }
}

pub struct Builder<'a> {
    pub keys: Keys<'a>,
    pub hyper: Hyper,
    /// Scale of what blocks add to the residual stream.
    pub residual_scale: f32,
    /// `attention.layer_norm_rms_epsilon` and `attention.layer_norm_epsilon`; a file with one of them sets both.
    pub(super) rms_eps: f32,
    layer_eps: f32,
    pub(super) tensors: Tensors<'a>,
    pub(super) program: ProgramBuilder,
    pub(super) matrices: Vec<FileMatrix<'a>>,
    pub(super) vectors: Vec<Vec<f32>>,
    pub(super) ropes: Vec<Rope>,
    gguf_pairs: Option<RopePairs>,
    scaled: Vec<Weight>,
    /// The column order of matrices that have one, as indices of `Op::Gather`.
    orders: BTreeMap<Weight, Vector>,
    /// Prefix of the names of layers.
    pub stack: &'static str,
    /// The layer under construction.
    layer: Option<usize>,
    embedding: Option<Weight>,
    /// The hidden states after the last layer and its norm.
    states: Option<TensorId>,
    /// Scale of logits, in addition to the output matrix's own.
    logit_scale: f32,
    /// The encoder before the ops of an encoder-decoder network's decoder.
    encoder: Option<Program>,
    /// True if the MTP layer is requested.
    predicts: bool,
    predictor: Option<Predictor>,
    /// The KV cache layer that all layers of an encoder use in turn.
    shared: Option<(KvLayer, KvLayerId)>,
}

impl<'a> Builder<'a> {
    pub fn new(
        source: &'a Source,
        keys: Keys<'a>,
        hyper: Hyper,
        quantize: Option<DType>,
        predicts: bool,
    ) -> Result<Self> {
        let rms = keys.float("attention.layer_norm_rms_epsilon")?;
        let layer = keys.float("attention.layer_norm_epsilon")?;
        let (Some(rms_eps), Some(layer_eps)) = (rms.or(layer), layer.or(rms)) else {
            // 0 means absent only if the other one is present.
            let other = "attention.layer_norm_epsilon";
            let key = if keys.is_present(other) { other } else { "attention.layer_norm_rms_epsilon" };
            return Err(keys.unsupported(key));
        };
        Ok(Builder {
            hyper,
            residual_scale: 1.0,
            rms_eps,
            layer_eps,
            tensors: Tensors::new(source, quantize)?,
            program: ProgramBuilder::default(),
            matrices: Vec::new(),
            vectors: Vec::new(),
            ropes: Vec::new(),
            gguf_pairs: None,
            scaled: Vec::new(),
            orders: BTreeMap::new(),
            stack: "",
            layer: None,
            embedding: None,
            states: None,
            logit_scale: 1.0,
            encoder: None,
            predicts,
            predictor: None,
            shared: None,
            keys,
        })
    }

    // ---- names and tensors

    pub(super) fn name(&self, part: &str) -> String {
        match self.layer {
            Some(i) => format!("{}blk.{i}.{part}", self.stack),
            None => part.to_owned(),
        }
    }

    /// Returns the name of a weight, which a few files write without `.weight`.
    pub(super) fn weight_name(&self, part: &str) -> String {
        let name = self.name(&format!("{part}.weight"));
        if !self.tensors.has(&name) && self.has(part) { self.name(part) } else { name }
    }

    /// True for a Hugging Face folder.
    pub fn is_folder(&self) -> bool {
        self.tensors.format() == FileFormat::Safetensors
    }

    /// True if the file has a tensor with this name.
    pub fn has(&self, part: &str) -> bool {
        self.tensors.has(&self.name(part))
    }

    /// Returns the handle of a matrix, equal for layers that share it.
    pub(super) fn add_matrix(&mut self, matrix: FileMatrix<'a>) -> Weight {
        if let Some(i) = self.matrices.iter().position(|other| other.is(&matrix)) {
            return Weight(i as u32);
        }
        self.matrices.push(matrix);
        Weight(self.matrices.len() as u32 - 1)
    }

    /// Returns the number of rows of a tensor of the layer.
    pub fn rows(&self, part: &str) -> Result<usize> {
        self.tensors.rows(&self.name(part))
    }

    /// Returns some rows of a tensor whose columns may be permuted (`order_of`).
    fn ordered_matrix(&mut self, name: &str, of: usize, rows: RowRuns, cols: usize) -> Result<Weight> {
        let matrix = self.tensors.ordered_matrix(name, of, rows, cols)?;
        let order = matrix.order()?;
        let weight = self.add_matrix(matrix);
        if let Some(order) = order {
            // Matrices quantized with the same inputs share an order.
            let known = self.orders.values().find(|known| self.vectors[known.0 as usize] == order).copied();
            let order = known.unwrap_or_else(|| self.vector(order));
            self.orders.insert(weight, order);
        }
        Ok(weight)
    }

    fn order_of(&self, weight: Weight) -> Option<Vector> {
        self.orders.get(&weight).copied()
    }

    fn matrix(&mut self, part: &str, rows: usize, cols: usize) -> Result<Weight> {
        let matrix = self.tensors.matrix(&self.name(part), rows, (0..rows).into(), cols)?;
        Ok(self.add_matrix(matrix))
    }

    pub(super) fn vector(&mut self, values: Vec<f32>) -> Vector {
        self.vectors.push(values);
        Vector(self.vectors.len() as u32 - 1)
    }

    // ---- the ends of a network

    /// The residual stream: `scale * token_embd[id]`, `[n, hidden]`.
    pub fn embed(&mut self, scale: f32) -> Result<TensorId> {
        let (rows, hidden) = (self.hyper.vocab, self.hyper.hidden);
        let is_shared = self.hyper.traits.head_embeds && !self.has("token_embd.weight");
        let table = self.matrix(if is_shared { "output.weight" } else { "token_embd.weight" }, rows, hidden)?;
        self.embedding = Some(table);
        let out = self.program.tensor(hidden);
        self.program.push(Op::Embed { table, rows, index: Index::Id, scale, out });
        Ok(out)
    }

    /// Makes later tensor names refer to block `block`, which several layers may share.
    pub fn take_block(&mut self, block: usize) {
        self.layer = Some(block);
    }

    /// Emits the ops of each layer.
    pub fn layers(&mut self, mut layer: impl FnMut(&mut Self, usize) -> Result<()>) -> Result<()> {
        for i in 0..self.hyper.n_layers {
            check_memory("the layers of the network")?;
            let start = self.program.position();
            self.layer = Some(i);
            layer(self, i)?;
            self.program.end_layer(start);
        }
        self.layer = None;
        Ok(())
    }

    /// Logits of `x`, `cap * tanh(scale * y / cap)`, by `output` or, if a file has none, by the embedding.
    pub fn head(&mut self, x: TensorId, scale: f32, softcap: f32) -> Result<()> {
        if self.keys.metadata.bool("realizar.headless")? == Some(true) {
            self.states = Some(x);
            return Ok(());
        }
        let (vocab, hidden) = (self.hyper.vocab, self.hyper.hidden);
        let head = match self.embedding {
            Some(embedding) if !self.has("output.weight") => embedding,
            _ => self.matrix("output.weight", vocab, hidden)?,
        };
        let factor = self.factor("output.scale", head)?;
        let bias = self.tensors.vector_if_present("output.bias", vocab)?;
        let bias = bias.map(|bias| self.bias_before(factor, &bias));
        self.logit_scale = scale;
        let scale = scale * factor;
        if !(scale.is_finite() && softcap.is_finite() && softcap >= 0.0) {
            return Err(Error::unsupported(format!(
                "logits scaled by {scale} and capped at {softcap} are not supported"
            )));
        }
        self.states = Some(x);
        self.program.push(Op::Logits { x, head, bias, scale, softcap });
        Ok(())
    }

    // ---- norms and sums

    /// Returns a norm per `group` values of a row of `groups` groups; the file has one weight for all groups, or one
    /// for each.
    pub(super) fn norm(&mut self, kind: NormKind, part: &str, groups: usize, group: usize) -> Result<Norm> {
        let (weight, bias) = (self.weight_name(part), self.name(&format!("{part}.bias")));
        let rows = if groups > 1 && self.tensors.rows(&weight)? == groups { groups } else { 1 };
        let weight = self.tensors.values(&weight, rows, group)?;
        let bias = self.tensors.values_if_present(&bias, rows, group)?;
        let (weight, bias) = (Some(self.vector(weight)), bias.map(|bias| self.vector(bias)));
        Ok(Norm { kind, weight, bias, eps: self.eps(kind), group })
    }

    fn eps(&self, kind: NormKind) -> f32 {
        match kind {
            NormKind::Rms => self.rms_eps,
            NormKind::Layer => self.layer_eps,
        }
    }

    /// `rms_norm` or `layer_norm`.
    pub fn normed(&mut self, kind: NormKind, x: TensorId, part: &str) -> Result<TensorId> {
        let width = self.program.width(x);
        let norm = self.norm(kind, part, 1, width)?;
        let out = self.program.tensor(width);
        self.program.push(Op::Norm { norm, x, out });
        Ok(out)
    }

    /// `x / rms(x) * weight`
    pub fn rms_norm(&mut self, x: TensorId, part: &str) -> Result<TensorId> {
        self.normed(NormKind::Rms, x, part)
    }

    /// `(x - mean) / deviation * weight + bias`
    pub fn layer_norm(&mut self, x: TensorId, part: &str) -> Result<TensorId> {
        self.normed(NormKind::Layer, x, part)
    }

    /// In-place RMS norm per `group` values: a head, or the whole row.
    pub fn rms_norm_groups(&mut self, x: TensorId, part: &str, group: usize) -> Result<()> {
        let norm = self.norm(NormKind::Rms, part, self.program.width(x) / group.max(1), group)?;
        self.program.push(Op::Norm { norm, x, out: x });
        Ok(())
    }

    /// In-place LayerNorm per `group` values.
    pub fn layer_norm_groups(&mut self, x: TensorId, part: &str, group: usize) -> Result<()> {
        let norm = self.norm(NormKind::Layer, part, self.program.width(x) / group.max(1), group)?;
        self.program.push(Op::Norm { norm, x, out: x });
        Ok(())
    }

    pub fn bare_norm(&mut self, kind: NormKind, x: TensorId) -> TensorId {
        let group = self.program.width(x);
        let norm = Norm { kind, weight: None, bias: None, eps: self.eps(kind), group };
        let out = self.program.tensor(group);
        self.program.push(Op::Norm { norm, x, out });
        out
    }

    /// An in-place unweighted norm per `group` values.
    pub fn bare_norm_groups(&mut self, kind: NormKind, x: TensorId, group: usize) {
        let norm = Norm { kind, weight: None, bias: None, eps: self.eps(kind), group };
        self.program.push(Op::Norm { norm, x, out: x });
    }

    /// `x += scale * delta`
    pub fn add_scaled(&mut self, x: TensorId, delta: TensorId, scale: f32) {
        self.program.push(Op::Add { x, delta, scale });
    }

    /// `x += residual_scale * delta`
    pub fn add(&mut self, x: TensorId, delta: TensorId) {
        self.program.push(Op::Add { x, delta, scale: self.residual_scale });
    }

    // ---- products

    /// `scale * (W x) + bias` for some of the `of` rows of a tensor, with the file's bias and scale if any.
    pub(super) fn part(
        &mut self,
        part: &str,
        of: usize,
        rows: impl Into<RowRuns>,
        x: TensorId,
    ) -> Result<(Projection, f32)> {
        let rows = rows.into();
        let cols = self.program.width(x);
        let name = |ending: &str| self.name(&format!("{part}.{ending}"));
        let (weight, bias, scale) = (name("weight"), name("bias"), name("scale"));
        let weight = self.ordered_matrix(&weight, of, rows, cols)?;
        let factor = self.factor(&scale, weight)?;
        let bias = self.tensors.vector_if_present(&bias, of)?.map(|bias| {
            let bias: Vec<f32> = rows.ranges().filter_map(|rows| bias.get(rows)).flatten().copied().collect();
            self.bias_before(factor, &bias)
        });
        let out = self.program.tensor(rows.len());
        Ok((Projection { weight, bias, out }, factor))
    }

    /// Returns the scale of a matrix's products; FP4 files have one per matrix.
    fn factor(&mut self, name: &str, weight: Weight) -> Result<f32> {
        match self.tensors.vector_if_present(name, 1)?.as_deref() {
            None | Some([1.0]) => Ok(1.0),
            Some([factor]) if *factor != 0.0 => {
                self.scaled.push(weight);
                Ok(*factor)
            }
            _ => Err(Error::unsupported(format!("the tensor {name} is 0"))),
        }
    }

    /// Returns the bias divided by `factor`, for a product that is scaled after its bias is added.
    fn bias_before(&mut self, factor: f32, bias: &[f32]) -> Vector {
        self.vector(bias.iter().map(|b| b / factor).collect())
    }

    /// `W x`
    pub(super) fn product(&mut self, x: TensorId, weight: Weight) -> TensorId {
        let out = self.program.tensor(self.matrices[weight.0 as usize].rows());
        self.program.push(Op::Project { x, projections: [Projection { weight, bias: None, out }].into() });
        out
    }

    pub(super) fn push_projections<const N: usize>(
        &mut self,
        x: TensorId,
        parts: [(Projection, f32); N],
    ) -> [TensorId; N] {
        let mut rest = Vec::from(parts.map(|(projection, _)| projection));
        // Products with the same column order share an op.
        while let Some(order) = rest.first().map(|first| self.order_of(first.weight)) {
            let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| self.order_of(p.weight) == order);
            let x = order.map_or(x, |by| {
                let out = self.program.tensor(self.program.width(x));
                self.program.push(Op::Gather { x, by, out });
                out
            });
            self.program.push(Op::Project { x, projections: now.into() });
            rest = later;
        }
        for (projection, factor) in parts {
            if factor != 1.0 {
                self.program.push(Op::Scale { x: projection.out, factor });
            }
        }
        parts.map(|(projection, _)| projection.out)
    }

    /// A product with `rows` results.
    pub fn project(&mut self, x: TensorId, part: &str, rows: usize) -> Result<TensorId> {
        let projection = self.part(part, rows, 0..rows, x)?;
        let [out] = self.push_projections(x, [projection]);
        Ok(out)
    }

    /// Like `project`, without the file's bias.
    pub fn project_without_bias(&mut self, x: TensorId, part: &str, rows: usize) -> Result<TensorId> {
        self.ignore(&format!("{part}.bias"));
        let (projection, factor) = self.part(part, rows, 0..rows, x)?;
        let [out] = self.push_projections(x, [(Projection { bias: None, ..projection }, factor)]);
        Ok(out)
    }

    /// Queries, keys and values, from `attn_qkv` or from three tensors.
    pub fn qkv(&mut self, x: TensorId, heads: HeadShape) -> Result<[TensorId; 3]> {
        let [q, k, v] =
            [heads.n_heads * heads.head_dim, heads.n_kv_heads * heads.head_dim, heads.n_kv_heads * heads.value_dim];
        let parts = if self.has("attn_qkv.weight") {
            let all = q + k + v;
            let mut part = |rows| self.part("attn_qkv", all, rows, x);
            [part(0..q)?, part(q..q + k)?, part(q + k..all)?]
        } else {
            let mut part = |name, rows| self.part(name, rows, 0..rows, x);
            [part("attn_q", q)?, part("attn_k", k)?, part("attn_v", v)?]
        };
        Ok(self.push_projections(x, parts))
    }

    // ---- attention

    /// Returns the file's common RoPE configuration; `pairs`: order in the architecture's GGUF files.
    pub fn rope_config(&mut self, pairs: RopePairs) -> Result<RopeConfig> {
        self.gguf_pairs = Some(pairs);
        rope::config(&self.keys, self.hyper.heads.head_dim, self.hyper.context_length, pairs)
    }

    fn rope_table(&mut self, config: &RopeConfig, divisors: Option<&[f32]>) -> Result<RopeTable> {
        Ok(self.add_rope(rope::table(config, divisors)?).table)
    }

    pub(super) fn add_rope(&mut self, rope: Rope) -> RopeChoice {
        self.ropes.push(rope);
        RopeChoice { table: RopeTable(self.ropes.len() as u32 - 1), long: None }
    }

    /// RoPE of a configuration, with frequencies divided by `rope_freqs` if present. Fails for LongRoPE.
    pub fn rope(&mut self, config: &RopeConfig) -> Result<RopeChoice> {
        let divisors = self.tensors.rope_divisors("rope_freqs.weight")?;
        self.rope_by(config, divisors.as_deref())
    }

    /// Like `rope`, for a file with more divisors than the network has pairs: uses the first ones.
    pub fn rope_by_first_divisors(&mut self, config: &RopeConfig) -> Result<RopeChoice> {
        let divisors = self.tensors.rope_divisors("rope_freqs.weight")?;
        self.rope_by(config, divisors.as_deref().map(|all| all.get(..config.n_dims / 2).unwrap_or(all)))
    }

    fn rope_by(&mut self, config: &RopeConfig, divisors: Option<&[f32]>) -> Result<RopeChoice> {
        if config.scaling == RopeScaling::Long {
            return Err(self.keys.unsupported("rope.scaling.type"));
        }
        Ok(RopeChoice { table: self.rope_table(config, divisors)?, long: None })
    }

    /// Both RoPE tables of LongRoPE (arXiv 2402.13753), if the file has their divisors; the second one is for context
    /// lengths above `trained`.
    pub fn long_rope(&mut self, config: &RopeConfig, trained: usize) -> Result<Option<RopeChoice>> {
        let [short, long] = ["short", "long"].map(|which| format!("rope_factors_{which}.weight"));
        let divisors = [self.tensors.rope_divisors(&short)?, self.tensors.rope_divisors(&long)?];
        match divisors {
            [Some(short), Some(long)] => {
                let table = self.rope_table(config, Some(&short))?;
                Ok(Some(RopeChoice { table, long: Some((trained, self.rope_table(config, Some(&long))?)) }))
            }
            [None, None] => Ok(None),
            [None, _] => Err(self.tensors.damaged(format!("the tensor {short} is missing"))),
            [_, None] => Err(self.tensors.damaged(format!("the tensor {long} is missing"))),
        }
    }

    /// Applies RoPE to queries and keys.
    pub fn rotate(&mut self, rope: RopeChoice, q: TensorId, k: TensorId) {
        self.rotate_heads(rope, self.hyper.heads.head_dim, q, Some(k));
    }

    /// Attention from its input to its output projection. `prepare` modifies queries and keys in place before they are
    /// stored.
    pub fn attention(
        &mut self,
        x: TensorId,
        attention: Attention,
        prepare: impl FnOnce(&mut Self, TensorId, TensorId) -> Result<()>,
    ) -> Result<TensorId> {
        let [q, k, v] = self.qkv(x, attention.heads)?;
        prepare(self, q, k)?;
        let a = self.attend([q, k, v], attention)?;
        self.project(a, "attn_output", self.hyper.hidden)
    }

    /// `attention` with RoPE.
    pub fn rotary_attention(&mut self, x: TensorId, attention: Attention, rope: RopeChoice) -> Result<TensorId> {
        self.attention(x, attention, |b, q, k| {
            b.rotate(rope, q, k);
            Ok(())
        })
    }

    /// In-place RMS norms per head of queries and keys (QK norm).
    pub fn head_norms(&mut self, q: TensorId, k: TensorId) -> Result<()> {
        self.rms_norm_groups(q, "attn_q_norm", self.hyper.heads.head_dim)?;
        self.rms_norm_groups(k, "attn_k_norm", self.hyper.heads.head_dim)
    }

    /// In-place RMS norms over all heads of queries, and of keys.
    pub fn full_norms(&mut self, q: TensorId, k: TensorId) -> Result<()> {
        self.rms_norm_groups(q, "attn_q_norm", self.program.width(q))?;
        self.rms_norm_groups(k, "attn_k_norm", self.program.width(k))
    }

    /// Marks a tensor of the layer as used, because the network does not need it.
    pub fn ignore(&mut self, part: &str) {
        self.tensors.ignore(&self.name(part));
    }

    /// Stores keys and values, and attends to them.
    pub fn attend(&mut self, [q, k, v]: [TensorId; 3], attention: Attention) -> Result<TensorId> {
        let layer = self.store(k, v, attention);
        self.attend_to(q, layer, attention)
    }

    /// Attends to the keys and values of a layer.
    pub fn attend_to(&mut self, q: TensorId, layer: KvLayerId, attention: Attention) -> Result<TensorId> {
        let Attention { heads, scale, softcap, mask, max_alibi, distances } = attention;
        if !(scale.is_finite() && softcap.is_finite() && softcap >= 0.0) {
            return Err(Error::unsupported(format!(
                "attention scaled by {scale} and capped at {softcap} is not supported"
            )));
        }
        if !(0.0..=64.0).contains(&max_alibi) {
            return Err(self.keys.unsupported("attention.max_alibi_bias"));
        }
        let HeadShape { n_heads, value_dim, .. } = heads;
        let slopes = (max_alibi != 0.0).then(|| self.vector(alibi_slopes(n_heads, max_alibi)));
        let sinks = self.name("attn_sinks.weight");
        let sinks = self.tensors.vector_if_present(&sinks, n_heads)?.map(|sinks| self.vector(sinks));
        let out = self.program.tensor(n_heads * value_dim);
        let attend = Attend::new(layer, q, out, scale);
        self.program.push(Op::Attend(Attend { softcap, mask, slopes, distances, sinks, ..attend }));
        Ok(out)
    }

    // ---- feed-forward blocks

    /// `down(activation(gate x) * up x)`, gate and up from two tensors or from one.
    pub fn gated_ffn(&mut self, x: TensorId, activation: Activation) -> Result<TensorId> {
        let inner = self.gated(x, activation)?;
        self.project(inner, "ffn_down", self.hyper.hidden)
    }

    /// `activation(gate x) * up x`
    pub fn gated(&mut self, x: TensorId, activation: Activation) -> Result<TensorId> {
        let [gate, up] = self.gate_and_up(x)?;
        Ok(self.gate(gate, up, activation))
    }

    /// `gate x` and `up x`
    pub fn gate_and_up(&mut self, x: TensorId) -> Result<[TensorId; 2]> {
        let f = self.ffn_width()?;
        let parts = if self.has("ffn_gate.weight") {
            [self.part("ffn_gate", f, 0..f, x)?, self.part("ffn_up", f, 0..f, x)?]
        } else {
            [self.part("ffn_up", 2 * f, 0..f, x)?, self.part("ffn_up", 2 * f, f..2 * f, x)?]
        };
        Ok(self.push_projections(x, parts))
    }

    /// `down(activation(up x))`, activations divided by `ffn.act.scales` if present.
    pub fn plain_ffn(&mut self, x: TensorId, activation: Activation) -> Result<TensorId> {
        let width = self.ffn_width()?;
        // llama.cpp approximates GELU for these GGUF files; some checkpoints use the exact one.
        let exact = activation == Activation::Gelu && self.keys.metadata.bool("realizar.gelu_exact")? == Some(true);
        let activation = if exact { Activation::GeluErf } else { activation };
        let up = self.project(x, "ffn_up", width)?;
        self.program.push(Op::Glu { gate: up, up: None, activation });
        if let Some(scales) = self.tensors.vector_if_present(&self.name("ffn.act.scales"), width)? {
            let by = self.vector(scales.into_iter().map(|scale| 1.0 / scale).collect());
            self.program.push(Op::ScaleColumns { x: up, by });
        }
        self.project(up, "ffn_down", self.hyper.hidden)
    }
}

/// Returns the slopes of ALiBi: evenly spaced powers of two, with heads beyond a power of two in between.
fn alibi_slopes(n_heads: usize, max: f32) -> Vec<f32> {
    let n = 1usize << n_heads.max(1).ilog2();
    let max = f64::from(max);
    let slope = |head: usize| match head < n {
        true => -max / n as f64 * (head + 1) as f64,
        false => -max / (2 * n) as f64 * (2 * (head - n) + 1) as f64,
    };
    (0..n_heads).map(|head| libm::exp2(slope(head)) as f32).collect()
}
