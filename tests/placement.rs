//! Expert offload: experts on the host, layers on GPUs: on the host emulation, which shows three, or on the machine's
//! GPUs.
#![cfg(cuda)]

mod gpu;
#[path = "it/support/placement.rs"]
mod parser;
#[expect(dead_code, reason = "few of them are needed here")]
mod it {
    pub mod support;
}

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use realizar::cpu::threads::pool::Pool;
use realizar::device::placement::place as place_layers;
use realizar::device::{Backend, Batch, CPU_DEVICE, Load, StepBudget};
use realizar::engine::{
    CacheParams, Cancel, Chooser, Copied, DraftParams, DraftSource, EmbedParams, Job, JobParams, LoadOptions,
    LoadParams, Model, Placement, Plan, Pooling, Request, Runtime, RuntimeParams, SamplerParams, Session, step_jobs,
};
use realizar::error::{Error, Result};
use realizar::graph::op::{Activation, Experts, Norm, NormKind, Op, Projection, RouterScore, Routing, Weight};
use realizar::graph::program::ProgramBuilder;
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::{StepInputs, StepLimits};
use realizar::graph::weights::{MatrixSource, Weights};
use realizar::memory;
use realizar::quant;
use realizar::tensor::DType;

use gpu::Gpu;
use it::support::drafts;
use it::support::heads;
use it::support::matrix::Matrix;
use it::support::models;
use it::support::ops::values;
use it::support::published;
use it::support::reference::relative_rms;
use it::support::save::save;
use it::support::shim::{self, Shim};
use it::support::tiny::{self, PROMPT, Tiny};
use parser::placement as parsed;

const GPU: u32 = 2;

/// The GPUs of these tests, with as much memory as they need.
fn gpus() -> Option<MutexGuard<'static, Gpu>> {
    let gpus = gpu::gpu(3)?;
    gpus.0.as_ref().inspect(|shim| limit(shim, 1 << 30));
    Some(gpus)
}

/// Bounds the memory of the first GPU.
fn limit(shim: &Shim, bytes: usize) {
    shim.function::<extern "C" fn(usize)>("shim_memory")(bytes);
}

fn params<'a>(placement: &str) -> LoadOptions<'a> {
    let (placement, copied) = parsed(placement).unwrap();
    LoadOptions { device: GPU, placement, copied, ..Default::default() }
}

fn load(path: &Path, placement: &str, gpu_layers: u32) -> Result<Arc<Model>> {
    Model::load(path, LoadOptions { gpu_layers, ..params(placement) })
}

/// Returns the logits after pieces of the prompt, each with the position that they follow.
fn prompt(model: &Arc<Model>, piece: usize) -> Vec<(usize, Vec<f32>)> {
    let ends = (1..).map(|i| PROMPT.len().min(i * piece) - 1);
    ends.zip(models::logits_in_pieces(&mut models::session(model), piece)).collect()
}

fn generated(model: &Arc<Model>, n: usize) -> Vec<u32> {
    let (mut session, mut out, mut made) = (models::session(model), vec![0; n], 0);
    session.prefill(&PROMPT[..5], None).unwrap();
    session.generate(PROMPT[5], None, &mut out, &mut made, None).unwrap();
    out.truncate(made);
    out
}

/// The tiny networks that have experts.
fn mixtures(dtype: DType) -> Vec<(&'static str, Tiny)> {
    let mut all = tiny::architectures(|name| Tiny::new(name, dtype).shape(64, 4, 2, 16, 96));
    all.retain(|(_, tiny)| tiny.net.moe.is_some());
    // No near-tie between experts in these shapes.
    all.iter_mut().for_each(|(_, tiny)| tiny.seed = 4);
    all
}

fn mixture(name: &str, dtype: DType) -> Tiny {
    mixtures(dtype).into_iter().find(|(of, _)| *of == name).unwrap().1
}

/// Layers that have experts.
fn layers_with_experts(path: &Path) -> usize {
    (1..).find(|n| load(path, &format!("experts=cpu:{n}"), 0).is_err()).unwrap() - 1
}

#[test]
fn every_mixture_agrees_with_the_reference() {
    let Some(gpus) = gpus() else { return };
    let mut names = BTreeSet::new();
    for (i, (name, tiny)) in mixtures(quant::F32).into_iter().enumerate() {
        // Threads and blocks run in another order.
        gpus.0.as_ref().inspect(|shim| shim.order(i as i32 % 3));
        let (_dir, path, reference) = save(&tiny);
        let (expected, all) = (reference(), layers_with_experts(&path));
        names.insert(name);
        let half = all / 2;
        for (n, copied) in BTreeSet::from([(0, "never"), (half, "never"), (half, "1"), (all, "never"), (all, "1")]) {
            let model = load(&path, &format!("experts=cpu:{n},copied={copied}"), 0).unwrap();
            assert_eq!(model.info().experts_copied_from, (n > 0 && copied == "1").then_some(1), "{name}");
            let (layers, [on_host, on_device]) = &model.info().experts;
            assert_eq!((n > 0, n < all), (*on_host > 0, *on_device > 0), "{name}");
            assert_eq!((n > 0, model.info().gpu_layers), (!layers.is_empty(), tiny.net.layers as u32), "{name}");
            for piece in [1, 7, 21] {
                let (at, got): (Vec<usize>, Vec<_>) = prompt(&model, piece).into_iter().unzip();
                let expected: Vec<_> = at.iter().map(|&at| expected[at].clone()).collect();
                let difference = relative_rms(&expected, &got);
                let of = format!("{name:32} {n} of {all} layers' experts on the host, copied from {copied}");
                println!("{of}, pieces of {piece:2}: {difference:.2e}");
                // Attention without a scale, whose sharp softmax enlarges roundings of queries and keys.
                let limit = if name == "gemma4" { 6e-3 } else { 4e-3 };
                assert!(difference < limit, "{of}, pieces of {piece}: {difference}");
            }
        }
    }
    assert!(names.len() >= 10, "{names:?}");
}

