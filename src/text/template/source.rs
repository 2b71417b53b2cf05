//! Preprocessing of template sources: rewrites what Jinja2 and transformers support but `minijinja` does not, and
//! rejects what its parser would recurse into too deeply.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Maximum number of operators in one tag, and of `elif`s in a template. The parser nests each in the previous one;
/// published templates have up to 35 and 20.
const MAX_CHAIN: usize = 200;

/// Arguments of a macro beyond its parameters.
const CATCH_ALL: [(&str, &str); 2] = [("varargs", "varargs=()"), ("kwargs", "kwargs={}")];

/// A macro being read.
struct Macro {
    /// Where its parameters end.
    end: Option<usize>,
    parameters: Vec<String>,
    uses: [bool; 2],
}

/// The replaced pieces of a source.
#[derive(Default)]
struct Edits(Vec<(usize, usize, String)>);

impl Edits {
    fn insert(&mut self, at: usize, text: &str) {
        self.0.push((at, at, text.to_owned()));
    }

    fn applied(mut self, source: &str) -> String {
        self.0.sort_by_key(|(from, ..)| *from);
        let mut out = String::with_capacity(source.len());
        let mut copied = 0;
        for (from, to, text) in self.0 {
            out.extend([&source[copied..from], &text]);
            copied = to;
        }
        out + &source[copied..]
    }
}

/// The tag being read.
#[derive(Default)]
struct Tag {
    /// Its first word.
    word: String,
    /// Number of open brackets.
    depth: usize,
    operators: usize,
    /// Start of an expression that is a tuple if it has a comma outside of brackets.
    tuple_at: Option<usize>,
    has_comma: bool,
    /// Start of each assignment of a `with`, and position of its sign; 0: not seen yet.
    assignments: Vec<(usize, usize)>,
    is_recursive: bool,
    has_condition: bool,
}

impl Tag {
    /// Puts brackets around an unbracketed tuple that ends at `end`.
    fn close_tuple(&mut self, end: usize, edits: &mut Edits) {
        if let (Some(at), true) = (self.tuple_at.take(), self.has_comma) {
            edits.insert(at, "(");
            edits.insert(end, ")");
        }
        self.has_comma = false;
    }

    /// Joins the assignments of a `with`, which ends at `end`, into one, so that no value can read another assignment's
    /// target.
    fn join_assignments(&mut self, source: &str, end: usize, edits: &mut Edits) {
        let all = std::mem::take(&mut self.assignments);
        if all.len() < 2 || all.iter().any(|(_, sign)| *sign == 0) {
            return;
        }
        let targets: Vec<&str> = all.iter().map(|&(from, sign)| source[from..sign].trim()).collect();
        let targets = format!(" ({})=(", targets.join(", "));
        for (i, (from, sign)) in all.into_iter().enumerate() {
            edits.0.push((from, sign + 1, if i == 0 { targets.clone() } else { " ".to_owned() }));
        }
        edits.insert(end, ")");
    }
}

/// Rewrites a source for the interpreter.
///
/// # Errors
/// Chains that are too long, and tags that Jinja2 does not have.
pub fn prepared(source: &str, syntax: &SyntaxConfig) -> Result<String, String> {
    let source = &source.replace("\r\n", "\n").replace('\r', "\n");
    let mut rewriter = Rewriter { source, ..Rewriter::default() };
    let mut data_from = 0;
    for token in tokenize(source, false, syntax.clone()) {
        // The parser will report the error.
        let Ok((token, span)) = token else { break };
        let (from, to) = (span.start_offset as usize, span.end_offset as usize);
        match &token {
            Token::BlockStart | Token::VariableStart => rewriter.data(data_from, from),
            Token::BlockEnd | Token::VariableEnd => data_from = to,
            _ => {}
        }
        match &token {
            Token::Ident(word) => {
                rewriter.word(word, from, to).map_err(|e| format!("{e} (in line {})", span.start_line))?
            }
            token => rewriter.other(token, from, to)?,
        }
        if rewriter.elifs > MAX_CHAIN {
            return Err(format!("more than {MAX_CHAIN} \"elif\"s"));
        }
        if rewriter.tag.operators > MAX_CHAIN {
            return Err(format!("more than {MAX_CHAIN} operators in one tag"));
        }
        rewriter.before = Some(token);
    }
    rewriter.data(data_from, source.len());
    Ok(rewriter.edits.applied(source))
}

