//! Translates `pattern` of JSON schemas for llguidance ("the parser"). Patterns are ECMA-262 regular expressions, read
//! by code points as with the flag `u`, or without it if invalid with it. The parser takes the syntax of the crate
//! `regex-syntax`, but quotes some character sets incorrectly.

use llguidance::regex_to_lark;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

use crate::error::{Error, Result};

/// A character that no pattern's text needs, and that JSON must escape.
const SPARE: char = '\u{1}';
/// Maximum nesting of groups.
const MAX_DEPTH: usize = 150;

const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";

/// A translated pattern.
pub struct Pattern {
    pub text: String,
    /// ECMA-262 patterns that must match too: the pattern's leading look-ahead assertions.
    pub ahead: Vec<String>,
    /// Why the translation accepts more than the given pattern.
    pub weaker: Option<&'static str>,
}

/// Returns the number of steps for reading a pattern. Unicode properties are hundreds of ranges.
pub fn cost(pattern: &str) -> usize {
    1 + pattern.len() / 16 + 50 * pattern.matches("\\p{").count() + 50 * pattern.matches("\\P{").count()
}

/// Translates a pattern. `is_weak`: omits constructs that the parser does not support, so that the result accepts more.
///
/// # Errors
/// `InvalidArgument` for an invalid pattern, `Unsupported` for unsupported constructs, `TooComplex` for too many
/// levels.
pub fn prepared(pattern: &str, is_weak: bool) -> Result<Pattern> {
    let chars: Vec<char> = pattern.chars().collect();
    let (n_groups, has_names) = groups(&chars);
    let mut reader = Reader {
        chars: &chars,
        at: 0,
        out: String::new(),
        ahead: Vec::new(),
        weaker: None,
        n_groups,
        has_names,
        dot_all: false,
        any_case: false,
    };
    // Not in ECMA-262, but common: a flag for the whole pattern.
    reader.any_case = reader.takes("(?i)");
    reader.any(0)?;
    if reader.at < chars.len() {
        return Err(reader.wrong("\")\" closes nothing"));
    }
    let Reader { out, ahead, weaker, .. } = reader;
    let text = match regex_syntax::parse(&regex_to_lark(&out, "")) {
        Ok(tree) if is_quoted_wrong(&tree) => without_spare(tree).to_string(),
        _ => out,
    };
    match weaker.filter(|_| !is_weak) {
        Some(why) => Err(Error::unsupported(why)),
        None => Ok(Pattern { text, ahead, weaker }),
    }
}

/// Returns the number of capturing groups, and whether any is named.
fn groups(chars: &[char]) -> (usize, bool) {
    let (mut n, mut has_names, mut in_set, mut i) = (0, false, false, 0);
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 1,
            '[' => in_set = true,
            ']' => in_set = false,
            '(' if !in_set && chars.get(i + 1) != Some(&'?') => n += 1,
            '(' if !in_set && has_group_name(&chars[i + 1..]) => {
                n += 1;
                has_names = true;
            }
            _ => {}
        }
        i += 1;
    }
    (n, has_names)
}

/// True if a parenthesis is followed by a group name.
fn has_group_name(chars: &[char]) -> bool {
    match chars {
        ['?', '<', next, ..] => !matches!(next, '=' | '!'),
        ['?', 'P', '<', ..] => true,
        _ => false,
    }
}

struct Reader<'c> {
    chars: &'c [char],
    at: usize,
    /// The translation so far.
    out: String,
    ahead: Vec<String>,
    weaker: Option<&'static str>,
    n_groups: usize,
    has_names: bool,
    /// True if a dot matches line ends too.
    dot_all: bool,
    /// True if letters match in both cases.
    any_case: bool,
}

/// A part of a character set.
enum Member {
    Char(u32),
    /// A nested set, written as a part of a set.
    Set(String),
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    fn wrong(&self, what: &str) -> Error {
        Error::invalid(format!("the pattern is wrong at character {}: {what}", self.at))
    }

    fn weaken(&mut self, why: &'static str) {
        self.weaker.get_or_insert(why);
    }

