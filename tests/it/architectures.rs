//! GGUF files of architectures whose logits, or hidden states where there are none, an implementation in 64-bit floats
//! computed (`data/README.md`). Weights follow from the names of tensors.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use realizar::engine::{CacheParams, EmbedParams, LoadParams, Model, Pooling, Session};
use realizar::quant;
use realizar::tensor::DType;
use serde_json::Value;

use crate::support::gguf::Gguf;
use crate::support::published::{file_of, numbers, relative_rms};

/// The rows of `data` whose results it holds, one after the other, by a model that takes `piece` tokens at a time and
/// keeps what `kv` tells.
fn results(model: &Arc<Model>, data: &Value, kv: DType, piece: usize) -> Vec<f32> {
    let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
    let rows = numbers(&data["rows"]).into_iter().map(|row| row as usize);
    if data["states"].is_array() {
        let params = EmbedParams { pooling: Some(Pooling::None), raw: true };
        let all = model.embed(&[&ids], params, None).unwrap();
        let width = all.len() / ids.len();
        return rows.flat_map(|row| all[row * width..][..width].to_vec()).collect();
    }
    let params = CacheParams { capacity: 64, k_type: kv, v_type: kv };
    let mut session = Session::new(model, &params).unwrap();
    let (mut got, mut at) = (Vec::new(), 0);
    for row in rows {
        ids[at..=row].chunks(piece).for_each(|ids| session.prefill(ids, None).unwrap());
        got.extend_from_slice(session.logits().unwrap());
        at = row + 1;
    }
    got
}

#[test]
fn architectures_give_the_results_of_another_implementation() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures");
    let mut n = 0;
    for entry in fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        let data: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let file = file_of(&data);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let gguf = folder.path().join(format!("{name}.gguf"));
        fs::write(&gguf, file.build().0).unwrap();
        let rows = if data["states"].is_array() { &data["states"] } else { &data["logits"] };
        let row = |row: &Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect::<Vec<_>>();
        let expected: Vec<f32> = rows.as_array().unwrap().iter().flat_map(row).collect();
        // What is rounded may choose other experts, and other positions.
        let rounded = [(0, quant::F16, 0.5), (0, quant::Q8_0, 0.5), (quant::Q8_0.0, quant::F32, 0.5)];
        for (quantize, kv, limit) in [(0, quant::F32, 1e-5)].into_iter().chain(rounded) {
            let model = Model::load(&gguf, LoadParams { device: 1, quantize, ..Default::default() }).unwrap();
            let [single, many] = [1, 64].map(|piece| results(&model, &data, kv, piece));
            let error = relative_rms(&single, &expected);
            println!("{name:20} {quantize:2} {kv:?} {error:.1e}");
            assert!(error < limit, "{name}, matrices of type {quantize}, {kv:?}: {error:.1e}");
            assert!(single == many, "{name}, matrices of type {quantize}, {kv:?}: tokens one by one");
        }
        n += 1;
    }
    assert!(n >= 23);
}

#[test]
fn networks_of_diffusion_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dream", "llada", "llada-moe", "rnd1"] {
        let gguf = folder.path().join("model.gguf");
        fs::write(&gguf, Gguf::new().key("general.architecture", name).build().0).unwrap();
        let error = Model::load(&gguf, LoadParams { device: 1, ..Default::default() }).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("diffusion"), "{error}");
    }
}
