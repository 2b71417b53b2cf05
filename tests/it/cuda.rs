//! The CUDA backend, on a GPU if there is one, and always on a driver that runs the kernels as C++, thread by thread
//! (`cuda_shim/`). Skipped tests print a message.
#![allow(unsafe_code)]

mod chosen;
mod experts;
mod media;
mod nan;

use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use realizar::cpu::kernels::Isa;
use realizar::cpu::threads::pool::Pool;
use realizar::cpu::{CpuBackend, CpuLoad};
use realizar::cuda::args::ChooseArgs;
use realizar::cuda::{self, CudaDevice, Driver, KernelTable};
use realizar::device::Batch;
use realizar::device::sequence::Sequence;
use realizar::device::{Backend, Executor, StepBudget};
use realizar::engine::LoadOptions;
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::gpu::GpuDevice;
use realizar::graph::op::{
    Activation, Attend, Conv, DeltaRule, EmbedNgrams, Experts, Groups, Half, Index, KvLayerId, Mask, Mix, NgramHead,
    Norm, NormKind, Op, Pool as GroupPool, Projection, RecurrentId, RopeChoice, RopeTable, RouterScore, Routing, Scan,
    Select, TensorId, Vector, Weight, Wkv, Xielu,
};
use realizar::graph::program::{Program, ProgramBuilder};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::{StepInputs, StepLimits, separable};
use realizar::graph::weights::{MatrixSource, Rope, RopePairs, Weights};
use realizar::model::arch;
use realizar::quant;
use realizar::sampling::NOT_A_NUMBER;
use realizar::tensor::DType;

use self::media::Pictures;
use crate::support::matrix::Matrix;
use crate::support::models;
use crate::support::published::numbers;
use crate::support::reference::relative_rms;
use crate::support::save::save;
use crate::support::shim::{self, Lie, Shim, shim};
use crate::support::tiny::{self, PROMPT, Rng, Tiny, inv_freq};

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

/// The places where the backend can run here: the shim, a GPU.
fn targets() -> Vec<Target> {
    let shim = Shim::new().map(|shim| Target { name: "shim", shim: Some(shim) });
    let device = &cuda::devices()[0];
    let gpu = device.unavailable.is_empty().then_some(Target { name: "GPU", shim: None });
    if gpu.is_none() {
        eprintln!("skipped: the GPU: {}", device.unavailable);
    }
    shim.into_iter().chain(gpu).collect()
}

struct Target {
    name: &'static str,
    shim: Option<Shim>,
}

impl Target {
    fn cuda(&self) -> Result<Arc<dyn GpuDevice>> {
        self.open(false)
    }

    fn open(&self, deterministic: bool) -> Result<Arc<dyn GpuDevice>> {
        let options = LoadOptions { deterministic, ..Default::default() };
        Ok(match &self.shim {
            Some(shim) => CudaDevice::open(&shim.driver, 0, shim::IMAGE, &options)?,
            None => cuda::open(0, &options)?,
        })
    }
}

fn open(shim: &Shim) -> Result<Arc<dyn GpuDevice>> {
    open_of(&shim.driver)
}

fn open_of(driver: &Arc<Driver>) -> Result<Arc<dyn GpuDevice>> {
    Ok(CudaDevice::open(driver, 0, shim::IMAGE, &LoadOptions::default())?)
}

/// Returns the logits after the prompt on the CPU.
fn on_cpu(path: &Path) -> Vec<f32> {
    let model = models::load(path);
    let mut session = models::session(&model);
    session.prefill(&PROMPT, None).unwrap();
    session.logits().unwrap().to_vec()
}

