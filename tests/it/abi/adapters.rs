//! LoRA adapters through the C interface. The expected text is that of merged weights in an independent float64
//! implementation.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use super::host::*;
use realizar::ffi::adapter::*;
use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::saved::*;
use realizar::ffi::source::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;

const ADAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/story-adapter.gguf");
const STORY: &str = "Once upon a time, there was a little girl named Lily. She loved to ";
const PLAIN: &str = "play outside in the park. One day, she saw a big, red ball.";
const ADAPTED: &str =
    "draw animals with her family. One day, she went to the park with her mommy. They saw a big, red balloon in the";

fn load_adapter(model: *const rz_model) -> *mut rz_adapter {
    let (path, mut adapter) = (CString::new(ADAPTER).unwrap(), null_mut());
    expect(RZ_OK, |e| unsafe { rz_adapter_load(model, path.as_ptr(), null(), &mut adapter, e) });
    adapter
}

/// An adapter from memory computes what the one from its file does; a fired cancel ends either load.
#[test]
fn adapters_are_loaded_from_memory_and_cancelled() {
    let model = load();
    let bytes = std::fs::read(ADAPTER).expect("the adapter");
    let (data, size) = (bytes.as_ptr().cast(), bytes.len() as u64);
    let source = rz_source { kind: RZ_SOURCE_MEMORY, data, size, ..sized() };
    let (mut adapter, mut cancel, path) = (null_mut(), null_mut(), CString::new(ADAPTER).unwrap());
    let cache = new_cache(model, 128);
    unsafe {
        expect(RZ_OK, |e| rz_adapter_load_from(model, &source, 1, null(), &mut adapter, e));
        assert_eq!(set(cache, &[adapter], &[1.0]), RZ_OK);
        assert!(text(model, cache).starts_with(&format!("{STORY}{ADAPTED}")));
        let two = [source, source];
        refused("name is NULL", |e| rz_adapter_load_from(model, two.as_ptr(), 2, null(), &mut adapter, e));
        refused("0 sources", |e| rz_adapter_load_from(model, null(), 0, null(), &mut adapter, e));
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        rz_cancel_fire(cancel);
        let params = rz_adapter_params { struct_size: 16, flags: 0, cancel };
        let kept = adapter;
        expect(RZ_ERR_CANCELLED, |e| rz_adapter_load(model, path.as_ptr(), &params, &mut adapter, e));
        expect(RZ_ERR_CANCELLED, |e| rz_adapter_load_from(model, &source, 1, &params, &mut adapter, e));
        rz_cancel_reset(cancel);
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, 0, e));
        expect(RZ_ERR_DEADLINE, |e| rz_adapter_load(model, path.as_ptr(), &params, &mut adapter, e));
        assert_eq!(adapter, kept);
        let unknown = rz_adapter_params { flags: 1, ..params };
        expect(RZ_ERR_VERSION, |e| rz_adapter_load(model, path.as_ptr(), &unknown, &mut adapter, e));
        rz_adapter_free(adapter);
        rz_cache_free(cache);
        rz_cancel_free(cancel);
        rz_model_free(model);
    }
}

fn set(cache: *mut rz_cache, adapters: &[*mut rz_adapter], scales: &[f32]) -> rz_status {
    let mut err = no_error();
    unsafe { rz_cache_adapters_set(cache, adapters.as_ptr(), scales.as_ptr(), adapters.len(), &mut err) }
}

/// Returns the greedy text after the beginning of the story.
fn text(model: *const rz_model, cache: *mut rz_cache) -> String {
    let (start, mut tokens, mut n) = ("Once upon a time", [0u32; 100], 0);
    let (mut made, mut out, mut len) = (0, [0u8; 1000], 0);
    unsafe {
        expect(RZ_OK, |e| rz_cache_truncate(cache, 0, e));
        let special = RZ_TOKENIZE_ADD_SPECIAL;
        expect(RZ_OK, |e| {
            rz_tokenize_into(
                model,
                start.as_ptr().cast(),
                start.len(),
                special,
                tokens.as_mut_ptr(),
                100,
                &mut n,
                null(),
                e,
            )
        });
        expect(RZ_OK, |e| rz_prefill(cache, tokens.as_ptr(), n, null(), e));
        expect(RZ_OK, |e| rz_sample(cache, null_mut(), &mut tokens[n], e));
        let next = tokens[n];
        let rest = tokens[n + 1..].as_mut_ptr();
        expect(RZ_OK, |e| rz_generate_into(cache, next, null_mut(), rest, 60, &mut made, null(), e));
        let (tokens, n) = (tokens[1..].as_ptr(), n + made);
        expect(RZ_OK, |e| rz_detokenize_into(model, tokens, n, 0, out.as_mut_ptr().cast(), 1000, &mut len, e));
    }
    String::from_utf8(out[..len].to_vec()).unwrap().trim_start().to_owned()
}

