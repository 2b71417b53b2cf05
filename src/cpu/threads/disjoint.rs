//! The view through which several threads write one slice: the only place that turns a shared pointer into a mutable
//! slice.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

/// A slice that several threads write at once, each thread its own parts.
pub struct DisjointSlice<'a, T> {
    data: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `slice_mut`, whose contract forbids overlap; elements move between threads.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}
// SAFETY: as above; it represents a `&mut [T]`.
unsafe impl<T: Send> Send for DisjointSlice<'_, T> {}

impl<'a, T> DisjointSlice<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        DisjointSlice { data: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the start of the slice, for kernels that write non-contiguous parts, under the contract of `slice_mut`.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.data
    }

    /// Returns a part of the slice; panics if the range is out of bounds.
    ///
    /// # Safety
    /// No other part that overlaps the range may be in use.
    #[allow(clippy::mut_from_ref)] // The contract keeps the parts apart.
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: inside the slice by the assertion, and unshared by this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "5..9 of 8")]
    fn a_part_outside_the_slice_is_refused() {
        let mut data = [0u8; 8];
        // SAFETY: no other part is in use.
        unsafe { DisjointSlice::new(&mut data).slice_mut(5..9) };
    }
}
