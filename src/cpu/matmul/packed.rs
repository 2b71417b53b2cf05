//! The layout of weights in memory. Sixteen rows form a row panel, and every field of their blocks is interleaved unit
//! by unit: unit i of row 0, of row 1, ... of row 15, then unit i + 1. A unit of integers is four bytes, the operand of
//! one lane of a dot product, so that a load of 64 bytes reads every row's next columns; a unit of scales is one scale.
//! All instruction sets use this layout. Packed weights are as large as in the file, except 16-bit floats, which become
//! smaller in groups of 32 columns (`kernels::small`). Padding rows are zero.

use std::ops::Range;

use crate::cpu::kernels::interleave::interleave_words;
use crate::cpu::kernels::small::{self, Columns, Packing};
use crate::cpu::kernels::table::MatmulKernels;
use crate::cpu::kernels::{GROUP, PANEL_ROWS};
use crate::error::{Error, Result};
use crate::quant::grouped::{Grouped, Number, Offset};
use crate::quant::{self, Format};
use crate::tensor::DType;

/// A run of units of one size in a block.
#[derive(Clone, Copy, Debug)]
enum Field {
    Bytes(usize),
    Halves(usize),
    Words(usize),
    /// 32 bits, one per column, reordered by packing: bit `j` of byte `b` belongs to column `4 j + b`.
    Bits,
    /// Words of 16 bit pairs, one per column, reordered by packing: pair `j` of byte `b` belongs to column `4 j + b`.
    Pairs(usize),
}
use Field::{Bits, Bytes, Halves, Pairs, Words};

impl Field {
    fn bytes(self) -> usize {
        match self {
            Bytes(n) => n,
            Halves(n) => 2 * n,
            Words(n) | Pairs(n) => 4 * n,
            Bits => 4,
        }
    }
}

/// Returns the fields of a block in file order.
fn fields(dtype: DType) -> Option<&'static [Field]> {
    Some(match dtype {
        quant::F32 => &[Words(1)],
        quant::F16 | quant::BF16 => &[Halves(1)],
        quant::F8_E4M3 => &[Bytes(1)],
        quant::Q4_0 | quant::IQ4_NL => &[Halves(1), Words(4)],
        quant::Q4_1 => &[Halves(2), Words(4)],
        quant::Q5_0 => &[Halves(1), Bits, Words(4)],
        quant::Q5_1 => &[Halves(2), Bits, Words(4)],
        quant::Q8_0 => &[Halves(1), Words(8)],
        quant::Q2_K => &[Bytes(16), Words(16), Halves(2)],
        quant::Q3_K => &[Words(8), Words(16), Bytes(12), Halves(1)],
        quant::Q4_K => &[Halves(2), Bytes(12), Words(32)],
        quant::Q5_K => &[Halves(2), Bytes(12), Words(8), Words(32)],
        quant::Q6_K => &[Words(32), Words(16), Bytes(16), Halves(1)],
        quant::IQ4_XS => &[Halves(2), Bytes(4), Words(32)],
        quant::MXFP4 => &[Bytes(1), Words(4)],
        quant::NVFP4 => &[Bytes(4), Words(8)],
        quant::IQ1_S => &[Halves(1), Words(8), Words(4)],
        quant::IQ1_M => &[Words(8), Words(4), Words(2)],
        quant::IQ2_XXS => &[Halves(1), Words(16)],
        quant::IQ2_XS => &[Halves(1), Words(16), Words(2)],
        quant::IQ2_S => &[Halves(1), Words(8), Words(8), Words(2), Words(2)],
        quant::IQ3_XXS => &[Halves(1), Words(16), Words(8)],
        quant::IQ3_S => &[Halves(1), Words(16), Words(2), Words(8), Words(1)],
        quant::TQ1_0 => &[Words(8), Words(4), Words(1), Halves(1)],
        quant::TQ2_0 => &[Words(16), Halves(1)],
        quant::PTQ1_0 => &[Words(4), Words(2), Halves(1), Halves(1)],
        quant::Q1_0 => &[Halves(1), Bits, Bits, Bits, Bits],
        quant::Q2_0 => &[Halves(1), Pairs(4)],
        quant::PQ2_0 => &[Halves(1), Pairs(8)],
        _ => return None,
    })
}

