//! The CUDA backend, on a GPU where there is one, and everywhere on a driver that runs the real kernels as C++, thread
//! by thread: see `cuda_shim/`. What cannot be had is skipped aloud.
#![allow(unsafe_code)]

#[path = "support/save.rs"]
mod save;
#[path = "support/shim.rs"]
mod shim;
mod support;

use std::path::Path;
use std::sync::Arc;

use realizar::backend::cpu::pool::Pool;
use realizar::backend::cuda::{self, Cuda, KernelTable};
use realizar::backend::{
    self, Act as Slot, Activation, Attention, Backend, Batch, Exec, Experts, Kv, KvSpec, MatrixSource, NormKind,
    Projection, Rope, RopePairs, RopeTable, Routing, Vector, Weight, Widths,
};
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::model::arch;
use realizar::model::decoder::Forward;
use realizar::model::weights::{self, Limits, Network};
use realizar::quant;
use realizar::tensor::DType;
use save::save;
use shim::Shim;
use support::reference::relative_rms;
use support::tiny::{self, PROMPT, Rng, Tiny, inv_freq};

const NATIVE: [DType; 11] = [
    quant::F32,
    quant::F16,
    quant::BF16,
    quant::Q4_0,
    quant::Q4_1,
    quant::Q5_0,
    quant::Q5_1,
    quant::Q8_0,
    quant::Q4_K,
    quant::Q5_K,
    quant::Q6_K,
];

/// Where the backend can run here: the shim, a GPU.
fn targets() -> Vec<Target> {
    let shim = Shim::new().map(|shim| Target { name: "shim", shim: Some(shim) });
    let device = &cuda::devices()[0];
    let gpu = device.unavailable.is_empty().then_some(Target { name: "GPU", shim: None });
    if gpu.is_none() {
        eprintln!("skipped: the GPU: {}", device.unavailable);
    }
    shim.into_iter().chain(gpu).collect()
}

/// For tests of what no device can be made to do.
fn shim() -> Option<Shim> {
    let shim = Shim::new();
    if shim.is_none() {
        eprintln!("skipped: what only the shim can do");
    }
    shim
}

struct Target {
    name: &'static str,
    shim: Option<Shim>,
}

impl Target {
    fn cuda(&self) -> Result<Cuda> {
        self.shim.as_ref().map_or_else(|| cuda::open(0), open)
    }
}

fn open(shim: &Shim) -> Result<Cuda> {
    Cuda::open(&shim.driver, 0, shim::IMAGE)
}

