//! Streaming parser for replies: reasoning, content and tool calls.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{Cancel, Event, EventKind, Model, Reply, ReplyParser, Runtime, Stops, reply_to_chat};
use crate::error::Result;

use super::arguments::{Buffer, Call, Out};
use super::cancel::{flag, rz_cancel};
use super::chat::{RZ_CHAT_ADD_GENERATION_PROMPT, parse};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::lock::Lock;
use super::model::rz_model;
use super::status::{RZ_AGAIN, RZ_DONE, RZ_OK, rz_error, rz_status};

/// Kind of a part of a reply: reasoning before the answer.
pub const RZ_CHAT_EVENT_REASONING: u32 = 1;
/// Kind of a part of a reply: text of the answer.
pub const RZ_CHAT_EVENT_CONTENT: u32 = 2;
/// Kind of a part of a reply: complete name of the called tool; it follows the id of the tool call.
pub const RZ_CHAT_EVENT_TOOL_NAME: u32 = 3;
/// Kind of a part of a reply: fragment of the arguments of a tool call. All fragments together are a JSON object.
pub const RZ_CHAT_EVENT_TOOL_ARGUMENTS: u32 = 4;
/// Kind of a part of a reply: end. Its text is a partial tag, or a tool call without a name, if the reply broke off
/// there; otherwise it is empty.
pub const RZ_CHAT_EVENT_END: u32 = 5;
/// Kind of a part of a reply: complete id of a tool call; it begins the call. The message in the conversation has the
/// same id. It differs from the ids of all other calls in the conversation and has the form that the chat template
/// requires; an id that the model wrote before the arguments is kept.
pub const RZ_CHAT_EVENT_TOOL_ID: u32 = 6;
/// Flag of a part of a reply. With content or reasoning: the text begins like a tool call or has a control token, and
/// could not be parsed. With RZ_CHAT_EVENT_END: the reply has such a text, half a tag, a call whose arguments are
/// incomplete, or a call whose arguments are complete but rejected by JSON readers (a number such as 1e400, more than
/// 127 levels).
pub const RZ_CHAT_EVENT_FLAG_UNPARSED: u32 = 1;

/// Parses the reply to a conversation into reasoning, content and tool calls, in any format that models use. Mutable:
/// one call at a time.
pub struct rz_chat_parser {
    model: Arc<Model>,
    parser: Lock<ReplyParser>,
}

impl Handle for rz_chat_parser {
    const NAME: &'static str = "chat parser";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.model.runtime())
    }
}

/// Creates a parser for the reply to a conversation (the JSON of rz_chat_tokenize_into, `json_len` bytes) whose tokens
/// were the prompt. The caller frees `*out` with rz_chat_parser_free, before or after the model.
///
/// The format of reasoning and tool calls is inferred from the model's chat template. Tool calls are parsed if the
/// conversation has "tools" and its "tool_choice" is not "none", and only for those tools. Runs on a thread of the
/// runtime; `cancel` ends the wait for that thread, and may be NULL. Any thread. Errors: as for rz_chat_tokenize_into,
/// and RZ_ERR_UNSUPPORTED if there are tools and the format of tool calls cannot be inferred from the template. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_parser_new(
    model: *const rz_model,
    json: *const c_char,
    json_len: usize,
    cancel: *const rz_cancel,
    out: *mut *mut rz_chat_parser,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let json = call.text(json, json_len, "json")?;
        let cancel = call.optional(cancel)?;
        let out = call.out(out, "out")?;
        let reply = reply(&model.0, json, None, &[flag(&cancel)])?;
        let parser = Lock::new(ReplyParser::new(Arc::new(reply), Stops::default()));
        out.set_handle(rz_chat_parser { model: model.0.clone(), parser });
        Ok(RZ_OK)
    })
}

/// Returns the possible replies to the conversation in `json`, which may refer to `n_media` media; `None`: text only.
/// The wait for a thread checks `cancels`.
pub(super) fn reply(model: &Model, json: &str, n_media: Option<usize>, cancels: &[Option<&Cancel>]) -> Result<Reply> {
    model.tokenizer()?;
    let chat = parse(json, RZ_CHAT_ADD_GENERATION_PROMPT, n_media)?;
    model.run_deep(cancels, || reply_to_chat(model, &chat))
}

/// Adds a token of the reply. A token that ends a turn or a text ends the reply like rz_chat_parser_end.
///
/// Any thread. Errors, which change nothing: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary or after the end),
/// RZ_ERR_LIMIT (16 MiB of parts were not taken yet), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_parser_push(parser: *mut rz_chat_parser, token: u32, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let parser = call.handle(parser)?;
        let tokenizer = parser.model.tokenizer()?;
        parser.parser.take(rz_chat_parser::NAME)?.push(tokenizer, token)?;
        Ok(RZ_OK)
    })
}

