//! The ops of vision and audio encoders compared with plain float64 computations: odd sizes and several sequences in a
//! step, bit-identical on one and several threads with every instruction set.

use std::ops::Range;

use realizar::cpu::kernels::Isa;
use realizar::device::{Batch, Sequence, StepBudget};
use realizar::graph::op::{
    Activation, Attend, EmbedNgrams, Index, KvLayerId, Mask, NgramHead, Norm, NormKind, Op, RopeChoice, RopeTable,
    TensorId, Vector, Weight,
};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::{MEDIA_ROW, StepInputs};
use realizar::graph::weights::{Rope, RopePairs};

use super::{COUNTS, assert_near, product, wide};
use crate::support::ops::{LAYER, Model, VOCAB, project, values};

/// The activations `outs` after one step of sequences that begin with it.
fn run(model: &mut Model, inputs: StepInputs, write: &[(TensorId, &[f32])], outs: &[TensorId]) -> Vec<Vec<f32>> {
    let (n, ops) = (inputs.ids.len(), model.program.ops.len());
    let keeps = model.program.ops.iter().any(|op| matches!(op, Op::KeepOutputs { .. }));
    let rows = if keeps { inputs.outputs.len() } else { n };
    let mut results: Vec<Vec<Vec<f32>>> = Vec::new();
    for (isa, threads) in Isa::available().into_iter().flat_map(|isa| (1..=3).map(move |threads| (isa, threads))) {
        model.isa = Some(isa);
        let backend = model.load(threads);
        let spec = SequenceSpec { max_step: n, ..model.spec(n) };
        let mut states: Vec<Sequence> =
            (0..=inputs.sequences[n - 1]).map(|_| backend.new_sequence(&spec).unwrap()).collect();
        let batch = &mut Batch { inputs, sequences: &mut states.iter_mut().collect::<Vec<_>>() };
        let mut executor = model.executor(&backend, n, n);
        executor.begin(batch, 0..ops).unwrap();
        write.iter().for_each(|(tensor, values)| executor.write(*tensor, values).unwrap());
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        results.push(outs.iter().map(|&tensor| model.read(&mut executor, tensor, rows)).collect());
        executor.end().unwrap();
    }
    assert!(results.iter().all(|r| *r == results[0]), "threads or instructions change the result");
    results.swap_remove(0)
}

/// The positions and numbers of `n` tokens in two sequences, or in one.
fn places(n: usize) -> (Vec<u32>, Vec<u32>) {
    let first = n - n / 3;
    (0..n as u32).map(|t| if t < first as u32 { (t, 0) } else { (t - first as u32, 1) }).unzip()
}

#[test]
fn rows_of_media_stand_in_place_of_tokens() {
    const WIDTH: usize = 19;
    let mut model = Model::new(LAYER);
    let ((table, rows), (other, others)) = (model.matrix(VOCAB, WIDTH, 1), model.matrix(VOCAB, 7, 2));
    let [x, token, y] = model.tensors([WIDTH, 7, WIDTH]);
    let mut model = model.finish(vec![
        Op::Embed { table, rows: VOCAB, index: Index::Id, scale: 1.5, out: x },
        Op::Embed { table: other, rows: VOCAB, index: Index::Token, scale: 2.0, out: token },
        Op::AddMedia { x: y, part: 2 },
        Op::AddMedia { x: y, part: 0 },
    ]);
    assert_eq!((model.program.max_ids, model.program.media_width()), (VOCAB, 3 * WIDTH));
    for n in COUNTS {
        let (positions, slots) = places(n);
        let is_row = |t: usize| t % 7 == 3 || (20..300).contains(&t);
        let ids: Vec<u32> = (0..n).map(|t| if is_row(t) { MEDIA_ROW } else { (t * 61 % VOCAB) as u32 }).collect();
        // Wider than what is read.
        let all: Vec<Vec<f32>> = (0..n).filter(|t| is_row(*t)).map(|t| values(3 * WIDTH + 4, t as u64)).collect();
        let media: Vec<&[f32]> = all.iter().map(Vec::as_slice).collect();
        let given = values(n * WIDTH, 5);
        let inputs =
            StepInputs { ids: &ids, positions: &positions, sequences: &slots, media: &media, ..Default::default() };
        let got = run(&mut model, inputs, &[(y, &given)], &[x, token, y]);
        let (mut expected, mut rest) = ([vec![], vec![], wide(&given)], wide(&all.concat()).into_iter());
        for (t, &id) in ids.iter().enumerate() {
            let of = |table: &[f32], width: usize, id: u32, scale: f64| -> Vec<f64> {
                wide(&table[id as usize * width..][..width]).iter().map(|x| scale * x).collect()
            };
            if id != MEDIA_ROW {
                expected[0].extend(of(&rows, WIDTH, id, 1.5));
                expected[1].extend(of(&others, 7, id, 2.0));
                continue;
            }
            let row: Vec<f64> = rest.by_ref().take(3 * WIDTH + 4).collect();
            expected[0].extend(&row[..WIDTH]);
            expected[1].extend(of(&others, 7, 0, 2.0));
            for (i, y) in expected[2][t * WIDTH..][..WIDTH].iter_mut().enumerate() {
                *y += row[2 * WIDTH + i] + row[i];
            }
        }
        for (name, (got, expected)) in ["by id", "by token", "added"].iter().zip(got.iter().zip(&expected)) {
            assert_near(name, got, expected, 2e-7);
        }
    }
}

