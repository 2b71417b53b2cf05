//! A WAV file, which is decoded, mixed to one channel and resampled to the rate of encoders; the target also computes a
//! spectrogram of its beginning.
#![no_main]

use realizar::media::{HOP, LogMel, Sound};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut file = data.to_vec();
    file.resize(data.len().max(12), 0);
    file[..4].copy_from_slice(b"RIFF");
    file[8..12].copy_from_slice(b"WAVE");
    let Ok(sound) = Sound::decode(&file, 1 << 16) else { return };
    assert!(sound.samples.iter().all(|x| x.is_finite()));
    let few = &sound.samples[..sound.samples.len().min(10 * HOP)];
    let mel = LogMel::new(40).of(few, 10 * HOP).expect("a spectrogram");
    assert!(mel.len() == 400 && mel.iter().all(|x| x.is_finite()));
});
