//! The self-test of a device before a model is loaded on it, on the host emulation: every architecture passes, a wrong
//! kernel is found and named, and passed tests are not repeated.

use std::ffi::CStr;
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use realizar::cuda::args::*;
use realizar::cuda::{self, CudaDevice};
use realizar::device::select;
use realizar::device::self_test::{self, Factored};
use realizar::engine::{self, CacheParams, LoadOptions, LoadParams, Model, Plan, Session};
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::gpu::{GpuDevice, Kept};
use realizar::graph::op::{
    Attend, EmbedNgrams, Groups, Half, NgramHead, Op, Pool, RopeChoice, RopeTable, Select, Vector, Weight,
};
use realizar::graph::program::{Program, ProgramBuilder};
use realizar::graph::sequence_spec::KvLayer;
use realizar::graph::weights::{Rope, RopePairs, Weights};
use realizar::model::arch;
use realizar::quant;
use realizar::tensor::DType;

use crate::support::matrix::Matrix;
use crate::support::process;
use crate::support::reference::relative_rms;
use crate::support::save::save;
use crate::support::shim::{self, Shim, shim};
use crate::support::tiny::{self, PROMPT, Tiny};

fn open(shim: &Shim, deterministic: bool) -> Result<Arc<dyn GpuDevice>> {
    Ok(CudaDevice::open(&shim.driver, 0, shim::IMAGE, &LoadOptions { deterministic, ..Default::default() })?)
}

/// Tests a device for the model in a file; the largest error as a part of what is allowed.
fn check(shim: &Shim, path: &Path, deterministic: bool) -> Result<f64> {
    let source = Source::open(path, Access::Read)?;
    let network = arch::network(&source, None, false)?;
    self_test::check(&open(shim, deterministic)?, &network.program, &network.weights(), None)
}

fn architectures(dtype: DType) -> Vec<(&'static str, Tiny)> {
    tiny::architectures(|name| Tiny::new(name, dtype).shape(64, 4, 2, 16, 96))
}

#[test]
fn every_architecture_passes_and_costs_nothing_the_second_time() {
    let Some(shim) = shim() else { return };
    for (name, tiny) in architectures(quant::Q8_0).into_iter().chain(architectures(quant::BF16)) {
        let (_dir, path, _) = save(&tiny);
        for deterministic in [false, true] {
            let counts = || ["shim_launches", "shim_bytes_in", "shim_bytes_out"].map(|name| shim.number(name));
            let (before, started) = (counts(), Instant::now());
            let error = check(&shim, &path, deterministic).unwrap_or_else(|e| panic!("{name}, {deterministic}: {e}"));
            let (took, after) = (started.elapsed(), counts());
            let [launches, sent, read] = std::array::from_fn(|i| after[i] - before[i]);
            println!(
                "{name:20} {deterministic:5} {launches:4} launches, {sent:8} bytes there, {read:7} back, {took:9.1?}, error {error:.2}"
            );
            assert!(error < 0.7, "{name}");
            let (before, again) = (shim.number("shim_launches"), Instant::now());
            check(&shim, &path, deterministic).unwrap();
            println!("{:66} again {:.1?}", "", again.elapsed());
            assert_eq!(shim.number("shim_launches"), before);
        }
    }
    assert_eq!(shim.number("shim_memory_used"), 0);
}

#[test]
fn every_type_and_shape_passes() {
    let Some(shim) = shim() else { return };
    for format in quant::FORMATS.iter().filter(|format| format.dtype.0 < 1 << 16) {
        let (_dir, path, _) = save(&Tiny::new("llama", format.dtype).layers(1).shape(256, 8, 1, 32, 256));
        let error = check(&shim, &path, false).unwrap_or_else(|e| panic!("{}: {e}", format.name));
        println!("{:10} error {error:.2} of the limit", format.name);
        assert!(error < 0.7, "{}", format.name);
    }
    let llama = |dtype| Tiny::new("llama", dtype).layers(1);
    for tiny in [
        llama(quant::Q4_1).shape(576, 9, 3, 64, 768),
        llama(quant::Q4_0).shape(320, 4, 1, 80, 416),
        llama(quant::Q6_K).shape(256, 2, 1, 256, 512),
        llama(quant::Q5_0).shape(320, 20, 1, 16, 64),
        llama(quant::F16).shape(20, 1, 1, 20, 30),
        // More tokens than a draw lists.
        llama(quant::Q8_0).change(|t| t.net.vocab = 2500),
        llama(quant::Q8_0).change(|t| t.net.vocab = 1),
    ] {
        let (_dir, path, _) = save(&tiny);
        let error = check(&shim, &path, false).unwrap();
        println!("{:?} error {error:.2} of the limit", tiny.net.vocab);
        assert!(error < 0.7);
    }
}

