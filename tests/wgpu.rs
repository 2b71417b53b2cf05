//! The wgpu backend on a software Vulkan driver: every architecture compared with the CPU. Skipped with a message if
//! there is no driver.
#![cfg(feature = "wgpu")]

#[path = "gpu/wgpu_encoders.rs"]
mod encoders;
#[expect(dead_code, reason = "one of them is needed here")]
mod gpu;
#[expect(dead_code, reason = "few of them are needed here")]
mod it {
    pub mod support;
}
#[path = "gpu/media.rs"]
mod media;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use realizar::device::self_test;
use realizar::drivers;
use realizar::engine::saved::RestoreParams;
use realizar::engine::{self, Adapter, CacheParams, Cancel, Chooser, LoadOptions, Model, Plan, Session};
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::gpu::{GpuDevice, GpuDriver};
use realizar::graph::sequence_spec::SequenceSpec;
use realizar::model::arch;
use realizar::quant;
use realizar::sampling::{Sampler, SamplerParams};
use realizar::tensor::DType;
use realizar::wgpu::Wgpu;

use it::support::adapter_file::gguf;
use it::support::adapters::{all_factors, merge};
use it::support::models;
use it::support::process::in_own_process;
use it::support::published::{file_of, numbers};
use it::support::reference::relative_rms;
use it::support::save::{restored, save, saved_bytes};
use it::support::shim::step_together;
use it::support::tiny::{self, PROMPT, Tiny};

/// Returns the number of the first device in the list of all, with software drivers, unless there is none.
fn number() -> Option<u32> {
    realizar::wgpu::allow_software();
    let device = Wgpu.devices().into_iter().find(|device| device.unavailable.is_empty());
    let Some(device) = device else {
        eprintln!("skipped: {:?}", Wgpu.devices());
        return None;
    };
    let at = engine::devices().iter().position(|listed| listed.name == device.name).unwrap();
    Some(at as u32 + 1)
}

fn open(deterministic: bool) -> Option<Arc<dyn GpuDevice>> {
    number()?;
    Some(Wgpu.open(0, &LoadOptions { deterministic, ..Default::default() }).unwrap())
}

fn load(path: &Path, device: u32, gpu_layers: u32) -> Result<Arc<Model>> {
    Model::load(path, LoadOptions { device, gpu_layers, ..Default::default() })
}

/// Returns the logits after pieces of the prompt, each with the position that they follow.
fn prompt(model: &Arc<Model>, piece: usize) -> Vec<(usize, Vec<f32>)> {
    let ends = (1..).map(|i| PROMPT.len().min(i * piece) - 1);
    ends.zip(models::logits_in_pieces(&mut models::session(model), piece)).collect()
}

/// Returns tiny networks of the architectures that the device supports.
fn supported(dtype: DType) -> Vec<(&'static str, Tiny)> {
    let device = open(false).unwrap();
    let mut all = tiny::architectures(|name| Tiny::new(name, dtype).shape(64, 4, 2, 16, 96));
    // No near-tie between experts in these shapes.
    all.iter_mut().filter(|(_, tiny)| tiny.net.moe.is_some()).for_each(|(_, tiny)| tiny.seed = 4);
    all.retain(|(_, tiny)| {
        let (_dir, path, _) = save(tiny);
        let source = Source::open(&path, Access::Read).unwrap();
        let network = arch::network(&source, None, false).unwrap();
        device.supports(&network.program, &network.weights(), 0..network.program.ops.len()).is_ok()
    });
    all
}

/// Tests a device for the model in a file; the largest error as a part of what is allowed.
fn check(device: &Arc<dyn GpuDevice>, path: &Path) -> Result<f64> {
    let source = Source::open(path, Access::Read)?;
    let network = arch::network(&source, None, false)?;
    device.supports(&network.program, &network.weights(), 0..network.program.ops.len())?;
    self_test::check(device, &network.program, &network.weights(), None)
}

