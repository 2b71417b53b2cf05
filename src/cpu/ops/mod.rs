//! Ops that take more than one loop over their rows, and the row functions of norms and RoPE.

pub mod adapt;
pub mod experts;
pub mod heads;
pub mod ngrams;
pub mod norm;
pub mod recurrent;
pub mod rope;
pub mod streams;
