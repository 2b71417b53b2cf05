//! Translates tensor names of Hugging Face files to GGUF's, with the necessary conversions of their bytes.

mod tables;

use std::borrow::Cow;
use std::path::Path;

use self::tables::Mark::{Ends, EndsQuantized, Starts, StartsIn, StartsUnclassified};
use self::tables::{EFFECTLESS, ENDLESS, LAYER, MIXERS, MTP, Mark, TOP, WITHIN, WRAPPERS};
use super::family::PLAIN;
use super::parts;
use super::translator::{Family, Translator};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::format::TensorInfo;
use crate::format::contents::owned;
use crate::format::file::InputFile;
use crate::format::passed::Passed;
use crate::format::safetensors::Entry;
use crate::format::storage::TensorStorage;
use crate::quant;
use crate::tensor::Shape;

enum Meaning {
    Tensor {
        name: String,
        expert: Option<u32>,
    },
    Effectless,
    /// A name in no table.
    Unknown,
}

/// Name, index of the expert, and entry.
type Named = (String, Option<u32>, Entry);

/// Returns the tensors of a folder as in a GGUF file. An untranslated tensor keeps its name, by which the network's
/// builder rejects it.
pub(super) fn translate(
    path: &Path,
    t: &mut Translator,
    files: &[InputFile],
    mut entries: Vec<Entry>,
) -> Result<Vec<TensorInfo>> {
    if t.family.arch == "t5" {
        share_embedding(path, files, &mut entries)?;
    }
    let mut named = try_vec("tensors", entries.len())?;
    let mut unknown = try_vec("tensors", entries.len())?;
    for entry in entries {
        match meaning(&entry.name, t) {
            Meaning::Tensor { name, expert } => match name.strip_prefix("key:") {
                Some(key) => t.set(key, Some(integers(path, files, &entry)?)),
                None => named.push((name, expert, entry)),
            },
            Meaning::Effectless => {}
            Meaning::Unknown => match entry.tensor(path, owned(&entry.name)?) {
                Ok(tensor) => unknown.push(tensor),
                Err(why) => t.passed.get_mut().unknown(why.to_string()),
            },
        }
    }
    named.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    match t.facts.tied {
        Some(true) => tie(path, files, &mut named, t.passed.get_mut())?,
        Some(false) if !named.is_empty() && find(&named, HEAD).is_none() => {
            if !t.facts.embeds {
                return Err(Error::format(path, "lm_head.weight is missing, and tie_word_embeddings is false"));
            }
            t.passed.get_mut().note("there is no lm_head.weight: the model gives embeddings alone");
            t.keys.push(("realizar.headless".into(), true.into()));
        }
        Some(false) | None => {}
    }
    let t = &*t;
    let mut read = |(name, _, entry): &Named| {
        let tensor = entry.tensor(path, name.clone())?;
        match t.facts.quantized && tensor.dtype == quant::F8_E4M3 {
            true => Err(Error::format(path, format!("the tensor {:?} has no scale", entry.name))),
            false => Ok(tensor),
        }
    };
    let mut tensors = try_vec("tensors", named.len() + unknown.len() + t.made.len())?;
    for group in named.chunk_by(|a, b| a.0 == b.0 && a.1.is_some() && b.1.is_some()) {
        let Some(one @ (_, expert, first)) = group.first() else { continue };
        let mut tensor = read(one)?;
        if expert.is_some() {
            stack(path, &mut tensor, group, &mut read)?;
        } else {
            parts::separate(t, &mut tensor)?;
            if parts::is_transposed(path, t, &tensor)? {
                tensor = parts::transposed(path, tensor, first)?;
            }
        }
        parts::push(path, t, tensor, &mut tensors)?;
    }
    tensors.append(&mut unknown);
    tensors.extend(t.made.iter().cloned());
    Ok(tensors)
}

