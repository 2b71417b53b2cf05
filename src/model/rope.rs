//! From a rotary configuration to the angle of each pair per position.

use super::config::{RopeConfig, RopeScaling};
use crate::backend::Rope;
use crate::error::{Error, Result};

/// `divisors`: what the file divides each angle by, one a pair, where it tells.
pub fn table(config: &RopeConfig, divisors: Option<&[f32]>) -> Result<Rope> {
    let n = config.n_dims;
    let base = f64::from(config.base);
    let mut inv_freq: Vec<f64> = (0..n / 2).map(|i| base.powf(-((2 * i) as f64) / n as f64)).collect();
    let mut magnitude = 1.0;
    match &config.scaling {
        RopeScaling::None => {}
        RopeScaling::Linear(factor) => inv_freq.iter_mut().for_each(|f| *f /= f64::from(*factor)),
        RopeScaling::Llama3 { factor, low, high, original_context } => {
            let (factor, low, high) = (f64::from(*factor), f64::from(*low), f64::from(*high));
            for f in &mut inv_freq {
                // Turns over the trained context decide: many keep the angle, few stretch it.
                let turns = f64::from(*original_context) * *f / std::f64::consts::TAU;
                let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                *f = *f * smooth + *f / factor * (1.0 - smooth);
            }
        }
        RopeScaling::Yarn { factor, attention, beta_fast, beta_slow, original_context } => {
            // The pair that makes `beta` turns over the trained context.
            let pair = |beta: f32| {
                let turns = f64::from(*original_context) / (f64::from(beta) * std::f64::consts::TAU);
                n as f64 * turns.ln() / (2.0 * base.ln())
            };
            let low = pair(*beta_fast).floor().max(0.0);
            let high = pair(*beta_slow).ceil().min(n as f64 - 1.0);
            for (i, f) in inv_freq.iter_mut().enumerate() {
                let keep = 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                *f = *f * keep + *f / f64::from(*factor) * (1.0 - keep);
            }
            magnitude = attention * (1.0 + 0.1 * factor.ln());
        }
        RopeScaling::LongRope { magnitude: m, .. } => magnitude = *m,
    }
    if let Some(by) = divisors {
        if by.len() != inv_freq.len() {
            return Err(Error::unsupported(format!("{} rotary factors for {} pairs", by.len(), inv_freq.len())));
        }
        inv_freq.iter_mut().zip(by).for_each(|(f, d)| *f /= f64::from(*d));
    }
    if !magnitude.is_finite() || !inv_freq.iter().all(|f| f.is_finite()) {
        return Err(Error::unsupported(format!("the rotary scaling {:?} gives no finite angle", config.scaling)));
    }
    Ok(Rope { pairs: config.pairs, inv_freq, magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::RopePairs;

    fn config(scaling: RopeScaling) -> RopeConfig {
        RopeConfig { base: 500_000.0, n_dims: 128, pairs: RopePairs::Adjacent, scaling }
    }

    #[test]
    fn llama3_keeps_fast_pairs_and_stretches_slow_ones() {
        let plain = table(&config(RopeScaling::None), None).unwrap();
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_context: 8192 };
        let scaled = table(&config(scaling), None).unwrap();
        assert_eq!(plain.inv_freq[0], 1.0);
        assert_eq!(scaled.inv_freq[0], 1.0);
        // The published factors of Llama 3.1 (the `rope_freqs` tensor of its files) end in 8 and pass through
        // 1.0 until pair 28.
        let ratio: Vec<f64> = plain.inv_freq.iter().zip(&scaled.inv_freq).map(|(a, b)| a / b).collect();
        assert!(ratio[..29].iter().all(|r| (r - 1.0).abs() < 1e-9), "{ratio:?}");
        assert!(ratio[29] > 1.0 && ratio[63] == 8.0);
    }

    #[test]
    fn yarn_ends_are_kept_and_divided() {
        let scaling =
            RopeScaling::Yarn { factor: 4.0, attention: 1.0, beta_fast: 32.0, beta_slow: 1.0, original_context: 32768 };
        let plain = table(&config(RopeScaling::None), None).unwrap();
        let scaled = table(&config(scaling), None).unwrap();
        assert_eq!(scaled.inv_freq[0], plain.inv_freq[0]);
        assert!((scaled.inv_freq[63] * 4.0 / plain.inv_freq[63] - 1.0).abs() < 1e-12);
        assert!((scaled.magnitude - 1.138_629_4).abs() < 1e-6);
    }

    #[test]
    fn wrong_number_of_factors_is_refused() {
        assert!(table(&config(RopeScaling::None), Some(&[1.0; 3])).is_err());
    }
}