fn last_fault(shim: &Shim) -> String {
    let text = shim.function::<extern "C" fn() -> *const std::ffi::c_char>("shim_last_fault")();
    // SAFETY: a terminated string that lives until the next fault.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A model on a backend.
struct Loaded {
    network: Network,
    backend: Arc<dyn Backend>,
}

fn load(path: &Path, mut backend: Box<dyn Backend>) -> Result<Loaded> {
    let source = Source::open(path, Access::Read)?;
    let config = arch::config(&source)?;
    let limits = Limits { weight_bytes: u64::MAX };
    let network = weights::load(&source, config, backend.as_mut(), None, &limits, &mut |_, _| Ok(()))?;
    Ok(Loaded { network, backend: backend.into() })
}

impl Loaded {
    fn kv(&self, dtype: DType) -> Result<Box<dyn Kv>> {
        self.backend.new_kv(&self.spec(dtype, 64))
    }

    fn spec(&self, dtype: DType, capacity: usize) -> KvSpec {
        let c = &self.network.config;
        KvSpec {
            layers: c.layers.len(),
            n_kv_heads: c.n_kv_heads,
            head_dim: c.head_dim,
            capacity,
            k_type: dtype,
            v_type: dtype,
            rings: Vec::new(),
        }
    }

    fn exec(&self) -> Result<Box<dyn Exec>> {
        let c = &self.network.config;
        self.backend.clone().new_exec(&c.widths(), c.head_dim, 32, 32)
    }

    /// Logits after each of `tokens`, which begin at position `from`.
    fn step(&self, exec: &mut dyn Exec, kv: &mut dyn Kv, tokens: &[u32], from: usize) -> Result<Vec<Vec<f32>>> {
        let n = tokens.len() as u32;
        let positions: Vec<u32> = (from as u32..).take(tokens.len()).collect();
        let outputs: Vec<u32> = (0..n).collect();
        let slots = vec![0; tokens.len()];
        let mut kvs = [kv];
        let batch = &mut Batch { ids: tokens, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &outputs };
        let result = self.run(exec, batch);
        let ended = exec.end();
        result.and_then(|logits| ended.map(|()| logits))
    }

    fn run(&self, exec: &mut dyn Exec, batch: &mut Batch) -> Result<Vec<Vec<f32>>> {
        let mut forward = Forward::begin(&self.network, exec, batch)?;
        while forward.step(exec, batch)? {}
        let mut all = Vec::new();
        for i in 0..batch.outputs.len() {
            let mut logits = vec![f32::NAN; self.network.config.vocab];
            exec.read_logits(i, &mut logits)?;
            let best = logits.iter().enumerate().fold(0, |best, (i, &v)| if v > logits[best] { i } else { best });
            assert_eq!(exec.argmax(i)?, best as u32);
            all.push(logits);
        }
        Ok(all)
    }

    /// Logits after each token of the prompt, in pieces of `piece`.
    fn prompt(&self, cache: DType, piece: usize) -> Result<Vec<Vec<f32>>> {
        let (mut exec, mut kv) = (self.exec()?, self.kv(cache)?);
        let mut all = Vec::new();
        for tokens in PROMPT.chunks(piece) {
            all.extend(self.step(exec.as_mut(), kv.as_mut(), tokens, all.len())?);
        }
        Ok(all)
    }
}

/// How far from the reference a good backend is: tokens one by one meet quantised weights with activations in 8 bits and
/// others with activations in f32; several tokens go through binary16, and so do queries and the cache in every case.
fn limit(dtype: DType, piece: usize) -> f64 {
    match dtype {
        quant::F32 | quant::F16 => 4e-3,
        quant::BF16 => 1e-2,
        _ if piece > 1 => 4e-3,
        _ => 5e-2,
    }
}

fn check(target: &Target, name: &str, tiny: &Tiny, pieces: &[usize]) {
    let (_dir, path, expected) = save(tiny);
    let model = load(&path, Box::new(target.cuda().unwrap())).unwrap();
    for &piece in pieces {
        let fault = || target.shim.as_ref().map(last_fault);
        let got = model.prompt(quant::F16, piece).unwrap_or_else(|e| panic!("{name}: {e}: {:?}", fault()));
        let difference = relative_rms(&expected, &got);
        println!("{:4} {name:28} pieces of {piece:2} {difference:.2e}", target.name);
        let types = tiny.types.iter().map(|t| t.1).chain([tiny.dtype]);
        let limit = types.map(|dtype| limit(dtype, piece)).fold(0.0, f64::max);
        assert!(difference < limit, "{name}, pieces of {piece}: {difference}");
    }
}

#[test]
fn arguments_have_the_size_that_kernels_expect() {
    let Some(shim) = shim() else { return };
    let bytes = shim.function::<extern "C" fn(*const std::ffi::c_char) -> u32>("shim_parameter_bytes");
    for (name, size) in KernelTable::PARAMETERS {
        let name = std::ffi::CString::new(*name).unwrap();
        assert_eq!(bytes(name.as_ptr()) as usize, *size, "{name:?}");
    }
}

#[test]
fn every_tensor_type_agrees_with_the_reference() {
    for target in targets() {
        for format in quant::FORMATS {
            // Private types have no number in a GGUF file.
            if format.dtype.0 < 1 << 16 {
                // Types without kernels of their own are F16 on the device.
                let native = NATIVE.contains(&format.dtype);
                let tiny = Tiny::new("llama", format.dtype).layers(1).shape(256, 8, 1, 32, 256);
                check(&target, format.name, &tiny, if native { &[1, 21] } else { &[21] });
            }
        }
    }
}

#[test]
fn every_shape_agrees_with_the_reference() {
    for target in targets() {
        let llama = |dtype| Tiny::new("llama", dtype).layers(1);
        check(&target, "8:4 heads of 8, ffn 172", &llama(quant::F32).shape(64, 8, 4, 8, 172).layers(3), &[1, 21]);
        check(&target, "9:3 heads of 64", &llama(quant::Q4_1).shape(576, 9, 3, 64, 768), &[1, 21]);
        check(
            &target,
            "4:1 heads of 80, untied",
            &llama(quant::Q4_0).shape(320, 4, 1, 80, 416).change(|t| t.tied = false),
            &[1, 21],
        );
        check(&target, "2:1 heads of 128", &llama(quant::Q4_K).shape(256, 2, 1, 128, 512), &[1, 21]);
        check(&target, "2:1 heads of 256", &llama(quant::Q6_K).shape(256, 2, 1, 256, 512), &[1, 21]);
        check(&target, "20:1 heads of 16", &llama(quant::Q5_0).shape(320, 20, 1, 16, 64), &[1, 21]);
        check(&target, "1 head of 20, F16", &llama(quant::F16).shape(20, 1, 1, 20, 30), &[1, 21]);
        check(&target, "4 heads of 16, ffn 60", &llama(quant::F16).shape(64, 4, 4, 16, 60), &[1, 21]);
        let mixed =
            vec![("attn_v", quant::Q6_K), ("ffn_down", quant::Q5_1), ("ffn_up", quant::Q8_0), ("attn_k", quant::F16)];
        check(&target, "mixed types", &llama(quant::Q4_K).change(|t| t.types = mixed), &[1, 21]);
    }
}

fn architectures(dtype: DType) -> Vec<(&'static str, Tiny)> {
    let mut all = tiny::architectures(|name| Tiny::new(name, dtype).shape(64, 4, 2, 16, 96));
    // One with gate and up of different types.
    let mixed = all.iter_mut().find(|(name, _)| *name == "qwen3moe").unwrap();
    mixed.1.types.push(("ffn_up_exps", quant::F16));
    // No near-tie between experts in these shapes either.
    all.iter_mut().filter(|(_, tiny)| tiny.net.moe.is_some()).for_each(|(_, tiny)| tiny.seed = 4);
    all
}

#[test]
fn every_architecture_agrees_with_the_reference() {
    for target in targets() {
        for (name, tiny) in architectures(quant::F32) {
            check(&target, name, &tiny, &[1, 7, 21]);
        }
    }
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let Some(shim) = shim() else { return };
    let small = |dtype| Tiny::new("llama", dtype).layers(1).shape(256, 8, 1, 32, 256);
    let mut models = vec![small(quant::Q4_K), small(quant::Q6_K).shape(256, 4, 1, 128, 256), small(quant::Q5_1)];
    models
        .extend(architectures(quant::F16).into_iter().filter(|(n, _)| ["qwen3moe", "gemma2"].contains(n)).map(|m| m.1));
    for tiny in models {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, Box::new(open(&shim).unwrap())).unwrap();
        for piece in [1, 21] {
            shim.order(0);
            let expected = model.prompt(quant::F16, piece).unwrap();
            for order in [1, 2] {
                shim.order(order);
                assert!(model.prompt(quant::F16, piece).unwrap() == expected, "order {order}, pieces of {piece}");
            }
        }
    }
}

