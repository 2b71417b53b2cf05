//! The library's allocator: the system's, or the host's (`try_host`), plus a reserve for when that is exhausted. Much
//! of Rust aborts the process if a small allocation fails; the reserve serves such allocations, until the call reaches
//! a place where it can return an error (`is_short`).
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes reserved by the first call.
pub const RESERVE: usize = 256 << 10;
/// Maximum size of a request to the reserve; larger requests can fail.
const SMALL: usize = RESERVE / 8;
/// Maximum number of reserve regions in use.
const REGIONS: usize = 16;
const ALIGN: usize = 64;

/// The host's allocator.
#[derive(Clone, Copy)]
pub struct Host {
    pub alloc: unsafe extern "C" fn(size: usize, align: usize, user: *mut c_void) -> *mut c_void,
    pub free: unsafe extern "C" fn(ptr: *mut c_void, size: usize, align: usize, user: *mut c_void),
    pub user: *mut c_void,
}

// SAFETY: the pointer is only passed on; the host's functions may be called from any thread, as the header says.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

static HOST: OnceLock<Host> = OnceLock::new();

/// Allocates everything from the host from now on, if a test allocation is aligned.
///
/// # Safety
/// The functions must be those of an allocator, and must accept blocks allocated before this call.
pub unsafe fn try_host(host: Host) -> bool {
    // SAFETY: the contract of this function.
    let p = unsafe { (host.alloc)(RESERVE, ALIGN, host.user) };
    if p.is_null() {
        return false;
    }
    // SAFETY: as above.
    unsafe { (host.free)(p, RESERVE, ALIGN, host.user) };
    p.addr().is_multiple_of(ALIGN) && HOST.set(host).is_ok()
}

/// Returns the host's allocator, if set.
pub fn host() -> Option<&'static Host> {
    HOST.get()
}

/// Allocates from the host or the system; null without memory.
///
/// # Safety
/// The layout must not be empty.
unsafe fn ask(layout: Layout) -> *mut u8 {
    let Some(host) = HOST.get() else {
        // SAFETY: the contract of this function.
        return unsafe { System.alloc(layout) };
    };
    // SAFETY: the contract of `try_host`.
    let p = unsafe { (host.alloc)(layout.size(), layout.align(), host.user) };
    if p.is_null() || p.addr().is_multiple_of(layout.align()) {
        return p.cast();
    }
    // SAFETY: as above; nobody else has the block.
    unsafe { (host.free)(p, layout.size(), layout.align(), host.user) };
    null_mut()
}

/// True if the system can allocate `bytes`; frees them at once, so that smaller requests, including those of system
/// libraries, can succeed.
pub fn system_has(bytes: usize) -> bool {
    let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGN) else { return false };
    // SAFETY: the layout is not empty, and the block is freed with the same layout.
    unsafe {
        let p = System.alloc(layout);
        if !p.is_null() {
            System.dealloc(p, layout);
        }
        !p.is_null()
    }
}

/// # Safety
/// `p` must come from `ask` with the same layout.
unsafe fn give_back(p: *mut u8, layout: Layout) {
    match HOST.get() {
        // SAFETY: the contract of this function.
        None => unsafe { System.dealloc(p, layout) },
        // SAFETY: as above.
        Some(host) => unsafe { (host.free)(p.cast(), layout.size(), layout.align(), host.user) },
    }
}

/// A part of the reserve: a bump allocator.
#[derive(Clone, Copy)]
struct Region {
    base: *mut u8,
    size: usize,
    /// Maximum size of a request.
    most: usize,
    used: usize,
    /// Number of blocks that are not freed yet.
    live: usize,
    /// True while the region serves requests; afterwards it only waits for its blocks to be freed.
    open: bool,
}

impl Region {
    const NONE: Region = Region { base: null_mut(), size: 0, most: 0, used: 0, live: 0, open: false };

    fn layout(size: usize) -> Layout {
        // SAFETY: a power of two, and sizes of a reserve are far from overflowing.
        unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
    }

    fn serve(&mut self, layout: Layout) -> Option<*mut u8> {
        let padding = self.base.wrapping_add(self.used).align_offset(layout.align());
        let start = self.used.checked_add(padding)?;
        let end = start.checked_add(layout.size())?;
        if !self.open || layout.size() > self.most || end > self.size {
            return None;
        }
        (self.used, self.live) = (end, self.live + 1);
        Some(self.base.wrapping_add(start))
    }

