//! Networks whose layers differ from one another, and MLA: their shapes, their formulas in f64, their tensors.

use super::reference::{Activation, Net, QkNorm, Score, Weights};
use super::tiny::{Tiny, Writer, inv_freq};
use realizar::quant;

/// The shape of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub heads: usize,
    /// 0: one matrix replaces attention.
    pub kv_heads: usize,
    pub head_dim: usize,
    /// 0: the layer does nothing.
    pub ffn: usize,
}

/// Multi-head latent attention.
#[derive(Clone, Copy, Debug)]
pub struct Latent {
    pub rank: usize,
    /// 0: queries are one product.
    pub query_rank: usize,
    /// Number of dimensions of a key with RoPE, and without.
    pub rope_dims: usize,
    pub still: usize,
    pub value_dim: usize,
    /// True if both products of keys and values are in one tensor.
    pub joined: bool,
}

/// The parts that only Gemma 4 has.
#[derive(Clone, Copy, Debug)]
pub struct Gemma4 {
    /// Number of layers with their own keys and values, the first ones.
    pub own: usize,
    /// Width of the input of each layer.
    pub inputs: usize,
}

fn rms(x: &mut [f64], eps: f64) {
    let scale = (x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64 + eps).sqrt();
    x.iter_mut().for_each(|v| *v /= scale);
}

impl Net {
    pub fn shape(&self, layer: usize) -> Shape {
        let common = Shape { heads: self.heads, kv_heads: self.kv_heads, head_dim: self.head_dim, ffn: self.ffn };
        self.shapes.get(layer).copied().unwrap_or(common)
    }

    /// Returns keys (after RoPE) and values of all heads, which the engine never computes.
    pub fn latent(&self, w: &Weights, latent: Latent, l: usize, t: usize, h: &[f64]) -> [Vec<f64>; 3] {
        let Latent { rank, rope_dims, still, value_dim, joined, .. } = latent;
        let p = format!("blk.{l}.");
        let part = |name: &str, x: &[f64]| self.linear(w, &format!("{p}{name}"), x);
        let mut q = if w.contains_key(&format!("{p}attn_q_a.weight")) {
            let mut narrow = part("attn_q_a", h);
            self.normalize(w, &format!("{p}attn_q_a_norm"), &mut narrow, latent.query_rank);
            part("attn_q_b", &narrow)
        } else {
            part("attn_q", h)
        };
        q.chunks_mut(still + rope_dims).for_each(|q| self.apply_rope(l, &mut q[still..], t, rope_dims));
        let mut narrow = part("attn_kv_a_mqa", h);
        let mut turned = narrow.split_off(rank);
        self.normalize(w, &format!("{p}attn_kv_a_norm"), &mut narrow, rank);
        self.apply_rope(l, &mut turned, t, rope_dims);
        let (mut k, mut v) = (vec![], vec![]);
        for head in 0..self.heads {
            let dot = |row: &[f64]| row.iter().zip(&narrow).map(|(a, b)| a * b).sum::<f64>();
            if joined {
                let rows = still + value_dim;
                let both = &w[&format!("{p}attn_kv_b.weight")][head * rows * rank..(head + 1) * rows * rank];
                k.extend(both.chunks(rank).take(still).map(dot));
                v.extend(both.chunks(rank).skip(still).map(dot));
            } else {
                // Transposed, as it is absorbed into the queries.
                let of_key = &w[&format!("{p}attn_k_b.weight")][head * rank * still..(head + 1) * rank * still];
                let column = |i: usize| of_key.iter().skip(i).step_by(still).copied().collect::<Vec<f64>>();
                k.extend((0..still).map(|i| dot(&column(i))));
                let of_value = &w[&format!("{p}attn_v_b.weight")][head * value_dim * rank..];
                v.extend(of_value.chunks(rank).take(value_dim).map(dot));
            }
            k.extend(&turned);
        }
        [q, k, v]
    }

