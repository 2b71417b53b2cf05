//! Jobs, deadlines and threads of the host through the C interface.

use super::host::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::score::*;
use realizar::ffi::status::*;

const PROMPT: [u32; 3] = [BOS, 403, 407];

fn params(tokens: &[u32], max_tokens: u32) -> rz_job_params {
    let struct_size = size_of::<rz_job_params>() as u32;
    rz_job_params { struct_size, max_tokens, tokens: tokens.as_ptr(), n_tokens: tokens.len(), ..zeroed() }
}

fn new_job(cache: *mut rz_cache, params: &rz_job_params) -> *mut rz_job {
    let mut job = null_mut();
    expect(RZ_OK, |e| unsafe { rz_job_new(cache, params, &mut job, e) });
    job
}

fn info(job: *const rz_job) -> rz_job_info {
    let mut info = sized::<rz_job_info>();
    expect(RZ_OK, |e| unsafe { rz_job_info_get(job, &mut info, e) });
    info
}

fn tokens(job: *mut rz_job) -> Vec<u32> {
    let (mut tokens, mut n) = (vec![0; 64], 0);
    expect(RZ_OK, |e| unsafe { rz_job_tokens_into(job, tokens.as_mut_ptr(), tokens.len(), &mut n, e) });
    tokens.truncate(n);
    tokens
}

fn step(job: *mut rz_job, budget_us: u64) -> rz_status {
    let mut err = no_error();
    unsafe { rz_job_step(job, budget_us, &mut err) }
}

/// The tokens of calls that are not interrupted.
fn expected(host: &Host, n: usize) -> Vec<u32> {
    host.prefill(&PROMPT);
    let (mut all, mut made) = (vec![0; n], 0);
    unsafe {
        expect(RZ_OK, |e| rz_sample(host.cache, null_mut(), &mut all[0], e));
        let (first, rest) = (all[0], all[1..].as_mut_ptr());
        expect(RZ_OK, |e| rz_generate_into(host.cache, first, null_mut(), rest, n - 1, &mut made, null(), e));
    }
    assert_eq!(made, n - 1);
    all
}

#[test]
fn a_job_owns_its_cache_until_it_is_freed() {
    let wanted = expected(&Host::new(64), 12);
    let host = Host::new(64);
    let job = new_job(host.cache, &params(&PROMPT, 12));
    assert_eq!((info(job).state, info(job).prompt_total, info(job).end_reason), (RZ_STATE_PROMPT, 3, 0));
    unsafe {
        let (mut fork, mut n) = (null_mut(), 0);
        expect(RZ_ERR_BUSY, |e| rz_prefill(host.cache, PROMPT.as_ptr(), 3, null(), e));
        expect(RZ_ERR_BUSY, |e| rz_cache_truncate(host.cache, 0, e));
        expect(RZ_ERR_BUSY, |e| rz_cache_fork(host.cache, &mut fork, e));
        expect(RZ_ERR_BUSY, |e| rz_logits_into(host.cache, null_mut(), 0, &mut n, e));
        expect(RZ_ERR_BUSY, |e| rz_cache_cancel_set(host.cache, null(), e));
        let (mut next, mut other) = (0, null_mut());
        expect(RZ_ERR_BUSY, |e| rz_decode_batch(&host.cache, &BOS, 1, null(), &mut next, e));
        expect(RZ_ERR_BUSY, |e| rz_job_new(host.cache, &params(&PROMPT, 1), &mut other, e));
    }
    assert_eq!(step(job, RZ_NO_LIMIT), RZ_AGAIN);
    assert_eq!(tokens(job), wanted[..1]);
    let mut all = wanted[..1].to_vec();
    while step(job, 0) == RZ_AGAIN {
        all.extend(tokens(job));
    }
    all.extend(tokens(job));
    assert_eq!((all, step(job, RZ_NO_LIMIT)), (wanted.clone(), RZ_DONE));
    let ended = info(job);
    assert_eq!((ended.state, ended.end_reason, ended.n_tokens), (RZ_STATE_ENDED, RZ_END_LENGTH, 12));
    assert!(ended.cache_len == 14 && ended.prompt_ns > 0 && ended.tokens_ns > 0 && ended.first_token_ns > 0);
    unsafe { rz_job_free(job) };
    assert_eq!(host.len(), 14);
    host.decode(wanted[11]);
}

