//! LFM 2 and 3: most layers are gated short convolutions, the others attention. LFM 3 has a sliding window with its own
//! RoPE in some layers, gated heads, and norms after blocks.

use crate::error::Result;
use crate::graph::op::Activation::{Identity, Sigmoid};
use crate::graph::op::{RouterScore, TensorId};
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder};
use crate::model::rope::{self, RopeConfig};

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.heads_per_layer()?;
    let config = b.rope_config(RopePairs::Halves)?;
    let rope = b.rope(&config)?;
    let taps = b.taps("shortconv.l_cache")?;
    let (is_moe, is_third) = (b.hyper.architecture == "lfm2moe", b.hyper.architecture == "lfm3");
    // In LFM 2 every attention layer has the window, except in the MoE models.
    let window = b.keys.size("attention.sliding_window")?.filter(|_| !is_moe).unwrap_or(0);
    let windows = if is_third { b.windows(window, 0)? } else { vec![window; b.hyper.n_layers] };
    let local = match is_third {
        true => {
            let base = b.keys.float("rope.freq_base_swa")?.unwrap_or(config.base);
            b.add_rope(rope::table(&RopeConfig { base, ..config }, None)?)
        }
        false => rope,
    };
    ["attention.sliding_window_pattern", "leading_dense_block_count"].into_iter().for_each(|key| b.keys.ignore(key));
    let mut moe = if is_moe { b.declared_moe(RouterScore::Softmax)? } else { None };
    if let Some(moe) = &mut moe {
        (moe.routing.renormalize, moe.routing.scale) = (true, 1.0);
    }
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = match heads[i] {
            Some(heads) => {
                let [q, k, v] = b.qkv(h, heads)?;
                b.head_norms(q, k)?;
                b.rotate(if windows[i] > 0 { local } else { rope }, q, k);
                let mut a = b.attend([q, k, v], Attention::windowed(heads, windows[i]))?;
                if is_third {
                    let gate = b.project(h, "attn_gate", heads.n_heads)?;
                    a = b.gate_by(a, gate, Sigmoid);
                }
                b.project(a, "attn_output", b.hyper.hidden)?
            }
            None => short_convolution(b, h, taps)?,
        };
        if is_third {
            b.rms_norm_groups(o, "post_attention_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.moe_ffn(h, moe)?;
        if is_third {
            b.rms_norm_groups(o, "post_ffw_norm", b.hyper.hidden)?;
        }
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "token_embd_norm")?;
    b.head(h, 1.0, 0.0)
}

/// `out_proj(c * conv(b * x))` for `[b | c | x] = in_proj(h)`.
fn short_convolution(b: &mut Builder, h: TensorId, taps: usize) -> Result<TensorId> {
    let hidden = b.hyper.hidden;
    let parts = b.split(h, "shortconv.in_proj", [hidden; 3])?;
    let [input_gate, output_gate, x] = b.push_projections(h, parts);
    let x = b.gate(input_gate, x, Identity);
    b.conv([x], "shortconv.conv", taps, false)?;
    let y = b.gate(output_gate, x, Identity);
    b.project(y, "shortconv.out_proj", hidden)
}
