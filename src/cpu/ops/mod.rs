//! Ops that take more than one loop over their rows, and the rows of norms and rotations.

pub mod adapt;
pub mod experts;
pub mod heads;
pub mod ngrams;
pub mod norm;
pub mod recurrent;
pub mod rope;
pub mod streams;
