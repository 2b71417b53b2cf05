//! Generations that run in slices, several in common passes.

mod job;
pub(super) mod logprobs;
pub(super) mod parked;
pub(super) mod pipelined;
pub(super) mod progress;
mod request;
pub(super) mod schedule;
pub(super) mod text;

pub use job::Job;
pub(super) use request::ReasoningBound;
pub use request::{JobParams, Request};
