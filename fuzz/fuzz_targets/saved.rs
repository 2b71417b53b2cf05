//! A saved cache: a real one, XORed with the input. The checksums are corrected, so that the code after their
//! validation is reached.
#![no_main]

mod memory;

use std::hash::Hasher;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::saved::{self, RestoreParams};
use realizar::engine::{CacheParams, Model, Session};
use twox_hash::XxHash64;

/// Number of bytes of the header before its checksum.
const HEAD: usize = 128;

/// The tiny model, and a saved cache of it.
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
            // The header, followed by its checksum.
            _ if is_head => {
                let (words, checksum) = out.split_at_mut(HEAD);
                fill(words);
                checksum.copy_from_slice(&XxHash64::oneshot(0, words).to_ne_bytes());
                at += checksum.len();
            }
            // The checksum of the rest has this length; other chunks hardly ever do.
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
