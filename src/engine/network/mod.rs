//! The program of a model with its weights, and the steps and passes through it.

pub(super) mod embedder;
pub(super) mod executors;
mod network;
pub(super) mod observed;
pub(super) mod pass;
pub(super) mod predictor;
pub(super) mod step;

pub(super) use network::Network;
