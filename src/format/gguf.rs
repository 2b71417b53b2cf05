//! Reads GGUF files (versions 2 and 3, little-endian) and the sets of files that `gguf-split` writes. Layout of the
//! header, the metadata and the tensor list: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::path::{Path, PathBuf};

use super::contents::{Contents, FileFormat, MAX_ENTRIES, MAX_FILES, append};
use super::file::{FileOffset, Files, InputFile};
use super::metadata::Metadata;
use super::passed::Passed;
use super::storage::{TensorInfo, TensorStorage};
use super::value::{Strings, Value, narrow};
use crate::error::{Error, Result, try_vec};
use crate::os;
use crate::quant;
use crate::tensor::{DType, Shape};

/// Maximum bytes of a file's header, metadata and tensor list, in the file and in memory.
const MAX_HEADER: u64 = 512 << 20;
const MAX_STRING: u64 = 16 << 20;
/// Maximum length of a string in an array; the tokens of vocabularies are the longest.
const MAX_TOKEN: u64 = 64 << 10;
const MAX_NAME: u64 = u16::MAX as u64;
/// Maximum number of elements of an array; the longest known arrays are vocabularies.
const MAX_ARRAY: u64 = 4 << 20;
const MAX_ALIGNMENT: u64 = 1 << 20;
/// The types of integers and of doubles.
const I32: u32 = 26;
const I64: u32 = 27;
const F64: u32 = 28;
/// Prefix of the keys of files whose weights were multiplied by Hadamard matrices. Such files are rejected, because the
/// inputs of matrix products would have to be multiplied too.
const ROTATED: &str = "prism.hadamard.";
/// Bytes read at once, to limit the number of system calls.
const BUFFER: u64 = 256 << 10;

/// Reads a file; if the file is the first of a set, also reads the other files.
pub(super) fn open(from: Files, first: InputFile) -> Result<Contents> {
    let SetFile { metadata, mut tensors, passed } = read_file(&first, 0)?;
    let count = metadata.u64("split.count")?.unwrap_or(1);
    if count > MAX_FILES {
        return Err(metadata.error(format!("a set of {count} files, the limit is {MAX_FILES}")));
    }
    let mut files = try_vec("files", 1)?;
    files.push(first);
    if count > 1 {
        open_siblings(from, &metadata, count, &mut files, &mut tensors)?;
    }
    Ok(Contents { format: FileFormat::Gguf, metadata, files, tensors, passed })
}

/// Opens the other files of a set and appends their tensors. `split.no` counts from 0, but the numbers in file names
/// count from 1.
fn open_siblings(
    from: Files,
    first: &Metadata,
    count: u64,
    files: &mut Vec<InputFile>,
    tensors: &mut Vec<TensorInfo>,
) -> Result<()> {
    let no = first.u64("split.no")?.ok_or_else(|| first.missing("split.no"))?;
    if no != 0 {
        return Err(first.error(format!("file {} of a set of {count}; open the first", no.saturating_add(1))));
    }
    for no in 1..count {
        let file = from.open(&sibling(first, no, count)?)?;
        let other = read_file(&file, files.len())?;
        let (found_no, found_count) = (other.metadata.u64("split.no")?, other.metadata.u64("split.count")?);
        if (found_no, found_count) != (Some(no), Some(count)) {
            return Err(other.metadata.error(format!(
                "should have split.no {no} and split.count {count}, has {found_no:?} and {found_count:?}"
            )));
        }
        append(tensors, other.tensors, first.path())?;
        files.push(file);
    }
    match first.u64("split.tensors.count")? {
        Some(n) if n != tensors.len() as u64 => {
            Err(first.error(format!("split.tensors.count is {n}, the files hold {}", tensors.len())))
        }
        _ => Ok(()),
    }
}

