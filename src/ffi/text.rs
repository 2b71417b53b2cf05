//! Text to tokens and back.

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

/// Flag of rz_tokenize_into: add the tokens that begin and end a text, as the model asks.
pub const RZ_TOKENIZE_ADD_SPECIAL: u32 = 1;
/// Flag of rz_tokenize_into: "<|im_end|>" in the text becomes its token. Not for text that users typed.
pub const RZ_TOKENIZE_PARSE_SPECIAL: u32 = 2;
/// Flag of rz_detokenize_into: write special tokens too.
pub const RZ_DETOKENIZE_SPECIAL: u32 = 1;
/// Attribute of a token: reached by cutting text into tokens.
pub const RZ_ATTR_NORMAL: u32 = 1;
/// Attribute of a token: steers the model, such as "<|im_end|>"; texts are written without it.
pub const RZ_ATTR_CONTROL: u32 = 2;
/// Attribute of a token: found as a whole in any text.
pub const RZ_ATTR_USER: u32 = 4;
/// Attribute of a token: stands for one byte.
pub const RZ_ATTR_BYTE: u32 = 8;
/// Attribute of a token: ends a turn or a text, as rz_token_is_end says.
pub const RZ_ATTR_END: u32 = 16;

/// Turns `text`, UTF-8 of `text_len` bytes, into token ids.
///
/// `*n` receives their number. With too small a `capacity` the result is RZ_ERR_BUFFER_TOO_SMALL. `cancel`, which ends
/// the call within milliseconds, may be NULL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (not UTF-8), RZ_ERR_VERSION
/// (unknown flags), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented), RZ_ERR_CANCELLED, RZ_ERR_DEADLINE,
/// RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
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

/// Turns `n` token ids into text, the first of which begins it.
///
/// `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
/// RZ_ERR_BUFFER_TOO_SMALL. Bytes that are no UTF-8, such as half a character at the end, become U+FFFD; for a text
/// that arrives token by token use an rz_textstream. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a token outside the
/// vocabulary), RZ_ERR_VERSION (unknown flags), RZ_ERR_UNSUPPORTED. Since 0.1.0.
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

/// 1 when `token` ends a turn or a text of this model, else 0 (also for NULL and for a token outside the vocabulary).
/// Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_token_is_end(model: *const rz_model, token: u32) -> i32 {
    guarded_or!(0, |call| Ok(i32::from(call.handle(model)?.0.tokenizer()?.is_end(token))))
}

/// Writes the bytes of one token, which may be a part of a character; those of a control token spell its name. Behind
/// each other the bytes of tokens make a text, but for a space at its beginning that some tokenizers put there.
///
/// `*len` receives their number and `*attributes` RZ_ATTR_NORMAL and the like, or-ed together; `attributes` may be
/// NULL. With too small a `capacity` the result is RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT
/// (a token outside the vocabulary), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented). Since 0.1.0.
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

/// Turns tokens into text as they come, holding back the bytes of an unfinished character. Mutable, so one call at a
/// time.
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

/// Makes a text stream for the tokens of a model, the first of which begins a text: a space that the tokenizer put
/// there is left out. For tokens that go on with another text call rz_textstream_follow ahead of the first. `*out` is
/// freed with rz_textstream_free, before or after the model. Any thread. Errors: RZ_ERR_UNSUPPORTED (a tokenizer that
/// is not implemented). Since 0.1.0.
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

/// Puts `n` tokens ahead of those to come, such as a prompt and what its cache held before, without writing their text.
/// So the stream writes what the text of all together has behind theirs: a space at the start of a word stays, and a
/// character that they leave incomplete is completed.
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

/// Adds a token and writes the text that is complete with it: whole UTF-8 characters, often none.
///
/// `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
/// RZ_ERR_BUFFER_TOO_SMALL and the token was not added: call again with more room. Any thread. Errors:
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

/// Ends the text: writes what was held back, with U+FFFD for an unfinished character, and makes the stream fit for
/// another text. Sizes and errors are those of rz_textstream_push_into. Any thread. Since 0.1.0.
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
    /// Writes what `step` brings to light; where there is no room for it the stream stays as it was.
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
