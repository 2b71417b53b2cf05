//! Audio: resampling, WAV files, spectrograms and encoders from GGUF files and folders, compared with transformers and
//! libsndfile (`data/sound/make.py`). Samples are derived from lengths, weights from names and sizes.

use std::cell::Cell;
use std::f64::consts::PI;
use std::fs;

use realizar::device::StepBudget;
use realizar::engine::{Encoder, EncoderChoice, EncoderParams, Model, Run, measure_sound};
use realizar::error::Error;
use realizar::media::{LogMel, SAMPLE_RATE, Sound};
use realizar::quant;
use serde_json::{Value, json};

use crate::media::{random_numbers, rounds};
use crate::support::gguf::Gguf;
use crate::support::models;
use crate::support::published::numbers;
use crate::support::safetensors;
use crate::support::sound::{FAMILIES, TEMPLATE, at, encoding, rows};
pub use crate::support::sound::{TOKENS, data, model, sound};
use crate::vision::{self, bytes, folder, gguf, load, off_case, set};

const MANY: usize = 1 << 24;

fn floats(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn spectrograms_are_those_of_the_maker() {
    for case in data("spectrograms").as_array().unwrap() {
        let n: Vec<usize> = case.as_array().unwrap()[..3].iter().map(|n| n.as_u64().unwrap() as usize).collect();
        let (bins, every) = (n[0], case[4].as_u64().unwrap() as usize);
        let mel = LogMel::new(bins).of(&sound(n[1]), n[2]).unwrap();
        assert_eq!([(mel.len() / bins) as u64, bins as u64][..], numbers(&case[3])[..], "{n:?}");
        let worst = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs();
        let values: Vec<f32> = mel.iter().step_by(every).copied().collect();
        let expected = floats(&case[5]);
        assert_eq!(values.len(), expected.len());
        let worst = values.iter().zip(&expected).map(worst).fold(0.0, f64::max);
        println!("{n:?} {worst:.1e}");
        assert!(worst < 1e-6, "{n:?}: {worst:.1e}");
    }
}

#[test]
fn resampling_keeps_what_is_below_half_of_both_rates() {
    // Far from the ends a wave is a wave at every rate.
    let wave = |hertz: f64, rate: u32, n: usize| -> Vec<f32> {
        (0..n).map(|i| (2.0 * PI * hertz * i as f64 / f64::from(rate)).sin() as f32).collect()
    };
    for rate in [4_000, 6_000, 8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 44_101, 48_000, 96_000, 192_000, 384_000]
    {
        let n = rate as usize / 4 + 1;
        let limit = f64::from(rate.min(16_000)) / 2.0;
        for (part, gain) in [(0.01, 1.0), (0.3, 1.0), (0.85, 1.0), (1.3, 0.0)] {
            let hertz = part * limit;
            // Above half of its own rate a wave is another one.
            if hertz > f64::from(rate) / 2.0 {
                continue;
            }
            let made = Sound::new(&wave(hertz, rate, n), 1, rate, MANY).unwrap();
            assert_eq!((made.samples.len(), made.given), (n * SAMPLE_RATE / rate as usize, n), "{rate}");
            let expected = wave(hertz, 16_000, made.samples.len());
            let inner = 200..made.samples.len() - 200;
            let worst = inner.map(|i| (f64::from(made.samples[i]) - gain * f64::from(expected[i])).abs());
            let worst = worst.fold(0.0, f64::max);
            assert!(worst < 2e-3, "{rate}, {hertz} Hz: {worst:.1e}");
        }
    }
}

#[test]
fn samples_without_sense_are_refused() {
    let invalid = |samples: &[f32], channels: usize, rate: u32| {
        let refused = Sound::new(samples, channels, rate, MANY);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{channels} {rate}: {refused:?}");
    };
    invalid(&[], 1, 16_000);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2e6, f32::MAX] {
        invalid(&[0.0, bad], 1, 16_000);
    }
    for rate in [0, 1, 3_999, 384_001, u32::MAX] {
        invalid(&[0.0; 4], 1, rate);
    }
    for (n, channels) in [(4, 0), (4, 3), (4, 65), (65, 65)] {
        invalid(&vec![0.0; n], channels, 16_000);
    }
    assert!(matches!(Sound::new(&[0.0; 100], 1, 8_000, 199), Err(Error::TooComplex(_))));
    assert_eq!(Sound::new(&[0.0; 100], 1, 8_000, 200).unwrap().samples, [0.0; 200]);
    // One channel is the mean of several; a sound that is shorter than a sample of the other rate is none.
    assert_eq!(Sound::new(&[1.0, 0.0, 0.5, 0.5], 2, 16_000, MANY).unwrap().samples, [0.5, 0.5]);
    assert!(Sound::new(&[0.5], 1, 192_000, MANY).unwrap().samples.is_empty());
}