/// Networks with experts whose results another implementation has computed, as far as layers can be on a GPU.
#[test]
fn other_mixtures_have_the_results_of_the_cpu() {
    let Some(_gpus) = gpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures")).unwrap() {
        let path = entry.unwrap().path();
        let data: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let has_experts = |key: &String| key.ends_with(".expert_count");
        if data["states"].is_array() || !data["keys"].as_object().unwrap().keys().any(has_experts) {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let file = folder.path().join(format!("{name}.gguf"));
        std::fs::write(&file, published::file_of(&data).build().0).unwrap();
        let ids: Vec<u32> = published::numbers(&data["ids"]).iter().take(64).map(|id| *id as u32).collect();
        let logits = |params: LoadOptions, piece: usize| {
            let model = Model::load(&file, params).unwrap();
            let cache = CacheParams { capacity: 64, k_type: quant::F32, v_type: quant::F32 };
            let mut session = Session::new(&model, &cache).unwrap();
            // Single tokens follow a context in which keys are already selected or compressed.
            let (first, last) = ids.split_at(if piece == 1 { ids.len().saturating_sub(16) } else { 0 });
            let pieces = first.chunks(64).chain(last.chunks(piece));
            pieces.for_each(|ids| session.prefill(ids, None).unwrap());
            (model.info().experts.0.len(), session.logits().unwrap().to_vec())
        };
        for piece in [1, 64] {
            let (_, expected) = logits(LoadOptions { device: CPU_DEVICE, ..Default::default() }, piece);
            let (_, without) = logits(LoadOptions { device: GPU, ..Default::default() }, piece);
            let without = published::relative_rms(&without, &expected);
            for placement in ["experts=cpu,copied=never", "experts=cpu,copied=1"] {
                let (layers, got) = logits(params(placement), piece);
                let difference = published::relative_rms(&got, &expected);
                println!(
                    "{name:20} {layers} layers, {placement}, pieces of {piece:2}: {difference:.1e}, {without:.1e}"
                );
                // The halves of a GPU's prompts may choose other experts, wherever experts are.
                let limit = f64::max(4e-3, 2.0 * without);
                assert!(difference < limit, "{name}, {placement}, pieces of {piece}: {difference}, {without}");
                if layers > 0 {
                    names.insert(name.clone());
                }
            }
        }
    }
    println!("{names:?}");
    assert!(names.len() >= 3, "{names:?}");
}

/// The sum of experts on the host has the bits of the CPU, for any number of rows; where they are copied to the device,
/// of whatever type, it has their numbers.
#[test]
fn sums_have_the_bits_of_the_cpu() {
    let Some(_gpus) = gpus() else { return };
    const HIDDEN: usize = 256;
    const N: usize = 6;
    let types = [quant::F32, quant::F16, quant::BF16, quant::Q4_0, quant::Q5_1, quant::Q8_0, quant::Q4_K, quant::Q5_K];
    for dtype in types.into_iter().chain([quant::Q6_K, quant::IQ4_NL]) {
        // The blocks of the one are as long as those of the other, and nobody encodes it.
        let encoded = if dtype == quant::IQ4_NL { quant::Q4_0 } else { dtype };
        let made_up = |seed| Matrix::new(encoded, N * HIDDEN, HIDDEN, &values(N * HIDDEN * HIDDEN, seed));
        let matrices = [1, 2, 3].map(|seed| Matrix { dtype, ..made_up(seed) });
        let mut b = ProgramBuilder::default();
        let [x, scores, out] = [HIDDEN, N, HIDDEN].map(|width| b.tensor(width));
        let routing = Routing::new(RouterScore::Softmax, 2, true);
        let [gate, up, down] = [0, 1, 2].map(Weight);
        let (gate, [biases, scales, orders], activation) = (Some(gate), [[None; 3]; 3], Activation::Silu);
        let (n_experts, ffn) = (N, HIDDEN);
        let experts =
            Experts { x, scores, out, gate, up, down, biases, scales, orders, n_experts, ffn, routing, activation };
        b.push(Op::Experts(experts));
        // A sequence has a layer.
        let layer = b.kv_layer(KvLayer::new(1, HIDDEN, 0));
        let k = b.tensor(HIDDEN);
        b.push(Op::Slice { x, first: 0, out: k });
        b.push(Op::StoreKv { layer, k, v: Some(x) });
        b.end_layer(0);
        let program = Arc::new(b.finish(0, &[x, scores, out]));
        let sources = matrices.iter().map(|matrix| matrix as &dyn MatrixSource).collect();
        let weights = Weights { matrices: sources, ..Weights::default() };
        let (limits, k_type, v_type) = (StepLimits { max_tokens: 40, max_outputs: 0 }, quant::F16, quant::F16);
        let layers = program.kv_layers.clone();
        let cache = SequenceSpec { layers, recurrent: vec![], capacity: 64, k_type, v_type, max_step: 40 };
        let pool = Arc::new(Pool::new(2).unwrap());
        let sums = |device: u32, copied: Copied, n: usize| {
            let placement = Placement::Host { first: 0, n: None };
            let options = LoadOptions { device, placement, copied, ..Default::default() };
            let load = Load::new(&options, limits, cache.clone());
            let backend = Backend::load(&program, &weights, &pool, &load, &mut |_, _| Ok(())).unwrap();
            let is_divided = matches!(backend, Backend::Pipeline(_));
            assert_eq!(is_divided, device == GPU);
            let mut executor = backend.new_executor(&program, limits).unwrap();
            let mut sequence = backend.new_sequence(&cache).unwrap();
            let positions: Vec<u32> = (0..n as u32).collect();
            let zeros = vec![0; n];
            let inputs = StepInputs { ids: &zeros, positions: &positions, sequences: &zeros, ..StepInputs::default() };
            let sequences = &mut [&mut sequence][..];
            let batch = &mut Batch { inputs, sequences };
            let ops = executor.ops();
            executor.begin(batch, ops).unwrap();
            executor.write(x, &values(n * HIDDEN, 4)).unwrap();
            executor.write(scores, &values(n * N, 5)).unwrap();
            assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
            let mut sums = vec![f32::NAN; n * HIDDEN];
            executor.read(out, &mut sums).unwrap();
            executor.end().unwrap();
            sums
        };
        for n in [1, 3, 40] {
            let (expected, got) = (sums(CPU_DEVICE, Copied::Never, n), sums(GPU, Copied::Never, n));
            assert!(expected.iter().any(|x| *x != 0.0));
            assert!(got == expected, "{dtype:?}, {n} rows");
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            let difference = relative_rms(&[expected], &[sums(GPU, Copied::From(1), n)]);
            println!("{dtype:?}, {n} rows, copied: {difference:.1e}");
            // The CPU rounds activations to 8 bits, but for those of F32.
            assert!(difference < if dtype == quant::F32 { 1e-3 } else { 2e-2 }, "{dtype:?}, {n} rows: {difference}");
        }
    }
}