    /// Reads alternatives, up to the closing parenthesis or the end.
    fn any(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::TooComplex(format!("the pattern is nested more than {MAX_DEPTH} deep")));
        }
        loop {
            while self.peek().is_some_and(|c| c != '|' && c != ')') {
                self.term(depth)?;
            }
            if !self.takes("|") {
                return Ok(());
            }
            if depth == 0 && !self.ahead.is_empty() {
                self.ahead.clear();
                self.weaken("look-ahead in some alternatives only is not supported");
            }
            self.out.push('|');
        }
    }

    fn term(&mut self, depth: usize) -> Result<()> {
        if self.takes("^") {
            self.out.push('^');
            return Ok(());
        }
        if self.takes("$") {
            self.out.push('$');
            return Ok(());
        }
        if self.takes("\\b") || self.takes("\\B") {
            self.weaken("borders of words are not supported");
            return Ok(());
        }
        for (open, is_leading) in [("(?=", self.out == "^"), ("(?!", false), ("(?<=", false), ("(?<!", false)] {
            if self.takes(open) {
                return self.look(depth, is_leading && depth == 0);
            }
        }
        let start = self.out.len();
        let is_group = self.peek() == Some('(');
        self.atom(depth)?;
        if self.any_case && !is_group {
            let atom = self.out.split_off(start);
            self.out.push_str(&format!("(?i:{atom})"));
        }
        self.repeated(start)
    }

    /// Reads a look-ahead or look-behind assertion.
    fn look(&mut self, depth: usize, is_leading: bool) -> Result<()> {
        let (len, start) = (self.out.len(), self.at);
        let weaker = self.weaker;
        self.any(depth + 1)?;
        let inner: String = self.chars[start..self.at].iter().collect();
        if !self.takes(")") {
            return Err(self.wrong("\"(\" is not closed"));
        }
        self.out.truncate(len);
        let is_repeated = self.peek().is_some_and(|c| "*+?{".contains(c));
        if is_leading && !is_repeated && self.weaker.is_none() {
            let flag = if self.any_case { "(?i)" } else { "" };
            self.ahead.push(format!("{flag}^(?:{inner})"));
        } else {
            self.weaker = weaker;
            self.weaken("look-around is not supported");
            if is_repeated {
                let len = self.out.len();
                self.out.push_str("(?:)");
                self.repeated(len)?;
            }
        }
        Ok(())
    }

    fn atom(&mut self, depth: usize) -> Result<()> {
        let Some(c) = self.peek() else { return Ok(()) };
        self.at += 1;
        match c {
            '(' => {
                let (dot_all, any_case) = (self.dot_all, self.any_case);
                if self.takes("?s:") {
                    self.dot_all = true;
                } else if self.takes("?i:") {
                    self.any_case = true;
                } else if self.takes("?") && !self.takes(":") {
                    // Python writes a P.
                    if !self.takes("<") && !self.takes("P<") {
                        return Err(self.wrong("the group is unknown"));
                    }
                    while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
                        self.at += 1;
                    }
                    if !self.takes(">") {
                        return Err(self.wrong("the name of a group is not closed"));
                    }
                }
                self.out.push_str("(?:");
                self.any(depth + 1)?;
                (self.dot_all, self.any_case) = (dot_all, any_case);
                if !self.takes(")") {
                    return Err(self.wrong("\"(\" is not closed"));
                }
                self.out.push(')');
            }
            '.' if self.dot_all => self.out.push_str(r"[\s\S]"),
            '.' => self.out.push_str(r"[^\x{a}\x{d}\x{2028}\x{2029}]"),
            '[' => self.set()?,
            '*' | '+' | '?' => return Err(self.wrong("there is nothing to repeat")),
            '{' if self.counts(self.at).is_some() => return Err(self.wrong("there is nothing to repeat")),
            '\\' => match self.escape(false)? {
                Some(Member::Char(code)) => push(&mut self.out, code),
                Some(Member::Set(set)) => self.out.push_str(&format!("[{set}]")),
                None => {}
            },
            c => push(&mut self.out, u32::from(c)),
        }
        Ok(())
    }

    /// Reads what follows a backslash; `None` if it was a back reference, which has been written already.
    fn escape(&mut self, in_set: bool) -> Result<Option<Member>> {
        let Some(c) = self.peek() else { return Err(self.wrong("a backslash escapes nothing")) };
        self.at += 1;
        let set = |text: &str, is_other: bool| {
            Ok(Some(Member::Set(if is_other { format!("[^{text}]") } else { text.to_owned() })))
        };
        let code = match c {
            'd' | 'D' => return set(DIGITS, c == 'D'),
            'w' | 'W' => return set(WORD, c == 'W'),
            's' | 'S' => return set(SPACE, c == 'S'),
            'p' | 'P' if self.peek() == Some('{') => return self.property(c == 'P').map(Some),
            'b' if in_set => 8,
            't' => 9,
            'n' => 10,
            'v' => 11,
            'f' => 12,
            'r' => 13,
            'c' if self.peek().is_some_and(|c| c.is_ascii_alphabetic()) => {
                self.at += 1;
                u32::from(self.chars[self.at - 1]) % 32
            }
            // A backslash before a letter without a control character is literal.
            'c' => {
                self.at -= 1;
                u32::from('\\')
            }
            'x' => self.hex(2).unwrap_or(u32::from('x')),
            'u' => self.unicode()?,
            'k' if self.has_names && !in_set => {
                while self.peek().is_some_and(|c| c != '>') {
                    self.at += 1;
                }
                self.takes(">");
                self.reference();
                return Ok(None);
            }
            '0'..='9' => {
                let n = (c as usize) - ('0' as usize);
                if !in_set && n > 0 && n <= self.n_groups {
                    while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                        self.at += 1;
                    }
                    self.reference();
                    return Ok(None);
                }
                self.octal(c)
            }
            c => u32::from(c),
        };
        Ok(Some(Member::Char(code)))
    }

    fn reference(&mut self) {
        self.weaken("references to groups are not supported");
        self.out.push_str(r"(?s:.*)");
    }

    /// Reads an octal number of up to three digits; `first` has been read already.
    fn octal(&mut self, first: char) -> u32 {
        let Some(mut code) = first.to_digit(8) else { return u32::from(first) };
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)).filter(|digit| code * 8 + digit < 256) else {
                break;
            };
            code = code * 8 + digit;
            self.at += 1;
        }
        code
    }

    fn hex(&mut self, n: usize) -> Option<u32> {
        let digits = self.chars.get(self.at..self.at + n)?;
        let code = digits.iter().try_fold(0, |code, c| Some(code * 16 + c.to_digit(16)?))?;
        self.at += n;
        Some(code)
    }

    /// Reads what follows `\u`.
    fn unicode(&mut self) -> Result<u32> {
        if self.peek() == Some('{') {
            let start = self.at;
            self.at += 1;
            let mut code = 0u32;
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
                code = code.saturating_mul(16).saturating_add(digit);
                self.at += 1;
            }
            if self.at > start + 1 && self.takes("}") && code <= u32::from(char::MAX) {
                return Ok(code);
            }
            return Err(self.wrong("\\u{...} is no code point; it must be one of at most 10FFFF"));
        }
        let Some(high) = self.hex(4) else { return Ok(u32::from('u')) };
        let at = self.at;
        if (0xd800..0xdc00).contains(&high) && self.takes("\\u") {
            match self.hex(4) {
                Some(low) if (0xdc00..0xe000).contains(&low) => {
                    return Ok(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                }
                _ => self.at = at,
            }
        }
        Ok(high)
    }

    /// Reads a Unicode property, in braces.
    fn property(&mut self, is_other: bool) -> Result<Member> {
        let end = self.chars[self.at..].iter().position(|c| *c == '}');
        let end = end.ok_or_else(|| self.wrong("the name of a property is not closed"))? + self.at;
        let name: String = self.chars[self.at + 1..end].iter().collect();
        self.at = end + 1;
        let text = format!("\\{}{{{name}}}", if is_other { 'P' } else { 'p' });
        match regex_syntax::parse(&text) {
            Ok(_) => Ok(Member::Set(text)),
            Err(_) => {
                self.weaken("the property of characters is unknown");
                Ok(Member::Set(r"\x{0}-\x{10ffff}".to_owned()))
            }
        }
    }

    fn set(&mut self) -> Result<()> {
        let is_other = self.takes("^");
        let mut out = String::new();
        while !self.takes("]") {
            let first = self.member()?;
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']');
            if !is_range {
                push_member(&mut out, first);
                continue;
            }
            self.at += 1;
            match (first, self.member()?) {
                (Member::Char(first), Member::Char(last)) if first > last => {
                    return Err(self.wrong("the range of characters ends before it begins"));
                }
                (Member::Char(first), Member::Char(last)) => push_range(&mut out, first, last),
                (first, last) => {
                    push_member(&mut out, first);
                    push(&mut out, u32::from('-'));
                    push_member(&mut out, last);
                }
            }
        }
        match (out.is_empty(), is_other) {
            (true, true) => self.out.push_str(r"[\s\S]"),
            (true, false) => self.out.push_str(r"[^\s\S]"),
            (false, true) => self.out.push_str(&format!("[^{out}]")),
            (false, false) => self.out.push_str(&format!("[{out}]")),
        }
        Ok(())
    }

    fn member(&mut self) -> Result<Member> {
        let Some(c) = self.peek() else { return Err(self.wrong("\"[\" is not closed")) };
        self.at += 1;
        match c {
            '\\' => Ok(self.escape(true)?.unwrap_or(Member::Char(u32::from('\\')))),
            c => Ok(Member::Char(u32::from(c))),
        }
    }

    /// Bounds of a repetition after a brace, and the index after it.
    fn counts(&self, from: usize) -> Option<(String, String, usize)> {
        let end = from + self.chars.get(from..)?.iter().position(|c| *c == '}')?;
        let text: String = self.chars[from..end].iter().collect();
        let (least, most) = text.split_once(',').unwrap_or((&text, &text));
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        (!least.is_empty() && is_number(least) && is_number(most)).then(|| (least.to_owned(), most.to_owned(), end + 1))
    }

    /// Reads the quantifier of the output from `start` on.
    fn repeated(&mut self, start: usize) -> Result<()> {
        let times = match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => {
                let Some((least, most, end)) = self.counts(self.at + 1) else { return Ok(()) };
                // More than nine digits count as unbounded.
                let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX).min(999_999_999);
                if !most.is_empty() && number(&least) > number(&most) {
                    return Err(self.wrong("the repetition ends before it begins"));
                }
                self.at = end;
                match most.is_empty() {
                    true => format!("{{{},}}", number(&least)),
                    false => format!("{{{},{}}}", number(&least), number(&most)),
                }
            }
            _ => return Ok(()),
        };
        // A lazy quantifier matches the same texts.
        self.takes("?");
        let repeated = self.out.split_off(start);
        self.out.push_str(&format!("(?:{repeated}){times}"));
        if self.peek().is_some_and(|c| "*+?".contains(c)) {
            return Err(self.wrong("there is nothing to repeat"));
        }
        Ok(())
    }
}

