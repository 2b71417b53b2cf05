//! From a file's RoPE keys to the frequency of each pair.

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::graph::weights::{Rope, RopePairs};

/// RoPE scaling beyond the trained context length.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    None,
    /// Every angle divided by the factor.
    Linear(f32),
    /// Llama 3.1: low frequencies divided by the factor, with a smooth transition between the two bounds.
    Llama3 {
        factor: f32,
        low: f32,
        high: f32,
        original_context: u32,
    },
    /// LongRoPE (arXiv 2402.13753): a divisor per pair from the file.
    Long,
    /// YaRN (arXiv 2309.00071).
    Yarn {
        factor: f32,
        beta_fast: f32,
        beta_slow: f32,
        original_context: u32,
        /// True to round the bounds between kept and divided frequencies to whole numbers.
        truncate: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    pub base: f32,
    /// Rotated dimensions of a head.
    pub n_dims: usize,
    pub pairs: RopePairs,
    /// Scale of sine and cosine.
    pub magnitude: f32,
    pub sections: Option<Sections>,
    pub scaling: RopeScaling,
}

/// M-RoPE sections: number of pairs for each of the four components of a position: time, row, column (all equal in
/// text), and a fourth that is 0, so that its pairs are not rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sections {
    sizes: [usize; 4],
    /// True if rows and columns take every third pair each, and time all others; false for consecutive sections.
    interleaved: bool,
}

impl Sections {
    /// Returns the component for pair `i`: 0 time, 1 row, 2 column, 3 none.
    fn axis(&self, i: usize) -> u8 {
        let [time, rows, columns, still] = self.sizes;
        if self.interleaved {
            return match i % 3 {
                1 if i < 3 * rows => 1,
                2 if i < 3 * columns => 2,
                _ => 0,
            };
        }
        let i = i % (time + rows + columns + still).max(1);
        [time, time + rows, time + rows + columns].iter().filter(|end| i >= **end).count() as u8
    }
}

/// Returns the common keys. `pairs`: order of the rows of q and k in the architecture's GGUF files; folders have
/// halves.
pub fn config(keys: &Keys, head_dim: usize, context_length: u32, pairs: RopePairs) -> Result<RopeConfig> {
    let halves = keys.metadata.bool("realizar.rope_halves")?.unwrap_or(false);
    let config = RopeConfig {
        base: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
        n_dims: keys.size("rope.dimension_count")?.unwrap_or(head_dim),
        pairs: if halves { RopePairs::Halves } else { pairs },
        magnitude: attention_factor(keys)?.unwrap_or(1.0),
        sections: None,
        scaling: scaling(keys, context_length)?,
    };
    if config.base <= 0.0 {
        return Err(keys.unsupported("rope.freq_base"));
    }
    if !config.n_dims.is_multiple_of(2) || config.n_dims > head_dim {
        return Err(keys.unsupported("rope.dimension_count"));
    }
    Ok(config)
}

/// Returns the file's sections, if any.
pub fn sections(keys: &Keys, interleaved: bool) -> Result<Option<Sections>> {
    let key = "rope.dimension_sections";
    let Some(_) = keys.get(key) else { return Ok(None) };
    match keys.metadata.u32s(&keys.name(key))?.as_deref() {
        Some(list) if (3..=4).contains(&list.len()) && list.iter().all(|&n| n <= 1 << 16) => {
            let sizes = std::array::from_fn(|i| list.get(i).map_or(0, |&n| n as usize));
            Ok((sizes[0] > 0 && sizes[1] > 0).then_some(Sections { sizes, interleaved }))
        }
        _ => Err(keys.unsupported(key)),
    }
}

/// Returns the file's scale of sine and cosine.
pub fn attention_factor(keys: &Keys) -> Result<Option<f32>> {
    Ok(keys.float("rope.scaling.attn_factor")?.or(keys.float("rope.scaling.yarn_attn_factor")?))
}

