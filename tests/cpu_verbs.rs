//! Every verb of the CPU backend against a plain computation in f64, over odd sizes, and bit for bit over numbers of
//! threads. Attention and products have larger tests of their own beside the code.

use std::ops::Range;
use std::sync::Arc;

use realizar::backend::cpu::CpuBackend;
use realizar::backend::cpu::kernels::Isa;
use realizar::backend::cpu::pool::Pool;
use realizar::backend::{
    Act, Activation, Attention, Backend, Batch, Exec, Experts, Kv, KvSpec, MatrixSource, Norm, NormKind, Projection,
    Rope, RopePairs, RopeTable, Routing, SharedBytes, Vector, Weight, Widths,
};
use realizar::error::{Error, Result};
use realizar::quant;
use realizar::tensor::DType;

fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

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

/// A matrix in memory.
struct Source {
    dtype: DType,
    rows: usize,
    cols: usize,
    bytes: Arc<Vec<u8>>,
    mapped: bool,
    table: bool,
    fails_at: usize,
}

impl Source {
    fn new(dtype: DType, rows: usize, cols: usize, values: &[f32]) -> Source {
        let format = quant::format(dtype).unwrap();
        let mut bytes = vec![0; rows * format.row_bytes(cols as u64).unwrap() as usize];
        (format.quantize.unwrap())(values, &mut bytes);
        Source { dtype, rows, cols, bytes: Arc::new(bytes), mapped: false, table: false, fails_at: usize::MAX }
    }
}

impl MatrixSource for Source {
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
    fn is_table(&self) -> bool {
        self.table
    }
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        if rows.contains(&self.fails_at) {
            return Err(Error::Io { path: "here".into(), what: "broken".into(), system_code: 5 });
        }
        let row = self.bytes.len() / self.rows;
        out.copy_from_slice(&self.bytes[rows.start * row..rows.end * row]);
        Ok(())
    }
    fn mapped(&self) -> Option<SharedBytes> {
        struct Bytes(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Bytes {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        self.mapped.then(|| SharedBytes { owner: Arc::new(Bytes(self.bytes.clone())), range: 0..self.bytes.len() })
    }
}

const HEADS: usize = 6;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 10;
const WIDTHS: Widths = Widths {
    hidden: 44,
    q: HEADS * HEAD_DIM,
    kv: KV_HEADS * HEAD_DIM,
    ffn: 172,
    vocab: 515,
    n_experts: 7,
    n_experts_used: 3,
    expert_ffn: 20,
};

fn width(act: Act) -> usize {
    match act {
        Act::X | Act::H | Act::O => WIDTHS.hidden,
        Act::Q | Act::A => WIDTHS.q,
        Act::K | Act::V => WIDTHS.kv,
        Act::G | Act::U => WIDTHS.ffn,
        Act::R => WIDTHS.n_experts,
    }
}

/// What is uploaded before an exec is made.
#[derive(Default)]
struct Model {
    sources: Vec<Source>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
}

impl Model {
    fn matrix(&mut self, rows: usize, cols: usize, seed: u64) -> (Weight, Vec<f32>) {
        let values = values(rows * cols, seed);
        self.sources.push(Source::new(quant::F32, rows, cols, &values));
        (Weight(self.sources.len() as u32 - 1), values)
    }
    fn vector(&mut self, n: usize, seed: u64) -> (Vector, Vec<f32>) {
        self.vectors.push(values(n, seed));
        (Vector(self.vectors.len() as u32 - 1), values(n, seed))
    }
    fn rope(&mut self, rope: Rope) -> RopeTable {
        self.ropes.push(rope);
        RopeTable(self.ropes.len() as u32 - 1)
    }

    fn backend(&self, threads: usize) -> Arc<CpuBackend> {
        let mut backend = CpuBackend::new(Arc::new(Pool::new(threads).unwrap()), Isa::detect());
        let sources: Vec<&dyn MatrixSource> = self.sources.iter().map(|s| s as &dyn MatrixSource).collect();
        let weights = backend.upload(&sources, &mut |_, _| Ok(())).unwrap();
        assert!(weights.iter().zip(0..).all(|(w, i)| *w == Weight(i)));
        self.vectors.iter().for_each(|v| _ = backend.upload_vector(v).unwrap());
        self.ropes.iter().for_each(|r| _ = backend.upload_rope(r).unwrap());
        Arc::new(backend)
    }

    /// Runs one step of `n` tokens on 1, 2 and 3 threads, in which everything must come out the same to the bit.
    /// `inputs` are set before `step`, `outputs` are returned.
    fn run(
        &self,
        n: usize,
        inputs: &[(Act, &[f32])],
        outputs: &[Act],
        step: impl Fn(&mut dyn Exec, &mut Batch) -> Result<()>,
    ) -> Vec<Vec<f32>> {
        let mut results: Vec<Vec<Vec<f32>>> = Vec::new();
        for threads in 1..=3 {
            let mut exec = self.backend(threads).new_exec(&WIDTHS, HEAD_DIM, n, n).unwrap();
            let spec = spec(2 * n + 30);
            let mut kv = self.backend(1).new_kv(&spec).unwrap();
            let (ids, positions) = (ids(n), positions(n));
            let (slots, wanted) = (vec![0; n], (0..n as u32).collect::<Vec<_>>());
            let mut kvs = [kv.as_mut()];
            let mut batch = Batch { ids: &ids, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &wanted };
            exec.begin(&batch).unwrap();
            for (act, values) in inputs {
                exec.write(*act, values).unwrap();
            }
            step(exec.as_mut(), &mut batch).unwrap();
            results.push(outputs.iter().map(|&act| read(exec.as_mut(), act, n)).collect());
            exec.end().unwrap();
        }
        assert!(results.iter().all(|r| *r == results[0]), "threads change the result");
        results.swap_remove(0)
    }
}

fn read(exec: &mut dyn Exec, act: Act, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; n * width(act)];
    exec.read(act, &mut out).unwrap();
    out
}

