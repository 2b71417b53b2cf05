//! Text processing: tokenizers, chat templates, and parsing of replies.

mod chat;
mod marks;
mod reply;
mod template;
mod tokenizer;

pub use self::chat::ids::{CallIds, NewIds};
pub use self::chat::message::{PartKind, check_members, check_results, open_calls};
pub use self::chat::{Chat, ToolChoice, parse_json};
pub use self::marks::MarkedText;
pub use self::reply::form::{Argument, Body, CallForm, Dialect, ReplyForm, find as find_reply_form};
pub use self::reply::literal::{is_bare, is_object};
pub use self::reply::parser::ReplyParser;
pub use self::reply::replies::{Event, EventKind, Reply, Tool, is_text, options, resolved};
pub use self::reply::search::is_key;
pub use self::reply::stops::Stops;
pub use self::reply::tags::{ANY, KEY, NAME};
pub use self::reply::written::render as render_chat;
pub use self::template::chat_template::ChatTemplate;
pub use self::template::thread::prepare_thread;
pub use self::tokenizer::known::KnownTexts;
pub use self::tokenizer::pipeline::Tokenizer;
pub use self::tokenizer::stream::TextStream;
pub use self::tokenizer::vocab::TokenKind;

use self::tokenizer::{conversion, gguf, huggingface};
use crate::error::Result;
use crate::format::{Metadata, Value};

impl Tokenizer {
    /// True for metadata that contain a tokenizer of any kind.
    pub fn is_in(m: &Metadata) -> bool {
        ["tokenizer.ggml.model", huggingface::KEY].iter().any(|key| m.get(key).is_some()) || conversion::is_in(m)
    }

    /// Creates the tokenizer of a model's metadata: a GGUF's `tokenizer.ggml.*` keys, a folder's `tokenizer.json`, or
    /// an equivalent file. Removes the large values, so that a vocabulary is not held twice; their text forms stay.
    ///
    /// # Errors
    /// `Format` for missing or inconsistent keys, `Unsupported` naming the part that is not implemented.
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
