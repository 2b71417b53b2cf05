//! The pipeline from a text to tokens and back. Uses its steps (`added`, `pieces`, the token models); `gguf` and
//! `huggingface` build it from files.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result, secured};
use crate::text::marks::MarkedText;
use crate::text::tokenizer::added::{Added, TextOrToken};
use crate::text::tokenizer::greedy::Greedy;
use crate::text::tokenizer::known::KnownTexts;
use crate::text::tokenizer::merge::{Bpe, Check, Spm, Work};
use crate::text::tokenizer::pieces::{Behavior, Splitter, TextStep, pieces};
use crate::text::tokenizer::unigram::Unigram;
use crate::text::tokenizer::vocab::{TokenKind, Vocab, extend, push, reserve};
use crate::text::tokenizer::wordpiece::WordPiece;

/// Maximum length of a text for `encode`.
const MAX_TEXT: usize = 1 << 30;

/// SentencePiece's visible space, U+2581.
pub(crate) const VISIBLE_SPACE: &str = "\u{2581}";

/// The tokenization algorithm for a piece of text.
pub(crate) enum TokenModel {
    Bpe(Bpe),
    Spm(Spm),
    Unigram(Unigram),
    WordPiece(WordPiece),
    Greedy(Greedy),
}

/// The spelling of spaces in tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spaces {
    /// Unchanged.
    Plain,
    /// As U+2581.
    Visible,
    /// A token that begins a word is prefixed with a space; added tokens are words. `clean`: no space before `.`, `?`,
    /// `!`, `,` and English contractions.
    Words { clean: bool },
}

/// Processing of a text before the model, and of its tokens after it.
pub(crate) struct Steps {
    pub(crate) normalize: Vec<TextStep>,
    pub(crate) cut: Vec<TextStep>,
    pub(crate) spaces: Spaces,
    /// True if the tokenizer puts a space before the text, which decoding removes.
    pub(crate) strips_first_space: bool,
}

/// Tokens that begin and end a text.
pub(crate) struct Special {
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    /// Tokens that `encode` puts before and after a text if special tokens are requested.
    pub(crate) prefix: Vec<u32>,
    pub(crate) suffix: Vec<u32>,
    /// End tokens, in ascending order.
    pub(crate) ends: Vec<u32>,
}

pub struct Tokenizer {
    pub(crate) vocab: Vocab,
    pub(crate) steps: Steps,
    pub(crate) model: TokenModel,
    pub(crate) special: Special,
    /// Tokens found in the original text.
    pub(crate) added: Added,
    /// Tokens found in normalized text.
    pub(crate) added_normalized: Added,
    /// Tokens that are never sampled.
    pub(crate) suppressed: Vec<u32>,
    /// Notes for the log of a load.
    pub(crate) notes: Vec<String>,
}

/// Initial bytes of the caches of several regular expressions.
const MATCHING: usize = 8 << 20;

impl Tokenizer {
    pub fn n_vocab(&self) -> usize {
        self.vocab.len()
    }

    /// Assumptions and omitted tokens that the loader should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the BOS token.
    pub fn bos(&self) -> Option<u32> {
        self.special.bos
    }

    /// Returns the EOS token.
    pub fn eos(&self) -> Option<u32> {
        self.special.eos
    }

    /// True for a token that ends a text or a turn: those named by the file, and well-known ones like `<|im_end|>`.
    pub fn is_end(&self, id: u32) -> bool {
        self.special.ends.binary_search(&id).is_ok()
    }

    /// Returns tokens that the model's authors exclude from sampling.
    pub fn suppressed(&self) -> &[u32] {
        &self.suppressed
    }

