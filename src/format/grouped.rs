//! Matrices of codes whose scales and offsets are other tensors: the orders of codes in files, and reads that assemble
//! rows into blocks of `quant::grouped`, MXFP4 or NVFP4. No value is rounded.

use std::ops::Range;
use std::sync::Arc;

use super::file::{FileOffset, InputFile, read};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::quant::grouped::{Grouped, Number, pack};

/// The blocks of the assembled matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Blocks {
    Grouped(Grouped),
    Mxfp4,
    Nvfp4,
}

impl Blocks {
    /// Returns the columns and bytes of a block, and columns per scale.
    fn sizes(self) -> [usize; 3] {
        match self {
            Blocks::Grouped(grouped) => [grouped.columns, grouped.block_bytes(), grouped.columns],
            Blocks::Mxfp4 => [32, 17, 32],
            Blocks::Nvfp4 => [64, 36, 16],
        }
    }
}

/// A matrix of codes, `[rows, cols]`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct GroupedMatrix {
    pub blocks: Blocks,
    pub rows: u64,
    pub cols: u64,
    pub codes: Codes,
    pub scales: Numbers,
    pub offsets: Option<Offsets>,
    /// The input of each column if groups are not contiguous. Inputs must be below 2^24.
    pub order: Option<Arc<[u32]>>,
}

/// A matrix read as F32, because no adjacent values in a row share a scale. Value `i`, row by row, is `(code - zero) *
/// scale`, with number `i % period` of the zeros and scales.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SpreadMatrix {
    pub cols: u64,
    pub codes: Codes,
    pub period: u64,
    pub scales: Numbers,
    pub zeros: Numbers,
}

/// The offsets of groups.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Offsets {
    Numbers(Numbers),
    /// Codes of their own, a column per `columns` columns of the matrix.
    Codes {
        codes: Codes,
        columns: u64,
        /// Number of columns of codes.
        groups: u64,
    },
    /// The same for all.
    Same(u8),
}

/// Codes `[rows, cols]` and their order in a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Codes {
    pub place: FileOffset,
    pub bits: u32,
    pub order: Order,
    /// Bits to invert, such as the sign bit; next, the number added after that.
    pub xor: u8,
    pub plus: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Order {
    Stream(Stream),
    /// A matrix of `width` columns whose rows are divided into parts of `height` rows, which share the bits of units of
    /// `unit` bytes: part `p` begins at bit `first + step * p`. Within a part, codes are row by row.
    Parts {
        width: u64,
        height: u64,
        first: i64,
        step: i64,
        unit: u64,
    },
}

/// Bit streams, the first code in the lowest bits of the first unit, one stream per row or column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stream {
    /// True if a stream is a column.
    pub of_column: bool,
    /// Bytes of a unit.
    pub unit: u64,
    /// Distance in units within a stream, and between streams; one of them is 1.
    pub strides: [u64; 2],
    /// Codes per unit if its last bits are empty; 0 if codes cross units.
    pub per_unit: u64,
    pub nibbles: Nibbles,
}

/// The order of 4-bit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nibbles {
    Plain,
    /// The first of two in the high nibble.
    HighFirst,
    /// AutoAWQ's order of the eight in a word.
    Awq,
}

impl Stream {
    /// Returns the rows of bytes, each padded to `row_bytes`.
    pub fn rows(row_bytes: u64) -> Stream {
        Stream { of_column: false, unit: 1, strides: [1, row_bytes], per_unit: 0, nibbles: Nibbles::Plain }
    }

    /// Unit and bit of code `i` of a stream.
    fn at(&self, i: u64, bits: u64) -> (u64, u64) {
        let i = match self.nibbles {
            Nibbles::Plain => i,
            Nibbles::HighFirst => i ^ 1,
            // Columns 0 2 4 6 1 3 5 7 are stored in this order.
            Nibbles::Awq => i & !7 | (i & 1) << 2 | (i & 7) >> 1,
        };
        let unit_bits = 8 * self.unit;
        match i.checked_div(self.per_unit) {
            Some(unit) => (unit, i % self.per_unit * bits),
            None => (i * bits / unit_bits, i * bits % unit_bits),
        }
    }
}

/// The tensor of a matrix's scales or offsets. Each applies to a `block` of rows and columns.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Numbers {
    pub name: String,
    pub place: FileOffset,
    pub kind: NumberKind,
    pub block: [u64; 2],
    /// Distance between rows, and between columns, of blocks.
    pub strides: [u64; 2],
}

