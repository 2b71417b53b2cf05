//! A tiny model as a file, and caches as bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use realizar::engine::saved::{self, RestoreParams};
use realizar::engine::{Model, Session};
use realizar::error::{Error, Result};

use super::tiny::{PROMPT, Tiny};

/// The folder that holds the file, the file, and what computes the reference's logits after each token of the prompt.
pub fn save(tiny: &Tiny) -> (tempfile::TempDir, PathBuf, impl Fn() -> Vec<Vec<f64>> + use<>) {
    let (bytes, net, weights) = tiny.build();
    // WebAssembly has no name for the folder.
    let dir = if cfg!(target_family = "wasm") { tempfile::tempdir_in("/tmp") } else { tempfile::tempdir() }.unwrap();
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    (dir, path, move || net.forward(&weights, &PROMPT))
}

/// The number of the system's error where saved bytes end early.
pub const ENDED: i32 = 5;

/// A cache as it is saved.
pub fn saved_bytes(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    saved::save(session, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    bytes
}

/// A cache from saved bytes.
pub fn restored(model: &Arc<Model>, params: &RestoreParams, mut bytes: &[u8]) -> Result<Session> {
    saved::load(model, params, &mut |out| {
        let ended = std::io::Error::from_raw_os_error(ENDED);
        let (now, rest) = bytes.split_at_checked(out.len()).ok_or(Error::io(Path::new("test"), "ended", &ended))?;
        out.copy_from_slice(now);
        bytes = rest;
        Ok(())
    })
}