/// Names the shared embedding of an encoder and a decoder, which a file may have under either's name.
fn share_embedding(path: &Path, files: &[InputFile], entries: &mut [Entry]) -> Result<()> {
    let place = |name: &str| entries.iter().position(|entry| entry.name == name);
    let [shared, encoder, decoder] =
        ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"].map(place);
    if shared.is_some() {
        return Ok(());
    }
    if let [Some(a), Some(b)] = [encoder, decoder].map(|at| at.and_then(|at| entries.get(at)))
        && !same_values(path, files, a, b)?
    {
        return Err(Error::unsupported(format!("{}: {:?} differs from {:?}", path.display(), a.name, b.name)));
    }
    if let Some(one) = encoder.or(decoder).and_then(|at| entries.get_mut(at)) {
        one.name = "shared.weight".to_owned();
    }
    Ok(())
}

const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";

/// Returns the index of a tensor in a list sorted by name.
fn find(named: &[Named], name: &str) -> Option<usize> {
    named.binary_search_by(|n| n.0.as_str().cmp(name)).ok()
}

/// Ties embedding and output matrix like `transformers`: uses the one that the file has, and merges two equal ones. Two
/// that differ stay separate, whatever the configuration says.
fn tie(path: &Path, files: &[InputFile], named: &mut Vec<Named>, passed: &mut Passed) -> Result<()> {
    match (find(named, EMBEDDING), find(named, HEAD)) {
        (Some(embedding), Some(head)) => {
            let ends = [embedding, head].map(|at| named.get(at).map(|(_, _, entry)| entry));
            let [Some(embedding), Some(lm_head)] = ends else { return Ok(()) };
            if same_values(path, files, embedding, lm_head)? {
                named.remove(head);
            } else {
                let what = "differ although the configuration ties them (tie_word_embeddings): both are used";
                passed.note(format!("{} and {} {what}", lm_head.name, embedding.name));
            }
        }
        (None, Some(head)) => {
            // The embedding's name sorts after the head's.
            let mut one = named.remove(head);
            one.0 = EMBEDDING.to_owned();
            named.push(one);
            named.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        }
        (Some(_) | None, None) => {}
    }
    Ok(())
}

/// Compares the bytes of two tensors up to the first difference.
fn same_values(path: &Path, files: &[InputFile], a: &Entry, b: &Entry) -> Result<bool> {
    let is_made = a.made.is_some() || b.made.is_some();
    if is_made || (&a.dtype, &a.dims, a.bytes) != (&b.dtype, &b.dims, b.bytes) {
        return Ok(false);
    }
    let file = |entry: &Entry| files.get(entry.place.file).ok_or_else(|| Error::format(path, "a tensor has no file"));
    let (in_a, in_b) = (file(a)?, file(b)?);
    let piece = usize::try_from(a.bytes.min(COMPARED)).unwrap_or(0);
    let (mut of_a, mut of_b) = (try_filled("an embedding", piece, 0u8)?, try_filled("an embedding", piece, 0u8)?);
    let mut at = 0;
    while at < a.bytes {
        let n = usize::try_from((a.bytes - at).min(COMPARED)).unwrap_or(0);
        of_a.truncate(n);
        of_b.truncate(n);
        in_a.read_at(a.place.offset + at, &mut of_a)?;
        in_b.read_at(b.place.offset + at, &mut of_b)?;
        if of_a != of_b {
            return Ok(false);
        }
        at += n as u64;
    }
    Ok(true)
}

/// Bytes compared at once.
const COMPARED: u64 = 1 << 20;

/// Returns a short list of integers, which is a key in a GGUF file.
fn integers(path: &Path, files: &[InputFile], entry: &Entry) -> Result<Vec<i64>> {
    let what = || Error::format(path, format!("the tensor {:?} is no short list of integers of 64 bits", entry.name));
    let file = files.get(entry.place.file).filter(|_| entry.dtype == "I64" && entry.bytes <= COMPARED);
    let file = file.ok_or_else(what)?;
    let mut bytes = try_filled("integers", usize::try_from(entry.bytes).map_err(|_| what())?, 0u8)?;
    file.read_at(entry.place.offset, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|integer| i64::from_le_bytes(*integer)).collect())
}