/// What pictures add, and factors of every type, pass; a second adapter of the same types and widths costs nothing.
#[test]
fn pictures_and_adapters_pass() {
    let Some(shim) = shim() else { return };
    let (pictures, weights) = of_pictures();
    for deterministic in [false, true] {
        let device = open(&shim, deterministic).unwrap();
        let error = self_test::check(&device, &pictures, &weights, None).unwrap();
        assert!(error < 0.7, "{error}");
        let plain = [quant::F32, quant::F16, quant::BF16].map(|dtype| of_adapters([dtype, quant::F16]));
        let blocks = of_adapters([quant::Q8_0; 2]).map(|product| Factored { cols: 96, rank: 32, ..product });
        for product in plain.into_iter().chain([blocks]).flatten() {
            let before = shim.number("shim_launches");
            let error = self_test::check_adapter(&device, [product]).unwrap();
            let launches = shim.number("shim_launches") - before;
            println!("{product:?}, {deterministic}: {launches} launches, error {error:.2} of the limit");
            assert!(error > 0.0 && error < 0.7 && launches > 0, "{product:?}: {error}");
            self_test::check_adapter(&device, [product, product]).unwrap();
            assert_eq!(shim.number("shim_launches"), before + launches);
        }
    }
    assert_eq!(shim.number("shim_memory_used"), 0);
}

/// The number of rows of a product's first matrix.
const ROWS: usize = offset_of!(ProjectArgs, segments) + offset_of!(Segment, w.rows);

