//! Vision encoders, from GGUF files and folders, compared with an implementation in 64-bit floats (`data/README.md`).
//! Weights and images are derived from names and sizes.

mod contradictions;
mod hostile;

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use realizar::device::StepBudget;
use realizar::engine::{
    CacheParams, Cancel, Encoder, EncoderParams, Encoding, Media, MediaKind, Model, PictureBounds, Prompt, PromptPart,
    Run, Session, measure_picture, media_from_rows, saved::media as saved_media,
};
use realizar::error::Error;
use realizar::media::{Filter, Picture};
use realizar::quant;
use serde_json::Value;

use crate::media::{random_numbers, rounds};
use crate::support::gguf::Gguf;
use crate::support::models;
use crate::support::published::{numbers, weights};
use crate::support::safetensors;
pub use crate::support::vision::{
    FAMILIES, HIDDEN, bytes, data, gguf, hidden, load, model, model_with, off, off_case, picture, rows, sides, tensors,
};

/// Families whose text models have no folders that are read.
const WITHOUT_TEXT: [&str; 1] = ["minicpm"];
/// The folder of a family: its encoder, and the text model where that is asked for.
pub fn folder(data: &Value, with_text: bool) -> safetensors::Folder {
    let folder = safetensors::Folder::new(&data["config"].to_string());
    folder.put("preprocessor_config.json", data["pixels"].to_string());
    let mut tensors = tensors(data, "folder");
    for row in data["text"].as_array().unwrap().iter().filter(|_| with_text) {
        let (name, shape) = (row[0].as_str().unwrap(), numbers(&row[1]));
        tensors.push((name.to_owned(), shape.clone(), weights(name, &shape)));
    }
    let list: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, shape, values)| (&name[..], "F32", &shape[..], bytes(values))).collect();
    folder.put("model.safetensors", safetensors::file(&list));
    folder
}

/// The tokens around the rows of a picture with the numbers of rows between.
fn runs(encoder: &Encoder, picture: &Picture) -> Vec<Run> {
    let layout = encoder.facts().sizing.layout(picture.width, picture.height).unwrap();
    let mut runs: Vec<Run> = Vec::new();
    for run in encoder.runs(&layout).unwrap() {
        match (runs.last_mut(), run) {
            (Some(Run::Tokens(before)), Run::Tokens(tokens)) => before.extend(tokens),
            (Some(Run::Rows(before)), Run::Rows(n)) => *before += n,
            (_, run) => runs.push(run),
        }
    }
    runs
}

/// Returns the medium that is loaded from what is saved of one.
pub fn saved_and_loaded(model: &Arc<Model>, medium: &Media) -> Arc<Media> {
    let mut saved = Vec::new();
    let write = &mut |bytes: &[u8]| {
        saved.extend_from_slice(bytes);
        Ok(())
    };
    saved_media::save(model, medium, write).unwrap();
    let mut rest = &saved[..];
    let read = &mut |out: &mut [u8]| {
        let (bytes, behind) = rest.split_at(out.len());
        rest = behind;
        out.copy_from_slice(bytes);
        Ok(())
    };
    saved_media::load(model, read).unwrap()
}

/// Compares what an encoder makes of the pictures of a family.
pub fn check(what: &str, encoder: &Encoder, data: &Value) {
    for case in data["pictures"].as_array().unwrap() {
        let size = sides(&case["size"]);
        let picture = picture(size);
        let run = |run: &Value| match run.as_u64() {
            Some(n) => Run::Rows(n as usize),
            None => Run::Tokens(numbers(run).iter().map(|id| *id as u32).collect()),
        };
        let expected: Vec<Run> = case["runs"].as_array().unwrap().iter().map(run).collect();
        assert_eq!(runs(encoder, &picture), expected, "{what} {size:?}");
        let error = off_case(encoder, &rows(encoder, &picture), case);
        println!("{what:20} {size:?} {error:.1e}");
        assert!(error < 1e-5, "{what} {size:?}: {error:.1e}");
    }
}

#[test]
fn encoders_give_the_rows_of_another_implementation() {
    let at = tempfile::tempdir().unwrap();
    for &family in FAMILIES {
        let (data, model) = (data(family), model(at.path(), family, hidden(family)));
        let path = at.path().join("mmproj.gguf");
        fs::write(&path, gguf(&data).build().0).unwrap();
        let encoder = load(&model, &path).unwrap();
        check(&format!("{family} gguf"), &encoder, &data);
        assert_eq!(encoder.facts().is_grid, family.starts_with("qwen") || ["glm4v", "paddleocr"].contains(&family));
        let folder = folder(&data, false);
        check(&format!("{family} folder"), &load(&model, folder.0.path()).unwrap(), &data);
    }
}

