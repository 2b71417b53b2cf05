//! Calls that wait for one another: cancellation while waiting, order, and calls that would wait for themselves.

use super::host::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::embed::*;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::runtime::*;
use realizar::ffi::score::*;
use realizar::ffi::status::*;

const PROMPT: [u32; 3] = [BOS, 403, 407];

/// A model on threads of the host.
fn load_on(parallel: rz_parallel_callback, user: *mut c_void) -> *mut rz_model {
    let mut choice: rz_runtime_params = zeroed();
    (choice.struct_size, choice.threads) = (size_of::<rz_runtime_params>() as u32, 2);
    (choice.parallel, choice.parallel_user) = (parallel, user);
    let mut runtime = null_mut();
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&choice, &mut runtime, e) });
    let mut loading: rz_model_params = zeroed();
    (loading.struct_size, loading.runtime) = (size_of::<rz_model_params>() as u32, runtime);
    let model = load_with(MODEL, &loading);
    unsafe { rz_runtime_free(runtime) };
    model
}

/// Whether shares are held back, and whether some are.
static HELD: AtomicBool = AtomicBool::new(false);
static HOLDS: AtomicBool = AtomicBool::new(false);

/// Runs shares, but not while they are held back.
unsafe extern "C" fn holding(n: u32, share: rz_chunk_callback, context: *mut c_void, _: *mut c_void) -> i32 {
    while HELD.load(Ordering::SeqCst) {
        HOLDS.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(1));
    }
    HOLDS.store(false, Ordering::SeqCst);
    (0..n).for_each(|i| unsafe { share.expect("a chunk")(i, context) });
    0
}

/// A handle for another thread.
struct Shared<T>(*mut T);
unsafe impl<T> Send for Shared<T> {}

impl<T> Copy for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

/// The workers are held by a step that goes on: whatever waits for them ends by its cancel, deadline or budget, and
/// succeeds afterwards.
#[test]
fn a_waiting_call_heeds_cancels_deadlines_and_budgets() {
    let model = load_on(Some(holding), null_mut());
    let (busy, cache) = (Shared(new_cache(model, 64)), Shared(new_cache(model, 64)));
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    let params = rz_job_params { tokens: PROMPT.as_ptr(), n_tokens: 3, max_tokens: 4, ..sized() };
    let (job_cache, mut job) = (new_cache(model, 64), null_mut());
    expect(RZ_OK, |e| unsafe { rz_job_new(job_cache, &params, &mut job, e) });
    HELD.store(true, Ordering::SeqCst);
    let holder = thread::spawn(move || {
        expect(RZ_OK, |e| unsafe { rz_prefill(busy.get(), PROMPT.as_ptr(), 3, null(), e) });
    });
    while !HOLDS.load(Ordering::SeqCst) {
        thread::yield_now();
    }

    let (mut next, mut made, mut tokens, mut scores) = (0, 0, [0u32; 4], [0f32; 3]);
    let (mut vector, long) = ([0f32; 1024], [403u32; 40]);
    let (texts, counts) = ([PROMPT.as_ptr()], [3usize]);
    type Call<'a> = Box<dyn FnMut(*const rz_cancel, *mut rz_error) -> rz_status + 'a>;
    let calls: Vec<(&str, Call)> = vec![
        ("prefill", Box::new(|c, e| unsafe { rz_prefill(cache.get(), PROMPT.as_ptr(), 3, c, e) })),
        (
            "prefill of a long prompt",
            Box::new(|c, e| unsafe { rz_prefill(cache.get(), long.as_ptr(), long.len(), c, e) }),
        ),
        (
            "decode",
            Box::new(|c, e| unsafe {
                expect(RZ_OK, |e| rz_cache_cancel_set(cache.get(), c, e));
                let status = rz_decode_token(cache.get(), BOS, null_mut(), &mut next, e);
                expect(RZ_OK, |e| rz_cache_cancel_set(cache.get(), null(), e));
                status
            }),
        ),
        (
            "generate",
            Box::new(|c, e| unsafe {
                rz_generate_into(cache.get(), BOS, null_mut(), tokens.as_mut_ptr(), 4, &mut made, c, e)
            }),
        ),
        ("score", Box::new(|c, e| unsafe { rz_score(cache.get(), PROMPT.as_ptr(), 3, scores.as_mut_ptr(), c, e) })),
        (
            "embed",
            Box::new(|c, e| unsafe {
                let params = rz_embed_params { pooling: RZ_POOLING_MEAN, ..sized() };
                let (texts, counts) = (texts.as_ptr(), counts.as_ptr());
                rz_embed_into(model, &params, texts, counts, 1, vector.as_mut_ptr(), vector.len(), &mut 0, c, e)
            }),
        ),
    ];
    for (name, mut call) in calls {
        // Fired while the call waits.
        let firing = Shared(cancel);
        let firer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            unsafe { rz_cancel_fire(firing.get()) };
        });
        let started = Instant::now();
        expect(RZ_ERR_CANCELLED, |e| call(cancel, e));
        assert!(started.elapsed() >= Duration::from_millis(15), "{name} did not wait");
        firer.join().expect("no panic");
        unsafe { rz_cancel_reset(cancel) };
        expect(RZ_OK, |e| unsafe { rz_cancel_deadline(cancel, 20_000, e) });
        expect(RZ_ERR_DEADLINE, |e| call(cancel, e));
        unsafe { rz_cancel_reset(cancel) };
    }
    for budget in [0, 1, 3_000] {
        expect(RZ_AGAIN, |e| unsafe { rz_job_step(job, budget, e) });
    }
    assert!(HOLDS.load(Ordering::SeqCst));
    HELD.store(false, Ordering::SeqCst);
    holder.join().expect("no panic");

    unsafe {
        expect(RZ_OK, |e| rz_prefill(cache.get(), PROMPT.as_ptr(), 3, cancel, e));
        while rz_job_step(job, 1_000, null_mut()) == RZ_AGAIN {}
        let (mut of_job, mut n) = ([0u32; 4], 0);
        expect(RZ_OK, |e| rz_job_tokens_into(job, of_job.as_mut_ptr(), 4, &mut n, e));
        let mut first = 0;
        expect(RZ_OK, |e| rz_sample(cache.get(), null_mut(), &mut first, e));
        assert_eq!((n, of_job[0]), (4, first));
        rz_job_free(job);
        rz_cancel_free(cancel);
        [busy.get(), cache.get(), job_cache].into_iter().for_each(|cache| rz_cache_free(cache));
        rz_model_free(model);
    }
}

