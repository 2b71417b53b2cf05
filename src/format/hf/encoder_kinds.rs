//! The kinds of vision encoders, and their keys that are not plain translations.

use super::encoder_config::{Config, Kind};
use super::encoder_llava::{clip, llava, llava_next};
use super::translator::MAX_LAYERS;
use crate::error::Result;
use crate::format::json::Json;
use crate::format::value::whole;

const CLIP: &str = "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=32 \
                    image_size=224 layer_norm_eps=1e-5";

const SIGLIP: &str = "hidden_size=1152 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=16 patch_size=32 \
                      image_size=224 layer_norm_eps=1e-6";

const SIGLIP_BASE: &str = "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 \
                           patch_size=16 image_size=224 layer_norm_eps=1e-6";

const PIXTRAL: &str = "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 patch_size=16 \
                       layer_norm_eps=1e-5 rope_theta=10000 image_size=1024";

const KIMI: &str = "hidden_size=1152 intermediate_size=4304 num_hidden_layers=27 num_attention_heads=16 patch_size=14 \
                    layer_norm_eps=1e-5 init_pos_emb_height=64 init_pos_emb_width=64";

const QWEN25_DEFAULTS: &str = "hidden_size=3584 intermediate_size=3420 depth=32 num_heads=16 patch_size=14 \
     layer_norm_eps=1e-6 spatial_merge_size=2 window_size=112";

/// Common defaults.
const BASE: Kind = Kind {
    model_types: &[],
    encoder: None,
    projector: "",
    defaults: "",
    activations: &["gelu_pytorch_tanh"],
    resample: 3,
    extras: |_| Ok(()),
};

