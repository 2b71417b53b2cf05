//! NVIDIA's ModelOpt: NVFP4 with an additional scale per tensor, and FP8.

use super::fp8;
use super::set::Set;
use crate::error::Result;
use crate::format::grouped::Blocks;

pub(super) fn gather(set: &mut Set) -> Result<()> {
    for x in set.with(".weight_scale_2") {
        let [weight, scale, factor] =
            ["weight", "weight_scale", "weight_scale_2"].map(|leaf| set.need(&format!("{x}.{leaf}")));
        let (weight, scale, factor) = (weight?, scale?, factor?);
        set.drop_all(&x, &[".input_scale"]);
        let [rows, width] = set.sizes(&weight)?;
        set.expect(&weight, &["U8"], &[rows, width])?;
        set.expect(&scale, &["F8_E4M3"], &[rows, width / 8])?;
        let &[value] = &*set.floats(&factor)? else { return Err(set.misfit(&factor, "one scale")) };
        set.put_fp4(&format!("{x}.weight"), &[rows, width.saturating_mul(2)], &weight, &scale, Blocks::Nvfp4)?;
        set.put_factors(&x, &[value])?;
    }
    fp8::gather_scaled(set, [128, 128])
}
