//! GGML's block formats: one file per format family, one row of `FORMATS` per type.
//!
//! Each row has a scalar reference codec. Fast kernels are in the backends and tested against it. Layouts follow the
//! GGUF specification and the structs of `ggml-common.h`; every multi-byte field is little-endian. Dequantization
//! performs the same f32 operations in the same order as the `gguf` Python package, and is bit-identical.

mod block;
mod f8;
mod float;
pub mod fp4;
pub mod grouped;
pub mod iq;
pub mod iq_grids;
mod k;
mod k_encode;
mod legacy;
mod ternary;

use crate::error::{Error, Result};
use crate::tensor::DType;

use block::{Decode, Encode};
use grouped::Grouped;

/// Dequantizes whole blocks.
pub type Decoder = fn(blocks: &[u8], out: &mut [f32]);

/// Quantizes `values` into exactly the blocks that hold them.
pub type Encoder = fn(values: &[f32], blocks: &mut [u8]);

/// How blocks are dequantized.
#[derive(Clone, Copy)]
enum Decoding {
    Blocks(Decoder),
    Grouped(Grouped),
}

/// An element type: values per block, bytes per block, and its reference codec.
#[derive(Clone, Copy)]
pub struct Format {
    pub dtype: DType,
    pub name: &'static str,
    /// Values in a block; a row must be a whole number of blocks.
    pub block_len: usize,
    pub block_bytes: usize,
    decoding: Decoding,
    /// Quantizes whole blocks, the inverse of `dequantize`; `None` without an encoder.
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
pub const NVFP4: DType = DType(40);
pub const Q1_0: DType = DType(41);
pub const Q2_0: DType = DType(42);
pub const PQ2_0: DType = DType(142);
pub const PTQ1_0: DType = DType(143);

/// First number of this library's own types, which GGML does not have and no GGUF file may use.
pub const FIRST_PRIVATE: u32 = 0x1000_0000;
pub const F8_E4M3: DType = DType(FIRST_PRIVATE);

/// All readable types, except those of `grouped`.
pub static FORMATS: &[Format] = &[
    Format::plain(F32, "F32", 4, float::decode_f32, float::encode_f32),
    Format::plain(F16, "F16", 2, float::decode_f16, float::encode_f16),
    Format::plain(BF16, "BF16", 2, float::decode_bf16, float::encode_bf16),
    Format::encoded::<legacy::BlockQ4_0>(Q4_0, "Q4_0"),
    Format::encoded::<legacy::BlockQ4_1>(Q4_1, "Q4_1"),
    Format::encoded::<legacy::BlockQ5_0>(Q5_0, "Q5_0"),
    Format::encoded::<legacy::BlockQ5_1>(Q5_1, "Q5_1"),
    Format::encoded::<legacy::BlockQ8_0>(Q8_0, "Q8_0"),
    Format::decoded::<k::BlockQ2K>(Q2_K, "Q2_K"),
    Format::decoded::<k::BlockQ3K>(Q3_K, "Q3_K"),
    Format::encoded::<k::BlockQ4K>(Q4_K, "Q4_K"),
    Format::encoded::<k::BlockQ5K>(Q5_K, "Q5_K"),
    Format::encoded::<k::BlockQ6K>(Q6_K, "Q6_K"),
    Format::decoded::<iq::BlockIq2Xxs>(IQ2_XXS, "IQ2_XXS"),
    Format::decoded::<iq::BlockIq2Xs>(IQ2_XS, "IQ2_XS"),
    Format::decoded::<iq::BlockIq3Xxs>(IQ3_XXS, "IQ3_XXS"),
    Format::decoded::<iq::BlockIq1S>(IQ1_S, "IQ1_S"),
    Format::decoded::<iq::BlockIq4Nl>(IQ4_NL, "IQ4_NL"),
    Format::decoded::<iq::BlockIq3S>(IQ3_S, "IQ3_S"),
    Format::decoded::<iq::BlockIq2S>(IQ2_S, "IQ2_S"),
    Format::decoded::<iq::BlockIq4Xs>(IQ4_XS, "IQ4_XS"),
    Format::decoded::<iq::BlockIq1M>(IQ1_M, "IQ1_M"),
    Format::decoded::<ternary::BlockTq1_0>(TQ1_0, "TQ1_0"),
    Format::decoded::<ternary::BlockTq2_0>(TQ2_0, "TQ2_0"),
    Format::decoded::<fp4::BlockMxfp4>(MXFP4, "MXFP4"),
    Format::decoded::<fp4::BlockNvfp4>(NVFP4, "NVFP4"),
    Format::decoded::<ternary::BlockQ1_0>(Q1_0, "Q1_0"),
    Format::decoded::<ternary::BlockQ2_0>(Q2_0, "Q2_0"),
    Format::decoded::<ternary::BlockPq2_0>(PQ2_0, "PQ2_0"),
    Format::decoded::<ternary::BlockPtq1_0>(PTQ1_0, "PTQ1_0"),
    Format::decoded::<f8::F8E4m3>(F8_E4M3, "F8_E4M3"),
];

/// Returns the row of a type, or `Unsupported` with its number.
pub fn format(dtype: DType) -> Result<Format> {
    let grouped = Grouped::of(dtype).map(Format::grouped);
    FORMATS
        .iter()
        .find(|f| f.dtype == dtype)
        .copied()
        .or(grouped)
        .ok_or_else(|| Error::unsupported(format!("tensor type {} is not supported", dtype.0)))
}

/// Dequantizes whole blocks of a type. `out` must hold exactly the values of `blocks`.
pub fn dequantize(dtype: DType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    let format = format(dtype)?;
    format.check_lengths(blocks.len(), out.len())?;
    format.dequantize(blocks, out);
    Ok(())
}

/// Quantizes to whole blocks of a type; `Unsupported` without an encoder. `blocks` must have exactly the required
/// length.
pub fn quantize(dtype: DType, values: &[f32], blocks: &mut [u8]) -> Result<()> {
    let format = format(dtype)?;
    let encode = format
        .quantize
        .ok_or_else(|| Error::unsupported(format!("tensor type {} can be read but not written", format.name)))?;
    format.check_lengths(blocks.len(), values.len())?;
    encode(values, blocks);
    Ok(())
}

impl Format {
    /// Returns a type without blocks.
    const fn plain(dtype: DType, name: &'static str, bytes: usize, decode: Decoder, encode: Encoder) -> Format {
        Format {
            dtype,
            name,
            block_len: 1,
            block_bytes: bytes,
            decoding: Decoding::Blocks(decode),
            quantize: Some(encode),
        }
    }

