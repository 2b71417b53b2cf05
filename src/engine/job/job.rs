//! A generation request that runs in slices: a session, the tokens to append, and the generated tokens and text.
//! Decides how a token is sampled and when the text ends; `schedule` decides when it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::parked::{Member, MemberPlace, Parked};
use super::progress::{Cancels, End, JobInfo, JobProgress};
use super::request::Request;
use crate::device::StepBudget;
use crate::engine::chooser::{Chooser, DeviceRules};
use crate::engine::draft::policy::PassStats;
use crate::engine::draft::source::Draft;
use crate::engine::nan;
use crate::engine::network::Network;
use crate::engine::network::pass::{Lane, Pass};
use crate::engine::session::{Logits, Session};
use crate::error::{Error, Result};
use crate::text::Event;

/// What a job appends to its session.
enum Phase {
    /// Prefill of the prompt; `appended`: number of prompt tokens in the session.
    Prompt { appended: usize },
    /// Appends the tokens of `made` from index `first` on: the last generated token, then the inserted ones.
    /// `appended`: number of these tokens in the session.
    Writing { first: usize, appended: usize },
    /// Decode of the last token and a draft.
    Tokens,
}

/// Where the next token is sampled from the logits of the last pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Sampled already, or there are no logits.
    Made,
    /// To be sampled on the host.
    OnHost,
    /// Sampled by the device.
    OnDevice(u32),
}

/// Times of a job.
struct JobTimes {
    begun: Instant,
    /// Total time of the passes with prompt tokens of the job.
    prompt: Duration,
    /// Total time of its decode passes.
    tokens: Duration,
    first_token: Duration,
    /// Time of the last sampling on the host from the whole vocabulary.
    choice: Duration,
}

pub struct Job {
    pub(super) id: u64,
    session: Session,
    request: Request,
    phase: Phase,
    n_reasoning: usize,
    /// Number of generated tokens that the caller has read.
    read: usize,
    end: Option<End>,
    choice: Choice,
    /// Results that `take` has stored for `settle`: of the job's first token in the pass, or of the chunk of its
    /// prompt.
    taken: Option<Taken>,
    /// The job's handle to a paused pass.
    pub(super) parked: Option<Parked>,
    /// Passes since the job last ran; 0 if the job ran in the last pass.
    pub(super) waiting: u32,
    /// Consecutive passes that the job has run in; 0 if it did not run in the last pass.
    pub(super) running: u32,
    /// True if a cancel had fired when last checked.
    is_stopped: bool,
    /// The error that ended the job.
    failure: Option<Error>,
    progress: Arc<JobProgress>,
    times: JobTimes,
}

/// First results of a pass.
struct Taken {
    /// Length of the sequence before the pass.
    before: usize,
    /// True if the pass was a decode step of the job.
    is_step: bool,
    /// Time that the choice took.
    choice: Duration,
}

impl Job {
    /// Creates a job on the session that the request was made for.
    pub fn new(mut session: Session, mut request: Request) -> Job {
        static IDS: AtomicU64 = AtomicU64::new(0);
        session.step_back(session.len(), request.memory.take());
        session.expect(Some(std::mem::take(&mut request.runs)));
        let info = JobInfo::new(request.prompt.len(), session.len());
        let cancels = Cancels::new(request.cancel.clone(), session.cancel().cloned());
        Job {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            session,
            request,
            phase: Phase::Prompt { appended: 0 },
            n_reasoning: 0,
            read: 0,
            end: None,
            choice: Choice::Made,
            taken: None,
            parked: None,
            waiting: 0,
            running: 0,
            is_stopped: false,
            failure: None,
            progress: Arc::new(JobProgress::new(info, cancels)),
            times: JobTimes {
                begun: Instant::now(),
                prompt: Duration::ZERO,
                tokens: Duration::ZERO,
                first_token: Duration::ZERO,
                choice: Duration::ZERO,
            },
        }
    }

