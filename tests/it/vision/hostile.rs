//! Encoders whose files have the largest numbers, or NaN weights.

use realizar::engine::{Encoder, PictureBounds, encoder_extent, measure_picture};
use realizar::error::Error;

use super::*;
use crate::support::gguf::Value as Written;

fn with<V: Written + Clone>(family: &str, keys: &[(&str, V)]) -> (tempfile::TempDir, PathBuf) {
    changed(family, |file| keys.iter().for_each(|(key, value)| set(file, &format!("clip.vision.{key}"), value.clone())))
}

/// Numbers by which images are cut, each as large as it may be: what is asked of an encoder without an image has an
/// answer or an error. `media_bounds.rs` counts the layouts that it takes.
#[test]
fn the_largest_numbers_are_answered_or_refused() {
    let at = tempfile::tempdir().unwrap();
    let narrow = model(at.path(), "", HIDDEN);
    let wide = model(at.path(), "", hidden("minicpm"));
    let table: &[(&str, &[(&str, u32)])] = &[
        ("internvl", &[("preproc_max_tiles", 1024)]),
        ("internvl", &[("preproc_min_tiles", 1024), ("preproc_max_tiles", 1024)]),
        ("internvl", &[("preproc_min_tiles", 512), ("preproc_max_tiles", 1024)]),
        ("llama4", &[("preproc_max_tiles", 1024)]),
        ("minicpm", &[("preproc_max_tiles", 1024)]),
        ("minicpm", &[("preproc_max_tiles", 1024), ("preproc_image_size", 8192)]),
        ("lfm2", &[("preproc_max_tiles", 1024), ("image_max_pixels", 1 << 26), ("split_pixels", 1)]),
        ("idefics3", &[("preproc_image_size", 8192)]),
        ("pixtral", &[("image_size", 8192), ("preproc_image_size", 8192)]),
        ("kimi_vl", &[("image_max_pixels", 1 << 26), ("max_side_patches", 8192)]),
        ("glm5_next", &[("image_max_pixels", 1 << 26)]),
        ("qwen2", &[("image_max_pixels", 1 << 26)]),
        ("gemma4", &[("max_rows", 1120)]),
    ];
    let mut answered = 0;
    for (family, keys) in table {
        let (_at, path) = with(family, keys);
        let of = if hidden(family) == HIDDEN { &narrow } else { &wide };
        let Ok(encoder) = load(of, &path) else { continue };
        for max_rows in [0, 1, 77, 1 << 20] {
            answered += usize::from(encoder_extent(encoder.facts(), max_rows).is_ok());
            for size in [[1, 1], [1000, 999], [65_535, 65_535], [65_535, 300]] {
                let bounds = PictureBounds { max_rows, ..PictureBounds::default() };
                if let Ok(layout) = measure_picture(&encoder, size, bounds) {
                    assert!(max_rows == 0 || layout.n_rows() <= max_rows, "{family} {size:?}");
                }
            }
        }
    }
    assert!(answered > 20, "{answered}");
    // A longest edge of more than 32 tiles, and a list of many layers.
    let (_at, path) = with("idefics3", &[("preproc_image_size", 8192u32)]);
    let error = load(&narrow, &path).err().unwrap();
    assert!(error.to_string().contains("preproc_image_size is 8192"), "{error}");
    let (_at, path) = with("qwen25", &[("wa_layer_indexes", vec![1u32; 1 << 20])]);
    load(&narrow, &path).unwrap();
}

/// A NaN in any weight of an encoder is an error, and not a row.
#[test]
fn weights_that_are_nan_are_errors() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let mut found = 0;
    for family in ["idefics3", "qwen25", "gemma4"] {
        let data = data(family);
        let picture = picture(sides(&data["pictures"][0]["size"]));
        let encoded = |encoder: &Encoder| {
            let sizing = encoder.facts().sizing;
            let layout = sizing.layout(picture.width, picture.height).unwrap();
            encoder.encode(sizing.tiles(&picture, &layout).unwrap(), &layout, None)
        };
        for i in 0..gguf(&data).tensors.len() {
            let mut name = String::new();
            let (_at, path) = changed(family, |file| {
                let tensor = &mut file.tensors[i];
                name.clone_from(&tensor.name);
                tensor.data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
            });
            // Vectors that are NaN are rejected when they are loaded.
            let Ok(encoder) = load(&model, &path) else { continue };
            let what = format!("{family} {name}");
            match encoded(&encoder) {
                Err(Error::Format { what: message, .. }) => {
                    assert!(message.contains("of the encoded media is NaN"), "{what}: {message}");
                    found += 1;
                }
                Ok(rows) => {
                    println!("{what} changes nothing");
                    assert!(rows.iter().all(|x| x.is_finite()), "{what}");
                }
                Err(e) => panic!("{what}: {e}"),
            }
        }
    }
    assert!(found > 20, "{found}");
}
