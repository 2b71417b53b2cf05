//! Marks on the text of a conversation, which distinguish it from the template's text in the rendered result.
//!
//! A marked character is replaced by another one from Unicode's private planes: template operations that move
//! characters (join, slice, loops, filters such as `select`) preserve the mark automatically. Operations that examine a
//! text get it without marks, and their result is marked as a whole if the origin of its characters is unknown
//! (`template/marks.rs`). Marks preserve the order of characters, so sorting needs no special care.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result, secured};

const PLANES: [std::ops::RangeInclusive<char>; 2] = ['\u{F0000}'..='\u{FFFFD}', '\u{100000}'..='\u{10FFFD}'];
/// First UTF-8 byte of every mark. Few other characters begin with it, so it is a fast first test.
const LEAD: u8 = 0xF3;

/// The characters that may be marked, and their replacements; both in ascending order.
#[derive(Debug)]
pub struct Marks {
    plain: Vec<char>,
    marked: Vec<char>,
}

impl Marks {
    /// Marks for the characters of `texts` (in upper and lower case) and of `source`; none of them may be a mark
    /// itself.
    ///
    /// # Errors
    /// `InvalidArgument` for more distinct characters than the private planes have.
    pub fn new<'t>(source: &str, texts: impl Iterator<Item = &'t str>) -> Result<Marks> {
        let mut plain: BTreeSet<char> = source.chars().chain('\0'..='\x7f').collect();
        for c in texts.flat_map(str::chars) {
            if !c.is_ascii() && plain.insert(c) {
                plain.extend(c.to_uppercase().chain(c.to_lowercase()));
            }
        }
        let free = PLANES.into_iter().flatten().filter(|c| !plain.contains(c));
        let marked: Vec<char> = free.take(plain.len()).collect();
        if marked.len() < plain.len() {
            return Err(Error::invalid(format!(
                "{} distinct characters in a conversation, at most {} are supported",
                plain.len(),
                marked.len()
            )));
        }
        Ok(Marks { plain: plain.into_iter().collect(), marked })
    }

    pub fn mark_char(&self, c: char) -> char {
        self.plain.binary_search(&c).map_or(c, |i| self.marked[i])
    }

    pub fn mark(&self, text: &str) -> String {
        text.chars().map(|c| if self.is_mark(c) { c } else { self.mark_char(c) }).collect()
    }

    pub fn is_mark(&self, c: char) -> bool {
        c >= *PLANES[0].start() && self.marked.binary_search(&c).is_ok()
    }

    pub fn has_marks(&self, text: &str) -> bool {
        text.bytes().any(|b| b >= LEAD) && text.chars().any(|c| self.is_mark(c))
    }

    pub fn unmark_char(&self, c: char) -> char {
        if c < *PLANES[0].start() {
            return c;
        }
        self.marked.binary_search(&c).map_or(c, |i| self.plain[i])
    }

    pub fn unmark<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.has_marks(text) {
            true => Cow::Owned(text.chars().map(|c| self.unmark_char(c)).collect()),
            false => Cow::Borrowed(text),
        }
    }
}

/// A text with some marked characters.
pub struct MarkedText {
    pub text: String,
    pub marks: Arc<Marks>,
}

impl MarkedText {
    pub fn plain(&self) -> Result<String> {
        secured("the chat", 8 * self.text.len(), || Ok(self.marks.unmark(&self.text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_off_and_keep_the_order() {
        let texts = ["a\u{F0000}ßé日\u{10FFFD}", "<|im_end|>"];
        let marks = Marks::new("{{ '\u{F0001}' }}", texts.into_iter()).unwrap();
        for text in texts {
            let marked = marks.mark(text);
            assert!(marked.chars().all(|c| marks.is_mark(c)));
            assert_eq!(marks.unmark(&marked), text);
            assert_eq!(marks.mark(&marked), marked);
        }
        assert!(!marks.has_marks("plain \u{F0001}"));
        let (small, large) = (marks.mark_char('a'), marks.mark_char('日'));
        assert!(small < large);
        assert_eq!(marks.unmark(&marks.mark("SSÉ")), "SSÉ");
    }

    #[test]
    fn too_many_characters_are_refused() {
        let all: String = ('\0'..=char::MAX).collect();
        assert!(Marks::new("", [all.as_str()].into_iter()).is_err());
    }
}
