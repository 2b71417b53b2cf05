//! Steps of single tokens that a GPU begins before the ones ahead of them have ended, because it hands its choices on
//! by itself.

use std::time::{Duration, Instant};

use super::metrics::Phase;
use super::network::Network;
use super::step::Step;
use crate::device::{Sequence, StepBudget};
use crate::error::{Result, try_filled, try_vec};
use crate::graph::step::CHOSEN_BEFORE;
use crate::sampling::SamplingRule;

/// Steps that an executor works on before others may have it.
pub const MOST: usize = 32;

/// The sequences of steps, and what becomes of their tokens.
pub trait Lanes {
    /// The token that each sequence goes on with.
    fn tokens(&mut self, ids: &mut Vec<u32>);

    /// The sequences, in the same order each time, and the rules by which tokens are chosen, of which those of the
    /// first step count.
    fn sequences<'a>(&'a mut self, sequences: &mut Vec<&'a mut Sequence>, rules: &mut Vec<Option<SamplingRule<'a>>>);

    /// True where the next step is not to be begun: `under_way` were begun and not ended, which take `usual` each,
    /// `done` have ended.
    fn pauses(&self, under_way: usize, done: usize, usual: Duration) -> bool;

    /// Takes the tokens that a step has chosen, and commits the ones before them; false where no further step is
    /// wanted.
    fn accept(&mut self, tokens: &[u32], time: Duration) -> Result<bool>;
}

/// Makes `most` tokens at most of each of `n` sequences, until `lanes` want no more or pause. The caller forgets what
/// was begun after the last (`Sequence::forget_ahead`), also after an error. The number of steps; `None` where the
/// device does not work ahead; `Some(0)` where `budget` ends the wait for an executor.
pub fn run(
    network: &Network,
    lanes: &mut impl Lanes,
    [n, most]: [usize; 2],
    budget: &StepBudget,
) -> Result<Option<usize>> {
    let mut step = Step::new(n)?;
    let (mut ids, mut chosen) = (try_vec("tokens", n)?, try_filled("tokens", n, 0)?);
    lanes.tokens(&mut ids);
    let lent = network.lend(n, budget, |executor| {
        let ahead = executor.ahead();
        let (mut sent, mut done, mut goes_on) = (0, 0, ahead > 0);
        let (mut since, mut usual) = (Instant::now(), Duration::ZERO);
        while goes_on {
            while sent < most && sent - done < ahead && !lanes.pauses(sent - done, done, usual) {
                let (mut sequences, mut rules) = (try_vec("caches", n)?, try_vec("rules", n)?);
                lanes.sequences(&mut sequences, &mut rules);
                step.clear();
                ids.iter().for_each(|id| step.add(&[*id], 1));
                let rules = if sent == 0 { &rules[..] } else { &[] };
                // A step of single tokens is short: only ahead of it the lanes are asked.
                network.run(executor, &mut step, &mut sequences, (rules, sent - done), &StepBudget::new(&|| false))?;
                executor.submit()?;
                ids.fill(CHOSEN_BEFORE);
                sent += 1;
            }
            if sent == done {
                break;
            }
            executor.collect(&mut chosen)?;
            let now = Instant::now();
            usual = now - since;
            done += 1;
            network.record(usual, executor.first_share());
            network.metrics().record_phase(Phase::Decode, usual);
            goes_on = lanes.accept(&chosen, usual)?;
            since = now;
        }
        Ok((ahead > 0).then_some(done))
    });
    lent.map(|lent| lent.unwrap_or(Some(0)))
}
