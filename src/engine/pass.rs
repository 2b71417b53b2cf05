//! A step of several sessions that may be paused within: the tokens, and an executor of its own whose activations stay
//! as they are meanwhile. Knows its members by numbers; whose they are, and what becomes of the results, others know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::executors::Counted;
use super::metrics::Phase;
use super::network::Network;
use super::step::Step;
use crate::device::sequence::Sequence;
use crate::device::{Executor, StepBudget};
use crate::error::{Error, Result, try_vec};
use crate::sampling::SamplingRule;

/// The next tokens of a session in a pass.
#[derive(Clone, Copy)]
pub struct Member {
    pub id: u64,
    pub tokens: usize,
    /// Number of the last of them whose logits are wanted.
    pub outputs: usize,
}

pub struct Pass {
    network: Arc<Network>,
    /// Present until this is dropped.
    executor: Option<Counted>,
    step: Step,
    members: Vec<Member>,
    /// The outputs after which the device chooses a token.
    chosen: Vec<bool>,
    /// Time that was worked.
    busy: Duration,
}

impl Pass {
    /// An empty pass with an executor.
    pub fn new(network: &Arc<Network>) -> Result<Pass> {
        let room = network.limits.max_tokens;
        Ok(Pass {
            step: Step::new(room)?,
            members: try_vec("the tokens of a step", room)?,
            chosen: try_vec("the tokens of a step", room)?,
            executor: Some(network.take_executor()?),
            network: network.clone(),
            busy: Duration::ZERO,
        })
    }

    /// Has a session take part, with tokens for which there is room in a step.
    pub fn add(&mut self, id: u64, tokens: &[u32], outputs: usize) {
        self.step.add(tokens, outputs);
        self.members.push(Member { id, tokens: tokens.len(), outputs });
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.step.len()
    }

    /// Nothing of it was worked on.
    pub fn is_fresh(&self) -> bool {
        self.step.is_fresh()
    }

    /// Works on until all is done or `budget` pauses; true when all is done. `states`: of the members, in their order,
    /// the same each time. For a fresh pass the outputs after which the device chooses a token, and the rules by which
    /// it does; none where it chooses none.
    pub fn advance(
        &mut self,
        states: &mut [&mut Sequence],
        (there, rules): (&[bool], &[Option<SamplingRule>]),
        budget: &StepBudget,
    ) -> Result<bool> {
        let Pass { network, executor: Some(Counted { executor, .. }), step, chosen, busy, .. } = self else {
            return Err(Error::invalid("a pass without an executor"));
        };
        let started = Instant::now();
        if step.is_fresh() {
            chosen.clear();
            chosen.extend_from_slice(there);
        }
        let ops = 0..network.program.ops.len();
        let done = step.run(executor, states, ops, (rules, 0), |_| Ok(()), budget);
        *busy += started.elapsed();
        done
    }

    /// The members of a pass that has ended, the executor that has their results, and the outputs after which it has
    /// chosen a token.
    pub fn results(&mut self) -> Result<(&[Member], &mut Executor, &[bool])> {
        match &mut self.executor {
            Some(Counted { executor, .. }) => Ok((&self.members, executor, &self.chosen)),
            None => Err(Error::invalid("a pass without an executor")),
        }
    }

    /// Ends a pass all of whose work is done: the time that it took.
    pub fn end(&mut self) -> Result<Duration> {
        let (_, executor, _) = self.results()?;
        executor.end()?;
        let (share, times) = (executor.first_share(), executor.times());
        let busy = std::mem::take(&mut self.busy);
        self.network.record(busy, share);
        self.network.metrics().record_parts(&times);
        let is_prompt = self.members.iter().any(|member| member.outputs < member.tokens);
        let phase = if is_prompt { Phase::Prefill } else { Phase::Decode };
        self.network.metrics().record_phase(phase, busy);
        Ok(busy)
    }

    /// Empties the pass for the next one.
    pub fn clear(&mut self) {
        self.step.clear();
        self.members.clear();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // After a panic an executor is in an unknown state.
        if let Some(mut executor) = self.executor.take().filter(|_| !std::thread::panicking()) {
            // Work on a device must have ended before the memory that it writes is used again; its result is not
            // wanted.
            let _ = executor.executor.end();
            self.network.give_back(executor);
        }
    }
}

/// A part in a paused pass. The first member that leaves takes the pass apart: what was computed so far is lost, the
/// sessions are as they were before it.
pub struct Parked(Arc<Mutex<Option<Pass>>>);

impl Parked {
    /// Pauses a pass: a part for each member, in any order.
    pub fn new(pass: Pass) -> impl Iterator<Item = (u64, Parked)> {
        let ids: Vec<u64> = pass.members.iter().map(|member| member.id).collect();
        let shared = Arc::new(Mutex::new(Some(pass)));
        ids.into_iter().map(move |id| (id, Parked(shared.clone())))
    }

    /// The pass, unless it was taken or taken apart meanwhile, or has a member that is not `here`.
    pub fn take(self, here: impl Fn(u64) -> bool) -> Option<Pass> {
        let pass = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        pass.filter(|pass| pass.members.iter().all(|member| here(member.id)))
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
