//! The same weights as a GGUF file and as a Hugging Face folder must be the same model. The expected layout of folders
//! follows the modeling files of `transformers` and published checkpoints; the expected GGUF tensors follow llama.cpp's
//! converter.

mod adapters;

use std::fs;
use std::path::Path;

use realizar::quant;
use serde_json::{Value, json};

use crate::support::matrix::{halves, transposed};
use crate::support::models;
use crate::support::reference::{Activation, Net, Norm, Weights, relative_rms};
use crate::support::save::logits_of_each;
use crate::support::tiny::{self, PROMPT, Tiny};
use crate::support::{rope, safetensors};

/// How checkpoints of a model type differ from most.
struct Checkpoint {
    model_type: &'static str,
    /// The converter reorders the rows of q and k: GGUF files of Llama rotate neighbors, `transformers` halves.
    permuted: bool,
    /// `GemmaRMSNorm` multiplies by 1 + weight; the converter adds the 1.
    norms_less_one: bool,
    /// `post_attention_layernorm` is what its name says.
    post_norms: bool,
}

/// The architectures that have checkpoints: SmolLM3 is read from GGUF files alone.
fn architectures(new: impl Fn(&'static str) -> Tiny) -> Vec<(&'static str, Tiny)> {
    // The others are not known as folders.
    tiny::architectures(new).into_iter().take_while(|(name, _)| *name != "smollm3").collect()
}

fn checkpoint(name: &str) -> Checkpoint {
    let (model_type, permuted) = match name {
        "llama with experts" => ("mixtral", true),
        "qwen3moe" => ("qwen3_moe", false),
        "gemma3" => ("gemma3_text", false),
        "llama" => ("llama", true),
        "granite" => ("granite", true),
        "qwen2" => ("qwen2", false),
        "qwen3" => ("qwen3", false),
        "gemma" => ("gemma", false),
        "gemma2" => ("gemma2", false),
        "phi3" => ("phi3", false),
        "gpt2" => ("gpt2", false),
        "starcoder2" => ("starcoder2", false),
        "olmo2" => ("olmo2", false),
        other => panic!("no checkpoints of {other}"),
    };
    Checkpoint {
        model_type,
        permuted,
        norms_less_one: name.starts_with("gemma"),
        post_norms: ["gemma2", "gemma3", "olmo2"].contains(&name),
    }
}

fn config(c: &Checkpoint, tiny: &Tiny, net: &Net) -> Value {
    if c.model_type == "gpt2" {
        return json!({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
            "n_embd": net.hidden, "n_head": net.heads, "n_layer": net.layers, "n_inner": net.ffn, "n_positions": 128,
            "n_ctx": 128, "layer_norm_epsilon": 1e-5, "vocab_size": net.vocab, "scale_attn_weights": true});
    }
    let mut config = json!({"model_type": c.model_type, "hidden_size": net.hidden, "num_hidden_layers": net.layers,
        "num_attention_heads": net.heads, "num_key_value_heads": net.kv_heads, "intermediate_size": net.ffn,
        "vocab_size": net.vocab, "max_position_embeddings": 128, "rope_theta": tiny.rope_base,
        "tie_word_embeddings": tiny.tied, "torch_dtype": "float32",
        "hidden_act": if net.activation == Activation::Gelu { "gelu_pytorch_tanh" } else { "silu" }});
    let more = match c.model_type {
        "mixtral" => json!({"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": net.hidden,
            "sliding_window": null, "output_router_logits": false}),
        "qwen2" => json!({"sliding_window": 64, "use_sliding_window": false, "max_window_layers": 2}),
        "qwen3" => json!({"head_dim": net.head_dim, "attention_bias": false}),
        "qwen3_moe" => {
            json!({"head_dim": net.head_dim, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": true,
            "moe_intermediate_size": net.hidden, "decoder_sparse_step": 1, "mlp_only_layers": []})
        }
        "gemma" => json!({"head_dim": net.head_dim, "hidden_activation": null, "hidden_act": "gelu"}),
        "gemma2" => json!({"head_dim": net.head_dim, "query_pre_attn_scalar": net.head_dim, "sliding_window": 8,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "cache_implementation": "hybrid"}),
        "gemma3_text" => json!({"head_dim": net.head_dim, "query_pre_attn_scalar": net.head_dim, "sliding_window": 8,
            "sliding_window_pattern": 6, "rope_local_base_freq": 1e4, "rope_scaling": null}),
        "starcoder2" => json!({"use_bias": true, "norm_type": "layer_norm", "sliding_window": null}),
        "granite" => json!({"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.125,
            "logits_scaling": 8.0}),
        _ => json!({}),
    };
    let eps = if net.norm == Norm::Rms { "rms_norm_eps" } else { "norm_epsilon" };
    config[eps] = json!(1e-5);
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

type Tensor = (String, Vec<u64>, Vec<f64>);

/// The tensors of a checkpoint, from those of the reference, whose names are GGUF's.
fn tensors(c: &Checkpoint, tiny: &Tiny, net: &Net, w: &Weights) -> Vec<Tensor> {
    let gpt2 = c.model_type == "gpt2";
    let mut out: Vec<Tensor> = vec![];
    let mut put = |name: String, dims: &[usize], values: Vec<f64>| {
        out.push((name, dims.iter().map(|d| *d as u64).collect(), values));
    };
    let norm =
        |values: &[f64]| -> Vec<f64> { values.iter().map(|v| if c.norms_less_one { v - 1.0 } else { *v }).collect() };
    let (d, q, kv) = (net.hidden, net.heads * net.head_dim, net.kv_heads * net.head_dim);
    let at = |name: &str| w[name].clone();
    put(
        if gpt2 { "transformer.wte.weight" } else { "model.embed_tokens.weight" }.into(),
        &[net.vocab, d],
        at("token_embd.weight"),
    );
    if gpt2 {
        put("transformer.wpe.weight".into(), &[128, d], at("position_embd.weight"));
    }
    for leaf in ["weight", "bias"] {
        if let Some(values) = w.get(&format!("output_norm.{leaf}")) {
            let values = if leaf == "weight" { norm(values) } else { values.clone() };
            put(format!("{}.{leaf}", if gpt2 { "transformer.ln_f" } else { "model.norm" }), &[d], values);
        }
    }
    if !tiny.tied {
        put("lm_head.weight".into(), &[net.vocab, d], at("output.weight"));
    }
    for l in 0..net.layers {
        let of = |part: &str| w.get(&format!("blk.{l}.{part}"));
        let prefix = if gpt2 { format!("transformer.h.{l}.") } else { format!("model.layers.{l}.") };
        let norms = [
            ("attn_norm", if gpt2 { "ln_1" } else { "input_layernorm" }),
            ("post_attention_norm", "post_attention_layernorm"),
            (
                "ffn_norm",
                if gpt2 {
                    "ln_2"
                } else if c.post_norms {
                    "pre_feedforward_layernorm"
                } else {
                    "post_attention_layernorm"
                },
            ),
            ("post_ffw_norm", "post_feedforward_layernorm"),
            ("attn_q_norm", "self_attn.q_norm"),
            ("attn_k_norm", "self_attn.k_norm"),
        ];
        for (ours, theirs) in norms {
            if let Some(values) = of(&format!("{ours}.weight")) {
                put(format!("{prefix}{theirs}.weight"), &[values.len()], norm(values));
            }
            if let Some(values) = of(&format!("{ours}.bias")) {
                put(format!("{prefix}{theirs}.bias"), &[values.len()], values.clone());
            }
        }
        // Parts that a checkpoint has in one, after one another.
        let mut linear = |theirs: &str, ours: &[(&str, usize)], cols: usize| {
            let rows: usize = ours.iter().map(|part| part.1).sum();
            for (leaf, cols) in [("weight", cols), ("bias", 1)] {
                let parts: Vec<Vec<f64>> = ours
                    .iter()
                    .filter_map(|(part, _)| Some((part, of(&format!("{part}.{leaf}"))?)))
                    .map(|(part, values)| match *part {
                        "attn_q" | "attn_k" if c.permuted => halves(values, net.head_dim, cols),
                        _ => values.clone(),
                    })
                    .collect();
                if parts.is_empty() {
                    continue;
                }
                let values = parts.concat();
                match leaf {
                    "bias" => put(format!("{prefix}{theirs}.bias"), &[rows], values),
                    // `Conv1D` multiplies from the other side.
                    _ if gpt2 => put(format!("{prefix}{theirs}.weight"), &[cols, rows], transposed(&values, cols)),
                    _ => put(format!("{prefix}{theirs}.weight"), &[rows, cols], values),
                }
            }
        };
        match c.model_type {
            "gpt2" => linear("attn.c_attn", &[("attn_q", q), ("attn_k", kv), ("attn_v", kv)], d),
            "phi3" => linear("self_attn.qkv_proj", &[("attn_q", q), ("attn_k", kv), ("attn_v", kv)], d),
            _ => {
                linear("self_attn.q_proj", &[("attn_q", q)], d);
                linear("self_attn.k_proj", &[("attn_k", kv)], d);
                linear("self_attn.v_proj", &[("attn_v", kv)], d);
            }
        }
        linear(if gpt2 { "attn.c_proj" } else { "self_attn.o_proj" }, &[("attn_output", d)], q);
        let f = net.ffn;
        match c.model_type {
            "gpt2" | "starcoder2" => {
                linear("mlp.c_fc", &[("ffn_up", f)], d);
                linear("mlp.c_proj", &[("ffn_down", d)], f);
            }
            "phi3" => {
                linear("mlp.gate_up_proj", &[("ffn_gate", f), ("ffn_up", f)], d);
                linear("mlp.down_proj", &[("ffn_down", d)], f);
            }
            "mixtral" | "qwen3_moe" => {
                let (block, names) = match c.model_type {
                    "mixtral" => ("block_sparse_moe", ["w1", "w3", "w2"]),
                    _ => ("mlp", ["gate_proj", "up_proj", "down_proj"]),
                };
                let moe = net.moe.unwrap();
                linear(&format!("{block}.gate"), &[("ffn_gate_inp", moe.n)], d);
                for (part, theirs) in ["gate", "up", "down"].iter().zip(names) {
                    let (rows, cols) = if *part == "down" { (d, moe.ffn) } else { (moe.ffn, d) };
                    let all = of(&format!("ffn_{part}_exps.weight")).unwrap();
                    for (e, one) in all.chunks(rows * cols).enumerate() {
                        put(format!("{prefix}{block}.experts.{e}.{theirs}.weight"), &[rows, cols], one.to_vec());
                    }
                }
            }
            _ => {
                linear("mlp.gate_proj", &[("ffn_gate", f)], d);
                linear("mlp.up_proj", &[("ffn_up", f)], d);
                linear("mlp.down_proj", &[("ffn_down", d)], f);
            }
        }
    }
    out
}

/// Writes both, and computes the reference.
fn save(name: &str, tiny: &Tiny, change: impl FnOnce(&mut Value)) -> (tempfile::TempDir, Vec<Vec<f64>>) {
    let (bytes, net, weights) = tiny.build();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.gguf"), bytes).unwrap();
    let c = checkpoint(name);
    let mut config = config(&c, tiny, &net);
    change(&mut config);
    let floats = |(name, dims, values): Tensor| (name, "F32", dims, to_f32(&values));
    put_folder(
        &dir.path().join("folder"),
        &config,
        tensors(&c, tiny, &net, &weights).into_iter().map(floats).collect(),
    );
    let expected = net.forward(&weights, &PROMPT);
    (dir, expected)
}

fn to_f32(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()
}

fn put_folder(folder: &Path, config: &Value, tensors: Vec<(String, &str, Vec<u64>, Vec<u8>)>) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, dtype, dims, bytes)| (name.as_str(), *dtype, &dims[..], bytes.clone())).collect();
    fs::write(folder.join("model.safetensors"), safetensors::file(&tensors)).unwrap();
}

