//! Every way to call a function wrongly that a C program finds: each gets the right status, a message that names what
//! and where, and nothing else has happened.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::device::*;
use realizar::ffi::generate::*;
use realizar::ffi::kernels::*;
use realizar::ffi::metrics::*;
use realizar::ffi::model::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;
use realizar::ffi::version::*;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf");
const BOS: u32 = 1;

fn no_error() -> rz_error {
    // As a C program would: not initialised to anything in particular.
    rz_error { code: 0x5555, system_code: 0x5555, message: [0x55; 504] }
}

fn text_of(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    String::from_utf8(bytes).expect("UTF-8")
}

/// Calls with an error record and compares the status; gives the message.
#[track_caller]
fn expect(status: rz_status, call: impl FnOnce(*mut rz_error) -> rz_status) -> String {
    let mut err = no_error();
    let got = call(&mut err);
    let message = text_of(&err.message);
    assert_eq!(got, status, "{message}");
    assert_eq!(err.code, got, "the record holds the status");
    assert_eq!(message.is_empty(), got >= 0, "a failure says what happened, a success nothing: {message:?}");
    message
}

#[track_caller]
fn refused(what: &str, call: impl FnOnce(*mut rz_error) -> rz_status) {
    let message = expect(RZ_ERR_INVALID_ARGUMENT, call);
    assert!(message.contains(what), "{message:?} does not name {what:?}");
}

fn load_with(path: &str, params: *const rz_model_params) -> *mut rz_model {
    let path = CString::new(path).expect("no NUL");
    let mut model = null_mut();
    expect(RZ_OK, |err| unsafe { rz_model_load(path.as_ptr(), params, &mut model, err) });
    model
}

fn load() -> *mut rz_model {
    load_with(MODEL, null())
}

/// Without its weights.
fn load_text() -> *mut rz_model {
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_TEXT_ONLY);
    load_with(MODEL, &params)
}

fn new_cache(model: *const rz_model, capacity: u32) -> *mut rz_cache {
    let params = rz_cache_params { struct_size: 16, capacity, k_type: 0, v_type: 0 };
    let mut cache = null_mut();
    expect(RZ_OK, |err| unsafe { rz_cache_new(model, &params, &mut cache, err) });
    cache
}

fn zeroed<T>() -> T {
    // Every struct of the header has all zeros among its values: that is the rule it is made by.
    unsafe { std::mem::zeroed() }
}

/// A model, a cache and what else a call needs; freed at the end, in an order of its own for each test.
struct Host {
    model: *mut rz_model,
    cache: *mut rz_cache,
}

impl Host {
    fn new(capacity: u32) -> Host {
        let model = load();
        Host { model, cache: new_cache(model, capacity) }
    }

    fn len(&self) -> u32 {
        unsafe { rz_cache_len(self.cache) }
    }

    fn prefill(&self, tokens: &[u32]) {
        expect(RZ_OK, |err| unsafe { rz_prefill(self.cache, tokens.as_ptr(), tokens.len(), null(), err) });
    }

    fn logits(&self) -> Vec<f32> {
        let mut logits = vec![0.0; 512];
        let mut n = 0;
        expect(RZ_OK, |err| unsafe { rz_logits_into(self.cache, logits.as_mut_ptr(), logits.len(), &mut n, err) });
        assert_eq!(n, 512);
        logits
    }

    fn decode(&self, token: u32) -> u32 {
        let mut next = u32::MAX;
        expect(RZ_OK, |err| unsafe { rz_decode_token(self.cache, token, null_mut(), &mut next, err) });
        next
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        unsafe {
            rz_model_free(self.model);
            rz_cache_free(self.cache);
        }
    }
}

