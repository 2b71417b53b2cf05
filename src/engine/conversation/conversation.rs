//! A conversation: messages, the session with their KV cache, and the reply under way.
//!
//! Invariants: the prompt of a reply is the rendering of all messages; the common prefix with the session is always
//! compared, never assumed. The session belongs to the conversation or to the job of an unfinished reply. A reply
//! becomes a message when it ends. Message parts refer to media by index; the conversation stores each media item once.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::grammar::ReplyGrammars;
use super::reply::{Overflow, PromptBuilder, ReplyParams};
use super::reply_state::ReplyState;
use super::view::{ConversationInfo, ConversationView};
use crate::engine::adapter::Adapter;
use crate::engine::cache::CacheParams;
use crate::engine::cancel::Cancel;
use crate::engine::job::progress::End;
use crate::engine::job::schedule::step_jobs;
use crate::engine::job::{Job, Request};
use crate::engine::media::item::Media;
use crate::engine::model::Model;
use crate::engine::prompt::check_media;
use crate::engine::session::Logits;
use crate::engine::session::Session;
use crate::engine::store::Store;
use crate::error::{Error, Result, secured, try_vec};
use crate::text::{Chat, Event, EventKind, KnownTexts, check_members, check_results, open_calls};

/// Maximum bytes of parsed JSON of a conversation per byte of its text.
const MEMBERS: usize = 128;

#[derive(Default)]
pub struct ConversationParams<'a> {
    pub overflow: Overflow,
    pub cache: CacheParams,
    pub adapters: &'a [Arc<Adapter>],
    pub scales: &'a [f32],
    /// Checked by every step.
    pub cancel: Option<Arc<Cancel>>,
    /// Prefix cache for lookups and additions.
    pub store: Option<Arc<Store>>,
}

pub struct Conversation {
    model: Arc<Model>,
    /// The messages, and the state for other threads.
    view: Arc<ConversationView>,
    overflow: Overflow,
    /// Index of the first message that prompts include. System messages are always included.
    first: usize,
    /// `None` while the job of a reply owns the session.
    session: Option<Session>,
    /// The lock is for shared access by one thread at a time; calls with exclusive access bypass it.
    job: Option<Mutex<Job>>,
    reply: Option<ReplyState>,
    /// Tokens of the last message if it is a reply that was cut off; otherwise empty.
    cut: Vec<u32>,
    /// Number of replies begun, which seeds the recommended sampler.
    n_replies: u64,
    store: Option<Arc<Store>>,
    /// Compiled grammars of replies, shared with forks.
    grammars: Arc<ReplyGrammars>,
    /// Tokenized texts of the last prompt, shared with forks.
    known: Arc<Mutex<KnownTexts>>,
}

impl Conversation {
    pub fn new(model: &Arc<Model>, chat: Chat, params: ConversationParams) -> Result<Conversation> {
        model.tokenizer()?;
        let template = model.chat_template()?;
        chat.check_members(|name| template.reads(name))?;
        check_results(&[], chat.messages())?;
        let mut session = Session::new(model, &params.cache)?;
        if !params.adapters.is_empty() {
            session.set_adapters(params.adapters, params.scales)?;
        }
        session.set_cancel(params.cancel);
        let mut conversation = Conversation::with_session(session, chat, params.overflow);
        conversation.set_store(params.store)?;
        Ok(conversation)
    }

    /// Sets the prefix cache.
    pub fn set_store(&mut self, store: Option<Arc<Store>>) -> Result<()> {
        if store.as_ref().is_some_and(|store| !Arc::ptr_eq(store.model(), &self.model)) {
            return Err(Error::Mismatch("the store is one of another model than the conversation".to_owned()));
        }
        self.store = store;
        Ok(())
    }

    /// Returns a conversation whose KV cache is `session`.
    pub(super) fn with_session(session: Session, chat: Chat, overflow: Overflow) -> Conversation {
        Conversation {
            model: session.model().clone(),
            view: Arc::new(ConversationView::new(chat)),
            overflow,
            first: 0,
            session: Some(session),
            job: None,
            reply: None,
            cut: Vec::new(),
            n_replies: 0,
            store: None,
            grammars: Arc::default(),
            known: Arc::default(),
        }
    }

