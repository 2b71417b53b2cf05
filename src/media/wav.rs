//! WAV files: whole numbers of 8, 16, 24 and 32 bits, floats of 32 and 64 bits; no compression.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::chunks::{number, of_riff};
use crate::error::{Error, Result, try_vec};

/// Numbers by which a file tells how its samples are written.
const PCM: usize = 1;
const FLOAT: usize = 3;
const EXTENSIBLE: usize = 0xfffe;

/// The length of a chunk whose writer did not know it: it lasts to the end of the file.
const UNKNOWN: usize = 0xffff_ffff;

/// Formats that are refused by their names: name, place, bytes.
const OTHERS: &[(&str, usize, &[u8])] = &[
    ("FLAC", 0, b"fLaC"),
    ("Ogg", 0, b"OggS"),
    ("MP3", 0, b"ID3"),
    ("MP3", 0, b"\xff\xfb"),
    ("MP3", 0, b"\xff\xf3"),
    ("AAC", 0, b"\xff\xf1"),
    ("AAC", 0, b"\xff\xf9"),
    ("MP4", 4, b"ftyp"),
    ("WebM", 0, b"\x1a\x45\xdf\xa3"),
    ("AIFF", 0, b"FORM"),
    ("AU", 0, b".snd"),
    ("AMR", 0, b"#!AMR"),
    ("RF64", 0, b"RF64"),
];

/// The samples of a WAV file, not yet read.
pub struct Wav<'a> {
    pub channels: usize,
    pub rate: u32,
    kind: Kind,
    /// A whole number of samples of each channel.
    data: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whole numbers of so many bytes: of one without, of more with a sign.
    Whole(usize),
    /// Floats of 4 or 8 bytes.
    Float(usize),
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::Whole(bytes) | Kind::Float(bytes) => bytes,
        }
    }
}

/// Reads the header of a file.
pub fn open(file: &[u8]) -> Result<Wav<'_>> {
    if !(file.starts_with(b"RIFF") && file.get(8..12) == Some(b"WAVE")) {
        return Err(refusal(file));
    }
    let (mut format, mut data) = (None, None);
    for (name, range) in of_riff(file, 12..file.len()) {
        match &name {
            b"fmt " => format = Some(range),
            b"data" => {
                // A stream was written before its length was known.
                let is_open = number(file, range.start.saturating_sub(4), 4, false) == Some(UNKNOWN);
                data = Some(if is_open { range.start..file.len() } else { range });
                break;
            }
            _ => {}
        }
    }
    let format = format.ok_or_else(|| damaged("it has no format ahead of its samples"))?;
    let data = data.ok_or_else(|| damaged("it has no samples"))?;
    let field = |at: usize, bytes: usize| {
        let within = (at + bytes <= format.len()).then(|| number(file, format.start + at, bytes, false)).flatten();
        within.ok_or_else(|| damaged("it ends within its format"))
    };
    let (told, channels, rate) = (field(0, 2)?, field(2, 2)?, field(4, 4)?);
    let (block, bits) = (field(12, 2)?, field(14, 2)?);
    let told = if told == EXTENSIBLE { field(24, 2)? } else { told };
    let kind = match (told, bits) {
        (PCM, 8 | 16 | 24 | 32) => Kind::Whole(bits / 8),
        (FLOAT, 32 | 64) => Kind::Float(bits / 8),
        _ => return Err(Error::unsupported(format!("a WAV file of kind {told:#x} with {bits} bits"))),
    };
    if channels == 0 || block != channels * kind.bytes() {
        return Err(damaged(&format!("{channels} channels of {bits} bits in {block} bytes")));
    }
    let (told, rate) = (data.len(), u32::try_from(rate).unwrap_or(u32::MAX));
    let data = file.get(data).ok_or_else(|| damaged(&format!("it ends within its {told} bytes of samples")))?;
    // A stream may have been cut within a sample.
    let data = data.get(..data.len() / block * block).unwrap_or_default();
    Ok(Wav { channels, rate, kind, data })
}

impl Wav<'_> {
    /// Number of samples of all channels together.
    pub fn n_samples(&self) -> usize {
        self.data.len() / self.kind.bytes()
    }

    /// The samples, one of each channel after the other; full scale is from -1 to 1.
    pub fn samples(&self) -> Result<Vec<f32>> {
        let mut out = try_vec("samples", self.n_samples())?;
        // A number of some bytes at the upper end of 32 bits.
        let upper = |bytes: &[u8]| bytes.iter().fold(0u32, |sum, byte| sum >> 8 | u32::from(*byte) << 24) as i32;
        match self.kind {
            Kind::Whole(1) => out.extend(self.data.iter().map(|byte| (f32::from(*byte) - 128.0) / 128.0)),
            Kind::Whole(n) => out.extend(self.data.chunks_exact(n).map(|x| (f64::from(upper(x)) / FULL) as f32)),
            Kind::Float(4) => out.extend(self.data.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x))),
            Kind::Float(_) => out.extend(self.data.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x) as f32)),
        }
        Ok(out)
    }
}

/// Full scale of 32 bits.
const FULL: f64 = (1u64 << 31) as f64;

fn refusal(file: &[u8]) -> Error {
    let is = |at: usize, bytes: &[u8]| file.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    if let Some((name, ..)) = OTHERS.iter().find(|(_, at, bytes)| is(*at, bytes)) {
        return Error::unsupported(format!("a sound in the format {name}: WAV is decoded"));
    }
    let first = file.get(..file.len().min(12)).unwrap_or_default();
    let what = if file.is_empty() { "it is empty".to_owned() } else { format!("no format begins with {first:02x?}") };
    Error::Format { path: "the sound".to_owned(), what }
}

fn damaged(what: &str) -> Error {
    Error::Format { path: "the WAV file".to_owned(), what: what.to_owned() }
}
