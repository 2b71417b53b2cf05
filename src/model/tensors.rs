//! Tensors of a file by name, checked against the exact shape that a network requires; records which were used.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use crate::error::{Error, Result, try_filled, try_vec};
use crate::format::{FileFormat, Source, TensorInfo};
use crate::graph::weights::{MatrixSource, SharedBytes};
use crate::quant::{self, Format};
use crate::tensor::DType;

/// Rows of a tensor: `run` rows from `first` on, repeated every `stride` rows, `count` times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowRuns {
    pub first: usize,
    pub run: usize,
    pub stride: usize,
    pub count: usize,
}

impl RowRuns {
    pub fn len(&self) -> usize {
        self.run * self.count
    }

    /// Returns the rows as ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.count).map(|i| self.first + i * self.stride..self.first + i * self.stride + self.run)
    }
}

impl From<Range<usize>> for RowRuns {
    fn from(rows: Range<usize>) -> RowRuns {
        RowRuns { first: rows.start, run: rows.len(), stride: rows.len(), count: 1 }
    }
}

/// Rows of a tensor in a file.
pub struct FileMatrix<'a> {
    source: &'a Source,
    info: &'a TensorInfo,
    format: Format,
    /// Type to convert rows to while reading.
    target: Format,
    rows: RowRuns,
    cols: usize,
    /// F32 values computed from the tensor, which replace it.
    made: Option<Vec<u8>>,
    /// Rows and columns of zeros after the tensor's.
    zeros: [usize; 2],
}

impl FileMatrix<'_> {
    /// True for the same rows of the same tensor.
    pub fn is(&self, other: &FileMatrix) -> bool {
        let same_rows = std::ptr::eq(self.info, other.info) && (self.rows, self.zeros) == (other.rows, other.zeros);
        same_rows && self.made == other.made
    }

    /// Pads with zeros to `rows` and `cols`; columns only for float matrices.
    pub fn pad(&mut self, rows: usize, cols: usize) {
        self.zeros = [rows.saturating_sub(self.rows.len()), cols.saturating_sub(self.cols)];
    }

    /// Returns the rows of the matrix, and the number of rows of the tensor.
    pub fn runs(&self) -> (RowRuns, usize) {
        (self.rows, self.info.shape.rows() as usize)
    }

    /// Returns the matrix's column order, as indices of `Op::Gather`, per expert of a stack; `None` if unpermuted.
    pub fn order(&self) -> Result<Option<Vec<f32>>> {
        self.info.order()
    }

    pub fn is_reordered(&self) -> bool {
        self.info.is_reordered()
    }

    fn row_bytes(&self) -> usize {
        self.cols / self.format.block_len * self.format.block_bytes
    }

    fn is_converted(&self) -> bool {
        self.format.dtype != self.target.dtype
    }
}

impl MatrixSource for FileMatrix<'_> {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn dtype(&self) -> DType {
        self.target.dtype
    }

    fn rows(&self) -> usize {
        self.rows.len() + self.zeros[0]
    }

    fn cols(&self) -> usize {
        self.cols + self.zeros[1]
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        if self.zeros == [0, 0] {
            return self.read_rows(rows, out);
        }
        let row_bytes = (out.len() / rows.len().max(1)).max(1);
        let used = if self.zeros[1] == 0 { row_bytes } else { row_bytes / self.cols() * self.cols };
        out.fill(0);
        for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes)).filter(|(row, _)| *row < self.rows.len()) {
            self.read_rows(row..row + 1, &mut out[..used])?;
        }
        Ok(())
    }

    fn mapped(&self) -> Option<SharedBytes> {
        if self.is_converted() || self.rows.count != 1 || self.made.is_some() || self.zeros != [0, 0] {
            return None;
        }
        let (owner, range) = self.source.mapped(self.info)?;
        let start = range.start + self.rows.first * self.row_bytes();
        Some(SharedBytes { owner, range: start..start + self.rows.len() * self.row_bytes() })
    }
}

impl FileMatrix<'_> {
    /// Reads rows of the tensor, without zeros.
    fn read_rows(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        if let Some(made) = &self.made {
            let from = made.get(rows.start * 4 * self.cols..).and_then(|values| values.get(..out.len()));
            return from
                .map(|from| out.copy_from_slice(from))
                .ok_or_else(|| Error::invalid("the rows exceed the matrix"));
        }
        let RowRuns { first, run, stride, .. } = self.rows;
        let bytes = out.len().checked_div(rows.len()).unwrap_or(0);
        let (mut at, mut out) = (rows.start, out);
        while at < rows.end {
            let n = (run - at % run).min(rows.end - at);
            let (part, rest) = out.split_at_mut(n * bytes);
            let start = first + at / run * stride + at % run;
            self.read_run(start..start + n, part)?;
            (at, out) = (at + n, rest);
        }
        Ok(())
    }

    /// Reads contiguous rows.
    fn read_run(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        let row_bytes = self.row_bytes();
        let from = rows.start as u64 * row_bytes as u64;
        let encode = match self.target.quantize {
            Some(encode) if self.is_converted() => encode,
            _ => return self.source.read(self.info, from, out),
        };
        let mut raw = try_filled("rows to convert", rows.len() * row_bytes, 0u8)?;
        self.source.read(self.info, from, &mut raw)?;
        let mut values = try_filled("rows to convert", rows.len() * self.cols, 0f32)?;
        self.format.dequantize(&raw, &mut values);
        encode(&values, out);
        Ok(())
    }
}

