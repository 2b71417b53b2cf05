//! The model families that the library runs, as their configurations and checkpoints differ.

/// The models of an architecture, as their checkpoints differ from those of others.
pub(super) struct Family {
    /// `model_type` of a configuration.
    model_types: &'static [&'static str],
    /// `general.architecture` of a GGUF file.
    pub arch: &'static str,
    /// The activations that the architecture implies, by each of their names; the first where a configuration names
    /// none.
    pub activations: &'static [&'static str],
    /// `gelu` is the function itself and not its approximation by tanh.
    pub exact_gelu: bool,
    /// Values of keys that official configurations leave out; of booleans 0 or 1.
    pub defaults: &'static [(&'static str, f64)],
    /// Keys, between spaces, that change no result of the family.
    pub effectless: &'static str,
    /// GGUF files name `post_attention_layernorm` after the attention and not after the feed-forward block.
    pub post_norms: bool,
    /// Norm weights are stored less 1.
    pub norms_less_one: bool,
    /// The rotary embedding pairs neighbours rather than halves of a head.
    pub adjacent: bool,
    /// Endings of the names of matrices that are stored `[in, out]`.
    pub transposed: &'static [&'static str],
    /// Those of experts may as well be stored `[experts, out, in]`.
    pub either_way: bool,
    /// The tensor for queries, keys and values has those of one key-value head after those of another.
    pub grouped_qkv: bool,
    /// Keys and values are products of one narrow vector.
    pub latent: bool,
    /// The tensor for gates and ups of experts alternates between the two row by row.
    pub alternating_gate_up: bool,
}

const PLAIN: Family = Family {
    model_types: &[],
    arch: "",
    activations: &["silu"],
    exact_gelu: false,
    defaults: &[("rope_theta", 1e4)],
    effectless: "",
    post_norms: false,
    norms_less_one: false,
    adjacent: false,
    transposed: &[],
    either_way: false,
    grouped_qkv: false,
    latent: false,
    alternating_gate_up: false,
};

/// Multi-head latent attention. Checkpoints of the second generation have neighbours in rotary pairs, as those of the
/// third unless they say otherwise.
const LATENT: Family = Family {
    arch: "deepseek2",
    defaults: &[
        ("rope_theta", 1e4),
        ("rms_norm_eps", 1e-6),
        ("kv_lora_rank", 512.0),
        ("qk_nope_head_dim", 128.0),
        ("qk_rope_head_dim", 64.0),
        ("v_head_dim", 128.0),
        ("routed_scaling_factor", 1.0),
    ],
    effectless: " ep_size aux_loss_alpha seq_aux mlp_layer_types ",
    adjacent: true,
    latent: true,
    ..PLAIN
};

/// Members that tell training and caches of blocks of Mamba.
const MAMBA: &str = " chunk_size mamba_chunk_size rescale_prenorm_residual residual_in_fp32 time_step_floor time_step_min \
     time_step_max time_step_scale time_step_init_scheme use_bias use_conv_bias use_mambapy use_falcon_mambapy \
     use_associative_scan fused_add_norm rms_norm pad_vocab_size_multiple ssm_cfg mamba_conv_bias mamba_proj_bias \
     use_mamba_kernels num_logits_to_keep mamba_ssm_cache_dtype d_inner init_method mamba_dt_min mamba_dt_max \
     mamba_dt_init_floor moe_shared_expert_overlap moe_shared_expert_intermediate_size moe_latent_size \
     mtp_layers_block_type mtp_hybrid_override_pattern calc_logits_for_entire_prompt mamba_inner_layernorms \
     mlp_expansion_factor norm_before_gate ";

const GEMMA: Family = Family { activations: &["gelu_pytorch_tanh"], norms_less_one: true, ..PLAIN };

const QWEN: Family = Family {
    defaults: &[("rope_theta", 1e4), ("use_sliding_window", 0.0), ("max_window_layers", 28.0), ("norm_topk_prob", 0.0)],
    ..PLAIN
};

/// The text part of networks that see pictures.
const QWEN_VL: Family =
    Family { defaults: &[("rope_theta", 1e6), ("use_sliding_window", 0.0), ("norm_topk_prob", 1.0)], ..PLAIN };

