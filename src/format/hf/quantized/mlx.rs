//! MLX (mlx-lm, mlx-vlm): `X.weight` has words of codes, `X.scales` and `X.biases` the numbers of a group; a value is
//! `scale * code + bias`. Or codes and scales are small floats. Embeddings and output matrices are like other matrices,
//! experts are in one tensor.

use super::set::{Packed, Set, numbers, widened};
use crate::error::Result;
use crate::format::grouped::{Blocks, Codes, NumberKind, Offsets, Order, Stream};
use crate::format::json::Json;
use crate::quant::grouped::{Code, Offset};

pub(super) fn gather(set: &mut Set) -> Result<()> {
    for x in set.with(".scales") {
        if !set.has(&format!("{x}.weight")) {
            continue;
        }
        let (weight, scales) = (set.need(&format!("{x}.weight"))?, set.need(&format!("{x}.scales"))?);
        let [bits, group, mode] = settings(set, &x)?;
        let mode = match (mode, set.has(&format!("{x}.biases")), bits, group) {
            (Json::Str(mode), false, ..) if *mode != "affine" => mode.as_ref(),
            (_, true, ..) => "affine",
            (.., Json::Int(4), Json::Int(16)) => "nvfp4",
            (.., Json::Int(4), Json::Int(32)) => "mxfp4",
            (.., Json::Int(8), Json::Int(32)) => "mxfp8",
            _ => return Err(set.wrong(format!("the tensor {x:?} has no biases"))),
        };
        let (bits, group) = (bits.as_u64().unwrap_or(0), group.as_u64().unwrap_or(0));
        let [rows, words] = set.sizes(&weight)?;
        let [scale_rows, groups] = set.sizes(&scales)?;
        let cols = groups.checked_mul(group).filter(|_| scale_rows == rows && (1..=8).contains(&bits));
        let fits = cols.and_then(|cols| Some(cols.checked_mul(bits)? == words.checked_mul(32)?));
        let (Some(cols), Some(true), "U32") = (cols, fits, &*weight.dtype) else {
            let expected = format!("U32 words of {bits} bits, {group} to each of the scales {:?},", scales.dims);
            return Err(set.misfit(&weight, &expected));
        };
        let (name, shape) = (format!("{x}.weight"), widened(&weight.dims, cols));
        let stream = Order::Stream(Stream::rows(words * 4));
        match mode {
            "affine" => {
                let biases = set.need(&format!("{x}.biases"))?;
                set.expect(&scales, &["F16", "BF16", "F32"], &widened(&weight.dims, groups))?;
                set.expect(&biases, &[&*scales.dtype], &scales.dims)?;
                let (block, strides) = ([1, group], [groups, 1]);
                let packed = Packed {
                    rows,
                    cols,
                    code: Code::Int(u8::try_from(bits).unwrap_or(0)),
                    columns: group,
                    codes: Codes::new(weight.place, u32::try_from(bits).unwrap_or(0), stream),
                    scales: set.numbers(&scales, block, strides)?,
                    offset: Offset::Bias,
                    offsets: Some(Offsets::Numbers(set.numbers(&biases, block, strides)?)),
                };
                set.put_packed(&name, &shape, packed)?;
            }
            "mxfp8" if (bits, group) == (8, 32) => {
                set.expect(&scales, &["U8"], &widened(&weight.dims, groups))?;
                let packed = Packed {
                    rows,
                    cols,
                    code: Code::E4m3,
                    columns: group,
                    codes: Codes::new(weight.place, 8, stream),
                    scales: numbers(&scales, NumberKind::E8m0, [1, group], [groups, 1]),
                    offset: Offset::None,
                    offsets: None,
                };
                set.put_packed(&name, &shape, packed)?;
            }
            "mxfp4" | "nvfp4" if (bits, group) == (4, if mode == "mxfp4" { 32 } else { 16 }) => {
                set.expect(&scales, &["U8"], &widened(&weight.dims, groups))?;
                let blocks = if mode == "mxfp4" { Blocks::Mxfp4 } else { Blocks::Nvfp4 };
                set.put_fp4(&name, &shape, &weight, &scales, blocks)?;
                if let Some(global) = set.take(&format!("{x}.global_scale")).filter(|_| mode == "nvfp4") {
                    // The product of the largest E4M3 scale and the largest FP4 value.
                    let factors: Vec<f32> = set.floats(&global)?.iter().map(|scale| scale / (448.0 * 6.0)).collect();
                    let experts = if shape.len() == 3 { shape.first().copied().unwrap_or(0) } else { 1 };
                    if factors.len() as u64 != experts {
                        return Err(set.misfit(&global, &format!("{experts} scales")));
                    }
                    set.put_factors(&x, &factors)?;
                }
            }
            mode => return Err(set.unsupported(&name, &format!("is of mode {mode:?} with {bits} bits by {group}"))),
        }
    }
    Ok(())
}

/// Bits, group size and mode of a matrix: the common ones, or those under its name, with or without the prefix
/// `language_model.`.
fn settings<'a>(set: &Set<'a>, x: &str) -> Result<[&'a Json<'a>; 3]> {
    let own = [x.to_owned(), x.trim_start_matches("language_model.").to_owned(), format!("language_model.{x}")];
    let own = own.iter().find_map(|name| set.config.get(name));
    if own == Some(&Json::Bool(false)) {
        return Err(set.wrong(format!("the matrix {x:?} has scales, and the configuration says that it has none")));
    }
    let of = own.filter(|own| matches!(own, Json::Object(_))).unwrap_or(set.config);
    Ok(["bits", "group_size", "mode"].map(|name| of.get(name).unwrap_or(&Json::Null)))
}
