//! Attention to a sliding window and to compressed positions (DeepSeek V4), in one softmax: all heads share a key,
//! which is also its value; each group of positions has one compressed key, among which an indexer may select.

use super::Builder;
use crate::error::{Error, Result};
use crate::graph::op::{Attend, Groups, Half, KvLayerId, Mask, NormKind, Op, RopeChoice, Select, TensorId};
use crate::graph::weights::{Rope, RopePairs};
use crate::model::hyper::HeadShape;
use crate::model::rope::{self, RopeConfig, RopeScaling};

/// The size of overlapping groups, among which an indexer selects.
const OVERLAPPING: usize = 4;

/// Parameters of attention to compressed positions.
pub struct Compressed {
    query_rank: usize,
    window: usize,
    /// Number of key values with RoPE, the last ones.
    rope_dims: usize,
    /// Number of head groups, each with its own output projection, and the rank of these projections.
    groups: usize,
    output_rank: usize,
    /// Number of positions per compressed key in each layer; 0: none.
    sizes: Vec<usize>,
    /// Heads, width and number of selected keys of the indexer.
    indexer: [usize; 3],
    /// RoPE of layers without and with compressed keys, and the inverse rotations.
    ropes: [RopeChoice; 2],
    back: [RopeChoice; 2],
    /// RoPE of compressed keys, by group size.
    by_size: Vec<(usize, RopeChoice)>,
}

/// Groups of positions that share a key.
#[derive(Clone, Copy)]
struct KeyGroups {
    /// Number of positions of a group.
    size: usize,
    rope: RopeChoice,
    /// Number of key values with RoPE, the last ones.
    rope_dims: usize,
}

