//! Attention compared to attention in f64 over the stored (quantized) keys and values.
#![cfg(test)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};

use super::*;
use crate::cpu::kernels::attention::kv_storage::KvView;
use crate::cpu::kernels::quantize::{quantize_to_bytes, quantize_to_nibbles};
use crate::cpu::kv::CpuKv;
use crate::cpu::matmul::plan::OpChunk;
use crate::cpu::threads::pool::Pool;
use crate::graph::op::Mask;
use crate::graph::sequence_spec::{KvLayer, SequenceSpec};
use crate::quant;
use crate::tensor::DType;

fn spec(layers: usize, heads: Heads, capacity: usize, k_type: DType, v_type: DType) -> SequenceSpec {
    let Heads { kv: n_kv_heads, dim: head_dim, value_dim, is_latent, .. } = heads;
    let layers = vec![KvLayer { n_kv_heads, head_dim, value_dim, is_latent, window: 0, pool: 1 }; layers];
    SequenceSpec { layers, recurrent: vec![], capacity, k_type, v_type, max_step: capacity }
}

fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Returns the values of a stored row with one scale per `block` numbers, and their scales; the scale is 1 if there is
/// none. Byte rows come from the quantizer, which has its own tests.
fn stored(dtype: DType, row: &[f32], block: usize, rotates: bool) -> Vec<(f64, f64)> {
    let codes: fn(Isa, &[f32], &mut [u8]) -> u16 = match dtype {
        quant::F32 => return row.iter().map(|&x| (f64::from(x), 1.0)).collect(),
        quant::F16 => return rounded(row, block, 8191.0),
        quant::Q8_0 => quantize_to_bytes,
        _ => quantize_to_nibbles,
    };
    let mut row = row.to_vec();
    if rotates {
        let dim = row.len();
        rotate(Isa::Scalar, &mut row, dim);
    }
    let mut out = Vec::new();
    for x in row.chunks(block) {
        let mut bytes = vec![0; x.len()];
        let scale = bf16::from_bits(codes(Isa::Scalar, x, &mut bytes)).to_f64();
        let number = |&code: &u8| if dtype == quant::Q8_0 { f64::from(code as i8) } else { f64::from(code) - 8.0 };
        out.extend(bytes.iter().map(|code| (scale * number(code), scale.abs())));
    }
    out
}

/// Returns the values of a row with one scale per `block` numbers, whose largest becomes the integer `peak`.
fn rounded(row: &[f32], block: usize, peak: f32) -> Vec<(f64, f64)> {
    row.chunks(block)
        .flat_map(|block| {
            let scale = block.iter().fold(0f32, |m, x| m.max(x.abs())) / peak;
            let number = move |x: f32| f64::from(scale) * f64::from((x * (1.0 / scale)).round_ties_even());
            block.iter().map(move |&x| (number(x), f64::from(scale)))
        })
        .collect()
}

/// Returns the inverse rotation in f64; the maximum errors of the numbers add up.
fn rotated_back(row: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let part = 1 << row.len().trailing_zeros();
    let number = |i: usize| {
        let row = &row[i / part * part..][..part];
        let sign = |j: usize| if ((i % part) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let sum = |f: &dyn Fn(usize) -> f64| (0..part).map(f).sum::<f64>() / (part as f64).sqrt();
        (sum(&|j| sign(j) * row[j].0), sum(&|j| row[j].1))
    };
    (0..row.len()).map(number).collect()
}

struct Case<'a> {
    heads: Heads,
    k_type: DType,
    v_type: DType,
    scoring: Scoring<'a>,
    /// Number of tokens before the first checked one.
    past: usize,
    n: usize,
}

