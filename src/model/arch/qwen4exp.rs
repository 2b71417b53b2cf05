//! Qwen 3.8: the layers of Qwen 3.5 between low-rank gated hyper-connections, with attention to groups of positions
//! selected by an indexer, and an n-gram embedding.

use super::qwen35::{attention, delta_net};
use crate::error::Result;
use crate::graph::op::{Activation, Groups, Op, RopeChoice, Select, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Builder, Traits};
use crate::model::rope::sections;

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let mut config = b.rope_config(RopePairs::Halves)?;
    config.sections = sections(&b.keys, true)?;
    let rope = b.rope(&config)?;
    let shape = b.mamba_shape()?;
    let recurrent = b.recurrent_layers(4)?;
    let moe = b.moe(true)?;
    b.keys.ignore("expert_weights_scale");
    let (connections, rank) = (b.connections()?, b.width("hyper_connection.low_rank")?);
    let pools = b.per_layer("attention.compress_ratios")?;
    let sizes = if pools.iter().any(|n| *n > 0) { b.indexer_sizes(config.n_dims)? } else { b.without_indexer() };
    let indexer = Indexer { sizes, rope };
    if pools.iter().any(|n| *n == 1 || *n > indexer.sizes[2].min(1024)) {
        return Err(b.keys.unsupported("attention.compress_ratios"));
    }
    let of_keys = b.ropes_by_size(rope, &pools);
    let ngrams = b.ngrams()?;
    let x = b.embed(1.0)?;
    let streams = b.copies(x, connections);
    b.layers(|b, i| {
        if let Some(ngrams) = ngrams.as_ref().filter(|ngrams| ngrams.layer == i) {
            b.add_ngrams(streams, ngrams)?;
        }
        b.connect_by_gates(streams, "hc_attn", rank, |b, h| match recurrent[i] {
            true => delta_net(b, h, shape, Activation::Sigmoid),
            false => attention(b, h, rope, |b| {
                let pool = of_keys.iter().find(|(size, _)| *size == pools[i]);
                pool.map(|(size, of_keys)| choose(b, h, indexer, *size, *of_keys)).transpose()
            }),
        })?;
        b.connect_by_gates(streams, "hc_ffn", rank, |b, h| b.moe_ffn(h, moe))
    })?;
    let [_, h] = b.gated_mean(streams, "output_hc", rank)?;
    b.head(h, 1.0, 0.0)
}

/// The indexer: heads, width and number of positions, and the RoPE of its queries.
#[derive(Clone, Copy)]
struct Indexer {
    sizes: [usize; 3],
    rope: RopeChoice,
}

/// Selects pools of positions by the mean of their keys, with the RoPE of their first position.
fn choose(b: &mut Builder, x: TensorId, indexer: Indexer, size: usize, of_keys: RopeChoice) -> Result<TensorId> {
    let [heads, width, top] = indexer.sizes;
    // Folders have one product for both.
    let [q, k] = if b.has("indexer.qk_proj.weight") {
        let parts = b.split(x, "indexer.qk_proj", [heads * width, width])?;
        b.push_projections(x, parts)
    } else {
        [b.project(x, "indexer.q_proj", heads * width)?, b.project(x, "indexer.k_proj", width)?]
    };
    b.rms_norm_groups(q, "indexer.q_norm", width)?;
    b.rotate_heads(indexer.rope, width, q, None);
    let even = b.copy(k, width);
    b.fill(even, vec![0.0; width]);
    let k = b.pool([even, k], vec![0.0; size * width], size, 1);
    b.rms_norm_groups(k, "indexer.k_norm", width)?;
    b.rotate_heads(of_keys, width, k, None);
    let layer = b.store_index(k);
    let weights = b.copy(q, heads);
    b.fill(weights, vec![1.0; heads]);
    let groups = Groups::Pools(size as u32);
    let out = b.program.tensor(top / size * size + size - 1);
    b.program.push(Op::Select(Select { layer, q, weights, out, groups }));
    Ok(out)
}
