//! What a reader passed over: facts for the log, and what it did not understand, which is passed over only where the
//! caller asked for that.

use crate::error::{Error, Result};

/// Things that are named; more are counted.
const NAMED: usize = 16;

/// Facts about a load that its caller should hear of.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// For the log, whole sentences.
    pub notes: Vec<String>,
    /// The first things that were not understood, as their refusals say it.
    pub unknown: Vec<String>,
    /// Number of all of them.
    pub n_unknown: usize,
    /// What there is in the place of weights, where a folder has none.
    pub weights: Option<String>,
}

impl Passed {
    /// Adds a fact for the log.
    pub fn note(&mut self, what: impl Into<String>) {
        if self.notes.len() < NAMED {
            self.notes.push(what.into());
        }
    }

    /// Adds something that was not understood.
    pub fn unknown(&mut self, what: impl Into<String>) {
        self.n_unknown += 1;
        if self.unknown.len() < NAMED {
            self.unknown.push(what.into());
        }
    }

    /// Refuses what was not understood. `way_out` tells how to load it all the same.
    pub fn check(&self, way_out: &str) -> Result<()> {
        let Some(first) = self.unknown.first() else { return Ok(()) };
        let more = match self.n_unknown {
            1 => String::new(),
            n => format!(", and {} more unknown keys and tensors", n - 1),
        };
        Err(Error::unsupported(format!("{first}{more}; {way_out}")))
    }
}
