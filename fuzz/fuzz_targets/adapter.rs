//! A LoRA adapter of the tiny model: a GGUF file, or, for PEFT, two bytes of length, `adapter_config.json` and a
//! safetensors file. The target loads it and computes a token with it.
#![no_main]

mod memory;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::{Adapter, CacheParams, Model, Session};

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    memory::load(&[("model.gguf", include_bytes!("../seeds/gguf/f32"))], false).expect("the tiny model")
});

/// The folder of this process.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| memory::folder("adapter"));

fuzz_target!(|data: &[u8]| {
    let path = if data.starts_with(b"GGUF") {
        let path = FOLDER.join("adapter.gguf");
        fs::write(&path, data).expect("written");
        path
    } else {
        let Some((length, rest)) = data.split_at_checked(2) else { return };
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
        let (config, tensors) = rest.split_at(length);
        fs::write(FOLDER.join("adapter_config.json"), config).expect("written");
        fs::write(FOLDER.join("adapter_model.safetensors"), tensors).expect("written");
        FOLDER.clone()
    };
    let Ok(adapter) = Adapter::load(&MODEL, &path, None) else { return };
    let params = CacheParams { capacity: 16, ..Default::default() };
    let mut session = Session::new(&MODEL, &params).expect("a session");
    if session.set_adapters(&[adapter], &[0.5]).is_ok() {
        session.prefill(&[1, 2], None).expect("computed");
        session.prefill(&[3], None).expect("computed");
    }
});