#[test]
fn wav_files_have_the_samples_of_another_reader() {
    let expected = data("wav");
    for (name, samples) in expected.as_object().unwrap() {
        let file = fs::read(at(&format!("{name}.wav"))).unwrap();
        let decoded = Sound::decode(&file, MANY);
        let channels: Vec<f32> = floats(samples).into_iter().map(|x| x as f32).collect();
        let mean = Sound::new(&channels, 2, 16_000, MANY).unwrap();
        let decoded = decoded.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(decoded == mean && mean.given == 23, "{name}: {decoded:?}");
        // Every file that is cut is rejected, but for a filling byte, and none with changed bytes ends the process.
        for end in 0..file.len() {
            let cut = Sound::decode(&file[..end], MANY);
            assert!(cut.is_err() || end + 1 == file.len(), "{name} up to {end}");
        }
        for (i, byte) in (0..file.len().min(120)).flat_map(|i| [0, 1, 0x7f, 0xff].map(move |byte| (i, byte))) {
            let mut changed = file.clone();
            changed[i] = byte;
            drop(Sound::decode(&changed, 1000));
        }
    }
    // A stream whose length was not known when its header was written.
    let mut stream = fs::read(at("s16.wav")).unwrap();
    let told = stream.windows(4).position(|window| window == b"data").unwrap() + 4;
    stream[told..told + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(Sound::decode(&stream, MANY).unwrap().given, 23);
    stream.truncate(stream.len() - 1);
    assert_eq!(Sound::decode(&stream, MANY).unwrap().given, 22);
    assert!(matches!(Sound::decode(&stream, 21), Err(Error::TooComplex(_))));
    // Lengths that programs write into a pipe, and lengths of a header that was never completed.
    let whole = fs::read(at("s16.wav")).unwrap();
    let with = |riff: u32, data: u32| {
        let mut file = whole.clone();
        file[4..8].copy_from_slice(&riff.to_le_bytes());
        file[told..told + 4].copy_from_slice(&data.to_le_bytes());
        Sound::decode(&file, MANY)
    };
    let expected = Sound::decode(&whole, MANY).unwrap();
    for data in [0xffff_ffffu32, 0x8000_0000, 0x7fff_f000, 0x7fff_ffdb, 0xffff_fff0, 0] {
        for riff in [data.wrapping_add(36), 0, 0xffff_ffff, u32::try_from(whole.len() - 8).unwrap()] {
            assert_eq!(with(riff, data).unwrap(), expected, "{riff:#x} {data:#x}");
        }
    }
    assert!(matches!(with(0, 0x7ffe_0000), Err(Error::Format { .. })));
    // No samples, followed by bytes that are not chunks.
    let mut empty = whole[..told].to_vec();
    empty.extend_from_slice(b"\0\0\0\0LIST\x04\0\0\0INFO");
    assert!(Sound::decode(&empty, MANY).unwrap_err().to_string().contains("0 samples"));
    // BW64 is RF64 by another name; numbers of 20 bits stand at the upper end of three bytes.
    let mut long = fs::read(at("rf64.wav")).unwrap();
    let samples = Sound::decode(&long, MANY).unwrap();
    long[..4].copy_from_slice(b"BW64");
    assert_eq!(Sound::decode(&long, MANY).unwrap(), samples);
    let mut odd = fs::read(at("s24.wav")).unwrap();
    let samples = Sound::decode(&odd, MANY).unwrap();
    let format = odd.windows(4).position(|window| window == b"fmt ").unwrap() + 8;
    odd[format + 14..format + 16].copy_from_slice(&20u16.to_le_bytes());
    assert_eq!(Sound::decode(&odd, MANY).unwrap(), samples);
    for (first, name) in [(&b".snd"[..], "AU"), (b"FORM", "AIFF"), (b"\xff\xf1", "AAC"), (b"\0\0\0\x20ftypM4A", "MP4")]
    {
        let error = Sound::decode(first, MANY).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(matches!(Sound::decode(b"", MANY), Err(Error::Format { .. })));
    assert!(matches!(Sound::decode(b"RIFF\0\0\0\0WEBP", MANY), Err(Error::Format { .. })));
}

#[test]
fn wav_files_of_adpcm_have_the_samples_of_another_reader() {
    for (name, told) in data("adpcm").as_object().unwrap() {
        let file = fs::read(at(&format!("{name}.wav"))).unwrap();
        let sound = Sound::decode(&file, MANY).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(sound.given, told["frames"].as_u64().unwrap() as usize, "{name}");
        let every_fifth: Vec<f64> = sound.samples.iter().step_by(5).map(|x| f64::from(*x)).collect();
        assert_eq!(every_fifth, floats(&told["values"]), "{name}");
        for end in 0..file.len() {
            assert!(Sound::decode(&file[..end], MANY).is_err(), "{name} up to {end}");
        }
        for (i, byte) in (0..120).flat_map(|i| [0, 1, 0x7f, 0xff].map(move |byte| (i, byte))) {
            let mut changed = file.clone();
            changed[i] = byte;
            drop(Sound::decode(&changed, 1 << 16));
        }
    }
    // A predictor that does not exist, and predictors of a file's own.
    let whole = fs::read(at("ms-mono.wav")).unwrap();
    let samples = whole.windows(4).position(|window| window == b"data").unwrap() + 8;
    let with = |at: usize, byte: u8| {
        let mut file = whole.clone();
        file[at] = byte;
        Sound::decode(&file, MANY).unwrap_err().to_string()
    };
    assert!(with(samples, 7).contains("the predictor of a block is 7"), "{}", with(samples, 7));
    assert!(with(45, 9).contains("its predictors are its own"), "{}", with(45, 9));
}

#[test]
fn mixing_ends_where_it_is_stopped() {
    let samples = [0.25; 40_000];
    let looks = Cell::new(0);
    let mut stops = || {
        looks.set(looks.get() + 1);
        looks.get() > 3
    };
    assert!(matches!(Sound::begin(&samples, 2, 48_000, MANY, &mut stops), Err(Error::Cancelled)));
    assert_eq!(looks.get(), 4);
    for name in ["s16.wav", "ima-both.wav", "ulaw.wav"] {
        let file = fs::read(at(name)).unwrap();
        assert!(matches!(Sound::begin_file(&file, MANY, &mut || true), Err(Error::Cancelled)), "{name}");
    }
}

/// Compressed files, and the samples as another reader has them: rate, channels, frames and every fifth number.
#[cfg(feature = "sounds")]
#[test]
fn compressed_files_have_the_samples_of_another_reader() {
    use realizar::media::Compressed;
    for (name, told) in data("compressed").as_object().unwrap() {
        let file = fs::read(at(name)).unwrap();
        let n = |key: &str| told[key].as_u64().unwrap() as usize;
        let decode = |file: &[u8]| -> Result<(usize, u32, Vec<f32>), Error> {
            let mut decoding = Compressed::open(file, MANY)?.expect("a format that is known");
            decoding.advance(&mut || false)?;
            Ok((decoding.channels, decoding.rate, decoding.samples))
        };
        let (channels, rate, samples) = decode(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            [channels, rate as usize, samples.len()],
            [n("channels"), n("rate"), n("frames") * channels],
            "{name}"
        );
        let expected = floats(&told["values"]);
        let off = samples.iter().step_by(5).zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
        let worst = off.fold(0.0, f64::max);
        println!("{name} {worst:.1e}");
        assert!(worst < if name.ends_with("flac") { 1e-6 } else { 2e-4 }, "{name}: {worst:.1e}");
        let sound = Sound::decode(&file, MANY).unwrap();
        assert!(sound == Sound::new(&samples, channels, rate, MANY).unwrap());
        // Tags before the audio are skipped, whatever they contain.
        let tag = [b"ID3\x04\0\0\0\0\x01\x05", &[0xff; 133][..]].concat();
        if !name.ends_with("ogg") {
            assert!(Sound::decode(&[&tag[..], &tag, &file].concat(), MANY).unwrap() == sound, "{name}");
        }
        assert!(matches!(Sound::decode(&file, 100), Err(Error::TooComplex(_))), "{name}");
        // A pause changes nothing.
        let (mut calls, mut decoding) = (0, Compressed::open(&file, MANY).unwrap().unwrap());
        while !decoding
            .advance(&mut || {
                calls += 1;
                calls % 2 == 0
            })
            .unwrap()
        {}
        assert!(decoding.samples == samples && calls > 2, "{name}");
        // A truncated file is rejected, or decodes to a prefix of the whole.
        let mut refused = 0;
        for end in (0..file.len()).step_by(7) {
            match decode(&file[..end.max(4)]) {
                Ok((.., part)) => assert!(samples.starts_with(&part[..part.len().min(samples.len())]), "{name} {end}"),
                Err(Error::Format { .. } | Error::Unsupported(_) | Error::InvalidArgument(_)) => refused += 1,
                Err(e) => panic!("{name} {end}: {e}"),
            }
        }
        assert!(refused > 3 && (!name.ends_with("flac") || refused == file.len().div_ceil(7)), "{name}: {refused}");
    }
}

#[cfg(feature = "sounds")]
#[test]
fn compressed_files_with_changed_bytes_do_no_harm() {
    let (mut random, mut refused) = (random_numbers(), 0);
    for name in data("compressed").as_object().unwrap().keys() {
        let file = fs::read(at(name)).unwrap();
        for i in 0..rounds(60) {
            let mut changed = file.clone();
            for _ in 0..1 + i % 3 {
                let at = random(if i % 2 == 0 { file.len() } else { file.len().min(200) });
                changed[at] = [random(256) as u8, 0, 0xff, changed[at] ^ 1 << random(8)][random(4)];
            }
            match Sound::decode(&changed, 1 << 16) {
                Ok(sound) => assert!(sound.samples.len() <= 1 << 16, "{name}"),
                Err(e @ (Error::Io { .. } | Error::Busy(_) | Error::OutOfMemory { .. })) => panic!("{name}: {e}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 30, "{refused}");
}

/// Compares what an encoder makes of the sounds of a family.
fn check(what: &str, encoder: &Encoder, data: &Value) {
    let vocabulary = vision::data("vocabulary").as_array().unwrap().len() as u64;
    for case in data["sounds"].as_array().unwrap() {
        let n = case["samples"].as_u64().unwrap() as usize;
        let facts = encoder.facts().sound.as_ref().unwrap();
        let layout = measure_sound(encoder, n, 0).unwrap();
        let n_rows = case["n_rows"].as_u64().unwrap() as usize;
        assert_eq!(layout.n_rows(), n_rows, "{what} {n}");
        let around = [0, 1].map(|i| numbers(&case["around"][i]).iter().map(|id| (id + vocabulary) as u32).collect());
        let [ahead, behind]: [Vec<u32>; 2] = around;
        let runs = [Run::Tokens(ahead), Run::Rows(n_rows), Run::Tokens(behind)];
        let runs: Vec<Run> = runs.into_iter().filter(|run| *run != Run::Tokens(Vec::new())).collect();
        assert_eq!(encoder.runs_of(facts.pieces(n_rows)).unwrap(), runs, "{what} {n}");
        let error = off_case(encoder, &rows(encoder, &sound(n)), case);
        println!("{what:20} {n} {error:.1e}");
        assert!(error < 1e-5, "{what} {n}: {error:.1e}");
    }
}

/// `n` vectors of sines and cosines, as transformers' SinusoidsPositionEmbedding has them.
fn waves(n: usize, width: usize) -> Vec<f32> {
    let half = width / 2;
    let angle = |i: usize| (i / width) as f64 * 10_000f64.powf(-((i % half) as f64) / (half - 1) as f64);
    (0..n * width).map(|i| if i % width < half { angle(i).sin() } else { angle(i).cos() } as f32).collect()
}

#[test]
fn encoders_give_the_rows_of_the_makers() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path());
    for family in FAMILIES {
        let data = data(family);
        let path = at.path().join("mmproj.gguf");
        fs::write(&path, gguf(&data).build().0).unwrap();
        check(&format!("{family} gguf"), &load(&model, &path).unwrap(), &data);
        // Files have the waves that folders lack.
        if !data["base"].to_string().contains("a.position_embd") {
            let file = gguf(&data).tensor("a.position_embd.weight", quant::F32.0, &[120, 48], &bytes(&waves(120, 48)));
            fs::write(&path, file.build().0).unwrap();
            check(&format!("{family} waves"), &load(&model, &path).unwrap(), &data);
        }
        if data["folder"].is_array() {
            let folder = folder(&data, false);
            check(&format!("{family} folder"), &load(&model, folder.0.path()).unwrap(), &data);
        }
    }
}

#[test]
fn folders_are_models_and_encoders() {
    for family in ["qwen2a", "qwen3a", "voxtral"] {
        let data = data(family);
        let folder = folder(&data, true);
        let model = Model::load(folder.0.path(), models::cpu());
        let model = model.unwrap_or_else(|e| panic!("{family}: {e}"));
        let encoder = load(&model, folder.0.path()).unwrap_or_else(|e| panic!("{family}: {e}"));
        let case = &data["sounds"][1];
        let rows = rows(&encoder, &sound(case["samples"].as_u64().unwrap() as usize));
        assert!(off_case(&encoder, &rows, case) < 1e-5, "{family}");
    }
}

/// The folder of a model that speaks too: encoders of pictures and of sound by the names of the whole model.
fn omni(model_type: &str, [seen, heard]: [&Value; 2]) -> safetensors::Folder {
    let part = |data: &Value, name: &str| {
        let config = &data["config"];
        config.get("thinker_config").unwrap_or(config)[name].clone()
    };
    let thinker = json!({"model_type": format!("{model_type}_thinker"), "vision_config": part(seen, "vision_config"),
        "audio_config": part(heard, "audio_config")});
    let config = json!({"model_type": model_type, "thinker_config": thinker, "talker_config": {"model_type": "x"}});
    let folder = safetensors::Folder::new(&config.to_string());
    // One file describes both.
    let mut both = heard["pixels"].as_object().unwrap().clone();
    ["n_window", "min_length"].iter().for_each(|name| _ = both.remove(*name));
    both.extend(seen["pixels"].as_object().unwrap().clone());
    folder.put("preprocessor_config.json", Value::from(both).to_string());
    let renamed = |name: &str| {
        let names = [
            ("model.visual.", "visual."),
            ("deepstack_merger_list", "merger_list"),
            ("multi_modal_projector.linear_1", "audio_tower.proj1"),
            ("multi_modal_projector.linear_2", "audio_tower.proj2"),
            ("thinker.", ""),
        ];
        let name = names.iter().fold(name.to_owned(), |name, (from, to)| name.replacen(from, to, 1));
        let merger = [(".norm.", ".ln_q."), (".linear_fc1.", ".mlp.0."), (".linear_fc2.", ".mlp.2.")];
        let is_merger = name.contains("merger");
        let name = merger.iter().filter(|_| is_merger).fold(name, |name, (from, to)| name.replacen(from, to, 1));
        format!("thinker.{name}")
    };
    let mut list: Vec<(String, Vec<u64>, Vec<f32>)> = Vec::new();
    for (name, shape, values) in [vision::tensors(seen, "folder"), vision::tensors(heard, "folder")].concat() {
        let name = renamed(&name);
        // The older model has queries, keys and values apart.
        match name.split_once(".attn.qkv.").filter(|_| model_type == "qwen2_5_omni") {
            Some((layer, leaf)) => {
                let shape = [&[shape[0] / 3][..], &shape[1..]].concat();
                for (part, values) in ["q", "k", "v"].iter().zip(values.chunks(values.len() / 3)) {
                    list.push((format!("{layer}.attn.{part}.{leaf}"), shape.clone(), values.to_vec()));
                }
            }
            None => list.push((name, shape, values)),
        }
    }
    list.push(("talker.head.weight".into(), vec![1, 2], vec![1.0, 2.0]));
    let list: Vec<safetensors::Tensor> =
        list.iter().map(|(name, shape, values)| (&name[..], "F32", &shape[..], bytes(values))).collect();
    folder.put("model.safetensors", safetensors::file(&list));
    folder
}

#[test]
fn folders_of_models_that_speak_too_have_both_encoders() {
    let at = tempfile::tempdir().unwrap();
    for (model_type, family, seen, heard) in
        [("qwen2_5_omni", "", "qwen25", "qwen2.5o"), ("qwen3_omni_moe", "qwen3", "qwen3", "qwen3a")]
    {
        let model = vision::model_with(at.path(), family, 64, &TOKENS, TEMPLATE);
        let (mut seen, heard) = (vision::data(seen), data(heard));
        let folder = omni(model_type, [&seen, &heard]);
        if model_type == "qwen2_5_omni" {
            // Other tokens stand around pictures than those of Qwen2.5-VL.
            for case in seen["pictures"].as_array_mut().unwrap() {
                (case["runs"][0], case["runs"][2]) = (json!([341]), json!([342]));
            }
        }
        let load = |choice| {
            let params = EncoderParams { choice, ..EncoderParams::default() };
            Encoder::load(&model, folder.0.path(), params).unwrap_or_else(|e| panic!("{model_type}: {e}"))
        };
        vision::check(model_type, &load(EncoderChoice::Pictures), &seen);
        let encoder = load(EncoderChoice::Sound);
        let case = &heard["sounds"][2];
        let rows = rows(&encoder, &sound(case["samples"].as_u64().unwrap() as usize));
        // Deeper layers take nothing of a sound.
        let width = encoder.facts().row_dim;
        assert_eq!(width, if family == "qwen3" { 192 } else { 64 });
        assert!(rows.chunks(width).all(|row| row[64..].iter().all(|x| *x == 0.0)));
        let first: Vec<f32> = rows.chunks(width).flat_map(|row| row[..64].to_vec()).collect();
        let expected = case["rows"].as_array().unwrap().iter().flat_map(floats);
        let taken = numbers(&case["at"]).into_iter().flat_map(|row| first[row as usize * 64..][..64].to_vec());
        let worst = taken.zip(expected).map(|(a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-4, "{model_type}: {worst:.1e}");
    }
}

/// The folder of Ultravox has no description of spectrograms, and its text model is elsewhere.
#[test]
fn folders_of_ultravox_have_the_encoder_alone() {
    let at = tempfile::tempdir().unwrap();
    let (model, data) = (model(at.path()), data("ultravox"));
    let config = json!({"model_type": "ultravox", "hidden_size": 64, "stack_factor": 8, "projector_act": "swiglu",
        "projector_ln_mid": true, "text_model_id": "another/model", "audio_config": {"model_type": "whisper", "d_model": 48,
        "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 192, "num_mel_bins": 16, "decoder_layers": 4,
        "max_source_positions": 100, "activation_function": "gelu", "median_filter_length": 7, "vocab_size": 51866}});
    let put = |config: &Value| {
        let folder = safetensors::Folder::new(&config.to_string());
        let named = |name: &str| {
            let names = [
                ("a.conv1d.1", "audio_tower.conv1"),
                ("a.conv1d.2", "audio_tower.conv2"),
                ("a.position_embd", "audio_tower.embed_positions"),
                ("a.post_ln", "audio_tower.layer_norm"),
                ("a.blk.", "audio_tower.layers."),
                (".attn_out", ".self_attn.out_proj"),
                (".attn_q", ".self_attn.q_proj"),
                (".attn_k", ".self_attn.k_proj"),
                (".attn_v", ".self_attn.v_proj"),
                (".ln1", ".self_attn_layer_norm"),
                (".ln2", ".final_layer_norm"),
                (".ffn_up", ".fc1"),
                (".ffn_down", ".fc2"),
                ("mm.a.norm_pre", "multi_modal_projector.ln_pre"),
                ("mm.a.norm_mid", "multi_modal_projector.ln_mid"),
                ("mm.a.mlp.1", "multi_modal_projector.linear_1"),
                ("mm.a.mlp.2", "multi_modal_projector.linear_2"),
            ];
            names.iter().fold(name.to_owned(), |name, (from, to)| name.replacen(from, to, 1))
        };
        let list: Vec<_> =
            vision::tensors(&data, "gguf").into_iter().map(|row| (named(&row.0), row.1, row.2)).collect();
        let list: Vec<safetensors::Tensor> =
            list.iter().map(|(name, shape, values)| (&name[..], "F32", &shape[..], bytes(values))).collect();
        folder.put("model.safetensors", safetensors::file(&list));
        folder
    };
    check("ultravox folder", &load(&model, put(&config).0.path()).unwrap(), &data);
    for (name, value, expected) in [
        ("projector_ln_mid", json!(false), "projector_ln_mid"),
        ("audio_model_id", json!("openai/whisper-tiny"), "another folder"),
        ("audio_latency_block_size", json!(10), "in blocks"),
        ("projector_act", json!("gelu"), "projector_act"),
        ("stack_factor", json!(7), "mm.a.norm_pre.weight has shape"),
    ] {
        let mut config = config.clone();
        config[name] = value;
        let error = load(&model, put(&config).0.path()).err().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
}

#[test]
fn pauses_change_no_bit() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path());
    for family in FAMILIES {
        let path = at.path().join("mmproj.gguf");
        fs::write(&path, gguf(&data(family)).build().0).unwrap();
        let encoder = load(&model, &path).unwrap();
        let samples = sound(70_001);
        let asks = Cell::new(0);
        let stop = || asks.replace(asks.get() + 1) % 5 == 4;
        let mut encoding = encoding(&encoder, &samples);
        let mut pauses = 0;
        while !encoding.advance(&encoder, &StepBudget::new(&stop)).unwrap() {
            pauses += 1;
        }
        assert!(pauses > 5, "{family}: {pauses} pauses");
        assert!(encoding.rows == rows(&encoder, &samples), "{family}");
    }
}

/// Names, keys or tensors of a file changed, and what the refusal says.
type Case<'a> = (&'a str, Box<dyn Fn(&mut Gguf) + 'a>, &'a str);

#[test]
fn files_that_no_encoder_is_made_of_are_refused_by_name() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path());
    let path = at.path().join("mmproj.gguf");
    let key = |name: &'static str, value: u32| -> Box<dyn Fn(&mut Gguf)> {
        Box::new(move |file| set(file, &format!("clip.audio.{name}"), value))
    };
    let without = |name: &'static str| -> Box<dyn Fn(&mut Gguf)> {
        Box::new(move |file| file.keys.retain(|(key, _)| !key.ends_with(name)))
    };
    let cases: Vec<Case> = vec![
        ("qwen2a", key("num_mel_bins", 0), "num_mel_bins is 0"),
        ("qwen2a", key("num_mel_bins", 17), "a.conv1d.1.weight has shape"),
        ("qwen2a", without("num_mel_bins"), "num_mel_bins"),
        ("qwen2a", key("attention.head_count", 5), "head_count is 5"),
        ("qwen2a", key("magic", 1), "clip.audio.magic is 1"),
        ("voxtral", without("stack_factor"), "projector.stack_factor"),
        ("voxtral", key("projector.stack_factor", 3), "100 vectors of places; they must fill rows of 3"),
        ("ultravox", key("projector.stack_factor", 7), "mm.a.norm_pre.weight has shape"),
        ("qwen2.5o", key("num_mel_bins", 17), "a.conv1d.1.weight has shape"),
        ("qwen3a", key("num_mel_bins", 32), "a.conv_out.weight has shape"),
        ("qwen2a", Box::new(|file| set(file, "clip.projector_type", "lfm2a")), "\"lfm2a\" of sound"),
        ("qwen2a", Box::new(|file| set(file, "clip.has_audio_encoder", false)), "\"qwen2a\" of pictures"),
        ("qwen2a", Box::new(|file| set(file, "clip.magic", 1u32)), "clip.magic is 1"),
        (
            "qwen2a",
            Box::new(|file| {
                let made = std::mem::replace(file, Gguf::new()).tensor("a.magic", 0, &[2], &[0; 8]);
                *file = made;
            }),
            "the tensor a.magic has no place",
        ),
    ];
    for (family, change, expected) in cases {
        let mut file = gguf(&data(family));
        change(&mut file);
        fs::write(&path, file.build().0).unwrap();
        let error = load(&model, &path).err().unwrap_or_else(|| panic!("{family}: {expected}")).to_string();
        assert!(error.contains(expected), "{family}: {error}, expected {expected}");
    }
    // Tokens that the vocabulary lacks.
    let plain = vision::model(at.path(), "", 64);
    fs::write(&path, gguf(&data("voxtral")).build().0).unwrap();
    let error = load(&plain, &path).err().unwrap().to_string();
    assert!(error.contains("\"[BEGIN_AUDIO]\", which stands beside sounds"), "{error}");
    let mut folders: Vec<(&str, &str, &str, Value, &str)> = vec![
        ("qwen2a", "config", "/audio_config/magic", 1.into(), "\"magic\" with the value 1"),
        ("qwen2a", "config", "/audio_config/scale_embedding", true.into(), "scale_embedding"),
        ("qwen2a", "config", "/audio_config/activation_function", "relu".into(), "activation_function"),
        ("qwen2a", "config", "/model_type", "granite_speech".into(), "granite_speech"),
        ("qwen2a", "pixels", "/hop_length", 80.into(), "hop_length"),
        ("qwen2a", "pixels", "/n_samples", 480_000.into(), "n_samples"),
        ("qwen2a", "pixels", "/feature_size", 80.into(), "feature_size"),
        ("qwen3a", "config", "/audio_config/n_window", 100.into(), "n_window"),
        ("qwen3a", "pixels", "/min_length", 4000.into(), "short sounds of another length"),
        ("voxtral", "config", "/audio_config/num_key_value_heads", 1.into(), "head_count_kv is 1"),
        ("voxtral", "config", "/audio_config/intermediate_size", 80.into(), "no multiple of the width"),
    ];
    for (family, file, pointer, value, expected) in folders.drain(..) {
        let mut data = data(family);
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        data[file].pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name.to_owned(), value);
        let folder = folder(&data, false);
        let error = load(&model, folder.0.path()).err().unwrap_or_else(|| panic!("{family}: {expected}")).to_string();
        assert!(error.contains(expected), "{family}: {error}, expected {expected}");
    }
}