#[test]
fn every_type_passes() {
    let Some(device) = open(false) else { return };
    println!("{:?}", device.info());
    for format in quant::FORMATS.iter().filter(|format| format.dtype.0 < 1 << 16) {
        let (_dir, path, _) = save(&Tiny::new("llama", format.dtype).layers(1).shape(256, 8, 1, 32, 256));
        let error = check(&device, &path).unwrap_or_else(|e| panic!("{}: {e}", format.name));
        println!("{:10} error {error:.2} of the limit", format.name);
        assert!(error < 0.7, "{}", format.name);
    }
}

#[test]
fn every_architecture_passes() {
    let Some(device) = open(false) else { return };
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::Q8_0).shape(64, 4, 2, 16, 96)) {
        let (_dir, path, _) = save(&tiny);
        let error = check(&device, &path).unwrap_or_else(|e| panic!("{name}: {e}"));
        println!("{name:20} error {error:.2}");
        assert!(error < 0.7, "{name}");
    }
}

/// Returns the data of a file of `data/architectures`, and writes the file to a folder.
fn file_of_data(name: &str, folder: &Path) -> (serde_json::Value, PathBuf) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures").join(format!("{name}.json"));
    let data: serde_json::Value = serde_json::from_slice(&std::fs::read(data).unwrap()).unwrap();
    let path = folder.join(format!("{name}.gguf"));
    std::fs::write(&path, file_of(&data).build().0).unwrap();
    (data, path)
}

/// Files whose ops no tiny network has run whole on the device, and give the logits of another implementation.
#[test]
fn architectures_of_files_agree_with_another_implementation() {
    let Some(device) = number() else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["gemma3n", "rwkv6", "arwkv7", "kimi-k3", "minimax-01"] {
        let (data, path) = file_of_data(name, dir.path());
        let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
        let model = load(&path, device, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(model.info().gpu_layers, model.info().n_layers, "{name}");
        let params = CacheParams { capacity: 320, k_type: quant::F16, v_type: quant::F16 };
        let mut session = Session::new(&model, &params).unwrap();
        let (mut at, mut got) = (0, Vec::new());
        for row in numbers(&data["rows"]) {
            let end = row as usize + 1;
            ids[at..end].chunks(32).for_each(|ids| session.prefill(ids, None).unwrap());
            got.push(session.logits().unwrap().to_vec());
            at = end;
        }
        let row = |row: &serde_json::Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let expected: Vec<Vec<f64>> = data["logits"].as_array().unwrap().iter().map(row).collect();
        let difference = relative_rms(&expected, &got);
        println!("{name:20} {difference:.1e}");
        assert!(difference < 4e-3, "{name}: {difference:.1e}");
    }
}

/// Heads of more than 256 values have fewer rows per workgroup of `attend`.
#[test]
fn wide_heads_pass() {
    let Some(device) = open(false) else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F16).layers(1).shape(64, 3, 1, 576, 64));
    let error = check(&device, &path).unwrap();
    assert!(error < 0.7, "{error}");
}

#[test]
fn batch_invariant_kernels_pass() {
    let Some(device) = open(true) else { return };
    for dtype in [quant::Q4_K, quant::F16] {
        let (_dir, path, _) = save(&Tiny::new("llama", dtype).layers(1).shape(256, 8, 2, 32, 256));
        let error = check(&device, &path).unwrap();
        assert!(error < 0.7, "{error}");
    }
}

#[test]
fn every_split_agrees_with_the_reference() {
    let Some(device) = number() else { return };
    for (name, tiny) in supported(quant::F32) {
        let (_dir, path, reference) = save(&tiny);
        let expected = reference();
        for layers in [1, tiny.net.layers as u32] {
            let model = load(&path, device, layers).unwrap_or_else(|e| panic!("{name}: {e}"));
            for piece in if layers == 1 { [1, 7] } else { [4, 21] } {
                let (at, got): (Vec<usize>, Vec<_>) = prompt(&model, piece).into_iter().unzip();
                let expected: Vec<_> = at.iter().map(|&at| expected[at].clone()).collect();
                let difference = relative_rms(&expected, &got);
                println!("{name:20} {layers} layers, pieces of {piece:2}: {difference:.2e}");
                // Attention without a scale, whose sharp softmax enlarges roundings of queries and keys.
                let limit = if name == "gemma4" { 6e-3 } else { 4e-3 };
                assert!(difference < limit, "{name}, {layers} layers, pieces of {piece}: {difference}");
            }
        }
    }
}

