//! Networks from the time before Llama: LayerNorm, feed-forward blocks without a gate, biases.

use super::common::{EXACT_GELU, PLAIN};
use crate::error::Result;
use crate::format::hf::known;
use crate::format::hf::translator::KeyType::{Bool, Int};
use crate::format::hf::translator::{Family, HEADS, Translator};

pub const ALL: &[Family] = &[
    Family {
        model_types: &["gpt2"],
        arch: "gpt2",
        activations: &["gelu_new"],
        defaults: "",
        transposed: &["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"],
        ..PLAIN
    },
    Family { model_types: &["starcoder2"], arch: "starcoder2", activations: &["gelu_pytorch_tanh"], ..PLAIN },
    Family {
        model_types: &["phi"],
        arch: "phi2",
        activations: &["gelu_new"],
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5",
        ..PLAIN
    },
    Family {
        model_types: &["gpt_neox"],
        arch: "gptneox",
        keys: &[&[("use_parallel_residual", Bool, &["use_parallel_residual"])]],
        defaults: "rotary_emb_base=1e4 rotary_pct=0.25",
        turning_part: &["partial_rotary_factor", "rotary_pct"],
        ..EXACT_GELU
    },
    Family { model_types: &["falcon"], arch: "falcon", extras: multi_query, ..EXACT_GELU },
    Family {
        model_types: &["gpt_bigcode"],
        arch: "starcoder",
        activations: &["gelu_pytorch_tanh"],
        defaults: "",
        effectless: " attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner validate_runner_input \
                     pre_allocate_kv_cache max_batch_size ",
        extras: multi_query,
        ..EXACT_GELU
    },
    Family {
        model_types: &["mpt"],
        arch: "mpt",
        keys: &[&[("context_length", Int, &["max_seq_len"])]],
        defaults: "",
        effectless: " no_bias emb_pdrop init_device init_config verbose embedding_fraction tokenizer_name ",
        extras: mpt,
        grouped_qkv: false,
        ..EXACT_GELU
    },
    Family {
        model_types: &["bloom"],
        arch: "bloom",
        activations: &["gelu_pytorch_tanh"],
        defaults: "",
        effectless: " attention_softmax_in_fp32 masked_softmax_fusion bias_dropout_fusion skip_bias_add \
                     skip_bias_add_qkv seq_length offset_alibi unk_token_id slow_but_exact ",
        exact_gelu: false,
        ..EXACT_GELU
    },
];

/// Falcon and the first StarCoder: one key-value head for all, for groups, or one each.
fn multi_query(t: &mut Translator) -> Result<()> {
    let heads = t.int(HEADS)?;
    let given = t.int(&["num_kv_heads", "n_head_kv", "num_key_value_heads"])?;
    let shared = t.config.bool(&["multi_query"])?.unwrap_or(true);
    let by_group = t.config.bool(&["new_decoder_architecture"])?.unwrap_or(false);
    t.config.skip(&["num_ln_in_parallel_attn"]);
    let n = match (by_group, shared) {
        (true, _) => given.or(heads),
        (false, true) => Some(1),
        (false, false) => heads,
    };
    t.replace("attention.head_count_kv", n);
    t.facts.kv_heads = n;
    Ok(())
}

fn mpt(t: &mut Translator) -> Result<()> {
    let attention = t.part("attn_config");
    let kv_heads = attention.int(&["kv_n_heads"])?;
    if attention.bool(&["alibi"])? == Some(false) {
        return Err(t.config.unsupported("\"alibi\" with the value false"));
    }
    let bias = attention.number(&["alibi_bias_max"])?.unwrap_or(8.0);
    t.set("attention.max_alibi_bias", Some(bias));
    t.set("attention.clamp_kqv", attention.number(&["clip_qkv"])?);
    t.set("attention.head_count_kv", kv_heads);
    t.expect_text("norm_type", &["low_precision_layernorm", "layernorm"])?;
    t.config.skip(&["learned_pos_emb"]);
    known::check(&attention, ATTENTION_OF_MPT, &t.passed)?;
    t.facts.kv_heads = kv_heads.or(t.int(HEADS)?);
    Ok(())
}

/// Members of MPT's set that change no result: how the numbers are computed, and what transformers puts in every set.
const ATTENTION_OF_MPT: &str = " \
     attn_impl attn_pdrop model_type bos_token_id eos_token_id pad_token_id bad_words_ids forced_bos_token_id \
     forced_eos_token_id exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix tf_legacy_loss \
     decoder_start_token_id cross_attention_hidden_size tie_word_embeddings ";
