//! Threads of the CPU: `pool` (workers that execute the shares of an op), `partition` (division of work), `disjoint`
//! (concurrent writes to one buffer), `thread` (starting threads), `deep` (threads for templates and grammars), `watch`
//! (the host's thread callback), `workers` (threads of loads) and `fair_semaphore` (order of waiting callers).

pub mod deep;
pub(super) mod disjoint;
pub mod fair_semaphore;
mod partition;
pub mod pool;
pub mod sync;
pub mod thread;
pub mod watch;
pub(super) mod workers;

// Not in `pool`, because `tests` compiles its source a second time.
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod tests;