/// A model on two GPUs that do not reach each other: two of wgpu, or one of CUDA (the shim) and one of wgpu.
#[test]
fn several_devices_agree_with_the_reference() {
    if !in_own_process("several_devices_agree_with_the_reference") {
        return;
    }
    let cuda = gpu::gpu(1).map(|_| 2);
    let Some(device) = number() else { return };
    let lists = [Some([device; 2]), cuda.map(|cuda| [cuda, device]), cuda.map(|cuda| [device, cuda])];
    for (name, tiny) in supported(quant::F32) {
        let (_dir, path, reference) = save(&tiny);
        let expected = reference();
        for devices in lists.iter().flatten() {
            let options = LoadOptions { devices, shares: &[1.0, 1.0], ..Default::default() };
            let model = match Model::load(&path, options) {
                Err(e) if e.to_string().contains("parts on GPUs") => continue,
                model => model.unwrap_or_else(|e| panic!("{name}: {e}")),
            };
            assert_eq!(model.info().gpus.iter().map(|(device, _)| *device).collect::<Vec<_>>(), devices, "{name}");
            let (at, got): (Vec<usize>, Vec<_>) = prompt(&model, 4).into_iter().unzip();
            let expected: Vec<_> = at.iter().map(|&at| expected[at].clone()).collect();
            let difference = relative_rms(&expected, &got);
            println!("{name:20} on {devices:?}: {difference:.2e}");
            assert!(difference < 4e-3, "{name} on {devices:?}: {difference}");
        }
    }
}

#[test]
fn sequences_rewind_fork_batch_and_are_saved() {
    let Some(device) = number() else { return };
    for (name, tiny) in supported(quant::Q8_0) {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, device, 0).unwrap();
        // Tokens one by one, so that every way of asking takes the same kernels.
        let expected: Vec<Vec<f32>> = prompt(&model, 1).into_iter().map(|(_, logits)| logits).collect();
        let mut a = models::session(&model);
        PROMPT[..12].iter().for_each(|t| a.prefill(&[*t], None).unwrap());
        let mut fork = a.fork().unwrap();
        let mut again = restored(&model, &RestoreParams::default(), &saved_bytes(&a)).unwrap();
        [7, 8, 9].iter().for_each(|t| a.prefill(&[*t], None).unwrap());
        a.truncate(12).unwrap();
        for s in [&mut a, &mut fork, &mut again] {
            s.prefill(&PROMPT[12..13], None).unwrap();
            assert!(s.logits().unwrap() == expected[12], "{name}");
        }
        let mut others: Vec<Session> = (3..6).map(|_| models::session(&model)).collect();
        for (s, n) in others.iter_mut().zip(3..) {
            PROMPT[..n].iter().for_each(|t| s.prefill(&[*t], None).unwrap());
        }
        let tokens = [PROMPT[3], PROMPT[4], PROMPT[5]];
        let mut together: Vec<&mut Session> = others.iter_mut().collect();
        step_together(&mut together, &tokens);
        for (s, at) in others.iter().zip(3..) {
            let expected: Vec<f64> = expected[at].iter().copied().map(f64::from).collect();
            let difference = relative_rms(&[expected], &[s.logits().unwrap().to_vec()]);
            assert!(difference < 3e-2, "{name}: {difference}");
        }
    }
}

#[test]
fn deterministic_models_give_the_same_bits_in_any_company() {
    let Some(device) = number() else { return };
    // Every kernel occurs in some of them.
    let all = supported(quant::F16).into_iter().step_by(3).chain(supported(quant::Q4_0).into_iter().step_by(4));
    for (name, tiny) in all {
        let (_dir, path, _) = save(&tiny);
        let model = Model::load(&path, LoadOptions { device, deterministic: true, ..Default::default() }).unwrap();
        let single: Vec<Vec<f32>> = prompt(&model, 1).into_iter().map(|(_, logits)| logits).collect();
        for piece in [7, 21] {
            for (at, logits) in prompt(&model, piece) {
                assert!(logits == single[at], "{name}, pieces of {piece}, position {at}");
            }
        }
        let mut sessions: Vec<Session> = (1..6).map(|_| models::session(&model)).collect();
        for (session, n) in sessions.iter_mut().zip([1, 20, 3, 9, 5]) {
            session.prefill(&PROMPT[..n], None).unwrap();
        }
        let tokens: Vec<u32> = sessions.iter().map(|s| PROMPT[s.len()]).collect();
        let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
        step_together(&mut together, &tokens);
        for session in &sessions {
            assert!(session.logits().unwrap() == single[session.len() - 1], "{name}, a batch");
        }
    }
}

