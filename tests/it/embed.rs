//! Embeddings of tiny random encoders compared with float64. An embedding must depend on its own text only.

use std::fs;
use std::path::Path;

use realizar::engine::{Cancel, EmbedParams, Model, Pooling, Session};
use realizar::error::Error;
use realizar::format::{Access, Source};
use serde_json::Value;

use crate::support::encoders::{CONTEXT, Encoder, HIDDEN, VOCAB, all};
use crate::support::models;
use crate::support::safetensors;

const MODELS: EmbedParams = EmbedParams { pooling: None, raw: false };

/// Texts of mixed lengths, more tokens in all than a step takes.
fn texts() -> Vec<Vec<u32>> {
    let lengths = [1, 2, 17, 96, 5, 64, 31, 33, 96, 3, 8, 90, 50, 7, 96, 12];
    let text = |n: usize, seed: usize| (0..n).map(|i| ((i * 31 + seed * 17 + i * i) % VOCAB) as u32).collect();
    lengths.into_iter().enumerate().map(|(seed, n)| text(n, seed)).collect()
}

fn refs(texts: &[Vec<u32>]) -> Vec<&[u32]> {
    texts.iter().map(Vec::as_slice).collect()
}

fn embed(model: &Model, texts: &[Vec<u32>], params: EmbedParams) -> Vec<f32> {
    model.embed(&refs(texts), params, None).unwrap()
}

/// Root of the mean square difference over that of what is expected.
fn relative_rms(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let difference: f64 = got.iter().zip(expected).map(|(g, e)| (f64::from(*g) - e).powi(2)).sum();
    (difference / expected.iter().map(|e| e * e).sum::<f64>()).sqrt()
}

#[test]
fn every_encoder_agrees_with_the_reference() {
    let texts = texts();
    for encoder in all() {
        let (file, weights) = encoder.file();
        let model = models::load_file(&file, 2).unwrap_or_else(|e| panic!("{}: {e}", encoder.architecture));
        let name = format!("{}, pooling {}", encoder.architecture, encoder.pooling);
        let states: Vec<Vec<Vec<f64>>> = texts.iter().map(|text| encoder.states(&weights, text)).collect();
        let by = |pooling| EmbedParams { pooling: Some(pooling), raw: true };
        let all: Vec<f64> = states.iter().flatten().flatten().copied().collect();
        let error = relative_rms(&embed(&model, &texts, by(Pooling::None)), &all);
        assert!(error < 5e-6, "{name}: {error} of states");
        let own: Vec<f64> = texts.iter().flat_map(|text| encoder.embed(&weights, text)).collect();
        let error = relative_rms(&embed(&model, &texts, MODELS), &own);
        assert!(error < 5e-6, "{name}: {error}");
        println!("{name:30} {error:.1e}");
        if encoder.head.is_empty() {
            let last: Vec<f64> = states.iter().flat_map(|states| states[states.len() - 1].clone()).collect();
            let error = relative_rms(&embed(&model, &texts, by(Pooling::Last)), &last);
            assert!(error < 5e-6, "{name}: {error} of last tokens");
        }
    }
}

#[test]
fn an_embedding_depends_on_its_text_alone() {
    let texts = texts();
    let mut turned = texts.clone();
    turned.reverse();
    for encoder in all() {
        let (file, _) = encoder.file();
        let models = [1, 2, 3].map(|threads| models::load_file(&file, threads).unwrap());
        let together = embed(&models[0], &texts, MODELS);
        let width = together.len() / texts.len();
        let alone: Vec<f32> =
            texts.iter().flat_map(|text| embed(&models[1], std::slice::from_ref(text), MODELS)).collect();
        let backwards: Vec<f32> =
            embed(&models[2], &turned, MODELS).chunks(width).rev().flat_map(<[f32]>::to_vec).collect();
        assert!(together == alone && together == backwards, "{}", encoder.architecture);
    }
}

fn bert() -> Encoder {
    all().into_iter().find(|e| e.architecture == "bert" && e.head.is_empty()).unwrap()
}

