//! Incremental parser of a reply: reasoning, content, and tool calls with their arguments as JSON. Visits each
//! character once, except in incomplete tags. Uses `replies` for the possible parts; everything else is content.

mod ahead;
mod calls;

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, secured};
use crate::text::chat::ids::NewIds;
use crate::text::reply::arguments::Arguments;
use crate::text::reply::form::{Body, CallForm};
use crate::text::reply::literal::{WIDE_QUOTE, escape};
use crate::text::reply::object::ObjectCall;
use crate::text::reply::replies::{After, Event, EventKind, Found, MESSAGE, Reply, Then};
use crate::text::reply::search::{earlier, find};
use crate::text::reply::tags::{Match, matches};
use crate::text::reply::whole::WholeCall;
use crate::text::{Stops, TextStream, TokenKind, Tokenizer};

/// Maximum bytes in a parser: held back, and not yet read.
const MAX_HELD: usize = 16 << 20;
/// Maximum length of a message header.
const MAX_HEADER: usize = 512;
/// Bytes of a step in addition to its text.
const WORKING: usize = 16 << 10;

pub struct ReplyParser {
    reply: Arc<Reply>,
    stream: TextStream,
    /// Text that is still unclassified.
    held: String,
    /// Bytes of the reply before `held`. `controls`: ranges in the reply of control tokens that may belong to tags.
    consumed: usize,
    controls: VecDeque<Range<usize>>,
    /// Stop sequences of the content. `unsure`: bytes of the last event that may begin one. `is_stopped`: true if one
    /// is complete.
    stops: Stops,
    unsure: usize,
    is_stopped: bool,
    state: State,
    /// Trailing white space of the emitted text, dropped if a tag follows.
    gap: String,
    /// True while only white space of this part has come. `drops_space`: true to drop it, because a tag precedes it.
    is_fresh: bool,
    drops_space: bool,
    /// True if reasoning text has been received, and the same for content.
    has_reasoning_text: bool,
    has_content_text: bool,
    /// True if the current part cannot be parsed. `any_unparsed`: true if any part could not be parsed.
    is_unparsed: bool,
    any_unparsed: bool,
    calls: u32,
    ids: NewIds,
    events: VecDeque<Event>,
    /// Bytes in `events`.
    waiting: usize,
    ended: bool,
}

enum State {
    Content,
    Reasoning,
    /// The header of a message, with the text that begins it.
    Header(String),
    Object(Box<ObjectCall>),
    Named(Box<Arguments>),
    /// Between the named arguments of a call.
    Arguments {
        tool: usize,
        keys: Vec<String>,
    },
    Value(OpenValue),
    /// After the arguments.
    CallEnd,
    AfterCall,
    /// A call within reasoning, valid if the reply ends with it.
    Rehearsal(Box<Rehearsal>),
    /// An untagged object at the start of a reply, a call if it is the whole reply.
    WholeCall(Box<WholeCall>),
}

/// A call within reasoning: its text, and a parser whose events count only if the reply ends after the call.
struct Rehearsal {
    text: String,
    /// True if some of the text is control tokens.
    has_controls: bool,
    parser: ReplyParser,
}

/// An argument with an incomplete value.
struct OpenValue {
    tool: usize,
    /// The names of the call's arguments so far; the last one is this argument's.
    keys: Vec<String>,
    kind: ValueKind,
    begun: bool,
}

enum ValueKind {
    Text,
    /// A non-string value, converted by its schema once complete, and its number of open nested members.
    Other(String, isize),
}

impl ReplyParser {
    /// `stops`: sequences that end the content, and with it the reply.
    pub fn new(reply: Arc<Reply>, stops: Stops) -> ReplyParser {
        let state = if reply.begins_in_reasoning { State::Reasoning } else { State::Content };
        ReplyParser::begun(reply, stops, state)
    }

