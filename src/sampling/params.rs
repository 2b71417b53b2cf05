//! The parameters of a sampler and the ranges in which they may be.

use crate::error::{Error, Result};

/// The rules by which a token is chosen. The steps run in the order of the fields below the seed, which is the order of
/// llama.cpp's default chain: filters see the untempered distribution, so that a higher temperature flattens what they
/// leave but lets no further token in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplerParams {
    /// Start of the random numbers; 0 is a seed like any other.
    pub seed: u64,
    /// Added to the logits of these ids; negative infinity bans a token. Several for one id add up.
    pub logit_biases: Vec<(u32, f32)>,
    /// Divides positive and multiplies negative logits of tokens in the window (Keskar et al., "CTRL", 2019); 0 or 1:
    /// off.
    pub repeat_penalty: f32,
    /// Subtracted from the logits of tokens in the window.
    pub presence_penalty: f32,
    /// Subtracted once for every time that a token stands in the window.
    pub frequency_penalty: f32,
    /// Number of last tokens that the penalties look at; 0: 64.
    pub penalty_window: u32,
    /// Keeps the `top_k` largest logits, of equal ones the lower ids; 0: off.
    pub top_k: u32,
    /// Keeps the fewest most probable tokens that together reach this probability (Holtzman et al., "The curious case
    /// of neural text degeneration", 2019); 0 or 1: off.
    pub top_p: f32,
    /// Keeps the tokens with at least `min_p` times the probability of the most probable one; 0: off.
    pub min_p: f32,
    /// Divides the logits before the softmax; 0: the most probable token, without a draw.
    pub temperature: f32,
    /// The temperature divides ahead of the filters, as in transformers, so that these see the tempered distribution.
    pub temperature_first: bool,
}

impl SamplerParams {
    const DEFAULT_WINDOW: usize = 64;

    /// Number of last tokens that the penalties look at.
    pub fn window(&self) -> usize {
        if self.penalty_window == 0 { SamplerParams::DEFAULT_WINDOW } else { self.penalty_window as usize }
    }

    /// `InvalidArgument` names the field that is out of its range.
    pub(super) fn check(&self) -> Result<()> {
        let in_range = |name: &str, value: f32, min: f32, max: f32| {
            if value >= min && value <= max {
                return Ok(());
            }
            let range = match (min, max) {
                (_, 1.0) => "between 0 and 1",
                (0.0, _) => "finite and not negative",
                _ => "finite",
            };
            Err(Error::invalid(format!("{name} is {value}, it must be {range}")))
        };
        in_range("temperature", self.temperature, 0.0, f32::MAX)?;
        in_range("top_p", self.top_p, 0.0, 1.0)?;
        in_range("min_p", self.min_p, 0.0, 1.0)?;
        in_range("repeat_penalty", self.repeat_penalty, 0.0, f32::MAX)?;
        in_range("presence_penalty", self.presence_penalty, f32::MIN, f32::MAX)?;
        in_range("frequency_penalty", self.frequency_penalty, f32::MIN, f32::MAX)?;
        for &(id, bias) in &self.logit_biases {
            if bias.is_nan() || bias == f32::INFINITY {
                let what = format!("the logit bias of token {id} is {bias}, it must be finite or negative infinity");
                return Err(Error::invalid(what));
            }
        }
        Ok(())
    }

    /// 1 over the temperature of the distribution that the filters see.
    pub(super) fn filter_inverse(&self) -> f64 {
        if self.temperature_first { 1.0 / f64::from(self.temperature) } else { 1.0 }
    }

    /// Filters see another distribution than the one without a temperature.
    pub fn filters_tempered(&self) -> bool {
        let has_filters = !matches!(self.top_p, 0.0 | 1.0) || self.min_p > 0.0;
        self.temperature_first && has_filters && !matches!(self.temperature, 0.0 | 1.0)
    }

    /// A penalty is on.
    pub fn penalises(&self) -> bool {
        !matches!(self.repeat_penalty, 0.0 | 1.0) || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }
}
