//! Configuration keys that need no translation: those without effect, and those with one harmless value. Any other
//! unread key fails with its value.

use std::cell::RefCell;
use std::path::Path;

use super::lists;
use super::members::Members;
use crate::error::Result;
use crate::format::json::Json;
use crate::format::passed::Passed;

/// Keys without effect whatever their value, by reason.
const EFFECTLESS: &[(&str, &str)] = &[
    (
        "names of classes, files and versions",
        "architectures auto_map _name_or_path name_or_path transformers_version transformers.js_config \
         tokenizer_class is_llama_config _commit_hash _auto_class _configuration_file _from_auto _from_pipeline \
         base_config_key attribute_map sub_configs_defaults extra_config_files extra_files is_composition revision \
         code_revision trust_remote_code gguf_file model_name model_version license language prefix",
    ),
    (
        "written by training programs about themselves",
        "unsloth_version unsloth_fixed unsloth_training_args axolotl_config_path axolotl_version trl_version \
         sentence_transformers neftune_noise_alpha loss_type loss_function shift_attn group_size_ratio \
         visual_inputs gradient_checkpointing_kwargs use_reentrant deepspeed fsdp wandb_project wandb_run_id \
         training_stage training_args block_diag_attn mixture_of_depths tokenizer_vocab_size tokenizer_name \
         mergekit_version neuron onnx peft_config_path zero_stage finetuned_from max_train_length",
    ),
    (
        "read by training only",
        "initializer_range attention_dropout attn_pdrop embd_pdrop resid_pdrop embedding_dropout residual_dropout \
         hidden_dropout router_jitter_noise router_aux_loss_coef output_router_logits gradient_checkpointing \
         attention_probs_dropout_prob classifier_dropout hidden_dropout_prob attn_dropout ffn_dropout dropout \
         emb_dropout emb_dropout_prob embed_dropout activation_dropout layerdrop output_dropout mlp_dropout ffn_pdrop \
         attn_dropout_prob dropout_rate \
         init_std init_scale initializer_factor initializer_gain router_z_loss_coef router_z_loss_coefficient z_loss \
         z_loss_coefficient aux_loss_coef mtp_loss_scaling_factor mtp_loss_weight ignore_index label_smoothing \
         use_fused_cross_entropy fuse_cross_entropy fuse_linear_cross_entropy fused_linear_cross_entropy",
    ),
    (
        "every tensor tells its own type and shape",
        "torch_dtype dtype use_bfloat16 type_vocab_size fp16 bf16 fp32 params_dtype",
    ),
    (
        "how a program computes or returns the same numbers",
        "use_cache for_llm_compressor pad_key_length inference_runner validate_runner_input attention_softmax_in_fp32 \
         scale_attention_softmax_in_fp32 cache_implementation _attn_implementation _attn_implementation_autoset attn_implementation \
         reorder_and_upcast_attn pretraining_tp chunk_size_feed_forward torchscript return_dict use_return_dict \
         output_attentions output_hidden_states _output_attentions _attn_implementation_internal \
         _experts_implementation_internal _experts_implementation experts_implementation _post_init_done \
         base_model_tp_plan base_model_pp_plan base_model_ep_plan base_model_fsdp_plan keys_to_ignore_at_inference \
         logits_to_keep num_logits_to_keep use_flash_attn use_flash_attention use_flash_attention_2 flash_attn \
         _flash_attn_2_enabled _use_flash_attention_2 flash_attention flash_rotary use_sdpa use_kernels \
         use_cache_quantization use_cache_kernel fused_rotary fused_mlp use_fused_rms_norm use_fused_rope \
         use_liger_kernel use_xformers use_memory_efficient_attention xla_device tp_size pipeline_parallel_size \
         tensor_parallel_size context_parallel_size sequence_parallel max_batch_size quantization_aware_training \
         tf_legacy_loss low_cpu_mem_usage device_map cache_dir compile_config disable_compile",
    ),
    (
        "a bias is used where the file has its tensor",
        "attention_bias attention_out_bias mlp_bias use_bias qkv_bias lm_head_bias bias attn_bias attention_qkv_bias \
         add_qkv_bias add_bias_linear",
    ),
    ("each architecture is a decoder or is none", "is_decoder"),
    (
        "repeats a key that is read, or a token of the tokenizer",
        "n_ctx sliding_window_size max_sequence_length model_max_length max_seq_length seq_length pad_token bos_token \
         eos_token unk_token cls_token sep_token mask_token",
    ),
    (
        "heads for classification",
        "id2label label2id num_labels problem_type finetuning_task summary_activation summary_first_dropout \
         summary_proj_to_labels summary_type summary_use_proj",
    ),
    (
        "sampling is up to the caller",
        "task_specific_params do_sample temperature top_k top_p typical_p repetition_penalty length_penalty \
         diversity_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size num_beams num_beam_groups \
         num_return_sequences early_stopping max_length min_length max_new_tokens remove_invalid_values \
         return_dict_in_generate output_scores output_logits bad_words_ids begin_suppress_tokens suppress_tokens \
         decoder_start_token_id exponential_decay_length_penalty force_words_ids forced_bos_token_id \
         forced_decoder_ids forced_eos_token_id min_p top_h min_new_tokens max_time stop_strings penalty_alpha \
         epsilon_cutoff eta_cutoff encoder_repetition_penalty guidance_scale renormalize_logits sequence_bias \
         token_healing watermarking_config constraints dola_layers low_memory num_assistant_tokens \
         num_assistant_tokens_schedule assistant_confidence_threshold assistant_early_exit \
         assistant_ensemble_weight assistant_lookbehind target_lookbehind speculation_type use_mtp is_assistant \
         prompt_lookup_num_tokens max_matching_ngram_size prefill_chunk_size cache_config max_cache_len \
         continuous_batching_config generation_kwargs generation_config _from_model_config presence_penalty \
         frequency_penalty max_tokens",
    ),
    ("tokens of other tasks", "unk_token_id sep_token_id cls_token_id mask_token_id"),
    (
        "pictures and sounds",
        "vision_config audio_config audio_token_id audio_token_index audio_start_token_id audio_end_token_id \
         user_token_id position_id_per_seconds seconds_per_chunk image_token_id image_token_index boi_token_id \
         boi_token_index eoi_token_id eoi_token_index mm_tokens_per_image multimodal_projector_bias \
         projector_hidden_act spatial_merge_size vision_feature_layer vision_start_token_id vision_end_token_id \
         image_start_token_id image_end_token_id video_start_token_id video_end_token_id \
         vision_token_id video_token_id video_token_index scale_factor vision_feature_select_strategy \
         image_seq_length downsample_ratio perceiver_config pixel_shuffle_factor image_grid_pinpoints \
         use_image_newline_parameter downsample_factor projector_bias projector_hidden_size projector_use_layernorm \
         do_image_splitting encoder_patch_size max_image_tokens max_num_patches max_pixels_tolerance max_tiles \
         min_image_tokens min_tiles tile_size use_image_special_tokens timestamp_token_id token_classification_bias \
         media_placeholder_token_id projection_hidden_size projection_layer_norm_eps use_unified_vision_chunk \
         video_placeholder",
    ),
];

