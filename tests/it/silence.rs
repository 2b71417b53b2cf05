//! Nothing in a file is ignored silently: a key or tensor that the network does not use either is known to have no
//! effect, and then changes no bit, or is rejected by name before a matrix is read.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use realizar::engine::{self, CacheParams, LoadParams, Model, Runtime, Session};
use realizar::error::{Error, Result};
use realizar::quant;

use crate::support::gguf::{Gguf, Value};
use crate::support::models;
use crate::support::reference::relative_rms;
use crate::support::save;
use crate::support::tiny::{self, PROMPT, Tiny, inv_freq};

/// A network of an architecture, as small as its rules allow.
fn tiny(name: &str) -> Tiny {
    let all = tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32));
    all.into_iter().find(|(known, _)| *known == name).expect("an architecture").1
}

fn runtime() -> Arc<Runtime> {
    models::runtime(1)
}

/// Loads a file; an error comes with whether a matrix was read before it.
fn load(file: &Gguf) -> Result<Arc<Model>, (Error, bool)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    fs::write(&path, file.build().0).unwrap();
    let read = Cell::new(false);
    let mut progress = |_, _| {
        read.set(true);
        true
    };
    let params = LoadParams {
        runtime: Some(runtime()),
        progress: Some(&mut progress),
        options: models::cpu(),
        ..Default::default()
    };
    let model = Model::load(&path, params);
    model.map_err(|e| (e, read.get()))
}

/// The logits after the prompt; panics where the file does not load.
fn logits(what: &str, file: &Gguf) -> Vec<f32> {
    save::logits_of(&load(file).unwrap_or_else(|(e, _)| panic!("{what}: {e}")))
}

/// Changes a file by a key or a tensor of the given name.
type Add = fn(Gguf, &str) -> Gguf;

fn number(f: Gguf, name: &str) -> Gguf {
    f.key(name, 3u32)
}

fn float(f: Gguf, name: &str) -> Gguf {
    f.key(name, 0.75f32)
}

fn factor(f: Gguf, name: &str) -> Gguf {
    f.tensor(name, quant::F32.0, &[1], &7f32.to_le_bytes())
}

fn frequencies(f: Gguf, name: &str) -> Gguf {
    f.tensor(name, quant::F32.0, &[8], &[0x3f; 32])
}

/// An entry of `src/model/no_effect.rs`, an architecture, the full name of the key or tensor.
const NO_EFFECT: &[(&str, &str, &str, Add)] = &[
    ("vocab_size", "llama", "llama.vocab_size", number),
    ("tensor_data_layout", "llama", "llama.tensor_data_layout", |f, k| f.key(k, "Meta AI original pth")),
    ("pooling_type", "qwen3", "qwen3.pooling_type", number),
    ("classifier.output_labels", "qwen3", "qwen3.classifier.output_labels", |f, k| f.key(k, vec!["yes", "no"])),
    ("rope.scaling.finetuned", "llama", "llama.rope.scaling.finetuned", |f, k| f.key(k, true)),
    ("attn_logit_softcapping", "llama", "llama.attn_logit_softcapping", float),
    ("final_logit_softcapping", "llama", "llama.final_logit_softcapping", float),
    ("router_logit_softcapping", "qwen3moe", "qwen3moe.router_logit_softcapping", float),
    ("expert_group_scale", "llama", "llama.expert_group_scale", float),
    ("token_shift_count", "phi3", "phi3.token_shift_count", number),
    ("activation.situ_beta", "llama", "llama.activation.situ_beta", float),
    ("deepstack_mapping", "qwen3", "qwen3.deepstack_mapping", |f, k| f.key(k, vec![-1, 2])),
    ("attention.rope_pattern", "llama", "llama.attention.rope_pattern", |f, k| f.key(k, vec![true, false])),
    ("attention.indexer.kpool_select_tail", "llama", "llama.attention.indexer.kpool_select_tail", number),
    ("attention.key_length_swa", "gemma3", "gemma3.attention.key_length_swa", number),
    ("attention.value_length_swa", "gemma3", "gemma3.attention.value_length_swa", number),
    ("rope.dimension_count_swa", "gemma2", "gemma2.rope.dimension_count_swa", number),
    ("rope.freq_base_swa", "llama", "llama.rope.freq_base_swa", float),
    ("expert_used_count", "llama", "llama.expert_used_count", number),
    ("expert_feed_forward_length", "llama", "llama.expert_feed_forward_length", number),
    ("attention.causal", "llama", "llama.attention.causal", |f, k| f.key(k, true)),
    (".input_scale", "llama", "blk.0.attn_q.input_scale", factor),
    (".rotary_emb.inv_freq", "llama", "blk.1.attn.rotary_emb.inv_freq", frequencies),
    ("rope.freqs", "llama", "rope.freqs", frequencies),
    ("cls.", "llama", "cls.output.bias", factor),
    // Of the norms that a network does not have.
    ("attention.layer_norm_epsilon", "llama", "llama.attention.layer_norm_epsilon", float),
    ("attention.layer_norm_rms_epsilon", "gpt2", "gpt2.attention.layer_norm_rms_epsilon", float),
    // A number that is looked at alone.
    ("context_length", "llama", "llama.context_length", |mut f, k| {
        f.keys.retain(|(name, _)| name != k);
        f.key(k, 4096u32)
    }),
];

