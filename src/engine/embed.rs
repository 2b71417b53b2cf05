//! Embeddings: texts through a network in steps of as many tokens as fit, and from their hidden states to vectors. Owns
//! the caches of a call, so that no session is touched. What becomes of a text depends on that text alone.

use std::time::{Duration, Instant};

use super::Cancel;
use super::cache::{CacheParams, state_spec};
use super::embedder::Embedder;
use super::model::Model;
use super::network::Network;
use super::step::Step;
use super::vectors::Vectors;
use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::step::StepLimits;
use crate::model::pooling::Pooling;
use crate::quant;

/// The choices of a call.
#[derive(Clone, Copy, Default)]
pub struct EmbedParams {
    /// `None`: the model's.
    pub pooling: Option<Pooling>,
    /// Vectors keep their lengths.
    pub raw: bool,
}

impl Model {
    /// Number of values that `embed` makes of texts. Refuses what it would refuse.
    pub fn embed_len(&self, texts: &[&[u32]], params: EmbedParams) -> Result<usize> {
        let network = self.network()?;
        let embedder = network.embedder()?;
        let pooling = embedder.pooling(params.pooling)?;
        let context = network.context_length as usize;
        let (ids, positions) = (embedder.program.max_ids, embedder.program.max_positions.min(context));
        for (i, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(Error::invalid(format!("text {i} has no tokens")));
            }
            if text.len() > positions {
                let n = text.len();
                return Err(Error::invalid(format!("text {i} has {n} tokens, the model's context has {positions}")));
            }
            if let Some((at, id)) = text.iter().enumerate().find(|(_, id)| **id as usize >= ids) {
                return Err(Error::invalid(format!("token {id} at index {at} of text {i}, the vocabulary has {ids}")));
            }
        }
        let vectors = match pooling {
            Pooling::None => texts.iter().map(|text| text.len()).fold(0, usize::saturating_add),
            _ => texts.len(),
        };
        Ok(vectors.saturating_mul(embedder.width(pooling)))
    }

    /// The embeddings of texts, one after the other; `Pooling::None` makes one for each token.
    pub fn embed(&self, texts: &[&[u32]], params: EmbedParams, cancel: Option<&Cancel>) -> Result<Vec<f32>> {
        let len = self.embed_len(texts, params)?;
        let network = self.network()?;
        let embedder = network.embedder()?;
        let pooling = embedder.pooling(params.pooling)?;
        let limits = embedder.limits_for(texts.iter().map(|text| text.len()).max().unwrap_or(0));
        let mut call = Call {
            model: self,
            network,
            embedder,
            limits,
            cancel,
            out: Vectors::new(&embedder.head, pooling, params.raw, len)?,
            hidden: try_filled("hidden states", limits.max_tokens.saturating_mul(embedder.head.hidden), 0f32)?,
            step: Step::new(limits.max_tokens)?,
        };
        let above = embedder.program.long_rope_above();
        let is_long = |text: &[u32]| above.is_some_and(|above| text.len() > above);
        let mut rest = texts;
        while let Some(first) = rest.first() {
            Cancel::check(&[cancel])?;
            let mut tokens = 0;
            let fitting = rest.iter().take_while(|text| {
                tokens += text.len();
                tokens <= limits.max_tokens && is_long(text) == is_long(first)
            });
            // A text that is too long for a step goes through several.
            let n = fitting.count().max(1);
            let (group, behind) = rest.split_at(n);
            call.group(group)?;
            rest = behind;
        }
        Ok(call.out.values)
    }
}

/// One call of `embed`.
struct Call<'a> {
    model: &'a Model,
    network: &'a Network,
    embedder: &'a Embedder,
    limits: StepLimits,
    cancel: Option<&'a Cancel>,
    out: Vectors<'a>,
    /// `[max_tokens, hidden]`
    hidden: Vec<f32>,
    step: Step,
}

impl Call<'_> {
    /// Computes some texts side by side, or one in pieces.
    fn group(&mut self, texts: &[&[u32]]) -> Result<()> {
        let mut sequences = try_vec("the caches of texts", texts.len())?;
        let mut bytes = 0;
        for text in texts {
            let params = CacheParams { capacity: text.len() as u32, k_type: quant::F32, v_type: quant::F32 };
            let sequence = self.network.new_sequence(&state_spec(&self.embedder.program, 0, &params, self.limits))?;
            bytes += sequence.host_bytes();
            sequences.push(sequence);
        }
        let _memory = self.model.runtime().reserve("the caches of texts", bytes)?;
        if let [text] = texts {
            for piece in text.chunks(self.limits.max_tokens) {
                self.step(&mut sequences, &[piece])?;
                sequences.iter_mut().for_each(|sequence| sequence.commit(piece.len()));
                self.out.add(&self.hidden[..piece.len() * self.embedder.head.hidden]);
            }
            return self.out.finish();
        }
        self.step(&mut sequences, texts)?;
        let mut rest = &self.hidden[..];
        for text in texts {
            let (rows, behind) = rest.split_at(text.len() * self.embedder.head.hidden);
            rest = behind;
            self.out.add(rows);
            self.out.finish()?;
        }
        Ok(())
    }

    /// Computes the hidden states of tokens, as many of each sequence as its text has.
    fn step(&mut self, sequences: &mut [Sequence], texts: &[&[u32]]) -> Result<()> {
        let Embedder { program, executors, result, head, .. } = self.embedder;
        let mut refs = try_vec("the caches of texts", sequences.len())?;
        refs.extend(sequences);
        let Call { network, step, hidden, cancel, .. } = self;
        step.clear();
        texts.iter().for_each(|text| step.add(text, 0));
        let hidden = &mut hidden[..step.len() * head.hidden];
        let stop = || Cancel::check(&[*cancel]).is_err();
        let (n, budget) = (step.len(), StepBudget::new(&stop));
        let mut run = |executor: &mut Executor| {
            let started = Instant::now();
            if !step.run(executor, &mut refs, 0..program.ops.len(), (&[], 0), |_| Ok(()), &budget)? {
                return Err(Cancel::reason(&[*cancel]));
            }
            executor.read(*result, hidden)?;
            network.record(started.elapsed(), Duration::ZERO);
            Ok(())
        };
        let make = |limits| network.new_executor(program, limits);
        // An executor for one long text is too large to be kept.
        if self.limits.max_tokens > self.embedder.limits.max_tokens {
            return run(&mut make(self.limits)?.executor);
        }
        let lent = executors.take(n, &budget, make)?;
        let mut lent = lent.ok_or_else(|| Cancel::reason(&[*cancel]))?;
        let ran = run(lent.get());
        ran.and(lent.get().end())
    }
}
