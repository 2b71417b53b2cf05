//! The recurrent ops of the CPU compared with a plain float64 computation, and bit-identical for every number of
//! threads, for every division of a sequence into steps, and after abandoned steps.

use realizar::device::{Batch, StepBudget};
use realizar::graph::op::{
    Attend, Conv, DeltaRule, EmbedNgrams, Half, KvLayerId, Mask, NgramHead, Op, Pool, Scan, TensorId, Vector, Wkv,
};
use realizar::graph::sequence_spec::KvLayer;
use realizar::graph::step::StepInputs;

use super::wide;
use crate::support::ops::{self, LAYER, Model};

const N: usize = 23;

/// The token at a position, a few ids in turn.
fn id(position: usize) -> u32 {
    (position * position % 11) as u32
}

/// The activation `out` of `N` tokens of one sequence.
fn run(model: &Model, inputs: &[(TensorId, &[f32])], out: TensorId) -> Vec<f32> {
    let mut results: Vec<Vec<f32>> = Vec::new();
    for (threads, piece, abandons) in [(1, N, false), (2, N, false), (3, 7, false), (1, 1, false), (2, 5, true)] {
        let backend = model.load(threads);
        let mut executor = model.executor(&backend, N, N);
        let mut state = backend.new_sequence(&model.spec(N)).unwrap();
        let mut result = Vec::new();
        while state.len() < N {
            let (first, n) = (state.len(), piece.min(N - state.len()));
            let positions: Vec<u32> = (first as u32..).take(n).collect();
            state.will_write(first, n);
            for attempt in [!abandons, true] {
                let ids: Vec<u32> = positions.iter().map(|position| id(*position as usize)).collect();
                let (slots, states) = (vec![0; n], &mut [&mut state]);
                let mut batch = Batch {
                    inputs: StepInputs { ids: &ids, positions: &positions, sequences: &slots, ..Default::default() },
                    sequences: states,
                };
                executor.begin(&mut batch, 0..model.program.ops.len()).unwrap();
                for (tensor, values) in inputs {
                    let width = model.program.width(*tensor);
                    executor.write(*tensor, &values[first * width..(first + n) * width]).unwrap();
                }
                assert!(executor.advance(&mut batch, &StepBudget::unlimited()).unwrap());
                if attempt {
                    break;
                }
                executor.end().unwrap();
            }
            result.extend(model.read(&mut executor, out, n));
            executor.end().unwrap();
            state.commit(n);
        }
        results.push(result);
    }
    assert!(results.iter().all(|r| *r == results[0]), "threads or pieces change the result");
    results.swap_remove(0)
}

fn assert_near(name: &str, got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{name}");
    let scale = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len() as f64).sqrt();
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(got) - expected).abs() <= 1e-5 * scale, "{name}: element {i} is {got}, expected {expected}");
    }
}

/// Values of both signs.
fn values(width: usize, seed: u64) -> Vec<f32> {
    ops::values(N * width, seed)
}

/// Values from 0 to 1.
fn positive(width: usize, seed: u64) -> Vec<f32> {
    values(width, seed).iter().map(|x| 0.5 * x + 0.5).collect()
}

/// A vector of negative rates.
fn rates(model: &mut Model, n: usize) -> (Vector, Vec<f64>) {
    let (rates, _) = model.vector(n, 77);
    let values = &mut model.vectors[rates.0 as usize];
    values.iter_mut().for_each(|x| *x = -1.5 - *x);
    (rates, wide(values))
}

#[test]
fn convolutions() {
    for (width, taps, silu, has_bias) in
        [(5, 2, false, false), (200, 3, false, true), (64, 4, true, true), (33, 7, true, false)]
    {
        let mut model = Model::new(LAYER);
        let [x] = model.tensors([width]);
        let (kernel, k) = model.vector(taps * width, 3);
        let (bias, b) = model.vector(width, 4);
        let recurrent = model.recurrent((taps - 1) * width);
        let bias = has_bias.then_some(bias);
        let model = model.finish(vec![Op::Conv(Conv { recurrent, x, kernel, bias, taps, silu })]);
        let input = values(width, 5);
        let expected = (0..N).flat_map(|t| (0..width).map(move |c| (t, c))).map(|(t, c)| {
            let taps = (0..taps).filter_map(|j| Some((j, (t + j + 1).checked_sub(taps)?)));
            let sum: f64 = taps.map(|(j, t)| f64::from(k[j * width + c]) * f64::from(input[t * width + c])).sum();
            let sum = sum + if has_bias { f64::from(b[c]) } else { 0.0 };
            if silu { sum / (1.0 + (-sum).exp()) } else { sum }
        });
        let expected: Vec<f64> = expected.collect();
        assert_near(&format!("{taps} taps over {width}"), &run(&model, &[(x, &input)], x), &expected);
    }
}