#[test]
fn heads_turn_by_time_row_and_column() {
    for (pairs, axes, keeps) in [
        (RopePairs::Halves, vec![0, 1, 2, 2, 1], false),
        (RopePairs::Adjacent, vec![0, 1, 2, 0, 1, 2, 0], false),
        (RopePairs::Halves, vec![1, 1, 2], true),
        (RopePairs::Adjacent, vec![], true),
    ] {
        let n_pairs = if axes.is_empty() { 4 } else { axes.len() };
        let (dim, inv_freq) = (2 * n_pairs + 3, (0..n_pairs).map(|i| 0.7f64.powi(i as i32)).collect());
        let rotation = Rope { pairs, inv_freq, axes, magnitude: 1.25, position_offset: 0 };
        let mut model = Model::new(LAYER);
        let table = model.rope(rotation.clone());
        let [q, k, kept] = model.tensors([3 * dim, dim, 3 * dim]);
        let rope = RopeChoice { table, long: None };
        let ops = match keeps {
            true => vec![
                Op::KeepOutputs { moves: [[q, kept]].into() },
                Op::Rope { rope, head_dim: dim, first: 0, q: kept, k: None },
            ],
            false => vec![Op::Rope { rope, head_dim: dim, first: 0, q, k: Some(k) }],
        };
        let mut model = model.finish(ops);
        for n in COUNTS {
            let (positions, slots) = places(n);
            let rope_positions: Vec<[u32; 3]> = (0..n as u32).map(|t| [5 + t / 3, t * 7 % 50, 900 + t % 11]).collect();
            let outputs: Vec<u32> = (0..n as u32).filter(|t| !keeps || t % 3 == 0).collect();
            let (ids, vq, vk) = (vec![0; n], values(n * 3 * dim, 1), values(n * dim, 2));
            let inputs = StepInputs {
                ids: &ids,
                positions: &positions,
                sequences: &slots,
                outputs: &outputs,
                rope_positions: &rope_positions,
                ..Default::default()
            };
            let (write, outs) = ([(q, &vq[..]), (k, &vk)], if keeps { vec![kept] } else { vec![q, k] });
            let got = run(&mut model, inputs, &write, &outs);
            for (heads, (got, x)) in [3, 1].into_iter().zip(got.iter().zip([&vq, &vk])) {
                let rows = outputs.iter().map(|t| (*t as usize, &x[*t as usize * heads * dim..][..heads * dim]));
                let expected: Vec<f64> =
                    rows.flat_map(|(t, row)| rotated(row, dim, &rotation, rope_positions[t])).collect();
                assert_near("rotated heads", got, &expected, 1e-6);
            }
            // RoPE positions that are the positions change no bit.
            let alike: Vec<[u32; 3]> = positions.iter().map(|p| [*p; 3]).collect();
            let [by_rope_positions, by_positions] = [&alike[..], &[]]
                .map(|rope_positions| run(&mut model, StepInputs { rope_positions, ..inputs }, &write, &outs));
            assert!(by_rope_positions == by_positions && by_rope_positions != got);
        }
    }
}

fn rotated(row: &[f32], dim: usize, rope: &Rope, position: [u32; 3]) -> Vec<f64> {
    let mut x = wide(row);
    rotate_row(&mut x, dim, rope, position);
    x
}

