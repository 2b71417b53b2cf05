//! Encoder-decoder networks: jobs, stores and scores compared with sessions that compute all at once, and rejected
//! calls. `architectures` and `published_folders` test their logits.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use realizar::engine::{
    Adapter, CacheParams, Cancel, DraftParams, DraftSource, EmbedParams, Job, JobParams, Media, MediaKind, Model,
    Pooling, Prompt, PromptPart, Request, Session, Store, StoreParams, media_from_rows, media_from_tokens, step_jobs,
};
use realizar::error::{Error, Result};
use realizar::quant;
use serde_json::Value;

use crate::support::models;
use crate::support::published::file_of;
use crate::support::tiny::Tiny;
use crate::vision;

/// The network of `data/architectures/t5.json`, of 96 tokens, whose decoder starts from token 2.
fn t5(folder: &Path) -> Arc<Model> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures/t5.json");
    let data: Value = serde_json::from_slice(&fs::read(data).unwrap()).unwrap();
    let path = folder.join("t5.gguf");
    fs::write(&path, file_of(&data).build().0).unwrap();
    models::load(&path)
}

fn params(capacity: u32) -> CacheParams {
    CacheParams { capacity, k_type: quant::F16, v_type: quant::F16 }
}

fn source(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 29 + n) % 96).collect()
}

fn media(model: &Model, n: u32) -> Arc<Media> {
    media_from_tokens(model, &source(n), None).unwrap()
}

fn prompt_of(model: &Arc<Model>, media: &Arc<Media>, behind: &[u32]) -> Prompt {
    Prompt::new(model, &[PromptPart::Media(media), PromptPart::Tokens(behind)], false).unwrap()
}

/// Returns the most likely tokens after a source, one by one.
fn greedy(model: &Arc<Model>, n_source: u32, n: usize) -> Vec<u32> {
    let mut session = Session::new(model, &params(600)).unwrap();
    session.prefill_prompt(&prompt_of(model, &media(model, n_source), &[]), 0, None).unwrap();
    let mut tokens = vec![session.sample(None).unwrap()];
    while tokens.len() < n {
        tokens.push(session.decode(*tokens.last().unwrap(), None).unwrap());
    }
    tokens
}

#[test]
fn jobs_beside_one_another_make_the_tokens_of_single_calls() {
    let folder = tempfile::tempdir().unwrap();
    let model = t5(folder.path());
    for budget in [None, Some(Duration::ZERO), Some(Duration::from_micros(200))] {
        let sizes = [300, 1, 70, 257];
        let mut jobs: Vec<Job> = sizes
            .iter()
            .enumerate()
            .map(|(i, n)| {
                let session = Session::new(&model, &params(600)).unwrap();
                let prompt = prompt_of(&model, &media(&model, *n), &[]);
                let lookup = DraftParams { source: Some(DraftSource::Lookup), ..Default::default() };
                let draft = if i % 2 == 0 { DraftParams::default() } else { lookup };
                let params = JobParams { max_tokens: 20, draft, ..Default::default() };
                let request = Request::of_prompt(&session, &prompt, 0, params).unwrap();
                Job::new(session, request)
            })
            .collect();
        while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), budget).unwrap() {}
        for (job, n) in jobs.iter_mut().zip(sizes) {
            let tokens = job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap();
            assert_eq!(tokens, greedy(&model, n, 20), "a source of {n}, {budget:?}");
        }
    }
}

#[test]
fn stores_and_rewinds_and_saved_media_go_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let model = t5(folder.path());
    let (first, other) = (media(&model, 80), media(&model, 81));
    let whole = |media: &Arc<Media>, behind: &[u32]| {
        let mut session = Session::new(&model, &params(200)).unwrap();
        session.prefill_prompt(&prompt_of(&model, media, behind), 0, None).unwrap();
        session
    };
    let behind = source(30);
    let expected = whole(&first, &behind).logits().unwrap().to_vec();

    let store = Store::new(
        &model,
        StoreParams { min_tokens: 1, memory_limit: 1 << 24, max_entries: 8, path: None, ..Default::default() },
    )
    .unwrap();
    store.put(&whole(&first, &behind[..20])).unwrap();
    let take = |media: &Arc<Media>, behind: &[u32]| {
        store.take_prompt(&prompt_of(&model, media, behind), 0, &params(200), &Default::default(), &[]).unwrap()
    };
    // The decoder's start token, and twenty tokens after it.
    let (mut taken, common) = take(&first, &behind).unwrap();
    assert_eq!(common, 80 + 21);
    taken.prefill_prompt(&prompt_of(&model, &first, &behind), common, None).unwrap();
    assert!(taken.logits().unwrap() == expected);
    assert!(take(&other, &behind).is_none(), "another source");

    // Back to the source alone, after which there are no logits.
    taken.truncate(80).unwrap();
    assert!(taken.logits().is_none() && taken.sample(None).is_err());
    taken.prefill_prompt(&prompt_of(&model, &first, &behind), 80, None).unwrap();
    assert!(taken.logits().unwrap() == expected);
    // Memory that was given back, and a token in the middle that is forgotten.
    taken.release().unwrap();
    taken.truncate(100).unwrap();
    taken.shift(90, 5).unwrap();
    taken.prefill(&[7], None).unwrap();
    let left = [&behind[..9], &behind[14..19], &[7]].concat();
    assert!(taken.logits().unwrap() == whole(&first, &left).logits().unwrap());

    let loaded = vision::saved_and_loaded(&model, &first);
    assert!(loaded.kind() == MediaKind::Text && loaded.hash() == first.hash());
    assert!(whole(&loaded, &behind).logits().unwrap() == expected);
}