/// Returns the file next to `first` with another number in its name.
fn sibling(first: &Metadata, no: u64, count: u64) -> Result<PathBuf> {
    let suffix = |no: u64| format!("-{:05}-of-{count:05}.gguf", no + 1);
    let name = first.path().file_name().unwrap_or_default();
    match os::with_other_end(name, &suffix(0), &suffix(no)) {
        Some(name) => Ok(first.path().with_file_name(name)),
        None => Err(first.error(format!("the first of {count} files, but its name does not end in {}", suffix(0)))),
    }
}

struct SetFile {
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    passed: Passed,
}

fn read_file(file: &InputFile, file_index: usize) -> Result<SetFile> {
    let mut r = Reader { file, buffer: Vec::new(), used: 0, end: 0, memory: 0, passed: Passed::default() };
    r.take(4)?; // the magic
    match r.u32()? {
        2 | 3 => {}
        v if v != 0 && v.trailing_zeros() >= 24 => {
            return Err(Error::unsupported(format!(
                "{}: big-endian GGUF files are not supported",
                file.path.display()
            )));
        }
        v => return Err(Error::unsupported(format!("{}: GGUF version {v} is not supported", file.path.display()))),
    }
    // Minimum bytes of a tensor: an empty name, no dimensions, type and offset; of a key: an empty name, type and one
    // byte.
    let n_tensors = r.count("tensors", 24)?;
    let n_keys = r.count("keys", 13)?;
    let mut entries = try_vec("metadata", n_keys)?;
    for _ in 0..n_keys {
        let key = r.text("a key", MAX_NAME)?;
        let name = key.as_ref().unwrap_or_else(|lossy| lossy);
        let value = r.value(name)?;
        match (key, &value) {
            (Ok(key), Value::NotText(_)) => {
                r.passed.note(format!("the key {key:?} holds a string that is not UTF-8"));
                entries.push((key, value));
            }
            (Ok(key), _) => entries.push((key, value)),
            // No accessor can read such a key.
            (Err(lossy), _) => r.passed.note(format!("the key {lossy:?} is not UTF-8 and is passed over")),
        }
    }
    if let Some((key, _)) = entries.iter().find(|(key, _)| key.starts_with(ROTATED)) {
        let what = format!("{}: the key {key:?}: weights that are stored rotated", file.path.display());
        return Err(Error::unsupported(what));
    }
    let metadata = Metadata::new(&file.path, entries)?;
    let tensors = read_tensors(&mut r, &metadata, n_tensors, file_index)?;
    Ok(SetFile { metadata, tensors, passed: r.passed })
}

fn read_tensors(r: &mut Reader, metadata: &Metadata, n: usize, file: usize) -> Result<Vec<TensorInfo>> {
    let alignment = metadata.u64("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || !(8..=MAX_ALIGNMENT).contains(&alignment) {
        return Err(metadata.error(format!("general.alignment is {alignment}")));
    }
    let mut listed = try_vec("tensors", n)?;
    for _ in 0..n {
        listed.push(r.listed()?);
    }
    let path = &r.file.path;
    let data = r.position().next_multiple_of(alignment);
    let room = r.file.len.saturating_sub(data);
    if has_long_blocks(path, &listed, alignment, room)? {
        listed.iter_mut().filter(|tensor| tensor.dtype == quant::Q2_0).for_each(|tensor| tensor.dtype = quant::PQ2_0);
    }
    let mut tensors = try_vec("tensors", n)?;
    // Tensors follow the order of the list, each padded to the alignment, so offsets are known in advance.
    let mut expected = 0u64;
    for Listed { name, shape, dtype, offset } in listed {
        if offset != expected {
            return Err(Error::format(path, format!("the tensor {name:?} has offset {offset}, expected {expected}")));
        }
        let bytes = tensor_bytes(path, &name, dtype, &shape)?;
        let end = data.checked_add(offset).and_then(|start| start.checked_add(bytes));
        if end.is_none_or(|end| end > r.file.len) {
            let what = format!("{bytes} bytes at {data} + {offset}");
            return Err(Error::format(
                path,
                format!("the file ends at {}, within the tensor {name:?}: {what}", r.file.len),
            ));
        }
        // No overflow: both are at most the length of the file.
        expected = (offset + bytes).next_multiple_of(alignment);
        let place = FileOffset { file, offset: data + offset };
        tensors.push(match dtype.0 {
            F64 => TensorInfo::converted(name, shape, TensorStorage::Doubles(place)),
            I32 => TensorInfo::converted(name, shape, TensorStorage::Integers(place)),
            I64 => TensorInfo::converted(name, shape, TensorStorage::LongIntegers(place)),
            _ => TensorInfo { name, dtype, shape, bytes, storage: TensorStorage::Whole(place) },
        });
    }
    Ok(tensors)
}

