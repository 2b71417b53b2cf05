//! The vision encoder of a model folder, under the keys and names of a GGUF file of its own (`clip`). Rejects each key
//! of its configuration, and of the image processor's, that is neither translated nor in the tables here.
//!
//! Eleven keys are this library's own. `clip.vision.hidden_act`: activation function, by its name here.
//! `clip.vision.resample`: Pillow's number of the filter. `clip.vision.rope.freq_base`: of 2D RoPE.
//! `clip.vision.max_rows`: rows of an image in Gemma 4. `clip.vision.split_pixels`: larger images are tiled (LFM2).
//! `clip.vision.max_patches`: patches of an image in SigLIP 2. `clip.vision.max_side_patches`: patches of a side in
//! Kimi. `clip.vision.video_min_pixels`, `video_max_pixels`: bounds of a frame, or of all frames together in Qwen3-VL.
//! `clip.vision.tokens_per_second`: time positions per second in Qwen2.5-VL. `clip.vision.fit`: LLaVA's "crop",
//! "stretch" or "pad".

use std::cell::RefCell;
use std::path::Path;

use super::encoder_checks;
use super::encoder_config::{Config, Kind, Part, Place};
use super::encoder_kinds::KINDS;
use super::encoder_names;
use super::folder::{MAX_CONFIG, read};
use super::known;
use super::members::Members;
use super::sound;
use super::weights::{self, Weights};
use crate::error::{Error, Result};
use crate::format::Value;
use crate::format::contents::{Contents, FileFormat, append};
use crate::format::file::Files;
use crate::format::json::Json;
use crate::format::metadata::Metadata;
use crate::format::passed::Passed;
use crate::format::value::{narrow, whole};

/// Keys of an encoder, and of its pixels, without effect.
const EFFECTLESS: &str = "model_type projection_dim out_hidden_size vocab_size tokens_per_second spatial_patch_size \
     vision_use_head max_image_size size use_base_siglip drop_path_rate use_mean_pooling layer_scale_init_value \
     layer_scale_init use_mask_token use_qk_norm head_dim hidden_size image_size img_size num_position_embeddings \
     is_composition tie_word_embeddings projection_dropout norm_type in_channels in_chans num_channels \
     use_clipped_linears standardize position_embedding_size mm_posemb_size output_proj_dims \
     max_position_embeddings num_patches qk_normalization qkv_bias use_flash_attn initializer_factor dropout \
     default_output_length global_head_dim norm_eps vision_output_dim projector_input_dim projector_output_dim \
     projector_dropout init_pos_emb_time pos_emb_time video_attn_type mm_hidden_size text_hidden_size \
     init_merger_std projection_intermediate_size";
const PIXELS_EFFECTLESS: &str = "image_processor_type processor_class feature_extractor_type do_convert_rgb do_pad pad_size \
     image_seq_length data_format input_data_format return_tensors device disable_grouping default_to_square \
     temporal_patch_size merge_size patch_size min_patches max_patches crop_to_patches size max_image_size \
     num_image_tokens image_token max_image_tokens video_sampling do_sample_frames fps num_frames return_row_col_info \
     pan_and_scan_min_crop_size pan_and_scan_max_num_crops pan_and_scan_min_ratio_to_activate do_image_splitting \
     max_num_patches aspect_ratio_setting use_image_id im_id_start im_id_end unk version num_pooled_tokens \
     in_patch_limit_each_frame in_patch_limit_video sample_fps max_num_frames_each_video temporal_merge_kernel_size \
     timestamp_mode";
/// Keys of the video configuration without effect: the host's frame sampling, and a bound that the caller sets here.
const VIDEO_EFFECTLESS: &str = "video_processor_type video_metadata min_frames max_frames max_video_tokens \
     cap_pixels_per_frame use_token_compression return_metadata";
/// Keys without effect if they have this value.
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

