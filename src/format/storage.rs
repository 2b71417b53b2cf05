//! Where and how a tensor's bytes are stored, and reads that assemble the tensor: from separately stored experts, from
//! transposed matrices or some rows of a matrix, from 8-bit or 4-bit floats with a separate scale tensor, or as a
//! function of stored values.

use super::file::{FileOffset, InputFile, read};
use super::grouped::{GroupedMatrix, SpreadMatrix};
use super::value::narrow;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::quant;
use crate::tensor::{DType, Shape};

/// The entry of a tensor in its file. `name` is unique in the file set, `bytes` is its exact length.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    pub name: String,
    pub dtype: DType,
    pub shape: Shape,
    pub bytes: u64,
    pub(super) storage: TensorStorage,
}

impl TensorInfo {
    /// True if the columns of a matrix, or of an expert of a stack, are permuted relative to its inputs.
    pub fn is_reordered(&self) -> bool {
        self.storage.is_reordered()
    }

    /// Returns the input of each column, per expert of a stack; `None` if not permuted.
    pub fn order(&self) -> Result<Option<Vec<f32>>> {
        if !self.is_reordered() {
            return Ok(None);
        }
        let cols = self.shape.cols();
        let too_large = || Error::invalid(format!("the tensor {:?} is too large", self.name));
        let n =
            self.storage.matrices().checked_mul(cols).and_then(|n| usize::try_from(n).ok()).ok_or_else(too_large)?;
        let mut order = try_vec("an order of inputs", n)?;
        self.storage.append_order(cols, &mut order);
        Ok(Some(order))
    }

    /// Returns an F32 tensor computed from other stored numbers.
    pub(super) fn converted(name: String, shape: Shape, storage: TensorStorage) -> TensorInfo {
        let bytes = shape.n_elements().saturating_mul(4);
        TensorInfo { name, dtype: quant::F32, shape, bytes, storage }
    }
}

/// How the bytes of a tensor are stored.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TensorStorage {
    /// One run of bytes in the order of the tensor.
    Whole(FileOffset),
    /// Parts of `part_bytes` each, along the slowest dimension.
    Stacked {
        parts: Vec<TensorStorage>,
        part_bytes: u64,
    },
    Scaled(Scaled),
    /// A matrix of `rows` rows, without blocks, stored column by column in `source` from byte `first` on.
    Transposed {
        source: Box<TensorStorage>,
        first: u64,
        rows: u64,
    },
    Picked(Picked),
    /// MXFP4 blocks whose file has the sixteen bytes of each block separate from all scales, with adjacent values in
    /// one byte.
    Packed {
        quants: FileOffset,
        scales: FileOffset,
    },
    /// F32: a function of each of a run of floats.
    Computed {
        source: Box<TensorStorage>,
        source_type: DType,
        function: Function,
    },
    /// F32: rounded doubles.
    Doubles(FileOffset),
    /// F32: 32-bit integers.
    Integers(FileOffset),
    /// F32: 64-bit integers.
    LongIntegers(FileOffset),
    /// Blocks of codes with separate scales and offsets.
    Grouped(Box<GroupedMatrix>),
    /// F32: codes whose scales and zeros repeat periodically.
    Spread(Box<SpreadMatrix>),
    /// Bytes that are in no file.
    Made(Vec<u8>),
}

/// A function of a stored value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Function {
    /// `1 + x`
    OnePlus,
    /// `-exp(x)`
    NegativeExp,
    Times(f32),
}

impl Function {
    fn of(self, x: f32) -> f32 {
        match self {
            Function::OnePlus => 1.0 + x,
            Function::Times(factor) => factor * x,
            Function::NegativeExp => narrow(-libm::exp(f64::from(x))),
        }
    }
}

/// A BF16 matrix stored as F8_E4M3 and scales.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scaled {
    pub values: FileOffset,
    pub cols: u64,
    /// Scales, one per `block` of rows and columns, row by row.
    pub scales: FileOffset,
    pub scale_type: DType,
    pub block: [u64; 2],
}

