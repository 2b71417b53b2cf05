//! An Ogg file, decoded and brought to one channel at the rate of encoders.
#![no_main]

mod sound;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sound::decode(b"OggS", data));