fn spec(capacity: usize) -> KvSpec {
    KvSpec {
        layers: 2,
        n_kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        capacity,
        k_type: quant::F32,
        v_type: quant::F32,
        rings: vec![],
    }
}

fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i * 7919 % WIDTHS.vocab as u32).collect()
}

fn positions(n: usize) -> Vec<u32> {
    (20..20 + n as u32).collect()
}

/// Few tokens, which one thread does alone, and many.
const COUNTS: [usize; 3] = [1, 5, 400];

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
    let mut model = Model::default();
    let (table, rows) = model.matrix(WIDTHS.vocab, WIDTHS.hidden, 1);
    let (learned, by_position) = model.matrix(500, WIDTHS.hidden, 2);
    for n in COUNTS {
        let got = model.run(n, &[], &[Act::X], |exec, batch| {
            exec.embed(batch, table, 1.5)?;
            exec.embed_positions(batch, learned)
        });
        let row = |table: &[f32], i: u32| wide(&table[i as usize * WIDTHS.hidden..][..WIDTHS.hidden]);
        let expected: Vec<f64> = ids(n)
            .iter()
            .zip(positions(n))
            .flat_map(|(&id, p)| {
                row(&rows, id).into_iter().zip(row(&by_position, p)).map(|(x, y)| 1.5 * x + y).collect::<Vec<_>>()
            })
            .collect();
        assert_near("embed", &got[0], &expected, 1e-6);
    }
}

