//! The architectures: one file each, one line in `ARCHITECTURES`. A file turns metadata into a `Config`.

mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod granite;
mod llama;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod starcoder2;

use super::config::{Config, LayerConfig, MoeConfig, Positions, QkNorm, RopeConfig, RopeScaling};
use crate::backend::{Activation, NormKind, RopePairs, Routing};
use crate::error::{Error, Result};
use crate::format::{Metadata, Source, Value};

type Configure = fn(&Keys, Config) -> Result<Config>;

/// `general.architecture` and what its file makes of the common configuration.
static ARCHITECTURES: &[(&str, Configure)] = &[
    ("llama", llama::configure),
    ("qwen2", qwen2::configure),
    ("qwen3", qwen3::configure),
    ("qwen3moe", qwen3moe::configure),
    ("gemma", gemma::configure),
    ("gemma2", gemma2::configure),
    ("gemma3", gemma3::configure),
    ("phi3", phi3::configure),
    ("gpt2", gpt2::configure),
    ("starcoder2", starcoder2::configure),
    ("olmo2", olmo2::configure),
    ("granite", granite::configure),
];

/// Longest list of layers that metadata may ask for.
const MAX_LAYERS: u32 = 1024;

/// Reads the hyper-parameters of a file. Tensors are consulted for shapes alone.
pub fn config(source: &Source) -> Result<Config> {
    let architecture = source.metadata.require_str("general.architecture")?;
    let Some((_, configure)) = ARCHITECTURES.iter().find(|(name, _)| *name == architecture) else {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
        return Err(Error::unsupported(format!(
            "the architecture {architecture:?} is not supported; known are {}",
            known.join(", ")
        )));
    };
    let keys = Keys { metadata: &source.metadata, architecture };
    let config = configure(&keys, common(source, &keys)?)?;
    config.check()?;
    Ok(config)
}

/// Typed look-up of `ARCHITECTURE.key`.
struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn size(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.metadata.u32(&self.name(key))?.map(|v| v as usize))
    }

    fn require_size(&self, key: &str) -> Result<usize> {
        Ok(self.metadata.require_u32(&self.name(key))? as usize)
    }

    fn float(&self, key: &str) -> Result<Option<f32>> {
        self.metadata.f32(&self.name(key))
    }

    fn str(&self, key: &str) -> Result<Option<&str>> {
        self.metadata.str(&self.name(key))
    }

    /// The order of rotary pairs of an architecture whose GGUF files keep the rows of q and k in `order`.
    fn gguf_pairs(&self, order: RopePairs) -> Result<RopePairs> {
        let halves = self.metadata.bool("realizar.rope_halves")?.unwrap_or(false);
        Ok(if halves { RopePairs::Halves } else { order })
    }

    /// GGUF files keep the norm weights of Gemma as they multiply, checkpoints keep them less 1.
    fn norm_offset(&self) -> Result<f32> {
        Ok(if self.metadata.bool("realizar.norm_less_one")?.unwrap_or(false) { 1.0 } else { 0.0 })
    }

    /// The largest Gemma of a generation, told by its layers, scales by the width of the model a head.
    fn gemma_attention_scale(&self, config: &Config, layers_of_largest: usize) -> Result<f32> {
        let width = match config.layers.len() == layers_of_largest {
            true => config.hidden / config.n_heads,
            false => config.head_dim,
        };
        Ok(self.float("attention.scale")?.unwrap_or(1.0 / (width as f32).sqrt()))
    }

    /// Layers that see `window` tokens only: those that the file lists one by one, else all but the last of each
    /// period, the file's or the architecture's; of a period of 0, all.
    fn window(&self, config: &mut Config, window: u32, period: usize) -> Result<()> {
        let key = self.name("attention.sliding_window_pattern");
        if let Some(Value::Bools(list)) = self.metadata.get(&key) {
            if list.len() != config.layers.len() {
                return Err(self.metadata.error(format!("the key {key:?} lists {} layers", list.len())));
            }
            let windowed = config.layers.iter_mut().zip(list).filter(|(_, is_windowed)| **is_windowed);
            windowed.for_each(|(layer, _)| layer.window = window);
            return Ok(());
        }
        let period = self.metadata.u32(&key)?.map_or(period, |p| p as usize);
        for (i, layer) in config.layers.iter_mut().enumerate() {
            if period == 0 || !(i + 1).is_multiple_of(period) {
                layer.window = window;
            }
        }
        Ok(())
    }

    /// One window for all layers, where the file names one and no pattern.
    fn window_if_told(&self, config: &mut Config) -> Result<()> {
        match self.size("attention.sliding_window")? {
            Some(window) => self.window(config, window as u32, 0),
            None => Ok(()),
        }
    }

    /// Experts in every layer, where the file names any.
    fn experts(&self, config: &mut Config, softmax_first: bool) -> Result<()> {
        let n_experts = self.size("expert_count")?.unwrap_or(0);
        if n_experts == 0 {
            return Ok(());
        }
        let routing = Routing {
            n_used: self.require_size("expert_used_count")?,
            softmax_first,
            renormalise: self.metadata.bool(&self.name("expert_weights_norm"))?.unwrap_or(true),
        };
        let ffn = self.size("expert_feed_forward_length")?.unwrap_or(config.ffn);
        config.moe = Some(MoeConfig { n_experts, ffn, routing });
        config.ffn = 0;
        config.layers.iter_mut().for_each(|l| l.moe = true);
        Ok(())
    }

    /// Linear, Llama 3 and YaRN scaling as the common keys tell them.
    fn rope_scaling(&self) -> Result<RopeScaling> {
        let kind = self.str("rope.scaling.type")?;
        // Files from before the type key tell a linear factor alone.
        let factor = match self.float("rope.scaling.factor")? {
            Some(f) => f,
            None => self.float("rope.scale_linear")?.unwrap_or(1.0),
        };
        let original_context = self.size("rope.scaling.original_context_length")?.unwrap_or(0) as u32;
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Error::unsupported(format!("{} is {factor}", self.name("rope.scaling.factor"))));
        }
        let float = |key: &str, default| Ok::<f32, Error>(self.float(key)?.unwrap_or(default));
        match kind {
            Some("none" | "default") => Ok(RopeScaling::None),
            None | Some("linear") if factor == 1.0 => Ok(RopeScaling::None),
            None | Some("linear") => Ok(RopeScaling::Linear(factor)),
            Some("llama3") => Ok(RopeScaling::Llama3 {
                factor,
                low: float("rope.scaling.low_freq_factor", 1.0)?,
                high: float("rope.scaling.high_freq_factor", 4.0)?,
                original_context: if original_context == 0 { 8192 } else { original_context },
            }),
            Some("yarn") => {
                let trained = self.size("context_length")?.unwrap_or(0) as u32;
                Ok(RopeScaling::Yarn {
                    factor,
                    attention: float("rope.scaling.attn_factor", 1.0)?,
                    beta_fast: float("rope.scaling.yarn_beta_fast", 32.0)?,
                    beta_slow: float("rope.scaling.yarn_beta_slow", 1.0)?,
                    original_context: if original_context == 0 { trained } else { original_context },
                })
            }
            // Phi 3 alone, which tells it by its tensors.
            Some("longrope") => Ok(RopeScaling::None),
            Some(other) => Err(Error::unsupported(format!("the rotary scaling {other:?} is not supported"))),
        }
    }
}

