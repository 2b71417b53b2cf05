//! T5: an encoder, and a decoder if the file has one.

use super::common::PLAIN;
use crate::error::Result;
use crate::format::hf::translator::KeyType::Int;
use crate::format::hf::translator::{Family, Key, Translator};

const KEYS: &[Key] = &[
    ("decoder_block_count", Int, &["num_decoder_layers"]),
    ("decoder_start_token_id", Int, &["decoder_start_token_id"]),
    ("attention.key_length", Int, &["d_kv"]),
    ("attention.value_length", Int, &["d_kv"]),
    ("attention.relative_buckets_count", Int, &["relative_attention_num_buckets"]),
];

pub const ALL: &[Family] = &[Family {
    model_types: &["t5", "mt5", "umt5"],
    arch: "t5",
    activations: &["gelu_new", "relu"],
    epsilon: 1e-6,
    keys: &[KEYS],
    defaults: "max_position_embeddings=512 relative_attention_num_buckets=32",
    effectless: "is_gated_act dense_act_fn output_past scalable_attention",
    extras,
    windows: |_| Ok(()),
    rope: |_| Ok(()),
    ..PLAIN
}];

fn extras(t: &mut Translator) -> Result<()> {
    t.replace("feed_forward_length", t.int(&["d_ff"])?);
    // It means that there is a decoder in addition to the encoder.
    t.config.skip(&["is_encoder_decoder"]);
    // Models with tied embeddings scale their logits, except mT5. transformers 5 saves that separately.
    let is_tied = t.config.bool(&["tie_word_embeddings"])? != Some(false);
    let scales = t.config.bool(&["scale_decoder_outputs"])?.unwrap_or(is_tied);
    let scales = scales && t.config.text(&["model_type"])? != Some("mt5");
    t.set("logit_scale", t.int(&["d_model"])?.map(|d| if scales { 1.0 / (d as f64).sqrt() } else { 1.0 }));
    // The tensors determine which of these it is.
    t.expect_text("feed_forward_proj", &["gated-gelu", "relu"])?;
    match t.int(&["relative_attention_max_distance"])? {
        None | Some(128) => Ok(()),
        Some(declared) => {
            Err(t.config.unsupported(&format!("\"relative_attention_max_distance\" with the value {declared}")))
        }
    }
}
