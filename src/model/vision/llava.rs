//! LLaVA 1.5: CLIP or SigLIP over an image padded to a square; 1.6: over tiles of the image and an overview. CLIP's
//! class token is dropped after the last layer that runs; SigLIP has none.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::{Piece, Stretch};
use crate::error::Result;
use crate::graph::op::Activation::{Gelu, GeluErf};
use crate::media::{Filter, Grids, Layout, Sizing};

/// Number of layers of the SigLIP in LLaVA models.
const SIGLIP_LAYERS: usize = 27;

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    e.merge("projector.scale_factor", Some(1))?;
    let side = e.square(1)?;
    let filter = e.filter(Filter::Bicubic)?;
    let is_clip = e.b.has("v.class_embd");
    let activation = e.activation(if is_clip { GeluErf } else { Gelu })?;
    stop_at_feature_layer(&mut e, is_clip)?;
    let x = e.embed()?;
    e.add_places(x, Stretch::Never)?;
    let x = if is_clip { e.b.layer_norm(x, "v.pre_ln")? } else { x };
    e.layers(x, activation, None, |_| false, |_, _| Ok(()))?;
    let x = e.project_blocks(&[x], 1)?[0];
    let rows = e.mlp(x, "mm.0", "mm.2", GeluErf)?;
    let grids = grids(&mut e, side)?;
    let sizing = match (grids, e.b.keys.str("fit")?) {
        (Some(grids), _) => Sizing::Pinpoints { tile: side, grids, filter },
        (None, Some("crop")) => Sizing::ShortestEdge { side, filter },
        (None, Some("stretch")) => Sizing::Square { side, filter },
        (None, None | Some("pad")) => {
            Sizing::Expanded { side, color: e.mean.map(|mean| (f64::from(mean) * 255.0) as u8), filter }
        }
        (None, Some(_)) => return Err(e.b.keys.unsupported("fit")),
    };
    e.finish(rows, sizing, pieces)
}

/// Returns the tile grids of LLaVA 1.6, whose files have a newline row.
fn grids(e: &mut EncoderBuilder, side: usize) -> Result<Option<Grids>> {
    let (key, merge) = ("image_grid_pinpoints", "mm_patch_merge_type");
    let keys = &e.b.keys;
    keys.get(key);
    let Some(sides) = keys.metadata.u32s(&keys.name(key))? else { return Ok(None) };
    if keys.str(merge)?.is_some_and(|declared| declared != "spatial_unpad") {
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

/// Runs the layers up to the feature layer, the last but one of the trained network. Files without the key contain all
/// layers of the encoder (an even number for CLIP, 27 for SigLIP), or were written without the last one.
fn stop_at_feature_layer(e: &mut EncoderBuilder, is_clip: bool) -> Result<()> {
    let key = "feature_layer";
    let keys = &e.b.keys;
    let held = (0..e.b.hyper.n_layers).take_while(|i| e.b.has(&format!("v.blk.{i}.ln1.weight"))).count();
    let declared = match keys.get(key) {
        Some(_) => keys.metadata.u32s(&keys.name(key))?,
        None => None,
    };
    let n = match declared.as_deref() {
        Some([layer]) if (1..=held).contains(&(*layer as usize)) => *layer as usize,
        Some(_) => return Err(keys.unsupported(key)),
        None => {
            let holds_all = if is_clip { held > 0 && held.is_multiple_of(2) } else { held == SIGLIP_LAYERS };
            held - usize::from(holds_all)
        }
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
