//! The part of a folder that sees pictures, under the keys and names of a GGUF file of its own (`clip`). Refuses each
//! key of its configuration, and of that of its pixels, that is neither translated nor in the tables here.
//!
//! Five keys of our own stand beside those of GGUF. `clip.vision.hidden_act`: the activation by its name here.
//! `clip.vision.resample`: the number that Pillow gives the filter. `clip.vision.rope.freq_base`: of a 2-D rotation.
//! `clip.vision.max_rows`: the rows of a picture of Gemma 4. `clip.vision.split_pixels`: beyond them LFM2 makes tiles.

use std::cell::RefCell;
use std::path::Path;

use super::encoder_names;
use super::folder::{MAX_CONFIG, read};
use super::known;
use super::members::Members;
use super::sound;
use super::weights::{self, Weights};
use crate::error::{Error, Result};
use crate::format::Value;
use crate::format::contents::{Contents, FileFormat};
use crate::format::file::Files;
use crate::format::json::Json;
use crate::format::metadata::Metadata;
use crate::format::passed::Passed;
use crate::format::value::{narrow, whole};

/// The encoders whose configurations and checkpoints are alike.
pub(super) struct Kind {
    /// `model_type` of a configuration, and of its `vision_config` where that tells several apart.
    model_types: &'static [&'static str],
    encoder: Option<&'static str>,
    /// `clip.projector_type` of a GGUF file.
    pub projector: &'static str,
    /// Values of keys that configurations leave out, `key=number` each.
    defaults: &'static str,
    /// Activations that the encoder may have, the first where a configuration names none.
    activations: &'static [&'static str],
    /// Pillow's number of the filter where the folder names none.
    resample: u64,
    /// Sets the keys that are no plain translation.
    extras: fn(&mut Config) -> Result<()>,
}

const SIGLIP: &str = "hidden_size=1152 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=16 patch_size=32 \
                      image_size=224 layer_norm_eps=1e-6";