impl Builder<'_> {
    /// RoPE tables per group size: a group's last token gets the position of the group's first.
    pub fn ropes_by_size(&mut self, rope: RopeChoice, sizes: &[usize]) -> Vec<(usize, RopeChoice)> {
        let mut known: Vec<(usize, RopeChoice)> = Vec::new();
        for &size in sizes.iter().filter(|size| **size > 0) {
            if known.iter().all(|(of, _)| *of != size) {
                let rope = self.ropes[rope.table.0 as usize].clone();
                known.push((size, self.add_rope(Rope { position_offset: size as u32 - 1, axes: Vec::new(), ..rope })));
            }
        }
        known
    }

    /// Returns the file's attention.
    pub fn compressed(&mut self) -> Result<Compressed> {
        let HeadShape { n_heads, n_kv_heads, head_dim, value_dim } = self.hyper.heads;
        let (keys, sizes) = (&self.keys, self.per_layer("attention.compress_ratios")?);
        if n_kv_heads != 1 || value_dim != head_dim {
            return Err(keys.unsupported("attention.head_count_kv"));
        }
        if sizes.iter().any(|size| *size == 1 || *size > 1024) {
            return Err(keys.unsupported("attention.compress_ratios"));
        }
        let groups = self.width("attention.output_group_count")?;
        if !n_heads.is_multiple_of(groups) {
            return Err(keys.unsupported("attention.output_group_count"));
        }
        let of_attention = |key: &str| self.width(&format!("attention.{key}"));
        let (window, query_rank) = (of_attention("sliding_window")?, of_attention("q_lora_rank")?);
        let output_rank = of_attention("output_lora_rank")?;
        let config = rope::config(keys, head_dim, self.hyper.context_length, RopePairs::Adjacent)?;
        let rope_dims = config.n_dims;
        let base = keys.float("attention.compress_rope_freq_base")?.unwrap_or(config.base);
        let indexer =
            if sizes.contains(&OVERLAPPING) { self.indexer_sizes(rope_dims)? } else { self.without_indexer() };
        let plain = rope::table(&RopeConfig { scaling: RopeScaling::None, ..config.clone() }, None)?;
        let stretched = rope::table(&RopeConfig { base, ..config }, None)?;
        // YaRN scales angles here, but not scores.
        let ropes = [plain, stretched].map(|rope| Rope { magnitude: 1.0, ..rope });
        let back = ropes.clone().map(|rope| {
            let inv_freq = rope.inv_freq.iter().map(|f| -f).collect();
            self.add_rope(Rope { inv_freq, ..rope })
        });
        let ropes = ropes.map(|rope| self.add_rope(rope));
        let by_size = self.ropes_by_size(ropes[1], &sizes);
        Ok(Compressed { query_rank, window, rope_dims, groups, output_rank, sizes, indexer, ropes, back, by_size })
    }

    fn rotate_last(&mut self, rope: RopeChoice, head_dim: usize, rope_dims: usize, x: TensorId) {
        self.program.push(Op::Rope { rope, head_dim, first: head_dim - rope_dims, q: x, k: None });
    }

    /// Stores the compressed keys of groups, `width` values each.
    fn compressed_keys(&mut self, x: TensorId, part: &str, width: usize, of: KeyGroups) -> Result<KvLayerId> {
        let KeyGroups { size, rope, rope_dims } = of;
        let groups = if size == OVERLAPPING { 2 } else { 1 };
        let all = groups * width;
        let mut product = |which: &str| self.part(&format!("{part}_{which}"), all, 0..all, x);
        let parts = [product("gate")?, product("kv")?];
        let pair = self.push_projections(x, parts);
        let bias = self.all_values(&format!("{part}_ape.weight"), size * all)?;
        let k = self.pool(pair, bias, size, groups);
        self.rms_norm_groups(k, &format!("{part}_norm"), width)?;
        self.rotate_last(rope, width, rope_dims, k);
        Ok(self.store_shared(k, width, 0, size))
    }

    /// The KV layer of compressed keys, and the indexer's selection among them, if any.
    fn far_keys(
        &mut self,
        x: TensorId,
        narrow: TensorId,
        c: &Compressed,
        size: usize,
    ) -> Result<Option<(KvLayerId, Option<TensorId>)>> {
        let Some((_, rope)) = c.by_size.iter().find(|(of, _)| *of == size) else { return Ok(None) };
        let groups = KeyGroups { size, rope: *rope, rope_dims: c.rope_dims };
        let keys = self.compressed_keys(x, "attn_compressor", self.hyper.heads.head_dim, groups)?;
        if size != OVERLAPPING {
            return Ok(Some((keys, None)));
        }
        let [heads, width, top] = c.indexer;
        let layer = self.compressed_keys(x, "indexer_compressor", width, groups)?;
        let q = self.project(narrow, "indexer.attn_q_b", heads * width)?;
        self.rotate_last(c.ropes[1], width, c.rope_dims, q);
        let weights = self.project(x, "indexer.proj", heads)?;
        let out = self.program.tensor(top);
        self.program.push(Op::Select(Select { layer, q, weights, out, groups: Groups::One }));
        Ok(Some((keys, Some(out))))
    }

    /// The attention of a layer from its input to its output projection.
    pub fn compressed_attention(&mut self, x: TensorId, c: &Compressed, layer: usize) -> Result<TensorId> {
        let HeadShape { n_heads, head_dim, .. } = self.hyper.heads;
        let (rope_dims, size) = (c.rope_dims, c.sizes[layer]);
        let kind = usize::from(size > 0);
        let narrow = self.project(x, "attn_q_a", c.query_rank)?;
        self.rms_norm_groups(narrow, "attn_q_a_norm", c.query_rank)?;
        let q = self.project(narrow, "attn_q_b", n_heads * head_dim)?;
        self.bare_norm_groups(NormKind::Rms, q, head_dim);
        self.rotate_last(c.ropes[kind], head_dim, rope_dims, q);
        let k = self.project(x, "attn_kv", head_dim)?;
        self.rms_norm_groups(k, "attn_kv_a_norm", head_dim)?;
        self.rotate_last(c.ropes[kind], head_dim, rope_dims, k);
        let near = self.store_shared(k, head_dim, c.window, 1);
        let sinks = self.numbers("attn_sinks.weight", n_heads)?;
        let out = self.program.tensor(n_heads * head_dim);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let near = Attend { mask: Mask::window(c.window), sinks: Some(sinks), ..Attend::new(near, q, out, scale) };
        match self.far_keys(x, narrow, c, size)? {
            Some((far, among)) => {
                let sums = self.program.tensor(n_heads);
                let far = Attend { among, half: Some(Half::Second(sums)), ..Attend::new(far, q, out, scale) };
                self.program.push(Op::Attend(Attend { half: Some(Half::First(sums)), ..near }));
                self.program.push(Op::Attend(far));
            }
            None => self.program.push(Op::Attend(near)),
        }
        self.rotate_last(c.back[kind], head_dim, rope_dims, out);
        let rows = c.groups.checked_mul(c.output_rank).filter(|rows| *rows <= 1 << 24);
        let rows =
            rows.ok_or_else(|| Error::unsupported(format!("{} groups of outputs are not supported", c.groups)))?;
        let weight = self.matrix("attn_output_a.weight", rows, n_heads * head_dim / c.groups)?;
        let joined = self.program.tensor(rows);
        self.program.push(Op::ProjectHeads { x: out, weight, heads: c.groups, out: joined });
        self.project(joined, "attn_output_b", self.hyper.hidden)
    }
}
