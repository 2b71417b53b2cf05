//! Image files: detects the format by the first bytes, checks the size before allocating memory, then runs the decoder,
//! whose panics and failed allocations become errors.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::picture::Picture;
use super::{bmp, exif};
use crate::error::{Error, Result};

impl Picture {
    /// Decodes a PNG, JPEG, WebP, GIF or BMP file, or the first image of an animation, and applies its EXIF
    /// orientation. Transparent pixels are blended over the color `behind`. 16-bit samples keep their high byte; colors
    /// are not converted.
    ///
    /// # Errors
    /// `Format` for a damaged file, `Unsupported` (with its name) for another format, `TooComplex` if the header
    /// declares more than `max_pixels`, `OutOfMemory`.
    pub fn decode(file: &[u8], max_pixels: u64, background: [u8; 3]) -> Result<Picture> {
        Picture::decode_unless(file, max_pixels, background, &|| false)
    }

    /// As `decode`, but returns `Cancelled` soon after `stops` returns true. The decoder of WebP images, and the last
    /// pass over a progressive JPEG image, are not interrupted.
    pub fn decode_unless(
        file: &[u8],
        max_pixels: u64,
        background: [u8; 3],
        stops: &dyn Fn() -> bool,
    ) -> Result<Picture> {
        let (picture, orientation) = match kind(file)? {
            "PNG" => (foreign::png(file, stops, max_pixels, background)?, exif::of_png(file)),
            "JPEG" => (foreign::jpeg(file, stops, max_pixels)?, exif::of_jpeg(file)),
            "WebP" => (foreign::webp(file, stops, max_pixels, background)?, exif::of_webp(file)),
            "GIF" => (foreign::gif(file, stops, max_pixels, background)?, 1),
            _ => (bmp::decode(file, stops, max_pixels, background)?, 1),
        };
        picture.upright(orientation, stops)
    }
}

/// Decoded formats: name, first bytes.
const DECODED: &[(&str, &[u8])] =
    &[("PNG", b"\x89PNG\r\n\x1a\n"), ("JPEG", b"\xff\xd8\xff"), ("BMP", b"BM"), ("GIF", b"GIF8")];

/// Rejected formats, named in errors: name, offset, bytes.
const OTHERS: &[(&str, usize, &[u8])] = &[
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
        return Err(Error::unsupported(format!(
            "the picture is in the format {name}; it must be PNG, JPEG, WebP, GIF or BMP"
        )));
    }
    let first = file.get(..file.len().min(8)).unwrap_or_default();
    let what = if file.is_empty() { "it is empty".to_owned() } else { format!("no format begins with {first:02x?}") };
    Err(Error::Format { path: "the picture".to_owned(), what })
}

/// Third-party decoders.
#[cfg(feature = "images")]
mod foreign {
    use std::fmt::Display;
    use std::num::NonZeroU64;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use gif::{ColorOutput, DecodeOptions, MemoryLimit};
    use image_webp::WebPDecoder;
    use png::{Limits, Transformations};
    use zune_core::colorspace::ColorSpace;
    use zune_core::options::DecoderOptions;
    use zune_jpeg::JpegDecoder;

    use crate::error::{Error, Result, secured, try_filled, try_vec};
    use crate::media::chunks::{self, number};
    use crate::media::picture::{MAX_SIDE, Picture, PixelBytes, Stops, claimed};
    use crate::media::watched::Watched;

    /// Memory of a decoder in addition to the memory per pixel, in bytes: rows, tables, windows.
    const FIXED: usize = 8 << 20;

