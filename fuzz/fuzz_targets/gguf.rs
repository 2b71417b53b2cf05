//! A GGUF file. The target loads it; if that succeeds, it computes a few tokens and tokenizes text.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use realizar::engine::{CacheParams, Session};

fuzz_target!(|data: &[u8]| {
    let Ok(model) = memory::load(&[("model.gguf", data)], false) else { return };
    if let Ok(tokenizer) = model.tokenizer() {
        let mut ids = Vec::new();
        let _ = tokenizer.encode("Once upon a time, größe <s>", true, true, &mut ids);
        let _ = tokenizer.decode(&ids, true);
    }
    let Ok(mut session) = Session::new(&model, &CacheParams { capacity: 16, ..Default::default() }) else { return };
    let vocabulary = model.info().vocab_size.max(1);
    let _ = session.prefill(&[1 % vocabulary, 2 % vocabulary, 0], None);
});
