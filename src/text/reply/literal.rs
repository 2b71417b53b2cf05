//! Incremental conversion of model-written objects and lists to JSON: from JSON itself, Python literals, and objects
//! with bare keys and texts between `<|"|>`. Independent of other modules.

/// Maximum depth of objects and lists, and maximum depth that JSON parsers accept.
const MAX_DEPTH: usize = 1000;
const READ_DEPTH: usize = 127;
/// Maximum prefix of a number that is checked for overflow.
const MAX_NUMBER: usize = 400;
/// Maximum length of a member's name that is kept for `key`.
const MAX_KEY: usize = 1024;

/// The quote of texts without escapes.
pub const WIDE_QUOTE: &str = "<|\"|>";

const WORDS: [(&str, &str); 6] =
    [("true", "true"), ("false", "false"), ("null", "null"), ("True", "true"), ("False", "false"), ("None", "null")];

/// Text that is not a literal.
#[derive(Debug)]
pub struct NoLiteral;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A value, or the end of an empty list.
    Value {
        may_end: bool,
    },
    /// A member name, or the end of an empty object.
    Key {
        may_end: bool,
    },
    /// A string. `wide`: received characters of the closing `WIDE_QUOTE`; of the opening one, offset by its length.
    Text {
        quote: char,
        wide: usize,
    },
    /// After a backslash; `digits` are left of `code`.
    Escape {
        quote: char,
    },
    Code {
        quote: char,
        digits: u8,
        code: u32,
    },
    BareKey,
    Number(u8),
    Word {
        word: usize,
        at: usize,
    },
    Colon,
    /// A comma, or the end of the enclosing object or list.
    After,
    Done,
}

/// The state of an incomplete literal.
#[derive(Debug)]
pub struct Literal {
    /// The closing bracket of each open object and list.
    open: Vec<char>,
    phase: Phase,
    /// True if the current text is a member name.
    in_key: bool,
    key: String,
    /// A high surrogate that needs a low one; 0: none.
    high: u32,
    /// The current or last number.
    number: String,
    /// A comma and the white space after it, held back because a closing bracket drops the comma.
    comma: String,
    /// True if JSON parsers reject it for an overflowing number or its depth.
    is_unreadable: bool,
}

impl Literal {
    pub fn new() -> Literal {
        Literal {
            open: Vec::new(),
            phase: Phase::Value { may_end: false },
            in_key: false,
            key: String::new(),
            high: 0,
            number: String::new(),
            comma: String::new(),
            is_unreadable: false,
        }
    }

    /// Returns JSON of a complete literal, with surrounding white space.
    pub fn convert(text: &str) -> Option<String> {
        let (mut literal, mut out) = (Literal::new(), String::new());
        for c in text.trim().chars() {
            literal.push(c, &mut out).ok()?;
        }
        let ends = match literal.phase {
            Phase::Number(state) => literal.open.is_empty() && number_ends(state),
            phase => phase == Phase::Done,
        };
        ends.then_some(out)
    }

    /// Returns the last member name of the outermost object, as in JSON without quotes.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// True if a value of the outermost object is expected or has begun.
    pub fn in_member(&self) -> bool {
        let in_value = match self.phase {
            Phase::Value { .. } | Phase::Number(_) | Phase::Word { .. } => true,
            Phase::Text { .. } | Phase::Escape { .. } | Phase::Code { .. } => !self.in_key,
            _ => false,
        };
        self.is_nested() || self.open.len() == 1 && in_value
    }

    /// True within a number that is a member of the outermost object. Only the next character ends it.
    pub fn in_number(&self) -> bool {
        self.open.len() == 1 && matches!(self.phase, Phase::Number(_))
    }