/// Writes a character, unless it is a surrogate.
fn push(out: &mut String, code: u32) {
    match char::from_u32(code) {
        Some(c) if c.is_ascii_alphanumeric() => out.push(c),
        Some(_) => out.push_str(&format!("\\x{{{code:x}}}")),
        // No text contains it.
        None => out.push_str(r"[^\s\S]"),
    }
}

fn push_member(out: &mut String, member: Member) {
    match member {
        Member::Char(code) => push_range(out, code, code),
        Member::Set(set) => out.push_str(&set),
    }
}

/// Writes a range of characters in a set, without surrogates.
fn push_range(out: &mut String, first: u32, last: u32) {
    for (first, last) in [(first, last.min(0xd7ff)), (first.max(0xe000), last)] {
        if first <= last {
            out.push_str(&format!("\\x{{{first:x}}}-\\x{{{last:x}}}"));
        }
    }
}

/// True if a prepared pattern requires a character that JSON can write only with `\u`.
pub fn has_controls(pattern: &str) -> bool {
    let mut depth = 0;
    pattern.char_indices().any(|(i, c)| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        let code =
            pattern[i..].strip_prefix("\\x{").and_then(|rest| u32::from_str_radix(rest.split_once('}')?.0, 16).ok());
        depth == 0 && code.is_some_and(|code| code < 32 && ![8, 9, 10, 12, 13].contains(&code) || code == 127)
    })
}

