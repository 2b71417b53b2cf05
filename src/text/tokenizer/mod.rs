//! Bytes to token ids and back.
//!
//! A text goes through `added` (tokens found as a whole), `pieces` (normalising and cutting) and a model (`merge`,
//! `unigram`, `wordpiece`, `greedy`) that makes tokens of each piece. `gguf` and `huggingface` build that pipeline from
//! the two kinds of file; `conversion` writes other files as one of the second kind. Everything is immutable once
//! built, so that threads share it.

mod added;
mod base64;
mod bert;
mod byte_level;
mod charsmap;
pub(crate) mod conversion;
mod end_tokens;
pub(crate) mod gguf;
mod greedy;
pub(crate) mod huggingface;
pub(crate) mod known;
mod merge;
mod pieces;
pub(crate) mod pipeline;
mod pretokenizer;
pub(crate) mod stream;
mod trie;
mod unigram;
pub(crate) mod vocab;
mod wordpiece;