/// LLaVA folders whose processor does not pad: the center crop, or the whole image, stretched.
#[test]
fn pictures_of_llava_are_fitted_as_the_folder_says() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let mut cropping = data("llava");
    cropping["pictures"] = cropping["cropped"].take();
    let mut untold = cropping.clone();
    cropping["pixels"]["do_pad"] = false.into();
    untold["pixels"].as_object_mut().unwrap().remove("do_pad");
    let mut stretching = data("llava_siglip");
    stretching["pictures"] = stretching["stretched"].take();
    stretching["pixels"] = stretching["stretching"].take();
    for (what, data) in [("cropping", &cropping), ("untold", &untold), ("stretching", &stretching)] {
        check(what, &load(&model, folder(data, false).0.path()).unwrap(), data);
    }
    // What lies at the sides alone is seen.
    let encoder = load(&model, folder(&data("llava"), false).0.path()).unwrap();
    let [plain, marked] = [90, 255].map(|side| {
        let pixel = |i: usize| if (95..205).contains(&(i % 300)) { [90; 3] } else { [side, 90, 90] };
        Picture { width: 300, height: 100, rgb: (0..300 * 100).flat_map(pixel).collect() }
    });
    assert!(rows(&encoder, &plain) != rows(&encoder, &marked));
    for (name, value) in [("height", 32), ("width", 32)] {
        stretching["pixels"]["size"][name] = value.into();
        let error = load(&model, folder(&stretching, false).0.path()).err().unwrap().to_string();
        assert!(error.contains("\"size\""), "{error}");
    }
}

#[test]
fn folders_choose_among_all_filters_of_pillow() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let filters = [Filter::Nearest, Filter::Lanczos, Filter::Bilinear, Filter::Bicubic, Filter::Box, Filter::Hamming];
    for (number, filter) in filters.into_iter().enumerate() {
        let mut data = data("gemma3");
        data["pixels"]["resample"] = number.into();
        let encoder = load(&model, folder(&data, false).0.path()).unwrap();
        assert_eq!(encoder.facts().sizing.filter(), filter, "{number}");
    }
}

/// Matrices of 16 bits, whose last columns zeros fill up: 80 are no whole number of groups.
#[test]
fn encoders_of_16_bits_stay_near_the_rows() {
    let at = tempfile::tempdir().unwrap();
    for family in ["idefics3", "qwen25", "qwen3", "gemma3"] {
        let (data, model) = (data(family), model(at.path(), family, HIDDEN));
        let folder = folder(&data, false);
        let params = EncoderParams { quantize: Some(quant::F16), ..Default::default() };
        let encoder = Encoder::load(&model, folder.0.path(), params).unwrap();
        let case = &data["pictures"][0];
        let error = off_case(&encoder, &rows(&encoder, &picture(sides(&case["size"]))), case);
        println!("{family:20} {error:.1e}");
        assert!((1e-6..5e-2).contains(&error), "{family}: {error:.1e}");
    }
}

#[test]
fn folders_are_models_and_encoders() {
    for &family in FAMILIES.iter().filter(|family| !WITHOUT_TEXT.contains(family)) {
        let data = data(family);
        let folder = folder(&data, true);
        let model = Model::load(folder.0.path(), models::cpu());
        let encoder = load(&model.unwrap_or_else(|e| panic!("{family}: {e}")), folder.0.path());
        let encoder = encoder.unwrap_or_else(|e| panic!("{family}: {e}"));
        let rows = rows(&encoder, &picture(sides(&data["pictures"][0]["size"])));
        assert!(off_case(&encoder, &rows, &data["pictures"][0]) < 1e-5, "{family}");
    }
}

/// Returns the difference between the logits after a prompt and the expected logits.
fn off_logits(model: &Arc<Model>, parts: &[PromptPart], expected: &Value) -> f64 {
    let prompt = Prompt::new(model, parts, false).unwrap();
    let params = CacheParams { capacity: 512, k_type: quant::F32, v_type: quant::F32 };
    let mut session = Session::new(model, &params).unwrap();
    session.prefill_prompt(&prompt, 0, None).unwrap();
    let expected = expected.as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
    off(session.logits().unwrap(), &expected.collect::<Vec<f64>>())
}

#[test]
fn models_read_rows_as_another_implementation_does() {
    for &family in FAMILIES {
        let data = data(family);
        let case = &data["pictures"][0];
        if case["logits"].is_null() {
            continue;
        }
        let folder = folder(&data, true);
        let model = models::load(folder.0.path());
        let encoder = load(&model, folder.0.path()).unwrap();
        let picture = picture(sides(&case["size"]));
        let layout = encoder.facts().sizing.layout(picture.width, picture.height).unwrap();
        let (rows, [columns, lines]) = (rows(&encoder, &picture), encoder.facts().tile_grid(&layout));
        let grid = if layout.n_tiles() == 1 { [columns, lines] } else { [0, 0] };
        let medium = media_from_rows(&model, MediaKind::Image, &rows, encoder.facts().row_dim, grid).unwrap();
        let parts =
            [PromptPart::Tokens(&[5, 9, 3, 20]), PromptPart::Media(&medium), PromptPart::Tokens(&[7, 2, 11, 4])];
        let error = off_logits(&model, &parts, &case["logits"]);
        println!("{family:20} logits {error:.1e}");
        // Attention scores of Gemma 4 are so large here that the reference in 32-bit floats differs by 5e-4; a wrong
        // mask differs by more than 1e-2.
        let most = if family.starts_with("gemma4") { 1e-3 } else { 1e-5 };
        assert!(error < most, "{family}: {error:.1e}");
    }
}

