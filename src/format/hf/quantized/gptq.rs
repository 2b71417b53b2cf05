//! GPTQ: `X.qweight` is a stream of codes down each column, which is a row of the matrix; `X.qzeros` has a stream along
//! the rows of the matrix per group. A value is `(code - zero) * scale`; version 1 stores zeros minus 1. Some folders
//! declare version 1 but have zeros of version 2; for symmetric codes the zero is the middle, which distinguishes the
//! versions. `X.g_idx` has the group of each input; groups are not contiguous if inputs were quantized in another order
//! (`desc_act`).

use super::set::{Packed, Set};
use crate::error::Result;
use crate::format::grouped::{Codes, Nibbles, Offsets, Order, Stream};
use crate::format::json::Json;
use crate::format::safetensors::Entry;
use crate::quant::grouped::{Code, Offset};

pub(super) fn gather(set: &mut Set) -> Result<()> {
    let format = set.text("checkpoint_format").or(set.text("format")).unwrap_or("gptq");
    let plus = match format {
        "gptq" => 1,
        "gptq_v2" => 0,
        _ => return Err(set.refuse_config("checkpoint_format")),
    };
    let has_exceptions =
        ["dynamic", "extra_config"].iter().any(|key| set.config.get(key).is_some_and(|d| !d.members().is_empty()));
    for x in set.with(".qweight") {
        let [weight, zeros, scales] = ["qweight", "qzeros", "scales"].map(|leaf| set.need(&format!("{x}.{leaf}")));
        let (weight, zeros, scales) = (weight?, zeros?, scales?);
        let order = set.take(&format!("{x}.g_idx"));
        let &[words, rows] = &*weight.dims else { return Err(set.misfit(&weight, "a matrix")) };
        // Layers may have another number of bits, which follows from the number of inputs.
        let inputs = order.as_ref().and_then(|order| order.dims.first().copied());
        let bits = match inputs.filter(|n| *n > 0) {
            Some(inputs) => words.saturating_mul(32) / inputs,
            None => set.int("bits").unwrap_or(0),
        };
        if !(1..=8).contains(&bits) || !words.saturating_mul(32).is_multiple_of(bits) {
            return Err(set.misfit(&weight, &format!("codes of {bits} bits")));
        }
        let declared = set.int("bits").unwrap_or(bits);
        if declared != bits && !has_exceptions {
            return Err(set.misfit(&weight, &format!("codes of {declared} bits for {} inputs", inputs.unwrap_or(0))));
        }
        let cols = words * 32 / bits;
        set.expect(&weight, &["I32"], &[words, rows])?;
        let group = match set.config.get("group_size") {
            Some(Json::Int(-1)) => cols,
            size => size.and_then(Json::as_u64).unwrap_or(0),
        };
        let groups = scales.dims.first().copied().unwrap_or(0);
        // A layer may have another group size too.
        let is_own = group == 0 || cols.div_ceil(group) != groups;
        let group = if is_own && has_exceptions { cols.checked_div(groups).unwrap_or(0) } else { group };
        if group == 0 || !cols.is_multiple_of(group) || cols / group != groups {
            return Err(set.misfit(&scales, &format!("scales of {cols} inputs in groups")));
        }
        set.expect(&scales, &["F16", "BF16", "F32"], &[groups, rows])?;
        let zero_words = rows.saturating_mul(bits).div_ceil(32);
        set.expect(&zeros, &["I32"], &[groups, zero_words])?;
        if order.is_none() && groups > 1 && set.config.get("desc_act").and_then(Json::as_bool) == Some(true) {
            return Err(set.wrong(format!("the tensor \"{x}.g_idx\" is missing, which \"desc_act\" asks for")));
        }
        let order = order.map(|order| set.order(&order, cols, group)).transpose()?.flatten();
        let stream = |of_column, strides| {
            Order::Stream(Stream { of_column, unit: 4, strides, per_unit: 0, nibbles: Nibbles::Plain })
        };
        let n_bits = u32::try_from(bits).unwrap_or(0);
        let is_second = plus == 1 && set.config.get("sym").and_then(Json::as_bool) == Some(true);
        let plus = if is_second && are_middles(set, &zeros, rows, bits)? { 0 } else { plus };
        let zeros = Codes { plus, ..Codes::new(zeros.place, n_bits, stream(true, [1, zero_words])) };
        let packed = Packed {
            rows,
            cols,
            code: Code::Int(u8::try_from(bits).unwrap_or(0)),
            columns: group,
            codes: Codes::new(weight.place, n_bits, stream(false, [rows, 1])),
            scales: set.numbers(&scales, [1, group], [1, rows])?,
            offset: Offset::Zero,
            offsets: Some(Offsets::Codes { codes: zeros, columns: group, groups }),
        };
        set.put_ordered(&format!("{x}.weight"), &[rows, cols], packed, order)?;
    }
    Ok(())
}

/// True if the zeros of all `rows` rows, of `bits` bits each, are the middle of the codes.
fn are_middles(set: &Set, zeros: &Entry, rows: u64, bits: u64) -> Result<bool> {
    let stride = zeros.dims.last().map_or(0, |words| words.saturating_mul(4));
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let is_middle = |group: &[u8], bit: u64| {
        let found = group.get(size(bit / 8)).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        found == (bit % bits == bits - 1)
    };
    let bytes = set.bytes(zeros)?;
    let mut groups = bytes.chunks_exact(size(stride).max(1));
    Ok(groups.all(|group| (0..rows.saturating_mul(bits)).all(|bit| is_middle(group, bit))))
}
