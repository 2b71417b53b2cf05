//! Networks from before Llama: LayerNorm, ungated feed-forward blocks, biases.

use super::common::{EXACT_GELU, PLAIN};
use crate::error::{Result, try_vec};
use crate::format::hf::translator::KeyType::{Bool, Int};
use crate::format::hf::translator::{Family, HEADS, Translator, WIDTH};
use crate::format::hf::{known, rope};
use crate::format::value::narrow;
use crate::format::{TensorInfo, Value};
use crate::tensor::Shape;

const TRANSPOSED: &[&str] = &["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"];

const GPT_NEO_NAMES: &[(&str, &str)] = &[
    ("attn.attention.q_proj", "attn_q"),
    ("attn.attention.k_proj", "attn_k"),
    ("attn.attention.v_proj", "attn_v"),
    ("attn.attention.out_proj", "attn_output"),
];

const GPT_J_NAMES: &[(&str, &str)] =
    &[("attn.qkv_proj", "attn_qvk"), ("mlp.fc_in", "ffn_up"), ("mlp.fc_out", "ffn_down")];

/// fairseq's models.
const FAIRSEQ_NAMES: &[(&str, &str)] = &[
    ("decoder.embed_tokens", "token_embd"),
    ("decoder.embed_positions", "position_embd"),
    ("decoder.final_layer_norm", "output_norm"),
    ("decoder.project_in", "token_embd_proj"),
    ("decoder.project_out", "output_proj"),
    ("embed_positions", "position_embd"),
    ("layer_norm", "output_norm"),
    ("self_attn_layer_norm", "attn_norm"),
    ("final_layer_norm", "ffn_norm"),
    ("fc1", "ffn_up"),
    ("fc2", "ffn_down"),
];

/// Index of the first token's position embedding in fairseq's models.
const FIRST_POSITION: u64 = 2;

/// Maximum size of a computed position table.
const MAX_TABLE: u64 = 1 << 26;

