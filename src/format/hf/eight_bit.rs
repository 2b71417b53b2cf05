//! `quantization_config`: weights that are 8-bit floats with scales, in the two forms that are published, that of
//! DeepSeek and Qwen ("fp8") and that of llm-compressor ("compressed-tensors"). The rounding of activations is left to
//! the backend.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::json::Json;

/// Refuses any other quantisation than 8-bit floats.
pub(super) fn check(path: &Path, config: &Json) -> Result<()> {
    let method = text(config, "quant_method");
    let known = match method {
        "fp8" => {
            ["", "e4m3", "float8_e4m3fn"].contains(&text(config, "fmt")) && is_square(config.get("weight_block_size"))
        }
        "compressed-tensors" => {
            let groups = config.get("config_groups").map_or(&[][..], Json::members);
            let sparse = config.get("sparsity_config").map_or("", |s| text(s, "format"));
            text(config, "format") == "float-quantized"
                && ["", "dense"].contains(&sparse)
                && config.get("transform_config").is_none_or(|t| t.members().iter().all(|m| m.1 == Json::Null))
                && groups.iter().filter_map(|(_, group)| group.get("weights")).all(|w| {
                    text(w, "type") == "float"
                        && w.get("num_bits").and_then(Json::as_u64) == Some(8)
                        && is_square(w.get("block_structure"))
                })
        }
        _ => false,
    };
    if known {
        return Ok(());
    }
    Err(Error::unsupported(format!("{}: a quantization_config of {method:?} like this", path.display())))
}

/// True for 4-bit floats in blocks of 32 with a scale each, as gpt-oss has them.
pub(super) fn is_packed(config: &Json) -> bool {
    text(config, "quant_method") == "mxfp4"
}

fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// Scales are for squares of 128 rows and columns, where they are for squares.
fn is_square(size: Option<&Json>) -> bool {
    let is_128 = |size: &Json| size.as_u64() == Some(128);
    size.is_none_or(|size| size.as_array().is_some_and(|sides| sides.len() == 2 && sides.iter().all(is_128)))
}
