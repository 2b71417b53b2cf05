//! Threads of the CPU: `pool` has the workers and hands each its part of an op, `partition` divides the parts,
//! `disjoint` lets them write one buffer, `thread` starts threads, `fair_semaphore` keeps the order of those that wait.

pub(super) mod disjoint;
pub mod fair_semaphore;
mod partition;
pub mod pool;
pub mod sync;
pub mod thread;

#[cfg(test)]
mod tests;