/// True if tensors of type 42 have blocks of 128 values, as in the first files with this type; only the offsets of
/// tensors reveal that.
fn has_long_blocks(path: &Path, listed: &[Listed], alignment: u64, room: u64) -> Result<bool> {
    if !listed.iter().any(|tensor| tensor.dtype == quant::Q2_0) {
        return Ok(false);
    }
    let fits = |of_q2: DType| {
        let (mut end, mut next) = (0u64, 0u64);
        for Listed { name, shape, dtype, offset } in listed {
            let dtype = if *dtype == quant::Q2_0 { of_q2 } else { *dtype };
            let Ok(bytes) = tensor_bytes(path, name, dtype, shape) else { return false };
            if *offset != next || bytes > room - offset.min(&room) {
                return false;
            }
            end = offset + bytes;
            next = end.next_multiple_of(alignment);
        }
        room <= next.max(end)
    };
    match [fits(quant::Q2_0), fits(quant::PQ2_0)] {
        [true, true] => Err(Error::unsupported(format!(
            "{}: tensors of type 42, of which nothing tells whether their blocks have 64 or 128 values",
            path.display()
        ))),
        [_, long] => Ok(long),
    }
}

/// Returns the number of bytes of a tensor, or why its size is invalid.
fn tensor_bytes(path: &Path, name: &str, dtype: DType, shape: &Shape) -> Result<u64> {
    if [F64, I32, I64].contains(&dtype.0) {
        return Ok(shape.n_elements().saturating_mul(if dtype.0 == I32 { 4 } else { 8 }));
    }
    let known = Some(dtype).filter(|t| t.0 < quant::FIRST_PRIVATE).and_then(|t| quant::format(t).ok());
    let Some(format) = known else {
        let what = format!("{}: the tensor {name:?} has type {}, which is not supported", path.display(), dtype.0);
        return Err(Error::unsupported(what));
    };
    let row = format.row_bytes(shape.cols()).map_err(|e| Error::format(path, format!("the tensor {name:?}: {e}")))?;
    row.checked_mul(shape.rows())
        .ok_or_else(|| Error::format(path, format!("the tensor {name:?} of shape {shape:?} is too large")))
}

/// An entry of the tensor list; `offset` is relative to the start of the data.
struct Listed {
    name: String,
    shape: Shape,
    dtype: DType,
    offset: u64,
}

/// Reads the header from front to back.
struct Reader<'a> {
    file: &'a InputFile,
    buffer: Vec<u8>,
    /// Number of consumed bytes of the buffer.
    used: usize,
    /// File offset of the end of the buffer.
    end: u64,
    /// Bytes of memory of the values so far.
    memory: u64,
    passed: Passed,
}

