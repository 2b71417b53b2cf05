//! The filters between logits and a draw, which run in an order of the caller's choice.

use crate::error::{Error, Result};

/// A filter of tokens, or the temperature, whose numbers are those of the C interface.
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
    /// The order of llama.cpp: filters see the untempered distribution, so that a higher temperature flattens what they
    /// leave but lets no further token in.
    pub const DEFAULT_ORDER: [Filter; 7] = [
        Filter::TopNSigma,
        Filter::TopK,
        Filter::TypicalP,
        Filter::TopP,
        Filter::MinP,
        Filter::Xtc,
        Filter::Temperature,
    ];

    /// The order of transformers: filters see the tempered distribution.
    pub const TEMPERATURE_FIRST: [Filter; 7] = [
        Filter::Temperature,
        Filter::TopNSigma,
        Filter::TopK,
        Filter::TypicalP,
        Filter::TopP,
        Filter::MinP,
        Filter::Xtc,
    ];

    /// The filter of a number.
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
