//! Encoders of images and audio on a GPU, compared with the CPU and with implementations in 64-bit floats.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use realizar::cpu::threads::pool::Pool;
use realizar::device::{Backend, CPU_DEVICE, StepBudget, Undivided, Workload};
use realizar::engine::{
    CacheParams, Cancel, Encoder, EncoderParams, Encoding, LoadOptions, Media, MediaKind, MediaWork, Model,
    PictureBounds, Prompt, PromptPart, Session,
};
use realizar::error::{Error, Result};
use realizar::graph::op::{Attend, Op};
use realizar::graph::program::ProgramBuilder;
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::StepLimits;
use realizar::graph::weights::Weights;
use realizar::quant;
use serde_json::Value;
use tempfile::TempDir;

use crate::it::support::vision::{self, hidden, off, off_case};
use crate::it::support::{models, sound};

/// A model on the CPU, and the file of an encoder for it.
pub struct Files {
    pub at: TempDir,
    pub model: Arc<Model>,
    pub path: PathBuf,
}

impl Files {
    /// The files of a family of pictures or sounds.
    pub fn new(family: &str) -> Files {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("mmproj.gguf");
        let is_sound = sound::FAMILIES.contains(&family);
        let data = if is_sound { sound::data(family) } else { vision::data(family) };
        fs::write(&path, vision::gguf(&data).build().0).unwrap();
        drop(match is_sound {
            true => sound::model(at.path()),
            false => vision::model(at.path(), family, hidden(family)),
        });
        // One thread, because others would wait busily for work in small encoders.
        let model = models::load_threads(&at.path().join("model.gguf"), 1);
        Files { at, model, path }
    }

    pub fn load(&self, device: u32) -> Result<Arc<Encoder>> {
        load(&self.model, &self.path, device)
    }
}

pub fn load(model: &Arc<Model>, path: &Path, device: u32) -> Result<Arc<Encoder>> {
    Encoder::load(model, path, EncoderParams { device, ..EncoderParams::default() })
}

fn rows_of(encoder: &Encoder, case: &Value) -> Vec<f32> {
    match case["samples"].as_u64() {
        Some(n) => sound::rows(encoder, &sound::sound(n as usize)),
        None => vision::rows(encoder, &vision::picture(vision::sides(&case["size"]))),
    }
}