#[test]
fn caches_of_every_type_agree_with_the_reference() {
    for target in targets() {
        for (heads, kv_heads, head_dim) in [(4, 2, 32), (2, 1, 128), (1, 1, 256)] {
            let tiny = Tiny::new("llama", quant::F32).shape(64, heads, kv_heads, head_dim, 64);
            let (_dir, path, expected) = save(&tiny);
            let model = load(&path, Box::new(target.cuda().unwrap())).unwrap();
            for (dtype, limit) in [(quant::F32, 4e-3), (quant::F16, 4e-3), (quant::Q8_0, 3e-2)] {
                for piece in [1, 21] {
                    let difference = relative_rms(&expected, &model.prompt(dtype, piece).unwrap());
                    assert!(difference < limit, "heads of {head_dim}, cache type {}: {difference}", dtype.0);
                }
            }
        }
    }
}

/// Steps of one token are recorded the second time and replayed from then on, for other sequences too.
#[test]
fn a_record_serves_every_token_position_and_sequence() {
    for target in targets() {
        let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1));
        let model = load(&path, Box::new(target.cuda().unwrap())).unwrap();
        let expected = model.prompt(quant::F16, 1).unwrap();
        let replays = || target.shim.as_ref().map(|shim| shim.number("shim_replays"));
        let (before, mut exec) = (replays(), model.exec().unwrap());
        let mut kvs = [model.kv(quant::F16).unwrap(), model.kv(quant::F16).unwrap()];
        for (i, token) in PROMPT.iter().enumerate() {
            for kv in &mut kvs {
                let got = model.step(exec.as_mut(), kv.as_mut(), &[*token], i).unwrap();
                assert!(got[0] == expected[i], "position {i}");
            }
        }
        assert_eq!(replays(), before.map(|n| n + 2 * PROMPT.len() as u64 - 1));
        let mut fork = kvs[0].fork(10).unwrap();
        let got = model.step(exec.as_mut(), fork.as_mut(), &PROMPT[10..11], 10).unwrap();
        assert!(got[0] == expected[10], "a fork");
    }
}

