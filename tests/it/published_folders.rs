//! Folders as models were published: the configurations of well-known models by their structure, with widths scaled
//! down, as their makers wrote them and as transformers saves them again. Each gives the logits that transformers
//! computed (`data/folders/make.py`), or is refused for the reason that stands here beside it.

use std::fs;
use std::path::Path;

use realizar::engine::media_from_tokens;
use realizar::engine::{CacheParams, EmbedParams, LoadParams, Model, Pooling, Prompt, PromptPart, Session};
use realizar::error::Result;
use realizar::quant;

use crate::support::published::{PROMPT, Published, put_weights, relative_rms};

/// Models that are refused: words of the message, and the reason.
const REFUSED: &[(&str, &str, &str)] = &[(
    "mistral-small-3.1-24b-instruct-2503",
    "lm_head.weight is missing",
    "published files have a head; transformers saves none, because it ties the wrapper's by default, and does not write that down",
)];

/// Models held to 1e-5 in place of 2e-3, which would hide small errors in the choice of positions and in states beside
/// keys and values.
const EXACT: &[&str] = &[
    "deepseek-v4-flash",
    "glm-5.3-flash",
    "hy4-preview",
    "kimi-linear-48b-a3b-instruct",
    "minimax-m3",
    "qwen3.8-flash-next",
];

fn write(folder: &Path, published: &Published, config: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config).unwrap();
    fs::write(folder.join("generation_config.json"), &published.generation).unwrap();
    put_weights(&folder.join("model.safetensors"), &published.tensors);
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
    if model.info().reads_source {
        let source = media_from_tokens(&model, &PROMPT, None)?;
        session.prefill_prompt(&Prompt::new(&model, &[PromptPart::Media(&source)], false)?, 0, None)?;
    }
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
        let published = Published::read(file);
        let (stem, folder) =
            (file.file_stem().unwrap().to_str().unwrap(), temporary.path().join(file.file_stem().unwrap()));
        models += 1;
        for (config, text) in [("config", &published.config), ("saved_again", &published.saved_again)] {
            write(&folder, &published, text);
            let reason = REFUSED.iter().find(|(name, ..)| *name == stem);
            match (computed(&folder, published.is_headless), reason) {
                (Err(e), Some((_, words, _))) if e.to_string().contains(words) => refused += 1,
                (Err(e), _) => wrong.push(format!("{stem}, {config}: {e}")),
                (Ok(_), Some(_)) => wrong.push(format!("{stem}, {config}: is not refused")),
                (Ok(values), None) => {
                    let error = relative_rms(&values, &published.expected);
                    println!("{stem:50} {config:12} {error:.1e}");
                    let limit = if EXACT.contains(&stem) { 1e-5 } else { 2e-3 };
                    if error.is_nan() || error >= limit {
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
