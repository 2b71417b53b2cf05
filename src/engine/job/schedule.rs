//! Continuous batching of jobs: passes with decode tokens of many jobs and chunks of prompts, within a time budget. The
//! tokens of a job depend neither on other jobs nor on pauses.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::job::Job;
use super::parked::{JobPass, Member, MemberPlace, Parked};
use super::pipelined::{self, Lanes};
use super::progress::Cancels;
use crate::device::StepBudget;
use crate::engine::draft::policy::PassStats;
use crate::engine::network::Network;
use crate::engine::network::pass::{Lane, Pass};
use crate::error::{Error, Result, try_vec};

/// Passes after which a waiting job precedes others, regardless of priority.
const AGED: u32 = 16;
/// Maximum time budget, about a century, so that clocks do not overflow.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// Runs jobs of one model for about `time` (zero: one chunk of work; `None`: until one of them has generated a token).
/// Returns true if all have ended.
///
/// A job that fails ends without affecting others; a cancelled job is skipped. The call itself fails only if all
/// unfinished jobs are cancelled, or for an error that concerns all jobs; the next call continues from the same state.
pub fn step_jobs(jobs: &mut [&mut Job], time: Option<Duration>) -> Result<bool> {
    let all_ended = work_on(jobs, time);
    publish(jobs);
    all_ended
}

fn work_on(jobs: &mut [&mut Job], time: Option<Duration>) -> Result<bool> {
    let until = time.map(|time| Instant::now() + time.min(LONGEST));
    let Some(first) = jobs.first() else { return Ok(true) };
    let (model, network) = (first.session().model().clone(), first.session().network().clone());
    if jobs.iter().any(|job| !Arc::ptr_eq(job.session().model(), &model)) {
        return Err(Error::Mismatch("the jobs of a step belong to different models".to_owned()));
    }
    let watched = RefCell::new(try_vec::<Cancels>("cancels", jobs.len())?);
    let stop = || watched.borrow().iter().all(|cancels| cancels.check().is_err());
    let budget = StepBudget::until(&stop, until);
    let (mut made, mut spare) = (false, None);
    loop {
        publish(jobs);
        jobs.iter_mut().for_each(|job| job.heed_cancels());
        if !jobs.iter().any(|job| job.is_running()) {
            return jobs.iter().try_for_each(|job| job.check_cancels()).map(|()| true);
        }
        *watched.borrow_mut() = watch(jobs, watched.take());
        made |= make_tokens(jobs, &network)?;
        if made && until.is_none() {
            return Ok(jobs.iter().all(|job| job.has_ended()));
        }
        let mut pass = match resume(jobs) {
            Some(pass) => pass,
            None if budget.is_over() => return Ok(false),
            None => {
                if !make_drafts(jobs, &budget)? {
                    match stop() {
                        true => continue,
                        false => return Ok(false),
                    }
                }
                let steps = if until.is_some() { pipelined_steps(jobs, &network)? } else { 0 };
                if steps > 1 {
                    // Dropping the spare pass returns its executor to the pool.
                    drop(spare.take());
                    match run_pipelined(jobs, &network, steps, &budget)? {
                        Some(0) if !stop() => return Ok(false),
                        Some(_) => continue,
                        None => {}
                    }
                }
                let mut pass = match spare.take() {
                    Some(pass) => pass,
                    None => {
                        let pass = Pass::acquire_unqueued(&network, jobs.iter().any(|job| job.observes()))?;
                        JobPass { pass, members: try_vec("jobs", network.limits.max_tokens)?, has_run: false }
                    }
                };
                fill(&mut pass, jobs, &network, time)?;
                pass
            }
        };
        if pass.members.is_empty() {
            spare = Some(pass);
        } else if advance(&mut pass, jobs, &budget)? && !choices_pause(&pass, jobs, &network, &budget) {
            made |= accept(&mut pass, jobs, &network)?;
            spare = Some(pass);
        } else {
            park(pass, jobs);
            if !stop() {
                return Ok(false);
            }
        }
    }
}

fn publish(jobs: &[&mut Job]) {
    jobs.iter().for_each(|job| job.publish());
}

