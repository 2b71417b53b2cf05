//! The choice of a model's files in a repository of the Hugging Face Hub: "hf:owner/name" or
//! "hf:owner/name:quantization", and a listing of the repository in the Hub's JSON. Pure functions; HTTP and the cache
//! stay with the caller. `HubModel::parse` and `HubModel::choose` are the entries.
//!
//! Invariants: no chosen name leads out of the folder that it is put into. Files without a digest in the listing are
//! chosen only in a cache, where they are already complete.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::json::Json;
use crate::error::{Error, Result};

/// Maximum bytes of a listing.
const MAX_LISTING: usize = 1 << 26;
/// Part of the names of GGUF files with a vision or audio encoder; as a quantization, it names the preferred encoder.
const PROJECTOR: &str = "mmproj";
const FLOATS: [&str; 6] = ["", "BF16", "F16", "FP16", "F32", "FP32"];
/// Projectors in the order of preference; all others come after them.
const PREFERRED: [&str; 6] = ["F16", "FP16", "BF16", "Q8_0", "F32", "FP32"];
const TOKENIZERS: [&str; 5] = ["tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"];

/// A model of the Hub by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HubModel<'a> {
    /// "owner/name".
    pub repository: &'a str,
    /// A quantization, the name of a file, or "mmproj"; empty: none is named.
    pub quantization: &'a str,
}

/// A file of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct HubFile {
    pub name: String,
    pub size: u64,
    /// SHA-256 or git's SHA-1 of a blob, in hexadecimal; empty in a cache.
    pub digest: String,
}

/// The files of a model in a repository. In a cache that lacks the model there are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HubChoice {
    /// The commit of the listing; empty in a cache.
    pub commit: String,
    pub files: Vec<HubFile>,
    /// True if the folder of the files is loaded; false if the first file is.
    pub is_folder: bool,
}

impl HubChoice {
    /// Returns the name of the file to load; empty for the folder.
    pub fn load(&self) -> &str {
        self.files.first().filter(|_| !self.is_folder).map_or("", |file| &file.name)
    }

    pub fn size(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}

impl<'a> HubModel<'a> {
    pub fn parse(model: &'a str) -> Result<Self> {
        let parsed = model.strip_prefix("hf:").and_then(|rest| {
            let (repository, quantization) = match rest.split_once(':') {
                Some((repository, quantization)) => (repository, Some(quantization)),
                None => (rest, None),
            };
            let (owner, name) = repository.split_once('/')?;
            let is_text = |text: &str| !text.is_empty() && !text.contains(['\0', '\n']);
            let is_whole = is_word(owner) && is_word(name) && !repository.contains("..");
            let quantization = quantization.map_or(Some(""), |text| is_text(text).then_some(text))?;
            is_whole.then_some(HubModel { repository, quantization })
        });
        parsed.ok_or_else(|| {
            let form = "write hf:owner/name or hf:owner/name:quantization";
            Error::invalid(format!("\"{model}\" names no model of the Hub: {form}"))
        })
    }

    /// Returns the name of the model's encoder in the same repository; its own name if it is an encoder.
    pub fn encoder(&self) -> String {
        let quantization = if self.is_encoder() { self.quantization } else { PROJECTOR };
        format!("hf:{}:{quantization}", self.repository)
    }

    fn is_encoder(&self) -> bool {
        is_projector(self.quantization)
    }

    /// True if no file or quantization is named.
    fn is_any(&self) -> bool {
        self.quantization.is_empty() || self.quantization.eq_ignore_ascii_case(PROJECTOR)
    }

    /// Returns the files to fetch: of the named quantization, or else the largest one of at most 8 bits that fits into
    /// `memory` bytes (0: unknown). `listing` is the Hub's answer to `/api/models/OWNER/NAME/revision/main?blobs=true`.
    pub fn choose(&self, listing: &str, memory: u64) -> Result<HubChoice> {
        let (commit, files) = read(listing, false)?;
        let found = self.candidates(&files);
        let chosen = if self.is_any() { self.fitting(&found, memory)? } else { self.one_named(&found)? };
        Ok(chosen.choice(commit, &files))
    }

    /// Returns the files of the model in a cache, whose listing needs neither "sha" nor digests; none if the model is
    /// incomplete there.
    pub fn find(&self, listing: &str, memory: u64) -> Result<HubChoice> {
        let (commit, files) = read(listing, true)?;
        let mut found = self.candidates(&files);
        if !self.is_any() {
            found = self.named(&found).into_iter().cloned().collect();
        }
        Ok(self.best(&found, memory).map_or_else(HubChoice::default, |best| best.choice(commit, &files)))
    }