/// Keys without effect if they have one value, as JSON, and what another value would need.
const NEUTRAL: &[(&str, &str, &str)] = &[
    ("add_cross_attention", "false", "attention to another model"),
    ("is_encoder_decoder", "false", "an encoder"),
    ("tie_encoder_decoder", "false", "an encoder"),
    ("cross_attention_hidden_size", "null", "attention to another model"),
    ("position_embedding_type", "\"rope\"", "positions that are not told by rotation"),
    ("use_bidirectional_attention", "false", "attention to later tokens"),
    ("scale_attn_weights", "true", "scores without a scale"),
    ("scale_attn_by_inverse_layer_idx", "false", "scores scaled by the number of the layer"),
    ("rope_interleaved", "false", "another order of rotary pairs"),
    ("use_mrope", "false", "positions of several dimensions"),
    ("alibi", "false", "scores that fall with distance"),
    ("use_qk_norm", "false", "norms of queries and keys"),
    ("use_cla", "false", "keys and values of another layer"),
    ("use_mla", "false", "compressed keys and values"),
    ("use_mixed_mlp_moe", "true", "experts without a shared one"),
    ("clip_qkv", "null", "clamped queries, keys and values"),
    ("parallel_attn", "true", "blocks after one another"),
    ("apply_residual_connection_post_layernorm", "false", "a residual stream of norms"),
    ("expansion_ratio", "4", "another feed-forward width"),
    ("attn_type", "\"multihead_attention\"", "another attention"),
    ("attn_uses_sequence_id", "false", "several texts in one sequence"),
    ("prefix_lm", "false", "attention to later tokens"),
    ("qk_ln", "false", "norms of queries and keys"),
    ("softmax_scale", "null", "scores with another scale"),
    ("logit_scale", "null", "scaled logits"),
    ("qk_layernorm", "false", "norms of queries and keys"),
    ("use_parallel_block", "true", "blocks after one another"),
    ("use_parallel_embedding", "false", "divided embeddings"),
    ("use_embedding_sharing", "true", "an output matrix of its own"),
    ("use_gated_activation", "true", "a plain feed-forward block"),
    ("position_embedding_xdrope", "false", "positions of several dimensions"),
    ("layer_switch", "4", "other layers with a window"),
    ("order_of_interleaved_layers", "\"local_attn_first\"", "other layers with a window"),
    ("moe_layer_freq", "1", "layers without experts"),
    ("moe_gate", "\"topk\"", "another router"),
    ("moe_gate_act", "\"softmax\"", "another router"),
    ("topk_method", "\"noaux_tc\"", "another router"),
    ("swiglu_limit", "7", "another clamp of experts"),
    ("swiglu_alpha", "1.702", "another slope of experts' gates"),
    ("compression_ratio", "1", "interpolated positions"),
    ("is_causal", "true", "attention to later tokens"),
    ("full_attn_mod", "1", "layers without attention to all tokens"),
    ("interpolate_factor", "1", "interpolated positions"),
    ("decoder_sparse_step", "1", "layers without experts"),
    ("mlp_only_layers", "[]", "layers without experts"),
    ("norm_type", "\"layer_norm\"", "another norm"),
    ("mlp_type", "\"default\"", "another feed-forward block"),
    ("pruned_heads", "{}", "layers with fewer heads"),
];

