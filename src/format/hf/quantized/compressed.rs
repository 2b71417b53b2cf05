//! compressed-tensors (llm-compressor): `X.weight_packed` or `X.weight` with `X.weight_scale`, and zeros in the form of
//! the codes. Types and shapes of tensors determine the form of each matrix; the configuration has the number of bits,
//! and whatever else affects the product.

use super::fp8;
use super::set::{Packed, Set, number};
use crate::error::Result;
use crate::format::grouped::{Blocks, Codes, Nibbles, Offsets, Order, Stream};
use crate::format::json::Json;
use crate::format::safetensors::Entry;
use crate::quant::grouped::{Code, Offset};

const FORMATS: &[&str] = &[
    "pack-quantized",
    "int-quantized",
    "naive-quantized",
    "float-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
    "mixed-precision",
    "dense",
];

/// Tensors of a matrix for the rounding of activations in other programs.
const UNUSED: &[&str] = &[".input_scale", ".input_zero_point", ".input_global_scale", ".output_scale"];

pub(super) fn gather(set: &mut Set) -> Result<()> {
    let groups: Vec<&Json> =
        set.config.get("config_groups").map_or(&[][..], Json::members).iter().map(|m| &m.1).collect();
    let known = |json: &Json| json.get("format").is_none_or(|f| f.as_str().is_some_and(|f| FORMATS.contains(&f)));
    if !known(set.config) || !groups.iter().all(|group| known(group)) {
        return Err(set.refuse_config("format"));
    }
    let is_dense = |s: &Json| s.get("format").is_none_or(|f| f.as_str() == Some("dense"));
    if !set.config.get("sparsity_config").is_none_or(is_dense) {
        return Err(set.refuse_config("sparsity_config"));
    }
    if set.config.get("transform_config").is_some_and(|t| t.members().iter().any(|m| m.1 != Json::Null)) {
        return Err(set.refuse_config("transform_config"));
    }
    let weights = || groups.iter().filter_map(|group| group.get("weights"));
    let mut bits: Vec<u64> = weights().filter_map(|w| w.get("num_bits").and_then(Json::as_u64)).collect();
    bits.sort_unstable();
    bits.dedup();
    let is_reordered =
        !groups.is_empty() && weights().all(|w| w.get("actorder").and_then(Json::as_str) == Some("group"));
    let forms = IntegerForms { bits, is_reordered };
    let sides = |w: &&Json| match w.get("block_structure")?.as_array()? {
        [a, b] => Some([a.as_u64()?, b.as_u64()?]),
        _ => None,
    };
    let block = weights().find_map(|w| sides(&w)).unwrap_or([128, 128]);
    for x in set.with(".weight_packed") {
        set.drop_all(&x, UNUSED);
        let (weight, scale) = (set.need(&format!("{x}.weight_packed"))?, set.need(&format!("{x}.weight_scale"))?);
        match &*weight.dtype {
            "U8" => small_floats(set, &x, &weight, &scale)?,
            "I32" => integers(set, &x, &weight, &scale, &forms)?,
            _ => return Err(set.misfit(&weight, "I32 or U8")),
        }
    }
    for x in set.with(".weight_scale") {
        set.drop_all(&x, UNUSED);
        let name = format!("{x}.weight");
        if set.is(&name, &["I8"]) {
            let (weight, scale) = (set.need(&name)?, set.need(&format!("{x}.weight_scale"))?);
            bytes(set, &x, &weight, &scale)?;
        }
    }
    fp8::gather_scaled(set, block)
}

/// 4-bit floats, with float scales and an additional scale per tensor, or with power-of-two scales.
fn small_floats(set: &mut Set, x: &str, weight: &Entry, scale: &Entry) -> Result<()> {
    let [rows, width] = set.sizes(weight)?;
    let (name, shape) = (format!("{x}.weight"), [rows, width.saturating_mul(2)]);
    set.expect(weight, &["U8"], &[rows, width])?;
    if let Some(global) = set.take(&format!("{x}.weight_global_scale")) {
        set.expect(scale, &["F8_E4M3"], &[rows, width / 8])?;
        let &[global_scale] = &*set.floats(&global)? else { return Err(set.misfit(&global, "one scale")) };
        set.put_fp4(&name, &shape, weight, scale, Blocks::Nvfp4)?;
        // It is a divisor.
        return set.put_factors(x, &[1.0 / global_scale]);
    }
    set.expect(scale, &["U8", "F8_E8M0"], &[rows, width / 16])?;
    set.put_fp4(&name, &shape, weight, scale, Blocks::Mxfp4)
}

/// The configuration of all integer matrices.
struct IntegerForms {
    /// The numbers of bits in use.
    bits: Vec<u64>,
    /// True if a tensor per matrix has the groups of its inputs.
    is_reordered: bool,
}

