//! Models of tests, loaded on the CPU, and their sessions.

use std::path::Path;
use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::engine::{CacheParams, LoadOptions, LoadParams, Model, Runtime, RuntimeParams, Session};
use realizar::error::Result;
use realizar::quant;

use super::gguf::Gguf;
use super::save::logits_of_each;
use super::tiny::PROMPT;

/// Options of a load on the CPU.
pub fn cpu<'a>() -> LoadOptions<'a> {
    LoadOptions { device: 1, ..Default::default() }
}

pub fn runtime(threads: u32) -> Arc<Runtime> {
    Runtime::new(RuntimeParams { threads, ..Default::default() }).unwrap()
}

/// A load in a runtime.
pub fn on<'a>(runtime: Arc<Runtime>, options: LoadOptions<'a>) -> LoadParams<'a> {
    LoadParams { runtime: Some(runtime), options, ..Default::default() }
}

pub fn load(path: &Path) -> Arc<Model> {
    Model::load(path, cpu()).unwrap()
}

/// A model that computes with so many threads.
pub fn load_threads(path: &Path, threads: u32) -> Arc<Model> {
    Model::load(path, on(runtime(threads), cpu())).unwrap()
}

/// A model that computes with so many threads and an instruction set; `None`: the fastest.
pub fn load_isa(path: &Path, threads: u32, isa: Option<Isa>) -> Arc<Model> {
    Model::load(path, LoadParams { isa, ..on(runtime(threads), cpu()) }).unwrap()
}

/// A model of a file, which lasts as long as the load.
pub fn load_file(file: &Gguf, threads: u32) -> Result<Arc<Model>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, file.build().0).unwrap();
    Model::load(&path, on(runtime(threads), cpu()))
}

/// The logits after each token of the prompt.
pub fn logits(path: &Path) -> Vec<Vec<f32>> {
    logits_of_each(&load(path), 0, None)
}

/// Parameters of a cache that rounds nothing.
pub fn exact() -> CacheParams {
    CacheParams { k_type: quant::F32, v_type: quant::F32, ..Default::default() }
}

pub fn session(model: &Arc<Model>) -> Session {
    Session::new(model, &CacheParams::default()).unwrap()
}

/// Appends the prompt piece by piece; the logits after each.
pub fn logits_in_pieces(session: &mut Session, piece: usize) -> Vec<Vec<f32>> {
    let pieces = PROMPT.chunks(piece).map(|tokens| {
        session.prefill(tokens, None).unwrap();
        session.logits().unwrap().to_vec()
    });
    pieces.collect()
}
