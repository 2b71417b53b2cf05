//! Saved caches and log probabilities through the C interface. The oracle of log probabilities is a softmax in double
//! precision.

use super::conversation::{Talk, reply_params};
use super::host::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_saved::*;
use realizar::ffi::element::*;
use realizar::ffi::saved::*;
use realizar::ffi::score::*;
use realizar::ffi::status::*;

/// Memory that a cache is saved to and loaded from; a call that goes beyond `room` fails.
struct File {
    bytes: Vec<u8>,
    at: usize,
    room: usize,
    /// A cache to ask for something meanwhile.
    cache: *mut rz_cache,
}

unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let file = unsafe { &mut *user.cast::<File>() };
    assert!(n <= 256 << 10);
    if !file.cache.is_null() {
        // Others may read, nobody may write.
        assert!(unsafe { rz_cache_len(file.cache) } > 0);
        assert_eq!(unsafe { rz_cache_truncate(file.cache, 0, null_mut()) }, RZ_ERR_BUSY);
    }
    if file.bytes.len() + n > file.room {
        return 28;
    }
    file.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), n) });
    0
}

unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let file = unsafe { &mut *user.cast::<File>() };
    // It may call the library.
    let len = unsafe { rz_cache_len(file.cache) };
    assert_eq!(unsafe { rz_cache_truncate(file.cache, len, null_mut()) }, RZ_OK);
    let Some(bytes) = file.bytes.get(file.at..file.at + n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    file.at += n;
    0
}

#[test]
fn a_cache_goes_to_a_file_and_comes_back() {
    let host = Host::new(64);
    host.prefill(&[BOS, 403, 407, 261]);
    let mut file = File { bytes: Vec::new(), at: 0, room: usize::MAX, cache: host.cache };
    let user = (&raw mut file).cast::<c_void>();
    let (mut loaded, mut tokens, mut n, mut common) = (null_mut(), [0; 8], 0, 0);
    unsafe {
        expect(RZ_OK, |e| rz_cache_save(host.cache, Some(write), user, null(), e));
        let model = host.model;
        let shape = |capacity, k_type| rz_cache_params { struct_size: 16, capacity, k_type, v_type: 0 };
        let mut load = |status, params: *const rz_cache_params, from: usize| {
            (*user.cast::<File>()).at = from;
            expect(status, |e| rz_cache_load(model, params, Some(read), user, null(), &mut loaded, e));
            loaded
        };
        load(RZ_ERR_FORMAT, null(), 1);
        load(RZ_ERR_CONTEXT_FULL, &shape(3, 0), 0);
        load(RZ_ERR_MISMATCH, &shape(0, RZ_TYPE_Q8_0), 0);
        let loaded = load(RZ_OK, &shape(100, RZ_TYPE_F16), 0);
        let loaded = Host { model: null_mut(), cache: loaded };
        assert_eq!((loaded.len(), rz_cache_capacity(loaded.cache)), (4, 100));
        assert_eq!(loaded.logits(), host.logits());
        assert_eq!(loaded.decode(300), host.decode(300));

        expect(RZ_OK, |e| rz_cache_tokens_into(loaded.cache, null_mut(), 0, &mut n, e));
        assert_eq!(n, 5);
        expect(RZ_OK, |e| rz_cache_tokens_into(loaded.cache, tokens.as_mut_ptr(), 8, &mut n, e));
        assert_eq!(tokens[..n], [BOS, 403, 407, 261, 300]);
        expect(RZ_OK, |e| rz_cache_match(host.cache, [BOS, 403, 9, 261].as_ptr(), 4, &mut common, e));
        assert_eq!(common, 2);
        expect(RZ_OK, |e| rz_cache_release(loaded.cache, e));
        expect(RZ_OK, |e| rz_cache_shift(host.cache, 1, 2, e));
        refused("can't forget", |e| rz_cache_shift(host.cache, 1, 3, e));
        assert_eq!((loaded.decode(7), host.len()), ({ host_says(&host, &[BOS, 403, 407, 261, 300]) }, 3));
        assert_eq!(host.decode(7), host_says(&host, &[BOS, 261, 300]));

        file.room = 500;
        file.bytes.clear();
        let mut err = no_error();
        assert_eq!(rz_cache_save(host.cache, Some(write), user, null(), &mut err), RZ_ERR_IO);
        assert_eq!(err.system_code, 28);
        refused("write is NULL", |e| rz_cache_save(host.cache, None, user, null(), e));
        refused("read is NULL", |e| rz_cache_load(host.model, null(), None, user, null(), &mut null_mut(), e));
        refused("common", |e| rz_cache_match(host.cache, null(), 0, null_mut(), e));
    }
}

/// Bytes of a file that ends, and the place of the next one.
struct Cut<'a> {
    bytes: &'a [u8],
    at: usize,
}

unsafe extern "C" fn read_cut(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let cut = unsafe { &mut *user.cast::<Cut>() };
    let Some(bytes) = cut.bytes.get(cut.at..cut.at + n) else { return RZ_ERR_FORMAT };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    cut.at += n;
    0
}

unsafe extern "C" fn write_all(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), n) };
    unsafe { &mut *user.cast::<Vec<u8>>() }.extend_from_slice(bytes);
    0
}