const KINDS: &[Kind] = &[
    Kind {
        model_types: &["idefics3", "smolvlm"],
        encoder: None,
        projector: "idefics3",
        defaults: SIGLIP,
        activations: &["gelu_pytorch_tanh"],
        resample: 1,
        extras: idefics3,
    },
    Kind {
        model_types: &["gemma3"],
        encoder: None,
        projector: "gemma3",
        defaults: SIGLIP,
        activations: &["gelu_pytorch_tanh"],
        resample: 2,
        extras: gemma3,
    },
    Kind {
        model_types: &["gemma4"],
        encoder: None,
        projector: "gemma4v",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=16 num_attention_heads=12 patch_size=16 \
                   rms_norm_eps=1e-6 pooling_kernel_size=3",
        activations: &["gelu_pytorch_tanh"],
        resample: 3,
        extras: gemma4,
    },
    Kind {
        model_types: &["gemma4_unified"],
        encoder: None,
        projector: "gemma4uv",
        // There are no layers.
        defaults: "mm_embed_dim=3840 intermediate_size=1 num_hidden_layers=1 num_attention_heads=1 patch_size=16 \
                   rms_norm_eps=1e-6 pooling_kernel_size=3",
        activations: &["gelu_pytorch_tanh"],
        resample: 3,
        extras: gemma4,
    },
    Kind {
        model_types: &["lfm2_vl"],
        encoder: None,
        projector: "lfm2",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=16 \
                   num_patches=256 layer_norm_eps=1e-6",
        activations: &["gelu_pytorch_tanh"],
        resample: 2,
        extras: lfm2,
    },
    Kind {
        model_types: &["lighton_ocr"],
        encoder: None,
        projector: "lightonocr",
        defaults: PIXTRAL,
        activations: &["silu", "gelu"],
        resample: 3,
        extras: pixtral,
    },
    Kind {
        model_types: &["glm4v", "glm4v_moe"],
        encoder: None,
        projector: "glm4v",
        defaults: "hidden_size=1536 intermediate_size=13696 depth=24 num_heads=12 patch_size=14 rms_norm_eps=1e-5 \
                   spatial_merge_size=2",
        activations: &["silu"],
        resample: 3,
        extras: glm4v,
    },
    Kind {
        model_types: &["paddleocr_vl"],
        encoder: None,
        projector: "paddleocr",
        defaults: "hidden_size=1152 intermediate_size=4304 num_hidden_layers=27 num_attention_heads=16 patch_size=14 \
                   layer_norm_eps=1e-6 spatial_merge_size=2",
        activations: &["gelu_pytorch_tanh"],
        resample: 3,
        extras: paddleocr,
    },
    Kind {
        model_types: &["llava"],
        encoder: Some("clip_vision_model"),
        projector: "mlp",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=32 \
                   image_size=224 layer_norm_eps=1e-5",
        activations: &["quick_gelu", "gelu"],
        resample: 3,
        extras: llava,
    },
    Kind {
        model_types: &["llava_next"],
        encoder: Some("clip_vision_model"),
        projector: "mlp",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=32 \
                   image_size=224 layer_norm_eps=1e-5",
        activations: &["quick_gelu", "gelu"],
        resample: 3,
        extras: llava_next,
    },
    Kind {
        model_types: &["llama4"],
        encoder: None,
        projector: "llama4",
        defaults: "hidden_size=768 intermediate_size=5632 num_hidden_layers=34 num_attention_heads=16 patch_size=14 \
                   image_size=448 layer_norm_eps=1e-5",
        activations: &["gelu"],
        resample: 2,
        extras: llama4,
    },
    Kind {
        model_types: &["minicpmv", "minicpmo"],
        encoder: None,
        projector: "resampler",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=16 \
                   image_size=224 layer_norm_eps=1e-6",
        activations: &["gelu_pytorch_tanh"],
        resample: 3,
        extras: minicpm,
    },
    Kind {
        model_types: &["llava"],
        encoder: Some("pixtral"),
        projector: "pixtral",
        defaults: PIXTRAL,
        activations: &["gelu", "silu"],
        resample: 3,
        extras: pixtral,
    },
    Kind {
        model_types: &["mistral3"],
        encoder: None,
        projector: "pixtral",
        defaults: PIXTRAL,
        activations: &["gelu", "silu"],
        resample: 3,
        extras: pixtral,
    },
    Kind {
        model_types: &["internvl"],
        encoder: None,
        projector: "internvl",
        defaults: "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 patch_size=14 \
                   image_size=448 layer_norm_eps=1e-6",
        activations: &["gelu"],
        resample: 3,
        extras: internvl,
    },
    Kind {
        model_types: &["internvl_chat"],
        encoder: None,
        projector: "internvl",
        defaults: "hidden_size=3200 intermediate_size=12800 num_hidden_layers=48 num_attention_heads=25 patch_size=14 \
                   image_size=224 layer_norm_eps=1e-6",
        activations: &["gelu"],
        resample: 3,
        extras: internvl_chat,
    },
    Kind {
        model_types: &["qwen2_vl"],
        encoder: None,
        projector: "qwen2vl_merger",
        defaults: "embed_dim=1280 mlp_ratio=4 depth=32 num_heads=16 patch_size=14 layer_norm_eps=1e-6 \
                   spatial_merge_size=2",
        activations: &["quick_gelu"],
        resample: 3,
        extras: qwen,
    },
    Kind {
        model_types: &["qwen2_5_vl"],
        encoder: None,
        projector: "qwen2.5vl_merger",
        defaults: "hidden_size=3584 intermediate_size=3420 depth=32 num_heads=16 patch_size=14 layer_norm_eps=1e-6 \
                   spatial_merge_size=2 window_size=112",
        activations: &["silu"],
        resample: 3,
        extras: qwen,
    },
    Kind {
        model_types: &["qwen3_vl", "qwen3_vl_moe"],
        encoder: None,
        projector: "qwen3vl_merger",
        defaults: "hidden_size=1152 intermediate_size=4304 depth=27 num_heads=16 patch_size=16 layer_norm_eps=1e-6 \
                   spatial_merge_size=2 num_position_embeddings=2304",
        activations: &["gelu_pytorch_tanh"],
        resample: 3,
        extras: qwen,
    },
];

const PIXTRAL: &str = "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 patch_size=16 \
                       layer_norm_eps=1e-5 rope_theta=10000 image_size=1024";

/// Keys that change no result, of an encoder and of the pixels that it takes.
const EFFECTLESS: &str = "model_type projection_dim out_hidden_size vocab_size tokens_per_second spatial_patch_size \
     vision_use_head max_image_size size use_base_siglip drop_path_rate use_mean_pooling layer_scale_init_value \
     layer_scale_init use_mask_token use_qk_norm head_dim hidden_size image_size img_size num_position_embeddings \
     is_composition tie_word_embeddings projection_dropout norm_type in_channels in_chans num_channels \
     use_clipped_linears standardize position_embedding_size mm_posemb_size output_proj_dims \
     max_position_embeddings num_patches qk_normalization qkv_bias use_flash_attn initializer_factor dropout \
     default_output_length global_head_dim norm_eps vision_output_dim projector_input_dim projector_output_dim \
     projector_dropout";