/// A small published model writes the CPU's text, with caches of F32 and F16; if `MODEL` names a file, the logits of
/// that model are close.
#[test]
fn a_published_model_writes_the_text_of_the_cpu() {
    let Some(device) = number() else { return };
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf"));
    let text = |path: &Path, device: u32, dtype: DType| {
        let model = load(path, device, 0).unwrap();
        let params = CacheParams { k_type: dtype, v_type: dtype, ..Default::default() };
        let mut session = Session::new(&model, &params).unwrap();
        session.prefill(&[1, 403], None).unwrap();
        let mut token = 407;
        let mut one = |_| {
            token = session.decode(token, None).unwrap();
            token
        };
        (0..120).map(&mut one).collect::<Vec<u32>>()
    };
    for dtype in [quant::F32, quant::F16] {
        assert_eq!(text(path, device, dtype), text(path, 1, dtype), "{dtype:?}");
    }
    // The CPU rounds queries to bytes too, which a text of near-ties would show.
    let ids = text(path, 1, quant::F32);
    let logits = [1, device].map(|device| {
        let params = CacheParams { k_type: quant::Q8_0, v_type: quant::Q8_0, ..Default::default() };
        let mut session = Session::new(&load(path, device, 0).unwrap(), &params).unwrap();
        session.prefill(&ids, None).unwrap();
        session.logits().unwrap().to_vec()
    });
    let expected: Vec<f64> = logits[0].iter().copied().map(f64::from).collect();
    let difference = relative_rms(&[expected], &[logits[1].clone()]);
    assert!(difference < 5e-2, "{difference}");
    if let Some(large) = std::env::var_os("MODEL").filter(|name| !name.is_empty()) {
        let ids = text(Path::new(&large), 1, quant::F16);
        let logits = [1, device].map(|device| {
            let mut session = models::session(&load(Path::new(&large), device, 0).unwrap());
            let mut all = Vec::new();
            for pair in ids.windows(2).take(16) {
                session.prefill(&pair[..1], None).unwrap();
                all.push(session.logits().unwrap().to_vec());
            }
            all
        });
        let expected: Vec<Vec<f64>> = logits[0].iter().map(|l| l.iter().copied().map(f64::from).collect()).collect();
        let difference = relative_rms(&expected, &logits[1]);
        let best = |logits: &Vec<f32>| (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        let same = logits[0].iter().zip(&logits[1]).filter(|(a, b)| best(a) == best(b)).count();
        println!("{same} of {} tokens are the same, logits differ by {difference:.2e}", logits[0].len());
        assert!(difference < 5e-2, "{difference}");
    }
}

/// 4-bit caches are about as close to caches of F32 as on the CPU, and sessions with them rewind, fork and are restored
/// without a change of bits.
#[test]
fn four_bit_caches_are_as_close_as_on_the_cpu() {
    let Some(device) = number() else { return };
    // Whole blocks, which are rotated, blocks of 32 and 8 values, and latent keys.
    let dims = [32, 40, 64].map(|dim| ("llama", Tiny::new("llama", quant::F32).shape(64, 4, 2, dim, 96)));
    let latent = supported(quant::F32).into_iter().filter(|(name, _)| ["deepseek2", "gemma3"].contains(name));
    for (name, tiny) in dims.into_iter().chain(latent) {
        let (_dir, path, _) = save(&tiny);
        let (on_cpu, model) = (models::load(&path), load(&path, device, 0).unwrap());
        let session = |model: &Arc<Model>, k_type: DType, v_type: DType| {
            let mut session = Session::new(model, &CacheParams { k_type, v_type, ..Default::default() }).unwrap();
            session.prefill(&PROMPT[..12], None).unwrap();
            session
        };
        let logits = |model: &Arc<Model>, k_type: DType, v_type: DType| {
            let mut session = session(model, k_type, v_type);
            PROMPT[12..].iter().for_each(|token| session.prefill(&[*token], None).unwrap());
            session.logits().unwrap().to_vec()
        };
        let expected: Vec<f64> = logits(&on_cpu, quant::F32, quant::F32).into_iter().map(f64::from).collect();
        for (k_type, v_type) in [(quant::Q4_0, quant::F32), (quant::F16, quant::Q4_0), (quant::Q4_0, quant::Q4_0)] {
            let errors = [&on_cpu, &model]
                .map(|model| relative_rms(std::slice::from_ref(&expected), &[logits(model, k_type, v_type)]));
            let [host, own] = errors;
            println!("{name}, heads of {}, {k_type:?} {v_type:?}: {host:.1e} on the CPU, {own:.1e}", tiny.net.head_dim);
            // Values of latent layers are parts of their keys, which may be F16: then the limit of other tests.
            assert!(own < (1.5 * host).max(4e-3) && own < 1.0, "{name}: {errors:?}");
        }
        let mut a = session(&model, quant::Q4_0, quant::Q4_0);
        let mut fork = a.fork().unwrap();
        let mut again = restored(&model, &RestoreParams::default(), &saved_bytes(&a)).unwrap();
        [7, 8, 9].iter().for_each(|t| a.prefill(&[*t], None).unwrap());
        a.truncate(12).unwrap();
        let next = [&mut a, &mut fork, &mut again].map(|session| {
            session.prefill(&PROMPT[12..13], None).unwrap();
            session.logits().unwrap().to_vec()
        });
        assert!(next[0] == next[1] && next[1] == next[2], "{name}");
    }
}

/// Steps with LoRA adapters give the logits of merged weights, also if other sequences of the step have other adapters.
#[test]
fn adapters_agree_with_merged_weights() {
    let Some(device) = number() else { return };
    let names = ["llama", "deepseek2", "qwen35"];
    for (name, tiny) in supported(quant::F32).into_iter().filter(|(name, _)| names.contains(name)) {
        let (dir, path, _) = save(&tiny);
        let model = load(&path, device, 0).unwrap();
        let (rank, alpha) = if name == "llama" { (80, 40.0) } else { (20, 12.0) };
        let list = all_factors(&tiny, rank, 7);
        let file = dir.path().join("adapter.gguf");
        std::fs::write(&file, gguf(tiny.architecture, &list, alpha, quant::F32).build().0).unwrap();
        let adapter = Adapter::load(&model, &file, None).unwrap();
        let merged = |scale: f64| {
            let (_, net, mut weights) = tiny.build();
            merge(&mut weights, &list, f64::from(alpha) / rank as f64 * scale);
            net.forward(&weights, &PROMPT)
        };
        let scales = [0.0, 0.5, -1.0];
        let expected = scales.map(merged);
        let new = |scale: f64| {
            let mut session = models::session(&model);
            session.set_adapters(std::slice::from_ref(&adapter), &[scale as f32]).unwrap();
            session
        };
        for piece in [1, 21] {
            let got = models::logits_in_pieces(&mut new(scales[1]), piece);
            let ends: Vec<Vec<f64>> = expected[1].iter().skip(piece - 1).step_by(piece).cloned().collect();
            let difference = relative_rms(&ends, &got);
            let plain = relative_rms(&expected[0][PROMPT.len() - 1..], &got[got.len() - 1..]);
            println!("{name:20} pieces of {piece:2}: {difference:.2e}, from the model without {plain:.2}");
            assert!(difference < 4e-3 && plain > 0.05, "{name}, pieces of {piece}: {difference}, {plain}");
        }
        let mut sessions = scales.map(new);
        sessions.iter_mut().for_each(|session| session.prefill(&PROMPT[..6], None).unwrap());
        let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
        step_together(&mut together, &[PROMPT[6]; 3]);
        for (session, expected) in sessions.iter().zip(&expected) {
            let difference = relative_rms(&expected[6..7], &[session.logits().unwrap().to_vec()]);
            assert!(difference < 4e-3, "{name}, a batch: {difference}");
        }
    }
}

/// Tokens that steps sample from a few candidates are the host's choices from all logits.
#[test]
fn sampled_tokens_are_the_choices_of_the_host() {
    let Some(device) = number() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).shape(64, 4, 2, 16, 96));
    let model = load(&path, device, 0).unwrap();
    let draw = || SamplerParams { temperature: 0.9, top_k: 20, seed: 5, ..Default::default() };
    let all = [
        SamplerParams::default(),
        SamplerParams { logit_biases: vec![(7, 9.0), (9, 9.0), (7, 1.0)], ..Default::default() },
        draw(),
        SamplerParams {
            top_p: 0.9,
            min_p: 0.02,
            repeat_penalty: 1.3,
            presence_penalty: 0.4,
            penalty_window: 8,
            ..draw()
        },
        SamplerParams { top_k: 128, ..draw() },
        // Too many candidates: the host samples.
        SamplerParams { top_k: 129, ..draw() },
    ];
    for (i, params) in all.into_iter().enumerate() {
        let mut chooser = Chooser::new(params.clone()).unwrap();
        let mut session = models::session(&model);
        session.prefill(&PROMPT[..6], None).unwrap();
        let (mut got, mut n) = ([0; 24], 0);
        session.generate(PROMPT[6], Some(&mut chooser), &mut got, &mut n, None).unwrap();
        let mut session = models::session(&model);
        session.prefill(&PROMPT[..6], None).unwrap();
        let (mut sampler, mut token, mut expected) = (Sampler::new(params).unwrap(), PROMPT[6], Vec::new());
        for _ in 0..n {
            session.prefill(&[token], None).unwrap();
            token = sampler.sample(session.logits().unwrap(), session.tokens(), None).unwrap();
            expected.push(token);
        }
        assert!(n > 4 && got[..n] == expected, "parameters {i}: {got:?} are chosen, {expected:?} by the host");
    }
}

