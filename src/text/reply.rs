//! The possible replies to one conversation: the form in which its model writes, the tools that it may call, and the texts
//! that begin and end the parts. Relies on `reply_form`; the reply itself is read elsewhere.

use std::sync::Arc;

use serde_json::Value as Json;

use super::chat::{Chat, ToolChoice};
use super::literal::Literal;
use super::marks::MarkedText;
use super::reply_form::{Body, CallForm, Dialect, ReplyForm};
use super::tags::{ANY, Match, NAME, matches};
use crate::error::{Error, Result};

/// Longest name of a tool.
const MAX_NAME: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Reasoning,
    Content,
    ToolName,
    /// A part of the JSON of the arguments.
    ToolArguments,
    End,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// Number of the call.
    pub call: u32,
    /// It begins like a call or a tag, and is none; of the end: something before it did.
    pub unparsed: bool,
    pub text: String,
}

pub struct Tool {
    pub name: String,
    /// JSON schema of its arguments.
    pub parameters: Json,
}

/// The possible replies to a conversation.
pub struct Reply {
    pub form: Arc<ReplyForm>,
    /// Empty where the reply may hold no calls; the named one where there is one.
    pub tools: Vec<Tool>,
    pub choice: ToolChoice,
    pub parallel_calls: bool,
    /// The prompt ends within reasoning.
    pub begins_in_reasoning: bool,
    /// Texts that begin a part, in content and behind a call.
    pub(super) in_content: Triggers,
    pub(super) behind_call: Triggers,
}

/// The part that a text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Content,
    Reasoning,
    /// A call, of this tool where its name was in the text.
    Call(Option<usize>),
    /// A call of a tool that there is not.
    Unknown,
}

/// A text that begins a part of a reply.
#[derive(Debug)]
struct Trigger {
    tag: String,
    /// Bytes at its end that belong to what follows.
    keep: usize,
    /// It counts only where nothing but white space is before it.
    at_start: bool,
    then: Then,
}

/// The first of several texts in a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    None,
    /// From this place on more text has to come.
    Wait(usize),
    /// At a place, up to another.
    At(usize, usize, Then),
}

#[derive(Debug, Default)]
pub(super) struct Triggers {
    list: Vec<Trigger>,
    firsts: Vec<char>,
}

impl Triggers {
    fn add(&mut self, tag: &str, keep: usize, at_start: bool, then: Then) {
        if let Some(first) = tag.trim().chars().next() {
            self.list.push(Trigger { tag: tag.trim().to_owned(), keep, at_start, then });
            if !self.firsts.contains(&first) {
                self.firsts.push(first);
            }
        }
    }

    /// The first trigger in a text, `at_start`: with nothing but white space before it.
    pub fn find(&self, text: &str, at_start: bool, is_whole: bool) -> Found {
        let blank = text.len() - text.trim_start().len();
        for (at, c) in text.char_indices() {
            if self.firsts.contains(&c) {
                match self.at(&text[at..], at_start && at <= blank, is_whole) {
                    Found::None => {}
                    Found::Wait(_) => return Found::Wait(at),
                    Found::At(_, end, then) => return Found::At(at, at + end, then),
                }
            }
        }
        Found::None
    }

    /// The first trigger with which a text begins.
    pub fn at(&self, text: &str, at_start: bool, is_whole: bool) -> Found {
        for trigger in self.list.iter().filter(|trigger| at_start || !trigger.at_start) {
            match matches(&trigger.tag, text) {
                Match::No => {}
                Match::Partial if is_whole => {}
                Match::Partial => return Found::Wait(0),
                Match::Full(n) => return Found::At(0, n - trigger.keep, trigger.then),
            }
        }
        Found::None
    }

