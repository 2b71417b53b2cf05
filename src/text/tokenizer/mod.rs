//! Tokenizers: text to token ids and back.
//!
//! A text passes `added` (tokens found as a whole), `pieces` (normalization and pre-tokenization) and a model (`merge`,
//! `unigram`, `wordpiece`, `greedy`), which tokenizes each piece. `gguf` and `huggingface` build this pipeline from the
//! two kinds of files; `conversion` converts other files to the second kind. Everything is immutable and shared by
//! threads.

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