/// A token whose embedding is NaN makes the results after it an error, as on the CPU, and no others.
#[test]
fn a_token_that_is_nan_is_an_error_of_the_tokens_after_it() {
    const NAN_TOKEN: u32 = 123;
    let Some(device) = number() else { return };
    let names = ["llama", "qwen3moe", "deepseek2", "qwen35", "lfm2", "mamba2"];
    for (name, tiny) in supported(quant::F32).into_iter().filter(|(name, _)| names.contains(name)) {
        let tiny = tiny.change(|t| t.tied = false);
        let (mut file, ..) = tiny.file();
        let table = file.tensors.iter_mut().find(|t| t.name == "token_embd.weight").unwrap();
        let first = 4 * (NAN_TOKEN as usize * tiny.net.hidden + 1);
        table.data[first..first + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nan.gguf");
        std::fs::write(&path, file.build().0).unwrap();
        let model = load(&path, device, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let tokens = [PROMPT[0], NAN_TOKEN, PROMPT[1], PROMPT[2]];
        for dtype in [quant::F16, quant::Q8_0, quant::Q4_0] {
            let params = CacheParams { k_type: dtype, v_type: dtype, ..Default::default() };
            let mut session = Session::new(&model, &params).unwrap();
            let said = session.prefill(&tokens, None).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.contains("position 3 is NaN or infinite"), "{name}: {said}");
            assert_eq!(session.len(), 0, "{name}");
            session.prefill(&PROMPT[..2], None).unwrap();
            let before = session.logits().unwrap().to_vec();
            let said = session.decode(NAN_TOKEN, None).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.contains("position 2 is NaN or infinite"), "{name}: {said}");
            session.fetch_logits().unwrap();
            assert!(session.len() == 2 && session.logits() == Some(&before[..]), "{name}");
        }
    }
}

