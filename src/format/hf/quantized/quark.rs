//! AMD's Quark: FP8 and signed bytes per tensor or row, transposed 4-bit codes in AutoAWQ's word order, and 4-bit
//! floats with power-of-two scales.

use super::fp8;
use super::set::{Packed, Set};
use crate::error::Result;
use crate::format::grouped::{Codes, Nibbles, Offsets, Order, Stream};
use crate::format::hf::quantized::compressed::signed_bytes;
use crate::format::json::Json;
use crate::quant::grouped::{Code, Offset};

pub(super) fn gather(set: &mut Set) -> Result<()> {
    let nibbles = match set.config.get("export").and_then(|e| e.get("pack_method")).and_then(Json::as_str) {
        None | Some("reorder") => Nibbles::Awq,
        Some("order") => Nibbles::Plain,
        Some(_) => return Err(set.refuse_config("export")),
    };
    let of = |key: &str| set.config.get("global_quant_config")?.get("weight")?.get(key)?.as_str();
    let (dtype, scheme) = (of("dtype").unwrap_or(""), of("qscheme").unwrap_or(""));
    if !["fp8_e4m3", "int8", "int4", "uint4", "fp4"].contains(&dtype) || dtype == "int8" && scheme == "per_group" {
        return Err(set.refuse_config("global_quant_config"));
    }
    let is_signed = dtype == "int4";
    for x in set.with(".weight_scale") {
        set.drop_all(&x, &[".input_scale", ".output_scale"]);
        let name = format!("{x}.weight");
        if set.is(&name, &["I8"]) && dtype == "int8" {
            let (weight, scale) = (set.need(&name)?, set.need(&format!("{x}.weight_scale"))?);
            let zeros = set.take(&format!("{x}.weight_zero_point"));
            signed_bytes(set, &name, &weight, &scale, zeros)?;
        } else if set.is(&name, &["I32"]) {
            let (weight, scale) = (set.need(&name)?, set.need(&format!("{x}.weight_scale"))?);
            let (&[cols, words], &[groups, rows]) = (&*weight.dims, &*scale.dims) else {
                return Err(set.misfit(&weight, "a matrix with scales"));
            };
            let group = cols.checked_div(groups).unwrap_or(0);
            if group == 0 || !cols.is_multiple_of(group) || words.checked_mul(8) != Some(rows) {
                return Err(set.misfit(&weight, &format!("codes for scales of shape {:?}", scale.dims)));
            }
            set.expect(&scale, &["F16", "BF16", "F32"], &[groups, rows])?;
            let order = Order::Stream(Stream { of_column: true, unit: 4, strides: [1, words], per_unit: 0, nibbles });
            let codes = |place| match is_signed {
                true => Codes::new(place, 4, order).signed(),
                false => Codes::new(place, 4, order),
            };
            let offsets = match set.take(&format!("{x}.weight_zero_point")) {
                None => Offsets::Same(if is_signed { 8 } else { 0 }),
                // The zero points of signed codes are 0.
                Some(_) if is_signed => Offsets::Same(8),
                Some(zeros) => {
                    set.expect(&zeros, &["I32"], &[groups, words])?;
                    Offsets::Codes { codes: codes(zeros.place), columns: group, groups }
                }
            };
            let packed = Packed {
                rows,
                cols,
                code: Code::Int(4),
                columns: group,
                codes: codes(weight.place),
                scales: set.numbers(&scale, [1, group], [1, rows])?,
                offset: Offset::Zero,
                offsets: Some(offsets),
            };
            set.put_packed(&name, &[rows, cols], packed)?;
        }
    }
    fp8::gather_scaled(set, [128, 128])
}
