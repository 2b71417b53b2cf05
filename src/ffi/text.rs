//! Tokenization and detokenization.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Instant;

use crate::engine::metrics::Phase;
use crate::engine::{Cancel, Model, Runtime, TextStream, TokenKind as Kind, Tokenizer};
use crate::error::Result;

use super::arguments::Buffer;
use super::cancel::{flag, rz_cancel};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::lock::Lock;
use super::model::rz_model;
use super::status::{RZ_OK, rz_error, rz_status};

/// Flag of rz_tokenize_into: add the special tokens at the beginning and end of a text (BOS, EOS) that the model asks
/// for.
pub const RZ_TOKENIZE_ADD_SPECIAL: u32 = 1;
/// Flag of rz_tokenize_into: parse special tokens: "<|im_end|>" in the text becomes its token. Not for text from users.
pub const RZ_TOKENIZE_PARSE_SPECIAL: u32 = 2;
/// Flag of rz_detokenize_into: write special tokens too.
pub const RZ_DETOKENIZE_SPECIAL: u32 = 1;
/// Attribute of a token: an ordinary token of tokenized text.
pub const RZ_ATTR_NORMAL: u32 = 1;
/// Attribute of a token: control token, such as "<|im_end|>"; left out of texts.
pub const RZ_ATTR_CONTROL: u32 = 2;
/// Attribute of a token: matched as a whole in any text (an added token).
pub const RZ_ATTR_USER: u32 = 4;
/// Attribute of a token: stands for one byte.
pub const RZ_ATTR_BYTE: u32 = 8;
/// Attribute of a token: ends a turn or a text, as in rz_token_is_end.
pub const RZ_ATTR_END: u32 = 16;

/// Tokenizes `text`, UTF-8 of `text_len` bytes.
///
/// `*n` receives the number of token ids. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL.
/// `cancel`, which stops the call within milliseconds, may be NULL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (not
/// UTF-8), RZ_ERR_VERSION (unknown flags), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented), RZ_ERR_CANCELLED,
/// RZ_ERR_DEADLINE, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_tokenize_into(
    model: *const rz_model,
    text: *const c_char,
    text_len: usize,
    flags: u32,
    out: *mut u32,
    capacity: usize,
    n: *mut usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let text = call.text(text, text_len, "text")?;
        call.flags(flags, RZ_TOKENIZE_ADD_SPECIAL | RZ_TOKENIZE_PARSE_SPECIAL, "flags")?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        let add_special = flags & RZ_TOKENIZE_ADD_SPECIAL != 0;
        let parse_special = flags & RZ_TOKENIZE_PARSE_SPECIAL != 0;
        let cancel = call.optional(cancel)?;
        let check = || Cancel::check(&[flag(&cancel)]);
        let tokenizer = model.0.tokenizer()?;
        let tokens = timed(&model.0, Phase::Tokenize, || {
            let mut tokens = Vec::new();
            tokenizer.encode_until(&check, text, add_special, parse_special, &mut tokens)?;
            Ok(tokens)
        })?;
        out.fill(&tokens)?;
        Ok(RZ_OK)
    })
}

/// Detokenizes `n` token ids; the first one begins a text.
///
/// `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL. Invalid UTF-8, such as half a character at the end, becomes U+FFFD; for streaming use an
/// rz_textstream. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary), RZ_ERR_VERSION (unknown
/// flags), RZ_ERR_UNSUPPORTED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_detokenize_into(
    model: *const rz_model,
    tokens: *const u32,
    n: usize,
    flags: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        call.flags(flags, RZ_DETOKENIZE_SPECIAL, "flags")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let tokenizer = model.0.tokenizer()?;
        let special = flags & RZ_DETOKENIZE_SPECIAL != 0;
        let bytes = timed(&model.0, Phase::Detokenize, || tokenizer.decode(tokens, special))?;
        out.fill(String::from_utf8_lossy(&bytes).as_bytes())?;
        Ok(RZ_OK)
    })
}

/// Returns 1 if `token` ends a turn or a text of this model, else 0 (also for NULL and for a token outside the
/// vocabulary). Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_token_is_end(model: *const rz_model, token: u32) -> i32 {
    guarded_or!(0, |call| Ok(i32::from(call.handle(model)?.0.tokenizer()?.is_end(token))))
}