/// Activations do not hide NaN: of a clamped up projection, and of the sigmoid gate of a shared expert.
#[test]
fn a_weight_that_is_nan_reaches_the_logits() {
    let Some(device) = number() else { return };
    let all = tiny::architectures(|name| Tiny::new(name, quant::F32).shape(64, 4, 2, 16, 96));
    for (name, tensor) in [("gpt-oss", "blk.0.ffn_up_exps.weight"), ("qwen2moe", "blk.0.ffn_gate_inp_shexp.weight")] {
        let (_, tiny) = all.iter().find(|(known, _)| *known == name).unwrap();
        let (mut file, ..) = tiny.file();
        let found = file.tensors.iter_mut().find(|t| t.name == tensor).unwrap();
        found.data.as_chunks_mut().0.iter_mut().for_each(|value| *value = f32::NAN.to_le_bytes());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nan.gguf");
        std::fs::write(&path, file.build().0).unwrap();
        let model = load(&path, device, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let said = models::session(&model).prefill(&PROMPT[..1], None).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains("position 0 is NaN or infinite"), "{name}: {said}");
    }
}

#[test]
fn a_plan_has_the_bytes_of_the_load() {
    let Some(device) = number() else { return };
    let (_, tiny) = supported(quant::Q4_0).into_iter().find(|(name, _)| *name == "qwen3moe").unwrap();
    let (_dir, path, _) = save(&tiny);
    let options = LoadOptions { device, ..Default::default() };
    let cache = CacheParams { capacity: 64, k_type: quant::F16, v_type: quant::F16 };
    let plan = Plan::of_path(&path, options, &cache, 1).unwrap();
    let source = Source::open(&path, Access::Read).unwrap();
    let network = arch::network(&source, None, false).unwrap();
    let opened = open(false).unwrap();
    let weights = opened.clone().load(&network.program, &network.weights(), &mut |_, _| Ok(())).unwrap();
    assert_eq!(plan.weights.device, weights.weight_bytes());
    assert_eq!(weights.taken(), [weights.weight_bytes(), 0]);
    let (layers, k_type, v_type) = (network.program.kv_layers.clone(), quant::F16, quant::F16);
    let spec = SequenceSpec { layers, recurrent: Vec::new(), capacity: 64, k_type, v_type, max_step: 8 };
    let before = weights.taken()[0];
    let cache = weights.new_sequence(&spec).unwrap();
    assert_eq!((plan.cache.device, cache.bytes()), (weights.taken()[0] - before, opened.cache_bytes(&spec).unwrap()));
    drop(cache);
    assert_eq!(weights.taken()[0], before);
    assert!(plan.scratch.device > 0, "{plan:?}");
}

