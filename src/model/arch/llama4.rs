//! Llama 4: three of four layers have RoPE, most of them with chunked attention; the others have no RoPE, and queries
//! scaled by the logarithm of the position. One routed expert with a sigmoid router that scales its input, and a shared
//! expert.

use crate::error::Result;
use crate::graph::op::NormKind::Rms;
use crate::graph::op::{Mask, RouterScore};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

/// Length of an attention chunk, and of the first range of positions with unscaled queries.
const CHUNK: usize = 8192;

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let is_chunked = match b.keys.is_present("attention.sliding_window") {
        true => b.keys.size("attention.sliding_window")?.is_some(),
        false => true,
    };
    let windows = if is_chunked { b.windows(CHUNK, 4)? } else { vec![0; b.hyper.n_layers] };
    let slope = b.keys.float("attention.temperature_scale")?.unwrap_or(0.1);
    let mut moe = b.declared_moe(RouterScore::Sigmoid)?;
    if let Some(moe) = &mut moe {
        moe.routing.on_input = true;
    }
    // The largest model has no QK norm.
    let normalizes = moe.is_none_or(|moe| moe.n_experts != 128);
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let rotates = (i + 1) % 4 != 0 || !is_chunked;
        let mask = if windows[i] > 0 { Mask::Chunk(CHUNK as u32) } else { Mask::Causal };
        let o = b.attention(h, Attention { mask, ..Attention::new(heads) }, |b, q, k| {
            if !rotates {
                b.scale_by_position(q, slope, CHUNK, 1);
                return Ok(());
            }
            b.rotate(rope, q, k);
            if normalizes {
                b.bare_norm_groups(Rms, q, heads.head_dim);
                b.bare_norm_groups(Rms, k, heads.head_dim);
            }
            Ok(())
        })?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
