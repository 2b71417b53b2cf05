//! Bytes to token ids and back, and chat templates.
//!
//! A text goes through `added` (tokens found as a whole), `pieces` (normalising and cutting) and a model
//! (`merge`, `unigram`, `wordpiece`) that makes tokens of each piece. `gguf` and `huggingface` build that pipeline from
//! the two kinds of file. Everything here is immutable once built, so that threads share it.
//! Metadata come from `format`.

mod added;
mod base64;
mod bert;
mod byte_level;
mod charsmap;
mod chat;
mod conversion;
mod end_tokens;
mod gguf;
mod huggingface;
mod literal;
mod marks;
mod merge;
mod pieces;
mod pretokenizer;
mod reply;
mod reply_form;
mod reply_nested;
mod reply_object;
mod reply_parser;
mod stops;
mod stream;
mod tags;
mod template;
mod template_arguments;
mod template_budget;
mod template_error;
mod template_filters;
mod template_format;
mod template_json;
mod template_marks;
mod template_methods;
mod template_source;
mod template_values;
mod tokenizer;
mod trie;
mod unigram;
mod vocab;
mod wordpiece;

pub use chat::{Chat, ToolChoice, parse_json};
pub use literal::is_bare;
pub use marks::MarkedText;
pub use reply::{Event, EventKind, Reply, Tool, is_text, options, resolved};
pub use reply_form::{Argument, Body, CallForm, Dialect, ReplyForm, find as find_reply_form};
pub use reply_parser::{ReplyParser, is_key};
pub use stops::Stops;
pub use stream::TextStream;
pub use tags::{ANY, KEY, NAME};
pub use template::ChatTemplate;
pub use tokenizer::Tokenizer;
pub use vocab::TokenKind;

use crate::error::Result;
use crate::format::{Metadata, Value};

impl Tokenizer {
    /// True for metadata that hold a tokenizer, of whatever kind.
    pub fn is_in(m: &Metadata) -> bool {
        ["tokenizer.ggml.model", huggingface::KEY].iter().any(|key| m.get(key).is_some()) || conversion::is_in(m)
    }

    /// The tokenizer of a model's metadata: a GGUF's `tokenizer.ggml.*` keys, a folder's `tokenizer.json`, or what it
    /// has in its place. Takes the big values out, so that a vocabulary is not held twice; their text forms stay.
    ///
    /// # Errors
    /// `Format` where keys are missing or contradict one another, `Unsupported` naming the tokenizer, pre-tokenizer
    /// or other part that is not implemented.
    pub fn from_metadata(m: &mut Metadata) -> Result<Tokenizer> {
        if m.get("tokenizer.ggml.model").is_none() && m.get(huggingface::KEY).is_none() && conversion::is_in(m) {
            conversion::convert(m)?;
        }
        if m.get("tokenizer.ggml.model").is_none() && m.get(huggingface::KEY).is_some() {
            let tokenizer = huggingface::load(m)?;
            let taken = m.str(huggingface::KEY)?.map_or(0, str::len);
            m.set(huggingface::KEY, Value::Taken(format!("[{taken} bytes]")));
            return Ok(tokenizer);
        }
        gguf::load(m)
    }
}
