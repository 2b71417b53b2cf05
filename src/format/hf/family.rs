//! The model families that the library runs, as their configurations and checkpoints differ. Knows no keys of GGUF.

/// The models of an architecture, as their checkpoints differ from those of others.
pub(super) struct Family {
    /// `model_type` of a configuration.
    model_types: &'static [&'static str],
    /// `general.architecture` of a GGUF file.
    pub arch: &'static str,
    /// The activations that the architecture implies, by each of their names.
    pub activations: &'static [&'static str],
    /// Values of keys that official configurations leave out; of booleans 0 or 1.
    pub defaults: &'static [(&'static str, f64)],
    /// `post_attention_layernorm` follows the attention rather than preceding the feed-forward block.
    pub post_norms: bool,
    /// Norm weights are stored less 1.
    pub norms_less_one: bool,
    /// Matrices of layers are stored `[in, out]`.
    pub transposed: bool,
}

const PLAIN: Family = Family {
    model_types: &[],
    arch: "",
    activations: &["silu"],
    defaults: &[("rope_theta", 1e4)],
    post_norms: false,
    norms_less_one: false,
    transposed: false,
};

const GEMMA: Family = Family { activations: &["gelu_pytorch_tanh"], norms_less_one: true, ..PLAIN };

const QWEN: Family = Family {
    defaults: &[("rope_theta", 1e4), ("use_sliding_window", 0.0), ("max_window_layers", 28.0), ("norm_topk_prob", 0.0)],
    ..PLAIN
};

const FAMILIES: &[Family] = &[
    Family { model_types: &["llama", "mistral", "mixtral"], arch: "llama", ..PLAIN },
    Family { model_types: &["qwen2"], arch: "qwen2", ..QWEN },
    Family { model_types: &["qwen3"], arch: "qwen3", ..QWEN },
    Family { model_types: &["qwen3_moe"], arch: "qwen3moe", ..QWEN },
    Family { model_types: &["phi3"], arch: "phi3", ..PLAIN },
    Family { model_types: &["granite"], arch: "granite", ..PLAIN },
    Family { model_types: &["olmo2"], arch: "olmo2", post_norms: true, ..PLAIN },
    // The first configurations say "gelu" and mean its approximation.
    Family { model_types: &["gemma"], arch: "gemma", activations: &["gelu", "gelu_pytorch_tanh"], ..GEMMA },
    Family { model_types: &["gemma2"], arch: "gemma2", post_norms: true, ..GEMMA },
    Family {
        model_types: &["gemma3_text", "gemma3"],
        arch: "gemma3",
        defaults: &[
            ("max_position_embeddings", 131_072.0),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("vocab_size", 262_208.0),
            ("rms_norm_eps", 1e-6),
            ("query_pre_attn_scalar", 256.0),
            ("sliding_window", 4096.0),
            ("sliding_window_pattern", 6.0),
            ("rope_theta", 1e6),
            ("rope_local_base_freq", 1e4),
        ],
        post_norms: true,
        ..GEMMA
    },
    Family {
        model_types: &["gpt2"],
        arch: "gpt2",
        activations: &["gelu_new"],
        defaults: &[],
        transposed: true,
        ..PLAIN
    },
    Family { model_types: &["starcoder2"], arch: "starcoder2", activations: &["gelu_pytorch_tanh"], ..PLAIN },
];

/// The family of a `model_type`.
pub(super) fn family(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.model_types.contains(&model_type))
}