#[test]
fn several_pictures_and_none_are_read_as_by_the_makers() {
    for family in ["kimi_vl", "kimi_k25"] {
        let data = data(family);
        let folder = folder(&data, true);
        let model = models::load(folder.0.path());
        let encoder = load(&model, folder.0.path()).unwrap();
        let medium = |case: &Value| {
            let rows = rows(&encoder, &picture(sides(&case["size"])));
            media_from_rows(&model, MediaKind::Image, &rows, HIDDEN as usize, [0, 0]).unwrap()
        };
        let media: Vec<_> = data["pictures"].as_array().unwrap().iter().map(medium).collect();
        for prompt in data["prompts"].as_array().unwrap() {
            // Tokens, or the number of a picture.
            let list = prompt["parts"].as_array().unwrap();
            let ids = |part: &Value| if part.is_array() { numbers(part) } else { Vec::new() };
            let texts: Vec<Vec<u32>> =
                list.iter().map(|part| ids(part).into_iter().map(|id| id as u32).collect()).collect();
            let parts: Vec<PromptPart> = list
                .iter()
                .zip(&texts)
                .map(|(part, text)| match part.as_u64() {
                    Some(i) => PromptPart::Media(&media[i as usize]),
                    None => PromptPart::Tokens(text),
                })
                .collect();
            let error = off_logits(&model, &parts, &prompt["logits"]);
            println!("{family} {} parts {error:.1e}", parts.len());
            assert!(error < 1e-5, "{family}: {error:.1e}");
        }
    }
}

/// Files of projectors with changed bytes, half of them among the keys and the shapes, and what they make of a picture
/// where they load.
#[test]
fn projectors_with_changed_bytes_do_no_harm() {
    let at = tempfile::tempdir().unwrap();
    let mut random = random_numbers();
    let (mut loaded, mut refused) = (0, 0);
    for &family in FAMILIES {
        let data = data(family);
        let model = model(at.path(), family, hidden(family));
        let (whole, path) = (gguf(&data).build().0, at.path().join("changed.gguf"));
        let head = whole.len().min(6000);
        for i in 0..rounds(12) {
            let mut changed = whole.clone();
            for _ in 0..1 + i % 3 {
                let place = random(if i % 2 == 0 { head } else { whole.len() });
                changed[place] = [random(256) as u8, 0, 0xff, changed[place] ^ 1 << random(8)][random(4)];
            }
            fs::write(&path, &changed).unwrap();
            let Ok(encoder) = load(&model, &path) else {
                refused += 1;
                continue;
            };
            loaded += 1;
            // Sizes in a file may be large; they are checked before the work.
            let Ok(layout) = encoder.facts().sizing.layout(60, 40) else { continue };
            if encoder.facts().n_patches(&layout) > 4096 || layout.seen_width.max(layout.seen_height) > 2048 {
                continue;
            }
            let tiles = encoder.facts().sizing.tiles(&picture([60, 40]), &layout).unwrap();
            drop(encoder.encode(tiles, &layout, None));
        }
    }
    println!("{loaded} loaded, {refused} refused");
    assert!(loaded > 20 && refused > 20);
}

#[test]
fn callers_ask_for_more_rows_of_gemma_4() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let (_at, path) = changed("gemma4", |_| {});
    let encoder = load(&model, &path).unwrap();
    for (max_rows, n_rows) in [(0, 63), (30, 24), (140, 130), (5000, 1073)] {
        let bounds = PictureBounds { max_rows, ..PictureBounds::default() };
        assert_eq!(measure_picture(&encoder, [90, 70], bounds).unwrap().n_rows(), n_rows, "{max_rows}");
    }
}