    pub fn jpeg(file: &[u8], stops: Stops, max_pixels: u64) -> Result<Picture> {
        let tidy = chunks::tidy_jpeg(file)?;
        let file = tidy.as_deref().unwrap_or(file);
        // Without strict mode a truncated file would decode without an error.
        let options = DecoderOptions::default()
            .set_strict_mode(true)
            .set_max_width(MAX_SIDE)
            .set_max_height(MAX_SIDE)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(Watched::new(file, stops), options);
        caught("JPEG", file.len() + FIXED, stops, || decoder.decode_headers())?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        let bytes = claimed("JPEG", width as u64, height as u64, max_pixels)?;
        // The meaning of two components is undefined.
        if decoder.output_buffer_size() != Some(bytes) {
            return Err(Error::unsupported(
                "the JPEG picture has components of an unknown meaning; it must have 1, 3 or 4 of them",
            ));
        }
        // The decoder fills in missing pixels at the end.
        if !chunks::of_jpeg(file).any(|(marker, _)| marker == chunks::END) {
            return Err(damaged("JPEG", "it has no end".to_owned()));
        }
        let mut rgb = try_filled("pixels", bytes, 0)?;
        // Progressive files are held as 16-bit coefficients of up to four components.
        caught("JPEG", bytes / 3 * 12 + FIXED, stops, || decoder.decode_into(&mut rgb))?;
        Ok(Picture { width, height, rgb })
    }

    pub fn png(file: &[u8], stops: Stops, max_pixels: u64, background: [u8; 3]) -> Result<Picture> {
        let ended = chunks::ended_png(file)?;
        let file = ended.as_deref().unwrap_or(file);
        let mut decoder = png::Decoder::new(Watched::new(file, stops));
        let (width, height) =
            caught("PNG", FIXED, stops, || decoder.read_header_info().map(|info| (info.width, info.height)))?;
        let bytes = claimed("PNG", u64::from(width), u64::from(height), max_pixels)?;
        // Retained chunks are no larger than the file.
        let limit = bytes / 3 * 4 + (64 << 10) + file.len();
        decoder.set_limits(Limits { bytes: limit });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        let mut reader = caught("PNG", limit + FIXED, stops, || decoder.read_info())?;
        let step = reader.output_color_type().0.samples();
        let mut data = try_filled("pixels", bytes / 3 * step, 0)?;
        let frame = caught("PNG", limit + FIXED, stops, || reader.next_frame(&mut data))?;
        if (frame.width, frame.height) != (width, height) {
            let what = format!("its first picture has {} x {} of {width} x {height} pixels", frame.width, frame.height);
            return Err(damaged("PNG", what));
        }
        packed([width, height], data, step, background, stops)
    }

    pub fn webp(file: &[u8], stops: Stops, max_pixels: u64, background: [u8; 3]) -> Result<Picture> {
        let mut decoder = caught("WebP", file.len() + FIXED, stops, || WebPDecoder::new(Watched::new(file, stops)))?;
        let (width, height) = decoder.dimensions();
        let bytes = claimed("WebP", u64::from(width), u64::from(height), max_pixels)?;
        check_frames(file, width as usize, height as usize)?;
        let step = if decoder.has_alpha() { 4 } else { 3 };
        let mut data = try_filled("pixels", bytes / 3 * step, 0)?;
        // An animation holds a frame, the canvas, planes and alpha.
        let limit = bytes / 3 * 16 + (64 << 10) + file.len();
        decoder.set_memory_limit(limit);
        caught("WebP", limit + FIXED, stops, || decoder.read_image(&mut data))?;
        packed([width, height], data, step, background, stops)
    }

