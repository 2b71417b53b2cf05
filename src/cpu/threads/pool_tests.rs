//! The pool with workers, without workers, and with threads of a host.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread as system;
use std::time::Duration;

use super::pool::*;
use super::thread::MAX_THREADS;
use crate::error::Error;
use crate::graph::step_budget::StepBudget;

fn pool(threads: usize) -> Arc<Pool> {
    Arc::new(Pool::new(threads).unwrap())
}

#[test]
fn unusable_processors_are_refused() {
    assert!(Pool::bound(2, &[1 << 20]).is_err());
    let first = (0..1024).find(|cpu| Pool::bound(1, &[*cpu]).is_ok()).unwrap();
    let pool = Arc::new(Pool::bound(3, &[first]).unwrap());
    let sum = AtomicUsize::new(0);
    pool.enter().unwrap().run(|i| _ = sum.fetch_add(i, Ordering::Relaxed));
    assert_eq!(sum.into_inner(), 3);
}

#[test]
fn threads_look_at_different_shares_far_and_near() {
    for threads in 1..=MAX_THREADS {
        let mut looked: Vec<_> = (0..threads.min(HELPED)).map(|i| i * stride(threads) % threads).collect();
        looked.sort();
        looked.dedup();
        assert_eq!(looked.len(), threads.min(HELPED));
    }
    // One of eight fast cores helps each of sixteen slow cores.
    let is_helped = |share: usize| (0..8).any(|fast| (0..HELPED).any(|i| (fast + i * stride(24)) % 24 == share));
    assert!((8..24).all(is_helped));
}