/// The names of the first form of InternVL's folders.
#[test]
fn folders_of_internvl_have_two_forms() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let mut data = data("internvl");
    let renamed = |name: &str| {
        let names = [
            ("vision_tower.encoder.layer.", "vision_model.encoder.layers."),
            ("vision_tower.", "vision_model."),
            ("cls_token", "class_embedding"),
            ("patch_embeddings.projection", "patch_embedding"),
            ("position_embeddings", "position_embedding"),
            ("layernorm_before", "norm1"),
            ("layernorm_after", "norm2"),
            ("attention.projection_layer", "attn.proj"),
            ("lambda_", "ls"),
            ("multi_modal_projector.layer_norm", "mlp1.0"),
            ("multi_modal_projector.linear_1", "mlp1.1"),
            ("multi_modal_projector.linear_2", "mlp1.3"),
        ];
        names.iter().fold(name.to_owned(), |name, (from, to)| name.replacen(from, to, 1))
    };
    let config = serde_json::json!({
        "model_type": "internvl_chat", "downsample_ratio": 0.5, "min_dynamic_patch": 1, "max_dynamic_patch": 12,
        "select_layer": -1, "ps_version": "v2", "dynamic_image_size": true, "use_thumbnail": true,
        "vision_config": {
            "hidden_size": 48, "intermediate_size": 80, "patch_size": 8, "model_type": "intern_vit_6b", "dropout": 0.0,
            "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 64, "hidden_act": "gelu", "qkv_bias": true,
            "norm_type": "layer_norm", "layer_norm_eps": 1e-6, "qk_normalization": false, "use_flash_attn": true,
        },
    });
    data["pixels"] = serde_json::json!({
        "crop_size": 64, "do_center_crop": true, "do_normalize": true, "do_resize": true, "resample": 3, "size": 64,
        "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": data["pixels"]["image_mean"],
        "image_std": data["pixels"]["image_std"],
    });
    // Queries, keys and values are one tensor.
    let parts = tensors(&data, "folder");
    let mut list: Vec<(String, Vec<u64>, Vec<f32>)> = Vec::new();
    for (name, shape, values) in parts {
        let name = renamed(&name);
        match name.split_once(".attention.") {
            Some((layer, part)) if part.starts_with("q_proj") => {
                let leaf = part.split_once('.').unwrap().1;
                list.push((format!("{layer}.attn.qkv.{leaf}"), [&[3 * shape[0]][..], &shape[1..]].concat(), values));
            }
            Some((layer, part)) => {
                let name = format!("{layer}.attn.qkv.{}", part.split_once('.').unwrap().1);
                list.iter_mut().find(|row| row.0 == name).unwrap().2.extend(values);
            }
            None => list.push((name, shape, values)),
        }
    }
    let folder = safetensors::Folder::new(&config.to_string());
    folder.put("preprocessor_config.json", data["pixels"].to_string());
    let list: Vec<safetensors::Tensor> =
        list.iter().map(|(name, shape, values)| (&name[..], "F32", &shape[..], bytes(values))).collect();
    folder.put("model.safetensors", safetensors::file(&list));
    check("internvl_chat folder", &load(&model, folder.0.path()).unwrap(), &data);
}

/// The keys of the text model on top of the configuration, beside those of the program that trained it.
#[test]
fn folders_of_paddleocr_have_two_forms() {
    let mut data = data("paddleocr");
    let config = data["config"].as_object_mut().unwrap();
    let text = config.remove("text_config").unwrap();
    for (name, value) in text.as_object().unwrap() {
        config.entry(name.as_str()).or_insert(value.clone());
    }
    let rope = config.remove("rope_parameters").unwrap();
    config.insert("rope_theta".to_owned(), rope["rope_theta"].clone());
    let sections =
        serde_json::json!({"mrope_section": rope["mrope_section"], "rope_type": "default", "type": "default"});
    config.insert("rope_scaling".to_owned(), sections);
    for (name, value) in [("use_3d_rope", true), ("rope_is_neox_style", true), ("use_flash_attention", false)] {
        config.insert(name.to_owned(), value.into());
    }
    let folder = folder(&data, true);
    let model = models::load(folder.0.path());
    let encoder = load(&model, folder.0.path()).unwrap();
    assert_eq!((encoder.facts().row_dim as u64, encoder.facts().is_grid), (HIDDEN, true));
}

/// Configurations as transformers writes them.
#[test]
fn folders_of_kimi_have_two_forms() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let mut data = data("kimi_k25");
    data["config"]["vision_config"] = serde_json::json!({
        "model_type": "kimi_k25_vision", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 48, "intermediate_size": 80,
        "merge_kernel_size": [2, 2], "num_attention_heads": 2, "num_hidden_layers": 2, "patch_size": 8,
        "pos_emb_height": 8, "pos_emb_time": 4, "pos_emb_width": 8,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"},
    });
    data["pixels"] = serde_json::json!({
        "do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "Kimi_K25ImageProcessor", "image_std": [0.5, 0.5, 0.5], "max_patches": 64,
        "merge_size": 2, "patch_size": 8, "resample": 3, "rescale_factor": 1.0 / 255.0,
        "size": {"max_height": 16, "max_width": 16},
    });
    check("kimi_k25 of transformers", &load(&model, folder(&data, false).0.path()).unwrap(), &data);
}

/// A file that differs from that of a family.
fn changed(family: &str, change: impl FnOnce(&mut Gguf)) -> (tempfile::TempDir, PathBuf) {
    let at = tempfile::tempdir().unwrap();
    let path = at.path().join("mmproj.gguf");
    let mut file = gguf(&data(family));
    change(&mut file);
    fs::write(&path, file.build().0).unwrap();
    (at, path)
}

pub fn set(file: &mut Gguf, name: &str, value: impl crate::support::gguf::Value) {
    file.keys.retain(|(key, _)| key != name);
    let made = Gguf::new().key(name, value);
    file.keys.extend(made.keys);
}

