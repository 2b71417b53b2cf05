//! Incremental parsing of a call's arguments: an object, the JSON of an object within a text, or a word for no
//! arguments. Uses `literal`.

use crate::text::reply::literal::{Literal, NoLiteral};

/// The arguments after the name of a call.
pub struct Arguments {
    literal: Literal,
    kind: Kind,
    /// The received text, until the first JSON is emitted.
    raw: String,
    has_handed_on: bool,
}

enum Kind {
    /// Only white space so far.
    Front,
    Object,
    Text(TextArguments),
    /// `null` or `None`.
    Null,
}

impl Arguments {
    pub fn new() -> Arguments {
        Arguments { literal: Literal::new(), kind: Kind::Front, raw: String::new(), has_handed_on: false }
    }

    pub fn is_done(&self) -> bool {
        self.literal.is_done()
    }

    /// True for complete arguments that JSON parsers reject.
    pub fn is_unreadable(&self) -> bool {
        match &self.kind {
            Kind::Text(text) => text.is_unreadable(),
            Kind::Front | Kind::Object | Kind::Null => self.literal.is_unreadable(),
        }
    }

    /// The received text without the character that `push` rejected; empty once JSON has been emitted.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Adds a character, and appends the JSON that it completes to `out`.
    pub fn push(&mut self, c: char, out: &mut String) -> Result<(), NoLiteral> {
        let from = out.len();
        self.add(c, out)?;
        self.has_handed_on |= out.len() > from;
        match self.has_handed_on {
            true => self.raw.clear(),
            false => self.raw.push(c),
        }
        Ok(())
    }

    fn add(&mut self, c: char, out: &mut String) -> Result<(), NoLiteral> {
        if let Kind::Front = self.kind {
            self.kind = match c {
                '{' | '(' => Kind::Object,
                '"' => Kind::Text(TextArguments::default()),
                'n' | 'N' => Kind::Null,
                _ if c.is_whitespace() => return Ok(()),
                _ => return Err(NoLiteral),
            };
        }
        let mut piece = String::new();
        self.literal.push(c, &mut piece)?;
        let is_done = self.literal.is_done();
        match &mut self.kind {
            Kind::Object => out.push_str(&piece),
            Kind::Text(text) => text.push(&piece, is_done, out)?,
            Kind::Null if is_done => out.push_str("{}"),
            Kind::Front | Kind::Null => {}
        }
        Ok(())
    }
}

/// Arguments as the JSON of an object within a text; an empty text means none.
#[derive(Default)]
pub struct TextArguments {
    /// True after the opening quote.
    is_open: bool,
    object: Option<Literal>,
}

impl TextArguments {
    /// True for complete arguments that JSON parsers reject.
    pub fn is_unreadable(&self) -> bool {
        self.object.as_ref().is_some_and(Literal::is_unreadable)
    }

    /// True if the object has begun.
    pub fn has_object(&self) -> bool {
        self.object.is_some()
    }

    /// Adds JSON of a part of the text, in which no escape is split, and appends the resulting JSON of arguments to
    /// `out`. `is_end`: the part ends with the closing quote.
    pub fn push(&mut self, piece: &str, is_end: bool, out: &mut String) -> Result<(), NoLiteral> {
        let piece = if self.is_open { piece } else { piece.strip_prefix('"').unwrap_or(piece) };
        self.is_open = true;
        let piece = if is_end { piece.strip_suffix('"').unwrap_or(piece) } else { piece };
        let text: String = serde_json::from_str(&format!("\"{piece}\"")).map_err(|_| NoLiteral)?;
        for c in text.chars() {
            match &mut self.object {
                Some(object) if object.is_done() && c.is_whitespace() => {}
                Some(object) => object.push(c, out)?,
                None if c == '{' => self.object.insert(Literal::new()).push(c, out)?,
                None if c.is_whitespace() => {}
                None => return Err(NoLiteral),
            }
        }
        match &self.object {
            None if is_end => out.push_str("{}"),
            Some(object) if is_end && !object.is_done() => return Err(NoLiteral),
            Some(_) | None => {}
        }
        Ok(())
    }
}
