//! Files of pictures: their kind by the first bytes, their size before memory is taken, then the decoder, whose panics
//! and whose want of memory are errors.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::picture::Picture;
use super::{bmp, exif};
use crate::error::{Error, Result};

impl Picture {
    /// Decodes a PNG, JPEG, WebP or BMP file, of an animation the first picture, and turns it upright by its EXIF data.
    /// Of 16 bits the high byte is taken, alpha is dropped, colours are taken as they are.
    ///
    /// # Errors
    /// `Format` for a damaged file, `Unsupported` for other formats by their names, `TooComplex` for more than
    /// `max_pixels` by the header, `OutOfMemory`.
    pub fn decode(file: &[u8], max_pixels: u64) -> Result<Picture> {
        let (picture, orientation) = match kind(file)? {
            "PNG" => (foreign::png(file, max_pixels)?, exif::of_png(file)),
            "JPEG" => (foreign::jpeg(file, max_pixels)?, exif::of_jpeg(file)),
            "WebP" => (foreign::webp(file, max_pixels)?, exif::of_webp(file)),
            _ => (bmp::decode(file, max_pixels)?, 1),
        };
        picture.upright(orientation)
    }
}

/// Formats that are decoded: name, first bytes.
const DECODED: &[(&str, &[u8])] = &[("PNG", b"\x89PNG\r\n\x1a\n"), ("JPEG", b"\xff\xd8\xff"), ("BMP", b"BM")];

/// Formats that are refused by their names: name, place, bytes.
const OTHERS: &[(&str, usize, &[u8])] = &[
    ("GIF", 0, b"GIF8"),
    ("AVIF", 4, b"ftypavi"),
    ("HEIC", 4, b"ftyphe"),
    ("HEIC", 4, b"ftypmif1"),
    ("HEIC", 4, b"ftypmsf1"),
    ("TIFF", 0, b"II*\0"),
    ("TIFF", 0, b"MM\0*"),
    ("TIFF", 0, b"II+\0"),
    ("TIFF", 0, b"MM\0+"),
    ("PSD", 0, b"8BPS"),
    ("SVG", 0, b"<svg"),
    ("SVG", 0, b"<?xml"),
    ("JPEG XL", 0, b"\xff\x0a"),
    ("JPEG XL", 4, b"JXL \r\n\x87\n"),
    ("JPEG 2000", 4, b"jP  \r\n\x87\n"),
    ("JPEG 2000", 0, b"\xff\x4f\xff\x51"),
    ("ICO", 0, b"\0\0\x01\0"),
    ("PDF", 0, b"%PDF"),
    ("QOI", 0, b"qoif"),
    ("OpenEXR", 0, b"v/1\x01"),
];

fn kind(file: &[u8]) -> Result<&'static str> {
    if let Some((name, _)) = DECODED.iter().find(|(_, first)| file.starts_with(first)) {
        return Ok(name);
    }
    if file.starts_with(b"RIFF") && file.get(8..12) == Some(b"WEBP") {
        return Ok("WebP");
    }
    // SVG is text, which may begin with a byte order mark and white space.
    let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file).trim_ascii_start();
    let is = |at: usize, bytes: &[u8]| {
        file.get(at..).is_some_and(|rest| rest.starts_with(bytes)) || bytes.starts_with(b"<") && text.starts_with(bytes)
    };
    if let Some((name, ..)) = OTHERS.iter().find(|(_, at, bytes)| is(*at, bytes)) {
        return Err(Error::unsupported(format!("a picture in the format {name}: PNG, JPEG, WebP and BMP are decoded")));
    }
    let first = file.get(..file.len().min(8)).unwrap_or_default();
    let what = if file.is_empty() { "it is empty".to_owned() } else { format!("no format begins with {first:02x?}") };
    Err(Error::Format { path: "the picture".to_owned(), what })
}

/// Decoders of other crates.
#[cfg(feature = "images")]
mod foreign {
    use std::fmt::Display;
    use std::io::Cursor;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use image_webp::WebPDecoder;
    use png::{ColorType, Limits, Transformations};
    use zune_core::bytestream::ZCursor;
    use zune_core::colorspace::ColorSpace;
    use zune_core::options::DecoderOptions;
    use zune_jpeg::JpegDecoder;

    use crate::error::{Error, Result, secured, try_filled, try_vec};
    use crate::media::chunks::{self, number};
    use crate::media::picture::{MAX_SIDE, Picture, claimed, gather};

    /// Memory that a decoder takes beside what goes by pixels: rows, tables, windows.
    const FIXED: usize = 8 << 20;

    pub fn jpeg(file: &[u8], max_pixels: u64) -> Result<Picture> {
        // Without strictness a file that was cut off decodes without a word.
        let options = DecoderOptions::default()
            .set_strict_mode(true)
            .set_max_width(MAX_SIDE)
            .set_max_height(MAX_SIDE)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
        caught("JPEG", file.len() + FIXED, || decoder.decode_headers())?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        let bytes = claimed("JPEG", width as u64, height as u64, max_pixels)?;
        // Two components have no meaning that could be told.
        if decoder.output_buffer_size() != Some(bytes) {
            return Err(Error::unsupported("a JPEG picture whose components are neither 1, 3 nor 4"));
        }
        // The decoder makes up pixels that are missing at the end.
        if !chunks::of_jpeg(file).any(|(marker, _)| marker == chunks::END) {
            return Err(damaged("JPEG", "it has no end".to_owned()));
        }
        let mut rgb = try_filled("pixels", bytes, 0)?;
        // Progressive files are held as coefficients of 16 bits, of up to four components.
        caught("JPEG", bytes / 3 * 12 + FIXED, || decoder.decode_into(&mut rgb))?;
        Ok(Picture { width, height, rgb })
    }