#[test]
fn what_has_no_effect_changes_no_bit() {
    let mut known: HashMap<&str, (Gguf, Vec<f32>)> = HashMap::new();
    for (entry, architecture, name, add) in NO_EFFECT {
        let (_, expected) = known.entry(architecture).or_insert_with(|| {
            let file = tiny(architecture).file().0;
            let expected = logits(architecture, &file);
            (file, expected)
        });
        let file = add(tiny(architecture).file().0, name);
        assert!(logits(entry, &file) == *expected, "{entry} of {architecture}");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/no_effect.rs");
    let source = fs::read_to_string(source).unwrap();
    let entries: Vec<&str> =
        source.lines().filter_map(|line| line.strip_prefix("    (\"")?.split('"').next()).collect();
    assert!(entries.len() > 20);
    for entry in entries {
        assert!(NO_EFFECT.iter().any(|(tested, ..)| *tested == entry), "no test of {entry}");
    }
}

#[test]
fn what_nothing_is_known_about_is_refused_before_a_matrix_is_read() {
    let bools = |f: Gguf, k: &str| f.key(k, vec![true, false, true]);
    let cases: &[(&str, &str, Add, &str)] = &[
        ("llama", "blk.0.attn_q.foo", factor, "the tensor blk.0.attn_q.foo has no place"),
        ("llama", "blk.0.unknown.weight", factor, "the tensor blk.0.unknown.weight has no place"),
        ("llama", "blk.2.attn_q.weight", factor, "the tensor blk.2.attn_q.weight has no place"),
        ("llama with experts", "blk.0.ffn_gate_exps.foo", factor, "the tensor blk.0.ffn_gate_exps.foo has no place"),
        ("llama", "rope_factors_long.weight", factor, "the tensor rope_factors_long.weight has no place"),
        ("llama", "blk.0.attn_q.scale", |f, k| f.tensor(k, 0, &[1], &[0; 4]), "the tensor blk.0.attn_q.scale is 0"),
        ("llama", "llama.some_new_thing", number, "llama.some_new_thing is 3"),
        ("llama", "llama.some_new_thing", |f, k| f.key(k, "on"), "llama.some_new_thing is on"),
        ("llama", "llama.some_new_thing", |f, k| f.key(k, vec![0.0f32, 2.0]), "llama.some_new_thing is [2 floats]"),
        ("llama", "llama.attention.clamp_kqv", float, "llama.attention.clamp_kqv is 0.75"),
        ("llama", "llama.attention.causal", |f, k| f.key(k, false), "llama.attention.causal is false"),
        (
            "llama",
            "llama.rope.scaling.type",
            |f, k| f.key(k, "spiral"),
            "llama.rope.scaling.type is spiral, which llama does not support; known are none, linear, ",
        ),
        ("llama", "llama.rope.scaling.type", |f, k| f.key(k, "longrope"), "llama.rope.scaling.type is longrope"),
        ("phi3", "phi3.rope.scaling.type", |f, k| f.key(k, "longrope"), "phi3.rope.scaling.type is longrope"),
        ("qwen3", "qwen3.attention.sliding_window", number, "qwen3.attention.sliding_window is 3"),
        ("llama with experts", "llama.expert_gating_func", |f, k| f.key(k, 2u32), "llama.expert_gating_func is 2"),
        (
            "glm4moe",
            "glm4moe.expert_gating_func",
            |f, k| f.key(k, 3u32),
            "glm4moe.expert_gating_func is 3, which glm4moe does not support; known are 1 (softmax), 2 (sigmoid)",
        ),
        ("qwen3moe", "qwen3moe.expert_gating_func", |f, k| f.key(k, 2u32), "qwen3moe.expert_gating_func is 2"),
        ("gemma2", "gemma2.attention.sliding_window_pattern", bools, "sliding_window_pattern is [3 booleans]"),
        (
            "gemma3",
            "gemma3.attention.sliding_window_pattern",
            |f, k| f.key(k, vec![1u32, 0]),
            "sliding_window_pattern is [2 integers]",
        ),
    ];
    for (architecture, name, add, message) in cases {
        let file = add(tiny(architecture).file().0, name);
        let started = Instant::now();
        let (error, read) = load(&file).err().unwrap_or_else(|| panic!("{name} of {architecture} was not refused"));
        assert!(started.elapsed() < Duration::from_secs(1), "{name}");
        assert!(matches!(&error, Error::Unsupported(text) if text.contains(message)), "{name}: {error}");
        assert!(!read, "{name}: a matrix was read");
    }
}

/// Keys that may be left out.
const OPTIONAL: &[&str] = &[
    "attention.compress_rope_freq_base",
    "decoder_block_count",
    "hash_layer_count",
    "classifier.activation",
    "classifier.layers_ahead",
    "classifier.pooling_type",
    "token_embedding_length",
    "feed_forward.gate_scale",
    "feed_forward.output_scale",
    "ssm.input_scales",
    "ssm.beta_scale",
    "ssm.norm_epsilon",
    "ssm.output_scale",
    "hidden_activation",
    "moe_every_n_layers",
    "pooling_type",
    "attention.max_alibi_bias",
    "altup.num_inputs",
    "altup.active_idx",
    "attention.output_scale",
    "attention.temperature_length",
    "attention.temperature_scale",
    "attention.value_scale",
    "leading_dense_block_count",
    "num_loops",
    "skip_loop_final_norm",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_feed_forward_length",
    "expert_weights_scale",
    "n_deepstack_layers",
    "nextn_predict_layers",
    "target_layers",
    "target_hidden_size",
    "norm_before_fc",
    "norm_before_residual",
    "norm_output",
    "fc_norm",
    "masked_embd",
    "masked_embd_top_k",
    "rope.dimension_sections",
    "rope.scaling.yarn_log_multiplier",
    "attention.recurrent_layers",
    "ssm.group_count",
    "rope.scaling.alpha",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "attn_logit_softcapping",
    "context_length",
    "embedding_scale",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_weights_norm",
    "embedding_length_out",
    "ple.image_token_id",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.high_freq_factor",
    "rope.scaling.low_freq_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.dimension_count_swa",
    "expert_group_scale",
    "attn_res.block_size",
    "expert_latent_length",
    "rescale_every_n_layers",
    "hyper_connection.epsilon",
    "hyper_connection.magnitude",
];

/// Keys whose values for "unset" are rejected, or are ordinary values.
const NOT_OPTIONAL: &[&str] = &[
    "vocab_size",
    "embedding_length_out",
    "hidden_act",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "block_count",
    "embedding_length",
    "attention.head_count",
    "feed_forward_length",
    "expert_count",
    "expert_used_count",
    "attention.causal",
    "rope.scaling.finetuned",
    "use_parallel_residual",
    "post_norms",
    "attention.clamp_kqv",
    "rope.scaling.yarn_truncate",
    "full_attention_interval",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.dt_b_c_rms",
    "kda.head_dim",
    "kda.safe_gate",
    "attention.indexer.head_count",
    "attention.indexer.key_length",
    "attention.indexer.top_k",
    "attention.indexer.block_size",
    "attention.indexer.local_blocks",
    "experts_per_group",
    "expert_chunk_feed_forward_length",
    "hrm.layers_per_stack",
    "hrm.h_cycles",
    "hrm.l_cycles",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "attention.shared_kv_layers",
    "embedding_length_per_layer_input",
    "wkv.head_size",
    "attention.indexer.types",
    "attention.compress_ratios",
    "attention.output_group_count",
    "decoder_start_token_id",
    "hyper_connection.low_rank",
    "ple.ngram_size",
    "ple.heads_per_ngram",
    "ple.conv_kernel",
    "ple.eos_token_id",
];

type Set = Box<dyn Fn(Gguf, &str) -> Gguf>;

/// Sets a key to a value.
fn with(value: impl Value + Clone + 'static) -> Set {
    Box::new(move |f, name| f.key(name, value.clone()))
}

#[test]
fn unset_values_read_as_absent_ones() {
    const JOINED: &str = "deepseek2 with one tensor for keys and values";
    let unset = [
        with(0u32),
        with(-1i32),
        with(u32::MAX),
        with(0f32),
        with(-1f32),
        with(""),
        with(Vec::<u32>::new()),
        with(vec![0i32; 3]),
        with(vec![-1i32; 3]),
        with(vec![0f32; 3]),
        with(vec![false; 3]),
    ];
    for (name, mut tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32)) {
        let has_mixers = !tiny.net.mixers.is_empty();
        if let Some(moe) = &mut tiny.net.moe {
            moe.ffn = tiny.net.ffn;
        }
        let full = |key: &str| format!("{}.{key}", tiny.architecture);
        // GPT-2 has as many positions as it says, Llama 4 without chunks is another network, heads tell which layers of
        // a network are recurrent, and layers without their shapes are others.
        let values = [
            ("gpt2", "context_length"),
            ("llama4", "attention.sliding_window"),
            ("openelm", "attention.head_count_kv"),
            ("openelm", "attention.key_length"),
            ("openelm", "attention.value_length"),
            ("deci", "attention.head_count_kv"),
            ("deepseek2", "rope.dimension_count"),
            (JOINED, "rope.dimension_count"),
            (JOINED, "attention.key_length"),
            (JOINED, "attention.value_length"),
            (JOINED, "attention.value_length"),
            ("minicpm3", "rope.dimension_count"),
            ("minicpm3", "attention.key_length"),
            ("minicpm3", "attention.value_length"),
            ("gemma4", "attention.head_count_kv"),
            ("gemma4", "attention.key_length"),
            ("gemma4", "attention.value_length"),
            ("gemma4", "attention.sliding_window_pattern"),
        ];
        let of_mixers = ["attention.head_count_kv", "ssm.group_count"];
        let needed = |key: &str| values.contains(&(name, key)) || has_mixers && of_mixers.contains(&key);
        let optional = || OPTIONAL.iter().filter(|key| !needed(key));
        let file = || {
            let mut file = tiny.file().0;
            file.keys.retain(|(key, _)| !optional().any(|optional| *key == full(optional)));
            file
        };
        let expected = logits(name, &file());
        for (i, unset) in unset.iter().enumerate() {
            let file = optional().fold(file(), |file, key| unset(file, &full(key)));
            assert!(logits(&format!("{name}, value {i}"), &file) == expected, "{name}, value {i}");
        }
    }
}

