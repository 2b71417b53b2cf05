//! The host's audio as audio encoders take it: one channel with 16,000 samples per second.

use std::f64::consts::PI;

use super::compressed::Compressed;
use super::rates::{SAMPLE_RATE, length};
use super::wav;
use crate::error::{Error, Result, try_vec};

/// Maximum magnitude of a sample, far above the full scale of 1.
const MAX_SAMPLE: f32 = 1e6;

/// Number of zero crossings of the kernel on each side.
const ZEROS: f64 = 32.0;

/// One channel at `SAMPLE_RATE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Sound {
    pub samples: Vec<f32>,
    /// Number of samples per channel before resampling.
    pub given: usize,
}

impl Sound {
    /// Mixes interleaved samples of `channels` channels to one channel, their mean, and resamples it to `SAMPLE_RATE`.
    /// The result may have at most `most` samples.
    ///
    /// # Errors
    /// `InvalidArgument` for no samples, a NaN or too large sample, an unsupported sample rate or number of channels;
    /// `TooComplex` for more than `most` samples.
    pub fn new(samples: &[f32], channels: usize, rate: u32, most: usize) -> Result<Sound> {
        let mut work = Sound::begin(samples, channels, rate, most, &mut || false)?;
        work.advance(&mut || false)?;
        Ok(work.finish())
    }

    /// Begins the work of `new`: only mixes the samples to one channel. Returns `Cancelled` if `stops` returned true.
    pub fn begin(
        samples: &[f32],
        channels: usize,
        rate: u32,
        most: usize,
        stops: &mut dyn FnMut() -> bool,
    ) -> Result<Resampling> {
        let n = length(samples.len(), channels, rate, most)?;
        let mut mix = Mix::new(channels, samples.len() / channels, stops)?;
        samples.chunks(CHUNK * channels).try_for_each(|samples| mix.add(samples))?;
        Resampling::new(mix.mono, rate, n)
    }

    /// Decodes a WAV, MP3, FLAC or Ogg file, mixes it to one channel and resamples it to `SAMPLE_RATE`.
    ///
    /// # Errors
    /// As `new`; `Format` for a damaged file, `Unsupported` for another format.
    pub fn decode(file: &[u8], most: usize) -> Result<Sound> {
        let mut work = Sound::begin_file(file, most, &mut || false)?;
        work.advance(&mut || false)?;
        Ok(work.finish())
    }

    /// Begins the work of `decode`: only decodes the samples and mixes them to one channel. Returns `Cancelled` if
    /// `stops` returned true.
    pub fn begin_file(file: &[u8], most: usize, stops: &mut dyn FnMut() -> bool) -> Result<Resampling> {
        if let Some(mut decoding) = Compressed::open(file, most)? {
            return match decoding.advance(stops)? {
                true => Sound::begin(&decoding.samples, decoding.channels, decoding.rate, most, stops),
                false => Err(Error::Cancelled),
            };
        }
        let wav = wav::open(file)?;
        let n = length(wav.frames.saturating_mul(wav.channels), wav.channels, wav.rate, most)?;
        let mut mix = Mix::new(wav.channels, wav.frames, stops)?;
        wav.read(&mut |samples| mix.add(samples))?;
        Resampling::new(mix.mono, wav.rate, n)
    }
}

/// The mixing of several channels to one.
struct Mix<'a> {
    channels: usize,
    mono: Vec<f32>,
    stops: &'a mut dyn FnMut() -> bool,
}

impl Mix<'_> {
    fn new(channels: usize, frames: usize, stops: &mut dyn FnMut() -> bool) -> Result<Mix<'_>> {
        Ok(Mix { channels, mono: try_vec("samples", frames)?, stops })
    }

    /// Appends the means of some interleaved samples.
    fn add(&mut self, samples: &[f32]) -> Result<()> {
        if (self.stops)() {
            return Err(Error::Cancelled);
        }
        if let Some(i) = samples.iter().position(|x| x.is_nan() || x.abs() > MAX_SAMPLE) {
            let (at, x) = (self.mono.len() * self.channels + i, samples[i]);
            return Err(Error::invalid(format!("sample {at} is {x}; it must be a number, full scale is from -1 to 1")));
        }
        let mean = |frame: &[f32]| frame.iter().map(|x| f64::from(*x)).sum::<f64>() / self.channels as f64;
        self.mono.extend(samples.chunks_exact(self.channels).map(|frame| mean(frame) as f32));
        Ok(())
    }
}

