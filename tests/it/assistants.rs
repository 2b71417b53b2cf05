//! Gemma 4 assistants, which read the KV cache of a Gemma 4: logits and drafts are compared with the reference
//! implementation (`data/heads`); drafts must not change the output.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use realizar::device::{Batch, StepBudget};
use realizar::engine::{
    Adapter, CacheParams, DraftParams, EmbedParams, Job, JobParams, LoadOptions, Model, Request, Session, step_jobs,
};
use realizar::error::Error;
use realizar::format::{Access, Source};
use realizar::graph::step::StepInputs;
use realizar::model::{PredictorOf, arch};
use realizar::quant;
use serde_json::Value;

use crate::support::adapter_file;
use crate::support::adapters::Factors;
use crate::support::drafts::{passes, read};
use crate::support::gguf::Gguf;
use crate::support::heads::{
    change_nothing, check_passes, check_tokens, data, drafting, floats, folder, ids, load, load_with, tensors,
};
use crate::support::models;
use crate::support::predictor::{LIMITS, backend, spec};
use crate::support::published::{relative_rms, with_key};
use crate::support::safetensors::Folder;
use crate::support::tiny::Rng;

const ASSISTANTS: [&str; 2] = ["gemma4-assistant", "gemma4-assistant-clusters"];

fn target() -> Folder {
    folder(&data("gemma4"), "target.")
}

/// The assistant without clusters in a GGUF file as llama.cpp's converter writes it.
fn gguf(data: &Value, change: impl Fn(Gguf) -> Gguf) -> (tempfile::TempDir, PathBuf) {
    let config: Value = serde_json::from_str(data["config"].as_str().unwrap()).unwrap();
    let text = &config["text_config"];
    let arch = "gemma4-assistant";
    let mut file = Gguf::new().key("general.architecture", arch);
    for (key, name) in [
        ("block_count", "num_hidden_layers"),
        ("nextn_predict_layers", "num_hidden_layers"),
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "global_head_dim"),
        ("attention.value_length", "global_head_dim"),
        ("attention.key_length_swa", "head_dim"),
        ("attention.value_length_swa", "head_dim"),
        ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
        ("attention.sliding_window", "sliding_window"),
        ("attention.shared_kv_layers", "num_kv_shared_layers"),
        ("embedding_length_per_layer_input", "hidden_size_per_layer_input"),
        ("rope.dimension_count", "global_head_dim"),
        ("rope.dimension_count_swa", "head_dim"),
    ] {
        file = with_key(file, &format!("{arch}.{key}"), &text[name]);
    }
    file = with_key(file, &format!("{arch}.embedding_length_out"), &config["backbone_hidden_size"]);
    let windowed: Vec<bool> =
        text["layer_types"].as_array().unwrap().iter().map(|kind| kind == "sliding_attention").collect();
    file = file.key(&format!("{arch}.attention.sliding_window_pattern"), windowed);
    for (key, kind) in [("rope.freq_base", "full_attention"), ("rope.freq_base_swa", "sliding_attention")] {
        file = with_key(file, &format!("{arch}.{key}"), &text["rope_parameters"][kind]["rope_theta"]);
    }
    for (name, _, shape, bytes) in tensors(data, "") {
        let mut name = name.strip_prefix("model.").unwrap_or(&name).replace("layers.", "blk.");
        for (from, to) in [
            ("input_layernorm", "attn_norm"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.o_proj", "attn_output"),
            ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("layer_scalar", "layer_output_scale.weight"),
            ("embed_tokens", "token_embd"),
            ("pre_projection", "nextn.pre_projection"),
            ("post_projection", "nextn.post_projection"),
        ] {
            name = name.replace(from, to);
        }
        let name = if name == "norm.weight" { "output_norm.weight".to_owned() } else { name };
        file = file.tensor(&name, quant::F32.0, &shape, &bytes);
    }
    let pairs = text["global_head_dim"].as_u64().unwrap() as usize / 2;
    let divisors = (0..pairs).flat_map(|i| if i < pairs / 4 { 1f32 } else { 1e30 }.to_le_bytes());
    file = file.tensor("rope_freqs.weight", quant::F32.0, &[pairs as u64], &divisors.collect::<Vec<u8>>());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assistant.gguf");
    fs::write(&path, change(file).build().0).unwrap();
    (dir, path)
}

