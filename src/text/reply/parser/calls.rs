//! Parser states of a tool call: its name, and its arguments as one JSON object, one by one, or as literals.

use std::mem;

use serde_json::Value as Json;

use super::{OpenValue, ReplyParser, State, ValueKind};
use crate::text::reply::arguments::Arguments;
use crate::text::reply::form::{Argument, Body, CallForm};
use crate::text::reply::literal::{Literal, escape};
use crate::text::reply::nested;
use crate::text::reply::object::{ObjectCall, Step};
use crate::text::reply::replies::{After, EventKind, Found, Reply, Tool, is_text, resolved, value};
use crate::text::reply::search::{earlier, end_of_value, key, unclosed};
use crate::text::reply::tags::{Match, matches};

/// Maximum number of surplus closing brackets after a call that are ignored.
const MAX_BRACKETS: usize = 4;

impl ReplyParser {
    pub(super) fn object(&mut self, mut object: Box<ObjectCall>, rest: &str) -> Option<usize> {
        let reply = self.reply.clone();
        let Some(Body::Object { name, arguments, .. }) = reply.form.calls.as_ref().map(|calls| &calls.body) else {
            return None;
        };
        let mut json = String::new();
        for (i, c) in rest.char_indices() {
            let was_named = object.is_named();
            let step = object.push(c, name, arguments, &reply.tools, &mut json);
            if let Some(name) = object.name().filter(|_| !was_named) {
                self.begin_call(name, object.id().as_deref());
            }
            if step == Step::More {
                continue;
            }
            self.emit(EventKind::ToolArguments, false, &json);
            match step {
                // The object's closing bracket is missing.
                Step::Failed if object.has_arguments() && object.is_named() && object.raw().trim().is_empty() => {
                    self.calls += 1;
                    self.any_unparsed = true;
                    self.state = State::CallEnd;
                }
                Step::Failed if object.is_named() => self.give_up_call(object.raw()),
                Step::Failed => self.give_up(object.raw()),
                _ => {
                    self.calls += 1;
                    self.any_unparsed |= object.is_unreadable();
                    self.state = State::CallEnd;
                    return Some(i + c.len_utf8());
                }
            }
            return Some(i);
        }
        self.emit(EventKind::ToolArguments, false, &json);
        self.state = State::Object(object);
        (!rest.is_empty()).then_some(rest.len())
    }

    pub(super) fn named(&mut self, mut arguments: Box<Arguments>, rest: &str) -> Option<usize> {
        let mut json = String::new();
        for (i, c) in rest.char_indices() {
            if arguments.push(c, &mut json).is_err() {
                self.emit(EventKind::ToolArguments, false, &json);
                self.give_up_call(arguments.raw());
                return Some(i);
            }
            if arguments.is_done() {
                self.emit(EventKind::ToolArguments, false, &json);
                self.calls += 1;
                self.any_unparsed |= arguments.is_unreadable();
                self.state = State::CallEnd;
                return Some(i + c.len_utf8());
            }
        }
        self.emit(EventKind::ToolArguments, false, &json);
        self.state = State::Named(arguments);
        (!rest.is_empty()).then_some(rest.len())
    }

    pub(super) fn arguments(
        &mut self,
        tool: usize,
        mut keys: Vec<String>,
        rest: &str,
        following: After,
    ) -> Option<usize> {
        let reply = self.reply.clone();
        let (calls, argument) = tagged(&reply)?;
        let text = rest.trim_start();
        let blank = rest.len() - text.len();
        if let Match::Full(n) = matches(calls.after.trim(), text) {
            self.emit(EventKind::ToolArguments, false, "}");
            self.calls += 1;
            self.state = State::AfterCall;
            return Some(blank + n);
        }
        let found = match matches(argument.before.trim(), text) {
            Match::Full(n) => key(argument, &text[n..]).map(|found| (n, found)),
            other => Err(other),
        };
        match found {
            Ok((n, (name, end, is_text_tag))) if !keys.contains(&name) => {
                let comma = if keys.is_empty() { "" } else { ", " };
                self.emit(EventKind::ToolArguments, false, &format!("{comma}{}: ", Json::from(name.as_str())));
                let is_text = match argument.other {
                    Some(_) => is_text_tag,
                    None => is_text(&schema(&reply.tools[tool], &name)),
                };
                let kind =
                    if is_text && !argument.in_cdata { ValueKind::Text } else { ValueKind::Other(String::new(), 0) };
                keys.push(name);
                self.state = State::Value(OpenValue { tool, keys, kind, begun: false });
                Some(blank + n + end)
            }
            Err(Match::Partial) if following != After::End => {
                self.state = State::Arguments { tool, keys };
                None
            }
            _ if matches(calls.after.trim(), text) == Match::Partial && following != After::End => {
                self.state = State::Arguments { tool, keys };
                None
            }
            _ if text.is_empty() => {
                self.state = State::Arguments { tool, keys };
                None
            }
            _ => {
                self.give_up_call("");
                Some(0)
            }
        }
    }

