//! Memory of the host.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::memory::{self, Host};

use super::guard::{CALLED, guarded_first};
use super::status::{RZ_OK, rz_error, rz_status};

/// Returns `size` bytes, never 0, aligned to `align`, a power of two, or NULL where there are none. Comes from any
/// thread, several at once, and must not call the library. It must return normally: no longjmp, no C++ exception.
pub type rz_alloc_callback = Option<unsafe extern "C" fn(size: usize, align: usize, user: *mut c_void) -> *mut c_void>;

/// Takes back what rz_alloc_callback has returned for this size and this alignment. Comes from any thread, several at
/// once, and must not call the library. It must return normally: no longjmp, no C++ exception.
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
    /// Gives memory.
    pub alloc: rz_alloc_callback,
    /// Takes it back.
    pub free: rz_free_callback,
    /// Handed to both as it is; valid as long as the library is loaded.
    pub user: *mut c_void,
}

/// Has the library take all its memory from the host: the heap, weights, caches and scratch. Before any other call but
/// those of rz_abi_version, rz_version, rz_status_name and rz_layout_get; again with the same values it changes
/// nothing.
///
/// Without it memory comes from malloc, and large blocks from anonymous mappings, whose pages cost nothing until they
/// are used; those of a host are set to zero as they are made. Not asked for: the stacks of threads, mapped files
/// (RZ_MODEL_MMAP), what the C library and a GPU's driver take for themselves.
///
/// An allocator that returns NULL, or a pointer that is not aligned, makes calls end with RZ_ERR_OUT_OF_MEMORY. With
/// the first call some 256 KiB are set aside, from which a call that has run out of memory ends in order; the last
/// handle that is freed gives them back. Work that could not stop midway begins with a larger block, which is given
/// back untouched where memory lasts: 8 MiB to cut a text into tokens or to render a chat template, 16 MiB for a choice
/// with a grammar, 64 MiB to compile one, on each thread that does so. Any thread. Errors: RZ_ERR_BUSY (after another
/// call), RZ_ERR_INVALID_ARGUMENT (also when another allocator is set), RZ_ERR_OUT_OF_MEMORY (`alloc` does not give as
/// much at once, or not aligned; nothing is set then). Since 0.1.0.
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
