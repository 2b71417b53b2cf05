//! The filters between logits and a draw, which run in an order set by the caller.

use crate::error::{Error, Result};

/// A filter or the temperature, with the numbers of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    TopNSigma = 1,
    TopK = 2,
    TypicalP = 3,
    TopP = 4,
    MinP = 5,
    Xtc = 6,
    Temperature = 7,
}

impl Filter {
    /// llama.cpp's order: filters see the untempered distribution, so a higher temperature flattens what they keep
    /// without letting more tokens in.
    pub const DEFAULT_ORDER: [Filter; 7] = [
        Filter::TopNSigma,
        Filter::TopK,
        Filter::TypicalP,
        Filter::TopP,
        Filter::MinP,
        Filter::Xtc,
        Filter::Temperature,
    ];

    /// Transformers' order: filters see the tempered distribution.
    pub const TEMPERATURE_FIRST: [Filter; 7] = [
        Filter::Temperature,
        Filter::TopNSigma,
        Filter::TopK,
        Filter::TypicalP,
        Filter::TopP,
        Filter::MinP,
        Filter::Xtc,
    ];

    /// Returns the filter of a number.
    pub fn of(number: u32) -> Result<Filter> {
        let found = Filter::DEFAULT_ORDER.into_iter().find(|filter| *filter as u32 == number);
        found.ok_or_else(|| Error::invalid(format!("order has {number}, which is no filter")))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Filter::TopNSigma => "top_n_sigma",
            Filter::TopK => "top_k",
            Filter::TypicalP => "typical_p",
            Filter::TopP => "top_p",
            Filter::MinP => "min_p",
            Filter::Xtc => "xtc",
            Filter::Temperature => "temperature",
        }
    }
}
