//! GBNF, the grammars of llama.cpp, in the Lark dialect that the parser reads. What reaches no recursion becomes
//! regular expressions, as long as they can be, because the parser reads texts lexeme by lexeme; the longest match
//! counts.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Levels of parentheses, and of rules within rules.
const MAX_DEPTH: usize = 200;
/// Longest regular expression that rules are joined to, in bytes of all of them together.
const MAX_REGEX: usize = 128 << 10;

enum Part {
    /// A regular expression for one character, or for the characters of a literal.
    Text(String),
    Rule(String),
    All(Vec<Part>),
    Any(Vec<Part>),
    /// The text after a repeated part: `*`, `{2,3}`.
    Repeat(Box<Part>, String),
}

/// Digits of a number of repetitions.
const MAX_DIGITS: usize = 7;

/// A grammar in Lark.
///
/// # Errors
/// `InvalidArgument` saying where it cannot be read, `Unsupported` for tokens in it, `TooComplex` beyond the bounds.
pub fn to_lark(text: &str) -> Result<String> {
    let rules = Reader { text, at: 0 }.rules()?;
    let mut writer =
        Writer { rules: &rules, regular: BTreeMap::new(), lark: String::new(), terminals: 0, left: MAX_REGEX };
    for name in rules.keys() {
        writer.find_regular(name, 0)?;
    }
    if !rules.contains_key("root") {
        return Err(Error::invalid("the GBNF grammar has no rule \"root\""));
    }
    let start = writer.part(&Part::Rule("root".to_owned()), 0)?;
    for (name, part) in &rules {
        if !writer.is_regular(&Part::Rule(name.clone())) {
            let body = writer.part(part, 0)?;
            writer.lark.push_str(&format!("{}: {body}\n", rule_name(name)));
        }
    }
    Ok(format!("start: {start}\n{}", writer.lark))
}

/// Names in Lark have lower case and no dashes.
fn rule_name(name: &str) -> String {
    let bytes = name.bytes().map(|b| {
        if b.is_ascii_lowercase() || b.is_ascii_digit() { char::from(b).to_string() } else { format!("_{b:02x}_") }
    });
    format!("r_{}", bytes.collect::<String>())
}

struct Writer<'r> {
    rules: &'r BTreeMap<String, Part>,
    /// False for rules that reach themselves or one that does.
    regular: BTreeMap<&'r str, bool>,
    /// Rules and terminals written so far.
    lark: String,
    terminals: usize,
    /// Bytes of regular expressions that may still be made.
    left: usize,
}

