//! Adapter files that are damaged, malicious, or trained for another model.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{Case, all_factors, refusal};
use crate::support::adapter_file::gguf;
use crate::support::adapters::Factors;
use crate::support::gguf::Gguf;
use crate::support::models;
use crate::support::published::{file_of, numbers};
use crate::support::tiny::{Rng, Tiny};
use realizar::engine::{Adapter, LoadOptions, Model};
use realizar::error::Error;
use realizar::quant;
use serde_json::Value;

/// Rejects a file quickly, with a status and a message.
fn check(case: &Case, model: &Arc<Model>, file: &Gguf, status: fn(&Error) -> bool, parts: &[&str]) {
    check_bytes(case, model, &file.build().0, status, parts);
}

fn check_bytes(case: &Case, model: &Arc<Model>, bytes: &[u8], status: fn(&Error) -> bool, parts: &[&str]) {
    let path = case.dir.path().join("bad.gguf");
    fs::write(&path, bytes).unwrap();
    let started = Instant::now();
    let error = refusal(model, &path);
    let said = error.to_string();
    assert!(status(&error) && parts.iter().all(|part| said.contains(part)), "{said}, {parts:?} expected");
    assert!(started.elapsed().as_secs() < 5, "{said}");
}

fn is_format(e: &Error) -> bool {
    matches!(e, Error::Format { .. })
}

fn is_mismatch(e: &Error) -> bool {
    matches!(e, Error::Mismatch(_))
}

fn is_unsupported(e: &Error) -> bool {
    matches!(e, Error::Unsupported(_))
}

#[test]
fn bad_files_are_refused_by_name() {
    let case = Case::new(Tiny::new("llama", quant::F32));
    let model = case.load(2, None);
    let list = &all_factors(&case.tiny, 4, 1)[..3];
    let good = || gguf("llama", list, 8.0, quant::F32);
    let change = |f: &dyn Fn(&mut Gguf)| {
        let mut file = good();
        f(&mut file);
        file
    };
    case.adapter(&model, list, 8.0, quant::F32);
    let bad = |file: &Gguf, status, parts: &[&str]| check(&case, &model, file, status, parts);
    let key = |name: &'static str, f: &dyn Fn(Gguf) -> Gguf| {
        let mut file = good();
        file.keys.retain(|(key, _)| key != name);
        f(file)
    };

    // What the file says of itself.
    bad(&key("general.type", &|f| f), is_format, &["no adapter", "general.type"]);
    bad(&key("general.type", &|f| f.key("general.type", "model")), is_format, &["no adapter", "\"model\""]);
    bad(&key("adapter.type", &|f| f), is_format, &["adapter.type"]);
    bad(&key("adapter.type", &|f| f.key("adapter.type", "ia3")), is_unsupported, &["\"ia3\""]);
    bad(&key("", &|f| f.key("adapter.alora.invocation_tokens", vec![1u32])), is_unsupported, &["alora"]);
    bad(&key("adapter.lora.alpha", &|f| f), is_format, &["adapter.lora.alpha"]);
    for alpha in [f32::NAN, f32::INFINITY, 0.0] {
        bad(&key("adapter.lora.alpha", &|f| f.key("adapter.lora.alpha", alpha)), is_format, &["adapter.lora.alpha is"]);
    }
    bad(&key("general.architecture", &|f| f), is_format, &["general.architecture"]);
    let other = key("general.architecture", &|f| f.key("general.architecture", "qwen2"));
    bad(&other, is_mismatch, &["\"qwen2\"", "\"llama\""]);

    // Factors.
    bad(&change(&|f| f.tensors.clear()), is_format, &["has no factors"]);
    bad(&change(&|f| drop(f.tensors.remove(0))), is_format, &["one factor of two", "lora_b"]);
    bad(&change(&|f| drop(f.tensors.remove(1))), is_format, &["one factor of two", "lora_a"]);
    bad(&change(&|f| f.tensors[0].name = "blk.0.attn_q.weight".into()), is_unsupported, &["no factor"]);
    bad(&change(&|f| f.tensors[1].name = f.tensors[0].name.clone()), is_format, &["occurs twice"]);
    let ranks = change(&|f| {
        f.tensors[0].dims[0] = 3;
        f.tensors[0].data.truncate(3 * 256 * 4);
    });
    bad(&ranks, is_format, &["lora_a", "no rank in common", "[3, 256]", "[256, 4]"]);
    let empty = change(&|f| {
        (f.tensors[0].dims[0], f.tensors[1].dims[1]) = (0, 0);
        (f.tensors[0].data, f.tensors[1].data) = (vec![], vec![]);
    });
    bad(&empty, is_format, &["blk.0"]);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for i in [0, 3] {
            let spoil = change(&|f| f.tensors[i].data[40..44].copy_from_slice(&value.to_le_bytes()));
            bad(&spoil, is_format, &["the largest number is", if i == 0 { "lora_a" } else { "lora_b" }]);
        }
    }

    // Another model's.
    let rename = |to: &'static str| {
        change(&move |f| {
            for (tensor, ending) in f.tensors.iter_mut().zip(["lora_a", "lora_b"]) {
                tensor.name = format!("{to}.{ending}");
            }
        })
    };
    bad(&rename("blk.7.attn_q.weight"), is_mismatch, &["blk.7.attn_q.weight", "not a matrix product"]);
    bad(&rename("blk.0.attn_norm.weight"), is_mismatch, &["blk.0.attn_norm.weight"]);
    bad(&rename("blk.1.attn_k.weight"), is_mismatch, &["blk.1.attn_k.weight", "[256, 256]", "it must be [64, 256]"]);
    bad(&rename("token_embd.weight"), is_unsupported, &["token_embd.weight", "looked up"]);
    let many = Factors::new("blk.0.attn_q.weight", &[("blk.0.attn_q.weight".into(), 256)], 256, 600, &mut Rng(1));
    bad(&gguf("llama", &[many], 8.0, quant::F32), is_unsupported, &["rank 600"]);

    // Damage at every place of the header is an error or changes nothing else.
    let (bytes, header) = good().build();
    for at in (0..header).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0xff;
        let path = case.dir.path().join("bad.gguf");
        fs::write(&path, &bytes).unwrap();
        let _ = Adapter::load(&model, &path, None);
    }
    for len in [0, 3, 24, header / 2, header + 100, bytes.len() - 1] {
        check_bytes(&case, &model, &bytes[..len], is_format, &["bad.gguf"]);
    }
    check_bytes(&case, &model, b"PK\x03\x04 something else", is_format, &["no GGUF file"]);
    assert!(matches!(refusal(&model, &case.dir.path().join("absent.gguf")), Error::Io { .. }));
}