#[test]
fn a_file_with_both_encoders_gives_the_one_that_is_asked_for() {
    let at = tempfile::tempdir().unwrap();
    let (model, path) = (model(at.path()), at.path().join("mmproj.gguf"));
    let (pictures, heard) = (vision::data("gemma3"), data("voxtral"));
    let mut file = gguf(&pictures);
    file.keys.retain(|(key, _)| key != "clip.projector_type");
    set(&mut file, "clip.vision.projector_type", "gemma3");
    set(&mut file, "clip.audio.projector_type", "voxtral");
    let other = gguf(&heard);
    file.keys.extend(other.keys.into_iter().filter(|(key, _)| key.starts_with("clip.audio.") || key.contains("has_")));
    file.tensors.extend(other.tensors);
    fs::write(&path, file.build().0).unwrap();
    let of = |choice| Encoder::load(&model, &path, EncoderParams { choice, ..EncoderParams::default() }).unwrap();
    assert!(of(EncoderChoice::Any).facts().sound.is_none() && of(EncoderChoice::Pictures).facts().sound.is_none());
    check("voxtral beside gemma3", &of(EncoderChoice::Sound), &heard);
    // Qwen2.5-Omni has one name for both.
    let (mut file, omni) = (gguf(&vision::data("qwen25")), data("qwen2.5o"));
    set(&mut file, "clip.projector_type", "qwen2.5o");
    let other = gguf(&omni);
    file.keys.extend(other.keys.into_iter().filter(|(key, _)| key.starts_with("clip.audio.") || key.contains("has_")));
    file.tensors.extend(other.tensors);
    fs::write(&path, file.build().0).unwrap();
    assert!(
        of(EncoderChoice::Any).facts().sound.is_none() && of(EncoderChoice::Pictures).facts().projector == "qwen2.5o"
    );
    check("qwen2.5o beside pictures", &of(EncoderChoice::Sound), &omni);
    fs::write(&path, gguf(&heard).build().0).unwrap();
    let error =
        Encoder::load(&model, &path, EncoderParams { choice: EncoderChoice::Pictures, ..EncoderParams::default() });
    assert!(error.err().unwrap().to_string().contains("no encoder of pictures"));
}

