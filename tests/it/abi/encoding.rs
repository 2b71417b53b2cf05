//! Encoders from bytes of the caller, and media that are encoded in time slices. The oracle is one call for the same
//! image, with an encoder that was loaded by its path.

use super::host::*;
use super::media::{Medium, text};
use super::pictures::{Seer, chat, params, pixels};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use realizar::ffi::cancel::*;
use realizar::ffi::encoder::*;
use realizar::ffi::media::*;
use realizar::ffi::media_steps::*;
use realizar::ffi::metrics::*;
use realizar::ffi::prompt::*;
use realizar::ffi::source::*;
use realizar::ffi::status::*;

use crate::vision;

fn memory(bytes: &[u8]) -> rz_source {
    let (data, size) = (bytes.as_ptr().cast(), bytes.len() as u64);
    rz_source { kind: RZ_SOURCE_MEMORY, data, size, ..sized() }
}

#[test]
fn encoders_are_loaded_from_memory() {
    let seer = Seer::new("idefics3");
    let bytes = std::fs::read(seer.path()).expect("an encoder");
    let load = |status, sources: &[rz_source], params: *const rz_encoder_params| {
        let mut encoder = null_mut();
        let message = expect(status, |e| unsafe {
            rz_encoder_load_from(seer.model, sources.as_ptr(), sources.len(), params, &mut encoder, e)
        });
        assert_eq!(encoder.is_null(), status != RZ_OK);
        (encoder, message)
    };
    let (encoder, _) = load(RZ_OK, &[memory(&bytes)], null());
    let picture = vision::picture([130, 66]);
    let picture = pixels(RZ_PIXELS_RGB8, [130, 66], &picture.rgb);
    let mut media = null_mut();
    expect(RZ_OK, |e| unsafe { rz_media_from_pixels(encoder, &picture, null(), &mut media, e) });
    let (medium, expected) = (Medium(media), seer.pixels(&picture, null()));
    assert_eq!(medium.info().hash, expected.info().hash);
    assert!(medium.rows() == expected.rows());
    unsafe { rz_encoder_free(encoder) };

    assert!(load(RZ_ERR_INVALID_ARGUMENT, &[], null()).1.contains("there are 0 sources"));
    let empty = rz_source { data: null(), ..memory(&bytes) };
    assert!(load(RZ_ERR_INVALID_ARGUMENT, &[empty], null()).1.contains("sources[0]: data is NULL"));
    assert!(load(RZ_ERR_INVALID_ARGUMENT, &[memory(&bytes); 2], null()).1.contains("name"));
    load(RZ_ERR_FORMAT, &[memory(&bytes[..100])], null());
    load(RZ_ERR_FORMAT, &[memory(b"no file of weights")], null());
    let text_model = std::fs::read(MODEL).expect("a model");
    load(RZ_ERR_UNSUPPORTED, &[memory(&text_model)], null());
    let other = rz_encoder_params { device: 99, ..sized() };
    load(RZ_ERR_INVALID_ARGUMENT, &[memory(&bytes)], &other);
}

pub fn step(medium: &Medium, budget_us: u64) -> (rz_status, String) {
    let mut err = no_error();
    let status = unsafe { rz_media_step(medium.0, budget_us, &mut err) };
    (status, text_of(&err.message))
}

/// Stops once, at its `n`th call.
unsafe extern "C" fn told(_: u64, _: u64, user: *mut c_void) -> i32 {
    let left = unsafe { &mut *user.cast::<u32>() };
    *left = left.wrapping_sub(1);
    i32::from(*left == 0)
}