#[test]
fn norms_and_sums() {
    let mut model = Model::default();
    let (weight, w) = model.vector(WIDTHS.hidden, 1);
    let (bias, b) = model.vector(WIDTHS.hidden, 2);
    let (head_weight, head_w) = model.vector(HEAD_DIM, 3);
    let rms = Norm { kind: NormKind::Rms, weight, bias: None, eps: 1e-5, group: WIDTHS.hidden };
    let layer = Norm { kind: NormKind::Layer, bias: Some(bias), ..rms };
    let heads = Norm { weight: head_weight, group: HEAD_DIM, ..rms };
    let rms_of = |x: &[f64], w: &[f32]| -> Vec<f64> {
        let scale = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-5f32 as f64).sqrt();
        x.iter().zip(w).map(|(x, &w)| x * scale * f64::from(w)).collect()
    };
    let layer_of = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (variance + 1e-5f32 as f64).sqrt();
        x.iter().zip(&w).zip(&b).map(|((x, &w), &b)| (x - mean) * scale * f64::from(w) + f64::from(b)).collect()
    };
    for n in COUNTS {
        let (x, o, q) = (values(n * WIDTHS.hidden, 4), values(n * WIDTHS.hidden, 5), values(n * WIDTHS.q, 6));
        let inputs = [(Act::X, &x[..]), (Act::O, &o), (Act::Q, &q)];
        let got = model.run(n, &inputs, &[Act::H, Act::O, Act::Q], |exec, _| {
            exec.norm(&rms, Act::X, Act::H)?;
            exec.norm(&layer, Act::O, Act::O)?;
            exec.norm(&heads, Act::Q, Act::Q)
        });
        let expected = |x: &[f32], group: usize, f: &dyn Fn(&[f64]) -> Vec<f64>| -> Vec<f64> {
            x.chunks(group).flat_map(|x| f(&wide(x))).collect()
        };
        assert_near("rms norm", &got[0], &expected(&x, WIDTHS.hidden, &|x| rms_of(x, &w)), 1e-5);
        assert_near("layer norm", &got[1], &expected(&o, WIDTHS.hidden, &layer_of), 1e-5);
        assert_near("norm of heads", &got[2], &expected(&q, HEAD_DIM, &|x| rms_of(x, &head_w)), 1e-5);

        let sum: Vec<f64> = x.iter().zip(&o).map(|(&x, &o)| f64::from(x) + 0.5 * f64::from(o)).collect();
        let got = model.run(n, &inputs, &[Act::X], |exec, _| exec.add(Act::X, Act::O, 0.5));
        assert_near("add", &got[0], &sum, 1e-6);
        let got = model.run(n, &inputs, &[Act::X, Act::H], |exec, _| exec.add_norm(Act::X, Act::O, 0.5, &rms, Act::H));
        assert_near("add_norm's sum", &got[0], &sum, 1e-6);
        let expected: Vec<f64> = sum.chunks(WIDTHS.hidden).flat_map(|x| rms_of(x, &w)).collect();
        assert_near("add_norm", &got[1], &expected, 1e-5);
        // In place.
        let got = model.run(n, &inputs, &[Act::X], |exec, _| exec.add_norm(Act::X, Act::O, 0.5, &rms, Act::X));
        assert_near("add_norm in place", &got[0], &expected, 1e-5);
    }
}

#[test]
fn projections() {
    let mut model = Model::default();
    let (bias, b) = model.vector(WIDTHS.kv, 9);
    let outs = [Act::Q, Act::K, Act::V, Act::G, Act::R];
    let matrices: Vec<_> = outs.iter().zip(1..).map(|(&out, i)| model.matrix(width(out), WIDTHS.hidden, i)).collect();
    for n in COUNTS {
        let h = values(n * WIDTHS.hidden, 10);
        let projections: Vec<Projection> = outs
            .iter()
            .zip(&matrices)
            .map(|(&out, m)| Projection { weight: m.0, bias: (out == Act::K).then_some(bias), out })
            .collect();
        let got = model.run(n, &[(Act::H, &h)], &outs, |exec, _| exec.project(Act::H, &projections));
        for ((out, got), (_, w)) in outs.iter().zip(&got).zip(&matrices) {
            let mut expected = product(&wide(&h), w, WIDTHS.hidden);
            if *out == Act::K {
                expected.iter_mut().zip(b.iter().cycle()).for_each(|(x, &b)| *x += f64::from(b));
            }
            assert_near("project", got, &expected, 1e-5);
        }
    }
}

