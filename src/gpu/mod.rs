//! What GPU backends share: the traits of a backend (`interface`), and driver-independent code.
//!
//! A backend is a folder that implements the traits, and a line of `drivers.rs`. `planes` is the order of weights on a
//! device, `weight_layout` the offsets of all weights of a model, `activations` the buffers of activations, `arena` and
//! `writer` place arrays in memory, `fuse` selects ops that share kernels, `pieces` divides matrices of the host for
//! copying, `verdict` holds self-test results of a device, `kept` their file.

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
    Each, GpuAdapter, GpuDevice, GpuDriver, GpuExecutor, GpuModel, GpuSequence, HostTransfer, PieceStream, Transfer,
    own, own_mut, wrong_backend,
};
pub use self::kept::Kept;
pub use self::writer::Address;
