//! Video input: rows, tokens and logits compared with the reference implementation (`data/README.md`).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use realizar::engine::{
    CacheParams, Encoder, Frames, MEDIA_ROW, Media, MediaKind, MediaWork, Model, Picture, PictureBounds, Prompt,
    PromptPart, Session,
};
use realizar::error::{Error, Result};
use realizar::media::Filter;
use realizar::quant;
use realizar::text::Chat;
use serde_json::{Value, json};

use crate::media::hash;
use crate::support::models;
use crate::support::published::numbers;
use crate::support::safetensors::Folder;
use crate::vision::{self, data, gguf, load, off, off_case, picture, sides};

const FAMILIES: [&str; 4] = ["qwen2", "qwen25", "qwen3", "qwen35"];

/// The folder of a family that has a configuration of videos, with a tokenizer.
fn folder(family: &str, videos: &Value) -> Folder {
    let folder = vision::folder(&data(family), true);
    folder.put("tokenizer.json", videos["tokenizer"].to_string());
    folder.put("video_preprocessor_config.json", videos[family]["video"].to_string());
    folder
}

fn open(folder: &Path) -> (Arc<Model>, Arc<Encoder>) {
    let model = models::load(folder);
    let encoder = load(&model, folder).unwrap();
    (model, encoder)
}

/// `video` of make_videos.py.
pub fn frame(size: [usize; 2], i: usize) -> Picture {
    let mut frame = picture(size);
    frame.rgb.iter_mut().for_each(|byte| *byte = byte.wrapping_add((13 * i) as u8));
    frame
}

fn encode(encoder: &Arc<Encoder>, size: [usize; 2], times: &[f64], bounds: PictureBounds) -> Result<Arc<Media>> {
    let frame = &mut |i| Ok(frame(size, i));
    let mut work = MediaWork::video(encoder, Frames { times, frame }, bounds, None)?;
    Ok(work.advance(None, None, None)?.unwrap())
}

/// The times of the frames of a case.
fn times(case: &Value) -> Vec<f64> {
    let fps = case["fps"].as_f64().unwrap();
    (0..case["frames"].as_u64().unwrap()).map(|i| i as f64 / fps).collect()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_i64().unwrap().try_into().unwrap_or(MEDIA_ROW)).collect()
}

fn logits(model: &Arc<Model>, parts: &[PromptPart], cut: usize) -> Vec<f32> {
    let prompt = Prompt::new(model, parts, false).unwrap();
    let params = CacheParams { capacity: 512, k_type: quant::F32, v_type: quant::F32 };
    let mut session = Session::new(model, &params).unwrap();
    session.prefill_prompt(&prompt, 0, None).unwrap();
    if cut > 0 {
        session.truncate(cut as u32).unwrap();
        session.prefill_prompt(&prompt, cut, None).unwrap();
    }
    session.logits().unwrap().to_vec()
}

