//! LLaVA 1.5: CLIP over the middle of a picture, whose class token is dropped behind the last layer that runs.

use super::encoder::{EncoderBuilder, EncoderNetwork};
use super::facts::Piece;
use crate::error::Result;
use crate::graph::op::Activation::GeluErf;
use crate::media::{Filter, Layout, Sizing};

pub fn build(mut e: EncoderBuilder) -> Result<EncoderNetwork> {
    e.merge("projector.scale_factor", Some(1))?;
    let side = e.square(1)?;
    let filter = e.filter(Filter::Bicubic)?;
    let activation = e.activation(GeluErf)?;
    stop_at_feature_layer(&mut e)?;
    let x = e.embed()?;
    e.add_places(x, false)?;
    let x = e.b.layer_norm(x, "v.pre_ln")?;
    e.layers(x, activation, None, |_| false, |_, _| Ok(()))?;
    let x = e.project_blocks(&[x], 1)?[0];
    let rows = e.mlp(x, "mm.0", "mm.2", GeluErf)?;
    e.finish(rows, Sizing::ShortestEdge { side, filter }, pieces)
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
