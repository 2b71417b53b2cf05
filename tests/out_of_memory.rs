//! A process in which memory runs out goes on. One run of the library, from the load of a model to its end, is repeated
//! with each of its allocations failing, once and from there on; each call ends with a status, and afterwards
//! everything works. Runs are children of this process, so that one that dies is counted and named. No test harness,
//! whose threads would allocate too.
//!
//! Tries one in 23, from load to end; `out_of_memory FIRST LAST STEP` tries others: `out_of_memory 0 100000 1` all.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

mod it {
    pub mod support {
        pub mod calls;
    }
}

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CString, c_char, c_void};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use realizar::ffi::adapter::*;
use realizar::ffi::allocator::*;
use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::embed::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
use realizar::ffi::layout::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::plan::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::saved::*;
use realizar::ffi::score::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;
use realizar::ffi::version::*;

use it::support::calls::{self, sized, zeroed};

/// Allocations are counted, and fail: number `FIRST`, and those after it where `FOR_GOOD`.
static ARMED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
static FOR_GOOD: AtomicBool = AtomicBool::new(false);
static HELD: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn alloc(size: usize, align: usize, _: *mut c_void) -> *mut c_void {
    if ARMED.load(Ordering::Relaxed) {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let first = FIRST.load(Ordering::Relaxed);
        if n == first || n > first && FOR_GOOD.load(Ordering::Relaxed) {
            return null_mut();
        }
    }
    PEAK.fetch_max(HELD.fetch_add(size as u64, Ordering::Relaxed) + size as u64, Ordering::Relaxed);
    unsafe { System.alloc(Layout::from_size_align_unchecked(size, align)).cast() }
}

unsafe extern "C" fn free(p: *mut c_void, size: usize, align: usize, _: *mut c_void) {
    HELD.fetch_sub(size as u64, Ordering::Relaxed);
    unsafe { System.dealloc(p.cast(), Layout::from_size_align_unchecked(size, align)) }
}

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}{% set x = m['content'] | trim %}{{ x }}{% endfor %}";

/// A saved cache in memory that is there from the beginning.
struct Saved {
    bytes: Vec<u8>,
    at: usize,
}

unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let saved = unsafe { &mut *user.cast::<Saved>() };
    assert!(saved.bytes.len() + n <= saved.bytes.capacity());
    saved.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), n) });
    0
}

unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let saved = unsafe { &mut *user.cast::<Saved>() };
    let Some(bytes) = saved.bytes.get(saved.at..saved.at + n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    saved.at += n;
    0
}

