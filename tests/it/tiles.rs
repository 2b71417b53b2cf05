//! GEMM tiles on the GPU: each type of weights, numbers of rows, columns and tokens that no tile divides, and every
//! epilogue, by each kernel. On the host emulation of CUDA, and on a GPU if there is one.

use std::sync::Arc;

use realizar::cuda::{self, CudaDevice, INT8, WGMMA};
use realizar::device::Batch;
use realizar::device::{Backend, StepBudget};
use realizar::gpu::GpuDevice;
use realizar::graph::load_options::LoadOptions;
use realizar::graph::op::{Activation, Experts, Op, RouterScore, Routing, TensorId, Weight};
use realizar::graph::step::{StepInputs, StepLimits};
use realizar::quant;
use realizar::tensor::DType;

use crate::support::matrix::Matrix;
use crate::support::ops::{LAYER, Model, project, values};
use crate::support::shim::{self, Shim, skipped_without};

/// Types that have kernels, with columns that make odd and even numbers of chunks, one, and several shares of a tile.
const TYPES: [(DType, usize); 12] = [
    (quant::F32, 50),
    (quant::F16, 30),
    (quant::F16, 200),
    (quant::BF16, 72),
    (quant::Q4_0, 544),
    (quant::Q4_1, 96),
    (quant::Q5_0, 1056),
    (quant::Q5_1, 416),
    (quant::Q8_0, 480),
    (quant::Q4_K, 1280),
    (quant::Q5_K, 512),
    (quant::Q6_K, 256),
];

/// Tokens up to which kernels for few of them are used.
const FEW: usize = 192;

/// Where to test.
struct Target {
    name: &'static str,
    shim: Option<Shim>,
    /// The kernel for prompts that only some GPUs have.
    optional: Option<&'static str>,
}

impl Target {
    fn new(name: &'static str, shim: Option<Shim>) -> Target {
        let mut target = Target { name, shim, optional: None };
        target.optional = target.open(&LoadOptions::default()).optional_kernels();
        target
    }

    fn open(&self, options: &LoadOptions) -> Arc<CudaDevice> {
        let device = match &self.shim {
            Some(shim) => CudaDevice::open(&shim.driver, 0, shim::IMAGE, options),
            None => cuda::open(0, options),
        };
        device.unwrap()
    }

    /// The kernel for so many tokens.
    fn kernel(&self, dtype: DType, usual: usize, deterministic: bool) -> &'static str {
        match (usual, self.optional) {
            (0..=16, _) => "small_batch_16",
            (17..=32, Some(WGMMA)) if !deterministic => "wgmma_32",
            (17..=32, _) => "small_batch_32",
            (33..=FEW, Some(WGMMA)) if !deterministic => "wgmma_64",
            (33..=FEW, _) => "small_batch_64",
            _ if deterministic => "small_batch_64",
            (_, Some(WGMMA)) => "wgmma_256",
            (_, Some(INT8)) if has_blocks(dtype) => INT8,
            _ => "gemm_256",
        }
    }
}

fn has_blocks(dtype: DType) -> bool {
    quant::format(dtype).unwrap().block_len > 1
}

/// The shim without some kernels.
fn shim(name: &'static str, lacking: &[&str]) -> Option<Target> {
    let shim = Shim::new()?;
    lacking.iter().for_each(|kernel| shim.leave_out(kernel));
    Some(Target::new(name, Some(shim)))
}

/// The shim with all kernels, and without the kernels that only some GPUs have; and a GPU.
fn targets() -> Vec<Target> {
    let shims = [shim("shim", &[]), shim("shim of most GPUs", &[WGMMA, INT8])];
    let gpu = cuda::devices()[0].unavailable.is_empty().then(|| Target::new("GPU", None));
    shims.into_iter().flatten().chain(gpu).collect()
}

/// The shim with the prompt kernel on input in bytes.
fn with_int8() -> Option<Target> {
    skipped_without(shim("shim with int8", &[WGMMA]))
}

