//! MiniCPM-V 2.6 to 4.5 and MiniCPM-o: SigLIP over slices of an image and an overview, of any sizes. Learned queries
//! become the rows of a tile by attending once to its patches, whose keys have sinusoidal positions. In the encoder,
//! queries follow the patches, and nothing attends to queries.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch, text};
use crate::error::Result;
use crate::graph::op::Activation::Gelu;
use crate::graph::op::{Mask, NormKind, Op, TensorId};
use crate::media::{Filter, Layout, Sizing};
use crate::model::builder::Attention;
use crate::model::hyper::HeadShape;

/// Side of a square with the area of a tile, and the maximum number of slices.
const SIDE: usize = 448;
const SLICES: usize = 9;
/// Maximum number of slices in a file.
const MAX_SLICES: usize = 1024;

/// Width of a resampler head.
const HEAD: usize = 128;

/// Versions of files with the tokens of 2.6.
const VERSIONS: [usize; 5] = [3, 4, 5, 6, 100_045];

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    let (version, count) = ("minicpmv_version", "minicpmv_query_num");
    if !e.declared_by_file(version)?.is_some_and(|declared| VERSIONS.contains(&declared)) {
        return Err(e.unsupported_of_file(version));
    }
    let queries = "resampler.query";
    if e.declared_by_file(count)?.is_some_and(|declared| e.b.rows(queries).is_ok_and(|n| n != declared)) {
        return Err(e.unsupported_of_file(count));
    }
    e.merge("projector.scale_factor", Some(1))?;
    let side = e.declared("preproc_image_size", EncoderBuilder::MAX_SIDE)?.unwrap_or(SIDE);
    let max_tiles = e.declared("preproc_max_tiles", MAX_SLICES)?.unwrap_or(SLICES);
    let sizing = Sizing::Slices { side, patch: e.patch(), max_tiles, filter: e.filter(Filter::Bicubic)? };
    let activation = e.activation(Gelu)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Buckets)?;
    e.layers(x, activation, None, |_| true, |_, _| Ok(()))?;
    let x = e.b.layer_norm(x, "v.post_ln")?;
    let x = ask(&mut e, x, queries)?;
    let width = e.hidden();
    let x = e.begin_projector(&[x], width)?[0];
    let x = e.b.project(x, "resampler.attn.out", width)?;
    let x = e.norm_at(NormKind::Layer, x, "resampler.ln_post", 1e-6)?;
    let rows = match e.b.is_folder() {
        true => e.project_transposed(x, "resampler.proj.weight")?,
        false => e.project_rows(x, "resampler.proj")?,
    };
    // The sinusoids, which the host computes.
    e.b.tensors.ignore("resampler.pos_embed_k");
    e.overview_first = true;
    e.finish(rows, sizing, pieces)
}

/// The attention of queries to patches. It computes all rows; rows of patches are dropped.
fn ask(e: &mut EncoderBuilder, x: TensorId, queries: &str) -> Result<TensorId> {
    let width = e.hidden();
    e.check_width(e.b.rows("resampler.attn.out.weight")?)?;
    if !width.is_multiple_of(HEAD) {
        return Err(e.b.keys.metadata.error(format!("rows have {width} numbers; they must fill heads of {HEAD}")));
    }
    let positions = e.queries(queries)?;
    let x = if e.b.has("resampler.kv.weight") { e.b.project(x, "resampler.kv", width)? } else { x };
    let values = e.norm_at(NormKind::Layer, x, "resampler.ln_kv", 1e-6)?;
    let keys = e.b.copy(values, width);
    e.b.program.push(Op::Add { x: keys, delta: positions, scale: 1.0 });
    let queries_normed = e.norm_at(NormKind::Layer, positions, "resampler.ln_q", 1e-6)?;
    let all = "resampler.attn.qkv";
    let mut qkv = [queries_normed, keys, values];
    for (i, (x, part)) in qkv.iter_mut().zip(["q", "k", "v"]).enumerate() {
        *x = if e.b.has("resampler.attn.qkv.weight") {
            let rows = e.b.part(all, 3 * width, i * width..(i + 1) * width, *x)?;
            e.b.push_projections(*x, [rows])[0]
        } else {
            e.b.project(*x, &format!("resampler.attn.{part}"), width)?
        };
    }
    let n_heads = width / HEAD;
    let heads = HeadShape { n_heads, n_kv_heads: n_heads, head_dim: HEAD, value_dim: HEAD };
    e.b.attend(qkv, Attention { mask: Mask::Spans, ..Attention::new(heads) })
}

/// Returns the overview, then slices with a line break between their lines. The image number that the authors may write
/// before it is omitted.
fn pieces(layout: &Layout, [n, _]: [usize; 2]) -> Vec<Piece> {
    let mut pieces = vec![text("<image>"), Piece::Rows(n), text("</image>")];
    for line in (0..layout.lines).filter(|_| layout.overview) {
        pieces.extend((line > 0).then(|| text("\n")));
        for _ in 0..layout.columns {
            pieces.extend([text("<slice>"), Piece::Rows(n), text("</slice>")]);
        }
    }
    pieces
}
