//! WAV files, including RF64 and BW64: integers of up to 32 bits, floats of 32 and 64 bits, and the 8-bit A-law and
//! mu-law of telephony.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::ops::Range;

use super::chunks::{number, of_riff};
use crate::error::{Error, Result, try_vec};

/// Numbers by which a file tells how its samples are written.
const PCM: usize = 1;
const FLOAT: usize = 3;
const A_LAW: usize = 6;
const MU_LAW: usize = 7;
const EXTENSIBLE: usize = 0xfffe;

/// The smallest length of samples that stands for an unknown length: programs that do not know the length write
/// 0x7ffff000, 0x80000000 or 0xffffffff. The samples then last to the end of the file.
const UNKNOWN: usize = 0x7fff_0000;

/// Formats that are refused by their names: name, place, bytes.
const OTHERS: &[(&str, usize, &[u8])] = &[
    ("AAC", 0, b"\xff\xf1"),
    ("AAC", 0, b"\xff\xf9"),
    ("MP4", 4, b"ftyp"),
    ("WebM", 0, b"\x1a\x45\xdf\xa3"),
    ("AIFF", 0, b"FORM"),
    ("AU", 0, b".snd"),
    ("AMR", 0, b"#!AMR"),
    ("RIFX", 0, b"RIFX"),
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
    /// A-law, one byte per sample.
    ALaw,
    MuLaw,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::Whole(bytes) | Kind::Float(bytes) => bytes,
            Kind::ALaw | Kind::MuLaw => 1,
        }
    }
}

/// Reads the header of a file.
pub fn open(file: &[u8]) -> Result<Wav<'_>> {
    let is_kind = [&b"RIFF"[..], b"RF64", b"BW64"].iter().any(|kind| file.starts_with(kind));
    if !(is_kind && file.get(8..12) == Some(b"WAVE")) {
        return Err(refusal(file));
    }
    let (mut format, mut data, mut long) = (None, None, None);
    for (name, range) in of_riff(file, 12..file.len()) {
        match &name {
            b"fmt " => format = Some(range),
            // 64-bit lengths: of the file, then of the samples.
            b"ds64" => long = Some([8, 12].map(|at| number(file, range.start + at, 4, false).unwrap_or(0))),
            b"data" => {
                data = Some(samples_of(file, range, long));
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
        // Integers of other widths are in the upper bits of whole bytes.
        (PCM, 1..=32) => Kind::Whole(bits.div_ceil(8)),
        (FLOAT, 32 | 64) => Kind::Float(bits / 8),
        (A_LAW, 8) => Kind::ALaw,
        (MU_LAW, 8) => Kind::MuLaw,
        _ => return Err(Error::unsupported(format!("a WAV file of kind {told:#x} with {bits} bits"))),
    };
    let frame = channels * kind.bytes();
    if channels == 0 || ![0, frame].contains(&block) {
        return Err(damaged(&format!("{channels} channels of {bits} bits in {block} bytes")));
    }
    let (told, rate) = (data.len(), u32::try_from(rate).unwrap_or(u32::MAX));
    let data = file.get(data).ok_or_else(|| damaged(&format!("it ends within its {told} bytes of samples")))?;
    // A stream may have been cut within a sample.
    let data = data.get(..data.len() / frame * frame).unwrap_or_default();
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
            Kind::ALaw => out.extend(self.data.iter().map(|byte| f32::from(a_law(*byte)) / 32768.0)),
            Kind::MuLaw => out.extend(self.data.iter().map(|byte| f32::from(mu_law(*byte)) / 32768.0)),
        }
        Ok(out)
    }
}

/// Returns the range of the samples: the chunk's `range`, unless its length is in `long` or unknown. `long`: a 64-bit
/// length, lower half first.
fn samples_of(file: &[u8], range: Range<usize>, long: Option<[usize; 2]>) -> Range<usize> {
    let (from, told) = (range.start, range.len());
    let rest = from..file.len().max(from);
    match long {
        Some([low, 0]) if told == 0xffff_ffff => from..from.saturating_add(low),
        _ if told >= UNKNOWN && range.end > file.len() => rest,
        // The length was to be written at the end, unless other chunks follow.
        _ if told == 0 && !is_chunks(file, &rest) => rest,
        _ => range,
    }
}

/// True if the bytes up to the end of a file are chunks whose names are printable.
fn is_chunks(file: &[u8], range: &Range<usize>) -> bool {
    let mut end = 0;
    let are_named = of_riff(file, range.clone()).all(|(name, range)| {
        end = range.end;
        name.iter().all(|byte| (b' '..=b'~').contains(byte))
    });
    are_named && end == file.len()
}

/// Returns the 16-bit sample of a mu-law byte (G.711).
fn mu_law(byte: u8) -> i16 {
    let (sign, exponent, mantissa) = (!byte >> 7, !byte >> 4 & 7, i16::from(!byte & 15));
    let size = ((2 * mantissa + 33) << exponent) - 33;
    4 * if sign == 1 { -size } else { size }
}

/// Returns the 16-bit sample of an A-law byte (G.711).
fn a_law(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = (byte >> 4 & 7, i16::from(byte & 15));
    let size = if exponent == 0 { 2 * mantissa + 1 } else { (2 * mantissa + 33) << (exponent - 1) };
    8 * if byte >> 7 == 1 { size } else { -size }
}

/// Full scale of 32 bits.
const FULL: f64 = (1u64 << 31) as f64;

fn refusal(file: &[u8]) -> Error {
    let is = |at: usize, bytes: &[u8]| file.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    if let Some((name, ..)) = OTHERS.iter().find(|(_, at, bytes)| is(*at, bytes)) {
        return Error::unsupported(format!("a sound in the format {name}: WAV, MP3, FLAC and Ogg are decoded"));
    }
    let first = file.get(..file.len().min(12)).unwrap_or_default();
    let what = if file.is_empty() { "it is empty".to_owned() } else { format!("no format begins with {first:02x?}") };
    Error::Format { path: "the sound".to_owned(), what }
}

fn damaged(what: &str) -> Error {
    Error::Format { path: "the WAV file".to_owned(), what: what.to_owned() }
}