/// Stacks the tensors of `group`, which are sorted by expert, into one tensor `[experts, ...]`.
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
    let part_bytes = tensor.bytes;
    tensor.bytes = part_bytes.checked_mul(n).ok_or_else(too_large)?;
    tensor.shape = Shape::new(&[n, rows, cols]).map_err(|_| too_large())?;
    tensor.storage = TensorStorage::Stacked { parts, part_bytes };
    Ok(())
}

/// Returns a name without wrappers of the text model.
fn unwrapped(mut name: &str) -> &str {
    while let Some(inner) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = inner;
    }
    name
}

/// Returns a name without modules of training programs.
fn without_training(name: &str) -> Cow<'_, str> {
    let mut name = match name.strip_suffix(".parametrizations.weight.original") {
        Some(module) => Cow::Owned(format!("{module}.weight")),
        None => Cow::Borrowed(name),
    };
    for module in WITHIN {
        if name.contains(module) {
            name = Cow::Owned(name.replace(module, ""));
        }
    }
    name
}

/// Returns the weight tensor of a module, and the index of its expert.
pub(super) fn weight_of(module: &str) -> Option<(String, Option<u32>)> {
    translated(&format!("{}.weight", unwrapped(module)), &PLAIN)
}

fn meaning(full: &str, t: &Translator) -> Meaning {
    let full = without_training(full);
    let mut name = unwrapped(&full);
    let renamed = name.strip_prefix("mtp.").and_then(|name| after_trunk(name, t)).or_else(|| of_stack(name, t));
    name = renamed.as_deref().unwrap_or(name);
    // EAGLE-3's only layer.
    let first = name.strip_prefix("midlayer.").map(|rest| format!("layers.0.{rest}"));
    name = first.as_deref().unwrap_or(name);
    let is_effectless = |(mark, _): &(Mark, _)| match mark {
        Starts(start) => name.starts_with(start),
        Ends(end) => name.ends_with(end),
        EndsQuantized(end) => t.facts.quantized && name.ends_with(end),
        StartsUnclassified(start) => !t.facts.classifies && name.starts_with(start),
        StartsIn(archs, start) => archs.contains(&t.family.arch) && name.starts_with(start),
    };
    if EFFECTLESS.iter().any(is_effectless) {
        return Meaning::Effectless;
    }
    // Layers after the trunk are MTP layers.
    let layer = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')).and_then(|(layer, _)| number(layer));
    let is_after_trunk = layer.is_some_and(|layer| u64::from(layer) >= t.facts.n_layers);
    let is_first = t.facts.n_predicting > 0 && layer.is_some_and(|layer| u64::from(layer) == t.facts.n_layers);
    if is_after_trunk && t.facts.predicts && t.facts.n_predicting == 0 {
        return Meaning::Effectless;
    }
    match translated(name, t.family) {
        Some((name, expert)) => Meaning::Tensor { name, expert },
        // It matters only if that layer is requested.
        None if is_first => Meaning::Tensor { name: name.replacen("layers", "blk", 1), expert: None },
        None if is_after_trunk && t.facts.n_predicting > 0 => Meaning::Effectless,
        None => Meaning::Unknown,
    }
}

/// Returns the name of a tensor of an MTP network as one of a layer after the trunk.
fn after_trunk(name: &str, t: &Translator) -> Option<String> {
    let first = t.facts.n_layers;
    if t.facts.n_predicting == 0 {
        return None;
    }
    if let Some((layer, rest)) = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        return Some(format!("layers.{}.{rest}", first.checked_add(number(layer)?.into())?));
    }
    let (module, leaf) = name.rsplit_once('.').unwrap_or((name, ""));
    let ours = MTP.iter().find(|(theirs, _)| *theirs == module).map_or(module, |(_, ours)| *ours);
    Some(format!("layers.{first}.{ours}.{leaf}"))
}