fn last_fault(shim: &Shim) -> String {
    let text = shim.function::<extern "C" fn() -> *const std::ffi::c_char>("shim_last_fault")();
    // SAFETY: a terminated string that lives until the next fault.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A model on a GPU or on the CPU.
struct Loaded {
    program: Arc<Program>,
    backend: Backend,
}

/// A program on the CPU.
fn cpu_backend(program: &Arc<Program>, weights: &Weights) -> Backend {
    let pool = Arc::new(Pool::new(1).unwrap());
    let cpu = CpuBackend::load(
        CpuLoad::new(&pool, Isa::detect(), &LoadOptions::default()),
        &[program],
        weights,
        &mut |_, _| Ok(()),
    );
    Backend::Cpu(Arc::new(cpu.unwrap()))
}

/// A model on a device, or on the CPU.
fn load_on(path: &Path, cuda: Option<Arc<dyn GpuDevice>>) -> Result<Loaded> {
    let source = Source::open(path, Access::Read)?;
    let network = arch::network(&source, None, false)?;
    let (program, weights) = (Arc::new(network.program.clone()), network.weights());
    program.check(&weights)?;
    let backend = match cuda {
        Some(cuda) => Backend::Gpu(cuda.load(&program, &weights, &mut |_, _| Ok(()))?),
        None => cpu_backend(&program, &weights),
    };
    Ok(Loaded { program, backend })
}

fn load(path: &Path, cuda: Arc<dyn GpuDevice>) -> Result<Loaded> {
    load_on(path, Some(cuda))
}

const LIMITS: StepLimits = StepLimits { max_tokens: 32, max_outputs: 32 };

impl Loaded {
    fn state(&self, dtype: DType) -> Result<Sequence> {
        self.backend.new_sequence(&self.spec(dtype, 64))
    }

    fn spec(&self, dtype: DType, capacity: usize) -> SequenceSpec {
        let max_step = LIMITS.max_tokens;
        let (layers, recurrent) = (self.program.kv_layers.clone(), self.program.recurrent.clone());
        SequenceSpec { layers, recurrent, capacity, k_type: dtype, v_type: dtype, max_step }
    }

    fn executor(&self) -> Result<Executor> {
        self.backend.new_executor(&self.program, LIMITS)
    }

    /// Appends tokens to a sequence; the logits after each of them.
    fn step(&self, executor: &mut Executor, state: &mut Sequence, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
        self.step_for(executor, state, tokens, &outputs)
    }

    fn step_for(
        &self,
        executor: &mut Executor,
        state: &mut Sequence,
        ids: &[u32],
        outputs: &[u32],
    ) -> Result<Vec<Vec<f32>>> {
        let positions: Vec<u32> = (state.len() as u32..).take(ids.len()).collect();
        let slots = vec![0; ids.len()];
        let mut states = [&mut *state];
        let batch = &mut Batch {
            inputs: StepInputs { ids, positions: &positions, outputs, sequences: &slots, ..Default::default() },
            sequences: &mut states,
        };
        let result = self.run(executor, batch);
        let logits = executor.end().and(result)?;
        state.commit(ids.len());
        Ok(logits)
    }

    fn run(&self, executor: &mut Executor, batch: &mut Batch) -> Result<Vec<Vec<f32>>> {
        executor.begin(batch, 0..self.program.ops.len())?;
        assert!(executor.advance(batch, &StepBudget::unlimited())?);
        logits(executor, batch.inputs.outputs.len(), self.program.vocab)
    }

    /// Logits after each token of the prompt, in pieces of `piece`.
    fn prompt(&self, cache: DType, piece: usize) -> Result<Vec<Vec<f32>>> {
        let (mut executor, mut state) = (self.executor()?, self.state(cache)?);
        let mut all = Vec::new();
        for tokens in PROMPT.chunks(piece) {
            all.extend(self.step(&mut executor, &mut state, tokens)?);
        }
        Ok(all)
    }

    /// Those of the prompt in each of two sequences, all tokens in one step.
    fn two_prompts(&self) -> Result<Vec<Vec<f32>>> {
        let n = 2 * PROMPT.len() as u32;
        let limits = StepLimits { max_tokens: n as usize, max_outputs: n as usize };
        let mut executor = self.backend.new_executor(&self.program, limits)?;
        let mut states = [self.state(quant::F16)?, self.state(quant::F16)?];
        let (slots, positions): (Vec<u32>, Vec<u32>) = (0..n).map(|i| (i / (n / 2), i % (n / 2))).unzip();
        let ids: Vec<u32> = positions.iter().map(|p| PROMPT[*p as usize]).collect();
        let outputs: Vec<u32> = (0..n).collect();
        let states = &mut states.each_mut()[..];
        let batch = &mut Batch {
            inputs: StepInputs {
                ids: &ids,
                positions: &positions,
                outputs: &outputs,
                sequences: &slots,
                ..Default::default()
            },
            sequences: states,
        };
        let logits = self.run(&mut executor, batch);
        executor.end().and(logits)
    }
}

/// The logits of each output of a step, whose arg-max must be the executor's; an error if they are not finite.
fn logits(executor: &mut Executor, outputs: usize, vocab: usize) -> Result<Vec<Vec<f32>>> {
    let one = |i| {
        let mut logits = vec![f32::NAN; vocab];
        executor.read_logits(i, &mut logits)?;
        let best = logits.iter().enumerate().fold(0, |best, (i, &v)| if v > logits[best] { i } else { best });
        let expected = if logits.iter().all(|v| v.is_finite()) { best as u32 } else { NOT_A_NUMBER };
        assert_eq!(executor.token(i)?, expected);
        Ok(logits)
    };
    (0..outputs).map(one).collect()
}

/// How far from the reference a good backend is: one token or two meet quantized weights with activations in 8 bits,
/// few tokens others with activations in f32; more tokens go through binary16, and so do queries and the cache in every
/// case.
fn limit(dtype: DType, piece: usize) -> f64 {
    match dtype {
        quant::F32 | quant::F16 => 4e-3,
        quant::BF16 => 1e-2,
        // Types without kernels of their own are F16 on the device.
        _ if piece > 2 && !(1..=2).contains(&(PROMPT.len() % piece)) || !NATIVE.contains(&dtype) => 4e-3,
        _ => 5e-2,
    }
}

fn check(target: &Target, name: &str, tiny: &Tiny, pieces: &[usize]) {
    let (_dir, path, reference) = save(tiny);
    let expected = reference();
    let model = load(&path, target.cuda().unwrap()).unwrap();
    for &piece in pieces {
        let fault = || target.shim.as_ref().map(last_fault);
        let got = model.prompt(quant::F16, piece).unwrap_or_else(|e| panic!("{name}: {e}: {:?}", fault()));
        let difference = relative_rms(&expected, &got);
        println!("{:4} {name:28} pieces of {piece:2} {difference:.2e}", target.name);
        let types = tiny.types.iter().map(|t| t.1).chain([tiny.dtype]);
        let limit = types.map(|dtype| limit(dtype, piece)).fold(0.0, f64::max);
        // Its attention has no scale, so that scores are four times as large as in the other networks, and the effect
        // of every rounding on them. Queries that are not rounded change little: 4.3e-3 in place of 5.0e-3 in one
        // piece, where inputs and weights of products are in binary16, and 1.5e-3 in place of 1.8e-3 token by token,
        // where they are not.
        let limit = if name == "gemma4" { 1.5 * limit } else { limit };
        assert!(difference < limit, "{name}, pieces of {piece}: {difference}");
    }
}

#[test]
fn arguments_have_the_size_that_kernels_expect() {
    let Some(shim) = shim() else { return };
    let bytes = shim.function::<extern "C" fn(*const std::ffi::c_char) -> u32>("shim_parameter_bytes");
    for (name, size) in KernelTable::PARAMETERS {
        // PTX is for one architecture, and only sm_90a has these kernels.
        let may_lack = name.starts_with("wgmma_") && std::env::var_os("CUDA_SHIM").is_some();
        let name = std::ffi::CString::new(*name).unwrap();
        let found = bytes(name.as_ptr()) as usize;
        assert!(found == *size || found == 0 && may_lack, "{name:?}: {found} bytes, not {size}");
    }
}

#[test]
fn every_tensor_type_agrees_with_the_reference() {
    for target in targets() {
        // Private types have no number in a GGUF file.
        for format in quant::FORMATS.iter().filter(|format| format.dtype.0 < 1 << 16) {
            let native = NATIVE.contains(&format.dtype);
            let tiny = Tiny::new("llama", format.dtype).layers(1).shape(256, 8, 1, 32, 256);
            check(&target, format.name, &tiny, if native { &[1, 2, 5, 21] } else { &[21] });
            if native {
                let (_dir, path, reference) = save(&tiny);
                let expected = reference();
                let got = load(&path, target.cuda().unwrap()).unwrap().two_prompts().unwrap();
                for got in got.chunks(PROMPT.len()) {
                    let difference = relative_rms(&expected, got);
                    assert!(
                        difference < limit(format.dtype, 2 * PROMPT.len()),
                        "{}, two prompts: {difference}",
                        format.name
                    );
                }
            }
        }
    }
}

/// With the same bits asked for, a token has them however many are computed with it.
#[test]
fn rows_have_the_bits_of_one() {
    for target in targets() {
        for dtype in NATIVE {
            let tiny = Tiny::new("llama", dtype).layers(1).shape(256, 8, 1, 32, 256);
            let (_dir, path, _) = save(&tiny);
            let model = load(&path, target.open(true).unwrap()).unwrap();
            let expected = model.prompt(quant::F16, 1).unwrap();
            for piece in [2, 7, 8, 21] {
                assert!(model.prompt(quant::F16, piece).unwrap() == expected, "type {}, pieces of {piece}", dtype.0);
            }
        }
    }
}

/// The rows of a draft have the bits of single tokens, for which they have their own blocks, wherever a step begins
/// that does not divide positions anew.
#[test]
fn separate_rows_have_the_bits_of_single_tokens() {
    let ids: Vec<u32> = (0..76).map(|i| (i * i + 7 * i) % 300).collect();
    for target in targets() {
        let small = tiny::architectures(|name| Tiny::new(name, quant::F16).shape(64, 4, 2, 16, 96));
        let types = NATIVE.map(|dtype| ("llama", Tiny::new("llama", dtype).layers(1).shape(256, 8, 1, 32, 256)));
        for (i, (name, tiny)) in small.into_iter().chain(types).enumerate() {
            let (_dir, path, _) = save(&tiny);
            let model = load(&path, target.cuda().unwrap()).unwrap();
            let mut executor = model.executor().unwrap();
            let cache = [quant::F16, quant::Q8_0, quant::Q4_0, quant::F32][i % 4];
            let mut states = [0; 2].map(|_| model.backend.new_sequence(&model.spec(cache, 100)).unwrap());
            let [state, single] = &mut states;
            for piece in ids[..52].chunks(26) {
                model.step(&mut executor, state, piece).unwrap();
                model.step(&mut executor, single, piece).unwrap();
            }
            let mut drafts = 0;
            for n in [1, 8, 2, 5, 8, 3, 7].into_iter().cycle() {
                let at = single.len();
                let n = n.min(separable(at)).min(ids.len() - at);
                if n == 0 {
                    break;
                }
                let expected: Vec<Vec<f32>> =
                    (at..at + n).map(|i| model.step(&mut executor, single, &ids[i..=i]).unwrap().remove(0)).collect();
                let positions: Vec<u32> = (at as u32..).take(n).collect();
                let (slots, outputs) = (vec![0; n], (0..n as u32).collect::<Vec<u32>>());
                let inputs = StepInputs {
                    ids: &ids[at..at + n],
                    positions: &positions,
                    outputs: &outputs,
                    sequences: &slots,
                    separate: true,
                    ..Default::default()
                };
                let mut together = [&mut *state];
                let got = model.run(&mut executor, &mut Batch { inputs, sequences: &mut together }).unwrap();
                executor.end().unwrap();
                state.commit(n);
                assert!(got == expected, "{name} of {}, {n} tokens from {at} on, cache {}", tiny.dtype.0, cache.0);
                drafts += usize::from(n > 1);
            }
            assert!(drafts > 3, "{name}");
        }
    }
}

/// A value that is no number makes its row of a product none, and no other row.
#[test]
fn no_product_hides_what_is_no_number() {
    for target in targets() {
        let cases: [Case; 2] = [
            ("of blocks", &[FFN], &|o, i| vec![o.down(i[0])]),
            ("of floats", &[HIDDEN], &|o, i| vec![o.project(i[0], [(13, None)])[0]]),
        ];
        for case in &cases {
            let models = CaseModels::new(&target, case);
            for n in [1, 2, 5, 12] {
                let spoiled = |n: usize, seed| {
                    let mut values = values(n, seed);
                    values[n - 7] = f32::NAN;
                    values
                };
                let got = models.run_with(&models.cuda, n, &[0], false, &spoiled).remove(0);
                let rows = got.chunks(got.len() / n).map(|row| row.iter().filter(|v| v.is_nan()).count());
                let expected = (0..n).map(|row| if row + 1 == n { got.len() / n } else { 0 });
                assert!(rows.eq(expected), "{}, {n} rows", case.0);
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
        // Wider than the shared memory of a block.
        check(&target, "ffn 58,200, F32", &llama(quant::F32).shape(32, 2, 2, 16, 58_200), &[1]);
        let mixed =
            vec![("attn_v", quant::Q6_K), ("ffn_down", quant::Q5_1), ("ffn_up", quant::Q8_0), ("attn_k", quant::F16)];
        check(&target, "mixed types", &llama(quant::Q4_K).change(|t| t.types = mixed), &[1, 2, 21]);
    }
}

/// Rows of many columns, whose pieces refill the rings of warps.
#[test]
fn wide_rows_agree_with_the_reference() {
    for target in targets() {
        let llama = |dtype| Tiny::new("llama", dtype).layers(1);
        // Wider than a block prepares at once, without a norm and after a norm.
        check(&target, "ffn 9,504, Q8_0", &llama(quant::Q8_0).shape(32, 2, 2, 16, 9_504), &[1, 2]);
        check(&target, "hidden 9,472, Q4_0", &llama(quant::Q4_0).shape(9_472, 1, 1, 32, 32), &[1, 2]);
        // And wider than a block converts at once.
        check(&target, "ffn 16,672, Q8_0", &llama(quant::Q8_0).shape(32, 2, 2, 16, 16_672), &[4]);
        check(&target, "hidden 16,640, Q4_0", &llama(quant::Q4_0).shape(16_640, 1, 1, 32, 32), &[4]);
        check(&target, "hidden 2,304, Q6_K", &llama(quant::Q6_K).shape(2_304, 1, 1, 256, 256), &[1]);
        check(&target, "hidden 4,352, Q8_0", &llama(quant::Q8_0).shape(4_352, 1, 1, 32, 256), &[1]);
    }
}

/// Queries, keys and values of several block types go through rings in one launch: each block has rows of one matrix.
#[test]
fn rings_of_several_types_agree_with_the_reference() {
    for target in targets() {
        for [q, k, v] in [[quant::Q4_K, quant::Q4_K, quant::Q6_K], [quant::Q5_K, quant::Q8_0, quant::Q4_K]] {
            let types = vec![("attn_q", q), ("attn_k", k), ("attn_v", v)];
            // A whole piece and a part of one.
            let llama = Tiny::new("llama", quant::Q6_K).layers(1).shape(2_304, 4, 1, 64, 256);
            let launches = || target.shim.as_ref().map_or(0, |shim| shim.launches_of(c"ring_mixed"));
            let before = launches();
            check(&target, "rings of several types", &llama.change(|t| t.types = types), &[1]);
            assert!(target.shim.is_none() || launches() > before);
        }
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

/// An architecture in a shape: hidden width, heads, key-value heads, their width, the feed-forward block's.
fn architecture(name: &str, [hidden, heads, kv_heads, head_dim, ffn]: [usize; 5]) -> Tiny {
    let all = tiny::architectures(|name| Tiny::new(name, quant::F32).shape(hidden, heads, kv_heads, head_dim, ffn));
    all.into_iter().find(|(known, _)| *known == name).expect("an architecture").1
}

#[test]
fn every_architecture_agrees_with_the_reference() {
    for target in targets() {
        let all = architectures(quant::F32);
        for (name, tiny) in &all {
            check(&target, name, tiny, &[1, 7, 21]);
        }
        println!("{} networks run whole on the {}", all.len(), target.name);
    }
}

/// The files of `tests/it/architectures.rs` whose ops all have kernels give the logits of that implementation.
#[test]
fn architectures_of_files_agree_with_another_implementation() {
    let folder = tempfile::tempdir().unwrap();
    let files = crate::architectures::files(folder.path());
    let has_logits = |data: &serde_json::Value| data["logits"].is_array() && !data["source"].is_array();
    for target in targets() {
        let mut left = Vec::new();
        for (name, data, gguf) in files.iter().filter(|(_, data, _)| has_logits(data)) {
            let model = match load(gguf, target.cuda().unwrap()) {
                Err(Error::Unsupported(why)) => {
                    println!("{name}: {why}");
                    left.push(name.as_str());
                    continue;
                }
                model => model.unwrap(),
            };
            let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
            let row = |row: &serde_json::Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let expected: Vec<Vec<f64>> = data["logits"].as_array().unwrap().iter().map(row).collect();
            let run = |model: &Loaded, cache, piece| {
                let mut executor = model.executor().unwrap();
                let mut state = model.backend.new_sequence(&model.spec(cache, 320)).unwrap();
                let pieces = ids.chunks(piece).map(|ids| model.step(&mut executor, &mut state, ids).unwrap());
                pieces.flatten().collect::<Vec<Vec<f32>>>()
            };
            let on_cpu = run(&load_on(gguf, None).unwrap(), quant::F32, 32);
            // Many tokens go through binary16, and what is rounded may choose other experts or positions for a token
            // whose scores are nearly equal: that token differs, and those that remember it, but not half of them.
            for (piece, limit, of_half) in [(1, 5e-2, 2.5e-3), (32, 0.3, 1.5e-2)] {
                let all = run(&model, quant::F16, piece);
                let got: Vec<Vec<f32>> = numbers(&data["rows"]).iter().map(|row| all[*row as usize].clone()).collect();
                let difference = relative_rms(&expected, &got);
                let wide = |row: &Vec<f32>| row.iter().copied().map(f64::from).collect::<Vec<f64>>();
                let by_row = on_cpu.iter().zip(&all).map(|(a, b)| relative_rms(&[wide(a)], std::slice::from_ref(b)));
                let mut by_row: Vec<f64> = by_row.collect();
                by_row.sort_unstable_by(f64::total_cmp);
                let half = by_row[by_row.len() / 2];
                println!("{:4} {name:20} pieces of {piece:2} {difference:.1e}, half within {half:.1e}", target.name);
                assert!(
                    difference < limit && half < of_half,
                    "{name}, pieces of {piece}: {difference:.1e}, {half:.1e}"
                );
            }
        }
        let whole = |name: &str| !left.contains(&name);
        assert!(
            ["rwkv6", "kimi-k3", "deepseek32", "glm-dsa", "deepseek4", "qwen4exp", "minimax-m3"].into_iter().all(whole),
            "{left:?}"
        );
    }
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let Some(shim) = shim() else { return };
    let small = |dtype| Tiny::new("llama", dtype).layers(1).shape(256, 8, 1, 32, 256);
    let chosen = ["qwen3moe", "gemma2", "gpt-oss", "glm4moe", "deepseek2", "qwen35", "mamba2"];
    let mut models = vec![small(quant::Q4_K), small(quant::Q6_K).shape(256, 4, 1, 128, 256), small(quant::Q5_1)];
    models.extend(architectures(quant::F16).into_iter().filter(|(name, _)| chosen.contains(name)).map(|m| m.1));
    for tiny in models {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, open(&shim).unwrap()).unwrap();
        for piece in [1, 21] {
            shim.order(0);
            let expected = model.prompt(quant::F16, piece).unwrap();
            for order in [1, 2, 3] {
                shim.order(order);
                assert!(model.prompt(quant::F16, piece).unwrap() == expected, "order {order}, pieces of {piece}");
            }
        }
    }
}

#[test]
fn caches_of_every_type_agree_with_the_reference() {
    for target in targets() {
        let llamas = [(4, 2, 32), (2, 1, 128), (1, 1, 256)].map(|(heads, kv_heads, head_dim)| {
            (head_dim, Tiny::new("llama", quant::F32).shape(64, heads, kv_heads, head_dim, 64))
        });
        // Latent keys of 400 numbers, of which 320 are the values.
        let wide = (400, architecture("deepseek2", [64, 2, 2, 160, 64]));
        for (head_dim, tiny) in llamas.into_iter().chain([wide]) {
            let (_dir, path, reference) = save(&tiny);
            let expected = reference();
            let model = load(&path, target.cuda().unwrap()).unwrap();
            let types = [(quant::F32, 4e-3), (quant::F16, 4e-3), (quant::Q8_0, 3e-2), (quant::Q4_0, 0.0)];
            let mut of_eight_bits = 0.0;
            for (dtype, limit) in types {
                for piece in [1, 21] {
                    let difference = relative_rms(&expected, &model.prompt(dtype, piece).unwrap());
                    // Steps of 4 bits are 16 times those of 8. Heads that are not turned back differ by more than
                    // their size.
                    let limit = if dtype == quant::Q4_0 { 24.0 * of_eight_bits } else { limit };
                    if dtype == quant::Q8_0 {
                        of_eight_bits = difference;
                    }
                    let name = tiny.architecture;
                    println!(
                        "{name}, heads of {head_dim}, cache type {}, pieces of {piece}: {difference:.2e}",
                        dtype.0
                    );
                    assert!(difference < limit, "{name}, heads of {head_dim}, cache type {}: {difference}", dtype.0);
                }
            }
        }
    }
}

/// Steps of one token are recorded the second time and replayed from then on, for other sequences too.
#[test]
fn a_record_serves_every_token_position_and_sequence() {
    for target in targets() {
        // The arg-max takes two blocks.
        let llama = Tiny::new("llama", quant::Q8_0).layers(1).change(|t| t.net.vocab = 1100);
        // Layers of two shapes, latent attention, recurrent.
        let others = ["gemma4", "deepseek2", "qwen35", "mamba2"].map(|name| architecture(name, [64, 4, 2, 16, 96]));
        for tiny in [llama].into_iter().chain(others) {
            record_serves(&target, &tiny);
        }
    }
}

fn record_serves(target: &Target, tiny: &Tiny) {
    let (_dir, path, _) = save(tiny);
    let model = load(&path, target.cuda().unwrap()).unwrap();
    let expected = model.prompt(quant::F16, 1).unwrap();
    let replays = || target.shim.as_ref().map(|shim| shim.number("shim_replays"));
    let (before, mut executor) = (replays(), model.executor().unwrap());
    let mut states = [model.state(quant::F16).unwrap(), model.state(quant::F16).unwrap()];
    for (i, token) in PROMPT.iter().enumerate() {
        for state in &mut states {
            let got = model.step(&mut executor, state, &[*token]).unwrap();
            assert!(got[0] == expected[i], "position {i}");
        }
    }
    assert_eq!(replays(), before.map(|n| n + 2 * PROMPT.len() as u64 - 1));
    // Memories are kept at some positions.
    let to = states[0].reach(18);
    states[0].truncate(to);
    let mut fork = states[0].fork().unwrap();
    let got = model.step(&mut executor, &mut fork, &PROMPT[to..to + 1]).unwrap();
    assert!(to > 10 && got[0] == expected[to], "a fork");
}

/// Batches come and go, in contexts of three lengths: sizes up to a power of two share a record, which is launched
/// once, recorded once and then replayed, with the same bits.
#[test]
fn batches_that_come_and_go_are_recorded_once() {
    for target in targets() {
        let Some(shim) = &target.shim else { continue };
        let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 4, 2, 16, 96));
        let model = load(&path, target.cuda().unwrap()).unwrap();
        let mut executor = model.executor().unwrap();
        let mut state = model.backend.new_sequence(&model.spec(quant::F16, 160)).unwrap();
        for tokens in PROMPT.iter().copied().cycle().take(130).collect::<Vec<_>>().chunks(26) {
            model.step_for(&mut executor, &mut state, tokens, &[]).unwrap();
        }
        let mut contexts = [20, 70, 129].map(|len| {
            let mut states: Vec<_> = (0..32).map(|_| state.fork().unwrap()).collect();
            states.iter_mut().for_each(|state| state.truncate(len));
            states
        });
        let mut first = Vec::new();
        for round in 0..3 {
            let numbers = || ["shim_launches", "shim_replays"].map(|name| shim.number(name));
            let before = numbers();
            let mut all = Vec::new();
            for states in &mut contexts {
                for n in (1..=8).chain([12, 20, 32]) {
                    let numbers: Vec<u32> = (0..n).collect();
                    let ids: Vec<u32> = PROMPT.iter().copied().cycle().take(n as usize).collect();
                    let (ids, positions) = (&ids[..], vec![states[0].len() as u32; n as usize]);
                    let mut states: Vec<&mut Sequence> = states.iter_mut().take(n as usize).collect();
                    let inputs = StepInputs {
                        ids,
                        positions: &positions,
                        outputs: &numbers,
                        sequences: &numbers,
                        ..Default::default()
                    };
                    let batch = &mut Batch { inputs, sequences: &mut states };
                    all.push(model.run(&mut executor, batch).unwrap());
                    executor.end().unwrap();
                }
            }
            let [launches, replays] = std::array::from_fn(|i| numbers()[i] - before[i]);
            println!("round {round}: {launches} launches, {replays} records");
            // Batches of 4, 6, 7, 8 and 32 find the record of one before them.
            assert_eq!((replays, launches > 0), (if round == 0 { 3 * 5 } else { 3 * 11 }, round < 2));
            if round == 0 {
                first = all;
            } else {
                assert!(all == first, "round {round}");
            }
        }
    }
}

/// Each sequence of a step with rows of padding has the bits that it has alone, and so it has in the steps after it.
#[test]
fn rows_of_padding_change_nothing() {
    // Attention of each width and mask, experts with factors and biases, every recurrence.
    let names = ["falcon", "gemma4", "deepseek2", "qwen3moe", "gpt-oss", "llama4", "qwen35", "lfm2", "mamba2", "bloom"];
    let shapes = names.map(|name| (name, 16)).into_iter().chain([("falcon", 288)]);
    for (target, (name, head)) in targets().iter().flat_map(|target| shapes.clone().map(move |shape| (target, shape))) {
        let (_dir, path, _) = save(&architecture(name, [64, 4, 2, head, 96]));
        let model = load(&path, target.open(true).unwrap()).unwrap();
        for dtype in [quant::F16, quant::Q4_0] {
            let label = format!("{name}, heads of {head}, cache of type {}", dtype.0);
            compare_padded(&model, dtype, &[5, 3, 4, 5], &label, |got, alone| got == alone);
        }
    }
}

/// Experts of many rows have kernels of their own, which round in another way than those of one row.
#[test]
fn rows_of_padding_have_no_experts() {
    for (target, name) in targets().iter().flat_map(|target| ["qwen3moe", "gpt-oss"].map(|name| (target, name))) {
        let (_dir, path, _) = save(&architecture(name, [64, 4, 2, 16, 96]));
        let model = load(&path, target.cuda().unwrap()).unwrap();
        let close = |got: &[f32], alone: &[f32]| {
            let alone = alone.iter().map(|v| f64::from(*v)).collect();
            relative_rms(&[alone], &[got.to_vec()]) < 2e-2
        };
        compare_padded(&model, quant::F16, &[9, 12], name, close);
    }
}

/// Decodes so many sequences in each step, and compares the logits of each with those that it has alone.
fn compare_padded(model: &Loaded, dtype: DType, counts: &[usize], label: &str, agree: impl Fn(&[f32], &[f32]) -> bool) {
    let mut executor = model.executor().unwrap();
    let most = counts.iter().copied().max().unwrap();
    let mut states: Vec<_> = (0..most).map(|_| model.state(dtype).unwrap()).collect();
    for (i, state) in states.iter_mut().enumerate().filter(|(i, _)| i % 5 > 0) {
        model.step_for(&mut executor, state, &PROMPT[..3 * (i % 5)], &[]).unwrap();
    }
    let mut others: Vec<_> = states.iter().map(|state| state.fork().unwrap()).collect();
    for &n in counts {
        let numbers: Vec<u32> = (0..n as u32).collect();
        let positions: Vec<u32> = states[..n].iter().map(|state| state.len() as u32).collect();
        let ids: Vec<u32> = positions.iter().map(|&position| PROMPT[position as usize]).collect();
        let inputs = StepInputs {
            ids: &ids,
            positions: &positions,
            outputs: &numbers,
            sequences: &numbers,
            ..Default::default()
        };
        let mut sequences: Vec<&mut Sequence> = states.iter_mut().take(n).collect();
        let got = model.run(&mut executor, &mut Batch { inputs, sequences: &mut sequences }).unwrap();
        executor.end().unwrap();
        for (i, (state, other)) in states.iter_mut().zip(&mut others).take(n).enumerate() {
            state.commit(1);
            let alone = model.step(&mut executor, other, &ids[i..=i]).unwrap();
            assert!(agree(&got[i], &alone[0]), "{label}, row {i} of {n}");
        }
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
        let model = load(&path, target.cuda().unwrap()).unwrap();
        let mut executor = model.executor().unwrap();
        for dtype in [quant::F16, quant::Q8_0, quant::Q4_0] {
            let rings = model.spec(dtype, 340);
            // With room for a step of all of them, a ring keeps all positions.
            let whole = SequenceSpec { max_step: 340, ..rings.clone() };
            let mut caches = [whole, rings].map(|spec| model.backend.new_sequence(&spec).unwrap());
            assert!(caches[1].bytes() < caches[0].bytes());
            // After the ring's end a prompt goes on in pieces and in single tokens.
            for n in [32; 8].into_iter().chain([20, 1, 1, 1, 5, 32]) {
                let at = caches[0].len();
                let (ids, last) = (&ids[at..at + n], [n as u32 - 1]);
                let got = caches.each_mut().map(|state| model.step_for(&mut executor, state, ids, &last).unwrap());
                assert!(got[0] == got[1], "positions {at} to {}", at + n);
            }
            let at = caches[0].len();
            let mut forks = caches.each_ref().map(|state| state.fork().unwrap());
            let got = forks.each_mut().map(|state| model.step(&mut executor, state, &ids[at..at + 9]).unwrap());
            assert!(got[0] == got[1], "forks");
        }
    }
}

#[test]
fn sequences_of_a_batch_do_not_meet() {
    for target in targets() {
        let (_dir, path, reference) = save(&Tiny::new("llama", quant::F32).shape(64, 4, 2, 16, 96));
        let expected = reference();
        let model = load(&path, target.cuda().unwrap()).unwrap();
        let mut executor = model.executor().unwrap();
        let mut states: Vec<_> = (0..3).map(|_| model.state(quant::F16).unwrap()).collect();
        // One after 17 tokens, one with nothing, one after 4; they go on with 3, 9 and 1 tokens.
        for (state, n) in states.iter_mut().zip([17, 0, 4]).filter(|(_, n)| *n > 0) {
            model.step(&mut executor, state, &PROMPT[..n]).unwrap();
        }
        let spans = [(0, 17, 3), (1, 0, 9), (2, 4, 1)];
        let tokens: Vec<(u32, u32)> =
            spans.iter().flat_map(|&(s, from, n)| (from..from + n).map(move |p| (s, p))).collect();
        let ids: Vec<u32> = tokens.iter().map(|(_, p)| PROMPT[*p as usize]).collect();
        let (slots, positions): (Vec<u32>, Vec<u32>) = tokens.iter().copied().unzip();
        let outputs: Vec<u32> = (0..tokens.len() as u32).filter(|i| i % 2 == 0).collect();
        let (ids, states) = (&ids[..], &mut states.iter_mut().collect::<Vec<_>>()[..]);
        let batch = &mut Batch {
            inputs: StepInputs {
                ids,
                positions: &positions,
                outputs: &outputs,
                sequences: &slots,
                ..Default::default()
            },
            sequences: states,
        };
        let got = model.run(&mut executor, batch).unwrap();
        executor.end().unwrap();
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
    let survivor = load(&path, open(&shim).unwrap()).unwrap();
    let expected = survivor.prompt(quant::F16, 1).unwrap();
    let run = || -> Result<()> {
        let model = load(&path, open(&shim)?)?;
        model.prompt(quant::F16, 1)?;
        let mut state = model.state(quant::F16)?;
        state.commit(3);
        state.fork()?;
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
        c"cuStreamQuery",
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

/// A capture that fails once is tried again at the next step of its shape, and not for ever.
#[test]
fn captures_are_tried_again_after_a_failure() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64));
    // Whether the last of so many steps is launched as a graph, if this many captures fail.
    let is_graph = |steps: usize, failures: usize| {
        let model = load(&path, open(&shim).unwrap()).unwrap();
        let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
        for step in 1..steps {
            // A shape is captured when it occurs the second time.
            if (2..2 + failures).contains(&step) {
                shim.fail(c"cuGraphInstantiateWithFlags", 0, 2);
            }
            model.step(&mut executor, &mut state, &PROMPT[..1]).unwrap();
            assert_eq!(shim.number("shim_failure_pending"), 0, "step {step} captures nothing");
        }
        shim.fail(c"cuGraphLaunch", 0, 719);
        let last = model.step(&mut executor, &mut state, &PROMPT[..1]);
        shim.fail(c"", 0, 0);
        last.is_err()
    };
    assert!(is_graph(3, 0));
    assert!(is_graph(4, 1));
    assert!(is_graph(5, 2));
    assert!(!is_graph(6, 3));
}

/// An image that is another's, lacks a kernel or has one with another parameter: the device is unavailable, and it is
/// given the reason.
#[test]
fn an_image_that_does_not_fit_is_told() {
    let Some(shim) = shim() else { return };
    let why = || match open(&shim).err() {
        Some(Error::DeviceUnavailable { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    // No valid image, none for the GPU, no valid PTX, one of a newer version.
    for status in [200, 209, 218, 222] {
        shim.fail(c"cuModuleLoadData", 0, status);
        let why = why();
        assert!(why.starts_with("cuModuleLoadData failed") && why.ends_with(&format!("({status})")), "{why}");
    }
    shim.leave_out("embed");
    assert!(why().starts_with("looking up the kernel embed failed"), "{}", why());
    shim.leave_out("");
    let (why, _) = shim.lying((c"cuFuncGetParamInfo", 0, Lie::LargestInt), why);
    assert_eq!(why, "looking up the kernel embed: its parameter has 2147483647 bytes, not 96");
    open(&shim).unwrap();
}

/// Whatever a driver answers in place of the truth, with success, becomes a status, or it changes nothing.
#[test]
fn a_driver_that_lies_is_not_believed() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64));
    // Launched, recorded, and launched as a record; several tokens.
    let run = |driver: &Arc<Driver>| -> Result<Vec<Vec<f32>>> {
        let model = load(&path, open_of(driver)?)?;
        let (mut executor, mut state) = (model.executor()?, model.state(quant::F16)?);
        let mut all = Vec::new();
        for n in [1, 1, 1, 4] {
            all.extend(model.step(&mut executor, &mut state, &PROMPT[..n])?);
        }
        state.fork().map(|_| all)
    };
    let calls = [
        c"cuDriverGetVersion",
        c"cuDeviceGet",
        c"cuDeviceGetName",
        c"cuDeviceGetAttribute",
        c"cuDeviceTotalMem_v2",
        c"cuCtxCreate_v2",
        c"cuCtxPopCurrent_v2",
        c"cuMemGetInfo_v2",
        c"cuMemAlloc_v2",
        c"cuMemHostAlloc",
        c"cuStreamCreate",
        c"cuEventCreate",
        c"cuThreadExchangeStreamCaptureMode",
        c"cuStreamEndCapture",
        c"cuGraphInstantiateWithFlags",
        c"cuModuleLoadData",
        c"cuModuleGetFunction",
        c"cuFuncGetAttribute",
        c"cuFuncGetParamInfo",
    ];
    let (expected, host, started) = (run(&shim.driver).unwrap(), on_cpu(&path), Instant::now());
    for call in calls {
        let mut refused = 0;
        let lies = [Lie::Nothing, Lie::Zeros, Lie::Ones, Lie::LargestInt];
        for (lie, after) in lies.into_iter().flat_map(|lie| [0, 1, 2, 3, 5, 40].map(|after| (lie, after))) {
            match shim.lying((call, after, lie), || shim.open_again().map(|driver| run(&driver)).unwrap()) {
                (Ok(got), _) => assert!(got == expected, "{call:?}, the {after}th, {lie:?}: other results"),
                (Err(Error::DeviceLost { device, .. } | Error::DeviceUnavailable { device, .. }), was_told) => {
                    assert!(was_told && device == "cuda:0", "{call:?}");
                    refused += 1;
                }
                (Err(e), _) => panic!("{call:?}, the {after}th, {lie:?}: {e}"),
            }
        }
        println!("{call:?}: {refused} refused");
    }
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(run(&shim.open_again().unwrap()).unwrap() == expected && on_cpu(&path) == host);
    assert!(run(&self::shim().unwrap().driver).unwrap() == expected);
}

/// A token that the network does not have was not chosen: here the device compares the logits of an earlier step too.
#[test]
fn a_token_beyond_the_vocabulary_is_a_fault() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64));
    let model = load(&path, open(&shim).unwrap()).unwrap();
    let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
    model.step(&mut executor, &mut state, &PROMPT).unwrap();
    // Rows of logits after the first.
    shim.spoil(c"argmax", offset_of!(ChooseArgs, width), ((PROMPT.len() - 1) * model.program.vocab) as i32);
    let batch = &mut Batch {
        inputs: StepInputs { ids: &[1], positions: &[21], outputs: &[0], sequences: &[0], ..Default::default() },
        sequences: &mut [&mut state],
    };
    executor.begin(batch, 0..model.program.ops.len()).unwrap();
    assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
    let chosen = executor.token(0);
    assert!(matches!(&chosen, Err(Error::DeviceLost { why, .. }) if why.contains("was chosen")), "{chosen:?}");
    assert!(matches!(model.state(quant::F16), Err(Error::DeviceLost { .. })));
}