#[test]
fn logits_are_those_of_the_owners_code() {
    let (target, of) = (target(), data("gemma4"));
    let source = Source::open(target.0.path(), Access::Read).unwrap();
    let network = arch::network(&source, None, false).unwrap();
    let text = [ids(&of["prompt"]), ids(&of["made"])[..1].to_vec()].concat();
    let known = text.len() - 1;
    let (observing, kept) = network.program.observing(&[network.program.layers.len()], 64).unwrap();
    let (observing, all) = (Arc::new(observing), (0..text.len() as u32).collect::<Vec<_>>());
    let table = tensors(&of, "target.").into_iter().find(|(name, ..)| name.ends_with("embed_tokens.weight"));
    let table: Vec<f32> = table.unwrap().3.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
    let on_cpu = backend(&network, &observing, vec![]);
    let mut sequence = on_cpu.new_sequence(&spec(&observing)).unwrap();
    let mut executor = on_cpu.new_executor(&observing, LIMITS).unwrap();
    let slots = [0; 32];
    let inputs = StepInputs {
        ids: &text[..known],
        positions: &all[..known],
        sequences: &slots[..known],
        outputs: &[known as u32 - 1],
        ..Default::default()
    };
    let mut batch = Batch { inputs, sequences: &mut [&mut sequence] };
    executor.begin(&mut batch, 0..observing.ops.len()).unwrap();
    assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
    let mut first = vec![0.0; 64];
    executor.read_rows(kept[0], 0, &mut first).unwrap();
    sequence.commit(known);

    let (_dir, path) = gguf(&data(ASSISTANTS[0]), |file| file);
    let folders = ASSISTANTS.map(|name| folder(&data(name), ""));
    let paths = [folders[0].0.path(), folders[1].0.path(), path.as_path()];
    for (path, name) in paths.into_iter().zip([ASSISTANTS[0], ASSISTANTS[1], ASSISTANTS[0]]) {
        let data = data(name);
        let source = Source::open(path, Access::Read).unwrap();
        let head = arch::network(&source, None, false).unwrap();
        let predictor = head.predictor.as_ref().unwrap();
        let PredictorOf::SharedKv(seen) = &predictor.of else { panic!("a head that looks") };
        let program = Arc::new(predictor.program.with_kv_of(&network.program).unwrap());
        let on_cpu = backend(&head, &Arc::new(predictor.program.clone()), vec![]);
        let mut executor = on_cpu.new_executor(&program, LIMITS).unwrap();
        let (mut token, mut state, mut worst) = (text[known], first.clone(), 0f64);
        for (expected, draft) in data["logits"].as_array().unwrap().iter().zip(ids(&data["drafts"])) {
            let inputs = StepInputs {
                ids: &[token],
                positions: &[known as u32 - 1],
                rope_positions: &[[known as u32; 3]],
                sequences: &[0],
                outputs: &[0],
                ..Default::default()
            };
            let mut batch = Batch { inputs, sequences: &mut [&mut sequence] };
            executor.begin(&mut batch, 0..program.ops.len()).unwrap();
            executor.write(predictor.input, &state).unwrap();
            executor.write(seen.embedding, &table[token as usize * 64..][..64]).unwrap();
            assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
            let mut logits = vec![0.0; program.vocab];
            executor.read_logits(0, &mut logits).unwrap();
            executor.read(predictor.result, &mut state).unwrap();
            let expected = floats(expected);
            let mut used: Vec<usize> = (0..logits.len()).collect();
            if let Some(clusters) = &seen.clusters {
                let mut scores = vec![0.0; program.width(clusters.scores)];
                executor.read(clusters.scores, &mut scores).unwrap();
                let mut best: Vec<usize> = (0..scores.len()).collect();
                best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
                let size = logits.len() / scores.len();
                let tokens = best[..clusters.used].iter().flat_map(|i| &clusters.tokens[i * size..][..size]);
                used = tokens.map(|token| *token as usize).collect();
                let least = used.iter().fold(f32::INFINITY, |least, i| least.min(expected[*i]));
                let others = (0..32).filter(|i| !used.contains(i));
                assert_eq!(others.filter(|i| (expected[*i] - least + 1.0).abs() < 1e-4).count(), 20);
            }
            let of_used = |all: &[f32]| used.iter().map(|i| all[*i]).collect::<Vec<f32>>();
            worst = worst.max(relative_rms(&of_used(&logits), &of_used(&expected)));
            let best = *used.iter().max_by(|a, b| logits[**a].total_cmp(&logits[**b])).unwrap();
            assert_eq!(best as u32, draft, "{name}");
            token = draft;
        }
        println!("{name:28} {worst:.1e}");
        assert!(worst < 3e-5, "{name}: {worst}");
    }
}

#[test]
fn drafts_are_those_of_the_owners_code() {
    let (target, of) = (target(), data("gemma4"));
    let model = load(target.0.path());
    check_tokens(&model, &of);
    let right = ASSISTANTS.map(|name| check_passes(&model, &of, name, &load(folder(&data(name), "").0.path())));
    let (_dir, path) = gguf(&data(ASSISTANTS[0]), |file| file);
    check_passes(&model, &of, ASSISTANTS[0], &load(&path));
    assert!(right.iter().all(|n| *n > 5), "{right:?}");
}