#[test]
fn feed_forward_blocks_narrower_than_the_widest() {
    let mut model = Model::default();
    let (up, w_up) = model.matrix(100, WIDTHS.hidden, 1);
    let (gate, w_gate) = model.matrix(100, WIDTHS.hidden, 2);
    let (down, w_down) = model.matrix(WIDTHS.hidden, 100, 3);
    for n in COUNTS {
        let h = values(n * WIDTHS.hidden, 4);
        let projection = |weight, out| Projection { weight, bias: None, out };
        let got = model.run(n, &[(Act::H, &h)], &[Act::O], |exec, _| {
            exec.project(Act::H, &[projection(gate, Act::G), projection(up, Act::U)])?;
            exec.glu(Activation::Silu, true)?;
            exec.project(Act::G, &[projection(down, Act::O)])
        });
        let (g, u) = (product(&wide(&h), &w_gate, WIDTHS.hidden), product(&wide(&h), &w_up, WIDTHS.hidden));
        let inner: Vec<f64> = g.iter().zip(&u).map(|(&g, &u)| silu(g) * u).collect();
        assert_near("feed forward", &got[0], &product(&inner, &w_down, 100), 1e-4);
    }
}

#[test]
fn activations() {
    for n in COUNTS {
        let (g, u) = (values(n * WIDTHS.ffn, 1), values(n * WIDTHS.ffn, 2));
        let inputs = [(Act::G, &g[..]), (Act::U, &u)];
        let got = Model::default().run(n, &inputs, &[Act::G], |exec, _| exec.glu(Activation::Silu, true));
        let expected: Vec<f64> = g.iter().zip(&u).map(|(&g, &u)| silu(f64::from(g)) * f64::from(u)).collect();
        assert_near("glu", &got[0], &expected, 1e-6);
        let got = Model::default().run(n, &inputs, &[Act::G], |exec, _| exec.glu(Activation::Relu, false));
        let expected: Vec<f64> = g.iter().map(|&g| f64::from(g.max(0.0))).collect();
        assert_near("activation", &got[0], &expected, 0.0);
    }
}

#[test]
fn rotary_embedding() {
    for (pairs, n_pairs) in
        [(RopePairs::Halves, 5), (RopePairs::Halves, 3), (RopePairs::Adjacent, 5), (RopePairs::Adjacent, 4)]
    {
        let inv_freq: Vec<f64> = (0..n_pairs).map(|i| 0.9f64.powi(i * i)).collect();
        let mut model = Model::default();
        model.rope(Rope { pairs, inv_freq: vec![1.0; 5], magnitude: 1.0 });
        let table = model.rope(Rope { pairs, inv_freq: inv_freq.clone(), magnitude: 1.25 });
        for n in COUNTS {
            let (q, k) = (values(n * WIDTHS.q, 1), values(n * WIDTHS.kv, 2));
            let got = model.run(n, &[(Act::Q, &q), (Act::K, &k)], &[Act::Q, Act::K], |exec, _| exec.rope(table));
            for (x, got, heads) in [(&q, &got[0], HEADS), (&k, &got[1], KV_HEADS)] {
                let mut expected = wide(x);
                for (i, head) in expected.chunks_mut(HEAD_DIM).enumerate() {
                    let position = f64::from(positions(n)[i / heads]);
                    for (j, f) in inv_freq.iter().enumerate() {
                        let (a, b) = match pairs {
                            RopePairs::Halves => (j, j + inv_freq.len()),
                            RopePairs::Adjacent => (2 * j, 2 * j + 1),
                        };
                        let (sin, cos) = (position * f).sin_cos();
                        (head[a], head[b]) =
                            (1.25 * (head[a] * cos - head[b] * sin), 1.25 * (head[b] * cos + head[a] * sin));
                    }
                }
                assert_near("rope", got, &expected, 1e-6);
            }
        }
    }
}