/// Numbers that are none, or so large or small that results would be none, are rejected by their key, and so is an
/// epsilon that a network needs and the file lacks.
#[test]
fn numbers_that_no_network_has_are_refused_by_key() {
    let tiny = tiny("llama");
    let with = |key: &str, value: Option<f32>| {
        let (mut file, key) = (tiny.file().0, format!("llama.{key}"));
        file.keys.retain(|(known, _)| *known != key);
        let file = if let Some(value) = value { file.key(&key, value) } else { file };
        load(&file).err().map(|(e, read)| (e.to_string(), read))
    };
    for key in ["attention.layer_norm_rms_epsilon", "rope.freq_base", "attention.scale"] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -7.0, 1e31, 1e-41] {
            let (error, read) = with(key, Some(value)).unwrap_or_else(|| panic!("{key} {value} is taken"));
            assert!(error.contains(key) && !read, "{key} {value}: {error}");
        }
    }
    // A bound below all numbers is none; any other one is a key that this architecture does not read.
    assert!(with("kda.gate_lower_bound", Some(f32::NEG_INFINITY)).is_none());
    assert!(with("kda.gate_lower_bound", Some(-5.0)).unwrap().0.contains("llama.kda.gate_lower_bound"));
    let (error, _) = with("attention.layer_norm_rms_epsilon", None).unwrap();
    assert!(error.contains("\"llama.attention.layer_norm_rms_epsilon\" is missing"), "{error}");
    let (error, _) = with("feed_forward_length", None).unwrap();
    assert!(error.contains("\"llama.feed_forward_length\" is missing"), "{error}");
    let mut file = tiny.file().0;
    file = file.key("llama.nextn_predict_layers", 1u32);
    let (error, _) = load(&file).err().unwrap();
    assert!(error.to_string().contains("llama.nextn_predict_layers"), "{error}");
}