    const fn decoded<B: Decode>(dtype: DType, name: &'static str) -> Format {
        Format {
            dtype,
            name,
            block_len: B::LEN,
            block_bytes: size_of::<B>(),
            decoding: Decoding::Blocks(block::decode_all::<B>),
            quantize: None,
        }
    }

    const fn encoded<B: Encode>(dtype: DType, name: &'static str) -> Format {
        Format { quantize: Some(block::encode_all::<B>), ..Format::decoded::<B>(dtype, name) }
    }

    fn grouped(grouped: Grouped) -> Format {
        Format {
            dtype: grouped.dtype(),
            name: grouped.name(),
            block_len: grouped.columns,
            block_bytes: grouped.block_bytes(),
            decoding: Decoding::Grouped(grouped),
            quantize: None,
        }
    }

    /// Dequantizes whole blocks; `blocks.len() / block_bytes * block_len` must equal `out.len()`.
    pub fn dequantize(&self, blocks: &[u8], out: &mut [f32]) {
        match self.decoding {
            Decoding::Blocks(decode) => decode(blocks, out),
            Decoding::Grouped(grouped) => grouped.decode(blocks, out),
        }
    }

    fn check_lengths(&self, bytes: usize, values: usize) -> Result<()> {
        let needed = self.row_bytes(values as u64)?;
        if needed != bytes as u64 {
            return Err(Error::invalid(format!("{values} values of {} are {needed} bytes, not {bytes}", self.name)));
        }
        Ok(())
    }

    /// Returns the number of bytes of a row of `cols` values; fails if `cols` is not a whole number of blocks, or on
    /// overflow.
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
