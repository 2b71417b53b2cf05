//! Which library this is.

use std::ffi::c_char;

use super::boundary::guarded_or;

/// Grows by one with every change that a program built against an older header could notice.
pub const RZ_ABI_VERSION: u32 = 1;

/// RZ_ABI_VERSION of the header that the library was built with: the first thing to compare for a program that loads
/// the library at run time. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_abi_version() -> u32 {
    guarded_or!(RZ_ABI_VERSION, |_call| Ok(RZ_ABI_VERSION))
}

/// Version of the library, such as "0.1.0". The string is static. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_version() -> *const c_char {
    const VERSION: *const c_char = concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast();
    guarded_or!(VERSION, |_call| Ok(VERSION))
}
