//! The line between C and Rust. Every export passes through `guarded!` or `guarded_or!`, which catch panics, fill in
//! the caller's error record and hand out a `Call`: the only way to turn a caller's pointer into a Rust value, so that
//! each is checked for NULL, alignment, length and UTF-8 on the way in. `tests/abi/header.rs` fails on an export that
//! does without. Refuses to know what any of the calls do.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, TryLockError};

use crate::error::{Error, Result};

use super::status::{RZ_ERR_PANIC, rz_error, rz_status};

/// Body of an export that returns `rz_status`: `guarded!(err, |call| ...)`, the closure a `Result<rz_status>`.
macro_rules! guarded {
    ($err:expr, $body:expr) => {{
        let body = $crate::ffi::boundary::body($body);
        // SAFETY: the export's own contract, told in the header, is that of `guard`.
        unsafe { $crate::ffi::boundary::guard($err, body) }
    }};
}
pub(super) use guarded;

/// Body of an export without a status: `guarded_or!(fallback, |call| ...)` returns `fallback` on any failure.
macro_rules! guarded_or {
    ($fallback:expr, $body:expr) => {{
        let body = $crate::ffi::boundary::body($body);
        // SAFETY: the export's own contract, told in the header, is that of `guard_or`.
        unsafe { $crate::ffi::boundary::guard_or($fallback, body) }
    }};
}
pub(super) use guarded_or;

/// Tells the compiler what the closure of an export takes, outside the macros' `unsafe`.
pub(super) fn body<T, F: FnOnce(&Call) -> Result<T>>(body: F) -> F {
    body
}

/// Runs the body of an export and reports how it ended, in `err` too.
///
/// # Safety
/// Every pointer that `body` hands to its `Call`, and `err`, is NULL or what the header says: readable (and writable
/// where not `const`) for its type and stated length while the call runs, and a handle is one that is not yet freed.
pub(super) unsafe fn guard(err: *mut rz_error, body: impl FnOnce(&Call) -> Result<rz_status>) -> rz_status {
    let run = |call: &Call| body(call).map_or_else(|error| rz_error::failure(&error), rz_error::success);
    let record = caught(run, |panic| panic);
    let status = record.code;
    if !err.is_null() && err.is_aligned() {
        // SAFETY: not NULL, aligned, and ours to write by the contract of this function.
        unsafe { err.write(record) };
    }
    status
}

/// `guard` for exports that have no way to report a failure.
///
/// # Safety
/// That of `guard`.
pub(super) unsafe fn guard_or<T>(fallback: T, body: impl FnOnce(&Call) -> Result<T>) -> T {
    caught(|call| body(call).ok(), |_| None).unwrap_or(fallback)
}

thread_local! {
    // Neither has a destructor: one that outlives the unloading of the library would crash the thread that runs it.
    /// Calls in progress on this thread; more than one where a callback calls back.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What the panic hook saw last.
    static PANIC: RefCell<Option<rz_error>> = const { RefCell::new(None) };
}

/// Panics of threads with this prefix in their name are ours.
const THREAD_PREFIX: &str = "realizar";

/// What `body` gives, or what a panic in it said.
fn caught<T>(body: impl FnOnce(&Call) -> T, panicked: impl FnOnce(rz_error) -> T) -> T {
    silence_own_panics();
    DEPTH.set(DEPTH.get().saturating_add(1));
    PANIC.set(None);
    // A handle that the closure was changing when it panicked is poisoned by its lock, so no one sees it half changed.
    let result = catch_unwind(AssertUnwindSafe(|| body(&Call(()))));
    DEPTH.set(DEPTH.get().saturating_sub(1));
    result.unwrap_or_else(|payload| {
        // The hook of a worker's panic ran on the worker; what reaches this thread is the payload.
        let text = match payload.downcast_ref::<String>() {
            Some(text) => text,
            None => payload.downcast_ref::<&str>().copied().unwrap_or("of unknown origin"),
        };
        let said = || rz_error::describe(RZ_ERR_PANIC, 0, format_args!("internal error: {text}"));
        panicked(PANIC.take().unwrap_or_else(said))
    })
}