    /// Returns queries, keys and values of a layer of Gemma 4; no keys and values if it reads another layer's.
    pub fn gemma4_qkv(&self, w: &Weights, own: bool, l: usize, h: &[f64]) -> [Vec<f64>; 3] {
        let part = |name: &str| self.linear(w, &format!("blk.{l}.{name}"), h);
        if !own {
            return [part("attn_q"), vec![], vec![]];
        }
        let has_values = w.contains_key(&format!("blk.{l}.attn_v.weight"));
        let mut v = part(if has_values { "attn_v" } else { "attn_k" });
        v.chunks_mut(self.shape(l).head_dim).for_each(|v| rms(v, self.eps));
        [part("attn_q"), part("attn_k"), v]
    }

    /// Computes the feed-forward block of Gemma 4, dense and with experts; the experts read the residual stream `x`.
    pub fn gemma4_ffn(&self, w: &Weights, p: &str, x: &[f64], h: &[f64]) -> Vec<f64> {
        let mut out = self.dense(w, p, "", h);
        let Some(router) = w.get(&format!("{p}ffn_gate_inp.weight")) else { return out };
        self.normalize(w, &format!("{p}post_ffw_norm_1"), &mut out, self.hidden);
        let mut r = x.to_vec();
        rms(&mut r, self.eps);
        let scale = &w[&format!("{p}ffn_gate_inp.scale")];
        r.iter_mut().zip(scale).for_each(|(r, s)| *r *= s / (self.hidden as f64).sqrt());
        let score = router.chunks(r.len()).map(|row| row.iter().zip(&r).map(|(a, b)| a * b).sum()).collect();
        let mut h = x.to_vec();
        self.normalize(w, &format!("{p}pre_ffw_norm_2"), &mut h, self.hidden);
        let mut y = self.experts(w, p, &h, self.moe.unwrap(), score);
        self.normalize(w, &format!("{p}post_ffw_norm_2"), &mut y, self.hidden);
        out.iter_mut().zip(y).for_each(|(o, y)| *o += y);
        out
    }

    /// Returns the inputs of all layers for a token whose embedding is `x`.
    pub fn layer_inputs(&self, w: &Weights, gemma: Gemma4, id: usize, x: &[f64]) -> Vec<f64> {
        let all = self.layers * gemma.inputs;
        let mut inputs = self.linear(w, "per_layer_model_proj", x);
        inputs.iter_mut().for_each(|v| *v /= (self.hidden as f64).sqrt());
        self.normalize(w, "per_layer_proj_norm", &mut inputs, gemma.inputs);
        let token = &w["per_layer_token_embd.weight"][id * all..(id + 1) * all];
        let scale = (gemma.inputs as f64).sqrt();
        inputs.iter().zip(token).map(|(v, token)| (v + scale * token) / 2f64.sqrt()).collect()
    }

    /// Computes the end of a layer of Gemma 4.
    pub fn add_layer_input(&self, w: &Weights, p: &str, x: &mut [f64], input: &[f64]) {
        let mut gate = self.linear(w, &format!("{p}inp_gate"), x);
        gate.iter_mut().zip(input).for_each(|(g, v)| *g = self.activate(*g) * v);
        let mut y = self.linear(w, &format!("{p}proj"), &gate);
        self.normalize(w, &format!("{p}post_norm"), &mut y, self.hidden);
        let scale = w.get(&format!("{p}layer_output_scale.weight")).map_or(1.0, |s| s[0]);
        x.iter_mut().zip(y).for_each(|(x, y)| *x = (*x + y) * scale);
    }
}

