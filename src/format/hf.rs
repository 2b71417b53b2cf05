//! Hugging Face folders, translated to the names of a GGUF file. `family` lists the known families, `config` translates
//! `config.json`, `names` the tensor names, `encoder` and `sound` do both for vision and audio encoders.
//!
//! Three differences from GGUF files remain, declared by keys of this library. `realizar.rope_halves`: true if the rows
//! of query and key matrices are in the order for RoPE pairs of dimension `i` with `i + n/2`. `realizar.gelu_exact`:
//! true if GELU is exact, unlike in GGUF files. `realizar.values_are_keys`: true if full-attention layers of Gemma 4
//! have no values of their own; in GGUF files the tensors determine that.

mod config;
pub(super) mod encoder;
mod encoder_checks;
mod encoder_config;
mod encoder_kinds;
mod encoder_llava;
mod encoder_names;
mod family;
mod folder;
mod known;
mod lists;
mod members;
mod names;
mod parts;
pub(super) mod peft;
mod quantized;
mod rope;
mod sentence;
mod sound;
mod translator;
mod weights;
mod window;

use std::path::Path;

use super::contents::{Contents, FileFormat, owned};
use super::file::{Files, InputFile};
use super::json::Json;
use super::metadata::Metadata;
use super::passed::Passed;
use super::value::{Strings, Value};
use crate::error::{Error, Result, try_vec};
use folder::{MAX_CONFIG, read, read_text};
use quantized::{ConfigFiles, Quantization};
use weights::Weights;

const MAX_TOKENIZER: u64 = 64 << 20;
const MAX_TEMPLATE: u64 = 16 << 20;
const MAX_TEMPLATES: usize = 16;

/// Opens a folder, or a safetensors file, with or without other files of a folder next to it.
pub(super) fn open(files: Files, folder: &Path, alone: Option<InputFile>) -> Result<Contents> {
    let opened = alone.as_ref().map_or(folder, |file| &file.path).to_owned();
    let config_path = folder.join("config.json");
    let config = match read(files, &config_path, MAX_CONFIG)? {
        None if alone.is_none() => files.open(&config_path)?.read_all(MAX_CONFIG).map(Some)?,
        config => config,
    };
    let Some(config) = config else {
        let Weights { files: set, entries, instead } = weights::find(files, folder, alone)?;
        let mut tensors = try_vec("tensors", entries.len())?;
        for entry in &entries {
            tensors.push(entry.tensor(&opened, owned(&entry.name)?)?);
        }
        let metadata = Metadata::new(&opened, Vec::new())?;
        let passed = Passed { weights: instead, ..Passed::default() };
        return Ok(Contents { format: FileFormat::Safetensors, metadata, files: set, tensors, passed });
    };
    let config = Json::parse_python(&config_path, &config)?;
    let mut translated = config::translate(&config_path, &config)?;
    let older = quantized::older_text(files, folder)?;
    let config_files = ConfigFiles::new(files, folder, &older)?;
    let quantization = Quantization::find(&config_path, &config, &config_files)?;
    let Weights { files: mut set, mut entries, instead } = weights::find(files, folder, alone)?;
    if let Some(quantization) = quantization {
        // MLX transposes convolution kernels. It then also stores whole norm weights, not minus 1.
        translated.facts.whole_norms = entries
            .iter()
            .any(|entry| entry.name.ends_with("conv1d.weight") && matches!(*entry.dims, [_, 2..=u64::MAX, 1]));
        translated.facts.quantized = true;
        let is_plain: fn(&str) -> bool = match translated.facts.latent {
            [0, 0] => |_| false,
            _ => |name| name.ends_with("kv_b_proj.weight"),
        };
        entries = quantization.gather(&opened, &set, entries, is_plain)?;
    }
    translated.passed.get_mut().weights = instead;
    // The file of an embedding model, whose results are the hidden states of a decoder.
    translated.facts.embeds |= files.exists(&folder.join("modules.json"));
    let mut tensors = names::translate(&opened, &mut translated, &set, entries)?;
    let mut keys = translated.keys;
    if let Some(name) = folder.file_name() {
        keys.push(("general.name".into(), Value::Str(name.to_string_lossy().into_owned())));
    }
    if !translated.facts.classifies {
        let poolings = sentence::modules(files, folder, &mut set, &mut tensors)?;
        let key = format!("{}.pooling_type", translated.family.arch);
        keys.extend(poolings.into_iter().map(|number| (key.clone(), number.into())));
    }
    let generation_path = folder.join("generation_config.json");
    let generation = read(files, &generation_path, MAX_CONFIG)?.unwrap_or_else(|| b"{}".to_vec());
    let generation = Json::parse_python(&generation_path, &generation)?;
    token_ids([&generation_path, &config_path], &generation, &config, &mut keys)?;
    sampling(&generation, &mut keys)?;
    tokenizer(files, folder, &mut keys)?;
    let metadata = Metadata::new(&opened, keys)?;
    let passed = translated.passed.into_inner();
    Ok(Contents { format: FileFormat::Safetensors, metadata, files: set, tensors, passed })
}

