//! The arguments of one call. `Call` is the only way to turn a caller's pointer into a Rust value, so every pointer is
//! checked for NULL, alignment, length and UTF-8.

use std::cell::{Cell, OnceCell};
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::str::Utf8Error;
use std::sync::Arc;

use crate::engine::Runtime;
use crate::error::{Error, Result};
use crate::os;

use super::handle::{self, Handle, Held};

/// The arguments of one call. It exists only inside `guard`, whose safety contract covers the pointers of the call.
/// References to the caller's memory that it returns live no longer than the call.
pub(super) struct Call {
    /// The runtime of the first handle that has one.
    runtime: OnceCell<Arc<Runtime>>,
    /// True if the call queried a count, and the count was written.
    is_answered: Cell<bool>,
}

/// Types that C may pass in arrays, because every bit pattern is a value.
///
/// # Safety
/// Every bit pattern is a value of the type.
pub(super) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: integers, floats and raw pointers have no invalid bit patterns.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, u32, usize, f32, f64);
// SAFETY: as above.
unsafe impl<T> Plain for *mut T {}
// SAFETY: as above.
unsafe impl<T> Plain for *const T {}

impl Call {
    /// # Safety
    /// As for `guard::guard`.
    pub(super) unsafe fn new() -> Call {
        Call { runtime: OnceCell::new(), is_answered: Cell::new(false) }
    }

    /// Returns the runtime whose log receives failures of the call.
    pub(super) fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.runtime.get()
    }

    /// True if `error` is the successful end of a query of a size. A query ends like a call with too small a buffer: it
    /// takes and changes nothing.
    pub(super) fn is_answered_by(&self, error: &Error) -> bool {
        self.is_answered.get() && matches!(error, Error::BufferTooSmall { .. })
    }

    pub(super) fn checked<T>(&self, pointer: *const T, name: &str) -> Result<NonNull<T>> {
        let pointer = NonNull::new(pointer.cast_mut()).ok_or_else(|| Error::invalid(format!("{name} is NULL")))?;
        if !pointer.is_aligned() {
            return Err(Error::invalid(format!("{name} is not aligned to {} bytes", align_of::<T>())));
        }
        Ok(pointer)
    }

    pub(super) fn handle<H: Handle>(&self, handle: *const H) -> Result<Held<H>> {
        // SAFETY: the contract of `guard` is that of `held`.
        let object = unsafe { handle::held(handle) }?;
        if let Some(runtime) = object.runtime() {
            self.runtime.get_or_init(|| runtime.clone());
        }
        Ok(object)
    }

    /// Returns the object of a handle; `None` for NULL.
    pub(super) fn optional<H: Handle>(&self, handle: *const H) -> Result<Option<Held<H>>> {
        if handle.is_null() { Ok(None) } else { self.handle(handle).map(Some) }
    }

    /// Releases the reference that the caller's handle holds. NULL is fine.
    pub(super) fn release<H: Handle>(&self, handle: *mut H) -> Result<()> {
        // SAFETY: the contract of `guard` is that of `release`.
        if handle.is_null() { Ok(()) } else { unsafe { handle::release(handle) } }
    }

    /// Returns `n` values in the caller's memory; if `n` is 0, the pointer may be NULL.
    pub(super) fn slice<T: Plain>(&self, values: *const T, n: usize, name: &str) -> Result<&[T]> {
        if n == 0 {
            return Ok(&[]);
        }
        let pointer = self.checked_many(values, n, name)?;
        // SAFETY: not NULL, aligned, at most isize::MAX bytes, readable by the contract of `guard`; `T` is `Plain`.
        Ok(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), n) })
    }

    /// Returns memory for `n` results. It must not overlap `inputs`, which a kernel reads while it writes the results.
    // The memory belongs to the caller, not to `self`, and is writable by the contract of `guard`.
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

    /// Rejects bits outside `known`, which a program for a newer library may have set.
    pub(super) fn flags(&self, flags: u32, known: u32, name: &str) -> Result<()> {
        match flags & !known {
            0 => Ok(()),
            unknown => Err(Error::Version(format!("{name} has bits {unknown:#x}, which this library does not know"))),
        }
    }

    /// Returns a text of `len` bytes.
    pub(super) fn text(&self, text: *const c_char, len: usize, name: &str) -> Result<&str> {
        utf8(self.slice(text.cast::<u8>(), len, name)?, name)
    }

    /// Returns a NUL-terminated text.
    pub(super) fn c_str(&self, text: *const c_char, name: &str) -> Result<&str> {
        utf8(self.nul_terminated(text, name)?.to_bytes(), name)
    }

    /// Returns a NUL-terminated path: any bytes if the system's paths are bytes, otherwise UTF-8.
    pub(super) fn path(&self, path: *const c_char, name: &str) -> Result<&Path> {
        let bytes = self.nul_terminated(path, name)?.to_bytes();
        if bytes.is_empty() {
            return Err(Error::invalid(format!("{name} is empty")));
        }
        os::path(bytes).map_err(|e| not_utf8(name, e))
    }

    fn nul_terminated(&self, text: *const c_char, name: &str) -> Result<&CStr> {
        let pointer = self.checked(text, name)?;
        // SAFETY: not NULL, and NUL-terminated by the contract of `guard`.
        Ok(unsafe { CStr::from_ptr(pointer.as_ptr()) })
    }

    /// Returns the checked location of a result; called before the work begins.
    pub(super) fn out<T>(&self, out: *mut T, name: &str) -> Result<Out<'_, T>> {
        Ok(Out { pointer: self.checked(out, name)?, call: PhantomData })
    }

    /// Returns the checked location of up to `len` results. `out` may be NULL if `len` is 0. It may overlap an input
    /// that is not read any more when the results are written.
    pub(super) fn outs<T: Plain>(&self, out: *mut T, len: usize, name: &str) -> Result<Outs<'_, T>> {
        let start = if len == 0 { NonNull::dangling() } else { self.checked(out, name)? };
        Ok(Outs { start, len, call: PhantomData })
    }

    /// Like `outs`, with the location of the number of results. NULL with a capacity of 0 queries only the number.
    pub(super) fn buffer<T: Plain>(
        &self,
        out: *mut T,
        capacity: usize,
        count: *mut usize,
        names: [&str; 2],
    ) -> Result<Buffer<'_, T>> {
        let [name, count_name] = names;
        let query = (out.is_null() && capacity == 0).then_some(self);
        Ok(Buffer { count: self.out(count, count_name)?, outs: self.outs(out, capacity, name)?, query })
    }
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|e| not_utf8(name, e))
}