/// A fault that leaves the whole process without devices leaves it the CPU.
#[test]
fn a_fault_of_the_process_costs_its_devices() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64));
    let models = [0; 2].map(|_| load(&path, open(&shim).unwrap()).unwrap());
    let mut executors = models.each_ref().map(|model| (model.executor().unwrap(), model.state(quant::F16).unwrap()));
    let host = on_cpu(&path);
    shim.poison(true);
    shim.spoil(c"gemv_q8_0", 0, 1);
    for (model, (executor, state)) in models.iter().zip(&mut executors) {
        let error = model.step(executor, state, &[1]).unwrap_err();
        assert!(matches!(&error, Error::DeviceLost { device, .. } if device == "cuda:0"), "{error}");
    }
    assert!(matches!(open(&shim), Err(Error::DeviceUnavailable { .. })));
    drop((executors, models));
    assert!(on_cpu(&path) == host);
    shim.poison(false);
    shim.spoil(c"", 0, 0);
    load(&path, open(&shim).unwrap()).unwrap().prompt(quant::F16, 21).unwrap();
}

/// Work that the host's other threads record meanwhile is not spoiled, and does not disturb; its thread keeps its
/// signals.
#[test]
fn the_state_of_the_host_is_left_alone() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let recording = |on: bool| shim.function::<extern "C" fn(bool) -> bool>("shim_record_elsewhere")(on);
    let hears_signals = || shim.function::<extern "C" fn() -> bool>("shim_hears_signals")();
    assert!(hears_signals());
    recording(true);
    let model = load(&path, open(&shim).unwrap()).unwrap();
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
    let model = load(&path, open(&shim).unwrap()).unwrap();
    let expected = model.prompt(quant::F16, 1).unwrap();
    let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
    let batch = &mut Batch {
        inputs: StepInputs { ids: &[1], positions: &[0], outputs: &[0], sequences: &[0], ..Default::default() },
        sequences: &mut [&mut state],
    };
    executor.begin(batch, 0..model.program.ops.len()).unwrap();
    assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
    executor.submit().unwrap();
    drop(executor);
    assert!(model.prompt(quant::F16, 1).unwrap() == expected, "{}", last_fault(&shim));
}

