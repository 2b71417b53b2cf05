//! A GIF file; its first image is decoded.
#![no_main]

mod picture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| picture::decode(b"GIF89a", data));
