//! Qwen: dense, with experts, with a part that sees pictures, and with gated delta nets beside attention.

use super::common::{EXPERT_NORM, EXPERT_WIDTH, EXPERTS, PLAIN, STACKED_EXPERTS};
use crate::error::{Result, try_vec};
use crate::format::hf::rope::head_dim;
use crate::format::hf::translator::KeyType::Int;
use crate::format::hf::translator::{Family, Key, Translator};

const QWEN: Family = Family {
    epsilon: 1e-6,
    defaults: "rope_theta=1e4 use_sliding_window=0 max_window_layers=28 norm_topk_prob=0",
    ..PLAIN
};

/// The text part of networks that see pictures.
const QWEN_VL: Family = Family {
    epsilon: 1e-6,
    defaults: "rope_theta=1e6 use_sliding_window=0 norm_topk_prob=1",
    sections: |t, _, pairs| Ok(pairs == Some(head_dim(t)? / 2)),
    ..PLAIN
};

/// Gated delta nets beside attention.
const QWEN_DELTA: Family = Family {
    epsilon: 1e-6,
    defaults: "rope_theta=1e4 partial_rotary_factor=0.25 head_dim=256 full_attention_interval=4 \
               linear_conv_kernel_dim=4 linear_key_head_dim=128 linear_value_head_dim=128 linear_num_key_heads=16 \
               linear_num_value_heads=32",
    effectless: " mamba_ssm_dtype mtp_use_dedicated_embeddings use_sliding_window ",
    extras: delta_nets,
    windows: |_| Ok(()),
    post_norms: true,
    norms_less_one: true,
    ..PLAIN
};

const QWEN_3_5: Family = Family { sections: |_, interleaved, _| Ok(interleaved == Some(true)), ..QWEN_DELTA };

const SHARED: &[Key] = &[("expert_shared_feed_forward_length", Int, &["shared_expert_intermediate_size"])];
/// Keys that tell which layers are mixtures: here those that have a router are.
const TOLD_BY_TENSORS: &str = " mlp_only_layers decoder_sparse_step ";
const MIXTURE: &[&[Key]] = &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM];

pub const ALL: &[Family] = &[
    Family { model_types: &["qwen2"], arch: "qwen2", ..QWEN },
    Family { model_types: &["qwen3"], arch: "qwen3", ..QWEN },
    Family { model_types: &["qwen3_moe"], arch: "qwen3moe", keys: MIXTURE, effectless: TOLD_BY_TENSORS, ..QWEN },
    Family {
        model_types: &["qwen2_moe"],
        arch: "qwen2moe",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, SHARED],
        effectless: TOLD_BY_TENSORS,
        ..QWEN
    },
    Family {
        model_types: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
        arch: "qwen2vl",
        epsilon: 1e-5,
        sections: |t, interleaved, pairs| Ok(interleaved != Some(true) && pairs == Some(head_dim(t)? / 2)),
        own_rope: |_, _, kind| Ok(kind == "mrope"),
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_vl", "qwen3_vl_text"],
        arch: "qwen3vl",
        defaults: "rope_theta=5e6 head_dim=128",
        extras: deepstack,
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
        arch: "qwen3vlmoe",
        keys: MIXTURE,
        effectless: TOLD_BY_TENSORS,
        defaults: "rope_theta=5e6 head_dim=128 norm_topk_prob=1",
        extras: deepstack,
        transposed: STACKED_EXPERTS,
        either_way: true,
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_next"],
        arch: "qwen3next",
        keys: &[EXPERTS, EXPERT_WIDTH, EXPERT_NORM, SHARED],
        ..QWEN_DELTA
    },
    Family { model_types: &["qwen3_5", "qwen3_5_text"], arch: "qwen35", ..QWEN_3_5 },
    Family {
        model_types: &["qwen3_5_moe", "qwen3_5_moe_text"],
        arch: "qwen35moe",
        keys: &[EXPERTS, EXPERT_WIDTH, SHARED],
        ..QWEN_3_5
    },
];

/// Qwen 3 VL: the number of layers behind which rows of pictures enter again, as the encoder's configuration tells it.
fn deepstack(t: &mut Translator) -> Result<()> {
    let vision = t.config.find(&["vision_config"]).map(|(_, vision)| vision);
    let layers = vision.and_then(|vision| vision.get("deepstack_visual_indexes")?.as_array());
    t.set("n_deepstack_layers", layers.map(|layers| layers.len() as u64));
    Ok(())
}

/// Sets the layers with a recurrence, by 1, and without one, by 0.
fn recurrent_layers(t: &mut Translator, layers: impl ExactSizeIterator<Item = bool>) -> Result<()> {
    let mut list = try_vec("layers", layers.len())?;
    list.extend(layers.map(i64::from));
    // A list of zeros would be an unset one.
    if !list.contains(&1) {
        t.set("full_attention_interval", Some(1u64));
    }
    t.set("attention.recurrent_layers", Some(list));
    Ok(())
}

/// Qwen 3 Next and Qwen 3.5: gated delta nets, and attention in each fourth layer.
pub(super) fn delta_nets(t: &mut Translator) -> Result<()> {
    // Folders of Qwen 3 Next have one such layer and do not say so.
    t.facts.n_predicting = t.int(&["mtp_num_hidden_layers"])?.unwrap_or(1);
    let interval = t.size("full_attention_interval")?;
    match t.layers("layer_types", &["full_attention", "linear_attention"])? {
        Some(kinds) => recurrent_layers(t, kinds.into_iter().map(|kind| kind == 1))?,
        None => {
            let n = usize::try_from(t.n_layers()?).unwrap_or(0);
            recurrent_layers(t, (0..n).map(|i| !(i as u64 + 1).is_multiple_of(interval)))?;
        }
    }
    let [heads, key_heads] = [t.size("linear_num_value_heads")?, t.size("linear_num_key_heads")?];
    let width = t.size("linear_key_head_dim")?;
    if t.size("linear_value_head_dim")? != width {
        return Err(t.config.unsupported("a \"linear_value_head_dim\" other than \"linear_key_head_dim\""));
    }
    t.set("ssm.conv_kernel", t.int(&["linear_conv_kernel_dim"])?);
    t.set("ssm.inner_size", heads.checked_mul(width));
    t.set("ssm.state_size", Some(width));
    t.set("ssm.time_step_rank", Some(heads));
    t.set("ssm.group_count", Some(key_heads));
    t.expect("attn_output_gate", true)
}
