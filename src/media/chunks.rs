//! The segments and chunks of image files, up to the end of a truncated file.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::ops::Range;

#[cfg(feature = "images")]
use crate::error::{Result, try_vec};

/// The marker of a JPEG file's end.
pub const END: u8 = 0xd9;

/// The marker of a scan header, which the compressed pixels follow.
#[cfg(feature = "images")]
const SCAN: u8 = 0xda;

/// Returns the segments of a JPEG file: marker and byte range of the contents. Skips the compressed pixels in between.
pub fn of_jpeg(file: &[u8]) -> impl Iterator<Item = (u8, Range<usize>)> {
    let mut at = 2usize;
    std::iter::from_fn(move || {
        // In compressed pixels 0xff is followed by 0 or by a standalone marker, possibly after fill bytes.
        while !matches!(file.get(at..)?, [0xff, 0x02..=0xcf | 0xd9..=0xfe, ..]) {
            at += 1;
        }
        let marker = *file.get(at + 1)?;
        let length = if marker == END { 0 } else { number(file, at + 2, 2, true)? };
        let range = at + 4..at + 2 + length.max(2);
        at = range.end;
        Some((marker, range))
    })
}

/// Returns a JPEG file without the bytes that belong to no segment, which decoders skip; `None` if there are no such
/// bytes.
#[cfg(feature = "images")]
pub fn tidy_jpeg(file: &[u8]) -> Result<Option<Vec<u8>>> {
    // The parts to keep: segments, and the compressed pixels after a scan header.
    let parts = || {
        let (mut end, mut is_over, mut in_scan) = (2, false, false);
        of_jpeg(file).map_while(move |(marker, range)| {
            let from = if in_scan { end } else { range.start - 4 };
            let gap = from - end;
            let to = if marker == END { range.start - 2 } else { range.end.min(file.len()) };
            let part = (!is_over).then_some((from..to, gap));
            (end, in_scan, is_over) = (to, marker == SCAN, marker == END);
            part
        })
    };
    if parts().all(|(_, gap)| gap == 0) {
        return Ok(None);
    }
    let mut tidy = try_vec("a file", file.len())?;
    tidy.extend_from_slice(file.get(..2).unwrap_or_default());
    parts().for_each(|(part, _)| tidy.extend_from_slice(file.get(part).unwrap_or_default()));
    Ok(Some(tidy))
}

/// Returns a PNG file with an end chunk added after the last complete chunk; `None` if the file has its end chunk.
#[cfg(feature = "images")]
pub fn ended_png(file: &[u8]) -> Result<Option<Vec<u8>>> {
    const END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
    let whole = || of_png(file).filter(|(_, range)| range.end.saturating_add(4) <= file.len());
    if whole().any(|(name, _)| name == *b"IEND") {
        return Ok(None);
    }
    let kept = file.get(..whole().last().map_or(0, |(_, range)| range.end + 4)).unwrap_or_default();
    let mut ended = try_vec("a file", kept.len() + END.len())?;
    ended.extend_from_slice(kept);
    ended.extend_from_slice(END);
    Ok(Some(ended))
}

/// Returns the chunks of a PNG file: name and byte range of the contents.
pub fn of_png(file: &[u8]) -> impl Iterator<Item = ([u8; 4], Range<usize>)> {
    let mut at = 8usize;
    std::iter::from_fn(move || {
        let length = number(file, at, 4, true)?;
        let name = file.get(at + 4..at + 8)?.try_into().ok()?;
        let range = at + 8..(at + 8).saturating_add(length);
        at = range.end.saturating_add(4);
        Some((name, range))
    })
}

/// Returns the chunks of a RIFF file within a range, as `of_png` does. `is_big`: lengths are big-endian, as in RIFX.
pub fn of_riff(file: &[u8], within: Range<usize>, is_big: bool) -> impl Iterator<Item = ([u8; 4], Range<usize>)> {
    let mut at = within.start;
    std::iter::from_fn(move || {
        let name = file.get(at..at.saturating_add(4))?.try_into().ok()?;
        let length = number(file, at + 4, 4, is_big)?;
        let range = at + 8..(at + 8).saturating_add(length);
        at = range.end.saturating_add(length % 2);
        (range.start <= within.end).then_some((name, range))
    })
}

/// Returns the number in `bytes` bytes at offset `at`; `None` past the end.
pub fn number(data: &[u8], at: usize, bytes: usize, is_big: bool) -> Option<usize> {
    let join = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
    let data = data.get(at..at.checked_add(bytes)?)?;
    Some(if is_big { data.iter().fold(0, join) } else { data.iter().rev().fold(0, join) })
}
