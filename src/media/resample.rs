//! Image resizing, byte-identical to Pillow up to 12 (used for images by the reference implementations) and to
//! torchvision (used for videos): integer weights, rows first, bytes between the two passes. Pillow 13 resizes the
//! columns of some images first and gives other bytes there, because the bytes between the passes are clamped.

use std::f64::consts::PI;
use std::ops::Range;

use super::picture::{Part, Picture};
use crate::error::{Error, Result, try_filled, try_vec};

/// Maximum number of fractional bits of a weight.
const BITS: u32 = 22;

/// Upper limit of torchvision's weights, whose fractional bits are reduced to fit. Pillow's weights always have all
/// bits.
const TORCH_LIMIT: f64 = 32768.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Nearest,
    Box,
    Hamming,
    Bilinear,
    Bicubic,
    Lanczos,
}

impl Filter {
    /// Returns the distance in pixels from which on the kernel is 0.
    fn support(self) -> f64 {
        match self {
            Filter::Nearest | Filter::Box => 0.5,
            Filter::Bilinear | Filter::Hamming => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn kernel(self, x: f64) -> f64 {
        // The box filter includes one of its edges.
        if matches!(self, Filter::Nearest | Filter::Box) {
            return if -0.5 < x && x <= 0.5 { 1.0 } else { 0.0 };
        }
        let x = x.abs();
        if x >= self.support() {
            return 0.0;
        }
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { libm::sin(x * PI) / (x * PI) };
        match self {
            Filter::Nearest | Filter::Box => 1.0,
            Filter::Hamming => sinc(x) * (0.54 + 0.46 * libm::cos(x * PI)),
            Filter::Bilinear => 1.0 - x,
            Filter::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Filter::Bicubic => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            Filter::Lanczos => sinc(x) * sinc(x / 3.0),
        }
    }
}

/// The inputs of each output along one side.
struct Taps {
    /// Maximum number of inputs of an output.
    most: usize,
    /// The first input and the number of inputs.
    spans: Vec<(usize, usize)>,
    /// `most` weights per output; next, their number of fractional bits.
    weights: Vec<i32>,
    bits: u32,
}

impl Taps {
    /// Returns the taps of `n` outputs from number `from` on, when `n_in` inputs are resized to `n_out`. Weights are
    /// below `limit`.
    fn new(n_in: usize, n_out: usize, [from, n]: [usize; 2], filter: Filter, limit: f64) -> Result<Taps> {
        let scale = n_in as f64 / n_out as f64;
        if filter == Filter::Nearest {
            return Taps::nearest(n_in, scale, [from, n]);
        }
        // The kernel widens when an image shrinks.
        let spread = scale.max(1.0);
        let support = filter.support() * spread;
        let most = 2 * support.ceil() as usize + 1;
        let mut spans = try_vec("taps", n)?;
        let mut exact = try_filled("taps", most.saturating_mul(n), 0.0f64)?;
        for (i, exact) in exact.chunks_exact_mut(most).enumerate() {
            let center = ((from + i) as f64 + 0.5) * scale;
            // Conversions truncate toward 0, and negative values become 0.
            let first = (center - support + 0.5) as usize;
            let count = ((center + support + 0.5) as usize).min(n_in) - first;
            let exact = &mut exact[..count];
            for (j, weight) in exact.iter_mut().enumerate() {
                *weight = filter.kernel(((first + j) as f64 - center + 0.5) * (1.0 / spread));
            }
            let total: f64 = exact.iter().sum();
            exact.iter_mut().for_each(|weight| *weight /= total);
            spans.push((first, count));
        }
        let largest = exact.iter().copied().fold(0.0, f64::max);
        let fits = |bits: &u32| largest * f64::from(1 << bits) + 0.5 < limit;
        let bits = (1..=BITS).take_while(fits).last().unwrap_or(1);
        let mut weights = try_vec("taps", exact.len())?;
        weights.extend(exact.iter().map(|weight| {
            let scaled = weight * f64::from(1 << bits);
            (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i32
        }));
        Ok(Taps { most, spans, weights, bits })
    }

    /// Returns the taps of nearest-neighbor outputs: one input each, at positions accumulated as in Pillow.
    fn nearest(n_in: usize, scale: f64, [from, n]: [usize; 2]) -> Result<Taps> {
        let mut spans = try_vec("taps", n)?;
        let mut at = scale * 0.5;
        for i in 0..from.saturating_add(n) {
            if i >= from {
                spans.push(((at as usize).min(n_in - 1), 1));
            }
            at += scale;
        }
        Ok(Taps { most: 1, spans, weights: try_filled("taps", n, 1 << BITS)?, bits: BITS })
    }

    fn each(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let weights = self.weights.chunks_exact(self.most);
        self.spans.iter().zip(weights).map(|(&(first, count), weights)| (first, &weights[..count]))
    }

    /// Computes the outputs of a row. Each sum starts from its element of `begun`; `row` has the pixels from number
    /// `left` on.
    fn apply(&self, row: &[u8], left: usize, begun: &[[i32; 3]], out: &mut [u8]) {
        for (((first, weights), out), begun) in self.each().zip(out.chunks_exact_mut(3)).zip(begun) {
            let mut sums = *begun;
            let weights = weights.get(left.saturating_sub(first)..).unwrap_or_default();
            let pixels = row.get(3 * first.saturating_sub(left)..).unwrap_or_default();
            for (pixel, weight) in pixels.chunks_exact(3).zip(weights) {
                sums.iter_mut().zip(pixel).for_each(|(sum, &byte)| *sum += i32::from(byte) * weight);
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = self.byte(sum));
        }
    }

    /// Returns the initial value of each sum: the contribution of the pixels outside of `inside`, all of which have
    /// color `color`, plus half a unit for rounding.
    fn begun(&self, inside: Range<usize>, color: [u8; 3]) -> Result<Vec<[i32; 3]>> {
        let mut begun = try_vec("pixels", self.spans.len())?;
        begun.extend(self.each().map(|(first, weights)| {
            let outside = (first..).zip(weights).filter(|(at, _)| !inside.contains(at)).map(|(_, weight)| weight);
            let weight: i32 = outside.sum();
            color.map(|byte| self.half() + i32::from(byte) * weight)
        }));
        Ok(begun)
    }

    /// Returns half a unit, the initial value of sums, so that they are rounded.
    fn half(&self) -> i32 {
        1 << (self.bits - 1)
    }

    fn byte(&self, sum: i32) -> u8 {
        (sum >> self.bits).clamp(0, 255) as u8
    }
}

impl Picture {
    /// Returns the image resized to `width` and `height`.
    ///
    /// # Errors
    /// `InvalidArgument` for a size without pixels, `OutOfMemory`.
    pub fn resize(&self, width: usize, height: usize, filter: Filter) -> Result<Picture> {
        Resizing::whole(self, [width, height], filter)?.run(self)
    }

    /// Returns a part of the image resized to `width` and `height`, computing only that part.
    ///
    /// # Errors
    /// As `resize`, and `InvalidArgument` for a part that is not within that size.
    pub fn resize_part(&self, width: usize, height: usize, part: Part, filter: Filter) -> Result<Picture> {
        Resizing::part(self, [width, height], part, filter)?.run(self)
    }

    /// Returns the image, a frame of a video, resized to `width` and `height`, byte-identical to torchvision.
    ///
    /// # Errors
    /// As `resize`.
    pub fn resize_frame(&self, width: usize, height: usize, filter: Filter) -> Result<Picture> {
        let whole = Part { x: 0, y: 0, width, height };
        Resizing::with(Ground::none(self), [width, height], whole, filter, TORCH_LIMIT)?.run(self)
    }
}

/// The resizing of a part of an image.
pub(super) enum Resizing {
    /// The source has the target size already.
    Crop(Part),
    Stretch(Box<Stretch>),
}

impl Resizing {
    /// Resizes the whole image to `size`.
    pub fn whole(picture: &Picture, size: [usize; 2], filter: Filter) -> Result<Resizing> {
        Resizing::part(picture, size, Part { x: 0, y: 0, width: size[0], height: size[1] }, filter)
    }

    /// Resizes the image to `size` and returns a part of the result.
    pub fn part(picture: &Picture, size: [usize; 2], part: Part, filter: Filter) -> Result<Resizing> {
        Resizing::with(Ground::none(picture), size, part, filter, f64::INFINITY)
    }

    /// Centers the image in a square of one color with `side` pixels per edge, and resizes that square to `stretched`
    /// pixels per edge.
    pub fn within(
        picture: &Picture,
        side: usize,
        color: [u8; 3],
        stretched: usize,
        filter: Filter,
    ) -> Result<Resizing> {
        let [left, top] = picture.size().map(|of| side.checked_sub(of).map(|rest| rest / 2));
        let (Some(left), Some(top)) = (left, top) else {
            return Err(Error::invalid(format!("cannot put a {picture:?} into a square of {side} x {side} pixels")));
        };
        let ground = Ground { size: [side; 2], inner: picture.size(), at: [left, top], color };
        let whole = Part { x: 0, y: 0, width: stretched, height: stretched };
        Resizing::with(ground, [stretched; 2], whole, filter, f64::INFINITY)
    }

    fn with(ground: Ground, size: [usize; 2], part: Part, filter: Filter, limit: f64) -> Result<Resizing> {
        part.check(size[0], size[1])?;
        Ok(match size == ground.inner && ground.size == size {
            true => Resizing::Crop(part),
            false => Resizing::Stretch(Box::new(Stretch::new(ground, size, part, filter, limit)?)),
        })
    }

    /// Continues resizing `picture`, which must be the one given at creation. Returns the result when all is done,
    /// `None` if `pauses` returned true before a row.
    pub fn advance(&mut self, picture: &Picture, pauses: &mut dyn FnMut() -> bool) -> Result<Option<Picture>> {
        match self {
            Resizing::Crop(part) => picture.crop(*part).map(Some),
            Resizing::Stretch(stretch) => Ok(stretch.advance(picture, pauses).then(|| stretch.take())),
        }
    }

    fn run(mut self, picture: &Picture) -> Result<Picture> {
        let made = self.advance(picture, &mut || false)?;
        made.ok_or_else(|| Error::invalid(format!("{picture:?} was not resized")))
    }
}

/// The image of one color around another image.
#[derive(Clone, Copy)]
struct Ground {
    size: [usize; 2],
    /// Size of the inner image in pixels.
    inner: [usize; 2],
    /// Column and row of the inner image's corner.
    at: [usize; 2],
    color: [u8; 3],
}

impl Ground {
    /// Returns an image without a surrounding.
    fn none(picture: &Picture) -> Ground {
        Ground { size: picture.size(), inner: picture.size(), at: [0; 2], color: [0; 3] }
    }
}

/// The resizing of a part of an image, row by row.
pub(super) struct Stretch {
    ground: Ground,
    part: Part,
    across: Taps,
    down: Taps,
    /// Initial values of the sums of a row.
    begun: Vec<[i32; 3]>,
    /// A row without the inner image, after the first pass.
    bare: Vec<u8>,
    /// A ring buffer of rows after the first pass, indexed by the row number modulo its length: spans only move
    /// forward.
    ring: Vec<u8>,
    sums: Vec<i32>,
    /// The next row of the source; next, the number of finished rows of the result.
    next: usize,
    done: usize,
    rgb: Vec<u8>,
}

impl Stretch {
    /// All weights must be below `limit`.
    fn new(ground: Ground, size: [usize; 2], part: Part, filter: Filter, limit: f64) -> Result<Self> {
        let across = Taps::new(ground.size[0], size[0], [part.x, part.width], filter, limit)?;
        let down = Taps::new(ground.size[1], size[1], [part.y, part.height], filter, limit)?;
        let too_large = || Error::invalid(format!("{part:?} is too large"));
        let row = part.width.checked_mul(3).ok_or_else(too_large)?;
        let rgb = try_vec("pixels", row.checked_mul(part.height).ok_or_else(too_large)?)?;
        let begun = across.begun(ground.at[0]..ground.at[0] + ground.inner[0], ground.color)?;
        let mut bare = try_filled("pixels", row, 0u8)?;
        across.apply(&[], 0, &across.begun(0..0, ground.color)?, &mut bare);
        let ring = try_filled("pixels", row.saturating_mul(down.most), 0u8)?;
        let sums = try_filled("pixels", row, 0i32)?;
        Ok(Stretch { ground, part, across, down, begun, bare, ring, sums, next: 0, done: 0, rgb })
    }

    /// Continues the work. Returns true when all is done, false when `pauses` returned true before a row.
    fn advance(&mut self, picture: &Picture, pauses: &mut dyn FnMut() -> bool) -> bool {
        let (row, [left, top], [width, height]) = (3 * self.part.width, self.ground.at, self.ground.inner);
        let most = self.down.most;
        let slot = |i: usize| i % most * row..(i % most + 1) * row;
        while self.done < self.part.height {
            let (first, count) = self.down.spans[self.done];
            self.next = self.next.max(first);
            while self.next < first + count {
                if pauses() {
                    return false;
                }
                let out = &mut self.ring[slot(self.next)];
                match self.next.checked_sub(top).filter(|y| *y < height) {
                    Some(y) => self.across.apply(&picture.rgb[3 * width * y..][..3 * width], left, &self.begun, out),
                    None => out.copy_from_slice(&self.bare),
                }
                self.next += 1;
            }
            if pauses() {
                return false;
            }
            self.sums.fill(self.down.half());
            for (i, weight) in self.down.weights[most * self.done..][..count].iter().enumerate() {
                let line = &self.ring[slot(first + i)];
                self.sums.iter_mut().zip(line).for_each(|(sum, &byte)| *sum += i32::from(byte) * weight);
            }
            self.rgb.extend(self.sums.iter().map(|&sum| self.down.byte(sum)));
            self.done += 1;
        }
        true
    }

    /// Takes the result, when all is done.
    fn take(&mut self) -> Picture {
        Picture { width: self.part.width, height: self.part.height, rgb: std::mem::take(&mut self.rgb) }
    }
}
