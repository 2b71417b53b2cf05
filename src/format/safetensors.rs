//! safetensors: a JSON list of tensors, then their bytes without gaps. Layout:
//! <https://github.com/huggingface/safetensors#format>.

use std::path::Path;

use super::contents::{MAX_ENTRIES, owned};
use super::file::{FileOffset, InputFile};
use super::json::Json;
use super::storage::{TensorInfo, TensorStorage};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::quant;
use crate::tensor::{DType, Shape};

/// The limit of the specification.
const MAX_HEADER: u64 = 100_000_000;
const MAX_DIMS: usize = 8;

/// A tensor as listed by the file; its type and shape need not be supported.
pub(super) struct Entry {
    pub name: String,
    pub dtype: String,
    pub dims: Vec<u64>,
    pub place: FileOffset,
    pub bytes: u64,
    /// The matrix assembled from it and others.
    pub made: Option<Box<TensorInfo>>,
}

/// True if a file begins like a safetensors file; the format has no magic number.
pub(super) fn looks_like(head: &[u8; 9]) -> bool {
    matches!(head, [_, _, _, _, 0, 0, 0, 0, b'{'])
}

/// Returns the number of bytes of a value, and its type if supported.
fn value_type(name: &str) -> Option<(u64, Option<DType>)> {
    Some(match name {
        "F32" => (4, Some(quant::F32)),
        "F16" => (2, Some(quant::F16)),
        "BF16" => (2, Some(quant::BF16)),
        "F8_E4M3" => (1, Some(quant::F8_E4M3)),
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E8M0" => (1, None),
        "I16" | "U16" => (2, None),
        "I32" | "U32" => (4, None),
        "F64" | "I64" | "U64" => (8, None),
        _ => return None,
    })
}

impl Entry {
    /// Returns the tensor of an entry under another name; fails for an unsupported type or shape.
    pub fn tensor(&self, path: &Path, name: String) -> Result<TensorInfo> {
        if let Some(made) = &self.made {
            return Ok(TensorInfo { name, ..TensorInfo::clone(made) });
        }
        // Integer tensors that are not part of a quantized matrix.
        let of_ids = name.ends_with("tid2eid.weight") || ["d2t", "masked_embd_ordering"].contains(&&*name);
        let converted = match &*self.dtype {
            "F64" => Some(TensorStorage::Doubles(self.place)),
            "I64" if of_ids => Some(TensorStorage::LongIntegers(self.place)),
            "I32" if of_ids => Some(TensorStorage::Integers(self.place)),
            _ => None,
        };
        if let Some(storage) = converted {
            let shape =
                Shape::new(&self.dims).map_err(|e| Error::format(path, format!("the tensor {:?}: {e}", self.name)))?;
            return Ok(TensorInfo::converted(name, shape, storage));
        }
        let Some((_, Some(dtype))) = value_type(&self.dtype) else {
            return Err(Error::unsupported(format!(
                "{}: the tensor {:?} has type {:?}, which is not supported",
                path.display(),
                self.name,
                self.dtype
            )));
        };
        let shape =
            Shape::new(&self.dims).map_err(|e| Error::format(path, format!("the tensor {:?}: {e}", self.name)))?;
        Ok(TensorInfo { name, dtype, shape, bytes: self.bytes, storage: TensorStorage::Whole(self.place) })
    }
}

/// Returns the tensors of a file, in the order of their bytes.
pub(super) fn read_header(file: &InputFile, file_index: usize) -> Result<Vec<Entry>> {
    let error = |what: String| Error::format(&file.path, what);
    if file.len < 8 {
        return Err(error(format!("{} bytes are no safetensors file", file.len)));
    }
    let mut length = [0; 8];
    file.read_at(0, &mut length)?;
    let length = u64::from_le_bytes(length);
    let left = file.len.saturating_sub(8);
    if length > left.min(MAX_HEADER) {
        return Err(error(format!("a header of {length} bytes, {left} are left and the limit is {MAX_HEADER}")));
    }
    let size = usize::try_from(length).map_err(|_| error("too large for this machine".into()))?;
    let mut header = try_filled("a file's header", size, 0)?;
    file.read_at(8, &mut header)?;
    let header = Json::parse(&file.path, &header)?;
    let Json::Object(members) = &header else { return Err(error("the header is no JSON object".into())) };
    if members.len() as u64 > MAX_ENTRIES {
        return Err(error(format!("{} tensors, the limit is {MAX_ENTRIES}", members.len())));
    }
    let data = left - length;
    let mut entries = try_vec("tensors", members.len())?;
    for (name, member) in members.iter().filter(|m| m.0 != "__metadata__") {
        let entry = read_entry(name, member).map_err(|what| error(format!("the tensor {name:?}: {what}")))?;
        entries.push(entry);
    }
    entries.sort_unstable_by_key(|e| (e.place.offset, e.bytes));
    let mut expected = 0u64;
    for e in &mut entries {
        if e.place.offset != expected {
            return Err(error(format!("the tensor {:?} begins at {}, expected {expected}", e.name, e.place.offset)));
        }
        expected = expected.saturating_add(e.bytes);
        e.place = FileOffset { file: file_index, offset: (8 + length).saturating_add(e.place.offset) };
    }
    if expected != data {
        return Err(error(format!("the tensors take {expected} bytes, the file holds {data}")));
    }
    Ok(entries)
}

/// `place` is still relative to the start of the data. The error is for a message about this tensor.
fn read_entry(name: &str, member: &Json) -> Result<Entry, String> {
    let dtype = member.get("dtype").and_then(Json::as_str).ok_or("no dtype")?;
    let shape = member.get("shape").and_then(Json::as_array).ok_or("no shape")?;
    if shape.len() > MAX_DIMS {
        return Err(format!("{} dimensions", shape.len()));
    }
    let dims: Option<Vec<u64>> =
        shape.iter().map(|dim| if let Json::Int(i) = dim { u64::try_from(*i).ok() } else { None }).collect();
    let dims = dims.ok_or("a dimension that is no number")?;
    let offsets = member.get("data_offsets").and_then(Json::as_array).ok_or("no data_offsets")?;
    let &[Json::Int(start), Json::Int(end)] = offsets else { return Err("data_offsets are two numbers".into()) };
    let start = u64::try_from(start).map_err(|_| "a negative offset")?;
    let bytes = u64::try_from(end).ok().and_then(|end| end.checked_sub(start)).ok_or("ends before it begins")?;
    if let Some((value_bytes, _)) = value_type(dtype) {
        // Zero dimensions last, so that they do not hide an overflow.
        let n = dims.iter().filter(|&&d| d != 0).try_fold(value_bytes, |n, &d| n.checked_mul(d));
        let n = n.ok_or_else(|| format!("the shape {dims:?} has too many elements"))?;
        let n = if dims.contains(&0) { 0 } else { n };
        if n != bytes {
            return Err(format!("shape {dims:?} of {dtype} is {n} bytes, data_offsets say {bytes}"));
        }
    }
    let name = owned(name).map_err(|e| e.to_string())?;
    Ok(Entry { name, dtype: dtype.to_owned(), dims, place: FileOffset { file: 0, offset: start }, bytes, made: None })
}
