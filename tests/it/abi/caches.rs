//! Caches through the C interface: failures that change nothing, batches, forks, cancels, limits, lifetimes, samplers.

use super::host::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::element::*;
use realizar::ffi::encoder::*;
use realizar::ffi::generate::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;

/// After each failure the cache is as it was: its length, its logits, and what it says next.
#[test]
fn a_failed_call_changes_nothing() {
    let host = Host::new(6);
    let (mut n, mut token, mut many) = (0, u32::MAX, [u32::MAX; 16]);
    unsafe {
        fails(RZ_ERR_NOT_READY, "logits", |e| rz_logits_into(host.cache, null_mut(), 0, &mut n, e));
        fails(RZ_ERR_NOT_READY, "logits", |e| rz_sample(host.cache, null_mut(), &mut token, e));
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
        let params = rz_sampler_params { biases: &bias, n_biases: 1, ..sized() };
        let mut sampler = null_mut();
        expect(RZ_OK, |e| rz_sampler_new(&params, &mut sampler, e));
        refused("token 512", |e| rz_decode_token(host.cache, BOS, sampler, &mut token, e));
        refused("token 512", |e| rz_sample(host.cache, sampler, &mut token, e));
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
        fails(RZ_ERR_NOT_READY, "logits", |e| rz_sample(host.cache, null_mut(), &mut token, e));
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

/// Two threads, one cache: a second call never waits and never harms, it gets the status that the cache is in use.
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

/// A type that a field does not accept is rejected by its name; a number that is no type is rejected by the number.
#[test]
fn element_types_that_a_field_does_not_take_are_refused_by_name() {
    let model = load();
    let cache = rz_cache_params { struct_size: 16, capacity: 32, k_type: 0, v_type: 0 };
    for (k_type, v_type, why) in [
        (RZ_TYPE_Q6_K, 0, "rz_cache_params.k_type is RZ_TYPE_Q6_K; it must be RZ_TYPE_F16, RZ_TYPE_F32"),
        (0, RZ_TYPE_F8_E4M3, "rz_cache_params.v_type is RZ_TYPE_F8_E4M3"),
        (5, 0, "rz_cache_params.k_type is 5"),
        (0, 258, "rz_cache_params.v_type is 258"),
        (0x1000_0000, 0, "rz_cache_params.k_type is 268435456"),
    ] {
        let params = rz_cache_params { k_type, v_type, ..cache };
        refused(why, |e| unsafe { rz_cache_new(model, &params, &mut null_mut(), e) });
    }
    let path = CString::new(MODEL).expect("no NUL");
    let mut params: rz_model_params = sized();
    let mut encoder: rz_encoder_params = sized();
    for (quantize, why) in [
        (RZ_TYPE_IQ2_XS, "quantize is RZ_TYPE_IQ2_XS; it must be a type that the library can write"),
        (RZ_TYPE_MXFP4, "quantize is RZ_TYPE_MXFP4"),
        (4, "quantize is 4"),
        (u32::MAX, "quantize is 4294967295"),
    ] {
        (params.quantize, encoder.quantize) = (quantize, quantize);
        refused(&format!("rz_model_params.{why}"), |e| unsafe {
            rz_model_load(path.as_ptr(), &params, &mut null_mut(), e)
        });
        refused(&format!("rz_encoder_params.{why}"), |e| unsafe {
            rz_encoder_load(model, path.as_ptr(), &encoder, &mut null_mut(), e)
        });
    }
    unsafe { rz_model_free(model) };
}

/// Memory that no machine has is refused before anything is touched; a system that promises all memory may grant it.
#[test]
fn a_cache_larger_than_memory_is_refused() {
    let model = load();
    let params = rz_cache_params { struct_size: 16, capacity: u32::MAX, k_type: RZ_TYPE_F32, v_type: 0 };
    let (mut cache, mut err) = (null_mut(), no_error());
    unsafe {
        let status = rz_cache_new(model, &params, &mut cache, &mut err);
        assert!(status == RZ_ERR_OUT_OF_MEMORY || status == RZ_OK, "{status} {}", text_of(&err.message));
        assert_eq!(cache.is_null(), status != RZ_OK);
        rz_cache_free(cache);
        rz_model_free(model);
    }
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
                expect(RZ_OK, |e| rz_sample(host.cache, sampler, token, e));
            }
            rz_sampler_free(sampler);
        }
        tokens
    };
    let greedy: rz_sampler_params = sized::<rz_sampler_params>();
    let best = choose(&greedy)[0];
    assert_eq!(choose(&greedy), [best; 16]);
    let bias = rz_logit_bias { token: best, bias: f32::NEG_INFINITY };
    let without = choose(&rz_sampler_params { biases: &bias, n_biases: 1, ..greedy });
    assert!(!without.contains(&best));
    let hot = rz_sampler_params { temperature: 2.0, seed: 7, ..greedy };
    assert_eq!(choose(&hot), choose(&hot));
    assert_ne!(choose(&hot), choose(&rz_sampler_params { seed: 8, ..hot }));
    // What may not follow 407 is as good as forbidden, what may not follow 403 is not.
    for (before, expected) in [(407, without), (403, [best; 16])] {
        let tokens = [before, best];
        let banned = rz_token_sequence { tokens: tokens.as_ptr(), n_tokens: 2 };
        let params = rz_sampler_params { banned_sequences: &banned, n_banned_sequences: 1, ..greedy };
        assert_eq!(choose(&params), expected);
    }
    // After the filter, the temperature admits no further token; before the filter, it does.
    let ordered = |order: &[u32]| {
        let (order, n_order) = (order.as_ptr(), order.len());
        choose(&rz_sampler_params { temperature: 100.0, top_p: 0.01, order, n_order, ..hot })
    };
    assert_eq!(ordered(&[]), [best; 16]);
    assert_eq!(ordered(&[RZ_FILTER_TOP_P, RZ_FILTER_TEMPERATURE]), [best; 16]);
    assert_ne!(ordered(&[RZ_FILTER_TEMPERATURE, RZ_FILTER_TOP_P]), [best; 16]);
    // A caller without the later fields gets what it got.
    let older = rz_sampler_params { struct_size: 64, typical_p: f32::NAN, n_order: 9, ..hot };
    assert_eq!(choose(&older), choose(&hot));
}

