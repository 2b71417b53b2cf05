//! Preprocessing of an image or audio for its encoder, in slices: tiles or spectrograms, and the hash.

use sha2::{Digest, Sha256};

use super::bounds::{PictureBounds, fitted};
use super::encoder::{Encoder, Encoding};
use super::item::MediaHash;
use super::picture::made_by;
use super::sound;
use crate::error::Result;
use crate::media::{Layout, Picture, Resampling, Sound, Tiling};
use crate::model::vision::AudioParts;

/// Bytes hashed between two calls of `pauses`.
const CHUNK: usize = 1 << 16;
/// Bytes of samples in a stack buffer: callers may have a stack of 64 KiB.
const SAMPLES: usize = 4 << 10;

/// The current step; the last one is `Done`.
pub(super) enum Preparing {
    Tiles { picture: Picture, tiling: Box<Tiling>, layout: Layout },
    Resampling(Box<Resampling>),
    SplittingSound { sound: Sound, splitting: Box<AudioParts> },
    HashedTiles { tiles: Vec<Picture>, layout: Layout, hashed: Hashed },
    HashedSound { sound: Sound, splitting: Box<AudioParts>, hashed: Hashed },
}

/// A hash, and the number of bytes or samples hashed.
pub(super) struct Hashed {
    hash: Sha256,
    done: usize,
}

impl Hashed {
    fn new(beginning: &str) -> Hashed {
        Hashed { hash: Sha256::new_with_prefix(beginning), done: 0 }
    }

    /// Hashes the rest of `bytes`, which begin at offset `first` of all data. Returns true if all of `bytes` are
    /// hashed, false if `pauses` returned true before.
    fn add(&mut self, bytes: &[u8], first: usize, pauses: &mut dyn FnMut() -> bool) -> bool {
        while let Some(rest) = bytes.get(self.done.saturating_sub(first)..).filter(|rest| !rest.is_empty()) {
            if pauses() {
                return false;
            }
            let chunk = &rest[..rest.len().min(CHUNK)];
            self.hash.update(chunk);
            self.done += chunk.len();
        }
        true
    }
}

impl Preparing {
    /// Begins with an image; also returns its layout.
    pub fn picture(encoder: &Encoder, picture: Picture, bounds: PictureBounds) -> Result<(Preparing, Layout)> {
        let (sizing, layout) = fitted(encoder.facts(), picture.size(), bounds)?;
        let tiling = Box::new(Tiling::new(sizing, layout)?);
        Ok((Preparing::Tiles { picture, tiling, layout }, layout))
    }

    pub fn sound(sound: Resampling) -> Preparing {
        Preparing::Resampling(Box::new(sound))
    }

    /// Continues until complete, and returns the encoder's work and the hash. If `pauses` returns true before, returns
    /// the remaining work.
    pub fn advance(
        self,
        encoder: &Encoder,
        pauses: &mut dyn FnMut() -> bool,
    ) -> Result<Result<(Encoding, MediaHash), Preparing>> {
        let mut work = self;
        loop {
            work = match work {
                Preparing::Tiles { picture, mut tiling, layout } => {
                    if !tiling.advance(&picture, pauses)? {
                        return Ok(Err(Preparing::Tiles { picture, tiling, layout }));
                    }
                    let hashed = Hashed::new(&format!("picture {} {layout:?}", made_by(encoder)));
                    Preparing::HashedTiles { tiles: tiling.finish(), layout, hashed }
                }
                Preparing::HashedTiles { tiles, layout, mut hashed } => {
                    let mut first = 0;
                    for tile in &tiles {
                        if !hashed.add(&tile.rgb, first, pauses) {
                            return Ok(Err(Preparing::HashedTiles { tiles, layout, hashed }));
                        }
                        first += tile.rgb.len();
                    }
                    return Ok(Ok((Encoding::new(encoder, tiles, &layout)?, hashed.hash.finalize().into())));
                }
                Preparing::Resampling(mut resampling) => {
                    if !resampling.advance(pauses)? {
                        return Ok(Err(Preparing::Resampling(resampling)));
                    }
                    let sound = resampling.finish();
                    let splitting = Box::new(sound::facts(encoder)?.begin(sound.samples.len())?);
                    Preparing::SplittingSound { sound, splitting }
                }
                Preparing::SplittingSound { sound, mut splitting } => {
                    if !splitting.advance(sound::facts(encoder)?, &sound.samples, pauses)? {
                        return Ok(Err(Preparing::SplittingSound { sound, splitting }));
                    }
                    let hashed = Hashed::new(&sound::hash_beginning(encoder, &sound)?);
                    Preparing::HashedSound { sound, splitting, hashed }
                }
                Preparing::HashedSound { sound, splitting, mut hashed } => {
                    let mut bytes = [0; SAMPLES];
                    for (i, samples) in sound.samples.chunks(SAMPLES / 4).enumerate().skip(hashed.done / SAMPLES) {
                        let bytes = &mut bytes[..4 * samples.len()];
                        let places = bytes.as_chunks_mut::<4>().0.iter_mut();
                        places.zip(samples).for_each(|(place, sample)| *place = sample.to_le_bytes());
                        if !hashed.add(bytes, i * SAMPLES, pauses) {
                            return Ok(Err(Preparing::HashedSound { sound, splitting, hashed }));
                        }
                    }
                    return Ok(Ok((Encoding::of_sound(encoder, splitting.done)?, hashed.hash.finalize().into())));
                }
            }
        }
    }
}
