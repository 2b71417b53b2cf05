//! A saved cache: the input is laid over a real one, and its checksums are right, so that what stands behind them is reached.
#![no_main]

mod memory;

use std::hash::Hasher;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::saved::{self, RestoreParams};
use realizar::engine::{CacheParams, Model, Session};
use twox_hash::XxHash64;

/// Bytes of the head ahead of its checksum.
const HEAD: usize = 128;

/// The tiny model, and a cache of it as it was saved.
static SAVED: LazyLock<(Arc<Model>, Vec<u8>)> = LazyLock::new(|| {
    let bytes = include_bytes!("../../tests/data/stories260K-f32.gguf");
    let model = memory::load(&[("model.gguf", bytes)], false).expect("the tiny model");
    let params = CacheParams { capacity: 64, ..Default::default() };
    let mut session = Session::new(&model, &params).expect("a session");
    session.prefill(&[1, 403, 407, 261, 378, 432, 383], None).expect("computed");
    let mut bytes = Vec::new();
    let saved = saved::save(&session, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    saved.expect("saved");
    (model, bytes)
});

fuzz_target!(|data: &[u8]| {
    let (model, real) = &*SAVED;
    let (mut at, mut input, mut hash) = (0, data.iter(), XxHash64::with_seed(0));
    let session = saved::load(model, &RestoreParams::default(), &mut |out| {
        let is_head = at == 0;
        let mut fill = |out: &mut [u8]| {
            for byte in out {
                *byte = real[at % real.len()] ^ input.next().copied().unwrap_or(0);
                at += 1;
            }
        };
        match out.len() {
            // The head with its checksum behind it.
            _ if is_head => {
                let (words, checksum) = out.split_at_mut(HEAD);
                fill(words);
                checksum.copy_from_slice(&XxHash64::oneshot(0, words).to_ne_bytes());
                at += checksum.len();
            }
            // The checksum of all the rest is of this length, and hardly anything else.
            8 => out.copy_from_slice(&hash.finish().to_ne_bytes()),
            _ => {
                fill(out);
                hash.write(out);
            }
        }
        Ok(())
    });
    if data.is_empty() {
        assert!(session.is_ok(), "the real one is refused");
    }
    if let Ok(mut session) = session {
        let _ = session.prefill(&[1], None);
    }
});
