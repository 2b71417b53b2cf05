//! The element types of tensors and caches, in the numbering of the header.

use crate::engine::{self, DType, Format};
use crate::error::{Error, Result};

/// In a field that takes an element type: the default, or none, as the comment of the field says.
///
/// All element types share one numbering. It is GGML's, except for RZ_TYPE_F32 and for types that GGML does not have,
/// which are numbered from 256; RZ_TYPE_PQ2_0 and RZ_TYPE_PTQ1_0 have PrismML's numbers. The comment of each field says
/// which types it takes; any other type fails with RZ_ERR_INVALID_ARGUMENT, and the message names the type.
pub const RZ_TYPE_DEFAULT: u32 = 0;
/// Element type: single precision. GGML's number for it, 0, is RZ_TYPE_DEFAULT here.
pub const RZ_TYPE_F32: u32 = 256;
/// Element type: half precision.
pub const RZ_TYPE_F16: u32 = 1;
/// Element type: bfloat16.
pub const RZ_TYPE_BF16: u32 = 30;
/// Element type: 8-bit floats E4M3 (OCP); GGML has no such type.
pub const RZ_TYPE_F8_E4M3: u32 = 257;
/// Element type: blocks of 32 values with 4 bits each and a scale, 4.5 bits per value.
pub const RZ_TYPE_Q4_0: u32 = 2;
/// Element type: blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value.
pub const RZ_TYPE_Q4_1: u32 = 3;
/// Element type: blocks of 32 values with 5 bits each and a scale, 5.5 bits per value.
pub const RZ_TYPE_Q5_0: u32 = 6;
/// Element type: blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value.
pub const RZ_TYPE_Q5_1: u32 = 7;
/// Element type: blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
pub const RZ_TYPE_Q8_0: u32 = 8;
/// Element type: K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a
/// minimum; the digit is the number of bits per value.
pub const RZ_TYPE_Q2_K: u32 = 10;
pub const RZ_TYPE_Q3_K: u32 = 11;
pub const RZ_TYPE_Q4_K: u32 = 12;
pub const RZ_TYPE_Q5_K: u32 = 13;
pub const RZ_TYPE_Q6_K: u32 = 14;
/// Element type: I-quants: blocks of 256 values as entries of fixed grids; the digit is the approximate number of bits
/// per value.
pub const RZ_TYPE_IQ1_S: u32 = 19;
pub const RZ_TYPE_IQ1_M: u32 = 29;
pub const RZ_TYPE_IQ2_XXS: u32 = 16;
pub const RZ_TYPE_IQ2_XS: u32 = 17;
pub const RZ_TYPE_IQ2_S: u32 = 22;
pub const RZ_TYPE_IQ3_XXS: u32 = 18;
pub const RZ_TYPE_IQ3_S: u32 = 21;
/// Element type: blocks of 32 values with a scale; each value is a 4-bit index into a table of 16 numbers.
pub const RZ_TYPE_IQ4_NL: u32 = 20;
/// Element type: as RZ_TYPE_IQ4_NL, in blocks of 256 values.
pub const RZ_TYPE_IQ4_XS: u32 = 23;
/// Element type: blocks of 256 ternary values with a scale.
pub const RZ_TYPE_TQ1_0: u32 = 34;
pub const RZ_TYPE_TQ2_0: u32 = 35;
/// Element type: blocks of 32 4-bit floats with a power of two as scale (OCP microscaling).
pub const RZ_TYPE_MXFP4: u32 = 39;
/// Element type: blocks of 64 4-bit floats with an 8-bit scale for each 16 values.
pub const RZ_TYPE_NVFP4: u32 = 40;
/// Element type: blocks of 128 signs with a scale.
pub const RZ_TYPE_Q1_0: u32 = 41;
/// Element type: blocks of 64 values with 2 bits each and a scale.
pub const RZ_TYPE_Q2_0: u32 = 42;
/// Element type of PrismML's files: blocks of 128 values that share a scale; a value has 2 bits (PQ2_0) or is ternary
/// (PTQ1_0).
pub const RZ_TYPE_PQ2_0: u32 = 142;
pub const RZ_TYPE_PTQ1_0: u32 = 143;

/// The element types of keys and values that a cache may have.
const OF_CACHES: [DType; 4] = [engine::F16, engine::F32, engine::Q8_0, engine::Q4_0];

/// Returns the format of an element type; `None` for RZ_TYPE_DEFAULT. `name`: the field or parameter, for errors.
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

/// Returns the type of the keys or values of a cache; `None`: the default.
pub(super) fn cache_type(number: u32, name: &str) -> Result<Option<DType>> {
    let Some(format) = format(number, name)? else { return Ok(None) };
    if !OF_CACHES.contains(&format.dtype) {
        let types = "RZ_TYPE_F16, RZ_TYPE_F32, RZ_TYPE_Q8_0 or RZ_TYPE_Q4_0";
        return Err(Error::invalid(format!("{name} is RZ_TYPE_{}; it must be {types}", format.name)));
    }
    Ok(Some(format.dtype))
}

/// Returns the type to which float matrices are quantized; `None`: they are not quantized.
pub(super) fn target_type(number: u32, name: &str) -> Result<Option<DType>> {
    let Some(format) = format(number, name)? else { return Ok(None) };
    if format.quantize.is_none() {
        let condition = "it must be a type that the library can write";
        return Err(Error::invalid(format!("{name} is RZ_TYPE_{}; {condition}", format.name)));
    }
    Ok(Some(format.dtype))
}

/// Returns the type of weights that a caller passes.
pub(super) fn named_type(number: u32, name: &str) -> Result<DType> {
    let default = || Error::invalid(format!("{name} is RZ_TYPE_DEFAULT; it must name the type of the weights"));
    format(number, name)?.map(|format| format.dtype).ok_or_else(default)
}
