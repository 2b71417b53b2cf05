"""Configurations of models for make.py, of architectures that came to transformers late or are published by few."""

COMMON = {"torch_dtype": "bfloat16", "transformers_version": "4.57.0", "use_cache": True, "initializer_range": 0.02}
DECODER = COMMON | {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 160, "max_position_embeddings": 131072, "num_attention_heads": 4, "num_hidden_layers": 3,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": False, "vocab_size": 96}
EXPERTS = DECODER | {
    "head_dim": 16, "moe_intermediate_size": 32, "norm_topk_prob": True, "num_experts": 8, "num_experts_per_tok": 2,
    "output_router_logits": False, "router_aux_loss_coef": 0.001}
# The token that pads is none of the prompt: positions of RoBERTa and its kin leave it out.
ENCODER = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02,
    "intermediate_size": 160, "layer_norm_eps": 1e-12, "max_position_embeddings": 66, "num_attention_heads": 4,
    "num_hidden_layers": 3, "pad_token_id": 0, "torch_dtype": "float32", "transformers_version": "4.30.0", "vocab_size": 96}
LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}
LATENT = DECODER | {
    "kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06}
WINDOWED = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
ROPE_BY_KIND = {
    "full_attention": {"rope_theta": 500000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                       "attention_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0, "partial_rotary_factor": 0.5},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 1.0}}

MODELS = {
    "apertus-8b-instruct-2509": (DECODER | {
        "architectures": ["ApertusForCausalLM"], "model_type": "apertus", "hidden_act": "xielu", "hidden_dropout": 0.0,
        "mlp_bias": False, "pad_token_id": 3, "post_norm": False, "qk_norm": True, "rope_scaling": LLAMA3 | {"type": "llama3"},
        "rope_theta": 12000000}, {}),
    "eurobert-210m": (DECODER | {
        "architectures": ["EuroBertForMaskedLM"], "model_type": "eurobert", "clf_pooling": "late", "head_dim": 16, "hidden_dropout": 0.0,
        "mask_token_id": 90, "mlp_bias": False, "num_key_value_heads": 4, "pad_token_id": 2, "pretraining_tp": 1,
        "rope_scaling": None, "rope_theta": 250000, "use_cache": False}, {}),
    "nomic-embed-text-v1.5": ({
        "activation_function": "swiglu", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0, "bos_token_id": None, "causal": False,
        "dense_seq_output": True, "embd_pdrop": 0.0, "eos_token_id": None, "fused_bias_fc": True, "fused_dropout_add_ln": True,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "mlp_fc1_bias": False,
        "mlp_fc2_bias": False, "model_type": "nomic_bert", "n_embd": 64, "n_head": 4, "n_inner": 160, "n_layer": 3, "n_positions": 8192,
        "pad_vocab_size_multiple": 64, "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False,
        "qkv_proj_bias": False, "reorder_and_upcast_attn": False, "resid_pdrop": 0.0, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
        "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "summary_activation": None, "summary_first_dropout": 0.0,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True, "torch_dtype": "float32",
        "transformers_version": "4.37.2", "type_vocab_size": 2, "use_cache": True, "use_flash_attn": True, "use_rms_norm": False,
        "use_xentropy": True, "vocab_size": 96}, {}),
    "jina-embeddings-v3": (ENCODER | {
        "architectures": ["JinaEmbeddingsV3Model"], "model_type": "jina_embeddings_v3", "layer_norm_eps": 1e-05, "pad_token_id": 1,
        "rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"}, "type_vocab_size": 1}, {}),
    "all-mpnet-base-v2": (ENCODER | {
        "architectures": ["MPNetForMaskedLM"], "model_type": "mpnet", "layer_norm_eps": 1e-05, "bos_token_id": 0,
        "eos_token_id": 2, "relative_attention_num_buckets": 32, "vocab_size": 96}, {}),
    "distilbert-base-uncased": ({
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 64, "dropout": 0.1,
        "hidden_dim": 160, "initializer_range": 0.02, "max_position_embeddings": 64, "model_type": "distilbert", "n_heads": 4,
        "n_layers": 3, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False,
        "tie_weights_": True, "transformers_version": "4.10.0.dev0", "vocab_size": 96}, {}),
    "ernie-3.0-base-zh": (ENCODER | {
        "architectures": ["ErnieForMaskedLM"], "model_type": "ernie", "layer_norm_eps": 1e-05, "task_type_vocab_size": 3,
        "type_vocab_size": 4, "use_task_id": True}, {}),
    "xlm-roberta-base": (ENCODER | {
        "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "bos_token_id": 0, "eos_token_id": 2,
        "layer_norm_eps": 1e-05, "output_past": True, "position_embedding_type": "absolute", "type_vocab_size": 1}, {}),
    "camembert-base": (ENCODER | {
        "architectures": ["CamembertForMaskedLM"], "model_type": "camembert", "bos_token_id": 5, "eos_token_id": 6,
        "layer_norm_eps": 1e-05, "output_past": True, "type_vocab_size": 1}, {}),
    "gte-reranker-modernbert-base": ({
        "architectures": ["ModernBertForSequenceClassification"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 81,
        "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0, "classifier_pooling": "mean",
        "cls_token_id": 81, "decoder_bias": True, "deterministic_flash_attn": False, "embedding_dropout": 0.0, "eos_token_id": 82,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": False, "hidden_activation": "gelu",
        "hidden_size": 64, "id2label": {"0": "LABEL_0"}, "initializer_cutoff_factor": 2.0, "initializer_range": 0.02,
        "intermediate_size": 96, "label2id": {"LABEL_0": 0}, "layer_norm_eps": 1e-05, "local_attention": 6, "local_rope_theta": 10000.0,
        "max_position_embeddings": 8192, "mlp_bias": False, "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": False,
        "norm_eps": 1e-05, "num_attention_heads": 4, "num_hidden_layers": 4, "pad_token_id": 83, "position_embedding_type": "absolute",
        "reference_compile": False, "repad_logits_with_grad": False, "sep_token_id": 82, "sparse_pred_ignore_index": -100,
        "sparse_prediction": False, "torch_dtype": "float16", "transformers_version": "4.48.0", "vocab_size": 96}, {}),
    "dbrx-instruct": (COMMON | {
        "architectures": ["DbrxForCausalLM"], "model_type": "dbrx", "attn_config": {"clip_qkv": 0.5, "kv_n_heads": 2, "model_type": "",
        "rope_theta": 500000}, "d_model": 64, "emb_pdrop": 0.0, "ffn_config": {"ffn_hidden_size": 48, "model_type": "", "moe_jitter_eps": 0.01,
        "moe_loss_weight": 0.05, "moe_num_experts": 8, "moe_top_k": 3}, "max_seq_len": 32768, "n_heads": 4, "n_layers": 3,
        "output_router_logits": False, "resid_pdrop": 0.0, "router_aux_loss_coef": 0.05, "tie_word_embeddings": False,
        "vocab_size": 96}, {}),
    "jais-2-8b-chat": ({k: v for k, v in DECODER.items() if k != "rms_norm_eps"} | {
        "architectures": ["Jais2ForCausalLM"], "model_type": "jais2", "attention_bias": True, "head_dim": 16, "hidden_act": "relu2",
        "layer_norm_eps": 1e-05, "mlp_bias": True, "rope_scaling": None}, {}),
    "mistral-small-4 (text)": (LATENT | {
        "architectures": ["Mistral4ForCausalLM"], "model_type": "mistral4", "first_k_dense_replace": 1, "head_dim": 24,
        "moe_intermediate_size": 32, "n_group": 1, "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": True,
        "num_experts_per_tok": 2, "qk_head_dim": 24, "rope_interleave": True, "routed_scaling_factor": 1.0, "topk_group": 1,
        "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 128.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0,
                            "mscale_all_dim": 1.0, "original_max_position_embeddings": 4, "rope_theta": 10000.0, "rope_type": "yarn",
                            "type": "yarn", "partial_rotary_factor": 1 / 3}}, {}),
    "youtu-llm-2b": (LATENT | {
        "architectures": ["YoutuForCausalLM"], "model_type": "youtu", "rope_interleave": True, "rope_scaling": None,
        "tie_word_embeddings": True, "mlp_bias": False}, {}),
    "solar-open-100b": ({k: v for k, v in EXPERTS.items() if k != "num_experts"} | {
        "architectures": ["SolarOpenForCausalLM"], "model_type": "solar_open", "first_k_dense_replace": 0, "n_group": 1,
        "n_routed_experts": 8, "n_shared_experts": 1, "partial_rotary_factor": 1.0, "routed_scaling_factor": 1.5, "topk_group": 1,
        "rope_theta": 1000000, "rope_scaling": {"factor": 2.0, "original_max_position_embeddings": 65536, "type": "yarn"}}, {}),
    "command-a-moe": ({k: v for k, v in EXPERTS.items() if k not in ("rms_norm_eps", "moe_intermediate_size")} | {
        "architectures": ["Cohere2MoeForCausalLM"], "model_type": "cohere2_moe", "expert_selection_fn": "sigmoid", "first_k_dense_replace": 1,
        "intermediate_size": 32, "layer_norm_eps": 1e-05, "logit_scale": 0.25, "num_hidden_layers": 6, "num_shared_experts": 1,
        "prefix_dense_intermediate_size": 96, "prefix_dense_sliding_window_pattern": 1, "rope_scaling": None, "rope_theta": 50000,
        "shared_expert_combination_strategy": "average", "sliding_window": 4, "sliding_window_pattern": 4,
        "tie_word_embeddings": True}, {}),
    "hy3": ({k: v for k, v in EXPERTS.items() if k != "norm_topk_prob"} | {
        "architectures": ["HYV3ForCausalLM"], "model_type": "hy_v3", "enable_moe_fp32_combine": True, "first_k_dense_replace": 1,
        "num_hidden_layers": 3, "num_nextn_predict_layers": 0, "num_shared_experts": 1, "qk_norm": True, "route_norm": True,
        "router_scaling_factor": 2.826, "rope_parameters": {"rope_theta": 11158840.0, "rope_type": "default"}}, {}),
    "granite-swa": (DECODER | {
        "architectures": ["GraniteSWAForCausalLM"], "model_type": "granite_swa", "attention_multiplier": 0.0625, "embedding_multiplier": 12.0,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "layer_rope_theta": [0, 500000.0, 500000.0],
        "logits_scaling": 8.0, "mlp_bias": False, "residual_multiplier": 0.22, "sliding_window": 4, "tie_word_embeddings": True}, {}),
    "minimax-text-01-hf": (DECODER | {
        "architectures": ["MiniMaxForCausalLM"], "model_type": "minimax", "block_size": 256, "full_attn_alpha_factor": 3.5565588200778455,
        "full_attn_beta_factor": 1.0, "head_dim": 16, "intermediate_size": 32, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "linear_attn_alpha_factor": 3.5565588200778455, "linear_attn_beta_factor": 1.0, "mlp_alpha_factor": 3.5565588200778455,
        "mlp_beta_factor": 1.0, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_local_experts": 8, "output_router_logits": False,
        "postnorm": True, "rope_theta": 10000000, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
        "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid", "sliding_window": None}, {}),
    "mimo-v2-flash": ({k: v for k, v in EXPERTS.items() if k not in ("num_experts", "rms_norm_eps", "router_aux_loss_coef")} | {
        "architectures": ["MiMoV2FlashForCausalLM"], "model_type": "mimo_v2_flash", "add_full_attention_sink_bias": False,
        "add_swa_attention_sink_bias": True, "attention_chunk_size": 4, "attention_value_scale": 0.707, "head_dim": 24,
        "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0], "layernorm_epsilon": 1e-05, "moe_layer_freq": [0, 1, 1, 1, 1, 1], "n_group": 1,
        "n_routed_experts": 8, "n_shared_experts": None, "num_hidden_layers": 6, "num_key_value_heads": 1,
        "partial_rotary_factor": 0.334, "rope_theta": 5000000, "routed_scaling_factor": None, "scoring_func": "sigmoid",
        "sliding_window": 4, "sliding_window_size": 4, "swa_head_dim": 24, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
        "swa_rope_theta": 10000, "swa_v_head_dim": 16, "topk_group": 1, "topk_method": "noaux_tc", "v_head_dim": 16}, {}),
    "laguna-xs.2": ({k: v for k, v in EXPERTS.items() if k not in ("rope_theta", "norm_topk_prob")} | {
        "architectures": ["LagunaForCausalLM"], "model_type": "laguna", "gating": True, "layer_types": WINDOWED,
        "mlp_layer_types": ["dense"] + ["sparse"] * 4, "moe_apply_router_weight_on_input": False, "moe_routed_scaling_factor": 2.5,
        "num_attention_heads_per_layer": [4, 8, 8, 8, 4], "num_hidden_layers": 5, "rms_norm_eps": 1e-06, "rope_parameters": ROPE_BY_KIND,
        "shared_expert_intermediate_size": 40, "sliding_window": 4}, {}),
    "dots3-note (text)": (LATENT | {
        "architectures": ["Dots3NoteTextModel"], "model_type": "dots3_note_text", "first_k_dense_replace": 1, "head_dim": 24,
        "index_head_dim": 16, "index_n_heads": 8, "index_topk": 4,
        "layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention"], "moe_intermediate_size": 32,
        "moe_layer_freq": 1, "moe_shared_expert_intermediate_size": 40, "n_group": 1, "n_routed_experts": 8, "n_shared_experts": 1,
        "norm_topk_prob": True, "num_experts_per_tok": 2, "num_hidden_layers": 4, "pad_token_id": 0, "rms_norm_eps": 1e-05,
        "rope_theta": 80000000.0, "routed_scaling_factor": 1.5, "scoring_func": "sigmoid", "sliding_window_size": 4,
        "swa_head_dim": 28, "swa_kv_lora_rank": 40, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_q_lora_rank": 24,
        "swa_qk_nope_head_dim": 20, "swa_rope_theta": 50000.0, "swa_v_head_dim": 12, "topk_group": 1, "topk_method": "noaux_tc",
        "use_dsa": True, "use_sliding_window": True}, {}),
    "step-3.7-flash": ({
        "architectures": ["Step3p7ForConditionalGeneration"], "model_type": "step3p7", "image_token_id": 90, "torch_dtype": "bfloat16",
        "text_config": {k: v for k, v in DECODER.items() if k not in ("rms_norm_eps", "num_key_value_heads", "attention_dropout",
                                                                      "attention_bias", "hidden_act", "rope_theta")} | {
            "architectures": ["Step3p5ForCausalLM"], "att_impl_type": "GQA", "attention_other_setting": {
                "attention_type": "sliding_attention", "num_attention_heads": 8, "num_attention_groups": 2, "head_dim": 16,
                "true_head_dim": 16},
            "head_dim": 16, "layer_types": WINDOWED, "max_seq_len": 262144, "model_type": "step3p5", "moe_every_n_layer": 1,
            "moe_intermediate_size": 32, "moe_layer_offset": 0, "moe_layers_enum": "1,2,3,4", "moe_num_experts": 8,
            "moe_router_activation": "sigmoid", "moe_router_scaling_factor": 3.0, "moe_top_k": 2, "need_fp32_gate": True,
            "norm_expert_weight": True, "num_attention_groups": 2, "num_hidden_layers": 5, "num_nextn_predict_layers": 0,
            "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0, 0.5], "rope_scaling": LLAMA3 | {"high_freq_factor": 32.0},
            "rope_theta": [5000000.0, 10000.0, 10000.0, 10000.0, 5000000.0], "share_expert_dim": 40, "sink": False, "sliding_window": 4,
            "swiglu_limits": [0.0, 0.0, 0.0, 0.0, 0.3], "swiglu_limits_shared": [0.0, 0.0, 0.0, 0.0, 0.5],
            "use_head_wise_attn_gate": True, "use_moe": True, "use_moe_router_bias": True, "use_qk_norm": False,
            "yarn_only_types": ["full_attention"], "zero_centered": True},
        "vision_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 56, "patch_size": 14,
                          "mlp_ratio": 2.0, "model_type": "step3p5_vision"}}, {}),
    "ling-3.0": ({k: v for k, v in LATENT.items() if k not in ("attention_bias",)} | {
        "architectures": ["BailingHybridForCausalLM"], "model_type": "bailing_hybrid", "first_k_dense_replace": 1, "head_dim": 16,
        "kda_lower_bound": -5.0, "kda_safe_gate": True, "layer_group_size": 2, "moe_intermediate_size": 32, "n_group": 2,
        "norm_topk_prob": True, "num_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_nextn_predict_layers": 0,
        "num_shared_experts": 1, "pad_token_id": 0, "q_lora_rank": None, "rope_theta": 6000000, "routed_scaling_factor": 2.5, "short_conv_kernel_size": 4,
        "topk_group": 1}, {}),
    "hrm-text-1b": ({k: v for k, v in DECODER.items() if k != "num_key_value_heads"} | {
        "architectures": ["HrmTextForCausalLM"], "model_type": "hrm_text", "H_cycles": 2, "L_bp_cycles": [2], "L_cycles": 3, "head_dim": 16,
        "embedding_scale": 3.0, "num_hidden_layers": 2, "prefix_lm": True, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "mlp_bias": False}, {}),
    "bitnet-b1.58-2b-4t (float)": (DECODER | {
        "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2", "tie_word_embeddings": True}, {}),
    "mellum-2": (EXPERTS | {
        "architectures": ["MellumForCausalLM"], "model_type": "mellum", "layer_types": WINDOWED, "mlp_layer_types": ["sparse"] * 5,
        "num_hidden_layers": 5, "rms_norm_eps": 1e-06, "sliding_window": 4, "rope_parameters": {
            "full_attention": {"rope_theta": 500000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                               "beta_fast": 32.0, "beta_slow": 1.0},
            "sliding_attention": {"rope_theta": 500000.0, "rope_type": "default"}}}, {}),
    "vaultgemma-1b": (COMMON | {
        "architectures": ["VaultGemmaForCausalLM"], "model_type": "vaultgemma", "attention_bias": False, "attention_dropout": 0.0,
        "attn_logit_softcapping": None, "bos_token_id": 2, "eos_token_id": 1, "final_logit_softcapping": None, "head_dim": 32,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "intermediate_size": 160,
        "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 1024, "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 32, "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0, "sliding_window": 4, "vocab_size": 96}, {}),
    "ministral-8b": (DECODER | {
        "architectures": ["MinistralForCausalLM"], "model_type": "ministral", "head_dim": 32,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 4}, {}),
    "cwm": (DECODER | {
        "architectures": ["CwmForCausalLM"], "model_type": "cwm", "head_dim": 16, "mlp_bias": False, "pretraining_tp": 1,
        "layer_types": WINDOWED[:3], "rope_scaling": LLAMA3, "rope_theta": 1000000.0, "sliding_window": 4}, {}),
    "helium-1-2b": (DECODER | {
        "architectures": ["HeliumForCausalLM"], "model_type": "helium", "head_dim": 16, "mlp_bias": False, "rms_norm_eps": 1e-08,
        "rope_theta": 20000.0}, {}),
    "glm-4-9b-chat-hf": (DECODER | {
        "architectures": ["GlmForCausalLM"], "model_type": "glm", "attention_bias": True, "head_dim": 16, "pad_token_id": 0,
        "partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07, "rope_theta": 10000.0}, {}),
    "exaone-3.5-2.4b-instruct": ({k: v for k, v in DECODER.items() if k not in ("hidden_act", "rms_norm_eps", "num_hidden_layers")} | {
        "activation_function": "silu", "architectures": ["ExaoneForCausalLM"], "model_type": "exaone", "embed_dropout": 0.0, "head_dim": 16,
        "layer_norm_epsilon": 1e-05, "num_layers": 3, "rope_scaling": LLAMA3, "rope_theta": 1000000, "tie_word_embeddings": True}, {}),
}

# What transformers calls the members of configurations that it reads by names of its own alone.
THEIRS = {
    "nomic-embed-text-v1.5": ENCODER | {
        "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "hidden_act": "silu", "max_position_embeddings": 8192,
        "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"}, "type_vocab_size": 2},
}
MINIMAX = MODELS["minimax-text-01-hf"][0]
BLOCKS = {f"layernorm_{block}_{end}": number for block in ("full_attention", "linear_attention", "mlp")
          for end, number in (("alpha", 3.5565588200778455), ("beta", 1.0))}
MODELS["minimax-text-01"] = ({k: v for k, v in MINIMAX.items() if not k.endswith("_factor") and k not in ("layer_types", "block_size")} | BLOCKS | {
    "architectures": ["MiniMaxText01ForCausalLM"], "attn_type_list": [0, 0, 0, 1], "model_type": "minimax_text_01", "rotary_dim": 16}, {})
THEIRS["minimax-text-01"] = MINIMAX
# transformers reads the base beside the set of attention, where published configurations have none.
THEIRS["dbrx-instruct"] = MODELS["dbrx-instruct"][0] | {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}
