//! The targets of `fuzz/`, compiled with the tests and run on their seeds, so that interface changes fail here. This
//! crate replaces `libfuzzer_sys` (`main.rs`) with a macro that turns a target into a function.
#![allow(unsafe_code, unused_attributes, clippy::duplicate_mod, reason = "each is the root of a crate there")]

use std::fs;
use std::path::Path;

/// Declares each target, a file of `fuzz/fuzz_targets` with modules beside it, and lists them.
macro_rules! targets {
    ($($name:ident $file:literal,)+) => {
        $(
            #[path = $file]
            mod $name;
        )+

        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::run),)+];
    };
}

targets! {
    adapter "../../fuzz/fuzz_targets/adapter.rs",
    bmp "../../fuzz/fuzz_targets/bmp.rs",
    calls "../../fuzz/fuzz_targets/calls.rs",
    flac "../../fuzz/fuzz_targets/flac.rs",
    gguf "../../fuzz/fuzz_targets/gguf.rs",
    gif "../../fuzz/fuzz_targets/gif.rs",
    grammar "../../fuzz/fuzz_targets/grammar.rs",
    jpeg "../../fuzz/fuzz_targets/jpeg.rs",
    mp3 "../../fuzz/fuzz_targets/mp3.rs",
    ogg "../../fuzz/fuzz_targets/ogg.rs",
    packed "../../fuzz/fuzz_targets/packed.rs",
    png "../../fuzz/fuzz_targets/png.rs",
    reply "../../fuzz/fuzz_targets/reply.rs",
    safetensors "../../fuzz/fuzz_targets/safetensors.rs",
    saved "../../fuzz/fuzz_targets/saved.rs",
    sizing "../../fuzz/fuzz_targets/sizing.rs",
    template "../../fuzz/fuzz_targets/template.rs",
    tokenizer "../../fuzz/fuzz_targets/tokenizer.rs",
    wav "../../fuzz/fuzz_targets/wav.rs",
    webp "../../fuzz/fuzz_targets/webp.rs",
}

// The macro follows the targets, which find it by their imports.
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
