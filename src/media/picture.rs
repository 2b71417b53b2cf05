//! An image in memory.

use std::fmt;

use crate::error::{Error, Result, try_filled, try_vec};

/// Returns true when the work must end.
pub(super) type Stops<'a> = &'a dyn Fn() -> bool;

/// Maximum length of a side in pixels.
pub const MAX_SIDE: usize = 65535;

/// Maximum number of pixels, whatever a caller allows: 8 times this number fits in 32 bits.
const MAX_PIXELS: u64 = 1 << 28;

/// An RGB image, three bytes per pixel, in `height` rows from the top.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub rgb: Vec<u8>,
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture of {} x {}", self.width, self.height)
    }
}

/// The default background of transparent pixels, as in reference implementations.
pub const WHITE: [u8; 3] = [255; 3];

/// Layout of a pixel in host memory. The fourth byte is alpha: pixels that are not opaque are blended over the
/// background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    Rgb8,
    Rgba8,
    Bgra8,
    Gray8,
}

/// A rectangle of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub x: usize,
    pub y: usize,
    pub width: usize,
    pub height: usize,
}

impl Part {
    /// Rejects a part that is empty or not within an image of this size.
    pub(super) fn check(&self, width: usize, height: usize) -> Result<()> {
        let fits = |from: usize, n: usize, all: usize| n > 0 && from.checked_add(n).is_some_and(|end| end <= all);
        if fits(self.x, self.width, width) && fits(self.y, self.height, height) {
            return Ok(());
        }
        Err(Error::invalid(format!("{self:?} is not within a picture of {width} x {height} pixels")))
    }
}

/// The host's pixels.
#[derive(Clone, Copy)]
pub struct Pixels<'a> {
    pub format: PixelFormat,
    pub width: usize,
    pub height: usize,
    /// Bytes between the starts of rows; 0: rows without a gap.
    pub stride: usize,
    pub data: &'a [u8],
}

impl Picture {
    /// Copies the host's pixels; transparent pixels are blended over the color `behind`.
    ///
    /// # Errors
    /// `InvalidArgument` for no pixels, sides above `MAX_SIDE`, a stride smaller than a row, too few bytes.
    pub fn from_pixels(pixels: Pixels, background: [u8; 3]) -> Result<Picture> {
        let Pixels { format, width, height, stride, data } = pixels;
        if !(1..=MAX_SIDE).contains(&width) || !(1..=MAX_SIDE).contains(&height) {
            return Err(Error::invalid(format!(
                "the picture has {width} x {height} pixels; sides must be from 1 to {MAX_SIDE}"
            )));
        }
        let pixel = match format {
            PixelFormat::Rgb8 => PixelBytes { step: 3, colors: [0, 1, 2], alpha: None },
            PixelFormat::Rgba8 => PixelBytes { step: 4, colors: [0, 1, 2], alpha: Some(3) },
            PixelFormat::Bgra8 => PixelBytes { step: 4, colors: [2, 1, 0], alpha: Some(3) },
            PixelFormat::Gray8 => PixelBytes { step: 1, colors: [0; 3], alpha: None },
        };
        let row = width * pixel.step;
        let stride = if stride == 0 { row } else { stride };
        if stride < row {
            return Err(Error::invalid(format!(
                "the stride is {stride}; it must be at least the {row} bytes of a row"
            )));
        }
        let needed = stride.checked_mul(height - 1).and_then(|bytes| bytes.checked_add(row));
        if needed.is_none_or(|needed| needed > data.len()) {
            let held = data.len();
            return Err(Error::invalid(format!("{height} rows of {stride} bytes do not fit into the {held} given")));
        }
        let mut rgb = try_vec("pixels", width.saturating_mul(height).saturating_mul(3))?;
        data.chunks(stride).take(height).for_each(|line| pixel.gather(&line[..row], background, &mut rgb));
        Ok(Picture { width, height, rgb })
    }

    /// Returns the width and height.
    pub fn size(&self) -> [usize; 2] {
        [self.width, self.height]
    }