    /// Returns a parser of a text that begins within a part of a reply.
    fn begun(reply: Arc<Reply>, stops: Stops, state: State) -> ReplyParser {
        ReplyParser {
            drops_space: matches!(state, State::Reasoning),
            ids: reply.ids.clone(),
            reply,
            stream: TextStream::continued(),
            held: String::new(),
            consumed: 0,
            controls: VecDeque::new(),
            stops,
            unsure: 0,
            is_stopped: false,
            state,
            gap: String::new(),
            is_fresh: true,
            has_reasoning_text: false,
            has_content_text: false,
            is_unparsed: false,
            any_unparsed: false,
            calls: 0,
            events: VecDeque::new(),
            waiting: 0,
            ended: false,
        }
    }

    /// Adds a token of the reply; an end token ends it.
    ///
    /// # Errors
    /// `InvalidArgument` for a token outside the vocabulary or after the end, `TooComplex` if too much is unread. Then
    /// nothing changes.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<()> {
        if self.ended {
            return Err(Error::invalid(format!(
                "token {token} comes after the end of the reply; no token may follow it"
            )));
        }
        if tokenizer.is_end(token) {
            return self.end(true);
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

    /// Ends the reply. `is_whole`: true if an end token has ended it, false if it broke off.
    ///
    /// # Errors
    /// `OutOfMemory`; then nothing changes.
    pub fn end(&mut self, is_whole: bool) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        let mut text = String::new();
        self.secured(0, |parser| {
            mem::take(&mut parser.stream).flush(&mut text);
            parser.held.push_str(&text);
            parser.advance(if is_whole { After::End } else { After::Cut });
            if !parser.ended {
                parser.finish(is_whole);
            }
        })
    }

    /// True if the reply has ended: no more parts will be added.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// True if a stop sequence has ended the reply.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// True if the next text is reasoning.
    pub fn is_in_reasoning(&self) -> bool {
        !self.ended && matches!(self.state, State::Reasoning | State::Rehearsal(_))
    }

    /// True within an incomplete character.
    pub fn is_in_character(&self) -> bool {
        self.stream.is_in_character()
    }

    /// True if the next text is content.
    pub fn is_in_content(&self) -> bool {
        !self.ended && matches!(self.state, State::Content | State::WholeCall(_))
    }

    /// True while some text is still unclassified.
    pub fn holds_text(&self) -> bool {
        !self.held.is_empty() || matches!(self.state, State::WholeCall(_))
    }

    fn secured(&mut self, more: usize, work: impl FnOnce(&mut ReplyParser)) -> Result<()> {
        let held = self.size();
        if held + more > MAX_HELD && more > 0 {
            return Err(Error::TooComplex(format!(
                "the reply has {held} bytes that have not been taken; it must have at most {MAX_HELD}"
            )));
        }
        // Vectors and strings double, and an escaped character has six bytes.
        secured("the reply", WORKING + 3 * held + 32 * more, || {
            work(self);
            Ok(())
        })
    }

    fn size(&self) -> usize {
        let state = match &self.state {
            State::Object(object) => object.size(),
            State::Value(OpenValue { kind: ValueKind::Other(text, _), .. }) => text.len(),
            State::Rehearsal(rehearsal) => rehearsal.size(),
            State::WholeCall(call) => call.size(),
            _ => 0,
        };
        self.held.len() + self.gap.len() + self.waiting + state
    }

    /// Passes the next part to `take`, and removes it if `take` succeeds.
    pub fn next<R>(&mut self, take: impl FnOnce(&Event) -> Result<R>) -> Result<Option<R>> {
        let unsure = if self.events.len() == 1 { self.unsure } else { 0 };
        let Some(event) = self.events.front_mut() else { return Ok(None) };
        let ready = event.text.len() - unsure;
        if unsure == 0 {
            let taken = take(event)?;
            self.events.pop_front();
            self.waiting -= ready;
            return Ok(Some(taken));
        }
        if ready == 0 {
            return Ok(None);
        }
        let rest = event.text.split_off(ready);
        let taken = take(event);
        if taken.is_ok() {
            event.text.clear();
            self.waiting -= ready;
        }
        event.text.push_str(&rest);
        taken.map(Some)
    }