/// Ends a reply that no token has ended, for example at the maximum number of tokens. Text held back as a possible tag
/// becomes the text of RZ_CHAT_EVENT_END. A repeated call does nothing. Any thread. Errors: RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_parser_end(parser: *mut rz_chat_parser, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let parser = call.handle(parser)?;
        parser.parser.take(rz_chat_parser::NAME)?.end(false)?;
        Ok(RZ_OK)
    })
}

/// Takes the next part of the reply. `*kind` receives RZ_CHAT_EVENT_..., `*flags` RZ_CHAT_EVENT_FLAG_... bits or 0,
/// `*index` the number of the part's tool call, from 0 (0 for other kinds), and `out` the text of `*len` bytes: whole
/// characters, not NUL-terminated. RZ_OK: a part was taken. RZ_AGAIN: no part is available yet. RZ_DONE: the reply has
/// ended, and all parts were taken.
///
/// Reasoning, content and tool calls come in any order. A tool call is its id, its name and then fragments of its
/// arguments, as JSON in every format; if the format is untyped, values get the types of the tool's schema. Tags and
/// adjacent white space are left out. All other text is passed on, with RZ_CHAT_EVENT_FLAG_UNPARSED if it could not be
/// parsed. Tool calls within reasoning count as tool calls only if the reply ends with them; if more text follows, they
/// are returned as reasoning. If there are tools, a reply that is only an object with the name and the arguments of a
/// tool, fenced or not, is a tool call.
///
/// If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL, and the part remains; a part may have any
/// length. `out` NULL with a `capacity` of 0 queries the part: the call returns RZ_OK, writes `*kind`, `*flags`,
/// `*index` and `*len`, and the part remains. Because such a query never takes a part, a loop must pass a buffer (not
/// NULL) from its first call, even for parts without text. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_parser_next_into(
    parser: *mut rz_chat_parser,
    kind: *mut u32,
    flags: *mut u32,
    index: *mut u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let parser = call.handle(parser)?;
        let part = PartNumbers::new(call, kind, flags, index)?.with_text(call, out, capacity, len)?;
        let mut parser = parser.parser.take(rz_chat_parser::NAME)?;
        let next = parser.next(|event| part.fill(event))?;
        Ok(part_status(next, parser.has_ended()))
    })
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_chat_parser_free(parser: *mut rz_chat_parser) {
    guarded_or!((), |call| call.release(parser))
}

/// Status of a call that takes the next part of a reply; `None`: there was no part.
pub(super) fn part_status(next: Option<()>, has_ended: bool) -> rz_status {
    match next {
        Some(()) => RZ_OK,
        None if has_ended => RZ_DONE,
        None => RZ_AGAIN,
    }
}

/// Output arguments for a part of a reply.
pub(super) struct PartOut<'a> {
    numbers: PartNumbers<'a>,
    text: Buffer<'a, u8>,
}

/// The numbers of a `PartOut`.
pub(super) struct PartNumbers<'a> {
    kind: Out<'a, u32>,
    flags: Out<'a, u32>,
    index: Out<'a, u32>,
}

impl<'a> PartNumbers<'a> {
    /// Checks the numeric output arguments of rz_chat_parser_next_into and similar functions.
    pub(super) fn new(call: &'a Call, kind: *mut u32, flags: *mut u32, index: *mut u32) -> Result<PartNumbers<'a>> {
        Ok(PartNumbers {
            kind: call.out(kind, "kind")?,
            flags: call.out(flags, "flags")?,
            index: call.out(index, "index")?,
        })
    }

    /// Adds the output arguments for the text.
    pub(super) fn with_text(
        self,
        call: &'a Call,
        out: *mut c_char,
        capacity: usize,
        len: *mut usize,
    ) -> Result<PartOut<'a>> {
        Ok(PartOut { numbers: self, text: call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])? })
    }
}

impl PartOut<'_> {
    /// If the text does not fit, writes only the length.
    pub(super) fn fill(self, event: &Event) -> Result<()> {
        self.text.fill_next_to(event.text.as_bytes(), || {
            self.numbers.kind.set(event_kind(event.kind));
            self.numbers.flags.set(if event.unparsed { RZ_CHAT_EVENT_FLAG_UNPARSED } else { 0 });
            self.numbers.index.set(event.call);
        })
    }
}

fn event_kind(kind: EventKind) -> u32 {
    match kind {
        EventKind::Reasoning => RZ_CHAT_EVENT_REASONING,
        EventKind::Content => RZ_CHAT_EVENT_CONTENT,
        EventKind::ToolId => RZ_CHAT_EVENT_TOOL_ID,
        EventKind::ToolName => RZ_CHAT_EVENT_TOOL_NAME,
        EventKind::ToolArguments => RZ_CHAT_EVENT_TOOL_ARGUMENTS,
        EventKind::End => RZ_CHAT_EVENT_END,
    }
}
