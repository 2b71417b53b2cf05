//! Vision encoders and prompts with images through the C interface. Rows must equal the engine's for every way to pass
//! an image; `vision.rs` compares the engine's rows with another implementation.

use super::host::*;
use super::media::{Medium, Prompt, text};
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use realizar::engine::{Encoder, EncoderParams, LoadParams, Model, Picture};
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::encoder::*;
use realizar::ffi::media::*;
use realizar::ffi::model::*;
use realizar::ffi::prompt::*;
use realizar::ffi::runtime::*;
use realizar::ffi::source::*;
use realizar::ffi::status::*;
use realizar::media::WHITE;

use crate::vision;

/// A model of the tests, an encoder of a family for it, and their files.
pub struct Seer {
    folder: tempfile::TempDir,
    pub model: *mut rz_model,
    pub encoder: *mut rz_encoder,
}

impl Seer {
    pub fn new(family: &str) -> Seer {
        let folder = tempfile::tempdir().expect("a folder");
        vision::model(folder.path(), family, 64);
        let encoder = folder.path().join("mmproj.gguf");
        std::fs::write(&encoder, vision::gguf(&vision::data(family)).build().0).expect("a file");
        let model = load_with(folder.path().join("model.gguf").to_str().expect("UTF-8"), null());
        let mut seer = Seer { folder, model, encoder: null_mut() };
        expect(RZ_OK, |e| seer.load(&encoder, null(), e));
        seer
    }

    /// The model and the encoder of a folder.
    pub fn at(folder: tempfile::TempDir) -> Seer {
        let model = load_with(folder.path().to_str().expect("UTF-8"), null());
        let path = folder.path().to_owned();
        let mut seer = Seer { folder, model, encoder: null_mut() };
        expect(RZ_OK, |e| seer.load(&path, null(), e));
        seer
    }

    fn load(&mut self, path: &Path, params: *const rz_encoder_params, err: *mut rz_error) -> rz_status {
        let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        unsafe { rz_encoder_load(self.model, path.as_ptr(), params, &mut self.encoder, err) }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mmproj.gguf")
    }

    pub fn info(&self) -> rz_encoder_info {
        let mut info = sized::<rz_encoder_info>();
        expect(RZ_OK, |e| unsafe { rz_encoder_info_get(self.encoder, &mut info, e) });
        info
    }

    pub fn measure(&self, [width, height]: [u32; 2], params: *const rz_media_params) -> rz_media_info {
        let mut info = sized::<rz_media_info>();
        expect(RZ_OK, |e| unsafe { rz_media_measure(self.encoder, width, height, params, &mut info, e) });
        info
    }

    pub fn pixels(&self, pixels: &rz_pixels, params: *const rz_media_params) -> Medium {
        let mut media = null_mut();
        expect(RZ_OK, |e| unsafe { rz_media_from_pixels(self.encoder, pixels, params, &mut media, e) });
        Medium(media)
    }

    pub fn image(&self, status: rz_status, file: &[u8], params: *const rz_media_params) -> (Medium, String) {
        let (mut media, data) = (null_mut(), file.as_ptr().cast::<c_void>());
        let message =
            expect(status, |e| unsafe { rz_media_from_image(self.encoder, data, file.len(), params, &mut media, e) });
        (Medium(media), message)
    }
}

impl Drop for Seer {
    fn drop(&mut self) {
        unsafe {
            rz_encoder_free(self.encoder);
            rz_model_free(self.model);
        }
    }
}

pub fn pixels(format: u32, [width, height]: [u32; 2], data: &[u8]) -> rz_pixels {
    let struct_size = size_of::<rz_pixels>() as u32;
    rz_pixels { struct_size, format, width, height, stride: 0, data: data.as_ptr().cast() }
}

pub fn params() -> rz_media_params {
    sized::<rz_media_params>()
}

pub fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/media").join(name)).expect("a picture")
}

