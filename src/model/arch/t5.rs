//! The encoder of T5: no positions but what each head adds to the score of a key by its distance, in buckets. The
//! decoder of a file that has one is passed over: the network gives embeddings alone.

use crate::error::{Error, Result};
use crate::graph::op::Activation::{Gelu, Relu};
use crate::graph::op::{Mask, Vector};
use crate::model::builder::{Attention, Builder};

/// The distance from which on all keys are in one bucket.
const REACH: usize = 128;

pub fn build(b: &mut Builder) -> Result<()> {
    let (heads, hidden) = (b.hyper.heads, b.hyper.hidden);
    for key in ["decoder_block_count", "decoder_start_token_id"] {
        b.keys.get(key);
    }
    ["dec.", "output."].into_iter().for_each(|prefix| b.tensors.ignore_all(prefix));
    let buckets = buckets(b)?;
    b.stack = "enc.";
    let x = b.embed(1.0)?;
    // Layers without a table have that of the first.
    let mut first = None;
    b.layers(|b, _| {
        let own = if first.is_none() || b.has("attn_rel_b.weight") { Some(table(b, &buckets)?) } else { None };
        first = first.or(own);
        let distances = own.or(first);
        let h = b.rms_norm(x, "attn_norm")?;
        let qkv = b.qkv(h, heads)?;
        let a = b.attend(qkv, Attention { scale: 1.0, mask: Mask::All, distances, ..Attention::new(heads) })?;
        let o = b.project(a, "attn_o", hidden)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ffn_norm")?;
        let o = if b.has("ffn_gate.weight") { b.gated_ffn(h, Gelu)? } else { b.plain_ffn(h, Relu)? };
        b.add(x, o);
        Ok(())
    })?;
    let h = b.rms_norm(x, "enc.output_norm")?;
    b.end_with_states(h);
    Ok(())
}

/// The bucket of each distance from `-REACH` to `REACH`: half of them for keys behind the query, the first of each half
/// for one distance, the others for ever more. In the precision of the models' own programs, which decides the bounds.
fn buckets(b: &Builder) -> Result<(usize, Vec<usize>)> {
    let key = "attention.relative_buckets_count";
    let n = b.keys.require_size(key)?;
    if !(4..=1024).contains(&n) || !n.is_multiple_of(4) {
        return Err(b.keys.unsupported(key));
    }
    let (half, exact) = (n / 2, n / 4);
    if exact >= REACH {
        return Err(b.keys.unsupported(key));
    }
    let bucket = |distance: usize| {
        let far = || {
            let share = libm::logf(distance as f32 / exact as f32) / libm::log(REACH as f64 / exact as f64) as f32;
            exact + (share * (half - exact) as f32) as usize
        };
        if distance < exact { distance } else { far().min(half - 1) }
    };
    let behind = (0..=REACH).rev().map(bucket);
    Ok((n, behind.chain((1..=REACH).map(|distance| half + bucket(distance))).collect()))
}

/// Returns the terms that each head adds to the score of a key, by distance.
fn table(b: &mut Builder, (n, buckets): &(usize, Vec<usize>)) -> Result<Vector> {
    let heads = b.hyper.heads.n_heads;
    let by_bucket = b.tensors.matrix_values(&b.name("attn_rel_b.weight"), *n, heads)?;
    let rows = (0..heads).flat_map(|head| buckets.iter().map(move |bucket| bucket * heads + head));
    let values = rows.map(|i| by_bucket.get(i).copied().ok_or_else(|| Error::unsupported("a bucket of T5")));
    let values = values.collect::<Result<Vec<f32>>>()?;
    Ok(b.vector(values))
}
