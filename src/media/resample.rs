//! Resizing with the bytes of Pillow up to 12, which the makers of models resize pictures with, and of torchvision,
//! which they resize videos with: integer weights, rows first, bytes between the two passes. Pillow 13 takes columns
//! of some pictures first, and has other bytes there, because those between the passes are clamped.

use std::f64::consts::PI;

use super::picture::{Part, Picture};
use crate::error::{Error, Result, try_filled, try_vec};

/// The most fractional bits of a weight.
const BITS: u32 = 22;

/// Weights of torchvision are below it, and have as many fractional bits as that leaves. Those of Pillow have all.
const TORCH_LIMIT: f64 = 32768.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Bilinear,
    Bicubic,
    Lanczos,
}

impl Filter {
    /// Distance in pixels from which on the kernel is 0.
    fn support(self) -> f64 {
        match self {
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn kernel(self, x: f64) -> f64 {
        let x = x.abs();
        if x >= self.support() {
            return 0.0;
        }
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { libm::sin(x * PI) / (x * PI) };
        match self {
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

    fn each(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let weights = self.weights.chunks_exact(self.most);
        self.spans.iter().zip(weights).map(|(&(first, count), weights)| (first, &weights[..count]))
    }

    fn apply(&self, row: &[u8], out: &mut [u8]) {
        for ((first, weights), out) in self.each().zip(out.chunks_exact_mut(3)) {
            let mut sums = [self.half(); 3];
            for (pixel, weight) in row[3 * first..].chunks_exact(3).zip(weights) {
                sums.iter_mut().zip(pixel).for_each(|(sum, &byte)| *sum += i32::from(byte) * weight);
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = self.byte(sum));
        }
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
        self.resize_part(width, height, Part { x: 0, y: 0, width, height }, filter)
    }

    /// A part of the picture stretched to this size, without the rest of it.
    ///
    /// # Errors
    /// As `resize`, and `InvalidArgument` for a part that is not within that size.
    pub fn resize_part(&self, width: usize, height: usize, part: Part, filter: Filter) -> Result<Picture> {
        self.stretched(width, height, part, filter, f64::INFINITY)
    }

    /// The picture as a frame of a video stretched to this size, with the bytes of torchvision.
    ///
    /// # Errors
    /// As `resize`.
    pub fn resize_frame(&self, width: usize, height: usize, filter: Filter) -> Result<Picture> {
        self.stretched(width, height, Part { x: 0, y: 0, width, height }, filter, TORCH_LIMIT)
    }

    /// Returns a part of the picture stretched to this size, by weights below `limit`.
    fn stretched(&self, width: usize, height: usize, part: Part, filter: Filter, limit: f64) -> Result<Picture> {
        part.check(width, height)?;
        if (width, height) == (self.width, self.height) {
            return self.crop(part);
        }
        let across = Taps::new(self.width, width, [part.x, part.width], filter, limit)?;
        let down = Taps::new(self.height, height, [part.y, part.height], filter, limit)?;
        let too_large = || Error::invalid(format!("{part:?} is too large"));
        let row = part.width.checked_mul(3).ok_or_else(too_large)?;
        let mut rgb = try_vec("pixels", row.checked_mul(part.height).ok_or_else(too_large)?)?;
        // Rows of the source after the first pass, each at its number modulo theirs: the spans only move on.
        let mut ring = try_filled("pixels", row.saturating_mul(down.most), 0u8)?;
        let slot = |i: usize| i % down.most * row..(i % down.most + 1) * row;
        let mut sums = try_filled("pixels", row, 0i32)?;
        let mut next = 0;
        for (first, weights) in down.each() {
            next = next.max(first);
            while next < first + weights.len() {
                across.apply(&self.rgb[3 * self.width * next..][..3 * self.width], &mut ring[slot(next)]);
                next += 1;
            }
            sums.fill(down.half());
            for (i, weight) in weights.iter().enumerate() {
                let line = &ring[slot(first + i)];
                sums.iter_mut().zip(line).for_each(|(sum, &byte)| *sum += i32::from(byte) * weight);
            }
            rgb.extend(sums.iter().map(|&sum| down.byte(sum)));
        }
        Ok(Picture { width: part.width, height: part.height, rgb })
    }
}
