//! bitsandbytes: 4-bit indices into a table, scaled by the largest magnitude of a block, which may itself be quantized;
//! or signed bytes, scaled by the largest magnitude of a row.

use std::sync::Arc;

use super::set::{Packed, Set, numbers};
use crate::error::Result;
use crate::format::grouped::{Codes, Nested, Nibbles, NumberKind, Offsets, Order, Stream};
use crate::format::json::Json;
use crate::quant::grouped::{Code, Number, Offset};

const STATE: &str = ".quant_state.bitsandbytes__";

pub(super) fn gather(set: &mut Set) -> Result<()> {
    for (kind, code) in [("nf4", Code::Nf4), ("fp4", Code::Fp4)] {
        for name in set.with(&format!("{STATE}{kind}")) {
            four_bits(set, &name, &format!("{STATE}{kind}"), code)?;
        }
    }
    for x in set.with(".SCB") {
        let (weight, scale) = (set.need(&format!("{x}.weight"))?, set.need(&format!("{x}.SCB"))?);
        let [rows, cols] = set.sizes(&weight)?;
        set.expect(&weight, &["I8"], &[rows, cols])?;
        set.expect(&scale, &["F32"], &[rows])?;
        if let Some(format) = set.take(&format!("{x}.weight_format")) {
            let order = set.bytes(&format)?;
            if order.iter().any(|byte| *byte != 0) {
                return Err(set.unsupported(&format.name, &format!("tells the order {order:?}")));
            }
        }
        let packed = Packed {
            rows,
            cols,
            code: Code::Int(8),
            columns: cols,
            codes: Codes::bytes(weight.place, cols).signed(),
            scales: numbers(&scale, NumberKind::Of127, [1, cols], [1, 1]),
            offset: Offset::Zero,
            offsets: Some(Offsets::Same(128)),
        };
        set.put_packed(&format!("{x}.weight"), &[rows, cols], packed)?;
    }
    Ok(())
}

fn four_bits(set: &mut Set, name: &str, state_end: &str, code: Code) -> Result<()> {
    let (weight, state) = (set.need(name)?, set.need(&format!("{name}{state_end}"))?);
    let text = set.bytes(&state)?;
    let declared = Json::parse_python(set.path, &text)?;
    let sizes: Vec<u64> =
        declared.get("shape").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_u64).collect();
    let block = declared.get("blocksize").and_then(Json::as_u64).unwrap_or(0);
    let &[rows, cols] = &*sizes else { return Err(set.misfit(&state, "the shape of a matrix")) };
    let values = rows.checked_mul(cols).filter(|n| *n > 0 && Some(*n) == weight.bytes.checked_mul(2));
    let (Some(values), true) = (values, block > 0 && cols.is_multiple_of(block.max(1))) else {
        let expected = format!("4 bits for each of {rows} rows of {cols} columns in blocks of {block}");
        return Err(set.misfit(&weight, &expected));
    };
    let table = set.need(&format!("{name}.quant_map"))?;
    let map = set.floats(&table)?;
    let wrong = map.iter().zip(code.table().into_iter().flatten()).position(|(a, b)| a != b);
    if let Some(i) = wrong.or((map.len() != 16).then_some(0)) {
        let value = map.get(i).copied().unwrap_or_default();
        return Err(set.unsupported(&table.name, &format!("holds {value} at {i}, another table than bitsandbytes has")));
    }
    let blocks = values / block;
    let absmax = set.need(&format!("{name}.absmax"))?;
    let kind = match declared.get("nested_blocksize").and_then(Json::as_u64) {
        None => {
            set.expect(&absmax, &["F32"], &[blocks])?;
            NumberKind::Same(Number::F32)
        }
        Some(nested) => {
            set.expect(&absmax, &["U8"], &[blocks])?;
            let [factors, table] = ["nested_absmax", "nested_quant_map"].map(|end| set.need(&format!("{name}.{end}")));
            let (factors, table) = (factors?, table?);
            set.expect(&table, &["F32"], &[256])?;
            set.expect(&factors, &["F32"], &[blocks.div_ceil(nested.max(1))])?;
            let plus = declared.get("nested_offset").and_then(Json::as_f64).filter(|x| x.is_finite());
            let Some(plus) = plus else { return Err(set.misfit(&state, "a nested_offset")) };
            let (table, factors) = (set.floats(&table)?, set.floats(&factors)?);
            let plus = crate::format::value::narrow(plus);
            NumberKind::Nested(Arc::new(Nested { table, factors, block: nested, plus }))
        }
    };
    let stream = Stream { nibbles: Nibbles::HighFirst, ..Stream::rows(cols / 2) };
    let packed = Packed {
        rows,
        cols,
        code,
        columns: block,
        codes: Codes::new(weight.place, 4, Order::Stream(stream)),
        scales: numbers(&absmax, kind, [1, block], [cols / block, 1]),
        offset: Offset::None,
        offsets: None,
    };
    set.put_packed(name, &[rows, cols], packed)
}