/// Whichever call of a step finds the device gone, the step says so, and another model goes on.
#[test]
fn a_device_may_be_lost_at_any_call() {
    let Some(shim) = shim() else { return };
    // Launched, recorded, and launched as a record; several tokens. Of networks with experts and recurrent every few
    // calls.
    let llama = Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64);
    lost_at_any_call(&shim, &llama, &[&[1, 1, 1], &[7, 7]], 1);
    for name in ["qwen3moe", "qwen35", "mamba2"] {
        lost_at_any_call(&shim, &architecture(name, [64, 4, 2, 16, 96]), &[&[1, 1, 1, 5]], 7);
    }
}

fn lost_at_any_call(shim: &Shim, tiny: &Tiny, steps: &[&[usize]], every: i32) {
    let (_dir, path, _) = save(tiny);
    let survivor = load(&path, open(shim).unwrap()).unwrap();
    let expected = survivor.prompt(quant::F16, 1).unwrap();
    let (in_use, contexts) = (shim.number("shim_memory_used"), shim.number("shim_contexts"));
    for pieces in steps {
        let mut calls = 0;
        loop {
            let model = load(&path, open(shim).unwrap()).unwrap();
            let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
            shim.fail(c"*", calls, 719);
            let mut step = |n: &usize| model.step(&mut executor, &mut state, &PROMPT[..*n]);
            let result = pieces.iter().try_for_each(|n| step(n).map(|_| ()));
            let fired = shim.number("shim_failure_pending") == 0;
            shim.fail(c"", 0, 0);
            assert!(matches!(&result, Err(Error::DeviceLost { .. })) == fired, "call {calls}: {result:?}");
            drop((executor, state, model));
            assert_eq!((shim.number("shim_memory_used"), shim.number("shim_contexts")), (in_use, contexts));
            if !fired {
                break;
            }
            calls += every;
        }
        println!("{}: {calls} calls in {pieces:?}", tiny.architecture);
        assert!(calls > 20);
        assert!(survivor.prompt(quant::F16, 1).unwrap() == expected);
    }
}

/// A device that never answers is lost after a while, and nothing waits for it again.
#[test]
fn a_device_that_hangs_is_given_up() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64));
    let survivor = load(&path, open(&shim).unwrap()).unwrap();
    let expected = survivor.prompt(quant::F16, 1).unwrap();
    assert!(shim.driver.time_limit() >= Duration::from_secs(30));
    let started = Instant::now();
    for after in 0..3 {
        let model = load(&path, open(&shim).unwrap()).unwrap();
        let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
        for _ in 0..after {
            model.step(&mut executor, &mut state, &[1]).unwrap();
        }
        shim.driver.set_time_limit(Duration::from_millis(50));
        shim.hang(true);
        let error = model.step(&mut executor, &mut state, &[1]).unwrap_err();
        assert!(matches!(&error, Error::DeviceLost { why, .. } if why.contains("no answer")), "{error}");
        assert_eq!(model.state(quant::F16).err().unwrap().to_string(), error.to_string());
        drop((executor, state, model));
        if after == 2 {
            // A load that hangs; no other load begins after it.
            let error = load(&path, open(&shim).unwrap()).err().unwrap();
            assert!(matches!(&error, Error::DeviceLost { why, .. } if why.contains("no answer")), "{error}");
            shim.hang(false);
            let error = open(&shim).err().unwrap();
            let tells = |why: &str| why.contains("an upload has hung");
            assert!(matches!(&error, Error::DeviceUnavailable { why, .. } if tells(why)), "{error}");
        }
        shim.hang(false);
        shim.driver.set_time_limit(Duration::from_secs(30));
        assert!(survivor.prompt(quant::F16, 1).unwrap() == expected);
    }
    assert!(started.elapsed() < Duration::from_secs(20));
}

/// A device that was lost stays lost, with the first reason.
#[test]
fn a_lost_device_stays_lost() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let model = load(&path, open(&shim).unwrap()).unwrap();
    shim.fail(c"cuStreamQuery", 1, 700);
    let first = model.prompt(quant::F16, 1).unwrap_err().to_string();
    assert!(first.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{first}");
    assert_eq!(model.state(quant::F16).err().unwrap().to_string(), first);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_runs() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(1).shape(64, 2, 1, 32, 64));
    let model = load(&path, open(&shim).unwrap()).unwrap();
    let other = load(&path, open(&shim).unwrap()).unwrap();
    let mut executor = model.executor().unwrap();
    let launches = shim.number("shim_launches");
    let mut step = |state: &mut Sequence, ids: &[u32]| model.step(&mut executor, state, ids);
    assert!(matches!(step(&mut other.state(quant::F16).unwrap(), &[1]), Err(Error::Mismatch(_))));
    let mut state = model.state(quant::F16).unwrap();
    for ids in [&[1; 33][..], &[], &[u32::MAX]] {
        assert!(matches!(step(&mut state, ids), Err(Error::InvalidArgument(_))));
    }
    state.commit(64);
    assert!(matches!(step(&mut state, &[1]), Err(Error::ContextFull { .. })));
    state.truncate(0);
    assert_eq!(shim.number("shim_launches"), launches);
    step(&mut state, &[1]).unwrap();
    shim.function::<extern "C" fn(usize)>("shim_memory")(shim.number("shim_memory_used") as usize + 5000);
    let error = load(&path, open(&shim).unwrap()).err().unwrap();
    assert!(matches!(&error, Error::DeviceOutOfMemory { device, .. } if device == "cuda:0"), "{error}");
}

fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng(seed);
    (0..n).map(|_| rng.normal() as f32).collect()
}

const HEAD_DIM: usize = 12;
const HIDDEN: usize = 96;
const Q: usize = 5 * HEAD_DIM;
const KV: usize = 2 * HEAD_DIM;
const FFN: usize = 160;
const VOCAB: usize = 515;
const N_EXPERTS: usize = 7;
const EXPERT_FFN: usize = 64;

/// Types, rows and columns, by `Weight`.
const MATRICES: [(DType, usize, usize); 20] = [
    (quant::F32, VOCAB, HIDDEN),
    (quant::Q8_0, 64, HIDDEN),
    (quant::F16, Q, HIDDEN),
    (quant::Q4_0, KV, HIDDEN),
    (quant::F32, KV, HIDDEN),
    (quant::Q5_0, FFN, HIDDEN),
    (quant::Q5_0, FFN, HIDDEN),
    (quant::Q4_1, HIDDEN, FFN),
    (quant::F16, N_EXPERTS * EXPERT_FFN, HIDDEN),
    (quant::F32, N_EXPERTS * EXPERT_FFN, HIDDEN),
    (quant::Q8_0, N_EXPERTS * HIDDEN, EXPERT_FFN),
    (quant::F32, N_EXPERTS, HIDDEN),
    (quant::F16, HIDDEN, Q),
    (quant::F16, HIDDEN, HIDDEN),
    (quant::F16, N_EXPERTS * EXPERT_FFN, HIDDEN),
    // Gate and up of eight experts, and their down.
    (quant::F16, 8 * 2 * 32, HIDDEN),
    (quant::Q8_0, 8 * HIDDEN, 32),
    // Of five and of three heads.
    (quant::F32, 5 * 20, 12),
    (quant::Q8_0, 3 * 40, 64),
    // Rows of n-grams.
    (quant::Q8_0, 97, 32),
];

/// Lengths, by `Vector`.
const VECTORS: [usize; 31] = [
    HIDDEN,
    HIDDEN,
    HEAD_DIM,
    Q,
    KV,
    VOCAB,
    // Slopes and sinks.
    5,
    5,
    // Of eight experts: biases of gate and up and of down, factors, a bias of the choice.
    8 * 32,
    8 * 32,
    8 * HIDDEN,
    8,
    8,
    // Of 72 channels: kernels of four and six taps, a bias.
    4 * 72,
    6 * 72,
    72,
    // Rates of four heads, of 32 channels with 16 states, and what skips a scan.
    4,
    16 * 32,
    4,
    32,
    // Sinks of six heads.
    6,
    // Of five heads, by distances up to three.
    5 * 7,
    // Places in a row.
    1100,
    HIDDEN,
    // Three of eight experts for each token.
    3 * VOCAB,
    // Biases of the gates of groups of four positions, and of three that overlap.
    4 * 24,
    3 * 40,
    // Orders of the inputs of eight experts and of the others: of gate and up, and of down.
    8 * HIDDEN,
    8 * 32,
    N_EXPERTS * HIDDEN,
    N_EXPERTS * EXPERT_FFN,
];

/// The numbers of `VECTORS` that are places in rows.
const PLACES: std::ops::Range<usize> = 22..24;

/// The number of the one that holds experts by ids.
const BY_ID: usize = 24;

/// Those that are places in rows of experts, and the lengths of these.
const ORDERS: [(usize, usize); 4] = [(27, HIDDEN), (28, 32), (29, HIDDEN), (30, EXPERT_FFN)];

/// Those of `VECTORS` that are negative.
const RATES: std::ops::Range<usize> = 16..18;

const fn kv_layer(n_kv_heads: usize, head_dim: usize, value_dim: usize, is_latent: bool) -> KvLayer {
    KvLayer { n_kv_heads, head_dim, value_dim, is_latent, window: 0, pool: 1 }
}

/// Layers, by `KvLayerId`.
const STATES: [KvLayer; 10] = [
    KvLayer::new(2, HEAD_DIM, 0),
    KvLayer::new(2, HEAD_DIM, 0),
    kv_layer(3, 20, 28, false),
    kv_layer(1, 44, 36, true),
    kv_layer(2, 330, 290, false),
    kv_layer(1, 576, 512, true),
    // Keys that positions are chosen by, of their own and of three positions; keys of three positions.
    kv_layer(1, 40, 40, true),
    KvLayer { pool: 3, ..kv_layer(1, 40, 40, true) },
    KvLayer { pool: 3, ..kv_layer(1, 44, 36, true) },
    kv_layer(1, 1600, 400, true),
];

/// Recurrent states, by `RecurrentId`: of convolutions, of delta rules with keys of 24 and of 200, of scans, of RWKV,
/// of n-grams, of groups of positions.
const MEMORIES: [usize; 11] =
    [3 * 72, 5 * 72, 4 * 32 * 24, 4 * 16 * 200, 96 * 20, 32 * 16, 4 * 32 * 32, 2 * 80 * 80, 2, 3 * 2 * 24, 5 * 2 * 40];

/// A program in the making. Each method returns the activation that its op writes.
#[derive(Default)]
struct Ops(RefCell<ProgramBuilder>);

/// Name, widths of the inputs, and the ops, which return the activations to compare; none for logits.
type Case<'a> = (&'a str, &'a [usize], &'a dyn Fn(&Ops, &[TensorId]) -> Vec<TensorId>);

impl Ops {
    fn tensor(&self, width: usize) -> TensorId {
        self.0.borrow_mut().tensor(width)
    }

    fn width(&self, tensor: TensorId) -> usize {
        self.0.borrow().width(tensor)
    }

    fn push(&self, op: Op, out: TensorId) -> TensorId {
        self.0.borrow_mut().push(op);
        out
    }

    fn embed(&self, table: usize, index: Index, scale: f32) -> TensorId {
        let (_, rows, width) = MATRICES[table];
        let out = self.tensor(width);
        self.push(Op::Embed { table: Weight(table as u32), rows, index, scale, out }, out)
    }

    fn norm(&self, norm: Norm, x: TensorId) -> TensorId {
        let out = self.tensor(self.width(x));
        self.push(Op::Norm { norm, x, out }, out)
    }

    fn norm_in_place(&self, norm: Norm, x: TensorId) -> TensorId {
        self.push(Op::Norm { norm, x, out: x }, x)
    }

    fn add(&self, x: TensorId, delta: TensorId, scale: f32) -> TensorId {
        self.push(Op::Add { x, delta, scale }, x)
    }

    /// Products with matrices, some of which have a bias.
    fn project<const N: usize>(&self, x: TensorId, matrices: [(usize, Option<u32>); N]) -> [TensorId; N] {
        let projections = matrices.map(|(matrix, bias)| {
            let out = self.tensor(MATRICES[matrix].1);
            Projection { weight: Weight(matrix as u32), bias: bias.map(Vector), out }
        });
        self.push(Op::Project { x, projections: projections.into() }, x);
        projections.map(|p| p.out)
    }

    fn qkv(&self, x: TensorId) -> [TensorId; 3] {
        self.project(x, [(2, Some(3)), (3, Some(4)), (4, None)])
    }

    fn down(&self, x: TensorId) -> TensorId {
        self.project(x, [(7, Some(1))])[0]
    }

    fn scores(&self, x: TensorId) -> TensorId {
        self.project(x, [(11, None)])[0]
    }

    fn gated(&self, x: TensorId, activation: Activation) -> TensorId {
        let [gate, up] = self.project(x, [(5, None), (6, None)]);
        self.glu(gate, Some(up), activation)
    }

    fn glu(&self, gate: TensorId, up: Option<TensorId>, activation: Activation) -> TensorId {
        self.push(Op::Glu { gate, up, activation }, gate)
    }

    fn rope(&self, table: u32, long: Option<(usize, RopeTable)>, q: TensorId, k: Option<TensorId>) -> TensorId {
        self.rope_from(0, RopeChoice { table: RopeTable(table), long }, q, k)
    }

    fn rope_from(&self, first: usize, rope: RopeChoice, q: TensorId, k: Option<TensorId>) -> TensorId {
        self.push(Op::Rope { rope, head_dim: HEAD_DIM, first, q, k }, q)
    }

    /// Stores keys and values, and attends.
    fn attend(&self, [q, k, v]: [TensorId; 3], softcap: f32, window: usize) -> TensorId {
        self.attend_by(1, q, k, Some(v), |a| Attend { softcap, mask: Mask::window(window), ..a })
    }

    /// Stores keys and values of a layer, and attends in its own way.
    fn attend_by(
        &self,
        layer: usize,
        q: TensorId,
        k: TensorId,
        v: Option<TensorId>,
        by: impl Fn(Attend) -> Attend,
    ) -> TensorId {
        let KvLayer { head_dim, value_dim, .. } = STATES[layer];
        let heads = self.width(q) / head_dim;
        let (stored, out) = (KvLayerId(layer as u32), self.tensor(heads * value_dim));
        self.push(Op::StoreKv { layer: stored, k, v }, out);
        self.push(Op::Attend(by(Attend::new(stored, q, out, 0.3))), out)
    }

    /// Experts of the eight, by the scores of a router that is given.
    fn eight(&self, x: TensorId, scores: TensorId, by: impl Fn(Experts) -> Experts) -> TensorId {
        let (out, up, down) = (self.tensor(HIDDEN), Weight(15), Weight(16));
        let routing = Routing::new(RouterScore::Sigmoid, 3, false);
        let experts = Experts {
            x,
            scores,
            out,
            gate: Some(up),
            up,
            down,
            biases: [None; 3],
            scales: [None; 3],
            orders: [None; 3],
            n_experts: 8,
            ffn: 32,
            routing,
            activation: Activation::Silu,
        };
        self.push(Op::Experts(by(experts)), out)
    }

