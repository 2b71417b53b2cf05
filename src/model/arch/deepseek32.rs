//! DeepSeek V3.2 and GLM 5: DeepSeek V3 with sparse attention by a lightning indexer. In GLM some layers reuse the
//! selection of the previous layer.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Builder, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let is_glm = b.keys.architecture == "glm-dsa";
    let latent = b.latent(RopePairs::Adjacent, None)?;
    let indexer = b.indexer(latent, if is_glm { RopePairs::Adjacent } else { RopePairs::Halves })?;
    let is_long = b.hyper.context_length >= 1 << 20;
    let own = own_indexers(b, |i| !(is_glm && is_long) || i < 2 || i % 4 == 2, |_| true)?;
    if !is_glm && own.contains(&false) {
        return Err(b.keys.unsupported("attention.indexer.types"));
    }
    let moe = b.declared_moe(RouterScore::Sigmoid)?;
    let x = b.embed(1.0)?;
    let mut among = None;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.latent_attention_among(h, latent, own[i].then_some(indexer), &mut among)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)?;
    b.predictor(|b, x| {
        // The MTP layer attends to all positions.
        b.ignore_indexer();
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.latent_attention(h, latent)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })
}

/// True for layers with their own indexer: as declared by the file, otherwise by `default`. The first layer that
/// `attend`s always has one. Older GLM files without the key use one in four layers after the second if their context
/// length is GLM 5.2's.
pub(super) fn own_indexers(
    b: &Builder,
    default: impl Fn(usize) -> bool,
    attend: impl Fn(usize) -> bool,
) -> Result<Vec<bool>> {
    let (key, n) = ("attention.indexer.types", b.hyper.n_layers);
    let own: Vec<bool> = match b.keys.per_layer_sizes(key, n)? {
        Some(types) => types.into_iter().map(|own| own > 0).collect(),
        None => (0..n).map(default).collect(),
    };
    match (0..n).find(|i| attend(*i)) {
        Some(first) if !own[first] => Err(b.keys.unsupported(key)),
        _ => Ok(own),
    }
}