/// Neither the way a prompt is cut nor the other sequences of a batch change a bit, where that is asked for.
#[test]
fn deterministic_models_give_the_same_bits_in_any_company() {
    let Some(_gpus) = gpus() else { return };
    for name in ["qwen2moe", "deepseek2"] {
        let (_dir, path, _) = save(&mixture(name, quant::Q8_0));
        // No step copies them.
        let params = LoadOptions { deterministic: true, ..params("experts=cpu,copied=1") };
        let model = Model::load(&path, params).unwrap();
        assert_eq!(model.info().experts_copied_from, None);
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
        shim::step_together(&mut together, &tokens);
        for session in &mut sessions {
            assert!(session.logits().unwrap() == single[session.len() - 1], "{name}, a batch");
            // Rewound and forked.
            session.truncate(1).unwrap();
            let mut fork = session.fork().unwrap();
            fork.prefill(&PROMPT[1..4], None).unwrap();
            assert!(fork.logits().unwrap() == single[3], "{name}, a fork");
        }
    }
}

/// Two jobs, after different parts of the prompt.
fn jobs(model: &Arc<Model>) -> [Job; 2] {
    [5, 9].map(|n| {
        let s = models::session(model);
        let params = JobParams { max_tokens: 6, ..Default::default() };
        let request = Request::new(&s, &PROMPT[..n], params).unwrap();
        Job::new(s, request)
    })
}

/// The tokens of jobs that run in slices of a time.
fn ended(mut jobs: [Job; 2], budget: Option<Duration>) -> [Vec<u32>; 2] {
    while !step_jobs(&mut jobs.each_mut(), budget).unwrap() {}
    jobs.each_mut().map(|job| job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap())
}

/// Wherever layers and experts are, the same tokens are made: on one GPU, two, with layers on the CPU, in jobs.
#[test]
fn generation_does_not_notice_where_experts_are() {
    let Some(gpus) = gpus() else { return };
    for name in ["qwen3moe", "qwen2moe", "deepseek2", "gpt-oss"] {
        let tiny = mixture(name, quant::F32);
        let (_dir, path, _) = save(&tiny);
        let n = tiny.net.layers as u32;
        let one = load(&path, "experts=cpu:0", 0).unwrap();
        let (expected, of_jobs) = (generated(&one, 12), ended(jobs(&one), None));
        let devices = [GPU, GPU + 1];
        for gpu_layers in [0, 1] {
            let mut models = vec![load(&path, "experts=cpu", gpu_layers).unwrap()];
            if gpu_layers == 0 && gpus.0.is_some() {
                let shares = &[1.0; 2];
                let params = LoadOptions { device: 0, devices: &devices, shares, ..params("experts=cpu") };
                models.push(Model::load(&path, params).unwrap());
                assert_eq!(models[1].info().gpus.len(), 2, "{name}");
            }
            for model in &models {
                assert!(
                    model.info().experts.1[0] > 0 && model.info().gpu_layers == if gpu_layers == 0 { n } else { 1 }
                );
                assert_eq!(generated(model, 12), expected, "{name}, {gpu_layers} layers");
                for budget in [None, Some(Duration::from_micros(1)), Some(Duration::from_secs(10))] {
                    assert_eq!(ended(jobs(model), budget), of_jobs, "{name}, {budget:?} a slice");
                }
            }
        }
    }
}