    /// Sets the behavior when messages exceed the context window.
    pub fn set_overflow(&mut self, overflow: Overflow) {
        self.overflow = overflow;
        if overflow == Overflow::Fail {
            self.first = 0;
        }
    }

    /// Sets the cancel that every step checks. `Busy` while a reply is unfinished.
    pub fn set_cancel(&mut self, cancel: Option<Arc<Cancel>>) -> Result<()> {
        self.idle_mut()?.set_cancel(cancel);
        Ok(())
    }

    /// Sets the LoRA adapters (with scales) for all replies, including those of forks. Clears the KV cache. `Busy`
    /// while a reply is unfinished.
    pub fn set_adapters(&mut self, adapters: &[Arc<Adapter>], scales: &[f32]) -> Result<()> {
        self.idle_mut()?.set_adapters(adapters, scales)
    }

    /// Sets the context length in tokens; 0: default. Clears the KV cache. `Busy` while a reply is unfinished.
    pub fn set_capacity(&mut self, capacity: u32) -> Result<()> {
        let held = self.idle_mut()?;
        let mut session = Session::new(held.model(), &CacheParams { capacity, ..held.params() })?;
        session.adapt(held.adapters().clone());
        session.set_cancel(held.cancel().cloned());
        *held = session;
        self.first = 0;
        Ok(())
    }