    /// True within an object or list inside the outermost one.
    pub fn is_nested(&self) -> bool {
        self.open.len() > 1
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// True for well-formed JSON that parsers nevertheless reject.
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Adds a character, and appends the JSON that it completes to `out`.
    pub fn push(&mut self, c: char, out: &mut String) -> Result<(), NoLiteral> {
        let from = out.len() + self.comma.len();
        if self.holds_comma(c, out) {
            return Ok(());
        }
        self.step(c, out)?;
        if self.in_key && self.open.len() == 1 {
            self.key.push_str(&out[from..]);
            if self.key.len() > MAX_KEY {
                return Err(NoLiteral);
            }
        }
        if self.in_key && self.phase == Phase::Colon {
            self.in_key = false;
            if self.open.len() == 1 {
                self.key = self.key[1..self.key.len() - 1].to_owned();
            }
        }
        Ok(())
    }

    /// Handles a character after a comma. True for white space, which is held back, and for a closing bracket, which
    /// drops the comma.
    fn holds_comma(&mut self, c: char, out: &mut String) -> bool {
        if self.comma.is_empty() {
            return false;
        }
        if matches!(c, ' ' | '\t' | '\n' | '\r') && self.comma.len() < MAX_KEY {
            self.comma.push(c);
            return true;
        }
        let comma = std::mem::take(&mut self.comma);
        let is_last = self.open.last() == Some(&c);
        out.push_str(if is_last { &comma[1..] } else { &comma });
        if is_last {
            self.close(out);
        }
        is_last
    }

    fn step(&mut self, c: char, out: &mut String) -> Result<(), NoLiteral> {
        let is_space = matches!(c, ' ' | '\t' | '\n' | '\r');
        match self.phase {
            Phase::Text { .. } if c != '\\' => self.drop_high(out),
            Phase::Escape { .. } if c != 'u' => self.drop_high(out),
            _ => {}
        }
        match self.phase {
            Phase::Value { .. } | Phase::Key { .. } | Phase::Colon | Phase::After if is_space => out.push(c),
            Phase::Value { may_end } => return self.value(c, may_end, out),
            Phase::Key { may_end: true } if self.open.last() == Some(&c) => self.close(out),
            Phase::Key { .. } => return self.begin_key(c, out),
            Phase::BareKey if is_bare(c) => out.push(c),
            Phase::BareKey => {
                out.push('"');
                self.phase = Phase::Colon;
                // The key ends before this character.
                self.in_key = false;
                if self.open.len() == 1 {
                    self.key.remove(0);
                }
                return self.step(c, out);
            }
            Phase::Colon if matches!(c, ':' | '=') => {
                out.push(':');
                self.phase = Phase::Value { may_end: false };
            }
            Phase::After if c == ',' => {
                self.comma.push(c);
                let is_list = self.open.last() == Some(&']');
                self.phase = if is_list { Phase::Value { may_end: false } } else { Phase::Key { may_end: false } };
            }
            Phase::After if self.open.last() == Some(&c) => self.close(out),
            Phase::Number(state) => match number_step(state, c) {
                Some(next) => {
                    out.push(c);
                    if self.number.len() < MAX_NUMBER {
                        self.number.push(c);
                    }
                    self.phase = Phase::Number(next);
                }
                None if number_ends(state) && !self.open.is_empty() => {
                    self.is_unreadable |= self.number.parse().is_ok_and(f64::is_infinite);
                    self.phase = Phase::After;
                    return self.step(c, out);
                }
                None => return Err(NoLiteral),
            },
            Phase::Word { word, at } => {
                // Words with the same first letter differ only in case.
                let (from, to) = WORDS[word];
                if from.as_bytes().get(at).copied() != u8::try_from(c).ok() {
                    return Err(NoLiteral);
                }
                self.phase = Phase::Word { word, at: at + 1 };
                if at + 1 == from.len() {
                    out.push_str(to);
                    self.ended();
                }
            }
            Phase::Text { quote: '<', wide } => return self.wide(c, wide, out),
            Phase::Text { quote, .. } if c == quote => {
                out.push('"');
                self.text_ended();
            }
            Phase::Text { quote, .. } if c == '\\' => self.phase = Phase::Escape { quote },
            Phase::Text { .. } => escape(c, out),
            Phase::Escape { quote } => self.escaped(c, quote, out),
            Phase::Code { quote, digits, code } => {
                let code = 16 * code + c.to_digit(16).ok_or(NoLiteral)?;
                self.phase = Phase::Code { quote, digits: digits - 1, code };
                if digits == 1 {
                    self.code(code, out);
                    self.phase = Phase::Text { quote, wide: 0 };
                }
            }
            Phase::Colon | Phase::After | Phase::Done => return Err(NoLiteral),
        }
        Ok(())
    }

    fn begin_key(&mut self, c: char, out: &mut String) -> Result<(), NoLiteral> {
        self.in_key = true;
        if self.open.len() == 1 {
            self.key.clear();
        }
        match c {
            '"' | '\'' => self.text(c, 0, out),
            '<' => self.text(c, 1, out),
            _ if is_bare(c) => {
                out.extend(['"', c]);
                self.phase = Phase::BareKey;
            }
            _ => return Err(NoLiteral),
        }
        Ok(())
    }

    /// Handles the character after a backslash.
    fn escaped(&mut self, c: char, quote: char, out: &mut String) {
        self.phase = Phase::Text { quote, wide: 0 };
        match c {
            'u' => self.phase = Phase::Code { quote, digits: 4, code: 0 },
            'x' => self.phase = Phase::Code { quote, digits: 2, code: 0 },
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => out.extend(['\\', c]),
            '\'' => out.push('\''),
            _ => {
                out.push_str("\\\\");
                escape(c, out);
            }
        }
    }

    fn value(&mut self, c: char, may_end: bool, out: &mut String) -> Result<(), NoLiteral> {
        match c {
            '{' | '(' | '[' => {
                if self.open.len() == MAX_DEPTH {
                    return Err(NoLiteral);
                }
                let (end, json) = match c {
                    '{' => ('}', '{'),
                    '(' => (')', '{'),
                    _ => (']', '['),
                };
                out.push(json);
                self.open.push(end);
                self.is_unreadable |= self.open.len() > READ_DEPTH;
                self.phase = if c == '[' { Phase::Value { may_end: true } } else { Phase::Key { may_end: true } };
            }
            ']' if may_end => self.close(out),
            '"' | '\'' => self.text(c, 0, out),
            '<' => self.text(c, 1, out),
            _ => {
                if let Some(state) = number_step(0, c) {
                    out.push(c);
                    self.number.clear();
                    self.number.push(c);
                    self.phase = Phase::Number(state);
                } else {
                    let word = WORDS.iter().position(|(word, _)| word.starts_with(c)).ok_or(NoLiteral)?;
                    self.phase = Phase::Word { word, at: 1 };
                }
            }
        }
        Ok(())
    }

    /// Appends a UTF-16 code unit of a text; joins surrogates. An unpaired surrogate is invalid.
    fn code(&mut self, code: u32, out: &mut String) {
        match code {
            0xDC00..0xE000 if self.high > 0 => {
                out.push_str(&format!("\\u{:04x}\\u{code:04x}", self.high));
                self.high = 0;
            }
            0xD800..0xDC00 => {
                self.drop_high(out);
                self.high = code;
            }
            _ => {
                self.drop_high(out);
                let code = if code & 0xF800 == 0xD800 { 0xFFFD } else { code };
                out.push_str(&format!("\\u{code:04x}"));
            }
        }
    }

    fn drop_high(&mut self, out: &mut String) {
        if std::mem::take(&mut self.high) > 0 {
            out.push_str("\\ufffd");
        }
    }

    fn text(&mut self, quote: char, wide: usize, out: &mut String) {
        if wide == 0 {
            out.push('"');
        }
        self.phase = Phase::Text { quote, wide: if wide == 0 { 0 } else { 1 + WIDE_QUOTE.len() } };
    }

    /// Handles a character of a string in wide quotes; `wide` as in `Phase::Text`.
    fn wide(&mut self, c: char, wide: usize, out: &mut String) -> Result<(), NoLiteral> {
        let quote = WIDE_QUOTE.as_bytes();
        let is_next = |at: usize| u8::try_from(c).ok() == Some(quote[at]);
        if wide >= quote.len() {
            let at = wide - quote.len();
            if !is_next(at) {
                return Err(NoLiteral);
            }
            let is_open = at + 1 == quote.len();
            if is_open {
                out.push('"');
            }
            self.phase = Phase::Text { quote: '<', wide: if is_open { 0 } else { wide + 1 } };
        } else if is_next(wide) {
            self.phase = Phase::Text { quote: '<', wide: wide + 1 };
            if wide + 1 == quote.len() {
                out.push('"');
                self.text_ended();
            }
        } else {
            WIDE_QUOTE[..wide].chars().for_each(|c| escape(c, out));
            let again = usize::from(c == '<');
            if again == 0 {
                escape(c, out);
            }
            self.phase = Phase::Text { quote: '<', wide: again };
        }
        Ok(())
    }

    fn text_ended(&mut self) {
        if self.in_key { self.phase = Phase::Colon } else { self.ended() }
    }

    fn close(&mut self, out: &mut String) {
        let end = self.open.pop();
        out.push(if end == Some(']') { ']' } else { '}' });
        self.ended();
    }

    fn ended(&mut self) {
        self.phase = if self.open.is_empty() { Phase::Done } else { Phase::After };
    }
}

/// True for a complete object, even if JSON parsers reject it.
pub fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && Literal::convert(text).is_some()
}