/// The fields of a block.
#[derive(Clone, Copy, Debug)]
enum Fields {
    Listed(&'static [Field]),
    /// Scale, offset and codes of a `quant::grouped` type.
    Grouped([Field; 3]),
}

impl Fields {
    fn of(dtype: DType) -> Option<Fields> {
        let Some(grouped) = Grouped::of(dtype) else { return fields(dtype).map(Fields::Listed) };
        let number = match grouped.scale {
            Number::F16 | Number::Bf16 => Halves,
            Number::F32 => Words,
        };
        let offset = match grouped.offset {
            Offset::None => number(0),
            Offset::Zero => Bytes(1),
            Offset::ZeroNumber | Offset::Bias | Offset::CenteredBias => number(1),
        };
        Some(Fields::Grouped([number(1), offset, Words(grouped.columns / 32 * grouped.code.bits())]))
    }

    fn list(&self) -> &[Field] {
        match self {
            Fields::Listed(fields) => fields,
            Fields::Grouped(fields) => fields,
        }
    }
}

/// The layout of a matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct PackedLayout {
    pub dtype: DType,
    pub cols: usize,
    /// Size of a row in bytes, in the file and within a row panel in memory.
    pub row_bytes: usize,
    pub interleaved: bool,
    block_len: usize,
    block_bytes: usize,
    fields: Fields,
    /// Replaces the fields for rows of whole groups of 16-bit floats.
    small: Option<Packing>,
}

impl PackedLayout {
    /// Returns the packed layout, or an error if `cols` is not a whole number of blocks.
    pub fn packed(dtype: DType, cols: usize) -> Result<PackedLayout> {
        Ok(PackedLayout { interleaved: true, ..PackedLayout::raw(dtype, cols)? })
    }

    /// Returns the file layout.
    pub fn raw(dtype: DType, cols: usize) -> Result<PackedLayout> {
        let Format { block_len, block_bytes, name, .. } = quant::format(dtype)?;
        let fields =
            Fields::of(dtype).ok_or_else(|| Error::unsupported(format!("the CPU has no kernels for {name}")))?;
        let row_bytes = quant::format(dtype)?.row_bytes(cols as u64)?;
        let row_bytes = usize::try_from(row_bytes)
            .ok()
            .filter(|bytes| bytes.checked_mul(PANEL_ROWS).is_some())
            .ok_or_else(|| Error::invalid(format!("a row of {cols} values is too long")))?;
        let small = small::packing(dtype).filter(|_| cols.is_multiple_of(GROUP));
        Ok(PackedLayout { dtype, cols, row_bytes, interleaved: false, block_len, block_bytes, fields, small })
    }

    /// Returns the number of columns that are packed together, and their size in a row panel in bytes.
    fn unit(&self) -> (usize, usize) {
        self.small.map_or((self.block_len, PANEL_ROWS * self.block_bytes), |small| (GROUP, small.bytes))
    }

    /// Returns the size of an interleaved row panel in bytes.
    pub fn panel_bytes(&self) -> usize {
        self.packed_range(0..self.cols).end
    }

    /// Returns the size of `rows` rows in bytes, in whole row panels if they are interleaved.
    pub fn bytes(&self, rows: usize) -> Option<usize> {
        if self.interleaved {
            rows.div_ceil(PANEL_ROWS).checked_mul(self.panel_bytes())
        } else {
            rows.checked_mul(self.row_bytes)
        }
    }

    /// Returns the byte range of some columns, in whole blocks, in an interleaved row panel.
    pub fn packed_range(&self, columns: Range<usize>) -> Range<usize> {
        let (columns_of_unit, bytes) = self.unit();
        columns.start / columns_of_unit * bytes..columns.end / columns_of_unit * bytes
    }