/// RoPE parameters that a type of RoPE does not use, and training details.
const ROPE_EFFECTLESS: &[&str] = &["finetuned", "max_position_embeddings", "original_max_position_embeddings"];
const ROPE_NEUTRAL: &[(&str, &str, &str)] = &[
    ("factor", "1", "a factor in rope of this type"),
    ("attention_factor", "1", "a factor in rope of this type"),
    ("partial_rotary_factor", "1", "two rotary widths"),
    ("truncate", "true", "bounds that are not whole numbers"),
];

/// Keys of an adapter's configuration without effect, by reason.
const ADAPTER_EFFECTLESS: &[(&str, &str)] = &[
    ("names of classes, files and versions", "auto_mapping base_model_name_or_path revision peft_version"),
    ("read by training only", "lora_dropout inference_mode task_type eva_config corda_config megatron_core"),
    (
        "the tensors tell which modules have factors",
        "target_modules exclude_modules layers_to_transform layers_pattern",
    ),
    ("factors are kept apart from weights, whichever way round these are stored", "fan_in_fan_out"),
    ("counts nothing without use_qalora", "qalora_group_size"),
];
const ADAPTER_NEUTRAL: &[(&str, &str, &str)] = &[
    ("bias", "\"none\"", "biases that were trained"),
    ("lora_bias", "false", "biases of factors"),
    ("use_dora", "false", "weights with norms of their own (DoRA)"),
    ("use_qalora", "false", "factors of groups of columns"),
    ("use_bdlora", "false", "factors in blocks"),
    ("modules_to_save", "[]", "modules that were trained as a whole"),
    ("trainable_token_indices", "[]", "embeddings that were trained"),
    ("target_parameters", "[]", "factors of parameters that are no modules"),
    ("layer_replication", "[]", "layers that are used twice"),
    ("alora_invocation_tokens", "[]", "factors that begin to count at some tokens"),
    ("arrow_config", "null", "factors that are routed"),
    ("megatron_config", "null", "divided factors"),
    ("loftq_config", "{}", "base weights that were changed"),
    ("ensure_weight_tying", "false", "factors of tied modules"),
];

