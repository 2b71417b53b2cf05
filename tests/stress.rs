//! Sixteen threads use four models: random calls, handles freed in any order, jobs, forks and cancels. Every call
//! returns a status that its documentation allows, and a cache used in this way still computes bit-identical results
//! for its tokens. The environment variable STRESS_SECONDS sets the duration.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

#[expect(dead_code, reason = "few of them are needed here")]
mod it {
    pub mod support;
}

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::RwLock;
use std::time::{Duration, Instant};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::embed::*;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::metrics::*;
use realizar::ffi::model::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::saved::*;
use realizar::ffi::score::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;
use realizar::quant;

use it::support::calls::{expect, no_error, text_of, with_template, zeroed};
use it::support::reference::relative_rms;
use it::support::save::save;
use it::support::tiny::{self, PROMPT, Rng, Tiny};

const THREADS: u64 = 16;
/// Some tiny networks: one with windows, one with recurrent layers, one with experts. Their vocabulary has 300 tokens.
const NETWORKS: [&str; 3] = ["gemma3", "qwen35", "qwen3moe"];
const MODELS: usize = NETWORKS.len() + 1;
/// Slots of caches and jobs, dealt out to the models in turn.
const CACHES: usize = 4 * MODELS;
const JOBS: usize = 2 * MODELS;
const MADE: usize = 12;

/// A handle that the threads share. Freed by one that has it alone, because a call may not be given a handle that was
/// freed.
struct Slot<T>(RwLock<*mut T>);

// SAFETY: any thread may call with a handle.
unsafe impl<T> Send for Slot<T> {}
unsafe impl<T> Sync for Slot<T> {}

impl<T> Slot<T> {
    fn new(handle: *mut T) -> Slot<T> {
        Slot(RwLock::new(handle))
    }

    /// Runs calls with the handle, which nobody frees meanwhile; it may be NULL.
    fn with<R>(&self, calls: impl FnOnce(*mut T) -> R) -> R {
        calls(*self.0.read().unwrap())
    }

    fn replace(&self, handle: *mut T, free: unsafe extern "C" fn(*mut T)) {
        let old = std::mem::replace(&mut *self.0.write().unwrap(), handle);
        unsafe { free(old) };
    }
}

struct World {
    paths: [CString; MODELS],
    runtimes: [Slot<rz_runtime>; 2],
    models: [Slot<rz_model>; MODELS],
    caches: [Slot<rz_cache>; CACHES],
    jobs: [Slot<rz_job>; JOBS],
    cancels: [Slot<rz_cancel>; 4],
    samplers: [Slot<rz_sampler>; 3],
    /// The tokens that follow the prompt, by the first calls, which nothing disturbs.
    expected: [Vec<u32>; MODELS],
    until: Instant,
}

/// A call that may end with any of the statuses that `call` allows.
fn ignore(_: rz_status) {}

/// Calls with an error record, and fails for statuses that no call of this test may return.
#[track_caller]
fn call(call: impl FnOnce(*mut rz_error) -> rz_status) -> rz_status {
    let mut err = no_error();
    let status = call(&mut err);
    let allowed = [
        RZ_ERR_INVALID_ARGUMENT,
        RZ_ERR_BUSY,
        RZ_ERR_CANCELLED,
        RZ_ERR_DEADLINE,
        RZ_ERR_CONTEXT_FULL,
        RZ_ERR_BUFFER_TOO_SMALL,
        RZ_ERR_MISMATCH,
        RZ_ERR_NOT_READY,
    ];
    assert!(status >= 0 || allowed.contains(&status), "{status}: {}", text_of(&err.message));
    assert_eq!(err.code, status);
    status
}

fn params<T>(change: impl FnOnce(&mut T)) -> T {
    let mut params: T = zeroed();
    // SAFETY: parameters begin with their size.
    unsafe { (&raw mut params).cast::<u32>().write(size_of::<T>() as u32) };
    change(&mut params);
    params
}