/// Fails for a matrix with permuted columns.
fn in_order(info: &TensorInfo) -> Result<()> {
    match info.is_reordered() {
        true => {
            let what = "has inputs in an order of their own (desc_act, actorder), which this network cannot follow";
            Err(Error::unsupported(format!("the tensor {} {what}", info.name)))
        }
        false => Ok(()),
    }
}

pub struct Tensors<'a> {
    source: &'a Source,
    /// Type to convert float matrices to.
    quantize: Option<Format>,
    used: HashSet<&'a str>,
    /// Names, without layer, of tensors treated as absent.
    left_out: &'static [&'static str],
}

impl<'a> Tensors<'a> {
    pub fn new(source: &'a Source, quantize: Option<DType>) -> Result<Tensors<'a>> {
        let quantize = match quantize.map(quant::format).transpose()? {
            Some(Format { quantize: None, name, .. }) => {
                return Err(Error::unsupported(format!("there is no encoder for the type {name}")));
            }
            format => format,
        };
        Ok(Tensors { source, quantize, used: HashSet::new(), left_out: &[] })
    }

    /// Returns the names of unused tensors.
    pub fn unused(&self) -> impl Iterator<Item = &'a str> {
        self.source
            .tensors()
            .map(|t| t.name.as_str())
            .filter(|name| !self.used.contains(name) && !self.is_left_out(name))
    }

