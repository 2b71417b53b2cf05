//! A tiny model as a file.

use std::path::PathBuf;

use crate::support::tiny::{PROMPT, Tiny};

/// The folder that holds the file, the file, and what computes the reference's logits after each token of the prompt.
pub fn save(tiny: &Tiny) -> (tempfile::TempDir, PathBuf, impl Fn() -> Vec<Vec<f64>> + use<>) {
    let (bytes, net, weights) = tiny.build();
    // WebAssembly has no name for the folder.
    let dir = if cfg!(target_family = "wasm") { tempfile::tempdir_in("/tmp") } else { tempfile::tempdir() }.unwrap();
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    (dir, path, move || net.forward(&weights, &PROMPT))
}