    /// Frees a block; returns true if it belongs to this region.
    fn take_back(&mut self, p: *mut u8, size: usize) -> bool {
        let Some(start) = p.addr().checked_sub(self.base.addr()).filter(|start| *start < self.size) else {
            return false;
        };
        self.live -= 1;
        if self.live == 0 {
            self.used = 0;
        } else if start + size == self.used {
            self.used = start;
        }
        true
    }
}

struct Reserve {
    locked: AtomicBool,
    regions: UnsafeCell<[Region; REGIONS]>,
}

// SAFETY: regions are accessed only under the lock.
unsafe impl Sync for Reserve {}

static REGIONS_OF_ALL: Reserve =
    Reserve { locked: AtomicBool::new(false), regions: UnsafeCell::new([Region::NONE; REGIONS]) };
/// True once the reserve is allocated.
static READY: AtomicBool = AtomicBool::new(false);
/// Number of reserve blocks that are not freed yet.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// True if the reserve has served a request since memory was last available.
static SHORT: AtomicBool = AtomicBool::new(false);
/// Number of blocks that the reserve has served.
static SERVED: AtomicUsize = AtomicUsize::new(0);
/// Number of `User`s.
static USERS: AtomicUsize = AtomicUsize::new(0);

impl Reserve {
    /// Runs `work`, which must neither allocate nor panic, on the regions.
    fn with<T>(&self, work: impl FnOnce(&mut [Region; REGIONS]) -> T) -> T {
        while self.locked.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: only this thread holds the lock.
        let result = work(unsafe { &mut *self.regions.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    /// Adds a region of `size` bytes; `None` without memory, `Some(None)` if all regions are in use.
    fn add(&self, size: usize, most: usize) -> Option<Option<usize>> {
        // SAFETY: not empty.
        let base = unsafe { ask(Region::layout(size)) };
        if base.is_null() {
            return None;
        }
        count(size as i64);
        let place = self.with(|regions| {
            let place = regions.iter().position(|region| region.base.is_null())?;
            regions[place] = Region { base, size, most, open: true, ..Region::NONE };
            Some(place)
        });
        if place.is_none() {
            count(-(size as i64));
            // SAFETY: from `ask` above, and not yet shared.
            unsafe { give_back(base, Region::layout(size)) };
        }
        Some(place)
    }

    /// Frees closed regions without blocks.
    fn clear(&self) {
        while let Some(region) = self.with(|regions| {
            let empty = regions.iter_mut().find(|r| !r.base.is_null() && !r.open && r.live == 0)?;
            Some(std::mem::replace(empty, Region::NONE))
        }) {
            count(-(region.size as i64));
            // SAFETY: from `ask`, and no block of it is in use.
            unsafe { give_back(region.base, Region::layout(region.size)) };
        }
    }

    fn serve(&self, layout: Layout) -> *mut u8 {
        // The common reserve comes last, so that `secured` work does not use it up.
        let served = self.with(|regions| {
            let mut larger = regions.iter_mut().filter(|region| region.size != RESERVE);
            let served = larger.find_map(|region| region.serve(layout));
            served.or_else(|| regions.iter_mut().find_map(|region| region.serve(layout)))
        });
        if served.is_some() {
            LIVE.fetch_add(1, Ordering::AcqRel);
            SERVED.fetch_add(1, Ordering::AcqRel);
            SHORT.store(true, Ordering::Release);
        }
        served.unwrap_or(null_mut())
    }

    fn take_back(&self, p: *mut u8, size: usize) -> bool {
        let taken = self.with(|regions| regions.iter_mut().any(|region| region.take_back(p, size)));
        if taken && LIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
            SHORT.store(false, Ordering::Release);
        }
        taken
    }
}

/// A user of the reserve: a call, or the object of a handle. The last one frees it, so that nothing is left when the
/// library is unloaded.
pub struct User(());

impl User {
    pub fn enter() -> User {
        if USERS.fetch_add(1, Ordering::AcqRel) == 0 {
            // Waits for a thread that is freeing it.
            REGIONS_OF_ALL.with(|_| ());
        }
        User(())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if USERS.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        REGIONS_OF_ALL.with(|regions| {
            if USERS.load(Ordering::Acquire) == 0 {
                READY.store(false, Ordering::Release);
                regions.iter_mut().for_each(|region| region.open = false);
            }
        });
        REGIONS_OF_ALL.clear();
    }
}

/// Begins a call of a `User`: allocates or refills the reserve. Returns false if not enough of it is left for a call.
pub fn begin() -> bool {
    if READY.load(Ordering::Acquire) && !SHORT.load(Ordering::Acquire) {
        return true;
    }
    let reserve = &REGIONS_OF_ALL;
    reserve.clear();
    let before = reserve.with(|regions| regions.iter().position(|region| region.open && region.size == RESERVE));
    match reserve.add(RESERVE, SMALL).flatten() {
        Some(_) => {
            if let Some(before) = before {
                reserve.with(|regions| regions[before].open = false);
                reserve.clear();
            }
            READY.store(true, Ordering::Release);
            SHORT.store(false, Ordering::Release);
            true
        }
        None => before.is_some_and(|i| reserve.with(|regions| regions[i].used <= RESERVE / 2)),
    }
}

/// True if the reserve has served a request: operations that can fail should fail.
pub fn is_short() -> bool {
    SHORT.load(Ordering::Acquire)
}

/// Returns the number of blocks that the reserve has ever served; an increase means that a failure may be due to
/// memory.
pub fn served() -> usize {
    SERVED.load(Ordering::Acquire)
}

/// Runs work that allocates up to `bytes` bytes infallibly, after reserving them; `None` without memory. With very many
/// concurrent threads, the last ones share the others' reserves.
pub fn secured<T>(bytes: usize, work: impl FnOnce() -> T) -> Option<T> {
    /// Closes a region even if the work panics.
    struct Closed(Option<usize>);
    impl Drop for Closed {
        fn drop(&mut self) {
            if let Some(place) = self.0 {
                REGIONS_OF_ALL.with(|regions| regions[place].open = false);
                REGIONS_OF_ALL.clear();
            }
        }
    }
    if is_short() {
        return None;
    }
    let _closed = Closed(REGIONS_OF_ALL.add(bytes, bytes)?);
    Some(work())
}

thread_local! {
    // Without destructors, which would keep the library mapped.
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Returns the number of bytes that this thread has allocated, minus those it has freed.
pub fn held() -> i64 {
    HELD.get()
}

/// Runs work on this thread, and measures its peak of additional memory.
pub fn with_peak<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

/// Counts bytes that this thread takes (or frees, if negative) outside the allocator, such as mappings.
pub fn count(bytes: i64) {
    let held = HELD.get().wrapping_add(bytes);
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

// SAFETY: blocks come from the host, the system or the reserve, aligned as requested, and return to their origin.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let p = unsafe { ask(layout) };
        let p = if p.is_null() { REGIONS_OF_ALL.serve(layout) } else { p };
        count(if p.is_null() { 0 } else { layout.size() as i64 });
        p
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if host().is_none() {
            // SAFETY: guaranteed by the caller.
            let p = unsafe { System.alloc_zeroed(layout) };
            if !p.is_null() {
                count(layout.size() as i64);
                return p;
            }
        }
        // SAFETY: guaranteed by the caller.
        let p = unsafe { self.alloc(layout) };
        if !p.is_null() {
            // SAFETY: a block of that size.
            unsafe { p.write_bytes(0, layout.size()) };
        }
        p
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        if LIVE.load(Ordering::Acquire) > 0 && REGIONS_OF_ALL.take_back(p, layout.size()) {
            return;
        }
        // SAFETY: guaranteed by the caller; it is not from the reserve.
        unsafe { give_back(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if host().is_none() && LIVE.load(Ordering::Acquire) == 0 {
            // SAFETY: guaranteed by the caller; the block is the system's.
            let moved = unsafe { System.realloc(p, layout, size) };
            if !moved.is_null() {
                count(size as i64 - layout.size() as i64);
                return moved;
            }
        }
        // SAFETY: guaranteed by the caller: the size does not overflow when rounded up.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above; the two blocks are distinct.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(p, layout.size().min(size));
                self.dealloc(p, layout);
            }
            moved
        }
    }
}
