//! Variants of one folder: other names of files and tensors, other types, unknown keys. Each must give the results of
//! the plain folder, whose logits `transformers` computed, or is rejected by name.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use realizar::engine::{
    Advice, ByteSource, CacheParams, EmbedParams, LoadOptions, LogLevel, Model, Pooling, Runtime, RuntimeParams,
    Session,
};
use realizar::error::{Error, Result};
use realizar::quant;
use serde_json::{Value, json};

use crate::support::models;
use crate::support::published::{PROMPT, Published, Tensor, put_weights, relative_rms};

/// A folder, and what its load said.
struct Folder {
    dir: tempfile::TempDir,
    log: Arc<Mutex<Vec<String>>>,
}

impl Folder {
    fn new() -> Folder {
        Folder { dir: tempfile::tempdir().unwrap(), log: Arc::default() }
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Folder {
        fs::write(self.dir.path().join(name), bytes).unwrap();
        self
    }

    fn put_weights(&self, name: &str, tensors: &[Tensor]) -> &Folder {
        put_weights(&self.dir.path().join(name), tensors);
        self
    }

    fn load_with(&self, change: impl FnOnce(&mut LoadOptions)) -> Result<Arc<Model>> {
        let log = self.log.clone();
        let write = move |level: LogLevel, text: &str| {
            if level == LogLevel::Warning {
                log.lock().unwrap().push(text.to_owned());
            }
        };
        let runtime = Runtime::new(RuntimeParams { threads: 1, log: Some(Box::new(write)), ..Default::default() })?;
        let mut params = models::on(runtime, models::cpu());
        change(&mut params.options);
        Model::load(self.dir.path(), params)
    }

    fn load(&self) -> Result<Arc<Model>> {
        self.load_with(|_| {})
    }

    fn refusal(&self) -> String {
        self.load().err().expect("it loads").to_string()
    }

    fn said(&self, word: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(word))
    }
}

fn logits(model: &Arc<Model>) -> Vec<f32> {
    let params = CacheParams { k_type: quant::F32, v_type: quant::F32, capacity: 32 };
    let mut session = Session::new(model, &params).unwrap();
    session.prefill(&PROMPT, None).unwrap();
    session.logits().unwrap().to_vec()
}

/// The hidden state of the last token.
fn state(model: &Arc<Model>) -> Vec<f32> {
    model.embed(&[&PROMPT], EmbedParams { pooling: Some(Pooling::Last), raw: true }, None).unwrap()
}

fn llama() -> Published {
    Published::of("llama-2-7b-hf")
}

/// A configuration with some members in place of those that it had.
fn with(config: &str, members: &Value) -> String {
    let mut config: Value = serde_json::from_str(config).unwrap();
    config.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    config.to_string()
}

fn folder_of(model: &Published) -> Folder {
    let folder = Folder::new();
    folder.put("config.json", &model.config).put_weights("model.safetensors", &model.tensors);
    folder
}

