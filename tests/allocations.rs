//! A decoded token allocates nothing, on any thread. No test harness, whose threads would allocate too.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use realizar::engine::{
    CacheParams, Chooser, LoadOptions, LoadParams, Model, Runtime, RuntimeParams, SamplerParams, Session,
};
use realizar::memory::{self, Host};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn alloc(size: usize, align: usize, _: *mut c_void) -> *mut c_void {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { System.alloc(Layout::from_size_align_unchecked(size, align)).cast() }
}

unsafe extern "C" fn free(p: *mut c_void, size: usize, align: usize, _: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { System.dealloc(p.cast(), Layout::from_size_align_unchecked(size, align)) }
}

/// Tokens that are decoded while allocations are counted.
const TOKENS: usize = 100;

fn main() {
    // SAFETY: what was allocated before is the system's as well.
    assert!(unsafe { memory::try_host(Host { alloc, free, user: null_mut() }) });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stories260K-f32.gguf");
    for threads in [1, 2] {
        let runtime = Runtime::new(RuntimeParams { threads, ..Default::default() }).unwrap();
        let model = Model::load(
            &path,
            LoadParams {
                runtime: Some(runtime),
                options: LoadOptions { device: 1, ..Default::default() },
                ..Default::default()
            },
        )
        .unwrap();
        let params = SamplerParams {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.9,
            typical_p: 0.99,
            top_n_sigma: 4.0,
            xtc_probability: 0.1,
            temperature_range: 0.2,
            mirostat_tau: 5.0,
            repeat_penalty: 1.1,
            dry_multiplier: 0.1,
            dry_breakers: vec![vec![13]],
            no_repeat_ngram_size: 8,
            banned_sequences: vec![vec![403, 407]],
            seed: 7,
            ..Default::default()
        };
        let mut sampler = Chooser::new(params).unwrap();
        let mut session = Session::new(&model, &CacheParams::default()).unwrap();
        session.prefill(&[1], None).unwrap();
        // The first token of each kind sets up scratch.
        let mut token = session.decode(5, None).unwrap();
        token = session.decode(token, Some(&mut sampler)).unwrap();
        // A worker that the system has not yet let run is still setting itself up.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for i in 0..TOKENS {
            token = session.decode(token, (i % 2 == 1).then_some(&mut sampler)).unwrap();
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "{allocations} allocations for {TOKENS} tokens on {threads} threads");
    }
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 100, "the counter counts");
    println!("test decoding_allocates_nothing ... ok");
}
