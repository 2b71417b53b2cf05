//! A caller's callback that edits logits before a token is sampled.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result, try_vec};

type Edit = dyn Fn(&mut [f32], &[u32]) -> i32 + Send + Sync;

/// Receives logits, which it may change, and the tokens so far. Returns 0, or another number to end the text.
#[derive(Clone)]
pub struct LogitsEdit(Arc<Edit>);

impl LogitsEdit {
    pub fn new(edit: impl Fn(&mut [f32], &[u32]) -> i32 + Send + Sync + 'static) -> LogitsEdit {
        LogitsEdit(Arc::new(edit))
    }

    /// Writes edited logits to `out`, reusing its memory. A logit of negative infinity stays so, because the model
    /// never samples such a token.
    ///
    /// # Errors
    /// `InvalidArgument` if the callback returns another number than 0.
    pub(super) fn apply(&self, logits: &[f32], history: &[u32], out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        if out.capacity() < logits.len() {
            *out = try_vec("sampler", logits.len())?;
        }
        out.extend_from_slice(logits);
        match (self.0)(out, history) {
            0 => {}
            other => {
                let what = format!("the logits callback of the sampler returned {other}; it must return 0 to go on");
                return Err(Error::invalid(what));
            }
        }
        for (edited, _) in out.iter_mut().zip(logits).filter(|(_, logit)| **logit == f32::NEG_INFINITY) {
            *edited = f32::NEG_INFINITY;
        }
        Ok(())
    }
}

impl PartialEq for LogitsEdit {
    fn eq(&self, other: &LogitsEdit) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for LogitsEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogitsEdit")
    }
}