/// Statuses of calls, and what they made.
#[derive(Default)]
struct Run {
    failed: bool,
    /// A status that memory does not explain.
    odd: Option<(&'static str, rz_status, String)>,
    tokens: [u32; 24],
    n_tokens: usize,
}

impl Run {
    /// Notes how a call ended; true for success.
    fn call(&mut self, name: &'static str, call: impl FnOnce(*mut rz_error) -> rz_status) -> bool {
        let mut err = calls::no_error();
        let status = call(&mut err);
        self.failed |= status < 0;
        if status < 0 && status != RZ_ERR_OUT_OF_MEMORY {
            ARMED.store(false, Ordering::Relaxed);
            self.odd.get_or_insert((name, status, calls::text_of(&err.message)));
        }
        status >= 0
    }
}

/// Everything that most programs do.
unsafe fn run(path: &CString, saved: &mut Saved) -> Run {
    let mut run = Run::default();
    let (mut runtime, mut model, mut cache, mut fork, mut loaded) =
        (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
    let (mut sampler, mut stream, mut grammar, mut adapter) = (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut of_job, mut job, mut n_steps) = (null_mut(), null_mut(), 0);
    let (mut n, mut text, mut tokens, mut vectors, mut logprobs) =
        (0, [0 as c_char; 256], [0u32; 64], [0f32; 1024], [0f32; 8]);
    saved.bytes.clear();
    saved.at = 0;
    unsafe {
        let params = rz_runtime_params { threads: 2, ..sized() };
        let mut model_params: rz_model_params = sized();
        run.call("runtime", |e| rz_runtime_new(&params, &mut runtime, e));
        model_params.runtime = runtime;
        if run.call("load", |e| rz_model_load(path.as_ptr(), &model_params, &mut model, e)) {
            let mut info = sized::<rz_model_info>();
            run.call("info", |e| rz_model_info_get(model, &mut info, e));
            let json = c"{\"messages\": [{\"role\": \"user\", \"content\": \"Once upon a time\"}]}";
            let json_len = json.count_bytes();
            run.call("chat", |e| {
                rz_chat_render_into(model, json.as_ptr(), json_len, 0, text.as_mut_ptr(), 256, &mut n, null(), e)
            });
            run.call("chat tokens", |e| {
                rz_chat_tokenize_into(model, json.as_ptr(), json_len, 0, tokens.as_mut_ptr(), 64, &mut n, null(), e)
            });
            let (said, flags) = (c"Once upon a time", RZ_TOKENIZE_ADD_SPECIAL);
            let has_tokens = run.call("tokenize", |e| {
                rz_tokenize_into(model, said.as_ptr(), 16, flags, tokens.as_mut_ptr(), 64, &mut n, null(), e)
            });
            if has_tokens && run.call("cache", |e| rz_cache_new(model, null(), &mut cache, e)) {
                run.call("prefill", |e| rz_prefill(cache, tokens.as_ptr(), n, null(), e));
                let mut made = 0;
                let out = run.tokens.as_mut_ptr();
                run.call("generate", |e| rz_generate_into(cache, 261, null_mut(), out, 24, &mut made, null(), e));
                run.n_tokens = made;
                let hot = rz_sampler_params { temperature: 0.8, top_k: 5, ..sized() };
                if run.call("sampler", |e| rz_sampler_new(&hot, &mut sampler, e)) {
                    let mut next = 0;
                    run.call("decode", |e| rz_decode_token(cache, 403, sampler, &mut next, e));
                }
                let choices = c"[\" red and then red and then red\", \" blue\"]";
                run.call("grammar", |e| {
                    rz_grammar_new(
                        model,
                        RZ_GRAMMAR_CHOICES,
                        0,
                        choices.as_ptr(),
                        choices.count_bytes(),
                        null(),
                        &mut grammar,
                        e,
                    )
                });
                if !grammar.is_null() && run.call("job cache", |e| rz_cache_new(model, null(), &mut of_job, e)) {
                    let prompt = [1u32, 403, 261];
                    let params = rz_job_params {
                        tokens: prompt.as_ptr(),
                        n_tokens: prompt.len(),
                        grammar,
                        draft: RZ_DRAFT_MODEL,
                        draft_model: model,
                        ..sized()
                    };
                    if run.call("job", |e| rz_job_new(of_job, &params, &mut job, e)) {
                        while run.call("step", |e| rz_job_step(job, RZ_NO_LIMIT, e)) && n_steps < 100 {
                            n_steps += 1;
                        }
                        run.call("job text", |e| rz_job_text_into(job, text.as_mut_ptr(), 256, &mut n, e));
                    }
                }
                if run.call("fork", |e| rz_cache_fork(cache, &mut fork, e)) {
                    let mut next = [0; 2];
                    let both = [cache, fork];
                    run.call("batch", |e| {
                        rz_decode_batch(both.as_ptr(), [1, 2].as_ptr(), 2, null(), next.as_mut_ptr(), e)
                    });
                    run.call("shift", |e| rz_cache_shift(fork, 2, 3, e));
                    run.call("release", |e| rz_cache_release(cache, e));
                    run.call("score", |e| rz_score(fork, [5u32, 7, 9].as_ptr(), 3, logprobs.as_mut_ptr(), null(), e));
                    run.call("logprobs", |e| {
                        rz_top_logprobs(fork, 8, tokens.as_mut_ptr(), logprobs.as_mut_ptr(), &mut n, e)
                    });
                }
                if fork.is_null()
                    || run.call("save", |e| rz_cache_save(fork, Some(write), (&raw mut *saved).cast(), null(), e))
                {
                    run.call("restore", |e| {
                        let user = (&raw mut *saved).cast();
                        match saved.bytes.is_empty() {
                            true => RZ_OK,
                            false => rz_cache_load(model, null(), Some(read), user, null(), &mut loaded, e),
                        }
                    });
                }
                let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/story-adapter.gguf\0");
                if !fork.is_null()
                    && run.call("adapter", |e| rz_adapter_load(model, path.as_ptr().cast(), null(), &mut adapter, e))
                    && run.call("adapters", |e| rz_cache_adapters_set(fork, [adapter].as_ptr(), null(), 1, e))
                {
                    run.call("adapted prefill", |e| rz_prefill(fork, [1u32, 403, 261].as_ptr(), 3, null(), e));
                    let mut next = 0;
                    run.call("adapted decode", |e| rz_decode_token(fork, 378, null_mut(), &mut next, e));
                }
            }
            if run.call("stream", |e| rz_textstream_new(model, &mut stream, e)) {
                run.call("push", |e| rz_textstream_push_into(stream, 403, text.as_mut_ptr(), 256, &mut n, e));
            }
            let mean = rz_embed_params { struct_size: 16, pooling: RZ_POOLING_MEAN, flags: 0, reserved: 0 };
            let (texts, lengths) = ([[1u32, 7, 9].as_ptr()], [3]);
            run.call("embed", |e| {
                let (texts, lengths) = (texts.as_ptr(), lengths.as_ptr());
                rz_embed_into(model, &mean, texts, lengths, 1, vectors.as_mut_ptr(), 1024, &mut n, null(), e)
            });
        }
        rz_job_free(job);
        rz_cache_free(of_job);
        rz_grammar_free(grammar);
        rz_textstream_free(stream);
        rz_sampler_free(sampler);
        rz_adapter_free(adapter);
        rz_cache_free(loaded);
        rz_cache_free(cache);
        rz_cache_free(fork);
        rz_model_free(model);
        rz_runtime_free(runtime);
    }
    run
}

/// Tries allocations from `first` on, and prints each before it does.
unsafe fn child(path: &CString, first: u64, last: u64, step: u64) {
    let mut saved = Saved { bytes: Vec::with_capacity(32 << 20), at: 0 };
    let clean = unsafe { run(path, &mut saved) };
    assert!(!clean.failed && clean.n_tokens == 24, "{:?}", clean.odd);
    let mut out = std::io::stdout();
    let mut k = first;
    while k < last {
        writeln!(out, "try {k}").expect("a parent");
        out.flush().expect("a parent");
        FIRST.store(k / 2, Ordering::Relaxed);
        FOR_GOOD.store(k % 2 == 1, Ordering::Relaxed);
        COUNT.store(0, Ordering::Relaxed);
        ARMED.store(true, Ordering::Relaxed);
        let short = unsafe { run(path, &mut saved) };
        ARMED.store(false, Ordering::Relaxed);
        if let Some((name, status, message)) = short.odd {
            writeln!(out, "odd {name} {status} {message}").expect("a parent");
        }
        if (k / step).is_multiple_of(50) {
            let again = unsafe { run(path, &mut saved) };
            assert!(!again.failed && again.tokens == clean.tokens, "{k}: {:?}", again.odd);
        }
        k += step;
    }
    writeln!(out, "done").expect("a parent");
}

/// A plan tells what is taken then, within 2 %.
unsafe fn plans_are_kept(path: &CString) {
    for (capacity, n_caches, threads) in [(64, 1, 1), (512, 3, 2), (300, 0, 2)] {
        let (mut runtime, mut model, mut caches) = (null_mut(), null_mut(), [null_mut(); 3]);
        let runtime_params = rz_runtime_params { threads, ..sized() };
        let cache_params = rz_cache_params { struct_size: 16, capacity, k_type: 0, v_type: 0 };
        let mut plan = sized::<rz_model_plan>();
        let mut params: rz_model_params = zeroed();
        unsafe {
            calls::expect(RZ_OK, |e| rz_runtime_new(&runtime_params, &mut runtime, e));
            (params.struct_size, params.runtime) = (size_of::<rz_model_params>() as u32, runtime);
            let planned = Instant::now();
            calls::expect(RZ_OK, |e| {
                rz_model_plan_get(
                    path.as_ptr(),
                    null(),
                    0,
                    &params,
                    &cache_params,
                    n_caches,
                    &mut plan,
                    null_mut(),
                    0,
                    null_mut(),
                    e,
                )
            });
            let planned = planned.elapsed();
            let before = HELD.load(Ordering::Relaxed);
            PEAK.store(before, Ordering::Relaxed);
            calls::expect(RZ_OK, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
            let peak = PEAK.load(Ordering::Relaxed) - before;
            for cache in &mut caches[..n_caches as usize] {
                calls::expect(RZ_OK, |e| rz_cache_new(model, &cache_params, cache, e));
                calls::expect(RZ_OK, |e| rz_prefill(*cache, [1, 2, 3].as_ptr(), 3, null(), e));
            }
            let total = HELD.load(Ordering::Relaxed) - before;
            println!("plan in {planned:?}: {plan:?}; taken: {total}, while loading {peak}");
            // Scratch comes with the first step.
            let expected = plan.total_host - if n_caches == 0 { plan.scratch_host } else { 0 };
            for (name, found, expected) in [("total", total, expected), ("peak", peak, plan.load_peak_host)] {
                let ratio = found as f64 / expected as f64;
                assert!((ratio - 1.0).abs() < 0.02, "{name}: {found} taken, {expected} planned: {ratio}");
            }
            let both = calls::expect(RZ_ERR_INVALID_ARGUMENT, |e| {
                rz_model_plan_get(
                    null(),
                    null(),
                    0,
                    &params,
                    &cache_params,
                    n_caches,
                    &mut plan,
                    null_mut(),
                    0,
                    null_mut(),
                    e,
                )
            });
            assert!(both.contains("either"), "{both}");
            caches.iter().for_each(|cache| rz_cache_free(*cache));
            rz_model_free(model);
            rz_runtime_free(runtime);
        }
    }
    println!("test plans_are_kept ... ok");
}

fn main() {
    let model = calls::with_template(TEMPLATE);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<u64>().ok());
    let allocator = rz_allocator {
        struct_size: size_of::<rz_allocator>() as u32,
        reserved: 0,
        alloc: Some(alloc),
        free: Some(free),
        user: null_mut(),
    };
    unsafe {
        let mut err = calls::no_error();
        // What a program does first.
        assert!(rz_version_number() > 0 && rz_features() & !31 == 0);
        assert!(rz_abi_version() == RZ_ABI_VERSION && !rz_version().is_null() && !rz_status_name(0).is_null());
        let mut layout = calls::sized::<rz_layout>();
        assert_eq!(rz_layout_get(0, &mut layout, &mut err), RZ_OK);
        assert_eq!(rz_layout_get(u32::MAX, &mut layout, &mut err), RZ_ERR_NOT_FOUND);
        for _ in 0..2 {
            assert_eq!(rz_allocator_set(&allocator, &mut err), RZ_OK, "{}", calls::text_of(&err.message));
        }
        let another = rz_allocator { user: (&raw mut err).cast(), ..allocator };
        assert_eq!(rz_allocator_set(&another, &mut err), RZ_ERR_INVALID_ARGUMENT);
    }
    if arguments.first().is_some_and(|a| a == "child") {
        let path = CString::new(arguments[1].as_str()).expect("no NUL");
        return unsafe { child(&path, number(2).unwrap(), number(3).unwrap(), number(4).unwrap()) };
    }
    let path = CString::new(model.path().to_str().expect("UTF-8")).expect("no NUL");
    if number(0).is_none() {
        unsafe { plans_are_kept(&path) };
    }
    let mut saved = Saved { bytes: Vec::with_capacity(32 << 20), at: 0 };
    let mut held = [0; 60];
    for held in &mut held {
        unsafe { run(&path, &mut saved) };
        *held = HELD.load(Ordering::Relaxed);
    }
    // After the first runs, which fill what is kept for later, each ends with as much as some run before it. A byte
    // more a run would make every number a new one.
    let (before, after) = held[10..].split_at(30);
    let same = after.iter().filter(|held| before.contains(held)).count();
    assert!(same > after.len() / 2, "memory grows: {held:?}");
    ARMED.store(true, Ordering::Relaxed);
    let clean = unsafe { run(&path, &mut saved) };
    ARMED.store(false, Ordering::Relaxed);
    assert!(!clean.failed, "{:?}", clean.odd);
    let all = COUNT.load(Ordering::Relaxed);
    let (mut first, last) = (number(0).unwrap_or(0), number(1).unwrap_or(u64::MAX).min(2 * all));
    let step = number(2).unwrap_or(23);
    println!("{all} allocations in a run, {} bytes held between runs", HELD.load(Ordering::Relaxed));
    let (mut deaths, mut odd) = (Vec::new(), Vec::new());
    while first < last {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["child", model.path().to_str().expect("UTF-8")])
            .args([first, last, step].map(|n| n.to_string()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut k = first;
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("a line");
            match line.strip_prefix("try ") {
                Some(n) => k = n.parse().expect("a number"),
                None if line == "done" => k = last,
                None => odd.push(format!("{k}: {line}")),
            }
        }
        let output = child.wait_with_output().expect("a child that ends");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            deaths.push(format!("{k}: {}", said.trim().chars().take(1500).collect::<String>()));
        }
        first = k + step;
    }
    println!("{} of {} runs ended the process, {} had another status", deaths.len(), last / step, odd.len());
    odd.iter().take(20).for_each(|line| println!("  {line}"));
    deaths.iter().take(10).for_each(|line| println!("  {line}"));
    assert!(deaths.is_empty() && odd.is_empty());
    println!("test no_allocation_that_fails_ends_the_process ... ok");
}
