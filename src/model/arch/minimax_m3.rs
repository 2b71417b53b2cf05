//! MiniMax M3: after the first layers, each KV head attends to a few blocks of positions, selected by a narrow query of
//! its own. Experts and dense blocks use gpt-oss's activation function.

use crate::error::{Error, Result};
use crate::graph::op::{Activation, Groups, RopeChoice, RouterScore, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Moe, Traits};
use crate::model::hyper::HeadShape;

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

/// The indexer of a layer.
#[derive(Clone, Copy)]
struct BlockIndexer {
    /// Width of a query and of a key.
    width: usize,
    groups: Groups,
    /// Number of positions in all selected blocks.
    top: usize,
    rope: RopeChoice,
}

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&rope)?;
    let indexer = indexer(b, rope)?;
    let n_dense = b.keys.size("leading_dense_block_count")?.unwrap_or(0);
    let moe = b.declared_moe(RouterScore::Sigmoid)?.map(|moe| Moe { activation: Activation::ClampedSwiglu, ..moe });
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let [q, k, v] = b.qkv(h, heads)?;
        b.head_norms(q, k)?;
        b.rotate(rope, q, k);
        let a = match i < n_dense {
            true => b.attend([q, k, v], Attention::new(heads))?,
            false => blocks(b, h, [q, k, v], indexer)?,
        };
        let o = b.project(a, "attn_output", b.hyper.hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn_by(h, moe, Activation::ClampedSwiglu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}

fn indexer(b: &Builder, rope: RopeChoice) -> Result<BlockIndexer> {
    if b.keys.size("attention.indexer.head_count")?.is_some_and(|heads| heads != b.hyper.heads.n_kv_heads) {
        return Err(b.keys.unsupported("attention.indexer.head_count"));
    }
    let width = b.width("attention.indexer.key_length")?;
    let (block, chosen) = (b.width("attention.indexer.block_size")?, b.width("attention.indexer.top_k")?);
    let local = b.keys.size("attention.indexer.local_blocks")?.unwrap_or(1);
    // The token's own block is always selected.
    match b.most_groups(chosen, block).filter(|most| width <= 1024 && local <= *most) {
        Some(most) => {
            let groups = Groups::Blocks { size: block as u32, local: local as u32 };
            Ok(BlockIndexer { width, groups, top: most * block, rope })
        }
        None => {
            let what =
                format!("an indexer of width {width} that chooses {chosen} blocks of {block}, {local} of them local");
            Err(Error::unsupported(what))
        }
    }
}

/// Attention to the selected blocks, with a separate KV layer per KV head.
fn blocks(b: &mut Builder, x: TensorId, qkv: [TensorId; 3], indexer: BlockIndexer) -> Result<TensorId> {
    let HeadShape { n_heads, n_kv_heads, .. } = b.hyper.heads;
    let heads = HeadShape { n_heads: n_heads / n_kv_heads, n_kv_heads: 1, ..b.hyper.heads };
    let BlockIndexer { width, groups, top, rope } = indexer;
    let queries = b.project(x, "indexer.q_proj", n_kv_heads * width)?;
    let key = b.project(x, "indexer.k_proj", width)?;
    b.rms_norm_groups(queries, "indexer.q_norm", width)?;
    b.rms_norm_groups(key, "indexer.k_norm", width)?;
    b.rotate_heads(rope, width, queries, Some(key));
    let keys = b.store_index(key);
    let mut out = None;
    for head in 0..n_kv_heads {
        let [q, k, v] = qkv.map(|all| {
            let width = b.program.width(all) / n_kv_heads;
            b.slice(all, head * width, width)
        });
        let query = b.slice(queries, head * width, width);
        let layer = b.store(k, v, Attention::new(heads));
        let among = b.choose_by_product(keys, query, groups, top);
        let a = b.attend_among(q, layer, Attention::new(heads), among);
        out = Some(out.map_or(a, |out| b.with_tails(out, Some(a), 1)));
    }
    out.ok_or_else(|| b.keys.unsupported("attention.head_count_kv"))
}
