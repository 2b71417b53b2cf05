//! Media in prompts of networks with recurrent layers: another question about the same image or audio continues from a
//! checkpoint after it. The oracle is a session that computed the whole prompt.

use std::sync::Arc;

use realizar::engine::{
    Adapters, CacheParams, Job, JobParams, Media, MediaKind, Model, Prompt, PromptPart, Request, Session, Store,
    StoreParams, media_from_rows, step_jobs,
};
use realizar::quant;

use crate::support::models;
use crate::support::save::save;
use crate::support::tiny::{self, Tiny};

/// Tokens before the picture, its lines and columns, tokens between it and the sound, and rows of the sound.
const BEGIN: usize = 12;
const SIZE: [usize; 2] = [10, 7];
const BETWEEN: usize = 5;
const SOUND: usize = 6;
/// The places after the picture and after the sound.
const SEEN: usize = BEGIN + SIZE[0] * SIZE[1];
const HEARD: usize = SEEN + BETWEEN + SOUND;

const CACHE: CacheParams = CacheParams { capacity: 512, k_type: quant::F16, v_type: quant::F16 };

fn medium(model: &Arc<Model>, kind: MediaKind, n: usize, grid: [usize; 2], seed: usize) -> Arc<Media> {
    let width = model.info().hidden_dim as usize;
    let rows: Vec<f32> = (0..n * width).map(|i| ((i * 31 + seed * 17) % 101) as f32 / 101.0 - 0.5).collect();
    media_from_rows(model, kind, &rows, width, grid).unwrap()
}

fn ids(first: u32, n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (first + i * 37) % 300).collect()
}

/// A question about a picture and a sound, which are numbers.
fn question(model: &Arc<Model>, picture: usize, sound: usize, first: u32) -> Prompt {
    let picture = medium(model, MediaKind::Image, SIZE[0] * SIZE[1], SIZE, picture);
    let sound = medium(model, MediaKind::Audio, SOUND, [0, 0], sound);
    let (begin, between, asked) = (ids(1, BEGIN), ids(2, BETWEEN), ids(first, 9));
    let parts = [
        PromptPart::Tokens(&begin),
        PromptPart::Media(&picture),
        PromptPart::Tokens(&between),
        PromptPart::Media(&sound),
        PromptPart::Tokens(&asked),
    ];
    Prompt::new(model, &parts, true).unwrap()
}

/// The job of a reply to a prompt, of which a session holds some tokens, and its tokens.
fn reply(session: Session, prompt: &Prompt, n: usize) -> (Job, Vec<u32>) {
    let held = session.len();
    let params = JobParams { max_tokens: n, ..Default::default() };
    let request = Request::of_prompt(&session, prompt, held, params).unwrap();
    let mut job = Job::new(session, request);
    while !step_jobs(&mut [&mut job], None).unwrap() {}
    let made = job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap();
    (job, made)
}

fn alone(model: &Arc<Model>, prompt: &Prompt, n: usize) -> Vec<u32> {
    reply(Session::new(model, &CACHE).unwrap(), prompt, n).1
}

#[test]
fn another_question_about_a_medium_is_computed_from_behind_it() {
    let hybrid = ["qwen35", "lfm2", "mamba2"];
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::Q8_0)) {
        if !hybrid.contains(&name) {
            continue;
        }
        let (dir, path, _) = save(&tiny);
        let model = models::load(&path);
        let params = StoreParams { path: Some(dir.path().join("prefixes")), ..Default::default() };
        let store = Store::new(&model, params.clone()).unwrap();
        let (first, other) = (question(&model, 1, 1, 5), question(&model, 1, 1, 90));
        let (job, made) = reply(Session::new(&model, &CACHE).unwrap(), &first, 1);
        store.put(job.session()).unwrap();
        assert_eq!(made, alone(&model, &first, 1), "{name}");

        let check = |store: &Store, prompt: &Prompt, expected: usize| {
            let taken = store.take_prompt(prompt, 0, &CACHE, &Adapters::default(), &[]).unwrap();
            let (session, common) = taken.unwrap_or_else(|| panic!("{name}: nothing of {expected} tokens"));
            assert_eq!(common, expected, "{name}");
            assert_eq!(reply(session, prompt, 8).1, alone(&model, prompt, 8), "{name}");
        };
        check(&store, &other, HEARD);
        check(&store, &question(&model, 1, 2, 5), SEEN);
        let of_other = store.take_prompt(&question(&model, 2, 1, 5), 0, &CACHE, &Adapters::default(), &[]).unwrap();
        assert!(of_other.is_none(), "{name}: another picture");
        // As by another process.
        drop(store);
        check(&Store::new(&model, params).unwrap(), &other, HEARD);

        // The cache itself, after a long reply, rewound for another question, and filled by a call.
        let (job, _) = reply(Session::new(&model, &CACHE).unwrap(), &first, 300);
        let mut session = job.into_session();
        assert_eq!(session.matching_prompt(&other).unwrap(), HEARD, "{name}");
        session.truncate(HEARD as u32).unwrap();
        let (job, made) = reply(session, &other, 8);
        assert_eq!(made, alone(&model, &other, 8), "{name}");
        drop(job);
        let mut session = Session::new(&model, &CACHE).unwrap();
        session.prefill_prompt(&first, 0, None).unwrap();
        assert_eq!(session.matching_prompt(&other).unwrap(), HEARD, "{name}");
        assert_eq!(session.matching_prompt(&question(&model, 1, 2, 5)).unwrap(), SEEN, "{name}");
    }
}
