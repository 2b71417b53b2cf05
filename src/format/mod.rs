//! From files to named tensors and typed metadata. The input is untrusted: each count and length is checked against the
//! remaining bytes and an absolute limit before anything is allocated.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::cast_possible_truncation
    )
)]

mod adapter;
mod contents;
mod factors;
mod file;
mod gguf;
mod grouped;
mod hf;
pub mod hub;
pub(crate) mod json;
mod metadata;
mod mmap;
mod passed;
mod safetensors;
mod shared_folder;
mod storage;
mod value;

use std::hash::Hasher;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use twox_hash::XxHash64;

use crate::error::{Error, Result, try_vec};
pub use adapter::{AdapterFile, FactorPair};
use contents::Contents;
pub use contents::FileFormat;
pub use factors::AdapterBase;
pub use file::{ByteSource, ReadAt};
use file::{FileOffset, Files, InputFile};
pub use metadata::Metadata;
pub use mmap::Mapping;
pub use passed::Passed;
pub use shared_folder::SharedFolder;
pub use storage::TensorInfo;
use storage::TensorStorage;
pub use value::{Strings, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Tensors are read into the caller's memory.
    Read,
    /// Tensors can also be used in place. A mapped file that is shortened or overwritten kills the process or changes
    /// its weights; the caller guarantees that it is not.
    Map,
}

/// The files of a model: their contents and access to them, shared freely between threads.
#[derive(Debug)]
pub struct Source {
    pub metadata: Metadata,
    format: FileFormat,
    files: Vec<InputFile>,
    /// The mapping of each file, or none at all.
    mappings: Vec<Arc<Mapping>>,
    /// Tensors in file order.
    tensors: Vec<TensorInfo>,
    /// Indices into `tensors`, sorted by name.
    by_name: Vec<usize>,
    passed: Passed,
}

impl Source {
    /// Opens a GGUF file (of a split set the first one, next to the others), a safetensors file (with `config.json` and
    /// the tokenizer next to it, if any), or a Hugging Face folder. The content decides, not the name. Reads and
    /// validates everything except the tensors' bytes.
    ///
    /// Errors: `Io` for unreadable or non-regular files, `Format` for a damaged file, `Unsupported` for an unknown
    /// version, tensor type or model.
    pub fn open(path: &Path, access: Access) -> Result<Source> {
        match path.is_dir() {
            true => Source::new(hf::open(Files::Disk, path, None)?, access),
            false => Source::open_file(Files::Disk, path, access),
        }
    }

    /// Opens a model from the caller's bytes: one file, the files of a set, or the files of a folder.
    pub fn open_from(sources: &[ByteSource], access: Access) -> Result<Source> {
        let files = Files::Given(sources);
        if files.exists(Path::new("config.json")) {
            return Source::new(hf::open(files, Path::new("."), None)?, access);
        }
        let is_first = |s: &&ByteSource| s.name.to_string_lossy().contains("-00001-of-");
        let first = sources.iter().find(is_first).or(sources.first());
        let first = first.ok_or_else(|| Error::invalid("there are no sources of a model"))?;
        Source::open_file(files, &first.name, access)
    }

    /// Like `open`, for the encoder of a model: a GGUF file of its own, or the folder of the model.
    pub fn open_encoder(path: &Path, access: Access) -> Result<Source> {
        match path.is_dir() {
            true => Source::new(hf::encoder::open(Files::Disk, path)?, access),
            false => Source::open_file(Files::Disk, path, access),
        }
    }

    /// Like `open_encoder`, for files in the caller's memory.
    pub fn open_encoder_from(sources: &[ByteSource], access: Access) -> Result<Source> {
        let files = Files::Given(sources);
        match files.exists(Path::new("config.json")) {
            true => Source::new(hf::encoder::open(files, Path::new("."))?, access),
            false => Source::open_from(sources, access),
        }
    }