/// Keeps panics that the boundary catches off the host's stderr, and notes what they said.
/// Others, of a Rust program that links this crate, go to the hook that was there before.
fn silence_own_panics() {
    type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;
    // In a static, so that the hook is a closure of no size: nothing on the heap is left when the library is unloaded.
    static PREVIOUS: OnceLock<Hook> = OnceLock::new();
    PREVIOUS.get_or_init(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(|info| {
            let is_worker = || std::thread::current().name().is_some_and(|name| name.starts_with(THREAD_PREFIX));
            if DEPTH.get() > 0 {
                PANIC.set(Some(rz_error::describe(RZ_ERR_PANIC, 0, format_args!("internal error: {info}"))));
            } else if !is_worker()
                && let Some(previous) = PREVIOUS.get()
            {
                previous(info);
            }
        }));
        previous
    });
}

/// The arguments of one call. It exists only inside `guard`, whose contract vouches for the pointers it is given;
/// what it returns lives no longer than the call.
pub(super) struct Call(());

/// Types of which every bit pattern is a value, and which C may therefore hand us in bulk.
///
/// # Safety
/// Just that.
pub(super) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: integers, floats and raw pointers have no invalid bit patterns.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, u32, f32);
// SAFETY: as above.
unsafe impl<T> Plain for *mut T {}

/// An object behind an opaque pointer, which is the `Arc::into_raw` of it. A running call holds a count of its own,
/// so that freeing a handle in the middle of a call on another thread is harmless.
pub(super) trait Handle: Send + Sync {
    /// For messages.
    const NAME: &'static str;
}

impl Call {
    fn checked<T>(&self, pointer: *const T, name: &str) -> Result<NonNull<T>> {
        let pointer = NonNull::new(pointer.cast_mut()).ok_or_else(|| Error::invalid(format!("{name} is NULL")))?;
        if !pointer.is_aligned() {
            return Err(Error::invalid(format!("{name} is not aligned to {} bytes", align_of::<T>())));
        }
        Ok(pointer)
    }

    pub(super) fn handle<H: Handle>(&self, handle: *const H) -> Result<Arc<H>> {
        let pointer = self.checked(handle, H::NAME)?.as_ptr();
        // SAFETY: a live handle by the contract of `guard`, so it came from `Arc::into_raw` in `Out::set_handle`
        // and its count is at least one; the count added here is the one that the returned `Arc` gives back.
        unsafe {
            Arc::increment_strong_count(pointer);
            Ok(Arc::from_raw(pointer))
        }
    }

    /// `None` for NULL.
    pub(super) fn optional<H: Handle>(&self, handle: *const H) -> Result<Option<Arc<H>>> {
        if handle.is_null() { Ok(None) } else { self.handle(handle).map(Some) }
    }

    /// Gives back the count that the caller's pointer held. NULL is fine.
    pub(super) fn release<H: Handle>(&self, handle: *mut H) -> Result<()> {
        if !handle.is_null() {
            let pointer = self.checked(handle, H::NAME)?.as_ptr();
            // SAFETY: a live handle by the contract of `guard`, from `Arc::into_raw`; the caller gives it up.
            drop(unsafe { Arc::from_raw(pointer) });
        }
        Ok(())
    }