/// A layer with a window needs no more of the past than its ring: longer prompts, forks and rewinds find the same.
#[test]
fn rings_keep_what_windows_see() {
    let mut all = tiny::architectures(|name| Tiny::new(name, quant::F32).shape(32, 2, 1, 16, 32));
    let tiny = all.swap_remove(all.iter().position(|(name, _)| *name == "gemma2").unwrap()).1;
    let tiny = tiny.layers(3).change(|t| t.net.window = vec![8, 0, 8]);
    let ids: Vec<u32> = (0..330).map(|i| i * 7 % 300).collect();
    for target in targets() {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, Box::new(target.cuda().unwrap())).unwrap();
        let mut exec = model.exec().unwrap();
        for dtype in [quant::F16, quant::Q8_0] {
            let whole = model.spec(dtype, 340);
            let rings = KvSpec { rings: vec![256, 0, 256], ..whole.clone() };
            let mut caches = [whole, rings].map(|spec| model.backend.new_kv(&spec).unwrap());
            assert!(caches[1].bytes() < caches[0].bytes());
            let mut at = 0;
            // Behind the ring's end a prompt goes on in pieces and in single tokens.
            for n in [32; 8].into_iter().chain([20, 1, 1, 1, 5, 32]) {
                let got = caches.each_mut().map(|kv| {
                    let last = [n as u32 - 1];
                    let positions: Vec<u32> = (at as u32..).take(n).collect();
                    let mut kvs = [kv.as_mut()];
                    let (ids, slots) = (&ids[at..at + n], vec![0; n]);
                    let batch = &mut Batch { ids, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &last };
                    let logits = model.run(exec.as_mut(), batch).unwrap();
                    exec.end().unwrap();
                    logits
                });
                assert!(got[0] == got[1], "positions {at} to {}", at + n);
                at += n;
            }
            let mut forks = caches.each_ref().map(|kv| kv.fork(at).unwrap());
            let got = forks.each_mut().map(|kv| model.step(exec.as_mut(), kv.as_mut(), &ids[at..at + 9], at).unwrap());
            assert!(got[0] == got[1], "forks");
        }
    }
}

#[test]
fn sequences_of_a_batch_do_not_meet() {
    for target in targets() {
        let (_dir, path, expected) = save(&Tiny::new("llama", quant::F32).shape(64, 4, 2, 16, 96));
        let model = load(&path, Box::new(target.cuda().unwrap())).unwrap();
        let mut exec = model.exec().unwrap();
        let mut kvs: Vec<_> = (0..3).map(|_| model.kv(quant::F16).unwrap()).collect();
        // One with nothing, one behind 4 tokens, one behind 17; they go on with 9, 1 and 3 tokens.
        for (kv, n) in kvs.iter_mut().zip([0, 4, 17]).filter(|(_, n)| *n > 0) {
            model.step(exec.as_mut(), kv.as_mut(), &PROMPT[..n], 0).unwrap();
        }
        let spans = [(2, 17, 3), (0, 0, 9), (1, 4, 1)];
        let tokens: Vec<(u32, u32)> =
            spans.iter().flat_map(|&(s, from, n)| (from..from + n).map(move |p| (s, p))).collect();
        let ids: Vec<u32> = tokens.iter().map(|(_, p)| PROMPT[*p as usize]).collect();
        let (slots, positions): (Vec<u32>, Vec<u32>) = tokens.iter().copied().unzip();
        let outputs: Vec<u32> = (0..tokens.len() as u32).filter(|i| i % 2 == 0).collect();
        let mut kvs: Vec<&mut dyn Kv> = kvs.iter_mut().map(|kv| kv.as_mut()).collect();
        let batch = &mut Batch { ids: &ids, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &outputs };
        let got = model.run(exec.as_mut(), batch).unwrap();
        exec.end().unwrap();
        let expected: Vec<_> = outputs.iter().map(|&i| expected[positions[i as usize] as usize].clone()).collect();
        let difference = relative_rms(&expected, &got);
        assert!(difference < 4e-3, "{difference}");
    }
}