impl Writer<'_> {
    pub fn latent(&mut self, p: &str, latent: Latent) {
        let (d, heads) = (self.tiny.net.hidden, self.tiny.net.heads);
        let Latent { rank, query_rank, rope_dims, still, value_dim, joined } = latent;
        let name = |part: &str| format!("{p}{part}");
        if query_rank > 0 {
            self.matrix(&name("attn_q_a"), query_rank, d);
            self.norm(&name("attn_q_a_norm"), query_rank);
            self.matrix(&name("attn_q_b"), heads * (still + rope_dims), query_rank);
        } else {
            self.matrix(&name("attn_q"), heads * (still + rope_dims), d);
        }
        self.matrix(&name("attn_kv_a_mqa"), rank + rope_dims, d);
        self.norm(&name("attn_kv_a_norm"), rank);
        if joined {
            self.matrix(&name("attn_kv_b"), heads * (still + value_dim), rank);
        } else {
            let of_heads = |rows: usize, cols: usize| [heads as u64, rows as u64, cols as u64];
            self.stacked(&[&name("attn_k_b")], &of_heads(rank, still), &[0]);
            self.stacked(&[&name("attn_v_b")], &of_heads(value_dim, rank), &[0]);
        }
        self.matrix(&name("attn_output"), d, heads * value_dim);
    }

    pub fn gemma4_inputs(&mut self, gemma: Gemma4) {
        let net = &self.tiny.net;
        let (vocab, d, all) = (net.vocab, net.hidden, net.layers * gemma.inputs);
        self.matrix("per_layer_token_embd", vocab, all);
        self.matrix("per_layer_model_proj", all, d);
        self.norm("per_layer_proj_norm", gemma.inputs);
    }

    /// Adds the tensors of a layer of Gemma 4 other than attention and feed-forward.
    pub fn gemma4_layer(&mut self, p: &str, gemma: Gemma4, has_experts: bool) {
        let d = self.tiny.net.hidden;
        let name = |part: &str| format!("{p}{part}");
        self.matrix(&name("inp_gate"), gemma.inputs, d);
        self.matrix(&name("proj"), d, gemma.inputs);
        self.norm(&name("post_norm"), d);
        let mut vector = |part: &str, len, middle, deviation| {
            let values = self.vector(&name(part), len, middle, deviation);
            self.weights.insert(name(part), values);
        };
        vector("layer_output_scale.weight", 1, 0.8, 0.1);
        if has_experts {
            vector("ffn_gate_inp.scale", d, 3.0, 0.5);
            for norm in ["post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"] {
                self.norm(&name(norm), d);
            }
        }
    }
}

