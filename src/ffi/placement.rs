//! Expert offload: parts of a model on another device than their layers.

use crate::engine::{Copied, Placement};
use crate::error::{Error, Result, try_vec};

use super::arguments::Call;
use super::status::RZ_NONE;

/// `rz_placement.what`: the experts of mixture-of-experts layers (MoE).
pub const RZ_PLACED_EXPERTS: u32 = 1;

/// `rz_placement.place`: the experts of the last layers are on GPUs, as many layers as fit in addition to everything
/// else, including a cache of default capacity. The experts of the other layers are on the CPU.
pub const RZ_PLACE_AUTO: u32 = 0;
/// `rz_placement.place`: on the CPU.
pub const RZ_PLACE_CPU: u32 = 1;
/// `rz_placement.place`: the experts of the last layers are on GPUs, for as many layers as possible while these experts
/// take at most `bytes` in total. The experts of the other layers are on the CPU.
pub const RZ_PLACE_GPU: u32 = 2;

/// Part of a model and its place (rz_model_params.placements). Since 0.1.0.
///
/// For a layer whose experts are on the CPU, the GPU computes attention, router and shared expert, the CPU computes the
/// chosen experts, and the GPU adds their sum. The GPUs then need memory only for the weights that every token uses, so
/// the model can be several times as large as the GPUs' memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_placement {
    /// sizeof(rz_placement), the same in all elements of an array.
    pub struct_size: u32,
    /// RZ_PLACED_..., a different one in each element of the array.
    pub what: u32,
    /// RZ_PLACE_...
    pub place: u32,
    /// With RZ_PLACE_CPU: first layer that the placement applies to, from 0. With another `place`: 0.
    pub first_layer: u32,
    /// With RZ_PLACE_CPU: number of MoE layers, from `first_layer` on, that the placement applies to; 0: all of them.
    /// For a model with experts in all layers, 16 is llama.cpp's --n-cpu-moe 16. With another `place`: 0.
    pub n_layers: u32,
    /// 0.
    pub reserved: u32,
    /// With RZ_PLACE_GPU: maximum bytes of experts on all GPUs together, not 0. With another `place`: 0.
    pub bytes: u64,
}

/// Maximum number of elements of an array, more than the number of RZ_PLACED_... constants.
const MAX: usize = 16;

/// Converts the caller's array of placements.
pub(super) fn placement(call: &Call, placements: *const rz_placement, n: usize) -> Result<Placement> {
    if n > MAX {
        return Err(Error::invalid(format!("rz_model_params.n_placements is {n}; it must be at most {MAX}")));
    }
    let mut all: Vec<rz_placement> = try_vec("placements", n)?;
    let mut found = Placement::default();
    for i in 0..n {
        let at = |what: &str| format!("rz_model_params.placements[{i}]{what}");
        let in_entry = |e| match e {
            Error::InvalidArgument(what) => Error::InvalidArgument(format!("{}: {what}", at(""))),
            other => other,
        };
        let placement: rz_placement = call.element(placements, i).map_err(in_entry)?;
        if placement.what != RZ_PLACED_EXPERTS {
            let (what, number) = (at(".what"), placement.what);
            return Err(Error::invalid(format!("{what} is {number}; it must be RZ_PLACED_EXPERTS")));
        }
        if all.iter().any(|before| before.what == placement.what) {
            return Err(Error::invalid(format!("{} is the second one of the same part of a model", at(""))));
        }
        found = placed(&placement).map_err(|why| Error::invalid(at(&why)))?;
        all.push(placement);
    }
    Ok(found)
}

/// Converts one element. An error begins with the name of the field.
fn placed(placement: &rz_placement) -> std::result::Result<Placement, String> {
    let &rz_placement { place, first_layer, n_layers, bytes, .. } = placement;
    let layers = [(".first_layer", first_layer), (".n_layers", n_layers)];
    let needless = |place: &str| {
        let found = layers.into_iter().find(|(_, number)| *number != 0);
        found.map_or(Ok(()), |(field, number)| Err(format!("{field} is {number}; it must be 0 with {place}")))
    };
    match place {
        RZ_PLACE_AUTO | RZ_PLACE_CPU if bytes != 0 => {
            Err(format!(".bytes is {bytes}; it must be 0 unless the place is RZ_PLACE_GPU"))
        }
        RZ_PLACE_AUTO => needless("RZ_PLACE_AUTO").map(|()| Placement::Auto),
        RZ_PLACE_CPU => {
            let n = (n_layers != 0).then_some(n_layers as usize);
            Ok(Placement::Host { first: first_layer as usize, n })
        }
        RZ_PLACE_GPU if bytes == 0 => {
            Err(".bytes is 0; it must be positive with RZ_PLACE_GPU (RZ_PLACE_CPU leaves GPUs none)".to_owned())
        }
        RZ_PLACE_GPU => needless("RZ_PLACE_GPU").map(|()| Placement::Bytes(bytes)),
        _ => Err(format!(".place is {place}; it must be RZ_PLACE_AUTO, RZ_PLACE_CPU or RZ_PLACE_GPU")),
    }
}

/// Converts rz_model_params.experts_copied_from.
pub(super) fn copied(from: u32) -> Copied {
    match from {
        0 => Copied::Measured,
        RZ_NONE => Copied::Never,
        rows => Copied::From(rows as usize),
    }
}
