//! Parameters of a reply, its prompt, and the parameters of its job.

use std::sync::{Arc, Mutex};

use super::grammar::{ContentGrammar, ReplyGrammars};
use crate::engine::abilities::switches;
use crate::engine::cancel::Cancel;
use crate::engine::chooser::Chooser;
use crate::engine::draft::source::DraftParams;
use crate::engine::job::{JobParams, ReasoningBound};
use crate::engine::media::item::Media;
use crate::engine::model::Model;
use crate::engine::prompt::{self, Prompt};
use crate::error::{Error, Result};
use crate::sampling::SamplerParams;
use crate::text::{Chat, KnownTexts, MarkedText, NewIds, ToolChoice};

/// What to do if messages and reply exceed the context window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overflow {
    /// The reply fails.
    #[default]
    Fail,
    /// The oldest turns are dropped from the prompt.
    Forget,
}

/// Whether the model reasons before the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reasoning {
    /// The template decides.
    #[default]
    Model,
    Off,
    On,
}

#[derive(Default)]
pub struct ReplyParams<'a> {
    /// Maximum number of generated tokens; 0: up to the context length.
    pub max_tokens: usize,
    /// `None`: the authors' recommended parameters, or greedy.
    pub sampler: Option<SamplerParams>,
    /// A grammar for the content. `None`: the grammar of tool calls, if there are tools.
    pub grammar: Option<ContentGrammar<'a>>,
    /// JSON of tools, tool choice and template variables that override the conversation's.
    pub members: Option<&'a str>,
    /// True to prefill the messages without generating.
    pub only_reads: bool,
    pub stops: &'a [&'a str],
    pub reasoning: Reasoning,
    /// Maximum number of reasoning tokens; 0: unbounded.
    pub reasoning_tokens: usize,
    pub draft: DraftParams,
    /// Number of most likely tokens to keep with each content token's logprob.
    pub logprobs: Option<usize>,
    /// Scheduling priority; higher first, default 0.
    pub priority: i32,
    pub cancel: Option<Arc<Cancel>>,
    /// True if a reply that is given up becomes a message with its present text.
    pub keeps_cut: bool,
    /// True to continue the last message, a cut reply.
    pub continues: bool,
}

/// A prompt, and its source messages.
pub struct ReplyPrompt {
    chat: Chat,
    text: MarkedText,
    pub(super) prompt: Prompt,
    pub(super) first: usize,
}

