//! A reply taken apart while its tokens come: reasoning, content, and calls with their arguments as JSON. Each character is
//! looked at once, but for the few of a tag that is not yet complete.
//! Relies on `reply` for what a reply may be; what is not understood is content.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use serde_json::Value as Json;

use super::literal::{Literal, escape};
use super::reply::{Event, EventKind, Found, Reply, Then, Tool, is_text, resolved, value};
use super::reply_form::{Argument, Body, CallForm};
use super::reply_nested;
use super::reply_object::{ObjectCall, Step};
use super::tags::{Match, matches};
use super::{TextStream, TokenKind, Tokenizer};
use crate::error::{Error, Result, secured};

/// Most bytes that a parser holds, taken and not yet taken.
const MAX_HELD: usize = 16 << 20;
/// Longest name of an argument.
const MAX_KEY: usize = 256;
/// Bytes that a step takes beside its text.
const WORKING: usize = 16 << 10;

pub struct ReplyParser {
    reply: Arc<Reply>,
    stream: TextStream,
    /// Text of which it is not yet known what it is.
    held: String,
    state: State,
    /// White space at the end of what was handed on, which is dropped where a tag follows.
    gap: String,
    /// Nothing but white space has come of this part, which is dropped where a tag was before it.
    is_fresh: bool,
    drops_space: bool,
    /// The part is none that is understood.
    is_unparsed: bool,
    any_unparsed: bool,
    calls: u32,
    events: VecDeque<Event>,
    /// Bytes of the events.
    waiting: usize,
    ended: bool,
}

enum State {
    Content,
    Reasoning,
    Object(Box<ObjectCall>),
    Named(Literal),
    /// Between the arguments of a call that have names of their own.
    Arguments {
        tool: usize,
        keys: Vec<String>,
    },
    Value {
        tool: usize,
        keys: Vec<String>,
        kind: ValueKind,
        begun: bool,
    },
    /// Behind the arguments.
    CallEnd,
    BehindCall,
}

enum ValueKind {
    Text,
    /// By the schema, once it is complete; with the members that are open in it.
    Other(String, isize),
}

impl ReplyParser {
    pub fn new(reply: Arc<Reply>) -> ReplyParser {
        let state = if reply.begins_in_reasoning { State::Reasoning } else { State::Content };
        ReplyParser {
            drops_space: reply.begins_in_reasoning,
            reply,
            stream: TextStream::continued(),
            held: String::new(),
            state,
            gap: String::new(),
            is_fresh: true,
            is_unparsed: false,
            any_unparsed: false,
            calls: 0,
            events: VecDeque::new(),
            waiting: 0,
            ended: false,
        }
    }

