//! The network, written once in backend verbs. `config` holds every difference between architectures,
//! `arch` fills it from metadata, `weights` checks and uploads the tensors, `decoder` runs the layers.

pub mod arch;
pub mod config;
pub mod decoder;
pub mod rope;
pub mod weights;
