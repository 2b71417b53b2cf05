//! One adapter as written by PEFT and as a GGUF file, for one model from a folder and from a GGUF file: all four
//! combinations agree with merged weights. Names and orders of PEFT's tensors are those of the checkpoint's modules.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{Checkpoint, architectures, checkpoint, halves, save, tensors, to_f32};
use crate::support::adapter_file::gguf;
use crate::support::adapters::{Factors, merge};
use crate::support::models;
use crate::support::reference::{Weights, relative_rms};
use crate::support::safetensors;
use crate::support::save::logits_of_each;
use crate::support::tiny::{PROMPT, Rng, Tiny};
use realizar::engine::{Adapter, Model};
use realizar::error::Error;
use realizar::quant;
use serde_json::{Value, json};

/// The parts of a layer, under the names of GGUF, that a module of a checkpoint is.
const MODULES: &[(&str, &[&str])] = &[
    ("self_attn.q_proj", &["attn_q"]),
    ("self_attn.k_proj", &["attn_k"]),
    ("self_attn.v_proj", &["attn_v"]),
    ("self_attn.qkv_proj", &["attn_q", "attn_k", "attn_v"]),
    ("attn.c_attn", &["attn_q", "attn_k", "attn_v"]),
    ("self_attn.o_proj", &["attn_output"]),
    ("attn.c_proj", &["attn_output"]),
    ("mlp.gate_proj", &["ffn_gate"]),
    ("mlp.up_proj", &["ffn_up"]),
    ("mlp.c_fc", &["ffn_up"]),
    ("mlp.gate_up_proj", &["ffn_gate", "ffn_up"]),
    ("mlp.down_proj", &["ffn_down"]),
    ("mlp.c_proj", &["ffn_down"]),
    ("block_sparse_moe.gate", &["ffn_gate_inp"]),
    ("mlp.gate", &["ffn_gate_inp"]),
];

/// Factors for each module of a checkpoint, with its name.
fn factors(c: &Checkpoint, tiny: &Tiny, rank: impl Fn(&str) -> usize) -> Vec<(String, Factors)> {
    let (_, net, weights) = tiny.build();
    let rng = &mut Rng(11);
    let mut list = Vec::new();
    for (full, dims, _) in tensors(c, tiny, &net, &weights) {
        let Some(module) = full.strip_suffix(".weight").filter(|_| dims.len() == 2) else { continue };
        let (layer, module) = module.split_once("layers.").or(module.split_once("h.")).unwrap_or_default();
        let Some((number, module)) = module.split_once('.').filter(|_| layer.len() < 20) else { continue };
        let Some((_, parts)) = MODULES.iter().find(|row| row.0 == module) else { continue };
        let cols = match parts[0] {
            "attn_output" => net.heads * net.head_dim,
            "ffn_down" => net.ffn,
            _ => net.hidden,
        };
        let name = match **parts {
            [one] => one,
            ["ffn_gate", _] => "ffn_up",
            _ => "attn_qkv",
        };
        let of = |part: &str| format!("blk.{number}.{part}.weight");
        let parts: Vec<(String, usize)> =
            parts.iter().map(|part| (of(part), weights[&of(part)].len() / cols)).collect();
        list.push((
            full.trim_end_matches(".weight").to_owned(),
            Factors::new(&of(name), &parts, cols, rank(module), rng),
        ));
    }
    assert!(list.len() >= 4 * net.layers, "{} modules", list.len());
    list
}

/// The configuration that PEFT 0.17 writes.
fn config(r: usize, alpha: f64) -> Value {
    json!({"alpha_pattern": {}, "auto_mapping": null, "base_model_name_or_path": "tiny", "bias": "none",
        "corda_config": null, "eva_config": null, "exclude_modules": null, "fan_in_fan_out": false,
        "inference_mode": true, "init_lora_weights": true, "layer_replication": null, "layers_pattern": null,
        "layers_to_transform": null, "loftq_config": {}, "lora_alpha": alpha, "lora_bias": false, "lora_dropout": 0.05,
        "megatron_config": null, "megatron_core": "megatron.core", "modules_to_save": null, "peft_type": "LORA",
        "qalora_group_size": 16, "r": r, "rank_pattern": {}, "revision": null, "target_modules": ["v_proj", "q_proj"],
        "target_parameters": null, "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_dora": false,
        "use_qalora": false, "use_rslora": false})
}

type Tensor = (String, [u64; 2], Vec<u8>);

/// The factors as PEFT names and orders them.
fn peft_tensors(c: &Checkpoint, head_dim: usize, list: &[(String, Factors)]) -> Vec<Tensor> {
    let mut out = Vec::new();
    for (module, f) in list {
        let mut row = 0;
        let mut b = Vec::new();
        for (name, rows) in &f.parts {
            let part: Vec<f64> = f.b[row * f.rank..(row + rows) * f.rank].iter().map(|v| f64::from(*v)).collect();
            let turns = c.permuted && (name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight"));
            b.extend(if turns { halves(&part, head_dim, f.rank) } else { part });
            row += rows;
        }
        let a: Vec<f64> = f.a.iter().map(|v| f64::from(*v)).collect();
        let name = |which: &str| format!("base_model.model.{module}.lora_{which}.weight");
        out.push((name("A"), [f.rank as u64, f.cols as u64], to_f32(&a)));
        out.push((name("B"), [row as u64, f.rank as u64], to_f32(&b)));
    }
    out
}

fn put(folder: &Path, config: &Value, tensors: &[Tensor]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, dims, bytes)| (name.as_str(), "F32", &dims[..], bytes.clone())).collect();
    fs::write(folder.join("adapter_model.safetensors"), safetensors::file(&tensors)).unwrap();
}