    /// `n` values in memory of the caller; with `n` 0 the pointer may be NULL.
    pub(super) fn slice<T: Plain>(&self, values: *const T, n: usize, name: &str) -> Result<&[T]> {
        if n == 0 {
            return Ok(&[]);
        }
        let pointer = self.checked_many(values, n, name)?;
        // SAFETY: not NULL, aligned, at most isize::MAX bytes, readable by the contract of `guard`; `T` is `Plain`.
        Ok(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), n) })
    }

    /// `n` values to be written, apart from every one of `inputs`, because a kernel still reads those.
    // The memory is the caller's, not the token's, and `guard` vouches for its being writable.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn slice_mut<T: Plain>(&self, out: *mut T, n: usize, name: &str, inputs: &[Span]) -> Result<&mut [T]> {
        if n == 0 {
            return Ok(&mut []);
        }
        let pointer = self.checked_many(out.cast_const(), n, name)?;
        let start = pointer.addr().get();
        let end = start.saturating_add(n.saturating_mul(size_of::<T>()));
        if let Some(input) = inputs.iter().find(|input| input.bytes.start < end && start < input.bytes.end) {
            return Err(Error::invalid(format!("{name} overlaps {}", input.name)));
        }
        // SAFETY: not NULL, aligned, at most isize::MAX bytes, writable by the contract of `guard`, and no slice
        // that is still read overlaps it; `T` is `Plain`.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), n) })
    }

    fn checked_many<T>(&self, values: *const T, n: usize, name: &str) -> Result<NonNull<T>> {
        if n.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX.unsigned_abs()) {
            return Err(Error::invalid(format!("{name} of {n} values is larger than memory")));
        }
        self.checked(values, name)
    }

    /// Refuses bits outside `known`: a newer caller's wish that must not be passed over in silence.
    pub(super) fn flags(&self, flags: u32, known: u32, name: &str) -> Result<()> {
        match flags & !known {
            0 => Ok(()),
            unknown => Err(Error::invalid(format!("{name} has unknown bits {unknown:#x}"))),
        }
    }

    /// Text of `len` bytes.
    pub(super) fn text(&self, text: *const c_char, len: usize, name: &str) -> Result<&str> {
        utf8(self.slice(text.cast::<u8>(), len, name)?, name)
    }

    /// Text up to its NUL.
    pub(super) fn c_str(&self, text: *const c_char, name: &str) -> Result<&str> {
        utf8(self.nul_terminated(text, name)?.to_bytes(), name)
    }

    /// A path up to its NUL: any bytes where the system's paths are bytes, UTF-8 elsewhere.
    pub(super) fn path(&self, path: *const c_char, name: &str) -> Result<&Path> {
        let bytes = self.nul_terminated(path, name)?.to_bytes();
        if bytes.is_empty() {
            return Err(Error::invalid(format!("{name} is empty")));
        }
        #[cfg(unix)]
        let path = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes);
        #[cfg(not(unix))]
        let path = utf8(bytes, name)?;
        Ok(Path::new(path))
    }

    fn nul_terminated(&self, text: *const c_char, name: &str) -> Result<&CStr> {
        let pointer = self.checked(text, name)?;
        // SAFETY: not NULL, and NUL-terminated by the contract of `guard`.
        Ok(unsafe { CStr::from_ptr(pointer.as_ptr()) })
    }

    /// Where a result goes, checked before the work begins.
    pub(super) fn out<T>(&self, out: *mut T, name: &str) -> Result<Out<'_, T>> {
        Ok(Out { pointer: self.checked(out, name)?, call: PhantomData })
    }

    /// Where up to `len` results go. `out` may be NULL where `len` is 0, and may lie over an input that is no longer
    /// read when the results come.
    pub(super) fn outs<T: Plain>(&self, out: *mut T, len: usize, name: &str) -> Result<Outs<'_, T>> {
        let start = if len == 0 { NonNull::dangling() } else { self.checked(out, name)? };
        Ok(Outs { start, len, call: PhantomData })
    }

    /// `outs`, and where their number goes.
    pub(super) fn buffer<T: Plain>(
        &self,
        out: *mut T,
        capacity: usize,
        count: *mut usize,
        names: [&str; 2],
    ) -> Result<Buffer<'_, T>> {
        let [name, count_name] = names;
        Ok(Buffer { count: self.out(count, count_name)?, outs: self.outs(out, capacity, name)? })
    }

    /// A parameter struct: NULL stands for all defaults, fields behind `struct_size` are defaults.
    pub(super) fn params<T: Versioned>(&self, params: *const T) -> Result<T> {
        // SAFETY: all zeros is a value of a `Versioned` type.
        let mut value: T = unsafe { std::mem::zeroed() };
        if !params.is_null() {
            let (source, len) = self.versioned(params)?;
            // SAFETY: `versioned` found `len` bytes on both sides; they are distinct memory; what they hold is a value of `T`.
            unsafe { std::ptr::copy_nonoverlapping(source.as_ptr().cast::<u8>(), (&raw mut value).cast::<u8>(), len) };
            if value.reserved() != 0 {
                return Err(Error::Version(format!(
                    "{}.reserved is not zero: a newer field in an older library",
                    T::NAME
                )));
            }
        }
        Ok(value)
    }

    /// An output struct whose `struct_size` the caller has set.
    pub(super) fn out_struct<T: Versioned>(&self, out: *mut T) -> Result<OutStruct<'_, T>> {
        let (pointer, len) = self.versioned(out.cast_const())?;
        Ok(OutStruct { pointer, len, call: PhantomData })
    }

    /// The struct, and how many of its bytes caller and library both know: whole fields only.
    fn versioned<T: Versioned>(&self, pointer: *const T) -> Result<(NonNull<T>, usize)> {
        let pointer = self.checked(pointer, T::NAME)?;
        // SAFETY: not NULL, aligned; a `Versioned` struct begins with its size, readable by the contract of `guard`.
        let size = unsafe { pointer.cast::<u32>().read() } as usize;
        if size < size_of::<u32>() || size > MAX_STRUCT_SIZE {
            return Err(Error::invalid(format!("{}.struct_size is {size}; set it to sizeof({0})", T::NAME)));
        }
        if let Some(tail) = size.checked_sub(size_of::<T>()) {
            // SAFETY: the caller says that its struct goes on for `tail` bytes behind the part that we know.
            let tail = unsafe { std::slice::from_raw_parts(pointer.as_ptr().add(1).cast::<u8>(), tail) };
            if tail.iter().any(|&byte| byte != 0) {
                return Err(Error::Version(format!(
                    "{} has {size} bytes and uses fields behind the {} this library knows",
                    T::NAME,
                    size_of::<T>()
                )));
            }
        }
        let len = T::FIELD_ENDS.iter().copied().filter(|&end| end <= size).max().unwrap_or(0);
        Ok((pointer, len))
    }
}

