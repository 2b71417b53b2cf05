"""Configurations of models for make.py, of the time before Llama, and of authors that share layers of other families."""

from newer import DECODER, ENCODER, EXPERTS, LATENT, MODELS as NEWER, THEIRS as NEWER_THEIRS, WINDOWED

GPT = {
    "attn_pdrop": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "resid_pdrop": 0.0, "torch_dtype": "float16", "transformers_version": "4.10.0.dev0", "use_cache": True, "vocab_size": 96}
GPTJ = GPT | {
    "activation_function": "gelu_new", "gradient_checkpointing": False, "n_embd": 64, "n_head": 4, "n_inner": None, "n_layer": 3,
    "n_positions": 2048, "rotary": True, "rotary_dim": 8, "scale_attn_weights": True, "summary_activation": None, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True, "tie_word_embeddings": False,
    "tokenizer_class": "GPT2Tokenizer"}

MODELS = {
    "nanochat-d32": ({k: v for k, v in DECODER.items() if k not in ("hidden_act", "rms_norm_eps")} | {
        "architectures": ["NanoChatForCausalLM"], "model_type": "nanochat", "final_logit_softcapping": 15.0, "hidden_act": "relu2",
        "num_key_value_heads": 4, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_theta": 10000.0}, {}),
    "gpt-neo-125m": ({k: v for k, v in GPT.items() if "pdrop" not in k} | {
        "activation_function": "gelu_new", "architectures": ["GPTNeoForCausalLM"], "attention_dropout": 0, "embed_dropout": 0,
        "attention_layers": ["global", "local", "global", "local"], "attention_types": [[["global", "local"], 2]], "gradient_checkpointing": False,
        "hidden_size": 64, "intermediate_size": None, "max_position_embeddings": 64, "model_type": "gpt_neo", "num_heads": 4, "num_layers": 4,
        "resid_dropout": 0, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True, "window_size": 4}, {}),
    "gpt-j-6b": (GPTJ | {"architectures": ["GPTJForCausalLM"], "model_type": "gptj"}, {}),
    "codegen-350m-mono": (GPTJ | {"architectures": ["CodeGenForCausalLM"], "model_type": "codegen", "n_ctx": 2048, "n_inner": None,
                                  "tokenizer_class": "GPT2Tokenizer"}, {}),
    "opt-125m": ({
        "_remove_final_layer_norm": False, "activation_dropout": 0.0, "activation_function": "relu", "architectures": ["OPTForCausalLM"],
        "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": True, "dropout": 0.1, "eos_token_id": 2, "ffn_dim": 160,
        "hidden_size": 64, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 64, "model_type": "opt",
        "num_attention_heads": 4, "num_hidden_layers": 3, "pad_token_id": 1, "prefix": "</s>", "torch_dtype": "float16",
        "transformers_version": "4.21.0.dev0", "use_cache": True, "vocab_size": 96, "word_embed_proj_dim": 64}, {}),
    "xglm-564m": ({
        "activation_dropout": 0, "activation_function": "gelu", "architectures": ["XGLMForCausalLM"], "attention_dropout": 0.1,
        "attention_heads": 4, "bos_token_id": 0, "d_model": 64, "decoder_start_token_id": 2, "dropout": 0.1, "eos_token_id": 2, "ffn_dim": 160,
        "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 64, "model_type": "xglm", "num_layers": 3, "pad_token_id": 1,
        "scale_embedding": True, "transformers_version": "4.16.0.dev0", "use_cache": True, "vocab_size": 96}, {}),
    "biogpt": ({
        "activation_dropout": 0.0, "architectures": ["BioGptForCausalLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0,
        "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 160, "layer_norm_eps": 1e-12, "layerdrop": 0.0, "max_position_embeddings": 64, "model_type": "biogpt",
        "num_attention_heads": 4, "num_hidden_layers": 3, "pad_token_id": 1, "scale_embedding": True, "torch_dtype": "float32",
        "transformers_version": "4.25.0.dev0", "use_cache": True, "vocab_size": 96}, {}),
    "persimmon-8b-chat": ({
        "architectures": ["PersimmonForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "relu2",
        "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 160, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 16384, "model_type": "persimmon", "num_attention_heads": 4, "num_hidden_layers": 3,
        "partial_rotary_factor": 0.5, "qk_layernorm": True, "rope_scaling": None, "rope_theta": 25000.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": True, "vocab_size": 96}, {}),
    "olmo-hybrid-7b": ({k: v for k, v in DECODER.items() if k != "rope_theta"} | {
        "architectures": ["OlmoHybridForCausalLM"], "model_type": "olmo_hybrid", "num_hidden_layers": 4, "num_key_value_heads": 4,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"], "linear_a_log_max": 16.0,
        "linear_a_log_min": 0.0, "linear_allow_neg_eigval": True, "linear_conv_kernel_dim": 4, "linear_dt_init_floor": 0.0001,
        "linear_dt_max": 0.1, "linear_dt_min": 0.001, "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 4,
        "linear_value_head_dim": 32, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": None, "rope_type": "default"}}, {}),
    "bamba-9b-v2": (DECODER | {
        "architectures": ["BambaForCausalLM"], "model_type": "bamba", "attn_layer_indices": [1, 3], "attn_rotary_emb": 8,
        "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_expand": 2,
        "mamba_n_groups": 1, "mamba_n_heads": 8, "mamba_proj_bias": False, "mlp_bias": False, "num_hidden_layers": 4,
        "num_logits_to_keep": 1, "pad_token_id": 0, "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
        "z_loss_coefficient": 0.0}, {}),
    "internlm3-8b-instruct": ({k: v for k, v in DECODER.items() if k != "attention_bias"} | {
        "architectures": ["InternLM3ForCausalLM"], "model_type": "internlm3", "bias": False, "head_dim": 16, "max_position_embeddings": 32768,
        "pad_token_id": 2, "qkv_bias": False, "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"}, "rope_theta": 50000000}, {}),
    "iquest-coder-v1-40b": (DECODER | {
        "architectures": ["IQuestCoderForCausalLM"], "model_type": "iquestcoder", "clip_qkv": None, "head_dim": 16, "mlp_bias": False,
        "use_sliding_window": False, "sliding_window": None, "max_window_layers": 0}, {}),
    "hyperclovax-seed-think-14b": (DECODER | {
        "architectures": ["HyperCLOVAXForCausalLM"], "model_type": "hyperclovax", "attention_multiplier": 0.0703125,
        "embedding_multiplier": 10.0, "head_dim": 16, "logits_scaling": 0.125, "mlp_bias": False, "residual_multiplier": 0.5,
        "use_post_norm": True, "rope_scaling": None}, {}),
    "granite-swash-3b-a600m": (DECODER | {
        "architectures": ["GraniteMoeSWAForCausalLM"], "model_type": "granitemoe_swa", "attention_multiplier": 0.0625,
        "embedding_multiplier": 12.0, "intermediate_size": 32, "layer_rope_theta": [0, 10000.0, 10000.0],
        "layer_types": WINDOWED[:3], "logits_scaling": 8.0, "num_experts_per_tok": 2, "num_local_experts": 4,
        "output_router_logits": False, "residual_multiplier": 0.22, "rope_theta": 10000.0, "router_aux_loss_coef": 0.001,
        "shared_intermediate_size": 0, "sliding_window": 4}, {}),
    "flexolmo-7x7b-1t": ({k: v for k, v in DECODER.items() if k not in ("bos_token_id",)} | {
        "architectures": ["FlexOlmoForCausalLM"], "model_type": "flex_olmo", "intermediate_size": 32, "norm_topk_prob": False,
        "num_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 4, "output_router_logits": False, "pad_token_id": 0,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "router_aux_loss_coef": 0.01}, {}),
    "ettin-decoder-150m": ({
        "architectures": ["ModernBertDecoderForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
        "causal_mask": True, "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
        "classifier_pooling": "mean", "cls_token_id": 1, "decoder_bias": True, "embedding_dropout": 0.0, "eos_token_id": 2,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "hidden_activation": "gelu", "hidden_size": 64,
        "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 96, "local_attention": 8,
        "local_rope_theta": 160000.0, "max_position_embeddings": 7999, "mlp_bias": False, "mlp_dropout": 0.0,
        "model_type": "modernbert-decoder", "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 4, "num_hidden_layers": 4,
        "pad_token_id": 0, "tie_word_embeddings": True, "torch_dtype": "float32", "transformers_version": "4.48.0.dev0",
        "vocab_size": 96}, {}),
    "sarvam-30b": ({k: v for k, v in EXPERTS.items() if k not in ("attention_bias", "norm_topk_prob")} | {
        "architectures": ["SarvamMoEForCausalLM"], "model_type": "sarvam_moe", "first_k_dense_replace": 1,
        "moe_router_enable_expert_bias": True, "n_group": 1, "norm_topk_prob": True, "num_shared_experts": 1, "rms_norm_eps": 1e-06,
        "rope_theta": 8000000, "routed_scaling_factor": 2.5, "topk_group": 1, "use_bias": False, "use_qk_norm": True,
        "use_qkv_bias": False, "use_rmsnorm": True}, {}),
}
MODELS["olmo-hybrid (rotating)"] = (MODELS["olmo-hybrid-7b"][0] | {
    "linear_allow_neg_eigval": False, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}, {})

ELECTRA = ENCODER | {
    "embedding_size": 32, "generator_size": "0.25", "model_type": "electra", "position_embedding_type": "absolute", "summary_activation": "gelu",
    "summary_last_dropout": 0.1, "summary_type": "first", "summary_use_proj": True, "type_vocab_size": 2}
ALBERT = ENCODER | {
    "attention_probs_dropout_prob": 0, "bos_token_id": 2, "classifier_dropout_prob": 0.1, "down_scale_factor": 1, "embedding_size": 32,
    "eos_token_id": 3, "gap_size": 0, "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "inner_group_num": 1, "model_type": "albert",
    "net_structure_type": 0, "num_hidden_groups": 1, "num_memory_blocks": 0, "type_vocab_size": 2}
DISTIL = NEWER["distilbert-base-uncased"][0]
GTE = ENCODER | {
    "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0, "layer_norm_type": "layer_norm", "logn_attention_clip1": False,
    "logn_attention_scale": False, "max_position_embeddings": 8192, "model_type": "new", "pack_qkv": True, "pad_token_id": 1,
    "position_embedding_type": "rope", "rope_scaling": None, "rope_theta": 20000, "type_vocab_size": 1, "unpad_inputs": False,
    "use_memory_efficient_attention": False}
MODELS |= {
    "electra-small-discriminator": (ELECTRA | {"architectures": ["ElectraForPreTraining"]}, {}),
    "ms-marco-electra-base": (ELECTRA | {
        "architectures": ["ElectraForSequenceClassification"], "embedding_size": 64, "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0}}, {}),
    "albert-base-v2": (ALBERT | {"architectures": ["AlbertForMaskedLM"]}, {}),
    "albert-base-v2-sst-2": (ALBERT | {"architectures": ["AlbertForSequenceClassification"], "finetuning_task": "sst2"}, {}),
    "distilbert-base-uncased-finetuned-sst-2-english": (DISTIL | {
        "architectures": ["DistilBertForSequenceClassification"], "finetuning_task": "sst-2", "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
        "label2id": {"NEGATIVE": 0, "POSITIVE": 1}, "output_past": True}, {}),
    "mpnet-classifier": (NEWER["all-mpnet-base-v2"][0] | {"architectures": ["MPNetForSequenceClassification"]}, {}),
    "gte-multilingual-base": (GTE | {"architectures": ["NewModel", "NewForTokenClassification"]}, {}),
    "gte-multilingual-reranker-base": (GTE | {
        "architectures": ["NewForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}, {}),
    "gte-base-en-v1.5": (GTE | {
        "architectures": ["NewModel"], "rope_scaling": {"factor": 2.0, "type": "ntk"}, "rope_theta": 500000, "type_vocab_size": 0}, {}),
    "minimax-m1-80k": (NEWER["minimax-text-01"][0] | {
        "architectures": ["MiniMaxM1ForCausalLM"], "model_type": "minimax_m1", "rms_norm_eps": 0.01}, {}),
}

GTE_HERE = {k: v for k, v in GTE.items() if k not in ("model_type", "position_embedding_type") and "rope" not in k} | {
    "model_type": "gte", "rope_parameters": {"rope_theta": 20000, "rope_type": "default"}}
THEIRS = {
    "gte-multilingual-base": GTE_HERE | {"architectures": ["GteModel"]},
    "gte-multilingual-reranker-base": GTE_HERE | {
        "architectures": ["GteForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}},
    "gte-base-en-v1.5": GTE_HERE | {
        "architectures": ["GteModel"], "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}, "type_vocab_size": 0},
    "minimax-m1-80k": NEWER_THEIRS["minimax-text-01"] | {"rms_norm_eps": 0.01},
}

NOMIC = NEWER["nomic-embed-text-v1.5"][0]
MODELS |= {
    "nomic-embed-text-v2-moe": (NOMIC | {
        "activation_function": "gelu", "add_pooling_layer": False, "bos_token_id": 0, "eos_token_id": 2, "expert_choice_router": False,
        "ffn_div": 1, "layer_norm_epsilon": 1e-05, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "moe_every_n_layers": 2,
        "moe_impl": "megablocks", "moe_normalize_expert_weights": False, "moe_resid_pdrop": 0.0, "moe_top_k": 2, "n_positions": 2048,
        "num_experts": 8, "num_shared_experts": 0, "pad_token_id": 1, "qkv_proj_bias": True, "rotary_emb_base": 10000,
        "router_aux_loss_coef": 0.1, "type_vocab_size": 1, "use_rms_norm": None}, {}),
    "jina-embeddings-v3 (original)": (ENCODER | {
        "architectures": ["XLMRobertaModel"], "bos_token_id": 0, "classifier_dropout": None, "emb_pooler": "mean", "eos_token_id": 2,
        "layer_norm_eps": 1e-05, "load_trained_adapters": True,
        "lora_adaptations": ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"], "lora_alpha": 1,
        "lora_dropout_p": 0.0, "lora_main_params_trainable": False, "lora_rank": 4, "matryoshka_dimensions": [32, 64],
        "model_type": "xlm-roberta", "output_past": True, "pad_token_id": 1, "position_embedding_type": "rotary",
        "rotary_emb_base": 10000.0, "task_instructions": {"separation": ""}, "truncate_dim": None, "type_vocab_size": 1,
        "use_flash_attn": True, "use_reentrant": False}, {}),
}
JINA = NEWER["jina-embeddings-v3"][0]
THEIRS |= {
    # The layers of Nomic's dense blocks are Jina's.
    "nomic-embed-text-v2-moe": JINA | {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
    "jina-embeddings-v3 (original)": JINA | {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
}

PHI_4 = DECODER | {
    "embd_pdrop": 0.0, "head_dim": 16, "original_max_position_embeddings": 4096, "pad_token_id": 0, "partial_rotary_factor": 0.75,
    "resid_pdrop": 0.0, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "rope_scaling": {"long_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5], "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "type": "longrope"}}
LORA = {"dp": 0.0, "layer": "((layers.*self_attn\\.(qkv|o)_proj)|(layers.*mlp\\.(gate_up|down)_proj))", "lora_alpha": 8, "r": 4}
MODELS["phi-4-multimodal-instruct"] = ({k: v for k, v in PHI_4.items() if k != "head_dim"} | {
    "architectures": ["Phi4MMForCausalLM"], "audio_processor": {"config": {}, "name": "cascades"},
    "embd_layer": {"audio_embd_layer": {}, "embedding_cls": "image_audio", "image_embd_layer": {}}, "full_attn_mod": 1, "img_processor": None,
    "interpolate_factor": 1, "lm_head_bias": False, "mlp_bias": False, "model_type": "phi4mm", "sliding_window": 262144,
    "speech_lora": LORA, "vision_lora": LORA}, {})
THEIRS["phi-4-multimodal-instruct"] = {k: v for k, v in PHI_4.items() if k not in ("attention_bias", "head_dim")} | {
    "architectures": ["Phi4MultimodalForCausalLM"], "model_type": "phi4_multimodal", "audio_config": {
        "audio_token_id": 91, "depthwise_separable_out_channel": 32, "ext_pw_out_channel": 32, "hidden_size": 32, "intermediate_size": 48,
        "model_type": "phi4_multimodal_audio", "nemo_conv_channels": 32, "num_attention_heads": 2, "num_blocks": 1},
    "vision_config": {
        "crop_size": 28, "hidden_size": 32, "image_size": 28, "image_token_id": 90, "intermediate_size": 48,
        "model_type": "phi4_multimodal_vision", "num_attention_heads": 2, "num_hidden_layers": 3, "patch_size": 14}}
MODELS["lfm3-1.7b"] = ({k: v for k, v in DECODER.items() if k not in ("hidden_act", "rms_norm_eps", "rope_theta")} | {
    "architectures": ["Lfm3ForCausalLM"], "conv_L_cache": 7, "conv_bias": False, "head_dim": 16,
    "layer_types": ["conv", "conv", "full_attention", "conv", "sliding_attention"], "model_type": "lfm3", "norm_eps": 1e-05,
    "num_hidden_layers": 5, "pad_token_id": 0, "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 1000000.0, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
    "sliding_window": 4, "tie_word_embeddings": True, "use_attention_gate": True, "use_sandwich_norm": True}, {})

OPT = MODELS["opt-125m"][0]
MODELS |= {
    "opt-350m": (OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 32}, {}),
    "openai-gpt": ({
        "afn": "gelu", "architectures": ["OpenAIGPTLMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "openai-gpt", "n_ctx": 512, "n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 64,
        "n_special": 0, "predict_special_tokens": True, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True, "vocab_size": 96}, {}),
    "data2vec-text-base": (ENCODER | {
        "architectures": ["Data2VecTextModel"], "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-05, "model_type": "data2vec-text",
        "type_vocab_size": 1}, {}),
}

MIXTURE = LATENT | {
    "first_k_dense_replace": 1, "moe_intermediate_size": 32, "norm_topk_prob": True, "num_experts_per_tok": 2, "routed_scaling_factor": 2.5}
MODELS |= {
    "a.x-k1": (MIXTURE | {
        "architectures": ["AXK1ForCausalLM"], "ep_size": 1, "model_type": "axk1", "moe_layer_freq": 1, "n_group": 2, "n_routed_experts": 8,
        "n_shared_experts": 1, "rope_interleave": True, "rope_theta": 10000.0, "scoring_func": "sigmoid", "topk_group": 1,
        "topk_method": "noaux_tc"}, {}),
    "sarvam-105b": (MIXTURE | {
        "architectures": ["SarvamMLAForCausalLM"], "head_dim": 40, "model_type": "sarvam_mla", "n_group": 1, "num_experts": 8,
        "num_shared_experts": 1, "q_head_dim": 24, "q_lora_rank": None, "rope_theta": 10000.0, "topk_group": 1, "rope_scaling": {
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096, "type": "deepseek_yarn"}}, {}),
}

LING = {k: v for k, v in MODELS["sarvam-30b"][0].items() if k not in ("router_aux_loss_coef", "rope_theta", "n_group")} | {"n_group": 2}
MODELS["ling-mini-2.0"] = (LING | {
    "architectures": ["BailingMoeV2ForCausalLM"], "embedding_dropout": 0.0, "max_window_layers": 2, "model_type": "bailing_moe_v2",
    "moe_shared_expert_intermediate_size": 32, "norm_head": False, "norm_softmax": False, "num_nextn_predict_layers": 0,
    "output_dropout": 0.0, "partial_rotary_factor": 0.5, "rope_scaling": None, "rope_theta": 600000, "rotary_dim": 8,
    "router_dtype": "fp32", "score_function": "sigmoid", "use_sliding_window": False}, {})
THEIRS["ling-mini-2.0"] = LING | {
    "architectures": ["SarvamMoEForCausalLM"], "model_type": "sarvam_moe", "partial_rotary_factor": 0.5, "rope_theta": 600000}

EUROBERT = NEWER["eurobert-210m"][0] | {"architectures": ["EuroBertForSequenceClassification"]}
MODELS |= {
    "eurobert-classifier": (EUROBERT, {}),
    "eurobert-classifier (mean)": (EUROBERT | {"clf_pooling": "mean"}, {}),
}
THEIRS["eurobert-classifier (mean)"] = EUROBERT | {"classifier_pooling": "mean"}