/// The case with the fewest rows.
fn smallest(data: &Value) -> Value {
    let cases = data["pictures"].as_array().or(data["sounds"].as_array()).unwrap();
    cases.iter().min_by_key(|case| case["n_rows"].as_u64().unwrap_or(0)).unwrap().clone()
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

pub fn item(encoder: &Arc<Encoder>, size: [usize; 2]) -> Arc<Media> {
    let mut work = MediaWork::picture(encoder, vision::picture(size), PictureBounds::default()).unwrap();
    work.advance(None, None, None).unwrap().unwrap()
}

/// Encodes the smallest case of each family on the CPU and on a GPU, and compares both with the reference.
pub fn agree_with_the_cpu_and_the_reference(gpu: u32) {
    for family in vision::FAMILIES.iter().copied().chain(sound::FAMILIES) {
        let started = std::time::Instant::now();
        let files = Files::new(family);
        let data = if sound::FAMILIES.contains(&family) { sound::data(family) } else { vision::data(family) };
        let case = smallest(&data);
        let [on_cpu, on_gpu] = [CPU_DEVICE, gpu].map(|device| files.load(device).unwrap());
        assert_eq!([on_cpu.device(), on_gpu.device()], [CPU_DEVICE, gpu], "{family}");
        let [host, device] = [&on_cpu, &on_gpu].map(|encoder| rows_of(encoder, &case));
        let errors = [off_case(&on_gpu, &device, &case), off(&device, &doubles(&host))];
        println!(
            "{family:14} {:.1e} off the reference, {:.1e} off the CPU {:?}",
            errors[0],
            errors[1],
            started.elapsed()
        );
        assert!(errors.iter().all(|error| *error < 1e-2), "{family}: {errors:?}");
    }
    for family in ["clip", "siglip", "siglip2"] {
        let data = vision::data(family);
        let folder = vision::tower(&data, |_| true);
        let model = models::load_threads(folder.0.path(), 1);
        let encoder = load(&model, folder.0.path(), gpu).unwrap();
        assert_eq!((encoder.device(), encoder.kind()), (gpu, MediaKind::Vector), "{family}");
        let case = &data["pictures"][0];
        let expected: Vec<f64> = case["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let error = off(item(&encoder, vision::sides(&case["size"])).rows(), &expected);
        println!("{family:14} {error:.1e} off the reference");
        assert!(error < 1e-2, "{family}: {error:.1e}");
    }
}

/// The encoding of a picture whose tiles are as large as they can be.
pub fn largest(encoder: &Encoder, tile: [usize; 2]) -> Encoding {
    let sizing = encoder.facts().sizing;
    let sides = (1..60).flat_map(|width| (1..60).map(move |height| [8 * width, 8 * height]));
    let layouts = sides.filter_map(|[width, height]| Some((sizing.layout(width, height).ok()?, [width, height])));
    let facts = encoder.facts();
    let mut fits = layouts.filter(|(layout, _)| [facts.n_patches(layout), facts.most_rows(layout)] == tile);
    let (layout, size) = fits.next().expect("a picture with the largest tiles");
    Encoding::new(encoder, sizing.tiles(&vision::picture(size), &layout).unwrap(), &layout).unwrap()
}

/// Pauses an encoding, cancels one, and encodes again.
pub fn pause_and_cancel(gpu: u32) {
    let files = Files::new("qwen25");
    let encoder = files.load(gpu).unwrap();
    let picture = vision::picture([70, 50]);
    let expected = vision::rows(&encoder, &picture);
    let sizing = encoder.facts().sizing;
    let layout = sizing.layout(70, 50).unwrap();
    let tiles = sizing.tiles(&picture, &layout).unwrap();
    // Pauses change no bit.
    let asks = Cell::new(0);
    let stop = || asks.replace(asks.get() + 1) % 5 == 4;
    let mut encoding = Encoding::new(&encoder, tiles.clone(), &layout).unwrap();
    let mut pauses = 0;
    while !encoding.advance(&encoder, &StepBudget::new(&stop)).unwrap() {
        pauses += 1;
    }
    assert!(pauses > 5 && encoding.rows == expected, "{pauses} pauses");
    drop(encoding);
    // A cancel in the middle, and the kept executors after it.
    let mut work = MediaWork::picture(&encoder, picture, PictureBounds::default()).unwrap();
    let cancel = Cancel::default();
    while work.hash().is_none() {
        assert!(work.advance(Some(std::time::Duration::ZERO), Some(&cancel), None).unwrap().is_none());
    }
    (0..3).for_each(|_| drop(work.advance(Some(std::time::Duration::ZERO), Some(&cancel), None).unwrap()));
    cancel.fire();
    assert!(matches!(work.advance(None, Some(&cancel), None), Err(Error::Cancelled)));
    drop(work);
    assert!(encoder.encode(tiles, &layout, None).unwrap() == expected);
}

/// Encodes on two threads with one encoder.
pub fn encode_on_threads(gpu: u32) {
    let files = Files::new("internvl");
    let encoder = files.load(gpu).unwrap();
    let pictures = [[60, 40], [40, 60]].map(vision::picture);
    let expected = pictures.each_ref().map(|picture| vision::rows(&encoder, picture));
    std::thread::scope(|threads| {
        for (picture, expected) in pictures.iter().zip(&expected) {
            let encoder = &encoder;
            threads.spawn(move || assert!(vision::rows(encoder, picture) == *expected));
        }
    });
}

/// Loads an encoder without naming a device, for models on the CPU and on a GPU, and prefills its rows. Returns the
/// model on the GPU.
pub fn follow_the_model(files: &Files, gpu: u32) -> Arc<Model> {
    let on_cpu = files.load(0).unwrap();
    assert_eq!(on_cpu.device(), CPU_DEVICE);
    let path = files.at.path().join("model.gguf");
    let options = LoadOptions { device: gpu, ..LoadOptions::default() };
    let model = Model::load(&path, models::on(models::runtime(1), options)).unwrap();
    let encoder = load(&model, &files.path, 0).unwrap();
    assert_eq!(encoder.device(), gpu);
    assert_eq!(load(&model, &files.path, CPU_DEVICE).unwrap().device(), CPU_DEVICE);
    let [host, device] = [&on_cpu, &encoder].map(|encoder| item(encoder, [70, 50]));
    assert!(host.hash() != device.hash() && item(&encoder, [70, 50]).hash() == device.hash());
    let logits = |model: &Arc<Model>, item: &Arc<Media>| {
        let parts = [PromptPart::Tokens(&[5, 9, 3]), PromptPart::Media(item), PromptPart::Tokens(&[7, 2])];
        let params = CacheParams { capacity: 512, k_type: quant::F32, v_type: quant::F32 };
        let mut session = Session::new(model, &params).unwrap();
        session.prefill_prompt(&Prompt::new(model, &parts, false).unwrap(), 0, None).unwrap();
        session.logits().unwrap().to_vec()
    };
    let error = off(&logits(&model, &device), &doubles(&logits(&files.model, &host)));
    println!("logits are {error:.1e} off the CPU's");
    assert!(error < 1e-2, "{error:.1e}");
    drop(encoder);
    model
}

/// Loads a program with wider heads than any GPU kernel has, and returns why it is on the CPU.
pub fn stays_on_the_cpu(gpu: u32) -> String {
    let pool = Arc::new(Pool::new(1).unwrap());
    let mut b = ProgramBuilder::default();
    let [q, k, v, out] = [1088; 4].map(|width| b.tensor(width));
    let layer = b.kv_layer(KvLayer::new(1, 1088, 0));
    b.push(Op::StoreKv { layer, k, v: Some(v) });
    b.push(Op::Attend(Attend::new(layer, q, out, 1.0)));
    let program = Arc::new(b.finish(0, &[q, k, v, out]));
    let (layers, k_type, v_type) = (program.kv_layers.clone(), quant::F16, quant::F16);
    let cache = SequenceSpec { layers, recurrent: vec![], capacity: 4, k_type, v_type, max_step: 4 };
    let work = [Workload { program, limits: StepLimits { max_tokens: 4, max_outputs: 0 }, cache }];
    let options = &LoadOptions { device: gpu, ..LoadOptions::default() };
    let load = Undivided { work: &work, options, host_bytes: u64::MAX, leave: None };
    let (backend, why) = Backend::load_undivided(&load, &Weights::default(), &pool, &mut |_, _| Ok(())).unwrap();
    assert!(backend.is_on_cpu());
    why.unwrap().to_string()
}

/// Names devices that do not exist.
pub fn missing_devices_are_reported(files: &Files, gpu: u32) {
    for device in [gpu + 100, u32::MAX] {
        assert!(matches!(files.load(device), Err(Error::InvalidArgument(why)) if why.contains("does not exist")));
    }
}
