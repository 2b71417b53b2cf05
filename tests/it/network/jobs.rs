//! Jobs: for all budgets, other jobs and cancels at any time, the tokens equal those of one uninterrupted call, and a
//! cache that a job returns is unaffected.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::models;
use crate::support::tiny::{self, PROMPT, Rng, Tiny};
use realizar::engine::{
    CacheParams, Cancel, Chooser, End, Job, JobParams, LoadOptions, Model, Outcome, Request, SamplerParams, Session,
    TextStream, metrics::Phase, step_jobs,
};
use realizar::error::{Error, Result};
use realizar::quant;

pub fn story() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stories260K-f32.gguf")
}

pub fn session(model: &Arc<Model>, capacity: u32) -> Session {
    Session::new(model, &CacheParams { capacity, ..Default::default() }).unwrap()
}

pub fn prompt(n: usize, from: usize) -> Vec<u32> {
    PROMPT.iter().cycle().skip(from).take(n).copied().collect()
}

pub fn sampler(seed: u64) -> Option<Chooser> {
    let params = SamplerParams { temperature: 0.9, top_k: 50, repeat_penalty: 1.1, seed, ..Default::default() };
    (seed > 0).then(|| Chooser::new(params).unwrap())
}

/// The tokens that follow a prompt, by calls that are not interrupted, and whether the last ends the text.
pub fn expected(session: &mut Session, prompt: &[u32], mut sampler: Option<Chooser>, n: usize) -> (Vec<u32>, bool) {
    session.prefill(prompt, None).unwrap();
    let mut tokens = vec![0; n];
    tokens[0] = session.sample(sampler.as_mut()).unwrap();
    if session.model().tokenizer().is_ok_and(|t| t.is_end(tokens[0])) {
        return (tokens[..1].to_vec(), true);
    }
    let (mut made, first) = (0, tokens[0]);
    let outcome = session.generate(first, sampler.as_mut(), &mut tokens[1..], &mut made, None).unwrap();
    tokens.truncate(made + 1);
    (tokens, outcome == Outcome::Done)
}

pub fn job(session: Session, prompt: &[u32], params: JobParams) -> Job {
    let request = Request::new(&session, prompt, params).unwrap();
    Job::new(session, request)
}

pub fn tokens(job: &mut Job) -> Vec<u32> {
    job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap()
}

/// None, which is a token, nothing, and a millionth of a second to some of its thousandths.
pub fn budget(rng: &mut Rng) -> Option<Duration> {
    let us = [None, Some(0), Some(1), Some(20), Some(100), Some(300), Some(2000)][rng.next() as usize % 7];
    us.map(Duration::from_micros)
}

fn run(job: &mut Job, rng: &mut Rng) -> Vec<u32> {
    let mut all = Vec::new();
    while !step_jobs(&mut [&mut *job], budget(rng)).unwrap() {
        if rng.next().is_multiple_of(3) {
            all.extend(tokens(job));
        }
    }
    all.extend(tokens(job));
    all
}

#[test]
fn budgets_change_no_token_of_any_architecture() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng(1);
    for (i, (name, tiny)) in tiny::architectures(|name| Tiny::new(name, quant::Q4_0)).into_iter().enumerate() {
        let path = dir.path().join("tiny.gguf");
        fs::write(&path, tiny.build().0).unwrap();
        let model = models::load_threads(&path, 1 + i as u32 % 3);
        if model.embed_len(&[], Default::default()).is_ok() && Session::new(&model, &CacheParams::default()).is_err() {
            continue;
        }
        let n = if i % 4 == 0 { 300 } else { 40 };
        let prompt = prompt(n, i);
        let seed = i as u64 % 2;
        let (wanted, ended) = expected(&mut session(&model, 400), &prompt, sampler(seed), 12);
        // A cache that was rewound computes tokens again first.
        let mut rewound = session(&model, 400);
        rewound.prefill(&prompt, None).unwrap();
        rewound.truncate(n as u32 / 2).unwrap();
        for (session, done) in [(session(&model, 400), 0), (rewound, n / 2)] {
            let params = JobParams { max_tokens: 12, chooser: sampler(seed), ..Default::default() };
            let mut job = job(session, &prompt[done..], params);
            assert_eq!(run(&mut job, &mut rng), wanted, "{name}");
            let info = job.info();
            assert_eq!(info.end, Some(if ended { End::Token } else { End::Length }), "{name}");
            assert_eq!((info.prompt_done, info.tokens, info.cache_len), (n - done, wanted.len(), n + wanted.len() - 1));
        }
    }
}

