//! Networks as programs of ops, and what a device is given to execute them.
//!
//! `op` lists the operations, `operands` what each reads and writes, `program` is a network of them, `check` compares
//! every shape, `weights` what a device holds of a model, `adapter_set` what is added to it, `sequence_spec` the shape
//! of what a sequence remembers, `step` the inputs of one step, `step_budget` the time that it may take, `device_info`
//! how a device is listed and measured, `load_options` what a caller chooses for the load of a model.
//! `model` builds programs, `cpu` and GPU backends execute them.

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