/// Returns one network of each architecture whose layers differ, derived from `new(name)`.
pub fn architectures(
    new: &dyn Fn(&'static str) -> Tiny,
    experts: &dyn Fn(&mut Tiny, Score),
) -> Vec<(&'static str, Tiny)> {
    let latent = |t: &mut Tiny, joined| {
        // Whole blocks of 32.
        let still = t.net.head_dim.max(32);
        let (rank, query_rank) = (2 * still, if joined { 0 } else { t.net.hidden });
        let latent = Latent { rank, query_rank, rope_dims: still / 2, still, value_dim: still, joined };
        (t.net.latent, t.net.adjacent_pairs, t.net.kv_heads) = (Some(latent), true, t.net.heads);
        t.net.attention_scale = 1.0 / ((still + latent.rope_dims) as f64).sqrt();
        t.net.inv_freq = vec![inv_freq(t.rope_base, latent.rope_dims); t.net.layers];
        t.ints = vec![("attention.kv_lora_rank", rank as u32), ("rope.dimension_count", latent.rope_dims as u32)];
        if query_rank > 0 {
            t.ints.push(("attention.q_lora_rank", query_rank as u32));
        }
    };
    let of = |t: &Tiny, heads, kv_heads, ffn| Shape { heads, kv_heads, head_dim: t.net.head_dim, ffn };
    vec![
        (
            "openelm",
            new("openelm").layers(3).change(|t| {
                let (heads, kv, ffn) = (t.net.heads, t.net.kv_heads, t.net.ffn);
                (t.net.qk_norm, t.fused_qkv) = (QkNorm::Head, true);
                t.net.shapes = vec![
                    of(t, heads / 2, (kv / 2).max(1), 2 * ffn),
                    of(t, heads, kv, ffn),
                    of(t, heads, (kv / 2).max(1), ffn),
                ];
            }),
        ),
        (
            "deci",
            new("deci").layers(5).change(|t| {
                let (heads, kv, ffn) = (t.net.heads, t.net.kv_heads, t.net.ffn);
                t.net.adjacent_pairs = true;
                t.net.shapes = vec![
                    of(t, heads, 0, ffn),
                    of(t, heads, kv, ffn),
                    of(t, 0, 0, 2 * ffn),
                    of(t, 0, 0, 0),
                    of(t, heads / 2, (kv / 2).max(1), ffn),
                ];
            }),
        ),
        (
            "deepseek2",
            new("deepseek2").layers(3).change(|t| {
                latent(t, false);
                experts(t, Score::Sigmoid);
                t.moe(|moe| {
                    (moe.n, moe.used, moe.groups, moe.groups_used, moe.scale) = (8, 3, 4, 2, 2.5);
                    (moe.dense, moe.choice_bias, moe.shared) = (1, true, true);
                });
                t.floats = vec![("expert_weights_scale", 2.5)];
                t.ints.extend([("expert_group_count", 4), ("expert_group_used_count", 2), ("expert_gating_func", 2)]);
                t.flags = vec![("expert_weights_norm", true)];
                // With this seed, no two experts are nearly tied.
                t.seed = 29;
            }),
        ),
        ("deepseek2 with one tensor for keys and values", new("deepseek2").change(|t| latent(t, true))),
        (
            "minicpm3",
            new("minicpm3").change(|t| {
                latent(t, true);
                t.net.adjacent_pairs = false;
                let query_rank = t.net.hidden;
                t.net.latent.iter_mut().for_each(|latent| latent.query_rank = query_rank);
                t.ints.push(("attention.q_lora_rank", query_rank as u32));
                (t.net.embedding_scale, t.net.logit_scale) = (12.0, 256.0 / t.net.hidden as f64);
                t.net.residual_scale = f64::from(1.4 / (t.net.layers as f32).sqrt());
            }),
        ),
        (
            "gemma4",
            new("gemma4").layers(6).change(|t| {
                let (heads, kv, dim, ffn) = (t.net.heads, t.net.kv_heads, t.net.head_dim, t.net.ffn);
                experts(t, Score::Softmax);
                t.moe(|moe| moe.dense = 4);
                t.seed = 2;
                (t.net.post_norm, t.net.qk_norm, t.net.activation) = (true, QkNorm::Head, Activation::Gelu);
                t.net.embedding_scale = f64::from((t.net.hidden as f32).sqrt());
                (t.net.attention_scale, t.net.logit_softcap) = (1.0, 30.0);
                (t.net.window, t.rope_base) = (vec![8, 8, 0, 8, 8, 0], 1e6);
                let width = |window: usize| if window > 0 { dim } else { 2 * dim };
                let shape = |window: &usize| match *window {
                    0 => Shape { heads, kv_heads: (kv / 2).max(1), head_dim: 2 * dim, ffn },
                    _ => Shape { heads, kv_heads: kv, head_dim: dim, ffn },
                };
                t.net.shapes = t.net.window.iter().map(shape).collect();
                t.net.gemma4 = Some(Gemma4 { own: 4, inputs: dim.max(32) });
                let base = |window: usize| if window == 0 { 1e6 } else { 10_000.0 };
                t.net.inv_freq = t.net.window.iter().map(|&w| inv_freq(base(w), width(w))).collect();
                t.ints = vec![
                    ("attention.sliding_window", 8),
                    ("attention.sliding_window_pattern", 3),
                    ("attention.key_length_swa", dim as u32),
                    ("attention.value_length_swa", dim as u32),
                    ("attention.shared_kv_layers", 2),
                    ("embedding_length_per_layer_input", dim.max(32) as u32),
                ];
                t.net.head_dim = 2 * dim;
                // Each pair of the full layers has a divisor; the last pairs have no RoPE.
                let divisors: Vec<f32> =
                    (0..dim).map(|i| if i < dim / 2 { 1.0 + i as f32 / 8.0 } else { 1e30 }).collect();
                for (inv, window) in t.net.inv_freq.iter_mut().zip(&t.net.window) {
                    if *window == 0 {
                        inv.iter_mut().zip(&divisors).for_each(|(f, d)| *f /= f64::from(*d));
                    }
                }
                t.tensors = vec![("rope_freqs.weight", divisors)];
                t.types.push(("per_layer_token_embd", quant::F32));
            }),
        ),
    ]
}