/// Steps that copy experts are the same in slices of any time, of mapped files, and on two GPUs.
#[test]
fn copies_are_paused_and_go_on() {
    let Some(gpus) = gpus() else { return };
    for name in ["qwen2moe", "gpt-oss"] {
        let (_dir, path, _) = save(&mixture(name, quant::Q8_0).layers(4));
        let mut models = vec![load(&path, "experts=cpu,copied=1", 0).unwrap()];
        // Weights that stay in the order of the file.
        models.push(Model::load(&path, LoadOptions { mmap: true, ..params("experts=cpu,copied=1") }).unwrap());
        if gpus.0.is_some() {
            let (devices, shares) = (&[GPU, GPU + 1], &[1.0; 2]);
            let params = LoadOptions { device: 0, devices, shares, ..params("experts=cpu,copied=1") };
            models.push(Model::load(&path, params).unwrap());
        }
        let expected = ended(jobs(&models[0]), None);
        for model in &models {
            for budget in [None, Some(Duration::from_micros(1)), Some(Duration::from_secs(10))] {
                assert_eq!(ended(jobs(model), budget), expected, "{name}, {budget:?} a slice");
            }
        }
    }
}

/// Slices end in time while the device works on, be it on a copy or on what the host waits for; that they go on waiting
/// gives no device more time than it has.
#[test]
fn slices_end_while_the_device_works_on() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let (_dir, path, _) = save(&mixture("qwen2moe", quant::Q8_0));
    for placement in ["experts=cpu,copied=never", "experts=cpu,copied=1"] {
        let model = load(&path, placement, 0).unwrap();
        let (expected, mut jobs) = (ended(jobs(&model), None), jobs(&model));
        let mut slice = || step_jobs(&mut jobs.each_mut(), Some(Duration::from_millis(2)));
        let (time_limit, started) = (shim.driver.time_limit(), Instant::now());
        shim.hang(true);
        (0..5).for_each(|_| assert!(!slice().unwrap()));
        assert!(started.elapsed() < time_limit / 6, "{placement}: {:?}", started.elapsed());
        shim.hang(false);
        assert_eq!(ended(jobs, Some(Duration::from_secs(1))), expected);
        let mut jobs = self::jobs(&model);
        shim.hang(true);
        shim.driver.set_time_limit(Duration::from_millis(50));
        let started = Instant::now();
        let lost = std::iter::repeat_with(|| step_jobs(&mut jobs.each_mut(), Some(Duration::from_millis(2))));
        let lost = lost.take_while(|_| started.elapsed() < time_limit / 6).find_map(Result::err);
        shim.driver.set_time_limit(time_limit);
        shim.hang(false);
        assert!(matches!(lost, Some(Error::DeviceLost { .. })), "{placement}: {lost:?}");
    }
}

/// Vectors of texts are those of the CPU wherever experts are.
#[test]
fn embeddings_do_not_notice_where_experts_are() {
    let Some(_gpus) = gpus() else { return };
    let texts = [3, 21, 1, 9].map(|n| &PROMPT[..n]);
    for (name, tiny) in mixtures(quant::F32) {
        let (_dir, path, _) = save(&tiny);
        let embed = |model: &Arc<Model>| {
            model.embed(&texts, EmbedParams { pooling: Some(Pooling::Mean), ..Default::default() }, None).unwrap()
        };
        let expected = embed(&models::load(&path));
        let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
        for placement in ["experts=cpu,copied=never", "experts=cpu,copied=8", "experts=cpu:1,copied=1"] {
            for gpu_layers in [0, tiny.net.layers as u32 / 2] {
                let model = load(&path, placement, gpu_layers).unwrap();
                let difference = relative_rms(std::slice::from_ref(&expected), &[embed(&model)]);
                println!("{name:32} {placement:24} {gpu_layers} layers: {difference:.2e}");
                assert!(difference < 6e-3, "{name}, {placement}, {gpu_layers} layers: {difference}");
            }
        }
    }
}

/// A load of a model in parts: with some experts on the host, so many layers on GPUs, and on these GPUs.
fn divided<'a>(placement: &str, gpu_layers: u32, devices: &'a [u32], deterministic: bool) -> LoadOptions<'a> {
    const SHARES: &[f32] = &[1.0, 1.0];
    let (device, shares) = (if devices.is_empty() { GPU } else { 0 }, &SHARES[..devices.len()]);
    let placed = if placement.is_empty() { LoadOptions::default() } else { params(placement) };
    LoadOptions { device, gpu_layers, devices, shares, deterministic, ..placed }
}

