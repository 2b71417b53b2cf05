//! The audio encoder of a folder, under the keys and names of a GGUF file of its own, like the vision encoder in
//! `encoder`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::encoder_config::{Part, Place};
use super::folder::{MAX_CONFIG, read};
use super::known;
use super::members::Members;
use super::weights::{self, Weights};
use crate::error::{Error, Result, try_vec};
use crate::format::contents::owned;
use crate::format::json::Json;
use crate::format::passed::Passed;
use crate::format::safetensors::Entry;
use crate::format::{TensorInfo, Value};

/// `model_type` of a configuration, and `clip.projector_type` of a GGUF file.
const KINDS: &[(&str, &str)] = &[
    ("qwen2_audio", "qwen2a"),
    ("qwen2_5_omni", "qwen2.5o"),
    ("qwen2_5_omni_thinker", "qwen2.5o"),
    ("qwen3_asr", "qwen3a"),
    ("qwen3_omni_moe", "qwen3a"),
    ("qwen3_omni_moe_thinker", "qwen3a"),
    ("voxtral", "voxtral"),
    ("ultravox", "ultravox"),
];

/// Keys about spectrograms in a file that describes pixels too, and those about pixels.
pub(super) const OF_SPECTROGRAMS: &[&str] = &[
    "chunk_length",
    "dither",
    "feature_extractor_type",
    "feature_size",
    "hop_length",
    "n_fft",
    "n_samples",
    "nb_max_frames",
    "padding_side",
    "padding_value",
    "return_attention_mask",
    "sampling_rate",
];
const OF_PIXELS: &[&str] = &[
    "do_convert_rgb",
    "do_normalize",
    "do_rescale",
    "do_resize",
    "image_mean",
    "image_processor_type",
    "image_std",
    "max_pixels",
    "merge_size",
    "min_pixels",
    "patch_size",
    "resample",
    "rescale_factor",
    "size",
    "temporal_patch_size",
];

/// Numbers of an encoder: the GGUF key, the names in a configuration, and the defaults of Whisper and Qwen3.
const NUMBERS: [(&str, &[&str], [u64; 2]); 5] = [
    ("embedding_length", &["d_model", "hidden_size"], [1280, 1024]),
    ("feed_forward_length", &["encoder_ffn_dim", "intermediate_size"], [5120, 4096]),
    ("block_count", &["encoder_layers", "num_hidden_layers"], [32, 24]),
    ("attention.head_count", &["encoder_attention_heads", "num_attention_heads"], [20, 16]),
    ("num_mel_bins", &["num_mel_bins"], [128; 2]),
];

/// Keys of an encoder, and of its spectrogram, without effect.
const EFFECTLESS: &str = "model_type vocab_size encoder_layerdrop layerdrop dropout activation_dropout \
                          attention_dropout init_std initializer_range num_hidden_layers output_dim \
                          downsample_hidden_size max_position_embeddings conv_chunksize \
                          apply_spec_augment classifier_proj_size decoder_attention_heads decoder_ffn_dim \
                          decoder_layerdrop decoder_layers decoder_start_token_id is_encoder_decoder \
                          mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length \
                          mask_time_min_masks mask_time_prob max_target_positions median_filter_length \
                          use_weighted_layer_sum";
const FRAMES_EFFECTLESS: &str = "feature_extractor_type processor_class return_attention_mask padding_side \
                                 padding_value chunk_length nb_max_frames";
/// Keys without effect if they have this value.
const NEUTRAL: &[(&str, &str, &str)] = &[
    ("scale_embedding", "false", "frames times the root of their width"),
    ("n_window_infer", "800", "windows of another length"),
];
const FRAMES_NEUTRAL: &[(&str, &str, &str)] = &[
    ("sampling_rate", "16000", "another rate"),
    ("hop_length", "160", "frames at another distance"),
    ("n_fft", "400", "windows of another length"),
    ("dither", "0.0", "noise that is added"),
    ("do_normalize", "false", "samples that are normalized"),
    ("n_window", "50", "chunks of another length"),
];

