//! Drafting heads in separate files: logits and drafts are compared with the reference implementations (`data/heads`);
//! drafts must not change the output.

use std::fs;
#[cfg(cuda)]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(cuda)]
use realizar::cuda;
use realizar::device::{Batch, StepBudget};
use realizar::engine::{CacheParams, EmbedParams, JobParams, LoadOptions, Model, Request, Session};
use realizar::error::Error;
use realizar::format::{Access, Source};
use realizar::graph::step::StepInputs;
use realizar::model::{PredictorOf, arch};
use realizar::quant;
use serde_json::Value;

use crate::support::drafts::{job, passes};
use crate::support::gguf::Gguf;
use crate::support::heads::{
    change_nothing, check_passes, check_tokens, data, drafting, floats, folder, ids, load, load_with, tensors,
};
use crate::support::matrix::halves;
use crate::support::models;
use crate::support::predictor::{LIMITS, backend, spec};
#[cfg(cuda)]
use crate::support::process;
use crate::support::published::{numbers, put_weights, relative_rms, weights, with_key};
use crate::support::safetensors::Folder;
#[cfg(cuda)]
use crate::support::shim;

const HEADS: [&str; 5] = ["eagle", "specforge", "speculators", "shared", "narrow"];

fn target() -> Folder {
    folder(&data("target"), "target.")
}