    pub fn png(file: &[u8], max_pixels: u64) -> Result<Picture> {
        let mut decoder = png::Decoder::new(Cursor::new(file));
        let (width, height) =
            caught("PNG", FIXED, || decoder.read_header_info().map(|info| (info.width, info.height)))?;
        let bytes = claimed("PNG", u64::from(width), u64::from(height), max_pixels)?;
        // Chunks that are kept are no larger than the file.
        let limit = bytes / 3 * 4 + (64 << 10) + file.len();
        decoder.set_limits(Limits { bytes: limit });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        let mut reader = caught("PNG", limit + FIXED, || decoder.read_info())?;
        let step = reader.output_color_type().0.samples();
        let mut data = try_filled("pixels", bytes / 3 * step, 0)?;
        let frame = caught("PNG", limit + FIXED, || reader.next_frame(&mut data))?;
        if (frame.width, frame.height) != (width, height) {
            let what = format!("its first picture has {} x {} of {width} x {height}", frame.width, frame.height);
            return Err(damaged("PNG", what));
        }
        let is_grey = matches!(frame.color_type, ColorType::Grayscale | ColorType::GrayscaleAlpha);
        packed(width, height, data, step, is_grey)
    }

    pub fn webp(file: &[u8], max_pixels: u64) -> Result<Picture> {
        let mut decoder = caught("WebP", file.len() + FIXED, || WebPDecoder::new(Cursor::new(file)))?;
        let (width, height) = decoder.dimensions();
        let bytes = claimed("WebP", u64::from(width), u64::from(height), max_pixels)?;
        check_frames(file, width as usize, height as usize)?;
        let step = if decoder.has_alpha() { 4 } else { 3 };
        let mut data = try_filled("pixels", bytes / 3 * step, 0)?;
        // An animation holds a frame, the canvas, planes and alpha.
        let limit = bytes / 3 * 16 + (64 << 10) + file.len();
        decoder.set_memory_limit(limit);
        caught("WebP", limit + FIXED, || decoder.read_image(&mut data))?;
        packed(width, height, data, step, false)
    }

    /// Refuses what the decoder does not: chunks that are cut off, of which it makes up the rest, and lossy frames
    /// larger than the picture, for which it takes memory before it compares.
    fn check_frames(file: &[u8], width: usize, height: usize) -> Result<()> {
        let frames = chunks::of_riff(file, 12..file.len()).flat_map(|(name, range)| {
            let inner = (name == *b"ANMF").then(|| chunks::of_riff(file, range.start + 16..range.end).take(2));
            std::iter::once((name, range)).chain(inner.into_iter().flatten())
        });
        const READ: [[u8; 4]; 5] = [*b"VP8 ", *b"VP8L", *b"ALPH", *b"ANMF", *b"EXIF"];
        for (name, range) in frames.filter(|(name, _)| READ.contains(name)) {
            if range.end > file.len() {
                return Err(damaged("WebP", format!("it ends within a chunk of {} bytes", range.len())));
            }
            let side = |at| number(file, range.start + at, 2, false).map_or(0, |side| side & 0x3fff);
            if name == *b"VP8 " && (side(6) > width || side(8) > height) {
                return Err(damaged("WebP", format!("a frame has {} x {} of {width} x {height}", side(6), side(8))));
            }
        }
        Ok(())
    }

    fn packed(width: u32, height: u32, data: Vec<u8>, step: usize, is_grey: bool) -> Result<Picture> {
        let (width, height) = (width as usize, height as usize);
        if step == 3 {
            return Ok(Picture { width, height, rgb: data });
        }
        let mut rgb = try_vec("pixels", 3 * width * height)?;
        gather(&data, step, if is_grey { [0; 3] } else { [0, 1, 2] }, &mut rgb);
        Ok(Picture { width, height, rgb })
    }

    /// Runs a decoder, which takes up to some bytes without asking; its panics become errors.
    fn caught<T, E: Display>(name: &str, bytes: usize, work: impl FnOnce() -> Result<T, E>) -> Result<T> {
        secured("a picture", bytes, || match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result.map_err(|e| damaged(name, e.to_string())),
            Err(_) => Err(damaged(name, "its decoder failed on it".to_owned())),
        })
    }

    fn damaged(name: &str, what: String) -> Error {
        Error::Format { path: format!("the {name} picture"), what }
    }
}

#[cfg(not(feature = "images"))]
mod foreign {
    use crate::error::{Error, Result};
    use crate::media::picture::Picture;

    pub fn jpeg(_: &[u8], _: u64) -> Result<Picture> {
        Err(absent("JPEG"))
    }

    pub fn png(_: &[u8], _: u64) -> Result<Picture> {
        Err(absent("PNG"))
    }

    pub fn webp(_: &[u8], _: u64) -> Result<Picture> {
        Err(absent("WebP"))
    }

    fn absent(name: &str) -> Error {
        Error::unsupported(format!("a {name} picture: this library was built without the feature images"))
    }
}
