//! An Ogg file, decoded, mixed to one channel and resampled to the rate of encoders.
#![no_main]

mod sound;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sound::decode(b"OggS", data));
