//! Translation of a Hugging Face folder to the keys, names and bytes of a GGUF file of the same model. Expected names
//! are from the `gguf` Python package (`get_tensor_name_map`).

use std::fs;

use realizar::format::{Access, Source};
use realizar::quant;

use crate::support::safetensors::{self, Folder, file};

impl Folder {
    fn open(&self) -> Source {
        Source::open(self.0.path(), Access::Map).unwrap()
    }
}

/// The keys that a configuration becomes, as text, but for those that are the same everywhere.
fn keys(config: &str) -> Vec<String> {
    let metadata = Folder::new(config).open().metadata;
    let same = ["general.name", "realizar.rope_halves"];
    let keys = metadata.iter().filter(|(k, _)| !same.contains(k));
    keys.map(|(k, value)| format!("{k}={}", value.render())).collect()
}

fn assert_has(config: &str, expected: &[&str]) {
    let found = keys(config);
    for e in expected {
        assert!(found.iter().any(|k| k == e), "no {e} in {found:#?}");
    }
}

fn assert_lacks(config: &str, part: &str) {
    let found = keys(config);
    assert!(!found.iter().any(|k| k.contains(part)), "{part} in {found:#?}");
}

/// That a model of a type whose tensors are called `from` has them under the name `to`.
fn assert_named(model_type: &str, names: &[(&str, &str)]) {
    let folder = Folder::new(&format!(r#"{{"model_type":"{model_type}"}}"#));
    let tensors: Vec<safetensors::Tensor> =
        names.iter().zip(1u8..).map(|((from, _), i)| (*from, "F16", &[2u64, 1][..], vec![i; 4])).collect();
    folder.put("model.safetensors", file(&tensors));
    let source = folder.open();
    for ((from, to), i) in names.iter().zip(1u8..) {
        let tensor = source.tensor(to).unwrap_or_else(|| panic!("{from} is no {to}"));
        // Norms of Gemma become what they multiply by.
        let expected = match tensor.dtype {
            quant::F32 => (1.0 + half::f16::from_le_bytes([i; 2]).to_f32()).to_le_bytes().repeat(2),
            _ => vec![i; 4],
        };
        let mut bytes = vec![0; tensor.bytes as usize];
        source.read(tensor, 0, &mut bytes).unwrap();
        assert_eq!(bytes, expected, "{from}");
    }
    assert_eq!(source.tensors().len(), names.len());
}

#[test]
fn llama() {
    let config = r#"{"model_type":"llama","vocab_size":32000,"hidden_size":512,"intermediate_size":1408,
        "num_hidden_layers":8,"num_attention_heads":8,"num_key_value_heads":2,"hidden_act":"silu","rms_norm_eps":1e-05,
        "rope_theta":500000.0,"max_position_embeddings":32768,"tie_word_embeddings":true,"bos_token_id":1,
        "eos_token_id":[2,5],"rope_scaling":null,"torch_dtype":"bfloat16"}"#;
    let expected = [
        "general.architecture=llama",
        "llama.attention.head_count=8",
        "llama.attention.head_count_kv=2",
        "llama.attention.layer_norm_rms_epsilon=0.00001",
        "llama.block_count=8",
        "llama.context_length=32768",
        "llama.embedding_length=512",
        "llama.feed_forward_length=1408",
        "llama.rope.freq_base=500000",
        "llama.vocab_size=32000",
        "tokenizer.ggml.eos_token_ids=[2 integers]",
        "tokenizer.ggml.bos_token_id=1",
        "tokenizer.ggml.eos_token_id=2",
    ];
    let mut expected = expected.map(String::from);
    expected.sort();
    assert_eq!(keys(config), expected);
    assert_named(
        "llama",
        &[
            ("model.embed_tokens.weight", "token_embd.weight"),
            ("model.layers.3.input_layernorm.weight", "blk.3.attn_norm.weight"),
            ("model.layers.3.self_attn.q_proj.weight", "blk.3.attn_q.weight"),
            ("model.layers.3.self_attn.q_proj.bias", "blk.3.attn_q.bias"),
            ("model.layers.3.self_attn.k_proj.weight", "blk.3.attn_k.weight"),
            ("model.layers.3.self_attn.v_proj.weight", "blk.3.attn_v.weight"),
            ("model.layers.3.self_attn.o_proj.weight", "blk.3.attn_output.weight"),
            ("model.layers.3.post_attention_layernorm.weight", "blk.3.ffn_norm.weight"),
            ("model.layers.10.mlp.gate_proj.weight", "blk.10.ffn_gate.weight"),
            ("model.layers.3.mlp.up_proj.weight", "blk.3.ffn_up.weight"),
            ("model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight"),
            ("model.norm.weight", "output_norm.weight"),
            ("lm_head.weight", "output.weight"),
        ],
    );
}

/// Configurations as they were published, and some of the keys that they become.
#[test]
fn published_configurations_are_understood() {
    for (name, expected) in [
        ("llama-3.2-1b", &["llama.rope.scaling.type=llama3", "llama.rope.scaling.factor=32"][..]),
        ("smollm2-135m", &["llama.block_count=30", "llama.rope.freq_base=100000"]),
        ("mistral-7b-v0.1", &["llama.attention.sliding_window=4096"]),
        ("mixtral-8x7b", &["llama.expert_count=8", "llama.expert_used_count=2"]),
        ("qwen2.5-0.5b", &["qwen2.attention.head_count_kv=2"]),
        ("qwen3-0.6b", &["qwen3.attention.key_length=128"]),
        ("qwen3-0.6b-transformers-5", &["qwen3.attention.key_length=128", "qwen3.rope.freq_base=1000000"]),
        ("qwen3-30b-a3b", &["qwen3moe.expert_feed_forward_length=768", "qwen3moe.expert_weights_norm=true"]),
        ("gemma-2b", &["gemma.feed_forward_length=16384"]),
        ("gemma-2-9b", &["gemma2.attn_logit_softcapping=50", "gemma2.attention.scale=0.0625"]),
        ("gemma-3-1b", &["gemma3.final_logit_softcapping=0", "gemma3.attention.sliding_window_pattern=6"]),
        ("gemma-3-270m", &["gemma3.attention.sliding_window_pattern=6", "gemma3.rope.freq_base_swa=10000"]),
        ("gemma-3-4b", &["gemma3.embedding_length=2560", "gemma3.rope.scaling.factor=8"]),
        ("phi-3-mini-4k", &["phi3.attention.sliding_window=2047"]),
        ("phi-4-mini", &["phi3.rope.dimension_count=96", "phi3.rope.scaling.type=longrope"]),
        ("gpt2", &["gpt2.feed_forward_length=3072", "gpt2.context_length=1024"]),
        ("starcoder2-3b", &["starcoder2.attention.layer_norm_epsilon=0.00001"]),
        ("olmo-2-7b", &["olmo2.attention.layer_norm_rms_epsilon=0.000001"]),
        ("all-minilm-l6-v2", &["bert.attention.causal=false", "bert.feed_forward_length=1536"]),
        ("granite-3.1-2b", &["granite.attention.scale=0.015625", "granite.logit_scale=8"]),
        (
            "qwen3-next-80b-a3b",
            &[
                "qwen3next.ssm.inner_size=4096",
                "qwen3next.rope.dimension_count=64",
                "qwen3next.expert_weights_norm=true",
            ],
        ),
        (
            "qwen3.5-27b",
            &["qwen35.ssm.time_step_rank=48", "qwen35.rope.dimension_count=64", "qwen35.rope.freq_base=10000000"],
        ),
        (
            "gemma-4-e2b",
            &[
                "gemma4.attention.key_length=512",
                "gemma4.attention.key_length_swa=256",
                "gemma4.attention.shared_kv_layers=20",
                "gemma4.embedding_length_per_layer_input=256",
                "gemma4.feed_forward_length=[35 integers]",
            ],
        ),
        (
            "deepseek-v2-lite",
            &[
                "deepseek2.expert_gating_func=1",
                "deepseek2.attention.key_length_mla=192",
                "deepseek2.rope.scaling.type=yarn",
            ],
        ),
        (
            "deepseek-v3",
            &[
                "deepseek2.expert_group_used_count=4",
                "deepseek2.attention.q_lora_rank=1536",
                "deepseek2.attention.key_length=576",
            ],
        ),
        ("kimi-k2", &["deepseek2.expert_count=384", "deepseek2.rope.freq_base=50000"]),
        ("glm-4.7-flash", &["deepseek2.expert_gating_func=2", "deepseek2.attention.value_length_mla=256"]),
        (
            "minicpm3-4b",
            &["minicpm3.attention.value_length_mla=64", "minicpm3.logit_scale=10", "minicpm3.embedding_scale=12"],
        ),
        ("mamba-130m", &["mamba.ssm.inner_size=1536", "mamba.ssm.time_step_rank=48"]),
        (
            "mamba-codestral-7b",
            &["mamba2.ssm.inner_size=8192", "mamba2.ssm.time_step_rank=128", "mamba2.ssm.group_count=8"],
        ),
        ("falcon-h1-1.5b", &["falcon-h1.ssm.inner_size=3072", "falcon-h1.ssm.input_scales=[5 floats]"]),
        (
            "granite-4.0-h-tiny",
            &["granitehybrid.attention.head_count_kv=[40 integers]", "granitehybrid.expert_count=64"],
        ),
        (
            "nemotron-3-nano-30b-a3b",
            &["nemotron_h.feed_forward_length=[52 integers]", "nemotron_h.expert_weights_scale=2.5"],
        ),
        ("jamba-v0.1", &["jamba.ssm.time_step_rank=256", "jamba.attention.head_count_kv=[32 integers]"]),
    ] {
        let path = format!("{}/tests/data/configs/{name}.json", env!("CARGO_MANIFEST_DIR"));
        assert_has(&fs::read_to_string(path).unwrap(), expected);
    }
    for name in ["qwen2.5-0.5b", "qwen3-0.6b", "qwen3-0.6b-transformers-5", "qwen3-30b-a3b"] {
        let path = format!("{}/tests/data/configs/{name}.json", env!("CARGO_MANIFEST_DIR"));
        assert_lacks(&fs::read_to_string(path).unwrap(), "window");
    }
}

#[test]
fn an_unknown_tensor_keeps_its_own_name() {
    let folder = Folder::new(r#"{"model_type":"llama"}"#);
    let names =
        ["model.layers.0.self_attn.springs", "model.layers.0.mlp.strange.weight", "model.layers.0.block.0.A_log"];
    let tensors: Vec<safetensors::Tensor> = names.iter().map(|name| (*name, "F16", &[1u64][..], vec![0; 2])).collect();
    folder.put("model.safetensors", file(&tensors));
    let source = folder.open();
    assert_eq!(source.tensors().len(), names.len());
    assert!(names.iter().all(|name| source.tensor(name).is_some()));
}

#[test]
fn rope_scaling() {
    let with = |rope: &str| {
        format!(
            r#"{{"model_type":"llama","head_dim":64,"max_position_embeddings":131072,"rope_theta":1e4,"rope_scaling":{rope}}}"#
        )
    };
    assert_has(
        &with(r#"{"type":"linear","factor":4.0}"#),
        &["llama.rope.scaling.type=linear", "llama.rope.scaling.factor=4"],
    );
    assert_has(
        &with(
            r#"{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}"#,
        ),
        &[
            "llama.rope.scaling.type=llama3",
            "llama.rope.scaling.factor=8",
            "llama.rope.scaling.low_freq_factor=1",
            "llama.rope.scaling.high_freq_factor=4",
            "llama.rope.scaling.original_context_length=8192",
        ],
    );
    assert_has(
        &with(r#"{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}"#),
        &[
            "llama.rope.scaling.type=yarn",
            "llama.rope.scaling.factor=4",
            "llama.rope.scaling.original_context_length=32768",
        ],
    );
    assert_has(
        &with(r#"{"type":"yarn","factor":4.0,"beta_fast":16,"beta_slow":2,"attention_factor":2.0,"finetuned":true}"#),
        &[
            "llama.rope.scaling.yarn_beta_fast=16",
            "llama.rope.scaling.yarn_beta_slow=2",
            // The trained context is the only one that is told.
            "llama.rope.scaling.original_context_length=131072",
            // 2 / (1 + 0.1 ln 4): a GGUF file leaves out what YaRN prescribes.
            "llama.rope.scaling.attn_factor=1.7564977125738839",
        ],
    );
    // A factor that is not given is how much longer the context became; null is not given.
    let ratio = r#"{"rope_type":"yarn","factor":null,"original_max_position_embeddings":16384,"mscale":0.5,
        "mscale_all_dim":1.0,"truncate":true}"#;
    assert_has(
        &with(ratio),
        // (1 + 0.05 ln 8) / (1 + 0.1 ln 8) / (1 + 0.1 ln 8)
        &["llama.rope.scaling.factor=8", "llama.rope.scaling.attn_factor=0.7565965838986991"],
    );
    let whole = r#"{"rope_type":"yarn","factor":2.0,"truncate":false}"#;
    assert_has(&with(whole), &["llama.rope.scaling.yarn_truncate=false"]);
    assert_lacks(&with(r#"{"rope_type":"default"}"#), "scaling");
    let refused = [
        (r#"{"rope_type":"dynamic","factor":2.0}"#, "dynamic"),
        (r#"{"rope_type":"linear"}"#, "factor"),
        (r#"{"rope_type":"longrope","short_factor":[1],"long_factor":[1],"factor":4.0}"#, "original_max_position"),
        (r#"{"rope_type":"longrope","short_factor":[1],"original_max_position_embeddings":4}"#, "long_factor"),
        (
            r#"{"rope_type":"su","short_factor":[1],"long_factor":[1],"original_max_position_embeddings":4,"long_mscale":1}"#,
            "long_mscale",
        ),
        (r#"{"type":"default","mrope_section":[16,24,24]}"#, "mrope_section"),
        (r#"{"full_attention":{},"sliding_attention":{"rope_type":"linear","factor":2.0}}"#, "window"),
    ];
    for (rope, why) in refused {
        let source = Source::open(Folder::new(&with(rope)).0.path(), Access::Map);
        let error = source.and_then(|source| source.passed().check("")).unwrap_err().to_string();
        assert!(error.contains(why), "{rope}: {error}");
    }
    // The newer way to say it.
    let parameters = r#"{"model_type":"llama","rope_parameters":{"rope_type":"linear","rope_theta":5e5,"factor":2}}"#;
    assert_has(parameters, &["llama.rope.freq_base=500000", "llama.rope.scaling.factor=2"]);
}

#[test]
fn qwen() {
    assert_has(
        r#"{"model_type":"qwen2","sliding_window":4096,"use_sliding_window":false,"max_window_layers":21}"#,
        &["general.architecture=qwen2", "qwen2.rope.freq_base=10000"],
    );
    // Windows are used where the configuration says so, and from the 28th layer on.
    assert_lacks(r#"{"model_type":"qwen2","sliding_window":4096,"use_sliding_window":false}"#, "window");
    assert_lacks(r#"{"model_type":"qwen2","sliding_window":4096}"#, "window");
    assert_has(
        r#"{"model_type":"qwen2","sliding_window":4096,"use_sliding_window":true,"num_hidden_layers":30}"#,
        &["qwen2.attention.sliding_window=4096", "qwen2.attention.sliding_window_pattern=[30 booleans]"],
    );
    assert_has(r#"{"model_type":"qwen3_moe"}"#, &["qwen3moe.expert_weights_norm=false"]);
    assert_lacks(
        r#"{"model_type":"qwen3","sliding_window":8,"num_hidden_layers":2,"layer_types":["full_attention","full_attention"]}"#,
        "window",
    );
    assert_has(
        r#"{"model_type":"qwen3","head_dim":128}"#,
        &["general.architecture=qwen3", "qwen3.attention.key_length=128", "qwen3.attention.value_length=128"],
    );
    assert_has(
        r#"{"model_type":"qwen3_moe","num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"norm_topk_prob":true}"#,
        &[
            "general.architecture=qwen3moe",
            "qwen3moe.expert_count=128",
            "qwen3moe.expert_used_count=8",
            "qwen3moe.expert_feed_forward_length=768",
            "qwen3moe.expert_weights_norm=true",
        ],
    );
    assert_named(
        "qwen3_moe",
        &[
            ("model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight"),
            ("model.layers.0.self_attn.k_norm.weight", "blk.0.attn_k_norm.weight"),
            ("model.layers.0.mlp.gate.weight", "blk.0.ffn_gate_inp.weight"),
        ],
    );
}

#[test]
fn experts_are_stacked() {
    let folder = Folder::new(r#"{"model_type":"mixtral","num_local_experts":11,"num_experts_per_tok":2}"#);
    let matrices = [("w1", "ffn_gate_exps"), ("w2", "ffn_down_exps"), ("w3", "ffn_up_exps")];
    // Eleven, so that the order of the numbers is not that of their names.
    let names: Vec<String> = (0..11)
        .flat_map(|e| matrices.map(|(m, _)| format!("model.layers.0.block_sparse_moe.experts.{e}.{m}.weight")))
        .collect();
    let tensors: Vec<safetensors::Tensor> =
        names.iter().zip(0u8..).map(|(name, i)| (name.as_str(), "F32", &[2u64, 3][..], vec![i; 24])).collect();
    folder.put("model.safetensors", file(&tensors));
    let source = folder.open();
    assert_eq!(source.metadata.str("general.architecture").unwrap(), Some("llama"));
    assert_eq!(source.metadata.u64("llama.expert_count").unwrap(), Some(11));
    for (m, (_, name)) in matrices.iter().enumerate() {
        let tensor = source.tensor(&format!("blk.0.{name}.weight")).unwrap();
        assert_eq!((tensor.shape.dims(), tensor.bytes), (&[11, 2, 3][..], 264));
        assert!(source.mapped(tensor).is_none());
        let expected: Vec<u8> = (0..264).map(|i| (i / 24 * 3 + m) as u8).collect();
        for (from, len) in [(0, 264), (20, 8), (24, 24), (23, 100), (263, 1), (264, 0), (48, 0)] {
            let mut bytes = vec![0xaa; len];
            source.read(tensor, from as u64, &mut bytes).unwrap();
            assert_eq!(bytes, expected[from..from + len], "{len} from {from}");
        }
    }
    drop(source); // a mapped file cannot be written to on Windows
    // One expert is missing, and one has another shape.
    for spoil in [5, 30] {
        let mut fewer = tensors.clone();
        match spoil {
            5 => drop(fewer.remove(spoil)),
            _ => fewer[spoil].2 = &[3, 2],
        }
        folder.put("model.safetensors", file(&fewer));
        let error = Source::open(folder.0.path(), Access::Read).unwrap_err();
        assert!(error.to_string().contains("does not fit"), "{error}");
    }
}

const FP8: &str = r#""quantization_config":{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",
    "weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]}"#;
const COMPRESSED: &str = r#""quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized",
    "config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel",
    "symmetric":true,"dynamic":false,"group_size":null},"input_activations":{"num_bits":8,"type":"float"}}},
    "ignore":["lm_head"],"kv_cache_scheme":null,"sparsity_config":{}}"#;

/// A value of E4M3, in bits.
fn e4m3(bits: u8) -> f32 {
    let (sign, exponent, mantissa) = (1.0 - f32::from(bits >> 7) * 2.0, i32::from(bits >> 3 & 15), f32::from(bits & 7));
    sign * if exponent == 0 { mantissa / 512.0 } else { (8.0 + mantissa) * 2f32.powi(exponent - 10) }
}

/// Four bits of it and a scale of two fit in BF16, so that nothing is rounded.
fn scaled(bits: &[u8], cols: usize, scale: impl Fn(usize, usize) -> f32) -> Vec<u8> {
    let value = |(i, &b): (usize, &u8)| e4m3(b) * scale(i / cols, i % cols);
    bits.iter()
        .enumerate()
        .map(value)
        .flat_map(|v| v.to_bits().to_be_bytes()[..2].iter().rev().copied().collect::<Vec<_>>())
        .collect()
}

#[test]
fn eight_bit_floats_are_multiplied_by_their_scales() {
    let (rows, cols) = (130, 300);
    let bits: Vec<u8> =
        (0..rows * cols).map(|i| (i * 37 % 251) as u8).map(|b| if b & 127 == 127 { 0 } else { b }).collect();
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let halves = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()[2..].to_vec()).collect::<Vec<u8>>();
    let squares = [0.5, 0.75, 2.0, 0.0078125, 3.0, 1.0];
    let channels: Vec<f32> = (0..rows).map(|r| 2f32.powi(r as i32 % 9 - 4)).collect();
    let by_square = scaled(&bits, cols, |r, c| squares[r / 128 * 3 + c / 128]);
    let by_row = scaled(&bits, cols, |r, _| channels[r]);
    let by_one = scaled(&bits, cols, |_, _| 0.375);
    let [r, c] = [rows as u64, cols as u64];
    let cases = [
        (FP8, "weight_scale_inv", "F32", vec![2, 3], floats(&squares), &by_square),
        (FP8, "weight_scale_inv", "BF16", vec![2, 3], halves(&squares), &by_square),
        (COMPRESSED, "weight_scale", "BF16", vec![r, 1], halves(&channels), &by_row),
        (COMPRESSED, "weight_scale", "F32", vec![r], floats(&channels), &by_row),
        (COMPRESSED, "weight_scale", "F32", vec![1], floats(&[0.375]), &by_one),
        (COMPRESSED, "weight_scale", "F32", vec![], floats(&[0.375]), &by_one),
    ];
    for (config, leaf, dtype, dims, scales, expected) in cases {
        let folder = Folder::new(&format!(r#"{{"model_type":"llama",{config}}}"#));
        let name = |leaf: &str| format!("model.layers.0.self_attn.q_proj.{leaf}");
        let (weight, scale, unused) = (name("weight"), name(leaf), name("input_scale"));
        folder.put(
            "model.safetensors",
            file(&[
                (&weight, "F8_E4M3", &[r, c], bits.clone()),
                (&scale, dtype, &dims, scales),
                (&unused, "F32", &[], vec![0; 4]),
                ("model.norm.weight", "F16", &[1], vec![0; 2]),
            ]),
        );
        let source = folder.open();
        assert_eq!(source.tensors().len(), 2);
        let tensor = source.tensor("blk.0.attn_q.weight").unwrap();
        assert_eq!((tensor.dtype, tensor.shape.dims(), tensor.bytes), (quant::BF16, &[r, c][..], 2 * r * c));
        assert!(source.mapped(tensor).is_none());
        let row = 2 * cols;
        for (from, len) in [(0, 130 * row), (0, 2), (254, 8), (127 * row - 2, row + 6), (129 * row, row), (row, 0)] {
            let mut bytes = vec![0xaa; len];
            source.read(tensor, from as u64, &mut bytes).unwrap();
            assert!(bytes == expected[from..from + len], "{leaf} {dims:?}: {len} from {from}");
        }
        assert!(source.read(tensor, 1, &mut [0; 2]).is_err() && source.read(tensor, 0, &mut [0; 3]).is_err());
    }
}

#[test]
fn experts_of_eight_bits_are_stacked() {
    let folder = Folder::new(&format!(r#"{{"model_type":"qwen3_moe",{FP8}}}"#));
    let names: Vec<[String; 2]> = (0..3)
        .map(|e| ["weight", "weight_scale_inv"].map(|leaf| format!("model.layers.0.mlp.experts.{e}.up_proj.{leaf}")))
        .collect();
    let mut tensors: Vec<safetensors::Tensor> = vec![];
    for ([weight, scale], e) in names.iter().zip(0u8..) {
        tensors.push((weight, "F8_E4M3", &[2, 3], vec![0x38 + e; 6]));
        tensors.push((scale, "F32", &[1, 1], (f32::from(e) + 1.0).to_le_bytes().to_vec()));
    }
    folder.put("model.safetensors", file(&tensors));
    let source = folder.open();
    let tensor = source.tensor("blk.0.ffn_up_exps.weight").unwrap();
    assert_eq!((tensor.dtype, tensor.shape.dims(), tensor.bytes), (quant::BF16, &[3, 2, 3][..], 36));
    let all: Vec<u8> = (0..3u8).flat_map(|e| scaled(&[0x38 + e; 6], 3, |_, _| f32::from(e) + 1.0)).collect();
    for (from, len) in [(0, 36), (10, 4), (12, 12), (34, 2)] {
        let mut bytes = vec![0; len];
        source.read(tensor, from as u64, &mut bytes).unwrap();
        assert_eq!(bytes, all[from..from + len]);
    }
    drop(source);
    // A scale is missing, is of another shape, has no weight.
    for (spoil, why) in [(1, "no scale"), (3, "does not fit"), (4, "not there")] {
        let mut spoiled = tensors.clone();
        match spoil {
            3 => (spoiled[3].2, spoiled[3].3) = (&[3], vec![0; 12]),
            4 => drop(spoiled.drain(4..5)),
            _ => drop(spoiled.remove(spoil)),
        }
        folder.put("model.safetensors", file(&spoiled));
        let error = Source::open(folder.0.path(), Access::Read).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let others = [
        (FP8.replace("[128,128]", "[48,64]"), "weight_block_size"),
        (FP8.replace("e4m3", "e5m2"), "e5m2"),
        (COMPRESSED.replace("float-quantized", "marlin-24"), "marlin-24"),
        (
            COMPRESSED.replace(r#""sparsity_config":{}"#, r#""sparsity_config":{"format":"sparse-24-bitmask"}"#),
            "sparsity",
        ),
        (COMPRESSED.replace("compressed-tensors", "aqlm"), "aqlm"),
    ];
    for (config, why) in others {
        let folder = Folder::new(&format!(r#"{{"model_type":"llama",{config}}}"#));
        folder.put("model.safetensors", file(&[("model.norm.weight", "F16", &[1], vec![0; 2])]));
        let error = Source::open(folder.0.path(), Access::Read).unwrap_err().to_string();
        assert!(error.contains(why), "{config}: {error}");
    }
}

#[test]
fn gemma() {
    assert_has(
        r#"{"model_type":"gemma","hidden_act":"gelu","head_dim":256}"#,
        &["general.architecture=gemma", "gemma.attention.key_length=256"],
    );
    assert_has(
        r#"{"model_type":"gemma2","hidden_activation":"gelu_pytorch_tanh","sliding_window":4096,"query_pre_attn_scalar":144,
            "attn_logit_softcapping":50.0,"final_logit_softcapping":30.0}"#,
        &[
            "gemma2.attention.scale=0.08333333333333333",
            "gemma2.attention.sliding_window=4096",
            "gemma2.attn_logit_softcapping=50",
            "gemma2.final_logit_softcapping=30",
        ],
    );
    // A cap that is left out has its default, one that is null is off.
    assert_has(r#"{"model_type":"gemma2","attn_logit_softcapping":null}"#, &["gemma2.attn_logit_softcapping=0"]);
    assert_lacks(r#"{"model_type":"gemma2"}"#, "softcapping");
    // What the text part of a model that sees leaves out.
    let seeing = r#"{"model_type":"gemma3","eos_token_id":[1,106],"text_config":{"model_type":"gemma3_text",
        "hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024,
        "rope_scaling":{"factor":8.0,"rope_type":"linear"}},"vision_config":{"hidden_size":1152,"num_attention_heads":16}}"#;
    let gemma3 = [
        "general.architecture=gemma3",
        "gemma3.embedding_length=2560",
        "gemma3.block_count=34",
        "gemma3.attention.head_count=8",
        "gemma3.attention.head_count_kv=4",
        "gemma3.attention.key_length=256",
        "gemma3.attention.layer_norm_rms_epsilon=0.000001",
        "gemma3.attention.scale=0.0625",
        "gemma3.attention.sliding_window=1024",
        "gemma3.attention.sliding_window_pattern=6",
        "gemma3.rope.freq_base=1000000",
        "gemma3.rope.freq_base_swa=10000",
        "gemma3.rope.scaling.factor=8",
        "tokenizer.ggml.eos_token_id=1",
        "tokenizer.ggml.eos_token_ids=[2 integers]",
    ];
    assert_has(seeing, &gemma3);
    // The newest configurations list the layers and have two sets of rope parameters.
    let list = |n: usize, period: usize| {
        (1..=n)
            .map(|i| if i % period == 0 { r#""full_attention""# } else { r#""sliding_attention""# })
            .collect::<Vec<_>>()
            .join(",")
    };
    let listed = format!(
        r#"{{"model_type":"gemma3_text","num_hidden_layers":18,"sliding_window":512,"layer_types":[{}],"rope_parameters":
        {{"full_attention":{{"rope_theta":2e6,"rope_type":"default"}},"sliding_attention":{{"rope_theta":2e4}}}}}}"#,
        list(18, 3)
    );
    assert_has(
        &listed,
        &[
            "gemma3.attention.sliding_window=512",
            "gemma3.attention.sliding_window_pattern=3",
            "gemma3.rope.freq_base=2000000",
            "gemma3.rope.freq_base_swa=20000",
        ],
    );
    let odd = listed.replace(r#"["sliding_attention""#, r#"["full_attention""#);
    assert_has(&odd, &["gemma3.attention.sliding_window_pattern=[18 booleans]"]);
    assert_named(
        "gemma3",
        &[
            ("language_model.model.embed_tokens.weight", "token_embd.weight"),
            ("model.language_model.layers.1.input_layernorm.weight", "blk.1.attn_norm.weight"),
            ("language_model.model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight"),
            ("language_model.model.layers.0.post_attention_layernorm.weight", "blk.0.post_attention_norm.weight"),
            ("language_model.model.layers.0.pre_feedforward_layernorm.weight", "blk.0.ffn_norm.weight"),
            ("language_model.model.layers.0.post_feedforward_layernorm.weight", "blk.0.post_ffw_norm.weight"),
        ],
    );
}

#[test]
fn what_is_not_used_may_be_of_any_type() {
    let folder = Folder::new(r#"{"model_type":"gemma3","tie_word_embeddings":true}"#);
    folder.put(
        "model.safetensors",
        file(&[
            ("model.vision_tower.patch.weight", "I64", &[1, 1, 1, 1, 1], vec![0; 8]),
            ("model.layers.0.self_attn.rotary_emb.inv_freq", "F64", &[1], vec![0; 8]),
            ("model.norm.weight", "F16", &[1], vec![0; 2]),
            ("lm_head.weight", "F16", &[1], vec![0; 2]),
        ]),
    );
    // A head alone of two that are tied is both.
    let names = ["output_norm.weight", "token_embd.weight"];
    assert_eq!(folder.open().tensors().map(|t| t.name.as_str()).collect::<Vec<_>>(), names);
}

#[test]
fn phi3() {
    let config = r#"{"model_type":"phi3","hidden_size":32,"num_attention_heads":4,"partial_rotary_factor":0.75,
        "max_position_embeddings":131072,"original_max_position_embeddings":4096,"sliding_window":262144,
        "rope_scaling":{"type":"longrope","long_factor":[1.5,2,3],"short_factor":[1,1,1.25]}}"#;
    assert_has(
        config,
        &[
            "phi3.rope.dimension_count=6",
            "phi3.rope.scaling.type=longrope",
            "phi3.rope.scaling.original_context_length=4096",
            // sqrt(1 + ln 32 / ln 4096), as the paper has it.
            "phi3.rope.scaling.attn_factor=1.1902380714238083",
        ],
    );
    let source = Folder::new(config).open();
    for (name, expected) in
        [("rope_factors_long.weight", [1.5f32, 2.0, 3.0]), ("rope_factors_short.weight", [1.0, 1.0, 1.25])]
    {
        let tensor = source.tensor(name).unwrap();
        let mut bytes = [0; 12];
        source.read(tensor, 0, &mut bytes).unwrap();
        assert_eq!(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect::<Vec<_>>(), expected);
    }
    assert_named(
        "phi3",
        &[
            ("model.layers.0.self_attn.qkv_proj.weight", "blk.0.attn_qkv.weight"),
            ("model.layers.0.mlp.gate_up_proj.weight", "blk.0.ffn_up.weight"),
            ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"),
        ],
    );
}

#[test]
fn gpt2_matrices_are_turned() {
    let config = r#"{"model_type":"gpt2","n_layer":12,"n_head":12,"n_embd":768,"n_positions":1024,"n_inner":null,
        "layer_norm_epsilon":1e-05,"activation_function":"gelu_new"}"#;
    assert_has(
        config,
        &[
            "gpt2.block_count=12",
            "gpt2.context_length=1024",
            "gpt2.embedding_length=768",
            "gpt2.feed_forward_length=3072",
            "gpt2.attention.head_count=12",
            "gpt2.attention.layer_norm_epsilon=0.00001",
        ],
    );
    let folder = Folder::new(config);
    // [3 in, 4 out]: value i * 4 + o, as two bytes.
    let stored: Vec<u8> = (0..12u16).flat_map(u16::to_le_bytes).collect();
    folder.put(
        "model.safetensors",
        file(&[
            ("transformer.wte.weight", "F16", &[3, 4], stored.clone()),
            ("wpe.weight", "F16", &[3, 4], stored.clone()),
            ("h.0.ln_1.weight", "F16", &[1], vec![0; 2]),
            ("h.0.ln_2.bias", "F16", &[1], vec![0; 2]),
            ("h.0.attn.bias", "BOOL", &[1, 1, 2, 2], vec![0; 4]),
            ("h.0.attn.c_attn.weight", "F16", &[3, 4], stored.clone()),
            ("h.0.attn.c_attn.bias", "F16", &[3, 4], stored.clone()),
            ("h.0.attn.c_proj.weight", "F16", &[3, 4], stored.clone()),
            ("h.0.mlp.c_fc.weight", "F16", &[3, 4], stored.clone()),
            ("h.0.mlp.c_proj.weight", "F16", &[3, 4], stored.clone()),
            ("ln_f.weight", "F16", &[1], vec![0; 2]),
        ]),
    );
    let source = folder.open();
    let turned: Vec<u8> = (0..4u16).flat_map(|o| (0..3).map(move |i| i * 4 + o)).flat_map(u16::to_le_bytes).collect();
    for name in ["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"] {
        let tensor = source.tensor(&format!("blk.0.{name}")).unwrap();
        assert_eq!(tensor.shape.dims(), [4, 3]);
        assert!(source.mapped(tensor).is_none());
        for from in (0..=24).step_by(2) {
            for end in (from..=24).step_by(2) {
                let mut bytes = vec![0xaa; end - from];
                source.read(tensor, from as u64, &mut bytes).unwrap();
                assert_eq!(bytes, turned[from..end], "{from}..{end}");
            }
        }
        assert!(source.read(tensor, 1, &mut [0; 2]).is_err() && source.read(tensor, 0, &mut [0; 3]).is_err());
    }
    for name in ["token_embd.weight", "position_embd.weight", "blk.0.attn_qkv.bias"] {
        let mut bytes = [0; 24];
        source.read(source.tensor(name).unwrap(), 0, &mut bytes).unwrap();
        assert_eq!(bytes, *stored, "{name}");
    }
    for name in ["blk.0.attn_norm.weight", "blk.0.ffn_norm.bias", "output_norm.weight"] {
        assert!(source.tensor(name).is_some(), "{name}");
    }
    assert_eq!(source.tensors().len(), 10);
}

#[test]
fn the_other_families() {
    assert_has(
        r#"{"model_type":"mistral","sliding_window":4096}"#,
        &["general.architecture=llama", "llama.attention.sliding_window=4096"],
    );
    assert_has(
        r#"{"model_type":"starcoder2","norm_epsilon":1e-05,"hidden_act":"gelu_pytorch_tanh"}"#,
        &["general.architecture=starcoder2", "starcoder2.attention.layer_norm_epsilon=0.00001"],
    );
    assert_has(
        r#"{"model_type":"granite","attention_multiplier":0.5,"embedding_multiplier":12,"residual_multiplier":0.25,"logits_scaling":8.0}"#,
        &[
            "granite.attention.scale=0.5",
            "granite.embedding_scale=12",
            "granite.residual_scale=0.25",
            "granite.logit_scale=8",
        ],
    );
    assert_named(
        "starcoder2",
        &[
            ("model.layers.0.mlp.c_fc.bias", "blk.0.ffn_up.bias"),
            ("model.layers.0.mlp.c_proj.weight", "blk.0.ffn_down.weight"),
            ("model.layers.0.post_attention_layernorm.bias", "blk.0.ffn_norm.bias"),
        ],
    );
    assert_named(
        "olmo2",
        &[
            ("model.layers.0.post_attention_layernorm.weight", "blk.0.post_attention_norm.weight"),
            ("model.layers.0.post_feedforward_layernorm.weight", "blk.0.post_ffw_norm.weight"),
        ],
    );
}

#[test]
fn bert() {
    assert_named(
        "bert",
        &[
            ("bert.embeddings.word_embeddings.weight", "token_embd.weight"),
            ("embeddings.LayerNorm.gamma", "token_embd_norm.weight"),
            ("embeddings.LayerNorm.beta", "token_embd_norm.bias"),
            ("encoder.layer.3.attention.self.query.weight", "blk.3.attn_q.weight"),
            ("encoder.layer.3.attention.output.LayerNorm.bias", "blk.3.attn_output_norm.bias"),
            ("encoder.layer.3.output.dense.bias", "blk.3.ffn_down.bias"),
        ],
    );
    let config = r#"{"model_type":"bert","type_vocab_size":2,"position_embedding_type":"absolute","is_decoder":false}"#;
    assert_lacks(config, "pooling_type");
    let folder = Folder::new(config);
    let pooler: safetensors::Tensor = ("bert.pooler.dense.weight", "F16", &[2, 1], vec![1; 4]);
    folder.put("model.safetensors", file(&[pooler]));
    // Only classifiers read it.
    assert_eq!(folder.open().tensors().len(), 0);
    folder.put("config.json", r#"{"model_type":"bert","architectures":["BertForSequenceClassification"]}"#);
    let source = folder.open();
    assert!(source.tensor("cls.weight").is_some());
    assert_eq!(source.metadata.u64("bert.pooling_type").unwrap(), Some(4));
    for (config, why) in [
        (r#"{"model_type":"bert","position_embedding_type":"relative_key"}"#, "position_embedding_type"),
        (r#"{"model_type":"bert","is_decoder":true}"#, "is_decoder"),
        (r#"{"model_type":"bert","hidden_act":"gelu_new"}"#, "gelu_new"),
    ] {
        let error = Source::open(Folder::new(config).0.path(), Access::Map).err().unwrap();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn modules_of_sentence_transformers_tell_the_pooling() {
    let open = |modules: &str, pooling: &str| {
        let folder = Folder::new(r#"{"model_type":"bert"}"#);
        folder.put("modules.json", modules);
        fs::create_dir(folder.0.path().join("1_Pooling")).unwrap();
        folder.put("1_Pooling/config.json", pooling);
        Source::open(folder.0.path(), Access::Map).map(|source| source.metadata.u64("bert.pooling_type").unwrap())
    };
    let modules = r#"[{"path":"","type":"sentence_transformers.models.Transformer"},
        {"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
        {"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]"#;
    let mean = r#"{"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":false}"#;
    assert_eq!(open(modules, mean).unwrap(), Some(1));
    assert_eq!(open(modules, r#"{"pooling_mode_cls_token":true}"#).unwrap(), Some(2));
    assert_eq!(open(modules, r#"{"pooling_mode":"lasttoken"}"#).unwrap(), Some(3));
    assert_eq!(open("[]", "").unwrap(), None);
    for (modules, pooling, why) in [
        (modules, r#"{"pooling_mode_max_tokens":true}"#, "a pooling other than"),
        (modules, r#"{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}"#, "a pooling other than"),
        (modules, "{}", "a pooling other than"),
        (&modules.replace("1_Pooling\"", "../1_Pooling\""), mean, "the module \"Pooling\" is not supported"),
        (&modules.replace("Normalize", "Dense"), mean, "2_Dense/config.json"),
        (&modules.replace("Normalize", "CNN"), mean, "the module \"CNN\" is not supported"),
    ] {
        let error = open(modules, pooling).err().unwrap_or_else(|| panic!("{why}: opened"));
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_tokenizer_is_handed_on() {
    let folder = Folder::new(r#"{"model_type":"llama","eos_token_id":3,"bos_token_id":-1,"pad_token_id":0}"#);
    folder.put("generation_config.json", r#"{"eos_token_id":[7,3],"temperature":0.6}"#);
    folder.put("tokenizer.json", "{\"model\":{}}");
    folder.put(
        "tokenizer_config.json",
        r#"{"add_bos_token":true,"add_eos_token":null,"bos_token":{"content":"<s>"},"eos_token":"</s>","unk_token":null,
            "chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]}"#,
    );
    let m = folder.open().metadata;
    assert_eq!(m.u64("tokenizer.ggml.eos_token_id").unwrap(), Some(7));
    assert_eq!(m.i64s("tokenizer.ggml.eos_token_ids").unwrap(), Some(&[7, 3][..]));
    assert_eq!(m.u64("tokenizer.ggml.bos_token_id").unwrap(), None);
    assert_eq!(m.u64("tokenizer.ggml.padding_token_id").unwrap(), Some(0));
    assert_eq!(m.bool("tokenizer.ggml.add_bos_token").unwrap(), Some(true));
    assert_eq!(m.bool("tokenizer.ggml.add_eos_token").unwrap(), None);
    assert_eq!(m.str("tokenizer.huggingface.json").unwrap(), Some("{\"model\":{}}"));
    assert_eq!(m.str("tokenizer.huggingface.bos_token").unwrap(), Some("<s>"));
    assert_eq!(m.str("tokenizer.huggingface.eos_token").unwrap(), Some("</s>"));
    assert_eq!(m.str("tokenizer.huggingface.unk_token").unwrap(), None);
    assert_eq!(m.str("tokenizer.chat_template").unwrap(), Some("d"));
    assert_eq!(m.bool("realizar.rope_halves").unwrap(), Some(true));

    folder.put("chat_template.jinja", b"from the file\xff");
    assert_eq!(folder.open().metadata.str("tokenizer.chat_template").unwrap(), Some("from the file\u{fffd}"));
}

/// The template of a folder is found wherever programs write it.
#[test]
fn templates_are_found_where_programs_write_them() {
    let templates = |files: &[(&str, &str)]| {
        let folder = Folder::new(r#"{"model_type":"llama"}"#);
        fs::create_dir(folder.0.path().join("additional_chat_templates")).unwrap();
        files.iter().for_each(|(name, text)| _ = folder.put(name, text));
        let metadata = folder.open().metadata;
        let text = |key: &str| metadata.str(key).unwrap().map(str::to_owned);
        [text("tokenizer.chat_template"), text("tokenizer.chat_template.tool_use")]
    };
    let some = |text: &str| Some(text.to_owned());
    let config = "tokenizer_config.json";
    assert_eq!(templates(&[]), [None, None]);
    assert_eq!(templates(&[("chat_template.json", r#"{"chat_template": "p"}"#)]), [some("p"), None]);
    let named = r#"{"chat_template": {"default": "d", "tool_use": "t"}, "model_max_length": NaN}"#;
    assert_eq!(templates(&[(config, named)]), [some("d"), some("t")]);
    let list = r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#;
    assert_eq!(templates(&[(config, list), ("chat_template.jinja", "j")]), [some("j"), some("t")]);
    let both = [("chat_template.jinja", "j"), ("additional_chat_templates/tool_use.jinja", "a")];
    assert_eq!(templates(&both), [some("j"), some("a")]);
}