#[test]
fn what_has_no_plain_product_is_refused() {
    let experts = super::differing(quant::F32).find(|(name, _)| *name == "llama with experts").unwrap().1;
    let case = Case::new(experts);
    let model = case.load(1, None);
    let f = case.tiny.net.moe.unwrap().ffn;
    let name = "blk.0.ffn_up_exps.weight";
    let factors = Factors::new(name, &[(name.into(), 4 * f)], 256, 4, &mut Rng(1));
    check(&case, &model, &gguf("llama", &[factors], 8.0, quant::F32), is_unsupported, &[name, "experts"]);

    let case = Case::new(Tiny::new("llama", quant::F32).change(|t| t.scales = &["attn_q"]));
    let model = case.load(1, None);
    let name = "blk.1.attn_q.weight";
    let factors = Factors::new(name, &[(name.into(), 256)], 256, 4, &mut Rng(1));
    check(&case, &model, &gguf("llama", &[factors], 8.0, quant::F32), is_unsupported, &[name, "has a factor"]);

    let case = Case::new(Tiny::new("llama", quant::F32).change(|t| t.tied = false));
    let file = case.tiny.file().0.tensor("output.scale", quant::F32.0, &[1], &2f32.to_le_bytes());
    fs::write(case.dir.path().join("tiny.gguf"), file.build().0).unwrap();
    let model = case.load(1, None);
    let vocab = model.info().vocab_size as usize;
    let factors = Factors::new("output.weight", &[("output.weight".into(), vocab)], 256, 4, &mut Rng(1));
    check(&case, &model, &gguf("llama", &[factors], 8.0, quant::F32), is_unsupported, &["output.weight", "a factor"]);

    let params = LoadOptions { text_only: true, ..Default::default() };
    let text = Model::load(&case.dir.path().join("tiny.gguf"), params).unwrap();
    assert!(matches!(refusal(&text, &case.dir.path().join("bad.gguf")), Error::InvalidArgument(_)));
}

/// A table of n-grams is looked up like one of tokens, so that a factor of it would add to nothing.
#[test]
fn factors_of_a_table_of_ngrams_are_refused() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures/qwen4exp.json");
    let data: Value = serde_json::from_slice(&fs::read(data).unwrap()).unwrap();
    let (dir, name) = (tempfile::tempdir().unwrap(), "per_layer_token_embd.weight");
    let [path, adapter] = ["model.gguf", "adapter.gguf"].map(|file| dir.path().join(file));
    fs::write(&path, file_of(&data).build().0).unwrap();
    let model = models::load(&path);
    let sizes: Vec<usize> = numbers(&data["tensors"][name]).iter().map(|n| *n as usize).collect();
    let factors = Factors::new(name, &[(name.into(), sizes[0])], sizes[1], 4, &mut Rng(1));
    fs::write(&adapter, gguf("qwen4exp", &[factors], 8.0, quant::F32).build().0).unwrap();
    let error = refusal(&model, &adapter);
    assert!(is_unsupported(&error) && error.to_string().contains("looked up"), "{error}");
}