/// Keys of numbers that enter results.
const NUMBERS: &[&str] = &[
    "attention.clamp_kqv",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.max_alibi_bias",
    "altup.num_inputs",
    "altup.active_idx",
    "attention.output_scale",
    "attention.scale",
    "attention.temperature_scale",
    "attention.value_scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "expert_weights_scale",
    "feed_forward.gate_scale",
    "feed_forward.output_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_log_multiplier",
    "router_logit_softcapping",
    "ssm.beta_scale",
    "ssm.norm_epsilon",
    "ssm.output_scale",
];

/// No number under any key makes a network compute NaN or infinity: it is rejected by its key, or changes nothing. All
/// keys have the number at first; each one that is rejected is left out next.
#[test]
fn no_number_makes_results_that_are_none() {
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32)) {
        for value in [f32::NAN, f32::INFINITY, 1e31, 1e-41] {
            let mut keys = NUMBERS.to_vec();
            let model = loop {
                let mut file = tiny.file().0;
                for key in &keys {
                    let full = format!("{}.{key}", tiny.architecture);
                    file.keys.retain(|(known, _)| *known != full);
                    file = file.key(&full, value);
                }
                let (error, read) = match load(&file) {
                    Ok(model) => break model,
                    Err((error, read)) => (error.to_string(), read),
                };
                let named = keys.iter().copied().filter(|key| error.contains(key)).max_by_key(|key| key.len());
                let named = named.unwrap_or_else(|| panic!("{name}, {value}: {error}"));
                assert!(!read, "{name}, {named} {value}: {error}");
                keys.retain(|key| *key != named);
            };
            let finite = save::logits_of(&model).iter().all(|x| x.is_finite());
            assert!(finite, "{name}, {value} under {keys:?}: logits that are no numbers");
        }
    }
}

