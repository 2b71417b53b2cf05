//! Log-mel spectrograms, as the processor of Whisper computes them.

use std::f64::consts::PI;

use super::fourier::{FREQUENCIES, LANES, Lanes, Transform, WINDOW};
use super::rates::SAMPLE_RATE;
use crate::error::{Result, try_filled};

/// Distance between windows in samples.
pub const HOP: usize = 160;

/// Frequency up to which the scale is linear; next, its mel, and the logarithm of the frequency ratio per mel above it.
const BEND: f64 = 1000.0;
const BEND_MEL: f64 = 15.0;
const LOG_STEP: f64 = 1.856_297_990_365_626_3 / 27.0;

/// The window function and the filters of `bins` mel bins.
pub struct LogMel {
    window: Vec<f64>,
    /// First frequency of each bin, and the weights from it on.
    filters: Vec<(usize, Vec<f64>)>,
}

/// The computation of a spectrogram, some windows at a time.
pub struct Spectrogram {
    transform: Transform,
    /// Number of samples, including appended silence.
    padded: usize,
    /// `[padded / HOP, bins]`; next, the number of windows done.
    logs: Vec<f32>,
    done: usize,
}

impl LogMel {
    pub fn new(bins: usize) -> LogMel {
        let angle = |i: usize| 2.0 * PI * i as f64 / WINDOW as f64;
        LogMel { window: (0..WINDOW).map(|i| 0.5 - 0.5 * libm::cos(angle(i))).collect(), filters: filters(bins) }
    }

    /// Returns the spectrogram of audio followed by silence, up to `padded` samples and mirrored past them: `[padded /
    /// HOP, bins]`. `padded` must be at least a window.
    pub fn of(&self, samples: &[f32], padded: usize) -> Result<Vec<f32>> {
        let mut work = self.begin(padded)?;
        self.advance(&mut work, samples, &mut || false);
        Ok(work.finish())
    }

    /// Begins the work of `of`; no window is done yet.
    pub fn begin(&self, padded: usize) -> Result<Spectrogram> {
        let logs = try_filled("a spectrogram", (padded / HOP).saturating_mul(self.filters.len()), -10f32)?;
        Ok(Spectrogram { transform: Transform::new(), padded, logs, done: 0 })
    }

    /// Continues the work. Returns true when all windows are done, false when `pauses` returned true between windows.
    pub fn advance(&self, work: &mut Spectrogram, samples: &[f32], pauses: &mut dyn FnMut() -> bool) -> bool {
        let (bins, padded) = (self.filters.len(), work.padded);
        let (mut windows, mut power) = ([[0.0; LANES]; WINDOW], [[0.0; LANES]; FREQUENCIES]);
        while work.done < padded / HOP {
            if pauses() {
                return false;
            }
            let n = LANES.min(padded / HOP - work.done);
            for lane in 0..LANES {
                self.take(samples, padded, if lane < n { Some(work.done + lane) } else { None }, lane, &mut windows);
            }
            let are_heard: [bool; LANES] = std::array::from_fn(|lane| windows.iter().any(|x| x[lane] != 0.0));
            if are_heard.contains(&true) {
                work.transform.power(&windows, &mut power);
                for (bin, (first, weights)) in self.filters.iter().enumerate() {
                    let mut sums = [0.0; LANES];
                    for (power, weight) in power[*first..].iter().zip(weights) {
                        sums.iter_mut().zip(power).for_each(|(sum, power)| *sum += power * weight);
                    }
                    for (lane, sum) in sums.into_iter().enumerate().filter(|(lane, _)| are_heard[*lane]) {
                        work.logs[(work.done + lane) * bins + bin] = libm::log10(sum.max(1e-10)) as f32;
                    }
                }
            }
            work.done += n;
        }
        true
    }

    /// Writes the weighted samples of window `t` to a lane, or zeros for `None`.
    fn take(&self, samples: &[f32], padded: usize, t: Option<usize>, lane: usize, windows: &mut [Lanes; WINDOW]) {
        for (i, (x, weight)) in windows.iter_mut().zip(&self.window).enumerate() {
            // Mirrored outside of the audio.
            let at = t.map(|t| (t * HOP + i).abs_diff(WINDOW / 2));
            let at = at.map(|at| if at < padded { at } else { (2 * padded - 2).saturating_sub(at) });
            x[lane] = at.and_then(|at| samples.get(at)).map_or(0.0, |x| f64::from(*x)) * weight;
        }
    }
}

impl Spectrogram {
    /// Returns the result, when all windows are done.
    pub fn finish(mut self) -> Vec<f32> {
        let floor = self.logs.iter().fold(f32::NEG_INFINITY, |most, log| most.max(*log)) - 8.0;
        self.logs.iter_mut().for_each(|log| *log = (log.max(floor) + 4.0) / 4.0);
        self.logs
    }
}

/// Triangles of equal area on Slaney's mel scale, which is linear up to 1000 Hz and logarithmic above.
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
