//! Common parts of the formats of quantized folders: the set of tensors, their validation, and adding assembled
//! matrices.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result, try_filled};
use crate::format::TensorInfo;
use crate::format::file::{FileOffset, InputFile};
use crate::format::grouped::{Blocks, Codes, GroupedMatrix, NumberKind, Numbers, Offsets, Order, Stream};
use crate::format::json::Json;
use crate::format::safetensors::Entry;
use crate::format::storage::TensorStorage;
use crate::quant;
use crate::quant::grouped::{Code, Grouped, Number, Offset};
use crate::tensor::Shape;

/// The tensors of a folder by name, from which a format takes the tensors of its matrices.
pub(super) struct Set<'a> {
    pub path: &'a Path,
    pub config: &'a Json<'a>,
    pub method: &'static str,
    pub files: &'a [InputFile],
    pub plain: fn(&str) -> bool,
    pub tensors: BTreeMap<String, Entry>,
}

/// A matrix of codes under construction.
pub(super) struct Packed {
    pub rows: u64,
    pub cols: u64,
    pub code: Code,
    /// Number of columns per scale.
    pub columns: u64,
    pub codes: Codes,
    pub scales: Numbers,
    pub offset: Offset,
    pub offsets: Option<Offsets>,
}

impl Set<'_> {
    /// Returns the names with this suffix, without the suffix.
    pub fn with(&self, end: &str) -> Vec<String> {
        self.tensors.keys().filter_map(|name| name.strip_suffix(end)).map(str::to_owned).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub fn is(&self, name: &str, dtypes: &[&str]) -> bool {
        self.tensors.get(name).is_some_and(|entry| dtypes.contains(&&*entry.dtype))
    }

    pub fn take(&mut self, name: &str) -> Option<Entry> {
        self.tensors.remove(name)
    }

    pub fn need(&mut self, name: &str) -> Result<Entry> {
        self.take(name).ok_or_else(|| self.wrong(format!("the tensor {name:?} is missing, and others need it")))
    }

    /// Drops tensors of a matrix that affect no weight.
    pub fn drop_all(&mut self, x: &str, ends: &[&str]) {
        for end in ends {
            self.take(&format!("{x}{end}"));
        }
    }

    pub fn wrong(&self, what: impl Into<String>) -> Error {
        Error::format(self.path, what)
    }

    /// Returns the error for an unsupported variant of the format.
    pub fn unsupported(&self, name: &str, what: &str) -> Error {
        Error::unsupported(format!(
            "{}: {}: the tensor {name:?} {what}, which is not supported",
            self.path.display(),
            self.method
        ))
    }

    /// Returns a text of the configuration.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.config.get(name).and_then(Json::as_str)
    }

    pub fn int(&self, name: &str) -> Option<u64> {
        self.config.get(name).and_then(Json::as_u64)
    }

    /// Returns the error for a value of the configuration.
    pub fn refuse_config(&self, name: &str) -> Error {
        let value = self.config.get(name).unwrap_or(&Json::Null);
        let path = self.path.display();
        Error::unsupported(format!("{path}: {}: {name:?} with the value {value} is not supported", self.method))
    }

    /// Returns the size of a matrix; for a stack, with the rows of all matrices.
    pub fn sizes(&self, entry: &Entry) -> Result<[u64; 2]> {
        let Some((cols, rows)) = entry.dims.split_last().filter(|(_, rows)| !rows.is_empty() && rows.len() <= 2) else {
            return Err(self.misfit(entry, "a matrix"));
        };
        let rows = rows.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim)).filter(|n| *n > 0 && *cols > 0);
        Ok([rows.ok_or_else(|| self.misfit(entry, "a matrix that is not empty"))?, *cols])
    }

    pub fn misfit(&self, entry: &Entry, expected: &str) -> Error {
        let Entry { name, dtype, dims, .. } = entry;
        self.wrong(format!("the tensor {name:?} of type {dtype} and shape {dims:?} does not fit: {expected} expected"))
    }

    /// Fails for a tensor of another type or shape.
    pub fn expect(&self, entry: &Entry, dtypes: &[&str], dims: &[u64]) -> Result<()> {
        match dtypes.contains(&&*entry.dtype) && entry.dims == dims {
            true => Ok(()),
            false => Err(self.misfit(entry, &format!("{} of {dims:?}", dtypes.join(" or ")))),
        }
    }

    /// Returns the bytes of a small tensor.
    pub fn bytes(&self, entry: &Entry) -> Result<Vec<u8>> {
        let too_large = || self.misfit(entry, "a small tensor");
        let n = usize::try_from(entry.bytes).ok().filter(|n| *n <= 1 << 28).ok_or_else(too_large)?;
        let mut bytes = try_filled("a small tensor", n, 0u8)?;
        let file = self.files.get(entry.place.file).ok_or_else(too_large)?;
        file.read_at(entry.place.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the values of a small float tensor; fails unless all are finite.
    pub fn floats(&self, entry: &Entry) -> Result<Vec<f32>> {
        let number = number(entry).ok_or_else(|| self.misfit(entry, "floats"))?;
        let values: Vec<f32> =
            self.bytes(entry)?.chunks_exact(number.bytes()).map(|bytes| number.read(bytes)).collect();
        match values.iter().position(|value| !value.is_finite()) {
            Some(i) => {
                let value = values.get(i).copied().unwrap_or_default();
                Err(self.wrong(format!("the tensor {:?} holds {value} at {i}", entry.name)))
            }
            None => Ok(values),
        }
    }

    /// Scales or offsets in their stored type, or exponents, for blocks of rows and columns.
    pub fn numbers(&self, entry: &Entry, block: [u64; 2], strides: [u64; 2]) -> Result<Numbers> {
        let kind = match (number(entry), &*entry.dtype) {
            (Some(number), _) => NumberKind::Same(number),
            (None, "U8" | "F8_E8M0") => NumberKind::E8m0,
            _ => return Err(self.misfit(entry, "scales")),
        };
        Ok(numbers(entry, kind, block, strides))
    }

    /// Returns the scales of a matrix in one of the usual shapes: `[]`, `[1]`, `[rows]`, `[rows, n]`, or one per block
    /// of `block` rows and columns.
    pub fn usual_scales(&self, entry: &Entry, weight: &Entry, cols: u64, block: [u64; 2]) -> Result<(Numbers, u64)> {
        let [rows, _] = self.sizes(weight)?;
        let [block_rows, block_cols] = block.map(|n| n.max(1));
        let grid = [rows.div_ceil(block_rows), cols.div_ceil(block_cols)];
        // The scales of experts are concatenated, as rows of blocks.
        let flat: Vec<u64> = match (&*entry.dims, &*weight.dims) {
            (&[n, r, c], &[experts, _, _]) if n == experts => Vec::from([n.saturating_mul(r), c]),
            ([] | [1], _) => entry.dims.clone(),
            (dims, [_, _]) => dims.to_vec(),
            _ => return Err(self.misfit(entry, &format!("scales of matrices of shape {:?}", weight.dims))),
        };
        let (block, strides) = match *flat {
            [] | [1] | [1, 1] => ([rows, cols], [1, 1]),
            [n] if n == rows => ([1, cols], [1, 1]),
            [n, 1] if n == rows => ([1, cols], [1, 1]),
            [r, c] if [r, c] == grid => ([block_rows, block_cols], [c, 1]),
            [r, c] if r == rows && c > 0 && cols.is_multiple_of(c) => ([1, cols / c], [c, 1]),
            _ => return Err(self.misfit(entry, &format!("scales of a matrix of {rows} rows and {cols} columns"))),
        };
        Ok((self.numbers(entry, block, strides)?, block[1]))
    }

    /// Returns the inputs of a matrix, sorted by their group (of `columns` inputs), which `entry` lists; `None` if
    /// already sorted.
    pub fn order(&self, entry: &Entry, cols: u64, columns: u64) -> Result<Option<Arc<[u32]>>> {
        self.expect(entry, &["I32"], &[cols])?;
        if columns == 0 || !cols.is_multiple_of(columns) || cols > 1 << 24 {
            return Err(self.misfit(entry, &format!("2^24 inputs at most, in groups of {columns},")));
        }
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut filled = try_filled("groups of inputs", size(cols / columns), 0u64)?;
        let mut order = try_filled("an order of inputs", size(cols), 0u32)?;
        for (group, input) in self.bytes(entry)?.as_chunks().0.iter().zip(0u32..) {
            let group = i32::from_le_bytes(*group);
            let place = u64::try_from(group).ok().and_then(|i| Some((filled.get_mut(size(i))?, i * columns)));
            let Some((filled, first)) = place else {
                let what = format!("the tensor {:?} holds {group} at {input}, which is no group", entry.name);
                return Err(self.wrong(what));
            };
            if *filled == columns {
                let what = format!("puts more inputs than {columns} into group {group}");
                return Err(self.unsupported(&entry.name, &what));
            }
            if let Some(slot) = order.get_mut(size(first + *filled)) {
                *slot = input;
            }
            *filled += 1;
        }
        Ok(if order.is_sorted() { None } else { Some(order.into()) })
    }

    /// Adds a matrix of `shape`; with three dimensions, its rows are the rows of all experts.
    pub fn put(&mut self, name: &str, shape: &[u64], matrix: GroupedMatrix) -> Result<()> {
        let too_large = || self.wrong(format!("the tensor {name:?} is too large"));
        let dtype = match matrix.blocks {
            Blocks::Grouped(grouped) => grouped.dtype(),
            Blocks::Mxfp4 => quant::MXFP4,
            Blocks::Nvfp4 => quant::NVFP4,
        };
        let bytes = matrix.bytes().ok_or_else(too_large)?;
        let (place, shape) = (matrix.codes.place, Shape::new(shape).map_err(|_| too_large())?);
        let storage = TensorStorage::Grouped(Box::new(matrix));
        self.put_made(name, TensorInfo { name: String::new(), dtype, shape, bytes, storage }, place)
    }

    pub fn put_made(&mut self, name: &str, tensor: TensorInfo, place: FileOffset) -> Result<()> {
        let (dims, bytes) = (tensor.shape.dims().to_vec(), tensor.bytes);
        let entry = Entry {
            name: name.to_owned(),
            dtype: self.method.to_owned(),
            dims,
            place,
            bytes,
            made: Some(Box::new(tensor)),
        };
        match self.tensors.insert(name.to_owned(), entry) {
            Some(_) => Err(self.wrong(format!("the tensor {name:?} is there beside its codes"))),
            None => Ok(()),
        }
    }

    /// Adds a matrix of codes with scales.
    pub fn put_packed(&mut self, name: &str, shape: &[u64], packed: Packed) -> Result<()> {
        self.put_ordered(name, shape, packed, None)
    }

    /// `put_packed` for a matrix with permuted columns.
    pub fn put_ordered(&mut self, name: &str, shape: &[u64], packed: Packed, order: Option<Arc<[u32]>>) -> Result<()> {
        let Packed { rows, cols, code, columns, codes, scales, offset, offsets } = packed;
        let most = if matches!(code, Code::Int(_)) { 256 } else { 128 };
        let fits = |n: &usize| cols.is_multiple_of(*n as u64) && columns.is_multiple_of(*n as u64);
        let Some(group) = [256, 128, 64, 32].into_iter().filter(|n| *n <= most).find(fits) else {
            let what = format!("has rows of {cols} columns in groups of {columns}, which are no multiples of 32");
            return Err(self.unsupported(name, &what));
        };
        let grouped = Grouped { code, columns: group, scale: scales.kind.number(), offset };
        let matrix = GroupedMatrix { blocks: Blocks::Grouped(grouped), rows, cols, codes, scales, offsets, order };
        self.put(name, shape, matrix)
    }

    /// Adds a matrix of 4-bit floats, `[rows, cols / 2]` bytes, with a byte-sized scale per `group` columns.
    pub fn put_fp4(&mut self, name: &str, shape: &[u64], codes: &Entry, scale: &Entry, blocks: Blocks) -> Result<()> {
        let [cols, group] = [shape.last().copied().unwrap_or(0), if blocks == Blocks::Nvfp4 { 16 } else { 32 }];
        let rows = shape.iter().rev().skip(1).product();
        if !cols.is_multiple_of(if blocks == Blocks::Nvfp4 { 64 } else { 32 }) {
            return Err(self.unsupported(name, &format!("has rows of {cols} columns, no whole number of blocks")));
        }
        let codes = Codes::new(codes.place, 4, Order::Stream(Stream::rows(cols / 2)));
        let scales = numbers(scale, NumberKind::Byte, [1, group], [cols / group, 1]);
        self.put(name, shape, GroupedMatrix { blocks, rows, cols, codes, scales, offsets: None, order: None })
    }

    /// Adds the scales of a matrix's products, or one per expert of a stack.
    pub fn put_factors(&mut self, x: &str, factors: &[f32]) -> Result<()> {
        let name = format!("{x}.outer_scale");
        if let Some(factor) = factors.iter().find(|factor| !factor.is_finite() || **factor == 0.0) {
            return Err(self.wrong(format!("the scale of {x:?} is {factor}")));
        }
        let bytes: Vec<u8> = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
        let shape = Shape::new(&[factors.len() as u64])?;
        let (n, storage) = (bytes.len() as u64, TensorStorage::Made(bytes));
        let tensor = TensorInfo { name: String::new(), dtype: quant::F32, shape, bytes: n, storage };
        self.put_made(&name, tensor, FileOffset { file: 0, offset: 0 })
    }
}

impl Codes {
    pub fn new(place: FileOffset, bits: u32, order: Order) -> Codes {
        Codes { place, bits, order, xor: 0, plus: 0 }
    }

    /// Returns the bytes, row by row.
    pub fn bytes(place: FileOffset, cols: u64) -> Codes {
        Codes::new(place, 8, Order::Stream(Stream::rows(cols)))
    }

    /// Returns the same with a sign, which becomes an offset.
    pub fn signed(self) -> Codes {
        Codes { xor: 1 << (self.bits - 1).min(7), ..self }
    }
}

/// Returns the float type of scales.
pub(super) fn number(entry: &Entry) -> Option<Number> {
    Some(match &*entry.dtype {
        "F16" => Number::F16,
        "BF16" => Number::Bf16,
        "F32" => Number::F32,
        _ => return None,
    })
}

pub(super) fn numbers(entry: &Entry, kind: NumberKind, block: [u64; 2], strides: [u64; 2]) -> Numbers {
    Numbers { name: entry.name.clone(), place: entry.place, kind, block, strides }
}

/// `dims` with another number of columns.
pub(super) fn widened(dims: &[u64], cols: u64) -> Vec<u64> {
    let rows = dims.split_last().map_or(&[][..], |(_, rows)| rows);
    rows.iter().copied().chain([cols]).collect()
}
