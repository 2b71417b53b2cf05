//! Handling of NaN and infinite results: an error that names the token replaces the result. The cause is NaN or
//! overflowing weights, so the error is about the model file.

use super::model::Model;
use crate::cpu::nan::all_finite;
use crate::error::{Error, Result};
use crate::sampling::NOT_A_NUMBER;

/// Fails unless all logits are finite. `position`: the position of the token before them.
pub fn check_logits(model: &Model, logits: &[f32], position: usize) -> Result<()> {
    if all_finite(logits) { Ok(()) } else { Err(error(model, position)) }
}

/// Fails if a device reports a NaN or infinite logit after the token at `position`.
pub fn check_chosen(model: &Model, answer: u32, position: usize) -> Result<()> {
    if answer == NOT_A_NUMBER { Err(error(model, position)) } else { Ok(()) }
}

fn error(model: &Model, position: usize) -> Error {
    let what = format!("a logit after the token at position {position} is NaN or infinite");
    Error::format(model.metadata().path(), what)
}