#[test]
fn pictures_become_the_rows_of_the_engine() {
    for (family, tiles) in [("idefics3", [3, 2]), ("qwen25", [0, 0]), ("gemma3", [0, 0]), ("internvl", [2, 1])] {
        let seer = Seer::new(family);
        let picture = vision::picture([130, 66]);
        let medium = seer.pixels(&pixels(RZ_PIXELS_RGB8, [130, 66], &picture.rgb), null());
        let (info, told) = (medium.info(), seer.measure([130, 66], null()));
        let of = |info: &rz_media_info| {
            let grid = [info.columns, info.lines, info.tile_columns, info.tile_lines, info.has_overview];
            let sizes = [info.width, info.height, info.seen_width, info.seen_height];
            (grid, sizes, [info.kind, info.n_rows, info.n_tokens, info.row_dim], info.bytes)
        };
        assert_eq!(of(&info), of(&told), "{family}");
        assert_eq!((info.width, info.height, info.kind, told.hash), (130, 66, RZ_MEDIA_IMAGE, [0; 32]));
        println!("{family} {} {} tiles {} x {}", info.n_rows, info.n_tokens, info.tile_columns, info.tile_lines);
        assert_eq!([info.tile_columns == 0, info.has_overview == 0], [tiles[0] == 0; 2], "{family}");

        // The same by the engine, with its own model.
        let model = Model::load(&seer.folder.path().join("model.gguf"), LoadParams::default()).expect("a model");
        let encoder = Encoder::load(&model, &seer.path(), EncoderParams::default()).expect("an encoder");
        let sizing = encoder.facts().sizing;
        let layout = sizing.layout(130, 66).expect("a layout");
        let rows = encoder.encode(sizing.tiles(&picture, &layout).expect("tiles"), &layout, None).expect("rows");
        assert!(medium.rows() == rows, "{family}");

        let about = seer.info();
        assert_eq!((about.row_dim, about.n_layers), (64, encoder.facts().n_layers as u32));
        assert_eq!(text_of(&about.projector), encoder.facts().projector);
        assert!((about.min_rows..=about.max_rows).contains(&info.n_rows) && about.max_rows <= 4096, "{family}");
        assert_eq!(about.is_mutual, 0);
        assert!(about.weight_bytes > 0 && about.scratch_bytes > 0);
        let mut plan = sized::<rz_encoder_plan>();
        let path = CString::new(seer.path().to_str().expect("UTF-8")).expect("no NUL");
        expect(RZ_OK, |e| unsafe { rz_encoder_plan_get(seer.model, path.as_ptr(), null(), 0, null(), &mut plan, e) });
        assert_eq!((plan.weights_host, plan.max_rows, plan.row), (about.weight_bytes, about.max_rows, 4 * 64));
        assert_eq!((plan.scratch_host, plan.device, about.device), (about.scratch_bytes, 1, 1));
        assert_eq!([plan.weights_device, plan.scratch_device], [0; 2]);
        let file = std::fs::read(seer.path()).unwrap_or_default();
        let (data, size) = (file.as_ptr().cast(), file.len() as u64);
        let kind = RZ_SOURCE_MEMORY;
        let source = rz_source { kind, data, size, ..sized() };
        let ask = |path: *const c_char, n: usize, out: &mut rz_encoder_plan, e: *mut rz_error| unsafe {
            rz_encoder_plan_get(seer.model, path, &source, n, null(), out, e)
        };
        if !file.is_empty() {
            let mut same = rz_encoder_plan { struct_size: plan.struct_size, ..zeroed() };
            expect(RZ_OK, |e| ask(null(), 1, &mut same, e));
            assert_eq!((same.weights_host, same.scratch_host), (plan.weights_host, plan.scratch_host));
        }
        refused("both a path and sources, or neither", |e| ask(path.as_ptr(), 1, &mut plan, e));
        refused("both a path and sources, or neither", |e| ask(null(), 0, &mut plan, e));

        // All tokens of a prompt: those around and between rows, or the rows alone.
        let prompt = Prompt::new(seer.model, &[text(&[5]), medium.part(), text(&[6])]);
        let tokens = prompt.tokens();
        assert_eq!(tokens.len() as u32, info.n_tokens + 2);
        let n_rows = tokens.iter().filter(|id| **id == RZ_TOKEN_MEDIA).count();
        assert_eq!(n_rows as u32, info.n_rows);
        let mut bare = null_mut();
        expect(RZ_OK, |e| unsafe { rz_prompt_new(seer.model, &medium.part(), 1, RZ_PROMPT_BARE, &mut bare, e) });
        assert_eq!(Prompt(bare).tokens(), vec![RZ_TOKEN_MEDIA; n_rows]);
    }
}

