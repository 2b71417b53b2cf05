//! The threads of a runtime that render chat templates and compile grammars. Both recurse deeper than the stacks of
//! some hosts' threads allow. Their crates also keep thread-locals with destructors; on a host thread these would keep
//! the library mapped after `dlclose`.
//!
//! Invariants: a load starts all of these threads and initializes their thread-locals; no call starts one later. Each
//! thread does one task at a time; callers wait in order of arrival. A task requested within another task runs on the
//! same thread, within that task.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fair_semaphore::FairSemaphore;
use super::thread::{Worker, spawn_deep};
use super::watch::Watch;
use crate::error::{Error, Result, try_vec};
use crate::os;

/// Maximum number of threads of a runtime.
const MOST: usize = 4;
thread_local! {
    /// True while this thread does a task.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

pub struct DeepThreads {
    /// One permit per desk.
    permits: FairSemaphore,
    desks: Vec<Arc<Desk>>,
    workers: Vec<Worker>,
    /// Process that started the threads, which do not survive a `fork` of the host.
    process: u32,
}

/// The slot through which a thread receives its tasks.
struct Desk {
    is_taken: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Idle,
    Task(Task),
    Done(std::thread::Result<()>),
    Ended,
}

/// A task on the stack of its caller, which waits until the task is done.
struct Task(*mut (dyn FnMut() + Send));

// SAFETY: the function is `Send`, and its caller does not use it until the task is done.
unsafe impl Send for Task {}

impl DeepThreads {
    /// Starts `threads` threads, at most `MOST` and as many as the system allows, and returns after each has run
    /// `prepare`. Returns `None` on a system without threads.
    ///
    /// # Errors
    /// `Io` if the system cannot start any thread, and the errors of `prepare`.
    pub fn start(threads: usize, watch: &Watch, prepare: fn() -> Result<()>) -> Result<Option<DeepThreads>> {
        if !os::HAS_THREADS {
            return Ok(None);
        }
        let threads = threads.clamp(1, MOST);
        let (desks, workers) = (try_vec("threads", threads)?, try_vec("threads", threads)?);
        // On an error `deep` is dropped, which joins the threads that were started.
        let mut deep = DeepThreads { permits: FairSemaphore::new(0), desks, workers, process: os::process_id() };
        for i in 0..threads {
            let desk = Arc::new(Desk {
                is_taken: AtomicBool::new(false),
                state: Mutex::new(State::Idle),
                changed: Condvar::new(),
            });
            let (own, watch) = (desk.clone(), watch.clone());
            match spawn_deep(i, move || watch.during(i, || own.work())) {
                Ok(worker) => deep.workers.push(worker),
                Err(e) if deep.workers.is_empty() => return Err(e),
                Err(_) => break,
            }
            deep.desks.push(desk);
        }
        deep.permits = FairSemaphore::new(deep.desks.len());
        for desk in &deep.desks {
            desk.run(prepare)?;
        }
        Ok(Some(deep))
    }

    /// Returns the number of threads; 0 in a forked child.
    pub fn count(&self) -> usize {
        if self.are_here() { self.desks.len() } else { 0 }
    }

    /// False in a forked child, which has no such threads.
    pub fn are_here(&self) -> bool {
        os::process_id() == self.process
    }

    /// Runs `work` on one of the threads; a panic continues on the caller's thread. `patience` is as in
    /// `FairSemaphore::acquire`. Returns `None` if the caller gave up before a thread was free.
    pub fn run<T: Send>(
        &self,
        patience: impl FnMut() -> Option<Duration>,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<Option<T>> {
        if is_within() {
            return work().map(Some);
        }
        if !self.permits.acquire(false, patience)? {
            return Ok(None);
        }
        // A caller with a permit finds a desk, because there are as many desks as permits.
        let desk = self.desks.iter().find(|desk| desk.take());
        let busy = || Err(Error::Busy("thread for templates and grammars"));
        let result = catch_unwind(AssertUnwindSafe(|| desk.map_or_else(busy, |desk| desk.run(work))));
        desk.into_iter().for_each(|desk| desk.is_taken.store(false, Ordering::Release));
        self.permits.release();
        result.unwrap_or_else(|panic| resume_unwind(panic)).map(Some)
    }
}

/// True on a thread that is doing a task.
pub fn is_within() -> bool {
    WITHIN.get()
}

impl Drop for DeepThreads {
    fn drop(&mut self) {
        if !self.are_here() {
            // A forked child has nothing to join, and joining would never return.
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        for desk in &self.desks {
            *desk.lock() = State::Ended;
            desk.changed.notify_all();
        }
        self.workers.drain(..).for_each(Worker::join);
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::Acquire)
    }

    /// Runs incoming tasks until the desk is ended.
    fn work(&self) {
        WITHIN.set(true);
        let mut state = self.lock();
        loop {
            match std::mem::replace(&mut *state, State::Idle) {
                State::Task(task) => {
                    drop(state);
                    // SAFETY: the caller waits for `Done`, and does not use the function until then.
                    let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*task.0)() }));
                    state = self.lock();
                    *state = State::Done(result);
                    self.changed.notify_all();
                }
                State::Ended => return,
                waiting @ (State::Idle | State::Done(_)) => {
                    *state = waiting;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Runs `work` on the thread of this desk; the caller must have taken the desk.
    fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let (mut work, mut result) = (Some(work), None);
        let mut task = || {
            result = work.take().map(|work| work());
        };
        let task: *mut (dyn FnMut() + Send + '_) = &raw mut task;
        // SAFETY: only the lifetime changes. The task is done before this function returns, because nothing below
        // unwinds or returns before `Done`.
        let task = unsafe { std::mem::transmute::<*mut (dyn FnMut() + Send + '_), *mut (dyn FnMut() + Send)>(task) };
        let mut state = self.lock();
        *state = State::Task(Task(task));
        self.changed.notify_all();
        let ended: Result<(), Box<dyn Any + Send>> = loop {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            match std::mem::replace(&mut *state, State::Idle) {
                State::Done(ended) => break ended,
                other => *state = other,
            }
        };
        drop(state);
        match ended {
            Ok(()) => result.unwrap_or(Err(Error::Busy("thread for templates and grammars"))),
            Err(panic) => resume_unwind(panic),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn start(threads: usize) -> DeepThreads {
        DeepThreads::start(threads, &Watch::none(), || Ok(())).unwrap().unwrap()
    }

    /// Runs `work` without a time limit on the wait.
    fn run<T: Send>(deep: &DeepThreads, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        deep.run(|| Some(Duration::from_secs(60)), work).map(|result| result.expect("no caller gives up"))
    }

    #[test]
    fn results_errors_and_panics_come_back() {
        let deep = start(2);
        let here = thread::current().id();
        for _ in 0..5 {
            assert_eq!(run(&deep, || Ok(thread::current().id() != here)).ok(), Some(true));
            assert!(matches!(run(&deep, || Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled)));
            let panic = catch_unwind(AssertUnwindSafe(|| run(&deep, || -> Result<()> { panic!("deep") }))).unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"deep"));
        }
    }

    #[test]
    fn work_within_work_is_done_there() {
        let deep = start(1);
        let inner = || run(&deep, || Ok(thread::current().id()));
        let ids = run(&deep, || Ok((thread::current().id(), inner()?))).unwrap();
        assert_eq!(ids.0, ids.1);
    }

    #[test]
    fn each_thread_has_one_task_at_a_time() {
        for threads in 1..=MOST + 1 {
            let (deep, inside) = (start(threads), Mutex::new((0, 0)));
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            let enter = |by: i32| {
                                let mut inside = inside.lock().unwrap();
                                inside.0 += by;
                                inside.1 = inside.0.max(inside.1);
                            };
                            let work = || {
                                enter(1);
                                thread::yield_now();
                                enter(-1);
                                Ok(())
                            };
                            run(&deep, work).unwrap();
                        }
                    });
                }
            });
            assert!((1..=threads.min(MOST) as i32).contains(&inside.lock().unwrap().1));
        }
    }

    #[test]
    fn a_caller_that_gives_up_leaves_the_queue() {
        let deep = start(1);
        let (begun, go_on) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        thread::scope(|scope| {
            let long = scope.spawn(|| {
                run(&deep, || {
                    begun.wait();
                    go_on.wait();
                    Ok(1)
                })
            });
            begun.wait();
            let mut left = 3;
            let patience = || {
                left -= 1;
                (left > 0).then_some(Duration::from_millis(1))
            };
            let given_up = deep.run(patience, || -> Result<()> { panic!("no thread is free") });
            assert!(matches!(given_up, Ok(None)));
            assert_eq!(left, 0);
            go_on.wait();
            assert_eq!(long.join().unwrap().ok(), Some(1));
        });
        assert_eq!(run(&deep, || Ok(2)).ok(), Some(2));
    }

    #[test]
    fn what_they_cannot_prepare_is_an_error() {
        assert!(matches!(DeepThreads::start(3, &Watch::none(), || Err(Error::Cancelled)), Err(Error::Cancelled)));
    }
}
