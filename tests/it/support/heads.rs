//! Small draft heads of `data/heads`, their target models, and jobs that use them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use realizar::engine::{
    CacheParams, Chooser, DraftParams, DraftSource, Job, JobParams, LoadOptions, Model, Request, SamplerParams,
    Session, step_jobs,
};
use realizar::error::Error;
use serde_json::Value;

use super::drafts::{job, passes, read};
use super::models;
use super::published::{Tensor, numbers, put_weights, weights};
use super::safetensors::Folder;

pub fn data(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/heads/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub fn ids(v: &Value) -> Vec<u32> {
    numbers(v).into_iter().map(|id| id as u32).collect()
}

pub fn floats(v: &Value) -> Vec<f32> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

/// Returns the tensors that `data` lists; names with a prefix give the target's weights.
pub fn tensors(data: &Value, prefix: &str) -> Vec<Tensor> {
    let tensor = |(name, shape): (&String, &Value)| {
        let (shape, n) = (numbers(shape), numbers(shape).iter().product::<u64>() as usize);
        if name == "t2d" {
            return (name.clone(), "BOOL", shape, vec![1; n]);
        }
        if let Some(integers) = data["integers"][name].as_array() {
            let bytes = integers.iter().flat_map(|x| x.as_i64().unwrap().to_le_bytes()).collect();
            return (name.clone(), "I64", shape, bytes);
        }
        let mut values = weights(&format!("{prefix}{name}"), &shape);
        if name.ends_with("q_norm.weight") && !data["q_norms"].is_null() {
            let factor = data["q_norms"].as_f64().unwrap() as f32;
            values.iter_mut().for_each(|x| *x *= factor);
        }
        if let (true, Some(_)) = (name.ends_with("embed_tokens.weight"), data["rows"].as_array()) {
            let rows: Vec<&[f32]> = values.chunks(shape[1] as usize).collect();
            let order = numbers(&data["rows"]).into_iter().filter(|row| *row < shape[0]);
            values = order.flat_map(|row| rows[row as usize].to_vec()).collect();
        }
        (name.clone(), "F32", shape, values.iter().flat_map(|x| x.to_le_bytes()).collect())
    };
    data["tensors"].as_object().unwrap().iter().map(tensor).collect()
}

pub fn folder(data: &Value, prefix: &str) -> Folder {
    let folder = Folder::new(data["config"].as_str().unwrap());
    put_weights(&folder.0.path().join("model.safetensors"), &tensors(data, prefix));
    folder
}

pub fn load_with(path: &Path, options: LoadOptions) -> Result<Arc<Model>, Error> {
    Model::load(path, models::on(models::runtime(2), LoadOptions { device: 1, ..options }))
}

pub fn load(path: &Path) -> Arc<Model> {
    load_with(path, LoadOptions::default()).unwrap()
}

pub fn drafting(head: &Arc<Model>, most: usize) -> DraftParams {
    DraftParams { source: Some(DraftSource::Model(head.clone())), most, always: true }
}

/// Checks that a job without drafts generates the tokens of `of["made"]`.
pub fn check_tokens(model: &Arc<Model>, of: &Value) {
    let (prompt, made) = (ids(&of["prompt"]), ids(&of["made"]));
    let params = JobParams { max_tokens: made.len(), ..Default::default() };
    assert_eq!(passes(job(model, &prompt, params)).0, made);
}

/// Checks the draft steps of a job against `data["passes"]`; returns the number of accepted tokens.
pub fn check_passes(model: &Arc<Model>, of: &Value, name: &str, head: &Arc<Model>) -> u64 {
    let (prompt, made) = (ids(&of["prompt"]), ids(&of["made"]));
    let expected: Vec<_> = data(name)["passes"].as_array().unwrap().iter().map(numbers).collect();
    let params = JobParams { max_tokens: made.len(), draft: drafting(head, 4), ..Default::default() };
    let found = passes(job(model, &prompt, params));
    assert_eq!(found.0, made, "{name}");
    let found: Vec<_> = found.1.into_iter().map(|pass| pass.map(|n| n as u64).to_vec()).collect();
    assert_eq!(found, expected, "{name}");
    found.iter().map(|pass| pass[1]).sum()
}

/// Runs jobs with heads of several kinds and without heads in one batch, with pauses at any point, forks, and continued
/// texts. Returns the number of accepted draft tokens.
pub fn change_nothing(model: &Arc<Model>, heads: &[Arc<Model>]) -> usize {
    let prompt: Vec<u32> = (0..90u32).map(|i| (i * i + i / 7) % 32).collect();
    let (mut accepted, mut budget) = (0, 0);
    for temperature in [0.0, 0.7] {
        let run = |drafts: &dyn Fn(usize) -> DraftParams, pauses: &mut dyn FnMut() -> Option<Duration>| {
            let mut made = vec![];
            let base = Session::new(model, &CacheParams { capacity: 300, ..Default::default() }).unwrap();
            let mut jobs: Vec<Job> = vec![];
            for i in 0..6 {
                let mut session = base.fork().unwrap();
                // A part of the prompt that no head has processed.
                session.prefill(&prompt[..7 * i + 1], None).unwrap();
                let choice = SamplerParams { seed: i as u64, temperature, ..Default::default() };
                let chooser = Some(Chooser::new(choice).unwrap());
                let params = JobParams { max_tokens: 40, chooser, draft: drafts(i), ..Default::default() };
                let request = Request::new(&session, &prompt[7 * i + 1..], params).unwrap();
                jobs.push(Job::new(session, request));
            }
            let all = |jobs: &mut Vec<Job>, pauses: &mut dyn FnMut() -> Option<Duration>| {
                while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), pauses()).unwrap() {}
                jobs.iter().map(|job| job.info().accepted).sum::<usize>()
            };
            let mut right = all(&mut jobs, pauses);
            made.extend(jobs.iter_mut().map(read));
            // Other jobs continue after a part of the generated text.
            let mut jobs: Vec<Job> = jobs
                .into_iter()
                .enumerate()
                .map(|(i, job)| {
                    let mut session = job.into_session();
                    session.truncate(session.len() as u32 - 10).unwrap();
                    let params = JobParams { max_tokens: 20, draft: drafts(i + 1), ..Default::default() };
                    let request = Request::new(&session, &[5, 7], params).unwrap();
                    Job::new(session, request)
                })
                .collect();
            right += all(&mut jobs, pauses);
            made.extend(jobs.iter_mut().map(read));
            let logits = jobs.into_iter().map(|job| job.into_session().logits().unwrap().to_vec());
            (made, logits.collect::<Vec<_>>(), right)
        };
        let wanted = run(&|_| DraftParams::default(), &mut || None);
        let drafts = |i: usize| {
            heads.get(i % (heads.len() + 1)).map_or(DraftParams::default(), |head| drafting(head, 1 + i % 4))
        };
        let mut pauses = || {
            budget += 1;
            Some(Duration::from_micros([0, 1, 30, 300, 0, 3000][budget % 6]))
        };
        let found = run(&drafts, &mut pauses);
        assert!(found.0 == wanted.0 && found.1 == wanted.1, "{temperature}");
        accepted += found.2;
    }
    println!("{accepted} accepted");
    accepted
}
