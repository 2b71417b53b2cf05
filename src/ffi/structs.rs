//! Structs that callers and the library exchange: their layouts, and how they grow. A struct begins with `struct_size`.
//! Of the caller's size and the library's size, the smaller one counts; fields beyond it have their defaults.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use crate::error::{Error, Result, try_vec};

use super::arguments::{Call, Out};

/// A field of a struct of the header.
pub(super) struct StructField {
    pub(super) name: &'static str,
    pub(super) offset: usize,
    pub(super) size: usize,
}

/// A struct of the header; only `layout.rs` implements this trait. The struct has no padding, so all of its bytes may
/// be read, and the same layout under every compiler.
pub(super) trait Layout: Copy {
    const NAME: &'static str;
    /// All fields, in order.
    const FIELDS: &'static [StructField];
}

/// A struct of the header that begins with `uint32_t struct_size` and may grow at its end.
///
/// # Safety
/// The struct must be `repr(C)`, begin with that `u32` (`layout.rs` checks this), and every bit pattern must be a
/// value.
pub(super) unsafe trait Versioned: Layout {
    /// Returns the fields that fill a hole and may get a meaning later, which must be 0.
    fn reserved(&self) -> u32 {
        0
    }
}

/// Converts a number for a field of a struct; `u32::MAX` if it is larger.
pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Converts a time to nanoseconds for a field of a struct; `u64::MAX` if it is longer.
pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Maximum `struct_size`. A larger value is uninitialized memory; reading that many bytes could crash.
const MAX_STRUCT_SIZE: usize = 4096;

/// Maximum number of elements of an array of output structs.
const MAX_OUT_STRUCTS: usize = 4096;

impl Call {
    /// Returns a parameter struct; NULL means all defaults, and fields after the caller's `struct_size` have their
    /// defaults.
    pub(super) fn params<T: Versioned>(&self, params: *const T) -> Result<T> {
        // SAFETY: all zeros is a value of a `Versioned` type.
        let mut value: T = unsafe { std::mem::zeroed() };
        if params.is_null() {
            return Ok(value);
        }
        let (source, size) = self.sized(params)?;
        if let Some(tail) = size.checked_sub(size_of::<T>()) {
            // SAFETY: by the caller's `struct_size`, `tail` bytes follow the part that the library knows.
            let tail = unsafe { std::slice::from_raw_parts(source.as_ptr().add(1).cast::<u8>(), tail) };
            if tail.iter().any(|&byte| byte != 0) {
                let known = size_of::<T>();
                let what =
                    format!("{} has {size} bytes and uses fields behind the {known} this library knows", T::NAME);
                return Err(Error::Version(what));
            }
        }
        let len = whole_fields::<T>(size);
        // SAFETY: both structs have `len` bytes; they do not overlap; the bytes are a value of `T`.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr().cast::<u8>(), (&raw mut value).cast::<u8>(), len) };
        if value.reserved() != 0 {
            let what = format!("{}.reserved is not zero: a newer field in an older library", T::NAME);
            return Err(Error::Version(what));
        }
        Ok(value)
    }

    /// Returns element `i` of an array of parameter structs, whose stride is the `struct_size` of the first element.
    pub(super) fn element<T: Versioned>(&self, first: *const T, i: usize) -> Result<T> {
        let (_, size) = self.sized(first)?;
        let element = first.wrapping_byte_add(i.saturating_mul(size));
        let (_, own) = self.sized(element)?;
        if own != size {
            return Err(Error::invalid(format!("{}.struct_size is {own}, that of the first is {size}", T::NAME)));
        }
        self.params(element)
    }