    pub(super) fn value(&mut self, value: OpenValue, rest: &str, following: After) -> Option<usize> {
        let OpenValue { tool, keys, mut kind, mut begun } = value;
        let reply = self.reply.clone();
        let (calls, argument) = tagged(&reply)?;
        let mut at = 0;
        if !begun && !rest.is_empty() {
            let in_front = &argument.text[argument.text.trim_end().len()..];
            if rest.len() < in_front.len() && in_front.starts_with(rest) && following == After::More {
                self.state = State::Value(OpenValue { tool, keys, kind, begun });
                return None;
            }
            begun = true;
            if rest.starts_with(in_front) {
                at = in_front.len();
            }
            if matches!(kind, ValueKind::Text) {
                self.emit(EventKind::ToolArguments, false, "\"");
            }
        }
        let text = &rest[at..];
        let name = keys.last().map_or("", String::as_str);
        let close = argument.close(name);
        let space = &close[..close.len() - close.trim_start().len()];
        let nested = match (&argument.nested, &kind) {
            (Some(mark), ValueKind::Other(_, open)) => Some((mark.as_str(), *open)),
            _ => None,
        };
        let found = end_of_value(text, following, calls, nested, &close);
        // Models omit the closing tag of a value before the next argument or the end of the call.
        let found = match argument.nested.is_some() || argument.in_cdata {
            true => found,
            false => earlier(found, unclosed(text, following, calls, &reply.tools[tool], &keys)),
        };
        let (end, next) = match found {
            Found::At(end, next, _) => (end, next),
            Found::Incomplete(end) => (end, end),
            Found::None => (text.len(), text.len()),
        };
        let (is_complete, is_closed) = (matches!(found, Found::At(..)), next > end);
        let mut part = mem::take(&mut self.gap) + &text[..end];
        match (is_complete, is_closed) {
            (true, true) => part.truncate(part.strip_suffix(space).unwrap_or(&part).len()),
            (true, false) => part.truncate(part.trim_end().len()),
            (false, _) => self.gap = part.split_off(part.trim_end().len()),
        }
        match &mut kind {
            ValueKind::Text => {
                let mut json = String::new();
                part.chars().for_each(|c| escape(c, &mut json));
                if is_complete {
                    json.push('"');
                }
                self.emit(EventKind::ToolArguments, false, &json);
            }
            ValueKind::Other(value, open) => {
                value.push_str(&part);
                *open += nested.map_or(0, |(mark, _)| nested::balance(&part, mark));
            }
        }
        if !is_complete {
            self.state = State::Value(OpenValue { tool, keys, kind, begun });
            return (at + end > 0).then_some(at + end);
        }
        if let ValueKind::Other(text, _) = kind {
            let json = json_of(&text, argument, &reply.tools[tool], name);
            self.emit(EventKind::ToolArguments, false, &json);
        }
        self.state = State::Arguments { tool, keys };
        Some(at + next)
    }

    /// Returns JSON of the received part of an argument whose value was cut; empty if the value cannot be converted
    /// yet.
    pub(super) fn begun_json(&self, tool: usize, name: &str, text: &str) -> String {
        let Some(argument) = tagged(&self.reply).map(|(_, argument)| argument) else { return String::new() };
        let text = text.trim_start();
        let (mut literal, mut json) = (Literal::new(), String::new());
        if is_text(&schema(&self.reply.tools[tool], name)) {
            json.push('"');
            text.strip_prefix("<![CDATA[").unwrap_or(text).chars().for_each(|c| escape(c, &mut json));
        } else if argument.nested.is_some() || !text.chars().all(|c| literal.push(c, &mut json).is_ok()) {
            json.clear();
        }
        json
    }

    /// True if white space at the end of a text between tags may begin the closing tag.
    pub(super) fn is_in_close(&self) -> bool {
        let State::Value(OpenValue { keys, kind: ValueKind::Text, .. }) = &self.state else { return false };
        let name = keys.last().map_or("", String::as_str);
        tagged(&self.reply).is_some_and(|(_, argument)| argument.close(name).starts_with(&self.gap))
    }

    pub(super) fn call_end(&mut self, rest: &str, following: After) -> Option<usize> {
        let reply = self.reply.clone();
        let after = Self::calls_form(&reply).map_or("", |calls| calls.after.trim());
        let (text, is_at_end) = (rest.trim_start(), following == After::End);
        match matches(after, text) {
            Match::Full(n) => {
                self.state = State::AfterCall;
                Some(rest.len() - text.len() + n)
            }
            Match::Partial if following != After::End || text.is_empty() => {
                self.state = State::CallEnd;
                None
            }
            _ => {
                // Models write too many closing brackets.
                let following = text.trim_start_matches([']', '}']);
                let brackets = text.len() - following.len();
                let end = match matches(after, following.trim_start()) {
                    _ if after.is_empty() || !(1..=MAX_BRACKETS).contains(&brackets) => Match::No,
                    Match::Partial if is_at_end => Match::No,
                    end => end,
                };
                match end {
                    Match::Full(n) => {
                        self.any_unparsed = true;
                        self.state = State::AfterCall;
                        Some(rest.len() - following.trim_start().len() + n)
                    }
                    Match::Partial => {
                        self.state = State::CallEnd;
                        None
                    }
                    Match::No => {
                        self.is_unparsed = true;
                        self.state = State::AfterCall;
                        Some(0)
                    }
                }
            }
        }
    }
}

fn tagged(reply: &Reply) -> Option<(&CallForm, &Argument)> {
    match reply.form.calls.as_ref() {
        Some(calls @ CallForm { body: Body::Tagged { argument, .. }, .. }) => Some((calls, argument)),
        _ => None,
    }
}

fn schema(tool: &Tool, argument: &str) -> Json {
    resolved(&tool.parameters["properties"][argument], &tool.parameters)
}

/// Returns the value of a non-text argument, as JSON.
fn json_of(text: &str, argument: &Argument, tool: &Tool, name: &str) -> String {
    let data = text.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
    match (data.filter(|_| argument.in_cdata), &argument.nested) {
        (Some(data), _) => Json::from(data).to_string(),
        (None, Some(mark)) => nested::json(text, mark, &schema(tool, name), &tool.parameters),
        // The tag before it declares JSON.
        (None, None) if argument.other.is_some() && serde_json::from_str::<Json>(text).is_ok() => {
            text.trim().to_owned()
        }
        (None, None) => value(text, &schema(tool, name)),
    }
}
