//! Jobs: generation requests that run in slices, with continuous batching.

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
