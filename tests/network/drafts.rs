//! Drafts: whatever is drafted, by whom and how well, tokens and logits are those of a job without drafts.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::jobs::{budget, job, load, prompt, sampler, session, story, tokens};
use super::support::tiny::{self, Rng, Tiny};
use realizar::engine::{
    Cancel, DraftParams, DraftSource, End, GrammarKind, Job, JobInfo, JobParams, Model, Request, Sampler,
    SamplerParams, step_jobs,
};
use realizar::error::Error;
use realizar::quant;

fn lookup() -> DraftParams {
    DraftParams { source: Some(DraftSource::Lookup), always: true, ..Default::default() }
}

fn by(model: &Arc<Model>, most: usize) -> DraftParams {
    DraftParams { source: Some(DraftSource::Model(model.clone())), most, always: true }
}

/// The tokens of a job, its state, and the bits of the last logits once the cache is free again.
fn run(mut job: Job, budget: &mut dyn FnMut() -> Duration) -> (Vec<u32>, JobInfo, Vec<u32>, Vec<u32>) {
    while !step_jobs(&mut [&mut job], budget()).unwrap() {}
    let (made, info) = (tokens(&mut job), job.info());
    let mut cache = job.into_session();
    let (held, last) = (cache.tokens().to_vec(), bits(cache.logits().expect("logits")));
    // The next call goes on from there, on whatever a rewind has left.
    cache.prefill(&[7, 8], None).unwrap();
    let mut after = bits(cache.logits().expect("logits"));
    after.extend(last);
    (made, info, held, after)
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Every tiny network, as `each` likes it, with a number.
fn networks(mut each: impl FnMut(usize, &str, &Arc<Model>)) {
    let dir = tempfile::tempdir().unwrap();
    for (i, (name, tiny)) in tiny::architectures(|name| Tiny::new(name, quant::Q4_0)).into_iter().enumerate() {
        let path = dir.path().join("tiny.gguf");
        fs::write(&path, tiny.build().0).unwrap();
        let model = load(&path, 1 + i as u32 % 2);
        if realizar::engine::Session::new(&model, &Default::default()).is_ok() {
            each(i, name, &model);
        }
    }
}

#[test]
fn drafts_change_no_token_and_no_logit_of_any_architecture() {
    let mut rng = Rng(1);
    let mut other: Option<Arc<Model>> = None;
    let (mut right, mut wrong) = (0, 0);
    networks(|i, name, model| {
        let (prompt, seed, max_tokens) = (prompt(30 + i % 7, i), i as u64 % 3, 40);
        let run = |draft: DraftParams, budget: &mut dyn FnMut() -> Duration| {
            let params = JobParams { max_tokens, sampler: sampler(seed), draft, ..Default::default() };
            run(job(session(model, 100), &prompt, params), budget)
        };
        let wanted = run(DraftParams::default(), &mut || Duration::from_secs(60));
        assert_eq!((wanted.1.drafted, wanted.1.accepted), (0, 0));
        let mut sources = vec![lookup(), DraftParams { always: false, ..lookup() }, by(model, 1 + i % 9)];
        sources.extend(other.as_ref().map(|other| by(other, 3)));
        for (kind, draft) in sources.into_iter().enumerate() {
            let found = run(draft, &mut || budget(&mut rng));
            assert_eq!(found.0, wanted.0, "{name}, source {kind}");
            assert_eq!(
                (found.1.end, found.1.tokens, found.1.cache_len),
                (wanted.1.end, wanted.1.tokens, wanted.1.cache_len)
            );
            assert!(found.2 == wanted.2 && found.3 == wanted.3, "{name}, source {kind}");
            assert!(found.1.accepted <= found.1.drafted);
            if kind == 2 && seed == 0 {
                // It drafts for itself.
                assert_eq!((found.1.accepted, found.1.drafted >= 19), (found.1.drafted, true), "{name}");
            }
            if kind == 3 {
                (right, wrong) = (right + found.1.accepted, wrong + found.1.drafted - found.1.accepted);
            }
        }
        other = Some(model.clone());
    });
    assert!(wrong > 100, "{right} right, {wrong} wrong");
}