#[test]
fn handles_are_freed_in_any_order() {
    for order in 0..3 {
        let model = load();
        let cache = new_cache(model, 32);
        let job = new_job(cache, &params(&PROMPT, 4));
        assert_eq!(step(job, 1), RZ_AGAIN);
        unsafe {
            if order == 0 {
                rz_job_free(job);
            }
            rz_cache_free(cache);
            if order == 1 {
                rz_job_free(job);
            }
            rz_model_free(model);
            if order == 2 {
                assert_eq!(step(job, RZ_NO_LIMIT), RZ_AGAIN);
                rz_job_free(job);
            }
            rz_job_free(null_mut());
        }
    }
}

#[test]
fn drafts_change_no_token() {
    let wanted = expected(&Host::new(64), 40);
    let (host, mut drafted) = (Host::new(64), 0);
    for (draft, draft_max) in [
        (RZ_DRAFT_NONE, 9),
        (RZ_DRAFT_LOOKUP, 0),
        (RZ_DRAFT_LOOKUP, u32::MAX),
        (RZ_DRAFT_MODEL, 0),
        (RZ_DRAFT_MODEL, 1),
        (RZ_DRAFT_MODEL, u32::MAX),
    ] {
        // The job keeps the model alive that drafts.
        let draft_model = load();
        let job = new_job(host.cache, &rz_job_params { draft, draft_max, draft_model, ..params(&PROMPT, 40) });
        unsafe { rz_model_free(draft_model) };
        while step(job, RZ_NO_LIMIT) == RZ_AGAIN {}
        assert_eq!(tokens(job), wanted);
        let ended = info(job);
        assert!(ended.accepted <= ended.drafted && (draft != RZ_DRAFT_NONE || ended.drafted == 0));
        drafted += ended.drafted;
        unsafe {
            rz_job_free(job);
            expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
        }
    }
    assert!(drafted > 0);
    unsafe {
        // A struct of before there were drafts.
        let size = std::mem::offset_of!(rz_job_params, draft) as u32;
        let job = new_job(host.cache, &rz_job_params { struct_size: size, draft: 77, ..params(&PROMPT, 40) });
        rz_job_free(job);
    }
}

#[test]
fn text_comes_without_its_stop_string() {
    let host = Host::new(64);
    let stops = [c"there was a little boy".as_ptr(), c"named".as_ptr()];
    let prompt = [BOS, 403, 407, 261, 378];
    let job = new_job(host.cache, &rz_job_params { stops: stops.as_ptr(), n_stops: 2, ..params(&prompt, 40) });
    while step(job, RZ_NO_LIMIT) == RZ_AGAIN {}
    assert_eq!(info(job).end_reason, RZ_END_STOP);
    let (mut text, mut len) = ([0 as c_char; 256], 7);
    unsafe {
        expect(RZ_OK, |e| rz_job_text_into(job, null_mut(), 0, &mut len, e));
        expect(RZ_OK, |e| rz_job_text_into(job, text.as_mut_ptr(), len, &mut len, e));
        let bytes: Vec<u8> = text[..len].iter().map(|&c| c as u8).collect();
        assert_eq!(String::from_utf8(bytes).expect("UTF-8"), ", there was a little girl ");
        expect(RZ_OK, |e| rz_job_text_into(job, null_mut(), 0, &mut len, e));
        assert_eq!(len, 0);
        rz_job_free(job);
    }
}