#[test]
fn the_library_says_which_one_it_is() {
    assert_eq!(rz_abi_version(), RZ_ABI_VERSION);
    let version = unsafe { CStr::from_ptr(rz_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    let name = |status| unsafe { CStr::from_ptr(rz_status_name(status)) }.to_str().expect("UTF-8");
    assert_eq!(name(RZ_ERR_FORMAT), "RZ_ERR_FORMAT");
    assert_eq!(name(i32::MIN), "RZ_UNKNOWN");
}

#[test]
fn freeing_nothing_is_fine() {
    unsafe {
        rz_runtime_free(null_mut());
        rz_model_free(null_mut());
        rz_cache_free(null_mut());
        rz_sampler_free(null_mut());
        rz_textstream_free(null_mut());
        rz_cancel_free(null_mut());
        rz_cancel_fire(null_mut());
        rz_cancel_reset(null_mut());
        rz_kv_free(null_mut());
        rz_metrics_reset(null());
        assert_eq!(rz_cache_len(null()), 0);
        assert_eq!(rz_cache_capacity(null()), 0);
        assert_eq!(rz_token_is_end(null(), 2), 0);
    }
}

/// Each pointer that must not be NULL, one after the other.
#[test]
fn a_missing_pointer_is_named() {
    let host = Host::new(8);
    let Host { model, cache } = host;
    let (m, c) = (model.cast_const(), cache.cast_const());
    let (mut n, mut token, mut text, mut logits) = (0usize, 0u32, [0 as c_char; 8], [0f32; 8]);
    let tokens = [BOS];
    let key = c"general.name".as_ptr();
    unsafe {
        refused("out", |e| rz_runtime_new(null(), null_mut(), e));
        refused("rz_device_info", |e| rz_device_info_get(1, null_mut(), e));
        refused("path", |e| rz_model_load(null(), null(), &mut null_mut(), e));
        refused("out", |e| rz_model_load(c"x".as_ptr(), null(), null_mut(), e));
        refused("model", |e| rz_model_info_get(null(), &mut zeroed(), e));
        refused("rz_model_info", |e| rz_model_info_get(m, null_mut(), e));
        refused("model", |e| rz_model_meta_into(null(), key, text.as_mut_ptr(), 8, &mut n, e));
        refused("key", |e| rz_model_meta_into(m, null(), text.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_model_meta_into(m, key, null_mut(), 8, &mut n, e));
        refused("len", |e| rz_model_meta_into(m, key, text.as_mut_ptr(), 8, null_mut(), e));
        refused("model", |e| rz_cache_new(null(), null(), &mut null_mut(), e));
        refused("out", |e| rz_cache_new(m, null(), null_mut(), e));
        refused("cache", |e| rz_cache_truncate(null_mut(), 0, e));
        refused("cache", |e| rz_cache_fork(null(), &mut null_mut(), e));
        refused("out", |e| rz_cache_fork(c, null_mut(), e));
        refused("cache", |e| rz_prefill(null_mut(), tokens.as_ptr(), 1, null(), e));
        refused("tokens", |e| rz_prefill(cache, null(), 1, null(), e));
        refused("tokens", |e| rz_prefill(cache, null(), 0, null(), e));
        refused("cache", |e| rz_decode_token(null_mut(), BOS, null_mut(), &mut token, e));
        refused("next", |e| rz_decode_token(cache, BOS, null_mut(), null_mut(), e));
        refused("cache", |e| rz_generate_into(null_mut(), BOS, null_mut(), &mut token, 1, &mut n, null(), e));
        refused("out", |e| rz_generate_into(cache, BOS, null_mut(), null_mut(), 1, &mut n, null(), e));
        refused("n is", |e| rz_generate_into(cache, BOS, null_mut(), &mut token, 1, null_mut(), null(), e));
        refused("caches", |e| rz_decode_batch(null(), tokens.as_ptr(), 1, null(), &mut token, e));
        refused("caches", |e| rz_decode_batch(null(), null(), 0, null(), null_mut(), e));
        refused("tokens", |e| rz_decode_batch(&cache, null(), 1, null(), &mut token, e));
        refused("next", |e| rz_decode_batch(&cache, tokens.as_ptr(), 1, null(), null_mut(), e));
        refused("entry 1: cache", |e| {
            rz_decode_batch([cache, null_mut()].as_ptr(), [BOS; 2].as_ptr(), 2, null(), [0; 2].as_mut_ptr(), e)
        });
        refused("cache", |e| rz_logits_into(null(), logits.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_logits_into(c, null_mut(), 8, &mut n, e));
        refused("n is", |e| rz_logits_into(c, logits.as_mut_ptr(), 8, null_mut(), e));
        refused("cache", |e| rz_sample(null_mut(), null_mut(), &mut token, e));
        refused("token", |e| rz_sample(null_mut(), cache, null_mut(), e));
        refused("out", |e| rz_sampler_new(null(), null_mut(), e));
        refused("model", |e| rz_tokenize_into(null(), c"a".as_ptr(), 1, 0, &mut token, 1, &mut n, e));
        refused("text", |e| rz_tokenize_into(m, null(), 1, 0, &mut token, 1, &mut n, e));
        refused("out", |e| rz_tokenize_into(m, c"a".as_ptr(), 1, 0, null_mut(), 1, &mut n, e));
        refused("n is", |e| rz_tokenize_into(m, c"a".as_ptr(), 1, 0, &mut token, 1, null_mut(), e));
        refused("model", |e| rz_detokenize_into(null(), &token, 1, 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("tokens", |e| rz_detokenize_into(m, null(), 1, 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_detokenize_into(m, &token, 1, 0, null_mut(), 8, &mut n, e));
        refused("len", |e| rz_detokenize_into(m, &token, 1, 0, text.as_mut_ptr(), 8, null_mut(), e));
        refused("model", |e| rz_textstream_new(null(), &mut null_mut(), e));
        refused("out", |e| rz_textstream_new(m, null_mut(), e));
        refused("text stream", |e| rz_textstream_push_into(null_mut(), BOS, text.as_mut_ptr(), 8, &mut n, e));
        refused("text stream", |e| rz_textstream_flush_into(null_mut(), text.as_mut_ptr(), 8, &mut n, e));
        refused("model", |e| rz_chat_render_into(null(), null(), 0, 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("messages", |e| rz_chat_render_into(m, null(), 1, 0, text.as_mut_ptr(), 8, &mut n, e));
        let message = rz_chat_message { role: c"user".as_ptr(), content: null() };
        refused("messages[0].content", |e| rz_chat_render_into(m, &message, 1, 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_cancel_new(null_mut(), e));
        refused("out", |e| rz_kv_new(null(), null_mut(), e));
        refused("kv", |e| rz_kv_truncate(null_mut(), 0, e));
        refused("model", |e| rz_metrics_get(null(), &mut zeroed(), e));
        refused("rz_metrics", |e| rz_metrics_get(m, null_mut(), e));
    }
    assert_eq!(host.len(), 0);
}

#[test]
fn a_call_without_an_error_record_works_and_fails_as_with_one() {
    let mut cancel = null_mut();
    unsafe {
        assert_eq!(rz_cancel_new(&mut cancel, null_mut()), RZ_OK);
        rz_cancel_free(cancel);
        assert_eq!(rz_cancel_new(null_mut(), null_mut()), RZ_ERR_INVALID_ARGUMENT);
        assert_eq!(rz_model_load(c"/nowhere".as_ptr(), null(), &mut null_mut(), null_mut()), RZ_ERR_IO);
    }
}

#[test]
fn pointers_that_no_value_can_have_are_refused() {
    let host = Host::new(8);
    let mut n = 0;
    let odd = |address: usize| std::ptr::without_provenance_mut::<u8>(address);
    unsafe {
        refused("aligned", |e| rz_prefill(host.cache, odd(0x1001).cast(), 1, null(), e));
        refused("aligned", |e| rz_logits_into(host.cache, odd(0x1002).cast(), 512, &mut n, e));
        refused("aligned", |e| rz_cache_truncate(odd(0x1003).cast(), 0, e));
        refused("larger than memory", |e| rz_prefill(host.cache, odd(0x1000).cast(), usize::MAX, null(), e));
        refused("larger than memory", |e| rz_prefill(host.cache, odd(0x1000).cast(), usize::MAX / 4, null(), e));
    }
}

/// The rule for structs that grow: the smaller of the two sizes counts, and nothing is passed over in silence.
#[test]
fn parameter_structs_follow_their_size() {
    let model = load();
    let new = |size: u32, capacity: u32| {
        // Room behind the struct, as a newer header would have.
        let mut bytes = [0u32; 16];
        (bytes[0], bytes[1]) = (size, capacity);
        bytes
    };
    let cache = |bytes: &[u32; 16], status, expected: u32| {
        let mut cache = null_mut();
        let message = expect(status, |e| unsafe { rz_cache_new(model, bytes.as_ptr().cast(), &mut cache, e) });
        assert_eq!(cache.is_null(), status != RZ_OK);
        if status == RZ_OK {
            assert_eq!(unsafe { rz_cache_capacity(cache) }, expected);
        }
        unsafe { rz_cache_free(cache) };
        message
    };
    // Exact, longer with a zero tail, shorter: fields behind the end are defaults, and so is one that is cut in two.
    cache(&new(16, 7), RZ_OK, 7);
    cache(&new(64, 7), RZ_OK, 7);
    cache(&new(8, 7), RZ_OK, 7);
    cache(&new(4, 7), RZ_OK, 512);
    cache(&new(6, 7), RZ_OK, 512);
    let mut cut = new(12, 7);
    cut[3] = 999;
    cache(&cut, RZ_OK, 7);
    // Sizes that cannot be.
    for size in [0, 3, 4097, u32::MAX] {
        let message = cache(&new(size, 7), RZ_ERR_INVALID_ARGUMENT, 0);
        assert!(message.contains("struct_size") && message.contains("rz_cache_params"), "{message}");
    }
    // A field of the future.
    let mut newer = new(64, 7);
    newer[15] = 1;
    let message = cache(&newer, RZ_ERR_VERSION, 0);
    assert!(message.contains("rz_cache_params"), "{message}");
    newer[0] = 60;
    cache(&newer, RZ_OK, 7);
    unsafe { rz_model_free(model) };

    // A reserved field is one of the future too.
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.reserved) = (size_of::<rz_model_params>() as u32, 1);
    let path = CString::new(MODEL).expect("no NUL");
    expect(RZ_ERR_VERSION, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
}

#[test]
fn output_structs_follow_their_size() {
    let model = load();
    let mut info = [0xaaaa_aaaau32; 64];
    let mut get = |size: u32, tail: u32, status| {
        info.fill(0xaaaa_aaaa);
        info[0] = size;
        info[40..].fill(tail);
        let message = expect(status, |e| unsafe { rz_model_info_get(model, info.as_mut_ptr().cast(), e) });
        (info, message)
    };
    let (whole, _) = get(160, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(whole[0], 160, "struct_size stays as it was set");
    assert_eq!(whole[25..33], [5, 64, 172, 8, 4, 8, 512, 512], "layers, widths, heads, vocabulary, context");
    assert_eq!(whole[33..36], [1, 1, 2], "device, bos, eos");
    assert!(whole[40..].iter().all(|&w| w == 0xaaaa_aaaa));
    // An older header: what it does not know stays untouched.
    let (older, _) = get(108, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(older[25..27], [5, 64]);
    assert!(older[27..].iter().all(|&w| w == 0xaaaa_aaaa));
    // A field that is cut in two is not written.
    let (cut, _) = get(106, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(cut[25..27], [5, 0xaaaa_aaaa]);
    get(256, 0, RZ_OK);
    get(256, 1, RZ_ERR_VERSION);
    get(0, 0, RZ_ERR_INVALID_ARGUMENT);
    get(u32::MAX, 0, RZ_ERR_INVALID_ARGUMENT);
    unsafe { rz_model_free(model) };
}

#[test]
fn unknown_values_of_closed_sets_are_refused() {
    let model = load_text();
    let (mut n, mut token) = (0, 0);
    let mut cache = null_mut();
    for id in [2, 7, 9, 255, 257, u32::MAX] {
        let params = rz_cache_params { struct_size: 16, capacity: 0, k_type: id, v_type: 0 };
        refused("k_type", |e| unsafe { rz_cache_new(model, &params, &mut cache, e) });
        let params = rz_cache_params { k_type: 0, v_type: id, ..params };
        refused("v_type", |e| unsafe { rz_cache_new(model, &params, &mut cache, e) });
    }
    let mut params: rz_model_params = zeroed();
    let path = CString::new(MODEL).expect("no NUL");
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, 16);
    refused("flags", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    unsafe {
        refused("flags", |e| rz_tokenize_into(model, c"a".as_ptr(), 1, 4, &mut token, 1, &mut n, e));
        refused("flags", |e| rz_detokenize_into(model, &token, 1, 2, null_mut(), 0, &mut n, e));
        refused("flags", |e| rz_chat_render_into(model, null(), 0, 2, null_mut(), 0, &mut n, e));
        rz_model_free(model);
    }
}

#[test]
fn the_cpu_is_device_one() {
    let count = rz_device_count();
    assert!(count >= 1);
    let describe = |index| {
        let mut info: rz_device_info = zeroed();
        info.struct_size = size_of::<rz_device_info>() as u32;
        expect(RZ_OK, |e| unsafe { rz_device_info_get(index, &mut info, e) });
        assert_eq!(info.available == 1, text_of(&info.unavailable).is_empty());
        assert!(!text_of(&info.name).is_empty());
        info
    };
    let cpu = describe(1);
    assert_eq!((cpu.index, cpu.kind, cpu.available), (1, RZ_DEVICE_CPU, 1));
    assert!(cpu.memory_total >= cpu.memory_free);
    let chosen = describe(0);
    assert!(chosen.available == 1 && (1..=count).contains(&chosen.index));
    for index in 1..=count {
        assert_eq!(describe(index).index, index);
    }
    let mut info: rz_device_info = zeroed();
    info.struct_size = size_of::<rz_device_info>() as u32;
    for index in [count + 1, u32::MAX] {
        refused("device", |e| unsafe { rz_device_info_get(index, &mut info, e) });
    }
    let path = CString::new(MODEL).expect("no NUL");
    let mut params: rz_model_params = zeroed();
    params.struct_size = size_of::<rz_model_params>() as u32;
    params.device = count + 1;
    refused("device", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
}

#[test]
fn what_is_no_model_is_told_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    let whole = std::fs::read(MODEL).expect("the model");
    let mut bad_magic = whole.clone();
    bad_magic[0] ^= 1;
    let fails = |path: &Path, status: rz_status| {
        let name = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        let mut model = null_mut();
        let message = expect(status, |e| unsafe { rz_model_load(name.as_ptr(), null(), &mut model, e) });
        assert!(model.is_null(), "outputs are written on success only");
        assert!(message.contains(path.to_str().expect("UTF-8")), "{message}");
    };
    fails(&folder.path().join("missing.gguf"), RZ_ERR_IO);
    fails(&file("empty.gguf", b""), RZ_ERR_FORMAT);
    fails(&file("magic.gguf", &bad_magic), RZ_ERR_FORMAT);
    fails(&file("cut.gguf", &whole[..whole.len() / 2]), RZ_ERR_FORMAT);
    #[cfg(unix)]
    {
        let fifo = folder.path().join("fifo.gguf");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        if made.is_ok_and(|status| status.success()) {
            fails(&fifo, RZ_ERR_IO);
        }
        fails(Path::new("/dev/zero"), RZ_ERR_IO);
    }
    unsafe { refused("path is empty", |e| rz_model_load(c"".as_ptr(), null(), &mut null_mut(), e)) };
}

#[test]
fn text_is_utf8() {
    let model = load_text();
    let (mut n, mut token) = (0, 0);
    unsafe {
        refused("text is not UTF-8 at byte 2", |e| {
            rz_tokenize_into(model, c"ab\xff".as_ptr(), 3, 0, &mut token, 1, &mut n, e)
        });
        refused("key is not UTF-8 at byte 0", |e| {
            rz_model_meta_into(model, c"\xff".as_ptr(), null_mut(), 0, &mut n, e)
        });
        let message = rz_chat_message { role: c"\xc3".as_ptr(), content: c"".as_ptr() };
        refused("messages[0].role is not UTF-8", |e| {
            rz_chat_render_into(model, &message, 1, 0, null_mut(), 0, &mut n, e)
        });
        refused("no metadata key", |e| rz_model_meta_into(model, c"no.such".as_ptr(), null_mut(), 0, &mut n, e));
        rz_model_free(model);
    }
}

/// Asks for the size with nothing, fails with one too few, and gets all with enough.
#[test]
fn sizes_are_asked_for_in_two_calls() {
    let model = load_text();
    let key = c"general.architecture".as_ptr();
    let mut len = 0;
    let mut text = [0x55 as c_char; 8];
    unsafe {
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| rz_model_meta_into(model, key, null_mut(), 0, &mut len, e));
        assert_eq!(len, 5);
        len = 0;
        let message =
            expect(RZ_ERR_BUFFER_TOO_SMALL, |e| rz_model_meta_into(model, key, text.as_mut_ptr(), 4, &mut len, e));
        assert!(message.contains('4') && message.contains('5'), "{message}");
        assert_eq!((len, text), (5, [0x55; 8]));
        // A capacity that is larger than any memory is a caller who knows the size.
        expect(RZ_OK, |e| rz_model_meta_into(model, key, text.as_mut_ptr(), usize::MAX, &mut len, e));
        assert_eq!((len, text_of(&text[..5]).as_str(), text[5]), (5, "llama", 0x55));

        let hello = c"Once upon a time";
        let mut tokens = [u32::MAX; 32];
        let mut n = 0;
        let tokenize = |capacity, out: &mut [u32; 32], n: &mut usize, status| {
            expect(status, |e| rz_tokenize_into(model, hello.as_ptr(), 16, 1, out.as_mut_ptr(), capacity, n, e));
        };
        tokenize(1, &mut tokens, &mut n, RZ_ERR_BUFFER_TOO_SMALL);
        assert!(n > 1 && tokens == [u32::MAX; 32]);
        let needed = n;
        tokenize(n, &mut tokens, &mut n, RZ_OK);
        assert_eq!((n, tokens[0]), (needed, BOS));
        expect(RZ_OK, |e| rz_tokenize_into(model, null(), 0, 0, null_mut(), 0, &mut n, e));
        assert_eq!(n, 0, "no text, no tokens");

        let mut back = [0 as c_char; 64];
        expect(RZ_OK, |e| rz_detokenize_into(model, tokens.as_ptr(), needed, 0, back.as_mut_ptr(), 64, &mut len, e));
        assert_eq!(text_of(&back), "Once upon a time");
        refused("token", |e| rz_detokenize_into(model, &512, 1, 0, back.as_mut_ptr(), 64, &mut len, e));
        rz_model_free(model);
    }
}

/// Token by token the text is the same, however small the buffer was at first.
#[test]
fn a_text_stream_waits_for_room() {
    let model = load_text();
    let text = "Zoë said: naïve 🦀!";
    let mut tokens = [0; 64];
    let mut n = 0;
    let mut stream = null_mut();
    let mut collected = Vec::new();
    unsafe {
        expect(RZ_OK, |e| {
            rz_tokenize_into(model, text.as_ptr().cast(), text.len(), 0, tokens.as_mut_ptr(), 64, &mut n, e)
        });
        expect(RZ_OK, |e| rz_textstream_new(model, &mut stream, e));
        rz_model_free(model);
        for &token in &tokens[..n] {
            let mut len = usize::MAX;
            let mut out = [0u8; 64];
            let status = rz_textstream_push_into(stream, token, null_mut(), 0, &mut len, null_mut());
            assert_eq!(status == RZ_ERR_BUFFER_TOO_SMALL, len > 0);
            if status == RZ_ERR_BUFFER_TOO_SMALL {
                let needed = len;
                expect(RZ_OK, |e| rz_textstream_push_into(stream, token, out.as_mut_ptr().cast(), 64, &mut len, e));
                assert_eq!(len, needed);
            }
            assert!(std::str::from_utf8(&out[..len]).is_ok(), "whole characters only");
            collected.extend_from_slice(&out[..len]);
        }
        assert_eq!(std::str::from_utf8(&collected), Ok(text));

        // Half a character is held back until the end.
        let crab = (3..259).map(|id| (id, id - 3)).find(|&(_, byte)| byte == 0xf0).expect("a byte token").0;
        let (mut len, mut out) = (0, [0u8; 8]);
        expect(RZ_OK, |e| rz_textstream_push_into(stream, crab, out.as_mut_ptr().cast(), 8, &mut len, e));
        assert_eq!(len, 0);
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| rz_textstream_flush_into(stream, out.as_mut_ptr().cast(), 1, &mut len, e));
        expect(RZ_OK, |e| rz_textstream_flush_into(stream, out.as_mut_ptr().cast(), 8, &mut len, e));
        assert_eq!(&out[..len], "\u{fffd}".as_bytes());
        refused("token", |e| rz_textstream_push_into(stream, 512, out.as_mut_ptr().cast(), 8, &mut len, e));
        rz_textstream_free(stream);
    }
}

#[test]
fn a_model_without_weights_has_text_only() {
    let model = load_text();
    let (mut n, mut tokens) = (0, [0; 8]);
    let mut cache = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_tokenize_into(model, c"a".as_ptr(), 1, 0, tokens.as_mut_ptr(), 8, &mut n, e));
        refused("without its weights", |e| rz_cache_new(model, null(), &mut cache, e));
        assert_eq!((rz_token_is_end(model, 2), rz_token_is_end(model, 5), rz_token_is_end(model, u32::MAX)), (1, 0, 0));
        expect(RZ_ERR_UNSUPPORTED, |e| rz_chat_render_into(model, null(), 0, 0, null_mut(), 0, &mut n, e));
        rz_model_free(model);
    }
    assert!(cache.is_null());
}

/// The model with a chat template among its metadata.
fn with_template(template: &str) -> tempfile::NamedTempFile {
    let whole = std::fs::read(MODEL).expect("the model");
    let (header, rest) = whole.split_at(24);
    let mut bytes = header.to_vec();
    bytes[16] += 1; // one more key
    let mut text = |text: &str| {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    };
    text("tokenizer.chat_template");
    let key_end = 24 + 8 + "tokenizer.chat_template".len();
    // Spaces in a comment keep the tensors where the alignment of 32 wants them.
    let len = key_end + 4 + 8 + template.len() + "{##}".len();
    let template = format!("{template}{{#{}#}}", " ".repeat((32 - (len - 24) % 32) % 32));
    bytes.extend_from_slice(&8u32.to_le_bytes());
    bytes.extend_from_slice(&(template.len() as u64).to_le_bytes());
    bytes.extend_from_slice(template.as_bytes());
    bytes.extend_from_slice(rest);
    let file = tempfile::Builder::new().suffix(".gguf").tempfile().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("a file");
    file
}

/// Renders with a template; the status and the text or the message.
fn chat(template: &str) -> (rz_status, String) {
    let file = with_template(template);
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let message = |role: &'static CStr, content: &'static CStr| rz_chat_message {
        role: role.as_ptr(),
        content: content.as_ptr(),
    };
    let messages = [message(c"system", c"Be brief."), message(c"user", c"Gr\xc3\xbc\xc3\x9fe!")];
    let (mut text, mut len, mut err) = ([0u8; 256], 0, no_error());
    unsafe {
        let status =
            rz_chat_render_into(model, messages.as_ptr(), 2, 1, text.as_mut_ptr().cast(), 256, &mut len, &mut err);
        // Whatever the template is, the model goes on.
        let cache = new_cache(model, 4);
        expect(RZ_OK, |e| rz_decode_token(cache, BOS, null_mut(), &mut 0, e));
        rz_cache_free(cache);
        rz_model_free(model);
        let said =
            if status == RZ_OK { String::from_utf8_lossy(&text[..len]).into_owned() } else { text_of(&err.message) };
        (status, said)
    }
}

#[test]
fn a_chat_is_written_by_the_models_template() {
    let turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let prompt = "{% if add_generation_prompt %}<assistant>{% endif %}";
    let (status, text) = chat(&format!("{turns}{prompt}"));
    assert_eq!((status, text.as_str()), (RZ_OK, "<system>Be brief.<user>Grüße!<assistant>"));
    let (status, message) = chat("{{ raise_exception('no system turns here') }}");
    assert!(status == RZ_ERR_INVALID_ARGUMENT && message.contains("no system turns here"), "{status} {message}");
    let (status, message) = chat("{% for m in messages %}");
    assert_eq!(status, RZ_ERR_UNSUPPORTED, "{message}");
    for endless in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000000 }}",
    ] {
        let (status, message) = chat(endless);
        assert!([RZ_ERR_INVALID_ARGUMENT, RZ_ERR_LIMIT].contains(&status), "{status} {message}");
    }
}

/// After each failure the cache is as it was: its length, its logits, and what it says next.
#[test]
fn a_failed_call_changes_nothing() {
    let host = Host::new(6);
    let (mut n, mut token, mut many) = (0, u32::MAX, [u32::MAX; 16]);
    unsafe {
        refused("logits", |e| rz_logits_into(host.cache, null_mut(), 0, &mut n, e));
        refused("logits", |e| rz_sample(null_mut(), host.cache, &mut token, e));
        host.prefill(&[BOS, 403, 407]);
        let before = host.logits();
        let unchanged = || {
            assert_eq!(host.len(), 3);
            assert_eq!(host.logits(), before);
        };
        refused("token 512", |e| rz_prefill(host.cache, [BOS, 512].as_ptr(), 2, null(), e));
        unchanged();
        let message = expect(RZ_ERR_CONTEXT_FULL, |e| rz_prefill(host.cache, [BOS; 4].as_ptr(), 4, null(), e));
        assert!(message.contains('3') && message.contains('6') && message.contains('4'), "{message}");
        unchanged();
        refused("token 4294967295", |e| rz_decode_token(host.cache, u32::MAX, null_mut(), &mut token, e));
        refused("rewound", |e| rz_cache_truncate(host.cache, 4, e));
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| rz_logits_into(host.cache, before.as_ptr().cast_mut(), 511, &mut n, e));
        assert_eq!(n, 512);
        unchanged();
        assert_eq!(token, u32::MAX, "outputs are written on success only");

        // A sampler for another vocabulary.
        let bias = rz_logit_bias { token: 512, bias: 1.0 };
        let params = rz_sampler_params {
            struct_size: size_of::<rz_sampler_params>() as u32,
            biases: &bias,
            n_biases: 1,
            ..zeroed()
        };
        let mut sampler = null_mut();
        expect(RZ_OK, |e| rz_sampler_new(&params, &mut sampler, e));
        refused("token 512", |e| rz_decode_token(host.cache, BOS, sampler, &mut token, e));
        refused("token 512", |e| rz_sample(sampler, host.cache, &mut token, e));
        refused("token 512", |e| rz_decode_batch(&host.cache, &BOS, 1, &sampler, &mut token, e));
        rz_sampler_free(sampler);
        unchanged();
        assert_eq!(token, u32::MAX);

        let mut cancel = null_mut();
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        rz_cancel_fire(cancel);
        expect(RZ_ERR_CANCELLED, |e| rz_prefill(host.cache, [BOS].as_ptr(), 1, cancel, e));
        unchanged();
        expect(RZ_ERR_CANCELLED, |e| {
            rz_generate_into(host.cache, BOS, null_mut(), many.as_mut_ptr(), 16, &mut n, cancel, e)
        });
        assert_eq!(n, 0);
        unchanged();
        rz_cancel_reset(cancel);

        // Room for three more: three tokens come, then the cache is full, and what was made is kept.
        expect(RZ_ERR_CONTEXT_FULL, |e| {
            rz_generate_into(host.cache, 261, null_mut(), many.as_mut_ptr(), 16, &mut n, cancel, e)
        });
        assert_eq!((n, host.len(), many[3]), (3, 6, u32::MAX));
        rz_cancel_free(cancel);
        let again = Host::new(16);
        again.prefill(&[BOS, 403, 407]);
        assert_eq!([again.decode(261), again.decode(many[0]), again.decode(many[1])], many[..3]);

        // Clearing begins a new text.
        expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
        refused("logits", |e| rz_sample(null_mut(), host.cache, &mut token, e));
        host.prefill(&[BOS, 403, 407]);
        assert_eq!(host.logits(), before);
    }
}

#[test]
fn a_batch_takes_each_cache_once() {
    let (a, b) = (Host::new(8), Host::new(8));
    let second = new_cache(a.model, 8);
    let mut next = [u32::MAX; 2];
    let mut sampler = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_sampler_new(null(), &mut sampler, e));
        refused("twice", |e| {
            rz_decode_batch([a.cache, a.cache].as_ptr(), [BOS; 2].as_ptr(), 2, null(), next.as_mut_ptr(), e)
        });
        refused("sampler occurs twice", |e| {
            let samplers = [sampler; 2];
            rz_decode_batch([a.cache, second].as_ptr(), [BOS; 2].as_ptr(), 2, samplers.as_ptr(), next.as_mut_ptr(), e)
        });
        expect(RZ_ERR_MISMATCH, |e| {
            rz_decode_batch([a.cache, b.cache].as_ptr(), [BOS; 2].as_ptr(), 2, null(), next.as_mut_ptr(), e)
        });
        refused("token 512", |e| {
            rz_decode_batch([a.cache, second].as_ptr(), [BOS, 512].as_ptr(), 2, null(), next.as_mut_ptr(), e)
        });
        assert_eq!((a.len(), rz_cache_len(second), next), (0, 0, [u32::MAX; 2]));

        let samplers = [null_mut(), sampler];
        expect(RZ_OK, |e| {
            // In place: the tokens that follow take the place of those that were appended.
            next = [BOS, 403];
            rz_decode_batch([a.cache, second].as_ptr(), next.as_ptr(), 2, samplers.as_ptr(), next.as_mut_ptr(), e)
        });
        assert_eq!((a.len(), rz_cache_len(second)), (1, 1));
        assert_eq!(next, [b.decode(BOS), new_host_says(a.model, 403)], "as one by one");
        rz_sampler_free(sampler);
        rz_cache_free(second);
    }
}

fn new_host_says(model: *mut rz_model, token: u32) -> u32 {
    let cache = new_cache(model, 4);
    let mut next = 0;
    expect(RZ_OK, |e| unsafe { rz_decode_token(cache, token, null_mut(), &mut next, e) });
    unsafe { rz_cache_free(cache) };
    next
}

/// Handles may go in any order: each keeps alive what it needs.
#[test]
fn handles_are_freed_in_any_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let (mut runtime, mut model, mut cache, mut fork) = (null_mut(), null_mut(), null_mut(), null_mut());
        unsafe {
            let mut params: rz_runtime_params = zeroed();
            (params.struct_size, params.threads) = (size_of::<rz_runtime_params>() as u32, 3);
            expect(RZ_OK, |e| rz_runtime_new(&params, &mut runtime, e));
            let mut params: rz_model_params = zeroed();
            (params.struct_size, params.runtime) = (size_of::<rz_model_params>() as u32, runtime);
            let path = CString::new(MODEL).expect("no NUL");
            expect(RZ_OK, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
            expect(RZ_OK, |e| rz_cache_new(model, null(), &mut cache, e));
            expect(RZ_OK, |e| rz_prefill(cache, [BOS, 403].as_ptr(), 2, null(), e));
            expect(RZ_OK, |e| rz_cache_fork(cache, &mut fork, e));
            for (i, what) in order.into_iter().enumerate() {
                match what {
                    0 => rz_runtime_free(runtime),
                    1 => rz_model_free(model),
                    2 => rz_cache_free(cache),
                    _ => rz_cache_free(fork),
                }
                let left = &order[i + 1..];
                for (handle, number) in [(cache, 2), (fork, 3)] {
                    if left.contains(&number) {
                        let mut next = 0;
                        expect(RZ_OK, |e| rz_decode_token(handle, 403, null_mut(), &mut next, e));
                    }
                }
            }
        }
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let host = Host::new(8);
    host.prefill(&[BOS, 403, 407]);
    let mut fork = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cache_fork(host.cache, &mut fork, e) });
    let fork = Host { model: null_mut(), cache: fork };
    assert_eq!((fork.len(), fork.logits()), (3, host.logits()));
    let expected = host.decode(261);
    assert_eq!((fork.len(), host.len()), (3, 4));
    assert_eq!(fork.decode(261), expected);
}

/// Two threads, one cache: a second call never waits and never harms, it is told that the cache is in use.
#[test]
fn a_second_call_is_told_that_the_first_runs() {
    let host = Host::new(512);
    let cache = Shared(host.cache);
    let seen = AtomicBool::new(false);
    let prompt = [BOS; 400];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let cache = &cache;
            while !seen.load(Ordering::Relaxed) {
                let status = unsafe { rz_prefill(cache.0, prompt.as_ptr(), prompt.len(), null(), null_mut()) };
                assert!(status == RZ_OK || status == RZ_ERR_BUSY || status == RZ_ERR_CONTEXT_FULL, "{status}");
                unsafe { rz_cache_truncate(cache.0, 0, null_mut()) };
            }
        });
        let mut err = no_error();
        while unsafe { rz_cache_truncate(cache.0, 0, &mut err) } != RZ_ERR_BUSY {}
        assert_eq!(text_of(&err.message), "cache is in use by another call");
        // Asking for the length is not a call that waits or fails.
        assert!(host.len() <= 512);
        seen.store(true, Ordering::Relaxed);
    });
    // The other handles of the call stay free.
    expect(RZ_OK, |e| unsafe { rz_cache_truncate(cache.0, 0, e) });
    host.decode(BOS);
}

