//! dots3 note: MLA with a sigmoid gate per head and a number of heads per layer. Sliding-window layers have widths of
//! their own, the others a lightning indexer.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    let windows = b.declared_windows()?;
    let latent = b.latent(RopePairs::Adjacent, None)?.with_common_epsilon(b);
    let windowed = b.windowed_latent(RopePairs::Adjacent)?.with_common_epsilon(b);
    // Adjacent pairs, as in attention (`indexer_rope_interleave` of the authors' configuration). Programs that use
    // halves choose other tokens once a text is longer than the indexer's selection.
    let indexer = b.indexer(latent, RopePairs::Adjacent)?;
    let key = "attention.indexer.types";
    let types = b.keys.per_layer_sizes(key, b.hyper.n_layers)?;
    if types.is_some_and(|types| types.iter().zip(&windows).any(|(own, window)| (*own > 0) == (*window > 0))) {
        return Err(b.keys.unsupported(key));
    }
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let Some(heads) = heads[i] else { return Err(b.keys.unsupported("attention.head_count_kv")) };
        let h = b.rms_norm(x, "attn_norm")?;
        let (of_layer, indexer) = if windows[i] > 0 { (windowed, None) } else { (latent, Some(indexer)) };
        let o = b.latent_attention_among(h, of_layer.of_layer(heads.n_heads, windows[i]), indexer, &mut None)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
