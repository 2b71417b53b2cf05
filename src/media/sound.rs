//! Sound of the host as encoders take it: one channel of 16,000 samples a second.

use std::f64::consts::PI;

use super::wav;
use crate::error::{Error, Result, try_filled, try_vec};

/// Samples a second that encoders take.
pub const SAMPLE_RATE: usize = 16_000;

/// Rates that are resampled.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;

/// The most channels.
const MAX_CHANNELS: usize = 64;

/// The largest sample, far above the 1 of full scale.
const MAX_SAMPLE: f32 = 1e6;

/// Zeros of the kernel on each side.
const ZEROS: f64 = 32.0;

/// One channel at `SAMPLE_RATE`.
#[derive(Clone, PartialEq, Debug)]
pub struct Sound {
    pub samples: Vec<f32>,
    /// Number of samples of a channel as they were given.
    pub given: usize,
}

impl Sound {
    /// Brings samples of `channels`, one of each after the other, to one channel, their mean, and to the rate of
    /// encoders. `most`: samples that the result may have.
    ///
    /// # Errors
    /// `InvalidArgument` for no samples, one that is no number of sensible size, a rate or a number of channels without
    /// sense; `TooComplex` for more than `most`.
    pub fn new(samples: &[f32], channels: usize, rate: u32, most: usize) -> Result<Sound> {
        let n = length(samples.len(), channels, rate, most)?;
        if let Some(i) = samples.iter().position(|x| x.is_nan() || x.abs() > MAX_SAMPLE) {
            return Err(Error::invalid(format!("sample {i} is {}, full scale is from -1 to 1", samples[i])));
        }
        let given = samples.len() / channels;
        let mut mono = try_vec("samples", given)?;
        let mean = |frame: &[f32]| frame.iter().map(|x| f64::from(*x)).sum::<f64>() / channels as f64;
        mono.extend(samples.chunks_exact(channels).map(|frame| mean(frame) as f32));
        let samples = if rate as usize == SAMPLE_RATE { mono } else { resampled(&mono, rate, n)? };
        Ok(Sound { samples, given })
    }

    /// The sound of a WAV file, brought to one channel and the rate of encoders.
    ///
    /// # Errors
    /// As `new`; `Format` for a damaged file, `Unsupported` for another format.
    pub fn decode(file: &[u8], most: usize) -> Result<Sound> {
        let wav = wav::open(file)?;
        length(wav.n_samples(), wav.channels, wav.rate, most)?;
        Sound::new(&wav.samples()?, wav.channels, wav.rate, most)
    }
}

/// Number of samples that some become, before any memory is taken for them.
fn length(n: usize, channels: usize, rate: u32, most: usize) -> Result<usize> {
    if !(1..=MAX_CHANNELS).contains(&channels) {
        return Err(Error::invalid(format!("{channels} channels of sound: 1 to {MAX_CHANNELS} are mixed")));
    }
    if !RATES.contains(&rate) {
        let [from, to] = [RATES.start(), RATES.end()];
        return Err(Error::invalid(format!("{rate} samples a second: {from} to {to} are resampled")));
    }
    if n == 0 || !n.is_multiple_of(channels) {
        return Err(Error::invalid(format!("{n} samples of sound in {channels} channels")));
    }
    let n = (n / channels) as u128 * SAMPLE_RATE as u128 / u128::from(rate);
    if n > most as u128 {
        let seconds = |n: u128| n / SAMPLE_RATE as u128;
        let what = format!("a sound of {} seconds, {} are allowed", seconds(n), seconds(most as u128));
        return Err(Error::TooComplex(what));
    }
    Ok(n as usize)
}

/// `n` samples at `SAMPLE_RATE`: sums of those around each, by a sinc under a Hann window whose band is that of the
/// lower rate.
fn resampled(samples: &[f32], rate: u32, n: usize) -> Result<Vec<f32>> {
    let common = gcd(rate as usize, SAMPLE_RATE);
    // So many samples in become so many out, after which the kernels come again.
    let (step, phases) = (rate as usize / common, SAMPLE_RATE / common);
    let cut = (SAMPLE_RATE as f64 / f64::from(rate)).min(1.0);
    let reach = (ZEROS / cut) as usize;
    let taps = 2 * reach + 1;
    let mut kernels = try_filled("a resampler", taps * phases.min(n), 0f64)?;
    for (phase, kernel) in kernels.chunks_exact_mut(taps).enumerate() {
        let past = (phase * step % phases) as f64 / phases as f64;
        for (i, weight) in kernel.iter_mut().enumerate() {
            let t = past + reach as f64 - i as f64;
            if t.abs() < reach as f64 {
                let hann = 0.5 + 0.5 * libm::cos(PI * t / reach as f64);
                *weight = cut * hann * if t == 0.0 { 1.0 } else { libm::sin(PI * cut * t) / (PI * cut * t) };
            }
        }
    }
    let mut out = try_vec("samples", n)?;
    for i in 0..n {
        let (centre, kernel) = (i / phases * step + i % phases * step / phases, i % phases * taps);
        // Ahead of the first sample and behind the last there is silence.
        let missing = reach.saturating_sub(centre);
        let first = centre.saturating_sub(reach);
        let near = samples.get(first..samples.len().min(centre + reach + 1)).unwrap_or_default();
        let kernel = &kernels[kernel + missing..kernel + taps];
        out.push(near.iter().zip(kernel).map(|(x, weight)| f64::from(*x) * weight).sum::<f64>() as f32);
    }
    Ok(out)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