#[test]
fn pictures_are_encoded_in_slices() {
    for family in ["idefics3", "qwen25"] {
        let seer = Seer::new(family);
        let picture = vision::picture([130, 66]);
        let picture = pixels(RZ_PIXELS_RGB8, [130, 66], &picture.rgb);
        let expected = seer.pixels(&picture, null());
        let medium = seer.pixels(&picture, &rz_media_params { flags: RZ_ENCODE_STEPS, ..params() });
        // All but its rows is known.
        let (so_far, whole) = (medium.info(), expected.info());
        assert_eq!((so_far.hash, so_far.n_rows, so_far.n_tokens), ([0; 32], whole.n_rows, whole.n_tokens));
        assert_eq!([so_far.width, so_far.height, so_far.bytes as u32], [130, 66, whole.bytes as u32]);
        expect(RZ_ERR_NOT_READY, |e| unsafe { rz_media_rows_into(medium.0, null_mut(), 0, &mut 0, e) });
        refused("NULL", |e| unsafe { rz_media_step(null_mut(), 0, e) });
        let parts = [text(&[5]), medium.part()];
        fails(RZ_ERR_NOT_READY, "entry 1: the media item is not done", |e| unsafe {
            rz_prompt_new(seer.model, parts.as_ptr(), 2, 0, &mut null_mut(), e)
        });
        let json = r#"{"messages": [{"role": "user", "content": [{"type": "image", "media": 0}]}]}"#;
        let (status, _, message) = chat(seer.model, json, &[medium.0]);
        assert!(status == RZ_ERR_NOT_READY && message.contains("entry 0: the media item is not done"), "{message}");

        let mut pauses = 0;
        // Without time it goes on by a share of its work.
        while step(&medium, 0).0 == RZ_AGAIN {
            pauses += 1;
        }
        assert!(pauses > 10, "{family} {pauses}");
        assert_eq!([step(&medium, 1).0, step(&medium, 0).0, step(&expected, 1).0], [RZ_DONE; 3]);
        assert!(medium.rows() == expected.rows(), "{family}");
        let done = medium.info();
        assert!(done.hash == whole.hash && done.encode_ns >= so_far.encode_ns);
        let to_the_end = seer.pixels(&picture, &rz_media_params { flags: RZ_ENCODE_STEPS, ..params() });
        assert_eq!(step(&to_the_end, RZ_NO_LIMIT).0, RZ_DONE);
        assert!(to_the_end.rows() == expected.rows(), "{family}");

        let mut metrics = sized::<rz_metrics>();
        expect(RZ_OK, |e| unsafe { rz_metrics_get(seer.model, &mut metrics, e) });
        let sum = [&done, &whole, &to_the_end.info()].iter().map(|info| info.encode_ns).sum::<u64>();
        assert_eq!((metrics.encode.count, metrics.encode.sum_ns), (3, sum));
    }
}

#[test]
fn what_stops_an_encoding_pauses_it() {
    let seer = Seer::new("idefics3");
    let picture = vision::picture([130, 66]);
    let picture = pixels(RZ_PIXELS_RGB8, [130, 66], &picture.rgb);
    let expected = seer.pixels(&picture, null());
    let (mut cancel, mut left) = (null_mut(), 2u32);
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    let progress_user = (&raw mut left).cast::<c_void>();
    let steps = rz_media_params { flags: RZ_ENCODE_STEPS, cancel, progress: Some(told), progress_user, ..params() };
    let medium = seer.pixels(&picture, &steps);
    assert_eq!(step(&medium, 1).0, RZ_AGAIN);
    assert_eq!(step(&medium, 1).0, RZ_ERR_CANCELLED);
    unsafe { rz_cancel_fire(cancel) };
    assert_eq!([step(&medium, 0).0, step(&medium, 1).0], [RZ_ERR_CANCELLED; 2]);
    unsafe { rz_cancel_reset(cancel) };
    expect(RZ_OK, |e| unsafe { rz_cancel_deadline(cancel, 0, e) });
    assert_eq!(step(&medium, 0).0, RZ_ERR_DEADLINE);
    unsafe { rz_cancel_reset(cancel) };
    // The medium keeps what stops it alive.
    unsafe { rz_cancel_free(cancel) };
    assert_eq!(step(&medium, RZ_NO_LIMIT).0, RZ_DONE);
    assert!(medium.rows() == expected.rows());
    // An encoding that is abandoned midway leaves nothing.
    let given_up = seer.pixels(&picture, &rz_media_params { flags: RZ_ENCODE_STEPS, ..params() });
    step(&given_up, 1);
    drop(given_up);
    let unknown = rz_media_params { flags: 2, ..params() };
    expect(RZ_ERR_VERSION, |e| unsafe { rz_media_from_pixels(seer.encoder, &picture, &unknown, &mut null_mut(), e) });
}
