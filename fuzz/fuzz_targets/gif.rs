//! A GIF file, of which the first picture is decoded.
#![no_main]

mod picture;

libfuzzer_sys::fuzz_target!(|data: &[u8]| picture::decode(b"GIF89a", data));
