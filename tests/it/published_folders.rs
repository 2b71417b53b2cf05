//! Folders with the configurations of well-known models, with widths scaled down, as their authors published them and
//! as transformers saves them. Each model must give the logits that transformers computed (`data/folders/make.py`), or
//! is rejected with the listed reason.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use realizar::engine::media_from_tokens;
use realizar::engine::{CacheParams, EmbedParams, Model, Pooling, Prompt, PromptPart, Session};
use realizar::error::Result;
use realizar::quant;

use crate::support::models;
use crate::support::published::{PROMPT, Published, put_weights, relative_rms};

/// Models that are rejected: words of the message, and the reason.
const REFUSED: &[(&str, &str, &str)] = &[(
    "mistral-small-3.1-24b-instruct-2503",
    "lm_head.weight is missing",
    "published files have a head; transformers saves none, because it ties the wrapper's by default, and does not write that down",
)];

/// Largest distance of logits, and of hidden states, from transformers'.
const LIMIT: f64 = 1e-5;

/// Members of configurations, what stands in their place, and words of the message by which that is rejected.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    ("apertus-8b-instruct-2509", r#""qk_norm": true"#, r#""qk_norm": false"#, "\"qk_norm\" with the value false"),
    ("nomic-embed-text-v1.5", r#""prenorm": false"#, r#""prenorm": true"#, "\"prenorm\" with the value true"),
    (
        "nomic-embed-text-v1.5",
        r#""rotary_scaling_factor": null"#,
        r#""rotary_scaling_factor": 2"#,
        "rotary_scaling_factor",
    ),
    ("eurobert-210m", "EuroBertForMaskedLM", "EuroBertForTokenClassification", "a classifier"),
    (
        "gte-reranker-modernbert-base",
        r#""classifier_activation": "gelu""#,
        r#""classifier_activation": "silu""#,
        "silu",
    ),
    ("dbrx-instruct", r#""moe_top_k": 3"#, r#""moe_top_k": 3, "moe_normalize_expert_weights": 2"#, "normalize"),
    ("dbrx-instruct", r#""kv_n_heads": 2"#, r#""kv_n_heads": 2, "magic": 2"#, "\"magic\" with the value 2"),
    ("command-a-moe", r#""average""#, r#""sum""#, "\"shared_expert_combination_strategy\" with the value \"sum\""),
    ("hy3", r#""route_norm": true"#, r#""route_norm": false"#, "route_norm"),
    ("granite-swa", "[0, 500000.0, 500000.0]", "[0, 500000.0, 600000.0]", "layer_rope_theta"),
    ("minimax-text-01-hf", r#""mlp_beta_factor": 1.0"#, r#""mlp_beta_factor": 0.5"#, "factors of blocks"),
    ("mimo-v2-flash", r#""swa_head_dim": 24"#, r#""swa_head_dim": 16"#, "swa_head_dim"),
    ("laguna-xs.2", r#""gating": true"#, r#""gating": true, "moe_router_logit_softcapping": 3"#, "softcapping"),
    ("step-3.7-flash", "[0.5, 1.0,", "[1.0, 1.0,", "partial_rotary_factors"),
    ("ling-3.0", r#""kda_safe_gate": true"#, r#""kda_safe_gate": false"#, "kda_safe_gate"),
    ("dots3-note-text", r#""swa_q_lora_rank": 24"#, r#""swa_q_lora_rank": 32"#, "widths of layers with a window"),
    ("bitnet-b1.58-2b-4t-float", "relu2", "gelu", "\"hidden_act\" with the value \"gelu\""),
    (
        "opt-125m",
        r#""_remove_final_layer_norm": false"#,
        r#""_remove_final_layer_norm": true"#,
        "\"_remove_final_layer_norm\" with the value true",
    ),
    ("gpt-neo-125m", r#"[["global", "local"], 2]"#, r#"[["global", "local"], 3]"#, "attention_types"),
    ("sarvam-30b", r#""use_qk_norm": true"#, r#""use_qk_norm": false"#, "\"use_qk_norm\" with the value false"),
    (
        "gte-multilingual-base",
        r#""logn_attention_scale": false"#,
        r#""logn_attention_scale": true"#,
        "logn_attention_scale",
    ),
    ("gte-base-en-v1.5", r#""type": "ntk""#, r#""type": "ntk", "mixed_b": 0.5"#, "mixed_b"),
    ("albert-base-v2", r#""num_hidden_groups": 1"#, r#""num_hidden_groups": 2"#, "num_hidden_groups"),
    (
        "nomic-embed-text-v2-moe",
        r#""moe_normalize_expert_weights": false"#,
        r#""moe_normalize_expert_weights": true"#,
        "\"moe_normalize_expert_weights\" with the value true",
    ),
    ("mellum-2", r#"{"rope_theta": 500000.0, "rope_type": "default"}"#, r#"{"rope_theta": 1e4}"#, "another rope_theta"),
];

fn write(folder: &Path, published: &Published, config: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config).unwrap();
    fs::write(folder.join("generation_config.json"), &published.generation).unwrap();
    put_weights(&folder.join("model.safetensors"), &published.tensors);
}

/// Computes what `Published::expected` has: of the prompt at once, and logits of its tokens one by one as well.
fn computed(folder: &Path, published: &Published) -> Result<Vec<Vec<f32>>> {
    let model = Model::load(folder, models::cpu())?;
    if published.is_headless || published.ranks {
        let pooling = if published.ranks { Pooling::Rank } else { Pooling::None };
        let params = EmbedParams { pooling: Some(pooling), raw: true };
        let values = model.embed(&[&PROMPT], params, None)?;
        let first = if published.ranks { 0 } else { values.len() / PROMPT.len() * (PROMPT.len() - 1) };
        return Ok(vec![values[first..].to_vec()]);
    }
    let tokens: Vec<&[u32]> = PROMPT.chunks(1).collect();
    Ok(vec![logits(&model, &[&PROMPT[..]])?, logits(&model, &tokens)?])
}

/// Returns the logits after pieces of the prompt.
fn logits(model: &Arc<Model>, pieces: &[&[u32]]) -> Result<Vec<f32>> {
    let params = CacheParams { capacity: 32, k_type: quant::F32, v_type: quant::F32 };
    let mut session = Session::new(model, &params)?;
    if model.info().reads_source {
        let source = media_from_tokens(model, &PROMPT, None)?;
        session.prefill_prompt(&Prompt::new(model, &[PromptPart::Media(&source)], false)?, 0, None)?;
    }
    for piece in pieces {
        session.prefill(piece, None)?;
    }
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
            match (computed(&folder, &published), reason) {
                (Err(e), Some((_, words, _))) if e.to_string().contains(words) => refused += 1,
                (Err(e), _) => wrong.push(format!("{stem}, {config}: {e}")),
                (Ok(_), Some(_)) => wrong.push(format!("{stem}, {config}: is not refused")),
                (Ok(results), None) => {
                    for error in results.iter().map(|values| relative_rms(values, &published.expected)) {
                        println!("{stem:50} {config:12} {error:.1e}");
                        if error.is_nan() || error >= LIMIT {
                            wrong.push(format!("{stem}, {config}: the values are {error:.1e} from transformers'"));
                        }
                    }
                }
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {models}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(models >= 60 && refused == 2 * REFUSED.len());
}

#[test]
fn what_networks_do_not_compute_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, member, other, words) in OTHERS {
        let published = Published::of(name);
        assert!(published.config.contains(member), "{name}: {member}");
        write(folder.path(), &published, &published.config.replacen(member, other, 1));
        let said = computed(folder.path(), &published).unwrap_err().to_string();
        assert!(said.contains(words), "{name}, {other}: {said}");
    }
}

/// A Gemma 2 without a norm after a block is no VaultGemma.
#[test]
fn a_missing_norm_behind_a_block_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (theirs, ours) in
        [("post_attention_layernorm", "post_attention_norm"), ("post_feedforward_layernorm", "post_ffw_norm")]
    {
        let mut published = Published::of("gemma-2-9b-it");
        let name = format!("model.layers.1.{theirs}.weight");
        published.tensors.retain(|tensor| tensor.0 != name);
        write(folder.path(), &published, &published.config);
        let said = computed(folder.path(), &published).unwrap_err().to_string();
        assert!(said.contains(&format!("blk.1.{ours}.weight is missing")), "{said}");
    }
}