/// A layer that would predict is never one of the network's own.
#[test]
fn an_ordinary_layer_is_not_taken_for_one_that_predicts() {
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32)) {
        let (mut file, full) = (tiny.file().0, format!("{}.nextn_predict_layers", tiny.architecture));
        if file.keys.iter().any(|(known, _)| *known == full) {
            continue;
        }
        file = file.key(&full, 1u32);
        let (error, _) = load(&file).err().unwrap_or_else(|| panic!("{name}: a layer is dropped"));
        assert!(error.to_string().contains("nextn_predict_layers"), "{name}: {error}");
    }
}

/// A file that lacks a key loads with a default, or is rejected by the name of the key.
#[test]
fn missing_keys_are_named() {
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32)) {
        let keys: Vec<String> = tiny.file().0.keys.iter().map(|(key, _)| key.clone()).collect();
        let prefix = format!("{}.", tiny.architecture);
        for key in keys.iter().filter(|key| key.starts_with(&prefix)) {
            let mut file = tiny.file().0;
            file.keys.retain(|(known, _)| known != key);
            if let Err((error, _)) = load(&file) {
                let error = error.to_string();
                assert!(!error.contains(" is ,"), "{name} without {key}: {error}");
            }
        }
    }
}

#[test]
fn every_key_that_networks_read_is_known_to_these_tests() {
    let mut files = vec![];
    for folder in ["src/model", "src/model/arch", "src/model/builder"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        files.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    }
    let mut found = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for method in [
            "size(\"",
            "sizes(\"",
            "float(\"",
            "bool(\"",
            "flag(\"",
            "str(\"",
            "get(\"",
            "required(\"",
            "taps(\"",
            "width(\"",
            "per_layer(\"",
        ] {
            for key in text.split(method).skip(1).filter_map(|rest| rest.split('"').next()) {
                let known = OPTIONAL.contains(&key) || NOT_OPTIONAL.contains(&key);
                assert!(known || key.starts_with("realizar.") || key.starts_with("general."), "{key} of {file:?}");
                found += 1;
            }
        }
    }
    assert!(found > 30, "{found}");
}