fn not_utf8(name: &str, e: Utf8Error) -> Error {
    Error::invalid(format!("{name} is not UTF-8 at byte {}", e.valid_up_to()))
}

/// The addresses of an input, for `slice_mut`.
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

/// The checked location of one result.
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
    /// Writes a new handle for `object`.
    pub(super) fn set_handle(self, object: H) {
        self.set(handle::into_raw(object));
    }
}

/// The checked location of several results.
pub(super) struct Outs<'a, T> {
    start: NonNull<T>,
    len: usize,
    call: PhantomData<&'a Call>,
}

impl<T: Plain> Outs<'_, T> {
    /// Writes `values`, or fails with the needed capacity.
    pub(super) fn set(self, values: &[T]) -> Result<()> {
        if values.len() > self.len {
            return Err(Error::BufferTooSmall { needed: values.len(), capacity: self.len });
        }
        // SAFETY: checked by `Call::outs`, writable for `len` values by the contract of `guard`; `values` is ours.
        unsafe { self.start.copy_from_nonoverlapping(NonNull::from(values).cast(), values.len()) };
        Ok(())
    }
}

/// The checked location of results whose number is not known before the work.
pub(super) struct Buffer<'a, T> {
    outs: Outs<'a, T>,
    count: Out<'a, usize>,
    /// The call, if it queries only the number of results.
    query: Option<&'a Call>,
}

impl<'a, T: Plain> Buffer<'a, T> {
    /// Rejects a buffer with space for fewer than `needed` values, and writes this number for the caller.
    pub(super) fn with_room(self, needed: usize) -> Result<Buffer<'a, T>> {
        match self.outs.len {
            capacity if capacity < needed || self.query.is_some() => Err(self.without_room(needed)),
            _ => Ok(self),
        }
    }

    /// Writes `values` if they fit, and their number in any case. A query of the number ends here with
    /// `BufferTooSmall`, so that the caller of this function does not consume the values.
    pub(super) fn fill(self, values: &[T]) -> Result<()> {
        self.fill_next_to(values, || {})
    }

    /// Like `fill`; `others` writes the other results of the call, even if the call only queries the number.
    pub(super) fn fill_next_to(self, values: &[T], others: impl FnOnce()) -> Result<()> {
        if self.query.is_some() {
            others();
            return Err(self.without_room(values.len()));
        }
        self.count.set(values.len());
        self.outs.set(values)?;
        others();
        Ok(())
    }

    /// Writes the number of results, and returns the error that ends the call; for a query of the number, the call then
    /// succeeds.
    fn without_room(self, needed: usize) -> Error {
        let capacity = self.outs.len;
        self.count.set(needed);
        if let Some(call) = self.query {
            call.is_answered.set(true);
        }
        Error::BufferTooSmall { needed, capacity }
    }

    /// Lets `write` fill at most `most` values. The number of values that it has written is written for the caller,
    /// even if it fails.
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

/// The `user` pointer that is passed to a callback.
#[derive(Clone, Copy)]
pub(super) struct User(*mut c_void);

// SAFETY: never dereferenced by the library; the header says on which threads a callback may run.
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