/// Kernels, a byte of their parameter, and what is added to the word there, or that the address there becomes null.
const FAULTS: [(&[&CStr], usize, i32); 56] = [
    // Floats: a tenth larger, twice as large, or 16,384 times.
    (&[c"embed"], offset_of!(EmbedArgs, scale), 1 << 20),
    (&[c"add_norm"], offset_of!(NormArgs, norm.eps), 14 << 23),
    (&[c"heads"], offset_of!(HeadsArgs, magnitude), 1 << 20),
    (&[c"attend_128_single"], offset_of!(AttendSingleArgs, heads.magnitude), 1 << 20),
    (&[c"attend_64", c"attend_64_any"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"attend_128", c"attend_128_any"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"attend_256", c"attend_256_any"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"attend_64_single", c"attend_64_single_any"], offset_of!(AttendSingleArgs, attend.scale), 1 << 22),
    (&[c"attend_128_single", c"attend_128_single_any"], offset_of!(AttendSingleArgs, attend.scale), 1 << 22),
    (&[c"attend_256_single", c"attend_256_single_any"], offset_of!(AttendSingleArgs, attend.scale), 1 << 22),
    (&[c"attend_prompt_64", c"attend_prompt_64_any"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"attend_prompt_128", c"attend_prompt_128_any"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"attend_prompt_256", c"attend_prompt_256_any"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"attend_among"], offset_of!(AttendArgs, scale), 1 << 22),
    (&[c"modify"], offset_of!(ModifyArgs, factor), 1 << 20),
    (&[c"modify"], offset_of!(ModifyArgs, eps), 1 << 23),
    (&[c"adapt"], offset_of!(AdaptArgs, segments) + offset_of!(AdaptSegment, factor), 1 << 20),
    // Widths and counts.
    (&[c"embed"], offset_of!(EmbedArgs, media_width), -1),
    (&[c"keep_rows"], offset_of!(KeepRowsArgs, widths), -1),
    (&[c"prepare"], offset_of!(PrepareArgs, cols), -4),
    (&[c"ring_q4_k", c"gemv_f16", c"gemv_q4_k_2", c"gemv_f16_2"], offset_of!(ProjectArgs, cols), -4),
    (&[c"to_halves", c"to_halves_wide"], offset_of!(HalvesArgs, cols), -1),
    (&[c"gemv_f16_rows", c"small_batch_16", c"small_batch_32", c"small_batch_64", c"gemm_256"], ROWS, -1),
    (&[c"hadamard_heads"], offset_of!(HadamardArgs, heads), -1),
    (&[c"choose_keys"], offset_of!(SelectArgs, heads), -1),
    (&[c"pool"], offset_of!(PoolArgs, size), -1),
    (&[c"heads"], offset_of!(HeadsArgs, position_offset), -1),
    (&[c"adapt"], offset_of!(AdaptArgs, n), -1),
    (&[c"join"], offset_of!(JoinArgs, part), -1),
    (&[c"project_heads"], offset_of!(ProjectHeadsArgs, cols), -1),
    (&[c"route"], offset_of!(RouteArgs, n_experts), -1),
    (&[c"group"], offset_of!(GroupArgs, picks), -1),
    (&[c"combine"], offset_of!(CombineArgs, n_used), -1),
    (&[c"gemv_f16"], offset_of!(ProjectArgs, route.n_experts), -1),
    (&[c"sum_picks_f16"], offset_of!(SumPicksArgs, n_used), -1),
    (&[c"conv_4"], offset_of!(ConvArgs, taps), -1),
    (&[c"delta_64"], offset_of!(DeltaArgs, key_dim), -1),
    (&[c"scan_128"], offset_of!(ScanArgs, state), -1),
    (&[c"delta_chunks_128"], offset_of!(DeltaArgs, key_heads), -1),
    (&[c"scan_chunks_128"], offset_of!(ScanArgs, groups), -1),
    (&[c"argmax", c"adjust"], offset_of!(ChooseArgs, width), -1),
    (&[c"argmax", c"weigh", c"keep"], offset_of!(ChooseArgs, slots), -2),
    // Other kinds and numbers; the upper half of the unit of weights makes it 1.
    (&[c"glu"], offset_of!(GluArgs, activation), 1),
    (&[c"expert_glu"], offset_of!(ExpertGluArgs, activation), 1),
    (&[c"ngrams"], offset_of!(NgramArgs, multipliers), 2),
    (&[c"ngrams"], offset_of!(NgramArgs, end), 1),
    (&[c"weigh", c"keep"], offset_of!(ChooseArgs, unit) + 4, -51 << 20),
    // Arrays from the next value or row on, or none.
    (&[c"modify"], offset_of!(ModifyArgs, ids), 4),
    (&[c"attend_among"], offset_of!(AttendArgs, sums), 4),
    (&[c"adjust", c"weigh", c"keep"], offset_of!(ChooseArgs, states), 24),
    (&[c"embed"], offset_of!(EmbedArgs, media), shim::NULL),
    (&[c"heads"], offset_of!(HeadsArgs, step.rope_offsets), shim::NULL),
    (&[c"attend_64", c"attend_prompt_64"], offset_of!(AttendArgs, step.spans), shim::NULL),
    (&[c"attend_among"], offset_of!(AttendArgs, among), shim::NULL),
    (&[c"attend_among"], offset_of!(AttendArgs, sums_before), shim::NULL),
    (&[c"join"], offset_of!(JoinArgs, by), shim::NULL),
];

/// A program of what only models with pictures have, and its rotation by rows and columns.
fn of_pictures() -> (Program, Weights<'static>) {
    let mut b = ProgramBuilder::default();
    let [q, k, v, out] = [128, 64, 64, 128].map(|width| b.tensor(width));
    let layer = b.kv_layer(KvLayer::new(1, 64, 0));
    b.push(Op::Rope { rope: RopeChoice { table: RopeTable(0), long: None }, head_dim: 64, first: 0, q, k: Some(k) });
    b.push(Op::StoreKv { layer, k, v: Some(v) });
    b.push(Op::Attend(Attend::new(layer, q, out, 0.125)));
    b.push(Op::AddMedia { x: out, part: 1 });
    let inv_freq = (0..32).map(|i| 0.9f64.powi(i)).collect();
    let axes = (0..32).map(|i| i % 3).collect();
    let rope = Rope { pairs: RopePairs::Halves, inv_freq, axes, magnitude: 1.0, position_offset: 0 };
    (b.finish(0, &[q, k, v, out]), Weights { ropes: vec![rope], ..Weights::default() })
}

