//! Pipelined decode: a GPU begins single-token steps before the previous ones have ended, because it feeds back its own
//! samples.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::StepBudget;
use crate::engine::metrics::Phase;
use crate::engine::network::Network;
use crate::engine::network::pass::{Lane, Pass};
use crate::error::{Result, try_filled, try_vec};
use crate::graph::step::CHOSEN_BEFORE;

/// Maximum number of steps before others may use the executor.
pub const MOST: usize = 32;

/// The lanes of pipelined steps, and the consumer of their tokens.
pub trait Lanes {
    /// Appends the lanes, in the same order each time, with one token each; only the first step uses these tokens.
    fn lanes<'a>(&'a mut self, lanes: &mut Vec<Lane<'a>>);

    /// True to hold back the next step. `under_way`: number of steps in flight; `done`: number of steps that have
    /// ended; `usual`: usual duration of a step.
    fn pauses(&self, under_way: usize, done: usize, usual: Duration) -> bool;

    /// Commits the tokens that a step has appended, and takes the tokens that it has sampled. Returns false to stop.
    fn accept(&mut self, tokens: &[u32], time: Duration) -> Result<bool>;
}

/// Generates at most `most` tokens for each of `n` sessions, until `lanes` stop or pause. The caller must drop later
/// steps (`Session::rewind`), also after an error. Returns the number of steps; `None` if the device cannot pipeline;
/// `Some(0)` if `budget` ends the wait for an executor.
pub fn run(
    network: &Arc<Network>,
    lanes: &mut impl Lanes,
    n: usize,
    most: usize,
    budget: &StepBudget,
) -> Result<Option<usize>> {
    let Some(mut pass) = Pass::acquire(network, n, budget)? else { return Ok(Some(0)) };
    let done = steps(&mut pass, network, lanes, n, most);
    let executor = &mut pass.step().executor;
    let ended = executor.end();
    network.metrics().record_parts(&executor.times());
    done.and_then(|done| ended.map(|()| done))
}

fn steps(pass: &mut Pass, network: &Network, lanes: &mut impl Lanes, n: usize, most: usize) -> Result<Option<usize>> {
    let ahead = pass.step().executor.ahead();
    if ahead == 0 {
        return Ok(None);
    }
    let mut chosen = try_filled("tokens", n, 0)?;
    let (mut sent, mut done, mut goes_on) = (0, 0, true);
    let (mut since, mut usual) = (Instant::now(), Duration::ZERO);
    while goes_on {
        while sent < most && sent - done < ahead && !lanes.pauses(sent - done, done, usual) {
            let mut next = try_vec("caches", n)?;
            lanes.lanes(&mut next);
            if sent > 0 {
                next.iter_mut().for_each(|lane| lane.tokens = &[CHOSEN_BEFORE]);
            }
            pass.submit(&mut next, sent - done, sent == 0)?;
            sent += 1;
        }
        if sent == done {
            break;
        }
        pass.step().executor.collect(&mut chosen)?;
        let now = Instant::now();
        usual = now - since;
        done += 1;
        network.record(usual, pass.step().executor.first_share());
        network.metrics().record_phase(Phase::Decode, usual);
        goes_on = lanes.accept(&chosen, usual)?;
        since = now;
    }
    Ok(Some(done))
}