/// True if a set has the spare character, but not all characters that JSON escapes with only a backslash: the parser
/// assumes that a set with all control characters has `"` and `\` too.
fn is_quoted_wrong(tree: &Hir) -> bool {
    match tree.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let has = |c: char| class.iter().any(|range| (range.start()..=range.end()).contains(&c));
            has(SPARE) && !(has('"') && has('\\'))
        }
        HirKind::Literal(text) => text.0.contains(&(SPARE as u8)),
        HirKind::Repetition(repeated) => is_quoted_wrong(&repeated.sub),
        HirKind::Capture(capture) => is_quoted_wrong(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(is_quoted_wrong),
        _ => false,
    }
}

/// Removes texts with the spare character from the expression, so that no union of sets has all control characters.
fn without_spare(tree: Hir) -> Hir {
    match tree.into_kind() {
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new(SPARE, SPARE)]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Literal(text) if text.0.contains(&(SPARE as u8)) => Hir::fail(),
        HirKind::Literal(text) => Hir::literal(text.0),
        HirKind::Repetition(repeated) => {
            let Repetition { min, max, greedy, sub } = repeated;
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(without_spare(*sub)) })
        }
        HirKind::Capture(capture) => without_spare(*capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(without_spare).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(without_spare).collect()),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Empty => Hir::empty(),
    }
}