#[test]
fn files_of_other_converters_give_the_same_rows() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    // Names of the feed-forward block exchanged.
    for family in ["idefics3", "qwen25"] {
        let (_at, path) = changed(family, |file| {
            for tensor in &mut file.tensors {
                tensor.name = match tensor.name.replace("ffn_up", "ffn_down") {
                    name if name != tensor.name => name,
                    name => name.replace("ffn_down", "ffn_up"),
                };
            }
        });
        check(&format!("{family} exchanged"), &load(&model, &path).unwrap(), &data(family));
    }
    // A file that has an encoder of sound as well.
    let (_at, path) = changed("gemma3", |file| {
        file.keys.retain(|(key, _)| key != "clip.projector_type");
        set(file, "clip.vision.projector_type", "gemma3");
        set(file, "clip.audio.projector_type", "gemma3na");
        set(file, "clip.has_audio_encoder", true);
        let made = std::mem::replace(file, Gguf::new()).tensor("a.conv1d.0.weight", 0, &[2], &[0; 8]);
        *file = made;
    });
    check("gemma3 with sound", &load(&model, &path).unwrap(), &data("gemma3"));
    // The whole network, of which nothing tells the layer that is taken.
    let (_at, path) = changed("llava", |file| {
        file.keys.retain(|(key, _)| key != "clip.vision.feature_layer");
        set(file, "clip.vision.block_count", 4u32);
        let made = std::mem::replace(file, Gguf::new());
        let last: Vec<_> = made.tensors.iter().filter(|tensor| tensor.name.starts_with("v.blk.1.")).collect();
        let copies: Vec<_> = [2, 3]
            .iter()
            .flat_map(|i| {
                last.iter().map(move |t| (t.name.replace("blk.1", &format!("blk.{i}")), t.dims.clone(), t.data.clone()))
            })
            .collect();
        *file = copies.iter().fold(made, |file, (name, dims, data)| file.tensor(name, 0, dims, data));
    });
    assert_eq!(load(&model, &path).unwrap().facts().n_layers, 3);
    // One layer less than was trained, as old converters write it.
    let (_at, path) = changed("llava", |file| {
        file.keys.retain(|(key, _)| key != "clip.vision.feature_layer");
        file.tensors.retain(|tensor| !tensor.name.starts_with("v.blk.1."));
        set(file, "clip.vision.block_count", 1u32);
    });
    assert_eq!(load(&model, &path).unwrap().facts().n_layers, 1);
}

