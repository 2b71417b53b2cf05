//! Rejects contradictions between the files of a folder with an encoder: with the wrong value the encoder would compute
//! rows that the model was not trained on.

use super::encoder_config::Config;
use super::members::Members;
use crate::error::{Error, Result};
use crate::format::TensorInfo;
use crate::format::json::Json;

/// Keys of the image processor, and the keys of the encoder or of the model that must have the same value.
const SAME: &[(&[&str], &[&str])] = &[
    (&["patch_size", "encoder_patch_size"], &["patch_size"]),
    (&["merge_size", "spatial_merge_size"], &["spatial_merge_size"]),
    (&["temporal_patch_size"], &["temporal_patch_size"]),
];

/// Rejects configurations that contradict each other or themselves.
pub(super) fn check(c: &Config) -> Result<()> {
    for pixels in [Some(&c.pixels), c.video.as_ref()].into_iter().flatten() {
        for (of_pixels, of_encoder) in SAME {
            agree(c, pixels, of_pixels, of_encoder)?;
        }
        for name in ["size", "crop_size", "patch_size"] {
            let Some((name, object)) = pixels.find(&[name]) else { continue };
            let side = |member: &str| object.get(member).and_then(Json::as_u64);
            if let [Some(height), Some(width)] = [side("height"), side("width")]
                && height != width
            {
                let what = format!("{name}.height is {height}, but {name}.width is {width}: pictures become squares");
                return Err(Error::format(c.pixels_path, what));
            }
        }
    }
    let text = c.top.find(&["text_config"]).map(|(_, text)| text);
    let hidden = match text {
        Some(text) => text.get("hidden_size").and_then(Json::as_u64),
        None => c.top.int(&["hidden_size"])?,
    };
    if let [Some(rows), Some(hidden)] = [c.vision.int(&["out_hidden_size"])?, hidden]
        && rows != hidden
    {
        let what = format!("vision_config.out_hidden_size is {rows}, but hidden_size of the model is {hidden}");
        return Err(c.vision.contradiction(&what));
    }
    Ok(())
}

/// Rejects a number of the image processor that differs from the encoder's.
fn agree(c: &Config, pixels: &Members, of_pixels: &[&str], of_encoder: &[&str]) -> Result<()> {
    let Some((name, value)) = pixels.find(of_pixels) else { return Ok(()) };
    let declared = value.as_u64().or_else(|| value.get("height")?.as_u64());
    // Some kinds have the key next to the encoder's configuration, not in it.
    let (expected, part) = match c.int(of_encoder)? {
        Some(n) => (Some(n), "vision_config."),
        None => (c.top.int(of_encoder)?, ""),
    };
    // LightOnOCR gives the side of the merged blocks of patches.
    let merge = match c.kind.projector {
        "lightonocr" => c.top.int(&["spatial_merge_size"])?.unwrap_or(2),
        _ => 1,
    };
    match [declared, expected] {
        [Some(declared), Some(expected)] if declared != expected && Some(declared) != expected.checked_mul(merge) => {
            let of_encoder = of_encoder.first().unwrap_or(&"");
            Err(pixels.contradiction(&format!("{name} is {declared}, but {part}{of_encoder} is {expected}")))
        }
        _ => Ok(()),
    }
}

/// Rejects tensors that contradict the configuration.
pub(super) fn check_tensors(c: &Config, tensors: &[TensorInfo]) -> Result<()> {
    let has = |ending: &str| tensors.iter().any(|t| t.name.starts_with("v.blk.0.") && t.name.ends_with(ending));
    for name in ["use_qk_norm", "qk_normalization"] {
        let norms = "the weights of norms of queries and keys";
        if let Some(declared) = c.vision.bool(&[name])?
            && declared != has("attn_q_norm.weight")
        {
            let found = if declared { "are missing" } else { "are there" };
            return Err(c.vision.contradiction(&format!("{name} is {declared}, but {norms} {found}")));
        }
    }
    if let Some(kind) = c.vision.text(&["norm_type"])? {
        let has_bias = match kind {
            "layer_norm" => true,
            "rms_norm" => false,
            _ => return Err(c.vision.wrong("norm_type", "\"layer_norm\" or \"rms_norm\"")),
        };
        if has_bias != has("ln1.bias") {
            let found = if has_bias { "norms without biases" } else { "norms with biases" };
            return Err(c.vision.contradiction(&format!("norm_type is {kind:?}, but there are {found}")));
        }
    }
    let places = tensors.iter().find(|t| t.name == "v.position_embd.weight").map(|t| t.shape.dims());
    if let (Some(declared), Some([places, _])) = (c.vision.int(&["num_position_embeddings"])?, places)
        && declared != *places
    {
        let what = format!("num_position_embeddings is {declared}, but the tensor of positions has {places} rows");
        return Err(c.vision.contradiction(&what));
    }
    Ok(())
}
