//! The thread pool that computes tokens. Owns the workers and the barrier of a task. A step acquires the pool once
//! (`enter`) and then forks and joins many times (`Team::run`), so that a fork costs a few transfers of cache lines
//! instead of a system call. A task has one share of the work per thread. Relies on `thread` to start workers and on
//! `partition` to divide items. Instead of workers, the host's own threads may execute the shares of a task, in any
//! order and with any concurrency.
//!
//! The division of work never depends on the thread that executes it, so that results are deterministic.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fair_semaphore::FairSemaphore;
use super::sync::{
    AtomicBool, AtomicU8, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError, Worker, YIELDS, spawn,
    spin_loop, spins, yield_now,
};
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::partition::{Claims, Partition};
use crate::cpu::threads::thread::{MAX_THREADS, as_own, check_cpus};
use crate::cpu::threads::watch::{Role, Watch};
use crate::error::{Error, Result, try_vec};
use crate::graph::step_budget::StepBudget;
use crate::os;

/// Maximum number of shares that a thread searches for items, including the thread's own share. The number is limited
/// because each share has its own cache line, which a search may move.
pub(super) const HELPED: usize = 16;

/// Returns the distance between the shares that a thread searches. With more threads than `HELPED` the distance is
/// above 1: neighboring shares are likely to belong to cores of one kind, so that otherwise only slow cores would help
/// slow cores.
pub(super) fn stride(threads: usize) -> usize {
    // A step coprime to `threads` visits each share once; no number up to `MAX_THREADS` is a multiple of all four.
    let coprime = || [5, 7, 11, 13].into_iter().find(|step| !threads.is_multiple_of(*step));
    if threads <= HELPED { 1 } else { coprime().unwrap_or(1) }
}

/// Time after which a step releases the workers if others wait: longer than one token of a small model, so that most
/// tokens run without interruption.
const TIME_SLICE: Duration = Duration::from_millis(5);
/// The time slice if one of the waiting steps has a time limit.
const SHORT_TIME_SLICE: Duration = Duration::from_millis(1);

thread_local! {
    /// True while this thread is inside the host's function.
    static WITHIN_HOST: Cell<bool> = const { Cell::new(false) };
}

/// The function that every share of a task executes.
type ShareFn = dyn Fn(usize) + Sync;

/// Function that executes share `i` of the task at `context`. The host calls this function.
pub type Share = unsafe extern "C" fn(i: u32, context: *mut c_void);

/// The host's function: calls the given share function with the context and every number below `n`, each once. After
/// all calls have returned, the host's function returns 0; on failure it returns another number.
pub type HostParallel = Box<dyn Fn(u32, Share, *mut c_void) -> i32 + Send + Sync>;

/// Workers that sleep between steps and are joined when the pool is dropped, or threads of the host.
pub struct Pool {
    workers: Mutex<Arc<WorkerSet>>,
    /// Number of threads of the workers.
    threads: AtomicUsize,
    /// Processors to which threads are bound; empty if unbound.
    cpus: Vec<u32>,
    watch: Watch,
    /// One permit, for the workers.
    permits: FairSemaphore,
    host: Option<HostParallel>,
    /// The reason why the host failed to execute all shares of a task.
    fault: Mutex<Option<Error>>,
}

/// The workers of a pool, until the number of threads changes and the last team that uses them ends.
struct WorkerSet {
    core: Arc<Core>,
    workers: Vec<Worker>,
    /// Process that started the workers. Workers do not survive a `fork` of the host; the child computes on its
    /// caller's thread only.
    process: u32,
}

/// State shared by the caller and the workers.
struct Core {
    phase: AtomicU8,
    /// Number of the current task.
    epoch: AtomicUsize,
    task: UnsafeCell<Option<&'static ShareFn>>,
    slots: Vec<Slot>,
    /// The claims of every share.
    claims: Vec<Claims>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    spins: usize,
}

// SAFETY: only a team of several threads, which holds the pool's one permit (`Pool::team`), writes `task`, and only
// while every slot has finished the previous task (`Team::run` waits for that). `task` is read only after a slot of the
// current task was claimed.
unsafe impl Sync for Core {}
// SAFETY: the task inside is `Sync`, so that any thread may use a reference to it.
unsafe impl Send for Core {}