/// Gated delta nets beside attention.
const QWEN_DELTA: Family = Family {
    defaults: &[
        ("rope_theta", 1e4),
        ("partial_rotary_factor", 0.25),
        ("head_dim", 256.0),
        ("rms_norm_eps", 1e-6),
        ("full_attention_interval", 4.0),
        ("linear_conv_kernel_dim", 4.0),
        ("linear_key_head_dim", 128.0),
        ("linear_value_head_dim", 128.0),
        ("linear_num_key_heads", 16.0),
        ("linear_num_value_heads", 32.0),
    ],
    effectless: " mamba_ssm_dtype mtp_num_hidden_layers mtp_use_dedicated_embeddings use_sliding_window ",
    post_norms: true,
    norms_less_one: true,
    ..PLAIN
};

const GRANITE_MOE: Family = Family {
    defaults: &[
        ("rope_theta", 1e4),
        ("attention_multiplier", 1.0),
        ("num_local_experts", 8.0),
        ("num_experts_per_tok", 2.0),
    ],
    ..PLAIN
};

/// Experts in one tensor, `[experts, in, out]`.
const STACKED_EXPERTS: &[&str] = &["ffn_gate_up_exps.weight", "ffn_down_exps.weight"];

/// GELU without approximation, and one tensor of queries, keys and values.
const EXACT_GELU: Family = Family {
    activations: &["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"],
    exact_gelu: true,
    grouped_qkv: true,
    ..PLAIN
};