impl Case<'_> {
    fn len(&self) -> usize {
        self.past + self.n
    }
    fn keys(&self) -> Vec<f32> {
        values(self.len() * self.heads.kv * self.heads.dim, 1)
    }
    /// Returns the values that are not part of keys.
    fn values(&self) -> Vec<f32> {
        let stored = if self.heads.is_latent { 0 } else { self.heads.value_dim };
        values(self.len() * self.heads.kv * stored, 2)
    }
    fn queries(&self) -> Vec<f32> {
        values(self.n * self.heads.queries * self.heads.dim, 3)
    }

    /// Attention in f64 over the stored keys and values, and the maximum deviation due to 16-bit weights: with
    /// `quant::F16` values, 32 positions share a scale, and each weight times the scale of its value is off by at most
    /// half a quant. With 8-bit and 4-bit values the same holds per 32 dimensions, with 8-bit weights.
    fn oracle(&self) -> Vec<(f64, f64)> {
        let Heads { queries, kv, dim, value_dim, is_latent } = self.heads;
        let rows = |dtype, x: &[f32], dim, block| -> Vec<Vec<(f64, f64)>> {
            x.chunks(dim).map(|row| stored(dtype, row, block, !is_latent)).collect()
        };
        let k = rows(self.k_type, &self.keys(), dim, BLOCK);
        // All dimensions of a 16-bit value share a scale.
        let block = if self.v_type == quant::F16 { value_dim } else { BLOCK };
        let v = match is_latent {
            true => k.iter().map(|row| row[..value_dim].iter().map(|(x, _)| (*x, 1.0)).collect()).collect(),
            false => rows(self.v_type, &self.values(), value_dim, block),
        };
        let v_type = if is_latent { quant::F32 } else { self.v_type };
        let is_bytes = |dtype| [quant::Q8_0, quant::Q4_0].contains(&dtype);
        let weight_peak = if is_bytes(v_type) { 127.0 } else { 8191.0 };
        // Queries are quantized if keys are integers.
        let mut queries_of = self.queries();
        if is_bytes(self.k_type) && !is_latent {
            rotate(Isa::Scalar, &mut queries_of, dim);
        }
        let q: Vec<_> = queries_of
            .chunks(dim)
            .map(|row| match self.k_type {
                quant::F32 => stored(quant::F32, row, BLOCK, false),
                quant::F16 => rounded(row, BLOCK, 8191.0),
                _ => rounded(row, BLOCK, 127.0),
            })
            .collect();
        let mut out = Vec::new();
        for t in 0..self.n {
            let position = self.past + t;
            let sees = visible(&self.scoring, t, position as u32, self.len());
            for head in 0..queries {
                let q = &q[t * queries + head];
                let of = head * kv / queries;
                let scores: Vec<f64> = sees
                    .clone()
                    .map(|p| {
                        let dot: f64 = q.iter().zip(&k[p * kv + of]).map(|((q, _), (k, _))| q * k).sum();
                        let score = dot * f64::from(self.scoring.scale);
                        let slope = self.scoring.slopes.map_or(0.0, |slopes| f64::from(slopes[head]));
                        let distance = -(p as f64 - position as f64).abs();
                        let of_distance = self.scoring.distances.map_or(0.0, |table| {
                            let (each, away) = (table.len() / queries, p as i64 - position as i64);
                            let reach = each as i64 / 2;
                            f64::from(table[head * each + (away.clamp(-reach, reach) + reach) as usize])
                        });
                        let more = slope * distance + of_distance;
                        match f64::from(self.scoring.softcap) {
                            0.0 => score + more,
                            cap => cap * (score / cap).tanh() + more,
                        }
                    })
                    .collect();
                let sink = self.scoring.sinks.map(|sinks| f64::from(sinks[head]));
                let peak = scores.iter().chain(&sink).fold(f64::MIN, |a, &b| a.max(b));
                let sum: f64 = scores.iter().chain(&sink).map(|s| (s - peak).exp()).sum();
                let weights: Vec<f64> = scores.iter().map(|s| (s - peak).exp() / sum).collect();
                let mut row = vec![(0.0, 0.0); value_dim];
                for p in sees.clone() {
                    let alike = (p / BLOCK * BLOCK).max(sees.start)..(p / BLOCK * BLOCK + BLOCK).min(sees.end);
                    let largest = |i: usize| {
                        let products = alike.clone().map(|p| weights[p - sees.start] * v[p * kv + of][i * BLOCK].1);
                        products.fold(0.0, f64::max)
                    };
                    let largest: Vec<f64> = (0..value_dim.div_ceil(BLOCK)).map(largest).collect();
                    for (i, (out, (v, scale))) in row.iter_mut().zip(&v[p * kv + of]).enumerate() {
                        out.0 += weights[p - sees.start] * v;
                        if v_type != quant::F32 && *scale > 0.0 {
                            out.1 += 0.5 * largest[i / BLOCK] / weight_peak * (v / scale).abs();
                        }
                    }
                }
                if is_bytes(v_type) {
                    row = rotated_back(&row);
                }
                out.extend(row);
            }
        }
        out
    }

    /// Runs the tokens in pieces, each written to the KV cache just before it attends.
    fn run(&self, isa: Isa, threads: usize, piece: usize) -> Vec<f32> {
        let Heads { queries, kv, dim, value_dim, is_latent } = self.heads;
        let spec = spec(2, self.heads, self.len(), self.k_type, self.v_type);
        let mut cache = CpuKv::new(&spec).unwrap();
        let (keys, values, q) = (self.keys(), self.values(), self.queries());
        let write = |cache: &mut CpuKv, position: usize| {
            let stored = if is_latent { 0 } else { kv * value_dim };
            let value = &values[position * stored..][..stored];
            cache.write(isa, 1, position, &keys[position * kv * dim..][..kv * dim], value).unwrap();
        };
        (0..self.past).for_each(|p| write(&mut cache, p));
        let team = Arc::new(Pool::new(threads).unwrap()).enter().unwrap();
        let mut scratch = AttentionScratch::new(self.heads, piece, threads, false).unwrap();
        let mut out = vec![f32::NAN; self.n * queries * value_dim];
        let all: Vec<u32> = (0..self.n as u32).collect();
        for tokens in all.chunks(piece) {
            let positions: Vec<u32> = tokens.iter().map(|t| self.past as u32 + t).collect();
            positions.iter().for_each(|&p| write(&mut cache, p as usize));
            let range = |width| tokens[0] as usize * width..(tokens[0] as usize + tokens.len()) * width;
            let sequences = vec![0; tokens.len()];
            let (q, out) = (&q[range(queries * dim)], &mut out[range(queries * value_dim)]);
            let source = LayerSource::new(isa, 1, |_| &cache);
            scratch.cursor.op_chunk = if threads == 3 { OpChunk::Short } else { OpChunk::Whole };
            while !attend(&team, isa, &self.scoring, &positions, &sequences, &source, q, [out, &mut []], &mut scratch) {
            }
        }
        out
    }

    fn check(&self) {
        let expected = self.oracle();
        let name = format!("{:?} {:?} past {} n {}", self.heads, self.scoring, self.past, self.n);
        let mut scalar = None;
        for isa in Isa::available() {
            let got = self.run(isa, 1, self.n);
            for (i, (&got, &(expected, rounding))) in got.iter().zip(&expected).enumerate() {
                let error = (f64::from(got) - expected).abs();
                assert!(
                    error < rounding + 2e-6 + 1e-6 * f64::from(self.scoring.softcap),
                    "{name} {}: element {i} is {got}, expected {expected}",
                    isa.name()
                );
            }
            let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let got = bits(got);
            let pieces = [(2, self.n), (3, self.n), (1, 1), (2, 1), (3, 1), (2, 7), (1, 64), (3, 64)];
            // If tokens of a step see later ones, the step must contain all of them.
            let whole = if self.scoring.mask.is_causal() { pieces.len() } else { 2 };
            for &(threads, piece) in &pieces[..whole] {
                assert!(got == bits(self.run(isa, threads, piece)), "{name}: {threads} threads, pieces of {piece}");
            }
            let same = *scalar.get_or_insert_with(|| got.clone()) == got;
            assert!(same, "{name}: {}", isa.name());
        }
    }
}