/// A program of what networks with few of many keys have, by ids and positions of tokens.
fn of_sparse() -> (Program, Weights<'static>) {
    let mut b = ProgramBuilder::default();
    let layer =
        |head_dim, value_dim, pool| KvLayer { is_latent: true, value_dim, pool, ..KvLayer::new(1, head_dim, 0) };
    let [index, near, far] = [layer(40, 40, 3), layer(44, 36, 1), layer(44, 36, 3)].map(|layer| b.kv_layer(layer));
    let [iq, weights, ik, among] = [120, 3, 40, 12].map(|width| b.tensor(width));
    let [q, k, far_k, sums, out] = [5 * 44, 44, 44, 5, 5 * 36].map(|width| b.tensor(width));
    b.push(Op::Rope { rope: RopeChoice { table: RopeTable(0), long: None }, head_dim: 44, first: 0, q, k: None });
    b.push(Op::StoreKv { layer: index, k: ik, v: None });
    b.push(Op::Select(Select { layer: index, q: iq, weights, out: among, groups: Groups::One }));
    b.push(Op::StoreKv { layer: near, k, v: None });
    b.push(Op::Attend(Attend { half: Some(Half::First(sums)), ..Attend::new(near, q, out, 0.15) }));
    b.push(Op::StoreKv { layer: far, k: far_k, v: None });
    let half = Some(Half::Second(sums));
    b.push(Op::Attend(Attend { half, among: Some(among), ..Attend::new(far, q, out, 0.15) }));
    let (recurrent, ngrams) = (b.recurrent(2), b.tensor(64));
    let heads = [(2, 0, 50), (3, 50, 47)].map(|(n, first, rows)| NgramHead { n, first, rows }).into();
    let (table, multipliers, end) = (Weight(0), [7_000_009, 20_003, 12_345_678_901].into(), 61);
    b.push(Op::EmbedNgrams(EmbedNgrams { recurrent, table, out: ngrams, multipliers, heads, end }.into()));
    let (recurrent, pooled) = (b.recurrent(5 * 2 * 40), b.tensor(20));
    let [gate, x] = [40, 40].map(|width| b.tensor(width));
    b.push(Op::Pool(Pool { recurrent, gate, x, bias: Vector(0), out: pooled, size: 3 }));
    let values = |n: usize| (0..n).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect::<Vec<f32>>();
    let table: &Matrix = Box::leak(Box::new(Matrix::new(quant::Q8_0, 97, 32, &values(97 * 32))));
    let inv_freq = (0..22).map(|i| 0.9f64.powi(i)).collect();
    let rope = Rope { pairs: RopePairs::Adjacent, inv_freq, axes: vec![], magnitude: 1.0, position_offset: 2 };
    let of = Weights { matrices: vec![table], vectors: vec![values(3 * 40)], ropes: vec![rope] };
    (b.finish(0, &[iq, weights, ik, among, q, k, far_k, sums, out, ngrams, gate, x, pooled]), of)
}

