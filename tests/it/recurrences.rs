//! The delta rule and scans on the GPU, token by token and in chunks, compared with their definitions in float64:
//! widths that no tile divides, continued sequences, steps of one and of many tokens. On the host emulation of CUDA,
//! and on a GPU if there is one.

use realizar::cuda;
use realizar::device::{Backend, Batch, StepBudget};
use realizar::gpu::GpuDevice;
use realizar::graph::load_options::LoadOptions;
use realizar::graph::op::{DeltaRule, Op, Scan, TensorId};
use realizar::graph::step::{StepInputs, StepLimits};

use crate::support::ops::{LAYER, Model, values};
use crate::support::shim::{self, Shim};

/// Bytes of shared memory that a block may have on GPUs of sm_80, sm_90 and sm_120.
const SHARED: [u32; 3] = [166_912, 232_448, 101_376];

/// Tokens of two sequences in each step.
const STEPS: [[usize; 2]; 5] = [[70, 45], [1, 1], [33, 0], [1, 90], [3, 2]];

struct Case {
    key_heads: usize,
    heads: usize,
    key_dim: usize,
    value_dim: usize,
    /// A decay for each row of S.
    by_row: bool,
}

const fn case(key_heads: usize, heads: usize, key_dim: usize, value_dim: usize, by_row: bool) -> Case {
    Case { key_heads, heads, key_dim, value_dim, by_row }
}

/// The inputs of a token for one head, and the logarithm of the decay of each row.
struct Token {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    decays: Vec<f64>,
    /// The factor of the delta rule; the time step of a scan.
    factor: f64,
    /// The factor of `v` in the result.
    skip: f64,
}

fn read(s: &[Vec<f64>], by: &[f64], col: usize) -> f64 {
    s.iter().zip(by).map(|(row, x)| row[col] * x).sum()
}

/// Advances the matrix S of a head, `[key_dim][value_dim]`, by one token; returns its result.
fn advance(s: &mut [Vec<f64>], t: &Token, erases: bool) -> Vec<f64> {
    s.iter_mut().zip(&t.decays).for_each(|(row, decay)| row.iter_mut().for_each(|x| *x *= decay.exp()));
    let one = |col: usize| {
        let seen = if erases { read(s, &t.k, col) } else { 0.0 };
        let delta = t.factor * (t.v[col] - seen);
        s.iter_mut().zip(&t.k).for_each(|(row, k)| row[col] += k * delta);
        read(s, &t.q, col) + t.skip * t.v[col]
    };
    (0..t.v.len()).map(one).collect()
}

/// Number `i` of the heads of a row.
fn part(row: &[f32], i: usize, width: usize) -> Vec<f64> {
    row[i * width..][..width].iter().copied().map(f64::from).collect()
}

