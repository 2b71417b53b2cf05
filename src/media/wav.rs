//! WAV files, including RF64, BW64 and the big-endian RIFX: integers of up to 32 bits, 32-bit and 64-bit floats, 8-bit
//! A-law and mu-law, and ADPCM.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::ops::Range;

use super::adpcm::{Adpcm, PREDICTORS};
use super::chunks::{number, of_riff};
use crate::error::{Error, Result, try_vec};

/// Sample format codes.
const PCM: usize = 1;
const MICROSOFT_ADPCM: usize = 2;
const FLOAT: usize = 3;
const A_LAW: usize = 6;
const MU_LAW: usize = 7;
const IMA_ADPCM: usize = 0x11;
const EXTENSIBLE: usize = 0xfffe;

/// The smallest data length that means unknown: programs that do not know the length write 0x7ffff000, 0x80000000 or
/// 0xffffffff. The samples then last to the end of the file.
const UNKNOWN: usize = 0x7fff_0000;

/// Samples per channel that are read at a time.
const CHUNK: usize = 4096;

/// Rejected formats, named in errors: name, offset, bytes.
const OTHERS: &[(&str, usize, &[u8])] = &[
    ("AAC", 0, b"\xff\xf1"),
    ("AAC", 0, b"\xff\xf9"),
    ("MP4", 4, b"ftyp"),
    ("WebM", 0, b"\x1a\x45\xdf\xa3"),
    ("AIFF", 0, b"FORM"),
    ("AU", 0, b".snd"),
    ("AMR", 0, b"#!AMR"),
];

/// The samples of a WAV file, not yet read.
pub struct Wav<'a> {
    pub channels: usize,
    pub rate: u32,
    kind: Kind,
    is_big: bool,
    /// Number of samples per channel.
    pub frames: usize,
    /// The bytes of at least `frames` samples per channel.
    data: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Integers of 1 to 4 bytes: unsigned if 1 byte, otherwise signed.
    Whole(usize),
    /// Floats of 4 or 8 bytes.
    Float(usize),
    /// A-law, one byte per sample.
    ALaw,
    MuLaw,
    /// Blocks with all channels, and the block size in bytes.
    Blocks(Adpcm, usize),
}

impl Kind {
    /// Returns the size of a sample, or of an ADPCM block, in bytes.
    fn bytes(self) -> usize {
        match self {
            Kind::Whole(bytes) | Kind::Float(bytes) | Kind::Blocks(_, bytes) => bytes,
            Kind::ALaw | Kind::MuLaw => 1,
        }
    }
}

/// Reads the header of a file.
pub fn open(file: &[u8]) -> Result<Wav<'_>> {
    let is_big = file.starts_with(b"RIFX");
    let is_kind = is_big || [&b"RIFF"[..], b"RF64", b"BW64"].iter().any(|kind| file.starts_with(kind));
    if !(is_kind && file.get(8..12) == Some(b"WAVE")) {
        return Err(refusal(file));
    }
    let (mut format, mut data, mut long) = (None, None, None);
    for (name, range) in of_riff(file, 12..file.len(), is_big) {
        match &name {
            b"fmt " => format = Some(range),
            // 64-bit lengths: of the file, then of the data.
            b"ds64" => long = Some([8, 12].map(|at| number(file, range.start + at, 4, false).unwrap_or(0))),
            b"data" => {
                data = Some(samples_of(file, range, long, is_big));
                break;
            }
            // Text, images and markers of other programs.
            _ => {}
        }
    }
    let format = format.ok_or_else(|| damaged("it has no format before its samples"))?;
    let data = data.ok_or_else(|| damaged("it has no samples"))?;
    let channels = field(file, &format, 2, 2, is_big)?;
    let rate = u32::try_from(field(file, &format, 4, 4, is_big)?).unwrap_or(u32::MAX);
    let kind = kind(file, &format, channels, is_big)?;
    let declared = data.len();
    let data = file.get(data).ok_or_else(|| damaged(&format!("it ends within its {declared} bytes of samples")))?;
    let frames = match kind {
        Kind::Blocks(adpcm, bytes) => {
            let (whole, rest) = (data.len() / bytes, data.len() % bytes);
            // The last block may be padded. The fact chunk counts differently in files of several channels.
            whole.saturating_mul(adpcm.frames(bytes, channels)).saturating_add(adpcm.frames(rest, channels))
        }
        // A stream may end within a sample.
        Kind::Whole(_) | Kind::Float(_) | Kind::ALaw | Kind::MuLaw => data.len() / (channels * kind.bytes()),
    };
    Ok(Wav { channels, rate, kind, is_big, frames, data })
}

