//! Versions of the library and its interface, and the names of its statuses.

use std::ffi::c_char;

use super::status::{name, rz_status};
use crate::os;

/// Version of the interface, also part of the library's SONAME. It grows with every change that a program built against
/// an older header could notice. A program that loads the library at run time checks it first: rz_abi_version() ==
/// RZ_ABI_VERSION. New functions do not change it: a program that also runs with older libraries looks a new function
/// up with dlsym, or compares rz_version().
pub const RZ_ABI_VERSION: u32 = 1;

/// Returns RZ_ABI_VERSION of the header that the library was built with. A program can use a library only if this
/// function returns the RZ_ABI_VERSION of the header that the program was built with. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_abi_version() -> u32 {
    RZ_ABI_VERSION
}

/// Returns the version of the library, such as "0.1.0"; RZ_VERSION_MAJOR, RZ_VERSION_MINOR and RZ_VERSION_PATCH are the
/// version of the header. The string is static. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the version of the library as a number in the form of RZ_VERSION_NUMBER: 1,000,000 times the major, 1,000
/// times the minor and the patch version. 0.1.0 is 1000; a newer version has a greater number. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_version_number() -> u32 {
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}

/// Bit of rz_features: the library contains CUDA kernels, for NVIDIA GPUs.
pub const RZ_FEATURE_GPU: u32 = 1;
/// Bit of rz_features: the library decodes PNG, JPEG, WebP and GIF files; without it only BMP files.
pub const RZ_FEATURE_IMAGES: u32 = 2;
/// Bit of rz_features: the library decodes MP3, FLAC and Ogg Vorbis files; without it only WAV files.
pub const RZ_FEATURE_SOUNDS: u32 = 4;
/// Bit of rz_features: the library starts threads; without it all work runs on the calling thread.
pub const RZ_FEATURE_THREADS: u32 = 8;
/// Bit of rz_features: the library contains the wgpu backend, for GPUs with Vulkan, Metal or DX12.
pub const RZ_FEATURE_WGPU: u32 = 16;

/// Returns the features of this build: RZ_FEATURE_... combined with |. rz_device_info_get tells whether a device is
/// usable. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_features() -> u32 {
    let has = [
        (cfg!(cuda), RZ_FEATURE_GPU),
        (cfg!(feature = "images"), RZ_FEATURE_IMAGES),
        (cfg!(feature = "sounds"), RZ_FEATURE_SOUNDS),
        (os::HAS_THREADS, RZ_FEATURE_THREADS),
        (cfg!(feature = "wgpu"), RZ_FEATURE_WGPU),
    ];
    has.iter().filter(|(has, _)| *has).fold(0, |all, (_, bit)| all | bit)
}

/// Returns the name of a status, such as "RZ_ERR_FORMAT". The string is static; for an unknown number it is
/// "RZ_UNKNOWN", never NULL. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_status_name(status: rz_status) -> *const c_char {
    name(status).as_ptr()
}

/// Parses one number of a version.
const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => 0,
    }
}