#[test]
fn constants_of_python_are_read_and_refused_where_they_count() {
    let model = llama();
    let folder = folder_of(&model);
    let expected = logits(&folder.load().unwrap());
    folder.put("generation_config.json", r#"{"temperature": NaN, "top_p": 0.5, "length_penalty": -Infinity}"#);
    folder.put("tokenizer_config.json", r#"{"model_max_length": Infinity, "x": [NaN]}"#);
    let loaded = folder.load().unwrap();
    assert_eq!(logits(&loaded), expected);
    assert_eq!(*loaded.advice(), Advice { top_p: Some(0.5), ..Advice::default() });
    assert!(folder.said("general.sampling.temp is NaN"));
    for (key, word) in [("rope_theta", "NaN"), ("rms_norm_eps", "Infinity"), ("rope_theta", "-Infinity")] {
        let config = with(&model.config, &json!({key: "WORD"})).replace("\"WORD\"", word);
        let error = folder.put("config.json", config).refusal();
        assert!(error.contains(key) && error.contains("finite"), "{error}");
    }
    // A key that changes nothing may hold anything.
    folder.put("config.json", with(&model.config, &json!({"initializer_range": "WORD"})).replace("\"WORD\"", "NaN"));
    assert_eq!(logits(&folder.load().unwrap()), expected);
}

#[test]
fn what_nobody_knows_is_refused_or_passed_over_and_counted() {
    let mut model = llama();
    let expected = logits(&folder_of(&model).load().unwrap());
    model.config = with(&model.config, &json!({"magic_norm": true, "text_magic": {"a": 1}}));
    for name in ["model.layers.0.self_attn.springs.weight", "magic.table"] {
        model.tensors.push((name.into(), "I64", vec![2], vec![0; 16]));
    }
    model.tensors.push(("model.layers.1.mlp.extra.weight".into(), "F32", vec![2], vec![0; 8]));
    let folder = folder_of(&model);
    let error = folder.load().err().unwrap();
    assert!(matches!(&error, Error::Unsupported(_)));
    let error = error.to_string();
    assert!(error.contains("magic_norm") && error.contains("RZ_MODEL_ALLOW_UNKNOWN"), "{error}");
    let loaded = folder.load_with(|options| options.allow_unknown = true).unwrap();
    assert_eq!(loaded.info().n_unknown, 5);
    assert!(["magic_norm", "text_magic", "springs", "magic.table", "mlp.extra"].iter().all(|name| folder.said(name)));
    assert_eq!(logits(&loaded), expected);
    // A known key with a value that is not supported stays rejected.
    folder.put("config.json", with(&model.config, &json!({"rope_scaling": {"rope_type": "magic", "factor": 2.0}})));
    let error = folder.load_with(|options| options.allow_unknown = true).err().unwrap().to_string();
    assert!(error.contains("magic") && !error.contains("RZ_MODEL_ALLOW_UNKNOWN"), "{error}");
}

#[test]
fn floats_that_are_whole_numbers_are_integers() {
    let model = llama();
    let folder = folder_of(&model);
    let expected = logits(&folder.load().unwrap());
    let whole = json!({"hidden_size": 64.0, "num_hidden_layers": 2.0, "max_position_embeddings": 4096.0,
        "vocab_size": 96.0, "eos_token_id": [2.0], "num_attention_heads": 4.0});
    let loaded = folder.put("config.json", with(&model.config, &whole)).load().unwrap();
    assert_eq!(logits(&loaded), expected);
    assert_eq!(loaded.info().context_length, 4096);
    let error = folder.put("config.json", with(&model.config, &json!({"hidden_size": 64.5}))).refusal();
    assert!(error.contains("hidden_size"), "{error}");
}

#[test]
fn files_of_weights_have_many_names() {
    let model = llama();
    let expected = logits(&folder_of(&model).load().unwrap());
    let new = || {
        let folder = Folder::new();
        folder.put("config.json", &model.config);
        folder
    };
    for name in ["weights.safetensors", "pytorch_model.safetensors", "llama.fp32.safetensors"] {
        let folder = new();
        folder.put_weights(name, &model.tensors).put_weights("adapter_model.safetensors", &[]);
        assert_eq!(logits(&folder.load().unwrap()), expected, "{name}");
    }
    let (first, second) = model.tensors.split_at(7);
    let folder = new();
    folder.put_weights("model-00001-of-00002.safetensors", first);
    let error = folder.refusal();
    assert!(error.contains("model-00002-of-00002.safetensors"), "{error}");
    folder.put_weights("model-00002-of-00002.safetensors", second);
    assert_eq!(logits(&folder.load().unwrap()), expected);
    // A file of the set stands for all of it.
    let path = folder.dir.path().join("model-00002-of-00002.safetensors");
    let loaded = models::load(&path);
    assert_eq!(logits(&loaded), expected);
    // An index of another name.
    let map = |tensors: &[Tensor], file: &str| -> Vec<(String, Value)> {
        tensors.iter().map(|t| (t.0.clone(), json!(file))).collect()
    };
    let folder = new();
    folder.put_weights("a.safetensors", first).put_weights("b.safetensors", second);
    let error = folder.refusal();
    assert!(error.contains("a.safetensors, b.safetensors"), "{error}");
    let both: serde_json::Map<String, Value> =
        map(first, "a.safetensors").into_iter().chain(map(second, "b.safetensors")).collect();
    folder.put("weights.safetensors.index.json", json!({"weight_map": both}).to_string());
    assert_eq!(logits(&folder.load().unwrap()), expected);
    // None at all.
    let folder = new();
    folder.put("pytorch_model.bin", "pickle");
    let error = folder.refusal();
    assert!(error.contains("token_embd.weight") && error.contains("pytorch_model.bin"), "{error}");
    // Other ones.
    let folder = new();
    folder.put_weights("model.safetensors", &[("tok_embed".into(), "F32", vec![2], vec![0; 8])]);
    let error = folder.load_with(|options| options.allow_unknown = true).err().unwrap().to_string();
    assert!(error.contains("token_embd.weight") && error.contains("tok_embed"), "{error}");
}

#[test]
fn prefixes_of_training_programs_are_no_part_of_names() {
    let model = llama();
    let expected = logits(&folder_of(&model).load().unwrap());
    for prefix in [
        "base_model.model.",
        "_orig_mod.",
        "module.",
        "module._orig_mod.",
        "_orig_mod.module.base_model.model.",
        "_fsdp_wrapped_module.",
    ] {
        let tensors: Vec<Tensor> =
            model.tensors.iter().cloned().map(|t| (format!("{prefix}{}", t.0), t.1, t.2, t.3)).collect();
        let folder = Folder::new();
        folder.put("config.json", &model.config).put_weights("model.safetensors", &tensors);
        assert_eq!(logits(&folder.load().unwrap()), expected, "{prefix}");
    }
    // Layers that were compiled or checkpointed one by one.
    for within in ["_orig_mod.", "_checkpoint_wrapped_module."] {
        let name = |name: &str| name.replace(".0.", &format!(".0.{within}"));
        let tensors: Vec<Tensor> = model.tensors.iter().cloned().map(|t| (name(&t.0), t.1, t.2, t.3)).collect();
        let folder = Folder::new();
        folder.put("config.json", &model.config).put_weights("model.safetensors", &tensors);
        assert_eq!(logits(&folder.load().unwrap()), expected, "{within}");
    }
    // Two tensors of one meaning.
    let mut twice = llama();
    let (_, dtype, shape, bytes) = twice.tensors[0].clone();
    twice.tensors.push((format!("module.{}", twice.tensors[0].0), dtype, shape, bytes));
    let error = folder_of(&twice).refusal();
    assert!(error.contains("occurs twice"), "{error}");
}

fn as_doubles(t: &Tensor) -> Tensor {
    let values = t.3.as_chunks::<4>().0.iter().map(|v| f64::from(f32::from_le_bytes(*v)));
    (t.0.clone(), "F64", t.2.clone(), values.flat_map(f64::to_le_bytes).collect())
}

#[test]
fn doubles_are_rounded_and_refused_beyond_the_range() {
    for name in ["llama-2-7b-hf", "gemma-2b-it", "gpt2", "mamba-130m-hf", "mixtral-8x7b-instruct-v0.1", "deepseek-v3"] {
        let mut model = Published::of(name);
        let expected = logits(&folder_of(&model).load().unwrap());
        model.tensors = model.tensors.iter().map(as_doubles).collect();
        assert_eq!(logits(&folder_of(&model).load().unwrap()), expected, "{name}");
    }
    let mut model = llama();
    for (name, value) in [("model.norm.weight", 1e39f64), ("model.layers.0.mlp.up_proj.weight", -1e300)] {
        let at = model.tensors.iter().position(|t| t.0 == name).unwrap();
        let good = model.tensors[at].clone();
        model.tensors[at] = as_doubles(&good);
        model.tensors[at].3[..8].copy_from_slice(&value.to_le_bytes());
        let error = folder_of(&model).refusal();
        assert!(error.contains("beyond the range of F32"), "{error}");
        model.tensors[at] = good;
    }
}

#[test]
fn both_ends_are_tied_as_their_owner_ties_them() {
    let model = llama();
    let find = |name: &str| model.tensors.iter().find(|t| t.0 == name).unwrap().clone();
    let (embedding, head) = (find("model.embed_tokens.weight"), find("lm_head.weight"));
    let rest = || model.tensors.iter().filter(|t| ![&embedding.0, &head.0].contains(&&t.0)).cloned();
    let folder = |tied: bool, ends: Vec<Tensor>| {
        let folder = Folder::new();
        folder.put("config.json", with(&model.config, &json!({"tie_word_embeddings": tied})));
        folder.put_weights("model.safetensors", &rest().chain(ends).collect::<Vec<_>>());
        folder
    };
    let renamed = |from: &Tensor, to: &Tensor| (to.0.clone(), from.1, from.2.clone(), from.3.clone());
    // Two that differ stay two, which the log tells.
    let two = folder(true, vec![embedding.clone(), head.clone()]);
    let got = logits(&two.load().unwrap());
    assert!(relative_rms(&got, &model.expected) < 1e-4);
    assert!(two.said("lm_head.weight") && two.said("tie_word_embeddings"));
    // Equal ones are one, and so is either of them alone.
    let one = folder(true, vec![embedding.clone()]);
    let expected = logits(&one.load().unwrap());
    assert_ne!(expected, got);
    let equal = folder(true, vec![embedding.clone(), renamed(&embedding, &head)]);
    let loaded = equal.load().unwrap();
    assert_eq!(logits(&loaded), expected);
    assert_eq!(loaded.info().weight_bytes, one.load().unwrap().info().weight_bytes);
    assert!(!equal.said("tie_word_embeddings"));
    let other = folder(true, vec![renamed(&embedding, &head)]);
    assert_eq!(logits(&other.load().unwrap()), expected);
    // Without a head, and none that is tied.
    let error = folder(false, vec![embedding.clone()]).refusal();
    assert!(error.contains("lm_head.weight is missing"), "{error}");
}

#[test]
fn a_decoder_without_a_head_gives_embeddings() {
    let model = Published::of("e5-mistral-7b-instruct");
    let folder = folder_of(&model);
    let loaded = folder.load().unwrap();
    assert!(folder.said("embeddings alone"));
    assert!(relative_rms(&state(&loaded), &model.expected) < 1e-4);
    let mut session = models::session(&loaded);
    let error = session.prefill(&PROMPT, None).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("embeddings alone")), "{error}");
    // Of a folder of sentence-transformers whatever its class is called.
    let named = with(&model.config, &json!({"architectures": ["MistralForCausalLM"]}));
    assert!(folder.put("config.json", &named).refusal().contains("lm_head.weight is missing"));
    folder.put("modules.json", r#"[{"type":"sentence_transformers.models.Transformer"}]"#);
    assert!(relative_rms(&state(&folder.load().unwrap()), &model.expected) < 1e-4);
}

#[test]
fn an_epsilon_that_is_left_out_is_the_owners() {
    for (name, key) in [
        ("llama-2-7b-hf", "rms_norm_eps"),
        ("olmo-2-1124-7b", "rms_norm_eps"),
        ("pythia-1.4b", "layer_norm_eps"),
        ("glm-4-9b-0414", "rms_norm_eps"),
    ] {
        let model = Published::of(name);
        let folder = folder_of(&model);
        // The defaults of the package's classes.
        let default = match name {
            "llama-2-7b-hf" => 1e-6,
            "glm-4-9b-0414" => 1.5625e-7,
            _ => 1e-5,
        };
        folder.put("config.json", with(&model.config, &json!({key: default})));
        let expected = logits(&folder.load().unwrap());
        assert!(!folder.said("epsilon"));
        let mut config: Value = serde_json::from_str(&model.config).unwrap();
        config.as_object_mut().unwrap().remove(key);
        folder.put("config.json", config.to_string());
        assert_eq!(logits(&folder.load().unwrap()), expected, "{name}");
        assert!(folder.said("no epsilon of norms"), "{name}");
        let error = folder.put("config.json", with(&model.config, &json!({key: 0.0}))).refusal();
        assert!(error.contains("epsilon is 0"), "{error}");
    }
}

#[test]
fn advice_for_sampling_is_that_of_the_makers() {
    let model = llama();
    let folder = folder_of(&model);
    assert_eq!(*folder.load().unwrap().advice(), Advice::default());
    let advice = |text: &str| *folder.put("generation_config.json", text).load().unwrap().advice();
    assert_eq!(
        advice(r#"{"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0,"repetition_penalty":1.05}"#),
        Advice {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            min_p: Some(0.0),
            repeat_penalty: Some(1.05),
            penalty_window: None
        }
    );
    assert_eq!(advice(r#"{"do_sample":false}"#), Advice { temperature: Some(0.0), ..Advice::default() });
    assert_eq!(advice(r#"{"temperature":null,"top_p":7,"top_k":"many"}"#), Advice::default());
    assert!(folder.said("general.sampling.top_p is 7") && folder.said("general.sampling.top_k"));
}

/// A function of the caller that gives less than it says leaves no trace of what was in memory before.
#[test]
fn a_reader_that_gives_nothing_leaves_zeros() {
    let model = llama();
    let folder = folder_of(&model);
    let whole = fs::read(folder.dir.path().join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap());
    let config = model.config.clone().into_bytes();
    // Fills the header alone; of the tensors' bytes it says that they were read.
    let source = |name: &str, bytes: Vec<u8>, told: u64| ByteSource {
        name: PathBuf::from(name),
        len: bytes.len() as u64,
        read: Arc::new(move |at, out: &mut [u8]| {
            let start = at as usize;
            if at < told {
                out.copy_from_slice(&bytes[start..start + out.len()]);
            }
            assert!(at < told || out.iter().all(|byte| *byte == 0), "old bytes at {at}");
            Ok(())
        }),
        file: None,
    };
    let sources = [source("config.json", config, u64::MAX), source("model.safetensors", whole, header)];
    let loaded = Model::load_from(&sources, models::cpu()).unwrap();
    assert!(logits(&loaded).iter().all(|x| *x == 0.0));
}

/// The text model of MiniCPM-V is another family's, whose configuration stands on top and whose version tells which.
#[test]
fn the_text_model_of_minicpm_v_is_that_of_its_version() {
    let of_pictures = json!({"batch_vision_input": true, "drop_vision_last_layer": false, "image_size": 448, "patch_size": 14,
        "query_num": 64, "slice_config": {"max_slice_nums": 9, "model_type": "minicpmv"}, "slice_mode": true, "use_image_id": true,
        "vision_batch_size": 16, "vision_config": {"model_type": "siglip"}});
    for (name, model_type, version) in [
        ("qwen2.5-7b-instruct", "minicpmv", 2.6),
        ("qwen2.5-7b-instruct", "minicpmo", 2.6),
        ("qwen3-4b", "minicpmv", 4.5),
    ] {
        let mut model = Published::of(name);
        let plain = folder_of(&model).load().unwrap();
        let config = with(&model.config, &of_pictures);
        model.config =
            with(&config, &json!({"model_type": model_type, "version": version, "architectures": ["MiniCPM"]}));
        model.tensors.iter_mut().for_each(|tensor| tensor.0 = format!("llm.{}", tensor.0));
        model.tensors.push(("resampler.query".into(), "F32", vec![1, 1], vec![0; 4]));
        model.tensors.push(("vpm.post_layernorm.weight".into(), "F32", vec![1], vec![0; 4]));
        model.tensors.push(("apm.layer_norm.weight".into(), "F32", vec![1], vec![0; 4]));
        let folder = folder_of(&model);
        assert_eq!(logits(&folder.load().unwrap_or_else(|e| panic!("{name}: {e}"))), logits(&plain));
        folder.put("config.json", with(&model.config, &json!({"version": 2.5})));
        assert!(folder.refusal().contains("version"), "{}", folder.refusal());
    }
}
