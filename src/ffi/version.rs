//! Versions of the library and its interface, and the names of its statuses.

use std::ffi::c_char;

use super::status::{name, rz_status};
use crate::os;

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

/// Version of the library as a number, as RZ_VERSION_NUMBER is for the header: 1,000,000 times the major, 1,000
/// times the minor and the patch version, so that 0.1.0 is 1000 and a newer version is a greater number. Any thread.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_version_number() -> u32 {
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}

/// Bit of rz_features: kernels of a GPU are built in. Today those are kernels in CUDA, for NVIDIA GPUs.
pub const RZ_FEATURE_GPU: u32 = 1;
/// Bit of rz_features: PNG, JPEG, WebP and GIF files are decoded; without it BMP files alone.
pub const RZ_FEATURE_IMAGES: u32 = 2;
/// Bit of rz_features: MP3, FLAC and Ogg Vorbis files are decoded; without it WAV files alone.
pub const RZ_FEATURE_SOUNDS: u32 = 4;
/// Bit of rz_features: the library starts threads; without it all work is done on the calling thread.
pub const RZ_FEATURE_THREADS: u32 = 8;

/// What this build of the library has: RZ_FEATURE_..., or-ed together. Whether a device can be used is in
/// rz_device_info_get. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_features() -> u32 {
    let has = [
        (cfg!(cuda), RZ_FEATURE_GPU),
        (cfg!(feature = "images"), RZ_FEATURE_IMAGES),
        (cfg!(feature = "sounds"), RZ_FEATURE_SOUNDS),
        (os::HAS_THREADS, RZ_FEATURE_THREADS),
    ];
    has.iter().filter(|(has, _)| *has).fold(0, |all, (_, bit)| all | bit)
}

/// Name of a status, such as "RZ_ERR_FORMAT". The string is static; an unknown number is "RZ_UNKNOWN", never NULL.
/// Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_status_name(status: rz_status) -> *const c_char {
    name(status).as_ptr()
}

/// A number of a version.
const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => 0,
    }
}