/// Drafts change no token where a model is divided, and a head drafts for such a model what it drafts for the same one
/// on the CPU.
#[test]
fn drafts_do_not_notice_where_layers_and_experts_are() {
    let Some(_gpus) = gpus() else { return };
    let small = |name: &str, kv_heads: usize| {
        let all = tiny::architectures(|name| {
            Tiny::new(name, quant::F32).shape(64, 4, kv_heads, 16, 96).change(|t| t.net.vocab = 32)
        });
        all.into_iter().find(|(of, _)| *of == name).unwrap().1
    };
    let assistant = heads::data("gemma4-assistant").to_string();
    let of_one_head = assistant.replace(r#"num_key_value_heads\": 2"#, r#"num_key_value_heads\": 1"#);
    assert_ne!(of_one_head, assistant);
    let text = PROMPT.map(|id| id % 32);
    let (shared, assistant) = (heads::data("shared"), serde_json::from_str(&of_one_head).unwrap());
    for (name, kv_heads, head) in
        [("glm4moe", 2, None), ("qwen3moe", 2, Some(&shared)), ("gemma4", 1, Some(&assistant))]
    {
        let mtp = head.is_none();
        let head = head.map(|data| heads::folder(data, "")).map(|folder| {
            Model::load(folder.0.path(), LoadOptions { device: CPU_DEVICE, ..Default::default() }).unwrap()
        });
        let source = || head.as_ref().map_or(DraftSource::Mtp, |head| DraftSource::Model(head.clone()));
        let drafted = |model: &Arc<Model>, source: Option<DraftSource>| {
            let draft = DraftParams { always: source.is_some(), source, most: 4 };
            let logit_biases = model.info().eos_token.into_iter().map(|eos| (eos, f32::NEG_INFINITY)).collect();
            let chooser = Chooser::new(SamplerParams { logit_biases, ..Default::default() }).unwrap();
            let params = JobParams { max_tokens: 40, draft, chooser: Some(chooser), ..Default::default() };
            drafts::passes(drafts::job(model, &text, params))
        };
        let right = |passes: &[[usize; 2]]| passes.iter().map(|pass| pass[1]).sum::<usize>();
        // The first weights of which the drafts are right now and then.
        let on_cpu = |seed: u64| {
            let mut tiny = small(name, kv_heads);
            tiny = if mtp { tiny.predicting() } else { tiny.layers(6) };
            // Layers that shared keys and values could not be divided.
            if let Some(gemma) = &mut tiny.net.gemma4 {
                gemma.own = 6;
                tiny.ints.retain(|(key, _)| *key != "attention.shared_kv_layers");
            }
            tiny.seed = seed;
            let (dir, path, _) = save(&tiny);
            let params = LoadOptions { device: CPU_DEVICE, mtp, ..Default::default() };
            let (_, passes) = drafted(&Model::load(&path, params).unwrap(), Some(source()));
            (right(&passes) > 1).then_some((dir, path, passes))
        };
        let (_dir, path, expected) = (0..50).find_map(on_cpu).unwrap();
        for (placement, gpu_layers, devices, deterministic) in [
            ("experts=cpu:1", 0, &[][..], true),
            ("experts=cpu,copied=3", 0, &[], false),
            ("", 1, &[], true),
            ("", 2, &[3, 2], false),
            ("experts=cpu", 4, &[2, 3], true),
        ] {
            let load = || LoadOptions { mtp, ..divided(placement, gpu_layers, devices, deterministic) };
            let at = format!("{name}, {placement}, {gpu_layers} layers, GPUs {devices:?}");
            let plan = Plan::of_path(&path, load(), &CacheParams::default(), 1).unwrap();
            let model = Model::load(&path, load()).unwrap();
            let planned: Vec<_> = plan.gpus.iter().map(|gpu| (gpu.device, gpu.layers)).collect();
            let weights = plan.weights.host + plan.weights.device;
            assert_eq!((&planned, weights), (&model.info().gpus, model.info().weight_bytes), "{at}");
            let (made, _) = drafted(&model, None);
            if name == "gemma4" && model.info().gpus.last().is_some_and(|(_, layers)| *layers < 2) {
                let session = models::session(&model);
                let draft = DraftParams { source: Some(source()), ..Default::default() };
                let refused = Request::new(&session, &text, JobParams { draft, ..Default::default() }).err().unwrap();
                assert!(
                    refused.to_string().contains("reads the KV cache of layers on several devices"),
                    "{at}: {refused}"
                );
                continue;
            }
            let (with_drafts, found) = drafted(&model, Some(source()));
            println!("{at}: {:?}, {} right, {} on the CPU", model.info().gpus, right(&found), right(&expected));
            assert_eq!(with_drafts, made, "{at}");
            // Drafts of others end where attention is divided otherwise.
            assert!(!deterministic || found == expected, "{at}: {found:?}, {expected:?}");
        }
    }
}

/// A file of packed weights has what stays on the host, layers and experts; where nothing does there is none.
#[test]
fn what_stays_on_the_host_is_packed_into_a_file() {
    let Some(_gpus) = gpus() else { return };
    let (dir, path, _) = save(&mixture("qwen2moe", quant::Q8_0).layers(4));
    let packed = dir.path().join("weights.rzpacked");
    let size = || std::fs::metadata(&packed).map_or(0, |file| file.len());
    let mut sizes = BTreeSet::new();
    for (placement, gpu_layers, devices) in [
        ("", 0, &[][..]),
        ("", 2, &[]),
        ("experts=cpu,copied=never", 0, &[]),
        ("experts=cpu,copied=8", 2, &[]),
        ("experts=cpu:3", 3, &[2, 3]),
    ] {
        let at = format!("{placement}, {gpu_layers} layers, GPUs {devices:?}");
        let load = |packed_path| {
            let params = LoadOptions { packed_path, ..divided(placement, gpu_layers, devices, false) };
            Model::load(&path, params).unwrap()
        };
        let in_memory = load(None);
        let (stays, expected) = (!placement.is_empty() || gpu_layers > 0, prompt(&in_memory, 21));
        for made in [false, true] {
            let before = size();
            let model = load(Some(&packed));
            assert!(prompt(&model, 21) == expected, "{at}");
            assert_eq!(model.info().experts, in_memory.info().experts, "{at}");
            let (mapped, in_memory) = (model.info().weight_bytes, in_memory.info().weight_bytes);
            assert_eq!(stays, mapped + size() / 2 < in_memory, "{at}: {mapped}, {in_memory}");
            assert!(!made || size() == before, "{at}");
        }
        sizes.insert(size());
    }
    // Each division has a file of its own size, and the first one none.
    println!("{sizes:?}");
    assert!(sizes.len() == 5 && sizes.contains(&0), "{sizes:?}");
    // A plan counts no memory for it, and makes none.
    let plan = |packed_path| {
        let params = LoadOptions { packed_path, ..params("experts=cpu") };
        Plan::of_path(&path, params, &CacheParams::default(), 1).unwrap().weights.host
    };
    let other = dir.path().join("other.rzpacked");
    assert!(plan(Some(&other)) < plan(None) / 2 && !other.exists());
}

/// Each step copies each expert once, and only where it has as many rows as that is for; then no activation crosses.
#[test]
fn experts_are_copied_once_a_step() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let tiny = mixture("qwen3moe", quant::Q8_0).layers(4);
    let (_dir, path, _) = save(&tiny);
    let (row, experts) = (4 * tiny.net.hidden as u64, tiny.net.moe.as_ref().unwrap().n as u64);
    let of_layer = load(&path, "experts=cpu:0", 0).unwrap().info().experts.1[1] / 4;
    let copied = |placement: &str, n: usize| {
        let model = load(&path, placement, 0).unwrap();
        let mut session = models::session(&model);
        session.prefill(&PROMPT[..4], None).unwrap();
        let numbers = || ["copies_in", "bytes_in"].map(|name| shim.number(&format!("shim_{name}")));
        let before = numbers();
        session.prefill(&PROMPT[4..4 + n], None).unwrap();
        [0, 1].map(|i| numbers()[i] - before[i])
    };
    for n in [7, 8] {
        let (least, got) = (copied("experts=cpu:0", n), copied("experts=cpu,copied=8", n));
        let [copies, bytes] = [0, 1].map(|i| got[i] - least[i]);
        println!("{n} rows: {copies} copies, {bytes} bytes; experts of a layer take {of_layer}");
        // The last layer has the row of the output alone.
        if n == 7 {
            assert_eq!((copies, bytes), (4, (3 * n as u64 + 1) * row));
            continue;
        }
        let pieces = copies - 1;
        assert!((3 * 3 * 4..=3 * 3 * experts).contains(&pieces), "{pieces} pieces");
        // Planes of a piece begin at multiples of 256.
        assert!((3 * of_layer..=3 * of_layer + 512 * pieces).contains(&(bytes - row)), "{bytes} bytes");
    }
}

