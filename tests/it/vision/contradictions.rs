//! Folders whose files contradict each other about one encoder.

use super::*;

/// Each change is of a key that published folders of the family have; the error names the keys and what they say.
#[test]
fn folders_that_contradict_themselves_are_damaged() {
    let at = tempfile::tempdir().unwrap();
    let model = model(at.path(), "", HIDDEN);
    let rows = [
        ("qwen2", "pixels", "/patch_size", Value::from(16), ["patch_size is 16", "vision_config.patch_size is 14"]),
        ("qwen25", "pixels", "/merge_size", 1.into(), ["merge_size is 1", "vision_config.spatial_merge_size is 2"]),
        ("qwen3", "pixels", "/merge_size", 4.into(), ["merge_size is 4", "vision_config.spatial_merge_size is 2"]),
        ("glm4v", "pixels", "/patch_size", 7.into(), ["patch_size is 7", "vision_config.patch_size is 8"]),
        (
            "glm4v",
            "pixels",
            "/temporal_patch_size",
            1.into(),
            ["temporal_patch_size is 1", "vision_config.temporal_patch_size is 2"],
        ),
        ("paddleocr", "pixels", "/merge_size", 1.into(), ["merge_size is 1", "vision_config.spatial_merge_size is 2"]),
        ("dots", "pixels", "/patch_size", 16.into(), ["patch_size is 16", "vision_config.patch_size is 8"]),
        ("lightonocr", "pixels", "/patch_size", 24.into(), ["patch_size is 24", "vision_config.patch_size is 8"]),
        ("pixtral", "pixels", "/patch_size/width", 9.into(), ["patch_size.height is 8", "patch_size.width is 9"]),
        ("mistral3", "pixels", "/patch_size", 16.into(), ["patch_size is 16", "vision_config.patch_size is 8"]),
        ("llama4", "pixels", "/size/width", 64.into(), ["size.height is 32", "size.width is 64"]),
        ("gemma3", "pixels", "/size/width", 64.into(), ["size.height is 128", "size.width is 64"]),
        ("llava", "pixels", "/crop_size/width", 32.into(), ["crop_size.height is 64", "crop_size.width is 32"]),
        ("qwen25", "config", "/vision_config/out_hidden_size", 48.into(), ["out_hidden_size is 48", "hidden_size"]),
        ("glm5_next", "config", "/vision_config/out_hidden_size", 32.into(), ["out_hidden_size is 32", "hidden_size"]),
        ("qwen3", "config", "/vision_config/num_position_embeddings", 25.into(), ["is 25", "16 rows"]),
        ("qwen35", "config", "/vision_config/num_position_embeddings", 9.into(), ["is 9", "16 rows"]),
        ("internvl", "config", "/vision_config/use_qk_norm", true.into(), ["use_qk_norm is true", "missing"]),
        ("internvl", "config", "/vision_config/norm_type", "rms_norm".into(), ["norm_type is \"rms_norm\"", "biases"]),
        ("internvl", "config", "/vision_config/norm_type", "magic".into(), ["norm_type", "\"layer_norm\""]),
    ];
    for (family, file, pointer, value, expected) in rows {
        let mut data = data(family);
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let object = data[file].pointer_mut(parent).unwrap().as_object_mut().unwrap();
        assert!(object.insert(name.to_owned(), value).is_some(), "{family} has no {pointer}");
        let folder = folder(&data, false);
        let error =
            load(&model, folder.0.path()).err().unwrap_or_else(|| panic!("{family}: {pointer} changes nothing"));
        let text = error.to_string();
        assert!(matches!(error, Error::Format { .. }), "{family}, {pointer}: {text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{family}, {pointer}: {text}, expected {expected:?}");
    }
}