#[test]
fn scores_are_those_of_the_logits() {
    let folder = tempfile::tempdir().unwrap();
    let model = t5(folder.path());
    let mut session = Session::new(&model, &params(200)).unwrap();
    session.prefill_prompt(&prompt_of(&model, &media(&model, 50), &[]), 0, None).unwrap();
    let mut step = session.fork().unwrap();
    let (tokens, mut scores) = (source(12), [0.0; 12]);
    session.score(&tokens, &mut scores, None).unwrap();
    for (token, score) in tokens.iter().zip(scores) {
        let logits: Vec<f64> = step.logits().unwrap().iter().map(|x| f64::from(*x)).collect();
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        assert!((logits[*token as usize] - sum.ln() - f64::from(score)).abs() < 1e-5);
        step.prefill(&[*token], None).unwrap();
    }
}

/// Expects an error of a kind whose text has some words.
fn refused<T>(result: Result<T>, kind: fn(&Error) -> bool, words: &str) {
    let error = result.err().expect(words);
    assert!(kind(&error) && error.to_string().contains(words), "{error:?}: {words}");
}

const INVALID: fn(&Error) -> bool = |e| matches!(e, Error::InvalidArgument(_));
const UNSUPPORTED: fn(&Error) -> bool = |e| matches!(e, Error::Unsupported(_));

#[test]
fn texts_without_one_whole_source_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = t5(folder.path());
    let (first, second) = (media(&model, 40), media(&model, 41));
    let new = || Session::new(&model, &params(100)).unwrap();
    let append = |session: &mut Session, prompt: &Prompt, from: usize| session.prefill_prompt(prompt, from, None);

    refused(new().prefill(&[2], None), INVALID, "needs a source text first");
    refused(new().score(&[2], &mut [0.0], None), INVALID, "needs a source text first");
    refused(Request::new(&new(), &[2], JobParams::default()), INVALID, "needs a source text first");
    let part = |name: &char| match name {
        'a' => PromptPart::Media(&first),
        'b' => PromptPart::Media(&second),
        _ => PromptPart::Tokens(&[5, 6]),
    };
    let of =
        |parts: &[char], bare: bool| Prompt::new(&model, &parts.iter().map(part).collect::<Vec<_>>(), bare).unwrap();
    refused(append(&mut new(), &of(&['t', 'a'], false), 0), INVALID, "needs a source text first");
    refused(append(&mut new(), &of(&['a', 'b'], false), 0), INVALID, "one source");
    refused(append(&mut new(), &of(&['a'], true), 0), INVALID, "no token that the decoder starts from");
    refused(append(&mut new(), &of(&['a', 't'], false), 10), INVALID, "within a source");
    refused(append(&mut new(), &of(&['a', 't'], false), 40), INVALID, "needs a source text first");
    let full = |e: &Error| matches!(e, Error::ContextFull { .. });
    let mut small = Session::new(&model, &params(40)).unwrap();
    refused(append(&mut small, &of(&['a'], false), 0), full, "must be at most 40");

    let draft = DraftParams { source: Some(DraftSource::Model(model.clone())), ..Default::default() };
    let drafted = Request::of_prompt(&new(), &of(&['a'], false), 0, JobParams { draft, ..Default::default() });
    refused(drafted, INVALID, "needs a source text first");

    let mut session = new();
    append(&mut session, &of(&['a', 't'], true), 0).unwrap();
    refused(append(&mut session, &of(&['b'], false), 0), INVALID, "one source");
    refused(session.truncate(10), INVALID, "within a source");
    refused(session.shift(0, 40), INVALID, "the source goes with the text");
    refused(session.shift(10, 31), INVALID, "the source goes with the text");
    session.truncate(0).unwrap();
    append(&mut session, &of(&['b', 't'], false), 0).unwrap();
    assert_eq!(session.len(), 41 + 1 + 2);
}

#[test]
fn sources_that_cannot_be_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = t5(folder.path());
    refused(media_from_tokens(&model, &[], None), INVALID, "no tokens");
    refused(media_from_tokens(&model, &source(513), None), INVALID, "context has 512");
    refused(media_from_tokens(&model, &[5, 96], None), INVALID, "token 96 at index 1");
    let cancel = Cancel::default();
    cancel.fire();
    refused(media_from_tokens(&model, &[5], Some(&cancel)), |e| matches!(e, Error::Cancelled), "");
    refused(media_from_rows(&model, MediaKind::Image, &[0.5; 48], 48, [0; 2]), UNSUPPORTED, "reads a source");

    let llama = folder.path().join("llama.gguf");
    fs::write(&llama, Tiny::new("llama", quant::F32).build().0).unwrap();
    let llama = models::load(&llama);
    assert!(model.info().reads_source && !llama.info().reads_source);
    refused(media_from_tokens(&llama, &[5], None), UNSUPPORTED, "\"llama\"");
    let foreign = media(&model, 4);
    let mismatch = |e: &Error| matches!(e, Error::Mismatch(_));
    refused(Prompt::new(&llama, &[PromptPart::Media(&foreign)], false), mismatch, "another model");
    refused(Adapter::load(&model, &folder.path().join("none.gguf"), None), UNSUPPORTED, "reads a source");
    // Its encoder gives embeddings like any other.
    let params = EmbedParams { pooling: Some(Pooling::None), raw: true };
    assert!(model.embed(&[&source(4)], params, None).unwrap() == foreign.rows());
}
