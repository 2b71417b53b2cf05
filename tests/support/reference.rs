//! An independent forward pass in float64: no cache, nothing fused, the whole sequence at once. It shares no code
//! with the engine; only the weights' values come through the library's block codecs, which have tests of their own.

use std::collections::HashMap;

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
pub enum Act {
    Silu,
    Gelu,
}

#[derive(Clone, Copy, Debug)]
pub struct Moe {
    pub n: usize,
    pub used: usize,
    pub ffn: usize,
    pub softmax_first: bool,
    pub renormalise: bool,
}

/// A network by its differences, in the names of GGUF tensors.
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
    /// Queries and keys are normalised after they have turned.
    pub late_qk_norm: bool,
    /// The norm ahead of the feed-forward block.
    pub ffn_norm: &'static str,
    /// Attention and feed-forward block read the same residual stream.
    pub parallel: bool,
    pub act: Act,
    pub gated: bool,
    pub learned_positions: bool,
    pub adjacent_pairs: bool,
    /// Per layer: angle of each pair per position, already scaled; none where a layer does not rotate.
    pub inv_freq: Vec<Vec<f64>>,
    pub rope_magnitude: f64,
    /// Per layer; 0: none.
    pub window: Vec<usize>,
    pub embedding_scale: f64,
    pub residual_scale: f64,
    pub attention_scale: f64,
    pub attention_softcap: f64,
    pub logit_scale: f64,
    pub logit_softcap: f64,
    pub moe: Option<Moe>,
}

pub type Weights = HashMap<String, Vec<f64>>;

fn cap(x: f64, limit: f64) -> f64 {
    if limit == 0.0 { x } else { limit * (x / limit).tanh() }
}

fn activate(act: Act, x: f64) -> f64 {
    match act {
        Act::Silu => x / (1.0 + (-x).exp()),
        Act::Gelu => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
    }
}

fn softmax(x: &mut [f64]) {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    x.iter_mut().for_each(|v| *v = (*v - max).exp());
    let sum: f64 = x.iter().sum();
    x.iter_mut().for_each(|v| *v /= sum);
}

impl Net {
    fn normalise(&self, w: &Weights, name: &str, x: &mut [f64], group: usize) {
        let weight = &w[&format!("{name}.weight")];
        let bias = w.get(&format!("{name}.bias"));
        for chunk in x.chunks_mut(group) {
            let n = chunk.len() as f64;
            if self.norm == Norm::Layer {
                let mean = chunk.iter().sum::<f64>() / n;
                chunk.iter_mut().for_each(|v| *v -= mean);
            }
            let scale = (chunk.iter().map(|v| v * v).sum::<f64>() / n + self.eps).sqrt();
            for (i, v) in chunk.iter_mut().enumerate() {
                *v = *v / scale * weight[i] + bias.map_or(0.0, |b| b[i]);
            }
        }
    }

    /// `scale * (W x) + bias`, in feed-forward blocks `scale * (W x + bias)`.
    fn linear(&self, w: &Weights, name: &str, x: &[f64]) -> Vec<f64> {
        let weight = &w[&format!("{name}.weight")];
        let bias = w.get(&format!("{name}.bias"));
        let scale = w.get(&format!("{name}.scale")).map_or(1.0, |s| s[0]);
        let row = |(i, row): (usize, &[f64])| {
            let dot = row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>();
            let bias = bias.map_or(0.0, |b| b[i]);
            if name.contains("ffn_") { scale * (dot + bias) } else { scale * dot + bias }
        };
        weight.chunks(x.len()).enumerate().map(row).collect()
    }