/// A cache of a model on threads of the host, one of another runtime, and what calls within a share have got.
static WITHIN: AtomicPtr<rz_cache> = AtomicPtr::new(null_mut());
static ELSEWHERE: AtomicPtr<rz_cache> = AtomicPtr::new(null_mut());
static JOB: AtomicPtr<rz_job> = AtomicPtr::new(null_mut());
static REFUSED: AtomicU32 = AtomicU32::new(0);
static OTHER: AtomicI32 = AtomicI32::new(-100);

/// Calls the library on the thread that waits for its shares, as schedulers of tasks do that hand other work to it.
unsafe extern "C" fn stealing(n: u32, share: rz_chunk_callback, context: *mut c_void, _: *mut c_void) -> i32 {
    let cache = WITHIN.load(Ordering::SeqCst);
    if !cache.is_null() {
        let mut next = 0;
        let message = expect(RZ_ERR_BUSY, |e| unsafe { rz_prefill(cache, PROMPT.as_ptr(), 3, null(), e) });
        assert!(message.contains("rz_parallel_callback"), "{message}");
        expect(RZ_ERR_BUSY, |e| unsafe { rz_decode_token(cache, BOS, null_mut(), &mut next, e) });
        expect(RZ_ERR_BUSY, |e| unsafe { rz_job_step(JOB.load(Ordering::SeqCst), RZ_NO_LIMIT, e) });
        let elsewhere = ELSEWHERE.load(Ordering::SeqCst);
        OTHER.store(unsafe { rz_prefill(elsewhere, PROMPT.as_ptr(), 3, null(), null_mut()) }, Ordering::SeqCst);
        expect(RZ_OK, |e| unsafe { rz_cache_truncate(elsewhere, 0, e) });
        REFUSED.fetch_add(1, Ordering::SeqCst);
    }
    (0..n).for_each(|i| unsafe { share.expect("a chunk")(i, context) });
    0
}

#[test]
fn a_call_within_a_share_is_refused_where_it_would_wait_for_itself() {
    let (model, other) = (load_on(Some(stealing), null_mut()), Host::new(64));
    let (outer, inner, of_job) = (new_cache(model, 64), new_cache(model, 64), new_cache(model, 64));
    let params = rz_job_params { tokens: PROMPT.as_ptr(), n_tokens: 3, max_tokens: 2, ..sized() };
    let mut job = null_mut();
    expect(RZ_OK, |e| unsafe { rz_job_new(of_job, &params, &mut job, e) });
    JOB.store(job, Ordering::SeqCst);
    ELSEWHERE.store(other.cache, Ordering::SeqCst);
    WITHIN.store(inner, Ordering::SeqCst);
    expect(RZ_OK, |e| unsafe { rz_prefill(outer, PROMPT.as_ptr(), 3, null(), e) });
    WITHIN.store(null_mut(), Ordering::SeqCst);
    assert!(REFUSED.load(Ordering::SeqCst) > 0);
    assert_eq!(OTHER.load(Ordering::SeqCst), RZ_OK, "another runtime has workers of its own");
    // Rejected objects are unchanged.
    unsafe {
        expect(RZ_OK, |e| rz_prefill(inner, PROMPT.as_ptr(), 3, null(), e));
        while rz_job_step(job, RZ_NO_LIMIT, null_mut()) == RZ_AGAIN {}
        let (mut first, mut of_job_tokens, mut n) = (0, [0u32; 2], 0);
        expect(RZ_OK, |e| rz_sample(inner, null_mut(), &mut first, e));
        expect(RZ_OK, |e| rz_job_tokens_into(job, of_job_tokens.as_mut_ptr(), 2, &mut n, e));
        assert_eq!((n, of_job_tokens[0]), (2, first));
        rz_job_free(job);
        [outer, inner, of_job].into_iter().for_each(|cache| rz_cache_free(cache));
        rz_model_free(model);
    }
}
