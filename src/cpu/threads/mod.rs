//! Threads of the CPU: `pool` has the workers and hands each its part of an op, `partition` divides the parts,
//! `disjoint` lets them write one buffer, `thread` starts threads, `deep` keeps those for templates and grammars,
//! `watch` runs the host's function on threads, `workers` has threads for loads, and `fair_semaphore` keeps the order
//! of the waiting callers.

pub mod deep;
pub(super) mod disjoint;
pub mod fair_semaphore;
mod partition;
pub mod pool;
pub mod sync;
pub mod thread;
pub mod watch;
pub(super) mod workers;

// Here and not in `pool`, whose source `tests` compiles a second time.
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod tests;