#[test]
fn calls_are_cancelled_and_the_model_goes_on() {
    let Some(device) = number() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).shape(64, 4, 2, 16, 96));
    let model = load(&path, device, 0).unwrap();
    let expected = prompt(&model, PROMPT.len());
    let mut session = models::session(&model);
    let cancel = Cancel::default();
    cancel.fire();
    assert!(matches!(session.prefill(&PROMPT, Some(&cancel)), Err(Error::Cancelled)));
    assert_eq!(session.len(), 0);
    session.prefill(&PROMPT, None).unwrap();
    assert!(session.logits().unwrap() == expected[0].1);
}

/// Unsupported features are rejected by name, and a software driver is only available if a test allows it.
#[test]
fn what_is_not_supported_is_refused_by_name() {
    if !in_own_process("what_is_not_supported_is_refused_by_name") {
        return;
    }
    let listed = Wgpu.devices();
    if listed.iter().any(|device| device.name.contains("llvmpipe")) {
        let software = listed.iter().position(|device| device.name.contains("llvmpipe")).unwrap();
        assert!(listed[software].unavailable.contains("a software driver"), "{listed:?}");
        let refused = Wgpu.open(software as i32, &LoadOptions::default()).err();
        assert!(matches!(refused, Some(Error::DeviceUnavailable { .. })), "{refused:?}");
    }
    assert!(Wgpu.open(1000, &LoadOptions::default()).is_err() && Wgpu.open(-1, &LoadOptions::default()).is_err());
    let Some(device) = number() else { return };
    assert!(!drivers::automatic().contains(&device));
    let dir = tempfile::tempdir().unwrap();
    let (_, path) = file_of_data("glm5-next", dir.path());
    let source = Source::open(&path, Access::Read).unwrap();
    let network = arch::network(&source, None, false).unwrap();
    let opened = Wgpu.open(0, &LoadOptions::default()).unwrap();
    let said = opened.supports(&network.program, &network.weights(), 0..network.program.ops.len());
    let said = said.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(said.contains("are not supported on this GPU"), "{said}");
    let layers = load(&path, device, 0).unwrap().info().gpu_layers;
    assert!((layers as usize) < network.program.layers.len(), "{layers}");
}