/// The type of a stored number, and its conversion.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum NumberKind {
    /// Unchanged.
    Same(Number),
    /// An exponent, converted to F32.
    E8m0,
    /// A byte copied to the block: E8M0 of MXFP4, E4M3 of NVFP4.
    Byte,
    /// F32 divided by 127.
    Of127,
    /// F32, a divisor.
    Inverse,
    /// BF16, a divisor, converted to F32.
    InverseBf16,
    /// Byte indices into a table, times a scale per 256 of them, plus an offset.
    Nested(Arc<Nested>),
}

#[derive(PartialEq, Debug)]
pub(super) struct Nested {
    pub table: Vec<f32>,
    pub factors: Vec<f32>,
    pub block: u64,
    pub plus: f32,
}

impl NumberKind {
    fn stored_bytes(&self) -> usize {
        match self {
            NumberKind::Same(number) => number.bytes(),
            NumberKind::E8m0 | NumberKind::Byte | NumberKind::Nested(_) => 1,
            NumberKind::Of127 | NumberKind::Inverse => 4,
            NumberKind::InverseBf16 => 2,
        }
    }

    /// Returns the converted type.
    pub fn number(&self) -> Number {
        match self {
            NumberKind::Same(number) => *number,
            _ => Number::F32,
        }
    }
}

/// Some numbers of a tensor.
struct Fetched<'a> {
    numbers: &'a Numbers,
    raw: Vec<u8>,
    first_row: u64,
    /// Distance between rows, and between columns, of blocks in `raw`.
    strides: [u64; 2],
}

/// Reads runs of bytes of a file: `count` runs of `run` units, `stride` units apart.
fn read_runs(
    files: &[InputFile],
    place: FileOffset,
    unit: u64,
    first: u64,
    [run, stride, count]: [u64; 3],
) -> Result<Vec<u8>> {
    let too_large = || Error::invalid("rows of a matrix that are too large");
    let bytes = run.checked_mul(count).and_then(|n| n.checked_mul(unit)).ok_or_else(too_large)?;
    let mut out = try_filled("packed weights", usize::try_from(bytes).map_err(|_| too_large())?, 0u8)?;
    if run == stride || count == 1 {
        read(files, place, first * unit, &mut out)?;
        return Ok(out);
    }
    let run_bytes = usize::try_from((run * unit).max(1)).map_err(|_| too_large())?;
    for (out, i) in out.chunks_mut(run_bytes).zip(0..) {
        read(files, place, (first + i * stride) * unit, out)?;
    }
    Ok(out)
}

impl Numbers {
    /// Reads the numbers of some rows, of all `cols` columns.
    fn fetch(&self, files: &[InputFile], rows: Range<u64>, cols: u64) -> Result<Fetched<'_>> {
        let [block_rows, block_cols] = self.block.map(|n| n.max(1));
        let first_row = rows.start / block_rows;
        let n_rows = rows.end.div_ceil(block_rows) - first_row;
        let n_cols = cols.div_ceil(block_cols);
        let unit = self.kind.stored_bytes() as u64;
        let [down, across] = self.strides;
        let first = first_row * down;
        // Column by column if columns are contiguous, otherwise row by row.
        let (strides, runs) = match down == 1 && n_cols > 1 {
            true => ([1, n_rows], [n_rows, across, n_cols]),
            false => ([n_cols, 1], [n_cols, down.max(n_cols), n_rows]),
        };
        let raw = read_runs(files, self.place, unit, first, runs)?;
        Ok(Fetched { numbers: self, raw, first_row, strides })
    }
}

