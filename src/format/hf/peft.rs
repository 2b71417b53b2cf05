//! PEFT adapter folders: `adapter_config.json`, every key of which is accounted for, and the names of factors,
//! translated to a GGUF file's. Key names: `LoraConfig` of the `peft` package.

use std::path::Path;

use super::family::of_architecture;
use super::folder::{MAX_CONFIG, read};
use super::members::Members;
use super::translator::Family;
use super::{known, names, parts};
use crate::error::{Error, Result, try_vec};
use crate::format::TensorInfo;
use crate::format::contents::{Contents, FileFormat, owned};
use crate::format::factors::{AdapterBase, Half, unknown};
use crate::format::file::Files;
use crate::format::json::Json;
use crate::format::metadata::Metadata;
use crate::format::passed::Passed;
use crate::format::safetensors;

/// Maximum number of patterns, more than a network has matrices; each module is compared with all.
const MAX_PATTERNS: usize = 2048;

/// Initializations that leave the base weights unchanged.
const INITIALIZATIONS: &[&str] = &["gaussian", "eva", "orthogonal"];

/// The settings that determine ranks and scales.
struct Config<'a> {
    path: &'a Path,
    rank: u64,
    alpha: f64,
    by_root: bool,
    ranks: &'a Json<'a>,
    alphas: &'a Json<'a>,
}

/// The files of a folder, its factors under GGUF names, and true if RoPE of queries and keys is by halves.
pub(in crate::format) fn open(files: Files, folder: &Path, base: &AdapterBase) -> Result<(Contents, Vec<Half>, bool)> {
    let family = of_architecture(base.architecture).ok_or_else(|| {
        let what = format!("adapters of PEFT for the architecture {:?}", base.architecture);
        Error::unsupported(format!("{}: {what}, whose folders are not supported either", folder.display()))
    })?;
    let path = folder.join("adapter_config.json");
    let bytes = match read(files, &path, MAX_CONFIG)? {
        Some(bytes) => bytes,
        None => files.open(&path)?.read_all(MAX_CONFIG)?,
    };
    let json = Json::parse_python(&path, &bytes)?;
    let config = Config::read(&path, &json)?;
    let weights = folder.join("adapter_model.safetensors");
    if !files.exists(&weights) && files.exists(&folder.join("adapter_model.bin")) {
        let what = "adapter_model.bin is a pickle; adapter_model.safetensors is read";
        return Err(Error::unsupported(format!("{}: {what}", folder.display())));
    }
    let file = files.open(&weights)?;
    let entries = safetensors::read_header(&file, 0)?;
    let (mut tensors, mut halves) = (try_vec("tensors", entries.len())?, try_vec("factors", entries.len())?);
    let names = FactorNames { path: &weights, family, base, config: &config };
    for entry in &entries {
        let tensor = entry.tensor(&weights, owned(&entry.name)?)?;
        names.push(&tensor, &mut halves)?;
        tensors.push(tensor);
    }
    let metadata = Metadata::new(folder, Vec::new())?;
    let files = Vec::from([file]);
    Ok((
        Contents { format: FileFormat::Safetensors, metadata, files, tensors, passed: Passed::default() },
        halves,
        !family.adjacent,
    ))
}

/// Translates the names of a file's factors to GGUF's.
struct FactorNames<'a> {
    path: &'a Path,
    family: &'a Family,
    base: &'a AdapterBase<'a>,
    config: &'a Config<'a>,
}

impl FactorNames<'_> {
    /// Adds a factor, or the parts that GGUF files separate.
    fn push(&self, tensor: &TensorInfo, halves: &mut Vec<Half>) -> Result<()> {
        let FactorNames { path, family, base, config } = *self;
        let name = tensor.name.strip_prefix("base_model.model.").ok_or_else(|| unknown(path, &tensor.name))?;
        let (module, is_a) = match (name.strip_suffix(".lora_A.weight"), name.strip_suffix(".lora_B.weight")) {
            (Some(module), _) => (module, true),
            (_, Some(module)) => (module, false),
            _ => return Err(unknown(path, &tensor.name)),
        };
        let no_place = |what: &str| Err(Error::unsupported(format!("{}: {what}: {:?}", path.display(), tensor.name)));
        let weight = match names::weight_of(module) {
            Some((weight, None)) => weight,
            Some((_, Some(_))) => return no_place("factors of an expert are not supported"),
            None => return no_place("a factor of a module without a known meaning"),
        };
        let rank = if is_a { tensor.shape.rows() } else { tensor.shape.cols() };
        let (declared, factor) = config.scale(module)?;
        if rank != declared {
            let what = format!("the factor {:?} has rank {rank}, adapter_config.json says {declared}", tensor.name);
            return Err(Error::format(path, what));
        }
        // Rows of B correspond to those of the weights; each part of a split tensor has all of A.
        let mut parts_of = Vec::new();
        let tensor_of = |name: String| TensorInfo { name, ..tensor.clone() };
        let (layer, part) = weight.rsplit_once('.').and_then(|(name, _)| name.rsplit_once('.')).unwrap_or_default();
        let several: &[&str] = match part {
            "attn_qkv" if family.grouped_qkv => &["attn_q", "attn_k", "attn_v"],
            "ffn_gate_up_shexp" => &["ffn_gate_shexp", "ffn_up_shexp"],
            _ => &[],
        };
        match is_a && !several.is_empty() {
            true => parts_of.extend(several.iter().map(|part| tensor_of(format!("{layer}.{part}.weight")))),
            false if is_a => parts_of.push(tensor_of(weight)),
            false => parts::divide(path, family, base.group, tensor_of(weight), &mut parts_of)?,
        }
        for part in parts_of {
            let name = part.name.clone();
            // Messages name the tensor of the file.
            let tensor = TensorInfo { name: tensor.name.clone(), ..part };
            halves.push(Half { name, factor, is_a, tensor });
        }
        Ok(())
    }
}