#[test]
fn a_full_cache_ends_a_job() {
    let model = models::load_threads(&story(), 1);
    let (wanted, _) = expected(&mut session(&model, 400), &[1, 5], None, 9);
    let mut job = job(session(&model, 10), &[1, 5], JobParams::default());
    assert_eq!(run(&mut job, &mut Rng(2)), wanted);
    assert_eq!((job.info().end, job.info().cache_len), (Some(End::Context), 10));
    let session = job.into_session();
    assert!(matches!(Request::new(&session, &[1], JobParams::default()), Err(Error::ContextFull { .. })));
    assert!(matches!(Request::new(&session, &[], JobParams::default()), Err(Error::InvalidArgument(_))));
}

/// A conversation and the tokens that it shall have.
struct Guest {
    job: Job,
    prompt: Vec<u32>,
    seed: u64,
    n: usize,
    seen: Vec<u32>,
}

/// Jobs that come and go at random, stepped together, some of them alone, some in another order.
fn party(model: &Arc<Model>, guests: usize, longest: usize, rng: &mut Rng) {
    let mut wanted: HashMap<(Vec<u32>, u64), Vec<u32>> = HashMap::new();
    let mut want = |prompt: &[u32], seed: u64, n: usize| -> Vec<u32> {
        let all = wanted
            .entry((prompt.to_vec(), seed))
            .or_insert_with(|| expected(&mut session(model, 512), prompt, sampler(seed), 24).0);
        all[..n.min(all.len())].to_vec()
    };
    let (mut here, mut come, mut freed, mut finished) = (Vec::<Guest>::new(), 0, 0, 0);
    while come < guests || !here.is_empty() {
        while come < guests && here.len() < 12 && rng.next().is_multiple_of(2) {
            let prompt = prompt(1 + rng.next() as usize % longest, rng.next() as usize % 5);
            let (seed, n) = (rng.next() % 3, 1 + rng.next() as usize % 24);
            let priority = rng.next() as i32 % 3 - 1;
            let params = JobParams { max_tokens: n, chooser: sampler(seed), priority, ..Default::default() };
            let job = job(session(model, 512), &prompt, params);
            here.push(Guest { job, prompt, seed, n, seen: vec![] });
            come += 1;
        }
        if here.is_empty() {
            continue;
        }
        let alone = rng.next().is_multiple_of(8);
        let some = if alone { 1 } else { here.len() - rng.next() as usize % here.len().min(2) };
        let round = rng.next() as usize % here.len();
        here.rotate_left(round);
        let mut jobs: Vec<&mut Job> = here[..some].iter_mut().map(|guest| &mut guest.job).collect();
        step_jobs(&mut jobs, budget(rng)).unwrap();
        for guest in &mut here {
            guest.seen.extend(tokens(&mut guest.job));
        }
        let mut i = 0;
        while i < here.len() {
            let ended = here[i].job.info().end.is_some();
            // One leaves and the last ones stay to the end, however fast or slow the machine is.
            let stays = come == guests || (freed > 0 && !rng.next().is_multiple_of(40));
            if !ended && stays {
                i += 1;
                continue;
            }
            let Guest { job, prompt, seed, n, seen } = here.swap_remove(i);
            let all = want(&prompt, seed, n);
            assert!(if ended { seen == all } else { all.starts_with(&seen) }, "{seen:?} of {all:?}");
            (freed, finished) = (freed + usize::from(!ended), finished + usize::from(ended));
            // The cache has whole steps, and goes on where the job was left.
            let mut cache = job.into_session();
            let history: Vec<u32> = prompt.iter().chain(&seen).copied().collect();
            assert!(history.starts_with(cache.tokens()));
            assert!(seen.is_empty() || cache.len() == history.len() - 1);
            let mut fresh = session(model, 512);
            let rest = &history[cache.len()..];
            cache.prefill(rest, None).unwrap();
            fresh.prefill(&history, None).unwrap();
            assert!(cache.logits() == fresh.logits() && cache.logits().is_some());
        }
    }
    assert!(freed > 0 && finished > 0, "{freed} freed, {finished} finished");
}