fn heads(queries: usize, kv: usize, dim: usize) -> Heads {
    Heads::new(queries, kv, dim)
}

const FULL: Scoring = Scoring {
    scale: 0.3,
    softcap: 0.0,
    mask: Mask::Causal,
    slopes: None,
    distances: None,
    sinks: None,
    among: None,
    spans: &[],
    pool: 1,
    continues: false,
};

#[test]
fn heads_of_all_sizes_and_groups() {
    for heads in [
        heads(8, 4, 8),
        heads(9, 3, 64),
        heads(14, 2, 48),
        heads(5, 2, 80),
        heads(1, 1, 96),
        heads(50, 1, 16),
        heads(12, 1, 256),
        heads(2, 2, 18),
    ] {
        Case { heads, k_type: quant::F16, v_type: quant::F16, scoring: FULL, past: 129, n: 70 }.check();
    }
}

#[test]
fn values_narrower_and_wider_than_keys() {
    for (dim, value_dim, is_latent) in
        [(40, 24, false), (192, 128, false), (18, 50, false), (72, 64, true), (70, 45, true), (96, 96, true)]
    {
        for dtype in [quant::F32, quant::F16, quant::Q8_0, quant::Q4_0] {
            let heads = Heads { queries: 6, kv: if is_latent { 1 } else { 2 }, dim, value_dim, is_latent };
            Case { heads, k_type: dtype, v_type: dtype, scoring: FULL, past: 300, n: 20 }.check();
        }
    }
    let heads = Heads { queries: 100, kv: 1, dim: 40, value_dim: 32, is_latent: true };
    Case { heads, k_type: quant::F16, v_type: quant::F16, scoring: FULL, past: 700, n: 3 }.check();
}

