//! Drafts: for every source and quality of drafts, tokens and logits equal those of a job without drafts.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::jobs::{budget, job, prompt, sampler, session, story, tokens};
use crate::support::models;
use crate::support::tiny::{self, Rng, Tiny};
use realizar::engine::{
    Cancel, Chooser, DraftParams, DraftSource, End, GrammarKind, GrammarText, Job, JobInfo, JobParams, Model, Request,
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
fn run(mut job: Job, budget: &mut dyn FnMut() -> Option<Duration>) -> (Vec<u32>, JobInfo, Vec<u32>, Vec<u32>) {
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
        let model = models::load_threads(&path, 1 + i as u32 % 2);
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
        let run = |draft: DraftParams, budget: &mut dyn FnMut() -> Option<Duration>| {
            let params = JobParams { max_tokens, chooser: sampler(seed), draft, ..Default::default() };
            run(job(session(model, 100), &prompt, params), budget)
        };
        let wanted = run(DraftParams::default(), &mut || Some(Duration::from_secs(60)));
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

/// A job on the story model.
fn story_job(model: &Arc<Model>, text: &str, params: JobParams) -> Job {
    let mut ids = Vec::new();
    model.tokenizer().unwrap().encode(text, true, false, &mut ids).unwrap();
    job(session(model, 400), &ids, params)
}

const STORY: &str = "Once upon a time, there was a little girl. Once upon a time, there was a";

#[test]
fn ends_within_a_draft_are_those_of_single_tokens() {
    let model = models::load_threads(&story(), 2);
    let mut rng = Rng(2);
    let (mut ends, mut accepted) = ([0; 4], 0);
    for round in 0..48 {
        let end = (0..512).find(|id| model.tokenizer().unwrap().is_end(*id)).expect("a token that ends the text");
        // Ends are likelier than the model finds them, and stop strings are what stories are made of.
        let choice = SamplerParams {
            temperature: if round % 2 == 0 { 0.0 } else { 0.3 },
            seed: round,
            logit_biases: if round % 3 == 0 { vec![(end, 12.0 + round as f32 / 4.0)] } else { vec![] },
            repeat_penalty: if round % 5 == 0 { 1.1 } else { 0.0 },
            dry_multiplier: if round % 7 == 0 { 0.1 } else { 0.0 },
            xtc_probability: if round % 8 == 3 { 0.2 } else { 0.0 },
            mirostat_tau: if round % 8 == 5 { 2.0 } else { 0.0 },
            ..Default::default()
        };
        let stops: &[&str] = match round % 4 {
            0 => &["park", " play o"],
            1 => &["She", "zzz", "he w"],
            _ => &[],
        };
        let capacity = if round % 4 == 3 { 30 + round as u32 } else { 400 };
        let mut ids = Vec::new();
        model.tokenizer().unwrap().encode(STORY, true, false, &mut ids).unwrap();
        let run = |draft: DraftParams, budget: &mut dyn FnMut() -> Option<Duration>| {
            let sampler = Some(Chooser::new(choice.clone()).unwrap());
            let params = JobParams { max_tokens: 70, chooser: sampler, stops, draft, ..Default::default() };
            let mut job = job(session(&model, capacity), &ids, params);
            while !step_jobs(&mut [&mut job], budget()).unwrap() {}
            let text = job.read_text(|text| Ok(text.to_owned())).unwrap();
            let (made, info) = (tokens(&mut job), job.info());
            let cache = job.into_session();
            let logits = bits(cache.logits().expect("logits"));
            (info, (made, text, cache.tokens().to_vec(), logits))
        };
        let wanted = run(DraftParams::default(), &mut || None);
        for draft in [lookup(), by(&model, 1 + round as usize % 12), by(&model, 1 << 30)] {
            let found = run(draft, &mut || budget(&mut rng));
            assert!(found.1 == wanted.1 && found.0.end == wanted.0.end, "round {round}: {:?}, {:?}", found.0, wanted.0);
            accepted += found.0.accepted;
        }
        let ended =
            [End::Token, End::Length, End::Stop, End::Context].iter().position(|end| Some(*end) == wanted.0.end);
        ends[ended.expect("an end")] += 1;
    }
    assert!(ends.iter().all(|n| *n > 2) && accepted > 1000, "{ends:?}, {accepted} accepted");
}

#[test]
fn jobs_with_and_without_drafts_share_passes_and_are_freed_midway() {
    let model = models::load_threads(&story(), 2);
    let mut rng = Rng(3);
    let prompts: Vec<Vec<u32>> = (0..9).map(|i| prompt(20 + 17 * i, i)).collect();
    let alone: Vec<_> = (0..9)
        .map(|i| super::jobs::expected(&mut session(&model, 400), &prompts[i], sampler(i as u64 % 3), 60).0)
        .collect();
    let (mut accepted, mut drafted) = (0, 0);
    for round in 0..6 {
        let mut jobs: Vec<(usize, Job)> = (0..9)
            .map(|i| {
                let draft = match (i + round) % 4 {
                    0 => DraftParams::default(),
                    1 => lookup(),
                    2 => DraftParams { always: false, ..lookup() },
                    _ => by(&model, 5),
                };
                let params = JobParams { max_tokens: 60, chooser: sampler(i as u64 % 3), draft, ..Default::default() };
                (i, job(session(&model, 400), &prompts[i], params))
            })
            .collect();
        for step in 0.. {
            let from = if rng.next().is_multiple_of(4) { rng.next() as usize % jobs.len() } else { 0 };
            let mut some: Vec<&mut Job> = jobs[from..].iter_mut().map(|(_, job)| job).collect();
            if step_jobs(&mut some, budget(&mut rng)).unwrap() && from == 0 {
                break;
            }
            if step == 40 {
                let leaves = rng.next() as usize % jobs.len();
                let (i, mut job) = jobs.swap_remove(leaves);
                let seen = tokens(&mut job);
                let cache = job.into_session();
                let history = [&prompts[i][..], &seen].concat();
                assert!(alone[i].starts_with(&seen) && history.starts_with(cache.tokens()));
                assert!(seen.is_empty() || (cache.len() == history.len() - 1 && cache.logits().is_some()));
            }
        }
        for (i, mut job) in jobs {
            let (info, made) = (job.info(), tokens(&mut job));
            assert_eq!(made, alone[i]);
            (accepted, drafted) = (accepted + info.accepted, drafted + info.drafted);
        }
    }
    assert!(accepted > 200 && drafted > accepted, "{accepted} of {drafted}");
}

#[test]
fn cancels_lose_nothing_of_a_draft() {
    let model = models::load_threads(&story(), 2);
    let wanted = run(story_job(&model, STORY, JobParams { max_tokens: 60, ..Default::default() }), &mut || None);
    let cancel = Arc::new(Cancel::default());
    let mut rng = Rng(4);
    let mut stopped = 0;
    for round in 0..40 {
        let draft = if round % 2 == 0 { by(&model, 6) } else { lookup() };
        let params = JobParams { max_tokens: 60, draft, cancel: Some(cancel.clone()), ..Default::default() };
        let mut job = story_job(&model, STORY, params);
        let mut seen = Vec::new();
        loop {
            cancel.set_deadline(Some(Duration::from_nanos(rng.next() % 300_000)));
            match step_jobs(&mut [&mut job], budget(&mut rng)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(Error::Deadline) => stopped += 1,
                Err(e) => panic!("{e}"),
            }
            cancel.reset();
            seen.extend(tokens(&mut job));
            if round % 8 >= 6 && seen.len() > 20 {
                break;
            }
        }
        cancel.reset();
        seen.extend(tokens(&mut job));
        assert!(if job.info().end.is_some() { seen == wanted.0 } else { wanted.0.starts_with(&seen) });
        let mut cache = job.into_session();
        assert!(wanted.2.starts_with(cache.tokens()));
        let (rest, mut fresh) = (&wanted.2[cache.len()..], session(&model, 400));
        cache.prefill(if rest.is_empty() { &[9] } else { rest }, None).unwrap();
        fresh.prefill(cache.tokens(), None).unwrap();
        assert!(cache.logits() == fresh.logits());
    }
    assert!(stopped > 10, "{stopped}");
}

#[test]
fn a_draft_model_follows_a_text_that_is_longer_than_its_cache() {
    let model = models::load_threads(&story(), 2);
    let ids = prompt(700, 0);
    let run = |draft| {
        let params = JobParams { max_tokens: 500, chooser: sampler(1), draft, ..Default::default() };
        run(job(session(&model, 1400), &ids, params), &mut || Some(Duration::from_millis(1)))
    };
    let (wanted, found) = (run(DraftParams::default()), run(by(&model, 3)));
    assert!(found.0 == wanted.0 && found.2 == wanted.2 && found.3 == wanted.3);
    assert!(found.1.accepted > 0 && found.1.drafted > found.1.accepted);
}

#[test]
fn drafts_follow_a_grammar_and_what_it_forces_is_drafted() {
    let model = models::load_threads(&story(), 1);
    let schema = r#"{"type": "object", "properties": {"the name of the little girl": {"type": "string", "maxLength": 30},
        "the things that she likes": {"type": "array", "items": {"enum": ["a red ball", "a big red ball", "the park"]},
        "minItems": 3, "maxItems": 6}}, "required": ["the name of the little girl", "the things that she likes"],
        "additionalProperties": false, "x-guidance": {"whitespace_flexible": false}}"#;
    let mut rng = Rng(5);
    for (kind, text) in [
        (GrammarKind::JsonSchema, schema),
        (GrammarKind::Regex, "(Once upon a time, (Lily|Tom|the dog) [a-z ]{5,30}\\. )+The end\\."),
        // Bytes that the vocabulary has no longer tokens of, but two of each for some.
        (GrammarKind::Regex, "(QZXKJ@Q%#QXJ~){5}"),
        (GrammarKind::Choices, r#"["there was a little girl", "there was a little boy", "there were two friends"]"#),
    ] {
        let grammar = model.grammar(&GrammarText::new(kind, text)).unwrap();
        for seed in 0..4 {
            let choice = || {
                let temperature = if seed == 0 { 0.0 } else { 1.0 };
                let mut sampler = Chooser::new(SamplerParams { seed, temperature, ..Default::default() }).unwrap();
                sampler.set_grammar(Some(grammar.matcher().unwrap()));
                sampler
            };
            let mut ids = Vec::new();
            model.tokenizer().unwrap().encode(STORY, true, false, &mut ids).unwrap();
            // Calls on a session draft nothing.
            let (wanted, ended) = super::jobs::expected(&mut session(&model, 400), &ids, Some(choice()), 120);
            let forced = DraftParams { always: true, ..Default::default() };
            for (i, draft) in [DraftParams::default(), forced, lookup(), by(&model, 7)].into_iter().enumerate() {
                let params = JobParams { max_tokens: 120, chooser: Some(choice()), draft, ..Default::default() };
                let mut job = job(session(&model, 400), &ids, params);
                while !step_jobs(&mut [&mut job], budget(&mut rng)).unwrap() {}
                assert_eq!(tokens(&mut job), wanted, "{kind:?}, seed {seed}, source {i}");
                let info = job.info();
                assert_eq!(info.end, Some(if ended { End::Grammar } else { End::Length }));
                assert!(info.accepted <= info.drafted);
                if i == 1 && text.contains("QZX") {
                    assert!(2 * info.accepted > info.drafted && info.accepted > 40, "{info:?}");
                }
            }
        }
    }
}

#[test]
fn a_draft_model_needs_the_same_vocabulary() {
    let model = models::load_threads(&story(), 1);
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let params = JobParams { draft: by(&models::load_threads(path, 1), 2), ..Default::default() };
        match Request::new(&session(&model, 20), &[1], params).err() {
            Some(Error::Mismatch(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    let path = dir.path().join("tiny.gguf");
    fs::write(&path, Tiny::new("llama", quant::Q4_0).build().0).unwrap();
    let what = refused(&path);
    assert!(what.contains("vocabulary of 300 tokens") && what.contains("512"), "{what}");
    let mut bytes = fs::read(story()).unwrap();
    let lily = b"\x07\0\0\0\0\0\0\0\xe2\x96\x81Lily";
    let at = bytes.windows(lily.len()).position(|window| window == lily).expect("the token of a name");
    bytes[at + lily.len() - 1] = b'a';
    fs::write(&path, bytes).unwrap();
    let what = refused(&path);
    assert!(what.contains("\" Lila\"") && what.contains("\" Lily\""), "{what}");
    // Its text alone is no model that drafts.
    let params = realizar::engine::LoadOptions { text_only: true, ..Default::default() };
    let text = Model::load(&story(), params).unwrap();
    let params = JobParams { draft: by(&text, 2), ..Default::default() };
    assert!(matches!(Request::new(&session(&model, 20), &[1], params).err(), Some(Error::InvalidArgument(_))));
}
