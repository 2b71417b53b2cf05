//! An element type of tensors: its number, its sizes, and its reference codec. Knows no particular codec; the table of all
//! types is in `mod.rs`.

use super::block::{Decode, Encode, decode_all, encode_all};
use crate::error::{Error, Result};
use crate::tensor::DType;

/// Encodes `values` into exactly the blocks that hold them.
pub type Encoder = fn(values: &[f32], blocks: &mut [u8]);

/// One element type: how many values a block holds, its bytes, and its reference codec.
pub struct Format {
    pub dtype: DType,
    pub name: &'static str,
    /// Values in a block; a row is a whole number of blocks.
    pub block_len: usize,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Expands whole blocks: `blocks.len() / block_bytes * block_len == out.len()`.
    pub dequantize: fn(blocks: &[u8], out: &mut [f32]),
    /// Encodes whole blocks, the inverse shape of `dequantize`; `None` where no encoder exists.
    pub quantize: Option<Encoder>,
}

pub const F32: DType = DType(0);
pub const F16: DType = DType(1);
pub const Q4_0: DType = DType(2);
pub const Q4_1: DType = DType(3);
pub const Q5_0: DType = DType(6);
pub const Q5_1: DType = DType(7);
pub const Q8_0: DType = DType(8);
pub const Q2_K: DType = DType(10);
pub const Q3_K: DType = DType(11);
pub const Q4_K: DType = DType(12);
pub const Q5_K: DType = DType(13);
pub const Q6_K: DType = DType(14);
pub const IQ2_XXS: DType = DType(16);
pub const IQ2_XS: DType = DType(17);
pub const IQ3_XXS: DType = DType(18);
pub const IQ1_S: DType = DType(19);
pub const IQ4_NL: DType = DType(20);
pub const IQ3_S: DType = DType(21);
pub const IQ2_S: DType = DType(22);
pub const IQ4_XS: DType = DType(23);
pub const IQ1_M: DType = DType(29);
pub const BF16: DType = DType(30);
pub const TQ1_0: DType = DType(34);
pub const TQ2_0: DType = DType(35);
pub const MXFP4: DType = DType(39);

/// First number of this library's own types, which GGML does not have and no GGUF file may name.
pub const FIRST_PRIVATE: u32 = 0x1000_0000;
pub const F8_E4M3: DType = DType(FIRST_PRIVATE);

impl Format {
    pub(super) const fn decoded<B: Decode>(dtype: DType, name: &'static str) -> Format {
        Format {
            dtype,
            name,
            block_len: B::LEN,
            block_bytes: size_of::<B>(),
            dequantize: decode_all::<B>,
            quantize: None,
        }
    }

    pub(super) const fn encoded<B: Encode>(dtype: DType, name: &'static str) -> Format {
        Format { quantize: Some(encode_all::<B>), ..Format::decoded::<B>(dtype, name) }
    }

    pub(super) fn check_lengths(&self, bytes: usize, values: usize) -> Result<()> {
        let needed = self.row_bytes(values as u64)?;
        if needed != bytes as u64 {
            return Err(Error::invalid(format!("{values} values of {} are {needed} bytes, not {bytes}", self.name)));
        }
        Ok(())
    }

    /// Bytes of a row of `cols` values, or an error when `cols` is no whole number of blocks or overflows.
    pub fn row_bytes(&self, cols: u64) -> Result<u64> {
        if !cols.is_multiple_of(self.block_len as u64) {
            return Err(Error::invalid(format!(
                "a row of {cols} values is no multiple of the {} values in a {} block",
                self.block_len, self.name
            )));
        }
        (cols / self.block_len as u64)
            .checked_mul(self.block_bytes as u64)
            .ok_or_else(|| Error::invalid(format!("a row of {cols} values is too long")))
    }
}