#[test]
fn cache_types() {
    for (k_type, v_type) in [
        (quant::F32, quant::F32),
        (quant::Q8_0, quant::F16),
        (quant::F16, quant::Q8_0),
        (quant::Q8_0, quant::Q8_0),
        (quant::Q4_0, quant::Q4_0),
        (quant::Q8_0, quant::Q4_0),
        (quant::Q4_0, quant::F32),
    ] {
        for dim in [8, 18, 48, 64, 80] {
            Case { heads: heads(6, 2, dim), k_type, v_type, scoring: FULL, past: 300, n: 20 }.check();
        }
    }
}

#[test]
fn windows_and_softcap() {
    for window in [1, 8, 16, 100, 130, 1000] {
        for softcap in [0.0, 5.0] {
            let scoring = Scoring { mask: Mask::Window(window), softcap, ..FULL };
            Case { heads: heads(4, 1, 32), k_type: quant::F16, v_type: quant::F16, scoring, past: 250, n: 90 }.check();
        }
    }
}

#[test]
fn chunks_sinks_and_linear_biases() {
    const SIX: Option<&[f32]> = Some(&[0.5, -2.0, 3.0, 0.0, 9.0, 1.0]);
    const SLOPES: Option<&[f32]> = Some(&[0.5, 0.25, 0.125, 0.0625, 0.01, 0.0]);
    for (mask, slopes, sinks) in
        [(Mask::Chunk(64), None, None), (Mask::Causal, SLOPES, SIX), (Mask::Window(100), None, SIX)]
    {
        for dtype in [quant::F32, quant::F16, quant::Q4_0] {
            let scoring = Scoring { mask, slopes, sinks, ..FULL };
            let heads = heads(6, 2, 32);
            Case { heads, k_type: dtype, v_type: dtype, scoring, past: 600, n: 70 }.check();
            Case { heads, k_type: dtype, v_type: dtype, scoring, past: 2000, n: 1 }.check();
        }
    }
}

#[test]
fn later_tokens_are_seen() {
    const SLOPES: Option<&[f32]> = Some(&[0.5, 0.25, 0.125, 0.0625, 0.01, 0.0]);
    for (mask, slopes) in [(Mask::All, None), (Mask::All, SLOPES), (Mask::Around(1), None), (Mask::Around(64), SLOPES)]
    {
        for n in [1, 2, 70, 333] {
            let (scoring, dtype) = (Scoring { mask, slopes, ..FULL }, quant::F32);
            Case { heads: heads(6, 2, 32), k_type: dtype, v_type: dtype, scoring, past: 0, n }.check();
        }
    }
}

