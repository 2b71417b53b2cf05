//! BitNet: weights of -1, 0 and 1, four per byte, one from each quarter of the matrix's rows. One scale, a factor or a
//! divisor.

use super::set::{Packed, Set, numbers};
use crate::error::Result;
use crate::format::grouped::{Codes, NumberKind, Offsets, Order};
use crate::quant::grouped::{Code, Number, Offset};

pub(super) fn gather(set: &mut Set) -> Result<()> {
    let divides = match set.text("linear_class").unwrap_or("bitlinear") {
        "bitlinear" => true,
        "autobitlinear" => false,
        _ => return Err(set.refuse_config("linear_class")),
    };
    for x in set.with(".weight_scale") {
        let name = format!("{x}.weight");
        if !set.is(&name, &["U8"]) {
            continue;
        }
        let (weight, scale) = (set.need(&name)?, set.need(&format!("{x}.weight_scale"))?);
        let [height, cols] = set.sizes(&weight)?;
        set.expect(&weight, &["U8"], &[height, cols])?;
        let rows = height.checked_mul(4).ok_or_else(|| set.misfit(&weight, "a smaller matrix"))?;
        let kind = match (&*scale.dtype, &*scale.dims, divides) {
            ("BF16", [1] | [], false) => NumberKind::Same(Number::Bf16),
            ("F32", [1] | [], false) => NumberKind::Same(Number::F32),
            ("BF16", [1] | [], true) => NumberKind::InverseBf16,
            ("F32", [1] | [], true) => NumberKind::Inverse,
            _ => return Err(set.misfit(&scale, "one scale")),
        };
        let order = Order::Parts { width: cols, height, first: 0, step: 2, unit: 1 };
        let packed = Packed {
            rows,
            cols,
            code: Code::Int(2),
            columns: cols,
            codes: Codes::new(weight.place, 2, order),
            scales: numbers(&scale, kind, [rows, cols], [1, 1]),
            offset: Offset::Zero,
            offsets: Some(Offsets::Same(1)),
        };
        set.put_packed(&name, &[rows, cols], packed)?;
    }
    Ok(())
}