    fn add(&mut self, text: &str, is_control: bool) {
        let start = self.consumed + self.held.len();
        if is_control && !self.is_in_place(text) {
            // No tag or value continues after this control token, and the control token is not text.
            self.advance(After::End);
            if self.ended {
                return;
            }
            self.close_call();
            self.emit_control(text);
            self.consumed += text.len();
            return;
        }
        if is_control {
            self.controls.push_back(start..start + text.len());
        }
        self.held.push_str(text);
        self.advance(After::More);
    }

    /// True if a control token may be a part of a tag, or the quote of an argument's text.
    fn is_in_place(&self, text: &str) -> bool {
        match self.state {
            State::Object(_) | State::Named(_) => text == WIDE_QUOTE,
            State::Rehearsal(ref rehearsal) => rehearsal.is_in_place(text) || self.reply.is_reasoning_close(text),
            _ => self.reply.is_tag(text),
        }
    }

    /// Processes the held text.
    fn advance(&mut self, following: After) {
        let held = mem::take(&mut self.held);
        let mut at = 0;
        while !self.is_stopped
            && let Some(n) = self.step(&held[at..], following)
        {
            at += n;
            self.consumed += n;
        }
        while self.controls.front().is_some_and(|place| place.end <= self.consumed) {
            self.controls.pop_front();
        }
        match self.is_stopped {
            true => self.push_end(String::new()),
            false => self.held = held[at..].to_owned(),
        }
    }

    /// One step: returns the number of consumed bytes, or `None` if more text is needed.
    fn step(&mut self, rest: &str, following: After) -> Option<usize> {
        match mem::replace(&mut self.state, State::Content) {
            State::Content => self.content(rest, following),
            State::Reasoning => self.reasoning(rest, following),
            State::Header(tag) => self.header(tag, rest, following),
            State::Object(object) => self.object(object, rest),
            State::Named(arguments) => self.named(arguments, rest),
            State::Arguments { tool, keys } => self.arguments(tool, keys, rest, following),
            State::Value(value) => self.value(value, rest, following),
            State::CallEnd => self.call_end(rest, following),
            State::AfterCall => self.after_call(rest, following),
            State::Rehearsal(rehearsal) => self.rehearsal(rehearsal, rest, following),
            State::WholeCall(call) => self.whole_call(call, rest),
        }
    }

    fn calls_form(reply: &Reply) -> Option<&CallForm> {
        reply.form.calls.as_ref()
    }

    fn content(&mut self, rest: &str, following: After) -> Option<usize> {
        let reply = self.reply.clone();
        let found =
            earlier(reply.in_content.find(rest, self.is_fresh, following), self.reasoning_again(rest, following));
        if let Some(at) = self.whole_call_start(rest, &found) {
            return Some(at);
        }
        match found {
            Found::None => self.emit_marked(rest),
            Found::Incomplete(at) => self.emit_marked(&rest[..at]),
            Found::At(at, end, then) => {
                self.emit_marked(&rest[..at]);
                if !self.is_stopped {
                    self.begin(then, &rest[at..end]);
                }
                Some(end)
            }
        }
    }

    /// Finds the tag that opens reasoning after content. Only a tag that begins with a control token counts, because
    /// plain text could be content.
    fn reasoning_again(&self, rest: &str, following: After) -> Found {
        let Some(tags) = self.reply.form.reasoning.as_ref().filter(|_| !self.reply.form.has_headers) else {
            return Found::None;
        };
        let places = self.controls.iter().filter_map(|place| place.start.checked_sub(self.consumed));
        let at = |at: usize| match matches(tags.open.trim(), rest.get(at..)?) {
            Match::Full(n) => Some(Found::At(at, at + n, Then::Reasoning)),
            Match::Partial if following != After::End => Some(Found::Incomplete(at)),
            Match::Partial | Match::No => None,
        };
        places.filter(|place| *place < rest.len()).find_map(at).unwrap_or(Found::None)
    }

