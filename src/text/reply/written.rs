//! Conversations with tool calls for templates that omit them: the calls are written into the content of their message,
//! in the model's form. Uses `form`. Tags around calls count as the template's text, so that they become special
//! tokens; names and arguments count as the conversation's.

use serde_json::Value as Json;

use crate::error::Result;
use crate::text::chat::Chat;
use crate::text::marks::MarkedText;
use crate::text::reply::form::{Body, CallForm, Dialect};
use crate::text::reply::tags::NAME;
use crate::text::template::chat_template::ChatTemplate;

/// Renders a conversation. `calls`: form of the calls that the template omits.
///
/// # Errors
/// The errors of `ChatTemplate::render`.
pub fn render(template: &ChatTemplate, calls: Option<&CallForm>, chat: &Chat) -> Result<MarkedText> {
    let Some(calls) = calls.filter(|_| chat.has_calls()) else { return template.render(chat) };
    if !template.loses_calls()? {
        return template.render(chat);
    }
    let mut tags = Tags { marks: chat.free_characters(), texts: Vec::new() };
    let Some(chat) = chat.with_calls_as_text(|list| calls.written(list, &mut tags)) else {
        return template.render(chat);
    };
    let mut text = template.render(&chat)?;
    for (mark, tag) in &tags.texts {
        text.text = text.text.replace(text.marks.mark_char(*mark), tag);
    }
    Ok(text)
}

/// Characters that do not occur in the conversation, each of which replaces a tag.
struct Tags<I> {
    marks: I,
    texts: Vec<(char, String)>,
}

impl<I: Iterator<Item = char>> Tags<I> {
    /// Returns the character that replaces a tag in the text of a message.
    fn mark(&mut self, tag: &str) -> Option<String> {
        if tag.is_empty() {
            return Some(String::new());
        }
        if let Some((mark, _)) = self.texts.iter().find(|(_, text)| text == tag) {
            return Some(mark.to_string());
        }
        let mark = self.marks.next()?;
        self.texts.push((mark, tag.to_owned()));
        Some(mark.to_string())
    }
}

impl CallForm {
    /// Returns the text of tool calls, with characters in place of tags; `None` unless the form is a JSON object or a
    /// Python call.
    fn written(&self, calls: &[Json], tags: &mut Tags<impl Iterator<Item = char>>) -> Option<String> {
        let mut out = tags.mark(&self.open)?;
        for (i, call) in calls.iter().enumerate() {
            let name = call["function"]["name"].as_str()?;
            let arguments = match &call["function"]["arguments"] {
                Json::String(text) => serde_json::from_str(text).ok()?,
                object => object.clone(),
            };
            out.push_str(&tags.mark(if i > 0 { self.between.as_deref()? } else { "" })?);
            out.push_str(&tags.mark(&self.before)?);
            match &self.body {
                Body::Object { head, tail, .. } => {
                    let (head, tail) = (head.replace(NAME, name), tail.replace(NAME, name));
                    out.extend([head, spaced(&arguments), tail]);
                }
                Body::Named { middle, dialect: Dialect::Python } => {
                    let arguments = arguments.as_object()?.iter();
                    let arguments: Vec<_> = arguments.map(|(key, value)| format!("{key}={}", python(value))).collect();
                    out.push_str(&format!("{name}{middle}({})", arguments.join(", ")));
                }
                Body::Named { .. } | Body::Tagged { .. } => return None,
            }
            out.push_str(&tags.mark(&self.after)?);
        }
        out.push_str(&tags.mark(&self.close)?);
        Some(out)
    }
}

/// Returns JSON formatted like Python's `json.dumps` and templates.
fn spaced(value: &Json) -> String {
    nested(value, ["true", "false", "null"])
}

/// Returns a Python literal.
fn python(value: &Json) -> String {
    nested(value, ["True", "False", "None"])
}

fn nested(value: &Json, words: [&str; 3]) -> String {
    match value {
        Json::Bool(true) => words[0].to_owned(),
        Json::Bool(false) => words[1].to_owned(),
        Json::Null => words[2].to_owned(),
        Json::Array(list) => {
            format!("[{}]", list.iter().map(|value| nested(value, words)).collect::<Vec<_>>().join(", "))
        }
        Json::Object(members) => {
            let member =
                |(name, value): (&String, &Json)| format!("{}: {}", Json::from(name.as_str()), nested(value, words));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Json::Number(_) | Json::String(_) => value.to_string(),
    }
}