/// Some units (rows or single values) of another tensor: unit `i` is its unit `first + i / run * stride + i % run`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Picked {
    pub source: Box<TensorStorage>,
    /// Bytes of the other tensor; next, of a unit.
    pub source_bytes: u64,
    pub unit: u64,
    pub run: u64,
    pub stride: u64,
    pub first: u64,
}

impl TensorStorage {
    fn is_reordered(&self) -> bool {
        match self {
            TensorStorage::Grouped(matrix) => matrix.order.is_some(),
            TensorStorage::Stacked { parts, .. } => parts.iter().any(TensorStorage::is_reordered),
            TensorStorage::Picked(picked) => picked.source.is_reordered(),
            _ => false,
        }
    }

    /// Returns the number of matrices with a column order of their own.
    fn matrices(&self) -> u64 {
        match self {
            TensorStorage::Stacked { parts, .. } => parts.iter().map(TensorStorage::matrices).sum(),
            TensorStorage::Picked(picked) => picked.source.matrices(),
            _ => 1,
        }
    }

    fn append_order(&self, cols: u64, out: &mut Vec<f32>) {
        match self {
            TensorStorage::Stacked { parts, .. } => parts.iter().for_each(|part| part.append_order(cols, out)),
            TensorStorage::Picked(picked) => picked.source.append_order(cols, out),
            TensorStorage::Grouped(matrix) if matrix.order.is_some() => {
                out.extend(matrix.order.iter().flat_map(|order| order.iter().map(|input| *input as f32)));
            }
            _ => out.extend((0..cols).map(|input| input as f32)),
        }
    }

    /// Fills `out` with the bytes of `tensor` from `from` on; the range must be within the tensor.
    pub fn read(&self, files: &[InputFile], tensor: &TensorInfo, from: u64, out: &mut [u8]) -> Result<()> {
        Reader { files, tensor }.read(self, from, out)
    }
}

/// A tensor whose bytes are read from its files.
struct Reader<'a> {
    files: &'a [InputFile],
    tensor: &'a TensorInfo,
}

