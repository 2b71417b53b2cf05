//! The sampler's parameters, each defined once: name, type, default in place of 0, and range.

use std::fmt::Display;

use super::edit::LogitsEdit;
use super::filter::Filter;
use crate::error::{Error, Result};

/// Passes the numeric parameters to a macro: `name: type, default in place of 0, range;`.
macro_rules! numbers {
    ($then:ident) => {
        $then! {
            /// Divides the logits before the softmax; 0: greedy, without filters or a draw.
            temperature: f32, 0.0, NOT_NEGATIVE;
            /// Keeps the `top_k` largest logits (ties by lower id); 0: off.
            top_k: u32, 0, ANY;
            /// Keeps the fewest most probable tokens that together reach this probability (Holtzman et al., "The
            /// curious case of neural text degeneration", 2019); 0 or 1: off.
            top_p: f32, 0.0, SHARE;
            /// Keeps the tokens with at least `min_p` times the probability of the most probable one; 0: off.
            min_p: f32, 0.0, SHARE;
            /// Divides positive and multiplies negative logits of tokens in the window (Keskar et al., "CTRL", 2019); 0
            /// or 1: off.
            repeat_penalty: f32, 0.0, NOT_NEGATIVE;
            /// Subtracted from the logits of tokens in the window.
            presence_penalty: f32, 0.0, FINITE;
            /// Subtracted for each occurrence of a token in the window.
            frequency_penalty: f32, 0.0, FINITE;
            /// Number of last tokens for the three penalties above; 0: all.
            penalty_window: u32, 0, ANY;
            /// Keeps the fewest tokens that together reach this probability, in order of the distance of their
            /// information from the entropy, ties by lower id (Meister et al., "Locally typical sampling", 2022); 0 or
            /// 1: off.
            typical_p: f32, 0.0, SHARE;
            /// Keeps the logits at most this many standard deviations below the largest (Tang et al., "Top-nσ:
            /// not all logits are you need", 2024); 0: off.
            top_n_sigma: f32, 0.0, NOT_NEGATIVE;
            /// Probability of excluding the most probable tokens ("XTC"); 0: off.
            xtc_probability: f32, 0.0, SHARE;
            /// Minimum probability of those tokens; the least probable one of them stays.
            xtc_threshold: f32, 0.1, SHARE;
            /// Dynamic temperature: from this much below to this much above `temperature`, never below 0, as the
            /// entropy goes from 0 to its maximum; 0: fixed.
            temperature_range: f32, 0.0, NOT_NEGATIVE;
            /// Exponent applied to the fraction of the maximum entropy.
            temperature_exponent: f32, 1.0, NOT_NEGATIVE;
            /// Target mean surprise in bits (Basu et al., "Mirostat", 2021, algorithm 2); 0: off.
            mirostat_tau: f32, 0.0, NOT_NEGATIVE;
            /// Learning rate of Mirostat's bound.
            mirostat_eta: f32, 0.1, NOT_NEGATIVE;
            /// Subtracted from the logit of a token that extends a repetition beyond the allowed length ("DRY"); 0:
            /// off.
            dry_multiplier: f32, 0.0, NOT_NEGATIVE;
            /// Factor of the penalty per additional token.
            dry_base: f32, 1.75, AT_LEAST_1;
            /// Number of tokens that may repeat without penalty.
            dry_allowed_length: u32, 2, ANY;
            /// Number of last tokens searched for repetitions; 0: all.
            dry_window: u32, 0, ANY;
            /// No n-gram of this size occurs twice; 0: off.
            no_repeat_ngram_size: u32, 0, NGRAM;
        }
    };
}
pub(crate) use numbers;

/// Longer repetitions count as this many tokens.
pub(super) const MAX_REPETITION: usize = 4096;

/// The valid range of a parameter.
struct Range {
    least: f64,
    most: f64,
    /// The condition, as it follows "it must be" in messages.
    words: &'static str,
}

const ANY: Range = Range { least: 0.0, most: u32::MAX as f64, words: "a number" };
const FINITE: Range = Range { least: f32::MIN as f64, most: f32::MAX as f64, words: "finite" };
const NOT_NEGATIVE: Range = Range { least: 0.0, most: f32::MAX as f64, words: "finite and not negative" };
const AT_LEAST_1: Range = Range { least: 1.0, most: f32::MAX as f64, words: "finite and at least 1" };
const SHARE: Range = Range { least: 0.0, most: 1.0, words: "between 0 and 1" };
const NGRAM: Range = Range { least: 0.0, most: MAX_REPETITION as f64, words: "at most 4096" };

fn check(name: &str, value: impl Copy + Display + Into<f64>, range: Range) -> Result<()> {
    let Range { least, most, words } = range;
    match (least..=most).contains(&value.into()) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{name} is {value}; it must be {words}"))),
    }
}