/// The same in two files, neighbors apart.
fn put_shards(folder: &Path, config: &Value, tensors: Vec<(String, &str, Vec<u64>, Vec<u8>)>) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let file = |i: usize| format!("model-0000{}-of-00002.safetensors", i % 2 + 1);
    let map: serde_json::Map<String, Value> =
        tensors.iter().enumerate().map(|(i, tensor)| (tensor.0.clone(), json!(file(i)))).collect();
    fs::write(folder.join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).unwrap();
    for i in 0..2 {
        let half: Vec<safetensors::Tensor> = tensors
            .iter()
            .skip(i)
            .step_by(2)
            .map(|(name, dtype, dims, bytes)| (name.as_str(), *dtype, &dims[..], bytes.clone()))
            .collect();
        fs::write(folder.join(file(i)), safetensors::file(&half)).unwrap();
    }
}

#[test]
fn every_architecture_is_the_same_from_a_folder() {
    // The second has no two widths alike.
    let small = architectures(|name| Tiny::new(name, quant::F32).shape(160, 5, 1, 32, 224));
    for (name, tiny) in architectures(|name| Tiny::new(name, quant::F32)).into_iter().chain(small) {
        let (dir, expected) = save(name, &tiny, |_| {});
        let file = models::logits(&dir.path().join("tiny.gguf"));
        let folder = models::logits(&dir.path().join("folder"));
        let difference = relative_rms(&expected, &folder);
        println!("{name:20} {difference:.1e}");
        assert!(difference < 1e-5, "{name}: {difference}");
        let c = checkpoint(name);
        if !c.permuted && !c.norms_less_one {
            assert!(folder == file, "{name}: not the same bits as from a GGUF file");
        }
    }
}

