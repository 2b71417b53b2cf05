//! Drafts by a small model of the same vocabulary, which has read the end of the text: a session of its own that
//! follows another one, wherever that goes, in steps that may be paused.

use std::sync::Arc;
use std::time::Duration;

use crate::device::StepBudget;
use crate::engine::cache::CacheParams;
use crate::engine::model::Model;
use crate::engine::network::pass::{Lane, Pass};
use crate::engine::session::{Logits, Session};
use crate::error::{Error, Result, check_memory, try_vec};
use crate::sampling;

/// Tokens that it holds at most. Where they are full it reads the last quarter again.
const CAPACITY: usize = 1024;

pub struct DraftModel {
    session: Session,
    /// The tokens of the open step, if any.
    step: Vec<u32>,
    /// The pass of a draft that is being made, which holds an executor.
    pass: Option<Pass>,
    /// The history counts from here on, after its first token, with which texts begin for most models.
    from: usize,
}

/// A token that the model would choose.
pub struct Choice {
    pub token: u32,
    /// The difference between its logit and that of the second choice.
    pub lead: f32,
    /// Time that finding it took, but for reading a text from its beginning.
    pub time: Duration,
}

impl DraftModel {
    /// Refuses a model whose vocabulary is not that of `target`. `capacity`: of the session that it will follow.
    pub fn new(model: &Arc<Model>, target: &Model, capacity: usize) -> Result<DraftModel> {
        same_size(model, target)?;
        same_words(model, target)?;
        let capacity = capacity.min(CAPACITY).min(model.network()?.context_length as usize).max(2);
        let params = CacheParams { capacity: capacity as u32, ..Default::default() };
        let session = Session::new(model, &params)?;
        session.check(&[], None)?;
        Ok(DraftModel { session, step: try_vec("the tokens of a draft", capacity)?, pass: None, from: 0 })
    }

    /// The token that follows a history; `None` where `budget` pauses, to go on with the same history.
    pub fn next(&mut self, history: &[u32], budget: &StepBudget) -> Result<Option<Choice>> {
        let is_beginning = self.session.is_empty();
        let mut time = Duration::ZERO;
        loop {
            if self.step.is_empty() {
                self.begin(history)?;
            }
            let is_last = self.session.len() + self.step.len() == self.length(history);
            let mut pass = self.pass.take().map_or_else(|| Pass::apart(self.session.network(), false), Ok)?;
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

    /// Gives the executor back until the next draft.
    pub fn rest(&mut self) {
        self.pass = None;
    }

    /// Number of tokens to hold of a history.
    fn length(&self, history: &[u32]) -> usize {
        if self.from == 0 { history.len() } else { 1 + history.len() - self.from }
    }

    /// Goes back to where the session and a history part, and begins a step of the next tokens.
    fn begin(&mut self, history: &[u32]) -> Result<()> {
        let capacity = self.session.capacity();
        if self.length(history) > capacity {
            self.from = history.len() - (capacity / 4).max(1);
        }
        let (first, rest) = if self.from == 0 { (&[][..], history) } else { (&history[..1], &history[self.from..]) };
        let wanted = || first.iter().chain(rest);
        let same = self.session.tokens().iter().zip(wanted()).take_while(|(a, b)| a == b).count();
        // The last token is computed in any case, for its logits.
        self.session.step_back(same.min(self.length(history) - 1), None);
        self.session.rewind(self.session.sequence().len(), Logits::None);
        let piece = self.session.network().job_piece();
        self.step.extend(wanted().skip(self.session.len()).take(piece));
        Ok(())
    }
}

/// `Mismatch` naming the sizes of two vocabularies where these differ.
pub(super) fn same_size(model: &Model, target: &Model) -> Result<()> {
    let [found, wanted] = [model.network()?.vocab(), target.network()?.vocab()];
    if found == wanted {
        return Ok(());
    }
    Err(Error::Mismatch(format!("the draft model has a vocabulary of {found} tokens, the model of {wanted}")))
}

/// `Mismatch` naming the first word that two vocabularies of a size differ in.
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