/// Applies RoPE to each head of a row at the positions of its token.
fn rotate_row(row: &mut [f64], dim: usize, rope: &Rope, position: [u32; 3]) {
    for head in row.chunks_mut(dim) {
        for (i, f) in rope.inv_freq.iter().enumerate() {
            let (a, b) = match rope.pairs {
                RopePairs::Halves => (i, i + rope.inv_freq.len()),
                RopePairs::Adjacent => (2 * i, 2 * i + 1),
            };
            let position = position[rope.axes.get(i).map_or(0, |axis| *axis as usize)];
            let ((sin, cos), m) = ((f64::from(position) * f).sin_cos(), f64::from(rope.magnitude));
            (head[a], head[b]) = (m * (head[a] * cos - head[b] * sin), m * (head[b] * cos + head[a] * sin));
        }
    }
}

#[test]
fn means_of_groups() {
    for (groups, width) in [(1, 5), (4, 33), (16, 11), (9, 48)] {
        let mut model = Model::new(LAYER);
        let [x, out] = model.tensors([groups * width, width]);
        let mut model = model.finish(vec![Op::Mean { x, groups, out }]);
        for n in COUNTS {
            let (ids, (positions, slots)) = (vec![0; n], places(n));
            let vx = values(n * groups * width, 1);
            let inputs = StepInputs { ids: &ids, positions: &positions, sequences: &slots, ..Default::default() };
            let got = run(&mut model, inputs, &[(x, &vx)], &[out]);
            let mean = |row: &[f32], i: usize| row.chunks(width).map(|x| f64::from(x[i])).sum::<f64>() / groups as f64;
            let rows = vx.chunks(groups * width);
            let expected: Vec<f64> = rows.flat_map(|row| (0..width).map(move |i| mean(row, i))).collect();
            assert_near("means", &got[0], &expected, 1e-6);
        }
    }
}

/// `softmax(scale * q k^T) v` of query `t` over the keys that it sees.
fn attended(
    [q, k, v]: [&[f64]; 3],
    [heads, kv, dim]: [usize; 3],
    scale: f64,
    t: usize,
    sees: &dyn Fn(usize) -> bool,
) -> Vec<f64> {
    let seen: Vec<usize> = (0..k.len() / (kv * dim)).filter(|s| sees(*s)).collect();
    let head = |head: usize| {
        let row = |x: &'_ [f64], s: usize| (s * kv + head * kv / heads) * dim..x.len();
        let q = &q[(t * heads + head) * dim..][..dim];
        let weights: Vec<f64> = seen
            .iter()
            .map(|&s| (scale * q.iter().zip(&k[row(k, s)]).map(|(q, k)| q * k).sum::<f64>()).exp())
            .collect();
        let (sum, mut out) = (weights.iter().sum::<f64>(), vec![0.0; dim]);
        for (&s, weight) in seen.iter().zip(&weights) {
            out.iter_mut().zip(&v[row(v, s)]).for_each(|(out, v)| *out += weight / sum * v);
        }
        out
    };
    (0..heads).flat_map(head).collect()
}

/// The picture of a sequence that a position belongs to.
fn picture(pictures: &[Range<u32>], position: u32) -> Option<&Range<u32>> {
    pictures.iter().find(|picture| picture.contains(&position))
}

