//! Audio encoders and conversations with audio through the C interface. Rows must equal the engine's for every way to
//! pass audio; `sound.rs` compares the engine's rows with the reference implementation.

use super::encoding::step;
use super::host::*;
use super::media::{Medium, Prompt, text};
use super::pictures::{chat, params};
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

use realizar::engine::{Encoder, EncoderChoice, EncoderParams, LoadParams, MediaWork, Model, Sound, most_samples};
use realizar::ffi::cancel::*;
use realizar::ffi::encoder::*;
use realizar::ffi::media::*;
use realizar::ffi::model::*;
use realizar::ffi::sound::*;
use realizar::ffi::status::*;

use crate::{sound, vision};

/// A model of the tests with an encoder of sound, and their folder.
struct Hearer {
    folder: tempfile::TempDir,
    model: *mut rz_model,
    encoder: *mut rz_encoder,
}

impl Hearer {
    fn new(family: &str) -> Hearer {
        let folder = tempfile::tempdir().expect("a folder");
        sound::model(folder.path());
        let file = folder.path().join("mmproj.gguf");
        std::fs::write(&file, vision::gguf(&sound::data(family)).build().0).expect("a file");
        let model = load_with(folder.path().join("model.gguf").to_str().expect("UTF-8"), null());
        let mut hearer = Hearer { folder, model, encoder: null_mut() };
        let path = CString::new(file.to_str().expect("UTF-8")).expect("no NUL");
        expect(RZ_OK, |e| unsafe { rz_encoder_load(model, path.as_ptr(), null(), &mut hearer.encoder, e) });
        hearer
    }

    fn info(&self) -> rz_encoder_info {
        let mut info = sized::<rz_encoder_info>();
        expect(RZ_OK, |e| unsafe { rz_encoder_info_get(self.encoder, &mut info, e) });
        info
    }

    fn samples(
        &self,
        status: rz_status,
        samples: &[f32],
        [channels, rate]: [u32; 2],
        params: *const rz_media_params,
    ) -> (Medium, String) {
        let mut media = null_mut();
        let (at, n) = (samples.as_ptr(), samples.len());
        let message = expect(status, |e| unsafe {
            rz_media_from_samples(self.encoder, at, n, channels, rate, params, &mut media, e)
        });
        (Medium(media), message)
    }

    fn measured(&self, status: rz_status, samples: u32, height: u32) -> (rz_media_info, String) {
        let mut info = sized::<rz_media_info>();
        let message =
            expect(status, |e| unsafe { rz_media_measure(self.encoder, samples, height, null(), &mut info, e) });
        (info, message)
    }

    fn audio(&self, status: rz_status, file: &[u8]) -> (Medium, String) {
        let (mut media, data) = (null_mut(), file.as_ptr().cast::<c_void>());
        let message =
            expect(status, |e| unsafe { rz_media_from_audio(self.encoder, data, file.len(), null(), &mut media, e) });
        (Medium(media), message)
    }
}

impl Drop for Hearer {
    fn drop(&mut self) {
        unsafe {
            rz_encoder_free(self.encoder);
            rz_model_free(self.model);
        }
    }
}

/// The numbers of a description.
fn fields(info: &rz_media_info) -> ([[u32; 7]; 2], [u64; 2], [u8; 32]) {
    let rz_media_info { struct_size, kind, n_rows, n_tokens, row_dim, columns, lines, .. } = *info;
    let rz_media_info { tile_columns, tile_lines, has_overview, width, height, seen_width, seen_height, .. } = *info;
    let numbers = [
        [struct_size, kind, n_rows, n_tokens, row_dim, columns, lines],
        [tile_columns, tile_lines, has_overview, width, height, seen_width, seen_height],
    ];
    (numbers, [info.bytes, info.encode_ns], info.hash)
}

/// A WAV file of 16 bits.
fn wav(samples: &[i16], rate: u32) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|x| x.to_le_bytes()).collect();
    let header = [&b"RIFF"[..], &(36 + data.len() as u32).to_le_bytes(), b"WAVEfmt ", &16u32.to_le_bytes()];
    let format = [&1u16.to_le_bytes()[..], &1u16.to_le_bytes(), &rate.to_le_bytes(), &(2 * rate).to_le_bytes()];
    let rest = [&2u16.to_le_bytes()[..], &16u16.to_le_bytes(), b"data", &(data.len() as u32).to_le_bytes(), &data];
    [header.concat(), format.concat(), rest.concat()].concat()
}