fn load(path: &CString, runtime: *mut rz_runtime) -> *mut rz_model {
    let (params, mut model) = (params(|p: &mut rz_model_params| p.runtime = runtime), null_mut());
    expect(RZ_OK, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut model, e) });
    model
}

fn new_cache(model: *const rz_model, capacity: u32) -> *mut rz_cache {
    let (params, mut cache) = (params(|p: &mut rz_cache_params| p.capacity = capacity), null_mut());
    expect(RZ_OK, |e| unsafe { rz_cache_new(model, &params, &mut cache, e) });
    cache
}

fn new_cancel() -> *mut rz_cancel {
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    cancel
}

fn new_sampler(seed: u64) -> *mut rz_sampler {
    let params = params(|p: &mut rz_sampler_params| (p.temperature, p.seed) = (0.9, seed));
    let mut sampler = null_mut();
    expect(RZ_OK, |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    sampler
}

fn job_params(tokens: &[u32], max_tokens: u32) -> rz_job_params {
    params(|p: &mut rz_job_params| {
        (p.tokens, p.n_tokens, p.max_tokens) = (tokens.as_ptr(), tokens.len(), max_tokens);
    })
}

/// The tokens that follow the prompt.
fn generated(model: *const rz_model) -> Vec<u32> {
    let (cache, mut made, mut n) = (new_cache(model, 64), vec![0; MADE], 0);
    unsafe {
        expect(RZ_OK, |e| rz_prefill(cache, PROMPT.as_ptr(), PROMPT.len(), null(), e));
        expect(RZ_OK, |e| rz_sample(cache, null_mut(), &mut made[0], e));
        let first = made[0];
        let out = made[1..].as_mut_ptr();
        let status = call(|e| rz_generate_into(cache, first, null_mut(), out, MADE - 1, &mut n, null(), e));
        assert!(status >= 0);
        rz_cache_free(cache);
    }
    made.truncate(n + 1);
    made
}

/// The bits of the logits after the last token, computed anew.
fn logits(cache: *mut rz_cache, tokens: &[u32]) -> Vec<u32> {
    let (mut logits, mut n) = (vec![0f32; 512], 0);
    unsafe {
        expect(RZ_OK, |e| rz_prefill(cache, tokens.as_ptr(), tokens.len(), null(), e));
        expect(RZ_OK, |e| rz_logits_into(cache, logits.as_mut_ptr(), logits.len(), &mut n, e));
    }
    logits[..n].iter().map(|x| x.to_bits()).collect()
}

/// Compares a cache that no call is using with a new one of its tokens. A job may have it.
fn verify(cache: *mut rz_cache, model: *const rz_model) {
    let (mut tokens, mut n) = (vec![0u32; 512], 0);
    if cache.is_null() || call(|e| unsafe { rz_cache_tokens_into(cache, tokens.as_mut_ptr(), 512, &mut n, e) }) < 0 {
        return;
    }
    tokens.truncate(n);
    if let Some((_, before)) = tokens.split_last() {
        let fresh = new_cache(model, 512);
        unsafe {
            expect(RZ_OK, |e| rz_cache_cancel_set(cache, null(), e));
            expect(RZ_OK, |e| rz_cache_truncate(cache, before.len() as u32, e));
            assert!(logits(cache, &tokens[before.len()..]) == logits(fresh, &tokens), "{n} tokens: other bits");
            rz_cache_free(fresh);
        }
    }
}

unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let (out, data) = unsafe { (&mut *user.cast::<Vec<u8>>(), std::slice::from_raw_parts(data.cast(), n)) };
    out.extend_from_slice(data);
    0
}

unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let from = unsafe { &mut *user.cast::<&[u8]>() };
    let Some((now, rest)) = from.split_at_checked(n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), out.cast(), n) };
    *from = rest;
    0
}