    pub fn gif(file: &[u8], stops: Stops, max_pixels: u64, background: [u8; 3]) -> Result<Picture> {
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::Indexed);
        options.set_memory_limit(MemoryLimit::Bytes(NonZeroU64::new(max_pixels).unwrap_or(NonZeroU64::MIN)));
        let mut decoder = caught("GIF", FIXED, stops, || options.read_info(Watched::new(file, stops)))?;
        let screen = [decoder.width(), decoder.height()].map(usize::from);
        let frame = caught("GIF", FIXED, stops, || decoder.next_frame_info().map(|frame| frame.cloned()))?;
        let frame = frame.ok_or_else(|| damaged("GIF", "it has no picture".to_owned()))?;
        let [left, top, inner, lines] = [frame.left, frame.top, frame.width, frame.height].map(usize::from);
        // A frame may extend past the canvas and then enlarges it.
        let [width, height] = [screen[0].max(left + inner), screen[1].max(top + lines)];
        let bytes = claimed("GIF", width as u64, height as u64, max_pixels)?;
        let mut indices = try_filled("pixels", inner * lines, 0u8)?;
        caught("GIF", FIXED, stops, || decoder.read_into_buffer(&mut indices))?;
        let palette = caught("GIF", FIXED, stops, || decoder.palette())?;
        let color = |index: u8| match palette.as_chunks().0.get(usize::from(index)) {
            _ if frame.transparent == Some(index) => background,
            Some(color) => *color,
            None => [0; 3],
        };
        let around = color(frame.transparent.unwrap_or(0));
        let mut rgb = try_vec("pixels", bytes)?;
        for y in 0..height {
            if stops() {
                return Err(Error::Cancelled);
            }
            let line = y.checked_sub(top).and_then(|y| indices.get(y * inner..(y + 1) * inner)).unwrap_or_default();
            let ahead = if line.is_empty() { width } else { left };
            rgb.extend(std::iter::repeat_n(around, ahead).flatten());
            rgb.extend(line.iter().flat_map(|index| color(*index)));
            rgb.extend(std::iter::repeat_n(around, width - ahead - line.len()).flatten());
        }
        Ok(Picture { width, height, rgb })
    }

    /// Rejects files that the decoder would accept: with truncated chunks, whose rest the decoder would invent, or with
    /// lossy frames larger than the image, because the decoder allocates memory before comparing sizes.
    fn check_frames(file: &[u8], width: usize, height: usize) -> Result<()> {
        let frames = chunks::of_riff(file, 12..file.len(), false).flat_map(|(name, range)| {
            let within = range.start + 16..range.end;
            let inner = (name == *b"ANMF").then(|| chunks::of_riff(file, within, false).take(2));
            std::iter::once((name, range)).chain(inner.into_iter().flatten())
        });
        const READ: [[u8; 4]; 6] = [*b"VP8 ", *b"VP8L", *b"ALPH", *b"ANMF", *b"EXIF", *b"XMP "];
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

    /// Creates an image of gray, gray and alpha, RGB, or RGBA, according to the bytes per pixel.
    fn packed(size: [u32; 2], data: Vec<u8>, step: usize, background: [u8; 3], stops: Stops) -> Result<Picture> {
        let [width, height] = size.map(|side| side as usize);
        if step == 3 {
            return Ok(Picture { width, height, rgb: data });
        }
        let mut rgb = try_vec("pixels", 3 * width * height)?;
        let colors = if step <= 2 { [0; 3] } else { [0, 1, 2] };
        let pixel = PixelBytes { step, colors, alpha: step.is_multiple_of(2).then(|| step - 1) };
        for line in data.chunks(step * width) {
            if stops() {
                return Err(Error::Cancelled);
            }
            pixel.gather(line, background, &mut rgb);
        }
        Ok(Picture { width, height, rgb })
    }

    /// Runs a decoder that may allocate up to `bytes` without a check; its panics become errors.
    fn caught<T, E: Display>(name: &str, bytes: usize, stops: Stops, work: impl FnOnce() -> Result<T, E>) -> Result<T> {
        secured("a picture", bytes, || match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result.map_err(|e| if stops() { Error::Cancelled } else { damaged(name, e.to_string()) }),
            Err(_) => Err(damaged(name, "its decoder has failed".to_owned())),
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

    pub fn jpeg(_: &[u8], _: &dyn Fn() -> bool, _: u64) -> Result<Picture> {
        Err(absent("JPEG"))
    }

    pub fn png(_: &[u8], _: &dyn Fn() -> bool, _: u64, _: [u8; 3]) -> Result<Picture> {
        Err(absent("PNG"))
    }

    pub fn webp(_: &[u8], _: &dyn Fn() -> bool, _: u64, _: [u8; 3]) -> Result<Picture> {
        Err(absent("WebP"))
    }

    pub fn gif(_: &[u8], _: &dyn Fn() -> bool, _: u64, _: [u8; 3]) -> Result<Picture> {
        Err(absent("GIF"))
    }

    fn absent(name: &str) -> Error {
        Error::unsupported(format!("cannot decode a {name} picture: the library was built without the feature images"))
    }
}