    /// Frees the KV cache; the next reply recomputes it. `Busy` while a reply is unfinished.
    pub fn release(&mut self) -> Result<()> {
        self.idle_mut()?.release()
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// State for other threads while one works on the conversation.
    pub fn view(&self) -> &Arc<ConversationView> {
        &self.view
    }

    /// Publishes the present state.
    pub fn publish(&self) {
        self.view.publish(self.info(), self.read_job(|job| job.progress().clone()));
    }

    fn n_messages(&self) -> usize {
        self.view.past().chat.messages().len()
    }

    /// Gives up an unfinished reply, then appends messages in JSON. The message parts must refer to all of `media`.
    pub fn add(&mut self, json: &str, media: &[Arc<Media>]) -> Result<()> {
        let list = Chat::read_messages(json, Some(media.len()))?;
        let template = self.model.chat_template()?;
        check_members(&list, |name| template.reads(name))?;
        check_results(self.view.past().chat.messages(), &list)?;
        check_media(&self.model, &Chat::media_of(&list), media)?;
        let mut numbers = try_vec("media", media.len())?;
        let reserved = self.view.change().media.try_reserve(media.len());
        reserved.map_err(|_| Error::OutOfMemory { what: "media", bytes: 0 })?;
        self.give_up()?;
        if !list.is_empty() {
            let past = &mut *self.view.change();
            for item in media {
                let known = past.media.iter().position(|known| known.hash() == item.hash());
                numbers.push(known.unwrap_or(past.media.len()));
                if known.is_none() {
                    past.media.push(item.clone());
                }
            }
            past.chat.extend(list, &numbers);
            self.cut.clear();
        }
        Ok(())
    }

    /// Appends a message with a single text. Fails for a tool result if several calls are open, because it names none.
    pub fn add_text(&mut self, role: &str, text: &str) -> Result<()> {
        let open = if role == "tool" { open_calls(self.view.past().chat.messages()) } else { 0 };
        if open > 1 {
            return Err(Error::invalid(format!(
                "a message of the role \"tool\" needs a \"tool_call_id\", because {open} tool calls are without a \
                 result; add it in JSON, with rz_conversation_add"
            )));
        }
        self.add(&json!({"role": role, "content": text}).to_string(), &[])
    }

    /// Removes the messages after the first `n`.
    pub fn rewind(&mut self, n: usize) -> Result<()> {
        let now = self.n_messages();
        if n > now {
            return Err(Error::invalid(format!("the conversation has {now} messages, it can't be rewound to {n}")));
        }
        self.give_up()?;
        if n < self.n_messages() {
            let past = &mut *self.view.change();
            past.chat.truncate(n);
            let media = Chat::media_of(past.chat.messages());
            past.media.truncate(media.iter().map(|(i, _)| i + 1).max().unwrap_or(0));
            self.cut.clear();
            // If the rewind removes every message after the dropped turns, prompts include the dropped turns again.
            if n <= self.first {
                self.first = 0;
            }
        }
        Ok(())
    }

    /// Creates a second conversation with the same messages, without an unfinished reply.
    pub fn fork(&self) -> Result<Conversation> {
        let session = match &self.session {
            Some(session) => session.fork(),
            None => self.read_job(|job| job.session().fork()).unwrap_or(Err(Error::Busy("conversation"))),
        };
        Ok(self.with_fork(session?))
    }

    /// Passes the job of an unfinished reply to `read`.
    fn read_job<T>(&self, read: impl FnOnce(&Job) -> T) -> Option<T> {
        self.job.as_ref().map(|job| read(&job.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns a conversation with the same messages, on a fork of the session.
    fn with_fork(&self, session: Session) -> Conversation {
        let past = self.view.past();
        let fork = Conversation::with_session(session, past.chat.clone(), self.overflow);
        fork.view.change().media.clone_from(&past.media);
        let (cut, n_replies, store) = (self.cut.clone(), self.n_replies, self.store.clone());
        let (grammars, known) = (self.grammars.clone(), self.known.clone());
        Conversation { first: self.first, cut, n_replies, store, grammars, known, ..fork }
    }

    /// Runs a call that gives up an unfinished reply; if the call fails, the reply continues.
    fn replace_reply(&mut self, call: impl FnOnce(&mut Conversation) -> Result<()>) -> Result<()> {
        if self.job.is_none() {
            return call(self);
        }
        let mut next = self.fork()?;
        if let Some(reply) = self.reply.as_ref().filter(|reply| reply.is_kept()) {
            next.keep(reply, "cancelled")?;
        }
        self.exchange(&mut next);
        let result = call(self);
        if result.is_err() {
            self.exchange(&mut next);
        }
        result
    }

    /// Swaps two conversations. The views keep their places, and only their contents are swapped, because other threads
    /// hold references to the views.
    fn exchange(&mut self, other: &mut Conversation) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.view, &mut other.view);
        std::mem::swap(&mut *self.view.change(), &mut *other.view.change());
    }

    /// Serializes the messages and state to JSON, for `with_state`.
    pub(in crate::engine) fn state(&self) -> String {
        json!({
            "chat": self.view.past().chat.to_json(),
            "forgets": self.overflow == Overflow::Forget,
            "first": self.first,
            "cut": self.cut,
            "replies": self.n_replies,
        })
        .to_string()
    }

    /// Restores a conversation from its saved state, session and media. `None` for an invalid state.
    pub(in crate::engine) fn with_state(
        session: Session,
        media: Vec<Arc<Media>>,
        state: &str,
    ) -> Result<Option<Conversation>> {
        let state: Json = serde_json::from_str(state).unwrap_or_default();
        let number = |name: &str| state[name].as_u64();
        let vocab = session.network().program.vocab as u64;
        let token =
            |token: &Json| token.as_u64().filter(|&token| token < vocab).and_then(|token| token.try_into().ok());
        let cut = state["cut"].as_array().and_then(|cut| cut.iter().map(token).collect::<Option<Vec<u32>>>());
        let (Some(chat), Some(forgets)) = (state["chat"].as_str(), state["forgets"].as_bool()) else { return Ok(None) };
        let (Some(cut), Some(first), Some(n_replies)) = (cut, number("first"), number("replies")) else {
            return Ok(None);
        };
        let chat = Chat::begun(chat, Some(media.len()))?;
        let n = chat.messages().len();
        if first > n as u64 || (n == 0 && !cut.is_empty()) {
            return Ok(None);
        }
        let overflow = if forgets { Overflow::Forget } else { Overflow::Fail };
        let conversation = Conversation::with_session(session, chat, overflow);
        conversation.view.change().media = media;
        Ok(Some(Conversation { first: first as usize, cut, n_replies, ..conversation }))
    }

    /// The session, unless a reply is unfinished.
    pub(in crate::engine) fn idle(&self) -> Result<&Session> {
        self.session.as_ref().ok_or(Error::Busy("conversation's cache, with which a reply is being made,"))
    }

    /// Like `idle`, for calls that change the session.
    fn idle_mut(&mut self) -> Result<&mut Session> {
        self.session.as_mut().ok_or(Error::Busy("conversation's cache, with which a reply is being made,"))
    }

    /// Begins a reply, giving up an unfinished one. Nothing is computed yet.
    pub fn reply(&mut self, params: ReplyParams) -> Result<()> {
        self.replace_reply(|conversation| conversation.begin(params))
    }

    /// Begins a reply if none is unfinished.
    fn begin(&mut self, params: ReplyParams) -> Result<()> {
        if params.continues && self.cut.is_empty() {
            return Err(Error::invalid("the last message is no reply that was cut, so it cannot be continued"));
        }
        let end = self.n_messages() - usize::from(params.continues);
        let begun = if params.continues { self.cut.clone() } else { Vec::new() };
        let (keeps_cut, continues, cancel) = (params.keeps_cut, params.continues, params.cancel.clone());
        let own = self.idle()?.cancel().cloned();
        let past = self.view.past();
        let other = params.members.map(|members| {
            let bytes = MEMBERS * (members.len() + past.chat.text_bytes());
            secured("the conversation", bytes, || past.chat.with_members(members))
        });
        let other = other.transpose()?;
        let builder = PromptBuilder {
            model: &self.model,
            chat: other.as_ref().unwrap_or(&past.chat),
            media: &past.media,
            grammars: &self.grammars,
            known: &self.known,
            first: self.first,
            end,
            capacity: self.idle()?.capacity(),
            begun: &begun,
            cancels: [cancel.as_deref(), own.as_deref()],
            switches: Vec::new(),
        };
        let (made, job_params) = builder.build(self.overflow, params, self.n_replies)?;
        let mut prompt = made.prompt;
        let n = prompt.tokens().len();
        prompt.extend(&begun);
        let session = self.session.as_mut().ok_or(Error::Busy("conversation"))?;
        let mut keep = session.matching_text(prompt.ahead_of_last()?);
        let cancels = [cancel.as_deref(), own.as_deref()];
        let take =
            |store: &Arc<Store>| store.take_prompt(&prompt, keep, &session.params(), session.adapters(), &cancels);
        match self.store.as_ref().map(take) {
            Some(Ok(Some((stored, common)))) => {
                let cancel = session.cancel().cloned();
                (*session, keep) = (stored, common);
                session.set_cancel(cancel);
            }
            Some(Err(e @ (Error::Cancelled | Error::Deadline))) => return Err(e),
            // Without a cached prefix, the whole prompt is computed.
            Some(Ok(None) | Err(_)) | None => {}
        }
        if keep < session.len() {
            session.rewind(keep, Logits::None);
        }
        // The KV cache holds a part of the same prompt.
        let request = Request::of_prompt(session, &prompt, keep, job_params).map_err(|e| match e {
            Error::ContextFull { held, more, capacity, .. } => {
                Error::ContextFull { what: "the prompt", held: 0, more: held.saturating_add(more), capacity }
            }
            other => other,
        })?;
        let Some(session) = self.session.take() else { return Err(Error::Busy("conversation")) };
        let mut job = Job::new(session, request);
        let reply = self.reply.insert(ReplyState {
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
        });
        self.first = made.first;
        self.n_replies += 1;
        // The text of a continued reply was handed out already.
        reply.take_parts(&mut job)?;
        self.job = Some(Mutex::new(job));
        reply.given = reply.said(past.chat.messages().get(end).unwrap_or(&Json::Null));
        Ok(())
    }

    /// Works on the reply for about `time`; see `step_conversations`. An error of the reply itself ends it.
    pub fn step(&mut self, time: Option<Duration>) -> Result<bool> {
        let has_ended = step_conversations(&mut [self], time)?;
        self.failure().map_or(Ok(has_ended), |error| Err(error.clone()))
    }

    /// Returns the error that ended the last reply.
    pub fn failure(&self) -> Option<&Error> {
        self.reply.as_ref()?.info.failure.as_ref()
    }

    /// True until the reply has ended, while more parts may come.
    pub fn is_replying(&self) -> bool {
        self.job.is_some()
    }

    /// Passes the next part of the reply to `take`, and removes it if `take` succeeds; `None` if there is none now.
    pub fn next_part<T>(&mut self, take: impl FnOnce(&Event) -> Result<T>) -> Result<Option<T>> {
        let Some(reply) = &mut self.reply else { return Ok(None) };
        let (at, given) = reply.given;
        let Some(part) = reply.parts.get(at) else { return Ok(None) };
        let len = part.text.len();
        if given >= len && (len > 0 || given > 0) {
            if at + 1 == reply.parts.len() {
                return Ok(None);
            }
            reply.given = (at + 1, 0);
            return self.next_part(take);
        }
        // A character that was incomplete when the reply was cut is handed out whole.
        let from = (0..=given).rev().find(|&i| part.text.is_char_boundary(i)).unwrap_or(0);
        let taken = take(&Event { text: part.text[from..].to_owned(), ..*part })?;
        reply.given = if len == 0 { (at + 1, 0) } else { (at, len) };
        Ok(Some(taken))
    }

    /// Passes the new logprob rows to `read`, and removes them if `read` succeeds.
    pub fn read_logprobs<T>(&mut self, read: impl FnOnce(&[u32], &[f32]) -> Result<T>) -> Result<T> {
        let Some(reply) = &mut self.reply else { return read(&[], &[]) };
        let result = read(&reply.tokens, &reply.logprobs)?;
        reply.tokens.clear();
        reply.logprobs.clear();
        Ok(result)
    }

    /// Adds a user message and generates the reply. `on_text` receives the content piece by piece. The reply ends and
    /// keeps its text if `on_text` returns false, or if it is cancelled after the first piece. After any other failure
    /// the messages are unchanged.
    pub fn say(&mut self, text: &str, params: ReplyParams, on_text: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        let (has_said, mut stopped) = (Cell::new(false), Ok(()));
        let mut on_text = |piece: &str| {
            has_said.set(true);
            on_text(piece)
        };
        self.replace_reply(|conversation| {
            let (before, cut) = (conversation.n_messages(), conversation.cut.clone());
            match conversation.add_text("user", text).and_then(|()| conversation.speak(params, &mut on_text)) {
                Err(e @ (Error::Cancelled | Error::Deadline)) if has_said.get() => {
                    stopped = Err(e);
                    conversation.give_up()
                }
                Err(e) => {
                    if let Some(reply) = &mut conversation.reply {
                        reply.keeps_cut = false;
                    }
                    conversation.give_up()?;
                    conversation.rewind(before)?;
                    conversation.cut = cut;
                    Err(e)
                }
                Ok(()) => Ok(()),
            }
        })?;
        stopped
    }

    fn speak(&mut self, params: ReplyParams, on_text: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        self.begin(ReplyParams { keeps_cut: true, ..params })?;
        loop {
            let has_ended = self.step(None)?;
            loop {
                let content = |part: &Event| Ok((part.kind == EventKind::Content).then(|| part.text.clone()));
                match self.next_part(content)? {
                    None => break,
                    Some(Some(text)) if !on_text(&text) => return self.give_up(),
                    Some(_) => {}
                }
            }
            if has_ended {
                return Ok(());
            }
        }
    }

    /// Ends an unfinished reply, which becomes a message if `keeps_cut` is set.
    pub fn give_up(&mut self) -> Result<()> {
        let Some(job) = self.job.take().map(owned) else { return Ok(()) };
        self.session = Some(job.into_session());
        let Some(mut reply) = self.reply.take().filter(ReplyState::is_kept) else { return Ok(()) };
        reply.info.end = Some(End::Cancelled);
        let kept = self.keep(&reply, "cancelled");
        self.reply = Some(reply);
        kept
    }

    /// Ends an unfinished reply with its present text, which becomes a message unless empty.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(job) = self.job.as_mut().map(exclusive) {
            job.stop();
        }
        self.collect()
    }