#[test]
fn attention_over_two_sequences() {
    let backend = Model::default().backend(2);
    let mut exec = backend.clone().new_exec(&WIDTHS, HEAD_DIM, 200, 1).unwrap();
    let mut caches: Vec<Box<dyn Kv>> = (0..2).map(|_| backend.new_kv(&spec(150)).unwrap()).collect();
    let lens = [120usize, 30];
    let (k, v) = (values(150 * WIDTHS.kv, 1), values(150 * WIDTHS.kv, 2));
    let q = values(150 * WIDTHS.q, 3);
    let attention = Attention { layer: 1, scale: 0.4, softcap: 0.0, window: 9 };
    let [a, b] = &mut caches[..] else { unreachable!() };
    let mut kvs: [&mut dyn Kv; 2] = [a.as_mut(), b.as_mut()];
    let positions: Vec<u32> = (0..lens[0] as u32).chain(0..lens[1] as u32).collect();
    let slots: Vec<u32> = (0..150).map(|t| u32::from(t >= lens[0])).collect();
    let mut batch = Batch { ids: &[0; 150], positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &[] };
    exec.begin(&batch).unwrap();
    for (act, values) in [(Act::Q, &q), (Act::K, &k), (Act::V, &v)] {
        exec.write(act, values).unwrap();
    }
    exec.kv_write(&mut batch, 1).unwrap();
    exec.attend(&batch, &attention).unwrap();
    let got = read(exec.as_mut(), Act::A, 150);
    let mut expected = Vec::new();
    for t in 0..150 {
        let first = if t < lens[0] { 0 } else { lens[0] };
        let seen = first.max((t + 1).saturating_sub(9))..t + 1;
        for head in 0..HEADS {
            let row = |x: &[f32], s: usize| wide(&x[(s * KV_HEADS + head * KV_HEADS / HEADS) * HEAD_DIM..][..HEAD_DIM]);
            let q = wide(&q[(t * HEADS + head) * HEAD_DIM..][..HEAD_DIM]);
            let weights: Vec<f64> = seen
                .clone()
                .map(|s| (0.4f32 as f64 * q.iter().zip(row(&k, s)).map(|(q, k)| q * k).sum::<f64>()).exp())
                .collect();
            let sum: f64 = weights.iter().sum();
            expected.extend(
                (0..HEAD_DIM).map(|d| seen.clone().zip(&weights).map(|(s, w)| w / sum * row(&v, s)[d]).sum::<f64>()),
            );
        }
    }
    assert_near("attend", &got, &expected, 2e-6);
    exec.end().unwrap();
}

