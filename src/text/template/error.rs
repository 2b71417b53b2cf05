//! The errors with which a template ends, and the bound on what it writes.

use minijinja::{Error, ErrorKind};

/// Longest text that a template may write.
pub const MAX_OUTPUT: usize = 16 << 20;

/// An error of a template that fails on its conversation, or passes a bound.
pub fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.into())
}

/// An error about what templates may contain and this library does not have.
pub fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::NonPrimitive, what.to_owned())
}
