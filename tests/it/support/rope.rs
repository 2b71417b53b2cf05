//! RoPE scalings in f64, from the papers and the definitions of `transformers` (`modeling_rope_utils.py`).

use std::f64::consts::PI;

use super::tiny::inv_freq;

/// Linear scaling: positions are divided by `factor` (arXiv 2306.15595).
pub fn linear(base: f64, dims: usize, factor: f64) -> Vec<f64> {
    inv_freq(base, dims).into_iter().map(|f| f / factor).collect()
}

/// By wavelength: short wavelengths are unchanged, wavelengths above the trained context divided by `low` are scaled by
/// `factor`, and wavelengths in between are interpolated.
pub fn llama3(base: f64, dims: usize, factor: f64, low: f64, high: f64, trained: f64) -> Vec<f64> {
    let scaled = |f: f64| {
        let wavelength = 2.0 * PI / f;
        if wavelength < trained / high {
            return f;
        }
        if wavelength > trained / low {
            return f / factor;
        }
        let smooth = (trained / wavelength - low) / (high - low);
        (1.0 - smooth) * f / factor + smooth * f
    };
    inv_freq(base, dims).into_iter().map(scaled).collect()
}

/// NTK by parts (arXiv 2309.00071, section 3.2), with bounds rounded to whole dimensions.
pub fn yarn(base: f64, dims: usize, factor: f64, trained: f64, beta_fast: f64, beta_slow: f64) -> Vec<f64> {
    let dimension = |revolutions: f64| dims as f64 * (trained / (revolutions * 2.0 * PI)).ln() / (2.0 * base.ln());
    let low = dimension(beta_fast).floor().max(0.0);
    let mut high = dimension(beta_slow).ceil().min(dims as f64 - 1.0);
    if low == high {
        high += 0.001;
    }
    let mix = |(i, f): (usize, f64)| {
        let stretched = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
        f / factor * stretched + f * (1.0 - stretched)
    };
    inv_freq(base, dims).into_iter().enumerate().map(mix).collect()
}

/// YaRN's factor on sine and cosine: the root of its equation 22 with multiplier `m`.
pub fn yarn_magnitude(m: f64, factor: f64) -> f64 {
    0.1 * m * factor.ln() + 1.0
}

/// One divisor per pair (arXiv 2402.13753).
pub fn divided(base: f64, dims: usize, divisors: &[f32]) -> Vec<f64> {
    inv_freq(base, dims).iter().zip(divisors).map(|(f, d)| f / f64::from(*d)).collect()
}

pub fn longrope_magnitude(context: f64, trained: f64) -> f64 {
    (1.0 + (context / trained).ln() / trained.ln()).sqrt()
}