    /// Returns the models or encoders in the listing: complete sets of GGUF files, otherwise the folder, which contains
    /// both.
    fn candidates(&self, files: &Files) -> Vec<Candidate> {
        let mut sets: Vec<(Candidate, usize)> = Vec::new();
        let mut places = BTreeMap::new();
        for (file, listed) in files {
            let name = file.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
            if !name.ends_with(".gguf") || is_projector(&name) != self.is_encoder() || name.contains("imatrix") {
                continue;
            }
            let whole = (file.get(..file.len() - ".gguf".len()).unwrap_or_default(), 1);
            let (base, parts) = part(file).unwrap_or(whole);
            let place = *places.entry((base, parts)).or_insert_with(|| {
                let base = base.to_owned();
                sets.push((Candidate { label: label(&base), base, ..Candidate::default() }, parts));
                sets.len() - 1
            });
            if let Some((set, _)) = sets.get_mut(place) {
                set.files.push(file.clone());
                set.size = set.size.saturating_add(listed.size);
            }
        }
        sets.retain(|(set, parts)| set.files.len() == *parts && !is_interleaved(&set.label));
        let found: Vec<_> = sets.into_iter().map(|(set, _)| set).collect();
        if found.is_empty() { folder(files).into_iter().collect() } else { found }
    }

    /// Returns the candidates with the named quantization, otherwise the one with the named file.
    fn named<'c>(&self, found: &'c [Candidate]) -> Vec<&'c Candidate> {
        let wanted = self.quantization.to_uppercase();
        let label = wanted.strip_prefix("MMPROJ-").unwrap_or(&wanted);
        let (dynamic, base) = (format!("UD-{label}"), wanted.strip_suffix(".GGUF").unwrap_or(&wanted));
        let all = |is: &dyn Fn(&Candidate) -> bool| {
            found.iter().filter(|one| !one.base.is_empty() && is(one)).collect::<Vec<_>>()
        };
        let of_label = all(&|one| one.label == label);
        let of_dynamic = if of_label.is_empty() { all(&|one| one.label == dynamic) } else { of_label };
        if of_dynamic.is_empty() { all(&|one| one.base.to_uppercase() == base) } else { of_dynamic }
    }

    /// Returns the best model: the largest quantized one that fits, otherwise the smallest float one that fits,
    /// otherwise the smallest. The best encoder: the first in the order of `PREFERRED`.
    fn best<'c>(&self, found: &'c [Candidate], memory: u64) -> Option<&'c Candidate> {
        found.iter().min_by_key(|one| {
            let preferred = PREFERRED.iter().position(|label| *label == one.label).unwrap_or(PREFERRED.len());
            match self.is_encoder() {
                true => (preferred, 0, Reverse(0)),
                false if !one.fits(memory) => (2, one.size, Reverse(0)),
                false if FLOATS.contains(&one.label.as_str()) => (1, one.size, Reverse(0)),
                false => (0, 0, Reverse(one.size)),
            }
        })
    }

    /// `best`, if it fits.
    fn fitting<'c>(&self, found: &'c [Candidate], memory: u64) -> Result<&'c Candidate> {
        let best = self.best(found, memory).ok_or_else(|| self.none())?;
        if self.is_encoder() || best.fits(memory) {
            return Ok(best);
        }
        let advice = match best.label.as_str() {
            "" => "or one in GGUF files".to_owned(),
            label => format!("or name its quantization to fetch it all the same, {label}"),
        };
        let (repository, free, needs) = (self.repository, size(memory), size(best.needs()));
        let what = format!("{free} of memory are free, and the smallest of {repository} takes {needs}");
        Err(Error::TooLarge(format!("{what}: take a smaller model, {advice}")))
    }

    /// Returns the only candidate that matches the name.
    fn one_named<'c>(&self, found: &'c [Candidate]) -> Result<&'c Candidate> {
        let (repository, quantization) = (self.repository, self.quantization);
        if found.is_empty() {
            return Err(self.none());
        }
        match self.named(found).as_slice() {
            [one] => Ok(one),
            [] => {
                let labels: BTreeSet<_> = found.iter().filter_map(|one| self.label_of(one)).collect();
                let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
                Err(Error::not_found(match labels.as_str() {
                    "" => format!("{repository} has no {quantization}: it has no GGUF files, so name none"),
                    labels => format!("{repository} has no {quantization}: take one of {labels}"),
                }))
            }
            several => {
                let names = several.iter().map(|one| format!("{}.gguf", one.base)).collect::<Vec<_>>().join(", ");
                let advice = format!("name one of them in its place, {names}");
                Err(Error::invalid(format!("{repository} has several files of {quantization}: {advice}")))
            }
        }
    }

    /// Returns the quantization or file name that selects a candidate; `None` for the folder.
    fn label_of(&self, one: &Candidate) -> Option<String> {
        match one.label.as_str() {
            _ if one.base.is_empty() => None,
            "" => Some(one.base.clone()),
            label if self.is_encoder() => Some(format!("{PROJECTOR}-{label}")),
            label => Some(label.to_owned()),
        }
    }

    fn none(&self) -> Error {
        let (repository, folder) = (self.repository, "config.json, tokenizer and safetensors files");
        Error::not_found(match self.is_encoder() {
            true => format!("{repository} has neither mmproj files nor {folder}: it has no encoder"),
            false => {
                let advice = "take another repository, such as one whose name ends in GGUF";
                format!("{repository} has neither GGUF files nor {folder}: {advice}")
            }
        })
    }
}