#[test]
fn tokens_see_their_spans() {
    for (shape, mask, keeps, n) in [
        ([6, 2, 10], Mask::Causal, false, 150),
        ([5, 2, 96], Mask::Window(9), false, 333),
        ([1, 1, 72], Mask::Spans, false, 700),
        ([4, 4, 80], Mask::All, false, 150),
        ([9, 3, 64], Mask::Window(40), true, 600),
        ([3, 1, 33], Mask::Causal, true, 90),
        ([2, 2, 16], Mask::Spans, false, 400),
        ([2, 1, 16], Mask::Spans, false, 1),
        ([4, 2, 32], Mask::Source, false, 400),
        ([3, 3, 16], Mask::Source, true, 90),
        ([2, 2, 48], Mask::AfterSpan, true, 333),
    ] {
        let [heads, kv, dim] = shape;
        let mut model = Model::new(KvLayer::new(kv, dim, 0));
        let [q, k, v, kept, a] = model.tensors([heads, kv, kv, heads, heads].map(|heads| heads * dim));
        let (layer, scale) = (KvLayerId(0), 1.3 / (dim as f32).sqrt());
        let mut ops = vec![Op::StoreKv { layer, k, v: Some(v) }];
        if keeps {
            ops.push(Op::KeepOutputs { moves: [[q, kept]].into() });
        }
        ops.push(Op::Attend(Attend { mask, ..Attend::new(layer, if keeps { kept } else { q }, a, scale) }));
        let mut model = model.finish(ops);
        // Two of them without a token between them, and one up to the end.
        let (positions, slots) = places(n);
        let of = |t: usize| [vec![4..30, 30..77, 100..300], vec![0..7, 20..n as u32 / 3]][slots[t] as usize].clone();
        let spans: Vec<[u32; 2]> = (0..n)
            .map(|t| match picture(&of(t), positions[t]) {
                Some(picture) => {
                    [picture.start, picture.end.min(if slots[t] == 0 { (n - n / 3) as u32 } else { n as u32 / 3 })]
                }
                None => [0, 0],
            })
            .collect();
        let outputs: Vec<u32> = (0..n as u32).filter(|t| !keeps || t % 5 == 1).collect();
        let (ids, [vq, vk, vv]) =
            (vec![0; n], [(heads, 1), (kv, 2), (kv, 3)].map(|(h, seed)| values(n * h * dim, seed)));
        let inputs = StepInputs {
            ids: &ids,
            positions: &positions,
            sequences: &slots,
            outputs: &outputs,
            spans: &spans,
            ..Default::default()
        };
        let write = [(q, &vq[..]), (k, &vk), (v, &vv)];
        let got = run(&mut model, inputs, &write, &[a]);
        let sees = |t: usize, s: usize| {
            let (later, near) = (s > t, |n: u32| t < s + n as usize);
            let own = picture(&of(t), positions[t]).cloned();
            let together = own.clone().is_some_and(|picture| picture.contains(&positions[s]));
            slots[s] == slots[t]
                && match mask {
                    Mask::Window(n) => {
                        if later {
                            together
                        } else {
                            near(n)
                        }
                    }
                    Mask::Spans => own.is_none() || together,
                    Mask::All => true,
                    Mask::Source if own.is_some() => together,
                    Mask::AfterSpan if own.is_some() => s == t,
                    Mask::Source | Mask::AfterSpan => !later,
                    _ => !later || together,
                }
        };
        let (q, k, v) = (wide(&vq), wide(&vk), wide(&vv));
        let rows = outputs.iter().map(|t| *t as usize);
        let expected: Vec<f64> =
            rows.flat_map(|t| attended([&q, &k, &v], shape, f64::from(scale), t, &|s| sees(t, s))).collect();
        assert_near(&format!("{shape:?} {mask:?}"), &got[0], &expected, 3e-6);
        // Spans of no positions are none.
        let none = vec![[0, 0]; n];
        let [empty, absent] =
            [&none[..], &[]].map(|spans| run(&mut model, StepInputs { spans, ..inputs }, &write, &[a]));
        assert!(empty == absent && (n == 1 || (empty == got) == (mask == Mask::All)));
    }
}