#[test]
fn layers_that_all_see_a_window_are_no_default() {
    let mut tiny =
        architectures(|name| Tiny::new(name, quant::F32)).into_iter().find(|(n, _)| *n == "gemma3").unwrap().1;
    tiny.net.window = vec![8; 7];
    tiny.net.inv_freq = vec![tiny::inv_freq(10_000.0, tiny.net.head_dim); 7];
    let (dir, expected) = save("gemma3", &tiny, |config| {
        config.as_object_mut().unwrap().remove("sliding_window_pattern");
        config["layer_types"] = json!(vec!["sliding_attention"; 7]);
    });
    let difference = relative_rms(&expected, &models::logits(&dir.path().join("folder")));
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn rotary_scalings_of_a_folder_are_those_of_the_reference() {
    let magnitude = rope::yarn_magnitude;
    let yarn = |factor, fast, slow| rope::yarn(10_000.0, 32, factor, 32.0, fast, slow);
    let cases = [
        (json!({"type": "linear", "factor": 4.0}), rope::linear(10_000.0, 32, 4.0), 1.0),
        (
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16}),
            rope::llama3(10_000.0, 32, 8.0, 1.0, 4.0, 16.0),
            1.0,
        ),
        (
            json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
            yarn(4.0, 32.0, 1.0),
            magnitude(1.0, 4.0),
        ),
        (
            json!({"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32, "beta_fast": 2,
                "beta_slow": 0.5, "attention_factor": 0.75}),
            yarn(2.0, 2.0, 0.5),
            0.75,
        ),
        // The factor that is left out is how much longer the context is.
        (
            json!({"rope_type": "yarn", "original_max_position_embeddings": 32, "mscale": 0.5, "mscale_all_dim": 1.0}),
            yarn(4.0, 32.0, 1.0),
            magnitude(0.5, 4.0) / magnitude(1.0, 4.0),
        ),
    ];
    for (scaling, inv_freq, magnitude) in cases {
        let tiny = Tiny::new("llama", quant::F32).change(|t| {
            t.net.inv_freq = vec![inv_freq; 2];
            t.net.rope_magnitude = magnitude;
        });
        for newer in [false, true] {
            let (dir, expected) = save("llama", &tiny, |config| {
                if newer {
                    config.as_object_mut().unwrap().remove("rope_theta");
                    config["rope_parameters"] = scaling.clone();
                    config["rope_parameters"]["rope_theta"] = json!(1e4);
                } else {
                    config["rope_scaling"] = scaling.clone();
                }
            });
            let difference = relative_rms(&expected, &models::logits(&dir.path().join("folder")));
            assert!(difference < 1e-5, "{scaling}: {difference}");
        }
    }
}

