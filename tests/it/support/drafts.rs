//! Jobs with counts of their draft tokens.

use std::sync::Arc;

use realizar::engine::{CacheParams, Job, JobParams, Model, Request, Session, step_jobs};

pub fn job(model: &Arc<Model>, prompt: &[u32], params: JobParams) -> Job {
    let session = Session::new(model, &CacheParams { capacity: 400, ..Default::default() }).unwrap();
    let request = Request::new(&session, prompt, params).unwrap();
    Job::new(session, request)
}

pub fn read(job: &mut Job) -> Vec<u32> {
    job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap()
}

/// Returns the tokens of a job, and the numbers of draft and accepted tokens in each of its decode steps.
pub fn passes(mut job: Job) -> (Vec<u32>, Vec<[usize; 2]>) {
    let mut counts = vec![];
    while !step_jobs(&mut [&mut job], None).unwrap() {
        counts.push([job.info().drafted, job.info().accepted]);
    }
    counts.push([job.info().drafted, job.info().accepted]);
    let passes = counts.windows(2).map(|pair| [pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]]).collect();
    (read(&mut job), passes)
}