/// Returns the name of a tensor of one of two stacks as a layer's; the second stack's layers follow the first's.
fn of_stack(name: &str, t: &Translator) -> Option<String> {
    let low = name.strip_prefix("L_module.layers.").map(|rest| (rest, 0));
    let (rest, before) = low.or_else(|| Some((name.strip_prefix("H_module.layers.")?, t.facts.stack)))?;
    let (layer, rest) = rest.split_once('.')?;
    Some(format!("layers.{}.{rest}", before.checked_add(number(layer)?.into())?))
}

fn translated(name: &str, family: &Family) -> Option<(String, Option<u32>)> {
    let look_up = |table: &[(&str, &'static str)], name: &str| table.iter().find(|row| row.0 == name).map(|row| row.1);
    let own = |name: &str| family.names.iter().find_map(|table| look_up(table, name));
    let layers = ["layers.", "h.", "blocks.", "layer.", "encoder.layer.", "encoder.layers.", "decoder.layers."]
        .map(|prefix| (prefix, "blk"));
    let layers = layers.iter().chain(&[("encoder.block.", "enc.blk"), ("decoder.block.", "dec.blk")]);
    let (prefix, rest) = match layers.copied().find_map(|(theirs, ours)| Some((name.strip_prefix(theirs)?, ours))) {
        Some((rest, ours)) => {
            let (layer, part) = rest.split_once('.')?;
            (format!("{ours}.{}.", number(layer)?), part)
        }
        None => (String::new(), name),
    };
    let mixer = MIXERS.iter().find_map(|mixer| rest.strip_prefix(mixer)).map(|rest| format!("mixer.{rest}"));
    let rest = mixer.as_deref().unwrap_or(rest);
    // The second block of a T5 decoder layer does not exist in its encoder.
    let is_decoder = prefix.starts_with("dec.");
    let decoder = is_decoder.then(|| rest.replacen("layer.1.", "cross.", 1).replacen("layer.2.", "layer.1.", 1));
    let rest = decoder.as_deref().unwrap_or(rest);
    let within = |ours: &str| ours.strip_prefix('/').map_or_else(|| format!("{prefix}{ours}"), str::to_owned);
    if let Some(tensor) = own(rest).or(look_up(ENDLESS, rest).filter(|_| !prefix.is_empty())) {
        return Some((within(tensor), None));
    }
    let (part, leaf) = rest.rsplit_once('.')?;
    let leaf = match leaf {
        "weight" | "bias" => leaf,
        // The first checkpoints of BERT.
        "gamma" if part.ends_with("LayerNorm") => "weight",
        "beta" if part.ends_with("LayerNorm") => "bias",
        // The scale of a product, as named by `quantized`.
        "outer_scale" => "scale",
        _ => return None,
    };
    if prefix.is_empty() {
        let one = part.rsplit_once('.').and_then(|(of, member)| Some((format!("{of}.*"), number(member)?)));
        let (part, member) = one.map_or((Cow::Borrowed(part), None), |(of, member)| (Cow::Owned(of), Some(member)));
        return Some((format!("{}.{leaf}", own(&part).or_else(|| look_up(TOP, &part))?), member));
    }
    if part == "post_attention_layernorm" {
        let norm = if family.post_norms { "post_attention_norm" } else { "ffn_norm" };
        return Some((format!("{prefix}{norm}.{leaf}"), None));
    }
    let module = |part: &str| own(part).or_else(|| look_up(LAYER, part)).map(within);
    if let Some(part) = module(part) {
        return Some((format!("{part}.{leaf}"), None));
    }
    let (part, member) =
        match [".experts.", ".norms.", ".shard_"].iter().find_map(|of| Some((of, part.split_once(of)?))) {
            Some((of, (around, member))) => {
                let (member, rest) = member.split_at(member.find('.').unwrap_or(member.len()));
                (format!("{around}{of}*{rest}"), Some(number(member)?))
            }
            None => (part.to_owned(), None),
        };
    Some((format!("{}.{leaf}", module(&part)?), member))
}

/// Decimal without leading zeros, so that names are unique.
fn number(text: &str) -> Option<u32> {
    let n: u32 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}