impl Reader<'_> {
    fn position(&self) -> u64 {
        self.end.saturating_sub(self.buffer.len().saturating_sub(self.used) as u64)
    }

    fn error(&self, what: impl Into<String>) -> Error {
        Error::format(&self.file.path, what)
    }

    fn size(&self, n: u64) -> Result<usize> {
        usize::try_from(n).map_err(|_| self.error("the file is too large for this machine"))
    }

    /// Checks that `n` more bytes are available.
    fn check_left(&self, n: u64) -> Result<()> {
        let end = self.position().saturating_add(n);
        if end > self.file.len {
            let what = format!(
                "the file ends at {}, within its header; {n} bytes are due at {}",
                self.file.len,
                self.position()
            );
            return Err(self.error(what));
        }
        if end > MAX_HEADER {
            return Err(self.error(format!("the header has more than {MAX_HEADER} bytes")));
        }
        Ok(())
    }

    /// Returns the next `n` bytes. Callers limit `n`, because the buffer holds all of these bytes.
    fn take(&mut self, n: u64) -> Result<&[u8]> {
        self.check_left(n)?;
        let n = self.size(n)?;
        let kept = self.buffer.len().saturating_sub(self.used);
        if n > kept {
            self.buffer.drain(..self.used);
            self.used = 0;
            let ahead = self.size(BUFFER.min(self.file.len.saturating_sub(self.end)))?;
            let more = (n - kept).max(ahead);
            self.buffer
                .try_reserve(more)
                .map_err(|_| Error::OutOfMemory { what: "a file's header", bytes: more as u64 })?;
            self.buffer.resize(kept + more, 0);
            self.file.read_at(self.end, self.buffer.get_mut(kept..).unwrap_or_default())?;
            self.end = self.end.saturating_add(more as u64);
        }
        let start = self.used;
        self.used += n;
        self.buffer.get(start..self.used).ok_or_else(|| self.error("ends early"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N as u64).map(|bytes| bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a count of items that take at least `least` bytes each.
    fn count(&mut self, what: &str, least: u64) -> Result<usize> {
        let n = self.u64()?;
        if n > MAX_ENTRIES {
            return Err(self.error(format!("{n} {what}, the limit is {MAX_ENTRIES}")));
        }
        self.check_left(n.saturating_mul(least))?;
        self.size(n)
    }

    /// Counts the memory of a value before the value is allocated.
    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > MAX_HEADER {
            return Err(self.error(format!("metadata has more than {MAX_HEADER} bytes")));
        }
        Ok(())
    }

    fn string_bytes(&mut self, what: &str, cap: u64) -> Result<&[u8]> {
        let n = self.u64()?;
        if n > cap {
            return Err(self.error(format!("{what}: a string of {n} bytes, the limit is {cap}")));
        }
        self.charge(n)?;
        self.take(n)
    }

    fn string(&mut self, what: &str, cap: u64) -> Result<String> {
        self.text(what, cap)?.map_err(|_| self.error(format!("{what}: a string that is not UTF-8")))
    }

    /// Reads a string, or its lossy form if it is not UTF-8.
    fn text(&mut self, what: &str, cap: u64) -> Result<Result<String, String>> {
        let bytes = self.string_bytes(what, cap)?;
        let mut copy = try_vec("metadata", bytes.len())?;
        copy.extend_from_slice(bytes);
        Ok(String::from_utf8(copy).map_err(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    fn value(&mut self, key: &str) -> Result<Value> {
        Ok(match self.u32()? {
            0 => Value::Int(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Int(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Int(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Int(u32::from_le_bytes(self.array()?).into()),
            5 => Value::Int(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(bool_of(self.array()?).ok_or_else(|| self.bad_element(key))?),
            8 => match self.text(&format!("the key {key:?}"), MAX_STRING)? {
                Ok(text) => Value::Str(text),
                Err(lossy) => Value::NotText(lossy),
            },
            9 => self.array_value(key)?,
            10 => Value::Int(u64::from_le_bytes(self.array()?).into()),
            11 => Value::Int(i64::from_le_bytes(self.array()?).into()),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            t => return Err(self.error(format!("the key {key:?} has the unknown type {t}"))),
        })
    }

    fn array_value(&mut self, key: &str) -> Result<Value> {
        let t = self.u32()?;
        let n = self.u64()?;
        if n > MAX_ARRAY {
            return Err(self.error(format!("the key {key:?} has {n} elements, the limit is {MAX_ARRAY}")));
        }
        Ok(match t {
            0 => Value::Ints(self.elements(key, n, |b| Some(u8::from_le_bytes(b).into()))?),
            1 => Value::Ints(self.elements(key, n, |b| Some(i8::from_le_bytes(b).into()))?),
            2 => Value::Ints(self.elements(key, n, |b| Some(u16::from_le_bytes(b).into()))?),
            3 => Value::Ints(self.elements(key, n, |b| Some(i16::from_le_bytes(b).into()))?),
            4 => Value::Ints(self.elements(key, n, |b| Some(u32::from_le_bytes(b).into()))?),
            5 => Value::Ints(self.elements(key, n, |b| Some(i32::from_le_bytes(b).into()))?),
            6 => Value::Floats(self.elements(key, n, |b| Some(f32::from_le_bytes(b)))?),
            7 => Value::Bools(self.elements(key, n, bool_of)?),
            8 => Value::Strs(self.strings(key, n)?),
            9 => return Err(self.error(format!("the key {key:?} holds nested arrays"))),
            10 => Value::Ints(self.elements(key, n, |b| u64::from_le_bytes(b).try_into().ok())?),
            11 => Value::Ints(self.elements(key, n, |b| Some(i64::from_le_bytes(b)))?),
            12 => Value::Floats(self.elements(key, n, |b| Some(narrow(f64::from_le_bytes(b))))?),
            t => return Err(self.error(format!("the key {key:?} is an array of the unknown type {t}"))),
        })
    }

    fn elements<const N: usize, T>(&mut self, key: &str, n: u64, decode: fn([u8; N]) -> Option<T>) -> Result<Vec<T>> {
        self.check_left(n.saturating_mul(N as u64))?;
        self.charge(n.saturating_mul(size_of::<T>() as u64))?;
        let mut values = try_vec("metadata", self.size(n)?)?;
        let mut left = n;
        while left > 0 {
            let now = left.min(BUFFER / N as u64);
            for &chunk in self.take(now * N as u64)?.as_chunks().0 {
                values.extend(decode(chunk));
            }
            left -= now;
        }
        if values.len() as u64 != n {
            return Err(self.bad_element(key));
        }
        Ok(values)
    }

    fn strings(&mut self, key: &str, n: u64) -> Result<Strings> {
        self.check_left(n.saturating_mul(8))?;
        self.charge(n.saturating_mul(4))?;
        let mut strings = Strings::with_capacity(self.size(n)?)?;
        for _ in 0..n {
            strings.push(self.string_bytes(key, MAX_TOKEN)?)?;
        }
        Ok(strings)
    }

    fn bad_element(&self, key: &str) -> Error {
        self.error(format!("the key {key:?} holds a value that its type cannot have"))
    }

    fn listed(&mut self) -> Result<Listed> {
        let name = self.string("a tensor's name", MAX_NAME)?;
        let n_dims = self.u32()? as usize;
        if n_dims > Shape::MAX_DIMS {
            return Err(self.error(format!("the tensor {name:?} has {n_dims} dimensions, at most 4 are supported")));
        }
        // The file has the contiguous dimension first.
        let mut dims = [0; Shape::MAX_DIMS];
        let dims = dims.get_mut(..n_dims).unwrap_or_default();
        for d in dims.iter_mut().rev() {
            *d = self.u64()?;
        }
        let shape = Shape::new(dims).map_err(|e| self.error(format!("the tensor {name:?}: {e}")))?;
        let dtype = DType(self.u32()?);
        Ok(Listed { name, shape, dtype, offset: self.u64()? })
    }
}

/// Parses a boolean, 0 or 1 by the specification.
fn bool_of(byte: [u8; 1]) -> Option<bool> {
    match byte {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}
