//! The threads of the CPU backend: nothing else in the library starts one.
//!
//! Owns the workers, the barrier at which they meet, and the views through which they write to disjoint parts of
//! one slice. A step takes the pool once (`enter`) and then forks and joins many times (`Team::run`), so that a
//! fork costs a few cache line transfers rather than a wake-up. Refuses to know what is computed.
//!
//! How work is split never depends on which thread performs it, so results do not depend on timing.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result, try_vec};

/// More threads than any machine this is meant for; a larger number is a mistake of the caller.
const MAX_THREADS: usize = 1024;

/// Bytes of a worker's stack: what std gives where nobody asks.
const STACK: usize = 2 << 20;

/// Looks at the epoch before a worker gives up its time slice: some 50 microseconds, longer than the serial work
/// between two verbs, shorter than anyone would notice on a laptop's fan.
const SPINS: usize = 2000;
/// When there are more threads than processors, whoever spins keeps the one it waits for from running.
const SPINS_OVERSUBSCRIBED: usize = 8;
/// Time slices given up before a worker parks.
const YIELDS: usize = 32;

type Job = dyn Fn(usize) + Sync;

/// Workers that sleep between steps and are joined when the pool is dropped.
pub struct Pool {
    core: Arc<Core>,
    workers: Vec<JoinHandle<()>>,
    /// A counter rather than a held guard, so that a team may end on another thread.
    turns: Mutex<Turns>,
    turn_over: Condvar,
    /// Workers do not survive a `fork` of the host; the child works on its caller's thread alone.
    process: u32,
}

/// Who has the team, first come, first served: otherwise a loader that takes it again and again would keep it.
#[derive(Default)]
struct Turns {
    next: u64,
    now: u64,
}

/// What the caller and the workers share.
struct Core {
    phase: AtomicU8,
    /// Number of the current job.
    epoch: AtomicUsize,
    job: UnsafeCell<Option<&'static Job>>,
    slots: Vec<Slot>,
    /// Of every share.
    claims: Vec<Claims>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    spins: usize,
}

// SAFETY: `job` is written only by the holder of the one team, while every slot has finished the job before
// (`Team::run` waits for that), and read only by who has claimed a slot of the current job.
unsafe impl Sync for Core {}
// SAFETY: the job inside is `Sync`, so that a reference to it may be used from any thread.
unsafe impl Send for Core {}

/// One worker's side of the barrier, on cache lines of its own (two, for the adjacent-line prefetcher).
#[repr(align(128))]
struct Slot {
    /// The last job whose share somebody has taken on; it rises by one a job.
    claimed: AtomicUsize,
    /// The last job whose share is done.
    done: AtomicUsize,
    parked: AtomicBool,
}

/// No team is out: workers park at once.
const RESTING: u8 = 0;
const WORKING: u8 = 1;
const STOPPING: u8 = 2;

impl Pool {
    /// `threads`: 0 for one a processor that this process may use, 1 for the caller alone, n for the caller and
    /// n - 1 workers.
    pub fn new(threads: usize) -> Result<Pool> {
        Pool::bound(threads, &[])
    }

    /// `new` with workers bound to `cpus`, one each in turn; the caller's thread is left alone.
    pub fn bound(threads: usize, cpus: &[u32]) -> Result<Pool> {
        check_cpus(cpus)?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { processors.min(MAX_THREADS) } else { threads };
        if threads > MAX_THREADS {
            return Err(Error::invalid(format!("{threads} threads, at most {MAX_THREADS} are supported")));
        }
        let mut claims = try_vec("threads", threads)?;
        claims.extend((0..threads).map(|_| Claims(AtomicU64::new(0))));
        let mut slots = try_vec("threads", threads - 1)?;
        slots.extend((1..threads).map(|_| Slot {
            claimed: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            parked: AtomicBool::new(false),
        }));
        let core = Arc::new(Core {
            phase: AtomicU8::new(RESTING),
            epoch: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            slots,
            claims,
            panic: Mutex::new(None),
            spins: if threads > processors { SPINS_OVERSUBSCRIBED } else { SPINS },
        });
        let mut pool = Pool {
            core,
            workers: try_vec("threads", threads - 1)?,
            turns: Mutex::default(),
            turn_over: Condvar::new(),
            process: std::process::id(),
        };
        for index in 1..threads {
            let core = pool.core.clone();
            let cpu = (!cpus.is_empty()).then(|| cpus[(index - 1) % cpus.len()]);
            // On an error `pool` is dropped, which joins those that were started.
            // Without a size std would ask the environment for one.
            let builder = thread::Builder::new().name(format!("realizar-{index}")).stack_size(STACK);
            let worker = builder.spawn(move || {
                if let Some(cpu) = cpu {
                    bind(cpu);
                }
                core.work(index)
            });
            pool.workers.push(worker.map_err(|e| Error::Io {
                path: format!("thread {index} of {threads}"),
                what: format!("cannot be started: {e}"),
                system_code: e.raw_os_error().unwrap_or(0),
            })?);
        }
        Ok(pool)
    }