impl Fetched<'_> {
    /// Returns the number for a column of the first row.
    fn number(&self, files: &[InputFile], col: u64) -> Result<f32> {
        let (number, mut bytes) = (self.numbers.kind.number(), [0; 4]);
        let used = bytes.get_mut(..number.bytes()).unwrap_or_default();
        self.put(files, 0, col, used)?;
        Ok(number.read(used))
    }

    /// Writes the number for a place in the matrix, in the form that the block needs.
    fn put(&self, path_of: &[InputFile], row: u64, col: u64, out: &mut [u8]) -> Result<()> {
        let Numbers { name, kind, block, strides, place, .. } = self.numbers;
        let [r, c] = [row / block[0].max(1), col / block[1].max(1)];
        let size = kind.stored_bytes();
        let at = (r - self.first_row) * self.strides[0] + c * self.strides[1];
        let start = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(size);
        let raw = self.raw.get(start..start.saturating_add(size)).unwrap_or_default();
        let index = r * strides[0] + c * strides[1];
        let refuse = |value: &dyn std::fmt::Display| {
            let path = path_of.get(place.file).map(|file| file.path.as_path()).unwrap_or_else(|| "".as_ref());
            Err(Error::format(path, format!("the tensor {name:?} holds {value} at {index}")))
        };
        let value = match (kind, raw) {
            (NumberKind::Byte, &[byte]) => {
                // An NVFP4 block has four E4M3 scales, an MXFP4 block one E8M0 scale.
                out.fill(byte);
                return Ok(());
            }
            (NumberKind::Same(number), _) => {
                let value = if raw.len() == out.len() { number.read(raw) } else { f32::NAN };
                if !value.is_finite() {
                    return refuse(&value);
                }
                out.copy_from_slice(raw);
                return Ok(());
            }
            (NumberKind::E8m0, &[255]) => f32::NAN,
            (NumberKind::E8m0, &[byte]) => e8m0(byte),
            (NumberKind::Of127, _) => Number::F32.read(raw) / 127.0,
            (NumberKind::Inverse, _) => 1.0 / Number::F32.read(raw),
            (NumberKind::InverseBf16, _) => 1.0 / Number::Bf16.read(raw),
            (NumberKind::Nested(nested), &[byte]) => {
                let factor = usize::try_from(index / nested.block.max(1)).ok().and_then(|i| nested.factors.get(i));
                let value = nested.table.get(usize::from(byte)).zip(factor).map(|(value, factor)| value * factor);
                value.unwrap_or(f32::NAN) + nested.plus
            }
            _ => f32::NAN,
        };
        let bytes = value.to_le_bytes();
        if !value.is_finite() || out.len() != bytes.len() {
            return refuse(&value);
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }
}

/// Returns the power of two of a biased exponent.
pub(super) fn e8m0(byte: u8) -> f32 {
    f32::from_bits(if byte == 0 { 0x0040_0000 } else { u32::from(byte) << 23 })
}

impl Codes {
    /// Reads the codes of some rows.
    fn fetch(&self, files: &[InputFile], rows: Range<u64>, cols: u64) -> Result<Vec<u8>> {
        let too_large = || Error::invalid("rows of a matrix that are too large");
        let n = (rows.end - rows.start).checked_mul(cols).and_then(|n| usize::try_from(n).ok());
        let mut out = try_filled("codes", n.ok_or_else(too_large)?, 0u8)?;
        match self.order {
            Order::Stream(stream) => self.read_stream(files, stream, rows, cols, &mut out)?,
            Order::Parts { .. } => self.read_parts(files, rows, cols, &mut out)?,
        }
        let mask = u8::try_from((1u16 << self.bits.min(8)) - 1).unwrap_or(u8::MAX);
        for code in &mut out {
            *code = (*code ^ self.xor).wrapping_add(self.plus) & mask;
        }
        Ok(out)
    }

    fn read_stream(
        &self,
        files: &[InputFile],
        stream: Stream,
        rows: Range<u64>,
        cols: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let bits = u64::from(self.bits);
        let (along, lines) = if stream.of_column { (rows.clone(), 0..cols) } else { (0..cols, rows.clone()) };
        if along.is_empty() || lines.is_empty() {
            return Ok(());
        }
        let first_unit = stream.at(along.start, bits).0;
        let (last_unit, bit) = stream.at(along.end - 1, bits);
        let end_unit = last_unit + 1 + u64::from(bit + bits > 8 * stream.unit);
        let n_units = end_unit - first_unit;
        let n_lines = lines.end - lines.start;
        let [step, line_step] = stream.strides;
        let start = first_unit * step + lines.start * line_step;
        let (local, runs) = match line_step == 1 && n_units > 1 {
            true => ([n_lines, 1], [n_lines, step, n_units]),
            false => ([1, n_units], [n_units, line_step, n_lines]),
        };
        let raw = read_runs(files, self.place, stream.unit, start, runs)?;
        let load = |at: u64| -> u64 {
            let start = usize::try_from(at * stream.unit).unwrap_or(usize::MAX);
            match (stream.unit, raw.get(start..).unwrap_or_default()) {
                (1, [a, ..]) => u64::from(*a),
                (4, [a, b, c, d, ..]) => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
                _ => 0,
            }
        };
        let mut places = try_vec("places of codes", usize::try_from(along.end - along.start).unwrap_or(0))?;
        for i in along {
            let (unit, bit) = stream.at(i, bits);
            let crosses = bit + bits > 8 * stream.unit;
            places.push(((unit - first_unit) * local[0], bit, crosses));
        }
        let code = |line: u64, &(unit, bit, crosses): &(u64, u64, bool)| -> u8 {
            let at = unit + line * local[1];
            let mut value = load(at);
            if crosses {
                value |= load(at + local[0]) << (8 * stream.unit);
            }
            u8::try_from(value >> bit & ((1 << bits) - 1)).unwrap_or(0)
        };
        let width = usize::try_from(cols).unwrap_or(usize::MAX).max(1);
        if stream.of_column {
            for (out, place) in out.chunks_mut(width).zip(&places) {
                out.iter_mut().zip(0..).for_each(|(out, line)| *out = code(line, place));
            }
        } else {
            for (out, line) in out.chunks_mut(width).zip(0..) {
                out.iter_mut().zip(&places).for_each(|(out, place)| *out = code(line, place));
            }
        }
        Ok(())
    }