const PIXELS_EFFECTLESS: &str = "image_processor_type processor_class feature_extractor_type do_convert_rgb do_pad pad_size \
     image_seq_length data_format input_data_format return_tensors device disable_grouping default_to_square \
     temporal_patch_size merge_size patch_size min_patches max_patches crop_to_patches size max_image_size \
     num_image_tokens image_token max_image_tokens video_sampling do_sample_frames fps num_frames return_row_col_info \
     pan_and_scan_min_crop_size pan_and_scan_max_num_crops pan_and_scan_min_ratio_to_activate do_image_splitting \
     max_num_patches aspect_ratio_setting use_image_id im_id_start im_id_end unk version";
/// Keys that change no result where they have this value.
const NEUTRAL: &[(&str, &str, &str)] = &[
    ("temporal_patch_size", "2", "pictures of other than two frames"),
    ("use_absolute_position_embeddings", "true", "an encoder without positions"),
    ("multi_modal_projector_bias", "false", "a projector with biases"),
];
const PIXELS_NEUTRAL: &[(&str, &str, &str)] = &[
    ("do_resize", "true", "pictures that are not resized"),
    ("do_rescale", "true", "pixels that are not divided"),
    ("do_pan_and_scan", "false", "pictures that are cut in crops as well"),
    ("do_center_crop", "true", "pictures that are not cropped"),
    ("slice_mode", "true", "pictures that are not sliced"),
    ("im_start", "\"<image>\"", "other tokens around pictures"),
    ("im_end", "\"</image>\"", "other tokens around pictures"),
    ("slice_start", "\"<slice>\"", "other tokens around slices"),
    ("slice_end", "\"</slice>\"", "other tokens around slices"),
    ("resize_to_max_canvas", "false", "pictures that are enlarged"),
];

/// A configuration, and the keys that it has become so far.
pub(super) struct Config<'a> {
    kind: &'static Kind,
    /// The model's, that of its encoder, and that of the pixels.
    top: Members<'a>,
    vision: Members<'a>,
    pixels: Members<'a>,
    pixels_path: &'a Path,
    keys: Vec<(String, Value)>,
    /// Layers whose hidden states go into the decoder as well.
    pub deepstack: Vec<u64>,
}

impl Config<'_> {
    fn default(&self, names: &[&str]) -> Option<f64> {
        let mut defaults = self.kind.defaults.split_whitespace().filter_map(|default| default.split_once('='));
        defaults.find(|(name, _)| names.contains(name)).and_then(|(_, value)| value.parse().ok())
    }

    /// A number of the encoder's configuration, or that which it has without one.
    fn int(&self, names: &[&str]) -> Result<Option<u64>> {
        Ok(self.vision.int(names)?.or(self.default(names).and_then(whole)))
    }

    fn require(&self, names: &[&str]) -> Result<u64> {
        let n = self.int(names)?.filter(|n| (1..=1 << 20).contains(n));
        n.ok_or_else(|| self.vision.wrong(names.first().unwrap_or(&""), "a number from 1 to 2^20"))
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.push((format!("clip.vision.{key}"), value.into()));
    }

    /// A side in pixels: a number, or the member of an object.
    fn side(&self, name: &str, member: &str) -> Result<Option<u64>> {
        let Some((_, value)) = self.pixels.find(&[name]) else { return Ok(None) };
        let side = value.as_u64().or_else(|| value.get(member)?.as_u64());
        side.map(Some).ok_or_else(|| self.pixels.wrong(name, &format!("a number or an object with {member}")))
    }

    fn require_side(&self, name: &str, member: &str) -> Result<u64> {
        let missing = || Error::format(self.pixels_path, format!("{name}.{member} is missing"));
        self.side(name, member)?.ok_or_else(missing)
    }

    /// Refuses a text of the model's configuration other than `expected`.
    fn expect(&self, name: &str, expected: &str) -> Result<()> {
        match self.top.text(&[name])? {
            Some(told) if told != expected => Err(self.top.unsupported(&format!("{name:?} with the value {told:?}"))),
            _ => Ok(()),
        }
    }

    /// Refuses hidden states of another layer than the last, and a choice of them other than `expected`.
    fn expect_last_layer(&self, expected: &str) -> Result<()> {
        self.expect("vision_feature_select_strategy", expected)?;
        match self.top.find(&["vision_feature_layer"]) {
            Some((name, layer)) if *layer != Json::Int(-1) => {
                Err(self.top.unsupported(&format!("{name:?} with the value {layer}")))
            }
            _ => Ok(()),
        }
    }
}