/// Fails for the first unread key of an adapter's configuration that could change results.
pub(super) fn check_adapter(members: &Members) -> Result<()> {
    let effectless = |name: &str| ADAPTER_EFFECTLESS.iter().any(|(_, names)| lists::has(names, name));
    refuse_unread(members, "", effectless, ADAPTER_NEUTRAL, None)
}

/// Fails for the first unread key of a configuration that changes results; records unknown ones. `more`:
/// space-separated keys without effect in the family.
pub(super) fn check(members: &Members, more: &str, passed: &RefCell<Passed>) -> Result<()> {
    let effectless = |name: &str| has_no_effect(name, more);
    refuse_unread(members, "", effectless, NEUTRAL, Some(passed))
}

/// The same for the configuration of a vision encoder, or of its pixels, with tables of its own.
pub(super) fn check_encoder(
    members: &Members,
    more: &str,
    neutral: &[(&str, &str, &str)],
    passed: &RefCell<Passed>,
) -> Result<()> {
    let effectless = |name: &str| has_no_effect(name, more);
    refuse_unread(members, "", effectless, &[neutral, NEUTRAL].concat(), Some(passed))
}

/// The same for RoPE parameters.
pub(super) fn check_rope(members: &Members, passed: &RefCell<Passed>) -> Result<()> {
    let effectless = |name: &str| ROPE_EFFECTLESS.contains(&name);
    refuse_unread(members, "the rope parameter ", effectless, ROPE_NEUTRAL, Some(passed))
}

/// True for a key without effect in any model, or in `more`.
fn has_no_effect(name: &str, more: &str) -> bool {
    lists::has(more, name) || EFFECTLESS.iter().any(|(_, names)| lists::has(names, name))
}

fn refuse_unread(
    members: &Members,
    what: &str,
    effectless: impl Fn(&str) -> bool,
    neutral: &[(&str, &str, &str)],
    passed: Option<&RefCell<Passed>>,
) -> Result<()> {
    for (name, value) in members.unread().filter(|(name, _)| !effectless(name)) {
        let said = |effect: &str| members.unsupported(&format!("{what}{name:?} with the value {value} ({effect})"));
        match (neutral.iter().find(|row| row.0 == name), passed) {
            (Some((_, harmless, _)), _) if is(value, harmless)? => {}
            (Some((_, _, effect)), _) => return Err(said(effect)),
            (None, Some(passed)) => passed.borrow_mut().unknown(said("not a known key").to_string()),
            (None, None) => return Err(said("not a known key")),
        }
    }
    Ok(())
}

/// Compares a value with JSON text; numbers compare equal whether written as integers or not.
fn is(value: &Json, text: &str) -> Result<bool> {
    let other = Json::parse(Path::new("a table"), text.as_bytes())?;
    Ok(*value == other || value.as_f64().is_some_and(|x| other.as_f64() == Some(x)))
}

#[cfg(test)]
mod tests {
    use super::super::config::translate;
    use super::*;
    use crate::format::Value;

    /// Returns the translated keys of a configuration, or why it is rejected.
    fn keys(config: &str) -> Result<Vec<(String, Value)>> {
        let path = Path::new("config.json");
        let config = Json::parse(path, config.as_bytes())?;
        let t = translate(path, &config)?;
        t.passed.into_inner().check("FLAG").map(|()| t.keys)
    }

