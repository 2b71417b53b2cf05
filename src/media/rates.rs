//! The accepted sample rates and channel counts, and the lengths after resampling.

use crate::error::{Error, Result};

/// Sample rate of the input of audio encoders, in Hz.
pub const SAMPLE_RATE: usize = 16_000;

/// Accepted sample rates, in Hz.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;

/// Maximum number of channels.
const MAX_CHANNELS: usize = 64;

/// Returns the number of samples after resampling, before any memory is allocated for them.
pub fn length(n: usize, channels: usize, rate: u32, most: usize) -> Result<usize> {
    if !(1..=MAX_CHANNELS).contains(&channels) {
        return Err(Error::invalid(format!("the sound has {channels} channels; it must have 1 to {MAX_CHANNELS}")));
    }
    if !RATES.contains(&rate) {
        let [from, to] = [RATES.start(), RATES.end()];
        return Err(Error::invalid(format!("the sound has {rate} samples per second; it must have {from} to {to}")));
    }
    if n == 0 || !n.is_multiple_of(channels) {
        let what = format!("the sound has {n} samples; it must have some, as many in each of its {channels} channels");
        return Err(Error::invalid(what));
    }
    let n = (n / channels) as u128 * SAMPLE_RATE as u128 / u128::from(rate);
    if n > most as u128 {
        let seconds = |n: u128| n / SAMPLE_RATE as u128;
        let (n, most) = (seconds(n), seconds(most as u128));
        return Err(Error::TooComplex(format!("the sound lasts {n} seconds; it must last at most {most}")));
    }
    Ok(n as usize)
}
