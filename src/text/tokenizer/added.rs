//! Added tokens, found in a text as a whole before any other processing: `<|im_end|>` in a rendered chat, or a run of
//! tabs that is one token. The leftmost, then longest match wins.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::error::{Error, Result};
use crate::text::tokenizer::vocab::reserve;

/// Maximum bytes of all texts; the automaton takes about fifty times as much.
const MAX_BYTES: usize = 4 << 20;

/// Maximum bytes of a text, the look-ahead of a search after each match; published texts have up to a hundred.
const MAX_TOKEN: usize = 512;

/// A token found as a whole, and its conditions.
#[derive(Clone, Debug, Default)]
pub struct WholeToken {
    pub id: u32,
    /// True if found only where special tokens are parsed.
    pub control: bool,
    /// True if the token absorbs the white space before it (`lstrip`), or after it (`rstrip`).
    pub lstrip: bool,
    pub rstrip: bool,
    /// True if not found inside a word.
    pub single_word: bool,
}

/// A part of a text: text without such tokens, with its offset, or a token.
pub enum TextOrToken<'t> {
    Text(&'t str, usize),
    Token(u32),
}

/// The search for all added tokens of a vocabulary.
#[derive(Default)]
pub struct Added {
    any: Option<Automaton>,
    /// Without the control tokens.
    text: Option<Automaton>,
}

struct Automaton {
    find: AhoCorasick,
    tokens: Vec<WholeToken>,
}

impl Added {
    /// Takes texts and their tokens; the first of equal texts counts. Empty and non-UTF-8 texts are never found.
    pub fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], WholeToken)> + Clone) -> Result<Added> {
        let (mut total, mut any_control) = (0, false);
        for (text, token) in tokens.clone() {
            total += text.len();
            any_control |= token.control;
            if text.len() > MAX_TOKEN {
                let (id, len) = (token.id, text.len());
                let what = format!("the special token {id} of {len} bytes, at most {MAX_TOKEN} are supported");
                return Err(Error::unsupported(what));
            }
        }
        if total > MAX_BYTES {
            return Err(Error::unsupported(format!(
                "special tokens of {total} bytes in all, at most {MAX_BYTES} are supported"
            )));
        }
        let text = Automaton::new(tokens.clone().filter(|(_, t)| !t.control))?;
        let any = if any_control { Automaton::new(tokens)? } else { None };
        Ok(Added { any, text })
    }

    /// Calls `each` for the parts of a text in order; finds control tokens only if `parse_special` is set.
    pub fn split<'t>(
        &self,
        text: &'t str,
        parse_special: bool,
        each: impl FnMut(TextOrToken<'t>) -> Result<()>,
    ) -> Result<()> {
        let automaton = if parse_special { self.any.as_ref().or(self.text.as_ref()) } else { self.text.as_ref() };
        Added::split_at(automaton, text, |_| true, |c| c, each)
    }

    /// Calls `each` for the parts of a text between control tokens. `plain` maps a character to its unmarked form.
    pub fn split_control<'t>(
        &self,
        text: &'t str,
        plain: impl Fn(char) -> char,
        each: impl FnMut(TextOrToken<'t>) -> Result<()>,
    ) -> Result<()> {
        Added::split_at(self.any.as_ref(), text, |token| token.control, plain, each)
    }

    fn split_at<'t>(
        automaton: Option<&Automaton>,
        text: &'t str,
        wanted: impl Fn(&WholeToken) -> bool,
        plain: impl Fn(char) -> char,
        mut each: impl FnMut(TextOrToken<'t>) -> Result<()>,
    ) -> Result<()> {
        let (is_space, is_word) = (|c| plain(c).is_whitespace(), |c| is_word(plain(c)));
        let mut at = 0;
        for found in
            automaton.iter().flat_map(|a| a.find.find_iter(text).map(|m| (m, &a.tokens[m.pattern().as_usize()])))
        {
            let (m, token) = found;
            let (before, after) = (&text[..m.start()], &text[m.end()..]);
            let inside = token.single_word && (before.ends_with(is_word) || after.starts_with(is_word));
            if !wanted(token) || m.start() < at || inside {
                continue;
            }
            let start =
                if token.lstrip { at + text[at..m.start()].trim_end_matches(is_space).len() } else { m.start() };
            let end = if token.rstrip { text.len() - after.trim_start_matches(is_space).len() } else { m.end() };
            if start > at {
                each(TextOrToken::Text(&text[at..start], at))?;
            }
            each(TextOrToken::Token(token.id))?;
            at = end;
        }
        if at < text.len() { each(TextOrToken::Text(&text[at..], at)) } else { Ok(()) }
    }
}

