//! A published model from `data/folders`, whose weights are derived from the names of its tensors.

use std::fs;
use std::path::Path;

use realizar::quant;
use serde_json::Value;

use super::gguf::Gguf;
use super::safetensors;

/// Name, type, shape and bytes.
pub type Tensor = (String, &'static str, Vec<u64>, Vec<u8>);

/// The tokens for which make.py computed results.
pub const PROMPT: [u32; 10] = [1, 5, 9, 3, 7, 2, 11, 4, 8, 6];

pub struct Published {
    pub config: String,
    /// The configuration as saved again by transformers.
    pub saved_again: String,
    pub generation: String,
    pub tensors: Vec<Tensor>,
    /// Logits of the last token (in an encoder-decoder with the prompt as both source and text), hidden state of a
    /// model without a head, or scores of a classifier.
    pub expected: Vec<f32>,
    pub is_headless: bool,
    pub ranks: bool,
}

impl Published {
    pub fn read(path: &Path) -> Published {
        let data: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let text = |key: &str| data[key].as_str().unwrap().to_owned();
        let tensor = |(name, shape): (&String, &Value)| {
            let shape: Vec<u64> = shape.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            if let Some(integers) = data["integers"][name].as_array() {
                let bytes = integers.iter().flat_map(|x| x.as_i64().unwrap().to_le_bytes()).collect();
                return (name.clone(), "I64", shape, bytes);
            }
            let bytes = weights(name, &shape).iter().flat_map(|x| x.to_le_bytes()).collect();
            (name.clone(), "F32", shape, bytes)
        };
        let [is_headless, ranks] = ["states", "scores"].map(|key| !data[key].is_null());
        let expected = ["logits", "states", "scores"].iter().find_map(|key| data[key].as_array()).unwrap();
        Published {
            config: text("config"),
            saved_again: text("saved_again"),
            generation: text("generation_config"),
            tensors: data["tensors"].as_object().unwrap().iter().map(tensor).collect(),
            expected: expected.iter().map(|x| x.as_f64().unwrap() as f32).collect(),
            is_headless,
            ranks,
        }
    }

    /// Returns the model in a file of `data/folders`.
    pub fn of(name: &str) -> Published {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/folders");
        Published::read(&data.join(format!("{name}.json")))
    }
}

/// Returns the weights of a tensor, as `weights` of make.py: uniform numbers from a counter and the name.
pub fn weights(name: &str, shape: &[u64]) -> Vec<f32> {
    let seed =
        name.bytes().fold(14695981039346656037u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(1099511628211));
    let lower = name.to_lowercase();
    let is_norm = name.ends_with("weight") && ["norm", "ln_", "ln."].iter().any(|part| lower.contains(part));
    let n: u64 = shape.iter().product();
    let uniform = (0..n).map(|i| {
        let x = i.wrapping_mul(0x9E3779B97F4A7C15).wrapping_add(seed);
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D049BB133111EB);
        ((x ^ (x >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    });
    uniform
        .map(|u| match shape {
            [] | [_] if is_norm => 1.0 + 0.25 * u,
            // A bound below 0.
            [] | [_] if name.ends_with("act_fn.eps") => -(0.25 * u).abs(),
            [] | [_] => 0.25 * u,
            [.., last] => u * (3.0 / *last as f64).sqrt(),
        } as f32)
        .collect()
}

pub fn put_weights(path: &Path, tensors: &[Tensor]) {
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|t| (t.0.as_str(), t.1, &t.2[..], t.3.clone())).collect();
    fs::write(path, safetensors::file(&tensors)).unwrap();
}

/// Root mean square of the difference, relative to that of the expected values.
pub fn relative_rms(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let square = |x: f64| x * x;
    let differences: f64 = got.iter().zip(expected).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    (differences / expected.iter().map(|x| square(f64::from(*x))).sum::<f64>()).sqrt()
}

pub fn numbers(v: &Value) -> Vec<u64> {
    v.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
}

pub fn with_key(file: Gguf, name: &str, value: &Value) -> Gguf {
    let int = |v: &Value| v.as_u64().map(|v| v as u32);
    let float = |v: &Value| v.as_f64().unwrap() as f32;
    match value {
        Value::Bool(v) => file.key(name, *v),
        Value::String(v) => file.key(name, v.as_str()),
        Value::Array(v) if v[0].is_boolean() => file.key(name, v.iter().map(|v| v == true).collect::<Vec<_>>()),
        Value::Array(v) if v[0].is_u64() => file.key(name, v.iter().filter_map(Value::as_u64).collect::<Vec<_>>()),
        Value::Array(v) => file.key(name, v.iter().map(float).collect::<Vec<_>>()),
        v => match int(v) {
            Some(v) => file.key(name, v),
            None => file.key(name, float(v)),
        },
    }
}

/// Returns the values of a tensor. Factors and divisors are positive.
fn values_of(name: &str, shape: &[u64]) -> Vec<u8> {
    let is_factor = name.ends_with(".scale") || name == "rope_freqs.weight";
    let value = |x: f32| if is_factor { 1.5 + 2.0 * x } else { x };
    weights(name, shape).into_iter().flat_map(|x| value(x).to_le_bytes()).collect()
}

/// Returns 32-bit integers: different experts of eight for each id.
fn experts_of_ids(shape: &[u64]) -> Vec<u8> {
    let of_id = |id| (0..shape[1]).flat_map(move |i| ((7 * id + 3 * i) as i32 % 8).to_le_bytes());
    (0..shape[0]).flat_map(of_id).collect()
}

/// Returns the file whose keys and shapes `data/architectures` lists.
pub fn file_of(data: &Value) -> Gguf {
    let keys = data["keys"].as_object().unwrap();
    let mut file = keys.iter().fold(Gguf::new(), |file, (name, value)| with_key(file, name, value));
    for (name, shape) in data["tensors"].as_object().unwrap() {
        let shape = numbers(shape);
        file = match name.ends_with("tid2eid.weight") {
            true => file.tensor(name, 26, &shape, &experts_of_ids(&shape)),
            false => file.tensor(name, quant::F32.0, &shape, &values_of(name, &shape)),
        };
    }
    file
}