/// Runs an op on the steps and compares its results with its definition. `inputs` are those of the op with the sizes of
/// their values; `token` makes the inputs of a head of the rows of a token.
fn check(
    what: &str,
    model: &Model,
    case: &Case,
    inputs: &[(TensorId, f32)],
    out: TensorId,
    kernels: &[&str],
    token: &dyn Fn(&[&[f32]], usize) -> Token,
    erases: bool,
) {
    let shims = SHARED.iter().filter_map(|shared| {
        let shim = Shim::new()?;
        shim.shared(*shared);
        Some((format!("shim with {shared} bytes"), Some(shim)))
    });
    let gpu = cuda::devices()[0].unavailable.is_empty().then(|| ("GPU".to_owned(), None));
    for (order, (name, shim)) in (0..).zip(shims.chain(gpu)) {
        shim.iter().for_each(|shim| shim.order(order % 4));
        let device = match &shim {
            Some(shim) => cuda::CudaDevice::open(&shim.driver, 0, shim::IMAGE, &LoadOptions::default()),
            None => cuda::open(0, &LoadOptions::default()),
        };
        let loaded = device.unwrap().load(&model.program, &model.weights(), &mut |_, _| Ok(())).unwrap();
        let backend = Backend::Gpu(loaded);
        let mut states = [0; 2].map(|_| backend.new_sequence(&model.spec(256)).unwrap());
        let mut executor =
            backend.new_executor(&model.program, StepLimits { max_tokens: 120, max_outputs: 1 }).unwrap();
        let mut expected = [0; 2].map(|_| vec![vec![vec![0.0; case.value_dim]; case.key_dim]; case.heads]);
        let mut used = Vec::new();
        for (step, counts) in (0..).zip(STEPS) {
            let lengths = states.each_ref().map(|state| state.len());
            let tokens = |slot: usize| (lengths[slot]..).take(counts[slot]).map(move |p| (slot as u32, p as u32));
            let (slots, positions): (Vec<u32>, Vec<u32>) = tokens(0).chain(tokens(1)).unzip();
            let (n, ids) = (slots.len(), vec![0; slots.len()]);
            let rows: Vec<Vec<f32>> = inputs
                .iter()
                .zip(10 * step + 1..)
                .map(|(&(tensor, size), seed)| {
                    let values = values(n * model.program.width(tensor), seed).into_iter();
                    // Negative sizes are of inputs without a sign.
                    values.map(|v| if size < 0.0 { v.abs() * -size } else { v * size }).collect()
                })
                .collect();
            let states_of = &mut states.each_mut()[..];
            let batch = &mut Batch {
                inputs: StepInputs { ids: &ids, positions: &positions, sequences: &slots, ..Default::default() },
                sequences: states_of,
            };
            executor.begin(batch, 0..1).unwrap();
            inputs.iter().zip(&rows).for_each(|((tensor, _), rows)| executor.write(*tensor, rows).unwrap());
            assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
            used.extend(executor.kernels().into_iter().map(str::to_owned));
            let mut got = vec![f32::NAN; n * model.program.width(out)];
            executor.read(out, &mut got).unwrap();
            executor.end().unwrap();
            states.iter_mut().zip(counts).for_each(|(state, n)| state.commit(n));

            let (mut error, mut size) = (0.0, 0.0);
            for (i, (got, slot)) in got.chunks(model.program.width(out)).zip(&slots).enumerate() {
                let row: Vec<&[f32]> = rows.iter().map(|rows| &rows[rows.len() / n * i..][..rows.len() / n]).collect();
                for (h, s) in expected[*slot as usize].iter_mut().enumerate() {
                    let result = advance(s, &token(&row, h), erases);
                    let got = &got[h * case.value_dim..];
                    error += result.iter().zip(got).map(|(e, g)| (e - f64::from(*g)).powi(2)).sum::<f64>();
                    size += result.iter().map(|e| e * e).sum::<f64>();
                }
            }
            let error = (error / size).sqrt();
            println!("{what}, {name}, step {step}: {error:.1e}");
            // Chunks round operands to 11 bits; the next steps read the states that chunks have computed.
            let limit = if used.iter().any(|kernel| kernel.contains("chunks")) { 6e-4 } else { 1e-5 };
            assert!(error < limit, "{what}, {name}, step {step}: {error}");
        }
        for kernel in kernels {
            assert!(used.iter().any(|used| used == kernel), "{what}, {name}: {used:?}");
        }
    }
}

