//! Hugging Face folders: their files, and how these become one model under the names that a GGUF file of it would have.
//! `config` translates `config.json`, `names` the names of tensors.
//!
//! Three differences to a GGUF file stay, and keys of our own tell them. `realizar.rope_halves`: the rows of query and
//! key matrices are in an order where the rotary embedding pairs dimension `i` with `i + n/2`. `realizar.gelu_exact`: GELU is
//! not approximated by tanh, as GGUF files have it. `realizar.values_are_keys`: whether layers of Gemma 4 without a window have
//! no values of their own, which the tensors of GGUF files tell.

mod config;
mod eight_bit;
mod extras;
mod family;
mod folder;
mod gemma4;
mod hybrid;
mod known;
mod latent;
mod members;
mod names;
mod parts;
pub(super) mod peft;
mod rope;
mod sentence;
mod translator;
mod window;

use std::path::Path;

use super::contents::{Contents, FileFormat, MAX_FILES, append, owned};
use super::file::{Files, InputFile};
use super::json::{Json, Object};
use super::metadata::Metadata;
use super::safetensors::{self, Entry};
use super::value::{Strings, Value};
use crate::error::{Error, Result, try_vec};
use folder::{MAX_CONFIG, bound_infinities, is_plain, read, read_text};

const MAX_INDEX: u64 = 16 << 20;
const MAX_TOKENIZER: u64 = 64 << 20;
const MAX_TEMPLATE: u64 = 16 << 20;

/// Opens a folder; or one safetensors file in it, which may stand alone.
pub(super) fn open(files: Files, folder: &Path, alone: Option<InputFile>) -> Result<Contents> {
    let opened = alone.as_ref().map_or(folder, |file| &file.path).to_owned();
    let config_path = folder.join("config.json");
    let config = match read(files, &config_path, MAX_CONFIG)? {
        None if alone.is_none() => files.open(&config_path)?.read_all(MAX_CONFIG).map(Some)?,
        config => config,
    };
    let Some(mut config) = config else {
        let (set, entries) = weights(files, folder, alone)?;
        let mut tensors = try_vec("tensors", entries.len())?;
        for entry in &entries {
            tensors.push(entry.tensor(&opened, owned(&entry.name)?)?);
        }
        let metadata = Metadata::new(&opened, Vec::new())?;
        return Ok(Contents { format: FileFormat::Safetensors, metadata, files: set, tensors });
    };
    bound_infinities(&mut config);
    let config = Json::parse(&config_path, &config)?;
    let translated = config::translate(&config_path, &config)?;
    let (set, entries) = weights(files, folder, alone)?;
    let tensors = names::translate(&opened, &translated, entries)?;
    let mut keys = translated.keys;
    if let Some(name) = folder.file_name() {
        keys.push(("general.name".into(), Value::Str(name.to_string_lossy().into_owned())));
    }
    if !translated.classifies {
        sentence::pooling(files, folder, translated.family.arch, &mut keys)?;
    }
    token_ids(files, folder, &config_path, &config, &mut keys)?;
    tokenizer(files, folder, &mut keys)?;
    let metadata = Metadata::new(&opened, keys)?;
    Ok(Contents { format: FileFormat::Safetensors, metadata, files: set, tensors })
}

