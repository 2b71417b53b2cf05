//! Every op of the CPU compared with a plain float64 computation for odd sizes; bit-identical for every number of
//! threads and for steps that pause after each op. Attention and products have more tests next to their code.

mod media;
mod recurrent;

use std::cell::Cell;
use std::ops::Range;

use realizar::device::Batch;
use realizar::device::{Backend, Executor, StepBudget};
use realizar::error::Error;
use realizar::graph::op::{
    Activation, Attend, Experts, Index, KvLayerId, Mask, Mix, Norm, NormKind, Op, RopeChoice, RouterScore, Routing,
    TensorId, Vector, Weight,
};
use realizar::graph::sequence_spec::KvLayer;
use realizar::graph::step::StepInputs;
use realizar::graph::weights::{Rope, RopePairs};
use realizar::quant;

use crate::support::matrix::Matrix;
use crate::support::ops::{HIDDEN, LAYER, Model, VOCAB, project, values};

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

fn assert_near(name: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{name}");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(got) - expected).abs() / expected.abs().max(1.0);
        assert!(error <= tolerance, "{name}: element {i} is {got}, expected {expected}");
    }
}

const FFN: usize = 172;

/// Few tokens, which one thread does alone, and many.
const COUNTS: [usize; 3] = [1, 5, 400];

/// The activations `outputs` after one step of `n` tokens, all of which are outputs: the same bits on 1, 2 and 3
/// threads, whether the step stops on its way or is cut into ranges of ops, and wherever `inputs` lie in memory.
fn run(model: &Model, n: usize, inputs: &[(TensorId, &[f32])], outputs: &[TensorId]) -> Vec<Vec<f32>> {
    let wanted: Vec<u32> = (0..n as u32).collect();
    run_for(model, n, &wanted, inputs, outputs)
}

/// `run` with only some of the tokens being outputs.
fn run_for(
    model: &Model,
    n: usize,
    wanted: &[u32],
    inputs: &[(TensorId, &[f32])],
    outputs: &[TensorId],
) -> Vec<Vec<f32>> {
    let keeps = model.program.ops.iter().any(|op| matches!(op, Op::KeepOutputs { .. }));
    let ops = model.program.ops.len();
    let mut results: Vec<Vec<Vec<f32>>> = Vec::new();
    for (threads, way) in [(1, Way::Whole), (2, Way::Whole), (3, Way::Whole), (1, Way::Stopping), (2, Way::Cut)] {
        // Rows that were dropped are there again in another range of ops.
        if way == Way::Cut && keeps {
            continue;
        }
        let backend = model.load(threads);
        let mut executor = model.executor(&backend, n, n);
        let mut state = backend.new_sequence(&model.spec(n + 50)).unwrap();
        let (ids, positions, slots) = (ids(n), positions(n), vec![0; n]);
        let states = &mut [&mut state];
        let mut batch = Batch {
            inputs: StepInputs {
                ids: &ids,
                positions: &positions,
                outputs: wanted,
                sequences: &slots,
                ..Default::default()
            },
            sequences: states,
        };
        executor.begin(&mut batch, 0..if way == Way::Cut { 1 } else { ops }).unwrap();
        for (tensor, values) in inputs {
            let shifted = [&[0.0; 3][..threads], values].concat();
            executor.write(*tensor, &shifted[threads..]).unwrap();
        }
        if way == Way::Stopping {
            advance_by_one(&mut executor, &mut batch);
        }
        assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
        for op in if way == Way::Cut { 1..ops } else { 0..0 } {
            executor.end().unwrap();
            executor.begin(&mut batch, op..op + 1).unwrap();
            assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
        }
        let rows = if keeps { wanted.len() } else { n };
        results.push(outputs.iter().map(|&tensor| model.read(&mut executor, tensor, rows)).collect());
        executor.end().unwrap();
    }
    assert!(results.iter().all(|r| *r == results[0]), "threads or stops change the result");
    results.swap_remove(0)
}

/// The values of row `i` as the file holds them.
fn row(source: &Matrix, i: usize) -> Vec<f32> {
    let (mut row, row_bytes) = (vec![0.0; source.cols], source.bytes.len() / source.rows);
    quant::dequantize(source.dtype, &source.bytes[i * row_bytes..][..row_bytes], &mut row).unwrap();
    row
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Whole,
    /// After each op.
    Stopping,
    /// Each op as its own range.
    Cut,
}

/// Executes all ops, asked to stop before every second one.
fn advance_by_one(executor: &mut Executor, batch: &mut Batch) {
    let mut stops = 0;
    loop {
        let asked = Cell::new(false);
        if executor.advance(batch, &StepBudget::new(&|| asked.replace(true))).unwrap() {
            break;
        }
        stops += 1;
        assert!(stops < 100);
    }
}

fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i * 7919 % VOCAB as u32).collect()
}

fn positions(n: usize) -> Vec<u32> {
    (20..20 + n as u32).collect()
}