/// Writes the bytes of one token, which may be part of a character; for a control token its name. Concatenating the
/// bytes of all tokens gives the text, except for a leading space that some tokenizers add.
///
/// `*len` receives the number of bytes, `*attributes` RZ_ATTR_... bits combined with |; `attributes` may be NULL. If
/// `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a
/// token outside the vocabulary), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_token_bytes_into(
    model: *const rz_model,
    token: u32,
    out: *mut c_void,
    capacity: usize,
    len: *mut usize,
    attributes: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let attributes = if attributes.is_null() { None } else { Some(call.out(attributes, "attributes")?) };
        let tokenizer = model.0.tokenizer()?;
        let bytes = tokenizer.decode_token(token, true)?;
        let kind = match tokenizer.kind(token) {
            Some(Kind::Normal | Kind::Unreachable) => RZ_ATTR_NORMAL,
            Some(Kind::Control) => RZ_ATTR_CONTROL,
            Some(Kind::UserDefined) => RZ_ATTR_USER,
            Some(Kind::Byte) => RZ_ATTR_BYTE,
            None => 0,
        };
        let end = if tokenizer.is_end(token) { RZ_ATTR_END } else { 0 };
        out.fill_next_to(&bytes, || {
            if let Some(attributes) = attributes {
                attributes.set(kind | end);
            }
        })?;
        Ok(RZ_OK)
    })
}

/// Incremental detokenizer: converts tokens to text as they arrive, and holds back the bytes of an incomplete
/// character. Mutable: one call at a time.
pub struct rz_textstream {
    model: Arc<Model>,
    stream: Lock<TextStream>,
}

impl Handle for rz_textstream {
    const NAME: &'static str = "text stream";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.model.runtime())
    }
}

/// Creates a text stream for tokens of a model that begin a text: a leading space that the tokenizer adds is removed.
/// For tokens that continue a text, call rz_textstream_follow before the first token. The caller frees `*out` with
/// rz_textstream_free, before or after the model. Any thread. Errors: RZ_ERR_UNSUPPORTED (a tokenizer that is not
/// implemented). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_textstream_new(
    model: *const rz_model,
    out: *mut *mut rz_textstream,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out(out, "out")?;
        model.0.tokenizer()?;
        out.set_handle(rz_textstream { model: model.0.clone(), stream: Lock::new(TextStream::new()) });
        Ok(RZ_OK)
    })
}

/// Sets the `n` tokens that precede the text, such as the earlier contents of the cache and the prompt, without writing
/// their text. The stream then writes text as it appears after those tokens: a space at the start of a word is kept,
/// and a character that those tokens leave incomplete is completed.
///
/// Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary, which changes nothing), RZ_ERR_BUSY,
/// RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_textstream_follow(
    stream: *mut rz_textstream,
    tokens: *const u32,
    n: usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let stream = call.handle(stream)?;
        let tokens = call.slice(tokens, n, "tokens")?;
        let tokenizer = stream.model.tokenizer()?;
        for &token in tokens {
            tokenizer.decode_token(token, false)?;
        }
        stream.stream.take(rz_textstream::NAME)?.follow(tokenizer, tokens);
        Ok(RZ_OK)
    })
}

/// Adds a token and writes the text that it completes: whole UTF-8 characters, often none.
///
/// `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL and does not add the token: call again with a larger buffer. Any thread. Errors:
/// RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary), RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_textstream_push_into(
    stream: *mut rz_textstream,
    token: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let stream = call.handle(stream)?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        stream.advance(out, |stream, tokenizer, text| stream.push(tokenizer, token, text))?;
        Ok(RZ_OK)
    })
}

/// Ends the text: writes the bytes held back, with U+FFFD for an incomplete character, and resets the stream for the
/// next text. Sizes and errors as for rz_textstream_push_into. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_textstream_flush_into(
    stream: *mut rz_textstream,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let stream = call.handle(stream)?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        stream.advance(out, |stream, _, text| {
            stream.flush(text);
            Ok(())
        })?;
        Ok(RZ_OK)
    })
}

impl rz_textstream {
    /// Writes the text that `step` completes; if the buffer is too small, the stream is unchanged.
    fn advance(
        &self,
        out: Buffer<u8>,
        step: impl FnOnce(&mut TextStream, &Tokenizer, &mut String) -> Result<()>,
    ) -> Result<()> {
        let mut stream = self.stream.take(Self::NAME)?;
        let mut ahead = *stream;
        let mut text = String::new();
        let tokenizer = self.model.tokenizer()?;
        timed(&self.model, Phase::Detokenize, || step(&mut ahead, tokenizer, &mut text))?;
        out.fill(text.as_bytes())?;
        *stream = ahead;
        Ok(())
    }
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_textstream_free(stream: *mut rz_textstream) {
    guarded_or!((), |call| call.release(stream))
}

pub(super) fn timed<T>(model: &Model, phase: Phase, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    let result = work()?;
    model.metrics().record_phase(phase, started.elapsed());
    Ok(result)
}
