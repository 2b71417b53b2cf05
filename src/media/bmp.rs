//! BMP files: 1, 4 and 8 bits per pixel with a palette, optionally run-length encoded, and 16, 24 and 32 bits,
//! optionally with masks.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::chunks::number;
use super::picture::{Picture, PixelBytes, Stops, claimed, over};
use crate::error::{Error, Result, try_filled, try_vec};

/// Size of the file header in bytes; the image header follows.
const FILE_HEADER: usize = 14;

/// The smallest header size that includes an alpha mask.
const WITH_ALPHA: usize = 56;

/// Values of the compression field.
const PLAIN: usize = 0;
const RUNS_OF_8: usize = 1;
const RUNS_OF_4: usize = 2;
const MASKS: usize = 3;
const MASKS_AND_ALPHA: usize = 6;

/// Run-length codes between two checks of `stops`.
const CODES: usize = 4096;

pub fn decode(file: &[u8], stops: Stops, max_pixels: u64, background: [u8; 3]) -> Result<Picture> {
    let head = Header::read(file)?;
    let Header { width, height, bits, compression, .. } = head;
    let bytes = claimed("BMP", width as u64, height as u64, max_pixels)?;
    let pixels = file.get(head.pixels..).unwrap_or_default();
    let mut rgb = try_vec("pixels", bytes)?;
    if let (RUNS_OF_8, 8) | (RUNS_OF_4, 4) = (compression, bits) {
        let indices = unpacked(pixels, width, height, bits, stops)?;
        for y in 0..height {
            if stops() {
                return Err(Error::Cancelled);
            }
            let line = indices.get(head.row(y) * width..).and_then(|rest| rest.get(..width)).unwrap_or_default();
            rgb.extend(line.iter().flat_map(|index| head.color(file, usize::from(*index))));
        }
        return Ok(Picture { width, height, rgb });
    }
    // Rows end on multiples of four bytes; the padding of the last row may be missing.
    let row = (width * bits).div_ceil(8);
    let stride = row.next_multiple_of(4);
    if pixels.len() < stride * (height - 1) + row {
        return Err(damaged(&format!("it ends within its {height} rows of {stride} bytes")));
    }
    for y in 0..height {
        if stops() {
            return Err(Error::Cancelled);
        }
        let line = pixels.get(stride * head.row(y)..).and_then(|rest| rest.get(..row)).unwrap_or_default();
        match (bits, &head.masks) {
            (1..=8, _) => rgb.extend((0..width).flat_map(|x| {
                let byte = line.get(x * bits / 8).copied().unwrap_or_default();
                head.color(file, usize::from(byte) >> (8 - bits - x * bits % 8) & ((1 << bits) - 1))
            })),
            (24 | 32, None) => {
                PixelBytes { step: bits / 8, colors: [2, 1, 0], alpha: None }.gather(line, background, &mut rgb);
            }
            (_, masks) => {
                let masks = masks.unwrap_or(OF_16_BITS);
                let pixels = line.chunks_exact(bits / 8).map(|pixel| number(pixel, 0, pixel.len(), false).unwrap_or(0));
                rgb.extend(pixels.flat_map(|pixel| masks.color(pixel as u32, background)));
            }
        }
    }
    Ok(Picture { width, height, rgb })
}

/// The contents of the headers.
struct Header {
    width: usize,
    height: usize,
    /// True if the first row of the file is the top row.
    is_upright: bool,
    bits: usize,
    compression: usize,
    /// Masks of 16-bit and 32-bit pixels, if the file has any.
    masks: Option<Masks>,
    /// Offset of the palette, number of its colors, and bytes per color.
    palette: [usize; 3],
    /// Offset of the pixels.
    pixels: usize,
}

impl Header {
    fn read(file: &[u8]) -> Result<Header> {
        let read = |at, bytes| number(file, at, bytes, false).ok_or_else(|| damaged("it ends within its header"));
        let header = read(FILE_HEADER, 4)?;
        // The first version has 16-bit dimensions, and palettes of three bytes per color.
        let is_old = header == 12;
        let (side, color) = if is_old { (2, 3) } else { (4, 4) };
        if !is_old && !(40..=1024).contains(&header) {
            return Err(Error::unsupported(format!("cannot decode a BMP picture whose header has {header} bytes")));
        }
        let at = FILE_HEADER + 4;
        let (width, height) = (read(at, side)?, read(at + side, side)?);
        // Rows go from the bottom to the top, unless the height is negative.
        let signed = height as u32 as i32;
        let is_upright = !is_old && signed < 0;
        let height = if is_upright { signed.unsigned_abs() as usize } else { height };
        let bits = read(at + 2 * side + 2, 2)?;
        let compression = if is_old { PLAIN } else { read(FILE_HEADER + 16, 4)? };
        let has_masks = match (bits, compression) {
            (1 | 4 | 8 | 16 | 24 | 32, PLAIN) | (8, RUNS_OF_8) | (4, RUNS_OF_4) => false,
            (16 | 32, MASKS | MASKS_AND_ALPHA) => true,
            _ => {
                let what = format!("cannot decode a BMP picture of {bits} bits and compression {compression}");
                return Err(Error::unsupported(what));
            }
        };
        let has_alpha = header >= WITH_ALPHA || compression == MASKS_AND_ALPHA;
        let masks = has_masks.then(|| Masks::read(file, has_alpha, bits)).transpose()?.flatten();
        // The masks are within the header, or follow a header of 40 bytes, which has no space for them.
        let behind_header = if has_masks && header == 40 { if has_alpha { 16 } else { 12 } } else { 0 };
        let (first, declared) = (FILE_HEADER + header + behind_header, read(10, 4)?);
        let n = if bits > 8 {
            0
        } else {
            let n = if is_old { 0 } else { read(FILE_HEADER + 32, 4)? };
            let n = if (1..1 << bits).contains(&n) { n } else { 1 << bits };
            // The pixels follow the palette, which bounds its size, unless the writer forgot to count the palette.
            if declared > first { n.min((declared - first) / color) } else { n }
        };
        if file.len() < first + n * color {
            return Err(damaged("it ends within its palette"));
        }
        let pixels = if declared > first { declared } else { first + n * color };
        Ok(Header { width, height, is_upright, bits, compression, masks, palette: [first, n, color], pixels })
    }