fn idefics3(c: &mut Config) -> Result<()> {
    let merge = c.top.int(&["scale_factor"])?.unwrap_or(2);
    let (longest, tile) = (c.require_side("size", "longest_edge")?, c.side("max_image_size", "longest_edge")?);
    let side = c.require(&["image_size"])?;
    if tile.is_some_and(|tile| tile != side) {
        return Err(c.pixels.unsupported("\"max_image_size\" with another value than \"image_size\""));
    }
    if c.pixels.bool(&["do_image_splitting"])? == Some(false) {
        return Err(c.pixels.unsupported("\"do_image_splitting\" with the value false"));
    }
    c.set("projector.scale_factor", merge);
    c.set("preproc_image_size", longest);
    c.set("image_size", side);
    Ok(())
}

fn gemma3(c: &mut Config) -> Result<()> {
    let (side, patch) = (c.require(&["image_size"])?, c.require(&["patch_size"])?);
    let rows = c.top.int(&["mm_tokens_per_image"])?.unwrap_or(256);
    if c.side("size", "height")?.is_some_and(|height| height != side) {
        return Err(c.pixels.unsupported("\"size\" with another value than \"image_size\""));
    }
    let grid = side.checked_div(patch).unwrap_or(0);
    let merge = grid.checked_div(rows.isqrt()).unwrap_or(0);
    c.set("projector.scale_factor", merge);
    c.set("image_size", side);
    Ok(())
}

fn gemma4(c: &mut Config) -> Result<()> {
    let (merge, patch) = (c.require(&["pooling_kernel_size"])?, c.require(&["patch_size"])?);
    for (name, n) in [("pooling_kernel_size", merge), ("patch_size", patch)] {
        if c.pixels.int(&[name])?.is_some_and(|told| told != n) {
            return Err(c.pixels.unsupported(&format!("{name:?} with another value than that of the encoder")));
        }
    }
    let rows = c.pixels.int(&["max_soft_tokens"])?.unwrap_or(280);
    let rope = c.vision.find(&["rope_parameters"]).map(|(_, rope)| rope);
    if let Some(kind) = rope.and_then(|rope| rope.get("rope_type")?.as_str())
        && !["axial", "default"].contains(&kind)
    {
        return Err(c.vision.unsupported(&format!("\"rope_type\" with the value {kind:?}")));
    }
    let base = rope.and_then(|rope| rope.get("rope_theta")?.as_f64()).unwrap_or(100.0);
    if c.kind.projector == "gemma4v" {
        let (width, heads) = (c.require(&["hidden_size"])?, c.require(&["num_attention_heads"])?);
        let told = c.vision.int(&["head_dim"])?.unwrap_or(64).checked_mul(heads);
        if told != Some(width) || c.vision.int(&["num_key_value_heads"])?.is_some_and(|n| n != heads) {
            return Err(c.vision.unsupported("heads that are not as wide together as the layer, or share keys"));
        }
    }
    c.set("projector.scale_factor", merge);
    c.set("max_rows", rows);
    if c.kind.projector == "gemma4v" {
        c.set("rope.freq_base", base);
    }
    Ok(())
}

/// Tiles, and bounds by rows.
fn lfm2(c: &mut Config) -> Result<()> {
    c.expect_last_layer("default")?;
    let (merge, patch) = (c.top.int(&["downsample_factor"])?.unwrap_or(2), c.require(&["patch_size"])?);
    if c.pixels.int(&["encoder_patch_size"])?.is_some_and(|told| told != patch)
        || c.pixels.int(&["downsample_factor"])?.is_some_and(|told| told != merge)
    {
        return Err(c.pixels.unsupported("patches or blocks of another size than those of the encoder"));
    }
    if c.pixels.bool(&["use_thumbnail"])? == Some(false) {
        return Err(c.pixels.unsupported("\"use_thumbnail\" with the value false"));
    }
    let area = patch.saturating_mul(merge).saturating_pow(2);
    let pixels =
        |name: &str, rows: u64| -> Result<u64> { Ok(c.pixels.int(&[name])?.unwrap_or(rows).saturating_mul(area)) };
    let (least, most) = (pixels("min_image_tokens", 64)?, pixels("max_image_tokens", 256)?);
    let tolerance = c.pixels.number(&["max_pixels_tolerance"])?.filter(|x| (0.0..=1e3).contains(x)).unwrap_or(2.0);
    let splits = c.pixels.bool(&["do_image_splitting"])? != Some(false);
    let tiles =
        |name: &str, n: u64| -> Result<u64> { Ok(if splits { c.pixels.int(&[name])?.unwrap_or(n) } else { 1 }) };
    let (min_tiles, max_tiles) = (tiles("min_tiles", 2)?, tiles("max_tiles", 10)?);
    c.pixels.skip(&["min_tiles", "max_tiles"]);
    let tile = c.pixels.int(&["tile_size"])?.unwrap_or(512);
    c.set("projector.scale_factor", merge);
    c.set("image_min_pixels", least);
    c.set("image_max_pixels", most);
    c.set("split_pixels", whole((most as f64 * tolerance).floor()).unwrap_or(0));
    c.set("preproc_min_tiles", min_tiles);
    c.set("preproc_max_tiles", max_tiles);
    c.set("preproc_image_size", tile);
    Ok(())
}