impl Automaton {
    /// `None` for no tokens.
    fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], WholeToken)>) -> Result<Option<Automaton>> {
        let (mut texts, mut list) = (Vec::new(), Vec::new());
        for (text, token) in tokens.filter(|(text, _)| !text.is_empty() && std::str::from_utf8(text).is_ok()) {
            reserve(&mut texts, 1)?;
            reserve(&mut list, 1)?;
            texts.push(text);
            list.push(token);
        }
        if texts.is_empty() {
            return Ok(None);
        }
        // The crate's own choice, a DFA for few patterns, takes quadratic time in the length of a repeated character.
        let find = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|e| Error::unsupported(format!("cannot find the special tokens of this vocabulary: {e}")))?;
        Ok(Some(Automaton { find, tokens: list }))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(added: &Added, text: &str, parse_special: bool) -> Vec<String> {
        let mut out = Vec::new();
        added
            .split(text, parse_special, |part| {
                out.push(match part {
                    TextOrToken::Text(t, at) => format!("{at}:{t}"),
                    TextOrToken::Token(id) => format!("#{id}"),
                });
                Ok(())
            })
            .unwrap();
        out
    }

    #[test]
    fn the_longest_token_wins_and_control_tokens_need_permission() {
        let tokens: [(&[u8], WholeToken); 5] = [
            (b"<s>", WholeToken { id: 1, control: true, ..Default::default() }),
            (b"  ", WholeToken { id: 2, ..Default::default() }),
            (b"    ", WholeToken { id: 3, ..Default::default() }),
            (b"", WholeToken { id: 4, ..Default::default() }),
            (b"\x80", WholeToken { id: 5, ..Default::default() }),
        ];
        let added = Added::new(tokens.iter().map(|(text, t)| (*text, t.clone()))).unwrap();
        assert_eq!(parts(&added, "a<s>     b\u{100}", true), ["0:a", "#1", "#3", "8: b\u{100}"]);
        assert_eq!(parts(&added, "a<s>     b", false), ["0:a<s>", "#3", "8: b"]);
        assert!(parts(&added, "", true).is_empty());
        assert_eq!(parts(&Added::default(), "a", true), ["0:a"]);
    }

    /// Neither a long text nor many with a common prefix make construction slow, and the search is fast.
    #[test]
    fn texts_that_repeat_themselves_cost_little() {
        let search = |texts: Vec<String>| {
            let token = |id| WholeToken { id, control: true, lstrip: true, ..WholeToken::default() };
            let texts: Vec<_> = texts.iter().zip(0..).map(|(text, id)| (text.as_bytes(), token(id))).collect();
            let started = std::time::Instant::now();
            let added = Added::new(texts.iter().cloned());
            (added, started.elapsed().as_secs_f64())
        };
        let long = |n: usize| "a".repeat(n);
        let refusal = search(vec![long(2), long(16_000)]).0.err().unwrap().to_string();
        assert!(refusal.contains("the special token 1 of 16000 bytes"), "{refusal}");
        for texts in [
            vec![long(MAX_TOKEN); 90],
            (0..MAX_BYTES / MAX_TOKEN).map(|i| format!("{}{i:08}", long(MAX_TOKEN - 8))).collect(),
            (1..=MAX_TOKEN).map(long).collect(),
        ] {
            let (n, (added, seconds)) = (texts.len(), search(texts));
            assert!(added.is_ok() && seconds < 10.0, "{n} texts: {seconds} s");
        }
        let started = std::time::Instant::now();
        let (added, _) = search(vec!["a".to_owned(), long(MAX_TOKEN - 1) + "b", "\n".to_owned()]);
        let added = added.unwrap();
        assert_eq!(parts(&added, &long(100_000), true).len(), 100_000);
        // Each token absorbs the white space before it, which is the previous token.
        assert_eq!(parts(&added, &"\n".repeat(200_000), true).len(), 200_000);
        assert!(started.elapsed().as_secs_f64() < 20.0, "{:?}", started.elapsed());
    }

    #[test]
    fn white_space_and_words_around_a_token() {
        let tokens: [(&[u8], WholeToken); 3] = [
            (b"<l>", WholeToken { id: 1, lstrip: true, ..Default::default() }),
            (b"<r>", WholeToken { id: 2, rstrip: true, ..Default::default() }),
            (b"word", WholeToken { id: 3, single_word: true, ..Default::default() }),
        ];
        let added = Added::new(tokens.iter().map(|(text, t)| (*text, t.clone()))).unwrap();
        assert_eq!(parts(&added, "a <l> b", true), ["0:a", "#1", "5: b"]);
        assert_eq!(parts(&added, "a <r> \n <l>b", true), ["0:a ", "#2", "#1", "11:b"]);
        assert_eq!(parts(&added, "words a word", true), ["0:words a ", "#3"]);
    }
}