    /// Returns a part of the image.
    ///
    /// # Errors
    /// `InvalidArgument` for a part that is not within the image.
    pub fn crop(&self, part: Part) -> Result<Picture> {
        part.check(self.width, self.height)?;
        let mut rgb = try_vec("pixels", 3 * part.width * part.height)?;
        for row in self.rgb.chunks_exact(3 * self.width).skip(part.y).take(part.height) {
            rgb.extend_from_slice(&row[3 * part.x..3 * (part.x + part.width)]);
        }
        Ok(Picture { width: part.width, height: part.height, rgb })
    }

    /// Returns the image within a black one, with its corner at `left` and `top`. The black image must not be smaller.
    pub(super) fn padded(&self, width: usize, height: usize, [left, top]: [usize; 2]) -> Result<Picture> {
        let mut rgb = try_filled("pixels", width.saturating_mul(height).saturating_mul(3), 0u8)?;
        let lines = rgb.chunks_exact_mut((3 * width).max(1)).skip(top).zip(self.rgb.chunks_exact(3 * self.width));
        lines.for_each(|(to, from)| to[3 * left..3 * (left + self.width)].copy_from_slice(from));
        Ok(Picture { width, height, rgb })
    }

    /// Returns the image rotated or mirrored to upright, given its EXIF orientation.
    pub(super) fn upright(self, orientation: u8, stops: Stops) -> Result<Picture> {
        if !(2..=8).contains(&orientation) {
            return Ok(self);
        }
        let (w, h) = (self.width, self.height);
        let is_turned = orientation >= 5;
        let (width, height) = if is_turned { (h, w) } else { (w, h) };
        let mut rgb = try_vec("pixels", self.rgb.len())?;
        for y in 0..height {
            if stops() {
                return Err(Error::Cancelled);
            }
            for x in 0..width {
                let (from_x, from_y) = if is_turned { (y, x) } else { (x, y) };
                let from_x = if [2, 3, 7, 8].contains(&orientation) { w - 1 - from_x } else { from_x };
                let from_y = if [3, 4, 6, 7].contains(&orientation) { h - 1 - from_y } else { from_y };
                rgb.extend_from_slice(&self.rgb[3 * (from_y * w + from_x)..][..3]);
            }
        }
        Ok(Picture { width, height, rgb })
    }
}

/// The positions of the channels in the bytes of a pixel.
#[derive(Clone, Copy)]
pub(super) struct PixelBytes {
    /// Bytes per pixel.
    pub step: usize,
    /// Positions of red, green and blue.
    pub colors: [usize; 3],
    pub alpha: Option<usize>,
}

impl PixelBytes {
    /// Appends the red, green and blue of a row's pixels; pixels that are not opaque are blended over the color
    /// `behind`.
    pub fn gather(self, row: &[u8], background: [u8; 3], rgb: &mut Vec<u8>) {
        let pixels = row.chunks_exact(self.step);
        match self.alpha {
            None => rgb.extend(pixels.flat_map(|pixel| self.colors.map(|place| pixel[place]))),
            Some(alpha) => rgb
                .extend(pixels.flat_map(|pixel| over(self.colors.map(|place| pixel[place]), pixel[alpha], background))),
        }
    }
}

/// Blends a color with an alpha over an opaque color, rounded to nearest as in Pillow.
pub(super) fn over(color: [u8; 3], alpha: u8, background: [u8; 3]) -> [u8; 3] {
    let alpha = u32::from(alpha);
    std::array::from_fn(|i| {
        ((u32::from(color[i]) * alpha + u32::from(background[i]) * (255 - alpha) + 127) / 255) as u8
    })
}

/// Returns the number of bytes of an image with the size that a file of format `name` declares; called before
/// allocating memory.
///
/// # Errors
/// `Format` for no pixels, `TooComplex` for more than `max_pixels`.
pub(super) fn claimed(name: &str, width: u64, height: u64, max_pixels: u64) -> Result<usize> {
    let most = max_pixels.min(MAX_PIXELS);
    if width == 0 || height == 0 {
        let what = format!("its header says {width} x {height} pixels");
        return Err(Error::Format { path: format!("the {name} picture"), what });
    }
    if width.max(height) > MAX_SIDE as u64 || width * height > most {
        let what = format!("{width} x {height} pixels; sides must have at most {MAX_SIDE}, all together {most}");
        return Err(Error::TooComplex(format!("the {name} picture has {what}")));
    }
    Ok(3 * width as usize * height as usize)
}
