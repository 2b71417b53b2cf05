//! The library as WebAssembly: a model that Node loads from memory gives the bits of this machine and the text of the
//! trained model. `make test-wasm` builds the library and passes its path.

use std::env;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::support::models;

const PROMPT: &str = "Once upon a time";
const STORY: &str = ", there was a little girl named Lily.";

/// The bits of the logits after each token of the prompt, a line each.
fn logits(model: &Path) -> String {
    let model = models::load(model);
    let (mut tokens, mut lines) = (Vec::new(), String::new());
    model.tokenizer().unwrap().encode(PROMPT, true, false, &mut tokens).unwrap();
    let mut session = models::session(&model);
    for token in tokens {
        session.prefill(&[token], None).unwrap();
        for byte in session.logits().unwrap().iter().flat_map(|x| x.to_le_bytes()) {
            write!(lines, "{byte:02x}").unwrap();
        }
        lines.push('\n');
    }
    lines
}

#[test]
fn a_model_from_memory_has_the_same_bits_in_webassembly() {
    let Some(library) = env::var_os("REALIZAR_WASM") else {
        return eprintln!("SKIPPED: WebAssembly, because REALIZAR_WASM is not set (make test-wasm)");
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let model = root.join("tests/data/stories260K-f32.gguf");
    let program = root.join("tests/wasm/logits.mjs");
    let output = Command::new("node").arg(program).arg(library).arg(&model).arg(PROMPT).output();
    let output = output.expect("node, which the make target looks for");
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let story = text.strip_prefix(&logits(&model)).expect("the bits of this machine");
    assert!(story.starts_with(STORY), "{story}");
}