impl Reader<'_> {
    fn read(&self, storage: &TensorStorage, from: u64, out: &mut [u8]) -> Result<()> {
        let Reader { files, tensor } = *self;
        match storage {
            TensorStorage::Whole(place) => read(files, *place, from, out),
            TensorStorage::Stacked { parts, part_bytes } => self.read_stacked(parts, *part_bytes, from, out),
            TensorStorage::Scaled(scaled) => self.read_scaled(scaled, from, out),
            TensorStorage::Transposed { source, first, rows } => self.read_transposed(source, *first, *rows, from, out),
            TensorStorage::Picked(picked) => self.read_picked(picked, from, out),
            TensorStorage::Packed { quants, scales } => self.read_packed(*quants, *scales, from, out),
            TensorStorage::Computed { source, source_type, function } => {
                self.read_computed(source, *source_type, *function, from, out)
            }
            TensorStorage::Grouped(matrix) => matrix.read(files, &tensor.name, from, out),
            TensorStorage::Spread(matrix) => matrix.read(files, &tensor.name, from, out),
            TensorStorage::Doubles(place) => {
                self.read_wide(*place, from, out, |bytes| float_of_double(f64::from_le_bytes(bytes)))
            }
            TensorStorage::LongIntegers(place) => {
                self.read_wide(*place, from, out, |bytes| float_of_integer(i64::from_le_bytes(bytes)))
            }
            TensorStorage::Integers(place) => self.read_integers(*place, from, out),
            TensorStorage::Made(bytes) => {
                let start = usize::try_from(from).unwrap_or(usize::MAX);
                let part = bytes.get(start..).and_then(|b| b.get(..out.len())).ok_or_else(|| unaligned(tensor))?;
                out.copy_from_slice(part);
                Ok(())
            }
        }
    }

    fn read_stacked(&self, parts: &[TensorStorage], part_bytes: u64, mut from: u64, mut out: &mut [u8]) -> Result<()> {
        for part in parts {
            if from < part_bytes && !out.is_empty() {
                let n = usize::try_from(part_bytes - from).unwrap_or(usize::MAX).min(out.len());
                let (now, rest) = out.split_at_mut(n);
                self.read(part, from, now)?;
                out = rest;
            }
            from = from.saturating_sub(part_bytes);
        }
        Ok(())
    }

    fn read_scaled(&self, s: &Scaled, from: u64, out: &mut [u8]) -> Result<()> {
        let Reader { files, tensor } = *self;
        let [target, source, scale] =
            [quant::format(quant::BF16)?, quant::format(quant::F8_E4M3)?, quant::format(s.scale_type)?];
        let [block_rows, block_cols] = s.block.map(|n| n.max(1));
        let (cols, scale_cols) = (s.cols, s.cols.div_ceil(block_cols));
        if out.is_empty() {
            return Ok(());
        }
        if !from.is_multiple_of(2) || !out.len().is_multiple_of(2) {
            return Err(unaligned(tensor));
        }
        let (first, n) = (from / 2, out.len() / 2);
        let mut raw = try_filled("scaled weights", n, 0u8)?;
        read(files, s.values, first, &mut raw)?;
        let mut values = try_filled("scaled weights", n, 0f32)?;
        source.dequantize(&raw, &mut values);
        let (first_row, last_row) = (first / cols / block_rows, (first + n as u64 - 1) / cols / block_rows);
        let count = usize::try_from((last_row - first_row + 1) * scale_cols).map_err(|_| unaligned(tensor))?;
        let mut raw = try_filled("scales", count.saturating_mul(scale.block_bytes), 0u8)?;
        read(files, s.scales, first_row * scale_cols * scale.block_bytes as u64, &mut raw)?;
        let mut scales = try_filled("scales", count, 0f32)?;
        scale.dequantize(&raw, &mut scales);
        let (mut rest, mut at) = (values.as_mut_slice(), first);
        while !rest.is_empty() {
            let (row, col) = (at / cols, at % cols);
            let run = (block_cols - col % block_cols).min(cols - col);
            let scale = usize::try_from((row / block_rows - first_row) * scale_cols + col / block_cols);
            let scale = scale.ok().and_then(|i| scales.get(i)).ok_or_else(|| unaligned(tensor))?;
            let (now, later) = rest.split_at_mut(usize::try_from(run).unwrap_or(usize::MAX).min(rest.len()));
            now.iter_mut().for_each(|value| *value *= scale);
            (rest, at) = (later, at + run);
        }
        let encode = target.quantize.ok_or_else(|| unaligned(tensor))?;
        encode(&values, out);
        Ok(())
    }

    /// Reads each column of the requested rows at once, so that many rows take few reads.
    fn read_transposed(
        &self,
        source: &TensorStorage,
        first_byte: u64,
        rows: u64,
        from: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let tensor = self.tensor;
        let cols = tensor.shape.cols();
        let value = quant::format(tensor.dtype)?.block_bytes;
        if out.is_empty() {
            return Ok(());
        }
        if !from.is_multiple_of(value as u64) || !out.len().is_multiple_of(value) {
            return Err(unaligned(tensor));
        }
        let first = from / value as u64;
        let n = (out.len() / value) as u64;
        let (first_row, last_row) = (first / cols, (first + n - 1) / cols);
        let run = usize::try_from(last_row - first_row + 1).ok().and_then(|n| n.checked_mul(value));
        let mut column = try_filled("a transposed matrix", run.ok_or_else(|| unaligned(tensor))?, 0u8)?;
        for c in 0..cols {
            self.read(source, first_byte + (c * rows + first_row) * value as u64, &mut column)?;
            for (row, bytes) in (first_row..).zip(column.chunks_exact(value)) {
                // Only the first and the last row can be requested in part.
                let Some(i) = (row * cols + c).checked_sub(first).and_then(|i| usize::try_from(i).ok()) else {
                    continue;
                };
                if let Some(slot) = i.checked_mul(value).and_then(|start| out.get_mut(start..start + value)) {
                    slot.copy_from_slice(bytes);
                }
            }
        }
        Ok(())
    }

    fn read_computed(
        &self,
        values_of: &TensorStorage,
        source_type: DType,
        function: Function,
        from: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let source = quant::format(source_type)?;
        if !from.is_multiple_of(4) || !out.len().is_multiple_of(4) || source.block_len != 1 {
            return Err(unaligned(self.tensor));
        }
        let run = COMPUTED_RUN.min(out.len() / 4);
        let mut raw = try_filled("a computed tensor", run * source.block_bytes, 0u8)?;
        let mut values = try_filled("a computed tensor", run, 0f32)?;
        let mut at = from / 4 * source.block_bytes as u64;
        for out in out.chunks_mut(COMPUTED_RUN * 4) {
            raw.truncate(out.len() / 4 * source.block_bytes);
            values.truncate(out.len() / 4);
            self.read(values_of, at, &mut raw)?;
            source.dequantize(&raw, &mut values);
            for (out, x) in out.chunks_exact_mut(4).zip(&values) {
                out.copy_from_slice(&function.of(*x).to_le_bytes());
            }
            at += raw.len() as u64;
        }
        Ok(())
    }

    /// Converts 64-bit values to floats by `float`, which fails for a value that it cannot convert.
    fn read_wide(
        &self,
        place: FileOffset,
        from: u64,
        out: &mut [u8],
        float: fn([u8; 8]) -> Result<f32, String>,
    ) -> Result<()> {
        if !from.is_multiple_of(4) || !out.len().is_multiple_of(4) {
            return Err(unaligned(self.tensor));
        }
        let mut raw = try_filled("values of 64 bits", COMPUTED_RUN.min(out.len() / 4) * 8, 0u8)?;
        let mut at = from.saturating_mul(2);
        for out in out.chunks_mut(COMPUTED_RUN * 4) {
            raw.truncate(out.len() * 2);
            read(self.files, place, at, &mut raw)?;
            for (out, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(raw.as_chunks::<8>().0) {
                *out = float(*value).map_err(|what| cannot_hold(self.tensor, &what))?.to_le_bytes();
            }
            at += raw.len() as u64;
        }
        Ok(())
    }

    /// Converts 32-bit integers to floats.
    fn read_integers(&self, place: FileOffset, from: u64, out: &mut [u8]) -> Result<()> {
        let Reader { files, tensor } = *self;
        if !from.is_multiple_of(4) || !out.len().is_multiple_of(4) {
            return Err(unaligned(tensor));
        }
        read(files, place, from, out)?;
        for value in out.as_chunks_mut::<4>().0 {
            let float = float_of_integer(i32::from_le_bytes(*value).into());
            *value = float.map_err(|what| cannot_hold(tensor, &what))?.to_le_bytes();
        }
        Ok(())
    }

    fn read_picked(&self, p: &Picked, from: u64, out: &mut [u8]) -> Result<()> {
        let tensor = self.tensor;
        let run_bytes = p.run.saturating_mul(p.unit).max(1);
        let stride_bytes = p.stride.saturating_mul(p.unit);
        let place = |at: u64| (p.first * p.unit) + at / run_bytes * stride_bytes + at % run_bytes;
        let apart = matches!(*p.source, TensorStorage::Whole(_)) && run_bytes >= LONG_RUN;
        let (mut rest, mut at) = (out, from);
        let mut span = Vec::new();
        while !rest.is_empty() {
            let start = place(at);
            if apart {
                let n = usize::try_from(run_bytes - at % run_bytes).unwrap_or(usize::MAX).min(rest.len());
                let (now, later) = rest.split_at_mut(n);
                check_within(p, tensor, start, n)?;
                self.read(&p.source, start, now)?;
                (rest, at) = (later, at + n as u64);
                continue;
            }
            // As many runs as fit in a span, and at least one.
            let runs = (SPAN / stride_bytes.max(1)).max(1);
            let end = (at / run_bytes + runs).saturating_mul(run_bytes);
            let n = usize::try_from(end - at).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            let last = place(at + n as u64 - 1);
            let len = usize::try_from(last + 1 - start).map_err(|_| unaligned(tensor))?;
            check_within(p, tensor, start, len)?;
            span.clear();
            span.try_reserve(len).map_err(|_| Error::OutOfMemory { what: "rows of a tensor", bytes: len as u64 })?;
            span.resize(len, 0u8);
            self.read(&p.source, start, &mut span)?;
            let (mut slots, mut i) = (now, at);
            while !slots.is_empty() {
                let n = usize::try_from(run_bytes - i % run_bytes).unwrap_or(usize::MAX).min(slots.len());
                let (slot, more) = slots.split_at_mut(n);
                let inner = usize::try_from(place(i) - start).map_err(|_| unaligned(tensor))?;
                slot.copy_from_slice(span.get(inner..inner + n).ok_or_else(|| unaligned(tensor))?);
                (slots, i) = (more, i + n as u64);
            }
            (rest, at) = (later, at + n as u64);
        }
        Ok(())
    }

    fn read_packed(&self, quants: FileOffset, scales: FileOffset, from: u64, out: &mut [u8]) -> Result<()> {
        let Reader { files, tensor } = *self;
        if !from.is_multiple_of(PACKED_BLOCK) || !(out.len() as u64).is_multiple_of(PACKED_BLOCK) {
            return Err(unaligned(tensor));
        }
        let (first, n) = (from / PACKED_BLOCK, out.len() / 17);
        let mut factors = try_filled("scales", n, 0u8)?;
        read(files, scales, first, &mut factors)?;
        let mut pairs = try_filled("packed weights", n * 16, 0u8)?;
        read(files, quants, first * 16, &mut pairs)?;
        for ((block, factor), pairs) in out.chunks_exact_mut(17).zip(factors).zip(pairs.chunks_exact(16)) {
            let Some((scale, values)) = block.split_first_mut() else { continue };
            *scale = factor;
            let (early, late) = pairs.split_at(8);
            for (two, (low, high)) in values.chunks_exact_mut(2).zip(early.iter().zip(late)) {
                if let [even, odd] = two {
                    (*even, *odd) = (low & 0x0f | (high & 0x0f) << 4, low >> 4 | high & 0xf0);
                }
            }
        }
        Ok(())
    }
}