#[test]
fn wrong_calls_are_refused_and_change_nothing() {
    let host = Host::new(8);
    let good = params(&PROMPT, 2);
    let empty = [c"a".as_ptr(), c"".as_ptr()];
    let missing = [null::<c_char>()];
    let broken: &CStr = c"\xff";
    let broken = [broken.as_ptr()];
    let with = |stops: &[*const c_char]| rz_job_params { stops: stops.as_ptr(), n_stops: stops.len(), ..good };
    let bad = RZ_ERR_INVALID_ARGUMENT;
    let (mut job, text_only) = (null_mut(), load_text());
    for (status, params, what) in [
        (bad, params(&[], 2), "prompt"),
        (bad, params(&[BOS, 512], 2), "token 512 at index 1"),
        (bad, rz_job_params { tokens: null(), ..good }, "tokens is NULL"),
        (RZ_ERR_CONTEXT_FULL, params(&[BOS; 9], 2), "the prompt is 9 tokens; it must be at most 8"),
        (bad, rz_job_params { grammar: (&raw const host).cast(), ..good }, "grammar"),
        (RZ_ERR_VERSION, rz_job_params { flags: 1, ..good }, "flags"),
        (RZ_ERR_VERSION, rz_job_params { reserved: 1, ..good }, "reserved"),
        (bad, rz_job_params { struct_size: 0, ..good }, "struct_size"),
        (bad, with(&empty), "stop string 1"),
        (bad, with(&missing), "entry 0"),
        (bad, with(&broken), "UTF-8"),
        (bad, rz_job_params { sampler: (&raw const good).cast(), ..good }, "sampler"),
        (bad, rz_job_params { draft: 4, ..good }, "draft is 4"),
        (bad, rz_job_params { draft: u32::MAX, ..good }, "draft is 4294967295"),
        (bad, rz_job_params { draft: RZ_DRAFT_MODEL, ..good }, "draft_model is NULL"),
        (bad, rz_job_params { draft: RZ_DRAFT_MODEL, draft_model: host.cache.cast(), ..good }, "model"),
        (bad, rz_job_params { draft: RZ_DRAFT_MODEL, draft_model: text_only, ..good }, "without its weights"),
        (RZ_ERR_UNSUPPORTED, rz_job_params { draft: RZ_DRAFT_MTP, ..good }, "RZ_MODEL_MTP"),
    ] {
        let message = expect(status, |e| unsafe { rz_job_new(host.cache, &params, &mut job, e) });
        assert!(message.contains(what) && job.is_null(), "{message}");
    }
    unsafe {
        refused("params", |e| rz_job_new(host.cache, null(), &mut job, e));
        refused("cache", |e| rz_job_new(null_mut(), &good, &mut job, e));
        refused("out", |e| rz_job_new(host.cache, &good, null_mut(), e));
        refused("job", |e| rz_job_step(null_mut(), 0, e));
        refused("jobs", |e| rz_jobs_step(null(), 1, 0, e));
        expect(RZ_DONE, |e| rz_jobs_step(null(), 0, 0, e));
        expect(RZ_DONE, |e| rz_jobs_step(null(), 0, RZ_NO_LIMIT, e));
        refused("cancel", |e| rz_cancel_deadline(null_mut(), 1, e));
    }
    unsafe { rz_model_free(text_only) };
    assert_eq!(host.len(), 0);
    let job = new_job(host.cache, &good);
    let other = Host::new(8);
    let stranger = new_job(other.cache, &good);
    unsafe {
        let mut n = 0;
        refused("occurs twice", |e| rz_jobs_step([job, job].as_ptr(), 2, 0, e));
        refused("entry 1", |e| rz_jobs_step([job, null_mut()].as_ptr(), 2, 0, e));
        expect(RZ_ERR_MISMATCH, |e| rz_jobs_step([job, stranger].as_ptr(), 2, 0, e));
        refused("len", |e| rz_job_text_into(job, null_mut(), 0, null_mut(), e));
        refused("n is NULL", |e| rz_job_tokens_into(job, null_mut(), 0, null_mut(), e));
        refused("out", |e| rz_job_tokens_into(job, null_mut(), 1, &mut n, e));
        refused("rz_job_info", |e| rz_job_info_get(job, null_mut(), e));
        rz_job_free(job);
        rz_job_free(stranger);
    }
}