    fn project_heads(&self, x: TensorId, weight: u32, heads: usize) -> TensorId {
        let (_, rows, cols) = MATRICES[weight as usize];
        let from = self.width(x) / heads;
        let out = self.tensor(rows + heads * (from - cols));
        self.push(Op::ProjectHeads { x, weight: Weight(weight), heads, out }, out)
    }

    fn join(&self, x: TensorId, tail: TensorId, heads: usize) -> TensorId {
        let out = self.tensor(self.width(x) + heads * self.width(tail));
        self.push(Op::JoinHeads { x, tail, heads, out }, out)
    }

    fn slice(&self, x: TensorId, first: usize, width: usize) -> TensorId {
        let out = self.tensor(width);
        self.push(Op::Slice { x, first, out }, out)
    }

    fn gather(&self, x: TensorId, by: usize) -> TensorId {
        let out = self.tensor(VECTORS[by]);
        self.push(Op::Gather { x, by: Vector(by as u32), out }, out)
    }

    fn conv(&self, x: TensorId, taps: usize, silu: bool) -> TensorId {
        let (recurrent, kernel) = if taps == 4 { (RecurrentId(0), Vector(13)) } else { (RecurrentId(1), Vector(14)) };
        let bias = silu.then_some(Vector(15));
        self.push(Op::Conv(Conv { recurrent, x, kernel, bias, taps, silu }), x)
    }

    /// Four heads, the numbers of keys small and those of decays and steps as networks have them.
    fn delta_rule(&self, [q, k, v, dt, beta]: [TensorId; 5], tiled: bool) -> TensorId {
        let (keys, values) = (self.width(k), self.width(v));
        let (key_dim, recurrent) = if keys == 48 { (24, RecurrentId(2)) } else { (200, RecurrentId(3)) };
        let factor = 0.3 / (key_dim as f32).sqrt();
        let [q, k] = [q, k].map(|x| self.push(Op::Scale { x, factor }, x));
        let [dt, beta] = [(dt, Activation::Softplus), (beta, Activation::Sigmoid)].map(|(x, f)| self.glu(x, None, f));
        let (out, rate) = (self.tensor(values), Vector(16));
        self.push(Op::DeltaRule(DeltaRule { recurrent, q, k, v, dt, beta, out, rate, key_dim, tiled }), out)
    }

    fn scan(&self, [x, dt, b, c]: [TensorId; 4], state: usize) -> TensorId {
        let out = self.tensor(self.width(x));
        let dt = self.glu(dt, None, Activation::Softplus);
        let (recurrent, rate, skip) = match state {
            20 => (RecurrentId(4), Vector(16), Vector(18)),
            _ => (RecurrentId(5), Vector(17), Vector(19)),
        };
        self.push(Op::Scan(Scan { recurrent, x, dt, b, c, out, rate, skip, state }), out)
    }

    fn wkv(&self, [r, k, v, dt]: [TensorId; 4], by: impl Fn(Wkv) -> Wkv) -> TensorId {
        let out = self.tensor(self.width(r));
        let (dim, recurrent) = if self.width(r) == 128 { (32, RecurrentId(6)) } else { (80, RecurrentId(7)) };
        // Decays between 0.1 and 0.9, keys of a size that the memory does not grow with.
        let dt = self.glu(dt, None, Activation::Sigmoid);
        let k = self.push(Op::Scale { x: k, factor: 0.3 }, k);
        let (moved, rate) = (None, None);
        self.push(Op::Wkv(by(Wkv { recurrent, r, k, v, dt, rate, moved, out, dim, before: false, fades: false })), out)
    }

    /// Groups of positions, four at a time, or three of which overlap with those before.
    fn pool(&self, gate: TensorId, x: TensorId, size: usize) -> TensorId {
        let (recurrent, bias, width) = if size == 4 { (9, 25, 24) } else { (10, 26, 20) };
        let (recurrent, bias, out) = (RecurrentId(recurrent), Vector(bias), self.tensor(width));
        self.push(Op::Pool(GroupPool { recurrent, gate, x, bias, out, size }), out)
    }

    /// Stores the keys that positions are chosen by, and chooses.
    fn select(&self, layer: usize, [q, weights, k]: [TensorId; 3], groups: Groups, top: usize) -> TensorId {
        let (layer, out) = (KvLayerId(layer as u32), self.tensor(top));
        self.push(Op::StoreKv { layer, k, v: None }, out);
        self.push(Op::Select(Select { layer, q, weights, out, groups }), out)
    }

    fn experts(&self, x: TensorId, scores: TensorId, up: u32, softmax_first: bool) -> TensorId {
        self.experts_by(x, scores, up, softmax_first, |e| e)
    }

    fn experts_by(
        &self,
        x: TensorId,
        scores: TensorId,
        up: u32,
        softmax_first: bool,
        by: impl Fn(Experts) -> Experts,
    ) -> TensorId {
        let score = if softmax_first { RouterScore::Softmax } else { RouterScore::SoftmaxOfChosen };
        let (out, routing) = (self.tensor(HIDDEN), Routing::new(score, 3, !softmax_first));
        let (gate, up, down) = (Some(Weight(8)), Weight(up), Weight(10));
        let [biases, scales, orders] = [[None; 3]; 3];
        let (n_experts, ffn, activation) = (N_EXPERTS, EXPERT_FFN, Activation::Silu);
        let experts =
            Experts { x, scores, out, gate, up, down, biases, scales, orders, n_experts, ffn, routing, activation };
        self.push(Op::Experts(by(experts)), out)
    }

    fn logits(&self, x: TensorId) -> Vec<TensorId> {
        self.push(Op::Logits { x, head: Weight(0), bias: Some(Vector(5)), scale: 0.5, softcap: 3.0 }, x);
        vec![]
    }
}

/// Ops one by one and in the company in which they share kernels, on both backends. Queries that no two heads divide
/// evenly, rows of 12 values that are padded in the cache.
#[test]
fn every_op_agrees_with_the_cpu() {
    targets().iter().for_each(ops_agree_with_the_cpu);
}