/// A pointer that threads may share, as the header says they may.
struct Shared(*mut rz_cache);
unsafe impl Sync for Shared {}

/// Cancelled at moments of no choosing: what was made is kept, and what follows is what would have followed.
#[test]
fn a_cancel_from_another_thread_loses_nothing() {
    let host = Host::new(512);
    let mut whole = [0; 256];
    let (mut n, mut cancel) = (0, null_mut());
    unsafe {
        let generate = |cache, token, out: &mut [u32], n: &mut usize, cancel| {
            rz_generate_into(cache, token, null_mut(), out.as_mut_ptr(), out.len(), n, cancel, null_mut())
        };
        assert!(generate(host.cache, BOS, &mut whole, &mut n, null()) >= 0);
        let whole = &whole[..n];
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        let firing = Firing(cancel);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let firing = &firing;
                while !done.load(Ordering::Relaxed) {
                    rz_cancel_fire(firing.0);
                    std::thread::yield_now();
                }
            });
            let mut cancelled = 0;
            while cancelled < 20 {
                expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
                let mut made = vec![BOS];
                while made.len() <= whole.len() {
                    let mut out = vec![0; whole.len() + 1 - made.len()];
                    rz_cancel_reset(cancel);
                    match generate(host.cache, made[made.len() - 1], &mut out, &mut n, cancel) {
                        RZ_ERR_CANCELLED => cancelled += 1,
                        status => assert!(status >= 0, "{status}"),
                    }
                    assert_eq!(host.len() as usize, made.len() - 1 + n);
                    made.extend_from_slice(&out[..n]);
                }
                assert_eq!(&made[1..], whole);
            }
            done.store(true, Ordering::Relaxed);
        });
        rz_cancel_free(cancel);
    }
}

