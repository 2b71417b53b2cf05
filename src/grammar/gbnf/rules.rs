//! The rules of a parsed GBNF grammar.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Maximum nesting of parentheses, and of rules within rules.
const MAX_DEPTH: usize = 200;

/// Index of a part of a grammar. Parts have higher indices than the parts within them.
pub type Id = usize;

pub enum Part {
    Class(Class),
    Rule(String),
    All(Vec<Id>),
    Any(Vec<Id>),
    Repeat(Id, Times),
}

/// A set of characters.
pub struct Class {
    /// The set as a regular expression.
    pub regex: String,
    /// First and last code points of its ranges, in order.
    pub ranges: Vec<(u32, u32)>,
}

/// A repetition of a part.
pub struct Times {
    /// As text, in GBNF, Lark and regular expressions: `*`, `{2,3}`.
    pub text: String,
    pub least: u32,
    /// `None`: unbounded.
    pub most: Option<u32>,
}

/// The rules of a grammar, each with its part.
pub struct Rules {
    pub parts: Vec<Part>,
    pub by_name: BTreeMap<String, Id>,
}

pub fn check_depth(depth: usize) -> Result<()> {
    match depth {
        0..MAX_DEPTH => Ok(()),
        _ => Err(Error::TooComplex(format!(
            "the GBNF grammar has more than {MAX_DEPTH} levels of parentheses and rules"
        ))),
    }
}
