//! Handles keywords that no grammar can enforce: they either fail the grammar, or are left out and named.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use crate::error::{Error, Result};

/// Most keywords that are named in one note.
const MAX_NAMED: usize = 8;
/// Most characters of a place that is named.
const MAX_PLACE: usize = 100;

/// Steps that may be taken for one schema, and for all schemas of a grammar: a step is a schema or a value that is
/// looked at, or some bytes of what is written.
const MAX_STEPS: usize = 300_000;
const MAX_ALL: usize = 2_000_000;
/// Bytes that are one step.
const BYTES: usize = 32;

/// The steps that are left.
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
    /// The steps of another schema of the same grammar.
    pub fn next(&self) -> Steps {
        Steps { own: Rc::new(Cell::new(MAX_STEPS)), all: self.all.clone() }
    }

    /// Takes some steps. Returns false if they are not left; then no steps are left at all.
    pub fn take(&self, n: usize) -> bool {
        let mut is_left = true;
        for left in [&self.own, &self.all] {
            is_left &= left.get() > n;
            left.set(left.get().saturating_sub(n));
        }
        is_left
    }

    /// Takes the steps of some bytes.
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

/// The handling of keywords that cannot be compiled, and the names of those that were left out.
#[derive(Default)]
pub struct Effort {
    is_best: bool,
    /// JSON pointer of the schema within the schema of its tool.
    pub base: String,
    /// The keywords that are named, and the places of all that are left out.
    named: Vec<String>,
    omitted: HashSet<String>,
    pub steps: Steps,
    /// The reason why a keyword that the parser may reject is still in the schema.
    pub left: Option<Error>,
}

impl Effort {
    /// `is_best`: leaves out keywords that cannot be compiled, rather than fail.
    pub fn new(is_best: bool) -> Effort {
        Effort { is_best, ..Effort::default() }
    }

    /// The same with these steps.
    pub fn with(self, steps: Steps) -> Effort {
        Effort { steps, ..self }
    }

    /// Sets whether keywords are left out. Returns what was set before.
    pub fn replace_best(&mut self, is_best: bool) -> bool {
        std::mem::replace(&mut self.is_best, is_best)
    }

    /// Takes some steps for the schema at a place.
    ///
    /// # Errors
    /// `TooComplex` if there are no more, with the place.
    pub fn step(&self, n: usize, place: &str) -> Result<()> {
        self.steps.take(n);
        self.steps.check().map_err(|error| error.of(&format!("the grammar, {:?}", self.place(place))))
    }

    /// True if keywords are left out.
    pub fn is_best(&self) -> bool {
        self.is_best
    }

    /// Notes that a keyword is left out.
    ///
    /// # Errors
    /// `Unsupported` if every keyword has to be held, saying `why`.
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

    /// Returns the parser's error, or instead the reason why a keyword that the parser rejects was not rewritten.
    pub fn replaced(&mut self, error: Error) -> Error {
        let text = error.to_string();
        let is_left = ["oneOf constraints", "Unimplemented keys"].iter().any(|words| text.contains(words));
        self.left.take().filter(|_| is_left).unwrap_or(error)
    }

    /// The keywords that were left out; `None` if there are none.
    pub fn note(&self) -> Option<String> {
        let more = match self.omitted.len() - self.named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!self.named.is_empty()).then(|| self.named.join(", ") + &more)
    }
}