#[test]
fn tables_of_distances() {
    for (mask, reach) in [(Mask::All, 0), (Mask::All, 5), (Mask::All, 128), (Mask::All, 700), (Mask::Causal, 128)] {
        let table = values(6 * (2 * reach + 1), 9);
        for n in [1, 70, 333] {
            let past = if mask.is_causal() { 600 } else { 0 };
            let (scoring, dtype) = (Scoring { mask, distances: Some(&table), ..FULL }, quant::F32);
            Case { heads: heads(6, 2, 32), k_type: dtype, v_type: dtype, scoring, past, n }.check();
        }
    }
}

#[test]
fn long_contexts_in_which_waves_of_chunks_are_joined() {
    let f16 = quant::F16;
    Case { heads: heads(3, 1, 16), k_type: f16, v_type: f16, scoring: FULL, past: 9000, n: 3 }.check();
}

#[test]
fn scores_far_apart() {
    let scoring = Scoring { scale: 100.0, ..FULL };
    let case = Case { heads: heads(4, 2, 64), k_type: quant::F32, v_type: quant::F32, scoring, past: 400, n: 2 };
    let (got, expected) = (case.run(Isa::detect(), 2, 2), case.oracle());
    // A score of 1000 has a rounding error of 6e-5.
    assert!(got.iter().zip(&expected).all(|(&a, &(b, _))| (f64::from(a) - b).abs() < 1e-3));
}

/// Returns relative errors against attention in f64 over unrounded keys and values: of 16-bit caches, and of exact
/// arithmetic over half-precision values.
fn errors(heads: Heads, n: usize, q: &[f32], k: &[f32], v: &[f32]) -> [f64; 2] {
    let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| f64::from(x)).collect() };
    let halves = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| f16::from_f32(x).to_f64()).collect() };
    let exact = |k: &[f64], v: &[f64]| -> Vec<f64> {
        let scores: Vec<f64> = k
            .chunks(heads.dim)
            .map(|k| q.iter().zip(k).map(|(&q, k)| f64::from(q) * k).sum::<f64>() / (heads.dim as f64).sqrt())
            .collect();
        let peak = scores.iter().fold(f64::MIN, |a, &b| a.max(b));
        let sum: f64 = scores.iter().map(|s| (s - peak).exp()).sum();
        let weighted = |i| scores.iter().zip(v.chunks(heads.dim)).map(|(s, v)| (s - peak).exp() / sum * v[i]).sum();
        (0..heads.dim).map(weighted).collect()
    };
    let spec = spec(1, heads, n, quant::F16, quant::F16);
    let (isa, mut cache) = (Isa::detect(), CpuKv::new(&spec).unwrap());
    for (position, (k, v)) in k.chunks(heads.dim).zip(v.chunks(heads.dim)).enumerate() {
        cache.write(isa, 0, position, k, v).unwrap();
    }
    let team = Arc::new(Pool::new(1).unwrap()).enter().unwrap();
    let mut scratch = AttentionScratch::new(heads, 1, 1, false).unwrap();
    let mut out = vec![0.0; heads.dim];
    let scoring = Scoring { scale: 1.0 / (heads.dim as f32).sqrt(), ..FULL };
    let source = LayerSource::new(isa, 0, |_| &cache);
    attend(&team, isa, &scoring, &[n as u32 - 1], &[0], &source, q, [&mut out, &mut []], &mut scratch);
    let expected = exact(&wide(k), &wide(v));
    [wide(&out), exact(&halves(k), &halves(v))].map(|out| {
        let difference: f64 = out.iter().zip(&expected).map(|(a, b)| (a - b).powi(2)).sum();
        (difference / expected.iter().map(|x| x * x).sum::<f64>()).sqrt()
    })
}