#[test]
fn jobs_are_stepped_together_and_a_cancel_tells_whose() {
    let wanted = expected(&Host::new(64), 10);
    let model = load();
    let caches: Vec<_> = (0..5).map(|_| new_cache(model, 64)).collect();
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    let jobs: Vec<_> = (0..5)
        .map(|i| {
            let cancel = if i == 3 { cancel.cast_const() } else { null() };
            new_job(caches[i], &rz_job_params { cancel, ..params(&PROMPT, 10) })
        })
        .collect();
    let step = |status, jobs: &[*mut rz_job], budget| {
        expect(status, |e| unsafe { rz_jobs_step(jobs.as_ptr(), jobs.len(), budget, e) });
    };
    step(RZ_AGAIN, &jobs[..2], RZ_NO_LIMIT);
    step(RZ_AGAIN, &jobs, 1);
    unsafe {
        rz_cancel_fire(cancel);
        // The job is left out alone.
        let before = info(jobs[3]);
        step(RZ_AGAIN, &jobs, 1);
        assert_eq!(info(jobs[3]).stopped, RZ_ERR_CANCELLED);
        assert_eq!(info(jobs[2]).stopped, RZ_OK);
        step(RZ_ERR_CANCELLED, &jobs[3..4], 1);
        rz_cancel_reset(cancel);
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, 0, e));
        let mut err = no_error();
        while rz_jobs_step(jobs.as_ptr(), jobs.len(), 50, &mut err) == RZ_AGAIN {}
        assert_eq!(err.code, RZ_ERR_DEADLINE, "the others have ended");
        assert_eq!(info(jobs[3]).stopped, RZ_ERR_DEADLINE);
        let after = info(jobs[3]);
        assert_eq!((after.prompt_done, after.n_tokens), (before.prompt_done, before.n_tokens));
        for i in [0, 1, 2, 4] {
            assert_eq!(info(jobs[i]).end_reason, RZ_END_LENGTH);
        }
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, RZ_NO_LIMIT, e));
        assert_eq!(info(jobs[3]).stopped, RZ_OK);
    }
    while unsafe { rz_jobs_step(jobs.as_ptr(), jobs.len(), 50, null_mut()) } == RZ_AGAIN {}
    for (&job, &cache) in jobs.iter().zip(&caches) {
        assert_eq!(tokens(job), wanted);
        unsafe {
            rz_job_free(job);
            rz_cache_free(cache);
        }
    }
    unsafe {
        rz_cancel_free(cancel);
        rz_model_free(model);
    }
}