    /// Emits text; control tokens in it are reported as unparsed. Returns its number of bytes, `None` if empty.
    fn emit_marked(&mut self, text: &str) -> Option<usize> {
        let (mut from, end) = (0, self.consumed + text.len());
        while let Some(place) = self.controls.front().filter(|place| place.start < end).cloned() {
            self.controls.pop_front();
            let at = |place: usize| place.saturating_sub(self.consumed).clamp(from, text.len());
            let (start, following) = (at(place.start), at(place.end));
            if start < following {
                self.emit_text(&text[from..start]);
                // A closing reasoning tag without open reasoning is ignored.
                if !(matches!(self.state, State::Content) && self.reply.is_reasoning_close(&text[start..following])) {
                    self.emit_control(&text[start..following]);
                }
                from = following;
            }
        }
        self.emit_text(&text[from..]);
        (!text.is_empty()).then_some(text.len())
    }

    /// Emits a stray control token as unparsed text of the current part.
    fn emit_control(&mut self, text: &str) {
        let (gap, kind) = (mem::take(&mut self.gap), self.text_kind());
        if !self.drops_space {
            self.emit(kind, self.is_unparsed, &gap);
        }
        (self.drops_space, self.any_unparsed) = (false, true);
        self.emit(kind, true, text);
    }

    /// Begins the part that a tag denotes.
    fn begin(&mut self, then: Then, tag: &str) {
        let gap = mem::take(&mut self.gap);
        (self.is_fresh, self.drops_space) = (true, true);
        self.is_unparsed = false;
        match then {
            Then::Header => self.state = State::Header(tag.to_owned()),
            Then::Content => self.state = State::Content,
            Then::Reasoning => self.state = State::Reasoning,
            Then::Call(None) => {
                self.state = State::Object(Box::new(ObjectCall::new(gap + tag)));
            }
            Then::Call(Some(tool)) => {
                let name = self.reply.tools[tool].name.clone();
                let written = self.reply.form.calls.as_ref().and_then(|calls| calls.written_id(&name, tag));
                self.begin_call(&name, written);
                self.state = match self.reply.form.calls.as_ref().map(|calls| &calls.body) {
                    Some(Body::Tagged { .. }) => {
                        self.emit(EventKind::ToolArguments, false, "{");
                        State::Arguments { tool, keys: Vec::new() }
                    }
                    _ => State::Named(Box::new(Arguments::new())),
                };
            }
            Then::Unknown => self.give_up(&(gap + tag)),
        }
    }

    /// Emits the id and the name of a call. `written`: the id that the model wrote, or a part of it.
    fn begin_call(&mut self, name: &str, written: Option<&str>) {
        let id = self.ids.next(name, written);
        self.emit(EventKind::ToolId, false, &id);
        self.emit(EventKind::ToolName, false, name);
    }

    /// Emits a text that looked like part of a call, and everything after it, as unparsed content.
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

    fn reasoning(&mut self, rest: &str, following: After) -> Option<usize> {
        self.state = State::Reasoning;
        let reply = self.reply.clone();
        let Some(tags) = reply.form.reasoning.as_ref().filter(|_| !reply.form.has_headers) else {
            return self.thought(reply.in_content.find(rest, false, following), rest);
        };
        if self.is_fresh {
            // Models repeat the tag with which the prompt ended.
            let text = rest.trim_start();
            match matches(tags.open.trim(), text) {
                Match::Full(n) => {
                    self.is_fresh = false;
                    return Some(rest.len() - text.len() + n);
                }
                Match::Partial if following == After::More && !text.is_empty() => return None,
                Match::Partial | Match::No => {}
            }
        }
        let close = find(tags.close.trim(), rest, following, |_| false, |_| Match::Full(0));
        self.thought(earlier(close, reply.in_reasoning.find(rest, false, following)), rest)
    }

