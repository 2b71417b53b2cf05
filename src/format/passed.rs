//! What a reader ignored: facts for the log, and unknown items, which are ignored only on request of the caller.

use crate::error::{Error, Result};

/// Maximum number of named items; more are counted.
const NAMED: usize = 16;

/// Facts about a load for its caller.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// Complete sentences for the log.
    pub notes: Vec<String>,
    /// The first unknown items, as errors describe them.
    pub unknown: Vec<String>,
    /// Number of all unknown items.
    pub n_unknown: usize,
    /// What the folder has instead of weights.
    pub weights: Option<String>,
}

impl Passed {
    /// Adds a fact for the log.
    pub fn note(&mut self, what: impl Into<String>) {
        if self.notes.len() < NAMED {
            self.notes.push(what.into());
        }
    }

    /// Adds an unknown item.
    pub fn unknown(&mut self, what: impl Into<String>) {
        self.n_unknown += 1;
        if self.unknown.len() < NAMED {
            self.unknown.push(what.into());
        }
    }

    /// Fails if there are unknown items. `way_out`: how to load the model anyway.
    pub fn check(&self, way_out: &str) -> Result<()> {
        let Some(first) = self.unknown.first() else { return Ok(()) };
        let more = match self.n_unknown {
            1 => String::new(),
            n => format!(", and {} more unknown keys and tensors", n - 1),
        };
        Err(Error::unsupported(format!("{first}{more}; {way_out}")))
    }
}
