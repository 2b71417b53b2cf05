//! Files that tell a network in another way than those with the results of another implementation.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use realizar::engine::{LoadParams, Model};
use realizar::error::Result;
use realizar::quant;
use serde_json::Value;

use super::{expected, files, results};
use crate::support::gguf::{Gguf, Tensor};
use crate::support::published::{file_of, relative_rms};
use crate::support::save::logits_of;
use crate::support::tiny::{self, Tiny};

fn load(file: &Gguf) -> Result<Arc<Model>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, file.build().0).unwrap();
    Model::load(&path, LoadParams { device: 1, ..Default::default() })
}

/// How far the results of a file are from those of `data`.
fn error(data: &Value, file: &Gguf) -> f64 {
    relative_rms(&results(&load(file).unwrap(), data, quant::F32, 64), &expected(data))
}

/// What GGUF files have factors for.
const PARTS: &str = "attn_q attn_k attn_v attn_qkv attn_output attn_gate ffn_gate ffn_up ffn_down ffn_gate_exps \
    ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp ssm_in ssm_out ssm_alpha \
    ssm_beta output";

/// Divides matrices without factors by some that it puts beside them, one an expert.
fn divide(file: &mut Gguf) {
    let known: HashSet<String> = file.tensors.iter().map(|t| t.name.clone()).collect();
    let mut factors = Vec::new();
    for t in &mut file.tensors {
        let Some(name) = t.name.strip_suffix(".weight") else { continue };
        let part = name.rsplit('.').next().unwrap();
        if t.dims.len() < 2 || !PARTS.split(' ').any(|one| one == part) || known.contains(&format!("{name}.scale")) {
            continue;
        }
        let n = if part.ends_with("_exps") { t.dims[0] } else { 1 };
        let values: Vec<f32> = (0..n).map(|i| 1.75 + (factors.len() as u64 + i) as f32 % 7.0).collect();
        let each = t.data.len() / n as usize;
        for (matrix, factor) in t.data.chunks_mut(each).zip(&values) {
            for x in matrix.chunks_mut(4) {
                let value = f32::from_le_bytes(x.try_into().unwrap()) / factor;
                x.copy_from_slice(&value.to_le_bytes());
            }
        }
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        factors.push(Tensor { name: format!("{name}.scale"), dtype: 0, dims: vec![n], data, offset: None });
    }
    file.tensors.extend(factors);
}

#[test]
fn a_matrix_with_a_factor_is_that_matrix_times_the_factor() {
    let mut tested = 0;
    let mut check = |name: &str, error: f64| {
        assert!(error < 1e-5, "{name}: {error:.1e}");
        tested += 1;
    };
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 2, 16, 32)) {
        let (whole, mut file) = (tiny.file().0, tiny.file().0);
        divide(&mut file);
        let [expected, got] = [whole, file].map(|file| logits_of(&load(&file).unwrap()));
        check(name, relative_rms(&got, &expected));
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, data, _) in files(folder.path()) {
        let mut file = file_of(&data);
        divide(&mut file);
        check(&name, error(&data, &file));
    }
    assert!(tested > 80, "{tested}");
}