#[test]
fn drafts_change_nothing() {
    let target = target();
    let model = load(target.0.path());
    let folders = ASSISTANTS.map(|name| folder(&data(name), ""));
    // The target itself drafts as well, which is always right.
    let heads = [load(folders[0].0.path()), load(folders[1].0.path()), load(target.0.path())];
    let accepted = change_nothing(&model, &heads);
    assert!(accepted > 10, "{accepted}");
}

/// A text that was read before the job, of which only the last token is computed again or none.
#[test]
fn texts_that_no_pass_of_the_job_has_read_are_seen() {
    let (target, of) = (target(), data("gemma4"));
    let model = load(target.0.path());
    let head = load(folder(&data(ASSISTANTS[0]), "").0.path());
    let (prompt, made) = (ids(&of["prompt"]), ids(&of["made"]));
    let run = |read: usize, draft: DraftParams| {
        let mut session = Session::new(&model, &CacheParams { capacity: 200, ..Default::default() }).unwrap();
        session.prefill(&prompt[..read], None).unwrap();
        let params = JobParams { max_tokens: made.len(), draft, ..Default::default() };
        let request = Request::new(&session, &prompt[read..], params).unwrap();
        passes(Job::new(session, request))
    };
    let whole = run(0, drafting(&head, 4));
    assert_eq!(whole.0, made);
    assert_eq!(run(prompt.len() - 1, drafting(&head, 4)), whole);
}

/// Adapters of a session are those of its model's matrices.
#[test]
fn adapters_of_the_text_are_not_those_of_the_assistant() {
    let target = target();
    let model = load(target.0.path());
    let head = load(folder(&data(ASSISTANTS[0]), "").0.path());
    let rng = &mut Rng(7);
    let list = [("blk.0.attn_q.weight", 64, 64), ("blk.3.ffn_up.weight", 96, 64)]
        .map(|(name, rows, cols)| Factors::new(name, &[(name.to_owned(), rows)], cols, 4, rng));
    let path = target.0.path().join("adapter.gguf");
    fs::write(&path, adapter_file::gguf("gemma4", &list, 6.0, quant::F32).build().0).unwrap();
    let adapter = Adapter::load(&model, &path, None).unwrap();
    let run = |scale: f32, draft: DraftParams| {
        let mut session = Session::new(&model, &CacheParams { capacity: 100, ..Default::default() }).unwrap();
        session.set_adapters(std::slice::from_ref(&adapter), &[scale]).unwrap();
        let request = Request::new(&session, &[3, 1, 4], JobParams { max_tokens: 40, draft, ..Default::default() });
        let mut job = Job::new(session, request.unwrap());
        while !step_jobs(&mut [&mut job], None).unwrap() {}
        let (made, drafted) = (read(&mut job), job.info().drafted);
        (made, job.into_session().logits().unwrap().to_vec(), drafted)
    };
    let (made, logits, _) = run(1.0, DraftParams::default());
    let with_drafts = run(1.0, drafting(&head, 4));
    assert!(with_drafts.0 == made && with_drafts.1 == logits && with_drafts.2 > 60);
    assert_ne!(run(0.0, DraftParams::default()).0, made);
}