/// What a host does: a model on the GPU, a step, and then one on the CPU, whatever the GPU has done.
#[test]
fn a_host_outlives_its_driver() {
    if std::env::var_os("REAL").is_none() {
        return;
    }
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 4, 2, 16, 96));
    let on_gpu = || {
        let Some(device) = number() else { return Ok(()) };
        let model = load(&path, device, 0)?;
        let mut session = Session::new(&model, &CacheParams::default())?;
        session.prefill(&PROMPT[..3], None)?;
        session.prefill(&PROMPT[3..4], None)
    };
    match on_gpu() {
        Ok(()) => println!("status ok"),
        Err(e) => println!("status {e}"),
    }
    let model = models::load(&path);
    let mut session = models::session(&model);
    session.prefill(&PROMPT, None).unwrap();
    println!("alive");
}

/// Every call of the driver may fail, for want of memory or because the device is lost.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn every_failing_call_of_the_driver_is_a_status() {
    let failed = failing_calls("a_host_outlives_its_driver", &|_| true, &|n| vec![1, n.div_ceil(2)]);
    assert!(failed.is_none_or(|failed| failed.len() > 10));
}

/// Runs a test in processes of its own, in which calls of the driver fail: of each function that the test calls and
/// `of` selects, each of the calls that `at` returns for their number, and all calls after it. Returns a line with the
/// status of each failure; `None` without a driver or compiler.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn failing_calls(test: &str, of: &dyn Fn(&str) -> bool, at: &dyn Fn(usize) -> Vec<usize>) -> Option<Vec<String>> {
    use std::process::Command;
    let real = ["/usr/lib/x86_64-linux-gnu/libvulkan.so.1", "/usr/lib64/libvulkan.so.1", "/usr/lib/libvulkan.so.1"];
    let Some(real) = real.into_iter().find(|path| Path::new(path).exists()).filter(|_| number().is_some()) else {
        eprintln!("skipped: there is no Vulkan loader");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wgpu_faults/loader.c");
    let mut cc = Command::new("cc");
    let library = dir.path().join("libvulkan.so.1");
    if !cc.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library).arg(source).status().is_ok_and(|s| s.success()) {
        eprintln!("skipped: there is no C compiler");
        return None;
    }
    let host = |variables: &[(&str, &str)]| {
        let mut host = Command::new(std::env::current_exe().unwrap());
        host.args(["--exact", test, "--nocapture"]);
        host.env("LD_LIBRARY_PATH", dir.path()).env("REAL", real).envs(variables.iter().copied());
        let output = host.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("alive"), "{variables:?}: {}\n{text}", output.status);
        let status = text.lines().find_map(|line| line.split_once("status ")).map(|(_, status)| status.to_owned());
        (status.unwrap_or_default(), text)
    };
    let (status, text) = host(&[("COUNT", "1")]);
    assert_eq!(status, "ok");
    let counts = text.lines().filter_map(|line| line.split_once("calls ")?.1.split_once(' '));
    let counts: Vec<(&str, usize)> = counts.map(|(name, n)| (name, n.parse().unwrap())).collect();
    assert!(counts.iter().any(|(name, _)| *name == "vkQueueSubmit") && counts.len() > 15, "{text}");
    let mut failed = Vec::new();
    for (name, n) in counts.into_iter().filter(|(name, _)| of(name)) {
        let waits = ["vkQueueSubmit", "vkWaitSemaphores", "vkGetSemaphoreCounterValue", "vkQueueWaitIdle"];
        let code = if waits.contains(&name) { "-4" } else { "-2" };
        let mut calls = at(n);
        calls.dedup();
        for at in calls {
            let (status, _) = host(&[("FAULT", name), ("AT", &at.to_string()), ("CODE", code)]);
            let line = format!("{name} from call {at} of {n}: {status}");
            println!("{line}");
            failed.extend((status != "ok").then_some(line));
        }
    }
    Some(failed)
}