/// All kinds; kinds of the same `model_type` are tried in this order.
pub const KINDS: &[Kind] = &[
    Kind {
        model_types: &["idefics3", "smolvlm"],
        projector: "idefics3",
        defaults: SIGLIP,
        resample: 1,
        extras: idefics3,
        ..BASE
    },
    Kind { model_types: &["gemma3"], projector: "gemma3", defaults: SIGLIP, resample: 2, extras: gemma3, ..BASE },
    Kind {
        model_types: &["gemma4"],
        projector: "gemma4v",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=16 num_attention_heads=12 patch_size=16 \
                   rms_norm_eps=1e-6 pooling_kernel_size=3",
        extras: gemma4,
        ..BASE
    },
    Kind {
        model_types: &["gemma4_unified"],
        projector: "gemma4uv",
        // There are no layers.
        defaults: "mm_embed_dim=3840 intermediate_size=1 num_hidden_layers=1 num_attention_heads=1 patch_size=16 \
                   rms_norm_eps=1e-6 pooling_kernel_size=3",
        extras: gemma4,
        ..BASE
    },
    Kind {
        model_types: &["lfm2_vl"],
        projector: "lfm2",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=16 \
                   num_patches=256 layer_norm_eps=1e-6",
        resample: 2,
        extras: lfm2,
        ..BASE
    },
    Kind {
        model_types: &["lighton_ocr"],
        projector: "lightonocr",
        defaults: PIXTRAL,
        activations: &["silu", "gelu"],
        extras: pixtral,
        ..BASE
    },
    Kind {
        model_types: &["glm4v", "glm4v_moe"],
        projector: "glm4v",
        defaults: "hidden_size=1536 intermediate_size=13696 depth=24 num_heads=12 patch_size=14 rms_norm_eps=1e-5 \
                   spatial_merge_size=2",
        activations: &["silu"],
        extras: glm4v,
        ..BASE
    },
    Kind {
        model_types: &["glm5_next"],
        projector: "glm5v",
        defaults: "hidden_size=1024 intermediate_size=4096 depth=24 num_heads=16 patch_size=14 rms_norm_eps=1e-5 \
                   spatial_merge_size=2",
        activations: &["silu"],
        extras: glm5_next,
        ..BASE
    },
    Kind {
        model_types: &["paddleocr_vl"],
        projector: "paddleocr",
        defaults: "hidden_size=1152 intermediate_size=4304 num_hidden_layers=27 num_attention_heads=16 patch_size=14 \
                   layer_norm_eps=1e-6 spatial_merge_size=2",
        extras: paddleocr,
        ..BASE
    },
    Kind {
        model_types: &["clip"],
        projector: "clip",
        defaults: CLIP,
        activations: &["quick_gelu", "gelu"],
        extras: clip,
        ..BASE
    },
    Kind {
        model_types: &["siglip"],
        projector: "siglip",
        defaults: SIGLIP_BASE,
        activations: &["gelu_pytorch_tanh", "gelu"],
        extras: siglip,
        ..BASE
    },
    Kind {
        model_types: &["siglip2"],
        projector: "siglip",
        defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 patch_size=16 \
                   layer_norm_eps=1e-6",
        activations: &["gelu_pytorch_tanh", "gelu"],
        resample: 2,
        extras: siglip2,
        ..BASE
    },
    Kind { model_types: &["kimi_vl"], projector: "kimivl", defaults: KIMI, extras: kimi, ..BASE },
    Kind { model_types: &["kimi_k25"], projector: "kimik25", defaults: KIMI, extras: kimi, ..BASE },
    Kind {
        model_types: &["dots_ocr"],
        projector: "dots_ocr",
        defaults: "embed_dim=1536 intermediate_size=4224 num_hidden_layers=42 num_attention_heads=12 patch_size=14 \
                   rms_norm_eps=1e-5 spatial_merge_size=2 temporal_patch_size=1",
        activations: &["silu"],
        extras: dots,
        ..BASE
    },
    Kind {
        model_types: &["llava"],
        encoder: Some("clip_vision_model"),
        projector: "mlp",
        defaults: CLIP,
        activations: &["quick_gelu", "gelu"],
        extras: llava,
        ..BASE
    },
    Kind {
        model_types: &["llava"],
        encoder: Some("siglip_vision_model"),
        projector: "mlp",
        defaults: SIGLIP_BASE,
        activations: &["gelu_pytorch_tanh", "gelu"],
        extras: llava,
        ..BASE
    },
    Kind {
        model_types: &["llava_next"],
        encoder: Some("clip_vision_model"),
        projector: "mlp",
        defaults: CLIP,
        activations: &["quick_gelu", "gelu"],
        extras: llava_next,
        ..BASE
    },
    Kind {
        model_types: &["llama4"],
        projector: "llama4",
        defaults: "hidden_size=768 intermediate_size=5632 num_hidden_layers=34 num_attention_heads=16 patch_size=14 \
                   image_size=448 layer_norm_eps=1e-5",
        activations: &["gelu"],
        resample: 2,
        extras: llama4,
        ..BASE
    },
    Kind {
        model_types: &["minicpmv", "minicpmo"],
        projector: "resampler",
        defaults: SIGLIP_BASE,
        extras: minicpm,
        ..BASE
    },
    Kind {
        model_types: &["llava"],
        encoder: Some("pixtral"),
        projector: "pixtral",
        defaults: PIXTRAL,
        activations: &["gelu", "silu"],
        extras: pixtral,
        ..BASE
    },
    Kind {
        model_types: &["mistral3"],
        projector: "pixtral",
        defaults: PIXTRAL,
        activations: &["gelu", "silu"],
        extras: pixtral,
        ..BASE
    },
    Kind {
        model_types: &["internvl"],
        projector: "internvl",
        defaults: "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 patch_size=14 \
                   image_size=448 layer_norm_eps=1e-6",
        activations: &["gelu"],
        extras: internvl,
        ..BASE
    },
    Kind {
        model_types: &["internvl_chat"],
        projector: "internvl",
        defaults: "hidden_size=3200 intermediate_size=12800 num_hidden_layers=48 num_attention_heads=25 patch_size=14 \
                   image_size=224 layer_norm_eps=1e-6",
        activations: &["gelu"],
        extras: internvl_chat,
        ..BASE
    },
    Kind {
        model_types: &["qwen2_vl"],
        projector: "qwen2vl_merger",
        defaults: "embed_dim=1280 mlp_ratio=4 depth=32 num_heads=16 patch_size=14 layer_norm_eps=1e-6 \
                   spatial_merge_size=2",
        activations: &["quick_gelu"],
        extras: qwen,
        ..BASE
    },
    Kind {
        model_types: &["qwen2_5_vl"],
        projector: "qwen2.5vl_merger",
        defaults: QWEN25_DEFAULTS,
        activations: &["silu"],
        extras: qwen,
        ..BASE
    },
    Kind {
        model_types: &["qwen2_5_omni", "qwen2_5_omni_thinker"],
        projector: "qwen2.5o",
        defaults: QWEN25_DEFAULTS,
        activations: &["silu"],
        extras: qwen,
        ..BASE
    },
    Kind {
        model_types: &[
            "qwen3_vl",
            "qwen3_vl_moe",
            "qwen3_5",
            "qwen3_5_moe",
            "qwen3_omni_moe",
            "qwen3_omni_moe_thinker",
        ],
        projector: "qwen3vl_merger",
        defaults: "hidden_size=1152 intermediate_size=4304 depth=27 num_heads=16 patch_size=16 layer_norm_eps=1e-6 \
                   spatial_merge_size=2 num_position_embeddings=2304",
        extras: qwen,
        ..BASE
    },
];

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
        if c.pixels.int(&[name])?.is_some_and(|declared| declared != n) {
            return Err(c.pixels.unsupported(&format!("{name:?} with another value than that of the encoder")));
        }
    }
    let rows = c.pixels.int(&["max_soft_tokens"])?.unwrap_or(280);
    let base = c.rotary_base()?.unwrap_or(100.0);
    if c.kind.projector == "gemma4v" {
        let (width, heads) = (c.require(&["hidden_size"])?, c.require(&["num_attention_heads"])?);
        let declared = c.vision.int(&["head_dim"])?.unwrap_or(64).checked_mul(heads);
        if declared != Some(width) || c.vision.int(&["num_key_value_heads"])?.is_some_and(|n| n != heads) {
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

/// Tiles, and bounds in rows.
fn lfm2(c: &mut Config) -> Result<()> {
    c.expect_last_layer("default")?;
    let (merge, patch) = (c.top.int(&["downsample_factor"])?.unwrap_or(2), c.require(&["patch_size"])?);
    if c.pixels.int(&["encoder_patch_size"])?.is_some_and(|declared| declared != patch)
        || c.pixels.int(&["downsample_factor"])?.is_some_and(|declared| declared != merge)
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
    c.bounds(2, "spatial_merge_size")?;
    c.expect_rotation()
}

/// Bounds are numbers of rows.
fn glm5_next(c: &mut Config) -> Result<()> {
    let (patch, merge) = (c.require(&["patch_size"])?, c.require(&["spatial_merge_size"])?);
    for (name, n) in [("patch_size", patch), ("merge_size", merge)] {
        if c.pixels.int(&[name])?.is_some_and(|declared| declared != n) {
            return Err(c.pixels.unsupported(&format!("{name:?} with another value than that of the encoder")));
        }
    }
    if c.pixels.int(&["patch_expand_factor"])?.is_some_and(|n| n != 1) {
        return Err(c.pixels.unsupported("\"patch_expand_factor\" with another value than 1"));
    }
    if c.vision.bool(&["attention_bias"])? == Some(false) {
        return Err(c.vision.unsupported("\"attention_bias\" with the value false"));
    }
    let area = patch.saturating_mul(merge).saturating_pow(2);
    for (key, name, rows) in
        [("image_min_pixels", "min_image_tokens", 16), ("image_max_pixels", "max_image_tokens", 8000)]
    {
        c.set(key, c.pixels.int(&[name])?.unwrap_or(rows).saturating_mul(area));
    }
    c.set("spatial_merge_size", merge);
    c.set("swiglu_clamp", c.vision.number(&["swiglu_limit"])?.unwrap_or(10.0));
    c.expect_rotation()
}

fn paddleocr(c: &mut Config) -> Result<()> {
    c.bounds(1, "spatial_merge_size")?;
    c.expect_rotation()
}

fn siglip(c: &mut Config) -> Result<()> {
    if c.vision.bool(&["vision_use_head"])? == Some(false) {
        return Err(c.vision.unsupported("\"vision_use_head\" with the value false"));
    }
    let side = c.require(&["image_size"])?;
    if c.side("size", "height")?.is_some_and(|height| height != side) {
        return Err(c.pixels.unsupported("\"size\" with another value than \"image_size\""));
    }
    c.set("image_size", side);
    Ok(())
}

/// Images at their aspect ratio, with the maximum number of patches.
fn siglip2(c: &mut Config) -> Result<()> {
    if c.vision.bool(&["vision_use_head"])? == Some(false) {
        return Err(c.vision.unsupported("\"vision_use_head\" with the value false"));
    }
    if c.pixels.int(&["patch_size"])?.unwrap_or(16) != c.require(&["patch_size"])? {
        return Err(c.pixels.unsupported("\"patch_size\" with another value than that of the encoder"));
    }
    let most = c.pixels.int(&["max_num_patches"])?.unwrap_or(256);
    c.set("max_patches", most);
    Ok(())
}

/// Kimi-VL and Kimi K2.5, with bounds in patches.
fn kimi(c: &mut Config) -> Result<()> {
    let is_old = c.kind.projector == "kimivl";
    let sides = ["init_pos_emb_height", "init_pos_emb_width"];
    let [height, width] = [c.require(&[sides[0], "pos_emb_height"])?, c.require(&[sides[1], "pos_emb_width"])?];
    if height != width {
        return Err(c.vision.unsupported("places of a grid that is no square"));
    }
    for (name, expected) in [
        ("pos_emb_type", "divided_fixed"),
        ("merge_type", "sd2_tpool"),
        ("mm_projector_type", "patchmerger"),
        ("projector_hidden_act", "gelu"),
    ] {
        if let Some(declared) = c.vision.text(&[name])?.filter(|declared| *declared != expected) {
            return Err(c.vision.unsupported(&format!("{name:?} with the value {declared:?}")));
        }
    }
    let epsilons = [c.vision.number(&["projector_ln_eps"])?, c.top.number(&["projection_layer_norm_eps"])?];
    if epsilons.into_iter().flatten().any(|epsilon| epsilon != 1e-5) {
        return Err(c.vision.unsupported("a projector whose norm has another epsilon than 1e-5"));
    }
    let merges = [c.vision.find(&["merge_kernel_size"]), c.pixels.find(&["merge_kernel_size", "merge_size"])];
    // One side, or both.
    let merge = |value: &Json| match value.as_array() {
        Some([a, b]) if a == b => a.as_u64(),
        _ => value.as_u64(),
    };
    let [of_encoder, of_pixels] = merges.map(|found| found.map_or(Some(2), |(_, value)| merge(value)));
    let patch = c.require(&["patch_size"])?;
    let Some(merge) = of_encoder.filter(|n| of_pixels == Some(*n)) else {
        return Err(c.vision.unsupported("blocks that are no squares, or others of the pixels"));
    };
    if c.pixels.int(&["patch_size"])?.unwrap_or(14) != patch {
        return Err(c.pixels.unsupported("\"patch_size\" with another value than that of the encoder"));
    }
    if is_old && c.pixels.bool(&["pad_input"])? != Some(true) {
        return Err(c.pixels.unsupported("pictures whose borders are cut off (\"pad_input\")"));
    }
    let limits = ["in_token_limit", "in_patch_limit", "max_patches"];
    let most = c.pixels.int(&limits)?.unwrap_or(if is_old { 4096 } else { 16_384 });
    let longest = c.pixels.int(&["patch_limit_on_one_side"])?.or(c.side("size", "max_height")?).unwrap_or(512);
    c.set("projector.scale_factor", merge);
    c.set("image_max_pixels", most.saturating_mul(patch.saturating_mul(patch)));
    c.set("max_side_patches", longest);
    c.expect_rotation()
}

fn dots(c: &mut Config) -> Result<()> {
    for (name, value, expected) in
        [("post_norm", c.vision.bool(&["post_norm"])?, true), ("is_causal", c.vision.bool(&["is_causal"])?, false)]
    {
        if value.is_some_and(|value| value != expected) {
            return Err(c.vision.unsupported(&format!("{name:?} with the value {}", !expected)));
        }
    }
    if c.require(&["temporal_patch_size"])? != 1 {
        return Err(c.vision.unsupported("pictures of several frames"));
    }
    c.bounds(1, "projector.scale_factor")
}

/// The authors' norms have an epsilon of their own, whatever `norm_eps` says.
fn llama4(c: &mut Config) -> Result<()> {
    let ratio = c.vision.number(&["pixel_shuffle_ratio"])?.unwrap_or(0.5);
    let (side, tiles) = (c.require(&["image_size"])?, c.pixels.int(&["max_patches"])?.unwrap_or(16));
    if c.side("size", "height")?.is_some_and(|height| height != side) {
        return Err(c.pixels.unsupported("\"size\" with another value than \"image_size\""));
    }
    let base = c.rotary_base()?.unwrap_or(10_000.0);
    c.set("projector.scale_factor", whole(1.0 / ratio).unwrap_or(0));
    c.set("preproc_max_tiles", tiles);
    c.set("image_size", side);
    c.set("rope.freq_base", base);
    Ok(())
}

/// Versions before 2.6, which their folders may not declare, have other tokens between slices.
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
    let base = c.rotary_base()?.or(c.default(&["rope_theta"]));
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

/// The first form of InternVL's folders, where the model's configuration describes the tiles.
fn internvl_chat(c: &mut Config) -> Result<()> {
    let ratio = c.top.number(&["downsample_ratio"])?.unwrap_or(0.5);
    let tiles = [c.top.int(&["min_dynamic_patch"])?.unwrap_or(1), c.top.int(&["max_dynamic_patch"])?.unwrap_or(12)];
    let side = c.require(&["image_size"])?;
    for (name, declared, expected) in [
        ("select_layer", c.top.find(&["select_layer"]).map(|(_, value)| value), Json::Int(-1)),
        ("ps_version", c.top.find(&["ps_version"]).map(|(_, value)| value), Json::Str("v2".into())),
        ("dynamic_image_size", c.top.find(&["dynamic_image_size"]).map(|(_, value)| value), Json::Bool(true)),
        ("use_thumbnail", c.top.find(&["use_thumbnail"]).map(|(_, value)| value), Json::Bool(true)),
    ] {
        if let Some(declared) = declared.filter(|declared| **declared != expected) {
            return Err(c.top.unsupported(&format!("{name:?} with the value {declared}")));
        }
    }
    c.pixels.skip(&["crop_size"]);
    c.set("projector.scale_factor", whole(1.0 / ratio).unwrap_or(0));
    c.set("preproc_min_tiles", tiles[0]);
    c.set("preproc_max_tiles", tiles[1]);
    c.set("image_size", side);
    Ok(())
}

/// Qwen 2, 2.5 and 3. Bounds are areas in pixels, whatever their names suggest.
fn qwen(c: &mut Config) -> Result<()> {
    c.bounds(1, "spatial_merge_size")?;
    c.expect_rotation()?;
    let (patch, layers) = (c.require(&["patch_size"])?, c.require(&["depth"])?);
    if c.kind.projector != "qwen2.5o" {
        video(c)?;
    }
    let numbers = |c: &Config, name: &str| -> Result<Vec<u64>> {
        let list = c.vision.list(&[name])?.unwrap_or_default();
        let numbers: Option<Vec<u64>> = list.iter().map(|n| n.as_u64().filter(|n| *n < layers)).collect();
        let numbers = numbers.filter(|numbers| numbers.len() as u64 <= layers.min(MAX_LAYERS));
        numbers.ok_or_else(|| c.vision.wrong(name, "numbers of layers"))
    };
    if c.kind.projector.starts_with("qwen2.5") {
        if let Some(per_second) = c.vision.number(&["tokens_per_second"])? {
            c.set("tokens_per_second", per_second);
        }
        let window = c.require(&["window_size"])?;
        let full = numbers(c, "fullatt_block_indexes")?;
        c.set("window_size", window);
        c.set("wa_layer_indexes", full.iter().filter_map(|n| i64::try_from(*n).ok()).collect::<Vec<i64>>());
    }
    if c.kind.projector == "qwen3vl_merger" {
        let positions = c.require(&["num_position_embeddings"])?;
        c.deepstack = numbers(c, "deepstack_visual_indexes")?;
        let is_deep = |layer: u64| i64::from(c.deepstack.contains(&layer));
        let is_deep = (0..layers.min(MAX_LAYERS)).map(is_deep).collect::<Vec<i64>>();
        c.set("is_deepstack_layers", is_deep);
        c.set("image_size", positions.isqrt().saturating_mul(patch));
    }
    Ok(())
}

/// Bounds of videos, and their colors, which must be the images'.
fn video(c: &mut Config) -> Result<()> {
    let Some(video) = &c.video else { return Ok(()) };
    let size = |name: &str, member: &str| -> Result<u64> {
        let declared = video.int(&[name])?.or_else(|| video.find(&["size"])?.1.get(member)?.as_u64());
        declared.ok_or_else(|| video.wrong("size", &format!("an object with {member}")))
    };
    let (least, most) = (size("min_pixels", "shortest_edge")?, size("max_pixels", "longest_edge")?);
    let of_pictures = |name: &str| video.unsupported(&format!("{name:?} with another value than that of pictures"));
    for name in ["image_mean", "image_std"] {
        if video.list(&[name])? != c.pixels.list(&[name])? {
            return Err(of_pictures(name));
        }
    }
    let [frames, pixels] = [video, &c.pixels].map(|part| part.int(&["resample"]).map(|n| n.unwrap_or(c.kind.resample)));
    if frames? != pixels? {
        return Err(of_pictures("resample"));
    }
    c.set("video_min_pixels", least);
    c.set("video_max_pixels", most);
    Ok(())
}