/// A struct_size beyond this is an uninitialised one, and reading that far would crash.
const MAX_STRUCT_SIZE: usize = 4096;

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|e| Error::invalid(format!("{name} is not UTF-8 at byte {}", e.valid_up_to())))
}

/// Where an input lies, for `slice_mut`.
pub(super) struct Span<'a> {
    name: &'a str,
    bytes: Range<usize>,
}

impl<'a> Span<'a> {
    pub(super) fn of<T>(name: &'a str, values: &[T]) -> Self {
        let range = values.as_ptr_range();
        Span { name, bytes: range.start.addr()..range.end.addr() }
    }
}

/// A checked place for one result.
pub(super) struct Out<'a, T> {
    pointer: NonNull<T>,
    call: PhantomData<&'a Call>,
}

impl<T> Out<'_, T> {
    pub(super) fn set(self, value: T) {
        // SAFETY: checked by `Call::out`, and writable by the contract of `guard`.
        unsafe { self.pointer.write(value) };
    }
}

impl<H: Handle> Out<'_, *mut H> {
    /// Gives the caller a new handle.
    pub(super) fn set_handle(self, object: H) {
        self.set(Arc::into_raw(Arc::new(object)).cast_mut());
    }
}

/// A checked place for an output struct.
pub(super) struct OutStruct<'a, T> {
    pointer: NonNull<T>,
    len: usize,
    call: PhantomData<&'a Call>,
}

impl<T: Versioned> OutStruct<'_, T> {
    /// Writes the fields that the caller knows; `struct_size` stays as the caller set it.
    pub(super) fn set(self, value: T) {
        let skip = size_of::<u32>();
        // SAFETY: `versioned` found `len` bytes on both sides, of which the first four are skipped; `value` is ours,
        // so the two are distinct memory.
        unsafe {
            let source = (&raw const value).cast::<u8>().add(skip);
            std::ptr::copy_nonoverlapping(source, self.pointer.as_ptr().cast::<u8>().add(skip), self.len - skip);
        }
    }
}

/// Checked places for several results.
pub(super) struct Outs<'a, T> {
    start: NonNull<T>,
    len: usize,
    call: PhantomData<&'a Call>,
}

impl<T: Plain> Outs<'_, T> {
    /// Copies `values` to the first places, or says how many are missing.
    pub(super) fn set(self, values: &[T]) -> Result<()> {
        if values.len() > self.len {
            return Err(Error::BufferTooSmall { needed: values.len(), capacity: self.len });
        }
        // SAFETY: checked by `Call::outs`, writable for `len` values by the contract of `guard`; `values` is ours.
        unsafe { self.start.copy_from_nonoverlapping(NonNull::from(values).cast(), values.len()) };
        Ok(())
    }
}

