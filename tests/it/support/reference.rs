//! An independent forward pass in f64: no cache, nothing fused, the whole sequence at once. Shares no code with the
//! engine, except that weights are decoded by the library's block codecs, which have their own tests.

use std::collections::HashMap;
use std::ops::Range;

use super::layers::{Gemma4, Latent, Shape};
use super::recurrent::Mixer;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Norm {
    Rms,
    Layer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QkNorm {
    None,
    Head,
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    Silu,
    Gelu,
    Relu2,
    /// The activation of gpt-oss, in experts.
    ClampedSwiglu,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    Softmax,
    SoftmaxOfChosen,
    Sigmoid,
}

#[derive(Clone, Copy, Debug)]
pub struct Moe {
    pub n: usize,
    pub used: usize,
    pub ffn: usize,
    pub score: Score,
    pub renormalize: bool,
    pub groups: usize,
    pub groups_used: usize,
    pub scale: f64,
    /// True if weights multiply the input of an expert.
    pub on_input: bool,
    /// Number of layers without experts, the first ones.
    pub dense: usize,
    /// Bias of the selection; next, of the experts' products; next, an expert of all tokens with a gated output.
    pub choice_bias: bool,
    pub biases: bool,
    pub shared: bool,
    pub shared_gate: bool,
}

/// A network described by its differences, with GGUF tensor names.
#[derive(Clone, Debug)]
pub struct Net {
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub ffn: usize,
    pub vocab: usize,
    pub norm: Norm,
    pub eps: f64,
    pub pre_norm: bool,
    pub post_norm: bool,
    pub qk_norm: QkNorm,
    /// True if queries and keys are normalized after RoPE.
    pub late_qk_norm: bool,
    /// The norm before the feed-forward block.
    pub ffn_norm: &'static str,
    /// True if attention and feed-forward block read the same residual stream.
    pub parallel: bool,
    pub activation: Activation,
    pub gated: bool,
    pub learned_positions: bool,
    pub adjacent_pairs: bool,
    /// Per layer: scaled angle of each RoPE pair per position; empty for layers without RoPE.
    pub inv_freq: Vec<Vec<f64>>,
    pub rope_magnitude: f64,
    /// Per layer; 0: none.
    pub window: Vec<usize>,
    /// True if a window begins at its last multiple instead of sliding.
    pub chunked: bool,
    /// ALiBi with slopes from `2^(-alibi/n)` on; 0: none.
    pub alibi: f64,
    pub sinks: bool,
    /// True if norms have no weights.
    pub bare_norms: bool,
    /// True if the embedding has a norm.
    pub embedding_norm: bool,
    /// Bound of queries, keys and values; 0: none.
    pub clamp: f64,
    /// Queries of layers without RoPE, or of all if every layer has RoPE, are multiplied by `1 + slope * ln(floor((t +
    /// offset) / length) + 1)`: slope, length, offset.
    pub growth: [f64; 3],
    /// True for an RMS norm without weights of heads after RoPE.
    pub norm_after_rope: bool,
    pub embedding_scale: f64,
    pub residual_scale: f64,
    pub attention_scale: f64,
    pub attention_softcap: f64,
    pub logit_scale: f64,
    pub logit_softcap: f64,
    pub moe: Option<Moe>,
    /// Per layer; empty: attention in all.
    pub mixers: Vec<Mixer>,
    /// True if each head's query is followed by a gate, whose sigmoid multiplies the head's output.
    pub gated_attention: bool,
    pub output_norm: &'static str,
    /// Per layer; empty if all are alike.
    pub shapes: Vec<Shape>,
    pub latent: Option<Latent>,
    pub gemma4: Option<Gemma4>,
    /// True if an MTP layer follows the others.
    pub predicts: bool,
}

pub type Weights = HashMap<String, Vec<f64>>;

fn cap(x: f64, limit: f64) -> f64 {
    if limit == 0.0 { x } else { limit * (x / limit).tanh() }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Relu2 => x.max(0.0).powi(2),
        Activation::ClampedSwiglu => unreachable!("a function of two values"),
        Activation::Gelu => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
    }
}

