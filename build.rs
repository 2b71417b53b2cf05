//! Writes `include/realizar.h` from the doc comments and signatures in `src/ffi`, writes its declarations in the
//! languages of bindings, compiles the CUDA kernels, and sets the name of the shared library.
//!
//! cbindgen writes each group's declarations; this file has the order of the groups, their titles, and the text around
//! the declarations.

#[path = "generators/bindings.rs"]
mod bindings;
#[path = "generators/cpp.rs"]
mod cpp;
#[path = "generators/cuda.rs"]
mod cuda;
#[path = "generators/header.rs"]
mod header;
#[path = "generators/js.rs"]
mod js;
#[path = "generators/objects.rs"]
mod objects;
#[path = "generators/options.rs"]
mod options;
#[path = "generators/print.rs"]
mod print;
#[path = "generators/results.rs"]
mod results;
#[path = "generators/statuses.rs"]
mod statuses;
#[path = "generators/types.rs"]
mod types;

use std::path::{Path, PathBuf};
use std::{env, fs};

use header::Group;

/// The groups of the header: a file of `src/ffi`, and its title.
const GROUPS: [(&str, &str); 40] = [
    ("status.rs", "Status codes and errors"),
    ("version.rs", "Version"),
    ("allocator.rs", "Memory allocation"),
    ("device.rs", "Devices"),
    ("runtime.rs", "Runtime: thread pool, log, memory ceiling"),
    ("cancel.rs", "Cancellation and deadlines"),
    ("element.rs", "Element types"),
    ("placement.rs", "Expert offload"),
    ("model.rs", "Models"),
    ("model_info.rs", "Model information"),
    ("source.rs", "Models from memory, file descriptors and callbacks"),
    ("hub.rs", "Models of the Hugging Face Hub"),
    ("text.rs", "Tokenization"),
    ("chat.rs", "Chat templates"),
    ("reply.rs", "Reply parsing: reasoning and tool calls"),
    ("sampler.rs", "Sampling"),
    ("grammar.rs", "Constrained decoding: grammars and JSON schemas"),
    ("cache.rs", "KV caches"),
    ("adapter.rs", "LoRA adapters"),
    ("saved.rs", "Saved KV caches"),
    ("plan.rs", "Memory planning"),
    ("generate.rs", "Generation: prefill and decode"),
    ("media.rs", "Multimodal input"),
    ("encoder.rs", "Vision and audio encoders, images"),
    ("sound.rs", "Audio"),
    ("video.rs", "Video"),
    ("media_steps.rs", "Media in time slices"),
    ("prompt.rs", "Multimodal prompts"),
    ("job.rs", "Jobs: time slices, continuous batching, speculative decoding"),
    ("store.rs", "Prefix cache (prompt cache)"),
    ("conversation.rs", "Conversations"),
    ("conversation_say.rs", "A message and its reply in one call"),
    ("conversation_set.rs", "Conversations between replies"),
    ("conversation_saved.rs", "Saved conversations"),
    ("conversation_media.rs", "Media of conversations"),
    ("score.rs", "Log probabilities"),
    ("embed.rs", "Embeddings and reranking"),
    ("metrics.rs", "Metrics"),
    ("kernels.rs", "Kernels on caller-owned memory"),
    ("layout.rs", "Layouts of structs"),
];

const OVERVIEW: &str = include_str!("src/ffi/overview.h");

/// `RZ_API` and other macros. `{0}` causes warnings in C++, and `{}` is not valid in C before C23.
const MACROS: &str = include_str!("src/ffi/macros.h");

/// The text around the declarations. Clang warns about its own nullability extension, and about pointers to pointers,
/// to which its pragma does not apply.
const BEGIN: &str = "\
#ifdef __cplusplus
extern \"C\" {
#endif

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored \"-Wnullability-extension\"
#pragma clang diagnostic ignored \"-Wnullability-completeness\"
#pragma clang assume_nonnull begin
#endif
";

const END: &str = "
#ifdef __clang__
#pragma clang assume_nonnull end
#pragma clang diagnostic pop
#endif

#ifdef __cplusplus
} /* extern \"C\" */
#endif

#endif /* REALIZAR_H */
";