/// Returns a field of the format chunk.
fn field(file: &[u8], format: &Range<usize>, at: usize, bytes: usize, is_big: bool) -> Result<usize> {
    let within = at + bytes <= format.len();
    let found = within.then(|| number(file, format.start + at, bytes, is_big)).flatten();
    found.ok_or_else(|| damaged("it ends within its format"))
}

/// Returns the sample format.
fn kind(file: &[u8], format: &Range<usize>, channels: usize, is_big: bool) -> Result<Kind> {
    let field = |at, bytes| field(file, format, at, bytes, is_big);
    let (declared, block, bits) = (field(0, 2)?, field(12, 2)?, field(14, 2)?);
    let declared = if declared == EXTENSIBLE { field(24, 2)? } else { declared };
    let kind = match (declared, bits) {
        // Integers of other widths are in the upper bits of whole bytes.
        (PCM, 1..=32) => Kind::Whole(bits.div_ceil(8)),
        (FLOAT, 32 | 64) => Kind::Float(bits / 8),
        (A_LAW, 8) => Kind::ALaw,
        (MU_LAW, 8) => Kind::MuLaw,
        (IMA_ADPCM, 4) if !is_big => Kind::Blocks(Adpcm::Ima, block),
        (MICROSOFT_ADPCM, 4) if !is_big => {
            let n = field(20, 2)?;
            let own = |i: usize, part: usize| field(22 + 4 * i + 2 * part, 2).map(|n| i32::from(n as u16 as i16));
            for (i, pair) in PREDICTORS.iter().enumerate() {
                if n != PREDICTORS.len() || [own(i, 0)?, own(i, 1)?] != *pair {
                    return Err(Error::unsupported("cannot decode a WAV file of ADPCM: its predictors are its own"));
                }
            }
            Kind::Blocks(Adpcm::Microsoft, block)
        }
        _ => {
            let what = format!("cannot decode a WAV file of the kind {declared:#x} with {bits} bits");
            return Err(Error::unsupported(what));
        }
    };
    let fits = match kind {
        Kind::Blocks(adpcm, bytes) => bytes >= adpcm.header().saturating_mul(channels),
        Kind::Whole(_) | Kind::Float(_) | Kind::ALaw | Kind::MuLaw => [0, channels * kind.bytes()].contains(&block),
    };
    if channels == 0 || !fits {
        return Err(damaged(&format!("its format has {channels} channels of {bits} bits in {block} bytes")));
    }
    Ok(kind)
}