#[test]
fn longrope_of_a_folder_is_that_of_the_reference() {
    let divisors = |step: f32| (0..12).map(|i| 1.0 + step * i as f32).collect::<Vec<f32>>();
    let (short, long) = (divisors(0.25), divisors(1.5));
    for (capacity, used) in [(64, &short), (65, &long)] {
        for attention in [None, Some(1.25)] {
            let tiny = Tiny::new("phi3", quant::F32).change(|t| {
                (t.fused_qkv, t.fused_gate_up) = (true, true);
                t.net.inv_freq = vec![rope::divided(10_000.0, 24, used); 2];
                t.net.rope_magnitude = attention.unwrap_or(rope::longrope_magnitude(128.0, 64.0));
            });
            let (dir, expected) = save("phi3", &tiny, |config| {
                config["partial_rotary_factor"] = json!(0.75);
                config["original_max_position_embeddings"] = json!(64);
                config["rope_scaling"] = json!({"type": "longrope", "short_factor": short, "long_factor": long,
                    "attention_factor": attention});
            });
            let difference =
                relative_rms(&expected, &logits_of_each(&models::load(&dir.path().join("folder")), capacity, None));
            assert!(difference < 1e-5, "a cache of {capacity}: {difference}");
        }
    }
}

/// Inputs that share a scale.
const GROUP: usize = 32;

