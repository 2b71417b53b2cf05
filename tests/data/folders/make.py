"""Writes the folders of this directory: configurations in the shape in which models were published, with widths that are
scaled down, as texts; the same as transformers saves them again; the tensors that the transformers package saves for them, and the logits that it computes.

Weights are no part of the files: they follow from the name of a tensor (`weights`), which the test repeats.
Made with transformers 5.24 and torch 2.15: python make.py
"""

import json
import math
import os
import re
import sys
import tempfile
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from newer import MODELS as NEWER, THEIRS
from older import MODELS as OLDER, THEIRS as OLDER_THEIRS
from transformers import (
    AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, AutoModelForPreTraining,
    AutoModelForSeq2SeqLM, AutoModelForSequenceClassification)

PROMPT = [1, 5, 9, 3, 7, 2, 11, 4, 8, 6]


def weights(name, shape):
    """Uniform numbers from a counter and the name; scaled so that activations keep their size."""
    seed = np.uint64(14695981039346656037)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            seed = (seed ^ np.uint64(byte)) * np.uint64(1099511628211)
        n = int(np.prod(shape)) if shape else 1
        x = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + seed
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    u = (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if len(shape) < 2:
        lower = name.lower()
        is_norm = name.endswith("weight") and any(part in lower for part in ["norm", "ln_", "ln."])
        values = 1 + 0.25 * u if is_norm else 0.25 * u
        if name.endswith("act_fn.eps"):
            # A bound below 0.
            values = -abs(values)
    else:
        values = u * math.sqrt(3 / shape[-1])
    return values.astype(np.float32).reshape(shape)


COMMON = {"torch_dtype": "bfloat16", "transformers_version": "4.45.0", "use_cache": True, "initializer_range": 0.02}
LLAMA = COMMON | {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160,
    "max_position_embeddings": 131072, "mlp_bias": False, "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "vocab_size": 96,
}
LLAMA3_ROPE = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
               "original_max_position_embeddings": 8192, "rope_type": "llama3"}
T5 = {
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 64, "d_kv": 16, "d_model": 48, "decoder_start_token_id": 0,
    "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "relu", "initializer_factor": 1.0,
    "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": "t5", "num_heads": 4, "num_layers": 2,
    "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 32, "use_cache": True, "vocab_size": 96}
T5_V1_1 = T5 | {
    "feed_forward_proj": "gated-gelu", "is_gated_act": True, "num_decoder_layers": 2,
    "relative_attention_max_distance": 128, "tie_word_embeddings": False}
MISTRAL = {k: v for k, v in LLAMA.items() if k not in ("attention_bias", "mlp_bias", "pretraining_tp", "rope_scaling")} | {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None, "rope_theta": 1000000.0}
QWEN2 = COMMON | {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_dropout": 0.0, "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160, "max_position_embeddings": 32768,
    "max_window_layers": 21, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": False,
    "use_sliding_window": False, "vocab_size": 96}
QWEN3 = QWEN2 | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "head_dim": 32,
                 "rope_scaling": None, "sliding_window": None, "max_window_layers": 2, "tie_word_embeddings": True}
QWEN3_MOE = QWEN3 | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "decoder_sparse_step": 1,
                     "mlp_only_layers": [], "moe_intermediate_size": 32, "norm_topk_prob": True, "num_experts": 4,
                     "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001,
                     "tie_word_embeddings": False}
DELTA = COMMON | {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
    "full_attention_interval": 4, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_value_head_dim": 16, "max_position_embeddings": 262144, "num_attention_heads": 4, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06, "rope_scaling": None,
    "rope_theta": 10000000, "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 96}
GEMMA = COMMON | {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 1, "head_dim": 32,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "intermediate_size": 160, "max_position_embeddings": 8192,
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": 0, "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0, "vocab_size": 96}
GEMMA2 = GEMMA | {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "attn_logit_softcapping": 50.0,
                  "final_logit_softcapping": 30.0, "hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid",
                  "query_pre_attn_scalar": 256, "sliding_window": 4096}
GEMMA3 = GEMMA | {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "attn_logit_softcapping": None,
                  "cache_implementation": "hybrid", "final_logit_softcapping": None, "query_pre_attn_scalar": 256,
                  "rope_local_base_freq": 10000, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": 512,
                  "sliding_window_pattern": 6, "max_position_embeddings": 32768, "num_hidden_layers": 7}
PHI3 = LLAMA | {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "embd_pdrop": 0.0, "resid_pdrop": 0.0,
    "original_max_position_embeddings": 4096, "sliding_window": 2047, "max_position_embeddings": 4096,
    "rope_theta": 10000.0, "num_key_value_heads": 4, "pad_token_id": 0,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config", "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}}
for key in ("mlp_bias", "pretraining_tp"):
    PHI3.pop(key)
GRANITE = LLAMA | {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "attention_dropout": 0.1,
                   "attention_multiplier": 0.0625, "embedding_multiplier": 12.0, "logits_scaling": 8.0,
                   "residual_multiplier": 0.22, "tie_word_embeddings": True, "rope_theta": 5000000.0, "pad_token_id": 0}
GRANITE_MOE = GRANITE | {"architectures": ["GraniteMoeForCausalLM"], "model_type": "granitemoe", "num_local_experts": 4,
                         "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001,
                         "intermediate_size": 32}
LATENT = COMMON | {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160, "kv_lora_rank": 32, "max_position_embeddings": 163840,
    "moe_intermediate_size": 32, "moe_layer_freq": 1, "n_routed_experts": 4, "n_shared_experts": 2,
    "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 4,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-06, "rope_theta": 10000, "seq_aux": True,
    "aux_loss_alpha": 0.001, "ep_size": 1, "pretraining_tp": 1, "tie_word_embeddings": False, "v_head_dim": 16,
    "vocab_size": 96}
