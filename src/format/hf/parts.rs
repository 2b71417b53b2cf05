//! Tensors with other layouts than in GGUF files: transposed, or several in one. Independent of folders' names.

use std::path::Path;

use super::translator::{Family, Translator};
use crate::error::{Error, Result, try_vec};
use crate::format::safetensors::Entry;
use crate::format::storage::{Function, Picked, TensorStorage};
use crate::format::value::narrow;
use crate::format::{TensorInfo, Value};
use crate::quant;
use crate::tensor::Shape;

/// Maximum number of experts, more than any layer has.
const MAX_EXPERTS: u64 = 4096;

/// Gives matrices of experts that are stacked as rows a dimension of their own.
pub(super) fn separate(t: &Translator, tensor: &mut TensorInfo) -> Result<()> {
    let count = |(key, value): &(String, Value)| match value {
        Value::Int(n) if key.ends_with(".expert_count") => u64::try_from(*n).ok(),
        _ => None,
    };
    if let [rows, cols] = *tensor.shape.dims()
        && tensor.name.ends_with("_exps.weight")
        && let Some(n) = t.keys.iter().find_map(count).filter(|n| *n > 1 && rows.is_multiple_of(*n))
    {
        tensor.shape = Shape::new(&[n, rows / n, cols])?;
    }
    Ok(())
}

/// True if a tensor is stored transposed. Checkpoints of some networks are of both kinds, distinguished by the width.
pub(super) fn is_transposed(path: &Path, t: &Translator, tensor: &TensorInfo) -> Result<bool> {
    let named = t.family.transposed.iter().any(|end| tensor.name.ends_with(end));
    if !named || !matches!(tensor.storage, TensorStorage::Whole(_) | TensorStorage::Doubles(_)) {
        return Ok(false);
    }
    match *tensor.shape.dims() {
        [_, a, b] if t.family.either_way && a == b => Err(Error::unsupported(format!(
            "{}: square experts are ambiguous, because they may be stored either way",
            path.display()
        ))),
        [_, a, b] if t.family.either_way => Ok(t.facts.width == if tensor.name.contains("_down_") { b } else { a }),
        _ => Ok(true),
    }
}

/// Returns the matrix, or the matrices of experts, whose rows are the columns of `tensor`.
pub(super) fn transposed(path: &Path, mut tensor: TensorInfo, entry: &Entry) -> Result<TensorInfo> {
    let not_plain = || Error::format(path, format!("the tensor {:?} is no plain matrix", entry.name));
    match *tensor.shape.dims() {
        [cols, rows] => {
            tensor.shape = Shape::new(&[rows, cols])?;
            tensor.storage = TensorStorage::Transposed { source: Box::new(tensor.storage), first: 0, rows };
        }
        [n, cols, rows] if n <= MAX_EXPERTS => {
            let one = tensor.bytes.checked_div(n).ok_or_else(not_plain)?;
            let mut experts = try_vec("experts", usize::try_from(n).map_err(|_| not_plain())?)?;
            let source = tensor.storage;
            let expert = |i| TensorStorage::Transposed { source: Box::new(source.clone()), first: i * one, rows };
            experts.extend((0..n).map(expert));
            tensor.shape = Shape::new(&[n, rows, cols])?;
            tensor.storage = TensorStorage::Stacked { parts: experts, part_bytes: one };
        }
        _ => return Err(not_plain()),
    }
    Ok(tensor)
}

/// Returns the function that GGUF files apply to a tensor's values.
fn function(t: &Translator, tensor: &TensorInfo) -> Option<Function> {
    let name = tensor.name.as_str();
    let is_of_rank = ["attn_q_a_norm.weight", "attn_kv_a_norm.weight"].iter().any(|end| name.ends_with(end));
    if t.family.scaled_ranks && is_of_rank {
        let rank = tensor.shape.n_elements().max(1) as f64;
        return Some(Function::Times(narrow((t.facts.width as f64 / rank).sqrt())));
    }
    let is_norm = name.ends_with(".weight") && name.contains("norm");
    if name.ends_with(".ssm_a") {
        Some(Function::NegativeExp)
    } else {
        (t.family.norms_less_one && !t.facts.whole_norms && is_norm && !name.ends_with("ssm_norm.weight"))
            .then_some(Function::OnePlus)
    }
}