#[test]
fn integers_stand_uneven_weights_and_dimensions() {
    let (n, shape) = (1000, heads(1, 1, 64));
    let q = values(64, 11);
    // Maximum ratio to the error of half precision. An outlier of 100 leaves numbers around 1 with steps of 100 / 8191,
    // while halves have 2^-11; but halves of the outlier itself are 2^-4 apart, so they gain little from that.
    for (sink, outlier, most) in [(0.0, 0.0, 1.0), (8.0, 0.0, 1.0), (0.0, 100.0, 2.5), (8.0, 100.0, 2.5)] {
        let (mut k, mut v) = (values(64 * n, 12), values(64 * n, 13));
        if sink != 0.0 {
            // Weighs as much as e^8 other keys, with almost no value.
            let square: f32 = q.iter().map(|q| q * q).sum();
            for i in 0..64 {
                k[i] = q[i] / square * 8.0 * sink;
                v[i] *= 1e-2;
            }
        }
        for (p, k) in k.chunks_mut(64).enumerate() {
            k[5] += outlier * (1.0 + 1e-2 * (p as f32).sin());
            k[40] -= outlier * (1.0 + 1e-2 * (p as f32).cos());
        }
        let [ours, halves] = errors(shape, n, &q, &k, &v);
        assert!(ours < most * halves, "{ours} with a sink of {sink} and outliers of {outlier}, halves {halves}");
    }
}

#[test]
fn a_cache_of_the_caller() {
    for (len, heads) in [(0, heads(8, 4, 8)), (1, heads(9, 3, 64)), (127, heads(5, 2, 80)), (700, heads(4, 4, 64))] {
        let case = Case { heads, k_type: quant::F32, v_type: quant::F32, scoring: FULL, past: len, n: 1 };
        let (keys, values, q) = (case.keys(), case.values(), case.queries());
        let (k_cache, k) = keys.split_at(len * heads.kv * heads.dim);
        let (v_cache, v) = values.split_at(len * heads.kv * heads.dim);
        for isa in Isa::available() {
            let mut out = vec![0.0; q.len()];
            let team = Arc::new(Pool::new(2).unwrap()).enter().unwrap();
            let inputs = GqaInputs { q: &q, k_cache, v_cache, current_k: k, current_v: v };
            let mut attend = |inputs| attention_gqa(&team, isa, heads, FULL.scale, inputs, &mut out);
            assert!(attend(GqaInputs { q: &q[1..], ..inputs }).is_err());
            assert!(attend(GqaInputs { v_cache: v, ..inputs }).is_err() || len == 1);
            assert!(attend(GqaInputs { current_k: &k[1..], ..inputs }).is_err());
            attend(inputs).unwrap();
            assert_eq!(out, case.run(isa, 1, 1));
        }
    }
}

#[test]
fn many_sequences_in_one_batch() {
    let shape = heads(6, 3, 32);
    let cases: Vec<Case> = [40, 0, 333, 128]
        .map(|past| Case { heads: shape, k_type: quant::F16, v_type: quant::F16, scoring: FULL, past, n: 1 })
        .into();
    let isa = Isa::detect();
    let mut caches: Vec<CpuKv> = Vec::new();
    let (mut q, mut expected) = (Vec::new(), Vec::new());
    for case in &cases {
        let spec = spec(1, shape, 400, quant::F16, quant::F16);
        let mut cache = CpuKv::new(&spec).unwrap();
        for (position, (k, v)) in case.keys().chunks(96).zip(case.values().chunks(96)).enumerate() {
            cache.write(isa, 0, position, k, v).unwrap();
        }
        caches.push(cache);
        q.extend(case.queries());
        expected.extend(case.run(isa, 1, 1));
    }
    let source = LayerSource::new(isa, 0, |sequence| &caches[sequence as usize]);
    for threads in 1..=3 {
        let team = Arc::new(Pool::new(threads).unwrap()).enter().unwrap();
        let mut out = vec![0.0; q.len()];
        let mut scratch = AttentionScratch::new(shape, 4, threads, false).unwrap();
        attend(&team, isa, &FULL, &[40, 0, 333, 128], &[0, 1, 2, 3], &source, &q, [&mut out, &mut []], &mut scratch);
        assert_eq!(out, expected);
    }
}

/// The writes to a cache, in order: positions, and the index of the text whose rows were written.
type History = Vec<(Range<usize>, u64)>;

/// A KV cache that is written and forked, with its history.
struct Branch {
    cache: CpuKv,
    history: History,
}