fn merged(tiny: &Tiny, change: impl FnOnce(&mut Weights)) -> Vec<Vec<f64>> {
    let (_, net, mut weights) = tiny.build();
    change(&mut weights);
    net.forward(&weights, &PROMPT)
}

#[test]
fn an_adapter_is_the_same_for_a_folder_and_a_file() {
    for (name, tiny) in architectures(|name| Tiny::new(name, quant::F32)) {
        let (dir, plain) = save(name, &tiny, |_| {});
        let c = checkpoint(name);
        let list = factors(&c, &tiny, |_| 6);
        put(&dir.path().join("peft"), &config(6, 9.0), &peft_tensors(&c, tiny.net.head_dim, &list));
        let list: Vec<Factors> = list.into_iter().map(|(_, factors)| factors).collect();
        let file = gguf(tiny.architecture, &list, 9.0, quant::F32);
        fs::write(dir.path().join("adapter.gguf"), file.build().0).unwrap();
        let expected = merged(&tiny, |weights| merge(weights, &list, 1.5));
        let mut found = Vec::new();
        for model in ["folder", "tiny.gguf"] {
            let model = models::load(&dir.path().join(model));
            for adapter in ["peft", "adapter.gguf"] {
                let logits = logits_of_each(&model, 0, Some(&dir.path().join(adapter)));
                found.push(relative_rms(&expected, &logits));
                assert!(relative_rms(&plain, &logits) > 0.05, "{name}");
            }
        }
        println!("{name:20} {}", found.iter().map(|x| format!("{x:.1e}")).collect::<Vec<_>>().join("  "));
        assert!(found.iter().all(|difference| *difference < 1e-5), "{name}: {found:?}");
    }
}

/// A llama from both kinds of files, and a folder for adapters.
struct Llama {
    dir: tempfile::TempDir,
    tiny: Tiny,
    list: Vec<(String, Factors)>,
    model: Arc<Model>,
}

impl Llama {
    /// Modules of different ranks.
    fn new() -> Llama {
        let tiny = Tiny::new("llama", quant::F32);
        let dir = save("llama", &tiny, |_| {}).0;
        let rank = |module: &str| if module.ends_with("v_proj") { 3 } else { 8 };
        let (list, model) = (factors(&checkpoint("llama"), &tiny, rank), models::load(&dir.path().join("tiny.gguf")));
        Llama { dir, tiny, list, model }
    }

    fn tensors(&self) -> Vec<Tensor> {
        peft_tensors(&checkpoint("llama"), 32, &self.list)
    }

    fn put(&self, config: &Value, tensors: &[Tensor]) -> std::path::PathBuf {
        let folder = self.dir.path().join("adapter");
        put(&folder, config, tensors);
        folder
    }

    fn refusal(&self, config: &Value, tensors: &[Tensor]) -> Error {
        Adapter::load(&self.model, &self.put(config, tensors), None).err().expect("a refusal")
    }
}

/// The configuration of modules of different ranks, with some members replaced.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut config = config(8, 4.0);
    config["rank_pattern"] = json!({"v_proj": 3});
    for (key, value) in changes {
        config[*key] = value.clone();
    }
    config
}

#[test]
fn ranks_and_scales_are_those_of_the_configuration() {
    let llama = Llama::new();
    let check = |config: Value, scale: &dyn Fn(&str, usize) -> f64| {
        let found = logits_of_each(&llama.model, 0, Some(&llama.put(&config, &llama.tensors())));
        let expected = merged(&llama.tiny, |weights| {
            llama.list.iter().for_each(|(name, f)| merge(weights, std::slice::from_ref(f), scale(name, f.rank)));
        });
        let difference = relative_rms(&expected, &found);
        assert!(difference < 1e-5, "{config}: {difference}");
    };
    check(with(&[]), &|_, rank| 4.0 / rank as f64);
    check(with(&[("use_rslora", json!(true)), ("lora_alpha", json!(2))]), &|_, rank| 2.0 / (rank as f64).sqrt());
    let alphas = json!({"layers.1.self_attn.v_proj": 1.5, "v_proj": 6.0, "proj": 100.0, "mlp.up_proj": -2});
    check(with(&[("alpha_pattern", alphas)]), &|name, rank| {
        let alpha = match name {
            _ if name.ends_with("layers.1.self_attn.v_proj") => 1.5,
            _ if name.ends_with("v_proj") => 6.0,
            _ if name.ends_with("up_proj") => -2.0,
            _ => 4.0,
        };
        alpha / rank as f64
    });
    // What changes nothing.
    for (key, value) in [
        ("fan_in_fan_out", json!(true)),
        ("init_lora_weights", json!("gaussian")),
        ("target_modules", json!("all-linear")),
        ("modules_to_save", json!([])),
        ("peft_version", json!("0.18.0")),
        ("layers_to_transform", json!([0, 1])),
    ] {
        check(with(&[(key, value)]), &|_, rank| 4.0 / rank as f64);
    }
}

