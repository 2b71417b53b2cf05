//! Objects behind opaque pointers: one allocation each, with a reference count and, before the object, a tag that
//! distinguishes handles of different types and freed handles.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Runtime;
use crate::error::{Error, Result};
use crate::memory::User;

/// An object that C programs hold by an opaque pointer, which `into_raw` creates.
pub(super) trait Handle: Send + Sync {
    /// The object's name in messages; distinct, because the tag derives from it.
    const NAME: &'static str;
    const TAG: u64 = tag(Self::NAME);

    /// Returns the runtime whose log receives failures of calls on this object that the caller has not caused.
    fn runtime(&self) -> Option<&Arc<Runtime>> {
        None
    }
}

/// FNV-1a, a number that is unlikely to occur in memory by chance.
const fn tag(name: &str) -> u64 {
    let (mut hash, mut i) = (0xcbf2_9ce4_8422_2325u64, 0);
    while let Some((_, [byte, ..])) = name.as_bytes().split_at_checked(i) {
        hash = (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// An object and its tag, which becomes zero when the caller frees the handle.
#[repr(C)]
pub(super) struct Tagged<H> {
    tag: AtomicU64,
    object: H,
    _user: User,
}

impl<H> Deref for Tagged<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.object
    }
}

/// A reference to the object of a running call, which keeps the object alive even if the caller frees the handle
/// meanwhile.
pub(super) type Held<H> = Arc<Tagged<H>>;

/// Returns a new handle, which the caller of the library owns.
pub(super) fn into_raw<H: Handle>(object: H) -> *mut H {
    Arc::into_raw(Arc::new(Tagged { tag: AtomicU64::new(H::TAG), object, _user: User::enter() })).cast_mut().cast()
}

/// Returns the object of a handle; `None` if the pointer is NULL or misaligned, or if the handle has another type or
/// was freed. Another type and a freed handle are detected as long as the memory is readable and was not overwritten.
/// Allocates nothing.
///
/// # Safety
/// `handle` must be NULL or from `into_raw`, and must not be freed; a freed handle is tolerated as long as its tag is
/// still in memory.
pub(super) unsafe fn live<'a, H: Handle>(handle: *const H) -> Option<&'a Tagged<H>> {
    let pointer = handle.cast::<Tagged<H>>();
    if pointer.is_null() || !pointer.is_aligned() {
        return None;
    }
    // SAFETY: not NULL and aligned; by the contract it is a handle, and each handle begins with a tag.
    let tag = unsafe { &*pointer.cast::<AtomicU64>() };
    // SAFETY: the tag identifies an object of type `H`.
    (tag.load(Ordering::Acquire) == H::TAG).then(|| unsafe { &*pointer })
}

/// Like `live`, with an error that says why there is no object.
///
/// # Safety
/// As for `live`.
unsafe fn checked<H: Handle>(handle: *const H) -> Result<*const Tagged<H>> {
    // SAFETY: the contract of this function.
    match unsafe { live(handle) } {
        Some(_) => Ok(handle.cast()),
        None if handle.is_null() => Err(Error::invalid(format!("{} is NULL", H::NAME))),
        None if !handle.cast::<Tagged<H>>().is_aligned() => {
            let what = format!("{} is not aligned to {} bytes, as handles are", H::NAME, align_of::<Tagged<H>>());
            Err(Error::invalid(what))
        }
        None => Err(Error::invalid(format!("{} is a handle of another kind or one that was freed", H::NAME))),
    }
}

/// Returns the object of a handle, for the duration of a call.
///
/// # Safety
/// As for `live`.
pub(super) unsafe fn held<H: Handle>(handle: *const H) -> Result<Held<H>> {
    // SAFETY: the contract of this function; the object came from `Arc::into_raw` and its count is at least one; the
    // returned `Arc` releases the reference that is added here.
    unsafe {
        let pointer = checked(handle)?;
        Arc::increment_strong_count(pointer);
        Ok(Arc::from_raw(pointer))
    }
}

/// Releases the reference that the caller's handle holds.
///
/// # Safety
/// As for `live`.
pub(super) unsafe fn release<H: Handle>(handle: *mut H) -> Result<()> {
    // SAFETY: the contract of this function. The call that clears the tag releases the object, so that of two
    // concurrent calls only one does.
    unsafe {
        let object = checked(handle.cast_const())?;
        if (*object).tag.swap(0, Ordering::AcqRel) == H::TAG {
            drop(Arc::from_raw(object));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Left(u32);
    struct Right;

    impl Handle for Left {
        const NAME: &'static str = "left";
    }

    impl Handle for Right {
        const NAME: &'static str = "right";
    }

    #[test]
    fn a_handle_of_another_kind_is_refused() {
        let left = into_raw(Left(7));
        // SAFETY: handles of this test, which are freed only at its end.
        unsafe {
            assert_eq!(held(left).expect("a left").0, 7);
            let error = held(left.cast_const().cast::<Right>()).err().expect("no right").to_string();
            assert_eq!(error, "right is a handle of another kind or one that was freed");
            assert!(release(left.cast::<Right>()).is_err());
            release(left).expect("a left");
        }
    }

    #[test]
    fn a_freed_handle_is_refused_while_a_call_goes_on() {
        let left = into_raw(Left(7));
        // SAFETY: `running` keeps the memory alive throughout.
        unsafe {
            let running = held(left).expect("a left");
            release(left).expect("a left");
            assert!(held(left).is_err() && release(left).is_err());
            assert_eq!((running.0, Arc::strong_count(&running)), (7, 1));
        }
    }
}
