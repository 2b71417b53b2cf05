//! The embeddings that a folder of the `sentence-transformers` package describes: `modules.json` lists the steps from a
//! network to an embedding, of which the first is the network.

use std::path::Path;

use super::folder::{MAX_CONFIG, is_plain, read};
use crate::error::{Error, Result};
use crate::format::Value;
use crate::format::file::Files;
use crate::format::json::Json;

/// Members of the configuration of a pooling that choose it, other names of the same, and its number in a GGUF file.
const POOLINGS: &[(&str, &str, i64)] = &[
    ("pooling_mode_mean_tokens", "mean", 1),
    ("pooling_mode_cls_token", "cls", 2),
    ("pooling_mode_lasttoken", "lasttoken", 3),
];

/// Adds the pooling of a folder to the keys of a model. A normalising step is what callers ask for or not.
pub(super) fn pooling(files: Files, folder: &Path, architecture: &str, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let path = folder.join("modules.json");
    let Some(text) = read(files, &path, MAX_CONFIG)? else { return Ok(()) };
    let modules = Json::parse_python(&path, &text)?;
    for module in modules.as_array().unwrap_or_default() {
        let text = |name| module.get(name).and_then(Json::as_str).unwrap_or_default();
        let class = text("type").rsplit('.').next().unwrap_or_default();
        match class {
            "Transformer" | "Normalize" => {}
            "Pooling" if is_plain(text("path")) => {
                let number = read_pooling(files, &folder.join(text("path")).join("config.json"))?;
                keys.push((format!("{architecture}.pooling_type"), number.into()));
            }
            _ => return Err(Error::unsupported(format!("{}: the module {class:?} is not supported", path.display()))),
        }
    }
    Ok(())
}

fn read_pooling(files: Files, path: &Path) -> Result<i64> {
    let text = read(files, path, MAX_CONFIG)?.ok_or_else(|| Error::format(path, "no such file"))?;
    let config = Json::parse_python(path, &text)?;
    let says = |name: &str| config.get(name).and_then(Json::as_bool) == Some(true);
    let mut chosen =
        config.members().iter().map(|(name, _)| &**name).filter(|name| name.starts_with("pooling_mode_") && says(name));
    let (first, more) = (chosen.next(), chosen.next());
    let named = config.get("pooling_mode").and_then(Json::as_str);
    let row = POOLINGS.iter().find(|(member, name, _)| first.map_or(named == Some(name), |first| first == *member));
    match (row, more) {
        (Some((_, _, number)), None) => Ok(*number),
        _ => Err(Error::unsupported(format!("{}: a pooling other than mean, cls or lasttoken", path.display()))),
    }
}
