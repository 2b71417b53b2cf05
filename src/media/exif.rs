//! The orientation of a picture, from the EXIF data of its file. Nothing else of them is read, and what cannot be read
//! says nothing.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::chunks::{self, number};

/// The orientation in a JPEG file, 1 to 8: the first segment with EXIF. 1 where there is none.
pub fn of_jpeg(file: &[u8]) -> u8 {
    let mut parts = chunks::of_jpeg(file).filter(|(marker, _)| *marker == 0xe1).filter_map(|(_, at)| file.get(at));
    parts.find(|part| part.starts_with(PREFIX)).map_or(1, of_tiff)
}

/// The orientation in a PNG file.
pub fn of_png(file: &[u8]) -> u8 {
    chunks::of_png(file).find(|(name, _)| name == b"eXIf").and_then(|(_, at)| file.get(at)).map_or(1, of_tiff)
}

/// The orientation in a WebP file.
pub fn of_webp(file: &[u8]) -> u8 {
    let mut all = chunks::of_riff(file, 12..file.len());
    all.find(|(name, _)| name == b"EXIF").and_then(|(_, at)| file.get(at)).map_or(1, of_tiff)
}

/// Ahead of the TIFF data: always in JPEG files, now and then in others.
const PREFIX: &[u8] = b"Exif\0\0";

/// The tag of the orientation.
const ORIENTATION: usize = 0x112;

fn of_tiff(data: &[u8]) -> u8 {
    let data = data.strip_prefix(PREFIX).unwrap_or(data);
    let is_big = match data.get(..4) {
        Some(b"MM\0*") => true,
        Some(b"II*\0") => false,
        _ => return 1,
    };
    let value = || {
        let first = number(data, 4, 4, is_big)?;
        let n = number(data, first, 2, is_big)?;
        let mut entries = data.get(first + 2..)?.chunks_exact(12).take(n);
        let entry = entries.find(|entry| number(entry, 0, 2, is_big) == Some(ORIENTATION))?;
        // One number, of one, two or four bytes.
        let bytes = match number(entry, 2, 2, is_big)? {
            1 => 1,
            3 => 2,
            4 => 4,
            _ => return None,
        };
        let is_one = number(entry, 4, 4, is_big)? == 1;
        number(entry, 8, bytes, is_big).filter(|value| is_one && (1..=8).contains(value))
    };
    value().and_then(|value| u8::try_from(value).ok()).unwrap_or(1)
}
