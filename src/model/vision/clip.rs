//! CLIP and SigLIP as embedding models: one vector per image, for comparison with text embeddings. CLIP takes the class
//! token, SigLIP pools all patches by attention of a learned query. SigLIP 2 may process images at their aspect ratio,
//! with interpolated position embeddings.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch};
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, QuickGelu};
use crate::graph::op::{Mask, Op};
use crate::media::{Filter, Layout, Sizing};
use crate::model::builder::Attention;

/// Maximum number of patches in a file, far above any real model.
const MAX_PATCHES: usize = 1 << 16;

pub fn clip(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let side = e.square(1)?;
    let sizing = Sizing::ShortestEdge { side, filter: e.filter(Filter::Bicubic)? };
    let activation = e.activation(QuickGelu)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Never)?;
    let x = e.b.layer_norm(x, "v.pre_ln")?;
    e.layers(x, activation, None, |_| false, |_, _| Ok(()))?;
    let x = e.project_blocks(&[x], 1)?[0];
    let x = e.b.layer_norm(x, "v.post_ln")?;
    let width = e.inner_width("mm.fc")?;
    let vector = e.b.project(x, "mm.fc", width)?;
    e.is_pooled = true;
    e.finish(vector, sizing, pieces)
}

pub fn siglip(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let filter = e.filter(Filter::Bicubic)?;
    let (sizing, stretch) = match e.declared("max_patches", MAX_PATCHES)? {
        Some(most) => (Sizing::Filled { patch: e.patch(), most, filter }, Stretch::Antialiased),
        None => (Sizing::Square { side: e.square(1)?, filter }, Stretch::Never),
    };
    e.colors_last = stretch == Stretch::Antialiased;
    let activation = e.activation(Gelu)?;
    let x = e.embed()?;
    e.add_places(x, stretch)?;
    e.layers(x, activation, None, |_| true, |_, _| Ok(()))?;
    let x = e.b.layer_norm(x, "v.post_ln")?;
    let (width, heads, ffn) = (e.width(), e.b.hyper.heads, e.b.hyper.ffn);
    let probe = e.single_query("v.head.probe")?;
    let qkv = "v.head.attn_qkv";
    let rows = [0, 1, 2].map(|i| i * width..(i + 1) * width);
    let mut parts = [probe, x, x];
    for (x, rows) in parts.iter_mut().zip(rows) {
        let part = e.b.part(qkv, 3 * width, rows, *x)?;
        *x = e.b.push_projections(*x, [part])[0];
    }
    let a = e.b.attend(parts, Attention { mask: Mask::Spans, ..Attention::new(heads) })?;
    let a = e.project_blocks(&[a], 1)?[0];
    let vector = e.b.project(a, "v.head.attn_out", width)?;
    let h = e.b.layer_norm(vector, "v.head.ln")?;
    let h = e.b.project(h, "v.head.ffn_up", ffn)?;
    e.b.program.push(Op::Glu { gate: h, up: None, activation });
    let h = e.b.project(h, "v.head.ffn_down", width)?;
    e.b.add(vector, h);
    e.is_pooled = true;
    e.finish(vector, sizing, pieces)
}

fn pieces(_: &Layout, _: [usize; 2]) -> Vec<Piece> {
    vec![Piece::Rows(1)]
}