pub const ALL: &[Family] = &[
    Family {
        model_types: &["gpt2"],
        arch: "gpt2",
        activations: &["gelu_new"],
        defaults: "",
        transposed: TRANSPOSED,
        ..PLAIN
    },
    Family {
        model_types: &["openai-gpt"],
        arch: "openai-gpt",
        activations: &["gelu_new"],
        defaults: "",
        effectless: "n_special predict_special_tokens",
        extras: |t| {
            t.set("post_norms", Some(true));
            // Its name of GELU's approximation.
            t.expect_text("afn", &["gelu"])
        },
        transposed: TRANSPOSED,
        names: &[&[("tokens_embed", "token_embd"), ("positions_embed", "position_embd")]],
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
        rotary_part: &["partial_rotary_factor", "rotary_pct"],
        ..EXACT_GELU
    },
    Family {
        model_types: &["gpt_neo"],
        arch: "gpt-neo",
        activations: &["gelu_new"],
        defaults: "window_size=256",
        effectless: "resid_dropout",
        extras: gpt_neo,
        names: &[GPT_NEO_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["gptj", "codegen"],
        arch: "gptj",
        activations: &["gelu_new"],
        defaults: "rope_theta=1e4 rotary_dim=64",
        effectless: "rotary",
        adjacent: true,
        names: &[GPT_J_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["opt"],
        arch: "opt",
        activations: &["relu"],
        defaults: "max_position_embeddings=2048",
        // The tensors determine which products have biases.
        effectless: "enable_bias",
        extras: opt,
        names: &[FAIRSEQ_NAMES],
        ..PLAIN
    },
    Family {
        model_types: &["xglm"],
        arch: "xglm",
        defaults: "max_position_embeddings=2048",
        extras: xglm,
        names: &[FAIRSEQ_NAMES],
        grouped_qkv: false,
        ..EXACT_GELU
    },
    Family {
        model_types: &["biogpt"],
        arch: "biogpt",
        epsilon: 1e-12,
        defaults: "max_position_embeddings=1024",
        extras: |t| {
            t.facts.first_position = FIRST_POSITION;
            scaled_embedding(t)
        },
        names: &[FAIRSEQ_NAMES],
        grouped_qkv: false,
        ..EXACT_GELU
    },
    Family {
        model_types: &["persimmon"],
        arch: "persimmon",
        activations: &["relu2"],
        defaults: "rope_theta=1e4 partial_rotary_factor=0.5",
        // The tensors determine whether there is QK norm.
        effectless: "qk_layernorm",
        grouped_qkv: true,
        names: &[&[("self_attn.query_key_value", "attn_qkv")]],
        ..PLAIN
    },
    Family { model_types: &["falcon"], arch: "falcon", extras: multi_query, ..EXACT_GELU },
    Family {
        model_types: &["gpt_bigcode"],
        arch: "starcoder",
        activations: &["gelu_pytorch_tanh"],
        defaults: "",
        effectless: "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner validate_runner_input \
                     pre_allocate_kv_cache max_batch_size",
        extras: multi_query,
        ..EXACT_GELU
    },
    Family {
        model_types: &["mpt"],
        arch: "mpt",
        keys: &[&[("context_length", Int, &["max_seq_len"])]],
        defaults: "",
        effectless: "no_bias emb_pdrop init_device init_config verbose embedding_fraction tokenizer_name",
        extras: mpt,
        grouped_qkv: false,
        ..EXACT_GELU
    },
    Family {
        model_types: &["bloom"],
        arch: "bloom",
        activations: &["gelu_pytorch_tanh"],
        defaults: "",
        effectless: "attention_softmax_in_fp32 masked_softmax_fusion bias_dropout_fusion skip_bias_add \
                     skip_bias_add_qkv seq_length offset_alibi unk_token_id slow_but_exact",
        exact_gelu: false,
        ..EXACT_GELU
    },
];

/// GPT-Neo: unscaled scores, and windows in layers of the kinds in a repeating list.
fn gpt_neo(t: &mut Translator) -> Result<()> {
    let n = usize::try_from(t.n_layers()?).unwrap_or(0);
    let wrong = || t.config.wrong("attention_types", "lists of \"global\" and \"local\" with their repetitions");
    let mut windowed: Vec<bool> = try_vec("layers", n)?;
    match t.config.list(&["attention_types"])? {
        Some(list) => {
            for entry in list {
                let Some([kinds, times]) = entry.as_array() else { return Err(wrong()) };
                let (kinds, times) = kinds.as_array().zip(times.as_u64()).ok_or_else(wrong)?;
                let left = n.saturating_sub(windowed.len()) as u64;
                if (kinds.len() as u64).checked_mul(times).is_none_or(|all| all == 0 || all > left) {
                    return Err(wrong());
                }
                for kind in (0..times).flat_map(|_| kinds) {
                    let known = ["global", "local"].iter().position(|known| kind.as_str() == Some(known));
                    windowed.push(known.ok_or_else(wrong)? == 1);
                }
            }
        }
        None => windowed.extend((0..n).map(|i| i % 2 == 1)),
    }
    if windowed.len() != n {
        return Err(wrong());
    }
    // It repeats them one by one.
    t.config.skip(&["attention_layers"]);
    t.set("attention.scale", Some(1.0));
    t.set("attention.sliding_window", t.int(&["window_size"])?);
    t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
    Ok(())
}

/// OPT. The 350M is post-norm, with a narrower embedding.
fn opt(t: &mut Translator) -> Result<()> {
    t.facts.first_position = FIRST_POSITION;
    t.expect("_remove_final_layer_norm", false)?;
    t.expect("layer_norm_elementwise_affine", true)?;
    t.set("post_norms", t.config.bool(&["do_layer_norm_before"])?.map(|before| !before));
    t.set("token_embedding_length", t.int(&["word_embed_proj_dim"])?);
    Ok(())
}

/// XGLM: sinusoidal instead of learned positions.
fn xglm(t: &mut Translator) -> Result<()> {
    scaled_embedding(t)?;
    let (n, width) = (t.size("max_position_embeddings")?, t.size("d_model")?);
    let half = width / 2;
    let Some(len) = n.checked_mul(width).filter(|len| *len <= MAX_TABLE && half > 1 && width == 2 * half) else {
        return Err(t.config.unsupported(&format!("a table of {n} positions of width {width}")));
    };
    let mut values = try_vec("positions", usize::try_from(len).unwrap_or(0))?;
    for position in FIRST_POSITION..FIRST_POSITION + n {
        let angle = |i: u64| position as f64 * libm::pow(1e-4, i as f64 / (half - 1) as f64);
        values.extend((0..half).map(|i| narrow(libm::sin(angle(i)))));
        values.extend((0..half).map(|i| narrow(libm::cos(angle(i)))));
    }
    let table = rope::tensor_of("position_embd.weight", &values)?;
    t.made.push(TensorInfo { shape: Shape::new(&[n, width])?, ..table });
    Ok(())
}

fn scaled_embedding(t: &mut Translator) -> Result<()> {
    let scales = t.config.bool(&["scale_embedding"])?.unwrap_or(true);
    let root = t.int(WIDTH)?.map(|width| (width as f64).sqrt());
    t.set("embedding_scale", root.filter(|_| scales));
    Ok(())
}

/// Falcon and the first StarCoder: one KV head for all, for groups, or per head.
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

/// Members of MPT's object without effect: computation details, and defaults by transformers.
const ATTENTION_OF_MPT: &str = " \
     attn_impl attn_pdrop model_type bos_token_id eos_token_id pad_token_id bad_words_ids forced_bos_token_id \
     forced_eos_token_id exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix tf_legacy_loss \
     decoder_start_token_id cross_attention_hidden_size tie_word_embeddings ";
