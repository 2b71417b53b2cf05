//! The one rule for results that are NaN or infinite: the result is replaced by an error that names the token. NaN and
//! infinity come from weights that are NaN or too large, so the error is about the model's file.

use super::model::Model;
use crate::cpu::nan::all_finite;
use crate::error::{Error, Result};
use crate::sampling::NOT_A_NUMBER;

/// Rejects logits of the network unless all are finite. `position`: the position of the token before them.
pub fn check_logits(model: &Model, logits: &[f32], position: usize) -> Result<()> {
    if all_finite(logits) { Ok(()) } else { Err(error(model, position)) }
}

/// Rejects a device's answer that a logit after the token at `position` is NaN or infinite.
pub fn check_chosen(model: &Model, answer: u32, position: usize) -> Result<()> {
    if answer == NOT_A_NUMBER { Err(error(model, position)) } else { Ok(()) }
}

fn error(model: &Model, position: usize) -> Error {
    let what = format!("a logit after the token at position {position} is NaN or infinite");
    Error::format(model.metadata().path(), what)
}