/// The part of the barrier that belongs to one share. Two cache lines per slot, for the adjacent-line prefetcher.
#[repr(align(128))]
struct Slot {
    /// The last task whose share was claimed; increases by one per task.
    claimed: AtomicUsize,
    /// The last task whose share is done.
    done: AtomicUsize,
    parked: AtomicBool,
    /// Locked by `wake` after `parked` has become false and before the notification, so that a worker that is about to
    /// wait does not miss the notification.
    gate: Mutex<()>,
    woken: Condvar,
}

/// The phase between steps, in which workers park immediately.
const RESTING: u8 = 0;
const WORKING: u8 = 1;
const STOPPING: u8 = 2;

impl Pool {
    /// Starts a pool of the caller and `threads - 1` workers. 0 means one thread per processor that the process may
    /// use, or one per fast core if cores differ.
    pub fn new(threads: usize) -> Result<Pool> {
        Pool::bound(threads, &[])
    }

    /// Starts a pool whose workers are bound to `cpus`, round-robin; the caller's thread is not bound.
    pub fn bound(threads: usize, cpus: &[u32]) -> Result<Pool> {
        Pool::watched(threads, cpus, Watch::none())
    }

    /// As `bound`; calls `watch` on the workers.
    pub fn watched(threads: usize, cpus: &[u32], watch: Watch) -> Result<Pool> {
        check_cpus(cpus)?;
        let mut copy = try_vec("processors", cpus.len())?;
        copy.extend_from_slice(cpus);
        Pool::start(threads, copy, None, watch)
    }

    /// Returns a pool without workers, whose tasks of `threads` shares the host executes.
    pub fn of_host(threads: usize, host: HostParallel) -> Result<Pool> {
        Pool::start(threads, Vec::new(), Some(host), Watch::none())
    }

    fn start(threads: usize, cpus: Vec<u32>, host: Option<HostParallel>, watch: Watch) -> Result<Pool> {
        let workers = WorkerSet::start(threads, &cpus, host.is_none().then_some(&watch))?;
        Ok(Pool {
            threads: AtomicUsize::new(workers.core.slots.len()),
            workers: Mutex::new(Arc::new(workers)),
            cpus,
            watch,
            permits: FairSemaphore::new(1),
            host,
            fault: Mutex::new(None),
        })
    }

    /// Returns the host's thread callback for threads of `role`.
    pub fn watch(&self, role: Role) -> Watch {
        self.watch.with(role)
    }

    /// Returns the processor for thread `i` of a load, counted from 0; `None` if threads are not bound.
    pub fn cpu_of_load(&self, i: usize) -> Option<u32> {
        self.cpus.get(i.checked_rem(self.cpus.len())?).copied()
    }