/// Checked places for results whose number is known only later.
pub(super) struct Buffer<'a, T> {
    outs: Outs<'a, T>,
    count: Out<'a, usize>,
}

impl<T: Plain> Buffer<'_, T> {
    /// Copies `values` out where there is room, and their number in any case.
    pub(super) fn fill(self, values: &[T]) -> Result<()> {
        self.count.set(values.len());
        self.outs.set(values)
    }

    /// At most the first `most` places, for `write` to fill; its count is told to the caller even when it fails.
    pub(super) fn fill_with<R>(self, most: usize, write: impl FnOnce(&mut [T], &mut usize) -> Result<R>) -> Result<R> {
        let len = self.outs.len.min(most);
        // SAFETY: as in `Outs::set`; nothing else refers to this memory while the call runs, and `T` is `Plain`.
        let values = unsafe { std::slice::from_raw_parts_mut(self.outs.start.as_ptr(), len) };
        let mut written = 0;
        let result = write(values, &mut written);
        self.count.set(written);
        result
    }
}

/// A struct of the header that begins with `uint32_t struct_size` and may grow at its end.
///
/// # Safety
/// `repr(C)`; begins with that `u32`; every bit pattern is a value; without padding, so that all of its bytes may be
/// read. `versioned!` checks the first and the last of these.
pub(super) unsafe trait Versioned: Copy {
    const NAME: &'static str;
    /// Byte at which each field ends. A field that the caller's size cuts in two counts as missing.
    const FIELD_ENDS: &'static [usize];
    /// Fields that fill a hole and may get a meaning later.
    fn reserved(&self) -> u32 {
        0
    }
}

macro_rules! versioned {
    ($name:ident { $($field:ident),+ $(,)? } $(reserved $reserved:ident)?) => {
        // SAFETY: fields are integers, floats, raw and optional function pointers; the assertions below check the layout.
        unsafe impl $crate::ffi::boundary::Versioned for $name {
            const NAME: &'static str = stringify!($name);
            const FIELD_ENDS: &'static [usize] =
                &[$(std::mem::offset_of!($name, $field) + $crate::ffi::boundary::width(|s: &$name| &s.$field)),+];
            $(fn reserved(&self) -> u32 {
                self.$reserved
            })?
        }
        const _: () = {
            assert!(std::mem::offset_of!($name, struct_size) == 0);
            // The fields listed cover the struct, so none was forgotten and there is no hole between them.
            let widths = 0 $(+ $crate::ffi::boundary::width(|s: &$name| &s.$field))+;
            assert!(cfg!(not(target_pointer_width = "64")) || widths == size_of::<$name>());
        };
    };
}
pub(super) use versioned;

/// Bytes of the field that a projection selects.
pub(super) const fn width<S, F>(_field: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// What a callback of the caller wants handed back to it.
#[derive(Clone, Copy)]
pub(super) struct User(*mut c_void);

// SAFETY: never dereferenced here; the header says from which threads a callback may come.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    pub(super) fn new(pointer: *mut c_void) -> User {
        User(pointer)
    }

    // A method, so that a closure captures the whole `User` and not the pointer in it.
    pub(super) fn get(&self) -> *mut c_void {
        self.0
    }
}

/// The object of a mutable handle, or why this call cannot have it: another one does, or one has panicked in it.
pub(super) fn taken<G>(attempt: std::result::Result<G, TryLockError<G>>, name: &'static str) -> Result<G> {
    attempt.map_err(|refusal| match refusal {
        TryLockError::WouldBlock => Error::Busy(name),
        TryLockError::Poisoned(_) => Error::Poisoned(name),
    })
}

/// Writes text into a field of fixed size: cut between two characters when the room ends, always NUL-terminated.
/// Allocates nothing.
pub(super) fn write_text(field: &mut [c_char], text: fmt::Arguments) {
    field.fill(0);
    // A `Field` takes whatever comes; an error could only be a formatter's, and half a text is better than none.
    let _ = Field { bytes: field, len: 0, full: false }.write_fmt(text);
}

struct Field<'a> {
    bytes: &'a mut [c_char],
    len: usize,
    full: bool,
}

