//! Runs the semaphore and the pool of workers under a model checker: their unmodified sources, on primitives whose
//! threads shuttle schedules, in thousands of orders that a seed determines. A waiter that is never woken is a deadlock
//! there, because no wait ends by itself; a waiter that spins forever exceeds the maximum number of steps.
#![cfg(test)]

#[path = "fair_semaphore.rs"]
#[expect(clippy::duplicate_mod, reason = "here it finds other primitives")]
mod fair_semaphore;
#[path = "pool.rs"]
#[expect(clippy::duplicate_mod, reason = "here it finds other primitives")]
#[expect(dead_code, reason = "a model uses a part of it")]
mod pool;

mod sync {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::rand::{Rng, thread_rng};
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use shuttle::thread::yield_now;
    pub use std::sync::PoisonError;
    use std::time::Duration;

    use crate::error::Result;

    /// Fewer yields than in the pool give fewer orders to explore.
    pub const YIELDS: usize = 1;

    pub fn spins(_is_oversubscribed: bool) -> usize {
        2
    }

    pub struct Worker(shuttle::thread::JoinHandle<()>);

    impl Worker {
        pub fn join(self) {
            self.0.join().expect("no panic");
        }
    }

    pub fn spawn(_: usize, _: usize, _: Option<u32>, work: impl FnOnce() + Send + 'static) -> Result<Worker> {
        Ok(Worker(shuttle::thread::spawn(work)))
    }

    /// A wait that sometimes times out: other threads run meanwhile, and nothing is notified.
    pub fn wait_for<'a, T>(
        mutex: &'a Mutex<T>,
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        _: Duration,
    ) -> MutexGuard<'a, T> {
        if thread_rng().gen_bool(0.3) {
            drop(guard);
            shuttle::thread::yield_now();
            return mutex.lock().unwrap_or_else(PoisonError::into_inner);
        }
        condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
}

use std::sync::Arc;
use std::time::Duration;

use fair_semaphore::FairSemaphore;
use pool::Pool;
use shuttle::thread;
use sync::{AtomicUsize, Ordering, Rng, thread_rng};

const WAIT: Option<Duration> = Some(Duration::from_millis(1));

/// Runs a model in many orders: random ones, and ones with few switches at the places that matter.
fn in_many_orders(model: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(model, 1000);
    shuttle::check_pct(model, 1000, 3);
}

/// Callers of both kinds, some of which give up: the number of held permits never exceeds the limit, all callers
/// return, and in the end all permits are free.
#[test]
fn permits_are_never_exceeded_nor_lost() {
    for permits in [1, 2] {
        in_many_orders(move || {
            let semaphore = Arc::new(FairSemaphore::new(permits));
            let inside = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let (semaphore, inside) = (semaphore.clone(), inside.clone());
                    thread::spawn(move || {
                        for _ in 0..2 {
                            // The first two callers wait without a limit.
                            let patience = || if i < 2 || thread_rng().gen_bool(0.6) { WAIT } else { None };
                            let entered = semaphore.acquire(i % 2 == 1, patience).expect("memory");
                            assert!(entered || i >= 2);
                            if entered {
                                assert!(inside.fetch_add(1, Ordering::SeqCst) < permits);
                                thread::yield_now();
                                inside.fetch_sub(1, Ordering::SeqCst);
                                semaphore.release();
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert!((0..permits).all(|_| semaphore.try_acquire(false)) && !semaphore.try_acquire(false));
            assert_eq!((semaphore.waiting(), semaphore.is_urgent()), (0, false));
        });
    }
}

/// Queues callers one after the other while the one permit is taken; returns the served callers in order. `acquire`
/// receives the semaphore, a caller's number and a function to call from `patience`.
fn served(
    callers: usize,
    acquire: impl Fn(&FairSemaphore, usize, &dyn Fn()) -> bool + Clone + Send + 'static,
) -> Vec<usize> {
    let semaphore = Arc::new(FairSemaphore::new(1));
    let served = Arc::new(sync::Mutex::new(Vec::new()));
    assert!(semaphore.try_acquire(false));
    let mut threads = Vec::new();
    for i in 0..callers {
        let arrived = Arc::new(AtomicUsize::new(0));
        let (own, served, acquire, here) = (semaphore.clone(), served.clone(), acquire.clone(), arrived.clone());
        threads.push(thread::spawn(move || {
            if acquire(&own, i, &|| _ = here.fetch_add(1, Ordering::SeqCst)) {
                served.lock().expect("sound").push(i);
                own.release();
            }
        }));
        // The first call comes after the caller was queued.
        while arrived.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
    semaphore.release();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let served = served.lock().expect("sound");
    served.clone()
}

/// Callers are served in order of arrival, even if others leave the queue.
#[test]
fn the_order_of_arrival_is_kept() {
    in_many_orders(|| {
        let mut served = served(4, |semaphore, i, arrive| {
            let mut asked = false;
            let patience = || {
                arrive();
                // The second caller leaves after one wait, unless it is served before.
                let time = if i == 1 && asked { None } else { WAIT };
                asked = true;
                time
            };
            semaphore.acquire(false, patience).expect("memory")
        });
        served.retain(|i| *i != 1);
        assert_eq!(served, [0, 2, 3]);
    });
}

/// While both kinds wait they alternate, so that an urgent caller waits for at most one ordinary one, and ordinary ones
/// do not starve.
#[test]
fn urgent_callers_go_ahead_every_second_time() {
    in_many_orders(|| {
        let served = served(6, |semaphore, i, arrive| {
            let patience = || {
                arrive();
                WAIT
            };
            semaphore.acquire(i >= 3, patience).expect("memory")
        });
        assert_eq!(served, [3, 0, 4, 1, 5, 2]);
    });
}

/// Callers compute while others change the number of threads, sometimes to the same number. Each task executes each of
/// its chunks once and no chunk of another task. All callers return, and all workers end.
#[test]
fn every_share_runs_once_while_the_number_of_threads_changes() {
    in_many_orders(|| {
        let pool = Arc::new(Pool::new(1).expect("a pool"));
        let callers = (0..2).map(|_| {
            let pool = pool.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let team = pool.enter().expect("a team");
                    for _ in 0..2 {
                        let counts = [const { std::sync::atomic::AtomicUsize::new(0) }; 3];
                        team.run(|share| _ = counts[share].fetch_add(1, Ordering::Relaxed));
                        let counts = counts.map(|count| count.into_inner());
                        assert!((0..3).all(|i| counts[i] == usize::from(i < team.threads())), "{counts:?}");
                    }
                }
            })
        });
        let changes = [[2, 1, 3], [2, 2, 1]].map(|numbers| {
            let pool = pool.clone();
            thread::spawn(move || numbers.iter().for_each(|n| pool.set_threads(*n).expect("memory")))
        });
        callers.chain(changes).collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}