#[test]
fn an_adapter_changes_a_cache_and_no_other() {
    let host = Host::new(128);
    let other = new_cache(host.model, 128);
    let adapter = load_adapter(host.model);
    assert_eq!(set(host.cache, &[adapter], &[1.0]), RZ_OK);
    let begins = |text: &str, end: &str| assert!(text.starts_with(&format!("{STORY}{end}")), "{text}");
    begins(&text(host.model, host.cache), ADAPTED);
    begins(&text(host.model, other), PLAIN);
    // Both in one batch, from the start on.
    let caches = [host.cache, other];
    let mut next = [BOS; 2];
    let mut fork = null_mut();
    unsafe {
        for cache in caches {
            expect(RZ_OK, |e| rz_cache_truncate(cache, 0, e));
        }
        for _ in 0..4 {
            let tokens = next;
            expect(RZ_OK, |e| rz_decode_batch(caches.as_ptr(), tokens.as_ptr(), 2, null(), next.as_mut_ptr(), e));
        }
        // Freed while caches use it; forks use it too, and a NULL list of scales is 1 each.
        expect(RZ_OK, |e| rz_cache_fork(host.cache, &mut fork, e));
        expect(RZ_OK, |e| rz_cache_adapters_set(other, &adapter, null(), 1, e));
        assert_eq!(rz_cache_len(other), 0);
        rz_adapter_free(adapter);
        rz_adapter_free(null_mut());
        for cache in [fork, other] {
            begins(&text(host.model, cache), ADAPTED);
        }
        expect(RZ_OK, |e| rz_cache_adapters_set(other, null(), null(), 0, e));
        begins(&text(host.model, other), PLAIN);
        rz_cache_free(fork);
        rz_cache_free(other);
    }
}

#[test]
fn wrong_arguments_are_refused_and_change_nothing() {
    let host = Host::new(64);
    let adapter = load_adapter(host.model);
    let stranger = load();
    let of_stranger = load_adapter(stranger);
    host.prefill(&[BOS, 403]);
    let (model, cache, one) = (host.model, host.cache, [1f32]);
    let path = CString::new(ADAPTER).unwrap();
    let mut out = null_mut();
    unsafe {
        refused("model is NULL", |e| rz_adapter_load(null(), path.as_ptr(), null(), &mut out, e));
        refused("path is NULL", |e| rz_adapter_load(model, null(), null(), &mut out, e));
        refused("out is NULL", |e| rz_adapter_load(model, path.as_ptr(), null(), null_mut(), e));
        refused("model is a handle of another kind", |e| {
            rz_adapter_load(cache.cast(), path.as_ptr(), null(), &mut out, e)
        });
        for (name, status) in [("/", RZ_ERR_IO), ("/no such file", RZ_ERR_IO), (MODEL, RZ_ERR_FORMAT)] {
            let path = CString::new(name).unwrap();
            expect(status, |e| rz_adapter_load(model, path.as_ptr(), null(), &mut out, e));
        }
        assert!(out.is_null());
        let text = load_text();
        refused("without its weights", |e| rz_adapter_load(text, path.as_ptr(), null(), &mut out, e));
        rz_model_free(text);

        refused("cache is NULL", |e| rz_cache_adapters_set(null_mut(), &adapter, one.as_ptr(), 1, e));
        refused("adapters is NULL", |e| rz_cache_adapters_set(cache, null(), one.as_ptr(), 1, e));
        refused("adapters[0]: adapter is NULL", |e| rz_cache_adapters_set(cache, &null_mut(), one.as_ptr(), 1, e));
        let swapped = [adapter, model.cast()];
        let scales = [1f32, f32::NAN];
        refused("adapters[1]: adapter is a handle of another kind", |e| {
            rz_cache_adapters_set(cache, swapped.as_ptr(), scales.as_ptr(), 2, e)
        });
        refused("larger than memory", |e| rz_cache_adapters_set(cache, &adapter, null(), usize::MAX, e));
        refused("the scale of adapter 1 is NaN", |e| {
            rz_cache_adapters_set(cache, [adapter; 2].as_ptr(), scales.as_ptr(), 2, e)
        });
        assert_eq!(set(cache, &[of_stranger], &[1.0]), RZ_ERR_MISMATCH);
        assert_eq!((host.len(), host.logits().len()), (2, 512));

        // A cache that a job has, and one that would be saved.
        let struct_size = size_of::<rz_job_params>() as u32;
        let tokens = [403u32];
        let params = rz_job_params { struct_size, max_tokens: 1, tokens: tokens.as_ptr(), n_tokens: 1, ..zeroed() };
        let mut job = null_mut();
        expect(RZ_OK, |e| rz_job_new(cache, &params, &mut job, e));
        assert_eq!(set(cache, &[adapter], &[1.0]), RZ_ERR_BUSY);
        rz_job_free(job);
        assert_eq!((set(cache, &[adapter], &[1.0]), host.len()), (RZ_OK, 0));
        unsafe extern "C" fn write(_: *const std::ffi::c_void, _: usize, _: *mut std::ffi::c_void) -> i32 {
            0
        }
        let said = expect(RZ_ERR_UNSUPPORTED, |e| rz_cache_save(cache, Some(write), null_mut(), null(), e));
        assert!(said.contains("adapters"), "{said}");

        rz_adapter_free(adapter);
        rz_model_free(stranger);
        rz_adapter_free(of_stranger);
    }
}