/// A matrix in codes: `(code - zero) * scale`, scales and zeros for groups of inputs.
struct Coded {
    bits: usize,
    rows: usize,
    /// The group of each input.
    groups: Vec<usize>,
    codes: Vec<u32>,
    scales: Vec<f32>,
    zeros: Vec<u32>,
}

impl Coded {
    /// The nearest codes, with inputs in groups as they come.
    fn new(values: &[f64], cols: usize, bits: usize, symmetric: bool, seed: u64) -> Coded {
        let (rows, n, levels) = (values.len() / cols, cols / GROUP, 1 << bits);
        let (mut groups, mut rng) = ((0..cols).map(|i| i / GROUP).collect::<Vec<usize>>(), tiny::Rng(seed | 1));
        (1..cols).rev().for_each(|i| groups.swap(i, rng.next() as usize % (i + 1)));
        let mut coded = Coded { bits, rows, groups, codes: vec![], scales: vec![], zeros: vec![] };
        for (r, row) in values.chunks(cols).enumerate() {
            for group in 0..n {
                let of = |(i, _): &(usize, &f64)| coded.groups[*i] == group;
                let peak = row.iter().enumerate().filter(of).fold(0f64, |peak, (_, v)| peak.max(v.abs()));
                let scale = (peak / (f64::from(levels) / 2.0 - 0.5)) as f32;
                // As BF16 has it.
                coded.scales.push(f32::from_bits(scale.to_bits() & 0xffff_0000));
                coded.zeros.push(if symmetric { levels / 2 } else { 1 + (r + group) as u32 % (levels - 1) });
            }
            for (i, v) in row.iter().enumerate() {
                let (scale, zero) = coded.of(r, i, n);
                coded
                    .codes
                    .push((v / f64::from(scale) + f64::from(zero)).round().clamp(0.0, f64::from(levels - 1)) as u32);
            }
        }
        coded
    }

    fn of(&self, row: usize, input: usize, n: usize) -> (f32, u32) {
        let at = row * n + self.groups[input];
        (self.scales[at], self.zeros[at])
    }

    fn values(&self) -> Vec<f64> {
        let cols = self.groups.len();
        let value = |(i, code): (usize, &u32)| {
            let (scale, zero) = self.of(i / cols, i % cols, cols / GROUP);
            (f64::from(*code) - f64::from(zero)) * f64::from(scale)
        };
        self.codes.iter().enumerate().map(value).collect()
    }

