//! FP8 with scales per block of 128 by 128, per row, or per tensor (DeepSeek, Qwen, MiniMax, Mistral; Llama's
//! "fbgemm_fp8"). Scales are factors, whatever their name suggests. Experts of DeepSeek V4 have 4 bits.

use super::set::{Packed, Set, widened};
use crate::error::Result;
use crate::format::TensorInfo;
use crate::format::grouped::{Blocks, Codes, NumberKind};
use crate::format::json::Json;
use crate::format::safetensors::Entry;
use crate::format::storage::{Scaled, TensorStorage};
use crate::quant;
use crate::quant::grouped::{Code, Number, Offset};
use crate::tensor::Shape;

/// Suffixes of the names of scales.
const SCALES: &[&str] = &["_scale_inv", "_scale"];

pub(super) fn gather(set: &mut Set) -> Result<()> {
    if set.text("fmt").is_some_and(|fmt| !["e4m3", "float8_e4m3fn"].contains(&fmt)) {
        return Err(set.refuse_config("fmt"));
    }
    let sides = |size: &Json| match size.as_array() {
        Some([a, b]) => Some([a.as_u64()?, b.as_u64()?]),
        _ => None,
    };
    let block = match set.config.get("weight_block_size") {
        None => [128, 128],
        Some(size) => {
            let sides = sides(size).filter(|sides| sides.iter().all(|n| [32, 64, 128, 256].contains(n)));
            sides.ok_or_else(|| set.refuse_config("weight_block_size"))?
        }
    };
    gather_scaled(set, block)
}

/// Assembles each FP8 matrix that has a scale.
pub(super) fn gather_scaled(set: &mut Set, block: [u64; 2]) -> Result<()> {
    for end in SCALES {
        for x in set.with(end) {
            if x.ends_with(".weight") && !set.has(&x) {
                return Err(set.wrong(format!("the tensor {:?} is a scale of one that is not there", x + end)));
            }
            if set.is(&x, &["F8_E4M3", "I8", "U8"]) {
                let scale = set.need(&format!("{x}{end}"))?;
                matrix(set, &x, &scale, block)?;
            }
        }
    }
    for x in set.with(".scale") {
        let name = format!("{x}.weight");
        if set.is(&name, &["F8_E4M3", "I8"]) {
            let scale = set.need(&format!("{x}.scale"))?;
            matrix(set, &name, &scale, block)?;
        }
    }
    Ok(())
}

/// Assembles a matrix from the tensor `name` and its scale.
fn matrix(set: &mut Set, name: &str, scale: &Entry, block: [u64; 2]) -> Result<()> {
    let weight = set.need(name)?;
    let [rows, width] = set.sizes(&weight)?;
    set.drop_all(name.trim_end_matches("weight"), &["activation_scale", "input_scale", "qscale_act"]);
    if weight.dtype != "F8_E4M3" {
        let shape = widened(&weight.dims, width.saturating_mul(2));
        set.expect(scale, &["F8_E8M0", "U8"], &widened(&weight.dims, width / 16))?;
        return set.put_fp4(name, &shape, &weight, scale, Blocks::Mxfp4);
    }
    let (scales, columns) = set.usual_scales(scale, &weight, width, block)?;
    let has_blocks = width.is_multiple_of(32) && columns.is_multiple_of(32);
    if (set.plain)(name) || !has_blocks {
        return expanded(set, name, &weight, scales.block, scale);
    }
    let packed = Packed {
        rows,
        cols: width,
        code: Code::E4m3,
        columns,
        codes: Codes::bytes(weight.place, width),
        scales,
        offset: Offset::None,
        offsets: None,
    };
    set.put_packed(name, &weight.dims, packed)
}

/// A matrix that is split by columns, or whose rows are not whole blocks, as BF16.
fn expanded(set: &mut Set, name: &str, weight: &Entry, block: [u64; 2], scale: &Entry) -> Result<()> {
    let scale_type = match set.numbers(scale, block, [1, 1])?.kind {
        NumberKind::Same(Number::F32) => quant::F32,
        NumberKind::Same(Number::F16) => quant::F16,
        NumberKind::Same(Number::Bf16) => quant::BF16,
        _ => return Err(set.unsupported(&scale.name, "is the scale of a matrix that has to be taken apart")),
    };
    let shape = Shape::new(&weight.dims)?;
    let cols = shape.cols();
    let storage = TensorStorage::Scaled(Scaled { values: weight.place, cols, scales: scale.place, scale_type, block });
    let bytes = weight.bytes.saturating_mul(2);
    let tensor = TensorInfo { name: String::new(), dtype: quant::BF16, shape, bytes, storage };
    set.put_made(name, tensor, weight.place)
}
