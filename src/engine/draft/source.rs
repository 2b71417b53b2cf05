//! Speculative decoding of a job: draft tokens that its grammar forces, then draft tokens of a source. One pass
//! verifies several of them; the job's own sampler accepts or rejects each, so drafts never change the output.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::head::DraftHead;
use super::lookup;
use super::model::{Choice, DraftModel};
use super::policy::{DraftPolicy, KINDS, PassStats};
use super::shared_kv::SharedKvHead;
use crate::device::{Executor, StepBudget};
use crate::engine::chooser::Chooser;
use crate::engine::model::Model;
use crate::engine::session::Session;
use crate::error::{Error, Result, try_vec};
use crate::graph::step::MEDIA_ROW;

/// Maximum and default number of draft tokens.
pub const MOST: usize = 32;
const DEFAULT: usize = 16;

/// Fraction of a time budget available for choosing the tokens of a verified draft.
const CHOICES: f64 = 0.1;

/// The source of draft tokens.
#[derive(Clone)]
pub enum DraftSource {
    /// Prompt lookup: what followed an earlier occurrence of the last tokens.
    Lookup,
    /// A draft model with the same vocabulary, or a draft head for the job's model in a file of its own.
    Model(Arc<Model>),
    /// The model's own MTP layer.
    Mtp,
}

/// Speculative decoding parameters of a job.
#[derive(Clone, Default)]
pub struct DraftParams {
    /// `None`: only tokens that a grammar forces.
    pub source: Option<DraftSource>,
    /// Maximum number of draft tokens; 0: default.
    pub most: usize,
    /// True to draft even if it does not pay.
    pub always: bool,
}

/// The kind of tokens that a grammar forces; lower kinds belong to the source.
const FORCED: u8 = KINDS as u8 - 1;
/// Prior acceptance rate by kind; a kind is a range of match lengths (lookup) or of logit leads (models).
const LOOKED_UP: [f64; KINDS] = [0.2, 0.35, 0.5, 0.6, 0.75, 0.85, 0.9, 0.9];
const MATCHES: [usize; FORCED as usize - 1] = [2, 3, 4, 6, 9, 13];
const OF_MODEL: [f64; KINDS] = [0.3, 0.4, 0.5, 0.65, 0.8, 0.9, 0.95, 0.9];
const LEADS: [f32; FORCED as usize - 1] = [0.25, 0.5, 1.0, 2.0, 3.0, 5.0];

enum Source {
    Nothing,
    Lookup,
    Model(Box<DraftModel>),
    Head(Box<DraftHead>),
    SharedKv(Box<SharedKvHead>),
}

impl Source {
    /// Returns the draft token after `history`, which must begin with the tokens of the session; `None` if `budget`
    /// pauses.
    fn next(&mut self, session: &mut Session, history: &[u32], budget: &StepBudget) -> Result<Option<Choice>> {
        match self {
            Source::Model(model) => {
                let after = history.iter().rposition(|id| *id == MEDIA_ROW).map_or(0, |last| last + 1);
                model.next(&history[after..], budget)
            }
            Source::Head(head) => head.next(history, budget),
            Source::SharedKv(head) => head.next(session.for_step().0, history, budget),
            Source::Nothing | Source::Lookup => Err(Error::invalid("a source of drafts needs a network")),
        }
    }

    /// Ends a draft.
    fn release(&mut self) {
        match self {
            Source::Model(model) => model.release(),
            Source::Head(head) => head.release(),
            Source::SharedKv(head) => head.release(),
            Source::Nothing | Source::Lookup => {}
        }
    }
}

pub struct Draft {
    source: Source,
    policy: DraftPolicy,
    most: usize,
    always: bool,
    /// Number of tokens that the job had generated when the draft began.
    at: usize,
    /// True while the draft is incomplete; true if the source contributes to the draft.
    is_open: bool,
    asks_source: bool,
    /// The tokens of the session, the next one to append, and the draft tokens.
    history: Vec<u32>,
    /// Number of history tokens in the session, and number of history tokens before the draft.
    whole: usize,
    known: usize,
    /// Kind of each draft token.
    kinds: Vec<u8>,
    /// Time that the draft model took.
    time: Duration,
    /// Seconds that the job's last choice of a token took.
    choice: f64,
    /// Number of draft tokens in the open pass.
    chosen: usize,
    /// Numbers of verified and of accepted draft tokens.
    pub drafted: usize,
    pub accepted: usize,
}

