//! Objects behind opaque pointers: one allocation each, with a count of users and a tag in front that tells handles of
//! one kind from those of another and from freed ones.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Runtime;
use crate::error::{Error, Result};
use crate::memory::User;

/// An object that C programs hold by an opaque pointer, made by `into_raw`.
pub(super) trait Handle: Send + Sync {
    /// The object's name in messages; distinct, because the tag derives from it.
    const NAME: &'static str;
    const TAG: u64 = tag(Self::NAME);

    /// The runtime whose log is told when a call on this object fails by no fault of the caller's.
    fn runtime(&self) -> Option<&Arc<Runtime>> {
        None
    }
}

/// FNV-1a: a number that memory hardly holds by chance.
const fn tag(name: &str) -> u64 {
    let (mut hash, mut i) = (0xcbf2_9ce4_8422_2325u64, 0);
    while let Some((_, [byte, ..])) = name.as_bytes().split_at_checked(i) {
        hash = (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// An object and its tag, which is zero from the moment when the caller frees the handle.
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

/// An object in use by a running call, whose count keeps it alive though the caller may free the handle meanwhile.
pub(super) type Held<H> = Arc<Tagged<H>>;

/// A new handle; the caller of the library owns it.
pub(super) fn into_raw<H: Handle>(object: H) -> *mut H {
    Arc::into_raw(Arc::new(Tagged { tag: AtomicU64::new(H::TAG), object, _user: User::enter() })).cast_mut().cast()
}

/// The object behind a handle; `None` where the pointer is misaligned, of another kind or freed. The last two are found
/// as long as the memory is readable and nobody has put other data there. Allocates nothing.
///
/// # Safety
/// `handle` is NULL or came from `into_raw`, and was not freed before but by a mistake that the tag still shows.
pub(super) unsafe fn live<'a, H: Handle>(handle: *const H) -> Option<&'a Tagged<H>> {
    let pointer = handle.cast::<Tagged<H>>();
    if pointer.is_null() || !pointer.is_aligned() {
        return None;
    }
    // SAFETY: not NULL and aligned; by the contract a handle, all of which begin with a tag.
    let tag = unsafe { &*pointer.cast::<AtomicU64>() };
    // SAFETY: the tag says that an `H` lies behind it.
    (tag.load(Ordering::Acquire) == H::TAG).then(|| unsafe { &*pointer })
}

/// `live`, or why not.
///
/// # Safety
/// That of `live`.
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

/// The object behind a handle, for the length of a call.
///
/// # Safety
/// That of `live`.
pub(super) unsafe fn held<H: Handle>(handle: *const H) -> Result<Held<H>> {
    // SAFETY: the contract of this function; the object came from `Arc::into_raw` and its count is at least one; the
    // count added here is the one that the returned `Arc` gives back.
    unsafe {
        let pointer = checked(handle)?;
        Arc::increment_strong_count(pointer);
        Ok(Arc::from_raw(pointer))
    }
}

/// Gives back the count that the caller's handle held.
///
/// # Safety
/// That of `live`.
pub(super) unsafe fn release<H: Handle>(handle: *mut H) -> Result<()> {
    // SAFETY: the contract of this function. Who takes the tag away frees the object, so that of two calls only one
    // does.
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
        // SAFETY: handles of this test, freed at its end only.
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