/// Size and digest of each file by its name.
type Files = BTreeMap<String, HubFile>;

/// The files of a model. The first file is the one to load; a folder has an empty `base`.
#[derive(Clone, Default)]
struct Candidate {
    label: String,
    base: String,
    files: Vec<String>,
    size: u64,
}

impl Candidate {
    /// Returns the estimated bytes of memory: weights about as large as the file, KV cache and scratch memory.
    fn needs(&self) -> u64 {
        self.size.saturating_add(self.size / 4).saturating_add(1 << 28)
    }

    fn fits(&self, memory: u64) -> bool {
        memory == 0 || self.needs() <= memory
    }

    fn choice(&self, commit: String, files: &Files) -> HubChoice {
        let files = self.files.iter().filter_map(|name| files.get(name).cloned()).collect();
        HubChoice { commit, files, is_folder: self.base.is_empty() }
    }
}

/// Returns the commit of a listing and its files that are safe to write.
fn read(listing: &str, is_cached: bool) -> Result<(String, Files)> {
    let path = Path::new("the listing");
    if listing.len() > MAX_LISTING {
        let what = format!("{} bytes; there must be at most {MAX_LISTING}", listing.len());
        return Err(Error::TooComplex(format!("the listing has {what}")));
    }
    let json = Json::parse(path, listing.as_bytes())?;
    let lacks = |what: &str| Error::format(path, format!("{what} is missing or of another type"));
    let text = |json: &Json, name: &str| json.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    let commit = text(&json, "sha");
    if !is_cached && !is_hexadecimal(&commit, &[40]) {
        return Err(lacks("sha"));
    }
    let mut files = Files::new();
    for file in json.get("siblings").and_then(Json::as_array).ok_or_else(|| lacks("siblings"))? {
        let name = file.get("rfilename").and_then(Json::as_str).ok_or_else(|| lacks("rfilename"))?;
        // For a large file, the blob is only a pointer.
        let (of, digest) = file.get("lfs").map_or((file, "blobId"), |lfs| (lfs, "sha256"));
        let (size, digest) = (of.get("size").and_then(Json::as_u64), text(of, digest));
        if let Some(size) = size
            && is_safe(name)
            && (is_cached || is_hexadecimal(&digest, &[40, 64]))
        {
            files.insert(name.to_owned(), HubFile { name: name.to_owned(), size, digest });
        }
    }
    Ok((commit, files))
}

/// True if a name stays inside its folder.
fn is_safe(name: &str) -> bool {
    !name.contains(|c: char| c == '\\' || c == ':' || c < ' ')
        && name.split('/').all(|part| !["", ".", ".."].contains(&part))
}

