//! Tiny embedding models with random weights: their files, and an f64 forward pass that shares no code with the engine.

use std::collections::BTreeMap;

use super::gguf::Gguf;

pub const HIDDEN: usize = 32;
pub const VOCAB: usize = 60;
pub const CONTEXT: usize = 96;
const HEADS: usize = 4;
const DIM: usize = 8;
const FFN: usize = 48;
const EXPERTS: usize = 4;
const EPS: f64 = 1e-5;

#[derive(Clone, Copy, PartialEq)]
pub enum Gate {
    None,
    Apart,
    /// Gate and up in one matrix.
    Fused,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Activation {
    Silu,
    GeluTanh,
    GeluErf,
}

/// An embedding model, described by its differences.
#[derive(Clone)]
pub struct Encoder {
    pub architecture: &'static str,
    pub layers: usize,
    /// True if norms precede their blocks, with a further norm at the end.
    pub pre_norm: bool,
    /// True if the results of blocks have norms, in addition to the norms before blocks.
    pub post_norm: bool,
    pub rms: bool,
    pub token_types: bool,
    pub positions: bool,
    pub alibi: bool,
    /// RoPE base, and the base of layers with a window.
    pub rope: Option<[f64; 2]>,
    pub windows: Vec<usize>,
    pub fused_qkv: bool,
    pub bias: bool,
    pub gate: Gate,
    pub activation: Activation,
    /// Norms of queries and keys: layer norms of the whole vector, or RMS norms per head.
    pub qk_norm: bool,
    pub second_norm: bool,
    /// True if every second layer has experts without gates.
    pub experts: bool,
    pub seed: u64,
    /// Pooling, by its number in GGUF files.
    pub pooling: u32,
    /// Name, rows and columns of matrices outside of layers; a name that ends with `bias` or `norm.weight` has one row.
    pub head: Vec<(&'static str, usize, usize)>,
    /// Further keys after the name of the architecture.
    pub ints: Vec<(&'static str, u32)>,
}

/// Returns all embedding models.
pub fn all() -> Vec<Encoder> {
    let bert = Encoder {
        architecture: "bert",
        layers: 3,
        pre_norm: false,
        post_norm: false,
        rms: false,
        token_types: true,
        positions: true,
        alibi: false,
        rope: None,
        windows: vec![0; 3],
        fused_qkv: false,
        bias: true,
        gate: Gate::None,
        activation: Activation::GeluErf,
        qk_norm: false,
        second_norm: false,
        experts: false,
        seed: 5,
        pooling: 1,
        head: vec![],
        ints: vec![],
    };
    let nomic = Encoder {
        architecture: "nomic-bert",
        positions: false,
        rope: Some([1000.0; 2]),
        fused_qkv: true,
        bias: false,
        gate: Gate::Apart,
        activation: Activation::Silu,
        ..bert.clone()
    };
    let jina =
        Encoder { architecture: "jina-bert-v2", positions: false, alibi: true, gate: Gate::Fused, ..bert.clone() };
    let modern = Encoder {
        architecture: "modern-bert",
        layers: 4,
        pre_norm: true,
        token_types: false,
        positions: false,
        rope: Some([160_000.0, 10_000.0]),
        windows: vec![0, 6, 6, 0],
        fused_qkv: true,
        bias: false,
        gate: Gate::Fused,
        pooling: 2,
        ints: vec![("attention.sliding_window", 6), ("attention.sliding_window_pattern", 3)],
        ..bert.clone()
    };
    vec![
        Encoder {
            architecture: "nomic-bert-moe",
            bias: true,
            gate: Gate::None,
            activation: Activation::GeluErf,
            experts: true,
            ints: vec![("expert_count", 4), ("expert_used_count", 2), ("moe_every_n_layers", 2)],
            ..nomic.clone()
        },
        Encoder {
            architecture: "jina-bert-v3",
            bias: true,
            gate: Gate::None,
            activation: Activation::GeluErf,
            ..nomic.clone()
        },
        Encoder { qk_norm: true, second_norm: true, gate: Gate::Apart, seed: 6, ..jina.clone() },
        Encoder {
            architecture: "eurobert",
            pre_norm: true,
            rms: true,
            token_types: false,
            fused_qkv: false,
            pooling: 3,
            ..nomic.clone()
        },
        Encoder {
            architecture: "gemma-embedding",
            post_norm: true,
            rms: true,
            layers: 3,
            rope: Some([1_000_000.0, 10_000.0]),
            windows: vec![5, 0, 5],
            gate: Gate::Apart,
            activation: Activation::GeluTanh,
            qk_norm: true,
            fused_qkv: false,
            pooling: 1,
            head: vec![("dense_2.weight", 40, HIDDEN), ("dense_3.weight", 24, 40)],
            ints: vec![
                ("attention.sliding_window", 5),
                ("attention.sliding_window_pattern", 2),
                ("dense_2_feat_in", HIDDEN as u32),
                ("dense_2_feat_out", 40),
                ("dense_3_feat_in", 40),
                ("dense_3_feat_out", 24),
            ],
            ..modern.clone()
        },
        Encoder {
            seed: 9,
            pooling: 4,
            head: vec![
                ("cls.weight", HIDDEN, HIDDEN),
                ("cls.norm.weight", 1, HIDDEN),
                ("cls.output.weight", 2, HIDDEN),
            ],
            ..modern.clone()
        },
        Encoder {
            seed: 8,
            pooling: 4,
            head: vec![
                ("cls.weight", HIDDEN, HIDDEN),
                ("cls.bias", 1, HIDDEN),
                ("cls.output.weight", 3, HIDDEN),
                ("cls.output.bias", 1, 3),
            ],
            ..bert.clone()
        },
        bert,
        nomic,
        jina,
        modern,
    ]
}

type Row = Vec<f64>;

/// A linear congruential generator; the sum of twelve of its numbers is normal enough for weights.
struct Rng(u64);

impl Rng {
    fn normal(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

pub struct Weights(BTreeMap<String, (Vec<u64>, Vec<f32>)>);

impl Weights {
    /// Returns name, shape and values of each tensor.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u64], &[f32])> {
        self.0.iter().map(|(name, (dims, values))| (name.as_str(), &dims[..], &values[..]))
    }

    fn row(&self, name: &str, i: usize) -> Row {
        let (dims, values) = &self.0[name];
        let cols = *dims.last().unwrap() as usize;
        values[i * cols..(i + 1) * cols].iter().map(|&x| f64::from(x)).collect()
    }

    fn vector(&self, name: &str) -> Option<Row> {
        self.0.get(name).map(|(_, values)| values.iter().map(|&x| f64::from(x)).collect())
    }

    /// Returns rows `from..to` of a matrix times `x`, plus their biases.
    fn product(&self, part: &str, rows: std::ops::Range<usize>, x: &[f64]) -> Row {
        let bias = self.vector(&format!("{part}.bias"));
        let weight = format!("{part}.weight");
        rows.map(|r| dot(&self.row(&weight, r), x) + bias.as_ref().map_or(0.0, |bias| bias[r])).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn erf(x: f64) -> f64 {
    // Simpson's rule.
    let n = 200;
    let h = x / f64::from(n);
    let f = |i: i32| (-(h * f64::from(i)).powi(2)).exp();
    let inner: f64 = (1..n).map(|i| if i % 2 == 1 { 4.0 * f(i) } else { 2.0 * f(i) }).sum();
    std::f64::consts::FRAC_2_SQRT_PI * h / 3.0 * (f(0) + inner + f(n))
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluErf => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
    }
}

fn softmax(scores: &mut [f64]) {
    let peak = scores.iter().copied().fold(f64::MIN, f64::max);
    scores.iter_mut().for_each(|s| *s = (*s - peak).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|s| *s /= sum);
}

/// Adds a tensor with these dimensions and this mean and deviation of its values.
type AddTensor<'a> = &'a mut dyn FnMut(String, &[usize], f64, f64);

impl Encoder {
    /// Returns the file, and the weights in it.
    pub fn file(&self) -> (Gguf, Weights) {
        let mut rng = Rng(self.seed);
        let mut tensors: BTreeMap<String, (Vec<u64>, Vec<f32>)> = BTreeMap::new();
        let mut add = |name: String, dims: &[usize], mean: f64, deviation: f64| {
            let n = dims.iter().product();
            let values = (0..n).map(|_| (mean + deviation * rng.normal()) as f32).collect();
            tensors.insert(name, (dims.iter().map(|&d| d as u64).collect(), values));
        };
        let deviation = |cols: usize| 1.0 / (cols as f64).sqrt();
        add("token_embd.weight".into(), &[VOCAB, HIDDEN], 0.0, 1.0);
        if self.token_types {
            add("token_types.weight".into(), &[2, HIDDEN], 0.0, 0.5);
        }
        if self.positions {
            add("position_embd.weight".into(), &[CONTEXT, HIDDEN], 0.0, 0.5);
        }
        let with_bias = self.bias;
        let norm = |add: AddTensor, part: String, n: usize| {
            add(format!("{part}.weight"), &[n], 1.0, 0.2);
            if with_bias {
                add(format!("{part}.bias"), &[n], 0.0, 0.2);
            }
        };
        if !self.rms {
            norm(&mut add, "token_embd_norm".into(), HIDDEN);
        }
        if self.pre_norm {
            norm(&mut add, "output_norm".into(), HIDDEN);
        }
        for i in 0..self.layers {
            let name = |part: &str| format!("blk.{i}.{part}");
            let mut matrix = |part: &str, rows: usize, cols: usize| {
                add(format!("{}.weight", name(part)), &[rows, cols], 0.0, deviation(cols));
                if with_bias {
                    add(format!("{}.bias", name(part)), &[rows], 0.0, 0.2);
                }
            };
            match self.fused_qkv {
                true => matrix("attn_qkv", 3 * HIDDEN, HIDDEN),
                false => ["attn_q", "attn_k", "attn_v"].iter().for_each(|part| matrix(part, HIDDEN, HIDDEN)),
            }
            matrix("attn_output", HIDDEN, HIDDEN);
            if self.experts && i % 2 == 1 {
                let mut plain = |part: &str, dims: &[usize]| {
                    add(format!("{}.weight", name(part)), dims, 0.0, deviation(dims[dims.len() - 1]));
                };
                plain("ffn_gate_inp", &[EXPERTS, HIDDEN]);
                plain("ffn_up_exps", &[EXPERTS, FFN, HIDDEN]);
                plain("ffn_down_exps", &[EXPERTS, HIDDEN, FFN]);
            } else {
                if self.gate == Gate::Apart {
                    matrix("ffn_gate", FFN, HIDDEN);
                }
                matrix("ffn_up", if self.gate == Gate::Fused { 2 * FFN } else { FFN }, HIDDEN);
                matrix("ffn_down", HIDDEN, FFN);
            }
            let norms: &[&str] = match (self.pre_norm, self.post_norm) {
                (true, true) => &["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"],
                (true, false) => &["attn_norm", "ffn_norm"],
                (false, _) => &["attn_output_norm", "layer_output_norm"],
            };
            // The first layer of ModernBERT has no norm.
            for part in
                norms.iter().filter(|part| !(self.architecture == "modern-bert" && i == 0 && **part == "attn_norm"))
            {
                norm(&mut add, name(part), HIDDEN);
            }
            if self.qk_norm {
                let n = if self.rms { DIM } else { HIDDEN };
                norm(&mut add, name("attn_q_norm"), n);
                norm(&mut add, name("attn_k_norm"), n);
            }
            if self.second_norm {
                norm(&mut add, name("attn_norm_2"), HIDDEN);
            }
        }
        for (name, rows, cols) in &self.head {
            let dims = if *rows == 1 { vec![*cols] } else { vec![*rows, *cols] };
            let mean = if name.contains("norm") { 1.0 } else { 0.0 };
            add((*name).to_owned(), &dims, mean, 0.3);
        }
        let key = |name: &str| format!("{}.{name}", self.architecture);
        let mut file = Gguf::new()
            .key("general.architecture", self.architecture)
            .key(&key("block_count"), self.layers as u32)
            .key(&key("context_length"), CONTEXT as u32)
            .key(&key("embedding_length"), HIDDEN as u32)
            .key(&key("feed_forward_length"), FFN as u32)
            .key(&key("attention.head_count"), HEADS as u32)
            .key(&key("attention.layer_norm_epsilon"), EPS as f32)
            .key(&key("attention.causal"), false)
            .key(&key("pooling_type"), self.pooling);
        if let Some([base, local]) = self.rope {
            file = file.key(&key("rope.freq_base"), base as f32);
            if base != local {
                file = file.key(&key("rope.freq_base_swa"), local as f32);
            }
        }
        for (name, value) in &self.ints {
            file = file.key(&key(name), *value);
        }
        for (name, (dims, values)) in &tensors {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            file = file.tensor(name, 0, dims, &bytes);
        }
        (file, Weights(tensors))
    }

    fn norm(&self, w: &Weights, part: &str, x: &[f64]) -> Row {
        let Some(weight) = w.vector(&format!("{part}.weight")) else { return x.to_vec() };
        let bias = w.vector(&format!("{part}.bias"));
        let n = x.len() as f64;
        let mean = if self.rms { 0.0 } else { x.iter().sum::<f64>() / n };
        let by = 1.0 / (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n + EPS as f32 as f64).sqrt();
        let scaled = x.iter().zip(&weight).map(|(x, w)| (x - mean) * by * w);
        scaled.enumerate().map(|(i, x)| x + bias.as_ref().map_or(0.0, |bias| bias[i])).collect()
    }

    fn heads(&self, w: &Weights, part: &str, base: Option<f64>, position: usize, x: Row) -> Row {
        let mut x = match (self.qk_norm, self.rms) {
            (false, _) => x,
            (true, false) => self.norm(w, part, &x),
            (true, true) => x.chunks(DIM).flat_map(|head| self.norm(w, part, head)).collect(),
        };
        if let Some(base) = base {
            for head in x.chunks_mut(DIM) {
                for i in 0..DIM / 2 {
                    let angle = position as f64 * base.powf(-2.0 * i as f64 / DIM as f64);
                    let (a, b) = (head[i], head[i + DIM / 2]);
                    head[i] = a * angle.cos() - b * angle.sin();
                    head[i + DIM / 2] = a * angle.sin() + b * angle.cos();
                }
            }
        }
        x
    }

    /// Returns the hidden states of the tokens of a text.
    pub fn states(&self, w: &Weights, ids: &[u32]) -> Vec<Row> {
        let scale = if self.post_norm { (HIDDEN as f64).sqrt() } else { 1.0 };
        let mut x: Vec<Row> = ids.iter().map(|&id| w.row("token_embd.weight", id as usize)).collect();
        for (position, x) in x.iter_mut().enumerate() {
            x.iter_mut().for_each(|x| *x *= f64::from(scale as f32));
            for (name, there, i) in
                [("token_types.weight", self.token_types, 0), ("position_embd.weight", self.positions, position)]
            {
                if there {
                    x.iter_mut().zip(w.row(name, i)).for_each(|(x, e)| *x += e);
                }
            }
            *x = self.norm(w, "token_embd_norm", x);
        }
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let window = self.windows[layer];
            let base = self.rope.map(|[global, local]| if window > 0 { local } else { global });
            let part = |i: usize, x: &[f64]| match self.fused_qkv {
                true => w.product(&name("attn_qkv"), i * HIDDEN..(i + 1) * HIDDEN, x),
                false => w.product(&name(["attn_q", "attn_k", "attn_v"][i]), 0..HIDDEN, x),
            };
            let qkv: Vec<[Row; 3]> = x
                .iter()
                .enumerate()
                .map(|(p, x)| {
                    let h = if self.pre_norm { self.norm(w, &name("attn_norm"), x) } else { x.clone() };
                    let [q, k, v] = [0, 1, 2].map(|i| part(i, &h));
                    [
                        self.heads(w, &name("attn_q_norm"), base, p, q),
                        self.heads(w, &name("attn_k_norm"), base, p, k),
                        v,
                    ]
                })
                .collect();
            let attended: Vec<Row> = (0..x.len()).map(|p| self.attend(&qkv, p, window)).collect();
            for (x, a) in x.iter_mut().zip(attended) {
                let mut o = w.product(&name("attn_output"), 0..HIDDEN, &a);
                if self.post_norm {
                    o = self.norm(w, &name("post_attention_norm"), &o);
                }
                let sum = |a: &[f64], b: &[f64]| -> Row { a.iter().zip(b).map(|(a, b)| a + b).collect() };
                let mut y = sum(x, &o);
                if !self.pre_norm {
                    y = self.norm(w, &name("attn_output_norm"), &y);
                }
                if self.second_norm {
                    y = self.norm(w, &name("attn_norm_2"), &sum(&y, x));
                }
                let h = if self.pre_norm { self.norm(w, &name("ffn_norm"), &y) } else { y.clone() };
                let mut o = self.feed_forward(w, layer, &h);
                if self.post_norm {
                    o = self.norm(w, &name("post_ffw_norm"), &o);
                }
                *x = sum(&y, &o);
                if !self.pre_norm {
                    *x = self.norm(w, &name("layer_output_norm"), x);
                }
            }
        }
        x.iter().map(|x| if self.pre_norm { self.norm(w, "output_norm", x) } else { x.clone() }).collect()
    }

    fn attend(&self, qkv: &[[Row; 3]], position: usize, window: usize) -> Row {
        let mut out = vec![0.0; HIDDEN];
        for head in 0..HEADS {
            let dims = head * DIM..(head + 1) * DIM;
            let away = |p: usize| p.abs_diff(position);
            let seen: Vec<usize> = (0..qkv.len()).filter(|&p| window == 0 || away(p) <= window / 2).collect();
            let slope = if self.alibi { (-8.0 * (head + 1) as f64 / HEADS as f64).exp2() } else { 0.0 };
            let score = |p: &usize| {
                dot(&qkv[position][0][dims.clone()], &qkv[*p][1][dims.clone()]) / (DIM as f64).sqrt()
                    - slope * away(*p) as f64
            };
            let mut scores: Vec<f64> = seen.iter().map(score).collect();
            softmax(&mut scores);
            for (weight, p) in scores.iter().zip(&seen) {
                out[dims.clone()].iter_mut().zip(&qkv[*p][2][dims.clone()]).for_each(|(o, v)| *o += weight * v);
            }
        }
        out
    }

    fn feed_forward(&self, w: &Weights, layer: usize, x: &[f64]) -> Row {
        let name = |part: &str| format!("blk.{layer}.{part}");
        if self.experts && layer % 2 == 1 {
            let mut scores = w.product(&name("ffn_gate_inp"), 0..EXPERTS, x);
            softmax(&mut scores);
            let mut order: Vec<usize> = (0..EXPERTS).collect();
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let mut out = vec![0.0; HIDDEN];
            for &e in &order[..2] {
                let up = w.product(&name("ffn_up_exps"), e * FFN..(e + 1) * FFN, x);
                let up: Row = up.iter().map(|x| activate(self.activation, *x)).collect();
                let down = w.product(&name("ffn_down_exps"), e * HIDDEN..(e + 1) * HIDDEN, &up);
                out.iter_mut().zip(down).for_each(|(o, d)| *o += scores[e] * d);
            }
            return out;
        }
        let (gate, up) = match self.gate {
            Gate::None => (w.product(&name("ffn_up"), 0..FFN, x), vec![1.0; FFN]),
            Gate::Apart => (w.product(&name("ffn_gate"), 0..FFN, x), w.product(&name("ffn_up"), 0..FFN, x)),
            Gate::Fused => (w.product(&name("ffn_up"), 0..FFN, x), w.product(&name("ffn_up"), FFN..2 * FFN, x)),
        };
        let inner: Row = gate.iter().zip(&up).map(|(g, u)| activate(self.activation, *g) * u).collect();
        w.product(&name("ffn_down"), 0..HIDDEN, &inner)
    }

    /// Returns the result of the model's own pooling, normalized unless it is a reranker.
    pub fn embed(&self, w: &Weights, ids: &[u32]) -> Row {
        let states = self.states(w, ids);
        let mean = || (0..HIDDEN).map(|i| states.iter().map(|s| s[i]).sum::<f64>() / states.len() as f64).collect();
        let modern = self.architecture == "modern-bert";
        let mut x: Row = match self.pooling {
            1 => mean(),
            4 if modern => mean(),
            3 => states[states.len() - 1].clone(),
            _ => states[0].clone(),
        };
        for (name, rows, _) in self.head.iter().filter(|(name, ..)| name.ends_with(".weight") && !name.contains("norm"))
        {
            let part = name.strip_suffix(".weight").unwrap();
            x = w.product(part, 0..*rows, &x);
            if part == "cls" {
                x.iter_mut().for_each(|x| *x = if modern { activate(Activation::GeluErf, *x) } else { x.tanh() });
                x = self.norm(w, "cls.norm", &x);
            }
        }
        if self.pooling != 4 {
            let length = dot(&x, &x).sqrt();
            x.iter_mut().for_each(|x| *x /= length);
        }
        x
    }
}
