//! Steps of jobs that a GPU begins before the ones ahead of them have ended, because it hands its choices on by itself. Knows
//! which jobs can wait that long for their tokens; what a token means to a job, the job knows.

use std::time::{Duration, Instant};

use super::Cancel;
use super::job::Job;
use super::metrics::Phase;
use super::model::Model;
use super::pass::Member;
use super::step::StepInputs;
use crate::backend::Pace;
use crate::backend::batch::FOLLOWING;
use crate::error::{Result, try_filled, try_vec};

/// Steps that an executor works on before others may have it.
const MOST: usize = 32;

/// Makes tokens of all jobs that have not ended, a step of single tokens after the other, until one ends or `pace` pauses.
/// What was begun behind the last is forgotten. False where nothing was done: the device does not work ahead, there are
/// more jobs than a step has outputs, or one of them reads its prompt, drafts, or chooses on the host.
pub fn run(jobs: &mut [&mut Job], model: &Model, pace: &Pace, cancels: &[Option<&Cancel>]) -> Result<bool> {
    let n = jobs.iter().filter(|job| !job.has_ended()).count();
    let limits = model.limits()?;
    let steps = |most: usize, job: &&mut Job| Some(most.min(job.steps_ahead(model)?));
    let most = jobs.iter().filter(|job| !job.has_ended()).try_fold(MOST, steps).unwrap_or(0);
    let long_above = model.program()?.long_rope_above();
    let is_long = |job: &&&mut Job| long_above.is_some_and(|above| job.session().capacity() > above);
    let long = jobs.iter().filter(|job| !job.has_ended()).filter(is_long).count();
    if most < 2 || n > limits.max_outputs.min(limits.max_tokens) || (long > 0 && long < n) {
        return Ok(false);
    }
    let mut inputs = StepInputs::new(n)?;
    let (mut ids, mut tokens) = (try_vec("tokens", n)?, try_filled("tokens", n, 0)?);
    let result = model.lend(|executor| {
        let ahead = executor.ahead();
        let (mut sent, mut done, mut ended) = (0, 0, false);
        let (mut since, mut usual) = (Instant::now(), Duration::ZERO);
        while ahead > 0 && !ended {
            while sent < most && sent - done < ahead && !pace.pauses(usual * (sent - done + 1) as u32) {
                ids.clear();
                let (mut states, mut rules) = (try_vec("caches", n)?, try_vec("rules", n)?);
                for job in jobs.iter_mut().filter(|job| !job.has_ended()) {
                    let member = Member { id: job.id, tokens: 1, outputs: 1 };
                    if sent == 0 {
                        ids.extend_from_slice(job.next_step(0, n, Duration::ZERO).0);
                    } else {
                        ids.push(FOLLOWING);
                    }
                    let (state, choices) = job.state_and_choices();
                    rules.push(choices.behind(model, member, 0).flatten());
                    states.push(state);
                }
                let mut batch = inputs.batch(&mut states, &ids, std::iter::repeat_n((1, 1), n), sent - done)?;
                batch.rules = if sent == 0 { &rules } else { &[] };
                model.run(executor, &mut batch, cancels)?;
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
            let running = jobs.iter_mut().filter(|job| !job.has_ended());
            for (job, token) in running.zip(&tokens) {
                result = result.and(job.accept_ahead(*token, usual));
                ended |= job.has_ended();
            }
            result?;
            done += 1;
            model.record(usual, executor.first_share())?;
            model.metrics().record_phase(Phase::Decode, usual);
            since = now;
        }
        Ok(done > 0)
    });
    jobs.iter_mut().for_each(|job| job.forget_ahead());
    result
}
