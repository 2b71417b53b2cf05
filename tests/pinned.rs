//! Logits of tiny random networks of every architecture, pinned to the bit: whatever moves inside the engine must not
//! change them. The hashes hold for processors with a fused multiply-add; plain Rust rounds twice where those round once.

mod support;

#[path = "support/save.rs"]
mod save;

use realizar::backend::cpu::kernels::Isa;
use realizar::engine::{CacheParams, LoadParams, Model, Session};
use realizar::quant;
use save::save;
use support::reference::relative_rms;
use support::tiny::{self, PROMPT, Tiny};

/// FNV-1a over the bits of the logits after each token of the prompt, by architecture, of weights in F32, Q4_0 and F16.
const HASHES: &[(&str, [u64; 3])] = &[
    ("llama", [0x812609ae8cdf1d36, 0xb950a9909acf0ec1, 0x9bc71aa928554325]),
    ("llama with experts", [0x1b524018592cda98, 0x995723cf4a2c5372, 0x2f1c4965bcee7043]),
    ("qwen2", [0xb27b26df16646863, 0xcc52e729b64da1e3, 0xd8cb68cf0c57b380]),
    ("qwen3", [0x01ab7bd3f941cbf3, 0x04aa7a17e50d21ef, 0xe6ad2d03066d3c60]),
    ("qwen3moe", [0xc628a0a1b72bd6e0, 0x9469aa82857edf51, 0x39de9e6e9d363dd6]),
    ("gemma", [0x9d1f624ab92ed6d0, 0x86dd9373769284ff, 0xdcc6c4e0e40a1e14]),
    ("gemma2", [0xcc1ac0e6cd79bcae, 0x644425a40ca24139, 0x47829c600da732f1]),
    ("gemma3", [0xa963d7ebbf762533, 0x8fdfb362d4f210d9, 0x82f5e7f9dfa2d8b0]),
    ("phi3", [0x497c63e0780c20b6, 0x7b7fbab0ca9d9362, 0x5747c61a515f1195]),
    ("gpt2", [0x011e622e7e7b9c27, 0x58cf21a084a0ccf2, 0x0df6b5f798bc2034]),
    ("starcoder2", [0x8fc82bb5ce4f62f1, 0xc2169b7b0e474400, 0x9e8c34077c688650]),
    ("olmo2", [0xaaa72da4c31d4e24, 0x718f2019fd34b51f, 0xbd043f97edb69794]),
    ("granite", [0xc566c40b0a6334f2, 0x1698ff21fca5686e, 0xe46e3575155acf57]),
    ("smollm3", [0xe89e079fe49e787a, 0x98f326c0f2eae4e6, 0x87402dcb0f3ad943]),
];

fn hash(tiny: &Tiny) -> u64 {
    let (_dir, path, expected) = save(tiny);
    let model = Model::load(&path, LoadParams { device: 1, ..Default::default() }).unwrap();
    let mut session = Session::new(&model, &CacheParams::default()).unwrap();
    let logits = PROMPT.map(|token| {
        session.prefill(&[token], None).unwrap();
        session.logits().unwrap().to_vec()
    });
    // What is pinned is right as well, where weights are not rounded.
    assert!(tiny.dtype != quant::F32 || relative_rms(&expected, &logits) < 5e-2);
    let bytes = logits.iter().flatten().flat_map(|x| x.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn logits_are_the_same_bits_as_ever() {
    if Isa::detect() == Isa::Scalar {
        println!("SKIPPED: the pinned logits, because this processor has no fused multiply-add");
        return;
    }
    let networks =
        [quant::F32, quant::Q4_0, quant::F16].map(|dtype| tiny::architectures(|name| Tiny::new(name, dtype)));
    let [floats, quants, halves] = &networks;
    let mut found = Vec::new();
    for (((name, a), (_, b)), (_, c)) in floats.iter().zip(quants).zip(halves) {
        let hashes = [hash(a), hash(b), hash(c)];
        println!("    ({name:?}, [{:#018x}, {:#018x}, {:#018x}]),", hashes[0], hashes[1], hashes[2]);
        found.push((*name, hashes));
    }
    assert_eq!(found, HASHES);
}