/// A ceiling that is used up refuses an encoder, but not its plan.
#[test]
fn an_encoder_beyond_the_ceiling_has_a_plan() {
    let seer = Seer::new("qwen25");
    let path = CString::new(seer.path().to_str().expect("UTF-8")).expect("no NUL");
    let plan = |model: *mut rz_model| {
        let mut plan = sized::<rz_encoder_plan>();
        expect(RZ_OK, |e| unsafe { rz_encoder_plan_get(model, path.as_ptr(), null(), 0, null(), &mut plan, e) });
        (plan.weights_host, plan.scratch_host, plan.max_rows)
    };
    let params = rz_runtime_params { threads: 1, ..sized() };
    let mut runtime = null_mut();
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
    let load = rz_model_params { runtime, ..sized() };
    let model = load_with(seer.folder.path().join("model.gguf").to_str().expect("UTF-8"), &load);
    expect(RZ_OK, |e| unsafe { rz_runtime_memory_limit_set(runtime, 1, e) });
    assert_eq!(plan(model), plan(seer.model));
    let mut encoder = null_mut();
    expect(RZ_ERR_LIMIT, |e| unsafe { rz_encoder_load(model, path.as_ptr(), null(), &mut encoder, e) });
    unsafe {
        rz_model_free(model);
        rz_runtime_free(runtime);
    }
}

#[test]
fn a_picture_is_the_same_in_each_form() {
    let seer = Seer::new("qwen25");
    let png = file("rgb.png");
    let picture = Picture::decode(&png, 1 << 20, WHITE).expect("a picture");
    let size = [picture.width as u32, picture.height as u32];
    let (first, _) = seer.image(RZ_OK, &png, null());
    let (bmp, _) = seer.image(RZ_OK, &file("rgb.bmp"), null());
    let wide = |order: [usize; 3]| {
        let pixel = |rgb: &[u8]| [rgb[order[0]], rgb[order[1]], rgb[order[2]], 255];
        picture.rgb.chunks_exact(3).flat_map(pixel).collect::<Vec<u8>>()
    };
    let (rgba, bgra) = (wide([0, 1, 2]), wide([2, 1, 0]));
    let mut gapped = Vec::new();
    for row in picture.rgb.chunks_exact(3 * picture.width) {
        gapped.extend_from_slice(row);
        gapped.extend_from_slice(&[9; 5]);
    }
    let stride = rz_pixels { stride: 3 * picture.width + 5, ..pixels(RZ_PIXELS_RGB8, size, &gapped) };
    let others = [
        seer.pixels(&pixels(RZ_PIXELS_RGB8, size, &picture.rgb), null()),
        seer.pixels(&pixels(RZ_PIXELS_RGBA8, size, &rgba), null()),
        seer.pixels(&pixels(RZ_PIXELS_BGRA8, size, &bgra), null()),
        seer.pixels(&stride, null()),
        bmp,
    ];
    for other in &others {
        assert_eq!(other.info().hash, first.info().hash);
        assert!(other.rows() == first.rows());
    }
    let other = seer.pixels(&pixels(RZ_PIXELS_RGBA8, size, &bgra), null());
    assert!(other.info().hash != first.info().hash);
    let gray: Vec<u8> = (0..60 * 40).map(|i| (i % 251) as u8).collect();
    let three: Vec<u8> = gray.iter().flat_map(|x| [*x; 3]).collect();
    let [one, three] = [(RZ_PIXELS_GRAY8, &gray), (RZ_PIXELS_RGB8, &three)]
        .map(|(format, data)| seer.pixels(&pixels(format, [60, 40], data), null()).info().hash);
    assert_eq!(one, three);
    // A turned file is the upright picture.
    let [turned, upright] =
        ["turned6.jpg", "turned6.jpg.png"].map(|name| seer.image(RZ_OK, &file(name), null()).0.info());
    assert_eq!([turned.width, turned.height], [upright.width, upright.height]);
}

#[test]
fn transparent_pixels_show_the_background() {
    let seer = Seer::new("qwen25");
    let size = [60, 40];
    let rgba: Vec<u8> = (0..60 * 40).flat_map(|i| [0, 0, 0, if i % 7 == 0 { 255 } else { 0 }]).collect();
    let on =
        |ground: [u8; 3]| -> Vec<u8> { rgba.chunks(4).flat_map(|p| if p[3] > 0 { [0; 3] } else { ground }).collect() };
    for (background, ground) in [(0, [255; 3]), (0xff00_0000, [0; 3]), (0xff10_80f0, [0x10, 0x80, 0xf0])] {
        let chosen = rz_media_params { background, ..params() };
        let seen = seer.pixels(&pixels(RZ_PIXELS_RGBA8, size, &rgba), &chosen).info().hash;
        let expected = seer.pixels(&pixels(RZ_PIXELS_RGB8, size, &on(ground)), null()).info().hash;
        assert_eq!(seen, expected, "{background:#x}");
    }
    let png = file("clear.webp");
    let [white, told, black] = [0, 0xffff_ffff, 0xff00_0000]
        .map(|background| seer.image(RZ_OK, &png, &rz_media_params { background, ..params() }).0.info().hash);
    assert!(white == told && white != black);
    for background in [1, 0xff_ffff, 0xfe00_0000] {
        let (_, message) = seer.image(RZ_ERR_INVALID_ARGUMENT, &png, &rz_media_params { background, ..params() });
        assert!(message.contains(&format!("rz_media_params.background is {background:#x}")), "{message}");
    }
}