/// Bounds are areas of two frames.
fn glm4v(c: &mut Config) -> Result<()> {
    bounds(c, 2)?;
    rotation(c)
}

fn paddleocr(c: &mut Config) -> Result<()> {
    bounds(c, 1)?;
    rotation(c)
}

/// Bounds on areas in pixels, whatever their names say, of so many frames.
fn bounds(c: &mut Config, frames: u64) -> Result<()> {
    let least = c.pixels.int(&["min_pixels"])?.map_or_else(|| c.require_side("size", "shortest_edge"), Ok)?;
    let most = c.pixels.int(&["max_pixels"])?.map_or_else(|| c.require_side("size", "longest_edge"), Ok)?;
    let merge = c.require(&["spatial_merge_size"])?;
    c.set("image_min_pixels", least.div_ceil(frames));
    c.set("image_max_pixels", most / frames);
    c.set("spatial_merge_size", merge);
    Ok(())
}

/// Refuses a rotation other than that of all encoders.
fn rotation(c: &mut Config) -> Result<()> {
    let base = c.vision.find(&["rope_parameters"]).and_then(|(_, rope)| rope.get("rope_theta")?.as_f64());
    match base.or(c.vision.number(&["rope_theta"])?) {
        Some(base) if base != 10_000.0 => Err(c.vision.unsupported(&format!("\"rope_theta\" with the value {base}"))),
        _ => Ok(()),
    }
}

fn llava(c: &mut Config) -> Result<()> {
    let (side, n) = (c.require(&["image_size"])?, c.require(&["num_hidden_layers"])?);
    c.expect("vision_feature_select_strategy", "default")?;
    // A layer by its number from 1, 0 being the embeddings, or from the end.
    let layer = match c.top.find(&["vision_feature_layer"]) {
        None => Some(n.saturating_sub(1)),
        Some((_, Json::Int(layer))) if *layer < 0 => n.saturating_add(1).checked_sub(layer.unsigned_abs()),
        Some((_, layer)) => layer.as_u64(),
    };
    let Some(layer) = layer.filter(|layer| (1..=n).contains(layer)) else {
        return Err(c.top.unsupported("the value of \"vision_feature_layer\""));
    };
    let edges = [c.side("size", "shortest_edge")?, c.side("crop_size", "height")?];
    if edges.into_iter().flatten().any(|edge| edge != side) {
        return Err(c.pixels.unsupported("\"size\" or \"crop_size\" with another value than \"image_size\""));
    }
    c.set("feature_layer", vec![i64::try_from(layer).unwrap_or(0)]);
    c.set("image_size", side);
    Ok(())
}

/// LLaVA 1.6, whose grids are given by height and width.
fn llava_next(c: &mut Config) -> Result<()> {
    let told = c.top.list(&["image_grid_pinpoints"])?.or(c.pixels.list(&["image_grid_pinpoints"])?);
    c.pixels.skip(&["image_grid_pinpoints"]);
    let pair = |pair: &Json| match pair {
        Json::Array(sides) => match &sides[..] {
            [height, width] => [width, height].map(|side| side.as_u64().and_then(|side| i64::try_from(side).ok())),
            _ => [None; 2],
        },
        _ => [None; 2],
    };
    let sides: Option<Vec<i64>> = told.unwrap_or_default().iter().flat_map(pair).collect();
    let sides = sides.ok_or_else(|| c.top.wrong("image_grid_pinpoints", "pairs of sides"))?;
    llava(c)?;
    c.set("image_grid_pinpoints", sides);
    Ok(())
}