    pub fn info(&self) -> ConversationInfo {
        let [capacity, held] = match &self.session {
            Some(session) => [session.capacity(), session.sequence().len()],
            None => self.read_job(|job| [job.session().capacity(), job.session().len()]).unwrap_or_default(),
        };
        let reply = self.reply.as_ref();
        let past = self.view.past();
        ConversationInfo {
            messages: past.chat.messages().len(),
            media: past.media.len(),
            first_in_prompt: self.first,
            prompt: reply.map_or(0, |reply| reply.prompt),
            reused: reply.map_or(0, |reply| reply.reused),
            is_given_up: self.job.is_none() && reply.is_some_and(|reply| reply.info.end.is_none()),
            job: self.read_job(Job::info).or_else(|| reply.map(|reply| reply.info.clone())),
            capacity,
            held,
        }
    }

    /// Takes the job's output since the last step.
    fn collect(&mut self) -> Result<()> {
        let (Some(job), Some(reply)) = (self.job.as_mut().map(exclusive), &mut self.reply) else { return Ok(()) };
        job.read_tokens(|made| {
            reply.made.extend_from_slice(made);
            Ok(())
        })?;
        reply.take_parts(job)?;
        if job.keeps_logprobs() {
            job.read_logprobs(|tokens, logprobs| {
                reply.tokens.extend_from_slice(tokens);
                reply.logprobs.extend_from_slice(logprobs);
                Ok(())
            })?;
        }
        let was_read = reply.info.tokens > 0;
        reply.info = job.info();
        if let (false, 1.., Some(store)) = (was_read, reply.info.tokens, &self.store) {
            // If the prefix cache has no room, nothing changes.
            let _ = store.put_new(job.session());
        }
        let Some(end) = reply.info.end else { return Ok(()) };
        self.session = self.job.take().map(|job| owned(job).into_session());
        if let Some(session) = &self.session {
            remember(self.store.as_deref(), session);
        }
        let why = match end {
            End::Failed => return Ok(()),
            End::Length => "length",
            End::Context => "context",
            End::Cancelled => "cancelled",
            End::Token | End::Stop | End::Grammar => "stop",
        };
        if reply.made.is_empty() {
            return Ok(());
        }
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let kept = self.keep(&reply, why);
        self.reply = Some(reply);
        kept
    }

