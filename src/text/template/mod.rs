//! Chat templates: programs in Jinja's language that make one text of a conversation.
//!
//! `chat_template` finds, compiles and renders them; `source` rewrites what the parser does not know, `budget` bounds
//! what they may take, `values`, `operators`, `items`, `methods`, `filters`, `sequences`, `lists`, `functions`,
//! `format` and `json` give them Python's semantics, `thread` prepares threads that run them, `marks` keeps apart what
//! they write and what the conversation says.

mod arguments;
mod budget;
pub(crate) mod chat_template;
mod error;
mod filters;
mod format;
mod functions;
mod items;
mod json;
mod lists;
mod marks;
mod methods;
mod operators;
mod sequences;
mod source;
pub(crate) mod thread;
mod values;
