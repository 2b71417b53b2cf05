//! The tensors of a model between file and device.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::graph::op::{RopeTable, Vector, Weight};
use crate::quant;
use crate::tensor::DType;

/// A readable matrix. Rows are in `dtype`'s block layout.
pub trait MatrixSource: Sync {
    /// Returns the name of the tensor, for messages.
    fn name(&self) -> &str;
    fn dtype(&self) -> DType;
    fn rows(&self) -> usize;
    fn cols(&self) -> usize;
    /// Reads whole rows; `out` must have `rows.len() * row_bytes` bytes. Callable from several threads at once.
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()>;
    /// Returns all rows, if the file is mapped and its weights are used in place.
    fn mapped(&self) -> Option<SharedBytes> {
        None
    }
}

/// A LoRA product: `out += factor * B (A x)`, added to a matrix product of the program.
#[derive(Clone, Copy, Debug)]
pub struct LowRank {
    pub target: AdapterTarget,
    /// Indices of the factors `[rank, cols]` and `[rows, rank]` in the adapter's list.
    pub a: usize,
    pub b: usize,
    pub factor: f64,
}

/// The matrix product that a LoRA product is added to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AdapterTarget {
    /// `Project` with a matrix.
    Project(Weight),
    /// `Logits`.
    Logits,
}

/// A range of bytes that keeps its owner alive.
#[derive(Clone)]
pub struct SharedBytes {
    pub owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    pub range: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairs {
    /// Rotates dimension `2i` with `2i + 1`.
    Adjacent,
    /// Rotates dimension `i` with `i + n/2` (NeoX).
    Halves,
}

/// RoPE: the angle of pair `i` at position `p` is `p * inv_freq[i]`. With M-RoPE `p` is the pair's component of the
/// position.
#[derive(Clone, Debug)]
pub struct Rope {
    pub pairs: RopePairs,
    /// Inverse frequencies, one per pair of dimensions; `2 * inv_freq.len() <= head_dim`, later dimensions are not
    /// rotated.
    pub inv_freq: Vec<f64>,
    /// M-RoPE component of each pair: 0 time, 1 row, 2 column; empty: time for all.
    pub axes: Vec<u8>,
    /// Scale of sine and cosine (YaRN, LongRoPE), otherwise 1.
    pub magnitude: f32,
    /// Number subtracted from each position, down to 0.
    pub position_offset: u32,
}

/// All weights of a model on a device; each list is indexed by its handles.
#[derive(Default)]
pub struct Weights<'a> {
    pub matrices: Vec<&'a dyn MatrixSource>,
    pub vectors: Vec<Vec<f32>>,
    pub ropes: Vec<Rope>,
}

impl<'a> Weights<'a> {
    /// Returns the given matrices, and everything else.
    pub fn with(&self, matrices: &[Weight]) -> Weights<'a> {
        let matrices = matrices.iter().map(|weight| self.matrices[weight.0 as usize]).collect();
        Weights { matrices, vectors: self.vectors.clone(), ropes: self.ropes.clone() }
    }

    /// Returns the rows and columns of a matrix.
    pub fn shape(&self, weight: Weight) -> Result<(usize, usize)> {
        let matrix = self.matrices.get(weight.0 as usize);
        matrix.map(|m| (m.rows(), m.cols())).ok_or_else(|| Error::invalid(format!("{weight:?} does not exist")))
    }

    /// Returns the number of bytes of the matrices as in their files.
    pub fn bytes(&self) -> Result<u64> {
        self.matrices.iter().try_fold(0u64, |sum, m| {
            let row = quant::format(m.dtype())?.row_bytes(m.cols() as u64)?;
            Ok(sum.saturating_add(row.saturating_mul(m.rows() as u64)))
        })
    }

    /// Returns the values of a vector.
    pub fn vector(&self, vector: Vector) -> Result<&[f32]> {
        let values = self.vectors.get(vector.0 as usize);
        values.map(Vec::as_slice).ok_or_else(|| Error::invalid(format!("{vector:?} does not exist")))
    }

    pub fn rope(&self, table: RopeTable) -> Result<&Rope> {
        self.ropes.get(table.0 as usize).ok_or_else(|| Error::invalid(format!("{table:?} does not exist")))
    }
}

/// Called between pieces of a load with bytes done and total; an error stops the load.
pub type Progress<'a> = dyn FnMut(u64, u64) -> Result<()> + 'a;