/// Linear, Llama 3 and YaRN scaling from the common keys.
fn scaling(keys: &Keys, context_length: u32) -> Result<RopeScaling> {
    // Older files have only a linear factor.
    let factor = keys.float("rope.scaling.factor")?.or(keys.float("rope.scale_linear")?).unwrap_or(1.0);
    let original_context = keys.size("rope.scaling.original_context_length")?.map(|n| n as u32);
    let float = |key: &str, default| Ok::<f32, Error>(keys.float(key)?.unwrap_or(default));
    let (low, high) = (float("rope.scaling.low_freq_factor", 1.0)?, float("rope.scaling.high_freq_factor", 4.0)?);
    let beta_fast = float("rope.scaling.yarn_beta_fast", 32.0)?;
    let beta_slow = float("rope.scaling.yarn_beta_slow", 1.0)?;
    let truncate = keys.flag("rope.scaling.yarn_truncate")?.unwrap_or(true);
    if factor <= 0.0 {
        return Err(keys.unsupported("rope.scaling.factor"));
    }
    match keys.str("rope.scaling.type")? {
        Some("none" | "default") => Ok(RopeScaling::None),
        None | Some("linear") if factor == 1.0 => Ok(RopeScaling::None),
        None | Some("linear") => Ok(RopeScaling::Linear(factor)),
        Some("llama3") => {
            Ok(RopeScaling::Llama3 { factor, low, high, original_context: original_context.unwrap_or(8192) })
        }
        Some("yarn") => {
            let original_context = original_context.unwrap_or(context_length);
            // Partial YaRN extrapolation is unsupported; some converters write the stretch factor here.
            if keys.float("rope.scaling.yarn_ext_factor")?.is_some_and(|share| share != 1.0 && share != factor) {
                return Err(keys.unsupported("rope.scaling.yarn_ext_factor"));
            }
            Ok(RopeScaling::Yarn { factor, beta_fast, beta_slow, original_context, truncate })
        }
        Some("longrope") => Ok(RopeScaling::Long),
        Some(_) => Err(keys.unknown("rope.scaling.type", &["none", "linear", "llama3", "longrope", "yarn"])),
    }
}