/// Networks of files pass, where a GPU has kernels for all their ops.
#[test]
fn networks_of_files_pass() {
    let Some(shim) = shim() else { return };
    let (sparse, weights) = of_sparse();
    for deterministic in [false, true] {
        let error = self_test::check(&open(&shim, deterministic).unwrap(), &sparse, &weights, None).unwrap();
        assert!(error < 0.7, "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut n, mut failed) = (0, Vec::new());
    for (name, _, gguf) in crate::architectures::files(folder.path()) {
        match check(&shim, &gguf, false) {
            Err(Error::Unsupported(why)) => println!("{name}: {why}"),
            Ok(error) if error < 0.7 => n += 1,
            other => failed.push((name, other)),
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
    assert!(n > 30, "{n}");
}

/// Products of an adapter beside others, and beside those of a head.
fn of_adapters(types: [DType; 2]) -> [Factored; 2] {
    [false, true].map(|is_head| Factored { types, cols: 72, rank: 6, is_head })
}

/// Each kernel in turn is given one wrong number.
#[test]
fn a_kernel_that_computes_something_else_is_found_and_named() {
    let llama = |head_dim| Tiny::new("llama", quant::Q4_K).layers(1).shape(256, 256 / head_dim, 1, head_dim, 256);
    let named = ["gemma3", "qwen3moe", "gpt-oss", "deepseek2", "qwen35", "mamba2"];
    let others = architectures(quant::F16).into_iter().filter(|(name, _)| named.contains(name)).map(|(_, tiny)| tiny);
    // None of them has a factor or places of its own.
    let mut b = ProgramBuilder::default();
    let [x, out] = [50, 40].map(|width| b.tensor(width));
    b.push(Op::Scale { x, factor: 0.3 });
    b.push(Op::Gather { x, by: Vector(0), out });
    let factor = b.finish(0, &[x, out]);
    let places = Weights { vectors: vec![(0..40).map(|i| ((7 * i + 3) % 50) as f32).collect()], ..Weights::default() };
    let programs = [(factor, places), of_pictures(), of_sparse()];
    let models: Vec<_> = [64, 128, 256].map(llama).into_iter().chain(others).map(|tiny| save(&tiny)).collect();
    let (n_programs, n_models) = (programs.len(), models.len());
    let paths: Vec<&Path> = models.iter().map(|(_, path, _)| path.as_path()).collect();
    // The test of each program, then of each model, then of adapters.
    let test = |shim: &Shim, i: usize| match i.checked_sub(n_programs) {
        None => self_test::check(&open(shim, false)?, &programs[i].0, &programs[i].1, None),
        Some(i) if i < n_models => check(shim, paths[i], false),
        Some(_) => self_test::check_adapter(&open(shim, false)?, of_adapters([quant::F16; 2])),
    };
    let faults: Vec<_> = FAULTS.iter().flat_map(|(kernels, at, by)| kernels.iter().map(|k| (*k, *at, *by))).collect();
    // The kernels that each launches, beyond those of tests that were passed before: others find nothing wrong in them.
    let Some(right) = shim() else { return };
    let launches = || faults.iter().map(|(kernel, ..)| right.launches_of(launched(kernel))).collect::<Vec<_>>();
    let launched_by: Vec<_> = (0..=n_programs + n_models)
        .map(|i| {
            let before = launches();
            test(&right, i).unwrap();
            std::iter::zip(before, launches()).map(|(before, after)| after > before).collect::<Vec<_>>()
        })
        .collect();
    let is_found = |fault: usize| {
        let (kernel, at, by) = faults[fault];
        let shim = shim().unwrap();
        shim.spoil(kernel, at, by);
        if launched(kernel) != kernel {
            [cuda::WGMMA, cuda::INT8].into_iter().for_each(|kernel| shim.leave_out(kernel));
        }
        let mut found = (0..launched_by.len()).filter(|i| launched_by[*i][fault]).filter_map(|i| test(&shim, i).err());
        let error = found.next().unwrap_or_else(|| panic!("{kernel:?} is wrong, and nobody notices"));
        println!("{error}");
        let Error::DeviceUnavailable { device, why } = &error else { panic!("{kernel:?}: {error}") };
        let kernel = kernel.to_str().unwrap();
        assert!(device == "cuda:0" && why.contains("self-test failed") && why.contains(kernel), "{kernel}: {why}");
        // For good, also where it computes what it shall.
        shim.spoil(c"", 0, 0);
        assert_eq!(open(&shim, false).err().unwrap().to_string(), error.to_string());
    };
    std::thread::scope(|s| {
        let rest = s.spawn(|| (faults.len() / 2..faults.len()).for_each(is_found));
        (0..faults.len() / 2).for_each(is_found);
        rest.join().unwrap();
    });
}

/// The kernel that a right device launches where another stands in for it.
fn launched(kernel: &'static CStr) -> &'static CStr {
    match kernel.to_bytes() {
        b"small_batch_32" => c"wgmma_32",
        b"small_batch_64" => c"wgmma_64",
        b"gemm_256" => c"wgmma_256",
        _ => kernel,
    }
}

/// Kernels that others can stand in for are left out where one of them is wrong, for every model.
#[test]
fn a_device_goes_on_without_the_kernels_that_it_can_do_without() {
    let of = |dtype| save(&Tiny::new("llama", dtype).layers(1));
    let [(_a, one, _), (_b, of_halves, _), (_c, of_blocks, _)] = [quant::Q8_0, quant::F16, quant::Q4_K].map(of);
    let by_wgmma = [c"wgmma_32", c"wgmma_64", c"wgmma_256"].map(|kernel| (kernel, cuda::WGMMA, None));
    for (kernel, name, lacking) in by_wgmma.into_iter().chain([(c"gemm_int8", cuda::INT8, Some(cuda::WGMMA))]) {
        let Some(shim) = shim() else { return };
        lacking.iter().for_each(|other| shim.leave_out(other));
        let optional = || open(&shim, false).unwrap().optional_kernels();
        check(&shim, &one, false).unwrap();
        assert!(optional() == Some(name) && shim.launches_of(kernel) > 0);
        shim.spoil(kernel, ROWS, -1);
        // Only types with blocks are multiplied in bytes.
        let other = if name == cuda::INT8 { &of_blocks } else { &of_halves };
        for path in [other, &one] {
            assert!(check(&shim, path, false).unwrap() < 0.7);
            assert!(optional().is_none());
        }
        let launches = shim.number("shim_launches");
        for path in [other, &one] {
            check(&shim, path, false).unwrap();
        }
        assert_eq!(shim.number("shim_launches"), launches);
    }
    // Those that stand in are tested as others are.
    let Some(shim) = shim() else { return };
    [cuda::WGMMA, cuda::INT8].into_iter().for_each(|kernel| shim.leave_out(kernel));
    shim.spoil(c"gemm_256", ROWS, -1);
    assert!(check(&shim, &one, false).unwrap_err().to_string().contains("gemm_256"));
}

/// A fault on the way is reported with what ran, and memory that is short is no verdict.
#[test]
fn a_fault_in_a_test_is_a_verdict_and_want_of_memory_is_none() {
    let Some(shim) = shim() else { return };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1));
    shim.fail(c"cuMemAlloc_v2", 2, 2);
    assert!(matches!(check(&shim, &path, false), Err(Error::DeviceOutOfMemory { .. })));
    check(&shim, &path, false).unwrap();
    shim.fail(c"cuLaunchKernelEx", 20, 719);
    let error = check(&shim, &path, true).unwrap_err().to_string();
    assert!(error.contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
    assert!(error.contains("self-test failed") && matches!(open(&shim, false), Err(Error::DeviceUnavailable { .. })));
    // So is a hang.
    let Some(shim) = self::shim() else { return };
    shim.driver.set_time_limit(Duration::from_millis(50));
    shim.hang(true);
    let error = check(&shim, &path, false).unwrap_err().to_string();
    assert!(error.contains("self-test failed") && error.contains("no answer"), "{error}");
    assert!(matches!(open(&shim, false), Err(Error::DeviceUnavailable { .. })));
}

/// A process that finds the verdicts of an earlier one tests nothing again; a file that is damaged, of other kernels or
/// of another device is none.
#[test]
fn verdicts_outlast_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let kept = Kept { path: dir.path().join("tested") };
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0).layers(1));
    let source = Source::open(&path, Access::Read).unwrap();
    let network = arch::network(&source, None, false).unwrap();
    // Each shim is its own driver, as a process has it.
    let launches = |device: i32, image: &'static [u8]| {
        let shim = shim()?;
        shim.function::<extern "C" fn(i32)>("shim_devices")(2);
        let device: Arc<dyn GpuDevice> =
            CudaDevice::open(&shim.driver, device, image, &LoadOptions::default()).unwrap();
        self_test::check(&device, &network.program, &network.weights(), Some(&kept)).unwrap();
        Some(shim.number("shim_launches"))
    };
    let Some(tested) = launches(0, shim::IMAGE) else { return };
    assert!(tested > 0 && kept.path.exists());
    assert_eq!(launches(0, shim::IMAGE), Some(0));
    assert!(launches(1, shim::IMAGE).unwrap() > 0 && launches(0, b"other").unwrap() > 0);
    // Neither is forgotten.
    assert_eq!(
        [(0, shim::IMAGE), (1, shim::IMAGE), (0, b"other")].map(|(i, image)| launches(i, image).unwrap()),
        [0; 3]
    );
    let whole = std::fs::read(&kept.path).unwrap();
    let mut damages: Vec<Vec<u8>> = (8..whole.len())
        .map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        })
        .step_by(37)
        .collect();
    damages.extend((0..whole.len()).step_by(41).map(|len| whole[..len].to_vec()));
    damages.push([&whole[..], &[0; 1 << 20]].concat());
    for bytes in damages.iter().step_by(damages.len() / 12) {
        std::fs::write(&kept.path, bytes).unwrap();
        assert_eq!(launches(0, shim::IMAGE), Some(tested));
        // It was replaced.
        assert_eq!(launches(0, shim::IMAGE), Some(0));
    }
    // A file of another kind stays.
    std::fs::write(&kept.path, b"a letter to grandmother").unwrap();
    assert_eq!([launches(0, shim::IMAGE), launches(0, shim::IMAGE)], [Some(tested); 2]);
    assert_eq!(std::fs::read(&kept.path).unwrap(), b"a letter to grandmother");
    // A place where no file can be costs nothing but the test, and no file is left beside.
    let nowhere = Kept { path: dir.path().join("nowhere/tested") };
    let shim = self::shim().unwrap();
    self_test::check(&open(&shim, false).unwrap(), &network.program, &network.weights(), Some(&nowhere)).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