    /// Changes the number of threads, from the next `enter` on; 0 is as in `new`.
    pub fn set_threads(&self, threads: usize) -> Result<()> {
        let workers = Arc::new(WorkerSet::start(threads, &self.cpus, self.host.is_none().then_some(&self.watch))?);
        let mut current = lock(&self.workers);
        self.threads.store(workers.core.slots.len(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *current, workers);
        drop(current);
        // The previous workers are joined here, unless a step still uses them.
        drop(before);
        Ok(())
    }

    /// Returns the number of threads that execute a task, including the caller.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// True if steps wait for one another. `set_threads` may change that before the next step.
    pub fn is_shared(&self) -> bool {
        self.workers().is_shared()
    }

    /// True if threads of the host do the work.
    pub fn is_of_host(&self) -> bool {
        self.host.is_some()
    }

    /// Fails with the reason why the host did not execute all shares of a task; the caller of `run` must check it.
    pub fn take_fault(&self) -> Result<()> {
        lock(&self.fault).take().map_or(Ok(()), Err)
    }

    /// Rejects a call on a thread that waits for shares of a task. The host may run other work on such a thread. A call
    /// from that work would wait for a step that itself waits for the thread.
    pub fn check_not_within_share(&self) -> Result<()> {
        match self.is_of_host() && WITHIN_HOST.get() {
            true => Err(Error::Busy("a runtime whose rz_parallel_callback runs on this thread")),
            false => Ok(()),
        }
    }

    /// `enter_at` for tasks of any number of shares, without a time limit.
    pub fn enter(self: &Arc<Self>) -> Result<Team> {
        self.enter_at(usize::MAX, &StepBudget::unlimited())?.ok_or(Error::Cancelled)
    }

    /// Acquires the workers for one step with tasks of at most `most` shares. While another step has the workers this
    /// call waits, and returns `None` if `budget` runs out. A pool of one thread never waits.
    pub fn enter_at(self: &Arc<Self>, most: usize, budget: &StepBudget) -> Result<Option<Team>> {
        self.check_not_within_share()?;
        let workers = self.workers();
        if !workers.is_shared() {
            return Ok(Some(self.team(workers, most, false)));
        }
        let has_permit = self.permits.acquire(budget.is_timed(), || budget.patience())?;
        Ok(has_permit.then(|| self.team(self.workers(), most, true)))
    }

    /// Acquires several workers for tasks of at most `most` shares. Returns `None` if there is one thread or if another
    /// step has the workers.
    pub fn try_enter(self: &Arc<Self>, most: usize) -> Option<Team> {
        let is_free = self.is_shared() && self.check_not_within_share().is_ok() && self.permits.try_acquire(false);
        is_free.then(|| self.team(self.workers(), most, true))
    }

    /// Returns the workers of a step that begins now.
    fn workers(&self) -> Arc<WorkerSet> {
        lock(&self.workers).clone()
    }

    /// Returns a team for workers; `locked` if the caller has the permit.
    ///
    /// Invariant: a team without the permit must have workers that are not shared, so that its tasks run on the
    /// caller's thread and do not access the workers' `Core`. The number of threads may change between any two reads of
    /// the pool, so the decision about the permit must use the workers that the team gets.
    fn team(self: &Arc<Self>, workers: Arc<WorkerSet>, most: usize, locked: bool) -> Team {
        debug_assert!(locked || !workers.is_shared());
        if locked {
            workers.core.phase.store(WORKING, Ordering::SeqCst);
            workers.wake();
        }
        let threads = workers.threads().min(most.max(1));
        Team { pool: self.clone(), workers, threads, locked, since: Instant::now(), not_sync: PhantomData }
    }
}

/// Returns the processor of worker `index`.
fn cpu(cpus: &[u32], index: usize) -> Option<u32> {
    Some(cpus[index.checked_sub(1)?.checked_rem(cpus.len())?])
}

impl WorkerSet {
    /// Allocates `threads` shares and starts a worker for each except the first; `watch` is `None` if the host provides
    /// the threads.
    fn start(threads: usize, cpus: &[u32], watch: Option<&Watch>) -> Result<WorkerSet> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // One thread per fast core if cores differ: the fast cores can saturate memory bandwidth.
        let fast = || os::fast_cores().unwrap_or(MAX_THREADS);
        let threads = if threads == 0 { processors.min(fast()).min(MAX_THREADS) } else { threads };
        if threads > MAX_THREADS {
            return Err(Error::invalid(format!("{threads} threads, at most {MAX_THREADS} are supported")));
        }
        let mut claims = try_vec("threads", threads)?;
        claims.extend((0..threads).map(|_| Claims::default()));
        let mut slots = try_vec("threads", threads)?;
        slots.extend((0..threads).map(|_| Slot {
            claimed: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            parked: AtomicBool::new(false),
            gate: Mutex::new(()),
            woken: Condvar::new(),
        }));
        let core = Arc::new(Core {
            phase: AtomicU8::new(RESTING),
            epoch: AtomicUsize::new(0),
            task: UnsafeCell::new(None),
            slots,
            claims,
            panic: Mutex::new(None),
            spins: spins(threads > processors),
        });
        let mut workers = WorkerSet { core, workers: try_vec("threads", threads - 1)?, process: os::process_id() };
        for (index, watch) in (1..threads).zip(watch.into_iter().cycle()) {
            let (core, watch) = (workers.core.clone(), watch.clone());
            let work = move || watch.during(index, || core.work(index));
            // On an error `workers` is dropped, which joins the started workers.
            workers.workers.push(spawn(index, threads, cpu(cpus, index), work)?);
        }
        Ok(workers)
    }

    /// Returns the number of shares of a task.
    fn threads(&self) -> usize {
        if os::process_id() == self.process { self.core.slots.len() } else { 1 }
    }

    /// True if there are several threads, so that steps must wait for one another. False in a forked child, which has
    /// no workers: a step there could wait forever.
    fn is_shared(&self) -> bool {
        self.threads() > 1
    }

    /// Wakes the parked workers. The caller must have stored the new epoch or phase with `SeqCst` before.
    fn wake(&self) {
        self.core.slots.iter().for_each(Slot::wake);
    }
}