#[test]
fn encoders_that_do_not_fit_are_refused_by_name() {
    let at = tempfile::tempdir().unwrap();
    let model_of = |family: &str, hidden: u64| model(at.path(), family, hidden);
    let (model, wide) = (model_of("", HIDDEN), model_of("", hidden("minicpm")));
    type Change = Box<dyn Fn(&mut Gguf)>;
    let key = |name: &'static str, value: u32| -> Change {
        Box::new(move |file| set(file, &format!("clip.vision.{name}"), value))
    };
    let cases: Vec<(&str, Change, &str)> = vec![
        ("gemma3", key("image_size", 8200), "image_size is 8200"),
        ("gemma3", key("image_size", 0), "image_size is 0"),
        ("gemma3", key("image_size", 100), "image_size is 100"),
        ("gemma3", key("patch_size", 0), "patch_size is 0"),
        ("gemma3", key("patch_size", 70_000), "patch_size is 70000"),
        ("gemma3", key("patch_size", 65_535), "patch_size is 65535"),
        ("idefics3", key("projector.scale_factor", 0), "scale_factor is 0"),
        ("idefics3", key("projector.scale_factor", 65_536), "scale_factor is 65536"),
        ("idefics3", key("projector.scale_factor", 65_535), "scale_factor is 65535"),
        ("idefics3", key("preproc_image_size", 0), "preproc_image_size is 0"),
        ("internvl", key("preproc_min_tiles", 13), "preproc_min_tiles is 13"),
        ("internvl", key("preproc_max_tiles", 1_000_000), "preproc_max_tiles is 1000000"),
        ("internvl", key("attention.head_count", 5), "head_count is 5"),
        ("internvl", key("attention.head_count", 0), "head_count is 0"),
        ("internvl", key("attention.head_count_kv", 1), "head_count_kv is 1"),
        ("qwen25", Box::new(|file| file.keys.retain(|(key, _)| !key.ends_with("n_wa_pattern"))), "n_wa_pattern"),
        ("qwen25", key("attention.head_count", 24), "head_count is 24"),
        ("qwen25", key("n_wa_pattern", 0), "n_wa_pattern is 0"),
        ("qwen25", key("window_size", 0), "window_size is 0"),
        ("qwen25", key("window_size", 27), "window_size is 27"),
        ("qwen25", key("spatial_merge_size", 0), "spatial_merge_size is 0"),
        ("qwen25", key("image_min_pixels", 70_000_000), "image_min_pixels is 70000000"),
        ("pixtral", key("spatial_merge_size", 2), "spatial_merge_size is 2"),
        ("llava", key("block_count", 0), "block_count is 0"),
        ("gemma4", key("max_rows", 0), "max_rows is 0"),
        (
            "llava16",
            Box::new(|file| set(file, "clip.vision.image_grid_pinpoints", vec![32u32])),
            "image_grid_pinpoints",
        ),
        (
            "llava16",
            Box::new(|file| set(file, "clip.vision.image_grid_pinpoints", vec![0u32, 32])),
            "image_grid_pinpoints",
        ),
        ("llava16", Box::new(|file| set(file, "clip.vision.mm_patch_merge_type", "flat")), "mm_patch_merge_type"),
        ("gemma4", key("max_rows", 1121), "max_rows is 1121"),
        ("gemma4", key("projector.scale_factor", 0), "scale_factor is 0"),
        ("gemma4", key("attention.head_count", 16), "head_count is 16"),
        ("gemma4-12b", key("patch_size", 700), "patch_size is 700"),
        ("llama4", key("preproc_max_tiles", 0), "preproc_max_tiles is 0"),
        ("minicpm", key("preproc_max_tiles", 0), "preproc_max_tiles is 0"),
        ("minicpm", key("preproc_image_size", 0), "preproc_image_size is 0"),
        ("minicpm", key("block_count", 3), "v.blk.2"),
        ("minicpm", Box::new(|file| set(file, "clip.minicpmv_version", 2u32)), "minicpmv_version is 2"),
        ("minicpm", Box::new(|file| set(file, "clip.minicpmv_version", 0u32)), "minicpmv_version is 0"),
        ("minicpm", Box::new(|file| set(file, "clip.minicpmv_query_num", 6u32)), "minicpmv_query_num is 6"),
        ("llama4", key("projector.scale_factor", 3), "image_size is 32"),
        ("kimi_k25", key("max_side_patches", 0), "max_side_patches is 0"),
        ("kimi_k25", Box::new(|file| set(file, "vision.pos_emb_width", 9u32)), "no square"),
        ("dots", key("projector.scale_factor", 0), "scale_factor is 0"),
        ("lfm2", key("preproc_min_tiles", 7), "preproc_min_tiles is 7"),
        ("lfm2", key("preproc_image_size", 33), "preproc_image_size is 33"),
        ("lfm2", key("image_min_pixels", 4097), "image_min_pixels is 4097"),
        ("glm4v", key("spatial_merge_size", 0), "spatial_merge_size is 0"),
        ("glm5_next", Box::new(|file| set(file, "clip.vision.swiglu_clamp", -1.0f32)), "swiglu_clamp is -1"),
        (
            "glm5_next",
            Box::new(|file| file.keys.retain(|(key, _)| !key.ends_with("swiglu_clamp"))),
            "swiglu_clamp\" is missing",
        ),
        ("glm5_next", Box::new(|file| set(file, "clip.vision.hidden_act", "gelu")), "hidden_act is"),
        ("paddleocr", key("image_min_pixels", 6000), "image_min_pixels is 6000"),
        ("gemma3", key("magic", 1), "clip.vision.magic is 1"),
        ("gemma3", Box::new(|file| set(file, "clip.magic", 1u32)), "clip.magic is 1"),
        ("gemma3", Box::new(|file| set(file, "clip.projector_type", "ldp")), "\"ldp\""),
        ("gemma3", Box::new(|file| set(file, "clip.has_vision_encoder", false)), "no encoder of pictures"),
        ("gemma3", Box::new(|file| set(file, "general.architecture", "llama")), "no encoder of pictures"),
        ("gemma3", Box::new(|file| set(file, "clip.vision.image_std", vec![0.0f32, 1.0, 1.0])), "image_std"),
        ("gemma3", Box::new(|file| set(file, "clip.vision.image_mean", vec![0.5f32])), "image_mean"),
        ("qwen3", Box::new(|file| set(file, "clip.vision.is_deepstack_layers", vec![true])), "is_deepstack_layers"),
        ("llava", Box::new(|file| set(file, "clip.vision.feature_layer", vec![9u32])), "feature_layer"),
        ("gemma3", Box::new(|file| file.tensors[0].name = "v.magic".into()), "v.patch_embd.weight is missing"),
        (
            "gemma3",
            Box::new(|file| {
                let made = std::mem::replace(file, Gguf::new()).tensor("v.magic", 0, &[2], &[0; 8]);
                *file = made;
            }),
            "the tensor v.magic has no place",
        ),
    ];
    for (family, change, expected) in cases {
        let (_at, path) = changed(family, |file| change(file));
        let of = if hidden(family) == HIDDEN { &model } else { &wide };
        let error = load(of, &path).err().unwrap_or_else(|| panic!("{family}: {expected}")).to_string();
        assert!(error.contains(expected), "{family}: {error}, expected {expected}");
    }
    // Rows as wide as another model's embeddings.
    let narrow = model_of("", 48);
    for &family in FAMILIES {
        let (_at, path) = changed(family, |_| {});
        let error = load(&narrow, &path).err().unwrap();
        assert!(matches!(error, Error::Mismatch(_)), "{family}: {error}");
    }
    // A model that takes fewer numbers of a row than the encoder makes, and one that takes more.
    for (family, of) in [("qwen3", ""), ("gemma3", "qwen3")] {
        let (_at, path) = changed(family, |_| {});
        let error = load(&model_of(of, HIDDEN), &path).err().unwrap();
        assert!(matches!(error, Error::Mismatch(_)), "{family}: {error}");
    }
}