fn ops_agree_with_the_cpu(target: &Target) {
    let norm = |kind, vector, bias: Option<u32>| {
        let (weight, group) = (Some(Vector(vector)), VECTORS[vector as usize]);
        Norm { kind, weight, bias: bias.map(Vector), eps: 1e-5, group }
    };
    let rms = norm(NormKind::Rms, 0, None);
    let layer = norm(NormKind::Layer, 0, Some(1));
    let head = norm(NormKind::Rms, 2, None);
    let own = Norm { weight: Some(Vector(3)), ..head };
    let whole = norm(NormKind::Rms, 3, None);
    let cases: &[Case] = &[
        ("embed", &[], &|o, _| vec![o.embed(0, Index::Id, 1.5)]),
        ("positions", &[HIDDEN], &|o, i| vec![o.add(i[0], o.embed(1, Index::Position, 1.0), 1.0)]),
        ("rms", &[HIDDEN], &|o, i| vec![o.norm(rms, i[0])]),
        ("layer norm", &[HIDDEN], &|o, i| vec![o.norm_in_place(layer, i[0])]),
        ("norm of heads", &[Q], &|o, i| vec![o.norm_in_place(head, i[0])]),
        ("norm of all heads", &[Q], &|o, i| vec![o.norm_in_place(whole, i[0])]),
        ("scale", &[HIDDEN], &|o, i| vec![o.push(Op::Scale { x: i[0], factor: 1.7 }, i[0])]),
        ("add", &[HIDDEN; 2], &|o, i| vec![o.add(i[0], i[1], 0.5)]),
        ("add, norm", &[HIDDEN; 2], &|o, i| vec![o.add(i[0], i[1], 0.5), o.norm(layer, i[0])]),
        ("add, norm in place", &[HIDDEN; 2], &|o, i| vec![o.norm_in_place(rms, o.add(i[0], i[1], 0.5))]),
        ("down, norm, add", &[HIDDEN, FFN], &|o, i| vec![o.add(i[0], o.norm_in_place(layer, o.down(i[1])), 0.5)]),
        ("down, norm of groups of their own, add", &[Q, HIDDEN], &|o, i| {
            let [delta] = o.project(i[1], [(2, None)]);
            vec![o.add(i[0], o.norm(own, delta), 0.5)]
        }),
        ("qkv", &[HIDDEN], &|o, i| o.qkv(i[0]).into()),
        ("qkv of a norm", &[HIDDEN], &|o, i| o.qkv(o.norm(layer, i[0])).into()),
        ("down", &[FFN], &|o, i| vec![o.down(i[0])]),
        ("down and add", &[HIDDEN, FFN], &|o, i| vec![o.add(i[0], o.down(i[1]), 0.5)]),
        ("down, add, norm and what reads it", &[HIDDEN, FFN], &|o, i| {
            let x = o.add(i[0], o.down(i[1]), 0.5);
            let [q, _, v] = o.qkv(o.norm(rms, x));
            vec![x, q, v]
        }),
        ("a norm that outlives its input", &[HIDDEN; 2], &|o, i| {
            let h = o.norm(rms, i[0]);
            vec![o.add(i[0], i[1], 2.0), o.qkv(h)[0]]
        }),
        ("a norm whose product is added to its input", &[HIDDEN], &|o, i| {
            let [delta] = o.project(o.norm(rms, i[0]), [(13, None)]);
            vec![o.add(i[0], delta, 0.5)]
        }),
        ("a norm whose input ends", &[], &|o, _| {
            let h = o.norm(rms, o.embed(0, Index::Id, 1.0));
            vec![o.project(o.project(h, [(13, None)])[0], [(13, None)])[0]]
        }),
        ("a norm that is read", &[HIDDEN], &|o, i| {
            let h = o.norm(rms, i[0]);
            vec![h, o.qkv(h)[0]]
        }),
        ("a summand that is read", &[HIDDEN, FFN], &|o, i| {
            let delta = o.down(i[1]);
            vec![o.add(i[0], delta, 0.5), delta]
        }),
        ("gate and an up that is read", &[HIDDEN], &|o, i| {
            let [gate, up] = o.project(i[0], [(5, None), (6, None)]);
            vec![o.glu(gate, Some(up), Activation::Silu), up]
        }),
        ("gate and up", &[HIDDEN], &|o, i| vec![o.gated(i[0], Activation::Gelu)]),
        ("silu", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::Silu)]),
        ("erf", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::GeluErf)]),
        ("quick", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::QuickGelu)]),
        ("relu", &[FFN], &|o, i| vec![o.glu(i[0], None, Activation::Relu)]),
        ("halves", &[Q, KV], &|o, i| vec![o.rope(0, None, i[0], Some(i[1])), i[1]]),
        ("adjacent", &[Q, KV], &|o, i| vec![o.rope(1, None, i[0], Some(i[1])), i[1]]),
        ("queries alone, a long cache", &[Q], &|o, i| {
            o.rope(0, Some((49, RopeTable(1))), i[0], None);
            vec![o.rope(0, Some((50, RopeTable(1))), i[0], None)]
        }),
        ("attention", &[Q, KV, KV], &|o, i| vec![o.attend([i[0], i[1], i[2]], 0.0, 0)]),
        ("attention with all", &[Q, KV, KV], &|o, i| {
            let [q, k] = [0, 1].map(|j| o.norm_in_place(head, i[j]));
            vec![o.attend([o.rope(1, None, q, Some(k)), k, i[2]], 2.0, 3)]
        }),
        ("experts", &[HIDDEN], &|o, i| vec![o.experts(i[0], o.scores(i[0]), 9, true)]),
        ("experts of one type", &[HIDDEN, N_EXPERTS], &|o, i| vec![o.experts(i[0], i[1], 14, false)]),
        ("experts of a norm", &[HIDDEN], &|o, i| {
            let h = o.norm(rms, i[0]);
            vec![o.experts(h, o.scores(h), 9, true)]
        }),
        ("experts and add", &[HIDDEN, HIDDEN, N_EXPERTS], &|o, i| {
            vec![o.add(i[0], o.experts(i[1], i[2], 14, false), 0.5)]
        }),
        ("norm without weights", &[HIDDEN], &|o, i| vec![o.norm(Norm { weight: None, ..rms }, i[0])]),
        ("products of a norm without weights", &[HIDDEN], &|o, i| {
            o.qkv(o.norm(Norm { weight: None, ..rms }, i[0])).into()
        }),
        ("norm of heads with weights of their own", &[Q], &|o, i| vec![o.norm_in_place(own, i[0])]),
        ("norms and rotation of the end of heads", &[Q, KV], &|o, i| {
            let rope = RopeChoice { table: RopeTable(0), long: None };
            let k = o.norm_in_place(Norm { weight: None, ..head }, i[1]);
            vec![o.rope_from(4, rope, o.norm_in_place(own, i[0]), Some(k)), k]
        }),
        ("limit", &[HIDDEN], &|o, i| vec![o.push(Op::Clamp { x: i[0], low: -0.7, high: 0.7 }, i[0])]),
        ("columns", &[Q], &|o, i| vec![o.push(Op::ScaleColumns { x: i[0], by: Vector(3) }, i[0])]),
        ("positions of queries", &[Q], &|o, i| {
            vec![o.push(Op::ScaleByPosition { x: i[0], slope: 0.4, length: 3, offset: 1 }, i[0])]
        }),
        ("gate of heads", &[Q, 5], &|o, i| vec![o.push(Op::Gate { x: i[0], gate: i[1], sigmoid: true }, i[0])]),
        ("gate", &[1500; 2], &|o, i| vec![o.push(Op::Gate { x: i[0], gate: i[1], sigmoid: true }, i[0])]),
        ("factors of heads", &[Q, 5], &|o, i| vec![o.push(Op::Gate { x: i[0], gate: i[1], sigmoid: false }, i[0])]),
        ("xIELU", &[1500], &|o, i| {
            let curve = Xielu { rise: 0.9, fall: 1.1, slope: 0.5, eps: -0.2 };
            vec![o.push(Op::Xielu { x: i[0], curve }, i[0])]
        }),
        ("two limits", &[1500], &|o, i| vec![o.push(Op::Clamp { x: i[0], low: -0.3, high: 0.7 }, i[0])]),
        ("a mean of groups", &[3 * 500], &|o, i| {
            let out = o.tensor(500);
            vec![o.push(Op::Mean { x: i[0], groups: 3, out }, out)]
        }),
        ("a threshold", &[1500], &|o, i| vec![o.push(Op::Threshold { x: i[0], deviations: 0.4 }, i[0])]),
        ("the size of another", &[3 * 700, 700], &|o, i| vec![o.push(Op::Rescale { x: i[0], like: i[1] }, i[0])]),
        ("sums of streams", &[3 * 400, 6], &|o, i| {
            let out = o.tensor(2 * 400);
            let mix = Mix { x: i[0], by: Some(i[1]), out, width: 400, first: 0, adds: false };
            vec![o.push(Op::Mix(mix), out)]
        }),
        ("a sum that is added", &[3 * 400, 1000], &|o, i| {
            let mix = Mix { x: i[0], by: None, out: i[1], width: 400, first: 600, adds: true };
            vec![o.push(Op::Mix(mix), i[1])]
        }),
        ("a part of an activation", &[1500], &|o, i| vec![o.slice(i[0], 7, 1100)]),
        ("values in places", &[1500], &|o, i| vec![o.gather(i[0], 22)]),
        ("products of a norm in another order", &[HIDDEN], &|o, i| o.qkv(o.gather(o.norm(layer, i[0]), 23)).into()),
        ("heads of two parts", &[Q, 7], &|o, i| vec![o.join(i[0], i[1], 5)]),
        ("heads of two activations", &[Q, 7], &|o, i| vec![o.join(i[1], i[0], 1)]),
        ("products of heads", &[5 * 12], &|o, i| vec![o.project_heads(i[0], 17, 5)]),
        ("products of parts of heads", &[3 * 71], &|o, i| vec![o.project_heads(i[0], 18, 3)]),
        ("identity", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::Identity)]),
        ("sigmoid", &[FFN], &|o, i| vec![o.glu(i[0], None, Activation::Sigmoid)]),
        ("tanh", &[FFN], &|o, i| vec![o.glu(i[0], None, Activation::Tanh)]),
        ("softplus", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::Softplus)]),
        ("clamped SwiGLU", &[FFN; 2], &|o, i| {
            let [gate, up] = [i[0], i[1]].map(|x| o.push(Op::Scale { x, factor: 6.0 }, x));
            vec![o.glu(gate, Some(up), Activation::ClampedSwiglu)]
        }),
        ("SwiGLU of clamped values", &[FFN; 2], &|o, i| {
            vec![o.glu(i[0], Some(i[1]), Activation::SwigluOfClamped(0.4))]
        }),
        ("SwiGLU clamped then", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::SwigluThenClamped(0.2))]),
        ("SwiGLU of clamped products", &[HIDDEN], &|o, i| vec![o.gated(i[0], Activation::SwigluOfClamped(4.0))]),
        ("clamped SwiGLU of products", &[HIDDEN], &|o, i| vec![o.gated(i[0], Activation::ClampedSwiglu)]),
        ("clamped SwiGLU without up", &[FFN], &|o, i| vec![o.glu(i[0], None, Activation::ClampedSwiglu)]),
        ("chunks", &[Q, KV, KV], &|o, i| {
            vec![o.attend_by(0, i[0], i[1], Some(i[2]), |a| Attend { mask: Mask::Chunk(3), ..a })]
        }),
        ("sinks", &[Q, KV, KV], &|o, i| {
            vec![o.attend_by(0, i[0], i[1], Some(i[2]), |a| Attend { sinks: Some(Vector(7)), ..a })]
        }),
        ("slopes and sinks", &[Q, KV, KV], &|o, i| {
            let by = |a| Attend { sinks: Some(Vector(7)), slopes: Some(Vector(6)), softcap: 2.0, ..a };
            vec![o.attend_by(0, i[0], i[1], Some(i[2]), by)]
        }),
        ("later tokens", &[Q, KV, KV], &|o, i| {
            vec![o.attend_by(0, i[0], i[1], Some(i[2]), |a| Attend { mask: Mask::All, ..a })]
        }),
        ("neighbors", &[Q, KV, KV], &|o, i| {
            let by = |a| Attend { mask: Mask::Around(2), slopes: Some(Vector(6)), ..a };
            vec![o.attend_by(0, i[0], i[1], Some(i[2]), by)]
        }),
        ("a table of distances", &[Q, KV, KV], &|o, i| {
            let by = |a| Attend { mask: Mask::All, distances: Some(Vector(21)), ..a };
            vec![o.attend_by(0, i[0], i[1], Some(i[2]), by)]
        }),
        ("values wider than keys", &[7 * 20, 3 * 20, 3 * 28], &|o, i| {
            vec![o.attend_by(2, i[0], i[1], Some(i[2]), |a| a)]
        }),
        ("layers of two shapes", &[Q, KV, KV, 7 * 20, 3 * 20, 3 * 28], &|o, i| {
            let a = o.attend_by(0, i[0], i[1], Some(i[2]), |a| a);
            vec![a, o.attend_by(2, i[3], i[4], Some(i[5]), |a| a)]
        }),
        ("latent attention", &[20 * 44, 44], &|o, i| vec![o.attend_by(3, i[0], i[1], None, |a| a)]),
        ("wide heads", &[6 * 330, 2 * 330, 2 * 290], &|o, i| {
            let by = |a| Attend { scale: 0.05, sinks: Some(Vector(20)), mask: Mask::Window(9), ..a };
            vec![o.attend_by(4, i[0], i[1], Some(i[2]), by)]
        }),
        ("wide latent attention", &[18 * 576, 576], &|o, i| {
            vec![o.attend_by(5, i[0], i[1], None, |a| Attend { scale: 0.04, ..a })]
        }),
        ("keys of 1,600 numbers", &[3 * 1600, 1600], &|o, i| {
            vec![o.attend_by(9, i[0], i[1], None, |a| Attend { scale: 0.025, ..a })]
        }),
        ("groups of experts, with biases and factors", &[HIDDEN, 8], &|o, i| {
            let (score, bias) = (RouterScore::Sigmoid, Some(Vector(12)));
            let of = |e: Experts| Routing {
                bias,
                groups: 4,
                groups_used: 2,
                scale: 2.5,
                score,
                renormalize: true,
                ..e.routing
            };
            let biases = [Some(Vector(8)), Some(Vector(9)), Some(Vector(10))];
            let (scales, activation) = ([Some(Vector(11)); 3], Activation::ClampedSwiglu);
            vec![o.eight(i[0], i[1], |e| Experts { routing: of(e), biases, scales, activation, ..e })]
        }),
        ("experts that share matrices, clamped", &[HIDDEN, 16], &|o, i| {
            let of = |e: Experts| Routing { sharing: 2, renormalize: true, scale: 0.5, ..e.routing };
            let activation = Activation::SwigluThenClamped(4.0);
            vec![o.eight(i[0], i[1], |e| Experts { routing: of(e), n_experts: 16, activation, ..e })]
        }),
        ("experts in orders of their own", &[HIDDEN, 8], &|o, i| {
            let order = |i| Some(Vector(i));
            vec![o.eight(o.norm(rms, i[0]), i[1], |e| Experts { orders: [order(27), order(27), order(28)], ..e })]
        }),
        ("experts whose gate alone has an order", &[HIDDEN, N_EXPERTS], &|o, i| {
            let orders = [Some(Vector(29)), None, Some(Vector(30))];
            vec![o.experts_by(i[0], i[1], 14, true, |e| Experts { orders, ..e })]
        }),
        ("groups of experts by a softmax", &[HIDDEN, 8], &|o, i| {
            let of = |e: Experts| Routing { groups: 2, groups_used: 1, score: RouterScore::Softmax, ..e.routing };
            vec![o.eight(i[0], i[1], |e| Experts { routing: of(e), ..e })]
        }),
        ("experts weighted ahead", &[HIDDEN, N_EXPERTS], &|o, i| {
            vec![o.experts_by(i[0], i[1], 14, false, |e| Experts {
                routing: Routing { on_input: true, score: RouterScore::Sigmoid, ..e.routing },
                ..e
            })]
        }),
        ("experts without a gate", &[HIDDEN, N_EXPERTS], &|o, i| {
            let by = |e| Experts { gate: None, activation: Activation::Relu2, ..e };
            vec![o.experts_by(i[0], i[1], 14, true, by)]
        }),
        ("convolution", &[72], &|o, i| vec![o.conv(i[0], 4, true)]),
        ("convolution of six taps", &[72], &|o, i| vec![o.conv(i[0], 6, false)]),
        ("delta rule", &[48, 48, 128, 4, 4], &|o, i| vec![o.delta_rule(i[..5].try_into().unwrap(), true)]),
        ("delta rule with decays of rows", &[400, 400, 64, 800, 4], &|o, i| {
            vec![o.delta_rule(i[..5].try_into().unwrap(), false)]
        }),
        ("scan", &[96, 4, 40, 40], &|o, i| vec![o.scan(i[..4].try_into().unwrap(), 20)]),
        ("scan of channels", &[32, 32, 16, 16], &|o, i| vec![o.scan(i[..4].try_into().unwrap(), 16)]),
        ("RWKV 6, results of the memory ahead", &[128, 64, 64, 128], &|o, i| {
            // The memory before the first token is empty.
            vec![o.add(i[0], o.wkv(i[..4].try_into().unwrap(), |w| Wkv { before: true, fades: true, ..w }), 1.0)]
        }),
        ("RWKV 7", &[160; 6], &|o, i| {
            let [a, b] = [i[4], i[5]].map(|x| o.push(Op::Scale { x, factor: 0.1 }, x));
            vec![o.wkv(i[..4].try_into().unwrap(), |w| Wkv { moved: Some([a, b]), rate: Some(-0.4), ..w })]
        }),
        ("products of heads with heads", &[5 * 70, 5 * 70], &|o, i| {
            let out = o.tensor(5);
            vec![o.push(Op::Dot { x: i[0], y: i[1], out }, out)]
        }),
        ("streams by their scores", &[3 * HIDDEN], &|o, i| {
            let out = o.tensor(HIDDEN);
            vec![o.push(Op::MixByScore { x: i[0], by: Vector(0), eps: 0.1, out }, out)]
        }),
        ("streams divided among others", &[49], &|o, i| {
            vec![o.push(Op::Sinkhorn { x: i[0], eps: 0.01, rounds: 3 }, i[0])]
        }),
        ("SwiGLU of tangents", &[FFN; 2], &|o, i| vec![o.glu(i[0], Some(i[1]), Activation::TanhSwiglu([1.5, 0.6]))]),
        ("SwiGLU of tangents of products", &[HIDDEN], &|o, i| vec![o.gated(i[0], Activation::TanhSwiglu([4.0, 0.0]))]),
        ("experts of tangents", &[HIDDEN, N_EXPERTS], &|o, i| {
            let activation = Activation::TanhSwiglu([1.5, 2.0]);
            vec![o.experts_by(i[0], i[1], 14, false, |e| Experts { activation, ..e })]
        }),
        ("roots", &[FFN], &|o, i| vec![o.glu(i[0], None, Activation::SignedRoot)]),
        ("experts by roots, with a bias", &[HIDDEN, 8], &|o, i| {
            let (score, bias) = (RouterScore::RootOfSoftplus, Some(Vector(12)));
            vec![o.eight(i[0], i[1], |e| Experts { routing: Routing { score, bias, ..e.routing }, ..e })]
        }),
        ("experts of a sparse mixer", &[HIDDEN, 8], &|o, i| {
            // Large scores, so that those within a fiftieth of one another weigh differently.
            let scores = o.push(Op::Scale { x: i[1], factor: 40.0 }, i[1]);
            let score = RouterScore::SparseMixer;
            vec![o.eight(i[0], scores, |e| Experts { routing: Routing { score, ..e.routing }, ..e })]
        }),
        ("experts by ids", &[8], &|o, i| {
            let x = o.embed(0, Index::Id, 1.0);
            let (score, by_id) = (RouterScore::RootOfSoftplus, Some(Vector(BY_ID as u32)));
            let of = |e: Experts| Routing { score, by_id, renormalize: true, scale: 1.5, ..e.routing };
            vec![o.eight(x, i[0], |e| Experts { routing: of(e), ..e })]
        }),
        ("n-grams", &[], &|o, _| {
            let out = o.tensor(3 * 32);
            let heads = [(1, 0, 30), (2, 30, 50), (3, 80, 17)].map(|(n, first, rows)| NgramHead { n, first, rows });
            let multipliers = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9].into();
            let (recurrent, table, heads) = (RecurrentId(8), Weight(19), heads.into());
            // The id of the sixth token of the steps.
            let end = 5 * 7919 % VOCAB as u32;
            vec![o.push(Op::EmbedNgrams(EmbedNgrams { recurrent, table, out, multipliers, heads, end }.into()), out)]
        }),
        // The first positions end no group.
        ("groups of positions", &[24; 3], &|o, i| vec![o.add(i[2], o.pool(i[0], i[1], 4), 1.0)]),
        ("groups of positions that overlap", &[40, 40, 20], &|o, i| vec![o.add(i[2], o.pool(i[0], i[1], 3), 1.0)]),
        ("RoPE by positions before", &[Q, KV], &|o, i| vec![o.rope(3, None, i[0], Some(i[1])), i[1]]),
        ("attention to chosen positions", &[120, 3, 40, Q, KV, KV], &|o, i| {
            let among = o.select(6, [i[0], i[1], i[2]], Groups::One, 5);
            let by = |a| Attend { among: Some(among), sinks: Some(Vector(7)), softcap: 2.0, ..a };
            vec![among, o.attend_by(0, i[3], i[4], Some(i[5]), by)]
        }),
        ("wide attention to pools of positions", &[120, 3, 40, 18 * 576, 576], &|o, i| {
            let among = o.select(6, [i[0], i[1], i[2]], Groups::Pools(3), 8);
            vec![among, o.attend_by(5, i[3], i[4], None, |a| Attend { among: Some(among), scale: 0.04, ..a })]
        }),
        ("attention to blocks of positions", &[120, 3, 40, Q, KV, KV], &|o, i| {
            let among = o.select(6, [i[0], i[1], i[2]], Groups::Blocks { size: 4, local: 1 }, 8);
            vec![among, o.attend_by(0, i[3], i[4], Some(i[5]), |a| Attend { among: Some(among), ..a })]
        }),
        ("one softmax over two layers", &[20 * 44, 44, 44], &|o, i| {
            let sums = o.tensor(20);
            let first = |a| Attend { half: Some(Half::First(sums)), mask: Mask::Window(4), ..a };
            let out = o.attend_by(3, i[0], i[1], None, first);
            let layer = KvLayerId(8);
            o.push(Op::StoreKv { layer, k: i[2], v: None }, out);
            let half = Some(Half::Second(sums));
            vec![o.push(Op::Attend(Attend { half, ..Attend::new(layer, i[0], out, 0.3) }), out)]
        }),
        ("one softmax over chosen keys of several positions", &[20 * 44, 44, 44, 120, 3, 40], &|o, i| {
            let sums = o.tensor(20);
            let first = |a| Attend { half: Some(Half::First(sums)), ..a };
            let out = o.attend_by(3, i[0], i[1], None, first);
            let layer = KvLayerId(8);
            o.push(Op::StoreKv { layer, k: i[2], v: None }, out);
            let among = o.select(7, [i[3], i[4], i[5]], Groups::One, 3);
            let half = Some(Half::Second(sums));
            let second = Attend { half, among: Some(among), ..Attend::new(layer, i[0], out, 0.3) };
            vec![o.push(Op::Attend(second), out)]
        }),
        ("logits", &[HIDDEN], &|o, i| o.logits(o.norm(rms, i[0]))),
        ("the rows of outputs", &[], &|o, _| {
            let x = o.embed(0, Index::Id, 1.0);
            let [q, k, v] = o.qkv(o.norm(rms, x));
            let a = o.attend([o.norm_in_place(head, q), o.norm_in_place(head, k), v], 0.0, 0);
            o.add(x, o.project(a, [(12, None)])[0], 1.0);
            o.add(x, o.project(o.norm(layer, x), [(13, None)])[0], 0.1);
            o.logits(o.norm(rms, x))
        }),
    ];
    for case in cases {
        let models = CaseModels::new(target, case);
        for (order, n) in (0..).zip([1, 2, 5, 12, 37]) {
            target.shim.iter().for_each(|shim| shim.order(order));
            for outputs in [1, 2].map(|step| (0..n as u32).step_by(step).collect::<Vec<u32>>()) {
                let expected = models.run(&models.cpu, n, &outputs, false);
                for one_by_one in [false, true] {
                    let got = models.run(&models.cuda, n, &outputs, one_by_one);
                    for (expected, got) in expected.iter().zip(got) {
                        let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
                        let difference = relative_rms(&[expected], &[got]);
                        println!("{:42} {n:2} tokens, one by one: {one_by_one:5} {difference:.2e}", case.0);
                        assert!(difference < 1.5e-2, "{}, {n} tokens, {one_by_one}: {difference}", case.0);
                    }
                }
            }
        }
    }
}