#[test]
fn every_share_runs_once_a_job() {
    for threads in 1..=8 {
        let pool = pool(threads);
        assert_eq!(pool.threads(), threads);
        let counts: Vec<_> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..20 {
            let team = pool.enter().unwrap();
            for _ in 0..50 {
                team.run(|share| {
                    counts[share].fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1000), "{threads} threads");
    }
}

#[test]
fn a_job_sees_what_earlier_jobs_wrote() {
    let pool = pool(4);
    let team = pool.enter().unwrap();
    let mut a = vec![0usize; 1000];
    let mut b = vec![0usize; 1000];
    for _ in 0..300 {
        team.chunks_mut(&mut b, 7, |i, chunk| {
            for (j, x) in chunk.iter_mut().enumerate() {
                *x = a[999 - (i * 7 + j)] + 1;
            }
        });
        std::mem::swap(&mut a, &mut b);
    }
    assert!(a.iter().all(|&x| x == 300));
}

#[test]
fn a_panic_of_any_share_reaches_the_caller_and_the_pool_lives_on() {
    for threads in 1..=4 {
        let pool = pool(threads);
        for bad in 0..threads {
            let team = pool.enter().unwrap();
            let ended = AtomicUsize::new(0);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                team.run(|share| {
                    if share == bad {
                        panic!("share {share}");
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }))
            .unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().unwrap(), &format!("share {bad}"));
            assert_eq!(ended.load(Ordering::Relaxed), threads - 1);
            let sum = AtomicUsize::new(0);
            team.run(|share| {
                sum.fetch_add(share + 1, Ordering::Relaxed);
            });
            assert_eq!(sum.load(Ordering::Relaxed), threads * (threads + 1) / 2);
        }
    }
}

#[test]
fn steps_of_several_threads_take_turns() {
    let pool = pool(3);
    let inside = AtomicUsize::new(0);
    system::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let team = pool.enter().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    team.run(|_| ());
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn one_thread_is_never_waited_for() {
    let pool = pool(1);
    let (_a, _b) = (pool.enter().unwrap(), pool.enter().unwrap());
    assert!(pool.try_enter(2).is_none());
}

#[test]
fn workers_that_another_step_has_are_not_taken() {
    let pool = pool(3);
    let team = pool.enter().unwrap();
    assert!(pool.try_enter(2).is_none());
    drop(team);
    assert_eq!(pool.try_enter(2).map(|team| team.threads()), Some(2));
    assert!(pool.try_enter(2).is_some());
}

#[test]
fn dropping_ends_workers_that_never_ran_that_sleep_and_that_spin() {
    for threads in 1..=6 {
        drop(Pool::new(threads).unwrap());
        let pool = pool(threads);
        pool.enter().unwrap().run(|_| ());
        system::sleep(Duration::from_millis(2));
        let team = pool.enter().unwrap();
        team.run(|_| ());
        drop(pool);
        drop(team);
    }
}

#[test]
fn workers_that_parked_within_a_step_are_woken() {
    let pool = pool(3);
    let team = pool.enter().unwrap();
    for _ in 0..20 {
        system::sleep(Duration::from_millis(2));
        let n = AtomicUsize::new(0);
        team.for_each(100, |_| {
            n.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(n.load(Ordering::Relaxed), 100);
    }
}

#[test]
fn the_number_of_threads_changes_from_the_next_step_on() {
    let pool = pool(3);
    let team = pool.enter().unwrap();
    pool.set_threads(1).unwrap();
    let count = |team: &Team| {
        let n = AtomicUsize::new(0);
        team.run(|_| _ = n.fetch_add(1, Ordering::Relaxed));
        n.into_inner()
    };
    assert_eq!((count(&team), pool.threads(), count(&pool.enter().unwrap())), (3, 1, 1));
    drop(team);
    pool.set_threads(4).unwrap();
    assert_eq!(count(&pool.enter().unwrap()), 4);
    assert_eq!(count(&pool.enter_at(2, &StepBudget::unlimited()).unwrap().unwrap()), 2);
    assert!(pool.set_threads(1_000_000).is_err() && pool.threads() == 4);
}

/// The host may run shares in any order and on its own threads, skip some, run some twice and some late.
#[test]
fn threads_of_the_host_execute_each_share_once() {
    #[derive(Clone, Copy)]
    struct Context(*mut c_void);
    // SAFETY: `execute_share` may be called from any thread.
    unsafe impl Send for Context {}
    impl Context {
        fn run(self, share: Share, i: u32) {
            // SAFETY: called while the function that received both runs.
            unsafe { share(i, self.0) }
        }
    }
    let hosts: [(HostParallel, bool); 5] = [
        (Box::new(|n, share, c| ((0..n).for_each(|i| Context(c).run(share, i)), 0).1), true),
        (Box::new(|n, share, c| ((0..n).rev().for_each(|i| Context(c).run(share, i)), 0).1), true),
        (
            Box::new(|n, share, c| {
                let context = Context(c);
                system::scope(|scope| (0..n).for_each(|i| _ = scope.spawn(move || context.run(share, i))));
                0
            }),
            true,
        ),
        (Box::new(|n, share, c| ([0, 0, n + 7].iter().for_each(|i| Context(c).run(share, *i)), 0).1), false),
        (Box::new(|_, _, _| 5), false),
    ];
    for (host, is_good) in hosts {
        let pool = Arc::new(Pool::of_host(3, host).unwrap());
        let team = pool.enter().unwrap();
        for _ in 0..20 {
            let counts: [AtomicUsize; 3] = Default::default();
            team.run(|share| _ = counts[share].fetch_add(1, Ordering::Relaxed));
            assert_eq!(counts.map(AtomicUsize::into_inner), [1; 3]);
        }
        let panic = catch_unwind(AssertUnwindSafe(|| team.run(|share| assert!(share != 1, "share {share}"))));
        assert!(panic.is_err());
        assert_eq!(pool.take_fault().is_ok(), is_good);
        assert!(pool.take_fault().is_ok());
    }
}

#[test]
fn absurd_thread_counts_are_refused() {
    assert!(matches!(Pool::new(1_000_000), Err(Error::InvalidArgument(_))));
}
