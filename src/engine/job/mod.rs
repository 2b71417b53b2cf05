//! Generations that run in slices, several in common passes.

mod job;
pub(super) mod logprobs;
pub(super) mod parked;
pub(super) mod pipelined;
pub(super) mod progress;
pub(super) mod schedule;
pub(super) mod text;

pub(super) use job::ReasoningBound;
pub use job::{Job, JobParams, Request};