#[test]
fn experts() {
    let mut model = Model::default();
    let (n_experts, ffn, hidden) = (WIDTHS.n_experts, WIDTHS.expert_ffn, WIDTHS.hidden);
    // Experts of 20 and 44 rows: neither is a whole number of groups of 16.
    let (gate, w_gate) = model.matrix(n_experts * ffn, hidden, 1);
    let (up, w_up) = model.matrix(n_experts * ffn, hidden, 2);
    let (down, w_down) = model.matrix(n_experts * hidden, ffn, 3);
    let experts = Experts { gate, up, down, n_experts, activation: Activation::Silu };
    for (softmax_first, renormalise) in [(false, false), (true, false), (true, true)] {
        let routing = Routing { n_used: 3, softmax_first, renormalise };
        for n in COUNTS {
            let (h, scores) = (values(n * hidden, 4), values(n * n_experts, 5));
            let inputs = [(Act::H, &h[..]), (Act::R, &scores)];
            let got = model.run(n, &inputs, &[Act::O], |exec, _| {
                exec.route(&routing)?;
                exec.experts(&experts)
            });
            let mut expected = Vec::new();
            for (h, scores) in h.chunks(hidden).zip(scores.chunks(n_experts)) {
                let mut order: Vec<usize> = (0..n_experts).collect();
                order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
                let exp = |e: usize| f64::from(scores[e]).exp();
                let over = if softmax_first && !renormalise { &order[..] } else { &order[..3] };
                let sum: f64 = over.iter().map(|&e| exp(e)).sum();
                let mut row = vec![0.0; hidden];
                for &e in &order[..3] {
                    let rows = |w: &[f32], each: usize| w[e * each..(e + 1) * each].to_vec();
                    let g = product(&wide(h), &rows(&w_gate, ffn * hidden), hidden);
                    let u = product(&wide(h), &rows(&w_up, ffn * hidden), hidden);
                    let inner: Vec<f64> = g.iter().zip(&u).map(|(&g, &u)| silu(g) * u).collect();
                    let out = product(&inner, &rows(&w_down, hidden * ffn), ffn);
                    row.iter_mut().zip(out).for_each(|(x, y)| *x += exp(e) / sum * y);
                }
                expected.extend(row);
            }
            assert_near("experts", &got[0], &expected, 2e-5);
        }
    }
}

#[test]
fn logits_of_some_tokens() {
    let mut model = Model::default();
    let (head, w) = model.matrix(WIDTHS.vocab, WIDTHS.hidden, 1);
    let (bias, b) = model.vector(WIDTHS.vocab, 2);
    let h = values(9 * WIDTHS.hidden, 3);
    for softcap in [0.0, 3.0] {
        let mut exec = model.backend(2).new_exec(&WIDTHS, HEAD_DIM, 9, 3).unwrap();
        let mut kv = model.backend(1).new_kv(&spec(40)).unwrap();
        let (ids, positions) = (ids(9), positions(9));
        let mut kvs = [kv.as_mut()];
        let batch = Batch { ids: &ids, positions: &positions, slots: &[0; 9], kvs: &mut kvs, outputs: &[0, 4, 8] };
        exec.begin(&batch).unwrap();
        exec.write(Act::H, &h).unwrap();
        exec.logits(&batch, head, Some(bias), 0.5, softcap).unwrap();
        exec.end().unwrap();
        for (i, t) in [0, 4, 8].into_iter().enumerate() {
            let x = &wide(&h)[t * WIDTHS.hidden..][..WIDTHS.hidden];
            let expected: Vec<f64> = product(x, &w, WIDTHS.hidden)
                .iter()
                .zip(&b)
                .map(|(x, &b)| 0.5 * (x + f64::from(b)))
                .map(|x| if softcap == 0.0 { x } else { f64::from(softcap) * (x / f64::from(softcap)).tanh() })
                .collect();
            let mut got = vec![0.0; WIDTHS.vocab];
            exec.read_logits(i, &mut got).unwrap();
            assert_near("logits", &got, &expected, 1e-5);
            let best = (0..got.len()).rev().max_by(|&a, &b| got[a].total_cmp(&got[b])).unwrap();
            assert_eq!(exec.argmax(i).unwrap(), best as u32);
        }
        assert!(exec.argmax(3).is_err());
        assert!(matches!(exec.read_logits(0, &mut [0.0; 3]), Err(Error::BufferTooSmall { needed: 515, capacity: 3 })));
    }
}