#[test]
fn delta_rules() {
    for (key_heads, heads, key_dim, value_dim, per_row, tiled) in [
        (1, 1, 8, 16, false, false),
        (2, 4, 24, 48, false, true),
        (2, 4, 24, 48, false, false),
        (3, 3, 40, 32, true, false),
        (2, 2, 128, 128, false, true),
        (1, 2, 20, 16, true, true),
    ] {
        let mut model = Model::new(LAYER);
        let decays = if per_row { heads * key_dim } else { heads };
        let (keys, wide_v) = (key_heads * key_dim, heads * value_dim);
        let [q, k, v, dt, beta, out] = model.tensors([keys, keys, wide_v, decays, heads, wide_v]);
        let (rate, r) = rates(&mut model, heads);
        let recurrent = model.recurrent(wide_v * key_dim);
        let op = DeltaRule { recurrent, q, k, v, dt, beta, out, rate, key_dim, tiled };
        let model = model.finish(vec![Op::DeltaRule(op)]);
        // Keys shorter than 1, as after their norm.
        let short = |seed| values(keys, seed).iter().map(|x| x / (key_dim as f32).sqrt()).collect::<Vec<f32>>();
        let (xq, xk, xv) = (short(1), short(2), values(wide_v, 3));
        let (xdt, xbeta) = (positive(decays, 4), positive(heads, 5));
        let mut expected = Vec::new();
        let mut states = vec![vec![0.0; key_dim * value_dim]; heads];
        for t in 0..N {
            for (h, state) in states.iter_mut().enumerate() {
                let key_head = if tiled { h % key_heads } else { h * key_heads / heads };
                let row = |x: &[f32]| wide(&x[t * keys + key_head * key_dim..][..key_dim]);
                let (q, k) = (row(&xq), row(&xk));
                let at = |i| t * decays + if per_row { h * key_dim + i } else { h };
                for j in 0..value_dim {
                    let column = |state: &[f64], x: &[f64]| -> f64 {
                        (0..key_dim).map(|i| state[i * value_dim + j] * x[i]).sum()
                    };
                    for i in 0..key_dim {
                        state[i * value_dim + j] *= (r[h] * f64::from(xdt[at(i)])).exp();
                    }
                    let v = f64::from(xv[t * wide_v + h * value_dim + j]);
                    let delta = f64::from(xbeta[t * heads + h]) * (v - column(state, &k));
                    for i in 0..key_dim {
                        state[i * value_dim + j] += k[i] * delta;
                    }
                    expected.push(column(state, &q));
                }
            }
        }
        let inputs = [(q, &xq[..]), (k, &xk), (v, &xv), (dt, &xdt), (beta, &xbeta)];
        assert_near(&format!("{heads} heads of {key_dim} by {value_dim}"), &run(&model, &inputs, out), &expected);
    }
}

#[test]
fn scans() {
    for (heads, head_dim, groups, n, per_state) in [
        (2, 64, 1, 128, false),
        (4, 24, 2, 20, false),
        (8, 32, 2, 16, false),
        (48, 1, 1, 16, true),
        (144, 1, 3, 5, true),
        (32, 1, 1, 4, false),
    ] {
        let mut model = Model::new(LAYER);
        let (width, grouped) = (heads * head_dim, groups * n);
        let [x, dt, b, c, out] = model.tensors([width, heads, grouped, grouped, width]);
        let (rate, r) = rates(&mut model, if per_state { heads * n } else { heads });
        let (skip, s) = model.vector(heads, 9);
        let recurrent = model.recurrent(width * n);
        let model = model.finish(vec![Op::Scan(Scan { recurrent, x, dt, b, c, out, rate, skip, state: n })]);
        let (xx, xdt, xb, xc) = (values(width, 1), positive(heads, 2), values(grouped, 3), values(grouped, 4));
        let mut expected = Vec::new();
        let mut states = vec![vec![0.0; n]; width];
        for t in 0..N {
            for (i, state) in states.iter_mut().enumerate() {
                let (head, group) = (i / head_dim, i / (width / groups));
                let (dt, x) = (f64::from(xdt[t * heads + head]), f64::from(xx[t * width + i]));
                let mut y = f64::from(s[head]) * x;
                for (j, state) in state.iter_mut().enumerate() {
                    let rate = if per_state { r[j * heads + head] } else { r[head] };
                    let at = t * grouped + group * n + j;
                    *state = (rate * dt).exp() * *state + dt * x * f64::from(xb[at]);
                    y += *state * f64::from(xc[at]);
                }
                expected.push(y);
            }
        }
        let inputs = [(x, &xx[..]), (dt, &xdt), (b, &xb), (c, &xc)];
        assert_near(&format!("{heads} heads of {head_dim}, {n}"), &run(&model, &inputs, out), &expected);
    }
}