impl<'a> Config<'a> {
    /// Fails for anything unknown that could change results.
    fn read(path: &'a Path, json: &'a Json<'a>) -> Result<Config<'a>> {
        const NOTHING: &Json = &Json::Null;
        if json.members().len() > MAX_PATTERNS {
            return Err(Error::format(path, format!("{} members, the limit is {MAX_PATTERNS}", json.members().len())));
        }
        let members = Members::new(path, json, NOTHING);
        match members.text(&["peft_type"])? {
            Some("LORA") => {}
            kind => return Err(members.unsupported(&format!("an adapter of type {:?}", kind.unwrap_or_default()))),
        }
        let initial = members.find(&["init_lora_weights"]).map(|(_, value)| value);
        let is_plain = |value: &Json| match value {
            Json::Bool(_) => true,
            value => value.as_str().is_some_and(|name| INITIALIZATIONS.contains(&name)),
        };
        if let Some(value) = initial.filter(|value| !is_plain(value)) {
            let what = format!("\"init_lora_weights\" with the value {value} (base weights that were changed)");
            return Err(members.unsupported(&what));
        }
        let patterns = |name: &'static str| match members.find(&[name]) {
            None => Ok(NOTHING),
            Some((_, patterns @ Json::Object(list))) if list.len() <= MAX_PATTERNS => Ok(patterns),
            Some(_) => Err(members.wrong(name, "an object of at most 2048 members")),
        };
        let missing = |name: &str| Error::format(path, format!("no {name}"));
        let config = Config {
            path,
            rank: members.int(&["r"])?.ok_or_else(|| missing("r"))?,
            alpha: members.number(&["lora_alpha"])?.ok_or_else(|| missing("lora_alpha"))?,
            by_root: members.bool(&["use_rslora"])?.unwrap_or(false),
            ranks: patterns("rank_pattern")?,
            alphas: patterns("alpha_pattern")?,
        };
        known::check_adapter(&members)?;
        Ok(config)
    }

    /// Returns the rank of a module's factors, and their scale.
    fn scale(&self, module: &str) -> Result<(u64, f64)> {
        let wrong = |name: &str, wanted: &str| Error::format(self.path, format!("{name} should be {wanted}"));
        let rank = match self.matching("rank_pattern", self.ranks, module)? {
            Some(rank) => rank.as_u64().ok_or_else(|| wrong("a rank of rank_pattern", "an integer of 0 or more"))?,
            None => self.rank,
        };
        let alpha = match self.matching("alpha_pattern", self.alphas, module)? {
            Some(alpha) => alpha.as_f64().ok_or_else(|| wrong("an alpha of alpha_pattern", "a number"))?,
            None => self.alpha,
        };
        let divisor = if self.by_root { (rank as f64).sqrt() } else { rank as f64 };
        match alpha / divisor {
            factor if factor.is_finite() && factor != 0.0 => Ok((rank, factor)),
            _ => Err(Error::format(self.path, format!("lora_alpha is {alpha} and r is {rank} for {module:?}"))),
        }
    }

    /// Returns the value of the first pattern that equals a module's name, or its end after a dot. Of regular
    /// expressions only plain names are supported.
    fn matching(&self, name: &str, patterns: &'a Json<'a>, module: &str) -> Result<Option<&'a Json<'a>>> {
        for (pattern, value) in patterns.members() {
            if !pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte)) {
                let what = format!("{name} with the regular expression {pattern:?} is not supported");
                return Err(Error::unsupported(format!("{}: {what}", self.path.display())));
            }
            let ahead = module.strip_suffix(pattern.as_ref());
            if ahead.is_some_and(|ahead| ahead.is_empty() || ahead.ends_with('.')) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}