    /// Packs whole rows of the file, sixteen (or fewer at the end) per row panel; `out` must have exactly the packed
    /// size.
    pub fn pack(&self, kernels: &MatmulKernels, raw: &[u8], out: &mut [u8]) {
        if !self.interleaved {
            return out.copy_from_slice(raw);
        }
        let panels = raw.chunks(PANEL_ROWS * self.row_bytes).zip(out.chunks_exact_mut(self.panel_bytes()));
        for (raw, out) in panels {
            self.pack_columns(kernels, raw, 0..self.cols, out);
        }
    }

    /// Interleaves some columns, in whole blocks or groups, of a row panel whose rows are in file layout. `out` holds
    /// sixteen rows of them.
    pub fn pack_columns(&self, kernels: &MatmulKernels, raw: &[u8], columns: Range<usize>, out: &mut [u8]) {
        if let Some(small) = self.small {
            let first = columns.start / GROUP;
            // Missing rows stay zero.
            let mut group = Columns::default();
            for (i, out) in out.chunks_exact_mut(small.bytes).enumerate() {
                for (r, row) in raw.chunks_exact(self.row_bytes).take(PANEL_ROWS).enumerate() {
                    let row = &row[2 * GROUP * (first + i)..][..2 * GROUP];
                    for (pair, rows) in row.as_chunks::<4>().0.iter().zip(&mut group) {
                        rows[r] = u32::from_le_bytes(*pair);
                    }
                }
                kernels.pack_floats(self.dtype, &group, out);
            }
            return;
        }
        let blocks = columns.start / self.block_len..columns.end / self.block_len;
        let rows = || raw.chunks_exact(self.row_bytes).take(PANEL_ROWS).enumerate();
        let is_whole = raw.len() >= PANEL_ROWS * self.row_bytes;
        if !is_whole {
            out.fill(0);
        }
        if let [field] = self.fields.list() {
            // Floats: one run per row.
            let bytes = blocks.start * self.block_bytes..blocks.end * self.block_bytes;
            return rows().for_each(|(r, row)| interleave(*field, &row[bytes.clone()], out, r));
        }
        for (block, out) in blocks.zip(out.chunks_exact_mut(PANEL_ROWS * self.block_bytes)) {
            let mut at = 0;
            for &field in self.fields.list() {
                let (start, bytes) = (block * self.block_bytes + at, field.bytes());
                let out = &mut out[PANEL_ROWS * at..PANEL_ROWS * (at + bytes)];
                let done = match field {
                    Words(_) if is_whole => interleave_words(&raw[start..], self.row_bytes, out),
                    _ => 0,
                };
                if done < bytes {
                    let (from, out) = (start + done..start + bytes, &mut out[PANEL_ROWS * done..]);
                    rows().for_each(|(r, row)| interleave(field, &row[from.clone()], out, r));
                }
                at += bytes;
            }
        }
    }

    /// Decodes row `row` of a matrix to the values of the reference codec; packed 16-bit floats decode to the values
    /// that products use.
    pub fn decode_row(&self, bytes: &[u8], row: usize, out: &mut [f32]) {
        let Ok(format) = quant::format(self.dtype) else { return };
        if !self.interleaved {
            return format.dequantize(&bytes[row * self.row_bytes..(row + 1) * self.row_bytes], out);
        }
        let panel = &bytes[row / PANEL_ROWS * self.panel_bytes()..][..self.panel_bytes()];
        if let Some(small) = self.small {
            for (group, out) in panel.chunks_exact(small.bytes).zip(out.chunks_exact_mut(GROUP)) {
                (small.decode)(group, row % PANEL_ROWS, out);
            }
            return;
        }
        // As many blocks at a time as fit the buffer.
        let mut raw = [0; 1024];
        let raw = &mut raw[..1024 / self.block_bytes * self.block_bytes];
        let values = raw.len() / self.block_bytes * self.block_len;
        for (packed, out) in panel.chunks(PANEL_ROWS * raw.len()).zip(out.chunks_mut(values)) {
            let raw = &mut raw[..packed.len() / PANEL_ROWS];
            for (packed, block) in
                packed.chunks_exact(PANEL_ROWS * self.block_bytes).zip(raw.chunks_exact_mut(self.block_bytes))
            {
                self.unpack_block(packed, row % PANEL_ROWS, block);
            }
            format.dequantize(raw, out);
        }
    }

