//! The errors of a template, and the limit of its output.

use minijinja::{Error, ErrorKind};

/// Maximum length of a template's output.
pub const MAX_OUTPUT: usize = 16 << 20;

/// Returns the error of a template that fails on its conversation, or exceeds a limit.
pub fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.into())
}

/// Returns the error of a template that uses an unsupported feature.
pub fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::NonPrimitive, what.to_owned())
}
