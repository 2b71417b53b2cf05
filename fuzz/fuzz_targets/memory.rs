//! Models whose files are in memory.
// Each target uses some of these functions.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use realizar::engine::{LoadOptions, LoadParams, Model, Runtime, RuntimeParams};
use realizar::error::Result;
use realizar::format::ByteSource;
use realizar::tensor::DType;

/// Memory limit of a model and its caches, below the fuzzer's limit, so that the fuzzer finds memory that does not
/// count.
const MEMORY: u64 = 256 << 20;

static RUNTIME: LazyLock<Arc<Runtime>> = LazyLock::new(|| {
    Runtime::new(RuntimeParams { threads: 1, memory_limit: MEMORY, ..Default::default() }).expect("a runtime")
});

/// Loads a model from files with their names.
pub fn load(files: &[(&str, &[u8])], text_only: bool) -> Result<Arc<Model>> {
    load_with(files, LoadOptions { text_only, ..Default::default() })
}

/// Loads a model with a file of packed weights, quantized to a type.
pub fn load_packed(files: &[(&str, &[u8])], quantize: Option<DType>, packed: &Path) -> Result<Arc<Model>> {
    load_with(files, LoadOptions { quantize, packed_path: Some(packed), ..Default::default() })
}

fn load_with(files: &[(&str, &[u8])], options: LoadOptions) -> Result<Arc<Model>> {
    let sources: Vec<ByteSource> = files
        .iter()
        .map(|(name, bytes)| {
            let bytes: Arc<[u8]> = (*bytes).into();
            let len = bytes.len() as u64;
            let read = move |offset: u64, out: &mut [u8]| {
                let start = offset as usize;
                out.copy_from_slice(&bytes[start..start + out.len()]);
                Ok(())
            };
            ByteSource { name: name.into(), len, read: Arc::new(read), file: None }
        })
        .collect();
    Model::load_from(
        &sources,
        LoadParams {
            runtime: Some(RUNTIME.clone()),
            options: LoadOptions { device: 1, ..options },
            ..Default::default()
        },
    )
}

/// A new folder for the files of this process.
pub fn folder(target: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("realizar-fuzz-{target}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a folder");
    path
}