fn logits(session: &mut Session, token: u32) -> Vec<f32> {
    session.prefill(&[token], None).unwrap();
    session.logits().unwrap().to_vec()
}

/// Who names no device gets a GPU that passes and is faster, and nobody notices one that fails: neither he, nor models
/// that are on it.
#[test]
fn a_device_is_chosen_while_it_is_right_and_faster() {
    let Some(shim) = shim() else { return };
    if !process::in_own_process("self_test::a_device_is_chosen_while_it_is_right_and_faster") {
        return;
    }
    assert!(cuda::provide(shim.driver.clone(), shim::IMAGE));
    let (_dir, path, reference) = save(&Tiny::new("llama", quant::Q8_0));
    let (_other, other, _) = save(&Tiny::new("llama", quant::Q5_0));
    let load = |path: &Path, device| Model::load(path, LoadOptions { device, ..Default::default() });
    let chosen = |path: &Path| load(path, 0).unwrap().info().device;
    let cache = CacheParams::default();
    // Small models are not worth asking.
    assert_eq!((chosen(&path), shim.number("shim_contexts")), (1, 0));
    // A CPU that reads a byte a second, and one that is faster than any GPU.
    let slow = || select::assume(Some((0, 1.0)));
    slow();
    assert_eq!(chosen(&path), 2);
    let plan = Plan::of_path(&path, LoadParams::default(), &cache, 1).unwrap();
    assert!(plan.gpu_layers > 0 && plan.weights.device > 0);
    select::assume(Some((0, 1e18)));
    assert_eq!(chosen(&path), 1);
    assert_eq!(Plan::of_path(&path, LoadParams::default(), &cache, 1).unwrap().total.device, 0);
    slow();
    // One that has no room for the weights when it comes to it, or fails at all.
    for status in [2, 719] {
        shim.fail(c"cuMemAlloc_v2", 0, status);
        assert_eq!((chosen(&path), shim.number("shim_failure_pending")), (1, 0));
    }
    assert_eq!(chosen(&path), 2);

    let [here, there] = [1, 2].map(|device| load(&path, device).unwrap());
    let [mut here, mut there] = [&here, &there].map(|model| Session::new(model, &cache).unwrap());
    let mut fork = there.fork().unwrap();
    let expected = PROMPT.map(|token| [&mut here, &mut fork].map(|session| logits(session, token)));
    for device in [0, 1] {
        let got: Vec<Vec<f32>> = expected.iter().map(|devices| devices[device].clone()).collect();
        let difference = relative_rms(&reference(), &got);
        assert!(difference < 3e-2, "{device}: {difference}");
    }
    here.truncate(0).unwrap();
    shim.spoil(c"ring_q5_0", offset_of!(ProjectArgs, cols), -4);
    let why = match load(&other, 2).err().unwrap() {
        Error::DeviceUnavailable { why, .. } => why,
        e => panic!("{e}"),
    };
    assert!(why.contains("self-test failed: ring_q5_0: ") && why.contains("Q5_0"), "{why}");
    shim.spoil(c"", 0, 0);
    assert_eq!(engine::devices()[1].unavailable, why);
    assert!(matches!(load(&path, 2), Err(Error::DeviceUnavailable { .. })));
    assert_eq!(chosen(&path), 1);
    for (token, expected) in PROMPT.iter().zip(expected) {
        assert!([&mut here, &mut there].map(|session| logits(session, *token)) == expected);
    }

    // One that hangs while its rates are measured is waited for once.
    shim.function::<extern "C" fn(i32)>("shim_devices")(2);
    shim.driver.set_time_limit(Duration::from_millis(50));
    shim.hang(true);
    assert_eq!(chosen(&path), 1);
    shim.hang(false);
    let why = &engine::devices()[2].unavailable;
    assert!(why.starts_with("measuring its rates failed: no answer to cuStreamQuery"), "{why}");
    let contexts = shim.number("shim_contexts");
    assert_eq!((chosen(&path), shim.number("shim_contexts")), (1, contexts));
    select::assume(None);
}