/// The resampling of one channel to `SAMPLE_RATE`: each output is a weighted sum of nearby samples. The weights are a
/// sinc with a Hann window, with the bandwidth of the lower rate.
pub struct Resampling {
    /// One channel at the caller's rate.
    mono: Vec<f32>,
    /// `step` input samples become `phases` output samples; then the kernels repeat.
    step: usize,
    phases: usize,
    /// Fraction of the bandwidth that is kept; next, number of samples on each side of a kernel's center.
    cut: f64,
    reach: usize,
    /// The kernels computed so far, `2 * reach + 1` weights each.
    kernels: Vec<f64>,
    /// Number of samples of the result; next, the samples computed so far.
    n: usize,
    out: Vec<f32>,
}

/// Samples of a channel that are mixed or computed between two calls of `pauses`.
const CHUNK: usize = 512;

impl Resampling {
    fn new(mono: Vec<f32>, rate: u32, n: usize) -> Result<Resampling> {
        let common = gcd(rate as usize, SAMPLE_RATE);
        let (step, phases) = (rate as usize / common, SAMPLE_RATE / common);
        let cut = (SAMPLE_RATE as f64 / f64::from(rate)).min(1.0);
        let reach = (ZEROS / cut) as usize;
        let (kernels, out) = match rate as usize == SAMPLE_RATE {
            true => (Vec::new(), Vec::new()),
            false => (try_vec("a resampler", (2 * reach + 1) * phases.min(n))?, try_vec("samples", n)?),
        };
        Ok(Resampling { mono, step, phases, cut, reach, kernels, n, out })
    }

    /// Returns the number of samples per channel before resampling, and after.
    pub fn samples(&self) -> [usize; 2] {
        [self.mono.len(), self.n]
    }

    /// Continues the work. Returns true when all is done, false when `pauses` returned true.
    pub fn advance(&mut self, pauses: &mut dyn FnMut() -> bool) -> Result<bool> {
        if self.step == self.phases {
            return Ok(true);
        }
        let taps = 2 * self.reach + 1;
        while self.kernels.len() < taps * self.phases.min(self.n) {
            if pauses() {
                return Ok(false);
            }
            self.add_kernel(self.kernels.len() / taps);
        }
        while self.out.len() < self.n {
            if pauses() {
                return Ok(false);
            }
            for i in self.out.len()..self.n.min(self.out.len() + CHUNK) {
                let at = i / self.phases * self.step + i % self.phases * self.step / self.phases;
                // Silence before the first sample and after the last.
                let (missing, first) = (self.reach.saturating_sub(at), at.saturating_sub(self.reach));
                let near = self.mono.get(first..self.mono.len().min(at + self.reach + 1)).unwrap_or_default();
                let kernel = &self.kernels[i % self.phases * taps..][missing..taps];
                self.out.push(product(near, kernel) as f32);
            }
        }
        Ok(true)
    }

    /// Adds the kernel for outputs of one phase, all of which lie at the same fraction of a sample after an input
    /// sample.
    fn add_kernel(&mut self, phase: usize) {
        let past = (phase * self.step % self.phases) as f64 / self.phases as f64;
        let (cut, reach) = (self.cut, self.reach as f64);
        self.kernels.extend((0..=2 * self.reach).map(|i| {
            let t = past + reach - i as f64;
            let hann = 0.5 + 0.5 * libm::cos(PI * t / reach);
            let sinc = if t == 0.0 { 1.0 } else { libm::sin(PI * cut * t) / (PI * cut * t) };
            if t.abs() < reach { cut * hann * sinc } else { 0.0 }
        }));
    }

    /// Returns the result, when all is done.
    pub fn finish(self) -> Sound {
        let given = self.mono.len();
        Sound { samples: if self.step == self.phases { self.mono } else { self.out }, given }
    }
}

/// Returns the dot product over the length of the shorter slice, with the same summation order on all processors.
fn product(x: &[f32], weights: &[f64]) -> f64 {
    let n = x.len().min(weights.len());
    let ((x, x_rest), (weights, weights_rest)) = (x[..n].as_chunks::<8>(), weights[..n].as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (x, weights) in x.iter().zip(weights) {
        sums.iter_mut().zip(x.iter().zip(weights)).for_each(|(sum, (x, weight))| *sum += f64::from(*x) * weight);
    }
    for (sum, (x, weight)) in sums.iter_mut().zip(x_rest.iter().zip(weights_rest)) {
        *sum += f64::from(*x) * weight;
    }
    let four: [f64; 4] = std::array::from_fn(|i| sums[i] + sums[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