pub(super) fn computed(path: &Path, tensor: TensorInfo, function: Function) -> Result<TensorInfo> {
    let source_type = tensor.dtype;
    let is_plain = matches!(tensor.storage, TensorStorage::Whole(_) | TensorStorage::Doubles(_));
    if !is_plain || quant::format(source_type)?.block_len != 1 {
        let what = format!("{}: the tensor {} as anything but floats in one piece", path.display(), tensor.name);
        return Err(Error::unsupported(what));
    }
    let (source, bytes) = (Box::new(tensor.storage), tensor.shape.n_elements().saturating_mul(4));
    let storage = TensorStorage::Computed { source, source_type, function };
    Ok(TensorInfo { dtype: quant::F32, bytes, storage, ..tensor })
}

/// One of the alternating parts of a tensor: `run` rows in each step, from row `first` on.
struct Part {
    name: &'static str,
    first: u64,
    run: u64,
}

/// Splits the projection of keys and values of all heads into the products that absorb it into the query, and that
/// compute values.
fn latent(path: &Path, t: &Translator, tensor: TensorInfo, out: &mut Vec<TensorInfo>) -> Result<()> {
    let [rows, rank] = [tensor.shape.rows(), tensor.shape.cols()];
    let [keys, values] = match t.facts.windowed_latent {
        [windowed, keys, values] if windowed == rank => [keys, values],
        _ => t.facts.latent,
    };
    let stride = keys + values;
    let heads = rows.checked_div(stride).filter(|n| rows.is_multiple_of(stride) && (1..=MAX_EXPERTS).contains(n));
    let (Some(heads), 1) = (heads, quant::format(tensor.dtype)?.block_len) else {
        let shape = &tensor.shape;
        let what = format!("the tensor {} of shape {shape:?} is no whole number of heads of {stride}", tensor.name);
        return Err(Error::format(path, what));
    };
    let value = tensor.bytes / tensor.shape.n_elements().max(1);
    let name = |part: &str| tensor.name.replace("attn_kv_b", part);
    let mut parts = try_vec("heads", usize::try_from(heads).unwrap_or(0))?;
    parts.extend((0..heads).map(|head| TensorStorage::Transposed {
        source: Box::new(tensor.storage.clone()),
        first: head * stride * rank * value,
        rows: rank,
    }));
    out.push(TensorInfo {
        name: name("attn_k_b"),
        dtype: tensor.dtype,
        shape: Shape::new(&[heads, rank, keys])?,
        bytes: heads * rank * keys * value,
        storage: TensorStorage::Stacked { parts, part_bytes: rank * keys * value },
    });
    out.push(TensorInfo {
        name: name("attn_v_b"),
        dtype: tensor.dtype,
        shape: Shape::new(&[heads, values, rank])?,
        bytes: heads * values * rank * value,
        storage: TensorStorage::Picked(Picked {
            source: Box::new(tensor.storage),
            source_bytes: tensor.bytes,
            unit: rank * value,
            run: values,
            stride,
            first: keys,
        }),
    });
    Ok(())
}

/// Adds a tensor in GGUF's form, split into parts if GGUF separates them.
pub(super) fn push(path: &Path, t: &Translator, mut tensor: TensorInfo, out: &mut Vec<TensorInfo>) -> Result<()> {
    // A depthwise kernel: `[channels, 1, taps]`, or in MLX `[channels, taps, 1]`.
    if [".shortconv.conv.weight", ".ssm_conv1d.weight"].iter().any(|end| tensor.name.ends_with(end))
        && let [channels, 1, taps] | [channels, taps, 1] = *tensor.shape.dims()
    {
        tensor.shape = Shape::new(&[channels, taps])?;
    }
    let first = t.facts.first_position;
    if tensor.name == "position_embd.weight"
        && let [rows, cols] = *tensor.shape.dims()
        && (1..rows).contains(&first)
    {
        let (unit, run, source_bytes) = (tensor.bytes / rows, rows - first, tensor.bytes);
        let source = Box::new(tensor.storage);
        tensor.storage = TensorStorage::Picked(Picked { source, source_bytes, unit, run, stride: run, first });
        (tensor.shape, tensor.bytes) = (Shape::new(&[run, cols])?, unit * run);
    }
    // Shards are rows of one table.
    if tensor.name == "per_layer_token_embd.weight"
        && let [parts, rows, cols] = *tensor.shape.dims()
    {
        tensor.shape = Shape::new(&[parts.saturating_mul(rows), cols])?;
    }
    // One per head, with surrounding dimensions of 1.
    if tensor.name.ends_with(".ssm_a") && tensor.shape.dims().len() > 2 {
        tensor.shape = Shape::new(&[tensor.shape.n_elements()])?;
    }
    if t.facts.latent != [0; 2] && tensor.name.ends_with(".attn_kv_b.weight") {
        return latent(path, t, tensor, out);
    }
    if tensor.name.ends_with(".ssm_norm.weight")
        && let [n] = *tensor.shape.dims()
        && t.facts.groups > 1
        && n.is_multiple_of(t.facts.groups)
    {
        tensor.shape = Shape::new(&[t.facts.groups, n / t.facts.groups])?;
    }
    if t.facts.is_dense {
        let shared = [("ffn_gate_up_shexp", "ffn_up"), ("ffn_down_shexp", "ffn_down")];
        for (theirs, ours) in shared {
            tensor.name = tensor.name.replace(theirs, ours);
        }
    }
    if let Some(function) = function(t, &tensor) {
        out.push(computed(path, tensor, function)?);
        return Ok(());
    }
    divide(path, t.family, t.facts.group, tensor, out)
}

