//! A conversation: messages, a session that holds what the model has read of them, and the reply that is being made.
//!
//! Invariants: the prompt of a reply is the rendering of all messages, and what the session holds of it is matched, not
//! trusted. Either the conversation has the session or the job of an unfinished reply has it. A reply becomes a message
//! when it has ended.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::job::{End, Job, JobInfo, JobParams, ReasoningBound, Request};
use super::schedule::step_jobs;
use super::session::Logits;
use super::{
    Adapter, CacheParams, Cancel, Chooser, DraftParams, GrammarKind, Model, SamplerParams, Session, Store, apart,
};
use crate::error::{Error, Result, try_vec};
use crate::text::{Chat, Event, EventKind, MarkedText, ToolChoice};

/// What happens where messages and a reply have no room in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overflow {
    /// The reply is refused.
    #[default]
    Fail,
    /// The oldest turns are left out of the prompt.
    Forget,
}

/// Whether the model writes reasoning ahead of its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reasoning {
    /// As the template does by itself.
    #[default]
    Model,
    Off,
    On,
}

#[derive(Default)]
pub struct ConversationParams<'a> {
    pub overflow: Overflow,
    pub cache: CacheParams,
    pub adapters: &'a [Arc<Adapter>],
    pub scales: &'a [f32],
    /// Heeded by every step.
    pub cancel: Option<Arc<Cancel>>,
    /// Where prefixes are looked up and left.
    pub store: Option<Arc<Store>>,
}

#[derive(Default)]
pub struct ReplyParams<'a> {
    /// Tokens to make at most; 0: as many as the cache has room for.
    pub max_tokens: usize,
    /// `None`: what the model's makers advise, or the most likely token.
    pub sampler: Option<SamplerParams>,
    /// Kind, white space between the parts of JSON, and text of a grammar for the content. `None`: that of calls where
    /// there are tools.
    pub grammar: Option<(GrammarKind, bool, &'a str)>,
    pub stops: &'a [&'a str],
    pub reasoning: Reasoning,
    /// Tokens of reasoning at most; 0: no bound.
    pub reasoning_tokens: usize,
    pub draft: DraftParams,
    /// Number of the likeliest tokens to keep with each token of content; 0: none.
    pub logprobs: usize,
    /// Among the replies of a step the higher go first; 0: as most.
    pub priority: i32,
    pub cancel: Option<Arc<Cancel>>,
    /// What was said of a reply that is given up becomes a message.
    pub keeps_cut: bool,
    /// Goes on with the last message, a reply that was cut.
    pub continues: bool,
}

/// The state of a conversation at one time.
#[derive(Debug)]
pub struct ConversationInfo {
    pub messages: usize,
    /// Number of the message from which on turns are in prompts.
    pub first_in_prompt: usize,
    /// Tokens of the prompt, and those of them that the cache held.
    pub prompt: usize,
    pub reused: usize,
    /// The job of the last reply; `None` before the first one.
    pub job: Option<JobInfo>,
    /// The reply was given up.
    pub is_given_up: bool,
    pub capacity: usize,
    pub held: usize,
}

/// A reply, unfinished or the last one.
struct Turn {
    prompt: usize,
    reused: usize,
    keeps_cut: bool,
    /// It goes on with the last message.
    continues: bool,
    /// Tokens of the reply, those with which it goes on included.
    made: Vec<u32>,
    /// What it says. Neighbours of one kind are joined.
    parts: Vec<Event>,
    /// Number of the part to hand on next, and its bytes that were handed on.
    given: (usize, usize),
    /// Rows of log-probabilities.
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    info: JobInfo,
    failure: Option<Error>,
}

/// A prompt and the messages from which it was made.
struct Prompt {
    chat: Chat,
    text: MarkedText,
    tokens: Vec<u32>,
    first: usize,
}

pub struct Conversation {
    model: Arc<Model>,
    chat: Chat,
    overflow: Overflow,
    /// Number of the first message of a turn that is in prompts; systems' messages always are.
    first: usize,
    /// `None` where the job has it.
    session: Option<Session>,
    job: Option<Job>,
    turn: Option<Turn>,
    /// Tokens of the last message, a reply that was cut; empty otherwise.
    cut: Vec<u32>,
    /// Number of replies that were begun, which seeds the advised sampling.
    n_replies: u64,
    n_calls: usize,
    store: Option<Arc<Store>>,
}