#[test]
fn no_number_nor_shape_of_a_file_ends_the_process() {
    let at = tempfile::tempdir().unwrap();
    let (model, path) = (model(at.path()), at.path().join("mmproj.gguf"));
    let mut refused = 0;
    for family in FAMILIES {
        let data = data(family);
        let mut try_file = |file: Gguf| {
            fs::write(&path, file.build().0).unwrap();
            refused += usize::from(load(&model, &path).is_err());
        };
        for key in data["keys"].as_object().unwrap().keys().filter(|key| key.starts_with("clip.")) {
            let without = |mut file: Gguf| {
                file.keys.retain(|(name, _)| name != key);
                file
            };
            try_file(without(gguf(&data)));
            for value in [1u32, 3, 7, 4096, 65_535, u32::MAX] {
                try_file(without(gguf(&data)).key(key, value));
            }
            try_file(without(gguf(&data)).key(key, f32::NAN));
        }
        for i in 0..data["gguf"].as_array().unwrap().len() {
            for dims in [vec![], vec![1], vec![1, 1], vec![3, 5, 7, 2], vec![0, 48], vec![48, 0]] {
                let mut file = gguf(&data);
                let n = dims.iter().product::<u64>() as usize;
                (file.tensors[i].data, file.tensors[i].dims) = (vec![0; 4 * n], dims);
                try_file(file);
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