#[test]
fn what_does_not_fit_is_an_error_and_the_next_step_is_clean() {
    let mut model = Model::default();
    let (square, _) = model.matrix(WIDTHS.hidden, WIDTHS.hidden, 1);
    let (vector, _) = model.vector(3, 1);
    let backend = model.backend(2);
    let mut exec = backend.clone().new_exec(&WIDTHS, HEAD_DIM, 4, 2).unwrap();
    let mut kv = backend.new_kv(&spec(10)).unwrap();
    let mut other = backend.new_kv(&KvSpec { head_dim: 12, ..spec(10) }).unwrap();
    let norm = Norm { kind: NormKind::Rms, weight: vector, bias: None, eps: 1e-5, group: 3 };
    assert!(exec.norm(&norm, Act::X, Act::H).is_err(), "no step is open");
    let mut begin = |ids: &[u32], positions: &[u32], slots: &[u32], outputs: &[u32], wrong: bool| {
        let mut kvs = [if wrong { other.as_mut() } else { kv.as_mut() }];
        let result = exec.begin(&Batch { ids, positions, slots, kvs: &mut kvs, outputs });
        exec.end().unwrap();
        result
    };
    assert!(begin(&[], &[], &[], &[], false).is_err());
    assert!(begin(&[0; 5], &[0, 1, 2, 3, 4], &[0; 5], &[], false).is_err());
    assert!(begin(&[0; 2], &[0], &[0; 2], &[], false).is_err());
    assert!(begin(&[0; 2], &[0, 1], &[0, 1], &[], false).is_err());
    assert!(begin(&[0; 3], &[0, 1, 2], &[0; 3], &[0, 1, 2], false).is_err());
    assert!(begin(&[0; 2], &[0, 1], &[0; 2], &[1, 0], false).is_err());
    assert!(begin(&[0; 2], &[0, 1], &[0; 2], &[2], false).is_err());
    assert!(matches!(begin(&[0], &[10], &[0], &[], false), Err(Error::ContextFull { .. })));
    assert!(matches!(begin(&[0], &[0], &[0], &[], true), Err(Error::Mismatch(_))));
    assert!(begin(&[0], &[9], &[0], &[0], false).is_ok());

    let mut kvs = [kv.as_mut()];
    let mut batch = Batch { ids: &[44], positions: &[0], slots: &[0], kvs: &mut kvs, outputs: &[0] };
    exec.begin(&batch).unwrap();
    let projection = |weight, out| Projection { weight, bias: None, out };
    assert!(exec.embed(&batch, square, 1.0).is_err(), "an id beyond the table");
    assert!(exec.embed(&batch, Weight(7), 1.0).is_err());
    assert!(exec.norm(&norm, Act::X, Act::H).is_err());
    assert!(exec.add(Act::X, Act::X, 1.0).is_err());
    assert!(exec.add(Act::X, Act::Q, 1.0).is_err());
    assert!(exec.project(Act::X, &[projection(square, Act::X)]).is_err());
    assert!(exec.project(Act::X, &[projection(square, Act::H), projection(square, Act::H)]).is_err());
    assert!(exec.project(Act::X, &[projection(square, Act::K)]).is_err());
    assert!(exec.project(Act::Q, &[projection(square, Act::H)]).is_err());
    assert!(exec.rope(RopeTable(0)).is_err());
    assert!(exec.kv_write(&mut batch, 2).is_err());
    assert!(exec.attend(&batch, &Attention { layer: 2, scale: 1.0, softcap: 0.0, window: 0 }).is_err());
    assert!(exec.route(&Routing { n_used: 8, softmax_first: false, renormalise: false }).is_err());
    assert!(exec.logits(&batch, square, None, 1.0, 0.0).is_err());
    // Begun again without an end.
    exec.begin(&batch).unwrap();
    exec.project(Act::X, &[projection(square, Act::H)]).unwrap();
    exec.end().unwrap();
    assert!(backend.clone().new_exec(&WIDTHS, 7, 4, 2).is_err());
    assert!(backend.new_exec(&Widths { hidden: usize::MAX, ..WIDTHS }, HEAD_DIM, 4, 2).is_err());
}

/// Handles, and what was reported on the way.
type Uploaded = (Vec<Weight>, Vec<(u64, u64)>);