#[test]
fn what_cannot_be_embedded_is_refused_by_its_index() {
    let model = models::load_file(&bert().file().0, 1).unwrap();
    let good = vec![1u32, 2];
    for (bad, why) in [
        (vec![], "text 1 has no tokens"),
        (vec![1; CONTEXT + 1], "text 1 has 97 tokens, the model's context has 96"),
        (vec![1, VOCAB as u32], "token 60 at index 1 of text 1, the vocabulary has 60"),
        (vec![u32::MAX], "token 4294967295 at index 0 of text 1"),
    ] {
        let error = model.embed(&[&good, &bad], MODELS, None).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(what) if what.contains(why)), "{error}");
    }
    let rank = EmbedParams { pooling: Some(Pooling::Rank), raw: false };
    assert!(matches!(model.embed(&[&good], rank, None), Err(Error::Unsupported(_))));
    assert!(model.embed(&[], MODELS, None).unwrap().is_empty());
    let cancel = Cancel::default();
    cancel.fire();
    assert!(matches!(model.embed(&[&good], MODELS, Some(&cancel)), Err(Error::Cancelled)));
    // The next call finds the executor in order.
    assert_eq!(model.embed(&[&good], MODELS, None).unwrap().len(), HIDDEN);
}

#[test]
fn an_encoder_makes_no_logits() {
    let model = models::load_file(&bert().file().0, 1).unwrap();
    let mut session = models::session(&model);
    for error in [session.prefill(&[1, 2], None).unwrap_err(), session.decode(1, None).unwrap_err()] {
        assert!(matches!(&error, Error::Unsupported(what) if what.contains("bert makes no logits")), "{error}");
    }
}

/// The same weights in a folder, under the names of `transformers`.
#[test]
fn a_folder_is_the_same_encoder() {
    let encoder = bert();
    let (file, weights) = encoder.file();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put(
        "config.json",
        r#"{"model_type":"bert","architectures":["BertModel"],"hidden_size":32,"num_hidden_layers":3,
            "num_attention_heads":4,"intermediate_size":48,"max_position_embeddings":96,"layer_norm_eps":1e-5,
            "hidden_act":"gelu","vocab_size":60,"type_vocab_size":2,"hidden_dropout_prob":0.1}"#,
    );
    put("modules.json", r#"[{"path":"","type":"a.Transformer"},{"path":"1_Pooling","type":"a.Pooling"}]"#);
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    put("1_Pooling/config.json", r#"{"pooling_mode_mean_tokens":true}"#);
    let names = [
        ("blk.", "encoder.layer."),
        ("attn_output_norm", "attention.output.LayerNorm"),
        ("attn_output", "attention.output.dense"),
        ("attn_q", "attention.self.query"),
        ("attn_k", "attention.self.key"),
        ("attn_v", "attention.self.value"),
        ("ffn_up", "intermediate.dense"),
        ("ffn_down", "output.dense"),
        ("layer_output_norm", "output.LayerNorm"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("token_embd", "embeddings.word_embeddings"),
        ("token_types", "embeddings.token_type_embeddings"),
        ("position_embd", "embeddings.position_embeddings"),
    ];
    let tensors: Vec<(String, &[u64], Vec<u8>)> = weights
        .iter()
        .map(|(name, dims, values)| {
            let name = names.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
            (name, dims, values.iter().flat_map(|x| x.to_le_bytes()).collect())
        })
        .collect();
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, dims, bytes)| (name.as_str(), "F32", *dims, bytes.clone())).collect();
    fs::write(folder.path().join("model.safetensors"), safetensors::file(&tensors)).unwrap();
    let model = models::load(folder.path());
    let texts = texts();
    assert_eq!(embed(&model, &texts, MODELS), embed(&models::load_file(&file, 1).unwrap(), &texts, MODELS));
}

