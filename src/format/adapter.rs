//! LoRA adapter files: GGUF files, and PEFT folders, whose tensor names are translated to GGUF's. Pairs the factors,
//! and fails for anything unknown that could change results.

use std::path::Path;

use super::factors::{AdapterBase, Half, unknown};
use super::file::Files;
use super::hf::peft;
use super::{Access, ByteSource, Source, TensorInfo};
use crate::error::{Error, Result, try_vec};

/// The factors of one matrix, to which `factor * B A` is added.
#[derive(Debug)]
pub struct FactorPair {
    /// The tensor of the model.
    pub name: String,
    /// `[rank, columns]`
    pub a: TensorInfo,
    /// `[rows, rank]`
    pub b: TensorInfo,
    pub factor: f64,
}

#[derive(Debug)]
pub struct AdapterFile {
    /// As in a GGUF file.
    pub architecture: Option<String>,
    /// True if the rows of queries and keys are in the order for RoPE by halves, false for the order of the
    /// architecture's GGUF files.
    pub rope_halves: bool,
    /// Pairs of factors in file order, one per matrix.
    pub pairs: Vec<FactorPair>,
    source: Source,
}

impl AdapterFile {
    /// Opens a GGUF file or a folder with `adapter_config.json`. Reads and validates everything except the factors'
    /// values.
    pub fn open(path: &Path, base: &AdapterBase) -> Result<AdapterFile> {
        match path.is_dir() {
            true => AdapterFile::open_folder(Files::Disk, path, base),
            false => AdapterFile::open_gguf(Files::Disk, path),
        }
    }

    /// Like `open`, for files in the caller's memory.
    pub fn open_from(sources: &[ByteSource], base: &AdapterBase) -> Result<AdapterFile> {
        let files = Files::Given(sources);
        match sources {
            _ if files.exists(Path::new("adapter_config.json")) => {
                AdapterFile::open_folder(files, Path::new("."), base)
            }
            [source] => AdapterFile::open_gguf(files, &source.name),
            _ => Err(Error::invalid(format!(
                "{} sources of an adapter need one named adapter_config.json",
                sources.len()
            ))),
        }
    }

    fn open_folder(files: Files, path: &Path, base: &AdapterBase) -> Result<AdapterFile> {
        let (contents, halves, rope_halves) = peft::open(files, path, base)?;
        let source = Source::new(contents, Access::Read)?;
        Ok(AdapterFile { architecture: None, rope_halves, pairs: paired(path, halves)?, source })
    }

    fn open_gguf(files: Files, path: &Path) -> Result<AdapterFile> {
        let (file, mut head) = (files.open(path)?, [0; 4]);
        if file.len >= 4 {
            file.read_at(0, &mut head)?;
        }
        if head != *b"GGUF" {
            return Err(Error::format(path, "no GGUF file; an adapter of PEFT is opened by its folder"));
        }
        let source = Source::open_file(files, path, Access::Read)?;
        let metadata = &source.metadata;
        let kind = metadata.str("general.type")?.unwrap_or("model");
        if kind != "adapter" {
            return Err(metadata.error(format!("no adapter: general.type is {kind:?}")));
        }
        let kind = metadata.require_str("adapter.type")?;
        if kind != "lora" {
            return Err(Error::unsupported(format!("{}: adapters of type {kind:?} are not supported", path.display())));
        }
        let known = ["adapter.type", "adapter.lora.alpha", "adapter.lora.task_name", "adapter.lora.prompt_prefix"];
        if let Some((key, _)) = metadata.iter().find(|(key, _)| key.starts_with("adapter.") && !known.contains(key)) {
            let value = metadata.render(key).unwrap_or_default();
            return Err(Error::unsupported(format!(
                "{}: the key {key:?} with the value {value} is not supported",
                path.display()
            )));
        }
        let architecture = metadata.require_str("general.architecture")?.to_owned();
        let alpha = metadata.f32("adapter.lora.alpha")?.ok_or_else(|| metadata.missing("adapter.lora.alpha"))?;
        if !(1e-6..=1e6).contains(&alpha.abs()) {
            return Err(metadata.error(format!("adapter.lora.alpha is {alpha}")));
        }
        let mut halves = try_vec("factors", source.tensors().len())?;
        for tensor in source.tensors() {
            let (name, is_a) = match (tensor.name.strip_suffix(".lora_a"), tensor.name.strip_suffix(".lora_b")) {
                (Some(name), _) => (name, true),
                (_, Some(name)) => (name, false),
                _ => return Err(unknown(path, &tensor.name)),
            };
            let rank = if is_a { tensor.shape.rows() } else { tensor.shape.cols() };
            let factor = f64::from(alpha) / rank as f64;
            halves.push(Half { name: name.to_owned(), factor, is_a, tensor: tensor.clone() });
        }
        let pairs = paired(path, halves)?;
        Ok(AdapterFile { architecture: Some(architecture), rope_halves: false, pairs, source })
    }

    /// Fills `out` with the bytes of a factor from `from` on, whole values only, from any thread.
    pub fn read(&self, tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
        self.source.read(tensor, from, out)
    }

    /// Returns an error with the file's name.
    pub fn error(&self, what: impl Into<String>) -> Error {
        self.source.metadata.error(what)
    }

    pub fn path(&self) -> &Path {
        self.source.path()
    }
}

/// Pairs the factors and compares their shapes.
fn paired(path: &Path, mut halves: Vec<Half>) -> Result<Vec<FactorPair>> {
    if halves.is_empty() {
        return Err(Error::format(path, "the adapter has no factors"));
    }
    halves.sort_by(|x, y| (&x.name, !x.is_a).cmp(&(&y.name, !y.is_a)));
    let mut pairs = try_vec("factors", halves.len())?;
    let mut halves = halves.into_iter().peekable();
    while let Some(a) = halves.next() {
        let other = halves.next_if(|b| b.name == a.name && a.is_a && !b.is_a);
        let Some(b) = other.filter(|_| halves.peek().is_none_or(|next| next.name != a.name)) else {
            let twice = halves.peek().is_some_and(|next| next.name == a.name);
            let what = if twice { "more than two factors" } else { "one factor of two" };
            return Err(Error::format(path, format!("{what} of {:?}: {:?}", a.name, a.tensor.name)));
        };
        let [a_dims, b_dims] = [&a.tensor, &b.tensor].map(|tensor| tensor.shape.dims());
        match (a_dims, b_dims) {
            ([rank, cols], [rows, other]) if rank == other && *rank > 0 && *cols > 0 && *rows > 0 => {}
            _ => {
                let what = format!("the factors {:?} of shape {a_dims:?} and {:?}", a.tensor.name, b.tensor.name);
                return Err(Error::format(path, format!("{what} of shape {b_dims:?} have no rank in common")));
            }
        }
        if !a.factor.is_finite() || a.factor != b.factor {
            return Err(Error::format(path, format!("the scale of {:?} is {}", a.name, a.factor)));
        }
        pairs.push(FactorPair { name: a.name, a: a.tensor, b: b.tensor, factor: a.factor });
    }
    Ok(pairs)
}