    fn turn(&self, layer: usize, x: &mut [f64], position: usize) {
        for head in x.chunks_mut(self.head_dim) {
            let inv = &self.inv_freq[layer];
            for (i, f) in inv.iter().enumerate() {
                let (a, b) = if self.adjacent_pairs { (2 * i, 2 * i + 1) } else { (i, i + inv.len()) };
                let (sin, cos) = (position as f64 * f).sin_cos();
                let (sin, cos) = (sin * self.rope_magnitude, cos * self.rope_magnitude);
                (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
            }
        }
    }

    fn feed_forward(&self, w: &Weights, p: &str, x: &[f64]) -> Vec<f64> {
        let Some(moe) = self.moe else {
            let mut h = self.linear(w, &format!("{p}ffn_up"), x);
            if self.gated {
                let gate = self.linear(w, &format!("{p}ffn_gate"), x);
                h.iter_mut().zip(gate).for_each(|(h, g)| *h *= activate(self.act, g));
            } else {
                h.iter_mut().for_each(|h| *h = activate(self.act, *h));
            }
            return self.linear(w, &format!("{p}ffn_down"), &h);
        };
        let mut score = self.linear(w, &format!("{p}ffn_gate_inp"), x);
        if moe.softmax_first {
            softmax(&mut score);
        }
        let mut order: Vec<usize> = (0..moe.n).collect();
        order.sort_by(|&a, &b| score[b].total_cmp(&score[a]));
        order.truncate(moe.used);
        let mut share: Vec<f64> = order.iter().map(|&e| score[e]).collect();
        if !moe.softmax_first {
            softmax(&mut share);
        } else if moe.renormalise {
            let sum: f64 = share.iter().sum();
            share.iter_mut().for_each(|s| *s /= sum);
        }
        let mut out = vec![0.0; self.hidden];
        let (f, d) = (moe.ffn, self.hidden);
        let slice = |name: &str, e: usize, rows: usize, cols: usize| {
            w[&format!("{p}ffn_{name}_exps.weight")][e * rows * cols..(e + 1) * rows * cols].to_vec()
        };
        for (&e, share) in order.iter().zip(share) {
            let one: Weights = HashMap::from([
                ("g.weight".to_owned(), slice("gate", e, f, d)),
                ("u.weight".to_owned(), slice("up", e, f, d)),
                ("d.weight".to_owned(), slice("down", e, d, f)),
            ]);
            let gate = self.linear(&one, "g", x);
            let up = self.linear(&one, "u", x);
            let h: Vec<f64> = gate.iter().zip(up).map(|(g, u)| activate(self.act, *g) * u).collect();
            out.iter_mut().zip(self.linear(&one, "d", &h)).for_each(|(o, v)| *o += share * v);
        }
        out
    }

    /// Logits of every position, `[ids.len()][vocab]`.
    pub fn forward(&self, w: &Weights, ids: &[u32]) -> Vec<Vec<f64>> {
        let (d, hd, group) = (self.hidden, self.head_dim, self.heads / self.kv_heads);
        let row = |table: &str, i: usize| w[table][i * d..(i + 1) * d].to_vec();
        let mut xs: Vec<Vec<f64>> = ids.iter().map(|&t| row("token_embd.weight", t as usize)).collect();
        for (t, x) in xs.iter_mut().enumerate() {
            x.iter_mut().for_each(|v| *v *= self.embedding_scale);
            if self.learned_positions {
                x.iter_mut().zip(row("position_embd.weight", t)).for_each(|(v, p)| *v += p);
            }
        }
        for l in 0..self.layers {
            let p = format!("blk.{l}.");
            let (mut qs, mut ks, mut vs) = (vec![], vec![], vec![]);
            for (t, x) in xs.iter().enumerate() {
                let mut h = x.clone();
                if self.pre_norm {
                    self.normalise(w, &format!("{p}attn_norm"), &mut h, d);
                }
                let mut q = self.linear(w, &format!("{p}attn_q"), &h);
                let mut k = self.linear(w, &format!("{p}attn_k"), &h);
                let full = self.qk_norm == QkNorm::Full;
                let (nq, nk) = if full { (q.len(), k.len()) } else { (hd, hd) };
                let normalise = |q: &mut [f64], k: &mut [f64]| {
                    if self.qk_norm != QkNorm::None {
                        self.normalise(w, &format!("{p}attn_q_norm"), q, nq);
                        self.normalise(w, &format!("{p}attn_k_norm"), k, nk);
                    }
                };
                if !self.late_qk_norm {
                    normalise(&mut q, &mut k);
                }
                if !self.learned_positions {
                    self.turn(l, &mut q, t);
                    self.turn(l, &mut k, t);
                }
                if self.late_qk_norm {
                    normalise(&mut q, &mut k);
                }
                vs.push(self.linear(w, &format!("{p}attn_v"), &h));
                qs.push(q);
                ks.push(k);
            }
            for (t, x) in xs.iter_mut().enumerate() {
                let from = if self.window[l] == 0 { 0 } else { (t + 1).saturating_sub(self.window[l]) };
                let mut a = vec![0.0; self.heads * hd];
                for (i, out) in a.chunks_mut(hd).enumerate() {
                    let kv = i / group * hd..(i / group + 1) * hd;
                    let q = &qs[t][i * hd..(i + 1) * hd];
                    let dot = |k: &[f64]| q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>();
                    let mut s: Vec<f64> = (from..=t)
                        .map(|j| cap(self.attention_scale * dot(&ks[j][kv.clone()]), self.attention_softcap))
                        .collect();
                    softmax(&mut s);
                    for (s, v) in s.iter().zip(&vs[from..=t]) {
                        out.iter_mut().zip(&v[kv.clone()]).for_each(|(o, v)| *o += s * v);
                    }
                }
                let mut o = self.linear(w, &format!("{p}attn_output"), &a);
                if self.post_norm {
                    self.normalise(w, &format!("{p}post_attention_norm"), &mut o, d);
                }
                let mut h = x.clone();
                x.iter_mut().zip(o).for_each(|(x, o)| *x += self.residual_scale * o);
                if !self.parallel {
                    h.clone_from(x);
                }
                if self.pre_norm {
                    self.normalise(w, &format!("{p}{}", self.ffn_norm), &mut h, d);
                }
                let mut o = self.feed_forward(w, &p, &h);
                if self.post_norm {
                    self.normalise(w, &format!("{p}post_ffw_norm"), &mut o, d);
                }
                x.iter_mut().zip(o).for_each(|(x, o)| *x += self.residual_scale * o);
            }
        }
        let head = if w.contains_key("output.weight") { "output" } else { "token_embd" };
        let logits = |mut x: Vec<f64>| {
            self.normalise(w, "output_norm", &mut x, d);
            let y = self.linear(w, head, &x);
            y.into_iter().map(|v| cap(v * self.logit_scale, self.logit_softcap)).collect()
        };
        xs.into_iter().map(logits).collect()
    }
}

/// Root-mean-square difference over the standard deviation of the reference.
pub fn relative_rms(reference: &[Vec<f64>], got: &[Vec<f32>]) -> f64 {
    let all: Vec<f64> = reference.iter().flatten().copied().collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let spread = (all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
    let diff: f64 = all.iter().zip(got.iter().flatten()).map(|(a, b)| (a - f64::from(*b)).powi(2)).sum();
    (diff / all.len() as f64).sqrt() / spread
}
