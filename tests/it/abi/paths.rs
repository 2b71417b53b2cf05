//! Paths that systems treat differently, and files that other programs use at the same time.

use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::null;

use super::host::*;
use realizar::ffi::model::*;

/// A copy of the model in `folder`, under a path of more than the 260 characters that Windows once had, most of them
/// not ASCII.
fn copy(folder: &Path) -> PathBuf {
    let name = "größe-模型-".repeat(16);
    let below = folder.join(&name).join(&name);
    fs::create_dir_all(&below).expect("a long path");
    let path = below.join("模型.gguf");
    fs::copy(MODEL, &path).expect("a copy");
    assert!(path.to_str().expect("UTF-8").chars().count() > 260);
    path
}

fn logits(model: *mut rz_model) -> Vec<f32> {
    let host = Host { model, cache: new_cache(model, 8) };
    host.prefill(&[BOS, 403]);
    host.logits()
}

#[test]
fn long_paths_in_unicode_are_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = copy(folder.path());
    assert_eq!(logits(load_with(path.to_str().expect("UTF-8"), null())), logits(load()));
}

#[test]
fn a_file_in_use_may_be_read_and_renamed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = copy(folder.path());
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_MMAP);
    let [first, second] = [(), ()].map(|()| load_with(path.to_str().expect("UTF-8"), &params));
    assert_eq!(fs::read(&path).expect("the file"), fs::read(MODEL).expect("the model"));
    fs::rename(&path, folder.path().join("other.gguf")).expect("another name");
    assert_eq!(logits(first), logits(second));
}