impl Conversation {
    pub fn new(model: &Arc<Model>, chat: Chat, params: ConversationParams) -> Result<Conversation> {
        model.tokenizer()?;
        model.chat_template()?;
        let mut session = Session::new(model, &params.cache)?;
        if !params.adapters.is_empty() {
            session.set_adapters(params.adapters, params.scales)?;
        }
        session.set_cancel(params.cancel);
        let mut conversation = Conversation::with_session(session, chat, params.overflow);
        conversation.set_store(params.store)?;
        Ok(conversation)
    }

    /// Looks prefixes up in a store from now on, and leaves them there.
    pub fn set_store(&mut self, store: Option<Arc<Store>>) -> Result<()> {
        if store.as_ref().is_some_and(|store| !Arc::ptr_eq(store.model(), &self.model)) {
            return Err(Error::Mismatch("the store is one of another model than the conversation".to_owned()));
        }
        self.store = store;
        Ok(())
    }

    /// A conversation whose session holds what it has read.
    pub(super) fn with_session(session: Session, chat: Chat, overflow: Overflow) -> Conversation {
        Conversation {
            model: session.model().clone(),
            chat,
            overflow,
            first: 0,
            session: Some(session),
            job: None,
            turn: None,
            cut: Vec::new(),
            n_replies: 0,
            n_calls: 0,
            store: None,
        }
    }