/// Executes all ops of a model for `n` tokens; the results of `outs`. The rows that a product with a matrix of a type
/// usually has choose its kernel.
fn run(
    target: &Target,
    options: &LoadOptions,
    model: &Model,
    dtype: DType,
    [n, usual]: [usize; 2],
    inputs: &[(TensorId, &[f32])],
    outs: &[TensorId],
) -> Vec<Vec<f32>> {
    let device = target.open(options);
    let tiles = target.kernel(dtype, usual, device.is_deterministic());
    let name = target.name;
    let loaded = device.load(&model.program, &model.weights(), &mut |_, _| Ok(())).unwrap();
    let backend = Backend::Gpu(loaded);
    let mut state = backend.new_sequence(&model.spec(n)).unwrap();
    let limits = StepLimits { max_tokens: n, max_outputs: 1 };
    let mut executor = backend.new_executor(&model.program, limits).unwrap();
    let (positions, zeros) = ((0..n as u32).collect::<Vec<u32>>(), vec![0; n]);
    let states = &mut [&mut state];
    let batch = &mut Batch {
        inputs: StepInputs { ids: &zeros, positions: &positions, sequences: &zeros, ..Default::default() },
        sequences: states,
    };
    executor.begin(batch, 0..model.program.ops.len()).unwrap();
    for (tensor, values) in inputs {
        executor.write(*tensor, values).unwrap();
    }
    assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
    assert!(executor.kernels().contains(&tiles), "{name}, {n} tokens: {:?}", executor.kernels());
    let read = |tensor: &TensorId| {
        let mut out = vec![f32::NAN; n * model.program.width(*tensor)];
        executor.read(*tensor, &mut out).map(|()| out).unwrap()
    };
    outs.iter().map(read).collect()
}

/// A matrix of a type and the values that it holds.
fn matrix(model: &mut Model, dtype: DType, [rows, cols]: [usize; 2], seed: u64) -> (Weight, Vec<f32>) {
    let matrix = Matrix::new(dtype, rows, cols, &values(rows * cols, seed));
    let mut held = vec![0.0; rows * cols];
    quant::dequantize(dtype, &matrix.bytes, &mut held).unwrap();
    (model.source(matrix), held)
}