    fn with(member: &str) -> String {
        format!(r#"{{"model_type":"llama","hidden_size":64,"num_attention_heads":4{member}}}"#)
    }

    #[test]
    fn tables_parse() {
        for (reason, names) in EFFECTLESS.iter().chain(ADAPTER_EFFECTLESS) {
            assert_eq!(lists::checks::names(names), Ok(()), "{reason}");
        }
        for table in [NEUTRAL, ROPE_NEUTRAL, ADAPTER_NEUTRAL] {
            assert_eq!(lists::checks::values(table), Ok(()));
        }
    }

    #[test]
    fn effectless_keys_change_nothing() {
        let plain = keys(&with("")).unwrap();
        // The list of classes is used: it identifies embedding models.
        let names = EFFECTLESS.iter().flat_map(|(_, names)| names.split(' '));
        for name in names.filter(|name| *name != "architectures") {
            for value in ["null", "true", "false", "7", "0.5", "\"x\"", "[1]", r#"{"a":1}"#] {
                assert_eq!(keys(&with(&format!(r#","{name}":{value}"#))).unwrap(), plain, "{name}: {value}");
            }
        }
    }

    #[test]
    fn neutral_values_change_nothing_and_others_are_refused_by_name() {
        let plain = keys(&with("")).unwrap();
        for (name, harmless, _) in NEUTRAL {
            for value in ["null", harmless] {
                assert_eq!(keys(&with(&format!(r#","{name}":{value}"#))).unwrap(), plain, "{name}: {value}");
            }
            let negated = if *harmless == "true" { "false" } else { "true" };
            for (value, shown) in [(negated, negated), ("2.5", "2.5"), ("\"rms\"", "\"rms\""), ("[3]", "a list of 1")] {
                let error = keys(&with(&format!(r#","{name}":{value}"#))).unwrap_err();
                assert!(matches!(error, crate::error::Error::Unsupported(_)));
                let said = error.to_string();
                assert!(said.contains(&format!("{name:?}")) && said.contains(shown), "{said}");
            }
        }
        assert_eq!(keys(&with(r#","decoder_sparse_step":1.0"#)).unwrap(), plain);
    }

    #[test]
    fn unknown_keys_are_refused_with_their_value() {
        let text = r#","text_config":{"model_type":"llama","hidden_size":64,"num_attention_heads":4"#;
        for member in [r#","magic_norm":true"#, &format!(r#"{text},"magic_norm":true}}"#)] {
            let said = keys(&with(member)).unwrap_err().to_string();
            assert!(said.contains("\"magic_norm\" with the value true") && said.contains("config.json"), "{said}");
        }
        // A key of another family is unknown in this one; two values for one key are a contradiction.
        for member in
            [r#","attn_logit_softcapping":50.0"#, &format!(r#"{text}}},"num_hidden_layers":3,"hidden_size":2"#)]
        {
            assert!(keys(&with(member)).is_err(), "{member}");
        }
        assert!(keys(&with(r#","magic_norm":null"#)).is_ok());
        let contradicting =
            r#"{"model_type":"gemma3","hidden_size":32,"text_config":{"model_type":"gemma3_text","hidden_size":64}}"#;
        assert!(keys(contradicting).unwrap_err().to_string().contains("\"hidden_size\" with the value 32"));
    }

    #[test]
    fn rope_parameters_are_known_or_refused() {
        let rope = |parameters: &str| {
            keys(&with(&format!(r#","rope_scaling":{{"factor":2.0,"rope_type":"linear"{parameters}}}"#)))
        };
        let plain = rope("").unwrap();
        for name in ROPE_EFFECTLESS {
            assert_eq!(rope(&format!(r#","{name}":4096"#)).unwrap(), plain, "{name}");
        }
        for (name, harmless, _) in ROPE_NEUTRAL.iter().filter(|row| row.0 != "factor") {
            assert_eq!(rope(&format!(r#","{name}":{harmless}"#)).unwrap(), plain, "{name}");
        }
        for member in
            [r#","attention_factor":1.5"#, r#","truncate":false"#, r#","low_freq_factor":1.0"#, r#","magic":1"#]
        {
            let said = rope(member).unwrap_err().to_string();
            assert!(said.contains("the rope parameter"), "{said}");
        }
        let default =
            |factor: &str| keys(&with(&format!(r#","rope_scaling":{{"rope_type":"default","factor":{factor}}}"#)));
        assert_eq!(default("1.0").unwrap(), keys(&with(r#","rope_scaling":null"#)).unwrap());
        assert!(default("2.0").unwrap_err().to_string().contains("\"factor\" with the value 2"));
    }
}