/// A call that is cancelled leaves the text as it was, and the next one goes on.
#[test]
fn calls_are_cancelled() {
    let Some(_gpus) = gpus() else { return };
    let (_dir, path, _) = save(&mixture("qwen2moe", quant::Q8_0));
    let model = load(&path, "experts=cpu", 0).unwrap();
    let expected = prompt(&model, 21);
    let (mut session, cancel) = (models::session(&model), Cancel::default());
    cancel.fire();
    assert!(matches!(session.prefill(&PROMPT, Some(&cancel)), Err(Error::Cancelled)));
    assert_eq!(session.len(), 0);
    session.prefill(&PROMPT, None).unwrap();
    assert!(session.logits().unwrap() == expected[0].1);
}

/// Whichever call of a step finds the device gone, also while experts are multiplied on the host, the step says so, and
/// other models and the CPU go on.
#[test]
fn a_device_may_be_lost_at_any_call() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let (_dir, path, _) = save(&mixture("qwen2moe", quant::Q8_0));
    let survivors = [1, 2].map(|device| Model::load(&path, LoadOptions { device, ..Default::default() }).unwrap());
    let expected = survivors.each_ref().map(|model| prompt(model, 21));
    let used = || (shim.number("shim_memory_used"), shim.number("shim_pinned_used"), shim.number("shim_contexts"));
    let before = used();
    for placement in ["experts=cpu,copied=never", "experts=cpu,copied=1"] {
        for call in 0.. {
            let model = load(&path, placement, 0).unwrap();
            let mut s = models::session(&model);
            shim.fail(c"*", call, 719);
            let (mut out, mut n) = ([0; 2], 0);
            let steps = s.prefill(&PROMPT[..9], None);
            let result = steps.and_then(|()| s.generate(PROMPT[9], None, &mut out, &mut n, None).map(|_| ()));
            let has_fired = shim.number("shim_failure_pending") == 0;
            shim.fail(c"", 0, 0);
            let at = format!("{placement}, call {call}");
            match &result {
                Ok(()) => assert!(!has_fired, "{at} failed in silence"),
                Err(Error::DeviceLost { .. }) => assert!(has_fired && s.prefill(&[1], None).is_err(), "{at}"),
                Err(e) => panic!("{at}: {e}"),
            }
            drop((s, model));
            assert_eq!(used(), before, "{at}");
            if !has_fired {
                println!("{at} is none");
                assert!(call > 50);
                break;
            }
            if call % 32 == 0 {
                assert!(survivors.each_ref().map(|model| prompt(model, 21)) == expected, "{at}");
            }
        }
    }
}

