//! Networks as programs of ops, and what a device needs to execute them.
//!
//! `op` lists the operations, `operands` what each reads and writes, `program` is a network, `check` validates all
//! shapes, `weights` are the tensors of a model, `adapter_set` the LoRA adapters of a sequence, `sequence_spec` the
//! shape of its KV cache and recurrent states, `step` the inputs of one step, `step_budget` its time limit,
//! `device_info` describes a device, `load_options` the options of a load. `model` builds programs, `cpu` and GPU
//! backends execute them.

pub mod adapter_set;
mod check;
pub mod device_info;
pub mod load_options;
pub mod op;
mod operands;
pub mod program;
pub mod sequence_spec;
pub mod step;
pub mod step_budget;
pub mod weights;

pub(crate) use self::operands::{plain_op, without_matrix};