#[test]
fn a_picture_behind_a_long_text_is_seen_in_both_directions() {
    // A ring, which has long forgotten the first positions, and a cache of all.
    for window in [50, 0] {
        let (past, n, shape) = (1300, 170, [4, 2, 24]);
        let [heads, kv, dim] = shape;
        let mut model = Model::new(KvLayer::new(kv, dim, window));
        let [q, k, v, a] = model.tensors([heads, kv, kv, heads].map(|heads| heads * dim));
        let (layer, scale) = (KvLayerId(0), 0.3);
        let attend = Attend { mask: Mask::window(window), ..Attend::new(layer, q, a, scale) };
        let mut model = model.finish(vec![Op::StoreKv { layer, k, v: Some(v) }, Op::Attend(attend)]);
        let all = past + n;
        let [vq, vk, vv] = [(heads, 1), (kv, 2), (kv, 3)].map(|(h, seed)| values(all * h * dim, seed));
        // The picture within the last step.
        let picture = (past + 20) as u32..(past + 160) as u32;
        let mut results = Vec::new();
        for (isa, threads) in Isa::available().into_iter().flat_map(|isa| [(isa, 1), (isa, 3)]) {
            model.isa = Some(isa);
            let backend = model.load(threads);
            let mut executor = model.executor(&backend, n, 0);
            let spec = SequenceSpec { max_step: n, ..model.spec(2000) };
            assert_eq!(spec.kept(0) < all, window > 0);
            let mut state = backend.new_sequence(&spec).unwrap();
            while state.len() < all {
                let first = state.len();
                let n = if first < past { 100 } else { n };
                let positions: Vec<u32> = (first as u32..).take(n).collect();
                let span = |p: &u32| if picture.contains(p) { [picture.start, picture.end] } else { [0; 2] };
                let spans: Vec<[u32; 2]> = positions.iter().map(span).collect();
                let (ids, slots, spans) = (vec![0; n], vec![0; n], if first < past { &[] } else { &spans[..] });
                let inputs =
                    StepInputs { ids: &ids, positions: &positions, sequences: &slots, spans, ..Default::default() };
                state.will_write(first, n);
                let batch = &mut Batch { inputs, sequences: &mut [&mut state] };
                executor.begin(batch, 0..2).unwrap();
                for (tensor, values) in [(q, &vq), (k, &vk), (v, &vv)] {
                    let width = model.program.width(tensor);
                    executor.write(tensor, &values[first * width..(first + n) * width]).unwrap();
                }
                assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
                if first >= past {
                    results.push(model.read(&mut executor, a, n));
                }
                executor.end().unwrap();
                state.commit(n);
            }
        }
        assert!(results.iter().all(|r| *r == results[0]));
        let (q, k, v) = (wide(&vq), wide(&vk), wide(&vv));
        let sees = |t: usize, s: usize| match picture.contains(&(t as u32)) && picture.contains(&(s as u32)) && s > t {
            true => true,
            false => s <= t && (window == 0 || t < s + window),
        };
        let expected: Vec<f64> =
            (past..all).flat_map(|t| attended([&q, &k, &v], shape, f64::from(scale), t, &|s| sees(t, s))).collect();
        assert_near("a picture", &results[0], &expected, 3e-6);
    }
}

const WIDTH: usize = 30;
const FFN: usize = 52;
const PATCH: usize = 27;
const EPS: f32 = 1e-6;

/// The weights of a layer, of its norm before attention and of the one before the feed-forward block.
struct Layer {
    norms: [[(Vector, Vec<f32>); 2]; 2],
    /// Queries, keys, values, output, up and down, with their rows and columns.
    matrices: [(Weight, Vec<f32>); 6],
    biases: [(Vector, Vec<f32>); 6],
    mask: Mask,
}

const SHAPES: [[usize; 2]; 6] =
    [[WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH], [FFN, WIDTH], [WIDTH, FFN]];

impl Layer {
    fn new(model: &mut Model, seed: u64, mask: Mask) -> Layer {
        let mut seed = 100 * seed;
        let mut next = || {
            seed += 1;
            seed
        };
        Layer {
            norms: [0; 2].map(|_| [0; 2].map(|_| model.vector(WIDTH, next()))),
            matrices: SHAPES.map(|[rows, cols]| model.matrix(rows, cols, next())),
            biases: SHAPES.map(|[rows, _]| model.vector(rows, next())),
            mask,
        }
    }

    fn norm(&self, i: usize) -> Norm {
        let [weight, bias] = [0, 1].map(|j| Some(self.norms[i][j].0));
        Norm { kind: NormKind::Layer, weight, bias, eps: EPS, group: WIDTH }
    }

    /// The ops of the layer, whose keys and values are those of all layers.
    fn ops(&self, model: &mut Model, x: TensorId, table: RopeTable) -> Vec<Op> {
        let [h, q, k, v, a, o, g] = model.tensors([WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDTH]);
        let [u, d] = model.tensors([FFN, WIDTH]);
        let part = |i: usize, out| (self.matrices[i].0, Some(self.biases[i].0), out);
        let (rope, layer) = (RopeChoice { table, long: None }, KvLayerId(0));
        vec![
            Op::Norm { norm: self.norm(0), x, out: h },
            project(h, &[part(0, q), part(1, k), part(2, v)]),
            Op::Rope { rope, head_dim: 10, first: 0, q, k: Some(k) },
            Op::StoreKv { layer, k, v: Some(v) },
            Op::Attend(Attend { mask: self.mask, ..Attend::new(layer, q, a, 0.1) }),
            project(a, &[part(3, o)]),
            Op::Add { x, delta: o, scale: 1.0 },
            Op::Norm { norm: self.norm(1), x, out: g },
            project(g, &[part(4, u)]),
            Op::Glu { gate: u, up: None, activation: Activation::QuickGelu },
            project(u, &[part(5, d)]),
            Op::Add { x, delta: d, scale: 1.0 },
        ]
    }