struct Firing(*mut rz_cancel);
unsafe impl Sync for Firing {}

/// A handle that is freed while a call uses it goes when that call ends.
#[test]
fn freeing_in_the_middle_of_a_call_is_harmless() {
    for _ in 0..20 {
        let model = load();
        let cache = Shared(new_cache(model, 512));
        std::thread::scope(|scope| {
            let cache = &cache;
            let caller = scope.spawn(move || {
                let tokens = [BOS; 400];
                unsafe { rz_prefill(cache.0, tokens.as_ptr(), tokens.len(), null(), null_mut()) }
            });
            // Busy shows that the call has begun; only then may its handle go.
            while !caller.is_finished() && unsafe { rz_cache_truncate(cache.0, 0, null_mut()) } != RZ_ERR_BUSY {}
            unsafe {
                rz_cache_free(cache.0);
                rz_model_free(model);
            }
            assert!([RZ_OK, RZ_ERR_BUSY].contains(&caller.join().expect("no panic")));
        });
    }
}

extern "C" fn count_progress(done: u64, total: u64, user: *mut c_void) -> i32 {
    let seen = unsafe { &*user.cast::<AtomicU64>() };
    assert!(done <= total && total > 0);
    seen.fetch_add(1, Ordering::Relaxed);
    0
}