/// Prefixes of tensor names; next, modules of a layer, outside of layers, and of projectors.
const ENCODER: &str = "audio_tower.";
const PROJECTOR: &str = "multi_modal_projector.";
const LAYER: &[(&str, &str)] = &[
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.out_proj", "attn_out"),
    ("self_attn_layer_norm", "ln1"),
    ("final_layer_norm", "ln2"),
    ("fc1", "ffn_up"),
    ("fc2", "ffn_down"),
];
const TOP: &[(&str, &str)] = &[
    ("audio_tower.conv1", "a.conv1d.1"),
    ("audio_tower.conv2", "a.conv1d.2"),
    ("audio_tower.embed_positions", "a.position_embd"),
    ("audio_tower.layer_norm", "a.post_ln"),
    ("audio_tower.conv2d1", "a.conv2d.1"),
    ("audio_tower.conv2d2", "a.conv2d.2"),
    ("audio_tower.conv2d3", "a.conv2d.3"),
    ("audio_tower.conv_out", "a.conv_out"),
    ("audio_tower.ln_post", "a.post_ln"),
    ("audio_tower.proj", "mm.a.fc"),
    ("audio_tower.proj1", "mm.a.mlp.1"),
    ("audio_tower.proj2", "mm.a.mlp.2"),
    ("multi_modal_projector.ln_pre", "mm.a.norm_pre"),
    ("multi_modal_projector.ln_mid", "mm.a.norm_mid"),
    ("multi_modal_projector.linear", "mm.a.fc"),
    ("multi_modal_projector.linear_1", "mm.a.mlp.1"),
    ("multi_modal_projector.linear_2", "mm.a.mlp.2"),
];

/// Returns the file that describes spectrograms, and its text. Ultravox's processor uses Whisper's.
fn spectrograms(place: &Place, projector: &str) -> Result<(PathBuf, Vec<u8>)> {
    let path = place.folder.join("preprocessor_config.json");
    match read(place.files, &path, MAX_CONFIG)? {
        Some(text) => Ok((path, text)),
        None if projector == "ultravox" => Ok((path, b"{}".to_vec())),
        None => {
            let path = place.folder.join("processor_config.json");
            let text = place.files.open(&path)?.read_all(MAX_CONFIG)?;
            Ok((path, text))
        }
    }
}

/// Sets what Ultravox has in addition to Whisper's encoder. Rejects versions before 0.5, whose norm is elsewhere.
fn ultravox(top: &Members, keys: &mut Vec<(String, Value)>) -> Result<()> {
    if let Some(other) = top.text(&["audio_model_id"])? {
        return Err(top.unsupported(&format!("an encoder of another folder (\"audio_model_id\": {other:?})")));
    }
    if top.bool(&["projector_ln_mid"])? != Some(true) {
        return Err(top.unsupported("a projector without \"projector_ln_mid\""));
    }
    if top.int(&["audio_latency_block_size"])?.is_some() {
        return Err(top.unsupported("sounds in blocks (\"audio_latency_block_size\")"));
    }
    let stack = top.int(&["stack_factor"])?.unwrap_or(8);
    keys.push(("clip.audio.projector.stack_factor".into(), stack.into()));
    Ok(())
}

