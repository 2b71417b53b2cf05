//! The pieces in which steps copy expert matrices from the host to a device.

use std::ops::Range;

use super::arena::Arena;
use super::weight_layout::PlaneLayout;
use crate::error::Result;
use crate::graph::op::Op;
use crate::graph::program::Program;
use crate::graph::weights::MatrixSource;
use crate::tensor::DType;

/// Target bytes of a piece. `PIECES`: minimum number of pieces of a matrix, so that copies and products overlap.
const PIECE: usize = 32 << 20;
const PIECES: usize = 4;

/// Experts of one matrix of an op: 0 gate (or up, if there is only one), 1 up, 2 down.
#[derive(Clone, Debug)]
pub struct Piece {
    pub matrix: usize,
    pub experts: Range<usize>,
}

pub struct Rows<'a> {
    pub of: &'a dyn MatrixSource,
    pub rows: Range<usize>,
}

impl MatrixSource for Rows<'_> {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn dtype(&self) -> DType {
        self.of.dtype()
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn cols(&self) -> usize {
        self.of.cols()
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.of.read(self.rows.start + rows.start..self.rows.start + rows.end, out)
    }
}

/// Returns the number of bytes of `rows` rows of a matrix on the device.
fn bytes(of: &dyn MatrixSource, rows: usize) -> Result<usize> {
    let mut arena = Arena::default();
    PlaneLayout::new(&Rows { of, rows: 0..rows }, &mut arena)?;
    Ok(arena.bytes())
}

/// Returns the number of bytes of a piece of a matrix with `stack` experts: at least one expert.
pub fn piece_bytes(of: &dyn MatrixSource, stack: usize) -> Result<usize> {
    let [one, all] = [of.rows() / stack.max(1), of.rows()].map(|rows| bytes(of, rows));
    Ok(one?.max(PIECE.min(all? / PIECES)))
}

/// Divides the matrices of an expert op into pieces of `piece` bytes, in the order of multiplication.
pub fn pieces_of(matrices: [Option<&dyn MatrixSource>; 3], stack: usize, piece: usize) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for (matrix, of) in matrices.into_iter().enumerate() {
        let Some(of) = of else { continue };
        let most = (piece / bytes(of, of.rows() / stack.max(1))?.max(1)).max(1);
        let all = (0..stack).step_by(most).map(|first| first..stack.min(first + most));
        pieces.extend(all.map(|experts| Piece { matrix, experts }));
    }
    Ok(pieces)
}

/// Returns the number of bytes of the pieces that steps of a program copy to a device; `None`: no copies.
pub fn piece_of(program: &Program) -> Option<usize> {
    program.ops.iter().find_map(|op| if let Op::OnHost(on_host) = op { Some(on_host.piece) } else { None })
}