#[test]
fn jobs_join_and_leave() {
    let mut rng = Rng(3);
    for threads in [1, 2] {
        party(&models::load_threads(&story(), threads), 60, 300, &mut rng);
    }
    let dir = tempfile::tempdir().unwrap();
    for wanted in ["gemma3", "qwen3next", "lfm2", "mamba2"] {
        let architectures = tiny::architectures(|name| Tiny::new(name, quant::Q4_0));
        let Some((_, tiny)) = architectures.into_iter().find(|(name, _)| *name == wanted) else { continue };
        let path = dir.path().join("tiny.gguf");
        fs::write(&path, tiny.build().0).unwrap();
        party(&models::load_threads(&path, 2), 25, 60, &mut rng);
    }
}

#[test]
fn other_calls_on_the_model_go_on_beside_a_paused_job() {
    let model = models::load_threads(&story(), 2);
    let (wanted, _) = expected(&mut session(&model, 512), &prompt(200, 0), None, 5);
    let mut jobs: Vec<Job> = (0..3)
        .map(|_| job(session(&model, 512), &prompt(200, 0), JobParams { max_tokens: 5, ..Default::default() }))
        .collect();
    for job in &mut jobs {
        assert!(!step_jobs(&mut [job], Some(Duration::ZERO)).unwrap());
    }
    assert_eq!(expected(&mut session(&model, 512), &prompt(200, 0), None, 5).0, wanted);
    for job in &mut jobs {
        assert_eq!(run(job, &mut Rng(4)), wanted);
    }
}

#[test]
fn jobs_of_different_models_are_refused() {
    let models = [models::load_threads(&story(), 1), models::load_threads(&story(), 1)];
    let [mut a, mut b] = models.map(|model| job(session(&model, 8), &[1], JobParams::default()));
    assert!(matches!(step_jobs(&mut [&mut a, &mut b], None), Err(Error::Mismatch(_))));
    assert_eq!(a.info().cache_len, 0);
}

/// Returns the text of tokens that follow other tokens.
fn text(model: &Model, before: &[u32], tokens: &[u32]) -> String {
    let (tokenizer, mut stream, mut text) = (model.tokenizer().unwrap(), TextStream::new(), String::new());
    stream.follow(tokenizer, before);
    tokens.iter().for_each(|token| stream.push(tokenizer, *token, &mut text).unwrap());
    stream.flush(&mut text);
    text
}

