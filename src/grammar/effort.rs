//! Handles keywords that no grammar can enforce: they either fail the grammar, or are left out and named.

use crate::error::{Error, Result};

/// Most keywords that are named in one note.
const MAX_NAMED: usize = 8;
/// Most characters of a place that is named.
const MAX_PLACE: usize = 100;

/// The handling of keywords that cannot be compiled, and the names of those that were left out.
#[derive(Default)]
pub struct Effort {
    is_best: bool,
    /// JSON pointer of the schema within the schema of its tool.
    pub base: String,
    omitted: Vec<String>,
    /// The reason why a keyword that the parser may reject is still in the schema.
    pub left: Option<Error>,
}

impl Effort {
    /// `is_best`: leaves out keywords that cannot be compiled, rather than fail.
    pub fn new(is_best: bool) -> Effort {
        Effort { is_best, ..Effort::default() }
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
        if !self.omitted.contains(&keyword) {
            self.omitted.push(keyword);
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
        let named: Vec<&str> = self.omitted.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = match self.omitted.len() - named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!named.is_empty()).then(|| named.join(", ") + &more)
    }
}
