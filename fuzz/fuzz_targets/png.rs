//! A PNG file, decoded and turned upright by its EXIF data.
#![no_main]

mod picture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| picture::decode(b"\x89PNG\r\n\x1a\n", data));