/// What was saved and ends early is damaged; an errno is a failure of the system.
#[test]
fn what_was_saved_and_ends_early_is_damaged() {
    let talk = Talk::new(r#"{"messages": [{"role": "user", "content": "Hi"}]}"#, 64, 0);
    talk.reply(reply_params(3));
    let (host, mut saved) = (Host { model: null_mut(), cache: new_cache(talk.model, 16) }, [Vec::new(), Vec::new()]);
    host.prefill(&[BOS, 403, 407]);
    let user = |bytes: &mut Vec<u8>| (&raw mut *bytes).cast();
    expect(RZ_OK, |e| unsafe { rz_cache_save(host.cache, Some(write_all), user(&mut saved[0]), null(), e) });
    expect(RZ_OK, |e| unsafe { rz_conversation_save(talk.handle, Some(write_all), user(&mut saved[1]), null(), e) });
    for (i, bytes) in saved.iter().enumerate() {
        for n in [0, 9, 100, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
            let mut cut = Cut { bytes: &bytes[..n], at: 0 };
            let (user, mut err) = ((&raw mut cut).cast(), no_error());
            let status = unsafe {
                if i == 0 {
                    let mut out = null_mut();
                    let status = rz_cache_load(talk.model, null(), Some(read_cut), user, null(), &mut out, &mut err);
                    rz_cache_free(out);
                    status
                } else {
                    let mut out = null_mut();
                    let status = rz_conversation_load(talk.model, null(), Some(read_cut), user, &mut out, &mut err);
                    rz_conversation_free(out);
                    status
                }
            };
            let expected = if n == bytes.len() { RZ_OK } else { RZ_ERR_FORMAT };
            assert_eq!((status, err.system_code), (expected, 0), "{n} bytes: {}", text_of(&err.message));
            assert!(status == RZ_OK || text_of(&err.message).contains("the file has fewer bytes left"), "{n} bytes");
        }
    }
}

/// Returns the token that a new cache chooses after some tokens and 7.
fn host_says(host: &Host, tokens: &[u32]) -> u32 {
    let fresh = Host { model: null_mut(), cache: new_cache(host.model, 64) };
    fresh.prefill(tokens);
    fresh.decode(7)
}

/// The logarithms of a softmax.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - f64::from(peak)).exp()).sum();
    logits.iter().map(|x| f64::from(*x) - f64::from(peak) - sum.ln()).collect()
}

#[test]
fn texts_are_scored() {
    let (host, plain) = (Host::new(256), Host::new(256));
    let text: Vec<u32> = (0..200).map(|i| if i == 0 { BOS } else { 3 + i * 37 % 500 }).collect();
    let (mut scores, mut n) = (vec![f32::NAN; text.len()], 0);
    let (mut tokens, mut logprobs) = ([0; 600], [0f32; 600]);
    let mut score = |tokens: &[u32], status, cancel| {
        expect(status, |e| unsafe {
            rz_score(host.cache, tokens.as_ptr(), tokens.len(), scores.as_mut_ptr(), cancel, e)
        });
        scores[..tokens.len()].to_vec()
    };
    let mut expected = vec![0.0];
    for (token, next) in text.iter().zip(&text[1..]) {
        plain.prefill(&[*token]);
        expected.push(log_softmax(&plain.logits())[*next as usize]);
    }
    plain.prefill(&text[199..]);
    let near = |found: &[f32], expected: &[f64]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5), "{found:?}")
    };
    // In two calls, the second after a rewind, which leaves no logits.
    near(&score(&text[..90], RZ_OK, null()), &expected[..90]);
    expect(RZ_OK, |e| unsafe { rz_cache_truncate(host.cache, 80, e) });
    near(&score(&text[80..], RZ_OK, null()), &expected[80..]);
    assert_eq!((host.len(), host.logits()), (200, plain.logits()));
    unsafe {
        expect(RZ_OK, |e| rz_top_logprobs(host.cache, 600, tokens.as_mut_ptr(), logprobs.as_mut_ptr(), &mut n, e));
        let all = log_softmax(&host.logits());
        assert_eq!(n, 512);
        for (token, logprob) in tokens[..n].iter().zip(&logprobs) {
            assert!((f64::from(*logprob) - all[*token as usize]).abs() < 1e-5);
        }
        assert!(logprobs[..n].is_sorted_by(|a, b| a >= b));
        let best = tokens[..3].to_vec();
        expect(RZ_OK, |e| rz_top_logprobs(host.cache, 3, tokens.as_mut_ptr(), logprobs.as_mut_ptr(), &mut n, e));
        assert_eq!((n, &tokens[..3]), (3, &best[..]));

        // A call that fails leaves everything as it was.
        let mut cancel = null_mut();
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        rz_cancel_fire(cancel);
        score(&text[..20], RZ_ERR_CANCELLED, cancel);
        score(&[512], RZ_ERR_INVALID_ARGUMENT, null());
        score(&[], RZ_ERR_INVALID_ARGUMENT, null());
        score(&text[..60], RZ_ERR_CONTEXT_FULL, null());
        rz_cancel_free(cancel);
        assert_eq!((host.len(), host.logits()), (200, plain.logits()));
        let empty = new_cache(host.model, 8);
        fails(RZ_ERR_NOT_READY, "logits", |e| {
            rz_top_logprobs(empty, 3, tokens.as_mut_ptr(), logprobs.as_mut_ptr(), &mut n, e)
        });
        rz_cache_free(empty);
    }
}
