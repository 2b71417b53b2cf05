//! What GPU backends have in common: what names neither a driver nor its calls.
//!
//! `planes` is the order of weights on a device, `arena` and `writer` lay memory out.

pub mod arena;
pub mod planes;
pub mod writer;

pub use self::writer::Address;