    /// Threads that work on a job, the caller included.
    pub fn threads(&self) -> usize {
        self.core.slots.len() + 1
    }

    /// Takes the workers for one step, waiting while another step has them; a pool of one thread is never
    /// waited for. Taking it again on a thread that has it already would wait for ever.
    pub fn enter(self: &Arc<Self>) -> Team {
        let threads = if std::process::id() == self.process { self.threads() } else { 1 };
        if threads > 1 {
            let mut turns = lock(&self.turns);
            let mine = turns.next;
            turns.next += 1;
            while turns.now != mine {
                turns = self.turn_over.wait(turns).unwrap_or_else(PoisonError::into_inner);
            }
            drop(turns);
            self.core.phase.store(WORKING, Ordering::SeqCst);
            self.wake();
        }
        Team { pool: self.clone(), threads, not_sync: PhantomData }
    }

    /// Wakes those workers that are parked. Follows a `SeqCst` store of what they are woken for.
    fn wake(&self) {
        for (slot, worker) in self.core.slots.iter().zip(&self.workers) {
            if slot.parked.load(Ordering::SeqCst) && slot.parked.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // There is nothing to join, and joining would never return.
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        self.core.phase.store(STOPPING, Ordering::SeqCst);
        self.wake();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so that there is no error to see here.
            let _ = worker.join();
        }
    }
}

impl Core {
    fn work(&self, index: usize) {
        block_signals();
        let slot = &self.slots[index - 1];
        let mut seen = 0;
        while let Some(epoch) = self.wait(slot, seen) {
            seen = epoch;
            if slot.claim(epoch) {
                // SAFETY: the share of this epoch is claimed, so that `run` waits for `done` before it returns.
                unsafe { self.perform(index) };
                slot.done.store(epoch, Ordering::Release);
            }
        }
    }

    /// The next job after `seen`, or `None` when the pool ends.
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
                std::hint::spin_loop();
            } else if phase == WORKING && looks < self.spins + YIELDS {
                thread::yield_now();
            } else {
                // Announce first, then look again: either this look sees what is new, or `wake` sees the flag.
                slot.parked.store(true, Ordering::SeqCst);
                if self.epoch.load(Ordering::SeqCst) == seen && self.phase.load(Ordering::SeqCst) == phase {
                    while slot.parked.load(Ordering::SeqCst) {
                        thread::park();
                    }
                }
                slot.parked.store(false, Ordering::SeqCst);
                looks = 0;
            }
        }
    }

    /// Performs share `index` of the current job; keeps its panic for the caller.
    ///
    /// # Safety
    /// The share was claimed for the current epoch and is not yet done.
    unsafe fn perform(&self, index: usize) {
        // SAFETY: nobody writes `job` before this share is done, by this function's contract.
        let job = unsafe { *self.job.get() };
        if let Some(job) = job
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(index)))
        {
            lock(&self.panic).get_or_insert(panic);
        }
    }
}