impl Write for Field<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            // Names out of a hostile file must neither end the string early nor drive somebody's terminal.
            let c = if c.is_control() { ' ' } else { c };
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            self.full |= self.len + utf8.len() >= self.bytes.len();
            if self.full {
                break;
            }
            for (slot, &byte) in self.bytes.iter_mut().skip(self.len).zip(utf8) {
                *slot = c_char::from_ne_bytes([byte]);
            }
            self.len += utf8.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;
    use std::sync::Mutex;

    use super::*;
    use crate::ffi::status::{RZ_ERR_INVALID_ARGUMENT, RZ_ERR_POISONED, RZ_OK};

    struct Counter(Mutex<u32>);

    impl Handle for Counter {
        const NAME: &'static str = "counter";
    }

    fn counter() -> *mut Counter {
        Arc::into_raw(Arc::new(Counter(Mutex::new(0)))).cast_mut()
    }

    fn count(counter: *mut Counter, panics: bool, err: *mut rz_error) -> rz_status {
        guarded!(err, |call| {
            let counter = call.handle(counter)?;
            let mut n = taken(counter.0.try_lock(), Counter::NAME)?;
            *n += 1;
            assert!(!panics, "the counter broke");
            Ok(RZ_OK)
        })
    }

    fn free(counter: *mut Counter) {
        guarded_or!((), |call| call.release(counter))
    }

    fn message(err: &rz_error) -> String {
        let bytes: Vec<u8> = err.message.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_panic_poisons_its_handle_and_no_other() {
        let (broken, other) = (counter(), counter());
        let mut err = rz_error::success(0);
        assert_eq!(count(broken, false, &mut err), RZ_OK);
        assert_eq!(count(broken, true, &mut err), RZ_ERR_PANIC);
        assert!(
            message(&err).contains("the counter broke") && message(&err).contains("boundary.rs:"),
            "{}",
            message(&err)
        );
        assert_eq!(count(broken, false, &mut err), RZ_ERR_POISONED);
        assert!(message(&err).starts_with("counter "), "{}", message(&err));
        assert_eq!(count(other, false, &mut err), RZ_OK);
        assert_eq!((err.code, message(&err)), (RZ_OK, String::new()));
        free(broken);
        free(other);
        free(null_mut());
    }

    #[test]
    fn a_panic_without_a_status_gives_the_fallback() {
        assert_eq!(guarded_or!(7, |_call| -> Result<u32> { panic!("inside") }), 7);
        assert_eq!(guarded_or!(7, |_call| Err::<u32, _>(Error::Cancelled)), 7);
        assert_eq!(guarded_or!(7, |_call| Ok(8)), 8);
    }

    #[test]
    fn a_panic_of_a_worker_says_what_it_was() {
        let worker = || std::thread::Builder::new().name("realizar-7".into()).spawn(|| panic!("share {}", 7));
        let mut err = rz_error::success(0);
        let status = guarded!(&mut err, |_call| match worker().expect("a thread").join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => Ok(RZ_OK),
        });
        assert_eq!((status, message(&err).as_str()), (RZ_ERR_PANIC, "internal error: share 7"));
    }

    #[test]
    fn a_panic_within_a_callback_within_a_call_stays_there() {
        let mut inner = rz_error::success(0);
        let outer = guarded!(null_mut(), |_call| {
            let broken = counter();
            assert_eq!(count(broken, true, &mut inner), RZ_ERR_PANIC);
            free(broken);
            Ok(RZ_OK)
        });
        assert_eq!(outer, RZ_OK);
    }

    #[test]
    fn a_misaligned_record_is_left_alone() {
        let mut bytes = [0u64; 65];
        let odd = bytes.as_mut_ptr().cast::<u8>().wrapping_add(1).cast::<rz_error>();
        assert_eq!(count(null_mut(), false, odd), RZ_ERR_INVALID_ARGUMENT);
        assert_eq!(bytes, [0; 65]);
    }

    #[test]
    fn text_fits_its_field() {
        let mut field = [0x55; 4];
        write_text(&mut field, format_args!("{}{}", "ab", "\u{e9}"));
        assert_eq!(field.map(|c| c as u8), *b"ab\0\0");
        write_text(&mut field, format_args!("a\u{e9}"));
        assert_eq!(field.map(|c| c as u8), [b'a', 0xc3, 0xa9, 0]);
    }
}
