//! PEFT adapters for each family, from a folder and from a GGUF file: projections that a checkpoint fuses or reorders
//! are fused and reordered in the adapter's matrices too. B matrices have as many rows as the weights, so they are
//! written like weights.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{config, families, put_folder, tensors, tiny_of};
use crate::support::adapters::{Factors, merge};
use crate::support::models;
use crate::support::reference::relative_rms;
use crate::support::safetensors;
use crate::support::save::logits_of_each;
use crate::support::tiny::{PROMPT, Rng};
use realizar::engine::Model;
use serde_json::{Map, json};

const PARTS: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

fn logits(model: &Path, adapter: &Path) -> Vec<Vec<f32>> {
    let model: Arc<Model> = models::load(model);
    logits_of_each(&model, 0, Some(adapter))
}

#[test]
fn adapters_of_every_family_agree_with_merged_weights() {
    for family in families() {
        let mut tiny = tiny_of(family.name);
        if ["gptneox", "bloom"].contains(&family.name) {
            tiny.net.kv_heads = tiny.net.heads;
        }
        let (bytes, net, weights) = tiny.build();
        let dir = tempfile::tempdir().unwrap();
        let [folder, file, peft] = ["folder", "tiny.gguf", "peft"].map(|name| dir.path().join(name));
        put_folder(&folder, &config(&family, &tiny, &net), &tensors(&family, &net, &weights));
        fs::write(&file, bytes).unwrap();

        // One A for each number of columns.
        let rng = &mut Rng(9);
        let mut a_of = std::collections::HashMap::new();
        let (mut list, mut b_weights) = (Vec::new(), weights.clone());
        let adapted = |name: &str| PARTS.iter().any(|part| name.ends_with(&format!(".{part}.weight")));
        let mut names: Vec<&String> = weights.keys().filter(|name| adapted(name)).collect();
        names.sort();
        for name in names {
            let cols = match name.rsplit('.').nth(1).unwrap() {
                "attn_output" => net.heads * net.head_dim,
                "ffn_down" => net.ffn,
                _ => net.hidden,
            };
            let mut factors = Factors::new(name, &[(name.clone(), weights[name].len() / cols)], cols, cols, rng);
            factors.a = a_of.entry(cols).or_insert(factors.a).clone();
            b_weights.insert(factors.name.clone(), factors.b.iter().map(|v| f64::from(*v)).collect());
            list.push(factors);
        }
        let mut merged = weights.clone();
        merge(&mut merged, &list, 1.0);

        let (mut written, mut ranks) = (Vec::new(), Map::new());
        for ((full, dims, b), (.., w)) in
            tensors(&family, &net, &b_weights).into_iter().zip(tensors(&family, &net, &weights))
        {
            if b == w {
                continue;
            }
            let (module, &[rows, cols]) = (full.strip_suffix(".weight").unwrap(), &dims[..]) else { panic!("{full}") };
            let bytes = |values: &mut dyn Iterator<Item = f32>| values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
            let name = |which: &str| format!("base_model.model.{module}.lora_{which}.weight");
            let a = &a_of[&(cols as usize)];
            written.push((name("A"), [cols, cols], bytes(&mut a.iter().copied())));
            written.push((name("B"), [rows, cols], bytes(&mut b.iter().map(|v| *v as f32))));
            ranks.insert(module.to_owned(), json!(cols));
        }
        fs::create_dir(&peft).unwrap();
        let config =
            json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "rank_pattern": ranks, "alpha_pattern": ranks});
        fs::write(peft.join("adapter_config.json"), config.to_string()).unwrap();
        let written: Vec<safetensors::Tensor> =
            written.iter().map(|(name, dims, bytes)| (name.as_str(), "F32", &dims[..], bytes.clone())).collect();
        fs::write(peft.join("adapter_model.safetensors"), safetensors::file(&written)).unwrap();

        let expected = net.forward(&merged, &PROMPT);
        // The file of that mixture, which is made of another network's, does not tell its router.
        let models = if family.name == "lfm2moe" { vec![&folder] } else { vec![&folder, &file] };
        let found = models.into_iter().map(|model| relative_rms(&expected, &logits(model, &peft)));
        let found: Vec<f64> = found.collect();
        println!("{:20} {} factors: {found:?}", family.name, written.len());
        // MPT's GELU is exact, the reference's is not.
        let limit = if family.name == "mpt" { 2e-2 } else { 1e-5 };
        assert!(found.iter().all(|difference| *difference < limit), "{}: {found:?}", family.name);
        assert!(relative_rms(&net.forward(&weights, &PROMPT), &logits(&folder, &peft)) > 0.05, "{}", family.name);
    }
}
