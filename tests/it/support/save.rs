//! A tiny model as a file, and saved sessions as bytes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use realizar::engine::saved::{self, RestoreParams};
use realizar::engine::{Adapter, CacheParams, LoadOptions, Model, Session};
use realizar::error::{Error, Result};
use realizar::quant;

use super::tiny::{PROMPT, Tiny};

/// The text part of a published model.
pub static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf"));
    Model::load(path, LoadOptions { text_only: true, ..Default::default() }).unwrap()
});

/// Returns the file's folder, the file, and a function that computes the reference's logits after each prompt token.
pub fn save(tiny: &Tiny) -> (tempfile::TempDir, PathBuf, impl Fn() -> Vec<Vec<f64>> + use<>) {
    let (bytes, net, weights) = tiny.build();
    // WebAssembly has no default for the folder.
    let dir = if cfg!(target_family = "wasm") { tempfile::tempdir_in("/tmp") } else { tempfile::tempdir() }.unwrap();
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    (dir, path, move || net.forward(&weights, &PROMPT))
}

/// Returns the logits after the prompt.
pub fn logits_of(model: &Arc<Model>) -> Vec<f32> {
    let params = CacheParams { k_type: quant::F32, v_type: quant::F32, ..Default::default() };
    let mut session = Session::new(model, &params).unwrap();
    session.prefill(&PROMPT, None).unwrap();
    session.logits().unwrap().to_vec()
}

/// Returns the logits after each token of the prompt, one token at a time.
pub fn logits_of_each(model: &Arc<Model>, capacity: u32, adapter: Option<&Path>) -> Vec<Vec<f32>> {
    let params = CacheParams { k_type: quant::F32, v_type: quant::F32, capacity };
    let mut session = Session::new(model, &params).unwrap();
    let adapters: Vec<_> = adapter.into_iter().map(|path| Adapter::load(model, path, None).unwrap()).collect();
    session.set_adapters(&adapters, &vec![1.0; adapters.len()]).unwrap();
    let mut one = |token: &u32| {
        session.prefill(&[*token], None).unwrap();
        session.logits().unwrap().to_vec()
    };
    PROMPT.iter().map(&mut one).collect()
}

/// The system error code for saved bytes that are truncated.
pub const ENDED: i32 = 5;

/// Returns a session as it is saved.
pub fn saved_bytes(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    saved::save(session, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    bytes
}

/// Restores a session from saved bytes.
pub fn restored(model: &Arc<Model>, params: &RestoreParams, mut bytes: &[u8]) -> Result<Session> {
    saved::load(model, params, &mut |out| {
        let ended = std::io::Error::from_raw_os_error(ENDED);
        let (now, rest) = bytes.split_at_checked(out.len()).ok_or(Error::io(Path::new("test"), "ended", &ended))?;
        out.copy_from_slice(now);
        bytes = rest;
        Ok(())
    })
}
