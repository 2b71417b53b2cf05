//! A batch step over sessions, used by every call and job. An executor takes the tokens of some lanes and works until
//! the step is complete or a budget pauses the step; `commit` appends the results to the sessions. No session's tokens
//! or length changes before `commit`, so a pass that fails or is dropped leaves all sessions unchanged.

use std::sync::Arc;

use super::executors::Acquired;
use super::network::Network;
use super::step::Step;
use crate::device::{Sequence, StepBudget};
use crate::engine::cancel::Cancel;
use crate::engine::chooser::{Chooser, DeviceRules};
use crate::engine::metrics::Phase;
use crate::engine::nan;
use crate::engine::session::{Logits, Session};
use crate::error::{Error, Result, try_vec};
use crate::sampling::SamplingRule;

/// The next tokens of a session in a pass, checked by the caller (`Session::check`).
pub struct Lane<'a> {
    pub session: &'a mut Session,
    /// Number of pending tokens (`Session::pending`) to recompute; must be all of them if new tokens follow.
    pub again: usize,
    /// Tokens to append.
    pub tokens: &'a [u32],
    /// Number of outputs: the last tokens of the lane whose results are needed.
    pub outputs: usize,
    /// Chooses the token after an output; `None`: greedy.
    pub chooser: Option<&'a mut Chooser>,
    /// True if the device may sample, because the host does not need the logits.
    pub on_device: bool,
}

impl<'a> Lane<'a> {
    /// Returns a lane that appends `tokens` and has no outputs.
    pub fn new(session: &'a mut Session, tokens: &'a [u32]) -> Lane<'a> {
        Lane { session, again: 0, tokens, outputs: 0, chooser: None, on_device: false }
    }

    /// Prepares the grammar mask for sampling on the device, if the lane has a single output. If that fails, the host
    /// samples and reports the error.
    fn prepare_mask(&mut self) {
        if let Some(chooser) = self.chooser.as_deref_mut().filter(|_| self.on_device && self.outputs == 1) {
            let _ = self.session.prepare_mask(chooser, self.tokens);
        }
    }

    /// Returns the session's sequence, and a function from an output to the device's sampling rule: `Some(None)` is
    /// greedy, `None` leaves the choice to the host.
    fn for_step<'l>(
        &'l mut self,
        network: &'l Network,
    ) -> (&'l mut Sequence, impl Fn(usize) -> Option<Option<SamplingRule<'l>>>) {
        let (tokens, chooser) = (self.tokens, self.chooser.as_deref());
        // The prepared mask is valid only for a single output.
        let restricted = self.outputs > 1 && chooser.is_some_and(Chooser::has_grammar);
        let rules = if self.on_device && !restricted { DeviceRules::new(network, chooser) } else { None };
        let before = tokens.len().saturating_sub(self.outputs);
        let (sequence, held) = self.session.for_step();
        (sequence, move |i| Some(rules?.rule([held, &tokens[..=before + i]], i as u64)))
    }
}

pub struct Pass {
    network: Arc<Network>,
    acquired: Acquired,
    /// True if the pass keeps its executor between calls (`Pass::acquire_unqueued`). Such a pass itself records each
    /// step in the metrics, as prefill or decode.
    is_unqueued: bool,
    /// Bit mask of the outputs after which the device samples a token.
    chosen: u64,
}

impl Pass {
    /// Creates a pass that may be paused for any length of time. `observes`: true if the pass keeps hidden states for
    /// draft heads.
    pub fn acquire_unqueued(network: &Arc<Network>, observes: bool) -> Result<Pass> {
        let observed = if observes { network.observed() } else { None };
        Ok(Pass {
            acquired: network.acquire_unqueued(observed.as_deref())?,
            network: network.clone(),
            is_unqueued: true,
            chosen: 0,
        })
    }

    /// Creates a pass of a call with `tokens` tokens; `None` if `budget` ends the wait for an executor.
    pub fn acquire(network: &Arc<Network>, tokens: usize, budget: &StepBudget) -> Result<Option<Pass>> {
        let acquired = network.acquire(tokens, budget)?;
        Ok(acquired.map(|acquired| Pass { acquired, network: network.clone(), is_unqueued: false, chosen: 0 }))
    }

    /// Runs a whole pass of a call, unless one of `cancels` fires.
    pub fn whole(lanes: &mut [Lane], cancels: &[Option<&Cancel>]) -> Result<Pass> {
        let Some(first) = lanes.first() else { return Err(Error::invalid("a batch step needs a token")) };
        let network = first.session.network().clone();
        let stop = || Cancel::check(cancels).is_err();
        let (tokens, budget) = (lanes.iter().map(|lane| lane.again + lane.tokens.len()).sum(), StepBudget::new(&stop));
        let mut pass = Pass::acquire(&network, tokens, &budget)?.ok_or_else(|| Cancel::reason(cancels))?;
        if pass.run(lanes, &budget)? { Ok(pass) } else { Err(Cancel::reason(cancels)) }
    }

    /// Returns the step, with the executor that has its results.
    pub fn step(&mut self) -> &mut Step {
        self.acquired.step()
    }