    /// Heeded by every step from now on.
    pub fn set_cancel(&mut self, cancel: Option<Arc<Cancel>>) {
        if let Some(session) = &mut self.session {
            session.set_cancel(cancel);
        }
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    pub fn chat(&self) -> &Chat {
        &self.chat
    }

    fn n_messages(&self) -> usize {
        self.chat.messages().len()
    }

    /// Appends messages in JSON; an unfinished reply is given up first.
    pub fn add(&mut self, json: &str) -> Result<()> {
        let mut chat = self.chat.clone();
        chat.truncate(0);
        chat.add(json)?;
        self.give_up()?;
        if !chat.messages().is_empty() {
            chat.messages().iter().try_for_each(|message| self.chat.push(message.clone()))?;
            self.cut.clear();
        }
        Ok(())
    }

    /// Appends a message of one text.
    pub fn add_text(&mut self, role: &str, text: &str) -> Result<()> {
        self.add(&json!({"role": role, "content": text}).to_string())
    }

    /// Forgets the messages after the first `n`.
    pub fn rewind(&mut self, n: usize) -> Result<()> {
        let now = self.n_messages();
        if n > now {
            return Err(Error::invalid(format!("the conversation has {now} messages, it can't be rewound to {n}")));
        }
        self.give_up()?;
        if n < self.n_messages() {
            self.chat.truncate(n);
            self.cut.clear();
            self.first = self.first.min(n);
        }
        Ok(())
    }

    /// A second conversation with the same past.
    pub fn fork(&self) -> Result<Conversation> {
        let fork = Conversation::with_session(self.idle()?.fork()?, self.chat.clone(), self.overflow);
        let (cut, n_replies, n_calls, store) = (self.cut.clone(), self.n_replies, self.n_calls, self.store.clone());
        Ok(Conversation { first: self.first, cut, n_replies, n_calls, store, ..fork })
    }

    /// Its messages and what is known of them, in JSON, for `with_state`.
    pub(super) fn state(&self) -> String {
        json!({
            "chat": self.chat.to_json(),
            "forgets": self.overflow == Overflow::Forget,
            "first": self.first,
            "cut": self.cut,
            "replies": self.n_replies,
            "calls": self.n_calls,
        })
        .to_string()
    }

    /// A conversation whose state was saved with its session. `None` for what no state is.
    pub(super) fn with_state(session: Session, state: &str) -> Result<Option<Conversation>> {
        let state: Json = serde_json::from_str(state).unwrap_or_default();
        let number = |name: &str| state[name].as_u64();
        let vocab = session.network().program.vocab as u64;
        let token =
            |token: &Json| token.as_u64().filter(|&token| token < vocab).and_then(|token| token.try_into().ok());
        let cut = state["cut"].as_array().and_then(|cut| cut.iter().map(token).collect::<Option<Vec<u32>>>());
        let (Some(chat), Some(forgets)) = (state["chat"].as_str(), state["forgets"].as_bool()) else { return Ok(None) };
        let (Some(cut), Some(first), Some(n_replies), Some(n_calls)) =
            (cut, number("first"), number("replies"), number("calls"))
        else {
            return Ok(None);
        };
        let chat = Chat::begun(chat)?;
        let n = chat.messages().len();
        if first > n as u64 || n_calls > u64::from(u32::MAX) || (n == 0 && !cut.is_empty()) {
            return Ok(None);
        }
        let overflow = if forgets { Overflow::Forget } else { Overflow::Fail };
        let conversation = Conversation::with_session(session, chat, overflow);
        Ok(Some(Conversation { first: first as usize, cut, n_replies, n_calls: n_calls as usize, ..conversation }))
    }

    /// The session, where no reply is being made.
    pub(super) fn idle(&self) -> Result<&Session> {
        self.session.as_ref().ok_or(Error::Busy("conversation's cache, with which a reply is being made,"))
    }

    /// Begins a reply; an unfinished one is given up first. Nothing is computed yet.
    pub fn reply(&mut self, params: ReplyParams) -> Result<()> {
        self.give_up()?;
        if params.continues && self.cut.is_empty() {
            return Err(Error::invalid("the last message is no reply that was cut, so it cannot be continued"));
        }
        let end = self.n_messages() - usize::from(params.continues);
        let begun = if params.continues { self.cut.clone() } else { Vec::new() };
        let (keeps_cut, continues) = (params.keeps_cut, params.continues);
        let builder = PromptBuilder {
            model: &self.model,
            chat: &self.chat,
            first: self.first,
            end,
            capacity: self.idle()?.capacity(),
            begun: &begun,
            switches: Vec::new(),
        };
        let (overflow, seed) = (self.overflow, self.n_replies);
        let (mut prompt, job_params) = apart(|| builder.build(overflow, params, seed))?;
        let n = prompt.tokens.len();
        prompt.tokens.extend_from_slice(&begun);
        let session = self.session.as_mut().ok_or(Error::Busy("conversation"))?;
        let last = prompt.tokens.len().checked_sub(1).ok_or_else(|| Error::invalid("the messages make no token"))?;
        let mut keep = session.matching(&prompt.tokens[..last]);
        if let Some(store) = &self.store
            && let Ok(Some((stored, common))) = store.take(&prompt.tokens, keep, &session.params(), session.adapters())
        {
            let cancel = session.cancel().cloned();
            (*session, keep) = (stored, common);
            session.set_cancel(cancel);
        }
        if keep < session.len() {
            session.rewind(keep, Logits::None);
        }
        let request = Request::new(session, &prompt.tokens[keep..], job_params)?;
        let Some(session) = self.session.take() else { return Err(Error::Busy("conversation")) };
        let job = self.job.insert(Job::new(session, request));
        let turn = self.turn.insert(Turn {
            prompt: n,
            reused: keep.min(n),
            keeps_cut,
            continues,
            made: begun,
            parts: Vec::new(),
            given: (0, 0),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            info: job.info(),
            failure: None,
        });
        self.first = prompt.first;
        self.n_replies += 1;
        // What a reply that is continued has said was handed on.
        turn.take_parts(job)?;
        turn.given = turn.said(self.chat.messages().get(end).unwrap_or(&Json::Null));
        Ok(())
    }

    /// Works on the reply for about `time`; see `step_conversations`. An error of the reply itself ends it.
    pub fn step(&mut self, time: Option<Duration>) -> Result<bool> {
        let has_ended = step_conversations(&mut [self], time)?;
        self.failure().map_or(Ok(has_ended), |error| Err(error.clone()))
    }

    /// The error with which the last reply has ended.
    pub fn failure(&self) -> Option<&Error> {
        self.turn.as_ref()?.failure.as_ref()
    }

    /// Shows `take` the next part of the reply, which is gone where that succeeds; `None` where there is none right
    /// now.
    pub fn next_part<T>(&mut self, take: impl FnOnce(&Event) -> Result<T>) -> Result<Option<T>> {
        let Some(turn) = &mut self.turn else { return Ok(None) };
        let (at, given) = turn.given;
        let Some(part) = turn.parts.get(at) else { return Ok(None) };
        let len = part.text.len();
        if given >= len && (len > 0 || given > 0) {
            if at + 1 == turn.parts.len() {
                return Ok(None);
            }
            turn.given = (at + 1, 0);
            return self.next_part(take);
        }
        // A character of which half was made when the reply was cut is handed on as a whole.
        let from = (0..=given).rev().find(|&i| part.text.is_char_boundary(i)).unwrap_or(0);
        let taken = take(&Event { text: part.text[from..].to_owned(), ..*part })?;
        turn.given = if len == 0 { (at + 1, 0) } else { (at, len) };
        Ok(Some(taken))
    }

    /// Shows `read` the rows of log-probabilities that are new, which are gone where that succeeds.
    pub fn read_logprobs<T>(&mut self, read: impl FnOnce(&[u32], &[f32]) -> Result<T>) -> Result<T> {
        let Some(turn) = &mut self.turn else { return read(&[], &[]) };
        let result = read(&turn.tokens, &turn.logprobs)?;
        turn.tokens.clear();
        turn.logprobs.clear();
        Ok(result)
    }

    /// A message of the user and the reply to it. `on_text` gets the pieces of its content; where it returns false the
    /// reply ends and keeps what was said. A call that fails leaves the messages as they were.
    pub fn say(&mut self, text: &str, on_text: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        self.give_up()?;
        let (before, cut) = (self.n_messages(), self.cut.clone());
        let result = self.add_text("user", text).and_then(|()| self.speak(on_text));
        if result.is_err() {
            self.give_up()?;
            self.rewind(before)?;
            self.cut = cut;
        }
        result
    }

    fn speak(&mut self, on_text: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        self.reply(ReplyParams::default())?;
        loop {
            let has_ended = self.step(None)?;
            loop {
                let content = |part: &Event| Ok((part.kind == EventKind::Content).then(|| part.text.clone()));
                match self.next_part(content)? {
                    None => break,
                    Some(Some(text)) if !on_text(&text) => {
                        if let Some(turn) = &mut self.turn {
                            turn.keeps_cut = true;
                        }
                        return self.give_up();
                    }
                    Some(_) => {}
                }
            }
            if has_ended {
                return Ok(());
            }
        }
    }

    /// Ends an unfinished reply, which becomes a message where that was asked for.
    pub fn give_up(&mut self) -> Result<()> {
        let Some(job) = self.job.take() else { return Ok(()) };
        self.session = Some(job.into_session());
        match &self.turn {
            Some(turn) if turn.keeps_cut && !turn.made.is_empty() => self.keep("cancelled"),
            _ => {
                self.turn = None;
                Ok(())
            }
        }
    }

    pub fn info(&self) -> ConversationInfo {
        let session = self.session.as_ref().or(self.job.as_ref().map(Job::session));
        let turn = self.turn.as_ref();
        ConversationInfo {
            messages: self.n_messages(),
            first_in_prompt: self.first,
            prompt: turn.map_or(0, |turn| turn.prompt),
            reused: turn.map_or(0, |turn| turn.reused),
            is_given_up: self.job.is_none() && turn.is_some_and(|turn| turn.info.end.is_none()),
            job: self.job.as_ref().map(Job::info).or_else(|| turn.map(|turn| turn.info.clone())),
            capacity: session.map_or(0, Session::capacity),
            held: session.map_or(0, Session::len),
        }
    }

    /// Takes what the job has made since the last step.
    fn collect(&mut self) -> Result<()> {
        let (Some(job), Some(turn)) = (&mut self.job, &mut self.turn) else { return Ok(()) };
        job.read_tokens(|made| {
            turn.made.extend_from_slice(made);
            Ok(())
        })?;
        turn.take_parts(job)?;
        if job.keeps_logprobs() {
            job.read_logprobs(|tokens, logprobs| {
                turn.tokens.extend_from_slice(tokens);
                turn.logprobs.extend_from_slice(logprobs);
                Ok(())
            })?;
        }
        let was_read = turn.info.tokens > 0;
        turn.info = job.info();
        if !was_read && turn.info.tokens > 0 {
            remember(self.store.as_deref(), job.session());
        }
        let Some(end) = turn.info.end else { return Ok(()) };
        turn.failure = job.failure().cloned();
        self.session = self.job.take().map(Job::into_session);
        if let Some(session) = &self.session {
            remember(self.store.as_deref(), session);
        }
        match end {
            End::Failed => Ok(()),
            End::Length | End::Context => self.keep("length"),
            End::Token | End::Stop | End::Grammar => self.keep("stop"),
        }
    }

    /// Makes a message of the reply, which ended for this reason.
    fn keep(&mut self, why: &str) -> Result<()> {
        let Some(turn) = &self.turn else { return Ok(()) };
        let (mut message, n_calls) = turn.message(self.n_calls);
        message["finish_reason"] = Json::from(if why == "stop" && n_calls > 0 { "tool_calls" } else { why });
        if turn.continues {
            self.chat.truncate(self.n_messages() - 1);
        }
        self.chat.push(message)?;
        self.n_calls += n_calls;
        self.cut = if why == "stop" { Vec::new() } else { turn.made.clone() };
        Ok(())
    }
}

/// Leaves what a session holds in a store. One that has no room for it changes nothing.
fn remember(store: Option<&Store>, session: &Session) {
    if let Some(store) = store {
        let _ = store.put(session);
    }
}

/// What makes prompts; it may work on another thread than the conversation's.
struct PromptBuilder<'a> {
    model: &'a Model,
    chat: &'a Chat,
    /// As in `Conversation`.
    first: usize,
    /// Number of the messages that count.
    end: usize,
    capacity: usize,
    /// Tokens with which the reply begins.
    begun: &'a [u32],
    /// Variables of the template.
    switches: Vec<(&'static str, bool)>,
}

impl<'p> PromptBuilder<'p> {
    /// The prompt of a reply, and the parameters of the job that makes it.
    fn build(mut self, overflow: Overflow, params: ReplyParams<'p>, seed: u64) -> Result<(Prompt, JobParams<'p>)> {
        self.switches = self.switches(params.reasoning)?;
        let prompt = self.fit(overflow, params.max_tokens)?;
        let job = self.job_params(params, &prompt, seed)?;
        Ok((prompt, job))
    }