impl<'r> Writer<'r> {
    fn rule(&self, name: &str) -> Result<&'r Part> {
        self.rules.get(name).ok_or_else(|| Error::invalid(format!("the GBNF grammar has no rule {name:?}")))
    }

    /// Notes which of a rule and those that it uses are regular.
    fn find_regular(&mut self, name: &'r str, depth: usize) -> Result<bool> {
        check_depth(depth)?;
        if let Some(&known) = self.regular.get(name) {
            return Ok(known);
        }
        // Until it is known otherwise: where it is met again on the way it is not.
        self.regular.insert(name, false);
        let (mut used, mut is_regular) = (Vec::new(), true);
        names(self.rule(name)?, &mut used);
        for name in used {
            is_regular &= self.find_regular(name, depth + 1)?;
        }
        self.regular.insert(name, is_regular);
        Ok(is_regular)
    }

    fn is_regular(&self, part: &Part) -> bool {
        let mut used = Vec::new();
        names(part, &mut used);
        used.iter().all(|name| self.regular.get(name) == Some(&true))
    }

    fn regex(&mut self, part: &Part, depth: usize) -> Result<String> {
        check_depth(depth)?;
        let regex = match part {
            Part::Text(text) => text.clone(),
            Part::Rule(name) => format!("(?:{})", self.regex(self.rule(name)?, depth + 1)?),
            Part::All(parts) => parts.iter().map(|part| self.regex(part, depth + 1)).collect::<Result<_>>()?,
            Part::Any(parts) => {
                let parts = parts.iter().map(|part| self.regex(part, depth + 1)).collect::<Result<Vec<_>>>()?;
                format!("(?:{})", parts.join("|"))
            }
            Part::Repeat(part, times) => format!("(?:{}){times}", self.regex(part, depth + 1)?),
        };
        self.left = self.left.checked_sub(regex.len()).ok_or_else(|| {
            Error::TooComplex(format!("the GBNF grammar becomes expressions of more than {MAX_REGEX} bytes"))
        })?;
        Ok(regex)
    }

    /// The terminal of a regular expression, optional where that matches the empty text.
    fn terminal(&mut self, regex: &str) -> Result<String> {
        if regex.is_empty() {
            return Ok("\"\"".to_owned());
        }
        let judge = regex_automata::meta::Regex::new(&format!("^(?:{regex})$"));
        let judge = judge.map_err(|e| Error::TooComplex(format!("the GBNF grammar: {e}")))?;
        let name = format!("T{}", self.terminals);
        self.terminals += 1;
        let is_optional = judge.is_match("");
        let not_empty = if is_optional { " & /(?s:.+)/" } else { "" };
        self.lark.push_str(&format!("{name}: /{regex}/{not_empty}\n"));
        Ok(if is_optional { format!("{name}?") } else { name })
    }

    fn part(&mut self, part: &Part, depth: usize) -> Result<String> {
        check_depth(depth)?;
        if self.is_regular(part) {
            let regex = self.regex(part, depth)?;
            return self.terminal(&regex);
        }
        Ok(match part {
            Part::Rule(name) => rule_name(name),
            Part::All(parts) => {
                let (mut out, mut i) = (Vec::new(), 0);
                while i < parts.len() {
                    let n = parts[i..].iter().take_while(|part| self.is_regular(part)).count();
                    if n > 0 {
                        let regexes =
                            parts[i..i + n].iter().map(|part| self.regex(part, depth)).collect::<Result<String>>()?;
                        out.push(self.terminal(&regexes)?);
                    } else {
                        out.push(self.part(&parts[i], depth + 1)?);
                    }
                    i += n.max(1);
                }
                out.join(" ")
            }
            Part::Any(parts) => {
                let parts = parts.iter().map(|part| self.part(part, depth + 1)).collect::<Result<Vec<_>>>()?;
                format!("({})", parts.join(" | "))
            }
            Part::Repeat(part, times) => format!("({}){times}", self.part(part, depth + 1)?),
            Part::Text(_) => String::new(),
        })
    }
}

fn check_depth(depth: usize) -> Result<()> {
    match depth {
        0..MAX_DEPTH => Ok(()),
        _ => Err(Error::TooComplex(format!("a GBNF grammar nested more than {MAX_DEPTH} deep"))),
    }
}