const RULE: &str = "------------------------------------------------------------------------------------------------";

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cbindgen.toml");
    println!("cargo:rerun-if-changed=src/ffi");
    println!("cargo:rerun-if-env-changed=CI");
    println!("cargo:rerun-if-env-changed=REALIZAR_CUDA_TARGETS");

    let texts = GROUPS.map(|(file, title)| (file, title, declarations(&root, file)));
    let groups = texts.iter().map(|(file, title, text)| Group::read(file, title, text)).collect::<Vec<_>>();
    let header = header(&texts, &groups);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo:rustc-check-cfg=cfg(cuda)");
    if has_cuda() {
        println!("cargo:rustc-cfg=cuda");
        cuda::build(&root, &out);
    }
    generated(&root, "include/realizar.h", &header, &out);
    generated(&root, "bindings/header.json", &header::json(&overview_text(), &groups), &out);
    fs::write(out.join("layouts.rs"), header::layouts(&groups)).expect("OUT_DIR is writable");
    let bound = bindings::Header::of(&groups);
    for (file, write) in bindings::FILES {
        generated(&root, file, &write(&bound), &out);
    }
    let types = types::all(&bound);
    for (file, write) in types::FILES {
        generated(&root, file, &write(&types), &out);
    }
    for (file, write) in results::FILES {
        generated(&root, file, &write(&bound), &out);
    }
    let statuses = statuses::all(&bound);
    for (file, write) in statuses::FILES {
        generated(&root, file, &write(&statuses), &out);
    }
    generated(&root, objects::FILE, &objects::csharp(), &out);
    generated(&root, cpp::FILE, &cpp::cpp(&bound), &out);
    for (file, write) in js::FILES {
        generated(&root, file, &write(&bound), &out);
    }
    let options = options::groups(&bound);
    for &(file, write) in options::FILES {
        generated(&root, file, &write(&options), &out);
    }

    let abi = header.lines().find_map(|line| line.strip_prefix("#define RZ_ABI_VERSION ")).expect("src/ffi/version.rs");
    match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos" | "ios") => println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/librealizar.{abi}.dylib"),
        Ok("linux" | "android") => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librealizar.so.{abi}");
            // One of the crates has its own C interface.
            println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
        }
        // A host outside of WebAssembly can pass only memory of the module, and calls functions through the table.
        Ok("wasi") => {
            for argument in ["--export=malloc", "--export=free", "--export-table", "-zstack-size=8388608"] {
                println!("cargo:rustc-cdylib-link-arg={argument}");
            }
        }
        _ => {}
    }
}

/// Writes a generated file to `OUT_DIR`, and updates its committed copy. On a build server the copy is not updated, so
/// that the test that compares the two can fail; nor in a read-only package.
fn generated(root: &Path, file: &str, text: &str, out: &Path) {
    let committed = root.join(file);
    if committed.exists() {
        println!("cargo:rerun-if-changed={file}");
    }
    fs::write(out.join(committed.file_name().expect("a file")), text).expect("OUT_DIR is writable");
    if env::var_os("CI").is_none() && fs::read_to_string(&committed).ok().as_deref() != Some(text) {
        let _ = fs::write(&committed, text);
    }
}

/// True if NVIDIA has drivers for the target system, by the condition of the dependencies in `Cargo.toml`. With
/// `REALIZAR_CUDA_TARGETS=none` every target is built like a system without drivers, so that this can be tested.
fn has_cuda() -> bool {
    if env::var("REALIZAR_CUDA_TARGETS").is_ok_and(|targets| targets == "none") {
        return false;
    }
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    target("POINTER_WIDTH") == "64" && ["linux", "windows"].contains(&target("OS").as_str())
}

fn header(texts: &[(&str, &str, String)], groups: &[Group]) -> String {
    let handles = header::handles(groups);
    let mut header = OVERVIEW.to_owned();
    header.push_str("#ifndef REALIZAR_H\n#define REALIZAR_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n");
    header.push_str(MACROS);
    header.push_str(BEGIN);
    for ((_, title, text), group) in texts.iter().zip(groups) {
        header.push_str(&format!("\n/* {RULE}\n * {title}\n * {RULE} */\n\n"));
        header.push_str(print::printed(text, group, &handles).trim());
        header.push('\n');
    }
    header + END
}

/// Returns the version macros, which programs can compare at compile time.
fn version() -> String {
    let mut text = String::new();
    let mut number = 0;
    for part in ["MAJOR", "MINOR", "PATCH"] {
        let value = env::var(format!("CARGO_PKG_VERSION_{part}")).expect("set by cargo");
        number = number * 1000 + value.parse::<u32>().expect("a number");
        let name = part.to_lowercase();
        text += &format!("// The {name} version of this header.\n#define RZ_VERSION_{part} {value}\n");
    }
    // A number, not an expression, for tools that read only numbers.
    let comment = "1,000,000 times the major, 1,000 times the minor, and the patch version of this header.";
    text + &format!("// {comment}\n#define RZ_VERSION_NUMBER {number}\n\n")
}

/// Returns the text of the comment at the head of the header.
fn overview_text() -> String {
    let lines = OVERVIEW.trim().trim_start_matches("/*").trim_end_matches("*/").lines();
    let lines = lines.map(|line| line.trim_start().trim_start_matches('*'));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect::<Vec<_>>().join("\n")
}

/// Returns the C declarations of a file of `src/ffi`, with `//` comments.
fn declarations(root: &Path, file: &str) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/ffi").join(file))
        .generate()
        .unwrap_or_else(|e| panic!("src/ffi/{file}: {e}"));
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = tagged(&String::from_utf8(text).expect("cbindgen writes UTF-8"));
    // As numbers, which every tool that reads the header knows.
    let greatest =
        [("(UINT32_MAX - 1)", "0xFFFFFFFE"), ("UINT32_MAX", "0xFFFFFFFF"), ("UINT64_MAX", "0xFFFFFFFFFFFFFFFF")];
    let text = greatest.iter().fold(text, |text, (name, number)| text.replace(name, number));
    if file == "version.rs" { version() + &text } else { text }
}

/// Gives each struct its name as a tag too, so that programs can forward-declare it.
fn tagged(text: &str) -> String {
    let mut parts = text.split("typedef struct {");
    let mut tagged = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, name) = part.split_once("\n} ").expect("a struct ends");
        let (name, _) = name.split_once(';').expect("a struct has a name");
        tagged.push_str(&format!("typedef struct {name} {{{part}"));
    }
    tagged
}
