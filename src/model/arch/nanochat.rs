//! Nanochat: unweighted RMS norms, also of the embedding and of queries and keys after RoPE, which rotates backwards; a
//! feed-forward block with squared ReLU.

use crate::error::Result;
use crate::graph::op::Activation::Relu2;
use crate::graph::op::NormKind::Rms;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope;

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let config = b.rope_config(RopePairs::Halves)?;
    let mut table = rope::table(&config, None)?;
    table.inv_freq.iter_mut().for_each(|frequency| *frequency = -*frequency);
    let rope = b.add_rope(table);
    let softcap = b.keys.float("final_logit_softcapping")?.unwrap_or(0.0);
    let x = b.embed(1.0)?;
    b.bare_norm_groups(Rms, x, b.hyper.hidden);
    b.layers(|b, _| {
        let h = b.bare_norm(Rms, x);
        let o = b.attention(h, attention, |b, q, k| {
            b.rotate(rope, q, k);
            [q, k].into_iter().for_each(|x| b.bare_norm_groups(Rms, x, attention.heads.head_dim));
            Ok(())
        })?;
        b.add(x, o);
        let h = b.bare_norm(Rms, x);
        let o = b.plain_ffn(h, Relu2)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.bare_norm(Rms, x);
    b.head(h, 1.0, softcap)
}
