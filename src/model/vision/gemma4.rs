//! Gemma 4: images at their aspect ratio with nearly the maximum number of rows. Position embeddings are sums of column
//! and row vectors; each half of a head has RoPE by one of both. Layers have norms before and after, products may be
//! clamped. Rows are means of blocks. The 12B has no layers: each block is a patch.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use crate::error::{Error, Result};
use crate::graph::op::Activation::Gelu;
use crate::graph::op::{Index, Mask, NormKind, Op, RopeChoice, TensorId};
use crate::graph::weights::RopePairs;
use crate::media::{Filter, Layout, Sizing};
use crate::model::builder::{Attention, Builder};

/// Default number of rows of an image, and the size of the published position tables.
const ROWS: usize = 280;
const MAX_ROWS: usize = 1120;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let merge = e.merge("projector.scale_factor", Some(3))?;
    let sizing = sizing(&e, e.patch() * merge)?;
    // GGUF files declare none; all models have this one.
    e.activation(Gelu)?;
    // The network's colors range from -1 to 1.
    e.mean = std::array::from_fn(|i| e.mean[i] + 0.5 * e.std[i]);
    e.std = e.std.map(|std| 0.5 * std);
    e.colors_last = e.b.is_folder();
    let ropes = ropes(&mut e)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Axes)?;
    layers(&mut e, x, ropes)?;
    let x = e.project_blocks(&[x], merge)?[0];
    let x = e.mean(x, merge * merge);
    e.b.scale(x, (e.width() as f32).sqrt());
    standardize(&mut e, x)?;
    let x = e.b.bare_norm(NormKind::Rms, x);
    let rows = e.project_rows(x, "mm.input_projection")?;
    e.finish(rows, sizing, pieces)
}

/// The 12B.
pub fn build_unified(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let side = e.merge("projector.scale_factor", Some(3))?;
    e.enlarge_patches(side)?;
    let sizing = sizing(&e, e.patch())?;
    e.activation(Gelu)?;
    e.colors_last = e.b.is_folder();
    let x = e.patches();
    let x = norm_of_patches(&mut e, x)?;
    let x = e.embed_patches(x)?;
    let x = e.norm_at(NormKind::Layer, x, "v.patch_norm.2", 1e-5)?;
    e.add_places(x, Stretch::Axes)?;
    let x = e.project_blocks(&[x], 1)?[0];
    let x = e.norm_at(NormKind::Layer, x, "v.patch_norm.3", 1e-5)?;
    let x = e.b.bare_norm(NormKind::Rms, x);
    let rows = e.project_rows(x, "mm.input_projection")?;
    e.finish(rows, sizing, pieces)
}

fn sizing(e: &EncoderBuilder, grain: usize) -> Result<Sizing> {
    let rows = e.declared("max_rows", MAX_ROWS)?.unwrap_or(ROWS);
    Ok(Sizing::Rows { grain, rows, most: MAX_ROWS, filter: e.filter(Filter::Bicubic)? })
}

/// RoPE of the first half of a head, by column, and of the second, by row.
fn ropes(e: &mut EncoderBuilder) -> Result<[RopeChoice; 2]> {
    let base = e.b.keys.float("rope.freq_base")?.unwrap_or(100.0);
    let half = e.rotary_dim()? / 2;
    let inv_freq: Vec<f64> = (0..half / 2).map(|i| libm::pow(base.into(), -((2 * i) as f64) / half as f64)).collect();
    Ok([e.rope(RopePairs::Halves, Vec::new(), inv_freq.clone()), e.rope(RopePairs::Halves, inv_freq, Vec::new())])
}