#[test]
fn recurrences_of_rwkv() {
    for (key_heads, heads, dim, moves, rate, before, fades) in [
        (2, 2, 64, true, Some(-0.6f32), false, false),
        (3, 3, 16, false, None, true, false),
        (1, 2, 32, false, None, false, true),
        (2, 4, 48, true, None, true, true),
    ] {
        let mut model = Model::new(LAYER);
        let (keys, wide_v) = (key_heads * dim, heads * dim);
        let [r, k, v, dt, a, b, out] = model.tensors([wide_v, keys, keys, wide_v, wide_v, wide_v, wide_v]);
        let recurrent = model.recurrent(wide_v * dim);
        let moved = moves.then_some([a, b]);
        let op = Wkv { recurrent, r, k, v, dt, rate, moved, out, dim, before, fades };
        let model = model.finish(vec![Op::Wkv(op)]);
        let short = |width, seed| values(width, seed).iter().map(|x| x / (dim as f32).sqrt()).collect::<Vec<f32>>();
        let (xr, xk, xv) = (short(wide_v, 1), short(keys, 2), values(keys, 3));
        let (xdt, xa, xb) = (positive(wide_v, 4), short(wide_v, 5), short(wide_v, 6));
        let mut expected = Vec::new();
        let mut states = vec![vec![0.0; dim * dim]; heads];
        for t in 0..N {
            for (h, state) in states.iter_mut().enumerate() {
                let of_head = |x: &[f32]| wide(&x[t * wide_v + h * dim..][..dim]);
                let of_key = |x: &[f32]| wide(&x[t * keys + h * key_heads / heads * dim..][..dim]);
                let (r, a, b, v, mut k) = (of_head(&xr), of_head(&xa), of_head(&xb), of_key(&xv), of_key(&xk));
                let log = |dt: &f64| rate.map_or(-dt.exp(), |rate| f64::from(rate) * dt);
                let w: Vec<f64> = of_head(&xdt).iter().map(|dt| log(dt).exp()).collect();
                if fades {
                    k.iter_mut().zip(&w).for_each(|(k, w)| *k *= 1.0 - w);
                }
                let old = state.clone();
                let column =
                    |state: &[f64], x: &[f64], j: usize| -> f64 { (0..dim).map(|i| state[i * dim + j] * x[i]).sum() };
                for j in 0..dim {
                    let seen = if moves { column(&old, &a, j) } else { 0.0 };
                    for i in 0..dim {
                        state[i * dim + j] = w[i] * old[i * dim + j] + b[i] * seen + k[i] * v[j];
                    }
                    expected.push(column(if before { &old[..] } else { &state[..] }, &r, j));
                }
            }
        }
        let inputs = [(r, &xr[..]), (k, &xk), (v, &xv), (dt, &xdt), (a, &xa), (b, &xb)];
        assert_near(&format!("{heads} heads of {dim}"), &run(&model, &inputs, out), &expected);
    }
}

#[test]
fn sums_of_groups_of_positions() {
    for (each, size, groups) in [(5, 2, 1), (70, 4, 1), (16, 7, 1), (6, 4, 2), (40, 3, 2)] {
        let width = groups * each;
        let mut model = Model::new(LAYER);
        let [gate, x, out] = model.tensors([width, width, each]);
        let (bias, b) = model.vector(size * width, 3);
        let recurrent = model.recurrent((groups * size - 1) * 2 * width);
        let model = model.finish(vec![Op::Pool(Pool { recurrent, gate, x, bias, out, size })]);
        let (g, v) = (values(width, 4), values(width, 5));
        let (g, v) = (&g, &v);
        let expected = (0..N).flat_map(|t| (0..each).map(move |c| (t, c))).map(|(t, c)| {
            if (t + 1) % size != 0 {
                return 0.0;
            }
            // The last group has the last columns, the one before, where there is one, those before them.
            let members = (0..groups).filter(|back| (back + 1) * size <= t + 1).flat_map(|back| {
                let (first, column) = (t + 1 - (back + 1) * size, (groups - 1 - back) * each + c);
                (0..size).map(move |i| ((first + i) * width + column, i * width + column))
            });
            let weights = members.map(|(at, of)| (f64::from(v[at]), (f64::from(g[at]) + f64::from(b[of])).exp()));
            let (sum, total) = weights.fold((0.0, 0.0), |(sum, total), (v, w)| (sum + v * w, total + w));
            sum / total
        });
        let expected: Vec<f64> = expected.collect();
        assert_near(&format!("{size} of {width}"), &run(&model, &[(gate, g), (x, v)], out), &expected);
    }
}