impl World {
    fn new(paths: [CString; MODELS], until: Instant) -> World {
        let runtimes = [1, 3].map(|threads| {
            let (params, mut runtime) = (params(|p: &mut rz_runtime_params| p.threads = threads), null_mut());
            expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
            runtime
        });
        let models: [_; MODELS] = std::array::from_fn(|i| load(&paths[i], runtimes[i % 2]));
        World {
            expected: models.map(|model| generated(model)),
            paths,
            runtimes: runtimes.map(Slot::new),
            models: models.map(Slot::new),
            caches: std::array::from_fn(|i| Slot::new(new_cache(models[i % MODELS], 64))),
            jobs: std::array::from_fn(|_| Slot::new(null_mut())),
            cancels: std::array::from_fn(|_| Slot::new(new_cancel())),
            samplers: std::array::from_fn(|i| Slot::new(new_sampler(i as u64))),
            until,
        }
    }

    fn free_everything(self, mut rng: Rng) {
        let mut frees: Vec<Box<dyn FnOnce()>> = vec![];
        fn add<T: 'static>(
            frees: &mut Vec<Box<dyn FnOnce()>>,
            slots: impl IntoIterator<Item = Slot<T>>,
            free: unsafe extern "C" fn(*mut T),
        ) {
            frees.extend(
                slots.into_iter().map(|slot| Box::new(move || slot.replace(null_mut(), free)) as Box<dyn FnOnce()>),
            );
        }
        add(&mut frees, self.runtimes, rz_runtime_free);
        add(&mut frees, self.models, rz_model_free);
        add(&mut frees, self.caches, rz_cache_free);
        add(&mut frees, self.jobs, rz_job_free);
        add(&mut frees, self.cancels, rz_cancel_free);
        add(&mut frees, self.samplers, rz_sampler_free);
        while !frees.is_empty() {
            frees.swap_remove(rng.next() as usize % frees.len())();
        }
    }

    /// One generation on its own cache, in steps of its own or together with a job that all threads share: always
    /// the same tokens.
    fn generate(&self, of: usize, rng: &mut Rng) {
        let cache = self.models[of].with(|model| new_cache(model, 64));
        let (mut job, mut made, mut n) = (null_mut(), [0u32; MADE], 0);
        expect(RZ_OK, |e| unsafe { rz_job_new(cache, &job_params(&PROMPT, MADE as u32), &mut job, e) });
        let mut info = params(|_: &mut rz_job_info| ());
        while info.state != RZ_STATE_ENDED {
            let budget = rng.next() % 300;
            self.jobs[of + MODELS * (rng.next() as usize % 2)].with(|other| unsafe {
                let is_alone = other.is_null() || rng.next().is_multiple_of(2);
                call(|e| rz_jobs_step([job, other].as_ptr().cast(), if is_alone { 1 } else { 2 }, budget, e));
                expect(RZ_OK, |e| rz_job_info_get(job, &mut info, e));
            });
        }
        unsafe {
            rz_cache_free(cache);
            expect(RZ_OK, |e| rz_job_tokens_into(job, made.as_mut_ptr(), MADE, &mut n, e));
            rz_job_free(job);
        }
        assert_eq!(made[..n], self.expected[of][..n.max(self.expected[of].len())], "{of}");
    }

    /// Calls at random.
    fn work(&self, mut rng: Rng) {
        let (mut ids, mut floats, mut text, mut n, mut id) = ([0u32; 64], [0f32; 512], [0; 256], 0usize, 0u32);
        while Instant::now() < self.until {
            let mut below = |n: usize| rng.next() as usize % n;
            let (cache_at, job_at) = (below(CACHES), below(JOBS));
            let (of, amount) = (cache_at % MODELS, below(40));
            let tokens: [u32; 64] = std::array::from_fn(|_| below(300) as u32);
            let (cache, job, model) = (&self.caches[cache_at], &self.jobs[job_at], &self.models[of]);
            let other = &self.caches[(cache_at + MODELS * below(4)) % CACHES];
            let (cancel, sampler) = (&self.cancels[below(4)], &self.samplers[below(3)]);
            let (ids_out, floats_out, n_out) = (ids.as_mut_ptr(), floats.as_mut_ptr(), &raw mut n);
            // SAFETY: handles of slots are live or NULL while they are lent, and buffers are as long as told.
            unsafe {
                match below(34) {
                    0 => model.replace(self.runtimes[of % 2].with(|r| load(&self.paths[of], r)), rz_model_free),
                    1 => cache.replace(null_mut(), rz_cache_free),
                    2 | 3 => cache.replace(model.with(|m| new_cache(m, 20 + 10 * amount as u32)), rz_cache_free),
                    4 | 5 => {
                        let mut fork = null_mut();
                        cache.with(|c| call(|e| rz_cache_fork(c, &mut fork, e)));
                        other.replace(fork, rz_cache_free);
                    }
                    6 => {
                        let (mut bytes, mut loaded) = (Vec::<u8>::new(), null_mut());
                        if cache.with(|c| call(|e| rz_cache_save(c, Some(write), (&raw mut bytes).cast(), null(), e)))
                            == RZ_OK
                        {
                            let mut rest = &bytes[..];
                            let from = (&raw mut rest).cast();
                            model.with(|m| {
                                expect(RZ_OK, |e| rz_cache_load(m, null(), Some(read), from, null(), &mut loaded, e))
                            });
                            other.replace(loaded, rz_cache_free);
                        }
                    }
                    7..=9 => ignore(
                        cache.with(|c| cancel.with(|s| call(|e| rz_prefill(c, tokens.as_ptr(), amount + 1, s, e)))),
                    ),
                    10 | 11 => {
                        ignore(cache.with(|c| sampler.with(|s| call(|e| rz_decode_token(c, tokens[0], s, &mut id, e)))))
                    }
                    12 => ignore(cache.with(|c| {
                        let room = amount % 12;
                        cancel.with(|s| call(|e| rz_generate_into(c, id % 300, null_mut(), ids_out, room, n_out, s, e)))
                    })),
                    13 => ignore(cache.with(|c| call(|e| rz_cache_truncate(c, amount as u32, e)))),
                    14 => ignore(cache.with(|c| call(|e| rz_cache_shift(c, amount as u32 % 5, amount as u32 / 5, e)))),
                    15 => ignore(cache.with(|c| call(|e| rz_cache_release(c, e)))),
                    16 => ignore(cache.with(|c| call(|e| rz_cache_match(c, tokens.as_ptr(), amount, &mut id, e)))),
                    17 => ignore(cache.with(|c| call(|e| rz_logits_into(c, floats_out, 512, n_out, e)))),
                    18 => ignore(cache.with(|c| call(|e| rz_top_logprobs(c, 9, ids_out, floats_out, n_out, e)))),
                    19 => ignore(cache.with(|c| {
                        cancel.with(|s| call(|e| rz_score(c, tokens.as_ptr(), amount + 1, floats_out, s, e)))
                    })),
                    20 => ignore(cache.with(|c| cancel.with(|s| call(|e| rz_cache_cancel_set(c, s, e))))),
                    21 if !std::ptr::eq(cache, other) => ignore(cache.with(|c| {
                        // Two threads may want the same two caches: none waits for one while it has the other.
                        let Ok(other) = other.0.try_read() else { return 0 };
                        call(|e| rz_decode_batch([c, *other].as_ptr(), tokens.as_ptr(), 2, null(), ids_out, e))
                    })),
                    22 => cancel.replace(new_cancel(), rz_cancel_free),
                    23 => sampler.replace(new_sampler(amount as u64), rz_sampler_free),
                    24 => cancel.with(|s| rz_cancel_fire(s)),
                    25 => ignore(cancel.with(|s| call(|e| rz_cancel_deadline(s, 10 * amount as u64, e)))),
                    26 => cancel.with(|s| rz_cancel_reset(s)),
                    27 => {
                        let mut made = null_mut();
                        cache.with(|c| {
                            cancel.with(|s| {
                                let params = rz_job_params {
                                    cancel: s,
                                    draft: amount as u32 % 2 * RZ_DRAFT_LOOKUP,
                                    ..job_params(&tokens[..1 + amount], amount as u32)
                                };
                                call(|e| rz_job_new(c, &params, &mut made, e))
                            })
                        });
                        self.jobs[of + MODELS * (amount % 2)].replace(made, rz_job_free);
                    }
                    28 => job.replace(null_mut(), rz_job_free),
                    29 => ignore(job.with(|j| call(|e| rz_job_step(j, 20 * amount as u64, e)))),
                    30 => ignore(job.with(|j| {
                        call(|e| rz_job_tokens_into(j, ids_out, 64, n_out, e));
                        call(|e| rz_job_text_into(j, text.as_mut_ptr(), 256, n_out, e))
                    })),
                    31 => self.generate(of, &mut rng),
                    32 => {
                        let cache = &mut *cache.0.write().unwrap();
                        model.with(|m| verify(*cache, m));
                    }
                    _ => ignore(self.models[0].with(|m| {
                        let chat = c"{\"messages\": [{\"role\": \"user\", \"content\": \" Once upon a time \"}]}";
                        let (chat, chat_len) = (chat.as_ptr(), chat.count_bytes());
                        call(|e| rz_chat_render_into(m, chat, chat_len, 0, text.as_mut_ptr(), 256, n_out, null(), e));
                        call(|e| rz_tokenize_into(m, text.as_ptr(), n, 0, ids_out, 64, n_out, null(), e));
                        let (one, lengths) = ([tokens.as_ptr()], [1 + amount]);
                        let pooled = params(|p: &mut rz_embed_params| p.pooling = RZ_POOLING_MEAN);
                        call(|e| {
                            rz_embed_into(
                                m,
                                &pooled,
                                one.as_ptr(),
                                lengths.as_ptr(),
                                1,
                                floats_out,
                                512,
                                n_out,
                                null(),
                                e,
                            )
                        });
                        let mut metrics = params(|_: &mut rz_metrics| ());
                        self.runtimes[0].with(|r| call(|e| rz_runtime_threads_set(r, 1 + amount as u32 % 3, e)));
                        call(|e| rz_metrics_get(m, &mut metrics, e))
                    })),
                }
            }
        }
    }
}