    /// Writes some rows of a matrix in file layout; packed 16-bit floats have the values that products use.
    pub fn unpack(&self, bytes: &[u8], rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        if !self.interleaved {
            out.copy_from_slice(&bytes[rows.start * self.row_bytes..rows.end * self.row_bytes]);
            return Ok(());
        }
        let (columns, unit) = self.unit();
        let mut left = out;
        for panel in rows.start / PANEL_ROWS..rows.end.div_ceil(PANEL_ROWS) {
            let first = rows.start.max(panel * PANEL_ROWS);
            let n = rows.end.min((panel + 1) * PANEL_ROWS) - first;
            let (out, later) = left.split_at_mut(n * self.row_bytes);
            left = later;
            let packed = &bytes[panel * self.panel_bytes()..][..self.panel_bytes()];
            for (i, packed) in packed.chunks_exact(unit).enumerate() {
                for (r, row) in (first % PANEL_ROWS..).zip(out.chunks_exact_mut(self.row_bytes)) {
                    let Some(small) = self.small else {
                        self.unpack_block(packed, r, &mut row[i * self.block_bytes..][..self.block_bytes]);
                        continue;
                    };
                    let mut values = [0f32; GROUP];
                    (small.decode)(packed, r, &mut values);
                    quant::quantize(self.dtype, &values, &mut row[2 * columns * i..][..2 * columns])?;
                }
            }
        }
        Ok(())
    }

    /// Reads the block of row `r` from a block of sixteen rows.
    fn unpack_block(&self, packed: &[u8], r: usize, block: &mut [u8]) {
        let mut at = 0;
        for &field in self.fields.list() {
            let end = at + field.bytes();
            deinterleave(field, &packed[PANEL_ROWS * at..PANEL_ROWS * end], &mut block[at..end], r);
            at = end;
        }
    }
}

/// Writes the units of row `r` to their locations among sixteen rows.
fn interleave(field: Field, row: &[u8], out: &mut [u8], r: usize) {
    match field {
        Bytes(_) => interleave_units::<1, { PANEL_ROWS }>(row, out, r),
        Halves(_) => interleave_units::<2, { 2 * PANEL_ROWS }>(row, out, r),
        Words(_) => interleave_units::<4, { 4 * PANEL_ROWS }>(row, out, r),
        Bits => {
            for (bits, out) in row.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<{ 4 * PANEL_ROWS }>().0) {
                out[4 * r..4 * r + 4].copy_from_slice(&sort_bits(*bits));
            }
        }
        Pairs(_) => {
            for (pairs, out) in row.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<{ 4 * PANEL_ROWS }>().0) {
                out[4 * r..4 * r + 4].copy_from_slice(&transpose_pairs(*pairs));
            }
        }
    }
}

fn interleave_units<const UNIT: usize, const ROWS: usize>(row: &[u8], out: &mut [u8], r: usize) {
    assert!((r + 1) * UNIT <= ROWS);
    for (unit, out) in row.as_chunks::<UNIT>().0.iter().zip(out.as_chunks_mut::<ROWS>().0) {
        out[r * UNIT..(r + 1) * UNIT].copy_from_slice(unit);
    }
}