/// Every call that can fail is made to fail once: the error names the device, and another model goes on.
#[test]
fn a_failing_device_costs_one_model() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64));
    let survivor = load(&path, Box::new(open(&shim).unwrap())).unwrap();
    let expected = survivor.prompt(quant::F16, 1).unwrap();
    let run = || -> Result<()> {
        let model = load(&path, Box::new(open(&shim)?))?;
        model.prompt(quant::F16, 1)?;
        model.kv(quant::F16)?.fork(3)?;
        Ok(())
    };
    run().unwrap();
    let (in_use, contexts) = (shim.number("shim_memory_used"), shim.number("shim_contexts"));
    let calls = [
        c"cuCtxCreate_v2",
        c"cuMemGetInfo_v2",
        c"cuMemAlloc_v2",
        c"cuMemHostAlloc",
        c"cuMemcpyHtoDAsync_v2",
        c"cuMemcpyDtoHAsync_v2",
        c"cuMemcpyDtoDAsync_v2",
        c"cuMemsetD8Async",
        c"cuStreamCreate",
        c"cuEventCreate",
        c"cuStreamSynchronize",
        c"cuModuleLoadData",
        c"cuModuleGetFunction",
        c"cuFuncGetAttribute",
        c"cuFuncSetAttribute",
        c"cuLaunchKernelEx",
        c"cuGraphLaunch",
    ];
    for call in calls {
        for (after, status) in [(0, 2), (0, 719), (1, 2), (1, 700), (7, 719)] {
            shim.fail(call, after, status);
            let result = run();
            let fired = shim.number("shim_failure_pending") == 0;
            shim.fail(c"", 0, 0);
            match result {
                Ok(()) => assert!(!fired, "{call:?}, the {after}th, failed in silence"),
                Err(Error::DeviceLost { device, .. } | Error::DeviceUnavailable { device, .. }) => {
                    assert_eq!(device, "cuda:0", "{call:?}");
                }
                Err(Error::DeviceOutOfMemory { .. } | Error::OutOfMemory { .. }) => {
                    assert!(status == 2 && [c"cuMemAlloc_v2", c"cuMemHostAlloc"].contains(&call), "{call:?}");
                }
                Err(e) => panic!("{call:?}, the {after}th: {e}"),
            }
            assert_eq!(shim.number("shim_memory_used"), in_use, "{call:?}, the {after}th, leaks device memory");
            assert_eq!(shim.number("shim_contexts"), contexts, "{call:?}, the {after}th, leaks a context");
        }
    }
    // What cannot be recorded is launched.
    for call in [c"cuStreamBeginCapture_v2", c"cuStreamEndCapture", c"cuGraphInstantiateWithFlags"] {
        shim.fail(call, 0, 801);
        run().unwrap();
        assert_eq!(shim.number("shim_failure_pending"), 0);
    }
    assert!(survivor.prompt(quant::F16, 1).unwrap() == expected);
}

/// What the host's other threads record meanwhile is not spoiled, and does not disturb; and its thread keeps its signals.
#[test]
fn the_state_of_the_host_is_left_alone() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let recording = |on: bool| shim.function::<extern "C" fn(bool) -> bool>("shim_record_elsewhere")(on);
    let hears_signals = || shim.function::<extern "C" fn() -> bool>("shim_hears_signals")();
    assert!(hears_signals());
    recording(true);
    let model = load(&path, Box::new(open(&shim).unwrap())).unwrap();
    model.prompt(quant::F16, 1).unwrap();
    drop(model);
    assert!(!recording(false));
    assert!(hears_signals());
    assert_eq!(shim.number("shim_memory_used"), 0);
}

/// Memory goes only when the work in it has ended.
#[test]
fn an_executor_that_is_dropped_waits_for_its_work() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let model = load(&path, Box::new(open(&shim).unwrap())).unwrap();
    let expected = model.prompt(quant::F16, 1).unwrap();
    let (mut exec, mut kv) = (model.exec().unwrap(), model.kv(quant::F16).unwrap());
    let mut kvs = [kv.as_mut()];
    let batch = &mut Batch { ids: &[1], positions: &[0], slots: &[0], kvs: &mut kvs, outputs: &[0] };
    let mut forward = Forward::begin(&model.network, exec.as_mut(), batch).unwrap();
    while forward.step(exec.as_mut(), batch).unwrap() {}
    exec.submit().unwrap();
    drop(exec);
    assert!(model.prompt(quant::F16, 1).unwrap() == expected, "{}", last_fault(&shim));
}

