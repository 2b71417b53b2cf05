//! Drafts by a head that attends to the target's KV cache and has none of its own (Gemma 4's assistants). The first
//! step reads the newest hidden state of the target and the token after it; each later step reads the previous step's
//! result and draft token. All steps of a draft have the position of the first.

use std::sync::Arc;
use std::time::Duration;

use super::model::{Choice, same_size, same_words};
use super::shared_end::SharedEnd;
use crate::device::sequence::Sequence;
use crate::device::{Backend, Executor, StepBudget};
use crate::engine::model::Model;
use crate::engine::network::Network;
use crate::engine::network::executors::{Acquired, Executors};
use crate::engine::network::predictor::Predictor;
use crate::engine::runtime::Reservation;
use crate::error::{Error, Result, try_filled};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;
use crate::model::{PredictorOf, SharedKvNetwork};
use crate::sampling;

pub struct SharedKvHead {
    network: Arc<Network>,
    target: Arc<Network>,
    /// The head's program for the target's sequences, and its weights on the target's device.
    program: Arc<Program>,
    backend: Backend,
    executors: Executors,
    /// The activation of hidden states that the target's passes keep for the head.
    states: TensorId,
    table: SharedEnd,
    /// The hidden state of the token before position `known`.
    state: Vec<f32>,
    known: usize,
    /// Number of tokens that the head has processed from position `known` on, and its hidden state after the last one.
    ahead: usize,
    made: Vec<f32>,
    logits: Vec<f32>,
    /// Scores of clusters, and logits of tokens in the selected clusters.
    scores: Vec<f32>,
    of_clusters: Vec<f32>,
    /// The executor of an unfinished draft; true while a step of the executor is open.
    acquired: Option<Acquired>,
    is_open: bool,
    _memory: Reservation,
}

impl SharedKvHead {
    /// `None` if the model is not such a head.
    pub fn of_model(head: &Arc<Model>, target: &Arc<Model>) -> Result<Option<SharedKvHead>> {
        let network = head.network()?;
        let Ok(predictor) = network.predictor() else { return Ok(None) };
        let PredictorOf::SharedKv(seen) = &predictor.of else { return Ok(None) };
        same_size(head, target)?;
        if head.tokenizer().is_ok() && target.tokenizer().is_ok() {
            same_words(head, target)?;
        }
        let found = &target.info().architecture;
        if found != seen.architecture {
            let wanted = seen.architecture;
            return Err(Error::Mismatch(format!(
                "the draft model looks at a model of {wanted}, this is one of {found}"
            )));
        }
        let target = target.network()?;
        let program = Arc::new(predictor.program.with_kv_of(&target.program)?);
        let backend = network.copy_for(target, &program)?;
        let states = target.observe_end(predictor.width)?;
        SharedKvHead::new(head, target, program, backend, states).map(Some)
    }

    fn new(
        model: &Arc<Model>,
        target: &Arc<Network>,
        program: Arc<Program>,
        backend: Backend,
        states: TensorId,
    ) -> Result<SharedKvHead> {
        let network = model.network()?;
        let (predictor, seen) = of(network)?;
        let [table, _] = target.ends();
        let lacks_table =
            || Error::unsupported("a draft head without its own embeddings is not supported for this model");
        let table = SharedEnd::new(table.as_ref().ok_or_else(lacks_table)?, 1)?;
        let clusters = seen.clusters.as_ref();
        let (n_scores, vocab) = (clusters.map_or(0, |of| program.width(of.scores)), program.vocab);
        let zeros = |n: usize| try_filled("the numbers of a draft", n, 0f32);
        let limits = StepLimits { max_tokens: 1, max_outputs: 1 };
        let of_clusters = zeros(if clusters.is_some() { vocab } else { 0 })?;
        let n = 2 * predictor.width + vocab + n_scores + of_clusters.len();
        Ok(SharedKvHead {
            _memory: model.runtime().reserve("the numbers of drafts", table.bytes().saturating_add(4 * n as u64))?,
            executors: Executors::new(&model.runtime().pool, limits, false),
            state: zeros(predictor.width)?,
            made: zeros(predictor.width)?,
            logits: zeros(vocab)?,
            scores: zeros(n_scores)?,
            of_clusters,
            network: network.clone(),
            target: target.clone(),
            program,
            backend,
            states,
            table,
            known: 0,
            ahead: 0,
            acquired: None,
            is_open: false,
        })
    }