#[test]
fn pauses_change_no_bit_and_a_cancel_ends_the_work() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    for family in ["internvl", "qwen25"] {
        let (_at, path) = changed(family, |_| {});
        let encoder = load(&model, &path).unwrap();
        let picture = picture([190, 137]);
        let sizing = encoder.facts().sizing;
        let layout = sizing.layout(190, 137).unwrap();
        let tiles = sizing.tiles(&picture, &layout).unwrap();
        let asks = Cell::new(0);
        let stop = || asks.replace(asks.get() + 1) % 5 == 4;
        let mut encoding = Encoding::new(&encoder, tiles.clone(), &layout).unwrap();
        let mut pauses = 0;
        while !encoding.advance(&encoder, &StepBudget::new(&stop)).unwrap() {
            pauses += 1;
        }
        assert!(pauses > 5, "{family}: {pauses} pauses");
        assert!(encoding.rows == rows(&encoder, &picture), "{family}");
        let cancel = Cancel::default();
        cancel.fire();
        assert!(matches!(encoder.encode(tiles.clone(), &layout, Some(&cancel)), Err(Error::Cancelled)));
        assert!(matches!(encoder.encode(tiles[1..].to_vec(), &layout, None), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn no_number_nor_shape_of_a_file_ends_the_process() {
    let at = tempfile::tempdir().unwrap();
    let narrow = model(at.path(), "", HIDDEN);
    let wide = model(at.path(), "", hidden("minicpm"));
    let path = at.path().join("mmproj.gguf");
    let mut refused = 0;
    let families = FAMILIES.iter().filter(|family| !["gemma3", "qwen2", "mistral3", "lightonocr"].contains(family));
    for &family in families {
        let data = data(family);
        let mut try_file = |file: Gguf| {
            fs::write(&path, file.build().0).unwrap();
            let of = if hidden(family) == HIDDEN { &narrow } else { &wide };
            refused += usize::from(load(of, &path).is_err());
        };
        for key in data["keys"].as_object().unwrap().keys().filter(|key| key.starts_with("clip.")) {
            let without = |mut file: Gguf| {
                file.keys.retain(|(name, _)| name != key);
                file
            };
            try_file(without(gguf(&data)));
            for value in [1u32, 3, 7, 4096, 65_535, u32::MAX] {
                try_file(without(gguf(&data)).key(key, value));
            }
            try_file(without(gguf(&data)).key(key, f32::NAN));
            try_file(without(gguf(&data)).key(key, vec![u32::MAX, 0, 1]));
        }
        for i in 0..data["gguf"].as_array().unwrap().len() {
            for dims in [vec![], vec![1], vec![1, 1], vec![3, 5, 7, 2], vec![0, 48], vec![48, 0]] {
                let mut file = gguf(&data);
                let n = dims.iter().product::<u64>() as usize;
                (file.tensors[i].data, file.tensors[i].dims) = (vec![0; 4 * n], dims);
                try_file(file);
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn keys_without_effect_and_defaults_change_nothing() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    for family in ["idefics3", "gemma3", "pixtral"] {
        let mut data = data(family);
        let vision = data["config"]["vision_config"].as_object_mut().unwrap();
        for (name, value) in [("tie_word_embeddings", false), ("add_cross_attention", false), ("use_cache", true)] {
            vision.insert(name.to_owned(), value.into());
        }
        // Keys that configurations leave out have the defaults of transformers.
        if family != "pixtral" {
            assert!(vision.remove("layer_norm_eps").is_some() && vision.remove("hidden_act").is_some());
        } else {
            assert!(vision.remove("rope_theta").is_some() && vision.remove("head_dim").is_some());
        }
        // The newest folders have the configuration of pixels within another.
        let pixels = serde_json::json!({"image_processor": data["pixels"], "processor_class": "Some"});
        let folder = folder(&data, false);
        fs::remove_file(folder.0.path().join("preprocessor_config.json")).unwrap();
        folder.put("processor_config.json", pixels.to_string());
        check(&format!("{family} defaults"), &load(&model, folder.0.path()).unwrap(), &data);
    }
}

#[test]
fn folders_whose_keys_nobody_knows_are_refused() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    for (family, file, pointer, value, expected) in [
        ("gemma3", "config", "/vision_config/magic", Value::from(1), "\"magic\" with the value 1"),
        ("gemma3", "config", "/vision_config/hidden_act", "relu".into(), "\"hidden_act\" with the value \"relu\""),
        ("gemma3", "config", "/vision_config/num_channels", 4.into(), "num_channels"),
        ("gemma3", "config", "/model_type", "paligemma".into(), "paligemma"),
        ("gemma3", "pixels", "/do_pan_and_scan", true.into(), "do_pan_and_scan"),
        ("gemma3", "pixels", "/magic", true.into(), "\"magic\" with the value true"),
        ("gemma3", "pixels", "/rescale_factor", 1.into(), "rescale_factor"),
        ("gemma3", "pixels", "/resample", 6.into(), "resample is 6"),
        ("qwen2", "pixels", "/patch_size", 9.into(), "patch_size"),
        ("qwen25", "pixels", "/merge_size", 3.into(), "merge_size"),
        ("qwen3", "pixels", "/merge_size", 4.into(), "merge_size"),
        ("glm4v", "pixels", "/patch_size", 28.into(), "patch_size"),
        ("gemma3", "pixels", "/image_mean", Value::Null, "image_mean"),
        ("llava", "config", "/vision_feature_layer", Value::from(-9), "vision_feature_layer"),
        ("llava", "config", "/vision_feature_select_strategy", "full".into(), "vision_feature_select_strategy"),
        ("llava", "config", "/projector_hidden_act", "relu".into(), "\"projector_hidden_act\" with the value \"relu\""),
        ("internvl", "config", "/vision_feature_layer", Value::from(-2), "\"vision_feature_layer\" with the value -2"),
        ("llava", "pixels", "/do_center_crop", false.into(), "do_center_crop"),
        ("idefics3", "pixels", "/do_image_splitting", false.into(), "do_image_splitting"),
        ("gemma4", "pixels", "/patch_size", 5.into(), "patch_size"),
        ("gemma4", "pixels", "/pooling_kernel_size", 4.into(), "pooling_kernel_size"),
        ("gemma4", "pixels", "/max_soft_tokens", 2000.into(), "max_rows is 2000"),
        ("gemma4", "config", "/vision_config/head_dim", 12.into(), "heads"),
        ("gemma4", "config", "/vision_config/rope_parameters/rope_type", "yarn".into(), "yarn"),
        ("minicpm", "config", "/version", 2.5.into(), "version"),
        ("minicpm", "config", "/query_num", 9.into(), "query_num"),
        ("minicpm", "pixels", "/slice_start", "<s>".into(), "slice_start"),
        ("minicpm", "pixels", "/patch_size", 9.into(), "patch_size"),
        ("llama4", "pixels", "/resize_to_max_canvas", true.into(), "resize_to_max_canvas"),
        ("llama4", "config", "/vision_config/multi_modal_projector_bias", true.into(), "multi_modal_projector_bias"),
        ("kimi_vl", "pixels", "/pad_input", false.into(), "pad_input"),
        ("kimi_vl", "config", "/vision_config/merge_kernel_size", vec![2, 4].into(), "no squares"),
        ("kimi_k25", "config", "/vision_config/merge_type", "other".into(), "merge_type"),
        ("kimi_k25", "config", "/vision_config/projector_hidden_act", "silu".into(), "projector_hidden_act"),
        ("kimi_k25", "config", "/vision_config/init_pos_emb_width", 9.into(), "no square"),
        ("kimi_k25", "config", "/vision_config/projector_ln_eps", 1e-6.into(), "epsilon"),
        ("kimi_k25", "pixels", "/media_proc_cfg/patch_size", 9.into(), "patch_size"),
        ("kimi_k25", "pixels", "/media_proc_cfg/fixed_output_tokens", 64.into(), "fixed_output_tokens"),
        ("dots", "config", "/vision_config/post_norm", false.into(), "post_norm"),
        ("dots", "config", "/vision_config/temporal_patch_size", 2.into(), "frames"),
        ("lfm2", "pixels", "/encoder_patch_size", 16.into(), "patches"),
        ("lfm2", "pixels", "/use_thumbnail", false.into(), "use_thumbnail"),
        ("glm4v", "config", "/vision_config/rope_parameters/rope_theta", 5.0.into(), "rope_theta"),
        ("glm5_next", "config", "/vision_config/attention_bias", false.into(), "attention_bias"),
        ("glm5_next", "config", "/vision_config/swiglu_limit", (-1).into(), "swiglu_clamp is -1"),
        ("glm5_next", "pixels", "/patch_expand_factor", 2.into(), "patch_expand_factor"),
        ("glm5_next", "pixels", "/merge_size", 3.into(), "merge_size"),
        ("qwen3", "config", "/vision_config/temporal_patch_size", 1.into(), "temporal_patch_size"),
        ("qwen25", "config", "/vision_config/fullatt_block_indexes", vec![9].into(), "fullatt_block_indexes"),
    ] {
        let mut data = data(family);
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let object = data[file].pointer_mut(parent).unwrap().as_object_mut().unwrap();
        object.insert(name.to_owned(), value);
        let folder = folder(&data, false);
        let error = load(&model, folder.0.path()).err().unwrap_or_else(|| panic!("{family}: {expected}")).to_string();
        assert!(error.contains(expected), "{family}: {error}, expected {expected}");
    }
}