#[test]
fn what_changes_a_result_and_is_not_understood_is_refused_by_name() {
    let llama = Llama::new();
    let tensors = llama.tensors();
    for (key, value, shown) in [
        ("use_dora", json!(true), "true"),
        ("bias", json!("lora_only"), "\"lora_only\""),
        ("lora_bias", json!(true), "true"),
        ("modules_to_save", json!(["lm_head"]), "a list of 1"),
        ("init_lora_weights", json!("pissa"), "\"pissa\""),
        ("layer_replication", json!([[0, 1]]), "a list of 1"),
        ("target_parameters", json!(["mlp.experts.gate_up_proj"]), "a list of 1"),
        ("alora_invocation_tokens", json!([5]), "a list of 1"),
        ("use_qalora", json!(true), "true"),
        ("some_new_key", json!(0.5), "0.5"),
    ] {
        let error = llama.refusal(&with(&[(key, value)]), &tensors);
        let said = error.to_string();
        let named = said.contains(&format!("{key:?}")) && said.contains(shown) && said.contains("adapter_config.json");
        assert!(matches!(error, Error::Unsupported(_)) && named, "{said}");
    }
    for (key, value, shown) in
        [("peft_type", json!("LOHA"), "LOHA"), ("rank_pattern", json!({".*v_proj": 3}), "regular expression")]
    {
        let error = llama.refusal(&with(&[(key, value)]), &tensors);
        assert!(matches!(&error, Error::Unsupported(said) if said.contains(shown)), "{error}");
    }
    for (key, value, shown) in [
        ("r", json!(4), "has rank 8, adapter_config.json says 4"),
        ("r", json!(null), "no r"),
        ("r", json!("8"), "r should be an integer"),
        ("lora_alpha", json!(null), "no lora_alpha"),
        ("lora_alpha", json!(0), "lora_alpha is 0"),
        ("rank_pattern", json!({}), "has rank 3, adapter_config.json says 8"),
        ("rank_pattern", json!([3]), "rank_pattern should be"),
    ] {
        let error = llama.refusal(&with(&[(key, value)]), &tensors);
        assert!(matches!(error, Error::Format { .. }) && error.to_string().contains(shown), "{error}");
    }
    let renamed = |to: &str| {
        let mut tensors = tensors.clone();
        tensors[0].0 = to.to_owned();
        tensors
    };
    for (name, shown) in [
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", "lora_magnitude_vector"),
        ("base_model.model.model.embed_tokens.lora_embedding_A", "lora_embedding_A"),
        ("base_model.model.lm_head.weight", "lm_head.weight"),
        ("model.layers.0.self_attn.q_proj.lora_A.weight", "is no factor"),
        ("base_model.model.model.layers.0.some_proj.lora_A.weight", "without a known meaning"),
        ("base_model.model.model.layers.0.mlp.experts.3.up_proj.lora_A.weight", "expert"),
    ] {
        let error = llama.refusal(&with(&[]), &renamed(name));
        assert!(matches!(&error, Error::Unsupported(said) if said.contains(shown)), "{error}");
    }
    let error = llama.refusal(&with(&[]), &renamed("base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight"));
    assert!(matches!(&error, Error::Format { what, .. } if what.contains("one factor of two")), "{error}");
    let wide: Vec<Tensor> = tensors[..2]
        .iter()
        .map(|(name, [rows, cols], bytes)| match name.contains("lora_B") {
            true => (name.clone(), [2 * rows, *cols], [&bytes[..], &bytes[..]].concat()),
            false => (name.clone(), [*rows, *cols], bytes.clone()),
        })
        .collect();
    let error = llama.refusal(&with(&[]), &wide);
    let said = error.to_string();
    assert!(matches!(error, Error::Mismatch(_)) && said.contains("[512, 256]; it must be [256, 256]"), "{said}");

    // Files that are not there.
    let folder = llama.put(&with(&[]), &tensors);
    let refused = || Adapter::load(&llama.model, &folder, None).err().expect("a refusal");
    fs::rename(folder.join("adapter_model.safetensors"), folder.join("adapter_model.bin")).unwrap();
    assert!(matches!(refused(), Error::Unsupported(said) if said.contains("pickle")));
    fs::remove_file(folder.join("adapter_model.bin")).unwrap();
    assert!(matches!(refused(), Error::Io { .. }));
    fs::remove_file(folder.join("adapter_config.json")).unwrap();
    assert!(matches!(refused(), Error::Io { .. }));
    fs::write(folder.join("adapter_config.json"), "{\"r\": ").unwrap();
    assert!(matches!(refused(), Error::Format { .. }));
}