/// The same weights as EmbeddingGemma's folder has them, with its two modules after the pooling, against the
/// reference: `Gemma3TextConfig` makes the window 5 / 2 + 1, exclusive on both sides.
#[test]
fn a_folder_of_embedding_gemma_has_dense_modules() {
    let encoder = all().into_iter().find(|encoder| encoder.architecture == "gemma-embedding").unwrap();
    let (_, weights) = encoder.file();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let config = serde_json::json!({
        "model_type": "gemma3_text", "architectures": ["Gemma3TextModel"], "use_bidirectional_attention": true,
        "hidden_size": HIDDEN, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 8, "query_pre_attn_scalar": 8, "intermediate_size": 48, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5, "hidden_activation": "gelu_pytorch_tanh", "vocab_size": VOCAB, "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_theta": 1e6, "rope_local_base_freq": 1e4, "attention_bias": false, "attention_dropout": 0.0,
        "attn_logit_softcapping": null, "final_logit_softcapping": null, "rope_scaling": null,
    });
    put("config.json", config.to_string().as_bytes());
    let modules = [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        ("2_Dense", "Dense"),
        ("3_Dense", "Dense"),
        ("4_Normalize", "Normalize"),
    ];
    let module = |(path, name): &(&str, &str)| serde_json::json!({"path": path, "type": format!("a.models.{name}")});
    put("modules.json", Value::from_iter(modules.iter().map(module)).to_string().as_bytes());
    for name in ["1_Pooling", "2_Dense", "3_Dense"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    put("1_Pooling/config.json", br#"{"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true}"#);
    let dense = |function: &str, [from, to]: [usize; 2]| {
        let function = format!("torch.nn.modules.{function}");
        serde_json::json!({"in_features": from, "out_features": to, "bias": false, "activation_function": function})
    };
    let names = [
        ("token_embd", "embed_tokens"),
        ("output_norm", "norm"),
        ("blk.", "layers."),
        ("post_attention_norm", "post_attention_layernorm"),
        ("post_ffw_norm", "post_feedforward_layernorm"),
        ("attn_q_norm", "self_attn.q_norm"),
        ("attn_k_norm", "self_attn.k_norm"),
        ("attn_norm", "input_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
        ("attn_output", "self_attn.o_proj"),
        ("attn_q.", "self_attn.q_proj."),
        ("attn_k.", "self_attn.k_proj."),
        ("attn_v.", "self_attn.v_proj."),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ];
    let mut tensors: Vec<(String, &[u64], Vec<u8>)> = Vec::new();
    for (name, dims, values) in weights.iter() {
        // Gemma's norms are stored less 1.
        let less = if name.contains("norm") { 1.0 } else { 0.0 };
        let bytes: Vec<u8> = values.iter().flat_map(|x| (x - less).to_le_bytes()).collect();
        if let Some(number) = name.strip_prefix("dense_").and_then(|name| name.strip_suffix(".weight")) {
            let file = safetensors::file(&[("linear.weight", "F32", dims, bytes)]);
            put(&format!("{number}_Dense/model.safetensors"), &file);
            let config = dense("linear.Identity", [dims[1] as usize, dims[0] as usize]);
            put(&format!("{number}_Dense/config.json"), config.to_string().as_bytes());
            continue;
        }
        tensors.push((names.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to)), dims, bytes));
    }
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, dims, bytes)| (name.as_str(), "F32", *dims, bytes.clone())).collect();
    put("model.safetensors", &safetensors::file(&tensors));
    let load = || Model::load(folder.path(), models::cpu());
    let texts = texts();
    let expected: Vec<f64> = texts.iter().flat_map(|text| encoder.embed(&weights, text)).collect();
    let error = relative_rms(&embed(&load().unwrap(), &texts, MODELS), &expected);
    assert!(error < 1e-5, "{error}");
    put("3_Dense/config.json", dense("activation.Tanh", [40, 24]).to_string().as_bytes());
    let refused = load().err().unwrap().to_string();
    assert!(refused.contains("activation.Tanh"), "{refused}");
}