impl Draft {
    /// `None` if there is nothing to draft from.
    pub fn new(session: &Session, chooser: Option<&Chooser>, params: DraftParams) -> Result<Option<Draft>> {
        let model = session.model();
        let (source, guesses) = match params.source {
            None if !chooser.is_some_and(Chooser::has_grammar) => return Ok(None),
            None => (Source::Nothing, LOOKED_UP),
            Some(DraftSource::Lookup) => (Source::Lookup, LOOKED_UP),
            Some(DraftSource::Model(draft)) => {
                let capacity = session.capacity();
                let source = if let Some(head) = DraftHead::of_model(&draft, model, capacity, MOST)? {
                    Source::Head(Box::new(head))
                } else if let Some(head) = SharedKvHead::of_model(&draft, model)? {
                    Source::SharedKv(Box::new(head))
                } else {
                    Source::Model(Box::new(DraftModel::new(&draft, model, capacity)?))
                };
                (source, OF_MODEL)
            }
            Some(DraftSource::Mtp) => {
                (Source::Head(Box::new(DraftHead::of_layer(model, session.capacity(), MOST)?)), OF_MODEL)
            }
        };
        let room = if params.most == 0 { DEFAULT } else { params.most.min(MOST) };
        let limits = session.network().limits;
        let is_recurrent = !session.network().program.recurrent.is_empty();
        Ok(Some(Draft {
            source,
            policy: DraftPolicy::new(guesses, is_recurrent),
            most: room.min(limits.max_tokens.min(limits.max_outputs) - 1),
            always: params.always,
            at: 0,
            is_open: false,
            asks_source: false,
            history: try_vec("the tokens of drafts", session.capacity() + MOST)?,
            whole: 0,
            known: 0,
            kinds: try_vec("the tokens of drafts", MOST)?,
            time: Duration::ZERO,
            choice: f64::INFINITY,
            chosen: 0,
            drafted: 0,
            accepted: 0,
        }))
    }

    /// If there is no draft yet, makes a draft of at most `most` tokens that follow the session's tokens and the last
    /// token of `made`. Returns false if `budget` pauses; call again with the same session.
    pub fn make(
        &mut self,
        session: &mut Session,
        made: &[u32],
        most: usize,
        mut chooser: Option<&mut Chooser>,
        budget: &StepBudget,
    ) -> Result<bool> {
        if self.at != made.len() {
            self.begin(session, made, most, chooser.as_deref_mut())?;
        }
        if !self.is_open {
            return Ok(true);
        }
        if self.asks_source && !self.ask_source(session, most.min(self.most), budget)? {
            return Ok(false);
        }
        self.is_open = false;
        // A draft token that ends the text saves no pass, and no token follows it.
        let model = session.model();
        let n = self.tokens().iter().position(|token| model.ends(*token)).unwrap_or(self.kinds.len());
        let n = match chooser {
            Some(chooser) if n > 0 => chooser.admits(&self.history[..self.known], &self.tokens()[..n])?,
            _ => n,
        };
        self.kinds.truncate(n);
        Ok(true)
    }

    /// Begins a draft with the tokens that the grammar forces.
    fn begin(&mut self, session: &Session, made: &[u32], most: usize, chooser: Option<&mut Chooser>) -> Result<()> {
        self.whole = self.whole.min(session.len());
        self.history.truncate(self.whole);
        self.history.extend_from_slice(&session.tokens()[self.whole..]);
        self.whole = self.history.len();
        self.history.extend(made.last());
        self.known = self.history.len();
        self.kinds.clear();
        self.time = Duration::ZERO;
        let most = most.min(self.most);
        self.is_open = most > 0 && (self.always || self.policy.allows());
        self.asks_source = match self.source {
            Source::Nothing => false,
            Source::Lookup => true,
            Source::SharedKv(ref head) if !head.knows(session.len()) => false,
            _ => self.is_open && (self.always || self.policy.allows_making()),
        };
        if let Some(chooser) = chooser.filter(|_| self.is_open) {
            let mut forced = try_vec("the tokens of drafts", MOST)?;
            chooser.forced(&self.history, most, &mut forced)?;
            forced.iter().for_each(|token| self.push(*token, FORCED));
        }
        self.at = made.len();
        Ok(())
    }