    fn open_file(files: Files, path: &Path, access: Access) -> Result<Source> {
        let file = files.open(path)?;
        let mut head = [0; 9];
        if file.len < head.len() as u64 {
            return Err(Error::format(path, format!("{} bytes are no model", file.len)));
        }
        file.read_at(0, &mut head)?;
        let contents = if head.starts_with(b"GGUF") {
            gguf::open(files, file)?
        } else if safetensors::looks_like(&head) {
            hf::open(files, path.parent().unwrap_or(path), Some(file))?
        } else {
            return Err(Error::format(path, "the file is neither GGUF nor safetensors"));
        };
        Source::new(contents, access)
    }

    fn new(contents: Contents, access: Access) -> Result<Source> {
        let Contents { format, metadata, files, tensors, passed } = contents;
        let mut by_name: Vec<usize> = try_vec("tensor names", tensors.len())?;
        by_name.extend(0..tensors.len());
        let name = |i: usize| tensors.get(i).map_or("", |t| &t.name);
        by_name.sort_unstable_by(|&a, &b| name(a).cmp(name(b)));
        for (&a, &b) in by_name.iter().zip(by_name.iter().skip(1)) {
            if name(a) == name(b) {
                return Err(metadata.error(format!("the tensor {:?} occurs twice", name(a))));
            }
        }
        let mut mappings = try_vec("mappings", files.len())?;
        if access == Access::Map {
            for file in &files {
                mappings.push(Arc::new(Mapping::new(file)?));
            }
        }
        Ok(Source { metadata, format, files, mappings, tensors, by_name, passed })
    }

    /// Returns the file or folder that was opened.
    pub fn path(&self) -> &Path {
        self.metadata.path()
    }

    /// Returns what the format's reader ignored.
    pub fn passed(&self) -> &Passed {
        &self.passed
    }

    /// Returns the error for a missing tensor, with what the file has instead.
    pub fn missing(&self, name: &str) -> Error {
        let is_own = |t: &&TensorInfo| !t.name.starts_with("blk.");
        let there = match self.tensors.iter().find(is_own).or(self.tensors.first()) {
            Some(other) => format!("there are {} tensors, such as {:?}", self.tensors.len(), other.name),
            None => self.passed.weights.clone().unwrap_or_else(|| "there are no tensors".into()),
        };
        self.metadata.error(format!("the tensor {name} is missing; {there}"))
    }

    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// Identifies the files without reading their contents.
    pub fn stamp(&self) -> u64 {
        let mut hash = XxHash64::with_seed(0);
        self.files.iter().for_each(|file| file.stamp(&mut hash));
        hash.finish()
    }

    /// Tensors in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.iter()
    }

    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let at = |i: usize| self.tensors.get(i);
        let found = self.by_name.binary_search_by(|&i| at(i).map_or("", |t| &t.name).cmp(name)).ok()?;
        self.by_name.get(found).and_then(|&i| at(i))
    }

    /// Fills `out` with the bytes of a tensor from `from` on, from any thread. Whole values only, and preferably many
    /// rows at once: a transposed matrix is read column by column.
    pub fn read(&self, tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
        match from.checked_add(out.len() as u64) {
            Some(end) if end <= tensor.bytes => tensor.storage.read(&self.files, tensor, from, out),
            _ => Err(Error::invalid(format!(
                "{} bytes from {from} on are not within the tensor {:?}",
                out.len(),
                tensor.name
            ))),
        }
    }

    /// Returns the bytes of a tensor in place, if the file was opened with `Access::Map` and stores them unconverted.
    pub fn mapped(&self, tensor: &TensorInfo) -> Option<(Arc<Mapping>, Range<usize>)> {
        let TensorStorage::Whole(FileOffset { file, offset }) = tensor.storage else { return None };
        let mapping = self.mappings.get(file)?;
        let start = usize::try_from(offset).ok()?;
        let range = start..start.checked_add(tensor.bytes.try_into().ok()?)?;
        // A file that was shortened since it was checked has a shorter mapping.
        mapping.as_ref().as_ref().get(range.clone())?;
        Some((mapping.clone(), range))
    }
}