impl Slot {
    fn claim(&self, epoch: usize) -> bool {
        let before = epoch.wrapping_sub(1);
        self.claimed.load(Ordering::Relaxed) == before
            && self.claimed.compare_exchange(before, epoch, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The pool in the hands of one step. Dropping it sends the workers to sleep.
///
/// It is not `Sync`, so that a job cannot start another one.
pub struct Team {
    pool: Arc<Pool>,
    threads: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl Team {
    /// Number of shares of a job.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Performs `job(0)`, ..., `job(threads - 1)`, each once, and returns when all are done. A panic of one of
    /// them is raised here after the others have ended.
    ///
    /// Worker i takes share i; the share of a worker that the system has not let run so far is performed by the
    /// caller, so that a step never waits for a processor that is busy elsewhere.
    pub fn run(&self, job: impl Fn(usize) + Sync) {
        if self.threads == 1 {
            return job(0);
        }
        let core = &*self.pool.core;
        let job: &(dyn Fn(usize) + Sync) = &job;
        // SAFETY: only the lifetime changes. Shares are performed between their claim and `done`, and this
        // function returns (`perform` catches panics, so it cannot be left early) after every share is done.
        let job: &'static Job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Job>(job) };
        // SAFETY: all shares of the previous job are done and no worker reads the cell before the store below.
        unsafe { *core.job.get() = Some(job) };
        let epoch = core.epoch.load(Ordering::Relaxed).wrapping_add(1);
        core.epoch.store(epoch, Ordering::SeqCst);
        self.pool.wake();

        // SAFETY: share 0 is the caller's alone.
        unsafe { core.perform(0) };
        for (i, slot) in core.slots.iter().enumerate() {
            if slot.claim(epoch) {
                // SAFETY: claimed just now; this thread goes on only after it is done.
                unsafe { core.perform(i + 1) };
                slot.done.store(epoch, Ordering::Release);
            }
        }
        for slot in &core.slots {
            let mut looks = 0;
            while slot.done.load(Ordering::Acquire) != epoch {
                looks += 1;
                if looks < core.spins { std::hint::spin_loop() } else { thread::yield_now() }
            }
        }
        // SAFETY: every share is done.
        unsafe { *core.job.get() = None };
        let panic = lock(&core.panic).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Performs `item(0)`, ..., `item(n - 1)`, each once on whichever thread is free: for items of uneven cost or
    /// worth more than some microseconds each.
    pub fn for_each(&self, n: usize, item: impl Fn(usize) + Sync) {
        self.for_each_with(n, |_, i| item(i));
    }

    /// `for_each` that also tells the share, `0..threads`, for scratch that belongs to a thread.
    pub fn for_each_with(&self, n: usize, item: impl Fn(usize, usize) + Sync) {
        if n <= 1 {
            return (0..n).for_each(|i| item(0, i));
        }
        let split = self.split(n, 1);
        self.for_each_within(|share| split.range(share), item);
    }

    /// `for_each_with` over ranges, one a share: each share goes through its own from the front, so that it streams
    /// through memory, and then helps others from the back.
    /// `range` is asked for the shares in order.
    pub fn for_each_within(&self, mut range: impl FnMut(usize) -> Range<usize>, item: impl Fn(usize, usize) + Sync) {
        if self.threads == 1 {
            return range(0).for_each(|i| item(0, i));
        }
        let claims = &self.pool.core.claims;
        for (share, claims) in claims.iter().enumerate() {
            claims.set(range(share));
        }
        self.run(|share| {
            for helped in 0..claims.len() {
                while let Some(i) = claims[(share + helped) % claims.len()].take(helped == 0) {
                    item(share, i);
                }
            }
        });
    }

    /// `for_each` over pieces of `chunk_len` elements, the last one shorter.
    pub fn chunks_mut<T: Send>(&self, out: &mut [T], chunk_len: usize, item: impl Fn(usize, &mut [T]) + Sync) {
        let (len, chunk_len) = (out.len(), chunk_len.max(1));
        let out = Shared::new(out);
        self.for_each(len.div_ceil(chunk_len), |i| {
            // SAFETY: every index occurs once, and pieces of different indices do not overlap.
            item(i, unsafe { out.slice_mut(i * chunk_len..len.min((i + 1) * chunk_len)) });
        });
    }

    /// Cuts `n` items into one contiguous range a share, each but the last a multiple of `align` long.
    pub fn split(&self, n: usize, align: usize) -> Split {
        Split { n, align: align.max(1), shares: self.threads }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if self.threads > 1 {
            self.pool.core.phase.store(RESTING, Ordering::SeqCst);
            lock(&self.pool.turns).now += 1;
            self.pool.turn_over.notify_all();
        }
    }
}

/// The items of a share that nobody has taken yet: first and end, of 32 bits each.
#[repr(align(128))]
struct Claims(AtomicU64);

impl Claims {
    fn set(&self, units: Range<usize>) {
        assert!(u32::try_from(units.end).is_ok(), "{} items", units.end);
        self.0.store((units.start as u64) << 32 | units.end as u64, Ordering::Relaxed);
    }

    fn take(&self, front: bool) -> Option<usize> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let (start, end) = (now >> 32, now & u64::from(u32::MAX));
            if start >= end {
                return None;
            }
            let (unit, next) = if front { (start, now + (1 << 32)) } else { (end - 1, now - 1) };
            match self.0.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(unit as usize),
                Err(other) => now = other,
            }
        }
    }
}

/// Contiguous ranges of items, one a share.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    n: usize,
    align: usize,
    shares: usize,
}

impl Split {
    /// The items of a share; empty where there are fewer groups of `align` items than shares.
    pub fn range(self, share: usize) -> Range<usize> {
        let groups = self.n.div_ceil(self.align);
        // Written so that no product can overflow: the first `groups % shares` shares get one group more.
        let (each, more) = (groups / self.shares, groups % self.shares);
        let at = |share: usize| (share * each + share.min(more)) * self.align;
        at(share).min(self.n)..at(share + 1).min(self.n)
    }
}

/// A slice that several threads write at once, each to parts of its own.
pub struct Shared<'a, T> {
    data: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `slice_mut`, whose contract keeps its users apart; elements move between threads.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above; it stands for a `&mut [T]`.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        Shared { data: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// For kernels that write parts which are no ranges, under the contract of `slice_mut`.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.data
    }

