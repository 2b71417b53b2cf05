//! A tool call as one object with the tool's name and the arguments, parsed incrementally. Uses `arguments` and
//! `literal`; independent of the rest of a reply.

use crate::text::reply::arguments::TextArguments;
use crate::text::reply::form::Member;
use crate::text::reply::literal::Literal;
use crate::text::reply::replies::Tool;

/// An incomplete call.
#[derive(Default)]
pub struct ObjectCall {
    /// All of its text until the name is known, then the part of a member's value not emitted yet.
    raw: String,
    literal: Option<Literal>,
    /// JSON of the name.
    quoted: String,
    name: Option<String>,
    /// JSON of the id, if it precedes the name.
    id: String,
    arguments: Arguments,
    /// Arguments that precede the name.
    early: String,
    /// True if JSON parsers reject arguments given as a text.
    is_unreadable: bool,
}

/// Keys under which models write arguments, in addition to the template's key.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];
/// The key of the id.
const ID: &str = "id";

#[derive(Default)]
enum Arguments {
    #[default]
    Missing,
    Object,
    /// As JSON within a text.
    Text(TextArguments),
    Null,
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    More,
    /// The object is complete.
    Done,
    /// It is not a call.
    Failed,
}

impl ObjectCall {
    /// `raw`: the text that begins it.
    pub fn new(raw: String) -> ObjectCall {
        ObjectCall { raw, ..Default::default() }
    }

    /// Returns the name of the called tool.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the id that the model wrote before the name.
    pub fn id(&self) -> Option<String> {
        serde_json::from_str(self.id.trim()).ok()
    }

    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// True if JSON parsers reject the arguments.
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable || self.literal.as_ref().is_some_and(Literal::is_unreadable)
    }

    /// True if the arguments are complete.
    pub fn has_arguments(&self) -> bool {
        matches!(self.arguments, Arguments::Complete)
    }

    /// False if the members so far rule out a call.
    pub fn may_be_call(&self) -> bool {
        let key = self.literal.as_ref().map_or("", Literal::key).trim_start_matches('"');
        let known = ["name", "type", ID].into_iter().chain(ARGUMENTS);
        self.is_named() || known.into_iter().any(|name| name.starts_with(key))
    }

    /// Returns text not emitted yet: the whole call until the name is known, then an incomplete part of a value.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Returns the number of bytes held back.
    pub fn size(&self) -> usize {
        self.raw.len() + self.early.len() + self.quoted.len() + self.id.len()
    }

    /// Adds a character, and once the name is known appends the resulting JSON of arguments to `out`. `name`: the
    /// member with the name; `arguments`: the key of the arguments.
    pub fn push(&mut self, c: char, name: &Member, arguments: &str, tools: &[Tool], out: &mut String) -> Step {
        if self.literal.is_none() && c.is_whitespace() {
            self.raw.push(c);
            return Step::More;
        }
        if self.add(c, name, arguments, tools, out).is_none() {
            return Step::Failed;
        }
        match (self.literal.as_ref().is_some_and(Literal::is_done), self.is_named()) {
            (false, _) => Step::More,
            (true, false) => Step::Failed,
            (true, true) => {
                if let Arguments::Missing = self.arguments {
                    out.push_str("{}");
                }
                Step::Done
            }
        }
    }

    /// `None` if the character rules out a call.
    fn add(&mut self, c: char, name: &Member, arguments: &str, tools: &[Tool], out: &mut String) -> Option<()> {
        let literal = match &mut self.literal {
            Some(literal) => literal,
            None if c == '{' => self.literal.insert(Literal::new()),
            None => return None,
        };
        let (was_in_member, was_in_number) = (literal.in_member(), literal.in_number());
        let mut piece = String::new();
        literal.push(c, &mut piece).ok()?;
        let (has_ended, is_nested, handed_on) = (!literal.in_member(), literal.is_nested(), out.len());
        if was_in_member {
            if has_ended && was_in_number {
                piece.clear();
            }
            let is_name = *name == Member::Value(literal.key().to_owned());
            let is_arguments = *name == Member::Key || arguments == literal.key() || ARGUMENTS.contains(&literal.key());
            let is_id = literal.key() == ID && self.name.is_none() && !is_nested;
            if *name == Member::Key && self.name.is_none() {
                self.quoted = format!("\"{}\"", literal.key());
                self.find_name(tools, out)?;
            }
            if is_name {
                self.quoted.push_str(&piece);
                if has_ended {
                    self.find_name(tools, out)?;
                }
            } else if is_arguments {
                self.add_arguments(&piece, has_ended, out)?;
            } else if is_id {
                self.id.push_str(&piece);
            } else if is_nested {
                // Other members, such as ids, are not nested; this one could be arguments under an unknown key.
                return None;
            }
        }
        // If the object ends without a name, the caller keeps its last character.
        let is_done = self.literal.as_ref().is_some_and(Literal::is_done);
        if !self.is_named() {
            if !is_done {
                self.raw.push(c);
            }
        } else if has_ended || out.len() > handed_on {
            self.raw.clear();
        } else if matches!(&self.arguments, Arguments::Text(text) if text.has_object()) {
            // An incomplete escape.
            self.raw.clear();
        } else if was_in_member && !(self.raw.is_empty() && c.is_whitespace()) {
            self.raw.push(c);
        }
        Some(())
    }

    fn find_name(&mut self, tools: &[Tool], out: &mut String) -> Option<()> {
        let name: String = serde_json::from_str(self.quoted.trim()).ok()?;
        if self.is_named() || !tools.iter().any(|tool| tool.name == name) {
            return None;
        }
        self.name = Some(name);
        out.push_str(&std::mem::take(&mut self.early));
        Some(())
    }

    fn add_arguments(&mut self, piece: &str, has_ended: bool, out: &mut String) -> Option<()> {
        if let Arguments::Missing = self.arguments {
            self.arguments = match piece.trim_start().chars().next() {
                None => return Some(()),
                Some('{') => Arguments::Object,
                Some('"') => Arguments::Text(TextArguments::default()),
                Some(_) if piece.trim() == "null" => Arguments::Null,
                Some(_) => return None,
            };
        }
        let out = if self.is_named() { out } else { &mut self.early };
        match &mut self.arguments {
            Arguments::Object => out.push_str(piece),
            Arguments::Text(text) => {
                text.push(piece, has_ended, out).ok()?;
                self.is_unreadable = text.is_unreadable();
            }
            Arguments::Null if has_ended => out.push_str("{}"),
            Arguments::Null => {}
            Arguments::Missing | Arguments::Complete => return None,
        }
        if has_ended {
            self.arguments = Arguments::Complete;
        }
        Some(())
    }
}