/// Adds the parts of a tensor that GGUF files separate, or the whole. `group`: number of query heads per KV head, and
/// width of a head.
pub(super) fn divide(
    path: &Path,
    family: &Family,
    group: [u64; 2],
    tensor: TensorInfo,
    out: &mut Vec<TensorInfo>,
) -> Result<()> {
    let Some((prefix, leaf)) = tensor.name.rsplit_once('.') else {
        out.push(tensor);
        return Ok(());
    };
    let (layer, module) = prefix.rsplit_once('.').unwrap_or(("", prefix));
    // A vector is split by values, a matrix by rows.
    let is_vector = leaf == "bias";
    let rows = if is_vector { tensor.shape.n_elements() } else { tensor.shape.rows() };
    let (step, parts) = match module {
        "attn_qkv" if family.grouped_qkv => {
            let [heads, width] = group;
            let part = |name, first, n| Part { name, first: first * width, run: n * width };
            let parts = [part("attn_q", 0, heads), part("attn_k", heads, 1), part("attn_v", heads + 1, 1)];
            ((heads + 2) * width, Vec::from(parts))
        }
        "attn_gqkv" => {
            let run = rows / 4;
            let names = ["attn_gate", "attn_q", "attn_k", "attn_v"];
            let part = |(i, name)| Part { name, first: i * run, run };
            (run * 4, (0..).zip(names).map(part).collect())
        }
        // Four parts, each of a quarter of the heads.
        "attn_qvk" => {
            let run = rows / 12;
            let part = |(i, name)| Part { name, first: i * run, run };
            (run * 3, (0..).zip(["attn_q", "attn_v", "attn_k"]).map(part).collect())
        }
        "ffn_gate_up_exps" if family.alternating_gate_up => {
            let part = |name, first| Part { name, first, run: 1 };
            (2, Vec::from([part("ffn_gate_exps", 0), part("ffn_up_exps", 1)]))
        }
        "ffn_up_gate" => {
            let part = |name, first| Part { name, first, run: rows / 2 };
            (rows / 2 * 2, Vec::from([part("ffn_up", 0), part("ffn_gate", rows / 2)]))
        }
        "ffn_gate_up_shexp" => {
            let part = |name, first| Part { name, first, run: rows / 2 };
            (rows / 2 * 2, Vec::from([part("ffn_gate_shexp", 0), part("ffn_up_shexp", rows / 2)]))
        }
        _ => {
            out.push(tensor);
            return Ok(());
        }
    };
    let uneven = || {
        let shape = &tensor.shape;
        Error::format(path, format!("the tensor {} of shape {shape:?} is no whole number of parts", tensor.name))
    };
    if step == 0 || rows == 0 || !rows.is_multiple_of(step) {
        return Err(uneven());
    }
    let format = quant::format(tensor.dtype)?;
    let unit = if is_vector { format.block_bytes as u64 } else { format.row_bytes(tensor.shape.cols())? };
    for part in parts {
        let n = rows / step * part.run;
        let of_one = |experts: &u64| n.checked_div(*experts).ok_or_else(uneven);
        let dims = match (tensor.shape.dims(), is_vector) {
            ([experts, _], true) => Vec::from([*experts, of_one(experts)?]),
            (_, true) => Vec::from([n]),
            ([experts, _, cols], _) => Vec::from([*experts, of_one(experts)?, *cols]),
            _ => Vec::from([n, tensor.shape.cols()]),
        };
        let picked = Picked {
            source: Box::new(tensor.storage.clone()),
            source_bytes: tensor.bytes,
            unit,
            run: part.run,
            stride: step,
            first: part.first,
        };
        out.push(TensorInfo {
            name: format!("{layer}.{}.{leaf}", part.name),
            dtype: tensor.dtype,
            shape: Shape::new(&dims).map_err(|_| uneven())?,
            bytes: n.checked_mul(unit).ok_or_else(uneven)?,
            storage: TensorStorage::Picked(picked),
        });
    }
    Ok(())
}
