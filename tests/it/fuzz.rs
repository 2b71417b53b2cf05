//! The targets of `fuzz/`, compiled with the tests and run on their seeds: what changes under them shows here.
//!
//! `libfuzzer_sys` is this crate here (`main.rs`), with a macro that makes a function of a target.
#![allow(unsafe_code, unused_attributes, clippy::duplicate_mod, reason = "each is the root of a crate there")]

use std::fs;
use std::path::Path;

#[path = "../../fuzz/fuzz_targets/adapter.rs"]
mod adapter;
#[path = "../../fuzz/fuzz_targets/bmp.rs"]
mod bmp;
#[path = "../../fuzz/fuzz_targets/calls.rs"]
mod calls;
#[path = "../../fuzz/fuzz_targets/flac.rs"]
mod flac;
#[path = "../../fuzz/fuzz_targets/gguf.rs"]
mod gguf;
#[path = "../../fuzz/fuzz_targets/gif.rs"]
mod gif;
#[path = "../../fuzz/fuzz_targets/grammar.rs"]
mod grammar;
#[path = "../../fuzz/fuzz_targets/jpeg.rs"]
mod jpeg;
#[path = "../../fuzz/fuzz_targets/mp3.rs"]
mod mp3;
#[path = "../../fuzz/fuzz_targets/ogg.rs"]
mod ogg;
#[path = "../../fuzz/fuzz_targets/packed.rs"]
mod packed;
#[path = "../../fuzz/fuzz_targets/png.rs"]
mod png;
#[path = "../../fuzz/fuzz_targets/reply.rs"]
mod reply;
#[path = "../../fuzz/fuzz_targets/safetensors.rs"]
mod safetensors;
#[path = "../../fuzz/fuzz_targets/saved.rs"]
mod saved;
#[path = "../../fuzz/fuzz_targets/sizing.rs"]
mod sizing;
#[path = "../../fuzz/fuzz_targets/template.rs"]
mod template;
#[path = "../../fuzz/fuzz_targets/tokenizer.rs"]
mod tokenizer;
#[path = "../../fuzz/fuzz_targets/wav.rs"]
mod wav;
#[path = "../../fuzz/fuzz_targets/webp.rs"]
mod webp;

// The macro stands behind the targets, which find it by their imports.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub fn run($data: &[u8]) {
            let run = || $body;
            run();
        }
    };
    (|$text:ident: &str| $body:expr) => {
        pub fn run(data: &[u8]) {
            let run = |$text: &str| $body;
            let _ = std::str::from_utf8(data).map(run);
        }
    };
}

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 20] = [
    ("adapter", adapter::run),
    ("bmp", bmp::run),
    ("calls", calls::run),
    ("flac", flac::run),
    ("gguf", gguf::run),
    ("gif", gif::run),
    ("grammar", grammar::run),
    ("jpeg", jpeg::run),
    ("mp3", mp3::run),
    ("ogg", ogg::run),
    ("packed", packed::run),
    ("png", png::run),
    ("reply", reply::run),
    ("safetensors", safetensors::run),
    ("saved", saved::run),
    ("sizing", sizing::run),
    ("template", template::run),
    ("tokenizer", tokenizer::run),
    ("wav", wav::run),
    ("webp", webp::run),
];

#[test]
fn targets_pass_their_seeds() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let listed = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    assert_eq!(listed.matches("[[bin]]").count(), TARGETS.len());
    for (name, run) in TARGETS {
        assert!(listed.contains(&format!("name = \"{name}\"")), "{name}");
        run(b"");
        for seed in fs::read_dir(fuzz.join("seeds").join(name)).into_iter().flatten() {
            let path = seed.unwrap().path();
            println!("{}", path.display());
            run(&fs::read(path).unwrap());
        }
    }
}