/// The makers' norms have an epsilon of their own, whatever `norm_eps` says.
fn llama4(c: &mut Config) -> Result<()> {
    let ratio = c.vision.number(&["pixel_shuffle_ratio"])?.unwrap_or(0.5);
    let (side, tiles) = (c.require(&["image_size"])?, c.pixels.int(&["max_patches"])?.unwrap_or(16));
    if c.side("size", "height")?.is_some_and(|height| height != side) {
        return Err(c.pixels.unsupported("\"size\" with another value than \"image_size\""));
    }
    let base = c.vision.find(&["rope_parameters"]).and_then(|(_, rope)| rope.get("rope_theta")?.as_f64());
    let base = base.or(c.vision.number(&["rope_theta"])?).unwrap_or(10_000.0);
    c.set("projector.scale_factor", whole(1.0 / ratio).unwrap_or(0));
    c.set("preproc_max_tiles", tiles);
    c.set("image_size", side);
    c.set("rope.freq_base", base);
    Ok(())
}

/// Versions ahead of 2.6, whose folders may not tell it, have other tokens between slices.
fn minicpm(c: &mut Config) -> Result<()> {
    let version = c.top.number(&["version"])?.unwrap_or(2.5);
    if !(2.6..5.0).contains(&version) {
        return Err(c.top.unsupported(&format!("\"version\" with the value {version}")));
    }
    let (queries, layers) = (c.top.int(&["query_num"])?.unwrap_or(64), c.require(&["num_hidden_layers"])?);
    if c.pixels.int(&["image_feature_size"])?.is_some_and(|n| n != queries) {
        return Err(c.pixels.unsupported("\"image_feature_size\" with another value than \"query_num\""));
    }
    if c.pixels.int(&["patch_size"])?.unwrap_or(14) != c.require(&["patch_size"])? {
        return Err(c.pixels.unsupported("\"patch_size\" with another value than that of the encoder"));
    }
    let drops = c.top.bool(&["drop_vision_last_layer"])? != Some(false);
    c.keys.retain(|(key, _)| key != "clip.vision.block_count");
    c.set("block_count", layers - u64::from(drops));
    c.set("preproc_image_size", c.pixels.int(&["scale_resolution"])?.unwrap_or(448));
    c.set("preproc_max_tiles", c.pixels.int(&["max_slice_nums"])?.unwrap_or(9));
    c.keys.push(("clip.minicpmv_version".into(), 3u64.into()));
    c.keys.push(("clip.minicpmv_query_num".into(), queries.into()));
    Ok(())
}

fn pixtral(c: &mut Config) -> Result<()> {
    c.expect_last_layer("full")?;
    let longest = c.require_side("size", "longest_edge")?;
    let merge = c.top.int(&["spatial_merge_size"])?.unwrap_or(if c.kind.projector == "lightonocr" { 2 } else { 1 });
    let of_rope = c.vision.find(&["rope_parameters"]).and_then(|(_, rope)| rope.get("rope_theta")?.as_f64());
    let base = of_rope.or(c.vision.number(&["rope_theta"])?).or(c.default(&["rope_theta"]));
    let (width, heads) = (c.require(&["hidden_size"])?, c.require(&["num_attention_heads"])?);
    if c.vision.int(&["head_dim"])?.is_some_and(|head| head.checked_mul(heads) != Some(width)) {
        return Err(c.vision.unsupported("heads that are not as wide together as the layer"));
    }
    c.set("image_size", longest);
    c.set("spatial_merge_size", merge);
    c.set("rope.freq_base", base.unwrap_or(0.0));
    Ok(())
}

fn internvl(c: &mut Config) -> Result<()> {
    c.expect_last_layer("default")?;
    let ratio = c.top.number(&["downsample_ratio"])?.unwrap_or(0.5);
    let least = c.pixels.int(&["min_patches"])?.unwrap_or(1);
    let most = c.pixels.int(&["max_patches"])?.unwrap_or(12);
    let side = c.require(&["image_size"])?;
    let merge = whole(1.0 / ratio).unwrap_or(0);
    if c.side("size", "height")?.is_some_and(|height| height != side) {
        return Err(c.pixels.unsupported("\"size\" with another value than \"image_size\""));
    }
    c.set("projector.scale_factor", merge);
    c.set("preproc_min_tiles", least);
    c.set("preproc_max_tiles", most);
    c.set("image_size", side);
    Ok(())
}

