//! The text of a job: whole characters out of tokens, less the stop strings and what may yet become one. Or the parts
//! of the reply to a conversation, in whose content the stop strings count.

use crate::error::{Error, Result};
use crate::text::{Event, ReplyParser, Stops, TextStream, Tokenizer};

/// What was made and not read yet.
pub enum JobText {
    Text {
        stream: TextStream,
        stops: Stops,
        text: String,
        /// Bytes at the end of `text` that are the beginning of a stop string.
        held: usize,
    },
    Reply {
        parser: Box<ReplyParser>,
        /// It has ended, by a token that ends texts or otherwise.
        ended: Option<bool>,
    },
}

impl JobText {
    /// Texts of what comes out of `stream` that end ahead of the first of `stops` that they would hold.
    pub fn new(stream: TextStream, stops: Stops) -> JobText {
        JobText::Text { stream, stops, text: String::new(), held: 0 }
    }

    /// The parts of a reply.
    pub fn reply(parser: ReplyParser) -> JobText {
        JobText::Reply { parser: Box::new(parser), ended: None }
    }

    /// Appends the text of a token; true where a stop string is complete, after which nothing counts. A token that the
    /// tokenizer does not know has no text.
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

    /// True where the next text of a reply is reasoning, and where it is content.
    pub fn is_in_reasoning(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.is_in_reasoning())
    }

    pub fn is_in_content(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.is_in_content())
    }

    /// True for a reply whose last token has ended within a character.
    pub fn is_in_character(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.is_in_character())
    }

    /// True for a reply that has text of which it is not yet known what it is.
    pub fn holds_text(&self) -> bool {
        matches!(self, JobText::Reply { parser, .. } if parser.holds_text())
    }

    /// Ends a text in which no stop string is complete; `is_whole`: by a token that ends texts.
    pub fn end(&mut self, is_whole: bool) {
        match self {
            JobText::Text { stream, text, held, .. } => {
                stream.flush(text);
                *held = 0;
            }
            JobText::Reply { ended, .. } => *ended = Some(is_whole),
        }
    }

    /// Shows `read` what is new, which is gone where that succeeds.
    pub fn read<T>(&mut self, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let JobText::Text { text, held, .. } = self else {
            return Err(Error::invalid("a job with a conversation, which makes parts of a reply in place of a text"));
        };
        let ready = text.len() - *held;
        let result = read(&text[..ready])?;
        text.drain(..ready);
        Ok(result)
    }

    /// Shows `take` the next part of the reply, which is gone where that succeeds.
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