    /// Appends the tokens of `text` to `out`, which is unchanged on error. Takes O(n log n) time.
    ///
    /// `add_special`: adds the tokens that the model needs at the beginning and end. `parse_special`: parses special
    /// tokens in the text; only for text by a template, never for a user's.
    ///
    /// # Errors
    /// `InvalidArgument` for a text longer than `MAX_TEXT`, `OutOfMemory`.
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool, out: &mut Vec<u32>) -> Result<()> {
        self.encode_until(&|| Ok(()), text, add_special, parse_special, out)
    }

    /// Like `encode`, but ends with the error of `check` once it returns one.
    ///
    /// # Errors
    /// The errors of `encode` and `check`.
    pub fn encode_until(
        &self,
        check: Check,
        text: &str,
        add_special: bool,
        parse_special: bool,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        check()?;
        if text.len() > MAX_TEXT {
            return Err(Error::invalid(format!("a text of {} bytes, at most {MAX_TEXT} can be tokenized", text.len())));
        }
        let before = out.len();
        let (prefix, suffix): (&[u32], &[u32]) =
            if add_special { (&self.special.prefix, &self.special.suffix) } else { (&[], &[]) };
        let append = || {
            extend(out, prefix)?;
            let mut work = Work::new(check);
            self.added.split(text, parse_special, |part| match part {
                TextOrToken::Token(id) => push(out, id),
                TextOrToken::Text(text, at) => self.encode_text(text, at == 0, parse_special, &mut work, out),
            })?;
            extend(out, suffix)
        };
        // Regular expressions allocate their caches infallibly at the first use.
        let result = secured("tokens", MATCHING + 16 * text.len(), append);
        if result.is_err() {
            out.truncate(before);
        }
        result
    }

    /// Appends the tokens of a rendered conversation to `out`: special tokens are parsed only in the template's text,
    /// and BOS is added once.
    ///
    /// # Errors
    /// The errors of `encode_until`.
    pub fn encode_chat(&self, check: Check, chat: &MarkedText, out: &mut Vec<u32>) -> Result<()> {
        self.encode_chat_around(check, chat, &[], None)?.iter().try_for_each(|tokens| extend(out, tokens))
    }

    /// Tokenizes a rendered conversation around its non-text parts, given in ascending order; returns one more list
    /// than parts. `known`: cache of texts and their tokens.
    ///
    /// # Errors
    /// The errors of `encode_until`.
    pub fn encode_chat_around(
        &self,
        check: Check,
        chat: &MarkedText,
        parts: &[Range<usize>],
        mut known: Option<&mut KnownTexts>,
    ) -> Result<Vec<Vec<u32>>> {
        check()?;
        let mut work = Work::new(check);
        let plain = |c| chat.marks.unmark_char(c);
        let ends = parts.iter().map(|part| part.start).chain([chat.text.len()]);
        let mut lists = Vec::new();
        for (from, to) in [0].into_iter().chain(parts.iter().map(|part| part.end)).zip(ends) {
            let mut tokens = Vec::new();
            self.added.split_control(&chat.text[from..to], plain, |part| match part {
                TextOrToken::Token(id) => push(&mut tokens, id),
                TextOrToken::Text(text, start) => self.added_normalized.split_control(text, plain, |part| match part {
                    TextOrToken::Token(id) => push(&mut tokens, id),
                    TextOrToken::Text(text, at) => {
                        let at_start = from + start + at == 0;
                        let text = chat.marks.unmark(text);
                        let mut encode = |tokens: &mut Vec<u32>| {
                            self.added.split(&text, false, |part| match part {
                                TextOrToken::Token(id) => push(tokens, id),
                                TextOrToken::Text(text, at) => {
                                    self.encode_text(text, at_start && at == 0, false, &mut work, tokens)
                                }
                            })
                        };
                        match known.as_deref_mut().filter(|_| !at_start) {
                            Some(known) => known.append(&text, &mut tokens, encode),
                            None => encode(&mut tokens),
                        }
                    }
                }),
            })?;
            lists.push(tokens);
        }
        if let Some(first) = lists.first_mut().filter(|first| !first.starts_with(&self.special.prefix)) {
            first.splice(0..0, self.special.prefix.iter().copied());
        }
        Ok(lists)
    }

    /// Calls `each` for the special tokens in a text, and the texts between them.
    pub fn split_control<'t>(
        &self,
        text: &'t str,
        mut each: impl FnMut(Result<u32, &'t str>) -> Result<()>,
    ) -> Result<()> {
        self.added.split_control(
            text,
            |c| c,
            |part| match part {
                TextOrToken::Token(id) => each(Ok(id)),
                TextOrToken::Text(text, _) => each(Err(text)),
            },
        )
    }

    /// Returns the texts of the end tokens.
    pub fn end_texts(&self) -> impl Iterator<Item = String> {
        let texts = self.special.ends.iter().filter_map(|&id| self.decode_token(id, true).ok());
        texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.is_empty())
    }

    /// Encodes a text without added tokens.
    fn encode_text(
        &self,
        text: &str,
        at_start: bool,
        parse_special: bool,
        work: &mut Work,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        pieces(&self.steps.normalize, text, at_start, &mut |text, at_start| {
            self.added_normalized.split(text, parse_special, |part| match part {
                TextOrToken::Token(id) => push(out, id),
                TextOrToken::Text(text, at) => pieces(&self.steps.cut, text, at_start && at == 0, &mut |piece, _| {
                    work.tick()?;
                    match &self.model {
                        TokenModel::Bpe(bpe) => bpe.encode(&self.vocab, piece, work, out),
                        TokenModel::Spm(spm) => spm.encode(&self.vocab, piece, work, out),
                        TokenModel::Unigram(unigram) => unigram.encode(piece, work, out),
                        TokenModel::WordPiece(wordpiece) => wordpiece.encode(piece, out),
                        TokenModel::Greedy(greedy) => greedy.encode(piece, work, out),
                    }
                }),
            })
        })
    }

    /// Returns the bytes of one token, possibly a part of a character. Control tokens have none unless `special` is
    /// set.
    ///
    /// # Errors
    /// `InvalidArgument` for an id outside the vocabulary.
    pub fn decode_token(&self, id: u32, special: bool) -> Result<Cow<'_, [u8]>> {
        let (bytes, kind) = self
            .vocab
            .get(id)
            .ok_or_else(|| Error::invalid(format!("token {id}, the vocabulary has {}", self.n_vocab())))?;
        Ok(match kind {
            TokenKind::Control if !special => Cow::Borrowed(&[]),
            TokenKind::Normal | TokenKind::UserDefined if self.steps.spaces == Spaces::Visible => {
                with_plain_spaces(bytes)
            }
            TokenKind::Normal if self.steps.spaces == (Spaces::Words { clean: true }) && follows_directly(bytes) => {
                Cow::Borrowed(&bytes[1..])
            }
            _ => Cow::Borrowed(bytes),
        })
    }

    /// Returns the kind of a token; `None` for an id outside the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocab.get(id).map(|(_, kind)| kind)
    }

    /// Returns the bytes of tokens from the beginning of a text on.
    ///
    /// # Errors
    /// The errors of `decode_token`, and `OutOfMemory`.
    pub fn decode(&self, ids: &[u32], special: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut begun = false;
        for &id in ids {
            let bytes = self.decode_next(id, special, &mut begun)?;
            reserve(&mut out, bytes.len())?;
            out.extend_from_slice(&bytes);
        }
        Ok(out)
    }

    /// `decode_token`, without the space that the tokenizer put at the start of a text. `begun`: true if an earlier
    /// token had bytes.
    pub(crate) fn decode_next(&self, id: u32, special: bool, begun: &mut bool) -> Result<Cow<'_, [u8]>> {
        let mut bytes = self.decode_token(id, special)?;
        let is_added = matches!(self.kind(id), Some(TokenKind::Control | TokenKind::UserDefined));
        if is_added && !bytes.is_empty() && matches!(self.steps.spaces, Spaces::Words { .. }) {
            bytes = Cow::Owned([b" ", &*bytes].concat());
        }
        let at_start = !*begun;
        *begun |= !bytes.is_empty();
        if !(at_start && self.steps.strips_first_space && bytes.starts_with(b" ")) {
            return Ok(bytes);
        }
        Ok(match bytes {
            Cow::Borrowed(b) => Cow::Borrowed(&b[1..]),
            Cow::Owned(mut b) => {
                b.remove(0);
                Cow::Owned(b)
            }
        })
    }
}