    /// The parts of a matrix of that name, without "weight", in a format.
    fn parts(&self, x: &str, format: &str) -> Vec<(String, &'static str, Vec<u64>, Vec<u8>)> {
        let (bits, rows, cols) = (self.bits, self.rows, self.groups.len());
        let n = cols / GROUP;
        let plus = u32::from(format == "gptq");
        // Zeros run along the rows of the matrix, those of each group apart.
        let of_group = |group| packed(self.zeros.iter().skip(group).step_by(n).map(|zero| zero - plus), bits);
        let zeros: Vec<Vec<u32>> = (0..n).map(of_group).collect();
        let scales = |by_row: bool| -> Vec<u8> {
            let at = |i: usize| if by_row { i } else { i % rows * n + i / rows };
            (0..rows * n).flat_map(|i| self.scales[at(i)].to_le_bytes()[2..].to_vec()).collect()
        };
        let words =
            |lines: &[Vec<u32>]| -> Vec<u8> { lines.iter().flatten().flat_map(|word| word.to_le_bytes()).collect() };
        let turned = |lines: &[Vec<u32>]| -> Vec<Vec<u32>> {
            (0..lines[0].len()).map(|i| lines.iter().map(|line| line[i]).collect()).collect()
        };
        let by_row: Vec<Vec<u32>> = self.codes.chunks(cols).map(|row| packed(row.iter().copied(), bits)).collect();
        let (row_words, zero_words) = (by_row[0].len() as u64, zeros[0].len() as u64);
        let groups: Vec<u8> = self.groups.iter().flat_map(|group| (*group as i32).to_le_bytes()).collect();
        let [n, rows, cols] = [n, rows, cols].map(|n| n as u64);
        let shape = [rows, cols].iter().flat_map(|n| n.to_le_bytes()).collect();
        let parts = if format == "ct" {
            vec![
                ("weight_packed", "I32", vec![rows, row_words], words(&by_row)),
                ("weight_scale", "BF16", vec![rows, n], scales(true)),
                ("weight_zero_point", "I32", vec![zero_words, n], words(&turned(&zeros))),
                ("weight_shape", "I64", vec![2], shape),
                ("weight_g_idx", "I32", vec![cols], groups),
            ]
        } else {
            vec![
                ("qweight", "I32", vec![row_words, rows], words(&turned(&by_row))),
                ("scales", "BF16", vec![n, rows], scales(false)),
                ("qzeros", "I32", vec![n, zero_words], words(&zeros)),
                ("g_idx", "I32", vec![cols], groups),
            ]
        };
        parts.into_iter().map(|(part, dtype, dims, bytes)| (format!("{x}{part}"), dtype, dims, bytes)).collect()
    }
}

/// A stream of codes in words, the first in the lowest bits.
fn packed(codes: impl Iterator<Item = u32>, bits: usize) -> Vec<u32> {
    let (mut words, mut rest, mut n) = (vec![], 0u64, 0);
    for code in codes {
        rest |= u64::from(code) << n;
        n += bits;
        if n >= 32 {
            words.push(rest as u32);
            (rest, n) = (rest >> 32, n - 32);
        }
    }
    words.extend((n > 0).then_some(rest as u32));
    words
}

/// GPTQ with `desc_act` and compressed-tensors with `actorder`: the reference has the weights that the codes stand for.
/// In the first layer matrices of one input share an order, in others each has its own; so has each expert.
#[test]
fn codes_whose_groups_are_no_neighbors_are_the_weights_that_they_stand_for() {
    let cases = [
        (4, true, "gptq"),
        (3, false, "gptq_v2"),
        (2, false, "gptq"),
        (8, true, "gptq_v2"),
        (4, false, "ct"),
        (8, true, "ct"),
    ];
    for (name, tiny) in architectures(|name| Tiny::new(name, quant::F32).shape(160, 5, 1, 32, 224)) {
        for (bits, symmetric, format) in cases.into_iter().filter(|_| ["llama", "qwen3", "qwen3moe"].contains(&name)) {
            let (_, net, weights) = tiny.build();
            let c = checkpoint(name);
            let mut config = config(&c, &tiny, &net);
            if name == "qwen3moe" {
                // All of them, so that what is rounded chooses no others.
                config["num_experts_per_tok"] = json!(4);
            }
            let (mut wide, mut narrow) = (vec![], vec![]);
            for (name, dims, values) in tensors(&c, &tiny, &net, &weights) {
                let Some(x) = name.strip_suffix("weight").filter(|x| x.ends_with("_proj.")) else {
                    wide.push((name.clone(), "F32", dims.clone(), to_f32(&values)));
                    narrow.push((name, "F32", dims, to_f32(&values)));
                    continue;
                };
                let shared = x.replace("k_proj", "q_proj").replace("v_proj", "q_proj").replace("up_proj", "gate_proj");
                let order = if name.contains("layers.0.") { &shared } else { x };
                let seed = order.bytes().fold(7u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
                let coded = Coded::new(&values, dims[1] as usize, bits, symmetric, seed);
                wide.push((name.clone(), "F32", dims, to_f32(&coded.values())));
                narrow.extend(coded.parts(x, format));
            }
            let dir = tempfile::tempdir().unwrap();
            put_folder(&dir.path().join("wide"), &config, wide);
            config["quantization_config"] = match format {
                "ct" => {
                    json!({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0":
                    {"targets": ["Linear"], "weights": {"num_bits": bits, "type": "int", "symmetric": symmetric,
                    "strategy": "group", "group_size": GROUP, "actorder": "group"}}}})
                }
                _ => json!({"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": true,
                    "sym": symmetric, "checkpoint_format": format}),
            };
            put_shards(&dir.path().join("narrow"), &config, narrow);
            let [wide, narrow] = ["wide", "narrow"].map(|folder| models::logits(&dir.path().join(folder)));
            let wide: Vec<Vec<f64>> = wide.iter().map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
            let difference = relative_rms(&wide, &narrow);
            println!("{name:10} {format:8} {bits} bits {difference:.1e}");
            // Activations are rounded to 8 bits.
            assert!(difference < 5e-2, "{name}, {format}, {bits} bits: {difference}");
        }
    }
}