    /// The variables that switch reasoning.
    fn switches(&self, reasoning: Reasoning) -> Result<Vec<(&'static str, bool)>> {
        let variables = |on| vec![("enable_thinking", on), ("thinking", on)];
        if reasoning == Reasoning::Model {
            return Ok(Vec::new());
        }
        let is_on = reasoning == Reasoning::On;
        let render = |on| self.model.render_chat(&self.chat.prompt(self.first, self.end, &variables(on)))?.plain();
        if render(true)? != render(false)? {
            return Ok(variables(is_on));
        }
        match (is_on, &self.model.reply_form()?.reasoning) {
            (true, Some(_)) | (false, None) => Ok(Vec::new()),
            (true, None) => Err(Error::unsupported("reasoning: the chat template has none")),
            (false, Some(_)) => Err(Error::unsupported(
                "a reply without reasoning: the chat template heeds neither enable_thinking nor thinking",
            )),
        }
    }

    /// The prompt without the turns before message `first`.
    fn render(&self, first: usize) -> Result<Prompt> {
        let chat = self.chat.prompt(first, self.end, &self.switches);
        let text = self.model.render_chat(&chat)?;
        let mut tokens = Vec::new();
        self.model.tokenizer()?.encode_chat(&text, &mut tokens)?;
        Ok(Prompt { chat, text, tokens, first })
    }

