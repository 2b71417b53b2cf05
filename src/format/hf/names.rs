//! Names of tensors in Hugging Face files, translated to those of GGUF, and what has to be done to their bytes.

use std::path::Path;

use super::config::Translated;
use crate::error::{Error, Result, try_vec};
use crate::format::TensorInfo;
use crate::format::layout::{Layout, Place};
use crate::format::safetensors::Entry;
use crate::tensor::Shape;

/// Outside of layers.
const TOP: &[(&str, &str)] = &[
    ("embed_tokens", "token_embd"),
    ("wte", "token_embd"),
    ("wpe", "position_embd"),
    ("norm", "output_norm"),
    ("ln_f", "output_norm"),
    ("lm_head", "output"),
];

/// In a layer; `*` is the number of an expert.
const LAYER: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("ln_1", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("attn.c_attn", "attn_qkv"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("attn.c_proj", "attn_output"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("ln_2", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.c_proj", "ffn_down"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
    ("mlp.gate", "ffn_gate_inp"),
    ("mlp.experts.*.gate_proj", "ffn_gate_exps"),
    ("mlp.experts.*.up_proj", "ffn_up_exps"),
    ("mlp.experts.*.down_proj", "ffn_down_exps"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
    ("block_sparse_moe.experts.*.w1", "ffn_gate_exps"),
    ("block_sparse_moe.experts.*.w3", "ffn_up_exps"),
    ("block_sparse_moe.experts.*.w2", "ffn_down_exps"),
];

/// Matrices that GPT-2 stores the other way round.
const TRANSPOSED: &[&str] = &["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"];

/// The networks around the text model.
const WRAPPERS: &[&str] = &["model.", "language_model.", "transformer."];
/// Constants that are computed, and what sees pictures.
const UNUSED_ENDS: &[&str] = &[".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"];
const UNUSED_STARTS: &[&str] = &["vision_tower.", "multi_modal_projector."];

enum Meaning {
    Tensor { name: String, expert: Option<u32> },
    Unused,
    Unknown,
}

pub(super) fn translate(path: &Path, t: &Translated, entries: Vec<Entry>) -> Result<Vec<TensorInfo>> {
    let mut named = try_vec("tensors", entries.len())?;
    for entry in entries {
        match meaning(&entry.name, t.family.post_norms) {
            Meaning::Tensor { name, .. } if name == "output.weight" && t.tied == Some(true) => {}
            Meaning::Tensor { name, expert } => named.push((name, expert, entry)),
            Meaning::Unused => {}
            Meaning::Unknown => {
                let what = format!("{}: the tensor {:?} is not known", path.display(), entry.name);
                return Err(Error::unsupported(what));
            }
        }
    }
    named.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    if t.tied == Some(false)
        && !named.is_empty()
        && named.binary_search_by(|n| n.0.as_str().cmp("output.weight")).is_err()
    {
        return Err(Error::format(path, "lm_head.weight is missing, and tie_word_embeddings is false"));
    }
    let mut tensors = try_vec("tensors", named.len() + t.made.len())?;
    for group in named.chunk_by(|a, b| a.0 == b.0 && a.1.is_some() && b.1.is_some()) {
        let Some((name, expert, first)) = group.first() else { continue };
        let mut tensor = first.tensor(path, name.clone())?;
        if expert.is_some() {
            stack(path, &mut tensor, group)?;
        } else if t.family.transposed && TRANSPOSED.iter().any(|end| name.ends_with(end)) {
            let &[rows, cols] = tensor.shape.dims() else {
                return Err(Error::format(path, format!("the tensor {:?} is no matrix", first.name)));
            };
            tensor.shape = Shape::new(&[cols, rows])?;
            tensor.layout = Layout::Transposed(first.place);
        }
        tensors.push(tensor);
    }
    tensors.extend(t.made.iter().cloned());
    Ok(tensors)
}

/// Makes one tensor `[experts, ...]` of those in `group`, which are sorted by the number of the expert.
fn stack(path: &Path, tensor: &mut TensorInfo, group: &[(String, Option<u32>, Entry)]) -> Result<()> {
    let mut places: Vec<Place> = try_vec("experts", group.len())?;
    for (i, (name, expert, entry)) in group.iter().enumerate() {
        let part = entry.tensor(path, String::new())?;
        if expert.map(u64::from) != Some(i as u64) || part.shape != tensor.shape || part.dtype != tensor.dtype {
            return Err(Error::format(path, format!("{name}: {:?} does not fit the experts before it", entry.name)));
        }
        places.push(entry.place);
    }
    let (n, [rows, cols]) = (places.len() as u64, [tensor.shape.rows(), tensor.shape.cols()]);
    let too_large = || Error::format(path, format!("{}: the experts are too large", tensor.name));
    tensor.bytes = tensor.bytes.checked_mul(n).ok_or_else(too_large)?;
    tensor.shape = Shape::new(&[n, rows, cols]).map_err(|_| too_large())?;
    tensor.layout = Layout::Stacked(places);
    Ok(())
}

fn meaning(full: &str, post_norms: bool) -> Meaning {
    let mut name = full;
    while let Some(inner) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = inner;
    }
    if UNUSED_ENDS.iter().any(|end| name.ends_with(end)) || UNUSED_STARTS.iter().any(|start| name.starts_with(start)) {
        return Meaning::Unused;
    }
    translated(name, post_norms).map_or(Meaning::Unknown, |(name, expert)| Meaning::Tensor { name, expert })
}

fn translated(name: &str, post_norms: bool) -> Option<(String, Option<u32>)> {
    let (module, leaf) = name.rsplit_once('.').filter(|(_, leaf)| ["weight", "bias"].contains(leaf))?;
    let look_up = |table: &[(&str, &'static str)], name: &str| table.iter().find(|row| row.0 == name).map(|row| row.1);
    let Some(rest) = module.strip_prefix("layers.").or_else(|| module.strip_prefix("h.")) else {
        return Some((format!("{}.{leaf}", look_up(TOP, module)?), None));
    };
    let (layer, part) = rest.split_once('.')?;
    let layer = number(layer)?;
    if part == "post_attention_layernorm" {
        let norm = if post_norms { "post_attention_norm" } else { "ffn_norm" };
        return Some((format!("blk.{layer}.{norm}.{leaf}"), None));
    }
    let (part, expert) = match part.split_once(".experts.") {
        Some((mlp, of_expert)) => {
            let (expert, matrix) = of_expert.split_once('.')?;
            (format!("{mlp}.experts.*.{matrix}"), Some(number(expert)?))
        }
        None => (part.to_owned(), None),
    };
    Some((format!("blk.{layer}.{}.{leaf}", look_up(LAYER, &part)?), expert))
}

/// Decimal without leading zeros, so that two names never mean the same.
fn number(text: &str) -> Option<u32> {
    let n: u32 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}
