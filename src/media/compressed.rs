//! Compressed audio: MP3, FLAC, and Vorbis or FLAC in Ogg files. A third-party crate decodes them; its panics and
//! failed allocations become errors.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use crate::error::Error;
#[cfg(not(feature = "sounds"))]
use crate::error::Result;

/// Returns the format of a file if this module decodes it.
pub fn kind(file: &[u8]) -> Option<&'static str> {
    let file = after_tags(file);
    match file {
        [b'f', b'L', b'a', b'C', ..] => Some("FLAC"),
        [b'O', b'g', b'g', b'S', ..] => Some("Ogg"),
        // The header of a layer III frame: version, layer, bit rate and sample rate have no reserved values.
        [0xff, b, c, ..] if b & 0xe6 == 0xe2 && b & 0x18 != 8 && c & 0xf0 != 0xf0 && c & 12 != 12 => Some("MP3"),
        _ => None,
    }
}

/// Returns the file without the ID3 tags before its audio.
fn after_tags(mut file: &[u8]) -> &[u8] {
    while let [b'I', b'D', b'3', version, _, flags, a, b, c, d, ..] = *file {
        let length = [a, b, c, d].iter().fold(0usize, |length, byte| length << 7 | usize::from(byte & 0x7f));
        let footer = if version == 4 && flags & 0x10 != 0 { 10 } else { 0 };
        file = file.get(10 + length + footer..).unwrap_or_default();
    }
    file
}

fn damaged(name: &str, what: impl Into<String>) -> Error {
    Error::Format { path: format!("the {name} file"), what: what.into() }
}

#[cfg(feature = "sounds")]
pub use decoder::Compressed;

#[cfg(feature = "sounds")]
mod decoder {
    use std::io::{Cursor, ErrorKind};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use symphonia::core::codecs::audio::well_known::{CODEC_ID_FLAC, CODEC_ID_MP3, CODEC_ID_OPUS, CODEC_ID_VORBIS};
    use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
    use symphonia::core::errors::Error as Failure;
    use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
    use symphonia::core::io::MediaSourceStream;
    use symphonia::default::codecs::{FlacDecoder, MpaDecoder, VorbisDecoder};
    use symphonia::default::formats::{FlacReader, MpaReader, OggReader};

    use super::{after_tags, damaged, kind};
    use crate::error::{Error, Result, secured, try_vec};
    use crate::media::rates::length;
    use crate::media::vorbis;

    /// Memory of a decoder in addition to the file, in bytes: tables, packets, blocks of all channels.
    const FIXED: usize = 48 << 20;

    enum Progress {
        Some,
        Paused,
        All,
    }