/// Reads the audio encoder of a folder.
pub(super) fn open(place: &Place) -> Result<Part> {
    let Place { files, folder, path: config_path, model_type, config, has_both } = *place;
    let members = |path, json| Members::new(path, json, &Json::Null);
    let Some((_, projector)) = KINDS.iter().find(|kind| kind.0 == model_type) else {
        let what = format!("{}: encoders of sound of models of type {model_type:?}", config_path.display());
        return Err(Error::unsupported(format!("{what} are not supported")));
    };
    let (frames_path, text) = spectrograms(place, projector)?;
    let frames = Json::parse_python(&frames_path, &text)?;
    let frames = members(&frames_path, frames.get("feature_extractor").unwrap_or(&frames));
    let mut keys: Vec<(String, Value)> = vec![
        ("clip.audio.projector_type".into(), Value::from((*projector).to_owned())),
        ("clip.has_audio_encoder".into(), true.into()),
        // torch's default, which no configuration declares.
        ("clip.audio.attention.layer_norm_epsilon".into(), 1e-5f64.into()),
    ];
    let top = members(config_path, config);
    let audio = members(config_path, config.get("audio_config").unwrap_or(&Json::Null));
    let is_chunked = *projector == "qwen3a";
    // Half the frames of a chunk, or of a window. Qwen3-Omni has other defaults.
    let (window, is_omni) = (if is_chunked { 50 } else { 100 }, is_chunked && model_type != "qwen3_asr");
    let declared = audio.int(&["n_window"])?.or(is_omni.then_some(100));
    if declared.is_some_and(|n| n != window) || is_omni && audio.int(&["n_window_infer"])? != Some(800) {
        return Err(audio.unsupported("\"n_window\" or \"n_window_infer\" with another value than the published one"));
    }
    let number = |names: &[&str], [whole, chunked]: [u64; 2]| {
        let default = if is_chunked && !is_omni { chunked } else { whole };
        let declared = audio.int(names)?.unwrap_or(default);
        let name = names.first().unwrap_or(&"");
        if (1..=1 << 20).contains(&declared) { Ok(declared) } else { Err(audio.wrong(name, "a number from 1 to 2^20")) }
    };
    for (key, names, default) in NUMBERS {
        keys.push((format!("clip.audio.{key}"), number(names, default)?.into()));
    }
    // These must equal the others.
    for (key, name) in [("attention.head_count_kv", "num_key_value_heads"), ("attention.head_dim", "head_dim")] {
        if let Some(declared) = audio.int(&[name])? {
            keys.push((format!("clip.audio.{key}"), declared.into()));
        }
    }
    let [of_width, of_inner, .., of_bins] = NUMBERS;
    let [width, inner, bins] = [of_width, of_inner, of_bins].map(|row| number(row.1, row.2));
    if *projector == "voxtral" {
        // The stack is as wide as the feed-forward block.
        let (width, inner) = (width?, inner?);
        if !inner.is_multiple_of(width) {
            return Err(audio.unsupported("a feed-forward block that is no multiple of the width"));
        }
        keys.push(("clip.audio.projector.stack_factor".into(), (inner / width).into()));
    }
    if *projector == "ultravox" {
        ultravox(&top, &mut keys)?;
    }
    let expect = |members: &Members, name: &str, wanted: &str| match members.text(&[name])? {
        Some(declared) if declared != wanted => {
            Err(members.unsupported(&format!("{name:?} with the value {declared:?}")))
        }
        _ => Ok(()),
    };
    expect(&audio, "activation_function", "gelu")?;
    expect(&top, "projector_hidden_act", "gelu")?;
    expect(&top, "projector_act", "swiglu")?;
    // A part has two frames, of 160 samples each, per position of the encoder.
    let samples = number(&["max_source_positions"], [1500; 2])? * 320;
    if is_chunked && frames.int(&["min_length"])?.is_some_and(|n| n != 8000) {
        return Err(frames.unsupported("\"min_length\" with another value (short sounds of another length)"));
    }
    let declared = frames.int(&["n_samples"])?.filter(|_| ["qwen2a", "voxtral"].contains(projector));
    let bins = bins?;
    let feature_size = frames.int(&["feature_size"])?.or((*projector == "ultravox").then_some(bins));
    if declared.is_some_and(|n| n != samples) || feature_size != Some(bins) {
        return Err(frames.unsupported("\"n_samples\" or \"feature_size\" with another value than the encoder has"));
    }
    if has_both {
        frames.skip(OF_PIXELS);
    }
    let passed = RefCell::new(Passed::default());
    known::check_encoder(&audio, EFFECTLESS, NEUTRAL, &passed)?;
    known::check_encoder(&frames, FRAMES_EFFECTLESS, FRAMES_NEUTRAL, &passed)?;
    let Weights { files, entries, instead } = weights::find(files, folder, None)?;
    let passed = Passed { weights: instead, ..passed.into_inner() };
    Ok(Part { keys, files, tensors: translate(folder, &entries)?, passed })
}

/// Returns the tensors of an encoder and its projector, without the text model's.
fn translate(folder: &Path, entries: &[Entry]) -> Result<Vec<TensorInfo>> {
    let mut tensors = try_vec("tensors", entries.len())?;
    for entry in entries {
        let starts = ["model.", "thinker."];
        let name = starts.iter().find_map(|start| entry.name.strip_prefix(start)).unwrap_or(&entry.name);
        // Embeddings that the model does not use.
        let is_unused = name == "audio_tower.audio_bos_eos_token.weight";
        if !is_unused && [ENCODER, PROJECTOR].iter().any(|start| name.starts_with(start)) {
            let ours = named(name).map_or_else(|| owned(&entry.name), Ok)?;
            tensors.push(entry.tensor(folder, ours)?);
        }
    }
    Ok(tensors)
}

/// Returns the name of a tensor in a GGUF file.
fn named(name: &str) -> Option<String> {
    let look_up = |table: &[(&str, &'static str)], name: &str| table.iter().find(|row| row.0 == name).map(|row| row.1);
    let (part, leaf) = name.rsplit_once('.').filter(|(_, leaf)| ["weight", "bias"].contains(leaf))?;
    if let Some((layer, part)) = part.strip_prefix("audio_tower.layers.").and_then(|rest| rest.split_once('.')) {
        let number: u64 = layer.parse().ok().filter(|n: &u64| n.to_string() == layer)?;
        return Some(format!("a.blk.{number}.{}.{leaf}", look_up(LAYER, part)?));
    }
    Some(format!("{}.{leaf}", look_up(TOP, part)?))
}

#[cfg(test)]
#[test]
fn tables_of_sound_parse() {
    use super::lists::checks;

    for list in [EFFECTLESS, FRAMES_EFFECTLESS] {
        assert_eq!(checks::names(list), Ok(()));
    }
    for table in [NEUTRAL, FRAMES_NEUTRAL] {
        assert_eq!(checks::values(table), Ok(()));
    }
}