/// The first form of InternVL's folders, in which the model's configuration has what is about tiles.
fn internvl_chat(c: &mut Config) -> Result<()> {
    let ratio = c.top.number(&["downsample_ratio"])?.unwrap_or(0.5);
    let tiles = [c.top.int(&["min_dynamic_patch"])?.unwrap_or(1), c.top.int(&["max_dynamic_patch"])?.unwrap_or(12)];
    let side = c.require(&["image_size"])?;
    for (name, told, expected) in [
        ("select_layer", c.top.find(&["select_layer"]).map(|(_, value)| value), Json::Int(-1)),
        ("ps_version", c.top.find(&["ps_version"]).map(|(_, value)| value), Json::Str("v2".into())),
        ("dynamic_image_size", c.top.find(&["dynamic_image_size"]).map(|(_, value)| value), Json::Bool(true)),
        ("use_thumbnail", c.top.find(&["use_thumbnail"]).map(|(_, value)| value), Json::Bool(true)),
    ] {
        if let Some(told) = told.filter(|told| **told != expected) {
            return Err(c.top.unsupported(&format!("{name:?} with the value {told}")));
        }
    }
    c.pixels.skip(&["crop_size"]);
    c.set("projector.scale_factor", whole(1.0 / ratio).unwrap_or(0));
    c.set("preproc_min_tiles", tiles[0]);
    c.set("preproc_max_tiles", tiles[1]);
    c.set("image_size", side);
    Ok(())
}

/// Qwen 2, 2.5 and 3. Bounds are areas in pixels, whatever their names say.
fn qwen(c: &mut Config) -> Result<()> {
    bounds(c, 1)?;
    let (patch, layers) = (c.require(&["patch_size"])?, c.require(&["depth"])?);
    let numbers = |c: &Config, name: &str| -> Result<Vec<u64>> {
        let list = c.vision.list(&[name])?.unwrap_or_default();
        let numbers: Option<Vec<u64>> = list.iter().map(|n| n.as_u64().filter(|n| *n < layers)).collect();
        numbers.ok_or_else(|| c.vision.wrong(name, "numbers of layers"))
    };
    if c.kind.projector == "qwen2.5vl_merger" {
        let window = c.require(&["window_size"])?;
        let full = numbers(c, "fullatt_block_indexes")?;
        c.set("window_size", window);
        c.set("wa_layer_indexes", full.iter().filter_map(|n| i64::try_from(*n).ok()).collect::<Vec<i64>>());
    }
    if c.kind.projector == "qwen3vl_merger" {
        let positions = c.require(&["num_position_embeddings"])?;
        c.deepstack = numbers(c, "deepstack_visual_indexes")?;
        let is_deep = (0..layers).map(|layer| i64::from(c.deepstack.contains(&layer))).collect::<Vec<i64>>();
        c.set("is_deepstack_layers", is_deep);
        c.set("image_size", positions.isqrt().saturating_mul(patch));
    }
    Ok(())
}

/// Sets the keys that all encoders have.
fn common(c: &mut Config) -> Result<()> {
    let activation = c
        .vision
        .text(&["hidden_act", "hidden_activation"])?
        .or(c.kind.activations.first().copied())
        .unwrap_or_default();
    if !c.kind.activations.contains(&activation) {
        return Err(c.vision.unsupported(&format!("\"hidden_act\" with the value {activation:?}")));
    }
    let widths = ["embed_dim", "mm_embed_dim"].into_iter().find(|name| c.default(&[name]).is_some());
    let width = c.require(&[widths.unwrap_or("hidden_size")])?;
    let inner = match c.default(&["mlp_ratio"]) {
        Some(ratio) => whole(c.vision.number(&["mlp_ratio"])?.unwrap_or(ratio)).unwrap_or(0).saturating_mul(width),
        None => c.require(&["intermediate_size"])?,
    };
    let (layers, heads) =
        (c.require(&["num_hidden_layers", "depth"])?, c.require(&["num_attention_heads", "num_heads"])?);
    let patch = c.require(&["patch_size"])?;
    let epsilons = ["layer_norm_eps", "rms_norm_eps"];
    let epsilon = c.vision.number(&epsilons)?.or(c.default(&epsilons)).unwrap_or(1e-6);
    let resample = c.pixels.int(&["resample"])?.unwrap_or(c.kind.resample);
    // Colours that are not normalised have the mean 0 and the deviation 1.
    let is_plain = c.pixels.bool(&["do_normalize"])? == Some(false);
    for (name, theirs, plain) in [("image_mean", "norm_mean", 0.0), ("image_std", "norm_std", 1.0)] {
        let list = c.pixels.list(&[name, theirs])?;
        let numbers: Option<Vec<f32>> = list.unwrap_or_default().iter().map(|x| x.as_f64().map(narrow)).collect();
        let numbers = if is_plain { Some(vec![plain; 3]) } else { numbers.filter(|list| list.len() == 3) };
        match numbers {
            Some(numbers) => c.set(name, Value::Floats(numbers)),
            // Others than Gemma 4 are refused without them.
            None if list.is_none() => {}
            None => return Err(c.pixels.wrong(name, "three numbers")),
        }
    }
    if c.pixels.number(&["rescale_factor"])?.is_some_and(|factor| (factor * 255.0 - 1.0).abs() > 1e-6) {
        return Err(c.pixels.unsupported("\"rescale_factor\" with another value than 1/255"));
    }
    for name in ["in_channels", "in_chans", "num_channels"] {
        if c.vision.int(&[name])?.is_some_and(|n| n != 3) {
            return Err(c.vision.unsupported(&format!("{name:?} with another value than 3")));
        }
    }
    c.expect("projector_hidden_act", "gelu")?;
    c.set("hidden_act", activation.to_owned());
    for (key, n) in [
        ("embedding_length", width),
        ("feed_forward_length", inner),
        ("block_count", layers),
        ("attention.head_count", heads),
        ("patch_size", patch),
        ("resample", resample),
    ] {
        c.set(key, n);
    }
    c.set("attention.layer_norm_epsilon", epsilon);
    Ok(())
}

