//! From a file to a program: `keys` reads hyperparameters, `hyper` the common ones, `tensors` finds weights, `rope`
//! computes RoPE frequencies, `builder` emits ops, with `mixers`, `factors` and `windows`, `pooling` describes
//! embeddings, `arch` has one file per architecture, and `vision` one per family of vision and audio encoders.
//! `no_effect` lists what a file may contain in addition to what its network uses.

pub mod adapter;
pub mod arch;
mod builder;
mod factors;
mod hyper;
mod keys;
mod mixers;
mod no_effect;
pub mod pooling;
mod rope;
mod tensors;
pub mod vision;
mod windows;

pub use self::builder::{Network, OtherNetwork, Predictor, PredictorOf, SharedKvNetwork};
pub use self::hyper::Hyper;