/// Compares a network with the reference.
fn check(name: &str, tiny: &Tiny) {
    let (_dir, path, reference) = save::save(tiny);
    let expected = reference();
    let model = models::load(&path);
    let got = save::logits_of_each(&model, 0, None);
    let difference = relative_rms(&expected, &got);
    assert!(difference < 1e-5, "{name}: {difference}");
}

#[test]
fn biases_and_factors_of_products_agree_with_the_reference() {
    const ATTENTION: &[&str] = &["attn_q", "attn_k", "attn_v", "attn_output"];
    const FFN: &[&str] = &["ffn_gate", "ffn_up", "ffn_down"];
    const ALL: &[&str] = &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let llama = |biases, scales| tiny("llama").change(move |t| (t.biases, t.scales) = (biases, scales));
    check("biases of outputs", &llama(&["attn_output"], &[]));
    check("biases of feed-forward blocks", &llama(FFN, &[]));
    check("factors of attention", &llama(&[], ATTENTION));
    check("factors of feed-forward blocks", &llama(&[], FFN));
    check("biases and factors", &llama(ALL, ALL));
    for name in ["qwen3", "qwen2", "olmo2", "gemma3", "granite"] {
        check(name, &tiny(name).change(|t| (t.biases, t.scales) = (ATTENTION, ATTENTION)));
    }
    check("qwen3, all", &tiny("qwen3").change(|t| (t.biases, t.scales) = (ALL, ALL)));
    check(
        "starcoder2, without a gate",
        &tiny("starcoder2").change(|t| t.scales = &["attn_output", "ffn_up", "ffn_down"]),
    );
}

#[test]
fn phi3_may_have_queries_keys_and_values_apart() {
    check("apart", &tiny("phi3").change(|t| t.fused_qkv = false));
    check("all apart", &tiny("phi3").change(|t| (t.fused_qkv, t.fused_gate_up) = (false, false)));
    check("biases", &tiny("phi3").change(|t| t.biases = &["attn_qkv", "attn_output"]));
}

