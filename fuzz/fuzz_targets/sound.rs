//! Shared by the targets of compressed audio: a file whose first bytes are replaced by the first bytes of its format.

use realizar::media::Sound;

pub fn decode(first: &[u8], data: &[u8]) {
    let mut file = data.to_vec();
    file.resize(data.len().max(first.len()), 0);
    file[..first.len()].copy_from_slice(first);
    if let Ok(sound) = Sound::decode(&file, 1 << 18) {
        assert!(sound.samples.len() <= 1 << 18 && sound.samples.iter().all(|x| x.is_finite()));
    }
}