#[test]
fn videos_are_read_as_by_the_makers() {
    let videos = data("videos");
    let [before, after] = ["before", "after"].map(|name| ids(&videos[name]));
    for family in FAMILIES {
        let folder = folder(family, &videos);
        let (model, encoder) = open(folder.0.path());
        for case in videos[family]["videos"].as_array().unwrap() {
            let what = format!("{family} {} x {}", case["frames"], case["size"]);
            let medium = encode(&encoder, sides(&case["size"]), &times(case), PictureBounds::default()).unwrap();
            assert_eq!(medium.kind(), MediaKind::Video);
            let bare = Prompt::new(&model, &[PromptPart::Media(&medium)], false).unwrap();
            assert_eq!(bare.tokens(), ids(&case["tokens"]), "{what}");
            let rows = off_case(&encoder, medium.rows(), case);
            let parts = [PromptPart::Tokens(&before), PromptPart::Media(&medium), PromptPart::Tokens(&after)];
            let expected: Vec<f64> = case["logits"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            let whole = off(&logits(&model, &parts, 0), &expected);
            // The rest of a video that was cut within a pair.
            let cut = off(&logits(&model, &parts, before.len() + bare.tokens().len() / 2), &expected);
            println!("{what}: rows {rows:.1e}, logits {whole:.1e}, cut {cut:.1e}");
            assert!(rows < 1e-5 && whole < 1e-5 && cut < 1e-5, "{what}: {rows:.1e} {whole:.1e} {cut:.1e}");
        }
    }
}

#[test]
fn videos_of_files_and_saved_ones_are_the_same() {
    let videos = data("videos");
    for family in FAMILIES {
        let folder = folder(family, &videos);
        let (model, encoder) = open(folder.0.path());
        let path = folder.0.path().join("mmproj.gguf");
        let mut file = gguf(&data(family));
        let bound = |name: &str| videos[family]["video"]["size"][name].as_u64().unwrap() as u32;
        vision::set(&mut file, "clip.vision.video_min_pixels", bound("shortest_edge"));
        vision::set(&mut file, "clip.vision.video_max_pixels", bound("longest_edge"));
        fs::write(&path, file.build().0).unwrap();
        let of_file = load(&model, &path).unwrap();
        let encode = |encoder, case: &Value| {
            encode(encoder, sides(&case["size"]), &times(case), PictureBounds::default()).unwrap()
        };
        let cases = videos[family]["videos"].as_array().unwrap();
        for case in cases {
            let (medium, other) = (encode(&encoder, case), encode(&of_file, case));
            let rows = off_case(&of_file, other.rows(), case);
            println!("{family} gguf {} x {}: rows {rows:.1e}", case["frames"], case["size"]);
            assert!(rows < 1e-5 && medium.layout() == other.layout(), "{family} {} {rows:.1e}", case["size"]);
        }
        let medium = encode(&encoder, &cases[1]);
        let back = vision::saved_and_loaded(&model, &medium);
        assert!(back.rows() == medium.rows() && back.layout() == medium.layout(), "{family}");
        assert!(back.kind() == MediaKind::Video && back.hash() == medium.hash(), "{family}");
    }
}

#[test]
fn frames_have_the_bytes_of_torchvision() {
    let filters = [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic)];
    for case in data("videos")["frames"].as_array().unwrap() {
        let [from, to] = [0, 2].map(|at| [0, 1].map(|i| case[at + i].as_u64().unwrap() as usize));
        let filter = filters.iter().find(|(name, _)| case[4] == *name).unwrap().1;
        let resized = picture(from).resize_frame(to[0], to[1], filter).unwrap();
        assert_eq!(hash(&resized), case[5].as_str().unwrap(), "{case}");
    }
}

/// A template writes tokens around a video; those around pairs stand in place of them.
#[test]
fn videos_stand_in_conversations() {
    let (videos, chats) = (data("videos"), data("chats"));
    for family in FAMILIES {
        let folder = folder(family, &videos);
        folder.put("chat_template.jinja", chats["qwen25"]["template"].as_str().unwrap());
        let (model, encoder) = open(folder.0.path());
        let case = &videos[family]["videos"][0];
        let medium = encode(&encoder, sides(&case["size"]), &times(case), PictureBounds::default()).unwrap();
        let chat = |part: Value| {
            let content = json!([part, {"type": "text", "text": "What happens? <|video_pad|>"}]);
            let chat = json!({"messages": [{"role": "user", "content": content}]}).to_string();
            Prompt::of_chat(
                &model,
                &Chat::parse_with_media(&chat, true, Some(1)).unwrap(),
                std::slice::from_ref(&medium),
                &[],
            )
        };
        for kind in ["video", "video_url"] {
            let prompt = chat(json!({"type": kind, "media": 0})).unwrap();
            let expected = ids(&case["tokens"]);
            let at = prompt.tokens().windows(expected.len()).filter(|tokens| *tokens == expected).count();
            let specials =
                |id: u32| [prompt.tokens(), &expected].map(|all| all.iter().filter(|one| **one == id).count());
            assert_eq!(at, 1, "{family}");
            for id in [3, 4] {
                let [all, own] = specials(id);
                assert_eq!(all, own, "{family}");
            }
        }
        let e = chat(json!({"type": "image", "media": 0})).err().unwrap().to_string();
        assert!(e.contains("a part that is a picture has a media item of another kind"), "{e}");
    }
}

