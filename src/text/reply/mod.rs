//! Parsing of model replies: text, reasoning and tool calls.
//!
//! `form` derives from a template the tags around the parts of a reply, `replies` turns them into triggers for one
//! reply, `parser` follows a reply, `search` finds where values in calls end, `arguments` reads arguments by their
//! kind, `literal` converts every dialect to JSON, `fits` compares arguments with a schema, `whole` reads untagged
//! calls, `stops` finds stop sequences, `written` writes calls for templates that do not.

mod arguments;
mod fits;
pub(crate) mod form;
pub(crate) mod literal;
mod nested;
mod object;
pub(crate) mod parser;
pub(crate) mod replies;
pub(crate) mod search;
pub(crate) mod stops;
pub(crate) mod tags;
mod whole;
pub(crate) mod written;