    /// Treats tensors with these names, in any layer, as absent.
    pub fn leave_out(&mut self, names: &'static [&'static str]) {
        self.left_out = names;
    }

    fn is_left_out(&self, name: &str) -> bool {
        let in_layer = name.strip_prefix("blk.").and_then(|rest| Some(rest.split_once('.')?.1));
        self.left_out.contains(&in_layer.unwrap_or(name))
    }

    pub fn format(&self) -> FileFormat {
        self.source.format()
    }

    pub fn damaged(&self, what: String) -> Error {
        self.source.metadata.error(what)
    }

    pub fn has(&self, name: &str) -> bool {
        self.source.tensor(name).is_some() && !self.is_left_out(name)
    }

    /// Returns a tensor of `rows` rows of `cols` elements; marks it as used.
    fn find(&mut self, name: &str, rows: usize, cols: usize) -> Result<&'a TensorInfo> {
        let info = self.source.tensor(name).ok_or_else(|| self.source.missing(name))?;
        self.used.insert(&info.name);
        if (info.shape.rows(), info.shape.cols()) != (rows as u64, cols as u64) {
            let what = format!("the tensor {name} has shape {:?}, [{rows}, {cols}] expected", info.shape);
            return Err(self.damaged(what));
        }
        Ok(info)
    }

    /// Marks a tensor, and the scale of a matrix, as used if present.
    pub fn ignore(&mut self, name: &str) {
        let factor = name.strip_suffix(".weight").map(|stem| format!("{stem}.scale"));
        let found = [Some(name), factor.as_deref()].into_iter().flatten().filter_map(|name| self.source.tensor(name));
        self.used.extend(found.map(|info| info.name.as_str()));
    }

    /// Marks all tensors with this prefix as used.
    pub fn ignore_all(&mut self, prefix: &str) {
        let source = self.source;
        self.used.extend(source.tensors().map(|info| info.name.as_str()).filter(|name| name.starts_with(prefix)));
    }

    /// Returns the number of rows of a table in the file.
    pub fn rows(&self, name: &str) -> Result<usize> {
        let info = self.source.tensor(name).ok_or_else(|| self.source.missing(name))?;
        usize::try_from(info.shape.rows()).map_err(|_| self.damaged(format!("the tensor {name} is too large")))
    }

    /// Returns the number of columns of a table in the file.
    pub fn cols(&self, name: &str) -> Result<usize> {
        let info = self.source.tensor(name).ok_or_else(|| self.source.missing(name))?;
        usize::try_from(info.shape.cols()).map_err(|_| self.damaged(format!("the tensor {name} is too large")))
    }

    /// Returns some of the `of` rows of a matrix. Fails if its columns are permuted.
    pub fn matrix(&mut self, name: &str, of: usize, rows: RowRuns, cols: usize) -> Result<FileMatrix<'a>> {
        let matrix = self.ordered_matrix(name, of, rows, cols)?;
        in_order(matrix.info)?;
        Ok(matrix)
    }

    /// Like `matrix`, for callers that handle permuted columns.
    pub fn ordered_matrix(&mut self, name: &str, of: usize, rows: RowRuns, cols: usize) -> Result<FileMatrix<'a>> {
        let info = self.find(name, of, cols)?;
        if rows.len() == 0 || rows.ranges().any(|range| range.end > of) {
            return Err(self.damaged(format!("the tensor {name} has {of} rows, {rows:?} expected")));
        }
        let format = quant::format(info.dtype)?;
        format.row_bytes(cols as u64)?;
        // Only float matrices are converted: quantizing twice only adds error.
        let target = self.quantize.filter(|t| format.block_len == 1 && cols.is_multiple_of(t.block_len));
        let (source, target) = (self.source, target.unwrap_or(format));
        Ok(FileMatrix { source, info, format, target, rows, cols, made: None, zeros: [0, 0] })
    }

    /// Returns a matrix of values computed from a tensor.
    pub fn made(&self, name: &str, cols: usize, values: &[f32]) -> Result<FileMatrix<'a>> {
        let info = self.source.tensor(name).ok_or_else(|| self.source.missing(name))?;
        let mut made = try_vec("a matrix", 4 * values.len())?;
        values.iter().for_each(|value| made.extend_from_slice(&value.to_le_bytes()));
        let (format, rows) = (quant::format(quant::F32)?, (0..values.len() / cols.max(1)).into());
        Ok(FileMatrix {
            source: self.source,
            info,
            format,
            target: format,
            rows,
            cols,
            made: Some(made),
            zeros: [0, 0],
        })
    }

    /// Returns the values of a vector, which may be stored as a column.
    pub fn vector(&mut self, name: &str, len: usize) -> Result<Vec<f32>> {
        let is_column = self.source.tensor(name).is_some_and(|t| (t.shape.rows(), t.shape.cols()) == (len as u64, 1));
        if is_column { self.values(name, len, 1) } else { self.values(name, 1, len) }
    }

    /// Returns the values of `rows` vectors, concatenated.
    pub fn values(&mut self, name: &str, rows: usize, cols: usize) -> Result<Vec<f32>> {
        let info = self.find(name, rows, cols)?;
        let format = quant::format(info.dtype)?;
        match format.block_len {
            1 => self.expanded(info, rows, cols),
            _ => Err(self.damaged(format!("the tensor {name} has type {}, expected a float type", format.name))),
        }
    }

    /// Returns the values of a matrix of any type.
    pub fn matrix_values(&mut self, name: &str, rows: usize, cols: usize) -> Result<Vec<f32>> {
        let info = self.find(name, rows, cols)?;
        in_order(info)?;
        self.expanded(info, rows, cols)
    }

    fn expanded(&self, info: &TensorInfo, rows: usize, cols: usize) -> Result<Vec<f32>> {
        let (name, format) = (&info.name, quant::format(info.dtype)?);
        let row = format.row_bytes(cols as u64)? as usize;
        let lengths = rows.checked_mul(row).zip(rows.checked_mul(cols));
        let (bytes, len) = lengths.ok_or_else(|| self.damaged(format!("the tensor {name} is too large")))?;
        let mut raw = try_filled("a vector", bytes, 0u8)?;
        self.source.read(info, 0, &mut raw)?;
        let mut values = try_filled("a vector", len, 0f32)?;
        format.dequantize(&raw, &mut values);
        match values.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(self.damaged(format!("the tensor {name} holds no finite number at {i}"))),
            None => Ok(values),
        }
    }

    /// Like `vector`, for an optional tensor.
    pub fn vector_if_present(&mut self, name: &str, len: usize) -> Result<Option<Vec<f32>>> {
        if self.has(name) { self.vector(name, len).map(Some) } else { Ok(None) }
    }

    /// Like `values`, for an optional tensor.
    pub fn values_if_present(&mut self, name: &str, rows: usize, cols: usize) -> Result<Option<Vec<f32>>> {
        if self.has(name) { self.values(name, rows, cols).map(Some) } else { Ok(None) }
    }

    /// Returns the file's divisors of RoPE frequencies. Folders have them in their configuration.
    pub fn rope_divisors(&mut self, name: &str) -> Result<Option<Vec<f32>>> {
        match self.source.tensor(name).filter(|_| !self.is_left_out(name)) {
            Some(info) => self.vector(name, info.shape.n_elements().min(1 << 20) as usize).map(Some),
            None => Ok(self.source.metadata.f32s(name)?.map(Cow::into_owned)),
        }
    }
}