impl Branch {
    fn new(spec: &SequenceSpec) -> Branch {
        Branch { cache: CpuKv::new(spec).unwrap(), history: Vec::new() }
    }

    fn write(mut self, positions: Range<usize>, who: u64) -> Branch {
        let layer = self.cache.spec().layers[0];
        let stored = if layer.is_latent { 0 } else { layer.value_width() };
        for p in positions.clone() {
            let (key, value) = (values(layer.key_width(), 1000 * who + p as u64), values(stored, 7 + p as u64 * who));
            self.cache.write(Isa::detect(), 0, p, &key, &value).unwrap();
        }
        self.history.push((positions, who));
        self
    }

    fn fork(&self, len: usize) -> Branch {
        let before = self.history.iter().map(|(positions, who)| (positions.start..positions.end.min(len), *who));
        Branch { cache: self.cache.fork(len).unwrap(), history: before.filter(|(p, _)| !p.is_empty()).collect() }
    }

    /// Returns a cache with the same history that shares no memory.
    fn unshared_copy(&self) -> Branch {
        self.history.iter().fold(Branch::new(self.cache.spec()), |new, (p, who)| new.write(p.clone(), *who))
    }

    fn len(&self) -> usize {
        self.history.last().unwrap().0.end
    }
}

/// Returns a tree of forks of several depths and one unrelated text, in mixed order.
fn tree(spec: &SequenceSpec) -> Vec<Branch> {
    let root = Branch::new(spec).write(0..700, 1);
    let low = root.fork(700).write(700..701, 2);
    let mid = root.fork(700).write(700..1290, 3);
    let high = mid.fork(1290).write(1290..1291, 4);
    let higher = mid.fork(1290).write(1290..1600, 5);
    // A ring buffer has lost the positions before a rewind.
    let back = if spec.layers[0].window == 0 { 300 } else { 700 };
    let back = root.fork(back).write(back..back + 3, 6);
    let other = Branch::new(spec).write(0..900, 8);
    let sibling = other.fork(900).write(900..901, 9);
    vec![
        higher,
        other.write(900..902, 7),
        low,
        mid.write(1290..1291, 10),
        back,
        sibling,
        high,
        root.write(700..703, 11),
    ]
}

/// A source that counts the reads of another source.
struct Counted<'a, S>(&'a S, AtomicUsize);

impl<S: KvSource> KvSource for Counted<'_, S> {
    fn key_storage(&self, sequence: u32) -> Storage {
        self.0.key_storage(sequence)
    }
    fn value_storage(&self, sequence: u32) -> Storage {
        self.0.value_storage(sequence)
    }
    fn memory(&self, sequence: u32, chunk: usize) -> usize {
        self.0.memory(sequence, chunk)
    }
    fn read<'a>(&'a self, sequence: u32, head: usize, positions: Range<usize>, converted: &'a mut [f32]) -> KvView<'a> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read(sequence, head, positions, converted)
    }
}