/// Returns the error for a read that splits a value of a converted tensor.
fn unaligned(tensor: &TensorInfo) -> Error {
    Error::invalid(format!("the tensor {:?} can be read in whole values only", tensor.name))
}

/// Number of values computed at once.
const COMPUTED_RUN: usize = 1 << 16;

fn cannot_hold(tensor: &TensorInfo, what: &str) -> Error {
    Error::unsupported(format!("the tensor {:?} holds {what} of F32", tensor.name))
}

/// Rounds a double; fails beyond the range of F32.
fn float_of_double(double: f64) -> Result<f32, String> {
    match narrow(double) {
        value if value.is_finite() || !double.is_finite() => Ok(value),
        _ => Err(format!("{double:e}, which is beyond the range")),
    }
}

/// Converts an integer to a float; fails beyond 2^24, where floats are no longer exact.
fn float_of_integer(integer: i64) -> Result<f32, String> {
    match integer.unsigned_abs() <= 1 << 24 {
        true => Ok(integer as f32),
        false => Err(format!("{integer}, which is beyond the integers")),
    }
}

/// Runs of at least this length are read one by one, shorter ones with the gaps between them.
const LONG_RUN: u64 = 4096;
/// Maximum bytes read at once for short runs with their gaps.
const SPAN: u64 = 8 << 20;

fn check_within(p: &Picked, tensor: &TensorInfo, start: u64, len: usize) -> Result<()> {
    match start.checked_add(len as u64) {
        Some(end) if end <= p.source_bytes => Ok(()),
        _ => Err(unaligned(tensor)),
    }
}

/// Bytes of an MXFP4 block: a scale and 32 values; byte `i` has the values `i` and `i + 16`.
const PACKED_BLOCK: u64 = 17;