impl Drop for WorkerSet {
    fn drop(&mut self) {
        if os::process_id() != self.process {
            // A forked child has nothing to join, and joining would never return.
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        self.core.phase.store(STOPPING, Ordering::SeqCst);
        self.wake();
        for worker in self.workers.drain(..) {
            worker.join();
        }
    }
}

impl Core {
    fn work(&self, index: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.wait(&self.slots[index], seen) {
            seen = epoch;
            self.execute_once(index, epoch);
        }
    }

    /// Executes share `index` of a task unless it is already claimed.
    fn execute_once(&self, index: usize, epoch: usize) {
        let slot = &self.slots[index];
        if slot.claim(epoch) {
            // SAFETY: the share of this epoch is claimed, so that `run` waits for `done` before it returns.
            unsafe { self.execute(index) };
            slot.done.store(epoch, Ordering::Release);
        }
    }

    /// Waits for the next task after `seen`; `None` when the pool ends.
    fn wait(&self, slot: &Slot, seen: usize) -> Option<usize> {
        let mut looks = 0;
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            if epoch != seen {
                return Some(epoch);
            }
            let phase = self.phase.load(Ordering::Relaxed);
            if phase == STOPPING {
                return None;
            }
            looks += 1;
            if phase == WORKING && looks < self.spins {
                spin_loop();
            } else if phase == WORKING && looks < self.spins + YIELDS {
                yield_now();
            } else {
                // The flag is set before the second read: either the read sees the change, or `wake` sees the flag.
                slot.parked.store(true, Ordering::SeqCst);
                if self.epoch.load(Ordering::SeqCst) == seen && self.phase.load(Ordering::SeqCst) == phase {
                    slot.park();
                }
                slot.parked.store(false, Ordering::SeqCst);
                looks = 0;
            }
        }
    }

    /// Executes share `index` of the current task; keeps its panic for the caller.
    ///
    /// # Safety
    /// The share must be claimed for the current epoch and not yet done.
    unsafe fn execute(&self, index: usize) {
        // SAFETY: `task` is not written before this share is done, by this function's contract.
        let task = unsafe { *self.task.get() };
        if let Some(task) = task
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(index)))
        {
            lock(&self.panic).get_or_insert(panic);
        }
    }
}

/// Executes share `i` of the task of the core at `context` unless it is already claimed; ignores any other number.
unsafe extern "C" fn execute_share(i: u32, context: *mut c_void) {
    // SAFETY: the host passes the context that `run` gave it, while `run` waits for the host's function.
    let core = unsafe { &*context.cast::<Core>() };
    if (i as usize) < core.slots.len() {
        as_own(|| core.execute_once(i as usize, core.epoch.load(Ordering::Acquire)));
    }
}