/// The product of a row with the rows of a matrix.
fn product(x: &[f64], weights: &[f32]) -> Vec<f64> {
    let dot = |w: &[f32]| x.iter().zip(w).map(|(x, w)| x * f64::from(*w)).sum();
    weights.chunks(x.len()).map(dot).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// Rows of `cols` values as the kernel for so many tokens reads them: in bytes, with a scale per 32 columns, or as they
/// are.
fn as_read(target: &Target, dtype: DType, usual: usize, rows: &[f32], cols: usize) -> Vec<f32> {
    if target.kernel(dtype, usual, false) != INT8 {
        return rows.to_vec();
    }
    let rounded = |group: &[f32]| {
        let scale = group.iter().fold(0.0f32, |peak, x| peak.max(x.abs())) * (1.0 / 127.0);
        group.iter().map(|x| scale * (x * (1.0 / scale)).round_ties_even()).collect::<Vec<f32>>()
    };
    rows.chunks(cols).flat_map(|row| row.chunks(32).flat_map(rounded)).collect()
}

/// Compares results of a kernel for `n` tokens, in which errors of so many `factors` meet.
fn check(target: &Target, kernel: &str, what: &str, n: usize, factors: f64, expected: &[f64], got: &[f32]) {
    let what = format!("{}, {kernel}, {n} tokens, {what}", target.name);
    let error: f64 = expected.iter().zip(got).map(|(e, g)| (e - f64::from(*g)).powi(2)).sum();
    let error = (error / expected.iter().map(|e| e * e).sum::<f64>()).sqrt();
    println!("{what}: {error:.1e}");
    // Products of bytes are exact; a GPU may round a few inputs to the other neighbor. Elsewhere inputs and weights are
    // rounded to 11 bits; except in `gemm_256` so are the scales of blocks and what is added to them, of which a weight
    // may be the small difference.
    let limit = match kernel {
        INT8 => 1e-4,
        "gemm_256" => 5e-4,
        _ => 8e-4,
    };
    assert!(error < factors * limit, "{what}: {error}");
}

/// Products of matrices of some types for each of `counts` tokens.
fn check_products(target: &Target, are_tested: fn(DType) -> bool, counts: &[usize]) {
    for (order, (dtype, cols)) in (0..).zip(TYPES).filter(|(_, (dtype, _))| are_tested(*dtype)) {
        target.shim.iter().for_each(|shim| shim.order(order % 4));
        for &n in counts {
            let mut model = Model::new(LAYER);
            // So many that a block has columns of two tiles.
            let rows_b = if [quant::Q8_0, quant::Q4_K].contains(&dtype) { 300 } else { 70 };
            let [x, a, b, c] = model.tensors([cols, 131, rows_b, 9]);
            let (of_a, weights_a) = matrix(&mut model, dtype, [131, cols], 1);
            let (of_b, weights_b) = matrix(&mut model, dtype, [rows_b, cols], 2);
            let (of_c, weights_c) = matrix(&mut model, dtype, [9, cols], 3);
            let (bias, added) = model.vector(131, 4);
            let delta = project(x, &[(of_c, None, c)]);
            // Two matrices at once, and one that has few rows, so that blocks share its columns.
            let model = model.finish(vec![project(x, &[(of_a, Some(bias), a), (of_b, None, b)]), delta]);
            let rows = values(n * cols, 5);
            let options = LoadOptions::default();
            let got = run(target, &options, &model, dtype, [n, n], &[(x, &rows)], &[a, b, c]);
            let (kernel, rows) = (target.kernel(dtype, n, false), as_read(target, dtype, n, &rows, cols));
            let expected =
                |weights: &[f32]| -> Vec<f64> { rows.chunks(cols).flat_map(|x| product(&wide(x), weights)).collect() };
            let mut expected = [&weights_a, &weights_b, &weights_c].map(|w| expected(w));
            expected[0].iter_mut().enumerate().for_each(|(i, v)| *v += f64::from(added[i % 131]));
            for (expected, (got, which)) in
                expected.iter().zip(got.iter().zip(["with a bias", "beside it", "of few rows"]))
            {
                check(target, kernel, &format!("type {}, {which}", dtype.0), n, 1.0, expected, got);
            }
        }
    }
}

#[test]
fn products_of_many_tokens_are_those_of_the_values_in_the_matrices() {
    for target in &targets() {
        check_products(target, |_| true, &[9, 16, 17, 32, 40, 64, 65, 150, 193, 300]);
    }
}

#[test]
fn products_of_bytes_are_those_of_the_values_in_the_matrices() {
    with_int8().iter().for_each(|target| check_products(target, has_blocks, &[193, 300]));
}

/// Gates, which share tiles with the products beside them, for (deterministic, number of tokens).
fn check_gates(target: &Target, types: &[(DType, usize)], counts: &[(bool, usize)]) {
    const ROWS: usize = 139;
    let silu = |x: f64| x / (1.0 + (-x).exp());
    for &(dtype, cols) in types {
        for &(deterministic, n) in counts {
            let options = LoadOptions { deterministic, ..Default::default() };
            let mut model = Model::new(LAYER);
            let [x, gate, up] = model.tensors([cols, ROWS, ROWS]);
            let [(of_gate, gates), (of_up, ups)] = [1, 2].map(|seed| matrix(&mut model, dtype, [ROWS, cols], seed));
            let (bias, added) = model.vector(ROWS, 4);
            let project = project(x, &[(of_gate, Some(bias), gate), (of_up, None, up)]);
            let glu = Op::Glu { gate, up: Some(up), activation: Activation::Silu };
            let model = model.finish_with(vec![project, glu], 0, &[x, gate]);
            let rows = values(n * cols, 5);
            let got = run(target, &options, &model, dtype, [n, n], &[(x, &rows)], &[gate]);
            let kernel = target.kernel(dtype, n, options.deterministic);
            let rows = as_read(target, dtype, n, &rows, cols);
            let of_row = |x: &[f32]| {
                let gates = product(&wide(x), &gates).into_iter().zip(&added).map(|(g, b)| silu(g + f64::from(*b)));
                gates.zip(product(&wide(x), &ups)).map(|(g, u)| g * u).collect::<Vec<f64>>()
            };
            let expected: Vec<f64> = rows.chunks(cols).flat_map(of_row).collect();
            check(target, kernel, &format!("type {}, a gate", dtype.0), n, 2.0, &expected, &got[0]);
        }
    }
}

#[test]
fn gates_of_many_tokens_are_those_of_their_products() {
    let counts = [(false, 9), (false, 40), (false, 65), (false, 193), (false, 300), (true, 70)];
    for target in &targets() {
        check_gates(target, &[(quant::Q4_K, 1280), (quant::Q8_0, 480), (quant::BF16, 72)], &counts);
    }
}

#[test]
fn gates_of_bytes_are_those_of_their_products() {
    let types = [(quant::Q4_K, 1280), (quant::Q6_K, 512), (quant::Q8_0, 480)];
    with_int8().iter().for_each(|target| check_gates(target, &types, &[(false, 193), (false, 300)]));
}

/// Rows have the same bits in tiles of any size, where that is asked for: columns are divided among blocks in one way.
#[test]
fn rows_have_the_same_bits_in_tiles_of_any_size() {
    const COLS: usize = 1280;
    const N: usize = 150;
    let fixed = LoadOptions { deterministic: true, ..Default::default() };
    for target in &targets() {
        let mut model = Model::new(LAYER);
        let [x, out] = model.tensors([COLS, 131]);
        let (weight, _) = matrix(&mut model, quant::Q4_K, [131, COLS], 1);
        let model = model.finish(vec![project(x, &[(weight, None, out)])]);
        let rows = values(N * COLS, 5);
        let all = run(target, &fixed, &model, quant::Q4_K, [N, N], &[(x, &rows)], &[out]).remove(0);
        for (first, n) in [(149, 1), (3, 16), (100, 25), (60, 40), (80, 64)] {
            let rows = &rows[first * COLS..][..n * COLS];
            let some = run(target, &fixed, &model, quant::Q4_K, [n, n], &[(x, rows)], &[out]).remove(0);
            assert!(some == all[first * 131..][..n * 131], "{}, {n} rows from {first}", target.name);
        }
    }
}

/// Each expert has the rows of the tokens that chose it.
#[test]
fn products_of_experts_are_those_of_the_tokens_that_chose_them() {
    const FFN: usize = 96;
    const HIDDEN: usize = 64;
    let silu = |x: f64| x / (1.0 + (-x).exp());
    // For tiles of each size.
    let (targets, with_int8) = (targets(), with_int8());
    let of_bytes = with_int8.iter().map(|target| (target, 311));
    for (target, n) in targets.iter().flat_map(|target| [20, 44, 80, 311].map(|n| (target, n))).chain(of_bytes) {
        let mut model = Model::new(LAYER);
        let [x, scores, out] = model.tensors([HIDDEN, 3, HIDDEN]);
        let (gate, gates) = matrix(&mut model, quant::Q8_0, [3 * FFN, HIDDEN], 1);
        let (up, ups) = matrix(&mut model, quant::Q8_0, [3 * FFN, HIDDEN], 2);
        let (down, downs) = matrix(&mut model, quant::F16, [3 * HIDDEN, FFN], 3);
        let routing = Routing::new(RouterScore::SoftmaxOfChosen, 2, false);
        let ([biases, scales, orders], activation) = ([[None; 3]; 3], Activation::Silu);
        let experts = Experts {
            x,
            scores,
            out,
            gate: Some(gate),
            up,
            down,
            biases,
            scales,
            orders,
            n_experts: 3,
            ffn: FFN,
            routing,
            activation,
        };
        let model = model.finish(vec![Op::Experts(experts)]);
        let (rows, of_experts) = (values(n * HIDDEN, 5), values(n * 3, 6));
        let (shape, inputs) = ([n, (2 * n).div_ceil(3)], [(x, &rows[..]), (scores, &of_experts)]);
        let got = run(target, &LoadOptions::default(), &model, quant::Q8_0, shape, &inputs, &[out]);
        let kernel = target.kernel(quant::Q8_0, shape[1], false);
        let rows = as_read(target, quant::Q8_0, shape[1], &rows, HIDDEN);
        let mut expected = Vec::new();
        for (x, scores) in rows.chunks(HIDDEN).zip(of_experts.chunks(3)) {
            let least = (0..3).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
            let chosen: Vec<usize> = (0..3).filter(|e| *e != least).collect();
            let sum: f64 = chosen.iter().map(|&e| f64::from(scores[e]).exp()).sum();
            let mut row = vec![0.0; HIDDEN];
            for e in chosen {
                let part = |of: &[f32]| product(&wide(x), &of[e * FFN * HIDDEN..][..FFN * HIDDEN]);
                let gated: Vec<f64> = part(&gates).into_iter().zip(part(&ups)).map(|(g, u)| silu(g) * u).collect();
                let result = product(&gated, &downs[e * HIDDEN * FFN..][..HIDDEN * FFN]);
                let weight = f64::from(scores[e]).exp() / sum;
                row.iter_mut().zip(result).for_each(|(row, v)| *row += weight * v);
            }
            expected.extend(row);
        }
        // The last product, with halves, is `gemm_256` where the first ones are in bytes.
        let kernel = if kernel == INT8 { "gemm_256" } else { kernel };
        check(target, kernel, "experts", n, 1.0, &expected, &got[0]);
    }
}
