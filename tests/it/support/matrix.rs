//! A matrix in memory.

use std::ops::Range;
use std::sync::Arc;

use realizar::error::{Error, Result};
use realizar::graph::weights::{MatrixSource, SharedBytes};
use realizar::quant;
use realizar::tensor::DType;

pub struct Matrix {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub bytes: Arc<Vec<u8>>,
    pub mapped: bool,
    pub fails_at: usize,
}

impl Matrix {
    pub fn new(dtype: DType, rows: usize, cols: usize, values: &[f32]) -> Matrix {
        let format = quant::format(dtype).unwrap();
        let mut bytes = vec![0; rows * format.row_bytes(cols as u64).unwrap() as usize];
        (format.quantize.unwrap())(values, &mut bytes);
        Matrix { dtype, rows, cols, bytes: Arc::new(bytes), mapped: false, fails_at: usize::MAX }
    }
}

impl MatrixSource for Matrix {
    fn name(&self) -> &str {
        "a matrix"
    }
    fn dtype(&self) -> DType {
        self.dtype
    }
    fn rows(&self) -> usize {
        self.rows
    }
    fn cols(&self) -> usize {
        self.cols
    }
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        if rows.contains(&self.fails_at) {
            return Err(Error::Io { path: "here".into(), what: "broken".into(), system_code: 5 });
        }
        let row = self.bytes.len() / self.rows;
        out.copy_from_slice(&self.bytes[rows.start * row..rows.end * row]);
        Ok(())
    }
    fn mapped(&self) -> Option<SharedBytes> {
        struct Bytes(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Bytes {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        self.mapped.then(|| SharedBytes { owner: Arc::new(Bytes(self.bytes.clone())), range: 0..self.bytes.len() })
    }
}

/// Reorders the rows of heads from adjacent RoPE pairs to pairs half a head apart.
pub fn halves(values: &[f64], head_dim: usize, cols: usize) -> Vec<f64> {
    let row = |i: usize| &values[i * cols..(i + 1) * cols];
    let order = |i: usize| i / head_dim * head_dim + i % head_dim % (head_dim / 2) * 2 + i % head_dim / (head_dim / 2);
    (0..values.len() / cols).flat_map(|i| row(order(i))).copied().collect()
}

pub fn transposed(values: &[f64], cols: usize) -> Vec<f64> {
    (0..cols).flat_map(|c| values.iter().skip(c).step_by(cols)).copied().collect()
}