#[test]
fn sounds_become_the_rows_of_the_engine() {
    for (family, tokens) in [("qwen2a", 2), ("qwen2.5o", 2), ("qwen3a", 2), ("voxtral", 1), ("ultravox", 0)] {
        let hearer = Hearer::new(family);
        let about = hearer.info();
        assert_eq!((about.kinds, about.sample_rate, about.tile_side, about.grain), (RZ_MEDIA_AUDIO, 16_000, 0, 0));
        assert_eq!((text_of(&about.projector), about.row_dim, about.n_layers), (family.to_owned(), 64, 2));
        assert!(about.weight_bytes > 0 && about.scratch_bytes > 0 && about.max_rows == 4096);
        let samples: Vec<i16> = sound::sound(30_000).iter().map(|x| (x * 32768.0) as i16).collect();
        let floats: Vec<f32> = samples.iter().map(|x| f32::from(*x) / 32768.0).collect();
        for rate in [16_000, 22_050] {
            let (medium, _) = hearer.samples(RZ_OK, &floats, [1, rate], null());
            let info = medium.info();
            assert_eq!((info.kind, info.width, info.height, info.lines), (RZ_MEDIA_AUDIO, 30_000, 0, 1), "{family}");
            assert_eq!(u64::from(info.seen_width), 30_000 * 16_000 / u64::from(rate));
            assert_eq!((info.columns, info.n_tokens), (info.n_rows, info.n_rows + tokens));
            assert!((about.min_rows..=about.max_rows).contains(&info.n_rows));
            // A file, and the engine itself, give the same.
            let (of_file, _) = hearer.audio(RZ_OK, &wav(&samples, rate));
            assert!(of_file.rows() == medium.rows() && of_file.info().hash == info.hash, "{family}");
            let path = hearer.folder.path().join("model.gguf");
            let model = Model::load(&path, LoadParams::default()).expect("a model");
            let path = hearer.folder.path().join("mmproj.gguf");
            let params = EncoderParams { choice: EncoderChoice::Sound, ..EncoderParams::default() };
            let encoder = Encoder::load(&model, &path, params).expect("an encoder");
            let heard = Sound::begin(&floats, 1, rate, most_samples(&encoder, 0).expect("sound"), &mut || false);
            let heard = heard.expect("sound");
            let mut work = MediaWork::sound(&encoder, heard, 0).expect("a sound");
            let own = work.advance(None, None, None).expect("rows").expect("a medium");
            assert!(own.rows() == medium.rows(), "{family}");
            // Another sound is another medium.
            let (other, _) = hearer.samples(RZ_OK, &floats[1..], [1, rate], null());
            assert!(other.info().hash != info.hash);
            // Two channels whose mean is the same, exactly.
            let both: Vec<f32> = floats.iter().flat_map(|x| [x + 0.25, x - 0.25]).collect();
            let (mixed, _) = hearer.samples(RZ_OK, &both, [2, rate], null());
            assert!(mixed.info().hash == info.hash && mixed.info().width == 30_000, "{family}");
            // The cost of a sound is known without one.
            let measured = hearer.measured(RZ_OK, info.seen_width, 0).0;
            let told = rz_media_info { width: info.seen_width, encode_ns: 0, hash: [0; 32], ..info };
            assert_eq!(fields(&measured), fields(&told), "{family}");
        }
    }
}

#[test]
fn sounds_are_prepared_in_slices() {
    for family in ["qwen2a", "voxtral"] {
        let hearer = Hearer::new(family);
        let floats = sound::sound(30_000);
        let (whole, _) = hearer.samples(RZ_OK, &floats, [1, 44_100], null());
        let steps = rz_media_params { flags: RZ_ENCODE_STEPS, ..params() };
        let (medium, _) = hearer.samples(RZ_OK, &floats, [1, 44_100], &steps);
        let early = medium.info();
        assert_eq!(
            (early.n_rows, early.hash, early.seen_width),
            (whole.info().n_rows, [0; 32], whole.info().seen_width)
        );
        let (mut before, mut after) = (0, 0);
        while step(&medium, 1).0 == RZ_AGAIN {
            let hash = medium.info().hash;
            assert!(hash == [0; 32] || hash == whole.info().hash, "{family}");
            if hash == [0; 32] { before += 1 } else { after += 1 }
        }
        // Resampling, the spectrogram and the hash, then the encoder.
        assert!(before > 30 && after > 5, "{family}: {before} {after}");
        assert!(medium.rows() == whole.rows() && medium.info().hash == whole.info().hash, "{family}");
    }
}

