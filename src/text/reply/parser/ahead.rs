//! Text that only the end of a reply classifies as a tool call: calls within unclosed reasoning, and untagged objects
//! that are the whole reply. Until then it is held back.

use std::mem;
use std::sync::Arc;

use super::{Rehearsal, ReplyParser, State};
use crate::text::Stops;
use crate::text::chat::ids::NewIds;
use crate::text::reply::replies::{After, EventKind, Found, Reply};
use crate::text::reply::search::find;
use crate::text::reply::tags::Match;
use crate::text::reply::whole::WholeCall;

impl Rehearsal {
    /// `ids`: the ids of its calls.
    pub fn new(reply: Arc<Reply>, ids: NewIds) -> Rehearsal {
        let parser = ReplyParser { ids, ..ReplyParser::begun(reply, Stops::default(), State::Content) };
        Rehearsal { text: String::new(), has_controls: false, parser }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of bytes held back.
    pub fn size(&self) -> usize {
        self.text.len() + self.parser.size()
    }

    /// True if a control token may be a part of the call.
    pub fn is_in_place(&self, text: &str) -> bool {
        self.parser.is_in_place(text)
    }

    /// True if anything but calls was found.
    fn has_failed(&self) -> bool {
        let is_text = |kind| matches!(kind, EventKind::Content | EventKind::Reasoning);
        self.parser.any_unparsed || self.parser.events.back().is_some_and(|event| is_text(event.kind))
    }

    /// Ends the text: returns true if it consists of complete calls.
    fn is_complete(&mut self, is_whole: bool) -> bool {
        self.parser.advance(if is_whole { After::End } else { After::Cut });
        let ends = match self.parser.state {
            State::AfterCall | State::Content => true,
            // The closing tag is missing.
            State::CallEnd => is_whole,
            _ => false,
        };
        ends && self.parser.calls > 0 && self.parser.held.trim().is_empty() && !self.has_failed()
    }
}

impl ReplyParser {
    /// Continues a call within reasoning.
    pub(super) fn rehearsal(&mut self, mut rehearsal: Box<Rehearsal>, rest: &str, following: After) -> Option<usize> {
        let reply = self.reply.clone();
        let close = reply.form.reasoning.as_ref().map_or("", |tags| tags.close.trim());
        let (end, closes) = match find(close, rest, following, |_| false, |_| Match::Full(0)) {
            Found::At(at, ..) => (at, true),
            Found::Incomplete(at) => (at, false),
            Found::None => (rest.len(), false),
        };
        // Character by character, so that the result does not depend on how the reply is split.
        for (i, c) in rest[..end].char_indices() {
            rehearsal.parser.add(c.encode_utf8(&mut [0; 4]), false);
            if rehearsal.has_failed() && !rehearsal.text.is_empty() {
                // The character may begin another call.
                self.keep_controls(&mut rehearsal, i);
                self.end_rehearsal(&rehearsal);
                return Some(i);
            }
            rehearsal.text.push(c);
        }
        self.keep_controls(&mut rehearsal, end);
        if closes {
            self.end_rehearsal(&rehearsal);
            return Some(end);
        }
        self.state = State::Rehearsal(rehearsal);
        (end > 0).then_some(end)
    }

    /// Records whether there are control tokens among the next bytes.
    fn keep_controls(&self, rehearsal: &mut Rehearsal, bytes: usize) {
        rehearsal.has_controls |= self.controls.front().is_some_and(|place| place.start < self.consumed + bytes);
    }

    /// Makes a call within reasoning a part of the reasoning.
    fn end_rehearsal(&mut self, rehearsal: &Rehearsal) {
        self.is_unparsed = rehearsal.has_controls;
        self.any_unparsed |= rehearsal.has_controls;
        let gap = mem::take(&mut self.gap);
        self.resume(State::Reasoning, gap, &rehearsal.text);
        self.is_unparsed = false;
    }

    /// Continues with a text that was held back.
    pub(super) fn resume(&mut self, state: State, gap: String, text: &str) {
        (self.state, self.gap) = (state, gap);
        self.emit_text(text);
    }

    /// Begins an untagged call, if allowed here, and returns the bytes before it. `found`: the first trigger in `rest`.
    pub(super) fn whole_call_start(&mut self, rest: &str, found: &Found) -> Option<usize> {
        let form = &self.reply.form;
        let text = rest.trim_start();
        let at = rest.len() - text.len();
        let is_free = match found {
            Found::None => true,
            Found::Incomplete(other) | Found::At(other, ..) => *other > at,
        };
        let may_call = form.calls.is_some() && !form.has_headers && !self.reply.tools.is_empty() && self.calls == 0;
        let is_first = self.is_fresh && !self.has_content_text && !self.is_unparsed;
        if !may_call || !is_first || !is_free || !text.starts_with(['{', '`']) {
            return None;
        }
        self.emit_text(&rest[..at]);
        self.state = State::WholeCall(Box::default());
        Some(at)
    }

    /// Continues an untagged object.
    pub(super) fn whole_call(&mut self, mut call: Box<WholeCall>, rest: &str) -> Option<usize> {
        for (i, c) in rest.char_indices() {
            if call.push(c, &self.reply.tools).is_none() {
                // The rejected character may begin a tag, so it is left to the caller.
                let (gap, text) = (mem::take(&mut self.gap), call.text());
                self.resume(State::Content, gap, &text[..text.len() - c.len_utf8()]);
                return Some(i);
            }
        }
        self.state = State::WholeCall(call);
        (!rest.is_empty()).then_some(rest.len())
    }

    /// Classifies a held text at the end of a reply.
    pub(super) fn finish_ahead(&mut self, is_whole: bool) {
        match mem::replace(&mut self.state, State::Content) {
            State::Rehearsal(mut rehearsal) => {
                if self.held.trim().is_empty() && rehearsal.is_complete(is_whole) {
                    for mut event in mem::take(&mut rehearsal.parser.events) {
                        event.call += self.calls;
                        self.waiting += event.text.len();
                        self.unsure = 0;
                        self.events.push_back(event);
                    }
                    self.calls += rehearsal.parser.calls;
                    self.ids = rehearsal.parser.ids;
                    self.gap.clear();
                    self.state = State::AfterCall;
                } else {
                    self.end_rehearsal(&rehearsal);
                    self.any_unparsed = true;
                }
            }
            State::WholeCall(call) => {
                let reply = self.reply.clone();
                if let Some((name, json)) = call.call(&reply.tools) {
                    self.gap.clear();
                    self.begin_call(name, None);
                    self.emit(EventKind::ToolArguments, false, json);
                    self.calls += 1;
                    self.state = State::AfterCall;
                } else {
                    let gap = mem::take(&mut self.gap);
                    self.resume(State::Content, gap, call.text());
                }
            }
            state => self.state = state,
        }
    }
}
