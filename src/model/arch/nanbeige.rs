//! Nanbeige: Llama with layers that may run several times, with a KV cache for each run, and the last norm in between.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};

/// Maximum of layers times runs.
const MAX_LAYERS: usize = 1024;

pub fn build(b: &mut Builder) -> Result<()> {
    let attention = Attention::new(b.hyper.heads);
    let rope = b.rope_config(RopePairs::Adjacent)?;
    let rope = b.rope(&rope)?;
    let loops = b.keys.size("num_loops")?.unwrap_or(1);
    if loops.saturating_mul(b.hyper.n_layers) > MAX_LAYERS {
        return Err(b.keys.unsupported("num_loops"));
    }
    let skips_norm = b.keys.flag("skip_loop_final_norm")?.unwrap_or(false);
    let x = b.embed(1.0)?;
    for iteration in 0..loops {
        if iteration > 0 && !skips_norm {
            b.rms_norm_groups(x, "output_norm", b.hyper.hidden)?;
        }
        b.layers(|b, _| {
            let h = b.rms_norm(x, "attn_norm")?;
            let o = b.rotary_attention(h, attention, rope)?;
            b.add(x, o);
            let h = b.rms_norm(x, "ffn_norm")?;
            let o = b.gated_ffn(h, Silu)?;
            b.add(x, o);
            Ok(())
        })?;
    }
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