    /// Returns the location of an output struct, whose `struct_size` the caller has set; its other fields may be
    /// uninitialized.
    pub(super) fn out_struct<T: Versioned>(&self, out: *mut T) -> Result<OutStruct<'_, T>> {
        let (pointer, size) = self.sized(out.cast_const())?;
        Ok(OutStruct { pointer, size, call: PhantomData })
    }

    /// Checks an array of `capacity` output structs, whose stride is the `struct_size` of the first element, and the
    /// location of their number. A caller that needs neither passes NULL for both and a capacity of 0.
    pub(super) fn out_structs<T: Versioned>(
        &self,
        first: *mut T,
        capacity: usize,
        count: *mut usize,
        [name, count_name]: [&'static str; 2],
    ) -> Result<OutStructs<'_, T>> {
        let is_query = first.is_null() && capacity == 0;
        let count = if is_query && count.is_null() { None } else { Some(self.out(count, count_name)?) };
        if capacity > MAX_OUT_STRUCTS {
            return Err(Error::invalid(format!("capacity is {capacity}; it must be at most {MAX_OUT_STRUCTS}")));
        }
        let mut places = try_vec(name, capacity)?;
        for i in 0..capacity {
            let size = if i == 0 { 0 } else { self.sized(first.cast_const())?.1 };
            let place = self.out_struct(first.wrapping_byte_add(i.saturating_mul(size)));
            let place = place.map_err(|e| Error::invalid(format!("{name}[{i}]: {e}")))?;
            if i > 0 && place.size != size {
                let own = place.size;
                return Err(Error::invalid(format!(
                    "{name}[{i}].struct_size is {own}; it must be that of the first, {size}"
                )));
            }
            places.push(place);
        }
        Ok(OutStructs { places, is_query, count })
    }

    /// Returns a struct with its `struct_size`.
    fn sized<T: Versioned>(&self, pointer: *const T) -> Result<(NonNull<T>, usize)> {
        let pointer = self.checked(pointer, T::NAME)?;
        // SAFETY: not NULL, aligned; a `Versioned` struct begins with its size, readable by the contract of `guard`.
        let size = unsafe { pointer.cast::<u32>().read() } as usize;
        if size < size_of::<u32>() || size > MAX_STRUCT_SIZE {
            return Err(Error::invalid(format!("{}.struct_size is {size}; set it to sizeof({0})", T::NAME)));
        }
        Ok((pointer, size))
    }
}

/// Returns the size of the fields that end at or before `size`. A field that the caller's size cuts in two counts as
/// missing.
fn whole_fields<T: Layout>(size: usize) -> usize {
    T::FIELDS.iter().map(|field| field.offset + field.size).filter(|&end| end <= size).max().unwrap_or(0)
}

/// Checked locations of output structs whose number is not known before the work.
pub(super) struct OutStructs<'a, T> {
    places: Vec<OutStruct<'a, T>>,
    is_query: bool,
    count: Option<Out<'a, usize>>,
}

impl<T: Versioned> OutStructs<'_, T> {
    /// Writes the values and their count; only the count for a query, or if the array is too small.
    pub(super) fn set(self, values: impl ExactSizeIterator<Item = T>) -> Result<()> {
        let (needed, capacity) = (values.len(), self.places.len());
        if let Some(count) = self.count {
            count.set(needed);
        }
        if self.is_query {
            return Ok(());
        }
        if needed > capacity {
            return Err(Error::BufferTooSmall { needed, capacity });
        }
        self.places.into_iter().zip(values).for_each(|(place, value)| place.set(value));
        Ok(())
    }
}

/// The checked location of an output struct.
pub(super) struct OutStruct<'a, T> {
    pointer: NonNull<T>,
    size: usize,
    call: PhantomData<&'a Call>,
}

impl<T: Versioned> OutStruct<'_, T> {
    /// Writes the fields that the caller knows, and zeros for the fields that the library does not know; `struct_size`
    /// stays as the caller set it.
    pub(super) fn set(self, value: T) {
        let skip = size_of::<u32>();
        let len = whole_fields::<T>(self.size);
        let bytes = self.pointer.as_ptr().cast::<u8>();
        // SAFETY: both structs have `len` bytes, of which the first four are skipped, and the caller's struct has
        // `size` bytes; `value` belongs to this function, so the two do not overlap.
        unsafe {
            let source = (&raw const value).cast::<u8>().add(skip);
            std::ptr::copy_nonoverlapping(source, bytes.add(skip), len - skip);
            if let Some(tail) = self.size.checked_sub(size_of::<T>()) {
                bytes.add(size_of::<T>()).write_bytes(0, tail);
            }
        }
    }
}