fn is_hexadecimal(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// True for an owner, or the name of a repository.
fn is_word(text: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.chars().all(is_char) && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

fn is_projector(name: &str) -> bool {
    name.to_ascii_lowercase().contains(PROJECTOR)
}

/// True for quantizations with rows interleaved for one processor, which are obsolete.
fn is_interleaved(label: &str) -> bool {
    ["Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_4", "Q4_0_8_8"].iter().any(|form| label.contains(form))
}

/// Splits the name of a part, such as "m-00001-of-00002.gguf", into its base and the number of parts.
fn part(file: &str) -> Option<(&str, usize)> {
    let stem = file.strip_suffix(".gguf").or_else(|| file.strip_suffix(".safetensors"))?;
    let (base, end) = stem.split_at_checked(stem.len().checked_sub("-00001-of-00002".len())?)?;
    let (n, of) = end.strip_prefix('-')?.split_once("-of-")?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(n) && is_number(of)).then_some((base, of.parse().ok()?))
}

/// Returns the last quantization in a name, such as "Q4_K_M" in "m-Q4_K_M.gguf"; empty if there is none.
fn label(base: &str) -> String {
    let text = base.to_uppercase();
    let is_end = |c: char| "-._/".contains(c);
    let (mut last, mut from) = ("", 0);
    let begins = std::iter::once(0).chain(text.match_indices(is_end).map(|(at, _)| at + 1));
    for begin in begins {
        let Some(rest) = text.get(begin..).filter(|_| begin >= from) else { continue };
        if let Some(label) = label_at(rest) {
            (last, from) = (label, begin + label.len());
        }
    }
    last.to_owned()
}

/// Returns the quantization at the beginning of a text, up to the end of a word.
fn label_at(text: &str) -> Option<&str> {
    let dynamic = text.strip_prefix("UD-").unwrap_or(text);
    let rest = ["TQ1_0", "TQ2_0", "MXFP4_MOE", "MXFP4", "NVFP4", "BF16", "FP16", "F16", "FP32", "F32"]
        .iter()
        .filter_map(|form| dynamic.strip_prefix(form))
        .find(|rest| ends(rest))
        .or_else(|| blocks(dynamic))?;
    text.get(..text.len() - rest.len())
}

/// Returns the rest of a text that begins with a block quantization, such as "Q4_K_M" or "IQ2_XXS".
fn blocks(text: &str) -> Option<&str> {
    let bits = text.strip_prefix('I').unwrap_or(text).strip_prefix('Q')?;
    let mut rest = bits.strip_prefix(|c: char| ('1'..='8').contains(&c))?;
    loop {
        let word = rest.strip_prefix('_').unwrap_or_default();
        let after = word.trim_start_matches(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
        if after.len() == word.len() || !ends(after) {
            return ends(rest).then_some(rest);
        }
        rest = after;
    }
}

fn ends(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['-', '.', '_', '/'])
}

/// Returns the folder of a repository, if it has a model: its texts, then its weights.
fn folder(files: &Files) -> Option<Candidate> {
    let all = files.keys().filter(|name| !name.contains('/') && name.ends_with(".safetensors") && name.len() > 12);
    let (shards, others): (Vec<&String>, Vec<&String>) = all.partition(|name| is_shard(name));
    let weights = if shards.is_empty() { others } else { shards };
    let parts = weights.first().and_then(|name| part(name)).map_or(1, |(_, parts)| parts);
    let has_tokenizer = TOKENIZERS.iter().any(|name| files.contains_key(*name));
    if !files.contains_key("config.json") || !has_tokenizer || weights.len() < parts.max(1) {
        return None;
    }
    // Weights come last: if they are complete, all else is.
    let names: Vec<String> = files.keys().filter(|name| is_text(name)).chain(weights).cloned().collect();
    let sizes = names.iter().filter_map(|name| files.get(name));
    let size = sizes.fold(0u64, |sum, file| sum.saturating_add(file.size));
    Some(Candidate { size, files: names, ..Candidate::default() })
}

fn is_shard(name: &str) -> bool {
    name == "model.safetensors" || part(name).is_some_and(|(base, _)| base == "model")
}

/// True for the files of a folder other than its weights, including sentence-transformers' files.
fn is_text(name: &str) -> bool {
    let Some((folder, file)) = name.split_once('/') else {
        let stem = [".json", ".txt", ".model", ".jinja"].iter().find_map(|ending| name.strip_suffix(ending));
        return stem.is_some_and(|stem| !stem.is_empty());
    };
    let is_module = folder.split_once('_').is_some_and(|(number, word)| {
        let is_number = number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit());
        is_number && !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic())
    });
    is_module && ["config.json", "model.safetensors"].contains(&file)
}

fn size(bytes: u64) -> String {
    let (unit, name) = if bytes >= 1_000_000_000 { (1e9, "GB") } else { (1e6, "MB") };
    format!("{:.1} {name}", bytes as f64 / unit)
}