    /// Takes the hidden state of the token before position `end` from a pass, if that token is an output.
    pub fn take(&mut self, executor: &mut Executor, output: Option<usize>, end: usize) -> Result<()> {
        self.known = 0;
        self.ahead = 0;
        self.release();
        if let Some(output) = output {
            executor.read_rows(self.states, output, &mut self.state)?;
            self.known = end;
        }
        Ok(())
    }

    /// True if the head can draft after `len` tokens and the next one.
    pub fn knows(&self, len: usize) -> bool {
        len > 0 && self.known == len
    }

    /// Returns the draft token after `history`, which must extend the tokens of `sequence`. Returns `None` if `budget`
    /// pauses; call again with the same history.
    pub fn next(&mut self, sequence: &mut Sequence, history: &[u32], budget: &StepBudget) -> Result<Option<Choice>> {
        let mut time = Duration::ZERO;
        loop {
            let token = history.get(self.known + self.ahead).ok_or_else(|| Error::invalid("a draft needs a token"))?;
            let Some(taken) = self.advance(sequence, *token, budget).inspect_err(|_| self.release())? else {
                return Ok(None);
            };
            time += taken;
            if self.known + self.ahead == history.len() {
                let (token, lead) = sampling::lead(self.candidates()?);
                return Ok(Some(Choice { token, lead, time }));
            }
        }
    }

    /// Returns the executor to the pool, and drops the open step.
    pub fn release(&mut self) {
        self.acquired = None;
        self.is_open = false;
    }

    /// Runs a step of one token. Returns its time, or `None` if `budget` pauses.
    fn advance(&mut self, sequence: &mut Sequence, token: u32, budget: &StepBudget) -> Result<Option<Duration>> {
        let SharedKvHead { network, target, program, backend, executors, table, state, ahead, made, logits, .. } = self;
        let (predictor, seen) = of(network)?;
        if self.acquired.is_none() {
            self.acquired =
                Some(executors.acquire_unqueued(|limits| network.executor_reading(target, backend, program, limits))?);
        }
        let Some(acquired) = &mut self.acquired else { return Err(Error::invalid("a draft needs an executor")) };
        let (step, input) = (acquired.step(), if *ahead == 0 { state } else { &mut *made });
        let mut time = Duration::ZERO;
        if !self.is_open {
            time += table.embed(target, &[token])?;
            step.clear().add(&[token], 1).only_reads = true;
            self.is_open = true;
        }
        let write = |executor: &mut Executor| {
            executor.write(predictor.input, input)?;
            executor.write(seen.embedding, &table.values)
        };
        // LoRA adapters apply to the target's matrices only.
        let adapters = sequence.adapters().clone();
        sequence.set_adapters(AdapterSet::default());
        let done = step.run(&mut [&mut *sequence], &[], write, budget);
        sequence.set_adapters(adapters);
        if !done? {
            return Ok(None);
        }
        self.is_open = false;
        let executor = &mut step.executor;
        executor.read(predictor.result, made)?;
        executor.read_logits(0, logits)?;
        if let Some(clusters) = &seen.clusters {
            executor.read(clusters.scores, &mut self.scores)?;
        }
        *ahead += 1;
        Ok(Some(time + step.time()))
    }

    /// Returns the logits of the tokens that may be drafted.
    fn candidates(&mut self) -> Result<&[f32]> {
        let SharedKvHead { network, logits, scores, of_clusters, .. } = self;
        let (_, seen) = of(network)?;
        let Some(clusters) = &seen.clusters else { return Ok(logits) };
        of_clusters.fill(f32::NEG_INFINITY);
        let size = logits.len() / scores.len().max(1);
        for _ in 0..clusters.used {
            let best = sampling::lead(scores).0 as usize;
            scores[best] = f32::NEG_INFINITY;
            for token in clusters.tokens[best * size..][..size].iter().map(|token| *token as usize) {
                of_clusters[token] = logits[token];
            }
        }
        Ok(of_clusters)
    }
}

/// Returns the head's program, and its description of the target.
fn of(network: &Network) -> Result<(&Predictor, &SharedKvNetwork)> {
    let predictor = network.predictor()?;
    match &predictor.of {
        PredictorOf::SharedKv(seen) => Ok((predictor, seen)),
        _ => Err(Error::invalid("a draft head needs a layer to attend to")),
    }
}
