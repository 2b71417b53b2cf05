//! What GPU backends have in common: what names neither a driver nor its calls.
//!
//! `planes` is the order of weights on a device, `weight_layout` the places of all weights of a model, `arena` and
//! `writer` lay memory out, `pieces` cuts matrices of the host into what a step copies.

pub mod arena;
pub mod pieces;
pub mod planes;
pub mod weight_layout;
pub mod writer;

pub use self::writer::Address;