/// Reads the units of row `r` from their locations among sixteen rows.
fn deinterleave(field: Field, packed: &[u8], row: &mut [u8], r: usize) {
    match field {
        Bytes(_) => deinterleave_units::<1, { PANEL_ROWS }>(packed, row, r, |unit| unit),
        Halves(_) => deinterleave_units::<2, { 2 * PANEL_ROWS }>(packed, row, r, |unit| unit),
        Words(_) => deinterleave_units::<4, { 4 * PANEL_ROWS }>(packed, row, r, |unit| unit),
        Bits => deinterleave_units::<4, { 4 * PANEL_ROWS }>(packed, row, r, unsort_bits),
        Pairs(_) => deinterleave_units::<4, { 4 * PANEL_ROWS }>(packed, row, r, transpose_pairs),
    }
}

fn deinterleave_units<const UNIT: usize, const ROWS: usize>(
    packed: &[u8],
    row: &mut [u8],
    r: usize,
    unsort: impl Fn([u8; UNIT]) -> [u8; UNIT],
) {
    assert!((r + 1) * UNIT <= ROWS);
    for (unit, packed) in row.as_chunks_mut::<UNIT>().0.iter_mut().zip(packed.as_chunks::<ROWS>().0) {
        unit.copy_from_slice(&packed[r * UNIT..(r + 1) * UNIT]);
        *unit = unsort(*unit);
    }
}

/// Moves bit `4 j + b` to bit `j` of byte `b`.
fn sort_bits(bits: [u8; 4]) -> [u8; 4] {
    let bits = u32::from_le_bytes(bits);
    std::array::from_fn(|b| {
        // Gathers every fourth bit in two steps.
        let mut v = bits >> b & 0x1111_1111;
        v = (v | v >> 3) & 0x0303_0303;
        v = (v | v >> 6) & 0x000f_000f;
        (v | v >> 12) as u8
    })
}

/// Swaps bit pair `i` of byte `k` with pair `k` of byte `i`.
fn transpose_pairs(bytes: [u8; 4]) -> [u8; 4] {
    std::array::from_fn(|i| (0..4).fold(0, |byte, k| byte | (bytes[k] >> (2 * i) & 3) << (2 * k)))
}

