//! The element types of tensors and caches, in the numbering of the header.

use crate::engine::{self, DType, Format};
use crate::error::{Error, Result};

/// In a field that takes an element type: the default, or none, as the comment of the field says.
///
/// Element types have one numbering wherever they are passed. It is GGML's, but for RZ_TYPE_F32 and the types that GGML
/// does not have, which are numbered from 256. Each field says which types it takes; others are
/// RZ_ERR_INVALID_ARGUMENT, with a message that names the type.
pub const RZ_TYPE_DEFAULT: u32 = 0;
/// Element type: single precision. Its number at GGML, 0, stands for the default here.
pub const RZ_TYPE_F32: u32 = 256;
/// Element type: half precision.
pub const RZ_TYPE_F16: u32 = 1;
/// Element type: bfloat16.
pub const RZ_TYPE_BF16: u32 = 30;
/// Element type: 8-bit floats with 4 bits of exponent (OCP), which GGML does not have.
pub const RZ_TYPE_F8_E4M3: u32 = 257;
/// Element type: blocks of 32 values with 4 bits each and a scale, 4.5 bits a value.
pub const RZ_TYPE_Q4_0: u32 = 2;
/// Element type: blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits a value.
pub const RZ_TYPE_Q4_1: u32 = 3;
/// Element type: blocks of 32 values with 5 bits each and a scale, 5.5 bits a value.
pub const RZ_TYPE_Q5_0: u32 = 6;
/// Element type: blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits a value.
pub const RZ_TYPE_Q5_1: u32 = 7;
/// Element type: blocks of 32 values with 8 bits each and a scale, 8.5 bits a value.
pub const RZ_TYPE_Q8_0: u32 = 8;
/// Element type: K-quants: blocks of 256 values in groups with scales and minima; the digit is the bits of a value.
pub const RZ_TYPE_Q2_K: u32 = 10;
pub const RZ_TYPE_Q3_K: u32 = 11;
pub const RZ_TYPE_Q4_K: u32 = 12;
pub const RZ_TYPE_Q5_K: u32 = 13;
pub const RZ_TYPE_Q6_K: u32 = 14;
/// Element type: I-quants: blocks of 256 values as entries of fixed grids; the digit is about the bits of a value.
pub const RZ_TYPE_IQ1_S: u32 = 19;
pub const RZ_TYPE_IQ1_M: u32 = 29;
pub const RZ_TYPE_IQ2_XXS: u32 = 16;
pub const RZ_TYPE_IQ2_XS: u32 = 17;
pub const RZ_TYPE_IQ2_S: u32 = 22;
pub const RZ_TYPE_IQ3_XXS: u32 = 18;
pub const RZ_TYPE_IQ3_S: u32 = 21;
/// Element type: blocks of 32 values as entries of a table of 16 numbers, with a scale.
pub const RZ_TYPE_IQ4_NL: u32 = 20;
/// Element type: the same in blocks of 256 values.
pub const RZ_TYPE_IQ4_XS: u32 = 23;
/// Element type: ternary values, blocks of 256.
pub const RZ_TYPE_TQ1_0: u32 = 34;
pub const RZ_TYPE_TQ2_0: u32 = 35;
/// Element type: 4-bit floats in blocks of 32 with a power of two (OCP microscaling).
pub const RZ_TYPE_MXFP4: u32 = 39;
/// Element type: 4-bit floats in blocks of 16 with a scale of 8 bits.
pub const RZ_TYPE_NVFP4: u32 = 40;
/// Element type: blocks of 128 signs with a scale.
pub const RZ_TYPE_Q1_0: u32 = 41;
/// Element type: blocks of 64 values with 2 bits each and a scale.
pub const RZ_TYPE_Q2_0: u32 = 42;
/// Element type: ternary values in blocks with a scale, as PrismML's files have them.
pub const RZ_TYPE_PQ2_0: u32 = 142;
pub const RZ_TYPE_PTQ1_0: u32 = 143;

/// The types that the values of a cache may have.
const OF_CACHES: [DType; 4] = [engine::F16, engine::F32, engine::Q8_0, engine::Q4_0];

/// The type with a number, `None` for RZ_TYPE_DEFAULT. `name`: the field or parameter.
fn format(number: u32, name: &str) -> Result<Option<Format>> {
    let unknown = || Error::invalid(format!("{name} is {number}; it must be a number of rz_element_type"));
    let dtype = match number {
        RZ_TYPE_DEFAULT => return Ok(None),
        RZ_TYPE_F32 => engine::F32,
        RZ_TYPE_F8_E4M3 => engine::F8_E4M3,
        1..RZ_TYPE_F32 => DType(number),
        _ => return Err(unknown()),
    };
    engine::format(dtype).map(Some).map_err(|_| unknown())
}

/// The type of the keys or values of a cache; `None`: the default.
pub(super) fn cache_type(number: u32, name: &str) -> Result<Option<DType>> {
    let Some(format) = format(number, name)? else { return Ok(None) };
    if !OF_CACHES.contains(&format.dtype) {
        let types = "RZ_TYPE_F16, RZ_TYPE_F32, RZ_TYPE_Q8_0 or RZ_TYPE_Q4_0";
        return Err(Error::invalid(format!("{name} is RZ_TYPE_{}; it must be {types}", format.name)));
    }
    Ok(Some(format.dtype))
}

/// The type that matrices of floats are converted to; `None`: they keep theirs.
pub(super) fn target_type(number: u32, name: &str) -> Result<Option<DType>> {
    let Some(format) = format(number, name)? else { return Ok(None) };
    if format.quantize.is_none() {
        let condition = "it must be a type that the library can write";
        return Err(Error::invalid(format!("{name} is RZ_TYPE_{}; {condition}", format.name)));
    }
    Ok(Some(format.dtype))
}

/// The type of weights that a caller hands over.
pub(super) fn named_type(number: u32, name: &str) -> Result<DType> {
    let default = || Error::invalid(format!("{name} is RZ_TYPE_DEFAULT; it must name the type of the weights"));
    format(number, name)?.map(|format| format.dtype).ok_or_else(default)
}