#[test]
fn stop_strings_are_cut_out_wherever_tokens_end() {
    let model = models::load_threads(&story(), 1);
    let mut once = Vec::new();
    model.tokenizer().unwrap().encode("Once upon a time", true, false, &mut once).unwrap();
    let (all, _) = expected(&mut session(&model, 512), &once, None, 60);
    let whole = text(&model, &once, &all);
    let mut rng = Rng(5);
    let mut found = 0;
    for round in 0..60 {
        let mut stops: Vec<String> = (0..1 + round % 3)
            .map(|_| {
                let from = rng.next() as usize % whole.len();
                let stop: String = whole.chars().skip(from).take(1 + rng.next() as usize % 12).collect();
                // Some that nearly occur, and one longer than the text.
                if rng.next().is_multiple_of(4) { stop + "\u{1}" } else { stop }
            })
            .filter(|stop| !stop.is_empty())
            .collect();
        stops.push(whole.clone() + "and more");
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let mut job =
            job(session(&model, 512), &once, JobParams { max_tokens: 60, stops: &stops, ..Default::default() });
        let mut seen = String::new();
        let mut read = |job: &mut Job| {
            job.read_text(|text| {
                seen.push_str(text);
                Ok(())
            })
            .unwrap();
            // Nothing is shown that a stop string takes back.
            assert!(whole.starts_with(&seen));
        };
        while !step_jobs(&mut [&mut job], budget(&mut rng)).unwrap() {
            read(&mut job);
        }
        read(&mut job);
        let cut = (0..=whole.len()).find_map(|end| {
            let ending = stops.iter().filter(|stop| whole.as_bytes()[..end].ends_with(stop.as_bytes()));
            ending.map(|stop| end - stop.len()).min()
        });
        assert_eq!(seen, whole[..cut.unwrap_or(whole.len())], "{stops:?}");
        assert_eq!(job.info().end, Some(if cut.is_some() { End::Stop } else { End::Length }));
        found += usize::from(cut.is_some());
    }
    assert!(found > 10, "{found}");
    let refused =
        |stops: &[&str]| Request::new(&session(&model, 8), &[1], JobParams { stops, ..Default::default() }).err();
    assert!(matches!(refused(&["a", ""]), Some(Error::InvalidArgument(what)) if what.contains("stop string 1")));
}

/// What a job writes goes on with the text of its cache and its prompt: the space at the start of a word stays, and a
/// stop string may begin with it.
#[test]
fn a_job_goes_on_with_the_text_before_it() {
    let model = models::load_threads(&story(), 1);
    let mut once = Vec::new();
    model.tokenizer().unwrap().encode("Once upon a", true, false, &mut once).unwrap();
    let run = |held: usize, prompt: &[u32], stops: &[&str]| {
        let mut session = session(&model, 64);
        if held > 0 {
            session.prefill(&once[..held], None).unwrap();
        }
        let mut job = job(session, prompt, JobParams { max_tokens: 6, stops, ..Default::default() });
        assert!(step_jobs(&mut [&mut job], Some(Duration::from_secs(60))).unwrap());
        (job.read_text(|text| Ok(text.to_owned())).unwrap(), job.info().end)
    };
    for held in [0, 1, once.len() - 1] {
        let (text, _) = run(held, &once[held..], &[]);
        assert!(text.starts_with(" time"), "{held}: {text:?}");
        assert_eq!(run(held, &once[held..], &[" time"]), (String::new(), Some(End::Stop)), "{held}");
    }
    // A text that begins with the reply has no space before its first word.
    assert!(run(0, &[1], &[]).0.starts_with("Once"));
}

#[test]
fn text_that_cannot_be_copied_stays() {
    let model = models::load_threads(&story(), 1);
    let mut job = job(session(&model, 64), &[1, 403], JobParams { max_tokens: 20, ..Default::default() });
    assert!(step_jobs(&mut [&mut job], Some(Duration::from_secs(60))).unwrap());
    let full = |_: &str| -> Result<()> { Err(Error::BufferTooSmall { needed: 1, capacity: 0 }) };
    assert!(job.read_text(full).is_err());
    let read = job.read_text(|text| Ok(text.to_owned())).unwrap();
    assert_eq!(read, text(&model, &[1, 403], &tokens(&mut job)));
    assert_eq!(job.read_text(|text| Ok(text.len())).unwrap(), 0);
}

/// A job that ends while it computes again what its session has forgotten leaves all tokens there, and logits that were
/// read before; the next call computes the rest.
#[test]
fn a_job_that_is_freed_early_leaves_its_session_as_it_was() {
    let model = models::load_threads(&story(), 1);
    let prompt = prompt(400, 0);
    let mut whole = session(&model, 512);
    whole.prefill(&prompt, None).unwrap();
    let wanted = whole.logits().unwrap().to_vec();
    let next = whole.decode(7, None).unwrap();
    for is_begun in [false, true] {
        let mut session = session(&model, 512);
        session.prefill(&prompt, None).unwrap();
        session.release().unwrap();
        let mut job = job(session, &[7], JobParams { max_tokens: 6, ..Default::default() });
        while is_begun && job.info().cache_len == 0 {
            assert!(!step_jobs(&mut [&mut job], Some(Duration::ZERO)).unwrap());
        }
        let held = job.info().cache_len;
        assert!(if is_begun { (1..400).contains(&held) } else { held == 0 }, "{held}");
        assert_eq!((job.info().prompt_done, job.info().prompt_total), (0, 1));
        let mut session = job.into_session();
        assert_eq!((session.tokens(), session.logits()), (&prompt[..], Some(&wanted[..])));
        assert_eq!(session.decode(7, None).unwrap(), next);
    }
}