/// A sampler that can choose no token.
#[test]
fn the_job_of_the_higher_priority_reads_its_prompt_first() {
    let model = load();
    let prompt = PROMPT.repeat(60);
    let caches = [-1, 0, i32::MAX].map(|priority| (priority, new_cache(model, 256)));
    let jobs = caches.map(|(priority, cache)| new_job(cache, &rz_job_params { priority, ..params(&prompt, 3) }));
    expect(RZ_AGAIN, |e| unsafe { rz_jobs_step(jobs.as_ptr(), 3, RZ_NO_LIMIT, e) });
    assert_eq!(jobs.map(|job| (info(job).prompt_done, info(job).n_tokens)), [(0, 0), (76, 0), (180, 1)]);
    while unsafe { rz_jobs_step(jobs.as_ptr(), 3, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    let made = jobs.map(tokens);
    assert!(made[0].len() == 3 && made.iter().all(|tokens| *tokens == made[0]));
    unsafe {
        jobs.into_iter().for_each(|job| rz_job_free(job));
        caches.into_iter().for_each(|(_, cache)| rz_cache_free(cache));
        rz_model_free(model);
    }
}

fn choosing_nothing() -> *mut rz_sampler {
    let biases: Vec<_> = (0..512).map(|token| rz_logit_bias { token, bias: f32::NEG_INFINITY }).collect();
    let params = rz_sampler_params { temperature: 1.0, biases: biases.as_ptr(), n_biases: biases.len(), ..sized() };
    let mut sampler = null_mut();
    expect(RZ_OK, |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    sampler
}

/// A grammar that is compiled within the bounds, and passes them in the middle of a text.
#[test]
fn a_job_whose_grammar_passes_its_bounds_fails_alone() {
    let text = format!("start: s\ns: \"a\" {} |\n", "s ".repeat(30));
    let model = load();
    let (mut grammar, mut sampler) = (null_mut(), null_mut());
    let letter = rz_logit_bias { token: 3 + u32::from(b'a'), bias: 1e4 };
    let struct_size = size_of::<rz_sampler_params>() as u32;
    let liking = rz_sampler_params { struct_size, biases: &letter, n_biases: 1, ..zeroed() };
    unsafe {
        expect(RZ_OK, |e| {
            rz_grammar_new(model, RZ_GRAMMAR_LARK, 0, text.as_ptr().cast(), text.len(), null(), &mut grammar, e)
        });
        expect(RZ_OK, |e| rz_sampler_new(&liking, &mut sampler, e));
    }
    let caches: Vec<_> = (0..3).map(|_| new_cache(model, 128)).collect();
    let plain = params(&PROMPT, 100);
    let jobs = [plain, rz_job_params { sampler, grammar, ..plain }, plain]
        .iter()
        .zip(&caches)
        .map(|(params, cache)| new_job(*cache, params))
        .collect::<Vec<_>>();
    let mut err = no_error();
    while unsafe { rz_jobs_step(jobs.as_ptr(), jobs.len(), 2000, &mut err) } == RZ_AGAIN {}
    assert_eq!(err.code, RZ_DONE);
    let failed = info(jobs[1]);
    assert!(failed.end_reason == RZ_END_FAILED && (20..100).contains(&failed.n_tokens), "{}", failed.n_tokens);
    let message = expect(RZ_ERR_LIMIT, |e| unsafe { rz_job_error(jobs[1], e) });
    assert!(message.contains("the grammar"), "{message}");
    for job in [jobs[0], jobs[2]] {
        assert_eq!((info(job).end_reason, info(job).n_tokens), (RZ_END_LENGTH, 100));
    }
    unsafe {
        jobs.iter().for_each(|job| rz_job_free(*job));
        // The text that was made stays in the cache.
        assert!(rz_cache_len(caches[1]) > 20);
        caches.iter().for_each(|cache| rz_cache_free(*cache));
        rz_grammar_free(grammar);
        rz_sampler_free(sampler);
        rz_model_free(model);
    }
}

#[test]
fn a_job_that_can_choose_no_token_fails_alone() {
    let wanted = expected(&Host::new(64), 10);
    let model = load();
    let sampler = choosing_nothing();
    for budget in [0, 50, 1_000_000, RZ_NO_LIMIT] {
        let caches: Vec<_> = (0..4).map(|_| new_cache(model, 64)).collect();
        let jobs: Vec<_> = (0..4)
            .map(|i| {
                let sampler = if i == 1 { sampler.cast_const() } else { null() };
                new_job(caches[i], &rz_job_params { sampler, ..params(&PROMPT, 10) })
            })
            .collect();
        let mut err = no_error();
        while unsafe { rz_jobs_step(jobs.as_ptr(), jobs.len(), budget, &mut err) } == RZ_AGAIN {}
        assert_eq!(err.code, RZ_DONE);
        for (i, &job) in jobs.iter().enumerate().filter(|(i, _)| *i != 1) {
            assert_eq!(tokens(job), wanted, "job {i}");
            expect(RZ_OK, |e| unsafe { rz_job_error(job, e) });
        }
        let failed = info(jobs[1]);
        assert_eq!((failed.state, failed.end_reason, failed.n_tokens), (RZ_STATE_ENDED, RZ_END_FAILED, 0));
        let message = expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_job_error(jobs[1], e) });
        assert!(message.contains("no token can be chosen"), "{message}");
        // A job that is stepped alone says so by itself, each time.
        expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_job_step(jobs[1], budget, e) });
        expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_job_step(jobs[1], budget, e) });
        unsafe {
            jobs.iter().for_each(|job| rz_job_free(*job));
            // The cache keeps the prompt and goes on.
            assert_eq!(rz_cache_len(caches[1]), 3);
            let mut first = 0;
            expect(RZ_OK, |e| rz_sample(caches[1], null_mut(), &mut first, e));
            assert_eq!(first, wanted[0]);
            caches.iter().for_each(|cache| rz_cache_free(*cache));
        }
    }
    // A batch says whose fault it is, and leaves all caches as they were.
    let caches = [new_cache(model, 64), new_cache(model, 64)];
    let mut next = [0; 2];
    let message = expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe {
        rz_decode_batch(caches.as_ptr(), [BOS, BOS].as_ptr(), 2, [null_mut(), sampler].as_ptr(), next.as_mut_ptr(), e)
    });
    assert!(message.starts_with("entry 1: no token can be chosen"), "{message}");
    unsafe {
        assert_eq!(caches.map(|cache| rz_cache_len(cache)), [0; 2]);
        caches.into_iter().for_each(|cache| rz_cache_free(cache));
        rz_sampler_free(sampler);
        rz_model_free(model);
    }
}

