//! Video input through the C interface. Rows must equal the engine's for every way to pass frames; `videos.rs` compares
//! the engine's rows with the reference implementation.

use super::encoding::step;
use super::host::*;
use super::media::{Medium, Prompt};
use super::pictures::{Seer, params, pixels};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use realizar::engine::{Encoder, EncoderParams, Frames, LoadParams, MediaWork, Model, PictureBounds};
use realizar::ffi::cancel::*;
use realizar::ffi::encoder::*;
use realizar::ffi::media::*;
use realizar::ffi::prompt::*;
use realizar::ffi::status::*;
use realizar::ffi::video::*;

use crate::videos;

const SIZE: [u32; 2] = [90, 70];
const TIMES: [f64; 5] = [0.0, 0.5, 1.0, 1.5, 2.0];

fn video(
    seer: &Seer,
    status: rz_status,
    frames: &[rz_pixels],
    times: &[f64],
    params: *const rz_media_params,
) -> (Medium, String) {
    let mut media = null_mut();
    let message = expect(status, |e| unsafe {
        rz_media_from_frames(seer.encoder, frames.as_ptr(), times.as_ptr(), times.len(), params, &mut media, e)
    });
    (Medium(media), message)
}

fn rgb(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|i| videos::frame(SIZE.map(|side| side as usize), i).rgb).collect()
}

fn listed(frames: &[Vec<u8>]) -> Vec<rz_pixels> {
    frames.iter().map(|rgb| pixels(RZ_PIXELS_RGB8, SIZE, rgb)).collect()
}

#[test]
fn videos_become_the_rows_of_the_engine() {
    for family in ["qwen2", "qwen25", "qwen3"] {
        let seer = Seer::new(family);
        assert_eq!(seer.info().kinds, RZ_MEDIA_IMAGE | RZ_MEDIA_VIDEO, "{family}");
        let frames = rgb(5);
        let (medium, _) = video(&seer, RZ_OK, &listed(&frames), &TIMES, null());
        let model = Model::load(&seer.path().with_file_name("model.gguf"), LoadParams::default()).expect("a model");
        let encoder = Encoder::load(&model, &seer.path(), EncoderParams::default()).expect("an encoder");
        let frame = &mut |i| Ok(videos::frame(SIZE.map(|side| side as usize), i));
        let bounds = PictureBounds { max_rows: seer.info().max_rows as usize, ..PictureBounds::default() };
        let work = MediaWork::video(&encoder, Frames { times: &TIMES, frame }, bounds, None);
        let own = work.and_then(|mut work| work.advance(None, None, None)).expect("rows").expect("a medium");
        assert!(medium.rows() == own.rows(), "{family}");
        let info = medium.info();
        assert_eq!((info.kind, info.pairs, info.width, info.height), (RZ_MEDIA_VIDEO, 3, SIZE[0], SIZE[1]));
        assert_eq!(info.n_rows, 3 * info.lines * info.columns, "{family}");
        assert_eq!((info.tile_columns, info.tile_lines, info.has_overview, info.reserved), (0, 0, 0, 0));
        let mut prompt = null_mut();
        expect(RZ_OK, |e| unsafe { rz_prompt_new(seer.model, &medium.part(), 1, 0, &mut prompt, e) });
        let tokens = Prompt(prompt).tokens();
        let n_rows = tokens.iter().filter(|id| **id == RZ_TOKEN_MEDIA).count();
        assert_eq!((tokens.len(), n_rows), (info.n_tokens as usize, info.n_rows as usize), "{family}");

        // Another format is the same video; other times are another one.
        let wide = |rgb: &Vec<u8>| rgb.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0], 255]).collect::<Vec<u8>>();
        let wide: Vec<Vec<u8>> = frames.iter().map(wide).collect();
        let of_wide: Vec<rz_pixels> = wide.iter().map(|data| pixels(RZ_PIXELS_BGRA8, SIZE, data)).collect();
        let (same, _) = video(&seer, RZ_OK, &of_wide, &TIMES, null());
        assert!(same.rows() == medium.rows() && same.info().hash == info.hash, "{family}");
        let (slower, _) = video(&seer, RZ_OK, &of_wide, &TIMES.map(|time| 2.0 * time), null());
        assert!(slower.rows() == medium.rows() && slower.info().hash != info.hash, "{family}");
    }
}