/// What nearly all decoder-only transformers share; an architecture changes what differs.
fn common(source: &Source, keys: &Keys) -> Result<Config> {
    let n_layers = keys.metadata.require_u32(&keys.name("block_count"))?;
    if n_layers == 0 || n_layers > MAX_LAYERS {
        return Err(Error::unsupported(format!("{} is {n_layers}, at most {MAX_LAYERS}", keys.name("block_count"))));
    }
    let hidden = keys.require_size("embedding_length")?;
    let n_heads = keys.require_size("attention.head_count")?;
    if n_heads == 0 {
        return Err(Error::unsupported(format!("{} is 0", keys.name("attention.head_count"))));
    }
    let head_dim = keys.size("attention.key_length")?.unwrap_or(hidden / n_heads);
    if keys.size("attention.value_length")?.is_some_and(|v| v != head_dim) {
        return Err(Error::unsupported("heads whose keys and values differ in width are not supported"));
    }
    // Half-split rotary order everywhere but in GGUF files of a few architectures, which say so themselves.
    let rope = RopeConfig {
        base: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
        n_dims: keys.size("rope.dimension_count")?.unwrap_or(head_dim),
        pairs: RopePairs::Halves,
        scaling: keys.rope_scaling()?,
    };
    let vocab = match source.tensor("token_embd.weight") {
        Some(info) => usize::try_from(info.shape.rows()).unwrap_or(usize::MAX),
        None => keys.metadata.strs("tokenizer.ggml.tokens")?.map_or(0, |t| t.len()),
    };
    Ok(Config {
        architecture: keys.architecture.to_owned(),
        name: keys.metadata.str("general.name")?.unwrap_or_default().to_owned(),
        hidden,
        ffn: keys.size("feed_forward_length")?.unwrap_or(0),
        n_heads,
        n_kv_heads: keys.size("attention.head_count_kv")?.unwrap_or(n_heads),
        head_dim,
        vocab,
        context_length: keys.size("context_length")?.unwrap_or(2048) as u32,
        norm: NormKind::Rms,
        norm_eps: keys.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
        norm_offset: 0.0,
        pre_norm: true,
        post_norm: false,
        qk_norm: QkNorm::None,
        activation: Activation::Silu,
        gated: true,
        fused_qkv: false,
        fused_gate_up: false,
        positions: Positions::Rope,
        embedding_scale: 1.0,
        residual_scale: 1.0,
        attention_scale: 1.0 / (head_dim.max(1) as f32).sqrt(),
        attention_softcap: 0.0,
        logit_scale: 1.0,
        logit_softcap: 0.0,
        ropes: vec![rope],
        long_rope_above: None,
        layers: vec![LayerConfig { rope: 0, window: 0, moe: false }; n_layers as usize],
        moe: None,
    })
}