    /// Emits reasoning up to `found`.
    fn thought(&mut self, found: Found, rest: &str) -> Option<usize> {
        match found {
            Found::At(at, _, Then::Call(_)) => {
                self.emit_marked(&rest[..at]);
                self.state = State::Rehearsal(Box::new(Rehearsal::new(self.reply.clone(), self.ids.clone())));
                Some(at)
            }
            Found::At(at, end, then) => {
                self.emit_marked(&rest[..at]);
                self.begin(then, &rest[at..end]);
                Some(end)
            }
            Found::Incomplete(at) => self.emit_marked(&rest[..at]),
            Found::None => self.emit_marked(rest),
        }
    }

    /// Reads the header of a message, after its first tag.
    fn header(&mut self, tag: String, rest: &str, following: After) -> Option<usize> {
        let Some(at) = rest.find(MESSAGE).filter(|at| *at <= MAX_HEADER) else {
            if rest.len() > MAX_HEADER + MESSAGE.len() || following == After::End {
                self.give_up(&tag);
                return Some(0);
            }
            self.state = State::Header(tag);
            return None;
        };
        let header = format!("{tag}{}", &rest[..at]);
        let tool = |name: &str| self.reply.tools.iter().position(|tool| tool.name == name);
        let then = match address(&header) {
            Some((_, Some(to))) => to.strip_prefix("functions.").and_then(tool).map(|tool| Then::Call(Some(tool))),
            Some(("analysis", None)) => Some(Then::Reasoning),
            Some(("final" | "commentary" | "", None)) => Some(Then::Content),
            _ => None,
        };
        match then {
            Some(then) => self.begin(then, ""),
            None => self.give_up(&(header + MESSAGE)),
        }
        Some(at + MESSAGE.len())
    }

    fn after_call(&mut self, rest: &str, following: After) -> Option<usize> {
        let reply = self.reply.clone();
        self.state = State::AfterCall;
        // White space is dropped at once, whatever follows: otherwise each token would scan it again.
        let spaces = rest.len() - rest.trim_start().len();
        if spaces > 0 || rest.is_empty() {
            return (spaces > 0).then_some(spaces);
        }
        match reply.after_call.at(rest, true, following) {
            Found::At(_, end, then) => {
                self.begin(then, &rest[..end]);
                Some(end)
            }
            Found::Incomplete(_) => None,
            Found::None => {
                let is_unparsed = self.is_unparsed;
                self.begin(Then::Content, "");
                self.is_unparsed = is_unparsed;
                self.any_unparsed |= is_unparsed;
                Some(0)
            }
        }
    }

    /// Emits the rest of a reply that has ended.
    fn finish(&mut self, is_whole: bool) {
        self.finish_ahead(is_whole);
        let mut tag = match mem::replace(&mut self.state, State::Content) {
            State::Header(tag) => tag,
            // A call that broke off before its name.
            State::Object(object) if !is_whole && !object.is_named() => object.raw().trim_start().to_owned(),
            state => {
                self.state = state;
                String::new()
            }
        };
        tag.push_str(mem::take(&mut self.held).trim());
        if !tag.is_empty() || self.is_in_close() {
            self.gap.clear();
        }
        self.close_call();
        // The reply consists only of white space.
        let gap = mem::take(&mut self.gap);
        let kind = self.text_kind();
        self.emit(kind, self.is_unparsed, &gap);
        self.push_end(tag);
    }

    /// Ends an incomplete call, and drops white space next to tags.
    fn close_call(&mut self) {
        let gap = mem::take(&mut self.gap);
        match mem::replace(&mut self.state, State::Content) {
            State::Object(object) if !object.is_named() => self.give_up(object.raw()),
            State::Value(OpenValue { tool, keys, kind: ValueKind::Other(text, _), .. }) => {
                let name = keys.last().map_or("", String::as_str);
                let json = self.begun_json(tool, name, &text);
                self.emit(EventKind::ToolArguments, false, &json);
                self.give_up_call("");
            }
            State::Value(OpenValue { kind: ValueKind::Text, .. }) => {
                let mut json = String::new();
                gap.chars().for_each(|c| escape(c, &mut json));
                self.emit(EventKind::ToolArguments, false, &json);
                self.give_up_call("");
            }
            State::Object(object) => self.give_up_call(object.raw()),
            State::Named(arguments) => self.give_up_call(arguments.raw()),
            State::Arguments { .. } => self.give_up_call(""),
            State::Rehearsal(rehearsal) => self.resume(State::Reasoning, gap, rehearsal.text()),
            State::WholeCall(call) => self.resume(State::Content, gap, call.text()),
            state @ (State::Content | State::Reasoning) if !self.drops_space => {
                self.state = state;
                self.gap = gap;
            }
            State::Reasoning => self.state = State::Reasoning,
            State::Content | State::Header(_) | State::CallEnd | State::AfterCall => {}
        }
    }

