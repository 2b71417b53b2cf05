//! Embeddings through the C interface.

use super::host::*;
use std::ptr::{null, null_mut};

use realizar::ffi::cancel::*;
use realizar::ffi::embed::*;
use realizar::ffi::model::*;
use realizar::ffi::status::*;

fn params(pooling: u32, flags: u32) -> rz_embed_params {
    rz_embed_params { struct_size: 16, pooling, flags, reserved: 0 }
}

/// The values for some texts, which a second call asks for once it knows their number.
fn embed(model: *const rz_model, params: &rz_embed_params, texts: &[&[u32]]) -> Vec<f32> {
    let tokens: Vec<*const u32> = texts.iter().map(|text| text.as_ptr()).collect();
    let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
    let (mut n, mut out) = (usize::MAX, Vec::new());
    for _ in 0..2 {
        let (out_pointer, capacity) = if out.is_empty() { (null_mut(), 0) } else { (out.as_mut_ptr(), out.len()) };
        expect(RZ_OK, |e| unsafe {
            let (tokens, lengths) = (tokens.as_ptr(), lengths.as_ptr());
            rz_embed_into(model, params, tokens, lengths, texts.len(), out_pointer, capacity, &mut n, null(), e)
        });
        out.resize(n, f32::NAN);
    }
    out
}

#[test]
fn texts_become_vectors() {
    let model = load();
    let texts: [&[u32]; 3] = [&[1, 7, 9], &[1], &[5; 20]];
    let mean = embed(model, &params(RZ_POOLING_MEAN, 0), &texts);
    assert_eq!(mean.len(), 3 * 64);
    for vector in mean.chunks(64) {
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    let raw = embed(model, &params(RZ_POOLING_NONE, RZ_EMBED_RAW), &texts);
    assert_eq!(raw.len(), 24 * 64);
    let last = embed(model, &params(RZ_POOLING_LAST, RZ_EMBED_RAW), &texts);
    let first = embed(model, &params(RZ_POOLING_CLS, RZ_EMBED_RAW), &texts);
    assert!(raw[2 * 64..3 * 64] == last[..64] && raw[..64] == first[..64] && raw[23 * 64..] == last[128..]);
    unsafe { rz_model_free(model) };
}

#[test]
fn wrong_calls_are_refused_and_write_nothing() {
    let model = load();
    let good = [1u32, 2];
    let (mut n, mut out, mean) = (7usize, [0.5f32; 64], params(RZ_POOLING_MEAN, 0));
    let call = |status,
                params: *const rz_embed_params,
                tokens: *const u32,
                length,
                capacity,
                cancel,
                n: &mut usize,
                out: &mut [f32; 64]| {
        expect(status, |e| unsafe {
            rz_embed_into(model, params, &tokens, &length, 1, out.as_mut_ptr(), capacity, n, cancel, e)
        })
    };
    let bad = RZ_ERR_INVALID_ARGUMENT;
    for (status, params, tokens, length, what) in [
        (bad, mean, good.as_ptr(), 0, "text 0 has no tokens"),
        (bad, mean, null(), 2, "tokens[0] is NULL"),
        (bad, mean, [512u32].as_ptr(), 1, "token 512 at index 0 of text 0"),
        (bad, params(9, 0), good.as_ptr(), 2, "pooling is 9"),
        (RZ_ERR_VERSION, params(2, 2), good.as_ptr(), 2, "flags"),
        (RZ_ERR_VERSION, rz_embed_params { reserved: 1, ..mean }, good.as_ptr(), 2, "reserved"),
        (RZ_ERR_UNSUPPORTED, params(0, 0), good.as_ptr(), 2, "names no pooling"),
        (RZ_ERR_UNSUPPORTED, params(RZ_POOLING_RANK, 0), good.as_ptr(), 2, "no classifier"),
    ] {
        let message = call(status, &params, tokens, length, 64, null(), &mut n, &mut out);
        assert!(message.contains(what) && n == 7 && out == [0.5; 64], "{message}");
    }
    let mut cancel = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        rz_cancel_fire(cancel);
    }
    call(RZ_ERR_CANCELLED, &mean, good.as_ptr(), 2, 64, cancel.cast_const(), &mut n, &mut out);
    assert!(n == 7 && out == [0.5; 64]);
    // The number alone is returned where the room is too small.
    call(RZ_ERR_BUFFER_TOO_SMALL, &mean, good.as_ptr(), 2, 63, null(), &mut n, &mut out);
    assert!(n == 64 && out == [0.5; 64]);
    unsafe {
        let (none, lengths) = (null::<*const u32>(), [1usize]);
        refused("model", |e| rz_embed_into(null(), &mean, none, null(), 0, null_mut(), 0, &mut n, null(), e));
        refused("tokens", |e| {
            rz_embed_into(model, &mean, none, lengths.as_ptr(), 1, out.as_mut_ptr(), 64, &mut n, null(), e)
        });
        refused("lengths", |e| {
            rz_embed_into(model, &mean, &good.as_ptr(), null(), 1, out.as_mut_ptr(), 64, &mut n, null(), e)
        });
        refused("n is NULL", |e| rz_embed_into(model, &mean, none, null(), 0, null_mut(), 0, null_mut(), null(), e));
        // No texts are no work.
        expect(RZ_OK, |e| rz_embed_into(model, &mean, none, null(), 0, null_mut(), 0, &mut n, null(), e));
        assert_eq!(n, 0);
        rz_cancel_free(cancel);
        rz_model_free(model);
    }
}

#[test]
fn caches_are_left_alone() {
    let host = Host::new(16);
    host.prefill(&[BOS, 5, 6]);
    let before = host.logits();
    embed(host.model, &params(RZ_POOLING_MEAN, 0), &[&[9, 8, 7, 6]]);
    assert!(host.len() == 3 && host.logits() == before);
    let next = host.decode(7);
    let other = Host::new(16);
    other.prefill(&[BOS, 5, 6]);
    assert_eq!(other.decode(7), next);
}
