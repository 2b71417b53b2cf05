//! Ops that take more than one loop over their rows.

pub mod adapt;
pub mod experts;
pub mod heads;
pub mod recurrent;