/// `[n, rows] = [n, cols] [rows, cols]^T`
fn product(x: &[f64], w: &[f32], cols: usize) -> Vec<f64> {
    x.chunks(cols)
        .flat_map(|x| w.chunks(cols).map(move |w| x.iter().zip(w).map(|(x, &w)| x * f64::from(w)).sum()))
        .collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

#[test]
fn embeddings() {
    let mut model = Model::new(LAYER);
    let (table, rows) = model.matrix(VOCAB, HIDDEN, 1);
    let (learned, by_position) = model.matrix(500, HIDDEN, 2);
    let [x, p] = model.tensors([HIDDEN; 2]);
    let model = model.finish(vec![
        Op::Embed { table, rows: VOCAB, index: Index::Id, scale: 1.5, out: x },
        Op::Embed { table: learned, rows: 500, index: Index::Position, scale: 1.0, out: p },
    ]);
    assert_eq!((model.program.max_ids, model.program.max_positions), (VOCAB, 500));
    for n in COUNTS {
        let got = run(&model, n, &[], &[x, p]);
        let of = |table: &[f32], scale: f64, i: u32| -> Vec<f64> {
            wide(&table[i as usize * HIDDEN..][..HIDDEN]).iter().map(|x| scale * x).collect()
        };
        let by_id: Vec<f64> = ids(n).into_iter().flat_map(|i| of(&rows, 1.5, i)).collect();
        assert_near("by id", &got[0], &by_id, 1e-6);
        let by_place: Vec<f64> = positions(n).into_iter().flat_map(|i| of(&by_position, 1.0, i)).collect();
        assert_near("by position", &got[1], &by_place, 0.0);
    }
}

#[test]
fn norms_and_sums() {
    const Q: usize = 60;
    let mut model = Model::new(LAYER);
    let (weight, w) = model.vector(HIDDEN, 1);
    let (bias, b) = model.vector(HIDDEN, 2);
    let (head_weight, head_w) = model.vector(10, 3);
    let [x, h, o, c, q, s] = model.tensors([HIDDEN, HIDDEN, HIDDEN, HIDDEN, Q, HIDDEN]);
    let rms = Norm { kind: NormKind::Rms, weight: Some(weight), bias: None, eps: 1e-5, group: HIDDEN };
    let model = model.finish(vec![
        Op::Norm { norm: rms, x, out: h },
        Op::Norm { norm: Norm { kind: NormKind::Layer, bias: Some(bias), ..rms }, x: o, out: o },
        Op::Norm { norm: Norm { bias: Some(bias), ..rms }, x: c, out: c },
        Op::Norm { norm: Norm { weight: Some(head_weight), group: 10, ..rms }, x: q, out: q },
        Op::Add { x, delta: s, scale: 0.5 },
        Op::Scale { x: s, factor: -1.75 },
    ]);
    let plus = |x: Vec<f64>| -> Vec<f64> { x.iter().zip(&b).map(|(x, &b)| x + f64::from(b)).collect() };
    let rms_of = |x: &[f64], w: &[f32]| -> Vec<f64> {
        let scale = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-5f32 as f64).sqrt();
        x.iter().zip(w).map(|(x, &w)| x * scale * f64::from(w)).collect()
    };
    let layer_of = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (variance + 1e-5f32 as f64).sqrt();
        plus(x.iter().zip(&w).map(|(x, &w)| (x - mean) * scale * f64::from(w)).collect())
    };
    for n in COUNTS {
        let [vx, vo, vc, vs] = [4, 5, 6, 8].map(|seed| values(n * HIDDEN, seed));
        let vq = values(n * Q, 7);
        let got = run(&model, n, &[(x, &vx), (o, &vo), (c, &vc), (q, &vq), (s, &vs)], &[h, o, c, q, x, s]);
        let expected = |x: &[f32], group: usize, f: &dyn Fn(&[f64]) -> Vec<f64>| -> Vec<f64> {
            x.chunks(group).flat_map(|x| f(&wide(x))).collect()
        };
        assert_near("rms norm", &got[0], &expected(&vx, HIDDEN, &|x| rms_of(x, &w)), 1e-5);
        assert_near("layer norm", &got[1], &expected(&vo, HIDDEN, &layer_of), 1e-5);
        assert_near("rms norm with a bias", &got[2], &expected(&vc, HIDDEN, &|x| plus(rms_of(x, &w))), 1e-5);
        assert_near("norm of heads", &got[3], &expected(&vq, 10, &|x| rms_of(x, &head_w)), 1e-5);
        let sum: Vec<f64> = vx.iter().zip(&vs).map(|(&x, &s)| f64::from(x) + 0.5 * f64::from(s)).collect();
        assert_near("add", &got[4], &sum, 1e-6);
        assert_near("scale", &got[5], &wide(&vs).iter().map(|s| -1.75 * s).collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn a_sum_and_its_norm_in_one_pass_are_the_same_bits() {
    for (kind, biased) in [(NormKind::Rms, false), (NormKind::Rms, true), (NormKind::Layer, true)] {
        // Where the norm lies in the summand's buffer both are one pass, elsewhere and in place two.
        let build = |apart: bool, in_place: bool| {
            let mut model = Model::new(LAYER);
            let ((weight, _), (bias, _)) = (model.vector(HIDDEN, 1), model.vector(HIDDEN, 2));
            let norm = Norm { kind, weight: Some(weight), bias: biased.then_some(bias), eps: 1e-5, group: HIDDEN };
            let [x, delta, out] = model.tensors([HIDDEN; 3]);
            let out = if in_place { x } else { out };
            let ops = vec![Op::Add { x, delta, scale: 0.3 }, Op::Norm { norm, x, out }];
            let kept = if apart { vec![x, delta, out] } else { vec![x] };
            let model = model.finish_with(ops, 0, &kept);
            let buffer = |tensor: TensorId| model.program.tensors[tensor.0 as usize].buffer;
            assert!(in_place || (buffer(delta) == buffer(out)) != apart);
            (model, [x, delta, out])
        };
        for n in COUNTS {
            let [vx, vd] = [3, 4].map(|seed| values(n * HIDDEN, seed));
            let run = |apart, in_place| {
                let (model, [x, delta, out]) = build(apart, in_place);
                run(&model, n, &[(x, &vx), (delta, &vd)], &[x, out])
            };
            let (together, apart, in_place) = (run(false, false), run(true, false), run(true, true));
            assert!(together == apart, "{kind:?}, {n} tokens");
            assert!(in_place[0] == together[1], "{kind:?}, {n} tokens, in place");
        }
    }
}

#[test]
fn projections() {
    let mut model = Model::new(LAYER);
    // More than three of one input, one with a bias, none a whole number of groups of 16.
    let widths = [60, 20, 21, FFN, 7];
    let (bias, b) = model.vector(20, 9);
    let [h] = model.tensors([HIDDEN]);
    let outs = model.tensors(widths);
    let matrices: Vec<_> = widths.iter().zip(1..).map(|(&width, i)| model.matrix(width, HIDDEN, i)).collect();
    let parts: Vec<_> = (0..5).map(|i| (matrices[i].0, (i == 1).then_some(bias), outs[i])).collect();
    let model = model.finish(vec![project(h, &parts), project(h, &[])]);
    for n in COUNTS {
        let x = values(n * HIDDEN, 10);
        let got = run(&model, n, &[(h, &x)], &outs);
        for (i, ((_, w), got)) in matrices.iter().zip(&got).enumerate() {
            let mut expected = product(&wide(&x), w, HIDDEN);
            if i == 1 {
                expected.iter_mut().zip(b.iter().cycle()).for_each(|(x, &b)| *x += f64::from(b));
            }
            assert_near("project", got, &expected, 1e-5);
        }
    }
}

#[test]
fn feed_forward_blocks() {
    let mut model = Model::new(LAYER);
    let (up, w_up) = model.matrix(100, HIDDEN, 1);
    let (gate, w_gate) = model.matrix(100, HIDDEN, 2);
    let (down, w_down) = model.matrix(HIDDEN, 100, 3);
    let [h, g, u, o] = model.tensors([HIDDEN, 100, 100, HIDDEN]);
    let ops = vec![
        project(h, &[(gate, None, g), (up, None, u)]),
        Op::Glu { gate: g, up: Some(u), activation: Activation::Silu },
        project(g, &[(down, None, o)]),
    ];
    // Buffers that are shared change nothing.
    let model = model.finish_with(ops, 0, &[]);
    for n in COUNTS {
        let x = values(n * HIDDEN, 4);
        let got = run(&model, n, &[(h, &x)], &[o]);
        let (g, u) = (product(&wide(&x), &w_gate, HIDDEN), product(&wide(&x), &w_up, HIDDEN));
        let inner: Vec<f64> = g.iter().zip(&u).map(|(&g, &u)| silu(g) * u).collect();
        assert_near("feed forward", &got[0], &product(&inner, &w_down, 100), 1e-4);
    }
}

/// The error function by its Taylor series.
fn erf(x: f64) -> f64 {
    let terms = (0..40).scan(x, |term, n| {
        let this = *term / f64::from(2 * n + 1);
        *term *= -x * x / f64::from(n + 1);
        Some(this)
    });
    terms.sum::<f64>() * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn activations() {
    let gelu = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    type Formula<'a> = &'a dyn Fn(f64) -> f64;
    let formulas: [(Activation, Formula, f64); 4] = [
        (Activation::Silu, &silu, 1e-6),
        (Activation::Gelu, &gelu, 1e-6),
        (Activation::GeluErf, &|x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())), 1e-6),
        (Activation::Relu, &|x| x.max(0.0), 1e-7),
    ];
    for (activation, formula, tolerance) in formulas {
        for gated in [true, false] {
            let mut model = Model::new(LAYER);
            let [g, u] = model.tensors([FFN; 2]);
            let model = model.finish(vec![Op::Glu { gate: g, up: gated.then_some(u), activation }]);
            for n in COUNTS {
                let (vg, vu) = (values(n * FFN, 1), values(n * FFN, 2));
                let got = run(&model, n, &[(g, &vg), (u, &vu)], &[g]);
                let factor = |u: f32| if gated { f64::from(u) } else { 1.0 };
                let expected: Vec<f64> = vg.iter().zip(&vu).map(|(&g, &u)| formula(f64::from(g)) * factor(u)).collect();
                assert_near(&format!("{activation:?}"), &got[0], &expected, tolerance);
            }
        }
    }
}

/// Rotates heads, the first at position `first`, by the definition.
fn rotated(x: &[f32], heads: usize, dim: usize, first: u32, rope: &Rope) -> Vec<f64> {
    let mut x = wide(x);
    for (i, head) in x.chunks_mut(dim).enumerate() {
        let position = f64::from(first) + (i / heads) as f64;
        for (j, f) in rope.inv_freq.iter().enumerate() {
            let (a, b) = match rope.pairs {
                RopePairs::Halves => (j, j + rope.inv_freq.len()),
                RopePairs::Adjacent => (2 * j, 2 * j + 1),
            };
            let ((sin, cos), m) = ((position * f).sin_cos(), f64::from(rope.magnitude));
            (head[a], head[b]) = (m * (head[a] * cos - head[b] * sin), m * (head[b] * cos + head[a] * sin));
        }
    }
    x
}

#[test]
fn rotary_embedding() {
    for (pairs, n_pairs) in
        [(RopePairs::Halves, 5), (RopePairs::Halves, 3), (RopePairs::Adjacent, 5), (RopePairs::Adjacent, 4)]
    {
        let inv_freq: Vec<f64> = (0..n_pairs).map(|i| 0.9f64.powi(i * i)).collect();
        let rotation = Rope { pairs, inv_freq, axes: vec![], magnitude: 1.25, position_offset: 0 };
        let mut model = Model::new(LAYER);
        model.rope(Rope { pairs, inv_freq: vec![1.0; 5], axes: vec![], magnitude: 1.0, position_offset: 0 });
        let table = model.rope(rotation.clone());
        let [q, k, alone] = model.tensors([60, 20, 60]);
        let rope = RopeChoice { table, long: None };
        let model = model.finish(vec![
            Op::Rope { rope, head_dim: 10, first: 0, q, k: Some(k) },
            Op::Rope { rope, head_dim: 10, first: 0, q: alone, k: None },
        ]);
        for n in COUNTS {
            let (vq, vk) = (values(n * 60, 1), values(n * 20, 2));
            let got = run(&model, n, &[(q, &vq), (k, &vk), (alone, &vq)], &[q, k, alone]);
            assert_near("q", &got[0], &rotated(&vq, 6, 10, 20, &rotation), 1e-6);
            assert_near("k", &got[1], &rotated(&vk, 2, 10, 20, &rotation), 1e-6);
            assert!(got[2] == got[0], "q without k");
        }
    }
}

#[test]
fn caches_above_a_bound_turn_by_the_long_table() {
    let table = |base: f64| Rope {
        pairs: RopePairs::Halves,
        inv_freq: (0..5).map(|i| base.powi(-i)).collect(),
        axes: vec![],
        magnitude: base as f32,
        position_offset: 0,
    };
    let mut model = Model::new(LAYER);
    let (short, long) = (model.rope(table(1.5)), model.rope(table(2.5)));
    let [q] = model.tensors([60]);
    let rope = RopeChoice { table: short, long: Some((64, long)) };
    let model = model.finish(vec![Op::Rope { rope, head_dim: 10, first: 0, q, k: None }]);
    assert!(!model.program.is_long(64) && model.program.is_long(65));
    let backend = model.load(1);
    let mut executor = model.executor(&backend, 1, 1);
    let x = values(60, 1);
    for (capacity, base) in [(63, 1.5), (64, 1.5), (65, 2.5), (1000, 2.5)] {
        let mut state = backend.new_sequence(&model.spec(capacity)).unwrap();
        // The room decides, not the position.
        let batch = &mut Batch {
            inputs: StepInputs { ids: &[0], positions: &[7], sequences: &[0], ..Default::default() },
            sequences: &mut [&mut state],
        };
        executor.begin(batch, 0..1).unwrap();
        executor.write(q, &x).unwrap();
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        assert_near("long rope", &model.read(&mut executor, q, 1), &rotated(&x, 6, 10, 7, &table(base)), 1e-6);
    }
}

/// `softmax(scale * q k^T) v` of token `t` over the tokens `seen`, `[n_heads * head_dim]`.
fn attended(op: &Attend, layer: KvLayer, t: usize, seen: Range<usize>, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
    let KvLayer { n_kv_heads: kv, head_dim: dim, .. } = layer;
    let first = match op.mask {
        Mask::Causal | Mask::Past => 0,
        Mask::Window(n) => (t + 1).saturating_sub(n as usize),
        Mask::Chunk(n) => seen.start + (t - seen.start) / n as usize * n as usize,
        Mask::All | Mask::Around(_) | Mask::Spans => unreachable!("encoders have tests of their own"),
        Mask::Source | Mask::AfterSpan => unreachable!("spans have tests of their own"),
    };
    let seen = seen.start.max(first)..seen.end;
    let heads = q.len() / dim;
    let row = |x: &[f64], s: usize, head: usize| x[(s * kv + head * kv / heads) * dim..][..dim].to_vec();
    let mut out = Vec::new();
    for (head, q) in q.chunks(dim).enumerate() {
        let score = |s| {
            let score = f64::from(op.scale) * q.iter().zip(row(k, s, head)).map(|(q, k)| q * k).sum::<f64>();
            let cap = f64::from(op.softcap);
            if cap == 0.0 { score.exp() } else { (cap * (score / cap).tanh()).exp() }
        };
        let weights: Vec<f64> = seen.clone().map(score).collect();
        let (sum, mut rows) = (weights.iter().sum::<f64>(), vec![0.0; dim]);
        for (s, weight) in seen.clone().zip(weights) {
            rows.iter_mut().zip(row(v, s, head)).for_each(|(out, v)| *out += weight / sum * v);
        }
        out.extend(rows);
    }
    out
}

#[test]
fn attention_over_two_sequences() {
    // Query heads, heads of the cache, their width: one and many, shared by a number that divides nothing as well.
    let shapes = [(6, 2, 10), (1, 1, 64), (4, 4, 80), (5, 2, 96), (8, 1, 128), (3, 1, 256), (9, 3, 64)];
    let rules = [(Mask::Window(9), 0.0), (Mask::Causal, 0.0), (Mask::Chunk(16), 0.0), (Mask::Causal, 2.0)];
    for ((heads, kv, dim), (mask, softcap)) in shapes.into_iter().zip(rules.into_iter().cycle()) {
        let layer = KvLayer::new(kv, dim, 0);
        let mut model = Model::new(layer);
        let [q, k, v, a] = model.tensors([heads * dim, kv * dim, kv * dim, heads * dim]);
        let stored = KvLayerId(0);
        let scale = 0.4 / (dim as f32 / 10.0).sqrt();
        let attend = Attend { softcap, mask, ..Attend::new(stored, q, a, scale) };
        let model = model.finish(vec![Op::StoreKv { layer: stored, k, v: Some(v) }, Op::Attend(attend)]);
        let lens = [120usize, 30];
        let (vk, vv) = (values(150 * kv * dim, 1), values(150 * kv * dim, 2));
        let vq = values(150 * heads * dim, 3);
        let positions: Vec<u32> = (0..lens[0] as u32).chain(0..lens[1] as u32).collect();
        let slots: Vec<u32> = (0..150).map(|t| u32::from(t >= lens[0])).collect();
        let mut results = Vec::new();
        for threads in 1..=3 {
            let backend = model.load(threads);
            let [mut first, mut second] = [0; 2].map(|_| backend.new_sequence(&model.spec(150)).unwrap());
            let mut executor = model.executor(&backend, 200, 1);
            let states = &mut [&mut first, &mut second];
            let batch = &mut Batch {
                inputs: StepInputs { ids: &[0; 150], positions: &positions, sequences: &slots, ..Default::default() },
                sequences: states,
            };
            executor.begin(batch, 0..2).unwrap();
            for (tensor, values) in [(q, &vq), (k, &vk), (v, &vv)] {
                executor.write(tensor, values).unwrap();
            }
            assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
            results.push(model.read(&mut executor, a, 150));
        }
        assert!(results.iter().all(|r| *r == results[0]), "threads change the result");
        let (k, v, mut expected) = (wide(&vk), wide(&vv), Vec::new());
        for (t, q) in vq.chunks(heads * dim).enumerate() {
            let first = if t < lens[0] { 0 } else { lens[0] };
            expected.extend(attended(&attend, layer, t, first..t + 1, &wide(q), &k, &v));
        }
        assert_near(&format!("{heads}:{kv} heads of {dim}"), &results[0], &expected, 3e-6);
    }
}

#[test]
fn attention_of_the_outputs_alone() {
    // Queries wider than the model, which the last projection brings back.
    let (heads, dim, n) = (7, 10, 40);
    let layer = KvLayer { n_kv_heads: 1, ..LAYER };
    let mut model = Model::new(layer);
    let (back, w) = model.matrix(HIDDEN, heads * dim, 4);
    let [q, k, v, kept, a, o, x, y] = model.tensors([70, 10, 10, 70, 70, HIDDEN, HIDDEN, HIDDEN]);
    let stored = KvLayerId(0);
    let attend = Attend::new(stored, kept, a, 0.4);
    let model = model.finish(vec![
        Op::StoreKv { layer: stored, k, v: Some(v) },
        Op::KeepOutputs { moves: [[q, kept], [x, y]].into() },
        Op::Attend(attend),
        project(a, &[(back, None, o)]),
        Op::Add { x: y, delta: o, scale: 1.0 },
    ]);
    let [vq, vk, vv, vx] = [(70, 1), (10, 2), (10, 3), (HIDDEN, 5)].map(|(width, seed)| values(n * width, seed));
    let inputs = [(q, &vq[..]), (k, &vk), (v, &vv), (x, &vx)];
    let (k, v) = (wide(&vk), wide(&vv));
    let first = 20;
    let all: Vec<u32> = (0..n as u32).collect();
    for wanted in [&all[..], &[39], &[0], &[3, 4, 17, 38]] {
        let got = run_for(&model, n, wanted, &inputs, &[a, y]);
        // Positions before those of the step were never written, and read as zeros.
        let (zeros, mut expected) = (vec![0.0; first * dim], [vec![], vec![]]);
        let (k, v) = ([&zeros, &k[..]].concat(), [&zeros, &v[..]].concat());
        for t in wanted.iter().map(|&t| t as usize) {
            let row = attended(&attend, layer, t + first, 0..t + first + 1, &wide(&vq[t * 70..][..70]), &k, &v);
            let sum = product(&row, &w, 70).into_iter().zip(&vx[t * HIDDEN..]).map(|(o, &x)| f64::from(x) + o);
            expected[1].extend(sum);
            expected[0].extend(row);
        }
        assert_near("attention of outputs", &got[0], &expected[0], 3e-6);
        assert_near("sum of outputs", &got[1], &expected[1], 1e-5);
    }
}

#[test]
fn a_step_without_outputs_ends_where_they_would_be_kept() {
    let mut model = Model::new(LAYER);
    let [x, y] = model.tensors([HIDDEN; 2]);
    let model = model.finish(vec![
        Op::Scale { x, factor: 2.0 },
        Op::KeepOutputs { moves: [[x, y]].into() },
        Op::Scale { x, factor: 10.0 },
        Op::Scale { x: y, factor: 10.0 },
    ]);
    let backend = model.load(2);
    let mut executor = model.executor(&backend, 3, 3);
    let mut state = backend.new_sequence(&model.spec(3)).unwrap();
    let batch = &mut Batch {
        inputs: StepInputs { ids: &[0; 3], positions: &[0, 1, 2], sequences: &[0; 3], ..Default::default() },
        sequences: &mut [&mut state],
    };
    let ones = vec![1.0; 3 * HIDDEN];
    executor.begin(batch, 0..4).unwrap();
    executor.write(x, &ones).unwrap();
    executor.write(y, &ones).unwrap();
    let stops = Cell::new(0);
    let count = || {
        stops.set(stops.get() + 1);
        false
    };
    let all = executor.advance(batch, &StepBudget::new(&count));
    assert!(all.unwrap() && stops.get() == 2, "asked before each of the two ops");
    assert!(executor.advance(batch, &StepBudget::new(&|| true)).unwrap(), "nothing is left to stop");
    assert_eq!(model.read(&mut executor, x, 3), vec![2.0; 3 * HIDDEN]);
    assert_eq!(model.read(&mut executor, y, 3), ones);
    assert!(executor.token(0).is_err());
}

/// Matrices of `n` experts with the columns of each in its own order, and the inputs of these.
fn in_orders(model: &mut Model, w: &[f32], n: usize, cols: usize, step: usize) -> (Weight, Option<Vector>) {
    // `step` has no divisor in common with `cols`.
    let place = |expert: usize, i: usize| (step * i + expert) % cols;
    let rows = w.len() / n / cols;
    let in_order = |(i, row): (usize, &[f32])| (0..cols).map(|j| row[place(i / rows, j)]).collect::<Vec<f32>>();
    let sorted: Vec<f32> = w.chunks(cols).enumerate().flat_map(in_order).collect();
    let weight = model.source(Matrix::new(quant::F32, n * rows, cols, &sorted));
    (weight, Some(model.places((0..n * cols).map(|i| place(i / cols, i % cols)))))
}

#[test]
fn experts() {
    // Experts of 20 and 44 rows: neither is a whole number of groups of 16.
    let (n_experts, ffn) = (7, 20);
    // The orders of the inputs of gate and up: none, one for both, one each.
    let scores = [
        (RouterScore::SoftmaxOfChosen, false, None),
        (RouterScore::Softmax, false, Some([7, 7])),
        (RouterScore::Softmax, true, Some([7, 3])),
        (RouterScore::SparseMixer, false, None),
    ];
    for (score, renormalize, steps) in scores {
        let mut model = Model::new(LAYER);
        let (mut gate, w_gate) = model.matrix(n_experts * ffn, HIDDEN, 1);
        let (mut up, w_up) = model.matrix(n_experts * ffn, HIDDEN, 2);
        let (mut down, w_down) = model.matrix(n_experts * HIDDEN, ffn, 3);
        let [x, scores, out] = model.tensors([HIDDEN, n_experts, HIDDEN]);
        let mut orders = [None; 3];
        if let Some(steps) = steps {
            let of = |m: &mut Model, w: &[f32], cols, step| in_orders(m, w, n_experts, cols, step);
            (gate, orders[0]) = of(&mut model, &w_gate, HIDDEN, steps[0]);
            (up, orders[1]) = of(&mut model, &w_up, HIDDEN, steps[1]);
            (down, orders[2]) = of(&mut model, &w_down, ffn, 3);
            if steps[0] == steps[1] {
                orders[1] = orders[0];
            }
        }
        let routing = Routing::new(score, 3, renormalize);
        let activation = Activation::Silu;
        let model = model.finish(vec![Op::Experts(Experts {
            x,
            scores,
            out,
            gate: Some(gate),
            up,
            down,
            biases: [None; 3],
            scales: [None; 3],
            orders,
            n_experts,
            ffn,
            routing,
            activation,
        })]);
        for n in COUNTS {
            let (h, mut r) = (values(n * HIDDEN, 4), values(n * n_experts, 5));
            if score == RouterScore::SparseMixer {
                // Some are near enough to the best, and some are not.
                r.iter_mut().for_each(|x| *x = 0.03 * *x - 1.0);
            }
            let got = run(&model, n, &[(x, &h), (scores, &r)], &[out]);
            let mut expected = Vec::new();
            for (h, scores) in h.chunks(HIDDEN).zip(r.chunks(n_experts)) {
                let mut order: Vec<usize> = (0..n_experts).collect();
                order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
                let exp = |e: usize| f64::from(scores[e]).exp();
                let over = if score == RouterScore::Softmax && !renormalize { &order[..] } else { &order[..3] };
                let sum: f64 = over.iter().map(|&e| exp(e)).sum();
                let near = |best: usize, e: usize| {
                    let [best, score] = [scores[best], scores[e]].map(f64::from);
                    (best - score) / score.abs().max(best) <= 0.02
                };
                let mut row = vec![0.0; HIDDEN];
                for (i, &e) in order[..3].iter().enumerate() {
                    let sum = match score {
                        RouterScore::SparseMixer => order[i..].iter().filter(|o| near(e, **o)).map(|o| exp(*o)).sum(),
                        _ => sum,
                    };
                    let rows = |w: &[f32], each: usize| w[e * each..(e + 1) * each].to_vec();
                    let g = product(&wide(h), &rows(&w_gate, ffn * HIDDEN), HIDDEN);
                    let u = product(&wide(h), &rows(&w_up, ffn * HIDDEN), HIDDEN);
                    let inner: Vec<f64> = g.iter().zip(&u).map(|(&g, &u)| silu(g) * u).collect();
                    let out = product(&inner, &rows(&w_down, HIDDEN * ffn), ffn);
                    row.iter_mut().zip(out).for_each(|(x, y)| *x += exp(e) / sum * y);
                }
                expected.extend(row);
            }
            assert_near("experts", &got[0], &expected, 2e-5);
        }
    }
}

/// Experts with biases and factors, without a gate or with gate and up in one matrix, chosen by groups.
#[test]
fn experts_of_every_kind() {
    let (n_experts, ffn) = (8, 20);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
    for kind in 0..4 {
        let (gated, on_input) = (kind > 0, kind == 2);
        let mut model = Model::new(LAYER);
        let (up, w_up) = model.matrix(n_experts * ffn * if gated { 2 } else { 1 }, HIDDEN, 1);
        let (down, w_down) = model.matrix(n_experts * HIDDEN, ffn, 2);
        let (b_gate, of_gate) = model.vector(n_experts * ffn, 3);
        let (b_up, of_up) = model.vector(n_experts * ffn, 4);
        let (b_down, of_down) = model.vector(n_experts * HIDDEN, 5);
        let (factors, factor) = model.vector(n_experts, 6);
        let (choice, by) = model.vector(n_experts, 7);
        let [x, scores, out] = model.tensors([HIDDEN, n_experts, HIDDEN]);
        let (renormalize, groups, groups_used) = (kind % 2 == 1, [1, 4][kind / 2], [1, 2][kind / 2]);
        let score = if kind == 3 { RouterScore::Softmax } else { RouterScore::Sigmoid };
        let bias = Some(choice);
        let routing =
            Routing { bias, groups, groups_used, scale: 2.5, on_input, ..Routing::new(score, 3, renormalize) };
        let activation = if gated { Activation::Silu } else { Activation::Relu2 };
        let model = model.finish(vec![Op::Experts(Experts {
            x,
            scores,
            out,
            gate: gated.then_some(up),
            up,
            down,
            biases: [Some(b_gate), Some(b_up), Some(b_down)],
            scales: [Some(factors), None, Some(factors)],
            orders: [None; 3],
            n_experts,
            ffn,
            routing,
            activation,
        })]);
        for n in COUNTS {
            let (h, r) = (values(n * HIDDEN, 4), values(n * n_experts, 5));
            let got = run(&model, n, &[(x, &h), (scores, &r)], &[out]);
            let mut expected = Vec::new();
            for (h, scores) in h.chunks(HIDDEN).zip(r.chunks(n_experts)) {
                let sum: f64 = scores.iter().map(|&x| f64::from(x).exp()).sum();
                let weight = |e: usize| match kind {
                    3 => f64::from(scores[e]).exp() / sum,
                    _ => sigmoid(scores[e]),
                };
                let preference = |e: &usize| weight(*e) + f64::from(by[*e]);
                let best = |a: &f64, b: &f64| b.total_cmp(a);
                let size = n_experts / groups;
                let of_group = |g: usize| -> f64 {
                    let mut of: Vec<f64> = (g * size..(g + 1) * size).map(|e| preference(&e)).collect();
                    of.sort_by(best);
                    of[..2].iter().sum()
                };
                let mut order: Vec<usize> = (0..groups).collect();
                order.sort_by(|&a, &b| best(&of_group(a), &of_group(b)));
                let mut chosen: Vec<usize> =
                    order[..groups_used].iter().flat_map(|g| g * size..(g + 1) * size).collect();
                chosen.sort_by(|a, b| best(&preference(a), &preference(b)));
                let total: f64 = chosen[..3].iter().map(|&e| weight(e)).sum();
                let mut row = vec![0.0; HIDDEN];
                for &e in &chosen[..3] {
                    let weight = 2.5 * weight(e) / if renormalize { total } else { 1.0 };
                    let rows = |w: &[f32], first: usize, n: usize| wide(&w[first * n..(first + 1) * n]);
                    let input: Vec<f64> = wide(h).iter().map(|x| if on_input { x * weight } else { *x }).collect();
                    let of = |w: &[f32], slab: usize, rows: usize, cols: usize, x: &[f64]| {
                        product(x, &w[slab * rows * cols..(slab + 1) * rows * cols], cols)
                    };
                    let plus = |x: Vec<f64>, factor: f64, bias: Vec<f64>| -> Vec<f64> {
                        x.iter().zip(bias).map(|(x, b)| x * factor + b).collect()
                    };
                    let f = f64::from(factor[e]);
                    let inner: Vec<f64> = if gated {
                        let g = plus(of(&w_up, 2 * e, ffn, HIDDEN, &input), f, rows(&of_gate, e, ffn));
                        let u = plus(of(&w_up, 2 * e + 1, ffn, HIDDEN, &input), 1.0, rows(&of_up, e, ffn));
                        g.iter().zip(&u).map(|(&g, &u)| silu(g) * u).collect()
                    } else {
                        let u = plus(of(&w_up, e, ffn, HIDDEN, &input), 1.0, rows(&of_up, e, ffn));
                        u.iter().map(|u| u.max(0.0).powi(2)).collect()
                    };
                    let out = plus(of(&w_down, e, HIDDEN, ffn, &inner), f, rows(&of_down, e, HIDDEN));
                    row.iter_mut().zip(out).for_each(|(x, y)| *x += if on_input { y } else { weight * y });
                }
                expected.extend(row);
            }
            assert_near("experts", &got[0], &expected, 5e-5);
        }
    }
}

#[test]
fn factors_of_positions_clamps_and_gates() {
    let mut model = Model::new(LAYER);
    let [x, y, z, gate, c] = model.tensors([HIDDEN, HIDDEN, HIDDEN, 4, HIDDEN]);
    let (by, factors) = model.vector(HIDDEN, 3);
    let model = model.finish(vec![
        Op::ScaleByPosition { x, slope: 0.3, length: 3, offset: 1 },
        Op::Clamp { x: y, low: -0.5, high: 0.25 },
        Op::Gate { x: z, gate, sigmoid: true },
        Op::ScaleColumns { x: c, by },
    ]);
    for n in COUNTS {
        let (v, g) = (values(n * HIDDEN, 1), values(n * 4, 2));
        let got = run(&model, n, &[(x, &v), (y, &v), (z, &v), (gate, &g), (c, &v)], &[x, y, z, c]);
        let at = |i: usize| f64::from(v[i]);
        let factor = |t: usize| 1.0 + f64::from(0.3f32) * (((positions(n)[t] + 1) / 3 + 1) as f64).ln();
        let all = 0..n * HIDDEN;
        assert_near("positions", &got[0], &all.clone().map(|i| at(i) * factor(i / HIDDEN)).collect::<Vec<_>>(), 1e-6);
        assert_near("clamp", &got[1], &all.clone().map(|i| at(i).clamp(-0.5, 0.25)).collect::<Vec<_>>(), 1e-6);
        let gated = |i: usize| at(i) / (1.0 + (-f64::from(g[i / (HIDDEN / 4)])).exp());
        assert_near("gate", &got[2], &all.clone().map(gated).collect::<Vec<_>>(), 1e-6);
        let times = |i: usize| at(i) * f64::from(factors[i % HIDDEN]);
        assert_near("columns", &got[3], &all.map(times).collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn streams_are_mixed_and_made_as_large_as_others() {
    let mut model = Model::new(LAYER);
    let [x, y, z, by, sums, all, like, gates] =
        model.tensors([3 * HIDDEN, 2 * HIDDEN, 7 + HIDDEN, 6, 2 * HIDDEN, HIDDEN, HIDDEN, HIDDEN]);
    let mix = Mix { x, by: Some(by), out: y, width: HIDDEN, first: 0, adds: true };
    let model = model.finish(vec![
        Op::Mix(Mix { out: sums, adds: false, ..mix }),
        Op::Mix(mix),
        Op::Mix(Mix { by: None, out: z, first: 7, ..mix }),
        Op::Mix(Mix { by: None, out: all, adds: false, ..mix }),
        Op::Rescale { x, like },
        Op::Threshold { x: gates, deviations: 0.8 },
    ]);
    for n in COUNTS {
        let [v, w, u, b, l] =
            [3 * HIDDEN, 2 * HIDDEN, 7 + HIDDEN, 6, HIDDEN].map(|width| values(n * width, width as u64));
        let inputs = [(x, &v[..]), (y, &w), (z, &u), (by, &b), (like, &l), (gates, &l)];
        let got = run(&model, n, &inputs, &[sums, y, z, all, x, gates]);
        let row = |x: &[f32], t: usize, width: usize| wide(&x[t * width..][..width]);
        let mut expected = [const { Vec::new() }; 6];
        for t in 0..n {
            let (v, w, u) = (row(&v, t, 3 * HIDDEN), row(&w, t, 2 * HIDDEN), row(&u, t, 7 + HIDDEN));
            let (b, l) = (row(&b, t, 6), row(&l, t, HIDDEN));
            let mixed = |i: usize, factor: &dyn Fn(usize) -> f64| -> f64 {
                (0..3).map(|k| factor(k) * v[k * HIDDEN + i % HIDDEN]).sum()
            };
            let by = |i: usize| mixed(i, &|k| b[i / HIDDEN * 3 + k]);
            expected[0].extend((0..2 * HIDDEN).map(by));
            expected[1].extend((0..2 * HIDDEN).map(|i| w[i] + by(i)));
            expected[2].extend((0..7 + HIDDEN).map(|i| u[i] + if i < 7 { 0.0 } else { mixed(i - 7, &|_| 1.0) }));
            expected[3].extend((0..HIDDEN).map(|i| mixed(i, &|_| 1.0)));
            let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
            expected[4].extend(v.chunks(HIDDEN).flat_map(|x| {
                let factor = (square(&l) / square(x)).sqrt();
                x.iter().map(move |x| x * factor)
            }));
            let mean = l.iter().sum::<f64>() / HIDDEN as f64;
            let deviation = (l.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / HIDDEN as f64).sqrt();
            expected[5].extend(l.iter().map(|x| (x - mean - f64::from(0.8f32) * deviation).max(0.0)));
        }
        for (got, expected) in got.iter().zip(&expected) {
            assert_near("streams", got, expected, 2e-6);
        }
    }
}

#[test]
fn streams_are_mixed_by_scores_and_by_matrices_whose_sums_are_one() {
    let mut model = Model::new(LAYER);
    let [x, out, y, dots, square] = model.tensors([3 * HIDDEN, HIDDEN, 3 * HIDDEN, 6, 9]);
    let (by, w) = model.vector(HIDDEN, 3);
    let (eps, rounds) = (0.01f32, 3);
    let model = model.finish(vec![
        Op::MixByScore { x, by, eps, out },
        Op::Dot { x, y, out: dots },
        Op::Sinkhorn { x: square, eps, rounds },
    ]);
    for n in COUNTS {
        let [v, u, s] = [3 * HIDDEN, 3 * HIDDEN, 9].map(|width| values(n * width, width as u64));
        let got = run(&model, n, &[(x, &v), (y, &u), (square, &s)], &[out, dots, square]);
        let eps = f64::from(eps);
        let mut expected = [const { Vec::new() }; 3];
        for t in 0..n {
            let (v, u) = (wide(&v[t * 3 * HIDDEN..][..3 * HIDDEN]), wide(&u[t * 3 * HIDDEN..][..3 * HIDDEN]));
            let weights: Vec<f64> = v
                .chunks(HIDDEN)
                .map(|x| {
                    let size = (x.iter().map(|x| x * x).sum::<f64>() / HIDDEN as f64 + eps).sqrt();
                    (x.iter().zip(&w).map(|(x, w)| x * f64::from(*w)).sum::<f64>() / size).exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            expected[0]
                .extend((0..HIDDEN).map(|i| (0..3).map(|k| weights[k] * v[k * HIDDEN + i]).sum::<f64>() / total));
            let each = HIDDEN / 2;
            expected[1].extend((0..6).map(|h| (0..each).map(|i| v[h * each + i] * u[h * each + i]).sum::<f64>()));
            let mut c: Vec<Vec<f64>> = s[t * 9..][..9]
                .chunks(3)
                .map(|row| {
                    let row: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
                    row.iter().map(|x| x / row.iter().sum::<f64>() + eps).collect()
                })
                .collect();
            for round in 0..rounds {
                for row in c.iter_mut().filter(|_| round > 0) {
                    let sum = row.iter().sum::<f64>() + eps;
                    row.iter_mut().for_each(|x| *x /= sum);
                }
                for j in 0..3 {
                    let sum = c.iter().map(|row| row[j]).sum::<f64>() + eps;
                    c.iter_mut().for_each(|row| row[j] /= sum);
                }
            }
            expected[2].extend((0..9).map(|i| c[i % 3][i / 3]));
        }
        for (got, expected) in got.iter().zip(&expected) {
            assert_near("streams", got, expected, 5e-6);
        }
    }
}

#[test]
fn logits_of_some_tokens() {
    let h = values(9 * HIDDEN, 3);
    for softcap in [0.0, 3.0] {
        let mut model = Model::new(LAYER);
        let (head, w) = model.matrix(VOCAB, HIDDEN, 1);
        let (bias, b) = model.vector(VOCAB, 2);
        let [x] = model.tensors([HIDDEN]);
        let ops = vec![Op::Logits { x, head, bias: Some(bias), scale: 0.5, softcap }];
        let model = model.finish_with(ops, VOCAB, &[x]);
        let backend = model.load(2);
        let mut executor = model.executor(&backend, 9, 3);
        let mut state = backend.new_sequence(&model.spec(40)).unwrap();
        let (ids, positions, states) = (ids(9), positions(9), &mut [&mut state]);
        let outputs = &[0, 4, 8];
        let batch = &mut Batch {
            inputs: StepInputs { ids: &ids, positions: &positions, outputs, sequences: &[0; 9], ..Default::default() },
            sequences: states,
        };
        executor.begin(batch, 0..model.program.ops.len()).unwrap();
        executor.write(x, &h).unwrap();
        assert!(executor.token(0).is_err(), "there are no logits yet");
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        executor.end().unwrap();
        for (i, t) in [0, 4, 8].into_iter().enumerate() {
            let expected: Vec<f64> = product(&wide(&h)[t * HIDDEN..][..HIDDEN], &w, HIDDEN)
                .iter()
                .zip(&b)
                .map(|(x, &b)| 0.5 * (x + f64::from(b)))
                .map(|x| if softcap == 0.0 { x } else { f64::from(softcap) * (x / f64::from(softcap)).tanh() })
                .collect();
            let mut got = vec![0.0; VOCAB];
            executor.read_logits(i, &mut got).unwrap();
            assert_near("logits", &got, &expected, 1e-5);
            let best = (0..got.len()).rev().max_by(|&a, &b| got[a].total_cmp(&got[b])).unwrap();
            assert_eq!(executor.token(i).unwrap(), best as u32);
        }
        assert!(executor.token(3).is_err());
        let short = executor.read_logits(0, &mut [0.0; 3]);
        assert!(matches!(short, Err(Error::BufferTooSmall { needed: 515, capacity: 3 })));
    }
}

#[test]
fn weights_are_loaded() {
    let raw = values(700 * 64, 1);
    let source = |dtype| Matrix::new(dtype, 700, 64, &raw);
    let model = |source: Matrix, looked_up: bool, multiplied: bool| {
        let mut model = Model::new(LAYER);
        let table = model.source(source);
        let [x, h] = model.tensors([64; 2]);
        let embed = Op::Embed { table, rows: 700, index: Index::Id, scale: 1.0, out: x };
        let logits = Op::Logits { x: h, head: table, bias: None, scale: 1.0, softcap: 0.0 };
        let ops = looked_up.then_some(embed).into_iter().chain(multiplied.then_some(logits)).collect();
        let kept = [x, h];
        (model.finish_with(ops, 700, &kept), kept)
    };
    // Row 699 as it is looked up, and the logits of that row.
    let run = |(model, [x, h]): &(Model, [TensorId; 2]), backend: &Backend, row: &[f32]| {
        let mut executor = model.executor(backend, 1, 1);
        let mut state = backend.new_sequence(&model.spec(1)).unwrap();
        let batch = &mut Batch {
            inputs: StepInputs { ids: &[699], positions: &[0], outputs: &[0], sequences: &[0], ..Default::default() },
            sequences: &mut [&mut state],
        };
        executor.begin(batch, 0..model.program.ops.len()).unwrap();
        executor.write(*h, row).unwrap();
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        let mut logits = vec![0.0; 700];
        let found = model.read(&mut executor, *x, 1);
        if executor.read_logits(0, &mut logits).is_ok() {
            // A row is most like itself.
            assert_eq!(executor.token(0).unwrap(), 699);
        }
        (found, logits)
    };
    for dtype in [quant::F32, quant::Q8_0, quant::Q4_1, quant::F16] {
        let row = row(&source(dtype), 699);
        let (table, both) = (model(source(dtype), true, false), model(source(dtype), true, true));
        let mapped = model(Matrix { mapped: true, ..source(dtype) }, true, true);
        let bytes = source(dtype).bytes.len() as u64;
        let held = |backend: &Backend| backend.weight_bytes().map(|(_, bytes)| bytes).sum::<u64>();
        let (table_backend, mapped_backend) = (table.0.load(1), mapped.0.load(1));
        // Of 16-bit floats only tables keep every bit, and with it every byte.
        assert!(held(&table_backend) >= bytes && held(&mapped_backend) <= 1);
        assert_eq!(run(&table, &table_backend, &row).0, row);
        let (found, expected) = run(&mapped, &mapped_backend, &row);
        assert_eq!(found, row);
        for threads in 1..=3 {
            let mut reports = Vec::new();
            let report = &mut |done, all| {
                reports.push((done, all));
                Ok(())
            };
            let backend = both.0.load_with(threads, u64::MAX, report).unwrap();
            assert!(reports.is_sorted() && reports[0].0 == 0);
            let (done, all) = *reports.last().unwrap();
            assert!(done == all && all <= held(&backend) && held(&backend) < all + 64);
            assert_eq!(held(&backend) < bytes, dtype == quant::F16);
            let (found, logits) = run(&both, &backend, &row);
            assert_near("a row", &found, &wide(&row), if dtype == quant::F16 { 1.0 / 4096.0 } else { 0.0 });
            assert!(logits == expected, "mapped weights give other bits");

            // A ceiling, an error of a reader and one of the report end the load.
            let limit = both.0.load_with(threads, all / 2, &mut |_, _| Ok(()));
            assert!(matches!(limit, Err(Error::Limit { needed, left, .. }) if needed > left && left == all / 2));
            let cancelled = both.0.load_with(threads, u64::MAX, &mut |_, _| Err(Error::Cancelled));
            assert!(matches!(cancelled, Err(Error::Cancelled)));
            let broken = model(Matrix { fails_at: 650, ..source(dtype) }, true, true);
            assert!(matches!(broken.0.load_with(threads, u64::MAX, &mut |_, _| Ok(())), Err(Error::Io { .. })));
        }
    }
}

#[test]
fn products_of_each_head() {
    // Heads, rows and columns of each, numbers that are carried over: in panels of 16 and across them.
    for (heads, rows, cols, rest) in [(3, 40, 24, 8), (4, 16, 32, 0), (5, 7, 9, 2), (16, 64, 96, 4)] {
        let mut model = Model::new(LAYER);
        let (weight, w) = model.matrix(heads * rows, cols, 1);
        let [x, out] = model.tensors([heads * (cols + rest), heads * (rows + rest)]);
        let model = model.finish(vec![Op::ProjectHeads { x, weight, heads, out }]);
        for n in COUNTS {
            let vx = values(n * heads * (cols + rest), 2);
            let got = run(&model, n, &[(x, &vx)], &[out]);
            let mut expected = Vec::new();
            for (i, head) in vx.chunks(cols + rest).enumerate() {
                let of_head = &w[i % heads * rows * cols..][..rows * cols];
                expected.extend(product(&wide(&head[..cols]), of_head, cols));
                expected.extend(wide(&head[cols..]));
            }
            assert_near(&format!("{heads} heads of {rows} by {cols}"), &got[0], &expected, 1e-5);
        }
    }
}

#[test]
fn heads_are_joined_and_activations_are_cut_and_picked() {
    let (heads, width, tail_width) = (3, 10, 4);
    let mut model = Model::new(LAYER);
    let [x, tail, out, part] = model.tensors([heads * width, tail_width, heads * (width + tail_width), 11]);
    let [some] = model.tensors([17]);
    let place = |i: usize| (11 * i + 4) % 30;
    let by = model.places((0..17).map(place));
    let model = model.finish(vec![
        Op::JoinHeads { x, tail, heads, out },
        Op::Slice { x, first: 7, out: part },
        Op::Gather { x, by, out: some },
    ]);
    for n in COUNTS {
        let (vx, vt) = (values(n * heads * width, 1), values(n * tail_width, 2));
        let got = run(&model, n, &[(x, &vx), (tail, &vt)], &[out, part, some]);
        for t in 0..n {
            let (row, end) = (&vx[t * heads * width..][..heads * width], &vt[t * tail_width..][..tail_width]);
            let joined: Vec<f32> = row.chunks(width).flat_map(|head| [head, end].concat()).collect();
            assert_eq!(got[0][t * joined.len()..][..joined.len()], joined);
            assert_eq!(got[1][t * 11..][..11], row[7..18]);
            assert_eq!(got[2][t * 17..][..17], (0..17).map(|i| row[place(i)]).collect::<Vec<f32>>());
        }
    }
}

#[test]
fn rope_of_the_end_of_each_head() {
    for pairs in [RopePairs::Halves, RopePairs::Adjacent] {
        let rotation = Rope { pairs, inv_freq: vec![1.0, 0.3, 0.1], axes: vec![], magnitude: 1.5, position_offset: 0 };
        let mut model = Model::new(LAYER);
        let table = model.rope(rotation.clone());
        let [q] = model.tensors([40]);
        let rope = RopeChoice { table, long: None };
        let model = model.finish(vec![Op::Rope { rope, head_dim: 10, first: 4, q, k: None }]);
        for n in COUNTS {
            let vq = values(n * 40, 1);
            let got = run(&model, n, &[(q, &vq)], &[q]);
            let ends: Vec<f32> = vq.chunks(10).flat_map(|head| head[4..].to_vec()).collect();
            let ends = rotated(&ends, 4, 6, 20, &rotation);
            let expected = vq.chunks(10).zip(ends.chunks(6)).flat_map(|(head, end)| [&wide(&head[..4]), end].concat());
            assert_near("ends of heads", &got[0], &expected.collect::<Vec<f64>>(), 1e-6);
        }
    }
}