extern "C" fn stop(_done: u64, _total: u64, _user: *mut c_void) -> i32 {
    1
}

#[test]
fn a_load_tells_its_progress_and_can_be_stopped() {
    let seen = AtomicU64::new(0);
    let mut params: rz_model_params = zeroed();
    params.struct_size = size_of::<rz_model_params>() as u32;
    params.progress = Some(count_progress);
    params.progress_user = (&raw const seen).cast_mut().cast();
    let model = load_with(MODEL, &params);
    unsafe { rz_model_free(model) };
    assert!(seen.load(Ordering::Relaxed) > 0);

    let path = CString::new(MODEL).expect("no NUL");
    let mut model = null_mut();
    params.progress = Some(stop);
    expect(RZ_ERR_CANCELLED, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut model, e) });
    let mut cancel = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        rz_cancel_fire(cancel);
        (params.progress, params.cancel) = (None, cancel);
        expect(RZ_ERR_CANCELLED, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        rz_cancel_free(cancel);
    }
    assert!(model.is_null());
}

#[test]
fn a_runtime_refuses_what_no_machine_has() {
    let mut runtime = null_mut();
    let cpus = [u32::MAX];
    let valid = rz_runtime_params { struct_size: size_of::<rz_runtime_params>() as u32, ..zeroed() };
    unsafe {
        refused("cpus", |e| rz_runtime_new(&rz_runtime_params { n_cpus: 1, ..valid }, &mut runtime, e));
        let params = rz_runtime_params { cpus: cpus.as_ptr(), n_cpus: 1, threads: 2, ..valid };
        expect(RZ_ERR_INVALID_ARGUMENT, |e| rz_runtime_new(&params, &mut runtime, e));
        expect(RZ_ERR_INVALID_ARGUMENT, |e| {
            rz_runtime_new(&rz_runtime_params { threads: u32::MAX, ..valid }, &mut runtime, e)
        });
        assert!(runtime.is_null());
    }
}

