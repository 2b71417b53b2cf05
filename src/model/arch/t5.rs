//! T5: relative position biases in buckets, per head. The encoder computes embeddings; a decoder, if any, has
//! cross-attention to them in every layer.

use crate::error::{Error, Result};
use crate::graph::op::Activation::{Gelu, Relu};
use crate::graph::op::{Mask, TensorId, Vector};
use crate::model::builder::{Attention, Builder};

/// The distance from which on all keys share a bucket.
const REACH: usize = 128;

pub fn build(b: &mut Builder) -> Result<()> {
    let is_encoder = !b.has("dec.output_norm.weight");
    let n_layers = b.keys.size("decoder_block_count")?.unwrap_or(b.hyper.n_layers);
    let start = b.keys.size("decoder_start_token_id")?.unwrap_or(0);
    // Without a decoder the output matrix is unused.
    if is_encoder {
        ["dec.", "output."].into_iter().for_each(|prefix| b.tensors.ignore_all(prefix));
    }
    // T5 1.0, with tied embeddings, scales its logits.
    let tied = if b.has("output.weight") { 1.0 } else { 1.0 / (b.hyper.hidden as f32).sqrt() };
    let scale = b.keys.float("logit_scale")?.unwrap_or(tied);

    b.stack = "enc.";
    let x = b.embed(1.0)?;
    stack(b, x, Mask::All, |_, _| Ok(()))?;
    let h = b.rms_norm(x, "enc.output_norm")?;
    if is_encoder {
        b.end_with_states(h);
        return Ok(());
    }
    b.end_encoder(h);

    if n_layers > 1024 {
        return Err(b.keys.unsupported("decoder_block_count"));
    }
    if start >= b.hyper.vocab {
        return Err(b.keys.unsupported("decoder_start_token_id"));
    }
    (b.stack, b.hyper.n_layers) = ("dec.", n_layers);
    let (heads, hidden) = (b.hyper.heads, b.hyper.hidden);
    let cross = Attention { scale: 1.0, mask: Mask::Source, ..Attention::new(heads) };
    let source = b.source(n_layers, |b, x| {
        let k = b.project(x, "cross_attn_k", heads.n_kv_heads * heads.head_dim)?;
        let v = b.project(x, "cross_attn_v", heads.n_kv_heads * heads.value_dim)?;
        Ok(b.store(k, v, cross))
    })?;
    let x = b.embed(1.0)?;
    stack(b, x, Mask::AfterSpan, |b, i| {
        let h = b.rms_norm(x, "cross_attn_norm")?;
        let q = b.project(h, "cross_attn_q", heads.n_heads * heads.head_dim)?;
        // An unused table of some files.
        b.ignore("cross_attn_rel_b.weight");
        let a = b.attend_to(q, source[i], cross)?;
        let o = b.project(a, "cross_attn_o", hidden)?;
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "dec.output_norm")?;
    b.head(h, scale, 0.0)
}

/// Returns the layers of the encoder or the decoder; `between` adds a block between attention and feed-forward.
fn stack(
    b: &mut Builder,
    x: TensorId,
    mask: Mask,
    mut between: impl FnMut(&mut Builder, usize) -> Result<()>,
) -> Result<()> {
    let (heads, hidden) = (b.hyper.heads, b.hyper.hidden);
    let (n_buckets, by_distance) = buckets(b, mask == Mask::All)?;
    // Layers without a table use the first layer's.
    let mut first = None;
    b.layers(|b, i| {
        let own =
            if first.is_none() || b.has("attn_rel_b.weight") { Some(table(b, n_buckets, &by_distance)?) } else { None };
        first = first.or(own);
        let distances = own.or(first);
        let h = b.rms_norm(x, "attn_norm")?;
        let qkv = b.qkv(h, heads)?;
        let a = b.attend(qkv, Attention { scale: 1.0, mask, distances, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_o", hidden)?;
        b.add(x, o);
        between(b, i)?;
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = if b.has("ffn_gate.weight") { b.gated_ffn(h, Gelu)? } else { b.plain_ffn(h, Relu)? };
        b.add(x, o);
        Ok(())
    })
}

/// Returns the bucket of each distance from `-REACH` to `REACH`: first the buckets of earlier keys, half of them for
/// single distances, the others logarithmic; then, in an encoder, as many for later keys. The precision follows the
/// reference implementation, because it decides the boundaries.
fn buckets(b: &Builder, sees_ahead: bool) -> Result<(usize, Vec<usize>)> {
    let key = "attention.relative_buckets_count";
    let n = b.keys.require_size(key)?;
    if !(4..=1024).contains(&n) || !n.is_multiple_of(4) {
        return Err(b.keys.unsupported(key));
    }
    let later = if sees_ahead { n / 2 } else { n };
    let exact = later / 2;
    if exact >= REACH {
        return Err(b.keys.unsupported(key));
    }
    let bucket = |distance: usize| {
        let far = || {
            let share = libm::logf(distance as f32 / exact as f32) / libm::log(REACH as f64 / exact as f64) as f32;
            exact + (share * (later - exact) as f32) as usize
        };
        if distance < exact { distance } else { far().min(later - 1) }
    };
    // A decoder sees no later key, so any bucket will do.
    let ahead = |distance| if sees_ahead { later + bucket(distance) } else { 0 };
    Ok((n, (0..=REACH).rev().map(bucket).chain((1..=REACH).map(ahead)).collect()))
}

/// Returns the bias terms of an encoder that also has positions.
pub(super) fn distances(b: &mut Builder) -> Result<Vector> {
    let (n_buckets, by_distance) = buckets(b, true)?;
    table(b, n_buckets, &by_distance)
}

/// Returns the bias terms by distance, per head.
fn table(b: &mut Builder, n_buckets: usize, by_distance: &[usize]) -> Result<Vector> {
    let heads = b.hyper.heads.n_heads;
    let by_bucket = b.tensors.matrix_values(&b.name("attn_rel_b.weight"), n_buckets, heads)?;
    let rows = (0..heads).flat_map(|head| by_distance.iter().map(move |bucket| bucket * heads + head));
    let values = rows.map(|i| {
        by_bucket.get(i).copied().ok_or_else(|| Error::unsupported("a position bucket of T5 is not supported"))
    });
    let values = values.collect::<Result<Vec<f32>>>()?;
    Ok(b.vector(values))
}