/// The log-probabilities that a job keeps, row by row: `k` likeliest tokens, the token itself before them.
fn logprobs(job: *mut rz_job, k: usize) -> Vec<(u32, f32, Vec<u32>, Vec<u32>)> {
    let (mut tokens, mut values, mut n) = (vec![0u32; 400], vec![0f32; 400], 0);
    let (to, values_to) = (tokens.as_mut_ptr(), values.as_mut_ptr());
    expect(RZ_OK, |e| unsafe { rz_job_logprobs_into(job, to, values_to, 400, &mut n, e) });
    let rows = tokens[..n].chunks(k + 1).zip(values[..n].chunks(k + 1));
    rows.map(|(t, v)| (t[0], v[0], t[1..].to_vec(), v[1..].iter().map(|x| x.to_bits()).collect())).collect()
}

/// The log-probabilities of a token equal rz_top_logprobs before it in an uninterrupted run, to the bit: alone, in a
/// batch, in slices, with drafts, and with a sampler.
#[test]
fn jobs_keep_the_logprobs_of_their_tokens() {
    const K: usize = 5;
    let host = Host::new(64);
    let made = expected(&host, 12);
    let mut wanted = vec![];
    unsafe {
        expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
        host.prefill(&PROMPT);
        for &token in &made {
            let (mut tokens, mut values, mut n) = ([0u32; 512], [0f32; 512], 0);
            let (to, values_to) = (tokens.as_mut_ptr(), values.as_mut_ptr());
            expect(RZ_OK, |e| rz_top_logprobs(host.cache, 512, to, values_to, &mut n, e));
            let own = values[tokens.iter().position(|t| *t == token).expect("a token")];
            wanted.push((
                token,
                own,
                tokens[..K].to_vec(),
                values[..K].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            ));
            host.prefill(&[token]);
        }
    }
    let model = load();
    for (budget, draft) in [(RZ_NO_LIMIT, RZ_DRAFT_NONE), (50, RZ_DRAFT_NONE), (10_000_000, RZ_DRAFT_LOOKUP)] {
        let caches: Vec<_> = (0..3).map(|_| new_cache(model, 64)).collect();
        let keep =
            |i: usize| rz_job_params { logprobs: if i == 1 { 0 } else { K as u32 }, draft, ..params(&PROMPT, 12) };
        let jobs: Vec<_> = (0..3).map(|i| new_job(caches[i], &keep(i))).collect();
        let mut got = vec![];
        while unsafe { rz_jobs_step(jobs.as_ptr(), 3, budget, null_mut()) } == RZ_AGAIN {
            got.extend(logprobs(jobs[0], K));
        }
        got.extend(logprobs(jobs[0], K));
        assert!(got == wanted && logprobs(jobs[2], K) == wanted, "{budget}, {draft}");
        // Nothing is lost where the buffer is too small, and nothing new is no error.
        let mut n = 1;
        expect(RZ_OK, |e| unsafe { rz_job_logprobs_into(jobs[0], null_mut(), null_mut(), 0, &mut n, e) });
        assert_eq!(n, 0);
        refused("keeps no log probabilities", |e| unsafe {
            rz_job_logprobs_into(jobs[1], null_mut(), null_mut(), 0, &mut n, e)
        });
        for (job, cache) in jobs.into_iter().zip(caches) {
            unsafe {
                rz_job_free(job);
                rz_cache_free(cache);
            }
        }
    }
    let cache = new_cache(model, 64);
    let job = new_job(cache, &rz_job_params { logprobs: 2, ..params(&PROMPT, 3) });
    assert_eq!(step(job, 1_000_000), RZ_DONE);
    let mut n = 0;
    expect(RZ_OK, |e| unsafe { rz_job_logprobs_into(job, null_mut(), null_mut(), 0, &mut n, e) });
    assert_eq!((n, logprobs(job, 2).len()), (9, 3));
    // A real 0: the log-probabilities of the tokens alone.
    let alone = new_cache(model, 64);
    let narrow = new_job(alone, &rz_job_params { logprobs: RZ_NONE, ..params(&PROMPT, 3) });
    assert_eq!(step(narrow, 1_000_000), RZ_DONE);
    let made: Vec<_> = logprobs(narrow, 0).into_iter().map(|(token, own, others, _)| (token, own, others)).collect();
    let own: Vec<_> = wanted[..3].iter().map(|(token, own, ..)| (*token, *own, vec![])).collect();
    assert_eq!(made, own);
    unsafe {
        rz_job_free(narrow);
        rz_cache_free(alone);
        rz_job_free(job);
        let mut job = null_mut();
        refused("at most 32", |e| {
            rz_job_new(cache, &rz_job_params { logprobs: 33, ..params(&PROMPT, 3) }, &mut job, e)
        });
        rz_cache_free(cache);
        rz_model_free(model);
    }
}

