//! Handles keywords that no grammar can enforce: they either fail the grammar, or are omitted and reported.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use crate::error::{Error, Result};

/// Maximum number of keywords named in a note.
const MAX_NAMED: usize = 8;
/// Maximum number of characters of a place in a note.
const MAX_PLACE: usize = 100;

/// Maximum steps for one schema; next, for all schemas of a grammar. Each visited schema or value is a step, and so are
/// every `BYTES` bytes of output.
const MAX_STEPS: usize = 300_000;
const MAX_ALL: usize = 2_000_000;
/// Bytes per step.
const BYTES: usize = 32;

/// The remaining steps.
#[derive(Clone)]
pub struct Steps {
    own: Rc<Cell<usize>>,
    all: Rc<Cell<usize>>,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { own: Rc::new(Cell::new(MAX_STEPS)), all: Rc::new(Cell::new(MAX_ALL)) }
    }
}

impl Steps {
    /// Returns the steps of another schema of the same grammar.
    pub fn next(&self) -> Steps {
        Steps { own: Rc::new(Cell::new(MAX_STEPS)), all: self.all.clone() }
    }

    /// Takes `n` steps. Returns false if not enough are left; then none are left.
    pub fn take(&self, n: usize) -> bool {
        let mut is_left = true;
        for left in [&self.own, &self.all] {
            is_left &= left.get() > n;
            left.set(left.get().saturating_sub(n));
        }
        is_left
    }

    /// Takes the steps for `n` bytes.
    pub fn take_bytes(&self, n: usize) -> bool {
        self.take(1 + n / BYTES)
    }

    /// # Errors
    /// `TooComplex` if no steps are left.
    pub fn check(&self) -> Result<()> {
        match (self.own.get(), self.all.get()) {
            (_, 0) => Err(Error::TooComplex(format!("the schemas together need more than {MAX_ALL} steps to rewrite"))),
            (0, _) => Err(Error::TooComplex(format!("the schema needs more than {MAX_STEPS} steps to rewrite"))),
            _ => Ok(()),
        }
    }
}

/// How keywords that cannot be compiled are handled, and which ones were omitted.
#[derive(Default)]
pub struct Effort {
    is_best: bool,
    /// JSON pointer of the schema within the schema of its tool.
    pub base: String,
    /// Names of omitted keywords; next, the places of all of them.
    named: Vec<String>,
    omitted: HashSet<String>,
    pub steps: Steps,
    /// The reason why a keyword that the parser may reject is still in the schema.
    pub left: Option<Error>,
}

impl Effort {
    /// `is_best`: omits keywords that cannot be compiled, instead of failing.
    pub fn new(is_best: bool) -> Effort {
        Effort { is_best, ..Effort::default() }
    }

    /// Returns the same with these steps.
    pub fn with(self, steps: Steps) -> Effort {
        Effort { steps, ..self }
    }

    /// Sets whether keywords are omitted. Returns the previous setting.
    pub fn replace_best(&mut self, is_best: bool) -> bool {
        std::mem::replace(&mut self.is_best, is_best)
    }

    /// Takes steps for the schema at a place.
    ///
    /// # Errors
    /// `TooComplex` if none are left, with the place.
    pub fn step(&self, n: usize, place: &str) -> Result<()> {
        self.steps.take(n);
        self.steps.check().map_err(|error| error.of(&format!("the grammar, {:?}", self.place(place))))
    }

    /// True if keywords are omitted.
    pub fn is_best(&self) -> bool {
        self.is_best
    }

    /// Records that a keyword is omitted.
    ///
    /// # Errors
    /// `Unsupported`, with the reason `why`, if every keyword must be enforced.
    pub fn omit(&mut self, place: &str, keyword: &str, why: &str) -> Result<()> {
        let keyword = format!("{:?}", self.place(&format!("{place}/{keyword}")));
        if !self.is_best {
            return Err(Error::unsupported(format!("the grammar, {keyword}: {why}")));
        }
        self.step(1, place)?;
        if self.omitted.insert(keyword.clone()) && self.named.len() < MAX_NAMED {
            self.named.push(keyword);
        }
        Ok(())
    }

    /// Returns a place as a reference within the whole schema.
    pub fn place(&self, place: &str) -> String {
        let is_shared = ["/$defs/", "/definitions/"].iter().any(|folder| place.starts_with(folder));
        let whole = format!("#{}{place}", if is_shared { "" } else { &self.base });
        // The end of the reference has the keyword.
        match whole.char_indices().rev().nth(MAX_PLACE) {
            Some((at, _)) => format!("...{}", &whole[at..]),
            None => whole,
        }
    }

    /// Returns the parser's error, or instead the reason why a keyword that it rejects was not rewritten.
    pub fn replaced(&mut self, error: Error) -> Error {
        let text = error.to_string();
        let is_left = ["oneOf constraints", "Unimplemented keys"].iter().any(|words| text.contains(words));
        self.left.take().filter(|_| is_left).unwrap_or(error)
    }

    /// Returns the omitted keywords; `None` if there are none.
    pub fn note(&self) -> Option<String> {
        let more = match self.omitted.len() - self.named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!self.named.is_empty()).then(|| self.named.join(", ") + &more)
    }
}