    /// The triggers that begin a call; `lead`: the text before the name or the object, `middle`: that behind the name.
    fn add_calls(&mut self, lead: &str, middle: &str, calls: &CallForm, tools: &[Tool]) {
        let at_start = lead.trim().is_empty();
        let follows: Vec<&str> = match &calls.body {
            Body::Object { .. } if at_start => return self.add("{", 1, true, Then::Call(None)),
            Body::Object { .. } => return self.add(lead, 0, false, Then::Call(None)),
            Body::Named { dialect, .. } => vec![if *dialect == Dialect::Python { "(" } else { "{" }],
            Body::Tagged { argument, .. } => vec![argument.before.trim(), calls.after.trim()],
        };
        for (i, tool) in tools.iter().enumerate() {
            for follow in &follows {
                let tag = format!("{}{}{middle}{follow}", lead.replace(NAME, &tool.name), tool.name);
                self.add(&tag, follow.len(), at_start, Then::Call(Some(i)));
            }
        }
        if lead.trim().len() > 2 && !lead.contains(NAME) {
            self.add(lead, 0, false, Then::Unknown);
        }
    }
}

impl Reply {
    /// The reply to a conversation, which ends in `prompt`.
    ///
    /// # Errors
    /// `Unsupported` where there are tools, and how they are called cannot be read off the template.
    pub fn new(form: Arc<ReplyForm>, chat: &Chat, prompt: &MarkedText) -> Result<Reply> {
        let mut tools = Vec::new();
        for (i, tool) in chat.tools().iter().enumerate() {
            let name = tool["function"]["name"].as_str().unwrap_or_default();
            if name.is_empty()
                || name.len() > MAX_NAME
                || name.chars().any(|c| c.is_whitespace() || c.is_control() || c == ANY || c == NAME)
            {
                return Err(Error::invalid(format!(
                    "tools[{i}].function.name is {name:?}, which is no name of a tool"
                )));
            }
            let is_asked = match &chat.tool_choice {
                ToolChoice::None => false,
                ToolChoice::Named(asked) => asked == name,
                _ => true,
            };
            if is_asked {
                tools.push(Tool { name: name.to_owned(), parameters: tool["function"]["parameters"].clone() });
            }
        }
        if form.calls.is_none() && !tools.is_empty() {
            return Err(Error::unsupported("the form of tool calls cannot be read off the chat template"));
        }
        // The template's own words at the end.
        let last = prompt.text.char_indices().rev().find(|(_, c)| prompt.marks.is_mark(*c));
        let prompt = &prompt.text[last.map_or(0, |(i, c)| i + c.len_utf8())..];
        let begins_in_reasoning = form.reasoning.as_ref().is_some_and(|tags| {
            prompt.rfind(&tags.open).is_some_and(|at| !prompt[at + tags.open.len()..].contains(&tags.close))
        });
        let (in_content, behind_call) = triggers(&form, &tools);
        let (choice, parallel_calls) = (chat.tool_choice.clone(), chat.parallel_calls);
        Ok(Reply { form, tools, choice, parallel_calls, begins_in_reasoning, in_content, behind_call })
    }

    /// True for a text that is a part of some tag.
    pub(super) fn is_tag(&self, text: &str) -> bool {
        let reasoning = self.form.reasoning.iter().map(|tags| tags.close.as_str());
        let mut tags: Vec<&str> = reasoning.collect();
        for triggers in [&self.in_content, &self.behind_call] {
            tags.extend(triggers.list.iter().map(|trigger| trigger.tag.as_str()));
        }
        if let Some(calls) = self.form.calls.as_ref().filter(|_| !self.tools.is_empty()) {
            tags.extend([calls.after.as_str(), calls.close.as_str()]);
            match &calls.body {
                Body::Object { tail, .. } => tags.push(tail),
                // The quote of texts.
                Body::Named { .. } => tags.push("<|\"|>"),
                Body::Tagged { argument, .. } => {
                    tags.extend([argument.before.as_str(), argument.text.as_str(), argument.after.as_str()]);
                    tags.extend(argument.other.as_deref());
                }
            }
        }
        tags.iter().any(|tag| tag.contains(text))
    }
}