/// The tensors of a folder: of one file, of a set with an index, or none.
fn weights(files: Files, folder: &Path, alone: Option<InputFile>) -> Result<(Vec<InputFile>, Vec<Entry>)> {
    let index_path = folder.join("model.safetensors.index.json");
    let whole = folder.join("model.safetensors");
    if alone.is_none() && files.exists(&whole) {
        return one_file(files.open(&whole)?);
    }
    let index = read(files, &index_path, MAX_INDEX)?;
    let Some(index) = index else { return alone.map_or(Ok((Vec::new(), Vec::new())), one_file) };
    let index = Json::parse(&index_path, &index)?;
    let Some(Json::Object(map)) = index.get("weight_map") else {
        return Err(Error::format(&index_path, "no weight_map"));
    };
    let mut shards: Vec<&str> = try_vec("files", map.len())?;
    for (tensor, shard) in map {
        let shard = shard.as_str().filter(|name| is_plain(name));
        shards.push(shard.ok_or_else(|| Error::format(&index_path, format!("{tensor:?} is in no plain file name")))?);
    }
    shards.sort_unstable();
    shards.dedup();
    if shards.len() as u64 > MAX_FILES {
        return Err(Error::format(&index_path, format!("{} files, the limit is {MAX_FILES}", shards.len())));
    }
    if let Some(file) = alone
        && !shards.iter().any(|name| file.path.file_name().is_some_and(|n| n == *name))
    {
        return one_file(file);
    }
    read_shards(files, folder, &index_path, map, &shards)
}

fn one_file(file: InputFile) -> Result<(Vec<InputFile>, Vec<Entry>)> {
    let entries = safetensors::read_header(&file, 0)?;
    Ok((vec![file], entries))
}

fn read_shards(
    from: Files,
    folder: &Path,
    index_path: &Path,
    map: &Object,
    shards: &[&str],
) -> Result<(Vec<InputFile>, Vec<Entry>)> {
    let mut files = try_vec("files", shards.len())?;
    let mut entries = Vec::new();
    for shard in shards {
        let file = from.open(&folder.join(shard))?;
        let more = safetensors::read_header(&file, files.len())?;
        append(&mut entries, more, index_path)?;
        files.push(file);
    }
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
    Ok((files, entries))
}

/// Special tokens by number. `generation_config.json` overrides `config.json`.
fn token_ids(
    files: Files,
    folder: &Path,
    config_path: &Path,
    config: &Json,
    keys: &mut Vec<(String, Value)>,
) -> Result<()> {
    let generation_path = folder.join("generation_config.json");
    let generation = read(files, &generation_path, MAX_CONFIG)?.unwrap_or_else(|| b"{}".to_vec());
    let generation = Json::parse(&generation_path, &generation)?;
    let text_config = config.get("text_config").unwrap_or(&Json::Null);
    for (name, key) in config::TOKEN_IDS {
        let places = [(&generation, &generation_path as &Path), (text_config, config_path), (config, config_path)];
        let Some((ids, path)) = places.iter().find_map(|(json, path)| Some((json.get(name)?, path))) else { continue };
        let ids = ids.as_array().unwrap_or(std::slice::from_ref(ids));
        let mut numbers = try_vec("token ids", ids.len())?;
        for id in ids {
            match id {
                Json::Int(id) if u32::try_from(*id).is_ok() => numbers.push(*id),
                // Some configurations say "none" so.
                Json::Int(-1) => {}
                _ => return Err(Error::format(path, format!("{name} holds no token"))),
            }
        }
        if let Some(&first) = numbers.first() {
            keys.push((format!("tokenizer.ggml.{key}"), first.into()));
        }
        if numbers.len() > 1 {
            keys.push((format!("tokenizer.ggml.{key}s"), numbers.into()));
        }
    }
    Ok(())
}

