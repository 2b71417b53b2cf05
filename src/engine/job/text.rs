//! The text of a job, in whole characters. The text ends before the first stop sequence, and bytes that may begin a
//! stop sequence are held back. For a reply in a conversation: the parts of the reply; stop sequences apply to the
//! content.

use crate::error::{Error, Result};
use crate::text::{Event, ReplyParser, Stops, TextStream, Tokenizer};

/// Text that was generated and not yet read.
pub enum JobText {
    Text {
        stream: TextStream,
        stops: Stops,
        text: String,
        /// Bytes at the end of `text` that may begin a stop sequence.
        held: usize,
    },
    Reply {
        parser: Box<ReplyParser>,
        /// `Some` after the end: true if a token ended the text.
        ended: Option<bool>,
    },
}

impl JobText {
    /// Returns text of `stream` that ends before the first of `stops`.
    pub fn new(stream: TextStream, stops: Stops) -> JobText {
        JobText::Text { stream, stops, text: String::new(), held: 0 }
    }

    /// Returns the parts of a reply.
    pub fn reply(parser: ReplyParser) -> JobText {
        JobText::Reply { parser: Box::new(parser), ended: None }
    }

    /// Appends the text of a token. Returns true if a stop sequence is complete; later tokens then add no text. Tokens
    /// unknown to the tokenizer have no text.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<bool> {
        match self {
            JobText::Text { stream, stops, text, held } => {
                let before = text.len();
                stream.push(tokenizer, token, text).or_else(unknown)?;
                let stop = stops.push(&text[before..]);
                if let Some((end, len)) = stop {
                    text.truncate(before + end - len);
                }
                *held = if stop.is_none() { stops.held() } else { 0 };
                Ok(stop.is_some())
            }
            JobText::Reply { parser, .. } => {
                parser.push(tokenizer, token).or_else(unknown)?;
                Ok(parser.is_stopped())
            }
        }
    }

    /// True if the next text of the reply is reasoning.
    pub fn is_in_reasoning(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.is_in_reasoning())
    }

    pub fn is_in_content(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.is_in_content())
    }

    /// True for a reply whose last token ended inside a character.
    pub fn is_in_character(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.is_in_character())
    }

    /// True while some text of a reply is still unclassified.
    pub fn holds_text(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.holds_text())
    }

    /// Ends the text if no stop sequence is complete; `is_whole`: a token ended it.
    pub fn end(&mut self, is_whole: bool) {
        match self {
            JobText::Text { stream, text, held, .. } => {
                stream.flush(text);
                *held = 0;
            }
            JobText::Reply { ended, .. } => *ended = Some(is_whole),
        }
    }

    /// Passes the new text to `read`, and removes it if `read` succeeds.
    pub fn read<T>(&mut self, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let JobText::Text { text, held, .. } = self else {
            return Err(Error::invalid("a job with a conversation, which makes parts of a reply in place of a text"));
        };
        let ready = text.len() - *held;
        let result = read(&text[..ready])?;
        text.drain(..ready);
        Ok(result)
    }

    /// Passes the next part of the reply to `take`, and removes it if `take` succeeds.
    pub fn next<T>(&mut self, take: impl FnOnce(&Event) -> Result<T>) -> Result<Option<T>> {
        let JobText::Reply { parser, ended } = self else {
            return Err(Error::invalid("a job without a conversation, which makes a text in place of parts"));
        };
        if let Some(is_whole) = *ended {
            parser.end(is_whole)?;
        }
        parser.next(take)
    }
}

fn unknown(e: Error) -> Result<()> {
    if matches!(e, Error::InvalidArgument(_)) { Ok(()) } else { Err(e) }
}