/// Words of codes, with rows padded to whole words. In older versions no code crosses words.
fn integers(set: &mut Set, x: &str, weight: &Entry, scale: &Entry, declared: &IntegerForms) -> Result<()> {
    let IntegerForms { bits, is_reordered } = declared;
    let shape = set.need(&format!("{x}.weight_shape"))?;
    let sizes: Vec<u64> =
        set.bytes(&shape)?.as_chunks().0.iter().map(|n| u64::try_from(i64::from_le_bytes(*n)).unwrap_or(0)).collect();
    let (&[rows, words], &[declared_rows, cols]) = (&*weight.dims, &*sizes) else {
        return Err(set.misfit(weight, &format!("a matrix of shape {sizes:?}")));
    };
    if declared_rows != rows || shape.dtype != "I64" || cols == 0 || rows == 0 || cols > 1 << 32 {
        return Err(set.misfit(weight, &format!("a matrix of shape {sizes:?}")));
    }
    // Finds the number of bits, and whether codes cross words.
    let forms = bits.iter().filter(|b| (1..=8).contains(*b)).flat_map(|bits| {
        let per_word = 32 / bits;
        let dense = (cols.saturating_mul(*bits).div_ceil(32), 0);
        let padded = (cols.div_ceil(per_word), per_word);
        [Some(dense), Some(padded).filter(|padded| padded.0 != dense.0)].map(|form| form.map(|form| (*bits, form)))
    });
    let mut forms = forms.flatten().filter(|(_, (n, _))| *n == words);
    let (Some((bits, (_, per_unit))), None) = (forms.next(), forms.next()) else {
        return Err(set.misfit(weight, &format!("words of {cols} columns of {bits:?} bits")));
    };
    let (scales, columns) = set.usual_scales(scale, weight, cols, [1, cols])?;
    let groups = cols.div_ceil(columns.max(1));
    let stream =
        |of_column, strides| Order::Stream(Stream { of_column, unit: 4, strides, per_unit, nibbles: Nibbles::Plain });
    let n_bits = u32::try_from(bits).unwrap_or(0);
    let offsets = match set.take(&format!("{x}.weight_zero_point")) {
        None => Offsets::Same(1 << (bits - 1)),
        Some(zeros) => {
            let n = if per_unit > 0 { rows.div_ceil(per_unit) } else { rows.saturating_mul(bits).div_ceil(32) };
            set.expect(&zeros, &["I32"], &[n, groups])?;
            Offsets::Codes { codes: Codes::new(zeros.place, n_bits, stream(true, [groups, 1])), columns, groups }
        }
    };
    let name = format!("{x}.weight_g_idx");
    let order = set.take(&name);
    if order.is_none() && groups > 1 && *is_reordered {
        return Err(set.wrong(format!("the tensor {name:?} is missing, which \"actorder\" asks for")));
    }
    let order = order.map(|order| set.order(&order, cols, columns)).transpose()?.flatten();
    let packed = Packed {
        rows,
        cols,
        code: Code::Int(u8::try_from(bits).unwrap_or(0)),
        columns,
        codes: Codes::new(weight.place, n_bits, stream(false, [1, words])),
        scales,
        offset: Offset::Zero,
        offsets: Some(offsets),
    };
    set.put_ordered(&format!("{x}.weight"), &[rows, cols], packed, order)
}

/// Signed bytes.
fn bytes(set: &mut Set, x: &str, weight: &Entry, scale: &Entry) -> Result<()> {
    let zeros = set.take(&format!("{x}.weight_zero_point"));
    signed_bytes(set, &format!("{x}.weight"), weight, scale, zeros)
}

/// A matrix of signed bytes with scales and optional zeros of the same shape.
pub(super) fn signed_bytes(
    set: &mut Set,
    name: &str,
    weight: &Entry,
    scale: &Entry,
    zeros: Option<Entry>,
) -> Result<()> {
    let [rows, cols] = set.sizes(weight)?;
    set.expect(weight, &["I8"], &weight.dims)?;
    let (scales, columns) = set.usual_scales(scale, weight, cols, [1, cols])?;
    if number(scale).is_none() {
        return Err(set.misfit(scale, "scales"));
    }
    let offsets = match zeros {
        None => Offsets::Same(128),
        Some(zeros) => {
            set.expect(&zeros, &["I8"], &scale.dims)?;
            if scales.block == [rows, cols] && rows > 1 {
                return Err(set.unsupported(&zeros.name, "is a zero of a whole matrix"));
            }
            let groups = cols / columns.max(1);
            Offsets::Codes { codes: Codes::bytes(zeros.place, groups).signed(), columns, groups }
        }
    };
    let packed = Packed {
        rows,
        cols,
        code: Code::Int(8),
        columns,
        codes: Codes::bytes(weight.place, cols).signed(),
        scales,
        offset: Offset::Zero,
        offsets: Some(offsets),
    };
    set.put_packed(name, &weight.dims, packed)
}
