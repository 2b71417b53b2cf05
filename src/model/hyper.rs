//! The hyper-parameters that nearly all networks share, with the range of each.

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::format::Source;

/// Bounds of a file's numbers, far above those of any network.
const MAX_WIDTH: usize = 1 << 20;
const MAX_HEADS: usize = 4096;

/// Architectures without attention.
const ATTENTIONLESS: &[&str] = &["mamba", "mamba2"];

/// Query heads, key-value heads, and their width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadShape {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Hyper {
    pub architecture: String,
    pub name: String,
    pub n_layers: usize,
    /// Layers behind those, which predict further tokens and are not used.
    pub n_predicting: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the dense feed-forward block; 0 where there is none.
    pub ffn: usize,
    pub heads: HeadShape,
    pub vocab: usize,
    /// Declared by the file; nothing is sized by it.
    pub context_length: u32,
}

impl Hyper {
    /// Reads and checks the numbers. Tensors are consulted for shapes alone.
    pub fn read(keys: &Keys, source: &Source) -> Result<Hyper> {
        let ranged = |key: &str, value: usize, max: usize| match (1..=max).contains(&value) {
            true => Ok(value),
            false => Err(Error::unsupported(format!("{} is {value}, it must be from 1 to {max}", keys.name(key)))),
        };
        let required = |key: &str, max| match keys.metadata.get(&keys.name(key)) {
            Some(_) => ranged(key, keys.size(key)?.unwrap_or(0), max),
            None => Err(keys.metadata.missing(&keys.name(key))),
        };
        let n_blocks = required("block_count", 1024)?;
        let n_predicting = keys.size("nextn_predict_layers")?.unwrap_or(0);
        let Some(n_layers) = n_blocks.checked_sub(n_predicting).filter(|&n| n > 0) else {
            return Err(keys.unsupported("nextn_predict_layers"));
        };
        let hidden = required("embedding_length", MAX_WIDTH)?;
        let heads = if ATTENTIONLESS.contains(&keys.architecture) {
            keys.ignore("attention.head_count");
            HeadShape { n_heads: 0, n_kv_heads: 0, head_dim: 0 }
        } else {
            // Lists of different numbers count as read where the network asks for each layer's.
            let largest = |key: &str| keys.largest_size(key);
            let n_heads = match keys.metadata.get(&keys.name("attention.head_count")) {
                Some(_) => ranged("attention.head_count", largest("attention.head_count")?.unwrap_or(0), MAX_HEADS)?,
                None => return Err(keys.metadata.missing(&keys.name("attention.head_count"))),
            };
            let n_kv_heads = largest("attention.head_count_kv")?.unwrap_or(n_heads);
            let n_kv_heads = ranged("attention.head_count_kv", n_kv_heads, MAX_HEADS)?;
            let head_dim = keys.size("attention.key_length")?.unwrap_or(hidden / n_heads);
            HeadShape { n_heads, n_kv_heads, head_dim: ranged("attention.key_length", head_dim, 4096)? }
        };
        let HeadShape { n_heads, n_kv_heads, head_dim } = heads;
        let ffn = keys.largest_size("feed_forward_length")?.unwrap_or(0);
        let vocab = match source.tensor("token_embd.weight") {
            Some(info) => usize::try_from(info.shape.rows()).unwrap_or(usize::MAX),
            None => keys.metadata.strs("tokenizer.ggml.tokens")?.map_or(0, |t| t.len()),
        };
        let rules = [
            (n_heads == 0 || keys.size("attention.value_length")?.is_none_or(|v| v == head_dim), "keys and values differ in width"),
            (n_heads.is_multiple_of(n_kv_heads), "the number of heads is no multiple of that of key-value heads"),
            (head_dim.is_multiple_of(2), "the head width is odd"),
            (n_heads * head_dim <= MAX_WIDTH, "the heads together are wider than 2^20"),
            (ffn <= MAX_WIDTH, "the feed-forward width is above 2^20"),
            ((1..=4 << 20).contains(&vocab), "the vocabulary has no tokens or more than 2^22"),
        ];
        if let Some((_, what)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(Error::unsupported(*what));
        }
        Ok(Hyper {
            architecture: keys.architecture.to_owned(),
            name: keys.metadata.str("general.name")?.unwrap_or_default().to_owned(),
            n_layers,
            n_predicting,
            hidden,
            ffn,
            heads,
            vocab,
            context_length: keys.size("context_length")?.unwrap_or(2048) as u32,
        })
    }
}