/// Opens the encoder of a folder, that of pictures where it has one.
pub fn open(files: Files, folder: &Path) -> Result<Contents> {
    let config_path = folder.join("config.json");
    let config = files.open(&config_path)?.read_all(MAX_CONFIG)?;
    let config = Json::parse_python(&config_path, &config)?;
    let hears = config.get("vision_config").is_none() && config.get("audio_config").is_some();
    if hears || config.get("thinker_config").is_some() {
        return sound::open(files, folder, &config_path, &config);
    }
    let processor = folder.join("processor_config.json");
    let (pixels_path, text) = match read(files, &folder.join("preprocessor_config.json"), MAX_CONFIG)? {
        Some(text) => (folder.join("preprocessor_config.json"), text),
        None => {
            let text = files.open(&processor)?.read_all(MAX_CONFIG)?;
            (processor, text)
        }
    };
    let pixels = Json::parse_python(&pixels_path, &text)?;
    let pixels = pixels.get("image_processor").unwrap_or(&pixels);
    let model_type = config.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let Some(vision) = config.get("vision_config") else {
        return Err(Error::unsupported(format!("{}: no vision_config, no encoder", config_path.display())));
    };
    let encoder = vision.get("model_type").and_then(Json::as_str);
    let is_kind = |kind: &&Kind| {
        kind.model_types.contains(&model_type)
            && kind.encoder.is_none_or(|name| encoder.is_none_or(|told| told == name))
    };
    let Some(kind) = KINDS.iter().find(is_kind) else {
        let what = format!("{}: encoders of models of type {model_type:?}", config_path.display());
        let encoder = encoder.map_or(String::new(), |encoder| format!(", with an encoder of type {encoder:?},"));
        return Err(Error::unsupported(format!("{what}{encoder} are not supported")));
    };
    let members = |path, json| Members::new(path, json, &Json::Null);
    let mut c = Config {
        kind,
        top: members(&config_path, &config),
        vision: members(&config_path, vision),
        pixels: members(&pixels_path, pixels),
        pixels_path: &pixels_path,
        keys: Vec::new(),
        deepstack: Vec::new(),
    };
    let string = |key: &str, value: &str| (key.to_owned(), Value::from(value.to_owned()));
    c.keys.extend([string("general.architecture", "clip"), string("clip.projector_type", kind.projector)]);
    c.keys.push(("clip.has_vision_encoder".into(), true.into()));
    common(&mut c)?;
    (kind.extras)(&mut c)?;
    let passed = RefCell::new(Passed::default());
    known::check_encoder(&c.vision, EFFECTLESS, NEUTRAL, &passed)?;
    known::check_encoder(&c.pixels, PIXELS_EFFECTLESS, PIXELS_NEUTRAL, &passed)?;
    let Weights { files: set, entries, instead } = weights::find(files, folder, None)?;
    let tensors = encoder_names::translate(folder, kind.projector, &c.deepstack, entries)?;
    let mut passed = passed.into_inner();
    passed.weights = instead;
    let metadata = Metadata::new(folder, c.keys)?;
    Ok(Contents { format: FileFormat::Safetensors, metadata, files: set, tensors, passed })
}
