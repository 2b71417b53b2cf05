//! Folders as models were published: the configurations of well-known models by their structure, with widths scaled down, as
//! their makers wrote them and as transformers saves them again. Each gives the logits that transformers computed
//! (`data/folders/make.py`), or is refused for the reason that stands here beside it.

#[path = "support/safetensors.rs"]
mod safetensors;

use std::fs;
use std::path::Path;

use realizar::engine::{CacheParams, EmbedParams, LoadParams, Model, Pooling, Session};
use realizar::error::Result;
use realizar::quant;
use serde_json::Value;

const PROMPT: [u32; 10] = [1, 5, 9, 3, 7, 2, 11, 4, 8, 6];

/// Models that are refused: words of the message, and the reason.
const REFUSED: &[(&str, &str, &str)] = &[(
    "mistral-small-3.1-24b-instruct-2503",
    "lm_head.weight is missing",
    "published files have a head; transformers saves none, because it ties the wrapper's by default, and does not write that down",
)];

/// The weights of a tensor, as `weights` of make.py has them: uniform numbers from a counter and the name.
fn weights(name: &str, shape: &[u64]) -> Vec<f32> {
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
            [] | [_] => 0.25 * u,
            [.., last] => u * (3.0 / *last as f64).sqrt(),
        } as f32)
        .collect()
}

fn write(folder: &Path, published: &Value, config: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), published[config].as_str().unwrap()).unwrap();
    fs::write(folder.join("generation_config.json"), published["generation_config"].as_str().unwrap()).unwrap();
    let tensors: Vec<(&String, Vec<u64>)> = published["tensors"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, shape)| (name, shape.as_array().unwrap().iter().map(|d| d.as_u64().unwrap()).collect()))
        .collect();
    let tensors: Vec<safetensors::Tensor> = tensors
        .iter()
        .map(|(name, shape)| {
            let bytes = weights(name, shape).iter().flat_map(|x| x.to_le_bytes()).collect();
            (name.as_str(), "F32", &shape[..], bytes)
        })
        .collect();
    fs::write(folder.join("model.safetensors"), safetensors::file(&tensors)).unwrap();
}

/// The logits, or the hidden state of a model without a head, behind the prompt.
fn computed(folder: &Path, is_headless: bool) -> Result<Vec<f32>> {
    let model = Model::load(folder, LoadParams { device: 1, ..Default::default() })?;
    if is_headless {
        let params = EmbedParams { pooling: Some(Pooling::None), raw: true };
        let states = model.embed(&[&PROMPT], params, None)?;
        return Ok(states[states.len() / PROMPT.len() * (PROMPT.len() - 1)..].to_vec());
    }
    let params = CacheParams { capacity: 32, k_type: quant::F32, v_type: quant::F32 };
    let mut session = Session::new(&model, &params)?;
    session.prefill(&PROMPT, None)?;
    Ok(session.logits().unwrap().to_vec())
}

#[test]
fn published_folders_give_their_makers_logits() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/folders");
    let temporary = tempfile::tempdir().unwrap();
    let (mut models, mut refused, mut wrong) = (0, 0, vec![]);
    let mut files: Vec<_> = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let published: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let (stem, folder) =
            (file.file_stem().unwrap().to_str().unwrap(), temporary.path().join(file.file_stem().unwrap()));
        let is_headless = published["logits"].is_null();
        let expected = published[if is_headless { "states" } else { "logits" }].as_array().unwrap();
        let expected: Vec<f64> = expected.iter().map(|x| x.as_f64().unwrap()).collect();
        models += 1;
        for config in ["config", "saved_again"] {
            write(&folder, &published, config);
            let reason = REFUSED.iter().find(|(name, ..)| *name == stem);
            match (computed(&folder, is_headless), reason) {
                (Err(e), Some((_, words, _))) if e.to_string().contains(words) => refused += 1,
                (Err(e), _) => wrong.push(format!("{stem}, {config}: {e}")),
                (Ok(_), Some(_)) => wrong.push(format!("{stem}, {config}: is not refused")),
                (Ok(values), None) => {
                    let square = |x: f64| x * x;
                    let differences = values.iter().zip(&expected).map(|(a, b)| square(f64::from(*a) - b)).sum::<f64>();
                    let error = (differences / expected.iter().map(|x| square(*x)).sum::<f64>()).sqrt();
                    if values.len() != expected.len() || error.is_nan() || error >= 2e-3 {
                        wrong.push(format!("{stem}, {config}: the values are {error:.1e} from transformers'"));
                    }
                }
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {models}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(models >= 60 && refused == 2 * REFUSED.len());
}