/// Makes prompts. Templates and grammars run on a thread of the runtime, tokenization on the caller's.
pub struct PromptBuilder<'a> {
    pub(super) model: &'a Arc<Model>,
    pub(super) chat: &'a Chat,
    pub(super) media: &'a [Arc<Media>],
    /// Grammars of earlier replies.
    pub(super) grammars: &'a ReplyGrammars,
    /// Tokenized texts of the last prompt.
    pub(super) known: &'a Mutex<KnownTexts>,
    /// `Conversation::first`.
    pub(super) first: usize,
    /// Number of messages to use.
    pub(super) end: usize,
    pub(super) capacity: usize,
    /// Tokens with which the reply begins.
    pub(super) begun: &'a [u32],
    /// Cancels that end the wait for a thread.
    pub(super) cancels: [Option<&'a Cancel>; 2],
    /// Template variables.
    pub(super) switches: Vec<(&'static str, bool)>,
}

impl<'p> PromptBuilder<'p> {
    /// Returns the prompt of a reply, and the parameters of its job.
    pub(super) fn build(
        mut self,
        overflow: Overflow,
        params: ReplyParams<'p>,
        seed: u64,
    ) -> Result<(ReplyPrompt, JobParams<'p>)> {
        self.switches = self.on_runtime_thread(|| self.switches(params.reasoning))?;
        if let Ok(mut known) = self.known.try_lock() {
            known.begin();
        }
        let prompt = self.fit(overflow, params.max_tokens)?;
        let job = self.on_runtime_thread(|| self.job_params(params, &prompt, seed))?;
        Ok((prompt, job))
    }

    /// Runs template and grammar work on a thread of the runtime.
    fn on_runtime_thread<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.model.run_deep(&self.cancels, work)
    }

    /// Returns the template variables that switch reasoning.
    fn switches(&self, reasoning: Reasoning) -> Result<Vec<(&'static str, bool)>> {
        if reasoning == Reasoning::Model {
            return Ok(Vec::new());
        }
        let is_on = reasoning == Reasoning::On;
        let render =
            |on| prompt::render(self.model, &self.chat.prompt(self.first, self.end, &switches(on)))?.text.plain();
        if render(true)? != render(false)? {
            return Ok(switches(is_on));
        }
        match (is_on, &self.model.reply_form()?.reasoning) {
            (true, Some(_)) | (false, None) => Ok(Vec::new()),
            (true, None) => Err(Error::unsupported("reasoning: the chat template has none")),
            (false, Some(_)) => Err(Error::unsupported(
                "reasoning cannot be turned off: the chat template uses neither enable_thinking nor thinking",
            )),
        }
    }

    /// Returns the prompt without the turns before message `first`.
    fn render(&self, first: usize) -> Result<ReplyPrompt> {
        let chat = self.chat.prompt(first, self.end, &self.switches);
        let rendered = self.on_runtime_thread(|| prompt::render(self.model, &chat))?;
        // If a fork renders at the same time, tokenize everything.
        let mut known = self.known.try_lock().ok();
        let known = known.as_deref_mut();
        let prompt = Prompt::of_rendered(self.model, &rendered, self.media, &self.cancels, known)?;
        Ok(ReplyPrompt { chat, text: rendered.text, prompt, first })
    }

    /// Returns the prompt of a reply. If prompt and reply do not fit in the context window and `overflow` allows it,
    /// drops the oldest turns until the prompt takes at most half of the context window. Never drops the last turn.
    /// Dropping many turns at once makes the recomputation that follows rare.
    fn fit(&self, overflow: Overflow, max_tokens: usize) -> Result<ReplyPrompt> {
        let (capacity, begun) = (self.capacity, self.begun.len());
        let prompt = self.render(self.first)?;
        let room = match max_tokens {
            0 => capacity / 4,
            n => n.min(capacity / 4),
        };
        let fits = |made: &ReplyPrompt, most: usize| made.prompt.tokens().len() + begun + room <= most;
        if overflow == Overflow::Fail || fits(&prompt, capacity) {
            return Ok(prompt);
        }
        let turns: Vec<usize> = self.chat.turns().into_iter().filter(|&i| i > self.first && i < self.end).collect();
        let (mut low, mut high, mut best) = (0, turns.len(), None);
        while low < high {
            let middle = (low + high) / 2;
            let shorter = self.render(turns[middle])?;
            if fits(&shorter, capacity / 2 + room) {
                (high, best) = (middle, Some(shorter));
            } else {
                low = middle + 1;
            }
        }
        match (best, turns.last()) {
            (Some(shorter), _) => Ok(shorter),
            (None, Some(&last)) => self.render(last),
            (None, None) => Ok(prompt),
        }
    }

    /// Returns the parameters of the job that replies to `prompt`. `seed`: seed of the recommended sampler.
    fn job_params(&self, params: ReplyParams<'p>, prompt: &ReplyPrompt, seed: u64) -> Result<JobParams<'p>> {
        let mut reply = self.model.reply_to(&prompt.chat, &prompt.text)?;
        reply.may_reason = params.reasoning != Reasoning::Off;
        // The prompt may lack the oldest turns.
        reply.ids = NewIds::new(reply.form.call_ids, &self.chat.messages()[..self.end]);
        let grammar = match params.grammar {
            Some(ContentGrammar::Text(content)) => Some(self.grammars.of(self.model, &reply, Some(&content), false)?),
            Some(ContentGrammar::Compiled(grammar)) => Some(grammar.of_reply(self.model, &reply)?),
            None if !prompt.chat.tools().is_empty() && prompt.chat.tool_choice != ToolChoice::None => {
                Some(self.grammars.of(self.model, &reply, None, false)?)
            }
            None => None,
        };
        let sampler = params.sampler.unwrap_or_else(|| self.model.advice().sampler(seed));
        let is_plain = sampler == SamplerParams { seed: sampler.seed, ..SamplerParams::default() };
        let mut chooser = if is_plain && grammar.is_none() { None } else { Some(Chooser::new(sampler)?) };
        if let (Some(chooser), Some(grammar)) = (&mut chooser, grammar) {
            let mut matcher = grammar.matcher()?;
            matcher.begin_at(prompt.prompt.tokens().len());
            chooser.set_grammar(Some(matcher));
        }
        let reasoning = match params.reasoning_tokens {
            0 => None,
            left => self.closing()?.map(|closing| ReasoningBound { left, closing }),
        };
        Ok(JobParams {
            max_tokens: params.max_tokens,
            chooser,
            stops: params.stops,
            reply: Some(reply),
            continued: self.begun,
            reasoning,
            logprobs: params.logprobs,
            only_content_logprobs: true,
            draft: params.draft,
            priority: params.priority,
            cancel: params.cancel,
            only_reads: params.only_reads,
        })
    }

    /// Returns the tokens that end reasoning; `None` for a model without reasoning.
    fn closing(&self) -> Result<Option<Vec<u32>>> {
        let form = self.model.reply_form()?;
        let Some(tags) = &form.reasoning else { return Ok(None) };
        // In this format the answer is a message of its own.
        let after = if form.has_headers { "<|start|>assistant" } else { "" };
        let mut tokens = Vec::new();
        self.model.tokenizer()?.encode(&format!("{}{after}", tags.close), false, true, &mut tokens)?;
        Ok(Some(tokens))
    }
}
