//! A weight matrix: its shape and byte layout; the backend owns the bytes. Relies on `packed` for the layout.

use std::ops::Range;

use crate::cpu::kernels::{Isa, PANEL_ROWS};
use crate::cpu::matmul::packed::PackedLayout;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// A matrix `[rows, cols]` of weights.
#[derive(Clone, Copy, Debug)]
pub struct WeightMatrix {
    pub rows: usize,
    pub(crate) layout: PackedLayout,
}

impl WeightMatrix {
    /// Returns a matrix that is packed during loading.
    pub fn packed(dtype: DType, rows: usize, cols: usize) -> Result<WeightMatrix> {
        WeightMatrix::new(rows, PackedLayout::packed(dtype, cols)?)
    }

    /// Returns a matrix that stays in file layout and is packed again for each product: mapped weights and embedding
    /// tables.
    pub fn mapped(dtype: DType, rows: usize, cols: usize) -> Result<WeightMatrix> {
        WeightMatrix::new(rows, PackedLayout::raw(dtype, cols)?)
    }

    fn new(rows: usize, layout: PackedLayout) -> Result<WeightMatrix> {
        let too_large = || Error::invalid(format!("a matrix of {rows} rows of {} values is too large", layout.cols));
        if rows == 0 || layout.cols == 0 {
            return Err(Error::invalid(format!("a matrix of {rows} rows of {} values is empty", layout.cols)));
        }
        // Leaves space for padding, so that no later sum can overflow.
        layout.bytes(rows).and_then(|bytes| bytes.checked_add(1 << 16)).ok_or_else(too_large)?;
        Ok(WeightMatrix { rows, layout })
    }

    pub fn dtype(&self) -> DType {
        self.layout.dtype
    }

    pub fn cols(&self) -> usize {
        self.layout.cols
    }

    /// Returns the size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.bytes(self.rows).unwrap_or(usize::MAX)
    }

    /// Returns the size of a row in the file in bytes.
    pub fn row_bytes(&self) -> usize {
        self.layout.row_bytes
    }

    /// Returns the packed byte range of some rows, which must start at a multiple of 16.
    pub fn range(&self, rows: Range<usize>) -> Range<usize> {
        assert!(rows.start.is_multiple_of(PANEL_ROWS) && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let start = self.layout.bytes(rows.start).unwrap_or(0);
        start..start + self.layout.bytes(rows.len()).unwrap_or(0)
    }

    /// Packs rows of the file into their location `range(rows)`; the first row must be a multiple of 16. Does not
    /// allocate and may run on several threads at once. All instruction sets write the same finite values.
    pub fn pack(&self, isa: Isa, raw: &[u8], out: &mut [u8]) {
        let rows = raw.len() / self.layout.row_bytes.max(1);
        assert!(raw.len() == rows * self.layout.row_bytes && Some(out.len()) == self.layout.bytes(rows));
        self.layout.pack(isa.matmul(), raw, out);
    }

    /// Decodes a row to the values of the reference codec; packed 16-bit floats decode to the values that products use.
    pub fn decode_row(&self, bytes: &[u8], row: usize, out: &mut [f32]) {
        assert!(bytes.len() == self.bytes() && row < self.rows && out.len() == self.layout.cols);
        self.layout.decode_row(bytes, row, out);
    }

    /// Returns some rows as a separate matrix, with its bytes; the first row must be a multiple of 16.
    pub fn part<'a>(&self, bytes: &'a [u8], rows: Range<usize>) -> (WeightMatrix, &'a [u8]) {
        let range = self.range(rows.clone());
        (WeightMatrix { rows: rows.len(), layout: self.layout }, &bytes[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant;

    #[test]
    fn a_part_is_those_rows() {
        let matrix = WeightMatrix::packed(quant::Q5_0, 80, 64).unwrap();
        let values: Vec<f32> = (0..80 * 64).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
        let mut raw = vec![0; 80 * matrix.row_bytes()];
        quant::quantize(quant::Q5_0, &values, &mut raw).unwrap();
        let mut bytes = vec![0; matrix.bytes()];
        matrix.pack(Isa::detect(), &raw, &mut bytes);
        let (part, part_bytes) = matrix.part(&bytes, 32..64);
        let (mut expected, mut found) = (vec![0f32; 64], vec![1f32; 64]);
        quant::dequantize(quant::Q5_0, &raw[35 * matrix.row_bytes()..][..matrix.row_bytes()], &mut expected).unwrap();
        part.decode_row(part_bytes, 3, &mut found);
        assert_eq!(expected, found);
    }
}