fn refused(error: Option<Error>, is_mismatch: bool, what: &[&str]) {
    match error {
        Some(Error::Mismatch(why)) if is_mismatch => assert!(what.iter().all(|part| why.contains(part)), "{why}"),
        Some(Error::Unsupported(why)) if !is_mismatch => assert!(what.iter().all(|part| why.contains(part)), "{why}"),
        other => panic!("{other:?}, not {what:?}"),
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let target = target();
    let model = load(target.0.path());
    let assistant = data(ASSISTANTS[0]);
    let head = load(folder(&assistant, "").0.path());
    refused(Session::new(&head, &CacheParams::default()).err(), false, &["head of another model", "RZ_DRAFT_MODEL"]);
    refused(head.embed(&[&[1]], EmbedParams::default(), None).err(), false, &["head of another model"]);
    let with = |target: &Arc<Model>, head: &Arc<Model>| {
        let session = models::session(target);
        let params = JobParams { draft: drafting(head, 4), ..Default::default() };
        Request::new(&session, &[1, 2], params).err()
    };
    assert!(with(&model, &head).is_none());
    let llama = load(folder(&data("target"), "target.").0.path());
    refused(with(&llama, &head), true, &["gemma4", "llama"]);
    let other = |change: &dyn Fn(&mut Value, &mut Value)| {
        let mut data = assistant.clone();
        let mut config: Value = serde_json::from_str(data["config"].as_str().unwrap()).unwrap();
        change(&mut config, &mut data["tensors"]);
        data["config"] = Value::String(config.to_string());
        load(folder(&data, "").0.path())
    };
    let wide = other(&|config, tensors| {
        config["backbone_hidden_size"] = 48.into();
        tensors["pre_projection.weight"][1] = 96.into();
        tensors["post_projection.weight"][0] = 48.into();
    });
    refused(with(&model, &wide), true, &["48 values", "64"]);
    let window = other(&|config, _| config["text_config"]["sliding_window"] = 16.into());
    refused(with(&model, &window), true, &["a window of 16", "a window of 8"]);
    let heads = other(&|config, _| config["text_config"]["num_key_value_heads"] = 1.into());
    refused(with(&model, &heads), true, &["1 heads of 16", "2 heads of 16"]);
    let words = other(&|config, tensors| {
        config["text_config"]["vocab_size"] = 24.into();
        tensors["model.embed_tokens.weight"][0] = 24.into();
    });
    refused(with(&model, &words), true, &["24 tokens", "32"]);
}

#[test]
fn files_that_are_damaged_or_ask_for_more_are_refused_by_name() {
    let assistant = data(ASSISTANTS[0]);
    let file = |change: &dyn Fn(Gguf) -> Gguf| {
        let (_dir, path) = gguf(&assistant, change);
        load_with(&path, LoadOptions::default()).err()
    };
    let message = |error: Option<Error>, part: &str| {
        let why = error.unwrap().to_string();
        assert!(why.contains(part), "{why}");
    };
    assert!(file(&|file| file).is_none());
    let arch = "gemma4-assistant";
    let with = |key: &'static str, value: u32| {
        move |mut file: Gguf| {
            let name = format!("{arch}.{key}");
            file.keys.retain(|(other, _)| *other != name);
            file.key(&name, value)
        }
    };
    message(file(&with("embedding_length_out", 0)), "embedding_length_out");
    message(file(&with("embedding_length_out", 1 << 30)), "embedding_length_out");
    message(file(&with("embedding_length_per_layer_input", 16)), "embedding_length_per_layer_input");
    message(file(&with("attention.shared_kv_layers", 2)), "attention.shared_kv_layers");
    message(file(&with("attention.sliding_window", 1)), "attention.sliding_window");
    message(file(&with("nextn_predict_layers", 2)), "nextn_predict_layers");
    message(file(&with("expert_count", 4)), "expert_count");
    for name in ["nextn.pre_projection.weight", "nextn.post_projection.weight", "blk.1.attn_q.weight"] {
        let without = |mut file: Gguf| {
            file.tensors.retain(|tensor| tensor.name != name);
            file
        };
        message(file(&without), name);
    }
    let clusters = |tokens: &[i32], n: u64| {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let centroids = vec![0; 4 * 32 * n as usize];
        file(&|file| {
            let file = file.tensor("masked_embd_centroids.weight", quant::F32.0, &[n, 32], &centroids);
            file.tensor("masked_embd_ordering", 26, &[tokens.len() as u64], &bytes)
        })
    };
    let all: Vec<i32> = (0..32).collect();
    assert!(clusters(&all, 32).is_none());
    message(clusters(&all, 8), "32 of 8 clusters");
    message(clusters(&all, 5), "clusters of 32 tokens");
    message(clusters(&all[..31], 32), "masked_embd_ordering");
    message(clusters(&[&all[..31], &[32]].concat(), 32), "names token 32 of 32");
    message(clusters(&[&all[..31], &[-1]].concat(), 32), "names token -1 of 32");
    let nan = |mut file: Gguf| {
        let tensor = file.tensors.iter_mut().find(|tensor| tensor.name == "output_norm.weight").unwrap();
        tensor.data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        file
    };
    message(file(&nan), "output_norm");
    for (of, key, value, part) in [
        ("", "num_centroids_used", "3", "num_centroids_used"),
        ("", "use_ordered_embeddings", "true", "masked_embd_centroids"),
        ("text", "enable_moe_block", "true", "num_experts"),
        ("text", "use_double_wide_mlp", "true", "ffn"),
    ] {
        let mut data = assistant.clone();
        let mut config: Value = serde_json::from_str(data["config"].as_str().unwrap()).unwrap();
        let config_of = if of.is_empty() { &mut config } else { &mut config["text_config"] };
        config_of[key] = serde_json::from_str(value).unwrap();
        data["config"] = Value::String(config.to_string());
        message(load_with(folder(&data, "").0.path(), LoadOptions::default()).err(), part);
    }
}