/// The flag of a cache stops every call on it and on its forks; that of the call counts beside it.
#[test]
fn a_cancel_can_be_set_for_a_cache() {
    let host = Host::new(64);
    let (mut cancel, mut other, mut fork) = (null_mut(), null_mut(), null_mut());
    let (mut n, mut token, mut many) = (0, 0, [0; 16]);
    unsafe {
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        expect(RZ_OK, |e| rz_cancel_new(&mut other, e));
        host.prefill(&[BOS, 403]);
        expect(RZ_OK, |e| rz_cache_cancel_set(host.cache, cancel, e));
        expect(RZ_OK, |e| rz_cache_fork(host.cache, &mut fork, e));
        let alone = new_cache(host.model, 8);
        rz_cancel_fire(cancel);
        for cache in [host.cache, fork] {
            expect(RZ_ERR_CANCELLED, |e| rz_prefill(cache, [BOS].as_ptr(), 1, null(), e));
            expect(RZ_ERR_CANCELLED, |e| rz_prefill(cache, [BOS].as_ptr(), 1, other, e));
            expect(RZ_ERR_CANCELLED, |e| rz_decode_token(cache, BOS, null_mut(), &mut token, e));
            expect(RZ_ERR_CANCELLED, |e| {
                rz_generate_into(cache, BOS, null_mut(), many.as_mut_ptr(), 16, &mut n, other, e)
            });
            expect(RZ_ERR_CANCELLED, |e| {
                rz_decode_batch([alone, cache].as_ptr(), [BOS; 2].as_ptr(), 2, null(), many.as_mut_ptr(), e)
            });
            assert_eq!((rz_cache_len(cache), rz_cache_len(alone), n), (2, 0, 0));
        }
        // The flag of the call, while that of the cache is quiet.
        rz_cancel_reset(cancel);
        rz_cancel_fire(other);
        expect(RZ_ERR_CANCELLED, |e| rz_prefill(host.cache, [BOS].as_ptr(), 1, other, e));
        let expected = host.decode(261);
        // The cache keeps the flag alive, until it is taken back.
        rz_cancel_fire(cancel);
        rz_cancel_free(cancel);
        expect(RZ_ERR_CANCELLED, |e| rz_decode_token(fork, 261, null_mut(), &mut token, e));
        expect(RZ_OK, |e| rz_cache_cancel_set(fork, null(), e));
        expect(RZ_OK, |e| rz_decode_token(fork, 261, null_mut(), &mut token, e));
        assert_eq!(token, expected);
        rz_cancel_free(other);
        rz_cache_free(fork);
        rz_cache_free(alone);
    }
}

/// Mistakes with handles that C compilers let through after a cast.
#[test]
fn swapped_and_freed_handles_are_refused() {
    let host = Host::new(8);
    let (mut sampler, mut cancel, mut stream) = (null_mut(), null_mut(), null_mut());
    let wrong = "a handle of another kind or one that was freed";
    unsafe {
        expect(RZ_OK, |e| rz_sampler_new(null(), &mut sampler, e));
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        expect(RZ_OK, |e| rz_textstream_new(host.model, &mut stream, e));
        refused(wrong, |e| rz_cache_truncate(sampler.cast(), 0, e));
        refused(wrong, |e| rz_decode_token(host.cache, BOS, host.cache.cast(), &mut 0, e));
        refused(wrong, |e| rz_prefill(host.model.cast(), [BOS].as_ptr(), 1, null(), e));
        refused(wrong, |e| rz_prefill(host.cache, [BOS].as_ptr(), 1, stream.cast(), e));
        refused(wrong, |e| rz_model_info_get(cancel.cast(), &mut zeroed(), e));
        refused(wrong, |e| rz_textstream_push_into(host.model.cast(), BOS, null_mut(), 0, &mut 0, e));
        assert_eq!((rz_cache_len(sampler.cast()), rz_token_is_end(host.cache.cast(), 2)), (0, 0));
        // Freed as something else: nothing happens, and the handle lives on.
        rz_cache_free(sampler.cast());
        rz_cancel_fire(sampler.cast());
        expect(RZ_OK, |e| rz_decode_token(host.cache, BOS, sampler, &mut 0, e));

        rz_sampler_free(sampler);
        rz_cancel_free(cancel);
        rz_textstream_free(stream);
        refused(wrong, |e| rz_decode_token(host.cache, BOS, sampler, &mut 0, e));
        rz_sampler_free(sampler);
        rz_cancel_free(cancel);
        rz_cancel_fire(cancel);
        rz_textstream_free(stream);
    }
    assert_eq!(host.len(), 1);
}
