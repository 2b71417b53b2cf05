//! Resizing with the bytes of Pillow up to 12, which the makers of models resize pictures with, and of torchvision,
//! which they resize videos with: integer weights, rows first, bytes between the two passes. Pillow 13 takes columns
//! of some pictures first, and has other bytes there, because those between the passes are clamped.

use std::f64::consts::PI;
use std::ops::Range;

use super::picture::{Part, Picture};
use crate::error::{Error, Result, try_filled, try_vec};

/// The most fractional bits of a weight.
const BITS: u32 = 22;

/// Weights of torchvision are below it, and have as many fractional bits as that leaves. Those of Pillow have all.
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
    /// Distance in pixels from which on the kernel is 0.
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

/// The inputs that each output along one side is a sum of.
struct Taps {
    /// The most inputs of an output.
    most: usize,
    /// The first input and the number of inputs.
    spans: Vec<(usize, usize)>,
    /// `most` for each output, with so many fractional bits.
    weights: Vec<i32>,
    bits: u32,
}

impl Taps {
    /// The taps of `n` outputs, beginning with `from`, of the `n_out` to which `n_in` inputs are resized. Weights are
    /// below `limit`.
    fn new(n_in: usize, n_out: usize, [from, n]: [usize; 2], filter: Filter, limit: f64) -> Result<Taps> {
        let scale = n_in as f64 / n_out as f64;
        if filter == Filter::Nearest {
            return Taps::nearest(n_in, scale, [from, n]);
        }
        // The kernel widens where a picture shrinks.
        let spread = scale.max(1.0);
        let support = filter.support() * spread;
        let most = 2 * support.ceil() as usize + 1;
        let mut spans = try_vec("taps", n)?;
        let mut exact = try_filled("taps", most.saturating_mul(n), 0.0f64)?;
        for (i, exact) in exact.chunks_exact_mut(most).enumerate() {
            let centre = ((from + i) as f64 + 0.5) * scale;
            // Conversions cut towards 0, and what is below 0 becomes 0.
            let first = (centre - support + 0.5) as usize;
            let count = ((centre + support + 0.5) as usize).min(n_in) - first;
            let exact = &mut exact[..count];
            for (j, weight) in exact.iter_mut().enumerate() {
                *weight = filter.kernel(((first + j) as f64 - centre + 0.5) * (1.0 / spread));
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

    /// The taps of nearest-neighbor outputs: one input each, at positions that are accumulated as in Pillow.
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
    /// `colour`, plus half a unit for rounding.
    fn begun(&self, inside: Range<usize>, colour: [u8; 3]) -> Result<Vec<[i32; 3]>> {
        let mut begun = try_vec("pixels", self.spans.len())?;
        begun.extend(self.each().map(|(first, weights)| {
            let outside = (first..).zip(weights).filter(|(at, _)| !inside.contains(at)).map(|(_, weight)| weight);
            let weight: i32 = outside.sum();
            colour.map(|byte| self.half() + i32::from(byte) * weight)
        }));
        Ok(begun)
    }

    /// Returns half a unit, with which sums begin so that they are rounded.
    fn half(&self) -> i32 {
        1 << (self.bits - 1)
    }

    fn byte(&self, sum: i32) -> u8 {
        (sum >> self.bits).clamp(0, 255) as u8
    }
}

impl Picture {
    /// The picture stretched to this size.
    ///
    /// # Errors
    /// `InvalidArgument` for a size without pixels, `OutOfMemory`.
    pub fn resize(&self, width: usize, height: usize, filter: Filter) -> Result<Picture> {
        Resizing::whole(self, [width, height], filter)?.run(self)
    }

    /// A part of the picture stretched to this size, without the rest of it.
    ///
    /// # Errors
    /// As `resize`, and `InvalidArgument` for a part that is not within that size.
    pub fn resize_part(&self, width: usize, height: usize, part: Part, filter: Filter) -> Result<Picture> {
        Resizing::part(self, [width, height], part, filter)?.run(self)
    }

    /// The picture as a frame of a video stretched to this size, with the bytes of torchvision.
    ///
    /// # Errors
    /// As `resize`.
    pub fn resize_frame(&self, width: usize, height: usize, filter: Filter) -> Result<Picture> {
        let whole = Part { x: 0, y: 0, width, height };
        Resizing::with(Ground::none(self), [width, height], whole, filter, TORCH_LIMIT)?.run(self)
    }
}

/// The work on a part of a picture of another size.
pub(super) enum Resizing {
    /// The source has the target size already.
    Crop(Part),
    Stretch(Box<Stretch>),
}

impl Resizing {
    /// Stretches the whole image to `size`.
    pub fn whole(picture: &Picture, size: [usize; 2], filter: Filter) -> Result<Resizing> {
        Resizing::part(picture, size, Part { x: 0, y: 0, width: size[0], height: size[1] }, filter)
    }

    /// Stretches the image to `size` and returns a part of the result.
    pub fn part(picture: &Picture, size: [usize; 2], part: Part, filter: Filter) -> Result<Resizing> {
        Resizing::with(Ground::none(picture), size, part, filter, f64::INFINITY)
    }

    /// Puts the image in the middle of a square of one color, with `side` pixels per edge, and stretches that square to
    /// another square.
    pub fn within(
        picture: &Picture,
        side: usize,
        colour: [u8; 3],
        stretched: usize,
        filter: Filter,
    ) -> Result<Resizing> {
        let [left, top] = picture.size().map(|of| side.checked_sub(of).map(|rest| rest / 2));
        let (Some(left), Some(top)) = (left, top) else {
            return Err(Error::invalid(format!("cannot put a {picture:?} into a square of {side} x {side} pixels")));
        };
        let ground = Ground { size: [side; 2], inner: picture.size(), at: [left, top], colour };
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

    /// Continues resizing `picture`, which must be the one given at creation. Returns the result once all is done,
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

/// The image of one color that surrounds another image.
#[derive(Clone, Copy)]
struct Ground {
    size: [usize; 2],
    /// Size of the inner image in pixels.
    inner: [usize; 2],
    /// The column and row of the inner image's corner.
    at: [usize; 2],
    colour: [u8; 3],
}

impl Ground {
    /// An image without a surrounding.
    fn none(picture: &Picture) -> Ground {
        Ground { size: picture.size(), inner: picture.size(), at: [0; 2], colour: [0; 3] }
    }
}

/// The work on a part of a stretched picture, row by row.
pub(super) struct Stretch {
    ground: Ground,
    part: Part,
    across: Taps,
    down: Taps,
    /// Initial values of the sums of a row.
    begun: Vec<[i32; 3]>,
    /// A row without the inner image, after the first pass.
    bare: Vec<u8>,
    /// A ring buffer of rows after the first pass, indexed by the row number modulo its length: the spans only move
    /// forward.
    ring: Vec<u8>,
    sums: Vec<i32>,
    /// The next row of the source, and the number of finished rows of the result.
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
        let begun = across.begun(ground.at[0]..ground.at[0] + ground.inner[0], ground.colour)?;
        let mut bare = try_filled("pixels", row, 0u8)?;
        across.apply(&[], 0, &across.begun(0..0, ground.colour)?, &mut bare);
        let ring = try_filled("pixels", row.saturating_mul(down.most), 0u8)?;
        let sums = try_filled("pixels", row, 0i32)?;
        Ok(Stretch { ground, part, across, down, begun, bare, ring, sums, next: 0, done: 0, rgb })
    }

    /// Continues until all is done, and returns true, or until `pauses` returns true before a row, and returns false.
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

    /// The result, once all is done.
    fn take(&mut self) -> Picture {
        Picture { width: self.part.width, height: self.part.height, rgb: std::mem::take(&mut self.rgb) }
    }
}
