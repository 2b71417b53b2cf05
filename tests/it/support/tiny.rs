//! Tiny models with random weights: the file, and the same network for the f64 reference.

use std::collections::HashMap;

use super::gguf::Gguf;
use super::layers::{self, Shape};
use super::recurrent::{self, Kind, Mixer};
use super::reference::{Activation, Moe, Net, Norm, QkNorm, Score, Weights};
use realizar::quant;
use realizar::tensor::DType;

/// Special tokens, repetitions, both ends of the vocabulary; longer than a window of 8 and a tile of 16.
pub const PROMPT: [u32; 21] = [1, 5, 299, 17, 17, 17, 200, 3, 77, 250, 99, 42, 42, 1, 130, 60, 259, 18, 33, 8, 111];

/// SplitMix64; the sum of twelve uniform numbers is sufficiently normal for weights.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A model to create: the network, its architecture's name, and the differences of its file from the common one.
#[derive(Clone)]
pub struct Tiny {
    pub architecture: &'static str,
    pub net: Net,
    pub dtype: DType,
    /// Types of single tensors, by a part of their names; the first match wins.
    pub types: Vec<(&'static str, DType)>,
    pub tied: bool,
    /// Parts of each layer that have a bias; next, parts that have a scale.
    pub biases: &'static [&'static str],
    pub scales: &'static [&'static str],
    pub fused_qkv: bool,
    pub fused_gate_up: bool,
    /// Keys after `ARCHITECTURE.`.
    pub floats: Vec<(&'static str, f32)>,
    pub ints: Vec<(&'static str, u32)>,
    pub strings: Vec<(&'static str, &'static str)>,
    pub flags: Vec<(&'static str, bool)>,
    pub rope_base: f64,
    pub rope_factors: Option<Vec<f32>>,
    /// Vectors in addition to the network's.
    pub tensors: Vec<(&'static str, Vec<f32>)>,
    /// True if layers without attention have 0 KV heads.
    pub heads_tell_mixers: bool,
    pub seed: u64,
    /// The token that ends a text.
    pub eos: u32,
}

pub fn inv_freq(base: f64, n: usize) -> Vec<f64> {
    (0..n / 2).map(|i| base.powf(-2.0 * i as f64 / n as f64)).collect()
}

impl Tiny {
    pub fn new(architecture: &'static str, dtype: DType) -> Tiny {
        let layers = 2;
        let net = Net {
            layers,
            hidden: 0,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            ffn: 0,
            vocab: 300,
            norm: Norm::Rms,
            eps: 1e-5,
            pre_norm: true,
            post_norm: false,
            qk_norm: QkNorm::None,
            late_qk_norm: false,
            ffn_norm: "ffn_norm",
            parallel: false,
            activation: Activation::Silu,
            gated: true,
            learned_positions: false,
            adjacent_pairs: architecture == "llama",
            inv_freq: vec![],
            rope_magnitude: 1.0,
            window: vec![0; layers],
            chunked: false,
            alibi: 0.0,
            sinks: false,
            bare_norms: false,
            embedding_norm: false,
            clamp: 0.0,
            growth: [0.0; 3],
            norm_after_rope: false,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            attention_scale: 0.0,
            attention_softcap: 0.0,
            logit_scale: 1.0,
            logit_softcap: 0.0,
            moe: None,
            mixers: vec![],
            gated_attention: false,
            output_norm: "output_norm",
            shapes: vec![],
            latent: None,
            gemma4: None,
            predicts: false,
        };
        let tiny = Tiny {
            architecture,
            net,
            dtype,
            types: vec![],
            tied: true,
            biases: &[],
            scales: &[],
            fused_qkv: false,
            fused_gate_up: false,
            floats: vec![],
            ints: vec![],
            strings: vec![],
            flags: vec![],
            rope_base: 10_000.0,
            rope_factors: None,
            tensors: vec![],
            heads_tell_mixers: true,
            seed: 1,
            eos: 2,
        };
        tiny.shape(256, 8, 2, 32, 512)
    }

    /// Sets heads, widths, and derived values.
    pub fn shape(mut self, hidden: usize, heads: usize, kv_heads: usize, head_dim: usize, ffn: usize) -> Tiny {
        self.net = Net { hidden, heads, kv_heads, head_dim, ffn, ..self.net };
        self.net.attention_scale = 1.0 / (head_dim as f64).sqrt();
        self
    }

    pub fn layers(mut self, n: usize) -> Tiny {
        self.net.layers = n;
        self.net.window = vec![0; n];
        self
    }

    /// Modifies the network's MoE settings.
    pub fn moe(&mut self, f: impl FnOnce(&mut Moe)) {
        f(self.net.moe.as_mut().expect("a mixture"));
    }

    pub fn change(mut self, f: impl FnOnce(&mut Tiny)) -> Tiny {
        f(&mut self);
        self
    }

    fn type_of(&self, name: &str) -> DType {
        self.types.iter().find(|(part, _)| name.contains(part)).map_or(self.dtype, |t| t.1)
    }

    /// Returns the bytes of a GGUF file, the network, and its weights as that file stores them.
    pub fn build(&self) -> (Vec<u8>, Net, Weights) {
        let (file, net, weights) = self.file();
        (file.build().0, net, weights)
    }

    /// `build` before the file is assembled.
    pub fn file(&self) -> (Gguf, Net, Weights) {
        let mut net = self.net.clone();
        if net.inv_freq.is_empty() {
            net.inv_freq = vec![inv_freq(self.rope_base, net.head_dim); net.window.len()];
        }
        if let Some(factors) = &self.rope_factors {
            for inv in &mut net.inv_freq {
                inv.iter_mut().zip(factors).for_each(|(f, d)| *f /= f64::from(*d));
            }
        }
        let mut writer = Writer { tiny: self, file: self.keys(), rng: Rng(self.seed), weights: HashMap::new() };
        writer.tensors(&net);
        (writer.file, net, writer.weights)
    }

    fn keys(&self) -> Gguf {
        let (a, n) = (self.architecture, &self.net);
        let key = |k: &str| format!("{a}.{k}");
        let tokens: Vec<String> = (0..n.vocab).map(|i| format!("t{i}")).collect();
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let (key_length, value_length) = match n.latent {
            Some(latent) if latent.joined => (latent.still + latent.rope_dims, latent.value_dim),
            Some(latent) => (latent.rank + latent.rope_dims, latent.rank),
            None => (n.head_dim, n.head_dim),
        };
        let mut f = Gguf::new()
            .key("general.architecture", a)
            .key("general.name", "tiny")
            .key(&key("context_length"), 128u32)
            .key(&key("embedding_length"), n.hidden as u32)
            .key(&key("block_count"), (n.layers + usize::from(n.predicts)) as u32)
            .key(&key("attention.key_length"), key_length as u32)
            .key(&key("attention.value_length"), value_length as u32)
            .key(&key("rope.freq_base"), self.rope_base as f32)
            .key("tokenizer.ggml.model", "gpt2")
            .key("tokenizer.ggml.pre", "default")
            .key("tokenizer.ggml.tokens", tokens)
            .key("tokenizer.ggml.merges", vec!["a b"])
            .key("tokenizer.ggml.eos_token_id", self.eos);
        let mut sizes = |key: &str, of: &dyn Fn(usize, Shape) -> usize| {
            let list: Vec<u32> = (0..n.layers).map(|l| of(l, n.shape(l)) as u32).collect();
            let file = std::mem::replace(&mut f, Gguf::new());
            let one = match n.latent {
                Some(latent) if key == "attention.head_count_kv" && !latent.joined => Some(1),
                _ => list.iter().all(|size| *size == list[0]).then(|| list[0]),
            };
            let name = format!("{a}.{key}");
            f = match one {
                Some(one) => file.key(&name, one),
                None => file.key(&name, list),
            };
        };
        let is_attention = |layer| n.mixer(layer) == Mixer::Attention || !self.heads_tell_mixers;
        sizes("feed_forward_length", &|_, shape| shape.ffn);
        sizes("attention.head_count", &|_, shape| shape.heads);
        sizes("attention.head_count_kv", &|layer, shape| if is_attention(layer) { shape.kv_heads } else { 0 });
        if let Some(latent) = n.latent.filter(|latent| !latent.joined) {
            f = f.key(&key("attention.key_length_mla"), (latent.still + latent.rope_dims) as u32);
            f = f.key(&key("attention.value_length_mla"), latent.value_dim as u32);
        }
        f = match n.norm {
            Norm::Rms => f.key(&key("attention.layer_norm_rms_epsilon"), n.eps as f32),
            Norm::Layer => f.key(&key("attention.layer_norm_epsilon"), n.eps as f32),
        };
        if let Some(Moe { n, used, ffn, .. }) = n.moe {
            f = f.key(&key("expert_count"), n as u32).key(&key("expert_used_count"), used as u32);
            f = f.key(&key("expert_feed_forward_length"), ffn as u32);
        }
        for (k, v) in &self.floats {
            f = f.key(&key(k), *v);
        }
        for (k, v) in &self.ints {
            f = f.key(&key(k), *v);
        }
        for (k, v) in &self.strings {
            f = f.key(&key(k), *v);
        }
        for (k, v) in &self.flags {
            f = f.key(&key(k), *v);
        }
        f
    }
}

/// Returns one network of each architecture, derived from `new(name)`.
pub fn architectures(new: impl Fn(&'static str) -> Tiny) -> Vec<(&'static str, Tiny)> {
    made_by(&new)
}

/// Compiled once for all callers.
fn made_by(new: &dyn Fn(&'static str) -> Tiny) -> Vec<(&'static str, Tiny)> {
    let gemma = |name| {
        new(name).change(|t| {
            t.net.activation = Activation::Gelu;
            t.net.embedding_scale = f64::from((t.net.hidden as f32).sqrt());
        })
    };
    let layer_norm = |name| new(name).change(|t| (t.net.norm, t.net.gated) = (Norm::Layer, false));
    let experts = |t: &mut Tiny, score| {
        t.net.moe = Some(Moe {
            n: 4,
            used: 2,
            ffn: t.net.hidden,
            score,
            renormalize: true,
            groups: 1,
            groups_used: 1,
            scale: 1.0,
            on_input: false,
            dense: 0,
            choice_bias: false,
            biases: false,
            shared: false,
            shared_gate: false,
        });
        // As in files: the router is not quantized.
        t.types = vec![("ffn_gate_inp", quant::F32)];
    };
    let mut all = vec![
        ("llama", new("llama")),
        ("llama with experts", new("llama").change(|t| experts(t, Score::SoftmaxOfChosen))),
        ("qwen2", new("qwen2").change(|t| t.biases = &["attn_q", "attn_k", "attn_v"])),
        ("qwen3", new("qwen3").change(|t| t.net.qk_norm = QkNorm::Head)),
        (
            "qwen3moe",
            new("qwen3moe").change(|t| {
                experts(t, Score::Softmax);
                // With this seed, no two experts are nearly tied.
                (t.net.qk_norm, t.seed) = (QkNorm::Head, 2);
            }),
        ),
        ("gemma", gemma("gemma")),
        (
            "gemma2",
            gemma("gemma2").change(|t| {
                t.net.post_norm = true;
                (t.net.attention_softcap, t.net.logit_softcap) = (50.0, 30.0);
                t.net.window = vec![8, 0];
                t.ints = vec![("attention.sliding_window", 8)];
                t.floats = vec![("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)];
            }),
        ),
        (
            "gemma3",
            gemma("gemma3").layers(7).change(|t| {
                (t.net.post_norm, t.net.qk_norm, t.rope_base) = (true, QkNorm::Head, 1e6);
                t.net.window = vec![8, 8, 8, 8, 8, 0, 8];
                let base = |window: &usize| if *window == 0 { 1e6 } else { 10_000.0 };
                t.net.inv_freq = t.net.window.iter().map(|w| inv_freq(base(w), t.net.head_dim)).collect();
                t.ints = vec![("attention.sliding_window", 8)];
            }),
        ),
        ("phi3", new("phi3").change(|t| (t.fused_qkv, t.fused_gate_up) = (true, true))),
        (
            "gpt2",
            new("gpt2").change(|t| {
                (t.net.norm, t.net.gated, t.net.activation, t.net.learned_positions) =
                    (Norm::Layer, false, Activation::Gelu, true);
                (t.fused_qkv, t.net.kv_heads) = (true, t.net.heads);
                t.biases = &["attn_qkv", "attn_output", "ffn_up", "ffn_down"];
            }),
        ),
        (
            "starcoder2",
            new("starcoder2").change(|t| {
                (t.net.norm, t.net.gated, t.net.activation) = (Norm::Layer, false, Activation::Gelu);
                t.biases = &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"];
            }),
        ),
        (
            "olmo2",
            new("olmo2").change(|t| (t.net.pre_norm, t.net.post_norm, t.net.qk_norm) = (false, true, QkNorm::Full)),
        ),
        (
            "granite",
            new("granite").change(|t| {
                t.net.adjacent_pairs = true;
                (t.net.embedding_scale, t.net.residual_scale) = (12.0, f64::from(0.22f32));
                (t.net.attention_scale, t.net.logit_scale) = (0.125, 0.125);
                t.floats = vec![
                    ("embedding_scale", 12.0),
                    ("residual_scale", 0.22),
                    ("attention.scale", 0.125),
                    ("logit_scale", 8.0),
                ];
            }),
        ),
        (
            "smollm3",
            new("smollm3").layers(5).change(|t| {
                t.net.adjacent_pairs = true;
                let rope_dims = |layer: usize| if layer == 3 { 0 } else { t.net.head_dim };
                t.net.inv_freq = (0..5).map(|layer| inv_freq(t.rope_base, rope_dims(layer))).collect();
            }),
        ),
        ("internlm2", new("internlm2").change(|t| t.net.adjacent_pairs = true)),
        (
            "seed_oss",
            new("seed_oss").change(|t| {
                (t.net.ffn_norm, t.biases) = ("post_attention_norm", &["attn_q", "attn_k", "attn_v"]);
            }),
        ),
        ("orion", new("orion").change(|t| t.net.norm = Norm::Layer)),
        (
            "phi2",
            new("phi2").change(|t| {
                (t.net.norm, t.net.gated, t.net.activation) = (Norm::Layer, false, Activation::Gelu);
                (t.net.parallel, t.net.ffn_norm) = (true, "attn_norm");
                t.biases = &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"];
                t.net.inv_freq = vec![inv_freq(t.rope_base, 12); 2];
                t.ints = vec![("rope.dimension_count", 12)];
            }),
        ),
        (
            "gptneox",
            new("gptneox").change(|t| {
                (t.net.norm, t.net.gated, t.net.activation) = (Norm::Layer, false, Activation::Gelu);
                (t.net.parallel, t.fused_qkv) = (true, true);
                t.biases = &["attn_qkv", "attn_output", "ffn_up", "ffn_down"];
            }),
        ),
        (
            "falcon",
            new("falcon").change(|t| {
                (t.net.norm, t.net.gated, t.net.activation) = (Norm::Layer, false, Activation::Gelu);
                (t.net.parallel, t.net.ffn_norm, t.fused_qkv) = (true, "attn_norm", true);
            }),
        ),
        ("plamo", new("plamo").change(|t| (t.net.parallel, t.net.ffn_norm) = (true, "attn_norm"))),
        (
            "cohere2",
            new("cohere2").layers(5).change(|t| {
                (t.net.norm, t.net.adjacent_pairs, t.net.logit_scale) = (Norm::Layer, true, 0.25);
                (t.net.parallel, t.net.ffn_norm) = (true, "attn_norm");
                t.net.window = vec![8, 8, 8, 0, 8];
                let rope_dims = |window: &usize| if *window == 0 { 0 } else { t.net.head_dim };
                t.net.inv_freq = t.net.window.iter().map(|w| inv_freq(t.rope_base, rope_dims(w))).collect();
                (t.ints, t.floats) = (vec![("attention.sliding_window", 8)], vec![("logit_scale", 0.25)]);
            }),
        ),
        ("hunyuan-dense", new("hunyuan-dense").change(|t| (t.net.qk_norm, t.net.late_qk_norm) = (QkNorm::Head, true))),
        (
            "arcee",
            new("arcee")
                .change(|t| (t.net.adjacent_pairs, t.net.gated, t.net.activation) = (true, false, Activation::Relu2)),
        ),
        ("nemotron", layer_norm("nemotron").change(|t| t.net.activation = Activation::Relu2)),
        (
            "bloom",
            layer_norm("bloom").change(|t| {
                (t.net.activation, t.net.alibi, t.net.embedding_norm) = (Activation::Gelu, 8.0, true);
                t.net.inv_freq = vec![vec![]; 2];
            }),
        ),
        (
            "mpt",
            layer_norm("mpt").change(|t| {
                (t.net.activation, t.net.alibi, t.net.clamp) = (Activation::Gelu, 4.0, 0.75);
                (t.net.inv_freq, t.fused_qkv) = (vec![vec![]; 2], true);
                t.floats = vec![("attention.max_alibi_bias", 4.0), ("attention.clamp_kqv", 0.75)];
            }),
        ),
        (
            "olmo",
            new("olmo").change(|t| {
                (t.net.norm, t.net.bare_norms, t.net.adjacent_pairs) = (Norm::Layer, true, true);
                (t.net.clamp, t.floats) = (0.75, vec![("attention.clamp_kqv", 0.75)]);
            }),
        ),
        (
            "exaone4",
            new("exaone4").change(|t| (t.net.pre_norm, t.net.post_norm, t.net.qk_norm) = (false, true, QkNorm::Head)),
        ),
        ("glm4", new("glm4").change(|t| (t.net.post_norm, t.net.adjacent_pairs, t.fused_gate_up) = (true, true, true))),
        ("stablelm", new("stablelm").change(|t| t.net.norm = Norm::Layer)),
        (
            "mistral3",
            new("mistral3").change(|t| {
                (t.net.adjacent_pairs, t.net.growth) = (true, [f64::from(0.3f32), 6.0, 0.0]);
                t.floats = vec![("attention.temperature_scale", 0.3)];
                t.ints = vec![("rope.scaling.original_context_length", 6)];
            }),
        ),
        (
            "ernie4_5-moe",
            new("ernie4_5-moe").change(|t| {
                experts(t, Score::Softmax);
                t.moe(|moe| (moe.dense, moe.choice_bias, moe.shared) = (1, true, true));
                (t.net.adjacent_pairs, t.seed) = (true, 3);
            }),
        ),
        (
            "qwen2moe",
            new("qwen2moe").change(|t| {
                experts(t, Score::Softmax);
                t.moe(|moe| (moe.renormalize, moe.shared, moe.shared_gate) = (false, true, true));
                t.biases = &["attn_q", "attn_k", "attn_v"];
            }),
        ),
        (
            "glm4moe",
            new("glm4moe").layers(3).change(|t| {
                experts(t, Score::Sigmoid);
                t.moe(|moe| {
                    (moe.n, moe.used, moe.groups, moe.groups_used, moe.scale) = (8, 3, 4, 2, 2.5);
                    (moe.dense, moe.choice_bias, moe.shared) = (1, true, true);
                });
                (t.net.ffn_norm, t.net.qk_norm) = ("post_attention_norm", QkNorm::Head);
                t.biases = &["attn_q", "attn_k", "attn_v"];
                t.floats = vec![("expert_weights_scale", 2.5)];
                t.ints = vec![("expert_group_count", 4), ("expert_group_used_count", 2)];
                t.flags = vec![("expert_weights_norm", true)];
            }),
        ),
        (
            "olmoe",
            new("olmoe").change(|t| {
                experts(t, Score::Softmax);
                t.moe(|moe| moe.renormalize = false);
                t.net.qk_norm = QkNorm::Full;
            }),
        ),
        (
            "gpt-oss",
            new("gpt-oss").change(|t| {
                experts(t, Score::SoftmaxOfChosen);
                t.moe(|moe| moe.biases = true);
                (t.net.activation, t.net.sinks, t.net.ffn_norm) =
                    (Activation::ClampedSwiglu, true, "post_attention_norm");
                t.biases = &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_inp"];
                (t.net.window, t.ints) = (vec![8, 0], vec![("attention.sliding_window", 8)]);
            }),
        ),
        (
            "llama4",
            new("llama4").layers(5).change(|t| {
                experts(t, Score::Sigmoid);
                t.moe(|moe| {
                    (moe.used, moe.renormalize, moe.on_input) = (1, false, true);
                    (moe.dense, moe.shared) = (1, true);
                });
                (t.net.adjacent_pairs, t.net.norm_after_rope, t.seed) = (true, true, 5);
                t.net.growth = [f64::from(0.1f32), 8192.0, 1.0];
                let rope_dims = |layer: usize| if layer == 3 { 0 } else { t.net.head_dim };
                t.net.inv_freq = (0..5).map(|layer| inv_freq(t.rope_base, rope_dims(layer))).collect();
            }),
        ),
    ];
    all.extend(layers::architectures(new, &experts));
    all.extend(recurrent::architectures(new));
    all
}

pub struct Writer<'a> {
    pub tiny: &'a Tiny,
    file: Gguf,
    rng: Rng,
    pub weights: Weights,
}

impl Writer<'_> {
    /// Writes a tensor and returns its values as the file stores them.
    fn put(&mut self, name: &str, dtype: DType, dims: &[u64], values: &[f64]) -> Vec<f64> {
        let format = quant::format(dtype).unwrap();
        let values: Vec<f32> = values.iter().map(|v| *v as f32).collect();
        let mut bytes = vec![0; values.len() / format.block_len * format.block_bytes];
        match format.quantize {
            Some(encode) => encode(&values, &mut bytes),
            None => random_blocks(&mut self.rng, dtype, &mut bytes, format.block_bytes, *dims.last().unwrap() as usize),
        }
        let mut back = vec![0.0; values.len()];
        format.dequantize(&bytes, &mut back);
        let mut file = Gguf::new();
        std::mem::swap(&mut self.file, &mut file);
        self.file = file.tensor(name, dtype.0, dims, &bytes);
        back.into_iter().map(f64::from).collect()
    }

    pub fn matrix(&mut self, name: &str, rows: usize, cols: usize) {
        self.stacked(&[name], &[rows as u64, cols as u64], &[rows]);
    }

    /// Adds one tensor whose row ranges are several weights of the reference.
    pub fn stacked(&mut self, names: &[&str], dims: &[u64], rows: &[usize]) {
        let cols = *dims.last().unwrap() as usize;
        let total = dims.iter().product::<u64>() as usize;
        let deviation =
            if names[0].starts_with("token_embd") || names[0] == "output" { 0.25 } else { 1.3 / (cols as f64).sqrt() };
        let values: Vec<f64> = (0..total).map(|_| self.rng.normal() * deviation).collect();
        let name = match names {
            [one] => (*one).to_owned(),
            [one, ..] if one.contains("attn") => one.replace("attn_q", "attn_qkv"),
            [one, ..] => one.replace("ffn_gate", "ffn_up"),
            [] => unreachable!(),
        };
        let name = format!("{name}.weight");
        let back = self.put(&name, self.tiny.type_of(&name), dims, &values);
        let mut at = 0;
        for (one, rows) in names.iter().zip(rows) {
            let len = if names.len() == 1 { total } else { rows * cols };
            self.weights.insert(format!("{one}.weight"), back[at..at + len].to_vec());
            at += len;
        }
    }

    pub fn vector(&mut self, name: &str, len: usize, middle: f64, deviation: f64) -> Vec<f64> {
        let values: Vec<f64> = (0..len).map(|_| middle + deviation * self.rng.normal()).collect();
        self.put(name, quant::F32, &[len as u64], &values)
    }

    pub fn norm(&mut self, name: &str, len: usize) {
        if self.tiny.net.bare_norms {
            return;
        }
        let weight = self.vector(&format!("{name}.weight"), len, 1.0, 0.2);
        self.weights.insert(format!("{name}.weight"), weight);
        if self.tiny.net.norm == Norm::Layer {
            let bias = self.vector(&format!("{name}.bias"), len, 0.0, 0.2);
            self.weights.insert(format!("{name}.bias"), bias);
        }
    }

    /// Adds the bias and the scale of a part, if it has them.
    fn bias_and_scale(&mut self, prefix: &str, part: &str, len: usize) {
        if self.tiny.biases.contains(&part) {
            let name = format!("{prefix}{part}.bias");
            let bias = self.vector(&name, len, 0.0, 0.5);
            self.weights.insert(name, bias);
        }
        if self.tiny.scales.contains(&part) {
            let name = format!("{prefix}{part}.scale");
            let scale = self.vector(&name, 1, 1.4, 0.1);
            self.weights.insert(name, scale);
        }
    }

    /// Adds the tensors of a recurrent layer.
    fn mixer(&mut self, prefix: &str, mixer: Mixer, hidden: usize) {
        for part in mixer.parts(hidden) {
            let (name, len) = (format!("{prefix}{}", part.name), part.rows * part.cols);
            if part.kind == Kind::Matrix {
                self.matrix(name.strip_suffix(".weight").unwrap(), part.rows, part.cols);
                continue;
            }
            let rng = &mut self.rng;
            let mut draw = || match part.kind {
                Kind::Norm => 1.0 + 0.2 * rng.normal(),
                Kind::Rates => -(0.7 * rng.normal()).exp(),
                _ => 0.5 * rng.normal(),
            };
            let values: Vec<f64> = (0..len).map(|_| draw()).collect();
            let dims = [part.rows as u64, part.cols as u64];
            let values = self.put(&name, quant::F32, if part.rows == 1 { &dims[1..] } else { &dims }, &values);
            self.weights.insert(name, values);
        }
    }

    fn experts(&mut self, p: &str, moe: Moe) {
        let (d, f) = (self.tiny.net.hidden, moe.ffn);
        let name = |part: &str| format!("{p}{part}");
        self.matrix(&name("ffn_gate_inp"), moe.n, d);
        self.bias_and_scale(p, "ffn_gate_inp", moe.n);
        for (part, rows, cols) in [("gate", f, d), ("up", f, d), ("down", d, f)] {
            let dims = [moe.n as u64, rows as u64, cols as u64];
            self.stacked(&[&name(&format!("ffn_{part}_exps"))], &dims, &[0]);
            if moe.biases {
                let bias = name(&format!("ffn_{part}_exps.bias"));
                let values: Vec<f64> = (0..moe.n * rows).map(|_| 0.5 * self.rng.normal()).collect();
                let values = self.put(&bias, quant::F32, &dims[..2], &values);
                self.weights.insert(bias, values);
            }
            if moe.shared {
                self.matrix(&name(&format!("ffn_{part}_shexp")), rows, cols);
            }
        }
        if moe.choice_bias {
            let bias = self.vector(&name("exp_probs_b.bias"), moe.n, 0.0, 0.3);
            self.weights.insert(name("exp_probs_b.bias"), bias);
        }
        if moe.shared_gate {
            self.matrix(&name("ffn_gate_inp_shexp"), 1, d);
        }
    }

    fn tensors(&mut self, net: &Net) {
        let d = net.hidden;
        self.matrix("token_embd", net.vocab, d);
        if let Some(gemma) = net.gemma4 {
            self.gemma4_inputs(gemma);
        }
        if net.embedding_norm {
            self.norm("token_embd_norm", d);
        }
        if net.learned_positions {
            self.matrix("position_embd", 128, d);
        }
        if let Some(factors) = &self.tiny.rope_factors {
            let values: Vec<f64> = factors.iter().map(|v| f64::from(*v)).collect();
            self.put("rope_freqs.weight", quant::F32, &[values.len() as u64], &values);
        }
        for (name, values) in &self.tiny.tensors {
            let values: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
            self.put(name, quant::F32, &[values.len() as u64], &values);
        }
        for l in 0..net.layers + usize::from(net.predicts) {
            let p = format!("blk.{l}.");
            let name = |part: &str| format!("{p}{part}");
            if l == net.layers {
                self.matrix(&name("nextn.eh_proj"), d, 2 * d);
                let head = if self.tiny.architecture == "bailingmoe2" {
                    "layer_output_norm"
                } else {
                    "nextn.shared_head_norm"
                };
                for norm in ["nextn.enorm", "nextn.hnorm", head] {
                    self.norm(&name(norm), d);
                }
                if self.tiny.scales.contains(&"nextn.shared_head_head") {
                    self.matrix(&name("nextn.shared_head_head"), net.vocab, d);
                    self.bias_and_scale(&p, "nextn.shared_head_head", net.vocab);
                }
            }
            let Shape { heads, kv_heads, head_dim, ffn: f } = net.shape(l);
            let (q, kv) = (heads * head_dim, kv_heads * head_dim);
            if f == 0 && !net.shapes.is_empty() {
                continue;
            }
            if net.pre_norm {
                if heads > 0 {
                    self.norm(&name("attn_norm"), d);
                }
                if net.ffn_norm != "attn_norm" && (f > 0 || net.moe.is_some()) {
                    self.norm(&name(net.ffn_norm), d);
                }
            }
            if net.post_norm {
                self.norm(&name("post_attention_norm"), d);
                self.norm(&name("post_ffw_norm"), d);
            }
            if net.qk_norm != QkNorm::None && net.mixer(l) == Mixer::Attention {
                let full = net.qk_norm == QkNorm::Full;
                self.norm(&name("attn_q_norm"), if full { q } else { head_dim });
                if net.gemma4.is_none_or(|gemma| l < gemma.own) {
                    self.norm(&name("attn_k_norm"), if full { kv } else { head_dim });
                }
            }
            let parts = [name("attn_q"), name("attn_k"), name("attn_v")];
            if net.mixer(l) != Mixer::Attention {
                self.mixer(&p, net.mixer(l), d);
            } else if net.gated_attention {
                for (part, rows) in ["attn_q", "attn_k", "attn_v"].into_iter().zip([2 * q, kv, kv]) {
                    self.matrix(&name(part), rows, d);
                }
            } else if let Some(latent) = net.latent {
                self.latent(&p, latent);
            } else if let Some(gemma) = net.gemma4 {
                self.gemma4_layer(&p, gemma, net.moe.is_some_and(|moe| l >= moe.dense));
                // Values of full layers are their keys.
                let n = if l >= gemma.own {
                    1
                } else if net.window[l] == 0 {
                    2
                } else {
                    3
                };
                for (part, rows) in parts.iter().zip([q, kv, kv]).take(n) {
                    self.matrix(part, rows, d);
                }
            } else if kv_heads == 0 {
                // One matrix or nothing replaces attention.
            } else if self.tiny.fused_qkv {
                let names: Vec<&str> = parts.iter().map(String::as_str).collect();
                self.stacked(&names, &[(q + 2 * kv) as u64, d as u64], &[q, kv, kv]);
                if self.tiny.biases.contains(&"attn_qkv") {
                    let all = self.vector(&name("attn_qkv.bias"), q + 2 * kv, 0.0, 0.5);
                    for (part, range) in parts.iter().zip([0..q, q..q + kv, q + kv..q + 2 * kv]) {
                        self.weights.insert(format!("{part}.bias"), all[range].to_vec());
                    }
                }
            } else {
                for (part, rows) in ["attn_q", "attn_k", "attn_v"].into_iter().zip([q, kv, kv]) {
                    self.matrix(&name(part), rows, d);
                    self.bias_and_scale(&p, part, rows);
                }
            }
            if net.mixer(l) == Mixer::Attention && heads > 0 && net.latent.is_none() {
                self.matrix(&name("attn_output"), d, if kv_heads > 0 { q } else { d });
                self.bias_and_scale(&p, "attn_output", d);
            }
            if net.sinks {
                let sinks = self.vector(&name("attn_sinks.weight"), net.heads, 0.5, 1.0);
                self.weights.insert(name("attn_sinks.weight"), sinks);
            }
            if f == 0 && net.moe.is_none() {
                continue;
            }
            if let Some(moe) = net.moe.filter(|moe| l >= moe.dense) {
                self.experts(&p, moe);
                if net.gemma4.is_none() {
                    continue;
                }
            }
            if self.tiny.fused_gate_up {
                self.stacked(&[&name("ffn_gate"), &name("ffn_up")], &[2 * f as u64, d as u64], &[f, f]);
            } else {
                if net.gated {
                    self.matrix(&name("ffn_gate"), f, d);
                    self.bias_and_scale(&p, "ffn_gate", f);
                }
                self.matrix(&name("ffn_up"), f, d);
                self.bias_and_scale(&p, "ffn_up", f);
            }
            self.matrix(&name("ffn_down"), d, f);
            self.bias_and_scale(&p, "ffn_down", d);
        }
        self.norm(net.output_norm, d);
        if !self.tiny.tied {
            self.matrix("output", net.vocab, d);
            self.bias_and_scale("", "output", net.vocab);
        }
    }
}

/// Writes valid random blocks of a type without an encoder, with a spread of values suitable for a network.
fn random_blocks(rng: &mut Rng, dtype: DType, bytes: &mut [u8], block_bytes: usize, cols: usize) {
    // Offsets of the f16 scales in a block, and the root mean square of the values that they multiply.
    let (scales, rms): (&[usize], f64) = match dtype {
        quant::Q2_K => (&[80, 82], 12.0),
        quant::Q3_K => (&[108], 45.0),
        quant::IQ4_XS => (&[0], 1200.0),
        quant::IQ4_NL => (&[0], 66.0),
        quant::IQ2_XXS | quant::IQ2_XS | quant::IQ2_S => (&[0], 60.0),
        quant::IQ3_XXS => (&[0], 142.0),
        quant::IQ3_S => (&[0], 137.0),
        quant::IQ1_S => (&[0], 7.0),
        quant::TQ1_0 => (&[52], 0.8),
        quant::TQ2_0 => (&[64], 1.2),
        quant::Q1_0 => (&[0], 1.0),
        quant::Q2_0 | quant::PQ2_0 => (&[0], 1.2),
        quant::PTQ1_0 => (&[26], 0.8),
        _ => (&[], 1.0),
    };
    let deviation = 1.0 / (cols as f64).sqrt();
    for block in bytes.chunks_mut(block_bytes) {
        block.iter_mut().for_each(|b| *b = rng.next() as u8);
        let scale = half::f16::from_f64(deviation / rms * (0.7 + 0.6 * rng.uniform()));
        for &at in scales {
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        match dtype {
            // One power of two per block.
            quant::MXFP4 => block[0] = (127.0 + (deviation / 3.0).log2()) as u8,
            // One 8-bit float per 16 values.
            quant::NVFP4 => block[..4].fill(((7.0 + (deviation / 2.5).log2()) * 8.0) as u8),
            // The scale's bits are in the high nibbles of the last four 16-bit words.
            quant::IQ1_M => {
                let bits = half::f16::from_f64(deviation / 7.0).to_bits();
                for (i, word) in block[48..56].chunks_mut(2).enumerate() {
                    word[1] = (word[1] & 0x0f) | (((bits >> (4 * i)) & 0xf) as u8) << 4;
                }
            }
            _ => {}
        }
    }
}