/// A device that was lost stays lost, with the first reason.
#[test]
fn a_lost_device_stays_lost() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let model = load(&path, Box::new(open(&shim).unwrap())).unwrap();
    shim.fail(c"cuStreamSynchronize", 1, 700);
    let first = model.prompt(quant::F16, 1).unwrap_err().to_string();
    assert!(first.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{first}");
    assert_eq!(model.kv(quant::F16).err().unwrap().to_string(), first);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_runs() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let model = load(&path, Box::new(open(&shim).unwrap())).unwrap();
    let other = load(&path, Box::new(open(&shim).unwrap())).unwrap();
    let mut exec = model.exec().unwrap();
    let launches = shim.number("shim_launches");
    let mut foreign = other.kv(quant::F16).unwrap();
    assert!(matches!(model.step(exec.as_mut(), foreign.as_mut(), &[1], 0), Err(Error::Mismatch(_))));
    let mut kv = model.kv(quant::F16).unwrap();
    assert!(matches!(model.step(exec.as_mut(), kv.as_mut(), &[1], 64), Err(Error::ContextFull { .. })));
    assert!(matches!(model.step(exec.as_mut(), kv.as_mut(), &[1; 33], 0), Err(Error::InvalidArgument(_))));
    assert!(matches!(model.step(exec.as_mut(), kv.as_mut(), &[], 0), Err(Error::InvalidArgument(_))));
    assert!(matches!(model.step(exec.as_mut(), kv.as_mut(), &[u32::MAX], 0), Err(Error::InvalidArgument(_))));
    assert_eq!(shim.number("shim_launches"), launches);
    model.step(exec.as_mut(), kv.as_mut(), &[1], 0).unwrap();
    shim.function::<extern "C" fn(usize)>("shim_memory")(shim.number("shim_memory_used") as usize + 5000);
    let error = load(&path, Box::new(open(&shim).unwrap())).err().unwrap();
    assert!(matches!(&error, Error::DeviceOutOfMemory { device, .. } if device == "cuda:0"), "{error}");
}

/// A matrix in memory.
struct Values {
    dtype: DType,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
}

impl Values {
    fn new(dtype: DType, rows: usize, cols: usize, seed: u64) -> Values {
        let format = quant::format(dtype).unwrap();
        let mut bytes = vec![0; rows * format.row_bytes(cols as u64).unwrap() as usize];
        quant::quantize(dtype, &values(rows * cols, seed), &mut bytes).unwrap();
        Values { dtype, rows, cols, bytes }
    }
}

impl MatrixSource for Values {
    fn name(&self) -> &str {
        "a matrix"
    }
    fn dtype(&self) -> DType {
        self.dtype
    }
    fn rows(&self) -> usize {
        self.rows
    }
    fn cols(&self) -> usize {
        self.cols
    }
    fn read(&self, rows: std::ops::Range<usize>, out: &mut [u8]) -> Result<()> {
        let row = self.bytes.len() / self.rows;
        out.copy_from_slice(&self.bytes[rows.start * row..rows.end * row]);
        Ok(())
    }
}

fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng(seed);
    (0..n).map(|_| rng.normal() as f32).collect()
}

const HEAD_DIM: usize = 12;
const WIDTHS: Widths =
    Widths { hidden: 96, q: 60, kv: 24, ffn: 160, vocab: 515, n_experts: 7, n_experts_used: 3, expert_ffn: 64 };

fn width(act: Slot) -> usize {
    match act {
        Slot::X | Slot::H | Slot::O => WIDTHS.hidden,
        Slot::Q | Slot::A => WIDTHS.q,
        Slot::K | Slot::V => WIDTHS.kv,
        Slot::G | Slot::U => WIDTHS.ffn,
        Slot::R => WIDTHS.n_experts,
    }
}

type Step<'a> = &'a dyn Fn(&mut dyn Exec, &mut Batch) -> Result<()>;

/// Verbs one by one and in the company in which they share kernels, on both backends. Queries that no two heads divide
/// evenly, rows of 12 values that are padded in the cache.
#[test]
fn every_verb_agrees_with_the_cpu() {
    targets().iter().for_each(verbs_agree_with_the_cpu);
}

