//! C programs against the shared library: loading and unloading it, and threads.

use std::path::Path;

use super::c;
use super::host::with_template;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf");

fn passes(name: &str, arguments: &[&Path]) {
    if let Some(output) = c::run(name, arguments) {
        assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "the library prints nothing: {output:?}");
    }
}

#[test]
fn a_library_can_be_loaded_used_and_let_go() {
    let model = with_template("{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    passes("unload", &[&c::library(), model.path()]);
}

#[test]
fn threads_share_a_model_and_contend_for_a_cache() {
    passes("threads", &[Path::new(MODEL)]);
}

#[test]
fn the_process_belongs_to_the_host() {
    passes("guest", &[Path::new(MODEL)]);
}
