//! Translates GBNF, llama.cpp's grammars, to the parser's Lark dialect. Non-recursive parts become regular expressions,
//! as long as possible, because the parser works lexeme by lexeme with the longest match; `lexemes` splits those that
//! would consume characters of what follows.

mod automaton;
mod lexemes;
mod order;
mod rules;

use std::collections::BTreeMap;

use crate::error::{Error, Result};

use rules::{Class, Id, Part, Rules, Times, check_depth};

/// Maximum digits of a repetition count.
const MAX_DIGITS: usize = 7;

/// Translates a grammar to Lark.
///
/// # Errors
/// `InvalidArgument` with the position of a syntax error, `Unsupported` for tokens in it, `TooComplex` beyond the
/// bounds.
pub fn to_lark(text: &str) -> Result<String> {
    let rules = Reader { text, at: 0, parts: Vec::new(), heights: Vec::new() }.rules()?;
    lexemes::to_lark(&rules)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    parts: Vec<Part>,
    /// Nesting depth of each part.
    heights: Vec<usize>,
}

impl<'t> Reader<'t> {
    fn rules(mut self) -> Result<Rules> {
        let mut by_name = BTreeMap::new();
        self.space(true);
        while !self.rest().is_empty() {
            let name = self.name()?;
            self.space(false);
            self.expect("::=")?;
            self.space(true);
            let part = self.any(0)?;
            if by_name.insert(name.to_owned(), part).is_some() {
                return Err(self.wrong(&format!("{name:?} is the name of a second rule; it must be that of one")));
            }
            self.space(true);
        }
        Ok(Rules { parts: self.parts, by_name })
    }

    /// Adds a part; a sequence or alternative of one part is that part.
    fn add(&mut self, part: Part) -> Result<Id> {
        let height = match &part {
            Part::All(parts) | Part::Any(parts) if parts.len() == 1 => return Ok(parts[0]),
            Part::All(parts) | Part::Any(parts) => parts.iter().map(|part| self.heights[*part]).max().unwrap_or(0),
            Part::Repeat(part, _) => self.heights[*part],
            Part::Class(_) | Part::Rule(_) => 0,
        };
        check_depth(height)?;
        self.parts.push(part);
        self.heights.push(height + 1);
        Ok(self.parts.len() - 1)
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn wrong(&self, what: &str) -> Error {
        let line = self.text[..self.at.min(self.text.len())].matches('\n').count() + 1;
        Error::invalid(format!("line {line} of the GBNF grammar: {what}"))
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.takes(text) { Ok(()) } else { Err(self.wrong(&format!("{text:?} is missing"))) }
    }

    fn space(&mut self, lines: bool) {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '#' => self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()),
                ' ' | '\t' => self.at += 1,
                '\n' | '\r' if lines => self.at += 1,
                _ => break,
            }
        }
    }

    fn name(&mut self) -> Result<&'t str> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let len = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
        let name = &self.rest()[..len];
        self.at += len;
        if name.is_empty() { Err(self.wrong("the name of a rule is missing")) } else { Ok(name) }
    }

    fn any(&mut self, depth: usize) -> Result<Id> {
        check_depth(depth)?;
        let mut parts = vec![self.all(depth)?];
        while self.takes("|") {
            self.space(true);
            parts.push(self.all(depth)?);
        }
        self.add(Part::Any(parts))
    }

    fn all(&mut self, depth: usize) -> Result<Id> {
        let mut parts = Vec::new();
        loop {
            self.space(depth > 0);
            let part = match self.rest().chars().next() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.at += 1;
                    let regex = "(?s:.)".to_owned();
                    self.add(Part::Class(Class { regex, ranges: vec![(0, u32::from(char::MAX))] }))?
                }
                Some('(') => {
                    self.at += 1;
                    let part = self.any(depth + 1)?;
                    self.expect(")")?;
                    part
                }
                Some('<' | '!') => {
                    return Err(Error::unsupported("the GBNF grammar has tokens; they are not supported"));
                }
                Some(c) if c.is_ascii_alphanumeric() || c == '-' || c == '_' => {
                    let start = self.at;
                    let name = self.name()?;
                    // The next rule.
                    self.space(false);
                    if depth == 0 && self.rest().starts_with("::=") {
                        self.at = start;
                        return Err(self.wrong("a rule begins in the line of another"));
                    }
                    self.add(Part::Rule(name.to_owned()))?
                }
                _ => return self.add(Part::All(parts)),
            };
            parts.push(self.repeated(part)?);
        }
    }

    fn repeated(&mut self, mut part: Id) -> Result<Id> {
        loop {
            let at = self.at;
            self.space(false);
            let rest = self.rest();
            let len = match rest.chars().next() {
                Some('*' | '+' | '?') => 1,
                Some('{') => rest.find('}').ok_or_else(|| self.wrong("\"{\" has no \"}\""))? + 1,
                _ => {
                    self.at = at;
                    return Ok(part);
                }
            };
            let times: String = rest[..len].chars().filter(|c| !c.is_whitespace()).collect();
            let (mut least, mut most) = (u32::from(times == "+"), (times == "?").then_some(1));
            if let Some(counts) = times.strip_prefix('{').and_then(|counts| counts.strip_suffix('}')) {
                let (first, last) = counts.split_once(',').unwrap_or((counts, counts));
                let is_count = |n: &str| n.bytes().all(|b| b.is_ascii_digit());
                if first.is_empty() || !is_count(first) || !is_count(last) {
                    return Err(self.wrong(&format!("{times:?} is no number of repetitions")));
                }
                if first.len().max(last.len()) > MAX_DIGITS {
                    return Err(Error::TooComplex(format!(
                        "the GBNF grammar has {} repetitions; a number of them must have at most {MAX_DIGITS} digits",
                        times.chars().take(40).collect::<String>()
                    )));
                }
                (least, most) = (first.parse().unwrap_or(0), last.parse().ok());
                if most.is_some_and(|most| least > most) {
                    return Err(self.wrong(&format!("{times:?} is no range of repetitions")));
                }
            }
            self.at += len;
            part = self.add(Part::Repeat(part, Times { text: times, least, most }))?;
        }
    }

    fn literal(&mut self) -> Result<Id> {
        self.at += 1;
        let mut parts = Vec::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.wrong("the text has no end")),
                Some('"') => return self.add(Part::All(parts)),
                Some(c) => {
                    let c = self.character(c)?;
                    let ranges = vec![(u32::from(c), u32::from(c))];
                    parts.push(self.add(Part::Class(Class { regex: escaped(c), ranges }))?);
                }
            }
        }
    }

    fn class(&mut self) -> Result<Id> {
        self.at += 1;
        let is_other = self.takes("^");
        let (mut regex, mut ranges) = (if is_other { "[^".to_owned() } else { "[".to_owned() }, Vec::new());
        loop {
            let c = match self.next() {
                None | Some('\n') => return Err(self.wrong("\"[\" has no \"]\"")),
                Some(']') if ranges.is_empty() => return Err(self.wrong("a set of characters is empty")),
                Some(']') => {
                    let ranges = united(ranges, is_other);
                    return self.add(Part::Class(Class { regex: regex + "]", ranges }));
                }
                Some(c) => self.character(c)?,
            };
            ranges.push((u32::from(c), u32::from(c)));
            regex.push_str(&escaped(c));
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                let end = self.next().ok_or_else(|| self.wrong("\"[\" has no \"]\""))?;
                let end = self.character(end)?;
                if end < c {
                    return Err(self.wrong(&format!("the range from {c:?} to {end:?} ends before it begins")));
                }
                ranges.push((u32::from(c), u32::from(end)));
                regex.push_str(&format!("-{}", escaped(end)));
            }
        }
    }

    /// Returns the character that `c` and the following ones denote.
    fn character(&mut self, c: char) -> Result<char> {
        if c != '\\' {
            return Ok(c);
        }
        let digits = match self.next() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^')) => return Ok(c),
            _ => return Err(self.wrong("an escape is unknown")),
        };
        let code = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
        self.at += digits;
        code.ok_or_else(|| self.wrong("an escape is no character"))
    }
}

