//! Chat templates: Jinja programs that render a conversation.
//!
//! `chat_template` finds, compiles and renders them; `source` rewrites unsupported syntax, `budget` enforces limits,
//! `values`, `operators`, `items`, `methods`, `filters`, `sequences`, `lists`, `functions`, `format` and `json`
//! implement Python's semantics, `thread` prepares rendering threads, `marks` distinguishes the template's text from
//! the conversation's.

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
