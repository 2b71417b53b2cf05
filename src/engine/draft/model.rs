//! Drafts by a small draft model of the same vocabulary: its own session follows the job's, in steps that may be
//! paused.

use std::sync::Arc;
use std::time::Duration;

use crate::device::StepBudget;
use crate::engine::cache::CacheParams;
use crate::engine::model::Model;
use crate::engine::network::pass::{Lane, Pass};
use crate::engine::session::{Logits, Session};
use crate::error::{Error, Result, check_memory, try_vec};
use crate::sampling;

/// Context length of the draft session. A full session keeps and recomputes only the last quarter.
const CAPACITY: usize = 1024;

pub struct DraftModel {
    session: Session,
    /// The tokens of the open step, if any.
    step: Vec<u32>,
    /// The pass of an unfinished draft, which holds an executor.
    pass: Option<Pass>,
    /// Start of the history window in the session; the first token (usually BOS) precedes the window.
    from: usize,
}

/// A draft token.
pub struct Choice {
    pub token: u32,
    /// Difference between the two highest logits.
    pub lead: f32,
    /// Time that the draft token took, without the first prefill.
    pub time: Duration,
}

impl DraftModel {
    /// Fails if the vocabulary differs from `target`'s. `capacity`: context length of the job's session.
    pub fn new(model: &Arc<Model>, target: &Model, capacity: usize) -> Result<DraftModel> {
        same_size(model, target)?;
        same_words(model, target)?;
        let capacity = capacity.min(CAPACITY).min(model.network()?.context_length as usize).max(2);
        let params = CacheParams { capacity: capacity as u32, ..Default::default() };
        let session = Session::new(model, &params)?;
        session.check(&[], None)?;
        Ok(DraftModel { session, step: try_vec("the tokens of a draft", capacity)?, pass: None, from: 0 })
    }

    /// Returns the draft token after `history`; `None` if `budget` pauses; call again with the same history.
    pub fn next(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Choice>> {
        let is_beginning = self.session.is_empty();
        let mut time = Duration::ZERO;
        loop {
            if self.step.is_empty() {
                self.begin(history)?;
            }
            let is_last = self.session.len() + self.step.len() == self.length(history);
            let mut pass =
                self.pass.take().map_or_else(|| Pass::acquire_unqueued(self.session.network(), false), Ok)?;
            let lane = Lane { outputs: usize::from(is_last), ..Lane::new(&mut self.session, &self.step) };
            if !pass.run(&mut [lane], budget)? {
                self.pass = Some(pass);
                return Ok(None);
            }
            pass.commit(&mut self.session, 0, &self.step, 0, is_last.then_some(0))?;
            time += pass.step().time();
            self.step.clear();
            pass.step().clear();
            self.pass = Some(pass);
            if let Some(logits) = self.session.logits().filter(|_| is_last) {
                let (token, lead) = sampling::lead(logits);
                return Ok(Some(Choice { token, lead, time: if is_beginning { Duration::ZERO } else { time } }));
            }
        }
    }

    /// Returns the executor to the pool until the next draft.
    pub fn release(&mut self) {
        self.pass = None;
    }

    /// Returns the number of tokens of a history to hold.
    fn length(&self, history: &[u32]) -> usize {
        if self.from == 0 { history.len() } else { 1 + history.len() - self.from }
    }

    /// Rewinds to the common prefix of the session and the history, and begins a step of the next tokens.
    fn begin(&mut self, history: &[u32]) -> Result<()> {
        let capacity = self.session.capacity();
        if self.length(history) > capacity {
            self.from = history.len() - (capacity / 4).max(1);
        }
        let (first, rest) = if self.from == 0 { (&[][..], history) } else { (&history[..1], &history[self.from..]) };
        let wanted = || first.iter().chain(rest);
        let same = self.session.tokens().iter().zip(wanted()).take_while(|(a, b)| a == b).count();
        // The last token is always recomputed, for its logits.
        self.session.step_back(same.min(self.length(history) - 1), None);
        self.session.rewind(self.session.sequence().len(), Logits::None);
        let piece = self.session.network().job_piece();
        self.step.extend(wanted().skip(self.session.len()).take(piece));
        Ok(())
    }
}

/// Fails with `Mismatch` if the sizes of two vocabularies differ.
pub(super) fn same_size(model: &Model, target: &Model) -> Result<()> {
    let [found, wanted] = [model.network()?.vocab(), target.network()?.vocab()];
    if found == wanted {
        return Ok(());
    }
    Err(Error::Mismatch(format!("the draft model has a vocabulary of {found} tokens, the model of {wanted}")))
}

/// Fails with `Mismatch`, naming the first token that differs between two vocabularies.
pub(super) fn same_words(model: &Model, target: &Model) -> Result<()> {
    if model.vocabulary()? == target.vocabulary()? {
        return Ok(());
    }
    let both = [model.tokenizer()?, target.tokenizer()?];
    for id in 0..target.network()?.vocab() as u32 {
        check_memory("a vocabulary")?;
        let words = both.map(|tokenizer| tokenizer.decode_token(id, true).unwrap_or_default());
        if words[0] != words[1] {
            let [found, wanted] = words.map(|word| String::from_utf8_lossy(&word).escape_debug().to_string());
            let what = format!("token {id} of the draft model is \"{found}\", that of the model \"{wanted}\"");
            return Err(Error::Mismatch(what));
        }
    }
    Ok(())
}