#[test]
fn a_deadline_ends_any_call() {
    let host = Host::new(64);
    let (mut cancel, mut next) = (null_mut(), 0);
    unsafe {
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, 0, e));
        expect(RZ_ERR_DEADLINE, |e| rz_prefill(host.cache, PROMPT.as_ptr(), 3, cancel, e));
        expect(RZ_OK, |e| rz_cache_cancel_set(host.cache, cancel, e));
        expect(RZ_ERR_DEADLINE, |e| rz_decode_token(host.cache, BOS, null_mut(), &mut next, e));
        assert_eq!(host.len(), 0);
        rz_cancel_reset(cancel);
        host.prefill(&PROMPT);
        rz_cancel_free(cancel);
    }
}

/// 0 is no time at all, and no number of microseconds is too large.
#[test]
fn times_mean_what_the_header_says() {
    let wanted = expected(&Host::new(64), 12);
    let host = Host::new(64);
    let job = new_job(host.cache, &params(&PROMPT, 12));
    // One share of work is not a token yet.
    assert_eq!((step(job, 0), info(job).n_tokens), (RZ_AGAIN, 0));
    assert_eq!((step(job, RZ_NO_LIMIT), info(job).n_tokens), (RZ_AGAIN, 1));
    assert_eq!((step(job, RZ_NO_LIMIT - 1), tokens(job)), (RZ_DONE, wanted));
    let mut cancel = null_mut();
    unsafe {
        rz_job_free(job);
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        for (us, status) in [(u64::MAX - 1, RZ_OK), (0, RZ_ERR_DEADLINE), (1 << 63, RZ_OK), (0, RZ_ERR_DEADLINE)] {
            expect(RZ_OK, |e| rz_cancel_deadline(cancel, us, e));
            expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
            expect(status, |e| rz_prefill(host.cache, PROMPT.as_ptr(), 3, cancel, e));
        }
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, RZ_NO_LIMIT, e));
        expect(RZ_OK, |e| rz_prefill(host.cache, PROMPT.as_ptr(), 3, cancel, e));
        let before = std::time::Instant::now();
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, 20_000, e));
        let mut n = 0;
        let status = loop {
            let mut err = no_error();
            let status = rz_prefill(host.cache, PROMPT.as_ptr(), 1, cancel, &mut err);
            n += 1;
            if status != RZ_OK {
                break status;
            }
            expect(RZ_OK, |e| rz_cache_truncate(host.cache, 3, e));
        };
        assert_eq!(status, RZ_ERR_DEADLINE);
        assert!(before.elapsed().as_micros() >= 20_000, "{n} calls");
        rz_cancel_free(cancel);
    }
}

#[test]
fn a_sampler_is_copied() {
    let (mut sampler, host) = (null_mut(), Host::new(64));
    let mut choice: rz_sampler_params = zeroed();
    (choice.struct_size, choice.temperature, choice.seed) = (size_of::<rz_sampler_params>() as u32, 1.0, 7);
    expect(RZ_OK, |e| unsafe { rz_sampler_new(&choice, &mut sampler, e) });
    let run = || {
        let cache = new_cache(host.model, 64);
        let job = new_job(cache, &rz_job_params { sampler, ..params(&PROMPT, 20) });
        while step(job, RZ_NO_LIMIT) == RZ_AGAIN {}
        let made = tokens(job);
        unsafe {
            rz_job_free(job);
            rz_cache_free(cache);
        }
        made
    };
    assert_eq!(run(), run());
    unsafe { rz_sampler_free(sampler) };
}