    fn push_end(&mut self, tag: String) {
        self.ended = true;
        self.unsure = 0;
        self.waiting += tag.len();
        let unparsed = self.any_unparsed || !tag.is_empty();
        self.events.push_back(Event { kind: EventKind::End, call: 0, unparsed, text: tag });
    }

    fn text_kind(&self) -> EventKind {
        match self.state {
            State::Reasoning | State::Rehearsal(_) => EventKind::Reasoning,
            _ => EventKind::Content,
        }
    }

    /// Emits a part of a text without trailing white space, which a tag may follow.
    fn emit_text(&mut self, text: &str) {
        let end = text.trim_end().len();
        if end > 0 {
            let start = if self.drops_space { text.len() - text.trim_start().len() } else { 0 };
            let gap = mem::take(&mut self.gap);
            let kind = self.text_kind();
            let has_text = match kind {
                EventKind::Content => &mut self.has_content_text,
                _ => &mut self.has_reasoning_text,
            };
            let has_text = mem::replace(has_text, true);
            let gap = match self.drops_space {
                // Messages of one kind are joined by line breaks.
                true if has_text && self.reply.form.has_headers => "\n",
                true => "",
                false => &gap,
            };
            self.emit(kind, self.is_unparsed, gap);
            self.emit(kind, self.is_unparsed, &text[start..end]);
            (self.is_fresh, self.drops_space) = (false, false);
        }
        self.gap.push_str(&text[end..]);
    }

    /// Emits a part of the reply; in content, nothing after a stop sequence.
    fn emit(&mut self, kind: EventKind, unparsed: bool, text: &str) {
        if text.is_empty() || self.is_stopped {
            return;
        }
        let is_call = matches!(kind, EventKind::ToolId | EventKind::ToolName | EventKind::ToolArguments);
        let call = if is_call { self.calls } else { 0 };
        let goes_on = |last: &Event| (last.kind, last.call, last.unparsed) == (kind, call, unparsed);
        if kind == EventKind::ToolName || !self.events.back().is_some_and(goes_on) {
            self.stops.reset();
            self.events.push_back(Event { kind, call, unparsed, text: String::new() });
        }
        let Some(last) = self.events.back_mut() else { return };
        last.text.push_str(text);
        self.waiting += text.len();
        self.unsure = 0;
        if kind != EventKind::Content {
            return;
        }
        let Some((end, len)) = self.stops.push(text) else {
            self.unsure = self.stops.held();
            return;
        };
        let more = text.len() - end + len;
        last.text.truncate(last.text.len() - more);
        self.waiting -= more;
        self.is_stopped = true;
        if last.text.is_empty() {
            self.events.pop_back();
        }
    }
}

/// Returns the channel and recipient in the header of a message by the model; `None` for another kind of header.
fn address(header: &str) -> Option<(&str, Option<&str>)> {
    let (mut channel, mut to) = ("", None);
    for (i, part) in header.split("<|").enumerate() {
        let (tag, text) = if i == 0 { ("", part) } else { part.split_once("|>")? };
        let mut words = text.split_whitespace();
        match tag {
            "" => {}
            "start" => _ = words.next().filter(|role| *role == "assistant")?,
            "channel" => channel = words.next()?,
            // The type of the content.
            "constrain" => _ = words.next(),
            _ => return None,
        }
        to = words.find_map(|word| word.strip_prefix("to=")).or(to);
    }
    Some((channel, to))
}