    /// A part of the slice; panics where the range is not inside it.
    ///
    /// # Safety
    /// No other part that overlaps it is in use.
    #[allow(clippy::mut_from_ref)] // The contract is what keeps the parts apart.
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: inside the slice by the assertion, and unshared by this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

/// A panic that poisoned one of the locks here has been handed on already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host's signal handlers were written for its own threads.
#[cfg(unix)]
fn block_signals() {
    // SAFETY: both functions only write to the set given to them, and a thread may always change its own mask.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
fn block_signals() {}

/// Refuses processors that this thread may not use.
#[cfg(target_os = "linux")]
fn check_cpus(cpus: &[u32]) -> Result<()> {
    // SAFETY: a `cpu_set_t` of zeros is the empty set, and the call writes no more than its size.
    let allowed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        set
    };
    let usable = |cpu: u32| {
        // SAFETY: the bit lies within the set.
        cpu < libc::CPU_SETSIZE as u32 && unsafe { libc::CPU_ISSET(cpu as usize, &allowed) }
    };
    match cpus.iter().find(|cpu| !usable(**cpu)) {
        Some(cpu) => Err(Error::invalid(format!("processor {cpu} is none that this thread may use"))),
        None => Ok(()),
    }
}

/// Binds the calling thread to a processor that passed `check_cpus`.
#[cfg(target_os = "linux")]
fn bind(cpu: u32) {
    // SAFETY: the bit lies within the set, and a thread may always narrow its own affinity.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

#[cfg(not(target_os = "linux"))]
fn check_cpus(cpus: &[u32]) -> Result<()> {
    match cpus.is_empty() {
        true => Ok(()),
        false => Err(Error::unsupported("binding threads to processors is not supported on this system")),
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(_cpu: u32) {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pool(threads: usize) -> Arc<Pool> {
        Arc::new(Pool::new(threads).unwrap())
    }

    #[test]
    fn unusable_processors_are_refused() {
        assert!(Pool::bound(2, &[1 << 20]).is_err());
        let first = (0..1024).find(|cpu| Pool::bound(1, &[*cpu]).is_ok()).unwrap();
        let pool = Arc::new(Pool::bound(3, &[first]).unwrap());
        let sum = AtomicUsize::new(0);
        pool.enter().run(|i| _ = sum.fetch_add(i, Ordering::Relaxed));
        assert_eq!(sum.into_inner(), 3);
    }

    #[test]
    fn items_are_claimed_once_from_either_end() {
        let claims = Claims(AtomicU64::new(0));
        claims.set(3..6);
        assert_eq!([true, false, true, true].map(|front| claims.take(front)), [Some(3), Some(5), Some(4), None]);
    }

    #[test]
    fn every_share_runs_once_a_job() {
        for threads in 1..=8 {
            let pool = pool(threads);
            assert_eq!(pool.threads(), threads);
            let counts: Vec<_> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..20 {
                let team = pool.enter();
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
        let team = pool.enter();
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
                let team = pool.enter();
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
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let team = pool.enter();
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
        let (_a, _b) = (pool.enter(), pool.enter());
    }

    #[test]
    fn dropping_ends_workers_that_never_ran_that_sleep_and_that_spin() {
        for threads in 1..=6 {
            drop(Pool::new(threads).unwrap());
            let pool = pool(threads);
            pool.enter().run(|_| ());
            thread::sleep(Duration::from_millis(2));
            let team = pool.enter();
            team.run(|_| ());
            drop(pool);
            drop(team);
        }
    }

    #[test]
    fn workers_that_parked_within_a_step_are_woken() {
        let pool = pool(3);
        let team = pool.enter();
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(2));
            let n = AtomicUsize::new(0);
            team.for_each(100, |_| {
                n.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(n.load(Ordering::Relaxed), 100);
        }
    }

    #[test]
    fn splits_cover_all_items_in_order() {
        for threads in 1..=5 {
            let pool = pool(threads);
            let team = pool.enter();
            for n in 0..70 {
                for align in [1, 4, 16] {
                    let split = team.split(n, align);
                    let mut next = 0;
                    for share in 0..threads {
                        let range = split.range(share);
                        assert_eq!(range.start, next);
                        assert!(range.len().is_multiple_of(align) || range.end == n);
                        next = range.end;
                    }
                    assert_eq!(next, n);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "5..9 of 8")]
    fn a_part_outside_the_slice_is_refused() {
        let mut data = [0u8; 8];
        // SAFETY: no other part is in use.
        unsafe { Shared::new(&mut data).slice_mut(5..9) };
    }

    #[test]
    fn absurd_thread_counts_are_refused() {
        assert!(matches!(Pool::new(1_000_000), Err(Error::InvalidArgument(_))));
    }
}