/// A plan tells what a load takes, wherever experts are.
#[test]
fn a_plan_tells_where_experts_are() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let tiny = mixture("qwen3moe", quant::Q8_0).layers(3);
    let (_dir, path, _) = save(&tiny);
    drop(load(&path, "experts=cpu:1", 0).unwrap());
    let mut experts = BTreeSet::new();
    for placement in ["experts=cpu:0", "experts=cpu:1", "experts=cpu:1-1", "experts=cpu", "experts=auto"] {
        // The scratch of one thread, this one, whose memory is counted.
        let runtime = || Some(models::runtime(1));
        let params = || LoadParams { runtime: runtime(), options: params(placement), ..Default::default() };
        let shim_holds = |what: &str| shim.number(what) as i64;
        let taken = || [shim_holds("shim_memory_used"), shim_holds("shim_pinned_used") + memory::held()];
        let before = taken();
        let plan = Plan::of_path(&path, params(), &CacheParams::default(), 1).unwrap();
        assert!(taken()[0] == before[0] && taken()[1] < before[1] + 4096, "{placement}: a plan keeps something");
        let since = |before: [i64; 2]| [0, 1].map(|i| (taken()[i] - before[i]) as u64);
        let before = taken();
        let model = Model::load(&path, params()).unwrap();
        assert_eq!(since(before)[0], plan.weights.device, "{placement}");
        let info = &model.info().experts;
        assert_eq!((&info.0, info.1), (&plan.expert_layers, [plan.experts.host, plan.experts.device]), "{placement}");
        let mut session = models::session(&model);
        session.prefill(&PROMPT, None).unwrap();
        // The shim's graphs take no device memory.
        let graphs: u64 = plan.gpus.iter().map(|gpu| gpu.graphs).sum();
        assert_eq!(since(before)[0] + graphs, plan.total.device, "{placement}");
        let ratio = since(before)[1] as f64 / plan.total.host as f64;
        println!("{placement}: {:?}, {:?}, of the host's {ratio:.4} were taken", plan.expert_layers, plan.experts);
        assert!((ratio - 1.0).abs() < 0.02, "{placement}: {ratio}");
        experts.insert((plan.expert_layers.start, plan.expert_layers.end));
        // Others take the memory between plan and load.
        let gpu_layers = tiny.net.layers as u32;
        drop((session, model));
        limit(shim, shim.number("shim_memory_used") as usize + plan.weights.device as usize - 1);
        let refused = load(&path, placement, gpu_layers);
        match placement {
            // The plan of this one takes less then.
            "experts=auto" => assert_eq!(refused.unwrap().info().experts.0, 0..3),
            _ => assert!(matches!(refused, Err(Error::DeviceOutOfMemory { .. })), "{placement}"),
        }
        limit(shim, 1 << 30);
        // The host's ceiling holds before anything is read.
        if plan.experts.host > 0 {
            let memory_limit = plan.experts.host - 1;
            let runtime = Runtime::new(RuntimeParams { memory_limit, ..Default::default() }).unwrap();
            let mut reports = 0;
            let mut progress = |_: u64, _: u64| {
                reports += 1;
                true
            };
            let params = LoadParams { runtime: Some(runtime), progress: Some(&mut progress), ..params() };
            assert!(matches!(Model::load(&path, params), Err(Error::Limit { .. })), "{placement}");
            assert_eq!(reports, 0, "{placement}");
        }
    }
    assert_eq!(experts, BTreeSet::from([(0, 0), (0, 1), (1, 2), (0, 3)]));
}

/// More experts are on a device with more memory, after everything else is.
#[test]
fn experts_go_where_they_fit() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    // Wide experts, so that they are most of the model.
    let tiny = mixture("qwen3moe", quant::F32).layers(4).change(|t| t.moe(|moe| (moe.n, moe.ffn) = (16, 256)));
    let (_dir, path, _) = save(&tiny);
    let used = shim.number("shim_memory_used") as usize;
    let reserve = used + (256 << 20);
    let mut seen = vec![];
    for extra in (0..96 << 20).step_by(512 << 10) {
        limit(shim, reserve + extra);
        let plan = Plan::of_path(&path, params("experts=auto"), &CacheParams::default(), 1).unwrap();
        let now = (plan.gpu_layers, plan.expert_layers.len());
        if seen.last() != Some(&now) {
            let model = load(&path, "experts=auto", 0).unwrap();
            assert_eq!((model.info().gpu_layers, model.info().experts.0.len()), now);
            // Graphs are a part of what is left to the driver.
            let own = plan.total.device - plan.gpus.iter().map(|gpu| gpu.graphs).sum::<u64>();
            assert!(own <= extra as u64 || now.0 == 0, "{now:?}: {own} bytes of {extra}");
            seen.push(now);
        }
        if now == (4, 0) {
            break;
        }
    }
    println!("{seen:?}");
    let whole: Vec<usize> = seen.iter().filter(|(layers, _)| *layers == 4).map(|(_, experts)| *experts).collect();
    assert_eq!(whole, [4, 3, 2, 1, 0], "{seen:?}");
    limit(shim, 1 << 30);
    // Bytes choose the last layers whose experts take at most as many.
    let all = load(&path, "experts=cpu:0", 0).unwrap().info().experts.1[1];
    for (bytes, on_host) in [(0, 4), (all / 4 - 1, 4), (all / 4, 3), (all / 2, 2), (all, 0), (u64::MAX, 0)] {
        let model = load(&path, &format!("experts=gpu:{bytes}"), 0).unwrap();
        assert_eq!(model.info().experts.0.len(), on_host, "{bytes} of {all}");
        assert!(model.info().experts.1[1] <= bytes);
    }
}

