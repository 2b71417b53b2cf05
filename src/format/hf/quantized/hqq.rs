//! HQQ: `X.W_q` has the codes of groups, the first part of them in the upper bits, with `X.scale` and `X.zero` per
//! group, both floats; a value is `(code - zero) * scale`. Groups along rows (axis 1) are kept. Groups along columns
//! (axis 0) share no scale within a row, so their values are read instead.

use super::set::{Packed, Set};
use crate::error::Result;
use crate::format::TensorInfo;
use crate::format::grouped::{Codes, Offsets, Order, SpreadMatrix};
use crate::format::hf::translator::signed;
use crate::format::safetensors::Entry;
use crate::format::storage::TensorStorage;
use crate::quant::grouped::{Code, Offset};
use crate::tensor::Shape;

/// Tensors of a matrix without effect on values.
const UNUSED: &[&str] = &[
    ".channel_wise",
    ".optimize",
    ".round_zero",
    ".stores_quant_config",
    ".encoded_state_dict",
    ".offload_meta",
    ".unpack_view_dtype",
    ".compute_dtype",
    ".packing",
];

pub(super) fn gather(set: &mut Set) -> Result<()> {
    for x in set.with(".W_q") {
        let [weight, scale, zero, shape] =
            ["W_q", "scale", "zero", "shape"].map(|leaf| set.need(&format!("{x}.{leaf}")));
        let (weight, scale, zero, shape) = (weight?, scale?, zero?, shape?);
        let mut declared = |leaf: &str| -> Result<u64> {
            let entry = set.need(&format!("{x}.{leaf}"))?;
            integers(set, &entry)?.first().copied().ok_or_else(|| set.misfit(&entry, "an integer"))
        };
        let (bits, group, axis, is_float) =
            (declared("nbits")?, declared("group_size")?, declared("axis")?, declared("view_as_float")?);
        if axis > 1 {
            return Err(set.unsupported(&weight.name, &format!("has groups along axis {axis}")));
        }
        if is_float != 0 || ![1, 2, 3, 4, 8].contains(&bits) {
            return Err(set.unsupported(&weight.name, &format!("has codes of {bits} bits, seen as floats: {is_float}")));
        }
        let &[rows, cols] = &*integers(set, &shape)? else { return Err(set.misfit(&shape, "two sizes")) };
        let values = rows.checked_mul(cols).filter(|n| *n > 0);
        let fits = |values: &u64| group > 0 && if axis == 1 { cols } else { *values }.is_multiple_of(group);
        let Some(values) = values.filter(fits) else {
            return Err(set.unsupported(&weight.name, &format!("has groups of {group} in rows of {cols}")));
        };
        let groups = values / group;
        let (parts, first, unit) = if bits == 3 { (10, 27, 4) } else { (8 / bits, 8 - bits, 1) };
        let (lines, width) = if axis == 1 { (groups, group) } else { (group, groups) };
        let height = lines.div_ceil(parts);
        set.expect(&weight, &[if bits == 3 { "I32" } else { "U8" }], &[height, width])?;
        let numbers = if axis == 1 { [groups, 1] } else { [1, groups] };
        set.expect(&scale, &["F16", "BF16", "F32"], &numbers)?;
        set.expect(&zero, &[&*scale.dtype], &numbers)?;
        set.drop_all(&x, UNUSED);
        let order = Order::Parts { width, height, first: signed(first), step: -signed(bits), unit };
        if axis == 0 {
            let numbers = |entry: &Entry| set.numbers(entry, [1, 1], [width, 1]);
            let (scales, zeros) = (numbers(&scale)?, numbers(&zero)?);
            let codes = Codes::new(weight.place, u32::try_from(bits).unwrap_or(0), order);
            let storage = TensorStorage::Spread(Box::new(SpreadMatrix { cols, codes, period: width, scales, zeros }));
            let tensor = TensorInfo::converted(String::new(), Shape::new(&[rows, cols])?, storage);
            set.put_made(&format!("{x}.weight"), tensor, weight.place)?;
            continue;
        }
        let (block, strides) = ([1, group], [cols / group, 1]);
        let packed = Packed {
            rows,
            cols,
            code: Code::Int(u8::try_from(bits).unwrap_or(0)),
            columns: group,
            codes: Codes::new(weight.place, u32::try_from(bits).unwrap_or(0), order),
            scales: set.numbers(&scale, block, strides)?,
            offset: Offset::ZeroNumber,
            offsets: Some(Offsets::Numbers(set.numbers(&zero, block, strides)?)),
        };
        set.put_packed(&format!("{x}.weight"), &[rows, cols], packed)?;
    }
    Ok(())
}

/// Returns the values of a tensor of nonnegative integers.
fn integers(set: &Set, entry: &Entry) -> Result<Vec<u64>> {
    let size = match &*entry.dtype {
        "U8" | "I8" | "BOOL" => 1,
        "I32" => 4,
        "I64" => 8,
        _ => return Err(set.misfit(entry, "integers")),
    };
    if entry.bytes > 64 {
        return Err(set.misfit(entry, "a few integers"));
    }
    let value = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    Ok(set.bytes(entry)?.chunks_exact(size).map(value).collect())
}