/// A ceiling holds for weights and caches together.
#[test]
fn a_ceiling_of_memory_holds() {
    let path = CString::new(MODEL).expect("no NUL");
    let (mut runtime, mut model, mut cache) = (null_mut(), null_mut(), null_mut());
    let runtime_with = |limit: u64, runtime: &mut *mut rz_runtime| {
        let mut params: rz_runtime_params = zeroed();
        (params.struct_size, params.threads, params.memory_limit) = (size_of::<rz_runtime_params>() as u32, 1, limit);
        expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, runtime, e) });
    };
    let mut params: rz_model_params = zeroed();
    params.struct_size = size_of::<rz_model_params>() as u32;
    unsafe {
        runtime_with(100_000, &mut runtime);
        params.runtime = runtime;
        expect(RZ_ERR_LIMIT, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        rz_runtime_free(runtime);
        runtime_with(4 << 20, &mut runtime);
        params.runtime = runtime;
        expect(RZ_OK, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        let params = rz_cache_params { struct_size: 16, capacity: 1 << 20, k_type: 0, v_type: 0 };
        expect(RZ_ERR_LIMIT, |e| rz_cache_new(model, &params, &mut cache, e));
        assert!(cache.is_null());
        rz_runtime_free(runtime);
        rz_model_free(model);
    }
}

/// What no machine has is refused before anything is touched; a system that promises all memory may grant it.
#[test]
fn a_cache_larger_than_memory_is_refused() {
    let model = load();
    let params = rz_cache_params { struct_size: 16, capacity: u32::MAX, k_type: RZ_CACHE_TYPE_F32, v_type: 0 };
    let (mut cache, mut err) = (null_mut(), no_error());
    unsafe {
        let status = rz_cache_new(model, &params, &mut cache, &mut err);
        assert!(status == RZ_ERR_OUT_OF_MEMORY || status == RZ_OK, "{status} {}", text_of(&err.message));
        assert_eq!(cache.is_null(), status != RZ_OK);
        rz_cache_free(cache);
        rz_model_free(model);
    }
}

#[test]
fn a_sampler_refuses_what_is_no_number() {
    let mut sampler = null_mut();
    let valid: rz_sampler_params = rz_sampler_params { struct_size: size_of::<rz_sampler_params>() as u32, ..zeroed() };
    let bias = rz_logit_bias { token: 5, bias: f32::NAN };
    let wrong = [
        rz_sampler_params { temperature: f32::NAN, ..valid },
        rz_sampler_params { temperature: -1.0, ..valid },
        rz_sampler_params { top_p: 1.5, ..valid },
        rz_sampler_params { min_p: -0.1, ..valid },
        rz_sampler_params { repeat_penalty: f32::INFINITY, ..valid },
        rz_sampler_params { biases: &bias, n_biases: 1, ..valid },
    ];
    for params in &wrong {
        expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_sampler_new(params, &mut sampler, e) });
    }
    let params = rz_sampler_params { biases: null(), n_biases: 1, ..valid };
    refused("biases", |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    assert!(sampler.is_null());
}