/// Returns a step that splits before every run of visible spaces, if no token extends over such a place: tokens are
/// unchanged, and the heap of merges holds a word instead of the whole text.
pub(crate) fn cut_at_spaces(vocab: &Vocab) -> Result<Option<TextStep>> {
    let visible = VISIBLE_SPACE.as_bytes();
    let reaches_over = |bytes: &[u8]| {
        let spaces = bytes.windows(visible.len()).enumerate().filter(|(_, w)| *w == visible).map(|(at, _)| at);
        spaces.into_iter().any(|at| at > 0 && !bytes[..at].ends_with(visible))
    };
    if vocab
        .iter()
        .any(|(_, bytes, kind)| matches!(kind, TokenKind::Normal | TokenKind::UserDefined) && reaches_over(bytes))
    {
        return Ok(None);
    }
    let pattern = format!("{VISIBLE_SPACE}+[^{VISIBLE_SPACE}]*");
    Ok(Some(TextStep::Split(Splitter::pattern(&pattern, Behavior::Isolated, false)?)))
}

/// True for a word that follows the previous one without a space.
fn follows_directly(word: &[u8]) -> bool {
    const WORDS: [&[u8]; 9] = [b" .", b" ?", b" !", b" ,", b" n't", b" 'm", b" 's", b" 've", b" 're"];
    WORDS.iter().any(|start| word.starts_with(start))
}

fn with_plain_spaces(bytes: &[u8]) -> Cow<'_, [u8]> {
    let visible = VISIBLE_SPACE.as_bytes();
    if !bytes.windows(visible.len()).any(|w| w == visible) {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        (rest, _) = match rest.strip_prefix(visible) {
            Some(after) => (after, plain.push(b' ')),
            None => (tail, plain.push(*first)),
        };
    }
    Cow::Owned(plain)
}