#[test]
fn rows_of_tables_by_hashes_of_ngrams() {
    let multipliers = [20_000_000_000_003u64, 7_000_000_009, u64::MAX / 3];
    let heads = [(2, 0, 7), (3, 7, 5), (3, 12, 11)].map(|(n, first, rows)| NgramHead { n, first, rows });
    let (width, end) = (6, 4);
    let mut model = Model::new(LAYER);
    let [out] = model.tensors([3 * width]);
    let (table, rows) = model.matrix(23, width, 3);
    let recurrent = model.recurrent(2);
    let embed = EmbedNgrams { recurrent, table, out, multipliers: multipliers.into(), heads: heads.into(), end };
    let model = model.finish(vec![Op::EmbedNgrams(Box::new(embed))]);
    let mut expected = Vec::new();
    for t in 0..N {
        for NgramHead { n, first, rows: of } in heads {
            // The ids up to the token before which the text ends.
            let known = (1..n).take_while(|back| *back <= t && id(t - back) != end).count();
            let ids = (0..n).map(|back| if back <= known { id(t - back) } else { end });
            let products = ids.zip(multipliers).map(|(id, by)| u64::from(id).wrapping_mul(by));
            let row = (first + products.fold(0, |hash, product| hash ^ product) % of) as usize;
            expected.extend(wide(&rows[row * width..(row + 1) * width]));
        }
    }
    assert_near("n-grams", &run(&model, &[], out), &expected);
}

/// A window of keys and the keys of groups of three positions, of which the first tokens see none.
#[test]
fn one_softmax_over_two_layers() {
    let (heads, dim, window, pool) = (3, 12, 5, 3);
    let shared = KvLayer { is_latent: true, ..KvLayer::new(1, dim, 0) };
    let mut model = Model::new(KvLayer { window, ..shared });
    let [near, far] = [KvLayerId(0), model.layer(KvLayer { pool, ..shared })];
    let [q, k, c, out, sums] = model.tensors([heads * dim, dim, dim, heads * dim, heads]);
    let (sinks, sink) = model.vector(heads, 9);
    let (mask, scale) = (Mask::Window(window as u32), 0.4);
    let model = model.finish(vec![
        Op::StoreKv { layer: near, k, v: None },
        Op::StoreKv { layer: far, k: c, v: None },
        Op::Attend(Attend {
            mask,
            sinks: Some(sinks),
            half: Some(Half::First(sums)),
            ..Attend::new(near, q, out, scale)
        }),
        Op::Attend(Attend { half: Some(Half::Second(sums)), ..Attend::new(far, q, out, scale) }),
    ]);
    let (vq, vk, vc) = (values(heads * dim, 1), values(dim, 2), values(dim, 3));
    let mut expected = Vec::new();
    for t in 0..N {
        let keys = (t.saturating_sub(window - 1)..=t).map(|s| &vk[s * dim..][..dim]);
        let shared = (0..=t).filter(|s| (s + 1) % pool == 0).map(|s| &vc[s * dim..][..dim]);
        let keys: Vec<&[f32]> = keys.chain(shared).collect();
        for (head, q) in vq[t * heads * dim..][..heads * dim].chunks(dim).enumerate() {
            let score = |k: &[f32]| q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
            let weights: Vec<f64> = keys.iter().map(|k| (f64::from(scale) * score(k)).exp()).collect();
            let sum = weights.iter().sum::<f64>() + f64::from(sink[head]).exp();
            expected.extend(
                (0..dim).map(|i| keys.iter().zip(&weights).map(|(k, w)| w / sum * f64::from(k[i])).sum::<f64>()),
            );
        }
    }
    assert_near("two layers", &run(&model, &[(q, &vq), (k, &vk), (c, &vc)], out), &expected);
}