/// True for the characters of bare member names.
pub fn is_bare(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')
}

/// Appends a character of a JSON text, escaped.
pub fn escape(c: char, out: &mut String) {
    match c {
        '"' | '\\' => out.extend(['\\', c]),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push(c),
    }
}

/// Returns the next state of the automaton of JSON numbers, whose start is 0; `None` if `c` is invalid.
fn number_step(state: u8, c: char) -> Option<u8> {
    Some(match (state, c) {
        (0, '-') => 1,
        (0 | 1, '0') => 2,
        (0 | 1, '1'..='9') | (3, '0'..='9') => 3,
        (2 | 3, '.') => 4,
        (4 | 5, '0'..='9') => 5,
        (2 | 3 | 5, 'e' | 'E') => 6,
        (6, '+' | '-') => 7,
        (6..=8, '0'..='9') => 8,
        _ => return None,
    })
}

fn number_ends(state: u8) -> bool {
    matches!(state, 2 | 3 | 5 | 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_json() {
        for (text, want) in [
            ("{\"a\": [1, -2.5e+3, true], \"b\": {}}", "{\"a\": [1, -2.5e+3, true], \"b\": {}}"),
            (
                "{'a': 'it\\'s \"x\"', 'b': [True, None, False]}",
                "{\"a\": \"it's \\\"x\\\"\", \"b\": [true, null, false]}",
            ),
            ("(a='v', b=3)", "{\"a\":\"v\", \"b\":3}"),
            ("{a:<|\"|>x<|<|\"\\y<|\"|>,b:[<|\"|><|\"|>]}", "{\"a\":\"x<|<|\\\"\\\\y\",\"b\":[\"\"]}"),
            ("{\"a\": \"\n\\q\\u00e9\\x41\"}", "{\"a\": \"\\n\\\\q\\u00e9\\u0041\"}"),
            (" 17 ", "17"),
            ("[]", "[]"),
            ("'a'", "\"a\""),
            // A trailing comma is ignored.
            ("[1,]", "[1]"),
            ("{a: [1 , \n], 'b': (c={},), }", "{\"a\": [1  \n], \"b\": {\"c\":{}} }"),
        ] {
            assert_eq!(Literal::convert(text).as_deref(), Some(want), "{text}");
            serde_json::from_str::<serde_json::Value>(want).unwrap();
        }
        let deep = "[".repeat(1200) + &"]".repeat(1200);
        for text in [
            "",
            "{",
            "{\"a\"}",
            "{a}",
            "[,]",
            "[1,,]",
            "{,}",
            "[1,",
            "[1 2]",
            "tru",
            "truE",
            "01",
            "1.",
            "nan",
            "{\"a\": 1}}",
            "(]",
            &deep,
        ] {
            assert_eq!(Literal::convert(text), None, "{text}");
        }
    }

    #[test]
    fn what_readers_refuse_is_told() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        for text in ["[1e308]", "[1e309]", "[-1e400, 2]", "{\"a\": 1e400}", "[0e999]", &nested(127), &nested(128)] {
            let (mut literal, mut out) = (Literal::new(), String::new());
            text.chars().for_each(|c| literal.push(c, &mut out).unwrap());
            let is_refused = serde_json::from_str::<serde_json::Value>(text).is_err();
            assert_eq!(literal.is_unreadable(), is_refused, "{text}");
        }
        for digits in [308, 309, 500] {
            let (mut literal, mut out) = (Literal::new(), String::new());
            format!("[1{}]", "0".repeat(digits)).chars().for_each(|c| literal.push(c, &mut out).unwrap());
            assert_eq!(literal.is_unreadable(), digits > 308, "{digits}");
        }
    }

    #[test]
    fn members_are_told_apart() {
        let (mut literal, mut member) = (Literal::new(), String::new());
        for c in "{\"n\": \"f\", 'arg': {\"x\": [1], \"y\": 2}, k: 12}".chars() {
            let (was, number, mut piece) = (literal.in_member(), literal.in_number(), String::new());
            literal.push(c, &mut piece).unwrap();
            if was && (!number || literal.in_number()) {
                member.push_str(&format!("{}={piece};", literal.key()));
            }
        }
        let of = |key: &str| -> String {
            let mark = format!("{key}=");
            member.split(';').filter_map(|piece| piece.strip_prefix(&mark)).collect()
        };
        assert_eq!((of("n").trim(), of("arg").trim(), of("k").trim()), ("\"f\"", "{\"x\": [1], \"y\": 2}", "12"));
    }
}
