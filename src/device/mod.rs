//! The devices that execute programs, as the engine sees them: a `Backend` holds the weights of a model, an `Executor`
//! runs its steps, a `Sequence` holds the KV cache and recurrent state of a text, an `Adapter` is a LoRA adapter.
//!
//! A model is on the CPU, on a GPU, or divided among several devices: `partition` decides which layers go where,
//! `placement` which experts stay on the host, `pipeline` runs the parts. `select` chooses the device of a load that
//! names none, after `self_test` has compared it with the CPU. `undivided` loads media encoders.

pub mod adapter;
pub mod backend;
pub mod batch;
mod checkpoints;
pub mod executor;
mod host_experts;
mod load;
pub mod partition;
pub mod pipeline;
pub mod placement;
pub mod select;
pub mod self_test;
pub mod sequence;
mod undivided;

pub use self::adapter::{Adapter, Factors};
pub use self::backend::{Backend, CPU_DEVICE, device, devices};
pub use self::batch::Batch;
pub use self::checkpoints::Checkpoints;
pub use self::executor::Executor;
pub use self::load::Load;
pub use self::partition::MAX_GPUS;
pub use self::sequence::Sequence;
pub use self::undivided::{Undivided, Workload};
pub use crate::graph::device_info::{DeviceInfo, DeviceKind, Part, Times};
pub use crate::graph::step_budget::StepBudget;
