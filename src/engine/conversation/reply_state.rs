//! A reply: the output of its job, what was handed out, and the resulting message.

use serde_json::{Value as Json, json};

use crate::engine::job::Job;
use crate::engine::job::progress::JobInfo;
use crate::error::Result;
use crate::text::{Event, EventKind, is_object};

/// The unfinished reply, or the last one.
pub struct ReplyState {
    pub(super) prompt: usize,
    pub(super) reused: usize,
    pub(super) keeps_cut: bool,
    /// True if the reply continues the last message.
    pub(super) continues: bool,
    /// Tokens of the reply, including those of a continued message.
    pub(super) made: Vec<u32>,
    /// Parts of the reply so far; adjacent parts of a kind are joined.
    pub(super) parts: Vec<Event>,
    /// Index of the next part to hand out, and its bytes handed out already.
    pub(super) given: (usize, usize),
    /// Token ids of logprob rows.
    pub(super) tokens: Vec<u32>,
    pub(super) logprobs: Vec<f32>,
    pub(super) info: JobInfo,
}

impl ReplyState {
    /// True if the reply becomes a message when given up.
    pub(super) fn is_kept(&self) -> bool {
        self.keeps_cut && !self.made.is_empty()
    }

    /// Takes the new parts from the job.
    pub(super) fn take_parts(&mut self, job: &mut Job) -> Result<()> {
        let mut add = |part: &Event| {
            self.add(part);
            Ok(())
        };
        while job.next_part(&mut add)?.is_some() {}
        Ok(())
    }

    /// Returns the index of the last part of the reply, and the number of its bytes that `message` contains. The
    /// content in `message` may end with white space that the parser still holds back, because a tag may follow.
    pub(super) fn said(&self, message: &Json) -> (usize, usize) {
        let last = self.parts.len().saturating_sub(1);
        let kind = self.parts.last().map_or(EventKind::Content, |part| part.kind);
        let member = match kind {
            EventKind::Content => "content",
            EventKind::Reasoning => "reasoning_content",
            _ => return (last, self.parts.last().map_or(0, |part| part.text.len())),
        };
        let before: usize = self.parts.iter().take(last).filter(|p| p.kind == kind).map(|p| p.text.len()).sum();
        (last, message[member].as_str().map_or(0, |text| text.len().saturating_sub(before)))
    }

    fn add(&mut self, part: &Event) {
        match self.parts.last_mut() {
            Some(last)
                if last.kind == part.kind
                    && last.call == part.call
                    && last.unparsed == part.unparsed
                    && !last.text.is_empty()
                    && !matches!(part.kind, EventKind::ToolId | EventKind::ToolName) =>
            {
                last.text.push_str(&part.text);
            }
            _ => self.parts.push(Event { text: part.text.clone(), ..*part }),
        }
    }

    /// Returns the reply as a message, and its number of tool calls. Each call has the id of its part. An incomplete
    /// call is omitted. Arguments of a complete call are kept verbatim, even if they are invalid JSON.
    pub(super) fn message(&self) -> (Json, usize) {
        let text = |kind| -> String {
            self.parts.iter().filter(|part| part.kind == kind).map(|part| part.text.as_str()).collect()
        };
        // The id, name and arguments of each call, in this order.
        let mut calls: Vec<[String; 3]> = Vec::new();
        for part in &self.parts {
            let place = match part.kind {
                EventKind::ToolId => {
                    calls.push(Default::default());
                    0
                }
                EventKind::ToolName => 1,
                EventKind::ToolArguments => 2,
                EventKind::Reasoning | EventKind::Content | EventKind::End => continue,
            };
            if let Some(call) = calls.last_mut() {
                call[place].push_str(&part.text);
            }
        }
        calls.retain(|[_, _, arguments]| is_object(arguments));
        let calls: Vec<Json> = calls
            .into_iter()
            .map(|[id, name, arguments]| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let (content, reasoning, n) = (text(EventKind::Content), text(EventKind::Reasoning), calls.len());
        let mut message = json!({"role": "assistant", "content": content});
        if content.is_empty() && n > 0 {
            message["content"] = Json::Null;
        }
        if !reasoning.is_empty() {
            message["reasoning_content"] = Json::from(reasoning);
        }
        if n > 0 {
            message["tool_calls"] = Json::from(calls);
        }
        (message, n)
    }
}