const CASE_LIMITS: StepLimits = StepLimits { max_tokens: 40, max_outputs: 40 };

fn case_cache() -> SequenceSpec {
    SequenceSpec {
        layers: STATES.into(),
        recurrent: MEMORIES.into(),
        capacity: 50,
        k_type: quant::F32,
        v_type: quant::F32,
        max_step: 40,
    }
}

/// The program of a case on both backends.
struct CaseModels {
    program: Arc<Program>,
    inputs: Vec<TensorId>,
    outs: Vec<TensorId>,
    cpu: Backend,
    cuda: Backend,
    /// Steps have pictures.
    sees: bool,
}

fn case_matrices() -> Vec<Matrix> {
    let values_of = |(seed, (dtype, rows, cols))| Matrix::new(dtype, rows, cols, &values(rows * cols, seed));
    (1..).zip(MATRICES).map(values_of).collect()
}

fn case_weights(matrices: &[Matrix]) -> Weights<'_> {
    let vector_of = |(i, n)| {
        let sign = |x: f32| if RATES.contains(&i) { -x.abs() } else { x };
        let order = ORDERS.iter().find(|(of, _)| *of == i);
        match PLACES.contains(&i) || order.is_some() {
            true => {
                let width = order.map_or(n, |(_, width)| *width);
                (0..n).map(|place| ((7 * (place % width) + place / width + 3) % width) as f32).collect()
            }
            // Every second token has one expert three times, more of them than a step has tokens.
            false if i == BY_ID => {
                let expert = |i: usize| if (i / 3).is_multiple_of(2) { 1 } else { (i / 3 + 5 * (i % 3)) % 8 };
                (0..n).map(|i| expert(i) as f32).collect()
            }
            false => values(n, i as u64 + 1).into_iter().map(sign).collect(),
        }
    };
    let ropes = [
        (RopePairs::Halves, vec![0, 1, 2, 1], 0),
        (RopePairs::Adjacent, vec![2, 0, 1, 1, 2, 0], 0),
        (RopePairs::Halves, vec![], 0),
        (RopePairs::Adjacent, vec![], 3),
    ];
    let rope_of = |(pairs, axes, position_offset): (RopePairs, Vec<u8>, u32)| {
        let inv_freq = inv_freq(10_000.0, if axes.is_empty() { 8 } else { 2 * axes.len() });
        Rope { pairs, inv_freq, axes, magnitude: 1.25, position_offset }
    };
    Weights {
        matrices: matrices.iter().map(|s| s as &dyn MatrixSource).collect(),
        vectors: (0..).zip(VECTORS).map(vector_of).collect(),
        ropes: ropes.map(rope_of).into(),
    }
}

impl CaseModels {
    fn new(target: &Target, case: &Case) -> CaseModels {
        Self::on(target.cuda().unwrap(), case, &case_weights(&case_matrices()))
    }

    fn on(device: Arc<dyn GpuDevice>, (_, inputs, ops): &Case, weights: &Weights) -> CaseModels {
        let o = Ops::default();
        for layer in STATES {
            o.0.borrow_mut().kv_layer(layer);
        }
        for values in MEMORIES {
            o.0.borrow_mut().recurrent(values);
        }
        let inputs: Vec<TensorId> = inputs.iter().map(|&width| o.tensor(width)).collect();
        let outs = ops(&o, &inputs);
        inputs.iter().for_each(|&tensor| o.0.borrow_mut().input(tensor));
        let program = Arc::new(o.0.into_inner().finish(VOCAB, &outs));
        program.check(weights).unwrap();
        let cpu = cpu_backend(&program, weights);
        let cuda = Backend::Gpu(device.load(&program, weights, &mut |_, _| Ok(())).unwrap());
        CaseModels { program, inputs, outs, cpu, cuda, sees: false }
    }

    /// One step of `n` tokens, as one range of ops or op by op: the activations to compare, or the logits.
    fn run(&self, backend: &Backend, n: usize, outputs: &[u32], one_by_one: bool) -> Vec<Vec<f32>> {
        self.run_with(backend, n, outputs, one_by_one, &values)
    }

    /// The same with inputs of a number of values, by a seed.
    fn run_with(
        &self,
        backend: &Backend,
        n: usize,
        outputs: &[u32],
        one_by_one: bool,
        values: &dyn Fn(usize, u64) -> Vec<f32>,
    ) -> Vec<Vec<f32>> {
        let mut executor = backend.new_executor(&self.program, CASE_LIMITS).unwrap();
        // Two sequences where there are tokens for both.
        let mut states = [0; 2].map(|_| backend.new_sequence(&case_cache()).unwrap());
        let slots: Vec<u32> = (0..n).map(|i| u32::from(2 * i >= n && n > 1)).collect();
        let positions: Vec<u32> = (0..n).map(|i| if slots[i] == 0 { i } else { i - n.div_ceil(2) } as u32).collect();
        let ids: Vec<u32> = (0..n as u32).map(|i| i * 7919 % VOCAB as u32).collect();
        let states = &mut states.each_mut()[..];
        let lengths = [n.div_ceil(2) as u32, n as u32 / 2];
        let pictures = Pictures::new(&ids, &positions, &slots, &lengths, self.program.media_width());
        let rows = pictures.rows();
        let inputs = StepInputs { ids: &ids, positions: &positions, outputs, sequences: &slots, ..Default::default() };
        let inputs = if self.sees { pictures.add(&rows, inputs) } else { inputs };
        let batch = &mut Batch { inputs, sequences: states };
        let all = self.program.ops.len();
        let step = if one_by_one { 1 } else { all };
        for first in (0..all).step_by(step) {
            executor.begin(batch, first..first + step).unwrap();
            for (&tensor, seed) in self.inputs.iter().zip(20..).filter(|_| first == 0) {
                executor.write(tensor, &values(n * self.program.width(tensor), seed)).unwrap();
            }
            assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        }
        if self.outs.is_empty() {
            return logits(&mut executor, outputs.len(), VOCAB).unwrap();
        }
        let read = |&tensor: &TensorId| {
            let mut out = vec![f32::NAN; n * self.program.width(tensor)];
            executor.read(tensor, &mut out).map(|()| out).unwrap()
        };
        self.outs.iter().map(read).collect()
    }
}

/// Prompts over more positions than a step of attention has, of two sequences that go on, in every way to attend; with
/// one type of caches over so many that they are divided, of prompts and of the tokens after them.
#[test]
fn prompts_agree_with_the_cpu() {
    let with_window = |n_kv_heads, head_dim, window| KvLayer { window, ..KvLayer::new(n_kv_heads, head_dim, 0) };
    // Query heads, keys and values, and the op.
    type By = fn(Attend) -> Attend;
    let cases: [(usize, KvLayer, By); 8] = [
        (6, KvLayer::new(2, 64, 0), |a| a),
        (5, kv_layer(1, 20, 50, false), |a| Attend { sinks: Some(Vector(7)), softcap: 2.0, ..a }),
        (3, with_window(1, 80, 24), |a| Attend { mask: Mask::Window(24), ..a }),
        (5, KvLayer::new(2, 96, 0), |a| Attend { mask: Mask::Chunk(70), slopes: Some(Vector(6)), ..a }),
        (4, KvLayer::new(1, 128, 0), |a| a),
        (3, kv_layer(1, 100, 90, true), |a| Attend { mask: Mask::Window(90), ..a }),
        (2, KvLayer::new(1, 256, 0), |a| a),
        (6, KvLayer::new(2, 64, 0), |a| Attend { mask: Mask::Spans, ..a }),
    ];
    let vectors: Vec<Vec<f32>> = (0..).zip(VECTORS).map(|(seed, n)| values(n, seed)).collect();
    let weights = Weights { vectors, ..Weights::default() };
    for target in targets() {
        for (heads, layer, by) in cases {
            let mut b = ProgramBuilder::default();
            let stored = b.kv_layer(layer);
            let KvLayer { n_kv_heads, head_dim, value_dim, is_latent, .. } = layer;
            let widths = [heads * head_dim, n_kv_heads * head_dim, n_kv_heads * value_dim, heads * value_dim];
            let [q, k, v, out] = widths.map(|width| b.tensor(width));
            b.push(Op::StoreKv { layer: stored, k, v: (!is_latent).then_some(v) });
            b.push(Op::Attend(by(Attend::new(stored, q, out, 1.5 / (head_dim as f32).sqrt()))));
            let program = Arc::new(b.finish(0, &[q, k, v, out]));
            let cuda = Backend::Gpu(target.cuda().unwrap().load(&program, &weights, &mut |_, _| Ok(())).unwrap());
            let cpu = cpu_backend(&program, &weights);
            let types = [(quant::F16, 4e-3, false), (quant::F32, 4e-3, true), (quant::Q8_0, 3e-2, false)];
            // Both sides round to 4 bits, each in its way.
            let types = types.into_iter().chain([(quant::Q4_0, 2.5e-1, true)]);
            for (dtype, limit, sees) in [(quant::F16, 4e-3, true)].into_iter().chain(types) {
                let steps: &[[usize; 2]] = match dtype == quant::F16 && !sees {
                    true => &[[100, 15], [100, 15], [90, 25], [1, 1], [3, 90]],
                    false => &[[70, 45], [75, 33], [1, 60], [60, 8]],
                };
                let run = |backend| attended(backend, &program, [q, k, v, out], dtype, sees, steps);
                let difference = relative_rms(&[run(&cpu).into_iter().map(f64::from).collect()], &[run(&cuda)]);
                let what = format!("{heads} heads, {layer:?}, cache type {}, spans: {sees}", dtype.0);
                println!("{what}: {difference:.2e}");
                assert!(difference < limit, "{what}: {difference}");
            }
        }
    }
}

/// Results of the attention of a program to two sequences in steps of so many tokens of each, in which tokens of
/// pictures see all of them.
fn attended(
    backend: &Backend,
    program: &Arc<Program>,
    [q, k, v, out]: [TensorId; 4],
    dtype: DType,
    sees: bool,
    steps: &[[usize; 2]],
) -> Vec<f32> {
    let limits = StepLimits { max_tokens: 120, max_outputs: 1 };
    let (layers, max_step) = (program.kv_layers.clone(), limits.max_tokens);
    let spec = SequenceSpec { layers, recurrent: [].into(), capacity: 300, k_type: dtype, v_type: dtype, max_step };
    let mut executor = backend.new_executor(program, limits).unwrap();
    let mut states = [0; 2].map(|_| backend.new_sequence(&spec).unwrap());
    let mut results = Vec::new();
    for (step, &counts) in (0..).zip(steps) {
        let lengths = states.each_ref().map(|state| state.len());
        let tokens = |slot: usize| (lengths[slot]..).take(counts[slot]).map(move |p| (slot as u32, p as u32));
        let (slots, positions): (Vec<u32>, Vec<u32>) = tokens(0).chain(tokens(1)).unzip();
        let (n, ids) = (slots.len(), vec![0; slots.len()]);
        let states_of = &mut states.each_mut()[..];
        let (lengths, sequences) = ([0, 1].map(|slot| (lengths[slot] + counts[slot]) as u32), &slots[..]);
        let pictures = Pictures::new(&ids, &positions, sequences, &lengths, 0);
        let rows = pictures.rows();
        let inputs = StepInputs { ids: &ids, positions: &positions, outputs: &[0], sequences, ..Default::default() };
        let inputs = if sees { pictures.add(&rows, inputs) } else { inputs };
        let batch = &mut Batch { inputs, sequences: states_of };
        executor.begin(batch, 0..program.ops.len()).unwrap();
        for (tensor, seed) in [q, k, v].into_iter().zip(3 * step + 1..) {
            executor.write(tensor, &values(n * program.width(tensor), seed)).unwrap();
        }
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        // A few tokens next to a prompt have their own kernels.
        let (kernels, [fewer, more]) = (executor.kernels(), [counts[0].min(counts[1]), counts[0].max(counts[1])]);
        if fewer <= 8 && more >= 60 && !kernels.is_empty() {
            let (prompts, others): (Vec<&str>, Vec<&str>) =
                kernels.iter().filter(|name| name.starts_with("attend_")).partition(|n| n.starts_with("attend_prompt"));
            assert_eq!([prompts.len(), others.len()], [1, 1], "{kernels:?}");
        }
        let first = results.len();
        results.resize(first + n * program.width(out), f32::NAN);
        executor.read(out, &mut results[first..]).unwrap();
        executor.end().unwrap();
        states.iter_mut().zip(counts).for_each(|(state, n)| state.commit(n));
    }
    results
}

