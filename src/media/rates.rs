//! The sample rates and channel counts that are accepted, and the lengths after resampling.

use crate::error::{Error, Result};

/// The sample rate that encoders take, in Hz.
pub const SAMPLE_RATE: usize = 16_000;

/// Sample rates that are accepted, in Hz.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;

/// The most channels.
const MAX_CHANNELS: usize = 64;

/// Returns the number of samples after resampling, before any memory is allocated for them.
pub fn length(n: usize, channels: usize, rate: u32, most: usize) -> Result<usize> {
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
