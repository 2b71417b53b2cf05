//! From a file to a program: `keys` reads hyper-parameters, `hyper` those that nearly all networks share, `tensors`
//! finds weights, `rope` computes rotary frequencies, `builder` puts ops together, helped by `mixers`, `factors` and
//! `windows`, `pooling` adds what stands after them in an encoder, `arch` has one file a network, and
//! `vision` one a family of encoders of pictures. `no_effect` lists
//! what a file may hold beyond what its network uses.

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
