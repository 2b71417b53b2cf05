//! Keys of CLIP and LLaVA that need more than a new name.

use super::encoder_config::Config;
use crate::error::Result;
use crate::format::json::Json;

pub(super) fn clip(c: &mut Config) -> Result<()> {
    let side = c.require(&["image_size"])?;
    clip_pixels(c, side)
}

/// Rejects a center crop that differs from the tile.
fn clip_pixels(c: &mut Config, side: u64) -> Result<()> {
    let edges = [c.side("size", "shortest_edge")?, c.side("crop_size", "height")?];
    if edges.into_iter().flatten().any(|edge| edge != side) {
        return Err(c.pixels.unsupported("\"size\" or \"crop_size\" with another value than \"image_size\""));
    }
    c.set("image_size", side);
    Ok(())
}

pub(super) fn llava(c: &mut Config) -> Result<()> {
    let (side, n) = (c.require(&["image_size"])?, c.require(&["num_hidden_layers"])?);
    // The first row of CLIP belongs to its class token, which is dropped.
    let is_clip = c.kind.encoder == Some("clip_vision_model");
    let strategy = if is_clip { "default" } else { "full" };
    if c.top.text(&["vision_feature_select_strategy"])?.unwrap_or("default") != strategy {
        return Err(c.top.unsupported("the value of \"vision_feature_select_strategy\""));
    }
    // A layer is given by its number from 1 (0: the embeddings), or from the end.
    let layer = match c.top.find(&["vision_feature_layer"]) {
        None => Some(n.saturating_sub(1)),
        Some((_, Json::Int(layer))) if *layer < 0 => n.saturating_add(1).checked_sub(layer.unsigned_abs()),
        Some((_, layer)) => layer.as_u64(),
    };
    let Some(layer) = layer.filter(|layer| (1..=n).contains(layer)) else {
        return Err(c.top.unsupported("the value of \"vision_feature_layer\""));
    };
    c.set("feature_layer", vec![i64::try_from(layer).unwrap_or(0)]);
    let pads = c.pixels.bool(&["do_pad"])? == Some(true);
    let stretches = c.pixels.find(&["size"]).map_or(!is_clip, |(_, size)| size.get("height").is_some());
    let fit = match (pads, stretches) {
        (true, _) => "pad",
        (false, true) => "stretch",
        (false, false) => "crop",
    };
    c.set("fit", fit.to_owned());
    if !stretches {
        return clip_pixels(c, side);
    }
    for edge in ["height", "width"] {
        if c.pixels.find(&["size"]).is_some() && c.side("size", edge)? != Some(side) {
            return Err(c.pixels.unsupported("\"size\" with another value than \"image_size\""));
        }
    }
    c.set("image_size", side);
    Ok(())
}

/// LLaVA 1.6, whose grids are given by height and width.
pub(super) fn llava_next(c: &mut Config) -> Result<()> {
    let declared = c.top.list(&["image_grid_pinpoints"])?.or(c.pixels.list(&["image_grid_pinpoints"])?);
    c.pixels.skip(&["image_grid_pinpoints"]);
    let pair = |pair: &Json| match pair {
        Json::Array(sides) => match &sides[..] {
            [height, width] => [width, height].map(|side| side.as_u64().and_then(|side| i64::try_from(side).ok())),
            _ => [None; 2],
        },
        _ => [None; 2],
    };
    let sides: Option<Vec<i64>> = declared.unwrap_or_default().iter().flat_map(pair).collect();
    let sides = sides.ok_or_else(|| c.top.wrong("image_grid_pinpoints", "pairs of sides"))?;
    llava(c)?;
    c.set("image_grid_pinpoints", sides);
    Ok(())
}