#[test]
fn sounds_without_sense_are_refused() {
    let hearer = Hearer::new("qwen2a");
    let says = |status, samples: &[f32], form, what: &str| {
        let (_, message) = hearer.samples(status, samples, form, null());
        assert!(message.contains(what), "{message}");
    };
    let invalid = RZ_ERR_INVALID_ARGUMENT;
    says(invalid, &[], [1, 16_000], "0 samples");
    says(invalid, &[0.0; 320], [1, 16_000], "too short for a row");
    says(invalid, &[0.0, f32::NAN], [1, 16_000], "sample 1 is NaN");
    says(invalid, &[0.0; 2000], [1, 3_999], "3999 samples per second");
    says(invalid, &[0.0; 2000], [0, 16_000], "0 channels");
    says(invalid, &[0.0; 2000], [u32::MAX, 16_000], "channels");
    says(invalid, &[0.0; 2000], [3, 16_000], "2000 samples; it must have some, as many in each of its 3 channels");
    assert!(hearer.measured(invalid, 320, 0).1.contains("too short for a row"));
    assert!(hearer.measured(invalid, 320, 1).1.contains("a height of 1"));
    assert!(hearer.measured(RZ_ERR_LIMIT, u32::MAX, 0).1.contains("4294967295 samples"));
    let few = rz_media_params { max_rows: 3, ..params() };
    let (_, message) = hearer.samples(RZ_ERR_LIMIT, &[0.0; 16_000], [1, 16_000], &few);
    assert!(message.contains("25 rows; it must have at most 3"), "{message}");
    let (_, message) = hearer.samples(RZ_ERR_LIMIT, &[0.0; 160_000], [1, 16_000], &few);
    assert!(message.contains("the sound lasts 10 seconds; it must last at most 2"), "{message}");
    assert!(hearer.audio(RZ_ERR_FORMAT, b"OggS").1.contains("Ogg"));
    assert!(hearer.audio(RZ_ERR_UNSUPPORTED, b".snd").1.contains("AU"));
    hearer.audio(RZ_ERR_FORMAT, &wav(&[1; 1000], 16_000)[..900]);
    // Encoders of one kind take no media of the other.
    let (mut media, pixels) = (null_mut(), [0u8; 12]);
    let picture = rz_pixels {
        struct_size: size_of::<rz_pixels>() as u32,
        format: RZ_PIXELS_RGB8,
        width: 2,
        height: 2,
        stride: 0,
        data: pixels.as_ptr().cast(),
    };
    let message = expect(RZ_ERR_UNSUPPORTED, |e| unsafe {
        rz_media_from_pixels(hearer.encoder, &picture, null(), &mut media, e)
    });
    assert!(message.contains("the encoder is one of sound"), "{message}");
    let path = CString::new(hearer.folder.path().join("mmproj.gguf").to_str().expect("UTF-8")).expect("no NUL");
    let asks = |flags| rz_encoder_params { flags, ..sized() };
    let mut encoder = null_mut();
    for (flags, status) in [(RZ_ENCODER_IMAGE, RZ_ERR_UNSUPPORTED), (RZ_ENCODER_AUDIO, RZ_OK), (4, RZ_ERR_VERSION)] {
        expect(status, |e| unsafe { rz_encoder_load(hearer.model, path.as_ptr(), &asks(flags), &mut encoder, e) });
    }
    unsafe { rz_encoder_free(encoder) };
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    unsafe { rz_cancel_fire(cancel) };
    let stopped = rz_media_params { cancel, ..params() };
    hearer.samples(RZ_ERR_CANCELLED, &sound::sound(9000), [1, 16_000], &stopped);
    unsafe { rz_cancel_free(cancel) };
}

#[test]
fn a_conversation_has_sounds_where_its_template_writes_them() {
    let hearer = Hearer::new("qwen2a");
    let (sound, _) = hearer.samples(RZ_OK, &sound::sound(9599), [1, 16_000], null());
    let first = vision::data("vocabulary").as_array().expect("a list").len() as u32;
    let rows = vec![RZ_TOKEN_MEDIA; sound.info().n_rows as usize];
    let heard = [&[first][..], &rows, &[first + 1]].concat();
    let prompt = Prompt::new(hearer.model, &[text(&[1]), sound.part()]);
    assert_eq!(prompt.tokens(), [&[1][..], &heard].concat());
    let picture = Medium::of_rows(hearer.model, RZ_MEDIA_IMAGE, &[0.5; 2 * 64], 64);
    let json = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a<|AUDIO|>"},
        {"type": "input_audio", "media": 0, "input_audio": {"format": "wav"}}, {"type": "image", "media": 1},
        {"type": "audio", "media": 0}]}]}"#;
    let (status, prompt, message) = chat(hearer.model, json, &[sound.0, picture.0]);
    assert_eq!(status, RZ_OK, "{message}");
    let tokens = prompt.tokens();
    let at: Vec<usize> = (0..tokens.len()).filter(|i| tokens[*i..].starts_with(&heard)).collect();
    // The template writes "Audio: " before each, and the picture is between the first and that.
    assert_eq!(at.len(), 2, "{tokens:?}");
    assert_eq!(tokens[at[0] + heard.len()..][..2], [RZ_TOKEN_MEDIA; 2]);
    assert_eq!(tokens.iter().filter(|id| **id == first).count(), 2);
    // A part has a medium of its own kind.
    for (kind, media) in [("image", &sound), ("audio", &picture)] {
        let json = format!(r#"{{"messages": [{{"role": "user", "content": [{{"type": "{kind}", "media": 0}}]}}]}}"#);
        let (status, _, message) = chat(hearer.model, &json, &[media.0]);
        assert!(status == RZ_ERR_INVALID_ARGUMENT && message.contains("another kind"), "{status} {message}");
    }
}