/// Hidden states of a decoder times its head are its logits, whatever steps its long texts are cut into.
#[test]
fn decoders_make_embeddings_too() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stories260K-f32.gguf");
    let model = models::load(&path);
    let source = Source::open(&path, Access::Read).unwrap();
    let name = if source.tensor("output.weight").is_some() { "output.weight" } else { "token_embd.weight" };
    let mut bytes = vec![0; 4 * 512 * 64];
    source.read(source.tensor(name).unwrap(), 0, &mut bytes).unwrap();
    let head: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    // As long as the context.
    let text: Vec<u32> = (0..512).map(|i| (i * i + 7 * i + 3) % 512).collect();
    let texts = [text[..40].to_vec(), text.clone(), text[5..6].to_vec()];
    let by = |pooling| EmbedParams { pooling: Some(pooling), raw: true };
    let (last, all) = (embed(&model, &texts, by(Pooling::Last)), embed(&model, &texts, by(Pooling::None)));
    let cache = models::exact();
    let mut end = 0;
    for (text, state) in texts.iter().zip(last.chunks(64)) {
        let mut session = Session::new(&model, &cache).unwrap();
        session.prefill(text, None).unwrap();
        let product = |row: &[f32]| row.iter().zip(state).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        let expected: Vec<f64> = head.chunks(64).map(product).collect();
        assert!(relative_rms(session.logits().unwrap(), &expected) < 1e-5);
        end += text.len();
        assert_eq!(all[(end - 1) * 64..end * 64], *state);
    }
    let error = model.embed(&refs(&texts), MODELS, None).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("names no pooling")), "{error}");
}

#[test]
fn lengths_are_1_unless_told_otherwise() {
    let model = models::load_file(&bert().file().0, 1).unwrap();
    let texts = texts();
    let of = |pooling, raw| embed(&model, &texts, EmbedParams { pooling: Some(pooling), raw });
    for pooling in [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last] {
        let (unit, raw) = (of(pooling, false), of(pooling, true));
        for (unit, raw) in unit.chunks(HIDDEN).zip(raw.chunks(HIDDEN)) {
            let length = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((length(unit) - 1.0).abs() < 1e-6 && (length(raw) - 1.0).abs() > 1e-2);
            let by = length(raw) as f32;
            assert!(unit.iter().zip(raw).all(|(u, r)| (u * by - r).abs() < 1e-5));
        }
    }
}

#[test]
fn what_a_file_says_of_embeddings_is_heeded_or_refused() {
    let with = |change: &dyn Fn(&mut Encoder)| {
        let mut encoder = bert();
        change(&mut encoder);
        models::load_file(&encoder.file().0, 1)
    };
    let refused = |change: &dyn Fn(&mut Encoder), why: &str| {
        let error = with(change).err().unwrap_or_else(|| panic!("{why}: loaded"));
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(&|e| e.pooling = 9, "bert.pooling_type is 9");
    refused(&|e| e.pooling = 4, "bert.pooling_type is 4");
    refused(&|e| e.head = vec![("cls.output.weight", 2, HIDDEN + 1)], "the tensor cls.output.weight has shape");
    refused(&|e| e.head = vec![("cls.output.weight", 2, HIDDEN), ("cls.other.weight", 2, HIDDEN)], "cls.other.weight");
    refused(&|e| e.head = vec![("dense_3.weight", 2, HIDDEN), ("dense_2.weight", 2, HIDDEN)], "the tensor dense_3");
    refused(&|e| e.head = vec![("dense_4.weight", 2, HIDDEN)], "the tensor dense_4.weight has no place");
    refused(
        &|e| (e.head, e.ints) = (vec![("dense_2.weight", 2, HIDDEN)], vec![("dense_2_feat_out", 3)]),
        "bert.dense_2_feat_out is 3",
    );
    refused(&|e| e.ints = vec![("classifier.pooling_type", 7)], "classifier.pooling_type is 7");
    // A file without a pooling leaves the choice to the caller; one that says 0 means none.
    let mut file = bert().file().0;
    file.keys.retain(|(name, _)| name != "bert.pooling_type");
    let error = models::load_file(&file, 1).unwrap().embed(&[&[1]], MODELS, None).unwrap_err();
    assert!(error.to_string().contains("names no pooling"), "{error}");
    let none = with(&|e| e.pooling = 0).unwrap();
    assert_eq!(embed(&none, &[vec![1, 2, 3]], MODELS).len(), 3 * HIDDEN);
    // A network with a causal mask is another one.
    let mut file = bert().file().0;
    file.keys.retain(|(name, _)| name != "bert.attention.causal");
    let error = models::load_file(&file.key("bert.attention.causal", true), 1).err().unwrap();
    assert!(error.to_string().contains("bert.attention.causal is true"), "{error}");
}
