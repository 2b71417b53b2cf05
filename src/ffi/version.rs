//! Versions of the library and its interface, and the names of its statuses.

use std::ffi::c_char;

use super::status::{name, rz_status};

/// The number of the interface, the one in the SONAME of the library too. It grows with every change that a program
/// built against an older header could notice, so a program that loads the library at run time compares it first:
/// rz_abi_version() == RZ_ABI_VERSION. Functions that are added leave it as it is: whoever wants to run with older
/// libraries too looks such a one up with dlsym, or compares rz_version().
pub const RZ_ABI_VERSION: u32 = 1;

/// RZ_ABI_VERSION of the header that the library was built with; a program works with a library that has its own.
/// Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_abi_version() -> u32 {
    RZ_ABI_VERSION
}

/// Version of the library, such as "0.1.0"; RZ_VERSION_MAJOR, RZ_VERSION_MINOR and RZ_VERSION_PATCH are those of the
/// header. The string is static. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Name of a status, such as "RZ_ERR_FORMAT". The string is static; an unknown number is "RZ_UNKNOWN", never NULL.
/// Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_status_name(status: rz_status) -> *const c_char {
    name(status).as_ptr()
}
