//! C programs against the shared library: loading and unloading it, and threads.

use std::path::Path;
use std::process::{Command, Output};

use super::c;
use super::host::with_template;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf");

/// Compiles `tests/c/NAME.c`, links it to the library and runs it. `None` where there is no compiler.
fn run(name: &str, arguments: &[&Path]) -> Option<Output> {
    if std::env::var_os("RUNNER").is_some() {
        eprintln!("SKIPPED: an emulator starts no programs; scripts/test-on has some of its own");
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join(name);
    // Linked programs ask for the library by its soname.
    let soname = format!("librealizar.so.{}", realizar::ffi::version::RZ_ABI_VERSION);
    for link in ["librealizar.so", &soname] {
        std::os::unix::fs::symlink(c::library(), folder.path().join(link)).expect("a link");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let compiled = Command::new("cc")
        .args(c::STRICT)
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-I", c::INCLUDE])
        .arg(&source)
        .args([Path::new("-L"), folder.path(), Path::new("-lrealizar"), Path::new("-ldl"), Path::new("-o"), &program])
        .arg(format!("-Wl,-rpath,{}", folder.path().display()))
        .output();
    let Ok(compiled) = compiled else {
        eprintln!("SKIPPED: no cc was found");
        return None;
    };
    assert!(compiled.status.success(), "{name}.c:\n{}", String::from_utf8_lossy(&compiled.stderr));
    Some(Command::new(&program).args(arguments).output().expect("the program starts"))
}

fn passes(name: &str, arguments: &[&Path]) {
    if let Some(output) = run(name, arguments) {
        assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "the library prints nothing: {output:?}");
    }
}

#[test]
fn a_library_can_be_loaded_used_and_let_go() {
    let model = with_template("{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    passes("unload", &[&c::library(), model.path(), Path::new("200")]);
}

#[test]
fn threads_share_a_model_and_contend_for_a_cache() {
    passes("threads", &[Path::new(MODEL)]);
}

#[test]
fn children_and_signals_disturb_no_call() {
    let model = with_template("{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    passes("process", &[model.path(), Path::new("400")]);
}

#[test]
fn the_process_belongs_to_the_host() {
    passes("guest", &[Path::new(MODEL)]);
}

/// Writes tools, and calls of them as Qwen's models do.
const TOOLS: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\
    {% for t in m.tool_calls or [] %}<tool_call>\n{{ t.function | tojson }}\n</tool_call>{% endfor %}</s>{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

#[test]
fn a_runtime_of_one_thread_makes_one_at_the_load() {
    let model = with_template(TOOLS);
    passes("own_threads", &[model.path()]);
}
