//! The logarithms of a sound's power on the mel scale, as the processor of Whisper computes them.

use std::f64::consts::PI;

use super::sound::SAMPLE_RATE;
use crate::error::{Result, try_filled, try_vec};

/// Samples of a window, and from one to the next.
const WINDOW: usize = 400;
pub const HOP: usize = 160;

/// Frequencies of a window.
const FREQUENCIES: usize = WINDOW / 2 + 1;

/// Frequency at which the scale is no longer linear, its mel, and the logarithm of a mel's ratio above it.
const BEND: f64 = 1000.0;
const BEND_MEL: f64 = 15.0;
const LOG_STEP: f64 = 1.856_297_990_365_626_3 / 27.0;

/// The transform of a window and the filters of so many bins.
pub struct LogMel {
    window: Vec<f64>,
    /// `[WINDOW / 2 - 1, FREQUENCIES]`, of the samples from the second on.
    cosines: Vec<f64>,
    sines: Vec<f64>,
    /// The first frequency of each bin, and the weights from there on.
    filters: Vec<(usize, Vec<f64>)>,
}

impl LogMel {
    pub fn new(bins: usize) -> Result<LogMel> {
        let turn = |i: usize| 2.0 * PI * (i % WINDOW) as f64 / WINDOW as f64;
        let table = |wave: fn(f64) -> f64| {
            let mut table = try_vec("a spectrogram", (WINDOW / 2 - 1) * FREQUENCIES)?;
            table.extend((1..WINDOW / 2).flat_map(|n| (0..FREQUENCIES).map(move |k| wave(turn(n * k)))));
            Ok::<Vec<f64>, crate::error::Error>(table)
        };
        Ok(LogMel {
            window: (0..WINDOW).map(|i| 0.5 - 0.5 * libm::cos(turn(i))).collect(),
            cosines: table(libm::cos)?,
            sines: table(libm::sin)?,
            filters: filters(bins),
        })
    }

    /// The spectrogram of a sound and of the silence behind it, up to `padded` samples and beyond them mirrored:
    /// `[padded / HOP, bins]`. `padded` is at least a window.
    pub fn of(&self, samples: &[f32], padded: usize) -> Result<Vec<f32>> {
        let (n, bins) = (padded / HOP, self.filters.len());
        let mut logs = try_filled("a spectrogram", n.saturating_mul(bins), -10f32)?;
        let sample = |i: usize| samples.get(i).map_or(0.0, |x| f64::from(*x));
        let (mut frame, mut power) = ([0.0; WINDOW], [0.0; FREQUENCIES]);
        for (t, logs) in logs.chunks_exact_mut(bins.max(1)).enumerate() {
            // The window is around its sample; outside the sound lies its mirror image.
            let first = t * HOP;
            for (i, (x, weight)) in frame.iter_mut().zip(&self.window).enumerate() {
                let at = (first + i).abs_diff(WINDOW / 2);
                let at = if at < padded { at } else { (2 * padded - 2).saturating_sub(at) };
                *x = sample(at) * weight;
            }
            if frame.iter().any(|x| *x != 0.0) {
                self.power(&frame, &mut power);
                for (log, (first, weights)) in logs.iter_mut().zip(&self.filters) {
                    let sum: f64 = power[*first..].iter().zip(weights).map(|(power, weight)| power * weight).sum();
                    *log = libm::log10(sum.max(1e-10)) as f32;
                }
            }
        }
        let floor = logs.iter().fold(f32::NEG_INFINITY, |most, log| most.max(*log)) - 8.0;
        logs.iter_mut().for_each(|log| *log = (log.max(floor) + 4.0) / 4.0);
        Ok(logs)
    }

    /// The squares of a window's Fourier transform. Of a real one, the samples at both sides of the middle come
    /// together.
    fn power(&self, frame: &[f64; WINDOW], power: &mut [f64; FREQUENCIES]) {
        let (mut real, mut imaginary) = ([0.0; FREQUENCIES], [0.0; FREQUENCIES]);
        for (k, real) in real.iter_mut().enumerate() {
            *real = frame[0] + if k % 2 == 0 { frame[WINDOW / 2] } else { -frame[WINDOW / 2] };
        }
        let tables = self.cosines.chunks_exact(FREQUENCIES).zip(self.sines.chunks_exact(FREQUENCIES));
        for (n, (cosines, sines)) in (1..).zip(tables) {
            let (even, odd) = (frame[n] + frame[WINDOW - n], frame[n] - frame[WINDOW - n]);
            real.iter_mut().zip(cosines).for_each(|(sum, cosine)| *sum += even * cosine);
            imaginary.iter_mut().zip(sines).for_each(|(sum, sine)| *sum += odd * sine);
        }
        for (power, (re, im)) in power.iter_mut().zip(real.iter().zip(&imaginary)) {
            *power = re * re + im * im;
        }
    }
}

/// Triangles of equal area on the scale of Slaney, which is linear up to 1000 Hz and logarithmic above.
fn filters(bins: usize) -> Vec<(usize, Vec<f64>)> {
    let top = SAMPLE_RATE as f64 / 2.0;
    let last = BEND_MEL + libm::log(top / BEND) / LOG_STEP;
    let edge = |i: usize| {
        let mel = last * i as f64 / (bins + 1) as f64;
        if mel < BEND_MEL { mel * BEND / BEND_MEL } else { BEND * libm::exp((mel - BEND_MEL) * LOG_STEP) }
    };
    let bin = |i: usize| {
        let [low, middle, high] = [edge(i), edge(i + 1), edge(i + 2)];
        let weight = |k: usize| {
            let f = top * k as f64 / (FREQUENCIES - 1) as f64;
            let sides = ((f - low) / (middle - low)).min((high - f) / (high - middle));
            sides.max(0.0) * 2.0 / (high - low)
        };
        let first = (0..FREQUENCIES).find(|k| weight(*k) > 0.0).unwrap_or(0);
        (first, (first..FREQUENCIES).map(weight).take_while(|weight| *weight > 0.0).collect())
    };
    (0..bins).map(bin).collect()
}