    /// The prompt of a reply. Where it has no room beside one, and turns may be forgotten, so many are left out that it
    /// takes half of the cache, but never the last one: to forget means to read the rest again, so it is done seldom
    /// and then for much.
    fn fit(&self, overflow: Overflow, max_tokens: usize) -> Result<Prompt> {
        let (capacity, begun) = (self.capacity, self.begun.len());
        let prompt = self.render(self.first)?;
        let room = match max_tokens {
            0 => capacity / 4,
            n => n.min(capacity / 4),
        };
        let fits = |prompt: &Prompt, most: usize| prompt.tokens.len() + begun + room <= most;
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

    /// The parameters of the job that makes a reply to `prompt`; `seed`: of the advised sampling.
    fn job_params(&self, params: ReplyParams<'p>, prompt: &Prompt, seed: u64) -> Result<JobParams<'p>> {
        let mut reply = self.model.reply_to(&prompt.chat, &prompt.text)?;
        reply.may_reason = params.reasoning != Reasoning::Off;
        let grammar = match params.grammar {
            Some((kind, white_space, text)) => {
                Some(self.model.reply_grammar(&reply, Some((kind, text)), white_space)?)
            }
            None if !prompt.chat.tools().is_empty() && prompt.chat.tool_choice != ToolChoice::None => {
                Some(self.model.reply_grammar(&reply, None, false)?)
            }
            None => None,
        };
        let sampler = params.sampler.unwrap_or_else(|| self.model.advice().sampler(seed));
        let is_plain = sampler == SamplerParams { seed: sampler.seed, ..SamplerParams::default() };
        let mut chooser = if is_plain && grammar.is_none() { None } else { Some(Chooser::new(sampler)?) };
        if let (Some(chooser), Some(grammar)) = (&mut chooser, grammar) {
            let mut matcher = grammar.matcher()?;
            matcher.begin_at(prompt.tokens.len());
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
        })
    }

    /// The tokens that end reasoning; `None` for a model that has none.
    fn closing(&self) -> Result<Option<Vec<u32>>> {
        let form = self.model.reply_form()?;
        let Some(tags) = &form.reasoning else { return Ok(None) };
        // What comes after it is another message there.
        let after = if form.has_headers { "<|start|>assistant" } else { "" };
        let mut tokens = Vec::new();
        self.model.tokenizer()?.encode(&format!("{}{after}", tags.close), false, true, &mut tokens)?;
        Ok(Some(tokens))
    }
}

impl Turn {
    /// Takes the parts that a job has made.
    fn take_parts(&mut self, job: &mut Job) -> Result<()> {
        let mut add = |part: &Event| {
            self.add(part);
            Ok(())
        };
        while job.next_part(&mut add)?.is_some() {}
        Ok(())
    }

