//! A folder: the length of config.json, then config.json, then a safetensors file.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use realizar::engine::{CacheParams, Session};

fuzz_target!(|data: &[u8]| {
    let Some((length, rest)) = data.split_at_checked(2) else { return };
    let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
    let (config, tensors) = rest.split_at(length);
    let Ok(model) = memory::load(&[("config.json", config), ("model.safetensors", tensors)], false) else { return };
    let Ok(mut session) = Session::new(&model, &CacheParams { capacity: 16, ..Default::default() }) else { return };
    let _ = session.prefill(&[0, 0], None);
});