/// A forbidden token does not come, and the same seed makes the same choices.
#[test]
fn a_sampler_chooses_by_its_parameters() {
    let host = Host::new(32);
    host.prefill(&[BOS, 403, 407]);
    let choose = |params: &rz_sampler_params| {
        let (mut sampler, mut tokens) = (null_mut(), [0; 16]);
        unsafe {
            expect(RZ_OK, |e| rz_sampler_new(params, &mut sampler, e));
            for token in &mut tokens {
                expect(RZ_OK, |e| rz_sample(sampler, host.cache, token, e));
            }
            rz_sampler_free(sampler);
        }
        tokens
    };
    let greedy: rz_sampler_params =
        rz_sampler_params { struct_size: size_of::<rz_sampler_params>() as u32, ..zeroed() };
    let best = choose(&greedy)[0];
    assert_eq!(choose(&greedy), [best; 16]);
    let bias = rz_logit_bias { token: best, bias: f32::NEG_INFINITY };
    let without = choose(&rz_sampler_params { biases: &bias, n_biases: 1, ..greedy });
    assert!(!without.contains(&best));
    let hot = rz_sampler_params { temperature: 2.0, seed: 7, ..greedy };
    assert_eq!(choose(&hot), choose(&hot));
    assert_ne!(choose(&hot), choose(&rz_sampler_params { seed: 8, ..hot }));
}

#[test]
fn what_was_done_is_counted() {
    let host = Host::new(16);
    let read = || {
        let mut metrics: rz_metrics = zeroed();
        metrics.struct_size = size_of::<rz_metrics>() as u32;
        expect(RZ_OK, |e| unsafe { rz_metrics_get(host.model, &mut metrics, e) });
        metrics
    };
    assert_eq!((read().load.count, read().cpu.dispatches), (1, 0));
    host.prefill(&[BOS, 403, 407]);
    host.decode(261);
    host.decode(BOS);
    let metrics = read();
    let cpu = metrics.cpu;
    assert_eq!((cpu.dispatches, metrics.cuda.dispatches), (3, 0));
    assert_eq!((metrics.prefill.count, metrics.decode.count), (1, 2));
    assert_eq!(cpu.latency_histogram.iter().sum::<u64>(), 3);
    assert!(cpu.latency_min_ns <= cpu.latency_max_ns && cpu.latency_sum_ns >= cpu.latency_max_ns && cpu.bytes > 0);
    assert!((cpu.latency_mean_ns - cpu.latency_sum_ns as f64 / 3.0).abs() < 1.0);
    unsafe { rz_metrics_reset(host.model) };
    assert_eq!((read().cpu.dispatches, read().load.count, read().decode.sum_ns), (0, 0, 0));
}