#[test]
fn callers_bound_what_becomes_of_a_picture() {
    let rgb = vec![100; 3 * 800 * 600];
    let large = pixels(RZ_PIXELS_RGB8, [800, 600], &rgb);
    for (family, most) in [("qwen25", 12), ("pixtral", 12), ("idefics3", 40), ("internvl", 48)] {
        let seer = Seer::new(family);
        let free = seer.measure([800, 600], null());
        let bound = rz_media_params { max_rows: most, ..params() };
        let medium = seer.pixels(&large, &bound);
        let info = medium.info();
        println!("{family} {} {}", free.n_rows, info.n_rows);
        assert!(info.n_rows <= most && info.n_rows < free.n_rows, "{family} {} {}", info.n_rows, free.n_rows);
        assert_eq!(info.n_rows, seer.measure([800, 600], &bound).n_rows);
        if free.tile_columns > 0 {
            let one = seer.measure([800, 600], &rz_media_params { max_tiles: 1, ..params() });
            assert_eq!([one.tile_columns, one.has_overview], [0, 0], "{family}");
        }
    }
    let seer = Seer::new("qwen25");
    let least = rz_media_params { min_rows: 9, ..params() };
    assert!(seer.measure([20, 20], &least).n_rows >= 9 && seer.measure([20, 20], null()).n_rows < 9);
    let seer = Seer::new("gemma3");
    let bound = rz_media_params { max_rows: 5, ..params() };
    expect(RZ_ERR_LIMIT, |e| unsafe { rz_media_from_pixels(seer.encoder, &large, &bound, &mut null_mut(), e) });
}

/// Counts its calls, and stops at the first where `n` begins at `u32::MAX`.
unsafe extern "C" fn told(done: u64, total: u64, user: *mut c_void) -> i32 {
    let seen = unsafe { &mut *user.cast::<[u64; 3]>() };
    *seen = [seen[0].wrapping_add(1), done, total];
    i32::from(seen[0] == 0)
}

