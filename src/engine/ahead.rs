//! Steps of jobs that a GPU begins before the ones ahead of them have ended, because it hands its choices on by itself. Knows
//! which jobs can wait that long for their tokens; what a token means to a job, the job knows.

use std::time::{Duration, Instant};

use super::job::Job;
use super::metrics::Phase;
use super::model::Model;
use super::pass::Member;
use super::step::StepBuffers;
use crate::device::StepBudget;
use crate::error::{Result, try_filled, try_vec};
use crate::graph::step::CHOSEN_BEFORE;

/// Steps that an executor works on before others may have it.
const MOST: usize = 32;

/// Steps of all jobs that have not ended that may be begun one behind the other; 0 where there are more of them than a step has
/// outputs, or one reads its prompt, drafts, or chooses on the host.
pub fn steps(jobs: &[&mut Job], model: &Model) -> Result<usize> {
    let running = || jobs.iter().filter(|job| job.runs());
    let least = |most: usize, job: &&mut Job| Some(most.min(job.steps_ahead(model)?));
    let (limits, long_above) = (model.limits()?, model.program()?.long_rope_above());
    let n = running().count();
    let long = running().filter(|job| long_above.is_some_and(|above| job.session().capacity() > above)).count();
    if n > limits.max_outputs.min(limits.max_tokens) || (long > 0 && long < n) {
        return Ok(0);
    }
    Ok(running().try_fold(MOST, least).unwrap_or(0))
}

/// Makes tokens of all jobs that have not ended, a step of single tokens after the other, `most` at most, until one ends or
/// `pace` pauses. What was begun behind the last is forgotten. The number of steps; `None` where the device does not work
/// ahead.
pub fn run(jobs: &mut [&mut Job], model: &Model, most: usize, pace: &StepBudget) -> Result<Option<usize>> {
    let n = jobs.iter().filter(|job| job.runs()).count();
    let mut inputs = StepBuffers::new(n)?;
    let (mut ids, mut tokens) = (try_vec("tokens", n)?, try_filled("tokens", n, 0)?);
    let result = model.lend(n, pace, |executor| {
        let ahead = executor.ahead();
        let (mut sent, mut done, mut ended) = (0, 0, false);
        let (mut since, mut usual) = (Instant::now(), Duration::ZERO);
        if ahead == 0 {
            return Ok(None);
        }
        while !ended {
            while sent < most && sent - done < ahead && !pace.pauses(usual * (sent - done + 1) as u32) {
                let is_first = sent == 0;
                ids.clear();
                let (mut states, mut rules) = (try_vec("caches", n)?, try_vec("rules", n)?);
                for job in jobs.iter_mut().filter(|job| job.runs()) {
                    let member = Member { id: job.id, tokens: 1, outputs: 1 };
                    match is_first {
                        true => ids.extend_from_slice(job.next_step(0, n, None).0),
                        false => ids.push(CHOSEN_BEFORE),
                    }
                    let (state, choices) = job.state_and_choices();
                    if is_first {
                        rules.push(choices.behind(model, member, 0).flatten());
                    }
                    states.push(state);
                }
                let mut batch = inputs.batch(&mut states, &ids, std::iter::repeat_n((1, 1), n), sent - done)?;
                batch.inputs.rules = &rules;
                // A step of single tokens is short: only ahead of it the pace is asked.
                model.run(executor, &mut batch, &[])?;
                executor.submit()?;
                sent += 1;
            }
            if sent == done {
                break;
            }
            executor.collect(&mut tokens)?;
            let now = Instant::now();
            usual = now - since;
            let mut result = Ok(());
            let running = jobs.iter_mut().filter(|job| job.runs());
            for (job, token) in running.zip(&tokens) {
                let accepted = job.accept_ahead(*token, usual);
                result = result.and(job.alone(accepted).map(|_| ()));
                ended |= job.has_ended();
            }
            result?;
            done += 1;
            model.record(usual, executor.first_share())?;
            model.metrics().record_phase(Phase::Decode, usual);
            since = now;
        }
        Ok(Some(done))
    });
    // Without an executor in time no step was made.
    let result = result.map(|lent| lent.unwrap_or(Some(0)));
    jobs.iter_mut().for_each(|job| job.forget_ahead());
    result
}