/// A source being read token by token.
#[derive(Default)]
struct Rewriter<'s> {
    source: &'s str,
    edits: Edits,
    macros: Vec<Macro>,
    tag: Tag,
    elifs: usize,
    before: Option<Token<'s>>,
}

impl Rewriter<'_> {
    /// Reads the text between tags. A line end after `{% raw %}` is kept, unlike one after other tags.
    fn data(&mut self, from: usize, to: usize) {
        let mut at = from;
        while let Some(found) = self.source.get(at..to).and_then(|data| data.find(['{'])) {
            at += found;
            let data = &self.source[at..to];
            at += match (data.starts_with("{#"), tag(data, "raw")) {
                (true, _) => data.find("#}").map_or(data.len(), |end| end + 2),
                (_, Some((end, keeps))) => {
                    if keeps && data[end..].starts_with('\n') {
                        self.edits.insert(at + end, "\n");
                    }
                    let closes = |(i, _): &(usize, &str)| tag(&data[*i..], "endraw").is_some();
                    data.match_indices("{%").find(closes).map_or(data.len(), |(i, _)| i + 2)
                }
                _ => 1,
            };
        }
    }

    /// Reads a word at `from..to`.
    fn word(&mut self, word: &str, from: usize, to: usize) -> Result<(), String> {
        let in_for = self.tag.word == "for" && self.tag.depth == 0;
        match word {
            _ if matches!(self.before, Some(Token::BlockStart)) => return self.first_word(word, from, to),
            "in" if in_for && self.tag.tuple_at.is_none() => {
                (self.tag.tuple_at, self.tag.has_comma) = (Some(to), false);
                return Ok(());
            }
            "if" | "recursive" if in_for && self.before.as_ref().is_some_and(ends_operand) => {
                self.tag.has_condition |= word == "if";
                self.tag.is_recursive |= word == "recursive";
                if self.tag.has_condition && self.tag.is_recursive {
                    return Err("a recursive loop with a condition is not supported".to_owned());
                }
                self.tag.close_tuple(before_end(self.source, from), &mut self.edits);
                self.tag.operators += 1;
                return Ok(());
            }
            _ => {}
        }
        if let Some(open) = self.macros.last_mut() {
            let known = open.parameters.iter().any(|known| known == word);
            match (open.end, &self.before) {
                (None, Some(Token::ParenOpen | Token::Comma)) if self.tag.depth == 1 => {
                    open.parameters.push(word.to_owned());
                }
                (None, _) if known => {
                    return Err(format!("a default that reads the parameter {word:?} is not supported"));
                }
                // A parameter of that name is an ordinary one.
                (None, _) | (_, Some(Token::Dot)) => {}
                _ => open.uses.iter_mut().zip(CATCH_ALL).for_each(|(uses, (name, _))| *uses |= name == word),
            }
        }
        if matches!(word, "and" | "or" | "not" | "if" | "is" | "in") {
            self.tag.operators += 1;
        }
        // Prevents constant folding, which has other rules.
        if matches!(word, "in" | "not") && self.before.as_ref().is_some_and(is_constant_end) {
            self.edits.insert(from, "|factor ");
        }
        Ok(())
    }

    /// Reads the first word of a tag.
    fn first_word(&mut self, word: &str, from: usize, to: usize) -> Result<(), String> {
        self.tag.word = word.to_owned();
        match word {
            "with" => self.tag.assignments.push((to, 0)),
            "generation" => self.edits.0.push((from, to, "with".to_owned())),
            "endgeneration" => self.edits.0.push((from, to, "endwith".to_owned())),
            "do" => return Err("unknown tag \"do\"".to_owned()),
            "elif" => self.elifs += 1,
            "macro" => self.macros.push(Macro { end: None, parameters: Vec::new(), uses: [false; 2] }),
            "endmacro" => finish(self.macros.pop(), &mut self.edits),
            _ => {}
        }
        Ok(())
    }

    /// Reads a token other than a word.
    fn other(&mut self, token: &Token, from: usize, to: usize) -> Result<(), String> {
        let (before, tag) = (self.before.as_ref(), &mut self.tag);
        match token {
            Token::VariableStart => *tag = Tag { tuple_at: Some(to), ..Tag::default() },
            Token::BlockStart => *tag = Tag::default(),
            Token::VariableEnd | Token::BlockEnd => {
                tag.close_tuple(before_end(self.source, from), &mut self.edits);
                tag.join_assignments(self.source, before_end(self.source, from), &mut self.edits);
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => tag.depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                tag.depth = tag.depth.saturating_sub(1);
                if let Some(open) = self.macros.last_mut().filter(|open| open.end.is_none() && tag.depth == 0) {
                    open.end = Some(from);
                }
            }
            Token::Comma if tag.depth == 0 => {
                tag.has_comma = true;
                if tag.word == "with" {
                    tag.assignments.push((to, 0));
                }
            }
            Token::Assign if tag.depth == 0 => {
                if let Some((_, sign)) = tag.assignments.last_mut().filter(|(_, sign)| *sign == 0) {
                    *sign = from;
                }
            }
            Token::String(_) => self.edits.0.extend(literal(&self.source[from..to]).map(|text| (from, to, text))),
            Token::Mul | Token::Pow if matches!(before, Some(Token::ParenOpen | Token::Comma)) => {
                return Err("a call with arguments from a list or a map is not supported".to_owned());
            }
            // In Python the unary plus of a number is the number.
            Token::Plus if !before.is_some_and(ends_operand) => self.edits.0.push((from, to, "- -".to_owned())),
            // Prevents constant folding, which has other rules.
            _ if is_operator(token) && before.is_some_and(is_constant_end) => self.edits.insert(from, "|factor "),
            _ => {}
        }
        tag.operators += usize::from(is_counted(token));
        Ok(())
    }
}