macro_rules! define {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $default:expr, $range:expr;)+) => {
        /// Parameters of sampling, applied in this order: the caller's edit; biases; bans and penalties by previous
        /// tokens; the filters and the temperature in the order of `order`; the draw, which is Mirostat's if enabled.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct SamplerParams {
            /// Seed of the random numbers; 0 is a seed like any other.
            pub seed: u64,
            /// Added to the logits of these ids; negative infinity bans a token. Several biases of one id add up.
            pub logit_biases: Vec<(u32, f32)>,
            /// Sequences that interrupt repetitions for DRY.
            pub dry_breakers: Vec<Vec<u32>>,
            /// Sequences whose last token is banned if the text ends with its other tokens.
            pub banned_sequences: Vec<Vec<u32>>,
            /// The filters and the temperature; empty: `Filter::DEFAULT_ORDER`.
            pub order: Vec<Filter>,
            /// Edits the logits before everything else.
            pub edit: Option<LogitsEdit>,
            $($(#[$doc])* pub $name: $type,)+
        }

        impl SamplerParams {
            /// Greedy.
            pub(super) const LIKELIEST: SamplerParams = SamplerParams {
                seed: 0,
                logit_biases: Vec::new(),
                dry_breakers: Vec::new(),
                banned_sequences: Vec::new(),
                order: Vec::new(),
                edit: None,
                $($name: 0 as $type,)+
            };

            /// Returns the parameters with defaults in place of zeros; fails with `InvalidArgument` if one is out of
            /// range.
            pub(super) fn checked(mut self) -> Result<SamplerParams> {
                $(
                    if self.$name == 0 as $type {
                        self.$name = $default;
                    }
                    check(stringify!($name), self.$name, $range)?;
                )+
                self.check_lists()?;
                Ok(self)
            }
        }
    };
}
numbers!(define);

impl SamplerParams {
    fn check_lists(&self) -> Result<()> {
        if let Some((id, bias)) = self.logit_biases.iter().find(|(_, bias)| bias.is_nan() || *bias == f32::INFINITY) {
            let what = format!("the logit bias of token {id} is {bias}; it must be finite or negative infinity");
            return Err(Error::invalid(what));
        }
        for (name, sequences) in [("dry_breakers", &self.dry_breakers), ("banned_sequences", &self.banned_sequences)] {
            if let Some(i) = sequences.iter().position(Vec::is_empty) {
                return Err(Error::invalid(format!("{name}[{i}] has no tokens")));
            }
        }
        for (i, filter) in self.order.iter().enumerate() {
            if self.order[..i].contains(filter) {
                return Err(Error::invalid(format!("order has {} twice", filter.name())));
            }
        }
        match Filter::DEFAULT_ORDER.iter().find(|filter| self.is_on(**filter) && !self.order().contains(filter)) {
            Some(filter) => Err(Error::invalid(format!("{} is on, but not in order", filter.name()))),
            None => Ok(()),
        }
    }

    /// Fails with `InvalidArgument` for the first id in a list outside a vocabulary of `n` tokens.
    pub(super) fn check_vocab(&self, n: usize) -> Result<()> {
        let biased = self.logit_biases.iter().map(|(id, _)| (id, "has a logit bias"));
        let breakers = self.dry_breakers.iter().flatten().map(|id| (id, "is in a breaker of DRY"));
        let banned = self.banned_sequences.iter().flatten().map(|id| (id, "is in a banned sequence"));
        match biased.chain(breakers).chain(banned).find(|(id, _)| **id as usize >= n) {
            Some((id, what)) => Err(Error::invalid(format!("token {id} {what}, the vocabulary has {n} tokens"))),
            None => Ok(()),
        }
    }

    pub(super) fn order(&self) -> &[Filter] {
        if self.order.is_empty() { &Filter::DEFAULT_ORDER } else { &self.order }
    }

    /// True if a filter has an effect.
    pub(super) fn is_on(&self, filter: Filter) -> bool {
        let changes = |p: f32| !matches!(p, 0.0 | 1.0);
        match filter {
            Filter::TopNSigma => self.top_n_sigma > 0.0,
            Filter::TopK => self.top_k > 0,
            Filter::TypicalP => changes(self.typical_p),
            Filter::TopP => changes(self.top_p),
            Filter::MinP => self.min_p > 0.0,
            Filter::Xtc => self.xtc_probability > 0.0,
            Filter::Temperature => changes(self.temperature) || self.is_dynamic(),
        }
    }

    /// True if the temperature depends on the entropy.
    pub(super) fn is_dynamic(&self) -> bool {
        self.temperature > 0.0 && self.temperature_range > 0.0
    }

    /// True if a penalty is on.
    pub fn penalizes(&self) -> bool {
        !matches!(self.repeat_penalty, 0.0 | 1.0) || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// True if a parameter other than the penalties forbids or penalizes tokens because of previous tokens.
    pub(super) fn forbids_repetitions(&self) -> bool {
        self.dry_multiplier > 0.0 || self.no_repeat_ngram_size > 0 || !self.banned_sequences.is_empty()
    }

    /// True if a device supports the parameters: biases, penalties, top_k, top_p and min_p in this order, then a fixed
    /// temperature, and one draw.
    pub fn suits_devices(&self) -> bool {
        if self.edit.is_some() {
            return false;
        }
        if self.temperature == 0.0 {
            return !self.forbids_repetitions();
        }
        let known = [Filter::TopK, Filter::TopP, Filter::MinP, Filter::Temperature];
        // top_k keeps the same tokens under any temperature.
        let tells_temperatures_apart = self.is_on(Filter::TopP) || self.is_on(Filter::MinP);
        let counts = |filter: Filter| match filter {
            Filter::Temperature => tells_temperatures_apart && self.is_on(filter),
            _ => self.is_on(filter),
        };
        let on = self.order().iter().filter(|filter| counts(**filter));
        let places = on.map(|on| known.iter().position(|filter| filter == on));
        !self.forbids_repetitions()
            && !self.is_dynamic()
            && self.mirostat_tau == 0.0
            && places.clone().all(|place| place.is_some())
            && places.is_sorted()
    }
}