static SHARES: AtomicU32 = AtomicU32::new(0);

/// Runs shares backwards on the calling thread, but for the last in `user` of them, and then returns another number.
unsafe extern "C" fn backwards(n: u32, share: rz_chunk_callback, context: *mut c_void, user: *mut c_void) -> i32 {
    let left_out = user.addr() as u32;
    for i in (0..n).skip(left_out as usize).rev() {
        SHARES.fetch_add(1, Ordering::Relaxed);
        unsafe { share.expect("a chunk")(i, context) };
    }
    0
}

#[test]
fn threads_of_the_host_compute_and_their_number_changes() {
    let wanted = expected(&Host::new(64), 12);
    for left_out in [0, 1] {
        let mut choice: rz_runtime_params = zeroed();
        (choice.struct_size, choice.threads) = (size_of::<rz_runtime_params>() as u32, 3);
        choice.parallel = Some(backwards);
        choice.parallel_user = std::ptr::without_provenance_mut(left_out);
        let mut runtime = null_mut();
        expect(RZ_OK, |e| unsafe { rz_runtime_new(&choice, &mut runtime, e) });
        let mut loading: rz_model_params = zeroed();
        (loading.struct_size, loading.runtime) = (size_of::<rz_model_params>() as u32, runtime);
        if left_out > 0 {
            let (path, mut model) = (std::ffi::CString::new(MODEL).expect("no NUL"), null_mut());
            let message =
                expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_model_load(path.as_ptr(), &loading, &mut model, e) });
            assert!(message.contains("rz_runtime_params.parallel returned before"), "{message}");
            unsafe { rz_runtime_free(runtime) };
            continue;
        }
        let model = load_with(MODEL, &loading);
        let host = Host { model, cache: new_cache(model, 64) };
        let before = SHARES.load(Ordering::Relaxed);
        let job = new_job(host.cache, &params(&PROMPT, 12));
        for threads in [1, 2, 5, 3, 0].into_iter().cycle() {
            expect(RZ_OK, |e| unsafe { rz_runtime_threads_set(runtime, threads, e) });
            if step(job, 1) != RZ_AGAIN {
                break;
            }
        }
        assert_eq!(tokens(job), wanted);
        assert!(SHARES.load(Ordering::Relaxed) > before);
        unsafe {
            refused("threads", |e| rz_runtime_threads_set(runtime, 1 << 20, e));
            refused("runtime", |e| rz_runtime_threads_set(null_mut(), 1, e));
            rz_job_free(job);
            rz_runtime_free(runtime);
        }
    }
    let cpu = 0;
    let choice = rz_runtime_params { cpus: &cpu, n_cpus: 1, parallel: Some(backwards), ..sized() };
    let mut runtime = null_mut();
    refused("cpus and parallel are both set", |e| unsafe { rz_runtime_new(&choice, &mut runtime, e) });
}

#[test]
fn the_number_of_workers_changes_between_steps() {
    let wanted = expected(&Host::new(64), 12);
    let mut choice: rz_runtime_params = zeroed();
    (choice.struct_size, choice.threads) = (size_of::<rz_runtime_params>() as u32, 1);
    let mut runtime = null_mut();
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&choice, &mut runtime, e) });
    let mut loading: rz_model_params = zeroed();
    (loading.struct_size, loading.runtime) = (size_of::<rz_model_params>() as u32, runtime);
    let model = load_with(MODEL, &loading);
    let host = Host { model, cache: new_cache(model, 64) };
    let job = new_job(host.cache, &params(&PROMPT, 12));
    for threads in [3, 1, 2, 4].into_iter().cycle() {
        expect(RZ_OK, |e| unsafe { rz_runtime_threads_set(runtime, threads, e) });
        if step(job, 20) != RZ_AGAIN {
            break;
        }
    }
    assert_eq!(tokens(job), wanted);
    unsafe {
        rz_job_free(job);
        rz_runtime_free(runtime);
    }
}