fn gated(activation: Activation, gate: f64, up: f64) -> f64 {
    if activation == Activation::ClampedSwiglu {
        let gate = gate.min(7.0);
        return gate / (1.0 + (-1.702 * gate).exp()) * (up.clamp(-7.0, 7.0) + 1.0);
    }
    activate(activation, gate) * up
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softmax(x: &mut [f64]) {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    x.iter_mut().for_each(|v| *v = (*v - max).exp());
    let sum: f64 = x.iter().sum();
    x.iter_mut().for_each(|v| *v /= sum);
}

impl Net {
    pub fn normalize(&self, w: &Weights, name: &str, x: &mut [f64], group: usize) {
        let weight = w.get(&format!("{name}.weight"));
        assert_eq!(weight.is_none(), self.bare_norms, "{name}");
        let bias = w.get(&format!("{name}.bias"));
        for chunk in x.chunks_mut(group) {
            let n = chunk.len() as f64;
            if self.norm == Norm::Layer {
                let mean = chunk.iter().sum::<f64>() / n;
                chunk.iter_mut().for_each(|v| *v -= mean);
            }
            let scale = (chunk.iter().map(|v| v * v).sum::<f64>() / n + self.eps).sqrt();
            for (i, v) in chunk.iter_mut().enumerate() {
                *v = *v / scale * weight.map_or(1.0, |w| w[i]) + bias.map_or(0.0, |b| b[i]);
            }
        }
    }

    /// `scale * (W x) + bias`
    pub fn linear(&self, w: &Weights, name: &str, x: &[f64]) -> Vec<f64> {
        let weight = &w[&format!("{name}.weight")];
        let bias = w.get(&format!("{name}.bias"));
        let scale = w.get(&format!("{name}.scale")).map_or(1.0, |s| s[0]);
        let row = |(i, row): (usize, &[f64])| {
            let dot = row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>();
            scale * dot + bias.map_or(0.0, |b| b[i])
        };
        weight.chunks(x.len()).enumerate().map(row).collect()
    }

    /// Applies RoPE to heads of this width.
    pub fn apply_rope(&self, layer: usize, x: &mut [f64], position: usize, head_dim: usize) {
        for head in x.chunks_mut(head_dim) {
            let inv = &self.inv_freq[layer];
            for (i, f) in inv.iter().enumerate() {
                let (a, b) = if self.adjacent_pairs { (2 * i, 2 * i + 1) } else { (i, i + inv.len()) };
                let (sin, cos) = (position as f64 * f).sin_cos();
                let (sin, cos) = (sin * self.rope_magnitude, cos * self.rope_magnitude);
                (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
            }
        }
    }

    pub fn activate(&self, x: f64) -> f64 {
        activate(self.activation, x)
    }

    /// Computes `down(tensor(gate x) * up x)`, or `down(tensor(up x))`, of the tensors with this name ending.
    pub fn dense(&self, w: &Weights, p: &str, ending: &str, x: &[f64]) -> Vec<f64> {
        let part = |name: &str, x: &[f64]| self.linear(w, &format!("{p}ffn_{name}{ending}"), x);
        let mut h = part("up", x);
        if self.gated {
            h.iter_mut().zip(part("gate", x)).for_each(|(h, g)| *h *= activate(self.activation, g));
        } else {
            h.iter_mut().for_each(|h| *h = activate(self.activation, *h));
        }
        part("down", &h)
    }

    fn feed_forward(&self, w: &Weights, p: &str, x: &[f64]) -> Vec<f64> {
        let router = format!("{p}ffn_gate_inp");
        let Some(moe) = self.moe.filter(|_| w.contains_key(&format!("{router}.weight"))) else {
            return self.dense(w, p, "", x);
        };
        let score = self.linear(w, &router, x);
        self.experts(w, p, x, moe, score)
    }

    /// Returns the sum over the experts selected by the scores of a router.
    pub fn experts(&self, w: &Weights, p: &str, x: &[f64], moe: Moe, mut score: Vec<f64>) -> Vec<f64> {
        match moe.score {
            Score::Softmax => softmax(&mut score),
            Score::Sigmoid => score.iter_mut().for_each(|s| *s = sigmoid(*s)),
            Score::SoftmaxOfChosen => {}
        }
        let bias = w.get(&format!("{p}exp_probs_b.bias"));
        let choice: Vec<f64> = (0..moe.n).map(|e| score[e] + bias.map_or(0.0, |b| b[e])).collect();
        let descending = |by: &[f64]| {
            let mut order: Vec<usize> = (0..by.len()).collect();
            order.sort_by(|&a, &b| by[b].total_cmp(&by[a]));
            order
        };
        let size = moe.n / moe.groups;
        let two_best = |group: &[f64]| descending(group).iter().take(2).map(|&e| group[e]).sum();
        let groups: Vec<f64> = choice.chunks(size).map(two_best).collect();
        let kept = &descending(&groups)[..moe.groups_used];
        let mut order = descending(&choice);
        order.retain(|e| kept.contains(&(e / size)));
        order.truncate(moe.used);
        let mut share: Vec<f64> = order.iter().map(|&e| score[e]).collect();
        if moe.score == Score::SoftmaxOfChosen {
            softmax(&mut share);
        } else if moe.renormalize {
            let sum: f64 = share.iter().sum();
            share.iter_mut().for_each(|s| *s /= sum);
        }
        let mut out = vec![0.0; self.hidden];
        let (f, d) = (moe.ffn, self.hidden);
        for (&e, share) in order.iter().zip(share) {
            let share = share * moe.scale;
            let product = |part: &str, rows: usize, x: &[f64]| {
                let of = |ending: &str, each: usize| {
                    let all = w.get(&format!("{p}ffn_{part}_exps.{ending}"))?;
                    Some(all[e * rows * each..(e + 1) * rows * each].to_vec())
                };
                let mut one = Weights::from([("e.weight".to_owned(), of("weight", x.len()).unwrap())]);
                one.extend(of("bias", 1).map(|bias| ("e.bias".to_owned(), bias)));
                self.linear(&one, "e", x)
            };
            let (inner, outer) = if moe.on_input { (share, 1.0) } else { (1.0, share) };
            let x: Vec<f64> = x.iter().map(|v| v * inner).collect();
            let (gate, up) = (product("gate", f, &x), product("up", f, &x));
            let h: Vec<f64> = gate.iter().zip(up).map(|(g, u)| gated(self.activation, *g, u)).collect();
            out.iter_mut().zip(product("down", d, &h)).for_each(|(o, v)| *o += outer * v);
        }
        if moe.shared {
            let gate = match moe.shared_gate {
                true => sigmoid(self.linear(w, &format!("{p}ffn_gate_inp_shexp"), x)[0]),
                false => 1.0,
            };
            out.iter_mut().zip(self.dense(w, p, "_shexp", x)).for_each(|(o, v)| *o += gate * v);
        }
        out
    }

    /// Returns the part of a layer that mixes tokens.
    pub fn mixer(&self, layer: usize) -> Mixer {
        self.mixers.get(layer).copied().unwrap_or(Mixer::Attention)
    }

    /// Returns the layer's result for each token, from the residual stream of all tokens.
    fn mix(&self, w: &Weights, layer: usize, p: &str, xs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let norm = |x: &Vec<f64>| {
            let mut h = x.clone();
            self.normalize(w, &format!("{p}attn_norm"), &mut h, self.hidden);
            h
        };
        self.mixer(layer).mix(self, w, p, &xs.iter().map(norm).collect::<Vec<_>>())
    }

    /// Returns the factor of the queries of a layer at a position.
    fn growth(&self, layer: usize, t: usize) -> f64 {
        let [slope, length, offset] = self.growth;
        let rotates = !self.inv_freq[layer].is_empty();
        if slope == 0.0 || (rotates && self.inv_freq.iter().any(Vec::is_empty)) {
            return 1.0;
        }
        1.0 + slope * (((t as f64 + offset) / length).floor() + 1.0).ln()
    }

    /// Returns the ALiBi slope of a head: powers of two; heads beyond a power of two get slopes in between.
    fn slope(&self, head: usize) -> f64 {
        let n = 1usize << self.heads.ilog2();
        let exponent = if head < n { (head + 1) as f64 } else { (head - n) as f64 + 0.5 };
        if self.alibi == 0.0 { 0.0 } else { 2f64.powf(-self.alibi / n as f64 * exponent) }
    }

    /// Returns the logits of every position, `[ids.len()][vocab]`.
    pub fn forward(&self, w: &Weights, ids: &[u32]) -> Vec<Vec<f64>> {
        self.states(w, ids).iter().map(|x| self.logits(w, x)).collect()
    }

    /// Returns the hidden states from which `forward` computes logits.
    pub fn states(&self, w: &Weights, ids: &[u32]) -> Vec<Vec<f64>> {
        let d = self.hidden;
        let row = |table: &str, i: usize| w[table][i * d..(i + 1) * d].to_vec();
        let mut xs: Vec<Vec<f64>> = ids.iter().map(|&t| row("token_embd.weight", t as usize)).collect();
        for (t, x) in xs.iter_mut().enumerate() {
            x.iter_mut().for_each(|v| *v *= self.embedding_scale);
            if self.learned_positions {
                x.iter_mut().zip(row("position_embd.weight", t)).for_each(|(v, p)| *v += p);
            }
            if self.embedding_norm {
                self.normalize(w, "token_embd_norm", x, d);
            }
        }
        let inputs: Vec<Vec<f64>> = match self.gemma4 {
            Some(gemma) => ids.iter().zip(&xs).map(|(id, x)| self.layer_inputs(w, gemma, *id as usize, x)).collect(),
            None => vec![vec![]; xs.len()],
        };
        self.blocks(w, 0..self.layers, &mut xs, &inputs);
        xs.iter_mut().for_each(|x| self.normalize(w, self.output_norm, x, d));
        xs
    }

    pub fn logits(&self, w: &Weights, x: &[f64]) -> Vec<f64> {
        let head = if w.contains_key("output.weight") { "output" } else { "token_embd" };
        self.logits_by(w, head, x)
    }

    pub fn logits_by(&self, w: &Weights, head: &str, x: &[f64]) -> Vec<f64> {
        let y = self.linear(w, head, x);
        y.into_iter().map(|v| cap(v * self.logit_scale, self.logit_softcap)).collect()
    }

    /// Runs some layers on the residual stream of all tokens.
    pub fn blocks(&self, w: &Weights, layers: Range<usize>, xs: &mut [Vec<f64>], inputs: &[Vec<f64>]) {
        let d = self.hidden;
        // Keys and values of the last layer without a window, and of the last one with a window.
        let mut kept = [(vec![], vec![]), (vec![], vec![])];
        for l in layers {
            let p = format!("blk.{l}.");
            let Shape { heads, kv_heads, head_dim: hd, ffn } = self.shape(l);
            if ffn == 0 && !self.shapes.is_empty() {
                continue;
            }
            let (hd, vd) = self.latent.map_or((hd, hd), |latent| (latent.still + latent.rope_dims, latent.value_dim));
            let own = self.gemma4.is_none_or(|gemma| l < gemma.own);
            let (mut qs, mut ks, mut vs, mut gates) = (vec![], vec![], vec![], vec![]);
            let is_attention = self.mixer(l) == Mixer::Attention;
            let mixed = if is_attention { vec![] } else { self.mix(w, l, &p, xs) };
            for (t, x) in xs.iter().enumerate().filter(|_| is_attention && kv_heads > 0) {
                let mut h = x.clone();
                if self.pre_norm {
                    self.normalize(w, &format!("{p}attn_norm"), &mut h, d);
                }
                let [mut q, mut k, mut v] = match (self.latent, self.gemma4) {
                    (Some(latent), _) => self.latent(w, latent, l, t, &h),
                    (_, Some(_)) => self.gemma4_qkv(w, own, l, &h),
                    _ => ["attn_q", "attn_k", "attn_v"].map(|part| self.linear(w, &format!("{p}{part}"), &h)),
                };
                if self.gated_attention {
                    let part = |from: usize| q.chunks(2 * hd).flat_map(|head| head[from..from + hd].to_vec()).collect();
                    let parts: [Vec<f64>; 2] = [part(0), part(hd)];
                    let [query, gate] = parts;
                    (q, _) = (query, gates.push(gate));
                }
                if self.clamp > 0.0 {
                    [&mut q, &mut k, &mut v].into_iter().flatten().for_each(|x| *x = x.clamp(-self.clamp, self.clamp));
                }
                let full = self.qk_norm == QkNorm::Full;
                let (nq, nk) = if full { (q.len(), k.len()) } else { (hd, hd) };
                let normalize = |q: &mut [f64], k: &mut [f64]| {
                    if self.qk_norm != QkNorm::None {
                        self.normalize(w, &format!("{p}attn_q_norm"), q, nq);
                        if own {
                            self.normalize(w, &format!("{p}attn_k_norm"), k, nk);
                        }
                    }
                };
                if !self.late_qk_norm {
                    normalize(&mut q, &mut k);
                }
                if !self.learned_positions && self.latent.is_none() {
                    self.apply_rope(l, &mut q, t, hd);
                    self.apply_rope(l, &mut k, t, hd);
                }
                if self.late_qk_norm {
                    normalize(&mut q, &mut k);
                }
                if self.norm_after_rope && !self.inv_freq[l].is_empty() {
                    for head in q.chunks_mut(hd).chain(k.chunks_mut(hd)) {
                        let rms = (head.iter().map(|v| v * v).sum::<f64>() / hd as f64 + self.eps).sqrt();
                        head.iter_mut().for_each(|v| *v /= rms);
                    }
                }
                q.iter_mut().for_each(|q| *q *= self.growth(l, t));
                vs.push(v);
                qs.push(q);
                ks.push(k);
            }
            let kept = &mut kept[usize::from(self.window[l] > 0)];
            match own {
                true => *kept = (ks.clone(), vs.clone()),
                false => (ks, vs) = kept.clone(),
            }
            for (t, x) in xs.iter_mut().enumerate() {
                let from = match self.window[l] {
                    0 => 0,
                    n if self.chunked => t / n * n,
                    n => (t + 1).saturating_sub(n),
                };
                let sinks = w.get(&format!("{p}attn_sinks.weight"));
                let mut h = x.clone();
                let mut a = vec![0.0; if is_attention && kv_heads > 0 { heads * vd } else { 0 }];
                for (i, out) in a.chunks_mut(vd).enumerate() {
                    let of = i / (heads / kv_heads);
                    let (kv, of_values) = (of * hd..(of + 1) * hd, of * vd..(of + 1) * vd);
                    let q = &qs[t][i * hd..(i + 1) * hd];
                    let dot = |k: &[f64]| q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>();
                    let mut s: Vec<f64> = (from..=t)
                        .map(|j| {
                            let score = cap(self.attention_scale * dot(&ks[j][kv.clone()]), self.attention_softcap);
                            score - self.slope(i) * (t - j) as f64
                        })
                        .collect();
                    s.extend(sinks.map(|sinks| sinks[i]));
                    softmax(&mut s);
                    for (s, v) in s.iter().zip(&vs[from..=t]) {
                        out.iter_mut().zip(&v[of_values.clone()]).for_each(|(o, v)| *o += s * v);
                    }
                }
                if self.gated_attention && is_attention {
                    a.iter_mut().zip(&gates[t]).for_each(|(a, g)| *a /= 1.0 + (-g).exp());
                }
                if is_attention && heads > 0 && kv_heads == 0 {
                    a.clone_from(&h);
                    self.normalize(w, &format!("{p}attn_norm"), &mut a, d);
                }
                let mut o = match mixed.get(t) {
                    Some(mixed) => mixed.clone(),
                    None if heads > 0 => self.linear(w, &format!("{p}attn_output"), &a),
                    None => vec![0.0; d],
                };
                if self.post_norm {
                    self.normalize(w, &format!("{p}post_attention_norm"), &mut o, d);
                }
                x.iter_mut().zip(o).for_each(|(x, o)| *x += self.residual_scale * o);
                if self.ffn == 0 && self.moe.is_none() {
                    continue;
                }
                if !self.parallel {
                    h.clone_from(x);
                }
                if self.pre_norm {
                    self.normalize(w, &format!("{p}{}", self.ffn_norm), &mut h, d);
                }
                let mut o = match self.gemma4 {
                    Some(_) => self.gemma4_ffn(w, &p, x, &h),
                    None => self.feed_forward(w, &p, &h),
                };
                if self.post_norm {
                    self.normalize(w, &format!("{p}post_ffw_norm"), &mut o, d);
                }
                x.iter_mut().zip(o).for_each(|(x, o)| *x += self.residual_scale * o);
                if let Some(gemma) = self.gemma4 {
                    self.add_layer_input(w, &p, x, &inputs[t][l * gemma.inputs..(l + 1) * gemma.inputs]);
                }
            }
        }
    }
}

/// Root-mean-square difference, relative to the standard deviation of the reference.
pub fn relative_rms(reference: &[Vec<f64>], got: &[Vec<f32>]) -> f64 {
    let all: Vec<f64> = reference.iter().flatten().copied().collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let spread = (all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
    let diff: f64 = all.iter().zip(got.iter().flatten()).map(|(a, b)| (a - f64::from(*b)).powi(2)).sum();
    (diff / all.len() as f64).sqrt() / spread
}