    fn normed(&self, i: usize, x: &[f64]) -> Vec<f64> {
        let [weight, bias] = [0, 1].map(|j| wide(&self.norms[i][j].1));
        let row = |x: &[f64]| -> Vec<f64> {
            let mean = x.iter().sum::<f64>() / WIDTH as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
            let values = x.iter().zip(weight.iter().zip(&bias));
            values.map(|(x, (w, b))| (x - mean) / (variance + f64::from(EPS)).sqrt() * w + b).collect()
        };
        x.chunks(WIDTH).flat_map(row).collect()
    }

    fn product(&self, i: usize, x: &[f64]) -> Vec<f64> {
        let mut y = product(x, &self.matrices[i].1, SHAPES[i][1]);
        let bias = self.biases[i].1.iter().cycle();
        y.iter_mut().zip(bias).for_each(|(y, bias)| *y += f64::from(*bias));
        y
    }

    fn compute(&self, x: &mut [f64], rope: &Rope, rope_positions: &[[u32; 3]], sees: &dyn Fn(usize, usize) -> bool) {
        let h = self.normed(0, x);
        let [mut q, mut k, v] = [0, 1, 2].map(|i| self.product(i, &h));
        for x in [&mut q, &mut k] {
            for (row, position) in x.chunks_mut(WIDTH).zip(rope_positions) {
                rotate_row(row, 10, rope, *position);
            }
        }
        let rows = 0..rope_positions.len();
        let a: Vec<f64> =
            rows.flat_map(|t| attended([&q, &k, &v], [3, 3, 10], f64::from(0.1f32), t, &|s| sees(t, s))).collect();
        x.iter_mut().zip(self.product(3, &a)).for_each(|(x, o)| *x += o);
        let mut u = self.product(4, &self.normed(1, x));
        u.iter_mut().for_each(|u| *u /= 1.0 + (-1.702 * *u).exp());
        x.iter_mut().zip(self.product(5, &u)).for_each(|(x, d)| *x += d);
    }
}