/// Moves bit `j` of byte `b` to bit `4 j + b`.
fn unsort_bits(bytes: [u8; 4]) -> [u8; 4] {
    let mut bits = 0u32;
    for (b, byte) in bytes.into_iter().enumerate() {
        for j in 0..8 {
            bits |= u32::from(byte >> j & 1) << (4 * j + b);
        }
    }
    bits.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::Isa;
    use crate::quant::grouped;

    /// Returns the bytes of a counter, hashed by multiplication.
    fn noise(n: usize) -> Vec<u8> {
        (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect()
    }

    #[test]
    fn fields_add_up_to_blocks() {
        for format in formats() {
            if let Some(fields) = Fields::of(format.dtype) {
                assert_eq!(
                    fields.list().iter().map(|f| f.bytes()).sum::<usize>(),
                    format.block_bytes,
                    "{}",
                    format.name
                );
            }
        }
    }

    fn formats() -> impl Iterator<Item = Format> {
        let grouped = grouped::samples().map(|grouped| quant::format(grouped.dtype()).unwrap());
        quant::FORMATS.iter().copied().chain(grouped)
    }

    #[test]
    fn a_packed_row_decodes_as_in_the_file() {
        for format in formats() {
            // Not a whole number of float groups.
            let cols = if format.block_len == 1 { 195 } else { 3 * format.block_len };
            let layout = PackedLayout::packed(format.dtype, cols).unwrap();
            for rows in [1, 15, 16, 17, 40] {
                let raw = noise(rows * layout.row_bytes);
                let mut packed = vec![1; layout.bytes(rows).unwrap()];
                layout.pack(Isa::detect().matmul(), &raw, &mut packed);
                for row in 0..rows {
                    let (mut expected, mut found) = (vec![0f32; cols], vec![1f32; cols]);
                    format.dequantize(&raw[row * layout.row_bytes..][..layout.row_bytes], &mut expected);
                    layout.decode_row(&packed, row, &mut found);
                    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&expected), bits(&found), "{} row {row} of {rows}", format.name);
                }
            }
        }
    }

    #[test]
    fn rows_unpack_to_the_bytes_of_the_file() {
        for format in formats() {
            let layout =
                PackedLayout::packed(format.dtype, if format.block_len == 1 { 195 } else { 2 * format.block_len });
            let layout = layout.unwrap();
            let raw = noise(40 * layout.row_bytes);
            let mut packed = vec![1; layout.bytes(40).unwrap()];
            layout.pack(Isa::detect().matmul(), &raw, &mut packed);
            for rows in [0..40, 3..7, 14..34, 39..40] {
                let mut found = vec![1; rows.len() * layout.row_bytes];
                layout.unpack(&packed, rows.clone(), &mut found).unwrap();
                let expected = &raw[rows.start * layout.row_bytes..rows.end * layout.row_bytes];
                assert!(found == expected, "{} rows {rows:?}", format.name);
            }
        }
    }

    #[test]
    fn columns_pack_as_part_of_the_row() {
        for format in formats() {
            let cols = 4 * format.block_len;
            let layout = PackedLayout::packed(format.dtype, cols).unwrap();
            let raw = noise(PANEL_ROWS * layout.row_bytes);
            let mut whole = vec![0; layout.panel_bytes()];
            layout.pack(Isa::detect().matmul(), &raw, &mut whole);
            let mut part = vec![0; layout.panel_bytes() / 2];
            layout.pack_columns(Isa::detect().matmul(), &raw, format.block_len..3 * format.block_len, &mut part);
            assert_eq!(part, whole[layout.panel_bytes() / 4..][..part.len()], "{}", format.name);
        }
    }

    /// Integers that are not rounded, whatever the others of their group.
    #[test]
    fn a_packed_row_of_16_bit_floats_decodes_as_in_the_file() {
        let cols = 96;
        for dtype in [quant::F16, quant::BF16] {
            let layout = PackedLayout::packed(dtype, cols).unwrap();
            for rows in [1, 15, 16, 17, 40] {
                let values: Vec<f32> = (0..rows * cols).map(|i| (i * 37 % 512) as f32 - 256.0).collect();
                let mut raw = vec![0; rows * layout.row_bytes];
                quant::quantize(dtype, &values, &mut raw).unwrap();
                let mut expected = vec![0f32; values.len()];
                quant::dequantize(dtype, &raw, &mut expected).unwrap();
                let mut packed = vec![1; layout.bytes(rows).unwrap()];
                layout.pack(Isa::detect().matmul(), &raw, &mut packed);
                assert!(packed.len() < rows.next_multiple_of(PANEL_ROWS) * layout.row_bytes);
                for (row, expected) in expected.chunks(cols).enumerate() {
                    let mut found = vec![1f32; cols];
                    layout.decode_row(&packed, row, &mut found);
                    assert_eq!(found, expected);
                }
                let mut unpacked = vec![1; raw.len()];
                layout.unpack(&packed, 0..rows, &mut unpacked).unwrap();
                assert!(unpacked == raw);
                let mut part = vec![1; layout.panel_bytes() / 3];
                let panel = &raw[..raw.len().min(PANEL_ROWS * layout.row_bytes)];
                layout.pack_columns(Isa::detect().matmul(), panel, 32..64, &mut part);
                assert_eq!(part, packed[part.len()..2 * part.len()]);
            }
        }
    }

    #[test]
    fn bits_are_sorted_by_column() {
        for column in 0..32 {
            let sorted = sort_bits((1u32 << column).to_le_bytes());
            assert_eq!(sorted[column % 4], 1 << (column / 4));
            assert_eq!(unsort_bits(sorted), (1u32 << column).to_le_bytes());
        }
        for column in 0..16 {
            let sorted = transpose_pairs((2u32 << (2 * column)).to_le_bytes());
            assert_eq!(sorted[column % 4], 2 << (2 * (column / 4)));
        }
    }
}
