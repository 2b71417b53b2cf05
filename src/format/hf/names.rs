//! Names of tensors in Hugging Face files, translated to those of GGUF, and what has to be done to their bytes.

use std::path::Path;

use super::config::Translated;
use crate::error::{Error, Result, try_vec};
use crate::format::TensorInfo;
use crate::format::contents::owned;
use crate::format::safetensors::Entry;
use crate::format::storage::{Scaled, TensorStorage};
use crate::quant;
use crate::tensor::Shape;

/// Modules outside of layers.
const TOP: &[(&str, &str)] = &[
    ("embed_tokens", "token_embd"),
    ("wte", "token_embd"),
    ("wpe", "position_embd"),
    ("norm", "output_norm"),
    ("ln_f", "output_norm"),
    ("lm_head", "output"),
];

/// Modules of a layer; `*` is the number of an expert.
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

/// A part of a name, without its wrappers, that tells its meaning.
enum Mark {
    Starts(&'static str),
    Ends(&'static str),
    /// `Ends`, in a folder whose weights are 8-bit floats with scales.
    EndsScaled(&'static str),
}
use Mark::{Ends, EndsScaled, Starts};

/// Tensors without effect on text, and why.
const EFFECTLESS: &[(Mark, &str)] = &[
    (Ends(".rotary_emb.inv_freq"), "computed from the configuration"),
    (Ends(".attn.bias"), "the causal mask of GPT-2"),
    (Ends(".attn.masked_bias"), "the score of what the causal mask hides"),
    (Starts("vision_tower."), "sees pictures"),
    (Starts("multi_modal_projector."), "sees pictures"),
    (EndsScaled(".input_scale"), "how another program rounds activations"),
    (EndsScaled(".output_scale"), "how another program rounds activations"),
    (EndsScaled(".k_scale"), "how another program rounds keys"),
    (EndsScaled(".v_scale"), "how another program rounds values"),
];

enum Meaning {
    Tensor {
        name: String,
        expert: Option<u32>,
    },
    Effectless,
    /// A name that no table has.
    Unknown,
}

/// Name, number of the expert, and where it lies.
type Named = (String, Option<u32>, Entry);

/// The tensors of a folder as a GGUF file would have them. One whose name has no translation keeps its own, by which
/// the builder of the network refuses it.
pub(super) fn translate(path: &Path, t: &Translated, entries: Vec<Entry>) -> Result<Vec<TensorInfo>> {
    let mut named = try_vec("tensors", entries.len())?;
    let mut unknown = try_vec("tensors", entries.len())?;
    let mut scales: Vec<Named> = Vec::new();
    for entry in entries {
        match meaning(&entry.name, t) {
            Meaning::Tensor { name, .. }
                if ["output.weight", "output.scale"].contains(&name.as_str()) && t.tied == Some(true) => {}
            Meaning::Tensor { name, expert } if name.ends_with(".scale") => scales.push((name, expert, entry)),
            Meaning::Tensor { name, expert } => named.push((name, expert, entry)),
            Meaning::Effectless => {}
            Meaning::Unknown => unknown.push(entry.tensor(path, owned(&entry.name)?)?),
        }
    }
    named.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    scales.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let mut scales_left = scales.len();
    let mut read = |(name, expert, entry): &Named| {
        let tensor = entry.tensor(path, name.clone())?;
        let of_weight = name.strip_suffix("weight").map(|prefix| (format!("{prefix}scale"), *expert));
        let at = of_weight.and_then(|key| scales.binary_search_by(|s| (&s.0, s.1).cmp(&(&key.0, key.1))).ok());
        match at.and_then(|at| scales.get(at)) {
            Some((_, _, scale)) => {
                scales_left -= 1;
                scaled(path, tensor, entry, scale)
            }
            None if t.scaled && tensor.dtype == quant::F8_E4M3 => {
                Err(Error::format(path, format!("the tensor {:?} has no scale", entry.name)))
            }
            None => Ok(tensor),
        }
    };
    if t.tied == Some(false)
        && !named.is_empty()
        && named.binary_search_by(|n| n.0.as_str().cmp("output.weight")).is_err()
    {
        return Err(Error::format(path, "lm_head.weight is missing, and tie_word_embeddings is false"));
    }
    let mut tensors = try_vec("tensors", named.len() + unknown.len() + t.made.len())?;
    for group in named.chunk_by(|a, b| a.0 == b.0 && a.1.is_some() && b.1.is_some()) {
        let Some(one @ (name, expert, first)) = group.first() else { continue };
        let mut tensor = read(one)?;
        if expert.is_some() {
            stack(path, &mut tensor, group, &mut read)?;
        } else if t.family.transposed && TRANSPOSED.iter().any(|end| name.ends_with(end)) {
            let (&[rows, cols], TensorStorage::Whole(_)) = (tensor.shape.dims(), &tensor.storage) else {
                return Err(Error::format(path, format!("the tensor {:?} is no plain matrix", first.name)));
            };
            tensor.shape = Shape::new(&[cols, rows])?;
            tensor.storage = TensorStorage::Transposed(first.place);
        }
        tensors.push(tensor);
    }
    if scales_left > 0 {
        return Err(Error::format(path, format!("{scales_left} scales of tensors that are not there")));
    }
    tensors.append(&mut unknown);
    tensors.extend(t.made.iter().cloned());
    Ok(tensors)
}

/// A matrix of 8-bit floats, each to be multiplied by the scale of all of them, of its row, or of a square of 128.
fn scaled(path: &Path, tensor: TensorInfo, entry: &Entry, scale: &Entry) -> Result<TensorInfo> {
    let scales = scale.tensor(path, String::new())?;
    let (rows, cols) = (tensor.shape.rows(), tensor.shape.cols());
    let squares = [rows.div_ceil(128), cols.div_ceil(128)];
    let block = match scales.shape.dims() {
        [] | [1] | [1, 1] => [rows, cols],
        [n] | [n, 1] if *n == rows => [1, cols],
        dims if dims == squares => [128, 128],
        dims => {
            let what = format!("the tensor {:?} has shape {dims:?}, which does not fit its weight", scale.name);
            return Err(Error::format(path, what));
        }
    };
    let TensorStorage::Whole(values) = tensor.storage else { return Ok(tensor) };
    let TensorStorage::Whole(at) = scales.storage else { return Ok(tensor) };
    if tensor.dtype != quant::F8_E4M3 || quant::format(scales.dtype)?.block_len != 1 || tensor.shape.dims().len() != 2 {
        return Err(Error::unsupported(format!("{}: a scale for the tensor {:?}", path.display(), entry.name)));
    }
    let storage = TensorStorage::Scaled(Scaled { values, scales: at, scale_type: scales.dtype, block });
    let bytes = tensor.bytes.checked_mul(2).ok_or_else(|| Error::format(path, "a tensor is too large"))?;
    Ok(TensorInfo { dtype: quant::BF16, bytes, storage, ..tensor })
}

/// Makes one tensor `[experts, ...]` of those in `group`, which are sorted by the number of the expert.
fn stack(
    path: &Path,
    tensor: &mut TensorInfo,
    group: &[Named],
    read: &mut impl FnMut(&Named) -> Result<TensorInfo>,
) -> Result<()> {
    let mut parts: Vec<TensorStorage> = try_vec("experts", group.len())?;
    parts.push(tensor.storage.clone());
    for (one, i) in group.iter().zip(0u32..) {
        let part = if i == 0 { tensor.clone() } else { read(one)? };
        if one.1 != Some(i) || part.shape != tensor.shape || part.dtype != tensor.dtype {
            let what = format!("{}: {:?} does not fit the experts before it", one.0, one.2.name);
            return Err(Error::format(path, what));
        }
        if i > 0 {
            parts.push(part.storage);
        }
    }
    let (n, [rows, cols]) = (parts.len() as u64, [tensor.shape.rows(), tensor.shape.cols()]);
    let too_large = || Error::format(path, format!("{}: the experts are too large", tensor.name));
    tensor.bytes = tensor.bytes.checked_mul(n).ok_or_else(too_large)?;
    tensor.shape = Shape::new(&[n, rows, cols]).map_err(|_| too_large())?;
    tensor.storage = TensorStorage::Stacked(parts);
    Ok(())
}

fn meaning(full: &str, t: &Translated) -> Meaning {
    let mut name = full;
    while let Some(inner) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = inner;
    }
    let is_effectless = |(mark, _): &(Mark, _)| match mark {
        Starts(start) => name.starts_with(start),
        Ends(end) => name.ends_with(end),
        EndsScaled(end) => t.scaled && name.ends_with(end),
    };
    if EFFECTLESS.iter().any(is_effectless) {
        return Meaning::Effectless;
    }
    match translated(name, t.family.post_norms) {
        Some((name, _)) if name.ends_with(".scale") && !t.scaled => Meaning::Unknown,
        Some((name, expert)) => Meaning::Tensor { name, expert },
        None => Meaning::Unknown,
    }
}

fn translated(name: &str, post_norms: bool) -> Option<(String, Option<u32>)> {
    let (module, leaf) = name.rsplit_once('.')?;
    let leaf = match leaf {
        "weight" | "bias" => leaf,
        // Both multiply; the name of the second tells that its writer divided by it.
        "weight_scale" | "weight_scale_inv" => "scale",
        _ => return None,
    };
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
