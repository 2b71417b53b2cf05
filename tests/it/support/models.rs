//! Models for tests, loaded on the CPU, and their sessions.

use std::path::Path;
use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::engine::{CacheParams, LoadOptions, LoadParams, Model, Runtime, RuntimeParams, Session};
use realizar::error::Result;
use realizar::quant;

use super::gguf::Gguf;
use super::save::logits_of_each;
use super::tiny::PROMPT;

/// Returns the options of a load on the CPU.
pub fn cpu<'a>() -> LoadOptions<'a> {
    LoadOptions { device: 1, ..Default::default() }
}

pub fn runtime(threads: u32) -> Arc<Runtime> {
    Runtime::new(RuntimeParams { threads, ..Default::default() }).unwrap()
}

/// Returns the parameters of a load in a runtime.
pub fn on<'a>(runtime: Arc<Runtime>, options: LoadOptions<'a>) -> LoadParams<'a> {
    LoadParams { runtime: Some(runtime), options, ..Default::default() }
}

pub fn load(path: &Path) -> Arc<Model> {
    Model::load(path, cpu()).unwrap()
}

/// Loads a model that computes with this number of threads.
pub fn load_threads(path: &Path, threads: u32) -> Arc<Model> {
    Model::load(path, on(runtime(threads), cpu())).unwrap()
}

/// Loads a model for this number of threads and this instruction set; `None`: the fastest.
pub fn load_isa(path: &Path, threads: u32, isa: Option<Isa>) -> Arc<Model> {
    Model::load(path, LoadParams { isa, ..on(runtime(threads), cpu()) }).unwrap()
}

/// Loads a model from a file that exists only during the load.
pub fn load_file(file: &Gguf, threads: u32) -> Result<Arc<Model>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, file.build().0).unwrap();
    Model::load(&path, on(runtime(threads), cpu()))
}

/// Returns the logits after each token of the prompt.
pub fn logits(path: &Path) -> Vec<Vec<f32>> {
    logits_of_each(&load(path), 0, None)
}

/// Returns the parameters of an unquantized KV cache.
pub fn exact() -> CacheParams {
    CacheParams { k_type: quant::F32, v_type: quant::F32, ..Default::default() }
}

pub fn session(model: &Arc<Model>) -> Session {
    Session::new(model, &CacheParams::default()).unwrap()
}

/// Appends the prompt piece by piece; returns the logits after each piece.
pub fn logits_in_pieces(session: &mut Session, piece: usize) -> Vec<Vec<f32>> {
    let pieces = PROMPT.chunks(piece).map(|tokens| {
        session.prefill(tokens, None).unwrap();
        session.logits().unwrap().to_vec()
    });
    pieces.collect()
}
