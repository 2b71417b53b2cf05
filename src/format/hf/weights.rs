//! The weight files of a folder: one file, or a set with an index or with numbered names.

use std::path::Path;

use super::folder::{is_plain, read};
use crate::error::{Error, Result, try_vec};
use crate::format::contents::{MAX_FILES, append};
use crate::format::file::{Files, InputFile};
use crate::format::json::{Json, Object};
use crate::format::safetensors::{self, Entry};

const MAX_INDEX: u64 = 16 << 20;

/// Weight files and their tensors.
#[derive(Default)]
pub(super) struct Weights {
    pub files: Vec<InputFile>,
    pub entries: Vec<Entry>,
    /// What the folder has instead of weights.
    pub instead: Option<String>,
}

/// Finds the weights of a folder, or the set of a given file.
pub(super) fn find(files: Files, folder: &Path, alone: Option<InputFile>) -> Result<Weights> {
    let whole = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if let Some(file) = alone {
        return set_of(files, folder, file, &index);
    }
    if files.exists(&whole) {
        return one_file(files.open(&whole)?);
    }
    if let Some(text) = read(files, &index, MAX_INDEX)? {
        return indexed(files, folder, &index, &text);
    }
    let names = files.names(folder)?;
    let mut indices = names.iter().filter(|name| name.ends_with(".safetensors.index.json"));
    if let (Some(name), None) = (indices.next(), indices.next()) {
        let index = folder.join(name);
        let text = files.open(&index)?.read_all(MAX_INDEX)?;
        return indexed(files, folder, &index, &text);
    }
    // An adapter is loaded separately from a model.
    let is_weights = |name: &&String| name.ends_with(".safetensors") && !name.starts_with("adapter_model");
    let weights: Vec<&str> = names.iter().filter(is_weights).map(String::as_str).collect();
    let first: Vec<&str> = weights.iter().copied().filter(|name| numbered(name).is_some_and(|n| n.no == 1)).collect();
    let apart: Vec<&str> = weights.iter().copied().filter(|name| numbered(name).is_none()).collect();
    match (&first[..], &apart[..]) {
        ([first], _) => numbered_set(files, folder, first),
        ([], [one]) => one_file(files.open(&folder.join(one))?),
        ([], []) if weights.is_empty() => {
            let shown = names.iter().filter(|name| is_plain(name)).take(16).map(String::as_str).collect::<Vec<_>>();
            let what = format!("the folder has no .safetensors file, but {}", shown.join(", "));
            Ok(Weights { instead: Some(what), ..Weights::default() })
        }
        _ => {
            let what = "no model.safetensors and no index, but several files of weights";
            Err(Error::format(folder, format!("{what}: {}", weights.join(", "))))
        }
    }
}

/// Returns the files of the set that a file belongs to, or only that file.
fn set_of(files: Files, folder: &Path, file: InputFile, index_path: &Path) -> Result<Weights> {
    let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if let Some(text) = read(files, index_path, MAX_INDEX)? {
        let index = Json::parse(index_path, &text)?;
        let map = index.get("weight_map").map_or(&[][..], Json::members);
        if map.iter().any(|(_, shard)| shard.as_str() == Some(&name)) {
            return indexed(files, folder, index_path, &text);
        }
    }
    match numbered(&name) {
        Some(Numbered { start, of, .. }) if of > 1 => numbered_set(files, folder, &nth(start, 1, of)),
        _ => one_file(file),
    }
}

fn one_file(file: InputFile) -> Result<Weights> {
    let entries = safetensors::read_header(&file, 0)?;
    Ok(Weights { files: vec![file], entries, instead: None })
}

/// A name with its number in a set.
struct Numbered<'a> {
    start: &'a str,
    no: u64,
    of: u64,
}

/// Parses `start-00001-of-00003.safetensors`.
fn numbered(name: &str) -> Option<Numbered<'_>> {
    let (rest, of) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (start, no) = rest.rsplit_once('-')?;
    let numbered = Numbered { start, no: no.parse().ok()?, of: of.parse().ok()? };
    (nth(start, numbered.no, numbered.of) == name).then_some(numbered)
}

fn nth(start: &str, no: u64, of: u64) -> String {
    format!("{start}-{no:05}-of-{of:05}.safetensors")
}

/// Returns a set without an index, by the name of its first file.
fn numbered_set(files: Files, folder: &Path, first: &str) -> Result<Weights> {
    let Some(Numbered { start, of, .. }) = numbered(first).filter(|set| (1..=MAX_FILES).contains(&set.of)) else {
        return Err(Error::format(&folder.join(first), format!("a set of more than {MAX_FILES} files")));
    };
    let mut names = try_vec("files", usize::try_from(of).unwrap_or(0))?;
    names.extend((1..=of).map(|no| nth(start, no, of)));
    read_all(files, folder, names.iter().map(String::as_str))
}

fn indexed(files: Files, folder: &Path, index_path: &Path, text: &[u8]) -> Result<Weights> {
    let index = Json::parse(index_path, text)?;
    let Some(Json::Object(map)) = index.get("weight_map") else {
        return Err(Error::format(index_path, "no weight_map"));
    };
    let mut shards: Vec<&str> = try_vec("files", map.len())?;
    for (tensor, shard) in map {
        let shard = shard.as_str().filter(|name| is_plain(name));
        shards.push(shard.ok_or_else(|| Error::format(index_path, format!("{tensor:?} is in no plain file name")))?);
    }
    shards.sort_unstable();
    shards.dedup();
    if shards.len() as u64 > MAX_FILES {
        return Err(Error::format(index_path, format!("{} files, the limit is {MAX_FILES}", shards.len())));
    }
    let weights = read_all(files, folder, shards.iter().copied())?;
    check_index(index_path, map, &shards, &weights.entries)?;
    Ok(weights)
}

fn read_all<'n>(from: Files, folder: &Path, names: impl ExactSizeIterator<Item = &'n str>) -> Result<Weights> {
    let mut weights = Weights { files: try_vec("files", names.len())?, ..Weights::default() };
    for name in names {
        let file = from.open(&folder.join(name))?;
        let more = safetensors::read_header(&file, weights.files.len())?;
        append(&mut weights.entries, more, folder)?;
        weights.files.push(file);
    }
    Ok(weights)
}

/// Fails for an index that names a tensor missing from its file.
fn check_index(index_path: &Path, map: &Object, shards: &[&str], entries: &[Entry]) -> Result<()> {
    let mut found: Vec<(&str, &str)> = try_vec("tensors", entries.len())?;
    found.extend(entries.iter().map(|e| (e.name.as_str(), shards.get(e.place.file).copied().unwrap_or_default())));
    found.sort_unstable();
    for (tensor, shard) in map {
        let expected = (tensor.as_ref(), shard.as_str().unwrap_or_default());
        if found.binary_search(&expected).is_err() {
            let what = format!("the tensor {tensor:?} should be in {:?}, where it is not", expected.1);
            return Err(Error::format(index_path, what));
        }
    }
    Ok(())
}