impl Wav<'_> {
    /// Passes all samples to `each` in order, some at a time, interleaved; full scale is -1 to 1.
    pub fn read(&self, each: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        if let Kind::Blocks(adpcm, bytes) = self.kind {
            return self.read_blocks(adpcm, bytes, each);
        }
        let mut out = try_vec("samples", CHUNK * self.channels)?;
        let frame = self.channels * self.kind.bytes();
        let data = self.data.get(..self.frames * frame).unwrap_or_default();
        for chunk in data.chunks(CHUNK * frame) {
            out.clear();
            self.append(chunk, &mut out);
            each(&out)?;
        }
        Ok(())
    }

    /// Appends the samples of some bytes to `out`, which must have the capacity.
    fn append(&self, data: &[u8], out: &mut Vec<f32>) {
        let is_big = self.is_big;
        // The value in the upper bytes of 32 bits.
        let little = |bytes: &[u8]| bytes.iter().fold(0u32, |sum, byte| sum >> 8 | u32::from(*byte) << 24);
        let big = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |sum, byte| sum >> 8 | u32::from(*byte) << 24);
        let upper = |bytes: &[u8]| if is_big { big(bytes) } else { little(bytes) } as i32;
        let single = |x: &[u8; 4]| if is_big { f32::from_be_bytes(*x) } else { f32::from_le_bytes(*x) };
        let double = |x: &[u8; 8]| if is_big { f64::from_be_bytes(*x) } else { f64::from_le_bytes(*x) };
        match self.kind {
            Kind::Whole(1) => out.extend(data.iter().map(|byte| (f32::from(*byte) - 128.0) / 128.0)),
            Kind::Whole(n) => out.extend(data.chunks_exact(n).map(|x| (f64::from(upper(x)) / FULL) as f32)),
            Kind::Float(4) => out.extend(data.as_chunks().0.iter().map(single)),
            Kind::Float(_) => out.extend(data.as_chunks().0.iter().map(|x| double(x) as f32)),
            Kind::ALaw => out.extend(data.iter().map(|byte| f32::from(a_law(*byte)) / 32768.0)),
            Kind::MuLaw => out.extend(data.iter().map(|byte| f32::from(mu_law(*byte)) / 32768.0)),
            Kind::Blocks(..) => {}
        }
    }

    fn read_blocks(&self, adpcm: Adpcm, bytes: usize, each: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let (mut whole, mut out, mut left) = (Vec::new(), Vec::new(), self.frames * self.channels);
        for block in self.data.chunks(bytes) {
            whole.clear();
            adpcm.decode(block, self.channels, &mut whole)?;
            whole.truncate(left);
            left -= whole.len();
            out.clear();
            let (n, what) = (whole.len(), "samples");
            out.try_reserve(n).map_err(|_| Error::OutOfMemory { what, bytes: 4 * n as u64 })?;
            out.extend(whole.iter().map(|sample| f32::from(*sample) / 32768.0));
            each(&out)?;
        }
        Ok(())
    }
}

/// Returns the byte range of the samples: the chunk's `range`, unless its length is unknown or given in `long`, a
/// 64-bit length with the lower half first.
fn samples_of(file: &[u8], range: Range<usize>, long: Option<[usize; 2]>, is_big: bool) -> Range<usize> {
    let (from, declared) = (range.start, range.len());
    let rest = from..file.len().max(from);
    match long {
        Some([low, 0]) if declared == 0xffff_ffff => from..from.saturating_add(low),
        _ if declared >= UNKNOWN && range.end > file.len() => rest,
        // The writer never filled in the length, unless further chunks follow.
        _ if declared == 0 && !is_chunks(file, &rest, is_big) => rest,
        _ => range,
    }
}

/// True if the bytes up to the end of a file are chunks with printable names.
fn is_chunks(file: &[u8], range: &Range<usize>, is_big: bool) -> bool {
    let mut end = 0;
    let are_named = of_riff(file, range.clone(), is_big).all(|(name, range)| {
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

/// Full scale of 32-bit integers.
const FULL: f64 = (1u64 << 31) as f64;

fn refusal(file: &[u8]) -> Error {
    let is = |at: usize, bytes: &[u8]| file.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    if let Some((name, ..)) = OTHERS.iter().find(|(_, at, bytes)| is(*at, bytes)) {
        return Error::unsupported(format!("the sound is in the format {name}; it must be WAV, MP3, FLAC or Ogg"));
    }
    let first = file.get(..file.len().min(12)).unwrap_or_default();
    let what = if file.is_empty() { "it is empty".to_owned() } else { format!("no format begins with {first:02x?}") };
    Error::Format { path: "the sound".to_owned(), what }
}

fn damaged(what: &str) -> Error {
    Error::Format { path: "the WAV file".to_owned(), what: what.to_owned() }
}