#[test]
fn cancels_and_deadlines_at_random_moments_lose_nothing() {
    let model = models::load_threads(&story(), 2);
    let prompt = prompt(120, 0);
    let (wanted, _) = expected(&mut session(&model, 512), &prompt, None, 40);
    let cancel = Arc::new(Cancel::default());
    let stopped = AtomicBool::new(false);
    let mut rng = Rng(6);
    let (mut fired, mut late) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng(7);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(rng.next() % 300));
                cancel.fire();
            }
        });
        for round in 0..60 {
            let params = JobParams { max_tokens: 40, cancel: Some(cancel.clone()), ..Default::default() };
            let mut job = job(session(&model, 512), &prompt, params);
            loop {
                if rng.next().is_multiple_of(2) {
                    cancel.set_deadline(Some(Duration::from_nanos(rng.next() % 200_000)));
                }
                match step_jobs(&mut [&mut job], budget(&mut rng)) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(Error::Cancelled) => fired += 1,
                    Err(Error::Deadline) => late += 1,
                    Err(e) => panic!("{e}"),
                }
                // What others computed stays, so that the job comes to an end however often it is stopped.
                cancel.reset();
                if round % 10 == 9 && rng.next().is_multiple_of(50) {
                    break;
                }
            }
            let seen = tokens(&mut job);
            assert!(if job.info().end.is_some() { seen == wanted } else { wanted.starts_with(&seen) });
            let mut cache = job.into_session();
            cancel.reset();
            let (len, mut fresh) = (cache.len(), session(&model, 512));
            let history: Vec<u32> = prompt.iter().chain(&wanted).copied().collect();
            cache.prefill(&history[len..], None).unwrap();
            fresh.prefill(&history, None).unwrap();
            assert!(cache.logits() == fresh.logits());
        }
        stopped.store(true, Ordering::Relaxed);
    });
    assert!(fired > 10 && late > 10, "{fired} cancels, {late} deadlines");
}

#[test]
fn a_job_that_fails_leaves_the_others_with_their_tokens() {
    let model = models::load_threads(&story(), 2);
    let never =
        SamplerParams { logit_biases: (0..512).map(|id| (id, f32::NEG_INFINITY)).collect(), ..Default::default() };
    let (wanted, _) = expected(&mut session(&model, 64), &prompt(5, 1), None, 3);
    for failing in 0..3 {
        let mut jobs = [0, 1, 2].map(|i| {
            let sampler = (i == failing).then(|| Chooser::new(never.clone()).unwrap());
            job(session(&model, 64), &prompt(5, 1), JobParams { max_tokens: 3, chooser: sampler, ..Default::default() })
        });
        assert!(!step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), None).unwrap());
        assert!(matches!(jobs[failing].failure(), Some(Error::InvalidArgument(_))));
        assert_eq!(jobs[failing].info().end, Some(End::Failed));
        for (i, job) in jobs.iter_mut().enumerate() {
            let made = if i == failing { &[][..] } else { &wanted[..1] };
            assert_eq!((tokens(job), job.info().prompt_done), (made.to_vec(), 5), "{i}");
        }
        for (_, job) in jobs.iter_mut().enumerate().filter(|(i, _)| *i != failing) {
            while !step_jobs(&mut [job], None).unwrap() {}
            assert_eq!(tokens(job), wanted[1..]);
        }
    }
}

/// Passes that a job waits for at most, but for one more for each other job that waits as long.
const MOST_WAITED: usize = 16;