#[test]
fn what_is_no_picture_is_refused_by_name() {
    let seer = Seer::new("idefics3");
    let png = file("rgb.png");
    for (bytes, status, what) in [
        (&b"II*\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], RZ_ERR_UNSUPPORTED, "TIFF"),
        (&b"no picture at all"[..], RZ_ERR_FORMAT, "no format"),
        (&png[..png.len() / 2], RZ_ERR_FORMAT, ""),
    ] {
        let (_, message) = seer.image(status, bytes, null());
        assert!(message.contains(what), "{message}");
    }
    seer.image(RZ_ERR_LIMIT, &png, &rz_media_params { max_pixels: 10, ..params() });
    let rgb = [0; 3 * 100];
    let good = pixels(RZ_PIXELS_RGB8, [10, 10], &rgb);
    for (bad, what) in [
        (rz_pixels { format: 0, ..good }, "rz_pixels.format is 0"),
        (rz_pixels { width: 0, ..good }, "0 x 10"),
        (rz_pixels { height: 70_000, width: 1, data: null(), ..good }, "rz_pixels.data is NULL"),
        (rz_pixels { stride: 29, ..good }, "29"),
        (rz_pixels { stride: usize::MAX, ..good }, "larger than memory"),
    ] {
        refused(what, |e| unsafe { rz_media_from_pixels(seer.encoder, &bad, null(), &mut null_mut(), e) });
    }
    refused("pixels is NULL", |e| unsafe { rz_media_from_pixels(seer.encoder, null(), null(), &mut null_mut(), e) });
    refused("encoder is NULL", |e| unsafe { rz_media_from_pixels(null(), &good, null(), &mut null_mut(), e) });
    expect(RZ_ERR_VERSION, |e| {
        let newer = rz_media_params { flags: 2, ..params() };
        unsafe { rz_media_from_pixels(seer.encoder, &good, &newer, &mut null_mut(), e) }
    });

    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    unsafe { rz_cancel_fire(cancel) };
    let fired = rz_media_params { cancel, ..params() };
    expect(RZ_ERR_CANCELLED, |e| unsafe { rz_media_from_pixels(seer.encoder, &good, &fired, &mut null_mut(), e) });
    unsafe { rz_cancel_free(cancel) };
    let mut counts = [0u64; 3];
    let seen = &raw mut counts;
    let listens = rz_media_params { progress: Some(told), progress_user: seen.cast(), ..params() };
    drop(seer.pixels(&good, &listens));
    let [calls, done, total] = unsafe { *seen };
    assert!(calls > 0 && done == total && total > 0, "{calls} {done} {total}");
    unsafe { (*seen)[0] = u64::MAX };
    expect(RZ_ERR_CANCELLED, |e| unsafe { rz_media_from_pixels(seer.encoder, &good, &listens, &mut null_mut(), e) });
}

#[test]
fn files_without_a_fitting_encoder_are_refused() {
    let mut seer = Seer::new("qwen25");
    unsafe { rz_encoder_free(seer.encoder) };
    let (text_model, mmproj) = (seer.folder.path().join("model.gguf"), seer.path());
    expect(RZ_ERR_UNSUPPORTED, |e| seer.load(&text_model, null(), e));
    expect(RZ_ERR_IO, |e| seer.load(Path::new("/nowhere/mmproj.gguf"), null(), e));
    let params = sized::<rz_encoder_params>();
    let device = rz_encoder_params { device: 99, ..params };
    let message = expect(RZ_ERR_INVALID_ARGUMENT, |e| seer.load(&mmproj, &device, e));
    assert!(message.contains("device 99 does not exist"), "{message}");
    expect(RZ_ERR_VERSION, |e| seer.load(&mmproj, &rz_encoder_params { flags: 1 << 20, ..params }, e));
    // Rows for deeper layers that this model does not have.
    std::fs::write(&mmproj, vision::gguf(&vision::data("qwen3")).build().0).expect("a file");
    let message = expect(RZ_ERR_MISMATCH, |e| seer.load(&mmproj, null(), e));
    assert!(message.contains("64"), "{message}");
    seer.encoder = null_mut();
}

pub fn chat(model: *const rz_model, json: &str, media: &[*mut rz_media]) -> (rz_status, Prompt, String) {
    let (mut prompt, mut err) = (null_mut(), no_error());
    let status = unsafe {
        rz_prompt_from_chat(
            model,
            json.as_ptr().cast(),
            json.len(),
            0,
            media.as_ptr(),
            media.len(),
            null(),
            &mut prompt,
            &mut err,
        )
    };
    (status, Prompt(prompt), text_of(&err.message))
}

fn tokens_of(model: *const rz_model, json: &str) -> Vec<u32> {
    let (mut tokens, mut n) = (vec![0; 1000], 0);
    let json_at = json.as_ptr().cast();
    expect(RZ_OK, |e| unsafe {
        rz_chat_tokenize_into(model, json_at, json.len(), 0, tokens.as_mut_ptr(), 1000, &mut n, null(), e)
    });
    tokens.truncate(n);
    tokens
}

/// Calls that give text or tokens take no picture.
fn refused_as_text(model: *const rz_model, json: &str) {
    let (at, len) = (json.as_ptr().cast(), json.len());
    for message in [
        expect(RZ_ERR_UNSUPPORTED, |e| unsafe {
            rz_chat_tokenize_into(model, at, len, 0, null_mut(), 0, &mut 0, null(), e)
        }),
        expect(RZ_ERR_UNSUPPORTED, |e| unsafe {
            rz_chat_render_into(model, at, len, 0, null_mut(), 0, &mut 0, null(), e)
        }),
    ] {
        assert!(message.contains("only text"), "{message}");
    }
}

/// The tokens around rows appear once, as in the reference implementation.
#[test]
fn a_template_that_knows_pictures_has_them_where_it_writes_them() {
    let seer = Seer::new("qwen25");
    let rgb = [90; 3 * 60 * 60];
    let medium = seer.pixels(&pixels(RZ_PIXELS_RGB8, [60, 60], &rgb), null());
    let json = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a<|image_pad|>"},
        {"type": "image", "media": 0}, {"type": "image_url", "media": 0, "image_url": {"url": "data:"}},
        {"type": "text", "text": "b"}]}, {"role": "user", "content": "<|vision_start|>"}]}"#;
    let (status, prompt, message) = chat(seer.model, json, &[medium.0]);
    assert_eq!(status, RZ_OK, "{message}");
    let tokens = prompt.tokens();
    let rows = vec![RZ_TOKEN_MEDIA; medium.info().n_rows as usize];
    // <|vision_start|> 3, <|vision_end|> 4: what the message spells is text.
    let one = [&[3][..], &rows, &[4]].concat();
    let two = [&one[..], &one].concat();
    assert_eq!(tokens.windows(two.len()).filter(|window| *window == two).count(), 1);
    let specials = |id: u32| tokens.iter().filter(|token| **token == id).count();
    assert_eq!([3, 4, 5].map(specials), [2, 2, 0]);
    let plain = r#"{"messages": [{"role": "user", "content": "a<|image_pad|>"}]}"#;
    let begin = tokens_of(seer.model, plain);
    assert_eq!(tokens[..begin.len() - 1], begin[..begin.len() - 1]);
}

