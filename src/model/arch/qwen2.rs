//! Qwen 1 to 2.5: Llama with biases on q, k and v, and NeoX RoPE order. EXAONE and openPangu Embedded are equal, and so
//! are vision-language models on text.

use crate::error::Result;
use crate::graph::op::Activation::Silu;
use crate::graph::weights::RopePairs;
use crate::model::builder::{Attention, Builder, Traits};
use crate::model::rope::{RopeConfig, RopeScaling, sections};

/// Tensors of CogVLM for image tokens, and tensors that CogVLM does not use.
const IMAGE_PARTS: [&str; 6] = [
    "vis_attn_qkv.weight",
    "vis_attn_output.weight",
    "vis_gate.weight",
    "vis_up.weight",
    "vis_down.weight",
    "rope_freqs.weight",
];

pub const TRAITS: fn(&str) -> Traits = |name| Traits { text_only_weights: name == "cogvlm", ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let heads = b.hyper.heads;
    let mut config = b.rope_config(RopePairs::Halves)?;
    match b.keys.architecture {
        // The file's width counts gate and up together.
        "qwen" => b.hyper.ffn /= 2,
        "qwen2vl" => {
            config.sections = sections(&b.keys, false)?;
            b.leave_out(&["output.bias"]);
        }
        "paddleocr" => {
            config.sections = sections(&b.keys, false)?;
            // The layers are dense, whatever the file says.
            ["expert_count", "expert_used_count"].into_iter().for_each(|key| b.keys.ignore(key));
        }
        "pangu-embedded" => b.leave_out(&["rope_freqs.weight"]),
        "cogvlm" => {
            b.leave_out(&IMAGE_PARTS);
            config = RopeConfig { base: 10_000.0, n_dims: heads.head_dim, scaling: RopeScaling::None, ..config };
        }
        _ => {}
    }
    let rope = b.rope(&config)?;
    let windows = b.declared_windows()?;
    let x = b.embed(1.0)?;
    b.layers(|b, i| {
        let h = b.rms_norm(x, "attn_norm")?;
        let o = b.rotary_attention(h, Attention::windowed(heads, windows[i]), rope)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = b.gated_ffn(h, Silu)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