    /// Works until the step is complete or `budget` pauses it; returns true if complete. `lanes` must be the same in
    /// each call; the first call adds the tokens of the lanes to the step.
    pub fn run(&mut self, lanes: &mut [Lane], budget: &StepBudget) -> Result<bool> {
        let Pass { network, acquired, is_unqueued, chosen } = self;
        let step = acquired.step();
        add(step, lanes, network)?;
        let done = with_rules(network, lanes, step.is_fresh().then_some(chosen), |sequences, rules| {
            step.run(sequences, rules, |_| Ok(()), budget)
        })?;
        if done {
            let (time, is_prompt) = (step.time(), step.has_prompt());
            network.record(time, step.executor.first_share());
            network.metrics().record_parts(&step.executor.times());
            if *is_unqueued {
                network.metrics().record_phase(if is_prompt { Phase::Prefill } else { Phase::Decode }, time);
            }
        }
        Ok(done)
    }

    /// Begins a step of lanes that follows `ahead` uncommitted steps, and does not wait for the results. The sampling
    /// rules of the first step apply to all later steps.
    pub fn submit(&mut self, lanes: &mut [Lane], ahead: usize, is_first: bool) -> Result<()> {
        let Pass { network, acquired, chosen, .. } = self;
        let step = acquired.step();
        step.clear().ahead = ahead;
        add(step, lanes, network)?;
        with_rules(network, lanes, is_first.then_some(chosen), |sequences, rules| {
            // A pipelined step is short; the caller checks its budget only before the step.
            step.advance(sequences, step.executor.ops(), rules, |_| Ok(()), &StepBudget::unlimited())
        })?;
        step.executor.submit()
    }

    /// Commits the next results of a lane: first the recomputed pending tokens, `again` in number, then the new
    /// `tokens`. `left` is the number of the lane's tokens that later calls commit. With an `output` index, reads the
    /// logits of the last token, or returns the token that the device sampled, whose logits stay on the device. Fails
    /// if logits are not finite.
    pub fn commit(
        &mut self,
        session: &mut Session,
        again: usize,
        tokens: &[u32],
        left: usize,
        output: Option<usize>,
    ) -> Result<Option<u32>> {
        let Pass { network, acquired, chosen, .. } = self;
        let (executor, mut next) = (&mut acquired.step().executor, None);
        let (model, position) = (session.model().clone(), (session.len() + tokens.len()).saturating_sub(1));
        session.commit(again, tokens, left, |logits| match output {
            None => Ok(Logits::None),
            Some(i) if *chosen >> i & 1 == 1 => {
                let token = executor.token(i)?;
                nan::check_chosen(&model, token, position)?;
                next = Some(token);
                Ok(Logits::OnDevice)
            }
            Some(i) => {
                executor.read_logits(i, logits)?;
                nan::check_logits(&model, logits, position)?;
                network.suppress(logits);
                Ok(Logits::OnHost)
            }
        })?;
        Ok(next)
    }
}

/// Adds the tokens of lanes to an empty step.
fn add(step: &mut Step, lanes: &[Lane], network: &Network) -> Result<()> {
    if !step.is_empty() {
        return Ok(());
    }
    // True if every new token of a single lane has an output: a draft to verify, with or without recomputed tokens.
    // Each token must then have the results of a single-token step.
    step.separate = matches!(lanes, [lane] if lane.outputs == lane.tokens.len());
    for Lane { session, again, tokens, outputs, .. } in lanes {
        let pending = session.pending();
        if *again > pending.len() || (!tokens.is_empty() && *again < pending.len()) {
            return Err(Error::invalid("the layers have forgotten what the step needs"));
        }
        step.add(pending[..*again].iter().chain(*tokens), *outputs);
        step.add_media(session.runs(), session.sequence().len() + step.ahead, network.has_rope_positions)?;
    }
    Ok(())
}

/// Calls `work` with the sequences of lanes, and with the device's sampling rules if the step is fresh; sets `chosen`.
fn with_rules<T>(
    network: &Network,
    lanes: &mut [Lane],
    mut chosen: Option<&mut u64>,
    work: impl FnOnce(&mut [&mut Sequence], &[Option<SamplingRule>]) -> Result<T>,
) -> Result<T> {
    let is_fresh = chosen.is_some();
    if let Some(chosen) = &mut chosen {
        **chosen = 0;
        lanes.iter_mut().for_each(Lane::prepare_mask);
    }
    // Fast path: decoding one session allocates nothing.
    if let [lane] = lanes
        && lane.outputs <= 1
    {
        let asks = is_fresh && lane.outputs == 1;
        let (sequence, rule) = lane.for_step(network);
        let rule = if asks { rule(0) } else { None };
        if let Some(chosen) = chosen {
            *chosen = rule.is_some().into();
        }
        return work(&mut [sequence], rule.as_slice());
    }
    let outputs = lanes.iter().map(|lane| lane.outputs).sum();
    let (mut sequences, mut rules) = (try_vec("caches", lanes.len())?, try_vec("rules", outputs)?);
    for lane in lanes {
        let outputs = lane.outputs;
        let (sequence, rule) = lane.for_step(network);
        sequences.push(sequence);
        for rule in (0..outputs).filter(|_| is_fresh).map(rule) {
            if let Some(chosen) = &mut chosen {
                **chosen |= u64::from(rule.is_some()) << rules.len();
            }
            rules.push(rule.flatten());
        }
    }
    let chooses = chosen.is_some_and(|chosen| *chosen != 0);
    work(&mut sequences, if chooses { &rules } else { &[] })
}
