//! Parameters of a job, and the validated request: everything that can fail happens before the job exists.

use std::sync::Arc;

use super::logprobs::JobLogprobs;
use super::text::JobText;
use crate::engine::cancel::Cancel;
use crate::engine::chooser::Chooser;
use crate::engine::draft::source::{Draft, DraftParams, MOST};
use crate::engine::prompt::Prompt;
use crate::engine::runs::{MediaRuns, Text};
use crate::engine::session::{Memory, Session};
use crate::error::{Error, Result, try_vec};
use crate::text::{Reply, ReplyParser, Stops, TextStream};

/// A bound on the reasoning of a reply.
pub struct ReasoningBound {
    /// Number of reasoning tokens left.
    pub left: usize,
    /// The tokens that end reasoning, inserted when none are left.
    pub closing: Vec<u32>,
}

#[derive(Default)]
pub struct JobParams<'a> {
    /// Maximum number of generated tokens; 0: up to the context length.
    pub max_tokens: usize,
    /// `None`: greedy.
    pub chooser: Option<Chooser>,
    pub stops: &'a [&'a str],
    /// The possible replies, for a job that yields the parts of a reply instead of a text.
    pub reply: Option<Reply>,
    /// The last tokens of the prompt, with which the reply begins.
    pub continued: &'a [u32],
    /// `None`: unbounded reasoning.
    pub reasoning: Option<ReasoningBound>,
    /// Number of most likely tokens to keep with each token's logprob.
    pub logprobs: Option<usize>,
    /// True to keep logprobs only of content tokens.
    pub only_content_logprobs: bool,
    pub draft: DraftParams,
    /// Scheduling priority; higher first, default 0.
    pub priority: i32,
    pub cancel: Option<Arc<Cancel>>,
    /// True to prefill only.
    pub only_reads: bool,
}

/// A validated request, ready to become a job.
pub struct Request {
    pub(super) prompt: Vec<u32>,
    /// The media of the session and the prompt.
    pub(super) runs: MediaRuns,
    /// Tokens of the open decode step: the last one and a draft.
    pub(super) step: Vec<u32>,
    pub(super) draft: Option<Draft>,
    /// The generated tokens; the last one may not be appended yet.
    pub(super) made: Vec<u32>,
    pub(super) max_tokens: usize,
    pub(super) text: JobText,
    /// `None` if not requested.
    pub(super) logprobs: Option<JobLogprobs>,
    pub(super) only_content_logprobs: bool,
    pub(super) reasoning: Option<ReasoningBound>,
    pub(super) chooser: Option<Chooser>,
    pub(super) priority: i32,
    pub(super) only_reads: bool,
    pub(super) cancel: Option<Arc<Cancel>>,
    /// Memory for a released session.
    pub(super) memory: Option<Memory>,
}

impl Request {
    /// Fails if the request is impossible with the session as it is.
    pub fn new(session: &Session, prompt: &[u32], params: JobParams) -> Result<Request> {
        Request::of_text(session, Text::plain(prompt), params)
    }

    /// Returns a request with the prompt's tokens from index `first` on.
    pub fn of_prompt(session: &Session, prompt: &Prompt, first: usize, params: JobParams) -> Result<Request> {
        Request::of_text(session, prompt.from(first, session.model())?, params)
    }

    fn of_text(session: &Session, text: Text, params: JobParams) -> Result<Request> {
        let prompt = text.tokens;
        if prompt.is_empty() {
            return Err(Error::invalid("a job needs a prompt of at least one token"));
        }
        session.check_text(text, params.chooser.as_ref()).map_err(|e| match e {
            Error::ContextFull { held: 0, more, capacity, .. } => {
                Error::ContextFull { what: "the prompt", held: 0, more, capacity }
            }
            other => other,
        })?;
        if !params.stops.is_empty() {
            session.model().tokenizer()?;
        }
        let stops = Stops::new(params.stops)?;
        let job_text = match params.reply {
            Some(reply) => {
                let mut text = JobText::reply(ReplyParser::new(Arc::new(reply), stops));
                for &token in params.continued {
                    text.push(session.model().tokenizer()?, token)?;
                }
                text
            }
            None => {
                let mut stream = TextStream::new();
                if let Ok(tokenizer) = session.model().tokenizer() {
                    stream.follow(tokenizer, session.tokens());
                    stream.follow(tokenizer, prompt);
                }
                JobText::new(stream, stops)
            }
        };
        // The last generated token is not appended.
        let room = session.capacity() - session.len() - prompt.len() + 1;
        let max_tokens = if params.max_tokens == 0 { usize::MAX } else { params.max_tokens };
        let mut copy = try_vec("a job's prompt", prompt.len())?;
        copy.extend_from_slice(prompt);
        let vocab = session.network().program.vocab;
        Ok(Request {
            logprobs: JobLogprobs::new(params.logprobs, vocab, max_tokens.min(room))?,
            prompt: copy,
            runs: session.runs_with(text)?,
            only_content_logprobs: params.only_content_logprobs,
            reasoning: params.reasoning,
            step: try_vec("the tokens of drafts", MOST + 1)?,
            draft: Draft::new(session, params.chooser.as_ref(), params.draft)?,
            made: try_vec("a job's tokens", max_tokens.min(room))?,
            max_tokens,
            text: job_text,
            chooser: params.chooser,
            priority: params.priority,
            only_reads: params.only_reads,
            cancel: params.cancel,
            memory: session.fresh_memory()?,
        })
    }
}
