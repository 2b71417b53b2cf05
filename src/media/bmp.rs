//! BMP files: 1, 4 and 8 bits with a palette, 24 and 32 bits; no compression.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::chunks::number;
use super::picture::{Picture, claimed, gather};
use crate::error::{Error, Result, try_vec};

/// Bytes of the header of the file, which stands ahead of that of the picture.
const FILE_HEADER: usize = 14;

pub fn decode(file: &[u8], max_pixels: u64) -> Result<Picture> {
    let read = |at, bytes| number(file, at, bytes, false).ok_or_else(|| damaged("it ends within its header"));
    let header = read(FILE_HEADER, 4)?;
    // The first version has sides of 16 bits, and palettes of three bytes a colour.
    let is_old = header == 12;
    let (side, colour) = if is_old { (2, 3) } else { (4, 4) };
    if !is_old && !(40..=1024).contains(&header) {
        return Err(Error::unsupported(format!("a BMP picture with a header of {header} bytes")));
    }
    let at = FILE_HEADER + 4;
    let (width, height) = (read(at, side)?, read(at + side, side)?);
    // Rows go upwards, except where the height is negative.
    let signed = height as u32 as i32;
    let is_upright = !is_old && signed < 0;
    let height = if is_upright { signed.unsigned_abs() as usize } else { height };
    let bytes = claimed("BMP", width as u64, height as u64, max_pixels)?;
    let bits = read(at + 2 * side + 2, 2)?;
    let compression = if is_old { 0 } else { read(FILE_HEADER + 16, 4)? };
    let places = match (bits, compression) {
        (1 | 4 | 8 | 24 | 32, 0) => [2, 1, 0],
        // Masks say where the colours are.
        (32, 3 | 6) => {
            let mask = |i: usize| {
                let mask = read(FILE_HEADER + 40 + 4 * i, 4)?;
                let place = (0..4).find(|place| mask == 0xff << (8 * place));
                place.ok_or_else(|| Error::unsupported(format!("a BMP picture with the mask {mask:#x}")))
            };
            [mask(0)?, mask(1)?, mask(2)?]
        }
        _ => return Err(Error::unsupported(format!("a BMP picture of {bits} bits and compression {compression}"))),
    };
    let palette = if bits <= 8 {
        let n = if is_old { 0 } else { read(FILE_HEADER + 32, 4)? };
        let n = if (1..1 << bits).contains(&n) { n } else { 1 << bits };
        let from = FILE_HEADER + header;
        file.get(from..from + n * colour).ok_or_else(|| damaged("it ends within its palette"))?
    } else {
        &[]
    };
    // Rows end on multiples of four bytes; those of the last may be missing.
    let row = (width * bits).div_ceil(8);
    let stride = row.next_multiple_of(4);
    let pixels = file.get(read(10, 4)?..).unwrap_or_default();
    if pixels.len() < stride * (height - 1) + row {
        return Err(damaged(&format!("it ends within its {height} rows of {stride} bytes")));
    }
    let mut rgb = try_vec("pixels", bytes)?;
    for y in 0..height {
        let y = if is_upright { y } else { height - 1 - y };
        let line = pixels.get(stride * y..).and_then(|rest| rest.get(..row)).unwrap_or_default();
        if bits > 8 {
            gather(line, bits / 8, places, &mut rgb);
            continue;
        }
        for x in 0..width {
            let byte = line.get(x * bits / 8).copied().unwrap_or_default();
            let index = usize::from(byte) >> (8 - bits - x * bits % 8) & ((1 << bits) - 1);
            let Some(&[b, g, r, ..]) = palette.get(index * colour..(index + 1) * colour) else {
                let n = palette.len() / colour;
                return Err(damaged(&format!("pixel {x}, {y} has colour {index} of {n}")));
            };
            rgb.extend([r, g, b]);
        }
    }
    Ok(Picture { width, height, rgb })
}

fn damaged(what: &str) -> Error {
    Error::Format { path: "the BMP picture".to_owned(), what: what.to_owned() }
}
