//! Hyperparameters shared by nearly all networks, with their valid ranges.

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::format::Source;

/// Bounds of a file's numbers, far above any real network.
const MAX_WIDTH: usize = 1 << 20;
const MAX_HEADS: usize = 4096;

/// Properties that an architecture's file in `arch` sets for shared code; the defaults fit most architectures.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Traits {
    /// True without attention.
    pub attentionless: bool,
    /// True if MTP layers may follow the trunk.
    pub predicts: bool,
    /// True for a draft head for another network; the file may declare only the vocabulary size.
    pub drafts: bool,
    /// True if the embedding is the output matrix of a file without one (tied embeddings).
    pub head_embeds: bool,
    /// True if latent attention scales RoPE as plain YaRN does, whatever the score multiplier.
    pub plain_yarn: bool,
    /// True if classifiers default to mean pooling, and use GELU instead of tanh.
    pub modern_classifier: bool,
    /// True if classifier scores are probabilities (softmax).
    pub softmax_classifier: bool,
    /// True if the rows of an image attend to each other in both directions.
    pub mutual_media: bool,
    /// True if media rows would need weights of their own, which are not loaded.
    pub text_only_weights: bool,
    /// True if texts to embed are padded to the context length.
    pub fills_texts: bool,
}

/// Number of query heads and of KV heads, and widths of a key and of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadShape {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    pub value_dim: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Hyper {
    pub architecture: String,
    pub traits: Traits,
    pub name: String,
    pub n_layers: usize,
    /// Number of MTP layers after the trunk.
    pub n_predicting: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the dense feed-forward block, the largest of all layers; 0 without one.
    pub ffn: usize,
    /// The heads of every layer; if layers differ, their maximum.
    pub heads: HeadShape,
    pub vocab: usize,
    /// As declared by the file; no memory is sized by it.
    pub context_length: u32,
}

impl Hyper {
    /// Reads and validates the numbers. Tensors are only used for their shapes.
    pub fn read(keys: &Keys, traits: Traits, source: &Source) -> Result<Hyper> {
        let ranged = |key: &str, value: usize, max: usize| match (1..=max).contains(&value) {
            true => Ok(value),
            false => Err(Error::unsupported(format!("{} is {value}; it must be from 1 to {max}", keys.name(key)))),
        };
        let present = |key: &str| match keys.metadata.get(&keys.name(key)) {
            Some(_) => Ok(()),
            None => Err(keys.metadata.missing(&keys.name(key))),
        };
        let required = |key: &str, max| {
            present(key)?;
            ranged(key, keys.size(key)?.unwrap_or(0), max)
        };
        let most = |list: &[usize]| list.iter().copied().max().unwrap_or(0);
        let n_blocks = required("block_count", 1024)?;
        let n_predicting = keys.size("nextn_predict_layers")?.unwrap_or(0);
        // A draft head that consists only of MTP layers has these as ordinary layers.
        let n_predicting = if traits.drafts && n_predicting == n_blocks { 0 } else { n_predicting };
        let Some(n_layers) = n_blocks.checked_sub(n_predicting).filter(|&n| n > 0) else {
            return Err(keys.unsupported("nextn_predict_layers"));
        };
        // A file may lack all tensors of an MTP layer, but not of an ordinary layer.
        let is_predicting = |i: usize| {
            let layer = format!("blk.{i}.");
            let is_absent = !source.tensors().any(|tensor| tensor.name.starts_with(&layer));
            is_absent || source.tensor(&format!("{layer}nextn.eh_proj.weight")).is_some()
        };
        if n_predicting > 0 && !(traits.predicts && (n_layers..n_blocks).all(is_predicting)) {
            return Err(keys.unsupported("nextn_predict_layers"));
        }
        let hidden = required("embedding_length", MAX_WIDTH)?;
        let is_attentive = !traits.attentionless;
        if is_attentive {
            present("attention.head_count")?;
        }
        let heads = keys.per_layer_sizes("attention.head_count", n_layers)?.unwrap_or_default();
        let kv_heads = keys.per_layer_sizes("attention.head_count_kv", n_layers)?.unwrap_or_else(|| heads.clone());
        let [n_heads, n_kv_heads, head_dim, value_dim] = if is_attentive {
            let n_heads = ranged("attention.head_count", most(&heads), MAX_HEADS)?;
            let n_kv_heads = ranged("attention.head_count_kv", most(&kv_heads), MAX_HEADS)?;
            let first = heads.iter().copied().find(|&n| n > 0).unwrap_or(1);
            let head_dim = keys.size("attention.key_length")?.unwrap_or(hidden / first);
            let head_dim = ranged("attention.key_length", head_dim, 4096)?;
            let value_dim = keys.size("attention.value_length")?.unwrap_or(head_dim);
            [n_heads, n_kv_heads, head_dim, ranged("attention.value_length", value_dim, 4096)?]
        } else {
            [0; 4]
        };
        let ffn = most(&keys.per_layer_sizes("feed_forward_length", n_layers)?.unwrap_or_default());
        let vocab = match source.tensor("token_embd.weight") {
            Some(info) => usize::try_from(info.shape.rows()).unwrap_or(usize::MAX),
            None => match keys.metadata.strs("tokenizer.ggml.tokens")? {
                Some(tokens) => tokens.len(),
                None if traits.drafts => keys.require_size("vocab_size")?,
                None => return Err(source.missing("token_embd.weight")),
            },
        };
        let divides = heads.iter().zip(&kv_heads).all(|(n, kv)| *kv == 0 || n.is_multiple_of(*kv));
        let rules = [
            (divides, "the number of heads is no multiple of that of key-value heads"),
            (head_dim.is_multiple_of(2), "the head width is odd"),
            (n_heads * head_dim.max(value_dim) <= MAX_WIDTH, "the heads together are wider than 2^20"),
            (ffn <= MAX_WIDTH, "the feed-forward width is above 2^20"),
            ((1..=4 << 20).contains(&vocab), "the vocabulary has no tokens or more than 2^22"),
        ];
        if let Some((_, what)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(Error::unsupported(*what));
        }
        Ok(Hyper {
            architecture: keys.architecture.to_owned(),
            traits,
            name: keys.metadata.str("general.name")?.unwrap_or_default().to_owned(),
            n_layers,
            n_predicting,
            hidden,
            ffn,
            heads: HeadShape { n_heads, n_kv_heads, head_dim, value_dim },
            vocab,
            context_length: keys.size("context_length")?.unwrap_or(2048) as u32,
        })
    }
}