/// Merged ranges, in order; `is_other`: the complement.
fn united(mut ranges: Vec<(u32, u32)>, is_other: bool) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => out.push((first, last)),
        }
    }
    if !is_other {
        return out;
    }
    let starts = std::iter::once(0).chain(out.iter().map(|(_, last)| last + 1));
    let ends = out.iter().map(|(first, _)| first.checked_sub(1)).chain([Some(u32::from(char::MAX))]);
    starts.zip(ends).filter_map(|(start, end)| Some((start, end?))).filter(|(start, end)| start <= end).collect()
}

/// Returns a regular expression for one character, also valid in a set.
pub fn escaped(c: char) -> String {
    // An escaped angle bracket is a word boundary.
    if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
        format!("\\{c}")
    } else if c.is_control() {
        format!("\\x{{{:x}}}", u32::from(c))
    } else {
        c.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, word) in [
            ("", "root"),
            ("root ::= a", "\"a\""),
            ("root \"a\"", "::="),
            ("root ::= \"a", "line 1"),
            ("root ::= \"a\"\nx ::= [", "line 2"),
            ("root ::= [b-a]", "range"),
            ("root ::= \"a\"{x}", "repetitions"),
            ("root ::= (\"a\"", "\")\""),
            ("root ::= \"\\q\"", "escape"),
            ("root ::= <think>", "tokens"),
            ("root ::= \"a\"\nroot ::= \"b\"", "second"),
        ] {
            let error = to_lark(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(to_lark(&format!("root ::= {}", "(".repeat(100_000))).is_err());
        let doubling: String = (0..40).map(|i| format!("a{i} ::= a{0} a{0}\n", i + 1)).collect();
        assert!(matches!(to_lark(&format!("root ::= a0\n{doubling}a40 ::= \"x\"")), Err(Error::TooComplex(_))));
    }
}
