//! What GPU backends share: the traits by which `device` knows them (`interface`), and code that depends on no driver.
//!
//! A backend is a folder that implements the traits, and a line of `drivers.rs`. `planes` is the order of weights on a
//! device, `weight_layout` the places of all weights of a model, `activations` the buffers that ops compute in, `arena`
//! and `writer` lay memory out, `fuse` chooses ops that share kernels, `pieces` cuts matrices of the host into what a
//! step copies, `verdict` is what is known of a device, `kept` has a file of it.

pub mod activations;
pub mod arena;
pub mod fuse;
mod interface;
mod kept;
pub mod pieces;
pub mod planes;
pub mod verdict;
pub mod weight_layout;
pub mod writer;

pub use self::interface::{
    Each, GpuAdapter, GpuDevice, GpuDriver, GpuExecutor, GpuModel, GpuSequence, HostWay, PieceWay, Transfer, own,
    own_mut, wrong_backend,
};
pub use self::kept::Kept;
pub use self::writer::Address;