    /// Makes a message of a reply, which ended for the reason `why`.
    fn keep(&mut self, reply: &ReplyState, why: &str) -> Result<()> {
        let (mut message, n_calls) = reply.message();
        message["finish_reason"] = Json::from(if why == "stop" && n_calls > 0 { "tool_calls" } else { why });
        let chat = &mut self.view.change().chat;
        if reply.continues {
            chat.truncate(chat.messages().len().saturating_sub(1));
        }
        chat.push(message)?;
        self.cut = if why == "stop" { Vec::new() } else { reply.made.clone() };
        Ok(())
    }
}

/// Returns a job with exclusive access.
fn exclusive(job: &mut Mutex<Job>) -> &mut Job {
    job.get_mut().unwrap_or_else(PoisonError::into_inner)
}

fn owned(job: Mutex<Job>) -> Job {
    job.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a session to the prefix cache. If that has no room, nothing changes.
fn remember(store: Option<&Store>, session: &Session) {
    if let Some(store) = store {
        let _ = store.put(session);
    }
}

/// Works on the replies of conversations of one model, like `step_jobs`: for about `time`, or until one of them has
/// generated a token. Returns true if all have ended. Skips conversations without a reply.
pub fn step_conversations(all: &mut [&mut Conversation], time: Option<Duration>) -> Result<bool> {
    let mut jobs = try_vec("jobs", all.len())?;
    jobs.extend(all.iter_mut().filter_map(|conversation| conversation.job.as_mut()).map(exclusive));
    let has_ended = step_jobs(&mut jobs, time);
    let collected = all.iter_mut().try_for_each(|conversation| {
        let collected = conversation.collect();
        conversation.publish();
        collected
    });
    has_ended.and_then(|ended| collected.map(|()| ended))
}
