//! GGUF files of architectures whose logits an implementation in 64-bit floats computed (`data/README.md`). Weights
//! follow from the names of tensors.

use std::fs;
use std::path::Path;

use realizar::engine::{CacheParams, EmbedParams, LoadParams, Model, Pooling, Session};
use realizar::quant;
use serde_json::Value;

use crate::support::gguf::Gguf;
use crate::support::published::{relative_rms, weights};

fn with_key(file: Gguf, name: &str, value: &Value) -> Gguf {
    let int = |v: &Value| v.as_u64().map(|v| v as u32);
    let float = |v: &Value| v.as_f64().unwrap() as f32;
    match value {
        Value::Bool(v) => file.key(name, *v),
        Value::String(v) => file.key(name, v.as_str()),
        Value::Array(v) if v[0].is_boolean() => file.key(name, v.iter().map(|v| v == true).collect::<Vec<_>>()),
        Value::Array(v) if v[0].is_u64() => file.key(name, v.iter().filter_map(int).collect::<Vec<_>>()),
        Value::Array(v) => file.key(name, v.iter().map(float).collect::<Vec<_>>()),
        v => match int(v) {
            Some(v) => file.key(name, v),
            None => file.key(name, float(v)),
        },
    }
}

/// The values of a tensor. Those that multiply or divide are positive.
fn values(name: &str, shape: &[u64]) -> Vec<u8> {
    let is_factor = name.ends_with(".scale") || name == "rope_freqs.weight";
    let value = |x: f32| if is_factor { 1.5 + 2.0 * x } else { x };
    weights(name, shape).into_iter().flat_map(|x| value(x).to_le_bytes()).collect()
}

#[test]
fn architectures_give_the_logits_of_another_implementation() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures");
    let mut n = 0;
    for entry in fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        let data: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let numbers = |v: &Value| v.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect::<Vec<_>>();
        let keys = data["keys"].as_object().unwrap();
        let mut file = keys.iter().fold(Gguf::new(), |file, (name, value)| with_key(file, name, value));
        for (name, shape) in data["tensors"].as_object().unwrap() {
            let shape = numbers(shape);
            file = file.tensor(name, quant::F32.0, &shape, &values(name, &shape));
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let gguf = folder.path().join(format!("{name}.gguf"));
        fs::write(&gguf, file.build().0).unwrap();
        let model = Model::load(&gguf, LoadParams { device: 1, ..Default::default() }).unwrap();

        let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
        let is_encoder = data["logits"].is_null();
        let expected: Vec<f32> = data[if is_encoder { "states" } else { "logits" }]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|row| row.as_array().unwrap())
            .map(|v| v.as_f64().unwrap() as f32)
            .collect();
        n += 1;
        if is_encoder {
            let states = model.embed(&[&ids], EmbedParams { pooling: Some(Pooling::None), raw: true }, None).unwrap();
            let rows = numbers(&data["rows"]);
            let wide = expected.len() / rows.len();
            let got: Vec<f32> = rows.iter().flat_map(|row| &states[*row as usize * wide..][..wide]).copied().collect();
            let error = relative_rms(&got, &expected);
            println!("{name:20} all {error:.1e}");
            assert!(error < 1e-5, "{name}: {error:.1e}");
            continue;
        }
        // One by one, and many at once.
        for piece in [1, ids.len()] {
            let params = CacheParams { capacity: 64, k_type: quant::F32, v_type: quant::F32 };
            let mut session = Session::new(&model, &params).unwrap();
            let (mut got, mut at) = (Vec::new(), 0);
            for row in numbers(&data["rows"]) {
                let end = row as usize + 1;
                ids[at..end].chunks(piece).for_each(|ids| session.prefill(ids, None).unwrap());
                got.extend_from_slice(session.logits().unwrap());
                at = end;
            }
            let error = relative_rms(&got, &expected);
            println!("{name:20} {piece:3} {error:.1e}");
            assert!(error < 1e-5, "{name}, {piece} at a time: {error:.1e}");
        }
    }
    assert!(n >= 10);
}