#[test]
fn the_delta_rule_is_its_definition() {
    let cases = [
        (case(2, 4, 128, 128, false), true, ["delta_128", "delta_chunks_128"]),
        (case(1, 3, 64, 48, false), false, ["delta_64", "delta_chunks_128"]),
        (case(2, 2, 20, 16, false), false, ["delta_64", "delta_chunks_128"]),
        (case(1, 2, 200, 80, false), true, ["delta_256", "delta_256"]),
        (case(1, 1, 160, 32, false), false, ["delta_256", "delta_chunks_256"]),
        // Rows that copies of four numbers do not divide.
        (case(1, 2, 30, 32, false), false, ["delta_64", "delta_64"]),
        (case(2, 4, 128, 64, true), true, ["delta_128", "delta_128"]),
        (case(1, 1, 40, 32, true), false, ["delta_64", "delta_64"]),
    ];
    for (c, tiled, kernels) in &cases {
        let (keys, v_width) = (c.key_heads * c.key_dim, c.heads * c.value_dim);
        let mut model = Model::new(LAYER);
        let n_dt = if c.by_row { c.heads * c.key_dim } else { c.heads };
        let [q, k, v, dt, beta, out] = model.tensors([keys, keys, v_width, n_dt, c.heads, v_width]);
        let recurrent = model.recurrent(v_width * c.key_dim);
        let (rate, rates) = model.vector(c.heads, 3);
        let (key_dim, tiled) = (c.key_dim, *tiled);
        let model =
            model.finish(vec![Op::DeltaRule(DeltaRule { recurrent, q, k, v, dt, beta, out, rate, key_dim, tiled })]);
        // Keys of a length below 1, as networks have them.
        let unit = 1.5 / (key_dim as f32).sqrt();
        let token = |rows: &[&[f32]], h: usize| {
            let of = if tiled { h % c.key_heads } else { h * c.key_heads / c.heads };
            let decay = |dt: f32| -f64::from(rates[h].abs()) * f64::from(dt);
            let decays: Vec<f64> = match c.by_row {
                true => rows[3][h * key_dim..][..key_dim].iter().map(|dt| decay(*dt)).collect(),
                false => vec![decay(rows[3][h]); key_dim],
            };
            let (q, k) = (part(rows[0], of, key_dim), part(rows[1], of, key_dim));
            Token { q, k, v: part(rows[2], h, c.value_dim), decays, factor: f64::from(rows[4][h]), skip: 0.0 }
        };
        let what = format!("a delta rule, keys of {key_dim}, values of {}", c.value_dim);
        let inputs = [(q, unit), (k, unit), (v, 1.0), (dt, -0.4), (beta, -1.0)];
        let model = negative(model, 0);
        check(&what, &model, c, &inputs, out, kernels, &token, true);
    }
}

#[test]
fn scans_are_their_definition() {
    let cases = [
        (case(1, 3, 128, 64, false), ["scan_128", "scan_chunks_128"]),
        (case(2, 4, 20, 24, false), ["scan_128", "scan_chunks_128"]),
        (case(1, 2, 64, 80, false), ["scan_128", "scan_chunks_128"]),
        (case(1, 1, 256, 32, false), ["scan_256", "scan_256"]),
        (case(1, 2, 160, 32, false), ["scan_256", "scan_chunks_256"]),
        // Heads that are single channels, with a decay for each state.
        (case(1, 48, 16, 1, true), ["scan_16", "scan_16"]),
        (case(2, 32, 40, 1, true), ["scan_128", "scan_128"]),
    ];
    for (c, kernels) in &cases {
        let (state, wide) = (c.key_dim, c.heads * c.value_dim);
        let mut model = Model::new(LAYER);
        let [x, dt, b, s_c, out] = model.tensors([wide, c.heads, c.key_heads * state, c.key_heads * state, wide]);
        let recurrent = model.recurrent(wide * state);
        let (rate, rates) = model.vector(if c.by_row { c.heads * state } else { c.heads }, 3);
        let (skip, skips) = model.vector(c.heads, 4);
        let model = model.finish(vec![Op::Scan(Scan { recurrent, x, dt, b, c: s_c, out, rate, skip, state })]);
        let token = |rows: &[&[f32]], h: usize| {
            let (of, dt) = (h * c.key_heads / c.heads, f64::from(rows[1][h]));
            let decay = |i: usize| -f64::from(rates[if c.by_row { i * c.heads + h } else { h }].abs()) * dt;
            let (q, k) = (part(rows[3], of, state), part(rows[2], of, state));
            let (v, decays) = (part(rows[0], h, c.value_dim), (0..state).map(decay).collect());
            Token { q, k, v, decays, factor: dt, skip: f64::from(skips[h]) }
        };
        let what = format!("a scan, {state} states, heads of {}", c.value_dim);
        let inputs = [(x, 1.0), (dt, -0.4), (b, 1.0), (s_c, 1.0)];
        let model = negative(model, 0);
        check(&what, &model, c, &inputs, out, kernels, &token, false);
    }
}

/// The model with a vector of negative numbers.
fn negative(mut model: Model, vector: usize) -> Model {
    model.vectors[vector].iter_mut().for_each(|x| *x = -x.abs());
    model
}
