//! A call that is one object with the tool's name and the arguments in it, read as its characters come. Relies on
//! `literal`; knows no other part of a reply.

use crate::text::reply::form::Member;
use crate::text::reply::literal::Literal;
use crate::text::reply::replies::Tool;

/// A call up to where it has come.
#[derive(Default)]
pub struct ObjectCall {
    /// All of its text until the name is known, then the part of a member's value of which nothing was handed on.
    raw: String,
    literal: Option<Literal>,
    /// JSON of the name.
    quoted: String,
    name: Option<String>,
    arguments: Arguments,
    /// Arguments that came ahead of the name.
    early: String,
    /// Arguments within a text are unreadable as those of `literal` may be.
    is_unreadable: bool,
}

/// Names that models give the arguments whatever the template's is.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

#[derive(Default, PartialEq, Eq)]
enum Arguments {
    #[default]
    Missing,
    Object,
    /// As JSON within a text.
    Text(String),
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    More,
    /// The object is complete.
    Done,
    /// It is no call.
    Failed,
}

impl ObjectCall {
    /// `raw`: the text that begins it.
    pub fn new(raw: String) -> ObjectCall {
        ObjectCall { raw, ..Default::default() }
    }

    /// The name, which is that of a tool.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// True where readers of JSON refuse the arguments.
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable || self.literal.as_ref().is_some_and(Literal::is_unreadable)
    }

    /// True where the arguments are complete.
    pub fn has_arguments(&self) -> bool {
        self.arguments == Arguments::Complete
    }

    /// False where its members are not those of a call.
    pub fn may_be_call(&self) -> bool {
        let key = self.literal.as_ref().map_or("", Literal::key).trim_start_matches('"');
        let known = ["name", "type", "id"].into_iter().chain(ARGUMENTS);
        self.is_named() || known.into_iter().any(|name| name.starts_with(key))
    }

    /// Text of which nothing was handed on: all while there is no name, then that of a value.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        let text = if let Arguments::Text(text) = &self.arguments { text.len() } else { 0 };
        self.raw.len() + self.early.len() + self.quoted.len() + text
    }

    /// Adds a character, and to `out` the JSON of arguments that comes of it once there is a name. `name` and
    /// `arguments`: where they are.
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
                if self.arguments == Arguments::Missing {
                    out.push_str("{}");
                }
                Step::Done
            }
        }
    }

    /// `None` for a character by which it is no call.
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
            } else if is_nested {
                // Others are identifiers and the like; these could be arguments.
                return None;
            }
        }
        // The last character belongs to what is not understood where there is no name by then.
        let is_done = self.literal.as_ref().is_some_and(Literal::is_done);
        if !self.is_named() {
            if !is_done {
                self.raw.push(c);
            }
        } else if has_ended || out.len() > handed_on {
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
        if self.arguments == Arguments::Missing {
            self.arguments = match piece.trim_start().chars().next() {
                None => return Some(()),
                Some('{') => Arguments::Object,
                Some('"') => Arguments::Text(String::new()),
                Some(_) if piece.trim() == "null" => Arguments::Text("\"\"".to_owned()),
                Some(_) => return None,
            };
        }
        let json = match &mut self.arguments {
            Arguments::Object => piece.to_owned(),
            Arguments::Text(text) => {
                if piece.trim() != "null" {
                    text.push_str(piece);
                }
                if !has_ended {
                    return Some(());
                }
                let text: String = serde_json::from_str(text).ok()?;
                let text = if text.trim().is_empty() { "{}" } else { &text };
                let json = Literal::convert(text).filter(|json| json.starts_with('{'))?;
                self.is_unreadable |= serde_json::from_str::<serde_json::Value>(&json).is_err();
                json
            }
            Arguments::Missing | Arguments::Complete => return None,
        };
        if has_ended {
            self.arguments = Arguments::Complete;
        }
        if self.is_named() { out } else { &mut self.early }.push_str(&json);
        Some(())
    }
}