/// Frequencies of a configuration. `divisors`: the file's divisor of each pair, if any.
pub fn table(config: &RopeConfig, divisors: Option<&[f32]>) -> Result<Rope> {
    let n = config.n_dims;
    let base = f64::from(config.base);
    let mut inv_freq: Vec<f64> = (0..n / 2).map(|i| libm::pow(base, -((2 * i) as f64) / n as f64)).collect();
    let mut magnitude = config.magnitude;
    match &config.scaling {
        RopeScaling::None | RopeScaling::Long => {}
        RopeScaling::Linear(factor) => inv_freq.iter_mut().for_each(|f| *f /= f64::from(*factor)),
        RopeScaling::Llama3 { factor, low, high, original_context } => {
            let (factor, low, high) = (f64::from(*factor), f64::from(*low), f64::from(*high));
            for f in &mut inv_freq {
                // Frequencies with many rotations over the trained context are kept; those with few are divided.
                let revolutions = f64::from(*original_context) * *f / std::f64::consts::TAU;
                let smooth = ((revolutions - low) / (high - low)).clamp(0.0, 1.0);
                *f = *f * smooth + *f / factor * (1.0 - smooth);
            }
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original_context, truncate } => {
            // Index of the pair that rotates `beta` times over the trained context.
            let pair = |beta: f32| {
                let revolutions = f64::from(*original_context) / (f64::from(beta) * std::f64::consts::TAU);
                n as f64 * libm::log(revolutions) / (2.0 * libm::log(base))
            };
            let (low, high) = (pair(*beta_fast), pair(*beta_slow));
            let (low, high) = if *truncate { (low.floor(), high.ceil()) } else { (low, high) };
            let (low, high) = (low.max(0.0), high.min(n as f64 - 1.0));
            for (i, f) in inv_freq.iter_mut().enumerate() {
                let keep = 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                *f = *f * keep + *f / f64::from(*factor) * (1.0 - keep);
            }
            magnitude *= 1.0 + 0.1 * libm::logf(*factor);
        }
    }
    if let Some(by) = divisors {
        if by.len() != inv_freq.len() {
            return Err(Error::unsupported(format!(
                "{} rotary factors are not supported for {} pairs",
                by.len(),
                inv_freq.len()
            )));
        }
        inv_freq.iter_mut().zip(by).for_each(|(f, d)| *f /= f64::from(*d));
    }
    let axes: Vec<u8> = config.sections.iter().flat_map(|s| (0..inv_freq.len()).map(|i| s.axis(i))).collect();
    inv_freq.iter_mut().zip(&axes).filter(|(_, axis)| **axis == 3).for_each(|(f, _)| *f = 0.0);
    let axes = axes.into_iter().map(|axis| axis % 3).collect();
    if !magnitude.is_finite() || !inv_freq.iter().all(|f| f.is_finite()) {
        return Err(Error::unsupported(format!("the rotary scaling {:?} gives no finite angle", config.scaling)));
    }
    Ok(Rope { pairs: config.pairs, inv_freq, axes, magnitude, position_offset: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(scaling: RopeScaling) -> RopeConfig {
        RopeConfig { base: 500_000.0, n_dims: 128, pairs: RopePairs::Adjacent, magnitude: 1.0, sections: None, scaling }
    }

    #[test]
    fn llama3_keeps_fast_pairs_and_stretches_slow_ones() {
        let plain = table(&config(RopeScaling::None), None).unwrap();
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_context: 8192 };
        let scaled = table(&config(scaling), None).unwrap();
        assert_eq!(plain.inv_freq[0], 1.0);
        assert_eq!(scaled.inv_freq[0], 1.0);
        // The published divisors of Llama 3.1 (the `rope_freqs` tensor of its files) end in 8 and are 1.0 up to pair
        // 28.
        let ratio: Vec<f64> = plain.inv_freq.iter().zip(&scaled.inv_freq).map(|(a, b)| a / b).collect();
        assert!(ratio[..29].iter().all(|r| (r - 1.0).abs() < 1e-9), "{ratio:?}");
        assert!(ratio[29] > 1.0 && ratio[63] == 8.0);
    }

    #[test]
    fn yarn_ends_are_kept_and_divided() {
        let scaling =
            RopeScaling::Yarn { factor: 4.0, beta_fast: 32.0, beta_slow: 1.0, original_context: 32768, truncate: true };
        let plain = table(&config(RopeScaling::None), None).unwrap();
        let scaled = table(&config(scaling), None).unwrap();
        assert_eq!(scaled.inv_freq[0], plain.inv_freq[0]);
        assert!((scaled.inv_freq[63] * 4.0 / plain.inv_freq[63] - 1.0).abs() < 1e-12);
        assert!((scaled.magnitude - 1.138_629_4).abs() < 1e-6);
    }

    #[test]
    fn sections_tell_the_position_that_each_pair_turns_by() {
        let rope = |sizes, interleaved, pairs: usize| {
            let sections = Some(Sections { sizes, interleaved });
            table(&RopeConfig { n_dims: 2 * pairs, sections, ..config(RopeScaling::None) }, None).unwrap()
        };
        assert_eq!(rope([16, 24, 24, 0], false, 64).axes, [vec![0; 16], vec![1; 24], vec![2; 24]].concat());
        let interleaved = rope([24, 20, 20, 0], true, 64);
        assert_eq!(interleaved.axes, [[0, 1, 2].repeat(20), vec![0; 4]].concat());
        assert!(interleaved.inv_freq.iter().all(|f| *f > 0.0));
        let with_still = rope([2, 1, 1, 2], false, 6);
        assert_eq!(with_still.axes[..4], [0, 0, 1, 2]);
        assert_eq!(
            with_still.inv_freq.iter().map(|f| *f > 0.0).collect::<Vec<_>>(),
            [true, true, true, true, false, false]
        );
        assert!(table(&config(RopeScaling::None), None).unwrap().axes.is_empty());
    }

    #[test]
    fn wrong_number_of_factors_is_refused() {
        assert!(table(&config(RopeScaling::None), Some(&[1.0; 3])).is_err());
    }
}