    /// The place up to which a message has what the reply says. Its content may have more at its end, white space of
    /// which the parser does not know yet whether a tag follows.
    fn said(&self, message: &Json) -> (usize, usize) {
        let last = self.parts.len().saturating_sub(1);
        let kind = self.parts.last().map_or(EventKind::Content, |part| part.kind);
        let member = match kind {
            EventKind::Content => "content",
            EventKind::Reasoning => "reasoning_content",
            _ => return (last, self.parts.last().map_or(0, |part| part.text.len())),
        };
        let before: usize = self.parts.iter().take(last).filter(|p| p.kind == kind).map(|p| p.text.len()).sum();
        (last, message[member].as_str().map_or(0, |text| text.len().saturating_sub(before)))
    }

    fn add(&mut self, part: &Event) {
        match self.parts.last_mut() {
            Some(last)
                if last.kind == part.kind
                    && last.call == part.call
                    && last.unparsed == part.unparsed
                    && !last.text.is_empty()
                    && part.kind != EventKind::ToolName =>
            {
                last.text.push_str(&part.text);
            }
            _ => self.parts.push(Event { text: part.text.clone(), ..*part }),
        }
    }

    /// The reply as a message, and the number of its calls, the first of which is call `first_call` of the
    /// conversation. A call that broke off is left out.
    fn message(&self, first_call: usize) -> (Json, usize) {
        let text = |kind| -> String {
            self.parts.iter().filter(|part| part.kind == kind).map(|part| part.text.as_str()).collect()
        };
        let mut calls = Vec::new();
        for (i, name) in self.parts.iter().enumerate().filter(|(_, part)| part.kind == EventKind::ToolName) {
            let is_its = |part: &&Event| part.kind == EventKind::ToolArguments && part.call == name.call;
            let arguments: String = self.parts[i..].iter().filter(is_its).map(|part| part.text.as_str()).collect();
            if serde_json::from_str::<serde_json::Map<String, Json>>(&arguments).is_ok() {
                // Nine letters and digits, which all templates that check an id take.
                let id = format!("call{:05}", (first_call + calls.len()) % 100_000);
                let function = json!({"name": name.text, "arguments": arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
        }
        let (content, reasoning, n) = (text(EventKind::Content), text(EventKind::Reasoning), calls.len());
        let mut message = json!({"role": "assistant", "content": content});
        if content.is_empty() && n > 0 {
            message["content"] = Json::Null;
        }
        if !reasoning.is_empty() {
            message["reasoning_content"] = Json::from(reasoning);
        }
        if n > 0 {
            message["tool_calls"] = Json::from(calls);
        }
        (message, n)
    }
}

/// Works on the replies of conversations of one model, as `step_jobs` does on jobs: for about `time`, or until one of
/// them has made a token. True when all have ended. Conversations that make none are passed over.
pub fn step_conversations(all: &mut [&mut Conversation], time: Option<Duration>) -> Result<bool> {
    let mut jobs = try_vec("jobs", all.len())?;
    jobs.extend(all.iter_mut().filter_map(|conversation| conversation.job.as_mut()));
    let has_ended = step_jobs(&mut jobs, time);
    let collected = all.iter_mut().try_for_each(|conversation| conversation.collect());
    has_ended.and_then(|ended| collected.map(|()| ended))
}