const FAMILIES: &[Family] = &[
    Family { model_types: &["llama", "mistral", "mixtral"], arch: "llama", ..PLAIN },
    Family { model_types: &["qwen2"], arch: "qwen2", ..QWEN },
    Family { model_types: &["qwen3"], arch: "qwen3", ..QWEN },
    Family { model_types: &["qwen3_moe"], arch: "qwen3moe", ..QWEN },
    Family { model_types: &["phi3"], arch: "phi3", ..PLAIN },
    Family { model_types: &["granite"], arch: "granite", ..PLAIN },
    Family { model_types: &["olmo2"], arch: "olmo2", post_norms: true, ..PLAIN },
    // The first configurations say "gelu" and mean its approximation.
    Family { model_types: &["gemma"], arch: "gemma", activations: &["gelu", "gelu_pytorch_tanh"], ..GEMMA },
    Family { model_types: &["gemma2"], arch: "gemma2", post_norms: true, ..GEMMA },
    Family {
        model_types: &["gemma3_text", "gemma3"],
        arch: "gemma3",
        defaults: &[
            ("max_position_embeddings", 131_072.0),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("vocab_size", 262_208.0),
            ("rms_norm_eps", 1e-6),
            ("query_pre_attn_scalar", 256.0),
            ("sliding_window", 4096.0),
            ("sliding_window_pattern", 6.0),
            ("rope_theta", 1e6),
            ("rope_local_base_freq", 1e4),
        ],
        post_norms: true,
        ..GEMMA
    },
    Family {
        model_types: &["gpt2"],
        arch: "gpt2",
        activations: &["gelu_new"],
        defaults: &[],
        transposed: &["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"],
        ..PLAIN
    },
    Family {
        model_types: &["bert"],
        arch: "bert",
        activations: &["gelu"],
        defaults: &[("layer_norm_eps", 1e-12), ("max_position_embeddings", 512.0)],
        ..PLAIN
    },
    Family { model_types: &["starcoder2"], arch: "starcoder2", activations: &["gelu_pytorch_tanh"], ..PLAIN },
    Family {
        model_types: &["smollm3"],
        arch: "smollm3",
        defaults: &[("rope_theta", 2e6), ("use_sliding_window", 0.0)],
        ..PLAIN
    },
    Family {
        model_types: &["gpt_oss"],
        arch: "gpt-oss",
        defaults: &[
            ("rope_theta", 15e4),
            ("head_dim", 64.0),
            ("sliding_window", 128.0),
            ("sliding_window_pattern", 2.0),
            ("rms_norm_eps", 1e-5),
        ],
        effectless: " initial_context_length ",
        post_norms: true,
        transposed: STACKED_EXPERTS,
        alternating_gate_up: true,
        ..PLAIN
    },
    Family {
        model_types: &["ernie4_5"],
        arch: "ernie4_5",
        defaults: &[("rope_theta", 5e5), ("head_dim", 128.0), ("num_key_value_heads", 2.0)],
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["ernie4_5_moe"],
        arch: "ernie4_5-moe",
        defaults: &[("rope_theta", 5e5), ("num_key_value_heads", 4.0), ("moe_k", 6.0), ("moe_num_experts", 64.0)],
        effectless: " moe_num_shared_experts moe_layer_start_index moe_layer_end_index moe_layer_interval moe_capacity \
                     moe_use_aux_free moe_norm_min ",
        adjacent: true,
        ..PLAIN
    },
    Family { model_types: &["hunyuan_v1_dense"], arch: "hunyuan-dense", effectless: HUNYUAN, ..PLAIN },
    Family { model_types: &["hunyuan_v1_moe"], arch: "hunyuan-moe", effectless: HUNYUAN, ..PLAIN },
    Family { model_types: &["seed_oss"], arch: "seed_oss", post_norms: true, ..PLAIN },
    Family { model_types: &["minicpm"], arch: "minicpm", ..PLAIN },
    Family {
        model_types: &["exaone4"],
        arch: "exaone4",
        defaults: &[("rope_theta", 1e4), ("rms_norm_eps", 1e-5)],
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["glm4"],
        arch: "glm4",
        defaults: &[("rope_theta", 1e4), ("partial_rotary_factor", 0.5), ("head_dim", 128.0)],
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["glm4_moe"],
        arch: "glm4moe",
        defaults: &[("rope_theta", 1e4), ("partial_rotary_factor", 0.5), ("norm_topk_prob", 1.0)],
        post_norms: true,
        ..PLAIN
    },
    Family { model_types: &["qwen2_moe"], arch: "qwen2moe", ..QWEN },
    Family { model_types: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"], arch: "qwen2vl", ..QWEN_VL },
    Family {
        model_types: &["qwen3_vl", "qwen3_vl_text"],
        arch: "qwen3vl",
        defaults: &[("rope_theta", 5e6), ("head_dim", 128.0)],
        ..QWEN_VL
    },
    Family {
        model_types: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
        arch: "qwen3vlmoe",
        defaults: &[("rope_theta", 5e6), ("head_dim", 128.0), ("norm_topk_prob", 1.0)],
        transposed: STACKED_EXPERTS,
        either_way: true,
        ..QWEN_VL
    },
    Family { model_types: &["qwen3_next"], arch: "qwen3next", ..QWEN_DELTA },
    Family { model_types: &["qwen3_5", "qwen3_5_text"], arch: "qwen35", ..QWEN_DELTA },
    Family { model_types: &["qwen3_5_moe", "qwen3_5_moe_text"], arch: "qwen35moe", ..QWEN_DELTA },
    Family { model_types: &["granitemoe", "granitemoeshared"], arch: "granitemoe", ..GRANITE_MOE },
    Family {
        model_types: &["olmo3"],
        arch: "olmo2",
        defaults: &[("rope_theta", 1e4), ("sliding_window", 4096.0), ("sliding_window_pattern", 4.0)],
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["olmoe"],
        arch: "olmoe",
        defaults: &[
            ("rope_theta", 1e4),
            ("norm_topk_prob", 0.0),
            ("num_experts", 64.0),
            ("num_experts_per_tok", 8.0),
            ("rms_norm_eps", 1e-5),
        ],
        ..PLAIN
    },
    Family { model_types: &["olmo"], arch: "olmo", ..PLAIN },
    Family {
        model_types: &["minimax_m2"],
        arch: "minimax-m2",
        effectless: " mtp_transformer_layers num_mtp_modules use_mtp ",
        ..PLAIN
    },
    Family { model_types: &["ministral3"], arch: "mistral3", ..PLAIN },
    Family {
        model_types: &["llama4_text", "llama4"],
        arch: "llama4",
        defaults: &[("rope_theta", 5e5), ("head_dim", 128.0), ("attention_chunk_size", 8192.0)],
        effectless: " moe_layers interleave_moe_layer_step ",
        adjacent: true,
        transposed: STACKED_EXPERTS,
        ..PLAIN
    },
    Family {
        model_types: &["deepseek"],
        arch: "deepseek",
        effectless: " first_k_dense_replace n_shared_experts aux_loss_alpha seq_aux ",
        ..PLAIN
    },
    Family {
        model_types: &["dots1"],
        arch: "dots1",
        defaults: &[("rope_theta", 1e4), ("max_window_layers", 62.0)],
        ..PLAIN
    },
    Family {
        model_types: &["phi"],
        arch: "phi2",
        activations: &["gelu_new"],
        defaults: &[("rope_theta", 1e4), ("partial_rotary_factor", 0.5)],
        ..PLAIN
    },
    Family {
        model_types: &["cohere"],
        arch: "command-r",
        defaults: &[("rope_theta", 1e4), ("logit_scale", 0.0625)],
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["cohere2"],
        arch: "cohere2",
        defaults: &[
            ("rope_theta", 1e4),
            ("logit_scale", 0.0625),
            ("sliding_window", 4096.0),
            ("sliding_window_pattern", 4.0),
        ],
        effectless: " rotary_pct ",
        adjacent: true,
        ..PLAIN
    },
    Family {
        model_types: &["gpt_neox"],
        arch: "gptneox",
        defaults: &[("rotary_emb_base", 1e4), ("rotary_pct", 0.25), ("layer_norm_eps", 1e-5)],
        ..EXACT_GELU
    },
    Family {
        model_types: &["stablelm"],
        arch: "stablelm",
        defaults: &[("rope_theta", 1e4), ("partial_rotary_factor", 0.25), ("layer_norm_eps", 1e-5)],
        effectless: " use_parallel_residual use_qkv_bias qk_layernorm ",
        ..PLAIN
    },
    Family { model_types: &["falcon"], arch: "falcon", ..EXACT_GELU },
    Family {
        model_types: &["gpt_bigcode"],
        arch: "starcoder",
        activations: &["gelu_pytorch_tanh"],
        defaults: &[],
        effectless: " attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner validate_runner_input \
                     pre_allocate_kv_cache max_batch_size ",
        ..EXACT_GELU
    },
    Family {
        model_types: &["mpt"],
        arch: "mpt",
        defaults: &[("layer_norm_epsilon", 1e-5)],
        effectless: " no_bias emb_pdrop init_device init_config verbose embedding_fraction tokenizer_name ",
        grouped_qkv: false,
        ..EXACT_GELU
    },
    Family {
        model_types: &["bloom"],
        arch: "bloom",
        activations: &["gelu_pytorch_tanh"],
        defaults: &[("layer_norm_epsilon", 1e-5)],
        effectless: " attention_softmax_in_fp32 masked_softmax_fusion bias_dropout_fusion skip_bias_add \
                     skip_bias_add_qkv seq_length offset_alibi unk_token_id slow_but_exact ",
        exact_gelu: false,
        ..EXACT_GELU
    },
    Family { model_types: &["internlm2"], arch: "internlm2", grouped_qkv: true, ..PLAIN },
    Family { model_types: &["baichuan"], arch: "baichuan", ..PLAIN },
    Family { model_types: &["xverse"], arch: "xverse", effectless: " max_tokenizer_truncation ", ..PLAIN },
    Family { model_types: &["orion"], arch: "orion", ..PLAIN },
    Family {
        model_types: &["nemotron"],
        arch: "nemotron",
        activations: &["relu2"],
        defaults: &[("rope_theta", 1e4), ("partial_rotary_factor", 0.5), ("norm_eps", 1e-5)],
        norms_less_one: true,
        ..PLAIN
    },
    Family { model_types: &["arcee"], arch: "arcee", activations: &["relu2"], ..PLAIN },
    Family { model_types: &["deepseek_v2"], ..LATENT },
    Family {
        model_types: &["minicpm3"],
        arch: "minicpm3",
        defaults: &[
            ("rope_theta", 1e4),
            ("rms_norm_eps", 1e-5),
            ("kv_lora_rank", 256.0),
            ("qk_nope_head_dim", 64.0),
            ("qk_rope_head_dim", 32.0),
            ("scale_emb", 12.0),
            ("scale_depth", 1.4),
            ("dim_model_base", 256.0),
        ],
        adjacent: false,
        ..LATENT
    },
    Family {
        model_types: &["deepseek_v3", "kimi_k2", "glm4_moe_lite"],
        defaults: &[
            ("rope_theta", 1e4),
            ("rms_norm_eps", 1e-6),
            ("kv_lora_rank", 512.0),
            ("qk_nope_head_dim", 128.0),
            ("qk_rope_head_dim", 64.0),
            ("v_head_dim", 128.0),
            ("norm_topk_prob", 1.0),
        ],
        ..LATENT
    },
    Family {
        model_types: &["gemma4_text", "gemma4"],
        arch: "gemma4",
        activations: &["gelu_pytorch_tanh"],
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("head_dim", 256.0),
            ("global_head_dim", 512.0),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("sliding_window", 512.0),
            ("hidden_size_per_layer_input", 256.0),
        ],
        effectless: " vocab_size_per_layer_input audio_config audio_token_id boa_token_id boa_token_index eoa_token_id \
                     eoa_token_index vision_soft_tokens_per_image ",
        post_norms: true,
        ..PLAIN
    },
    Family {
        model_types: &["mamba", "falcon_mamba"],
        arch: "mamba",
        defaults: &[("layer_norm_epsilon", 1e-5), ("expand", 2.0), ("conv_kernel", 4.0), ("state_size", 16.0)],
        effectless: MAMBA,
        ..PLAIN
    },
    Family {
        model_types: &["mamba2"],
        arch: "mamba2",
        defaults: &[
            ("layer_norm_epsilon", 1e-5),
            ("expand", 2.0),
            ("conv_kernel", 4.0),
            ("state_size", 128.0),
            ("n_groups", 8.0),
        ],
        effectless: MAMBA,
        ..PLAIN
    },
    Family {
        model_types: &["falcon_h1"],
        arch: "falcon-h1",
        defaults: &[
            ("rope_theta", 1e4),
            ("rms_norm_eps", 1e-5),
            ("mamba_expand", 2.0),
            ("mamba_d_conv", 4.0),
            ("mamba_d_state", 256.0),
            ("mamba_n_groups", 1.0),
            ("mamba_norm_before_gate", 1.0),
        ],
        effectless: MAMBA,
        ..PLAIN
    },
    Family {
        model_types: &["granitemoehybrid"],
        arch: "granitehybrid",
        defaults: &[
            ("rope_theta", 1e4),
            ("attention_multiplier", 1.0),
            ("num_local_experts", 8.0),
            ("num_experts_per_tok", 2.0),
            ("shared_intermediate_size", 1024.0),
            ("mamba_expand", 2.0),
            ("mamba_d_conv", 4.0),
            ("mamba_d_state", 256.0),
            ("mamba_n_groups", 1.0),
            ("mamba_n_heads", 128.0),
        ],
        effectless: MAMBA,
        ..PLAIN
    },
    Family {
        model_types: &["nemotron_h"],
        arch: "nemotron_h",
        activations: &["relu2"],
        defaults: &[
            ("layer_norm_epsilon", 1e-5),
            ("head_dim", 128.0),
            ("conv_kernel", 4.0),
            ("ssm_state_size", 128.0),
            ("n_groups", 8.0),
            ("mamba_num_heads", 128.0),
            ("mamba_head_dim", 64.0),
            ("norm_topk_prob", 1.0),
        ],
        effectless: MAMBA,
        ..PLAIN
    },
    Family {
        model_types: &["jamba"],
        arch: "jamba",
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("num_experts", 16.0),
            ("num_experts_per_tok", 2.0),
            ("attn_layer_period", 8.0),
            ("attn_layer_offset", 4.0),
            ("mamba_expand", 2.0),
            ("mamba_d_conv", 4.0),
            ("mamba_d_state", 16.0),
        ],
        effectless: MAMBA,
        ..PLAIN
    },
    Family {
        model_types: &["lfm2"],
        arch: "lfm2",
        defaults: &[
            ("rope_theta", 1e6),
            ("norm_eps", 1e-5),
            ("conv_L_cache", 3.0),
            ("intermediate_size", 12_288.0),
            ("block_auto_adjust_ff_dim", 1.0),
            ("block_multiple_of", 256.0),
            ("block_ffn_dim_multiplier", 1.0),
        ],
        effectless: " conv_bias block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu \
                     block_use_xavier_init conv_dim conv_dim_out conv_use_xavier_init num_heads use_pos_enc ",
        ..PLAIN
    },
    Family {
        model_types: &["lfm2_moe"],
        arch: "lfm2moe",
        defaults: &[
            ("rope_theta", 1e6),
            ("norm_eps", 1e-5),
            ("conv_L_cache", 3.0),
            ("num_experts", 32.0),
            ("num_experts_per_tok", 4.0),
        ],
        effectless: " conv_bias num_dense_layers ",
        ..PLAIN
    },
];

/// Keys of Hunyuan about pictures, speech, and training.
const HUNYUAN: &str = " add_classification_head class_num cla_share_factor dense_list eod_token_id enable_lm_head_fp32 \
     im_end_id im_newline_id im_start_id image_token_id video_start_id video_end_id mask_init_id text_start_id \
     text_end_id org_vocab_size max_seqlen num_media_embeds pool_type num_shared_expert vit_path vit_type \
     vit_token vit_used_rms_norm vit_patch vit_norm_type vit_mapping_type vit_input_resolution vit_dtype \
     vit_add_patchemb_bias anyres_pooling_size anyres_vit_max_image_size anyres_vit_two_views skip_cls_token \
     moe_drop_tokens moe_random_routing_dropped_token capacity_factor \
     kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim unk_token_id ";

/// The family of an architecture; where there are several, they name their matrices alike.
pub(super) fn of_architecture(arch: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.arch == arch)
}

/// The family of a `model_type`.
pub(super) fn family(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.model_types.contains(&model_type))
}