const LAYERS: &[&str] = &["num_hidden_layers", "depth", "vt_num_hidden_layers"];
const HEADS: &[&str] = &["num_attention_heads", "num_heads", "vt_num_attention_heads"];

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
    let width = c.require(&[widths.unwrap_or("hidden_size"), "vt_hidden_size"])?;
    let inner = match c.default(&["mlp_ratio"]) {
        Some(ratio) => whole(c.vision.number(&["mlp_ratio"])?.unwrap_or(ratio)).unwrap_or(0).saturating_mul(width),
        None => c.require(&["intermediate_size", "vt_intermediate_size"])?,
    };
    let (layers, heads) = (c.require(LAYERS)?, c.require(HEADS)?);
    let patch = c.require(&["patch_size"])?;
    let epsilons = ["layer_norm_eps", "rms_norm_eps"];
    let epsilon = c.vision.number(&epsilons)?.or(c.default(&epsilons)).unwrap_or(1e-6);
    let resample = c.pixels.int(&["resample"])?.unwrap_or(c.kind.resample);
    // Colors without normalization have mean 0 and deviation 1.
    let is_plain = c.pixels.bool(&["do_normalize"])? == Some(false);
    for (name, theirs, plain) in [("image_mean", "norm_mean", 0.0), ("image_std", "norm_std", 1.0)] {
        let list = c.pixels.list(&[name, theirs])?;
        let numbers: Option<Vec<f32>> = list.unwrap_or_default().iter().map(|x| x.as_f64().map(narrow)).collect();
        let numbers = if is_plain { Some(vec![plain; 3]) } else { numbers.filter(|list| list.len() == 3) };
        match numbers {
            Some(numbers) => c.set(name, Value::Floats(numbers)),
            // Only Gemma 4 may lack them.
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

/// Opens the encoders of a folder: the vision encoder, otherwise the audio encoder. Opens both for a model that also
/// generates speech.
pub fn open(files: Files, folder: &Path) -> Result<Contents> {
    let path = folder.join("config.json");
    let config = files.open(&path)?.read_all(MAX_CONFIG)?;
    let config = Json::parse_python(&path, &config)?;
    let model_type = config.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let thinker = config.get("thinker_config").or(model_type.ends_with("_thinker").then_some(&config));
    let model = thinker.unwrap_or(&config);
    let [has_vision, has_audio] = ["vision_config", "audio_config"].map(|part| model.get(part).is_some());
    let has_both = thinker.is_some() && has_vision && has_audio;
    let place = Place { files, folder, path: &path, model_type, config: model, has_both };
    let mut part = if has_vision { pictures(&place)? } else { sound::open(&place)? };
    if has_both {
        let audio = sound::open(&place)?;
        part.keys.extend(audio.keys);
        append(&mut part.tensors, audio.tensors, folder)?;
        part.passed.notes.extend(audio.passed.notes);
        part.passed.unknown.extend(audio.passed.unknown);
        part.passed.n_unknown += audio.passed.n_unknown;
    }
    part.keys.push(("general.architecture".into(), Value::from("clip".to_owned())));
    let Part { keys, files, tensors, passed } = part;
    Ok(Contents { format: FileFormat::Safetensors, metadata: Metadata::new(folder, keys)?, files, tensors, passed })
}

/// Returns the vision encoder.
fn pictures(place: &Place) -> Result<Part> {
    let Place { files, folder, path: config_path, model_type, config, has_both } = *place;
    let processor = folder.join("processor_config.json");
    let (pixels_path, text) = match read(files, &folder.join("preprocessor_config.json"), MAX_CONFIG)? {
        Some(text) => (folder.join("preprocessor_config.json"), text),
        None => {
            let text = files.open(&processor)?.read_all(MAX_CONFIG)?;
            (processor, text)
        }
    };
    let processors = Json::parse_python(&pixels_path, &text)?;
    let pixels = processors.get("image_processor").or(processors.get("media_proc_cfg")).unwrap_or(&processors);
    let video_path = folder.join("video_preprocessor_config.json");
    let video_text = read(files, &video_path, MAX_CONFIG)?;
    let video = video_text.as_deref().map(|text| Json::parse_python(&video_path, text)).transpose()?;
    let (video_path, video) = match (&video, processors.get("video_processor")) {
        (None, within) => (&pixels_path, within),
        (video, _) => (&video_path, video.as_ref()),
    };
    let Some(vision) = config.get("vision_config") else {
        return Err(Error::unsupported(format!("{} has no vision_config and no encoder", config_path.display())));
    };
    let encoder = vision.get("model_type").and_then(Json::as_str);
    let is_kind = |kind: &&Kind| {
        kind.model_types.contains(&model_type)
            && kind.encoder.is_none_or(|name| encoder.is_none_or(|declared| declared == name))
    };
    let Some(kind) = KINDS.iter().find(is_kind) else {
        let what = format!("{}: encoders of models of type {model_type:?}", config_path.display());
        let encoder = encoder.map_or(String::new(), |encoder| format!(", with an encoder of type {encoder:?},"));
        return Err(Error::unsupported(format!("{what}{encoder} are not supported")));
    };
    let members = |path, json| Members::new(path, json, &Json::Null);
    let mut c = Config {
        kind,
        top: members(config_path, config),
        vision: members(config_path, vision),
        pixels: members(&pixels_path, pixels),
        pixels_path: &pixels_path,
        video: video.map(|video| members(video_path, video)),
        keys: Vec::new(),
        deepstack: Vec::new(),
    };
    c.keys.push(("clip.vision.projector_type".into(), Value::from(kind.projector.to_owned())));
    c.keys.push(("clip.has_vision_encoder".into(), true.into()));
    common(&mut c)?;
    (kind.extras)(&mut c)?;
    encoder_checks::check(&c)?;
    if has_both {
        c.pixels.skip(sound::OF_SPECTROGRAMS);
    }
    let passed = RefCell::new(Passed::default());
    known::check_encoder(&c.vision, EFFECTLESS, NEUTRAL, &passed)?;
    known::check_encoder(&c.pixels, PIXELS_EFFECTLESS, PIXELS_NEUTRAL, &passed)?;
    // Other families have no video input.
    if let Some(video) = c.video.as_ref().filter(|_| c.keys.iter().any(|(key, _)| key.ends_with("video_max_pixels"))) {
        known::check_encoder(video, &format!("{PIXELS_EFFECTLESS} {VIDEO_EFFECTLESS}"), PIXELS_NEUTRAL, &passed)?;
    }
    let Weights { files, entries, instead } = weights::find(files, folder, None)?;
    let tensors = encoder_names::translate(folder, kind.projector, &c.deepstack, entries)?;
    encoder_checks::check_tensors(&c, &tensors)?;
    let passed = Passed { weights: instead, ..passed.into_inner() };
    Ok(Part { keys: c.keys, files, tensors, passed })
}

#[cfg(test)]
#[test]
fn tables_of_encoders_parse() {
    use super::lists::checks;

    for kind in KINDS {
        assert_eq!(checks::numbers(kind.defaults), Ok(()), "{:?}", kind.model_types);
    }
    for list in [EFFECTLESS, PIXELS_EFFECTLESS, VIDEO_EFFECTLESS] {
        assert_eq!(checks::names(list), Ok(()));
    }
    for table in [NEUTRAL, PIXELS_NEUTRAL] {
        assert_eq!(checks::values(table), Ok(()));
    }
}