#[test]
fn an_encoder_whose_layers_share_keys_and_values() {
    let mut model = Model::new(KvLayer::new(3, 10, 0));
    let (patch, w) = model.matrix(WIDTH, PATCH, 1);
    let inv_freq = (0..4).map(|i| 0.3f64.powi(i)).collect();
    let rope = Rope { pairs: RopePairs::Halves, inv_freq, axes: vec![1, 1, 2, 2], magnitude: 1.0, position_offset: 0 };
    let table = model.rope(rope.clone());
    let [patches, places_of, x] = model.tensors([PATCH, WIDTH, WIDTH]);
    let mut ops = vec![project(patches, &[(patch, None, x)]), Op::Add { x, delta: places_of, scale: 1.0 }];
    let layers = [(2, Mask::Spans), (3, Mask::All), (4, Mask::Spans)].map(|(i, mask)| Layer::new(&mut model, i, mask));
    layers.iter().for_each(|layer| ops.extend(layer.ops(&mut model, x, table)));
    let mut model = model.finish_with(ops, 0, &[patches, places_of, x]);
    assert!(model.program.buffers.len() < model.program.tensors.len() / 2 && !model.program.is_causal());
    for n in [1, 7, 300, 1030] {
        let (positions, slots) = places(n);
        // Windows of 64 rows, the last one of what is left.
        let lens = [n - n / 3, n / 3].map(|len| len as u32);
        let window = |t: usize| [positions[t] / 64 * 64, (positions[t] / 64 * 64 + 64).min(lens[slots[t] as usize])];
        let spans: Vec<[u32; 2]> = (0..n).map(window).collect();
        let rope_positions: Vec<[u32; 3]> = positions.iter().map(|p| [0, p / 17, p % 17]).collect();
        let (ids, v_patches, v_places) = (vec![0; n], values(n * PATCH, 7), values(n * WIDTH, 8));
        let inputs = StepInputs {
            ids: &ids,
            positions: &positions,
            sequences: &slots,
            rope_positions: &rope_positions,
            spans: &spans,
            ..Default::default()
        };
        let got = run(&mut model, inputs, &[(patches, &v_patches), (places_of, &v_places)], &[x]);
        let mut expected = product(&wide(&v_patches), &w, PATCH);
        expected.iter_mut().zip(&v_places).for_each(|(x, place)| *x += f64::from(*place));
        for layer in &layers {
            layer.compute(&mut expected, &rope, &rope_positions, &|t, s| {
                slots[s] == slots[t] && (layer.mask == Mask::All || positions[s] / 64 == positions[t] / 64)
            });
        }
        assert_near(&format!("{n} rows"), &got[0], &expected, 2e-5);
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let mut model = Model::new(LAYER);
    let (table, _) = model.matrix(VOCAB, 8, 1);
    let [x] = model.tensors([8]);
    let model = model.finish(vec![
        Op::Embed { table, rows: VOCAB, index: Index::Id, scale: 1.0, out: x },
        Op::AddMedia { x, part: 1 },
    ]);
    let backend = model.load(1);
    let mut executor = model.executor(&backend, 4, 1);
    let mut state = backend.new_sequence(&model.spec(8)).unwrap();
    let (wide, narrow) = ([0.5; 16], [0.5; 15]);
    let step = StepInputs { ids: &[1, MEDIA_ROW, 2], positions: &[0, 1, 2], sequences: &[0; 3], ..Default::default() };
    let fits = StepInputs { media: &[&wide], rope_positions: &[[9; 3]; 3], spans: &[[0, 3], [0, 0], [2, 2]], ..step };
    let none = StepInputs { ids: &[1, 5, 2], ..step };
    for (inputs, message) in [
        (fits, ""),
        (step, "token 4294967294 is outside the vocabulary"),
        (StepInputs { media: &[&wide, &wide], ..fits }, "2 media rows of at least 16 numbers are given; 1 rows"),
        (
            StepInputs { media: &[&narrow], ..fits },
            "1 media rows of at least 15 numbers are given; 1 rows of at least 16",
        ),
        (StepInputs { media: &[&wide], ..none }, "are given; 0 rows"),
        (StepInputs { rope_positions: &[[0; 3]; 2], ..none }, "3 ids, 2 rotary positions and 0 spans"),
        (StepInputs { spans: &[[0; 2]; 4], ..none }, "3 ids, 0 rotary positions and 4 spans"),
        (
            StepInputs { spans: &[[0, 4], [0, 0], [0, 0]], ..none },
            "the span from 0 to 4 exceeds a sequence of 3 positions",
        ),
        (StepInputs { spans: &[[0, 0], [2, 1], [0, 0]], ..none }, "the span from 2 to 1"),
        (fits, ""),
    ] {
        let batch = &mut Batch { inputs, sequences: &mut [&mut state] };
        let begun = executor.begin(batch, 0..2);
        match message {
            "" => assert!(begun.is_ok() && executor.advance(batch, &StepBudget::unlimited()).unwrap()),
            message => assert!(begun.unwrap_err().to_string().contains(message), "{message}"),
        }
        executor.end().unwrap();
    }
}

#[test]
fn a_network_that_hashes_ids_takes_no_rows() {
    let mut model = Model::new(LAYER);
    let [out] = model.tensors([12]);
    let (table, _) = model.matrix(23, 6, 3);
    let heads = [(0, 7), (7, 16)].map(|(first, rows)| NgramHead { n: 2, first, rows });
    let recurrent = model.recurrent(1);
    let embed = EmbedNgrams { recurrent, table, out, multipliers: [3u64, 5].into(), heads: heads.into(), end: 4 };
    let model = model.finish(vec![Op::EmbedNgrams(Box::new(embed))]);
    let backend = model.load(1);
    let mut executor = model.executor(&backend, 4, 1);
    let mut state = backend.new_sequence(&model.spec(8)).unwrap();
    let inputs = StepInputs {
        ids: &[1, MEDIA_ROW, 2],
        positions: &[0, 1, 2],
        sequences: &[0; 3],
        media: &[&[0.5; 16]],
        ..Default::default()
    };
    let e = executor.begin(&mut Batch { inputs, sequences: &mut [&mut state] }, 0..1).unwrap_err().to_string();
    assert!(e.contains("media are not supported by a network that reads token ids"), "{e}");
}
