//! Memory of the host.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::memory::{self, Host};

use super::guard::{CALLED, guarded_first};
use super::status::{RZ_OK, rz_error, rz_status};

/// Returns `size` bytes (never 0) aligned to `align` (a power of two), or NULL if there is no memory. Several threads
/// may call it at once. The callback must not call the library and must return normally: no longjmp, no C++ exception.
pub type rz_alloc_callback = Option<unsafe extern "C" fn(size: usize, align: usize, user: *mut c_void) -> *mut c_void>;

/// Frees memory from rz_alloc_callback, with the same size and alignment. Several threads may call it at once. The
/// callback must not call the library and must return normally: no longjmp, no C++ exception.
pub type rz_free_callback =
    Option<unsafe extern "C" fn(ptr: *mut c_void, size: usize, align: usize, user: *mut c_void)>;

/// An allocator. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_allocator {
    /// sizeof(rz_allocator).
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Allocates memory.
    pub alloc: rz_alloc_callback,
    /// Frees memory.
    pub free: rz_free_callback,
    /// Passed to both callbacks; valid as long as the library is loaded.
    pub user: *mut c_void,
}

/// Sets the allocator for all memory of the library: the heap, weights, KV caches and scratch memory. The call must
/// come before any other call except rz_abi_version, rz_version, rz_status_name and rz_layout_get; a repeated call with
/// the same values changes nothing.
///
/// Without a custom allocator the library uses malloc, and for large blocks anonymous mappings, whose pages use no
/// memory until they are touched. With a custom allocator the library fills large blocks with zeros. The allocator does
/// not serve thread stacks, mapped files (RZ_MODEL_MMAP), the C library and the GPU driver.
///
/// If the allocator returns NULL or a misaligned pointer, the call fails with RZ_ERR_OUT_OF_MEMORY. The first call
/// reserves about 256 KiB, so that a call that runs out of memory can clean up; freeing the last handle frees this
/// reserve. Work that cannot stop midway first reserves a larger block per thread, which it uses only if memory runs
/// out and frees afterwards: 8 MiB to tokenize a text or to render a chat template, 16 MiB to sample with a grammar, 64
/// MiB to compile a grammar. Any thread. Errors: RZ_ERR_BUSY (after another call), RZ_ERR_INVALID_ARGUMENT (also if
/// another allocator is set), RZ_ERR_OUT_OF_MEMORY (`alloc` cannot provide the first reserve, or misaligns it; the call
/// then sets no allocator). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_allocator_set(allocator: *const rz_allocator, err: *mut rz_error) -> rz_status {
    guarded_first!(err, |call| {
        call.checked(allocator, "rz_allocator")?;
        let allocator: rz_allocator = call.params(allocator)?;
        let alloc = allocator.alloc.ok_or_else(|| Error::invalid("rz_allocator.alloc is NULL"))?;
        let free = allocator.free.ok_or_else(|| Error::invalid("rz_allocator.free is NULL"))?;
        let host = Host { alloc, free, user: allocator.user };
        if let Some(set) = memory::host() {
            let is_same = std::ptr::fn_addr_eq(set.alloc, alloc) && std::ptr::fn_addr_eq(set.free, free);
            return match is_same && set.user == host.user {
                true => Ok(RZ_OK),
                false => Err(Error::invalid("rz_allocator differs from the one that is set; it must be the same one")),
            };
        }
        if CALLED.load(Ordering::Acquire) {
            return Err(Error::Busy("the allocator of the library"));
        }
        // SAFETY: the header asks for the functions of an allocator, and for no call before this one.
        match unsafe { memory::try_host(host) } {
            true => Ok(RZ_OK),
            false => {
                Err(Error::OutOfMemory { what: "the reserve, aligned to 64 bytes", bytes: memory::RESERVE as u64 })
            }
        }
    })
}
