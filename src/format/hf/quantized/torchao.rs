//! torchao: the parts of a tensor `a.b.weight` are `a.b._weight_qdata`, `_scale` and `_zero_point`. Types and shapes
//! determine its class: signed bytes per row or group, FP8 per row, and signed nibbles whose zero is a value.

use super::fp8;
use super::set::{Packed, Set, number};
use crate::error::Result;
use crate::format::grouped::{Codes, Offsets, Order, Stream};
use crate::format::hf::quantized::compressed::signed_bytes;
use crate::quant::grouped::{Code, Offset};

pub(super) fn gather(set: &mut Set) -> Result<()> {
    for x in set.with("._weight_qdata") {
        let (weight, scale) = (set.need(&format!("{x}._weight_qdata"))?, set.need(&format!("{x}._weight_scale"))?);
        let zeros = set.take(&format!("{x}._weight_zero_point"));
        let name = format!("{x}.weight");
        let [rows, width] = set.sizes(&weight)?;
        match (&*weight.dtype, zeros) {
            ("F8_E4M3", None) => {
                let (mut weight, mut scale) = (weight, scale);
                (weight.name, scale.name) = (name.clone(), format!("{name}_scale"));
                set.tensors.insert(weight.name.clone(), weight);
                set.tensors.insert(scale.name.clone(), scale);
            }
            // Nibbles have scales in another order than bytes, and zeros that are values.
            ("I8" | "U8", Some(zeros)) if number(&zeros).is_some() => {
                set.expect(&weight, &["I8", "U8"], &[rows, width])?;
                let cols = width.saturating_mul(2);
                let groups = scale.dims.first().copied().unwrap_or(0);
                let group = cols.checked_div(groups).unwrap_or(0);
                if group == 0 || !cols.is_multiple_of(group) {
                    return Err(set.misfit(&scale, &format!("scales of {cols} inputs in groups")));
                }
                set.expect(&scale, &["F16", "BF16", "F32"], &[groups, rows])?;
                set.expect(&zeros, &[&*scale.dtype], &scale.dims)?;
                let (block, strides) = ([1, group], [1, rows]);
                let [scales, values] = [&scale, &zeros].map(|entry| set.numbers(entry, block, strides));
                let packed = Packed {
                    rows,
                    cols,
                    code: Code::Int(4),
                    columns: group,
                    codes: Codes::new(weight.place, 4, Order::Stream(Stream::rows(width))).signed(),
                    scales: scales?,
                    offset: Offset::CenteredBias,
                    offsets: Some(Offsets::Numbers(values?)),
                };
                set.put_packed(&name, &[rows, cols], packed)?;
            }
            ("I8", zeros) => signed_bytes(set, &name, &weight, &scale, zeros)?,
            _ => return Err(set.misfit(&weight, "I8 or F8_E4M3")),
        }
    }
    fp8::gather_scaled(set, [128, 128])
}