/// Jobs that are stepped together, and the passes in which each had a part.
struct Together {
    jobs: Vec<Job>,
    passes: usize,
    /// Tokens of the prompt and others, and the last pass with one more.
    done: Vec<(usize, usize)>,
}

impl Together {
    fn new(jobs: Vec<Job>) -> Together {
        Together { done: vec![(0, 0); jobs.len()], jobs, passes: 0 }
    }

    fn add(&mut self, job: Job) {
        self.jobs.push(job);
        self.done.push((0, self.passes));
    }

    /// A pass, or those up to the first token; the numbers of the jobs that had a part in it. None waits for longer
    /// than the header says.
    fn pass(&mut self) -> Vec<usize> {
        let most = MOST_WAITED + self.jobs.len();
        step_jobs(&mut self.jobs.iter_mut().collect::<Vec<_>>(), None).unwrap();
        self.passes += 1;
        let mut parts = Vec::new();
        for (i, (job, (done, at))) in self.jobs.iter().zip(&mut self.done).enumerate() {
            let info = job.info();
            let now = info.prompt_done + info.tokens;
            if now > *done {
                parts.push(i);
            }
            if now > *done || info.end.is_some() {
                (*done, *at) = (now, self.passes);
            }
            assert!(self.passes - *at <= most, "job {i} has waited for {} passes", self.passes - *at);
        }
        parts
    }

    fn tokens(&self, i: usize) -> usize {
        self.jobs[i].info().tokens
    }

    /// The numbers of jobs in the order of their first tokens.
    fn order(&mut self) -> Vec<usize> {
        let mut order = Vec::new();
        while order.len() < self.jobs.len() {
            self.pass();
            let new: Vec<usize> = (0..self.jobs.len()).filter(|i| self.tokens(*i) > 0 && !order.contains(i)).collect();
            order.extend(new);
        }
        order
    }
}

#[test]
fn the_higher_priority_and_the_shorter_prompt_go_first() {
    let model = models::load_threads(&story(), 2);
    let new = |n: usize, priority: i32| {
        let params = JobParams { max_tokens: 4, priority, ..Default::default() };
        job(session(&model, 512), &prompt(n, n), params)
    };
    for (jobs, wanted) in [
        (vec![(300, 0), (300, 7), (300, -7), (300, 0)], vec![1, 0, 3, 2]),
        (vec![(400, 0), (150, 0), (300, 0), (400, 1)], vec![3, 1, 2, 0]),
    ] {
        let mut together = Together::new(jobs.iter().map(|(n, priority)| new(*n, *priority)).collect());
        assert_eq!(together.order(), wanted);
        while together.jobs.iter().any(|job| job.info().end.is_none()) {
            together.pass();
        }
        for ((n, _), job) in jobs.iter().zip(&mut together.jobs) {
            assert_eq!(tokens(job), expected(&mut session(&model, 512), &prompt(*n, *n), None, 4).0);
        }
    }
}

#[test]
fn places_go_to_the_higher_priority_and_nobody_starves() {
    let model = models::load_threads(&story(), 2);
    let new = |priority: i32, n: usize| {
        let params = JobParams { max_tokens: 200, priority, ..Default::default() };
        job(session(&model, 256), &prompt(n, n), params)
    };
    let mut together = Together::new((0..70).map(|i| new(i32::from(i >= 20), 1 + i as usize % 7)).collect());
    together.order();
    let before: Vec<usize> = (0..70).map(|i| together.tokens(i)).collect();
    let mut full = 0;
    for _ in 0..60 {
        let parts = together.pass();
        assert_eq!(parts.len(), 64);
        full += usize::from((20..70).all(|i| parts.contains(&i)));
    }
    let made: Vec<usize> = (0..70).map(|i| together.tokens(i) - before[i]).collect();
    let (low, high) = made.split_at(20);
    // 14 places for 20 jobs, each of which has about as many as any other.
    assert!(full == 60 && high.iter().all(|n| *n == 60) && low.iter().all(|n| (38..=46).contains(n)), "{made:?}");
    // A new job of the lowest priority with a long prompt, while short jobs keep arriving.
    together.add(new(i32::MIN, 200));
    for _ in 0..80 {
        together.add(new(i32::MAX, 70));
        together.pass();
    }
    assert!((1..200).contains(&together.jobs[70].info().prompt_done));
}