#[test]
fn threads_that_call_and_free_at_random_get_statuses_and_right_bits() {
    let seconds = std::env::var("STRESS_SECONDS").map_or(3, |seconds| seconds.parse().expect("a number of seconds"));
    let chat = with_template("{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    let networks: HashMap<_, _> = tiny::architectures(|name| Tiny::new(name, quant::Q8_0)).into_iter().collect();
    let saved = NETWORKS.map(|name| save(&networks[name]));
    let paths = std::array::from_fn(|i| {
        let path = if i == 0 { chat.path() } else { &saved[i - 1].1 };
        CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
    });
    let world = World::new(paths, Instant::now() + Duration::from_secs(seconds));
    for (i, (_, _, expected)) in saved.iter().enumerate() {
        let got = world.models[i + 1].with(|model| {
            let cache = new_cache(model, 64);
            let got = logits(cache, &PROMPT).into_iter().map(f32::from_bits).collect();
            unsafe { rz_cache_free(cache) };
            [got]
        });
        let difference = relative_rms(&expected()[PROMPT.len() - 1..], &got);
        assert!(difference < 0.06, "{}: {difference}", NETWORKS[i]);
    }
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            let world = &world;
            scope.spawn(move || world.work(Rng(seed)));
        }
    });
    for job in &world.jobs {
        job.replace(null_mut(), rz_job_free);
    }
    for (i, cache) in world.caches.iter().enumerate() {
        cache.with(|cache| world.models[i % MODELS].with(|model| verify(cache, model)));
    }
    world.free_everything(Rng(1));
}