#[test]
fn videos_that_cannot_be_are_refused() {
    let videos = data("videos");
    let folder = folder("qwen25", &videos);
    let (model, encoder) = open(folder.0.path());
    let size = [60, 60];
    for (times, expected) in [
        (&[][..], "0 frames"),
        (&[0.0], "the video has 1 frames; it must have at least 2"),
        (&[0.0, -1.0], "the time is -1"),
        (&[0.0, f64::NAN], "entry 1: the time is NaN"),
        (&[0.0, 2e6], "the time is 2000000; it must be from 0 to 1000000"),
        (&[0.0, 2.0, 1.0], "entry 2: the time is before"),
    ] {
        let e = encode(&encoder, size, times, PictureBounds::default()).err().unwrap();
        assert!(matches!(e, Error::InvalidArgument(_)) && e.to_string().contains(expected), "{e}");
    }
    let frame = &mut |i| Ok(picture([60 + i, 60]));
    let e =
        MediaWork::video(&encoder, Frames { times: &[0.0, 1.0], frame }, PictureBounds::default(), None).err().unwrap();
    assert!(e.to_string().contains("entry 1: it has 61 x 60 pixels"), "{e}");
    // Bounds on all frames together.
    let times: Vec<f64> = (0..8).map(f64::from).collect();
    let rows = |max_rows| {
        let bounds = PictureBounds { max_rows, ..PictureBounds::default() };
        encode(&encoder, [190, 137], &times, bounds).map(|medium| medium.layout().n_rows())
    };
    assert_eq!([0, 40, 16].map(|max| rows(max).unwrap()), [80, 24, 8]);
    let e = rows(3).err().unwrap();
    assert!(matches!(e, Error::TooComplex(_)) && e.to_string().contains("has 4 rows; it must have at most 3"), "{e}");
    // Encoders that take pictures alone.
    let at = tempfile::tempdir().unwrap();
    for (family, of) in [("gemma3", vision::model(at.path(), "", 64)), ("qwen2.5o", model)] {
        let path = at.path().join("mmproj.gguf");
        let mut file = gguf(&data(if family == "gemma3" { family } else { "qwen25" }));
        vision::set(&mut file, "clip.projector_type", family);
        fs::write(&path, file.build().0).unwrap();
        let Ok(encoder) = load(&of, &path) else { continue };
        let e = encode(&encoder, size, &[0.0, 1.0], PictureBounds::default()).err().unwrap();
        let expected = format!("a video with an encoder of the kind {family:?}");
        assert!(matches!(e, Error::Unsupported(_)) && e.to_string().contains(&expected), "{e}");
    }
}

#[test]
fn configurations_of_videos_are_read_or_refused() {
    let videos = data("videos");
    for (pointer, value, expected) in [
        ("/magic", json!(1), "\"magic\" with the value 1"),
        ("/image_mean", json!([0.5, 0.5, 0.5]), "image_mean"),
        ("/size", json!({"shortest_edge": 5}), "longest_edge"),
        ("/size", json!({"shortest_edge": 50_000, "longest_edge": 20_000}), "video_min_pixels"),
        ("/do_resize", json!(false), "do_resize"),
        ("/resample", json!(2), "\"resample\" with another value"),
    ] {
        let mut changed = videos.clone();
        *changed["qwen25"]["video"].as_object_mut().unwrap().entry(&pointer[1..]).or_insert(Value::Null) = value;
        let folder = folder("qwen25", &changed);
        let model = models::load(folder.0.path());
        let e = load(&model, folder.0.path()).err().unwrap_or_else(|| panic!("{expected}")).to_string();
        assert!(e.contains(expected), "{e}");
    }
    // Within the configuration of all processors, as newer folders have it.
    let folder = folder("qwen3", &videos);
    fs::remove_file(folder.0.path().join("video_preprocessor_config.json")).unwrap();
    fs::remove_file(folder.0.path().join("preprocessor_config.json")).unwrap();
    let both = json!({"image_processor": data("qwen3")["pixels"], "video_processor": videos["qwen3"]["video"]});
    folder.put("processor_config.json", both.to_string());
    let (_, encoder) = open(folder.0.path());
    let case = &videos["qwen3"]["videos"][0];
    let medium = encode(&encoder, sides(&case["size"]), &times(case), PictureBounds::default()).unwrap();
    assert_eq!(medium.layout().n_rows() as u64, numbers(&json!([case["n_rows"]]))[0]);
}