    /// Returns the index, within the file, of the image's row `y`.
    fn row(&self, y: usize) -> usize {
        if self.is_upright { y } else { self.height - 1 - y }
    }

    /// Returns the color of an index; black if the palette does not contain the index.
    fn color(&self, file: &[u8], index: usize) -> [u8; 3] {
        let [first, n, bytes] = self.palette;
        match file.get(first + index * bytes..) {
            Some(&[b, g, r, ..]) if index < n => [r, g, b],
            _ => [0; 3],
        }
    }
}

/// Masks of red, green, blue and alpha in a pixel; the alpha mask may be 0.
#[derive(Clone, Copy)]
struct Masks {
    colors: [u32; 3],
    alpha: u32,
}

/// Five bits per color, the format of 16 bits without masks.
const OF_16_BITS: Masks = Masks { colors: [0x7c00, 0x3e0, 0x1f], alpha: 0 };

impl Masks {
    /// Reads the masks of a file; `None` if all are 0.
    fn read(file: &[u8], has_alpha: bool, bits: usize) -> Result<Option<Masks>> {
        let mask = |i: usize| {
            let mask = number(file, FILE_HEADER + 40 + 4 * i, 4, false);
            let mask = mask.ok_or_else(|| damaged("it ends within its masks"))? as u32;
            // The bits of a mask must be contiguous and within the pixel.
            let run = (mask >> mask.trailing_zeros().min(31)).wrapping_add(1);
            match mask == 0 || run.is_power_of_two() || run == 0 {
                true if bits == 32 || mask <= 0xffff => Ok(mask),
                _ => {
                    let what = format!("cannot decode a BMP picture of {bits} bits with the mask {mask:#x}");
                    Err(Error::unsupported(what))
                }
            }
        };
        let masks = Masks { colors: [mask(0)?, mask(1)?, mask(2)?], alpha: if has_alpha { mask(3)? } else { 0 } };
        let colors = masks.colors;
        let all = colors.iter().map(|mask| u64::from(*mask)).sum::<u64>() + u64::from(masks.alpha);
        let joined = colors.iter().fold(masks.alpha, |all, mask| all | mask);
        if all != u64::from(joined) || colors != [0; 3] && colors.contains(&0) {
            return Err(Error::unsupported(format!("cannot decode a BMP picture with the masks {colors:#x?}")));
        }
        Ok((colors != [0; 3]).then_some(masks))
    }

    fn color(&self, pixel: u32, background: [u8; 3]) -> [u8; 3] {
        // The maximum value of a mask becomes 255; values in between are rounded down, as in Pillow.
        let byte = |mask: u32| {
            let shift = mask.trailing_zeros().min(31);
            (u64::from((pixel & mask) >> shift) * 255 / u64::from(mask >> shift).max(1)) as u8
        };
        let alpha = if self.alpha == 0 { 255 } else { byte(self.alpha) };
        over(self.colors.map(byte), alpha, background)
    }
}

/// Decodes run-length encoding: returns the palette indices of all pixels in file order. Skipped pixels have index 0;
/// pixels past the end of a row are dropped.
fn unpacked(data: &[u8], width: usize, height: usize, bits: usize, stops: Stops) -> Result<Vec<u8>> {
    let mut out = try_filled("pixels", width * height, 0u8)?;
    let (mut x, mut y, mut rest) = (0usize, 0usize, data);
    let (mut n_codes, cut) = (0usize, || damaged("it ends within its runs"));
    // The end is marked, or follows from the number of pixels.
    while y < height && !(y + 1 == height && x >= width) {
        n_codes += 1;
        if n_codes.is_multiple_of(CODES) && stops() {
            return Err(Error::Cancelled);
        }
        let (&[n, value], later) = rest.split_first_chunk().ok_or_else(cut)?;
        rest = later;
        match (n, value) {
            (0, 0) => (x, y) = (0, y + 1),
            (0, 1) => break,
            (0, 2) => {
                let (&[right, up], later) = rest.split_first_chunk().ok_or_else(cut)?;
                (x, y, rest) = (x + usize::from(right), y + usize::from(up), later);
            }
            _ => {
                let is_run = n > 0;
                let count = usize::from(if is_run { n } else { value });
                // Literal pixels are padded to whole pairs of bytes.
                let bytes = if is_run { 0 } else { (count * bits).div_ceil(8).next_multiple_of(2) };
                let (single, later) = rest.split_at_checked(bytes).ok_or_else(cut)?;
                rest = later;
                let line = out.get_mut(y * width..(y + 1) * width).unwrap_or_default();
                for (i, place) in line.iter_mut().skip(x).take(count).enumerate() {
                    let byte = if is_run { value } else { single.get(i * bits / 8).copied().unwrap_or_default() };
                    *place = if bits == 8 { byte } else { byte >> (4 - i % 2 * 4) & 15 };
                }
                x += count;
            }
        }
    }
    Ok(out)
}

fn damaged(what: &str) -> Error {
    Error::Format { path: "the BMP picture".to_owned(), what: what.to_owned() }
}
