//! Block formats of GGML tensors: one file a format family, one row of `FORMATS` a type.
//!
//! Each row carries a scalar reference codec. Fast kernels live in the backends and are tested against it.
//! Layouts follow the GGUF specification and the struct definitions of `ggml-common.h`; every multi-byte field is
//! little-endian. Decoding performs the same f32 operations in the same order as the `gguf` Python package, so that
//! the two agree in every bit. Knows no tensors beyond a run of blocks.

mod block;
mod element_type;
pub mod f8;
pub mod float;
pub mod iq;
pub mod iq_grids;
pub mod k;
mod k_encode;
pub mod legacy;
pub mod mxfp4;
pub mod ternary;

use crate::error::{Error, Result};
use crate::tensor::DType;

pub use block::{BlockBytes, Decode, Encode};
pub use element_type::{
    BF16, Encoder, F8_E4M3, F16, F32, FIRST_PRIVATE, Format, IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS,
    IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TQ1_0, TQ2_0,
};

/// Every type that the library can read.
pub static FORMATS: &[Format] = &[
    float::F32_FORMAT,
    float::F16_FORMAT,
    float::BF16_FORMAT,
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
    Format::decoded::<mxfp4::BlockMxfp4>(MXFP4, "MXFP4"),
    Format::decoded::<f8::F8E4m3>(F8_E4M3, "F8_E4M3"),
];

/// The row of a type, or `Unsupported` naming its number.
pub fn format(dtype: DType) -> Result<&'static Format> {
    FORMATS
        .iter()
        .find(|f| f.dtype == dtype)
        .ok_or_else(|| Error::unsupported(format!("tensor type {} is not supported", dtype.0)))
}

/// Expands whole blocks of a type. `out` must hold exactly the values of `blocks`.
pub fn dequantize(dtype: DType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    let format = format(dtype)?;
    format.check_lengths(blocks.len(), out.len())?;
    (format.dequantize)(blocks, out);
    Ok(())
}

/// Encodes whole blocks of a type, or `Unsupported` where it has no encoder. `blocks` must be exactly as long as
/// `values` encode to.
pub fn quantize(dtype: DType, values: &[f32], blocks: &mut [u8]) -> Result<()> {
    let format = format(dtype)?;
    let encode = format
        .quantize
        .ok_or_else(|| Error::unsupported(format!("tensor type {} can be read but not written", format.name)))?;
    format.check_lengths(blocks.len(), values.len())?;
    encode(values, blocks);
    Ok(())
}