#[test]
fn a_template_that_knows_no_pictures_has_them_where_their_parts_stood() {
    // One has a picture where the other has a control token.
    let folder = with_template("{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    let split =
        with_template("{% for m in messages %}{{ m.content }}{% if not loop.last %}</s>{% endif %}{% endfor %}");
    let [model, other] = [&folder, &split].map(|file| load_with(file.path().to_str().expect("UTF-8"), null()));
    let medium = Medium::of(model, &[7, 8, 9]);
    for (a, b) in [("Once upon <image>", " a time"), ("", "b"), ("\u{e000} \u{f8ff}", "</s>"), ("a", "")] {
        let escaped = |text: &str| serde_json::Value::from(text).to_string();
        let (a, b) = (escaped(a), escaped(b));
        let json = format!(
            r#"{{"messages": [{{"role": "user", "content": [{{"type": "text", "text": {a}}},
            {{"type": "image", "media": 0}}, {{"type": "text", "text": {b}}}]}}]}}"#
        );
        let (status, prompt, message) = chat(model, &json, &[medium.0]);
        assert_eq!(status, RZ_OK, "{message}");
        let apart =
            format!(r#"{{"messages": [{{"role": "user", "content": {a}}}, {{"role": "user", "content": {b}}}]}}"#);
        let expected = tokens_of(other, &apart);
        let at = expected.iter().rposition(|id| *id == 2).expect("the control token");
        let expected = [&expected[..at], &[RZ_TOKEN_MEDIA; 3], &expected[at + 1..]].concat();
        assert_eq!(prompt.tokens(), expected, "{a} {b}");
    }
    let says = |json: &str, media: &[*mut rz_media], expected, what: &str| {
        let (status, _, message) = chat(model, json, media);
        assert!(status == expected && message.contains(what), "{status} {message}");
    };
    let image =
        |member: &str| format!(r#"{{"messages": [{{"role": "user", "content": [{{"type": "image"{member}}}]}}]}}"#);
    let invalid = RZ_ERR_INVALID_ARGUMENT;
    says(&image(""), &[medium.0], invalid, "messages[0].content[0].media is not the number");
    says(&image(r#", "media": 1"#), &[medium.0], invalid, "media is 1, there are 1");
    says(&image(r#", "media": -1"#), &[medium.0], invalid, "media is not the number of a media item");
    says(&image(r#", "media": 0"#), &[medium.0, medium.0], invalid, "entry 1: no part");
    says(&image(r#", "media": 0"#), &[null_mut()], invalid, "entry 0: media is NULL");
    says(&image(r#", "media": 0"#), &[], invalid, "media is 0, there are 0");
    refused_as_text(model, &image(r#", "media": 0"#));
    says(r#"{"messages": [{"role": "user", "content": "x"}]}"#, &[], RZ_OK, "");
    let foreign = Medium::of(other, &[7]);
    says(&image(r#", "media": 0"#), &[foreign.0], RZ_ERR_MISMATCH, "another model");
    let lossy = with_template("{{ messages[0].role }}");
    let lossy = load_with(lossy.path().to_str().expect("UTF-8"), null());
    let own = Medium::of(lossy, &[7]);
    let (status, _, message) = chat(lossy, &image(r#", "media": 0"#), &[own.0]);
    assert!(status == RZ_ERR_UNSUPPORTED && message.contains("leaves out a picture"), "{status} {message}");
    for model in [model, other, lossy] {
        unsafe { rz_model_free(model) };
    }
}