/// The nearest value of E4M3 and its bits.
fn e4m3(x: f64) -> (u8, f64) {
    let value = |bits: u8| match (bits >> 3, bits & 7) {
        (0, mantissa) => f64::from(mantissa) / 512.0,
        (exponent, mantissa) => (8.0 + f64::from(mantissa)) * 2f64.powi(i32::from(exponent) - 10),
    };
    let far = |bits: &u8| (value(*bits) - x.abs()).abs();
    let bits = (0..127).min_by(|a, b| far(a).total_cmp(&far(b))).unwrap();
    if x < 0.0 { (bits | 0x80, -value(bits)) } else { (bits, value(bits)) }
}

#[test]
fn eight_bit_checkpoints_are_the_sixteen_bit_ones_that_they_stand_for() {
    for (name, tiny) in architectures(|name| Tiny::new(name, quant::F32).shape(160, 5, 1, 32, 224)) {
        if !["llama", "qwen3", "qwen3moe"].contains(&name) {
            continue;
        }
        let (_, net, weights) = tiny.build();
        let c = checkpoint(name);
        let mut config = config(&c, &tiny, &net);
        let (mut wide, mut narrow) = (vec![], vec![]);
        for (name, dims, values) in tensors(&c, &tiny, &net, &weights) {
            if !name.ends_with("_proj.weight") {
                wide.push((name.clone(), "F32", dims.clone(), to_f32(&values)));
                narrow.push((name, "F32", dims, to_f32(&values)));
                continue;
            }
            // Powers of two, so that a product fits in 16 bits.
            let (cols, grid) = (dims[1] as usize, [dims[0].div_ceil(128), dims[1].div_ceil(128)]);
            let scale = |i: usize| 2f64.powi(-(6 + (i / cols / 128 + 2 * (i % cols / 128)) as i32));
            let scales: Vec<f64> =
                (0..grid[0] * grid[1]).map(|i| 2f64.powi(-(6 + (i / grid[1] + 2 * (i % grid[1])) as i32))).collect();
            let rounded: Vec<(u8, f64)> = values.iter().enumerate().map(|(i, v)| e4m3(v / scale(i))).collect();
            let halves = |(i, v): (usize, &(u8, f64))| ((v.1 * scale(i)) as f32).to_le_bytes()[2..].to_vec();
            wide.push((name.clone(), "BF16", dims.clone(), rounded.iter().enumerate().flat_map(halves).collect()));
            narrow.push((name.replace(".weight", ".weight_scale_inv"), "F32", grid.to_vec(), to_f32(&scales)));
            narrow.push((name, "F8_E4M3", dims, rounded.iter().map(|v| v.0).collect()));
        }
        let dir = tempfile::tempdir().unwrap();
        put_folder(&dir.path().join("wide"), &config, wide);
        config["quantization_config"] = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
        put_folder(&dir.path().join("narrow"), &config, narrow);
        let [wide, narrow] = ["wide", "narrow"].map(|folder| models::logits(&dir.path().join(folder)));
        assert!(wide == narrow, "{name}");
    }
}