    fn read_parts(&self, files: &[InputFile], rows: Range<u64>, cols: u64, out: &mut [u8]) -> Result<()> {
        let Order::Parts { width, height, first, step, unit } = self.order else { return Ok(()) };
        let part_codes = (width * height).max(1);
        let (mut at, mut rest) = (rows.start * cols, out);
        // Adjacent codes belong to one part.
        while !rest.is_empty() {
            let (part, place) = (at / part_codes, at % part_codes);
            let codes = usize::try_from(part_codes - place).unwrap_or(usize::MAX).min(rest.len());
            let n = codes as u64;
            let raw = read_runs(files, self.place, unit, place, [n, n, 1])?;
            let shift = u32::try_from(first + step * i64::try_from(part).unwrap_or(0)).unwrap_or(0);
            let (now, later) = rest.split_at_mut(codes);
            for (code, bytes) in now.iter_mut().zip(raw.chunks_exact(usize::try_from(unit).unwrap_or(1).max(1))) {
                let value = bytes.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
                let masked = value.checked_shr(shift).unwrap_or(0) & ((1 << self.bits) - 1);
                *code = u8::try_from(masked).unwrap_or(0);
            }
            (rest, at) = (later, at + n);
        }
        Ok(())
    }
}

/// Returns the rows of a read from byte `from` on; fails for partial rows.
fn whole_rows(name: &str, row_bytes: u64, from: u64, out: &[u8]) -> Result<Range<u64>> {
    let len = out.len() as u64;
    if row_bytes == 0 || !from.is_multiple_of(row_bytes) || !len.is_multiple_of(row_bytes) {
        return Err(Error::invalid(format!("the tensor {name:?} can be read in whole rows only")));
    }
    Ok(from / row_bytes..(from + len) / row_bytes)
}

impl SpreadMatrix {
    /// Fills `out` with whole rows from byte `from` on.
    pub fn read(&self, files: &[InputFile], name: &str, from: u64, out: &mut [u8]) -> Result<()> {
        let rows = whole_rows(name, 4 * self.cols, from, out)?;
        let first = rows.start * self.cols;
        let codes = self.codes.fetch(files, rows, self.cols)?;
        let [scales, zeros] = [&self.scales, &self.zeros].map(|numbers| numbers.fetch(files, 0..1, self.period));
        let (scales, zeros) = (scales?, zeros?);
        for ((code, out), at) in codes.iter().zip(out.as_chunks_mut().0).zip(first..) {
            let at = at % self.period.max(1);
            let (scale, zero) = (scales.number(files, at)?, zeros.number(files, at)?);
            *out = ((f32::from(*code) - zero) * scale).to_le_bytes();
        }
        Ok(())
    }
}

impl GroupedMatrix {
    /// Returns the number of bytes of all rows as blocks.
    pub fn bytes(&self) -> Option<u64> {
        let [columns, bytes, _] = self.blocks.sizes();
        (self.cols / columns as u64).checked_mul(bytes as u64)?.checked_mul(self.rows)
    }