fn triggers(form: &ReplyForm, tools: &[Tool]) -> (Triggers, Triggers) {
    let (mut in_content, mut behind_call) = (Triggers::default(), Triggers::default());
    if let Some(calls) = form.calls.as_ref().filter(|_| !tools.is_empty()) {
        let middle = match &calls.body {
            Body::Object { .. } => "",
            Body::Named { middle, .. } | Body::Tagged { middle, .. } => middle,
        };
        let (open, before) = (&calls.open, &calls.before);
        let first = format!("{open}{before}");
        let next = calls.between.as_ref().map(|between| format!("{between}{before}"));
        for other in &calls.others {
            let middle = if other.close.is_empty() { middle } else { &other.close };
            in_content.add_calls(&other.open, middle, calls, tools);
            behind_call.add_calls(&other.open, middle, calls, tools);
        }
        in_content.add_calls(&first, middle, calls, tools);
        if let Some(next) = &next {
            // A list's comma begins nothing in a text.
            if next.trim().chars().count() > 2 && next.trim() != first.trim() {
                in_content.add_calls(next, middle, calls, tools);
            }
            behind_call.add_calls(next, middle, calls, tools);
        }
        if next.is_none_or(|next| next.trim() != first.trim()) {
            behind_call.add_calls(&first, middle, calls, tools);
        }
        behind_call.add(&calls.close, 0, false, Then::Content);
    }
    if let Some(tags) = &form.reasoning {
        in_content.add(&tags.open, 0, true, Then::Reasoning);
        in_content.add(&tags.close, 0, true, Then::Content);
    }
    let at_start = |tag: &str| !tag.contains(|c: char| c.is_ascii_punctuation());
    for tag in [&form.content.open, &form.content.close].into_iter().chain(&form.fillers) {
        in_content.add(tag, 0, at_start(tag), Then::Content);
    }
    (in_content, behind_call)
}

/// The types that a schema allows; `None` where it does not say.
fn types(schema: &Json) -> Option<Vec<&str>> {
    let of_value = |value: &Json| match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    match &schema["type"] {
        Json::String(name) => return Some(vec![name]),
        Json::Array(names) => return names.iter().map(Json::as_str).collect(),
        _ => {}
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().map(of_value).collect());
    }
    if let Some(value) = schema.get("const") {
        return Some(vec![of_value(value)]);
    }
    let parts = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array())?;
    parts.iter().map(types).collect::<Option<Vec<_>>>().map(|types| types.concat())
}

/// True where a schema allows text alone.
pub fn is_text(schema: &Json) -> bool {
    types(schema).is_some_and(|types| !types.is_empty() && types.iter().all(|name| *name == "string"))
}

/// JSON of a value that was written without quotes, by its schema.
pub(super) fn value(text: &str, schema: &Json) -> String {
    let allowed = types(schema);
    let allows = |names: &[&str]| allowed.as_ref().is_none_or(|types| types.iter().any(|name| names.contains(name)));
    let json = [Some(text.trim().to_owned()), Literal::convert(text)].into_iter().flatten();
    for json in json {
        let fits = match serde_json::from_str(&json) {
            Ok(Json::Null) => allows(&["null"]),
            Ok(Json::Bool(_)) => allows(&["boolean"]),
            Ok(Json::Number(_)) => allows(&["number", "integer"]),
            Ok(Json::Array(_)) => allows(&["array"]),
            Ok(Json::Object(_)) => allows(&["object"]),
            _ => false,
        };
        if fits {
            return json;
        }
    }
    Json::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_have_the_types_of_their_schema() {
        for (text, schema, want) in [
            ("17", json!({"type": "integer"}), "17"),
            ("17", json!({"type": "string"}), "\"17\""),
            ("17", json!({}), "17"),
            ("True", json!({"type": "boolean"}), "true"),
            ("null", json!({"type": ["string", "null"]}), "null"),
            ("17", json!({"type": ["string", "null"]}), "\"17\""),
            ("{'a': None}", json!({"type": "object"}), "{\"a\": null}"),
            ("red", json!({"enum": ["red", 1]}), "\"red\""),
            ("[1, 2", json!({"type": "array"}), "\"[1, 2\""),
            ("7", json!({"anyOf": [{"type": "number"}, {"type": "string"}]}), "7"),
        ] {
            assert_eq!(value(text, &schema), want, "{text} {schema}");
        }
    }
}