/// Few tokens behind so many positions that each warp has several steps of them, more than its ring has slots.
#[test]
fn tokens_far_behind_agree_with_the_cpu() {
    type By = fn(Attend) -> Attend;
    let cases: [(usize, KvLayer, By); 6] = [
        (4, KvLayer::new(2, 64, 0), |a| a),
        (4, KvLayer::new(2, 128, 0), |a| Attend { sinks: Some(Vector(7)), ..a }),
        (2, KvLayer::new(1, 256, 0), |a| a),
        (6, KvLayer::new(2, 36, 700), |a| Attend { mask: Mask::Window(700), ..a }),
        (3, kv_layer(1, 100, 90, true), |a| a),
        (4, KvLayer::new(2, 128, 0), |a| Attend { softcap: 2.0, ..a }),
    ];
    let vectors: Vec<Vec<f32>> = (0..).zip(VECTORS).map(|(seed, n)| values(n, seed)).collect();
    let weights = Weights { vectors, ..Weights::default() };
    for target in targets() {
        for (heads, layer, by) in cases {
            let mut b = ProgramBuilder::default();
            let stored = b.kv_layer(layer);
            let KvLayer { n_kv_heads, head_dim, value_dim, is_latent, .. } = layer;
            let widths = [heads * head_dim, n_kv_heads * head_dim, n_kv_heads * value_dim, heads * value_dim];
            let [q, k, v, out] = widths.map(|width| b.tensor(width));
            b.push(Op::StoreKv { layer: stored, k, v: (!is_latent).then_some(v) });
            b.push(Op::Attend(by(Attend::new(stored, q, out, 1.5 / (head_dim as f32).sqrt()))));
            let program = Arc::new(b.finish(0, &[q, k, v, out]));
            let cuda = Backend::Gpu(target.cuda().unwrap().load(&program, &weights, &mut |_, _| Ok(())).unwrap());
            let cpu = cpu_backend(&program, &weights);
            for (dtype, limit) in [(quant::F16, 4e-3), (quant::Q8_0, 3e-2)] {
                let run = |backend| far_behind(backend, &program, [q, k, v, out], dtype);
                let difference = relative_rms(&[run(&cpu).into_iter().map(f64::from).collect()], &[run(&cuda)]);
                println!("{heads} heads, {layer:?}, cache type {}: {difference:.2e}", dtype.0);
                assert!(difference < limit, "{heads} heads, {layer:?}, cache type {}: {difference}", dtype.0);
            }
        }
    }
}

/// Attention of a few tokens behind about 800 positions of each of two sequences, at last to a step of 16 positions of
/// which the token does not see the last one.
fn far_behind(backend: &Backend, program: &Arc<Program>, [q, k, v, out]: [TensorId; 4], dtype: DType) -> Vec<f32> {
    let limits = StepLimits { max_tokens: 200, max_outputs: 2 };
    let (layers, max_step) = (program.kv_layers.clone(), limits.max_tokens);
    let spec = SequenceSpec { layers, recurrent: [].into(), capacity: 900, k_type: dtype, v_type: dtype, max_step };
    let mut executor = backend.new_executor(program, limits).unwrap();
    let mut states = [0; 2].map(|_| backend.new_sequence(&spec).unwrap());
    let mut results = Vec::new();
    for (step, counts) in (0..).zip([[100, 90]; 8].into_iter().chain([[1, 1], [3, 3], [14, 1], [1, 9], [1, 1]])) {
        let lengths = states.each_ref().map(|state| state.len());
        let tokens = |slot: usize| (lengths[slot]..).take(counts[slot]).map(move |p| (slot as u32, p as u32));
        let (slots, positions): (Vec<u32>, Vec<u32>) = tokens(0).chain(tokens(1)).unzip();
        let (n, ids) = (slots.len(), vec![0; slots.len()]);
        let outputs: &[u32] = if n == 2 { &[0, 1] } else { &[0] };
        let inputs = StepInputs { ids: &ids, positions: &positions, outputs, sequences: &slots, ..Default::default() };
        let batch = &mut Batch { inputs, sequences: &mut states.each_mut()[..] };
        // Many tokens only store keys and values.
        let attends = n < 100;
        executor.begin(batch, 0..if attends { 2 } else { 1 }).unwrap();
        for (tensor, seed) in [q, k, v].into_iter().zip(3 * step + 1..) {
            executor.write(tensor, &values(n * program.width(tensor), seed)).unwrap();
        }
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        if attends {
            let first = results.len();
            results.resize(first + n * program.width(out), f32::NAN);
            executor.read(out, &mut results[first..]).unwrap();
        }
        executor.end().unwrap();
        states.iter_mut().zip(counts).for_each(|(state, n)| state.commit(n));
    }
    results
}

/// A token alone, whose heads are turned where they are attended to, has the bits of one that is computed with others:
/// in every way to attend, around borders of steps and rings, with caches of every type.
#[test]
fn attention_to_one_token_has_the_bits_of_one_among_others() {
    type By = fn(Attend) -> Attend;
    // Query heads, keys and values, the order of pairs, norms (none, of heads, of heads with their own weights), and
    // the op.
    let cases: [(usize, KvLayer, RopePairs, usize, By); 9] = [
        (8, KvLayer::new(2, 64, 0), RopePairs::Halves, 0, |a| a),
        (2, KvLayer::new(2, 48, 0), RopePairs::Adjacent, 1, |a| Attend { softcap: 2.0, ..a }),
        (16, kv_layer(1, 20, 50, false), RopePairs::Halves, 2, |a| Attend { sinks: Some(Vector(2)), ..a }),
        (5, KvLayer::new(2, 96, 0), RopePairs::Adjacent, 2, |a| Attend {
            mask: Mask::Chunk(70),
            slopes: Some(Vector(2)),
            ..a
        }),
        (3, KvLayer::new(1, 128, 24), RopePairs::Halves, 1, |a| Attend { mask: Mask::Window(24), ..a }),
        (4, KvLayer::new(2, 128, 200), RopePairs::Halves, 0, |a| Attend { mask: Mask::Window(200), ..a }),
        (4, KvLayer::new(1, 256, 0), RopePairs::Halves, 1, |a| a),
        (3, kv_layer(1, 100, 90, true), RopePairs::Halves, 0, |a| a),
        // More rows than a tile has take two kernels either way.
        (17, KvLayer::new(1, 32, 0), RopePairs::Halves, 0, |a| a),
    ];
    for target in targets() {
        for (heads, layer, pairs, norms, by) in cases {
            let KvLayer { n_kv_heads, head_dim, value_dim, is_latent, .. } = layer;
            let widths = [heads * head_dim, n_kv_heads * head_dim, n_kv_heads * value_dim, heads * value_dim];
            let mut b = ProgramBuilder::default();
            let stored = b.kv_layer(layer);
            let [q, k, v, out] = widths.map(|width| b.tensor(width));
            for (i, x) in [q, k].into_iter().enumerate().filter(|_| norms > 0) {
                let (kind, weight) = (NormKind::Rms, Some(Vector(i as u32)));
                b.push(Op::Norm { norm: Norm { kind, weight, bias: None, eps: 1e-5, group: head_dim }, x, out: x });
            }
            b.push(Op::Rope {
                rope: RopeChoice { table: RopeTable(0), long: None },
                head_dim,
                first: 2,
                q,
                k: Some(k),
            });
            b.push(Op::StoreKv { layer: stored, k, v: (!is_latent).then_some(v) });
            b.push(Op::Attend(by(Attend::new(stored, q, out, 1.5 / (head_dim as f32).sqrt()))));
            [q, k, v].into_iter().filter(|x| *x != v || !is_latent).for_each(|x| b.input(x));
            let program = Arc::new(b.finish(0, &[out]));
            let lengths =
                [if norms == 2 { widths[0] } else { head_dim }, if norms == 2 { widths[1] } else { head_dim }];
            let vectors =
                [lengths[0], lengths[1], heads].into_iter().zip(1..).map(|(n, seed)| values(n, seed)).collect();
            let ropes = vec![Rope {
                pairs,
                inv_freq: inv_freq(10_000.0, head_dim - 4),
                axes: vec![],
                magnitude: 1.25,
                position_offset: 0,
            }];
            let weights = Weights { vectors, ropes, ..Weights::default() };
            program.check(&weights).unwrap();
            let model = target.open(true).unwrap().load(&program, &weights, &mut |_, _| Ok(())).unwrap();
            let backend = Backend::Gpu(model);
            let mixed = [[quant::F32, quant::Q8_0], [quant::Q8_0, quant::Q4_0]];
            for types in [[quant::F16; 2], [quant::Q4_0; 2]].into_iter().chain(mixed) {
                let inputs = if is_latent { vec![q, k] } else { vec![q, k, v] };
                match bits_of_tokens(&backend, &program, &inputs, out, types) {
                    Some([alone, among, beside]) => {
                        assert!(alone == among && alone == beside, "{heads} heads, {layer:?}, {types:?}")
                    }
                    None => assert!(is_latent && types[0] != types[1]),
                }
            }
        }
    }
}

/// Attention of tokens alone, after one of another sequence in their own launches, because not all are outputs, and
/// in one launch; before and after the end of a ring. `None` where no cache has the types.
fn bits_of_tokens(
    backend: &Backend,
    program: &Arc<Program>,
    inputs: &[TensorId],
    out: TensorId,
    [k_type, v_type]: [DType; 2],
) -> Option<[Vec<f32>; 3]> {
    let limits = StepLimits { max_tokens: 48, max_outputs: 2 };
    let spec = SequenceSpec {
        layers: program.kv_layers.clone(),
        recurrent: [].into(),
        capacity: 300,
        k_type,
        v_type,
        max_step: limits.max_tokens,
    };
    let mut executor = backend.new_executor(program, limits).unwrap();
    let mut step = |mut states: Vec<&mut Sequence>, n: usize, outputs: &[u32], seed: u64| {
        let ends: Vec<usize> = states.iter().map(|state| state.len()).collect();
        let tokens = ends.iter().zip(0..).flat_map(|(&len, slot)| (len..).take(n).map(move |p| (p as u32, slot)));
        let (positions, slots): (Vec<u32>, Vec<u32>) = tokens.unzip();
        let ids = vec![0; slots.len()];
        let mut of_step: Vec<&mut Sequence> = states.iter_mut().map(|state| &mut **state).collect();
        let states_of = &mut of_step[..];
        let batch = &mut Batch {
            inputs: StepInputs { ids: &ids, positions: &positions, outputs, sequences: &slots, ..Default::default() },
            sequences: states_of,
        };
        // Many tokens only store keys and values.
        let all = program.ops.len();
        executor.begin(batch, if n > 1 { all - 2..all - 1 } else { 0..all }).unwrap();
        for (&tensor, i) in inputs.iter().zip(0..) {
            // The rows of the last sequence do not depend on the number of sequences.
            let slots = (0..ends.len() as u64).rev();
            let rows = slots.flat_map(|slot| values(n * program.width(tensor), seed + 10 * i + 1000 * slot));
            executor.write(tensor, &rows.collect::<Vec<f32>>()).unwrap();
        }
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        let mut results = vec![f32::NAN; slots.len() * program.width(out)];
        executor.read(out, &mut results).unwrap();
        executor.end().unwrap();
        states.into_iter().for_each(|state| state.commit(n));
        results.split_off(results.len() - program.width(out))
    };
    let mut states = [0; 3].map(|_| backend.new_sequence(&spec).ok());
    let [Some(alone), Some(other), Some(third)] = &mut states else { return None };
    (0..5).for_each(|seed| drop(step(vec![&mut *alone], 48, &[], seed)));
    let (mut among, mut beside) = (alone.fork().unwrap(), alone.fork().unwrap());
    let mut results = [(); 3].map(|_| Vec::new());
    for seed in 100..120 {
        results[0].extend(step(vec![&mut *alone], 1, &[], seed));
        results[1].extend(step(vec![&mut *other, &mut among], 1, &[], seed));
        results[2].extend(step(vec![&mut *third, &mut beside], 1, &[0, 1], seed));
    }
    Some(results)
}

/// A token of a network with one layer takes half as many launches as it has ops; those of others are counted.
#[test]
fn neighboring_ops_share_kernels() {
    let Some(shim) = shim() else { return };
    let launches = |tiny: &Tiny, sequences: u32| {
        let (_dir, path, _) = save(tiny);
        let model = load(&path, open(&shim).unwrap()).unwrap();
        let mut executor = model.executor().unwrap();
        let mut states: Vec<_> = (0..sequences).map(|_| model.state(quant::F16).unwrap()).collect();
        let before = shim.number("shim_launches");
        let ([ids, positions], slots) = ([1, 0].map(|word| vec![word; states.len()]), Vec::from_iter(0..sequences));
        let states = &mut states.iter_mut().collect::<Vec<_>>()[..];
        let batch = &mut Batch {
            inputs: StepInputs {
                ids: &ids,
                positions: &positions,
                outputs: &slots,
                sequences: &slots,
                ..Default::default()
            },
            sequences: states,
        };
        model.run(&mut executor, batch).unwrap();
        executor.end().unwrap();
        (shim.number("shim_launches") - before, model.program.ops.len())
    };
    // Embedding, qkv, attention, output, gate and up, down, head, arg-max; of more than two rows with their
    // preparation.
    let llama = Tiny::new("llama", quant::Q8_0).layers(1).shape(64, 2, 1, 32, 64);
    assert_eq!([1, 2, 3].map(|sequences| launches(&llama, sequences).0), [8, 8, 13]);
    for (name, most) in [
        ("qwen3", 13),
        ("gemma3", 52),
        ("qwen3moe", 15),
        ("gpt-oss", 15),
        ("glm4moe", 26),
        ("deepseek2", 56),
        ("gemma4", 101),
        ("qwen35", 24),
        ("lfm2", 22),
        ("mamba2", 23),
    ] {
        let tiny = architecture(name, [64, 4, 2, 16, 96]);
        let (launches, ops) = launches(&tiny, 1);
        println!("{name}: {} layers, {ops} ops, {launches} launches", tiny.net.layers);
        assert!(launches <= most, "{name}: {launches} launches");
    }
}

/// A step that is stopped between any two launches goes on where it was.
#[test]
fn a_step_stops_between_launches() {
    let Some(shim) = shim() else { return };
    // More rows than are recorded.
    for piece in [9, 21] {
        let (_dir, path, _) = save(&Tiny::new("llama", quant::F32).layers(2).shape(64, 2, 1, 32, 64));
        let model = load(&path, open(&shim).unwrap()).unwrap();
        let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
        let expected = model.step(&mut executor, &mut state, &PROMPT[..piece]).unwrap();
        let (positions, outputs): (Vec<u32>, Vec<u32>) = (0..piece as u32).map(|i| (i, i)).unzip();
        let (ids, slots, states) = (&PROMPT[..piece], vec![0; piece], &mut [&mut state]);
        let batch = &mut Batch {
            inputs: StepInputs {
                ids,
                positions: &positions,
                outputs: &outputs,
                sequences: &slots,
                ..Default::default()
            },
            sequences: states,
        };
        executor.begin(batch, 0..model.program.ops.len()).unwrap();
        let (asked, mut turns) = (Cell::new(0), 0);
        let every_other = || {
            asked.set(asked.get() + 1);
            asked.get() % 2 == 0
        };
        while !executor.advance(batch, &StepBudget::new(&every_other)).unwrap() {
            turns += 1;
        }
        assert!(turns > 10);
        assert!(logits(&mut executor, piece, model.program.vocab).unwrap() == expected);
        executor.end().unwrap();
    }
}