    /// Fills `out` with whole rows from byte `from` on.
    pub fn read(&self, files: &[InputFile], name: &str, from: u64, out: &mut [u8]) -> Result<()> {
        let [columns, block_bytes, _] = self.blocks.sizes();
        let cols = self.cols;
        let row_bytes = cols / columns as u64 * block_bytes as u64;
        let rows = whole_rows(name, row_bytes, from, out)?;
        let mut codes = self.codes.fetch(files, rows.clone(), cols)?;
        self.sort(&mut codes)?;
        let scales = self.scales.fetch(files, rows.clone(), cols)?;
        let (mut numbers, mut zeros) = (None, None);
        match &self.offsets {
            Some(Offsets::Numbers(offsets)) => numbers = Some(offsets.fetch(files, rows.clone(), cols)?),
            Some(Offsets::Codes { codes, columns, groups }) => {
                zeros = Some((codes.fetch(files, rows.clone(), *groups)?, *columns, *groups));
            }
            Some(Offsets::Same(_)) | None => {}
        }
        let per_row = usize::try_from(cols).unwrap_or(usize::MAX).max(1);
        let row_len = usize::try_from(row_bytes).unwrap_or(usize::MAX).max(1);
        for ((codes, out), row) in codes.chunks_exact(per_row).zip(out.chunks_exact_mut(row_len)).zip(rows.clone()) {
            let blocks = codes.chunks_exact(columns).zip(out.chunks_exact_mut(block_bytes));
            for ((codes, block), i) in blocks.zip(0u64..) {
                let col = i * columns as u64;
                let Blocks::Grouped(grouped) = self.blocks else {
                    self.put_floats(files, &scales, [row, col], codes, block)?;
                    continue;
                };
                let (header, chunks) = block.split_at_mut(grouped.scale.bytes() + grouped.offset_bytes());
                let (scale, offset) = header.split_at_mut(grouped.scale.bytes());
                scales.put(files, row, col, scale)?;
                match (&numbers, &zeros, &self.offsets) {
                    (Some(numbers), ..) => numbers.put(files, row, col, offset)?,
                    (None, Some((zeros, columns, groups)), _) => {
                        let at = (row - rows.start) * groups + col / columns.max(&1);
                        let zero = usize::try_from(at).ok().and_then(|at| zeros.get(at)).copied().unwrap_or(0);
                        offset.fill(zero);
                    }
                    (None, None, Some(Offsets::Same(zero))) => offset.fill(*zero),
                    (None, None, Some(Offsets::Numbers(_) | Offsets::Codes { .. }) | None) => {}
                }
                let chunks = chunks.chunks_exact_mut(grouped.chunk_bytes());
                for (codes, out) in codes.as_chunks::<32>().0.iter().zip(chunks) {
                    pack(codes, grouped.code.bits(), out);
                }
            }
        }
        Ok(())
    }

    /// Puts the codes of rows in the order of the columns.
    fn sort(&self, codes: &mut [u8]) -> Result<()> {
        let Some(order) = &self.order else { return Ok(()) };
        let mut inputs = try_filled("codes of a row", order.len(), 0u8)?;
        for row in codes.chunks_exact_mut(order.len().max(1)) {
            inputs.copy_from_slice(row);
            row.iter_mut().zip(order.iter()).for_each(|(code, input)| {
                *code = usize::try_from(*input).ok().and_then(|input| inputs.get(input)).copied().unwrap_or(0);
            });
        }
        Ok(())
    }

    /// Writes the MXFP4 or NVFP4 block at a row and column: scales, then the first half of each run of columns in low
    /// nibbles.
    fn put_floats(
        &self,
        files: &[InputFile],
        scales: &Fetched,
        [row, col]: [u64; 2],
        codes: &[u8],
        block: &mut [u8],
    ) -> Result<()> {
        let [.., group] = self.blocks.sizes();
        let group = group as u64;
        let is_nvfp4 = self.blocks == Blocks::Nvfp4;
        let (header, quants) = block.split_at_mut(if is_nvfp4 { 4 } else { 1 });
        for (scale, i) in header.iter_mut().zip(0u64..) {
            let col = col + i * group;
            scales.put(files, row, col, std::slice::from_mut(scale))?;
            let refused = if is_nvfp4 { *scale >= 0x7f } else { *scale == 0xff };
            if refused {
                let Numbers { name, block, strides, place, .. } = &self.scales;
                let index = row / block[0].max(1) * strides[0] + col / block[1].max(1) * strides[1];
                let path = files.get(place.file).map(|file| file.path.as_path()).unwrap_or_else(|| "".as_ref());
                let what = format!("the tensor {name:?} holds {scale:#04x} at {index}, which is no scale");
                return Err(Error::format(path, what));
            }
        }
        let half = usize::try_from(group / 2).unwrap_or(1).max(1);
        for (codes, out) in codes.chunks_exact(2 * half).zip(quants.chunks_exact_mut(half)) {
            let (low, high) = codes.split_at(half);
            for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
                *out = low & 15 | high << 4;
            }
        }
        Ok(())
    }
}