/// Each layer whose experts are on the host has one crossing to it, which a kernel writes without a copy, and a copy
/// back.
#[test]
fn a_layer_crosses_once_each_way() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    for name in ["qwen3moe", "qwen2moe"] {
        let tiny = mixture(name, quant::Q8_0).layers(4);
        let (_dir, path, _) = save(&tiny);
        let hidden = tiny.net.hidden as u64;
        let mut counted = Vec::new();
        for n in 0..=4u64 {
            let model = load(&path, &format!("experts=cpu:{n}"), 0).unwrap();
            let mut session = models::session(&model);
            session.prefill(&PROMPT[..4], None).unwrap();
            let numbers = || {
                let names = ["launches", "copies_out", "bytes_out", "copies_in", "bytes_in"];
                names.map(|name| shim.number(&format!("shim_{name}")))
            };
            // One token, whose step no record can stand for.
            let before = numbers();
            session.prefill(&[PROMPT[4]], None).unwrap();
            let counts: [u64; 5] = std::array::from_fn(|i| numbers()[i] - before[i]);
            println!("{name}, {n} layers: launches, copies out, bytes, copies in, bytes: {counts:?}");
            let more = |per_layer: [u64; 4], counts: &[u64; 5]| {
                let first: &[u64; 5] = counted.first().unwrap_or(counts);
                (0..4).all(|i| counts[i + 1] == first[i + 1] + n * per_layer[i])
            };
            assert!(more([0, 0, 1, 4 * hidden], &counts), "{name}, {n} layers: {counts:?}");
            counted.push(counts);
        }
        // Products on the device select the experts and add up their results, so that a layer on the host saves no
        // launches: its transfers have some of their own.
        let more: Vec<i64> = counted.windows(2).map(|two| two[1][0] as i64 - two[0][0] as i64).collect();
        assert!(
            more[0] <= 1 && more.iter().all(|n| *n == more[0]),
            "{name}: launches of a layer on the host: {more:?}"
        );
    }
}

/// Impossible placements are rejected by name, before a weight is read.
#[test]
fn placements_that_cannot_be_are_refused() {
    let Some(_gpus) = gpus() else { return };
    let (_dir, path, _) = save(&mixture("deepseek2", quant::F32));
    let refused = |device: u32, placement: &str| {
        let mut reports = 0;
        let mut progress = |_: u64, _: u64| {
            reports += 1;
            true
        };
        let params = LoadParams {
            progress: Some(&mut progress),
            options: LoadOptions { device, ..params(placement) },
            ..Default::default()
        };
        let Err(Error::InvalidArgument(why)) = Model::load(&path, params) else { panic!("not refused") };
        assert_eq!(reports, 0, "{why}");
        why
    };
    // Three layers, of which the first has no experts.
    assert!(refused(GPU, "experts=cpu:3-3").contains("is 3; it must be below the number of layers, 3"));
    assert!(refused(GPU, "experts=cpu:3").contains("2 layers have experts there"));
    assert!(refused(GPU, "experts=cpu:2-3").contains("1 layers have experts there"));
    assert!(refused(CPU_DEVICE, "experts=cpu:1-3").contains("2 layers have experts there"));
    assert!(refused(CPU_DEVICE, "experts=gpu:100").contains("no GPU is named"));
    assert_eq!(load(&path, "experts=cpu:0-0", 0).unwrap().info().experts.0, 1..2);
    assert!(refused(0, "experts=gpu:100").contains("no GPU is named"));
    assert_eq!(load(&path, "experts=cpu:0-1", 0).unwrap().info().experts.0, 1..3);
    // Nothing to place is no mistake where no layer is named.
    let (_dir, dense, _) = save(&Tiny::new("llama", quant::F32).shape(64, 4, 2, 16, 96));
    for placement in ["experts=auto", "experts=cpu", "experts=gpu:0"] {
        assert_eq!(load(&dense, placement, 0).unwrap().info().experts, (0..0, [0, 0]));
    }
    assert!(load(&dense, "experts=cpu:1", 0).is_err());
}

/// The device has the shared expert before what it waits for, also where its ops stand on either side of the mixture.
#[test]
fn shared_experts_are_ahead_of_the_sum() {
    let mut b = ProgramBuilder::default();
    let [x, h, scores, out, before, behind] = [32, 32, 4, 32, 32, 32].map(|width| b.tensor(width));
    let project = |x, out, weight| {
        let projections = [Projection { weight: Weight(weight), bias: None, out }].into();
        Op::Project { x, projections }
    };
    let norm = Norm { kind: NormKind::Rms, weight: None, bias: None, eps: 1e-5, group: 32 };
    let routing = Routing::new(RouterScore::Softmax, 2, true);
    let ([up, down], [biases, scales, orders]) = ([3, 4].map(Weight), [[None; 3]; 3]);
    let (gate, n_experts, ffn, activation) = (None, 4, 32, Activation::Silu);
    let experts =
        Experts { x: h, scores, out, gate, up, down, biases, scales, orders, n_experts, ffn, routing, activation };
    let sum = |delta| Op::Add { x, delta, scale: 1.0 };
    for _ in 0..2 {
        let start = b.position();
        let ops = [Op::Norm { norm, x, out: h }, project(h, scores, 0), project(h, before, 1)];
        ops.into_iter().chain([Op::Experts(experts), project(h, behind, 2)]).for_each(|op| b.push(op));
        [sum(before), sum(behind), sum(out)].into_iter().for_each(|op| b.push(op));
        b.end_layer(start);
    }
    let program = b.finish(0, &[x]);
    let placed = place_layers(&program, 1..2, 0);
    let name = |op: &Op| format!("{op:?}").chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    let names =
        |layer: usize| placed.program.ops[placed.program.layers[layer].clone()].iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(0), ["Norm", "Project", "Project", "Experts", "Project", "Add", "Add", "Add"]);
    let ahead = ["Norm", "Project", "ToHost", "Project", "Project", "Add", "Add", "FromHost", "Add"];
    assert_eq!((names(1), placed.layers, placed.experts.ops.len()), (ahead.map(str::to_owned).into(), 1..2, 1));
}