    /// Returns the session, with all tokens of completed steps.
    pub fn into_session(mut self) -> Session {
        self.session.expect(None);
        self.session
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn info(&self) -> JobInfo {
        JobInfo {
            end: self.end,
            failure: self.failure.clone(),
            stopped: self.check_cancels(),
            prompt_total: self.request.prompt.len(),
            prompt_done: match self.phase {
                Phase::Prompt { appended } => appended,
                Phase::Writing { .. } | Phase::Tokens => self.request.prompt.len(),
            },
            tokens: self.request.made.len(),
            reasoning: self.n_reasoning,
            drafted: self.request.draft.as_ref().map_or(0, |draft| draft.drafted),
            accepted: self.request.draft.as_ref().map_or(0, |draft| draft.accepted),
            cache_len: self.cache_len(),
            prompt_time: self.times.prompt,
            token_time: self.times.tokens,
            first_token: self.times.first_token,
        }
    }

    /// State for other threads while one works on the job.
    pub fn progress(&self) -> &Arc<JobProgress> {
        &self.progress
    }

    /// Publishes the present state.
    pub(super) fn publish(&self) {
        self.progress.publish(|| self.info());
    }

    /// Returns the length of the session, without tokens that are recomputed before the prompt.
    fn cache_len(&self) -> usize {
        if self.reads_prompt() { self.session.sequence().len() } else { self.session.len() }
    }

    /// Passes the new text to `read`, and removes it if `read` succeeds.
    pub fn read_text<T>(&mut self, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        self.session.model().tokenizer()?;
        self.request.text.read(read)
    }

    /// Passes the next part of the reply to `take`, and removes it if `take` succeeds; `None` if there is none now.
    pub fn next_part<T>(&mut self, take: impl FnOnce(&Event) -> Result<T>) -> Result<Option<T>> {
        self.request.text.next(take)
    }

    /// Passes the new tokens to `read`, and removes them if `read` succeeds.
    pub fn read_tokens<T>(&mut self, read: impl FnOnce(&[u32]) -> Result<T>) -> Result<T> {
        let result = read(&self.request.made[self.read..])?;
        self.read = self.request.made.len();
        Ok(result)
    }

    pub fn keeps_logprobs(&self) -> bool {
        self.request.logprobs.is_some()
    }

    /// Passes the new logprob rows to `read`, and removes them if `read` succeeds.
    pub fn read_logprobs<T>(&mut self, read: impl FnOnce(&[u32], &[f32]) -> Result<T>) -> Result<T> {
        let none = || Error::invalid("the job keeps no log probabilities; set rz_job_params.logprobs");
        self.request.logprobs.as_mut().ok_or_else(none)?.read(read)
    }

    /// Fails if a cancel has fired and the job has not ended.
    pub(super) fn check_cancels(&self) -> Result<()> {
        if self.has_ended() { Ok(()) } else { self.cancels().check() }
    }

    /// Checks the cancels. If one has fired, passes leave the job out until the next call of this function.
    pub(super) fn heed_cancels(&mut self) {
        self.is_stopped = self.check_cancels().is_err();
    }

    /// True if steps run the job.
    pub(super) fn is_running(&self) -> bool {
        !self.has_ended() && !self.is_stopped
    }

    /// Returns the value of `result`. An error of this job ends the job and returns `None`; an error that concerns all
    /// jobs or may be transient is returned.
    pub(super) fn end_on_own_error<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(
                e @ (Error::OutOfMemory { .. }
                | Error::DeviceOutOfMemory { .. }
                | Error::DeviceLost { .. }
                | Error::DeviceUnavailable { .. }
                | Error::Cancelled
                | Error::Deadline
                | Error::Busy(_)
                | Error::Poisoned { .. }),
            ) => Err(e),
            Err(e) => {
                self.request.text.end(false);
                (self.end, self.failure, self.parked) = (Some(End::Failed), Some(e), None);
                Ok(None)
            }
        }
    }

    /// Ends the job with its present text.
    pub(in crate::engine) fn stop(&mut self) {
        if !self.has_ended() {
            self.request.text.end(false);
            (self.end, self.parked) = (Some(End::Cancelled), None);
        }
    }

    /// Returns the error that ended the job.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the cancels that may stop the job.
    pub(super) fn cancels(&self) -> Cancels {
        Cancels::new(self.request.cancel.clone(), self.session.cancel().cloned())
    }

    /// Returns the job's tokens, sampler and session for a pass.
    pub(super) fn lane(&mut self, member: Member) -> Lane<'_> {
        let Job { session, request: Request { prompt, made, step, chooser, logprobs, .. }, phase, .. } = self;
        let tokens = match *phase {
            Phase::Prompt { appended } => &prompt[appended..],
            Phase::Writing { first, appended } => &made[first + appended..],
            Phase::Tokens => &step[..],
        };
        Lane {
            session,
            again: member.again,
            tokens: &tokens[..member.tokens],
            outputs: member.outputs,
            chooser: chooser.as_mut(),
            on_device: logprobs.is_none(),
        }
    }

    /// Returns the next pending and prompt tokens of a job in prefill, at most `room`.
    pub(super) fn next_of_prompt(&self, room: usize) -> Member {
        let (pending, left) = (self.session.pending().len(), self.unread().len());
        let n = self.session.fit(self.session.sequence().len(), pending + left, room);
        let again = pending.min(n);
        let tokens = n - again;
        Member { id: self.id, again, tokens, outputs: usize::from(tokens == left) }
    }

    /// Returns the number of next prompt tokens that must be in one pass: the rows of an image with bidirectional
    /// attention.
    pub(super) fn due_of_prompt(&self) -> usize {
        self.session.runs().due(self.session.sequence().len())
    }

    /// During prefill, prepares the drafter; during decode, generates a draft. Returns false if the budget is used up.
    pub(super) fn make_draft(&mut self, budget: &StepBudget) -> Result<bool> {
        let started = Instant::now();
        let is_made = self.go_on_with_draft(budget);
        let time = if self.reads_prompt() { &mut self.times.prompt } else { &mut self.times.tokens };
        *time += started.elapsed();
        is_made
    }

    fn go_on_with_draft(&mut self, budget: &StepBudget) -> Result<bool> {
        if let Some(draft) = &mut self.request.draft
            && !draft.catch_up(self.session.tokens(), budget)?
        {
            return Ok(false);
        }
        match self.phase {
            Phase::Prompt { .. } | Phase::Writing { appended: 1.., .. } => return Ok(true),
            Phase::Writing { appended: 0, .. } => {
                // The recurrent state may be ahead of the session's tokens.
                self.session.step_back(self.session.len(), None);
                return Ok(true);
            }
            Phase::Tokens => {}
        }
        self.session.step_back(self.session.len(), None);
        let Request { draft, made, max_tokens, chooser, .. } = &mut self.request;
        let Some(draft) = draft else { return Ok(true) };
        // The pass samples one token in addition to accepted draft tokens.
        let more = (*max_tokens - made.len() - 1).min(self.session.capacity() - self.session.len() - 1);
        // Recurrent layers that are ahead of the session recompute their steps first.
        let more = more.min(self.session.network().separable(self.session.len()) - 1);
        let most = if self.session.pending().is_empty() { more } else { 0 };
        draft.make(&mut self.session, made, most, chooser.as_mut(), budget)
    }

    /// True if the job's drafts need hidden states kept by passes.
    pub(super) fn observes(&self) -> bool {
        self.request.draft.as_ref().is_some_and(Draft::observes)
    }

    /// True if the next pass must be without drafts.
    pub(super) fn needs_plain_pass(&self) -> bool {
        self.request.draft.as_ref().is_some_and(Draft::needs_plain_pass)
    }

    /// Returns the next tokens of a job in decode, with at most `room` draft tokens. `jobs`: number of jobs in decode
    /// in the pass. `budget`: time of the call, if limited.
    pub(super) fn next_step(&mut self, room: usize, jobs: usize, budget: Option<Duration>) -> Member {
        let Request { step, made, draft, .. } = &mut self.request;
        step.clear();
        step.extend(made.last());
        if let Some(draft) = draft {
            step.extend_from_slice(draft.choose(room, jobs, budget));
        }
        Member { id: self.id, again: self.session.pending().len(), tokens: step.len(), outputs: step.len() }
    }

    /// Returns the number of tokens of the next step before its draft.
    pub(super) fn n_due(&self) -> usize {
        self.session.pending().len() + 1
    }

    /// True if the job appends its prompt or inserted tokens.
    pub(super) fn reads_prompt(&self) -> bool {
        matches!(self.phase, Phase::Prompt { .. } | Phase::Writing { .. })
    }

    /// Returns the prompt tokens or inserted tokens not yet appended.
    fn unread(&self) -> &[u32] {
        match self.phase {
            Phase::Prompt { appended } => &self.request.prompt[appended..],
            Phase::Writing { first, appended } => &self.request.made[first + appended..],
            Phase::Tokens => &[],
        }
    }

    /// Marks the first `n` tokens of `unread` as appended.
    fn has_read(&mut self, n: usize) {
        if let Phase::Prompt { appended } | Phase::Writing { appended, .. } = &mut self.phase {
            *appended += n;
        }
        if self.unread().is_empty() {
            self.phase = Phase::Tokens;
        }
    }

    /// Returns the number of tokens left to prefill.
    pub(super) fn prompt_left(&self) -> usize {
        self.session.pending().len() + self.unread().len()
    }

    pub(super) fn priority(&self) -> i32 {
        self.request.priority
    }

    /// Takes the first results of a pass: a piece of the prompt, or the results of the first token of a decode step.
    /// Afterwards `decide` chooses the next token, and `settle` takes the other results. `time` is the time of the
    /// pass.
    pub(super) fn take(&mut self, place: MemberPlace, pass: &mut Pass, time: Duration) -> Result<()> {
        let MemberPlace { member, output, .. } = place;
        let (before, is_step) = (self.session.sequence().len(), !self.reads_prompt());
        let Request { prompt, made, step, .. } = &self.request;
        let (tokens, left) = match self.phase {
            Phase::Prompt { appended } => (&prompt[appended..][..member.tokens], 0),
            Phase::Writing { first, appended } => (&made[first + appended..][..member.tokens], 0),
            Phase::Tokens => (&step[..1], member.tokens - 1),
        };
        let output = (member.outputs > 0).then_some(output);
        let chosen = pass.commit(&mut self.session, member.again, tokens, left, output)?;
        self.choice = match output {
            Some(_) => chosen.map_or(Choice::OnHost, Choice::OnDevice),
            None => Choice::Made,
        };
        self.taken = Some(Taken { before, is_step, choice: Duration::ZERO });
        if is_step {
            self.times.tokens += time;
        } else {
            self.times.prompt += time;
            self.has_read(member.tokens);
        }
        Ok(())
    }

    /// Chooses a token if one is due. Changes only the job.
    pub(super) fn decide(&mut self) -> Result<()> {
        let (started, is_long) = (Instant::now(), self.chooses_at_length());
        let made = if self.is_undecided() { self.make_token() } else { Ok(()) };
        let time = started.elapsed();
        if is_long {
            self.times.choice = time;
        }
        if let Some(taken) = &mut self.taken {
            taken.choice = time;
        }
        made
    }

    /// Returns the time of the last choice on the host over the whole vocabulary (sampling, logprobs); zero if there
    /// was none.
    pub(super) fn choice_time(&self) -> Duration {
        self.times.choice
    }

    /// Takes the rest of a pass: verifies the draft, choosing a token after each accepted one. `jobs`: number of jobs
    /// that generated tokens in the pass.
    pub(super) fn settle(&mut self, place: MemberPlace, pass: &mut Pass, stats: PassStats, jobs: usize) -> Result<()> {
        let Some(taken) = self.taken.take() else { return Ok(()) };
        let result = match taken.is_step && !self.is_undecided() {
            true => self.take_draft(place, pass, stats, jobs, taken.choice),
            false => Ok(()),
        };
        let MemberPlace { member, row, output } = place;
        // The drafter does not read positions up to the last media item.
        let after = self.session.runs().end().saturating_sub(1);
        let (first, end) = (taken.before.max(after), self.cache_len());
        if first >= end {
            return result;
        }
        let last = (end - 1 - taken.before).checked_sub(member.len() - member.outputs);
        let (first_row, last_output) = (row + first - taken.before, last.map(|last| output + last));
        let followed = match &mut self.request.draft {
            Some(draft) => draft.record(&mut pass.step().executor, first_row, last_output, first..end),
            None => Ok(()),
        };
        result.and(followed)
    }

    fn take_draft(
        &mut self,
        place: MemberPlace,
        pass: &mut Pass,
        stats: PassStats,
        jobs: usize,
        first: Duration,
    ) -> Result<()> {
        let started = Instant::now();
        let mut right = 0;
        while !self.has_ended()
            && !self.reads_prompt()
            && self.request.step.get(right + 1).is_some_and(|next| self.request.made.last() == Some(next))
        {
            right += 1;
            let (token, left) = (&self.request.step[right..=right], place.member.tokens - right - 1);
            let chosen = pass.commit(&mut self.session, 0, token, left, Some(place.output + right))?;
            self.choice = chosen.map_or(Choice::OnHost, Choice::OnDevice);
            self.make_token()?;
        }
        let choice = (first + started.elapsed()) / (right + 1) as u32;
        let compared = if self.has_ended() { right } else { right + 1 };
        if let Some(draft) = &mut self.request.draft {
            draft.passed(stats, right, compared, jobs, choice);
        }
        Ok(())
    }

    /// Returns the number of single-token steps that may be pipelined; `None` if the host must see each token first.
    pub(super) fn steps_ahead(&self, network: &Network) -> Option<usize> {
        let Request { draft, chooser, logprobs, made, max_tokens, reasoning, .. } = &self.request;
        let waits = self.reads_prompt() || draft.is_some() || self.is_undecided() || !self.session.pending().is_empty();
        let has_grammar = chooser.as_ref().is_some_and(Chooser::has_grammar);
        if waits || has_grammar || logprobs.is_some() || self.parked.is_some() || made.is_empty() {
            return None;
        }
        DeviceRules::new(network, chooser.as_ref())?;
        let reasoning = reasoning.as_ref().map_or(usize::MAX, |bound| bound.left.max(1));
        Some((max_tokens - made.len()).min(self.session.capacity() - self.session.len()).min(reasoning))
    }

    /// Takes the result of a pipelined step that took `time`.
    pub(super) fn accept_ahead(&mut self, token: u32, time: Duration) -> Result<()> {
        self.times.tokens += time;
        let last = self.request.made.last().map_or(&[][..], std::slice::from_ref);
        nan::check_chosen(self.session.model(), token, self.session.len())?;
        self.session.commit(0, last, 0, |_| Ok(Logits::OnDevice))?;
        self.choice = Choice::OnDevice(token);
        self.make_token()
    }

    /// Drops the pipelined steps after the last accepted token.
    pub(super) fn forget_ahead(&mut self) {
        if !self.reads_prompt() {
            self.session.rewind(self.session.len(), self.session.logits_at());
        }
    }

    /// True if no token is chosen yet from the current logits, or choosing has failed.
    pub(super) fn is_undecided(&self) -> bool {
        self.choice != Choice::Made
    }

    /// True if `decide` makes several passes over the vocabulary.
    pub(super) fn chooses_at_length(&self) -> bool {
        self.choice == Choice::OnHost && (self.request.chooser.is_some() || self.request.logprobs.is_some())
    }

    /// True if `decide` calls a callback of the caller.
    pub(super) fn calls_back(&self) -> bool {
        self.is_undecided() && self.request.chooser.as_ref().is_some_and(Chooser::calls_back)
    }

    /// True if `decide` needs a step to read the logits.
    pub(super) fn lacks_logits(&self) -> bool {
        self.choice == Choice::OnHost && self.session.has_logits_on_device()
    }

    /// Chooses a token, unless the device has.
    fn make_token(&mut self) -> Result<()> {
        if self.request.only_reads {
            (self.end, self.choice) = (Some(End::Length), Choice::Made);
            return Ok(());
        }
        let chosen = match self.choice {
            Choice::OnDevice(token) => Some(token),
            Choice::OnHost | Choice::Made => None,
        };
        // Set first, so that the host samples at the next attempt, also if the device's token is rejected.
        self.choice = Choice::OnHost;
        let Request { made, max_tokens, text, logprobs, chooser, only_content_logprobs, .. } = &mut self.request;
        let token = self.session.choose(chosen, chooser.as_mut())?;
        let was_content = text.is_in_content();
        let model = self.session.model();
        self.end = if model.ends(token) {
            let by_grammar = chooser.as_ref().is_some_and(Chooser::has_grammar);
            Some(if by_grammar { End::Grammar } else { End::Token })
        } else if let Ok(tokenizer) = model.tokenizer()
            && text.push(tokenizer, token)?
        {
            Some(End::Stop)
        } else if made.len() + 1 >= *max_tokens {
            Some(End::Length)
        } else if self.session.len() == self.session.capacity() {
            Some(End::Context)
        } else {
            None
        };
        if let Some(end) = self.end.filter(|end| *end != End::Stop) {
            text.end(matches!(end, End::Token | End::Grammar));
        }
        if made.is_empty() {
            self.times.first_token = self.times.begun.elapsed();
        }
        if let Some(logprobs) = logprobs {
            let none = || Error::invalid("a token needs logits");
            let logits = self.session.logits().ok_or_else(none)?;
            let is_end = matches!(self.end, Some(End::Token | End::Grammar));
            match only_content_logprobs {
                false => logprobs.push(token, logits),
                true if was_content && !is_end => logprobs.push_held(token, logits),
                true => {}
            }
            if is_end || self.end == Some(End::Stop) {
                logprobs.settle(true);
            } else if !text.is_in_content() {
                // The held log probabilities belong to a tag.
                logprobs.settle(false);
            } else if !text.holds_text() {
                logprobs.settle(true);
            }
        }
        made.push(token);
        let is_reasoning = text.is_in_reasoning();
        self.choice = Choice::Made;
        if !self.has_ended() && is_reasoning {
            self.n_reasoning += 1;
            self.bound_reasoning()?;
        }
        Ok(())
    }

    /// Inserts the tokens that end reasoning once the limit of reasoning tokens is reached, if these tokens and an
    /// answer still fit. Does not interrupt an incomplete character.
    fn bound_reasoning(&mut self) -> Result<()> {
        let Request { reasoning, made, text, max_tokens, .. } = &mut self.request;
        let Some(bound) = reasoning else { return Ok(()) };
        bound.left = bound.left.saturating_sub(1);
        let n = bound.closing.len();
        let (held, room) = (self.session.len() + 1 + n, *max_tokens - made.len());
        if bound.left > 0 || text.is_in_character() || n >= room || held >= self.session.capacity() {
            return Ok(());
        }
        let closing = reasoning.take().map_or_else(Vec::new, |bound| bound.closing);
        let tokenizer = self.session.model().tokenizer()?;
        for &token in &closing {
            text.push(tokenizer, token)?;
        }
        self.phase = Phase::Writing { first: made.len() - 1, appended: 0 };
        made.extend_from_slice(&closing);
        Ok(())
    }
}
