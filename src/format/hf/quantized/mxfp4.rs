//! gpt-oss as published: experts of 4-bit floats, `[experts, rows, blocks, 16]`, with a power-of-two scale per block of
//! 32. Rows of gate and up alternate.

use super::set::Set;
use crate::error::Result;
use crate::format::TensorInfo;
use crate::format::storage::{Picked, TensorStorage};
use crate::quant;
use crate::tensor::Shape;

pub(super) fn gather(set: &mut Set) -> Result<()> {
    for name in set.with("_blocks") {
        let (codes, scales) = (set.need(&format!("{name}_blocks"))?, set.need(&format!("{name}_scales"))?);
        let &[experts, rows, blocks, 16] = &*codes.dims else {
            return Err(set.misfit(&codes, "blocks of 16 bytes"));
        };
        if scales.dims != [experts, rows, blocks] || codes.dtype != "U8" || scales.dtype != "U8" {
            return Err(set.wrong(format!("the tensor {:?} does not fit {:?}", scales.name, codes.name)));
        }
        let too_large = || set.misfit(&codes, "a smaller tensor");
        let shape = blocks.checked_mul(32).and_then(|cols| Shape::new(&[experts, rows, cols]).ok());
        let (shape, bytes) = shape.zip(codes.bytes.checked_add(scales.bytes)).ok_or_else(too_large)?;
        let storage = TensorStorage::Packed { quants: codes.place, scales: scales.place };
        let tensor = TensorInfo { name: String::new(), dtype: quant::MXFP4, shape, bytes, storage };
        let Some(x) = name.strip_suffix("gate_up_proj") else {
            set.put_made(&format!("{name}.weight"), tensor, codes.place)?;
            continue;
        };
        let unit = bytes.checked_div(experts.saturating_mul(rows)).filter(|_| rows.is_multiple_of(2));
        let unit = unit.ok_or_else(|| set.misfit(&codes, "as many rows of gates as of ups"))?;
        for (part, first) in [("gate_proj", 0), ("up_proj", 1)] {
            let source = Box::new(tensor.storage.clone());
            let storage = TensorStorage::Picked(Picked { source, source_bytes: bytes, unit, run: 1, stride: 2, first });
            let shape = Shape::new(&[experts, rows / 2, tensor.shape.cols()])?;
            let half = TensorInfo { name: String::new(), dtype: tensor.dtype, shape, bytes: bytes / 2, storage };
            set.put_made(&format!("{x}{part}.weight"), half, codes.place)?;
        }
    }
    Ok(())
}