#[test]
fn kernels_refuse_what_does_not_fit() {
    let shape = rz_attention_params {
        struct_size: size_of::<rz_attention_params>() as u32,
        num_heads: 2,
        num_kv_heads: 1,
        head_dim: 4,
        ..zeroed()
    };
    let (q, k, v, mut out) = ([1f32; 8], [1f32; 4], [2f32; 4], [0f32; 8]);
    let attend = |params: *const rz_attention_params, cache_len: usize, out: *mut f32, e| unsafe {
        rz_attention_gqa_into(params, q.as_ptr(), null(), null(), cache_len, k.as_ptr(), v.as_ptr(), out, e)
    };
    expect(RZ_OK, |e| attend(&shape, 0, out.as_mut_ptr(), e));
    assert_eq!(out, [2.0; 8], "alone, a position sees its own value");
    refused("k_cache", |e| attend(&shape, 1, out.as_mut_ptr(), e));
    refused("cache_len", |e| attend(&shape, usize::MAX, out.as_mut_ptr(), e));
    refused("out overlaps q", |e| attend(&shape, 0, q.as_ptr().cast_mut(), e));
    refused("head", |e| {
        attend(&rz_attention_params { num_heads: 3, num_kv_heads: 2, ..shape }, 0, out.as_mut_ptr(), e)
    });
    for broken in [
        rz_attention_params { num_heads: 0, ..shape },
        rz_attention_params { num_kv_heads: 0, ..shape },
        rz_attention_params { head_dim: 0, ..shape },
        rz_attention_params { num_heads: u32::MAX, head_dim: u32::MAX, ..shape },
        rz_attention_params { scale: f32::NAN, ..shape },
        rz_attention_params { device: 99, ..shape },
    ] {
        expect(RZ_ERR_INVALID_ARGUMENT, |e| attend(&broken, 0, out.as_mut_ptr(), e));
    }
    refused("0 heads", |e| attend(null(), 0, out.as_mut_ptr(), e));

    let weights = [1f32, 2.0, 3.0, 4.0];
    let (x, mut y) = ([10f32, 100.0], [0f32; 2]);
    unsafe {
        expect(RZ_OK, |e| rz_matvec_into(0, weights.as_ptr().cast(), 2, 2, x.as_ptr(), y.as_mut_ptr(), e));
        assert_eq!(y, [210.0, 430.0]);
        expect(RZ_ERR_UNSUPPORTED, |e| {
            rz_matvec_into(999, weights.as_ptr().cast(), 2, 2, x.as_ptr(), y.as_mut_ptr(), e)
        });
        refused("multiple", |e| rz_matvec_into(8, weights.as_ptr().cast(), 1, 2, x.as_ptr(), y.as_mut_ptr(), e));
        for (rows, cols) in [(usize::MAX, 2), (1 << 62, 4), (2, usize::MAX)] {
            expect(RZ_ERR_INVALID_ARGUMENT, |e| {
                rz_matvec_into(0, weights.as_ptr().cast(), rows, cols, x.as_ptr(), y.as_mut_ptr(), e)
            });
        }
        refused("weights", |e| rz_matvec_into(0, null(), 2, 2, x.as_ptr(), y.as_mut_ptr(), e));
        expect(RZ_OK, |e| rz_dequantize_into(0, weights.as_ptr().cast(), 2, y.as_mut_ptr(), e));
        assert_eq!(y, [1.0, 2.0]);
        expect(RZ_OK, |e| rz_dequantize_into(0, null(), 0, null_mut(), e));
        refused("overlaps blocks", |e| rz_dequantize_into(0, y.as_ptr().cast(), 2, y.as_mut_ptr(), e));
        expect(RZ_ERR_UNSUPPORTED, |e| rz_dequantize_into(4, weights.as_ptr().cast(), 2, y.as_mut_ptr(), e));
    }
}

#[test]
fn a_kv_store_fills_up() {
    let shape = rz_kv_params {
        struct_size: size_of::<rz_kv_params>() as u32,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        max_len: 2,
        r#type: RZ_CACHE_TYPE_F32,
        device: 0,
    };
    let mut kv = null_mut();
    for broken in [
        rz_kv_params { layers: 0, ..shape },
        rz_kv_params { heads: 0, ..shape },
        rz_kv_params { heads: 3, kv_heads: 2, ..shape },
        rz_kv_params { head_dim: 0, ..shape },
        rz_kv_params { max_len: 0, ..shape },
        rz_kv_params { r#type: 5, ..shape },
        rz_kv_params { device: 99, ..shape },
    ] {
        expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_kv_new(&broken, &mut kv, e) });
    }
    let huge = rz_kv_params { layers: u32::MAX, max_len: u32::MAX, head_dim: 1 << 16, ..shape };
    let mut err = no_error();
    let status = unsafe { rz_kv_new(&huge, &mut kv, &mut err) };
    assert!(status == RZ_ERR_OUT_OF_MEMORY || status == RZ_ERR_INVALID_ARGUMENT, "{}", text_of(&err.message));
    assert!(kv.is_null());

    let (q, k, mut out, mut len) = ([0f32; 8], [1f32; 4], [0f32; 8], 0);
    unsafe {
        expect(RZ_OK, |e| rz_kv_new(&shape, &mut kv, e));
        let mut attend = |layer, value: f32, status| {
            let v = [value; 4];
            let call =
                |e| rz_kv_attend_into(kv, layer, q.as_ptr(), k.as_ptr(), v.as_ptr(), out.as_mut_ptr(), &mut len, e);
            let message = expect(status, call);
            (out[0], len, message)
        };
        assert_eq!(attend(0, 1.0, RZ_OK).1, 1);
        let (mean, filled, _) = attend(0, 3.0, RZ_OK);
        assert_eq!((mean, filled), (2.0, 2), "equal scores, so the mean");
        attend(0, 5.0, RZ_ERR_CONTEXT_FULL);
        assert_eq!(attend(1, 7.0, RZ_OK).1, 1, "the other layer has room");
        assert!(attend(2, 0.0, RZ_ERR_INVALID_ARGUMENT).2.contains("layer 2"));
        refused("", |e| rz_kv_truncate(kv, 3, e));
        expect(RZ_OK, |e| rz_kv_truncate(kv, 1, e));
        let v = [5f32; 4];
        expect(RZ_OK, |e| rz_kv_attend_into(kv, 0, q.as_ptr(), k.as_ptr(), v.as_ptr(), out.as_mut_ptr(), &mut len, e));
        assert_eq!((out[0], len), (3.0, 2));
        rz_kv_free(kv);
    }
}