unsafe extern "C" fn told(done: u64, total: u64, user: *mut c_void) -> i32 {
    unsafe { (*user.cast::<Vec<(u64, u64)>>()).push((done, total)) };
    0
}

#[test]
fn videos_are_encoded_in_slices() {
    let seer = Seer::new("qwen25");
    let frames = rgb(4);
    let list = listed(&frames);
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    let reports = rz_media_params { progress: Some(told), progress_user: (&raw mut pairs).cast(), ..params() };
    let (whole, _) = video(&seer, RZ_OK, &list, &TIMES[..4], &reports);
    assert_eq!(pairs.last(), Some(&(2, 2)));
    let in_steps = rz_media_params { flags: RZ_ENCODE_STEPS, ..params() };
    let (medium, _) = video(&seer, RZ_OK, &list, &TIMES[..4], &in_steps);
    let early = medium.info();
    assert_eq!((early.kind, early.n_rows, early.hash), (RZ_MEDIA_VIDEO, whole.info().n_rows, whole.info().hash));
    let mut pauses = 0;
    while step(&medium, 1).0 == RZ_AGAIN {
        pauses += 1;
    }
    assert!(pauses > 10 && step(&medium, 1).0 == RZ_DONE, "{pauses}");
    assert!(medium.rows() == whole.rows());
}

#[test]
fn frames_without_sense_are_refused() {
    let seer = Seer::new("qwen25");
    let (frames, bad) = (rgb(2), RZ_ERR_INVALID_ARGUMENT);
    let list = listed(&frames);
    let says = |seer: &Seer, status, frames: &[rz_pixels], times: &[f64], what: &str| {
        let (_, message) = video(seer, status, frames, times, null());
        assert!(message.contains(what), "{message}");
    };
    says(&seer, bad, &list[..1], &[0.0], "1 frames; it must have at least 2");
    says(&seer, bad, &list, &[0.5, 0.0], "entry 1: the time is before");
    let with = |change: fn(&mut rz_pixels)| {
        let mut second = list[1];
        change(&mut second);
        [list[0], second]
    };
    says(&seer, bad, &with(|p| p.width = 60), &TIMES[..2], "entry 1: it has 60 x 70 pixels");
    says(&seer, bad, &with(|p| p.data = null()), &TIMES[..2], "entry 1: rz_pixels.data is NULL");
    says(&seer, bad, &with(|p| p.format = 9), &TIMES[..2], "entry 1: rz_pixels.format is 9");
    says(&seer, bad, &with(|p| p.struct_size = 8), &TIMES[..2], "entry 1: rz_pixels.struct_size is 8");
    let mut media = null_mut();
    for (frames, times, n, what) in [
        (null(), TIMES.as_ptr(), 2, "rz_pixels"),
        (list.as_ptr(), null(), 2, "times is NULL"),
        (list.as_ptr(), TIMES.as_ptr(), usize::MAX, "times"),
        (null(), null(), 0, "0 frames"),
    ] {
        let message =
            expect(bad, |e| unsafe { rz_media_from_frames(seer.encoder, frames, times, n, null(), &mut media, e) });
        assert!(message.contains(what) && media.is_null(), "{message}");
    }
    let few = rz_media_params { max_rows: 1, ..params() };
    video(&seer, RZ_ERR_LIMIT, &[list[0], list[1], list[0]], &TIMES[..3], &few);
    says(&Seer::new("gemma3"), RZ_ERR_UNSUPPORTED, &list, &TIMES[..2], "a video with an encoder of the kind");
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    unsafe { rz_cancel_fire(cancel) };
    video(&seer, RZ_ERR_CANCELLED, &list, &TIMES[..2], &rz_media_params { cancel, ..params() });
    unsafe { rz_cancel_free(cancel) };
}
