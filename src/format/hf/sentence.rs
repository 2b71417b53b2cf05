//! Embeddings described by a `sentence-transformers` folder: `modules.json` lists the steps from a network, which is
//! the first one, to an embedding.

use std::path::Path;

use super::folder::{MAX_CONFIG, is_plain, read};
use crate::error::{Error, Result};
use crate::format::contents::append;
use crate::format::file::{Files, InputFile};
use crate::format::json::Json;
use crate::format::{TensorInfo, safetensors};

/// Members of a pooling configuration that select it, their other names, and its number in a GGUF file.
const POOLINGS: &[(&str, &str, i64)] = &[
    ("pooling_mode_mean_tokens", "mean", 1),
    ("pooling_mode_cls_token", "cls", 2),
    ("pooling_mode_lasttoken", "lasttoken", 3),
];

/// The layers that a GGUF file may have after pooling.
const DENSE: [&str; 2] = ["dense_2", "dense_3"];

/// Returns the pooling numbers of a folder, and adds the layers after pooling to the weights. Callers decide about
/// normalization.
pub(super) fn modules(
    files: Files,
    folder: &Path,
    set: &mut Vec<InputFile>,
    tensors: &mut Vec<TensorInfo>,
) -> Result<Vec<i64>> {
    let path = folder.join("modules.json");
    let mut poolings = Vec::new();
    let Some(text) = read(files, &path, MAX_CONFIG)? else { return Ok(poolings) };
    let modules = Json::parse_python(&path, &text)?;
    let mut dense = DENSE.iter();
    for module in modules.as_array().unwrap_or_default() {
        let text = |name| module.get(name).and_then(Json::as_str).unwrap_or_default();
        let class = text("type").rsplit('.').next().unwrap_or_default();
        match class {
            "Transformer" | "Normalize" => {}
            "Pooling" if is_plain(text("path")) => {
                poolings.push(read_pooling(files, &folder.join(text("path")).join("config.json"))?);
            }
            "Dense" if is_plain(text("path")) => {
                let too_many =
                    || Error::unsupported(format!("{}: more than two dense modules are not supported", path.display()));
                let name = dense.next().ok_or_else(too_many)?;
                read_dense(files, &folder.join(text("path")), name, set, tensors)?;
            }
            _ => return Err(Error::unsupported(format!("{}: the module {class:?} is not supported", path.display()))),
        }
    }
    Ok(poolings)
}

fn read_pooling(files: Files, path: &Path) -> Result<i64> {
    let text = read(files, path, MAX_CONFIG)?.ok_or_else(|| Error::format(path, "the file does not exist"))?;
    let config = Json::parse_python(path, &text)?;
    let says = |name: &str| config.get(name).and_then(Json::as_bool) == Some(true);
    let mut chosen =
        config.members().iter().map(|(name, _)| &**name).filter(|name| name.starts_with("pooling_mode_") && says(name));
    let (first, more) = (chosen.next(), chosen.next());
    let named = config.get("pooling_mode").and_then(Json::as_str);
    let row = POOLINGS.iter().find(|(member, name, _)| first.map_or(named == Some(name), |first| first == *member));
    match (row, more) {
        (Some((_, _, number)), None) => Ok(*number),
        _ => Err(Error::unsupported(format!(
            "{}: a pooling other than mean, cls or lasttoken is not supported",
            path.display()
        ))),
    }
}

/// Adds the weights of a layer after pooling under their GGUF name.
fn read_dense(
    files: Files,
    folder: &Path,
    name: &str,
    set: &mut Vec<InputFile>,
    tensors: &mut Vec<TensorInfo>,
) -> Result<()> {
    let path = folder.join("config.json");
    let text = read(files, &path, MAX_CONFIG)?.ok_or_else(|| Error::format(&path, "the file does not exist"))?;
    let config = Json::parse_python(&path, &text)?;
    let function =
        config.get("activation_function").and_then(Json::as_str).unwrap_or("torch.nn.modules.activation.Tanh");
    if !function.ends_with(".Identity") {
        return Err(Error::unsupported(format!("{}: the function {function:?} is not supported", path.display())));
    }
    let weights = folder.join("model.safetensors");
    let file = files.open(&weights)?;
    let entries = safetensors::read_header(&file, set.len())?;
    let mut found = Vec::new();
    for entry in entries {
        let ours = match entry.name.as_str() {
            "linear.weight" => format!("{name}.weight"),
            "linear.bias" => format!("{name}.bias"),
            other => {
                return Err(Error::format(&weights, format!("the tensor {other:?} has no place in a dense module")));
            }
        };
        found.push(entry.tensor(&weights, ours)?);
    }
    let has = |ending: &str| found.iter().any(|tensor: &TensorInfo| tensor.name.ends_with(ending));
    let is_declared = config.get("bias").and_then(Json::as_bool).is_none_or(|declared| declared == has(".bias"));
    if !has(".weight") || !is_declared {
        return Err(Error::format(&weights, "the tensors are not those that the configuration of the module tells"));
    }
    append(set, vec![file], folder)?;
    append(tensors, found, folder)
}
