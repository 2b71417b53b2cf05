//! AutoAWQ: `X.qweight`, `X.qzeros` and `X.scales`, 4 bits; a value is `(code - zero) * scale`. Version "gemm" stores
//! the matrix transposed, with eight codes per word in an order of its own; "gemv" stores rows.

use super::set::{Packed, Set, number};
use crate::error::Result;
use crate::format::grouped::{Codes, Nibbles, Offsets, Order, Stream};
use crate::format::json::Json;
use crate::quant::grouped::{Code, Offset};

pub(super) fn gather(set: &mut Set) -> Result<()> {
    let version = set.text("version").unwrap_or("gemm").to_ascii_lowercase();
    if set.int("bits").or(set.int("w_bit")) != Some(4) {
        return Err(set.refuse_config("bits"));
    }
    if !["gemm", "gemv"].contains(&&*version) {
        return Err(set.refuse_config("version"));
    }
    for x in set.with(".qweight") {
        let [weight, scales] = [set.need(&format!("{x}.qweight"))?, set.need(&format!("{x}.scales"))?];
        let zeros = match set.config.get("zero_point") {
            Some(Json::Bool(false)) => set.take(&format!("{x}.qzeros")),
            _ => Some(set.need(&format!("{x}.qzeros"))?),
        };
        let (&[down, across], &[scales_down, scales_across]) = (&*weight.dims, &*scales.dims) else {
            return Err(set.misfit(&weight, "a matrix with scales"));
        };
        set.expect(&weight, &["I32"], &[down, across])?;
        let is_gemm = version == "gemm";
        let (rows, cols) = if is_gemm { (across.saturating_mul(8), down) } else { (down, across.saturating_mul(8)) };
        let group = match set.config.get("group_size").or(set.config.get("q_group_size")) {
            Some(Json::Int(-1)) => cols,
            size => size.and_then(Json::as_u64).unwrap_or(0),
        };
        if group == 0 || !cols.is_multiple_of(group) {
            return Err(set.misfit(&weight, &format!("inputs in groups of {group}")));
        }
        let groups = cols / group;
        let (stream, strides) = if is_gemm {
            let of_column =
                Stream { of_column: true, unit: 4, strides: [1, across], per_unit: 0, nibbles: Nibbles::Awq };
            set.expect(&scales, &["F16", "BF16", "F32"], &[groups, rows])?;
            (of_column, [1, rows])
        } else {
            if scales_down != rows || scales_across < groups || number(&scales).is_none() {
                return Err(set.misfit(&scales, &format!("at least {groups} scales for each of {rows} rows")));
            }
            (Stream::rows(across.saturating_mul(4)), [scales_across, 1])
        };
        let offsets = match zeros {
            None => Offsets::Same(8),
            Some(zeros) => {
                let dims = if is_gemm { [groups, across] } else { [rows, scales_across / 8] };
                set.expect(&zeros, &["I32"], &dims)?;
                let stream = if is_gemm { stream } else { Stream::rows(dims[1] * 4) };
                if !is_gemm && dims[1].saturating_mul(8) < groups {
                    return Err(set.misfit(&zeros, &format!("at least {groups} zeros")));
                }
                let codes = Codes::new(zeros.place, 4, Order::Stream(stream));
                Offsets::Codes { codes, columns: group, groups }
            }
        };
        let packed = Packed {
            rows,
            cols,
            code: Code::Int(4),
            columns: group,
            codes: Codes::new(weight.place, 4, Order::Stream(stream)),
            scales: set.numbers(&scales, [1, group], strides)?,
            offset: Offset::Zero,
            offsets: Some(offsets),
        };
        set.put_packed(&format!("{x}.weight"), &[rows, cols], packed)?;
    }
    Ok(())
}
