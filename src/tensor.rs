//! Shape and element type of a tensor, shared by file formats, block codecs and backends.

use crate::error::{Error, Result};

/// GGML's number of an element type; the table in `quant` describes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DType(pub u32);

/// Dimensions, slowest first: a matrix is `[rows, cols]` and its rows are contiguous.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    dims: [u64; Shape::MAX_DIMS],
    n: usize,
}

impl Shape {
    pub const MAX_DIMS: usize = 4;

    /// At most `MAX_DIMS` dimensions whose product fits in 63 bits.
    pub fn new(dims: &[u64]) -> Result<Shape> {
        if dims.len() > Self::MAX_DIMS {
            return Err(Error::invalid(format!("a tensor of {} dimensions, at most 4 are supported", dims.len())));
        }
        let mut shape = Shape { dims: [1; Self::MAX_DIMS], n: dims.len() };
        let mut product = 1u64;
        for (slot, &d) in shape.dims.iter_mut().zip(dims) {
            *slot = d;
            product = product
                .checked_mul(d)
                .filter(|&p| p <= i64::MAX as u64)
                .ok_or_else(|| Error::invalid(format!("the shape {dims:?} has too many elements")))?;
        }
        Ok(shape)
    }

    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.n]
    }

    pub fn n_elements(&self) -> u64 {
        self.dims().iter().product()
    }

    /// Returns the length of the contiguous dimension.
    pub fn cols(&self) -> u64 {
        self.dims().last().copied().unwrap_or(1)
    }

    /// Returns the number of contiguous runs of `cols` elements.
    pub fn rows(&self) -> u64 {
        let d = self.dims();
        d[..d.len().saturating_sub(1)].iter().product()
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.dims().fmt(f)
    }
}