    fn push(&mut self, token: u32, kind: u8) {
        self.history.push(token);
        self.kinds.push(kind);
    }

    /// Returns the draft tokens.
    fn tokens(&self) -> &[u32] {
        &self.history[self.known..self.known + self.kinds.len()]
    }

    /// Continues the draft from the source; returns false if paused.
    fn ask_source(&mut self, session: &mut Session, most: usize, budget: &StepBudget) -> Result<bool> {
        match &mut self.source {
            Source::Nothing => {}
            Source::Lookup => {
                if let Some((from, len)) = lookup::find(&self.history) {
                    // Each accepted token makes the match longer.
                    for i in 0..most - self.kinds.len() {
                        if self.history[from + i] == MEDIA_ROW {
                            break;
                        }
                        let kind = MATCHES.iter().filter(|longer| len + i >= **longer).count() as u8;
                        self.push(self.history[from + i], kind);
                    }
                }
            }
            source => {
                while self.kinds.len() < most {
                    let right = self.kinds.iter().map(|kind| self.policy.likelihood(*kind)).product();
                    if !self.always && !self.policy.allows_one_more(self.kinds.len(), right) {
                        break;
                    }
                    let Some(choice) = source.next(session, &self.history, budget)? else { return Ok(false) };
                    let kind = LEADS.iter().filter(|larger| choice.lead >= **larger).count() as u8;
                    self.history.push(choice.token);
                    self.kinds.push(kind);
                    self.time += choice.time;
                }
                source.release();
                self.policy.made(self.time.as_secs_f64(), self.kinds.iter().filter(|kind| **kind != FORCED).count());
            }
        }
        Ok(true)
    }

    /// Passes the hidden states of committed tokens to the draft head. The first token is row `row` of the pass.
    /// `output` is the index of the last token's output, if it has one.
    pub fn record(
        &mut self,
        executor: &mut Executor,
        row: usize,
        output: Option<usize>,
        positions: Range<usize>,
    ) -> Result<()> {
        match &mut self.source {
            Source::Head(head) => head.take(executor, row, positions),
            Source::SharedKv(head) => head.take(executor, output, positions.end),
            _ => Ok(()),
        }
    }

    /// Computes pending rows of the draft head; returns false if `budget` pauses.
    pub fn catch_up(&mut self, held: &[u32], budget: &StepBudget) -> Result<bool> {
        match &mut self.source {
            Source::Head(head) => head.catch_up(held, budget),
            _ => Ok(true),
        }
    }

    /// True if passes must keep hidden states for a draft head.
    pub fn observes(&self) -> bool {
        match &self.source {
            Source::Head(head) => head.observes(),
            Source::SharedKv(_) => true,
            _ => false,
        }
    }

    /// True if the next pass must be without drafts, to measure its time.
    pub fn needs_plain_pass(&self) -> bool {
        !self.always && self.policy.needs_plain()
    }

    /// Returns the draft tokens of the next pass of `jobs` jobs: at most `room`, and as many as pay. A time budget
    /// limits them further, because the job samples a token for each draft token after the pass.
    pub fn choose(&mut self, room: usize, jobs: usize, budget: Option<Duration>) -> &[u32] {
        let in_time = match budget {
            Some(budget) if !self.always => (CHOICES * budget.as_secs_f64() / self.choice) as usize,
            _ => MOST,
        };
        let n = self.kinds.len().min(room).min(in_time);
        self.chosen = if self.always { n } else { self.policy.length(&self.kinds[..n], jobs) };
        &self.tokens()[..self.chosen]
    }

    /// Records a pass, and the time of choosing a token. The first `compared` draft tokens were verified, and the first
    /// `right` of these were accepted.
    pub fn passed(&mut self, pass: PassStats, right: usize, compared: usize, jobs: usize, choice: Duration) {
        self.choice = choice.as_secs_f64();
        self.drafted += self.chosen;
        self.accepted += right;
        self.policy.passed(pass, &self.kinds[..self.chosen], right, compared, jobs);
        self.chosen = 0;
    }
}
