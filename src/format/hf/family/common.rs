//! Common parts of several families.

use crate::format::hf::translator::KeyType::{Bool, Int, Number};
use crate::format::hf::translator::{Family, Key};
use crate::format::hf::{rope, window};

pub const PLAIN: Family = Family {
    model_types: &[],
    arch: "",
    activations: &["silu"],
    exact_gelu: false,
    epsilon: 1e-5,
    fixed_epsilon: false,
    keys: &[],
    defaults: "rope_theta=1e4",
    effectless: "",
    extras: |_| Ok(()),
    windows: window::translate,
    rope: rope::translate,
    rotary_part: &["partial_rotary_factor"],
    windowed_base: false,
    windowed_part: false,
    sections: |_, _, _| Ok(false),
    own_rope: |_, _, _| Ok(false),
    growing_queries: false,
    post_norms: false,
    norms_less_one: false,
    scaled_ranks: false,
    adjacent: false,
    transposed: &[],
    either_way: false,
    grouped_qkv: false,
    alternating_gate_up: false,
    names: &[],
};

/// GELU without approximation, and a fused QKV tensor.
pub const EXACT_GELU: Family = Family {
    activations: &["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"],
    exact_gelu: true,
    grouped_qkv: true,
    ..PLAIN
};

/// Experts in one tensor, `[experts, in, out]`.
pub const STACKED_EXPERTS: &[&str] = &["ffn_gate_up_exps.weight", "ffn_down_exps.weight"];

pub const EXPERTS: &[Key] = &[
    ("expert_count", Int, &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"]),
    ("expert_used_count", Int, &["num_experts_per_tok", "experts_per_token", "moe_k"]),
];
pub const EXPERT_WIDTH: &[Key] = &[("expert_feed_forward_length", Int, &["moe_intermediate_size"])];
pub const EXPERT_NORM: &[Key] = &[("expert_weights_norm", Bool, &["norm_topk_prob"])];
pub const EXPERT_GROUPS: &[Key] =
    &[("expert_group_count", Int, &["n_group"]), ("expert_group_used_count", Int, &["topk_group"])];
pub const ROUTED: &[Key] = &[
    ("expert_weights_scale", Number, &["routed_scaling_factor"]),
    ("expert_shared_count", Int, &["n_shared_experts"]),
];
pub const DENSE_FIRST: &[Key] = &[("leading_dense_block_count", Int, &["first_k_dense_replace"])];
