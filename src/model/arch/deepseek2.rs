//! DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash and Mistral 4: MLA, a router declared by the file, a shared expert, dense
//! first layers. A.X K1 normalizes the output of the feed-forward block.

use crate::error::Result;
use crate::graph::op::RouterScore;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Builder, Traits};

pub const TRAITS: fn(&str) -> Traits =
    |name| Traits { predicts: true, plain_yarn: name == "deepseek2", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let latent = b.latent(RopePairs::Adjacent, None)?;
    // The files of GLM 4.7 Flash, recognized by their shape, do not declare the router.
    let is_glm = (47..=48).contains(&b.hyper.n_layers) && b.hyper.vocab == 154_880;
    let moe = b.declared_moe(if is_glm { RouterScore::Sigmoid } else { RouterScore::Softmax })?;
    let post_norms = b.keys.flag("post_norms")?.unwrap_or(false);
    let layer = |b: &mut Builder, x| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.latent_attention(h, latent)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        if post_norms && b.has("ffn_gate_inp.weight") {
            b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        Ok(())
    };
    let x = b.embed(1.0)?;
    b.layers(|b, _| layer(b, x))?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)?;
    b.predictor(layer)
}