    /// Adds a token of the reply; one that ends a text ends it.
    ///
    /// # Errors
    /// `InvalidArgument` for one outside the vocabulary or behind the end, `TooComplex` where too much has not been taken.
    /// Nothing changes then.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<()> {
        if self.ended {
            return Err(Error::invalid(format!("token {token} behind the end of the reply")));
        }
        if tokenizer.is_end(token) {
            return self.end();
        }
        let mut text = String::new();
        let mut stream = self.stream;
        stream.push_all(tokenizer, token, &mut text)?;
        let is_control = tokenizer.kind(token) == Some(TokenKind::Control);
        self.secured(text.len(), |parser| {
            parser.stream = stream;
            parser.add(&text, is_control);
        })
    }

    /// Ends the reply.
    ///
    /// # Errors
    /// `OutOfMemory`, which changes nothing.
    pub fn end(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        let mut text = String::new();
        self.secured(0, |parser| {
            mem::take(&mut parser.stream).flush(&mut text);
            parser.held.push_str(&text);
            parser.advance(true);
            parser.finish();
            parser.ended = true;
        })
    }

    fn secured(&mut self, more: usize, work: impl FnOnce(&mut ReplyParser)) -> Result<()> {
        let held = self.size();
        if held + more > MAX_HELD && more > 0 {
            return Err(Error::TooComplex(format!("a reply of which {held} bytes have not been taken")));
        }
        // Vectors and texts double, and an escaped character has six bytes.
        secured("the reply", WORKING + 3 * held + 32 * more, || {
            work(self);
            Ok(())
        })
    }

    fn size(&self) -> usize {
        let state = match &self.state {
            State::Object(object) => object.size(),
            State::Value { kind: ValueKind::Other(text, _), .. } => text.len(),
            _ => 0,
        };
        self.held.len() + self.gap.len() + self.waiting + state
    }

    /// The next part, which stays where `take` fails.
    pub fn next<R>(&mut self, take: impl FnOnce(&Event) -> Result<R>) -> Result<Option<R>> {
        let Some(event) = self.events.front() else { return Ok(None) };
        let taken = take(event)?;
        self.waiting -= event.text.len();
        self.events.pop_front();
        Ok(Some(taken))
    }

    fn add(&mut self, text: &str, is_control: bool) {
        let in_text = matches!(self.state, State::Content | State::Reasoning | State::CallEnd | State::BehindCall);
        if is_control && in_text && !self.reply.is_tag(text) {
            // No tag reaches over it, and it is no text of the model's.
            self.advance(true);
            let gap = mem::take(&mut self.gap);
            self.emit_text(&gap);
            self.any_unparsed = true;
            self.emit(EventKind::Content, true, text);
            return;
        }
        self.held.push_str(text);
        self.advance(false);
    }

    /// Goes through what is held; `is_whole`: nothing more comes.
    fn advance(&mut self, is_whole: bool) {
        let held = mem::take(&mut self.held);
        let mut at = 0;
        while let Some(n) = self.step(&held[at..], is_whole) {
            at += n;
        }
        self.held = held[at..].to_owned();
    }

    /// One step: the number of bytes that are done with, or `None` where more has to come.
    fn step(&mut self, rest: &str, is_whole: bool) -> Option<usize> {
        match mem::replace(&mut self.state, State::Content) {
            State::Content => self.content(rest, is_whole),
            State::Reasoning => self.reasoning(rest, is_whole),
            State::Object(object) => self.object(object, rest),
            State::Named(literal) => self.named(literal, rest),
            State::Arguments { tool, keys } => self.arguments(tool, keys, rest, is_whole),
            State::Value { tool, keys, kind, begun } => self.value(tool, keys, kind, begun, rest, is_whole),
            State::CallEnd => self.call_end(rest, is_whole),
            State::BehindCall => self.behind_call(rest, is_whole),
        }
    }

    fn calls_form(reply: &Reply) -> Option<&CallForm> {
        reply.form.calls.as_ref()
    }

    fn content(&mut self, rest: &str, is_whole: bool) -> Option<usize> {
        let reply = self.reply.clone();
        match reply.in_content.find(rest, self.is_fresh, is_whole) {
            Found::None => {
                self.emit_text(rest);
                (!rest.is_empty()).then_some(rest.len())
            }
            Found::Wait(at) => {
                self.emit_text(&rest[..at]);
                (at > 0).then_some(at)
            }
            Found::At(at, end, then) => {
                self.emit_text(&rest[..at]);
                self.begin(then, &rest[at..end]);
                Some(end)
            }
        }
    }

    /// Begins the part that a tag stands for.
    fn begin(&mut self, then: Then, tag: &str) {
        let gap = mem::take(&mut self.gap);
        (self.is_fresh, self.drops_space) = (true, true);
        self.is_unparsed = false;
        match then {
            Then::Content => self.state = State::Content,
            Then::Reasoning => self.state = State::Reasoning,
            Then::Call(None) => {
                self.state = State::Object(Box::new(ObjectCall::new(gap + tag)));
            }
            Then::Call(Some(tool)) => {
                let name = self.reply.tools[tool].name.clone();
                self.emit(EventKind::ToolName, false, &name);
                self.state = match self.reply.form.calls.as_ref().map(|calls| &calls.body) {
                    Some(Body::Tagged { .. }) => {
                        self.emit(EventKind::ToolArguments, false, "{");
                        State::Arguments { tool, keys: Vec::new() }
                    }
                    _ => State::Named(Literal::new()),
                };
            }
            Then::Unknown => self.give_up(&(gap + tag)),
        }
    }

    /// Hands on what was taken for a part of a call as content, and all that follows it.
    fn give_up(&mut self, text: &str) {
        (self.is_fresh, self.drops_space) = (false, false);
        (self.is_unparsed, self.any_unparsed) = (true, true);
        self.state = State::Content;
        self.emit_text(text);
    }

    /// Ends a call that is not understood from `text` on.
    fn give_up_call(&mut self, text: &str) {
        self.calls += 1;
        self.give_up(text);
    }

    fn reasoning(&mut self, rest: &str, is_whole: bool) -> Option<usize> {
        self.state = State::Reasoning;
        let reply = self.reply.clone();
        let close = reply.form.reasoning.as_ref().map_or("", |tags| tags.close.trim());
        match find(close, rest, is_whole, |_| false, |_| Match::Full(0)) {
            Found::At(at, end, _) => {
                self.emit_text(&rest[..at]);
                self.begin(Then::Content, "");
                Some(end)
            }
            Found::Wait(at) => {
                self.emit_text(&rest[..at]);
                (at > 0).then_some(at)
            }
            Found::None => {
                self.emit_text(rest);
                (!rest.is_empty()).then_some(rest.len())
            }
        }
    }

    fn object(&mut self, mut object: Box<ObjectCall>, rest: &str) -> Option<usize> {
        let reply = self.reply.clone();
        let Some(Body::Object { name, arguments, .. }) = reply.form.calls.as_ref().map(|calls| &calls.body) else {
            return None;
        };
        let mut json = String::new();
        for (i, c) in rest.char_indices() {
            let was_named = object.is_named();
            let step = object.push(c, name, arguments, &reply.tools, &mut json);
            if let Some(name) = object.name().filter(|_| !was_named) {
                self.emit(EventKind::ToolName, false, name);
            }
            if step == Step::More {
                continue;
            }
            self.emit(EventKind::ToolArguments, false, &json);
            match step {
                Step::Failed if object.is_named() => self.give_up_call(object.raw()),
                Step::Failed => self.give_up(object.raw()),
                _ => {
                    self.calls += 1;
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

    fn named(&mut self, mut literal: Literal, rest: &str) -> Option<usize> {
        let mut json = String::new();
        for (i, c) in rest.char_indices() {
            if literal.push(c, &mut json).is_err() {
                self.emit(EventKind::ToolArguments, false, &json);
                self.give_up_call("");
                return Some(i);
            }
            if literal.is_done() {
                self.emit(EventKind::ToolArguments, false, &json);
                self.calls += 1;
                self.state = State::CallEnd;
                return Some(i + c.len_utf8());
            }
        }
        self.emit(EventKind::ToolArguments, false, &json);
        self.state = State::Named(literal);
        (!rest.is_empty()).then_some(rest.len())
    }

    fn arguments(&mut self, tool: usize, mut keys: Vec<String>, rest: &str, is_whole: bool) -> Option<usize> {
        let reply = self.reply.clone();
        let (calls, argument) = tagged(&reply)?;
        let text = rest.trim_start();
        let blank = rest.len() - text.len();
        if let Match::Full(n) = matches(calls.after.trim(), text) {
            self.emit(EventKind::ToolArguments, false, "}");
            self.calls += 1;
            self.state = State::BehindCall;
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
                self.state = State::Value { tool, keys, kind, begun: false };
                Some(blank + n + end)
            }
            Err(Match::Partial) if !is_whole => {
                self.state = State::Arguments { tool, keys };
                None
            }
            _ if matches(calls.after.trim(), text) == Match::Partial && !is_whole => {
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

    fn value(
        &mut self,
        tool: usize,
        keys: Vec<String>,
        mut kind: ValueKind,
        mut begun: bool,
        rest: &str,
        is_whole: bool,
    ) -> Option<usize> {
        let reply = self.reply.clone();
        let (calls, argument) = tagged(&reply)?;
        let mut at = 0;
        if !begun && !rest.is_empty() {
            let in_front = &argument.text[argument.text.trim_end().len()..];
            if rest.len() < in_front.len() && in_front.starts_with(rest) && !is_whole {
                self.state = State::Value { tool, keys, kind, begun };
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
        let behind = &close[..close.len() - close.trim_start().len()];
        let (nested, open) = match (&argument.nested, &kind) {
            (Some(mark), ValueKind::Other(_, open)) => (Some(mark.as_str()), *open),
            _ => (None, 0),
        };
        // A value may hold the tag too: it ends where a call goes on behind it.
        let goes_on = |text: &str| {
            let text = text.trim_start();
            let tags = [argument.before.trim(), calls.after.trim()];
            let found = tags.map(|tag| if tag.is_empty() { Match::Full(0) } else { matches(tag, text) });
            found
                .into_iter()
                .max_by_key(|found| match found {
                    Match::No => 0,
                    Match::Partial => 1,
                    Match::Full(_) => 2,
                })
                .unwrap_or(Match::No)
        };
        let is_open = |at: usize| nested.is_some_and(|mark| open + reply_nested::balance(&text[..at], mark) != 0);
        let found = find(close.trim(), text, is_whole, is_open, goes_on);
        let (end, next) = match found {
            Found::At(end, next, _) => (end, next),
            Found::Wait(end) => (end, end),
            Found::None => (text.len(), text.len()),
        };
        let is_complete = matches!(found, Found::At(..));
        let mut part = mem::take(&mut self.gap) + &text[..end];
        if is_complete {
            part.truncate(part.strip_suffix(behind).unwrap_or(&part).len());
        } else {
            // White space that the tag may begin with, whole characters of it.
            let at = part.trim_end().len().max(part.len().saturating_sub(behind.len()));
            let at = (at..=part.len()).find(|at| part.is_char_boundary(*at)).unwrap_or(part.len());
            self.gap = part.split_off(at);
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
                *open += nested.map_or(0, |mark| reply_nested::balance(&part, mark));
            }
        }
        if !is_complete {
            self.state = State::Value { tool, keys, kind, begun };
            return (at + end > 0).then_some(at + end);
        }
        if let ValueKind::Other(text, _) = kind {
            let data = text.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
            let json = match data.filter(|_| argument.in_cdata) {
                Some(data) => Json::from(data).to_string(),
                None => {
                    let (root, schema) = (&reply.tools[tool].parameters, schema(&reply.tools[tool], name));
                    match nested {
                        Some(mark) => reply_nested::json(&text, mark, &schema, root),
                        None => value(&text, &schema),
                    }
                }
            };
            self.emit(EventKind::ToolArguments, false, &json);
        }
        self.state = State::Arguments { tool, keys };
        Some(at + next)
    }

    fn call_end(&mut self, rest: &str, is_whole: bool) -> Option<usize> {
        let reply = self.reply.clone();
        let after = Self::calls_form(&reply).map_or("", |calls| calls.after.trim());
        let text = rest.trim_start();
        match matches(after, text) {
            Match::Full(n) => {
                self.state = State::BehindCall;
                Some(rest.len() - text.len() + n)
            }
            Match::Partial if !is_whole || text.is_empty() => {
                self.state = State::CallEnd;
                None
            }
            _ => {
                self.is_unparsed = true;
                self.state = State::BehindCall;
                Some(0)
            }
        }
    }

    fn behind_call(&mut self, rest: &str, is_whole: bool) -> Option<usize> {
        let reply = self.reply.clone();
        let text = rest.trim_start();
        self.state = State::BehindCall;
        if text.is_empty() {
            return None;
        }
        match reply.behind_call.at(text, true, is_whole) {
            Found::At(_, end, then) => {
                self.begin(then, &text[..end]);
                Some(rest.len() - text.len() + end)
            }
            Found::Wait(_) => None,
            Found::None => {
                let is_unparsed = self.is_unparsed;
                self.begin(Then::Content, "");
                self.is_unparsed = is_unparsed;
                self.any_unparsed |= is_unparsed;
                Some(0)
            }
        }
    }

    /// Hands on what is left of a reply that has ended.
    fn finish(&mut self) {
        let held = mem::take(&mut self.held);
        let gap = mem::take(&mut self.gap);
        match mem::replace(&mut self.state, State::Content) {
            State::Object(object) if !object.is_named() => self.give_up(object.raw()),
            State::Value { kind: ValueKind::Other(text, _), .. } => {
                self.give_up_call(&(text + &gap + &held));
            }
            State::Value { kind: ValueKind::Text, .. } => {
                let mut json = String::new();
                (gap + &held).chars().for_each(|c| escape(c, &mut json));
                self.emit(EventKind::ToolArguments, false, &json);
                self.any_unparsed = true;
            }
            State::Object(object) => self.give_up_call(object.raw()),
            State::Named(_) | State::Arguments { .. } => self.give_up_call(""),
            state @ (State::Content | State::Reasoning) if !self.drops_space => {
                self.state = state;
                self.gap = gap;
            }
            _ => {}
        }
        // A text of white space alone.
        let gap = mem::take(&mut self.gap);
        let kind = self.text_kind();
        self.emit(kind, self.is_unparsed, &gap);
        self.events.push_back(Event {
            kind: EventKind::End,
            call: 0,
            unparsed: self.any_unparsed,
            text: String::new(),
        });
    }

    fn text_kind(&self) -> EventKind {
        if matches!(self.state, State::Reasoning) { EventKind::Reasoning } else { EventKind::Content }
    }

    /// Hands on a part of a text, less white space at its end, which a tag may follow.
    fn emit_text(&mut self, text: &str) {
        let end = text.trim_end().len();
        if end > 0 {
            let start = if self.drops_space { text.len() - text.trim_start().len() } else { 0 };
            let gap = mem::take(&mut self.gap);
            let gap = if self.drops_space { "" } else { &gap };
            let kind = self.text_kind();
            self.emit(kind, self.is_unparsed, gap);
            self.emit(kind, self.is_unparsed, &text[start..end]);
            (self.is_fresh, self.drops_space) = (false, false);
        }
        self.gap.push_str(&text[end..]);
    }

    fn emit(&mut self, kind: EventKind, unparsed: bool, text: &str) {
        if text.is_empty() {
            return;
        }
        let is_call = matches!(kind, EventKind::ToolName | EventKind::ToolArguments);
        let call = if is_call { self.calls } else { 0 };
        self.waiting += text.len();
        match self.events.back_mut() {
            Some(last)
                if kind != EventKind::ToolName && (last.kind, last.call, last.unparsed) == (kind, call, unparsed) =>
            {
                last.text.push_str(text);
            }
            _ => self.events.push_back(Event { kind, call, unparsed, text: text.to_owned() }),
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

/// The first place of a tag behind which the text goes on as it should. `is_open`: at a place it belongs to the text.
fn find(
    tag: &str,
    text: &str,
    is_whole: bool,
    is_open: impl Fn(usize) -> bool,
    goes_on: impl Fn(&str) -> Match,
) -> Found {
    let Some(first) = tag.chars().next() else { return Found::None };
    for (at, _) in text.match_indices(first) {
        match matches(tag, &text[at..]) {
            Match::Full(_) if is_open(at) => {}
            Match::Full(n) => match goes_on(&text[at + n..]) {
                Match::Full(_) => return Found::At(at, at + n, Then::Content),
                Match::Partial if is_whole => return Found::At(at, at + n, Then::Content),
                Match::Partial => return Found::Wait(at),
                Match::No => {}
            },
            Match::Partial if !is_whole => return Found::Wait(at),
            _ => {}
        }
    }
    Found::None
}

/// True for a name of an argument that is read back as it is.
pub fn is_key(argument: &Argument, name: &str) -> bool {
    let tags = argument.other.iter().chain([&argument.text]);
    name.len() <= MAX_KEY
        && tags.into_iter().all(|tag| key(argument, &format!("{name}{tag} ")).is_ok_and(|(found, _, _)| found == name))
}

/// The name of an argument at the beginning of a text, where its value begins, and whether that is a text by its tag.
fn key(argument: &Argument, text: &str) -> Result<(String, usize, bool), Match> {
    let tags = [Some((&argument.text, true)), argument.other.as_ref().map(|tag| (tag, false))];
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        for (tag, is_text) in tags.into_iter().flatten() {
            match matches(tag.trim(), &text[at..]) {
                Match::Full(n) => return Ok((text[..at].trim().to_owned(), at + n, is_text)),
                Match::Partial => return Err(Match::Partial),
                Match::No => {}
            }
        }
        if at > MAX_KEY || c == '\n' {
            break;
        }
    }
    Err(Match::No)
}