#[test]
fn lists_of_windows_may_be_integers_or_booleans() {
    for (name, windowed) in
        [("gemma2", vec![false, true]), ("gemma3", vec![true, true, false, true, true, false, false])]
    {
        let file = || tiny(name).file().0;
        let key = format!("{name}.attention.sliding_window_pattern");
        let bools = logits(name, &file().key(&key, windowed.clone()));
        let ints: Vec<u32> = windowed.iter().map(|w| u32::from(*w)).collect();
        assert!(logits(name, &file().key(&key, ints)) == bools, "{name}");
        let none = logits(name, &file().key(&key, vec![false; windowed.len()]));
        let default = logits(name, &file());
        assert!(bools != none && bools != default && none != default, "{name}: the windows change nothing");
        // The reference of the list.
        let mut tiny = tiny(name);
        tiny.net.window = windowed.iter().map(|w| if *w { 8 } else { 0 }).collect();
        if name == "gemma3" {
            let base = |window: &usize| if *window == 0 { 1e6 } else { 10_000.0 };
            tiny.net.inv_freq = tiny.net.window.iter().map(|w| inv_freq(base(w), tiny.net.head_dim)).collect();
        }
        let (_, net, weights) = tiny.file();
        let expected = net.forward(&weights, &PROMPT).pop().unwrap();
        assert!(relative_rms(&[expected], &[bools]) < 1e-5, "{name}");
    }
}

#[test]
fn windows_of_olmo3_turn_without_scaling() {
    check(
        "olmo3",
        &tiny("olmo2").layers(5).change(|t| {
            t.net.window = vec![8, 8, 8, 0, 8];
            let plain = inv_freq(t.rope_base, t.net.head_dim);
            let scaled: Vec<f64> = plain.iter().map(|f| f / 4.0).collect();
            t.net.inv_freq = t.net.window.iter().map(|w| if *w == 0 { &scaled } else { &plain }).cloned().collect();
            t.ints = vec![("attention.sliding_window", 8)];
            t.strings = vec![("rope.scaling.type", "linear")];
            t.floats = vec![("rope.scaling.factor", 4.0)];
        }),
    );
}

#[test]
fn a_batch_after_a_long_rewind_is_each_token_alone() {
    let model = load(&tiny("gemma3").file().0).map_err(|(e, _)| e).unwrap();
    // Longer than the ring of a layer that sees 8 tokens.
    let ids: Vec<u32> = (0..2000).map(|i| i * 7 % 300).collect();
    let params = CacheParams { capacity: 2100, ..Default::default() };
    let filled = |tokens: &[u32]| {
        let mut session = Session::new(&model, &params).unwrap();
        session.prefill(tokens, None).unwrap();
        session
    };
    let keeps = [5usize, 400, 1999];
    let expected: Vec<(u32, Vec<f32>)> = keeps
        .iter()
        .map(|&keep| {
            let mut session = filled(&ids[..keep]);
            let next = session.decode(ids[keep], None).unwrap();
            session.fetch_logits().unwrap();
            (next, session.logits().unwrap().to_vec())
        })
        .collect();
    let mut sessions: Vec<Session> = keeps
        .iter()
        .map(|&keep| {
            let mut session = filled(&ids);
            session.truncate(keep as u32).unwrap();
            session
        })
        .collect();
    let tokens = keeps.map(|keep| ids[keep]);
    let mut next = [0; 3];
    let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
    engine::decode_batch(&mut together, &tokens, &mut [const { None }; 3], &mut next).unwrap();
    for (((session, next), (token, logits)), keep) in sessions.iter().zip(next).zip(&expected).zip(keeps) {
        assert_eq!(next, *token, "rewound to {keep}");
        assert!(session.logits().unwrap() == *logits, "rewound to {keep}");
    }
}
