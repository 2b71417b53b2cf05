//! Callbacks that edit logits: in calls, in batches of jobs, with drafts and in conversations. The oracle of a sequence
//! in a batch is the same sequence without others; the oracle of a ban is a bias.

use super::conversation::{Talk, reply_params};
use super::host::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::thread::ThreadId;

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;

const PROMPT: [u32; 3] = [BOS, 403, 407];

type Edit = dyn FnMut(&mut [f32], &[u32]) -> i32;

/// What a callback does, and what it saw.
struct Editor {
    edit: Box<Edit>,
    seen: Vec<(Vec<u32>, usize, ThreadId)>,
}

impl Editor {
    fn new(edit: impl FnMut(&mut [f32], &[u32]) -> i32 + 'static) -> Box<Editor> {
        Box::new(Editor { edit: Box::new(edit), seen: Vec::new() })
    }

    fn params(&mut self) -> rz_sampler_params {
        let (edit_logits, edit_logits_user) = (Some(call as _), std::ptr::from_mut(self).cast());
        rz_sampler_params { edit_logits, edit_logits_user, ..sized() }
    }

    fn sampler(&mut self) -> *mut rz_sampler {
        sampler(&self.params())
    }
}

unsafe extern "C" fn call(logits: *mut f32, n: usize, tokens: *const u32, n_tokens: usize, user: *mut c_void) -> i32 {
    let editor = unsafe { &mut *user.cast::<Editor>() };
    let logits = unsafe { std::slice::from_raw_parts_mut(logits, n) };
    let tokens = if n_tokens == 0 { &[] } else { unsafe { std::slice::from_raw_parts(tokens, n_tokens) } };
    editor.seen.push((tokens.to_vec(), n, std::thread::current().id()));
    (editor.edit)(logits, tokens)
}

fn sampler(params: &rz_sampler_params) -> *mut rz_sampler {
    let mut sampler = null_mut();
    expect(RZ_OK, |e| unsafe { rz_sampler_new(params, &mut sampler, e) });
    sampler
}

/// A job of some tokens, whose sampler is freed at once.
fn new_job(cache: *mut rz_cache, sampler: *mut rz_sampler, draft: u32) -> *mut rz_job {
    let mut job = null_mut();
    let params =
        rz_job_params { max_tokens: 12, tokens: PROMPT.as_ptr(), n_tokens: PROMPT.len(), sampler, draft, ..sized() };
    unsafe {
        expect(RZ_OK, |e| rz_job_new(cache, &params, &mut job, e));
        rz_sampler_free(sampler);
    }
    job
}

fn tokens(job: *mut rz_job) -> Vec<u32> {
    let (mut tokens, mut n) = (vec![0; 64], 0);
    expect(RZ_OK, |e| unsafe { rz_job_tokens_into(job, tokens.as_mut_ptr(), tokens.len(), &mut n, e) });
    tokens.truncate(n);
    tokens
}