/// Adds parameters to a macro for the additional arguments that it reads.
fn finish(read: Option<Macro>, edits: &mut Edits) {
    let Some(Macro { end: Some(end), parameters, uses }) = read else { return };
    let mut separator = if parameters.is_empty() { "" } else { ", " };
    for (_, (_, parameter)) in uses.iter().zip(CATCH_ALL).filter(|(uses, _)| **uses) {
        edits.insert(end, separator);
        edits.insert(end, parameter);
        separator = ", ";
    }
}

/// If `text` begins with a tag of one word, returns the end of the tag, and true if white space after it is kept.
fn tag(text: &str, word: &str) -> Option<(usize, bool)> {
    let rest = text.strip_prefix("{%")?;
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).trim_start().strip_prefix(word)?.trim_start();
    let keeps = !rest.starts_with(['-', '+']);
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).strip_prefix("%}")?;
    Some((text.len() - rest.len(), keeps))
}

/// Returns the index after the last character of an expression before the end of a tag at `at`.
fn before_end(source: &str, at: usize) -> usize {
    source[..at].trim_end().len()
}

fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Ident(word) => !matches!(*word, "and" | "or" | "not" | "if" | "else" | "elif" | "is" | "in"),
        token => is_constant_end(token),
    }
}

fn is_constant_end(token: &Token) -> bool {
    match token {
        Token::Ident(word) => matches!(*word, "true" | "True" | "false" | "False" | "none" | "None"),
        Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => true,
        Token::ParenClose | Token::BracketClose | Token::BraceClose => true,
        _ => false,
    }
}

fn is_operator(token: &Token) -> bool {
    use Token::*;
    matches!(token, Plus | Minus | Mul | Div | FloorDiv | Mod | Pow | Eq | Ne | Lt | Lte | Gt | Gte | Tilde)
}

/// True for tokens that the parser nests in the previous expression.
fn is_counted(token: &Token) -> bool {
    !matches!(
        token,
        Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::TemplateData(_)
            | Token::VariableStart
            | Token::VariableEnd
            | Token::BlockStart
            | Token::BlockEnd
            | Token::Comma
            | Token::Colon
            | Token::ParenClose
            | Token::BracketClose
            | Token::BraceClose
    )
}

/// Returns a string literal whose escapes have Python's meaning in the interpreter; `None` if unchanged.
fn literal(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(c);
        if c != '\\' {
            continue;
        }
        match chars.next() {
            Some('a') => out.push_str("x07"),
            Some('v') => out.push_str("x0b"),
            // A line continuation.
            Some('\n') => {
                let _ = out.pop();
            }
            // Not an escape in Python.
            Some(c @ '/') => out.extend(['\\', c]),
            Some('U') => {
                let digits: String = chars.clone().take(8).collect();
                match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
                    Some(c) if digits.len() == 8 => {
                        let _ = out.pop();
                        out.push(c);
                        chars.nth(7);
                    }
                    _ => out.push('U'),
                }
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    (out != text).then_some(out)
}