/// Returns the cancels of the running jobs; reuses the memory of `cancels`.
fn watch(jobs: &[&mut Job], mut cancels: Vec<Cancels>) -> Vec<Cancels> {
    cancels.clear();
    cancels.extend(jobs.iter().filter(|job| job.is_running()).map(|job| job.cancels()));
    cancels
}

/// Takes a paused pass whose members are all among the running `jobs`; discards paused passes with other members.
fn resume(jobs: &mut [&mut Job]) -> Option<JobPass> {
    (0..jobs.len()).find_map(|i| {
        let parked = jobs.get_mut(i).filter(|job| job.is_running())?.parked.take()?;
        parked.take(|id| jobs.iter().any(|job| job.id == id && job.is_running()))
    })
}

/// Hands a paused pass to its members.
fn park(pass: JobPass, jobs: &mut [&mut Job]) {
    for (id, parked) in Parked::new(pass) {
        if let Some(job) = jobs.iter_mut().find(|job| job.id == id) {
            job.parked = Some(parked);
        }
    }
}

/// Computes the draft tokens of all jobs; returns false if `budget` stops before all jobs have their draft tokens.
fn make_drafts(jobs: &mut [&mut Job], budget: &StepBudget) -> Result<bool> {
    for job in jobs.iter_mut().filter(|job| job.is_running()) {
        let drafted = job.make_draft(budget);
        if job.end_on_own_error(drafted)? == Some(false) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fills a pass: first decode tokens with the draft tokens that fit, then chunks of prompts. Decoding jobs are ordered
/// by priority, then by waiting time; prompts are ordered by priority, then by remaining tokens, fewest first. Jobs
/// that have waited for `AGED` passes come first: decoding jobs get up to a quarter of the outputs, and one prompt gets
/// a quarter of the tokens if other prompts wait.
fn fill(pass: &mut JobPass, jobs: &mut [&mut Job], network: &Network, time: Option<Duration>) -> Result<()> {
    let limits = network.limits;
    let mut decoding = try_vec("jobs", jobs.len())?;
    decoding.extend((0..jobs.len()).filter(|&i| jobs[i].is_running()));
    order(&mut decoding, jobs, 1, |_| 0);
    let side = decoding.first().map(|&i| jobs[i].session().is_long());
    decoding.retain(|&i| Some(jobs[i].session().is_long()) == side);
    let mut prefilling = try_vec("jobs", decoding.len())?;
    prefilling.extend(decoding.iter().copied().filter(|&i| jobs[i].reads_prompt()));
    decoding.retain(|&i| !jobs[i].reads_prompt());

    // One output and some of the tokens are always reserved for prompts.
    let (most, kept) = (limits.max_outputs.min(limits.max_tokens), usize::from(!prefilling.is_empty()));
    let due = prefilling.iter().map(|&i| jobs[i].due_of_prompt()).max().unwrap_or(0);
    let prefill = (kept * network.mixed_prefill_tokens.min(limits.max_tokens / 4)).max(due);
    let tokens = limits.max_tokens.saturating_sub(prefill);
    let mut outputs = tokens.min(most - kept);
    let spare = most - outputs;
    order(&mut decoding, jobs, outputs / 4, |_| 0);
    decoding.truncate(outputs);
    let is_plain = decoding.iter().any(|&i| jobs[i].needs_plain_pass());
    let mut waiting = decoding.len();
    for &i in &decoding {
        let job = &mut jobs[i];
        waiting -= 1;
        let due = pass.tokens() + job.n_due();
        // The first member may use all tokens of the pass.
        let most = if pass.members.is_empty() { limits.max_tokens } else { tokens.saturating_sub(waiting) };
        if due > most {
            continue;
        }
        let free = tokens.saturating_sub(due + waiting);
        let room = if is_plain { 0 } else { free.min(outputs - waiting - 1) };
        let member = job.next_step(room, decoding.len(), time);
        outputs -= member.outputs;
        pass.members.push(member);
    }
    outputs += spare;
    let prefill = if pass.tokens() > 0 { network.mixed_prefill_tokens } else { network.job_piece() };
    let room = limits.max_tokens.min(pass.tokens() + prefill);
    let n_aged = order(&mut prefilling, jobs, 1, Job::prompt_left);
    for (n, &i) in prefilling.iter().enumerate() {
        let mut left = room.saturating_sub(pass.tokens());
        // An image with bidirectional attention is not split.
        let due = jobs[i].due_of_prompt();
        if left > 0 && pass.tokens() + due <= limits.max_tokens {
            left = left.max(due);
        }
        let shared = if n < n_aged && prefilling.len() > 1 { left.div_ceil(4).max(due) } else { left };
        let member = jobs[i].next_of_prompt(shared.min(left));
        if member.len() > 0 && member.outputs <= outputs {
            outputs -= member.outputs;
            pass.members.push(member);
        }
    }
    for job in jobs.iter_mut() {
        let is_member = pass.members.iter().any(|member| member.id == job.id);
        (job.waiting, job.running) =
            if is_member { (0, job.running.saturating_add(1)) } else { (job.waiting.saturating_add(1), 0) };
    }
    Ok(())
}

/// Sorts job indices in scheduling order: first up to `most_aged` jobs that have waited for `AGED` passes, then the
/// others by priority, `size` and waiting time. Returns the number of these first jobs.
fn order(turns: &mut [usize], jobs: &[&mut Job], most_aged: usize, size: impl Fn(&Job) -> usize) -> usize {
    let patience = |job: &Job| (Reverse(job.waiting), job.running);
    turns.sort_unstable_by_key(|&i| (patience(jobs[i]), i));
    let aged = turns.iter().take(most_aged).take_while(|&&i| jobs[i].waiting >= AGED).count();
    turns[aged..].sort_unstable_by_key(|&i| (Reverse(jobs[i].priority()), size(jobs[i]), patience(jobs[i]), i));
    aged
}

/// Runs a pass until it is complete or `budget` pauses it; returns true if complete.
fn advance(job_pass: &mut JobPass, jobs: &mut [&mut Job], budget: &StepBudget) -> Result<bool> {
    let JobPass { pass, members, has_run } = job_pass;
    if *has_run {
        return Ok(true);
    }
    let (mut all, mut lanes) = (try_vec("caches", jobs.len())?, try_vec("caches", members.len())?);
    all.extend(jobs.iter_mut().map(Some));
    for member in members {
        let found = all.iter_mut().find(|job| job.as_ref().is_some_and(|job| job.id == member.id));
        let job = found.and_then(Option::take).ok_or_else(|| Error::invalid("a job of the pass is missing"))?;
        lanes.push(job.lane(*member));
    }
    *has_run = pass.run(&mut lanes, budget)?;
    Ok(*has_run)
}

/// True if `budget` has no time left for sampling after a pass. Long sampling is a chunk of work of its own, divided
/// among the threads.
fn choices_pause(pass: &JobPass, jobs: &[&mut Job], network: &Network, budget: &StepBudget) -> bool {
    let decoding = pass.members.iter().filter(|member| member.outputs > 0);
    let chooses = |member: &Member| Some(jobs.iter().find(|job| job.id == member.id)?.choice_time());
    let (total, longest) = decoding
        .filter_map(chooses)
        .fold((Duration::ZERO, Duration::ZERO), |(total, longest), time| (total + time, longest.max(time)));
    let expected = longest.max(total / network.threads() as u32);
    !expected.is_zero() && budget.pauses(expected)
}

/// A function that is called for each member of a pass.
type MemberWork<'a> = &'a mut dyn FnMut(&mut Job, MemberPlace) -> Result<()>;

/// Hands the results of a pass to its members; returns true if one has generated a token or failed. Returns the first
/// error, after all members have their results.
fn accept(pass: &mut JobPass, jobs: &mut [&mut Job], network: &Network) -> Result<bool> {
    let (rows, JobPass { pass: results, members, .. }) = (pass.tokens(), &mut *pass);
    let drafted = members.iter().map(|member| member.outputs.saturating_sub(1)).sum();
    let is_mixed = members.iter().any(|member| member.outputs < member.len());
    let stats = PassStats { time: results.step().time(), rows, drafted, is_mixed };
    let decoding = members.iter().filter(|member| member.outputs > 0).count();
    let each = |jobs: &mut [&mut Job], work: MemberWork| {
        let ([mut row, mut output], mut made) = ([0; 2], Ok(false));
        for member in members.iter() {
            if let Some(job) = jobs.iter_mut().find(|job| job.id == member.id) {
                let worked = work(job, MemberPlace { member: *member, row, output });
                let worked = job.end_on_own_error(worked);
                made = made.and_then(|made| Ok(worked?.is_none() || made));
            }
            row += member.len();
            output += member.outputs;
        }
        made
    };
    let taken = each(jobs, &mut |job, place| job.take(place, results, stats.time));
    let made = make_tokens(jobs, network);
    let settled = each(jobs, &mut |job, place| job.settle(place, results, stats, decoding));
    pass.clear();
    Ok(taken? | made? | settled?)
}

/// Samples a token for each job whose logits have not been sampled yet; returns true if there are such jobs. If
/// sampling takes long for several jobs, the jobs are divided among all threads, unless another step uses the threads,
/// a job has to call a callback, or a job has to recompute its logits. The token of a job depends only on this job.
/// Returns the first error, after all jobs have their tokens.
fn make_tokens(jobs: &mut [&mut Job], network: &Network) -> Result<bool> {
    let any = jobs.iter().any(|job| job.is_running() && job.is_undecided());
    let at_length = jobs.iter().filter(|job| job.is_running() && job.chooses_at_length()).count();
    let runs_alone = |job: &&mut Job| job.is_running() && (job.lacks_logits() || job.calls_back());
    let most = if jobs.iter().any(runs_alone) { 1 } else { at_length };
    let failure = Mutex::new(Ok(()));
    let shared = network.for_each(jobs, most, |job| {
        if job.is_running() {
            let made = job.decide();
            let made = job.end_on_own_error(made).map(|_| ());
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = std::mem::replace(&mut *failure, Ok(())).and(made);
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).and(shared).map(|()| any)
}

/// Returns the number of single-token steps that all running jobs may pipeline; 0 if there are more jobs than outputs
/// in a step, if only some jobs use long-context RoPE factors, or if a job is in prefill, drafts, or samples on the
/// host.
fn pipelined_steps(jobs: &[&mut Job], network: &Network) -> Result<usize> {
    let running = || jobs.iter().filter(|job| job.is_running());
    let limits = network.limits;
    let (n, long) = (running().count(), running().filter(|job| job.session().is_long()).count());
    if n > limits.max_outputs.min(limits.max_tokens) || (long > 0 && long < n) {
        return Ok(0);
    }
    let least = |most: usize, job: &&mut Job| Some(most.min(job.steps_ahead(network)?));
    Ok(running().try_fold(pipelined::MOST, least).unwrap_or(0))
}

/// Generates tokens of all running jobs by at most `most` pipelined steps, until a job ends or `budget` stops the
/// steps. Returns the number of steps; `None` if the device cannot pipeline.
fn run_pipelined(
    jobs: &mut [&mut Job],
    network: &Arc<Network>,
    most: usize,
    budget: &StepBudget,
) -> Result<Option<usize>> {
    let n = jobs.iter().filter(|job| job.is_running()).count();
    let result = pipelined::run(network, &mut JobLanes { jobs, budget }, n, most, budget);
    jobs.iter_mut().for_each(|job| job.forget_ahead());
    result
}

/// The running jobs of pipelined steps.
struct JobLanes<'a, 'j> {
    jobs: &'a mut [&'j mut Job],
    budget: &'a StepBudget<'a>,
}

impl Lanes for JobLanes<'_, '_> {
    fn lanes<'a>(&'a mut self, lanes: &mut Vec<Lane<'a>>) {
        let n = self.jobs.len();
        for job in self.jobs.iter_mut().filter(|job| job.is_running()) {
            let member = job.next_step(0, n, None);
            lanes.push(job.lane(member));
        }
    }

    fn pauses(&self, under_way: usize, _: usize, usual: Duration) -> bool {
        self.budget.pauses(usual * (under_way + 1) as u32)
    }

    fn accept(&mut self, tokens: &[u32], time: Duration) -> Result<bool> {
        let (mut result, mut ended) = (Ok(()), false);
        for (job, token) in self.jobs.iter_mut().filter(|job| job.is_running()).zip(tokens) {
            let accepted = job.accept_ahead(*token, time);
            result = result.and(job.end_on_own_error(accepted).map(|_| ()));
            job.publish();
            ended |= job.has_ended();
        }
        result.map(|()| !ended)
    }
}