impl Slot {
    /// Waits until `wake` resets `parked`.
    fn park(&self) {
        let mut gate = lock(&self.gate);
        while self.parked.load(Ordering::SeqCst) {
            gate = self.woken.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wake(&self) {
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            drop(lock(&self.gate));
            self.woken.notify_one();
        }
    }

    fn claim(&self, epoch: usize) -> bool {
        let before = epoch.wrapping_sub(1);
        self.claimed.load(Ordering::Relaxed) == before
            && self.claimed.compare_exchange(before, epoch, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The right of one step to use the workers. Dropping a team lets the workers park.
///
/// A team is not `Sync`, so that a task cannot start another one.
pub struct Team {
    pool: Arc<Pool>,
    workers: Arc<WorkerSet>,
    /// Number of shares of a task, at most the set's number of threads.
    threads: usize,
    /// True if the team holds the pool's permit.
    locked: bool,
    /// Time at which the team got the workers.
    since: Instant,
    not_sync: PhantomData<Cell<()>>,
}

impl Team {
    /// Returns the number of shares of a task.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// True if another step waits for the workers and this one has used up its time: this step must end here and
    /// continue after the others.
    pub fn is_over(&self) -> bool {
        let permits = &self.pool.permits;
        self.locked
            && permits.waiting() > 0
            && self.since.elapsed() >= if permits.is_urgent() { SHORT_TIME_SLICE } else { TIME_SLICE }
    }

    /// Executes `task(0)`, ..., `task(threads - 1)`, each once, and returns when all are done. Raises a panic of one of
    /// them after the others have ended.
    ///
    /// Worker i executes share i; the caller executes the shares of workers that have not run yet, so that a step never
    /// waits for a processor that is busy with other work.
    pub fn run(&self, task: impl Fn(usize) + Sync) {
        let core = &*self.workers.core;
        if self.threads == 1 {
            return task(0);
        }
        let threads = self.threads;
        let task = |share: usize| {
            if share < threads {
                task(share)
            }
        };
        let task: &(dyn Fn(usize) + Sync) = &task;
        // SAFETY: only the lifetime changes. Shares are executed between their claim and `done`, and this function
        // returns after every share is done (`execute` catches panics, so there is no early exit).
        let task: &'static ShareFn = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static ShareFn>(task) };
        // SAFETY: all shares of the previous task are done and no worker reads the cell before the store below.
        unsafe { *core.task.get() = Some(task) };
        let epoch = core.epoch.load(Ordering::Relaxed).wrapping_add(1);
        core.epoch.store(epoch, Ordering::SeqCst);
        self.workers.wake();
        if let Some(host) = &self.pool.host {
            let context = std::ptr::from_ref(core).cast_mut().cast();
            let within = WITHIN_HOST.replace(true);
            let status = host(core.slots.len() as u32, execute_share, context);
            WITHIN_HOST.set(within);
            let is_done = |slot: &Slot| slot.done.load(Ordering::Acquire) == epoch;
            if status != 0 || !core.slots.iter().all(is_done) {
                let what = match status {
                    0 => "returned before every chunk of a step had run; it must call all of them".to_owned(),
                    _ => format!("returned {status}; it must return 0"),
                };
                *lock(&self.pool.fault) = Some(Error::invalid(format!("rz_runtime_params.parallel {what}")));
            }
        }
        (0..core.slots.len()).for_each(|i| core.execute_once(i, epoch));
        for slot in &core.slots {
            let mut looks = 0;
            while slot.done.load(Ordering::Acquire) != epoch {
                looks += 1;
                if looks < core.spins { spin_loop() } else { yield_now() }
            }
        }
        // SAFETY: every share is done.
        unsafe { *core.task.get() = None };
        let panic = lock(&core.panic).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Executes `item(0)`, ..., `item(n - 1)`, each once on any thread: for items of uneven cost, or of more than some
    /// microseconds each.
    pub fn for_each(&self, n: usize, item: impl Fn(usize) + Sync) {
        self.for_each_with(n, |_, i| item(i));
    }

    /// As `for_each`, and passes the share, `0..threads`, for per-thread scratch.
    pub fn for_each_with(&self, n: usize, item: impl Fn(usize, usize) + Sync) {
        if n <= 1 {
            return (0..n).for_each(|i| item(0, i));
        }
        let partition = Partition::new(n, 1, self.threads);
        self.for_each_within(|share| partition.range(share), item);
    }

    /// As `for_each_with` over ranges, one per share. A thread takes items of its own range from the front, so that it
    /// streams through memory, and then steals items of other ranges from the back. `range` is called for the shares in
    /// order.
    pub fn for_each_within(&self, mut range: impl FnMut(usize) -> Range<usize>, item: impl Fn(usize, usize) + Sync) {
        if self.threads == 1 {
            return range(0).for_each(|i| item(0, i));
        }
        let claims = &self.workers.core.claims[..self.threads];
        for (share, claims) in claims.iter().enumerate() {
            claims.set(range(share));
        }
        let step = stride(claims.len());
        self.run(|share| {
            for helped in 0..claims.len().min(HELPED) {
                while let Some(i) = claims[(share + helped * step) % claims.len()].take(helped == 0) {
                    item(share, i);
                }
            }
        });
    }

    /// As `for_each` over chunks of `chunk_len` elements; the last chunk is shorter.
    pub fn chunks_mut<T: Send>(&self, out: &mut [T], chunk_len: usize, item: impl Fn(usize, &mut [T]) + Sync) {
        let (len, chunk_len) = (out.len(), chunk_len.max(1));
        let out = DisjointSlice::new(out);
        self.for_each(len.div_ceil(chunk_len), |i| {
            // SAFETY: every index occurs once, and chunks of different indices do not overlap.
            item(i, unsafe { out.slice_mut(i * chunk_len..len.min((i + 1) * chunk_len)) });
        });
    }

    /// Divides `n` items into one contiguous range per share; the length of every range except the last is a multiple
    /// of `align`.
    pub fn partition(&self, n: usize, align: usize) -> Partition {
        Partition::new(n, align, self.threads)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if self.locked {
            self.workers.core.phase.store(RESTING, Ordering::SeqCst);
            self.pool.permits.release();
        }
    }
}

/// Locks a mutex; a panic that poisoned it is already on its way to the caller.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