#[test]
fn prompts_beside_tokens_have_the_room_that_they_are_given() {
    for (given, wanted) in [(0, 64), (10, 10), (100, 100), (u32::MAX, 300)] {
        let params = LoadOptions { device: 1, mixed_prefill_tokens: given, ..Default::default() };
        let model = Model::load(&story(), params).unwrap();
        let new = |n| job(session(&model, 512), &prompt(n, 0), JobParams { max_tokens: 60, ..Default::default() });
        let mut together = Together::new(vec![new(3)]);
        together.order();
        together.add(new(300));
        assert_eq!((together.pass(), together.jobs[1].info().prompt_done), (vec![0, 1], wanted), "{given}");
        while together.jobs[1].info().end.is_none() {
            together.pass();
        }
        let wanted = expected(&mut session(&model, 512), &prompt(300, 0), None, 60).0;
        assert_eq!(tokens(&mut together.jobs[1]), wanted, "{given}");
    }
}

#[test]
fn tokens_chosen_on_many_threads_are_those_chosen_on_one() {
    let never =
        SamplerParams { logit_biases: (0..512).map(|id| (id, f32::NEG_INFINITY)).collect(), ..Default::default() };
    for threads in [1, 2, 5] {
        let model = models::load_threads(&story(), threads);
        let mut jobs: Vec<Job> = (0..20)
            .map(|i| {
                let chooser = if i % 9 == 4 { Chooser::new(never.clone()).ok() } else { sampler(i as u64) };
                let logprobs = (i % 2 == 0).then_some(3);
                let params = JobParams { max_tokens: 12, chooser, logprobs, ..Default::default() };
                job(session(&model, 64), &prompt(4 + i, i), params)
            })
            .collect();
        while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), None).unwrap() {}
        for (i, job) in jobs.iter_mut().enumerate() {
            if i % 9 == 4 {
                assert!(matches!(job.failure(), Some(Error::InvalidArgument(_))));
                assert_eq!((tokens(job), job.info().end), (vec![], Some(End::Failed)));
                continue;
            }
            let (wanted, _) = expected(&mut session(&model, 64), &prompt(4 + i, i), sampler(i as u64), 12);
            assert_eq!(tokens(job), wanted, "job {i} on {threads} threads");
            if i % 2 == 0 {
                let mut fresh = session(&model, 64);
                fresh.prefill(&prompt(4 + i, i), None).unwrap();
                let first = job.read_logprobs(|ids, values| Ok((ids[1..4].to_vec(), values[1..4].to_vec()))).unwrap();
                assert_eq!(first, fresh.logprobs(3).unwrap());
            }
        }
    }
}

/// A choice that takes long is a share of work: a step without time leaves it to the next one after a pass.
#[test]
fn a_long_choice_is_a_share_of_work() {
    let model = models::load_threads(&story(), 1);
    for seed in [0, 7] {
        let params = JobParams { max_tokens: 6, chooser: sampler(seed), ..Default::default() };
        let mut job = job(session(&model, 64), &prompt(4, 0), params);
        let passes = || model.metrics().snapshot().phase(Phase::Decode).count;
        let (before, mut left) = (passes(), 0);
        while !step_jobs(&mut [&mut job], Some(Duration::ZERO)).unwrap() {
            // A pass after the first token has run, whose token is not chosen yet.
            let made = job.info().tokens as u64;
            left += u64::from(made > 0 && passes() - before == made);
        }
        let choices = passes() - before;
        assert_eq!((job.info().tokens as u64, left), (choices + 1, if seed > 0 { choices } else { 0 }), "seed {seed}");
        assert_eq!(tokens(&mut job), expected(&mut session(&model, 64), &prompt(4, 0), sampler(seed), 6).0);
    }
}