/// The tokenizer's files go to the text layer as they are, but for the few facts that a GGUF file has keys for.
fn tokenizer(files: Files, folder: &Path, keys: &mut Vec<(String, Value)>) -> Result<()> {
    if let Some(text) = read_text(files, &folder.join("tokenizer.json"), MAX_TOKENIZER)? {
        keys.push(("tokenizer.huggingface.json".into(), text.into()));
    } else {
        other_tokenizer(files, folder, keys)?;
    }
    let path = folder.join("tokenizer_config.json");
    let mut template = None;
    let text = read_text(files, &path, MAX_CONFIG)?;
    let config = Json::parse(&path, text.as_deref().unwrap_or("{}").as_bytes())?;
    special_tokens(files, folder, &config, keys)?;
    if text.is_some() {
        for name in ["add_bos_token", "add_eos_token"] {
            if let Some(flag) = config.get(name) {
                let flag = flag.as_bool().ok_or_else(|| Error::format(&path, format!("{name} is no boolean")))?;
                keys.push((format!("tokenizer.ggml.{name}"), flag.into()));
            }
        }
        template = match config.get("chat_template") {
            Some(Json::Str(template)) => Some(owned(template)?),
            Some(Json::Array(named)) => default_template(named)?,
            _ => None,
        };
    }
    drop(config);
    if let Some(text) = text {
        keys.push(("tokenizer.huggingface.config".into(), Value::Str(text)));
    }
    // A template of its own file replaces the one of the configuration. Bytes that are no text spoil the template,
    // which a model can be used without, and not the model.
    if let Some(bytes) = read(files, &folder.join("chat_template.jinja"), MAX_TEMPLATE)? {
        template = Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    if let Some(template) = template {
        keys.push(("tokenizer.chat_template".into(), template.into()));
    }
    Ok(())
}

/// The files that some folders have in place of `tokenizer.json`: those of one kind.
fn other_tokenizer(files: Files, folder: &Path, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let key = |name: &str| format!("tokenizer.huggingface.{name}");
    let text = |name: &str| read_text(files, &folder.join(name), MAX_TOKENIZER);
    if let Some(text) = text("tekken.json")? {
        keys.push((key("tekken"), text.into()));
        return Ok(());
    }
    for name in ["tokenizer.model", "spiece.model"] {
        if let Some(bytes) = read(files, &folder.join(name), MAX_TOKENIZER)? {
            let mut list = Strings::default();
            list.push(&bytes)?;
            keys.push((key("sentencepiece"), Value::Strs(list)));
            return Ok(());
        }
    }
    if let (Some(vocab), Some(merges)) = (text("vocab.json")?, text("merges.txt")?) {
        keys.extend([(key("vocab"), vocab.into()), (key("merges"), merges.into())]);
    } else if let Some(text) = text("vocab.txt")? {
        keys.push((key("words"), text.into()));
    }
    Ok(())
}

/// The special tokens by their texts, and the files of older folders that list some. In these `special_tokens_map.json`
/// counts more than the configuration, in others it tells what that does not mention.
fn special_tokens(files: Files, folder: &Path, config: &Json, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let path = folder.join("special_tokens_map.json");
    let text = read_text(files, &path, MAX_CONFIG)?;
    let map = Json::parse(&path, text.as_deref().unwrap_or("{}").as_bytes())?;
    let is_older = config.get("added_tokens_decoder").is_none();
    for name in ["bos_token", "eos_token", "unk_token", "pad_token"] {
        // A string, or an object that describes an added token.
        let token = |json: &Json| -> Result<Option<String>> {
            let token = json.get(name).and_then(|t| t.as_str().or_else(|| t.get("content")?.as_str()));
            token.map(owned).transpose()
        };
        let token = match (is_older, config.get_or_null(name)) {
            (true, _) => token(&map)?.map_or_else(|| token(config), |token| Ok(Some(token)))?,
            (false, Some(_)) => token(config)?,
            (false, None) => token(&map)?,
        };
        keys.extend(token.map(|token| (format!("tokenizer.huggingface.{name}"), Value::Str(token))));
    }
    drop(map);
    if let Some(text) = text {
        keys.push(("tokenizer.huggingface.special_tokens_map".into(), Value::Str(text)));
    }
    let path = folder.join("added_tokens.json");
    if let Some(text) = read_text(files, &path, MAX_CONFIG)? {
        Json::parse(&path, text.as_bytes())?;
        keys.push(("tokenizer.huggingface.added_tokens".into(), Value::Str(text)));
    }
    Ok(())
}

/// The template named `default` of `[{"name": ..., "template": ...}]`.
fn default_template(named: &[Json]) -> Result<Option<String>> {
    let default = named.iter().find(|t| t.get("name").and_then(Json::as_str) == Some("default"));
    default.and_then(|t| t.get("template")?.as_str()).map(owned).transpose()
}
