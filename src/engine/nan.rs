//! The one rule for results that are NaN or infinite: in their place comes an error that names the token. They come of
//! weights that are NaN or too large, so that the error is about the model's file.

use super::model::Model;
use crate::cpu::nan::all_finite;
use crate::error::{Error, Result};
use crate::sampling::NOT_A_NUMBER;

/// Refuses logits, as the network has made them, that are not all finite. `position`: of the token before them.
pub fn check_logits(model: &Model, logits: &[f32], position: usize) -> Result<()> {
    if all_finite(logits) { Ok(()) } else { Err(error(model, position)) }
}

/// Refuses the answer of a device that found a logit that is NaN or infinite after the token at a position.
pub fn check_chosen(model: &Model, answer: u32, position: usize) -> Result<()> {
    if answer == NOT_A_NUMBER { Err(error(model, position)) } else { Ok(()) }
}

fn error(model: &Model, position: usize) -> Error {
    let what = format!("a logit after the token at position {position} is NaN or infinite");
    Error::format(model.metadata().path(), what)
}
