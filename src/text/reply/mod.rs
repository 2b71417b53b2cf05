//! Replies of models: text, reasoning and calls.
//!
//! `form` reads off a template what it puts around the parts of a reply, `replies` makes of it the texts that begin a
//! part of one reply, `parser` follows a reply through them, `search` finds where values in calls end, `arguments`
//! reads arguments by their kind, `literal` turns every dialect into JSON, `fits` compares arguments with a schema,
//! `whole` reads calls without tags, `stops` finds stop strings, `written` writes calls for templates that do not.

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
