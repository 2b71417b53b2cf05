//! The orientation of an image, from the EXIF data of its file, or from its XMP data if the EXIF data has none. Nothing
//! else is read from either; unreadable data counts as missing.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::chunks::{self, number};

/// Returns the EXIF orientation of a JPEG file, 1 to 8; 1 if the file has none.
pub fn of_jpeg(file: &[u8]) -> u8 {
    let parts = || chunks::of_jpeg(file).filter(|(marker, _)| *marker == 0xe1).filter_map(|(_, at)| file.get(at));
    let exif = parts().find(|part| part.starts_with(PREFIX)).and_then(of_tiff);
    exif.or_else(|| parts().find(|part| part.starts_with(XMP)).and_then(of_xmp)).unwrap_or(1)
}

/// Returns the EXIF orientation of a PNG file, which may also be in the text chunks that ImageMagick writes.
pub fn of_png(file: &[u8]) -> u8 {
    let parts = || chunks::of_png(file).filter_map(|(name, at)| Some((name, file.get(at)?)));
    let exif = parts().find(|(name, _)| name == b"eXIf").and_then(|(_, part)| of_tiff(part));
    let exif = exif.or_else(|| {
        let profiles = parts().filter_map(|(name, part)| profile(&name, part)).take(MOST_TEXTS);
        profiles.filter_map(|text| of_tiff(&hex(&text?))).next()
    });
    let of_texts = || {
        let texts = parts().filter_map(|(name, part)| xmp_text(&name, part)).take(MOST_TEXTS);
        texts.filter_map(|text| of_xmp(&text?)).next()
    };
    exif.or_else(of_texts).unwrap_or(1)
}

/// Returns the EXIF orientation of a WebP file.
pub fn of_webp(file: &[u8]) -> u8 {
    let part = |wanted: &[u8; 4]| {
        let mut all = chunks::of_riff(file, 12..file.len(), false);
        all.find(|(name, _)| name == wanted).and_then(|(_, at)| file.get(at))
    };
    part(b"EXIF").and_then(of_tiff).or_else(|| part(b"XMP ").and_then(of_xmp)).unwrap_or(1)
}

/// Prefix of the TIFF data: always present in JPEG files, sometimes in others.
const PREFIX: &[u8] = b"Exif\0\0";

/// Prefix of the XMP data in JPEG files.
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Maximum number of bytes read of a text; next, maximum number of texts.
const MOST: usize = 1 << 18;
const MOST_TEXTS: usize = 4;

/// The tag of the orientation.
const ORIENTATION: usize = 0x112;

fn of_tiff(data: &[u8]) -> Option<u8> {
    let data = data.strip_prefix(PREFIX).unwrap_or(data);
    let is_big = match data.get(..4) {
        Some(b"MM\0*") => true,
        Some(b"II*\0") => false,
        _ => return None,
    };
    let first = number(data, 4, 4, is_big)?;
    let n = number(data, first, 2, is_big)?;
    let mut entries = data.get(first + 2..)?.chunks_exact(12).take(n);
    let entry = entries.find(|entry| number(entry, 0, 2, is_big) == Some(ORIENTATION))?;
    // A single integer of one, two or four bytes.
    let bytes = match number(entry, 2, 2, is_big)? {
        1 => 1,
        3 => 2,
        4 => 4,
        _ => return None,
    };
    let is_one = number(entry, 4, 4, is_big)? == 1;
    let value = number(entry, 8, bytes, is_big).filter(|value| is_one && (1..=8).contains(value))?;
    u8::try_from(value).ok()
}

/// Returns the digit of an attribute or element, found as in Pillow.
fn of_xmp(data: &[u8]) -> Option<u8> {
    const NAME: &[u8] = b"tiff:Orientation";
    let data = data.get(..data.len().min(MOST)).unwrap_or_default();
    let mut later = data.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let value = later.find_map(|(at, _)| match data.get(at + NAME.len()..)? {
        [b'=', b'"' | b'\'', digit, ..] | [b'>', digit, ..] => Some(*digit),
        _ => None,
    })?;
    (b'1'..=b'8').contains(&value).then(|| value - b'0')
}

/// Returns the text of a profile in a text chunk, `None` if the chunk has no profile, and `Some(None)` if its text
/// cannot be read.
fn profile(name: &[u8; 4], part: &[u8]) -> Option<Option<Vec<u8>>> {
    let (keyword, text) = split(part)?;
    let is_profile = [&b"Raw profile type exif"[..], b"Raw profile type APP1"].contains(&keyword);
    match name {
        b"tEXt" if is_profile => Some(beginning(text)),
        b"zTXt" if is_profile => Some(text.strip_prefix(b"\0").and_then(inflated)),
        _ => None,
    }
}

/// Returns the XMP data in an iTXt chunk: keyword, compression flag and method, language, translated keyword, text.
/// `None` and `Some(None)` as in `profile`.
fn xmp_text(name: &[u8; 4], part: &[u8]) -> Option<Option<Vec<u8>>> {
    let (keyword, rest) = split(part)?;
    if name != b"iTXt" || keyword != b"XML:com.adobe.xmp" {
        return None;
    }
    let (&[is_compressed, 0], rest) = rest.split_first_chunk()? else { return None };
    let (_, text) = split(split(rest)?.1)?;
    Some(if is_compressed == 1 { inflated(text) } else { beginning(text) })
}

fn beginning(text: &[u8]) -> Option<Vec<u8>> {
    Some(text.get(..text.len().min(MOST))?.to_vec())
}

/// Splits at the first zero byte, which belongs to neither part.
fn split(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = part.iter().position(|byte| *byte == 0)?;
    Some((part.get(..at)?, part.get(at + 1..)?))
}

/// Decodes the hexadecimal digits after the first three lines, which have the kind and the length.
fn hex(text: &[u8]) -> Vec<u8> {
    let digits = text.split(|byte| *byte == b'\n').skip(3).flatten();
    let digits: Vec<u8> = digits.filter_map(|digit| char::from(*digit).to_digit(16)).map(|digit| digit as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

#[cfg(feature = "images")]
fn inflated(data: &[u8]) -> Option<Vec<u8>> {
    let inflate = || miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(data, MOST).ok();
    crate::error::secured("a text", 2 * MOST, || Ok(inflate())).ok().flatten()
}

#[cfg(not(feature = "images"))]
fn inflated(_: &[u8]) -> Option<Vec<u8>> {
    None
}
