//! Converts other tokenizer files of folders to a `tokenizer.json`, as the reference implementation does: SentencePiece
//! models, Mistral's `tekken.json`, tiktoken ranks, `vocab.json` with `merges.txt`, and BERT's `vocab.txt`;
//! `huggingface` reads the result. RWKV's vocabulary becomes keys of a GGUF file. Declarations without an equivalent
//! fail by name.

mod pairs;
mod parts;
mod protobuf;
mod ranks;
mod rwkv;
mod sentencepiece;
mod words;

use std::path::Path;

use crate::error::{Result, secured};
use crate::format::json::Json;
use crate::format::{Metadata, Value};
use crate::text::tokenizer::huggingface;

/// Keys of the original files.
pub const SENTENCEPIECE: &str = "tokenizer.huggingface.sentencepiece";
pub const TEKKEN: &str = "tokenizer.huggingface.tekken";
pub const VOCAB: &str = "tokenizer.huggingface.vocab";
pub const MERGES: &str = "tokenizer.huggingface.merges";
pub const WORDS: &str = "tokenizer.huggingface.words";
pub const RWKV: &str = "tokenizer.huggingface.rwkv";

/// Bytes of memory per byte of a file: its tables, its merges and the resulting text.
const WORKING: usize = 32;

pub fn is_in(m: &Metadata) -> bool {
    [SENTENCEPIECE, TEKKEN, VOCAB, WORDS, RWKV].iter().any(|key| m.get(key).is_some())
}

/// Replaces the contents of another tokenizer file by a `tokenizer.json`, or by keys of a GGUF file.
pub fn convert(m: &mut Metadata) -> Result<()> {
    if m.get(RWKV).is_some() {
        let text = taken(m, RWKV)?;
        return secured("the tokenizer", WORKING * text.len(), || rwkv::convert(&text, m));
    }
    let config = m.str("tokenizer.huggingface.config")?.unwrap_or("{}").to_owned();
    let config = Json::parse_python(Path::new("tokenizer_config.json"), config.as_bytes())?;
    let text = if let Some(files) = m.take_strs(SENTENCEPIECE)? {
        let bytes = files.get(0).unwrap_or_default();
        secured("the tokenizer", WORKING * bytes.len(), || match ranks::is_tiktoken(bytes) {
            true => ranks::of_tiktoken(bytes, &config),
            false => sentencepiece::convert(bytes, &config, m),
        })?
    } else if m.get(TEKKEN).is_some() {
        let text = taken(m, TEKKEN)?;
        secured("the tokenizer", WORKING * text.len(), || ranks::of_tekken(&text, m))?
    } else if m.get(VOCAB).is_some() {
        let (vocab, merges) = (taken(m, VOCAB)?, taken(m, MERGES)?);
        secured("the tokenizer", WORKING * (vocab.len() + merges.len()), || words::pairs(&vocab, &merges, &config, m))?
    } else {
        let text = taken(m, WORDS)?;
        secured("the tokenizer", WORKING * text.len(), || words::wordpiece(&text, &config, m))?
    };
    m.set(huggingface::KEY, text);
    Ok(())
}

/// Takes the text of a key, which is replaced by a note of its length.
fn taken(m: &mut Metadata, key: &str) -> Result<String> {
    let text = m.require_str(key)?.to_owned();
    m.set(key, Value::Taken(format!("[{} bytes]", text.len())));
    Ok(text)
}