/// The head in a GGUF file as llama.cpp's converter writes it.
fn gguf(data: &Value, change: impl Fn(Gguf) -> Gguf) -> (tempfile::TempDir, PathBuf) {
    let config: Value = serde_json::from_str(data["config"].as_str().unwrap()).unwrap();
    let mut file = Gguf::new().key("general.architecture", "eagle3").key("eagle3.block_count", 1u32);
    for (key, name) in [
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("vocab_size", "vocab_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
        ("rope.freq_base", "rope_theta"),
    ] {
        file = with_key(file, &format!("eagle3.{key}"), &config[name]);
    }
    file = file.key("eagle3.target_hidden_size", 64u32).key("eagle3.norm_before_residual", false);
    file = with_key(file, "eagle3.target_layers", &data["layers"]);
    for (name, dtype, shape, bytes) in tensors(data, "") {
        let part = name.strip_prefix("midlayer.").unwrap_or(&name);
        let ours = match part {
            "t2d" => continue,
            "norm.weight" => "output_norm.weight",
            "lm_head.weight" => "output.weight",
            "input_layernorm.weight" => "blk.0.attn_norm.weight",
            "hidden_norm.weight" => "blk.0.attn_norm_2.weight",
            "post_attention_layernorm.weight" => "blk.0.ffn_norm.weight",
            "self_attn.q_proj.weight" => "blk.0.attn_q.weight",
            "self_attn.k_proj.weight" => "blk.0.attn_k.weight",
            "self_attn.v_proj.weight" => "blk.0.attn_v.weight",
            "self_attn.o_proj.weight" => "blk.0.attn_output.weight",
            "mlp.gate_proj.weight" => "blk.0.ffn_gate.weight",
            "mlp.up_proj.weight" => "blk.0.ffn_up.weight",
            "mlp.down_proj.weight" => "blk.0.ffn_down.weight",
            other => other,
        };
        if dtype == "I64" {
            // The tokens themselves.
            let tokens = bytes.as_chunks().0.iter().zip(0..).map(|(offset, i)| i64::from_le_bytes(*offset) + i);
            file = file.tensor(ours, 27, &shape, &tokens.flat_map(i64::to_le_bytes).collect::<Vec<_>>());
            continue;
        }
        let mut values: Vec<f64> = bytes.as_chunks().0.iter().map(|x| f64::from(f32::from_le_bytes(*x))).collect();
        if ours.ends_with("attn_q.weight") || ours.ends_with("attn_k.weight") {
            values = paired(&values, 16, shape[1] as usize);
        }
        let bytes: Vec<u8> = values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
        file = file.tensor(ours, quant::F32.0, &shape, &bytes);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("head.gguf");
    fs::write(&path, change(file).build().0).unwrap();
    (dir, path)
}

/// Rows of heads whose pairs are half a head apart, put side by side: what `halves` undoes.
fn paired(values: &[f64], head_dim: usize, cols: usize) -> Vec<f64> {
    let places: Vec<f64> = (0..values.len() / cols).map(|i| i as f64).collect();
    let mut rows = vec![0.0; values.len()];
    for (from, to) in halves(&places, head_dim, 1).into_iter().enumerate() {
        rows[to as usize * cols..][..cols].copy_from_slice(&values[from * cols..][..cols]);
    }
    rows
}

#[test]
fn logits_are_those_of_the_makers_definitions() {
    let (target, of) = (target(), data("target"));
    let prompt = ids(&of["prompt"]);
    let shape = |name: &str| numbers(&of["tensors"][name]);
    let named = |name: &str| weights(&format!("target.{name}"), &shape(name));
    let (table, lm_head) = (named("model.embed_tokens.weight"), named("lm_head.weight"));
    let source = Source::open(target.0.path(), Access::Read).unwrap();
    let network = arch::network(&source, None, false).unwrap();
    for name in HEADS {
        let data = data(name);
        let folder = folder(&data, "");
        let head_source = Source::open(folder.0.path(), Access::Read).unwrap();
        let head = arch::network(&head_source, None, false).unwrap();
        let predictor = head.predictor.as_ref().unwrap();
        let PredictorOf::Other(other) = &predictor.of else { panic!("a head of another network") };
        let layers: Vec<usize> = numbers(&data["layers"]).into_iter().map(|layer| layer as usize).collect();
        assert!(other.layers.as_ref().is_none_or(|found| *found == layers), "{name}");

        // The inputs of layers, side by side, of all tokens that one is known to follow.
        let (observing, kept) = network.program.observing(&layers, other.width).unwrap();
        let (observing, known) = (Arc::new(observing), prompt.len() - 1);
        let all: Vec<u32> = (0..LIMITS.max_tokens as u32).collect();
        let on_cpu = backend(&network, &observing, vec![]);
        let mut sequence = on_cpu.new_sequence(&spec(&observing)).unwrap();
        let mut executor = on_cpu.new_executor(&observing, LIMITS).unwrap();
        let slots = [0; 32];
        let inputs = StepInputs {
            ids: &prompt[..known],
            positions: &all[..known],
            sequences: &slots[..known],
            outputs: &[],
            ..Default::default()
        };
        let mut batch = Batch { inputs, sequences: &mut [&mut sequence] };
        executor.begin(&mut batch, 0..observing.ops.len()).unwrap();
        assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
        let mut states = vec![0.0; known * other.width * layers.len()];
        for (i, kept) in kept.iter().enumerate() {
            let mut part = vec![0.0; known * other.width];
            executor.read_rows(*kept, 0, &mut part).unwrap();
            let rows = states.chunks_exact_mut(other.width * layers.len()).zip(part.chunks_exact(other.width));
            rows.for_each(|(row, part)| row[i * other.width..][..other.width].copy_from_slice(part));
        }

        let program = Arc::new(predictor.program.clone());
        let on_cpu = backend(&head, &program, vec![]);
        let mut sequence = on_cpu.new_sequence(&spec(&program)).unwrap();
        let mut executor = on_cpu.new_executor(&program, LIMITS).unwrap();
        let (mut tokens, mut worst, width) = (prompt[1..].to_vec(), 0f64, program.width(predictor.input));
        let mut made = vec![0.0; width];
        let drafts = ids(&data["drafts"]);
        for (i, expected) in data["logits"].as_array().unwrap().iter().enumerate() {
            let (n, first) = (tokens.len(), sequence.len());
            let inputs = StepInputs {
                ids: &tokens,
                positions: &all[first..first + n],
                sequences: &slots[..n],
                outputs: &[n as u32 - 1],
                ..Default::default()
            };
            let mut batch = Batch { inputs, sequences: &mut [&mut sequence] };
            let start = if i == 0 { 0 } else { other.fusing };
            executor.begin(&mut batch, start..program.ops.len()).unwrap();
            match i {
                0 => executor.write(other.states, &states).unwrap(),
                _ => executor.write(predictor.input, &made).unwrap(),
            }
            if let Some(embeddings) = other.embeddings {
                let rows = tokens.iter().flat_map(|id| table[*id as usize * width..][..width].to_vec());
                executor.write(embeddings, &rows.collect::<Vec<f32>>()).unwrap();
            }
            assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
            let logits: Vec<f32> = match other.normed {
                Some(normed) => {
                    let mut row = vec![0.0; width];
                    executor.read_rows(normed, n - 1, &mut row).unwrap();
                    executor.read_rows(predictor.result, n - 1, &mut made).unwrap();
                    let dot =
                        |head: &[f32]| head.iter().zip(&row).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                    lm_head.chunks_exact(width).map(|head| dot(head) as f32).collect()
                }
                None => {
                    let mut logits = vec![0.0; program.vocab];
                    executor.read_logits(0, &mut logits).unwrap();
                    executor.read(predictor.result, &mut made).unwrap();
                    logits
                }
            };
            let expected = floats(expected);
            worst = worst.max(relative_rms(&logits, &expected));
            let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
            assert_eq!(other.tokens.as_ref().map_or(best as u32, |tokens| tokens[best]), drafts[i], "{name}");
            sequence.commit(n);
            tokens = vec![drafts[i]];
        }
        println!("{name:12} {worst:.1e}");
        assert!(worst < 1e-3, "{name}: {worst}");
    }
}

#[test]
fn drafts_are_those_of_the_makers_definitions() {
    let (target, of) = (target(), data("target"));
    let model = load(target.0.path());
    check_tokens(&model, &of);
    let mut right = 0;
    for name in HEADS {
        let folder = folder(&data(name), "");
        right += check_passes(&model, &of, name, &load(folder.0.path()));
    }
    let (_dir, path) = gguf(&data("eagle"), |file| file);
    right += check_passes(&model, &of, "eagle", &load(&path));
    assert!(right > 80, "{right}");
}

#[test]
fn drafts_change_nothing() {
    let target = target();
    let model = load(target.0.path());
    let folders = HEADS.map(|name| folder(&data(name), ""));
    let heads = folders.each_ref().map(|folder| load(folder.0.path()));
    let accepted = change_nothing(&model, &heads);
    assert!(accepted > 10, "{accepted}");
}

/// The target on a GPU, which here is the shim, and heads on it or on the CPU. One that looks at keys and values is
/// loaded on the CPU, and follows its targets to where they are.
#[cfg(cuda)]
#[test]
fn drafts_change_nothing_on_a_gpu() {
    let Some(shim) = shim::Shim::new() else { return };
    if !process::in_own_process("heads::drafts_change_nothing_on_a_gpu") {
        return;
    }
    assert!(cuda::provide(shim.driver.clone(), shim::IMAGE));
    let (target, of) = (target(), data("target"));
    let prompt = ids(&of["prompt"]);
    let on = |path: &Path, device: u32| {
        Model::load(path, LoadOptions { device, deterministic: true, ..Default::default() }).unwrap()
    };
    let model = on(target.0.path(), 2);
    assert_eq!(model.info().gpu_layers, model.info().n_layers);
    let params = || JobParams { max_tokens: 24, ..Default::default() };
    let (made, mut right) = (passes(job(&model, &prompt, params())).0, 0);
    for (name, device) in [("eagle", 1), ("eagle", 2), ("shared", 2)] {
        let head = on(folder(&data(name), "").0.path(), device);
        let found = passes(job(&model, &prompt, JobParams { draft: drafting(&head, 4), ..params() }));
        assert_eq!(found.0, made, "{name}");
        right += found.1.iter().map(|pass| pass[1]).sum::<usize>();
    }
    assert!(right > 5, "{right}");
    let gemma = || on(folder(&data("gemma4"), "target.").0.path(), 2);
    let (first, of) = (gemma(), data("gemma4"));
    let prompt = ids(&of["prompt"]);
    let params = || JobParams { max_tokens: 48, ..Default::default() };
    let made = passes(job(&first, &prompt, params())).0;
    assert_eq!(made, ids(&of["made"])[..48]);
    for name in ["gemma4-assistant", "gemma4-assistant-clusters"] {
        let folder = folder(&data(name), "");
        let on_gpu = Model::load(folder.0.path(), LoadOptions { device: 2, ..Default::default() });
        assert!(on_gpu.err().unwrap().to_string().contains("load it on the CPU"));
        let head = Model::load(folder.0.path(), LoadOptions::default()).unwrap();
        let (second, on_cpu) = (gemma(), on(self::folder(&of, "target.").0.path(), 1));
        let drafted = |model: &Arc<Model>| {
            let found = passes(job(model, &prompt, JobParams { draft: drafting(&head, 4), ..params() }));
            assert_eq!(found.0, made, "{name}");
            found.1
        };
        let expected = drafted(&on_cpu);
        assert!(expected.iter().map(|pass| pass[1]).sum::<usize>() > 2, "{expected:?}");
        let used = || shim.number("shim_memory_used");
        for model in [&first, &first, &second] {
            assert_eq!(drafted(model), expected, "{name}");
        }
        // A copy is freed with its model, and with the assistant.
        let before = used();
        drop(second);
        let alone = used();
        assert!(alone < before);
        let third = gemma();
        let with_third = used();
        assert_eq!(drafted(&third), expected, "{name}");
        assert!(used() > with_third);
        drop(third);
        assert_eq!(used(), alone, "{name}");
        drop(head);
        assert!(used() < alone, "{name}");
    }
}

/// A target whose blocks add nothing, which chooses the tokens in turn, and a head that goes on in turn from its hidden
/// state, the third of those that it reads.
#[test]
fn a_head_that_knows_its_model_is_always_right() {
    let is_next = |after: usize, token: usize| after == (token + 1) % 32;
    let made = |mut data: Value, key: &str, f: &dyn Fn(&str, usize, usize) -> bool| {
        let config = data["config"].as_str().unwrap().replacen('{', &format!("{{{key}"), 1);
        let mut all = tensors(&data, "");
        for (name, _, shape, bytes) in &mut all {
            let cols = *shape.last().unwrap() as usize;
            let is_one =
                |i: usize| if shape.len() == 1 { name.ends_with("weight") } else { f(&*name, i / cols, i % cols) };
            *bytes = (0..bytes.len() / 4).flat_map(|i| f32::from(u8::from(is_one(i))).to_le_bytes()).collect();
        }
        data["config"] = Value::String(config);
        let folder = Folder::new(data["config"].as_str().unwrap());
        put_weights(&folder.0.path().join("model.safetensors"), &all);
        load(folder.0.path())
    };
    let model = made(data("target"), "", &|name, row, col| match name {
        "model.embed_tokens.weight" => row == col,
        "lm_head.weight" => col < 32 && is_next(row, col),
        _ => false,
    });
    let head = made(data("shared"), "\"norm_output\": true, ", &|name, row, col| match name {
        "fc.weight" => col == 128 + row,
        "midlayer.mlp.gate_proj.weight" | "midlayer.mlp.up_proj.weight" => row == col,
        "midlayer.mlp.down_proj.weight" => col < 32 && is_next(row, col),
        _ => false,
    });
    let params = JobParams { max_tokens: 41, draft: drafting(&head, 4), ..Default::default() };
    let (made, found) = passes(job(&model, &[3, 4, 5], params));
    assert!(made.iter().zip(6u32..).all(|(found, wanted)| *found == wanted % 32), "{made:?}");
    assert_eq!(found, [[4, 4]; 8]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let (target, eagle) = (target(), data("eagle"));
    let model = load(target.0.path());
    let refused = |error: Option<Error>, is_mismatch: bool, what: &[&str]| match error {
        Some(Error::Mismatch(why)) if is_mismatch => assert!(what.iter().all(|part| why.contains(part)), "{why}"),
        Some(Error::Unsupported(why)) if !is_mismatch => {
            assert!(what.iter().all(|part| why.contains(part)), "{why}");
        }
        other => panic!("{other:?}, not {what:?}"),
    };
    let head = folder(&eagle, "");
    let head = load(head.0.path());
    refused(Session::new(&head, &CacheParams::default()).err(), false, &["head of another model", "RZ_DRAFT_MODEL"]);
    refused(head.embed(&[&[1]], EmbedParams::default(), None).err(), false, &["head of another model"]);
    let with = |target: &Arc<Model>, head: &Arc<Model>| {
        let session = models::session(target);
        let params = JobParams { draft: drafting(head, 4), ..Default::default() };
        Request::new(&session, &[1, 2], params).err()
    };
    assert!(with(&model, &head).is_none());

    // Another target: another width, fewer layers, another vocabulary.
    let other = |change: &dyn Fn(&mut Value, &mut Value)| {
        let mut of = data("target");
        let mut config: Value = serde_json::from_str(of["config"].as_str().unwrap()).unwrap();
        change(&mut config, &mut of["tensors"]);
        of["config"] = Value::String(config.to_string());
        load(folder(&of, "target.").0.path())
    };
    let short = other(&|config, tensors| {
        config["num_hidden_layers"] = 4.into();
        tensors
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !["s.4.", "s.5.", "s.6.", "s.7."].iter().any(|of| name.contains(of)));
    });
    let speculators = folder(&data("speculators"), "");
    let speculators = load(speculators.0.path());
    refused(with(&short, &speculators), true, &["layer 5", "4 layers"]);
    let wide = other(&|config, tensors| {
        config["vocab_size"] = 40.into();
        for name in ["model.embed_tokens.weight", "lm_head.weight"] {
            tensors[name][0] = 40.into();
        }
    });
    refused(with(&wide, &head), true, &["32 tokens", "40"]);
    let narrow = other(&|config, tensors| {
        (config["hidden_size"], config["head_dim"]) = (48.into(), 16.into());
        for shape in tensors.as_object_mut().unwrap().iter_mut().flat_map(|(name, shape)| {
            let out = ["o_proj", "down_proj", "norm"].iter().any(|part| name.contains(part));
            let at = if out { 0 } else { 1 };
            [&mut shape[at]]
        }) {
            *shape = 48.into();
        }
    });
    refused(with(&narrow, &head), true, &["64 values", "48"]);
}

#[test]
fn files_that_are_damaged_or_ask_for_more_are_refused_by_name() {
    let eagle = data("eagle");
    let file = |change: &dyn Fn(Gguf) -> Gguf, params: LoadOptions| {
        let (_dir, path) = gguf(&eagle, change);
        load_with(&path, params).err()
    };
    let message = |error: Option<Error>, part: &str| {
        let why = error.unwrap().to_string();
        assert!(why.contains(part), "{why}");
    };
    assert!(file(&|file| file, LoadOptions::default()).is_none());
    message(file(&|file| file, LoadOptions { mtp: true, ..Default::default() }), "multi-token prediction");
    let without = |name: &'static str| {
        move |mut file: Gguf| {
            file.tensors.retain(|tensor| tensor.name != name);
            file
        }
    };
    message(file(&without("d2t"), LoadOptions::default()), "d2t");
    message(file(&without("fc.weight"), LoadOptions::default()), "fc.weight");
    message(file(&without("blk.0.attn_norm_2.weight"), LoadOptions::default()), "attn_norm_2");
    let change = |name: &'static str, data: Vec<u8>| {
        move |mut file: Gguf| {
            let tensor = file.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
            tensor.data[..data.len()].copy_from_slice(&data);
            file
        }
    };
    message(file(&change("d2t", 32i64.to_le_bytes().to_vec()), LoadOptions::default()), "token 32 of 32");
    message(file(&change("d2t", (-1i64).to_le_bytes().to_vec()), LoadOptions::default()), "token -1 of 32");
    message(file(&|file| file.key("eagle3.norm_before_fc", true), LoadOptions::default()), "enc.output_norm");
    message(file(&|file| file.key("eagle3.something", 3u32), LoadOptions::default()), "eagle3.something");
    for (key, value, part) in [
        ("speculators_model_type", "\"peagle\"".to_owned(), "peagle"),
        ("eagle_config", "{\"use_mtp_layernorm\":true}".to_owned(), "use_mtp_layernorm"),
        ("eagle_config", "{\"something\":1}".to_owned(), "something"),
        ("norm_before_fc", "true".to_owned(), "enc.output_norm"),
        ("fc_norm", "true".to_owned(), "fc_norm"),
    ] {
        let mut data = eagle.clone();
        let config = data["config"].as_str().unwrap().replacen('{', &format!("{{\"{key}\": {value}, "), 1);
        data["config"] = Value::String(config);
        message(load_with(folder(&data, "").0.path(), LoadOptions::default()).err(), part);
    }
    let mut data = eagle;
    data["config"] =
        Value::String(data["config"].as_str().unwrap().replace("LlamaForCausalLMEagle3", "DFlashDraftModel"));
    message(load_with(folder(&data, "").0.path(), LoadOptions::default()).err(), "DFlashDraftModel");
}