    /// The decoding of a file, packet by packet.
    pub struct Compressed<'a> {
        name: &'static str,
        format: Box<dyn FormatReader + 'a>,
        decoder: Box<dyn AudioDecoder>,
        track: u32,
        /// Number of samples per channel that the file declares, unless it is only an estimate.
        declared: Option<u64>,
        pub channels: usize,
        pub rate: u32,
        /// Maximum number of samples at `SAMPLE_RATE`.
        most: usize,
        /// The decoded samples, interleaved.
        pub samples: Vec<f32>,
        /// Bytes that are reserved while the decoder runs.
        bytes: usize,
    }

    impl<'a> Compressed<'a> {
        /// Reads the header of a file; `None` if this module does not decode its format.
        ///
        /// # Errors
        /// As `Sound::new`; `Format` for a damaged file, `Unsupported` for other contents of Ogg files.
        pub fn open(file: &'a [u8], most: usize) -> Result<Option<Compressed<'a>>> {
            let Some(name) = kind(file) else { return Ok(None) };
            let file = after_tags(file);
            let bytes = file.len().saturating_mul(2).saturating_add(FIXED);
            let opened = caught(name, bytes, || {
                let stream = MediaSourceStream::new(Box::new(Cursor::new(file)), Default::default());
                let options = FormatOptions::default();
                let format: Box<dyn FormatReader + 'a> = match name {
                    "FLAC" => Box::new(FlacReader::try_new(stream, options)?),
                    "Ogg" => Box::new(OggReader::try_new(stream, options)?),
                    _ => Box::new(MpaReader::try_new(stream, options)?),
                };
                Ok(format)
            })?;
            let track = opened.first_track(TrackType::Audio).ok_or_else(|| damaged(name, "it has no sound"))?;
            let (id, frames) = (track.id, track.num_frames);
            let audio = track.codec_params.as_ref().and_then(|params| params.audio()).cloned();
            let audio = audio.ok_or_else(|| damaged(name, "it has no sound"))?;
            let declared = frames.filter(|_| audio.codec == CODEC_ID_FLAC);
            if audio.codec == CODEC_ID_VORBIS {
                vorbis::check(audio.extra_data.as_deref().unwrap_or_default())?;
            }
            let decoder = caught(name, bytes, || {
                let options = AudioDecoderOptions::default();
                let decoder: Option<Box<dyn AudioDecoder>> = match audio.codec {
                    CODEC_ID_FLAC => Some(Box::new(FlacDecoder::try_new(&audio, &options)?)),
                    CODEC_ID_VORBIS => Some(Box::new(VorbisDecoder::try_new(&audio, &options)?)),
                    CODEC_ID_MP3 => Some(Box::new(MpaDecoder::try_new(&audio, &options)?)),
                    _ => None,
                };
                Ok(decoder)
            })?;
            let Some(decoder) = decoder else {
                let codec = if audio.codec == CODEC_ID_OPUS { "Opus" } else { "neither Vorbis nor FLAC" };
                return Err(Error::unsupported(format!("cannot decode an {name} file: its sound is {codec}")));
            };
            let channels = audio.channels.as_ref().map_or(0, |channels| channels.count());
            let rate = audio.sample_rate.unwrap_or(0);
            let known = usize::try_from(declared.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
            length(known.saturating_mul(channels), channels, rate, most)?;
            let samples = try_vec("samples", known.saturating_mul(channels))?;
            Ok(Some(Compressed {
                name,
                format: opened,
                decoder,
                track: id,
                declared,
                channels,
                rate,
                most,
                samples,
                bytes,
            }))
        }

        /// Decodes packets. Returns true when all are done, false when `pauses` returned true before a packet.
        pub fn advance(&mut self, pauses: &mut dyn FnMut() -> bool) -> Result<bool> {
            let (name, bytes) = (self.name, self.bytes);
            loop {
                match caught(name, bytes, || self.packets(pauses))?? {
                    Progress::Some => {}
                    Progress::Paused => return Ok(false),
                    Progress::All => return self.check_end().map(|()| true),
                }
            }
        }

        /// Decodes some packets.
        fn packets(&mut self, pauses: &mut dyn FnMut() -> bool) -> Result<Result<Progress>, Failure> {
            for _ in 0..64 {
                if pauses() {
                    return Ok(Ok(Progress::Paused));
                }
                match self.packet()? {
                    Ok(true) => {}
                    Ok(false) => return Ok(Ok(Progress::All)),
                    Err(e) => return Ok(Err(e)),
                }
            }
            Ok(Ok(Progress::Some))
        }

        /// Decodes a packet; returns false at the end.
        fn packet(&mut self) -> Result<Result<bool>, Failure> {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) | Err(Failure::ResetRequired) => return Ok(Ok(false)),
                Err(Failure::IoError(e)) if e.kind() == ErrorKind::UnexpectedEof => return Ok(Ok(false)),
                Err(e) => return Err(e),
            };
            if packet.track_id != self.track {
                return Ok(Ok(true));
            }
            let decoded = self.decoder.decode(&packet)?;
            let spec = decoded.spec();
            if (spec.rate(), spec.channels().count()) != (self.rate, self.channels) {
                return Ok(Err(Error::unsupported(format!(
                    "cannot decode an {} file: its rate or its channels change",
                    self.name
                ))));
            }
            let (from, more) = (self.samples.len(), decoded.samples_interleaved());
            let all = from.saturating_add(more);
            if more > 0
                && let Err(e) = length(all, self.channels, self.rate, self.most)
            {
                return Ok(Err(e));
            }
            if self.samples.try_reserve(more).is_err() {
                return Ok(Err(Error::OutOfMemory { what: "samples", bytes: 4 * all as u64 }));
            }
            self.samples.resize(all, 0.0);
            if let Some(to) = self.samples.get_mut(from..) {
                decoded.copy_to_slice_interleaved(to);
            }
            Ok(Ok(true))
        }

        fn check_end(&self) -> Result<()> {
            let frames = self.samples.len() / self.channels.max(1);
            match self.declared {
                Some(declared) if declared > frames as u64 => {
                    Err(damaged(self.name, format!("it ends after {frames} of its {declared} samples")))
                }
                _ => Ok(()),
            }
        }
    }

    /// Runs a decoder that may allocate up to `bytes` without a check; its panics become errors.
    fn caught<T>(name: &str, bytes: usize, work: impl FnOnce() -> Result<T, Failure>) -> Result<T> {
        secured("a sound", bytes, || match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result.map_err(|e| match e {
                Failure::Unsupported(what) => {
                    Error::unsupported(format!("cannot decode an {name} file with the feature: {what}"))
                }
                e => damaged(name, e.to_string()),
            }),
            Err(_) => Err(damaged(name, "its decoder has failed")),
        })
    }
}

#[cfg(not(feature = "sounds"))]
pub struct Compressed {
    pub channels: usize,
    pub rate: u32,
    pub samples: Vec<f32>,
}

#[cfg(not(feature = "sounds"))]
impl Compressed {
    pub fn open(file: &[u8], _: usize) -> Result<Option<Compressed>> {
        let why = "the library was built without the feature sounds";
        let absent = |name| Error::unsupported(format!("cannot decode an {name} file: {why}"));
        kind(file).map_or(Ok(None), |name| Err(absent(name)))
    }

    pub fn advance(&mut self, _: &mut dyn FnMut() -> bool) -> Result<bool> {
        Err(damaged("sound", "it was not opened"))
    }
}