fn names<'p>(part: &'p Part, out: &mut Vec<&'p str>) {
    match part {
        Part::Text(_) => {}
        Part::Rule(name) => out.push(name),
        Part::All(parts) | Part::Any(parts) => parts.iter().for_each(|part| names(part, out)),
        Part::Repeat(part, _) => names(part, out),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rules(mut self) -> Result<BTreeMap<String, Part>> {
        let mut rules = BTreeMap::new();
        self.space(true);
        while !self.rest().is_empty() {
            let name = self.name()?;
            self.space(false);
            self.expect("::=")?;
            self.space(true);
            let part = self.any(0)?;
            if rules.insert(name.to_owned(), part).is_some() {
                return Err(self.wrong(&format!("a second rule {name:?}")));
            }
            self.space(true);
        }
        Ok(rules)
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
        Error::invalid(format!("the GBNF grammar, line {line}: {what}"))
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

    fn any(&mut self, depth: usize) -> Result<Part> {
        check_depth(depth)?;
        let mut parts = vec![self.all(depth)?];
        while self.takes("|") {
            self.space(true);
            parts.push(self.all(depth)?);
        }
        Ok(Part::Any(parts))
    }

    fn all(&mut self, depth: usize) -> Result<Part> {
        let mut parts = Vec::new();
        loop {
            self.space(depth > 0);
            let part = match self.rest().chars().next() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.at += 1;
                    Part::Text("(?s:.)".to_owned())
                }
                Some('(') => {
                    self.at += 1;
                    let part = self.any(depth + 1)?;
                    self.expect(")")?;
                    part
                }
                Some('<' | '!') => return Err(Error::unsupported("tokens in a GBNF grammar")),
                Some(c) if c.is_ascii_alphanumeric() || c == '-' || c == '_' => {
                    let start = self.at;
                    let name = self.name()?;
                    // The next rule.
                    self.space(false);
                    if depth == 0 && self.rest().starts_with("::=") {
                        self.at = start;
                        return Err(self.wrong("a rule begins in the line of another"));
                    }
                    Part::Rule(name.to_owned())
                }
                _ => return Ok(Part::All(parts)),
            };
            parts.push(self.repeated(part)?);
        }
    }

    fn repeated(&mut self, mut part: Part) -> Result<Part> {
        loop {
            let at = self.at;
            self.space(false);
            let rest = self.rest();
            let len = match rest.chars().next() {
                Some('*' | '+' | '?') => 1,
                Some('{') => rest.find('}').ok_or_else(|| self.wrong("a \"{\" without \"}\""))? + 1,
                _ => {
                    self.at = at;
                    return Ok(part);
                }
            };
            let times: String = rest[..len].chars().filter(|c| !c.is_whitespace()).collect();
            if let Some(counts) = times.strip_prefix('{').and_then(|counts| counts.strip_suffix('}')) {
                let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
                let is_count = |n: &str| n.bytes().all(|b| b.is_ascii_digit());
                if least.is_empty() || !is_count(least) || !is_count(most) {
                    return Err(self.wrong(&format!("{times:?} is no number of repetitions")));
                }
                if least.len().max(most.len()) > MAX_DIGITS {
                    return Err(Error::TooComplex(format!("the GBNF grammar repeats {times} times")));
                }
                if !most.is_empty() && least.parse::<u32>().ok() > most.parse().ok() {
                    return Err(self.wrong(&format!("{times:?} is no range of repetitions")));
                }
            }
            self.at += len;
            part = Part::Repeat(Box::new(part), times);
        }
    }

    fn literal(&mut self) -> Result<Part> {
        self.at += 1;
        let mut regex = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.wrong("a text without its end")),
                Some('"') => return Ok(Part::Text(regex)),
                Some(c) => regex.push_str(&escaped(self.character(c)?)),
            }
        }
    }

    fn class(&mut self) -> Result<Part> {
        self.at += 1;
        let mut regex = if self.takes("^") { "[^".to_owned() } else { "[".to_owned() };
        let mut is_empty = true;
        loop {
            let c = match self.next() {
                None | Some('\n') => return Err(self.wrong("a \"[\" without \"]\"")),
                Some(']') if is_empty => return Err(self.wrong("an empty set of characters")),
                Some(']') => return Ok(Part::Text(regex + "]")),
                Some(c) => self.character(c)?,
            };
            is_empty = false;
            regex.push_str(&escaped(c));
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                let end = self.next().ok_or_else(|| self.wrong("a \"[\" without \"]\""))?;
                let end = self.character(end)?;
                if end < c {
                    return Err(self.wrong(&format!("the range from {c:?} to {end:?}")));
                }
                regex.push_str(&format!("-{}", escaped(end)));
            }
        }
    }

    /// The character that `c` and what follows stand for.
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
            _ => return Err(self.wrong("an unknown escape")),
        };
        let code = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
        self.at += digits;
        code.ok_or_else(|| self.wrong("an escape that is no character"))
    }
}

/// A regular expression for one character, in a set too.
pub fn escaped(c: char) -> String {
    // An escaped angle bracket is the border of a word.
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