YARN_4 = {"beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536, "type": "yarn"}
YARN = {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096, "type": "yarn"}
OLMO2 = {k: v for k, v in LLAMA.items() if k not in ("mlp_bias", "pretraining_tp", "bos_token_id")} | {
    "architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "num_key_value_heads": 4, "pad_token_id": 1,
    "rms_norm_eps": 1e-06, "max_position_embeddings": 4096}
BERT = {"architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "classifier_dropout": None,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 160, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
        "num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute",
        "torch_dtype": "float32", "transformers_version": "4.30.0", "type_vocab_size": 2, "use_cache": True,
        "vocab_size": 96}


def omni(model_type, architecture, text, vision):
    """A model that hears, sees and speaks, of which the part that speaks is left out."""
    audio = {"activation_function": "gelu", "d_model": 32, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "encoder_layers": 1,
             "max_source_positions": 1500, "num_mel_bins": 16, "output_dim": 64, "scale_embedding": False,
             "n_window": 100 if model_type == "qwen2_5_omni" else 50}
    if model_type != "qwen2_5_omni":
        audio |= {"conv_chunksize": 500, "downsample_hidden_size": 16, "n_window_infer": 800}
    thinker = {"audio_config": audio | {"model_type": f"{model_type}_audio_encoder"}, "audio_token_index": 88, "audio_token_id": 88, "image_token_index": 89,
               "image_token_id": 89, "model_type": f"{model_type}_thinker", "text_config": text | {"model_type": f"{model_type}_text"},
               "video_token_index": 90, "video_token_id": 90, "vision_config": vision | {"model_type": f"{model_type}_vision_encoder"}}
    return {"architectures": [architecture], "enable_audio_output": False, "model_type": model_type, "thinker_config": thinker,
            "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0"}


# Name: configuration, generation_config.json.
MODELS = {
    "llama-2-7b-hf": (LLAMA | {"max_position_embeddings": 4096, "num_key_value_heads": 4, "rope_theta": 10000.0,
                               "_name_or_path": "meta-llama/Llama-2-7b-hf"},
                      {"bos_token_id": 1, "do_sample": True, "eos_token_id": 2, "pad_token_id": 0, "temperature": 0.6,
                       "max_length": 4096, "top_p": 0.9, "transformers_version": "4.31.0.dev0"}),
    "llama-3.1-8b-instruct": (LLAMA | {"rope_scaling": LLAMA3_ROPE, "eos_token_id": [2, 3, 4]},
                              {"bos_token_id": 1, "do_sample": True, "eos_token_id": [2, 3, 4], "temperature": 0.6,
                               "top_p": 0.9, "transformers_version": "4.42.3"}),
    "llama-3.2-1b": (LLAMA | {"rope_scaling": LLAMA3_ROPE | {"factor": 32.0}, "tie_word_embeddings": True, "head_dim": 16},
                     {"_from_model_config": True, "bos_token_id": 1, "do_sample": True, "eos_token_id": 2}),
    "tinyllama-1.1b-chat": (LLAMA | {"max_position_embeddings": 2048, "rope_theta": 10000.0,
                                     "_attn_implementation_autoset": True}, {"max_length": 2048, "pad_token_id": 0}),
    "smollm2-1.7b-instruct": (LLAMA | {"tie_word_embeddings": True, "rope_interleaved": False, "is_llama_config": True,
                                       "rope_theta": 130000, "max_position_embeddings": 8192, "pad_token_id": 2,
                                       "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}}, {}),
    "hermes-3-llama-3.1-8b (axolotl)": (LLAMA | {"rope_scaling": LLAMA3_ROPE, "use_cache": False,
                                                 "axolotl_config_path": "/root/recipes/hermes.yml"}, {}),
    "llama-3.2-3b-instruct (unsloth)": (LLAMA | {"rope_scaling": LLAMA3_ROPE, "tie_word_embeddings": True, "head_dim": 16,
                                                 "unsloth_fixed": True, "unsloth_version": "2024.9",
                                                 "pad_token_id": 0}, {}),
    "llama-3-8b (llama-factory, shifted sparse attention)": (LLAMA | {"shift_attn": True, "group_size_ratio": 0.25,
                                                                      "neftune_noise_alpha": 5}, {}),
    "deepseek-r1-distill-llama-8b": (LLAMA | {"rope_scaling": LLAMA3_ROPE, "eos_token_id": 2},
                                     {"_from_model_config": True, "do_sample": True, "temperature": 0.6, "top_p": 0.95}),
    "yi-1.5-9b-chat": (LLAMA | {"max_position_embeddings": 4096, "rope_theta": 5000000.0, "pad_token_id": 0}, {}),
    "vicuna-7b-v1.5": ({k: v for k, v in LLAMA.items() if k not in ("rope_theta", "attention_bias", "attention_dropout",
                                                                    "mlp_bias")} |
                       {"max_position_embeddings": 4096, "num_key_value_heads": 4, "pad_token_id": 0},
                       {"_from_model_config": True, "temperature": 0.9, "max_length": 4096, "top_p": 0.6}),
    "mistral-7b-instruct-v0.3": (MISTRAL | {"max_position_embeddings": 32768}, {"_from_model_config": True}),
    "mistral-nemo-instruct-2407": (MISTRAL | {"head_dim": 32, "hidden_size": 96, "max_position_embeddings": 1024000}, {}),
    "zephyr-7b-beta": (MISTRAL | {"sliding_window": 4096, "rope_theta": 10000.0, "pad_token_id": 2,
                                  "max_position_embeddings": 32768, "use_cache": True}, {}),
    "openhermes-2.5-mistral-7b (axolotl)": (MISTRAL | {"sliding_window": 4096, "rope_theta": 10000.0,
                                                       "tokenizer_vocab_size": 96, "use_cache": False}, {}),
    "mixtral-8x7b-instruct-v0.1": (MISTRAL | {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
                                              "num_experts_per_tok": 2, "num_local_experts": 4,
                                              "output_router_logits": False, "router_aux_loss_coef": 0.02,
                                              "router_jitter_noise": 0.0, "intermediate_size": 32}, {}),
    "qwen2.5-7b-instruct": (QWEN2, {"bos_token_id": 1, "pad_token_id": 1, "do_sample": True, "eos_token_id": [2, 1],
                                    "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20,
                                    "transformers_version": "4.37.0"}),
    "qwen2.5-coder-0.5b": (QWEN2 | {"tie_word_embeddings": True}, {"do_sample": False, "max_new_tokens": 2048}),
    "qwq-32b": (QWEN2 | {"max_position_embeddings": 40960, "sliding_window": 32768}, {"do_sample": True, "top_k": 40,
                                                                                      "top_p": 0.95, "temperature": 0.6}),
    "qwen3-4b": (QWEN3 | {"max_position_embeddings": 40960}, {"do_sample": True, "temperature": 0.6, "top_k": 20,
                                                              "top_p": 0.95, "eos_token_id": [2, 1]}),
    "qwen3-8b (transformers 5)": ({k: v for k, v in QWEN3.items() if k not in ("torch_dtype", "rope_theta", "rope_scaling")} |
                                  {"dtype": "bfloat16", "tie_word_embeddings": False,
                                   "layer_types": ["full_attention", "full_attention"],
                                   "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
                                   "transformers_version": "5.0.0"}, {}),
    "qwen3-30b-a3b-instruct-2507": (QWEN3_MOE, {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8}),
    "qwen1.5-moe-a2.7b": (QWEN2 | {"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe",
                                   "decoder_sparse_step": 1, "moe_intermediate_size": 32, "norm_topk_prob": False,
                                   "num_experts": 4, "num_experts_per_tok": 2, "shared_expert_intermediate_size": 48,
                                   "output_router_logits": False, "router_aux_loss_coef": 0.001}, {}),
    "qwen3-next-80b-a3b-instruct": (DELTA | {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
                                             "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 32,
                                             "norm_topk_prob": True, "num_experts": 4, "num_experts_per_tok": 2,
                                             "output_router_logits": False, "router_aux_loss_coef": 0.001,
                                             "shared_expert_intermediate_size": 32}, {}),
    "gemma-2b-it": (GEMMA | {"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_act": "gelu",
                             "hidden_activation": None}, {}),
    "gemma-2-9b-it": (GEMMA2, {"_from_model_config": True, "cache_implementation": "hybrid"}),
    "gemma-3-1b-it": (GEMMA3, {"do_sample": True, "eos_token_id": [1, 3], "top_k": 64, "top_p": 0.95,
                               "cache_implementation": "hybrid"}),
    "gemma-3-270m (transformers 4.55)": ({k: v for k, v in GEMMA3.items() if k != "sliding_window_pattern"} |
                                         {"_sliding_window_pattern": 6, "use_bidirectional_attention": False,
                                          "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]},
                                         {}),
    "phi-3-mini-4k-instruct": (PHI3, {"_from_model_config": True, "eos_token_id": [2, 3, 4]}),
    "phi-4": ({k: v for k, v in PHI3.items() if k != "auto_map"} | {"sliding_window": None, "num_key_value_heads": 2,
                                                                     "max_position_embeddings": 16384,
                                                                     "original_max_position_embeddings": 16384,
                                                                     "rope_theta": 250000}, {}),
    "phi-4-mini-instruct": (PHI3 | {"partial_rotary_factor": 0.75, "tie_word_embeddings": True, "head_dim": 16,
                                    "max_position_embeddings": 131072, "sliding_window": 262144, "lm_head_bias": False,
                                    "interpolate_factor": 1, "full_attn_mod": 1, "mlp_bias": False,
                                    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 6,
                                                     "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0]}}, {}),
    "phi-3.5-moe-instruct": (PHI3 | {
        "architectures": ["PhiMoEForCausalLM"], "model_type": "phimoe", "attention_bias": True, "hidden_dropout": 0.0,
        "auto_map": {"AutoConfig": "configuration_phimoe.PhiMoEConfig", "AutoModelForCausalLM": "modeling_phimoe.PhiMoEForCausalLM"},
        "input_jitter_noise": 0.01, "lm_head_bias": True, "max_position_embeddings": 131072, "num_experts_per_tok": 2,
        "num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": False, "router_aux_loss_coef": 0.0,
        "router_jitter_noise": 0.01, "sliding_window": 131072, "rope_scaling": {
            "type": "longrope", "short_factor": [1.0, 1.0, 1.25, 1.5, 2.0, 2.0, 2.5, 3.0], "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 9.0],
            "original_max_position_embeddings": 4096, "short_mscale": 1.243163121016122, "long_mscale": 1.243163121016122}}, {}),
    "phi-2": (COMMON | {"architectures": ["PhiForCausalLM"], "model_type": "phi", "attention_dropout": 0.0,
                        "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2, "hidden_act": "gelu_new",
                        "hidden_size": 64, "intermediate_size": 160, "layer_norm_eps": 1e-05,
                        "max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 2,
                        "num_key_value_heads": 4, "partial_rotary_factor": 0.5, "qk_layernorm": False, "resid_pdrop": 0.1,
                        "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False, "vocab_size": 96}, {}),
    "gpt2": ({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
              "bos_token_id": 1, "embd_pdrop": 0.1, "eos_token_id": 1, "initializer_range": 0.02,
              "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 64, "n_embd": 64, "n_head": 4, "n_layer": 2,
              "n_positions": 64, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
              "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
              "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 96}, {}),
    "starcoder2-3b": (COMMON | {"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2",
                                "attention_dropout": 0.1, "bos_token_id": 0, "embedding_dropout": 0.1, "eos_token_id": 0,
                                "hidden_act": "gelu_pytorch_tanh", "hidden_size": 64, "intermediate_size": 160,
                                "max_position_embeddings": 16384, "mlp_type": "default", "norm_epsilon": 1e-05,
                                "norm_type": "layer_norm", "num_attention_heads": 4, "num_hidden_layers": 2,
                                "num_key_value_heads": 2, "residual_dropout": 0.1, "rope_theta": 999999.4420358813,
                                "sliding_window": 4096, "use_bias": True, "vocab_size": 96}, {}),
    "olmo-2-1124-7b": (OLMO2, {}),
    "olmo-3-7b-instruct": (OLMO2 | {"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "sliding_window": 4096,
                                    "num_hidden_layers": 4, "max_position_embeddings": 65536,
                                    "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                                    "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0,
                                                     "beta_slow": 1.0, "factor": 8.0,
                                                     "original_max_position_embeddings": 8192, "rope_type": "yarn"}}, {}),
    "olmo-1b-hf": ({k: v for k, v in OLMO2.items() if k != "rms_norm_eps"} |
                   {"architectures": ["OlmoForCausalLM"], "model_type": "olmo", "clip_qkv": None,
                    "tie_word_embeddings": True}, {}),
    "olmoe-1b-7b-0924": (OLMO2 | {"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "clip_qkv": None,
                                  "norm_topk_prob": False, "num_experts": 4, "num_experts_per_tok": 2,
                                  "output_router_logits": False, "router_aux_loss_coef": 0.01,
                                  "intermediate_size": 32}, {}),
    "granite-3.1-2b-instruct": (GRANITE, {}),
    "granite-3.1-1b-a400m": (GRANITE_MOE, {}),
    "granite-4.0-h-tiny": (GRANITE_MOE | {
        "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "init_method": "mup",
        "layer_types": ["mamba", "attention"], "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4,
        "mamba_d_head": 16, "mamba_d_state": 16, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 8,
        "mamba_proj_bias": False, "normalization_function": "rmsnorm", "position_embedding_type": "nope",
        "shared_intermediate_size": 48}, {}),
    "smollm3-3b": ({k: v for k, v in LLAMA.items()} | {
        "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "num_hidden_layers": 4,
        "layer_types": ["full_attention"] * 4, "max_window_layers": 28, "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0], "sliding_window": None, "use_sliding_window": False, "rope_theta": 5000000.0,
        "tie_word_embeddings": True, "pad_token_id": 3}, {"do_sample": True, "temperature": 0.6, "top_p": 0.95}),
    "gpt-oss-20b (bf16)": (COMMON | {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True, "attention_dropout": 0.0,
        "eos_token_id": 2, "experts_per_token": 2, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
        "initial_context_length": 4096, "intermediate_size": 64, "layer_types": ["sliding_attention", "full_attention"],
        "max_position_embeddings": 131072, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": False, "pad_token_id": 3,
        "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                                                "original_max_position_embeddings": 4096, "rope_type": "yarn",
                                                "truncate": False},
        "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
        "tie_word_embeddings": False, "vocab_size": 96}, {}),
    "ernie-4.5-0.3b": (LLAMA | {"architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "head_dim": 16,
                                "tie_word_embeddings": True, "use_bias": False, "pad_token_id": 0}, {}),
    "ernie-4.5-21b-a3b": (LLAMA | {"architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe",
                                   "moe_intermediate_size": 32, "moe_k": 2, "moe_layer_end_index": 2,
                                   "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_norm_min": 1e-12,
                                   "moe_num_experts": 4, "moe_num_shared_experts": 2, "use_bias": False,
                                   "moe_capacity": [4, 4, 4], "num_hidden_layers": 3}, {}),
    "hunyuan-1.8b-instruct": (LLAMA | {"architectures": ["HunYuanDenseV1ForCausalLM"], "model_type": "hunyuan_v1_dense",
                                       "attention_head_dim": 16, "head_dim": 16, "use_qk_norm": True, "use_cla": False,
                                       "tie_word_embeddings": True, "norm_type": "rms",
                                       "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
                                                        "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"}}, {}),
    "seed-oss-36b-instruct": ({k: v for k, v in LLAMA.items() if k != "pretraining_tp"} | {
        "architectures": ["SeedOssForCausalLM"], "model_type": "seed_oss", "attention_bias": True,
        "attention_out_bias": False, "attention_dropout": 0.1, "head_dim": 32, "residual_dropout": 0.1,
        "rope_scaling": {"rope_type": "default"}}, {"temperature": 1.1, "top_p": 0.95}),
    "exaone-4.0-1.2b": (LLAMA | {"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "head_dim": 16,
                                 "layer_types": ["full_attention"] * 2, "sliding_window": None,
                                 "sliding_window_pattern": None, "rope_scaling": LLAMA3_ROPE | {"factor": 16.0},
                                 "tie_word_embeddings": True, "reorder_and_upcast_attn": False}, {}),
    "glm-4-9b-0414": (LLAMA | {"architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "head_dim": 16,
                               "partial_rotary_factor": 0.5, "pad_token_id": 0, "rope_theta": 10000.0}, {}),
    "glm-4.5-air": (LLAMA | {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "attention_bias": True,
                             "first_k_dense_replace": 1, "head_dim": 32, "moe_intermediate_size": 32, "n_group": 1,
                             "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": True,
                             "num_experts_per_tok": 2, "num_nextn_predict_layers": 0, "partial_rotary_factor": 0.5,
                             "routed_scaling_factor": 1.0, "topk_group": 1, "use_qk_norm": False,
                             "num_hidden_layers": 3}, {}),
    "deepseek-v2-lite-chat": (LATENT | {
        "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "n_group": 1, "norm_topk_prob": False,
        "q_lora_rank": None, "rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
        "routed_scaling_factor": 1.0, "scoring_func": "softmax", "topk_group": 1, "topk_method": "greedy"}, {}),
    "deepseek-v3": (LATENT | {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "n_group": 2, "norm_topk_prob": True,
        "q_lora_rank": 24, "rope_scaling": YARN, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
        "topk_group": 1, "topk_method": "noaux_tc", "num_nextn_predict_layers": 0, "n_shared_experts": 1}, {}),
    "command-r-v01": (COMMON | {
        "architectures": ["CohereForCausalLM"], "model_type": "cohere", "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 5, "eos_token_id": 3, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160,
        "layer_norm_eps": 1e-05, "logit_scale": 0.0625, "max_position_embeddings": 8192, "model_max_length": 131072,
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4, "pad_token_id": 0,
        "pretraining_tp": 1, "rope_theta": 8000000.0, "use_qk_norm": False, "vocab_size": 96}, {}),
    "command-r7b-12-2024": (COMMON | {
        "architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "_sliding_window_pattern": 4,
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 5, "cache_implementation": "hybrid",
        "eos_token_id": 3, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160,
        "layer_norm_eps": 1e-05, "layer_switch": 4, "logit_scale": 0.25, "max_position_embeddings": 132096,
        "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2,
        "order_of_interleaved_layers": "local_attn_first", "pad_token_id": 0, "position_embedding_type": "rope_gptj",
        "rope_scaling": None, "rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 4096,
        "sliding_window_pattern": 4, "use_embedding_sharing": True, "use_gated_activation": True,
        "use_parallel_block": True, "use_parallel_embedding": False, "vocab_size": 96}, {}),
    "pythia-1.4b": ({"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu",
                     "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256, "layer_norm_eps": 1e-05,
                     "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 4,
                     "num_hidden_layers": 2, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False,
                     "torch_dtype": "float16", "transformers_version": "4.24.0", "use_cache": True,
                     "use_parallel_residual": True, "vocab_size": 96}, {}),
    "stablelm-2-1_6b": (COMMON | {
        "architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 1, "hidden_act": "silu", "hidden_dropout": 0.0, "hidden_size": 64, "intermediate_size": 160,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 4096, "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 4, "partial_rotary_factor": 0.25, "qk_layernorm": False, "rope_scaling": None,
        "rope_theta": 10000, "tie_word_embeddings": False, "use_parallel_residual": False, "use_qkv_bias": True,
        "vocab_size": 96}, {}),
    "falcon-7b-instruct": ({"alibi": False, "apply_residual_connection_post_layernorm": False,
                            "architectures": ["FalconForCausalLM"], "attention_dropout": 0.0, "bias": False,
                            "bos_token_id": 1, "eos_token_id": 1, "hidden_dropout": 0.0, "hidden_size": 64,
                            "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "falcon",
                            "multi_query": True, "new_decoder_architecture": False, "num_attention_heads": 4,
                            "num_hidden_layers": 2, "parallel_attn": True, "torch_dtype": "bfloat16",
                            "transformers_version": "4.27.4", "use_cache": True, "vocab_size": 96}, {}),
    "starcoderbase-1b": ({"activation_function": "gelu_pytorch_tanh", "architectures": ["GPTBigCodeForCausalLM"],
                          "attention_softmax_in_fp32": True, "attn_pdrop": 0.1, "bos_token_id": 0, "embd_pdrop": 0.1,
                          "eos_token_id": 0, "inference_runner": 0, "initializer_range": 0.02,
                          "layer_norm_epsilon": 1e-05, "max_batch_size": None, "max_sequence_length": None,
                          "model_type": "gpt_bigcode", "multi_query": True, "n_embd": 64, "n_head": 4, "n_inner": 160,
                          "n_layer": 2, "n_positions": 64, "pad_key_length": True, "pre_allocate_kv_cache": False,
                          "resid_pdrop": 0.1, "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True,
                          "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
                          "summary_type": "cls_index", "summary_use_proj": True, "transformers_version": "4.28.1",
                          "use_cache": True, "validate_runner_input": True, "vocab_size": 96}, {}),
    "bloom-560m": ({"apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
                    "attention_softmax_in_fp32": True, "architectures": ["BloomForCausalLM"],
                    "bias_dropout_fusion": True, "bos_token_id": 1, "eos_token_id": 2, "hidden_dropout": 0.0,
                    "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True,
                    "model_type": "bloom", "n_embed": 64, "n_inner": None, "n_layer": 2, "num_attention_heads": 4,
                    "offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1, "seq_length": 2048,
                    "skip_bias_add": True, "skip_bias_add_qkv": False, "slow_but_exact": False,
                    "unk_token_id": 0, "use_cache": True, "vocab_size": 96}, {}),
    "nemotron-mini-4b-instruct": (COMMON | {
        "architectures": ["NemotronForCausalLM"], "model_type": "nemotron", "attention_bias": False,
        "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 3, "head_dim": 16, "hidden_act": "relu2",
        "hidden_size": 64, "intermediate_size": 160, "max_position_embeddings": 4096, "mlp_bias": False,
        "norm_eps": 1e-05, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "tie_word_embeddings": False, "vocab_size": 96}, {}),
    "afm-4.5b": (LLAMA | {"architectures": ["ArceeForCausalLM"], "model_type": "arcee", "hidden_act": "relu2",
                          "head_dim": 16, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 20.0,
                                                           "mscale": 1.0, "original_max_position_embeddings": 4096,
                                                           "rope_type": "yarn"}}, {}),
    "mamba-130m-hf": ({"architectures": ["MambaForCausalLM"], "bos_token_id": 0, "conv_kernel": 4, "d_inner": 128,
                       "d_model": 64, "eos_token_id": 0, "expand": 2, "fused_add_norm": True, "hidden_act": "silu",
                       "hidden_size": 64, "initializer_range": 0.1, "intermediate_size": 128,
                       "layer_norm_epsilon": 1e-05, "model_type": "mamba", "n_layer": 2, "num_hidden_layers": 2,
                       "pad_token_id": 0, "pad_vocab_size_multiple": 8, "rescale_prenorm_residual": False,
                       "residual_in_fp32": True, "rms_norm": True, "ssm_cfg": {}, "state_size": 16,
                       "time_step_floor": 0.0001, "time_step_init_scheme": "random", "time_step_max": 0.1,
                       "time_step_min": 0.001, "time_step_rank": 4, "time_step_scale": 1.0, "torch_dtype": "float32",
                       "transformers_version": "4.39.0.dev0", "use_bias": False, "use_cache": True,
                       "use_conv_bias": True, "vocab_size": 96}, {}),
    "mamba-codestral-7b-v0.1": (COMMON | {
        "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "bos_token_id": 0, "chunk_size": 256,
        "conv_kernel": 4, "eos_token_id": 0, "expand": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
        "layer_norm_epsilon": 1e-05, "n_groups": 2, "norm_before_gate": True, "num_heads": 8, "num_hidden_layers": 2,
        "pad_token_id": 0, "rescale_prenorm_residual": False, "residual_in_fp32": True, "rms_norm": True,
        "state_size": 16, "tie_word_embeddings": False, "time_step_floor": 0.0001, "time_step_init_scheme": "random",
        "time_step_limit": [0.0, float("inf")], "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 4,
        "time_step_scale": 1.0, "use_bias": False, "use_conv_bias": True, "vocab_size": 96}, {}),
    "falcon-h1-1.5b-instruct": (LLAMA | {
        "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "attention_in_multiplier": 1.0,
        "attention_out_multiplier": 0.9375, "attn_layer_indices": None, "embedding_multiplier": 5.656854249492381,
        "head_dim": 16, "key_multiplier": 0.5, "lm_head_multiplier": 0.0390625, "mamba_chunk_size": 128,
        "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 16, "mamba_d_ssm": 128, "mamba_d_state": 16,
        "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 8, "mamba_norm_before_gate": False,
        "mamba_proj_bias": False, "mamba_rms_norm": False, "mamba_use_mlp": True, "mlp_expansion_factor": 8,
        "mlp_multipliers": [0.8838834764831844, 0.5859375], "num_logits_to_keep": 1, "projectors_bias": False,
        "ssm_in_multiplier": 1.25, "ssm_multipliers": [0.5, 0.25, 0.25, 0.5, 0.3535533905932738],
        "ssm_out_multiplier": 0.23570226039551587}, {}),
    "jamba-v0.1": (LLAMA | {
        "architectures": ["JambaForCausalLM"], "model_type": "jamba", "attn_layer_offset": 1, "attn_layer_period": 2,
        "calc_logits_for_entire_prompt": False, "expert_layer_offset": 1, "expert_layer_period": 2,
        "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 4, "mamba_expand": 2,
        "mamba_inner_layernorms": True, "mamba_proj_bias": False, "num_experts": 4, "num_experts_per_tok": 2,
        "num_logits_to_keep": 1, "output_router_logits": False, "rms_norm_eps": 1e-06, "router_aux_loss_coef": 0.001,
        "sliding_window": None, "use_mamba_kernels": True, "pad_token_id": 0}, {}),
    "lfm2-1.2b": (COMMON | {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "block_auto_adjust_ff_dim": True, "block_dim": 64,
        "block_ff_dim": 96, "block_ffn_dim_multiplier": 1.0, "block_mlp_init_scale": 1.0, "block_multiple_of": 32,
        "block_norm_eps": 1e-05, "block_out_init_scale": 1.0, "block_use_swiglu": True, "block_use_xavier_init": True,
        "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": False, "conv_dim": 64, "conv_dim_out": 64,
        "conv_use_xavier_init": True, "eos_token_id": 2, "full_attn_idxs": [1], "hidden_size": 64,
        "max_position_embeddings": 128000, "norm_eps": 1e-05, "num_attention_heads": 4, "num_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": 0, "rope_theta": 1000000.0,
        "use_pos_enc": True, "vocab_size": 96}, {}),
    "all-minilm-l6-v2": (BERT, {}),
    "bge-small-en-v1.5": (BERT | {"_name_or_path": "/root/.cache/torch/sentence_transformers/BAAI_bge-small-en/",
                                  "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}, {}),
    "e5-mistral-7b-instruct": (MISTRAL | {"architectures": ["MistralModel"], "sliding_window": 4096,
                                          "max_position_embeddings": 32768, "rope_theta": 10000.0}, {}),
    "qwen3-embedding-0.6b": (QWEN3, {}),
    "gemma-3-4b-it": ({
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 90, "eoi_token_index": 91,
        "eos_token_id": [1, 3], "image_token_index": 92, "initializer_range": 0.02, "mm_tokens_per_image": 16,
        "model_type": "gemma3", "text_config": {"head_dim": 32, "hidden_size": 64, "intermediate_size": 160,
                                                "model_type": "gemma3_text", "num_attention_heads": 4,
                                                "num_hidden_layers": 7, "num_key_value_heads": 2, "vocab_size": 96,
                                                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                                                "sliding_window": 1024},
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "vision_config": {"hidden_size": 32, "image_size": 56, "intermediate_size": 64, "model_type": "siglip_vision_model",
                          "num_attention_heads": 2, "num_hidden_layers": 1, "patch_size": 14,
                          "vision_use_head": False}}, {"do_sample": True, "top_k": 64, "top_p": 0.95}),
    "qwen2.5-vl-7b-instruct": (QWEN2 | {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "image_token_id": 90,
        "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93, "vision_token_id": 94,
        "rope_scaling": {"mrope_section": [2, 3, 3], "type": "mrope"}, "max_position_embeddings": 128000,
        "vision_config": {"depth": 1, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
                          "in_chans": 3, "out_hidden_size": 64, "patch_size": 14, "spatial_merge_size": 2,
                          "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [0],
                          "tokens_per_second": 2, "temporal_patch_size": 2}},
        {"do_sample": True, "repetition_penalty": 1.05, "temperature": 0.000001}),
    "mistral-small-3.1-24b-instruct-2503": ({
        "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10, "model_type": "mistral3",
        "multimodal_projector_bias": False, "projector_hidden_act": "gelu", "spatial_merge_size": 2,
        "text_config": MISTRAL | {"head_dim": 32}, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "vision_config": {"head_dim": 16, "hidden_act": "silu", "hidden_size": 32, "image_size": 56,
                          "intermediate_size": 64, "model_type": "pixtral", "num_attention_heads": 2,
                          "num_channels": 3, "num_hidden_layers": 1, "patch_size": 14, "rope_theta": 10000.0},
        "vision_feature_layer": -1}, {}),
    "qwen3.5-9b": ({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 90, "model_type": "qwen3_5",
        "text_config": {k: v for k, v in DELTA.items() if k not in ("rope_theta", "rope_scaling", "use_sliding_window",
                                                                    "partial_rotary_factor", "torch_dtype",
                                                                    "transformers_version")} |
        {"attn_output_gate": True, "dtype": "bfloat16", "mamba_ssm_dtype": "float32", "model_type": "qwen3_5_text",
         "layer_types": ["linear_attention"] * 3 + ["full_attention"], "mtp_num_hidden_layers": 1,
         "mtp_use_dedicated_embeddings": False,
         "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25,
                             "rope_theta": 10000000, "rope_type": "default"}},
        "tie_word_embeddings": False, "transformers_version": "4.57.0.dev0", "video_token_id": 91,
        "vision_config": {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "model_type": "qwen3_5",
                          "num_heads": 2, "out_hidden_size": 64, "patch_size": 16},
        "vision_end_token_id": 92, "vision_start_token_id": 93}, {"do_sample": True, "top_k": 20, "top_p": 0.95}),
    "glm-4.7-flash": (LATENT | {
        "architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite", "n_group": 1, "norm_topk_prob": True,
        "num_nextn_predict_layers": 0, "q_lora_rank": 24, "rope_scaling": None, "routed_scaling_factor": 1.8,
        "topk_group": 1, "topk_method": "noaux_tc", "n_shared_experts": 1, "partial_rotary_factor": 1.0,
        "rms_norm_eps": 1e-05}, {"temperature": 1.0, "top_p": 0.95}),
    "dots.llm1.inst": (LLAMA | {
        "architectures": ["Dots1ForCausalLM"], "model_type": "dots1", "first_k_dense_replace": 1, "head_dim": 16,
        "moe_intermediate_size": 32, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 2,
        "norm_topk_prob": True, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 4,
        "routed_scaling_factor": 2.5, "scoring_func": "noaux_tc", "sliding_window": None, "topk_group": 1,
        "topk_method": "noaux_tc", "use_sliding_window": False, "max_window_layers": 62}, {}),
    "minimax-m2": (LLAMA | {
        "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "attn_type_list": [1, 1],
        "head_dim": 32, "intermediate_size": 32, "mtp_transformer_layers": 1, "num_experts_per_tok": 2,
        "num_local_experts": 4, "num_mtp_modules": 3, "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06,
        "rope_theta": 5000000, "rotary_dim": 16, "scoring_func": "sigmoid", "shared_intermediate_size": 0,
        "use_mtp": True, "use_qk_norm": True, "use_routing_bias": True},
        {"do_sample": True, "temperature": 1.0, "top_p": 0.95, "top_k": 40}),
    "lfm2-8b-a1b": (COMMON | {
        "architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "bos_token_id": 1, "conv_L_cache": 3,
        "conv_bias": False, "eos_token_id": 2, "hidden_size": 64, "intermediate_size": 96,
        "layer_types": ["conv", "full_attention", "conv"], "max_position_embeddings": 128000, "moe_intermediate_size": 32,
        "norm_eps": 1e-05, "norm_topk_prob": True, "num_attention_heads": 4, "num_dense_layers": 1, "num_experts": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": 0,
        "rope_theta": 1000000.0, "routed_scaling_factor": 1.0, "use_expert_bias": True, "vocab_size": 96}, {}),
    "granite-moe-shared": (GRANITE_MOE | {
        "architectures": ["GraniteMoeSharedForCausalLM"], "model_type": "granitemoeshared",
        "shared_intermediate_size": 48}, {}),
    "nvidia-nemotron-nano-9b-v2": (COMMON | {
        "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "attention_bias": False,
        "attention_dropout": 0.0, "bos_token_id": 1, "chunk_size": 128, "conv_kernel": 4, "eos_token_id": 2,
        "expand": 2, "head_dim": 16, "hidden_dropout": 0.0, "hidden_size": 64, "hybrid_override_pattern": "M-M*-",
        "intermediate_size": 160, "layer_norm_epsilon": 1e-05, "mamba_head_dim": 16, "mamba_hidden_act": "silu",
        "mamba_num_heads": 8, "mamba_proj_bias": False, "max_position_embeddings": 131072, "mlp_bias": False,
        "mlp_hidden_act": "relu2", "n_groups": 2, "num_attention_heads": 4, "num_hidden_layers": 5,
        "num_key_value_heads": 2, "num_logits_to_keep": 1, "pad_token_id": 0, "rescale_prenorm_residual": True,
        "residual_in_fp32": False, "rms_norm_eps": 1e-05, "sliding_window": None, "ssm_state_size": 16,
        "tie_word_embeddings": False, "time_step_floor": 0.0001, "time_step_limit": [0.0, float("inf")],
        "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 256, "use_bias": False, "use_conv_bias": True,
        "use_mamba_kernels": True, "vocab_size": 96}, {}),
    "gemma-3-12b-it (transformers 5)": ({
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "attention_bias": False,
        "attention_dropout": 0.0, "attn_logit_softcapping": None, "bos_token_id": 2, "dtype": "bfloat16",
        "eos_token_id": 1, "final_logit_softcapping": None, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 160,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
        "max_position_embeddings": 131072, "num_attention_heads": 4, "num_hidden_layers": 7, "num_key_value_heads": 2,
        "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
        "rope_parameters": {"full_attention": {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"},
                            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
        "sliding_window": 1024, "tie_word_embeddings": True, "transformers_version": "5.0.0", "use_bidirectional_attention":
        False, "use_cache": True, "vocab_size": 96}, {}),
    "ministral-3-8b-instruct-2512": (LLAMA | {
        "architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3", "head_dim": 32, "sliding_window": None,
        "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1,
                            "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384,
                            "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"},
        "max_position_embeddings": 262144}, {}),
    "llama-4-scout-17b-16e (text)": (LLAMA | {
        "architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text", "attention_chunk_size": 8192,
        "attn_scale": 0.1, "attn_temperature_tuning": True, "floor_scale": 8192, "for_llm_compressor": False,
        "head_dim": 16, "interleave_moe_layer_step": 1, "intermediate_size": 32, "intermediate_size_mlp": 160,
        "no_rope_layers": [1, 1, 1, 0], "num_experts_per_tok": 1, "num_hidden_layers": 4, "num_local_experts": 4,
        "output_router_logits": False, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "use_qk_norm": True,
        "rope_scaling": LLAMA3_ROPE | {"factor": 16.0}}, {}),
    "falcon-mamba-7b": ({
        "architectures": ["FalconMambaForCausalLM"], "bos_token_id": 0, "conv_kernel": 4, "eos_token_id": 1, "expand": 2,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.1, "intermediate_size": 128,
        "layer_norm_epsilon": 1e-05, "mixer_rms_eps": 1e-06, "model_type": "falcon_mamba", "num_hidden_layers": 2,
        "pad_token_id": 1, "rescale_prenorm_residual": False, "residual_in_fp32": True, "state_size": 16,
        "tie_word_embeddings": False, "time_step_floor": 0.0001, "time_step_init_scheme": "random",
        "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 4, "time_step_scale": 1.0,
        "torch_dtype": "bfloat16", "use_bias": False, "use_cache": True, "use_conv_bias": True,
        "use_falcon_mambapy": False, "use_mambapy": False, "vocab_size": 96}, {}),
    "glm-4.5v": ({
        "architectures": ["Glm4vMoeForConditionalGeneration"], "model_type": "glm4v_moe", "image_start_token_id": 90,
        "image_end_token_id": 91, "image_token_id": 92, "video_token_id": 93, "video_start_token_id": 94,
        "video_end_token_id": 95, "torch_dtype": "bfloat16", "transformers_version": "4.55.0.dev0",
        "text_config": LLAMA | {
            "model_type": "glm4v_moe_text", "attention_bias": True, "first_k_dense_replace": 1, "head_dim": 32,
            "moe_intermediate_size": 32, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": True,
            "num_experts_per_tok": 2, "num_hidden_layers": 3, "partial_rotary_factor": 0.5, "routed_scaling_factor": 1.0,
            "topk_group": 1, "use_qk_norm": False, "rope_theta": 10000.0,
            "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default"}},
        "vision_config": {"depth": 1, "hidden_act": "silu", "hidden_size": 32, "image_size": 56, "in_channels": 3,
                          "intermediate_size": 64, "model_type": "glm4v_moe_vision", "num_heads": 2, "out_hidden_size": 64, "patch_size": 14,
                          "rms_norm_eps": 1e-05, "spatial_merge_size": 2, "temporal_patch_size": 2}}, {}),
    "qwen2.5-omni-3b": (omni("qwen2_5_omni", "Qwen2_5OmniModel", QWEN2 | {
        "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default", "type": "default"}, "init_std": 0.02},
        {"depth": 1, "embed_dim": 32, "fullatt_block_indexes": [0], "hidden_act": "silu", "hidden_size": 32, "in_channels": 3, "in_chans": 3,
         "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64, "patch_size": 14, "spatial_merge_size": 2,
         "spatial_patch_size": 14, "temporal_patch_size": 2, "tokens_per_second": 25, "window_size": 112}), {}),
    "qwen3-omni-30b-a3b-instruct": (omni("qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration", QWEN2 | {
        "head_dim": 16, "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 32, "norm_topk_prob": True, "num_experts": 4,
        "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 0,
        "attention_bias": False, "use_qk_norm": True,
        "rope_scaling": {"interleaved": True, "mrope_interleaved": True, "mrope_section": [3, 3, 2], "rope_type": "default", "type": "default"}},
        {"deepstack_visual_indexes": [0], "depth": 1, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32, "in_channels": 3,
         "intermediate_size": 64, "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": 64, "patch_size": 16,
         "spatial_merge_size": 2, "temporal_patch_size": 2}), {}),
    "t5-small": (T5 | {"n_positions": 512, "num_decoder_layers": 3}, {}),
    "flan-t5-small": (T5_V1_1, {}),
    "mt5-small": (T5_V1_1 | {
        "architectures": ["MT5ForConditionalGeneration"], "model_type": "mt5", "tokenizer_class": "T5Tokenizer"}, {}),
    "bge-m3": (BERT | {
        "architectures": ["XLMRobertaModel"], "bos_token_id": 2, "eos_token_id": 3, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 66, "model_type": "xlm-roberta", "output_past": True, "pad_token_id": 0,
        "torch_dtype": "float32", "transformers_version": "4.33.0", "type_vocab_size": 1}, {}),
    "trinity-nano": (COMMON | {
        "architectures": ["AfmoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "global_attn_every_n_layers": 4, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 96, "layer_types": ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
        "load_balance_coeff": 0.001, "max_position_embeddings": 131072, "model_type": "afmoe",
        "moe_intermediate_size": 32, "mup_enabled": True, "n_group": 1, "num_attention_heads": 4, "num_dense_layers": 2,
        "num_expert_groups": 1, "num_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 5,
        "num_key_value_heads": 2, "num_limited_groups": 1, "num_shared_experts": 1, "pad_token_id": 3,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000, "route_norm": True, "route_scale": 2.8,
        "score_func": "sigmoid", "sliding_window": 4, "tie_word_embeddings": False, "topk_group": 1,
        "use_grouped_mm": True, "vocab_size": 96}, {}),
    "k-exaone-236b-a23b": (COMMON | {
        "architectures": ["ExaoneMoEForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "first_k_dense_replace": 1, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
        "max_position_embeddings": 262144, "mlp_layer_types": ["dense"] + ["sparse"] * 4, "model_type": "exaone_moe",
        "moe_intermediate_size": 32, "n_group": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 8,
        "num_experts_per_tok": 2, "num_hidden_layers": 5, "num_key_value_heads": 2, "num_nextn_predict_layers": 1,
        "num_shared_experts": 1, "pad_token_id": 0, "rms_norm_eps": 1e-05,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}, "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid", "sliding_window": 4, "sliding_window_pattern": "LLLG", "tie_word_embeddings": False,
        "topk_group": 1, "topk_method": "noaux_tc", "vocab_size": 96}, {}),
    "modernbert-base": ({
        "architectures": ["ModernBertModel"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 81,
        "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
        "classifier_pooling": "mean", "cls_token_id": 81, "decoder_bias": True, "deterministic_flash_attn": False,
        "embedding_dropout": 0.0, "eos_token_id": 82, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
        "gradient_checkpointing": False, "hidden_activation": "gelu", "hidden_size": 64,
        "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 96, "layer_norm_eps": 1e-05,
        "local_attention": 6, "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": False,
        "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05,
        "num_attention_heads": 4, "num_hidden_layers": 5, "pad_token_id": 83, "position_embedding_type": "absolute",
        "sep_token_id": 82, "tie_word_embeddings": True, "torch_dtype": "float32", "transformers_version": "4.47.0",
        "vocab_size": 96}, {}),
    "umt5-small": (T5_V1_1 | {
        "architectures": ["UMT5ForConditionalGeneration"], "model_type": "umt5", "scalable_attention": True,
        "tokenizer_class": "T5Tokenizer"}, {}),
    "deepseek-v4-flash": (COMMON | {
        "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "attention_bias": False,
        "attention_dropout": 0.0, "bos_token_id": 0, "compress_ratios": [0, 4, 128, 4, 0], "compress_rope_theta": 160000,
        "eos_token_id": 1, "expert_dtype": "fp4", "hc_eps": 1e-06, "hc_mult": 4, "hc_sinkhorn_iters": 20, "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "index_head_dim": 16, "index_n_heads": 4, "index_topk": 1,
        "max_position_embeddings": 1048576, "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1,
        "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hash_layers": 2,
        "num_hidden_layers": 4, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 2, "o_lora_rank": 16,
        "q_lora_rank": 32, "qk_rope_head_dim": 16, "rms_norm_eps": 1e-06, "rope_scaling": YARN_4, "rope_theta": 10000,
        "routed_scaling_factor": 1.5, "scoring_func": "sqrtsoftplus", "sliding_window": 4, "swiglu_limit": 0.5,
        "tie_word_embeddings": False, "topk_method": "noaux_tc", "vocab_size": 96}, {}),
    "kimi-linear-48b-a3b-instruct": (COMMON | {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "bos_token_id": 1, "eos_token_id": 2,
        "first_k_dense_replace": 1, "head_dim": 72, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160,
        "kv_lora_rank": 32, "linear_attn_config": {"full_attn_layers": [4], "head_dim": 16, "kda_layers": [1, 2, 3],
        "num_heads": 4, "short_conv_kernel_size": 4},
        "mla_use_nope": True, "model_max_length": 1048576, "moe_intermediate_size": 32, "moe_layer_freq": 1,
        "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "num_attention_heads": 4, "num_expert_group": 1,
        "num_experts": 8, "num_experts_per_token": 2, "num_hidden_layers": 4, "num_key_value_heads": 4,
        "num_nextn_predict_layers": 0, "num_shared_experts": 1, "pad_token_id": 3, "q_lora_rank": None, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
        "routed_scaling_factor": 2.446, "tie_word_embeddings": False, "topk_group": 1, "use_grouped_topk": True,
        "v_head_dim": 16, "vocab_size": 96}, {}),
    "minimax-m3": ({"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl",
        "image_token_index": 90, "video_token_index": 91, "projector_hidden_size": 64, "torch_dtype": "bfloat16",
        "text_config": COMMON | {
        "architectures": ["MiniMaxM3SparseForCausalLM"], "model_type": "minimax_m3_vl_text", "attention_dropout": 0.0,
        "bos_token_id": 1, "eos_token_id": 2, "dense_intermediate_size": 96, "head_dim": 16, "hidden_act": "swigluoai",
        "hidden_size": 64, "intermediate_size": 32, "max_position_embeddings": 524288, "moe_layer_freq": [0, 1, 1],
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "num_local_experts": 8, "n_shared_experts": 1, "rms_norm_eps": 1e-06, "partial_rotary_factor": 0.5, "rope_theta": 5000000, "rotary_dim": 8,
        "routed_scaling_factor": 2.0, "scoring_func": "sigmoid", "shared_intermediate_size": 32,
        "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1], "sparse_num_index_heads": 2, "sparse_index_dim": 16,
        "sparse_block_size": 2, "sparse_topk_blocks": 2, "sparse_local_block": 1, "use_sparse_attention": True},
        "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "tie_word_embeddings": False, "use_qk_norm": True, "qk_norm_type": "per_head",
        "use_routing_bias": True, "use_gemma_norm": True, "vocab_size": 96},
        "vision_config": {"model_type": "minimax_m3_vl_vision", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 2, "image_size": 56, "patch_size": 14}}, {}),
    "glm-5.3-flash": ({"architectures": ["Glm5NextForConditionalGeneration"], "model_type": "glm5_next", "torch_dtype": "bfloat16",
        "text_config": COMMON | {"model_type": "glm5_next_text",
        "attention_bias": False, "attention_dropout": 0.0, "eos_token_id": [1, 2], "first_k_dense_replace": 1,
        "hc_eps": 1e-06, "hc_mult": 4, "hc_sinkhorn_iters": 20, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
        "index_head_dim": 16, "index_kpool": 2, "index_kpool_always_select_tail": True, "index_n_heads": 4, "index_topk": 4,
        "indexer_types": ["full"] * 3 + ["full"], "intermediate_size": 96, "kv_lora_rank": 32,
        "layer_types": ["linear_attention"] * 2 + ["full_attention"] * 2,
        "linear_attn_config": {"gate_lower_bound": -5.0, "head_dim": 16, "num_heads": 4, "safe_gate": True, "short_conv_kernel_size": 4},
        "max_position_embeddings": 1048576, "mhc": True, "mla_use_nope": True,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "moe_intermediate_size": 32, "n_group": 1,
        "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 4, "num_key_value_heads": 4, "num_nextn_predict_layers": 0,
        "pad_token_id": 0, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 0, "rms_norm_eps": 1e-05,
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "swiglu_limit": 0.5, "tie_word_embeddings": False,
        "topk_group": 1, "topk_method": "noaux_tc", "v_head_dim": 16, "vocab_size": 96},
        "vision_config": {"model_type": "glm5_next_vision", "depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48,
        "out_hidden_size": 64, "projection_intermediate_size": 48}}, {}),
    "qwen3.8-flash-next": ({"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp", "torch_dtype": "bfloat16",
        "text_config": COMMON | {"model_type": "qwen4_exp_text",
        "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True, "bos_token_id": 1, "eos_token_id": 2,
        "full_attention_interval": 2, "hc_count": 4, "hc_lowrank": 16, "head_dim": 16, "heads_per_ngram": 2, "hidden_act": "silu",
        "hidden_size": 64, "indexer_budget": 4, "indexer_compress_ratio": 2, "indexer_head_dim": 16, "indexer_kv_heads": 1,
        "indexer_n_heads": 4, "layer_types": ["linear_attention", "linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 16,
        "make_ngram_vocab_size_divisible_by": 8, "max_position_embeddings": 262144, "moe_intermediate_size": 32,
        "ngram_size": 3, "ngram_vocab_size_base": 50, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 8,
        "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2, "output_gate_type": "sigmoid",
        "ple_conv_kernel_size": 4, "ple_embed_dim": 64, "ple_layer_ids": [2], "rms_norm_eps": 1e-06,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [1, 1, 0], "partial_rotary_factor": 0.25,
        "rope_theta": 10000000, "rope_type": "default"}, "seed": 1234,
        "shared_expert_intermediate_size": 32, "split_ngram_parts": 2, "tie_word_embeddings": False, "vocab_size": 96},
        "vision_config": {"model_type": "qwen4_exp_vision", "depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64,
        "num_position_embeddings": 16}}, {}),
    "hy4-preview": (COMMON | {
        "architectures": ["HYV4ForCausalLM"], "model_type": "hy_v4", "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "eos_token_id": 2, "first_k_dense_replace": 1, "hc_eps": 1e-06, "hc_magnitude": 2.0, "hc_mult": 4,
        "head_dim": 8, "hidden_act": "silu", "hidden_size": 64, "index_head_dim": 16, "index_n_heads": 4, "index_topk": 4,
        "indexer_types": ["full", "full", "shared"], "intermediate_size": 160, "kv_lora_rank": 32, "learnable_sink_init": 0.0,
        "max_position_embeddings": 262144, "mlp_layer_types": ["dense", "sparse", "sparse"], "moe_intermediate_size": 32, "n_group": 1,
        "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 3, "num_key_value_heads": 4, "num_nextn_predict_layers": 0, "pad_token_id": 0, "q_lora_rank": 32,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "routed_scaling_factor": 2.827,
        "swiglu_limit": 0.5, "tie_word_embeddings": False, "topk_group": 1, "v_head_dim": 16, "vocab_size": 96}, {}),
    "madlad400-3b-mt": (T5_V1_1 | {
        "classifier_dropout": 0.0, "dense_act_fn": "gelu_new", "dropout_rate": 0.0, "eos_token_id": 2, "n_positions": 512,
        "pad_token_id": 1, "task_specific_params": {}}, {}),
}


# Names that transformers saves otherwise than the owner, and reads in either form.
PUBLISHED = {
    "deepseek_v4": [
        (r"^model\.embed_tokens\.", "embed."), (r"^model\.hc_head\.hc_", "hc_head_"), (r"^model\.", ""),
        (r"\.attn\.norm\.", ".attn.kv_norm.")],
    "kimi_linear": [(r"\.block_sparse_moe\.(gate|up|down)_proj\.", r".mlp.\1_proj.")],
    "hy_v4": [(r"\.hc_pre\.(hc_head|hc_\w+_layer)\.", r".\1.hc_pre."), (r"\.hc_head\.hc_pre\.", ".hc_head."),
              (r"\.mlp\.(shared_experts\.)?linear_gate\.", r".mlp.\1gate_proj.")],
}


def turned_by_halves(values, config):
    """Weights of Hunyuan 4 whose turning rows are neighbors, as its owner and published files have them, for
    transformers, which turns halves."""
    n = config["qk_rope_head_dim"]
    halves = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)])
    widths = {"q_b_proj": config["qk_nope_head_dim"] + n, "kv_a_proj_with_mqa": config["kv_lora_rank"] + n,
              "wq_b": config["index_head_dim"], "wk": config["index_head_dim"], "k_norm": config["index_head_dim"]}
    for name, x in values.items():
        width = widths.get(name.split(".")[-2])
        if width and ".self_attn." in name:
            order = np.arange(x.shape[0]).reshape(-1, width)
            order[:, width - n:] = order[:, width - n:][:, halves]
            values[name] = x[torch.from_numpy(order.reshape(-1))]
    return values


class Experts(torch.nn.Module):
    """The experts of Nomic's encoder as its owner's code computes them: weights of a softmax over all, a bias behind the sum."""

    def __init__(self, values, mlp, config):
        super().__init__()
        self.router, self.bias = values[mlp + "router.layer.weight"], values[mlp + "experts.bias"]
        shape = (config["num_experts"], config["n_inner"], config["n_embd"])
        self.w1, self.w2 = (values[mlp + f"experts.mlp.{w}"].view(shape) for w in ("w1", "w2"))
        self.n_used = config["moe_top_k"]

    def forward(self, x):
        weights, chosen = torch.softmax(x @ self.router.T, -1).topk(self.n_used, -1)
        inner = torch.nn.functional.gelu(torch.einsum("btw,btkfw->btkf", x, self.w1[chosen]))
        return torch.einsum("btk,btkf,btkfw->btw", weights, inner, self.w2[chosen]) + self.bias


def with_experts(tensors, config):
    """Experts in each second layer of Nomic's encoder, in the place of dense blocks."""
    n, width, inner = config["num_experts"], config["n_embd"], config["n_inner"]
    for mlp in (f"encoder.layers.{i}.mlp." for i in range(1, config["n_layer"], 2)):
        tensors = {name: shape for name, shape in tensors.items() if not name.startswith(mlp)} | {
            mlp + "router.layer.weight": [n, width], mlp + "experts.mlp.w1": [n * inner, width],
            mlp + "experts.mlp.w2": [n * inner, width], mlp + "experts.bias": [width]}
    return tensors


def thinker(config):
    """The class of the part of a model that reads and writes, beside one that speaks."""
    name = {"qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
            "qwen3_omni_moe_thinker": "Qwen3OmniMoeThinkerForConditionalGeneration"}[config["model_type"]]
    import transformers
    return getattr(transformers, name)


class Thinker:
    """Such a class in the form of transformers' automatic ones, which do not know it."""

    def __init__(self, config):
        self.from_config = thinker(config)._from_config
        self.from_pretrained = thinker(config).from_pretrained


def saved(config, folder):
    """The tensors of a model as the package saves them, the class that reads them, the configuration it saves, and the
    values of tensors of integers."""
    from transformers import AutoConfig

    if "thinker_config" in config:
        config = config["thinker_config"] | {"architectures": []}
    parsed = AutoConfig.for_model(**config) if "thinker" not in config["model_type"] else thinker(config).config_class(**config)
    classes = [AutoModelForCausalLM, AutoModelForImageTextToText, AutoModel]
    if config["model_type"] in ("t5", "mt5", "umt5"):
        classes = [AutoModelForSeq2SeqLM]
    elif "thinker" in config["model_type"]:
        classes = [Thinker(config)]
    elif any(name.endswith("ForMaskedLM") for name in config["architectures"]):
        classes = [AutoModelForMaskedLM]
    elif any(name.endswith("ForPreTraining") for name in config["architectures"]):
        classes = [AutoModelForPreTraining]
    elif any(name.endswith("ForSequenceClassification") for name in config["architectures"]):
        classes = [AutoModelForSequenceClassification]
    elif any(name.endswith("Model") and not name.endswith("LMHeadModel") for name in config["architectures"]):
        classes = [AutoModel]
    elif "vision_config" in config and config["model_type"] != "phi4_multimodal":
        classes = [AutoModelForImageTextToText]
    for kind in classes:
        try:
            model = kind.from_config(parsed)
            break
        except ValueError:
            continue
    model.save_pretrained(folder)
    with open(os.path.join(folder, "config.json")) as f:
        again = f.read()
    tensors, integers = {}, {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            with safe_open(os.path.join(folder, file), "np") as f:
                for name in f.keys():
                    part, published = f.get_slice(name), name
                    for theirs, owners in PUBLISHED.get(config["model_type"], []):
                        published = re.sub(theirs, owners, published)
                    tensors[published] = part.get_shape()
                    if part.get_dtype() == "I64":
                        integers[published] = f.get_tensor(name).reshape(-1).tolist()
                    if name.endswith("tid2eid"):
                        rows, used = part.get_shape()
                        integers[published] = [(7 * row + 3 * i) % 8 for row in range(rows) for i in range(used)]
            os.remove(os.path.join(folder, file))
    return tensors, kind, again, integers


def make(name, config, generation):
    with tempfile.TemporaryDirectory() as folder:
        read = (THEIRS | OLDER_THEIRS).get(name, config)
        tensors, kind, again, integers = saved(json.loads(json.dumps(read)), folder)
        if kind is AutoModelForSeq2SeqLM and config.get("tie_word_embeddings") is False:
            # As published files have it: transformers 5 makes none.
            tensors["lm_head.weight"] = tensors["shared.weight"]

        # What follows from the configuration is in no published file.
        tensors = {n: shape for n, shape in tensors.items() if not n.endswith(("_decay", "slope_rate"))}

        # As published: kernels of queries, keys and values by their widths, which transformers saves in thirds, and the
        # norm behind attention by its name, for which it has that of other layers.
        if config["model_type"] == "olmo_hybrid":
            attending = [f"layers.{i}." for i, kind in enumerate(config["layer_types"]) if kind == "full_attention"]
            tensors = {
                n.replace("feedforward_layer_norm", "post_attention_layernorm") if any(layer in n for layer in attending) else n: shape
                for n, shape in tensors.items()}
            for n in tensors:
                if n.endswith("_conv1d.weight"):
                    rows = tensors[n.replace("_conv1d", "_proj")][0]
                    tensors[n] = [rows, *tensors[n][1:]]

        if "moe_top_k" in config and config["model_type"] == "nomic_bert":
            tensors = with_experts(tensors, config)
            again = json.dumps(config)

        # Names in the published file where the package is given others. Those of a part of a model begin with its name.
        # The embedding of MADLAD has the decoder's name, which releases 5.0 to 5.16 did not read as the encoder's too.
        is_part = "thinker_config" in config
        published = {n: "thinker." * is_part + n for n in tensors}
        if name.startswith("madlad"):
            published["shared.weight"] = "decoder.embed_tokens.weight"
        adapters = {}
        if "lora_adaptations" in config:
            for n in [n for n in tensors if n.endswith(".weight") and len(tensors[n]) == 2]:
                module, shape = "roberta." + n.removesuffix("weight") + "parametrizations.weight.", tensors[n]
                published[n] = module + "original"
                adapters |= {module + "0.lora_A": [5, config["lora_rank"], shape[1]], module + "0.lora_B": [5, shape[0], config["lora_rank"]]}
        if config["model_type"] == "phi4mm":
            tensors = {n: shape for n, shape in tensors.items() if "embed_tokens_extend" not in n or n.endswith("up.bias")}
            for n in [n for n in tensors if n.endswith("_proj.weight")]:
                module, shape = n.removesuffix("weight"), tensors[n]
                published[n] = module + "base_layer.weight"
                for part in ("speech", "vision"):
                    rank = config[f"{part}_lora"]["r"]
                    adapters |= {f"{module}lora_A.{part}.weight": [rank, shape[1]], f"{module}lora_B.{part}.weight": [shape[0], rank]}
        values = {n: torch.from_numpy(weights(published[n], shape)) for n, shape in tensors.items()}
        values |= {n: torch.tensor(ids).reshape(tensors[n]) for n, ids in integers.items()}
        if config["model_type"] == "hy_v4":
            values = turned_by_halves(values, config)
        for old in os.listdir(folder):
            os.remove(os.path.join(folder, old))
        save_file(values, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(read.get("thinker_config", read) | {"torch_dtype": "float32"}, f)
        # The hidden states of an encoder are its results, whatever it guesses of them.
        kind = AutoModel if kind in (AutoModelForMaskedLM, AutoModelForPreTraining) else kind
        model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        if "moe_top_k" in config and config["model_type"] == "nomic_bert":
            for i in range(1, config["n_layer"], 2):
                model.layers[i].mlp = Experts(values, f"encoder.layers.{i}.mlp.", config)
        # Fixed NTK scaling, of which transformers has the larger base alone.
        scaling = config.get("rope_scaling") or {}
        if scaling.get("type") == "ntk":
            again = json.dumps(config)
            for module in (m for m in model.modules() if hasattr(m, "inv_freq")):
                module.inv_freq /= scaling["factor"] ** (1 / len(module.inv_freq))
        for module in (m for m in model.modules() if hasattr(m, "decay_factors")):
            rate = module.get_slope_rate()
            module.slope_rate = rate
            module.query_decay, module.key_decay, module.diagonal_decay = module.decay_factors(rate)
        with torch.no_grad():
            if kind is AutoModelForSeq2SeqLM:
                head = values.get("lm_head.weight", values["shared.weight"])
                assert torch.equal(model.lm_head.weight, head), "another head"
                # What was read is written again.
                decoded = torch.tensor([[config["decoder_start_token_id"]] + PROMPT])
                out = model.double()(input_ids=torch.tensor([PROMPT]), decoder_input_ids=decoded)
            else:
                places = {"position_ids": torch.arange(len(PROMPT)).expand(3, 1, -1)} if is_part else {}
                out = model(input_ids=torch.tensor([PROMPT]), **places)
        ranks = kind is AutoModelForSequenceClassification
        logits = (out.logits[0] if ranks else out.logits[0, -1]) if hasattr(out, "logits") else None
        states = out.last_hidden_state[0, -1] if logits is None else None
    result = {"name": name, "config": json.dumps(config), "saved_again": json.dumps(json.loads(again)),
              "generation_config": json.dumps(generation),
              "tensors": {published[n]: list(shape) for n, shape in tensors.items()} | adapters}
    if integers:
        result["integers"] = integers
    expected = logits if logits is not None else states
    result["scores" if ranks else "logits" if logits is not None else "states"] = [float(f"{x:.7g}") for x in expected.tolist()]
    return result


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    wanted = sys.argv[1:]
    for name, (config, generation) in (MODELS | NEWER | OLDER).items():
        if wanted and not any(w in name for w in wanted):
            continue
        try:
            result = make(name, config, generation)
        except Exception as error:
            print(name, type(error).__name__, str(error)[:300])
            continue
        file = name.split(" (")[0].replace(" ", "-")
        suffix = "" if " (" not in name else "-" + name.split(" (")[1].rstrip(")").replace(" ", "-").replace(",", "")
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in result.items())
        with open(os.path.join(here, f"{file}{suffix}.json"), "w") as f:
            f.write("{\n" + lines + "\n}\n")
        print(name, len(result["tensors"]), "ok")