fn run(jobs: &[*mut rz_job]) {
    while unsafe { rz_jobs_step(jobs.as_ptr(), jobs.len(), RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
}

/// The tokens of a job by itself.
fn alone(host: &Host, sampler: *mut rz_sampler, draft: u32) -> Vec<u32> {
    let cache = new_cache(host.model, 64);
    let job = new_job(cache, sampler, draft);
    run(&[job]);
    let made = tokens(job);
    unsafe {
        rz_job_free(job);
        rz_cache_free(cache);
    }
    made
}

fn without_even(logits: &mut [f32], _: &[u32]) -> i32 {
    logits.iter_mut().step_by(2).for_each(|logit| *logit = f32::NEG_INFINITY);
    0
}

#[test]
fn a_callback_edits_the_logits_of_a_choice() {
    let host = Host::new(64);
    host.prefill(&PROMPT);
    let (before, best) = (host.logits(), host.decode_nothing());
    let chosen = |edit: fn(&mut [f32], &[u32]) -> i32, temperature: f32| {
        let mut editor = Editor::new(edit);
        let (sampler, mut token) = (sampler(&rz_sampler_params { temperature, ..editor.params() }), u32::MAX);
        let mut err = no_error();
        let status = unsafe { rz_sample(host.cache, sampler, &mut token, &mut err) };
        unsafe { rz_sampler_free(sampler) };
        assert_eq!(editor.seen, [(PROMPT.to_vec(), 512, std::thread::current().id())]);
        (status, token)
    };
    for temperature in [0.0, 1.0] {
        let forced = |logits: &mut [f32], _: &[u32]| {
            logits[77] = f32::INFINITY;
            0
        };
        assert_eq!(chosen(forced, temperature), (RZ_OK, 77));
        let only = |logits: &mut [f32], _: &[u32]| {
            logits.fill(f32::NAN);
            logits[5] = -1e30;
            0
        };
        assert_eq!(chosen(only, temperature), (RZ_OK, 5));
        for fail in [|logits: &mut [f32], _: &[u32]| (logits.fill(f32::NAN), 0).1, |_: &mut [f32], _: &[u32]| 7] {
            assert_eq!(chosen(fail, temperature), (RZ_ERR_INVALID_ARGUMENT, u32::MAX));
        }
    }
    assert_eq!(chosen(|_, _| 0, 0.0), (RZ_OK, best));
    // The edits are of a copy.
    assert!(host.logits().iter().map(|x| x.to_bits()).eq(before.iter().map(|x| x.to_bits())));
    // Biases and filters act on what was edited.
    let mut editor = Editor::new(without_even);
    let bias = rz_logit_bias { token: chosen(without_even, 0.0).1, bias: f32::NEG_INFINITY };
    let biased = sampler(&rz_sampler_params { biases: &bias, n_biases: 1, ..editor.params() });
    let mut token = 0;
    expect(RZ_OK, |e| unsafe { rz_sample(host.cache, biased, &mut token, e) });
    assert!(token % 2 == 1 && token != bias.token);
    unsafe { rz_sampler_free(biased) };
    // Another number than 0 ends a call, which changes nothing, and the message has it.
    let mut editor = Editor::new(|_, tokens| if tokens.len() == 6 { 7 } else { 0 });
    let (failing, len) = (editor.sampler(), host.len());
    let (mut made, mut n) = ([0; 8], 0);
    unsafe {
        let call = |e| rz_generate_into(host.cache, best, failing, made.as_mut_ptr(), 8, &mut n, null(), e);
        fails(RZ_ERR_INVALID_ARGUMENT, "callback of the sampler returned 7", call);
        assert_eq!((n, host.len()), (2, len + 2));
        let (caches, samplers, mut next) = ([host.cache], [failing], 0);
        let batch = |e| rz_decode_batch(caches.as_ptr(), &made[1], 1, samplers.as_ptr(), &mut next, e);
        fails(RZ_ERR_INVALID_ARGUMENT, "returned 7", batch);
        assert_eq!(host.len(), len + 2);
        rz_sampler_free(failing);
    }
}

impl Host {
    /// The most likely next token.
    fn decode_nothing(&self) -> u32 {
        let mut token = 0;
        expect(RZ_OK, |e| unsafe { rz_sample(self.cache, null_mut(), &mut token, e) });
        token
    }
}

/// Each of several jobs makes in a batch what it makes alone, with drafts too, and one that fails ends alone.
#[test]
fn callbacks_of_a_batch_are_those_of_each_job() {
    let host = Host::new(64);
    let biases: Vec<rz_logit_bias> =
        (0..512).step_by(2).map(|token| rz_logit_bias { token, bias: f32::NEG_INFINITY }).collect();
    let odd = rz_sampler_params { biases: biases.as_ptr(), n_biases: biases.len(), ..sized() };
    let (plain, odd) = (alone(&host, null_mut(), 0), alone(&host, sampler(&odd), 0));
    assert_ne!(plain, odd);
    for draft in [RZ_DRAFT_NONE, RZ_DRAFT_LOOKUP] {
        // What repeats is drafted, where a draft costs less than it saves.
        let repeat = |logits: &mut [f32], tokens: &[u32]| {
            logits[400 + tokens.len() % 3] = f32::INFINITY;
            0
        };
        let mut editors = [
            Editor::new(|_, _| 0),
            Editor::new(without_even),
            Editor::new(repeat),
            Editor::new(|_, tokens| i32::from(tokens.len() == PROMPT.len() + 4)),
        ];
        let caches: Vec<_> = (0..5).map(|_| new_cache(host.model, 64)).collect();
        let mut jobs = vec![new_job(caches[4], null_mut(), draft)];
        for (editor, cache) in editors.iter_mut().zip(&caches) {
            jobs.push(new_job(*cache, editor.sampler(), draft));
        }
        run(&jobs);
        let made: Vec<Vec<u32>> = jobs.iter().map(|job| tokens(*job)).collect();
        let repeated: Vec<u32> = (0..12).map(|i| 400 + (i + PROMPT.len() as u32) % 3).collect();
        assert_eq!(made, [plain.clone(), plain.clone(), odd.clone(), repeated, plain[..4].to_vec()]);
        for (i, job) in jobs.into_iter().enumerate() {
            let mut info = sized::<rz_job_info>();
            unsafe {
                expect(RZ_OK, |e| rz_job_info_get(job, &mut info, e));
                assert_eq!(info.end_reason, if i == 4 { RZ_END_FAILED } else { RZ_END_LENGTH });
                if i == 4 {
                    fails(RZ_ERR_INVALID_ARGUMENT, "returned 1", |e| rz_job_error(job, e));
                }
                rz_job_free(job);
            }
        }
        // Every choice, in order, on this thread, with the tokens that came before it and no others.
        for (editor, made) in editors.iter().zip(&made[1..]) {
            let own = std::thread::current().id();
            let all: Vec<u32> = PROMPT.iter().chain(made).copied().collect();
            let n = editor.seen.len();
            assert_eq!(n, if made.len() == 4 { 5 } else { 12 });
            for (i, seen) in editor.seen.iter().enumerate() {
                assert_eq!(*seen, (all[..PROMPT.len() + i].to_vec(), 512, own));
            }
        }
        caches.into_iter().for_each(|cache| unsafe { rz_cache_free(cache) });
    }
}

/// A callback may use the library, except with the handles of the call that it comes from.
#[test]
fn a_callback_may_call_the_library() {
    let host = Host::new(64);
    let plain = alone(&host, null_mut(), 0);
    let (own, other) = (new_cache(host.model, 64), new_cache(host.model, 64));
    let model = host.model;
    let mut editor = Editor::new(move |_, tokens| {
        let (mut next, mut bytes, mut n) = (0, [0u8; 64], 0);
        let last = tokens[tokens.len() - 1];
        unsafe {
            expect(RZ_ERR_BUSY, |e| rz_decode_token(own, last, null_mut(), &mut next, e));
            expect(RZ_OK, |e| rz_decode_token(other, last, null_mut(), &mut next, e));
            expect(RZ_OK, |e| rz_token_bytes_into(model, last, bytes.as_mut_ptr().cast(), 64, &mut n, null_mut(), e));
        }
        0
    });
    let job = new_job(own, editor.sampler(), 0);
    run(&[job]);
    assert_eq!(tokens(job), plain);
    unsafe {
        assert_eq!(rz_cache_len(other), 12);
        rz_job_free(job);
        rz_cache_free(own);
        rz_cache_free(other);
    }
}

/// A reply has the callback of its sampler; one that fails ends the reply alone.
#[test]
fn replies_have_callbacks() {
    let talk = Talk::new("", 256, 0);
    talk.add("user", "Hi");
    let mut editor = Editor::new(|logits, _| {
        logits[3 + usize::from(b'z')] = f32::INFINITY;
        0
    });
    let params = editor.params();
    let parts = talk.reply(rz_reply_params_of(&params, 5));
    let text: String = parts.into_iter().map(|(_, _, text)| text).collect();
    assert_eq!((text.as_str(), editor.seen.len()), ("zzzzz", 5));
    let (fork, mut failing) = (talk.fork(), Editor::new(|_, _| -3));
    for (talk, params) in [(&talk, params), (&fork, failing.params())] {
        talk.add("user", "And?");
        talk.begin(rz_reply_params_of(&params, 3));
    }
    let both = [talk.handle, fork.handle];
    let mut status = RZ_AGAIN;
    while status == RZ_AGAIN {
        status =
            unsafe { realizar::ffi::conversation::rz_conversations_step(both.as_ptr(), 2, RZ_NO_LIMIT, null_mut()) };
    }
    assert_eq!((status, talk.info().end_reason, fork.info().end_reason), (RZ_DONE, RZ_END_LENGTH, RZ_END_FAILED));
}

fn rz_reply_params_of(sampler: &rz_sampler_params, max_tokens: u32) -> realizar::ffi::conversation::rz_reply_params {
    realizar::ffi::conversation::rz_reply_params { sampler, ..reply_params(max_tokens) }
}
