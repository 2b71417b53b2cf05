//! LLaVA 1.5: CLIP over the middle of a picture; 1.6: over tiles of it and an overview. The class token is dropped
//! behind the last layer that runs.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch};
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::media::{Filter, Grids, Layout, Sizing};

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    e.merge("projector.scale_factor", Some(1))?;
    let side = e.square(1)?;
    let filter = e.filter(Filter::Bicubic)?;
    let activation = e.activation(GeluErf)?;
    stop_at_feature_layer(&mut e)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Never)?;
    let x = e.b.layer_norm(x, "v.pre_ln")?;
    e.layers(x, activation, None, |_| false, |_, _| Ok(()))?;
    let x = e.project_blocks(&[x], 1)?[0];
    let rows = e.mlp(x, "mm.0", "mm.2", GeluErf)?;
    let sizing = match grids(&mut e, side)? {
        Some(grids) => Sizing::Pinpoints { tile: side, grids, filter },
        None => Sizing::ShortestEdge { side, filter },
    };
    e.finish(rows, sizing, pieces)
}

/// The grids of tiles of LLaVA 1.6, whose files have a row for the ends of lines.
fn grids(e: &mut EncoderBuilder, side: usize) -> Result<Option<Grids>> {
    let (key, merge) = ("image_grid_pinpoints", "mm_patch_merge_type");
    let keys = &e.b.keys;
    keys.get(key);
    let Some(sides) = keys.metadata.u32s(&keys.name(key))? else { return Ok(None) };
    if keys.str(merge)?.is_some_and(|told| told != "spatial_unpad") {
        return Err(keys.unsupported(merge));
    }
    let mut grids = Grids::default();
    let (pairs, rest) = sides.as_chunks::<2>();
    let tiles = |pixels: u32| match pixels as usize {
        pixels if pixels.is_multiple_of(side) && (1..=32).contains(&(pixels / side)) => Some((pixels / side) as u8),
        _ => None,
    };
    if pairs.is_empty() || !rest.is_empty() || pairs.len() > grids.0.len() {
        return Err(keys.unsupported(key));
    }
    for (grid, [width, height]) in grids.0.iter_mut().zip(pairs) {
        let (Some(columns), Some(lines)) = (tiles(*width), tiles(*height)) else { return Err(keys.unsupported(key)) };
        *grid = [columns, lines];
    }
    let hidden = e.hidden();
    e.newline = Some(e.b.tensors.vector("v.image_newline", hidden)?);
    Ok(Some(grids))
}

/// Runs the layers up to the one whose hidden states are taken: the last one but one of the network that was trained.
/// Files without the key hold all layers of it, an even number, or were written without the last.
fn stop_at_feature_layer(e: &mut EncoderBuilder) -> Result<()> {
    let key = "feature_layer";
    let keys = &e.b.keys;
    let held = (0..e.b.hyper.n_layers).take_while(|i| e.b.has(&format!("v.blk.{i}.ln1.weight"))).count();
    let told = match keys.get(key) {
        Some(_) => keys.metadata.u32s(&keys.name(key))?,
        None => None,
    };
    let n = match told.as_deref() {
        Some([layer]) if (1..=held).contains(&(*layer as usize)) => *layer as usize,
        Some(_) => return Err(keys.unsupported(key)),
        None => held - usize::from(held > 0 && held.is_multiple_of(2)),
    };
    for i in n..held {
        e.b.tensors.ignore_all(&format!("v.blk.{i}."));
    }
    ["weight", "bias"].iter().for_each(|leaf| e.b.tensors.ignore(&format!("v.post_ln.{leaf}")));
    e.b.hyper.n_layers = n;
    Ok(())
}

fn pieces(_: &Layout, [columns, lines]: [usize; 2]) -> Vec<Piece> {
    vec![Piece::Rows(columns * lines)]
}