fn layers(e: &mut EncoderBuilder, x: TensorId, ropes: [RopeChoice; 2]) -> Result<()> {
    let (heads, width, ffn) = (e.b.hyper.heads, e.width(), e.b.hyper.ffn);
    let attention = Attention { scale: 1.0, mask: Mask::All, ..Attention::new(heads) };
    let head_dim = heads.head_dim;
    e.b.layers(|b, _| {
        let h = b.rms_norm(x, "ln1")?;
        let [q, k, v] =
            [clipped(b, h, "attn_q", width)?, clipped(b, h, "attn_k", width)?, clipped(b, h, "attn_v", width)?];
        b.head_norms(q, k)?;
        b.bare_norm_groups(NormKind::Rms, v, head_dim);
        for (rope, first) in ropes.into_iter().zip([0, head_dim / 2]) {
            b.program.push(Op::Rope { rope, head_dim, first, q, k: Some(k) });
        }
        let a = b.attend([q, k, v], attention)?;
        let o = clipped(b, a, "attn_out", width)?;
        b.rms_norm_groups(o, "attn_post_norm", width)?;
        b.add(x, o);
        let h = b.rms_norm(x, "ln2")?;
        let (gate, up) = (clipped(b, h, "ffn_gate", ffn)?, clipped(b, h, "ffn_up", ffn)?);
        let inner = b.gate(gate, up, Gelu);
        let o = clipped(b, inner, "ffn_down", width)?;
        b.rms_norm_groups(o, "ffn_post_norm", width)?;
        b.add(x, o);
        b.scale_if_present(x, "out_scale.weight")
    })
}

/// A product with clamped input and output, if the file has limits.
fn clipped(b: &mut Builder, x: TensorId, part: &str, rows: usize) -> Result<TensorId> {
    let [before, after] = [limits(b, part, "input")?, limits(b, part, "output")?];
    let x = match before {
        Some([low, high]) => {
            let copy = b.program.tensor(b.program.width(x));
            b.program.push(Op::Slice { x, first: 0, out: copy });
            b.program.push(Op::Clamp { x: copy, low, high });
            copy
        }
        None => x,
    };
    let out = b.project(x, part, rows)?;
    if let Some([low, high]) = after {
        b.program.push(Op::Clamp { x: out, low, high });
    }
    Ok(out)
}

fn limits(b: &mut Builder, part: &str, of: &str) -> Result<Option<[f32; 2]>> {
    let mut limit = |end: &str, none: f32| -> Result<f32> {
        let name = b.name(&format!("{part}.{of}_{end}"));
        Ok(b.tensors.vector_if_present(&name, 1)?.map_or(none, |value| value[0]))
    };
    let (low, high) = (limit("min", f32::NEG_INFINITY)?, limit("max", f32::INFINITY)?);
    if low > high {
        return Err(Error::unsupported(format!(
            "the limits of {} are {low} and {high}; the first must be the lower one",
            b.name(part)
        )));
    }
    Ok((low.is_finite() || high.is_finite()).then_some([low, high]))
}

/// `x = (x - bias) * scale`, if the file has them.
fn standardize(e: &mut EncoderBuilder, x: TensorId) -> Result<()> {
    let (width, tensors) = (e.width(), &mut e.b.tensors);
    let Some(bias) = tensors.vector_if_present("v.std_bias", width)? else { return Ok(()) };
    let scale = tensors.vector("v.std_scale", width)?;
    let table = tensors.made("v.std_bias", width, &bias)?;
    let (table, by, out) = (e.b.add_matrix(table), e.b.vector(scale), e.b.program.tensor(width));
    e.b.program.push(Op::Embed { table, rows: 1, index: Index::Zero, scale: -1.0, out });
    e.b.add(x, out);
    e.b.program.push(Op::ScaleColumns { x, by });
    Ok(())
}

/// The norm of a patch's values, with weights in the order of the kernel's columns.
fn norm_of_patches(e: &mut EncoderBuilder, x: TensorId) -> Result<TensorId> {
    let (part, numbers) = ("v.patch_norm.1", e.b.program.width(x));
    let mut norm = e.b.norm(NormKind::Layer, part, 1, numbers)?;
    norm.eps = 1e-5;
    for vector in [norm.weight, norm.bias].into_iter().flatten() {
        let mut values = std::mem::take(&mut e.b.vectors[vector.0 as usize]);
        e.order_colors(&mut values)?;
        e.b.vectors[vector.0 as usize] = values;
    }
    let out = e.b.program.tensor(numbers);
    e.b.program.push(Op::Norm { norm, x, out });
    Ok(out)
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![text("<|image>"), Piece::Rows(columns * lines), text("<image|>")]
}
