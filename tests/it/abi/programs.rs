//! C programs against the shared library: loading and unloading it, and threads.

use std::path::Path;
use std::process::{Command, Output};

use super::c;
use super::host::with_template;
use crate::support::interface;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf");

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c");

/// Runs `tests/c/NAME.c`.
fn run(name: &str, arguments: &[&Path]) -> Option<Output> {
    let source = Path::new(FOLDER).join(format!("{name}.c"));
    run_source(name, &std::fs::read_to_string(source).expect("a source"), arguments)
}

/// Compiles C, links it to the library and runs it. `None` where there is no compiler.
fn run_source(name: &str, text: &str, arguments: &[&Path]) -> Option<Output> {
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
    let source = folder.path().join(format!("{name}.c"));
    std::fs::write(&source, text).expect("a source file");
    let compiled = Command::new("cc")
        .args(c::STRICT)
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-I", c::INCLUDE, "-I", FOLDER])
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

/// Says a reply, and then the message that it has become.
const SPEAKING: &str = r#"
int main(int argc, char **argv) {
  static char json[1 << 16];
  size_t len;
  rz_error err;
  rz_model *model = NULL;
  rz_conversation *chat = NULL;
  RZ_INIT(rz_cache_params, cache);
  RZ_INIT(rz_conversation_params, params);
  cache.capacity = 64;
  params.cache = &cache;
  if (argc < 2 || rz_model_load(argv[1], NULL, &model, &err) < 0 ||
      rz_conversation_new(model, &params, &chat, &err) < 0 ||
      rz_conversation_add_text(chat, "user", "Hi", 2, &err) < 0 || speak(chat, &err) != RZ_DONE ||
      rz_conversation_json_into(chat, 1, json, sizeof json, &len, &err) < 0) {
    return 1;
  }
  fwrite(json, 1, len, stderr);
  rz_conversation_free(chat);
  rz_model_free(model);
  return 0;
}
"#;

/// The loop over the parts of a reply in the comment of rz_conversation_next_into, with its buffer and with one that
/// has to grow.
#[test]
fn the_loop_of_a_reply_in_the_header_says_the_message() {
    let functions = interface::items("function");
    let function = functions.iter().find(|function| function["name"] == "rz_conversation_next_into");
    let doc = function.map(|function| interface::text(function, "doc")).expect("a comment");
    let example: String =
        doc.lines().filter_map(|line| line.strip_prefix("    ")).map(|l| l.to_owned() + "\n").collect();
    let model = with_template("{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% endfor %}");
    for room in ["4096", "1"] {
        let example = example.replace("4096", room);
        let headers = "#include <realizar.h>\n#include <stdio.h>\n#include <stdlib.h>\n";
        let source = format!("{headers}rz_status speak(rz_conversation *chat, rz_error *err);\n{example}{SPEAKING}");
        let Some(output) = run_source("speaking", &source, &[model.path()]) else { return };
        assert!(output.status.success() && output.stdout.len() > 20, "{output:?}");
        let messages: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(messages[0]["content"].as_str().map(str::as_bytes), Some(&output.stdout[..]));
    }
}