fn verbs_agree_with_the_cpu(target: &Target) {
    let pool = Arc::new(Pool::new(1).unwrap());
    let backends: Vec<Arc<dyn Backend>> =
        [backend::open(1, &pool, Default::default()).unwrap(), Box::new(target.cuda().unwrap())]
            .into_iter()
            .map(|mut b| {
                let w = WIDTHS;
                let sources = [
                    Values::new(quant::F32, w.vocab, w.hidden, 1),
                    Values::new(quant::Q8_0, 64, w.hidden, 2),
                    Values::new(quant::F16, w.q, w.hidden, 3),
                    Values::new(quant::Q4_0, w.kv, w.hidden, 4),
                    Values::new(quant::F32, w.kv, w.hidden, 5),
                    Values::new(quant::Q5_0, w.ffn, w.hidden, 6),
                    Values::new(quant::Q5_0, w.ffn, w.hidden, 7),
                    Values::new(quant::Q4_1, w.hidden, w.ffn, 8),
                    Values::new(quant::F16, w.n_experts * w.expert_ffn, w.hidden, 9),
                    Values::new(quant::F32, w.n_experts * w.expert_ffn, w.hidden, 10),
                    Values::new(quant::Q8_0, w.n_experts * w.hidden, w.expert_ffn, 11),
                    Values::new(quant::F32, w.n_experts, w.hidden, 12),
                ];
                let sources: Vec<&dyn MatrixSource> = sources.iter().map(|s| s as &dyn MatrixSource).collect();
                b.upload(&sources, &mut |_, _| Ok(())).unwrap();
                for (n, seed) in [(w.hidden, 1), (w.hidden, 2), (HEAD_DIM, 3), (w.q, 4), (w.kv, 5), (w.vocab, 6)] {
                    b.upload_vector(&values(n, seed)).unwrap();
                }
                for (pairs, n) in [(RopePairs::Halves, 4), (RopePairs::Adjacent, 6)] {
                    let inv_freq = inv_freq(10_000.0, 2 * n);
                    b.upload_rope(&Rope { pairs, inv_freq, magnitude: 1.25 }).unwrap();
                }
                b.into()
            })
            .collect();

    let weight = Weight;
    let norm = |kind, vector, bias: Option<u32>, group| backend::Norm {
        kind,
        weight: Vector(vector),
        bias: bias.map(Vector),
        eps: 1e-5,
        group,
    };
    let rms = norm(NormKind::Rms, 0, None, WIDTHS.hidden);
    let layer = norm(NormKind::Layer, 0, Some(1), WIDTHS.hidden);
    let head = norm(NormKind::Rms, 2, None, HEAD_DIM);
    let whole = norm(NormKind::Rms, 3, None, WIDTHS.q);
    let project = |w, bias: Option<u32>, out| Projection { weight: weight(w), bias: bias.map(Vector), out };
    let qkv = [project(2, Some(3), Slot::Q), project(3, Some(4), Slot::K), project(4, None, Slot::V)];
    let gate_up = [project(5, None, Slot::G), project(6, None, Slot::U)];
    let down = [project(7, Some(1), Slot::O)];
    let attention = Attention { layer: 1, scale: 0.3, softcap: 0.0, window: 0 };
    let experts =
        Experts { gate: weight(8), up: weight(9), down: weight(10), n_experts: 7, activation: Activation::Silu };
    let routing = |softmax_first, renormalise| Routing { n_used: 3, softmax_first, renormalise };

    let cases: &[(&str, &[Slot], Step)] = &[
        ("embed", &[Slot::X], &|e, b| e.embed(b, weight(0), 1.5)),
        ("positions", &[Slot::X], &|e, b| e.embed_positions(b, weight(1))),
        ("rms", &[Slot::H], &|e, _| e.norm(&rms, Slot::X, Slot::H)),
        ("layer norm", &[Slot::O], &|e, _| e.norm(&layer, Slot::O, Slot::O)),
        ("norm of heads", &[Slot::Q], &|e, _| e.norm(&head, Slot::Q, Slot::Q)),
        ("norm of all heads", &[Slot::Q], &|e, _| e.norm(&whole, Slot::Q, Slot::Q)),
        ("add", &[Slot::X], &|e, _| e.add(Slot::X, Slot::O, 0.5)),
        ("add_norm", &[Slot::X, Slot::H], &|e, _| e.add_norm(Slot::X, Slot::O, 0.5, &layer, Slot::H)),
        ("add_norm in place", &[Slot::X], &|e, _| e.add_norm(Slot::X, Slot::O, 0.5, &rms, Slot::X)),
        ("qkv", &[Slot::Q, Slot::K, Slot::V], &|e, _| e.project(Slot::H, &qkv)),
        ("qkv of a norm", &[Slot::Q, Slot::K, Slot::V], &|e, _| {
            e.norm(&layer, Slot::X, Slot::H)?;
            e.project(Slot::H, &qkv)
        }),
        ("down", &[Slot::O], &|e, _| e.project(Slot::G, &down)),
        ("down and add", &[Slot::X], &|e, _| {
            e.project(Slot::G, &down)?;
            e.add(Slot::X, Slot::O, 0.5)
        }),
        ("down, add, norm and what reads it", &[Slot::X, Slot::Q, Slot::V], &|e, _| {
            e.project(Slot::G, &down)?;
            e.add_norm(Slot::X, Slot::O, 0.5, &rms, Slot::H)?;
            e.project(Slot::H, &qkv)
        }),
        ("a norm that outlives its input", &[Slot::X, Slot::Q], &|e, _| {
            e.norm(&rms, Slot::X, Slot::H)?;
            e.add(Slot::X, Slot::O, 2.0)?;
            e.project(Slot::H, &qkv)
        }),
        ("gate and up", &[Slot::G], &|e, _| {
            e.project(Slot::H, &gate_up)?;
            e.glu(Activation::Gelu, true)
        }),
        ("silu", &[Slot::G], &|e, _| e.glu(Activation::Silu, true)),
        ("erf", &[Slot::G], &|e, _| e.glu(Activation::GeluErf, true)),
        ("relu", &[Slot::G], &|e, _| e.glu(Activation::Relu, false)),
        ("halves", &[Slot::Q, Slot::K], &|e, _| e.rope(RopeTable(0))),
        ("adjacent", &[Slot::Q, Slot::K], &|e, _| e.rope(RopeTable(1))),
        ("attention", &[Slot::A], &|e, b| {
            e.kv_write(b, 1)?;
            e.attend(b, &attention)
        }),
        ("attention with all", &[Slot::A], &|e, b| {
            e.norm(&head, Slot::Q, Slot::Q)?;
            e.norm(&head, Slot::K, Slot::K)?;
            e.rope(RopeTable(1))?;
            e.kv_write(b, 1)?;
            e.attend(b, &Attention { softcap: 2.0, window: 3, ..attention })
        }),
        ("experts", &[Slot::O], &|e, _| {
            e.project(Slot::H, &[project(11, None, Slot::R)])?;
            e.route(&routing(true, false))?;
            e.experts(&experts)
        }),
        ("experts of one type", &[Slot::O], &|e, _| {
            e.route(&routing(false, true))?;
            e.experts(&Experts { gate: weight(8), up: weight(8), ..experts })
        }),
        ("logits", &[], &|e, b| {
            e.norm(&rms, Slot::X, Slot::H)?;
            e.logits(b, weight(0), Some(Vector(5)), 0.5, 3.0)
        }),
    ];
    let all = [Slot::X, Slot::H, Slot::Q, Slot::K, Slot::V, Slot::O, Slot::G, Slot::U, Slot::R];
    for n in [1, 5, 37] {
        let run = |b: &Arc<dyn Backend>, outs: &[Slot], step: Step, fused: bool| -> Vec<Option<Vec<f32>>> {
            let mut exec = b.clone().new_exec(&WIDTHS, HEAD_DIM, 40, 40).unwrap();
            let kv = |_| {
                let spec = KvSpec {
                    layers: 2,
                    n_kv_heads: 2,
                    head_dim: HEAD_DIM,
                    capacity: 50,
                    k_type: quant::F32,
                    v_type: quant::F32,
                    rings: Vec::new(),
                };
                b.new_kv(&spec).unwrap()
            };
            // Two sequences where there are tokens for both.
            let mut kvs: Vec<_> = (0..2).map(kv).collect();
            let slots: Vec<u32> = (0..n).map(|i| u32::from(2 * i >= n && n > 1)).collect();
            let positions: Vec<u32> =
                (0..n).map(|i| if slots[i] == 0 { i } else { i - n.div_ceil(2) } as u32).collect();
            let ids: Vec<u32> = (0..n as u32).map(|i| i * 7919 % WIDTHS.vocab as u32).collect();
            let outputs: Vec<u32> = (0..n as u32).step_by(2).collect();
            let mut kvs: Vec<&mut dyn Kv> = kvs.iter_mut().map(|kv| kv.as_mut()).collect();
            let batch =
                &mut Batch { ids: &ids, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &outputs };
            exec.begin(batch).unwrap();
            for (act, seed) in all.iter().zip(20..) {
                exec.write(*act, &values(n * width(*act), seed)).unwrap();
            }
            step(exec.as_mut(), batch).unwrap();
            if fused {
                exec.end().unwrap();
            }
            let mut result = Vec::new();
            for act in outs {
                let mut out = vec![f32::NAN; n * width(*act)];
                match exec.read(*act, &mut out) {
                    // Nobody read it, so a shared kernel did not write it.
                    Err(Error::Mismatch(_)) if fused => result.push(None),
                    read => result.push(Some(read.map(|()| out).unwrap())),
                }
            }
            for i in 0..if outs.is_empty() { outputs.len() } else { 0 } {
                let mut out = vec![f32::NAN; WIDTHS.vocab];
                exec.read_logits(i, &mut out).unwrap();
                result.push(Some(out));
            }
            exec.end().unwrap();
            result
        };
        for (name, outs, step) in cases {
            let expected = run(&backends[0], outs, *step, false);
            for fused in [false, true] {
                for (expected, got) in expected.iter().flatten().zip(run(&backends[1], outs, *step, fused)) {
                    let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
                    let Some(got) = got else { continue };
                    let difference = relative_rms(&[expected], &[got]);
                    println!("{name:36} {n:2} tokens, shared kernels: {fused:5} {difference:.2e}");
                    assert!(difference < 1.5e-2, "{name}, {n} tokens, shared kernels: {fused}: {difference}");
                }
            }
        }
    }
}