/// Special tokens by id. `generation_config.json` overrides `config.json`.
fn token_ids(
    [generation_path, config_path]: [&Path; 2],
    generation: &Json,
    config: &Json,
    keys: &mut Vec<(String, Value)>,
) -> Result<()> {
    let text_config = config.get("text_config").unwrap_or(&Json::Null);
    for (name, key) in config::TOKEN_IDS {
        let places = [(generation, generation_path), (text_config, config_path), (config, config_path)];
        let Some((ids, path)) = places.iter().find_map(|(json, path)| Some((json.get(name)?, path))) else { continue };
        let ids = ids.as_array().unwrap_or(std::slice::from_ref(ids));
        let mut numbers = try_vec("token ids", ids.len())?;
        for id in ids {
            match id {
                // Some configurations use it for "none".
                Json::Int(-1) => {}
                id if id.as_u64().is_some_and(|id| id <= u32::MAX.into()) => {
                    numbers.extend(id.as_u64().and_then(|id| i64::try_from(id).ok()));
                }
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

/// The authors' recommended sampling parameters under GGUF names, whatever their values.
fn sampling(generation: &Json, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let names = [
        ("temperature", "temp"),
        ("top_k", "top_k"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("repetition_penalty", "penalty_repeat"),
    ];
    let is_greedy = generation.get("do_sample") == Some(&Json::Bool(false));
    for (theirs, ours) in names {
        let value = match generation.get(theirs) {
            _ if is_greedy && ours == "temp" => Value::Float(0.0),
            Some(Json::Int(i)) => Value::Int(i128::from(*i)),
            Some(Json::Float(x)) => Value::Float(*x),
            Some(Json::Bool(b)) => Value::Bool(*b),
            Some(other) => Value::Str(owned(&other.to_string())?),
            None => continue,
        };
        keys.push((format!("general.sampling.{ours}"), value));
    }
    Ok(())
}

/// Passes the tokenizer files unchanged to the text layer, except the few facts that have GGUF keys.
fn tokenizer(files: Files, folder: &Path, keys: &mut Vec<(String, Value)>) -> Result<()> {
    if let Some(text) = read_text(files, &folder.join("tokenizer.json"), MAX_TOKENIZER)? {
        keys.push(("tokenizer.huggingface.json".into(), text.into()));
    } else {
        other_tokenizer(files, folder, keys)?;
    }
    let path = folder.join("tokenizer_config.json");
    let text = read_text(files, &path, MAX_CONFIG)?;
    let config = Json::parse_python(&path, text.as_deref().unwrap_or("{}").as_bytes())?;
    special_tokens(files, folder, &config, keys)?;
    for name in ["add_bos_token", "add_eos_token"] {
        if let Some(flag) = config.get(name) {
            let flag = flag.as_bool().ok_or_else(|| Error::format(&path, format!("{name} is no boolean")))?;
            keys.push((format!("tokenizer.ggml.{name}"), flag.into()));
        }
    }
    templates(files, folder, &config, keys)?;
    drop(config);
    if let Some(text) = text {
        keys.push(("tokenizer.huggingface.config".into(), Value::Str(text)));
    }
    Ok(())
}

/// The chat templates under GGUF keys: from the configuration, or the processor's file, or several by name. A template
/// file of its own replaces these. Invalid UTF-8 disables the template, not the model.
fn templates(files: Files, folder: &Path, config: &Json, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let path = folder.join("chat_template.json");
    let text = read_text(files, &path, MAX_TEMPLATE)?;
    let of_processor = Json::parse_python(&path, text.as_deref().unwrap_or("{}").as_bytes())?;
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, template: String| {
        let is_new = found.len() < MAX_TEMPLATES && !found.iter().any(|(known, _)| known == name);
        found.extend(is_new.then(|| (name.to_owned(), template)));
    };
    for (name, file) in [
        ("default", "chat_template.jinja"),
        ("tool_use", "additional_chat_templates/tool_use.jinja"),
        ("rag", "additional_chat_templates/rag.jinja"),
    ] {
        if let Some(bytes) = read(files, &folder.join(file), MAX_TEMPLATE)? {
            add(name, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    for source in [config, &of_processor] {
        match source.get("chat_template") {
            Some(Json::Str(template)) => add("default", owned(template)?),
            Some(Json::Array(named)) => {
                for entry in named {
                    let text = |key: &str| entry.get(key).and_then(Json::as_str);
                    if let (Some(name), Some(template)) = (text("name"), text("template")) {
                        add(name, owned(template)?);
                    }
                }
            }
            Some(named @ Json::Object(_)) => {
                for (name, template) in named.members() {
                    if let Some(template) = template.as_str() {
                        add(name, owned(template)?);
                    }
                }
            }
            Some(Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_)) | None => {}
        }
    }
    keys.extend(found.into_iter().map(|(name, template)| match name.as_str() {
        "default" => ("tokenizer.chat_template".to_owned(), template.into()),
        name => (format!("tokenizer.chat_template.{name}"), template.into()),
    }));
    Ok(())
}

/// The files that some folders have instead of `tokenizer.json`, of one kind.
fn other_tokenizer(files: Files, folder: &Path, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let key = |name: &str| format!("tokenizer.huggingface.{name}");
    let text = |name: &str| read_text(files, &folder.join(name), MAX_TOKENIZER);
    if let Some(text) = text("tekken.json")? {
        keys.push((key("tekken"), text.into()));
        return Ok(());
    }
    if let Some(text) = text("rwkv_vocab_v20230424.txt")? {
        keys.push((key("rwkv"), text.into()));
        return Ok(());
    }
    for name in ["tokenizer.model", "spiece.model", "tiktoken.model"] {
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
        // BERT's contains words, RWKV 6's Python literals.
        keys.push((key(if text.starts_with("b'<s>'") { "rwkv" } else { "words" }), text.into()));
    }
    Ok(())
}

/// The special tokens by their texts, and the files of older folders that list some. There `special_tokens_map.json`
/// takes precedence over the configuration, otherwise it only adds what that lacks.
fn special_tokens(files: Files, folder: &Path, config: &Json, keys: &mut Vec<(String, Value)>) -> Result<()> {
    let path = folder.join("special_tokens_map.json");
    let text = read_text(files, &path, MAX_CONFIG)?;
    let map = Json::parse_python(&path, text.as_deref().unwrap_or("{}").as_bytes())?;
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
        Json::parse_python(&path, text.as_bytes())?;
        keys.push(("tokenizer.huggingface.added_tokens".into(), Value::Str(text)));
    }
    Ok(())
}