/// Checks that the last tokens of branches, `n` per branch, have the same results in one batch as separately in
/// unshared memory (`unshared_copy`), on one thread and on several, with pauses. Returns the number of chunks read on
/// one thread: batched and separately.
fn check_together(heads: Heads, branches: &[Branch], unshared: &[Branch], scoring: &Scoring, n: usize) -> [usize; 2] {
    let isa = Isa::detect();
    let attend_all = |caches: &[&Branch], threads: usize| {
        let each: Vec<usize> = caches.iter().map(|branch| n.min(branch.history.last().unwrap().0.len())).collect();
        let positions: Vec<u32> = caches
            .iter()
            .zip(&each)
            .flat_map(|(branch, n)| (branch.len() - n..branch.len()).map(|p| p as u32))
            .collect();
        let sequences: Vec<u32> = each.iter().enumerate().flat_map(|(i, &n)| vec![i as u32; n]).collect();
        let row = |(c, p): (&&Branch, usize)| values(heads.queries * heads.dim, c.history.last().unwrap().1 + p as u64);
        let q: Vec<f32> = caches.iter().zip(&each).flat_map(|(c, &n)| (0..n).flat_map(move |p| row((c, p)))).collect();
        let mut out = vec![f32::NAN; positions.len() * heads.queries * heads.value_dim];
        let team = Arc::new(Pool::new(threads).unwrap()).enter().unwrap();
        let mut scratch = AttentionScratch::new(heads, positions.len(), threads, false).unwrap();
        scratch.cursor.op_chunk = if threads == 3 { OpChunk::Short } else { OpChunk::Whole };
        let source = LayerSource::new(isa, 0, |sequence| &caches[sequence as usize].cache);
        let source = Counted(&source, AtomicUsize::new(0));
        while !attend(&team, isa, scoring, &positions, &sequences, &source, &q, [&mut out, &mut []], &mut scratch) {}
        (out.into_iter().map(f32::to_bits).collect::<Vec<_>>(), source.1.into_inner())
    };
    let (mut expected, mut alone) = (Vec::new(), 0);
    for branch in unshared {
        let (bits, reads) = attend_all(&[branch], 1);
        expected.extend(bits);
        alone += reads;
    }
    let all: Vec<&Branch> = branches.iter().collect();
    let mut together = 0;
    for threads in [3, 2, 8, 1] {
        let (bits, reads) = attend_all(&all, threads);
        assert!(bits == expected, "{heads:?} {scoring:?}: {threads} threads, {n} tokens each");
        together = reads;
    }
    [together, alone]
}

#[test]
fn sequences_that_share_memory_get_what_each_gets_alone() {
    const SIX: Option<&[f32]> = Some(&[0.5, -2.0, 3.0, 0.0, 9.0, 1.0]);
    const SLOPES: Option<&[f32]> = Some(&[0.5, 0.25, 0.125, 0.0625, 0.01, 0.0]);
    let latent = Heads { queries: 6, kv: 1, dim: 40, value_dim: 32, is_latent: true };
    let plain = heads(6, 2, 32);
    let uneven = Heads { value_dim: 24, ..heads(6, 4, 18) };
    let scorings = [
        FULL,
        Scoring { softcap: 5.0, sinks: SIX, ..FULL },
        Scoring { slopes: SLOPES, ..FULL },
        Scoring { mask: Mask::Window(300), sinks: SIX, ..FULL },
        Scoring { mask: Mask::Chunk(512), ..FULL },
    ];
    for (heads, k_type, v_type, window) in [
        (plain, quant::F32, quant::F32, 0),
        (plain, quant::F16, quant::F16, 0),
        (plain, quant::F16, quant::F16, 300),
        (plain, quant::Q8_0, quant::Q4_0, 0),
        (plain, quant::Q4_0, quant::F16, 0),
        (uneven, quant::F16, quant::Q8_0, 0),
        (latent, quant::F16, quant::F16, 0),
        (latent, quant::Q8_0, quant::Q8_0, 0),
    ] {
        let mut spec = spec(1, heads, 2000, k_type, v_type);
        (spec.layers[0].window, spec.max_step) = (window, 8);
        let branches = tree(&spec);
        let unshared: Vec<Branch> = branches.iter().map(Branch::unshared_copy).collect();
        for scoring in scorings.iter().filter(|scoring| window == 0 || scoring.mask == Mask::Window(window as u32)) {
            for n in [1, 3] {
                check_together(heads, &branches, &unshared, scoring, n);
            }
        }
    }
}

#[test]
fn a_shared_chunk_is_read_once_for_all() {
    let heads = heads(6, 2, 32);
    let spec = spec(1, heads, 2000, quant::F16, quant::F16);
    let root = Branch::new(&spec).write(0..1100, 1);
    // Four chunks shared by twenty forks and one chunk per fork, for two heads.
    let forks: Vec<Branch> = (0..20).map(|i| root.fork(1100).write(1100..1101, 2 + i)).collect();
    let unshared: Vec<Branch> = forks.iter().map(Branch::unshared_copy).collect();
    assert_eq!(check_together(heads, &forks, &unshared, &FULL, 1), [2 * (4 + 20), 2 * 5 * 20]);
    assert_eq!(check_together(heads, &unshared, &unshared, &FULL, 1), [2 * 5 * 20, 2 * 5 * 20]);
}