#[test]
fn uploads() {
    let raw = values(700 * 64, 1);
    for threads in 1..=3 {
        let mut sources: Vec<Source> =
            [quant::F32, quant::Q8_0, quant::Q4_1, quant::F16].map(|dtype| Source::new(dtype, 700, 64, &raw)).into();
        let mut backend = CpuBackend::new(Arc::new(Pool::new(threads).unwrap()), Isa::detect());
        // Of 16-bit floats only tables keep every bit, and with it every byte.
        let smaller = backend.upload_bytes(&[&sources[3]]).unwrap();
        sources[3].table = true;
        let whole = backend.upload_bytes(&[&sources[3]]).unwrap();
        assert!(smaller < whole && whole >= sources[3].bytes.len() as u64);
        let reports = |backend: &mut CpuBackend, sources: &[Source]| -> Result<Uploaded> {
            let sources: Vec<&dyn MatrixSource> = sources.iter().map(|s| s as &dyn MatrixSource).collect();
            let mut reports = Vec::new();
            let weights = backend.upload(&sources, &mut |done, all| {
                reports.push((done, all));
                Ok(())
            })?;
            Ok((weights, reports))
        };
        // An error of a reader and one of the report both end the upload.
        sources[1].fails_at = 650;
        assert!(matches!(reports(&mut backend, &sources), Err(Error::Io { .. })));
        sources[1].fails_at = usize::MAX;
        let refs: Vec<&dyn MatrixSource> = sources.iter().map(|s| s as &dyn MatrixSource).collect();
        assert!(matches!(backend.upload(&refs, &mut |_, _| Err(Error::Cancelled)), Err(Error::Cancelled)));
        let bytes = backend.upload_bytes(&refs).unwrap();
        drop(refs);
        assert_eq!(backend.weight_bytes(), 0);

        let (weights, progress) = reports(&mut backend, &sources).unwrap();
        assert!(progress.is_sorted() && progress[0].0 == 0);
        let (done, all) = *progress.last().unwrap();
        assert!(done == all && all <= bytes && bytes < all + 64 * 4);
        assert!(backend.weight_bytes() >= bytes);
        // The same matrices, read where they are mapped.
        let held = backend.weight_bytes();
        sources.iter_mut().for_each(|s| s.mapped = true);
        let (mapped, _) = reports(&mut backend, &sources).unwrap();
        assert!(backend.weight_bytes() <= held + 1);
        assert_eq!(backend.upload_bytes(&[&sources[0]]).unwrap(), 0);

        let mut exec =
            Arc::new(backend).new_exec(&Widths { hidden: 64, vocab: 700, ..WIDTHS }, HEAD_DIM, 1, 1).unwrap();
        let kv_backend = CpuBackend::new(Arc::new(Pool::new(1).unwrap()), Isa::Scalar);
        let mut kv = kv_backend.new_kv(&spec(1)).unwrap();
        for ((weight, mapped), source) in weights.iter().zip(&mapped).zip(&sources) {
            let mut results = Vec::new();
            for weight in [weight, mapped] {
                let mut kvs = [kv.as_mut()];
                let batch = Batch { ids: &[699], positions: &[0], slots: &[0], kvs: &mut kvs, outputs: &[0] };
                exec.begin(&batch).unwrap();
                exec.embed(&batch, *weight, 1.0).unwrap();
                let mut row = vec![0.0; 64];
                exec.read(Act::X, &mut row).unwrap();
                let mut expected = vec![0.0; 64];
                let row_bytes = source.bytes.len() / 700;
                quant::dequantize(source.dtype, &source.bytes[699 * row_bytes..], &mut expected).unwrap();
                assert_eq!(row, expected);
                exec.write(Act::H, &row).unwrap();
                exec.logits(&batch, *weight, None, 1.0, 0.0).unwrap();
                let mut logits = vec![0.0; 700];
                exec.read_logits(0, &mut logits).unwrap();
                // A row is most like itself.
                assert_eq!(exec.argmax(0).unwrap(), 699);
                results.push(logits);
                exec.end().unwrap();
            }
            assert_eq!(results[0], results[1]);
        }
    }
}
